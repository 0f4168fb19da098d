"""How fast the forwarder is: `make bench`, or `python -m testbed.bench [--json] [--quick]`.

Theory of operation. Machines are noisy and unlike each other, so what counts is ratios within one run.
Everything is measured once a repetition, one after the other, and a ratio is taken between two figures of
the same repetition; shown is the median of the repetitions with the least and the greatest. Times are
processor time, of this process or of the one that is measured, but for one figure.

- Exchanges: a window of fresh Interests in on one face, then their Data in on the other. A packet is
  counted when it is received; what it costs includes sending it on.
- Pushes: an LLI from each of two downstreams, then the items of a feed, each verified and sent on to both.
- Sockets: the same exchanges through a forwarder in a process of its own, by UDP between known neighbours
  and by the daemon's faces, and as many datagrams of the same sizes over loopback through a C program that
  does nothing but recv() and send(). With one system call for a datagram received and one for a datagram
  sent there is no less; in runs of datagrams, which cross the kernel as one, there is.
- Push over UDP: a feed to eight downstreams, held against exchanges on the same way.
- One exchange at a time: how long it takes, which alone is by the clock on the wall, and the same packets
  by the C program.
- PIT: what so many pending Interests take in memory, once, in a process that does nothing else.
- Ed25519, SHA-256 and SSB messages, for scale.

Nothing fails for being slow: a figure below its bar is shown as missed.
"""

import gc
import json
import platform
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from random import Random
from statistics import quantiles
from typing import Any

import click
from rich.console import Console
from rich.progress import track

from ssb.generate import generate_feed
from testbed.bench.core import measure_crypto, measure_exchanges, measure_push
from testbed.bench.faces import DOWNSTREAMS, carry_push, carry_runs, carry_stream, round_trips, through_faces
from testbed.bench.figures import Measured, Row, Series, table
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
from testbed.bench.pit import in_a_fresh_process
from testbed.bench.process import Passage, Usage
from testbed.bench.program import is_compiled, run
from testbed.bench.rows import lay_out
from testbed.bench.udp import carry, compile_echo, through_echo, through_feednet

_BUDGET_S = 50.0  # no further repetition begins after this
_PIPED_WIDTH = 150


@dataclass(frozen=True)
class Size:
    """How much is measured.

    Attributes:
        exchanges, items: Interests with their Data, and items of a feed, a repetition.
        alone: exchanges a repetition of which there is one at a time.
        repetitions: how often all this.
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

    Raises BenchError, or OSError if there are no sockets or processes to be had.
    """
    measured: Measured = defaultdict(Series)
    missing: dict[str, str] = {}
    load = make_exchanges(size.exchanges)
    alone = Exchanges(load.interests[: size.alone], load.data[: size.alone])
    messages = generate_feed(Random(0), size.items)
    native = native_feed(size.items)
    feeds = {"native": native, "SSB": ssb_feed(messages)}
    gc.collect()
    gc.freeze()  # the bench's own objects are no part of what it measures
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
        measured["pit"].add(in_a_fresh_process(size.pending), pending=size.pending)
    except BenchError as error:  # there may not be that much memory
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
    """Measure what a packet costs the process that it passes through, microseconds."""
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
    """Measure how long an exchange takes while there is no other, microseconds."""
    with passage as opened:
        cuts = quantiles(round_trips(opened, load), n=100, method="inclusive")
    measured[f"{name} p50"].add(cuts[49] / 1e3)
    measured[f"{name} p99"].add(cuts[98] / 1e3)


def environment() -> dict[str, Any]:
    """Describe what is measured and on what."""
    return {
        "feednet": version("feednet"),
        "compiled": is_compiled(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
    }


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--json", "as_json", is_flag=True, help="For programs.")
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
        auto_refresh=False,  # a thread that draws would be measured too
    )
    rows = measure(size, rounds)
    about = environment()
    if as_json:
        click.echo(json.dumps({**about, "size": asdict(size), "rows": [row.as_json() for row in rows]}))
        return
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _PIPED_WIDTH
    kind = "compiled" if about["compiled"] else "plain"
    console.print(f"feednet {about['feednet']}, {kind} Python {about['python']}, {about['system']}")
    console.print(table(rows))


if __name__ == "__main__":
    run(bench, "testbed.bench")
