"""Plots of the page of captures that the report of a run lacks.

A capture's name stands for a run's layering. Each function returns None if there is nothing to draw.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence

from analysis.columns.rows import grouped, summed
from analysis.columns.samples import TAILS, are_enough
from analysis.columns.values import SLICES
from analysis.files import Rows
from analysis.report.figures import plot
from analysis.report.figures.plot import Figure, Menu, Scene, Spec
from analysis.report.figures.state import MOST_NODES, node_heat
from analysis.report.figures.wire import kind_looks, layer_looks, share_bars, stacked_over_time

_LAYER_NAMES = {"ip": "IP"}
"""Layer names in third-party captures; a run of feednet has IPv4 alone."""

ALL = "all"
MOST_OF_TRAFFIC = 12
"""Maximum number of nodes in the menu of traffic."""

_TROUBLES = {
    "retransmission": ("retransmissions", "--interest"),
    "expired": ("Interests that nothing answered", "--lli"),
    "nack": ("Nacks", "--nack"),
    "gap": ("gaps in feeds", "--malformed"),
    "repair": ("repairs of gaps", "--data"),
    "duplicate": ("items that were there", "--idle"),
}


def traffic(load: Rows, by_node: Rows, nodes: Sequence[str], scene: Scene) -> Figure:
    """Return packets and bytes over time by kind, of all together, each once, or as captured at a node."""
    every = [*(row | {"node": ALL} for row in load), *by_node]
    rows, totals = grouped(every, "layering", "node"), summed(every, "bytes", "node")
    busiest = sorted(nodes, key=lambda node: -totals[node])[:MOST_OF_TRAFFIC]
    chosen = [node for node in nodes if node in busiest] if len(nodes) > 1 else []

    def draw(layering: str, node: str, what: str) -> tuple[list[Spec], Spec]:
        run = scene.runs[layering]
        amounts = summed(rows[layering, node], what, "kind", "slice")
        data = stacked_over_time(amounts, kind_looks(), run, SLICES)
        layout = {
            "showlegend": True,
            "xaxis": {"title": {"text": "time, s"}, "range": [0, (run.end_ns - run.start_ns) / 1e9]},
            "yaxis": {"title": {"text": f"{what} a second"}, "rangemode": "tozero"},
        }
        return data, layout

    menus = [
        Menu("layering", scene.layerings),
        Menu("node", [ALL, *chosen]),
        Menu("count", ["packets", "bytes"]),
    ]
    return plot.with_menus(
        "traffic",
        "Traffic over time, by kind",
        "Stacked areas over time: packets or bytes a second of each kind",
        menus,
        draw,
        ("kind", "from, s", "packets or bytes a second"),
    )


def traffic_heat(by_node: Rows, nodes: Sequence[str], scene: Scene) -> Figure | None:
    """Return the heat map of captured traffic by node and time, None for a single node."""
    if len(nodes) < 2:
        return None
    rows = []
    for (layering, node, place), own in grouped(by_node, "layering", "node", "slice").items():
        run = scene.runs[layering]
        seconds = (run.end_ns - run.start_ns) / 1e9 / SLICES
        rates = {what: sum(row[what] for row in own) / seconds for what in ("packets", "bytes")}
        rows.append({"layering": layering, "node": node, "slice": place} | rates)
    return node_heat(
        "traffic-heat",
        "Traffic by node and time",
        "A map: a row for each node, time to the right, darker where the node sent and received more",
        rows,
        nodes,
        scene,
        Menu("a second", ["packets", "bytes"]),
        "packets or bytes a second, in and out",
    )


def layers(overhead: Rows, scene: Scene) -> Figure | None:
    """Return the layers of wire bytes as stacked bars, in percent."""
    amounts = {(row["layering"], row["layer"]): row["bytes"] for row in overhead}
    if not any(amounts.values()):
        return None
    return share_bars(
        "layers",
        "What the bytes were, by layer",
        "Stacked bars, one for each capture: the share of the bytes that each protocol layer took",
        amounts,
        [(layer, _LAYER_NAMES.get(layer, title), shade) for layer, (title, shade) in layer_looks().items()],
        "layer",
        scene,
        "% of the bytes:",
        "share of the bytes, %",
    )


def cdf(
    name: str, title: str, text: str, rows: Rows, by: str, options: Sequence[str], what: str, scene: Scene
) -> Figure | None:
    """Return the CDF of times, of all and of each option of the column `by`.

    `rows` are captured.distribution by layering and that column. A single option has no menu.
    """
    if not rows:
        return None
    buckets: dict[tuple[str, str], Rows] = defaultdict(list)
    for row in rows:
        buckets[row["layering"], ALL].append(row)
        if row[by] in options:
            buckets[row["layering"], row[by]].append(row)

    def of(option: str) -> list[tuple[str, int, Sequence[float]]]:
        return [
            (layering, sum(row["count"] for row in found), plot.quantiles_of(found))
            for layering in scene.layerings
            for found in [buckets.get((layering, option), [])]
        ]

    if len(options) < 2:
        return plot.shares_within(name, title, text, of(ALL), what)
    menu = Menu(by, [ALL, *options])
    return plot.with_menus(
        name, title, text, [menu], lambda option: plot.shares(of(option), what), plot.shares_columns(what)
    )


def rtt_by_prefix(rows: Rows, prefixes: Sequence[str], scene: Scene) -> Figure | None:
    """Return boxes of round-trip times, a group of them for each prefix."""
    buckets = grouped(rows, "layering", "prefix")
    data = []
    labels = shortened(prefixes)
    for layering, place in plot.places(scene.layerings).items():
        found = {prefix: plot.quantiles_of(buckets[layering, prefix]) for prefix in prefixes}
        data.append(plot.box(place, layering, {labels[prefix]: of for prefix, of in found.items() if of}))
    known = sum(bool(trace["y"]) for trace in data)
    if not known:
        return None
    layout = {
        "boxmode": "group",
        "xaxis": plot.titled("round-trip time, ms", plot.logarithmic(data, *plot.FENCES)),
        "yaxis": {"type": "category", "autorange": "reversed", "automargin": True, "dtick": 1},
        "height": 120 + len(prefixes) * (14 + 16 * known),
    }
    return plot.figure(
        "rtt-prefix",
        "Round-trip time by name",
        "For each prefix and capture the quartiles of round-trip times, with whiskers from 5 to 95 percent",
        data,
        layout,
        ("layering", "prefix", "5 %, ms", "25 %, ms", "median, ms", "75 %, ms", "95 %, ms"),
    )


def unanswered_by_prefix(rows: Rows, prefixes: Sequence[str], scene: Scene) -> Figure | None:
    """Return the share of unanswered Interests, a bar for each prefix and capture."""
    shares_of: dict[tuple[str, str], float | None] = {
        (row["layering"], row["prefix"]): 100 * row["unanswered"] / row["requests"] for row in rows
    }
    if not any(shares_of.values()):
        return None
    chosen = [prefix for prefix in prefixes if any(shares_of.get((x, prefix)) for x in scene.layerings)]
    return plot.grouped_bars(
        "unanswered",
        "Interests without an answer, by name",
        "Bars, one for each prefix and capture: the share of its Interests that nothing answered",
        scene.layerings,
        {key: value for key, value in shares_of.items() if key[1] in chosen},
        chosen,
        "%",
        labels=shortened(chosen),
        axis="share unanswered, %",
    )


def troubles(rows: Rows, scene: Scene) -> Figure | None:
    """Return faults over time, one run at a time: stacked areas by kind of event."""
    by_layering = grouped([row for row in rows if row["event"] in _TROUBLES], "layering")
    there = [layering for layering in scene.layerings if layering in by_layering]
    if not there:
        return None

    def draw(layering: str) -> tuple[list[Spec], Spec]:
        run = scene.runs[layering]
        layout = {
            "showlegend": True,
            "xaxis": {"title": {"text": "time, s"}, "range": [0, (run.end_ns - run.start_ns) / 1e9]},
            "yaxis": {"title": {"text": "events a second"}, "rangemode": "tozero"},
        }
        amounts = summed(by_layering[layering], "count", "event", "slice")
        return stacked_over_time(amounts, _TROUBLES, run, SLICES), layout

    return plot.with_menus(
        "troubles",
        "Retransmissions, Nacks, and what else went wrong, over time",
        "Stacked areas over time: events a second of each kind",
        [Menu("layering", there)],
        draw,
        ("event", "from, s", "events a second"),
    )


def progress(rows: Rows, feeds: Sequence[str], scene: Scene) -> Figure | None:
    """Return the feed progress of each node over time, in the colour of its capture."""
    if not rows:
        return None
    steps = grouped(rows, "feed", "layering", "node")
    nodes: dict[str, set[str]] = defaultdict(set)
    for feed, _, node in steps:
        nodes[feed].add(node)

    def draw(feed: str) -> tuple[list[Spec], Spec]:
        data = []
        for layering, place in plot.places(scene.layerings).items():
            run = scene.runs[layering]
            for node in sorted(nodes[feeds_of[feed]])[:MOST_NODES]:
                found = steps.get((feeds_of[feed], layering, node), [])
                if found:
                    seconds = [round((row["time"] - run.start_ns) / 1e9, 4) for row in found]
                    newest = [row["newest"] for row in found]
                    seconds.append(round((run.end_ns - run.start_ns) / 1e9, 4))
                    newest.append(newest[-1])
                    name = layering if len(nodes[feeds_of[feed]]) == 1 else f"{layering}, {node}"
                    hover = {"hovertemplate": f"item %{{y}} at {node} by %{{x:.3f}} s"}
                    data.append(plot.line(place, name, seconds, newest, "hv", 1.2) | hover)
        layout = {
            "xaxis": {"title": {"text": "time, s"}, "range": [0, plot.run_seconds(scene)]},
            "yaxis": {"title": {"text": "newest item"}, "rangemode": "tozero"},
        }
        return data, layout

    feeds_of = {label: feed for feed, label in shortened(feeds).items()}
    return plot.with_menus(
        "progress",
        "Progress of feeds",
        "The newest item of a feed that each node has had, over time, a line for each node",
        [Menu("feed", list(feeds_of))],
        draw,
        ("layering and node", "time, s", "newest item"),
    )


def shortened(names: Sequence[str], most: int = 28) -> dict[str, str]:
    """Return a unique label of about `most` letters for each name, without its middle."""
    labels: dict[str, str] = {}
    taken: Counter[str] = Counter()
    for name in names:
        cut = name if len(name) <= most else f"{name[: most - 11]}\N{HORIZONTAL ELLIPSIS}{name[-10:]}"
        taken[cut] += 1
        labels[name] = cut if taken[cut] == 1 else f"{cut} ({taken[cut]})"
    return labels


def quantile(rows: Rows, share: float) -> float | None:
    """Return a quantile of captured.distribution, ns; None without values, or with too few for a tail."""
    if share in TAILS.values() and not are_enough(sum(row["count"] for row in rows), share):
        return None
    found = plot.quantiles_of(rows)
    return plot.at_share(found, share) * 1e6 if found else None
