"""Multicast trees: any reader gets all items once and in order, whatever links do, or hears what is gone."""

from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from multicast_world import CHANNEL, PATIENCE, Link, World
from mutants.bounds import Bound, check, line, value

from base.units import MS, SECOND
from ssb.multicast import ends, router
from ssb.multicast.ends import MOST_REPAIRED, Gone, Reader, Source, segments
from ssb.multicast.gaps import MOST_AHEAD, MOST_ASKED, Gaps, Patience
from ssb.multicast.packets import (
    FIRST,
    LAST,
    MOST_BEFORE,
    MOST_CHANNELS,
    MOST_RANGES,
    Channel,
    Heartbeat,
    InvalidPacket,
    Item,
    Join,
    Packet,
    Prune,
    Request,
    Restart,
    Segment,
    encode,
    parse,
    requests,
)
from ssb.multicast.router import HOLD, MOST_TREES, REFRESH, Router

TREE = [(0, 1), (1, 2), (1, 3), (2, 4), (2, 5), (3, 6)]
READERS = (4, 5, 6)
RING = [(0, 1), (1, 2), (2, 3), (0, 4), (4, 3), (3, 5)]
"""Node 5 reads over 4, the shorter way, or over 1 and 2."""

CHANNELS = st.builds(Channel, *[st.binary(min_size=4, max_size=4)] * 2)
NUMBERS = st.integers(1, (1 << 32) - 1)
BEFORE = st.integers(0, MOST_BEFORE)
LISTS = st.lists(CHANNELS, min_size=1, max_size=MOST_CHANNELS).map(tuple)
SEGMENTS = st.builds(Segment, st.integers(0, 3), st.binary(min_size=1, max_size=50))
PACKETS: st.SearchStrategy[Packet] = st.one_of(
    st.builds(Join, LISTS),
    st.builds(Prune, LISTS),
    st.just(Restart()),
    st.builds(Item, CHANNELS, NUMBERS, BEFORE, SEGMENTS, st.booleans()),
    st.builds(lambda channel, ends, before: Heartbeat(channel, min(ends), max(ends), before), CHANNELS,
              st.tuples(NUMBERS, NUMBERS), BEFORE),
    st.builds(lambda channel, numbers: requests(channel, numbers)[0], CHANNELS, st.sets(NUMBERS, min_size=1)),
)  # fmt: skip


def items(count: int) -> list[bytes]:
    """Items of one to three segments."""
    return [b"%03d" % number * (1 + number % 9) for number in range(1, count + 1)]


def play(world: World, published: list[bytes], pause: int = 50 * MS) -> None:
    for item in published:
        world.publish(item)
        world.run(pause)


@given(PACKETS)
def test_packets_are_read_as_they_were_written(packet: Packet) -> None:
    assert parse(encode(packet)) == packet


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00",
        b"\x01",  # no channel
        b"\x01" + bytes(8 * (MOST_CHANNELS + 1)),
        b"\x02" + bytes(7),
        b"\x03\x00",
        b"\x04" + bytes(8) + bytes(4) + b"\0\0x",  # number 0
        b"\x04" + bytes(8) + b"\0\0\0\1\0\4x",  # no place
        b"\x04" + bytes(8) + b"\0\0\0\1\0\0",  # no content
        b"\x06" + bytes(8) + b"\0\0\0\0\0\0\0\1\0",  # oldest 0
        b"\x06" + bytes(8) + b"\0\0\0\3\0\0\0\1\0",  # oldest after newest
        b"\x07" + bytes(8),
        b"\x07" + bytes(8) + b"\0\0\0\1\0\0",  # an empty range
        b"\x07" + bytes(8) + b"\0\0\0\5\0\1\0\0\0\1\0\1",  # not in order
        b"\x07" + bytes(8) + b"\xff\xff\xff\xff\0\2",  # beyond the last number
        b"\x07" + bytes(8) + b"".join(at.to_bytes(4) + b"\0\1" for at in range(1, MOST_RANGES + 2)),
        b"\x08" + bytes(20),
    ],
)
def test_what_is_no_packet_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidPacket):
        parse(data)


@given(st.sets(st.integers(1, 400)), st.integers(0, 100))
def test_requests_name_all_lacking_segments_and_no_others(numbers: set[int], shift: int) -> None:
    numbers = {each + shift * 70_000 for each in numbers}
    said = requests(CHANNEL, numbers)
    named = [each for one in said for first, count in one.ranges for each in range(first, first + count)]
    assert sorted(numbers) == named
    assert all(parse(encode(each)) == each for each in said)


@given(st.binary(min_size=1, max_size=100), st.integers(1, 20))
def test_segments_make_their_item(item: bytes, size: int) -> None:
    parts = [*segments(item, size)]
    assert b"".join(each.content for each in parts) == item
    assert [bool(each.place & FIRST) for each in parts] == [at == 0 for at in range(len(parts))]
    assert [bool(each.place & LAST) for each in parts] == [at == len(parts) - 1 for at in range(len(parts))]
    assert all(len(each.content) <= size for each in parts)


@given(st.lists(st.tuples(st.integers(1, 40), st.sampled_from(["take", "learn", "forget"]))))
def test_gaps_are_those_of_a_set(steps: list[tuple[int, str]]) -> None:
    gaps, here, newest = Gaps(0, Patience()), set[int](), 0
    for number, what in steps:
        if what == "take":
            assert gaps.take(number, 0, 0) == (number not in here)
            here.add(number)
            newest = max(newest, number)
        elif what == "learn":
            gaps.learn(number, 0, 0)
            newest = max(newest, number)
        else:
            gaps.forget(number)
            here |= set(range(1, number))
            newest = max(newest, number - 1)
        lacking = [each for each in range(1, newest + 1) if each not in here]
        assert [*gaps.lacking()] == lacking
        assert gaps.newest == newest
        assert gaps.floor == (lacking[0] - 1 if lacking else newest)
        for each in range(1, newest + 2):
            run = 0
            while each - 1 - run > gaps.floor and each - 1 - run in here:
                run += 1
            assert gaps.before(each) == (MOST_BEFORE if each - 1 - run <= gaps.floor else run)
    assert set(gaps.ask(SECOND)) <= set(range(1, newest + 1)) - here


LINKS = st.builds(
    Link,
    st.sampled_from([0.0, 0.05, 0.3]),
    st.sampled_from([0.0, 0.2]),
    st.sampled_from([MS, 30 * MS]),
    st.sampled_from([0, 5 * MS, 80 * MS]),
)


@example(Link(loss=0.3, repeated=0.2, delay=MS), 3194001, 0, 0)  # 126 s
@settings(max_examples=60, deadline=None)
@given(LINKS, st.integers(0, 1 << 30), st.sampled_from([0, 1, 8, 256]), st.integers(0, 15))
def test_every_reader_gets_every_item_once_and_in_order(link: Link, seed: int, kept: int, late: int) -> None:
    world = World(TREE, link, seed=seed, kept=kept)
    published = items(15)
    for node in READERS[:2]:
        world.join(node)
    play(world, published[:late], 30 * MS)
    world.join(READERS[2])
    play(world, published[late:], 30 * MS)
    whole = dict.fromkeys(READERS, published)
    while world.got != whole and world.now < 600 * SECOND:  # joins and requests that are lost again and again
        world.run(60 * SECOND)
    assert world.got == whole


@settings(max_examples=30, deadline=None)
@given(LINKS, st.integers(0, 1 << 30), st.integers(1, 8), st.integers(1, 15))
def test_readers_hear_what_is_gone(link: Link, seed: int, retain: int, late: int) -> None:
    world = World(TREE, link, seed=seed, kept=2, retain=retain)
    published = items(15)
    world.join(4)
    play(world, published[:late], 30 * MS)
    world.join(6)
    play(world, published[late:], 30 * MS)
    world.run(120 * SECOND)
    place = {}  # of each item: its first segment and the next one's
    at = 1
    for item in published:
        place[item] = at, at + len([*segments(item, 10)])
        at = place[item][1]
    for got in world.got.values():
        end = 1
        for each in got:
            first, after = (each.first, each.last + 1) if isinstance(each, Gone) else place[each]
            assert first >= end  # in order, and nothing twice
            if first > end:  # the rest of an item of which segments are gone
                assert isinstance(each, Gone) or any(isinstance(other, Gone) for other in got)
            end = after
        gone = [each for each in got if isinstance(each, Gone)]
        told = {number for each in gone for number in range(each.first, each.last + 1)}
        for item in published:
            assert (item in got) == told.isdisjoint(range(*place[item]))
        assert end == at


def test_a_link_carries_each_segment_once() -> None:
    world = World(TREE)
    for node in READERS:
        world.join(node)
    world.run(SECOND)
    play(world, items(20))
    count = sum(len([*segments(item, 10)]) for item in items(20))
    for here, there in TREE:
        assert world.count(Item, here, there) == count
        assert world.count(Item, there, here) == 0
    assert world.count(Request) == 0


def test_where_nobody_reads_nothing_is_sent() -> None:
    world = World(TREE)
    play(world, items(3))
    world.run(10 * SECOND)
    assert world.sent == []
    world.join(4)
    world.run(SECOND)
    assert world.got[4] == items(3)
    assert world.count(Item, 1, 3) == world.count(Heartbeat, 1, 3) == 0


@pytest.mark.parametrize(("kept", "repairer"), [(8, 1), (0, 0)])
def test_a_loss_is_repaired_by_the_next_node_that_has_it(kept: int, repairer: int) -> None:
    world = World(TREE, kept=kept)
    for node in READERS:
        world.join(node)
    world.run(SECOND)
    lost: list[int] = []
    world.is_lost = lambda here, there, packet: (
        (here, there) == (1, 2)
        and isinstance(packet, Item)
        and packet.number == 2
        and (not lost and not lost.append(packet.number))
    )
    play(world, [b"1", b"2", b"3", b"4"], 20 * MS)
    world.run(SECOND)
    assert world.got == {node: [b"1", b"2", b"3", b"4"] for node in READERS}
    assert world.count(Request, 2, 1) == world.count(Request) - (repairer == 0) == 1
    repairs = [
        (here, there) for _, here, there, each in world.sent if isinstance(each, Item) and each.is_repair
    ]
    assert sorted(repairs) == sorted([*[(0, 1)] * (repairer == 0), (1, 2), (2, 4), (2, 5)])


def test_one_node_asks_for_what_all_below_it_lack() -> None:
    """Suppression: the nodes below know from `before` that the node above them lacks it, too."""
    world = World(TREE)
    for node in READERS:
        world.join(node)
    world.run(SECOND)
    world.is_lost = lambda here, there, packet: (
        there == 1 and isinstance(packet, Item) and packet.number == 2 and not packet.is_repair
    )
    play(world, [b"1", b"2", b"3"], 10 * MS)
    world.run(SECOND)
    assert world.got == {node: [b"1", b"2", b"3"] for node in READERS}
    assert world.count(Request) == world.count(Request, 1, 0) == 1


def test_a_lost_last_item_is_noticed_by_the_heartbeat() -> None:
    world = World(TREE)
    world.join(4)
    world.run(SECOND)
    world.is_lost = lambda here, there, packet: (
        there == 2 and isinstance(packet, Item) and not packet.is_repair
    )
    world.publish(b"1")
    world.run(90 * MS)
    assert world.got[4] == []
    world.run(60 * MS)  # the heartbeat after 100 ms, 15 ms on its way, and a round trip over the link
    assert world.got[4] == [b"1"]


def test_heartbeats_come_after_twice_the_time_each() -> None:
    world = World(TREE)
    world.join(4)
    world.run(SECOND)
    begin = world.now
    world.publish(b"1")
    world.run(9 * SECOND)
    times = [
        (time - begin) // MS
        for time, here, _, packet in world.sent
        if isinstance(packet, Heartbeat) and here == 0 and time > begin
    ]
    assert times == [100, 300, 700, 1500, 3100, 5100, 7100]


@settings(max_examples=20, deadline=None)
@given(st.sampled_from([0.0, 0.1]), st.integers(0, 1 << 30), st.integers(0, 12), st.booleans())
def test_the_tree_moves_with_the_routes(loss: float, seed: int, when: int, is_told: bool) -> None:
    world = World(RING, Link(loss), seed=seed)
    published = items(15)
    world.join(5)
    play(world, published[:when])
    world.set_link((0, 4), up=False, is_told=is_told)
    play(world, published[when:13])
    if is_told:
        world.run(60 * SECOND)
        assert world.got[5] == published[:13]
        assert world.count(Item, 0, 1) > 0 or when == 13
    world.set_link((0, 4), up=True, is_told=is_told)
    play(world, published[13:])
    world.run(120 * SECOND)
    assert world.got[5] == published


def test_a_tree_that_has_moved_leaves_the_old_way() -> None:
    world = World(RING)
    world.join(5)
    world.run(SECOND)
    play(world, items(3))
    world.set_link((4, 3), up=False)
    world.run(SECOND)
    world.sent.clear()
    play(world, [b"1", b"2", b"3"])
    assert world.count(Item, 0, 4) == 0
    assert world.hosts[4].router.trees().entries == 0
    assert [world.count(Item, *edge) for edge in ((0, 1), (1, 2), (2, 3), (3, 5))] == [3] * 4


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from([0.0, 0.1]), st.integers(0, 1 << 30), st.sampled_from([0, 1, 2, 4]), st.integers(1, 14)
)
def test_nodes_that_start_anew_go_on(loss: float, seed: int, node: int, when: int) -> None:
    world = World(TREE, Link(loss), seed=seed)
    published = items(15)
    for reader in READERS:
        world.join(reader)
    play(world, published[:when])
    world.restart(node)
    play(world, published[when:])
    world.run(200 * SECOND)
    assert world.got == dict.fromkeys(READERS, published)


def test_who_leaves_prunes_the_tree_as_far_as_nobody_else_needs_it() -> None:
    world = World(TREE)
    for node in READERS:
        world.join(node)
    world.run(SECOND)
    assert [world.hosts[node].router.trees() for node in (1, 2, 4)] == [(1, 40), (1, 40), (1, 24)]
    world.leave(4)
    world.run(SECOND)
    assert world.count(Prune) == world.count(Prune, 4, 2) == 1
    world.leave(5)
    world.run(SECOND)
    assert (world.count(Prune, 2, 1), world.count(Prune, 1, 0)) == (1, 0)
    world.sent.clear()
    play(world, [b"1"])
    assert world.count(Item, 1, 2) == 0 < world.count(Item, 1, 3)


def test_a_lost_prune_is_repeated_when_something_comes() -> None:
    world = World(TREE)
    world.join(4)
    world.run(SECOND)
    world.is_lost = lambda here, there, packet: isinstance(packet, Prune)
    world.leave(4)
    world.run(10 * MS)
    world.is_lost = lambda here, there, packet: False
    play(world, [b"1", b"2"], 200 * MS)
    assert world.count(Item, 2, 4) == 1
    assert world.hosts[0].router.trees().entries == 0


def test_joins_are_refreshed_and_run_out() -> None:
    world = World(TREE)
    world.join(4)
    world.run(5 * REFRESH)
    assert 5 <= world.count(Join, 4, 2) <= 6
    world.is_lost = lambda here, there, packet: here == 4
    world.run(HOLD + REFRESH // 5)
    assert world.hosts[2].router.trees().entries == 0


def test_a_reader_takes_what_fits_and_asks_for_the_rest_later() -> None:
    reader = Reader(CHANNEL, 0, Patience())
    whole = Segment(FIRST | LAST, b"x")
    reader.receive(Item(CHANNEL, MOST_AHEAD + 1, MOST_BEFORE, whole), 0)
    assert reader.gaps.ahead == 0
    reader.receive(Heartbeat(CHANNEL, 1, (1 << 32) - 1), 0)
    reader.wake(SECOND)
    said = [each for each in reader.outputs if isinstance(each, Request)]
    assert [each.ranges for each in said] == [((1, 64),)]


def test_trees_are_bounded() -> None:
    node = Router([1, 2], {CHANNEL.source: 1}, 8, PATIENCE, Random(0))
    for number in range(MOST_TREES + 1):
        node.receive(2, Join((Channel(CHANNEL.source, number.to_bytes(4)),)), 0)
    assert node.trees().entries == MOST_TREES


def test_one_request_gets_a_bounded_number_of_segments() -> None:
    source = Source(CHANNEL, 1)
    source.publish(b"x" * 1000, 0)
    source.receive(Request(CHANNEL, ((1, 200), (300, 0xFFFF))), 0)
    assert [each.number for each in source.outputs if isinstance(each, Item)] == [
        *range(1, 201),
        *range(300, 300 + MOST_REPAIRED - 200),
    ]


def test_what_neighbours_wait_for_is_bounded() -> None:
    node = Router([1, 2], {CHANNEL.source: 1}, 8, PATIENCE, Random(0))
    node.receive(2, Join((CHANNEL,)), 0)
    node.receive(1, Heartbeat(CHANNEL, 1, 100_000), 0)
    for first in range(1, 2 * MOST_ASKED, MOST_REPAIRED):
        node.receive(2, Request(CHANNEL, ((first, MOST_REPAIRED),)), 0)
    entries, size = node.repairs()
    assert entries == MOST_ASKED
    assert size == 16 * MOST_ASKED


def test_a_router_that_is_far_behind_leaves_the_rest_to_those_who_ask() -> None:
    node = Router([1, 2], {CHANNEL.source: 1}, 8, PATIENCE, Random(0))
    node.receive(2, Join((CHANNEL,)), 0)
    node.receive(1, Heartbeat(CHANNEL, 1, 0), 0)
    segment = Segment(FIRST | LAST, b"x")
    node.receive(1, Item(CHANNEL, 2, MOST_BEFORE, segment), 0)
    node.receive(1, Item(CHANNEL, MOST_AHEAD + 1, MOST_BEFORE, segment), 0)
    assert node.repairs().entries == 0
    assert (2, Item(CHANNEL, MOST_AHEAD + 1, MOST_BEFORE, segment)) in node.outputs


@pytest.mark.parametrize("is_item", [True, False])
def test_a_router_that_is_far_behind_forgets_who_waits_for_what_it_gave_up(is_item: bool) -> None:
    node = Router([1, 2], {CHANNEL.source: 1}, 8, PATIENCE, Random(0))
    node.receive(2, Join((CHANNEL,)), 0)
    node.receive(1, Heartbeat(CHANNEL, 1, 100), 0)
    node.receive(2, Request(CHANNEL, ((1, 10),)), 0)
    assert node.repairs() == (10, 16 * 10)
    far = 100 + MOST_AHEAD + 1
    item = Item(CHANNEL, far, MOST_BEFORE, Segment(FIRST | LAST, b"x"))
    node.receive(1, item if is_item else Heartbeat(CHANNEL, 1, far), MS)
    assert node.repairs() == (0, 0)
    node.outputs.clear()
    node.receive(2, Request(CHANNEL, ((1, 10),)), 2 * MS)
    assert node.repairs() == (10, 16 * 10)
    assert (1, Request(CHANNEL, ((1, 10),))) in node.outputs


def test_a_lost_request_is_repeated_after_a_few_round_trips() -> None:
    world = World(TREE)
    world.join(4)
    world.run(SECOND)
    lost = [3]
    world.is_lost = lambda here, there, packet: (
        (there == 4 and isinstance(packet, Item) and not packet.is_repair and packet.number == 1)
        or (
            here == 4 and isinstance(packet, Request) and lost[0] > 0 and not lost.__setitem__(0, lost[0] - 1)
        )
    )
    world.publish(b"1")
    world.publish(b"2")
    world.run(400 * MS)  # the first measure, that of the join, is of 30 ms over three links
    assert lost == [0]
    assert world.got[4] == [b"1", b"2"]


FAR = {(0, 1): Link(delay=400 * MS)}
"""The last hop before the source is long."""


def lose_items(world: World, here: int, there: int, numbers: set[int]) -> None:
    """Let a link lose some segments once."""

    def is_lost(sender: int, receiver: int, packet: Packet) -> bool:
        found = (sender, receiver) == (here, there) and isinstance(packet, Item) and packet.number in numbers
        if found:
            numbers.remove(packet.number)
        return found

    world.is_lost = is_lost


@pytest.mark.parametrize("node", [1, 2])
def test_a_node_that_starts_anew_fetches_the_past_over_a_long_way(node: int) -> None:
    """An item comes before the answer to a join does, which must not count as a short round trip."""
    world = World(TREE, links=FAR, kept=0)
    world.join(4)
    world.run(3 * SECOND)
    play(world, items(100), 5 * MS)
    world.restart(node)
    play(world, items(10), 5 * MS)
    world.run(10 * SECOND)
    world.sent.clear()
    world.join(6)
    world.run(60 * SECOND)
    assert world.got[6] == world.log
    asked = [each for packet in sent_over(world, Request, 1, 0) for each in numbers_of(packet)]
    assert len(asked) <= 4 * len(set(asked))  # 250 ms each before a round trip is known


def test_a_tree_that_moves_to_a_longer_way_waits_as_long_as_that_takes() -> None:
    world = World(RING, Link(delay=MS), links={(2, 3): Link(delay=400 * MS)})
    world.join(5)
    world.run(SECOND)
    lose_items(world, 4, 3, {3})
    play(world, items(5))
    world.set_link((0, 4), up=False)
    world.run(3 * SECOND)
    world.sent.clear()
    lost = {20, 23, 26}
    lose_items(world, 2, 3, {*lost})
    play(world, items(9), SECOND)
    world.run(10 * SECOND)
    assert world.got[5] == world.log
    # After 250, 500 and 750 ms, before the way is measured. The copies of the first repair measure it.
    assert [numbers_of(each) for each in sent_over(world, Request, 3, 2)] == [[20]] * 4 + [[23]] * 2 + [[26]]


def test_a_link_that_becomes_slow_is_measured_again() -> None:
    world = World([(0, 1)], Link(delay=MS))
    world.join(1)
    world.run(SECOND)
    world.links[0, 1] = Link(delay=400 * MS)
    lost = set(range(10, 90, 2))
    lose_items(world, 0, 1, {*lost})
    play(world, [b"x"] * 100, 2 * SECOND)
    assert world.got[1] == world.log
    asked = [each for packet in sent_over(world, Request, 1, 0) for each in numbers_of(packet)]
    assert set(asked) == lost
    assert len(asked) <= 2 * len(lost)


def test_a_lost_first_join_is_repeated_as_soon_as_a_request() -> None:
    world = World(TREE)
    lost: list[Packet] = []
    world.is_lost = lambda here, there, packet: (
        (here, there) == (1, 0) and isinstance(packet, Join) and not lost and not lost.append(packet)
    )
    world.join(4)
    world.publish(b"1")
    world.run(350 * MS)  # 250 ms, and a round trip over three links and one
    assert lost
    assert world.got[4] == [b"1"]


def test_a_repair_that_the_next_link_loses_is_asked_for_at_once() -> None:
    """Nodes 1 and 2 have asked; then packets say that node 1 has the segment, so the repair is lost."""
    world = World(TREE, links={(0, 1): Link(delay=100 * MS)}, kept=64)
    world.join(4)
    world.run(SECOND)
    firsts = {(0, 1), (1, 2)}

    def is_lost(here: int, there: int, packet: Packet) -> bool:
        found = (here, there) in firsts and isinstance(packet, Item) and packet.number == 2
        firsts.discard((here, there) if found else (0, 0))
        return found

    world.is_lost = is_lost
    play(world, [b"%d" % number for number in range(20)], 20 * MS)  # the request after 250 ms is at 475 ms
    world.run(20 * MS)
    assert not firsts
    assert b"1" in world.got[4]


def test_a_join_after_a_move_is_soon_repeated() -> None:
    world = World(RING)
    world.set_link((0, 4), up=False, is_told=False)
    world.join(5)
    world.run(100 * SECOND)  # joins get rare
    dropped: list[Packet] = []
    world.is_lost = lambda here, there, packet: (
        (here, there) == (3, 2) and isinstance(packet, Join) and not dropped and not dropped.append(packet)
    )
    world.set_link((0, 4), up=False)
    play(world, [b"1"])
    world.run(2 * SECOND)
    assert dropped
    assert world.got[5] == [b"1"]


def sent_over(world: World, kind: type[Packet], here: int, there: int) -> list[Packet]:
    """Return the packets of a kind that went over a link."""
    return [each for _, *way, each in world.sent if way == [here, there] and isinstance(each, kind)]


def numbers_of(packet: Packet) -> list[int]:
    """Return the segments of a request."""
    assert isinstance(packet, Request)
    return [each for first, count in packet.ranges for each in range(first, first + count)]


BOUNDS = [
    Bound("trees", value(router, "MOST_TREES"), test_trees_are_bounded),
    Bound(
        "repairs of a request",
        value(ends, "MOST_REPAIRED"),
        test_one_request_gets_a_bounded_number_of_segments,
    ),
    Bound(
        "segments that are waited for",
        value(router, "MOST_ASKED"),
        test_what_neighbours_wait_for_is_bounded,
    ),
    Bound(
        "how far a router looks back",
        line(Router, "_receive_item", "number > gaps.floor + MOST_AHEAD", "False"),
        test_a_router_that_is_far_behind_leaves_the_rest_to_those_who_ask,
    ),
    Bound(
        "how far ahead a reader keeps",
        line(Gaps, "take", "number > self.floor + MOST_AHEAD", "False"),
        test_a_reader_takes_what_fits_and_asks_for_the_rest_later,
    ),
]


@pytest.mark.patches
@pytest.mark.parametrize("bound", BOUNDS, ids=lambda bound: bound.name)
def test_without_its_bound_a_test_fails(bound: Bound) -> None:
    check(bound)
