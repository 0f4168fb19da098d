"""How often something may happen on the long run, and how often at once."""


class Meter:
    """A token bucket: so many tokens at most, and one more every so often. It begins full.

    Args:
        every: ns in which a token comes.
        burst: tokens that it holds at most.
        now: ns.
    """

    def __init__(self, every: int, burst: int, now: int) -> None:
        self._every = every
        self._burst = burst
        self._empty_at = now - every * burst  # when there was none: so there is one for each `every` since

    def take(self, now: int, cost: int = 1) -> bool:
        """Take tokens, if there is one; return whether there was. What is taken beyond, must come first."""
        self._empty_at = max(self._empty_at, now - self._every * self._burst)
        if self._empty_at + self._every > now:
            return False
        self._empty_at += self._every * cost
        return True

    def give_back(self) -> None:
        """Put a token back."""
        self._empty_at -= self._every

    def due(self, count: int) -> int:
        """Return when there are so many tokens, or the most that there can be, ns."""
        return self._empty_at + self._every * min(count, self._burst)
