"""`feednet model friends`: replication among friends, beside random swarms."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table as Shown

from testbed.cli.model_run import (
    command_line,
    console,
    follow_graph,
    graph,
    made_directory,
    many_runs,
    progress,
    runs,
    write_table,
)
from testbed.errors import shown
from testbed.ladder.coverage import CHOICES, MOST, WANTED
from testbed.ladder.friends import CONNECTIONS, COSTS, NETWORKS, ROUNDS, Found, Study, study_network

if TYPE_CHECKING:
    from analysis.metrics.study import Estimate
    from analysis.report.figures.plot import Figure

_SERIES = (*NETWORKS, *CHOICES)
_GRAPHS = {"social": "social graph", "random": "random graph"}
_DRAWN = ("reached", "mean", "depth", "copies")
_CLOSE = 0.05
_VERDICTS = {
    (True, True): "A random swarm is a good approximation: who is reached differs by less than {}.",
    (False, False): "A random swarm promises too much: who is reached differs by more than {}.",
    (
        False,
        True,
    ): "A random swarm is a good approximation for replication two follows out, and promises too much for"
    " one follow (who is reached differs by less, and by more, than {}).",
    (
        True,
        False,
    ): "A random swarm is a good approximation for replication one follow out, and promises too much for"
    " two (who is reached differs by less, and by more, than {}).",
}
"""Whether it is for members one follow and two follows out -> what is said."""
_SHORT = {"reached": "reached", "mean": "depth", "copies": "copies"}
_USUAL = "5"  # connections, and peers, of which the conclusion speaks: the paper's

Estimates = Mapping[tuple[str, ...], "Estimate"]
"""(people, *key of testbed.ladder.friends.Found) -> estimate."""


@click.command()
@click.option(
    "--peers",
    "sizes",
    type=click.IntRange(100, 1_000_000),
    multiple=True,
    default=(1_000, 10_000),
    show_default=True,
    help="People (repeatable).",
)
@follow_graph
@click.option(
    "--samples",
    type=click.IntRange(1, 10_000),
    default=20,
    show_default=True,
    help="Messages, and readers, of each network.",
)
@many_runs(10, "Networks of each size.")
@click.option("--out", type=click.Path(path_type=Path), help="Directory to make; default runs/friends-TIME.")
def friends(
    sizes: tuple[int, ...],
    follows: int,
    closure: float,
    mutual: float,
    hubs: float,
    samples: int,
    seeds: int,
    first: int,
    jobs: int | None,
    master: str | None,
    out: Path | None,
) -> None:
    """Ask how good an approximation a random swarm is for replication among friends.

    "Scalable Secure Scuttlebutt" computes with random swarms and leaves this question open. Messages spread
    among those who follow their author, over connections to friends; beside that on random networks of the
    same peers. And: what a few peers, chosen in three ways, replicate of one's friends and of their friends.
    """
    from analysis.metrics.study import estimate
    from testbed.ladder.run import run_trials

    wanted = runs(seeds, first, jobs, master)
    study = Study(graph(follows, closure, mutual, hubs), messages=samples, readers=samples)
    sizes = tuple(dict.fromkeys(sizes))
    tasks = [(people, seed) for people in sizes for seed in wanted.seeds]
    with made_directory("friends", out) as (directory, partial_directory):
        with progress() as told:
            trials = run_trials(partial(_study, study), tasks, wanted.jobs, wanted.master, told)
        seen: dict[tuple[str, ...], list[float]] = {}
        for (people, _), found in trials.items():
            for key, value in found.items():
                seen.setdefault((f"{people}", *key), []).append(value)
        known = {key: estimate(values) for key, values in seen.items()}
        _write(partial_directory, known)
        conclusion = concluded(known, f"{sizes[-1]}")
        _write_page(partial_directory / "report.html", study, sizes, known, conclusion)
    _print(known, f"{sizes[-1]}")
    console.print(conclusion)
    console.print(f"report    {shown(str(directory / 'report.html'))}")


def _study(study: Study, task: tuple[int, int]) -> Found:
    people, seed = task
    return study_network(study, people, seed)


_TABLES = {
    "size": ("hops",),
    "flood": ("hops", "connections", "network", "cost"),
    "gossip": ("hops", "network", "until"),
    "coverage": ("graph", "choice", "peers", "wanted"),
}


def _write(directory: Path, known: Estimates) -> None:
    for kind, columns in _TABLES.items():
        rows = [
            (key[0], *key[2:], each.mean, each.low, each.high, each.n)
            for key, each in known.items()
            if key[1] == kind
        ]
        name = "members" if kind == "size" else kind
        write_table(directory / f"{name}.csv", ("people", *columns, "mean", "low", "high", "networks"), rows)


def concluded(known: Estimates, people: str) -> str:
    """Answer the question in a few sentences, from the figures of the largest networks."""
    from analysis.report.numbers import pretty

    def of(*key: str) -> str:
        found = known.get((people, *key))
        return pretty(None if found is None else found.mean)

    def share(*key: str) -> str:
        found = known.get((people, *key))
        return f"{pretty(None if found is None else 100 * found.mean)} %"

    texts, good = [], []
    for hops, who in (("1", "its author’s followers"), ("2", "those within two follows of its author")):
        flood, gossip = ("flood", hops, _USUAL), ("gossip", hops)
        near, swarm = (known.get((people, *flood, network, "reached")) for network in ("friends", "swarm"))
        if near is None or swarm is None:
            continue
        good.append(near.mean > (1 - _CLOSE) * swarm.mean)
        texts.append(
            f"Among {who}, a flood over {_USUAL} connections to friends reaches"
            f" {share(*flood, 'friends', 'reached')}, at a mean depth of {of(*flood, 'friends', 'mean')};"
            " in a"
            f" random swarm {share(*flood, 'swarm', 'reached')}, at {of(*flood, 'swarm', 'mean')}. Gossip"
            " gets"
            f" a message to 90 % in {of(*gossip, 'friends', 'nine tenths')} rounds, and in"
            f" {of(*gossip, 'swarm', 'nine tenths')} there."
        )
    if len(good) == 2:
        texts.insert(0, _VERDICTS[good[0], good[1]].format(f"{100 * _CLOSE:g} %"))
    coverage = ("coverage", "social")
    chosen = [
        f"{_USUAL} {title}: {share(*coverage, choice, _USUAL, 'friends')} and"
        f" {share(*coverage, choice, _USUAL, 'beyond')}"
        for choice, title in CHOICES.items()
    ]
    texts.append(f"Of a reader’s friends, and of their friends, a few peers replicate: {'; '.join(chosen)}.")
    return f"With {int(people):,} people. {' '.join(texts)}"


def _write_page(path: Path, study: Study, sizes: Sequence[int], known: Estimates, conclusion: str) -> None:
    from analysis.report.model import Section, Table, estimated, write_model
    from analysis.report.numbers import pretty

    def mean(*key: str) -> str:
        found = known.get(key)
        return pretty(None if found is None else found.mean)

    names = [f"{size}" for size in sizes]
    hops = [f"{each}" for each in study.hops]
    sized = [
        [pretty(float(people)), *(estimated(known.get((people, "size", each))) for each in hops)]
        for people in names
    ]
    flooded = [
        [
            f"{pretty(float(people))} people, {each} {'hop' if each == '1' else 'hops'}, {connections}",
            *(
                mean(people, "flood", each, f"{connections}", network, cost)
                for cost in COSTS
                for network in NETWORKS
            ),
        ]
        for people in names
        for each in hops
        for connections in CONNECTIONS
    ]
    gossiped = [
        [
            f"{pretty(float(people))} people, {each} {'hop' if each == '1' else 'hops'}",
            *(
                estimated(known.get((people, "gossip", each, network, until)))
                for until in ROUNDS
                for network in ("friends", "swarm")
            ),
        ]
        for people in names
        for each in hops
    ]
    covered = [
        [
            f"{pretty(float(people))} people, {_GRAPHS[kind]}, {peers}",
            *(
                mean(people, "coverage", kind, choice, f"{peers}", wanted)
                for wanted in WANTED
                for choice in CHOICES
            ),
        ]
        for people in names
        for kind in _GRAPHS
        for peers in (1, 2, 3, 5, 10, MOST)
    ]
    write_model(
        path,
        "friends",
        "Replication among friends, and random swarms",
        [
            "How good an approximation is a random swarm for replication among friends? “Scalable Secure"
            " Scuttlebutt” (Tarr)"
            " computes with random swarms, and leaves the question open.",
            conclusion,
        ],
        _SERIES,
        [
            Section(
                "The flood of a message",
                [
                    "Only members replicate a message and pass it on: its author, and those from whom one"
                    " follow (1 hop) or two"
                    " lead to the author. friends: each opens connections to random people that it follows,"
                    " members or not."
                    " random: a random network of the same members with as many links as friends have among"
                    " each other."
                    " swarm: each member opens its connections to random members, as in the paper."
                ],
                [_flood_figure(known, names, hops, cost) for cost in _DRAWN],
                [
                    Table(
                        "members",
                        "Members of a message",
                        ("people", *(f"hops: {each}" for each in hops)),
                        sized,
                    ),
                    Table(
                        "flood",
                        "As a table",
                        (
                            "network, hops, connections",
                            *(f"{title}, {network}" for title in COSTS.values() for network in NETWORKS),
                        ),
                        flooded,
                    ),
                ],
                [
                    "Authors are drawn as readers meet them: by followers. Depths and copies are of members"
                    " that are reached."
                ],
            ),
            Section(
                "Rounds of gossip",
                [
                    "In each round each member calls one that it follows (friends), or any member (swarm),"
                    " one call after the"
                    " other."
                ],
                (),
                [
                    Table(
                        "gossip",
                        "Rounds until so many members have a message",
                        (
                            "network, hops",
                            *(f"{until}, {network}" for until in ROUNDS for network in ("friends", "swarm")),
                        ),
                        gossiped,
                    )
                ],
            ),
            Section(
                "What a few peers replicate of those one wants",
                [
                    "Each peer replicates itself, those that it follows and those that these follow. The"
                    " paper’s sample of"
                    " Scuttlebutt: 5 random peers have all friends of a person, and about 75 % of their"
                    " friends. Beside the"
                    " social graph is a random one, in which each follows as many, all of them equally"
                    " likely."
                ],
                [_coverage_figure(known, names, wanted) for wanted in WANTED],
                [
                    Table(
                        "coverage",
                        "As a table",
                        (
                            "network, graph, peers",
                            *(
                                f"{title}, {choice}"
                                for title in WANTED.values()
                                for choice in CHOICES.values()
                            ),
                        ),
                        covered,
                    )
                ],
            ),
        ],
        command_line(),
    )


def _flood_figure(known: Estimates, sizes: Sequence[str], hops: Sequence[str], cost: str) -> "Figure":
    from analysis.report.figures.model import curves
    from analysis.report.figures.plot import Menu

    def find(people: str, each: str) -> dict[str, dict[float, Any]]:
        found: dict[str, dict[float, Any]] = {}
        for network in NETWORKS:
            for connections in CONNECTIONS:
                key = (people, "flood", each, f"{connections}", network, cost)
                if key in known:
                    found.setdefault(network, {})[float(connections)] = known[key]
        return found

    title = COSTS[cost]
    return curves(
        f"friends-{cost}",
        f"{title[0].upper()}{title[1:]}",
        ("connections that each opens", title),
        _SERIES,
        (Menu("people", [*sizes]), Menu("hops", [*hops])),
        find,
        logarithms="xy" if cost == "copies" else "x",
        bounds=(0, 1.02) if cost == "reached" else None,
    )


def _coverage_figure(known: Estimates, sizes: Sequence[str], wanted: str) -> "Figure":
    from analysis.report.figures.model import curves
    from analysis.report.figures.plot import Menu

    kinds = {title: kind for kind, title in _GRAPHS.items()}

    def find(people: str, title: str) -> dict[str, dict[float, Any]]:
        found: dict[str, dict[float, Any]] = {}
        for choice in CHOICES:
            for peers in range(1, MOST + 1):
                key = (people, "coverage", kinds[title], choice, f"{peers}", wanted)
                if key in known:
                    found.setdefault(choice, {})[float(peers)] = known[key]
        return found

    title = WANTED[wanted]
    return curves(
        f"friends-{wanted}-covered",
        f"{title[0].upper()}{title[1:]}",
        ("peers chosen", "share replicated"),
        _SERIES,
        (Menu("people", [*sizes]), Menu("graph", [*kinds])),
        find,
        bounds=(0, 1.02),
    )


def _print(known: Estimates, people: str) -> None:
    from analysis.report.numbers import pretty

    table = Shown(
        title=f"Floods among {int(people):,} people", title_justify="left", title_style="bold", box=None
    )
    shown_costs: dict[str, tuple[str, ...]] = dict.fromkeys(("reached", "mean"), tuple(NETWORKS))
    shown_costs["copies"] = ("friends", "swarm")
    table.add_column("hops, K", no_wrap=True)
    for cost, networks in shown_costs.items():
        for network in networks:
            table.add_column(f"{_SHORT[cost]}\n{network}", justify="right")
    for hops in ("1", "2"):
        for connections in CONNECTIONS:
            row = [f"{hops}, {connections}"]
            for cost, networks in shown_costs.items():
                for network in networks:
                    found = known.get((people, "flood", hops, f"{connections}", network, cost))
                    row.append(pretty(None if found is None else found.mean))
            table.add_row(*row)
    console.print(table)
