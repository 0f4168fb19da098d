"""The figures of a study: one metric over another, a curve for each layering through its settings."""

import csv
from pathlib import Path

from analysis.metrics.catalogue import BY_KEY
from analysis.metrics.study import Estimate, estimate
from analysis.report.figures.plot import Figure, Spec, colour, dash, figure, logarithmic, places
from testbed.study.decide import incomplete
from testbed.study.results import Results, setting_words
from testbed.study.spec import FigureSpec, Side, StudySpec

Point = tuple[Side, Estimate, Estimate]

_COLUMNS = ("layering", "setting", "x", "x from", "x to", "y", "y from", "y to", "n")


def points(study: StudySpec, results: Results, wanted: FigureSpec) -> list[Point]:
    """Return what a figure shows: means and intervals of both metrics. Settings under which a layering lacks
    items are left out, unless the figure says why not.
    """
    found = []
    for side in study.sides_of(wanted):
        values = [results.by_seed(*side, metric) for metric in (wanted.x, wanted.y)]
        if all(values) and (wanted.despite or not incomplete(results, [side])):
            x, y = (estimate([*known.values()], study.confidence) for known in values)
            found.append((side, x, y))
    return sorted(found, key=lambda point: (point[0].layering, point[1].mean))


def trade(study: StudySpec, results: Results, name: str) -> Figure:
    """Return a figure of a study."""
    wanted = study.figures[name]
    known = points(study, results, wanted)
    place_of = places(list(dict.fromkeys(side.layering for side, _, _ in known)))
    data: list[Spec] = []
    for number, (layering, place) in enumerate(place_of.items()):
        own = [(x, y) for side, x, y in known if side.layering == layering]
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": layering,
                "meta": place,
                "x": [x.mean for x, _ in own],
                "y": [y.mean for _, y in own],
                "error_x": _bars([x for x, _ in own], place),
                "error_y": _bars([y for _, y in own], place),
                "line": {"color": colour(place), "width": 1.2, "dash": dash(place)},
                "marker": {"size": 7, "color": colour(place), "symbol": number},
            }
        )
    x_axis, y_axis = BY_KEY[wanted.x], BY_KEY[wanted.y]
    layout: Spec = {
        "xaxis": {"title": {"text": f"{x_axis.title}, {x_axis.unit}"}, **_axis([x for _, x, _ in known])},
        "yaxis": {"title": {"text": f"{y_axis.title}, {y_axis.unit}"}, **_axis([y for _, _, y in known])},
        "height": 360,
    }
    text = (
        f"{y_axis.title} over {x_axis.title}: a curve for each layering, through its settings, with intervals"
    )
    return figure(name, wanted.title, text, data, layout, _COLUMNS)


def _axis(values: list[Estimate]) -> Spec:
    """Return a logarithmic axis with room for intervals."""
    ends = [end for value in values for end in (value.mean, value.low, value.high) if end is not None]
    return logarithmic([{"ends": ends}], "ends")


def _bars(values: list[Estimate], place: int) -> Spec:
    halves = [value.half or 0.0 for value in values]
    return {"type": "data", "array": halves, "color": colour(place), "thickness": 1, "width": 2}


def write_figures(study: StudySpec, results: Results, directory: Path) -> list[str]:
    """Write the figures of a study as PDF, PNG and SVG, and their points as CSV; return the names."""
    from analysis.report.paper.drawing import write  # matplotlib is slow to import

    for name, wanted in study.figures.items():
        directory.mkdir(parents=True, exist_ok=True)
        for form, made in write(trade(study, results, name).spec, "single").items():
            (directory / f"{name}.{form}").write_bytes(made)
        with (directory / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(_COLUMNS)
            for side, x, y in points(study, results, wanted):
                words = setting_words(side.setting)
                writer.writerow((side.layering, words, x.mean, x.low, x.high, y.mean, y.low, y.high, x.n))
    return [*study.figures]
