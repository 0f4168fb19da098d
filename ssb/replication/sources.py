"""The choice of the connection on which EBT receives each feed (`ssb.replication.ebt`)."""

from collections.abc import Mapping

from ssb.replication.session import Selection, Session


class Sources:
    """The source of each feed: the connection that this peer receives it on.

    Args:
        sessions: all connections by number.
        selection: the feeds, and the peers that each is exchanged with.

    Attributes:
        chosen: feed -> its source, if it has one.
    """

    def __init__(self, sessions: Mapping[int, Session], selection: Selection) -> None:
        self._sessions = sessions
        self._selection = selection
        self.chosen: dict[str, Session] = {}

    def hold_back(self, feed: str, now: int) -> None:
        """Receive a feed nowhere until release(), though this peer wants it."""
        self._selection.held_back.add(feed)
        if feed in self.chosen:
            self.stop(feed, now)

    def release(self, feed: str, now: int) -> None:
        """Undo hold_back()."""
        self._selection.held_back.discard(feed)
        self.find(feed, now)

    def request(self, session: Session, feed: str, now: int) -> None:
        """Send the first note of a feed, and receive it here if it has no source."""
        if feed in self.chosen or not session.may_receive(feed):
            session.note(feed, now)
        else:
            self.choose(session, feed, now)

    def consider(self, session: Session, feed: str, now: int) -> None:
        """Receive a feed from a remote that is ahead, unless the source is ahead, too."""
        source = self.chosen.get(feed)
        if session.may_receive(feed) and (
            source is None or (source is not session and not source.is_ahead(feed))
        ):
            self.choose(session, feed, now)

    def choose(self, session: Session, feed: str, now: int) -> None:
        """Receive a feed on a connection, and no more on the previous one."""
        before = self.chosen.get(feed)
        self.chosen[feed] = session
        for other in (before, session):
            if other is not None:
                other.exchanges[feed].receives = other is session
                other.note(feed, now)
                self.update_owed(other, feed, now)

    def update_owed(self, session: Session, feed: str, now: int) -> None:
        """Expect messages of a feed from its source while that is ahead."""
        if self.chosen.get(feed) is session and session.is_ahead(feed):
            session.expect(feed, now)
        else:
            session.stop_expecting(feed)

    def stop(self, feed: str, now: int) -> None:
        """Receive a feed on no connection."""
        session = self.chosen.pop(feed)
        session.exchanges[feed].receives = False
        session.note(feed, now)

    def replace(self, session: Session, feed: str, now: int) -> None:
        """Find another source, if the connection is the source of a feed and does not share it any more."""
        if self.chosen.get(feed) is session:
            del self.chosen[feed]
            self.find(feed, now)

    def refuse(self, session: Session, feed: str, now: int) -> None:
        """Find another source for a feed after a refused message."""
        if self.chosen.get(feed) is session:
            self.stop(feed, now)
            self.update_owed(session, feed, now)
            self.find(feed, now)

    def readmit(self, feed: str, now: int) -> None:
        """Accept a feed again where it was set aside, as a newer message was received elsewhere."""
        readmitted = [session for session in self._sessions.values() if feed in session.aside]
        for session in readmitted:
            session.aside.discard(feed)
        if readmitted and feed not in self.chosen:
            self.find(feed, now)

    def find(self, feed: str, now: int) -> None:
        """Choose a source that is ahead, or else any that has the feed."""
        candidates = [
            session
            for session in self._sessions.values()
            if session.clock.get(feed, -1) >= 0 and self._can_be_source(session, feed)
        ]
        if candidates:
            self.choose(max(candidates, key=lambda session: session.is_ahead(feed)), feed, now)

    def next_ahead(self, session: Session, feed: str) -> Session | None:
        """Return the next connection in a circle whose remote is ahead, or None."""
        sessions = list(self._sessions.values())
        place = sessions.index(session)
        for other in sessions[place + 1 :] + sessions[:place]:
            if other.is_ahead(feed) and self._can_be_source(other, feed):
                return other
        return None

    def end(self, session: Session, now: int) -> None:
        """Find other sources for the feeds of a connection that has ended."""
        for feed, exchange in session.exchanges.items():
            if self.chosen.get(feed) is session:
                del self.chosen[feed]
                if exchange.is_active or feed in session.owed:
                    self.find(feed, now)

    @staticmethod
    def _can_be_source(session: Session, feed: str) -> bool:
        return feed in session.exchanges and session.may_receive(feed) and session.shares(feed)
