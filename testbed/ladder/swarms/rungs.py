"""The rungs of the ladder for swarms: protocol and connections of each."""

from collections.abc import Callable, Collection, Iterable, Mapping
from enum import StrEnum
from functools import partial
from random import Random
from types import MappingProxyType
from typing import Final, NamedTuple

from ssb.replication.ebt import Ebt, RemoteClocks
from ssb.replication.replication import Replication
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
        protocol: makes a peer's, from the authors, the peer's reference, and the arguments of a Protocol.
        hub: the protocol of the hub, if there is one: a peer more.
    """

    title: str
    manner: Manner
    protocol: Callable[[Authors, str, FeedStore, RemoteClocks, Iterable[str]], Replication]
    hub: Protocol | None = None

    def protocols(self, peers: int, authors: Authors = MappingProxyType({})) -> list[Protocol]:
        """Return the protocols of a swarm of so many peers, and of its hub."""
        made: list[Protocol] = [partial(self.protocol, authors, name_of(place)) for place in range(peers)]
        return made if self.hub is None else [*made, self.hub]


def _poll(
    authors: Authors, name: str, feeds: FeedStore, clocks: RemoteClocks, wanted: Iterable[str], *, whole: bool
) -> Poll:
    return Poll(feeds, wanted, authors, whole=whole)


def _client(
    authors: Authors, name: str, feeds: FeedStore, clocks: RemoteClocks, wanted: Iterable[str]
) -> HubClient:
    return HubClient(feeds, wanted, authors.get(name, ()), clocks, stays=False)


RUNGS: Final[Mapping[str, LadderRung]] = {
    "scan": LadderRung("polls of whole feeds", Manner.AUTHORS, partial(_poll, whole=True)),
    "append-poll": LadderRung("polls of what is new", Manner.AUTHORS, partial(_poll, whole=False)),
    "gossip": LadderRung(
        "gossip, with the clocks of all feeds",
        Manner.PARTNER,
        lambda authors, name, feeds, clocks, wanted: Gossip(feeds, wanted),
    ),
    "gossip-skip": LadderRung(
        "gossip that skips requests",
        Manner.PARTNER,
        lambda authors, name, feeds, clocks, wanted: Gossip(feeds, wanted, clocks),
    ),
    "flood": LadderRung(
        "floods", Manner.LASTING, lambda authors, name, feeds, clocks, wanted: Flood(feeds, wanted)
    ),
    "ebt": LadderRung(
        "epidemic broadcast trees",
        Manner.LASTING,
        lambda authors, name, feeds, clocks, wanted: Ebt(feeds, clocks, wanted, rng=Random(name)),
    ),
    "hub": LadderRung(
        "polls of a hub that remembers its clients",
        Manner.HUB,
        _client,
        lambda feeds, clocks, wanted: Hub(feeds, clocks),
    ),
}
