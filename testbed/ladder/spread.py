"""Spreading of a message: by gossip in rounds, and by floods."""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from testbed.ladder.networks import Network, Numbers, depths


def gossip(peers: int, random: np.random.Generator, at_once: bool = False) -> list[int]:
    """Return how many peers have a message after each round of gossip, until all have it.

    In each round each peer connects to one peer drawn uniformly, and if either has the message, both have it
    then. Peers take turns in a fixed order, so a message may cross several connections in a round; with
    `at_once` all connections of a round are simultaneous, as papers on gossip assume.
    """
    callers = np.arange(peers)
    return spread(peers, 0, lambda: (callers, random.integers(peers, size=peers)), at_once=at_once)


def spread(
    peers: int,
    source: int,
    calls: Callable[[], tuple[Numbers, Numbers]],
    *,
    at_once: bool = False,
    most: int | None = None,
) -> list[int]:
    """Return how many peers have a message after each round, until all have it, or `most` rounds are over.

    `calls` returns the calling peers of a round, in ascending order, and their called peers; for `at_once`
    see gossip().
    """
    has = np.zeros(peers, bool)
    has[source] = True
    reached: list[int] = []
    while reached[-1:] != [peers] and len(reached) != most:
        callers, called = calls()
        has = _round_at_once(has, callers, called) if at_once else _round(has, callers, called)
        reached.append(int(has.sum()))
    return reached


def _round_at_once(has: np.ndarray, callers: Numbers, called: Numbers) -> np.ndarray:
    after = has.copy()
    after[callers[has[called]]] = True
    after[called[has]] = True
    return after


def _round(has: np.ndarray, callers: Numbers, called: Numbers) -> np.ndarray:
    """Return who has the message after sequential calls.

    A peer gets it at the lowest number of a call with a peer that had it before that call: found by relaxing
    all calls until nothing changes.
    """
    never = len(has)
    when = np.where(has, -1, never)
    while True:
        ours, theirs = when[callers], when[called]
        to_called = (ours < callers) & (callers < theirs)
        to_callers = (theirs < callers) & (callers < ours)
        if not (to_called.any() or to_callers.any()):
            return when < never
        np.minimum.at(when, called[to_called], callers[to_called])
        getting = callers[to_callers]
        when[getting] = np.minimum(when[getting], getting)


class Flood(NamedTuple):
    """Cost of flooding one message.

    Attributes:
        messages: copies sent.
        rounds: links to the last peer reached.
        mean: links to a peer, mean of all but the author.
        reached: number of peers that get it, the author included.
    """

    messages: int
    rounds: int
    mean: float
    reached: int

    @property
    def inefficiency(self) -> float:
        """Copies sent per necessary copy."""
        return self.messages / (self.reached - 1)


def flood(network: Network, source: int = 0) -> Flood:
    """Return the cost of a message that peers relay to all neighbours except its sender.

    No two peers may be linked twice.
    """
    found = depths(network, source)
    reached = found[found >= 0]
    degrees = np.diff(network.starts)[found >= 0]
    return Flood(
        int(degrees.sum()) - (len(reached) - 1),
        int(reached.max()),
        float(reached.sum() / max(len(reached) - 1, 1)),
        len(reached),
    )


class Means(NamedTuple):
    """Implementations of spreading: a model, or peers that speak the protocols.

    Attributes: see the functions of these names. In `flood` and `depths` the first peer publishes.
    """

    gossip: Callable[[int, np.random.Generator, bool], list[int]]
    flood: Callable[[Network], Flood]
    depths: Callable[[Network], Numbers]


MODEL: Final = Means(gossip, flood, depths)
