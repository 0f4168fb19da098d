"""Which LLIs of a relayed feed are passed on up to the source, and when.

They find the loop that aggregation hides. Each downstream's probe is one, and they are many and say the same:
so they take turns. None of them is dropped, for where the probes round a loop came in step, each node would
pass on none. See docs/controlled-push.md, "Loops".
"""

from typing import Final

from forwarder.lli.ranges import MS, Ranges
from forwarder.lli.upstream import NEVER

_REISSUE_INTERVAL: Final = 500 * MS
_REISSUE_WAIT: Final = 2_000 * MS


class Reissues:
    """The reissued LLIs of a feed: those that downstreams have sent and that wait here, and this node's own.

    Attributes:
        is_due: the next LLI sent is one.
    """

    __slots__ = ("_has_heard", "_is_own", "_sent_at", "_waiting", "is_due")

    def __init__(self) -> None:
        self.is_due = False
        self._waiting: dict[int, int] = {}  # face -> nonce, the oldest first
        self._sent_at = -_REISSUE_INTERVAL
        self._is_own = False  # the one sent last was a probe of this node's own
        self._has_heard = False  # one has come since the last probe

    @property
    def deadline(self) -> int:
        """When one that waits goes alone, ns; NEVER if another LLI has to take it along.

        After a downstream's it waits: they take turns. After a probe of this node's own it must not.
        """
        return self._sent_at + _REISSUE_WAIT if self._waiting and self._is_own else NEVER

    def hear(self, face: int, nonce: int) -> None:
        """Let a downstream's wait for its turn."""
        self._waiting[face] = nonce
        self._has_heard = True

    def probe(self, now: int) -> None:
        """Make the next LLI one, a probe of this node's own, unless one of a downstream's has come."""
        if not self._has_heard and now >= self._sent_at + _REISSUE_INTERVAL:
            self._is_sent(now, is_own=True)
        self._has_heard = False

    def has_turn(self, now: int, *, alone: bool) -> bool:
        """Tell whether it is time to pass one on: beside nothing else, if it goes `alone`."""
        if not self._waiting or now < self._sent_at + _REISSUE_INTERVAL:
            return False
        return not alone or now >= self.deadline

    def take(self, downstreams: Ranges, now: int) -> tuple[int, int] | None:
        """Return nonce and face of the one whose turn it is, which the next LLI is; None if none waits.

        Those of faces that are no longer `downstreams` are forgotten.
        """
        while self._waiting:
            face = next(iter(self._waiting))
            nonce = self._waiting.pop(face)
            if face in downstreams:
                self._is_sent(now, is_own=False)
                return nonce, face
        return None

    def forget(self) -> None:
        """Let go of those that wait: there is no way for them."""
        self._waiting.clear()

    def _is_sent(self, now: int, *, is_own: bool) -> None:
        self.is_due, self._sent_at, self._is_own = True, now, is_own
