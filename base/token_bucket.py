"""A limit of rate and burst: a token bucket."""


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

    def give_back(self, tokens: int = 1) -> None:
        """Return tokens to the bucket."""
        self._empty_at -= self._interval * tokens

    def due(self, count: int) -> int:
        """Return when there are `count` tokens, at most `burst`, ns."""
        return self._empty_at + self._interval * min(count, self._burst)
