"""Size of a node's pending state towards the network, in entries and bytes.

Only faces to the network count: captures show no packets of local applications, so state towards these could
not be verified.
"""

from collections.abc import Mapping
from typing import NamedTuple

from forwarder.lli.table import RANGE_BYTES
from forwarder.pipelines.tables import Tables
from forwarder.tables.face import Face
from forwarder.tables.pit import RECORD_BYTES, InRecord, OutRecord, PitEntry


class PitSize(NamedTuple):
    """The size of a PIT.

    Attributes:
        entries: classic Interests, and subscribed feeds.
        bytes: of names, plus RECORD_BYTES a record, or RANGE_BYTES a range and a feed's upstream.
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


def pit_size(tables: Tables) -> PitSize:
    """Return the size of a node's PIT. Loops rather than expressions: nodes are sampled often."""
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
    for feed in tables.feeds or ():
        holders = 0
        for downstream, _ in feed.ranges.items():
            holders += downstream in network
        for face, _ in feed.holders():
            holders += face in network
        if holders:
            entries += 1
            size += len(feed.feed) + RANGE_BYTES * holders
    return PitSize(entries, size)


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
