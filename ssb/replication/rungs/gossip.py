"""Gossip: two peers exchange their clocks over all feeds, and each sends the messages that the other lacks.

With *request skipping* a peer stores the clock that another has sent, and sends it only the entries in which
the two differ. An exchange has five phases: a peer sends its clock, receives the remote's, responds with its
numbers of the feeds that only the remote has named and in which its own differ (IGNORE: it does not replicate
them), sends messages, and receives some. A feed without a response is equal at the remote.

The stored clock of a remote changes only by its own clocks and messages: a connection may fail before a
message has arrived.
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
        clocks: the stored clocks of others; None: it skips no request.
    """

    def __init__(
        self, feeds: FeedStore, wanted: Iterable[str] = (), clocks: RemoteClocks | None = None
    ) -> None:
        super().__init__(feeds, wanted)
        self._clocks = clocks

    def want_all(self, feeds: Iterable[str], now: int) -> None:
        """See Rung. The stored clocks are doubted for these feeds, so that they are named at the next
        meeting.

        A feed that a peer has ignored is not named to it again. If it then wants the feed, and has the number
        of the stored clock, neither would ever name it.
        """
        new = [feed for feed in feeds if feed not in self._wanted]
        super().want_all(new, now)
        if self._clocks is not None and new:
            self._clocks.doubt_feeds(new)
            for session in self.sessions.values():
                MemoryClocks({session.remote: session.clock}).doubt_feeds(new)

    def close(self, number: int, now: int) -> None:
        """See Rung; the remote's clock is stored."""
        session = self.sessions[number]
        if self._clocks is not None:
            self._clocks.set_remote_clock(session.remote, session.clock)
        super().close(number, now)

    def _begin(self, session: Session, now: int) -> None:
        if self._clocks is None:
            self._send_clock(session, self._clock())
            return
        session.clock = dict(self._clocks.remote_clock(session.remote))
        clock = {
            feed: number
            for feed, number in self._clock().items()
            if session.clock.get(feed) not in (IGNORE, number)
        }
        session.sent = clock
        self._send_clock(session, clock)

    def _on_clock(
        self, session: Session, clock: Mapping[str, int], more: Mapping[str, Value], now: int
    ) -> None:
        session.clock |= clock
        if self._clocks is None:
            self._send_after(
                session, {feed: number for feed, number in clock.items() if feed in self._wanted}
            )
            session.sends_end = True
        elif session.clocks == _FIRST:
            session.named = clock.keys()
            here = self._clock()
            self._send_clock(
                session,
                {
                    feed: here.get(feed, IGNORE)
                    for feed, number in clock.items()
                    if feed not in session.sent and here.get(feed, IGNORE) != number
                },
            )
        elif session.clocks == _RESPONSE:
            unsaid = session.sent.keys() - {*session.named, *clock}
            session.clock |= {feed: session.sent[feed] for feed in sorted(unsaid)}
            self._send_after(session, {feed: n for feed, n in session.clock.items() if feed in self._wanted})
            session.sends_end = True
