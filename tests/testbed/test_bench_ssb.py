"""The bench of the SSB store and graph: that it runs, not how fast."""

import json
from random import Random

import pytest
from click.testing import CliRunner

from ssb.applications.catalogue import APPLICATIONS
from testbed.bench.figures import figure
from testbed.bench.peers import branches, views
from testbed.bench.peers import commands as ssb_commands
from testbed.bench.peers.store import bench

SMALL = ["--messages", "1000", "--feeds", "20"]


def test_every_figure_is_there():
    ran = CliRunner().invoke(bench, [*SMALL, "--json"])
    assert ran.exit_code == 0, ran.output
    result = json.loads(ran.output)
    assert (result["messages"], result["feeds"]) == (1000, 20)
    figures = {row["what"]: row["figure"]["median"] for row in result["rows"]}
    assert len(figures) == 12 + 1
    assert all(value > 0 for what, value in figures.items() if "memory" not in what)
    assert figures["append, verified before"] > figures["append and verify"]


def test_commands_are_timed(tmp_path, monkeypatch):
    feeds = ssb_commands.make_account(tmp_path / "account", 1000, 20)
    taken_s = ssb_commands._seconds(tmp_path / "account", "follow", feeds[1])
    assert taken_s > 0, "a real command is not refused"
    ran = []
    monkeypatch.setattr(ssb_commands, "_seconds", lambda directory, *words: ran.append(words) or 0.5)
    figures = list(ssb_commands.measure(tmp_path / "account", feeds, 1))
    assert [row.met() for row in figures][:12] == [None] * 4 + [True] * 8
    assert len(figures) == 4 + 8 + 1 + 8
    assert ran.count(("status",)) == 3


def test_commands_beside_a_merged_fork_are_timed():
    ran = CliRunner().invoke(branches.bench, ["--messages", "20", "--repeats", "1", "--json"])
    assert ran.exit_code == 0, ran.output
    figures = {row["what"]: row["figure"]["median"] for row in json.loads(ran.output)["rows"]}
    assert len(figures) == 6
    assert all(value > 0 for value in figures.values())


def test_views_are_made_again(tmp_path):
    ran = CliRunner().invoke(views.bench, [*SMALL, "--posts", "60", "--json"])
    assert ran.exit_code == 0, ran.output
    figures = {row["what"]: row["figure"]["median"] for row in json.loads(ran.output)["rows"]}
    parts = [
        value for what, value in figures.items() if what.endswith("again") and not what.startswith("all")
    ]
    assert sum(parts) == pytest.approx(figures["all views, again"])
    assert len(parts) == 1 + len(APPLICATIONS)
    assert (
        figures["chat of 60 as written, incrementally"]
        < figures["chat of 60 as written, sorted for each post"]
    )


def test_what_the_bench_reduces_is_there():
    """A view of nothing would be made in no time."""
    people = ssb_commands.People(Random(0), 20)
    states = {name: each.state() for name, each in APPLICATIONS.items()}
    for batch in people.batches(3000):
        for message in batch:
            for state in states.values():
                state.add(message)
    assert len(states["threads"].tangles) > 200
    assert len(states["likes"].liked()) > 100
    assert len(states["gatherings"].gatherings()) > 1
    assert any(game.moves for game in states["chess"].games())


@pytest.mark.parametrize(
    ("value", "bar", "is_most", "met"),
    [
        (2, None, False, None),
        (2, 1, False, True),
        (2, 1, True, False),
        (1, 1, True, True),
        (1, 2, False, False),
    ],
)
def test_bars(value, bar, is_most, met):
    assert figure("", value, "", bar, is_most).met() is met
