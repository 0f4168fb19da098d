"""SVS-PS: mappings of numbers to names, questions, members with links of every quality, and whole runs."""

from functools import partial
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lossy_group import deliver, run
from simulation import scenario, simulate

from base.units import MS, SECOND
from forwarder.wire import packet as packets
from forwarder.wire.feed import item_name
from forwarder.wire.name import NAME, from_uri, to_uri
from forwarder.wire.packet import make_data
from forwarder.wire.parameters import make_interest_with_parameters, parameters_of
from forwarder.wire.tlv import MalformedPacket, element, nni
from ssb.keys import Identity
from ssb_over_ndn.naming import LOGS, PUBSUB_ALL, log_name
from ssb_over_ndn.sync import pubsub
from ssb_over_ndn.sync.pubsub import (
    MAPPING_DATA,
    MAPPING_ENTRY,
    SEQ_NO,
    PubSubMember,
    decode_mapping,
    encode_mapping,
    node_name,
)
from ssb_over_ndn.sync.state_vector import encode_vector

FEEDS = [log_name(Identity.from_seed(bytes([n]) * 32).ref) for n in range(40)]
GROUP = PUBSUB_ALL + from_uri("/v=3")


def member(node: str, seed: int = 1, **more: int) -> PubSubMember:
    parameters = {"periodic_ms": 30_000, "suppression_ms": 200, "mapping_entries": 4, "question_ms": 2000}
    return PubSubMember(node=node, rng=Random(seed), **(parameters | more))


def item(feed: bytes, seq: int) -> packets.Data:
    return packets.parse_data(make_data(item_name(feed, seq), b""))


def publish(one: PubSubMember, feed: bytes, seq: int, now: int = 0) -> None:
    one.publish(feed, seq, item(feed, seq), now)


def sync_interest(content: bytes) -> bytes:
    data = make_data(GROUP, content)
    return make_interest_with_parameters(GROUP, data, nonce=1, lifetime_ms=1000, hop_limit=32)


@given(st.dictionaries(st.integers(0, 1 << 40), st.sampled_from(FEEDS), max_size=20))
def test_a_mapping_reads_back(names: dict[int, bytes]) -> None:
    content = element(201) + encode_mapping(node_name("a"), names.items()) + element(240, b"more")
    assert decode_mapping(content) == (node_name("a"), names)


def test_more_may_follow_in_an_entry() -> None:
    entry = element(MAPPING_ENTRY, element(SEQ_NO, nni(7)) + element(NAME, FEEDS[0]) + element(56, nni(9)))
    content = element(MAPPING_DATA, element(NAME, node_name("a")) + entry)
    assert decode_mapping(content) == (node_name("a"), {7: FEEDS[0]})


@pytest.mark.parametrize(
    "inner",
    [
        b"",
        element(SEQ_NO, nni(1)),
        element(NAME, FEEDS[0]) + element(MAPPING_ENTRY),
        element(NAME, FEEDS[0]) + element(MAPPING_ENTRY, element(NAME, FEEDS[0]) + element(SEQ_NO, nni(1))),
        element(NAME, FEEDS[0]) + element(MAPPING_ENTRY, element(SEQ_NO, b"") + element(NAME, FEEDS[0])),
        element(NAME, FEEDS[0])
        + element(MAPPING_ENTRY, element(SEQ_NO, nni(1)) + element(NAME, b"\x08\x09")),
    ],
)
def test_no_mapping(inner: bytes) -> None:
    with pytest.raises(MalformedPacket):
        decode_mapping(element(MAPPING_DATA, inner))


@given(st.binary(max_size=80))
def test_what_is_no_mapping_is_told(value: bytes) -> None:
    for content in (value, element(MAPPING_DATA, value), element(MAPPING_DATA, element(NAME) + value)):
        try:
            decode_mapping(content)
        except MalformedPacket:
            continue


def test_an_announcement_brings_the_name() -> None:
    one, other = member("a"), member("b")
    publish(one, FEEDS[0], 1)
    (announced,) = one.take_outputs()
    data = packets.parse_data(parameters_of(packets.parse_interest(announced)) or b"")
    assert decode_mapping(data.content) == (node_name("a"), {1: item_name(FEEDS[0], 1)})
    deliver(other, announced, 5 * MS)
    assert other.newest == {FEEDS[0]: 1}
    assert other.changed == {FEEDS[0]: None}
    assert other.take_outputs() == []  # nothing is missing


def test_who_misses_names_asks_for_them_a_few_at_a_time() -> None:
    one, late = member("a"), member("b")
    for seq in range(1, 11):
        publish(one, FEEDS[seq % 3], 1 + seq // 3, SECOND)
    *_, last = one.take_outputs()
    deliver(late, last, 2 * SECOND)
    asked = late.take_outputs()
    names = [to_uri(packets.parse_interest(wire).name) for wire in asked]
    start = to_uri(node_name("a") + PUBSUB_ALL) + "/t=1/MAPPING"
    assert names == [f"{start}/seq={low}/seq={high}" for low, high in ((1, 4), (5, 8), (9, 9))]
    for wire in asked:
        deliver(one, wire, 2 * SECOND)
    answers = one.take_outputs()
    assert len(answers) == 3
    for wire in answers:
        deliver(late, wire, 2 * SECOND)
    assert late.newest == {FEEDS[0]: 4, FEEDS[1]: 4, FEEDS[2]: 3}
    assert late.take_outputs() == []
    assert len(late._questions) == 0


def test_a_question_without_an_answer_is_repeated_ever_more_seldom() -> None:
    one, late = member("a"), member("b")
    publish(one, FEEDS[0], 1)
    publish(one, FEEDS[0], 2)
    deliver(late, one.take_outputs()[1], 0)
    late.take_outputs()
    times = []
    while len(times) < 8:
        now = late.next_deadline() or 0
        late.wake(now)
        if any(packets.parse_interest(wire).name.startswith(node_name("a")) for wire in late.take_outputs()):
            times.append(now // SECOND)
    assert times == [2, 6, 14, 30, 62, 122, 182, 242]


def test_an_answer_is_as_large_as_a_packet_allows_and_the_rest_is_asked_for() -> None:
    one, late = member("a"), member("b", mapping_entries=1000)
    for seq in range(1, 301):
        publish(one, FEEDS[0], seq)
    deliver(late, one.take_outputs()[-1], 0)
    rounds = 0
    while asked := late.take_outputs():
        rounds += 1
        for wire in asked:
            deliver(one, wire, 0)
        for wire in one.take_outputs():
            assert len(wire) <= packets.LARGEST_PACKET
            deliver(late, wire, 0)
    assert rounds == 3
    assert late._sources[node_name("a"), 0].done == 300


@pytest.mark.parametrize(
    "question",
    [
        "t=1/MAPPING/seq=0/seq=3",
        "t=1/MAPPING/seq=3/seq=2",
        "t=2/MAPPING/seq=1/seq=1",
        "t=1/MAP/seq=1/seq=1",
        "t=1/MAPPING",
        "x",
    ],
)
def test_no_question(question: str) -> None:
    one = member("a")
    for seq in range(1, 4):
        publish(one, FEEDS[0], seq, SECOND)
    one.take_outputs()
    name = node_name("a") + PUBSUB_ALL + from_uri("/" + question)
    deliver(one, packets.make_interest(name, nonce=1), SECOND)
    assert one.take_outputs() == []


def test_names_of_numbers_that_no_vector_has_are_not_kept() -> None:
    one = member("b")
    vector = {(node_name("a"), 7): 3}
    names = {n: item_name(FEEDS[0], n) for n in (2, 4, 1 << 30)}
    deliver(one, sync_interest(encode_vector(vector) + encode_mapping(node_name("a"), names.items())), 0)
    assert one.newest == {FEEDS[0]: 2}
    assert one._sources[node_name("a"), 7].beyond == {2}


@pytest.mark.parametrize(
    "name", [from_uri("/other"), FEEDS[0], LOGS, node_name("a") + FEEDS[0], from_uri("/ssb/nodes")]
)
def test_only_nodes_are_names_of_the_group(name: bytes) -> None:
    one = member("b")
    deliver(one, sync_interest(encode_vector({(name, 7): 3})), 0)
    assert one.vector == {}


def test_a_node_that_claims_too_much_costs_little() -> None:
    one = member("b")
    for n in range(5000):
        deliver(one, sync_interest(encode_vector({(node_name(f"n{n}"), 7): 1 << 50})), n)
    assert len(one.vector) == 4096
    assert len(one._questions) == 8
    assert one.ends()[1] < 1 << 20
    one.stop()
    assert one.next_deadline() is None


@settings(max_examples=20, deadline=None)
@given(
    st.integers(0, 1 << 20),
    st.sampled_from([0.0, 0.3, 0.5]),
    st.sampled_from([1, 64]),
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 3)), max_size=30),
)
def test_all_members_agree_in_the_end(
    seed: int, loss: float, entries: int, todo: list[tuple[int, int]]
) -> None:
    """The last member joins when the others have published half."""
    members = [member(f"n{n}", n, mapping_entries=entries) for n in range(4)]
    numbers: dict[bytes, int] = {}

    def announce(at: int, feed: bytes, now: int) -> None:
        numbers[feed] = numbers.get(feed, 0) + 1
        publish(members[at], feed, numbers[feed], now)

    steps = [(n // 3 * 10 * SECOND, one.send) for n, one in enumerate(members)]
    steps += [(time * SECOND, partial(announce, at, FEEDS[at * 8 + time % 8])) for time, at in sorted(todo)]
    run(members, steps, 400 * SECOND, Random(seed), loss)
    for at, one in enumerate(members):
        assert one.newest == {feed: seq for feed, seq in numbers.items() if FEEDS.index(feed) // 8 != at}
        assert not one._questions


@pytest.mark.parametrize("gone", [1, 20])
def test_nodes_that_left_do_not_keep_others_from_being_asked(gone: int) -> None:
    live, late = member("live"), member("late", 2)
    vector = {(node_name(f"n{n}"), 7): 40 for n in range(gone)}
    deliver(live, sync_interest(encode_vector(vector)), 0)
    for seq in range(1, 4):
        publish(live, FEEDS[1], seq)
    live.take_outputs()
    run([live, late], [(0, late.send)], 120 * SECOND, Random(1), 0.0)
    assert late.newest == {FEEDS[1]: 3}


def test_an_announcement_that_was_overtaken_ends_the_question() -> None:
    one, other = member("a"), member("b")
    for seq in range(1, 4):
        publish(one, FEEDS[0], seq)
    first, second, third = one.take_outputs()
    deliver(other, first, 0)
    deliver(other, third, 0)
    (asked,) = other.take_outputs()
    deliver(other, second, 1)
    assert not other._questions
    deliver(one, asked, 2)
    deliver(other, one.take_outputs()[0], 3)  # nobody waits for this any more
    assert other._sources[node_name("a"), 0].done == 3


def test_an_answer_without_news_is_not_asked_for_again_at_once() -> None:
    one = member("b")
    deliver(one, sync_interest(encode_vector({(node_name("a"), 7): 3})), 0)
    (asked,) = one.take_outputs()
    answer = make_data(packets.parse_interest(asked).name, encode_mapping(node_name("a"), []))
    deliver(one, answer, 1)
    assert one.take_outputs() == []


def test_feeds_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pubsub, "_MOST_FEEDS", 10)
    one = member("b")
    names = enumerate((item_name(feed, 1) for feed in FEEDS), start=1)
    deliver(
        one,
        sync_interest(encode_vector({(node_name("a"), 7): 40}) + encode_mapping(node_name("a"), names)),
        0,
    )
    assert len(one.newest) == 10
    assert one._sources[node_name("a"), 7].done == 40


@pytest.mark.parametrize(
    ("more", "loss"), [({}, 0.0), ({}, 5.0), ({"mapping_entries": 1, "periodic_ms": 1000}, 20.0)]
)
def test_a_run_delivers_all(more: dict[str, Any], loss: float) -> None:
    made = scenario(
        layerings=("sync-ps",),
        subscribers=("s1", "s4"),
        publishers=("pub", "s2"),
        workload={"items": 24, "feeds": 6, "follows": 4, "schedule": {"speed": 1e6, "idle_limit_ms": 50.0}},
        topology={
            "generator": "tree",
            "depth": 2,
            "fanout": 2,
            "link": {"delay_ms": 5.0, "loss_percent": loss},
        },
        parameters={"sync-ps": {"periodic_ms": 3000} | more},
        settle_ms=40_000,
    )
    result = simulate(made, "sync-ps")
    wanted = {
        (node, feed.key, seq)
        for node, feeds in result.load.follows.items()
        for feed in feeds
        for seq in range(1, len(feed.messages) + 1)
    }
    got = [
        (node, row["feed"], row["seq"])
        for node, rows in result.events.items()
        for row in rows
        if row["event"] == "delivered"
    ]
    assert len(got) == len(wanted)
    assert set(got) == wanted
    assert sum(node.held()["pit"].entries for node in result.nodes.values()) == 0
