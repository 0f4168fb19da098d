"""Our member of a PSync group and NDNts', over a Unix socket: both learn all that the other knows."""

import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from patience import PATIENCE_S
from stock_peer import node_modules

from forwarder.wire.lp import parse_lp
from forwarder.wire.name import from_uri, to_uri
from forwarder.wire.packet import DATA, make_data, parse_data, parse_interest
from forwarder.wire.tlv import MalformedPacket, read_header
from ssb.keys import Identity
from ssb_over_ndn.naming import PSYNC_ALL, log_name
from ssb_over_ndn.sync.psync import PsyncMember

HERE = Path(__file__).parent / "psync"
FEEDS = [log_name(Identity.from_seed(bytes([n]) * 32).ref) for n in range(120)]
ITEM = parse_data(make_data(FEEDS[0], b""))


class Pair:
    """A member of ours in real time, and one of NDNts, with a socket between."""

    def __init__(self, path: Path) -> None:
        self.ours = PsyncMember(rng=Random(1), table_feeds=80, interest_ms=1000, freshness_ms=1000, ahead=1)
        self.theirs: dict[bytes, int] = {}
        self._is_ready = threading.Event()
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        listener.listen()
        listener.settimeout(PATIENCE_S)
        modules = node_modules("interop/psync")
        self._program = subprocess.Popen(
            ["node", str(HERE / "member.js"), str(modules), str(path), to_uri(PSYNC_ALL)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._socket, _ = listener.accept()
        listener.close()
        threading.Thread(target=self._read, daemon=True).start()
        self._buffer = b""
        assert self._is_ready.wait(PATIENCE_S)
        self.ours.send(time.monotonic_ns())

    def publish(self, feed: bytes, seq: int) -> None:
        """Publish by NDNts' member."""
        assert self._program.stdin is not None
        self._program.stdin.write(f"{to_uri(feed)} {seq}\n")
        self._program.stdin.flush()

    def run_until(self, ours: dict[bytes, int], theirs: dict[bytes, int]) -> None:
        """Run until both have learnt so much, or it takes too long."""
        end = time.monotonic() + PATIENCE_S
        while not (self.ours.newest.items() >= ours.items() and self.theirs.items() >= theirs.items()):
            assert time.monotonic() < end, (self.ours.newest, self.theirs)
            self._step()

    def _read(self) -> None:
        assert self._program.stdout is not None
        for line in self._program.stdout:
            name, _, number = line.strip().partition(" ")
            if number:
                self.theirs[from_uri(name)] = int(number)
            else:
                self._is_ready.set()

    def _step(self) -> None:
        now = time.monotonic_ns()
        self.ours.wake(now)
        for packet in self.ours.take_outputs():
            self._socket.sendall(packet)
        self._socket.settimeout(0.02)
        try:
            self._buffer += self._socket.recv(1 << 16)
        except TimeoutError:
            return
        while self._buffer:
            try:
                *_, end = read_header(self._buffer, 0, len(self._buffer))
            except MalformedPacket:  # the rest is to come
                return
            packet, self._buffer = parse_lp(self._buffer[:end]).fragment, self._buffer[end:]
            if packet[:1] == bytes((DATA,)):
                self.ours.on_data(parse_data(packet), now)
            else:
                self.ours.on_interest(parse_interest(packet), now)

    def close(self) -> None:
        """End both."""
        self._program.kill()
        self._program.wait()
        self._socket.close()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path / "link")
    try:
        yield made
    finally:
        made.close()


def test_each_learns_of_the_others_items(pair: Pair) -> None:
    pair.ours.publish(FEEDS[0], 1, ITEM, time.monotonic_ns())
    pair.run_until({}, {FEEDS[0]: 1})
    pair.publish(FEEDS[1], 7)
    pair.run_until({FEEDS[1]: 7}, {})
    for seq in range(2, 6):
        pair.ours.publish(FEEDS[0], seq, ITEM, time.monotonic_ns())
        pair.publish(FEEDS[1], 6 + seq)
        pair.run_until({FEEDS[1]: 6 + seq}, {FEEDS[0]: seq})


def test_what_no_table_tells_comes_whole_and_in_segments(pair: Pair) -> None:
    for n, feed in enumerate(FEEDS):
        pair.ours.publish(feed, n + 1, ITEM, time.monotonic_ns())
    pair.run_until({}, {feed: n + 1 for n, feed in enumerate(FEEDS)})
    more = [log_name(Identity.from_seed(bytes([n, 1]) * 16).ref) for n in range(120)]
    for n, feed in enumerate(more):
        pair.publish(feed, n + 1)
    pair.run_until({feed: n + 1 for n, feed in enumerate(more)}, {})
