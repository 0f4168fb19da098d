"""The report's plots of wire traffic: over time, per delivered item, and at a shared link."""

from collections import Counter, defaultdict
from collections.abc import Mapping

from analysis.columns.rows import grouped, summed
from analysis.columns.values import layer_name, layers
from analysis.decode.messages import RETRANSMITTED
from analysis.decode.protocols.protocol import ENCRYPTED, PAYLOAD, UNREAD
from analysis.decode.protocols.registry import PROTOCOLS, framed, in_datagrams
from analysis.files import Rows
from analysis.report.figures import plot
from analysis.report.figures.plot import Figure, Menu, Period, Scene, Spec
from analysis.report.words.numbers import pretty
from analysis.run.manifest import Manifest

KINDS = {
    "interest": ("Interests", "--interest"),
    "lli": ("LLIs", "--lli"),
    "nack": ("Nacks", "--nack"),
    "idle": ("FeedState, acknowledgements", "--idle"),
    "hello": ("Hellos", "--hello"),
    "data": ("Data", "--data"),
    "fragment": ("later fragments", "--fragment"),
    "segment": ("TCP segments", "--own-5"),
    "other": ("other", "--other"),
    "malformed": ("malformed", "--malformed"),
}
"""Name and colour of each kind of packet."""

_LAYER_LOOKS = {
    "ethernet": ("Ethernet", "--ethernet"),
    "ip": ("IPv4", "--ip"),
    "udp": ("UDP", "--udp"),
    "tcp": ("TCP", "--tcp"),
    RETRANSMITTED: ("sent again by TCP", "--retransmitted"),
    "ndnlp": ("NDNLPv2", "--ndnlp"),
    "interest": ("Interests", "--interest"),
    "data header": ("Data, all but the message", "--data-header"),
    ENCRYPTED: ("encrypted, without a key", "--encrypted"),
    UNREAD: ("not readable", "--unread"),
    PAYLOAD: ("message", "--payload"),
    "other": ("of no known protocol: all layers", "--other"),
}
_OWN_SHADES = 15
"""Colours for protocols' own layers: --own-0 and so on."""


def layer_looks() -> dict[str, tuple[str, str]]:
    """Return name and colour of each layer of analysis.tables.overhead, from the wire up."""
    own: dict[str, tuple[str, str]] = {}
    for protocol in (*framed(), *in_datagrams()):
        for layer in protocol.layers:
            shade = f"--own-{len(own) % _OWN_SHADES}"
            own[layer_name(protocol.name, layer.key)] = f"{protocol.name}: {layer.title}", shade
    return {layer: (own | _LAYER_LOOKS)[layer] for layer in layers()}


def kind_looks() -> dict[str, tuple[str, str]]:
    """Return name and colour of each kind of packet: NDN's, and those of datagrams."""
    looks = layer_looks()
    return KINDS | {
        layer.key: looks[layer_name(protocol.name, layer.key)]
        for protocol in in_datagrams()
        for layer in protocol.layers
    }


def packets_over_time(load: Rows, manifest: Manifest) -> Figure:
    """Return the packets sent over all links, by kind, over time, one layering at a time on one scale."""
    slices = 1 + max((row["slice"] for row in load), default=0)
    by_layering = grouped(load, "layering")
    highest = summed(load, "packets", "layering", "slice")
    seconds = plot.run_seconds(manifest)
    top = 1.05 * max(highest.values(), default=0) / (seconds / slices or 1) or 1

    def draw(layering: str) -> tuple[list[Spec], Spec]:
        amounts = summed(by_layering[layering], "packets", "kind", "slice")
        data = stacked_over_time(amounts, kind_looks(), manifest.runs[layering], slices)
        layout = {
            "showlegend": True,
            "xaxis": {"title": {"text": "time, s"}, "range": [0, seconds]},
            "yaxis": {"title": {"text": "packets a second, all links"}, "range": [0, top]},
            **plot.marks(manifest),
        }
        return data, layout

    return plot.with_menus(
        "packets",
        "Packets over time, by kind",
        "Stacked areas over time: packets a second on all links together, of each kind",
        [Menu("layering", manifest.layerings)],
        draw,
        ("kind", "from, s", "packets a second"),
    )


def stacked_over_time(
    amounts: Mapping[tuple[str, int], float], kinds: Mapping[str, tuple[str, str]], run: Period, slices: int
) -> list[Spec]:
    """Return stacked areas: rates (per second) by kind and time slice of a run.

    `kinds` gives each kind's title and colour, from the bottom up; empty kinds are omitted.
    """
    width = (run.end_ns - run.start_ns) / 1e9 / slices
    times = [round(place * width, 4) for place in range(slices)]
    data = []
    for kind, (title, shade) in kinds.items():
        values = [amounts.get((kind, place), 0) for place in range(slices)]
        if any(values):
            data.append(plot.area(title, shade, times, [round(value / width, 2) for value in values]))
    return data


def wire_bytes(
    overhead: Rows, carried: dict[str, float], bound: dict[str, float | None], manifest: Manifest
) -> Figure:
    """Return the bytes on the wire per delivered item, stacked by layer, and their lower bound."""
    amounts = Counter({(row["layering"], row["layer"]): row["bytes"] for row in overhead})
    stack = [(layer, *looks) for layer, looks in layer_looks().items()]
    data, layout = stacked_bars(amounts, stack, carried, manifest, "bytes", "bytes per delivered item")
    least = {layering: bound.get(layering) for layering in manifest.layerings if carried.get(layering)}
    data.append(
        {
            "type": "scatter",
            "mode": "markers",
            "orientation": "h",
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
    return plot.figure(
        "wire-bytes",
        "Bytes on the wire per delivered item, by layer",
        "Stacked bars, one for each layering: bytes per delivered item in each protocol layer, and a mark "
        "for what each item once over each link takes",
        data,
        layout,
        ("layer", "layering", "bytes per delivered item"),
    )


def wire_frames(traffic: Rows, carried: dict[str, float], manifest: Manifest) -> Figure:
    """Return the frames on the wire per delivered item, stacked by kind."""
    amounts = summed(traffic, "frames", "layering", "kind")
    stack = [(kind, *looks) for kind, looks in kind_looks().items()]
    data, layout = stacked_bars(amounts, stack, carried, manifest, "frames", "frames per delivered item")
    return plot.figure(
        "wire-frames",
        "Frames on the wire per delivered item, by kind",
        "Stacked bars, one for each layering: frames per delivered item of each kind",
        data,
        layout,
        ("kind", "layering", "frames per delivered item"),
    )


def control(traffic: Rows, messages: Rows, carried: dict[str, float], manifest: Manifest) -> Figure | None:
    """Return the control messages over links per delivered item, stacked by kind, of all protocols.

    A kind that is also a layer of its protocol has the layer's colour.
    """
    names: dict[str, str] = {}
    of_layers = layer_looks()
    amounts: Counter[tuple[str, str]] = Counter()
    for rows, amount in ((traffic, "frames"), (messages, "messages")):
        for row in rows:
            protocol = PROTOCOLS.get(row["protocol"])
            if protocol is None or row["kind"] not in protocol.control:
                continue
            kind = row["kind"]
            if protocol.framer is not None or protocol.datagram is not None:
                kind = f"{protocol.name}: {protocol.kinds[kind]}"
                names[kind] = layer_name(protocol.name, row["kind"])
            amounts[row["layering"], kind] += row[amount]
    if not amounts:
        return None
    shades = {kind: of_layers[layer][1] for kind, layer in names.items() if layer in of_layers}
    free = [shade for shade in map("--own-{}".format, range(_OWN_SHADES)) if shade not in shades.values()]
    others = [kind for kind in names if kind not in shades]
    shades |= {kind: free[place % len(free)] for place, kind in enumerate(others)}
    looks = {kind: (kind, shades[kind]) for kind in names}
    stack = [(kind, *of) for kind, of in (KINDS | looks).items()]
    axis = "control messages per delivered item"
    data, layout = stacked_bars(amounts, stack, carried, manifest, "messages", axis)
    return plot.figure(
        "control",
        "Control messages over links per delivered item, by kind",
        "Stacked bars, one for each layering: control messages per delivered item of each kind",
        data,
        layout,
        ("kind", "layering", axis),
    )


def throughput(rows: Rows, manifest: Manifest) -> Figure:
    """Return each flow's throughput at the bottleneck."""
    several = len({row["feed"] for row in rows}) > 1
    sources = {feed.feed: feed.publisher for feed in manifest.workload.feeds}
    sources |= {cross.feed: f"{cross.sender}, cross traffic" for cross in manifest.workload.cross_traffic}
    feeds = {feed: f" from {source}" for feed, source in sources.items()} if several else {}
    rates: dict[tuple[str, str], float | None] = {
        (row["layering"], row["node"] + feeds.get(row["feed"], "")): row["bytes_per_s"] * 8 / 1000
        for row in rows
        if row["bytes_per_s"] is not None
    }
    return plot.grouped_bars(
        "throughput",
        "Throughput of each flow while all are active",
        "Bars, one for each layering and flow: kbit/s of messages delivered",
        manifest.layerings,
        rates,
        sorted({name for _, name in rates}),
        "kbit/s",
    )


def queue(rows: Rows, manifest: Manifest) -> Figure:
    """Return the queue of the busiest link over time, bytes."""
    data = []
    for layering, place in plot.places(manifest.layerings).items():
        start = manifest.runs[layering].start_ns
        points = [
            (round((row["time"] - start) / 1e9, 4), round(row["peak_bytes"]))
            for row in rows
            if row["layering"] == layering
        ]
        seconds, waiting = zip(*points, strict=True) if points else ((), ())
        data.append(
            plot.line(place, layering, seconds, waiting) | {"hovertemplate": "%{y} bytes by %{x:.3f} s"}
        )
    layout = {
        "xaxis": {"title": {"text": "time, s"}, "range": [0, plot.run_seconds(manifest)]},
        "yaxis": {"title": {"text": "bytes"}, "rangemode": "tozero"},
        **plot.marks(manifest),
    }
    return plot.figure(
        "queue",
        f"Queue at the busiest link, {rows[0]['interface'] if rows else ''}",
        "Bytes that wait before the busiest link over time, a line for each layering",
        data,
        layout,
        ("layering", "time, s", "bytes waiting"),
    )


def share_bars(
    name: str,
    title: str,
    text: str,
    amounts: Mapping[tuple[str, str], float],
    stack: list[tuple[str, str, str]],
    part: str,
    scene: Scene,
    unit: str,
    axis: str,
) -> Figure:
    """Return stacked_bars of each layering's amounts as percentages of their sum.

    `part` names the parts in the CSV, `axis` the shares.
    """
    totals: defaultdict[str, float] = defaultdict(float)
    for (layering, _), amount in amounts.items():
        totals[layering] += amount
    each = {layering: total / 100 for layering, total in totals.items()}
    data, layout = stacked_bars(amounts, stack, each, scene, unit, axis)
    layout["xaxis"]["range"] = [0, 100]
    return plot.figure(name, title, text, data, layout, (part, "layering", axis))


def stacked_bars(
    amounts: Mapping[tuple[str, str], float],
    stack: list[tuple[str, str, str]],
    divisors: Mapping[str, float],
    scene: Scene,
    unit: str,
    axis: str,
) -> tuple[list[Spec], Spec]:
    """Return a bar for each layering with a divisor: its divided amounts, stacked.

    `amounts` are by layering and part, `stack` has each part's key, title and colour.
    """
    layerings = [layering for layering in scene.layerings if divisors.get(layering)]
    shares = {
        part: [round(amounts.get((layering, part), 0) / divisors[layering], 3) for layering in layerings]
        for part, _, _ in stack
    }
    data: list[Spec] = [
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
            "marker": {"color": shade, "line": {"color": "--paper", "width": 1}},
            "hovertemplate": f"%{{x:.4g}} {unit} {title}",
        }
        for part, title, shade in stack
        if any(shares[part])
    ]
    layout = {
        "barmode": "stack",
        "showlegend": True,
        "uniformtext": {"mode": "hide", "minsize": 10},
        "xaxis": {"title": {"text": axis}},
        "yaxis": {"autorange": "reversed", "type": "category", "automargin": True},
        "height": 150 + 52 * len(layerings),
    }
    return data, layout
