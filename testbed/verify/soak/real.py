"""Some minutes of real traffic: many clients connect to a daemon, send something, and leave, properly or not.

Theory of operation. `feednet forward` runs as a process of its own, with small caches and short idle times. A
resident publishes a feed and answers Interests over a Unix socket. Workers live one life after another, each
over Unix, TCP or UDP, with random behaviour and ending: some close, some stop in the middle of a packet, some
reset the connection, which is all that a daemon sees of a killed process. Afterwards the daemon must hold
nothing of them: no face, route, PIT entry or feed, no open file, and no more memory than some time after the
start.
"""

import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from forwarder.daemon.datasets import Client, snapshot
from forwarder.wire.feed import item_name
from forwarder.wire.lp import make_lp, open_data, open_interest
from forwarder.wire.name import from_uri
from forwarder.wire.packet import DATA, make_data, make_interest
from testbed.verify.kit.outcome import Violation
from testbed.verify.mutations import mutate
from testbed.verify.soak.applications import Publisher, content_of
from testbed.verify.soak.daemon import ANSWER_S, SCHEMES, Connection, Supervised

WORKERS = 6
LIVES = ("ask", "serve", "follow", "leave-pending", "noise", "fragments", "flood")
"""A worker's behaviours between connecting and leaving."""

RESIDENT = from_uri("/resident")
MEMORY = 1.25
"""Maximum ratio of resident memory at the end to that after the first third ..."""
STEADY = 0.1
"""... if it grows by more than this, kB a life, in most intervals. malloc keeps a crowd's peak: memory then
grows in a few jumps, and a leak in every interval.
"""
TOO_MUCH = 2.0
"""Maximum ratio in any case."""
_CONFIG = """idle_s = 2.0
[content_store]
capacity = 256
"""
"""It follows the table of UDP."""
_PATIENCE_S = 20.0
_LIFETIME_MS = 2000
_PUBLISHING_NS = 200_000_000
_PAUSE_S = 0.02


class DaemonState(NamedTuple):
    """A daemon's state: sizes of its tables, open files, resident memory (kB)."""

    faces: int
    routes: int
    pit: int
    feeds: int
    files: int
    memory: int


class Daemon(Supervised):
    """A forwarder with small caches and short idle times."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.config.write_text(self.base + _CONFIG, encoding="utf-8")

    def left(self) -> DaemonState:
        """Return its state, including the querying face and its file."""
        with closing(Client(self.path)) as client:
            now = snapshot(client)
            files = self.files()
        return DaemonState(
            len(now["faces"]),
            len(now["fib"]),
            now["general"]["pit_entries"],
            now["feednet"]["feeds"]["entries"],
            files,
            self.memory(),
        )

    def check_alive(self) -> None:
        """Raise Violation if it has ended, or has logged an exception."""
        status, errors = self.process.poll(), self.errors()
        if status is not None or "Traceback" in errors:
            raise Violation("daemon", "the process", f"status {status}: {errors[-2000:]}")


@contextmanager
def _running() -> Iterator[Daemon]:
    with TemporaryDirectory() as folder, closing(Daemon(Path(folder))) as daemon:
        daemon.start()
        yield daemon


class Traffic:
    """All clients of one daemon.

    Attributes:
        counts: events by kind.
        problems: unexpected events.
    """

    def __init__(self, daemon: Daemon, seed: int) -> None:
        self.counts: Counter[str] = Counter()
        self.problems: list[str] = []
        self._daemon = daemon
        self._seed = seed
        self._lock = threading.Lock()
        self._publisher = Publisher(from_uri("/soak"), Random(seed), _PUBLISHING_NS)
        self._is_over = threading.Event()
        self._has_begun = threading.Event()
        self._threads = [threading.Thread(target=self._guard, args=(self._reside,))]
        self._threads += [threading.Thread(target=self._guard, args=(self._live, n)) for n in range(WORKERS)]

    @property
    def lives(self) -> int:
        """Number of ended lives."""
        with self._lock:
            return sum(count for what, count in self.counts.items() if " over " in what)

    def start(self) -> None:
        """Start, the resident first."""
        self._threads[0].start()
        if not self._has_begun.wait(_PATIENCE_S):
            raise Violation("daemon", "the resident", f"could not register: {self.problems}")
        for thread in self._threads[1:]:
            thread.start()

    def stop(self) -> None:
        """End, the resident last."""
        self._is_over.set()
        for thread in [*self._threads[1:], self._threads[0]]:
            thread.join()

    def _guard(self, run: Callable[..., None], *arguments: Any) -> None:
        try:
            run(*arguments)
        except Exception as error:
            self.problems.append(f"{run.__name__}: {type(error).__name__}: {error}")

    def _count(self, what: str) -> None:
        with self._lock:
            self.counts[what] += 1

    # The resident.

    def _reside(self) -> None:
        connection = Connection(self._daemon, "unix")
        for prefix in (RESIDENT, self._publisher.feed):
            self._register(connection, prefix)
        self._has_begun.set()
        workers = self._threads[1:]
        while not self._is_over.is_set() or any(thread.is_alive() for thread in workers):
            frame = connection.receive(0.05)
            now = time.monotonic_ns()
            interest = None if frame is None else open_interest(frame)
            if frame is not None and interest is not None and interest.name.startswith(self._publisher.feed):
                self._publisher.receive(frame, now)
            elif interest is not None:
                connection.send(make_data(interest.name, content_of(interest.name), freshness_ms=100))
            deadline = self._publisher.next_deadline()
            if deadline is not None and deadline <= now:
                self._publisher.wake(now)
            for packet in self._publisher.take_outputs():
                connection.send(packet)
        connection.sock.close()

    def _register(self, connection: Connection, prefix: bytes) -> None:
        connection.send(connection.signer.register(prefix))
        if connection.wait_for(lambda lp: lp.fragment[:1] == bytes((DATA,))) is None:
            raise Violation("answer", "a registration", "none")

    # The workers.

    def _live(self, number: int) -> None:
        rng = Random(f"{self._seed} {number}")
        lives: dict[str, Callable[[Connection, Random], None]] = {
            "ask": self._ask,
            "serve": self._serve,
            "follow": self._follow,
            "leave-pending": self._leave_pending,
            "noise": self._noise,
            "fragments": self._fragments,
            "flood": self._flood,
        }
        while not self._is_over.is_set():
            life, scheme = rng.choice(LIVES), rng.choice(SCHEMES)
            if life == "serve":
                scheme = "unix"  # remote clients may not register
            connection = Connection(self._daemon, scheme)
            try:
                lives[life](connection, rng)
            finally:
                way = connection.close(rng)
            self._count(f"{life} over {scheme}")
            self._count(way)
            time.sleep(rng.random() * _PAUSE_S)

    def _answer(self, connection: Connection, name: bytes, rng: Random) -> bytes:
        """Request until answered, and return the content."""
        until = time.monotonic() + ANSWER_S
        while time.monotonic() < until:
            interest = make_interest(name, nonce=rng.getrandbits(32), lifetime_ms=_LIFETIME_MS)
            connection.send(interest)
            frame = connection.wait_for(lambda lp: lp.fragment[:1] == bytes((DATA,)), _LIFETIME_MS / 1000)
            opened = None if frame is None else open_data(frame)
            if opened is not None and opened[0].name == name:
                return opened[0].content
        raise Violation("answer", connection.scheme, "none in time")

    def _ask(self, connection: Connection, rng: Random) -> None:
        for _ in range(rng.randint(1, 20)):
            name = RESIDENT + from_uri(f"/{rng.randrange(400)}")
            if self._answer(connection, name, rng) != content_of(name):
                raise Violation("answer", connection.scheme, "another one's")

    def _serve(self, connection: Connection, rng: Random) -> None:
        """Register a prefix, and answer another worker's Interest for it."""
        prefix = from_uri(f"/life/{rng.getrandbits(40)}")
        self._register(connection, prefix)
        other = Connection(self._daemon, rng.choice(("unix", "tcp4")))  # a datagram may be lost
        name = prefix + from_uri("/x")
        other.send(make_interest(name, nonce=rng.getrandbits(32), lifetime_ms=_LIFETIME_MS))
        if connection.wait_for(lambda lp: lp.fragment[:1] == b"\x05") is None:
            raise Violation("answer", "a life that serves", "is not asked")
        if rng.random() < 0.7:
            connection.send(make_data(name, b"x" * rng.choice((10, 6000))))
            if other.wait_for(lambda lp: lp.fragment[:1] == bytes((DATA,))) is None:
                raise Violation("answer", "a life that serves", "its answer does not arrive")
        other.close(rng)

    def _follow(self, connection: Connection, rng: Random) -> None:
        """Subscribe to the feed, get an item, and leave or cancel."""
        feed, first = self._publisher.feed, max(1, self._publisher.published - 3)
        until = time.monotonic() + ANSWER_S
        item = None
        while item is None and time.monotonic() < until:  # a datagram may be lost
            lli = make_interest(
                item_name(feed, first),
                nonce=rng.getrandbits(32),
                lifetime_ms=_LIFETIME_MS,
                send_credit=rng.randint(1, 8),
            )
            connection.send(lli)
            item = connection.wait_for(lambda lp: lp.fragment[:1] == bytes((DATA,)), _LIFETIME_MS / 1000)
        if item is None:
            raise Violation("answer", f"a follower over {connection.scheme}", f"no item from {first} on")
        if rng.random() < 0.3:
            connection.send(make_interest(item_name(feed, first), nonce=rng.getrandbits(32), send_credit=0))

    def _leave_pending(self, connection: Connection, rng: Random) -> None:
        for _ in range(rng.randint(1, 100)):
            name = self._publisher.feed + from_uri(f"/nothing/{rng.getrandbits(40)}")
            connection.send(make_interest(name, nonce=rng.getrandbits(32), lifetime_ms=rng.randint(1, 2000)))

    def _noise(self, connection: Connection, rng: Random) -> None:
        pool = [make_interest(RESIDENT, nonce=1, lifetime_ms=_LIFETIME_MS), make_data(RESIDENT, b"")]
        for _ in range(rng.randint(1, 50)):
            frame = mutate(rng.choice(pool), pool, rng)
            interest = open_interest(frame) if frame else None
            if interest is None or interest.lifetime_ms <= _LIFETIME_MS:
                connection.send(frame)

    def _fragments(self, connection: Connection, rng: Random) -> None:
        """Begin some packets and end none; few enough that a crowd's memory stays small."""
        for _ in range(rng.randint(1, 20)):
            body = bytes(rng.randint(1, 300))
            connection.send(make_lp(body, sequence=rng.getrandbits(64), frag_index=0, frag_count=9))

    def _flood(self, connection: Connection, rng: Random) -> None:
        """Send many requests, and read nothing."""
        for number in range(300):
            connection.send(
                make_interest(RESIDENT + from_uri(f"/f{number}"), nonce=rng.getrandbits(32), lifetime_ms=500)
            )


class Report(NamedTuple):
    """The daemon's state before the traffic, after a third of the time and at the end; counts of events."""

    before: DaemonState
    third: DaemonState
    after: DaemonState
    counts: Counter[str]
    growth: tuple[float, ...] = ()
    """Growth of memory in each interval after the first third, kB a life."""


def soak(
    minutes: float, seed: int, progress: Callable[[DaemonState, Counter[str]], None] = lambda *_: None
) -> Report:
    """Run real traffic for `minutes`; raise Violation if state is left, or nobody was answered."""
    with _running() as daemon:
        before = daemon.left()
        traffic = Traffic(daemon, seed)
        began = time.monotonic()
        traffic.start()
        third = None
        seen: list[tuple[int, int]] = []
        try:
            while time.monotonic() < began + minutes * 60 and not traffic.problems:
                time.sleep(min(minutes * 60 / 12, 30))
                daemon.check_alive()
                held = daemon.left()
                progress(held, traffic.counts)
                if third is None and time.monotonic() >= began + minutes * 20:
                    third = held
                if third is not None:
                    seen.append((traffic.lives, held.memory))
        finally:
            traffic.stop()
        if traffic.problems:
            raise Violation("traffic", "a worker", "; ".join(traffic.problems[:3]))
        daemon.check_alive()
        after = _settled(daemon, before)
        growth = [
            (memory - less) / max(lives - fewer, 1) for (fewer, less), (lives, memory) in pairwise(seen)
        ]
        report = Report(before, third or after, after, traffic.counts, tuple(growth))
        _check(report)
        daemon.stop()
        return report


def _settled(daemon: Daemon, before: DaemonState) -> DaemonState:
    """Return the state after idle faces and lifetimes have ended."""
    until = time.monotonic() + _PATIENCE_S
    while True:
        after = daemon.left()
        if after[:-1] == before[:-1] or time.monotonic() > until:
            return after
        time.sleep(0.5)


def _check(report: Report) -> None:
    before, after = report.before, report.after
    for what in ("faces", "routes", "pit", "feeds", "files"):
        if (now := getattr(after, what)) != (then := getattr(before, what)):
            raise Violation("left", "the daemon", f"{what}: {then} before, {now} after")
    ratio = after.memory / report.third.memory
    is_steady = statistics.median(report.growth or (0,)) > STEADY
    if ratio > TOO_MUCH or (ratio > MEMORY and is_steady):
        raise Violation("growth", "the daemon", f"{report.third.memory} kB are {after.memory} now")
