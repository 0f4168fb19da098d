"""State Vector Sync with one group for all feeds: vectors in parts, a bound on dates, and whole runs."""

from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulation import scenario, simulate
from small_network import feed_of

from base.units import SECOND
from forwarder.wire import packet as packets
from forwarder.wire.name import from_uri, to_uri
from forwarder.wire.packet import LARGEST_PACKET, make_data
from forwarder.wire.parameters import make_interest_with_parameters, parameters_of
from ssb.keys import Identity
from ssb_over_ndn.naming import LOGS, SYNC_ALL, log_name
from ssb_over_ndn.sync import group
from ssb_over_ndn.sync.all_feeds import AllMember
from ssb_over_ndn.sync.psync import PsyncMember
from ssb_over_ndn.sync.pubsub import node_name
from ssb_over_ndn.sync.state_vector import (
    LARGEST_VECTOR,
    FeedMember,
    Vector,
    bootstrap_time,
    decode_vector,
    encode_vector,
    parts_of,
)
from testbed.layerings.nodes.workload import Feature
from testbed.layerings.registry import LAYERINGS

GROUP = SYNC_ALL + from_uri("/v=3")
FEEDS = [log_name(Identity.from_seed(bytes([n]) * 32).ref) for n in range(40)]
DAY_S = 86_400
NOW = 1_700_000_000 * SECOND


def member(seed: int = 1, limit: int = LARGEST_VECTOR) -> AllMember:
    return AllMember(rng=Random(seed), periodic_ms=30_000, suppression_ms=200, vector_bytes=limit)


def sent_by(one: AllMember | FeedMember) -> list[packets.Interest]:
    return [packets.parse_interest(wire) for wire in one.take_outputs()]


def read(interest: packets.Interest) -> tuple[Vector, bool]:
    parameters = parameters_of(interest)
    assert parameters is not None
    return decode_vector(packets.parse_data(parameters).content)


def sync_interest(vector: Vector, group: bytes = GROUP) -> packets.Interest:
    data = make_data(group, encode_vector(vector))
    return packets.parse_interest(
        make_interest_with_parameters(group, data, nonce=1, lifetime_ms=1000, hop_limit=32)
    )


@given(
    st.dictionaries(st.tuples(st.sampled_from(FEEDS), st.integers(0, 1 << 40)), st.integers(1, 1 << 40)),
    st.integers(100, 2000),
)
def test_parts_of_a_vector_are_all_of_it_and_each_fits(vector: Vector, limit: int) -> None:
    parts = [*parts_of(vector, vector, limit)]
    assert [key for part in parts for key in part] == [*vector]
    assert {key: seq for part in parts for key, seq in part.items()} == vector
    assert all(len(encode_vector(part)) <= max(limit, 100) for part in parts)


def test_a_vector_that_fits_is_sent_whole_and_a_larger_one_in_parts() -> None:
    one = member(limit=600)
    for seq, feed in enumerate(FEEDS[:8], start=1):
        one.update(feed, 7, seq, seq)
    assert all(
        read(interest) == ({(f, 7): n + 1 for n, f in enumerate(FEEDS[: k + 1])}, True)
        for k, interest in enumerate(sent_by(one))
    )
    for seq, feed in enumerate(FEEDS[8:], start=9):
        one.update(feed, 7, seq, seq)
    sent = sent_by(one)
    assert len(sent) == 32
    for seq, interest in enumerate(sent, start=9):
        vector, is_whole = read(interest)
        assert len(encode_vector(vector)) <= 600
        if not is_whole:  # the newest first
            assert vector == {(FEEDS[n - 1], 7): n for n in range(seq, seq - len(vector), -1)}
    assert not read(sent[-1])[1]
    assert max(len(interest.wire) for interest in sent) <= 1000 < LARGEST_PACKET


def test_what_a_part_does_not_name_is_neither_outdated_nor_up_to_date() -> None:
    one, other = member(1, 300), member(2, 300)
    for feed in FEEDS[:20]:
        other.update(feed, 7, 3, 0)
    sent_by(other)
    due = other.next_deadline()
    one.update(FEEDS[0], 7, 4, SECOND)
    for feed in FEEDS[1:20]:
        one.update(feed, 7, 4, SECOND)
    newest = sent_by(one)[-1]
    vector, is_whole = read(newest)
    assert not is_whole
    other.on_interest(newest, SECOND)
    assert other.next_deadline() == due  # it says nothing of the others: the timer goes on
    assert {name for name, seq in other.newest.items() if seq == 4} == {name for name, _ in vector}
    other.on_interest(newest, 2 * SECOND)
    assert sent_by(other) == []


def test_who_lacks_a_part_is_told_that_part_alone() -> None:
    one = member(1, 300)
    for feed in FEEDS[:20]:
        one.update(feed, 7, 3, 0)
    sent_by(one)
    other = member(2, 300)
    for feed in FEEDS[:20]:
        other.update(feed, 7, 2 if feed == FEEDS[9] else 3, 0)
    old = next(x for x in sent_by(other) if (FEEDS[9], 7) in read(x)[0])
    assert read(old)[0][FEEDS[9], 7] == 2
    # A whole vector lists what it lacks; a part lists what it has.
    one.on_interest(old, SECOND)
    one.wake(one.next_deadline() or 0)
    (answer,) = sent_by(one)
    assert read(answer)[0][FEEDS[9], 7] == 3


def test_every_name_is_told_within_a_period_by_somebody() -> None:
    one = member(1, 300)
    for feed in FEEDS:
        one.update(feed, 7, 3, 0)
    sent_by(one)
    told = dict.fromkeys(FEEDS, 0)
    for _ in range(200):
        now = one.next_deadline() or 0
        one.wake(now)
        for interest in sent_by(one):
            for name, _ in read(interest)[0]:
                assert now - told[name] <= 33 * SECOND
                told[name] = now
    assert min(told.values()) > 100 * SECOND


@dataclass
class Group:
    """Members with links of every quality, in virtual time."""

    seed: int
    loss: float
    limit: int
    members: list[AllMember] = field(default_factory=list)

    def run(self, until: int, publish: list[tuple[int, int, int]]) -> None:
        """Deliver each Sync Interest to each other member, or lose it; publish (time, member, feed)."""
        rng = Random(self.seed)
        self.members = [member(seed, self.limit) for seed in range(4)]
        for one in self.members:
            one.send(0)
        now, todo = 0, sorted(publish)
        numbers = [0] * len(FEEDS)
        while now <= until:
            for at, one in enumerate(self.members):
                for interest in sent_by(one):
                    for to, other in enumerate(self.members):
                        if to != at and rng.random() >= (self.loss if now < until // 2 else 0):
                            other.on_interest(interest, now)
            times = [one.next_deadline() or until + 1 for one in self.members]
            now = min([*times, *(time for time, _, _ in todo[:1])])
            if todo and todo[0][0] <= now:
                _, at, feed = todo.pop(0)
                numbers[feed] += 1
                self.members[at].update(FEEDS[feed], 7, numbers[feed], now)
            for one in self.members:
                one.wake(now)
        self.expected = {(FEEDS[n], 7): seq for n, seq in enumerate(numbers) if seq}


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 1 << 20),
    st.sampled_from([0.0, 0.3, 0.9]),
    st.sampled_from([100, 300, 1000, LARGEST_VECTOR]),
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 3)), max_size=30),
)
def test_all_members_agree_in_the_end(
    seed: int, loss: float, limit: int, publish: list[tuple[int, int]]
) -> None:
    group = Group(seed, loss, limit)
    # A feed has one publisher.
    group.run(200 * SECOND, [(time * SECOND, at, at * 8 + time % 8) for time, at in publish])
    for one in group.members:
        assert one.vector == group.expected


@pytest.mark.parametrize(("ahead", "is_taken"), [(DAY_S, True), (DAY_S + 1, False)])
@pytest.mark.parametrize("kind", ["all", "feed"])
def test_a_bootstrap_time_of_more_than_a_day_ahead_voids_the_vector(
    kind: str, ahead: int, is_taken: bool
) -> None:
    one: Any = member()
    group = GROUP
    if kind == "feed":
        one = FeedMember(FEEDS[0], rng=Random(1), periodic_ms=30_000, suppression_ms=200)
        group = FEEDS[0] + from_uri("/32=sync/v=3")
    vector = {(FEEDS[0], 7): 3, (FEEDS[0], NOW // SECOND + ahead): 1}
    one.on_interest(sync_interest(vector, group), NOW)
    assert one.vector == (vector if is_taken else {})


def test_a_clock_that_tells_no_date_checks_none() -> None:
    one = member()
    one.on_interest(sync_interest({(FEEDS[0], 1_600_000_000): 3}), 5 * SECOND)
    assert one.newest == {FEEDS[0]: 3}


@pytest.mark.parametrize("name", [from_uri("/other"), LOGS, FEEDS[0] + from_uri("/more")])
def test_only_feeds_are_names_of_the_group(name: bytes) -> None:
    one = member()
    one.on_interest(sync_interest({(name, 7): 3, (FEEDS[0], 7): 3}), 0)
    assert one.vector == {}


@pytest.mark.parametrize(
    ("limit", "loss", "leaves"),
    [(LARGEST_VECTOR, 0.0, "s1 s2 s3 s4"), (LARGEST_VECTOR, 5.0, "s1 s4"), (150, 5.0, "s1 s4")],
)
def test_a_run_delivers_all(limit: int, loss: float, leaves: str) -> None:
    made = scenario(
        layerings=("sync-all",),
        subscribers=tuple(leaves.split()),
        publishers=("pub", "s2"),
        workload={"items": 24, "feeds": 6, "follows": 4, "schedule": {"speed": 1e6, "idle_limit_ms": 50.0}},
        topology={
            "generator": "tree",
            "depth": 2,
            "fanout": 2,
            "link": {"delay_ms": 5.0, "loss_percent": loss},
        },
        parameters={"sync-all": {"vector_bytes": limit, "periodic_ms": 1000}},
        settle_ms=6000,
    )
    result = simulate(made, "sync-all")
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
    names = {
        to_uri(packets.parse_interest(seen.packet).name).rpartition("/")[0]
        for seen in result.packets
        if seen.packet[:1] == bytes((packets.INTEREST,)) and b"sync" in seen.packet[:60]
    }
    assert names == {to_uri(GROUP)}
    assert sum(node.held()["pit"].entries for node in result.nodes.values()) == 0


def test_an_archive_has_no_end_of_the_group() -> None:
    lacking = LAYERINGS["sync"].carries - LAYERINGS["sync-all"].carries
    assert {Feature.ARCHIVE, Feature.GATEWAYS, Feature.PICTURES} == lacking


def test_the_bootstrap_time_is_that_of_the_first_message() -> None:
    assert bootstrap_time(feed_of(1)[0]) == feed_of(1)[0].timestamp // 1000


def test_the_first_feed_that_is_followed_has_the_member_ask_whatever_it_has_heard() -> None:
    """A publisher without items holds an Interest that tells of more, to look at it again."""
    one, other = (
        PsyncMember(rng=Random(n), table_feeds=80, interest_ms=1000, freshness_ms=1000, ahead=1)
        for n in range(2)
    )
    end = group.Group(one, Random(1), buffer=8, lifetime_ms=1000)
    end.announcer(FEEDS[0])
    other.publish(FEEDS[1], 1, packets.parse_data(make_data(FEEDS[1], b"")), 0)
    end.receive(other.take_outputs()[0], 0)
    assert end.next_deadline() is not None
    end.joined(1)
    assert len(end.take_outputs()) == 1
    end.joined(2)
    assert end.take_outputs() == []


def test_nodes_of_a_fork_that_publish_are_asked_for_names() -> None:
    links = [{"a": "r1", "b": node} for node in ("pub", "pub2", "s1")]
    made = scenario(
        layerings=("sync-ps",),
        subscribers=("s1",),
        topology={"links": links},
        workload={"items": 4, "schedule": {"speed": 1e6}},
        fork={"publisher": "pub2", "after": 2},
    )
    nodes = simulate(made, "sync-ps").nodes
    for name in ("pub", "pub2"):
        assert all(node.host.forwarder.fib.lookup(node_name(name)) for node in nodes.values())
