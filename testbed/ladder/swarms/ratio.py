"""The cost of EBT with request skipping relative to the ideal hub: is it a constant factor, and which?

The paper concludes that the hub "only beats our design by a constant factor", without its value.
"""

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from statistics import fmean
from typing import Final, NamedTuple

from ssb.message import Message
from ssb.store.feeds import Stored
from testbed.ladder.swarms.costs import ideal_hub
from testbed.ladder.swarms.period import drawn_partners, feed, pairs
from testbed.ladder.swarms.rungs import RUNGS
from testbed.ladder.swarms.slopes import estimate, fit
from testbed.ladder.swarms.swarm import Swarm, Traffic

SIZES: Final = (10, 30, 100, 300, 1_000)
CONNECTIONS: Final = 5
MESSAGE, ELEMENT = 660, 60
"""Bytes of the paper's average message, and of its elements."""
_FEEDS, _HISTORY, _LIVE, _AWAY = 4, 4, 3, 10

PHASES: Final[Mapping[str, str]] = {
    "join": f"peers meet for the first time, and get {_HISTORY} messages of each feed",
    "live": "peers stay connected, and each message is published alone",
    "return": f"peers connect again, after {_AWAY} messages in each feed",
    "rest": "peers connect again, and nothing is new",
}
MEASURES: Final[Mapping[str, str]] = {
    "paper bytes": f"bytes, of {MESSAGE} and {ELEMENT}",
    "bytes": "bytes of bodies",
    "peer bytes": "the same at a peer, over a client",
    "busiest bytes": "the same at the busiest, over the hub",
    "messages": "copies of messages",
    "elements": "elements, by copies of the hub",
}


class Phase(NamedTuple):
    """A swarm's traffic in a phase.

    Attributes:
        name: see PHASES.
        peers, edges: of the network.
        messages: number published.
        sent: by all peers.
        repeated: redundant copies.
        busiest: maximum bytes of bodies sent and received by one peer.
        body: mean bytes of a published message, as sent.
    """

    name: str
    peers: int
    edges: int
    messages: int
    sent: Traffic
    repeated: int
    busiest: int
    body: float

    def measures(self) -> dict[str, float]:
        """Return all MEASURES with a defined ratio."""
        hub = ideal_hub(self.peers, self.messages, 0 if self.name == "live" else 1)
        element = self.sent.header_bytes / self.sent.named if self.sent.named else ELEMENT
        of_hub = hub.messages * self.body + hub.elements * element
        of_all = self.sent.message_bytes + self.sent.header_bytes
        measured = {
            "paper bytes": (MESSAGE * self.sent.messages + ELEMENT * self.sent.named)
            / (MESSAGE * hub.messages + ELEMENT * hub.elements),
            "bytes": of_all / of_hub,
            # EBT's peers send to peers; the hub takes part in all its clients' traffic.
            "peer bytes": 2 * of_all / of_hub,
            "busiest bytes": self.busiest / of_hub,
        }
        if self.messages:
            measured["messages"] = self.sent.messages / hub.messages
            measured["elements"] = self.sent.named / hub.messages
        return measured


class Ratio(NamedTuple):
    """A measure of a phase.

    Attributes:
        phase, measure: see PHASES and MEASURES.
        peers: of the swarms; 0 for the slope over their number.
        mean, error: over seeds, see testbed.ladder.swarms.slopes.Estimate.
    """

    phase: str
    measure: str
    peers: int
    mean: float
    error: float


Task = tuple[int, int]
"""Peers, and a seed."""


def play(task: Task, delay: int = 0) -> list[Phase]:
    """Run a swarm of real peers through the phases; `delay` is that of connections, ns."""
    peers, seed = task
    links = pairs(drawn_partners(peers, CONNECTIONS, Random(f"{seed} ratio {peers}")))
    feeds = [feed(number, _HISTORY + _LIVE + _AWAY) for number in range(_FEEDS)]
    swarm = Swarm(RUNGS["ebt"].protocols(peers), [messages[0].author for messages in feeds])
    meter = _Meter(swarm, feeds)

    def publish(first: int, last: int) -> None:
        for place, messages in enumerate(feeds):
            swarm.publish(place, messages[first:last])

    def connect() -> None:
        for link in links:
            swarm.cut(*link)
        for link in links:
            swarm.connect(*link, delay)
        swarm.run()

    publish(0, _HISTORY)
    connect()
    phases = [meter.read("join", 0, _HISTORY)]
    for number in range(_HISTORY, _HISTORY + _LIVE):
        for place, messages in enumerate(feeds):
            swarm.publish(place, [messages[number]])
            swarm.run()
    phases.append(meter.read("live", _HISTORY, _HISTORY + _LIVE))
    for link in links:
        swarm.cut(*link)
    publish(_HISTORY + _LIVE, len(feeds[0]))
    connect()
    phases.append(meter.read("return", _HISTORY + _LIVE, len(feeds[0])))
    connect()  # message senders learn of the arrival this way
    meter.read("", 0, 0)
    connect()
    return [*phases, meter.read("rest", 0, 0)]


class _Meter:
    """Measures a swarm's traffic between readings."""

    def __init__(self, swarm: Swarm, feeds: Sequence[Sequence[Message]]) -> None:
        self._swarm = swarm
        self._feeds = feeds
        self._before = [(peer.sent, peer.received, peer.repeated) for peer in swarm.peers]

    def read(self, name: str, first: int, last: int) -> Phase:
        """Return the phase in which these messages of each feed have spread."""
        after = [(peer.sent, peer.received, peer.repeated) for peer in self._swarm.peers]
        sent, busiest, repeated = Traffic(), 0, 0
        for new, old in zip(after, self._before, strict=True):
            fresh, came = new[0].minus(old[0]), new[1].minus(old[1])
            sent = sent.plus(fresh)
            repeated += new[2] - old[2]
            busiest = max(busiest, sum(t.message_bytes + t.header_bytes for t in (fresh, came)))
        self._before = after
        new_messages = [message for messages in self._feeds for message in messages[first:last]]
        stored = (Stored(0, message.sequence, 0.0, message.encoded) for message in new_messages)
        body = fmean(len(each.compact) for each in stored) if new_messages else 0.0
        peers, edges = len(self._swarm.peers), len(self._swarm.links)
        return Phase(name, peers, edges, len(new_messages), sent, repeated, busiest, body)


def ratios(phases: Sequence[Sequence[Phase]]) -> list[Ratio]:
    """Return the measures of runs in `phases`, over seeds: for each size, and their growth with it."""
    found: dict[tuple[str, str], dict[int, list[float]]] = {}
    for run in phases:
        for phase in run:
            for measure, value in phase.measures().items():
                found.setdefault((phase.name, measure), {}).setdefault(phase.peers, []).append(value)
    return [
        ratio for (phase, measure), by_size in found.items() for ratio in _ratios(phase, measure, by_size)
    ]


def _ratios(phase: str, measure: str, by_size: Mapping[int, Sequence[float]]) -> Iterator[Ratio]:
    for peers, values in by_size.items():
        yield Ratio(phase, measure, peers, *estimate(values))
    slopes = [fit([*by_size], seed) for seed in zip(*by_size.values(), strict=True)]
    known = [slope for slope in slopes if slope is not None]
    if len(by_size) > 1 and len(known) == len(slopes):
        yield Ratio(phase, measure, 0, *estimate(known))


def factor(connections: float) -> float:
    """1 + (connections - 1) * 60 / 660: EBT's cost over the hub's in all, in a large swarm, if each message
    is published alone. It crosses a tree once, as it goes once to each of the hub's clients; and on each
    other connection one end sends a note."""
    return 1 + (connections - 1) * ELEMENT / MESSAGE
