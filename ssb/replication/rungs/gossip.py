"""Gossip: two peers tell each other how far they are in all feeds, and each sends what the other lacks.

With *request skipping* a peer remembers how far another said it was, and tells it only of feeds in which the
two differ. An exchange has five phases: a peer says its clock, hears the remote's, says how far it is in the
feeds that only the remote has named and in which it is at another message (IGNORE: it does not replicate
them), sends messages, and receives some. Who hears no response about a feed knows that the remote is as far.

The record of a remote changes by nothing but what the remote said, and the messages that it sent: a
connection may fail before a message has arrived.
"""

from collections.abc import Iterable, Mapping

from ssb.canonical import Value
from ssb.replication.ebt import RemoteClocks
from ssb.replication.rungs.rung import IGNORE, Rung, Session
from ssb.store.clocks import MemoryClocks
from ssb.store.feeds import FeedStore

_FIRST, _RESPONSE = 1, 2


class Gossip(Rung):
    """A peer that exchanges clocks and messages with one peer at a time.

    Args:
        feeds, wanted: see Rung.
        clocks: where it keeps how far others said they were; None: it skips no request.
    """

    def __init__(
        self, feeds: FeedStore, wanted: Iterable[str] = (), clocks: RemoteClocks | None = None
    ) -> None:
        super().__init__(feeds, wanted)
        self._clocks = clocks

    def want_all(self, feeds: Iterable[str], now: int) -> None:
        """See Rung. What others said of these feeds is doubted, so that they are named at the next meeting.

        Who has ignored a feed is not told of it again. If it then wants the feed, and is at the number that
        it remembers of the other, neither would ever name it.
        """
        new = [feed for feed in feeds if feed not in self._wanted]
        super().want_all(new, now)
        if self._clocks is not None and new:
            self._clocks.doubt_feeds(new)
            for session in self.sessions.values():
                MemoryClocks({session.remote: session.clock}).doubt_feeds(new)

    def close(self, number: int, now: int) -> None:
        """See Rung; what the remote said is kept."""
        session = self.sessions[number]
        if self._clocks is not None:
            self._clocks.set_remote_clock(session.remote, session.clock)
        super().close(number, now)

    def _begin(self, session: Session, now: int) -> None:
        if self._clocks is None:
            self._say(session, self._clock())
            return
        session.clock = dict(self._clocks.remote_clock(session.remote))
        said = {
            feed: number
            for feed, number in self._clock().items()
            if session.clock.get(feed) not in (IGNORE, number)
        }
        session.said = said
        self._say(session, said)

    def _hear(self, session: Session, said: Mapping[str, int], more: Mapping[str, Value], now: int) -> None:
        session.clock |= said
        if self._clocks is None:
            self._send_after(session, {feed: number for feed, number in said.items() if feed in self._wanted})
            session.sends_end = True
        elif session.clocks == _FIRST:
            session.heard = said.keys()
            here = self._clock()
            self._say(
                session,
                {
                    feed: here.get(feed, IGNORE)
                    for feed, number in said.items()
                    if feed not in session.said and here.get(feed, IGNORE) != number
                },
            )
        elif session.clocks == _RESPONSE:
            unsaid = session.said.keys() - {*session.heard, *said}
            session.clock |= {feed: session.said[feed] for feed in sorted(unsaid)}
            self._send_after(session, {feed: n for feed, n in session.clock.items() if feed in self._wanted})
            session.sends_end = True
