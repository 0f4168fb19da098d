"""Nodes in one radio cell of the emulator, and providers with their clients there."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from base.endpoint import Endpoint, GroupPort, Program
from base.units import SECOND
from ssb.keys import Identity
from ssb.tiny.isp.terms import Terms
from ssb.tiny.node import GROUP, PORT, Node
from ssb.tiny.requests import Timing
from ssb.tiny.store import TinyStore
from testbed.bench.tiny.provider_network import ProviderNetwork
from topologies.emulator.network import EmulatedNetwork
from topologies.model import Medium, Topology


def identity(number: int) -> Identity:
    return Identity.from_seed(Random(f"tiny {number}").randbytes(32))


def node(number: int, store: TinyStore | None = None, timing: Timing = Timing()) -> Node:  # noqa: B008
    return Node(store or TinyStore(), Random(number), timing)


def cell(endpoints: Mapping[str, Endpoint], seed: int = 1, **medium: Any) -> EmulatedNetwork:
    """Return a network in which all hear each other."""
    names = tuple(endpoints)
    topology = Topology(names, (), (Medium(name="cell", members=names, **medium),))
    ports = {at.node: GroupPort(at, GROUP, PORT) for at in topology.attachments}
    programs = {name: [Program(one, {1: ports[name]})] for name, one in endpoints.items()}
    return EmulatedNetwork(topology, programs, seed=seed, capture=None)


def provider_cell(
    clients: Mapping[str, str] | int = 2,
    terms: Terms = Terms(linger=30 * SECOND),  # noqa: B008 - immutable
    seed: int = 1,
    *,
    peers: Sequence[tuple[str, str]] = (),
    kinds: Mapping[str, Any] | None = None,
    signs_up: bool = True,
    **medium: float,
) -> ProviderNetwork:
    """Return providers and their clients, who all hear each other."""
    return ProviderNetwork(
        clients,
        terms,
        peers=peers,
        medium={"delay_ms": 1.0} | medium,
        kinds=kinds,
        signs_up=signs_up,
        seed=seed,
    )


def details(network: ProviderNetwork, name: str, kind: str) -> list[str]:
    """Return the details of all events of a kind at a party."""
    return [event.detail for event in network.events(name) if event.kind == kind]


def texts(name: str, count: int, size: int = 30) -> list[bytes]:
    return [f"{name} {number}".encode().ljust(size, b".") for number in range(count)]
