"""Reassembly of fragmented packets (NDNLPv2, "Indexed Fragmentation").

Fragments arrive in any order and from any number of senders. An incomplete packet is dropped when it times
out, or as the oldest when there are too many or they take too much memory.
"""

from collections.abc import Hashable

from forwarder.wire.lp import LpPacket
from forwarder.wire.lp_frame import SEQUENCE_MASK, Frame, close_frame, open_frame
from forwarder.wire.tlv import MalformedPacket

MAX_FRAGMENTS = 400
"""Most fragments that a packet may have; NFD's limit too."""

TIMEOUT_NS = 500_000_000
"""Time for which a packet waits for its fragments on a link without repetition."""
_MAX_PARTIAL = 64
_MAX_BYTES = 1 << 18
_OVERHEAD = 128  # of what is kept for a fragment, bytes


class _Partial:
    __slots__ = ("bytes", "count", "header", "parts", "since")

    def __init__(self, count: int, since: int) -> None:
        self.parts: dict[int, bytes] = {}
        self.count = count
        self.since = since
        self.bytes = 0
        self.header = Frame(b"", b"", b"")  # of the first fragment


class Reassembler:
    """The unfinished packets of one link.

    Attributes:
        failures: packets given up for want of a fragment.
        timeout: how long a packet waits for its fragments, ns.
    """

    def __init__(self) -> None:
        self._partial: dict[tuple[int, Hashable], _Partial] = {}
        self._bytes = 0
        self.failures = 0
        self.timeout = TIMEOUT_NS

    def __len__(self) -> int:
        return len(self._partial)

    def add(self, frame: bytes, packet: LpPacket, sender: Hashable, now: int) -> bytes | None:
        """Add a fragment, as bytes and parsed; return the packet if it is complete.

        Its header fields are those of its first fragment. Raises MalformedPacket.
        """
        count, index = packet.frag_count, packet.frag_index
        if packet.sequence is None or count > MAX_FRAGMENTS:
            raise MalformedPacket("a fragment without Sequence, or one of too many")
        key = ((packet.sequence - index) & SEQUENCE_MASK, sender)
        partial = self._partial.get(key)
        if partial is not None and partial.since + self.timeout <= now:
            self._drop(key)  # of another packet: who starts anew counts anew
            partial = None
        if partial is None:
            self._make_room(now)
            partial = self._partial[key] = _Partial(count, now)
        if partial.count != count:
            raise MalformedPacket("fragments disagree on their number")
        if index in partial.parts:
            return None
        partial.parts[index] = packet.fragment
        if index == 0:
            partial.header = open_frame(frame)
        size = len(frame) + _OVERHEAD
        partial.bytes += size
        self._bytes += size
        if len(partial.parts) < count:
            if self._bytes > _MAX_BYTES:
                self._drop(next(iter(self._partial)))
            return None
        del self._partial[key]
        self._bytes -= partial.bytes
        body = b"".join(partial.parts[index] for index in range(count))
        return close_frame(partial.header._replace(fragment=body))

    def next_deadline(self) -> int | None:
        """Return when the oldest unfinished packet has waited too long, ns."""
        return next(iter(self._partial.values())).since + self.timeout if self._partial else None

    def expire(self, now: int) -> None:
        """Drop packets that have timed out; add() does so too, before it adds a packet."""
        while (deadline := self.next_deadline()) is not None and deadline <= now:
            self._drop(next(iter(self._partial)))

    def _make_room(self, now: int) -> None:
        for key, partial in list(self._partial.items()):
            if partial.since + self.timeout > now and len(self._partial) < _MAX_PARTIAL:
                break
            self._drop(key)

    def _drop(self, key: tuple[int, Hashable]) -> None:
        self._bytes -= self._partial.pop(key).bytes
        self.failures += 1
