"""Getting one's own feed back from peers, and finding out how far it is.

While the own feed is in doubt (`ssb.store.own_feed`), every peer is asked for it by `createHistoryStream`.
Nearly all peers answer that, also those that send nobody his own feed by EBT. What comes is signed by the
user, so nobody can invent it. The doubt is settled when a peer that has the feed has told all that it has,
all that peers claim to have is here, and nothing more has come for a moment, in which others may answer.

A peer that says by EBT that it has more than is here raises the doubt: the identity is in use elsewhere, or
all of the disk went back in time. If it does not show in time what it claims, or the user says that nobody
has more, its word counts no more: no stranger can keep a user from writing by a number alone. A peer that
cannot answer is taken at its word by EBT.

Messages of it that are damaged here raise no doubt, as the feed's end is known. Peers are asked for them in
the same way.
"""

from typing import Final, TypeVar

from base.units import SECOND
from ssb.peer.peer import Peer
from ssb.peer.program import PeerEvent
from ssb.store.own_feed import OwnFeed

QUIET: Final = 5 * SECOND
"""Silence after which the recovery ends, ns."""
PATIENCE: Final = 30 * SECOND
"""Time-out of a peer's answer, or of its next message, ns."""
_CLAIMS: Final = 1_000  # peers whose claims are remembered

_T = TypeVar("_T")


class Recovery:
    """Questions about the own feed, and their answers.

    Args:
        own: the feed.
        peer: who asks.
        now: the time, ns.
    """

    def __init__(self, own: OwnFeed, peer: Peer, now: int) -> None:
        self._own = own
        self._peer = peer
        self._news = now
        self._best = 0  # the most that a peer has told to have, to the end
        self._claims: dict[str, tuple[int, int]] = {}  # peer -> the most that it claims, since when
        self._disproved: dict[str, None] = {}  # peers whose claims were not true
        self._mute: dict[str, None] = {}  # peers that cannot answer
        self._was_sure = not own.doubt  # before a peer claimed to have more
        if own.doubt or own.is_damaged:
            peer.ask(own.feed, now)

    def lost(self, now: int) -> None:
        """Ask for messages of the feed that were found damaged."""
        self._peer.ask(self._own.feed, now)

    def heard(self, stream: int, now: int) -> None:
        """Look at what the peer on a stream says it has of the feed, after something has come from it."""
        connection = self._peer.connections.get(stream)
        if connection is None or connection.replication is None:
            return
        remote = connection.remote
        claim = self._peer.replication.sessions[stream].clock.get(self._own.feed, 0)
        if self._own.doubt and remote in self._mute and claim > self._best:
            self._best, self._news = claim, now
        if claim <= self._own.tip or remote in self._disproved:
            return
        if remote not in self._claims or self._claims[remote][0] < claim:
            _remember(self._claims, remote, (claim, now))
        if not self._own.doubt:
            self._own.question(f"{remote} says that it has {claim}")
            self._was_sure, self._best, self._news = True, 0, now
            self._peer.ask(self._own.feed, now)

    def take(self, event: PeerEvent, now: int) -> None:
        """Take in an event of the peer."""
        if event.message is not None and event.message.author == self._own.feed:
            self._own.advance()
            self._news = now
            self._stop_asking()
        answer = event.answer
        if answer is None or answer.feed != self._own.feed:
            return
        self._news = now
        if answer.error:
            _remember(self._mute, answer.remote, None)
        else:
            self._best = max(self._best, answer.last)
            if self._claims.pop(answer.remote, (0, 0))[0] > self._own.tip:
                _remember(self._disproved, answer.remote, None)

    def next_deadline(self) -> int | None:
        """Return when the doubt is settled if nothing happens, ns; None if it cannot be."""
        own = self._own
        claims = [since for claim, since in self._claims.values() if claim > own.tip]
        is_told = self._best or self._was_sure
        if not own.doubt or not is_told or own.known > own.tip:
            return None
        queries = self._peer.services.unanswered(self._peer.connections.values(), own.feed)
        waits = [max(since, self._news) + PATIENCE for since in (*claims, *queries)]
        return max([self._news + QUIET, *waits])

    def wake(self, now: int) -> bool:
        """Settle the doubt if it is time; return whether it was."""
        due = self.next_deadline()
        if due is None or now < due:
            return False
        self.settle()
        return True

    def settle(self) -> None:
        """Have the feed go on after the last message that is here: nobody has a later one."""
        self._own.settle()
        for remote, (claim, _) in self._claims.items():
            if claim > self._own.tip:
                _remember(self._disproved, remote, None)
        self._claims.clear()
        self._best = 0
        self._stop_asking()

    def _stop_asking(self) -> None:
        """Ask nobody any more once nothing is in doubt and nothing is missing."""
        if not self._own.doubt and not self._own.is_damaged:
            self._peer.services.stop_asking(self._own.feed)


def _remember(memory: dict[str, _T], key: str, value: _T) -> None:
    """Add to a memory, and forget the oldest if there is too much in it."""
    memory.pop(key, None)
    memory[key] = value
    if len(memory) > _CLAIMS:
        del memory[next(iter(memory))]
