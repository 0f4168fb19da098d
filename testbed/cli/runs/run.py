"""`feednet run`: a scenario once, or many times."""

import json
import shlex
import sys
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from analysis.report.words.numbers import count_of
from testbed.api.experiment import Experiment
from testbed.cli import completion as completing
from testbed.cli.console import console, result, timed
from testbed.cli.options import (
    MOST,
    Number,
    all_tables_option,
    engine_option,
    impairment_option,
    jobs_option,
    spark_options,
)
from testbed.cli.progress import counted, staged
from testbed.cli.runs.report import check_analysis, write_report
from testbed.errors import UserError, shown
from testbed.experiment import code
from testbed.experiment.options import RunOptions
from testbed.experiment.platform import MOST_DILATION, Platform
from testbed.experiment.sweeps import sweep as sweeping
from testbed.experiment.sweeps.directory import opened
from testbed.layerings.nodes.workload import Workload
from testbed.layerings.registry import LAYERINGS
from testbed.scenario import reader as scenarios
from testbed.scenario.model import Scenario
from testbed.scenario.overrides import ScenarioOptions


@click.command()
@click.argument("scenario", shell_complete=completing.scenario)
@click.option("--feed", type=click.Path(path_type=Path), help="Feed export to publish (ssb-server log).")
@click.option("--items", type=click.IntRange(1, MOST), help="Items of the generated feed.")
@click.option("--seed", type=click.IntRange(0, MOST), help="Seed of everything random.")
@click.option(
    "--net",
    type=click.Choice(["auto", "emulated", "mininet"]),
    default="auto",
    help="Virtual time, or Mininet hosts; auto takes Mininet where it can run.",
)
@impairment_option
@click.option(
    "--dilation",
    type=click.IntRange(1, MOST_DILATION),
    default=1,
    help="Seconds of the machine for each second of a run in Mininet; gives nodes more processor time.",
)
@click.option(
    "--loss",
    "loss_percent",
    type=Number(0, 100),
    help="Share of frames that every link loses, those of users, too; percent."
    " (--sweep loss is topology.link's alone.)",
)
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
@spark_options()
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
def run(scenario: str, settings: tuple[str, ...], **typed: Any) -> None:
    """Run SCENARIO (a name from `feednet list`, or a .toml file) and write its report.

    With --sweep or --repeat: many times, and write a page that compares the runs.
    """
    options = RunOptions(parameters=_parse_settings(settings), **typed)
    (_run_many if options.is_many else _run_one)(scenario, options)


def _run_one(scenario: str, options: RunOptions) -> None:
    experiment = Experiment.load(scenario, options)
    chosen, load = experiment.scenario, experiment.workload
    seconds = experiment.duration_s
    platform = options.platform()
    directory = options.directory(chosen)
    from testbed.cli.runs import dry_run

    if options.dry_run:
        dry_run.print_run(console, chosen, load, platform, directory, not options.no_report)
        return
    engine = _checked_engine(options)
    _print_begin(chosen, load, options, platform, directory)
    dry_run.print_long(console, chosen, load, platform, not options.no_report)
    width = max(map(len, chosen.layerings))
    count = len(chosen.layerings)
    numbered = {name: f"{number} of {count}  " for number, name in enumerate(chosen.layerings, start=1)}
    with staged(console) as stage:
        experiment.run(
            directory,
            net=options.net,
            impairment=options.impairment,
            dilation=options.dilation,
            is_held=options.hold,
            is_trusted=options.trust,
            command=shlex.join([*_words({"net"}), "--net", platform.net]),
            jobs=options.workers,
            progress=lambda name: stage.begin(
                name,
                f"{numbered[name] if count > 1 else ''}{name:{width}} {LAYERINGS[name].title}",
                seconds * platform.dilation if platform.net == "mininet" else None,
            ),
            advance=stage.advance,
        )
    if not _ends_with_captures(options, directory):
        write_report(directory, options.master, engine, options.all_tables)


def _print_begin(
    chosen: Scenario, load: Workload, options: RunOptions, platform: Platform, directory: Path
) -> None:
    console.print(chosen.title, style="bold")
    slow = platform.dilation
    slower = f", {slow} seconds for each second of the run" if slow > 1 else ""
    console.print(f"network   {platform.net} ({platform.reason}){slower}")
    made = "a generated feed" if chosen.feed_count == 1 else f"{chosen.feed_count} generated feeds"
    source = chosen.workload.feed or made
    following = len(chosen.subscribers)
    console.print(
        f"workload  {count_of(load.items, 'message')} of {source}, {count_of(following, 'subscriber')}"
    )
    others = len(chosen.network.nodes) - len(chosen.sources)
    if options.topology_file and options.subscribers is None and following < others:
        console.print(
            f"hint      {following} of {others} nodes subscribe, those with one link;"
            f" --subscribers takes all, a number or names, --publisher another node than {chosen.publisher}"
        )
    if options.hold:
        console.print(f"hold      Ctrl-C ends it; from another terminal: feednet shell {directory} NODE")


def _run_many(scenario: str, options: RunOptions) -> None:
    platform = options.platform()
    planned = sweeping.plan(scenario, options, _words({"seed"}))
    chosen = planned[0].checked()
    directory = options.directory(chosen)
    if options.dry_run:
        from testbed.cli.runs.dry_run import print_sweep

        print_sweep(console, planned, platform, options.workers, directory, not options.no_report)
        return
    if not options.trust:
        code.admit(*scenarios.read(scenario))
    for job in planned if chosen.strategy_files else ():
        code.load(job.checked())
    engine = _checked_engine(options)
    where = "as one Spark job" if options.on_spark else f"{min(options.workers, len(planned))} at a time"
    where = "in Mininet, one after the other" if platform.net == "mininet" else f"in the emulator, {where}"
    with opened(planned, directory, platform.net) as left, counted(console, "sweep") as show:
        console.print(chosen.title, style="bold")
        console.print(f"sweep     {count_of(len(planned), 'run')} {where}")
        if len(left) < len(planned):
            console.print(f"kept      {count_of(len(planned) - len(left), 'run')} from before")
        since = time.monotonic()
        if left and platform.net == "mininet":
            sweeping.run_over_mininet(left, directory, platform, show)
        elif left and options.on_spark:
            sweeping.emulate_on_spark(left, directory, options.master, show)
        elif left:
            sweeping.emulate_all(left, directory, options.workers, show)
        console.print(timed(f"ran       {count_of(len(left), 'run')}", time.monotonic() - since))
        if _ends_with_captures(options, directory):
            return
        since = time.monotonic()
        command = shlex.join(["feednet", *sys.argv[1:]])
        page = sweeping.measure(planned, directory, command, options.master, engine, show)
        console.print(timed("analysis  measuring", time.monotonic() - since))
    result("page", str(page))


def _checked_engine(options: RunOptions) -> str:
    """Return the engine of the analysis; raise UserError before the run if it cannot start."""
    engine = "spark" if options.on_spark else options.engine  # its session exists then
    if options.on_spark or not options.no_report:
        check_analysis(engine, options.master, "" if options.on_spark else "; or run with --no-report")
    return engine


def _ends_with_captures(options: RunOptions, directory: Path) -> bool:
    """Say where captures are, if that is all that is wanted; return whether it is."""
    if options.no_report:
        console.print(f"captures  {directory}")
    return options.no_report


_HOW = {each.name for each in fields(RunOptions)} - {each.name for each in fields(ScenarioOptions)}
_HOW -= {"net", "impairment", "dilation"}
"""Options of the execution, not of the scenario."""


def _words(without: set[str]) -> list[str]:
    """Return the words of the current command that select the run, without some parameters."""
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


def _parse_settings(settings: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Parse LAYERING.NAME=VALUE options; values are JSON if possible."""
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
