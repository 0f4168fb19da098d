"""A token bucket, which may go into debt, for the packets of a side of a contract."""

from typing import Final

from base.units import SECOND

_LONGEST_DEBT_S: Final = 10.0


class Allowance:
    """A token bucket of packets.

    Args:
        rate: tokens a second.
        burst: its capacity; at least 1 is used.
        now: the time, ns.
    """

    def __init__(self, rate: float, burst: float, now: int) -> None:
        self._rate = rate
        self._burst = max(burst, 1.0)
        self._left = self._burst
        self._filled = now

    def take(self, now: int, *, in_debt: bool = False) -> bool:
        """Take a token, and return whether there was one; `in_debt` allows credit."""
        self._left = min(self._burst, self._left + (now - self._filled) / SECOND * self._rate)
        self._filled = now
        has_one = self._left >= 1
        if has_one or in_debt:
            self._left = max(self._left - 1, -_LONGEST_DEBT_S * self._rate)
        return has_one

    @property
    def debt_s(self) -> float:
        """Seconds until the debt is repaid."""
        return max(-self._left / self._rate, 0.0)
