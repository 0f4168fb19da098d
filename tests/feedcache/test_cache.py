"""The caches of feeds: what they keep, what they forget, and the bounds of both."""

import pytest
from feed_maker import NATIVE, Tree, make_native, native, native_branch, native_packet
from hypothesis import given, settings
from hypothesis import strategies as st

from forwarder.feedcache.cache import FeedCache, FeedStore
from forwarder.feedcache.fork import Fork
from forwarder.feedcache.items import Item, RejectedItem, parse_item
from forwarder.wire.feed import feed_name
from ssb.keys import Identity

ITEMS = native_branch([], 30, b"i")
SIZE = len(ITEMS[-1].data.wire)
FORKED = Tree(make_native, 6, [(0, 3, 3)])
ONE, OTHER = FORKED.branches


def cache_of(*items: Item, max_items: int = 100, max_bytes: int = 1 << 20) -> FeedCache:
    cache = FeedCache(NATIVE, max_items, max_bytes)
    for item in items:
        cache.accept(item)
    return cache


def test_a_cache_keeps_the_newest_within_its_bounds_and_its_tip_for_good() -> None:
    cache = cache_of(*ITEMS[:6], max_items=3)
    assert list(cache) == [4, 5, 6]
    assert cache.get(3) is None
    assert cache.get(4) == ITEMS[3].data
    small = cache_of(*ITEMS[:6], max_bytes=1)
    assert list(small) == [6]
    assert small.tip == 6
    small.drop_oldest()
    assert (len(small), small.bytes, small.tip) == (0, 0, 6)


def test_an_item_before_its_turn_is_kept_like_any_other() -> None:
    cache = cache_of(ITEMS[4], ITEMS[2], ITEMS[3])
    assert list(cache) == [3, 4, 5]
    assert cache.tip == 5
    assert cache.bytes == sum(len(item.data.wire) for item in ITEMS[2:5])


def test_an_item_that_is_too_old_to_be_kept_is_let_go_at_once() -> None:
    cache = cache_of(*ITEMS[:8], max_items=4)
    cache.accept(ITEMS[3])
    assert list(cache) == [5, 6, 7, 8]
    assert cache.tip == 8


def test_an_item_that_comes_twice_counts_once() -> None:
    cache = cache_of(ITEMS[0], ITEMS[1], ITEMS[0])
    assert (list(cache), cache.bytes) == ([1, 2], sum(len(item.data.wire) for item in ITEMS[:2]))


def test_what_an_item_asserts_is_known_before_and_after_it_is_here() -> None:
    cache = cache_of(ITEMS[3], max_items=2)
    assert (cache.id_of(3), cache.id_of(4), cache.id_of(5)) == (ITEMS[2].id, ITEMS[3].id, None)
    cache.accept(ITEMS[4])
    cache.accept(ITEMS[5])
    assert cache.get(4) is None
    assert cache.id_of(4) == ITEMS[3].id


def test_a_fork_ends_the_feed_there() -> None:
    cache = cache_of(*ONE)
    with pytest.raises(RejectedItem) as refused:
        cache.accept(OTHER[3])
    assert refused.value.reason == "fork"
    assert cache.fork is not None
    assert {cache.fork.first.id, cache.fork.second.id} <= {ONE[3].id, ONE[4].id, OTHER[3].id}
    assert (cache.fork.seq, cache.tip, list(cache)) == (4, 3, [1, 2, 3])
    assert cache.bytes == sum(len(item.data.wire) for item in ONE[:3])
    for item in (ONE[4], OTHER[4]):
        with pytest.raises(RejectedItem):
            cache.accept(item)
    assert list(cache) == [1, 2, 3]


def test_what_comes_before_a_fork_is_still_accepted() -> None:
    cache = cache_of(ONE[3])
    with pytest.raises(RejectedItem):
        cache.accept(OTHER[3])
    cache.accept(ONE[1])
    assert (list(cache), cache.tip) == ([2], 3)


def test_only_a_lower_fork_is_news() -> None:
    cache = cache_of(ONE[0])
    five = Fork(5, ONE[4], native(5, ONE[4].previous or b"", b"other"))
    four = Fork(4, ONE[3], OTHER[3])
    assert cache.stop(five)
    assert not cache.stop(five)
    assert cache.stop(four)
    assert not cache.stop(five)
    assert cache.fork == four


def test_a_fork_that_a_forged_item_would_prove_is_none() -> None:
    """Whoever vouches for an item by the next one's backlink has not checked the items themselves."""
    forged = parse_item(NATIVE, 4, native_packet(4, ONE[2].id, b"x", writer=Identity.from_seed(b"x" * 32)))
    cache = cache_of(*ONE[:4])
    with pytest.raises(RejectedItem) as refused:
        cache.accept(forged)
    assert refused.value.reason == "signature"
    assert cache.fork is None
    assert list(cache) == [1, 2, 3, 4]


@given(st.lists(st.sampled_from(ITEMS), max_size=40), st.integers(1, 6), st.integers(1, 6))
def test_a_cache_stays_in_its_bounds(items: list[Item], most: int, sizes: int) -> None:
    cache = FeedCache(NATIVE, most, sizes * SIZE)
    for item in items:
        cache.accept(item)
        held = list(cache)
        assert held == sorted(set(held))
        assert len(held) == len(cache) <= most
        assert cache.bytes == sum(len(ITEMS[seq - 1].data.wire) for seq in held)
        assert cache.bytes <= cache.max_bytes or len(held) == 1
    assert cache.tip == max((item.seq for item in items), default=0)


SPARSE = [native(seq, b"\1" * 32) for seq in range(2, 200, 2)]


@pytest.mark.parametrize("backwards", [False, True])
def test_what_is_known_of_a_feed_is_bounded_too(backwards: bool) -> None:
    """Items with gaps between, as a relay sees them that repairs nothing; and long ones, of which few fit."""
    sparse = FeedCache(NATIVE, 4, 1 << 20)
    for item in SPARSE:
        sparse.accept(item)
    assert sum(sparse.id_of(seq) is not None for seq in range(1, 200)) <= 2 * 4 + 9
    few = FeedCache(NATIVE, 16, 2 * SIZE)
    for at in range(0, 24, 8):
        for item in ITEMS[at : at + 8][:: -1 if backwards else 1]:
            few.accept(item)
    assert sum(few.id_of(seq) is not None for seq in range(1, 31)) <= 2 * 16 + 2


# The store.

FEEDS = [feed_name(b"", bytes((n,)) * 32) for n in range(8)]


def opened(store: FeedStore, feed: bytes) -> FeedCache:
    cache = store.open(feed)
    assert cache is not None
    return cache


def test_a_store_forgets_the_feed_used_least_recently() -> None:
    store = FeedStore(max_feeds=2)
    first = opened(store, FEEDS[0])
    opened(store, FEEDS[1])
    for feed in FEEDS[:2]:
        store.close(feed)
    assert store.get(FEEDS[0], 1) is None  # a look counts as use
    opened(store, FEEDS[2])
    assert store.find(FEEDS[0]) is first
    assert store.find(FEEDS[1]) is None
    assert len(store) == 2


def test_a_feed_in_use_is_never_forgotten() -> None:
    store = FeedStore(max_feeds=2)
    caches = [opened(store, feed) for feed in FEEDS[:2]]
    assert store.open(FEEDS[2]) is None
    assert [store.find(feed) for feed in FEEDS[:3]] == [*caches, None]
    assert store.open(FEEDS[1]) is caches[1]
    store.close(FEEDS[0])
    assert store.open(FEEDS[2]) is not None
    assert [store.find(feed) is None for feed in FEEDS[:3]] == [True, False, False]


def test_a_feed_that_nobody_follows_any_more_keeps_its_items_while_there_is_room() -> None:
    store = FeedStore(max_feeds=1)
    store.accept(opened(store, NATIVE), ITEMS[0])
    store.close(NATIVE)
    assert store.get(NATIVE, 1) == ITEMS[0].data
    opened(store, FEEDS[0])
    assert store.get(NATIVE, 1) is None
    assert store.bytes == 0


def test_the_newest_of_a_feed_survives_the_bound_of_all() -> None:
    """The store makes room in the feed that was used least recently, but the tip is known for good."""
    store = FeedStore(max_total_bytes=3 * SIZE)
    idle, busy = opened(store, NATIVE), opened(store, FEEDS[0])
    for item in ITEMS[:2]:
        store.accept(idle, item)
    for item in ITEMS[:4]:
        store.accept(busy, item)
    assert list(idle) == [2]
    assert list(busy) == [3, 4]
    assert (idle.tip, busy.tip) == (2, 4)
    assert store.bytes == idle.bytes + busy.bytes <= 3 * SIZE


def test_a_fork_is_taken_off_the_account() -> None:
    store = FeedStore()
    cache = opened(store, NATIVE)
    for item in ONE:
        store.accept(cache, item)
    with pytest.raises(RejectedItem):
        store.accept(cache, OTHER[3])
    assert store.bytes == cache.bytes == sum(len(item.data.wire) for item in ONE[:3])


STEPS = st.lists(
    st.tuples(st.sampled_from(["open", "close", "accept", "get"]), st.integers(0, 7), st.sampled_from(ITEMS)),
    max_size=60,
)


@settings(max_examples=200)
@given(STEPS, st.integers(1, 5), st.integers(1, 4), st.integers(2, 12))
def test_a_store_stays_in_its_bounds(
    steps: list[tuple[str, int, Item]], feeds: int, items: int, sizes: int
) -> None:
    store = FeedStore(max_feeds=feeds, max_items=items, max_total_bytes=sizes * SIZE)
    in_use: dict[bytes, FeedCache] = {}
    for action, number, item in steps:
        feed = FEEDS[number]
        if action == "open":
            cache = store.open(feed)
            if cache is None:
                assert len(in_use) == feeds
                assert feed not in in_use
            else:
                in_use[feed] = cache
        elif action == "close":
            store.close(feed)
            in_use.pop(feed, None)
        elif action == "get":
            known = store.find(feed)
            assert store.get(feed, item.seq) == (known.get(item.seq) if known else None)
        elif feed in in_use:
            store.accept(in_use[feed], item)
        assert len(store) <= feeds
        assert all(store.find(feed) is cache for feed, cache in in_use.items())
        caches = [cache for feed in FEEDS if (cache := store.find(feed)) is not None]
        assert store.bytes == sum(cache.bytes for cache in caches)
        assert all(len(cache) <= items for cache in caches)
        assert store.bytes <= store.max_total_bytes or all(len(cache) <= 1 for cache in caches)
