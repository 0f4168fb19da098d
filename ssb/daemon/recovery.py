"""Recovery of the own feed from peers, and of its end.

While the own feed is in doubt (`ssb.store.own_feed`), every peer is queried for it by `createHistoryStream`.
Nearly all peers answer that, also those that send nobody's own feed back by EBT. The messages are signed by
the user, so nobody can forge them. The doubt is settled when a peer with the feed has sent all that it has,
all that peers claim to have is here, and nothing more has arrived for a moment, in which others may answer.
A peer that claims more by EBT than is here raises the doubt: the identity is in use elsewhere, or the whole
disk was rolled back. If it does not deliver in time, or the user declares that nobody has more, its claim is
ignored from then on: no stranger can keep a user from writing by a number alone. The claim of a peer that
cannot answer is trusted.

Damaged messages of the feed raise no doubt, as the feed's end is known. Peers are queried for them in the
same way.
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
    """Queries for the own feed, and their answers.

    Args:
        own: the feed.
        peer: sends the queries.
        now: the time, ns.
    """

    def __init__(self, own: OwnFeed, peer: Peer, now: int) -> None:
        self._own = own
        self._peer = peer
        self._news = now
        self._best = 0  # highest number that a peer has sent completely
        self._claims: dict[str, tuple[int, int]] = {}  # peer -> highest claim, and its time
        self._disproved: dict[str, None] = {}  # peers with false claims
        self._mute: dict[str, None] = {}  # peers that cannot answer
        self._was_sure = not own.doubt  # before a peer claimed more
        if own.doubt or own.is_damaged:
            peer.query(own.feed, now)

    def on_lost(self, now: int) -> None:
        """Query for messages of the feed that were found damaged."""
        self._peer.query(self._own.feed, now)

    def check_claim(self, stream: int, now: int) -> None:
        """Check a peer's claim about the feed after input from its stream."""
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
            self._peer.query(self._own.feed, now)

    def on_event(self, event: PeerEvent, now: int) -> None:
        """Process an event of the peer."""
        if event.message is not None and event.message.author == self._own.feed:
            self._own.advance()
            self._news = now
            self._stop_querying()
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
        """Return when the doubt is settled without further events, ns; None if it cannot be."""
        own = self._own
        claims = [since for claim, since in self._claims.values() if claim > own.tip]
        is_told = self._best or self._was_sure
        if not own.doubt or not is_told or own.known > own.tip:
            return None
        queries = self._peer.services.unanswered(self._peer.connections.values(), own.feed)
        waits = [max(since, self._news) + PATIENCE for since in (*claims, *queries)]
        return max([self._news + QUIET, *waits])

    def wake(self, now: int) -> bool:
        """Settle the doubt if it is due; return whether it was."""
        due = self.next_deadline()
        if due is None or now < due:
            return False
        self.settle()
        return True

    def on_fork(self) -> None:
        """Settle a doubt that a peer's claim has raised: the feed is forked, and its branches are merged.

        A number of another branch says nothing of this one.
        """
        if self._own.doubt and self._was_sure:
            self.settle()

    def settle(self) -> None:
        """Continue the feed after the last message held here: nobody has a later one."""
        self._own.settle()
        for remote, (claim, _) in self._claims.items():
            if claim > self._own.tip:
                _remember(self._disproved, remote, None)
        self._claims.clear()
        self._best = 0
        self._stop_querying()

    def _stop_querying(self) -> None:
        """Stop the queries when nothing is in doubt or missing."""
        if not self._own.doubt and not self._own.is_damaged:
            self._peer.services.stop_querying(self._own.feed)


def _remember(memory: dict[str, _T], key: str, value: _T) -> None:
    """Add to a memory, and forget the oldest entry beyond its limit."""
    memory.pop(key, None)
    memory[key] = value
    if len(memory) > _CLAIMS:
        del memory[next(iter(memory))]
