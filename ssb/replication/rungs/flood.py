"""Floods: peers that stay connected, first exchange what they lack, and then pass on all that is new.

A peer sends a new message on all connections but the one on which it came first. So most peers get it several
times, and the copies are the price for the least possible delay.
"""

from collections.abc import Iterable, Mapping

from ssb.canonical import Value
from ssb.replication.rungs.rung import IGNORE, Rung, Session


class Flood(Rung):
    """A peer that floods."""

    def want_all(self, feeds: Iterable[str], now: int) -> None:
        """See Rung; those who are connected are told at once."""
        feeds = [feed for feed in feeds if feed not in self._wanted]
        super().want_all(feeds, now)
        for session in self.sessions.values():
            self._say(session, {feed: self._tips.get(feed, 0) for feed in feeds})

    def unwant(self, feed: str, now: int) -> None:
        """See Rung; those who are connected are told at once."""
        super().unwant(feed, now)
        for session in self.sessions.values():
            self._say(session, {feed: IGNORE})

    def _begin(self, session: Session, now: int) -> None:
        self._say(session, self._clock())

    def _hear(self, session: Session, said: Mapping[str, int], more: Mapping[str, Value], now: int) -> None:
        session.clock |= said
        self._send_after(session, {feed: number for feed, number in said.items() if feed in self._wanted})

    def _pass_on(self, feed: str, before: int, by: int | None, now: int) -> None:
        for number, session in self.sessions.items():
            if number != by and session.clock.get(feed, -1) >= 0:
                session.send(feed, before)
