"""Dead nonce list: Interests that have left the PIT and may come back (NFD developer guide, section 3.5).

A loop longer than an entry's life is not seen in the PIT. Time is cut into generations of half a lifetime,
of which the list holds two: so each nonce is kept for at least half of the lifetime, none for more than
all of it, and a whole generation is forgotten at once.
"""

LIFETIME = 6_000_000_000
"""Longest time that a nonce is remembered, ns; the shortest is half of it."""

_MOST = 1 << 18


class DeadNonces:
    """Hashes of (name, nonce), 64 bit: about one in 2**40 other Interests is taken for a dead one.

    Args:
        most: nonces held at most in each of the two generations; with more, the older one goes early.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._new: set[int] = set()
        self._old: set[int] = set()
        self._turn = 0  # when the present generation ends

    def add(self, name: bytes, nonce: int, now: int) -> None:
        """Remember an Interest at `now` (ns)."""
        if now >= self._turn:
            self._rotate(now)
        if len(self._new) >= self._most:
            self._old, self._new = self._new, set()
        self._new.add(hash((name, nonce)))

    def has(self, name: bytes, nonce: int, now: int) -> bool:
        """Return whether an Interest is on the list at `now` (ns)."""
        if now >= self._turn:
            self._rotate(now)
        known = hash((name, nonce))
        return known in self._new or known in self._old

    def _rotate(self, now: int) -> None:
        half = LIFETIME // 2
        self._old = self._new if now < self._turn + half else set()
        self._new = set()
        self._turn = now - now % half + half

    def __len__(self) -> int:
        return len(self._new) + len(self._old)
