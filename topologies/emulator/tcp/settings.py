"""Per-stack settings and per-connection identifiers."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from base.units import SECOND
from topologies.emulator.tcp.segment import HEADER

IPV4_HEADER: Final = 20
LEAST_MTU: Final = 128


@dataclass(frozen=True, slots=True)
class Settings:
    """Parameters of connections.

    mtu: bytes of an IP datagram, the header included. send_buffer, receive_buffer: bytes, of each connection;
    the latter is also the largest window. msl: maximum segment lifetime, ns; TIME-WAIT lasts two. RFC 9293
    has 2 minutes (section 3.4.2), Linux 30 s.

    Raises ValueError for values out of range.
    """

    mtu: int = 1500
    send_buffer: int = 1 << 18
    receive_buffer: int = 1 << 18
    msl: int = 30 * SECOND

    def __post_init__(self) -> None:
        if not LEAST_MTU <= self.mtu <= 0xFFFF:
            raise ValueError(f"an MTU is from {LEAST_MTU} to 65535 bytes, not {self.mtu}")
        if self.send_buffer < 1 or not 1 <= self.receive_buffer <= 1 << 30:
            raise ValueError("a buffer holds at least 1 byte, one to receive at most 1 GiB (RFC 7323)")

    @property
    def mss(self) -> int:
        """The announced MSS, bytes: the MTU without headers, options not subtracted (RFC 9293, 3.7.1)."""
        return self.mtu - IPV4_HEADER - HEADER


class Ends(NamedTuple):
    """The two ends of a connection: IPv4 addresses as text, and ports."""

    local_ip: str
    local_port: int
    remote_ip: str
    remote_port: int
