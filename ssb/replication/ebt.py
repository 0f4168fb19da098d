"""Epidemic broadcast trees, version 3: feeds flow along trees, and notes repair the trees.

The protocol of `ebt.replicate` as deployed peers speak it (npm's epidemic-broadcast-trees and ssb-ebt; the
idea is that of Leitão, Pereira and Rodrigues, "Epidemic Broadcast Trees", 2007; seed papers 001 and 003).

Two connected peers send each other notes. A note names a feed and holds one number: -1 if its sender does
not replicate the feed, else twice the sequence number that the sender has, plus 1 if it does not want to
receive the feed on this connection. A peer that wants to receive gets all newer messages, now and later. A
peer receives each feed on one connection if it can (*eager*), and only notes on the others (*lazy*). A lazy
peer that is ahead takes over when the eager one falls silent, or is closed.

A note that only reports progress waits for a random time, and is not sent if the other peer reports the same
before: of two lazy peers mostly one tells (seed paper 000, A.9).

*Request skipping*: a peer stores the positions that another reported. When they connect again it sends notes
only for feeds in which the two differ. Only notes and messages from the other peer change that record.

A feed that has ended (`ssb.ending`) is received on no connection once its last message is here.

The accepting side sends its notes first; the other side sends its own after receiving them. On the wire, a
body is the JSON of one message, or of an object of notes.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from random import Random
from typing import Final, Protocol

from base.timers import Timers
from base.token_bucket import TokenBucket
from base.units import SECOND
from ssb.canonical import Value
from ssb.keys import InvalidRef, parse_feed
from ssb.message import ForkedFeed, InvalidMessage, Message
from ssb.replication.replicator import Replicator, count_unwanted
from ssb.replication.session import DEFAULT_LIMITS, Exchange, Limits, Note, Selection, Session
from ssb.replication.sources import Sources
from ssb.store.feeds import FeedStore

REPLICATE: Final = ("ebt", "replicate")
VERSION: Final = 3
REQUEST: Final[Mapping[str, Value]] = {"version": VERSION, "format": "classic"}
"""The argument of `ebt.replicate`."""


class RemoteClocks(Protocol):
    """Stores the positions that other peers reported, for request skipping."""

    def remote_clock(self, peer: str) -> Mapping[str, int]:
        """Return feed -> sequence number, -1 for a feed that the peer does not replicate, or
        ssb.store.clocks.UNKNOWN."""
        ...

    def set_remote_clock(self, peer: str, clock: Mapping[str, int]) -> None:
        """Replace the clock of a peer."""
        ...

    def forget_feeds(self, feeds: Collection[str]) -> None:
        """Remove feeds from the clocks of all peers."""
        ...

    def doubt_feeds(self, feeds: Collection[str]) -> None:
        """Replace the positions in feeds by UNKNOWN for the peers that replicate them."""
        ...


class Ebt(Replicator):
    """Replication with all peers that support EBT.

    Args:
        feeds: the store, which verifies messages.
        clocks: the store of remote clocks.
        wanted: the feeds that were replicated before a restart.
        limits: see Limits.
        rng: draws how long notes of progress wait; None: all wait for as long as they may.

    Attributes:
        sessions: the connections by number.
        selection: the feeds, and the peers that each is exchanged with.
        sources: the connections that feeds are received on.
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
        rng: Random | None = None,
    ) -> None:
        super().__init__(feeds, wanted)
        self._clocks = clocks
        self._limits = limits
        self._rng = rng
        self.sessions: dict[int, Session] = {}
        self._of_remote: dict[str, dict[int, Session]] = {}
        self.selection = Selection(feeds, self._wanted)
        self.sources = Sources(self.sessions, self.selection)
        self._doubted: set[str] = set()  # feeds to doubt in the stored clocks
        self._silences: Timers[int] = Timers()

    def refuses(self, request: Value) -> str:
        is_known = isinstance(request, dict) and request.get("version") == VERSION
        return "" if is_known else "only version 3 is known"

    def exchanges(self) -> int:
        """Return the number of feeds with state, over all connections."""
        return sum(len(session.exchanges) for session in self.sessions.values())

    # Feeds

    def want_all(self, feeds: Iterable[str], now: int) -> None:
        """Replicate feeds from now on.

        All peers are sent notes, now or when they connect: a peer that knows that this one does not replicate
        a feed does not request it. So its position in the feed is unknown until it answers.
        """
        for feed in feeds:
            self._want(feed, now)
        self._doubt_clocks()

    def _want(self, feed: str, now: int) -> None:
        if feed in self._wanted:
            return
        self._wanted[feed] = None
        self._doubted.add(feed)
        for session in self.sessions.values():
            session.clock.pop(feed, None)
            if feed in session.aside:
                session.aside.discard(feed)
                session.returned.add(feed)
            if session.has_started and session.shares(feed):
                session.exchanges[feed] = Exchange()
                self.sources.request(session, feed, now)

    def share(self, feed: str, partner: str, now: int, *, receives: bool) -> None:
        """Exchange a feed with one peer only; `receives` unless the feed is local.

        No note is sent of a local feed: the partner requests it.
        """
        self.selection.partners[feed] = partner
        if receives:
            self.want_all((feed,), now)
        else:
            self._wanted[feed] = None
            self.selection.held_back.add(feed)

    def backlog(self, feed: str, partner: str) -> int | None:
        """Return the number of messages of a feed that wait for a peer.

        None if the peer is not connected, or has not reported that it replicates the feed. A peer that had
        the whole feed at its last connection does not report before it learns of a new message.
        """
        for session in self._of_remote.get(partner, {}).values():
            if session.clock.get(feed, -1) >= 0:
                exchange = session.exchanges.get(feed)
                has = session.clock[feed] if exchange is None else exchange.sent
                return self._tips.get(feed, 0) - has
        return None

    def forget(self, feed: str) -> None:
        """Drop all state of a feed that no peer replicates any more, without a note."""
        self._wanted.pop(feed, None)
        self.sources.chosen.pop(feed, None)
        self.selection.forget(feed)
        for session in self.sessions.values():
            session.drop(feed)
            session.dismissed.pop(feed, None)
            session.clock.pop(feed, None)
        self._clocks.forget_feeds([feed])

    def unwant(self, feed: str, now: int) -> None:
        """Stop replicating a feed, unless this peer replicates it for others."""
        behalf = self.selection.behalf
        if (behalf is not None and behalf.is_wanted(feed)) or feed not in self._wanted:
            return
        del self._wanted[feed]
        self._stop(feed, now)
        for session in self.sessions.values():
            session.record(feed, session.clock.get(feed, -1))

    def _stop(self, feed: str, now: int) -> None:
        """Stop the exchange of a feed with all peers."""
        self.sources.chosen.pop(feed, None)
        self._set_aside.pop(feed, None)
        for session in self.sessions.values():
            session.dismiss(feed, now)

    def on_lost(self, feed: str, now: int) -> None:
        """See Replication: all peers are sent the new position, and one that is ahead sends.

        A peer with a refused later message may have the lost ones.
        """
        for session in self.sessions.values():
            if session.has_started and session.shares(feed):
                session.aside.discard(feed)
                session.exchange(feed)
                session.note(feed, now)
        self.sources.find(feed, now)

    def hide(self, feed: str, peer: str, now: int) -> None:
        """Do not exchange a feed with a peer, as its author has blocked the peer."""
        self.selection.hidden.setdefault(feed, set()).add(peer)
        for session in self._of_remote.get(peer, {}).values():
            session.dismiss(feed, now)
            self.sources.replace(session, feed, now)

    def hides(self, feed: str, peer: str) -> bool:
        return peer in self.selection.hidden.get(feed, ())

    def on_left(self, feed: str, peer: str) -> None:
        """Handle that a peer has stopped replicating a feed; stock peers send no note of that."""
        for session in self._of_remote.get(peer, {}).values():
            session.record(feed, -1)
            session.ready.pop(feed, None)
            exchange = session.exchanges.get(feed)
            if exchange is not None and exchange.sends:
                exchange.sends = False
                session.left.add(feed)

    def on_returned(self, feed: str, peer: str, now: int) -> None:
        """Handle that a peer replicates a feed again after on_left(); stock peers may send no note."""
        clock = dict(self._clocks.remote_clock(peer))
        if clock.get(feed) == -1:
            del clock[feed]
            self._clocks.set_remote_clock(peer, clock)
        for session in self._of_remote.get(peer, {}).values():
            if session.clock.get(feed) != -1 and feed not in session.left:
                continue
            session.clock.pop(feed, None)
            exchange = session.exchanges.get(feed)
            if exchange is not None and feed in session.left:
                exchange.sends = True
                session.clock[feed] = exchange.sent
                if exchange.sent < self._tips.get(feed, 0):
                    session.send(feed)
            elif session.has_started and session.shares(feed):
                session.exchange(feed)
                self.sources.request(session, feed, now)
            session.left.discard(feed)

    def append(
        self, messages: Sequence[Message], now: int, received: float, by: int | None = None
    ) -> Mapping[str, InvalidMessage | ForkedFeed]:
        admitted = self._admit(messages, received)
        for feed, tip in admitted.before.items():
            if self._tips.get(feed, 0) > tip:
                self.on_appended(feed, now, by)
        for feed, error in admitted.refused.items():
            if isinstance(error, ForkedFeed):
                self._stop(feed, now)
        return admitted.refused

    def on_appended(self, feed: str, now: int, by: int | None = None) -> None:
        """See Replication.

        Messages from no connection are mostly those of this peer's user: the feed has no source until another
        peer is ahead.
        """
        tip = self._tips.get(feed, 0)
        sources = self.sources
        sources.readmit(feed, now)
        source = sources.chosen.get(feed)
        if source is not None:
            sources.update_owed(source, feed, now)
            if self.selection.is_complete(feed):
                sources.stop(feed, now)
                sources.update_owed(source, feed, now)
            elif not source.is_ahead(feed):
                if by is None:
                    sources.stop(feed, now)
                elif (ahead := sources.next_ahead(source, feed)) is not None:
                    sources.choose(ahead, feed, now)
        for number, session in self.sessions.items():
            if not session.has_started or number == by or not session.shares(feed):
                continue
            exchange = session.exchanges.get(feed)
            if exchange is not None and exchange.sends:
                if exchange.sent < tip:
                    session.send(feed)
            elif 0 <= session.clock.get(feed, 0) < tip:
                session.report(feed, now)

    # Connections

    def open(self, number: int, remote: str, *, is_caller: bool, now: int) -> None:
        """See Replication; `is_caller` on the side that called `ebt.replicate`."""
        clock = dict(self._clocks.remote_clock(remote))
        self.sessions[number] = session = Session(
            number,
            self.selection,
            self._limits,
            self._changed,
            self._silences,
            remote,
            clock,
            TokenBucket(SECOND // self._limits.notes_per_s, self._limits.notes_burst, now),
            self._rng,
        )
        self._of_remote.setdefault(remote, {})[number] = session
        for feed, sequence in list(session.clock.items()):
            # The remote does not repeat the notes of the last connection.
            if sequence != -1 and self.selection.accepts(remote, feed):
                self._want(feed, now)
            session.record(feed, sequence)
        self._doubt_clocks()
        if not is_caller:
            self._start(session, now)

    def close(self, number: int, now: int) -> None:
        session = self.sessions.pop(number)
        self._silences.set(number, None)
        del self._of_remote[session.remote][number]
        if not self._of_remote[session.remote]:
            del self._of_remote[session.remote]
        self.sources.end(session, now)
        self._clocks.set_remote_clock(session.remote, session.clock)

    def output_due(self, number: int) -> int | None:
        return self.sessions[number].output_due()

    def take_output(self, number: int, room: int, now: int) -> list[bytes]:
        session = self.sessions[number]
        bodies = session.take_notes(now)
        room -= sum(map(len, bodies))
        while room > 0 and session.ready:
            feed = next(iter(session.ready))
            del session.ready[feed]
            exchange = session.exchanges[feed]
            exchange.sent, room, has_more = self._append_messages(feed, exchange.sent, room, bodies)
            if has_more:
                session.ready[feed] = None
        self._changed.pop(number, None)
        return bodies

    def next_deadline(self) -> int | None:
        return self._silences.next_deadline()

    def wake(self, now: int) -> None:
        """See Replication: other peers replace silent sources."""
        for number in sorted(self._silences.expire(now)):
            session = self.sessions[number]
            if session.owed:
                session.restart_timeout(now)
            for feed in list(session.owed):
                other = self.sources.next_ahead(session, feed)
                if other is not None:
                    self.sources.choose(other, feed, now)

    def _start(self, session: Session, now: int) -> None:
        session.has_started = session.is_greeting = True
        session.schedule_notes(now)
        for feed in self._wanted:
            known, tip = session.clock.get(feed), self._tips.get(feed, 0)
            if known in (-1, tip) or not session.shares(feed):
                continue
            if known is not None and known < tip:
                # Often it is as far, and has not told so, as it has heard the same from here.
                session.report(feed, now)
            else:
                session.exchange(feed)
                self.sources.request(session, feed, now)

    # Received messages

    def _expects(self, number: int, feed: str) -> bool:
        session = self.sessions[number]
        if feed in session.aside:
            return False
        if feed in session.exchanges and session.shares(feed):
            return True
        count_unwanted(session, session.limits.unwanted)
        return False

    def _refuse(self, number: int, feed: str, error: InvalidMessage | ForkedFeed, now: int) -> None:
        """See Replicator; another remote becomes the source of the feed, if one has it."""
        session = self.sessions[number]
        session.aside.add(feed)
        self.put_aside(feed, session.remote, str(error))
        self.sources.refuse(session, feed, now)

    def _store(self, number: int, messages: Sequence[Message], now: int, received: float) -> None:
        session = self.sessions[number]
        messages = _without_strays(session, messages, self._tips)
        before = {message.author: self._tips.get(message.author, 0) for message in messages}
        refused = self.append(messages, now, received, by=number)
        for feed, tip_before in before.items():
            tip = self._tips.get(feed, 0)
            exchange = session.exchanges.get(feed)
            if exchange is None:  # forked
                continue
            last = min(max(message.sequence for message in messages if message.author == feed), tip)
            session.record(feed, max(last, session.clock.get(feed, 0)))
            exchange.sent = max(last, exchange.sent)
            self.sources.update_owed(session, feed, now)
            if tip > tip_before:
                exchange.is_active = True
                if session.owed:
                    session.restart_timeout(now)
            elif exchange.receives and self.sources.chosen.get(feed) is not session:
                exchange.receives = False
                session.note(feed, now)
        for feed, error in refused.items():
            self._refuse(number, feed, error, now)

    # Received notes

    def _read(self, number: int, notes: dict[str, Value], now: int) -> None:
        """See Replicator."""
        session = self.sessions[number]
        inner = notes.get("clock")
        if isinstance(inner, dict):
            notes = inner
        session.charge(len(notes), now)
        if not session.has_started:
            self._start(session, now)
        wishes = 0
        is_denied = False  # the remote replicates a feed, contrary to the stored clock
        for feed, number_of_note in notes.items():
            try:
                parse_feed(feed)
            except InvalidRef:
                continue  # stock peers send other feed formats, too
            note = Note.read(number_of_note)
            if note.sequence is not None and session.clock.get(feed) == -1:
                is_denied = is_denied or self._clocks.remote_clock(session.remote).get(feed) == -1
            wishes += (session.clock.get(feed, -1) < 0) != (note.sequence is None)
            self._on_note(session, feed, note, now)
        self._doubt_clocks()
        if is_denied or (wishes and self.selection.behalf is not None):
            # The remote will not repeat this, even if this peer is killed before the connection ends.
            self._clocks.set_remote_clock(session.remote, session.clock)

    def _on_note(self, session: Session, feed: str, note: Note, now: int) -> None:
        session.left.discard(feed)
        if note.sequence is None:
            if self.selection.behalf is not None:
                self.selection.behalf.on_leave(session.remote, feed)
            session.record(feed, -1)
            session.drop(feed)
            self.sources.replace(session, feed, now)
            return
        if self.selection.accepts(session.remote, feed):
            self._want(feed, now)
        session.record(feed, note.sequence)
        if not session.shares(feed):
            session.deny(feed, now)
            return
        tip = self._tips.get(feed, 0)
        is_new = feed not in session.exchanges
        exchange = session.exchange(feed)
        exchange.sends = note.receives
        session.ready.pop(feed, None)
        exchange.sent = note.sequence
        if note.sequence > tip:
            self.sources.consider(session, feed, now)
        elif note.sequence < tip:
            if note.receives:
                session.send(feed)
            else:
                session.note(feed, now)
        if is_new and note.sequence == tip and not note.receives:
            session.report(feed, now)
        elif is_new:
            self.sources.request(session, feed, now)
        self.sources.update_owed(session, feed, now)

    def _doubt_clocks(self) -> None:
        """Doubt the stored clocks, once for all feeds wanted since the last time."""
        if self._doubted:
            self._clocks.doubt_feeds(self._doubted)
            self._doubted = set()


def _without_strays(
    session: Session, messages: Sequence[Message], tips: Mapping[str, int]
) -> Sequence[Message]:
    """Leave out messages that were under way before a feed was left here, and wanted again.

    They do not come next. The note of the new wish asks for those before, and for these once more.
    """
    if session.returned.isdisjoint(message.author for message in messages):
        return messages
    kept = []
    for message in messages:
        feed = message.author
        if feed in session.returned:
            if message.sequence > tips.get(feed, 0) + 1:
                count_unwanted(session, session.limits.unwanted)
                continue
            session.returned.discard(feed)
        kept.append(message)
    return kept
