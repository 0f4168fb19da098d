"""An entry of the Pending Interest Table derived from packets: its state, changes and totals.

The rules are in analysis/pit/model.py, which finds a packet's entries. The two kinds of entry are in
analysis/pit/classic.py and analysis/pit/feed.py.
"""

from collections.abc import Callable
from typing import NamedTuple

from analysis.packet_schema import FOREVER


class Message(NamedTuple):
    """A network-layer packet, FeedState or Hello at one of the node's interfaces; fields as in
    analysis.packet_schema.PACKETS. FeedStates without an item and Hellos have no name."""

    time: int
    interface: str
    direction: str | None
    kind: str
    name: str
    name_length: int
    can_be_prefix: bool | None = None
    must_be_fresh: bool | None = None
    nonce: int | None = None
    lifetime_ns: int | None = None
    hop_limit: int | None = None
    send_credit: int | None = None
    is_persistent: bool | None = None
    feed: str | None = None
    seq: int | None = None
    evidence: bytes | None = None
    feed_first: int | None = None
    hello: bytes | None = None

    @property
    def expiry(self) -> int:
        """End of the Interest's lifetime, ns."""
        assert self.lifetime_ns is not None
        return min(self.time + self.lifetime_ns, FOREVER)

    @property
    def requested_range(self) -> tuple[int, int]:
        """First item and credit of an LLI."""
        assert self.seq is not None
        assert self.send_credit is not None
        return self.seq, self.send_credit


class Step(NamedTuple):
    """A change of a node's table at `time` (ns): of entries, bytes, ranges and credit, and the classic
    entries satisfied by received Data or expired."""

    time: int
    entries: int
    bytes: int
    ranges: int = 0
    credit: int = 0
    satisfied: int = 0
    expired: int = 0


class State(NamedTuple):
    """State of a table: entries, bytes, ranges of feeds' downstreams, and their remaining credit."""

    entries: int
    bytes: int
    ranges: int
    credit: int


COUNTED = Step._fields[1:]
"""Fields that forwarders count, too: State's, and two sums."""


class Interval(NamedTuple):
    """An ended entry; see analysis.tables.schema.PIT_INTERVALS."""

    kind: str
    name: str
    opened: int
    closed: int
    outcome: str
    interests_in: int
    interests_out: int
    downstreams: int
    upstreams: int
    items_in: int
    items_out: int
    renewals: int
    peak_bytes: int
    peak_credit: int


class Ledger:
    """Changes of one table. Those of one time are one step; steps that change nothing are dropped.

    `watch` is called with the time (ns) and the entry whenever an entry may have changed.
    """

    def __init__(self, watch: "Callable[[int, Entry], None] | None" = None) -> None:
        self.watch = watch
        self._sums = [0] * 6
        self._steps: list[list[int]] = []
        self.is_shut = False

    @property
    def state(self) -> State:
        """Current state of the table."""
        return State(*self._sums[:4])

    def change(self, now: int, *amounts: int) -> None:
        """Add to the fields of a step, in their order."""
        if self.is_shut:
            return
        steps = self._steps
        if not steps or steps[-1][0] != now:
            steps.append([now, 0, 0, 0, 0, 0, 0])
        step, sums = steps[-1], self._sums
        for place, amount in enumerate(amounts):
            step[place + 1] += amount
            sums[place] += amount

    def spend(self, credit: int) -> None:
        """Subtract credit whose steps are reported elsewhere."""
        self._sums[3] -= credit

    def restart(self, now: int) -> None:
        """Reset the counters."""
        self.change(now, 0, 0, 0, 0, -self._sums[4], -self._sums[5])

    def take(self) -> list[Step]:
        """Return the steps since the last call."""
        steps, self._steps = self._steps, []
        return [Step(*step) for step in steps if any(step[1:])]


class Entry:
    """An open entry and its totals so far.

    Peaks are those of states that lasted: changes of one time are one change.
    """

    kind = ""

    def __init__(self, name: str, name_length: int, opened: int, ledger: Ledger) -> None:
        self.name = name
        self.name_length = name_length
        self.opened = opened
        self.is_open = True
        self.interests_in = self.interests_out = 0
        self.items_in = self.items_out = 0
        self.renewals = 0
        self.downstreams: set[str] = set()
        self.upstreams: set[str] = set()
        self._ledger = ledger
        self._held = (0, 0, 0)  # bytes, ranges, credit
        self._since = opened
        self._peak_bytes = self._peak_credit = 0

    def state_size(self) -> tuple[int, int, int]:
        """Return the entry's bytes, ranges and credit."""
        raise NotImplementedError

    def expire(self, now: int) -> bool:
        """Remove expired state; return whether the entry has expired."""
        raise NotImplementedError

    def record(self, now: int) -> None:
        """Record the entry's current state."""
        self._set(now, self.state_size())
        if self._ledger.watch is not None:
            self._ledger.watch(now, self)

    def close(self, now: int, outcome: str) -> Interval:
        """End the entry."""
        self.is_open = False
        if self.kind == "classic" and outcome == "expired" and self._held[0]:
            self._ledger.change(now, 0, 0, 0, 0, 0, 1)
        self._set(now, (0, 0, 0))
        if self._ledger.watch is not None:
            self._ledger.watch(now, self)
        return Interval(
            self.kind,
            self.name,
            self.opened,
            now,
            outcome,
            self.interests_in,
            self.interests_out,
            len(self.downstreams),
            len(self.upstreams),
            self.items_in,
            self.items_out,
            self.renewals,
            self._peak_bytes,
            self._peak_credit,
        )

    def _set(self, now: int, held: tuple[int, int, int]) -> None:
        before = self._held
        if held == before:
            return
        if now > self._since:
            self._peak_bytes = max(self._peak_bytes, before[0])
            self._peak_credit = max(self._peak_credit, before[2])
            self._since = now
        self._held = held
        size, ranges, credit = held
        entries = (size > 0) - (before[0] > 0)
        self._ledger.change(now, entries, size - before[0], ranges - before[1], credit - before[2])
