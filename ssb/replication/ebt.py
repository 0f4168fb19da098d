"""Epidemic broadcast trees, version 3: feeds flow along trees, and notes repair the trees.

The protocol of `ebt.replicate` as running peers speak it (npm's epidemic-broadcast-trees and ssb-ebt; the
idea is that of Leitão, Pereira and Rodrigues, "Epidemic Broadcast Trees", 2007; seed papers 001 and 003).

Two connected peers tell each other notes. A note names a feed and holds one number: -1 if its sender does
not replicate the feed, else twice the sequence number that the sender has, plus 1 if it does not want to
receive the feed on this connection. A peer that wants to receive gets all newer messages, now and as they
come. Of each feed, a peer receives on one connection if it can (*eager*), and hears on the others only how
far they are (*lazy*). A lazy peer that is ahead takes over when the eager one falls silent, or is closed.

*Request skipping*: a peer stores how far another said it was. When they meet again it sends notes only for
feeds in which the two differ. That record changes by nothing but what the other said: its notes, and the
messages that it sent.

The accepting side sends its notes first; the other side sends its own when it has them. On the wire, a body
is the JSON of one message, or of an object of notes.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from base.timers import Timers
from base.units import MS
from ssb.canonical import Value, stringify
from ssb.keys import InvalidRef, parse_feed
from ssb.message import ForkedFeed, InvalidMessage, Message
from ssb.replication.replication import ProtocolError
from ssb.replication.replicator import Replicator
from ssb.store.feeds import FeedStore

REPLICATE: Final = ("ebt", "replicate")
VERSION: Final = 3
REQUEST: Final[Mapping[str, Value]] = {"version": VERSION, "format": "classic"}
"""The argument of `ebt.replicate`."""

_NOTES = 1_000  # notes in one body at most


class Note(NamedTuple):
    """How far a peer is in a feed.

    Attributes:
        sequence: the last message that it has, 0 for none; None if it does not replicate the feed.
        receives: whether it wants newer messages on this connection.
    """

    sequence: int | None
    receives: bool = False

    @property
    def number(self) -> int:
        """The note on the wire."""
        return -1 if self.sequence is None else self.sequence << 1 | (not self.receives)

    @classmethod
    def read(cls, number: Value) -> "Note":
        """Read the number of a note; raise ProtocolError if it is none."""
        if not isinstance(number, int) or isinstance(number, bool) or number < -1:
            raise ProtocolError("a note that is no number, or below -1")
        return cls(None) if number == -1 else cls(number >> 1, not number & 1)


NOT_WANTED: Final = Note(None)


class Limits(NamedTuple):
    """What a peer grants another, and its patience.

    Attributes:
        patience: how long a peer that is ahead may send nothing before another one takes over, ns.
        note_delay: how long a note that only tells progress waits for others to join it, ns.
        unwanted: messages that a remote may send on one connection of feeds that were never asked for.
        notes_burst, notes_per_s: notes that a remote may send at once, and a second later on.
    """

    patience: int = 3_000 * MS
    note_delay: int = 20 * MS
    unwanted: int = 5_000
    notes_burst: int = 50_000
    notes_per_s: int = 1_000


DEFAULT_LIMITS: Final = Limits()


class Behalf(Protocol):
    """Decides what this peer replicates for others that ask it to: as gateways and hubs do."""

    def asks(self, remote: str, feed: str) -> bool:
        """Tell whether a feed is replicated from now on because a remote wants it."""
        ...

    def leaves(self, remote: str, feed: str) -> None:
        """Take note that a remote does not want a feed any more."""
        ...

    def wants(self, feed: str) -> bool:
        """Tell whether somebody wants a feed."""
        ...


class RemoteClocks(Protocol):
    """Where it is kept how far other peers said they were, for request skipping."""

    def remote_clock(self, peer: str) -> Mapping[str, int]:
        """Return feed -> sequence number, -1 for a feed that the peer does not replicate, or
        ssb.store.clocks.UNKNOWN."""
        ...

    def set_remote_clock(self, peer: str, clock: Mapping[str, int]) -> None:
        """Replace what is kept of a peer."""
        ...

    def forget_feeds(self, feeds: Collection[str]) -> None:
        """Remove feeds from what is kept of every peer."""
        ...

    def doubt_feeds(self, feeds: Collection[str]) -> None:
        """Keep no more how far peers are in feeds, but UNKNOWN of those that replicate them."""
        ...


@dataclass(slots=True)
class _Exchange:
    """One feed on one connection.

    Attributes:
        sends: the remote wants to receive the feed here.
        sent: the last message that the remote has, or that is on its way to it.
        receives: this peer wants to receive the feed here.
        noted: what the remote was told last; None for nothing yet.
        is_active: whether a new message of the feed has come here.
    """

    sends: bool = False
    sent: int = 0
    receives: bool = False
    noted: Note | None = None
    is_active: bool = False


@dataclass(slots=True)
class _Session:
    """A connection.

    Attributes:
        number: its number.
        stirred: the numbers of connections with something new to be sent.
        silences: of all connections that owe messages, when patience with them ends.
        remote: the other peer's reference.
        clock: feed -> how far the remote is by what it said, -1 for one that it does not replicate.
        allowance: notes that it may still send, as of `refilled`, ns.
        has_started: whether notes have been sent.
        is_greeting: the first notes are to be sent, even if there are none.
        dismissed: feeds that are not replicated here, as the remote is to be told before
        notes: of other feeds, at `due`, ns.
        ready: feeds of which messages are to be sent, in the order of their turns.
        owed: feeds that are received here, and of which the remote has more.
        unwanted: messages that came of feeds that are not replicated here.
        left: feeds that the remote has left, as another way than EBT has told, and was receiving here.
        aside: feeds of which a message was refused, or that are dismissed: the remote may send more of them
            before it hears of that, and it is dropped.
    """

    number: int
    stirred: dict[int, None]
    silences: Timers[int]
    remote: str
    clock: dict[str, int]
    allowance: float
    refilled: int
    has_started: bool = False
    is_greeting: bool = False
    due: int | None = None
    unwanted: int = 0
    exchanges: dict[str, _Exchange] = field(default_factory=dict)
    dismissed: dict[str, None] = field(default_factory=dict)
    notes: dict[str, Note] = field(default_factory=dict)
    ready: dict[str, None] = field(default_factory=dict)
    owed: dict[str, None] = field(default_factory=dict)
    left: set[str] = field(default_factory=set)
    aside: set[str] = field(default_factory=set)

    def send(self, feed: str) -> None:
        """Send messages of a feed when its turn comes."""
        self.ready[feed] = None
        self.stirred[self.number] = None

    def say_by(self, due: int) -> None:
        """Send what there is of notes by a time, ns."""
        self.due = due if self.due is None else min(due, self.due)
        self.stirred[self.number] = None

    def drop(self, feed: str) -> bool:
        """Drop what is kept of a feed but for the remote's clock; return whether there was anything."""
        self.notes.pop(feed, None)
        self.ready.pop(feed, None)
        self.owes_no_more(feed)
        self.left.discard(feed)
        return self.exchanges.pop(feed, None) is not None

    def owes_no_more(self, feed: str) -> None:
        """Expect nothing of a feed here."""
        self.owed.pop(feed, None)
        if not self.owed:
            self.silences.set(self.number, None)


class Ebt(Replicator):
    """The Replication with all peers that speak EBT.

    Args:
        feeds: the store, which verifies what it appends.
        clocks: where remote clocks are kept.
        wanted: the feeds that were replicated before a restart.
        limits: see Limits.
    """

    name: Final = REPLICATE
    request: Final[Mapping[str, Value]] = REQUEST
    is_mutual: Final = True
    other = "notes"

    def __init__(
        self,
        feeds: FeedStore,
        clocks: RemoteClocks,
        wanted: Iterable[str] = (),
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        super().__init__(feeds, wanted)
        self._clocks = clocks
        self._limits = limits
        self._sessions: dict[int, _Session] = {}
        self._of_remote: dict[str, dict[int, _Session]] = {}
        self._sources: dict[str, int] = {}
        self._hidden: dict[str, set[str]] = {}
        self._partners: dict[str, str] = {}
        self._held_back: set[str] = set()
        self._forgotten: set[str] = set()  # feeds that the kept clocks are yet to forget
        self._behalf: Behalf | None = None
        self._silences: Timers[int] = Timers()

    def refuses(self, request: Value) -> str:
        """See Replication."""
        is_known = isinstance(request, dict) and request.get("version") == VERSION
        return "" if is_known else "only version 3 is known"

    def is_over(self, number: int) -> bool:
        """See Replication: peers stay connected."""
        return False

    def act_on(self, behalf: Behalf) -> None:
        """Ask from now on whether to replicate feeds that others want."""
        self._behalf = behalf

    def sessions(self) -> list[int]:
        """Return the numbers of the connections."""
        return [*self._sessions]

    def exchanges(self) -> int:
        """Return the number of feeds of which there is state, over all connections."""
        return sum(len(session.exchanges) for session in self._sessions.values())

    def remote_clock(self, number: int) -> Mapping[str, int]:
        """Return how far the remote of a connection is: feed -> sequence number or -1."""
        return self._sessions[number].clock

    # Feeds

    def want(self, feed: str, now: int) -> None:
        """Replicate a feed from now on; see want_all()."""
        self.want_all((feed,), now)

    def want_all(self, feeds: Iterable[str], now: int) -> None:
        """Replicate feeds from now on.

        All peers are told, now or when they are met: those that were told that this one does not replicate
        a feed do not ask. So what they said of it is forgotten, until they answer.
        """
        for feed in feeds:
            self._want(feed, now)
        self._forget_clocks()

    def _want(self, feed: str, now: int) -> None:
        if feed in self._wanted:
            return
        self._wanted[feed] = None
        self._forgotten.add(feed)
        for number, session in self._sessions.items():
            session.clock.pop(feed, None)
            session.aside.discard(feed)
            if session.has_started and self._shares(feed, session):
                session.exchanges[feed] = _Exchange()
                self._ask(number, feed, now)

    def share(self, feed: str, partner: str, now: int, *, receives: bool) -> None:
        """Exchange a feed with one peer only; `receives` unless the feed is written here.

        What is written here is not told of: the partner asks for it.
        """
        self._partners[feed] = partner
        if receives:
            self.want(feed, now)
        else:
            self._wanted[feed] = None
            self._held_back.add(feed)

    def backlog(self, feed: str, partner: str) -> int | None:
        """Return how many messages of a feed wait to be sent to a peer.

        None if the peer is not connected, or has not said that it replicates the feed. One that had all of it
        when it was here last does not ask for the feed again before it hears of a new message.
        """
        for session in self._of_remote.get(partner, {}).values():
            if session.clock.get(feed, -1) >= 0:
                exchange = session.exchanges.get(feed)
                has = session.clock[feed] if exchange is None else exchange.sent
                return self._tips.get(feed, 0) - has
        return None

    def hold_back(self, feed: str, now: int) -> None:
        """Receive a feed nowhere until release(), though this peer wants it."""
        self._held_back.add(feed)
        if feed in self._sources:
            self._forgo_source(feed, now)

    def release(self, feed: str, now: int) -> None:
        """Take hold_back() back."""
        self._held_back.discard(feed)
        self._find_source(feed, now)

    def forget(self, feed: str) -> None:
        """Drop all that is known of a feed which nobody replicates any more; tell nobody."""
        self._wanted.pop(feed, None)
        self._sources.pop(feed, None)
        self._hidden.pop(feed, None)
        self._partners.pop(feed, None)
        self._held_back.discard(feed)
        for session in self._sessions.values():
            session.drop(feed)
            session.dismissed.pop(feed, None)
            session.clock.pop(feed, None)
        self._clocks.forget_feeds([feed])

    def unwant(self, feed: str, now: int) -> None:
        """Replicate a feed no more, unless others want it who have this peer act on their behalf."""
        if self._behalf is not None and self._behalf.wants(feed):
            return
        if self._wanted.pop(feed, 0) == 0:
            return
        self._sources.pop(feed, None)
        self._set_aside.pop(feed, None)
        for session in self._sessions.values():
            self._dismiss(session, feed, now)
            self._record(session, feed, session.clock.get(feed, -1))

    def lost(self, feed: str, now: int) -> None:
        """See Replication: all peers are told how far the store is now, and one that is ahead sends.

        One of which a later message was refused may have those that are missing.
        """
        for session in self._sessions.values():
            if session.has_started and self._shares(feed, session):
                session.aside.discard(feed)
                self._note(session, feed, session.exchanges.setdefault(feed, _Exchange()), now)
        self._find_source(feed, now)

    def hide(self, feed: str, peer: str, now: int) -> None:
        """Do not exchange a feed with a peer, as its author has blocked the peer."""
        self._hidden.setdefault(feed, set()).add(peer)
        for number, session in self._of_remote.get(peer, {}).items():
            self._dismiss(session, feed, now)
            self._replace_source(number, feed, now)

    def hides(self, feed: str, peer: str) -> bool:
        """See Replication."""
        return peer in self._hidden.get(feed, ())

    def left(self, feed: str, peer: str) -> None:
        """Take note that a peer replicates a feed no more, as stock peers do not tell by themselves."""
        for session in self._of_remote.get(peer, {}).values():
            self._record(session, feed, -1)
            session.ready.pop(feed, None)
            exchange = session.exchanges.get(feed)
            if exchange is not None and exchange.sends:
                exchange.sends = False
                session.left.add(feed)

    def returned(self, feed: str, peer: str, now: int) -> None:
        """Take note that a peer replicates a feed again that it had left; stock peers may not tell it."""
        clock = dict(self._clocks.remote_clock(peer))
        if clock.get(feed) == -1:
            del clock[feed]
            self._clocks.set_remote_clock(peer, clock)
        for number, session in self._of_remote.get(peer, {}).items():
            if session.clock.get(feed) != -1 and feed not in session.left:
                continue
            session.clock.pop(feed, None)
            exchange = session.exchanges.get(feed)
            if exchange is not None and feed in session.left:
                exchange.sends = True
                session.clock[feed] = exchange.sent
                if exchange.sent < self._tips.get(feed, 0):
                    session.send(feed)
            elif session.has_started and self._shares(feed, session):
                session.exchanges.setdefault(feed, _Exchange())
                self._ask(number, feed, now)
            session.left.discard(feed)

    def show(self, feed: str, peer: str) -> None:
        """Take `hide` back, for connections to come."""
        self._hidden.get(feed, set()).discard(peer)

    def append(
        self, messages: Sequence[Message], now: int, received: float, by: int | None = None
    ) -> Mapping[str, InvalidMessage | ForkedFeed]:
        """Store messages and pass them on; return for each feed with a bad one why it was refused.

        `received` is the time of receipt, in ms since 1970; `by` the connection that they came on.
        """
        admitted = self._admit(messages, received)
        for feed, tip in admitted.before.items():
            if self._tips.get(feed, 0) > tip:
                self.appended(feed, now, by)
        for feed, error in admitted.refused.items():
            if isinstance(error, ForkedFeed):
                self._freeze(feed, now)
        return admitted.refused

    def appended(self, feed: str, now: int, by: int | None = None) -> None:
        """Pass on that the store has newer messages of a feed; `by` is the connection that they came on.

        Messages that came on none are those of this peer's user above all: nobody else need send that feed,
        until somebody is ahead.
        """
        tip = self._tips.get(feed, 0)
        self._forgive(feed, now)
        source = self._sources.get(feed)
        if source is not None:
            self._see_what_is_owed(source, feed, now)
            if by is None and not self._is_ahead(source, feed):
                self._forgo_source(feed, now)
                source = None
        if source is not None:
            ahead = None if self._is_ahead(source, feed) else self._next_ahead(source, feed)
            if ahead is not None:
                self._set_source(ahead, feed, now)
        for number, session in self._sessions.items():
            if not session.has_started or number == by or not self._shares(feed, session):
                continue
            exchange = session.exchanges.get(feed)
            if exchange is not None and exchange.sends:
                if exchange.sent < tip:
                    session.send(feed)
            elif 0 <= session.clock.get(feed, 0) < tip:
                exchange = session.exchanges.setdefault(feed, _Exchange())
                self._note(session, feed, exchange, now + self._limits.note_delay)

    # Connections

    def open(self, number: int, remote: str, *, is_caller: bool, now: int) -> None:
        """Begin with a connection; `is_caller` on the side that called `ebt.replicate`."""
        clock = dict(self._clocks.remote_clock(remote))
        self._sessions[number] = session = _Session(
            number, self._stirred, self._silences, remote, clock, self._limits.notes_burst, now
        )
        self._of_remote.setdefault(remote, {})[number] = session
        for feed, sequence in list(session.clock.items()):
            if sequence != -1:  # it has said so when it was here last, and does not say so again
                self._hear_wish(session, feed, now)
            self._record(session, feed, sequence)
        self._forget_clocks()
        if not is_caller:
            self._start(number, session, now)

    def close(self, number: int, now: int) -> None:
        """End with a connection."""
        session = self._sessions.pop(number)
        self._silences.set(number, None)
        del self._of_remote[session.remote][number]
        if not self._of_remote[session.remote]:
            del self._of_remote[session.remote]
        for feed, exchange in session.exchanges.items():
            if self._sources.get(feed) == number:
                del self._sources[feed]
                if exchange.is_active or feed in session.owed:
                    self._find_source(feed, now)
        self._clocks.set_remote_clock(session.remote, session.clock)

    def output_due(self, number: int) -> int | None:
        """Return when there is something to be sent on a connection, ns; 0 if there is now, None if not."""
        session = self._sessions[number]
        return 0 if session.ready else session.due

    def take_output(self, number: int, room: int, now: int) -> list[bytes]:
        """Return bodies to be sent on a connection, in order: about `room` bytes at most."""
        session = self._sessions[number]
        bodies = self._take_notes(session, now)
        room -= sum(map(len, bodies))
        while room > 0 and session.ready:
            feed = next(iter(session.ready))
            del session.ready[feed]
            exchange = session.exchanges[feed]
            exchange.sent, room, has_more = self._put_out(feed, exchange.sent, room, bodies)
            if has_more:
                session.ready[feed] = None
        return bodies

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns; what is to be sent is not counted."""
        return self._silences.next_deadline()

    def wake(self, now: int) -> None:
        """Have other peers take over from those that owe messages and are silent."""
        for number in sorted(self._silences.expire(now)):
            owed = self._sessions[number].owed
            if owed:
                self._silences.set(number, now + self._limits.patience)
            for feed in list(owed):
                other = self._next_ahead(number, feed)
                if other is not None:
                    self._set_source(other, feed, now)

    # Parts of the above

    def _start(self, number: int, session: _Session, now: int) -> None:
        session.has_started = session.is_greeting = True
        session.say_by(now)
        for feed in self._wanted:
            known = session.clock.get(feed)
            if known not in (-1, self._tips.get(feed, 0)) and self._shares(feed, session):
                session.exchanges.setdefault(feed, _Exchange())
                self._ask(number, feed, now)

    def _ask(self, number: int, feed: str, now: int) -> None:
        """Tell a remote how far this peer is in a feed, and receive it there if nobody else sends it."""
        session = self._sessions[number]
        if feed in self._sources or not self._may_send(session, feed):
            self._note(session, feed, session.exchanges[feed], now)
        else:
            self._set_source(number, feed, now)

    def _shares(self, feed: str, session: _Session) -> bool:
        return (
            feed in self._wanted
            and session.remote not in self._hidden.get(feed, ())
            and self._partners.get(feed, session.remote) == session.remote
            and feed not in self._feeds.forks()
        )

    def _dismiss(self, session: _Session, feed: str, now: int) -> None:
        """Tell a remote that a feed is not replicated here any more."""
        if session.drop(feed):
            session.aside.add(feed)
            session.dismissed[feed] = None
            session.say_by(now)

    def _note(self, session: _Session, feed: str, exchange: _Exchange, due: int) -> None:
        note = Note(self._tips.get(feed, 0), exchange.receives)
        if note != exchange.noted:
            exchange.noted = note
            session.notes[feed] = note
            session.say_by(due)

    def _expects(self, number: int, feed: str) -> bool:
        """See Replicator."""
        session = self._sessions[number]
        if feed in session.aside:
            return False
        if feed in session.exchanges and self._shares(feed, session):
            return True
        session.unwanted += 1
        if session.unwanted > self._limits.unwanted:
            raise ProtocolError(f"more than {self._limits.unwanted} messages that are not wanted here")
        return False

    def _refuse(self, number: int, feed: str, error: InvalidMessage | ForkedFeed, now: int) -> None:
        """See Replicator; another remote sends the feed from now on, if one has it."""
        session = self._sessions[number]
        session.aside.add(feed)
        self.put_aside(feed, session.remote, str(error))
        if self._sources.get(feed) == number:
            self._forgo_source(feed, now)
            self._see_what_is_owed(number, feed, now)
            self._find_source(feed, now)

    def _forgive(self, feed: str, now: int) -> None:
        """Take a feed again where it was set aside, as a newer message has come by another way."""
        forgiven = [session for session in self._sessions.values() if feed in session.aside]
        for session in forgiven:
            session.aside.discard(feed)
        if forgiven and feed not in self._sources:
            self._find_source(feed, now)

    def _store(self, number: int, messages: Sequence[Message], now: int, received: float) -> None:
        """See Replicator."""
        session = self._sessions[number]
        before = {message.author: self._tips.get(message.author, 0) for message in messages}
        refused = self.append(messages, now, received, by=number)
        for feed, tip_before in before.items():
            tip = self._tips.get(feed, 0)
            exchange = session.exchanges.get(feed)
            if exchange is None:  # frozen
                continue
            said = min(max(message.sequence for message in messages if message.author == feed), tip)
            session.clock[feed] = max(said, session.clock.get(feed, 0))
            exchange.sent = max(said, exchange.sent)
            self._see_what_is_owed(number, feed, now)
            if tip > tip_before:
                exchange.is_active = True
                if session.owed:
                    self._silences.set(number, now + self._limits.patience)
            elif exchange.receives and self._sources.get(feed) != number:
                exchange.receives = False
                self._note(session, feed, exchange, now)
        for feed, error in refused.items():
            self._refuse(number, feed, error, now)

    def _freeze(self, feed: str, now: int) -> None:
        """Stop the replication of a forked feed."""
        self._sources.pop(feed, None)
        self._set_aside.pop(feed, None)
        for session in self._sessions.values():
            self._dismiss(session, feed, now)

    def _read(self, number: int, notes: dict[str, Value], now: int) -> None:
        """See Replicator."""
        session = self._sessions[number]
        inner = notes.get("clock")
        if isinstance(inner, dict):
            notes = inner
        self._charge(session, len(notes), now)
        if not session.has_started:
            self._start(number, session, now)
        wishes = 0
        is_denied = False  # what is kept says that the remote does not replicate a feed, and it does
        for feed, number_of_note in notes.items():
            try:
                parse_feed(feed)
            except InvalidRef:
                continue  # other formats of feeds: stock peers send them, too
            note = Note.read(number_of_note)
            if note.sequence is not None and session.clock.get(feed) == -1:
                is_denied = is_denied or self._clocks.remote_clock(session.remote).get(feed) == -1
            wishes += (session.clock.get(feed, -1) < 0) != (note.sequence is None)
            self._take_note(number, session, feed, note, now)
        self._forget_clocks()
        if is_denied or (wishes and self._behalf is not None):
            # The remote will not say so again, even if this peer is killed before the connection ends.
            self._clocks.set_remote_clock(session.remote, session.clock)

    def _take_note(self, number: int, session: _Session, feed: str, note: Note, now: int) -> None:
        session.left.discard(feed)
        if note.sequence is None:
            if self._behalf is not None:
                self._behalf.leaves(session.remote, feed)
            self._record(session, feed, -1)
            session.drop(feed)
            self._replace_source(number, feed, now)
            return
        self._hear_wish(session, feed, now)
        self._record(session, feed, note.sequence)
        if not self._shares(feed, session):
            session.dismissed[feed] = None
            session.say_by(now)
            return
        tip = self._tips.get(feed, 0)
        exchange = session.exchanges.get(feed)
        is_new = exchange is None
        if exchange is None:
            exchange = session.exchanges[feed] = _Exchange()
        exchange.sends = note.receives
        session.ready.pop(feed, None)
        exchange.sent = note.sequence
        if note.sequence > tip:
            self._consider_source(number, feed, now)
        elif note.sequence < tip:
            if note.receives:
                session.send(feed)
            else:
                self._note(session, feed, exchange, now)
        if is_new:
            self._ask(number, feed, now)
        self._see_what_is_owed(number, feed, now)

    def _record(self, session: _Session, feed: str, sequence: int) -> None:
        """Keep how far a remote is in a feed that is replicated here, or may be for others."""
        if feed in self._wanted or self._behalf is not None:
            session.clock[feed] = sequence
        else:
            session.clock.pop(feed, None)

    def _hear_wish(self, session: _Session, feed: str, now: int) -> None:
        if self._behalf is not None and self._behalf.asks(session.remote, feed):
            self._want(feed, now)

    def _forget_clocks(self) -> None:
        """Have kept clocks doubted, once for all feeds that are wanted since the last time."""
        if self._forgotten:
            self._clocks.doubt_feeds(self._forgotten)
            self._forgotten = set()

    def _charge(self, session: _Session, notes: int, now: int) -> None:
        limits = self._limits
        session.allowance += (now - session.refilled) / 1e9 * limits.notes_per_s
        session.allowance = min(session.allowance, limits.notes_burst) - notes
        session.refilled = now
        if session.allowance < 0:
            raise ProtocolError("too many notes")

    def _take_notes(self, session: _Session, now: int) -> list[bytes]:
        if session.due is None or session.due > now:
            return []
        session.due = None
        bodies = []
        for notes in (dict.fromkeys(session.dismissed, NOT_WANTED), session.notes):
            numbers: list[tuple[str, Value]] = [(feed, note.number) for feed, note in notes.items()]
            bodies += [
                stringify(dict(numbers[start : start + _NOTES]), indent=0).encode()
                for start in range(0, len(numbers), _NOTES)
            ]
        session.dismissed.clear()
        session.notes.clear()
        if session.is_greeting and not bodies:
            bodies = [b"{}"]
        session.is_greeting = False
        return bodies

    # Who sends a feed

    def _may_send(self, session: _Session, feed: str) -> bool:
        """Whether a feed may be received on a connection."""
        return feed not in self._held_back and feed not in session.aside

    def _is_ahead(self, number: int, feed: str) -> bool:
        return self._sessions[number].clock.get(feed, 0) > self._tips.get(feed, 0)

    def _see_what_is_owed(self, number: int, feed: str, now: int) -> None:
        session = self._sessions[number]
        if self._sources.get(feed) == number and self._is_ahead(number, feed):
            if not session.owed:
                self._silences.set(number, now + self._limits.patience)
            session.owed[feed] = None
        else:
            session.owes_no_more(feed)

    def _consider_source(self, number: int, feed: str, now: int) -> None:
        """Receive a feed from a remote that is ahead, unless another one that is ahead sends it."""
        source = self._sources.get(feed)
        if not self._may_send(self._sessions[number], feed):
            return
        if source is None or (source != number and not self._is_ahead(source, feed)):
            self._set_source(number, feed, now)

    def _set_source(self, number: int, feed: str, now: int) -> None:
        """Receive a feed on a connection, and no more on the one before."""
        before = self._sources.get(feed)
        self._sources[feed] = number
        for other in (before, number):
            if other is not None:
                session = self._sessions[other]
                exchange = session.exchanges[feed]
                exchange.receives = other == number
                self._note(session, feed, exchange, now)
                self._see_what_is_owed(other, feed, now)

    def _forgo_source(self, feed: str, now: int) -> None:
        """Receive a feed on no connection."""
        session = self._sessions[self._sources.pop(feed)]
        exchange = session.exchanges[feed]
        exchange.receives = False
        self._note(session, feed, exchange, now)

    def _replace_source(self, number: int, feed: str, now: int) -> None:
        """Have another remote send a feed that this one does not share any more."""
        if self._sources.get(feed) == number:
            del self._sources[feed]
            self._find_source(feed, now)

    def _find_source(self, feed: str, now: int) -> None:
        """Receive a feed from a remote that is ahead, or else from any that has it."""
        candidates = [
            number
            for number, session in self._sessions.items()
            if feed in session.exchanges
            and session.clock.get(feed, -1) >= 0
            and self._may_send(session, feed)
            and self._shares(feed, session)
        ]
        if candidates:
            self._set_source(max(candidates, key=lambda number: self._is_ahead(number, feed)), feed, now)

    def _next_ahead(self, number: int, feed: str) -> int | None:
        """Return the next connection in a circle whose remote is ahead, or None."""
        numbers = list(self._sessions)
        place = numbers.index(number)
        for other in numbers[place + 1 :] + numbers[:place]:
            session = self._sessions[other]
            if (
                feed in session.exchanges
                and self._is_ahead(other, feed)
                and self._may_send(session, feed)
                and self._shares(feed, session)
            ):
                return other
        return None
