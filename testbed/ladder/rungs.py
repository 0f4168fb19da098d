"""The rungs of the ladder as swarms climb them: the protocol of each, and whom its peers connect to."""

from collections.abc import Callable, Collection, Iterable, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from ssb.replication.ebt import Ebt, RemoteClocks
from ssb.replication.rungs.flood import Flood
from ssb.replication.rungs.gossip import Gossip
from ssb.replication.rungs.poll import Poll
from ssb.store.feeds import FeedStore
from testbed.ladder.swarm import Protocol

Authors = Mapping[str, Collection[str]]
"""Reference of a peer -> the feeds that it writes."""


class Manner(StrEnum):
    """Whom a peer connects to."""

    AUTHORS = "each author, at each poll"
    PARTNER = "one of its partners, at each poll"
    LASTING = "its partners, once and for long"


class LadderRung(NamedTuple):
    """A rung.

    Attributes:
        title: what it is, in few words.
        manner: whom its peers connect to.
        protocol: makes it, from who writes what.
    """

    title: str
    manner: Manner
    protocol: Callable[[Authors], Protocol]


def _polls(whole: bool) -> Callable[[Authors], Protocol]:
    def made(authors: Authors) -> Protocol:
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


RUNGS: Final[Mapping[str, LadderRung]] = {
    "scan": LadderRung("polls of whole feeds", Manner.AUTHORS, _polls(whole=True)),
    "append-poll": LadderRung("polls of what is new", Manner.AUTHORS, _polls(whole=False)),
    "gossip": LadderRung("gossip, with the clocks of all feeds", Manner.PARTNER, lambda authors: _gossip),
    "gossip-skip": LadderRung("gossip that skips requests", Manner.PARTNER, lambda authors: _gossip_skip),
    "flood": LadderRung("floods", Manner.LASTING, lambda authors: _flood),
    "ebt": LadderRung("epidemic broadcast trees", Manner.LASTING, lambda authors: Ebt),
}
