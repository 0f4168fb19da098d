"""Size of a node's state in entries and bytes: sums that its tables keep, as nodes are sampled often.

Of pending state only faces to the network count: captures show no packets of local applications, so state
towards these could not be verified.
"""

from typing import Final, NamedTuple

from forwarder.pipelines.tables import Tables

ROUTE_BYTES: Final = 8
"""A next hop: face and cost, 4 each; its prefix counts once."""
STRATEGY_BYTES: Final = 4
"""The number of a prefix's own strategy."""


class StateSize(NamedTuple):
    """State of one kind at a node, as docs/architecture.md counts it.

    Attributes:
        entries: of the PIT, classic Interests, and subscribed feeds.
        bytes: there, of names, plus RECORD_BYTES a record, or RANGE_BYTES a range and a feed's upstream.
    """

    entries: int
    bytes: int


def pit_size(tables: Tables) -> StateSize:
    """Return the size of a node's PIT."""
    pit = tables.pit
    if tables.feeds is None:
        return StateSize(pit.entries, pit.bytes)
    feeds = tables.feeds.size()
    return StateSize(pit.entries + feeds.feeds, pit.bytes + feeds.feed_bytes)


def held(tables: Tables) -> dict[str, StateSize]:
    """Return the entries and bytes of all state of a forwarder, by kind: docs/architecture.md, State."""
    pit, fib, strategies = tables.pit, tables.fib, tables.strategies
    state = {
        "pit": StateSize(pit.entries, pit.bytes),
        "routes": StateSize(len(fib), fib.name_bytes + ROUTE_BYTES * fib.next_hops),
        "strategies": StateSize(len(strategies), strategies.name_bytes + STRATEGY_BYTES * len(strategies)),
    }
    if tables.feeds is not None:
        feeds = tables.feeds.size()
        state["llis"] = StateSize(feeds.feeds, feeds.feed_bytes)
        state["sources"] = StateSize(feeds.sources, feeds.source_bytes)
    return state
