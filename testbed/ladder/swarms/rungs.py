"""The rungs of the ladder for swarms: protocol and connections of each."""

from collections.abc import Callable, Collection, Iterable, Mapping
from enum import StrEnum
from functools import partial
from random import Random
from types import MappingProxyType
from typing import Final, NamedTuple

from ssb.replication.ebt import Ebt, RemoteClocks
from ssb.replication.rungs.flood import Flood
from ssb.replication.rungs.gossip import Gossip
from ssb.replication.rungs.hub import Hub, HubClient
from ssb.replication.rungs.poll import Poll
from ssb.store.feeds import FeedStore
from testbed.ladder.swarms.swarm import Protocol, name_of

Authors = Mapping[str, Collection[str]]
"""Reference of a peer -> its feeds."""


class Manner(StrEnum):
    """A rung's connections."""

    AUTHORS = "each author, at each poll"
    PARTNER = "one of its partners, at each poll"
    LASTING = "its partners, once and for long"
    HUB = "the hub, at each poll"


class LadderRung(NamedTuple):
    """A rung.

    Attributes:
        title: in few words.
        manner: its connections.
        protocol: makes a peer's, from the authors and the peer's reference.
        hub: the protocol of the hub, if there is one: a peer more.
    """

    title: str
    manner: Manner
    protocol: Callable[[Authors, str], Protocol]
    hub: Protocol | None = None

    def protocols(self, peers: int, authors: Authors = MappingProxyType({})) -> list[Protocol]:
        """Return the protocols of a swarm of so many peers, and of its hub."""
        made = [self.protocol(authors, name_of(place)) for place in range(peers)]
        return made if self.hub is None else [*made, self.hub]


def _polls(whole: bool) -> Callable[[Authors, str], Protocol]:
    def made(authors: Authors, name: str) -> Protocol:
        def poll(feeds: FeedStore, clocks: RemoteClocks, wanted: Iterable[str]) -> Poll:
            return Poll(feeds, wanted, authors, whole=whole)

        return poll

    return made


def _gossip(feeds: FeedStore, clocks: RemoteClocks, wanted: Iterable[str]) -> Gossip:
    return Gossip(feeds, wanted)


def _gossip_skip(feeds: FeedStore, clocks: RemoteClocks, wanted: Iterable[str]) -> Gossip:
    return Gossip(feeds, wanted, clocks)


def _flood(feeds: FeedStore, clocks: RemoteClocks, wanted: Iterable[str]) -> Flood:
    return Flood(feeds, wanted)


def _ebt(authors: Authors, name: str) -> Protocol:
    return partial(Ebt, rng=Random(name))


def _hub(feeds: FeedStore, clocks: RemoteClocks, wanted: Iterable[str]) -> Hub:
    return Hub(feeds, clocks)


def _client(authors: Authors, name: str) -> Protocol:
    def client(feeds: FeedStore, clocks: RemoteClocks, wanted: Iterable[str]) -> HubClient:
        return HubClient(feeds, wanted, authors.get(name, ()), clocks, stays=False)

    return client


RUNGS: Final[Mapping[str, LadderRung]] = {
    "scan": LadderRung("polls of whole feeds", Manner.AUTHORS, _polls(whole=True)),
    "append-poll": LadderRung("polls of what is new", Manner.AUTHORS, _polls(whole=False)),
    "gossip": LadderRung(
        "gossip, with the clocks of all feeds", Manner.PARTNER, lambda authors, name: _gossip
    ),
    "gossip-skip": LadderRung(
        "gossip that skips requests", Manner.PARTNER, lambda authors, name: _gossip_skip
    ),
    "flood": LadderRung("floods", Manner.LASTING, lambda authors, name: _flood),
    "ebt": LadderRung("epidemic broadcast trees", Manner.LASTING, _ebt),
    "hub": LadderRung("polls of a hub that remembers its clients", Manner.HUB, _client, _hub),
}
