"""`feednet play`: a run to look at, packet by packet."""

from pathlib import Path

import click

from testbed.cli.console import console, result
from testbed.cli.options import engine_option
from testbed.cli.progress import staged
from testbed.cli.runs.report import check_analysis, write_report


@click.command()
@click.argument("directory", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--layering", "layerings", multiple=True, help="Layering to show (repeatable); default all.")
@engine_option
def play(directory: Path, layerings: tuple[str, ...], engine: str) -> None:
    """Write RUN/player.html, which plays a run: packets on their links, and the tables of nodes over time.

    A RUN without a report is analysed first.
    """
    from analysis.player.page import write_player
    from analysis.run.manifest import Run

    if not Run(directory).report.exists():
        check_analysis(engine, None)
        write_report(directory, None, engine, all_tables=False)
    with staged(console) as stage:
        stage("writing the player")
        page = write_player(directory, layerings)
    result("player", str(page))
