"""Ctrl-C, SIGTERM and kill -9: commands stop at once, in one line, and leave neither processes nor halves."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from exchange import A, B, answer, question, write
from patience import PATIENCE_S
from processes import FEEDNET, ROOT, Feednet, wait_for

from testbed.experiment import run as running
from testbed.experiment.platform import EMULATED
from testbed.scenario import workload
from testbed.scenario.reader import load
from topologies.mininet import sandbox

pytestmark = pytest.mark.long

LONG = ["run", "line", "--items", "60", "--layering", "lli", "--sweep", "seed=1..2000", "--no-report"]
"""Minutes, however fast the machine is."""
JOBS = 2


def finished(sweep):
    return sorted(path.parent for path in sweep.glob("*/*/manifest.json"))


@pytest.mark.parametrize(
    ("number", "to_all", "status", "said"),
    [
        (signal.SIGINT, True, 130, "feednet: interrupted"),
        (signal.SIGINT, False, 130, "feednet: interrupted"),
        (signal.SIGTERM, False, 143, "feednet: interrupted"),
        (signal.SIGKILL, False, -9, None),
    ],
)
def test_a_sweep_stops_at_once_and_its_workers_with_it(tmp_path, number, to_all, status, said):
    out = tmp_path / "out"
    with Feednet(*LONG, "--jobs", JOBS, "--out", out, cwd=tmp_path) as sweep:
        wait_for(lambda: len(finished(out)) >= 2, "two runs")
        there = len(finished(out))
        (os.killpg if to_all else os.kill)(sweep.process.pid, number)
        ended, _, complained = sweep.ended()
        assert ended == status
        assert said in (None, complained)  # by kill -9, Python complains of semaphores
        wait_for(lambda: not sweep.others(), "the end of its workers")
    runs = finished(out)
    # What was being renamed, and what was told while the signal was on its way.
    assert len(runs) <= there + 2 * JOBS
    if number != signal.SIGKILL:
        assert [path.parent for path in out.rglob("scenario.json") if path.parent not in runs] == []


def test_a_worker_that_dies_ends_the_sweep_in_one_line(tmp_path):
    out = tmp_path / "out"
    with Feednet(*LONG, "--jobs", 2, "--out", out, cwd=tmp_path) as sweep:
        wait_for(lambda: finished(out), "a run")
        workers = sweep.others()
        assert len(workers) >= 2
        os.kill(min(workers), signal.SIGKILL)
        status, _, complained = sweep.ended()
        assert status == 1
        assert complained.startswith("feednet: a process of the sweep was killed")
        assert "\n" not in complained
        wait_for(lambda: not sweep.others(), "the end of its workers")


def test_simulations_stop(tmp_path):
    with Feednet("simulate", "--seeds", 10**7, "--jobs", 2, cwd=tmp_path) as simulation:
        wait_for(lambda: len(simulation.others()) >= 2, "its workers")
        simulation.press_ctrl_c()
        status, _, complained = simulation.ended()
        assert (status, complained) == (130, "feednet: interrupted")
        wait_for(lambda: not simulation.others(), "the end of its workers")


def test_a_run_stops_and_leaves_nothing(tmp_path):
    arguments = ["run", "fanout", "--items", "5000", "--net", "emulated", "--no-report", "--out", "mine"]
    with Feednet(*arguments, cwd=tmp_path) as run:
        wait_for((tmp_path / "mine.partial" / "poll" / "capture.pcapng").exists, "a capture")
        run.press_ctrl_c()
        assert run.ended()[0::2] == (130, "feednet: interrupted")
    assert [*tmp_path.iterdir()] == []


WITH_A_THREAD_THAT_WAITS = """
from threading import Event, Thread
from testbed.cli.main import main
Thread(target=Event().wait).start()
main()
"""


def test_a_thread_that_waits_for_ever_does_not_hold_up_the_end(tmp_path):
    arguments = ["run", "fanout", "--items", "5000", "--net", "emulated", "--no-report", "--out", "mine"]
    program = (sys.executable, "-c", WITH_A_THREAD_THAT_WAITS)
    with Feednet(*arguments, cwd=tmp_path, program=program) as run:
        wait_for((tmp_path / "mine.partial" / "poll" / "capture.pcapng").exists, "a capture")
        run.press_ctrl_c()
        assert run.ended()[0::2] == (130, "feednet: interrupted")
    assert [*tmp_path.iterdir()] == []


@pytest.mark.mininet
@pytest.mark.skipif(sandbox.why_not() is not None, reason=f"Mininet cannot run here: {sandbox.why_not()}")
@pytest.mark.parametrize(
    ("number", "to_all", "status"), [(signal.SIGINT, True, 130), (signal.SIGTERM, False, 143)]
)
def test_a_run_over_mininet_that_is_still_starting_stops_without_a_traceback(
    tmp_path, number, to_all, status
):
    def is_importing(pid):
        with suppress(OSError):
            return "pydantic_core" in Path(f"/proc/{pid}/maps").read_text()

    with Feednet("run", "line", "--net", "mininet", "--no-report", "--out", "mine", cwd=tmp_path) as run:
        wait_for(
            lambda: any(
                "python" in what and "inside_sandbox" in what and is_importing(pid)
                for pid, what in run.others().items()
            ),
            "the program in the box",
        )
        (os.killpg if to_all else os.kill)(run.process.pid, number)
        assert run.ended()[0::2] == (status, "feednet: interrupted")
        wait_for(lambda: not run.others(), "the end of the box")
    assert [*tmp_path.iterdir()] == []


def java(process):
    return [pid for pid, what in process.others().items() if "org.apache.spark" in what]


@pytest.fixture
def analysed(tmp_path):
    """Return the arguments of a command that analyses, and what it works in."""
    chosen = load("line", layerings=("lli",), items=60)
    running.run(chosen, workload.load(chosen), EMULATED, tmp_path / "run")
    write(tmp_path / "trace.pcap", *[question(A, B, "/b"), answer(B, A, "/b")] * 50)
    return tmp_path


@pytest.mark.spark
@pytest.mark.parametrize(
    ("command", "begun"),
    [
        ("report run --engine spark", "run/tables.partial/messages.parquet"),
        ("report run --engine sail", "run/tables.partial/packets.parquet"),
        pytest.param(
            *("analyze trace.pcap --out out --engine spark", "out.partial/transactions"),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            *("compare run run2 --out study.html --engine spark", "run2/tables.partial/messages.parquet"),
            marks=pytest.mark.slow,
        ),
        ("watch trace.pcap", "trace.pcap.live.js"),
    ],
)
def test_what_analyses_stops_too(analysed, command, begun):
    if "run2" in command:
        chosen = load("line", layerings=("lli",), items=60, seed=2)
        running.run(chosen, workload.load(chosen), EMULATED, analysed / "run2")
        command = command.replace("run run2", "run2 run")
    before = {path for path in analysed.rglob("*") if path.is_file()}
    with Feednet(*command.split(), cwd=analysed) as process:
        wait_for((analysed / begun).exists, begun)
        assert bool(java(process)) == ("sail" not in command)
        process.press_ctrl_c()
        status, _, complained = process.ended()
        assert (status, complained) == (130, "feednet: interrupted")
        wait_for(lambda: not process.others(), "the end of Spark")
    left = {path.name for path in analysed.rglob("*") if path.is_file() and path not in before}
    assert left == ({"trace.pcap.live.html", "trace.pcap.live.js"} if "watch" in command else set())


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_sweep_on_spark_stops_too(tmp_path, number, status):
    out = tmp_path / "out"
    with Feednet(*LONG, "--on-spark", "--out", out, cwd=tmp_path) as sweep:
        wait_for(lambda: finished(out), "a run")
        (os.killpg if number == signal.SIGINT else os.kill)(sweep.process.pid, number)
        ended, _, complained = sweep.ended()
        assert (ended, complained) == (status, "feednet: interrupted")
        wait_for(lambda: not sweep.others(), "the end of Spark")
    runs = finished(out)
    assert [path.parent for path in out.rglob("scenario.json") if path.parent not in runs] == []


@pytest.mark.spark
def test_while_spark_starts(analysed):
    with Feednet("report", "run", "--engine", "spark", cwd=analysed) as process:
        wait_for(lambda: java(process), "Spark")
        process.press_ctrl_c()
        status, _, complained = process.ended()
        assert (status, complained) == (130, "feednet: interrupted")
        wait_for(lambda: not process.others(), "the end of Spark")
    assert sorted(path.name for path in (analysed / "run").iterdir()) == [
        "feed.jsonl",
        "lli",
        "manifest.json",
        "scenario.json",
    ]


@pytest.mark.spark
def test_spark_ends_with_a_process_that_is_killed(analysed):
    with Feednet("report", "run", "--engine", "spark", cwd=analysed) as process:
        wait_for(lambda: java(process), "Spark")
        process.process.kill()
        process.ended()
        wait_for(lambda: not process.others(), "the end of Spark")


def test_sail_leaves_ctrl_c_to_the_program():
    """Its own handler would let a thread that waits wait on."""
    program = """
from threading import Event
from analysis.spark.engine import EngineChoice, session
session(EngineChoice("sail"))
print(flush=True)
Event().wait()
"""
    words = [sys.executable, "-c", program]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            process.stdout.readline()
            process.send_signal(signal.SIGINT)
            _, complained = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
    assert b"KeyboardInterrupt" in complained


def test_nothing_waits_for_sail_at_the_end():
    """Its own hook holds Python's lock while it waits, and its threads may wait for that lock."""
    program = """
import atexit
hooks, register = [], atexit.register
atexit.register = lambda hook, *given, **named: hooks.append(hook) or register(hook, *given, **named)
from analysis.spark.engine import EngineChoice, session
session(EngineChoice("sail"))
assert hooks, "not even those of PySpark"
print([hook for hook in hooks if "telemetry" in str(hook)])
"""
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


def test_nothing_waits_for_a_query_of_sail():
    """This one takes hours; an analysis has several at a time, each in a thread."""
    program = """
from threading import Timer
from analysis.spark.engine import EngineChoice, session
from analysis.spark.parallel import in_parallel
from testbed.cli import interrupts

def ask():
    spark.range(10**13).selectExpr("sum(id % 7 * (id % 11))").toArrow()

spark = session(EngineChoice("sail"))
try:
    with interrupts.stopping():
        Timer(1, lambda: print(flush=True)).start()
        in_parallel(lambda: in_parallel(ask, ask), ask)
except KeyboardInterrupt:
    interrupts.leave()
"""
    words = [sys.executable, "-c", program]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            process.stdout.readline()
            process.send_signal(signal.SIGINT)
            _, complained = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
    assert (process.returncode, complained) == (130, b"")


SLOW = """
import importlib.abc, os, sys, time

class Slow(importlib.abc.MetaPathFinder):
    def find_spec(self, name, *_):
        if name == "pydantic":
            open({begun!r}, "w").close()
            try:
                time.sleep(10**6)
            except KeyboardInterrupt:
                raise ImportError("what some modules make of it")

sys.meta_path.insert(0, Slow())
"""


def test_while_modules_are_imported(tmp_path):
    begun = tmp_path / "begun"
    (tmp_path / "slow").mkdir()
    (tmp_path / "slow" / "sitecustomize.py").write_text(SLOW.format(begun=str(begun)))
    program = ["env", f"PYTHONPATH={tmp_path / 'slow'}:{ROOT}", FEEDNET]
    with Feednet("describe", "fanout", cwd=tmp_path, program=program) as process:
        wait_for(begun.exists, "the import")
        process.press_ctrl_c()
        assert process.ended() == (130, "", "feednet: interrupted")
