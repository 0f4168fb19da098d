"""Lag and cost of `feednet watch`: `python -m testbed.bench.runs.watch [--rate N]...`.

A capture grows at a given rate: Interests and Data of distinct names, each seen at both ends of a link, some
450 bytes a packet. `feednet watch` follows it. After a warm-up, in which Java compiles, measured are over
`--seconds`: the lags of its batches, from written to shown, and the processor time of all its processes
(Python, Java, Python workers) for each second. Rate 0 stands for a capture that is whole from the beginning:
shown are the time until it has been read, and the processor time for all of it, Spark's start included.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import click

from testbed.bench.figures import Row, figure
from testbed.bench.load import BenchError
from testbed.bench.program import command, report, run
from testbed.bench.runs.decode import begin_capture, write_capture, write_exchange

_TICK_S = 0.05
_PATIENCE_S = 60
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


@command
@click.option("--rate", "rates", type=click.IntRange(min=0), multiple=True, default=(1000, 10_000))
@click.option("--seconds", type=click.IntRange(min=5), default=20)
@click.option("--warm-up", type=click.IntRange(min=1), default=20, help="Seconds after the first batch.")
@click.option("--every", type=float, default=1.0, help="Seconds between batches.")
@click.option("--packets", type=click.IntRange(min=1000), default=500_000)
def bench(
    rates: tuple[int, ...], seconds: int, warm_up: int, every: float, packets: int, as_json: bool
) -> None:
    """Measure how late `feednet watch` shows packets, and what it costs."""
    rows = []
    for rate in rates:
        with tempfile.TemporaryDirectory(prefix="feednet-bench-") as directory:
            path = Path(directory, "trace.pcapng")
            if rate:
                rows += _while_it_grows(path, rate, seconds, warm_up, every)
            else:
                rows += _whole(path, packets, every)
    report(f"feednet watch --every {every:g}", rows, as_json)


def _while_it_grows(path: Path, rate: int, seconds: int, warm_up: int, every: float) -> list[Row]:
    written: list[float] = []
    lags: list[float] = []
    shown, since, before = 0, 0.0, 0.0  # since: of the first batch, then of the end of the warm-up
    with path.open("wb") as file, _watching(path, every) as watch:
        writer, begun = begin_capture(file), time.monotonic()
        while not before or time.monotonic() - begun < since + seconds:
            now = time.monotonic() - begun
            while len(written) * 4 < now * rate:
                write_exchange(writer, len(written), time.time_ns())
                written.append(now)
            file.flush()
            if (frames := watch.shown()) > shown:
                since = since or now
                if before:
                    lags.append(now - written[shown // 4])
                shown = frames
            if not before and since and now >= since + warm_up:
                since, before = now, watch.spent()
            time.sleep(_TICK_S)
        cost = (watch.spent() - before) / (time.monotonic() - begun - since)
    if not lags:
        raise BenchError(f"no batch was shown within {seconds} s at {rate} packets a second")
    what = f"{rate:,} packets a second"
    return [
        figure(f"{what}: lag of a batch's first, median", median(lags), "s"),
        figure(f"{what}: lag, most", max(lags), "s"),
        figure(f"{what}: processor time a second", cost, "s"),
    ]


def _whole(path: Path, packets: int, every: float) -> list[Row]:
    write_capture(path, packets)
    begun = time.monotonic()
    with _watching(path, every) as watch:
        while watch.shown() < packets:
            time.sleep(_TICK_S)
        passed, cost = time.monotonic() - begun, watch.spent()
    what = f"{packets:,} packets at once"
    return [
        figure(f"{what}: time until shown", passed, "s"),
        figure(f"{what}: processor time", cost, "s"),
    ]


class _Watch:
    """`feednet watch` beside a capture."""

    def __init__(self, path: Path, every: float) -> None:
        words = ["-m", "testbed.cli", "watch", path, "--every", every]
        self._script = Path(f"{path}.live.js")
        self._log = Path(f"{path}.log")
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, *map(str, words)], stdout=log, stderr=log, start_new_session=True
            )

    def shown(self) -> int:
        """Return the number of frames on the page."""
        if self._process.poll() is not None:
            raise BenchError(f"feednet watch has ended: {self._log.read_text().strip()}")
        try:
            found = re.search(r'"frames":(\d+)', self._script.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return 0
        return int(found[1]) if found else 0

    def spent(self) -> float:
        """Return the processor time of all its living processes, s, and of children that they waited for."""
        ticks = 0
        for place in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = place.read_text().rpartition(")")[2].split()
            except OSError:  # it has just ended
                continue
            # proc(5): after the name in brackets, session is field 4, utime to cstime are 12 to 15.
            if int(fields[3]) == self._process.pid:
                ticks += sum(map(int, fields[11:15]))
        return ticks / _TICKS_A_SECOND

    def stop(self) -> None:
        """End it."""
        self._process.send_signal(signal.SIGINT)
        self._process.wait(_PATIENCE_S)


@contextmanager
def _watching(path: Path, every: float) -> Iterator[_Watch]:
    watch = _Watch(path, every)
    try:
        yield watch
    finally:
        watch.stop()


if __name__ == "__main__":
    run(bench, "testbed.bench.runs.watch")
