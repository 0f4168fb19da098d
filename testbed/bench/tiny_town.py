"""A provider of tinyISP and its clients, each on a link of its own, in virtual time, for studies."""

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

from analysis.decode.protocols.tiny import DECLARATION
from ssb.keys import Identity
from ssb.tiny.asking import Timing
from ssb.tiny.isp.client import Client
from ssb.tiny.isp.facts import OPEN
from ssb.tiny.isp.provider import Provider
from ssb.tiny.isp.subscription import STANDS
from ssb.tiny.isp.terms import SECOND, Terms
from ssb.tiny.node import GROUP, PORT, Node
from ssb.tiny.store import TinyStore
from topologies.emulator.network import EmulatedNetwork
from topologies.endpoint import Address, GroupPort, Program
from topologies.model import Link, Topology

ISP: Final = "isp"
_ON_LINKS = Timing(spread=0)
_STEP = SECOND // 10
_PATIENCE = 600 * SECOND


class Metered(Node):
    """A node that counts the bytes that it sends, with their CRC, by port and kind of packet."""

    def __init__(self, *rest: Any, **more: Any) -> None:
        super().__init__(*rest, **more)
        self.bytes: Counter[tuple[int, str]] = Counter()
        self.packets: Counter[tuple[int, str]] = Counter()

    def take_outputs(self) -> list[tuple[int, bytes, Address | None]]:
        """See Endpoint."""
        outputs = super().take_outputs()
        for port, packet, _ in outputs:
            assert DECLARATION.datagram is not None
            kind = DECLARATION.datagram(packet).kind
            self.bytes[port, kind] += len(packet)
            self.packets[port, kind] += 1
        return outputs


class Even(Metered):
    """A node that serves all sets alike."""

    def join(self, name: str, keys: Any, now: int, *, priority: int = 0, **more: Any) -> None:
        """See Node."""
        super().join(name, keys, now, **more)


class Town:
    """A provider's node and those of its clients c0, c1, ...; the provider's port n leads to client n - 1."""

    def __init__(
        self,
        clients: int,
        timing: Timing = _ON_LINKS,
        kind: type[Metered] = Metered,
        seed: int = 1,
    ) -> None:
        names = [f"c{number}" for number in range(clients)]
        links = tuple(Link(ISP, name, bw_mbit=1.0, delay_ms=5.0) for name in names)
        topology = Topology((ISP, *names), links)
        self.seed = seed
        self.nodes: dict[str, Metered] = {}
        programs = {}
        for name in topology.nodes:
            own = (end for end in topology.link_ends if end.node == name)
            ports = {number: GroupPort(end, GROUP, PORT) for number, end in enumerate(own, start=1)}
            self.nodes[name] = kind(TinyStore(), Random(f"{seed} {name}"), timing, ports=ports)
            programs[name] = [Program(self.nodes[name], ports)]
        self.network = EmulatedNetwork(topology, programs, seed=seed, capture=None)
        self.isp: Provider
        self.clients: dict[str, Client] = {}

    @property
    def now(self) -> int:
        """Virtual time, ns."""
        return self.network.now

    def identity(self, name: str) -> Identity:
        """Return a node's root."""
        return Identity.from_seed(Random(f"root {self.seed} {name}").randbytes(32))

    def size(self, name: str) -> int:
        """Return bytes of packets that a node stores."""
        return self.nodes[name].store.size()

    def sent(self, number: int, kinds: Sequence[str] = tuple(DECLARATION.kinds)) -> tuple[int, int]:
        """Return packets and bytes that were sent on the link to a client, both ways."""
        ends = ((self.nodes[ISP], number + 1), (self.nodes[f"c{number}"], 1))
        packets = sum(node.packets[port, kind] for node, port in ends for kind in kinds)
        return packets, sum(node.bytes[port, kind] for node, port in ends for kind in kinds)

    def run(self, until: Callable[[], bool]) -> None:
        """Run until something is so. Raises TimeoutError."""
        end = self.now + _PATIENCE
        for name in self.nodes:
            self.network.settle(name)
        while not until():
            if self.now > end:
                raise TimeoutError("the study does not end")
            self.network.run(self.now + _STEP)

    def wait(self, seconds: float) -> None:
        """Run for some time."""
        end = self.now + round(seconds * SECOND)
        self.run(lambda: self.now >= end)

    def open(self, terms: Terms) -> None:
        """Begin with the provider."""
        random = Random(f"keys {self.seed}")
        self.isp = Provider(self.nodes[ISP], self.identity(ISP), random, terms, self.now)

    def sign_up(self, terms: Terms, *names: str) -> None:
        """Let clients have contracts."""
        for name in names:
            random = Random(f"keys {self.seed} {name}")
            client = Client(self.nodes[name], self.identity(name), random, terms, self.now)
            self.isp.follow(client.root.public_key, self.now)
            client.follow(self.isp.root.public_key, self.now)
            client.onboard(self.isp.root.public_key, self.now)
            self.clients[name] = client
        self.run(lambda: all(self._stands(self.clients[name]) for name in names))

    def _stands(self, client: Client) -> bool:
        contract = client.contract_with(self.isp.root.public_key)
        return contract is not None and contract.facts.state == OPEN

    def subscribe(self, asker: str, asked: str) -> bytes:
        """Let two clients have a subscription; return its reference."""
        one, other = self.clients[asker], self.clients[asked]
        ref = one.subscribe(self.isp.root.public_key, other.root.public_key, self.now)
        self.run(lambda: ref in other.subscriptions)
        other.answer(ref, self.now, accept=True)
        self.run(lambda: one.subscriptions[ref].state == STANDS)
        return ref

    def tunnel(self, ref: bytes, sender: str, reader: str, contents: Sequence[bytes]) -> None:
        """Send contents over a subscription, and read them all."""
        for content in contents:
            self.clients[sender].send(ref, content, self.now)
        got: list[bytes] = []

        def is_read() -> bool:
            page = self.clients[reader].read(ref, 1000)
            got.extend(entry.content for entry in page)
            if page:
                self.clients[reader].confirm(ref, page[-1].sequence, self.now)
                self.network.settle(reader)
            return len(got) >= len(contents)

        self.run(is_read)
        assert got == [*contents]
