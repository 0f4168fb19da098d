"""A limit of rate and burst: a token bucket."""

from typing import Final

from base.units import SECOND

_LONGEST_DEBT: Final = 10 * SECOND


class TokenBucket:
    """Holds at most `burst` tokens and gains one every `interval`. It begins full.

    Args:
        interval: ns.
        burst: tokens.
        now: ns.
    """

    __slots__ = ("_burst", "_empty_at", "_interval")

    def __init__(self, interval: int, burst: int, now: int) -> None:
        self._interval = interval
        self._burst = burst
        self._empty_at = now - interval * burst  # when it was empty: a token for each interval since

    def take(self, now: int, cost: int = 1) -> bool:
        """Take tokens if there is one, and return whether there was.

        A cost above one may leave a debt; there are no tokens until it is paid.
        """
        self._empty_at = max(self._empty_at, now - self._interval * self._burst)
        if self._empty_at + self._interval > now:
            return False
        self._empty_at += self._interval * cost
        return True

    def charge(self, now: int, cost: int = 1) -> int:
        """Take tokens, if need be on credit, and return the time until the debt is paid, ns; 0 without one.

        A debt grows to 10 s.
        """
        empty_at = max(self._empty_at, now - self._interval * self._burst) + self._interval * cost
        self._empty_at = min(empty_at, now + _LONGEST_DEBT)
        return max(self._empty_at - now, 0)

    def give_back(self, tokens: int = 1) -> None:
        """Return tokens to the bucket."""
        self._empty_at -= self._interval * tokens

    def due(self, count: int) -> int:
        """Return when there are `count` tokens, at most `burst`, ns."""
        return self._empty_at + self._interval * min(count, self._burst)
