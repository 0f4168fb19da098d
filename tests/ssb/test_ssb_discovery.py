"""Peers on a medium find each other by announcements, and replicate."""

from random import Random

from base.endpoint import GroupPort, Program, StreamPort
from base.units import SECOND
from ssb.generate import generate_feed
from ssb.keys import Identity
from ssb.peer.options import BROADCAST, PORT, PeerOptions
from ssb.peer.peer import Peer
from ssb.store.clocks import MemoryClocks
from ssb.store.memory import MemoryFeeds
from ssb.transport.address import PeerAddress
from topologies.emulator.network import EmulatedNetwork
from topologies.model import Medium, Topology

NAMES = ("ann", "ben", "cat")
FEED = generate_feed(Random(1), 20, Identity.from_seed(b"f" * 32))


def identity(name: str) -> Identity:
    return Identity.from_seed(name.encode().ljust(32))


def cell(announcing: tuple[str, ...]) -> tuple[EmulatedNetwork, dict[str, Peer], dict[str, MemoryFeeds]]:
    topology = Topology(NAMES, (), (Medium("cell", NAMES, bw_mbit=10.0, delay_ms=2.0),))
    peers, stores, programs = {}, {}, {}
    for attachment in topology.attachments:
        name = attachment.node
        stores[name] = store = MemoryFeeds()
        here = PeerAddress(topology.address(name), PORT, identity(name).ref)
        announcements = {2: here} if name in announcing else {}
        peers[name] = peer = Peer(
            identity(name),
            store,
            MemoryClocks(),
            [FEED[0].author],
            PeerOptions(),
            Random(name),
            announcements=announcements,
        )
        ports = {1: StreamPort(PORT), 2: GroupPort(attachment, BROADCAST, PORT)}
        programs[name] = [Program(peer, ports)]
    return EmulatedNetwork(topology, programs, seed=1, capture=None), peers, stores


def test_all_find_all_and_what_one_has_the_others_get() -> None:
    network, peers, stores = cell(NAMES)
    stores["ann"].append(FEED, 0.0)
    network.run(5 * SECOND)
    for name, peer in peers.items():
        others = {identity(other).ref for other in NAMES if other != name}
        assert {connection.remote for connection in peer.connections.values()} == others
        assert stores[name].tips() == {FEED[0].author: len(FEED)}


def test_one_that_is_silent_finds_and_is_called_by_nobody() -> None:
    network, peers, _ = cell(("ann",))
    network.run(5 * SECOND)
    assert len(peers["ann"].connections) == 2
    assert [len(peers[name].connections) for name in ("ben", "cat")] == [1, 1]


def test_what_is_no_announcement_is_passed_over() -> None:
    _, peers, _ = cell(NAMES)
    peer = peers["ann"]
    own = str(PeerAddress("192.0.2.9", PORT, identity("ann").ref)).encode()
    for payload in (b"", b"\xff", b"net:x~shs:y", own):
        peer.receive(2, payload, ("192.0.2.7", PORT), 0)
    assert peer.take_actions() == []
