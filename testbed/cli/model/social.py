"""`feednet model social`: generated social networks, compared with real ones."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from testbed.cli.console import console, table
from testbed.cli.model.runs import (
    Runs,
    command_line,
    follow_graph,
    made_directory,
    many_runs,
    progress,
    write_table,
)
from testbed.cli.options import Number
from testbed.errors import shown
from testbed.ladder.traits import PUBLISHED, SOURCES, TRAITS, Measured, measure
from testbed.scenario.sections import FollowGraph

_SERIES = ("followers", "follows", "activity")
_COUNTED = {"followers": "followers", "follows": "people followed", "activity": "messages written"}


@click.command()
@click.option("--peers", type=click.IntRange(100, 1_000_000), default=10_000, help="People.")
@follow_graph
@click.option(
    "--activity",
    type=Number(0, 10),
    default=1.0,
    help="The k-th most active person writes in proportion to 1/k^activity.",
)
@click.option("--messages", type=click.IntRange(1, 1000), default=20, help="Of a person, on average.")
@many_runs(10, "Networks.")
@click.option("--out", type=click.Path(path_type=Path), help="Directory to make; default runs/social-TIME.")
def social(
    peers: int, people: FollowGraph, activity: float, messages: int, wanted: Runs, out: Path | None
) -> None:
    """Grow social networks as scenarios do, measure them, and set real ones beside them.

    Exponents are fitted to the tails of distributions, by maximum likelihood. Real networks have the figures
    that were published of them, with their references.
    """
    from analysis.metrics.study import Estimate, estimate

    with made_directory("social", out) as (directory, partial_directory):
        found = measured(wanted, peers, people, activity, messages)
        traits: dict[str, Estimate] = {}
        for trait in TRAITS:
            values = [each.traits[trait] for each in found if trait in each.traits]
            if values:
                traits[trait] = estimate(values)
        _write(partial_directory, peers, traits, found)
        _write_page(partial_directory / "report.html", peers, people, traits, found)
    _print(peers, traits)
    console.print(f"report    {shown(str(directory / 'report.html'))}")


def measured(wanted: Runs, peers: int, people: FollowGraph, activity: float, messages: int) -> list[Measured]:
    """Return the measures of each network."""
    from testbed.ladder.run import run_trials

    work = partial(_measure, peers, people, activity, messages)
    with progress() as told:
        return [*run_trials(work, [*wanted.seeds], wanted.jobs, wanted.master, told).values()]


def _measure(peers: int, people: FollowGraph, activity: float, messages: int, seed: int) -> Measured:
    return measure(peers, people, activity, messages, seed)


def _write(directory: Path, peers: int, traits: Mapping[str, Any], found: Sequence[Measured]) -> None:
    rows: list[Sequence[Any]] = [
        ("generated", peers, trait, each.mean, each.low, each.high, each.n, "")
        for trait, each in traits.items()
    ]
    rows += [
        (real.name, real.people, trait, value, None, None, None, real.source)
        for real in PUBLISHED
        for trait, value in real.traits.items()
    ]
    columns = ("network", "people", "trait", "value", "low", "high", "networks", "source")
    write_table(directory / "traits.csv", columns, rows)
    shares = [
        (number, counted, least, share)
        for number, each in enumerate(found)
        for counted, points in each.distributions.items()
        for least, share in points
    ]
    write_table(
        directory / "distributions.csv", ("network", "counted", "at_least", "share_of_people"), shares
    )


def _write_page(
    path: Path, peers: int, people: FollowGraph, traits: Mapping[str, Any], found: Sequence[Measured]
) -> None:
    from analysis.metrics.study import Estimate
    from analysis.report.words.numbers import pretty
    from testbed.ladder.pages.curves import curves
    from testbed.ladder.pages.model import Section, Table, estimated, write_model

    def drawn(counted: str) -> Any:
        points = found[0].distributions[counted]
        curve = {float(least): Estimate(share, None, None, 1) for least, share in points}
        axes = (f"{_COUNTED[counted]}, or more", "share of people")
        title = f"{_COUNTED[counted][0].upper()}{_COUNTED[counted][1:]}"
        return curves(
            f"social-{counted}", title, axes, _SERIES, (), lambda: {counted: curve}, logarithms="xy"
        )

    rows = [
        ["source", "this page", *(real.source for real in PUBLISHED)],
        ["people", pretty(peers), *(pretty(real.people) for real in PUBLISHED)],
    ]
    for trait, title in TRAITS.items():
        real_values = (pretty(real.traits.get(trait)) for real in PUBLISHED)
        rows.append([title, estimated(traits.get(trait)), *real_values])
    networks = ("network", "generated", *(real.name for real in PUBLISHED))
    beside = Table("social", "As a table", networks, rows)
    settings = f"follows {people.follows}, closure {people.closure:g}"
    settings += f", mutual {people.mutual:g}, hubs {people.hubs:g}"
    write_model(
        path,
        "social",
        "Social networks, generated and real",
        [
            f"{len(found)} networks of {pretty(peers)} people, grown as scenarios grow them ({settings}),"
            " beside what has been published of real ones."
        ],
        _SERIES,
        [
            Section(
                "How many have how many",
                ["A power law is a straight line here. Of the first network."],
                [drawn(counted) for counted in _SERIES],
            ),
            Section(
                "Beside real networks",
                [_verdict(traits)],
                (),
                [beside],
                [_DEFINITIONS, *_notes(), *_sources()],
            ),
        ],
        command_line(),
    )


_DEFINITIONS = (
    "Exponents: P(x) is in proportion to x^-exponent in the tail, fitted by maximum likelihood with the start"
    " of the tail that fits best (Clauset, Shalizi and Newman 2009). Activity of exponent s by rank has the"
    " exponent 1 + 1/s. Clustering: how likely two neighbours of a person are neighbours, follows counting in"
    " both directions; as a mean of people, or over all pairs of neighbours. Distances: along follows in both"
    " directions, between those who can reach each other. ±: half the 95 % confidence interval over networks"
    " (Student’s t)."
)


def _notes() -> list[str]:
    noted: dict[tuple[str, str], list[str]] = {}
    for real in PUBLISHED:
        if real.note:
            noted.setdefault((real.source, real.note), []).append(real.name)
    return [
        f"Defined otherwise by {source} ({', '.join(names)}): {note}."
        for (source, note), names in noted.items()
    ]


def _sources() -> list[str]:
    return [f"{name}: {reference}." for name, reference in SOURCES.items()]


def _verdict(traits: Mapping[str, Any]) -> str:
    """Return the position of the generated networks among the real ones, in words."""
    inside, outside = [], []
    for trait, title in TRAITS.items():
        real = [each.traits[trait] for each in PUBLISHED if trait in each.traits]
        if trait not in traits or not real:
            continue
        value = traits[trait].mean
        if min(real) <= value <= max(real):
            inside.append(title)
        else:
            outside.append(f"{title} ({'below' if value < min(real) else 'above'} all)")
    text = f"Within the range of the real networks: {'; '.join(inside) or 'nothing'}."
    return f"{text} Outside: {'; '.join(outside)}." if outside else text


def _print(peers: int, traits: Mapping[str, Any]) -> None:
    from analysis.report.words.numbers import pretty
    from testbed.ladder.pages.model import estimated

    printed = table(f"Networks of {peers:,} people, and real ones", "", "generated", "real")
    for trait, said in TRAITS.items():
        own = traits.get(trait)
        real = sorted(each.traits[trait] for each in PUBLISHED if trait in each.traits)
        printed.add_row(said, estimated(own), f"{pretty(real[0])} to {pretty(real[-1])}" if real else "")
    console.print(printed)
