"""Cost of routes with one per feed: `python -m testbed.bench.routes [--json] [COUNT]...`

Theory of operation. SSB's ids are flat, so no prefix covers two feeds: a forwarder holds a route
`/ssb/logs/<id>` for each. Each number is measured in a process of its own, by resident memory and processor
time: memory of the routes with their names; loading them at once; lookups of random feeds' items; a whole
Interest; and moves of producers: a route changed to another face, and the link to all of them going down and
up again. One prefix that covers all feeds is the count 1: then nothing depends on the number of feeds.

`FEEDNET_COMPILE=1` builds are measured by running this with their modules first on the path, see the
Makefile.
"""

import gc
import hashlib
from collections.abc import Iterator
from random import Random

import click

from forwarder.forwarder import Forwarder
from forwarder.wire.feed import feed_name, item_name
from forwarder.wire.name import prefix_ends
from forwarder.wire.packet import SENT_HOP_LIMIT, make_interest
from ssb_over_ndn.naming import LOGS
from testbed.bench.figures import Line
from testbed.bench.load import DOWN, UP, BenchError
from testbed.bench.pit import resident_bytes
from testbed.bench.program import command, fresh, report, run, timed

COUNTS = (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000)
_LOOKUPS = 20_000
_ELSEWHERE = 3


def feed_names(count: int) -> Iterator[bytes]:
    """Yield `count` feed names, deterministically."""
    for number in range(count):
        yield _feed(number)


def _feed(number: int) -> bytes:
    return feed_name(LOGS, hashlib.sha256(b"feed %d" % number).digest())


def measure(count: int) -> dict[str, float]:
    """Load routes for `count` feeds into a new forwarder; return figures by title."""
    node = Forwarder(rng=Random(0), controlled_push=False)
    for face in (DOWN, UP, _ELSEWHERE):
        node.add_face(face)
    rng = Random(1)
    feeds = [_feed(rng.randrange(count)) for _ in range(_LOOKUPS)]
    known = [(name, prefix_ends(name)) for name in (item_name(feed, 1000) for feed in feeds)]
    others = [(name, prefix_ends(name)) for name in (item_name(_feed(-1 - k), 1) for k in range(_LOOKUPS))]
    interests = [
        make_interest(item_name(feed, 1001 + k), nonce=k, hop_limit=SENT_HOP_LIMIT)
        for k, feed in enumerate(feeds)
    ]
    gc.collect()
    gc.disable()  # without garbage it would only cost time
    before = resident_bytes()
    load_s = timed(lambda: node.fib.add_many(feed_names(count), UP, 5))
    taken = resident_bytes() - before
    load_s -= timed(lambda: sum(1 for _ in feed_names(count)))  # excludes making the names
    if len(node.fib) != count:
        raise BenchError(f"of {count} routes {len(node.fib)} are there")

    def look_up(names: list[tuple[bytes, list[int]]]) -> float:
        lookup = node.fib.lookup

        def all_of_them() -> None:
            for name, ends in names:
                lookup(name, ends)

        return min(timed(all_of_them) for _ in range(5)) / len(names) * 1e9

    def forward() -> None:
        for number, interest in enumerate(interests):
            node.receive(DOWN, interest, number)
            node.take_outputs()

    def move() -> None:
        for feed in feeds:
            node.fib.remove(feed, UP)
            node.fib.add(feed, _ELSEWHERE, 5)

    lookup_ns, miss_ns = look_up(known), look_up(others)
    interest_us = timed(forward) / len(interests) * 1e6
    if len(node.pit) != len(interests):
        raise BenchError(f"of {len(interests)} Interests {len(node.pit)} were sent on")
    down_s = timed(lambda: node.fib.suspend(UP))
    up_s = timed(lambda: node.fib.resume(UP))
    move_us = timed(move) / len(feeds) * 1e6
    return {
        "memory, MB": taken / 1e6,
        **({"a route, bytes": taken / count} if count >= COUNTS[4] else {}),
        "loading, s": load_s,
        "look-up, ns": lookup_ns,
        "no route, ns": miss_ns,
        "Interest, us": interest_us,
        "a move, us": move_us,
        "link down, s": down_s,
        "up, s": up_s,
    }


@command
@click.argument("counts", nargs=-1, type=click.IntRange(1, 10_000_000))
def bench(counts: tuple[int, ...], as_json: bool) -> None:
    """Measure what routes cost a forwarder: COUNTS of them, by default 1 to 1,000,000."""
    rows = [Line(f"{count:,} routes", fresh("testbed.bench.routes", count)) for count in counts or COUNTS]
    report("processor time, resident memory", rows, as_json)


if __name__ == "__main__":
    run(bench, "testbed.bench.routes")
