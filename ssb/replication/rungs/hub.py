"""The singleton hub: one peer to which all others upload, and from which they get what they follow.

It is no design for Scuttlebutt, but the best that a centre can do, to weigh the others against. The hub
remembers which feeds each client follows and how far it is, so a client says few numbers a connection,
however many feeds it follows. In the paper, the client says when it was last served. Here it says how many
feeds it follows and how many messages of them it has. If the hub's record adds up to the same, it is right;
if not (a connection broke midway, or the hub has lost its records), the hub asks for the whole clock.

A clock of a client names only feeds of which the hub does not know that it follows them (IGNORE: it follows
them no more). The last body of the first clock has more members: "have", [feeds, messages], or "whole" if the
clock is whole; "own", how far the client is in its own feeds; and "stays", if it does, and is to be sent what
is new. The hub answers each clock with its own numbers of those own feeds in which it is behind, or with
"all".
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from ssb.canonical import Value
from ssb.keys import InvalidRef, parse_feed
from ssb.replication.ebt import RemoteClocks
from ssb.replication.replication import ProtocolError
from ssb.replication.rungs.rung import IGNORE, Rung, Session, numbers
from ssb.store.feeds import FeedStore

_FEEDS: Final = 1_000_000  # that a hub replicates, or a client follows
_OWN: Final = 1_000  # feeds of one client


class Hub(Rung):
    """The hub. It replicates the feeds that its clients call their own.

    Args:
        feeds, wanted: see Rung.
        clocks: where it keeps how far its clients are.
    """

    _most_unwanted = _FEEDS

    def __init__(self, feeds: FeedStore, clocks: RemoteClocks, wanted: Iterable[str] = ()) -> None:
        super().__init__(feeds, wanted)
        self._clocks = clocks

    def _begin(self, session: Session, now: int) -> None:
        session.clock = dict(self._clocks.remote_clock(session.remote))

    def close(self, number: int, now: int) -> None:
        """See Rung; how far the client is, if all that was sent has arrived, is kept."""
        session = self.sessions[number]
        if session.clocks:
            self._clocks.set_remote_clock(session.remote, session.clock)
        super().close(number, now)

    def _hear(self, session: Session, said: Mapping[str, int], more: Mapping[str, Value], now: int) -> None:
        own = _own_feeds(more.get("own", {}))
        if len(self._wanted) + sum(feed not in self._wanted for feed in own) > _FEEDS:
            raise ProtocolError("more feeds than the hub replicates")
        session.is_live |= more.get("stays") is True
        before = {feed: number for feed, number in session.clock.items() if feed not in said}
        if more.get("whole") is True:
            before = {}
        elif "have" in more and (more["have"] != _holdings(before) or not self._has(before)):
            session.clock = {}  # nothing is passed on from a record that is wrong
            self._say(session, {}, {"all": True})
            return
        session.clock = before | {feed: number for feed, number in said.items() if number != IGNORE}
        self._wanted |= dict.fromkeys(own)
        here = {feed: self._tips.get(feed, 0) for feed in own}
        self._say(session, {feed: number for feed, number in here.items() if number < own[feed]})
        self._send_after(session, session.clock)
        session.sends_end = True

    def _pass_on(self, feed: str, before: int, by: int | None, now: int) -> None:
        for number, session in self.sessions.items():
            if number != by and session.is_live and feed in session.clock:
                session.send(feed, session.clock[feed])

    def _was_sent(self, session: Session, feed: str, number: int) -> None:
        session.clock[feed] = number

    def _came(self, session: Session, feed: str, number: int) -> None:
        """See Rung: a feed that a client uploads is none that it follows."""

    def _has(self, clock: Mapping[str, int]) -> bool:
        """Tell whether the hub has all that a record says a client has."""
        return all(number <= self._tips.get(feed, 0) for feed, number in clock.items())


class HubClient(Rung):
    """A client of the hub.

    Args:
        feeds, wanted: see Rung.
        own: the feeds that it uploads; all others that are wanted it follows.
        clocks: where it keeps which feeds the hub knows it follows.
        stays: it stays connected, and is sent what is new at once; else it parts when all is up to date.
    """

    _most_unwanted = _FEEDS

    def __init__(
        self,
        feeds: FeedStore,
        wanted: Iterable[str],
        own: Collection[str],
        clocks: RemoteClocks,
        *,
        stays: bool,
    ) -> None:
        super().__init__(feeds, wanted)
        self._own = dict.fromkeys(own)
        self._clocks = clocks
        self._stays = stays

    def want_all(self, feeds: Iterable[str], now: int) -> None:
        """See Rung; a hub that is connected is told at once."""
        super().want_all(feeds, now)
        for session in self.sessions.values():
            self._tell_changes(session)

    def unwant(self, feed: str, now: int) -> None:
        """See Rung; a hub that is connected is told at once."""
        super().unwant(feed, now)
        for session in self.sessions.values():
            self._tell_changes(session)

    def close(self, number: int, now: int) -> None:
        """See Rung; what the hub has been told is kept."""
        session = self.sessions[number]
        if session.clocks:
            self._clocks.set_remote_clock(session.remote, dict.fromkeys(session.clock, 0))
        super().close(number, now)

    def _begin(self, session: Session, now: int) -> None:
        if session.is_caller:
            session.clock = dict(self._clocks.remote_clock(session.remote))
            known = {feed: self._tips.get(feed, 0) for feed in session.clock if feed in self._wanted}
            self._tell(session, {"have": _holdings(known)})

    def _hear(self, session: Session, said: Mapping[str, int], more: Mapping[str, Value], now: int) -> None:
        if more.get("all") is True:
            if session.clocks > 1:
                raise ProtocolError("the hub asks again for the whole clock")
            session.clock = {}
            self._tell(session, {"whole": True})
            return
        for feed, number in session.said.items():
            if feed in self._own:
                self._send_after(session, {feed: said.get(feed, number)})
            elif number == IGNORE:
                session.clock.pop(feed, None)
            else:
                session.clock[feed] = number
        self._tell_changes(session)
        session.sends_end = not self._stays

    def _pass_on(self, feed: str, before: int, by: int | None, now: int) -> None:
        if feed in self._own:
            for session in self.sessions.values():
                if session.clocks:
                    session.send(feed, before)

    def _tell_changes(self, session: Session) -> None:
        """Say what has changed since the hub was told, unless an answer of it is due."""
        is_answered = session.clocks and session.clocks == session.asked
        if self._stays and is_answered and self._changes(session):
            self._tell(session, {})

    def _tell(self, session: Session, more: Mapping[str, Value]) -> None:
        changes = self._changes(session)
        own: dict[str, int] = {}
        if more:
            own = {feed: self._tips.get(feed, 0) for feed in self._own}
            more = {**more, "own": {**own}} | ({"stays": True} if self._stays else {})
        session.said = changes | own
        self._say(session, changes, more)

    def _changes(self, session: Session) -> dict[str, int]:
        """Return what is followed without the hub's knowledge, and IGNORE for the opposite."""
        followed = {feed: self._tips.get(feed, 0) for feed in self._wanted if feed not in self._own}
        new = {feed: number for feed, number in followed.items() if feed not in session.clock}
        return new | {feed: IGNORE for feed in session.clock if feed not in followed}


def _own_feeds(said: Value) -> dict[str, int]:
    own = numbers(said)
    if len(own) > _OWN:
        raise ProtocolError("too many feeds of its own")
    try:
        for feed in own:
            parse_feed(feed)
    except InvalidRef as error:
        raise ProtocolError(f"a feed of its own that is none: {error}") from None
    return own


def _holdings(clock: Mapping[str, int]) -> list[Value]:
    """Return how many feeds a clock has, and how many messages of them."""
    return [len(clock), sum(clock.values())]
