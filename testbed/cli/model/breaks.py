"""`feednet model breaks`: a forger after a break of the classic hash and signature, and notaries."""

from collections.abc import Sequence

import click

from testbed.cli.console import console, table
from testbed.ladder.breaks import ATTACKS, INTERVALS, attack, play


@click.command()
@click.option("--messages", type=click.IntRange(2, 2000), default=150, show_default=True, help="In the log.")
@click.option(
    "--every",
    "intervals",
    multiple=True,
    type=click.IntRange(0, 2000),
    help="Messages between two notarised hashes, 0 for no notary (repeatable).",
)
def breaks(messages: int, intervals: Sequence[int]) -> None:
    """Let a forger with a broken hash and a stolen key serve a log to a new reader.

    The forger appends messages to the log, writes the newer half or all of it anew, or replaces one message
    by another with the same id. The reader takes only messages that were notarised before the break; without
    a notary, all that its store accepts.
    """
    columns = ("every", "attack", "forged", "believed", "genuine", "saved", "notary’s bytes")
    shown = table("A log after a break", *columns, names=2)
    for interval in intervals or INTERVALS:
        played = play(messages, interval)
        for name in ATTACKS:
            outcome = attack(name, played)
            cells = (f"{number:,}" for number in outcome)
            share = f"{played.notary_bytes / messages:,.1f}"
            shown.add_row(f"{interval:,}" if interval else "never", name, *cells, share)
    console.print(shown)
