"""`feednet simulate`: plays seeds until an invariant fails, and shows the shortest story that it fails in."""

import json
import os
import sys
import time
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from testbed.errors import UserError
from testbed.simulate.chart import draw
from testbed.simulate.search import Found, search
from testbed.simulate.shrink import shrink
from testbed.simulate.story import Story, make_story
from testbed.simulate.world import play
from testbed.usage import exclude

_console = Console(highlight=False, soft_wrap=True)


@click.command()
@click.option("--seeds", type=click.IntRange(min=1), default=10_000, show_default=True, help="How many.")
@click.option("--first", type=click.IntRange(min=0), default=0, show_default=True, help="The first of them.")
@click.option("--jobs", type=click.IntRange(min=1), help="Processes; default one a core.")
@click.option("--seed", type=click.IntRange(min=0), help="Play this one seed.")
@click.option("--story", type=click.Path(path_type=Path), help="Play a story that --save has written.")
@click.option("--save", type=click.Path(path_type=Path), help="Write the failing story to this file.")
@click.option("--shrink/--no-shrink", "shrinking", default=True, help="Cut a failing story down first.")
@click.option("--keep-going", is_flag=True, help="Play all seeds, and list those that fail.")
def simulate(
    seeds: int,
    first: int,
    jobs: int | None,
    seed: int | None,
    story: Path | None,
    save: Path | None,
    shrinking: bool,
    keep_going: bool,
) -> None:
    """Play whole networks in virtual time, one a seed, and check what must hold after every event.

    Exit status 1 if an invariant is violated.
    """
    exclude("story", "seed", "seeds", "first", "jobs", "keep_going")
    exclude("seed", "seeds", "first", "jobs", "keep_going")
    if story is not None:
        failed = _show(_load(story), shrinking=shrinking, save=save)
    elif seed is not None:
        failed = _show(make_story(seed), shrinking=shrinking, save=save)
    else:
        found = _search(first, seeds, jobs or os.cpu_count() or 1, keep_going=keep_going)
        failed = bool(found.failures)
        _summarise(found)
        for failure in found.failures if keep_going else found.failures[:1]:
            _console.print(f"seed {failure.seed}: {failure.text}", markup=False)
            _console.print(f"  replay: feednet simulate --seed {failure.seed}")
        if failed:
            _show(make_story(found.failures[0].seed), shrinking=shrinking, save=save)
    if failed:
        sys.exit(1)


def _search(first: int, seeds: int, jobs: int, *, keep_going: bool) -> Found:
    found = Found()
    begun = time.monotonic()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[speed]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=_console, transient=True, disable=not _console.is_terminal) as progress:
        task = progress.add_task("simulating", total=seeds, speed="")
        batches = search(first, seeds, jobs)
        for batch in batches:
            found.add(batch)
            rate = found.seeds / (time.monotonic() - begun)
            progress.update(
                task, completed=found.seeds, speed=f"{rate:.0f} seeds/s, {len(found.failures)} failed"
            )
            if found.failures and not keep_going:
                break
        batches.close()
    rate = found.seeds / (time.monotonic() - begun)
    _console.print(
        f"{found.seeds} seeds from {first}, {rate:.0f} a second, {len(found.failures)} failed; "
        f"the slowest caught up within {found.slowest / 1e9:.1f} s"
    )
    return found


def _summarise(found: Found) -> None:
    table = Table(box=None, pad_edge=False)
    table.add_column("what happened")
    table.add_column("times", justify="right")
    table.add_column("in stories", justify="right")
    for what, times in sorted(found.coverage.items()):
        table.add_row(what, str(times), f"{found.stories[what] / found.seeds:.1%}")
    _console.print(table)


def _show(story: Story, *, shrinking: bool, save: Path | None) -> bool:
    """Play one story and draw it if it fails; return whether it does."""
    outcome = play(story)
    if outcome.violation is None:
        coverage = ", ".join(f"{what} {times}" for what, times in sorted(outcome.coverage.items()))
        _console.print(f"seed {story.seed}: everything holds ({coverage})", markup=False)
        return False
    if shrinking:
        story = shrink(story)
    _console.print(draw(story, play(story, record=True)), markup=False)
    if save is not None:
        save.write_text(json.dumps(story.to_json(), indent=1) + "\n", encoding="utf-8")
        _console.print(f"replay: feednet simulate --story {save}", markup=False)
    return True


def _load(path: Path) -> Story:
    try:
        return Story.from_json(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path}: not a story that `feednet simulate --save` has written: {error}") from error
