"""The packets of a layering on its links, as columns of the player's page."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, groupby
from operator import itemgetter
from statistics import median
from typing import Any, NamedTuple

import pyarrow.compute as pc

from analysis.decode.protocols.protocol import ITEM
from analysis.decode.protocols.registry import framed, in_datagrams
from analysis.files import Rows
from analysis.packet_schema import COLUMNS, MESSAGES
from analysis.player.causes import Crossing, causes, effects, repairs
from analysis.player.inputs import Inputs
from analysis.report.figures.journey import WHY, Packet, reasons
from analysis.report.figures.wire import kind_looks
from analysis.report.words.numbers import count_of

_OF_FEED = {"interest", "lli", "data", "nack", "idle"}
_OTHERS = {
    "segment": "a TCP segment that completes no message",
    "hello": "Hello: tells the neighbour of its feeds, and that it lives",
    "other": "of no known protocol",
}
_WORDS = {"segment": "TCP segment", "hello": "Hello", "other": "packet"}
_WORDS |= {f"{protocol.name} {ITEM}": "item" for protocol in framed()}
_HIDDEN = {"layering", "interface", "node", "direction", "frame", "time", "frame_bytes", "kind", "transport"}
_HIDDEN |= {"feed", "seq"}
DETAILS = {column.name: [column.unit, column.meaning] for column in COLUMNS if column.name not in _HIDDEN}
"""Unit and meaning of the fields of a dissected packet."""

SHORT = {"sent": "t", "took": "d", "kind": "k", "reason": "w", "sender": "a", "receiver": "b", "feed": "f"}
SHORT |= {"seq": "s", "credit": "c", "tip": "p", "limit": "l", "size": "z", "cause": "u"}
"""The columns of a packet on the page."""


class Packets(NamedTuple):
    """Packets in order of time: columns of SHORT, ns from the run's start, `took` negative of what a lost one
    would have taken; and each one's dissection, effects, and repair, -1 if there is none.
    """

    columns: dict[str, list[Any]]
    details: dict[str, list[Any]]
    effects: list[list[int]]
    repairs: list[int]


def kinds() -> dict[str, tuple[str, str]]:
    """Return name and colour of each kind of packet; a segment has those of the message it completes."""
    looks = dict(kind_looks())
    for protocol in framed():
        for place, (kind, title) in enumerate(protocol.kinds.items()):
            shade = "--payload" if kind == ITEM else f"--own-{place % 15}"
            looks[f"{protocol.name} {kind}"] = f"{protocol.name}: {title}", shade
    return looks


def reason_texts() -> Rows:
    """Return the reasons for packets: key, kind, and text, which the page shows."""
    own = dict(_OTHERS)
    own |= {
        f"{protocol.name} {kind}": title for protocol in framed() for kind, title in protocol.kinds.items()
    }
    own |= {kind: title for protocol in in_datagrams() for kind, title in protocol.kinds.items()}
    told = [{"key": key, "kind": kind, "text": text} for key, (kind, text) in WHY.items()]
    return told + [
        {"key": key, "kind": key, "text": text, "words": _WORDS.get(key, key.replace("_", " "))}
        for key, text in own.items()
    ]


def packets(given: Inputs) -> Packets:
    """Return the packets of a layering."""
    order = [(name, "ascending") for name in ("sent", "frame", "sender", "receiver")]
    table = given.table("transits")
    rows = table.sort_by(order).to_pylist() if len(table) else []
    details = _details(given, rows)
    brought = _brought(given)
    crossings = [_crossing(row, own, brought) for row, own in zip(rows, details, strict=True)]
    found = causes(crossings, given.events, is_exact=given.case.manifest.net == "emulated")
    mended = repairs(crossings)
    columns = _columns(given, rows, brought) | {"cause": found}
    for row, own in zip(rows, details, strict=True):
        own["brings"] = _brings(given, brought.get((row["sender"], row["frame"]), []))
        own["fragments"] = row["frames"] if (row["frames"] or 1) > 1 else None
    names = [*DETAILS, "brings", "fragments"]
    return Packets(
        {SHORT[name]: values for name, values in columns.items()},
        {name: [own.get(name) for own in details] for name in names},
        effects(found),
        [mended.get(number, -1) for number in range(len(rows))],
    )


def _details(given: Inputs, rows: Rows) -> Rows:
    """Return the dissection of each packet, from where it was sent."""
    table = given.table("packets")
    found: dict[tuple[int, str], dict[str, Any]] = {}
    if len(table):
        sent = table.filter(pc.field("direction") == "out").select(["frame", "kind", *DETAILS])
        for row in sent.to_pylist():
            frame, kind = row.pop("frame"), row.pop("kind")
            for name in ("pit_token", "hello", "evidence"):
                row[name] = None if row[name] is None else row[name].hex()
            found[frame, kind] = row
    nothing = dict.fromkeys(DETAILS)
    return [dict(found.get((row["frame"], row["kind"]), nothing)) for row in rows]


def _brought(given: Inputs) -> dict[tuple[str, int], Rows]:
    """Return the messages over TCP that each frame completes where it is sent: by node and frame."""
    sent = [row for row in given.stream_messages if row["direction"] == "out"]
    where = itemgetter("node", "frame")
    return {place: list(own) for place, own in groupby(sorted(sent, key=where), key=where)}


def _brings(given: Inputs, rows: Rows) -> str | None:
    """Say which messages a segment completes."""
    said = []
    for row in rows:
        item = f" {row['seq']} of {given.labels.get(row['feed'], row['feed'])}" if row["seq"] else ""
        notes = f" ({count_of(row['notes'], 'feed')})" if row.get("notes") else ""
        said.append(f"{row['kind']}{item}{notes}")
    return ", ".join(said) or None


def _main(rows: Rows) -> dict[str, Any] | None:
    """Return the message for which a segment is named."""
    return min(rows, key=lambda row: row["kind"] != ITEM, default=None)


def _crossing(
    row: Mapping[str, Any], own: Mapping[str, Any], brought: Mapping[tuple[str, int], Rows]
) -> Crossing:
    feed, seq, subject, connection = row["feed"], row["seq"], own["name"], None
    if row["kind"] in MESSAGES and feed is not None and seq is not None and row["topic"] is None:
        subject = feed, seq
    elif row["kind"] == "segment":
        ends = (own["src"], own["src_port"]), (own["dst"], own["dst_port"])
        connection = frozenset(ends)
        subject = (*ends, own["tcp_seq"], own["tcp_ack"], own["tcp_flags"], row["frame_bytes"])
        feed = None
    times = row["sent"], row["received"]
    credit = row["send_credit"] or 0
    return Crossing(
        row["sender"], row["receiver"], *times, row["kind"], subject, feed, seq, credit, connection
    )


def _columns(given: Inputs, rows: Rows, brought: Mapping[tuple[str, int], Rows]) -> dict[str, list[Any]]:
    places = {name: place for place, name in enumerate(given.nodes)}
    feeds = {name: place for place, name in enumerate(given.feeds)}
    texts = {row["key"]: place for place, row in enumerate(reason_texts())}
    looks = {kind: place for place, kind in enumerate(kinds())}
    usual = _usual(rows)
    columns: dict[str, list[Any]] = {name: [] for name in SHORT if name != "cause"}
    for row, (key, about) in zip(rows, _reasons(rows), strict=True):
        kind, why, feed, seq = row["kind"], key, about, row["seq"]
        message = _main(brought.get((row["sender"], row["frame"]), [])) if kind == "segment" else None
        if message is not None:
            kind = why = f"{message['protocol']} {message['kind']}"
            feed, seq = message["feed"], message["seq"]
        lost = -usual[row["sender"], row["receiver"]]
        values = (
            row["sent"] - given.start,
            lost if row["received"] is None else row["received"] - row["sent"],
            looks.get(kind, looks["other"]),
            texts.get(why, texts["other"]),
            places[row["sender"]],
            places[row["receiver"]],
            feeds.get(feed or "", -1),
            seq or 0,
            row["send_credit"] or row["nack_reason"] or 0,
            row["feed_tip"],
            row["feed_limit"],
            row["frame_bytes"],
        )
        for column, value in zip(columns.values(), values, strict=True):
            column.append(value)
    return columns


def _reasons(rows: Rows) -> Iterator[tuple[str, str | None]]:
    """Yield the key of reason_texts() and the feed of each packet."""
    told = (row for row in rows if row["kind"] in _OF_FEED)
    why = reasons(Packet(*(row[name] for name in Packet._fields)) for row in told)
    for row in rows:
        yield next(why) if row["kind"] in _OF_FEED else (row["kind"], row["feed"])


def _usual(rows: Rows) -> dict[tuple[str, str], int]:
    """Return the median time that packets take on each link; 1 ms where none arrived."""
    times: dict[tuple[str, str], list[int]] = {}
    for row in rows:
        own = times.setdefault((row["sender"], row["receiver"]), [])
        if row["received"] is not None:
            own.append(row["received"] - row["sent"])
    every = list(chain.from_iterable(times.values()))
    usual = max(1, round(median(every))) if every else 1_000_000
    return {link: max(1, round(median(own))) if own else usual for link, own in times.items()}


def spans(times: Sequence[int], most: int) -> list[int]:
    """Return the begins of windows with about `most` of these ascending times each; the first is 0."""
    begins = [0]
    for place in range(most, len(times), most):
        if times[place] > begins[-1]:
            begins.append(times[place])
    return begins
