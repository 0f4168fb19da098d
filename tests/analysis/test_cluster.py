"""A Spark cluster of real processes, a master and two workers on loopback, and the command line on it.

What it makes must be what one machine makes. Workers work in directories of their own, so a path that only
makes sense in the user's directory does not pass.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from patience import PATIENCE_S

from analysis.metrics.study import study
from analysis.pipelines.compare import read_sweep
from analysis.pipelines.run import analyze
from analysis.report.study import render_study
from base.files import write_whole
from base.sockets import free_port
from testbed.bench.runs.cluster import Cluster, environment, standalone
from testbed.cli.main import feednet
from testbed.experiment.options import RunOptions
from testbed.experiment.sweeps import sweep

pytestmark = [pytest.mark.spark, pytest.mark.long]

ROOT = Path(__file__).resolve().parents[2]
FEEDNET = (sys.executable, "-m", "testbed.cli")
ENVIRONMENT = environment()
SCENARIO = ["--items", "8", "--layering", "poll", "--layering", "lli", "--net", "emulated"]


def finished(cluster: Cluster) -> list[int]:
    """Return how many tasks each worker's executors have finished so far, by their logs."""
    logs = ([log.read_text() for log in place.glob("app-*/*/stderr")] for place in cluster.places)
    return [sum(text.count(" Finished task ") for text in texts) for texts in logs]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with standalone(tmp_path_factory.mktemp("cluster"), 2) as started:
        yield started


def command(arguments: list[str], cwd: Path) -> subprocess.CompletedProcess:
    """Run the command line as a user does, where he is."""
    return subprocess.run(
        [*FEEDNET, *arguments],
        cwd=cwd,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def on_cluster(cluster: Cluster, arguments: list[str], cwd: Path) -> None:
    before = finished(cluster)
    done = command([*arguments, "--master", cluster.url], cwd)
    assert done.returncode == 0, done.stderr[-3000:]
    assert all(now > then for now, then in zip(finished(cluster), before, strict=True)), "a worker was idle"


def rows(path: Path) -> Counter:
    """Return the rows of a table, whatever their order."""
    return Counter(map(repr, pq.read_table(path).to_pylist()))


def assert_same_tables(ours: Path, theirs: Path) -> None:
    names = sorted(path.name for path in theirs.iterdir())
    assert names == sorted(path.name for path in ours.iterdir())
    for name in names:
        if name.endswith(".parquet"):
            assert rows(ours / name) == rows(theirs / name), name


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run without its report."""
    directory = tmp_path_factory.mktemp("user") / "run"
    done = CliRunner().invoke(feednet, ["run", "fanout", *SCENARIO, "--no-report", "--out", str(directory)])
    assert done.exit_code == 0, done.output
    return directory


@pytest.mark.slow
def test_a_report(cluster, captured, jvm):
    local = captured.with_name("local")
    shutil.copytree(captured, local)
    analyze(local, engine="spark", all_tables=True)
    on_cluster(cluster, ["report", captured.name, "--all-tables"], captured.parent)
    assert_same_tables(captured / "tables", local / "tables")
    assert (captured / "report.html").read_bytes() == (local / "report.html").read_bytes()


@pytest.mark.slow
def test_the_tables_of_captures(cluster, captured, jvm):
    captures = [f"{x}={captured.name}/{x}/capture.pcapng" for x in ("poll", "lli")]
    on_cluster(cluster, ["analyze", *captures, "--out", "there"], captured.parent)
    done = command(["analyze", *captures, "--engine", "spark", "--out", "here"], captured.parent)
    assert done.returncode == 0, done.stderr
    here, there = captured.with_name("here"), captured.with_name("there")
    assert_same_tables(there, here)
    assert rows(there / "packets") == rows(here / "packets")
    assert json.loads((there / "summary.json").read_text()) == json.loads((here / "summary.json").read_text())


@pytest.mark.slow
def test_a_sweep_of_a_users_own_scenario(cluster, jvm, tmp_path):
    shutil.copy(ROOT / "testbed" / "scenario" / "files" / "fanout.toml", tmp_path / "mine.toml")
    settings = [*SCENARIO, "--sweep", "loss=0,5", "--repeat", "2"]
    on_cluster(cluster, ["run", "mine.toml", *settings, "--on-spark", "--out", "there"], tmp_path)
    here, there = tmp_path / "here", tmp_path / "there"
    options = RunOptions(items=8, layerings=("poll", "lli"), sweeps=("loss=0,5",), repeat=2)
    jobs = sweep.plan(str(tmp_path / "mine.toml"), options, ["feednet", "run"])
    for job in jobs:
        sweep.emulate(job, here)
        for name in ("capture.pcapng", "events.jsonl", "counters.jsonl"):
            for layering in options.layerings:
                path = Path(job.place, layering, name)
                assert (here / path).read_bytes() == (there / path).read_bytes(), path
    sweep.measure(jobs, here, "feednet run", None, "spark", lambda *_: None)
    assert rows(there / "measures.parquet") == rows(here / "measures.parquet")
    (_, _, origin, _), (scenario, title, _, records) = read_sweep(there), read_sweep(here)
    write_whole(here / "study.html", render_study(study(scenario, title, records, [origin])))
    assert (there / "study.html").read_bytes() == (here / "study.html").read_bytes()


def test_a_master_that_is_not_there(captured):
    port = free_port()
    done = command(["report", captured.name, "--master", f"spark://127.0.0.1:{port}"], captured.parent)
    assert done.returncode == 1
    refused = f"no Spark master answers at 127.0.0.1:{port}: Connection refused"
    assert done.stderr == f"feednet: {refused}: start it, or correct --master\n"
    arguments = ["run", "fanout", "--repeat", "2", "--on-spark", "--out", "sweep"]
    done = command([*arguments, "--master", f"spark://127.0.0.1:{port}"], captured.parent)
    assert done.returncode == 1
    assert refused in done.stderr
    assert not captured.with_name("sweep").exists()


def wait_for_tasks(cluster: Cluster) -> None:
    """Wait until the second worker has finished another task."""
    before, until = finished(cluster)[1], time.monotonic() + PATIENCE_S
    while finished(cluster)[1] == before:
        assert time.monotonic() < until
        time.sleep(0.1)


def kill(cluster: Cluster, what: bytes) -> None:
    """Kill a process of the second worker."""
    for place in Path("/proc").glob("[0-9]*"):
        try:
            works_at, command_line = (place / "cwd").readlink(), (place / "cmdline").read_bytes()
        except OSError:  # it has ended, or is another user's
            continue
        if works_at.is_relative_to(cluster.places[1]) and what in command_line:
            os.kill(int(place.name), signal.SIGKILL)
            return
    raise AssertionError(f"no {what.decode()}")


def kill_an_executor(cluster: Cluster) -> None:
    """Kill the second worker's executor in the midst of its work."""
    wait_for_tasks(cluster)
    kill(cluster, EXECUTOR)


def lose_shuffles(cluster: Cluster) -> None:
    """Remove what the second worker has shuffled until one of the workers misses it."""
    until = time.monotonic() + PATIENCE_S
    logs = {log for place in cluster.places for log in place.glob("app-*/*/stderr")}
    while True:
        assert time.monotonic() < until
        for path in (cluster.places[1] / "local").rglob("shuffle_*.data"):
            path.unlink(missing_ok=True)
        new = {log for place in cluster.places for log in place.glob("app-*/*/stderr")} - logs
        if any(sign in log.read_text() for log in new for sign in MISSED):
            return
        time.sleep(0.02)


EXECUTOR, WORKER = b"CoarseGrainedExecutorBackend", b"deploy.worker.Worker"
MISSED = ("Failed to get block(s)", "Error occurred while fetching local blocks")


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["executor", "worker", "shuffle"])
def test_tables_are_the_same_after_a_loss(cluster: Cluster, captured: Path, lost: str) -> None:
    captures = [f"{x}={captured.name}/{x}/capture.pcapng" for x in ("poll", "lli")]
    alone, there = (captured.with_name(f"{name}-{lost}") for name in ("alone", "there"))
    done = command(["analyze", *captures, "--engine", "sail", "--out", alone.name], captured.parent)
    assert done.returncode == 0, done.stderr
    words = [*FEEDNET, "analyze", *captures, "--out", there.name, "--master", cluster.url]
    pipe = subprocess.PIPE
    running = subprocess.Popen(
        words, cwd=captured.parent, env=ENVIRONMENT, stdout=pipe, stderr=pipe, text=True
    )
    try:
        if lost == "shuffle":
            lose_shuffles(cluster)
        else:
            wait_for_tasks(cluster)
            kill(cluster, WORKER if lost == "worker" else EXECUTOR)
        _, complained = running.communicate(timeout=PATIENCE_S)
    finally:
        running.kill()
        if lost == "worker":
            cluster.start_worker(1)
            cluster.wait()
    assert running.returncode == 0, complained[-3000:]
    for table in (path.name for path in alone.iterdir() if path.is_dir()):
        assert rows(there / table) == rows(alone / table), table


@pytest.mark.slow
def test_seeds_are_played_by_a_cluster_that_loses_an_executor(cluster: Cluster, tmp_path: Path) -> None:
    arguments = ["simulate", "push", "--first", "77000", "--seeds", "600", "--keep-going"]
    alone = command(arguments, tmp_path)
    assert alone.returncode == 0, alone.stderr
    running = subprocess.Popen(
        [*FEEDNET, *arguments, "--master", cluster.url],
        cwd=tmp_path,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    kill_an_executor(cluster)
    said, complained = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 0, complained[-3000:]
    ours, theirs = (
        re.sub(r"(?m)^.* so far.*\n|, \d+ a second|^\d+ of .*\n", "", text) for text in (alone.stdout, said)
    )
    assert theirs == ours
    assert "600 seeds from 77000, 0 failed" in theirs
