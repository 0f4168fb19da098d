"""Output of a connection's segments, and the rate limit of challenge ACKs."""

from typing import Final

from base.units import SECOND
from topologies.emulator.tcp.segment import encode, pseudo_header
from topologies.emulator.tcp.settings import Ends

CHALLENGES: Final = 10
CHALLENGE_SPAN: Final = 5 * SECOND
"""Most challenges per span (RFC 5961, section 7): prevents endless answers between two ends."""

Sent = list[tuple[str, str, bytes]]


class Outlet:
    """Output of a connection's segments.

    Args:
        ends: its addresses and ports.
        sent: gets (source address, destination address, segment).
    """

    def __init__(self, ends: Ends, sent: Sent) -> None:
        self._ends = ends
        self._sent = sent
        self._pseudo = pseudo_header(ends.local_ip, ends.remote_ip)
        self._challenges = 0
        self._since = 0  # beginning of the span, ns

    def send(
        self,
        sequence: int,
        acknowledgement: int,
        flags: int,
        window: int = 0,
        option_bytes: bytes = b"",
        payload: bytes = b"",
    ) -> None:
        """Send a segment; its fields are those of segment.encode()."""
        local_ip, local_port, remote_ip, remote_port = self._ends
        octets = encode(
            self._pseudo,
            local_port,
            remote_port,
            sequence,
            acknowledgement,
            flags,
            window,
            option_bytes,
            payload,
        )
        self._sent.append((local_ip, remote_ip, octets))

    def may_challenge(self, now: int) -> bool:
        """Return whether one more challenge ACK may be sent; if so, it counts."""
        if now - self._since >= CHALLENGE_SPAN:
            self._since = now
            self._challenges = 0
        self._challenges += 1
        return self._challenges <= CHALLENGES
