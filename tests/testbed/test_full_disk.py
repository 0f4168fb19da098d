"""A disk that is full, one that is read-only, damaged tables: one line, and nothing half-written."""

import re
import shlex
import subprocess

import pytest
from click.testing import CliRunner
from exchange import A, B, question, write
from processes import FEEDNET, ROOT

from analysis.pipelines.run import analyze
from testbed.cli.main import complaint, feednet
from testbed.experiment import run as running
from testbed.experiment.platform import EMULATED
from testbed.scenario import workload
from testbed.scenario.reader import load
from topologies.mininet import sandbox

needs_namespaces = pytest.mark.skipif(
    sandbox.why_not() is not None, reason=f"no namespaces: {sandbox.why_not()}"
)
FULL = "No space left on device"
RUN = "run line --layering lli --net emulated --no-report"


def on_a_disk(directory, size, *commands):
    """Run shell commands in `directory`/disk, a file system of so many bytes; return the last one's status,
    what it complained of, and what files are there then."""
    (directory / "disk").mkdir(exist_ok=True)
    *before, last = commands
    script = [
        "ip link set lo up",  # Spark talks over it
        f"mount -t tmpfs -o size={size} none disk",
        "cd disk",
        *before,
        "set +e",
        f"{last} >../said 2>../complained; echo $? >../status",
        "find . -type f | sort >../files",
    ]
    namespace = sandbox.command(["sh", "-e", "-c", "\n".join(script)])
    environment = {"PYTHONPATH": str(ROOT), "FEEDNET_CACHE": "", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    done = subprocess.run(
        namespace, cwd=directory, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    told = [(directory / name).read_text().strip() for name in ("status", "complained", "files")]
    return int(told[0]), told[1], told[2].split()


def program(text):
    return shlex.join([str(FEEDNET), *text.split()])


@needs_namespaces
@pytest.mark.mininet
@pytest.mark.parametrize("size", ["8k", "400k"])
def test_a_run_on_a_full_disk(tmp_path, size):
    found = on_a_disk(tmp_path, size, program(f"{RUN} --items 2000 --out out"))
    status, complained, files = found
    assert (status, files) == (1, [])
    assert re.fullmatch(rf"feednet: out(\.partial/\S+)?: {FULL}; or choose another --out", complained)


@needs_namespaces
@pytest.mark.mininet
def test_a_sweep_on_a_full_disk_keeps_what_is_whole(tmp_path):
    sweep = program("run line --layering lli --items 4 --no-report --jobs 1 --sweep seed=1..40 --out out")
    status, complained, files = on_a_disk(tmp_path, "12m", sweep)
    assert status == 1
    assert complained.count("\n") == 0
    assert FULL in complained
    whole = {name.rpartition("/")[0] for name in files if name.endswith("/manifest.json")}
    assert whole
    assert all(any(name.startswith(f"{run}/") for run in whole) for name in files)


@needs_namespaces
@pytest.mark.mininet
@pytest.mark.spark
def test_a_report_on_a_full_disk(tmp_path):
    chosen = load("line", layerings=("lli",), items=4)
    running.run(chosen, workload.load(chosen), EMULATED, tmp_path / "run")
    size = sum(
        -(-path.stat().st_size // 4096) * 4 for path in (tmp_path / "run").rglob("*") if path.is_file()
    )
    status, complained, files = on_a_disk(tmp_path, f"{size + 150}k", "cp -r ../run .", program("report run"))
    assert status == 1, complained
    assert complained.startswith("feednet: ")
    assert FULL in complained
    assert "\n" not in complained
    there = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert files == sorted(f"./{path.relative_to(tmp_path)}" for path in there)


@needs_namespaces
@pytest.mark.mininet
def test_captures_on_a_full_disk(tmp_path):
    write(tmp_path / "trace.pcap", *[question(A, B, f"/{number}") for number in range(200)])
    found = on_a_disk(tmp_path, "8k", program("analyze ../trace.pcap --packets-only --out out"))
    remedy = "free some where the tables go, or where Spark works (SPARK_LOCAL_DIRS, else /tmp)"
    assert found == (1, f"feednet: {FULL}: {remedy}", [])


@needs_namespaces
@pytest.mark.mininet
@pytest.mark.spark
@pytest.mark.parametrize(
    ("command", "place", "made"),
    [
        ("export ../run --format ndnsim --out out", "out", r"out/lli/(rate|app-delays|cs)-trace\.txt"),
        ("compare ../run ../other --out page.html", "page.html", r"page\.html"),
    ],
)
def test_what_is_made_of_analysed_runs_on_a_full_disk(tmp_path, command, place, made):
    for name, seed in (("run", 1), ("other", 2)):
        chosen = load("line", layerings=("lli",), items=8, seed=seed)
        running.run(chosen, workload.load(chosen), EMULATED, tmp_path / name)
        analyze(tmp_path / name, engine="sail")
    status, complained, files = on_a_disk(tmp_path, "20k", program(command))
    assert (status, complained, files) == (1, f"feednet: {place}: {FULL}", [])
    # The same where there is room for it.
    status, complained, files = on_a_disk(tmp_path, "20m", program(command))
    assert (status, complained) == (0, "")
    assert files
    assert all(re.fullmatch(rf"\./{made}", name) for name in files)


@needs_namespaces
@pytest.mark.mininet
@pytest.mark.parametrize(
    ("command", "said"),
    [
        (f"{RUN} --items 4 --out out", "out.partial: Read-only file system; or choose another --out"),
        (f"{RUN} --items 4 --repeat 2 --out out", "out: Read-only file system; or choose another --out"),
        ("report run", "run/tables.partial: Read-only file system"),
        ("analyze ../trace.pcap --out out", "/out.partial: Read-only file system"),
    ],
)
def test_where_nothing_can_be_written(tmp_path, command, said):
    chosen = load("line", layerings=("lli",), items=2)
    running.run(chosen, workload.load(chosen), EMULATED, tmp_path / "run")
    write(tmp_path / "trace.pcap", question(A, B, "/b"))
    place = ["cp -r ../run .", "mount -o remount,ro ."]
    status, complained, _ = on_a_disk(tmp_path, "10m", *place, program(command))
    assert status == 1, complained
    assert complained.startswith("feednet: ")
    assert complained.endswith(said)
    assert "\n" not in complained


@pytest.fixture
def analysed(tmp_path):
    """A run with tables that are whole as files, but are not what they should be."""
    chosen = load("line", layerings=("lli",), items=2)
    running.run(chosen, workload.load(chosen), EMULATED, tmp_path / "run")
    for name in ("comparison", "messages", "latency"):
        (tmp_path / "run" / "tables").mkdir(exist_ok=True)
        (tmp_path / "run" / "tables" / f"{name}.parquet").write_bytes(b"PAR1 damaged PAR1")
    return tmp_path


@pytest.mark.parametrize(
    ("command", "table"),
    [("compare {run} {run} --out {page}", "comparison"), ("export {run} --format ndnsim", "messages")],
)
def test_damaged_tables(analysed, command, table):
    given = command.format(run=analysed / "run", page=analysed / "study.html").split()
    said = CliRunner().invoke(feednet, given)
    complained = complaint(said.exception)
    assert complained.startswith(f"{analysed / 'run' / 'tables' / table}.parquet: damaged: ")
    assert complained.endswith("analyse the run again (feednet report)")
    assert "\n" not in complained
    assert not (analysed / "study.html").exists()
    assert list(analysed.rglob("*.txt")) == []
