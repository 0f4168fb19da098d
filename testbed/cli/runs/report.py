"""`feednet report`, `compare` and `export`: the results of runs."""

from datetime import datetime
from pathlib import Path

import click

from testbed.cli.console import console, result
from testbed.cli.options import Number, all_tables_option, engine_option, spark_options
from testbed.cli.progress import staged
from testbed.errors import UserError


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@spark_options()
@engine_option
@all_tables_option
def report(directory: Path, master: str | None, engine: str, all_tables: bool) -> None:
    """Analyse the captures of a run in DIRECTORY (again) and write its report."""
    check_analysis(engine, master)
    write_report(directory, master, engine, all_tables)


@click.command()
@click.argument("directories", nargs=-1, required=True, metavar="RUN...", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Page to write; default study-TIME.html beside the first RUN.",
)
@spark_options()
@engine_option
def compare(directories: tuple[Path, ...], out: Path | None, master: str | None, engine: str) -> None:
    """Set runs of one scenario beside each other: what differs between them, with confidence intervals over
    seeds.

    RUN is the directory of a run or of a sweep.
    """
    from analysis.export.text import agreement_text, study_text
    from analysis.pipelines.compare import compare_runs

    check_analysis(engine, master)
    out = out or directories[0].absolute().parent / f"study-{datetime.now():%Y%m%d-%H%M%S}.html"
    with staged(console) as stage:
        compared = compare_runs(
            directories, out, master, lambda name: stage(f"analysis  {name}", None), engine
        )
    click.echo(study_text(compared))
    if agreement := agreement_text(compared):
        click.echo(agreement)
    result("page", str(out))


@click.command()
@click.argument("directory", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--format", "form", type=click.Choice(["ndnsim"]), required=True, help="Format of the traces.")
@click.option("--period", type=Number(0.001, 86_400), default=0.5, help="Of rates, seconds.")
@click.option("--out", type=click.Path(path_type=Path), help="Directory to write to; default RUN/FORMAT.")
def export(directory: Path, form: str, period: float, out: Path | None) -> None:
    """Write the traces of an analysed RUN in another simulator's format: rates, delays and caches by time."""
    from analysis.export.ndnsim import export as write_traces

    written = write_traces(directory, out or directory / form, period)
    for path in written:
        console.print(str(path))


def write_report(directory: Path, master: str | None, engine: str, all_tables: bool) -> None:
    """Analyse the captures of a run, write its report, and print its headlines. Raises AnalysisError."""
    from analysis.export.text import headlines
    from analysis.pipelines.run import analyze, read_comparison

    with staged(console) as stage:
        page = analyze(
            directory, master, lambda text: stage(f"analysis  {text}", None), engine, all_tables=all_tables
        )
    console.print(headlines(read_comparison(directory)), end="")
    result("report", str(page))


def check_analysis(engine: str, master: str | None, way_out: str = "") -> None:
    """Raise an error before the run if no engine can start."""
    from analysis.errors import AnalysisError
    from analysis.spark.engine import check

    try:
        check(engine, master)
    except AnalysisError as error:
        raise UserError(f"{error}{way_out}") from error
