"""What a packet costs the daemon's faces: Unix sockets, and UDP by a channel that anybody may write to.

As testbed.bench_udp, in a process of its own: `python -m testbed.bench_faces` shows it against the C echo.
"""

import asyncio
import multiprocessing
import resource
import signal
import socket
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal

import click

from forwarder.faces.system import Faces
from forwarder.wire.name import from_uri
from forwarder.wire.packet import make_interest
from testbed.bench_load import BenchError, Exchanges, bare_host, make_exchanges
from testbed.bench_udp import Passage, Usage, carry, compile_echo, through_echo

Kind = Literal["unix", "udp"]

_LOOPBACK = "127.0.0.1"
_PATIENCE_S = 5
_CHUNK = 1 << 18
_BUFFER = 4 << 20


@contextmanager
def through_faces(kind: Kind) -> Iterator[Passage]:
    """Run a forwarder with a channel in a process of its own, and connect to it from two sides."""
    fork = multiprocessing.get_context("fork")  # its code has run warm, as in a daemon
    here, there = fork.Pipe()

    def hear() -> Any:
        if not here.poll(_PATIENCE_S):
            raise BenchError("the forwarder's process does not answer")
        return here.recv()

    def used() -> Usage:
        here.send("usage")
        return Usage(*hear())

    with tempfile.TemporaryDirectory() as directory, here, there:
        path = Path(directory) / "sock"
        process = fork.Process(target=_run, args=(here, there, kind, path), daemon=True)
        process.start()
        try:
            address = hear()
            with _connect(kind, address) as near, _connect(kind, address) as far:
                for number, sock in enumerate((near, far)):
                    # Which makes the face: Interests come from the first, the second is where they go.
                    sock.send(make_interest(from_uri("/nowhere"), nonce=number))
                    sock.recv(_CHUNK)
                yield Passage(near, far, used)
        finally:
            process.kill()
            process.join()


def _connect(kind: Kind, address: Any) -> socket.socket:
    if kind == "unix":
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    else:
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
    sock.settimeout(_PATIENCE_S)
    sock.connect(address)
    return sock


def carry_stream(passage: Passage, load: Exchanges) -> Usage:
    """Send Interests through from near to far and Data back, as streams; return what that has used.

    Raises BenchError if packets are lost.
    """
    before = passage.used()
    try:
        for interests, data in load.windows():
            for source, sink, packets in (
                (passage.near, passage.far, interests),
                (passage.far, passage.near, data),
            ):
                stream = b"".join(packets)
                source.sendall(stream)
                left = len(stream)
                while left:
                    left -= len(sink.recv(_CHUNK))
    except TimeoutError:
        raise BenchError(f"Unix stream: a packet did not come within {_PATIENCE_S} s") from None
    after = passage.used()
    usage = Usage(
        after.user - before.user,
        after.system - before.system,
        after.received - before.received,
        after.sent - before.sent,
    )
    packets_sent = len(load.interests) + len(load.data)
    if not usage.received == usage.sent == packets_sent:
        raise BenchError(f"Unix stream: of {packets_sent} packets {usage.received} came, {usage.sent} left")
    return usage


def _run(parents_end: Connection, connection: Connection, kind: Kind, path: Path) -> None:
    """Be the process in the middle until it is killed, or the parent has gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's affair
    parents_end.close()
    asyncio.run(_drive(connection, kind, path))


async def _drive(connection: Connection, kind: Kind, path: Path) -> None:
    loop = asyncio.get_running_loop()
    host = bare_host()
    faces = Faces(host, loop)
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

    address: Any
    if kind == "unix":
        faces.listen_unix(path, limit=2)
        address = str(path)
    else:
        address = faces.listen_udp(_LOOPBACK, 0, limit=2).address
    faces.driver.start()
    loop.add_reader(connection.fileno(), answer)
    connection.send(address)
    await orphaned.wait()
    faces.close()


@click.command()
@click.option("--repetitions", default=5, show_default=True)
@click.option("--exchanges", default=8192, show_default=True)
def main(repetitions: int, exchanges: int) -> None:
    """Show what a packet costs, in microseconds of CPU time and as ratios to the C echo in the same run."""
    load = make_exchanges(exchanges)
    costs: dict[str, list[float]] = {"UDP channel": [], "Unix stream": [], "UDP echo in C": []}
    with tempfile.TemporaryDirectory() as directory:
        program, why_not = compile_echo(Path(directory))
        for _ in range(repetitions):
            with through_faces("udp") as passage:
                costs["UDP channel"].append(_cost(carry(passage, load)))
            with through_faces("unix") as passage:
                costs["Unix stream"].append(_cost(carry_stream(passage, load)))
            if program is not None:
                with through_echo(program) as passage:
                    costs["UDP echo in C"].append(_cost(carry(passage, load)))
    for name, values in costs.items():
        if not values:
            click.echo(f"{name:14}  not measured: {why_not}")
            continue
        line = f"{name:14}  {statistics.median(values):5.2f} us/packet"
        with suppress(ZeroDivisionError, ValueError):
            echoes = costs["UDP echo in C"]
            ratio = statistics.median(a / b for a, b in zip(values, echoes, strict=True))
            line += f"  {ratio:5.2f} x C echo"
        click.echo(line)


def _cost(usage: Usage) -> float:
    return (usage.user + usage.system) / usage.received


if __name__ == "__main__":
    main()
