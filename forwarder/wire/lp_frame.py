"""An LpPacket as the two ends of a link see it: header fields that they do not look into, and a fragment.

A link service adds its own fields to what the core made, and takes them off again (NDNLPv2, NFD wiki
revision 63). All others pass through as the bytes they are, so that none is lost, known or not.
"""

from collections.abc import Iterable
from typing import NamedTuple

from forwarder.wire.lp import LP_PACKET
from forwarder.wire.tlv import element, elements, nni, read_header

_FRAGMENT = 0x50
_SEQUENCE = 0x51
_FRAG_INDEX = 0x52
_FRAG_COUNT = 0x53
_CONGESTION_MARK = 0x0340
_ACK = 0x0344
_TX_SEQUENCE = 0x0348
_OF_THE_LINK = {_SEQUENCE, _FRAG_INDEX, _FRAG_COUNT, _ACK, _TX_SEQUENCE}

ACK_BYTES = 12
"""Size of an Ack field, and of TxSequence."""


class Frame(NamedTuple):
    """What a frame carries besides its link's own fields.

    Attributes:
        head: header fields that come before Ack, end to end.
        tail: those that come after TxSequence.
        fragment: the network-layer packet, or a fragment of it; empty if there is none.
    """

    head: bytes
    tail: bytes
    fragment: bytes


def open_frame(packet: bytes) -> Frame:
    """Take a packet apart, bare or an LpPacket; raise MalformedPacket.

    Of an LpPacket, parse_lp() has checked the fields before.
    """
    kind, start, end = read_header(packet, 0, len(packet))
    if kind != LP_PACKET:
        return Frame(b"", b"", packet)
    head: list[bytes] = []
    tail: list[bytes] = []
    at = start
    for kind, value, after in elements(packet, start, end):
        if kind == _FRAGMENT:
            return Frame(b"".join(head), b"".join(tail), packet[value:after])
        if kind not in _OF_THE_LINK:
            (head if kind < _ACK else tail).append(packet[at:after])
        at = after
    return Frame(b"".join(head), b"".join(tail), b"")


def close_frame(
    frame: Frame,
    *,
    sequence: int | None = None,
    frag_index: int = 0,
    frag_count: int = 1,
    mark: bool = False,
    acks: Iterable[int] = (),
    tx_sequence: int | None = None,
) -> bytes:
    """Build an LpPacket from a frame and its link's fields; `mark` adds a CongestionMark."""
    fields = []
    if sequence is not None:
        fields.append(element(_SEQUENCE, sequence.to_bytes(8, "big")))
    if frag_count > 1:
        fields.append(element(_FRAG_INDEX, nni(frag_index)))
        fields.append(element(_FRAG_COUNT, nni(frag_count)))
    fields.append(frame.head)
    if mark:
        fields.append(element(_CONGESTION_MARK, nni(1)))
    fields += [element(_ACK, ack.to_bytes(8, "big")) for ack in acks]
    if tx_sequence is not None:
        fields.append(element(_TX_SEQUENCE, tx_sequence.to_bytes(8, "big")))
    fields.append(frame.tail)
    if frame.fragment:
        fields.append(element(_FRAGMENT, frame.fragment))
    return element(LP_PACKET, b"".join(fields))
