"""A name service, storages, devices and readers in the emulator, and their invariants.

- A reader gets each item of a followed feed once, in order, and all of them within CATCH_UP_NS of the last
  event.
- Nobody is deceived: a server's or a resolver's record of an id is signed by the id's key, and its sequence
  never decreases. A storage's log contains what its author has written.
- State returns to zero: after readers and devices have ended, no Interest is pending, resolvers are empty,
  servers drop expired records, and nothing is sent.
"""

from functools import cache
from hashlib import sha256
from random import Random
from typing import Any

from base.endpoint import LinkPort, Program
from base.units import MS, SECOND
from forwarder.forwarder import Forwarder
from forwarder.host import Host
from forwarder.wire.packet import parse_data
from ssb.application import Plan
from ssb.generate import generate_feed
from ssb.keys import Identity, parse_feed, verify
from ssb.message import Message
from ssb_over_ndn.mapping.record import Record
from ssb_over_ndn.naming import message_packet
from testbed.layerings.kinds.link import LINK, LinkNode
from testbed.layerings.nodes.node import AppState, Context
from testbed.layerings.nodes.workload import Feed, Workload
from testbed.scenario.sections import TopologySpec
from testbed.verify.kit.changes import CHANGES
from testbed.verify.kit.family import Family
from testbed.verify.kit.outcome import OutcomeOptions, Violation
from testbed.verify.kit.shrink import emulated
from testbed.verify.kit.story import Step
from testbed.verify.kit.world import World
from testbed.verify.mapping.forger import Forger, Liar
from testbed.verify.mapping.story import FORGER, Region, make_story
from topologies.emulator.network import EmulatedNetwork
from topologies.routing import Routing

CATCH_UP_NS = 25 * SECOND
"""Half a record's lifetime until a device notices its loss by a service, a time to live in each cache on the
path, and a few consecutive time-outs of 4 s.
"""

_CONVERGE = 200 * MS
_FADE = 30 * SECOND
"""Longer than any Interest, record or sweep lasts."""


@cache
def _messages(seed: bytes, count: int) -> tuple[Message, ...]:
    return tuple(generate_feed(Random(seed), count, Identity.from_seed(seed)))


class _World(World[Region]):
    JOINT = "\n"

    def __init__(self, story: Region, wanted: OutcomeOptions) -> None:
        super().__init__(story, wanted)
        self.topology = TopologySpec(links=tuple(dict(link) for link in story.links)).build()
        self._feeds: dict[str, Feed] = {}
        for device, times in story.items.items():
            seed = sha256(f"{story.seed} {device}".encode()).digest()
            self._feeds[device] = Feed(device, _messages(seed, len(times)), times, Identity.from_seed(seed))
        self._by_key = {feed.key: feed for feed in self._feeds.values()}
        follows = {
            reader: tuple(self._feeds[device] for device in devices)
            for reader, devices in story.readers.items()
        }
        self._workload = Workload(tuple(self._feeds.values()), follows)
        last = max([step.at for step in story.steps] + [max(times) for times in story.items.values()])
        self._calm = last + SECOND
        self._stop = self._calm + CATCH_UP_NS + SECOND
        self._down: set[int] = set()
        self._routing = Routing(paths="shortest")
        self._nodes: dict[str, LinkNode] = {}
        self._liars: dict[str, Liar] = {}
        self._seqs: dict[tuple[str, int, str], int] = {}
        self.network = EmulatedNetwork(self.topology, {}, seed=story.seed, capture=None)
        for device, places in story.devices.items():
            for place in places[1:]:
                self._set_link(device, place, up=False)
        self._routing = self._routing._replace(down=frozenset(self._down))
        for name in story.columns:
            self._start(name, AppState())
        self._forger = self._add_forger()

    def play(self) -> None:
        self.run_steps()
        self.run(self._calm - self.now)
        self._calm_down()
        self.catch_up(self.now, self._missing, CATCH_UP_NS)
        self._forger.stop()
        self.run(self._stop - self.now)
        self.run(_FADE + self.story.parameters["record_ms"] * MS)
        self._check_empty()
        self.fall_silent(lambda: self.network.frames, 0, 10 * SECOND)

    # Steps

    def do(self, step: Step) -> None:
        match step.do:
            case "leave" | "attach":
                self._set_link(*step.what, up=step.do == "attach")
                self._converge()
            case "cut" | "heal":
                if any({link.a, link.b} == {*step.what} for link in self.topology.links):
                    self._set_link(*step.what, up=step.do == "heal", signalled=self.story.signalled)
                    if self.story.signalled:
                        self._converge()
            case "restart":
                (name,) = step.what
                self._take_events(name)
                self._note_refused(name)
                self._start(name, self._nodes[name].state)
            case "lie" | "be honest":
                self._liars[step.what[0]].is_lying = step.do == "lie"
            case "forge":
                messages = {feed.key: feed.messages for feed in self._feeds.values()}
                self._forger.attack(step.what[0], messages, self.now)
                self._forger_host.settle(self.now)
                self.network.settle(FORGER)

    def _set_link(self, a: str, b: str, *, up: bool, signalled: bool = True) -> None:
        (self._down.discard if up else self._down.add)(self.topology.link_between(a, b))
        self.set_link(a, b, up=up, signalled=signalled)

    def _converge(self) -> None:
        """Update the routes, with a delay."""
        down = frozenset(self._down)
        self.network.change(self.now + _CONVERGE, lambda: self._reroute(down))

    def _reroute(self, down: frozenset[int]) -> None:
        self._routing = self._routing._replace(down=down)
        for name, node in self._nodes.items():
            node.reroute(self.topology, self._routing)
            self.network.settle(name)

    def _calm_down(self) -> None:
        """Repair all damage; devices stay, or return to their previous place."""
        for liar in self._liars.values():
            liar.is_lying = False
        for at in [*self._down]:
            link = self.topology.links[at]
            if link.a in self.story.routers and link.b in self.story.routers:
                self._set_link(link.a, link.b, up=True)
        for device, places in self.story.devices.items():
            if all(self.topology.link_between(device, place) in self._down for place in places):
                self._set_link(device, places[0], up=True)
        self._converge()

    def _start(self, name: str, state: AppState) -> None:
        story, is_anew = self.story, name in self._nodes
        plan = Plan(0, self._stop) if name in story.readers else None
        parameters = LINK.parameters.model_validate(story.parameters).model_dump()
        context = Context(
            name=name,
            network=self.topology,
            workload=self._workload,
            layering="link",
            parameters=parameters,
            seed=story.seed,
            start=0,
            stop=self._stop,
            plan=plan,
            state=state,
            since=self.now if is_anew else None,
            routing=self._routing,
        )
        self._nodes[name] = node = LinkNode(context, LINK)
        programs = node.programs
        if name in story.routers:
            (program,) = programs
            before = self._liars.get(name)
            self._liars[name] = liar = Liar(program.endpoint, story.seed)
            liar.is_lying = before is not None and before.is_lying
            programs = [Program(liar, program.ports)]
        self.network.replace(name, programs)

    def _add_forger(self) -> Forger:
        services = self._nodes[self.story.routers[0]].services
        authors = [feed.identity for feed in self._feeds.values() if feed.identity is not None]
        forger = Forger(authors, [*services.servers], [*services.stores], self.story.seed)
        self._forger_host = host = Host(Forwarder(rng=Random(self.story.seed), controlled_push=False))
        (end,) = self.topology.ends_of(FORGER)
        face = host.add_link()
        host.forwarder.fib.add(b"", face)
        host.attach(forger)
        self.network.replace(FORGER, [Program(host, {face: LinkPort(end)})])
        return forger

    # Invariants

    def check_nodes(self) -> None:
        for name, node in self._nodes.items():
            self._take_events(name)
            reader, server, storage = node.reader, node.server, node.storage
            if reader is not None:
                if len(reader.resolver) > len(self.story.readers[name]):
                    raise Violation("bounded", name, f"its resolver knows {len(reader.resolver)} feeds")
                for feed in self._feeds.values():
                    self._check_record(name, reader.resolver.record(feed.key), feed)
            if server is not None:
                for feed in self._feeds.values():
                    record = server.ledger.newest(feed.key)
                    self._check_record(f"server at {name}", record, feed)
            if storage is not None:
                for feed in self._feeds.values():
                    self._check_log(name, storage.messages_of(feed.key), feed)

    def _check_record(self, who: str, record: Record | None, feed: Feed) -> None:
        if record is None:
            return
        data = parse_data(record.wire)
        if record.author != feed.key or not verify(parse_feed(feed.key), data.signature, data.signed):
            raise Violation("deceived", who, f"believes a record that {feed.publisher} has not signed")
        node = self._nodes[who.removeprefix("server at ")]
        place = who, id(node), feed.key
        if record.seq < self._seqs.get(place, 0):
            raise Violation("deceived", who, f"goes back from record {self._seqs[place]} to {record.seq}")
        self._seqs[place] = record.seq

    def _check_log(self, who: str, stored: list[bytes], feed: Feed) -> None:
        genuine = [parse_data(message_packet(message)).content for message in feed.messages]
        if stored != genuine[: len(stored)]:
            raise Violation("authentic", who, f"stores what {feed.publisher} has not written")

    def _take_events(self, name: str) -> None:
        for row in self._nodes[name].take_events():
            if row["event"] != "delivered":
                continue
            feed, seq = self._by_key[row["feed"]], row["seq"]
            self.coverage["delivered"] += 1
            self.record(f"{row['time']} {name} {feed.publisher} {seq}")
            self.deliver(name, feed.key, seq)
            if row["bytes"] != len(feed.messages[seq - 1].encoded):
                raise Violation("authentic", name, f"gets another item {seq} of {feed.publisher}")

    def _missing(self) -> Violation | None:
        """Return a reader's missing item; None if there is none."""
        for reader, devices in self.story.readers.items():
            for device in devices:
                feed = self._feeds[device]
                got = self.told[reader, feed.key]
                if got < len(feed.messages):
                    said = f"has {got} of {len(feed.messages)} items of {device}"
                    return Violation("delivery", reader, said)
        return None

    def _check_empty(self) -> None:
        for name, node in self._nodes.items():
            self._note_refused(name)
            left: dict[str, Any] = {"PIT entries": len(node.host.forwarder.pit)}
            if node.reader is not None:
                left["records in its resolver"] = len(node.reader.resolver)
                left["questions"] = node.reader.resolver.waiting
            if node.server is not None:
                left["records"] = len(node.server.ledger)
            left["alarm at"] = node.host.next_deadline()
            what = ", ".join(f"{word} {value}" for word, value in left.items() if value)
            if what:
                raise Violation("state-zero", name, f"all is over, but there is: {what}")

    def _note_refused(self, name: str) -> None:
        node = self._nodes[name]
        refused = {
            "reader": node.reader and node.reader.resolver.refused,
            "server": node.server and node.server.ledger.refused,
            "storage": node.storage and node.storage.refused,
        }
        for who, counts in refused.items():
            self.coverage.update({f"{who} refused: {what}": count for what, count in (counts or {}).items()})


MAPPING = Family("mapping", Region, make_story, _World, CATCH_UP_NS, emulated("readers", "devices"), CHANGES)
