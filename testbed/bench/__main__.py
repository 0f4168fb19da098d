"""Performance of the forwarder: `make bench`, or `python -m testbed.bench [--json] [--quick]`.

Theory of operation. Machines are noisy and differ, so only ratios within one run count. Each repetition
measures everything in sequence, and a ratio is of two figures of one repetition; shown are the median over
repetitions, the minimum and the maximum. Times are processor time of this or the measured process, with one
exception.

- Exchanges: a window of fresh Interests in on one face, then their Data in on the other. A packet is counted
  when received; its cost includes sending it on.
- Pushes: an LLI from each of two downstreams, then the items of a feed, each verified and sent on to both.
- Sockets: the same exchanges through a forwarder in a process of its own, by UDP between known neighbours and
  by the daemon's faces, and equal numbers of equal datagrams over loopback through a C program of recv() and
  send() only: the minimum with one system call per datagram each way; less is possible only for runs of
  datagrams that cross the kernel as one.
- Push over UDP: a feed to eight downstreams, compared with exchanges on the same path.
- One exchange at a time: its duration, the only wall-clock time, and that of the same packets through the C
  program.
- PIT: memory of pending Interests, once, in a process that does nothing else.
- Ed25519, SHA-256 and SSB messages, for scale.

Slowness is no failure: a figure below its bar is shown as missed.
"""

import gc
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from statistics import quantiles

import click
from rich.console import Console
from rich.progress import track

from ssb.generate import generate_feed
from testbed.bench.core import measure_crypto, measure_exchanges, measure_push
from testbed.bench.faces import DOWNSTREAMS, carry_push, carry_runs, carry_stream, round_trips, through_faces
from testbed.bench.figures import Measured, Row, Series
from testbed.bench.load import (
    BenchError,
    Exchanges,
    Feed,
    make_exchanges,
    native_feed,
    new_forwarder,
    new_host,
    ssb_feed,
)
from testbed.bench.process import Passage, Usage
from testbed.bench.program import command, fresh, is_compiled, report, run
from testbed.bench.rows import lay_out
from testbed.bench.udp import carry, compile_echo, through_echo, through_feednet

_BUDGET_S = 50.0  # no repetition begins after this
_CAPTION = (
    "median (least - greatest); seconds and microseconds of CPU time, those of one exchange at a time by"
    " the clock"
)


@dataclass(frozen=True)
class Size:
    """Sizes of the measurements.

    Attributes:
        exchanges, items: Interests with their Data, and items of a feed, per repetition.
        alone: sequential exchanges per repetition.
        repetitions: number of repetitions.
        pending: Interests in the PIT, once.
    """

    exchanges: int
    items: int
    alone: int
    repetitions: int
    pending: int


FULL = Size(exchanges=16384, items=1024, alone=1024, repetitions=11, pending=1_000_000)
QUICK = Size(exchanges=512, items=32, alone=32, repetitions=2, pending=10_000)


def measure(size: Size, rounds: Iterable[object]) -> list[Row]:
    """Measure everything once in each round, until time runs out.

    Raises BenchError, or OSError if sockets or processes are unavailable.
    """
    measured: Measured = defaultdict(Series)
    missing: dict[str, str] = {}
    load = make_exchanges(size.exchanges)
    alone = Exchanges(load.interests[: size.alone], load.data[: size.alone])
    messages = generate_feed(Random(0), size.items)
    native = native_feed(size.items)
    feeds = {"native": native, "SSB": ssb_feed(messages)}
    gc.collect()
    gc.freeze()  # excludes the bench's own objects from measurements
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        echo, missing["echo"] = compile_echo(Path(directory))
        for _ in rounds:
            measure_exchanges(measured["core"], new_forwarder(), load)
            measure_exchanges(measured["host"], new_host(), load)
            for name, feed in feeds.items():
                measure_push(measured, name, feed)
            measure_way(measured, "feednet", through_feednet(), carry, load)
            measure_way(measured, "udp", through_faces("udp"), carry, load)
            if echo is not None:
                measure_way(measured, "C", through_echo(echo), carry, load)
            measure_way(measured, "runs", through_faces("udp in runs"), carry_runs, load)
            measure_way(measured, "unix", through_faces("unix"), carry_stream, load)
            measure_pushed(measured, native)
            measure_alone(measured, "udp", through_faces("udp"), alone)
            if echo is not None:
                measure_alone(measured, "C", through_echo(echo), alone)
            measure_alone(measured, "unix", through_faces("unix"), alone)
            measure_crypto(measured, messages)
            if time.monotonic() > begun + _BUDGET_S:
                break
    try:
        measured["pit"].add(fresh("testbed.bench.pit", size.pending), pending=size.pending)
    except BenchError as error:  # possibly not enough memory
        del measured["pit"]
        missing["pit"] = str(error)
    return lay_out(measured, missing, is_compiled=is_compiled())


def measure_way(
    measured: Measured,
    name: str,
    passage: AbstractContextManager[Passage],
    carrying: Callable[[Passage, Exchanges], Usage],
    load: Exchanges,
) -> None:
    """Measure a packet's cost for the process it passes through, microseconds."""
    with passage as opened:
        usage = carrying(opened, load)
    measured[f"{name} CPU"].add(usage.cpu / usage.received, received=usage.received, sent=usage.sent)
    measured[f"{name} user"].add(usage.user / usage.received)
    measured[f"{name} system"].add(usage.system / usage.received)


def measure_pushed(measured: Measured, feed: Feed) -> None:
    """Measure items and deliveries a CPU second from one neighbour to many."""
    with through_faces("udp", DOWNSTREAMS) as passage:
        usage = carry_push(passage, feed)
    items = len(feed.items)
    rate = items / usage.cpu * 1e6
    measured["pushed"].add(rate, received=items)
    measured["delivered"].add(rate * DOWNSTREAMS, sent=items * DOWNSTREAMS)


def measure_alone(
    measured: Measured, name: str, passage: AbstractContextManager[Passage], load: Exchanges
) -> None:
    """Measure the duration of sequential exchanges, microseconds."""
    with passage as opened:
        cuts = quantiles(round_trips(opened, load), n=100, method="inclusive")
    measured[f"{name} p50"].add(cuts[49] / 1e3)
    measured[f"{name} p99"].add(cuts[98] / 1e3)


@command
@click.option("--quick", is_flag=True, help="A few packets only: shows that it runs, not how fast.")
def bench(as_json: bool, quick: bool) -> None:
    """Measure how fast the forwarder is on this machine, as ratios within one run."""
    size = QUICK if quick else FULL
    errors = Console(stderr=True)
    rounds = track(
        range(size.repetitions),
        "measuring",
        console=errors,
        disable=not errors.is_terminal,
        transient=True,
        auto_refresh=False,  # a drawing thread would be measured, too
    )
    report("", measure(size, rounds), as_json, _CAPTION, size=asdict(size))


if __name__ == "__main__":
    run(bench, "testbed.bench")
