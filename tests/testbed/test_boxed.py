"""A run over Mininet: real hosts, real sockets, the same directory as an emulated one."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import nobody
import pytest

from captures import pcapng
from topologies import box

pytestmark = [
    pytest.mark.mininet,
    pytest.mark.skipif(box.why_not() is not None, reason=f"Mininet cannot run here: {box.why_not()}"),
]


def feednet(*arguments: str, command: list[str], cwd: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*command, "-m", "testbed.cli", "run", "fanout", "--net", "mininet", "--no-report", *arguments],
        cwd=cwd,
        env=nobody.environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def assert_complete(run: Path, items: int, subscribers: int) -> None:
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["net"] == "mininet"
    assert manifest["impairment"] in ("netem", "relay")
    for layering in manifest["layerings"]:
        events = [json.loads(line) for line in (run / layering / "events.jsonl").read_text().splitlines()]
        delivered: dict[str, list[int]] = {}
        for event in events:
            if event["event"] == "delivered":
                delivered.setdefault(event["node"], []).append(event["seq"])
        assert len(delivered) == subscribers
        assert all(seqs == list(range(1, items + 1)) for seqs in delivered.values())
        capture = manifest["runs"][layering]["capture"]
        assert capture["dropped"] == 0
        assert capture["frames"] == len(list(pcapng.read(run / layering / "capture.pcapng")))
        last = {}
        for line in (run / layering / "counters.jsonl").read_text().splitlines():
            row = json.loads(line)
            last[row["node"]] = row
        assert {row["pit_entries"] for row in last.values()} == {0}
        assert {row["malformed"] for row in last.values()} == {0}


def test_both_layerings_deliver_everything_over_real_sockets(tmp_path: Path) -> None:
    done = feednet("--items", "40", "--out", "run", command=[sys.executable], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "network   mininet" in done.stdout
    assert_complete(tmp_path / "run", items=40, subscribers=8)
    assert not (tmp_path / "run.partial").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="not root: the other tests run rootless already")
def test_it_runs_without_root_too(tmp_path: Path) -> None:
    python = nobody.interpreter()
    if python is None:
        pytest.skip("nobody may not run a Python that finds this project")
    with TemporaryDirectory() as directory:  # pytest's own are root's alone
        shutil.chown(directory, nobody.NOBODY, nobody.NOBODY)
        arguments = ["--items", "10", "--layering", "lli", "--out", "run"]
        done = feednet(*arguments, command=[*nobody.AS_NOBODY, python], cwd=Path(directory))
        assert done.returncode == 0, done.stderr
        assert_complete(Path(directory) / "run", items=10, subscribers=8)


def test_a_failure_inside_is_one_line_and_keeps_what_there_is(tmp_path: Path) -> None:
    if box.has_netem():
        pytest.skip("netem is here, so asking for it does not fail")
    arguments = ["--items", "5", "--impairment", "netem", "--out", "run"]
    done = feednet(*arguments, command=[sys.executable], cwd=tmp_path)
    assert done.returncode == 1
    assert "netem" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()
