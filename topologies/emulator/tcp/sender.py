"""The sending half of a connection: buffer, new data, and retransmissions.

Sequence numbers are not taken modulo 2^32 here. The half chooses pieces of data, and the connection makes
segments of them.

Losses are repaired by NewReno (RFC 6582): after three duplicates the first piece is retransmitted, and after
each partial acknowledgement, the next. The timer is restarted by the first of these only (section 3.2,
step 3), so that many losses in one window end in a time-out rather than take a round trip each. Between them
and after a time-out, lost data precede new data, as the window allows.

Small messages: there is no Nagle algorithm. Buffered data are sent when the connection is asked for segments,
as full segments and a last smaller one. Data cut by the peer's window wait until a full segment, all buffered
data or half of the largest window fits (RFC 9293, section 3.8.6.2.1), or until the persist timer.
"""

from typing import Final

from base.units import NEVER, SECOND
from topologies.emulator.tcp.congestion import DUPLICATES, Congestion, initial_window
from topologies.emulator.tcp.flight import Flight, Piece
from topologies.emulator.tcp.timeout import MOST, Timeout

GIVE_UP: Final = 100 * SECOND
"""Time for which a sender retransmits unacknowledged data: the least R2 of RFC 9293, section 3.8.3."""

_WRITABLE_SHARE: Final = 3
"""After a refused write(), WRITABLE follows when this fraction of the buffer is free."""


class Sender:
    """The sending half.

    Args:
        first: sequence number of the first byte, the one after SYN.
        capacity: bytes that the buffer holds.

    Attributes:
        unacknowledged, next: SND.UNA and SND.NXT.
        edge: the first sequence number beyond the peer's window.
        largest: the largest window offered by the peer, bytes.
        timeout: the retransmission time-out.
        fin: the sequence number of FIN, None before the application has closed.
        wants_probe: a window probe is due.
        repeated: number of retransmitted pieces.
    """

    def __init__(self, first: int, capacity: int) -> None:
        self.unacknowledged = self.next = self.edge = first
        self.largest = 0
        self.timeout = Timeout()
        self.fin: int | None = None
        self.wants_probe = False
        self.repeated = 0
        self._buffer = bytearray()  # from `unacknowledged` on
        self._capacity = capacity
        self._flight = Flight()
        self._mss = 0  # 0: not open yet
        self._congestion = Congestion(1, 1)
        self._recover = first - 1  # no new recovery begins before this is acknowledged
        self._recovering = False
        self._partial_acks = 0
        self._duplicates = 0
        self._forced = False  # a retransmission regardless of the window
        self._is_refused = False  # send() has taken less than it was given
        self._is_overriding = False  # small segments may be sent, too
        self._last_sent = 0
        self._repeat_at = NEVER
        self._probe_at = NEVER
        self._probes = 0
        self._silent_since = NEVER  # time of the first time-out without progress since

    def open(self, mss: int, window: int, syn_was_lost: bool, now: int) -> None:
        """Start sending: segments of up to `mss` bytes, into a window (bytes) from the first byte on."""
        self._mss = mss
        self._congestion = Congestion(mss, mss if syn_was_lost else initial_window(mss))
        self.offered(self.unacknowledged + window)
        self._last_sent = now

    @property
    def in_flight(self) -> int:
        """Sequence numbers sent and not acknowledged: FlightSize."""
        return self.next - self.unacknowledged

    def write(self, data: bytes | bytearray | memoryview) -> int:
        """Buffer as much of the data as there is room for; return the number of bytes."""
        room = max(0, self._capacity - len(self._buffer))
        if len(data) > room:
            self._is_refused = True
        self._buffer += data[:room]
        return min(len(data), room)

    def is_writable_again(self) -> bool:
        """Return, once, whether enough of the buffer is free after write() has refused data."""
        if self._is_refused and (self._capacity - len(self._buffer)) * _WRITABLE_SHARE >= self._capacity:
            self._is_refused = False
            return True
        return False

    def finish(self) -> None:
        """Queue FIN behind the buffer."""
        self.fin = self.unacknowledged + len(self._buffer)

    def is_finished(self) -> bool:
        """Return whether FIN is acknowledged."""
        return self.fin is not None and self.unacknowledged > self.fin

    # --- Segments received ---

    def offered(self, edge: int) -> None:
        """Set the edge of the peer's window."""
        self.edge = edge
        self.largest = max(self.largest, edge - self.unacknowledged)
        if edge == self.unacknowledged:
            self._silent_since = NEVER  # the peer is alive, with a closed window
        elif edge > self.next:
            self._probe_at, self._probes = NEVER, 0

    def acknowledged(self, until: int, is_duplicate: bool, now: int) -> None:
        """Process an acknowledgement of all before `until`, which is not beyond `next`.

        is_duplicate: the segment is a duplicate acknowledgement (RFC 5681, section 2) by number, data, flags
        and window.
        """
        if until > self.unacknowledged:
            self._advance(until, now)
        elif is_duplicate and self._flight:
            self._duplicates += 1
            if self._recovering:
                self._congestion.duplicate()
            elif self._duplicates == DUPLICATES and self.unacknowledged > self._recover:
                self._begin_recovery()

    def _advance(self, until: int, now: int) -> None:
        count = until - self.unacknowledged
        pipe = self._flight.pipe
        sent_at = self._flight.acknowledged(until)
        if sent_at is not None:
            self.timeout.measured(now - sent_at)
        del self._buffer[:count]  # FIN is not in it, but last
        self.unacknowledged = until
        self._duplicates = 0
        self._forced = False
        self._silent_since = NEVER
        self._probes = 0
        restart = True
        if not self._recovering:
            self._congestion.acknowledged(count, pipe)
        elif until > self._recover:
            self._recovering = False
            self._congestion.recovered(self.in_flight)
        else:
            self._flight.mark_first_lost()
            self._forced = True
            self._congestion.partial(count)
            self._partial_acks += 1
            restart = self._partial_acks == 1
        if not self._flight:
            self._repeat_at = NEVER
        elif restart:
            self._repeat_at = now + self.timeout.value

    def _begin_recovery(self) -> None:
        self._recovering = True
        self._recover = self.next - 1
        self._partial_acks = 0
        self._flight.mark_first_lost()
        self._forced = True
        self._congestion.lost(self.in_flight)

    # --- Segments to send ---

    def take(self, now: int) -> Piece | None:
        """Return the next piece to send now, None if none is allowed; it counts as sent."""
        lost = self._flight.first_lost()
        if lost is not None:
            if not self._forced and self._flight.pipe + lost.end - lost.start > self._congestion.window:
                return None
            self._flight.repeat(now)
            self.repeated += 1
            piece = lost
        else:
            self._rest(now)
            size = self._size()
            if size == 0:
                self._watch_window(now)
                return None
            if self._flight.pipe and self._flight.pipe + size > self._allowed():
                return None
            piece = self._flight.add(self.next, self.next + size, now)
            self.next += size
            self._is_overriding = False
        self._forced = False
        self._last_sent = now
        self._probe_at = NEVER
        if self._repeat_at == NEVER:
            self._repeat_at = now + self.timeout.value
        return piece

    def content(self, piece: Piece) -> tuple[bytes, bool, bool]:
        """Return a piece's bytes, whether FIN follows them, and whether they end the buffer."""
        base = self.unacknowledged
        has_fin = self.fin is not None and piece.end > self.fin
        end = piece.end - has_fin
        return bytes(self._buffer[piece.start - base : end - base]), has_fin, end - base == len(self._buffer)

    def _allowed(self) -> int:
        """Return the limit of the flight size for new data: the window, and two segments more by limited
        transmit.

        RFC 3042, section 2; not where duplicates cannot begin a recovery.
        """
        if self._recovering or self.unacknowledged <= self._recover:
            return self._congestion.window
        return self._congestion.window + min(self._duplicates, DUPLICATES - 1) * self._mss

    def _waiting(self) -> int:
        """Unsent sequence numbers, FIN included."""
        end = self.unacknowledged + len(self._buffer)
        return end - self.next if self.fin is None else self.fin + 1 - self.next

    def _size(self) -> int:
        """Sequence numbers of the next new piece, 0 if there is none or the peer's window prevents it."""
        waiting = self._waiting()
        if waiting <= 0 or not self._mss:
            return 0
        usable = self.edge - self.next
        payload = waiting if self.fin is None else waiting - 1
        full = waiting if payload <= self._mss else self._mss  # FIN goes with the last byte
        if usable >= full:
            return full
        if usable > 0 and (self._is_overriding or 2 * usable >= self.largest):
            return usable
        return 0

    def _watch_window(self, now: int) -> None:
        """Set the persist timer if only the peer's window prevents sending (RFC 9293, section 3.8.6.1)."""
        if self._probe_at == NEVER and not self._flight and self._mss and self._waiting() > 0:
            self._probe_at = now + min(self.timeout.value << self._probes, MOST)

    def _rest(self, now: int) -> None:
        if not self._flight and now - self._last_sent > self.timeout.value:
            self._congestion.restart_after_idle()

    # --- time ---

    def deadline(self) -> int:
        """Return when to call wake(), ns; NEVER if nothing is pending."""
        return min(self._repeat_at, self._probe_at)

    def wake(self, now: int) -> bool:
        """Process deadlines; return False if the peer has been silent for too long."""
        if now >= self._repeat_at:
            if not self._is_patient(now):
                return False
            self._time_out(now)
        if now >= self._probe_at:
            if not self._is_patient(now):
                return False
            self._probe_at = NEVER
            self._probes = min(self._probes + 1, 16)
            if self.edge > self.next:
                self._is_overriding = True
            else:
                self.wants_probe = True
        return True

    def _is_patient(self, now: int) -> bool:
        if self._silent_since == NEVER:
            self._silent_since = now
        return now - self._silent_since < GIVE_UP

    def _time_out(self, now: int) -> None:
        """Mark all pieces lost, and restart with one segment (RFC 6298, 5; RFC 6582, 3.2)."""
        self._congestion.timed_out(self.in_flight, is_first=now == self._silent_since)
        self._flight.mark_all_lost()
        self._recovering = False
        self._recover = self.next - 1
        self._duplicates = 0
        self._forced = True
        self.timeout.back_off()
        self._repeat_at = now + self.timeout.value
