"""Selection of peers to connect with: a bounded number, the useful ones for long, the others in turn.

An unreachable peer is called again after a pause, which doubles with each failure and is drawn at random from
its upper half, so that peers do not call in step. While calls wait because all places are taken, the least
useful connection is closed now and then: that with the lowest rate of new messages. A *kept* peer (named by
the user, or the issuer of an invite) is never closed.
"""

from dataclasses import dataclass
from random import Random
from typing import Final, NamedTuple

from base.endpoint import Address
from base.timers import Timers
from base.units import SECOND

_OWN_PAUSE: Final = 10 * SECOND  # after a fault of this peer itself: a full disk, for example
_LOST: Final = 3  # failures in a row after which an address that has worked may be replaced by hearsay


class SchedulerOptions(NamedTuple):
    """Bounds of a scheduler.

    Attributes:
        places: connections that this peer maintains by its own calls.
        calls: most concurrent calls.
        first_pause, last_pause: after the first failure and at most, ns.
        turn: how long a connection has its place at least, while others wait, ns.
        known: most addresses.
    """

    places: int = 8
    calls: int = 3
    first_pause: int = 2 * SECOND
    last_pause: int = 600 * SECOND
    turn: int = 60 * SECOND
    known: int = 1_000


DEFAULT_OPTIONS: Final = SchedulerOptions()


@dataclass(slots=True)
class _Known:
    """A peer whose address is known."""

    address: Address | None  # where it listens; None if it is reached through rooms only
    is_kept: bool  # it never gives up its place
    due: int  # when it may be called, ns
    failures: int = 0  # in a row: failed calls, and connections that soon ended with a fault
    reason: str = ""  # of the last one; "" if there is a connection
    state: str = "idle"  # or "calling", or "connected"
    since: int = 0  # when it was connected, ns
    useful: int = 0  # new messages on the connection
    has_worked: bool = False  # a call of the address has reached the peer
    # The way (see Streams) of the last call that failed, or of the last connection that ended with a fault or
    # without a message.
    useless: str | None = None

    def rate(self, now: int) -> float:
        """New messages a second on the connection."""
        return self.useful / max(now - self.since, SECOND) * SECOND


class Unreached(NamedTuple):
    """A peer that could not be reached at its address, or was disconnected for a fault.

    Attributes:
        address: where it should listen; None for a peer in a room.
        failures: in a row.
        reason: of the last one.
    """

    address: Address | None
    failures: int
    reason: str


class Scheduler:
    """Selects the peers to call and to disconnect, by their references."""

    def __init__(self, random: Random, options: SchedulerOptions = DEFAULT_OPTIONS) -> None:
        self._random = random
        self._options = options
        self._known: dict[str, _Known] = {}
        self._idle: Timers[str] = Timers()  # when they may be called
        self._turns: Timers[str] = Timers()  # of connections that may be closed
        self._calling = self._connected = 0

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, peer: str) -> bool:
        return peer in self._known

    def address(self, peer: str) -> Address | None:
        """Return the address of a peer, if known."""
        known = self._known.get(peer)
        return known.address if known is not None else None

    def meet(self, peer: str, room: str, now: int, *, is_connected: bool = False) -> None:
        """Add a peer that has come into a room, or that the user has followed since (room is "").

        If its address did not lead to it, it is called through a room at once; after another useless way,
        soon. A room that was useless itself changes nothing: it could say so again and again. One that is
        connected already is called when that connection has ended.
        """
        known = self._known.get(peer)
        if known is None:
            self.add(peer, None, now)
        elif known.state == "idle" and not is_connected and known.useless != room:
            if known.useless:
                pause = int(self._options.first_pause * self._random.uniform(0.5, 1.0))
                known.due = min(known.due, now + pause)
            elif known.address is not None:
                known.due, known.failures, known.useless = now, 1, ""
            self._set_timers(peer)
        known = self._known.get(peer)
        if is_connected and known is not None and known.state == "idle":
            self.on_connected(peer, now)

    def add(
        self,
        peer: str,
        address: Address | None,
        now: int,
        *,
        is_kept: bool = False,
        is_hearsay: bool = False,
    ) -> None:
        """Add the address of a peer; without room for it, the peer with the most failures is removed.

        It is called at once if the address is new or the user has named it. Hearsay is the word of a third
        peer: it replaces no address that has worked, until that has failed some times in a row.
        """
        known = self._known.get(peer)
        if known is not None and is_hearsay and known.has_worked and known.failures < _LOST:
            return
        if known is not None:
            known.is_kept |= is_kept
            known.has_worked &= known.address == address
            if known.state == "idle" and (is_kept or known.address != address):
                known.due, known.failures, known.useless = now, 0, None
            if known.state == "idle" or is_kept:
                known.address = address
            self._set_timers(peer)
            return
        if len(self._known) >= self._options.known:
            idle = [
                name for name, entry in self._known.items() if entry.state == "idle" and not entry.is_kept
            ]
            if not idle:
                return
            self.remove(max(idle, key=lambda name: self._known[name].failures))
        self._known[peer] = _Known(address, is_kept, now)
        self._set_timers(peer)

    def remove(self, peer: str) -> None:
        """Remove a peer: it is not called again."""
        known = self._known.get(peer)
        if known is not None:
            self._set_state(peer, known, "")
            del self._known[peer]

    def on_connected(self, peer: str, now: int) -> None:
        """Record a connection with a peer, called by either side."""
        known = self._known.get(peer)
        if known is not None:
            known.has_worked |= known.state == "calling" and known.address is not None
            known.since, known.useful, known.reason = now, 0, ""
            self._set_state(peer, known, "connected")

    def on_useful(self, peer: str, messages: int) -> None:
        """Record new messages from a peer."""
        known = self._known.get(peer)
        if known is not None:
            known.useful += messages

    def unreached(self) -> dict[str, Unreached]:
        """Return the peers without a connection for a known reason."""
        return {
            peer: Unreached(known.address, known.failures, known.reason)
            for peer, known in self._known.items()
            if known.reason
        }

    def on_failed(self, peer: str, now: int, reason: str = "", way: str = "") -> None:
        """Record a failed call on a way, or a disconnection for a fault: the peer has to wait.

        A connection that was useful, or that has lasted for a turn, resets the count of failures.
        """
        known = self._known.get(peer)
        if known is not None:
            lasted = known.state == "connected" and now >= known.since + self._options.turn
            known.failures = 1 if lasted or known.useful else known.failures + 1
            known.useless = way
            known.reason, known.useful = reason, 0
            pause = min(self._options.first_pause << min(known.failures - 1, 30), self._options.last_pause)
            known.due = now + int(pause * self._random.uniform(0.5, 1.0))
            self._set_state(peer, known, "idle")

    def on_closed(self, peer: str, now: int, reason: str = "", way: str = "") -> None:
        """Record the end of a connection without a fault of the other; the reason is this peer's."""
        known = self._known.get(peer)
        if known is not None:
            pause = _OWN_PAUSE if reason else self._options.first_pause
            known.failures, known.reason = 0, reason
            known.useless = known.useless if known.useful else way
            known.due = now + int(pause * self._random.uniform(0.5, 1.0))
            self._set_state(peer, known, "idle")

    def take_calls(self, now: int) -> list[tuple[str, Address | None, str | None]]:
        """Return the peers to call now, with their addresses and the ways that were useless last.

        They count as being called until on_connected() or on_failed().
        """
        chosen: list[tuple[str, Address | None, str | None]] = []
        if not self._may_call() or not self._is_due(self._idle, now):
            return chosen
        waiting = self._waiting(now)
        self._random.shuffle(waiting)
        waiting.sort(key=lambda peer: (not self._known[peer].is_kept, self._known[peer].failures))
        while waiting and self._may_call():
            peer = waiting.pop(0)
            known = self._known[peer]
            self._set_state(peer, known, "calling")
            chosen.append((peer, known.address, known.useless))
        return chosen

    def next_to_close(self, now: int) -> str | None:
        """Return the peer whose connection is to be closed now, or None."""
        if self._free() > 0 or not self._is_due(self._idle, now) or not self._is_due(self._turns, now):
            return None
        old = [
            peer
            for peer, known in self._known.items()
            if known.state == "connected" and not known.is_kept and now >= known.since + self._options.turn
        ]
        return min(old, key=lambda peer: (self._known[peer].rate(now), peer), default=None)

    def next_deadline(self) -> int | None:
        """Return when take_calls() or next_to_close() may have a new result, ns."""
        idle = self._idle.next_deadline()
        if idle is None:
            return None
        if self._free() > 0:
            return idle if self._may_call() else None
        turn = self._turns.next_deadline()
        return None if turn is None else max(idle, turn)

    def _waiting(self, now: int) -> list[str]:
        return [peer for peer, known in self._known.items() if known.state == "idle" and now >= known.due]

    def _set_state(self, peer: str, known: _Known, state: str) -> None:
        self._calling += (state == "calling") - (known.state == "calling")
        self._connected += (state == "connected") - (known.state == "connected")
        known.state = state
        self._set_timers(peer)

    def _set_timers(self, peer: str) -> None:
        """Set a peer's timers, after any change of its state."""
        known = self._known[peer]
        has_turn = known.state == "connected" and not known.is_kept
        self._idle.set(peer, known.due if known.state == "idle" else None)
        self._turns.set(peer, known.since + self._options.turn if has_turn else None)

    @staticmethod
    def _is_due(timers: Timers[str], now: int) -> bool:
        due = timers.next_deadline()
        return due is not None and due <= now

    def _may_call(self) -> bool:
        return self._free() > 0 and self._calling < self._options.calls

    def _free(self) -> int:
        return self._options.places - self._calling - self._connected
