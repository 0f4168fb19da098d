"""Cost of a packet at the daemon's faces: Unix sockets, and UDP by a channel open to anybody.

As testbed.bench.udp, in a process of its own. Also the duration of sequential exchanges, and the cost of
pushing a feed to many.
"""

import asyncio
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal

from forwarder.faces.driver import Driver
from forwarder.faces.segmentation import receive_batch, receive_runs, send_batch
from forwarder.faces.system import Faces
from forwarder.wire.feed import item_name
from forwarder.wire.hello import Hello, make_hello, parse_hello
from forwarder.wire.lp import parse_lp
from forwarder.wire.name import from_uri
from forwarder.wire.packet import SENT_HOP_LIMIT, make_interest
from testbed.bench.load import WINDOW, BenchError, Exchanges, Feed, bare_host
from testbed.bench.process import LOOPBACK, Passage, Usage, forwarding, nothing_lost, waiting_socket

Kind = Literal["unix", "udp", "udp in runs"]

DOWNSTREAMS = 8
"""Number of downstreams of carry_push()."""

_CHUNK = 1 << 18
_DATAGRAM = 1 << 16
_LIFETIME_MS = 60_000


@contextmanager
def through_faces(kind: Kind, downstreams: int = 1) -> Iterator[Passage]:
    """Run a forwarder with a channel in a process of its own, and connect to it from its sides."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "sock"

        def opening(loop: asyncio.AbstractEventLoop) -> tuple[Driver, Any]:
            faces = Faces(bare_host(), loop)
            if kind == "unix":
                faces.listen_unix(path, limit=downstreams + 1)
                return faces.driver, str(path)
            in_runs = kind == "udp in runs"
            uri = faces.listen_udp(LOOPBACK, 0, limit=downstreams + 1, segmentation=in_runs)
            return faces.driver, uri.address

        with forwarding(opening) as (address, used), ExitStack() as stack:
            sockets = []
            for number in range(downstreams + 1):
                sock = stack.enter_context(_connect(kind, address))
                # This creates the face: Interests come from the first face, and go to the second.
                with nothing_lost("a first packet"):
                    sock.send(make_interest(from_uri("/nowhere"), nonce=number))
                    sock.recv(_CHUNK)
                sockets.append(sock)
            near, far, *more = sockets
            yield Passage(near, far, used, tuple(more))


def _connect(kind: Kind, address: Any) -> socket.socket:
    if kind == "unix":
        sock = waiting_socket(socket.AF_UNIX, socket.SOCK_STREAM)
    else:
        sock = waiting_socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.connect(address)
    if kind == "udp in runs":
        receive_runs(sock)
    return sock


def carry_stream(passage: Passage, load: Exchanges) -> Usage:
    """Do what carry() does, over streams."""
    with nothing_lost("Unix stream"):
        before = passage.used()
        for source, sink, packets in _ways(passage, load):
            stream = b"".join(packets)
            source.sendall(stream)
            _take(sink, len(stream))
        after = passage.used()
    return after.since(before).check("Unix stream", len(load.interests) + len(load.data))


def carry_runs(passage: Passage, load: Exchanges) -> Usage:
    """Do what carry() does, in runs of datagrams that cross the kernel as one."""
    with nothing_lost("UDP in runs"):
        before = passage.used()
        for source, sink, packets in _ways(passage, load):
            send_batch(source, packets)
            left = len(packets)
            while left > 0:
                left -= len(receive_batch(sink))
        after = passage.used()
    return after.since(before).check("UDP in runs", len(load.interests) + len(load.data))


def _ways(passage: Passage, load: Exchanges) -> Iterator[tuple[socket.socket, socket.socket, list[bytes]]]:
    """Yield (from, to, packets) for the Interests and the Data of each window."""
    for interests, data in load.windows():
        yield passage.near, passage.far, interests
        yield passage.far, passage.near, data


def round_trips(passage: Passage, load: Exchanges) -> list[int]:
    """Make exchanges in sequence; return the duration of each, wall-clock ns."""
    near, far = passage.near, passage.far
    taken = []
    with nothing_lost("one exchange at a time"):
        for interest, data in zip(load.interests, load.data, strict=True):
            begun = time.perf_counter_ns()
            near.send(interest)
            _take(far, len(interest))
            far.send(data)
            _take(near, len(data))
            taken.append(time.perf_counter_ns() - begun)
    return taken


def carry_push(passage: Passage, feed: Feed) -> Usage:
    """Subscribe all near sockets to a feed and push it from the far one; return the usage.

    Raises BenchError unless every item arrives everywhere, in order.
    """
    downstreams = [passage.near, *passage.more]
    with nothing_lost("push over UDP"):
        before = passage.used()
        for number, sock in enumerate(downstreams):
            sock.send(
                make_interest(
                    item_name(feed.name, 1),
                    nonce=number,
                    lifetime_ms=_LIFETIME_MS,
                    hop_limit=SENT_HOP_LIMIT,
                    send_credit=len(feed.items),
                )
            )
            _prove(sock)
            passage.used()  # it has arrived by now
        for first in range(0, len(feed.items), WINDOW):
            items = feed.items[first : first + WINDOW]
            for item in items:
                passage.far.send(item)
            for sock in downstreams:
                for item in items:
                    frame = sock.recv(_DATAGRAM)
                    while not frame.endswith(item):  # possibly behind a header
                        if _hello(frame) is None:
                            raise BenchError("push over UDP: something else came than the next item")
                        frame = sock.recv(_DATAGRAM)
        return passage.used().since(before)


def _prove(sock: socket.socket) -> None:
    """Answer the challenge to a new neighbour; nothing is pushed before."""
    while True:
        hello = _hello(sock.recv(_DATAGRAM))
        if hello is not None and hello.number is not None:
            sock.send(make_hello(Hello(reply=hello.number)))
            return


def _hello(frame: bytes) -> Hello | None:
    header = parse_lp(frame)
    return parse_hello(header.hello) if header.hello is not None else None


def _take(sock: socket.socket, size: int) -> None:
    while size > 0:
        received = len(sock.recv(_CHUNK))
        if not received:
            raise BenchError("a connection has ended")
        size -= received
