"""`feednet model friends`: replication among friends, beside random swarms."""

from functools import partial
from pathlib import Path

import click
from rich.table import Table as Shown

from testbed.cli.console import console
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
