"""`feednet analyze` on a cluster: `make bench-analysis`, or `python -m testbed.bench.runs.cluster`.

A standalone master of Spark is started on this machine with one worker of one core, and then with two.
feednet analyses one large capture, and a directory of small ones. A figure is the wall time of the command,
with its start and its page. It tells of the cluster only if the machine has more cores than workers, and
nothing else to do.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGKILL
from urllib.error import URLError
from urllib.request import urlopen

import click
import pyspark

from base.sockets import free_port
from testbed.bench.figures import Measured, Row, Series
from testbed.bench.load import BenchError
from testbed.bench.program import command, report, run
from testbed.bench.runs.decode import write_capture

BAR = 1.7
"""Minimum gain of a second worker."""

FILES = 200
PATIENCE_S = 300.0
_ROOT = Path(__file__).resolve().parents[3]
_HOST = "127.0.0.1"


class Cluster:
    """A standalone master, and workers of one core and 1 GB in directories of their own under `directory`."""

    def __init__(self, directory: Path, workers: int) -> None:
        self.directory = directory
        self.places = [directory / f"worker-{number + 1}" for number in range(workers)]
        self.port, self._page = free_port(), free_port()
        self.url = f"spark://{_HOST}:{self.port}"
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start the master and all workers."""
        ports = "--port", str(self.port), "--webui-port", str(self._page)
        self._start(self.directory, "master.Master", "--host", _HOST, *ports)
        for number in range(len(self.places)):
            self.start_worker(number)
        self.wait()

    def start_worker(self, number: int) -> None:
        """Start a worker, by its number from 0."""
        size = "--cores", "1", "--memory", "1g"
        at = "--host", _HOST, "--webui-port", "0"
        self._start(self.places[number], "worker.Worker", *at, *size, self.url)

    def wait(self) -> None:
        """Wait for all workers; raise BenchError if the master or one of them has ended by itself."""
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until and all(each.poll() in (None, -SIGKILL) for each in self._processes):
            try:
                with urlopen(f"http://{_HOST}:{self._page}/json/", timeout=PATIENCE_S) as said:
                    if json.load(said)["aliveworkers"] == len(self.places):
                        return
            except (URLError, OSError):
                pass
            time.sleep(0.5)
        raise BenchError("\n".join(log.read_text()[-2000:] for log in self.directory.glob("**/log")))

    def end(self) -> None:
        """End all processes."""
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _start(self, place: Path, what: str, *options: str) -> None:
        place.mkdir(exist_ok=True)
        own = {"SPARK_WORKER_DIR": str(place), "SPARK_LOCAL_DIRS": str(place / "local"), "PYTHONPATH": ""}
        # spark-class becomes Java (exec), so that the process is the daemon itself.
        program = Path(pyspark.__path__[0]) / "bin" / "spark-class"
        with (place / "log").open("ab") as log:
            words = [str(program), f"org.apache.spark.deploy.{what}", *options]
            started = subprocess.Popen(words, cwd=place, env=environment() | own, stdout=log, stderr=log)
        self._processes.append(started)


def environment() -> dict[str, str]:
    """Return the environment of a user who has no settings of Spark's."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
    return kept | {"SPARK_LOCAL_IP": _HOST, "PYTHONPATH": str(_ROOT)}


@contextmanager
def standalone(directory: Path, workers: int) -> Iterator[Cluster]:
    """Start a cluster, and end it."""
    cluster = Cluster(directory, workers)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.end()


@command
@click.option("--packets", type=click.IntRange(min=1000), default=5_000_000)
@click.option("--repetitions", type=click.IntRange(min=1), default=1)
def bench(packets: int, repetitions: int, as_json: bool) -> None:
    """Measure what a second worker gains."""
    took: Measured = defaultdict(Series)
    with tempfile.TemporaryDirectory() as place:
        scratch = Path(place)
        given = {"one capture": scratch / "one.pcapng", f"{FILES} captures": scratch / "many"}
        write_capture(scratch / "one.pcapng", packets)
        (scratch / "many").mkdir()
        for number in range(FILES):
            write_capture(scratch / "many" / f"{number:03}.pcapng", -(-packets // FILES))
        for _ in range(repetitions):
            for workers in (1, 2):
                here = Path(tempfile.mkdtemp(dir=scratch))
                with standalone(here, workers) as cluster:
                    for what, captures in given.items():
                        took[f"{what}, {workers}"].add(_analysed(captures, here / what, cluster.url))
    rows = []
    for what in given:
        one, two = (took[f"{what}, {workers}"] for workers in (1, 2))
        rows += [
            Row(f"{what}, one worker", one, "s"),
            Row(f"{what}, two workers", two, "s"),
            Row(f"{what}, gain", one.over(two), "", BAR, note=f"of {os.cpu_count()} cores"),
        ]
    report(f"{packets:,} packets", rows, as_json, packets=packets)


def _analysed(captures: Path, out: Path, master: str) -> float:
    words = [sys.executable, "-m", "testbed.cli", "analyze", str(captures), "--out", str(out)]
    before = time.monotonic()
    done = subprocess.run(
        [*words, "--master", master], env=environment(), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise BenchError(done.stderr.strip().splitlines()[-1])
    return time.monotonic() - before


if __name__ == "__main__":
    run(bench, "testbed.bench.runs.cluster")
