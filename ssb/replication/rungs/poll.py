"""Polls: a reader requests a feed from its author, now and then.

*Polled scan*: the author sends the whole feed each time. *Append-only poll*: the reader sends its last
number, and the author sends the rest.
"""

from collections.abc import Collection, Iterable, Mapping

from ssb.canonical import Value
from ssb.replication.rungs.rung import Rung, Session
from ssb.store.feeds import FeedStore


class Poll(Rung):
    """A peer that polls, and answers polls.

    Args:
        feeds, wanted: see Rung.
        authors: feeds to request, by the reference of the peer.
        whole: scans: messages held already are requested again.
    """

    is_mutual = False

    def __init__(
        self,
        feeds: FeedStore,
        wanted: Iterable[str] = (),
        authors: Mapping[str, Collection[str]] | None = None,
        *,
        whole: bool = False,
    ) -> None:
        super().__init__(feeds, wanted)
        self._authors = authors or {}
        self._whole = whole

    def _begin(self, session: Session, now: int) -> None:
        if session.is_caller:
            asked = [feed for feed in self._authors.get(session.remote, ()) if feed in self._wanted]
            self._send_clock(session, {feed: 0 if self._whole else self._tips.get(feed, 0) for feed in asked})
            session.sends_end = True

    def _on_clock(
        self, session: Session, clock: Mapping[str, int], more: Mapping[str, Value], now: int
    ) -> None:
        session.clock |= clock
        self._send_after(session, clock)
        session.sends_end = True
