"""The models of social networks and of replication among friends: against obvious programs and networkx."""

import csv
import subprocess
import sys
from pathlib import Path
from random import Random

import networkx as nx
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from testbed.cli.main import MENDABLE, complaint
from testbed.cli.model import model
from testbed.ladder.coverage import CHOICES, MOST, covered, in_best_order, replicated
from testbed.ladder.follows import Follows, at_random, grown
from testbed.ladder.friends import first_round, friends_network, gossip_among_friends
from testbed.ladder.networks import network_of_links
from testbed.ladder.power_law import fit
from testbed.ladder.traits import (
    PUBLISHED,
    SOURCES,
    TRAITS,
    at_least,
    clustering,
    distances,
    measure,
    reciprocity,
)
from testbed.scenario.sections import FollowGraph

SEEDS = st.integers(0, 2**32)
GRAPHS = st.builds(
    FollowGraph,
    follows=st.integers(1, 5),
    closure=st.floats(0, 1),
    mutual=st.floats(0, 1),
    hubs=st.floats(0, 1),
)
PEOPLE = st.builds(grown, st.integers(2, 60), GRAPHS, st.integers(0, 99))


def digraph(follows: Follows) -> "nx.DiGraph[int]":
    made: nx.DiGraph[int] = nx.DiGraph()
    made.add_nodes_from(range(follows.people))
    made.add_edges_from(zip(follows.who.tolist(), follows.whom.tolist(), strict=True))
    return made


@given(PEOPLE, st.integers(0, 4))
def test_follows_lead_where_networkx_says(follows: Follows, hops: int) -> None:
    graph = digraph(follows)
    assert graph.number_of_edges() == len(follows.whom), "nobody is followed twice by one"
    assert nx.number_of_selfloops(graph) == 0
    for person in range(0, follows.people, 7):
        near = nx.single_source_shortest_path_length(graph, person, cutoff=hops)
        assert follows.within(person, hops).tolist() == sorted(near.keys() - {person})
    assert digraph(follows.turned()).edges == graph.reverse().edges


@given(PEOPLE, SEEDS)
def test_a_random_graph_has_as_many_follows_at_most(follows: Follows, seed: int) -> None:
    other = at_random(follows.counts, np.random.default_rng(seed))
    assert (other.counts <= follows.counts).all()
    assert nx.number_of_selfloops(digraph(other)) == 0
    assert digraph(other).number_of_edges() == len(other.whom)


@given(st.integers(2, 40), st.data())
def test_so_many_links_are_so_many(peers: int, data: st.DataObject) -> None:
    links = data.draw(st.integers(0, peers * (peers - 1) // 2))
    network = network_of_links(peers, links, np.random.default_rng(data.draw(SEEDS)))
    assert network.links == links
    ends = np.repeat(np.arange(peers), np.diff(network.starts))
    assert (
        len({frozenset(pair) for pair in zip(ends.tolist(), network.neighbours.tolist(), strict=True)})
        == links
    )
    assert (ends != network.neighbours).all()


def test_all_links_are_equally_likely() -> None:
    random = np.random.default_rng(1)
    degrees = sum(np.diff(network_of_links(20, 30, random).starts) for _ in range(2000))
    assert stats.chisquare(degrees).pvalue > 1e-4


# What is measured


@pytest.mark.parametrize("exponent", [1.8, 2.5, 3.2])
def test_a_power_law_has_the_exponent_that_it_was_drawn_with(exponent: float) -> None:
    found = []
    for seed in range(8):
        values = stats.zipf.rvs(exponent, size=5000, random_state=seed)
        found.append(fit(values[values < 2**53]))
    exponents = [each.exponent for each in found if each is not None]
    assert np.mean(exponents) == pytest.approx(exponent, abs=0.06)


def test_what_comes_before_the_tail_does_not_count() -> None:
    random = np.random.default_rng(5)
    tail = np.floor(20 * (1 - random.random(20_000)) ** (-1 / 1.5)).astype(np.int64)
    found = fit(np.concatenate((tail[tail < 10**12], random.integers(1, 20, 20_000))))
    assert found is not None
    assert found.exponent == pytest.approx(2.5, abs=0.08)
    assert 15 <= found.least <= 60
    assert found.distance < 0.02


def test_too_little_for_a_tail_has_no_exponent() -> None:
    assert fit(np.full(1000, 7)) is None
    assert fit(np.arange(1, 40)) is None
    assert fit(np.zeros(1000, int)) is None


@given(PEOPLE)
def test_returned_follows_are_counted_as_networkx_counts_them(follows: Follows) -> None:
    assert reciprocity(follows) == pytest.approx(nx.overall_reciprocity(digraph(follows)))


@pytest.mark.parametrize("closure", [0.0, 0.9])
def test_clustering_is_that_of_networkx(closure: float) -> None:
    follows = grown(150, FollowGraph(follows=3, closure=closure, mutual=0.0), 1)
    network, graph = follows.joined(), digraph(follows).to_undirected()
    assert clustering(network, np.random.default_rng(1), of_people=True) == pytest.approx(
        nx.average_clustering(graph), abs=0.012
    )
    assert clustering(network, np.random.default_rng(2), of_people=False) == pytest.approx(
        nx.transitivity(graph), abs=0.012
    )


@given(st.builds(grown, st.integers(2, 20), GRAPHS, st.integers(0, 99)))
def test_distances_are_those_of_networkx(follows: Follows) -> None:
    graph = digraph(follows).to_undirected()
    known = sorted(
        far for _, near in nx.all_pairs_shortest_path_length(graph) for far in near.values() if far > 0
    )
    mean, ninety = distances(follows.joined(), np.random.default_rng(1))
    assert mean == pytest.approx(sum(known) / len(known))
    within = [sum(far <= at for far in known) / len(known) for at in (int(ninety), int(ninety) + 1)]
    assert within[0] <= 0.9 + 1e-9
    assert within[0] + (ninety % 1) * (within[1] - within[0]) == pytest.approx(0.9) or ninety == int(ninety)


@given(st.lists(st.integers(0, 30), min_size=1, max_size=60))
def test_a_distribution_says_how_many_have_so_many_or_more(values: list[int]) -> None:
    points = at_least(np.array(values))
    assert points == [
        (number, sum(value >= number for value in values) / len(values)) for number, _ in points
    ]
    assert {number for number, _ in points} <= {*values}
    assert not points or points[-1][0] == max(values)


def test_each_assumption_has_its_parameter() -> None:
    def traits(activity: float = 1.0, **changes: float) -> dict[str, float]:
        return measure(3000, FollowGraph(follows=5, **changes), activity, 20, 1).traits

    usual = traits()
    assert usual.keys() == {*TRAITS}
    assert traits(hubs=0.0)["hubs"] < usual["hubs"] / 1.5
    assert traits(hubs=0.0)["followers_exponent"] > usual["followers_exponent"] + 0.3
    assert traits(closure=0.9)["local_clustering"] > 1.3 * usual["local_clustering"]
    assert traits(closure=0.0)["local_clustering"] < usual["local_clustering"] / 1.5
    assert usual["activity_exponent"] == pytest.approx(2, abs=0.1), "1 + 1 / s"
    assert traits(activity=2.0)["activity_exponent"] == pytest.approx(1.5, abs=0.1)
    assert traits(mutual=1.0)["reciprocity"] == 1


def test_what_was_published_has_its_reference() -> None:
    for real in PUBLISHED:
        assert real.source in SOURCES
        assert real.traits.keys() <= TRAITS.keys()
    assert {real.source for real in PUBLISHED} == SOURCES.keys()


# Replication among friends


@given(PEOPLE, st.integers(1, 6), SEEDS)
def test_connections_are_to_friends_who_are_members(follows: Follows, most: int, seed: int) -> None:
    members = np.array(sorted(Random(seed).sample(range(follows.people), (follows.people + 1) // 2)))
    network = friends_network(follows, members, most, np.random.default_rng(seed))
    own = digraph(follows).subgraph(members.tolist()).to_undirected()
    links = {
        frozenset((int(members[peer]), int(members[other])))
        for peer in range(network.peers)
        for other in network.neighbours[network.starts[peer] : network.starts[peer + 1]]
    }
    assert len(links) == network.links
    assert links <= {frozenset(edge) for edge in own.edges}
    assert network.links <= most * len(members)
    if most >= follows.counts.max():
        assert len(links) == own.number_of_edges()


def test_connections_are_drawn_from_all_friends() -> None:
    """A member with ten friends, five of them members, has one connection to a member every other time."""
    follows = Follows(np.array([0, 10] + [10] * 10), np.arange(1, 11))
    members, random = np.array([0, 2, 4, 6, 8, 10]), np.random.default_rng(3)
    links = [friends_network(follows, members, 1, random).links for _ in range(2000)]
    assert {*links} == {0, 1}
    assert np.mean(links) == pytest.approx(0.5, abs=0.05)


@given(PEOPLE, SEEDS)
def test_gossip_among_friends_takes_the_turns_that_they_would_take(follows: Follows, seed: int) -> None:
    author = 0
    members = np.sort(np.append(follows.turned().within(author, 2), author))
    random, has, reached = np.random.default_rng(seed), {author}, list[int]()
    calling = [int(member) for member in members if follows.counts[member]]
    while len(has) < len(members):
        draws = random.integers(follows.counts[calling])
        for member, draw in zip(calling, draws, strict=True):
            other = int(follows.whom[follows.starts[member] + draw])
            if other in members and {member, other} & has:
                has |= {member, other}
        reached.append(len(has))
    found = gossip_among_friends(follows, members, author, np.random.default_rng(seed))
    assert found == reached or (not reached and found == [1])


def test_the_first_round_with_enough_is_found() -> None:
    assert first_round([2, 5, 9, 10], 9) == 3
    assert first_round([2, 5], 9) == 2, "the last that was played"


@given(PEOPLE, SEEDS)
def test_peers_hold_what_two_follows_lead_to(follows: Follows, seed: int) -> None:
    graph, random = digraph(follows), Random(seed)
    peers = random.sample(range(follows.people), min(3, follows.people))
    wanted = random.sample(range(follows.people), min(9, follows.people))
    for row, peer in zip(replicated(follows, np.array(peers), np.array(wanted)), peers, strict=True):
        near = nx.single_source_shortest_path_length(graph, peer, cutoff=2)
        assert row.tolist() == [person in near for person in wanted]


@given(st.lists(st.lists(st.booleans(), min_size=6, max_size=6), min_size=1, max_size=6), st.integers(1, 6))
def test_the_best_is_chosen_at_each_step(rows: list[list[bool]], most: int) -> None:
    has = np.array(rows)
    left, missing, chosen = [*rows], {*range(6)}, []
    for _ in range(min(most, len(rows))):
        best = max(left, key=lambda row: sum(row[place] for place in missing))
        chosen.append(best)
        left.remove(best)
        missing -= {place for place in missing if best[place]}
    found = in_best_order(has, most)
    assert len(found) == len(chosen)
    for step in range(1, len(chosen) + 1):
        assert found[:step].any(axis=0).sum() == np.array(chosen[:step]).any(axis=0).sum()


@given(PEOPLE, SEEDS)
def test_more_peers_cover_more(follows: Follows, seed: int) -> None:
    shares = dict(covered(follows, 1, np.random.default_rng(seed)))
    for choice in CHOICES:
        friends = [shares[choice, f"{peers}", "friends"] for peers in range(1, MOST + 1)]
        assert friends == sorted(friends)
        assert 0 <= friends[0] <= friends[-1] <= 1
    whom = follows.counts.max()
    if whom <= MOST:
        assert shares["random friends", f"{MOST}", "friends"] == 1, "each friend replicates itself"


# The commands


@pytest.mark.parametrize(
    ("words", "files", "said"),
    [
        (
            ("social", "--jobs", "1"),
            {"traits.csv", "distributions.csv"},
            "Networks of 200 people, and real ones",
        ),
        (
            ("friends", "--samples", "3", "--jobs", "2"),
            {"members.csv", "flood.csv", "gossip.csv", "coverage.csv"},
            "With 200 people. A random swarm",
        ),
    ],
)
def test_a_command_makes_tables_and_a_page(
    words: tuple[str, ...], files: set[str], said: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "testbed.cli", "model", *words, "--peers", "200", "--seeds", "2"]
    done = subprocess.run(
        [*command, "--out", "out"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert said in done.stdout
    assert {path.name for path in (tmp_path / "out").iterdir()} == files | {"report.html"}
    for file in files:
        text = (tmp_path / "out" / file).read_text()
        assert [*csv.DictReader(text.splitlines())]
        assert "nan" not in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["social", "--peers", "50"], "50 is not in the range"),
        (["social", "--closure", "1.5"], "1.5 is not in the range"),
        (["friends", "--hubs", "x"], "'x' is not a valid number"),
        (["friends", "--seeds", "1"], "1 is not in the range"),
        (["friends", "--jobs", "2", "--master", "local"], "--jobs is for processes here"),
        (["social", "--out", "full"], "full: exists already"),
        (["friends", "--out", "full"], "full: exists already"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    done = CliRunner().invoke(model, words)
    if isinstance(done.exception, MENDABLE):
        assert said in complaint(done.exception)
        assert "\n" not in complaint(done.exception)
    else:
        assert done.exit_code == 2
        assert said in done.output.splitlines()[-1]
    assert [path.name for path in tmp_path.iterdir()] == ["full"]
