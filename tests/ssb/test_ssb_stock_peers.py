"""Our peer and the stock ones, from npm, on loopback: what one writes the other has, to the byte."""

import shutil
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest
from slow import but_slow
from stock_peer import OurPeer, StockPeer, node_modules, until
from test_ssb_import import ssb

from ssb import key_file, private
from ssb.daemon.commands import CommandError
from ssb.daemon.guest import GuestError, use_invite
from ssb.ending import END, end_content
from ssb.keys import Identity, encode_base64
from ssb.transport.address import parse_address, parse_invite


@pytest.fixture(autouse=True)
def _needs_node() -> None:
    node_modules()


def has_as_many(peer: OurPeer, feed: str, count: int) -> bool:
    return bool(peer.do("status")["messages"]) and len(peer.log(feed)) >= count


@pytest.mark.parametrize("caller", ["ours", "theirs"])
def test_a_thousand_messages_cross_both_ways(tmp_path: Path, caller: str) -> None:
    with StockPeer(tmp_path / "stock") as stock, OurPeer(tmp_path / "ours") as ours:
        stock.do("publish", count=1000, size=300)
        ours.follow(stock.id)
        ours.publish(999)
        stock.do("request", feeds=[ours.id])
        if caller == "ours":
            ours.do("connect", arguments=[stock.address])
        else:
            stock.do("connect", address=ours.address)
        until(lambda: stock.do("heads").get(ours.id) == 1000 and ours.do("status")["messages"] == 2000)
        assert ours.ids(stock.id) == stock.do("ids", feed=stock.id)
        assert stock.do("ids", feed=ours.id) == ours.ids(ours.id)
        stock.do("publish", count=3, size=10)  # live
        ours.publish(3)
        until(lambda: stock.do("heads").get(ours.id) == 1003 and ours.do("status")["messages"] == 2006)


def test_what_was_interrupted_goes_on_where_it_was(tmp_path: Path) -> None:
    with StockPeer(tmp_path / "stock") as stock:
        stock.do("publish", count=3000, size=2000)
        ours = OurPeer(tmp_path / "ours")
        ours.follow(stock.id)
        ours.do("connect", arguments=[stock.address])
        until(lambda: int(ours.do("status")["messages"]) > 300)
        ours.kill()
        with OurPeer(tmp_path / "ours") as again:
            held = again.do("status")["messages"]
            assert held > 300
            until(lambda: again.do("status")["messages"] == 3001)
            assert again.ids(stock.id) == stock.do("ids", feed=stock.id)


def test_two_hundred_feeds(tmp_path: Path) -> None:
    with StockPeer(tmp_path / "stock") as stock, OurPeer(tmp_path / "ours") as ours:
        feeds = stock.do("makeFeeds", feeds=200, count=3)
        for feed in feeds:
            ours.follow(feed)
        ours.do("connect", arguments=[stock.address])
        until(lambda: ours.do("status")["messages"] == 200 + 600)
        heads = stock.do("heads")
        assert {feed: len(ours.ids(feed)) for feed in feeds[::40]} == {
            feed: heads[feed] for feed in feeds[::40]
        }
        with StockPeer(tmp_path / "other") as other:
            other.do("request", feeds=feeds)
            other.do("connect", address=ours.address)
            until(lambda: all(other.do("heads").get(feed) == 3 for feed in feeds))


def test_a_peer_without_ebt_is_asked_for_history(tmp_path: Path) -> None:
    with StockPeer(tmp_path / "stock", "history") as stock, OurPeer(tmp_path / "ours") as ours:
        stock.do("publish", count=30, size=100)
        ours.follow(stock.id)
        ours.do("connect", arguments=[stock.address])
        until(lambda: ours.do("status")["messages"] == 31)
        stock.do("publish", count=2, size=100)
        until(lambda: ours.do("status")["messages"] == 33)
        assert ours.ids(stock.id) == stock.do("ids", feed=stock.id)


@pytest.mark.parametrize("way", ["ebt", "history"])
@pytest.mark.parametrize("left", ["a backup", "the identity"])
def test_ones_own_feed_comes_back_and_goes_on(tmp_path: Path, way: str, left: str) -> None:
    """What was left is put in place, and nothing is written before the stock peer has told the rest."""
    here, copy = tmp_path / "ours", tmp_path / "copy"
    with StockPeer(tmp_path / "stock", way) as stock:
        with OurPeer(here) as ours:
            ours.publish(6)
        shutil.copytree(here, copy)
        with OurPeer(here) as ours:
            ours.publish(10)
            if way == "history":
                stock.do("fetch", address=ours.address, feed=ours.id)
            else:
                stock.do("request", feeds=[ours.id])
                stock.do("connect", address=ours.address)
            until(lambda: stock.do("heads").get(ours.id) == 16)
        shutil.rmtree(here)
        if left == "a backup":
            shutil.copytree(copy, here)
        else:
            here.mkdir()
            shutil.copy2(copy / "secret", here / "secret")
        with OurPeer(here) as ours:
            with pytest.raises(CommandError, match="nothing is published: later messages"):
                ours.publish(1)
            ours.do("connect", arguments=[stock.address])
            until(lambda: ours.do("status")["doubt"] == "")
            assert ours.ids(ours.id) == stock.do("ids", feed=ours.id)
            ours.publish(2)
            assert [entry["value"]["sequence"] for entry in ours.log(ours.id)] == [*range(1, 19)]


def test_a_directory_of_ssb_db2_is_taken_in(tmp_path: Path) -> None:
    with StockPeer(tmp_path / "stock") as stock:
        stock.do("publish", count=31, size=5000)  # more than a block of its log
        stock.do("create", content={"type": "post", "text": "private é"}, recps=[stock.id])
        others = stock.do("makeFeeds", feeds=3, count=4)
        ids = {feed: stock.do("ids", feed=feed) for feed in (stock.id, *others)}
        stock.do("drain")
    said = ssb(tmp_path / "ours", "import", str(tmp_path / "stock"))
    assert f"identity     {stock.id}, 32 messages of its own\n" in said
    assert "not taken" not in said
    with OurPeer(tmp_path / "ours") as ours:
        assert {feed: ours.ids(feed) for feed in ids} == ids


def test_private_messages_are_opened_there_and_here(tmp_path: Path) -> None:
    with StockPeer(tmp_path / "stock") as stock, OurPeer(tmp_path / "ours") as ours:
        ours.follow(stock.id)
        stock.do("request", feeds=[ours.id])
        stock.do("create", content={"type": "post", "text": "for you é"}, recps=[ours.id, stock.id])
        content = {"type": "post", "text": "for you, too"}
        sent = ours.do("publish", arguments=[content, [stock.id]])
        ours.do("connect", arguments=[stock.address])
        until(lambda: stock.do("heads").get(ours.id) == 2 and ours.do("status")["messages"] == 3)
        assert stock.do("content", message=sent["key"]) == content
        identity = key_file.read(ours.directory / "secret")
        [entry] = ours.log(stock.id)
        opened = private.unbox(entry["value"]["content"], identity)
        assert opened is not None
        assert opened["text"] == "for you é"


def test_direct_messages_of_box2_are_opened_there_and_here(tmp_path: Path) -> None:
    """By the older box2 that ssb-db2 brings along; `test_ssb_group_peers.py` has the newer one."""
    with StockPeer(tmp_path / "stock") as stock, OurPeer(tmp_path / "ours") as ours:
        ours.follow(stock.id)
        stock.do("request", feeds=[ours.id])
        stock.do("create", content={"type": "post", "text": "for you é"}, recps=[ours.id], format="box2")
        content = {"type": "post", "text": "for you, too"}
        sent = ours.do("publish", arguments=[content, [stock.id], "box2"])
        ours.do("connect", arguments=[stock.address])
        until(lambda: stock.do("heads").get(ours.id) == 2 and ours.do("status")["messages"] == 3)
        assert stock.do("content", message=sent["key"]) == content
        [entry] = ours.log(stock.id, private=True)
        assert entry["opened"]["text"] == "for you é"


def test_invites_are_used_there_and_here(tmp_path: Path) -> None:
    with StockPeer(tmp_path / "stock") as stock, OurPeer(tmp_path / "ours") as ours:
        code = ours.do("invite", "create", arguments=[1])
        given = parse_invite(code)
        seed = encode_base64(given.seed)
        content = stock.do("useInvite", address=str(given.address), seed=seed)
        assert content == {"type": "contact", "contact": stock.id, "following": True, "pub": True}
        stock.do("publish", count=5, size=10)
        stock.do("connect", address=ours.address)
        until(lambda: ours.do("status")["messages"] == 6)
        # It is used up, and answers the one who has used it as before.
        assert stock.do("useInvite", address=str(given.address), seed=seed) == content
        with pytest.raises(GuestError, match="the invite is used up"):
            use_invite(given, Identity.from_seed(b"o" * 32).ref)
        assert ours.do("status")["messages"] == 6


def test_a_blob_of_five_megabytes_goes_there_and_comes_here(tmp_path: Path) -> None:
    size = 5_000_000
    with StockPeer(tmp_path / "stock") as stock, OurPeer(tmp_path / "ours") as ours:
        ours.do("connect", arguments=[stock.address])
        theirs = stock.do("addBlob", size=size, letter="a")
        assert ours.do("blobs", "want", arguments=[theirs]) is False
        until(lambda: ours.do("blobs", "size", arguments=[theirs]) == size)
        path = tmp_path / "blob"
        path.write_bytes(b"b" * size)
        added = ours.do("blobs", "add", arguments=[str(path)])
        assert stock.do("wantBlob", blob=added)
        assert stock.do("blobSize", blob=added) == size


ODD = {
    "longer than a message may be": {"type": "post", "text": "x" * 8_100},
    "no base64": "AAAAB.box2",
    "half a surrogate pair": {"type": "post", "text": "\ud83d"},
}
"""What ssb-db2 writes, and does not take from others, or not as it has written it; ssb-server takes none."""


@pytest.mark.parametrize("way", but_slow(["ebt", "history"], "history"))
@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_a_feed_with_a_message_that_is_refused_is_set_aside_and_twenty_others_come(
    tmp_path: Path, odd: object, way: str
) -> None:
    with StockPeer(tmp_path / "stock", way) as stock, OurPeer(tmp_path / "ours") as ours:
        bad, *good = stock.do("makeFeeds", feeds=21, count=10, odd=odd)
        for feed in [bad, *good, stock.id]:
            ours.follow(feed)
        ours.do("connect", arguments=[stock.address])
        until(lambda: all(len(ours.ids(feed)) == 10 for feed in good))
        until(lambda: ours.do("status")["set_aside"] != [])
        status = ours.do("status")
        assert [(one["feed"], one["from"]) for one in status["set_aside"]] == [(bad, stock.id)]
        assert len(ours.ids(bad)) == 3
        stock.do("publish", count=3, size=10)  # live, on the same connection
        until(lambda: len(ours.ids(stock.id)) == 3)
        status = ours.do("status")
        assert (status["refused"], status["troubles"], status["unreached"]) == ({}, {}, [])
        assert len(status["connections"]) == 1


def test_a_log_whose_contents_stand_beside_it_crosses_a_stock_peer(tmp_path: Path) -> None:
    """A stock peer passes on the log, with the request to delete; contents, as blobs, also cross it."""
    texts = [{"type": "post", "text": text} for text in ("for now", "for ever")]
    with (
        OurPeer(tmp_path / "ann") as ann,
        StockPeer(tmp_path / "bo") as bo,
        OurPeer(tmp_path / "cy") as cy,
    ):
        ids = [ann.do("detached", "publish", arguments=[text])["key"] for text in texts]
        cy.follow(ann.id)
        cy.follow(bo.id)
        bo.do("request", feeds=[ann.id])
        bo.do("connect", address=ann.address)
        cy.do("connect", arguments=[bo.address])

        def contents(peer: OurPeer) -> list[tuple[str, object]]:
            log = peer.log(ann.id, contents=True, type="detached")
            return [(one["state"], one["detached"]) for one in log]

        until(lambda: contents(cy) == [("present", text) for text in texts])
        ann.do("detached", "delete", arguments=[ids[0]])
        gone = [("dropped", None), ("present", texts[1])]
        until(lambda: contents(cy) == gone)
        assert contents(ann) == gone
        assert bo.do("ids", feed=ann.id) == ann.ids(ann.id) == cy.ids(ann.id)


def test_a_blob_comes_over_three_hops_of_which_ours_is_the_last(tmp_path: Path) -> None:
    with (
        StockPeer(tmp_path / "ann") as ann,
        StockPeer(tmp_path / "ben") as ben,
        OurPeer(tmp_path / "ours") as ours,
        StockPeer(tmp_path / "dan") as dan,
    ):
        ann.do("connect", address=ben.address)
        ben.do("connect", address=ours.address)
        ours.do("connect", arguments=[dan.address])
        until(lambda: len(ours.do("status")["connections"]) == 2)
        blob = dan.do("addBlob", size=100_000, letter="d")
        assert ann.do("wantBlob", blob=blob)
        assert ann.do("blobSize", blob=blob) == 100_000


def test_a_blocked_peer_is_not_followed_for_an_invite(tmp_path: Path) -> None:
    with StockPeer(tmp_path / "stock") as stock, OurPeer(tmp_path / "ours") as ours:
        given = parse_invite(ours.do("invite", "create", arguments=[1]))
        block = {"type": "contact", "contact": stock.id, "following": False, "blocking": True}
        ours.do("publish", arguments=[block])
        with pytest.raises(AssertionError, match="blocks the feed"):
            stock.do("useInvite", address=str(given.address), seed=encode_base64(given.seed))
        assert ours.do("status")["own"] == 1
        assert ours.do("friends", "isBlocking", arguments=[{"source": ours.id, "dest": stock.id}])


def test_three_hundred_idle_connections_keep_nobody_out(tmp_path: Path) -> None:
    with ExitStack() as stack:
        ours = stack.enter_context(OurPeer(tmp_path / "ours"))
        for _ in range(300):
            stack.enter_context(socket.create_connection(("127.0.0.1", ours.port)))
        stock = stack.enter_context(StockPeer(tmp_path / "stock"))
        stock.do("publish", count=5, size=10)
        ours.follow(stock.id)
        stock.do("connect", address=ours.address)
        until(lambda: len(ours.ids(stock.id)) == 5)


def test_an_address_with_another_key_is_told(tmp_path: Path) -> None:
    with StockPeer(tmp_path / "stock") as stock, OurPeer(tmp_path / "ours") as ours:
        wrong = parse_address(stock.address)._replace(peer=Identity.from_seed(bytes(32)).ref)
        ours.do("connect", arguments=[str(wrong)])
        until(lambda: ours.do("status")["unreached"] != [])
        [one] = ours.do("status")["unreached"]
        assert (one["peer"], one["address"]) == (wrong.peer, f"127.0.0.1:{stock.port}")
        assert "another key than the address says" in one["reason"]


def test_countersigned_messages_are_as_others_to_a_stock_peer(tmp_path: Path) -> None:
    """What a third peer gets from it still has all proofs."""
    with StockPeer(tmp_path / "stock") as stock, OurPeer(tmp_path / "ours") as ours:
        ours.publish(1)
        key = ours.do("suites", "begin")["key"]
        ours.publish(2)
        stock.do("request", feeds=[ours.id])
        ours.do("connect", arguments=[stock.address])
        until(lambda: stock.do("heads").get(ours.id) == 4)
        assert stock.do("ids", feed=ours.id) == ours.ids(ours.id)
        with OurPeer(tmp_path / "third") as third:
            third.follow(ours.id)
            third.do("connect", arguments=[stock.address])
            until(lambda: has_as_many(third, ours.id, 4))
            asked = {"id": ours.id, "broken": 0, "keys": [key]}
            assert third.do("suites", "vouched", arguments=[asked])["vouched"] == 4


@pytest.mark.parametrize("way", ["ebt", "history"])
def test_the_end_of_a_feed_is_a_message_to_a_stock_peer(tmp_path: Path, way: str) -> None:
    """It has ours to the last message; and of its own feed, which has ended for us, we take no more."""
    with StockPeer(tmp_path / "stock", way) as stock, OurPeer(tmp_path / "ours") as ours:
        stock.do("publish", count=2, size=100)
        stock.do("create", content={"type": END})
        (other,) = stock.do("makeFeeds", feeds=1, count=2)
        ours.follow(stock.id)
        ours.publish(2)
        ours.do("publish", arguments=[end_content(ours.id, Identity.from_seed(b"h" * 32))])
        if way == "ebt":
            stock.do("request", feeds=[ours.id])
        else:  # before the other call, as of two connections one is closed
            stock.do("fetch", address=ours.address, feed=ours.id)
        ours.do("connect", arguments=[stock.address])
        until(lambda: ours.do("status")["ended"].keys() == {ours.id, stock.id})
        if way == "ebt":
            until(lambda: stock.do("heads").get(ours.id) == 4)
        assert stock.do("ids", feed=ours.id) == ours.ids(ours.id)
        stock.do("publish", count=3, size=10)  # it knows no ends
        with OurPeer(tmp_path / "third") as third:  # another connection still works
            third.follow(other)
            third.follow(stock.id)
            third.do("connect", arguments=[stock.address])
            until(lambda: third.do("status")["messages"] == 2 + 2 + 3)
            assert third.ids(stock.id) == ours.ids(stock.id) == stock.do("ids", feed=stock.id)[:3]
        status = ours.do("status")
        assert (status["refused"], status["troubles"], len(status["connections"])) == ({}, {}, 1)
