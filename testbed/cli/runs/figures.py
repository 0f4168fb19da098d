"""`feednet figures`: exports of a report for a paper."""

from pathlib import Path

import click

from testbed.cli.console import console, result
from testbed.cli.progress import counted


@click.command()
@click.argument("source", metavar="RUN|SWEEP|PAGE", type=click.Path(path_type=Path))
@click.option(
    "--width",
    type=click.Choice(["single", "double"]),
    default="single",
    help="One column of a paper (3.33 inches), or both (7 inches).",
)
@click.option("--every-choice", is_flag=True, help="Draw all that the menus of a figure offer.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Directory to make; default figures-WIDTH beside the page."
)
def figures(source: Path, width: str, every_choice: bool, out: Path | None) -> None:
    """Write all figures of a report as PDF, PNG, SVG and CSV, and its tables as LaTeX and CSV.

    RUN and SWEEP are directories that `feednet run` has made, PAGE any page of feednet's, such as a
    comparison's.
    """
    from analysis.report.paper.bundle import bundle, page_of

    page = page_of(source)
    directory = out or page.parent / f"figures-{width}"
    with counted(console, "figures") as show:
        made = bundle(page, directory, width, every_choice, show)
    console.print(f"figures   {len(made)}: {', '.join(made)}")
    result("bundle", f"{directory}; all.tex includes all of it")
