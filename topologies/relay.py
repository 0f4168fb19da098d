"""The relay: a process that moves frames between the links' ends and impairs them on the way.

    python -m topologies.relay SPEC.json

It stands in for netem on kernels without it. Every link ends in two interfaces of the relay's network
namespace, each the peer of a node's own. A frame that comes in at one leaves at the other, at the time
that the pipe of its direction says, if it arrives at all.

Theory of operation. All packet sockets are watched by one epoll set; frames on their way lie in one heap
by time of arrival. The relay sleeps until a frame comes in or the first of the heap is due. A frame's
time in the pipe starts with the kernel's stamp of its coming in, not when the relay comes to read it, so
the relay's own delay in waking does not add to the link's. epoll's timeouts have a grain of 1 ms;
therefore the sleep is a select() on the epoll set itself, whose timeouts have one of 1 us.

SPEC.json: {"seed": int, "links": [{...the fields of topologies.model.Link...,
"interface_a": str, "interface_b": str}, ...]}, interfaces as they are called in the relay's namespace.

The relay prints `ready` when all sockets are open. It ends on SIGTERM or when its standard input, a pipe,
ends, and prints one line of JSON:

    {"realtime": bool,            whether it ran at real-time priority
     "late_mean_us": float,       how much later than due frames left the relay
     "late_max_us": float,
     "under_way": int,            frames in the heap when it ended
     "pipes": [{"interface": str, the interface that the frames came in at
                "sent": int, "lost": int, "queue_drops": int,   as topologies.pipe.Pipe counts them
                "unread": int,    frames that found the relay's receive ring full
                "unsent": int},   frames that the kernel did not take from the relay
               ...]}              two for each link, a to b first
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
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from topologies.model import Link
from topologies.pipe import Pipe, pipe_rng
from topologies.ring import Ring

_PR_SET_TIMERSLACK = 29

_RING = 2 << 20
_ALL_RINGS = 128 << 20
"""Bytes of an interface's receive ring, and what all of them may take together."""

_BATCH = 64
"""Frames taken from one ring before the others, and frames that are due, have their turn."""

_CLOSERS = 32


class _End:
    """One end of a link in the relay's namespace: what comes in here goes through `pipe`, then to `out`."""

    __slots__ = ("interface", "out", "pipe", "ring", "unsent")

    def __init__(self, interface: str, ring: Ring, out: socket.socket, pipe: Pipe) -> None:
        self.interface = interface
        self.ring = ring
        self.out = out.send
        self.pipe = pipe
        self.unsent = 0

    def counters(self) -> dict[str, int | str]:
        return {
            "interface": self.interface,
            "sent": self.pipe.sent,
            "lost": self.pipe.lost,
            "queue_drops": self.pipe.queue_drops,
            "unread": self.ring.overflow(),
            "unsent": self.unsent,
        }


class Relay:
    """The sockets and pipes of all links, and the frames under way between them."""

    def __init__(self, links: Sequence[tuple[Link, str, str]], seed: int) -> None:
        """Open both ends of every link, given with its interfaces at a and b. Raises OSError."""
        # The first descriptor of all: select() takes none above 1023.
        self._poll = select.epoll()
        self._ends: list[_End] = []
        self._heap: list[tuple[int, int, _End, bytes]] = []
        self._frames = 0
        self._left = 0
        self._late_ns = 0
        self._late_max_ns = 0
        memory = min(_RING, _ALL_RINGS // max(1, 2 * len(links)))
        for link, interface_a, interface_b in links:
            a, b = Ring(interface_a, memory), Ring(interface_b, memory)
            self._ends += [
                _End(interface_a, a, b.socket, Pipe(link, pipe_rng(seed, link, link.a))),
                _End(interface_b, b, a.socket, Pipe(link, pipe_rng(seed, link, link.b))),
            ]

    def run(self, stop: Sequence[int]) -> None:
        """Move frames until one of the file descriptors in `stop` can be read."""
        ends = {end.ring.socket.fileno(): end for end in self._ends}
        for fd in (*ends, *stop):
            self._poll.register(fd, select.EPOLLIN)
        while True:
            timeout = max(0, self._heap[0][0] - time.monotonic_ns()) / 1e9 if self._heap else None
            if select.select([self._poll], [], [], timeout)[0]:
                clock_offset = time.monotonic_ns() - time.time_ns()
                for fd, _ in self._poll.poll(0):
                    if fd not in ends:
                        return
                    self._receive(ends[fd], clock_offset)
            self._release()

    def _receive(self, end: _End, clock_offset: int) -> None:
        """Put what has come in at an end on its way; clock_offset turns its stamps into monotonic time."""
        send = end.pipe.send
        heap = self._heap
        for stamp, frame in end.ring.take(_BATCH):
            for arrival in send(stamp + clock_offset, len(frame)):
                self._frames += 1
                heapq.heappush(heap, (arrival, self._frames, end, frame))

    def _release(self) -> None:
        """Send the frames that are due."""
        heap = self._heap
        clock = time.monotonic_ns
        while heap:
            late = clock() - heap[0][0]
            if late < 0:
                return
            _, _, end, frame = heapq.heappop(heap)
            try:
                end.out(frame)
            except OSError:
                end.unsent += 1
            self._left += 1
            self._late_ns += late
            self._late_max_ns = max(self._late_max_ns, late)

    def counters(self) -> dict[str, Any]:
        """What the relay did, as in the module's docstring, without "realtime". To be asked for once."""
        return {
            "late_mean_us": self._late_ns / self._left / 1e3 if self._left else 0.0,
            "late_max_us": self._late_max_ns / 1e3,
            "under_way": len(self._heap),
            "pipes": [end.counters() for end in self._ends],
        }

    def close(self) -> None:
        """Close all sockets: side by side, for each of them takes the kernel some 20 ms."""
        with ThreadPoolExecutor(max_workers=_CLOSERS) as pool:
            for end in self._ends:
                pool.submit(end.ring.close)


def _be_prompt() -> bool:
    """Take all that makes the process wake in time; return whether that includes real-time priority."""
    gc.disable()
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, ctypes.c_ulong(1))
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError:
        return False
    return True


def _terminated() -> int:
    """A file descriptor that can be read once SIGTERM has come."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.signal(signal.SIGTERM, lambda _signal, _frame: None)
    signal.set_wakeup_fd(writer)
    return reader


def _links(specification: Mapping[str, Any]) -> list[tuple[Link, str, str]]:
    links = []
    for fields in specification["links"]:
        parameters = dict(fields)
        interfaces = parameters.pop("interface_a"), parameters.pop("interface_b")
        links.append((Link(**parameters), *interfaces))
    return links


def main(path: str) -> None:
    """Run the relay that a specification file describes."""
    specification = json.loads(Path(path).read_text(encoding="utf-8"))
    stop = (sys.stdin.fileno(), _terminated())
    relay = Relay(_links(specification), specification["seed"])
    realtime = _be_prompt()
    print("ready", flush=True)
    relay.run(stop)
    print(json.dumps({"realtime": realtime, **relay.counters()}), flush=True)
    relay.close()


if __name__ == "__main__":
    main(sys.argv[1])
