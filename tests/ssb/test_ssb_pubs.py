"""Pubs that logs name: the address book, and a newcomer who knows one pub and finds the others."""

from collections import Counter
from hashlib import sha256
from pathlib import Path
from socket import inet_aton
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from local_peers import LocalPeers
from test_ssb_import import ssb

from ssb.applications.pubs import MOST_OF_AN_AUTHOR, PUB, Pubs, address_of, is_loopback
from ssb.keys import Identity
from ssb.transport.address import PeerAddress


def ref(name: object) -> str:
    return Identity.from_seed(sha256(f"{name}".encode()).digest()).ref


FEEDS = [ref(number) for number in range(4)]


def content(pub: str, host: str = "pub.example", port: Any = 8008) -> dict[str, Any]:
    return {"type": PUB, "address": {"host": host, "port": port, "key": pub}}


statements = st.lists(
    st.tuples(st.sampled_from(FEEDS), st.sampled_from(FEEDS), st.integers(8001, 8003)), max_size=30
)


@given(statements, st.sets(st.sampled_from(FEEDS)), st.randoms())
def test_the_book_is_what_each_authors_last_messages_say(
    said: list[tuple[str, str, int]], authors: set[str], random: Any
) -> None:
    """The model: of each author and pub the last port; of each pub the port that most of the authors give."""
    numbered = list(enumerate(said, start=1))
    last = {(author, pub): port for _, (author, pub, port) in numbered}
    random.shuffle(numbered)
    book = Pubs()
    for sequence, (author, pub, port) in [*numbered, *numbered[:3]]:
        book.add_content(author, sequence, content(pub, port=port))
    votes = Counter((pub, port) for (author, pub), port in last.items() if author in authors)
    listed = book.listed(authors)
    assert {pub.address.peer for pub in listed} == {pub for pub, _ in votes}
    for (_, port, pub), count in listed:
        assert votes[pub, port] == count == max(votes[pub, other] for other in (8001, 8002, 8003))
    assert [pub.authors for pub in listed] == sorted((pub.authors for pub in listed), reverse=True)
    again = Pubs()
    for author, sequence, address in book.statements():
        again.add_content(author, sequence, {"type": PUB, "address": str(address)})
    assert again.listed(authors) == listed


def test_an_author_names_a_hundred_pubs_at_most() -> None:
    book = Pubs()
    for sequence in range(MOST_OF_AN_AUTHOR + 20):
        book.add_content(FEEDS[0], sequence, content(ref(sequence)))
    assert {sequence for _, sequence, _ in book.statements()} == {*range(20, MOST_OF_AN_AUTHOR + 20)}


@pytest.mark.parametrize(
    "bad",
    [
        {"type": "post", "address": {"host": "h", "port": 1, "key": FEEDS[0]}},
        {"type": PUB},
        {"type": PUB, "address": None},
        {"type": PUB, "address": "net:h:1"},
        {"type": PUB, "address": "net:h:1~shs:AAAA"},
        content("@x"),
        content(FEEDS[0], host=""),
        content(FEEDS[0], host="a b"),
        content(FEEDS[0], host="net:h~x"),
        content(FEEDS[0], host="h" * 300),
        content(FEEDS[0], port=0),
        content(FEEDS[0], port=1 << 16),
        content(FEEDS[0], port=True),
        content(FEEDS[0], port="8008"),
        content(FEEDS[0], port=8008.5),
    ],
)
def test_what_is_no_address_is_passed_over(bad: dict[str, Any]) -> None:
    assert address_of(bad) is None


def test_both_forms_of_an_address() -> None:
    address = PeerAddress("pub.example", 8008, FEEDS[0])
    assert address_of(content(FEEDS[0])) == address
    assert address_of({"type": PUB, "address": str(address)}) == address


HERE = """localhost LOCALHOST. a.localhost 127.0.0.1 127.9.9.9 127.0.0.1. ::1 :: ::127.0.0.1 ::ffff:127.0.0.1
    ::ffff:7f00:1 ::ffff:0.0.0.0 64:ff9b::127.0.0.1 0.0.0.0 0.1.2.3 0 127.1 127.0.1 2130706433 0x7f.1
    0x7f000001
    0X7F.0.0.1 0177.0.0.1 017700000001 127.0.0.01"""
ELSEWHERE = """127.example 10.0.0.1 localhost.example ::ffff:10.0.0.1 64:ff9b::10.0.0.1 2001:db8::1 fe80::1
    a.0x7g pub1 8.example"""


def test_loopback_hosts() -> None:
    assert [host for host in HERE.split() if not is_loopback(host)] == []
    assert [host for host in ELSEWHERE.split() if is_loopback(host)] == []


@given(st.integers(0, 2**32 - 1), st.sampled_from(["{}", "{:#x}", "0{:o}"]), st.integers(1, 4))
def test_no_form_of_a_number_leads_here(value: int, form: str, parts: int) -> None:
    """The model: the C library's own reading of the forms."""
    shifts = [8 * (4 - number) for number in range(1, parts)]
    pieces = [value >> shift & 0xFF for shift in shifts] + [value & ((1 << 8 * (5 - parts)) - 1)]
    host = ".".join(map(form.format, pieces))
    assert inet_aton(host) == value.to_bytes(4)
    if value >> 24 in (0, 127):
        assert is_loopback(host)


def test_a_message_replaces_no_address_that_works(tmp_path: Path) -> None:
    with LocalPeers(tmp_path, STAR) as world:
        for whom in ("ben", "dan"):
            world.follow("nia", whom)
        name_pub(world, "ben", "one")
        world.connect("nia", "ben")
        world.connect("nia", "dan")
        world.run(10)
        scheduler = world.peers["nia"].peer.connections.scheduler
        host, port, pub = world.address("one")
        assert scheduler.address(pub) == (host, port)
        [link] = [each for each in world.peers["nia"].peer.connections.values() if each.remote == pub]
        world.peers["nia"].peer.connections.close(link, world.network.now)
        world.network.settle("nia")
        world.do("dan", "publish", arguments=[content(pub, world.address("two").host, port)])
        world.do("nia", "publish", arguments=[content(pub, world.address("two").host, port)])
        assert scheduler.address(pub) == (host, port)
        world.run(10)
        assert scheduler.address(pub) == (host, port)
        assert next(row["connected"] for row in world.do("nia", "pubs") if row["pub"] == pub)


STAR = [("relay", name) for name in ("nia", "one", "two", "ben", "dan")]


def name_pub(world: LocalPeers, author: str, pub: str) -> None:
    host, port, key = world.address(pub)
    world.do(author, "publish", arguments=[content(key, host, port)])


def test_a_newcomer_with_one_pub_finds_the_others_by_reading_logs(tmp_path: Path) -> None:
    """Nia knows pub one, which follows Ben. Ben's log names pub two, which alone has what Dan writes."""
    with LocalPeers(tmp_path, STAR) as world:
        for who, whom in [("one", "ben"), ("ben", "two"), ("two", "dan")]:
            world.follow(who, whom)
        name_pub(world, "ben", "two")
        world.say("dan", text="from Dan")
        world.connect("ben", "one")
        world.connect("dan", "two")
        world.run(5)
        for whom in ("one", "ben", "dan"):
            world.follow("nia", whom)
        world.connect("nia", "one")
        world.run(30)
        assert (world.tip("nia", "dan"), world.tip("one", "dan")) == (1, 0)
        [pub] = world.do("nia", "pubs")
        assert (pub["pub"], pub["address"]) == (world.id("two"), str(world.address("two")))
        assert (pub["authors"], pub["connected"], pub["trouble"]) == (1, True, "")


def test_addresses_are_kept_and_blocked_and_false_ones_do_no_harm(tmp_path: Path) -> None:
    with LocalPeers(tmp_path, STAR) as world:
        world.follow("nia", "ben")
        for name in ("one", "two"):
            name_pub(world, "ben", name)
        host, port, _ = world.address("dan")
        world.do("ben", "publish", arguments=[content(ref("nobody"), host, port)])
        world.do("ben", "publish", arguments=[content(ref("loopback"), "127.0.0.1", port)])
        world.follow("nia", "two", following=False, blocking=True)
        world.connect("nia", "ben")
        world.run(30)
        found = {pub["pub"]: pub for pub in world.do("nia", "pubs")}
        assert {pub for pub, row in found.items() if row["connected"]} == {world.id("one")}
        assert "another key than the address says" in found[ref("nobody")]["trouble"]
        assert ref("loopback") in found
        assert ref("loopback") not in world.peers["nia"].peer.connections.scheduler
        world.accounts["nia"].views.save()
    with LocalPeers(tmp_path, STAR) as world:  # read from the file of views, not from messages
        assert {pub["pub"] for pub in world.do("nia", "pubs")} == found.keys()
        world.run(5)
        assert {row["pub"] for row in world.do("nia", "pubs") if row["connected"]} == {world.id("one")}


def test_the_command(tmp_path: Path) -> None:
    ssb(tmp_path / "ann", "publish", "--content", '{"type": "pub", "address": 7}')
    assert ssb(tmp_path / "ann", "pubs") == ""
    address = PeerAddress("pub.example", 8008, FEEDS[0])
    ssb(tmp_path / "ann", "publish", "--content", f'{{"type": "pub", "address": "{address}"}}')
    assert ssb(tmp_path / "ann", "pubs") == f"{FEEDS[0]}  {address}, in 1 log, not connected\n"
