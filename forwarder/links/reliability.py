"""Retransmission of lost frames (NDNLPv2, "Link Reliability").

Theory of operation. Every frame with a fragment carries a TxSequence, new at each transmission, which the
receiver acknowledges: in frames that go its way anyway, or in an idle packet after some milliseconds. A frame
counts as lost when three later ones have been acknowledged, or after a time-out that follows the round-trip
time (RFC 6298). It is sent again three times at most; then the whole packet that it is part of is given up.
The receiver knows a repeated frame by its Sequence.
"""

from base.round_trip import RoundTrip
from base.units import MS
from forwarder.wire.lp import LpPacket
from forwarder.wire.lp_frame import ACK_BYTES, FRAGMENT_HEADERS, SEQUENCE_MASK, Frame, close_frame

IDLE_ACK_NS = 5 * MS
"""Longest wait of an acknowledgement for a frame that carries it."""
MAX_REPEATS = 3
_LATER_ACKS = 3
_INITIAL_RTO = 1000 * MS
_MIN_RTO = 200 * MS
_MAX_RTO = 4000 * MS
MEMORY_NS = (MAX_REPEATS + 1) * _MAX_RTO
"""Time for which duplicates of a frame are recognised: longer than a sender repeats it."""
_MAX_KNOWN = 1 << 14
_MAX_UNACKED = 1 << 12
_MAX_BYTES = 1 << 22
_MAX_ACKS = 1 << 12
_IDLE_HEADER = 4


class _Packet:
    """A network-layer packet under way."""

    __slots__ = ("is_repeated", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[int, None] = {}  # TxSequences of its frames
        self.is_repeated = False


class _Sent:
    """A frame under way."""

    __slots__ = ("at", "count", "frame", "index", "later_acks", "packet", "repeats", "sequence", "size")

    def __init__(self, frame: Frame, packet: _Packet, sequence: int, index: int, count: int) -> None:
        self.frame = frame
        self.packet = packet
        self.sequence = sequence
        self.index = index
        self.count = count
        self.size = len(frame.head) + len(frame.tail) + len(frame.fragment)
        self.at = 0
        self.repeats = 0
        self.later_acks = 0


class Reliability:
    """Both directions of one link.

    Args:
        payload: largest frame, bytes.
        first: TxSequence of the first frame; random, so that a late acknowledgement from before a restart
            matches no new frame.

    Attributes:
        payload: see above; may be changed.
        acknowledged: packets that came through without a repetition.
        repeated: packets that came through with one.
        lost: packets given up.
        duplicates: frames received again.
    """

    def __init__(self, payload: int, first: int = 0) -> None:
        self.payload = payload
        self._tx_sequence = first
        self._unacked: dict[int, _Sent] = {}  # by TxSequence, in the order of sending
        self._bytes = 0
        self._acks: list[int] = []
        self._ack_at: int | None = None
        self._known: dict[tuple[int | None, int], int] = {}  # until when, in order
        self._frames: list[bytes] = []
        self._rtt = RoundTrip(_INITIAL_RTO, _MIN_RTO, _MAX_RTO)
        self.acknowledged = 0
        self.repeated = 0
        self.lost = 0
        self.duplicates = 0

    def send(self, parts: list[Frame], sequence: int, mark: bool, now: int) -> list[bytes]:
        """Return the frames for the fragments of a packet; the first has that Sequence."""
        packet = _Packet()
        frames = []
        for index, part in enumerate(parts):
            sent = _Sent(part, packet, (sequence + index) & SEQUENCE_MASK, index, len(parts))
            frames.append(self._transmit(sent, mark and index == 0, now))
        while len(self._unacked) > _MAX_UNACKED or self._bytes > _MAX_BYTES:
            self._give_up(next(iter(self._unacked.values())).packet)
        return frames

    def send_unreliably(self, frame: Frame, mark: bool) -> list[bytes]:
        """Return the frame for header fields without a fragment, which is not acknowledged."""
        size = len(frame.head) + len(frame.tail)
        return [close_frame(frame, mark=mark, acks=self._take_acks(size))]

    def _transmit(self, sent: _Sent, mark: bool, now: int) -> bytes:
        tx_sequence = self._tx_sequence
        self._tx_sequence = (tx_sequence + 1) & SEQUENCE_MASK
        sent.at = now
        sent.later_acks = 0
        sent.packet.waiting[tx_sequence] = None
        self._unacked[tx_sequence] = sent
        self._bytes += sent.size
        return close_frame(
            sent.frame,
            sequence=sent.sequence,
            frag_index=sent.index,
            frag_count=sent.count,
            mark=mark,
            acks=self._take_acks(sent.size + FRAGMENT_HEADERS + ACK_BYTES),
            tx_sequence=tx_sequence,
        )

    def _take_acks(self, size: int) -> list[int]:
        """Return acknowledgements for which a frame of `size` bytes has room."""
        if not self._acks:
            return []
        room = max((self.payload - size) // ACK_BYTES, 0)
        acks, self._acks = self._acks[:room], self._acks[room:]
        if not self._acks:
            self._ack_at = None
        return acks

    def receive(self, packet: LpPacket, now: int) -> bool:
        """Receive a frame; return whether it is new."""
        for ack in packet.acks:
            self._on_ack(ack, now)
        if packet.tx_sequence is None or not packet.fragment:
            return True
        if len(self._acks) < _MAX_ACKS:
            self._acks.append(packet.tx_sequence)
            if self._ack_at is None:
                self._ack_at = now + IDLE_ACK_NS
        self._forget(now)
        if packet.sequence is None:
            return True  # a repetition cannot be distinguished from another packet of the same contents
        # With the fragment's hash: a neighbour that restarts reuses Sequences, and must be received.
        key = (packet.sequence, hash(packet.fragment))
        is_new = self._known.pop(key, None) is None
        self._known[key] = now + MEMORY_NS
        self.duplicates += not is_new
        return is_new

    def _forget(self, now: int) -> None:
        known = self._known
        while known:
            key = next(iter(known))
            if known[key] > now and len(known) < _MAX_KNOWN:
                break
            del known[key]

    def _on_ack(self, tx_sequence: int, now: int) -> None:
        sent = self._unacked.get(tx_sequence)
        if sent is None:
            return
        if sent.repeats == 0:
            self._rtt.sample(now - sent.at)
        lost = []
        for earlier, other in self._unacked.items():
            if earlier == tx_sequence:
                break
            other.later_acks += 1
            if other.later_acks >= _LATER_ACKS:
                lost.append(earlier)
        self._remove(tx_sequence)
        if not sent.packet.waiting:
            if sent.packet.is_repeated:
                self.repeated += 1
            else:
                self.acknowledged += 1
        self._repeat(lost, now)

    def _repeat(self, lost: list[int], now: int) -> None:
        """Send frames again, given by their TxSequences, or give their packets up."""
        for tx_sequence in lost:
            sent = self._unacked.get(tx_sequence)
            if sent is None:
                continue  # gone with its packet
            if sent.repeats == MAX_REPEATS:
                self._give_up(sent.packet)
                continue
            self._remove(tx_sequence)
            sent.repeats += 1
            sent.packet.is_repeated = True
            self._frames.append(self._transmit(sent, False, now))

    def _give_up(self, packet: _Packet) -> None:
        for tx_sequence in list(packet.waiting):
            self._remove(tx_sequence)
        self.lost += 1

    def _remove(self, tx_sequence: int) -> None:
        sent = self._unacked.pop(tx_sequence)
        del sent.packet.waiting[tx_sequence]
        self._bytes -= sent.size

    def take_frames(self) -> list[bytes]:
        """Return frames to be sent: repetitions, and idle packets with acknowledgements."""
        frames, self._frames = self._frames, []
        return frames

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        deadline = self._ack_at
        if self._unacked:
            oldest = next(iter(self._unacked.values())).at + self._rtt.timeout()
            if deadline is None or oldest < deadline:
                deadline = oldest
        elif deadline is None and self._known:
            deadline = next(iter(self._known.values()))
        return deadline

    def wake(self, now: int) -> None:
        """Retransmit frames that have timed out, send delayed acknowledgements, expire old state."""
        self._forget(now)
        lost = []
        timeout = self._rtt.timeout()
        for tx_sequence, sent in self._unacked.items():
            if sent.at + timeout > now:
                break
            lost.append(tx_sequence)
        self._repeat(lost, now)
        if self._ack_at is not None and self._ack_at <= now:
            while self._acks:
                acks = self._take_acks(_IDLE_HEADER)
                if not acks:
                    break
                self._frames.append(close_frame(Frame(b"", b"", b""), acks=acks))
            self._ack_at = None
