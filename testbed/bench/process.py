"""A forwarder in a process of its own, which reports its resource usage; sockets with timeouts."""

import asyncio
import multiprocessing
import resource
import signal
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from forwarder.faces.driver import Driver
from forwarder.feedcache.items import forget_all
from testbed.bench.load import BenchError

LOOPBACK = "127.0.0.1"
PATIENCE_S = 5
BUFFER = 4 << 20

Opening = Callable[[asyncio.AbstractEventLoop], tuple[Driver, Any]]
"""Opens a forwarder's faces: returns its driver, and the addresses for the other side."""


class Usage(NamedTuple):
    """A process's usage: CPU time in microseconds, packets."""

    user: float
    system: float
    received: int
    sent: int

    @property
    def cpu(self) -> float:
        """CPU time in microseconds."""
        return self.user + self.system

    def since(self, before: "Usage") -> "Usage":
        """Return the difference to an earlier state."""
        return Usage(
            self.user - before.user,
            self.system - before.system,
            self.received - before.received,
            self.sent - before.sent,
        )

    def check(self, what: str, packets: int) -> "Usage":
        """Return it if `packets` packets were received and sent; raise BenchError otherwise."""
        if not self.received == self.sent == packets:
            raise BenchError(f"{what}: of {packets} packets {self.received} came, {self.sent} left")
        return self


class Passage(NamedTuple):
    """A process that packets pass through.

    Attributes:
        near, far: sockets on its two sides; the same one if it echoes.
        used: returns the process's usage.
        more: further sockets on the near side.
    """

    near: socket.socket
    far: socket.socket
    used: Callable[[], Usage]
    more: tuple[socket.socket, ...] = ()


@contextmanager
def forwarding(opening: Opening) -> Iterator[tuple[Any, Callable[[], Usage]]]:
    """Run a forwarder in a process of its own; yield the output of `opening`, and a function that returns its
    usage.
    """
    fork = multiprocessing.get_context("fork")  # its code has run warm, as in a daemon
    here, there = fork.Pipe()

    def hear() -> Any:
        if not here.poll(PATIENCE_S):
            raise BenchError("the forwarder's process does not answer")
        return here.recv()

    def used() -> Usage:
        here.send("usage")
        return Usage(*hear())

    with here, there:
        process = fork.Process(target=_run, args=(here, there, opening), daemon=True)
        # Ctrl-C is delayed until the process is up: during its start it would print a traceback, or be left
        # behind.
        previous = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        process.start()
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, previous)
            yield hear(), used
        finally:
            process.kill()
            process.join()


def _run(parents_end: Connection, connection: Connection, opening: Opening) -> None:
    """Run as the process in the middle until killed, or the parent has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C; blocked until now
    parents_end.close()
    forget_all()  # verified by the parent
    asyncio.run(_drive(connection, opening))


async def _drive(connection: Connection, opening: Opening) -> None:
    loop = asyncio.get_running_loop()
    driver, said = opening(loop)
    orphaned = asyncio.Event()

    def answer() -> None:
        try:
            connection.recv()
        except EOFError:
            loop.remove_reader(connection.fileno())
            orphaned.set()
            return
        used = resource.getrusage(resource.RUSAGE_SELF)
        counted = driver.host.forwarder.counters
        received = counted.in_interests + counted.in_data
        sent = counted.out_interests + counted.out_data
        connection.send((used.ru_utime * 1e6, used.ru_stime * 1e6, received, sent))

    driver.start()
    loop.add_reader(connection.fileno(), answer)
    connection.send(said)
    await orphaned.wait()
    driver.close()


def waiting_socket(family: socket.AddressFamily, kind: socket.SocketKind) -> socket.socket:
    """Return a socket with a timeout of PATIENCE_S, after which it raises BlockingIOError.

    Uses SO_RCVTIMEO: settimeout() would cost another system call per packet.
    """
    sock = socket.socket(family, kind)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        sock.setsockopt(socket.SOL_SOCKET, option, struct.pack("@ll", PATIENCE_S, 0))
    return sock


@contextmanager
def nothing_lost(what: str) -> Iterator[None]:
    """Turn a socket's timeout into a BenchError."""
    try:
        yield
    except BlockingIOError:
        raise BenchError(f"{what}: a packet did not come within {PATIENCE_S} s") from None
