"""Cost of a packet over UDP for an intermediate process: the forwarder, or a loop in C.

The process in the middle reports its own usage. This one is both client and producer, and the cheapest
possible in Python: plain calls on blocking sockets, so that it is never the bottleneck.
"""

import asyncio
import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from base.sockets import udp_socket
from forwarder.faces.driver import Driver
from forwarder.faces.udp import UdpTransport
from testbed.bench.load import DOWN, UP, BenchError, Exchanges, new_host
from testbed.bench.process import LOOPBACK, Passage, Usage, forwarding, nothing_lost, waiting_socket

_COMPILER_S = 30
_OVER_UDP = "UDP over loopback"


def carry(passage: Passage, load: Exchanges) -> Usage:
    """Send Interests through from near to far and Data back; return the usage.

    Raises BenchError if packets are lost.
    """
    near, far = passage.near, passage.far
    with nothing_lost(_OVER_UDP):
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
    return after.since(before).check(_OVER_UDP, len(load.interests) + len(load.data))


@contextmanager
def through_feednet() -> Iterator[Passage]:
    """Run a forwarder in a process of its own."""
    with _socket() as near, _socket() as far:
        peers = [near.getsockname(), far.getsockname()]

        def opening(loop: asyncio.AbstractEventLoop) -> tuple[Driver, Sequence[tuple[str, int]]]:
            driver = Driver(new_host(), loop, batch=1)
            return driver, [_open(driver, face, peer) for face, peer in zip((DOWN, UP), peers, strict=True)]

        with forwarding(opening) as (addresses, used):
            for sock, address in zip((near, far), addresses, strict=True):
                sock.connect(address)
            yield Passage(near, far, used)


def _open(driver: Driver, face: int, peer: tuple[str, int]) -> tuple[str, int]:
    """Join a face with a peer; return the face's address."""
    sock = udp_socket(socket.AF_INET)
    sock.bind((LOOPBACK, 0))
    sock.connect(peer)
    UdpTransport(driver, face, sock)
    host, port = sock.getsockname()
    return host, port


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
                near.connect((LOOPBACK, int(port)))
                yield Passage(near, near, used)
            finally:
                process.kill()


def compile_echo(directory: Path) -> tuple[Path | None, str]:
    """Compile the C echo into a directory; return the program, or None and the reason."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None, "no C compiler cc here (on Debian and Ubuntu: apt install gcc libc6-dev)"
    program = directory / "bench_echo"
    command = [compiler, "-O2", "-o", str(program), str(Path(__file__).with_name("echo.c"))]
    try:
        subprocess.run(command, capture_output=True, check=True, text=True, timeout=_COMPILER_S)
    except subprocess.CalledProcessError as error:
        return None, (error.stderr.strip() or str(error)).splitlines()[0]
    except subprocess.TimeoutExpired as error:
        return None, str(error)
    return program, ""


def _socket() -> socket.socket:
    """Return a UDP socket on loopback."""
    sock = waiting_socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind((LOOPBACK, 0))
    return sock
