"""`feednet run`: a scenario once, or many times."""

import json
import os
import shlex
import sys
import time
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal

import click
from click.core import ParameterSource

from analysis.report.words.numbers import several
from testbed.api.experiment import Experiment
from testbed.cli import completion as completing
from testbed.cli.console import console, result, timed
from testbed.cli.options import MOST, Number, all_tables_option, engine_option, jobs_option
from testbed.cli.progress import counted, staged
from testbed.cli.runs.dry_run import tell_run, tell_sweep
from testbed.cli.runs.report import check_analysis, write_report
from testbed.errors import UserError, shown
from testbed.experiment import code
from testbed.experiment import run as running
from testbed.experiment import sweep as sweeping
from testbed.experiment.sweep_directory import Job, opened
from testbed.layerings.registry import LAYERINGS
from testbed.scenario import reader as scenarios


@click.command()
@click.argument("scenario", shell_complete=completing.scenario)
@click.option("--feed", type=click.Path(path_type=Path), help="Feed export to publish (ssb-server log).")
@click.option("--items", type=click.IntRange(1, MOST), help="Items of the generated feed.")
@click.option("--seed", type=click.IntRange(0, MOST), help="Seed of everything random.")
@click.option(
    "--net",
    type=click.Choice(["auto", "emulated", "mininet"]),
    default="auto",
    show_default=True,
    help="Virtual time, or Mininet hosts; auto takes Mininet where it can run.",
)
@click.option(
    "--impairment",
    type=click.Choice(["auto", "netem", "relay"]),
    default="auto",
    show_default=True,
    help="What delays and loses frames in Mininet.",
)
@click.option(
    "--dilation",
    type=click.IntRange(1, running.MOST_DILATION),
    default=1,
    show_default=True,
    help="Seconds of the machine for each second of a run in Mininet; gives nodes more processor time.",
)
@click.option("--loss", type=Number(0, 100), help="Share of frames that every link loses, percent.")
@click.option(
    "--topology",
    "topology_file",
    type=click.Path(path_type=Path),
    shell_complete=completing.network,
    help="Mini-NDN or GraphML file, or a network of `feednet list`.",
)
@click.option("--publisher", metavar="NODE", help="Node that publishes, in place of all that do.")
@click.option(
    "--subscribers",
    metavar="all|N|NODE,...",
    help="Nodes that follow; default what the scenario says, or leaves.",
)
@click.option(
    "--layering",
    "layerings",
    multiple=True,
    shell_complete=completing.layering,
    help="Layering to run (repeatable).",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="LAYERING.NAME=VALUE",
    shell_complete=completing.parameter,
    help="Layering parameter (repeatable); `feednet describe LAYERING` has them.",
)
@click.option(
    "--strategy",
    metavar="NAME[/PARAMETER~VALUE...]",
    shell_complete=completing.strategy,
    help="Forwarding strategy of all nodes.",
)
@click.option("--strategy-file", "strategy_files", multiple=True, help="Python file with more (repeatable).")
@click.option("--out", type=click.Path(path_type=Path), help="Directory to make; default runs/SCENARIO-TIME.")
@click.option("--master", help="Spark master; default local.")
@engine_option
@all_tables_option
@click.option("--no-report", is_flag=True, help="Capture only; `feednet report` makes the report later.")
@click.option(
    "--hold", is_flag=True, help="In Mininet: keep the nodes up until Ctrl-C, for feednet shell and exec."
)
@click.option(
    "--sweep",
    "sweeps",
    multiple=True,
    metavar="KEY=VALUE,...",
    shell_complete=completing.axis,
    help="Run once for each value of loss, items, seed, strategy, LAYERING.PARAMETER or a key path"
    " (repeatable).",
)
@click.option(
    "--repeat", type=click.IntRange(1, sweeping.MOST_RUNS), default=1, help="Number of seeds for each run."
)
@jobs_option
@click.option("--on-spark", is_flag=True, help="Run a sweep as one Spark job; OUT is to be shared.")
@click.option(
    "--trust",
    is_flag=True,
    help="Also run code from outside SCENARIO's directory, or from a bundle: strategies and programs.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be run, how long, how large; write nothing.")
def run(
    scenario: str,
    feed: Path | None,
    items: int | None,
    seed: int | None,
    net: running.Net | Literal["auto"],
    impairment: running.Impairment,
    dilation: int,
    loss: float | None,
    topology_file: Path | None,
    publisher: str | None,
    subscribers: str | None,
    layerings: tuple[str, ...],
    settings: tuple[str, ...],
    strategy: str | None,
    strategy_files: tuple[str, ...],
    out: Path | None,
    master: str | None,
    engine: str,
    all_tables: bool,
    no_report: bool,
    hold: bool,
    sweeps: tuple[str, ...],
    repeat: int,
    jobs: int | None,
    on_spark: bool,
    trust: bool,
    dry_run: bool,
) -> None:
    """Run SCENARIO (a name from `feednet list`, or a .toml file) and write its report.

    With --sweep or --repeat: many times, and write a page that compares the runs.
    """
    options: dict[str, Any] = {
        "seed": seed,
        "layerings": layerings or None,
        "feed": str(feed) if feed else None,
        "items": items,
        "topology_file": str(topology_file) if topology_file else None,
        "loss_percent": loss,
        "publisher": publisher,
        "subscribers": subscribers,
        "parameters": _parse_settings(settings),
        "strategy": strategy,
        "strategy_files": strategy_files,
    }
    if (jobs or on_spark) and not sweeps and repeat == 1:
        raise UserError("--jobs, --on-spark: only many runs go side by side; add --sweep or --repeat")
    if jobs and on_spark:
        raise UserError("--jobs, --on-spark: Spark says itself how many runs go side by side; leave one out")
    if master is not None and no_report and not on_spark:
        raise UserError(f"--master {shown(master)}: only the analysis runs on Spark; leave --no-report out")
    if engine != "auto" and no_report:
        raise UserError(f"--engine {engine}: only the analysis has an engine; leave --no-report out")
    if engine == "sail" and on_spark:
        raise UserError("--engine sail: --on-spark runs all of it on Spark; leave one out")
    if all_tables and (no_report or sweeps or repeat > 1):
        many = "--no-report out" if no_report else "it out; of many runs no tables are kept"
        raise UserError(f"--all-tables: only the report of one run has tables; leave {many}")
    if hold and (sweeps or repeat > 1):
        raise UserError("--hold: one run is held, and not many; leave --sweep and --repeat out")
    if sweeps or repeat > 1:
        asked: running.Net = "mininet" if net == "mininet" else "emulated"
        where, why = running.choose_net(asked, impairment, dilation)
        if where == "mininet" and (jobs or on_spark):
            raise UserError("--jobs, --on-spark: runs over Mininet go one after the other; leave them out")
        boxed = (
            partial(sweeping.run_over_mininet, why=why, impairment=impairment, dilation=dilation)
            if where == "mininet"
            else None
        )
        axes = [sweeping.parse_axis(text) for text in sweeps]
        planned = sweeping.plan(scenario, axes, repeat, options, _words({"seed"}))
        chosen = scenarios.load(scenario, **planned[0].options)
        directory = out or Path("runs") / f"{chosen.name}-sweep-{datetime.now():%Y%m%d-%H%M%S}"
        workers = jobs or os.cpu_count() or 1
        if dry_run:
            tell_sweep(console, planned, where, dilation, workers, directory, not no_report)
            return
        if not trust:
            code.admit(*scenarios.read(scenario))
        for job in planned if chosen.strategy_files else ():
            code.load(scenarios.load(job.scenario, **job.options))
        _sweep(chosen.title, planned, directory, workers, master, engine, on_spark, no_report, boxed)
        return
    experiment = Experiment.load(scenario, **options)
    chosen, load = experiment.scenario, experiment.workload
    seconds = experiment.duration_s
    where, why = running.choose_net(net, impairment, dilation)
    if not no_report and not dry_run:
        check_analysis(engine, master, "; or run with --no-report")
    directory = out or experiment.directory()
    if dry_run:
        tell_run(console, chosen, load, where, why, dilation, directory, not no_report)
        return
    console.print(chosen.title, style="bold")
    slower = f", {dilation} seconds for each second of the run" if dilation > 1 else ""
    console.print(f"network   {where} ({why}){slower}")
    made = "a generated feed" if chosen.feed_count == 1 else f"{chosen.feed_count} generated feeds"
    source = chosen.workload.feed or made
    following = len(chosen.subscribers)
    console.print(
        f"workload  {several(load.items, 'message')} of {source}, {several(following, 'subscriber')}"
    )
    others = len(chosen.network.nodes) - len(chosen.sources)
    if topology_file and subscribers is None and following < others:
        console.print(
            f"hint      {following} of {others} nodes subscribe, those with one link;"
            f" --subscribers takes all, a number or names, --publisher another node than {chosen.publisher}"
        )
    if hold:
        console.print(f"hold      Ctrl-C ends it; from another terminal: feednet shell {directory} NODE")
    width = max(map(len, chosen.layerings))
    count = len(chosen.layerings)
    numbered = {name: f"{number} of {count}  " for number, name in enumerate(chosen.layerings, start=1)}
    with staged(console) as stage:
        experiment.run(
            directory,
            net=net,
            impairment=impairment,
            dilation=dilation,
            command=shlex.join([*_words({"net"}), "--net", where]),
            is_held=hold,
            is_trusted=trust,
            progress=lambda name: stage(
                f"{numbered[name] if count > 1 else ''}{name:{width}} {LAYERINGS[name].title}",
                seconds * dilation if where == "mininet" else None,
            ),
            advance=stage.advance,
        )
    if no_report:
        console.print(f"captures  {directory}")
    else:
        write_report(directory, master, engine, all_tables)


_HOW = {
    "out",
    "hold",
    "master",
    "engine",
    "all_tables",
    "no_report",
    "sweeps",
    "repeat",
    "jobs",
    "on_spark",
    "trust",
    "dry_run",
}
"""Parameters of `run` that say how it is run, and not what."""


def _words(without: set[str]) -> list[str]:
    """Return the words of the command that is going on which say what is run, but for some parameters."""
    context = click.get_current_context()
    words = ["feednet", str(context.info_name)]
    for parameter in context.command.params:
        name = parameter.name or ""
        given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if given and name not in _HOW | without:
            value = context.params[name]
            for each in value if parameter.multiple or parameter.nargs < 0 else (value,):
                text = f"{each:.12g}" if isinstance(each, float) else str(each)
                words += [text] if isinstance(parameter, click.Argument) else [parameter.opts[0], text]
    return words


def _sweep(
    title: str,
    planned: list[Job],
    directory: Path,
    workers: int,
    master: str | None,
    engine: str,
    on_spark: bool,
    no_report: bool,
    boxed: Callable[..., None] | None,
) -> None:
    """Run the jobs of a sweep, over Mininet if `boxed` does that, and compare them."""
    if on_spark or not no_report:
        engine = "spark" if on_spark else engine  # whose session there is then
        check_analysis(engine, master, "" if on_spark else "; or run with --no-report")
    where = "as one Spark job" if on_spark else f"{min(workers, len(planned))} at a time"
    where = "in Mininet, one after the other" if boxed else f"in the emulator, {where}"
    with (
        opened(planned, directory, "mininet" if boxed else "emulated") as left,
        counted(console, "sweep") as show,
    ):
        console.print(title, style="bold")
        console.print(f"sweep     {several(len(planned), 'run')} {where}")
        if len(left) < len(planned):
            console.print(f"kept      {several(len(planned) - len(left), 'run')} from before")
        since = time.monotonic()
        if boxed is not None and left:
            boxed(left, directory, progress=show)
        elif on_spark and left:
            sweeping.emulate_on_spark(left, directory, master, show)
        elif left:
            sweeping.emulate_all(left, directory, workers, show)
        console.print(timed(f"ran       {several(len(left), 'run')}", time.monotonic() - since))
        if no_report:
            console.print(f"captures  {directory}")
            return
        since = time.monotonic()
        command = shlex.join(["feednet", *sys.argv[1:]])
        page = sweeping.measure(planned, directory, command, master, engine, show)
        console.print(timed("analysis  measuring", time.monotonic() - since))
    result("page", str(page))


def _parse_settings(settings: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Read LAYERING.NAME=VALUE options; values are JSON where they can be."""
    parameters: dict[str, dict[str, Any]] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        layering, dot, name = key.partition(".")
        if not equals or not dot or not name:
            raise UserError(f"--set {shown(setting)}: write it as LAYERING.NAME=VALUE, e.g. poll.window=8")
        if layering not in LAYERINGS:
            raise UserError(f"--set {shown(setting)}: unknown layering; there are {', '.join(LAYERINGS)}")
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = text
        if name in parameters.setdefault(layering, {}):
            raise UserError(f"--set {shown(setting)}: {layering}.{name} is set twice")
        parameters[layering][name] = value
    return parameters
