"""Networks of tinySSB nodes in virtual time: plain ones, and providers of tinyISP with their clients."""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final

from base.endpoint import GroupPort, Program
from base.units import SECOND
from ssb.keys import Identity
from ssb.tiny.isp.client import Client
from ssb.tiny.isp.events import Event
from ssb.tiny.isp.facts import OPEN
from ssb.tiny.isp.party import BaseParty
from ssb.tiny.isp.provider.provider import Provider
from ssb.tiny.isp.subscription import STANDS
from ssb.tiny.isp.terms import Terms
from ssb.tiny.node import GROUP, PORT, Node
from ssb.tiny.requests import Timing
from ssb.tiny.store import TinyStore
from topologies.emulator.network import EmulatedNetwork
from topologies.model import Link, Medium, Topology

ISP: Final = "isp"
ON_LINKS: Final = Timing(spread=0)
"""On a link nobody else could answer."""
_STEP = SECOND // 10
_PATIENCE_S = 600
_NEWS_S = 3
"""Time in which providers exchange their clients."""


def star(pairs: Sequence[tuple[str, str]]) -> Topology:
    """Return a network with a link of 1 Mbit/s and 5 ms between the nodes of each pair."""
    names = dict.fromkeys(name for pair in pairs for name in pair)
    return Topology(tuple(names), tuple(Link(*pair, bw_mbit=1.0, delay_ms=5.0) for pair in pairs))


def cell(names: Sequence[str], **medium: Any) -> Topology:
    """Return a radio cell with these parameters, in which all nodes hear each other."""
    return Topology(tuple(names), (), (Medium(name="cell", members=tuple(names), **medium),))


class TinyNetwork:
    """A tinySSB node at each node of a topology.

    Args:
        topology: the nodes, and their links or cells.
        timing: of all nodes.
        make: makes a node.
        seed: of the links and the nodes.

    Attributes:
        nodes: by name. Port n of a node leads to its n-th interface.
    """

    def __init__(
        self, topology: Topology, timing: Timing, make: Callable[..., Node] = Node, seed: int = 1
    ) -> None:
        self.seed = seed
        self.nodes: dict[str, Node] = {}
        programs = {}
        for name in topology.nodes:
            own = topology.interfaces_of(name)
            ports = {number: GroupPort(each, GROUP, PORT) for number, each in enumerate(own, start=1)}
            self.nodes[name] = make(TinyStore(), Random(f"{seed} {name}"), timing, ports=ports)
            programs[name] = [Program(self.nodes[name], ports)]
        self.network = EmulatedNetwork(topology, programs, seed=seed, capture=None)

    @property
    def now(self) -> int:
        """Virtual time, ns."""
        return self.network.now

    def run(self, seconds: float, until: Callable[[], bool] = lambda: False) -> bool:
        """Run until `until()` is true, or the time is over; return whether it is true."""
        end = self.now + round(seconds * SECOND)
        for name in self.nodes:
            self.network.settle(name)
        while not until():
            if self.now >= end:
                return False
            self.network.run(min(end, self.now + _STEP))
        return True

    def run_until(self, until: Callable[[], bool]) -> None:
        """Run until `until()` is true. Raises TimeoutError after ten minutes."""
        if not self.run(_PATIENCE_S, until):
            raise TimeoutError(f"nothing has come in {_PATIENCE_S} s")

    def size(self, name: str) -> int:
        """Return a node's stored packet bytes."""
        return self.nodes[name].store.size()


class ProviderNetwork(TinyNetwork):
    """Providers of tinyISP and their clients.

    Args:
        clients: client -> its provider; or the number of clients c0, c1, ... of the provider "isp".
        terms: of all contracts.
        peers: pairs of providers; the first requests a contract from the second.
        medium: parameters of a common cell; without, each client has a link to its provider, and so have
            peers.
        timing: of all nodes; without, the default of a cell or of links.
        make: makes a node.
        kinds: party -> its class; without, Provider or Client.
        signs_up: whether all contracts are signed at once; else sign_up() does it.
        seed: of the network, the keys and the nodes.

    Attributes:
        providers, clients: by name.
        provider_of: client -> its provider.
    """

    def __init__(
        self,
        clients: Mapping[str, str] | int,
        terms: Terms = Terms(),  # noqa: B008 - immutable
        *,
        peers: Sequence[tuple[str, str]] = (),
        medium: Mapping[str, Any] | None = None,
        timing: Timing | None = None,
        make: Callable[..., Node] = Node,
        kinds: Mapping[str, Any] | None = None,
        signs_up: bool = True,
        seed: int = 1,
    ) -> None:
        if isinstance(clients, int):
            clients = {f"c{number}": ISP for number in range(clients)}
        self.provider_of = dict(clients)
        isps = sorted({*clients.values(), *(isp for pair in peers for isp in pair)})
        if medium is None:
            topology = star([*peers, *((isp, client) for client, isp in clients.items())])
        else:
            topology = cell([*isps, *clients], **medium)
        super().__init__(topology, timing or (ON_LINKS if medium is None else Timing()), make, seed)
        self._peers = peers
        self._events: dict[str, list[Event]] = {name: [] for name in self.nodes}

        def party(name: str, usual: type[BaseParty]) -> Any:
            root = Identity.from_seed(Random(f"root {seed} {name}").randbytes(32))
            kind = (kinds or {}).get(name, usual)
            return kind(self.nodes[name], root, Random(f"keys {seed} {name}"), terms, 0)

        self.providers: dict[str, Provider] = {name: party(name, Provider) for name in isps}
        self.clients: dict[str, Client] = {name: party(name, Client) for name in clients}
        self.parties: dict[str, BaseParty] = {**self.providers, **self.clients}
        for one, other in peers:
            self.providers[one].peer(self.key(other), 0)
            self.providers[other].peer(self.key(one), 0)
        if signs_up:
            self.sign_up()

    def key(self, name: str) -> bytes:
        """Return the root feed of a party."""
        return self.parties[name].root.public_key

    def events(self, name: str) -> list[Event]:
        """Return all events of a party."""
        self._events[name] += self.parties[name].take_events()
        return self._events[name]

    def request_contracts(self, *names: str) -> list[tuple[str, str]]:
        """Let clients request contracts from their providers, by default all, and peers from each other.

        Return the pairs of requester and provider.
        """
        pairs = [(name, self.provider_of[name]) for name in names]
        pairs = pairs or [*self._peers, *self.provider_of.items()]
        for asker, asked in pairs:
            self.parties[asked].follow(self.key(asker), self.now)
            self.parties[asker].follow(self.key(asked), self.now)
            self.parties[asker].onboard(self.key(asked), self.now)
        return pairs

    def sign_up(self, *names: str) -> None:
        """Start clients and sign their contracts, by default all, and those of peers."""
        pairs = self.request_contracts(*names)
        self.run_until(lambda: all(self._stands(*pair) and self._stands(*pair[::-1]) for pair in pairs))
        if self._peers:
            self.run(_NEWS_S)

    def _stands(self, name: str, other: str) -> bool:
        contract = self.parties[name].contracts.current(self.key(other))
        return contract is not None and contract.facts.state == OPEN

    def request(self, asker: str, asked: str) -> bytes:
        """Let a client request a subscription from another; return its reference."""
        isp = self.key(self.provider_of[asker])
        return self.clients[asker].subscribe(isp, self.key(asked), self.now)

    def subscribe(self, asker: str = "c0", asked: str = "c1") -> bytes:
        """Subscribe one client to another; return the reference of the subscription."""
        ref = self.request(asker, asked)
        self.run_until(lambda: ref in self.clients[asked].subscriptions)
        self.clients[asked].answer(ref, self.now, accept=True)
        self.run_until(lambda: self.clients[asker].subscriptions[ref].state == STANDS)
        return ref

    def send(self, name: str, ref: bytes, contents: Sequence[bytes]) -> None:
        """Let a client send contents over a subscription."""
        for content in contents:
            self.clients[name].send(ref, content, self.now)

    def receive(self, name: str, ref: bytes, count: int, seconds: float = _PATIENCE_S) -> list[bytes]:
        """Let a client read a subscription until it has `count` contents or the time is over; return them."""
        client, found = self.clients[name], list[bytes]()

        def is_read() -> bool:
            page = client.read(ref, 1000)
            found.extend(entry.content for entry in page)
            if page:
                client.confirm(ref, page[-1].sequence, self.now)
                self.network.settle(name)
            return len(found) >= count

        self.run(seconds, is_read)
        return found
