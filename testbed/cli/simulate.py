"""`feednet simulate`: plays stories until an invariant fails, and shows the shrunk story.

Stories come from seeds, from a search for novelty, or from every schedule of a few faults.
"""

import os
import sys
import time
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from analysis.report.words.numbers import count_of
from base.files import write_whole
from testbed.cli.console import console as _console
from testbed.cli.options import MOST, jobs_option, spark_options
from testbed.cli.progress import counted
from testbed.cli.usage import exclude, require
from testbed.errors import UserError
from testbed.verify.classic.family import CLASSIC
from testbed.verify.kit.chart import draw
from testbed.verify.kit.explore import SearchFindings, climb_all, explore_all
from testbed.verify.kit.family import Family, from_text, to_text
from testbed.verify.kit.outcome import Outcome
from testbed.verify.kit.search import SearchResult, search, search_on_spark
from testbed.verify.kit.shrink import shrink
from testbed.verify.kit.story import Story
from testbed.verify.mapping.world import MAPPING
from testbed.verify.providers.world import PROVIDERS
from testbed.verify.push.exhaust import cover_all
from testbed.verify.push.family import PUSH
from testbed.verify.push.world.carrier import MOST_SENT
from testbed.verify.social.world import SOCIAL
from testbed.verify.swarms.rungs import RUNGS
from testbed.verify.swarms.world import SWARMS
from testbed.verify.tiny.world import TINY

FAMILIES: dict[str, Family[Any]] = {
    family.name: family for family in (PUSH, CLASSIC, SWARMS, RUNGS, PROVIDERS, SOCIAL, MAPPING, TINY)
}
_UNNAMED = CLASSIC.name
"""The family of files without a family name, from before there were several: it also plays those of push."""
_SAY_EVERY = 10
"""Seconds between two lines of progress without a terminal."""


@dataclass(frozen=True)
class _Options:
    """The command's options; see their help."""

    family: str
    seeds: int
    first: int
    jobs: int | None
    master: str | None
    seed: int | None
    story: Path | None
    save: Path | None
    shrinking: bool
    keep_going: bool
    explore: int | None
    climb: int | None
    exhaustive: bool
    frames: int
    faults: int

    @property
    def workers(self) -> int:
        """Number of processes."""
        return self.jobs or os.cpu_count() or 1

    def check(self) -> None:
        """Raise click.UsageError for options without effect in this combination."""
        exclude("exhaustive", "explore", "climb", "story", "seed", "seeds", "first", "keep_going")
        exclude("explore", "climb", "story", "seed", "seeds", "keep_going")
        exclude("climb", "story", "seed", "seeds", "keep_going")
        exclude("story", "family", "seed", "seeds", "first", "jobs", "keep_going")
        exclude("seed", "seeds", "first", "jobs", "keep_going")
        exclude("master", "exhaustive", "explore", "climb", "story", "seed", "jobs")
        require("frames", "exhaustive")
        require("faults", "exhaustive")
        if self.exhaustive and self.family != PUSH.name:
            raise click.UsageError(f"--exhaustive is for {PUSH.name}, not for {self.family}.")


@click.command()
@click.argument("family", type=click.Choice([*FAMILIES]), default=PUSH.name)
@click.option("--seeds", type=click.IntRange(1, MOST), default=10_000, help="How many.")
@click.option("--first", type=click.IntRange(0, MOST), default=0, help="The first of them.")
@jobs_option
@spark_options("Spark master: play the seeds as Spark tasks, on all its machines.")
@click.option("--seed", type=click.IntRange(0, MOST), help="Play this one seed.")
@click.option("--story", type=click.Path(path_type=Path), help="Play a story that --save has written.")
@click.option(
    "--save",
    type=click.Path(path_type=Path),
    help="Write the failing story, or the slowest of --climb, here.",
)
@click.option("--shrink/--no-shrink", "shrinking", default=True, help="Cut a failing story down first.")
@click.option("--keep-going", is_flag=True, help="Play all seeds, and list those that fail.")
@click.option(
    "--explore", type=click.IntRange(1, MOST), help="Play so many stories that lead to what is new."
)
@click.option(
    "--climb", type=click.IntRange(1, MOST), help="Play so many stories that lead to slow recovery."
)
@click.option(
    "--exhaustive", is_flag=True, help="Play short exchanges of push under every schedule of faults."
)
@click.option(
    "--frames",
    type=click.IntRange(1, MOST_SENT),
    default=12,
    help="Frames that --exhaustive lets faults befall: the first ones.",
)
@click.option(
    "--faults", type=click.IntRange(0, MOST_SENT), default=2, help="Faults at a time, of --exhaustive."
)
def simulate(**typed: Any) -> None:
    """Play whole networks in virtual time, one a seed, and check what must hold after every event.

    FAMILY is what seeds make: push (controlled push; the default), classic (classic NDN), swarms (of
    Scuttlebutt peers), rungs (swarms that climb the replication ladder), providers (of NDN over SSB), social
    (SSB-aware forwarders), mapping (name services, storage providers and moving devices) or tiny (tinySSB
    cells with providers and their clients).

    Exit status 1 if an invariant is violated.
    """
    options = _Options(**typed)
    options.check()
    if _fails(options, FAMILIES[options.family]):
        sys.exit(1)


def _fails(options: _Options, family: Family[Any]) -> bool:
    """Run the command; return whether an invariant failed."""
    if options.exhaustive:
        return _cover(options)
    if options.explore is not None or options.climb is not None:
        return _explore(family, options)
    if options.story is not None:
        return _show(*_load(options.story), options)
    if options.seed is not None:
        return _show(family, family.make(options.seed), options)
    result = _search(family, options)
    _summarise(result)
    for failure in result.failures if options.keep_going else result.failures[:1]:
        _console.print(f"seed {failure.seed}: {failure.text}", markup=False)
        _console.print(f"  replay: feednet simulate {family.name} --seed {failure.seed}")
    if not result.failures:
        return False
    return _show(family, family.make(result.failures[0].seed), options)


def _search(family: Family[Any], options: _Options) -> SearchResult:
    first, seeds = options.first, options.seeds
    result = SearchResult()
    begun = time.monotonic()
    with (
        counted(_console, "simulating", seeds) as show,
        closing(_results(family, options)) as batches,
    ):
        said = begun
        try:
            for batch in batches:
                result.add(batch)
                now = time.monotonic()
                so_far = f"{result.seeds / (now - begun):.0f} seeds/s, {len(result.failures)} failed"
                show(result.seeds, seeds, so_far)
                if not _console.is_terminal and now > said + _SAY_EVERY:
                    said = now
                    click.echo(f"{result.seeds} of {count_of(seeds, 'seed')}, {so_far}", err=True)
                if result.failures and not options.keep_going:
                    break
        except KeyboardInterrupt:
            _conclude(result, first, begun, family.allowed)
            _console.print(f"stopped   the rest begins at --first {first + result.seeds}, or a little before")
            raise
    _conclude(result, first, begun, family.allowed)
    return result


def _results(family: Family[Any], options: _Options) -> Generator[SearchResult, None, None]:
    if options.master is not None:
        return search_on_spark(family, options.first, options.seeds, options.master)
    return search(family, options.first, options.seeds, options.workers)


def _conclude(result: SearchResult, first: int, begun: float, allowed: int) -> None:
    rate = result.seeds / (time.monotonic() - begun)
    slowest = f" (seed {result.slowest_seed})" if result.slowest_seed is not None else ""
    _console.print(
        f"{count_of(result.seeds, 'seed')} from {first}, {rate:.0f} a second, {len(result.failures)} failed; "
        f"the slowest caught up within {result.slowest / 1e9:.1f} s{slowest}, "
        f"{allowed / 1e9:.0f} s are allowed"
    )


def _explore(family: Family[Any], options: _Options) -> bool:
    """Search for novelty, or for slow recovery; return whether an invariant failed."""
    climbs = options.explore is None
    stories = options.climb or options.explore or 0
    result: SearchFindings[Any] = SearchFindings()
    begun = time.monotonic()
    search_all = climb_all if climbs else explore_all
    with (
        counted(_console, "climbing" if climbs else "exploring", stories) as show,
        closing(search_all(family, options.first, stories, options.workers)) as parts,
    ):
        for part in parts:
            result.add(part)
            slowest = f"the slowest caught up within {result.slowest_time / 1e9:.2f} s"
            shown = "" if climbs else f"{len(result.features)} different features, "
            show(result.stories, stories, f"{shown}{slowest}")
            if result.failures:
                break
    rate = result.stories / (time.monotonic() - begun)
    _console.print(
        f"{result.stories} stories, {rate:.0f} a second, {len(result.failures)} failed; {shown}{slowest}, "
        f"{family.allowed / 1e9:.0f} s are allowed"
    )
    if result.failures:
        return _show(family, result.failures[0][0], options)
    if climbs and result.slowest:
        worst = result.slowest[0][1]
        _console.print(draw(worst, family.play(worst, record=True)), markup=False)
        _save(family, worst, options.save)
    return False


def _cover(options: _Options) -> bool:
    """Play short exchanges under every schedule; return whether an invariant failed."""
    frames, faults = options.frames, options.faults
    _console.print(f"every schedule of at most {faults} faults among the first {frames} frames")
    failed = False
    with closing(cover_all(frames, faults, options.workers)) as exchanges:
        for covered in exchanges:
            what = f"{covered.slowest / 1e9:5.1f} s" if covered.violation is None else "FAILS"
            _console.print(f"{covered.name:54} {covered.schedules:8} schedules  {what}")
            if covered.story is not None and not failed:
                failed = _show(PUSH, covered.story, replace(options, shrinking=False))
    return failed


def _summarise(result: SearchResult) -> None:
    table = Table(box=None, pad_edge=False)
    table.add_column("what happened")
    table.add_column("times", justify="right")
    table.add_column("in stories", justify="right")
    for what, times in sorted(result.coverage.items()):
        table.add_row(what, str(times), f"{result.stories[what] / result.seeds:.1%}")
    _console.print(table)


def _everything(outcome: Outcome) -> str:
    coverage = ", ".join(f"{what} {times}" for what, times in sorted(outcome.coverage.items()))
    return f"everything holds ({coverage})"


def _show(family: Family[Any], story: Story, options: _Options) -> bool:
    """Play one story and draw it if it fails; return whether it does."""
    outcome = family.play(story)
    if outcome.violation is None:
        _console.print(f"seed {story.seed}: {_everything(outcome)}")
        return False
    if options.shrinking:
        story = shrink(family, story)
    _console.print(draw(story, family.play(story, record=True)), markup=False)
    _save(family, story, options.save)
    return True


def _save(family: Family[Any], story: Story, path: Path | None) -> None:
    if path is not None:
        write_whole(path, to_text(family, story))
        _console.print(f"replay: feednet simulate --story {path}", markup=False)


def _load(path: Path) -> tuple[Family[Any], Story]:
    try:
        return from_text(path.read_text(encoding="utf-8"), FAMILIES, _UNNAMED)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path}: not a story that `feednet simulate --save` has written: {error}") from error
