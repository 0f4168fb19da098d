"""`feednet simulate`: plays stories until an invariant fails, and shows the shortest that it fails in.

Stories come from seeds, from a search for what none has done before, or from every schedule of a few faults.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import click
from rich.table import Table

from analysis.report.words.numbers import several
from base.files import write_whole
from testbed.cli.console import console as _console
from testbed.cli.options import MOST, jobs_option
from testbed.cli.progress import counted
from testbed.cli.usage import exclude
from testbed.errors import UserError
from testbed.verify.mapping.world import CATCH_UP_NS as MAPPING_CATCH_UP_NS
from testbed.verify.mapping.world import play_mapping
from testbed.verify.providers.world import CATCH_UP_NS as PROVIDERS_CATCH_UP_NS
from testbed.verify.providers.world import play_providers
from testbed.verify.simulate.chart import draw
from testbed.verify.simulate.classic import CLASSIC_CATCH_UP_NS
from testbed.verify.simulate.classic_story import make_classic
from testbed.verify.simulate.climb import Climbed, climb_all
from testbed.verify.simulate.exhaust import cover_all
from testbed.verify.simulate.explore import ExplorationResult, explore_all
from testbed.verify.simulate.make import make_story
from testbed.verify.simulate.promise import PLAIN_NS
from testbed.verify.simulate.search import SearchResult, play_classic, play_one, search
from testbed.verify.simulate.shrink import shrink
from testbed.verify.simulate.story import Story
from testbed.verify.simulate.world import MOST_SENT, Outcome, play
from testbed.verify.social.world import CATCH_UP_NS as SOCIAL_CATCH_UP_NS
from testbed.verify.social.world import play_social
from testbed.verify.swarms.rungs import RUNGS_CATCH_UP_NS, play_rungs
from testbed.verify.swarms.world import CATCH_UP_NS as SWARM_CATCH_UP_NS
from testbed.verify.swarms.world import play_swarm
from testbed.verify.tiny.world import CATCH_UP_NS as TINY_CATCH_UP_NS
from testbed.verify.tiny.world import play_tiny

_SAY_EVERY = 10
"""Seconds between two lines of progress where there is no terminal."""


class _Family(NamedTuple):
    """What seeds make.

    Attributes:
        play: plays one.
        allowed: how long it may take to catch up, ns.
        option: that names the family.
        make: makes a story that can be drawn, shrunk and saved; None if there is no such.
    """

    play: Callable[[int], Outcome]
    allowed: int
    option: str
    make: Callable[[int], Story] | None


_PUSH = _Family(play_one, PLAIN_NS, "", make_story)
_CLASSIC = _Family(play_classic, CLASSIC_CATCH_UP_NS, "--classic ", make_classic)
_PEERS = _Family(play_swarm, SWARM_CATCH_UP_NS, "--peers ", None)
_PROVIDERS = _Family(play_providers, PROVIDERS_CATCH_UP_NS, "--providers ", None)
_LINK = _Family(play_mapping, MAPPING_CATCH_UP_NS, "--link ", None)
_RUNGS = _Family(play_rungs, RUNGS_CATCH_UP_NS, "--rungs ", None)
_SOCIAL = _Family(play_social, SOCIAL_CATCH_UP_NS, "--social ", None)
_TINY = _Family(play_tiny, TINY_CATCH_UP_NS, "--tiny ", None)


@click.command()
@click.option("--seeds", type=click.IntRange(1, MOST), default=10_000, show_default=True, help="How many.")
@click.option(
    "--first", type=click.IntRange(0, MOST), default=0, show_default=True, help="The first of them."
)
@jobs_option
@click.option("--seed", type=click.IntRange(0, MOST), help="Play this one seed.")
@click.option("--classic", is_flag=True, help="Seeds make stories of classic NDN.")
@click.option("--peers", is_flag=True, help="Seeds make swarms of Scuttlebutt peers.")
@click.option("--providers", is_flag=True, help="Seeds make networks of NDN over SSB.")
@click.option("--link", is_flag=True, help="Seeds make name services, storage providers and moving devices.")
@click.option("--rungs", is_flag=True, help="Seeds make swarms that climb the replication ladder.")
@click.option("--social", is_flag=True, help="Seeds make networks of SSB-aware forwarders.")
@click.option("--tiny", is_flag=True, help="Seeds make tinySSB cells with providers and their clients.")
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
@click.option("--exhaustive", is_flag=True, help="Play short exchanges under every schedule of faults.")
@click.option(
    "--frames",
    type=click.IntRange(1, MOST_SENT),
    default=12,
    show_default=True,
    help="Frames that --exhaustive lets faults befall: the first ones.",
)
@click.option(
    "--faults",
    type=click.IntRange(0, MOST_SENT),
    default=2,
    show_default=True,
    help="Faults at a time, of --exhaustive.",
)
def simulate(
    seeds: int,
    first: int,
    jobs: int | None,
    seed: int | None,
    classic: bool,
    peers: bool,
    providers: bool,
    link: bool,
    rungs: bool,
    social: bool,
    tiny: bool,
    story: Path | None,
    save: Path | None,
    shrinking: bool,
    keep_going: bool,
    explore: int | None,
    climb: int | None,
    exhaustive: bool,
    frames: int,
    faults: int,
) -> None:
    """Play whole networks in virtual time, one a seed, and check what must hold after every event.

    Exit status 1 if an invariant is violated.
    """
    families = ("tiny", "social", "rungs", "link", "providers", "peers", "classic")
    exclude("exhaustive", "explore", "climb", "story", "seed", "seeds", "first", "keep_going", *families)
    exclude("explore", "climb", "story", "seed", "seeds", "keep_going", *families)
    exclude("climb", "story", "seed", "seeds", "keep_going", *families)
    exclude("story", "seed", "seeds", "first", "jobs", "keep_going", *families)
    for at, name in enumerate(families[:-1], start=1):  # stories of the last one can be saved
        exclude(name, *families[at:], "save")
    exclude("seed", "seeds", "first", "jobs", "keep_going")
    chosen = {_TINY: tiny, _SOCIAL: social, _RUNGS: rungs, _LINK: link}
    chosen |= {_PROVIDERS: providers, _PEERS: peers, _CLASSIC: classic}
    family = next((family for family, is_chosen in chosen.items() if is_chosen), _PUSH)
    workers = jobs or os.cpu_count() or 1
    if exhaustive:
        failed = _cover(frames, faults, workers, save=save)
    elif explore is not None:
        failed = _explore(first, explore, workers, shrinking=shrinking, save=save)
    elif climb is not None:
        failed = _climb(first, climb, workers, shrinking=shrinking, save=save)
    elif story is not None:
        failed = _show(_load(story), shrinking=shrinking, save=save)
    elif seed is not None:
        failed = _replay(family, seed, shrinking=shrinking, save=save)
    else:
        result = _search(first, seeds, workers, family, keep_going=keep_going)
        failed = bool(result.failures)
        _summarise(result)
        for failure in result.failures if keep_going else result.failures[:1]:
            _console.print(f"seed {failure.seed}: {failure.text}")
            _console.print(f"  replay: feednet simulate {family.option}--seed {failure.seed}")
        if failed:
            _replay(family, result.failures[0].seed, shrinking=shrinking, save=save)
    if failed:
        sys.exit(1)


def _replay(family: _Family, seed: int, *, shrinking: bool, save: Path | None) -> bool:
    """Play one seed and show what becomes of it; return whether it fails."""
    if family.make is not None:
        return _show(family.make(seed), shrinking=shrinking, save=save)
    outcome = family.play(seed)
    _console.print(f"seed {seed}: {outcome.violation or _everything(outcome)}")
    return outcome.violation is not None


def _search(first: int, seeds: int, jobs: int, family: _Family, *, keep_going: bool) -> SearchResult:
    result = SearchResult()
    begun = time.monotonic()
    with (
        counted(_console, "simulating", seeds) as show,
        closing(search(first, seeds, jobs, family.play)) as batches,
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
                    _console.print(f"{result.seeds} of {several(seeds, 'seed')}, {so_far}")
                if result.failures and not keep_going:
                    break
        except KeyboardInterrupt:
            _conclude(result, first, begun, family.allowed)
            _console.print(f"stopped   the rest begins at --first {first + result.seeds}, or a little before")
            raise
    _conclude(result, first, begun, family.allowed)
    return result


def _conclude(result: SearchResult, first: int, begun: float, allowed: int) -> None:
    rate = result.seeds / (time.monotonic() - begun)
    slowest = f" (seed {result.slowest_seed})" if result.slowest_seed is not None else ""
    _console.print(
        f"{several(result.seeds, 'seed')} from {first}, {rate:.0f} a second, {len(result.failures)} failed; "
        f"the slowest caught up within {result.slowest / 1e9:.1f} s{slowest}, "
        f"{allowed / 1e9:.0f} s are allowed"
    )


def _explore(seed: int, stories: int, jobs: int, *, shrinking: bool, save: Path | None) -> bool:
    """Search for what no story has done before; return whether an invariant failed."""
    result = ExplorationResult()
    begun = time.monotonic()
    with counted(_console, "exploring", stories) as show, closing(explore_all(seed, stories, jobs)) as parts:
        for part in parts:
            result.stories += part.stories
            result.features |= part.features
            result.failures += part.failures
            result.slowest = max(result.slowest, part.slowest)
            show(result.stories, stories, f"{len(result.features)} different steps")
            if result.failures:
                break
    rate = result.stories / (time.monotonic() - begun)
    _console.print(
        f"{result.stories} stories, {rate:.0f} a second, {len(result.features)} different steps of holders, "
        f"the slowest caught up within {result.slowest / 1e9:.1f} s, {len(result.failures)} failed"
    )
    return bool(result.failures) and _show(result.failures[0][0], shrinking=shrinking, save=save)


def _climb(seed: int, stories: int, jobs: int, *, shrinking: bool, save: Path | None) -> bool:
    """Search for slow recovery, and show the slowest; return whether an invariant failed."""
    result = Climbed()
    begun = time.monotonic()
    with counted(_console, "climbing", stories) as show, closing(climb_all(seed, stories, jobs)) as parts:
        for part in parts:
            result.stories += part.stories
            result.failures += part.failures
            for slow, story in part.slowest:
                result.keep(slow, story)
            slowest = result.slowest[0][0] if result.slowest else 0
            show(result.stories, stories, f"the slowest caught up within {slowest / 1e9:.2f} s")
            if result.failures:
                break
    rate = result.stories / (time.monotonic() - begun)
    slowest = result.slowest[0][0] if result.slowest else 0
    _console.print(
        f"{result.stories} stories, {rate:.0f} a second, {len(result.failures)} failed; "
        f"the slowest caught up within {slowest / 1e9:.2f} s, {PLAIN_NS / 1e9:.0f} s are allowed, "
        "beside the pace of links and readers"
    )
    if result.failures:
        return _show(result.failures[0][0], shrinking=shrinking, save=save)
    if result.slowest:
        worst = result.slowest[0][1]
        _console.print(draw(worst, play(worst, record=True)), markup=False)
        _save(worst, save)
    return False


def _cover(frames: int, faults: int, jobs: int, *, save: Path | None) -> bool:
    """Play short exchanges under every schedule; return whether an invariant failed."""
    _console.print(f"every schedule of at most {faults} faults among the first {frames} frames")
    failed = False
    with closing(cover_all(frames, faults, jobs)) as exchanges:
        for covered in exchanges:
            what = f"{covered.slowest / 1e9:5.1f} s" if covered.violation is None else "FAILS"
            _console.print(f"{covered.name:54} {covered.schedules:8} schedules  {what}")
            if covered.story is not None and not failed:
                failed = _show(covered.story, shrinking=False, save=save)
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


def _show(story: Story, *, shrinking: bool, save: Path | None) -> bool:
    """Play one story and draw it if it fails; return whether it does."""
    outcome = play(story)
    if outcome.violation is None:
        _console.print(f"seed {story.seed}: {_everything(outcome)}")
        return False
    if shrinking:
        story = shrink(story)
    _console.print(draw(story, play(story, record=True)))
    _save(story, save)
    return True


def _save(story: Story, path: Path | None) -> None:
    if path is not None:
        write_whole(path, json.dumps(story.to_json(), indent=1) + "\n")
        _console.print(f"replay: feednet simulate --story {path}", markup=False)


def _load(path: Path) -> Story:
    try:
        return Story.from_json(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path}: not a story that `feednet simulate --save` has written: {error}") from error
