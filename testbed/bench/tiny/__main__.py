"""Measure claims of the tinyISP paper, and costs: `python -m testbed.bench.tiny [--messages N] [STUDY...]`"""

import sys
from collections.abc import Sequence

import click
from rich.console import Console
from rich.table import Table

from testbed.bench.tiny.refusal import refusal
from testbed.bench.tiny.storm import storm
from testbed.bench.tiny.studies import CLAIMS, OF_MESSAGES, Row, speed
from testbed.cli.usage import is_typed

OF_CASES = CLAIMS | {"speed": speed, "refusal": refusal, "storm": storm}
"""Studies of fixed cases: claims of the paper, and costs of providers and attacks."""


def show(name: str, rows: Sequence[Row]) -> None:
    """Print a study."""
    titles = list(dict.fromkeys(title for row in rows for title in row.figures))
    table = Table(name, *titles, title_justify="left")
    for row in rows:
        figures = (row.figures.get(title) for title in titles)
        table.add_row(row.case, *("" if figure is None else f"{figure:,.1f}" for figure in figures))
    Console(width=160).print(table)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--messages",
    type=click.IntRange(8),
    default=2000,
    show_default=True,
    help=f"Messages in each of the studies {', '.join(OF_MESSAGES)}.",
)
@click.argument("studies", nargs=-1, type=click.Choice([*OF_MESSAGES, *OF_CASES]))
def bench(messages: int, studies: Sequence[str]) -> None:
    """Measure the claims of the tinyISP paper, and what providers and attacks cost."""
    chosen = studies or [*OF_MESSAGES, *OF_CASES]
    if is_typed("messages") and not OF_MESSAGES.keys() & set(chosen):
        raise click.UsageError(f"--messages has no effect on {' and '.join(chosen)}; leave it out.")
    for name in chosen:
        show(name, [*(OF_MESSAGES[name](messages) if name in OF_MESSAGES else OF_CASES[name]())])


if __name__ == "__main__":
    sys.exit(bench())
