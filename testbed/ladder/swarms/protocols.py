"""Spreading of a message among peers that speak the protocols; the model is testbed.ladder.spread."""

from functools import cache
from random import Random
from typing import Final

import numpy as np

from ssb.generate import generate_feed
from ssb.message import Message
from testbed.ladder.networks import Network, Numbers
from testbed.ladder.spread import Flood, Means
from testbed.ladder.swarms.rungs import RUNGS
from testbed.ladder.swarms.swarm import Swarm


@cache
def _spread_message() -> Message:
    """Return the spreading message."""
    return generate_feed(Random(0), 1)[0]


def gossip(
    peers: int, random: np.random.Generator, at_once: bool = False, *, skips: bool = False
) -> list[int]:
    """See testbed.ladder.spread.gossip(); with request skipping if `skips`."""
    news = _spread_message()
    rung = RUNGS["gossip-skip" if skips else "gossip"]
    swarm = Swarm(rung.protocols(peers), [news.author])
    swarm.publish(0, [news])
    reached: list[int] = []
    while reached[-1:] != [peers]:
        calls = [*enumerate(random.integers(peers, size=peers).tolist())]
        if at_once:
            for call in calls:
                swarm.connect(*call)
            swarm.run()
        for call in calls:
            if at_once:
                swarm.cut(*call)
            elif call[0] != call[1]:
                swarm.meet(*call)
        reached.append(sum(peer.holds(news) for peer in swarm.peers))
    return reached


def flood(network: Network) -> Flood:
    """See testbed.ladder.spread.flood()."""
    swarm, found = _flooded(network)
    reached = found[found >= 0]
    return Flood(
        sum(peer.sent.messages for peer in swarm.peers),
        int(reached.max()),
        float(reached[reached > 0].mean()),
        len(reached),
    )


def depths(network: Network) -> Numbers:
    """Return the round in which each peer gets a flooded message, like testbed.ladder.networks.depths()."""
    return _flooded(network)[1]


def _flooded(network: Network) -> tuple[Swarm, Numbers]:
    """Return a swarm after a flood from the first peer, and the round in which each peer got the message.

    Peers that the network links twice have one connection.
    """
    news = _spread_message()
    swarm = Swarm(RUNGS["flood"].protocols(network.peers), [news.author])
    for peer in range(network.peers):
        for other in network.neighbours[network.starts[peer] : network.starts[peer + 1]].tolist():
            swarm.connect(peer, other)
    swarm.run()
    swarm.publish(0, [news])
    found = np.full(network.peers, -1, np.int64)
    found[0] = 0
    for number, reached in enumerate(swarm.rounds(), start=1):
        fresh = [place for place in reached if found[place] < 0 and swarm.peers[place].holds(news)]
        found[fresh] = number
    return swarm, found


REAL: Final = Means(gossip, flood, depths)
