"""How a failing story of forwarders is cut down: see testbed.verify.kit.shrink."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from typing import Any

from testbed.verify.kit.outcome import Outcome
from testbed.verify.kit.shrink import fewer, fewer_of, first, put, round_times, steps
from testbed.verify.kit.story import Step
from testbed.verify.push.stories.story import Link, Node, Prefix, Story, Subscriber

Fails = Callable[[Story], bool]


def _fates(story: Story, fails: Fails) -> Story:
    if story.fates is None:
        calm_links = tuple(replace(link, lost=0.0, twice=0.0, late=0.0) for link in story.links)
        return first((replace(story, links=calm_links),), fails) or story
    return replace(story, fates=fewer(story.fates, lambda fates: fails(replace(story, fates=fates))))


def _subscribers(story: Story, fails: Fails) -> Story:
    def with_only(kept: tuple[Subscriber, ...]) -> Story:
        gone = {s.name for s in story.subscribers} - {s.name for s in kept}
        return replace(
            story, subscribers=kept, steps=tuple(step for step in story.steps if step.what[0] not in gone)
        )

    return with_only(fewer(story.subscribers, lambda kept: fails(with_only(kept))))


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
    return step._replace(what=(number - (number > gone), *step.what[1:]))


def _classic(story: Story, fails: Fails) -> Story:
    """Drop followers, then prefixes and logs that nobody needs, with what is asked of them, and items."""
    story = replace(story, follows=fewer(story.follows, lambda kept: fails(replace(story, follows=kept))))
    story = replace(story, prefixes=fewer(story.prefixes, lambda kept: fails(replace(story, prefixes=kept))))
    followed = {wanted.log for wanted in story.follows}
    needed = replace(story, logs=tuple(log for log in story.logs if log.name in followed))
    story = first((needed,) if needed != story else (), fails) or story
    for index in range(len(story.logs)):
        story = _fewer_items(story, index, fails)
    return story


def _fewer_items(story: Story, index: int, fails: Fails) -> Story:
    """Publish fewer items of a log, one at least."""
    log = story.logs[index]

    def with_times(times: tuple[int, ...]) -> Story:
        return replace(story, logs=put(story.logs, index, replace(log, times=times)))

    return with_times(fewer(log.times, lambda times: bool(times) and fails(with_times(times))))


def _nodes(story: Story, fails: Fails) -> Story:
    """Drop nodes that nobody is on; or, if one is in between, join its neighbours by a link."""
    for node in story.nodes:
        homes = {name for feed in story.feeds for name in feed.devices}
        homes |= {name for prefix in story.prefixes for name in prefix.producers}
        homes |= {wanted.node for wanted in story.subscribers} | {follow.node for follow in story.follows}
        homes |= {log.node for log in story.logs}
        if node.name in homes:
            continue
        story = first(_without(story, node), fails) or story
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
        changed: dict[str, Any] = {parts: put(before, index, replace(before[index], **change))}
        if changed[parts] != before and fails(candidate := replace(story, **changed)):
            story = candidate
    return story


def _numbers(story: Story, fails: Fails) -> Story:
    """Publish less at a time, and let things happen at round times."""
    for index, step in enumerate(story.steps):
        if step.do == "publish" and isinstance(step.what[2], int) and step.what[2] > 1:
            fewer_items = (1, step.what[2] // 2, step.what[2] - 1)
            stories = (
                replace(story, steps=put(story.steps, index, step._replace(what=(*step.what[:2], items))))
                for items in fewer_items
                if items < step.what[2]
            )
            story = first(stories, fails) or story
    return round_times(story, fails)


PASSES = (
    steps,
    _subscribers,
    _feeds,
    _classic,
    _fates,
    _nodes,
    fewer_of("links"),
    _plainer,
    _numbers,
)
"""By which a failing story of forwarders is cut down."""


def pinned(story: Story, outcome: Outcome) -> Story:
    """Return a story with the fates of its frames written out."""
    return replace(story, fates=tuple(outcome.fates))
