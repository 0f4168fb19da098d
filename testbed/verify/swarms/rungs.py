"""Rungs of the replication ladder under every fault: `feednet simulate --rungs`.

A seed draws a rung, a network that loses and reorders frames, who writes and who follows, links that are down
for a while, and nodes that restart. Soon after the last fault, every follower must have been told of every
message once, in order, and hold it byte for byte. After every second, no peer may keep state of more feeds
than its open connections can account for, nor any state of a connection that is closed.
"""

import hashlib
from collections import Counter
from itertools import pairwise
from random import Random
from typing import Any

from base.units import SECOND
from testbed.experiment.emulated_run import Emulation
from testbed.layerings.kinds.ladder import RUNGS, RungNode
from testbed.scenario.model import Scenario
from testbed.scenario.workload import load
from testbed.verify.simulate.invariants import Violation
from testbed.verify.simulate.world import Outcome, watched

RUNGS_CATCH_UP_NS = 240 * SECOND
"""TCP that has waited for a link doubles its pauses, and gossip draws whom it calls."""
_WARMUP_MS = 100


def make_rungs(seed: int) -> Scenario:
    """Draw a story: a scenario of one layering."""
    rng = Random(f"rungs {seed}")
    peers = [f"p{number}" for number in range(rng.randint(2, 6))]
    routers = [f"r{number}" for number in range(rng.randint(1, 2))]
    ends = [(peer, rng.choice(routers)) for peer in peers] + list(pairwise(routers))
    is_bad = rng.random() < 0.6
    links = [
        {"a": a, "b": b, "delay_ms": rng.choice([0.5, 5.0, 40.0])} | _badness(rng, is_bad) for a, b in ends
    ]
    rung = rng.choice([*RUNGS])
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
    return Scenario.model_validate(
        {
            "name": f"rungs {seed}",
            "title": rung,
            "seed": seed,
            "layerings": (rung,),
            "parameters": {rung: parameters},
            "topology": {"links": links},
            "publishers": tuple(writers),
            "publisher": writers[0],
            "subscribers": tuple(readers or peers[:1]),
            "workload": {
                "items": rng.randint(feeds, 40),
                "feeds": feeds,
                "schedule": {"speed": 1e6, "idle_limit_ms": 50.0},
            },
            "events": tuple(_events(rng, [*peers, *routers], ends)),
            "plans": {
                peer: {"start_ms": float(rng.randint(0, 3000))} for peer in readers if rng.random() < 0.2
            },
            "warmup_ms": _WARMUP_MS,
            "settle_ms": RUNGS_CATCH_UP_NS // 1_000_000,
        }
    )


def _badness(rng: Random, is_bad: bool) -> dict[str, float]:
    if not is_bad or rng.random() < 0.3:
        return {}
    return {
        "loss_percent": rng.choice([0.0, 1.0, 5.0]),
        "reorder_percent": rng.choice([0.0, 2.0]),
        "duplicate_percent": rng.choice([0.0, 2.0]),
    }


def _events(rng: Random, nodes: list[str], links: list[tuple[str, str]]) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = [
        {"at_ms": rng.randint(0, 4000), "restart": rng.choice(nodes)} for _ in range(rng.randint(0, 3))
    ]
    for a, b in rng.sample(links, rng.randint(0, min(2, len(links)))):
        begin, signalled = rng.randint(0, 3000), rng.random() < 0.5
        end = begin + rng.randint(1, 5000)
        events.append({"at_ms": begin, "link_down": f"{a} {b}", "signalled": signalled})
        events.append({"at_ms": end, "link_up": f"{a} {b}", "signalled": signalled})
    return events


def play_rungs(seed: int) -> Outcome:
    """Play a seed's story."""
    world = _World(make_rungs(seed))
    outcome = watched(world.run, "the network")
    outcome.time = world.emulation.network.now
    outcome.digest = world.digest.hexdigest()
    outcome.coverage = world.coverage
    return outcome


class _World:
    """A story that is played."""

    def __init__(self, scenario: Scenario) -> None:
        [self._rung] = scenario.layerings
        self._load = load(scenario)
        self.emulation = Emulation(scenario, self._rung, self._load)
        self._told: dict[tuple[str, str], int] = {}
        self.digest = hashlib.sha256()
        self.coverage: Counter[str] = Counter([self._rung])

    def run(self, outcome: Outcome) -> None:
        """Run until all have all; raise Violation."""
        timeline = self.emulation.timeline
        last = max([time for time, _ in timeline.changes], default=timeline.start)
        last = max(last, timeline.start + max(feed.times[-1] for feed in self._load.feeds))
        while self._missing() or self.emulation.network.now <= last:
            if self.emulation.network.now > last + RUNGS_CATCH_UP_NS - SECOND:
                raise Violation("delivery", *self._missing())
            self.emulation.run(self.emulation.network.now + SECOND)
            self._take_events()
            self._check_state()
        outcome.caught_up = max(0, self.emulation.network.now - last)
        self._check_stores()

    def _missing(self) -> tuple[str, str] | tuple[()]:
        """Return a follower that lacks a message, and which; () if there is none."""
        for node, feeds in self._load.follows.items():
            for feed in feeds:
                told = self._told.get((node, feed.key), 0)
                if told < len(feed.messages):
                    return node, f"was told of {told} of {len(feed.messages)} of {feed.key[:5]}"
        return ()

    def _take_events(self) -> None:
        for event in self.emulation.take_events():
            self.coverage[event["event"]] += 1
            self.digest.update(repr(sorted(event.items())).encode())
            if event["event"] == "error":
                raise Violation("error", event["node"], event["detail"])
            if event["event"] == "delivered":
                place = event["node"], event["feed"]
                if event["seq"] != self._told.get(place, 0) + 1:
                    said = f"{event['seq']} follows {self._told.get(place, 0)} of {event['feed'][:5]}"
                    raise Violation("order", event["node"], said)
                self._told[place] = event["seq"]

    def _check_state(self) -> None:
        for name, node in self.emulation.nodes.items():
            assert isinstance(node, RungNode)
            replication = node._peer._replication
            connected = [c.number for c in node._peer.connections.values() if c.replication is not None]
            if sorted(replication.sessions()) != sorted(connected):
                raise Violation(
                    "state", name, f"keeps {len(replication.sessions())} of {len(connected)} sessions"
                )
            held = node.held()
            connections, exchanges = held["connections"].entries, held["exchanges"].entries
            if exchanges > connections * len(self._load.feeds):
                raise Violation("state", name, f"keeps {exchanges} feeds on {connections} connections")

    def _check_stores(self) -> None:
        for name, feeds in self._load.follows.items():
            node = self.emulation.nodes[name]
            assert isinstance(node, RungNode)
            for feed in feeds:
                held = [stored.text for stored in node._store.after(feed.key, 0, len(feed.messages) + 1)]
                if held != [message.encoded for message in feed.messages]:
                    raise Violation("whole", name, f"holds other messages of {feed.key[:5]}")
