"""Replication over a medium: everything arrives whatever is lost; what does not fit is dropped, counted."""

import zlib
from copy import deepcopy
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_cell import cell, identity, node

from base.units import MS, SECOND
from ssb.tiny.entry import DEMUX, PACKET, first_previous, pointer_to, sign
from ssb.tiny.feed import FORKED, Waiting
from ssb.tiny.goset import COMMON, Claim, make_claim, make_novelty
from ssb.tiny.memory import MemoryTables
from ssb.tiny.node import Node
from ssb.tiny.outbox import MOST_QUEUED
from ssb.tiny.requests import OutstandingChunks, Timing
from ssb.tiny.store import TinyStore
from ssb.tiny.vectors import Missing, chunk_demultiplexer, make_want, read_chunk_vector

A, B, C = (identity(number) for number in range(3))


def pair() -> tuple[Node, Node]:
    """Return the nodes of A and B with one set of both."""
    nodes = node(1), node(2)
    for one, who in zip(nodes, (A, B), strict=True):
        one.store.add_own(who)
        one.join("pair", [A.public_key, B.public_key], 0)
    return nodes


def give(one: Node, packet: bytes, now: int = 0) -> None:
    one.receive(1, packet + zlib.crc32(packet).to_bytes(4), None, now)


def take(one: Node, now: int) -> list[bytes]:
    one.wake(now)
    packets = []
    for _, payload, _ in one.take_outputs():
        assert zlib.crc32(payload[:-4]).to_bytes(4) == payload[-4:]
        packets.append(payload[:-4])
    return packets


def state(one: Node) -> bytes:
    return one.sets["pair"].keys.state


@given(st.sets(st.integers(0, 19)), st.sets(st.integers(0, 19)))
@settings(max_examples=25)
def test_chunks_are_requested_of_all_feeds_in_a_set_that_lack_some(begun: set[int], others: set[int]) -> None:
    """The model: the first chunk of each such feed, in the order of keys, as many as fit into a vector."""
    one, authors = node(1), [identity(number) for number in range(20)]
    keys = sorted(author.public_key for at, author in enumerate(authors) if at not in others)
    one.join("pair", keys, 0)
    one.join("others", [authors[at].public_key for at in others], 0)
    for at in begun:
        author = authors[at]
        entry, _ = sign(author, 1, first_previous(author.public_key), bytes([at]) * 300)
        give(one, entry.packet)
    lacking = [Missing(keys.index(authors[at].public_key), 1, 0) for at in begun - others]
    demux = chunk_demultiplexer(state(one))
    vectors = [packet for packet in take(one, SECOND) if packet.startswith(demux)]
    assert len(vectors) == bool(lacking)
    for packet in vectors:
        told = read_chunk_vector(packet, len(keys))
        assert told == sorted(lacking)[: len(told)]
        assert len(told) == len(lacking) or len(packet) > PACKET - 10


def contents(store: TinyStore, key: bytes) -> list[bytes]:
    return [entry.content for entry in store.read(key, 0, 1000)]


@settings(max_examples=15)
@given(
    st.lists(st.lists(st.binary(max_size=300), max_size=12), min_size=2, max_size=4),
    st.sampled_from([0.0, 20.0]),
    st.integers(0, 1000),
)
def test_all_have_all_feeds_whatever_is_lost(written: list[list[bytes]], loss: float, seed: int) -> None:
    """An open set: each begins with its own key, and learns the others by claims."""
    nodes = {f"n{number}": node(number) for number in range(len(written))}
    for number, one in enumerate(nodes.values()):
        own = one.store.add_own(identity(number)).key
        for content in written[number]:
            one.store.publish(own, content)
        one.join_open([own], 0)
    network = cell(
        nodes,
        seed,
        delay_ms=2,
        jitter_ms=2,
        loss_percent=loss,
        duplicate_percent=loss / 4,
        reorder_percent=loss / 4,
    )
    expected = {identity(number).public_key: texts for number, texts in enumerate(written)}

    def has_all() -> bool:
        stores = [one.store for one in nodes.values()]
        return all(
            key in store.feeds and contents(store, key) == texts
            for store in stores
            for key, texts in expected.items()
        )

    for second in range(0, 600, 5):
        network.run(second * SECOND)
        if has_all():
            break
    assert has_all()
    for one in nodes.values():
        one.store.check()
        assert not set(one.dropped) - {"duplicate", "unknown"}


def test_what_is_written_comes_at_once_and_little_is_said() -> None:
    one, other = pair()
    network = cell({"a": one, "b": other}, delay_ms=1)
    network.run(20 * SECOND)
    said = one.sent.total()
    one.publish(A.public_key, b"hello", network.now)
    network.settle("a")
    network.run(network.now + SECOND // 100)
    assert contents(other.store, A.public_key) == [b"hello"]
    network.run(network.now + 50 * SECOND)
    assert one.sent.total() - said < 16, "a want vector in 5 s, and the entry"


def test_three_packets_a_vector() -> None:
    one, _ = pair()
    for number in range(9):
        one.store.publish(A.public_key, bytes([number]) * 20)
    take(one, 0)
    place = one.keys("pair").index(A.public_key)
    want, _ = make_want(state(one), place, [4])
    give(one, want)
    assert take(one, SECOND)[:3] == [one.store.packet(A.public_key, number) for number in (4, 5, 6)]
    give(one, make_want(state(one), place, [10])[0], SECOND)
    take(one, SECOND)
    for _ in range(5):
        one.publish(A.public_key, b"more", SECOND)
    sent = [packet for packet in take(one, SECOND) if len(packet) == 120]
    assert len(sent) == 3, "its author sends what was asked for before it was written, from the same credit"
    assert sent == [one.store.packet(A.public_key, number) for number in (10, 11, 12)]


def test_an_answer_that_another_has_given_is_not_given() -> None:
    nodes = [node(number) for number in range(3)]
    for one in nodes:
        one.store.add(A.public_key)
        one.join("all", [A.public_key, B.public_key], 0)
    entry, _ = sign(A, 1, first_previous(A.public_key), b"one")
    for one in nodes[:2]:
        give(one, entry.packet)
    state, place = nodes[0].sets["all"].keys.state, nodes[0].keys("all").index(A.public_key)
    for one in nodes:
        take(one, 0)
    want, _ = make_want(state, place, [1])
    give(nodes[0], want, SECOND)
    give(nodes[1], want, SECOND)
    assert nodes[0].next_deadline() != SECOND, "it waits for a random time"
    give(nodes[1], entry.packet, SECOND)
    assert entry.packet in take(nodes[0], 2 * SECOND)
    assert entry.packet not in take(nodes[1], 2 * SECOND)


def snapshot(one: Node) -> object:
    store = one.store
    return (
        deepcopy(vars(store._tables)) | {"changes": 0},
        dict(one.sets._expected),
        dict(store._pointers),
        list(one._outbox._queue),
        one.next_deadline(),
    )


def test_packets_that_do_not_fit_are_counted_and_change_nothing() -> None:
    one, _ = pair()
    first, chunks = sign(B, 1, first_previous(B.public_key), bytes(200))
    give(one, first.packet)
    take(one, 0)
    next_, _ = sign(B, 2, first.id, b"two")
    stranger, _ = sign(C, 1, first_previous(C.public_key), b"who?")
    forged = next_.packet[:-1] + bytes([next_.packet[-1] ^ 1])
    other_chunk = chunks[0][:-1] + bytes([chunks[0][-1] ^ 1])
    claim = make_claim(
        one.sets["pair"].keys.demultiplexer, Claim(1, C.public_key, C.public_key, C.public_key)
    )
    skipped, _ = sign(B, 3, next_.id, b"three")
    want = one.sets["pair"].keys.state
    for packet, reason in [
        (stranger.packet, "unknown"),
        (forged, "forged"),
        (skipped.packet, "unknown"),
        (other_chunk, "unknown"),
        (first.packet, "duplicate"),
        (first.packet[:119], "unknown"),
        (next_.packet[:119], "malformed"),
        (next_.packet + b"\0", "oversized"),
        (b"1234567", "truncated"),
        (b"", "truncated"),
        (claim, "malformed"),
        (make_novelty(claim[:7], C.public_key), "malformed"),
        (make_want(want, 2, [1])[0], "malformed"),
        (make_want(want, 0, [1, 1, 1])[0], "malformed"),
    ]:
        before, dropped = snapshot(one), one.dropped.copy()
        give(one, packet)
        assert one.dropped - dropped == {reason: 1}, packet.hex()
        assert snapshot(one) == before
    before = snapshot(one)
    one.receive(1, next_.packet + b"\0\0\0\0", None, 0)
    one.receive(1, b"x", None, 0)
    assert one.dropped["checksum"] == 2
    assert snapshot(one) == before
    give(one, next_.packet)
    assert one.taken["entry"] == 2


def test_a_fork_is_proved_and_freezes_the_feed() -> None:
    one, _ = pair()
    first, _ = sign(B, 1, first_previous(B.public_key), b"one")
    other, _ = sign(B, 1, first_previous(B.public_key), b"another one")
    after, _ = sign(B, 2, first.id, b"two")
    give(one, first.packet)
    for packet in (other.packet, other.packet, after.packet):
        give(one, packet)
    assert one.store.feeds[B.public_key].condition == FORKED
    assert one.store.fork(B.public_key) == (first.packet, other.packet)
    assert one.dropped == {"forked": 1, "frozen": 2}
    assert one.store.feeds[B.public_key].sequence == 1


def test_a_node_goes_on_after_a_restart() -> None:
    one, other = pair()
    for _ in range(7):
        one.store.publish(A.public_key, bytes(250))
    network = cell({"a": one, "b": other}, delay_ms=1, bw_mbit=0.05)
    network.run(SECOND // 5)
    assert other.store.feeds[A.public_key].sequence > 0
    assert other.store.feeds[A.public_key].waiting, "it is killed while side chains are not complete"
    other.store._load()
    again = Node(other.store, Random(5))
    again.join("pair", [A.public_key, B.public_key], network.now)
    network = cell({"a": one, "b": again}, delay_ms=1)
    network.run(30 * SECOND)
    assert contents(again.store, A.public_key) == [bytes(250)] * 7


def test_an_open_set_is_kept() -> None:
    one = node(1)
    one.join_open([A.public_key], 0)
    give(one, make_novelty(one.sets["tinySSB-0.1 GOset 1"].keys.demultiplexer, B.public_key))
    again = Node(one.store, Random(5))
    again.join_open([A.public_key], 0)
    assert again.keys("tinySSB-0.1 GOset 1") == sorted([A.public_key, B.public_key])


def test_sets_side_by_side_and_priorities() -> None:
    """What belongs to the set of lower priority goes first; a set that is left is not answered for."""
    one = node(1)
    for who in (A, B):
        one.store.add_own(who)
    one.join("data", [A.public_key, C.public_key], 0, priority=1)
    one.join("control", [B.public_key, C.public_key], 0, epoch=3)
    take(one, 0)
    wants = []
    for name, who in (("data", A), ("control", B)):
        entry = one.store.publish(who.public_key, name.encode())
        state = one.sets[name].keys.state
        wants.append((entry.packet, make_want(state, one.keys(name).index(who.public_key), [1])[0]))
    for _, want in wants:
        give(one, want, SECOND)
    assert [packet for packet in take(one, 2 * SECOND) if len(packet) == 120] == [wants[1][0], wants[0][0]]
    one.leave("data")
    give(one, wants[0][1], 3 * SECOND)
    assert one.dropped == {"unknown": 1}
    assert one.keys("data") == []
    assert C.public_key in one.sets._armed, "still in the other set"
    one.leave("control")
    assert not one.sets._armed
    assert not one.sets._expected
    assert not one.sets._routes


def test_what_waits_to_be_sent_is_bounded() -> None:
    one, _ = pair()
    for number in range(400):
        one.store.publish(A.public_key, bytes([number % 256]) * 20)
    state, place = one.sets["pair"].keys.state, one.keys("pair").index(A.public_key)
    for number in range(1, 400):
        give(one, make_want(state, place, [number])[0])
    assert len(one._outbox) == MOST_QUEUED
    assert one.dropped["not sent"]


def test_chunks_of_the_same_content_are_fetched_once() -> None:
    one, other = pair()
    for _ in range(3):
        one.store.publish(A.public_key, bytes(130))
    network = cell({"a": one, "b": other}, delay_ms=1)
    network.run(5 * SECOND)
    assert contents(other.store, A.public_key) == [bytes(130)] * 3
    chunk = other.store.chunk(A.public_key, 1, 0)
    assert chunk is not None
    assert not other.store.awaits(pointer_to(chunk))


@pytest.mark.parametrize("delay_ms", [1, 15, 60])
def test_chunks_that_are_under_way_are_not_asked_for_again(delay_ms: int) -> None:
    """Each comes once, but for the first ones, as long as nobody has measured how long an answer takes."""
    one, other = pair()
    network = cell({"a": one, "b": other}, delay_ms=delay_ms, bw_mbit=1)
    written = [Random(number).randbytes(500) for number in range(60)]
    for content in written:
        one.publish(A.public_key, content, network.now)
        network.settle("a")
        network.run(network.now + SECOND // 50)
    network.run(network.now + 20 * SECOND)
    assert contents(other.store, A.public_key) == written
    assert 0 <= one.sent["chunk"] - 5 * len(written) <= 12


def test_entries_that_wait_for_the_same_chunk_ask_for_it_once() -> None:
    one, other = pair()
    for _ in range(3):
        give(other, one.store.publish(A.public_key, bytes(130)).packet)
    (vector,) = [
        packet for packet in take(other, SECOND) if packet[:DEMUX] == chunk_demultiplexer(state(other))
    ]
    place = other.keys("pair").index(A.public_key)
    assert read_chunk_vector(vector, 2) == [Missing(place, 1, 0)]


def test_how_long_an_answer_takes_is_measured_within_bounds() -> None:
    timing = Timing()
    entry, _ = sign(A, 1, first_previous(A.public_key), bytes(500))
    waiting = Waiting(entry, 0, entry.chain or b"")
    requested = OutstandingChunks(timing)
    assert requested.deadline(waiting) == -1
    assert requested.add(waiting, 3, 0) == 3
    assert requested.deadline(waiting) == timing.pause
    for held, answered in ((1, 100 * MS), (2, 110 * MS)):
        requested.on_chunk(A.public_key, 1, answered)
        waiting.held = held
    assert 100 * MS < requested.deadline(waiting) <= timing.retry
    waiting.held = 3
    assert requested.deadline(waiting) == -1, "the fourth was not asked for"
    assert requested.add(waiting, 3, SECOND) == 2, "there are five"
    requested.on_chunk(A.public_key, 1, 100 * SECOND)
    assert requested.deadline(waiting) == SECOND + timing.retry
    requested.retain([])
    assert requested.deadline(waiting) == -1


@pytest.mark.parametrize("size", [1, 3, 60])
def test_long_side_chains(size: int) -> None:
    one, other = pair()
    content = Random(size).randbytes(size * 100)
    one.store.publish(A.public_key, content)
    network = cell({"a": one, "b": other}, delay_ms=5, loss_percent=10)
    network.run((5 + 2 * size) * SECOND)
    assert contents(other.store, A.public_key) == [content]


# Several ports, and a pace


def with_ports(**options: Any) -> Node:
    """Return a node with three ports that writes a feed of A's, in a set with B."""
    one = Node(TinyStore(), Random(1), ports=(1, 2, 3), **options)
    one.store.add_own(A)
    one.join("pair", [A.public_key, B.public_key], 0)
    for number in range(4):
        one.store.publish(A.public_key, bytes([number]) * 20)
    return one


def hear(one: Node, port: int, packet: bytes, now: int) -> None:
    one.receive(port, packet + zlib.crc32(packet).to_bytes(4), None, now)


def said(one: Node, now: int) -> dict[bytes, set[int]]:
    """Return the packets that a node sends, each with the ports."""
    found: dict[bytes, set[int]] = {}
    one.wake(now)
    for port, payload, _ in one.take_outputs():
        found.setdefault(payload[:-4], set()).add(port)
    return found


def want_of(one: Node, sequence: int) -> bytes:
    place = one.keys("pair").index(A.public_key)
    return make_want(one.sets["pair"].keys.state, place, [sequence])[0]


def test_an_answer_goes_out_where_the_question_came_in_and_the_rest_where_others_are() -> None:
    one = with_ports()
    assert set(map(frozenset, said(one, 0).values())) == {frozenset((1, 2, 3))}, "nobody has spoken yet"
    hear(one, 2, want_of(one, 4), SECOND)
    entry = one.store.packet(A.public_key, 4)
    assert said(one, SECOND + SECOND // 100)[entry] == {2}
    assert set(map(frozenset, said(one, 60 * SECOND).values())) == {frozenset((2,))}
    hear(one, 3, want_of(one, 1), 61 * SECOND)
    found = said(one, 62 * SECOND)
    assert found.pop(one.store.packet(A.public_key, 1)) == {3}
    assert {2, 3} in found.values() or not found
    one.publish(A.public_key, b"news", 63 * SECOND)
    assert said(one, 63 * SECOND)[one.store.packet(A.public_key, 5)] == {2, 3}


def test_a_set_that_replaces_another_or_is_beside_it_is_spoken_of_where_that_was() -> None:
    one = with_ports()
    said(one, 0)
    hear(one, 2, want_of(one, 5), SECOND)
    one.join("pair", [A.public_key, C.public_key], SECOND, epoch=1)
    one.join("more", [A.public_key, B.public_key], SECOND, beside="pair")
    assert set(map(frozenset, said(one, 2 * SECOND).values())) == {frozenset((2,))}


def test_what_is_said_on_one_medium_is_not_silenced_on_another() -> None:
    one = with_ports()
    said(one, 0)
    entry = one.store.packet(A.public_key, 4)
    assert entry is not None
    for port in (1, 2):
        hear(one, port, want_of(one, 4), SECOND)
    hear(one, 2, entry, SECOND)  # another has answered there
    assert said(one, 2 * SECOND)[entry] == {1}


def test_an_open_set_is_told_of_everywhere() -> None:
    one = Node(TinyStore(), Random(1), ports=(1, 2))
    one.join_open([A.public_key], 0)
    hear(one, 1, make_novelty(one.sets[COMMON].keys.demultiplexer, B.public_key), 0)
    assert set(map(frozenset, said(one, SECOND).values())) == {frozenset((1, 2))}


def test_who_is_no_server_answers_for_its_own_feed_only() -> None:
    for is_server in (True, False):
        one = with_ports(is_server=is_server)
        entry, _ = sign(B, 1, first_previous(B.public_key), b"from another")
        hear(one, 1, entry.packet, 0)
        said(one, 0)
        wanted = [4 if key == A.public_key else 1 for key in one.keys("pair")]
        hear(one, 1, make_want(one.sets["pair"].keys.state, 0, wanted)[0], SECOND)
        sent = said(one, 2 * SECOND)
        assert one.store.packet(A.public_key, 4) in sent
        assert (entry.packet in sent) == is_server


def test_a_node_with_a_gap_sends_one_packet_at_a_time_and_not_what_it_hears_meanwhile() -> None:
    gap = SECOND
    one = with_ports(timing=Timing(spread=0, gap=gap))
    times, sent = [], []
    hear(one, 1, want_of(one, 1), 0)
    now = 0
    packets = [one.store.packet(A.public_key, number) for number in (1, 2, 3)]
    while (due := one.next_deadline()) is not None and due < 4 * SECOND:
        now = max(due, now)
        if found := said(one, now):
            times.append(now)
            sent += list(found)
            if packets[0] in sent and packets[1] not in sent:
                assert packets[1] is not None
                hear(one, 1, packets[1], now)
    assert all(gap <= b - a <= 2 * gap for a, b in pairwise(times))
    assert all(len(found) for found in sent)
    assert packets[0] in sent
    assert packets[1] not in sent


def test_of_twenty_that_lack_the_same_few_ask_for_it() -> None:
    """In one cell where a packet takes 50 ms: four questions are needed. Without a gap, all ask at once."""
    timing = Timing(round=60 * SECOND, retry=20 * SECOND, pause=SECOND, spread=5 * SECOND, gap=SECOND)
    counts = {}
    for name, times in (("gap", timing), ("no gap", timing._replace(gap=0))):
        nodes = {f"n{number}": Node(TinyStore(), Random(number), times) for number in range(20)}
        for number, one in enumerate(nodes.values()):
            if number == 0:
                one.store.add_own(A)
                one.store.publish(A.public_key, bytes(1000))
            one.join("pair", [A.public_key, B.public_key], 0)
        network = cell(nodes, delay_ms=50)
        network.run(200 * SECOND)
        assert all(one.store.feeds[A.public_key].whole == 1 for one in nodes.values())
        counts[name] = sum(one.sent["chunk vector"] for one in nodes.values())
    assert 4 <= counts["gap"] <= 30 < counts["no gap"] / 2


def test_a_store_in_memory_begins_with_the_tables_of_another() -> None:
    tables = MemoryTables()
    one = TinyStore(tables)
    key = one.add_own(A).key
    one.publish(key, b"a" * 300)
    one.put("record", [1, b"2"])
    other = TinyStore(deepcopy(tables))
    assert contents(other, key) == [b"a" * 300]
    assert other.get("record") == [1, b"2"]
    other.publish(key, b"more")
    other.check()
    assert contents(TinyStore(tables), key) == [b"a" * 300]
