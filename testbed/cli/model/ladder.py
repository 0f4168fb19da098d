"""`feednet model ladder`: the three tables of a paper, reproduced."""

from pathlib import Path

import click

from analysis.export.text import number
from testbed.cli.console import console, table
from testbed.cli.model.runs import Runs, command_line, made_directory, many_runs, progress, write_table
from testbed.cli.usage import is_typed
from testbed.errors import UserError, shown
from testbed.ladder.tables import CONFIDENCE, TABLES, Cell

_MOST_PEERS = 10_000_000
_MOST_REAL_PEERS = 20_000
_REAL_SEEDS = 5


@click.command()
@click.option(
    "--table", "names", multiple=True, type=click.Choice([*TABLES]), help="Only this table (repeatable)."
)
@click.option("--peers", type=click.IntRange(2, _MOST_PEERS), help="Peers; default as in the paper.")
@many_runs(200, f"Runs of each table; with --real {_REAL_SEEDS}.")
@click.option("--real", is_flag=True, help="Play each run with the real protocols, too; they must agree.")
@click.option("--out", type=click.Path(path_type=Path), help="Directory to make; default runs/ladder-TIME.")
def ladder(names: tuple[str, ...], peers: int | None, wanted: Runs, real: bool, out: Path | None) -> None:
    """Make the tables of "Scalable Secure Scuttlebutt" again, with what chance does to their figures.

    The tables say how gossip spreads a message, how far a random network reaches, and what the flood of a
    message costs. Beside the paper's figures are ours, as means over many seeds. With --real, as many peers
    with stores and signed messages play each run on the same network, or make the same calls; the command
    fails if they differ from the model in any figure.
    """
    from testbed.ladder.pages.ladder import write_ladder
    from testbed.ladder.run import run_models
    from testbed.ladder.swarms.protocols import REAL

    if real and (peers or 0) > _MOST_REAL_PEERS:
        raise UserError(f"--real has {_MOST_REAL_PEERS:,} --peers at most, as each holds a store")
    if real and not is_typed("seeds"):
        first = wanted.seeds.start
        wanted = wanted._replace(seeds=range(first, first + _REAL_SEEDS))
    sizes = {name: peers or TABLES[name].peers for name in names or TABLES}
    with made_directory("ladder", out) as (directory, partial):
        with progress() as told:
            means = REAL if real else None
            found = run_models(sizes, wanted.seeds, wanted.jobs, wanted.master, told, real=means)
        for name, cells in found.items():
            write_table(partial / f"{name}.csv", Cell._fields, cells)
        write_ladder(partial / "report.html", _described(found, sizes, real), command_line())
    for name, cells in found.items():
        _print(name, cells, sizes[name])
    if real:
        console.print(
            f"the real protocols gave the same figures in each of {len(wanted.seeds)} runs of each table"
        )
    console.print(f"report    {shown(str(directory / 'report.html'))}")


def _described(found: dict[str, list[Cell]], sizes: dict[str, int], real: bool) -> list[dict[str, object]]:
    """Return the tables in the page's format."""
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
    printed = table(f"{made.title}, {peers:,} peers", made.row, *made.columns.values(), names=0)
    by_row: dict[str, dict[str, Cell]] = {}
    for cell in cells:
        by_row.setdefault(cell.row, {})[cell.column] = cell
    for row, known in by_row.items():
        printed.add_row(row, *(_text(known[column]) if column in known else "" for column in made.columns))
    console.print(printed)
    if any(cell.paper is not None for cell in cells):
        console.print("in brackets: the paper's figure; ! outside the interval that chance explains\n")


def _text(cell: Cell) -> str:
    text = number(cell.mean)
    if cell.paper is not None:
        text += f" ({number(cell.paper)}{'' if cell.holds else '!'})"
    return text
