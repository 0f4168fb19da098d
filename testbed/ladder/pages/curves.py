"""Plots of models: curves with confidence bands."""

from collections.abc import Callable, Mapping, Sequence

from analysis.metrics.study import Estimate
from analysis.report.figures.plot import (
    Figure,
    Menu,
    Spec,
    band,
    figure,
    line,
    logarithmic,
    places,
    with_menus,
)

_WIDE = 1000
"""A wider axis has ticks at powers of ten only."""

Curve = Mapping[float, Estimate]
"""x -> estimate."""


def curves(
    name: str,
    title: str,
    axes: tuple[str, str],
    series: Sequence[str],
    menus: Sequence[Menu],
    find: Callable[..., Mapping[str, Curve]],
    *,
    logarithms: str = "",
    bounds: tuple[float, float] | None = None,
) -> Figure:
    """Return a plot of curves, each in the colour of its position in `series`.

    Args:
        name, title, axes: of the figure, the latter with units.
        menus: selectable options.
        find: takes an option of each menu and returns series -> curve.
        logarithms: the logarithmic axes, such as "xy".
        bounds: of the vertical axis; None for automatic.
    """
    place_of = places(series)

    def draw(*chosen: str) -> tuple[list[Spec], Spec]:
        data: list[Spec] = []
        for each, curve in find(*chosen).items():
            x = sorted(curve)
            known = [curve[at] for at in x]
            if all(estimate.low is not None for estimate in known):
                lows = [max(estimate.low or 0.0, 0.0) for estimate in known]
                highs = [estimate.high or 0.0 for estimate in known]
                if "y" not in logarithms:
                    data.append(band(place_of[each], f"{each}, interval", x, lows, highs))
            data.append(line(place_of[each], each, x, [estimate.mean for estimate in known]))
        layout: Spec = {"showlegend": False}
        for axis, said in zip("xy", axes, strict=True):
            scale = _scale(data, axis) if axis in logarithms and data else {}
            layout[f"{axis}axis"] = {"title": {"text": said}} | scale
        if bounds is not None:
            layout["yaxis"]["range"] = [*bounds]
        return data, layout

    text = f"{title}: {axes[1]} by {axes[0]}, for {', '.join(series)}"
    columns = ("figure", *axes)
    if not menus:
        return figure(name, title, text, *draw(), columns)
    return with_menus(name, title, text, menus, draw, columns)


def _scale(data: Sequence[Spec], axis: str) -> Spec:
    values = [value for trace in data for value in trace[axis] if value > 0]
    if values and max(values) > _WIDE * min(values):
        return {"type": "log", "dtick": 1, "exponentformat": "power"}
    return logarithmic([*data], axis)
