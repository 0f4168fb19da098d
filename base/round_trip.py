"""Round-trip times, and the time-outs computed from them (RFC 6298, section 2)."""


class RoundTrip:
    """A smoothed round-trip time; the caller omits ambiguous measurements (Karn, section 3).

    Args:
        initial: the time-out before there is a measurement, ns.
        least, most: bounds of the time-out, ns.
        margin: least excess of the time-out over the smoothed round trip, ns.

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
        """Add a measurement, ns."""
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
