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

COLOURS = 9
"""Layerings that the page can tell apart by colour."""

DASHES = ("solid", "solid", "dash", "dot", "dashdot", "longdash", "dash", "dot", "longdashdot")
"""How each layering's lines are drawn, as nobody tells nine colours apart with certainty."""

MOST_NAMED_EVENTS = 12
"""Events that are named in a plot over time; of more only the times are marked."""

MOST_BY_NODE = 4
"""Layerings that are drawn together for each node; of more, only all nodes together."""

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
    "idle": ("idle answers", "--idle"),
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


def pit_by_layering(curves: Rows, manifest: Manifest, what: str) -> list[Figure]:
    """Return the plot of PIT entries or bytes (`what`) of the whole network for each layering by itself."""
    top = max((row[what] for row in curves if row["node"] == NETWORK), default=0)
    together = _over_time(curves, manifest, NETWORK, what, top)
    return [
        Figure(
            f"pit-{what}-of-{layering}",
            layering,
            f"PIT {what} of the whole network over time under {layering}",
            together | {"data": [together["data"][place]]},
        )
        for place, layering in enumerate(manifest.layerings)
    ]


def latency_cdf(latency: Rows, manifest: Manifest) -> Figure:
    """Return the share of deliveries within a time."""
    data = []
    for place, layering in enumerate(manifest.layerings):
        values = _quantiles(latency, layering).get(ALL, [])
        shares = [round(100 * k / (len(values) - 1), 2) for k in range(len(values))]
        data.append(
            line(place, layering, values, shares) | {"hovertemplate": "%{y:.1f} % within %{x:.4g} ms"}
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
    """Return boxes of latencies: quartiles, and whiskers from 5 to 95 %, by subscriber if they fit."""
    by_node = len(manifest.layerings) <= MOST_BY_NODE
    data = []
    for place, layering in enumerate(manifest.layerings):
        quantiles = _quantiles(latency, layering)
        nodes = [name for name in (manifest.nodes("subscriber") if by_node else [ALL]) if name in quantiles]
        fences = {
            name: [quantiles[node][round(share * (len(quantiles[node]) - 1))] for node in nodes]
            for name, share in _BOX.items()
        }
        data.append(
            {
                "type": "box",
                "name": layering,
                "meta": place,
                **({"x": nodes} if by_node else {"orientation": "h", "y": [layering] * len(nodes)}),
                **fences,
                "line": {"color": _colour(place), "width": 1.5},
                "fillcolor": f"{_colour(place)}-soft",
            }
        )
    values = {"title": {"text": "ms (logarithmic)"}, **_logarithmic(data, *_BOX)}
    if by_node:
        layout: Spec = {"boxmode": "group", "yaxis": values, "xaxis": {"type": "category"}}
    else:
        names = {"type": "category", "autorange": "reversed", "automargin": True}
        layout = {"xaxis": values, "yaxis": names, "height": 120 + 30 * len(data)}
    return Figure(
        "latency-boxes",
        "Latency by subscriber" if by_node else "Latency, all subscribers",
        "For each layering the quartiles of the latencies, with whiskers from 5 to 95 percent",
        {"data": data, "layout": layout},
    )


def in_flight(rows: Rows, manifest: Manifest) -> Figure:
    """Return the network's PIT entries against the items that are under way."""
    data = []
    for place, layering in enumerate(manifest.layerings):
        points = [(row["items"], round(row["entries"], 2)) for row in rows if row["layering"] == layering]
        items, entries = zip(*points, strict=True) if points else ((), ())
        data.append(
            line(place, layering, items, entries)
            | {
                "mode": "lines+markers",
                "marker": {"size": 5, "color": _colour(place), "symbol": place},
                "hovertemplate": "%{y:.4g} entries while %{x} items are in flight",
            }
        )
    layout: Spec = {
        "xaxis": {"title": {"text": "items published and not yet delivered to all"}, "rangemode": "tozero"},
        "yaxis": {"title": {"text": "PIT entries, whole network, mean"}, "rangemode": "tozero"},
    }
    return Figure(
        "in-flight",
        "PIT entries against items in flight",
        "A line for each layering: mean PIT entries of the network while so many items are in flight",
        {"data": data, "layout": layout},
    )


def recovery(rows: Rows, manifest: Manifest) -> Figure | None:
    """Return the longest gap in delivery after each failure, of the subscriber that had the longest."""
    breaks = sorted({(row["time"], row["event"], row["place"]) for row in rows})
    if not breaks:
        return None
    starts = {layering: run.start_ns for layering, run in manifest.runs.items()}
    longest: dict[tuple[str, str], float] = {}
    names = []
    for row in sorted(rows, key=lambda row: row["time"]):
        seconds = (row["time"] - starts[row["layering"]]) / 1e9
        name = f"{row['event']} {row['place']}, {seconds:.3g} s"
        names += [name] if name not in names else []
        key = (row["layering"], name)
        longest[key] = max(longest.get(key, 0.0), row["gap_ns"] / 1e6)
    data = [
        _bars(place, layering, names, [longest.get((layering, name)) for name in names], "ms")
        for place, layering in enumerate(manifest.layerings)
    ]
    return Figure(
        "recovery",
        "Longest gap in delivery after a failure",
        "Bars, one for each layering and failure: the longest time in which a subscriber got nothing",
        {"data": data, "layout": _bar_layout("ms", data)},
    )


def throughput(rows: Rows, manifest: Manifest) -> Figure:
    """Return what each flow got of the bottleneck."""
    several = len({row["feed"] for row in rows}) > 1
    sources = {feed.feed: feed.publisher for feed in manifest.workload.feeds}
    sources |= {cross.feed: f"{cross.sender}, cross traffic" for cross in manifest.workload.cross_traffic}
    feeds = {feed: f" from {source}" for feed, source in sources.items()} if several else {}
    rates = {
        (row["layering"], row["node"] + feeds.get(row["feed"], "")): row["bytes_per_s"] * 8 / 1000
        for row in rows
        if row["bytes_per_s"] is not None
    }
    names = sorted({name for _, name in rates})
    data = [
        _bars(place, layering, names, [rates.get((layering, name)) for name in names], "kbit/s")
        for place, layering in enumerate(manifest.layerings)
    ]
    return Figure(
        "throughput",
        "Throughput of each flow while all are active",
        "Bars, one for each layering and flow: kbit/s of messages delivered",
        {"data": data, "layout": _bar_layout("kbit/s", data)},
    )


def queue(rows: Rows, manifest: Manifest) -> Figure:
    """Return the bytes that wait at the busiest link, over time."""
    data = []
    end = 0.0
    for place, layering in enumerate(manifest.layerings):
        start = manifest.runs[layering].start_ns
        points = [
            (round((row["time"] - start) / 1e9, 4), round(row["peak_bytes"]))
            for row in rows
            if row["layering"] == layering
        ]
        seconds, waiting = zip(*points, strict=True) if points else ((), ())
        end = max(end, (manifest.runs[layering].end_ns - start) / 1e9)
        data.append(line(place, layering, seconds, waiting) | {"hovertemplate": "%{y} bytes by %{x:.3f} s"})
    layout = {
        "xaxis": {"title": {"text": "time, s"}, "range": [0, end]},
        "yaxis": {"title": {"text": "bytes"}, "rangemode": "tozero"},
        **_events(manifest, told=True),
    }
    interface = rows[0]["interface"] if rows else ""
    return Figure(
        "queue",
        f"Queue at the busiest link, {interface}",
        "Bytes that wait before the busiest link over time, a line for each layering",
        {"data": data, "layout": layout},
    )


def wire_bytes(
    overhead: Rows, carried: dict[str, float], bound: dict[str, float | None], manifest: Manifest
) -> Figure:
    """Return the bytes on the wire per delivered item, stacked by layer, and the bound on them."""
    amounts = Counter({(row["layering"], row["layer"]): row["bytes"] for row in overhead})
    stack = [(layer, _LAYER_TITLES[layer], _LAYER_COLOURS[layer]) for layer in LAYERS]
    spec = _stacked(amounts, stack, carried, manifest, "bytes")
    least = {layering: bound.get(layering) for layering in manifest.layerings if carried.get(layering)}
    spec["data"].append(
        {
            "type": "scatter",
            "mode": "markers",
            "name": "each item once per link",
            "y": list(least),
            "x": [None if value is None else round(value, 1) for value in least.values()],
            "marker": {
                "symbol": "line-ns",
                "size": 26,
                "color": "--ink",
                "line": {"color": "--ink", "width": 3},
            },
            "hovertemplate": "%{x:.4g} bytes, each item once per link",
        }
    )
    return Figure(
        "wire-bytes",
        "Bytes on the wire per delivered item, by layer",
        "Stacked bars, one for each layering: bytes per delivered item in each protocol layer, and a mark "
        "for what each item once over each link takes",
        spec,
    )


def wire_frames(traffic: Rows, carried: dict[str, float], manifest: Manifest) -> Figure:
    """Return the frames on the wire per delivered item, stacked by kind."""
    amounts: Counter[tuple[str, str]] = Counter()
    for row in traffic:
        amounts[row["layering"], row["kind"]] += row["frames"]
    stack = [(kind, title, colour) for kind, (title, colour) in _KINDS.items()]
    return Figure(
        "wire-frames",
        "Frames on the wire per delivered item, by kind",
        "Stacked bars, one for each layering: frames per delivered item of each kind",
        _stacked(amounts, stack, carried, manifest, "frames"),
    )


def interests(comparison: Rows, manifest: Manifest) -> Figure:
    """Return the Interests per item, at the subscribers and on the links."""
    values = {(row["metric"], row["layering"]): row["value"] for row in comparison}
    groups = {
        "interests_per_item": "sent by subscribers’ nodes,<br>per delivered item",
        "interests_per_link": "over a link,<br>per item over it",
    }
    data = [
        _bars(place, layering, list(groups.values()), [values[metric, layering] for metric in groups], "")
        for place, layering in enumerate(manifest.layerings)
    ]
    layout = _bar_layout("Interests and LLIs per item", data)
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
            line(place, layering, seconds, amounts, "hv", 1.5 if top is None else 1)
            | {"hovertemplate": f"%{{y}} {what} at %{{x:.3f}} s"}
        )
    yaxis: Spec = {"rangemode": "tozero"} if top is None else {"range": [0, top * 1.08 or 1]}
    if top is None:
        yaxis["title"] = {"text": what}
    xaxis: Spec = {"range": [0, end]}
    if top is None:
        xaxis["title"] = {"text": "time, s"}
    return {"data": data, "layout": {"xaxis": xaxis, "yaxis": yaxis, **_events(manifest, top is None)}}


def _events(manifest: Manifest, told: bool) -> Spec:
    """Return the layout that marks the scenario's events in a plot over time, with their names if `told`."""
    marks: dict[float, list[str]] = {}
    for happening in manifest.timeline:
        words = f"{happening.event} {happening.place}".strip()
        marks.setdefault(round(happening.time_ns / 1e9, 6), []).append(words)
    line = {"color": "--faint", "width": 1, "dash": "dot"}
    shapes = [
        {"type": "line", "x0": time, "x1": time, "yref": "paper", "y0": 0, "y1": 1, "line": line}
        for time in marks
    ]
    if not told or len(marks) > MOST_NAMED_EVENTS:
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
        for place, (time, words) in enumerate(marks.items())
    ]
    return {"shapes": shapes, "annotations": texts}


def line(
    place: int, name: str, x: Sequence[float], y: Sequence[float], shape: str = "linear", width: float = 1.5
) -> Spec:
    """Return the trace of the layering in a place, in its colour and dash."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "meta": place,
        "x": x,
        "y": y,
        "line": {
            "color": _colour(place),
            "width": width,
            "shape": shape,
            "dash": DASHES[place % COLOURS],
        },
    }


def _bars(
    place: int, layering: str, groups: Sequence[str], values: Sequence[float | None], unit: str
) -> Spec:
    return {
        "type": "bar",
        "orientation": "h",
        "name": layering,
        "meta": place,
        "y": list(groups),
        "x": list(values),
        "text": [f"{layering}  {pretty(value)}" for value in values],
        "textposition": "outside",
        "cliponaxis": False,
        "marker": {"color": _colour(place)},
        "hovertemplate": f"%{{x:.4g}} {unit} {layering}",
    }


def _bar_layout(title: str, bars: list[Spec]) -> Spec:
    longest = max((value for bar in bars for value in bar["x"] if value is not None), default=0)
    groups = len(bars[0]["y"])
    return {
        "barmode": "group",
        "bargap": 0.25,
        # The text beside the longest bar needs room, too.
        "xaxis": {"title": {"text": title}, "range": [0, 1.25 * longest or 1]},
        "yaxis": {"autorange": "reversed", "automargin": True, "type": "category"},
        "height": 110 + groups * (20 + 18 * len(bars)),
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
