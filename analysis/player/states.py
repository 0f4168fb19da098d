"""The tables of nodes over time, as the player shows them: what each row holds from each time on.

Nothing is computed here that the analysis does not: PITs are analysis.pit.contents, progress of feeds is
analysis.live.following.Progress, the modes of EBT are analysis.metrics.run.ebt; counters are the nodes' own.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from heapq import merge
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

import pyarrow.compute as pc

from analysis.columns.values import MODES
from analysis.decode.protocols.protocol import ITEM, NDN
from analysis.decode.protocols.tiny import CONTROL
from analysis.live.following import Progress
from analysis.metrics.run.ebt import modes, turns
from analysis.packet_schema import FOREVER, MESSAGES, NOTICES
from analysis.pit import contents
from analysis.pit.entry import Message
from analysis.player.inputs import Inputs
from analysis.report.figures.tiny import COUNTED
from analysis.run.paths import delivery_paths

TABLES = {
    "total": ("PIT in total", ("entries", "bytes", "ranges", "credit")),
    "interest": ("Pending Interests", ("name", "asked by", "asked of", "expires")),
    "downstream": (
        "Long-lived Interests from downstream",
        ("feed", "from", "next item", "last item", "credit", "again", "expires", "source offered"),
    ),
    "upstream": (
        "Long-lived Interests sent upstream",
        ("feed", "to", "next item", "last item", "missing", "expires", "open"),
    ),
    "feed": ("Feeds: clock and cache", ("feed", "newest item here", "missing before it", "delivered")),
    "session": ("EBT sessions", ("with", "feeds eager", "feeds lazy")),
    "side": ("EBT feed by feed", ("feed", "eager with", "lazy with")),
    "connection": ("TCP connections", ("with", "opened by")),
    "contract": ("tinyISP, commands written so far", ("command", "number")),
    "route": ("Routes at the start", ("feed", "towards")),
    "counter": ("Counters of the node", ("counter", "value")),
}
"""Title and columns of each table. A column "expires" is a time, ns from the run's start; -1 for never."""

NETWORK = ""
"""The place of rows about the whole network: a link that is down has a row in its table "link"."""

SAMPLED = "counted at, s"
"""The counter with the time of a sample."""

Value: TypeAlias = tuple[Any, ...]


class Change(NamedTuple):
    """A row of a node's table from `time` on, ns from the run's start; value None: there is none any more.

    `key` and `value` together have the columns of TABLES. `feed`: its index, -1 if it is about none.
    """

    time: int
    node: str
    table: str
    key: str
    value: Value | None
    feed: int = -1


def changes(given: Inputs) -> list[Change]:
    """Return all changes of a layering's tables, in order of time."""
    every = [_routes(given), _counters(given), _feeds(given), _links(given)]
    if given.case.protocol == NDN:
        every.append(_pits(given))
    connections = given.table("connections").to_pylist()
    every += [_connections(given, connections), _sessions(given, connections), _contracts(given)]
    moved = (change._replace(time=max(0, change.time - given.start)) for rows in every for change in rows)
    return sorted((change for change in moved if change.time <= given.end - given.start), key=itemgetter(0))


def _pits(given: Inputs) -> Iterator[Change]:
    broken: defaultdict[str, list[Message]] = defaultdict(list)
    for row in given.breaks():
        broken[row["node"]].append(Message(row["time"], row["interface"], "", row["event"], "", 0))
    seen = given.messages
    for node in dict.fromkeys([*seen, *broken]):
        own = _messages(seen[node].to_pylist()) if node in seen else iter(())
        pit = contents.Contents()
        # A break precedes all packets of its time.
        for change in pit.receive(merge(broken[node], own, key=itemgetter(0)), given.end):
            yield _of_pit(given, node, change)
        for time, state in pit.states():
            yield Change(time, node, "total", "", (*state,))


def _messages(rows: list[dict[str, Any]]) -> Iterator[Message]:
    for row in rows:
        if row["kind"] in NOTICES or (row["kind"] in MESSAGES and row["name"] is not None):
            yield Message(*(row[name] for name in Message._fields))


def _of_pit(given: Inputs, node: str, change: contents.Change) -> Change:
    kind, name, interface = change.key
    row = change.row
    value: Value | None = None

    def at(interfaces: tuple[str, ...]) -> str:
        return ", ".join(given.neighbours.get(each, each) for each in interfaces)

    def until(expiry: int) -> int:
        return -1 if expiry >= FOREVER else expiry - given.start

    if isinstance(row, contents.Interest):
        value = at(row.asked_by) or "an application", at(row.asked_of) or "–", until(row.expiry)
    elif isinstance(row, contents.Granted):
        value = row.next, row.limit, row.credit, row.again, until(row.expiry), _yes(row.has_source)
    elif isinstance(row, contents.Requested):
        value = row.head, row.limit, row.missing, until(row.expiry), _yes(row.is_active)
    label = given.said(name)
    feed = next((k for k, known in enumerate(given.feeds) if name.startswith(known)), -1)
    if interface:
        label, peer = given.labels.get(name, name), at((interface,))
        return Change(change.time, node, kind, f"{label}\t{peer}", value, feed)
    return Change(change.time, node, kind, label, value, feed)


def _yes(holds: bool) -> str:
    return "yes" if holds else "no"


def _feeds(given: Inputs) -> Iterator[Change]:
    """Yield progress of feeds at nodes: items that packets or the node's application have brought."""
    numbers = {name: place for place, name in enumerate(given.feeds)}
    seen = [
        (row["time"], row["node"], "seen", row["feed"], row["seq"])
        for row in [*_items(given), *(row for row in given.stream_messages if row["kind"] == ITEM)]
        if row["feed"] in numbers and row["seq"] is not None
    ]
    noted = [
        (row["time"], row["node"], row["event"], row["feed"], row["seq"])
        for row in given.events
        if row["event"] in ("published", "delivered") and row["feed"] in numbers
    ]
    progress: dict[tuple[str, str], Progress] = {}
    delivered: Counter[tuple[str, str]] = Counter()
    last: dict[tuple[str, str], Value] = {}
    for time, node, event, feed, seq in sorted(seen + noted, key=itemgetter(0)):
        place = node, feed
        if event == "delivered":
            delivered[place] += 1
        progress.setdefault(place, Progress(seq)).add(seq)
        value = progress[place].newest, progress[place].missing, delivered[place]
        if last.get(place) != value:
            last[place] = value
            yield Change(time, node, "feed", given.labels[feed], value, numbers[feed])


def _items(given: Inputs) -> Iterator[dict[str, Any]]:
    """Yield the items of NDN packets at nodes."""
    for table in given.messages.values():
        for row in table.select(["time", "node", "kind", "feed", "seq"]).to_pylist():
            if row["kind"] == "data":
                yield row


def _sessions(given: Inputs, connections: list[dict[str, Any]]) -> Iterator[Change]:
    """Yield EBT's modes, from the notes that each node sent to each peer."""
    node_of = {row["src" if row["direction"] == "out" else "dst"]: row["node"] for row in connections}
    notes = [
        row | {"peer": node_of[row["dst"]], "layering": given.case.layering}
        for row in given.stream_messages
        if row.get("eager") is not None
        and row["direction"] == "out"
        and node_of.get(row["src"]) == row["node"]
        and row["dst"] in node_of
    ]
    known = [row | {"layering": given.case.layering} for row in connections]
    for (_, node, peer), steps in modes(notes, known).items():
        for time, numbers in steps.items():
            yield Change(time, node, "session", peer, numbers)
    yield from _sides(given, turns(notes, known))


def _sides(
    given: Inputs, steps: Iterable[tuple[int, tuple[str, str, str], dict[str, str]]]
) -> Iterator[Change]:
    """Yield the peers with which a node has each feed eager, and those with which lazy."""
    numbers = {name: place for place, name in enumerate(given.feeds)}
    held: defaultdict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    peers: defaultdict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for time, (_, node, peer), now in steps:
        before = held[node, peer]
        held[node, peer] = now
        for feed in [feed for feed in {**before, **now} if before.get(feed) != now.get(feed)]:
            own = peers[node, feed]
            own.pop(peer, None)
            if feed in now:
                own[peer] = now[feed]
            value = tuple(", ".join(x for x in given.nodes if own.get(x) == mode) or "–" for mode in MODES)
            place = numbers.get(feed, -1)
            yield Change(time, node, "side", given.labels.get(feed, feed), value if own else None, place)


def _connections(given: Inputs, rows: list[dict[str, Any]]) -> Iterator[Change]:
    ends = {row["src" if row["direction"] == "out" else "dst"]: row["node"] for row in rows}
    for row in rows:
        if row["direction"]:
            is_own = row["direction"] == "out"
            other = row["dst" if is_own else "src"]
            key = f"{ends.get(other, other)}, ports {row['src_port']} to {row['dst_port']}"
            opener = row["node"] if is_own else ends.get(other, other)
            yield Change(row["opened"] or given.start, row["node"], "connection", key, (opener,))
            if row["closed"] is not None:
                yield Change(row["closed"], row["node"], "connection", key, None)


def _contracts(given: Inputs) -> Iterator[Change]:
    """Yield the commands of tinyISP that each node wrote; an entry is its first sender's."""
    packets = given.table("packets")
    named = {command: column.replace("_", " ") for column, every in COUNTED.items() for command in every}
    known: set[str] = set()
    counts: Counter[tuple[str, str]] = Counter()
    if not len(packets):
        return
    wanted = packets.filter((pc.field("kind") == CONTROL) & (pc.field("direction") == "out"))
    rows = wanted.select(["time", "node", "name"]).to_pylist()
    for row in sorted(rows, key=itemgetter("time")):
        command = row["name"].rpartition("/")[2]
        if row["name"] not in known and command in named:
            known.add(row["name"])
            key = row["node"], named[command]
            counts[key] += 1
            yield Change(row["time"], *(key[0], "contract", key[1]), (counts[key],))


def _routes(given: Inputs) -> Iterator[Change]:
    for hop in dict.fromkeys(
        (hop.feed, hop.sender, hop.receiver) for hop in delivery_paths(given.case.manifest)
    ):
        feed, towards, node = hop
        place = given.feeds.index(feed) if feed in given.feeds else -1
        yield Change(given.start, node, "route", given.labels.get(feed, feed), (towards,), place)


def _links(given: Inputs) -> Iterator[Change]:
    """Yield links that go down, and come back."""
    for event in given.case.manifest.happenings(given.case.layering):
        if event.event in ("link-down", "link-up"):
            value = ("down",) if event.event == "link-down" else None
            yield Change(given.start + event.time_ns, NETWORK, "link", event.link, value)


def _counters(given: Inputs) -> Iterator[Change]:
    last: defaultdict[str, dict[str, Value]] = defaultdict(dict)
    for row in given.counters():
        time, node = row.pop("time"), row.pop("node")
        own: dict[str, Value] = {SAMPLED: (round((time - given.start) / 1e9, 6),)}
        own |= {key: (value,) for key, value in _flat(row)}
        for key in dict.fromkeys([*last[node], *own]):
            value = own.get(key)
            if last[node].get(key) != value:
                yield Change(time, node, "counter", key, value)
        last[node] = own


def _flat(row: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the counters of a row; of a list its length."""
    for name, value in row.items():
        key = f"{before} {name}".strip().replace("_", " ")
        if isinstance(value, dict):
            yield from _flat(value, key)
        else:
            yield key, len(value) if isinstance(value, list) else value
