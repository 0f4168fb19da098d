"""`feednet model friends`: replication among friends, beside random swarms."""

from functools import partial
from pathlib import Path

import click

from testbed.cli.console import console, table
from testbed.cli.model.friends_page import Estimates, concluded, write_page
from testbed.cli.model.runs import Runs, follow_graph, made_directory, many_runs, progress, write_table
from testbed.errors import shown
from testbed.ladder.friends import CONNECTIONS, NETWORKS, Findings, Study, study_network
from testbed.scenario.sections import FollowGraph

_SHORT = {"reached": "reached", "mean": "depth", "copies": "copies"}


@click.command()
@click.option(
    "--peers",
    "sizes",
    type=click.IntRange(100, 1_000_000),
    multiple=True,
    default=(1_000, 10_000),
    help="People (repeatable).",
)
@follow_graph
@click.option(
    "--samples", type=click.IntRange(1, 10_000), default=20, help="Messages, and readers, of each network."
)
@many_runs(10, "Networks of each size.")
@click.option("--out", type=click.Path(path_type=Path), help="Directory to make; default runs/friends-TIME.")
def friends(
    sizes: tuple[int, ...], people: FollowGraph, samples: int, wanted: Runs, out: Path | None
) -> None:
    """Ask how good an approximation a random swarm is for replication among friends.

    "Scalable Secure Scuttlebutt" computes with random swarms and leaves this question open. Messages spread
    among those who follow their author, over connections to friends; beside that on random networks of the
    same peers. And: what a few peers, chosen in three ways, replicate of one's friends and of their friends.
    """
    from analysis.metrics.study import estimate
    from testbed.ladder.run import run_trials

    study = Study(people, messages=samples, readers=samples)
    sizes = tuple(dict.fromkeys(sizes))
    tasks = [(size, seed) for size in sizes for seed in wanted.seeds]
    with made_directory("friends", out) as (directory, partial_directory):
        with progress() as told:
            trials = run_trials(partial(_study, study), tasks, wanted.jobs, wanted.master, told)
        seen: dict[tuple[str, ...], list[float]] = {}
        for (size, _), found in trials.items():
            for key, value in found.items():
                seen.setdefault((f"{size}", *key), []).append(value)
        known = {key: estimate(values) for key, values in seen.items()}
        _write(partial_directory, known)
        conclusion = concluded(known, f"{sizes[-1]}")
        write_page(partial_directory / "report.html", study, sizes, known, conclusion)
    _print(known, f"{sizes[-1]}")
    console.print(conclusion)
    console.print(f"report    {shown(str(directory / 'report.html'))}")


def _study(study: Study, task: tuple[int, int]) -> Findings:
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


def _print(known: Estimates, people: str) -> None:
    from analysis.report.words.numbers import pretty

    columns = [(cost, network) for cost in ("reached", "mean") for network in NETWORKS]
    columns += [("copies", "friends"), ("copies", "swarm")]
    heads = (f"{_SHORT[cost]}\n{network}" for cost, network in columns)
    printed = table(f"Floods among {int(people):,} people", "hops, K", *heads)
    for hops in ("1", "2"):
        for connections in CONNECTIONS:
            keys = ((people, "flood", hops, f"{connections}", network, cost) for cost, network in columns)
            means = (pretty(known[key].mean if key in known else None) for key in keys)
            printed.add_row(f"{hops}, {connections}", *means)
    console.print(printed)
