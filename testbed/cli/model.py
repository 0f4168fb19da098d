"""`feednet model`: models of protocols at sizes that no run reaches."""

import csv
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from analysis.export.text import number
from testbed.errors import UserError, shown
from testbed.ladder.tables import CONFIDENCE, TABLES, Cell

console = Console(highlight=False, soft_wrap=True)
_MOST_PEERS = 10_000_000
_MOST_REAL_PEERS = 20_000
_SEEDS, _REAL_SEEDS = 200, 5


@click.group()
def model() -> None:
    """Compute models of protocols, at sizes that no run reaches."""


def run_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of all models that run many times, and write a directory."""
    for option in (
        click.option(
            "--out", type=click.Path(path_type=Path), help="Directory to make; default runs/MODEL-TIME."
        ),
        click.option("--master", help="Spark master: runs are tasks there, in place of processes here."),
        click.option("--jobs", type=click.IntRange(min=1), help="Processes; default all cores."),
        click.option("--first", type=click.IntRange(min=0), default=1, show_default=True, help="First seed."),
    ):
        command = option(command)
    return command


def check_jobs(jobs: int | None, master: str | None) -> int:
    """Return how many processes work; raise UserError if they would have nothing to do."""
    if jobs and master is not None:
        raise UserError("--jobs is for processes here, and --master for Spark: give one of them")
    return jobs or os.cpu_count() or 1


class Made(NamedTuple):
    """A directory that is being made.

    Attributes:
        directory: its name.
        partial: its name until it is complete.
        progress: to be told of runs.
        command: what the user typed.
    """

    directory: Path
    partial: Path
    progress: Callable[[int, int], None]
    command: str

    def say_where(self) -> None:
        """Print where the report is."""
        console.print(f"report    {shown(str(self.directory / 'report.html'))}")


@contextmanager
def model_directory(kind: str, out: Path | None) -> Iterator[Made]:
    """Make a model's directory, all of it or nothing, and show progress."""
    from analysis.errors import AnalysisError, of_system
    from analysis.files import whole_directory

    directory = out or Path("runs") / f"{kind}-{datetime.now():%Y%m%d-%H%M%S}"
    bar = Progress(
        TextColumn("models"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    try:
        with whole_directory(directory) as partial, bar:
            task = bar.add_task("")
            yield Made(
                directory,
                partial,
                lambda done, of: bar.update(task, completed=done, total=of),
                shlex.join(["feednet", *sys.argv[1:]]),
            )
    except OSError as error:
        raise UserError(of_system(error)) from error
    except AnalysisError as error:
        raise UserError(str(error)) from error


@model.command()
@click.option(
    "--table",
    "names",
    multiple=True,
    type=click.Choice([*TABLES]),
    help="Only this table (repeatable).",
)
@click.option("--peers", type=click.IntRange(2, _MOST_PEERS), help="Peers; default as in the paper.")
@click.option(
    "--seeds",
    type=click.IntRange(2),
    help=f"Runs of each table; default {_SEEDS}, with --real {_REAL_SEEDS}.",
)
@click.option("--real", is_flag=True, help="Play each run with the real protocols, too; they must agree.")
@run_options
def ladder(
    names: tuple[str, ...],
    peers: int | None,
    seeds: int | None,
    real: bool,
    first: int,
    jobs: int | None,
    master: str | None,
    out: Path | None,
) -> None:
    """Make the tables of "Scalable Secure Scuttlebutt" again, with what chance does to their figures.

    The tables say how gossip spreads a message, how far a random network reaches, and what the flood of a
    message costs. Beside the paper's figures are ours, as means over many seeds. With --real, as many peers
    with stores and signed messages play each run on the same network, or make the same calls; the command
    fails if they differ from the model in any figure.
    """
    from analysis.report.ladder import write_ladder
    from testbed.ladder.run import run_models

    jobs = check_jobs(jobs, master)
    if real and (peers or 0) > _MOST_REAL_PEERS:
        raise UserError(f"--real has {_MOST_REAL_PEERS:,} --peers at most, as each holds a store")
    sizes = {name: peers or TABLES[name].peers for name in names or TABLES}
    runs = range(first, first + (seeds or (_REAL_SEEDS if real else _SEEDS)))
    with model_directory("ladder", out) as made:
        found = run_models(sizes, runs, jobs, master, made.progress, real=real)
        for name, cells in found.items():
            write_rows(made.partial / f"{name}.csv", cells)
        write_ladder(made.partial / "report.html", _described(found, sizes, real), made.command)
    for name, cells in found.items():
        _print(name, cells, sizes[name])
    if real:
        console.print(f"the real protocols gave the same figures in each of {len(runs)} runs of each table")
    made.say_where()


def write_rows(path: Path, rows: Sequence[NamedTuple]) -> None:
    """Write rows of one kind, at least one, as CSV."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(rows[0]._fields)
        writer.writerows(rows)


def _described(found: dict[str, list[Cell]], sizes: dict[str, int], real: bool) -> list[dict[str, object]]:
    """Return the tables as the page takes them."""
    return [
        {
            "name": name,
            "title": TABLES[name].title,
            "rule": TABLES[name].rule,
            "row": TABLES[name].row,
            "columns": dict(TABLES[name].columns),
            "peers": sizes[name],
            "confidence": CONFIDENCE,
            "real": real,
            "cells": [cell._asdict() | {"holds": cell.holds} for cell in cells],
        }
        for name, cells in found.items()
    ]


def _print(name: str, cells: list[Cell], peers: int) -> None:
    made = TABLES[name]
    table = Table(title=f"{made.title}, {peers:,} peers", title_justify="left", title_style="bold", box=None)
    table.add_column(made.row, justify="right", no_wrap=True)
    for title in made.columns.values():
        table.add_column(title, justify="right", no_wrap=True)
    by_row: dict[str, dict[str, Cell]] = {}
    for cell in cells:
        by_row.setdefault(cell.row, {})[cell.column] = cell
    for row, known in by_row.items():
        table.add_row(row, *(_text(known[column]) if column in known else "" for column in made.columns))
    console.print(table)
    if any(cell.paper is not None for cell in cells):
        console.print("in brackets: the paper's figure; ! outside the interval that chance explains\n")


def _text(cell: Cell) -> str:
    text = number(cell.mean)
    if cell.paper is not None:
        text += f" ({number(cell.paper)}{'' if cell.holds else '!'})"
    return text
