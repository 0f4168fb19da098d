"""What every plot of the report is made of, as Plotly figures in plain data.

A colour is the name of a CSS variable, such as "--layering-0": the page puts in its value, so that one
layering has one colour in every plot, and another in dark mode. Traces carry the layering's place in
`meta`, by which the page shows and hides them.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, count, product
from math import ceil, floor, log10
from typing import Any, NamedTuple, Protocol

from analysis.files import Rows
from analysis.report.words.numbers import pretty
from analysis.run.manifest import ScenarioEvent

COLOURS = 12
"""Layerings that the page can tell apart by colour."""

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
"""How each layering's lines are drawn, as nobody tells nine colours apart with certainty."""

_OWN_PLACES = (
    "poll",
    "lli",
    "pull",
    "long-lived",
    "persistent",
    "sync",
    "notify",
    "lli-selective",
    "lli-go-back-n",
    "append-poll",
    "ssb",
    "ndn-over-ssb",
    "ndn",
    "scan",
    "gossip",
    "gossip-skip",
    "flood",
    "ebt",
    "hub",
    "ssb-aware-poll",
    "ssb-aware",
    "social-routing",
    "tiny",
    "tiny-pub",
    "tiny-isp",
    "link",
    "sync-log",
)
"""Layerings that have a place of their own, and so one colour and one dash on every page, in this order.
From the thirteenth on, each has the colour of one that is hardly ever on the same page, and another dash."""

FENCES = {"lowerfence": 0.05, "q1": 0.25, "median": 0.5, "q3": 0.75, "upperfence": 0.95}
"""The quantiles that box() shows."""

MOST_NAMED_EVENTS = 12
"""Events that are named in a plot over time; of more only the times are marked."""

Spec = dict[str, Any]


class Period(Protocol):
    """When a layering ran, ns."""

    @property
    def start_ns(self) -> int:
        """When it began or ended."""

    @property
    def end_ns(self) -> int:
        """When it began or ended."""


class Scene(Protocol):
    """What figures need to know of a run: a manifest, or what is known of captures.

    `layerings` are what is compared, in the order of their colours: for captures, their names.
    """

    @property
    def layerings(self) -> list[str]:
        """What is compared."""

    @property
    def runs(self) -> Mapping[str, Period]:
        """When each ran."""

    @property
    def timeline(self) -> Sequence[ScenarioEvent]:
        """What was done on the way."""


class Menu(NamedTuple):
    """A choice that a plot offers: its label, and the options, the first of which is shown at first."""

    label: str
    options: list[str]


class Figure(NamedTuple):
    """A plot.

    `spec` holds its `data` and `layout`, the names of the CSV's `columns` with their units, and, if it has
    menus, `variants`: for each choice of options, joined by "|", the data and layout to show instead. `text`
    says what it shows, as its alternative text.
    """

    id: str
    title: str
    text: str
    spec: Spec
    menus: tuple[Menu, ...] = ()


def figure(
    name: str, title: str, text: str, data: list[Spec], layout: Spec, columns: Sequence[str]
) -> Figure:
    """Return a plot without menus. `columns` names what the CSV gives of each trace: its name, and its
    values."""
    return Figure(name, title, text, {"data": data, "layout": layout, "columns": list(columns)})


def with_menus(
    name: str,
    title: str,
    text: str,
    menus: Sequence[Menu],
    draw: Callable[..., tuple[list[Spec], Spec]],
    columns: Sequence[str],
) -> Figure:
    """Return a plot that shows what draw(option, ...) returns as data and layout for the options chosen."""
    variants = {}
    for chosen in product(*(menu.options for menu in menus)):
        data, layout = draw(*chosen)
        variants["|".join(chosen)] = {"data": data, "layout": layout}
    first = next(iter(variants.values()))
    spec = {**first, "variants": variants, "columns": [*(menu.label for menu in menus), *columns]}
    return Figure(name, title, text, spec, tuple(menus))


def places(layerings: Sequence[str]) -> dict[str, int]:
    """Return the place of each layering of a page, by which it has its colour and its dash.

    Those that are known have their own, whatever else is on the page; others, such as the names of captures,
    take what is free, in order.
    """
    own = {name: place for place, name in enumerate(_OWN_PLACES)}
    taken = {own[name] for name in layerings if name in own}
    free = (place for place in count() if place not in taken)
    return {name: own[name] if name in own else next(free) for name in layerings}


def colour(place: int) -> str:
    """Return the colour of the layering in a place (places())."""
    return f"--layering-{place % COLOURS}"


def dash(place: int) -> str:
    """Return the dash of the layering in a place; those of one colour have different ones."""
    return DASHES[(place + place // COLOURS) % COLOURS]


def line(
    place: int, name: str, x: Sequence[float], y: Sequence[float], shape: str = "linear", width: float = 1.8
) -> Spec:
    """Return the trace of the layering in a place, in its colour and dash."""
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
    """Return the trace of an interval around a line of the layering in a place."""
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


def box(place: int, name: str, quantiles: Mapping[str, Sequence[float]], labels: str = "y") -> Spec:
    """Return the boxes of the layering in a place, of a quantile function each: quartiles, and whiskers from
    5 to 95 %."""
    return {
        "type": "box",
        "orientation": "h" if labels == "y" else "v",
        "name": name,
        "meta": place,
        labels: list(quantiles),
        **{
            fence: [values[round(share * (len(values) - 1))] for values in quantiles.values()]
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
        told = {"hovertemplate": f"%{{y:.1f}} % of {number} within %{{x:.4g}} ms"}
        data.append(line(place_of[layering], layering, values, shares) | told)
    scale = logarithmic(data, "x")
    scale_note = " (logarithmic)" if scale.get("type") == "log" else ""
    layout = {
        "xaxis": {"title": {"text": f"{what}, ms{scale_note}"}, **scale},
        "yaxis": {"title": {"text": "share, %"}, "range": [0, 101]},
    }
    return data, layout


def quantile_function(values: Sequence[float], points: int = 200) -> list[float]:
    """Return the quantiles of some values at `points` + 1 even steps from 0 to 1, interpolated between
    ranks."""
    ordered = sorted(values)
    if not ordered:
        return []
    quantiles = []
    for step in range(points + 1):
        rank = step / points * (len(ordered) - 1)
        low = floor(rank)
        high = min(low + 1, len(ordered) - 1)
        quantiles.append(round(ordered[low] + (ordered[high] - ordered[low]) * (rank - low), 4))
    return quantiles


def quantiles_of(buckets: Rows, points: int = 200) -> list[float]:
    """Return the same of rows of analysis.metrics.captures.aggregates.distribution, taken together, in ms for
    ns.

    Within a bucket, which is 1 % wide, values count as evenly spaced.
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
    """Return bars, one for each group and layering; `values` by (layering, group), `labels` a group's
    name."""
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
        # The text beside the longest bar needs room, too.
        "xaxis": {"title": {"text": axis or unit}, "range": [0, 1.25 * longest or 1]},
        "yaxis": {"autorange": "reversed", "automargin": True, "type": "category"},
        "height": 110 + len(groups) * (20 + 18 * len(data)),
    }
    return figure(name, title, text, data, layout, ("layering", "of", axis or unit))


def marks(scene: Scene, told: bool = True) -> Spec:
    """Return the layout that marks the scenario's events in a plot over time, with their names if `told`."""
    times: dict[float, list[str]] = {}
    for happening in scene.timeline:
        times.setdefault(round(happening.time_ns / 1e9, 6), []).append(happening.words)
    stroke = {"color": "--faint", "width": 1, "dash": "dot"}
    shapes = [
        {"type": "line", "x0": time, "x1": time, "yref": "paper", "y0": 0, "y1": 1, "line": stroke}
        for time in times
    ]
    if not told or len(times) > MOST_NAMED_EVENTS:
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
    """Return how long the longest layering ran, s."""
    return max((run.end_ns - run.start_ns for run in scene.runs.values()), default=0) / 1e9


def logarithmic(data: list[Spec], *keys: str) -> Spec:
    """Return a logarithmic axis for these members of the traces, with ticks that read well.

    Values that are close together have a plain axis, as hardly a tick would fall between them.
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
    # Nothing can stand at 0 on such an axis, so a range is given rather than found.
    bounds = [log10(low) - 0.03, log10(high) + 0.03]
    return {"type": "log", "tickvals": ticks, "ticktext": [f"{tick:g}" for tick in ticks], "range": bounds}
