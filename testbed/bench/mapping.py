"""Capacity of a name service: `python -m testbed.bench.mapping [--json] [COUNT]...`.

A server with each number of ids, in a process of its own: resident memory; updates and queries per second of
processor time, each a whole Interest in and Data out of the server, without a forwarder. Every record is
genuine. Most of an update's time is its Ed25519 signature. The author's device makes records, which does not
count.
"""

import gc
import hashlib
import sys
from collections.abc import Sequence
from functools import partial
from random import Random

import click

from base.units import MS
from ssb.keys import Identity
from ssb_over_ndn.mapping.messages import make_query, make_update, server_name, store_name
from ssb_over_ndn.mapping.record import MOST_TTL_MS, make_record
from ssb_over_ndn.mapping.server import NameServer
from testbed.bench.figures import Line
from testbed.bench.load import BenchError
from testbed.bench.pit import resident_bytes
from testbed.bench.program import command, fresh, report, run, timed

COUNTS = (1_000, 10_000, 100_000)
_LIFETIME = 86_400_000 * MS
_AT_A_TIME = 1_000
_QUESTIONS = 10_000
_PATIENCE_S = 1_800


def measure(count: int) -> dict[str, float]:
    """Register ids with a server, and query some; return figures by title; raise BenchError."""
    server, store = server_name(0), (store_name("store"),)
    node = NameServer()
    refs = []
    before = resident_bytes()
    spent = 0.0
    for first in range(0, count, _AT_A_TIME):
        updates = []
        for number in range(first, min(first + _AT_A_TIME, count)):
            author = Identity.from_seed(hashlib.sha256(b"id %d" % number).digest())
            record = make_record(
                author.ref, author.sign, 1, store, now=0, lifetime=_LIFETIME, ttl=MOST_TTL_MS * MS
            )
            updates.append(make_update(author.ref, record, server, number))
            refs.append(author.ref)
        spent += timed(partial(_receive, node, updates))
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
    asked = timed(lambda: _receive(node, queries))
    if len(node.take_outputs()) != len(queries) or node.counters["unknown"]:
        raise BenchError("not every question has an answer")
    return {
        "memory, MB": taken / 1e6,
        "an id, bytes": taken / count,
        "updates/s": count / spent,
        "questions/s": len(queries) / asked,
    }


def _receive(node: NameServer, packets: Sequence[bytes]) -> None:
    for packet in packets:
        node.receive(packet, 0)


@command
@click.argument("counts", nargs=-1, type=click.IntRange(1, 10_000_000))
def bench(counts: tuple[int, ...], as_json: bool) -> None:
    """Measure what a server of the name service bears, with COUNTS of ids, by default 1,000 to 100,000."""
    rows = [
        Line(f"{count:,} ids", fresh("testbed.bench.mapping", count, patience_s=_PATIENCE_S))
        for count in counts or COUNTS
    ]
    report("processor time, resident memory", rows, as_json)


if __name__ == "__main__":
    run(bench, "testbed.bench.mapping")
