"""`feednet model costs`: a paper's cost formulas, compared with the real protocols."""

from collections.abc import Sequence
from pathlib import Path

import click

from analysis.export.text import number
from analysis.report.words.numbers import exponent
from testbed.cli.console import console, table
from testbed.cli.model.runs import Runs, command_line, made_directory, many_runs, progress, write_table
from testbed.errors import shown
from testbed.ladder.swarms.costs import Who
from testbed.ladder.swarms.ratio import CONNECTIONS, MEASURES, PHASES, Ratio, factor
from testbed.ladder.swarms.slopes import AXES, BASE, Slope
from testbed.ladder.swarms.study import PARTS, Costs, run_costs
from testbed.ladder.swarms.unchanged import FEEDS, Talk
from testbed.ladder.tables import CONFIDENCE


@click.command()
@click.option("--part", "parts", multiple=True, type=click.Choice(PARTS), help="Only this part (repeatable).")
@many_runs(5, "Runs of each swarm.")
@click.option("--out", type=click.Path(path_type=Path), help="Directory to make; default runs/costs-TIME.")
def costs(parts: tuple[str, ...], wanted: Runs, out: Path | None) -> None:
    """Hold the cost formulas of "Scalable Secure Scuttlebutt" against the real protocols.

    Swarms of peers with stores and signed messages speak each rung of the ladder while one thing is varied:
    polls, feeds, peers or connections. The slopes that are found stand beside those that the formulas say.
    Then: what two peers say of 5,000 feeds that have not changed; and how much epidemic broadcast trees cost
    over an ideal hub, by the size of the swarm.
    """
    from testbed.ladder.pages.costs import write_costs

    with made_directory("costs", out) as (directory, partial):
        with progress() as told:
            found = run_costs(parts or PARTS, wanted.seeds, wanted.jobs, wanted.master, told)
        for name, rows in found._asdict().items():
            if rows:
                write_table(partial / f"{name}.csv", rows[0]._fields, rows)
        write_costs(partial / "report.html", _described(found, len(wanted.seeds)), command_line())
    _print_slopes(found.slopes)
    _print_talks(found.talks)
    _print_ratios(found.ratios)
    console.print(f"report    {shown(str(directory / 'report.html'))}")


def _described(found: Costs, seeds: int) -> dict[str, object]:
    """Return the study in the page's format."""
    return {
        "axes": {name: axis.title for name, axis in AXES.items()},
        "base": {name: value for name, value in BASE._asdict().items() if name != "edges"},
        "confidence": CONFIDENCE,
        "seeds": seeds,
        "phases": PHASES,
        "measures": MEASURES,
        "connections": CONNECTIONS,
        "factor": factor(CONNECTIONS),
        "unchanged": FEEDS,
        **{name: [row._asdict() for row in rows] for name, rows in found._asdict().items()},
    }


def _print_slopes(slopes: Sequence[Slope]) -> None:
    for axis, described in AXES.items():
        here = [slope for slope in slopes if slope.axis == axis and slope.who is not Who.NETWORK]
        if not here:
            continue
        columns = ("rung", "who", "cost", "paper", "ours", "found", "x formula")
        made = table(f"Slopes over {described.title}", *columns, names=3)
        for slope in here:
            found = "" if slope.mean is None else f"{exponent(slope.mean)} ± {slope.error:.2f}"
            said = ["" if each is None else exponent(each) for each in (slope.paper, slope.ours)]
            factor = "" if slope.factor is None else number(slope.factor)
            made.add_row(slope.rung, slope.who, slope.cost, *said, found, factor)
        console.print(made, "")


def _print_talks(talks: Sequence[Talk]) -> None:
    if talks:
        columns = ("rung", "clocks are kept", "connection", "elements", "bytes", "messages")
        made = table("Feeds that have not changed; one has before the third connection", *columns, names=2)
        for talk in talks:
            counts = (talk.connection, talk.elements, talk.header_bytes, talk.messages)
            made.add_row(talk.rung, "yes" if talk.remembers else "no", *map(number, counts))
        console.print(made, "")


def _print_ratios(ratios: Sequence[Ratio]) -> None:
    by_row: dict[tuple[str, str], dict[int, Ratio]] = {}
    for ratio in ratios:
        by_row.setdefault((ratio.phase, ratio.measure), {})[ratio.peers] = ratio
    if by_row:
        sizes = sorted({ratio.peers for ratio in ratios} - {0})
        names = [*(f"{size:,}" for size in sizes), "slope"]
        made = table("EBT over the ideal hub, by peers", "phase", "measure", *names, names=2)
        for row, known in by_row.items():
            shown = [f"{known[size].mean:.3g}" for size in sizes]
            slope = f"{exponent(known[0].mean)} ± {known[0].error:.2f}" if 0 in known else ""
            made.add_row(*row, *shown, slope)
        console.print(made, "")
