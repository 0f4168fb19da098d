"""Replication among friends: only people near a message's author replicate and relay it.

*Members* of a message are its author and all people within a few follows of the author. In the network of
friends each person opens connections to some of those that they follow, members or not, and calls one of
those in each round of gossip. It is compared with random networks of the same members.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np

from testbed.ladder.coverage import covered
from testbed.ladder.follows import Follows, at_random, grown
from testbed.ladder.networks import Network, Numbers, joined, network_of_links, rows
from testbed.ladder.spread import flood, gossip, spread
from testbed.scenario.sections import FollowGraph

CONNECTIONS: Final = (1, 2, 3, 5, 10, 20)
NETWORKS: Final[Mapping[str, str]] = {
    "friends": "friends",
    "random": "random, as many links",
    "swarm": "random, as many connections a peer",
}
"""Compared networks: the network of friends; a random one of the same members and number of links; and the
swarm of the paper, in which each member opens its connections to members.
"""
COSTS: Final[Mapping[str, str]] = {
    "reached": "members reached",
    "whole": "messages that reach all",
    "depth": "greatest depth + 1",
    "mean": "mean depth",
    "copies": "copies per copy needed",
}
"""Measure of a flood -> its title; depths and copies are of the members reached."""
ROUNDS: Final[Mapping[str, float]] = {"half": 0.5, "nine tenths": 0.9, "99 %": 0.99}
"""Rounds of gossip until a share of members has a message; if never, the number of rounds played:"""
_MOST_ROUNDS: Final = 1000
_FEWEST: Final = 10  # members, below which shares are unreliable


class Study(NamedTuple):
    """Parameters of the study.

    Attributes:
        graph: parameters of the networks' growth.
        hops: maximum distance of members from an author.
        messages: from each network, for each number of hops.
        readers: of each network for coverage.
    """

    graph: FollowGraph = FollowGraph(follows=10)
    hops: tuple[int, ...] = (1, 2)
    messages: int = 20
    readers: int = 20


Key = tuple[str, ...]
Findings = dict[Key, float]
"""("flood", hops, connections, network, cost), ("gossip", hops, network, share), ("size", hops), ("coverage",
graph, choice, peers, whom) -> mean over the messages or readers of a network.
"""


def study_network(study: Study, people: int, seed: int) -> Findings:
    """Return the results of one network."""
    follows = grown(people, study.graph, seed)
    random = np.random.default_rng([seed, people])
    followers = follows.turned()
    told: dict[Key, list[float]] = {}
    for hops in study.hops:
        for author in _authors(follows, study.messages, random):
            members = np.sort(np.append(followers.within(author, hops), author))
            if len(members) < _FEWEST:
                continue
            told.setdefault(("size", f"{hops}"), []).append(len(members))
            for key, value in _of_message(follows, members, author, random):
                told.setdefault((key[0], f"{hops}", *key[1:]), []).append(value)
    for name, graph in (("social", follows), ("random", at_random(follows.counts, random))):
        for key, value in covered(graph, study.readers, random):
            told.setdefault(("coverage", name, *key), []).append(value)
    return {key: float(np.mean(values)) for key, values in told.items()}


def _authors(follows: Follows, count: int, random: np.random.Generator) -> list[int]:
    """Draw authors as readers meet them: with probability in proportion to their followers."""
    return [int(author) for author in random.choice(follows.whom, count)]


def _of_message(
    follows: Follows, members: Numbers, author: int, random: np.random.Generator
) -> Iterator[tuple[Key, float]]:
    size, source = len(members), int(np.searchsorted(members, author))
    for connections in CONNECTIONS:
        near = friends_network(follows, members, connections, random)
        networks = {
            "friends": near,
            "random": network_of_links(size, near.links, random),
            "swarm": at_random(np.full(size, connections), random).joined(),
        }
        for name, network in networks.items():
            for cost, value in _flood(network, source):
                yield ("flood", f"{connections}", name, cost), value
    rounds = {
        "friends": gossip_among_friends(follows, members, author, random),
        "swarm": gossip(size, random),
    }
    for name, reached in rounds.items():
        for share, least in ROUNDS.items():
            yield ("gossip", name, share), first_round(reached, least * size)


def _flood(network: Network, source: int) -> Iterator[tuple[str, float]]:
    cost = flood(network, source)
    yield "reached", (cost.reached - 1) / (network.peers - 1)
    yield "whole", float(cost.reached == network.peers)
    if cost.reached > 1:
        yield "depth", cost.rounds + 1
        yield "mean", cost.mean
        yield "copies", cost.inefficiency


def first_round(reached: list[int], least: float) -> int:
    """Return the first round by which `least` have a message; the last one if there is none."""
    return next((number for number, count in enumerate(reached, start=1) if count >= least), len(reached))


def friends_network(
    follows: Follows, members: Numbers, connections: int, random: np.random.Generator
) -> Network:
    """Return the network of members, each of whom opens connections to some of those that they follow.

    They choose them uniformly, or take all if they follow no more; only those to other members are links
    here. Mutual choices give one link. `members` are in ascending order.
    """
    counts = follows.counts[members]
    firsts = np.cumsum(counts) - counts
    callers = np.repeat(np.arange(len(members)), counts)
    shuffled = np.argsort(callers + random.random(len(callers)))
    place = np.arange(len(shuffled)) - firsts[callers]  # of each follow in its person's random order
    is_opened = place < connections
    called = rows(follows.starts, follows.whom, members)[shuffled][is_opened]
    callers = callers[is_opened]
    theirs = _places(members, called)
    is_member = theirs >= 0
    a, b = callers[is_member], theirs[is_member]
    return joined(len(members), a, b)


def gossip_among_friends(
    follows: Follows, members: Numbers, author: int, random: np.random.Generator
) -> list[int]:
    """Return how many members have a message after each round, in which each calls one that they follow.

    They choose it uniformly, member or not. See testbed.ladder.spread.gossip().
    """
    starts, counts = follows.starts[members], follows.counts[members]
    calling = np.flatnonzero(counts)

    def calls() -> tuple[Numbers, Numbers]:
        chosen = starts[calling] + random.integers(counts[calling])
        theirs = _places(members, follows.whom[chosen])
        return calling[theirs >= 0], theirs[theirs >= 0]

    source = int(np.searchsorted(members, author))
    return spread(len(members), source, calls, most=_MOST_ROUNDS)


def _places(members: Numbers, people: Numbers) -> Numbers:
    """Return the indices of people among the members, -1 for non-members."""
    places = np.minimum(np.searchsorted(members, people), len(members) - 1)
    return np.where(members[places] == people, places, -1)
