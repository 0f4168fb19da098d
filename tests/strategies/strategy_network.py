"""Whole networks under one strategy in virtual time, with applications that ask and answer."""

from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any

from base.units import MS
from forwarder.forwarder import Forwarder
from forwarder.host import Host
from forwarder.strategies import STRATEGIES
from forwarder.tables.face import Face
from forwarder.wire.lp import NO_ROUTE, parse_lp
from forwarder.wire.name import GENERIC, component, from_uri, prefix_ends, to_uri
from forwarder.wire.packet import DATA, INTEREST, make_data, make_interest, parse_data, parse_interest
from topologies.emulator.network import EmulatedNetwork
from topologies.model import Link, Topology, on_links
from topologies.routing import next_hops

_ANNOUNCEMENT = component(GENERIC, b"announcement")


class Producer:
    """Answers every Interest at once."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, str]] = []
        self._out: list[bytes] = []

    def receive(self, packet: bytes, now: int) -> None:
        fragment = parse_lp(packet).fragment
        if fragment[0] == INTEREST:
            name = parse_interest(fragment).name
            self.asked.append((now // MS, to_uri(name)))
            self._out.append(make_data(name, b"", freshness_ms=1))

    def take_outputs(self) -> list[bytes]:
        out, self._out = self._out, []
        return out

    def next_deadline(self) -> int | None:
        return None

    def wake(self, now: int) -> None:
        pass


class Consumer:
    """Sends Interests at given times, and notes what comes.

    Attributes:
        data: ms at which the Data of a name came, each time.
        nacks: (ms, name, reason).
    """

    def __init__(self, nonces: "count[int]") -> None:
        self.data: dict[str, list[int]] = {}
        self.nacks: list[tuple[int, str, int]] = []
        self._due: list[tuple[int, int, bytes, int, int]] = []
        self._nonces = nonces
        self._out: list[bytes] = []

    def ask(self, ms: int, uri: str, *, again_ms: int = 0, tries: int = 1, **fields: Any) -> None:
        """Send an Interest at `ms`, and every `again_ms` until Data come, `tries` times at most."""
        nonce = next(self._nonces)
        packet = make_interest(from_uri(uri), nonce=nonce, **{"must_be_fresh": True, **fields})
        heappush(self._due, (ms * MS, nonce, packet, again_ms, tries))

    def receive(self, packet: bytes, now: int) -> None:
        lp = parse_lp(packet)
        if lp.nack_reason is not None:
            name = to_uri(parse_interest(lp.fragment).name)
            self.nacks.append((now // MS, name, lp.nack_reason))
        elif lp.fragment[0] == DATA:
            self.data.setdefault(to_uri(parse_data(lp.fragment).name), []).append(now // MS)

    def take_outputs(self) -> list[bytes]:
        out, self._out = self._out, []
        return out

    def next_deadline(self) -> int | None:
        return self._due[0][0] if self._due else None

    def wake(self, now: int) -> None:
        while self._due and self._due[0][0] <= now:
            _, _, packet, again_ms, tries = heappop(self._due)
            interest = parse_interest(packet)
            if to_uri(interest.name) in self.data:
                continue
            self._out.append(packet)
            if tries > 1:
                nonce = next(self._nonces)
                again = interest.with_nonce(nonce)
                heappush(self._due, (now + again_ms * MS, nonce, again, again_ms, tries - 1))


class Net:
    """Nodes, links, and one strategy for all names.

    Args:
        links: "a b" or "a b <delay in ms> <loss in percent>"; 5 ms and 0 if they say nothing.
        strategy: its name, then parameters.
    """

    def __init__(self, *links: str, strategy: str, seed: int = 1, **parameters: str) -> None:
        joined = [_link(*text.split()) for text in links]
        nodes = tuple(dict.fromkeys(end for link in joined for end in (link.a, link.b)))
        self.topology = Topology(nodes, tuple(joined))
        self.hosts: dict[str, Host] = {}
        self.nonces = count(1)
        self._ribs: dict[str, dict[bytes, bytes]] = {}
        values = {name.replace("_", "-"): value for name, value in parameters.items()}
        for node in nodes:
            core = Forwarder(rng=Random(f"{seed} {node}"), controlled_push=False)
            core.choose_strategy(b"", STRATEGIES[strategy], values)
            self.hosts[node] = Host(core)
            self._attach_rib(node, core)
        self.faces: dict[tuple[str, str], int] = {}
        numbers = {}
        for interface in self.topology.link_ends:
            face = self.hosts[interface.node].add_link()
            self.faces[interface.node, interface.peer] = numbers[interface.name] = face
        programs = on_links(self.topology, self.hosts, numbers)
        self.network = EmulatedNetwork(self.topology, programs, seed=seed, capture=None)

    def core(self, node: str) -> Forwarder:
        return self.hosts[node].forwarder

    def face(self, node: str, peer: str) -> Face:
        return self.core(node).faces[self.faces[node, peer]]

    def interests(self, node: str, peer: str) -> int:
        """Interests that a node has sent to another."""
        return self.face(node, peer).out_interests

    def all_interests(self) -> int:
        """Interests on all links."""
        return sum(self.interests(*ends) for ends in self.faces)

    def route(self, node: str, prefix: str, to: str, cost: int = 0) -> None:
        self.core(node).fib.add(from_uri(prefix), self.faces[node, to], cost)

    def producer(self, node: str, prefix: str, *, routed: bool = True, announced: bool = False) -> Producer:
        """Attach a producer; every node gets all routes that lead there without coming back."""
        application = Producer()
        face = self.hosts[node].attach(application)
        self.core(node).fib.add(from_uri(prefix), face)
        if announced:
            self._ribs[node][from_uri(prefix)] = make_data(from_uri(prefix) + _ANNOUNCEMENT, b"")
        if routed:
            for other, ways in next_hops(self.topology, node).items():
                for interface, cost in ways:
                    self.route(other, prefix, interface.peer, cost)
        return application

    def consumer(self, node: str) -> Consumer:
        application = Consumer(self.nonces)
        self.hosts[node].attach(application)
        return application

    def set_link(self, ms: int, a: str, b: str, up: bool) -> None:
        """Break a link or mend it at a time; nobody is told."""
        link = self.topology.link_between(a, b)
        self.network.change(ms * MS, lambda: self.network.set_link(link, up, signalled=False))

    def set_delay(self, ms: int, a: str, b: str, delay_ms: int) -> None:
        """Make a link as slow as that, both ways, from a time on."""

        def change() -> None:
            for end in self.network._ends:
                for to, pipe in end.pipes:
                    if {end.interface.node, to.interface.node} == {a, b}:
                        pipe._delay = delay_ms * MS

        self.network.change(ms * MS, change)

    def run(self, ms: int) -> None:
        """Run until a time, from what tests have told applications to do since the last one."""
        for host in self.hosts.values():
            host.stir()
        self.network.run(ms * MS)

    def _attach_rib(self, node: str, core: Forwarder) -> None:
        """Keep announcements as a routing table would, but for their signatures and lifetimes."""
        rib = self._ribs[node] = {}

        def announce(face: int, announcement: bytes, now: int) -> None:
            prefix = parse_data(announcement).name.removesuffix(_ANNOUNCEMENT)
            rib[prefix] = announcement
            core.fib.add(prefix, face)

        def find(name: bytes, now: int) -> bytes | None:
            prefixes = [name[:end] for end in reversed(prefix_ends(name))]
            return next((rib[prefix] for prefix in prefixes if prefix in rib), None)

        def withdraw(face: int, name: bytes, now: int) -> None:
            prefix = core.fib.longest_prefix(name)
            if rib.pop(prefix, None) is not None:
                core.fib.remove(prefix, face)

        core.on_announcement, core.announcement_of, core.on_withdrawal = announce, find, withdraw


def _link(a: str, b: str, delay_ms: str = "5", loss_percent: str = "0") -> Link:
    return Link(a, b, delay_ms=float(delay_ms), loss_percent=float(loss_percent))


__all__ = ["MS", "NO_ROUTE", "Consumer", "Net", "Producer"]
