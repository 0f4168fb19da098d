"""Invariants of one direction of a link: an observer of its frames with its own reassembly.

A retransmitted frame is identified by its Sequence. It is sent no more often than NDNLPv2 reliability repeats
it, and its packet is passed on once. An end acknowledges only received frames. A packet reassembled at the
far end was sent, whole and unmixed. At the end each packet was acknowledged, and then has arrived, or was
given up.

The far end's view is computed by a second link service like its own, fed with the same frames.
"""

from forwarder.links.link import LinkService
from forwarder.links.reliability import MAX_REPEATS
from forwarder.tables.face import Face
from forwarder.wire.lp import LpPacket, parse_lp
from forwarder.wire.lp_frame import SEQUENCE_MASK, close_frame, open_frame
from forwarder.wire.tlv import MalformedPacket
from testbed.verify.kit.outcome import Violation
from testbed.verify.push.world.frames import Frame, read_packet

Packet = tuple[bytes, int | None, bytes | None]
"""Compared fields of a packet: the Interest or Data, the Nack's reason, the PIT token."""


class LinkWatch:
    """Frames from `a` to `b`, on a link with an MTU; optionally reliable."""

    def __init__(self, a: str, b: str, mtu: int, *, is_reliable: bool) -> None:
        self.a = a
        self.b = b
        self.back: LinkWatch
        face = Face(0)
        face.is_reliable = is_reliable
        self._far_end = LinkService(mtu, face=face)
        self._parts: dict[int, dict[int, bytes]] = {}
        self._first: dict[int, bytes] = {}  # the frame with the header fields
        self._times: dict[int, int] = {}  # transmissions of a frame, by Sequence
        self._dates: dict[int, int] = {}  # of a frame's first transmission, by Sequence
        self._all: set[Packet] = set()  # packets sent
        self._come: dict[int, bool] = {}  # packets sent since the near end's start, by first Sequence
        self._delivered: set[int] = set()  # first Sequences of packets passed on since the far end's start
        self._is_reliable = is_reliable
        self._arrived: set[int] = set()  # TxSequences received since the far end's start

    def sender_began(self) -> None:
        """Handle a restart of the near end, which has lost its state."""
        self._parts.clear()
        self._first.clear()
        self._times.clear()
        self._dates.clear()
        self._come.clear()

    def receiver_began(self) -> None:
        """Handle a restart of the far end; partial packets that it had acknowledged are lost unnoticed."""
        self._come = dict.fromkeys(self._come, True)
        self._far_end.reset(0)
        self._arrived.clear()
        self._delivered.clear()

    def read(self, payload: bytes, now: int) -> Frame:
        """Check and parse a sent frame: as the packet, if it is the last frame of one."""
        lp = parse_lp(payload)
        for ack in lp.acks:
            if ack not in self.back._arrived:
                raise Violation("link", self.a, f"acknowledges frame {ack} of {self.b}, which has not come")
        if not lp.fragment and lp.feed is None and lp.hello is None:
            return Frame("ack")
        if lp.sequence is None:
            self._all.add(_packet(lp, lp.fragment))
            return read_packet(payload)
        times = self._times[lp.sequence] = self._times.get(lp.sequence, 0) + 1
        if times > 1:
            if times > 1 + MAX_REPEATS or lp.tx_sequence is None:
                raise Violation("link", self.a, f"sends a frame to {self.b} {times} times")
            return Frame("repeat")
        first = (lp.sequence - lp.frag_index) & SEQUENCE_MASK
        parts = self._parts.setdefault(first, {})
        parts[lp.frag_index] = lp.fragment
        if lp.frag_index == 0:
            self._first[first] = payload
        if len(parts) < lp.frag_count:
            return Frame("fragment")
        del self._parts[first]
        body = b"".join(parts[index] for index in range(lp.frag_count))
        packet = close_frame(open_frame(self._first.pop(first))._replace(fragment=body))
        self._all.add(_packet(parse_lp(packet), body))
        self._come[first] = False
        return read_packet(packet)

    def dated(self, payload: bytes, date: int) -> int:
        """Return the date of a sent frame: `date`, or for a repetition that of the first transmission."""
        sequence = parse_lp(payload).sequence
        return date if sequence is None else self._dates.setdefault(sequence, date)

    def arrived(self, payload: bytes, now: int) -> Frame | None:
        """Process a received frame at the far end; return the packets passed on, checked."""
        lp = parse_lp(payload)
        if lp.tx_sequence is not None:
            self._arrived.add(lp.tx_sequence)
        try:
            packet = self._far_end.receive(payload, now)
        except MalformedPacket as error:
            raise Violation("link", self.b, f"finds a frame of {self.a} malformed: {error}") from error
        if packet is None:
            return None
        whole = parse_lp(packet)
        if _packet(whole, whole.fragment) not in self._all and not (whole.feed or whole.hello):
            raise Violation("link", self.b, f"puts together what {self.a} has not sent")
        if lp.sequence is not None:
            first = (lp.sequence - lp.frag_index) & SEQUENCE_MASK
            if first in self._delivered and self._is_reliable:
                raise Violation("link", self.b, f"passes on a packet of {self.a} twice")
            self._delivered.add(first)
            if first in self._come:
                self._come[first] = True
        return read_packet(packet)

    def check_ended(self, link: LinkService) -> None:
        """Check the near end's accounts, when nothing is in flight any more."""
        reliability = link.reliability
        if reliability is None:
            return
        acknowledged = reliability.acknowledged + reliability.repeated
        come = sum(self._come.values())
        if acknowledged > come:
            what = f"{acknowledged} packets to {self.b} count as acknowledged, {come} have come"
            raise Violation("link", self.a, what)
        if acknowledged + reliability.lost != len(self._come):
            what = f"of {len(self._come)} packets to {self.b} {acknowledged} are acknowledged"
            raise Violation("link", self.a, f"{what}, {reliability.lost} given up")


def _packet(lp: LpPacket, fragment: bytes) -> Packet:
    return fragment, lp.nack_reason, lp.pit_token
