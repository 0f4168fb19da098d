"""`python -m testbed.verify.crash`, see testbed.verify.crash."""

import tempfile
from pathlib import Path

import click

from testbed.cli.usage import HELP
from testbed.verify.crash.drill import Drill, Fault
from testbed.verify.crash.feeds import FeedsDrill
from testbed.verify.crash.tiny import TinyDrill
from testbed.verify.crash.views import ViewsDrill

_DRILLS: dict[str, type[Drill]] = {"feeds": FeedsDrill, "tiny": TinyDrill, "views": ViewsDrill}


@click.command(context_settings=HELP)
@click.option("--kills", type=click.IntRange(min=1), default=500, help="How many writers.")
@click.option("--seed", type=int, default=1, help="Of the messages and the instants.")
@click.option(
    "--store",
    "kind",
    type=click.Choice([*_DRILLS]),
    default="feeds",
    help="Of classic feeds, of tinySSB's, or classic ones with the views of a peer.",
)
def main(kills: int, seed: int, kind: str) -> None:
    """Kill processes that write to a store of SSB feeds, and check the store after each.

    Exit status 1 if an acknowledged change is lost, or anything is torn or doubled.
    """
    with tempfile.TemporaryDirectory() as directory:
        drill = _DRILLS[kind](Path(directory), seed)
        fault = ""
        try:
            drill.run(kills)
        except Fault as error:
            fault = str(error)
    for what, count in drill.counts.items():
        click.echo(f"{count:9,}  {what}")
    if fault:
        raise click.ClickException(fault)
    click.echo("nothing acknowledged was lost, nothing is torn or doubled")


if __name__ == "__main__":
    main()
