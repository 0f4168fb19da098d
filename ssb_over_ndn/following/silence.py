"""When to suspect a loss: nothing shows that a feed's last item or announcement was lost."""

from base.units import MS

_FIRST = 1_000 * MS
_LONGEST = 8_000 * MS


class Silence:
    """The longest tolerated silence: at first twice the time between items; doubled during silence.

    Attributes:
        due: its end, ns.
    """

    def __init__(self, now: int) -> None:
        self._last = now
        self._gap: int | None = None  # smoothed time between items
        self._length = _FIRST
        self.due = now + self._length

    def restart(self, now: int, shortest: int) -> None:
        """Restart after an item; the silence is no shorter than `shortest` (ns)."""
        gap = now - self._last
        self._gap = gap if self._gap is None else (7 * self._gap + gap) // 8
        self._last = now
        self._length = min(max(2 * self._gap, shortest), _LONGEST)
        self.due = now + self._length

    def back_off(self, now: int) -> None:
        """Restart after a repetition."""
        self._length = min(2 * self._length, _LONGEST)
        self.due = now + self._length
