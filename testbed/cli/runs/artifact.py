"""`feednet rerun`, `bundle` and `open`: verification of runs by others."""

import shutil
import sys
from datetime import datetime
from pathlib import Path

import click

from analysis.export.text import aligned, number
from analysis.report.words.numbers import count_of
from base.files import named
from testbed.api.results import Results
from testbed.artifact import bundle as bundles
from testbed.artifact import rerun as reruns
from testbed.artifact.differences import first_difference
from testbed.errors import UserError
from testbed.experiment import provenance
from testbed.experiment.code import SUMS

_FEWEST = 3
"""Default repetitions over Mininet: the fewest with a meaningful interval."""


@click.command()
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path), help="Directory for the new run; default RUN-rerun-TIME."
)
@click.option(
    "--repeat", type=click.IntRange(2, 10_000), help=f"Over Mininet: repetitions; default {_FEWEST}."
)
@click.option("--trust", is_flag=True, help="Also run code that comes with RUN: strategies and programs.")
def rerun(run: Path, out: Path | None, repeat: int | None, trust: bool) -> None:
    """Repeat a RUN from its directory, and compare.

    An emulated run must be the same, byte for byte; else the first difference is named. Over Mininet each
    metric must lie where one more repetition would, with a confidence of 99 %. The exit status is 1 if they
    differ.
    """
    was = Results(run)
    reruns.check(was, is_trusted=trust)
    is_emulated = was.manifest.net == "emulated"
    if is_emulated and repeat is not None:
        raise UserError("--repeat: an emulated run is the same each time; leave it out")
    then, now = was.manifest.commit, provenance.commit()
    if then != now:
        click.echo(f"note      it was made by commit {then or 'unknown'}, and this is {now or 'unknown'}")
    target = out or _beside(run, f"-rerun-{datetime.now():%Y%m%d-%H%M%S}")
    if not is_emulated:
        _rerun_over_mininet(was, target, repeat or _FEWEST)
        return
    again = reruns.repeat(was, target, lambda name: click.echo(f"running   {name}"))
    difference = first_difference(run, again.directory)
    if difference is not None:
        click.echo(f"differs   {difference}")
        click.echo(f"rerun     {target}")
        sys.exit(1)
    if out is None:
        shutil.rmtree(target)
    click.echo(f"the same  {count_of(len(was.manifest.files), 'file')}, byte for byte")


def _beside(run: Path, suffix: str) -> Path:
    """Return the path beside a run with a suffix."""
    run = named(run.absolute())
    return run.with_name(run.name + suffix)


def _rerun_over_mininet(was: Results, target: Path, repeat: int) -> None:
    repetitions = []
    for count in range(1, repeat + 1):
        click.echo(f"running   {count} of {repeat}")
        repetitions.append(reruns.repeat(was, target / f"repetition-{count}"))
    rows = reruns.compared(was, repetitions)
    lines = [["", "", "it was", "now", "from", "to", ""]]
    for row in rows:
        mean = sum(row.now) / len(row.now)
        figures = [number(value) for value in (row.was, mean, row.low, row.high)]
        lines.append([row.layering, row.metric.key, *figures, "" if row.agrees else "differs"])
    click.echo(aligned(lines, left=2), nl=False)
    click.echo(f"reruns    {target}")
    if not all(row.agrees for row in rows):
        sys.exit(1)


@click.command()
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="File to make; default RUN.feednet.zip.")
def bundle(run: Path, out: Path | None) -> None:
    """Make one file of a RUN for a paper's artifact: scenario, seed, versions, captures, tables, report,
    checksums."""
    file = out or _beside(run, bundles.SUFFIX)
    bundles.write(run, file)
    click.echo(f"bundle    {file}  {file.stat().st_size / 1e6:.1f} MB")
    click.echo(f"          feednet open {file.name} unpacks it and checks every file")


@click.command("open")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Directory to make; default its name inside.")
def open_(file: Path, out: Path | None) -> None:
    """Unpack a bundle, FILE, into a new directory, and check every file by its checksum."""
    run = bundles.unpack(file, out)
    manifest = run.manifest
    click.echo(manifest.title)
    click.echo(
        f"run       {manifest.scenario}, seed {manifest.seed}, {manifest.net}, feednet {manifest.feednet}"
    )
    click.echo(f"checked   every file is what {SUMS} says")
    click.echo(f"report    {run.directory / 'report.html'}")
    click.echo(f"          feednet rerun {run.directory} repeats it")
