"""Traffic of two peers without news, and the savings of request skipping.

The paper: "on each connection, each peer sending over half a megabyte of requests, yet not actually needing
to send any messages".
"""

from typing import Final, NamedTuple

from testbed.ladder.swarms.period import feed
from testbed.ladder.swarms.rungs import RUNGS
from testbed.ladder.swarms.swarm import Swarm, Traffic

FEEDS: Final = 5_000


class Talk(NamedTuple):
    """Traffic of two peers on a connection, both together.

    Attributes:
        rung: their protocol.
        remembers: whether they remember the other's clock of earlier connections.
        connection: 1, 2, ...; a feed has got a message before the last one.
        elements: feeds named in clocks or notes.
        header_bytes: of bodies without messages.
        messages: copies sent.
    """

    rung: str
    remembers: bool
    connection: int
    elements: int
    header_bytes: int
    messages: int


def talks(feeds: int = FEEDS) -> list[Talk]:
    """Return the traffic of two peers that both have all of these feeds."""
    return [
        talk
        for rung, remembers in (("gossip", False), ("gossip-skip", True), ("ebt", False), ("ebt", True))
        for talk in _talks(rung, remembers, feeds)
    ]


def _talks(rung: str, remembers: bool, feeds: int) -> list[Talk]:
    held = [feed(number, 1)[0] for number in range(feeds)]
    swarm = Swarm(RUNGS[rung].protocols(2), [message.author for message in held])
    for place in range(2):
        swarm.publish(place, held)
    told: list[Talk] = []
    before = Traffic()
    for connection in (1, 2, 3):
        if connection == 3:
            swarm.publish(0, feed(0, 2)[1:])
        swarm.connect(0, 1)
        swarm.run()
        swarm.cut(0, 1)
        if not remembers:
            for one, other in (swarm.peers, reversed(swarm.peers)):
                one.clocks.set_remote_clock(other.name, {})
        said = swarm.peers[0].sent.plus(swarm.peers[1].sent)
        fresh, before = said.minus(before), said
        told.append(Talk(rung, remembers, connection, fresh.named, fresh.header_bytes, fresh.messages))
    return told
