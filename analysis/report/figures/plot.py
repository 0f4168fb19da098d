"""Building blocks of all plots, as plain-data Plotly figures.

A colour is the name of a CSS variable, such as "--layering-0": the page substitutes its value, so that a
layering has one colour in every plot, and another in dark mode. Traces carry the layering's index in `meta`,
by which the page shows and hides them.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, count, product
from math import ceil, floor, log10
from typing import Any, NamedTuple, Protocol

import numpy as np

from analysis.columns.rows import grouped
from analysis.files import Rows
from analysis.report.words.numbers import pretty
from analysis.run.manifest import ScenarioEvent

COLOURS = 12
"""Number of distinguishable layering colours."""

DASHES = (
    "solid",
    "solid",
    "dash",
    "dot",
    "dashdot",
    "longdash",
    "9px,3px,3px,3px,3px,3px",
    "2px,2px,2px,8px",
    "longdashdot",
    "5px,2px",
    "12px,4px,2px,4px,2px,4px",
    "1px,4px",
)
"""Line dashes of layerings, since many colours alone are indistinguishable."""

_OWN_PLACES = (
    "poll", "lli", "pull", "long-lived", "persistent", "sync", "notify", "lli-selective", "lli-go-back-n",
    "append-poll", "ssb", "ndn-over-ssb", "ndn", "scan", "gossip", "gossip-skip", "flood", "ebt", "hub",
    "ssb-aware-poll", "ssb-aware", "social-routing", "tiny", "tiny-pub", "tiny-isp", "link", "sync-log",
    "sync-all", "notify-each", "sparse", "broker", "room", "holes", "lan", "invite", "multicast", "moq",
    "psync", "sync-ps",
)  # fmt: skip
"""Layerings with a fixed index, and so one colour and dash on every page.

From the thirteenth on, colours repeat those of rarely combined layerings, with another dash.
"""

FENCES = {"lowerfence": 0.05, "q1": 0.25, "median": 0.5, "q3": 0.75, "upperfence": 0.95}
"""The quantiles of box()."""

MOST_NAMED_EVENTS = 12
"""Maximum number of named events in a plot over time; beyond it only marks."""

Spec = dict[str, Any]


class Period(Protocol):
    """The period of a layering's run, ns."""

    @property
    def start_ns(self) -> int:
        """Start of the run."""

    @property
    def end_ns(self) -> int:
        """End of the run."""


class Scene(Protocol):
    """Inputs of figures about a run: a manifest, or its equivalent for captures.

    `layerings` are the compared items in colour order: for captures, their names.
    """

    @property
    def layerings(self) -> list[str]:
        """The compared layerings."""

    @property
    def runs(self) -> Mapping[str, Period]:
        """Their periods."""

    @property
    def timeline(self) -> Sequence[ScenarioEvent]:
        """The scenario's events."""


class Menu(NamedTuple):
    """A menu of a plot: its label, and its options, the default first."""

    label: str
    options: list[str]


class Figure(NamedTuple):
    """A plot.

    `spec` holds its `data` and `layout`, the CSV's `columns` with units, and, with menus, `variants`: data
    and layout for each choice of options, joined by "|". `text` is its alternative text.
    """

    id: str
    title: str
    text: str
    spec: Spec
    menus: tuple[Menu, ...] = ()


def figure(
    name: str, title: str, text: str, data: list[Spec], layout: Spec, columns: Sequence[str]
) -> Figure:
    """Return a plot without menus. `columns` names the CSV's columns: trace name, and values."""
    spec = {"data": data, "layout": layout, "columns": list(columns)}
    return Figure(name, title, text, spec | _hidden_by(layout))


def with_menus(
    name: str,
    title: str,
    text: str,
    menus: Sequence[Menu],
    draw: Callable[..., tuple[list[Spec], Spec]],
    columns: Sequence[str],
) -> Figure:
    """Return a plot with menus; draw(option, ...) returns data and layout for the chosen options."""
    variants: dict[str, Spec] = {}
    for chosen in product(*(menu.options for menu in menus)):
        data, layout = draw(*chosen)
        variants["|".join(chosen)] = {"data": data, "layout": layout}
    first = next(iter(variants.values()))
    spec = {**first, "variants": variants, "columns": [*(menu.label for menu in menus), *columns]}
    return Figure(name, title, text, spec | _hidden_by(first["layout"]), tuple(menus))


def _hidden_by(layout: Spec) -> Spec:
    """Return how the page hides a layering, if not by its traces: stacked bars are its place on an axis."""
    return {"by": "y"} if layout.get("barmode") == "stack" else {}


def places(layerings: Sequence[str]) -> dict[str, int]:
    """Return the index of each layering of a page, which determines its colour and dash.

    Known layerings have fixed indices on every page; others, such as names of captures, fill the free ones in
    order.
    """
    own = {name: place for place, name in enumerate(_OWN_PLACES)}
    taken = {own[name] for name in layerings if name in own}
    free = (place for place in count() if place not in taken)
    return {name: own[name] if name in own else next(free) for name in layerings}


def colour(place: int) -> str:
    """Return the colour of a layering's index (places())."""
    return f"--layering-{place % COLOURS}"


def dash(place: int) -> str:
    """Return the dash of a layering's index; layerings of one colour differ in dash."""
    return DASHES[(place + place // COLOURS) % COLOURS]


def line(
    place: int, name: str, x: Sequence[float], y: Sequence[float], shape: str = "linear", width: float = 1.8
) -> Spec:
    """Return a layering's line, in its colour and dash."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "meta": place,
        "x": x,
        "y": y,
        "line": {"color": colour(place), "width": width, "shape": shape, "dash": dash(place)},
    }


def band(
    place: int, name: str, x: Sequence[float | str], lows: Sequence[float], highs: Sequence[float]
) -> Spec:
    """Return the interval band around a layering's line."""
    return {
        "type": "scatter",
        "mode": "lines",
        "fill": "toself",
        "fillcolor": f"{colour(place)}-soft",
        "line": {"width": 0},
        "hoverinfo": "skip",
        "name": name,
        "meta": place,
        "x": [*x, *reversed(x)],
        "y": [*highs, *reversed(lows)],
    }


def area(title: str, shade: str, x: Sequence[float], y: Sequence[float]) -> Spec:
    """Return a stacked area of rates: one kind's, over the beginnings of time slices, s."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": title,
        "stackgroup": "all",
        "x": x,
        "y": y,
        "line": {"color": shade, "width": 1, "shape": "hv"},
        "fillcolor": shade,
        "hovertemplate": f"%{{y:.4g}} {title} a second from %{{x:.2f}} s",
    }


def box(place: int, name: str, quantiles: Mapping[str, Sequence[float]], labels: str = "y") -> Spec:
    """Return a layering's boxes, each of a quantile function: quartiles, and whiskers from 5 to 95 %."""
    return {
        "type": "box",
        "orientation": "h" if labels == "y" else "v",
        "name": name,
        "meta": place,
        labels: list(quantiles),
        **{
            fence: [at_share(values, share) for values in quantiles.values()]
            for fence, share in FENCES.items()
        },
        "line": {"color": colour(place), "width": 1.5},
        "fillcolor": f"{colour(place)}-soft",
    }


def shares_within(
    name: str, title: str, text: str, quantiles: Sequence[tuple[str, int, Sequence[float]]], what: str
) -> Figure:
    """Return the cumulative distribution of times: for each layering (name, n, quantile function in ms)."""
    return figure(name, f"{title} (CDF)", text, *shares(quantiles, what), shares_columns(what))


def shares_columns(what: str) -> tuple[str, ...]:
    """Return the columns of the CSV of shares()."""
    return "layering", f"{what}, ms", "share within, %"


def shares(quantiles: Sequence[tuple[str, int, Sequence[float]]], what: str) -> tuple[list[Spec], Spec]:
    """Return data and layout of shares_within."""
    data = []
    place_of = places([layering for layering, _, _ in quantiles])
    for layering, number, values in quantiles:
        steps = max(len(values) - 1, 1)
        shares = [round(100 * k / steps, 2) for k in range(len(values))]
        hover = {"hovertemplate": f"%{{y:.1f}} % of {number} within %{{x:.4g}} ms"}
        data.append(line(place_of[layering], layering, values, shares) | hover)
    layout = {
        "xaxis": titled(f"{what}, ms", logarithmic(data, "x")),
        "yaxis": {"title": {"text": "share, %"}, "range": [0, 101]},
    }
    return data, layout


def times_of(rows: Rows, value: str, layerings: Sequence[str]) -> list[tuple[str, int, list[float]]]:
    """Return what shares_within() takes of the known times in a column, ns; nothing if none is known."""
    of_layering = grouped([row for row in rows if row[value] is not None], "layering")
    if not of_layering:
        return []
    times = ((x, [row[value] / 1e6 for row in of_layering[x]]) for x in layerings)
    return [(x, len(known), quantile_function(known)) for x, known in times]


def at_share(ordered: Sequence[float], share: float) -> float:
    """Return the value at a share, from 0 to 1, of ordered values."""
    return ordered[round(share * (len(ordered) - 1))]


def quantile_function(values: Sequence[float], points: int = 200) -> list[float]:
    """Return the quantiles at `points` + 1 even steps from 0 to 1, interpolated between ranks."""
    ranks = np.arange(points + 1) / points * (len(values) - 1)
    quantiles = np.interp(ranks, range(len(values)), sorted(values)) if values else ranks[:0]
    return [round(quantile, 4) for quantile in quantiles.tolist()]


def quantiles_of(buckets: Rows, points: int = 200) -> list[float]:
    """Return the quantiles of merged rows of analysis.metrics.captures.aggregates.distribution, ns to ms.

    Values are assumed evenly spaced within a bucket, which is 1 % wide.
    """
    merged: dict[int, Spec] = {}
    for row in buckets:
        own = merged.setdefault(row["bucket"], row | {"count": 0})
        own["least"], own["most"] = min(own["least"], row["least"]), max(own["most"], row["most"])
        own["count"] += row["count"]
    ordered = sorted(merged.values(), key=lambda row: row["least"])
    firsts = [0, *accumulate(row["count"] for row in ordered)]

    def value(rank: int) -> float:
        row = ordered[bisect_right(firsts, rank) - 1]
        inside = rank - firsts[bisect_right(firsts, rank) - 1]
        steps = max(row["count"] - 1, 1)
        return float(row["least"] + (row["most"] - row["least"]) * inside / steps)

    quantiles = []
    for step in range(points + 1) if ordered else ():
        rank = step / points * (firsts[-1] - 1)
        low = floor(rank)
        high = min(low + 1, firsts[-1] - 1)
        quantiles.append(round((value(low) + (value(high) - value(low)) * (rank - low)) / 1e6, 6))
    return quantiles


def heat_map(
    rows: Mapping[str, Sequence[float | None]],
    columns: int,
    width: float,
    seconds: float,
    what: str,
    top: float,
    darkest: str,
) -> tuple[Spec, Spec]:
    """Return trace and layout of a heat map: a row for each name, a column for each `width` seconds.

    The time axis has `seconds`. Values of `what` from `top` on are darkest; the legend, `darkest`, says so.
    """
    trace = {
        "type": "heatmap",
        "x": [round((place + 0.5) * width, 4) for place in range(columns)],
        "y": list(rows),
        "z": list(rows.values()),
        "zmin": 0,
        "zmax": top,
        "colorscale": "--heat",
        "colorbar": {"title": {"text": darkest, "side": "top"}, "thickness": 12, "outlinewidth": 0},
        "hovertemplate": f"%{{y}}: %{{z:.3g}} {what} at %{{x:.2f}} s<extra></extra>",
    }
    layout = {
        "xaxis": {"title": {"text": "time, s"}, "range": [0, seconds]},
        "yaxis": {"type": "category", "autorange": "reversed", "automargin": True, "dtick": 1},
        "height": 110 + 17 * max(len(rows), 6),
    }
    return trace, layout


def grouped_bars(
    name: str,
    title: str,
    text: str,
    layerings: Sequence[str],
    values: dict[tuple[str, str], float | None],
    groups: Sequence[str],
    unit: str,
    *,
    labels: dict[str, str] | None = None,
    axis: str = "",
) -> Figure:
    """Return bars for each group and layering; `values` by (layering, group), `labels` group names."""
    named = labels or {}
    data: list[Spec] = [
        {
            "type": "bar",
            "orientation": "h",
            "name": layering,
            "meta": place,
            "y": [named.get(group, group) for group in groups],
            "x": [values.get((layering, group)) for group in groups],
            "text": [f"{layering}  {pretty(values.get((layering, group)))}" for group in groups],
            "textposition": "outside",
            "cliponaxis": False,
            "marker": {"color": colour(place)},
            "hovertemplate": f"%{{x:.4g}} {unit} {layering}",
        }
        for layering, place in places(layerings).items()
    ]
    longest = max((value for value in values.values() if value is not None), default=0)
    layout = {
        "barmode": "group",
        "bargap": 0.25,
        # Room for the text beside the longest bar.
        "xaxis": {"title": {"text": axis or unit}, "range": [0, 1.25 * longest or 1]},
        "yaxis": {"autorange": "reversed", "automargin": True, "type": "category"},
        "height": 110 + len(groups) * (20 + 18 * len(data)),
    }
    return figure(name, title, text, data, layout, ("layering", "of", axis or unit))


def marks(scene: Scene) -> Spec:
    """Return a layout that marks the scenario's events over time, with names unless they are many."""
    times: dict[float, list[str]] = {}
    for happening in scene.timeline:
        times.setdefault(round(happening.time_ns / 1e9, 6), []).append(happening.words)
    stroke = {"color": "--faint", "width": 1, "dash": "dot"}
    shapes = [
        {"type": "line", "x0": time, "x1": time, "yref": "paper", "y0": 0, "y1": 1, "line": stroke}
        for time in times
    ]
    if len(times) > MOST_NAMED_EVENTS:
        return {"shapes": shapes}
    texts = [
        {
            "x": time,
            "xanchor": "left",
            "yref": "paper",
            "y": 1 - 0.07 * (place % 4),
            "yanchor": "top",
            "text": ", ".join(words),
            "showarrow": False,
            "font": {"size": 11, "color": "--faint"},
            "bgcolor": "--paper",
        }
        for place, (time, words) in enumerate(times.items())
    ]
    return {"shapes": shapes, "annotations": texts}


def run_seconds(scene: Scene) -> float:
    """Return the duration of the longest layering, s."""
    return max((run.end_ns - run.start_ns for run in scene.runs.values()), default=0) / 1e9


def titled(text: str, scale: Spec) -> Spec:
    """Return an axis with a title, which tells if it is logarithmic."""
    note = " (logarithmic)" if scale.get("type") == "log" else ""
    return {"title": {"text": f"{text}{note}"}, **scale}


def logarithmic(data: list[Spec], *keys: str) -> Spec:
    """Return a logarithmic axis with readable ticks for these members of the traces.

    A narrow range gets a linear axis, as it would contain hardly any tick.
    """
    values = [value for trace in data for key in keys for value in trace[key] if value > 0]
    if not values:
        return {"type": "log"}
    low, high = min(values), max(values)
    if high < 1.5 * low:
        return {"range": [0.98 * low, 1.02 * high]}
    steps = (1, 2, 5) if high > 30 * low else (1, 1.5, 2, 3, 4, 5, 7)
    decades = range(floor(log10(low)), ceil(log10(high)) + 1)
    ticks = [float(f"{step}e{decade}") for decade in decades for step in steps]
    # A logarithmic axis cannot show 0, so the range is explicit.
    bounds = [log10(low) - 0.03, log10(high) + 0.03]
    return {"type": "log", "tickvals": ticks, "ticktext": [f"{tick:g}" for tick in ticks], "range": bounds}
