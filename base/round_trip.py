"""Round-trip times, and the time-outs that follow from them (RFC 6298, section 2)."""


class RoundTrip:
    """A smoothed round-trip time; the caller leaves out measurements that are ambiguous (Karn, section 3).

    Args:
        initial: the time-out before there is a measurement, ns.
        least, most: bounds of the time-out, ns.
        margin: what the time-out is above the smoothed round trip at least, ns.

    Attributes:
        smoothed: ns; None before there is a measurement.
    """

    __slots__ = ("_initial", "_least", "_margin", "_most", "_variation", "smoothed")

    def __init__(self, initial: int, least: int, most: int, margin: int = 0) -> None:
        self._initial = initial
        self._least = least
        self._most = most
        self._margin = margin
        self._variation = 0
        self.smoothed: int | None = None

    def sample(self, measured: int) -> None:
        """Take in a measurement, ns."""
        if self.smoothed is None:
            self.smoothed, self._variation = measured, measured // 2
        else:
            self._variation = (3 * self._variation + abs(self.smoothed - measured)) // 4
            self.smoothed = (7 * self.smoothed + measured) // 8

    def timeout(self) -> int:
        """Return how long to wait for an answer, ns."""
        if self.smoothed is None:
            return self._initial
        return min(max(self.smoothed + max(4 * self._variation, self._margin), self._least), self._most)
