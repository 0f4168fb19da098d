"""Rungs of the replication ladder under every fault: `feednet simulate rungs`.

A seed draws a rung, a network that loses and reorders frames, writers and followers, temporary link failures,
and restarts. Soon after the last fault, every follower must have received every message once, in order, and
hold it byte for byte. After every second, no peer may keep state of more feeds than its open connections
account for, nor any state of a closed connection.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Any, ClassVar

from base.units import SECOND
from testbed.experiment.emulated_run import Emulation
from testbed.layerings.peers.ladder import RUNGS as LADDER
from testbed.layerings.peers.ladder import RungNode
from testbed.scenario.model import Scenario
from testbed.scenario.workload import load
from testbed.verify.kit.changes import CHANGES
from testbed.verify.kit.draw import Link
from testbed.verify.kit.family import Family
from testbed.verify.kit.outcome import OutcomeOptions, Violation
from testbed.verify.kit.shrink import emulated
from testbed.verify.kit.story import Step, Story
from testbed.verify.kit.world import World

RUNGS_CATCH_UP_NS = 240 * SECOND
"""After a link failure TCP doubles its pauses, and gossip calls random peers."""
_WARMUP_MS = 100


@dataclass(frozen=True)
class Climb(Story):
    """A story; its times are in ms. A step is "cut" and "heal" (a, b, signalled), or "restart" (a node).

    Attributes:
        rung: of the ladder, and
        parameters: its own.
        links: of the network.
        writers, readers: nodes; feeds are assigned to writers in turn.
        feeds: number of feeds.
        items: total number of items.
        starts: reader -> its start, ms.
    """

    MS: ClassVar[int] = 1
    PAIRS: ClassVar[Mapping[str, str]] = {"cut": "heal"}

    rung: str
    parameters: dict[str, Any]
    links: tuple[Link, ...]
    writers: tuple[str, ...]
    readers: tuple[str, ...]
    feeds: int
    items: int
    starts: dict[str, float]

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(end for link in self.links for end in (link["a"], link["b"])))

    def scenario(self) -> Scenario:
        """Return the story as a scenario of one layering; raise ValueError if it is inconsistent."""
        return Scenario.model_validate(
            {
                "name": f"rungs {self.seed}",
                "title": self.rung,
                "seed": self.seed,
                "layerings": (self.rung,),
                "parameters": {self.rung: self.parameters},
                "topology": {"links": self.links},
                "publishers": self.writers,
                "publisher": self.writers[0],
                "subscribers": self.readers,
                "workload": {
                    "items": self.items,
                    "feeds": self.feeds,
                    "schedule": {"speed": 1e6, "idle_limit_ms": 50.0},
                },
                "events": tuple(map(_event, self.steps)),
                "plans": {reader: {"start_ms": start} for reader, start in self.starts.items()},
                "warmup_ms": _WARMUP_MS,
                "settle_ms": RUNGS_CATCH_UP_NS // 1_000_000,
            }
        )


def _event(step: Step) -> dict[str, Any]:
    if step.do == "restart":
        return {"at_ms": step.at, "restart": step.what[0]}
    a, b, signalled = step.what
    return {
        "at_ms": step.at,
        "link_down" if step.do == "cut" else "link_up": f"{a} {b}",
        "signalled": signalled,
    }


def make_rungs(seed: int) -> Climb:
    """Draw a story."""
    rng = Random(f"rungs {seed}")
    peers = [f"p{number}" for number in range(rng.randint(2, 6))]
    routers = [f"r{number}" for number in range(rng.randint(1, 2))]
    ends = [(peer, rng.choice(routers)) for peer in peers] + list(pairwise(routers))
    is_bad = rng.random() < 0.6
    links = tuple(
        {"a": a, "b": b, "delay_ms": rng.choice([0.5, 5.0, 40.0])} | _badness(rng, is_bad) for a, b in ends
    )
    rung = rng.choice([*LADDER])
    writers = rng.sample(peers, rng.randint(1, len(peers)))
    readers = [peer for peer in peers if peer not in writers or rng.random() < 0.8]
    feeds = len(writers) + rng.randint(0, 2)
    parameters: dict[str, Any] = {"encrypt": rng.random() < 0.7, "hops": rng.randint(1, 2)}
    if rung in ("flood", "ebt"):
        # A swarm is connected if each peer calls at least half of the others, and all replicate all.
        parameters["connections"] = rng.randint((len(peers) + 1) // 2, len(peers))
        readers = peers
    elif rung == "hub":
        parameters |= {"interval_ms": rng.choice([0, 400]), "at": rng.choice([*routers, *peers])}
    else:
        parameters["interval_ms"] = rng.choice([200, 1000])
    items = rng.randint(feeds, 40)
    steps = tuple(_steps(rng, [*peers, *routers], ends))
    starts = {peer: float(rng.randint(0, 3000)) for peer in readers if rng.random() < 0.2}
    return Climb(
        seed, steps, rung, parameters, links, (*writers,), (*readers,) or (peers[0],), feeds, items, starts
    )


def _badness(rng: Random, is_bad: bool) -> dict[str, float]:
    if not is_bad or rng.random() < 0.3:
        return {}
    return {
        "loss_percent": rng.choice([0.0, 1.0, 5.0]),
        "reorder_percent": rng.choice([0.0, 2.0]),
        "duplicate_percent": rng.choice([0.0, 2.0]),
    }


def _steps(rng: Random, nodes: list[str], links: list[tuple[str, str]]) -> Iterator[Step]:
    for _ in range(rng.randint(0, 3)):
        yield Step(rng.randint(0, 4000), "restart", (rng.choice(nodes),))
    for a, b in rng.sample(links, rng.randint(0, min(2, len(links)))):
        begin, signalled = rng.randint(0, 3000), rng.random() < 0.5
        end = begin + rng.randint(1, 5000)
        yield Step(begin, "cut", (a, b, signalled))
        yield Step(end, "heal", (a, b, signalled))


class _World(World[Climb]):
    def __init__(self, story: Climb, wanted: OutcomeOptions) -> None:
        super().__init__(story, wanted)
        scenario = story.scenario()
        self._load = load(scenario)
        self._emulation = Emulation(scenario, story.rung, self._load)
        self.network = self._emulation.network
        self.coverage[story.rung] += 1

    def play(self) -> None:
        timeline = self._emulation.timeline
        last = max([time for time, _ in timeline.changes], default=timeline.start)
        last = max(last, timeline.start + max(feed.times[-1] for feed in self._load.feeds))
        self.run((last // SECOND + 1) * SECOND)
        self.catch_up(last, self._missing, RUNGS_CATCH_UP_NS - SECOND)
        self._check_stores()

    def check_nodes(self) -> None:
        self._take_events()
        self._check_state()

    def _missing(self) -> Violation | None:
        """Return a follower's missing messages; None if there are none."""
        for node, feeds in self._load.follows.items():
            for feed in feeds:
                told = self.told[node, feed.key]
                if told < len(feed.messages):
                    said = f"was told of {told} of {len(feed.messages)} of {feed.key[:6]}"
                    return Violation("delivery", node, said)
        return None

    def _take_events(self) -> None:
        for event in self._emulation.take_events():
            self.coverage[event["event"]] += 1
            self.record(repr(sorted(event.items())))
            if event["event"] == "error":
                raise Violation("error", event["node"], event["detail"])
            if event["event"] == "delivered":
                self.deliver(event["node"], event["feed"], event["seq"])

    def _check_state(self) -> None:
        for name, node in self._emulation.nodes.items():
            assert isinstance(node, RungNode)
            replication = node._peer.protocol
            connected = [c.number for c in node._peer.connections.values() if c.replication is not None]
            if sorted(replication.sessions) != sorted(connected):
                raise Violation(
                    "state", name, f"keeps {len(replication.sessions)} of {len(connected)} sessions"
                )
            held = node.held()
            connections, exchanges = held["connections"].entries, held["exchanges"].entries
            if exchanges > connections * len(self._load.feeds):
                raise Violation("state", name, f"keeps {exchanges} feeds on {connections} connections")

    def _check_stores(self) -> None:
        for name, feeds in self._load.follows.items():
            node = self._emulation.nodes[name]
            assert isinstance(node, RungNode)
            for feed in feeds:
                held = [stored.text for stored in node._store.after(feed.key, 0, len(feed.messages) + 1)]
                if held != [message.encoded for message in feed.messages]:
                    raise Violation("whole", name, f"holds other messages of {feed.key[:5]}")


PASSES = emulated("starts", "readers", "writers")

RUNGS = Family("rungs", Climb, make_rungs, _World, RUNGS_CATCH_UP_NS, PASSES, CHANGES)
