"""The layering lan in whole networks: peers meet by announcements alone; who meets nobody gets nothing."""

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pcapng_oracle
import pytest
from datagrams import parse_udp
from simulation import Result, scenario, simulate

from base.endpoint import Closed, Connect
from base.units import MS, SECOND
from captures.formats.pcapng import Direction
from ssb.keys import Identity
from ssb.peer.options import BROADCAST, PORT
from ssb.transport.address import PeerAddress, parse_address
from testbed.layerings.nodes.peer_role import peer_identity
from testbed.layerings.peers.lan import LanNode

READERS = tuple(f"s{number}" for number in range(1, 7))
ALL = list(range(1, 21))


def run(
    media: dict[str, tuple[str, ...]],
    readers: tuple[str, ...] = READERS,
    **changes: Any,
) -> Result:
    """Run `lan` with local networks, and a link from everybody to a node `net` that has no peer."""
    topology = {
        "links": [{"a": name, "b": "net"} for name in ("pub", *readers)],
        "media": [{"name": name, "members": list(members)} for name, members in media.items()],
        "link": {"delay_ms": 2.0},
    }
    given: dict[str, Any] = {"settle_ms": 4_000, "topology": topology, "subscribers": readers}
    return simulate(scenario(**given | changes), "lan")


def met(media: dict[str, tuple[str, ...]]) -> set[str]:
    """Return the readers that a chain of local networks joins with the author: the model."""
    found = {"pub"}
    while more := {each for members in media.values() if found & {*members} for each in members} - found:
        found |= more
    return found - {"pub"}


def announcements(result: Result, file: Path) -> list[tuple[str, int, PeerAddress]]:
    """Return sending interface, time and content of all announcements, as an independent reader has them."""
    file.write_bytes(result.capture)
    found = []
    for packet in pcapng_oracle.read(file):
        said = parse_udp(packet.frame)
        if said is not None and said.dst_port == PORT and packet.direction is Direction.OUT:
            assert (said.dst_ip, said.src_port, said.dst_mac) == (BROADCAST, PORT, b"\xff" * 6)
            text = packet.frame[said.payload_offset :][: said.payload_length].decode()
            found.append((packet.interface.name, packet.time, parse_address(text)))
            assert str(found[-1][2]) == text
    return found


@pytest.mark.parametrize("seed", range(8))
def test_all_get_all_whom_local_networks_join_with_the_author_and_nobody_else(seed: int) -> None:
    random = Random(seed)
    media = {
        f"home{number}": tuple(random.sample(("pub", *READERS), random.choice((2, 2, 3))))
        for number in range(random.randint(1, 4))
    }
    result = run(media)
    expected = met(media)
    for name in READERS:
        assert result.delivered(name) == (ALL if name in expected else []), (media, name)
        is_alone = not any(name in members for members in media.values())
        assert (result.nodes[name].held()["connections"].entries == 0) >= is_alone
    assert result.nodes["net"].programs == []


def test_each_announces_its_address_on_each_interface_in_time(tmp_path: Path) -> None:
    result = run({"home": ("pub", "s1")}, ("s1", "s2"), parameters={"lan": {"announce_ms": 500}})
    told = announcements(result, tmp_path / "capture.pcapng")
    rounds = result.timeline.end // (500 * MS) + 1
    interfaces = ("pub-eth0", "pub-eth1", "s1-eth0", "s1-eth1", "s2-eth0")
    assert Counter(interface for interface, _, _ in told) == dict.fromkeys(interfaces, rounds)
    hosts = {address.peer: address.host for _, _, address in told}
    assert len({*hosts.values()}) == 3
    for interface, time, address in told:
        name = interface.partition("-")[0]
        assert address == (hosts[address.peer], PORT, peer_identity(scenario().seed, name).ref)
        assert time % (500 * MS) == 0


def test_a_newcomer_is_called_as_soon_as_it_announces_itself() -> None:
    media = {"home": ("pub", "s1"), "other": ("s1", "s2")}
    events = ({"at_ms": 0, "stop": "s2"}, {"at_ms": 1_100, "start": "s2"})
    result = run(media, ("s1", "s2"), events=events)
    assert result.delivered("s2") == ALL
    first = next(each["time"] for each in result.events["s2"] if each["event"] == "delivered")
    # Announcement, TCP, secret handshake, calls and notes take some crossings of 2 ms.
    assert 5 * 2 * MS < first - 1_100 * MS <= 12 * 2 * MS


@pytest.mark.parametrize("loss", [20.0, 50.0])
def test_announcements_that_are_lost_are_followed_by_others(loss: float) -> None:
    topology = {"media": [{"name": "home", "members": ["pub", "s1"], "losses": {"s1": loss}}]}
    result = run({}, ("s1",), topology=topology | {"link": {"delay_ms": 2.0}}, settle_ms=120_000)
    assert result.delivered("s1") == ALL


def test_an_author_who_has_left_is_not_missed_where_a_neighbour_has_the_feed() -> None:
    media = {"home": ("pub", "s1", "s2")}
    events = (
        {"at_ms": 0, "stop": "s2"},
        {"at_ms": 3_000, "leave": "pub home"},
        {"at_ms": 3_000, "link_down": "pub net"},
        {"at_ms": 4_000, "start": "s2"},
    )
    result = run(media, ("s1", "s2"), events=events, settle_ms=12_000)
    assert result.delivered("s2") == ALL


def test_announcements_that_are_false_or_garbled_cost_a_failed_call_at_most() -> None:
    node = run({"home": ("pub", "s1")}, ("s1",)).nodes["s1"]
    assert isinstance(node, LanNode)
    before = node.counters()
    stranger = Identity.from_seed(b"stranger".ljust(32))
    for text in (b"", b"\xff\xfe", b"net:x~shs:y", b"net:192.0.2.1:1~shs:AAAA", b"a" * 2_000):
        node.receive(2, text, ("192.0.2.1", PORT), 60 * SECOND)
    assert node.take_actions() == []
    node.receive(2, str(PeerAddress("192.0.2.1", PORT, stranger.ref)).encode(), None, 60 * SECOND)
    (call,) = node.take_actions()
    assert isinstance(call, Connect)
    assert call.to == ("192.0.2.1", PORT)
    node.on_stream(Closed(call.stream, "refused"), 61 * SECOND)
    assert node.counters() == before
    assert len(node.state.delivered) == 1


def test_who_learns_of_subscriptions() -> None:
    """Neighbours that exchange a feed tell each other that they follow it; those apart learn nothing."""
    media = {"home": ("pub", "s1", "s2"), "far": ("s3", "s4")}
    result = run(media, ("s1", "s2", "s3", "s4"))
    seen = {name: node.counters().get("subscriptions_seen") for name, node in result.nodes.items()}
    # s1 and s2 know of each other, s3 and s4 too; the author of a feed is no third.
    assert seen == {"pub": 0, "s1": 1, "s2": 1, "s3": 1, "s4": 1, "net": 0}
