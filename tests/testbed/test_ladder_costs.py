"""The study of costs: formulas against counts of tiny swarms, and the command."""

import csv
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from testbed.cli.main import MENDABLE, complaint, feednet
from testbed.errors import UserError
from testbed.ladder import run
from testbed.ladder.swarms import ratio, slopes, study
from testbed.ladder.swarms.costs import FORMULAS, Load, What, Who
from testbed.ladder.swarms.period import drawn_partners, feed, pairs, play_period
from testbed.ladder.swarms.ratio import factor
from testbed.ladder.swarms.rungs import RUNGS
from testbed.ladder.swarms.slopes import AXES, BASE, Axis, estimate, fit
from testbed.ladder.swarms.swarm import Swarm, Traffic
from testbed.ladder.swarms.unchanged import talks

SEEDS = st.integers(0, 2**32)
LOADS = st.builds(
    Load,
    polls=st.integers(1, 6),
    feeds=st.integers(1, 4),
    peers=st.integers(5, 9),
    connections=st.integers(1, 4),
    history=st.integers(1, 3),
    news=st.integers(0, 3),
    edges=st.just(0),
)
S, P, N = Who.SUBSCRIBER, Who.PUBLISHER, Who.NETWORK


@settings(max_examples=15)
@given(st.sampled_from(["scan", "append-poll", "hub"]), LOADS, SEEDS)
def test_polls_cost_what_formulas_say(rung: str, load: Load, seed: int) -> None:
    if rung == "hub":  # what is uploaded is downloaded at a later poll
        load = load._replace(polls=load.polls + 2)
    period = play_period(rung, load, seed)
    assert period.missing == 0
    for who in (S, P):
        for what in What:
            formula = FORMULAS[rung, who, what]
            assert period.spent[who, what] == formula.best.of(period.load), (who, what)
            if load.news == 0 and formula.paper and rung != "hub":
                assert period.spent[who, what] == formula.paper.of(period.load), (who, what)


@settings(max_examples=15)
@given(LOADS, SEEDS)
def test_gossip_costs_what_formulas_say(load: Load, seed: int) -> None:
    plain, skips = (play_period(rung, load, seed) for rung in ("gossip", "gossip-skip"))
    for period in (plain, skips):
        assert period.spent[S, What.CONNECTIONS] == load.polls
        assert period.spent[N, What.CONNECTIONS] == load.polls * load.peers
        had = load.messages * load.peers * (1 - period.missing)
        assert period.spent[N, What.MESSAGES] == pytest.approx(had - load.messages)
    histories = FORMULAS["gossip", S, What.ELEMENTS].best
    assert plain.spent[N, What.ELEMENTS] == load.peers * histories.of(plain.load)
    # Two partners name a feed once each when they first meet, and for each change since: its history, and
    # what is published. Who sent a message names it once more: it has not been told that it has arrived.
    changes = 1 + load.news
    bound = load.feeds * (2 * skips.load.edges * (1 + changes) + load.peers * changes)
    assert skips.spent[N, What.ELEMENTS] <= min(bound, 2 * load.polls * load.peers * load.feeds)


@settings(max_examples=15)
@given(LOADS, SEEDS)
def test_floods_cost_what_formulas_say(load: Load, seed: int) -> None:
    period = play_period("flood", load, seed)
    assume(period.missing == 0)  # the network is connected
    for what in (What.MESSAGES, What.ELEMENTS):
        assert period.spent[N, what] == FORMULAS["flood", N, what].best.of(period.load)
    assert period.spent[N, What.CONNECTIONS] == period.load.edges


@settings(max_examples=15)
@given(st.integers(2, 12), st.integers(1, 5), SEEDS)
def test_trees_cost_notes_only_after_the_first_message(peers: int, connections: int, seed: int) -> None:
    links = pairs(drawn_partners(peers, connections, Random(seed)))
    messages = feed(0, 6)
    swarm = Swarm(RUNGS["ebt"].protocols(peers), [messages[0].author])
    for link in links:
        swarm.connect(*link)
    swarm.run()
    before = None
    for message in messages:
        swarm.publish(0, [message])
        swarm.run()
        sent = Traffic()
        for peer in swarm.peers:
            sent = sent.plus(peer.sent)
        repeated = sum(peer.repeated for peer in swarm.peers)
        assume(all(peer.holds(message) for peer in swarm.peers))
        if before is not None:
            fresh = sent.minus(before[0])
            assert (fresh.messages, repeated - before[1]) == (peers - 1, 0)
            assert fresh.notes == len(links) - (peers - 1)
        before = sent, repeated


def test_all_partners_are_others_and_different() -> None:
    partners = drawn_partners(6, 9, Random(1))
    assert [sorted(others) for others in partners] == [sorted({*range(6)} - {peer}) for peer in range(6)]
    assert len(pairs(partners)) == 15


def test_feeds_grow_in_the_first_half_of_a_period() -> None:
    load = BASE._replace(polls=8, news=2)
    assert [load.published_before(poll) for poll in range(8)] == [1, 1, 2, 2, 2, 2, 2, 2]
    assert load._replace(polls=1).published_before(0) == 2


def test_nothing_is_said_of_what_has_not_changed() -> None:
    told = {(talk.rung, talk.remembers, talk.connection): talk for talk in talks(50)}
    assert [*told] == [
        (rung, remembers, connection)
        for rung, remembers in (("gossip", False), ("gossip-skip", True), ("ebt", False), ("ebt", True))
        for connection in (1, 2, 3)
    ]
    for (_, remembers, connection), talk in told.items():
        assert talk.elements == (100 if connection == 1 or not remembers else 0 if connection == 2 else 2)
        assert talk.messages == (connection == 3)
        assert talk.header_bytes > 50 * talk.elements


def test_trees_cost_a_factor_over_the_hub() -> None:
    peers = 8
    join, live, back, rest = ratio.play((peers, 1))
    for phase in (join, live, back):
        assert phase.sent.messages - phase.repeated == phase.messages * (peers - 1)
    assert (live.repeated, back.repeated) == (0, 0)
    lazy = live.edges - (peers - 1)
    # Each author's first message alone has its neighbours give up a source, by a note.
    assert 0 <= live.sent.notes - live.messages * lazy <= 4
    measured = live.measures()
    assert measured["messages"] == (peers - 1) / peers
    expected = (660 * (peers - 1) + 60 * live.sent.notes / live.messages) / (660 * peers)
    assert measured["paper bytes"] == pytest.approx(expected)
    assert measured["peer bytes"] == 2 * measured["bytes"]
    assert rest.sent.named == 0
    assert "messages" not in rest.measures()
    assert factor(1) == 1
    assert factor(5) == pytest.approx(1 + 4 / 11)


def test_slopes() -> None:
    assert fit([1, 2, 4], [3, 12, 48]) == pytest.approx(2)
    assert fit([1, 2, 4], [5, 5, 5]) == 0
    assert fit([1, 2], [0, 1]) is None
    assert estimate([1, 3]) == pytest.approx((2, 12.706), abs=1e-3)


def test_every_rung_has_its_formulas() -> None:
    assert {rung for rung, _, _ in FORMULAS} == {*RUNGS}
    for rung in RUNGS:
        assert {(who, what) for name, who, what in FORMULAS if name == rung} >= {
            (who, what) for who in (S, P) for what in What
        }


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A study that takes a second, in this process."""

    def work_off(work: Callable[[Any], Any], tasks: Iterable[Any], workers: int) -> Iterator[Any]:
        return (work(task) for task in tasks)

    monkeypatch.setattr(run, "work_off", work_off)
    monkeypatch.setattr(study, "FEEDS", 20)
    monkeypatch.setattr(ratio, "SIZES", (5, 10))
    monkeypatch.setattr(slopes, "BASE", BASE._replace(polls=8, feeds=2, peers=8, connections=3))
    monkeypatch.setitem(AXES, "feeds", Axis("feeds", (1, 2)))  # type: ignore[arg-type]


def costs(*words: str) -> Result:
    return CliRunner().invoke(feednet, ["model", "costs", *words], catch_exceptions=True)


@pytest.mark.usefixtures("small")
def test_the_command_makes_tables_and_a_page(tmp_path: Path) -> None:
    parts = [word for part in ("feeds", "unchanged", "hub") for word in ("--part", part)]
    done = costs(*parts, "--seeds", "2", "--out", str(tmp_path / "study"))
    assert done.exit_code == 0, done.exception
    for title in ("Slopes over feeds", "Feeds that have not changed", "EBT over the ideal hub"):
        assert title in done.output
    names = ("points.csv", "ratios.csv", "report.html", "slopes.csv", "talks.csv")
    assert sorted(path.name for path in (tmp_path / "study").iterdir()) == [*names]
    with (tmp_path / "study" / "slopes.csv").open() as file:
        rows = {(row["rung"], row["who"], row["cost"]): row for row in csv.DictReader(file)}
    assert rows.keys() == {(rung, str(who), str(what)) for rung, who, what in FORMULAS}
    polled = rows["append-poll", "subscriber", "elements"]
    assert float(polled["mean"]) == pytest.approx(1)
    assert (float(polled["paper"]), float(polled["error"])) == pytest.approx((1, 0))
    page = (tmp_path / "study" / "report.html").read_text()
    assert "All messages arrived in all periods." in page
    assert "EBT sends this many times the hub’s bytes" in page
    assert "not a constant factor" in page  # of 5 and 10 peers


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--seeds", "1"], "1 is not in the range"),
        (["--part", "weather"], "'weather' is not one of"),
        (["--jobs", "2", "--master", "local"], "--jobs is for processes here"),
        (["--out", "full"], "full: exists already"),
    ],
)
def test_bad_input_is_one_line(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    done = costs(*words)
    assert done.exit_code != 0
    if isinstance(done.exception, MENDABLE):
        assert said in complaint(done.exception)
        assert "\n" not in complaint(done.exception)
    else:
        assert said in done.output.splitlines()[-1]
    assert [path.name for path in tmp_path.iterdir()] == ["full"]


def test_what_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise UserError("a process of the models was killed")

    monkeypatch.setattr(study, "run_trials", broken)
    done = costs("--part", "unchanged", "--out", str(tmp_path / "study"))
    assert isinstance(done.exception, UserError)
    assert not [*tmp_path.iterdir()]
