"""Size of a node's state in entries and bytes.

Of pending state only faces to the network count: captures show no packets of local applications, so state
towards these could not be verified.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from forwarder.lli.table import RANGE_BYTES, FeedTable
from forwarder.pipelines.tables import Tables
from forwarder.tables.face import Face
from forwarder.tables.pit import RECORD_BYTES, InRecord, OutRecord, PitEntry

ROUTE_BYTES: Final = 8
"""A next hop: face and cost, 4 each; its prefix counts once."""
STRATEGY_BYTES: Final = 4
"""The number of a prefix's own strategy."""
EVIDENCE_BYTES: Final = 9
"""Number and hops of evidence of a source; a proof counts where it is kept."""
NONCE_BYTES: Final = 4


class StateSize(NamedTuple):
    """State of one kind at a node, as docs/architecture.md counts it.

    Attributes:
        entries: of the PIT, classic Interests, and subscribed feeds.
        bytes: there, of names, plus RECORD_BYTES a record, or RANGE_BYTES a range and a feed's upstream.
    """

    entries: int
    bytes: int


class Granted(NamedTuple):
    """Ranges and credit that downstreams on the network have granted.

    Attributes:
        ranges: ranges of items of feeds.
        credit: items that may still be sent in those ranges, repeated requests not counted.
    """

    ranges: int
    credit: int


def _classic_size(tables: Tables) -> StateSize:
    """Return the size of the entries of classic Interests.

    Loops rather than expressions, here and below: nodes are sampled often.
    """
    network = _of_network(tables)
    entries = size = 0
    for entry in tables.pit:
        records = 0
        for waiting in entry.in_records:
            records += waiting.face in network
        for asked in entry.out_records:
            records += asked.face in network
        if records:
            entries += 1
            size += len(entry.key[0]) + RECORD_BYTES * records
    return StateSize(entries, size)


def _feeds_size(tables: Tables) -> StateSize:
    """Return the size of the entries of subscribed feeds."""
    network = _of_network(tables)
    entries = size = 0
    for feed in tables.feeds or ():
        holders = 0
        for downstream, _ in feed.ranges.items():
            holders += downstream in network
        for face, _ in feed.holders():
            holders += face in network
        if holders:
            entries += 1
            size += len(feed.feed) + RANGE_BYTES * holders
    return StateSize(entries, size)


def pit_size(tables: Tables) -> StateSize:
    """Return the size of a node's PIT."""
    classic, feeds = _classic_size(tables), _feeds_size(tables)
    return StateSize(classic.entries + feeds.entries, classic.bytes + feeds.bytes)


def held(tables: Tables) -> dict[str, StateSize]:
    """Return the entries and bytes of all state of a forwarder, by kind: docs/architecture.md, State."""
    choices = [len(prefix) + STRATEGY_BYTES for prefix, _ in tables.strategies.items() if prefix]
    state = {
        "pit": _classic_size(tables),
        "routes": StateSize(len(tables.fib), tables.fib.name_bytes + ROUTE_BYTES * tables.fib.next_hops),
        "strategies": StateSize(len(choices), sum(choices)),
    }
    if tables.feeds is not None:
        state |= {"llis": _feeds_size(tables), "sources": _sources_size(tables.feeds)}
    return state


def _sources_size(feeds: FeedTable) -> StateSize:
    """Return the size of what is known of feeds' sources: evidence, and what outlives a feed's entry."""
    entries = size = 0
    for entry in feeds:
        known = [entry.evidence, *(holder.offered for _, holder in entry.holders())]
        for granted in entry.ranges:
            known += (granted.known, granted.told)
        evidence = sum(each is not None for each in known)
        if evidence:
            entries += 1
            size += EVIDENCE_BYTES * evidence + len(entry.evidence.proof if entry.evidence else b"")
    for feed, _, memory in feeds.remembered():
        entries += 1
        size += len(feed) + NONCE_BYTES * len(memory.nonces)
        if memory.evidence is not None:
            size += EVIDENCE_BYTES + len(memory.evidence.proof)
    return StateSize(entries, size)


def granted(tables: Tables) -> Granted:
    """Return what a node's downstreams have granted."""
    network = _of_network(tables)
    ranges = credit = 0
    for feed in tables.feeds or ():
        for face, each in feed.ranges.items():
            if face in network:
                ranges += 1
                credit += each.limit - each.next + 1
    return Granted(ranges, credit)


def _of_network(tables: Tables) -> set[int]:
    return {number for number, face in tables.faces.items() if not face.is_local}


def is_of_network(entry: PitEntry, faces: Mapping[int, Face]) -> bool:
    """Return whether an entry has a record of a face to the network."""
    records: list[InRecord | OutRecord] = [*entry.in_records, *entry.out_records]
    for record in records:
        face = faces.get(record.face)
        if face is not None and not face.is_local:
            return True
    return False
