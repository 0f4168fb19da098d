"""Rooms with stock peers: npm's ssb-room as the room, ssb-conn with ssb-room-client as those who meet."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from stock_peer import OurPeer, StockPeer, StockRoom, node_modules, until
from test_ssb_import import ssb

from ssb.daemon.commands import CommandError


@pytest.fixture(autouse=True)
def _needs_node() -> None:
    node_modules()


@pytest.fixture(params=["our room", "their room"])
def room(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StockPeer | OurPeer]:
    directory = tmp_path / "room"
    with StockRoom(directory) if request.param == "their room" else our_room(directory) as running:
        yield running


@contextmanager
def our_room(directory: Path) -> Iterator[OurPeer]:
    with OurPeer(directory, "--room", "ours", "--hops", "0") as running:
        yield running


def enter(room: StockPeer | OurPeer, *peers: StockPeer | OurPeer) -> None:
    for peer in peers:
        if isinstance(peer, OurPeer):
            peer.do("connect", arguments=[room.address])
            until(lambda peer=peer: bool(peer.do("rooms")["visited"]))
        else:
            peer.do("conn", address=room.address)


def tunnel(room: StockPeer | OurPeer, peer: StockPeer | OurPeer) -> str:
    return f"tunnel:{room.id}:{peer.id}~shs:{peer.id[1:-8]}"


def test_two_of_ours_meet(tmp_path: Path, room: StockPeer | OurPeer) -> None:
    with OurPeer(tmp_path / "ann") as ann, OurPeer(tmp_path / "ben") as ben:
        ann.follow(ben.id)
        ben.follow(ann.id)
        ann.publish(200)
        enter(room, ann, ben)
        until(lambda: ben.do("status")["messages"] == ann.do("status")["messages"] == 202)
        assert ben.ids(ann.id) == ann.ids(ann.id)
        [visited] = ben.do("rooms")["visited"]
        assert (visited["room"], visited["member"]) == (room.id, True)
        assert [one["peer"] for one in visited["attendants"] if one["tunnelled"]] == [ann.id]


@pytest.mark.parametrize("caller", ["ours", "theirs"])
def test_one_of_ours_and_a_stock_peer_meet(tmp_path: Path, room: StockPeer | OurPeer, caller: str) -> None:
    with OurPeer(tmp_path / "ours") as ours, StockPeer(tmp_path / "stock", "rooms") as stock:
        stock.do("publish", count=200, size=300)
        ours.publish(199)
        stock.do("request", feeds=[ours.id])
        if caller == "ours":
            enter(room, stock, ours)
        else:
            enter(room, ours, stock)
            until(lambda: ["room-attendant", tunnel(room, ours)] in stock.do("attendants"))
        ours.follow(stock.id)  # and calls it, where it is there
        if caller == "theirs":
            stock.do("conn", address=tunnel(room, ours))
        until(lambda: stock.do("heads").get(ours.id) == 200 and len(ours.ids(stock.id)) == 200)
        assert ours.ids(stock.id) == stock.do("ids", feed=stock.id)
        assert stock.do("ids", feed=ours.id) == ours.ids(ours.id)


def test_two_stock_peers_meet_in_our_room(tmp_path: Path) -> None:
    with (
        our_room(tmp_path / "room") as room,
        StockPeer(tmp_path / "one", "rooms") as one,
        StockPeer(tmp_path / "two", "rooms") as two,
    ):
        enter(room, one, two)
        one.do("publish", count=300, size=1_000)
        two.do("request", feeds=[one.id])
        until(lambda: ["room-attendant", tunnel(room, one)] in two.do("attendants"))
        two.do("conn", address=tunnel(room, one))
        until(lambda: two.do("heads").get(one.id) == 300)
        assert two.do("ids", feed=one.id) == one.do("ids", feed=one.id)
        assert room.do("rooms")["own"] == {"attendants": sorted([one.id, two.id]), "tunnels": 1}
        assert room.do("status")["messages"] == 0


def test_an_alias_leads_to_its_owner(tmp_path: Path) -> None:
    with (
        our_room(tmp_path / "room") as room,
        StockPeer(tmp_path / "one", "rooms") as one,
        StockPeer(tmp_path / "two", "rooms") as two,
        OurPeer(tmp_path / "ann") as ann,
    ):
        enter(room, one, two, ann)
        until(lambda: len(room.do("rooms")["own"]["attendants"]) == 3)
        uri = one.do("registerAlias", room=room.id, alias="alice")
        assert two.do("consumeAlias", uri=uri)
        assert ["connected", tunnel(room, one)] in two.do("peers")
        assert ssb(tmp_path / "ann", "connect", uri) == f"following {one.id}\n"
        assert ssb(tmp_path / "ann", "connect", uri) == ""
        until(lambda: one.id in {each["peer"] for each in ann.do("status")["connections"]})
        with pytest.raises(CommandError, match="the alias Alice is taken"):
            until(lambda: ann.do("room", "registerAlias", arguments=[room.id, "Alice"]))
        ours = ssb(tmp_path / "ann", "alias", "ann").strip()
        ann.follow(two.id)
        assert two.do("consumeAlias", uri=ours)
        assert one.do("revokeAlias", room=room.id, alias="alice")
        uri = ssb(tmp_path / "ann", "alias", "alice").strip()
        assert uri.startswith("ssb:experimental?action=consume-alias&alias=alice&")


def test_pubs_in_our_log_are_read_there_and_theirs_here(tmp_path: Path) -> None:
    with OurPeer(tmp_path / "ours") as ours, StockPeer(tmp_path / "stock", "rooms") as stock:
        ours.follow(stock.id)
        pub = {"host": "pub.example", "port": 8008, "key": "@" + "A" * 43 + "=.ed25519"}
        ours.do("publish", arguments=[{"type": "pub", "address": pub}])
        stock.do("create", content={"type": "pub", "address": {**pub, "host": "other.example"}})
        stock.do("request", feeds=[ours.id])
        ours.do("connect", arguments=[stock.address])
        until(
            lambda: any(address.startswith("net:pub.example:8008~") for _, address in stock.do("attendants"))
        )
        until(lambda: bool(ours.ids(stock.id)))
        assert [pub["authors"] for pub in ours.do("pubs")] == [1]
        ours.do("publish", arguments=[{"type": "pub", "address": {**pub, "host": "other.example"}}])
        [listed] = ours.do("pubs")
        assert (listed["address"], listed["authors"]) == (f"net:other.example:8008~shs:{'A' * 43}=", 2)
