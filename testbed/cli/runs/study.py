"""`feednet study`: many runs of several scenarios, and the claims that they decide."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from analysis.report.words.numbers import count_of
from testbed.cli import completion as completing
from testbed.cli.console import console, result
from testbed.cli.options import MOST, engine_option, jobs_option, spark_options
from testbed.cli.progress import counted
from testbed.cli.runs.report import check_analysis
from testbed.errors import UserError, shown, suggestion
from testbed.experiment.options import RunOptions
from testbed.study.cells import Cell, Kept, planned
from testbed.study.decide import Decided, Found, decide
from testbed.study.figures import write_figures
from testbed.study.pages import interval, results_path
from testbed.study.results import Results, Row, all_needed, needed
from testbed.study.run import Means, collect, run, write_pages
from testbed.study.spec import StudySpec, load


@click.command()
@click.argument("name", metavar="STUDY", shell_complete=completing.study)
@click.option("--only", "only", multiple=True, metavar="CLAIM", help="Decide this claim alone (repeatable).")
@click.option(
    "--seeds", type=click.IntRange(2, 10_000), help="Seeds of each setting, in place of the study's."
)
@click.option(
    "--first-seed",
    type=click.IntRange(0, MOST),
    help="First seed: with others than the study's, a claim is made again independently.",
)
@click.option("--out", type=click.Path(path_type=Path), help="Directory of runs; default runs/study-STUDY.")
@jobs_option
@click.option("--on-spark", is_flag=True, help="Make runs Spark tasks; OUT is to be shared.")
@spark_options()
@engine_option
@click.option("--keep", is_flag=True, help="Write the results beside the study's file, for the pages.")
def study(
    name: str,
    only: tuple[str, ...],
    seeds: int | None,
    first_seed: int | None,
    out: Path | None,
    jobs: int | None,
    on_spark: bool,
    master: str | None,
    engine: str,
    keep: bool,
) -> None:
    """Run STUDY (a name from `feednet list`, or a .toml file), and decide its claims.

    What has been run is kept in the directory of runs, by its content: the same command goes on where it was
    stopped, and runs only what has changed. With --only, --seeds or --first-seed, what is found stands beside
    the results that came with the study; with --only and --keep it takes its place among them.
    """
    chosen, path = load(name)
    claims = _claims(chosen, only)
    begin = chosen.first_seed if first_seed is None else first_seed
    has_own_seeds = seeds is None and begin == chosen.first_seed
    is_whole = has_own_seeds and not only
    if keep and not has_own_seeds:
        raise UserError("--keep: the study's own seeds are kept; leave --seeds and --first-seed out")
    if on_spark and (jobs or engine == "sail"):
        raise UserError("--on-spark: Spark runs and analyses all; leave --jobs and --engine out")
    means = Means(RunOptions(jobs=jobs).workers, "spark" if on_spark else engine, master, on_spark)
    check_analysis(means.engine, master)
    known = results_path(path)
    whole, rows = all_needed(chosen), needed(chosen, claims)
    if keep and only:
        if not known.exists():
            raise UserError("--keep: no results are kept yet; leave --only out, and keep the whole study")
        rows = [row for row in whole if row.runs in {each.runs for each in rows}]
    elif is_whole:
        rows = whole
    cells = [*planned(chosen, path, begin, seeds, None if is_whole else rows)]
    directory = out or Path("runs") / f"study-{path.stem}"
    console.print(chosen.title, style="bold")
    console.print(
        f"study     {count_of(len({cell.key for cell in cells}), 'run')} of {count_of(len(claims), 'claim')}"
    )
    with counted(console, "study") as show:
        kept = run(chosen, cells, directory, means, show)
    results = collect(rows, cells, kept)
    before = Results.read(known) if known.exists() and not is_whole else None
    for key in claims:
        _print(decide(chosen, results, key), None if before is None else decide(chosen, before, key))
    if is_whole:
        write_pages(chosen, cells, kept, directory)
        write_figures(chosen, results, directory / "figures")
    if keep and before is not None:
        results = _updated(before, rows, cells, kept, whole)
    target = known if keep else directory / known.name
    results.write(target)
    result("results", str(target))


def _updated(
    results: Results,
    rows: Sequence[Row],
    cells: Sequence[Cell],
    kept: Mapping[str, Kept],
    whole: Sequence[Row],
) -> Results:
    """Return results in which rows were made again, with all others of their runs; `whole`: the study's."""
    for runs in dict.fromkeys(row.runs for row in rows):
        own, ran = [row for row in rows if row.runs == runs], [cell for cell in cells if cell.runs == runs]
        results = results.updated(runs, collect(own, ran, kept), whole)
    return results


def _claims(study: StudySpec, only: Sequence[str]) -> list[str]:
    for key in only:
        if key not in study.claims:
            raise UserError(f"--only {shown(key)}: no claim of the study; {suggestion(key, study.claims)}")
    return [*(only or study.claims)]


def _print(decided: Decided, before: Decided | None) -> None:
    console.print(f"{decided.verdict:16}  {decided.key}: {decided.claim.text}", style="bold")
    for place, found in enumerate(decided.found):
        console.print(f"  {found.verdict:16}{found.expected.says}: {_figure(found)}")
        if before is not None:
            console.print(f"  {'':16}{_beside(found, before.found[place])}")


def _figure(found: Found) -> str:
    if found.effect is None:
        return found.why
    why = f" ({found.why})" if found.why else ""
    return f"{found.expected.test} {interval(found.effect)}, n = {found.effect.n}{why}"


def _beside(found: Found, before: Found) -> str:
    """Return whether a figure lies in the interval of the results that are kept."""
    if (
        found.effect is None
        or before.effect is None
        or before.effect.low is None
        or before.effect.high is None
    ):
        return "not among the kept results"
    is_in = before.effect.low <= found.effect.mean <= before.effect.high
    return f"{'inside' if is_in else 'outside'} the kept interval: {interval(before.effect)}"
