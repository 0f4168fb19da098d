"""The Content Store against a list, under each of its policies."""

import hashlib
from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from base.units import MS
from forwarder.tables.content_store import ContentStore
from forwarder.tables.eviction import POLICIES
from forwarder.wire.name import component, components, from_uri
from forwarder.wire.packet import Data, Interest, make_data, make_interest, parse_data, parse_interest


def packet(name: bytes, freshness_ms: int | None = None, content: bytes = b"") -> Data:
    return parse_data(make_data(name, content, freshness_ms=freshness_ms))


def interest(name: bytes, can_be_prefix: bool = False, must_be_fresh: bool = False) -> Interest:
    wire = make_interest(name, nonce=1, can_be_prefix=can_be_prefix, must_be_fresh=must_be_fresh)
    return parse_interest(wire)


def digest_of(data: Data) -> bytes:
    return component(1, hashlib.sha256(data.wire).digest())


PARTS = [component(8, b"a"), component(8, b"b"), component(8, b"aa"), component(32, b"a")]
NAMES = [b"".join(parts) for parts in ([], *([p] for p in PARTS), *([p, q] for p in PARTS for q in PARTS))]
DATA = [packet(name, freshness, content) for name in NAMES for freshness, content in ((None, b""), (1, b"x"))]
INTEREST_NAMES = [*NAMES[1:], *(data.name + digest_of(data) for data in DATA), component(1, bytes(32))]


CAPACITIES = st.sampled_from([0, 1, 2, 2, 3, 3, 5, 100])


@dataclass(eq=False)
class Held:
    data: Data
    arrived: int
    number: int  # of its arrival
    used: int  # number of its last use
    is_unsolicited: bool

    @property
    def stale_at(self) -> int:
        return self.arrived + self.data.freshness_ms * MS


def least_recently_used(held: list[Held], now: int) -> Held:
    return min(held, key=lambda one: one.used)


def by_priority(held: list[Held], now: int) -> Held:
    """NFD's queues: unsolicited, stale in the order in which they became so, the others as they came."""
    unsolicited = [one for one in held if one.is_unsolicited]
    stale = sorted(
        (one for one in held if not one.is_unsolicited and one.stale_at <= now),
        key=lambda one: (one.stale_at, one.number),
    )
    others = [one for one in held if not one.is_unsolicited and one.stale_at > now]
    ordered = [
        *sorted(unsolicited, key=lambda one: one.number),
        *stale,
        *sorted(others, key=lambda one: one.number),
    ]
    return ordered[0]


VICTIM = {"lru": least_recently_used, "priority_fifo": by_priority}


class StoreAgainstList(RuleBasedStateMachine):
    @initialize(capacity=CAPACITIES, policy=st.sampled_from(sorted(POLICIES)))
    def begin(self, capacity: int, policy: str) -> None:
        self.store = ContentStore(capacity, policy)
        assert self.store.policy == policy
        self.victim = VICTIM[policy]
        self.capacity = capacity
        self.admits = self.serves = True
        self.held: list[Held] = []
        self.now = 0
        self.latest = 0  # arrival: what the policy knows of time
        self.number = 0

    @rule(data=st.lists(st.sampled_from(DATA), min_size=1, max_size=8), odd=st.sampled_from([0, 0, 1, 2, 3]))
    def insert_some(self, data: list[Data], odd: int) -> None:
        """Every second or third of them unsolicited, or none, or all."""
        for number, one in enumerate(data):
            self.insert(one, bool(odd) and number % odd == 0)

    def insert(self, data: Data, is_unsolicited: bool) -> None:
        self.store.insert(data, self.now, is_unsolicited=is_unsolicited)
        if not self.admits or not self.capacity:
            return
        self.latest = self.now
        self.number += 1
        before = [held for held in self.held if held.data.name == data.name]
        self.held = [held for held in self.held if held.data.name != data.name]
        one = Held(data, self.now, self.number, self.number, is_unsolicited)
        if is_unsolicited and before and not before[0].is_unsolicited:
            one = self.refreshed(before[0], one)
        self.held.append(one)
        self.evict()

    def refreshed(self, before: Held, one: Held) -> Held:
        """Whoever has asked for it has not asked for nothing."""
        return Held(one.data, one.arrived, one.number, one.used, False)

    def evict(self) -> None:
        while len(self.held) > self.capacity:
            self.held.remove(self.victim(self.held, self.latest))

    @rule(capacity=CAPACITIES)
    def resize(self, capacity: int) -> None:
        self.store.capacity = self.capacity = capacity
        self.evict()

    @rule(admits=st.booleans(), serves=st.booleans())
    def switch(self, admits: bool, serves: bool) -> None:
        self.store.admits, self.store.serves = admits, serves
        self.admits, self.serves = admits, serves

    @rule(prefix=st.sampled_from(NAMES), limit=st.sampled_from([0, 1, 2, 100]))
    def erase(self, prefix: bytes, limit: int) -> None:
        wanted = components(prefix)
        under = [held for held in self.held if components(held.data.name)[: len(wanted)] == wanted]
        gone = sorted(under, key=lambda held: held.data.name)[:limit]
        assert self.store.erase(prefix, limit) == len(gone)
        self.held = [held for held in self.held if held not in gone]

    @rule(name=st.sampled_from(INTEREST_NAMES), can_be_prefix=st.booleans(), must_be_fresh=st.booleans())
    def find(self, name: bytes, can_be_prefix: bool, must_be_fresh: bool) -> None:
        found = self.store.find(interest(name, can_be_prefix, must_be_fresh), self.now)
        expected = self.search(components(name), can_be_prefix, must_be_fresh) if self.serves else None
        assert found is (expected.data if expected else None)
        if expected:
            self.number += 1
            expected.used = self.number

    @rule(ns=st.sampled_from([1, MS - 1, MS, 10 * MS]))
    def wait(self, ns: int) -> None:
        self.now += ns

    def search(
        self, wanted: list[tuple[int, bytes]], can_be_prefix: bool, must_be_fresh: bool
    ) -> Held | None:
        """The packet of that name; that one packet; or the first in canonical order under the prefix."""
        usable = [
            held
            for held in self.held
            if not must_be_fresh or self.now < held.arrived + held.data.freshness_ms * MS
        ]
        for held in usable:
            full = [*components(held.data.name), (1, hashlib.sha256(held.data.wire).digest())]
            if wanted in (full, full[:-1]):
                return held
        under = [held for held in usable if components(held.data.name)[: len(wanted)] == wanted]
        return min(under, key=lambda held: held.data.name, default=None) if can_be_prefix else None

    @invariant()
    def same_packets(self) -> None:
        assert {*self.store._packets} == {held.data.name for held in self.held}
        assert len(self.store) == len(self.held) <= self.store.capacity == self.capacity
        assert (self.store.admits, self.store.serves) == (self.admits, self.serves)


TestStoreAgainstList = StoreAgainstList.TestCase
TestStoreAgainstList.settings = settings(max_examples=100, stateful_step_count=50)


def test_exact_name() -> None:
    store = ContentStore(10)
    data = packet(from_uri("/a/b"))
    store.insert(data, 0)
    assert store.find(interest(from_uri("/a/b")), 0) is data
    assert store.find(interest(from_uri("/a")), 0) is None
    assert store.find(interest(from_uri("/a/b/c")), 0) is None
    assert store.find(interest(from_uri("/a"), can_be_prefix=True), 0) is data
    assert store.find(interest(from_uri("/a/b"), can_be_prefix=True), 0) is data


@pytest.mark.parametrize(("age", "fresh"), [(0, True), (5 * MS - 1, True), (5 * MS, False), (6 * MS, False)])
def test_fresh_until_the_nanosecond(age: int, fresh: bool) -> None:
    store = ContentStore(10)
    data = packet(from_uri("/a"), freshness_ms=5)
    store.insert(data, 1000)
    assert store.find(interest(from_uri("/a"), must_be_fresh=True), 1000 + age) is (data if fresh else None)
    assert store.find(interest(from_uri("/a")), 1000 + age) is data


@pytest.mark.parametrize("freshness", [None, 0])
def test_without_a_freshness_period_never_fresh(freshness: int | None) -> None:
    store = ContentStore(10)
    store.insert(packet(from_uri("/a"), freshness_ms=freshness), 0)
    assert store.find(interest(from_uri("/a"), must_be_fresh=True), 0) is None


def test_a_new_arrival_is_fresh_again() -> None:
    store = ContentStore(10)
    data = packet(from_uri("/a"), freshness_ms=5)
    store.insert(data, 0)
    store.insert(data, 5 * MS)
    assert store.find(interest(from_uri("/a"), must_be_fresh=True), 9 * MS) is data
    assert len(store) == 1


def test_a_stale_one_does_not_hide_a_fresh_one_under_the_prefix() -> None:
    store = ContentStore(10)
    store.insert(packet(from_uri("/a/1")), 0)
    fresh = packet(from_uri("/a/2"), freshness_ms=5)
    store.insert(fresh, 0)
    assert store.find(interest(from_uri("/a"), can_be_prefix=True, must_be_fresh=True), 0) is fresh


def test_the_least_recently_used_goes_first() -> None:
    store = ContentStore(2)
    one, two, three = (packet(from_uri(f"/{n}")) for n in (1, 2, 3))
    store.insert(one, 0)
    store.insert(two, 0)
    assert store.find(interest(one.name), 0) is one
    store.insert(three, 0)
    assert store.find(interest(two.name), 0) is None
    assert store.find(interest(one.name), 0) is one
    assert store.find(interest(three.name), 0) is three


def test_a_digest_finds_that_very_packet() -> None:
    store = ContentStore(10)
    old, new = packet(from_uri("/a"), content=b"old"), packet(from_uri("/a"), content=b"new")
    store.insert(old, 0)
    store.insert(new, 0)
    assert store.find(interest(from_uri("/a") + digest_of(new)), 0) is new
    assert store.find(interest(from_uri("/a") + digest_of(old)), 0) is None
    assert store.find(interest(from_uri("/a") + digest_of(old), can_be_prefix=True), 0) is None


def test_capacity_zero_keeps_nothing() -> None:
    store = ContentStore(0)
    store.insert(packet(from_uri("/a")), 0)
    assert len(store) == 0
    assert store.find(interest(from_uri("/a"), can_be_prefix=True), 0) is None


def test_what_is_not_served_is_kept_and_what_is_not_admitted_is_not() -> None:
    store = ContentStore(10)
    one, two = packet(from_uri("/a/1")), packet(from_uri("/a/2"))
    store.insert(one, 0)
    store.serves = False
    for name, can_be_prefix in (
        (one.name, False),
        (from_uri("/a"), True),
        (one.name + digest_of(one), False),
    ):
        assert store.find(interest(name, can_be_prefix), 0) is None
    store.serves, store.admits = True, False
    store.insert(two, 0)
    store.capacity = 5
    store.insert(two, 0)
    assert (len(store), store.admits) == (1, False)
    assert store.find(interest(one.name), 0) is one
    store.admits = True
    store.insert(two, 0)
    assert store.find(interest(two.name), 0) is two


def test_the_index_does_not_outgrow_the_store() -> None:
    """Whether names were indexed when they were let go, or not yet."""
    store = ContentStore(3)
    for n in range(200):
        store.insert(packet(from_uri(f"/a/{n}")), 0)
        if n % 7 == 0:
            store.find(interest(from_uri("/a"), can_be_prefix=True), 0)
        assert len(store._index) + len(store._unindexed) == len(store)


def test_what_a_policy_remembers_does_not_outgrow_the_store() -> None:
    """Packets that stay fresh for long go long before they are stale."""
    store = ContentStore(3, "priority_fifo")
    for n in range(2000):
        store.insert(packet(from_uri(f"/a/{n}"), freshness_ms=1_000_000), n)
        store.insert(packet(from_uri("/a/again"), freshness_ms=1_000_000), n)
        assert len(store._policy._stale) <= 2 * 3 + 65  # type: ignore[attr-defined]


def test_priority_fifo_step_by_step() -> None:
    store = ContentStore(4, "priority_fifo")
    short, long, stale, alien = (
        packet(from_uri(f"/{name}"), freshness_ms=ms)
        for name, ms in (("s", 5), ("l", 50), ("o", 0), ("u", 50))
    )
    for data in (short, long, stale):
        store.insert(data, 0)
    store.insert(alien, 0, is_unsolicited=True)
    left = []
    for n in range(4):
        before = {name for name in (short.name, long.name, stale.name, alien.name) if name in store._packets}
        store.insert(packet(from_uri(f"/new/{n}"), freshness_ms=90), 10 * MS)
        (gone,) = before - {*store._packets}
        left.append(gone)
    assert left == [alien.name, stale.name, short.name, long.name]
