"""The report's plots, as Plotly figures in plain data.

A colour is the name of a CSS variable, such as "--layering-0": the page puts in its value, so that one
layering has one colour in every plot, and another in dark mode. Traces carry the layering's place in
`meta`, by which the page shows and hides them.
"""

from collections import Counter
from collections.abc import Sequence
from math import ceil, floor, log10
from typing import Any, NamedTuple

from analysis.latency import ALL
from analysis.manifest import Manifest
from analysis.overhead import LAYERS
from analysis.pit import NETWORK
from analysis.report.numbers import pretty

MOST_NODES = 24
"""Nodes that are drawn one by one; of a larger network those with the highest means."""

COLOURS = 6
"""Layerings that the page can tell apart by colour."""

Spec = dict[str, Any]
Rows = list[dict[str, Any]]


class Figure(NamedTuple):
    """A plot: `spec` holds its `data` and `layout`; `text` says what it shows, as its alternative text."""

    id: str
    title: str
    text: str
    spec: Spec


_KINDS = {
    "interest": ("Interests", "--interest"),
    "lli": ("LLIs", "--lli"),
    "nack": ("Nacks", "--nack"),
    "data": ("Data", "--data"),
    "fragment": ("later fragments", "--fragment"),
    "other": ("other", "--other"),
    "malformed": ("malformed", "--malformed"),
}
_LAYER_COLOURS = {
    "ethernet": "--ethernet",
    "ip": "--ip",
    "udp": "--udp",
    "ndnlp": "--ndnlp",
    "interest": "--interest",
    "data header": "--data-header",
    "payload": "--payload",
    "other": "--other",
}
_LAYER_TITLES = {
    "ethernet": "Ethernet",
    "ip": "IPv4",
    "udp": "UDP",
    "ndnlp": "NDNLPv2",
    "interest": "Interests",
    "data header": "Data, all but the message",
    "payload": "message",
    "other": "not NDN",
}


_BOX = {"lowerfence": 0.05, "q1": 0.25, "median": 0.5, "q3": 0.75, "upperfence": 0.95}


def pit_figures(curves: Rows, summary: Rows, manifest: Manifest, what: str) -> tuple[Figure, list[Figure]]:
    """Return the plots of PIT entries or bytes (`what`) over time: of the whole network, and of each node."""
    network = Figure(
        f"pit-{what}",
        f"PIT {what}, whole network",
        f"PIT {what} of all nodes together over time, a line for each layering",
        _over_time(curves, manifest, NETWORK, what, None),
    )
    means: dict[str, float] = {}
    for row in summary:
        means[row["node"]] = max(row[f"mean_{what}"], means.get(row["node"], 0.0))
    means.pop(NETWORK, None)
    shown = sorted(means, key=lambda name: -means[name])[:MOST_NODES]
    top = max((row[what] for row in curves if row["node"] in shown), default=0)
    nodes = [
        Figure(
            f"pit-{what}-{node.name}",
            node.name,
            f"PIT {what} of {node.name} over time",
            _over_time(curves, manifest, node.name, what, top),
        )
        for node in manifest.topology.nodes
        if node.name in shown
    ]
    return network, nodes


def latency_cdf(latency: Rows, manifest: Manifest) -> Figure:
    """Return the share of deliveries within a time."""
    data = []
    for place, layering in enumerate(manifest.layerings):
        values = _quantiles(latency, layering).get(ALL, [])
        shares = [round(100 * k / (len(values) - 1), 2) for k in range(len(values))]
        data.append(
            _line(place, layering, values, shares) | {"hovertemplate": "%{y:.1f} % within %{x:.4g} ms"}
        )
    layout = {
        "xaxis": {"title": {"text": "publish to delivery, ms (logarithmic)"}, **_logarithmic(data, "x")},
        "yaxis": {"title": {"text": "deliveries, %"}, "range": [0, 101]},
    }
    return Figure(
        "latency-cdf",
        "Latency, share of deliveries within a time",
        "Cumulative distribution of the publish-to-delivery latency, a line for each layering",
        {"data": data, "layout": layout},
    )


def latency_boxes(latency: Rows, manifest: Manifest) -> Figure:
    """Return boxes of each subscriber's latencies: quartiles, and whiskers from 5 to 95 %."""
    data = []
    for place, layering in enumerate(manifest.layerings):
        quantiles = _quantiles(latency, layering)
        nodes = [name for name in manifest.nodes("subscriber") if name in quantiles]
        fences = {
            name: [quantiles[node][round(share * (len(quantiles[node]) - 1))] for node in nodes]
            for name, share in _BOX.items()
        }
        data.append(
            {
                "type": "box",
                "name": layering,
                "meta": place,
                "x": nodes,
                **fences,
                "line": {"color": _colour(place), "width": 1.5},
                "fillcolor": f"{_colour(place)}-soft",
            }
        )
    layout = {
        "boxmode": "group",
        "yaxis": {"title": {"text": "ms (logarithmic)"}, **_logarithmic(data, *_BOX)},
        "xaxis": {"type": "category"},
    }
    return Figure(
        "latency-boxes",
        "Latency by subscriber",
        "For each subscriber and layering the quartiles of its latencies, with whiskers from 5 to 95 percent",
        {"data": data, "layout": layout},
    )


def wire_bytes(overhead: Rows, delivered: dict[str, float], manifest: Manifest) -> Figure:
    """Return the bytes on the wire per delivered item, stacked by layer."""
    amounts = Counter({(row["layering"], row["layer"]): row["bytes"] for row in overhead})
    stack = [(layer, _LAYER_TITLES[layer], _LAYER_COLOURS[layer]) for layer in LAYERS]
    return Figure(
        "wire-bytes",
        "Bytes on the wire per delivered item, by layer",
        "Stacked bars, one for each layering: bytes per delivered item in each protocol layer",
        _stacked(amounts, stack, delivered, manifest, "bytes"),
    )


def wire_frames(traffic: Rows, delivered: dict[str, float], manifest: Manifest) -> Figure:
    """Return the frames on the wire per delivered item, stacked by kind."""
    amounts: Counter[tuple[str, str]] = Counter()
    for row in traffic:
        amounts[row["layering"], row["kind"]] += row["frames"]
    stack = [(kind, title, colour) for kind, (title, colour) in _KINDS.items()]
    return Figure(
        "wire-frames",
        "Frames on the wire per delivered item, by kind",
        "Stacked bars, one for each layering: frames per delivered item of each kind",
        _stacked(amounts, stack, delivered, manifest, "frames"),
    )


def interests(comparison: Rows, manifest: Manifest) -> Figure:
    """Return the Interests per item, at the subscribers and on the links."""
    values = {(row["metric"], row["layering"]): row["value"] for row in comparison}
    groups = {
        "interests_per_item": "sent by subscribers’ nodes,<br>per delivered item",
        "interests_per_link": "crossing a link,<br>per published item",
    }
    data = [
        {
            "type": "bar",
            "orientation": "h",
            "name": layering,
            "meta": place,
            "y": list(groups.values()),
            "x": [values[metric, layering] for metric in groups],
            "text": [pretty(values[metric, layering]) for metric in groups],
            "textposition": "outside",
            "cliponaxis": False,
            "marker": {"color": _colour(place)},
            "hovertemplate": "%{x:.4g} " + layering,
        }
        for place, layering in enumerate(manifest.layerings)
    ]
    layout = {
        "barmode": "group",
        "xaxis": {"title": {"text": "Interests and LLIs per item"}, "rangemode": "tozero"},
        "yaxis": {"autorange": "reversed", "automargin": True},
        "height": 110 + 56 * len(manifest.layerings),
    }
    return Figure(
        "interests",
        "Interests per item",
        "Bars, one for each layering: Interests and LLIs per item",
        {"data": data, "layout": layout},
    )


def _over_time(curves: Rows, manifest: Manifest, node: str, what: str, top: float | None) -> Spec:
    of_node = [row for row in curves if row["node"] == node]
    data = []
    end = 0.0
    for place, layering in enumerate(manifest.layerings):
        run = manifest.runs[layering]
        rows = [row for row in of_node if row["layering"] == layering]
        seconds = [0.0, *(round((row["time"] - run.start_ns) / 1e9, 6) for row in rows)]
        amounts = [0, *(row[what] for row in rows)]
        end = max(end, (run.end_ns - run.start_ns) / 1e9)
        seconds.append(round((run.end_ns - run.start_ns) / 1e9, 6))
        amounts.append(amounts[-1])
        data.append(
            _line(place, layering, seconds, amounts, "hv", 1.5 if top is None else 1)
            | {"hovertemplate": f"%{{y}} {what} at %{{x:.3f}} s"}
        )
    yaxis: Spec = {"rangemode": "tozero"} if top is None else {"range": [0, top * 1.08 or 1]}
    if top is None:
        yaxis["title"] = {"text": what}
    xaxis: Spec = {"range": [0, end]}
    if top is None:
        xaxis["title"] = {"text": "time, s"}
    return {"data": data, "layout": {"xaxis": xaxis, "yaxis": yaxis}}


def _line(
    place: int, name: str, x: Sequence[float], y: Sequence[float], shape: str = "linear", width: float = 1.5
) -> Spec:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "meta": place,
        "x": x,
        "y": y,
        "line": {"color": _colour(place), "width": width, "shape": shape},
    }


def _stacked(
    amounts: Counter[tuple[str, str]],
    stack: list[tuple[str, str, str]],
    delivered: dict[str, float],
    manifest: Manifest,
    unit: str,
) -> Spec:
    layerings = [layering for layering in manifest.layerings if delivered.get(layering)]
    shares = {
        part: [round(amounts[layering, part] / delivered[layering], 3) for layering in layerings]
        for part, _, _ in stack
    }
    data = [
        {
            "type": "bar",
            "orientation": "h",
            "name": title,
            "y": layerings,
            "x": shares[part],
            "text": [pretty(share) for share in shares[part]],
            "textfont": {"size": 12},
            "textposition": "inside",
            "insidetextanchor": "middle",
            "textangle": 0,
            "marker": {"color": colour, "line": {"color": "--paper", "width": 1}},
            "hovertemplate": f"%{{x:.4g}} {unit} {title}",
        }
        for part, title, colour in stack
        if any(shares[part])
    ]
    layout = {
        "barmode": "stack",
        "showlegend": True,
        "uniformtext": {"mode": "hide", "minsize": 10},
        "xaxis": {"title": {"text": f"{unit} per delivered item"}},
        "yaxis": {"autorange": "reversed", "type": "category", "automargin": True},
        "height": 150 + 52 * len(layerings),
    }
    return {"data": data, "layout": layout}


def _logarithmic(data: list[Spec], *keys: str) -> Spec:
    """Return a logarithmic axis for these members of the traces, with ticks that read well."""
    values = [value for trace in data for key in keys for value in trace[key] if value > 0]
    if not values:
        return {"type": "log"}
    low, high = min(values), max(values)
    steps = (1, 2, 5) if high > 30 * low else (1, 1.5, 2, 3, 4, 5, 7)
    decades = range(floor(log10(low)), ceil(log10(high)) + 1)
    ticks = [float(f"{step}e{decade}") for decade in decades for step in steps]
    return {"type": "log", "tickvals": ticks, "ticktext": [f"{tick:g}" for tick in ticks]}


def _quantiles(latency: Rows, layering: str) -> dict[str, list[float]]:
    """Return the quantile function of each subscriber's latencies, ms."""
    return {
        row["node"]: [round(value / 1e6, 4) for value in row["quantiles_ns"]]
        for row in latency
        if row["layering"] == layering
    }


def _colour(place: int) -> str:
    return f"--layering-{place % COLOURS}"
