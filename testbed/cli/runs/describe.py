"""`feednet describe`: a scenario, a layering, a key of scenario files or a metric, explained."""

import shutil
import textwrap
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path

import click
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from analysis.metrics.catalogue import BY_KEY, METRICS, Metric
from analysis.run.keys import words
from forwarder.toml_file import read_toml
from testbed.cli import completion
from testbed.cli.console import console, durations
from testbed.cli.runs import synopsis
from testbed.errors import shown
from testbed.experiment import outlook
from testbed.layerings.nodes.workload import Workload
from testbed.layerings.registry import LAYERINGS
from testbed.library import scenarios
from testbed.scenario import reader, reference, workload
from testbed.scenario.model import Scenario

_WIDEST = 110


@click.command()
@click.argument("what", metavar="WHAT", shell_complete=completion.anything)
def describe(what: str) -> None:
    """Explain WHAT: a scenario (or a .toml file), a layering, a key of scenario files, a table of them, or a
    metric; `metrics` lists all metrics.

    A scenario is drawn, and its events are listed in order. Of a layering and of a key there are type, unit,
    default, bounds and meaning. docs/reference.md has all keys.
    """
    parts: list[Callable[[], None]] = []
    if what in scenarios() or what.endswith(".toml"):
        parts.append(lambda: describe_scenario(what))
    if what in LAYERINGS:
        parts.append(lambda: _describe_layering(what))
    if metrics := [metric for metric in METRICS if what in ("metrics", metric.key)]:
        parts.append(lambda: _describe_metrics(metrics))
    found = reference.looked_up(what)
    if what in _table_names() or (found and not parts):
        parts.append(lambda: _describe_keys(what, found))
    if not parts:
        known = [*scenarios(), *LAYERINGS, *_table_names(), *reference.entries()]
        known += [key.rpartition(".")[2] for key in reference.entries()]
        known += ["metrics", *(metric.key for metric in METRICS)]
        near = get_close_matches(what, known, n=1)
        hint = f"did you mean {near[0]}?" if near else "`feednet list` has scenarios and layerings"
        raise click.UsageError(f"{shown(what)}: no scenario, layering, key or metric has this name; {hint}")
    for number, part in enumerate(parts):
        if number:
            console.print()
        part()


def _table_names() -> list[str]:
    return [table.heading.strip("[]") for table in reference.tables() if table.heading]


def describe_scenario(name: str) -> None:
    """Print a scenario of the library or of a file. Raises UserError."""
    scenario = reader.load(name)
    load = workload.load(scenario)
    console.print(Text.assemble((scenario.name, "bold"), f"  {scenario.title}"))
    if scenario.about:
        _print_text(scenario.about)
    if scenario.question is not None:
        console.print(Text.assemble(("\nthe question", "bold"), f"    {scenario.question.text}"))
        _describe_metrics([BY_KEY[key] for key in scenario.question.metrics])
    print_synopsis(scenario, load)
    path = Path(name) if name.endswith(".toml") else name
    console.print(Text.assemble(("\nrun it", "bold"), f"    feednet run {path}"))
    console.print(f"  takes about {durations(outlook.takes(scenario, load))}, its report included")


def print_synopsis(scenario: Scenario, load: Workload) -> None:
    """Print the network, the roles, the layerings, and the events."""
    console.print("\nthe network", style="bold")
    beside: list[str] = []
    if len(scenario.network.nodes) <= synopsis.MOST_DRAWN:
        tree, beside = synopsis.drawn(scenario)
        console.print(Padding(tree, (0, 0, 0, 2), expand=False))
    for line in (*beside, *synopsis.network_lines(scenario)):
        console.print(f"  {line}")
    console.print("who does what", style="bold")
    for line in synopsis.role_lines(scenario):
        console.print(f"  {line}")
    console.print("what is compared", style="bold")
    for line in synopsis.layering_lines(scenario):
        console.print(f"  {line}")
    console.print("what happens, under each of them", style="bold")
    console.print(f"  {synopsis.workload_line(scenario, load)}")
    for seconds, said in synopsis.happenings(scenario, load):
        console.print(f"  {seconds:8.2f} s  {said}")


def _describe_layering(layering: str) -> None:
    console.print(Text.assemble((layering, "bold"), f"  {LAYERINGS[layering].title}"))
    console.print(f"in scenarios: {_scenarios_with(layering)}")
    table = Table(box=None, pad_edge=False)
    table.add_column("parameter", no_wrap=True)
    for heading in ("default", "from", "to"):
        table.add_column(heading, justify="right")
    table.add_column(min_width=24)
    parameters = LAYERINGS[layering].parameters
    meanings = reference.meanings(parameters)
    for name, of in parameters.model_json_schema()["properties"].items():
        values = of.get("enum", [False, True] if of.get("type") == "boolean" else [""])
        bounds = (of.get("minimum", values[0]), of.get("maximum", values[-1]))
        unit = words(f"parameters.{layering}.{name}").unit
        default = f"{of['default']} {unit}".strip()
        table.add_row(f"{layering}.{name}", *(str(x).lower() for x in (default, *bounds)), meanings[name])
    console.print(table)


def _scenarios_with(layering: str) -> str:
    """Return the names of the library's scenarios that run a layering."""
    told = {name: read_toml(path) for name, path in scenarios().items()}
    return ", ".join(name for name, table in told.items() if layering in table["layerings"]) or "none"


def _describe_keys(what: str, found: list[reference.Entry]) -> None:
    for table in reference.tables():
        if table.heading.strip("[]") == what:
            console.print(table.heading, style="bold")
            _print_text(table.says)
    for entry in found:
        console.print(Text.assemble((entry.key, "bold"), f"  {entry.facts}"))
        _print_text(entry.says)
        names = reference.users().get(entry.key, [])
        if len(found) == 1:
            console.print(f"  in scenarios: {', '.join(names) or 'none'}")


def _describe_metrics(metrics: Sequence[Metric]) -> None:
    """Print metrics: key, title, unit, and which values are better."""
    width = max(len(metric.key) for metric in metrics)
    for metric in metrics:
        better = f"; {metric.better} is better" if metric.better else ""
        console.print(f"  {metric.key:{width}}  {metric.title}, {metric.unit}{better}")


def _print_text(text: str) -> None:
    width = min(shutil.get_terminal_size((_WIDEST, 24)).columns, _WIDEST)
    for line in textwrap.wrap(text, width - 2, break_on_hyphens=False):
        console.print(f"  {line}")
