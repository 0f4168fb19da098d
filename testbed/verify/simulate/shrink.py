"""Cuts a failing story down: less of everything, as long as the same invariant fails.

Delta debugging (Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input", 2002) over the
story's parts. First the frames' luck is pinned: what befell them is written out, so that it can be taken away
piece by piece. A part that goes takes along what refers to it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any, TypeVar

from testbed.verify.simulate.story import Link, Node, Prefix, Step, Story, Subscriber
from testbed.verify.simulate.world import play

T = TypeVar("T")

Fails = Callable[[Story], bool]


def shrink(story: Story, *, plays: int = 600) -> Story:
    """Return a smaller story that violates the same invariant as `story` does, after at most `plays` plays.

    Raises ValueError if the story violates none.
    """
    first = play(story)
    if first.violation is None:
        raise ValueError("the story does not fail")
    invariant = first.violation.invariant
    budget = plays

    def fails(candidate: Story) -> bool:
        nonlocal budget
        if budget <= 0:
            return False
        budget -= 1
        violation = play(candidate).violation
        return violation is not None and violation.invariant == invariant

    if fails(pinned := replace(story, fates=tuple(first.fates))):
        story = pinned
    while budget > 0:
        before = story
        for part in _PASSES:
            story = part(story, fails)
        if story == before:
            break
    return story


def _steps(story: Story, fails: Fails) -> Story:
    return replace(story, steps=_fewer(story.steps, lambda steps: fails(replace(story, steps=steps))))


def _fates(story: Story, fails: Fails) -> Story:
    if story.fates is None:
        calm_links = tuple(replace(link, lost=0.0, twice=0.0, late=0.0) for link in story.links)
        return _first((replace(story, links=calm_links),), fails) or story
    return replace(story, fates=_fewer(story.fates, lambda fates: fails(replace(story, fates=fates))))


def _subscribers(story: Story, fails: Fails) -> Story:
    def with_only(kept: tuple[Subscriber, ...]) -> Story:
        gone = {s.name for s in story.subscribers} - {s.name for s in kept}
        return replace(
            story, subscribers=kept, steps=tuple(step for step in story.steps if step.what[0] not in gone)
        )

    return with_only(_fewer(story.subscribers, lambda kept: fails(with_only(kept))))


def _feeds(story: Story, fails: Fails) -> Story:
    """Drop feeds that nobody wants; what comes after them is counted anew."""
    for index in reversed(range(len(story.feeds))):
        if any(wanted.feed == index for wanted in story.subscribers):
            continue
        steps = [step for step in story.steps if step.do != "publish" or step.what[0] != index]
        smaller = replace(
            story,
            feeds=story.feeds[:index] + story.feeds[index + 1 :],
            subscribers=tuple(
                replace(wanted, feed=wanted.feed - (wanted.feed > index)) for wanted in story.subscribers
            ),
            steps=tuple(_renumbered(step, index) for step in steps),
        )
        if (smaller.feeds or smaller.is_classic) and fails(smaller):
            story = smaller
    return story


def _renumbered(step: Step, gone: int) -> Step:
    number = step.what[0]
    if step.do != "publish" or not isinstance(number, int):
        return step
    return replace(step, what=(number - (number > gone), *step.what[1:]))


def _classic(story: Story, fails: Fails) -> Story:
    """Drop followers, then prefixes and logs that nobody needs, with what is asked of them, and items."""
    story = replace(story, follows=_fewer(story.follows, lambda kept: fails(replace(story, follows=kept))))
    story = replace(story, prefixes=_fewer(story.prefixes, lambda kept: fails(replace(story, prefixes=kept))))
    followed = {wanted.log for wanted in story.follows}
    needed = replace(story, logs=tuple(log for log in story.logs if log.name in followed))
    story = _first((needed,) if needed != story else (), fails) or story
    for index in range(len(story.logs)):
        story = _fewer_items(story, index, fails)
    return story


def _fewer_items(story: Story, index: int, fails: Fails) -> Story:
    """Publish fewer items of a log, one at least."""
    log = story.logs[index]

    def with_times(times: tuple[int, ...]) -> Story:
        return replace(story, logs=_put(story.logs, index, replace(log, times=times)))

    return with_times(_fewer(log.times, lambda times: bool(times) and fails(with_times(times))))


def _links(story: Story, fails: Fails) -> Story:
    return replace(story, links=_fewer(story.links, lambda links: fails(replace(story, links=links))))


def _nodes(story: Story, fails: Fails) -> Story:
    """Drop nodes that nobody is on; or, if one is in between, join its neighbours by a link."""
    for node in story.nodes:
        homes = {name for feed in story.feeds for name in feed.devices}
        homes |= {name for prefix in story.prefixes for name in prefix.producers}
        homes |= {wanted.node for wanted in story.subscribers} | {follow.node for follow in story.follows}
        homes |= {log.node for log in story.logs}
        if node.name in homes:
            continue
        story = _first(_without(story, node), fails) or story
    return story


def _without(story: Story, node: Node) -> Iterator[Story]:
    nodes = tuple(other for other in story.nodes if other != node)
    links = tuple(link for link in story.links if node.name not in (link.a, link.b))
    # An Interest's selectors are letters, too.
    steps = tuple(s for s in story.steps if node.name not in (s.what[:1] if s.do == "ask" else s.what))
    smaller = replace(story, nodes=nodes, links=links, steps=steps)
    yield smaller
    around = [link for link in story.links if node.name in (link.a, link.b)]
    if len(around) != 2:
        return
    left, right = (link.b if link.a == node.name else link.a for link in around)
    if left != right and not any({link.a, link.b} == {left, right} for link in links):
        bridge = replace(around[0], a=left, b=right, delay=sum(link.delay for link in around))
        yield replace(smaller, links=(*links, bridge))


def _plainer(story: Story, fails: Fails) -> Story:
    """Put what is special back to what is usual, one thing at a time."""
    usual = asdict(Node(""))
    for index, node in enumerate(story.nodes):
        traits = ("push", "cache_items", "packets", "strategy", "pending")
        changes = [usual | {"name": node.name}, *({trait: usual[trait]} for trait in traits)]
        story = _changed(story, "nodes", index, changes, fails)
    for index, link in enumerate(story.links):
        changes = [asdict(Link(link.a, link.b)), {"rate_kbit": None, "mtu": Link.mtu}, {"reliable": False}]
        story = _changed(story, "links", index, changes, fails)
    for index, wanted in enumerate(story.subscribers):
        changes = [{"pause": 0, "batch": 1}, {"lifetime_ms": 10_000}, {"credit": 8}, {"credit": 2}]
        story = _changed(story, "subscribers", index, changes if wanted.credit != 2 else [], fails)
    for index, prefix in enumerate(story.prefixes):
        changes = [asdict(Prefix(prefix.name, prefix.producers))]
        changes += [{"producers": (node,)} for node in prefix.producers]
        changes += [{"delay": 0}, {"size": Prefix.size}]
        story = _changed(story, "prefixes", index, changes, fails)
    for index, feed in enumerate(story.feeds):
        changes = [{"format": "native", "pool": index}]
        changes += [{"devices": feed.devices[:1], "fork": None}] if feed.devices else []
        story = _changed(story, "feeds", index, changes, fails)
    return story


def _changed(story: Story, parts: str, index: int, changes: Iterable[dict[str, Any]], fails: Fails) -> Story:
    """Change fields of one part, one change after the other; keep each with which the story still fails."""
    for change in changes:
        before = getattr(story, parts)
        changed: dict[str, Any] = {parts: _put(before, index, replace(before[index], **change))}
        if changed[parts] != before and fails(candidate := replace(story, **changed)):
            story = candidate
    return story


def _numbers(story: Story, fails: Fails) -> Story:
    """Publish less at a time, and let things happen at round times."""
    for index in range(len(story.steps)):
        step = story.steps[index]
        if step.do == "publish" and isinstance(step.what[2], int) and step.what[2] > 1:
            fewer = (1, step.what[2] // 2, step.what[2] - 1)
            stories = (
                replace(story, steps=_put(story.steps, index, replace(step, what=(*step.what[:2], items))))
                for items in fewer
                if items < step.what[2]
            )
            story = _first(stories, fails) or story
    for unit in (1_000_000, 100_000, 10_000, 1_000):
        steps = tuple(replace(step, at=step.at // unit * unit) for step in story.steps)
        rounded = replace(story, steps=steps, calm=-(-story.calm // unit) * unit)
        if rounded == story or fails(rounded):
            return rounded
    return story


_PASSES: tuple[Callable[[Story, Fails], Story], ...] = (
    _steps,
    _subscribers,
    _feeds,
    _classic,
    _fates,
    _nodes,
    _links,
    _plainer,
    _numbers,
)


def _first(stories: Sequence[Story] | Iterator[Story], fails: Fails) -> Story | None:
    return next((story for story in stories if fails(story)), None)


def _put(parts: tuple[T, ...], index: int, part: T) -> tuple[T, ...]:
    return (*parts[:index], part, *parts[index + 1 :])


def _fewer(parts: tuple[T, ...], fails: Callable[[tuple[T, ...]], bool]) -> tuple[T, ...]:
    """Return a part of `parts` that still fails, in order: leave out halves, then quarters, then each."""
    size = max(len(parts) // 2, 1)
    while parts:
        at = 0
        while at < len(parts):
            left = parts[:at] + parts[at + size :]
            if fails(left):
                parts = left
            else:
                at += size
        if size == 1:
            break
        size //= 2
    return parts
