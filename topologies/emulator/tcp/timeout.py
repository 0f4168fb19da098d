"""The retransmission time-out (RFC 6298), in nanoseconds."""

from typing import Final

from base.round_trip import RoundTrip
from base.units import MS, NEVER, SECOND

INITIAL: Final = 1 * SECOND
"""Before there is a measurement (section 2.1)."""
AFTER_LOST_SYN: Final = 3 * SECOND
"""Initial time-out of data after a repeated SYN (section 5.7)."""
LEAST_VARIATION: Final = 200 * MS
"""Least addition to the smoothed round trip. RFC 6298 has a floor of 1 s for the sum (section 2.4), a SHOULD
based on clocks with grains of 500 ms. Linux adds 200 ms at least (TCP_RTO_MIN), which still exceeds any delay
of an acknowledgement. With 1 s a lossy link would be several times as slow as in any system of today, which
would flatter the alternatives to TCP here.
"""
MOST: Final = 60 * SECOND
"""RFC 6298, section 2.5."""


class Timeout:
    """Estimates the time-out from round trips; the caller omits ambiguous ones (Karn, section 3)."""

    def __init__(self) -> None:
        self._rtt = RoundTrip(INITIAL, 0, NEVER, LEAST_VARIATION)
        self._base = INITIAL
        self._doublings = 0

    @property
    def smoothed(self) -> int:
        """The smoothed round-trip time, ns; 0 before the first measurement."""
        return self._rtt.smoothed or 0

    @property
    def value(self) -> int:
        """The current time-out, backed off, ns."""
        return min(self._base << self._doublings, MOST)

    def measured(self, round_trip: int) -> None:
        """Add a measured round trip (ns) of data sent once; ends back-off (sections 2.2, 2.3 and 5.7)."""
        self._rtt.sample(round_trip)
        self._base = self._rtt.timeout()
        self._doublings = 0

    def back_off(self) -> None:
        """Double it, up to MOST (section 5.5)."""
        if self._base << self._doublings < MOST:
            self._doublings += 1

    def syn_was_lost(self) -> None:
        """Restart with 3 s, as there is no measurement (section 5.7)."""
        self._base = AFTER_LOST_SYN
        self._doublings = 0
