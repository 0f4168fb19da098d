"""Fairness beside a flooding face: `python -m testbed.bench.fairness [--json] [--seconds S]`.

Theory of operation. A daemon's faces run in a process of its own, saturated: a reader keeps a window of
Interests pending, each answered by a Nack, and counts the answers per second; first alone, then beside a
flood, in turns. The fair share of two saturating faces is half of the forwarder each; shown is the reader's
part of its fair share, the median over repetitions with the minimum and the maximum. The flood comes over a
second Unix socket from a process of its own, which writes whenever the socket is writable, and reads
everything. On two processors flood and reader share the one that the forwarder leaves free; the flood has the
lowest priority there, as the subject is the forwarder, not the machine.

- Tiny Interests: 17 bytes each, for names without a route.
- LLIs for unavailable feeds, each for another feed.
- Rewinds: the newest 256 items of a feed from the cache, repeatedly.
- Unsolicited Data.
"""

import asyncio
import os
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click

from forwarder.faces.driver import Driver
from forwarder.faces.system import Faces
from forwarder.wire.feed import feed_name, item_name
from forwarder.wire.lp import make_lp
from forwarder.wire.name import from_uri
from forwarder.wire.packet import SENT_HOP_LIMIT, make_interest
from ssb.keys import Identity
from testbed.bench.figures import Row, Series
from testbed.bench.load import WINDOW, BenchError, Feed, bare_host, make_exchanges, native_feed
from testbed.bench.process import forwarding, nothing_lost, waiting_socket
from testbed.bench.program import command, report, run

FAIR: Final = 0.9
"""Minimum part of its fair share for each face."""
_ITEMS: Final = 256
_PACKETS: Final = 2_000
_CHUNK: Final = 1 << 18
_NO_ROUTE: Final = 150


def tiny_interests() -> list[bytes]:
    """Make Interests of minimum size."""
    return [
        make_interest(from_uri(f"/{number}"), nonce=number, lifetime_ms=1_000) for number in range(_PACKETS)
    ]


def unknown_feeds() -> list[bytes]:
    """Make LLIs, each for another feed."""
    prefix = from_uri("/nobody")
    feeds = (feed_name(prefix, Identity.from_seed(n.to_bytes(32, "big")).public_key) for n in range(_PACKETS))
    return [_lli(feed, number) for number, feed in enumerate(feeds)]


def rewinds() -> list[bytes]:
    """Make LLIs for the same cached items of a feed."""
    feed = native_feed(1).name
    return [_lli(feed, number) for number in range(_PACKETS)]


FLOODS: Final[dict[str, Callable[[], list[bytes]]]] = {
    "tiny Interests": tiny_interests,
    "LLIs for feeds that nobody has": unknown_feeds,
    "rewinds": rewinds,
    "Data": lambda: make_exchanges(_PACKETS).data,
}


def _lli(feed: bytes, nonce: int) -> bytes:
    return make_interest(
        item_name(feed, 1), nonce=nonce, lifetime_ms=60_000, hop_limit=SENT_HOP_LIMIT, send_credit=_ITEMS
    )


def flow(kind: str, path: str) -> None:
    """Run as the flood, until killed."""
    os.nice(19)
    stream = b"".join(FLOODS[kind]())
    sock = _connect(path)
    sock.setblocking(False)
    at = 0
    print("on", flush=True)
    while True:
        readable, writable, _ = select.select([sock], [sock], [])
        if readable and not sock.recv(_CHUNK):
            return
        if writable:
            at = (at + sock.send(stream[at : at + _CHUNK])) % len(stream)


@contextmanager
def flooded(kind: str, path: str) -> Iterator[None]:
    """Run a flood during the `with` block."""
    command = [sys.executable, "-m", "testbed.bench.fairness", "--pour", kind, path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            if process.stdout is None or process.stdout.readline() != "on\n":
                raise BenchError("the flood does not begin")
            yield
        finally:
            process.kill()


def exchanges_a_second(sock: socket.socket, seconds: float) -> float:
    """Send unanswerable Interests, a window at a time; return the number of Nacks per second."""
    packet = make_interest(from_uri("/nobody/has/it"), nonce=1)
    answer = len(make_lp(packet, nack_reason=_NO_ROUTE))
    sent = got = 0
    begun = now = time.monotonic()
    while now < begun + seconds:
        while sent - got // answer < WINDOW:
            sent += 1
            sock.sendall(packet[:-4] + sent.to_bytes(4, "big"))
        got += len(sock.recv(_CHUNK))
        now = time.monotonic()
    rate = got / answer / (now - begun)
    while got < sent * answer:
        got += len(sock.recv(_CHUNK))
    return rate


def _fill(path: str, feed: Feed) -> None:
    """Push a feed's items through the forwarder, into its cache."""
    with _connect(path) as near, _connect(path) as far:
        for sock in (near, far):  # the bench's prefix leads to the second face
            sock.send(make_interest(from_uri("/nowhere"), nonce=1))
            sock.recv(_CHUNK)
        near.send(_lli(feed.name, 1))
        if not far.recv(_CHUNK):
            raise BenchError("the subscription does not come")
        for item in feed.items:
            far.send(item)
        size, least = 0, sum(map(len, feed.items))
        while size < least:
            size += len(near.recv(_CHUNK))


def _connect(path: str) -> socket.socket:
    sock = waiting_socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.connect(path)
    return sock


def shares(kind: str, seconds: float, repetitions: int) -> Row:
    """Return the reader's part of its fair share beside a flood."""
    alone, share = Series(), Series()
    with tempfile.TemporaryDirectory() as directory:
        path = str(Path(directory) / "sock")

        def opening(loop: asyncio.AbstractEventLoop) -> tuple[Driver, Any]:
            faces = Faces(bare_host(), loop)
            faces.listen_unix(Path(path), limit=8)
            return faces.driver, path

        with forwarding(opening), nothing_lost(kind):
            _fill(path, native_feed(_ITEMS))
            with _connect(path) as sock:
                exchanges_a_second(sock, seconds / 2)
                for _ in range(repetitions):
                    alone.add(exchanges_a_second(sock, seconds))
                    with flooded(kind, path):
                        exchanges_a_second(sock, seconds / 2)
                        share.add(exchanges_a_second(sock, seconds) / (alone.values[-1] / 2))
    return Row(kind, share, "of the fair share", FAIR, note=f"{alone} exchanges a second alone")


@command
@click.option("--seconds", type=click.FloatRange(0.1), default=2.0, help="Of a figure.")
@click.option("--repetitions", type=click.IntRange(1), default=5)
@click.option("--pour", type=(click.Choice([*FLOODS]), str), hidden=True)
def bench(as_json: bool, seconds: float, repetitions: int, pour: tuple[str, str] | None) -> None:
    """Measure what a face that floods leaves the others of a saturated forwarder."""
    if pour is not None:
        flow(*pour)
        return
    report("", [shares(kind, seconds, repetitions) for kind in FLOODS], as_json)


if __name__ == "__main__":
    run(bench, "testbed.bench.fairness")
