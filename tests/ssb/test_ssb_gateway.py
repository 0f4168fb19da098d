"""Two stock peers that meet nowhere but across NDN: each has a gateway, and each gateway a forwarder."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from daemon_process import CONFIG, DaemonProcess, running
from stock_peer import OurPeer, StockPeer, node_modules, until

from base.sockets import free_port

LAYERINGS = ("lli", "pull", "persistent")
REST = ("poll", "long-lived", "lli-go-back-n", "lli-selective")
"""The others that need no multicast routes; the emulator has them all (tests/testbed)."""


@pytest.fixture(autouse=True)
def _needs_node() -> None:
    node_modules()


def config(own: int, other: int) -> str:
    """Return the configuration of a forwarder at one UDP port, whose neighbour is at the other."""
    address = '[udp]\naddresses = ["127.0.0.1"]\nport = '
    assert f"{address}0" in CONFIG
    face = f'[[faces]]\nuri = "udp4://127.0.0.1:{other}"\nroutes = ["/ssb"]\n'
    return CONFIG.replace(f"{address}0", f"{address}{own}") + face


@pytest.fixture
def forwarders(tmp_path: Path) -> Iterator[list[DaemonProcess]]:
    """Two forwarders, with a link between them."""
    ports = [free_port(socket.SOCK_DGRAM) for _ in range(2)]
    with ExitStack() as stack:
        processes = []
        for number, (own, other) in enumerate((ports, ports[::-1])):
            directory = tmp_path / f"forwarder{number}"
            directory.mkdir()
            processes.append(stack.enter_context(running(directory, config(own, other))))
        yield processes


@pytest.fixture
def peers(tmp_path: Path) -> Iterator[list[StockPeer]]:
    with StockPeer(tmp_path / "ann") as ann, StockPeer(tmp_path / "ben") as ben:
        yield [ann, ben]


def gateways(
    stack: ExitStack, tmp_path: Path, forwarders: list[DaemonProcess], layering: str
) -> list[OurPeer]:
    return [
        stack.enter_context(
            OurPeer(
                tmp_path / f"gateway{number} {layering}",
                "--ndn",
                layering,
                forwarder=f"unix://{forwarder.path}",
            )
        )
        for number, forwarder in enumerate(forwarders)
    ]


def wait_for(peer: StockPeer, feed: str, count: int) -> None:
    until(lambda: peer.do("heads").get(feed) == count)


@pytest.mark.parametrize("layerings", [LAYERINGS, pytest.param(REST, marks=pytest.mark.slow)])
def test_their_feeds_cross_by_any_layering(
    tmp_path: Path, forwarders: list[DaemonProcess], peers: list[StockPeer], layerings: tuple[str, ...]
) -> None:
    ann, ben = peers
    ann.do("request", feeds=[ben.id])
    ben.do("request", feeds=[ann.id])
    for number, layering in enumerate(layerings, start=1):
        with ExitStack() as stack:
            for peer, gateway in zip(peers, gateways(stack, tmp_path, forwarders, layering), strict=True):
                peer.do("connect", address=gateway.address)
                peer.do("publish", count=20, size=500)
            for peer, other in ((ann, ben), (ben, ann)):
                wait_for(peer, other.id, 20 * number)
                assert peer.do("ids", feed=other.id) == other.do("ids", feed=other.id)


def test_a_feed_with_a_message_that_is_refused_keeps_no_other_from_crossing(
    tmp_path: Path, forwarders: list[DaemonProcess], peers: list[StockPeer]
) -> None:
    """204 of 204 messages: 200 of the one who passes the bad feed on, and four of that before its bad one."""
    ann, ben = peers
    with ExitStack() as stack:
        home, away = gateways(stack, tmp_path, forwarders, "lli")
        bad = stack.enter_context(StockPeer(tmp_path / "bad"))
        ann.do("request", feeds=[bad.id])
        bad.do("publish", count=4, size=10)
        bad.do("create", content="AAAAB.box2")
        ann.do("connect", address=bad.address)
        wait_for(ann, bad.id, 5)  # stock peers of this kind take it
        ann.do("publish", count=100, size=100)
        for peer, gateway in ((ann, home), (bad, home), (ben, away)):
            peer.do("connect", address=gateway.address)
        ben.do("request", feeds=[ann.id, bad.id])
        wait_for(ben, ann.id, 100)
        ann.do("publish", count=100, size=100)
        bad.do("publish", count=4, size=10)
        wait_for(ben, ann.id, 200)
        wait_for(ben, bad.id, 4)
        status = home.do("status")
        assert [each["feed"] for each in status["set_aside"]] == [bad.id]
        assert status["refused"] == {}
        assert {each["peer"] for each in status["connections"]} == {ann.id, bad.id}


def test_a_feed_comes_for_as_long_as_it_is_followed(
    tmp_path: Path, forwarders: list[DaemonProcess], peers: list[StockPeer]
) -> None:
    ann, ben = peers

    def follow(following: bool) -> None:
        ben.do("request" if following else "unrequest", feeds=[ann.id])
        ben.do("create", content={"type": "contact", "contact": ann.id, "following": following})

    with ExitStack() as stack:
        home, away = gateways(stack, tmp_path, forwarders, "lli")
        ann.do("connect", address=home.address)
        ben.do("connect", address=away.address)
        ann.do("publish", count=5, size=50)
        follow(True)
        wait_for(ben, ann.id, 5)
        assert away.do("status")["gateway"]["follows"] == [ann.id]
        follow(False)
        until(lambda: away.do("status")["gateway"]["follows"] == [])
        ann.do("publish", count=5, size=50)
        until(lambda: len(home.ids(ann.id)) == 10)
        assert len(away.ids(ann.id)) == 5
        follow(True)
        wait_for(ben, ann.id, 10)


def test_a_blob_crosses(tmp_path: Path, forwarders: list[DaemonProcess], peers: list[StockPeer]) -> None:
    ann, ben = peers
    with ExitStack() as stack:
        home, away = gateways(stack, tmp_path, forwarders, "lli")
        ann.do("connect", address=home.address)
        ben.do("connect", address=away.address)
        ben.do("request", feeds=[ann.id])
        blob = ann.do("addBlob", size=2_000_000, letter="b")
        ann.do("create", content={"type": "post", "text": "look", "mentions": [{"link": blob}]})
        until(lambda: ben.do("heads").get(ann.id) == 1)
        assert ben.do("wantBlob", blob=blob)
        assert ben.do("blobSize", blob=blob) == 2_000_000


def test_a_message_crosses_by_its_hash(tmp_path: Path, forwarders: list[DaemonProcess]) -> None:
    """One gateway's user gets a message of the other's, and Ben, at home at one, a message of Ann's, at home
    at the other. Nobody follows anybody.
    """
    with ExitStack() as stack:
        home, away = gateways(stack, tmp_path, forwarders, "lli")
        own = home.do("publish", arguments=[{"type": "post", "text": "at the gateway"}])
        until(lambda: away.do("get", arguments=[own["key"]]) == own["value"])
        ann = stack.enter_context(OurPeer(tmp_path / "ann"))
        ann.publish(3)
        second = ann.ids(ann.id)[1]
        ben = stack.enter_context(OurPeer(tmp_path / "ben"))
        home.do("connect", arguments=[ann.address])
        away.do("connect", arguments=[ben.address])
        until(lambda: ben.do("get", arguments=[second]) is not None)
        assert ben.do("get", arguments=[second])["content"]["text"] == "1 é"
        assert ben.ids(ann.id) == away.ids(ann.id) == away.ids(home.id) == []


def test_a_forwarder_may_restart(tmp_path: Path, peers: list[StockPeer]) -> None:
    """The gateway registers its prefixes again, and its subscriptions go on."""
    ann, ben = peers
    ben.do("request", feeds=[ann.id])
    with ExitStack() as stack:
        places = [(tmp_path / f"forwarder{number}") for number in (0, 1)]
        ports = [free_port(socket.SOCK_DGRAM) for _ in range(2)]
        configs = [config(*ends) for ends in (ports, ports[::-1])]
        for place in places:
            place.mkdir()
        stack.enter_context(running(places[1], configs[1]))
        with running(places[0], configs[0]) as first:
            home, away = (
                stack.enter_context(
                    OurPeer(
                        tmp_path / f"gateway{number}", "--ndn", "lli", forwarder=f"unix://{place}/nfd.sock"
                    )
                )
                for number, place in enumerate(places)
            )
            ann.do("connect", address=home.address)
            ben.do("connect", address=away.address)
            ann.do("publish", count=5, size=50)
            wait_for(ben, ann.id, 5)
            first.stop()
        ann.do("publish", count=5, size=50)
        with running(places[0], configs[0]):
            wait_for(ben, ann.id, 10)
