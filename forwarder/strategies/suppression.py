"""Retransmission suppression with exponential back-off (NFD developer guide, section 5.1.1).

A repeated Interest, the same consumer's or another's, may go out again once an interval has passed since it
was sent last. Each that goes out lengthens the interval, so that an impatient crowd costs little.
"""

from collections.abc import Mapping

from base.units import MS
from forwarder.tables.pit import PitEntry

PARAMETERS: dict[str, float] = {
    "retx-suppression-initial": 10,
    "retx-suppression-max": 250,
    "retx-suppression-multiplier": 2.0,
}
"""First and longest interval, ms, and how an interval follows from the one before; NFD's defaults."""


class Suppression:
    """The intervals of one strategy.

    Args:
        parameters: values of at least PARAMETERS.

    Attributes:
        initial: the first interval, ns.

    Raises ValueError, with a line for the user, if they do not fit together.
    """

    def __init__(self, parameters: Mapping[str, float]) -> None:
        self.initial, self._max = (
            round(parameters[f"retx-suppression-{name}"] * MS) for name in ("initial", "max")
        )
        self._multiplier = parameters["retx-suppression-multiplier"]
        if self.initial < MS:
            raise ValueError("retx-suppression-initial must be 1 ms at least")
        if self._max < self.initial:
            raise ValueError("retx-suppression-max must not be less than retx-suppression-initial")
        if self._multiplier < 1:
            raise ValueError("retx-suppression-multiplier must be 1 at least")

    def longer(self, interval: int) -> int:
        """Return the interval that follows one of `interval` ns."""
        return min(int(interval * self._multiplier), self._max)

    def allows(self, entry: PitEntry, face: int, intervals: dict[int, int], now: int) -> bool:
        """Return whether a face's interval lets an Interest through; if it is a repetition, lengthen the
        interval.

        `intervals` are the entry's so far, ns, by face.
        """
        record = entry.out_record(face)
        if record is None:
            return True
        interval = intervals.get(face, self.initial)
        if now < record.sent + interval:
            return False
        intervals[face] = self.longer(interval)
        return True
