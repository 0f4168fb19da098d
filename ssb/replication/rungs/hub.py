"""The singleton hub: one peer to which all others upload, and from which they get the feeds they follow.

It is no design for Scuttlebutt, but the optimum of a central server, as a reference for the others. The hub
stores which feeds each client follows and its numbers in them, so a client sends few numbers per connection,
however many feeds it follows. In the paper, the client sends the time of its last connection. Here it sends
the number of feeds that it follows and of its messages of them. If the hub's record has the same sums, it is
right; if not (a connection broke midway, or the hub has lost its records), the hub requests the whole clock.

A clock of a client names only feeds that it follows without the hub's record of it (IGNORE: it follows them
no more). The last body of the first clock has more members: "have", [feeds, messages], or "whole" if the
clock is whole; "own", its numbers in its own feeds; and "stays", if it stays connected for new messages. The
hub answers each clock with its own numbers of those own feeds in which it is behind, or with "all".
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from ssb.canonical import Value
from ssb.keys import InvalidRef, parse_feed
from ssb.replication.ebt import RemoteClocks
from ssb.replication.replication import ProtocolError
from ssb.replication.rungs.rung import IGNORE, Rung, Session, numbers
from ssb.store.feeds import FeedStore

_FEEDS: Final = 1_000_000  # replicated by a hub, or followed by a client
_OWN: Final = 1_000  # feeds of one client


class Hub(Rung):
    """The hub. It replicates its clients' own feeds.

    Args:
        feeds, wanted: see Rung.
        clocks: the stored clocks of its clients.
    """

    _most_unwanted = _FEEDS

    def __init__(self, feeds: FeedStore, clocks: RemoteClocks, wanted: Iterable[str] = ()) -> None:
        super().__init__(feeds, wanted)
        self._clocks = clocks

    def _begin(self, session: Session, now: int) -> None:
        session.clock = dict(self._clocks.remote_clock(session.remote))

    def close(self, number: int, now: int) -> None:
        """See Rung; the client's clock is stored, as if all messages sent have arrived."""
        session = self.sessions[number]
        if session.clocks:
            self._clocks.set_remote_clock(session.remote, session.clock)
        super().close(number, now)

    def _on_clock(
        self, session: Session, clock: Mapping[str, int], more: Mapping[str, Value], now: int
    ) -> None:
        own = _own_feeds(more.get("own", {}))
        if len(self._wanted) + sum(feed not in self._wanted for feed in own) > _FEEDS:
            raise ProtocolError("more feeds than the hub replicates")
        session.is_live |= more.get("stays") is True
        before = {feed: number for feed, number in session.clock.items() if feed not in clock}
        if more.get("whole") is True:
            before = {}
        elif "have" in more and (more["have"] != _holdings(before) or not self._has(before)):
            session.clock = {}  # nothing is forwarded by a wrong record
            self._send_clock(session, {}, {"all": True})
            return
        session.clock = before | {feed: number for feed, number in clock.items() if number != IGNORE}
        self._wanted |= dict.fromkeys(own)
        here = {feed: self._tips.get(feed, 0) for feed in own}
        self._send_clock(session, {feed: number for feed, number in here.items() if number < own[feed]})
        self._send_after(session, session.clock)
        session.sends_end = True

    def _forward(self, feed: str, before: int, by: int | None, now: int) -> None:
        for number, session in self.sessions.items():
            if number != by and session.is_live and feed in session.clock:
                session.send(feed, session.clock[feed])

    def _on_sent(self, session: Session, feed: str, number: int) -> None:
        session.clock[feed] = number

    def _on_received(self, session: Session, feed: str, number: int) -> None:
        """See Rung: a feed that a client uploads is not one that it follows."""

    def _has(self, clock: Mapping[str, int]) -> bool:
        """Whether the hub has all messages of a client's record."""
        return all(number <= self._tips.get(feed, 0) for feed, number in clock.items())


class HubClient(Rung):
    """A client of the hub.

    Args:
        feeds, wanted: see Rung.
        own: the feeds that it uploads; it follows all other wanted ones.
        clocks: stores the feeds that the hub has recorded for it.
        stays: it stays connected, and gets new messages at once; else it leaves when all is up to date.
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
        """See Rung; a connected hub is notified at once."""
        super().want_all(feeds, now)
        for session in self.sessions.values():
            self._send_changes(session)

    def unwant(self, feed: str, now: int) -> None:
        """See Rung; a connected hub is notified at once."""
        super().unwant(feed, now)
        for session in self.sessions.values():
            self._send_changes(session)

    def close(self, number: int, now: int) -> None:
        """See Rung; the state of the hub's record is stored."""
        session = self.sessions[number]
        if session.clocks:
            self._clocks.set_remote_clock(session.remote, dict.fromkeys(session.clock, 0))
        super().close(number, now)

    def _begin(self, session: Session, now: int) -> None:
        if session.is_caller:
            session.clock = dict(self._clocks.remote_clock(session.remote))
            known = {feed: self._tips.get(feed, 0) for feed in session.clock if feed in self._wanted}
            self._send_state(session, {"have": _holdings(known)})

    def _on_clock(
        self, session: Session, clock: Mapping[str, int], more: Mapping[str, Value], now: int
    ) -> None:
        if more.get("all") is True:
            if session.clocks > 1:
                raise ProtocolError("the hub asks again for the whole clock")
            session.clock = {}
            self._send_state(session, {"whole": True})
            return
        for feed, number in session.sent.items():
            if feed in self._own:
                self._send_after(session, {feed: clock.get(feed, number)})
            elif number == IGNORE:
                session.clock.pop(feed, None)
            else:
                session.clock[feed] = number
        self._send_changes(session)
        session.sends_end = not self._stays

    def _forward(self, feed: str, before: int, by: int | None, now: int) -> None:
        if feed in self._own:
            for session in self.sessions.values():
                if session.clocks:
                    session.send(feed, before)

    def _send_changes(self, session: Session) -> None:
        """Send the changes since the last clock, unless an answer of the hub is due."""
        is_answered = session.clocks and session.clocks == session.asked
        if self._stays and is_answered and self._changes(session):
            self._send_state(session, {})

    def _send_state(self, session: Session, more: Mapping[str, Value]) -> None:
        changes = self._changes(session)
        own: dict[str, int] = {}
        if more:
            own = {feed: self._tips.get(feed, 0) for feed in self._own}
            more = {**more, "own": {**own}} | ({"stays": True} if self._stays else {})
        session.sent = changes | own
        self._send_clock(session, changes, more)

    def _changes(self, session: Session) -> dict[str, int]:
        """Return the followed feeds missing in the hub's record, and IGNORE for surplus ones."""
        followed = {feed: self._tips.get(feed, 0) for feed in self._wanted if feed not in self._own}
        new = {feed: number for feed, number in followed.items() if feed not in session.clock}
        return new | {feed: IGNORE for feed in session.clock if feed not in followed}


def _own_feeds(value: Value) -> dict[str, int]:
    own = numbers(value)
    if len(own) > _OWN:
        raise ProtocolError("too many feeds of its own")
    try:
        for feed in own:
            parse_feed(feed)
    except InvalidRef as error:
        raise ProtocolError(f"a feed of its own that is none: {error}") from None
    return own


def _holdings(clock: Mapping[str, int]) -> list[Value]:
    """Return the number of feeds of a clock, and of messages of them."""
    return [len(clock), sum(clock.values())]
