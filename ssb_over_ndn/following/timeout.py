"""Retransmission time-out (RFC 6298)."""

from forwarder.lli.estimates import Rtt


class Timeout:
    """A retransmission time-out. It doubles with each round of losses, until there is an answer.

    Attributes:
        rtt: the estimate of the round trip.
    """

    def __init__(self) -> None:
        self.rtt = Rtt()
        self._losses = 0
        self._until = 0

    @property
    def length(self) -> int:
        """The present time-out, ns."""
        return self.rtt.timeout(self._losses)

    @property
    def round_trip(self) -> int:
        """The round-trip time, ns; a default before the first measurement."""
        return self.rtt.smoothed or self.rtt.timeout()

    def answered(self, measured: int | None = None) -> None:
        """Process an answer; `measured` is its round-trip time (ns), None for a repeated request (Karn)."""
        self._losses = 0
        if measured is not None:
            self.rtt.sample(measured)

    def missed(self, now: int) -> None:
        """Process a missing answer; several at a time are one loss."""
        if now >= self._until:
            self._losses += 1
            self._until = now + self.rtt.timeout()
