"""One connection of EBT (`ssb.replication.ebt`): the notes on it, and the state of each feed."""

from collections.abc import Collection
from dataclasses import dataclass, field
from random import Random
from typing import Final, NamedTuple, Protocol

from base.timers import Timers, earliest
from base.token_bucket import TokenBucket
from base.units import MS
from ssb.canonical import Value, stringify
from ssb.replication.replication import ProtocolError
from ssb.store.feeds import FeedStore

_NOTES: Final = 1_000  # maximum notes in one body


class Note(NamedTuple):
    """A peer's position in a feed.

    Attributes:
        sequence: number of the last message that it has, 0 for none; None if it does not replicate the feed.
        receives: whether newer messages are to be sent to it on this connection.
    """

    sequence: int | None
    receives: bool = False

    @property
    def number(self) -> int:
        """The encoded note."""
        return -1 if self.sequence is None else self.sequence << 1 | (not self.receives)

    @classmethod
    def read(cls, number: Value) -> "Note":
        """Decode a note; raise ProtocolError."""
        if not isinstance(number, int) or isinstance(number, bool) or number < -1:
            raise ProtocolError("a note that is no number, or below -1")
        return cls(None) if number == -1 else cls(number >> 1, not number & 1)


NOT_WANTED: Final = Note(None)


class Limits(NamedTuple):
    """Limits on a remote peer, and the timing of EBT.

    Attributes:
        patience: a peer that is ahead and silent for this time is replaced as the source, ns.
        note_delay: how long a note that only reports progress waits at most, ns.
        unwanted: maximum messages on one connection of feeds that were never requested.
        notes_burst, notes_per_s: maximum notes at once, and the rate of further notes.
    """

    patience: int = 3_000 * MS
    note_delay: int = 100 * MS
    unwanted: int = 5_000
    notes_burst: int = 50_000
    notes_per_s: int = 1_000


DEFAULT_LIMITS: Final = Limits()


class DelegatedWants(Protocol):
    """Decides which feeds this peer replicates for others: gateways and hubs do."""

    def accepts(self, remote: str, feed: str) -> bool:
        """Return whether to replicate a feed from now on, on behalf of a remote."""
        ...

    def on_leave(self, remote: str, feed: str) -> None:
        """Handle that a remote does not want a feed any more."""
        ...

    def is_wanted(self, feed: str) -> bool:
        """Return whether any remote wants a feed."""
        ...


class Selection:
    """The feeds of this peer, and the peers that it exchanges each with.

    Args:
        feeds: the store of feeds.
        wanted: the replicated feeds.

    Attributes:
        tips: feed -> number of its last message here.
        wanted: see above.
        behalf: see DelegatedWants; None if this peer replicates nothing for others.
        hidden: feed -> peers that its author has blocked.
        partners: feed -> the only peer to exchange it with.
        held_back: wanted feeds that are not received for now.
    """

    def __init__(self, feeds: FeedStore, wanted: Collection[str]) -> None:
        self.tips = feeds.tips()
        self.wanted = wanted
        self._feeds = feeds
        self.behalf: DelegatedWants | None = None
        self.hidden: dict[str, set[str]] = {}
        self.partners: dict[str, str] = {}
        self.held_back: set[str] = set()

    def shares(self, feed: str, peer: str) -> bool:
        """Return whether to exchange a feed with a peer."""
        return (
            feed in self.wanted
            and peer not in self.hidden.get(feed, ())
            and self.partners.get(feed, peer) == peer
            and not self._feeds.is_frozen(feed)
        )

    def is_complete(self, feed: str) -> bool:
        """Return whether a feed has ended, and is here: nobody has more."""
        return self._feeds.is_complete(feed)

    def accepts(self, remote: str, feed: str) -> bool:
        """Return whether to replicate a feed from now on, on behalf of a remote."""
        return self.behalf is not None and self.behalf.accepts(remote, feed)

    def show(self, feed: str, peer: str) -> None:
        """Undo Ebt.hide(), for later connections."""
        self.hidden.get(feed, set()).discard(peer)

    def forget(self, feed: str) -> None:
        """Remove the rules for a feed."""
        self.hidden.pop(feed, None)
        self.partners.pop(feed, None)
        self.held_back.discard(feed)


@dataclass(slots=True)
class Exchange:
    """One feed on one connection.

    Attributes:
        sends: the remote receives the feed here.
        sent: the last message that the remote has, or that is on its way to it.
        receives: this peer receives the feed here.
        noted: the last note sent; None for none.
        is_active: whether a new message of the feed was received here.
    """

    sends: bool = False
    sent: int = 0
    receives: bool = False
    noted: Note | None = None
    is_active: bool = False


@dataclass(slots=True, eq=False)
class Session:
    """A connection.

    Attributes:
        number: its number.
        selection: the feeds of this peer.
        limits: see Limits.
        changed: the numbers of connections with new output.
        silences: when to replace the remotes of connections as sources, if they stay silent.
        remote: the other peer's reference.
        clock: feed -> the last number that the remote has reported, -1 for a feed that it does not replicate.
        allowance: notes that it may still send.
        rng: draws how long reports wait; None: all wait for as long as they may.
        has_started: whether notes have been sent.
        is_greeting: the first notes are to be sent, even if there are none.
        due: when to send the notes, ns.
        unwanted: number of received messages of feeds that are not replicated here.
        dismissed: feeds whose notes say that they are not replicated here; these notes are sent first.
        notes: of other feeds.
        reports: feeds whose progress the remote is told at `report_due`, ns, if it is not as far by then.
        ready: feeds with messages to send, in the order of their turns.
        owed: feeds that are received here, and in which the remote is ahead.
        left: feeds received here that the remote has left by another way than EBT.
        aside: feeds with a refused message, or dismissed: further messages from the remote are dropped.
        returned: feeds that were aside, and are wanted again: messages may still be under way.
    """

    number: int
    selection: Selection
    limits: Limits
    changed: dict[int, None]
    silences: Timers[int]
    remote: str
    clock: dict[str, int]
    allowance: TokenBucket
    rng: Random | None
    has_started: bool = False
    is_greeting: bool = False
    due: int | None = None
    unwanted: int = 0
    exchanges: dict[str, Exchange] = field(default_factory=dict)
    dismissed: dict[str, None] = field(default_factory=dict)
    notes: dict[str, Note] = field(default_factory=dict)
    reports: dict[str, None] = field(default_factory=dict)
    report_due: int | None = None
    ready: dict[str, None] = field(default_factory=dict)
    owed: dict[str, None] = field(default_factory=dict)
    left: set[str] = field(default_factory=set)
    aside: set[str] = field(default_factory=set)
    returned: set[str] = field(default_factory=set)

    def shares(self, feed: str) -> bool:
        """Return whether to exchange a feed with the remote."""
        return self.selection.shares(feed, self.remote)

    def may_receive(self, feed: str) -> bool:
        """Return whether a feed may be received here."""
        selection = self.selection
        return feed not in selection.held_back and feed not in self.aside and not selection.is_complete(feed)

    def is_ahead(self, feed: str) -> bool:
        """Return whether the remote has newer messages of a feed."""
        return self.clock.get(feed, 0) > self.selection.tips.get(feed, 0)

    def exchange(self, feed: str) -> Exchange:
        """Return the state of a feed, new if there is none."""
        return self.exchanges.setdefault(feed, Exchange())

    def record(self, feed: str, sequence: int) -> None:
        """Store the remote's position in a feed that is replicated here, or may be for others."""
        if feed in self.selection.wanted or self.selection.behalf is not None:
            self.clock[feed] = sequence
            if sequence >= self.selection.tips.get(feed, 0):
                self._withhold(feed)
        else:
            self.clock.pop(feed, None)

    def charge(self, notes: int, now: int) -> None:
        """Count received notes against the limit; raise ProtocolError."""
        if self.allowance.charge(now, notes):
            raise ProtocolError("too many notes")

    def send(self, feed: str) -> None:
        """Send messages of a feed in its turn."""
        self.ready[feed] = None
        self.changed[self.number] = None

    def note(self, feed: str, due: int) -> None:
        """Send a note of a feed by a time, ns, unless it was the last one sent."""
        self._withhold(feed)
        exchange = self.exchanges[feed]
        note = Note(self.selection.tips.get(feed, 0), exchange.receives)
        if note != exchange.noted:
            exchange.noted = note
            self.notes[feed] = note
            self.schedule_notes(due)

    def report(self, feed: str, now: int) -> None:
        """Send a note of progress in a feed after a random time, unless the remote is as far before."""
        self.exchange(feed)
        if feed in self.notes:
            self.note(feed, now)
            return
        self.reports[feed] = None
        if self.report_due is None:  # else it joins the others
            delay = self.limits.note_delay
            self.report_due = now + (delay if self.rng is None else self.rng.randrange(delay + 1))
            self.changed[self.number] = None

    def _withhold(self, feed: str) -> None:
        """Send no note of progress in a feed."""
        self.reports.pop(feed, None)
        if not self.reports and self.report_due is not None:
            self.report_due = None
            self.changed[self.number] = None

    def deny(self, feed: str, now: int) -> None:
        """Send a note that a feed is not replicated here."""
        self.dismissed[feed] = None
        self.schedule_notes(now)

    def dismiss(self, feed: str, now: int) -> None:
        """End the exchange of a feed."""
        if self.drop(feed):
            self.aside.add(feed)
            self.deny(feed, now)

    def output_due(self) -> int | None:
        """Return when the next output is due, ns; 0 if it waits for room only."""
        return 0 if self.ready else earliest(self.due, self.report_due)

    def schedule_notes(self, due: int) -> None:
        """Send the pending notes by a time, ns."""
        self.due = due if self.due is None else min(due, self.due)
        self.changed[self.number] = None

    def take_notes(self, now: int) -> list[bytes]:
        """Return the bodies with the notes that are due."""
        if self.report_due is not None and self.report_due <= now:
            for feed in [*self.reports]:
                self.note(feed, now)
        if self.due is None or self.due > now:
            return []
        self.due = None
        bodies = []
        for notes in (dict.fromkeys(self.dismissed, NOT_WANTED), self.notes):
            numbers: list[tuple[str, Value]] = [(feed, note.number) for feed, note in notes.items()]
            bodies += [
                stringify(dict(numbers[start : start + _NOTES]), indent=0).encode()
                for start in range(0, len(numbers), _NOTES)
            ]
        self.dismissed.clear()
        self.notes.clear()
        if self.is_greeting and not bodies:
            bodies = [b"{}"]
        self.is_greeting = False
        return bodies

    def drop(self, feed: str) -> bool:
        """Drop the state of a feed except the remote's clock; return whether there was any."""
        self.notes.pop(feed, None)
        self._withhold(feed)
        self.ready.pop(feed, None)
        self.stop_expecting(feed)
        self.left.discard(feed)
        return self.exchanges.pop(feed, None) is not None

    def expect(self, feed: str, now: int) -> None:
        """Expect messages of a feed here."""
        if not self.owed:
            self.restart_timeout(now)
        self.owed[feed] = None

    def stop_expecting(self, feed: str) -> None:
        """Expect no messages of a feed here."""
        self.owed.pop(feed, None)
        if not self.owed:
            self.silences.set(self.number, None)

    def restart_timeout(self, now: int) -> None:
        """Restart the time in which the remote must send a message."""
        self.silences.set(self.number, now + self.limits.patience)
