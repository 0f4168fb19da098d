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
import json
import platform
import time
from collections.abc import Callable, Iterator
from random import Random
from typing import NamedTuple

import click
from rich.console import Console
from rich.table import Table

from forwarder.forwarder import Forwarder
from forwarder.wire.feed import feed_name, item_name
from forwarder.wire.name import prefix_ends
from forwarder.wire.packet import SENT_HOP_LIMIT, make_interest
from ssb_over_ndn.naming import LOGS
from testbed.bench.load import DOWN, UP, BenchError
from testbed.bench.pit import resident_bytes
from testbed.bench.program import is_compiled, printed_by, run

COUNTS = (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000)
_LOOKUPS = 20_000
_ELSEWHERE = 3
_PATIENCE_S = 300


class Costs(NamedTuple):
    """Costs of a number of routes.

    Attributes:
        routes: their number.
        bytes: resident memory, with their names.
        load_s: processor time to load them at once.
        lookup_ns: of the name of a random routed feed's item; components are known.
        miss_ns: of a name without a route.
        interest_us: of a whole Interest for such an item, from receiving to sending on.
        move_us: of changing one feed's route to another face.
        down_s, up_s: of the link to all feeds going down, and up again.
    """

    routes: int
    bytes: int
    load_s: float
    lookup_ns: float
    miss_ns: float
    interest_us: float
    move_us: float
    down_s: float
    up_s: float


def feed_names(count: int) -> Iterator[bytes]:
    """Yield `count` feed names, deterministically."""
    for number in range(count):
        yield _feed(number)


def _feed(number: int) -> bytes:
    return feed_name(LOGS, hashlib.sha256(b"feed %d" % number).digest())


def measure(count: int) -> Costs:
    """Load routes for `count` feeds into a new forwarder, and measure."""
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
    load_s = _timed(lambda: node.fib.add_many(feed_names(count), UP, 5))
    taken = resident_bytes() - before
    load_s -= _timed(lambda: sum(1 for _ in feed_names(count)))  # excludes making the names
    if len(node.fib) != count:
        raise BenchError(f"of {count} routes {len(node.fib)} are there")

    def look_up(names: list[tuple[bytes, list[int]]]) -> float:
        lookup = node.fib.lookup

        def all_of_them() -> None:
            for name, ends in names:
                lookup(name, ends)

        return min(_timed(all_of_them) for _ in range(5)) / len(names) * 1e9

    def forward() -> None:
        for number, interest in enumerate(interests):
            node.receive(DOWN, interest, number)
            node.take_outputs()

    def move() -> None:
        for feed in feeds:
            node.fib.remove(feed, UP)
            node.fib.add(feed, _ELSEWHERE, 5)

    lookup_ns, miss_ns = look_up(known), look_up(others)
    interest_us = _timed(forward) / len(interests) * 1e6
    if len(node.pit) != len(interests):
        raise BenchError(f"of {len(interests)} Interests {len(node.pit)} were sent on")
    down_s = _timed(lambda: node.fib.suspend(UP))
    up_s = _timed(lambda: node.fib.resume(UP))
    move_us = _timed(move) / len(feeds) * 1e6
    return Costs(count, taken, load_s, lookup_ns, miss_ns, interest_us, move_us, down_s, up_s)


def _timed(action: Callable[[], object]) -> float:
    begun = time.process_time_ns()
    action()
    return (time.process_time_ns() - begun) / 1e9


def in_a_fresh_process(count: int) -> Costs:
    """Measure in a process without freed memory to reuse; raise BenchError."""
    module = "testbed.bench.routes"
    return Costs(**json.loads(printed_by(module, "--inside", str(count), patience_s=_PATIENCE_S)))


def table(costs: list[Costs]) -> Table:
    """Format costs for reading."""
    shown = Table("routes", "memory", "a route", "loading", "look-up", "no route", "Interest", "a move")
    shown.add_column("link down, up")
    for each in costs:
        shown.add_row(
            f"{each.routes:,}",
            f"{each.bytes / 1e6:,.1f} MB",
            f"{each.bytes / each.routes:,.0f} bytes" if each.routes >= COUNTS[4] else "",
            f"{each.load_s:.3f} s",
            f"{each.lookup_ns:,.0f} ns",
            f"{each.miss_ns:,.0f} ns",
            f"{each.interest_us:.1f} us",
            f"{each.move_us:.1f} us",
            f"{each.down_s:.2f} s, {each.up_s:.2f} s",
        )
    return shown


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("counts", nargs=-1, type=click.IntRange(1, 10_000_000))
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.option("--inside", is_flag=True, hidden=True)
def bench(counts: tuple[int, ...], as_json: bool, inside: bool) -> None:
    """Measure what routes cost a forwarder: COUNTS of them, by default 1 to 1,000,000."""
    if inside:
        click.echo(json.dumps(measure(counts[0])._asdict()))
        return
    kind = "compiled" if is_compiled() else "plain"
    costs = [in_a_fresh_process(count) for count in counts or COUNTS]
    if as_json:
        click.echo(json.dumps({"kind": kind, "costs": [each._asdict() for each in costs]}))
        return
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 150
    console.print(f"{kind} Python {platform.python_version()}; processor time, resident memory")
    console.print(table(costs))


if __name__ == "__main__":
    run(bench, "testbed.bench.routes")
