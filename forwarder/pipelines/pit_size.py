"""Size of a node's state in entries and bytes.

Of pending state only faces to the network count: captures show no packets of local applications, so state
towards these could not be verified.
"""

from collections.abc import Collection
from typing import Final, NamedTuple

from forwarder.lli.table import RANGE_BYTES, FeedTable
from forwarder.pipelines.tables import Tables

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


def pit_size(tables: Tables) -> StateSize:
    """Return the size of a node's PIT."""
    pit = tables.pit
    if tables.feeds is None:
        return StateSize(pit.entries, pit.bytes)
    feeds, _ = _feeds_sizes(tables.feeds, tables.network)
    return StateSize(pit.entries + feeds.entries, pit.bytes + feeds.bytes)


def held(tables: Tables) -> dict[str, StateSize]:
    """Return the entries and bytes of all state of a forwarder, by kind: docs/architecture.md, State."""
    pit, fib, strategies = tables.pit, tables.fib, tables.strategies
    state = {
        "pit": StateSize(pit.entries, pit.bytes),
        "routes": StateSize(len(fib), fib.name_bytes + ROUTE_BYTES * fib.next_hops),
        "strategies": StateSize(len(strategies), strategies.name_bytes + STRATEGY_BYTES * len(strategies)),
    }
    if tables.feeds is not None:
        state["llis"], state["sources"] = _feeds_sizes(tables.feeds, tables.network)
    return state


def _feeds_sizes(feeds: FeedTable, network: Collection[int]) -> tuple[StateSize, StateSize]:
    """Return the size of the entries of subscribed feeds, and of what is known of feeds' sources: evidence,
    and what outlives a feed's entry.

    Loops rather than expressions: nodes are sampled often.
    """
    entries = size = known_feeds = known_size = 0
    for entry in feeds:
        holders = known = 0
        evidence = entry.evidence
        if evidence is not None:
            known = 1
            known_size += len(evidence.proof)
        for face, granted in entry.ranges.items():
            if face in network:
                holders += 1
            if granted.known is not None:
                known += 1
            if granted.told is not None:
                known += 1
        for face, holder in entry.holders():
            if face in network:
                holders += 1
            if holder.offered is not None:
                known += 1
        if holders:
            entries += 1
            size += len(entry.feed) + RANGE_BYTES * holders
        if known:
            known_feeds += 1
            known_size += EVIDENCE_BYTES * known
    for feed, _, memory in feeds.remembered():
        known_feeds += 1
        known_size += len(feed) + NONCE_BYTES * len(memory.nonces)
        if memory.evidence is not None:
            known_size += EVIDENCE_BYTES + len(memory.evidence.proof)
    return StateSize(entries, size), StateSize(known_feeds, known_size)


def granted(tables: Tables) -> Granted:
    """Return what a node's downstreams have granted."""
    ranges = credit = 0
    for feed in tables.feeds or ():
        for face, each in feed.ranges.items():
            if face in tables.network:
                ranges += 1
                credit += each.limit - each.next + 1
    return Granted(ranges, credit)
