"""Capacity of a name service: `python -m testbed.bench.mapping [--json] [COUNT]...`.

A server with each number of ids, in a process of its own: resident memory; updates and queries per second of
processor time, each a whole Interest in and Data out of the server, without a forwarder. Every record is
genuine. Most of an update's time is its Ed25519 signature. The author's device makes records, which does not
count.
"""

import gc
import hashlib
import json
import platform
import sys
import time
from random import Random
from typing import NamedTuple

import click
from rich.console import Console
from rich.table import Table

from base.units import MS
from ssb.keys import Identity
from ssb_over_ndn.mapping.messages import make_query, make_update, server_name, store_name
from ssb_over_ndn.mapping.record import MOST_TTL_MS, make_record
from ssb_over_ndn.mapping.server import NameServer
from testbed.bench.load import BenchError
from testbed.bench.pit import resident_bytes
from testbed.bench.program import printed_by, run

COUNTS = (1_000, 10_000, 100_000)
_LIFETIME = 86_400_000 * MS
_AT_A_TIME = 1_000
_QUESTIONS = 10_000
_PATIENCE_S = 1_800


class Load(NamedTuple):
    """Capacity of a server.

    Attributes:
        ids: number of registered ids.
        bytes: resident memory of their records.
        updates, queries: per second of processor time.
    """

    ids: int
    bytes: int
    updates: float
    queries: float


def measure(count: int) -> Load:
    """Register ids with a server, and query some; raise BenchError."""
    server, store = server_name(0), (store_name("store"),)
    node = NameServer()
    refs = []
    before = resident_bytes()
    spent = 0
    for first in range(0, count, _AT_A_TIME):
        updates = []
        for number in range(first, min(first + _AT_A_TIME, count)):
            author = Identity.from_seed(hashlib.sha256(b"id %d" % number).digest())
            record = make_record(
                author.ref, author.sign, 1, store, now=0, lifetime=_LIFETIME, ttl=MOST_TTL_MS * MS
            )
            updates.append(make_update(author.ref, record, server, number))
            refs.append(author.ref)
        begun = time.process_time_ns()
        for update in updates:
            node.receive(update, 0)
        spent += time.process_time_ns() - begun
        node.take_outputs()
        node.take_events()
    del updates
    known = refs if count <= _QUESTIONS else Random(0).sample(refs, _QUESTIONS)
    refs_bytes = sum(map(sys.getsizeof, refs)) + sys.getsizeof(refs)
    gc.collect()
    taken = resident_bytes() - before - refs_bytes
    if len(node.ledger) != count:
        raise BenchError(f"of {count} ids {len(node.ledger)} are known")
    queries = [make_query(ref, server, number) for number, ref in enumerate(known)]
    begun = time.process_time_ns()
    for query in queries:
        node.receive(query, 0)
    asked = time.process_time_ns() - begun
    if len(node.take_outputs()) != len(queries) or node.counters["unknown"]:
        raise BenchError("not every question has an answer")
    return Load(count, taken, count / spent * 1e9, len(queries) / asked * 1e9)


def in_a_fresh_process(count: int) -> Load:
    """Measure in a process without freed memory to reuse; raise BenchError."""
    module = "testbed.bench.mapping"
    return Load(**json.loads(printed_by(module, "--inside", str(count), patience_s=_PATIENCE_S)))


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("counts", nargs=-1, type=click.IntRange(1, 10_000_000))
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.option("--inside", is_flag=True, hidden=True)
def bench(counts: tuple[int, ...], as_json: bool, inside: bool) -> None:
    """Measure what a server of the name service bears, with COUNTS of ids, by default 1,000 to 100,000."""
    if inside:
        click.echo(json.dumps(measure(counts[0])._asdict()))
        return
    loads = [in_a_fresh_process(count) for count in counts or COUNTS]
    if as_json:
        click.echo(json.dumps([each._asdict() for each in loads]))
        return
    shown = Table("ids", "memory", "an id", "updates", "questions")
    for each in loads:
        shown.add_row(
            f"{each.ids:,}",
            f"{each.bytes / 1e6:,.1f} MB",
            f"{each.bytes / each.ids:,.0f} bytes",
            f"{each.updates:,.0f} /s",
            f"{each.queries:,.0f} /s",
        )
    console = Console(highlight=False)
    console.print(f"Python {platform.python_version()}; processor time, resident memory")
    console.print(shown)


if __name__ == "__main__":
    run(bench, "testbed.bench.mapping")
