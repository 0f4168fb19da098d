"""Draws a story of controlled push from a seed: mostly a small world, as these reveal most; or a network."""

from dataclasses import replace
from random import Random

from testbed.verify.push.stories.networks import NetworkMaker
from testbed.verify.push.stories.small import SmallWorld
from testbed.verify.push.stories.story import MS, Story

NETWORKS = 0.3
"""Share of networks among the stories."""
BUSY = 0.3
"""Share of stories whose processors may be busy."""
_TURNS = (0, MS // 10, MS, 5 * MS, 20 * MS, 100 * MS)


def make_story(seed: int) -> Story:
    """Make the story of a seed."""
    is_network = Random(f"{seed} network").random() < NETWORKS
    story = (NetworkMaker if is_network else SmallWorld)(seed).make()
    rng = Random(f"{seed} turns")
    if rng.random() >= BUSY:
        return story
    longest = rng.randrange(1, len(_TURNS))
    nodes = tuple(replace(node, turn=_TURNS[rng.randrange(longest + 1)]) for node in story.nodes)
    return replace(story, nodes=nodes)
