"""Two commands at once that write the same: one line for the second, and nothing lost of the first."""

import fcntl
import os
from contextlib import contextmanager

import pytest
from click.testing import CliRunner
from exchange import A, B, question, write
from processes import Feednet, wait_for

from analysis.errors import AnalysisError
from analysis.files import partial_of, whole_directory
from analysis.pipelines.run import analyze
from testbed.cli.main import complaint, feednet
from testbed.experiment import run as running
from testbed.experiment.platform import EMULATED
from testbed.scenario import workload
from testbed.scenario.reader import load

RUN = ["run", "line", "--layering", "lli", "--net", "emulated", "--no-report"]


@contextmanager
def somebody(partial):
    """Be another process that writes there."""
    partial.mkdir(parents=True)
    (partial / "half").write_text("made")
    file = os.open(partial / ".lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(file, fcntl.LOCK_EX)
    yield
    assert (partial / "half").read_text() == "made"
    os.close(file)


def refused(*arguments):
    said = complaint(CliRunner().invoke(feednet, [*map(str, arguments)]).exception)
    assert "\n" not in said
    return said


def test_two_runs(tmp_path):
    out = tmp_path / "out"
    with Feednet(*RUN, "--items", 5000, "--out", out, cwd=tmp_path) as first:
        wait_for((tmp_path / "out.partial" / "lli" / "capture.pcapng").exists, "a capture")
        with Feednet(*RUN, "--items", 5, "--out", out, cwd=tmp_path) as second:
            status, _, complained = second.ended()
            assert status == 1
            assert complained == (
                f"feednet: {out}: another feednet is writing it: wait for it to end; or choose another --out"
            )
        assert first.process.poll() is None
        assert (tmp_path / "out.partial" / "scenario.json").exists()
    # That one was killed: whoever comes next may write.
    assert partial_of(out).is_dir()
    assert CliRunner().invoke(feednet, [*RUN, "--items", "5", "--out", str(out)]).exit_code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]
    assert not (out / ".lock").exists()


def test_two_sweeps(tmp_path):
    arguments = [*RUN[:-3], "--no-report", "--items", "4", "--out", tmp_path / "out"]
    CliRunner().invoke(feednet, [*map(str, arguments), "--sweep", "seed=1,2"], catch_exceptions=False)
    (tmp_path / "out" / ".lock").touch()
    with (tmp_path / "out" / ".lock").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert "another feednet is writing it" in refused(*arguments, "--sweep", "seed=1..3")
    said = CliRunner().invoke(feednet, [*map(str, arguments), "--sweep", "seed=1..3"])
    assert "kept      2 runs" in said.output


def test_two_analyses(tmp_path):
    capture = write(tmp_path / "trace.pcap", question(A, B, "/b"))
    with somebody(tmp_path / "out.partial"):
        assert refused("analyze", capture, "--packets-only", "--out", tmp_path / "out") == (
            f"{tmp_path / 'out'}: another feednet is writing it: wait for it to end"
        )
    chosen = load("line", layerings=("lli",), items=2)
    running.run(chosen, workload.load(chosen), EMULATED, tmp_path / "run")
    with somebody(tmp_path / "run" / "tables.partial"), pytest.raises(AnalysisError) as error:
        analyze(tmp_path / "run")
    assert str(error.value) == (
        f"{tmp_path / 'run' / 'tables'}: another feednet is writing it: wait for it to end"
    )


def test_what_appears_before_ones_turn_is_not_replaced(tmp_path):
    place = tmp_path / "x"
    place.mkdir()
    (place / "theirs").touch()
    with pytest.raises(FileExistsError, match="exists already"), whole_directory(place):
        pytest.fail("begun")
    assert [path.name for path in place.iterdir()] == ["theirs"]
    assert not partial_of(place).exists()
    with whole_directory(place, replace=True) as new:
        (new / "mine").touch()
    assert [path.name for path in place.iterdir()] == ["mine"]


def test_what_an_engine_writes_after_its_end_goes_too(tmp_path, monkeypatch):
    """Sail's threads write on for a moment, also while its files are removed."""
    place = tmp_path / "tables"
    late = [3]

    def remove(directory, **_):
        for each in directory.iterdir():
            each.unlink()
        if late[0]:
            late[0] -= 1
            (directory / "late.parquet").write_text("rows")
        else:
            directory.rmdir()

    monkeypatch.setattr("shutil.rmtree", remove)
    with pytest.raises(KeyboardInterrupt), whole_directory(place):
        raise KeyboardInterrupt
    assert not partial_of(place).exists()
