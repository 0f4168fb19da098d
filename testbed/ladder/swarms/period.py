"""A period of a swarm: its peers' costs with a rung's real protocol."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import cycle, islice
from random import Random
from statistics import fmean
from typing import NamedTuple

from ssb.generate import generate_feed
from ssb.message import Message
from testbed.ladder.swarms.costs import Load, What, Who
from testbed.ladder.swarms.rungs import RUNGS, Manner
from testbed.ladder.swarms.swarm import Swarm, name_of

Partners = Sequence[Sequence[int]]
"""Each peer's called peers, in order."""
Spent = dict[tuple[Who, What], float]
"""Counts: of the mean subscriber that writes nothing, of the mean publisher or the hub, of the network."""

_KEPT = 1_000  # feeds


class Period(NamedTuple):
    """Results of a period.

    Attributes:
        load: with the actual edges.
        spent: see Spent.
        missing: share of the messages that subscribers lack at the end.
    """

    load: Load
    spent: Spent
    missing: float


@lru_cache(maxsize=_KEPT)
def feed(number: int, length: int) -> tuple[Message, ...]:
    """Return a feed of real messages: one number, one author."""
    return tuple(generate_feed(Random(number), length))


def drawn_partners(peers: int, connections: int, random: Random) -> Partners:
    """Return each peer's called peers: `connections` others, or all if there are fewer, drawn uniformly."""
    count = min(connections, peers - 1)
    drawn = (random.sample(range(peers - 1), count) for _ in range(peers))
    return [[other + (other >= peer) for other in others] for peer, others in enumerate(drawn)]


def pairs(partners: Partners) -> list[tuple[int, int]]:
    """Return the connections of peers with their partners, in opening order."""
    return list({tuple(sorted(call)): call for call in _calls(partners)}.values())


def _calls(partners: Partners) -> Iterable[tuple[int, int]]:
    return ((peer, other) for peer, others in enumerate(partners) for other in others)


def play_period(rung: str, load: Load, seed: int) -> Period:
    """Let a swarm speak a rung for a period. The first peers write a feed each, and need not be all.

    With one seed, all rungs and loads of as many peers and connections have one network.
    """
    random = Random(f"{seed} {load.peers} {load.connections}")
    partners = drawn_partners(load.peers, load.connections, random)
    load = load._replace(edges=len(pairs(partners)))
    feeds = [feed(number, load.length) for number in range(load.feeds)]
    authors = {name_of(place): [messages[0].author] for place, messages in enumerate(feeds)}
    protocols = RUNGS[rung].protocols(load.peers, authors)
    swarm = Swarm(protocols, [key for keys in authors.values() for key in keys])
    for place, messages in enumerate(feeds):
        swarm.publish(place, messages[: load.history])
    if RUNGS[rung].manner is Manner.LASTING:
        _stay(swarm, load, partners, feeds)
    else:
        _poll(swarm, RUNGS[rung].manner, load, partners, feeds)
    return Period(load, _spent(swarm, load), _missing(swarm, feeds))


def _stay(swarm: Swarm, load: Load, partners: Partners, feeds: Sequence[Sequence[Message]]) -> None:
    for pair in pairs(partners):
        swarm.connect(*pair)
    swarm.run()
    for number in range(load.history, load.length):
        for place, messages in enumerate(feeds):
            swarm.publish(place, [messages[number]])
            swarm.run()


def _poll(
    swarm: Swarm, manner: Manner, load: Load, partners: Partners, feeds: Sequence[Sequence[Message]]
) -> None:
    """Let each peer poll once per interval, one after the other; partners take turns."""
    turns = [list(islice(cycle(others), load.polls)) for others in partners]
    published = 0
    for poll in range(load.polls):
        before, published = published, load.published_before(poll)
        for place, messages in enumerate(feeds):
            swarm.publish(place, messages[load.history + before : load.history + published])
        for peer in range(load.peers):
            called = {Manner.AUTHORS: range(load.feeds), Manner.HUB: [load.peers]}
            for other in called.get(manner, [turns[peer][poll]]):
                if other != peer:
                    swarm.meet(peer, other)


def _spent(swarm: Swarm, load: Load) -> Spent:
    readers, hub = swarm.peers[load.feeds : load.peers], swarm.peers[load.peers :]
    servers = hub or swarm.peers[: load.feeds]
    spent = {
        (Who.PUBLISHER, What.CONNECTIONS): fmean(peer.accepted for peer in servers),
        (Who.PUBLISHER, What.MESSAGES): fmean(peer.sent.messages for peer in servers),
        (Who.PUBLISHER, What.ELEMENTS): fmean(peer.received.named for peer in servers),
        (Who.NETWORK, What.CONNECTIONS): float(sum(peer.called for peer in swarm.peers)),
        (Who.NETWORK, What.MESSAGES): float(sum(peer.sent.messages for peer in swarm.peers)),
        (Who.NETWORK, What.ELEMENTS): float(sum(peer.sent.named for peer in swarm.peers)),
    }
    if readers:
        spent |= {
            (Who.SUBSCRIBER, What.CONNECTIONS): fmean(peer.called for peer in readers),
            (Who.SUBSCRIBER, What.MESSAGES): fmean(peer.received.messages for peer in readers),
            (Who.SUBSCRIBER, What.ELEMENTS): fmean(peer.sent.named for peer in readers),
        }
    return spent


def _missing(swarm: Swarm, feeds: Sequence[Sequence[Message]]) -> float:
    had = sum(peer.feeds.end for peer in swarm.peers)
    return 1 - had / sum(len(swarm.peers) * len(messages) for messages in feeds)
