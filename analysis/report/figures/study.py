"""Plots of a study: each metric with all layerings, and each layering by itself.

Numeric subjects are drawn as lines with confidence bands; verbal ones as marks with bars, a row each, since
nothing lies between two words.
"""

from collections.abc import Iterator, Sequence
from math import ceil, floor, log10
from typing import NamedTuple

from analysis.metrics.catalogue import Metric
from analysis.metrics.study import EXTRA, Estimate, Point, Study
from analysis.report.figures import plot
from analysis.report.figures.plot import Figure, Menu, Spec
from analysis.report.words.numbers import pretty
from analysis.report.words.study import estimate_text

MOST_BANDS = 3
"""Maximum number of layerings with bands in one plot; beyond it, each has a plot of its own."""

WIDE = 30
"""An axis with values that differ by this factor is logarithmic."""

_CLOSEST = 0.08
"""Minimum distance of ticks, as a share of the axis."""

_ROW_PX = 14
_AROUND_ROWS_PX = 84

Known = list[tuple[float | str, Estimate]]


class Scale(NamedTuple):
    """An axis for a metric's values; if logarithmic, with a lower cut-off."""

    axis: Spec
    floor: float | None = None


def overview(study: Study, metric: Metric) -> Figure:
    """Return a metric of all layerings, one group of points at a time."""
    has_bands = len(study.layerings) <= MOST_BANDS or not study.is_numeric
    scale = _scale(study, metric, has_bands)

    def draw(group: str) -> tuple[list[Spec], Spec]:
        data: list[Spec] = []
        for layering, place in plot.places(study.layerings).items():
            known = _known(study, metric, layering, group)
            data += _traces(study, metric, scale, known, layering, place, has_bands=has_bands)
        return data, _layout(study, metric, scale, len(study.layerings))

    name, text = f"study-{metric.key}", f"{metric.title}: for each layering the mean over the runs"
    text += " and its confidence interval" if has_bands else ""
    columns = ("layering", *_columns(study, f"{metric.title}, mean, {metric.unit}"))
    if len(study.groups) > 1:
        return plot.with_menus(name, metric.title, text, [Menu("where", study.groups)], draw, columns)
    return plot.figure(name, metric.title, text, *draw(study.groups[0]), columns)


def panels(study: Study, metrics: Sequence[Metric]) -> dict[str, Figure]:
    """Return a plot for each layering, with all groups of points, a metric at a time; none if redundant with
    the overview.
    """
    if not study.key or (len(study.layerings) <= MOST_BANDS and len(study.groups) == 1):
        return {}
    return {layering: _panel(study, metrics, layering) for layering in study.layerings}


def _panel(study: Study, metrics: Sequence[Metric], layering: str) -> Figure:
    place_of = plot.places(study.layerings)
    place = place_of[layering]
    by_title = {metric.title: metric for metric in metrics}
    has_others = study.is_numeric and len(study.groups) == 1

    def draw(title: str) -> tuple[list[Spec], Spec]:
        metric = by_title[title]
        scale = _scale(study, metric, True)
        others = [other for other in study.layerings if has_others and other != layering]
        data = [
            _faint(known, other, place_of[other])
            for other in others
            if (known := _known(study, metric, other, study.groups[0]))
        ]
        for number, group in enumerate(study.groups):
            known = _known(study, metric, layering, group)
            data += _traces(study, metric, scale, known, layering, place, group, number)
        return data, _layout(study, metric, scale, len(study.groups))

    return plot.with_menus(
        f"panel-{place}",
        layering,
        f"{layering} by itself: the mean over the runs and its confidence interval",
        [Menu("metric", list(by_title))],
        draw,
        ("layering", *_columns(study, "mean, in the unit of the metric")),
    )


def stroke(number: int) -> int:
    """Return the index in DASHES for a group of points."""
    return number + 1 if number else 0  # the first two are both solid


def _known(study: Study, metric: Metric, layering: str, group: str) -> Known:
    values = ((x, study.values.get((metric.key, layering, Point(x, group)))) for x in study.xs)
    return [(x, value) for x, value in values if value is not None]


def _columns(study: Study, mean: str) -> tuple[str, ...]:
    return study.words.titled if study.key else "row", mean, "interval from", "interval to", "n, runs"


def _faint(known: Known, layering: str, place: int) -> Spec:
    """Return a layering's line as a faint reference."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": layering,
        "meta": place,
        "hoverinfo": "skip",
        "x": [x for x, _ in known],
        "y": [round(value.mean, 6) for _, value in known],
        "line": {"color": "--rule", "width": 1.2},
    }


def _traces(
    study: Study,
    metric: Metric,
    scale: Scale,
    known: Known,
    layering: str,
    place: int,
    group: str = "",
    number: int = 0,
    has_bands: bool = True,
) -> Iterator[Spec]:
    """Yield the traces of a layering in group `number` of the plot."""
    if not known:
        return
    means = [round(value.mean, 6) for _, value in known]
    name = f"{layering}, {group}" if group else layering
    at = f" at %{{{'x' if study.is_numeric else 'y'}}} {study.words.unit}".rstrip() if study.key else ""
    common: Spec = {
        "name": name,
        "meta": place,
        "customdata": [[value.low, value.high, value.n] for _, value in known],
        "text": [estimate_text(value) for _, value in known],
        "hovertemplate": f"{name}: %{{text}} {metric.unit} (n = %{{customdata[2]}}){at}<extra></extra>",
        "marker": {"size": 7, "color": plot.colour(place), "symbol": number if group else place},
    }
    if not study.is_numeric:
        yield {
            "type": "scatter",
            "mode": "markers",
            "orientation": "h",
            "offsetgroup": name,
            "x": means,
            "y": [x if study.key else layering for x, _ in known],
            "error_x": _bars(scale, known, plot.colour(place)),
        } | common
        return
    banded = [(x, value) for x, value in known if value.low is not None and value.high is not None]
    if has_bands and len(banded) > 1:
        lows = [_above(scale, value.low or 0) for _, value in banded]
        highs = [round(value.high or 0, 6) for _, value in banded]
        yield plot.band(place, name, [x for x, _ in banded], lows, highs)
    drawn = plot.line(place, name, [x for x, _ in known], means)  # type: ignore[misc]
    if group:
        drawn["line"]["dash"] = plot.DASHES[stroke(number)]
    yield drawn | common | {"mode": "lines+markers"}


def _above(scale: Scale, value: float) -> float:
    return round(value if scale.floor is None else max(value, scale.floor), 6)


def _bars(scale: Scale, known: Known, shade: str) -> Spec:
    halves = [value.half or 0 for _, value in known]
    ends = zip(known, halves, strict=True)
    return {
        "type": "data",
        "visible": any(halves),
        "symmetric": False,
        "array": [round(half, 6) for half in halves],
        "arrayminus": [round(value.mean - _above(scale, value.mean - half), 6) for (_, value), half in ends],
        "color": shade,
        "thickness": 2,
        "width": 3,
    }


def _layout(study: Study, metric: Metric, scale: Scale, beside: int) -> Spec:
    """Return the layout of a plot; `beside` marks share a row of a verbal subject."""
    values = plot.titled(metric.unit, scale.axis)
    if study.is_numeric:
        return {"xaxis": _numbers(study), "yaxis": values}
    labels = study.xs if study.key else study.layerings
    rows: Spec = {
        "type": "category",
        "categoryorder": "array",
        "categoryarray": labels,
        "autorange": "reversed",
        "automargin": True,
    }
    marks = len(labels) * (beside if study.key else 1)
    layout = {"xaxis": values, "yaxis": rows, "height": _AROUND_ROWS_PX + _ROW_PX * max(marks, 6)}
    return layout | {"scattermode": "group", "scattergap": 0.25} if study.key else layout


def _numbers(study: Study) -> Spec:
    """Return the axis of a numeric subject, with as many ticks as fit."""
    xs = [float(x) for x in study.xs]
    is_wide = xs[0] > 0 and xs[-1] >= WIDE * xs[0]
    at = [log10(x) for x in xs] if is_wide else xs
    ticks: list[int] = []
    for place, position in enumerate(at):
        if not ticks or position - at[ticks[-1]] >= _CLOSEST * (at[-1] - at[0]):
            ticks.append(place)
    scale = {
        "type": "log" if is_wide else "linear",
        "tickvals": [study.xs[place] for place in ticks],
        "ticktext": [pretty(xs[place]) for place in ticks],
    }
    return plot.titled(study.words.titled, scale)


def _scale(study: Study, metric: Metric, has_bands: bool) -> Scale:
    """Return the axis of a metric, common to all layerings: logarithmic for a wide range, else from 0, as
    intervals may extend below possible values.
    """
    values = [value for (key, _, _), value in study.values.items() if key == metric.key]
    means = [value.mean for value in values]
    top = max((value.high for value in values if value.high is not None and has_bands), default=max(means))
    top, low = max(top, *means), min(means)
    if metric.key == EXTRA:
        return Scale({"rangemode": "tozero"})
    if metric.unit != "%" and low > 0 and max(means) >= WIDE * low:
        return Scale(_decades(low / 1.3, top * 1.1), low / 1.3)
    return Scale({"range": [0, 1.06 * top]} if top > 0 else {"rangemode": "tozero"})


def _decades(low: float, high: float) -> Spec:
    steps = (1, 2, 5) if high < 100 * low else (1, 3) if high < 1000 * low else (1,)
    exponents = range(floor(log10(low)), ceil(log10(high)) + 1)
    ticks = [float(f"{step}e{exponent}") for exponent in exponents for step in steps]
    return {
        "type": "log",
        "range": [log10(low), log10(high)],
        "tickvals": ticks,
        "ticktext": [pretty(tick) if tick >= 1 else f"{tick:g}" for tick in ticks],
    }
