"""`feednet model formats`: bytes and processor time of a post, by the format of its log."""

from collections.abc import Sequence

import click

from testbed.cli.console import console, table
from testbed.ladder.formats import SIZES, measure


@click.command()
@click.option(
    "--bytes", "sizes", multiple=True, type=click.IntRange(1, 7000), help="Text of a post (repeatable)."
)
def formats(sizes: Sequence[int]) -> None:
    """Write posts in the formats of logs, and check them as a receiver does.

    Bytes are those of the message: of tinySSB whole packets, of a native item the Data packet. Two formats
    have their content beside the log. A check reads the message, asks whether it has the one form that its
    format allows and stands at its place, and verifies the signature and the content's hash. A hole is a
    message whose content is deleted. Times are this machine's, so compare within one table.
    """
    columns = ("format", "text", "in log", "beside", "not text", "check, µs", "hole, µs")
    shown = table("A post: bytes and time", *columns)
    for size in sizes or SIZES:
        for cost in measure(size):
            sizes_of = (f"{size:,}" for size in (cost.text, cost.size, cost.beside, cost.overhead))
            hole = "-" if cost.hole_us is None else f"{cost.hole_us:,.0f}"
            shown.add_row(cost.name, *sizes_of, f"{cost.check_us:,.0f}", hole)
    console.print(shown)
