"""Common parts of `feednet model`: options, output directory, and progress."""

import csv
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple

import click

from testbed.cli.console import console
from testbed.cli.options import MOST, MOST_RUNS, Command, Number, jobs_option, spark_options
from testbed.cli.progress import counted
from testbed.errors import UserError
from testbed.scenario.sections import FollowGraph


class Runs(NamedTuple):
    """Seeds, processes and Spark master of many runs: the options of many_runs()."""

    seeds: range
    jobs: int
    master: str | None


def many_runs(seeds: int, what: str) -> Callable[[Command], Command]:
    """Return a decorator that adds the options for many runs of a model, `seeds` by default.

    The command receives them as `wanted`, a Runs. It raises UserError, and AnalysisError for an invalid
    master.
    """
    options = (
        click.option("--seeds", type=click.IntRange(2, MOST_RUNS), default=seeds, help=what),
        click.option("--first", type=click.IntRange(0, MOST), default=1, help="First seed."),
        jobs_option,
        spark_options("Spark master: runs are tasks there, in place of processes here."),
    )

    def decorate(command: Command) -> Command:
        @wraps(command)
        def begin(seeds: int, first: int, jobs: int | None, master: str | None, **others: Any) -> Any:
            if jobs and master is not None:
                raise UserError("--jobs is for processes here, and --master for Spark: give one of them")
            if master is not None:
                from analysis.spark.session import check_master

                check_master(master)
            wanted = Runs(range(first, first + seeds), jobs or os.cpu_count() or 1, master)
            return command(wanted=wanted, **others)

        return _with(options, begin)

    return decorate


def follow_graph(command: Command) -> Command:
    """Add the options of a follow graph; the command receives it as `people`."""
    probability = Number(0, 1)
    options = (
        click.option(
            "--follows",
            type=click.IntRange(1, 1000),
            default=10,
            help="People whom each follows who joins.",
        ),
        click.option(
            "--closure",
            type=probability,
            default=0.5,
            help="Probability that a follow goes to a friend of a friend.",
        ),
        click.option(
            "--mutual",
            type=probability,
            default=0.5,
            help="Probability that a follow is returned.",
        ),
        click.option(
            "--hubs",
            type=probability,
            default=1.0,
            help="Preference for people with many followers; 0: all are equally likely.",
        ),
    )

    @wraps(command)
    def begin(follows: int, closure: float, mutual: float, hubs: float, **others: Any) -> Any:
        people = FollowGraph(follows=follows, closure=closure, mutual=mutual, hubs=hubs)
        return command(people=people, **others)

    return _with(options, begin)


def _with(options: Sequence[Callable[[Command], Command]], command: Command) -> Command:
    for option in reversed(options):
        command = option(command)
    return command


@contextmanager
def made_directory(model: str, out: Path | None) -> Iterator[tuple[Path, Path]]:
    """Yield a directory that appears when the block succeeds, and its files' path until then.

    Passes on AnalysisError and OSError of its block.
    """
    from analysis.files import whole_directory

    directory = out or Path("runs") / f"{model}-{datetime.now():%Y%m%d-%H%M%S}"
    with whole_directory(directory) as partial:
        yield directory, partial


@contextmanager
def progress() -> Iterator[Callable[[int, int], None]]:
    """Show a bar on a terminal; yields a function that takes the runs done and their total."""
    with counted(console, "models") as show:
        yield lambda done, of: show(done, of, "")


def command_line() -> str:
    """Return the command as it was typed."""
    return shlex.join(["feednet", *sys.argv[1:]])


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a CSV file; None becomes an empty field."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(rows)
