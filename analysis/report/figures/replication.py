"""The report's plots of replication between peers: cost per peer, spreading of messages, and the cost of
popularity.
"""

from collections import Counter, defaultdict
from itertools import accumulate
from typing import Any

from analysis.columns.values import ALL, MESSAGES, MODES, REPEATED, REST, layer_name
from analysis.decode.protocols.protocol import ITEM
from analysis.decode.protocols.registry import PROTOCOLS
from analysis.files import Rows
from analysis.report.figures import plot
from analysis.report.figures.plot import Figure, Menu, Spec
from analysis.report.figures.state import node_heat
from analysis.report.figures.wire import layer_looks, stacked_bars
from analysis.run.manifest import Manifest

_PEERS = ["median peer", "busiest peer", "author of most"]
MOST_CONNECTIONS = 40
"""Maximum number of rows of the map of EBT by connection."""

_FEW = 3  # minimum numbers of followers for a trend
_SHADES = {MESSAGES: "--payload", REPEATED: "--retransmitted", REST: "--tcp"}


def causes(rows: Rows, authors: Rows, manifest: Manifest) -> Figure:
    """Return a peer's bytes sent and received, stacked by cause: the median, the busiest, or an author."""
    bytes_of: defaultdict[str, Counter[str]] = defaultdict(Counter)
    by_cause: Counter[tuple[str, str, str]] = Counter()
    for row in rows:
        size = row["sent_bytes"] + row["received_bytes"]
        bytes_of[row["layering"]][row["node"]] += size
        by_cause[row["layering"], row["node"], row["cause"]] += size
    chosen: dict[tuple[str, str], str] = {}
    for layering, nodes in bytes_of.items():
        ordered = sorted(nodes, key=lambda node: (nodes[node], node))
        most = max(
            (row for row in authors if row["layering"] == layering),
            key=lambda row: (row["published"], row["sent_bytes"]),
            default=None,
        )
        nominated = [ordered[(len(ordered) - 1) // 2], ordered[-1]]
        nominated += [most["node"]] if most is not None else []
        chosen |= {(layering, who): node for who, node in zip(_PEERS, nominated, strict=False)}
    layerings = [x for x in manifest.layerings if x in bytes_of]
    stack = _stack(manifest, layerings)
    kilo = dict.fromkeys(layerings, 1000.0)

    def draw(who: str) -> tuple[list[Spec], Spec]:
        amounts = {
            (layering, cause): float(by_cause[layering, chosen[layering, who], cause])
            for layering in layerings
            if (layering, who) in chosen
            for cause, _, _ in stack
        }
        return stacked_bars(amounts, stack, kilo, manifest, "kB", "kB sent and received in the run")

    return plot.with_menus(
        "causes",
        "What a peer sends and receives, by cause",
        "Stacked bars, one for each layering: kB that one peer sent and received, of each cause",
        [Menu("peer", _PEERS)],
        draw,
        ("cause", "layering", "kB"),
    )


def holders(rows: Rows, manifest: Manifest) -> Figure | None:
    """Return the nodes with contents that are to be deleted, over time; `rows` are
    analysis.metrics.run.held_state.HOLDERS.
    """
    if not any(row["nodes"] for row in rows):
        return None

    def draw(what: str) -> tuple[list[Spec], Spec]:
        data = []
        for layering, place in plot.places(manifest.layerings).items():
            run = manifest.runs[layering]
            own = [row for row in rows if row["layering"] == layering]
            if own:
                x = [round((row["time"] - run.start_ns) / 3.6e12, 4) for row in own]
                y = [row[what] for row in own]
                hours = round((run.end_ns - run.start_ns) / 3.6e12, 4)
                data.append(plot.line(place, layering, [*x, hours], [*y, y[-1]], shape="hv"))
        return data, {
            "xaxis": {"title": {"text": "time since the start of the run, h"}, "rangemode": "tozero"},
            "yaxis": {"title": {"text": f"{what} to be deleted"}, "rangemode": "tozero"},
        }

    return plot.with_menus(
        "holders",
        "Who has contents that their author asks to delete",
        "Lines, one for each layering: nodes with such contents, or all copies of these, over time",
        [Menu("count", ["nodes", "contents"])],
        draw,
        ("layering", "time, h", "nodes or contents"),
    )


def spread(latency: Rows, reached: Rows, manifest: Manifest) -> Figure:
    """Return the share of followers with a message, over time, rounds of calls, or peers crossed."""
    layerings = list(dict.fromkeys(row["layering"] for row in reached))
    place_of = plot.places(manifest.layerings)
    everyone = {row["layering"]: row for row in latency if row["node"] == ALL}
    rounds = {
        layering: interval
        for layering in layerings
        if (interval := manifest.parameters.get(layering, {}).get("interval_ms"))
    }
    scales = ["time", *(["rounds"] if rounds else []), "connections crossed"]

    def over_time(layering: str, unit_ms: float) -> tuple[list[float], list[float]]:
        share = everyone[layering]["deliveries"] / (manifest.expected_deliveries or 1)
        times = [round(ns / 1e6 / unit_ms, 4) for ns in everyone[layering]["quantiles_ns"]]
        return times, [round(100 * share * k / max(len(times) - 1, 1), 2) for k in range(len(times))]

    def draw(scale: str) -> tuple[list[Spec], Spec]:
        data = []
        for layering in layerings:
            if scale == "connections crossed":
                own = sorted((row["hops"], row["copies"]) for row in reached if row["layering"] == layering)
                whole = sum(copies for _, copies in own)
                x = [0.0, *(float(hops) for hops, _ in own)]
                y = [0.0, *(round(100 * part / whole, 2) for part in accumulate(n for _, n in own))]
            elif layering not in everyone or (scale == "rounds" and layering not in rounds):
                continue
            else:
                x, y = over_time(layering, rounds[layering] if scale == "rounds" else 1)
            data.append(
                plot.line(
                    place_of[layering],
                    layering,
                    x,
                    y,
                    shape="hv" if scale == "connections crossed" else "linear",
                )
            )
        titles = {
            "time": "time since publication, ms (logarithmic)",
            "rounds": "time since publication, rounds of calls",
            "connections crossed": "connections between peers that the message has crossed",
        }
        y_title = "first copies, %" if scale == "connections crossed" else "followers that have it, %"
        axis = plot.logarithmic(data, "x") if scale == "time" else {"rangemode": "tozero"}
        return data, {
            "xaxis": {"title": {"text": titles[scale]}, **axis},
            "yaxis": {"title": {"text": y_title}, "range": [0, 101]},
        }

    return plot.with_menus(
        "spread",
        "How a message spreads",
        "Lines, one for each layering: the share of a message’s followers that have it",
        [Menu("over", scales)],
        draw,
        ("layering", "time, rounds or connections", "followers, %"),
    )


def popularity(authors: Rows, manifest: Manifest) -> Figure | None:
    """Return each author's bytes sent per message, over its followers.

    None for fewer than three distinct numbers of followers: no trend would show.
    """
    if len({row["followers"] for row in authors if row["published"]}) < _FEW:
        return None
    data: list[Spec] = []
    for layering, place in plot.places(manifest.layerings).items():
        own = sorted(
            (row["followers"], row["sent_bytes"] / row["published"] / 1000, row["node"])
            for row in authors
            if row["layering"] == layering and row["published"] and row["followers"]
        )
        if own:
            data.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": layering,
                    "meta": place,
                    "x": [followers for followers, _, _ in own],
                    "y": [round(kilo, 3) for _, kilo, _ in own],
                    "text": [node for _, _, node in own],
                    "marker": {"color": plot.colour(place), "size": 8},
                    "hovertemplate": "%{text}: %{y:.4g} kB a message, %{x} followers",
                }
            )
    layout: Spec = {
        "xaxis": {"title": {"text": "followers"}, "rangemode": "tozero"},
        "yaxis": {
            "title": {"text": "kB sent for each own message (logarithmic)"},
            **plot.logarithmic(data, "y"),
        },
    }
    return plot.figure(
        "popularity",
        "What being popular costs an author",
        "Points, one for each layering and author: kB that the author sent for each of its messages, over "
        "the number of its followers",
        data,
        layout,
        ("layering", "followers", "kB a message"),
    )


def most_switched(connections: Rows) -> Rows:
    """Return EBT's connections, those with most changes between eager and lazy first, then by feeds."""

    def order(row: dict[str, Any]) -> tuple[Any, ...]:
        return -row["switched"], -row["eager"] - row["lazy"], row["layering"], row["node"], row["peer"]

    return sorted(connections, key=order)


def modes(connections: Rows, rows: Rows, manifest: Manifest) -> Figure | None:
    """Return the heat map of eager and lazy feeds by connection and time, for the first MOST_CONNECTIONS of
    most_switched(); None without EBT.

    `connections` and `rows` are analysis.metrics.run.ebt's.
    """
    if not rows:
        return None
    ways = list(dict.fromkeys(f"{row['node']} from {row['peer']}" for row in most_switched(connections)))[
        :MOST_CONNECTIONS
    ]
    over = manifest.model_copy(
        update={"layerings": [x for x in manifest.layerings if any(row["layering"] == x for row in rows)]}
    )
    return node_heat(
        "ebt-heat",
        "EBT by connection and time",
        "A map: a row for each peer of a node, time to the right, darker with more feeds",
        [row | {"node": f"{row['node']} from {row['peer']}"} for row in rows],
        sorted(ways),
        over,
        Menu("feeds", list(MODES)),
        "feeds, mean",
    )


def _stack(manifest: Manifest, layerings: list[str]) -> list[tuple[str, str, str]]:
    """Return key, title and colour of each cause of all protocols of layerings."""
    looks = layer_looks()
    found: dict[str, tuple[str, str, str]] = {}
    for name in dict.fromkeys(map(manifest.protocol, layerings)):
        kinds = {kind: title for kind, title in PROTOCOLS[name].kinds.items() if kind != ITEM}
        titles = {MESSAGES: "messages", REPEATED: "messages again"} | kinds | {REST: "TCP alone"}
        for number, (cause, title) in enumerate(titles.items()):
            layer = looks.get(layer_name(name, cause), ("", f"--own-{(number + 5) % 15}"))
            found[cause] = (cause, title, _SHADES.get(cause, layer[1]))
    return list(found.values())
