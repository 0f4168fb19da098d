"""Nodes in one radio cell of the emulator."""

from collections.abc import Mapping
from random import Random
from typing import Any

from ssb.keys import Identity
from ssb.tiny.asking import Timing
from ssb.tiny.node import GROUP, PORT, Node
from ssb.tiny.store import TinyStore
from topologies.emulator.network import EmulatedNetwork
from topologies.endpoint import Endpoint, GroupPort, Program
from topologies.model import Medium, Topology

SECOND = 1_000_000_000


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
