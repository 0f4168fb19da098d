"""The command line: `feednet` with its commands, of which run, report, compare, export, list and describe are
here.

The others (analyze, decrypt, dissect, doctor, forward, isp, model, selftest, serve, simulate, ssb,
status, tiny, topology, watch) have modules of their own.

Exit status: 0 done; 1 the user can mend it, said in one line; 2 wrong usage; 130 interrupted
(143 by SIGTERM).
"""

import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal

import click
from click.core import ParameterSource
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.progress_bar import ProgressBar
from rich.table import Table

from analysis.errors import of_system
from forwarder.strategies import STRATEGIES
from testbed.cli import interrupts, ndn_over_ssb  # noqa: F401 - adds commands to ssb
from testbed.cli.analyze import analyze
from testbed.cli.decrypt import decrypt
from testbed.cli.dissect import dissect
from testbed.cli.doctor import doctor
from testbed.cli.forward import forward
from testbed.cli.model import model
from testbed.cli.options import all_tables_option, engine_option
from testbed.cli.selftest import selftest
from testbed.cli.serve import serve
from testbed.cli.simulate import simulate
from testbed.cli.ssb import ssb
from testbed.cli.status import status
from testbed.cli.tiny import isp, tiny
from testbed.cli.topology import topology
from testbed.cli.watch import watch
from testbed.errors import UserError, shown
from testbed.experiment import run as running
from testbed.experiment import sweep as sweeping
from testbed.experiment.sweep_directory import Job, opened
from testbed.layerings.registry import LAYERINGS
from testbed.scenario import model as scenarios
from testbed.scenario import workload
from topologies.generate import GENERATORS
from topologies.library import networks

console = Console(highlight=False, soft_wrap=True)
_errors = Console(stderr=True, highlight=False, soft_wrap=True)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="feednet")
def feednet() -> None:
    """Run NDN and Secure Scuttlebutt layered in different ways over one network, and compare them."""


@feednet.command()
@click.argument("scenario")
@click.option("--feed", type=click.Path(path_type=Path), help="Feed export to publish (ssb-server log).")
@click.option("--items", type=click.IntRange(min=1), help="Items of the generated feed.")
@click.option("--seed", type=click.IntRange(min=0), help="Seed of everything random.")
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
@click.option("--loss", type=click.FloatRange(0, 100), help="Share of frames that every link loses, percent.")
@click.option(
    "--topology",
    "topology_file",
    type=click.Path(path_type=Path),
    help="Mini-NDN or GraphML file, or a network of `feednet list`.",
)
@click.option("--publisher", metavar="NODE", help="Node that publishes, in place of all that do.")
@click.option(
    "--subscribers",
    metavar="all|N|NODE,...",
    help="Nodes that follow; default what the scenario says, or leaves.",
)
@click.option("--layering", "layerings", multiple=True, help="Layering to run (repeatable).")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="LAYERING.NAME=VALUE",
    help="Layering parameter (repeatable); `feednet describe LAYERING` has them.",
)
@click.option("--strategy", metavar="NAME[/PARAMETER~VALUE...]", help="Forwarding strategy of all nodes.")
@click.option("--strategy-file", "strategy_files", multiple=True, help="Python file with more (repeatable).")
@click.option("--out", type=click.Path(path_type=Path), help="Directory to make; default runs/SCENARIO-TIME.")
@click.option("--master", help="Spark master; default local.")
@engine_option
@all_tables_option
@click.option("--no-report", is_flag=True, help="Capture only; `feednet report` makes the report later.")
@click.option(
    "--sweep",
    "sweeps",
    multiple=True,
    metavar="KEY=VALUE,...",
    help="Run once for each value of loss, items, seed, strategy, LAYERING.PARAMETER or a key path"
    " (repeatable).",
)
@click.option("--repeat", type=click.IntRange(min=1), default=1, help="Run each with so many seeds.")
@click.option("--jobs", type=click.IntRange(min=1), help="Runs of a sweep at a time; default all cores.")
@click.option("--on-spark", is_flag=True, help="Run a sweep as one Spark job; OUT is to be shared.")
def run(
    scenario: str,
    feed: Path | None,
    items: int | None,
    seed: int | None,
    net: running.Net | Literal["auto"],
    impairment: running.Impairment,
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
    sweeps: tuple[str, ...],
    repeat: int,
    jobs: int | None,
    on_spark: bool,
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
    if sweeps or repeat > 1:
        where, why = running.choose_net("mininet" if net == "mininet" else "emulated")
        if where == "mininet" and (jobs or on_spark):
            raise UserError("--jobs, --on-spark: runs over Mininet go one after the other; leave them out")
        if where == "emulated" and impairment != "auto":
            raise UserError(
                f"--impairment {impairment}: these runs are emulated; leave it out, or add --net mininet"
            )
        boxed = (
            partial(sweeping.run_over_mininet, why=why, impairment=impairment) if where == "mininet" else None
        )
        axes = [sweeping.parse_axis(text) for text in sweeps]
        planned = sweeping.plan(scenario, axes, repeat, options, _words({"seed"}))
        chosen = scenarios.load(scenario, **planned[0].options)
        directory = out or Path("runs") / f"{chosen.name}-sweep-{datetime.now():%Y%m%d-%H%M%S}"
        workers = jobs or os.cpu_count() or 1
        _sweep(chosen.title, planned, directory, workers, master, engine, on_spark, no_report, boxed)
        return
    chosen = scenarios.load(scenario, **options)
    load = workload.load(chosen)
    seconds = running.duration_s(chosen, load)
    where, why = running.choose_net(net)
    if where == "emulated" and impairment != "auto":
        raise UserError(f"--impairment {impairment}: for Mininet only, and this would be emulated: {why}")
    if not no_report:
        _check_analysis(engine, master, "; or run with --no-report")
    directory = out or Path("runs") / f"{chosen.name}-{datetime.now():%Y%m%d-%H%M%S}"
    console.print(f"[bold]{chosen.title}[/]")
    console.print(f"network   {where} ({why})")
    made = "a generated feed" if chosen.feed_count == 1 else f"{chosen.feed_count} generated feeds"
    source = chosen.workload.feed or made
    following = len(chosen.subscribers)
    console.print(f"workload  {load.items} messages of {source}, {following} subscribers")
    others = len(chosen.network.nodes) - len(chosen.sources)
    if topology_file and subscribers is None and following < others:
        console.print(
            f"hint      {following} of {others} nodes subscribe, those with one link;"
            f" --subscribers takes all, a number or names, --publisher another node than {chosen.publisher}"
        )
    width = max(map(len, chosen.layerings))
    with _stages() as stage:
        running.run(
            chosen,
            load,
            where,
            why,
            directory,
            impairment=impairment,
            command=shlex.join([*_words({"net"}), "--net", where]),
            progress=lambda name: stage(
                f"{name:{width}} {LAYERINGS[name].title}", seconds if where == "mininet" else None
            ),
        )
    if no_report:
        console.print(f"captures  {directory}")
    else:
        _report(directory, master, engine, all_tables)


@feednet.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--master", help="Spark master; default local.")
@engine_option
@all_tables_option
def report(directory: Path, master: str | None, engine: str, all_tables: bool) -> None:
    """Analyse the captures of a run in DIRECTORY (again) and write its report."""
    _check_analysis(engine, master)
    _report(directory, master, engine, all_tables)


@feednet.command()
@click.argument("directories", nargs=-1, required=True, metavar="RUN...", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Page to write; default study-TIME.html beside the first RUN.",
)
@click.option("--master", help="Spark master; default local.")
@engine_option
def compare(directories: tuple[Path, ...], out: Path | None, master: str | None, engine: str) -> None:
    """Set runs of one scenario beside each other: what differs between them, with confidence intervals over
    seeds.

    RUN is the directory of a run or of a sweep.
    """
    from analysis.errors import AnalysisError
    from analysis.export.text import study_text
    from analysis.pipelines.compare import compare_runs

    _check_analysis(engine, master)
    out = out or directories[0].absolute().parent / f"study-{datetime.now():%Y%m%d-%H%M%S}.html"
    try:
        with _stages() as stage:
            compared = compare_runs(
                directories, out, master, lambda name: stage(f"analysis  {name}", None), engine
            )
    except AnalysisError as error:
        raise UserError(str(error)) from error
    click.echo(study_text(compared))
    console.print(f"[bold green]page[/]      {out}")


@feednet.command()
@click.argument("directory", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--format", "form", type=click.Choice(["ndnsim"]), required=True, help="Format of the traces.")
@click.option(
    "--period", type=click.FloatRange(0.001), default=0.5, show_default=True, help="Of rates, seconds."
)
@click.option("--out", type=click.Path(path_type=Path), help="Directory to write to; default RUN/FORMAT.")
def export(directory: Path, form: str, period: float, out: Path | None) -> None:
    """Write the traces of an analysed RUN in another simulator's format: rates, delays and caches by time."""
    from analysis.errors import AnalysisError
    from analysis.export.ndnsim import export as write_traces

    try:
        written = write_traces(directory, out or directory / form, period)
    except AnalysisError as error:
        raise UserError(str(error)) from error
    for path in written:
        console.print(str(path))


@feednet.command("list")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def list_(as_json: bool) -> None:
    """List scenarios, layerings, topologies and forwarding strategies."""
    known = {name: scenarios.load(name).title for name in scenarios.available()}
    titles = {name: layering.title for name, layering in LAYERINGS.items()}
    if as_json:
        names = {
            "topologies": sorted(GENERATORS),
            "networks": {name: network.title for name, network in networks().items()},
            "strategies": sorted(STRATEGIES),
        }
        click.echo(json.dumps({"scenarios": known, "layerings": titles, **names}))
        return
    for heading, rows in (("scenarios", known), ("layerings", titles)):
        console.print(f"[bold]{heading}[/]")
        width = max(map(len, rows))
        for name, title in rows.items():
            console.print(f"  {name:{width}}  {title}")
    console.print("  (feednet describe LAYERING: its parameters)")
    console.print("[bold]topologies[/]")
    console.print(f"  {', '.join(sorted(GENERATORS))}")
    console.print("  with --topology a Mini-NDN or GraphML file, or a real network:")
    width = max(map(len, networks()))
    for name, network in networks().items():
        console.print(f"  {name:{width}}  {network.title}")
    console.print("[bold]strategies[/]")
    console.print(f"  {', '.join(sorted(STRATEGIES))}, or your own with --strategy-file")


@feednet.command()
@click.argument("layering", type=click.Choice([*LAYERINGS]), metavar="LAYERING")
def describe(layering: str) -> None:
    """Show the parameters of LAYERING (a name from `feednet list`) for --set and --sweep: default, bounds,
    meaning.
    """
    described = LAYERINGS[layering]
    console.print(f"[bold]{layering}[/]  {described.title}")
    table = Table(box=None, pad_edge=False)
    table.add_column("parameter", no_wrap=True)
    for heading in ("default", "from", "to"):
        table.add_column(heading, justify="right")
    table.add_column()
    for name, of in described.parameters.model_json_schema()["properties"].items():
        values = of.get("enum", [False, True] if of.get("type") == "boolean" else [""])
        bounds = (of["default"], of.get("minimum", values[0]), of.get("maximum", values[-1]))
        table.add_row(f"{layering}.{name}", *(str(each).lower() for each in bounds), of["description"])
    console.print(table)


_HOW = {"out", "master", "engine", "all_tables", "no_report", "sweeps", "repeat", "jobs", "on_spark"}
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
    from analysis.errors import AnalysisError

    if on_spark or not no_report:
        engine = "spark" if on_spark else engine  # whose session there is then
        _check_analysis(engine, master, "" if on_spark else "; or run with --no-report")
    where = "as one Spark job" if on_spark else f"{min(workers, len(planned))} at a time"
    where = "in Mininet, one after the other" if boxed else f"in the emulator, {where}"
    columns = (TextColumn("{task.description}"), BarColumn(24), MofNCompleteColumn(), TimeElapsedColumn())
    try:
        with (
            opened(planned, directory, "mininet" if boxed else "emulated") as left,
            Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress,
        ):
            console.print(f"[bold]{title}[/]")
            console.print(f"sweep     {len(planned)} runs {where}")
            if len(left) < len(planned):
                console.print(f"kept      {len(planned) - len(left)} runs that are there already")
            task = progress.add_task("running", total=len(left))

            def show(done: int, of: int, what: str) -> None:
                progress.update(task, completed=done, total=of, description=what)

            since = time.monotonic()
            if boxed is not None and left:
                boxed(left, directory, progress=show)
            elif on_spark and left:
                sweeping.emulate_on_spark(left, directory, master, show)
            elif left:
                sweeping.emulate_all(left, directory, workers, show)
            console.print(f"ran       {len(left)} runs  [dim]{time.monotonic() - since:.1f} s[/]")
            if no_report:
                console.print(f"captures  {directory}")
                return
            since = time.monotonic()
            command = shlex.join(["feednet", *sys.argv[1:]])
            page = sweeping.measure(planned, directory, command, master, engine, show)
            console.print(f"analysis  measuring  [dim]{time.monotonic() - since:.1f} s[/]")
    except AnalysisError as error:
        raise UserError(str(error)) from error
    console.print(f"[bold green]page[/]      {page}")


def _report(directory: Path, master: str | None, engine: str, all_tables: bool) -> None:
    from analysis.errors import AnalysisError
    from analysis.export.text import headlines
    from analysis.pipelines.run import analyze, read_comparison

    try:
        with _stages() as stage:
            page = analyze(
                directory,
                master,
                lambda text: stage(f"analysis  {text}", None),
                engine,
                all_tables=all_tables,
            )
    except AnalysisError as error:
        raise UserError(str(error)) from error
    console.print(headlines(read_comparison(directory)), markup=False, end="")
    console.print(f"[bold green]report[/]    {page}")


def _check_analysis(engine: str, master: str | None, way_out: str = "") -> None:
    """Find out that no engine can start before the run, not after it."""
    from analysis.errors import AnalysisError
    from analysis.spark.engine import check

    try:
        check(engine, master)
    except AnalysisError as error:
        raise UserError(f"{error}{way_out}") from error


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


class _TimeBar(ProgressColumn):
    """Shows how far the time of a stage has gone; pulses where it is not known."""

    max_refresh = 0.1

    def render(self, task: Task) -> ProgressBar:
        """Draw the bar."""
        return ProgressBar(total=task.total, completed=task.elapsed or 0, width=24, pulse=task.total is None)


@contextmanager
def _stages() -> Iterator[Callable[[str, float | None], None]]:
    """Show stages one after the other: a bar where the duration is known, then a line with the time taken.

    Yields stage(text, seconds or None).
    """
    columns = (
        SpinnerColumn(finished_text=" "),
        TextColumn("{task.description}"),
        _TimeBar(),
        TimeElapsedColumn(),
    )
    begun: list[tuple[str, float]] = []

    def finish() -> None:
        if begun:
            text, since = begun.pop()
            console.print(f"{text}  [dim]{time.monotonic() - since:.1f} s[/]")

    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=None)

        def stage(text: str, seconds: float | None) -> None:
            finish()
            begun.append((text, time.monotonic()))
            progress.reset(task, description=text, total=seconds)

        yield stage
        finish()


for _command in (
    analyze,
    decrypt,
    dissect,
    doctor,
    forward,
    isp,
    model,
    selftest,
    serve,
    simulate,
    ssb,
    status,
    tiny,
    topology,
    watch,
):
    feednet.add_command(_command)


def main() -> None:
    """Run the command; errors that the user can mend are one line and exit status 1."""
    # Nothing that we start takes modules from the user's directory.
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        with interrupts.stopping():
            feednet.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except UserError as error:
        _errors.print(f"feednet: {error}", markup=False)
        sys.exit(1)
    except OSError as error:
        _errors.print(f"feednet: {of_system(error)}", markup=False)
        sys.exit(1)
    except (KeyboardInterrupt, click.Abort):
        _errors.print("feednet: interrupted")
        sys.exit(interrupts.status())


if __name__ == "__main__":
    main()
