"""Speed of storing and reading SSB feeds: `python -m testbed.bench.peers.store [--messages N]`.

Messages resemble a real feed's in size. They are made in batches and arrive as from a peer: 500 at once, 50
of a feed in a row, feeds at random. `append` is timed by wall clock, its verification separately. Memory is
the growth of the resident size after a tenth was stored. The store is opened after a clean end, and after its
writer was killed with unmerged batches in SQLite's log. The graph has as many feeds, and ten follows or
blocks for each.

Slowness is no failure: a figure on the wrong side of its bar is shown as missed.
"""

import os
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random

import click

from ssb.canonical import Value
from ssb.generate import SIZE_QUANTILES
from ssb.graph import CONTACT, Graph
from ssb.keys import Identity
from ssb.message import Message
from ssb.store.admission import Changes
from ssb.store.sqlite import SqliteFeeds
from testbed.bench.figures import Row, figure
from testbed.bench.pit import resident_bytes
from testbed.bench.program import command, report, run

BATCH, RUN = 500, 50
_SAMPLE = 20_000
_EDGES_A_FEED = 10


class Stopwatch:
    """A stopwatch, wall-clock seconds, accumulated."""

    def __init__(self) -> None:
        self.seconds = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count the time inside."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.seconds += time.perf_counter() - begun


class TimedFeeds(SqliteFeeds):
    """A store that measures the time of writing verified messages."""

    def __init__(self, path: Path) -> None:
        self.writing = Stopwatch()
        super().__init__(path)

    def _commit(self, changes: Changes) -> None:
        with self.writing.running():
            super()._commit(changes)


class Source:
    """Signed messages of many feeds, made on demand."""

    def __init__(self, rng: Random, feeds: int) -> None:
        self._rng = rng
        self.authors = [Identity.from_seed(rng.randbytes(32)) for _ in range(feeds)]
        self._tips: list[Message | None] = [None] * feeds
        self._long_text = rng.randbytes(SIZE_QUANTILES[-1]).hex()

    def batches(self, messages: int) -> Iterator[list[Message]]:
        """Yield batches of the next messages, some in a row of each of some feeds."""
        for left in range(messages, 0, -BATCH):
            batch: list[Message] = []
            while len(batch) < (size := min(BATCH, left)):
                feed = self._rng.randrange(len(self.authors))
                batch += [self._next(feed) for _ in range(min(RUN, size - len(batch)))]
            yield batch

    def _next(self, feed: int) -> Message:
        text = self._text()
        return self._write(feed, {"type": "post" if self._rng.random() < 0.9 else CONTACT, "text": text})

    def _text(self) -> str:
        return self._long_text[: max(self._rng.choice(SIZE_QUANTILES) - 385, 0)]

    def _write(self, feed: int, content: Mapping[str, Value] | str) -> Message:
        message = Message.create(self.authors[feed], self._tips[feed], content, 1.5e12)
        self._tips[feed] = message
        return message


def measure(directory: Path, messages: int, feeds: int) -> list[Row]:
    """Measure everything once, in a directory with enough space."""
    rng, path = Random(0), directory / "feeds.db"
    figures = [*_measure_store(rng, path, messages, feeds)]
    figures += _measure_graph(rng, feeds)
    return figures


def _measure_store(rng: Random, path: Path, messages: int, feeds: int) -> Iterator[Row]:
    source = Source(rng, feeds)
    appending, resident, stored = Stopwatch(), 0, 0
    with TimedFeeds(path) as store:
        for batch in source.batches(messages):
            with appending.running():
                store.append(batch, 1.6e12)
            stored += len(batch)
            if stored >= messages // 10 and not resident:
                resident = resident_bytes()
        yield figure("append, verified before", stored / store.writing.seconds, "messages/s", 10_000)
        yield figure("append and verify", stored / appending.seconds, "messages/s")
        yield figure("memory for the last 9 in 10", (resident_bytes() - resident) / 1e6, "MB", 64, True)
        yield from _read(rng, store, messages)
        sample = max(1, messages // 1000)
        publishing = Stopwatch()
        own = Identity.from_seed(rng.randbytes(32))
        for number in range(sample):
            with publishing.running():
                store.publish(own, {"type": "post", "text": "x" * 200}, number)
        yield figure("publish, one at a time, to the disk", sample / publishing.seconds, "messages/s")
    yield figure("file", path.stat().st_size / stored, "bytes/message")
    yield figure("open", _open(path), "s", 2, True)
    _die_writing(path, source)
    yield figure("open after a kill", _open(path), "s", 2, True)


def _read(rng: Random, store: SqliteFeeds, messages: int) -> Iterator[Row]:
    feeds = rng.sample(sorted(store.tips()), min(len(store.tips()), _SAMPLE // RUN))
    for what, is_compact in (("after, 50 at a time", False), ("after, made compact for peers", True)):
        reading, count = Stopwatch(), 0
        with reading.running():
            for feed in feeds:
                page = store.after(feed, 0, RUN)
                count += len(page)
                for stored in page if is_compact else ():
                    _ = stored.compact
        yield figure(what, count / reading.seconds, "messages/s", 10_000 if is_compact else None)
    places = [store.log(rng.randrange(messages), 1)[0] for _ in range(min(messages, _SAMPLE // 10))]
    ids = [stored.id for stored in places]
    getting = Stopwatch()
    with getting.running():
        for name in ids:
            store.get(name)
    yield figure("get by id", len(ids) / getting.seconds, "messages/s")
    telling = Stopwatch()
    with telling.running():
        tips = dict(store.tips())
    yield figure(f"copy of tips(), {len(tips):,} feeds", telling.seconds * 1e3, "ms")


def _open(path: Path) -> float:
    opening = Stopwatch()
    with opening.running():
        store = SqliteFeeds(path)
    store.close()
    return opening.seconds


def _die_writing(path: Path, source: Source) -> None:
    """Have a process killed with SQLite's log full."""
    batches = [*source.batches(3 * BATCH)]
    child = os.fork()
    if child == 0:
        try:
            store = SqliteFeeds(path)
            store._database.execute("PRAGMA wal_autocheckpoint = 0")
            for batch in batches:
                store.append(batch, 1.6e12)
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)


def _measure_graph(rng: Random, feeds: int) -> Iterator[Row]:
    refs = [Identity.from_seed(rng.randbytes(32)).ref for _ in range(feeds)]
    weights = [(rank + 1) ** -0.8 for rank in range(feeds)]
    edges = feeds * _EDGES_A_FEED
    graph = Graph(refs[min(feeds - 1, 50)], 3)

    def state(number: int) -> None:
        source, target = rng.choices(refs, weights, k=2)
        content = {"type": CONTACT, "contact": target, "following": rng.random() < 0.9}
        with taking.running():
            graph.add_content(source, number, content)

    taking, settling = Stopwatch(), Stopwatch()
    for number in range(1, edges + 1):
        state(number)
    with settling.running():
        graph.replicated()
    yield figure(f"graph, {edges:,} statements", taking.seconds + settling.seconds, "s")
    taking, changes = Stopwatch(), min(edges, 2000)
    for number in range(edges + 1, edges + changes + 1):
        state(number)
        with taking.running():
            graph.replicated()
    yield figure("graph, a further statement, mean", taking.seconds / changes * 1e6, "us")


@command
@click.option("--messages", type=click.IntRange(min=1000), default=1_000_000)
@click.option("--feeds", type=click.IntRange(min=2), default=10_000)
def bench(messages: int, feeds: int, as_json: bool) -> None:
    """Measure how fast SSB feeds are stored and read, and the graph of who follows whom is kept."""
    with tempfile.TemporaryDirectory() as directory:
        figures = measure(Path(directory), messages, feeds)
    report(f"{messages:,} messages of {feeds:,} feeds", figures, as_json, messages=messages, feeds=feeds)


if __name__ == "__main__":
    run(bench, "testbed.bench.peers.store")
