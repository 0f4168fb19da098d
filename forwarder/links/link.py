"""The link service of one face, sans-IO: NDNLPv2 between the core's packets and the frames of a link.

Whole packets pass through as they are, in one step. A packet larger than the link takes is cut into
LpPackets with consecutive Sequence numbers, which forwarder.links.reassembly puts together again. If the face
says so, lost frames are sent again (forwarder.links.reliability), and what makes a queue is marked
(forwarder.links.marking).
"""

from collections.abc import Hashable
from itertools import pairwise
from typing import Final

from forwarder.links.marking import Marking
from forwarder.links.reassembly import MAX_FRAGMENTS, TIMEOUT_NS, Reassembler
from forwarder.links.reliability import MEMORY_NS, Reliability
from forwarder.tables.face import Face
from forwarder.wire.lp import LP_PACKET, LpPacket, parse_lp
from forwarder.wire.lp_frame import ACK_BYTES, FRAGMENT_HEADERS, SEQUENCE_MASK, Frame, close_frame, open_frame
from forwarder.wire.tlv import MalformedPacket

UDP_IPV4_HEADERS: Final = 28
MIN_MTU: Final = 256
"""Smallest MTU that a link may have, bytes: every header field fits into one fragment, and leaves room."""
MIN_FRAME: Final = 64
"""Smallest frame that a face may be limited to, bytes (NFD); long header fields do not fit into it."""
_MARK_BYTES: Final = 5
_EVERYTHING: Final = 1 << 62
LP_HEADERS: Final = 512
"""More than NDNLPv2's header fields take, but for a PrefixAnnouncement, bytes."""


class LinkService:
    """One end of a link.

    Args:
        mtu: largest packet that the link takes, bytes; at least MIN_MTU. None if it takes any.
        sequence: where the fragments' Sequence begins; random, or the neighbour of a node that starts anew
            could join fragments from before and after.
        face: the record with the link's settings and counters.
        overhead: bytes that lower layers add to a frame. If 0, `mtu` is at least MIN_FRAME.
        largest: largest Interest or Data packet received, bytes.

    Attributes:
        face: see above.
        oversized: packets not sent because they need more fragments than a receiver accepts, or have header
            fields for which a fragment has no room.
        reassembler: incomplete packets.
        reliability: unacknowledged frames; None if lost frames are not sent again.
    """

    def __init__(
        self,
        mtu: int | None = 1500,
        sequence: int = 0,
        *,
        face: Face | None = None,
        overhead: int = UDP_IPV4_HEADERS,
        largest: int = _EVERYTHING,
    ) -> None:
        least = MIN_MTU if overhead else MIN_FRAME
        if mtu is not None and mtu < least:
            raise ValueError(f"MTU {mtu}: a link takes at least {least} bytes")
        self.face = face or Face(0)
        self.oversized = 0
        self._largest = largest
        self._payload = _EVERYTHING if mtu is None else mtu - overhead
        self._as_is = self._payload
        self.reset(sequence)

    def reset(self, sequence: int) -> None:
        """Forget all that is under way, and begin with another Sequence."""
        self._sequence = sequence & SEQUENCE_MASK
        self.reassembler = Reassembler()
        self.reliability: Reliability | None = None
        self._marking: Marking | None = None
        self.configure()

    def configure(self, mtu: int | None = None) -> None:
        """Follow the face's record, and a new MTU (without overhead) if one is given."""
        if mtu is not None:
            self._payload = mtu
        if self.face.is_reliable and self.reliability is None:
            self.reliability = Reliability(min(self._payload, self._largest), self._sequence)
        elif self.face.is_reliable and self.reliability is not None:
            self.reliability.payload = min(self._payload, self._largest)
        elif not self.face.is_reliable:
            self.reliability = None
        if not self.face.is_marking:
            self._marking = None
        self.reassembler.timeout = TIMEOUT_NS if self.reliability is None else MEMORY_NS
        self._choose_path()

    def _choose_path(self) -> None:
        """Set the size up to which packets leave as they are."""
        is_plain = self.reliability is None and self._marking is None
        self._as_is = self._payload if is_plain else -1

    @property
    def reassembly_failures(self) -> int:
        """Packets given up for want of a fragment."""
        return self.reassembler.failures

    def send(self, packet: bytes, now: int = 0) -> list[bytes]:
        """Return the frames that carry a network-layer packet or LpPacket.

        There are none if the packet is too large to be reassembled. `now` (ns) counts for a link that is
        reliable or marks.
        """
        if len(packet) <= self._as_is:
            return [packet]
        mark = self._marking is not None and self._marking.take(now)
        if len(packet) <= self._payload - _MARK_BYTES and self.reliability is None and not mark:
            return [packet]
        if mark and parse_lp(packet).congestion_mark:
            mark = False
        if self.reliability is not None:
            return self._send_reliably(open_frame(packet), mark, self.reliability, now)
        if not mark and len(packet) <= self._payload:
            return [packet]
        frame = open_frame(packet)
        if not frame.fragment:
            return [packet]  # nothing in it that could be cut; the network below may
        if mark and len(packet) + FRAGMENT_HEADERS + _MARK_BYTES <= self._payload:
            return [close_frame(frame, mark=True)]
        parts = self._cut(frame, len(packet), _MARK_BYTES if mark else 0)
        frames = []
        for index, part in enumerate(parts):
            frames.append(
                close_frame(
                    part,
                    sequence=self._sequence,
                    frag_index=index,
                    frag_count=len(parts),
                    mark=mark and index == 0,
                )
            )
            self._sequence = (self._sequence + 1) & SEQUENCE_MASK
        return frames

    def _cut(self, frame: Frame, size: int, reserved: int) -> list[Frame]:
        """Cut a frame that came as a packet of `size` bytes; `reserved` for fields that will be added.

        All header fields go with the first fragment. Empty if that cannot be.
        """
        body = frame.fragment
        room = self._payload - FRAGMENT_HEADERS - reserved
        first = room - (size - len(body))
        if first <= 0 or -(-(len(body) - first) // room) >= MAX_FRAGMENTS:
            self.oversized += 1
            return []
        cuts = [0, *range(first, len(body), room), len(body)]
        parts = [Frame(b"", b"", body[start:end]) for start, end in pairwise(cuts)]
        parts[0] = Frame(frame.head, frame.tail, parts[0].fragment)
        return parts

    def _send_reliably(self, frame: Frame, mark: bool, reliability: Reliability, now: int) -> list[bytes]:
        size = len(frame.head) + len(frame.tail) + len(frame.fragment)
        if not frame.fragment:
            return reliability.send_unreliably(frame, mark)
        reserved = ACK_BYTES + (_MARK_BYTES if mark else 0)
        if size + FRAGMENT_HEADERS + reserved <= self._payload:
            parts = [frame]
        else:
            parts = self._cut(frame, size, reserved)
        first = self._sequence
        self._sequence = (first + len(parts)) & SEQUENCE_MASK
        return reliability.send(parts, first, mark, now)

    def receive(
        self, frame: bytes, now: int, sender: Hashable = None, header: LpPacket | None = None
    ) -> bytes | None:
        """Receive a frame; return the packet that it completes, None if there is none.

        `sender` identifies neighbours that share a face; `header` is the frame as parse_lp() reads it, if the
        caller has it. Raises MalformedPacket.
        """
        if not frame or frame[0] != LP_PACKET:
            if len(frame) > self._largest:
                raise MalformedPacket(f"a packet of {len(frame)} bytes")
            return frame
        packet = parse_lp(frame) if header is None else header
        if self.reliability is not None and not self.reliability.receive(packet, now):
            return None
        if packet.frag_count == 1:
            if len(packet.fragment) > self._largest:
                raise MalformedPacket(f"a packet of {len(packet.fragment)} bytes")
            is_idle = not packet.fragment and packet.feed is None and packet.hello is None
            return None if is_idle else frame
        if self._payload == _EVERYTHING:
            raise MalformedPacket("a fragment on a link that takes any packet whole")
        whole = self.reassembler.add(frame, packet, sender, now)
        if whole is not None and len(whole) > self._largest + LP_HEADERS:
            raise MalformedPacket(f"a packet of {len(whole)} bytes")
        return whole

    def set_queue(self, size: int, now: int) -> None:
        """Set how many bytes are queued for the link; see forwarder.links.marking."""
        if not self.face.is_marking:
            return
        is_long = size > self.face.marking_threshold
        if is_long == (self._marking is not None):
            return
        self._marking = Marking(self.face.marking_interval, now) if is_long else None
        self._choose_path()

    def take_frames(self) -> list[bytes]:
        """Return the frames that are to be sent though no packet asks for it: acknowledgements, repeats."""
        return [] if self.reliability is None else self.reliability.take_frames()

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns; None if nothing is waited for. Of a link that is reliable."""
        deadline = self.reassembler.next_deadline()
        own = None if self.reliability is None else self.reliability.next_deadline()
        return own if deadline is None or (own is not None and own < deadline) else deadline

    def wake(self, now: int) -> None:
        """Process a deadline; take_frames() returns the results."""
        self.reassembler.expire(now)
        if self.reliability is not None:
            self.reliability.wake(now)
