"""`feednet model sparse`: proofs in long logs, and the time to what is newest."""

from collections.abc import Sequence

import click

from testbed.cli.console import console, table
from testbed.cli.options import Number
from testbed.ladder.sparse import LENGTHS, Line, Part, measure


@click.command()
@click.option(
    "--items", "lengths", multiple=True, type=click.IntRange(1, 10**9), help="Length of a log (repeatable)."
)
@click.option("--newest", type=click.IntRange(1, 1024), default=16, help="Items wanted.")
@click.option("--bytes", "size", type=click.IntRange(0, 8000), default=700)
@click.option("--mbit", type=Number(0.001, 1e6), default=10.0)
@click.option("--delay-ms", type=Number(0, 1e5), default=40.0, help="Of one way.")
def sparse(lengths: Sequence[int], newest: int, size: int, mbit: float, delay_ms: float) -> None:
    """Read the newest items of long logs over one link, proved by skip links back to the first.

    The reader is that of the layering `sparse`; the items are signed and linked. Of a log only the items are
    made that it asks for. Their other links lead to ids of nothing, of the same size: a reader of this part
    cannot tell. The last column is what whoever reads all has to wait for at least: the bytes of the log at
    the link's rate, and nothing else.
    """
    columns = ("items", "fetched", "proof", "its bytes", "first, ms", "all, s")
    shown = table("A part of a log, by its length", *columns, names=0)
    for length in lengths or LENGTHS:
        shown.add_row(*_row(measure(length, newest, size, Line(mbit, delay_ms))))
    console.print(shown)


def _row(part: Part) -> tuple[str, ...]:
    return (
        f"{part.length:,}",
        f"{part.packets:,}",
        f"{part.proof_packets:,}",
        f"{part.proof_bytes:,}",
        f"{part.first_ms:,.0f}",
        f"{part.whole_s:,.2f}",
    )
