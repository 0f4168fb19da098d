"""Plots of the study of costs: measurements as points, formulas as lines, log-log."""

from collections.abc import Mapping, Sequence
from math import ceil, floor
from typing import Any

from analysis.report.figures.plot import (
    Figure,
    Menu,
    Spec,
    colour,
    figure,
    line,
    logarithmic,
    places,
    with_menus,
)

Row = Mapping[str, Any]
_DECADES = 1.5  # decades above which ticks at 2 and 5 are too many


def axis_figures(study: Mapping[str, Any], axis: str) -> list[Figure]:
    """Return a plot of each cost along an axis; for the study see testbed.ladder.pages.costs.write_costs."""
    points = [point for point in study["points"] if point["axis"] == axis]
    return [
        _cost(points, axis, study["axes"][axis], cost) for cost in dict.fromkeys(p["cost"] for p in points)
    ]


def _cost(points: Sequence[Row], axis: str, title: str, cost: str) -> Figure:
    rows = [point for point in points if point["cost"] == cost]

    def draw(who: str) -> tuple[list[Spec], Spec]:
        data: list[Spec] = []
        here = [row for row in rows if row["who"] == who]
        for rung, place in places([*dict.fromkeys(row["rung"] for row in here)]).items():
            own = [row for row in here if row["rung"] == rung]
            best = [row["paper"] if row["ours"] is None else row["ours"] for row in own]
            x = [row["value"] for row in own]
            data.append(line(place, f"{rung}, formula", x, best, width=1.4))
            known = [row for row in own if row["mean"]]
            if known:
                data.append(_measured(place, f"{rung}, measured", known))
        layout: Spec = {
            "xaxis": {"title": {"text": title}, **_ticks(rows)},
            "yaxis": {"title": {"text": cost}, **_scale(data)},
            "showlegend": False,
        }
        return data, layout

    name = f"costs-{axis}-{cost}"
    text = f"{cost} of each rung by {title}: points measured, lines by formula"
    menu = Menu("of the", [*dict.fromkeys(row["who"] for row in rows)])
    return with_menus(name, cost.capitalize(), text, [menu], draw, ("rung", title, cost))


def _measured(place: int, name: str, rows: Sequence[Row]) -> Spec:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "meta": place,
        "x": [row["value"] for row in rows],
        "y": [row["mean"] for row in rows],
        "error_y": {
            "type": "data",
            # A logarithmic axis cannot draw a bar down to 0.
            "array": [min(row["error"], 0.95 * row["mean"]) for row in rows],
            "color": colour(place),
            "thickness": 1.2,
        },
        "marker": {"size": 6, "color": colour(place)},
    }


def _ticks(rows: Sequence[Row]) -> Spec:
    values = sorted({row["value"] for row in rows})
    return {"type": "log", "tickvals": values, "ticktext": [f"{value}" for value in values]}


def _scale(data: Sequence[Spec]) -> Spec:
    """Return a logarithmic axis; beyond some decades with a tick at each power of ten, as plots are small."""
    scale = logarithmic([*data], "y")
    low, high = scale.get("range", (0, 0))
    if scale.get("type") == "log" and high - low > _DECADES:
        powers = range(ceil(low), floor(high) + 1)
        scale |= {"tickvals": [10.0**power for power in powers], "ticktext": [f"{10.0**p:g}" for p in powers]}
    return scale


def ratio_figures(study: Mapping[str, Any]) -> list[Figure]:
    """Return the plot of EBT's cost relative to the hub, by swarm size."""
    ratios = [ratio for ratio in study["ratios"] if ratio["peers"] and ratio["measure"] == "paper bytes"]
    ratios = [ratio for ratio in ratios if ratio["phase"] != "rest"]
    if not ratios:
        return []
    data: list[Spec] = []
    for place, phase in enumerate(dict.fromkeys(ratio["phase"] for ratio in ratios)):
        own = [{**ratio, "value": ratio["peers"]} for ratio in ratios if ratio["phase"] == phase]
        drawn = _measured(place, phase, own) | {"mode": "lines+markers", "line": {"color": colour(place)}}
        del drawn["meta"]  # phases are not layerings, so the page's legend must not toggle them
        data.append(drawn)
    values = sorted({ratio["peers"] for ratio in ratios})
    top = max([study["factor"], *(ratio["mean"] + ratio["error"] for ratio in ratios)])
    layout: Spec = {
        "xaxis": {
            "title": {"text": "peers"},
            "type": "log",
            "tickvals": values,
            "ticktext": [f"{value}" for value in values],
        },
        "yaxis": {"title": {"text": "bytes of EBT / bytes of the hub"}, "range": [0, 1.1 * top]},
        "shapes": [
            {
                "type": "line",
                "xref": "paper",
                "x0": 0,
                "x1": 1,
                "y0": level,
                "y1": level,
                "line": {"color": "--faint", "width": 1, "dash": "dot"},
            }
            for level in (1, study["factor"])
        ],
        "showlegend": True,
    }
    text = "Bytes of EBT over those of an ideal hub, by peers, in each phase"
    return [figure("costs-ratio", "EBT over the hub", text, data, layout, ("phase", "peers", "ratio"))]
