"""The Scuttlebutt side of a participant."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ssb.keys import Identity
from ssb.message import Message
from ssb.peer.peer import Peer
from ssb.peer.program import PeerProgram
from ssb.store.feeds import FeedStore


@dataclass(kw_only=True)
class ScuttlebuttSide:
    """The peer of a participant, its store and its own feed.

    Attributes:
        identity: the participant's; its transient feeds' keys are derived from it.
        program: the endpoint on the Scuttlebutt side.
        peer, feeds: the peer in it, and its store.
        publish: (content, time, ns) -> a message appended to the identity's feed, and sent.
        may_publish: whether the identity's feed is writable now; until then messages wait.
        epoch_ms: the time at 0 ns, in ms since 1970.
    """

    identity: Identity
    program: PeerProgram
    peer: Peer
    feeds: FeedStore
    publish: Callable[[Mapping[str, Any], int], Message]
    may_publish: Callable[[], bool] = lambda: True
    epoch_ms: float = 0.0

    @property
    def me(self) -> str:
        """The participant's feed."""
        return self.identity.ref

    def ms(self, now: int) -> float:
        """Convert a time of the network (ns) to a message's timestamp, ms since 1970."""
        return self.epoch_ms + now / 1e6

    def ns(self, ms: float) -> int:
        """Return the first time (ns) after a message's timestamp (ms since 1970)."""
        return int((ms - self.epoch_ms) * 1e6) + 1
