"""Floods: peers that stay connected, first exchange missing messages, and then forward all new ones.

A peer sends a new message on all connections but that of its first copy. So most peers get several copies,
the price for the least possible delay.
"""

from collections.abc import Iterable, Mapping

from ssb.canonical import Value
from ssb.replication.rungs.rung import IGNORE, Rung, Session


class Flood(Rung):
    """A peer that floods."""

    def want_all(self, feeds: Iterable[str], now: int) -> None:
        """See Rung; connected peers are notified at once."""
        feeds = [feed for feed in feeds if feed not in self._wanted]
        super().want_all(feeds, now)
        for session in self.sessions.values():
            self._send_clock(session, {feed: self._tips.get(feed, 0) for feed in feeds})

    def unwant(self, feed: str, now: int) -> None:
        """See Rung; connected peers are notified at once."""
        super().unwant(feed, now)
        for session in self.sessions.values():
            self._send_clock(session, {feed: IGNORE})

    def _begin(self, session: Session, now: int) -> None:
        self._send_clock(session, self._clock())

    def _on_clock(
        self, session: Session, clock: Mapping[str, int], more: Mapping[str, Value], now: int
    ) -> None:
        session.clock |= clock
        self._send_after(session, {feed: number for feed, number in clock.items() if feed in self._wanted})

    def _forward(self, feed: str, before: int, by: int | None, now: int) -> None:
        for number, session in self.sessions.items():
            if number != by and session.clock.get(feed, -1) >= 0:
                session.send(feed, before)
