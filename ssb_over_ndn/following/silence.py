"""When silence is suspect: nothing shows that the last item was lost, or that one was announced in vain."""

from base.units import MS

_FIRST = 1_000 * MS
_LONGEST = 8_000 * MS


class Silence:
    """Longest tolerated silence: at first twice the time between items; doubled during silence.

    Attributes:
        due: when that is, ns.
    """

    def __init__(self, now: int) -> None:
        self._last = now
        self._gap: int | None = None  # smoothed time between items
        self._length = _FIRST
        self.due = now + self._length

    def broken(self, now: int, shortest: int) -> None:
        """Note that an item has come; a silence is no shorter than `shortest` (ns)."""
        gap = now - self._last
        self._gap = gap if self._gap is None else (7 * self._gap + gap) // 8
        self._last = now
        self._length = min(max(2 * self._gap, shortest), _LONGEST)
        self.due = now + self._length

    def suspected(self, now: int) -> None:
        """Note that something has been done about it."""
        self._length = min(2 * self._length, _LONGEST)
        self.due = now + self._length
