"""Small changes of a story of forwarders: see testbed.verify.kit.explore."""

from dataclasses import replace
from random import Random

from testbed.verify.kit.changes import change_luck, move_step, remove_step, repeat_step
from testbed.verify.kit.story import Step
from testbed.verify.push.stories.story import MS, Link, Node, Story, Subscriber


def _more(story: Story, rng: Random) -> Story:
    """Add an event: a cut, a restart, a cancellation."""
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
        {"turn": rng.choice((0, 1, 20, 100)) * MS},
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


CHANGES = (change_luck, move_step, move_step, remove_step, _more, _link, _node, _subscriber)
"""Of stories of controlled push."""
CLASSIC_CHANGES = (change_luck, move_step, move_step, remove_step, repeat_step, _link, _node)
"""Of stories of classic NDN."""
