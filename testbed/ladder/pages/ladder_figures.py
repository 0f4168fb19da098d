"""Plots of the ladder's models: a column of a table each, with its intervals, and the paper's figures."""

from collections.abc import Mapping
from typing import Any

from analysis.report.figures.plot import Figure, Spec, band, colour, figure, line, places

NAMES = ("model", "paper")
_LOGARITHMIC = {"in turn", "at once", "messages"}
_TICKS = (1, 1.5, 2, 3, 5, 10, 20)
_AXES = {"connectivity": {"type": "log", "tickvals": _TICKS, "ticktext": [f"{tick:g}" for tick in _TICKS]}}
_NOT_DRAWN = {"deviation", "hops", "inefficiency"}


def figures(table: Mapping[str, Any]) -> list[Figure]:
    """Return a plot of each column; for the table see testbed.ladder.pages.ladder.write_ladder."""
    columns = {name: title for name, title in table["columns"].items() if name not in _NOT_DRAWN}
    return [_column(table, name, title) for name, title in columns.items()]


def _column(table: Mapping[str, Any], column: str, title: str) -> Figure:
    cells = [cell for cell in table["cells"] if cell["column"] == column]
    x = [float(cell["row"]) for cell in cells]
    ours, paper = places(NAMES).values()
    data: list[Spec] = [
        band(ours, "interval", x, [cell["low"] for cell in cells], [cell["high"] for cell in cells]),
        line(ours, "model, mean", x, [cell["mean"] for cell in cells]),
    ]
    published = [cell for cell in cells if cell["paper"] is not None]
    if published:
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": "paper",
                "meta": paper,
                "x": [float(cell["row"]) for cell in published],
                "y": [cell["paper"] for cell in published],
                "marker": {"size": 7, "color": colour(paper), "symbol": "diamond"},
            }
        )
    layout: Spec = {
        "xaxis": {"title": {"text": table["row"]}} | _AXES.get(table["name"], {}),
        "yaxis": {"title": {"text": title}, "type": "log" if column in _LOGARITHMIC else "linear"},
        "showlegend": False,
    }
    name = f"ladder-{table['name']}-{column.replace(' ', '-')}"
    text = f"{table['title']}: {title} by {table['row']}, from {x[0]:g} to {x[-1]:g}"
    return figure(name, title[0].upper() + title[1:], text, data, layout, ("figure", table["row"], title))
