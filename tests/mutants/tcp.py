"""Deliberate bugs in TCP: what conversations must find, or they prove nothing when they find nothing.

MUTANTS do something wrong; COSTLY ones only cost time or segments. Both are patches of the real code, in
force while mutants.patches.mutated() is.
"""

from base.units import NEVER
from mutants.patches import Patch, returns
from topologies.emulator.tcp import connection, sender, stack
from topologies.emulator.tcp.congestion import Congestion
from topologies.emulator.tcp.connection import Connection
from topologies.emulator.tcp.events import Reason
from topologies.emulator.tcp.flight import Flight
from topologies.emulator.tcp.receiver import Receiver
from topologies.emulator.tcp.segment import decode
from topologies.emulator.tcp.sender import Sender
from topologies.emulator.tcp.timeout import Timeout


def _window_ignored(original):
    return lambda self, edge: original(self, edge + 10_000)


def _fin_unacknowledged(original):
    def accept(self, *arguments):
        at_once = original(self, *arguments)
        if self.has_ended:
            self._ack_at = NEVER
        return at_once and not self.has_ended

    return accept


def _delivered_twice(original):
    def accept(self, start, payload, *rest):
        if start < self.next <= start + len(payload) and self.fin is None:
            self._ready += payload[: self.next - start]
        return original(self, start, payload, *rest)

    return accept


def _gap_skipped(original):
    def accept(self, start, payload, *rest):
        return original(self, self.next if start > self.next else start, payload, *rest)

    return accept


def _unchecked(_):
    def decode_any(octets, pseudo):
        if len(octets) >= 20:
            total = pseudo + len(octets) + (int.from_bytes(octets) << (len(octets) % 2 * 8))
            told = int.from_bytes(octets[16:18])
            octets = octets[:16] + ((told - total) % 0xFFFF).to_bytes(2) + octets[18:]
        return decode(octets, pseudo)

    return decode_any


def _time_wait_for_ever(original):
    def settle(self, now):
        original(self, now)
        self._over_at = NEVER

    return settle


def _everything_answered(original):
    def receive(self, segment, now):
        original(self, segment, now)
        self.receiver.schedule_ack(now)

    return receive


def _any_reset_believed(_):
    def receive_reset(self, start, _now):
        if self.receiver.next <= start <= self.receiver.edge:
            self._fail(Reason.RESET)

    return receive_reset


def _later_bytes_forgotten(original):
    def join(self):
        original(self)
        if self._runs and self.next > self._runs[0][0] - 100:
            self.next = self._runs[0][0]

    return join


def _timer_stopped(_):
    def time_out(self, _now):
        self._repeat_at = NEVER

    return time_out


def _syn_once(original):
    def repeat(self, now):
        original(self, now)
        self._syn_at = NEVER

    return repeat


def _unread_when_read(_):
    def read(self, limit, _now):
        data = bytes(self._ready[:limit])
        del self._ready[:limit]
        return data

    return read


def _all_repeated(_):
    return lambda self: self.mark_all_lost()


def _acknowledged_at_once(original):
    def accept(self, *arguments):
        found = original(self, *arguments)
        if self._ack_at != NEVER:
            self._ack_at = min(self._ack_at, arguments[-1])
        return found

    return accept


def _constant(value):
    return lambda _: value


MUTANTS = {
    "no back-off": (Patch(Timeout, "back_off", returns(None)),),
    "peer's window ignored": (Patch(Sender, "offered", _window_ignored),),
    "FIN not acknowledged": (Patch(Receiver, "accept", _fin_unacknowledged),),
    "bytes delivered twice": (Patch(Receiver, "accept", _delivered_twice),),
    "gap skipped": (Patch(Receiver, "accept", _gap_skipped),),
    "gap joined too far": (Patch(Receiver, "_join", _later_bytes_forgotten),),
    "checksum unchecked": (Patch(stack, "decode", _unchecked),),
    "no persist timer": (Patch(Sender, "_watch_window", returns(None)),),
    "nothing sent again": (Patch(Sender, "_time_out", _timer_stopped),),
    "SYN repeated once": (Patch(Connection, "_repeat_syn_in_time", _syn_once),),
    "TIME-WAIT for ever": (Patch(Connection, "_report_end", _time_wait_for_ever),),
    "acknowledgements acknowledged": (Patch(Connection, "receive", _everything_answered),),
    "numbers end at 2^32": (Patch(connection, "_nearest", lambda _: lambda number, _expected: number),),
    "closed before it is open": (Patch(Connection, "_close", returns(None)),),
    "any reset believed": (Patch(Connection, "_receive_reset", _any_reset_believed),),
}
"""What conversations, or a stranger's segments, find."""

COSTLY = {
    "no fast retransmit": (Patch(Sender, "_begin_recovery", returns(None)),),
    "no slow start": (Patch(sender, "initial_window", _constant(lambda mss: 100 * mss)),),
    "window never halved": (Patch(Congestion, "_halve", returns(None)),),
    "all sent again": (Patch(Flight, "mark_first_lost", _all_repeated),),
    "every segment acknowledged": (Patch(Receiver, "accept", _acknowledged_at_once),),
    "window opened in silence": (Patch(Receiver, "read", _unread_when_read),),
}
"""What only costs."""
