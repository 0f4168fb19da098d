"""The receiving half of a connection: reassembly, the offered window, and delayed acknowledgements.

Sequence numbers are not taken modulo 2^32 here. Sources: RFC 9293, sections 3.8.6.2.2 (silly windows) and
3.8.6.3 (delayed acknowledgements); RFC 5681, section 4.2; RFC 7323, section 2.
"""

from bisect import bisect_left
from typing import Final

from base.units import MS, NEVER
from topologies.emulator.tcp.segment import MOST_SCALE

DELAY: Final = 40 * MS
"""Longest delay of an acknowledgement: Linux's least (TCP_DELACK_MIN); RFC 9293 has 500 ms at most."""
MOST_RUNS: Final = 1_000
"""Most runs of bytes kept beyond a gap; further ones are dropped, and retransmitted."""
_LEAST_FULL: Final = 536
_MOST_FIELD: Final = 0xFFFF


def scale_for(capacity: int) -> int:
    """Return the window scale for offering a window of that many bytes (RFC 7323, section 2.3)."""
    scale = 0
    while capacity >> scale > _MOST_FIELD and scale < MOST_SCALE:
        scale += 1
    return scale


class Receiver:
    """The receiving half.

    Args:
        first: sequence number of the first byte, the one after the peer's SYN.
        capacity: bytes that the buffer holds.
        mss: bytes of a full segment.
        scale: shift of the windows offered; that of the first one, up to 65535 bytes, is not scaled.

    Attributes:
        next: RCV.NXT.
        edge: the first sequence number beyond the window that has been offered.
        fin: the sequence number of the peer's FIN, None if it is not known.
    """

    def __init__(self, first: int, capacity: int, mss: int, scale: int) -> None:
        self.next = first
        self.edge = first + min(capacity, _MOST_FIELD)
        self.fin: int | None = None
        self._capacity = capacity
        self._mss = mss
        self._scale = scale
        self._ready = bytearray()  # in order, up to `next`
        self._runs: list[tuple[int, bytearray]] = []  # beyond a gap: disjoint, in order, not adjacent
        self._full = _LEAST_FULL  # the largest payload received
        self._acknowledged = first
        self._ack_at = NEVER

    @property
    def unread(self) -> int:
        """Bytes that can be read."""
        return len(self._ready)

    @property
    def has_ended(self) -> bool:
        """Whether the peer's FIN and all before it were received."""
        return self.fin is not None and self.next > self.fin

    def is_acceptable(self, start: int, end: int) -> bool:
        """Return whether a segment of these sequence numbers touches the window (RFC 9293, section 3.10.7.4).

        One that begins right at its edge does: its acknowledgement is processed, as with a window of zero.
        """
        return end >= self.next and start <= self.edge

    def accept(self, start: int, payload: bytes, has_fin: bool, is_pushed: bool, now: int) -> bool:
        """Receive the part of a segment that is new and in the window.

        Returns whether an acknowledgement must be sent before further segments are processed: the sender
        counts duplicates.
        """
        length = len(payload)
        if not length and not has_fin:
            return False
        if has_fin and self.fin is None and self.next <= start + length <= self.edge:
            self.fin = start + length
        if length > self._full:
            self._full = min(length, self._mss)
        if start > self.next:
            self._keep(start, payload)
            return True
        end = min(start + length, self.edge if self.fin is None else min(self.edge, self.fin))
        if end > self.next or self.fin == self.next:
            was_in_order = not self._runs
            if end > self.next:
                whole = start == self.next and end == start + length
                self._ready += payload if whole else payload[self.next - start : end - start]
                self.next = end
            self._join()
            if self.fin == self.next:
                self.next += 1
                self._runs.clear()
            elif was_in_order and end == start + length:
                if self.next - self._acknowledged > self._full or (is_pushed and length == self._full):
                    self._ack_at = now
                elif self._ack_at == NEVER:
                    self._ack_at = now + DELAY
                return False
            self._ack_at = now
            return False
        return True

    def _keep(self, start: int, payload: bytes) -> None:
        """Keep bytes after a gap; those received before stay unchanged."""
        end = min(start + len(payload), self.edge if self.fin is None else min(self.edge, self.fin))
        runs = self._runs
        if end <= start or (len(runs) >= MOST_RUNS and start > runs[-1][0] + len(runs[-1][1])):
            return
        first = bisect_left(runs, start, key=_end)  # the first run that ends at `start` or later
        last = first
        while last < len(runs) and runs[last][0] <= end:
            last += 1
        if first == last:
            if len(runs) < MOST_RUNS:
                runs.insert(first, (start, bytearray(payload[: end - start])))
            return
        begin, bytes_kept = runs[first]
        if start < begin:
            bytes_kept[:0] = payload[: begin - start]
            begin = start
        for at, kept in runs[first + 1 : last]:
            known = begin + len(bytes_kept)
            bytes_kept += payload[known - start : at - start]
            bytes_kept += kept
        known = begin + len(bytes_kept)
        if end > known:
            bytes_kept += payload[known - start : end - start]
        runs[first:last] = [(begin, bytes_kept)]

    def _join(self) -> None:
        """Append the runs that are next."""
        runs = self._runs
        gone = 0
        for start, kept in runs:
            if start > self.next:
                break
            self._ready += kept[self.next - start :]
            self.next = max(self.next, start + len(kept))
            gone += 1
        del runs[:gone]

    def read(self, limit: int, now: int) -> bytes:
        """Return up to `limit` bytes in order; schedules an acknowledgement if the window opens enough."""
        data = bytes(self._ready[:limit])
        del self._ready[:limit]
        if self.has_ended:
            return data
        gain = self.next + self._capacity - len(self._ready) - self.edge
        is_shut = self.edge - self.next < self._mss
        if gain >= min(self._capacity // 2, self._mss if is_shut else 2 * self._mss):
            self._ack_at = now
        return data

    def discard(self) -> None:
        """Drop unread bytes."""
        self._ready.clear()
        self._runs.clear()

    # --- acknowledgements ---

    def schedule_ack(self, now: int) -> None:
        """Schedule an acknowledgement."""
        self._ack_at = now

    def ack_at(self) -> int:
        """Return when an acknowledgement is due, ns; NEVER if none is."""
        return self._ack_at

    def window_field(self) -> int:
        """Return the window field of a segment sent now that acknowledges all up to `next`.

        Its edge never moves back, except after SYN; it is rounded up to a unit of the window scale. It
        advances by a full segment or half of the buffer at least (RFC 9293, section 3.8.6.2.2).
        """
        self._acknowledged = self.next
        self._ack_at = NEVER
        room = self.next + self._capacity - len(self._ready)
        if room - self.edge < min(self._capacity // 2, self._mss):
            room = self.edge
        units = room - self.next + (1 << self._scale) - 1 >> self._scale
        field = max(0, min(units, _MOST_FIELD))  # below 0: a FIN beyond the window
        self.edge = max(self.edge, self.next + (field << self._scale))
        return field


def _end(run: tuple[int, bytearray]) -> int:
    return run[0] + len(run[1])
