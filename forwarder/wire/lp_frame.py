"""An LpPacket as the two ends of a link see it: opaque header fields and a fragment.

A link service adds its own fields to the core's packet, and removes them at the other end (NDNLPv2, NFD wiki
revision 63). All others pass through unchanged, known or not.
"""

from collections.abc import Iterable
from typing import NamedTuple

from forwarder.wire.lp import (
    ACK,
    CONGESTION_MARK,
    FRAG_COUNT,
    FRAG_INDEX,
    FRAGMENT,
    LP_PACKET,
    SEQUENCE,
    TX_SEQUENCE,
)
from forwarder.wire.tlv import element, elements, nni, read_header

_OF_THE_LINK = {SEQUENCE, FRAG_INDEX, FRAG_COUNT, ACK, TX_SEQUENCE}

ACK_BYTES = 12
"""Size of an Ack field, and of TxSequence."""
FRAGMENT_HEADERS = 34
"""Most that an LpPacket adds to a fragment: its own and the Fragment's header, Sequence, index, count."""
SEQUENCE_MASK = 0xFFFF_FFFF_FFFF_FFFF
"""Sequence and TxSequence have 64 bits, and wrap."""


class Frame(NamedTuple):
    """The content of a frame without its link's own fields.

    Attributes:
        head: header fields that come before Ack, end to end.
        tail: those that come after TxSequence.
        fragment: the network-layer packet, or a fragment of it; empty if there is none.
    """

    head: bytes
    tail: bytes
    fragment: bytes


def open_frame(packet: bytes) -> Frame:
    """Split a packet, bare or an LpPacket; raise MalformedPacket.

    Of an LpPacket, parse_lp() has checked the fields before.
    """
    kind, start, end = read_header(packet, 0, len(packet))
    if kind != LP_PACKET:
        return Frame(b"", b"", packet)
    head: list[bytes] = []
    tail: list[bytes] = []
    at = start
    for kind, value, after in elements(packet, start, end):
        if kind == FRAGMENT:
            return Frame(b"".join(head), b"".join(tail), packet[value:after])
        if kind not in _OF_THE_LINK:
            (head if kind < ACK else tail).append(packet[at:after])
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
        fields.append(element(SEQUENCE, sequence.to_bytes(8, "big")))
    if frag_count > 1:
        fields.append(element(FRAG_INDEX, nni(frag_index)))
        fields.append(element(FRAG_COUNT, nni(frag_count)))
    fields.append(frame.head)
    if mark:
        fields.append(element(CONGESTION_MARK, nni(1)))
    fields += [element(ACK, ack.to_bytes(8, "big")) for ack in acks]
    if tx_sequence is not None:
        fields.append(element(TX_SEQUENCE, tx_sequence.to_bytes(8, "big")))
    fields.append(frame.tail)
    if frame.fragment:
        fields.append(element(FRAGMENT, frame.fragment))
    return element(LP_PACKET, b"".join(fields))
