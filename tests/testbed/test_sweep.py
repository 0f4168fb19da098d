"""Sweeps: what is run, that it is the same whatever runs it, and what comes of it."""

import hashlib

import pytest
from click.testing import CliRunner

from analysis.study import LOSS, read_sweep
from testbed import sweep
from testbed.cli import feednet
from testbed.errors import UserError

SHORT = {"layerings": ("lli",), "items": 4}


def planned(*texts, repeat=1, **options):
    return sweep.plan(
        "line", [sweep.parse_axis(text) for text in texts], repeat, SHORT | options, ["feednet", "run"]
    )


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
        (["nothing=2"], 1, "nothing: unknown key"),
        (["title.x=2"], 1, "there is no such key"),
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


@pytest.mark.spark
def test_a_sweep_ends_in_a_page(tmp_path):
    jobs = planned("loss=0,20", repeat=2)
    told = []
    sweep.emulate_on_spark(jobs, tmp_path, "local[2]", lambda *say: told.append(say))
    assert [say[0] for say in told] == [1, 2, 3, 4]
    page = sweep.measure(jobs, tmp_path, "local[2]", lambda *_: None)
    assert page == tmp_path / "study.html"
    scenario, _, records = read_sweep(tmp_path)
    assert scenario == "line"
    assert [(record.settings[LOSS], record.seed) for record in records] == [(0, 1), (0, 2), (20, 1), (20, 2)]
    assert all(record.values["delivered_share"] == 100 for record in records)
    frames = [record.values["frames_per_item"] for record in records]
    assert max(frames[:2]) < min(frames[2:])
    assert not (tmp_path / "tables.partial").exists()
    again = CliRunner().invoke(feednet, ["compare", str(tmp_path), "--out", str(tmp_path / "again.html")])
    assert again.exit_code == 0, again.output
    assert (tmp_path / "again.html").read_text() == page.read_text()


def test_the_command_line_says_what_cannot_be(tmp_path):
    said = CliRunner().invoke(feednet, ["run", "line", "--sweep", "loss=1,2", "--net", "mininet"])
    assert isinstance(said.exception, UserError)
    assert "runs are emulated" in str(said.exception)
    said = CliRunner().invoke(feednet, ["run", "line", "--on-spark"])
    assert "add --sweep or --repeat" in str(said.exception)
    said = CliRunner().invoke(
        feednet, ["run", "line", "--repeat", "2", "--out", str(tmp_path), "--no-report"]
    )
    assert "exists already" in str(said.exception)
