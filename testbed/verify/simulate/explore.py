"""Searches for stories that do what no story has done before, as a coverage-guided fuzzer does.

Theory of operation. A feature is a step of a node's holders: what they were, what came in, what they are
then, and which kinds of frames are under way meanwhile. A story that shows a new one is kept. So are the
stories in which subscribers take longest to catch up when all is well again. Kept ones are changed a little
to make others: times, luck, links, subscribers, who cuts or restarts what. A part of the stories is always
new, so that the search does not dwell on what it began with.
"""

from collections.abc import Generator
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random

from testbed.experiment.workers import work_off
from testbed.verify.simulate.make import make_story
from testbed.verify.simulate.story import MS, SECOND, Link, Node, Step, Story, Subscriber
from testbed.verify.simulate.world import Feature, play

_NEW = 0.3
"""The share of stories that are made from a seed."""
_SLOW = 0.35
"""The share of those that are made from the slowest."""
_PART = 1_000
"""Stories of one search; each begins anew."""
_KEPT = 400
"""Stories that are kept for their features at most; the oldest goes."""
_SLOWEST = 12
"""Stories that are kept because they are slow; the fastest goes."""


@dataclass
class ExplorationResult:
    """What a search has met: stories, features, how many of these were shown by new stories, failures.

    `slowest` is the longest that a story took to catch up, ns.
    """

    stories: int = 0
    slowest: int = 0
    features: set[Feature] = field(default_factory=set)
    by_seeds: int = 0
    failures: list[tuple[Story, str]] = field(default_factory=list)


def explore(seed: int, stories: int) -> ExplorationResult:
    """Play so many stories; the same seed gives the same search."""
    rng = Random(seed)
    result = ExplorationResult()
    kept: list[Story] = []
    slow: list[tuple[int, int, Story]] = []
    for number in range(stories):
        draw = rng.random()
        is_new = not kept or draw < _NEW
        if is_new:
            story = make_story(rng.getrandbits(48))
        elif slow and draw < _NEW + _SLOW:
            story = changed(rng.choice(slow)[-1], rng)
        else:
            story = changed(rng.choice(kept), rng)
        outcome = play(story, watch=True)
        result.stories += 1
        if outcome.violation is not None:
            result.failures.append((story, str(outcome.violation)))
        elif outcome.caught_up is not None and all(outcome.caught_up != time for time, *_ in slow):
            slow = sorted([*slow, (outcome.caught_up, number, story)])[-_SLOWEST:]
            result.slowest = slow[-1][0]
        news = outcome.features - result.features
        if news:
            result.features |= news
            result.by_seeds += len(news) * is_new
            kept.append(story)
            del kept[:-_KEPT]
    return result


def explore_all(seed: int, stories: int, jobs: int) -> Generator[ExplorationResult, None, None]:
    """Search in `jobs` processes, each by itself; yield what each has met, in rounds of some stories."""
    part = min(stories, _PART)
    rounds = [seed * 1_000_003 + number for number in range(-(-stories // part))]
    work = partial(explore, stories=part)
    yield from work_off(work, rounds, jobs)


def changed(story: Story, rng: Random) -> Story:
    """Return a story that differs a little."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        story = rng.choice(_CHANGES)(story, rng)
    return replace(story, steps=tuple(sorted(story.steps, key=lambda step: step.at)))


def _luck(story: Story, rng: Random) -> Story:
    return replace(story, seed=rng.getrandbits(48))


def _times(story: Story, rng: Random) -> Story:
    """Move a step: a little, to where another one is, or anywhere."""
    if not story.steps:
        return story
    index = rng.randrange(len(story.steps))
    step = story.steps[index]
    near = step.at + rng.choice((-1, 1)) * rng.choice((1 * MS, 5 * MS, 50 * MS, 500 * MS))
    at = rng.choice((near, rng.choice(story.steps).at + rng.randrange(10 * MS), rng.randrange(story.calm)))
    return _with_step(story, replace(step, at=_bounded(story, step, at)), index)


def _fewer(story: Story, rng: Random) -> Story:
    if len(story.steps) < 3:
        return story
    index = rng.randrange(len(story.steps))
    return replace(story, steps=story.steps[:index] + story.steps[index + 1 :])


def _more(story: Story, rng: Random) -> Story:
    """Let something else happen: a step of this story again, a cut, a restart, a change of mind."""
    link = rng.choice(story.links)
    name = rng.choice(story.subscribers).name
    at = rng.randrange(story.calm)
    what: tuple[tuple[str, tuple[str | int, ...]], ...] = (
        ("cut", (link.a, link.b, rng.randrange(2))),
        ("heal", (link.a, link.b)),
        ("restart", (rng.choice(story.nodes).name, rng.randrange(2))),
        ("cancel", (name,)),
        ("subscribe", (name,)),
    )
    return replace(story, steps=(*story.steps, Step(at, *rng.choice(what))))


def _link(story: Story, rng: Random) -> Story:
    index = rng.randrange(len(story.links))
    link: Link = story.links[index]
    some = (
        {"lost": rng.choice((0.0, 0.1, 0.3))},
        {"twice": rng.choice((0.0, 0.2))},
        {"late": rng.choice((0.0, 0.5)), "lateness": rng.choice((5, 50, 500)) * MS},
        {"delay": rng.choice((1, 5, 40, 200)) * MS},
        {"rate_kbit": rng.choice((None, 200, 1000))},
    )
    link = replace(link, **rng.choice(some))
    return replace(story, links=(*story.links[:index], link, *story.links[index + 1 :]))


def _node(story: Story, rng: Random) -> Story:
    index = rng.randrange(len(story.nodes))
    node: Node = story.nodes[index]
    is_end = any(node.name in feed.devices for feed in story.feeds) or any(
        wanted.node == node.name for wanted in story.subscribers
    )
    some = (
        {"cache_items": rng.choice((1, 2, 256))},
        {"cache_feeds": rng.choice((1, 2, 1024))},
        {"push": is_end or not node.push},
    )
    node = replace(node, **rng.choice(some))
    return replace(story, nodes=(*story.nodes[:index], node, *story.nodes[index + 1 :]))


def _subscriber(story: Story, rng: Random) -> Story:
    index = rng.randrange(len(story.subscribers))
    wanted: Subscriber = story.subscribers[index]
    some = (
        {"credit": rng.choice((1, 2, 3, 8, 64))},
        {"lifetime_ms": rng.choice((1_000, 5_000, 30_000))},
        {"pause": rng.choice((0, 20 * MS, 200 * MS)), "batch": rng.choice((1, 3))},
    )
    wanted = replace(wanted, **rng.choice(some))  # type: ignore[arg-type]
    rest = story.subscribers
    return replace(story, subscribers=(*rest[:index], wanted, *rest[index + 1 :]))


def _with_step(story: Story, step: Step, index: int) -> Story:
    return replace(story, steps=(*story.steps[:index], step, *story.steps[index + 1 :]))


def _bounded(story: Story, step: Step, at: int) -> int:
    """Return a time at which a step may be: only items are published after the calm begins."""
    last = story.calm + 20 * SECOND if step.do == "publish" else story.calm - 1
    return max(0, min(at, last))


_CHANGES = (_luck, _times, _times, _fewer, _more, _link, _node, _subscriber)
