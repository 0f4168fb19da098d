"""An entry of the Pending Interest Table as packets show it: what changes it, and what it has come to.

The rules are told in analysis/pit/model.py, which finds the entries that a packet concerns; the two kinds of
entry are in analysis/pit/classic.py and analysis/pit/feed.py.
"""

from typing import NamedTuple

from analysis.packet_schema import FOREVER


class Message(NamedTuple):
    """A network-layer packet at one of the node's interfaces, or what a neighbour says of feeds; see
    analysis.packet_schema.PACKETS for the fields. FeedStates without an item and Hellos have no name."""

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
        """When the Interest's lifetime ends, ns."""
        assert self.lifetime_ns is not None
        return min(self.time + self.lifetime_ns, FOREVER)

    @property
    def asked(self) -> tuple[int, int]:
        """The first item and the credit of an LLI."""
        assert self.seq is not None
        assert self.send_credit is not None
        return self.seq, self.send_credit


class Step(NamedTuple):
    """A change of a node's table at `time` (ns): of its entries, their bytes, ranges and credit, and how many
    classic entries were satisfied by Data that came in, or have expired."""

    time: int
    entries: int
    bytes: int
    ranges: int = 0
    credit: int = 0
    satisfied: int = 0
    expired: int = 0


class State(NamedTuple):
    """What a table holds: entries, their bytes, ranges of feeds' downstreams, and credit left in them."""

    entries: int
    bytes: int
    ranges: int
    credit: int


COUNTED = Step._fields[1:]
"""What the forwarders count, too: what a table holds, and two sums."""


class Interval(NamedTuple):
    """An entry that has ended; see analysis.tables.schema.PIT_INTERVALS."""

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
    """The changes of one table. Those of one moment make one step; what comes to nothing makes none."""

    def __init__(self) -> None:
        self._sums = [0] * 6
        self._steps: list[list[int]] = []
        self.is_shut = False

    @property
    def state(self) -> State:
        """What the table holds now."""
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
        """Take note of steps that somebody else tells of, each one credit less."""
        self._sums[3] -= credit

    def restart(self, now: int) -> None:
        """Begin to count anew."""
        self.change(now, 0, 0, 0, 0, -self._sums[4], -self._sums[5])

    def take(self) -> list[Step]:
        """Return the steps since the last call."""
        steps, self._steps = self._steps, []
        return [Step(*step) for step in steps if any(step[1:])]


class Entry:
    """An open entry and what it has cost so far.

    Its peaks are those of states that lasted: what changes at one moment is one change.
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

    def held(self) -> tuple[int, int, int]:
        """Return what the entry stands for now: bytes, ranges and credit."""
        raise NotImplementedError

    def expire(self, now: int) -> bool:
        """Drop what has expired; return whether the entry has."""
        raise NotImplementedError

    def note(self, now: int) -> None:
        """Take note of what the entry has come to."""
        self._set(now, self.held())

    def close(self, now: int, outcome: str) -> Interval:
        """End the entry."""
        self.is_open = False
        if self.kind == "classic" and outcome == "expired" and self._held[0]:
            self._ledger.change(now, 0, 0, 0, 0, 0, 1)
        self._set(now, (0, 0, 0))
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
