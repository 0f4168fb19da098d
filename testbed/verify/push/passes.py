"""Shrinking passes for stories of forwarders: see testbed.verify.kit.shrink."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from testbed.verify.kit.outcome import Outcome
from testbed.verify.kit.shrink import (
    drop_elements_of,
    first_failing,
    minimal_part,
    replaced,
    reset_records,
    round_times,
    steps,
)
from testbed.verify.kit.story import Step
from testbed.verify.push.stories.story import Node, Story, Subscriber

Fails = Callable[[Story], bool]


def _subscribers(story: Story, fails: Fails) -> Story:
    def with_only(kept: tuple[Subscriber, ...]) -> Story:
        gone = {s.name for s in story.subscribers} - {s.name for s in kept}
        return replace(
            story, subscribers=kept, steps=tuple(step for step in story.steps if step.what[0] not in gone)
        )

    return with_only(minimal_part(story.subscribers, lambda kept: fails(with_only(kept))))


def _feeds(story: Story, fails: Fails) -> Story:
    """Remove unsubscribed feeds, and renumber the rest."""
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


def _plainer_feeds(story: Story, fails: Fails) -> Story:
    """Make feeds native, with one publisher."""
    for index, feed in enumerate(story.feeds):
        for change in ({"format": "native", "pool": index}, {"devices": feed.devices[:1], "fork": None}):
            plainer = replace(story.feeds[index], **change)
            candidate = replace(story, feeds=replaced(story.feeds, index, plainer))
            story = first_failing((candidate,) if candidate != story else (), fails) or story
    return story


def _renumbered(step: Step, gone: int) -> Step:
    number = step.what[0]
    if step.do != "publish" or not isinstance(number, int):
        return step
    return step._replace(what=(number - (number > gone), *step.what[1:]))


def _logs(story: Story, fails: Fails) -> Story:
    """Remove unfollowed logs, and all items but one of the others."""
    followed = {wanted.log for wanted in story.follows}
    needed = replace(story, logs=tuple(log for log in story.logs if log.name in followed))
    story = first_failing((needed,) if needed != story else (), fails) or story
    for index in range(len(story.logs)):
        story = _fewer_items(story, index, fails)
    return story


def _fewer_items(story: Story, index: int, fails: Fails) -> Story:
    log = story.logs[index]

    def with_times(times: tuple[int, ...]) -> Story:
        return replace(story, logs=replaced(story.logs, index, replace(log, times=times)))

    return with_times(minimal_part(log.times, lambda times: bool(times) and fails(with_times(times))))


def _nodes(story: Story, fails: Fails) -> Story:
    """Remove unused nodes, and join the neighbours of inner ones by a link."""
    for node in story.nodes:
        homes = {name for feed in story.feeds for name in feed.devices}
        homes |= {name for prefix in story.prefixes for name in prefix.producers}
        homes |= {wanted.node for wanted in story.subscribers} | {follow.node for follow in story.follows}
        homes |= {log.node for log in story.logs}
        if node.name in homes:
            continue
        story = first_failing(_without(story, node), fails) or story
    return story


def _without(story: Story, node: Node) -> Iterator[Story]:
    nodes = tuple(other for other in story.nodes if other != node)
    links = tuple(link for link in story.links if node.name not in (link.a, link.b))
    # An Interest's selectors are letters, too.
    steps = tuple(s for s in story.steps if node.name not in (s.what[:1] if s.do == "ask" else s.what))
    dead = tuple(pair for pair in story.dead if node.name not in pair)
    smaller = replace(story, nodes=nodes, links=links, steps=steps, dead=dead)
    yield smaller
    around = [link for link in story.links if node.name in (link.a, link.b)]
    if len(around) != 2:
        return
    left, right = (link.b if link.a == node.name else link.a for link in around)
    if left != right and not any({link.a, link.b} == {left, right} for link in links):
        bridge = replace(around[0], a=left, b=right, delay=sum(link.delay for link in around))
        yield replace(smaller, links=(*links, bridge))


def _numbers(story: Story, fails: Fails) -> Story:
    """Publish less at a time, at round times."""
    for index, step in enumerate(story.steps):
        if step.do == "publish" and isinstance(step.what[2], int) and step.what[2] > 1:
            fewer_items = (1, step.what[2] // 2, step.what[2] - 1)
            stories = (
                replace(
                    story, steps=replaced(story.steps, index, step._replace(what=(*step.what[:2], items)))
                )
                for items in fewer_items
                if items < step.what[2]
            )
            story = first_failing(stories, fails) or story
    return round_times(story, fails)


PASSES = (
    steps,
    _subscribers,
    _feeds,
    drop_elements_of("follows"),
    drop_elements_of("prefixes"),
    _logs,
    drop_elements_of("fates"),
    _nodes,
    drop_elements_of("links"),
    _plainer_feeds,
    reset_records,
    _numbers,
)
"""For failing stories of forwarders."""


def pinned(story: Story, outcome: Outcome) -> Story:
    """Return a story with the fates of its frames made explicit."""
    return replace(story, fates=tuple(outcome.fates))
