"""`feednet model`: models of protocols at sizes that no run reaches."""

import csv
import os
import shlex
import sys
from datetime import datetime
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from analysis.export.text import number
from testbed.errors import UserError, shown
from testbed.ladder.tables import CONFIDENCE, TABLES, Cell

_console = Console(highlight=False, soft_wrap=True)
_MOST_PEERS = 10_000_000


@click.group()
def model() -> None:
    """Compute models of protocols, at sizes that no run reaches."""


@model.command()
@click.option(
    "--table",
    "names",
    multiple=True,
    type=click.Choice([*TABLES]),
    help="Only this table (repeatable).",
)
@click.option("--peers", type=click.IntRange(2, _MOST_PEERS), help="Peers; default as in the paper.")
@click.option("--seeds", type=click.IntRange(2), default=200, show_default=True, help="Runs of each table.")
@click.option("--first", type=click.IntRange(min=0), default=1, show_default=True, help="First seed.")
@click.option("--jobs", type=click.IntRange(min=1), help="Processes; default all cores.")
@click.option("--master", help="Spark master: runs are tasks there, in place of processes here.")
@click.option("--out", type=click.Path(path_type=Path), help="Directory to make; default runs/ladder-TIME.")
def ladder(
    names: tuple[str, ...],
    peers: int | None,
    seeds: int,
    first: int,
    jobs: int | None,
    master: str | None,
    out: Path | None,
) -> None:
    """Make the tables of "Scalable Secure Scuttlebutt" again, with what chance does to their figures.

    The tables say how gossip spreads a message, how far a random network reaches, and what the flood of a
    message costs. Beside the paper's figures are ours, as means over many seeds.
    """
    from analysis.errors import AnalysisError, of_system
    from analysis.files import whole_directory
    from analysis.report.ladder import write_ladder
    from testbed.ladder.run import run_models

    if jobs and master is not None:
        raise UserError("--jobs is for processes here, and --master for Spark: give one of them")
    directory = out or Path("runs") / f"ladder-{datetime.now():%Y%m%d-%H%M%S}"
    sizes = {name: peers or TABLES[name].peers for name in names or TABLES}
    bar = Progress(
        TextColumn("models"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=_console,
        transient=True,
        disable=not _console.is_terminal,
    )
    try:
        with whole_directory(directory) as partial:
            with bar:
                task = bar.add_task("")
                found = run_models(
                    sizes,
                    range(first, first + seeds),
                    jobs or os.cpu_count() or 1,
                    master,
                    lambda done, of: bar.update(task, completed=done, total=of),
                )
            for name, cells in found.items():
                _write(partial / f"{name}.csv", cells)
            command = shlex.join(["feednet", *sys.argv[1:]])
            write_ladder(partial / "report.html", _described(found, sizes), command)
    except OSError as error:
        raise UserError(of_system(error)) from error
    except AnalysisError as error:
        raise UserError(str(error)) from error
    for name, cells in found.items():
        _print(name, cells, sizes[name])
    _console.print(f"report    {shown(str(directory / 'report.html'))}")


def _write(path: Path, cells: list[Cell]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(Cell._fields)
        writer.writerows(cells)


def _described(found: dict[str, list[Cell]], sizes: dict[str, int]) -> list[dict[str, object]]:
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
    _console.print(table)
    if any(cell.paper is not None for cell in cells):
        _console.print("in brackets: the paper's figure; ! outside the interval that chance explains\n")


def _text(cell: Cell) -> str:
    text = number(cell.mean)
    if cell.paper is not None:
        text += f" ({number(cell.paper)}{'' if cell.holds else '!'})"
    return text
