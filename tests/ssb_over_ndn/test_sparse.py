"""Skip links, certificate pools, and the layering that reads a part of a log by them."""

from collections import deque
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulation import scenario, simulate

from base.units import MS, SECOND
from forwarder.feedcache.items import RejectedItem, open_item
from forwarder.wire.feed import item_name, native_content
from forwarder.wire.lp import parse_lp
from forwarder.wire.packet import ED25519, make_data, parse_data, parse_interest
from forwarder.wire.tlv import element
from ssb.keys import Identity
from ssb_over_ndn.layerings.sparse import Sparse
from ssb_over_ndn.linked import (
    CONTENT,
    SKIP_LINK,
    Linked,
    LinkedWriter,
    broken_at,
    link_target,
    open_linked,
    path,
)
from ssb_over_ndn.naming import log_name, metadata_name, metadata_packet

PUBLISHED = {
    **dict(enumerate([0, 1, 2, 1, 4, 5, 6, 4, 8, 9, 10, 8, 4, 13, 14, 15, 13, 17, 18, 19, 17], 1)),
    **dict(enumerate([21, 22, 23, 21, 13, 26, 27, 28, 26, 30, 31, 32, 30, 34, 35, 36, 34, 26, 13], 22)),
    121: 40,
}
"""Of Bamboo's implementations: the tests of lipmaa (Hex), "vectors from lipmaa-link.rs"."""

ANN = Identity.from_seed(b"a" * 32)
FEED = log_name(ANN.ref)
LENGTH = 1_000_000


def log(items: int, mark: bytes = b"", stem: list[bytes] | None = None) -> list[bytes]:
    """The packets of a log; `mark` tells what comes after a stem from another branch."""
    made = list(stem or ())
    ids = {seq: parse_data(wire).digest() for seq, wire in enumerate(made, 1)}
    writer = LinkedWriter(FEED, ANN.sign, ids)
    return made + [writer.packet(seq, b"%d%b" % (seq, mark)) for seq in range(len(made) + 1, items + 1)]


LOG = log(150)


def linked(seq: int, wires: list[bytes] = LOG) -> Linked:
    return open_linked(open_item(FEED, seq, parse_data(wires[seq - 1])))


def test_the_targets_are_those_that_others_publish() -> None:
    assert {seq: link_target(seq) for seq in PUBLISHED} == PUBLISHED


def shortest(newer: int, older: int) -> int:
    """Links on the shortest way, by breadth-first search."""
    waiting, steps = deque([newer]), {newer: 0}
    while (seq := waiting.popleft()) != older:
        for target in {seq - 1, link_target(seq)}:
            if target >= older and target not in steps:
                steps[target] = steps[seq] + 1
                waiting.append(target)
    return steps[older]


@given(st.integers(1, 400), st.integers(1, 400))
def test_a_path_is_the_shortest(a: int, b: int) -> None:
    found = path(max(a, b), min(a, b))
    assert len(found) - 1 == shortest(max(a, b), min(a, b))


@given(st.integers(1, LENGTH), st.integers(1, LENGTH))
def test_a_path_is_logarithmic_and_links_do_not_cross(a: int, b: int) -> None:
    newer, older = max(a, b), min(a, b)
    assert len(path(newer, older)) <= 4 * newer.bit_length()
    if link_target(newer) < older < newer:
        assert link_target(older) >= link_target(newer)


def certificate_pool(seq: int) -> set[int]:
    """Return the numbers of the items that whoever wants item `seq` has to keep, itself included.

    The pools of any two items together have a path from the newer to the older one and on to the first, so
    that readers of different parts can serve each other. Those after `seq` may not exist yet.
    """
    after = 1
    while after < seq:
        after = 3 * after + 1  # one more 1 in base 3
    before = (after - 1) // 3
    pool = {*path(after, seq)}
    return pool | {*path(seq, before), *path(before, 1)} if before else pool


@given(st.integers(1, LENGTH), st.integers(1, LENGTH))
def test_the_pools_of_any_two_items_hold_the_way_from_one_to_the_other(a: int, b: int) -> None:
    newer, older = max(a, b), min(a, b)
    pools = certificate_pool(newer) | certificate_pool(older)
    reached, waiting = {newer}, [newer]
    while waiting:
        seq = waiting.pop()
        for target in {seq - 1, link_target(seq)} & pools - reached:
            reached.add(target)
            waiting.append(target)
    assert {older, 1} <= reached
    assert len(certificate_pool(newer)) <= 8 * newer.bit_length()


@given(st.integers(1, 150), st.integers(1, 150), st.integers(1, 150))
def test_a_proof_holds_in_one_log_and_in_no_other(a: int, b: int, stem: int) -> None:
    newer, older = max(a, b), min(a, b)
    way = path(newer, older)
    assert broken_at([linked(seq) for seq in way]) is None
    other = log(150, b"!", LOG[:stem])
    mixed = [linked(seq, other if at == 0 else LOG) for at, seq in enumerate(way)]
    assert (broken_at(mixed) is None) == (newer == older or newer <= stem or way[1] <= stem)


def test_an_item_has_a_skip_link_where_its_number_asks_for_one_and_nowhere_else() -> None:
    def refused(seq: int, payload: bytes) -> bool:
        content = native_content(bytes(32) if seq > 1 else b"", payload)
        wire = make_data(item_name(FEED, seq), content, signature_type=ED25519, sign=ANN.sign)
        try:
            open_linked(open_item(FEED, seq, parse_data(wire)))
        except RejectedItem as error:
            return error.reason == "format"
        return False

    skip, content = element(SKIP_LINK, bytes(32)), element(CONTENT, b"x")
    assert not refused(1, content)
    assert not refused(4, skip + content)
    bad = [
        (1, skip + content),
        (4, content),
        (5, skip + content),
        (4, content + skip),
        (4, b""),
        (4, b"\xfa"),
    ]
    assert all(refused(seq, payload) for seq, payload in [*bad, (4, element(SKIP_LINK, b"") + content)])


def reader(**parameters: int) -> Sparse:
    values = {"newest": 5, "item": 0, "buffer": 64, "lifetime_ms": 1000, "shortest_ms": 50, "longest_ms": 50}
    return Sparse(FEED, rng=Random(1), **(values | parameters))


def read(one: Sparse, wires: list[bytes], tip: int, loses: float = 0.0) -> list[int]:
    """Let a reader meet a server that has a log; return the numbers that it asks for, in order."""
    asked, rng, now = [], Random(2), 0
    one.start(now)
    while now < (20 if loses else 1) * SECOND:
        for wire in one.take_outputs():
            name = parse_interest(wire).name
            if name == metadata_name(FEED):
                answer = metadata_packet(FEED, tip)
            else:
                seq = int.from_bytes(name[len(FEED) + 2 :], "big")
                asked.append(seq)
                answer = wires[seq - 1]
            if rng.random() >= loses:
                one.receive(parse_lp(answer), now)
        now += (200 if loses else 20) * MS
        one.wake(now)
    return asked


def test_a_reader_fetches_the_newest_items_first_and_those_that_prove_them() -> None:
    one = reader()
    asked = read(one, LOG, 150)
    assert asked == [150, 149, 148, 147, *path(146, 1)]
    assert [item.seq for item in one.take_items()] == [146, 147, 148, 149, 150]


@given(st.integers(1, 150), st.integers(0, 150), st.integers(0, 150), st.sampled_from([0.0, 0.3]))
@settings(deadline=None, max_examples=20)
def test_whatever_part_is_wanted_comes_in_order_each_item_once(
    tip: int, after: int, item: int, loses: float
) -> None:
    one = reader(after=min(after, tip), item=item)
    read(one, LOG, tip, loses)
    after = min(after, tip)
    first = max(after, tip - 5) + 1
    wanted = [*([item] if after < item < first else []), *range(first, tip + 1)]
    got = [got for _ in range(20) for got in one.take_items(2)]
    assert [each.seq for each in got] == wanted
    assert [each.message for each in got] == [b"%d" % seq for seq in wanted]
    assert one.take_errors() == []


def test_a_fork_far_behind_is_found_by_the_link_across_it() -> None:
    old, new = log(150, b"old"), log(150, b"new", log(150, b"old")[:30])
    served = old[:100] + new[100:]  # as by one who has both branches, and shows a reader parts of each
    one = reader()
    read(one, served, 150)
    assert one.take_items() == []
    assert one.take_errors() == ["fork"]
    assert one.forked_at in range(31, 101)


@pytest.mark.parametrize("loss", [0.0, 5.0])
def test_a_run_delivers_the_newest_items_to_who_comes_late(loss: float) -> None:
    link = {"delay_ms": 5.0, "loss_percent": loss}
    made = scenario(
        layerings=("sparse",),
        topology={"generator": "tree", "depth": 2, "fanout": 2, "link": link},
        workload={"items": 60, "schedule": {"speed": 1e6, "idle_limit_ms": 50.0}},
        plans={"s1": {"start_ms": 5000}},
        settle_ms=6000,
    )
    part = simulate(made, "sparse")
    assert {node: part.delivered(node) for node in ("s1", "s2", "s3", "s4")} == {
        "s1": [*range(45, 61)],
        **{node: [*range(1, 61)] for node in ("s2", "s3", "s4")},
    }
    texts = part.load.feeds[0].messages
    sizes = {e["seq"]: e["bytes"] for e in part.events["s1"] if e["event"] == "delivered"}
    assert sizes == {seq: len(texts[seq - 1].encoded) for seq in sizes}


@pytest.mark.parametrize("a", [0, -1])
def test_there_is_no_way_from_nothing(a: int) -> None:
    with pytest.raises(ValueError, match="no links lead"):
        path(5, a)
