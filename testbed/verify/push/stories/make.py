"""Draws a story of controlled push from a seed: mostly a small world, as these reveal most; or a network."""

from random import Random

from testbed.verify.push.stories.networks import NetworkMaker
from testbed.verify.push.stories.small import SmallWorld
from testbed.verify.push.stories.story import Story

NETWORKS = 0.3
"""Share of networks among the stories."""


def make_story(seed: int) -> Story:
    """Make the story of a seed."""
    is_network = Random(f"{seed} network").random() < NETWORKS
    return (NetworkMaker if is_network else SmallWorld)(seed).make()
