"""An item's journey for the sequence chart: every packet that concerns an item, and its reason.

The page draws any item's journey itself, so the data are compact: columns of small numbers, times in whole
microseconds. Reasons are inferred from earlier packets on the same link; a capture does not show a
forwarder's own.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from analysis.columns.rows import grouped
from analysis.files import Rows
from analysis.report.figures.plot import Spec
from analysis.run.manifest import Manifest
from analysis.run.paths import delivery_paths

WHY = {
    "ask": ("interest", "asks for the item"),
    "again": ("interest", "asks for it again"),
    "hold": ("interest", "persistent Interest: asks for whatever comes"),
    "newest": ("interest", "asks what is newest"),
    "notify": ("interest", "tells that the item exists"),
    "sync": ("interest", "tells what it has (state vector)"),
    "about": ("interest", "about the feed"),
    "subscribe": ("lli", "subscribes: grants the first items"),
    "grant": ("lli", "grants more items"),
    "repair": ("lli", "repairs: asks again for items that were sent"),
    "refresh": ("lli", "refreshes: the grant is to last longer"),
    "cancel": ("lli", "cancels the subscription"),
    "item": ("data", "the item"),
    "copy": ("data", "the item, again"),
    "state": ("idle", "FeedState: heard, and how far it may send"),
    "answer": ("data", "an answer"),
    "nack": ("nack", "cannot be answered"),
}
"""Reasons by key: the kind of packet, and the chart's explanation."""

_TOPICS = {"metadata": "newest", "notify": "notify", "sync": "sync"}
_NACKS = {50: "congestion", 100: "duplicate", 150: "no route"}


class _Link:
    """Earlier traffic of one feed on a link, in one direction."""

    def __init__(self) -> None:
        self.asked: set[int] = set()
        self.sent: set[int] = set()
        self.limit = 0
        self.newest = 0


class Packet(NamedTuple):
    """A link crossing: the fields that determine its reason."""

    sender: str
    receiver: str
    kind: str
    feed: str | None
    seq: int | None
    topic: str | None
    send_credit: int | None
    is_persistent: bool | None


def reasons(packets: Iterator[Packet]) -> Iterator[tuple[str, str | None]]:
    """Yield (key of WHY, feed) for the packets of one layering in sending order."""
    links: defaultdict[tuple[str, str, str | None], _Link] = defaultdict(_Link)
    for packet in packets:
        feed, seq = packet.feed, packet.seq or 0
        own = links[packet.sender, packet.receiver, feed]
        if packet.kind == "idle":
            yield "state", feed
        elif packet.kind == "nack":
            yield "nack", feed
        elif packet.kind == "lli":
            yield _lli(packet, own, links[packet.receiver, packet.sender, feed]), feed
        elif packet.topic is not None:
            asks = _TOPICS.get(packet.topic, "about")
            yield asks if packet.kind == "interest" else "answer", feed
        elif packet.kind == "data":
            yield "copy" if seq in own.sent else "item", feed
            own.sent.add(seq)
            own.newest = max(own.newest, seq)
        elif packet.is_persistent:
            yield "hold", feed
        else:
            yield "again" if seq in own.asked else "ask", feed
            own.asked.add(seq)


def _lli(packet: Packet, own: _Link, back: _Link) -> str:
    seq, credit = packet.seq or 0, packet.send_credit or 0
    if not credit:
        own.limit = 0
        return "cancel"
    before, last = own.limit, seq + credit - 1
    own.limit = max(before, last)
    if not before:
        return "subscribe"
    if last > before:
        return "grant"
    return "repair" if seq <= back.newest else "refresh"


DELIVERED = ("layering", "node", "feed", "seq", "published", "delivered")
"""The columns of analysis.tables.latency that are drawn; times in ns."""


def journey_data(crossed: pa.Table, deliveries: pa.Table, manifest: Manifest) -> Spec:
    """Return the data of the page's journeys.

    `crossed` has rows of analysis.tables.link_transits.TRANSITS, in the order of `layering` and `sent`;
    `deliveries` DELIVERED. The result has `reasons`, `nodes`, `feeds` (name, publisher, items), `paths`
    (nodes from the publisher to a subscriber), and for each layering `packets` and `items`, columns of equal
    length; times in µs since the layering's start, -1 for never; nodes and feeds as indices.
    """
    nodes = [node.name for node in manifest.topology.nodes]
    feeds = [feed.feed for feed in manifest.workload.feeds]
    places = {name: place for place, name in enumerate(nodes)}
    numbers = {name: place for place, name in enumerate(feeds)}
    spec: Spec = {
        "reasons": [{"key": key, "kind": kind, "text": text} for key, (kind, text) in WHY.items()],
        "nodes": nodes,
        "roles": [node.role for node in manifest.topology.nodes],
        "feeds": [
            {"name": feed.feed, "publisher": places.get(feed.publisher, 0), "items": feed.items}
            for feed in manifest.workload.feeds
        ],
        "paths": _paths(manifest, places, numbers),
        "layerings": {},
    }
    rows = grouped(crossed.to_pylist(), "layering")
    made = grouped([row for row in deliveries.to_pylist() if row["feed"] in numbers], "layering")
    for layering in manifest.layerings:
        start = manifest.runs[layering].start_ns
        spec["layerings"][layering] = {
            "end": (manifest.runs[layering].end_ns - start) // 1000,
            "last": max((row["seq"] or 0 for row in rows[layering] if row["kind"] == "data"), default=0),
            "packets": _packets(rows[layering], start, places, numbers),
            "items": _items(made[layering], start, places, numbers),
        }
    return spec


def _paths(manifest: Manifest, places: Mapping[str, int], numbers: Mapping[str, int]) -> dict[str, list[int]]:
    """Return for "<feed>/<subscriber>" the indices of the nodes from the publisher on."""
    before: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for hop in delivery_paths(manifest):
        if hop.feed in numbers:
            before[hop.feed, hop.subscriber][hop.receiver] = hop.sender
    paths = {}
    for (feed, end), back in before.items():
        way = [end]
        while way[-1] in back:
            way.append(back[way[-1]])
        paths[f"{numbers[feed]}/{places[end]}"] = [places[name] for name in reversed(way)]
    return paths


def _packets(
    rows: Rows, start: int, places: Mapping[str, int], numbers: Mapping[str, int]
) -> dict[str, list[Any]]:
    """Return columns: t sent and d transit time, µs; a, b sender and receiver; w reason; f feed; s item; c
    credit of an LLI, reason of a Nack; p, l tip and limit of FeedState.
    """
    keys = list(WHY)
    columns: dict[str, list[Any]] = {name: [] for name in "tdabwfscpl"}
    why = reasons(Packet(*(row[name] for name in Packet._fields)) for row in rows)
    earlier = 0
    for row, (reason, feed) in zip(rows, why, strict=True):
        if feed is not None and feed not in numbers:
            continue  # cross traffic
        sent = (row["sent"] - start) // 1000
        values = (
            sent - earlier,
            -1 if row["received"] is None else (row["received"] - start) // 1000 - sent,
            places[row["sender"]],
            places[row["receiver"]],
            keys.index(reason),
            -1 if feed is None else numbers[feed],
            row["seq"] or 0,
            row["send_credit"]
            if row["kind"] == "lli"
            else _NACKS.get(row["nack_reason"], "no reason")
            if row["kind"] == "nack"
            else 0,
            row["feed_tip"],
            row["feed_limit"],
        )
        earlier = sent
        for column, value in zip(columns.values(), values, strict=True):
            column.append(value)
    for name in "pl":
        if all(value is None for value in columns[name]):
            columns[name] = []
    return columns


def _items(
    rows: Rows, start: int, places: Mapping[str, int], numbers: Mapping[str, int]
) -> dict[str, list[int]]:
    """Return columns: f feed, s item, n node, p publication and d delivery there, µs."""
    ordered = sorted(
        (
            numbers[row["feed"]],
            row["seq"],
            places[row["node"]],
            (row["published"] - start) // 1000,
            (row["delivered"] - start) // 1000,
        )
        for row in rows
    )
    return {name: [row[place] for row in ordered] for place, name in enumerate("fsnpd")}
