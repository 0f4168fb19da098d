"""Runs in the emulator: the directory they leave, that a seed repeats it, and that failures leave nothing."""

import hashlib
import json
import re
import subprocess
from pathlib import Path

import pcapng_oracle
import pytest
from click.testing import CliRunner
from simulation import load_of, scenario

from analysis.pipelines.run import read_comparison
from testbed.cli.main import feednet
from testbed.errors import UserError
from testbed.experiment import provenance
from testbed.experiment import run as running
from testbed.experiment.platform import EMULATED, Platform

LOSSY = {"generator": "tree", "depth": 2, "fanout": 2, "link": {"delay_ms": 5.0, "loss_percent": 5.0}}


def emulated(directory: Path, seed: int = 1) -> Path:
    wanted = scenario(seed=seed, topology=LOSSY)
    running.run(wanted, load_of(wanted), EMULATED, directory)
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
        packets = list(pcapng_oracle.read(run / layering / "capture.pcapng"))
        assert len(packets) == manifest["runs"][layering]["capture"]["frames"] > 0
        assert {p.interface.name for p in packets} >= {"pub-eth0", "r1-eth0", "r1-eth1", "s1-eth0"}
        assert {s.dropped for s in pcapng_oracle.statistics(run / layering / "capture.pcapng")} == {0}
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


@pytest.mark.spark
def test_a_run_ends_with_five_figures_of_each_layering(tmp_path: Path) -> None:
    """Those of the comparison that it leaves, each where its head says."""
    out = tmp_path / "run"
    arguments = ["run", "line", "--net", "emulated", "--items", "12", "--loss", "5", "--engine", "sail"]
    arguments += ["--layering", "poll", "--layering", "lli", "--out", str(out)]
    result = CliRunner().invoke(feednet, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    begin = next(place for place, line in enumerate(lines) if line.split()[:2] == ["delivered", "median"])
    assert re.split(r"\s{2,}", lines[begin].strip()) == [
        "delivered",
        "median latency",
        "Interests",
        "state",
        "bytes",
    ]
    assert lines[begin + 1].split() == ["%", "ms", "per", "item", "bytes", "of", "a", "node", "per", "item"]
    values = {(row["metric"], row["layering"]): row["value"] for row in read_comparison(out)}
    keys = ("delivered_share", "latency_p50", "interests_network", "state_bytes_mean", "bytes_per_item")
    for line, layering in zip(lines[begin + 2 :], ("poll", "lli"), strict=False):
        name, *figures = line.split()
        assert name == layering
        assert len(figures) == 5
        for figure, key in zip(figures, keys, strict=True):
            assert float(figure.rstrip("*")) == pytest.approx(values[key, layering], rel=1e-3)
    assert len({values[key, "lli"] for key in keys}) == 5
    assert lines[-1].split() == ["report", str(out / "report.html")]


def test_a_mesh_with_few_leaves_gets_a_hint(tmp_path: Path) -> None:
    """Of the NDN testbed's 37 nodes, one has one link."""
    path = tmp_path / "mesh.conf"
    path.write_text("[nodes]\nA_1: _\nb: _\nc: _\nd: _\n[links]\nA_1:b _\nb:c _\nc:A_1 _\nc:d _\n")
    arguments = ["run", "fanout", "--net", "emulated", "--items", "5", "--no-report", "--layering", "lli"]
    arguments += ["--topology", str(path)]
    result = CliRunner().invoke(feednet, [*arguments, "--out", str(tmp_path / "few")], catch_exceptions=False)
    assert (
        "hint      1 of 3 nodes subscribe, those with one link; --subscribers takes all, a number or names,"
        " --publisher another node than A_1"
    ) in result.output
    arguments += ["--subscribers", "all", "--publisher", "c", "--out", str(tmp_path / "all")]
    result = CliRunner().invoke(feednet, arguments, catch_exceptions=False)
    assert "hint" not in result.output
    assert "3 subscribers" in result.output
    events = [json.loads(line) for line in (tmp_path / "all" / "lli" / "events.jsonl").open()]
    assert {each["node"] for each in events if each["event"] == "published"} == {"c"}
    assert {each["node"] for each in events if each["event"] == "delivered"} == {"A_1", "b", "d"}


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
        (["fanout", "--set", "poll.window=many"], "--set poll.window=many: must be a whole number"),
        (["fanout", "--set", "lli.credit=" + "[" * 100_000], "--set lli.credit='[[["),
        (["fanout", "--set", "lli.credit=1e400"], "--set lli.credit=inf: "),
        (["fanout", "--set", "lli." + "x" * 5000 + "=1"], "lli has no parameter 'xxx"),
        (
            ["fanout", "--set", "poll.windw=8"],
            "--set poll.windw=8: poll has no parameter windw; did you mean window? there",
        ),
        (["fanout", "--set", "poll.window=8", "--set", "poll.window=4"], "poll.window is set twice"),
        (["line", "--layering", "lli", "--set", "poll.window=8"], "poll is not run, but lli; leave it out"),
        (["fanout", "--layering", "foo"], "--layering foo: unknown layering 'foo'; there are pull, poll, "),
        (
            ["fanout", "--strategy", "foo"],
            "--strategy foo: there is no strategy 'foo'; there are access, asf",
        ),
        (["fanout", "--strategy", "asf/x~1"], "--strategy asf/x~1: strategy asf has no parameter 'x'; there"),
        (["fanout", "--strategy-file", "mine.py"], "--strategy-file mine.py: no strategy is chosen"),
        (["fanout", "--items", "3", "--feed", "f"], "--items 3: the export f is published whole"),
        (["many-feeds", "--items", "3"], "--items 3: workload.items: 3 items are too few for 30 feeds"),
        (["fanout", "--publisher", "x"], "--publisher x: publisher 'x' is not a node; there are pub, r1"),
        (["fanout", "--subscribers", "s1,x"], "--subscribers s1,x: subscriber 'x' is not a node; there are"),
        (["fanout", "--subscribers", "15"], "--subscribers 15: there can be 1 to 14 subscribers"),
        (["fanout", "--subscribers", "pub"], "--subscribers pub: subscriber 'pub' is the publisher"),
        (["fanout", "--net", "emulated", "--impairment", "netem"], "--impairment netem: for Mininet only"),
        (["fanout", "--repeat", "2", "--impairment", "relay"], "--impairment relay: for Mininet only, and"),
        (["fanout", "--repeat", "2", "--dilation", "8"], "--dilation 8: for Mininet only, and this would be"),
        (["fanout", "--net", "emulated", "--dilation", "8"], "--dilation 8: for Mininet only, and this"),
        (["fanout", "--no-report", "--master", "local"], "--master local: only the analysis runs on Spark"),
        (["fanout", "--no-report", "--engine", "sail"], "--engine sail: only the analysis has an engine"),
        (["fanout", "--repeat", "2", "--on-spark", "--engine", "sail"], "--engine sail: --on-spark runs all"),
        (
            ["fanout", "--all-tables", "--no-report"],
            "--all-tables: only the report of one run has tables; le",
        ),
        (["fanout", "--all-tables", "--repeat", "2"], "--all-tables: only the report of one run"),
        (["fanout", "--repeat", "2", "--jobs", "2", "--on-spark"], "--jobs, --on-spark: "),
        (["line", "--sweep", "loss=0,5", "--loss", "3"], "--sweep loss=0, --loss 3.0: both say the same"),
        (["line", "--sweep", "items=4,5", "--items", "3"], "--sweep items=4, --items 3: both say the same"),
        (["line", "--sweep", "seed=4,5", "--seed", "3"], "--seed 3: the sweep names the seeds itself"),
        (["line", "--sweep", "strategy=asf,foo"], "--sweep strategy=foo: there is no strategy 'foo'; there"),
        (
            ["line", "--sweep", "poll.windw=4"],
            "--sweep poll.windw=4: poll has no parameter windw; did you mean window? there",
        ),
        (
            ["line", "--sweep", "loss=101"],
            "--sweep loss=101: link pub:r1: loss_percent must be from 0 to 100",
        ),
        (
            ["line", "--sweep", "los=1"],
            "--sweep los=1: unknown key; did you mean loss? there are loss, items, seed, strategy, ",
        ),
        (["x" * 5000], "no such scenario; there are archive, "),
        (["\n\x1b"], "no such scenario; there are archive, "),
        (["fanout", "--out", "y" * 5000], "File name too long; or choose another --out"),
        (["failover", "--items", "10"], "[[events]] at_item = 60: the feed has 10 items"),
        (["offline-author", "--items", "10"], "[[events]] at_copy = 40: the feed has 10 items"),
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
    platform = Platform.chosen("auto")
    assert platform.net == "emulated"
    assert platform.reason.startswith("Mininet cannot run here: ")
    with pytest.raises(UserError, match="or use --net emulated"):
        Platform.chosen("mininet")
