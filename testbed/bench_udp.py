"""What a packet costs a process that it passes through over UDP: the forwarder, or a loop in C.

The process in the middle tells what it has used itself. This one is both client and producer, and the
cheapest that Python has to offer: plain calls on blocking sockets, so that it is not waited for.
"""

import asyncio
import multiprocessing
import resource
import shutil
import signal
import socket
import struct
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from forwarder.faces.udp import UdpDriver
from testbed.bench_load import DOWN, UP, BenchError, Exchanges, new_host

_LOOPBACK = "127.0.0.1"
_PATIENCE_S = 5
_COMPILER_S = 30


class Usage(NamedTuple):
    """What a process has used and done: CPU time in microseconds, packets."""

    user: float
    system: float
    received: int
    sent: int


class Passage(NamedTuple):
    """A process that datagrams pass through.

    Attributes:
        near, far: sockets on its two sides; the same one if it returns what it gets.
        used: asks the process for its usage.
    """

    near: socket.socket
    far: socket.socket
    used: Callable[[], Usage]


def carry(passage: Passage, load: Exchanges) -> Usage:
    """Send Interests through from near to far and Data back; return what that has used.

    Raises BenchError if packets are lost.
    """
    near, far = passage.near, passage.far
    try:
        before = passage.used()
        for interests, data in load.windows():
            for interest in interests:
                near.send(interest)
            for packet in data:
                far.recv(2048)
                far.send(packet)
            for _ in data:
                near.recv(2048)
        after = passage.used()
    except BlockingIOError:
        raise BenchError(f"UDP over loopback: a datagram did not come within {_PATIENCE_S} s") from None
    usage = Usage(
        after.user - before.user,
        after.system - before.system,
        after.received - before.received,
        after.sent - before.sent,
    )
    packets = len(load.interests) + len(load.data)
    if not usage.received == usage.sent == packets:
        raise BenchError(f"UDP over loopback: of {packets} packets {usage.received} came, {usage.sent} left")
    return usage


@contextmanager
def through_feednet() -> Iterator[Passage]:
    """Run a forwarder in a process of its own."""
    fork = multiprocessing.get_context("fork")  # its code has run warm, as in a daemon
    here, there = fork.Pipe()

    def hear() -> Any:
        if not here.poll(_PATIENCE_S):
            raise BenchError("the forwarder's process does not answer")
        return here.recv()

    def used() -> Usage:
        here.send("usage")
        return Usage(*hear())

    with here, there, _socket() as near, _socket() as far:
        peers = [near.getsockname(), far.getsockname()]
        process = fork.Process(target=_run_forwarder, args=(here, there, peers), daemon=True)
        process.start()
        try:
            for sock, address in zip((near, far), hear(), strict=True):
                sock.connect(address)
            yield Passage(near, far, used)
        finally:
            process.kill()
            process.join()


def _run_forwarder(parents_end: Connection, connection: Connection, peers: Sequence[tuple[str, int]]) -> None:
    """Be the process in the middle until it is killed, or the parent has gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's affair
    parents_end.close()
    asyncio.run(_drive(connection, peers))


async def _drive(connection: Connection, peers: Sequence[tuple[str, int]]) -> None:
    loop = asyncio.get_running_loop()
    host = new_host()
    driver = UdpDriver(host, loop)
    orphaned = asyncio.Event()

    def answer() -> None:
        try:
            connection.recv()
        except EOFError:
            loop.remove_reader(connection.fileno())
            orphaned.set()
            return
        used = resource.getrusage(resource.RUSAGE_SELF)
        counted = host.forwarder.counters
        received = counted.in_interests + counted.in_data
        sent = counted.out_interests + counted.out_data
        connection.send((used.ru_utime * 1e6, used.ru_stime * 1e6, received, sent))

    addresses = [
        driver.open(face, (_LOOPBACK, 0), peer) for face, peer in zip((DOWN, UP), peers, strict=True)
    ]
    driver.start()
    loop.add_reader(connection.fileno(), answer)
    connection.send(addresses)
    await orphaned.wait()
    driver.close()


@contextmanager
def through_echo(program: Path) -> Iterator[Passage]:
    """Run the C echo."""
    with _socket() as near:

        def used() -> Usage:
            near.send(b"")
            user, system, datagrams = map(int, near.recv(2048).split())
            return Usage(user, system, datagrams, datagrams)

        command = [str(program), str(near.getsockname()[1])]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
            try:
                assert process.stdout is not None
                port = process.stdout.readline()
                if not port:
                    raise BenchError("the C echo did not start")
                near.connect((_LOOPBACK, int(port)))
                yield Passage(near, near, used)
            finally:
                process.kill()


def compile_echo(directory: Path) -> tuple[Path | None, str]:
    """Compile the C echo into a directory; return the program, or None and the reason."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None, "no C compiler cc here (on Debian and Ubuntu: apt install gcc libc6-dev)"
    program = directory / "bench_echo"
    command = [compiler, "-O2", "-o", str(program), str(Path(__file__).with_name("bench_echo.c"))]
    try:
        subprocess.run(command, capture_output=True, check=True, text=True, timeout=_COMPILER_S)
    except subprocess.CalledProcessError as error:
        return None, (error.stderr.strip() or str(error)).splitlines()[0]
    except subprocess.TimeoutExpired as error:
        return None, str(error)
    return program, ""


def _socket() -> socket.socket:
    """Return a UDP socket on loopback that blocks, but not for ever.

    By SO_RCVTIMEO: settimeout() would cost another system call a datagram.
    """
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", _PATIENCE_S, 0))
    sock.bind((_LOOPBACK, 0))
    return sock
