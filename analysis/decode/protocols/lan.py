"""Announcements of Scuttlebutt peers in a local network (npm's ssb-lan): each datagram is an address."""

from analysis.decode.protocols.protocol import Datagram, Declaration, Layer
from ssb.peer.options import PORT
from ssb.transport.address import InvalidAddress, parse_address

ANNOUNCEMENT = "announcement"
_TITLE = "announcements of peers"


def _read(payload: bytes) -> Datagram:
    try:
        parse_address(payload.decode())
    except (InvalidAddress, UnicodeDecodeError):
        return Datagram("malformed", "no address of a Scuttlebutt peer")
    return Datagram(ANNOUNCEMENT)


DECLARATION = Declaration(
    "lan",
    udp_ports=frozenset((PORT,)),
    kinds={ANNOUNCEMENT: _TITLE},
    layers=(Layer(ANNOUNCEMENT, _TITLE),),
    control=frozenset((ANNOUNCEMENT,)),
    datagram=_read,
)
