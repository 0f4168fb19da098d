"""A whole network in virtual time for tests: small, seeded, and looked at from outside."""

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from random import Random
from tempfile import NamedTemporaryFile
from typing import Any

import pcapng_oracle
from datagrams import parse_udp

from captures.formats.pcapng import Direction, Writer
from forwarder.links.link import LinkService
from forwarder.wire.feed import split_item
from forwarder.wire.lp import open_data
from ssb.generate import generate_feed
from ssb.message import Message
from testbed.experiment.emulated_run import Emulation
from testbed.experiment.files import capture_interfaces
from testbed.layerings.nodes.node import Node
from testbed.layerings.nodes.workload import Workload
from testbed.scenario.model import Scenario
from testbed.scenario.timeline import Timeline
from testbed.scenario.workload import load

_FEEDS: dict[int, list[Message]] = {}
_LOADS: dict[str, Workload] = {}


def feed_of(items: int) -> list[Message]:
    """A generated feed, the same for every test that asks for so many items."""
    if items not in _FEEDS:
        _FEEDS[items] = generate_feed(Random(7), items)
    return _FEEDS[items]


def load_of(wanted: Scenario) -> Workload:
    """A scenario's load, made once for all tests that ask for the same."""
    never = {"layerings", "parameters", "strategies", "plans", "settle_ms", "drain_ms"}
    # What authors of an application have read depends on what happens to links.
    key = wanted.model_dump_json(exclude=never | (set() if wanted.workload.application else {"events"}))
    if key not in _LOADS:
        _LOADS[key] = load(wanted)
    return _LOADS[key]


def scenario(**changes: Any) -> Scenario:
    """A small scenario: a tree of depth 2, two layerings."""
    table: dict[str, Any] = {
        "name": "test",
        "title": "test",
        "layerings": ("poll", "lli"),
        "topology": {"generator": "tree", "depth": 2, "fanout": 2, "link": {"delay_ms": 5.0}},
        "workload": {"items": 20, "schedule": {"speed": 1e6, "idle_limit_ms": 50.0}},
        "subscribers": ("s1", "s2", "s3", "s4"),
        "warmup_ms": 100,
    }
    return Scenario.model_validate(table | changes)


@dataclass
class Seen:
    """A packet on an interface: one of the capture's frames, or several reassembled."""

    interface: str
    sent: bool
    time: int
    packet: bytes


@dataclass
class Result:
    """What a run left behind."""

    nodes: dict[str, Node]
    events: dict[str, list[dict[str, Any]]]
    capture: bytes
    timeline: Timeline
    load: Workload

    @cached_property
    def packets(self) -> list[Seen]:
        """What was sent and received, reassembled; read from the capture when somebody asks."""
        return _packets(self.capture)

    def delivered(self, node: str, feed: int | None = None) -> list[int]:
        """Sequence numbers in the order that the application got them, of all feeds or of one."""
        name = None if feed is None else self.load.feeds[feed].key
        return [
            e["seq"]
            for e in self.events[node]
            if e["event"] == "delivered" and (name is None or e["feed"] == name)
        ]


def simulate(wanted: Scenario, layering: str, items: int | None = None, until_drained: bool = True) -> Result:
    """Run one layering; `items`, if given, replaces the scenario's."""
    if items is not None:
        workload = wanted.workload.model_copy(update={"items": items})
        wanted = wanted.model_copy(update={"workload": workload})
    published = load_of(wanted)
    file = BytesIO()
    capture = Writer(file, capture_interfaces(wanted.network), application="feednet")
    emulation = Emulation(wanted, layering, published, capture=capture)
    emulation.run(emulation.timeline.end if until_drained else emulation.timeline.stop)
    events: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for event in emulation.take_events():
        events[event["node"]].append(event)
    return Result(emulation.nodes, events, file.getvalue(), emulation.timeline, published)


def _packets(capture: bytes) -> list[Seen]:
    links: dict[tuple[str, bool], LinkService] = defaultdict(LinkService)
    seen = []
    with NamedTemporaryFile() as file:
        file.write(capture)
        file.flush()
        for captured in pcapng_oracle.read(file.name):
            view = parse_udp(captured.frame)
            if view is None:
                continue  # TCP
            frame = captured.frame[view.payload_offset : view.payload_offset + view.payload_length]
            interface, sent = captured.interface.name, captured.direction is Direction.OUT
            packet = links[interface, sent].receive(frame, captured.time)
            if packet is not None:
                seen.append(Seen(interface, sent, captured.time, packet))
    return seen


def item_in(packet: bytes) -> int | None:
    """The sequence number of the item in a packet, if there is one."""
    opened = open_data(packet)
    parts = split_item(opened[0].name) if opened else None
    return parts[1] if parts else None


def rough_times(seed: int) -> dict[str, Any]:
    """Changes of scenario(): two publishers in a tree that loses and reorders, with restarts and links that
    are down for a while."""
    random = Random(seed)
    nodes = ["pub", "r1", "r2", "s1", "s2", "s3", "s4"]
    events: list[dict[str, Any]] = [
        {"at_ms": random.randint(0, 1500), "restart": random.choice(nodes)} for _ in range(3)
    ]
    for link in random.sample(["pub r1", "pub r2", "r1 s1", "r1 s2", "r2 s3", "r2 s4"], 2):
        begin, signalled = random.randint(0, 1500), random.random() < 0.5
        events.append({"at_ms": begin, "link_down": link, "signalled": signalled})
        end = begin + random.randint(1, 3000)
        events.append({"at_ms": end, "link_up": link, "signalled": signalled})
    rough = {"delay_ms": 5.0, "loss_percent": 5.0, "reorder_percent": 2.0, "duplicate_percent": 2.0}
    return {
        "seed": seed,
        "topology": {"generator": "tree", "depth": 2, "fanout": 2, "link": rough},
        "publishers": ("pub", "s2"),
        "subscribers": ("s1", "s3", "s4"),
        "workload": {"items": 30, "feeds": 3, "schedule": {"speed": 1e6, "idle_limit_ms": 50.0}},
        "events": tuple(events),
    }


def assert_all_have_all(result: "Result", *nodes: str) -> None:
    """Nodes have been given every feed, in order and once; nobody has told of an error."""
    for node in nodes:
        for number, feed in enumerate(result.load.feeds):
            assert result.delivered(node, number) == list(range(1, len(feed.messages) + 1))
    assert not [event for rows in result.events.values() for event in rows if event["event"] == "error"]
