from itertools import pairwise
from random import Random
from statistics import mean, median

import pytest
from test_ssb_export import ALICE, REAL

from ssb.export import read_export
from ssb.generate import FIRST_TIMESTAMP, GAP_QUANTILES, SIZE_QUANTILES, generate_feed
from ssb.store.memory import MemoryFeeds


def quantiles(values, parts=64):
    values = sorted(values)
    table = []
    for k in range(parts + 1):
        below, rest = divmod(k * (len(values) - 1), parts)
        above = min(below + 1, len(values) - 1)
        table.append(round(values[below] + (values[above] - values[below]) * rest / parts))
    return tuple(table)


def sizes(messages):
    return [len(message.encoded) for message in messages]


def gaps(messages):
    return [after.timestamp - before.timestamp for before, after in pairwise(messages)]


REAL_FEED = read_export(REAL)
MADE = generate_feed(Random(1), 1500)


@pytest.mark.parametrize("size", [400, 1000, 8192])
def test_all_messages_may_have_one_size(size):
    made = generate_feed(Random(1), 30, size=size)
    assert {*sizes(made)} == {size}
    store = MemoryFeeds()
    store.append(made, 0.0)
    assert [*store.tips().values()] == [30]


def test_tables_are_those_of_the_real_feed():
    assert quantiles(sizes(REAL_FEED)) == SIZE_QUANTILES
    assert quantiles(gaps(REAL_FEED)) == GAP_QUANTILES
    assert REAL_FEED[0].timestamp == FIRST_TIMESTAMP


def test_made_feed_is_a_feed():
    assert MemoryFeeds().append(MADE, 1) == (1500, 0, {})
    assert all(message.content.keys() == {"type", "text"} for message in MADE)


@pytest.mark.parametrize(("measure", "spread"), [(sizes, 0.1), (gaps, 0.25)])
def test_made_feed_resembles_the_real_one(measure, spread):
    made, real = measure(MADE), measure(REAL_FEED)
    assert median(made) == pytest.approx(median(real), rel=spread)
    assert mean(made) == pytest.approx(mean(real), rel=spread)
    assert max(made) <= max(real)
    # Below each quantile lies the share of the messages that should.
    for part in range(1, 64):
        bound = quantiles(real)[part]
        share = sum(value <= bound for value in real) / len(real)
        assert sum(value <= bound for value in made) / len(made) == pytest.approx(share, abs=0.05)


class Constant(Random):
    """Draws always at the same place."""

    def __init__(self, position):
        self.position = position
        super().__init__(1)

    def random(self):
        return self.position


@pytest.mark.parametrize("k", [0, 1, 32, 63])
def test_table_is_met_to_the_byte(k):
    feed = generate_feed(Constant(k / 64), 12)
    assert set(sizes(feed)) == {SIZE_QUANTILES[k]}
    assert set(gaps(feed)) == {GAP_QUANTILES[k]}


def test_same_generator_gives_same_feed():
    assert generate_feed(Random(5), 20) == generate_feed(Random(5), 20)
    assert generate_feed(Random(5), 20) == generate_feed(Random(5), 40)[:20]
    assert generate_feed(Random(5), 3) != generate_feed(Random(6), 3)
    assert generate_feed(Random(5), 0) == []


def test_feed_of_a_given_identity():
    feed = generate_feed(Random(5), 3, ALICE)
    assert {message.author for message in feed} == {ALICE.ref}
    assert feed == generate_feed(Random(5), 3, ALICE)
