"""Runs in the emulator: the directory they leave, that a seed repeats it, and that failures leave nothing."""

import hashlib
import json
import re
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from simulation import load_of, scenario

from captures import pcapng
from testbed import provenance
from testbed import run as running
from testbed.cli import feednet
from testbed.errors import UserError

LOSSY = {"generator": "tree", "depth": 2, "fanout": 2, "link": {"delay_ms": 5.0, "loss_percent": 5.0}}


def emulated(directory: Path, seed: int = 1) -> Path:
    wanted = scenario(seed=seed, topology=LOSSY)
    running.run(wanted, load_of(wanted), "emulated", "test", directory)
    return directory


def digests(directory: Path) -> dict[str, str]:
    return {
        path.relative_to(directory).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def test_two_runs_with_one_seed_are_byte_identical_and_another_seed_differs(tmp_path: Path) -> None:
    seeds = {"a": 1, "b": 1, "c": 2}
    first, again, other = (digests(emulated(tmp_path / name, seed)) for name, seed in seeds.items())
    assert first == again
    assert {name for name in first if first[name] != other[name]} >= {
        "poll/capture.pcapng",
        "lli/capture.pcapng",
        "manifest.json",
    }


def test_a_run_leaves_everything_that_an_analysis_needs(tmp_path: Path) -> None:
    run = emulated(tmp_path / "run")
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["layerings"] == ["poll", "lli"]
    assert manifest["workload"]["items"] == 20
    for layering in ("poll", "lli"):
        packets = list(pcapng.read(run / layering / "capture.pcapng"))
        assert len(packets) == manifest["runs"][layering]["capture"]["frames"] > 0
        assert {p.interface.name for p in packets} >= {"pub-eth0", "r1-eth0", "r1-eth1", "s1-eth0"}
        assert {s.dropped for s in pcapng.statistics(run / layering / "capture.pcapng")} == {0}
        events = [json.loads(line) for line in (run / layering / "events.jsonl").read_text().splitlines()]
        assert sum(event["event"] == "published" for event in events) == 20
        counters = [json.loads(line) for line in (run / layering / "counters.jsonl").read_text().splitlines()]
        assert {row["node"] for row in counters} == set(scenario().network.nodes)
        assert [row["time"] for row in counters] == sorted(row["time"] for row in counters)


def test_an_existing_directory_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    with pytest.raises(UserError, match="exists already; choose another --out or remove it"):
        emulated(tmp_path / "mine")
    assert list(tmp_path.iterdir()) == [tmp_path / "mine"]


def test_a_command_line_run_without_a_report(tmp_path: Path) -> None:
    arguments = ["run", "fanout", "--net", "emulated", "--items", "10", "--no-report", "--layering", "lli"]
    out = tmp_path / "run"
    result = CliRunner().invoke(feednet, [*arguments, "--out", str(out)], catch_exceptions=False)
    assert result.exit_code == 0
    assert "network   emulated (asked for)" in result.output
    assert (out / "lli" / "capture.pcapng").exists()
    assert not (out / "poll").exists()


def test_the_manifest_says_what_was_run_and_where(tmp_path: Path) -> None:
    what = [
        "--items",
        "10",
        "--layering",
        "lli",
        "--strategy",
        "asf",
        "--set",
        "lli.credit=16",
        "--loss",
        "2",
    ]
    how = ["--no-report", "--out", str(tmp_path / "run")]
    CliRunner().invoke(feednet, ["run", "line", *how, *what, "--net", "emulated"], catch_exceptions=False)
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    # The words in the order of --help; `auto` is not repeated, but what it came to.
    words = manifest["command"].split()
    assert words[:3] == ["feednet", "run", "line"]
    assert words[-2:] == ["--net", "emulated"]
    assert sorted(words[3:-2]) == sorted(what)
    assert manifest["strategies"] == {"/": "asf"}
    assert manifest["parameters"]["lli"]["credit"] == 16
    assert manifest["commit"] == provenance.commit()
    assert re.fullmatch(r"\d+ × .+", manifest["processor"])
    turn = manifest["runs"]["lli"]
    first, last, settle, stop, end = (
        turn[f"{name}_ns"] - turn["start_ns"] for name in ("first", "last", "settle", "stop", "end")
    )
    assert first == 500_000_000 < last == settle < stop
    assert (stop - settle, end - stop) == (20_000_000_000, 1_500_000_000)
    again = tmp_path / "again"
    CliRunner().invoke(feednet, [*words[1:], "--no-report", "--out", str(again)], catch_exceptions=False)
    assert digests(again) == digests(tmp_path / "run")


def test_the_commit_is_that_of_this_code_and_of_no_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    foreign = tmp_path / "testbed" / "provenance.py"
    foreign.parent.mkdir()
    foreign.touch()
    for command in (
        ["init", "-q"],
        ["-c", "user.name=n", "-c", "user.email=e", "commit", "--allow-empty", "-qmx"],
    ):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    monkeypatch.setattr(provenance, "_HERE", foreign)
    assert provenance.commit() is None  # there is a commit, but the file is not of it
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    assert re.fullmatch(r"[0-9a-f]{12}\+", str(provenance.commit()))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nosuch"], "nosuch: no such scenario"),
        (["fanout", "--set", "poll"], "--set poll: write it as LAYERING.NAME=VALUE"),
        (["fanout", "--set", "push.x=1"], "--set push.x=1: unknown layering; there are pull, poll, "),
        (["fanout", "--set", "poll.window=many"], "[parameters.poll] window: "),
        (["fanout", "--set", "lli.credit=" + "[" * 100_000], "[parameters.lli] credit: "),
        (["fanout", "--set", "lli.credit=1e400"], "[parameters.lli] credit: "),
        (["fanout", "--set", "lli." + "x" * 5000 + "=1"], "[parameters.lli] xxx"),
        (["x" * 5000], "no such scenario; there are archive, "),
        (["\n\x1b"], "no such scenario; there are archive, "),
        (["fanout", "--out", "y" * 5000], "cannot be made: File name too long; choose another --out"),
        (["failover", "--items", "10"], "[[events]] at_item = 60: the feed has 10 items"),
        (["fanout", "--feed", "nosuch.jsonl"], "nosuch.jsonl: No such file or directory"),
        (["fanout", "--topology", "nosuch.conf"], "nosuch.conf: cannot be read"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as error:
        CliRunner().invoke(feednet, ["run", *arguments], catch_exceptions=False)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_mininet_where_it_cannot_run_is_said_and_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    where, why = running.choose_net("auto")
    assert where == "emulated"
    assert why.startswith("Mininet cannot run here: ")
    with pytest.raises(UserError, match="or use --net emulated"):
        running.choose_net("mininet")
