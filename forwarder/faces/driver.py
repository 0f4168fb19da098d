"""The driver of a Host on an event loop: turns of faces, sending, alarms.

Sockets are read with add_reader and drained in bursts, which costs less than half of what asyncio's
protocols do. Faces that compete share the processor's time, whatever their frames cost (start-time fair
queueing, Goyal, Vin and Cheng 1996): a burst ends with its turn, each face's clock runs by the time that its
bursts have cost, and a face whose clock is ahead of another's that competes lets that one go first.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import Protocol

from base.event_loop import Alarm, steady_clock
from base.units import NEVER
from forwarder.host import Host

TURN = 500_000
"""Longest burst while faces compete, and largest lead of a face's clock, ns."""
_COMPETING = 20_000_000
"""Time for which faces count as competing after two were readable at once, ns."""
BATCH = 16
"""Frames received before outputs are sent, unless the host defers work to the end of a burst."""


class Transport(Protocol):
    """The sockets of one face."""

    def send(self, frames: list[bytes]) -> None:
        """Send frames, or queue or drop them; never raises, never blocks."""
        ...

    def close(self) -> None:
        """Close the sockets; nothing is sent or received from now on."""
        ...


class Driver:
    """Runs a Host: the only place where it reads the clock.

    Args:
        host: whose faces have transports here.
        loop: the event loop.
        clock: the time, ns.

    Attributes:
        host, loop, clock: see above.
        transports: by face; the frames of a face without one are dropped.
        waiting: bytes that wait for neighbours on streams to read.
        drops: frames, connections and neighbours that were turned away, by reason.
        batch: see BATCH.
        turn_ends: deadline of the burst being received, ns.
    """

    def __init__(
        self,
        host: Host,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], int] | None = None,
        *,
        batch: int = BATCH,
    ) -> None:
        self.host = host
        self.loop = loop
        self.clock = clock or steady_clock()
        self.batch = batch
        self.turn_ends = NEVER
        self.transports: dict[int, Transport] = {}
        self.drops: Counter[str] = Counter()
        self.waiting = 0
        self._alarm = Alarm(loop, self.clock, self._wake)
        self._is_scheduled = False
        self._clocks: dict[int, int] = {}  # face -> when its next turn starts by its own clock, ns
        self._round: dict[int, int] = {}  # faces that compete in this round -> their clocks
        self._competing_until = 0
        self._least = 0  # of the round before; where the clock of a face that was idle goes on

    def reader(
        self, face: int, read: Callable[[], None], again: Callable[[], object] | None = None
    ) -> Callable[[], None]:
        """Return a callback that reads a burst of a face by `read` if it is its turn, and else calls `again`.

        The event loop calls each face that has something to read once a round.
        """
        clocks = self._clocks
        clocks[face] = 0

        def turn() -> None:
            if face in self._round:
                self._least = min(self._round.values())
                if len(self._round) > 1:
                    self._competing_until = self.clock() + _COMPETING
                self._round.clear()
            start = max(clocks.get(face, 0), self._least)
            self._round[face] = start
            if start > self._least + TURN:
                if again is not None:
                    again()
                return
            begun = time.thread_time_ns()
            now = self.clock()
            self.turn_ends = now + TURN if now < self._competing_until else NEVER
            read()
            self.turn_ends = NEVER
            self._round[face] = start + time.thread_time_ns() - begun
            if face in clocks:  # it has not gone meanwhile
                clocks[face] = self._round[face]

        return turn

    def detach(self, face: int) -> Transport | None:
        """Remove a face; return its transport."""
        self._clocks.pop(face, None)
        return self.transports.pop(face, None)

    def start(self) -> None:
        """Send outputs and set the alarm: at the start, or after calls to the host from elsewhere."""
        self._alarm.cancel()
        self.host.stir()
        self._wake()

    def schedule(self) -> None:
        """Do so soon, and once for all who ask for it until then."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self.loop.call_soon(self._on_scheduled)

    def _on_scheduled(self) -> None:
        self._is_scheduled = False
        self.start()

    def close(self) -> None:
        """Close all transports."""
        self._alarm.cancel()
        for transport in list(self.transports.values()):
            transport.close()
        self.transports.clear()

    def receive(self, face: int, frames: Iterable[bytes], sender: Hashable = None, ends: int = NEVER) -> int:
        """Receive frames of a face, and send the outputs; return how many frames.

        At least one, and none after `ends`, ns.
        """
        receive, clock, transports = self.host.receive, self.clock, self.transports
        taken = since = 0
        for frame in frames:
            if face not in transports:
                break  # closed on the way
            now = clock()
            if now >= ends and taken:
                break
            receive(face, frame, sender, now)
            taken += 1
            since += 1
            if since >= self.batch and not self.host.is_deferring:
                self.send()
                since = 0
        self.flush()
        return taken

    def flush(self) -> None:
        """Send the host's outputs, and set its alarm."""
        self.send()
        self._alarm.set(self.host.next_deadline())

    def send(self) -> None:
        """Send the host's outputs, each face's frames in one batch."""
        outputs = self.host.take_outputs()
        if not outputs:
            return
        batches: dict[int, list[bytes]] = {}
        for face, frame, _ in outputs:
            batch = batches.get(face)
            if batch is None:
                batches[face] = [frame]
            else:
                batch.append(frame)
        transports = self.transports
        for face, frames in batches.items():
            transport = transports.get(face)
            if transport is not None:
                transport.send(frames)

    def _wake(self) -> None:
        self.host.wake(self.clock())
        self.flush()
