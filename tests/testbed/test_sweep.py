"""Sweeps: what is run, that it is the same whatever runs it, and what comes of it."""

import hashlib
import inspect
import shutil
from pathlib import Path, PurePosixPath
from typing import get_origin

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from analysis.pipelines.compare import read_sweep
from analysis.run.keys import LOSS, PARAMETERS, WORDS, words
from analysis.run.manifest import Run
from analysis.run.settings import settings_of
from testbed.cli.main import feednet
from testbed.errors import UserError
from testbed.experiment.options import RunOptions
from testbed.experiment.sweeps import sweep
from testbed.experiment.sweeps.directory import place_of
from testbed.layerings.registry import LAYERINGS
from testbed.scenario.model import Scenario
from testbed.scenario.sections import table_keys, tables_in
from topologies.generate import GENERATORS
from topologies.mininet import sandbox

SHORT = {"layerings": ("lli",), "items": 4}


def planned(*texts, repeat=1, **options):
    return sweep.plan("line", RunOptions(sweeps=texts, repeat=repeat, **SHORT | options), ["feednet", "run"])


@pytest.mark.parametrize(
    ("text", "key", "values"),
    [
        ("loss=0,1,2.5", "topology.link.loss_percent", [0, 1, 2.5]),
        ("items=5,10", "workload.items", [5, 10]),
        ("seed=3..5", "seed", [3, 4, 5]),
        ("poll.window=4,8", "parameters.poll.window", [4, 8]),
        ("topology.generator=line,star", "topology.generator", ["line", "star"]),
        ("long-lived.window=1", "parameters.long-lived.window", [1]),
    ],
)
def test_what_is_varied(text, key, values):
    assert sweep.parse_axis(text) == (key, values)


@pytest.mark.parametrize(
    ("texts", "repeat", "said"),
    [
        (["loss"], 1, "write it as KEY=VALUE"),
        (["loss="], 1, "write it as KEY=VALUE"),
        (["loss=1,,2"], 1, "write it as KEY=VALUE"),
        (["loss=1,1"], 1, "a value is there twice"),
        (["loss=1", "loss=2"], 1, "a key is there twice"),
        (["seed=1,2"], 3, "leave one of them out"),
        (["seed=1..9999", "loss=1,2,3"], 1, "at most 10000"),
        (["loss=200"], 1, "loss_percent"),
        (["poll.nothing=2"], 1, "nothing"),
        (["nothing=2"], 1, "--sweep nothing=2: unknown key; there are loss, items"),
        (["title.x=2"], 1, "--sweep title.x=2: unknown key"),
        (
            ["workload.schedule.spee=2"],
            1,
            "--sweep .*: unknown key; did you mean speed\\? there are speed, idle_limit_ms",
        ),
        (["topology.generator=star"], 1, "--sweep .*: topology star takes leaves; it was given length"),
        (["poll.window=4"], 1, "poll is not run, but lli"),
    ],
)
def test_a_sweep_is_checked_whole_before_anything_runs(texts, repeat, said):
    with pytest.raises(UserError, match=said):
        planned(*texts, repeat=repeat)


def test_a_sweep_has_a_directory_for_each_setting_and_seed():
    jobs = planned("loss=0,5", "lli.credit=4,8", repeat=2, seed=7)
    assert jobs[1].command == (
        "feednet run --sweep=topology.link.loss_percent=0 --sweep=parameters.lli.credit=4 --seed 8"
    )
    assert [job.place for job in jobs][:3] == [
        "loss_percent=0,credit=4/seed=7",
        "loss_percent=0,credit=4/seed=8",
        "loss_percent=0,credit=8/seed=7",
    ]
    assert len(jobs) == 8
    assert [job.place for job in planned(repeat=2)] == ["all/seed=1", "all/seed=2"]
    assert [job.place for job in planned("seed=5,9")] == ["all/seed=5", "all/seed=9"]


@given(
    st.lists(
        st.tuples(st.text(st.characters(codec="utf-8"), min_size=1), st.text(st.characters(codec="utf-8"))),
        min_size=1,
        max_size=3,
    ),
    st.integers(0),
)
def test_whatever_is_varied_a_directory_stays_inside_the_sweeps(changes, seed):
    place = PurePosixPath(place_of(changes, seed))
    assert len(place.parts) == 2
    assert not place.is_absolute()
    assert ".." not in place.parts
    assert max(len(part.encode()) for part in place.parts) < 200
    assert "\0" not in str(place)


@given(st.text(st.characters(codec="utf-8")), st.text(st.characters(codec="utf-8")))
def test_settings_that_differ_have_directories_that_differ(a, b):
    assert (place_of([("k", a)], 1) == place_of([("k", b)], 1)) == (a == b)
    assert (place_of([(a, 0)], 1) == place_of([(b, 0)], 1)) == (a.rpartition(".")[2] == b.rpartition(".")[2])


def test_nothing_is_written_outside_out(tmp_path):
    """A key of the scenario may be a prefix, and a file may be called as it likes."""
    chosen = ["--sweep", "strategies./=asf,best-route", "--sweep", "strategies./x=asf", "--no-report"]
    chosen += ["--jobs", "1"]
    out = tmp_path / "in" / "out"
    arguments = ["run", "line", "--items", "2", "--layering", "lli", *chosen, "--out", str(out)]
    said = CliRunner().invoke(feednet, arguments, catch_exceptions=False)
    assert said.exit_code == 0, said.output
    assert [*tmp_path.iterdir()] == [tmp_path / "in"]
    assert [*out.parent.iterdir()] == [out]
    assert sorted(path.relative_to(out).as_posix() for path in out.rglob("manifest.json")) == [
        f"%2F={strategy},%2Fx=asf/seed=1/manifest.json" for strategy in ("asf", "best-route")
    ]


def test_strategies_can_be_swept():
    jobs = planned("strategy=best-route,asf")
    assert [job.place for job in jobs] == ["strategy=best-route/seed=1", "strategy=asf/seed=1"]
    assert [job.checked().strategies for job in jobs] == [
        {"/": "best-route"},
        {"/": "asf"},
    ]


def test_runs_are_the_same_whatever_their_order(tmp_path):
    jobs = planned("loss=0,20", repeat=2)
    done = []
    sweep.emulate_all(jobs, tmp_path / "a", 2, lambda *told: done.append(told))
    assert [told[:2] for told in done] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    for job in reversed(jobs):
        sweep.emulate(job, tmp_path / "b")
    digests = [
        [
            hashlib.sha256((tmp_path / side / job.place / "lli" / "capture.pcapng").read_bytes()).hexdigest()
            for job in jobs
        ]
        for side in "ab"
    ]
    assert digests[0] == digests[1]
    assert len(set(digests[0])) == 4


def sweep_again(out, *axes):
    arguments = ["run", "line", "--items", "4", "--layering", "lli", "--no-report", "--out", str(out)]
    arguments += ["--jobs", "1"]
    said = CliRunner().invoke(feednet, [*arguments, *(x for axis in axes for x in ("--sweep", axis))])
    return said.output if said.exit_code == 0 else str(said.exception)


def test_an_interrupted_sweep_goes_on(tmp_path):
    out = tmp_path / "out"
    sweep_again(out, "seed=1..3")
    whole = (out / "all" / "seed=2" / "lli" / "capture.pcapng").read_bytes()
    # As if it had been interrupted in the second run, and before the third.
    (out / "all" / "seed=2").rename(out / "all" / "seed=2.partial")
    (out / "all" / "seed=2.partial" / "lli" / "capture.pcapng").write_bytes(whole[:100])
    shutil.rmtree(out / "all" / "seed=3")
    (out / "all" / "seed=1" / "lli" / "capture.pcapng").write_bytes(b"kept")
    said = sweep_again(out, "seed=1..3")
    assert "kept      1 run from before" in said
    assert "ran       2 runs" in said
    assert (out / "all" / "seed=1" / "lli" / "capture.pcapng").read_bytes() == b"kept"
    assert (out / "all" / "seed=2" / "lli" / "capture.pcapng").read_bytes() == whole
    assert sorted(path.name for path in (out / "all").iterdir()) == ["seed=1", "seed=2", "seed=3"]
    assert "ran       1 run " in sweep_again(out, "seed=1..4")


def test_a_sweep_does_not_go_on_in_another_ones_directory(tmp_path):
    out = tmp_path / "out"
    sweep_again(out, "loss=1,2")
    said = sweep_again(out, "loss=1,2", "settle_ms=30000")
    assert said == f"{out}: exists already; choose another --out or remove it"
    scenario = out / "loss_percent=1" / "seed=1" / "scenario.json"
    scenario.write_text(scenario.read_text().replace('"warmup_ms": 500', '"warmup_ms": 501'))
    said = sweep_again(out, "loss=1,2")
    assert said == f"{scenario.parent}: of another sweep than this: choose another --out or remove it"
    (tmp_path / "mine").mkdir()
    assert "exists already" in sweep_again(tmp_path / "mine", "loss=1,2")


def test_a_task_that_is_repeated_changes_nothing(tmp_path):
    """As Spark does when an executor is lost after its task, or the task is slow."""
    (job,) = planned("loss=20")
    once = sweep.emulate_as_task(job, tmp_path)
    before = {path: path.stat() for path in tmp_path.rglob("*")}
    assert sweep.emulate_as_task(job, tmp_path) == once == job.place
    assert {path: path.stat() for path in tmp_path.rglob("*") if path.is_file()}.items() <= before.items()
    assert set(tmp_path.rglob("*")) == set(before)


@pytest.mark.spark
def test_a_sweep_ends_in_a_page(tmp_path, monkeypatch):
    jobs = planned("loss=0,20", repeat=2)
    told = []
    sweep.emulate_on_spark(jobs, tmp_path, "local[2]", lambda *say: told.append(say))
    assert [say[0] for say in told] == [1, 2, 3, 4]
    page = sweep.measure(jobs, tmp_path, "feednet run line", "local[2]", "auto", lambda *_: None)
    assert page == tmp_path / "study.html"
    scenario, _, origin, records = read_sweep(tmp_path)
    assert (scenario, origin.command) == ("line", "feednet run line")
    assert f"Spark {origin.software['Spark']}" in page.read_text()
    assert {record.settings["net"] for record in records} == {"emulator"}
    assert [(record.settings[LOSS], record.seed) for record in records] == [(0, 1), (0, 2), (20, 1), (20, 2)]
    assert all(record.values["delivered_share"] == 100 for record in records)
    frames = [record.values["frames_per_item"] for record in records]
    assert max(frames[:2]) < min(frames[2:])
    assert not (tmp_path / "tables.partial").exists()
    again = CliRunner().invoke(feednet, ["compare", str(tmp_path), "--out", str(tmp_path / "again.html")])
    assert again.exit_code == 0, again.output
    assert (tmp_path / "again.html").read_text() == page.read_text()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    again = CliRunner().invoke(feednet, ["compare", str(tmp_path)])
    assert [*Path.cwd().iterdir()] == []
    (beside,) = tmp_path.parent.glob("study-*.html")
    assert str(beside) in again.output


def test_a_strategy_of_ones_own_can_be_swept(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from forwarder.strategies.best_route import BestRoute\n"
        'class Mine(BestRoute):\n    NAME = "mine-to-sweep"\n'
    )
    arguments = ["run", "line", "--items", "3", "--layering", "lli", "--no-report", "--jobs", "1"]
    arguments += ["--strategy-file", str(tmp_path / "mine.py"), "--sweep", "strategy=asf,mine-to-sweep"]
    CliRunner().invoke(feednet, [*arguments, "--out", str(tmp_path / "out")], catch_exceptions=False)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"strategy=asf", "strategy=mine-to-sweep"}


def test_the_command_line_says_what_cannot_be(tmp_path):
    if why_not is None:
        boxed = ["run", "line", "--sweep", "loss=1,2", "--net", "mininet", "--jobs", "2"]
        said = CliRunner().invoke(feednet, boxed)
        assert isinstance(said.exception, UserError)
        assert "one after the other" in str(said.exception)
    said = CliRunner().invoke(feednet, ["run", "line", "--on-spark"])
    assert "add --sweep or --repeat" in str(said.exception)
    said = CliRunner().invoke(
        feednet, ["run", "line", "--repeat", "2", "--out", str(tmp_path), "--no-report"]
    )
    assert "exists already" in str(said.exception)


@pytest.mark.mininet
@pytest.mark.skipif(bool(why_not := sandbox.why_not()), reason=why_not or "")
def test_runs_over_mininet_are_repeated(tmp_path):
    quick = tmp_path / "quick.toml"
    quick.write_text(QUICK)
    command = ["run", str(quick), "--net", "mininet", "--repeat", "2", "--no-report"]
    said = CliRunner().invoke(feednet, [*command, "--out", str(tmp_path / "out")], catch_exceptions=False)
    assert "2 runs in Mininet, one after the other" in said.output
    runs = [Run(tmp_path / "out" / "all" / f"seed={seed}") for seed in (1, 2)]
    assert [run.manifest.net for run in runs] == ["mininet", "mininet"]
    assert settings_of(runs[0]) == settings_of(runs[1])
    assert settings_of(runs[0])["net"].startswith("Mininet (")
    begun = [run.manifest.runs["lli"].start_ns for run in runs]
    assert begun[0] < begun[1]


QUICK = """
title = "Quick"
layerings = ["lli"]
warmup_ms = 200
settle_ms = 200
drain_ms = 200

[topology]
generator = "line"
length = 1

[workload]
items = 2

[workload.schedule]
idle_limit_ms = 50.0
"""


def keys(table, prefix=""):
    """Yield the key paths of a table and of the tables in it."""
    for name, annotation in table_keys(table).items():
        inner = [] if get_origin(annotation) in (dict, tuple) else [*tables_in(annotation)]
        if not inner:
            yield prefix + name
        for each in inner:
            yield from keys(each, f"{prefix}{name}.")


def test_people_have_words_for_all_that_can_be_set():
    known = {*keys(Scenario)} - {
        "name",
        "title",
        "group",
        "about",
        "layerings",
        "seed",
        "parameters",
        "strategies",
        "plans",
        "nodes",
    }
    assert {"workload.schedule.speed", "topology.link.loss_percent", "fork.after", "events"} <= known
    shapes = [name for make in GENERATORS.values() for name in inspect.signature(make).parameters]
    known |= {f"topology.{name}" for name in shapes if name != "link"}
    known = {key for key in known if not key.startswith("question.")}  # changes no run
    assert known - WORDS.keys() == set()
    parameters = {name for entry in LAYERINGS.values() for name in entry.parameters.model_fields}
    assert parameters - PARAMETERS.keys() == set()
    assert words("parameters.poll.window").titled == "window of poll, items"
    assert words("strategies./ndn") == ("forwarding strategy of /ndn", "")
    assert words("plans.s1.drain_per_s").titled == "drain of s1, a second"
    assert words("topology.link.some_new_ms").titled == "some new, ms"
