"""PSync: tables against sets, answers, members with links of every quality, and whole runs."""

import zlib
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
from forwarder.wire.name import GENERIC, SEGMENT, VERSION, component, components
from forwarder.wire.packet import make_data, make_interest
from forwarder.wire.tlv import MalformedPacket, nni
from ssb.keys import Identity
from ssb_over_ndn.naming import LOGS, PSYNC_ALL, log_name
from ssb_over_ndn.sync import psync
from ssb_over_ndn.sync.lookup_table import Table
from ssb_over_ndn.sync.psync import PsyncMember, decode_state, encode_state

FEEDS = [log_name(Identity.from_seed(bytes([n]) * 32).ref) for n in range(40)]
ITEM = packets.parse_data(make_data(FEEDS[0], b""))
KEYS = st.sets(st.integers(0, (1 << 32) - 1), max_size=30)


def member(seed: int = 1, ahead: int = 1, entries: int = 80) -> PsyncMember:
    return PsyncMember(
        rng=Random(seed), table_feeds=entries, interest_ms=1000, freshness_ms=1000, ahead=ahead
    )


def table_of(keys: set[int], entries: int = 80) -> Table:
    table = Table(entries)
    for key in keys:
        table.add(key)
    return table


def told_in(answers: list[bytes]) -> list[list[tuple[bytes, int]]]:
    return [[*decode_state(packets.parse_data(wire).content)] for wire in answers]


@given(KEYS, KEYS, KEYS)
def test_a_difference_that_is_whole_is_that_of_the_sets(
    both: set[int], ours: set[int], theirs: set[int]
) -> None:
    found = table_of(both | ours).difference(table_of(both | theirs))
    if found.is_whole:
        assert found.ours == (both | ours) - (both | theirs)
        assert found.theirs == (both | theirs) - (both | ours)
    else:  # half as many cells more than keys: it fails seldom
        assert len(ours ^ theirs) > 2


def test_few_differences_are_found_nearly_always_and_many_never() -> None:
    rng = Random(1)
    for size, least, most in ((10, 297, 300), (80, 230, 300), (200, 0, 0)):
        whole = 0
        for _ in range(300):
            keys = {rng.getrandbits(32) for _ in range(size)}
            whole += table_of(keys).difference(Table(80)).is_whole
        assert least <= whole <= most, size


@given(
    st.lists(st.tuples(st.integers(-2, 2), st.integers(0, 3), st.integers(0, 3)), min_size=12, max_size=12)
)
def test_a_table_that_is_no_sum_of_keys_is_told(cells: list[tuple[int, int, int]]) -> None:
    keys = [7, 1 << 31, 0, 12345]
    checks = [next(check for check in table_of({key}, 8)._checks if check) for key in keys]
    wire = b"".join(
        count.to_bytes(4, "big", signed=True) + keys[k].to_bytes(4, "big") + checks[c].to_bytes(4, "big")
        for count, k, c in cells
    )
    Table(8).difference(Table(8).decode(zlib.compress(wire)))


def test_a_key_in_one_cell_alone_ends() -> None:
    whole = table_of({5}, 8)
    for at in range(12):
        table = Table(8)
        table._counts[at], table._keys[at] = 1, 5
        table._checks[at] = next(check for check in whole._checks if check)
        assert not Table(8).difference(table).is_whole


@given(KEYS)
def test_a_table_reads_back(keys: set[int]) -> None:
    table = table_of(keys)
    found = Table(80).decode(table.encode()).difference(table)
    assert found.is_whole
    assert not found.ours | found.theirs
    assert Table(80).decode(table.encode()).encode() == table.encode()


@pytest.mark.parametrize("value", [b"", b"x", zlib.compress(b""), zlib.compress(bytes(1440))[:-1]])
def test_no_table(value: bytes) -> None:
    with pytest.raises(MalformedPacket):
        Table(80).decode(value)


def test_a_bomb_is_not_unpacked() -> None:
    for size in (1441, 1 << 26):
        with pytest.raises(MalformedPacket):
            Table(80).decode(zlib.compress(bytes(size)))


@given(st.lists(st.tuples(st.sampled_from(FEEDS), st.integers(0, 1 << 40)), max_size=50))
def test_a_state_reads_back(names: list[tuple[bytes, int]]) -> None:
    assert [*decode_state(encode_state(names))] == names


def test_names_of_no_log_are_left_out() -> None:
    assert [*decode_state(encode_state([(LOGS, 3), (b"", 1), (FEEDS[0], 4), (FEEDS[0] + FEEDS[1], 5)]))] == [
        (FEEDS[0], 4)
    ]


@given(st.binary(max_size=200))
def test_no_state(value: bytes) -> None:
    for content in (value, zlib.compress(value)):
        try:
            [*decode_state(content)]
        except MalformedPacket:
            continue
        assert content != value or value[:1] == b"\x78"


def test_who_knows_as_much_waits_for_the_news() -> None:
    one, other = member(1), member(2)
    one.send(0)
    (asked,) = one.take_outputs()
    deliver(other, asked, 5 * MS)
    assert other.take_outputs() == []
    other.publish(FEEDS[0], 1, ITEM, 300 * MS)
    answer, joined = other.take_outputs()
    assert packets.parse_interest(joined).name.startswith(PSYNC_ALL)
    deliver(one, answer, 305 * MS)
    assert one.newest == {FEEDS[0]: 1}
    assert one.changed == {FEEDS[0]: None}
    assert 405 * MS <= (one.next_deadline() or 0) <= 805 * MS
    other.publish(FEEDS[0], 2, ITEM, 400 * MS)
    assert other.take_outputs() == []  # nobody waits


def test_an_answer_to_others_is_one_to_the_own_interest_too() -> None:
    one, other = member(1), member(2)
    one.send(0)
    other.send(0)
    (asked,) = one.take_outputs()
    assert packets.parse_interest(other.take_outputs()[0]).name == packets.parse_interest(asked).name
    deliver(other, asked, 5 * MS)
    other.publish(FEEDS[0], 1, ITEM, 300 * MS)
    answer, renewed = other.take_outputs()
    assert packets.parse_data(answer).name.startswith(packets.parse_interest(asked).name)
    assert components(packets.parse_interest(renewed).name)[-1] == (GENERIC, nni(1))


@pytest.mark.parametrize(("ahead", "is_told"), [(1, True), (2, False)])
def test_what_is_old_is_told_by_who_looks_one_ahead(ahead: int, is_told: bool) -> None:
    behind, before = member(1, ahead), member(2, ahead)
    behind.publish(FEEDS[0], 4, ITEM, 0)
    before.publish(FEEDS[0], 6, ITEM, 0)
    before.send(SECOND)
    deliver(behind, before.take_outputs()[0], SECOND)
    answers = [wire for wire in behind.take_outputs() if wire[0] == packets.DATA]
    assert [[*decode_state(packets.parse_data(wire).content)] for wire in answers] == [
        [(FEEDS[0], 4)]
    ] * is_told
    for wire in answers:  # nothing new: the next Interest waits until caches have forgotten the answer
        deliver(before, wire, SECOND)
        assert 2100 * MS <= (before.next_deadline() or 0) <= 2500 * MS


def test_who_is_behind_answers_when_it_has_learnt() -> None:
    one, other, third = member(1), member(2), member(3)
    other.publish(FEEDS[0], 1, ITEM, 0)
    (asked,) = other.take_outputs()
    deliver(one, asked, 0)
    assert one.take_outputs() == []
    third.publish(FEEDS[0], 1, ITEM, 0)
    third.publish(FEEDS[1], 1, ITEM, 0)
    third.take_outputs()
    one.send(1)
    deliver(third, one.take_outputs()[0], 1)
    (answer,) = third.take_outputs()
    deliver(one, answer, 2)
    assert [[*decode_state(packets.parse_data(wire).content)] for wire in one.take_outputs()] == [
        [(FEEDS[1], 1)]
    ]


def test_state_is_bounded_and_ends() -> None:
    one = member()
    one.send(0)
    for n in range(3000):
        table = table_of({n}).encode() if n % 2 else Table(80).encode()
        name = PSYNC_ALL + component(GENERIC, table) + component(GENERIC, nni(n))
        one.on_interest(packets.parse_interest(make_interest(name, nonce=n, lifetime_ms=3_000_000)), n)
    assert one.ends()[1] < 2 * 1024 * 3000
    one.stop()
    assert one.next_deadline() is None
    assert one.ends() == (0, 0)


@settings(max_examples=20, deadline=None)
@given(
    st.integers(0, 1 << 20),
    st.sampled_from([0.0, 0.3, 0.5]),
    st.sampled_from([4, 12, 80]),
    st.sampled_from([1, 64]),
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 3)), max_size=30),
)
def test_all_members_agree_in_the_end(
    seed: int, loss: float, entries: int, ahead: int, publish: list[tuple[int, int]]
) -> None:
    """The last member joins when the others have published half."""
    members = [member(n, ahead, entries) for n in range(4)]
    numbers: dict[bytes, int] = {}

    def announce(at: int, feed: bytes, now: int) -> None:
        numbers[feed] = numbers.get(feed, 0) + 1
        members[at].publish(feed, numbers[feed], ITEM, now)

    steps = [(n // 3 * 10 * SECOND, one.send) for n, one in enumerate(members)]
    steps += [
        (time * SECOND, partial(announce, at, FEEDS[at * 8 + time % 8])) for time, at in sorted(publish)
    ]
    run(members, steps, 120 * SECOND, Random(seed), loss)
    assert [one.newest for one in members] == [numbers] * 4


def segment(version: int, number: int, last: int, content: bytes) -> packets.Data:
    """A segment of an answer to who knows nothing."""
    one = member()
    one.send(0)
    name = packets.parse_interest(one.take_outputs()[0]).name + component(VERSION, nni(version))
    final = component(SEGMENT, nni(last))
    return packets.parse_data(make_data(name + component(SEGMENT, nni(number)), content, final_block=final))


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [2, 0, 1, 3], [3, 3, 1, 2, 0]])
def test_segments_come_in_any_order_and_their_number_does_not_change(order: list[int]) -> None:
    content = encode_state([(FEEDS[0], 7)])
    one = member()
    one.send(0)
    one.take_outputs()
    for n in order:
        one.on_data(
            segment(1, n, 3 if n == order[0] else 1, content[n * 20 : (n + 1) * 20 if n < 3 else None]), 1
        )
    assert one.newest == {FEEDS[0]: 7}
    asked = [components(packets.parse_interest(wire).name)[-1][1] for wire in one.take_outputs()]
    assert len(set(asked)) == len(asked)
    assert {*asked, nni(order[0])} == {*map(nni, range(4))}


def test_an_answer_that_comes_twice_counts_once() -> None:
    one = member()
    one.send(0)
    answer = segment(1, 0, 0, encode_state([(FEEDS[0], 7)]))
    one.on_data(answer, 1)
    due = one.next_deadline()
    one.on_data(answer, 2)
    assert one.next_deadline() == due


def test_numbers_as_large_as_there_are() -> None:
    most = (1 << 64) - 1
    one, other = member(1, ahead=64), member(2)
    one.send(0)
    one.on_data(segment(1, 0, 0, encode_state([(FEEDS[n], most - n) for n in range(3)])), 1)
    assert one.newest == {FEEDS[1]: most - 1, FEEDS[2]: most - 2}  # the last number is no item's
    one.wake(one.next_deadline() or 0)
    *_, total = components(packets.parse_interest(one.take_outputs()[-1]).name)
    assert total == (GENERIC, nni((2 * most - 3) % (1 << 64)))
    other.publish(FEEDS[0], 1, ITEM, 0)
    deliver(one, other.take_outputs()[0], SECOND)
    ((told),) = told_in(one.take_outputs())
    assert dict(told) == one.newest


def test_a_lower_number_than_the_group_knows_changes_nothing() -> None:
    one = member()
    one.send(0)
    one.on_data(segment(1, 0, 0, encode_state([(FEEDS[0], 7)])), 1)
    one.publish(FEEDS[0], 5, ITEM, 2)
    assert one.newest == {FEEDS[0]: 7}


def sync_interest(table: Table, padding: bytes = b"", **more: int) -> packets.Interest:
    name = PSYNC_ALL + component(GENERIC, table.encode() + padding) + component(GENERIC, nni(0))
    return packets.parse_interest(make_interest(name, nonce=1, **more))


def test_answers_that_are_held_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psync, "_MOST_SEGMENTS_HELD", 100)
    one = member()
    one.publish(FEEDS[0], 1, ITEM, 0)
    for n in range(300):
        one.on_interest(sync_interest(table_of({n})), 1)
    assert len(one._answers) == 100
    assert len(one.take_outputs()) == 301


def test_each_segment_fits_in_a_packet() -> None:
    rng = Random(1)
    one = member(entries=400)
    for n in range(400):
        one.publish(log_name(Identity.from_seed(n.to_bytes(32, "big")).ref), 1, ITEM, 0)
    one.take_outputs()
    full = table_of({rng.getrandbits(32) for _ in range(2000)}, 400)
    one.on_interest(sync_interest(full), 1)
    ((segments, _),) = one._answers.values()
    assert len(segments) > 5
    assert 8600 < max(map(len, segments)) <= packets.LARGEST_PACKET
    assert len(one.take_outputs()) == 1
    one.on_interest(sync_interest(full, bytes(2000)), 1)  # its name leaves no room for an answer
    assert one.take_outputs() == []


def test_an_interest_does_not_wait_for_ever() -> None:
    one = member()
    one.on_interest(sync_interest(Table(80), lifetime_ms=1 << 60), 0)
    one.on_interest(sync_interest(Table(80), b"x"), 3600 * SECOND)
    assert len(one._pending) == 1


@pytest.mark.parametrize("feeds", [60, 200, 500])
def test_who_joins_late_learns_all_from_afar(feeds: int) -> None:
    """An answer of several segments takes round trips of up to 60 ms."""
    one, late = member(1), member(2)
    known = {log_name(Identity.from_seed(n.to_bytes(32, "big")).ref): 1 for n in range(feeds)}
    for feed in known:
        one.publish(feed, 1, ITEM, 0)
    run([one, late], [(0, late.send)], 10 * SECOND, Random(1), 0.0)
    assert late.newest == known


@pytest.mark.parametrize(("more", "loss"), [({}, 0.0), ({}, 5.0), ({"ahead": 64, "table_feeds": 4}, 5.0)])
def test_a_run_delivers_all(more: dict[str, Any], loss: float) -> None:
    made = scenario(
        layerings=("psync",),
        subscribers=("s1", "s4"),
        publishers=("pub", "s2"),
        workload={"items": 24, "feeds": 6, "follows": 4, "schedule": {"speed": 1e6, "idle_limit_ms": 50.0}},
        topology={
            "generator": "tree",
            "depth": 2,
            "fanout": 2,
            "link": {"delay_ms": 5.0, "loss_percent": loss},
        },
        parameters={"psync": more},
        settle_ms=12_000,
    )
    result = simulate(made, "psync")
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
