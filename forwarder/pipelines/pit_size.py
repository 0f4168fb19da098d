"""Size of a node's pending state towards the network, in entries and bytes.

Only faces to the network count: captures show no packets of local applications, so state towards these could
not be verified.
"""

from collections.abc import Mapping

from forwarder.lli.entry import FeedEntry
from forwarder.lli.ranges import Range
from forwarder.lli.table import RANGE_BYTES
from forwarder.pipelines.tables import Tables
from forwarder.tables.face import Face
from forwarder.tables.pit import RECORD_BYTES, PitEntry


def pit_held(tables: Tables) -> tuple[int, int]:
    """Return the number of pending entries, and their size in bytes.

    An entry is a classic Interest or a subscribed feed. Its bytes are its name, plus RECORD_BYTES a record,
    or RANGE_BYTES a range and a feed's upstream.
    """
    entries = size = 0
    for entry in tables.pit:
        if records := network_records(entry, tables.faces):
            entries += 1
            size += len(entry.key[0]) + RECORD_BYTES * records
    for feed in tables.feeds or ():
        if ranges := _ranges(feed, tables.faces):
            entries += 1
            size += len(feed.feed) + RANGE_BYTES * ranges
    return entries, size


def granted_ranges(tables: Tables) -> list[Range]:
    """Return the ranges that downstreams in the network have granted."""
    ranges = (each for feed in tables.feeds or () for each in feed.ranges.items())
    return [granted for face, granted in ranges if _is_network(face, tables.faces)]


def network_records(entry: PitEntry, faces: Mapping[int, Face]) -> int:
    """Return how many records of an entry are of faces to the network. Loops: nodes are sampled often."""
    count = 0
    for waiting in entry.in_records:
        count += _is_network(waiting.face, faces)
    for asked in entry.out_records:
        count += _is_network(asked.face, faces)
    return count


def _ranges(feed: FeedEntry, faces: Mapping[int, Face]) -> int:
    """Return how many downstreams and upstreams of a feed are faces to the network."""
    granted = sum(_is_network(face, faces) for face, _ in feed.ranges.items())
    return granted + sum(_is_network(face, faces) for face, _ in feed.holders())


def _is_network(number: int | None, faces: Mapping[int, Face]) -> bool:
    face = None if number is None else faces.get(number)
    return face is not None and not face.is_local
