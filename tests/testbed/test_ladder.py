"""The ladder's models: against obvious programs, against networkx, and against the paper's figures."""

import csv
import subprocess
import sys
from collections import deque
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from fresh_seeds import first_fresh_seed
from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import UserError
from testbed.ladder.networks import Network, depths, growing_network, linked, random_network
from testbed.ladder.spread import Flood, flood, gossip
from testbed.ladder.swarms.protocols import REAL
from testbed.ladder.tables import TABLES, Cell, cells, play

SEEDS = st.integers(0, 2**32)


def graph(network: Network) -> "nx.Graph[int]":
    made: nx.Graph[int] = nx.Graph()
    made.add_nodes_from(range(network.peers))
    for peer in range(network.peers):
        near = network.neighbours[network.starts[peer] : network.starts[peer + 1]]
        made.add_edges_from((peer, int(other)) for other in near)
    return made


@given(st.integers(2, 60), SEEDS)
def test_gossip_takes_the_turns_that_peers_would_take(peers: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    has = [True] + [False] * (peers - 1)
    rounds: list[int] = []
    while not all(has):
        for caller, called in enumerate(random.integers(peers, size=peers)):
            has[caller] = has[called] = has[caller] or has[called]
        rounds.append(sum(has))
    assert gossip(peers, np.random.default_rng(seed)) == rounds


@given(st.integers(2, 60), SEEDS)
def test_gossip_at_once_crosses_one_connection_a_round(peers: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    has = {0}
    rounds: list[int] = []
    while len(has) < peers:
        calls = list(enumerate(random.integers(peers, size=peers).tolist()))
        has |= {b for a, b in calls if a in has} | {a for a, b in calls if b in has}
        rounds.append(len(has))
    assert gossip(peers, np.random.default_rng(seed), at_once=True) == rounds


@given(st.lists(st.sets(st.integers(0, 9)), min_size=10, max_size=10))
def test_links_lead_both_ways(calls: list[set[int]]) -> None:
    network = linked(
        np.array([*map(len, calls)]), np.array([other for called in calls for other in called], int)
    )
    wanted = [(peer, other) for peer, called in enumerate(calls) for other in called]
    ends = zip(np.repeat(np.arange(10), np.diff(network.starts)), network.neighbours, strict=True)
    assert sorted((int(a), int(b)) for a, b in ends) == sorted(wanted + [(b, a) for a, b in wanted])
    assert network.links == len(wanted)


@given(st.integers(2, 40), st.integers(1, 6), SEEDS)
def test_a_growing_network_links_no_two_peers_twice(peers: int, connections: int, seed: int) -> None:
    network = growing_network(peers, connections, np.random.default_rng(seed))
    assert network.links == graph(network).number_of_edges()
    assert nx.number_of_selfloops(graph(network)) == 0


@given(st.integers(2, 80), st.floats(0, 4), SEEDS)
def test_depths_are_those_of_networkx(peers: int, connections: float, seed: int) -> None:
    network = random_network(peers, connections, np.random.default_rng(seed))
    found = nx.single_source_shortest_path_length(graph(network), 0)
    assert [found.get(peer, -1) for peer in range(peers)] == depths(network).tolist()


@given(st.integers(2, 80), st.integers(1, 5), SEEDS)
def test_a_flood_costs_what_peers_send(peers: int, connections: int, seed: int) -> None:
    network = growing_network(peers, connections, np.random.default_rng(seed))
    friends = graph(network)
    depth, sent, queue = {0: 0}, 0, deque([(0, -1)])
    while queue:
        peer, source = queue.popleft()
        for other in friends[peer]:
            if other != source:
                sent += 1
                if other not in depth:
                    depth[other] = depth[peer] + 1
                    queue.append((other, peer))
    cost = flood(network)
    assert (cost.messages, cost.rounds, cost.reached) == (sent, max(depth.values()), peers)
    assert cost.mean == pytest.approx(sum(depth.values()) / (peers - 1))
    assert cost.messages == 2 * network.links - (peers - 1)


def test_the_papers_figures_are_where_chance_puts_them() -> None:
    first = first_fresh_seed()
    told = []
    for name, table in TABLES.items():
        found = cells(name, table.peers, [play(name, table.peers, first + seed) for seed in range(60)])
        told += [cell.holds for cell in found if cell.holds is not None]
    assert 8 + 42 + 60 <= len(told) <= 8 + 45 + 60  # of one connection a peer, few networks are connected
    assert sum(told) > 0.85 * len(told)


def test_a_figure_of_other_networks_is_not_compared() -> None:
    for cell in cells("flood", 500, [play("flood", 500, seed) for seed in range(3)]):
        assert (cell.paper, cell.holds) == (None, None)


def test_a_run_that_is_over_has_reached_all() -> None:
    trials = [{"1": {"in turn": 4.0}, "2": {"in turn": 5.0}}, {"1": {"in turn": 5.0}}]
    found = [cell for cell in cells("gossip", 5, trials) if cell.column == "in turn"]
    assert [(cell.row, cell.mean, cell.runs) for cell in found] == [("1", 4.5, 2), ("2", 5.0, 2)]


@pytest.mark.parametrize(
    ("paper", "holds"), [(None, None), (2.9, True), (2.88, False), (3.2, True), (3.3, False)]
)
def test_a_figure_holds_as_far_as_its_digits_tell(paper: float | None, holds: bool | None) -> None:
    assert Cell("1", "mean", 3.0, 0.1, 2.94, 3.16, 9, paper, 1).holds is holds


@pytest.mark.parametrize("name", [*TABLES])
def test_the_real_protocols_give_the_figures_of_the_model(name: str) -> None:
    seed = first_fresh_seed()
    assert play(name, 30, seed, REAL) == play(name, 30, seed)


def test_protocols_that_give_other_figures_are_told_of() -> None:
    def wasteful(network: Network) -> Flood:
        cost = flood(network)
        return cost._replace(messages=cost.messages + 1)

    real = REAL._replace(flood=wasteful)
    play("gossip", 20, 1, real)
    with pytest.raises(UserError, match=r"table flood, seed 1, row 1: the protocols give .*'messages': 20,"):
        play("flood", 20, 1, real)


def ladder(*words: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "testbed.cli", "model", "ladder", *words]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def test_the_command_makes_tables_and_a_page(tmp_path: Path) -> None:
    small = ("--peers", "40", "--seeds", "3")
    for out, more in (("one", ("--jobs", "1")), ("two", ("--jobs", "2", "--real"))):
        done = ladder(*small, *more, "--out", out, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert "The flood of a message, 40 peers" in done.stdout
    for name, table in TABLES.items():
        texts = [(tmp_path / out / f"{name}.csv").read_text() for out in ("one", "two")]
        assert texts[0] == texts[1]
        rows = list(csv.DictReader(texts[0].splitlines()))
        assert {row["column"] for row in rows} == {*table.columns}
    assert "In each of 3 runs, peers that speak" in (tmp_path / "two" / "report.html").read_text()
    page = (tmp_path / "one" / "report.html").read_text()
    assert "No figure of the paper is compared" in page
    assert sorted(path.name for path in (tmp_path / "one").iterdir()) == [
        *("connectivity.csv", "flood.csv", "gossip.csv", "report.html")
    ]


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["--peers", "1"], 2, "1 is not in the range"),
        (["--table", "ebt"], 2, "'ebt' is not one of"),
        (["--real", "--peers", "20001"], 1, "feednet: --real has 20,000 --peers at most"),
        (["--jobs", "2", "--master", "local"], 1, "feednet: --jobs is for processes here"),
        (["--out", "full"], 1, "feednet: full: exists already"),
    ],
)
def test_bad_input_is_one_line(words: list[str], status: int, said: str, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    done = ladder("--seeds", "2", *words, cwd=tmp_path)
    assert done.returncode == status
    assert said in done.stderr.splitlines()[-1]
    assert [path.name for path in tmp_path.iterdir()] == ["full"]


@pytest.mark.slow
def test_seeds_may_be_tasks_of_spark(tmp_path: Path) -> None:
    small = ("--table", "flood", "--peers", "100", "--seeds", "5")
    for out, more in (("here", ()), ("there", ("--master", "local[2]"))):
        done = ladder(*small, *more, "--out", out, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "here" / "flood.csv").read_bytes() == (tmp_path / "there" / "flood.csv").read_bytes()
