"""NDNLPv2 fragmentation and reassembly on one link, sans-IO.

Whole packets pass through as they are. A packet larger than the link takes is cut into LpPackets with
consecutive Sequence numbers; the receiver puts them together again whatever their order, and gives up
on an unfinished packet when it is the oldest of too many or has waited too long.
"""

from typing import Final

from forwarder.wire.lp import LP_PACKET, LpPacket, make_lp, parse_lp
from forwarder.wire.tlv import MalformedPacket

UDP_IPV4_HEADERS: Final = 28
MIN_MTU: Final = 256
"""Smallest MTU that a link may have, bytes: every header field fits into one fragment, and leaves room."""
_FRAGMENT_HEADERS: Final = 34
"""Most that an LpPacket adds to a fragment: its own and the Fragment's header, Sequence, index, count."""

_REASSEMBLY_NS: Final = 500_000_000
_MAX_PARTIAL: Final = 64
_MAX_FRAGMENTS: Final = 64
_SEQUENCE_MASK: Final = 0xFFFF_FFFF_FFFF_FFFF


class _Partial:
    __slots__ = ("missing", "parts", "since")

    def __init__(self, count: int, since: int) -> None:
        self.parts: list[LpPacket | None] = [None] * count
        self.missing = count
        self.since = since


class LinkService:
    """One end of a link.

    Args:
        mtu: largest IPv4 packet that the link takes, bytes; at least MIN_MTU.
        sequence: where the fragments' Sequence begins; random, or the neighbour of a node that starts anew
            could join fragments from before and after.

    Attributes:
        oversized: packets not sent because they need more fragments than a receiver accepts.
        reassembly_failures: packets given up for want of a fragment.
    """

    __slots__ = ("_partial", "_payload", "_sequence", "mtu", "oversized", "reassembly_failures")

    def __init__(self, mtu: int = 1500, sequence: int = 0) -> None:
        if mtu < MIN_MTU:
            raise ValueError(f"MTU {mtu}: a link takes at least {MIN_MTU} bytes")
        self.mtu = mtu
        self._payload = mtu - UDP_IPV4_HEADERS
        self._sequence = sequence & _SEQUENCE_MASK
        self._partial: dict[int, _Partial] = {}
        self.oversized = 0
        self.reassembly_failures = 0

    def send(self, packet: bytes) -> list[bytes]:
        """Return the frames (UDP payloads) that carry a network-layer packet or LpPacket.

        There are none if the packet is too large to be reassembled.
        """
        if len(packet) <= self._payload:
            return [packet]
        whole = parse_lp(packet)
        if not whole.fragment:
            return [packet]  # nothing in it that could be cut; the network below may
        room = self._payload - _FRAGMENT_HEADERS
        first = room - (len(packet) - len(whole.fragment))  # header fields go with the first fragment
        body = whole.fragment
        cuts = [0, *range(first, len(body), room), len(body)]
        count = len(cuts) - 1
        if count > _MAX_FRAGMENTS:
            self.oversized += 1
            return []
        frames = []
        for index in range(count):
            head = whole if index == 0 else LpPacket()
            frames.append(
                make_lp(
                    body[cuts[index] : cuts[index + 1]],
                    sequence=self._sequence,
                    frag_index=index,
                    frag_count=count,
                    nack_reason=head.nack_reason,
                    pit_token=head.pit_token,
                    congestion_mark=head.congestion_mark,
                    tip=head.tip,
                    limit=head.limit,
                )
            )
            self._sequence = (self._sequence + 1) & _SEQUENCE_MASK
        return frames

    def receive(self, frame: bytes, now: int) -> bytes | None:
        """Take in a frame; return the packet that is whole now, None if it waits for more.

        Raises MalformedPacket.
        """
        if not frame or frame[0] != LP_PACKET:
            return frame
        packet = parse_lp(frame)
        if packet.frag_count == 1:
            return frame
        if packet.sequence is None or packet.frag_count > _MAX_FRAGMENTS:
            raise MalformedPacket("a fragment without Sequence, or one of too many")
        key = (packet.sequence - packet.frag_index) & _SEQUENCE_MASK
        partial = self._partial.get(key)
        if partial is not None and partial.since + _REASSEMBLY_NS <= now:
            del self._partial[key]  # of another packet: who starts anew counts anew
            self.reassembly_failures += 1
            partial = None
        if partial is None:
            self._make_room(now)
            partial = self._partial[key] = _Partial(packet.frag_count, now)
        if len(partial.parts) != packet.frag_count:
            raise MalformedPacket("fragments disagree on their number")
        if partial.parts[packet.frag_index] is not None:
            return None
        partial.parts[packet.frag_index] = packet
        partial.missing -= 1
        if partial.missing:
            return None
        del self._partial[key]
        parts = [part for part in partial.parts if part is not None]
        head = parts[0]
        return make_lp(
            b"".join(part.fragment for part in parts),
            nack_reason=head.nack_reason,
            pit_token=head.pit_token,
            congestion_mark=head.congestion_mark,
            tip=head.tip,
            limit=head.limit,
        )

    def _make_room(self, now: int) -> None:
        """Give up what has waited too long, and the oldest if there are too many."""
        for key, partial in list(self._partial.items()):
            if partial.since + _REASSEMBLY_NS > now and len(self._partial) < _MAX_PARTIAL:
                break
            del self._partial[key]
            self.reassembly_failures += 1
