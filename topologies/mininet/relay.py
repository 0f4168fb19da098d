"""The relay: a process that moves frames between the links' ends and impairs them on the way.

    python -m topologies.mininet.relay SPEC.json

It replaces netem on kernels without it. Every link ends in two interfaces of the relay's network
namespace, each the peer of a node's own. A frame received at one is sent at the other, at the time given by
the pipe of its direction, unless it is lost.

Theory of operation. Frames from all interfaces are in one receive ring; frames in flight are in one heap by
time of arrival. The relay sleeps until a frame is received or the first of the heap is due. A frame's time in
the pipe starts with the kernel's timestamp, not when the relay reads it, so the relay's own wake-up latency
does not add to the link's delay. The sleep is a select(), whose timeouts have a grain of 1 us; those of
poll() and epoll have one of 1 ms.

SPEC.json: {"seed": int, "dilation": int, and the fields of topologies.model.Topology}. All times are those of
a clock slowed down by the dilation (captures.network.clock). Interfaces have the same names in the relay's
namespace as on the nodes. A frame of a member of a medium is sent to all others, or, if it has the MAC
address of one of them, only there. In a radio cell it goes on air first (topologies.radio).

The relay prints `ready` when it moves frames. A line `LINK down` on its standard input breaks a link, given
by its index: frames in flight there are lost, and so are all received until `LINK up`. A line `LINK set
{...}` sets a link's parameters, all of topologies.link, for later frames. `INTERFACE leave` removes a member
from a medium, and `INTERFACE join` returns it; an interface is given by its index in
topologies.model.Topology.interfaces. The relay ends on SIGTERM or when its standard input ends, and prints
one line of JSON:

    {"realtime": bool,            whether it ran at real-time priority
     "late_mean_us": float,       lateness of frames sent, on the run's clock
     "late_max_us": float,
     "under_way": int,            frames in the heap when it ended
     "unread": int,               frames dropped by a full receive ring
     "pipes": [{"interface": str, the interface that received the frames
                "to": str,        the interface that sent them
                "sent": int, "lost": int, "queue_drops": int,   counters of topologies.pipe.Pipe
                "unsent": int,    frames refused by the kernel
                "cut": int},      frames dropped by a broken link
               ...],              in the order of topologies.model.Topology.hops
     "cells": {medium: {member: {...}}}  counters of topologies.radio.Cell
"""

import ctypes
import gc
import heapq
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from topologies.link import LinkParameters
from topologies.mininet.ring import Ring
from topologies.model import Hop, Link, Medium, Topology
from topologies.pipe import Pipe, pipe_rng
from topologies.radio import Cell, Radio, air_payload

_PR_SET_TIMERSLACK = 29

_RING_MEMORY = 16 << 20

_BATCH = 64
"""Most frames read from the ring before due frames are sent."""


class _Way:
    """One direction of a link, or a member of a medium to another: through `pipe`, then out at `hop.into`."""

    def __init__(self, hop: Hop, pipe: Pipe) -> None:
        self.hop = hop
        self.out = (hop.into.name, 0)
        self.pipe = pipe
        self.unsent = 0
        self.cut = 0
        self.is_up = True
        self.since = 0  # time of its last change
        self.breaks = 0

    def set(self, up: bool, now: int) -> None:
        """Break or restore the link."""
        self.is_up = up
        self.since = now
        self.breaks += not up

    def counters(self) -> dict[str, int | str]:
        return {
            "interface": self.hop.out.name,
            "to": self.hop.into.name,
            "sent": self.pipe.sent,
            "lost": self.pipe.lost,
            "queue_drops": self.pipe.queue_drops,
            "unsent": self.unsent,
            "cut": self.cut,
        }


class Relay:
    """The pipes of all links and media, and the frames in flight; time is monotonic, of the run."""

    def __init__(self, topology: Topology, seed: int, dilation: int) -> None:
        """Prepare the relay for a topology. Raises OSError."""
        self._dilation = dilation
        self._heap: list[tuple[int, int, int, _Way, bytes]] = []
        self._frames = 0
        self._left = 0
        self._late_ns = 0
        self._late_max_ns = 0
        self._partial = b""
        self._all: list[_Way] = []
        self._ways: dict[int, list[_Way]] = {}  # by the index of the receiving interface
        self._names = [interface.name for interface in topology.interfaces]
        self._absent: set[str] = set()  # interfaces of members that have left their media
        self._cells: dict[str, Cell[tuple[int, bytes]]] = {
            medium.name: Cell.of(medium, seed) for medium in topology.media if medium.radio is not None
        }
        self._airs: dict[int, tuple[Cell[tuple[int, bytes]], str]] = {}  # likewise, with the sender's name
        for hop in topology.hops:
            carrier = topology.carrier(hop.out)
            rng = pipe_rng(seed, carrier, hop.out.node, hop.into.node)
            way = _Way(hop, Pipe(carrier.towards(hop.into.node), rng))
            self._all.append(way)
            index = socket.if_nametoindex(hop.out.name)
            self._ways.setdefault(index, []).append(way)
            if str(carrier) in self._cells:
                self._airs[index] = self._cells[str(carrier)], hop.out.node
        self._ring = Ring(_RING_MEMORY)

    def run(self, commands: int, stop: int) -> None:
        """Relay frames, and execute commands from the file descriptor `commands`, until that ends or `stop`
        is readable.
        """
        incoming = self._ring.socket.fileno()
        while True:
            due = [self._heap[0][0]] if self._heap else []
            due += [at for cell in self._cells.values() if (at := cell.next_deadline()) is not None]
            timeout = max(0, min(due) * self._dilation - time.monotonic_ns()) / 1e9 if due else None
            ready, _, _ = select.select([incoming, commands, stop], [], [], timeout)
            if stop in ready:
                return
            if commands in ready:
                data = os.read(commands, 4096)
                if not data:
                    return
                self._execute(data)
            if incoming in ready:
                self._receive()
            for cell in self._cells.values():
                self._receive_from_air(cell)
            self._release()

    def _now(self) -> int:
        return time.monotonic_ns() // self._dilation

    def _execute(self, data: bytes) -> None:
        *lines, self._partial = (self._partial + data).split(b"\n")
        for line in lines:
            link, word, *parameters = line.split(maxsplit=2)
            if word in (b"join", b"leave"):
                self._set_present(self._names[int(link)], word == b"join")
                continue
            ways = self._all[2 * int(link) : 2 * int(link) + 2]
            if parameters:
                to = LinkParameters(**json.loads(parameters[0]))
            for way in ways:
                if parameters:
                    way.pipe.change(to)
                else:
                    way.set(word == b"up", self._now())

    def _set_present(self, name: str, present: bool) -> None:
        """Set whether the member at an interface is present on its medium."""
        (self._absent.discard if present else self._absent.add)(name)
        for way in self._all:
            ends = {way.hop.out.name, way.hop.into.name}
            if name in ends:
                way.set(not ends & self._absent, self._now())
        cell, node = self._airs.get(socket.if_nametoindex(name), (None, ""))
        if cell is not None:
            cell.set_present(node, present)

    def _receive(self) -> None:
        """Pass received frames to their pipes."""
        ways = self._ways
        clock_offset = time.monotonic_ns() - time.time_ns()
        for stamp, interface, frame in self._ring.take(_BATCH):
            now = (stamp + clock_offset) // self._dilation
            found = ways.get(interface, ())
            if interface in self._airs:
                cell, sender = self._airs[interface]
                cell.send(sender, air_payload(frame), (interface, frame), now)
                continue
            for way in found:
                if not way.is_up or now < way.since:
                    way.cut += 1
                    continue
                self._pass(way, now, frame, is_shared=len(found) > 1)

    def _receive_from_air(self, cell: Cell[tuple[int, bytes]]) -> None:
        """Send frames that have been on air through the receivers' pipes."""
        for reception in cell.wake(self._now()):
            interface, frame = reception.frame
            for way in self._ways[interface]:
                if way.hop.into.node == reception.receiver and way.is_up:
                    self._pass(way, reception.time, frame, is_shared=True)

    def _pass(self, way: _Way, now: int, frame: bytes, *, is_shared: bool) -> None:
        """Send a frame through a pipe; on a shared medium, receivers drop those for other addresses."""
        arrivals = way.pipe.send(now, frame)
        is_for_group = frame[0] & 1
        if is_shared and not is_for_group and not frame.startswith(way.hop.into.mac):
            return
        for arrival, arrived in arrivals:
            self._frames += 1
            heapq.heappush(self._heap, (arrival, self._frames, way.breaks, way, arrived))

    def _release(self) -> None:
        """Send the frames that are due."""
        heap = self._heap
        clock = self._now
        send = self._ring.socket.sendto
        while heap:
            late = clock() - heap[0][0]
            if late < 0:
                return
            _, _, breaks, way, frame = heapq.heappop(heap)
            if breaks != way.breaks:
                way.cut += 1
                continue
            try:
                send(frame, way.out)
            except OSError:
                way.unsent += 1
            self._left += 1
            self._late_ns += late
            self._late_max_ns = max(self._late_max_ns, late)

    def counters(self) -> dict[str, Any]:
        """Return the counters in the module's docstring, without "realtime". To be called once."""
        return {
            "late_mean_us": self._late_ns / self._left / 1e3 if self._left else 0.0,
            "late_max_us": self._late_max_ns / 1e3,
            "under_way": len(self._heap),
            "unread": self._ring.overflow(),
            "pipes": [way.counters() for way in self._all],
            "cells": {name: cell.counters() for name, cell in self._cells.items()},
        }


def _reduce_latency() -> bool:
    """Reduce the process's wake-up latency; return whether it has real-time priority."""
    gc.disable()
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, ctypes.c_ulong(1))
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError:
        return False
    return True


def _terminated() -> int:
    """A file descriptor that becomes readable on SIGTERM."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.signal(signal.SIGTERM, lambda _signal, _frame: None)
    signal.set_wakeup_fd(writer)
    return reader


def _topology(fields: Mapping[str, Any]) -> Topology:
    """Return a topology from the JSON of dataclasses.asdict()."""
    return Topology(
        tuple(fields["nodes"]),
        tuple(Link(**link) for link in fields["links"]),
        tuple(_medium(medium) for medium in fields["media"]),
    )


def _medium(fields: Mapping[str, Any]) -> Medium:
    radio = fields["radio"]
    whole = {"members": tuple(fields["members"]), "radio": None if radio is None else Radio(**radio)}
    return Medium(**{**fields, **whole})


def main(path: str) -> None:
    """Run the relay of a specification file."""
    specification = json.loads(Path(path).read_text(encoding="utf-8"))
    seed, dilation = specification.pop("seed"), specification.pop("dilation")
    terminated = _terminated()
    relay = Relay(_topology(specification), seed, dilation)
    realtime = _reduce_latency()
    print("ready", flush=True)
    relay.run(sys.stdin.fileno(), terminated)
    print(json.dumps({"realtime": realtime, **relay.counters()}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
