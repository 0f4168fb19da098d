"""One connection: its state machine, and the segments of its two halves.

Sequence numbers grow without bound here: a number on the wire is unwrapped to the one nearest to the expected
number. Sources: RFC 9293, section 3.10 (event processing); RFC 5961 (blind attacks): a reset must carry
exactly the next sequence number, and a SYN or an unacceptable acknowledgement is answered with a *challenge
ACK* of the current state.
"""

from typing import Final

from base.units import NEVER, SECOND
from topologies.emulator.tcp.events import Event, Kind, Reason
from topologies.emulator.tcp.outlet import Outlet, Sent
from topologies.emulator.tcp.receiver import Receiver, scale_for
from topologies.emulator.tcp.segment import (
    ACK,
    DEFAULT_MSS,
    FIN,
    MODULUS_MASK,
    PSH,
    RST,
    SYN,
    Segment,
    options,
)
from topologies.emulator.tcp.sender import Sender
from topologies.emulator.tcp.settings import Ends, Settings
from topologies.emulator.tcp.states import TRANSITIONS, State, Step

LEAST_MSS: Final = 48
"""Least MSS used if a peer announces less: segments that are nearly all header serve attacks only."""
SYN_GIVE_UP: Final = 180 * SECOND
"""Time for which SYN is repeated: R2 of RFC 9293, section 3.8.3, for SYN."""

_SENDS: Final = frozenset(
    (State.ESTABLISHED, State.CLOSE_WAIT, State.FIN_WAIT_1, State.CLOSING, State.LAST_ACK)
)
_FIN_WAITS: Final = frozenset((State.FIN_WAIT_1, State.CLOSING, State.LAST_ACK))
_HANDSHAKE: Final = frozenset((State.SYN_SENT, State.SYN_RECEIVED))
_SILENT: Final = _HANDSHAKE | {State.CLOSED}
"""States without unsolicited plain acknowledgements."""


class Connection:
    """A connection.

    Args:
        number: its identifier for applications.
        ends: its addresses and ports.
        settings: as the stack's.
        first: the initial sequence number.
        sent: list for (source address, destination address, segment).
        events: list for the application's events.

    Attributes:
        state: see State.
        port: the listener's port if it was opened by the other end, else 0.
        deadline: kept by the stack, for its timers.
        sender, receiver: its halves; the latter is meaningless before the peer's SYN.
    """

    def __init__(
        self, number: int, ends: Ends, settings: Settings, first: int, sent: Sent, events: list[Event]
    ) -> None:
        self.number = number
        self.ends = ends
        self.state = State.CLOSED
        self.port = 0
        self.deadline = NEVER
        self.sender = Sender(first + 1, settings.send_buffer)
        self.receiver = Receiver(0, 0, settings.mss, 0)
        self._settings = settings
        self._first = first
        self._peer_first = 0
        self._peer_mss: int | None = None
        self._scale = 0  # of the peer's windows
        self._is_scaled = True  # by both ends, as far as is known
        self._outlet = Outlet(ends, sent)
        self._events = events
        self._has_closed = False  # the application has, before the connection was open
        self._is_readable_reported = False
        self._syn_at = NEVER
        self._syn_since = 0
        self._syn_repeated = False
        self._over_at = NEVER
        self._window_sequence = self._window_ack = 0  # SND.WL1 and SND.WL2

    # --- Calls of the application ---

    def connect(self, now: int) -> None:
        """Send SYN."""
        self._step(Step.CONNECT)
        self._syn_since = now
        self._send_syn(now)

    def accept(self, syn: Segment, port: int, now: int) -> None:
        """Answer a SYN to a listener's port (RFC 9293, section 3.10.7.2)."""
        self._step(Step.LISTEN)
        self.port = port
        self._syn_since = now
        self._process_syn(syn)
        self._step(Step.SYN)
        self._send_syn(now)

    def write(self, data: bytes | bytearray | memoryview) -> int:
        """Buffer data; return the number of bytes taken, 0 after close()."""
        return 0 if self._has_closed else self.sender.write(data)

    def read(self, limit: int, now: int) -> bytes:
        """Return up to `limit` received bytes."""
        self._is_readable_reported = False
        if self.state in _HANDSHAKE:
            return b""
        return self.receiver.read(limit, now)

    def close(self) -> None:
        """Queue FIN behind the buffer; only the first call has an effect."""
        if not self._has_closed:
            self._has_closed = True
            if self.state not in _HANDSHAKE:
                self._close()

    def abort(self) -> None:
        """Abort, and reset the other end (RFC 9293, section 3.10.5)."""
        if self.state not in (State.SYN_SENT, State.TIME_WAIT, State.CLOSED):
            self._emit(self.sender.next, RST | ACK)
        self.receiver.discard()
        self._end()

    # --- segments received ---

    def receive(self, segment: Segment, now: int) -> None:
        """Receive a segment of this connection (RFC 9293, sections 3.10.7.3 and 3.10.7.4)."""
        if self.state is State.SYN_SENT:
            self._receive_in_syn_sent(segment, now)
            return
        receiver = self.receiver
        start = _nearest(segment.sequence, receiver.next)
        end = start + segment.length
        flags = segment.flags
        if flags & RST:
            self._receive_reset(start, now)
            return
        if flags & SYN:
            if self.state is not State.SYN_RECEIVED or start != self._peer_first:
                self._challenge(now)
                return
            if not flags & ACK:
                self._repeat_syn()
                return
            start += 1
        if not receiver.is_acceptable(start, end):
            if end > start:
                self._emit_ack()
            else:
                self._challenge(now)
            return
        if not flags & ACK or not self._receive_ack(segment, start, now):
            return
        if self.state in (State.ESTABLISHED, State.FIN_WAIT_1, State.FIN_WAIT_2):
            self._receive_content(segment.payload, start, bool(flags & FIN), bool(flags & PSH), now)
        elif self.state is State.TIME_WAIT and end > start:
            receiver.schedule_ack(now)  # its FIN again: ours, or its acknowledgement, was lost
            self._over_at = now + 2 * self._settings.msl
        elif end > start and self.state is not State.CLOSED:
            receiver.schedule_ack(now)

    def _receive_in_syn_sent(self, segment: Segment, now: int) -> None:
        flags = segment.flags
        acknowledges = False
        if flags & ACK:
            acknowledges = segment.acknowledgement == self.sender.next & MODULUS_MASK
            if not acknowledges:
                if not flags & RST:
                    self._outlet.send(segment.acknowledgement, 0, RST)
                return
        if flags & RST:
            if acknowledges:
                self._fail(Reason.REFUSED)
            return
        if not flags & SYN:
            return
        self._process_syn(segment)
        if acknowledges:
            self._step(Step.SYN_ACK)
            self._open(segment, now)
            self.receiver.schedule_ack(now)
        else:  # simultaneous open
            self._step(Step.SYN)
            self._send_syn(now)

    def _receive_reset(self, start: int, now: int) -> None:
        """RFC 5961, section 3.2."""
        receiver = self.receiver
        if start != receiver.next:
            if receiver.next < start < receiver.edge:
                self._challenge(now)
        elif self.state is State.TIME_WAIT:
            self._end()
        else:
            is_refused = self.state is State.SYN_RECEIVED and not self.port
            self._fail(Reason.REFUSED if is_refused else Reason.RESET)

    def _receive_ack(self, segment: Segment, start: int, now: int) -> bool:
        """Process the acknowledgement; return whether to process the rest of the segment."""
        sender = self.sender
        until = _nearest(segment.acknowledgement, sender.unacknowledged)
        if self.state is State.SYN_RECEIVED:
            if until != sender.next:
                self._outlet.send(segment.acknowledgement, 0, RST)
                return False
            self._step(Step.SYN_ACKED)
            self._open(segment, now)
            return True
        if not sender.unacknowledged - sender.largest <= until <= sender.next:
            self._challenge(now)  # RFC 5961, section 5.2
            return False
        edge = until + (segment.window << self._scale)
        is_duplicate = (
            until == sender.unacknowledged
            and not segment.payload
            and not segment.flags & FIN
            and edge == sender.edge
        )
        sender.acknowledged(until, is_duplicate, now)
        # An old window does not replace a newer one (RFC 9293, section 3.10.7.4).
        if until >= sender.unacknowledged and (start, until) >= (self._window_sequence, self._window_ack):
            self._window_sequence, self._window_ack = start, until
            sender.offered(edge)
        if self.state in _FIN_WAITS and sender.is_finished():
            self._step(Step.FIN_ACKED)
            self._report_end(now)
        elif sender.is_writable_again() and not self._has_closed:
            self._report(Kind.WRITABLE)
        return True

    def _receive_content(self, payload: bytes, start: int, has_fin: bool, is_pushed: bool, now: int) -> None:
        receiver = self.receiver
        unread = receiver.unread
        if receiver.accept(start, payload, has_fin, is_pushed, now):
            self._emit_ack()
        if receiver.unread > unread and not self._is_readable_reported:
            self._is_readable_reported = True
            self._report(Kind.READABLE)
        if receiver.has_ended:
            self._report(Kind.PEER_CLOSED)
            self._step(Step.FIN)
            self._report_end(now)

    # --- the state machine ---

    def _step(self, step: Step) -> None:
        self.state = TRANSITIONS[self.state][step]

    def _process_syn(self, syn: Segment) -> None:
        """Process a SYN's options and sequence number; data with it are ignored until retransmitted."""
        settings = self._settings
        self._peer_first = syn.sequence
        is_scaled = syn.scale is not None
        scale = scale_for(settings.receive_buffer) if is_scaled else 0
        # Both ends scale, or none does (RFC 7323, section 2.2).
        self._scale = syn.scale or 0
        capacity = settings.receive_buffer if is_scaled else min(settings.receive_buffer, 0xFFFF)
        self.receiver = Receiver(syn.sequence + 1, capacity, settings.mss, scale)
        self._peer_mss = syn.mss
        self._is_scaled = is_scaled

    def _open(self, segment: Segment, now: int) -> None:
        """Establish the connection, both SYNs being acknowledged; execute a pending close."""
        self._syn_at = NEVER
        sender = self.sender
        mss = DEFAULT_MSS if self._peer_mss is None else max(self._peer_mss, LEAST_MSS)
        is_syn = bool(segment.flags & SYN)
        window = segment.window if is_syn else segment.window << self._scale
        if self._syn_repeated:
            sender.timeout.syn_was_lost()
        else:
            sender.timeout.measured(now - self._syn_since)
        sender.open(min(mss, self._settings.mss), window, self._syn_repeated, now)
        self._window_sequence = self.receiver.next
        self._window_ack = sender.unacknowledged
        self._report(Kind.ACCEPTED if self.port else Kind.CONNECTED)
        if self._has_closed:
            self._close()

    def _close(self) -> None:
        self.sender.finish()
        self._step(Step.CLOSE)

    def _report_end(self, now: int) -> None:
        """Report the end if only TIME-WAIT is left."""
        if self.state is State.TIME_WAIT:
            self._over_at = now + 2 * self._settings.msl
            self._report(Kind.CLOSED)
        elif self.state is State.CLOSED:
            self._report(Kind.CLOSED)

    def _fail(self, reason: Reason) -> None:
        is_reported = self.state is not State.SYN_RECEIVED or not self.port
        self.receiver.discard()
        self._end()
        if is_reported:
            self._events.append(Event(Kind.FAILED, self.number, reason))

    def _end(self) -> None:
        if self.state is not State.CLOSED:
            self._step(Step.OVER)

    def _report(self, kind: Kind) -> None:
        port = self.port if kind is Kind.ACCEPTED else 0
        self._events.append(Event(kind, self.number, Reason.NONE, port))

    # --- segments sent ---

    def output(self, now: int) -> None:
        """Send all segments allowed now, and the acknowledgement due by now if none has carried it."""
        sender = self.sender
        if self.state in _SENDS:
            burst = 0
            piece = sender.take(now)
            while piece is not None:
                payload, has_fin, is_last = sender.content(piece)
                flags = ACK | FIN if has_fin else ACK
                start = piece.start
                burst += 1
                piece = sender.take(now)
                # Where the buffer ends (RFC 9293, section 3.9.1.2), and where a burst does: the receiver
                # need not wait for more before it acknowledges. Linux's segmentation has the same effect.
                if payload and (is_last or (piece is None and burst > 1)):
                    flags |= PSH
                self._emit(start, flags, payload)
            if sender.wants_probe:
                # An old byte's number and no byte, as Linux has it: answered, and never beyond the window.
                sender.wants_probe = False
                self._emit(sender.unacknowledged - 1, ACK)
        if self.state not in _SILENT and self.receiver.ack_at() <= now:
            self._emit_ack()

    def _send_syn(self, now: int) -> None:
        self._emit_syn()
        self._syn_at = now + self.sender.timeout.value

    def _repeat_syn(self) -> None:
        self._syn_repeated = True
        self._emit_syn()

    def _emit_syn(self) -> None:
        settings = self._settings
        scale = scale_for(settings.receive_buffer) if self._is_scaled else None
        is_answer = self.state is State.SYN_RECEIVED
        self._outlet.send(
            self._first,
            self.receiver.next if is_answer else 0,
            SYN | ACK if is_answer else SYN,
            min(settings.receive_buffer, 0xFFFF),
            options(settings.mss, scale),
        )

    def _emit_ack(self) -> None:
        self._emit(self.sender.next, ACK)

    def _challenge(self, now: int) -> None:
        """Send a rate-limited challenge ACK (RFC 5961)."""
        if self._outlet.may_challenge(now):
            self._emit_ack()

    def _emit(self, sequence: int, flags: int, payload: bytes = b"") -> None:
        window = self.receiver.window_field()
        self._outlet.send(sequence, self.receiver.next, flags, window, b"", payload)

    # --- time ---

    def due(self) -> int:
        """Return when to call wake(), ns; NEVER if nothing is pending."""
        if self.state is State.CLOSED:
            return NEVER
        if self.state in _HANDSHAKE:
            return self._syn_at
        return min(self.sender.deadline(), self.receiver.ack_at(), self._over_at)

    def wake(self, now: int) -> None:
        """Process deadlines."""
        if self.state is State.CLOSED:
            return
        if self.state in _HANDSHAKE:
            if now >= self._syn_at:
                self._repeat_syn_in_time(now)
        elif now >= self._over_at:
            self._end()
        elif not self.sender.wake(now):
            self._emit(self.sender.next, RST | ACK)
            self._fail(Reason.TIMED_OUT)

    def _repeat_syn_in_time(self, now: int) -> None:
        if now - self._syn_since >= SYN_GIVE_UP:
            self._fail(Reason.TIMED_OUT)
            return
        timeout = self.sender.timeout
        timeout.back_off()
        self._repeat_syn()
        self._syn_at = now + timeout.value


def _nearest(number: int, expected: int) -> int:
    """Return the sequence number that is `number` modulo 2^32 and nearest to the expected one."""
    return expected + ((number - expected + 0x80000000) & MODULUS_MASK) - 0x80000000
