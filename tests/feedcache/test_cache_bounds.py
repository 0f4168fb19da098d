"""The bounds of the verified cache are tested: without each, the closest test fails."""

from functools import partial

import pytest
import test_cache
from mutants.bounds import Bound, check, line

from forwarder.feedcache.cache import FeedCache, FeedStore

BOUNDS = [
    Bound(
        "items of a feed",
        line(FeedCache, "accept", "len(self._order) > self.max_items", "False"),
        test_cache.test_a_cache_keeps_the_newest_within_its_bounds_and_its_tip_for_good,
    ),
    Bound(
        "bytes of a feed",
        line(FeedCache, "accept", "self.bytes > self.max_bytes", "False"),
        test_cache.test_a_cache_keeps_the_newest_within_its_bounds_and_its_tip_for_good,
    ),
    Bound(
        "what is known of a feed",
        line(FeedCache, "drop_oldest", "len(self._known) > 2 * len(self._order) + 8", "False"),
        partial(test_cache.test_what_is_known_of_a_feed_is_bounded_too, backwards=False),
    ),
    Bound(
        "bytes of all feeds",
        line(FeedStore, "accept", "self.bytes > self.max_total_bytes", "False"),
        test_cache.test_the_newest_of_a_feed_survives_the_bound_of_all,
    ),
    Bound(
        "feeds",
        line(FeedStore, "open", "len(self._caches) >= self.max_feeds", "False"),
        test_cache.test_a_store_forgets_the_feed_used_least_recently,
    ),
]


@pytest.mark.patches
@pytest.mark.parametrize("bound", BOUNDS, ids=lambda bound: bound.name)
def test_without_its_bound_a_test_fails(bound: Bound) -> None:
    check(bound)
