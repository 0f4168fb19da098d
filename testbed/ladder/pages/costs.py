"""The page of the study of costs: a paper's formulas, compared with costs of the real protocols."""

from collections.abc import Iterator, Mapping, Sequence
from math import log
from pathlib import Path
from typing import Any

from analysis.report.page import page as render_page
from analysis.report.words.numbers import exponent, pretty
from base.files import write_whole
from testbed.ladder.pages.cost_figures import axis_figures, ratio_figures

Row = Mapping[str, Any]
_CONSTANT = 0.01  # slope over the number of peers, below which a ratio is called constant


def write_costs(path: Path, study: Mapping[str, Any], command: str) -> None:
    """Write the page. Raises OSError.

    The study has axes (name -> title), base (name -> value), confidence, seeds, phases and measures (name ->
    title), connections and factor of the hub's part, unchanged (a number of feeds); and the rows of
    testbed.ladder.run.Costs: points, slopes, talks and ratios, some possibly empty.
    """
    drawn = {axis: axis_figures(study, axis) for axis in dict.fromkeys(p["axis"] for p in study["points"])}
    ratios = ratio_figures(study)
    text = render_page(
        "costs.html",
        [*ratios, *(item for items in drawn.values() for item in items)],
        {},
        name="costs",
        title="The replication ladder: costs",
        layerings=[*dict.fromkeys(point["rung"] for point in study["points"])] or ["ebt"],
        compared="Rungs",
        command=command,
        package=__package__,
        study=study,
        confidence=f"{study['confidence']:.0%}",
        missing=max((point["missing"] for point in study["points"]), default=0),
        axes=[
            {
                "name": axis,
                "title": study["axes"][axis],
                "fixed": _fixed(study["base"], axis),
                "plots": drawn[axis],
                "slopes": [slope for slope in study["slopes"] if slope["axis"] == axis],
            }
            for axis in drawn
        ],
        formulas=list(_formulas(study["slopes"])),
        ratio_plots=ratios,
        sizes=sorted({ratio["peers"] for ratio in study["ratios"]} - {0}),
        ratios=list(_ratio_rows(study["ratios"])),
        verdict=_verdict(study),
    )
    write_whole(path, text)


def _fixed(base: Mapping[str, int], axis: str) -> str:
    """Return the fixed parameters, in words."""
    names = {"history": "messages of a feed at the start", "news": "more that are published"}
    return ", ".join(
        f"{pretty(value)} {names.get(name, name)}" for name, value in base.items() if name != axis
    )


def _formulas(slopes: Sequence[Row]) -> Iterator[Row]:
    """Yield each formula once, though each axis repeats it."""
    first = slopes[0]["axis"] if slopes else None
    yield from (slope for slope in slopes if slope["axis"] == first)


def _ratio_rows(ratios: Sequence[Row]) -> Iterator[tuple[str, str, dict[int, Row]]]:
    """Yield phase, measure, and the ratio at each size; the slope at 0."""
    by_row: dict[tuple[str, str], dict[int, Row]] = {}
    for ratio in ratios:
        by_row.setdefault((ratio["phase"], ratio["measure"]), {})[ratio["peers"]] = ratio
    for (phase, measure), known in by_row.items():
        yield phase, measure, known


def _verdict(study: Mapping[str, Any]) -> str:
    """Return EBT's cost relative to the hub, in words."""
    known = {(row["phase"], row["measure"], row["peers"]): row for row in study["ratios"]}
    sizes = sorted({row["peers"] for row in study["ratios"]} - {0})
    if not sizes:
        return ""
    least, most = sizes[-2:][0], sizes[-1]
    words = {"join": "when peers meet first", "live": "when each message is published alone"}
    words["return"] = "when peers come back"
    ratios = {phase: known[phase, "paper bytes", most] for phase in words}
    growths = [
        f"{ratios[phase]['mean']:.2f} ± {ratios[phase]['error']:.1g} {text}" for phase, text in words.items()
    ]
    grows = max(
        (
            log(ratios[phase]["mean"] / known[phase, "paper bytes", least]["mean"]) / log(most / least)
            for phase in words
        ),
        key=abs,
    )
    return (
        f"With {pretty(most)} peers, EBT sends this many times the hub’s bytes, if a message has 660 and an "
        f"element 60: {'; '.join(growths)}. From {pretty(least)} to {pretty(most)} peers no slope is steeper "
        f"than {exponent(grows)}: "
        + ("a constant factor." if abs(grows) < _CONSTANT else "not a constant factor.")
    )
