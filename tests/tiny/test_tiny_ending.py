"""The end of a tinySSB feed: nothing comes behind it, and what has ended is not asked for for ever."""

import random
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_tiny_store import ME, OTHER, THIRD, feed_of
from tiny_cell import cell, identity, node

from base.units import SECOND
from ssb.bipf import decode, encode
from ssb.ending import END, end_content
from ssb.tiny.entry import InvalidEntry
from ssb.tiny.feed import ENDED, FINE, FORKED, ForkedFeed
from ssb.tiny.store import TinyStore

LAST = encode({"type": END})
GOES_ON = encode(end_content(OTHER.ref, THIRD))
FALSE = encode({**end_content(OTHER.ref, THIRD), "successor": ME.ref})
POST = encode({"type": "post", "text": "hello"})


def offer_all(store: TinyStore, contents: list[bytes], rng: random.Random) -> None:
    """Offer all entries and chunks in random order, over and over, until nothing more can be taken."""
    key = store.add(OTHER.public_key).key
    made = feed_of(OTHER, contents)
    offered = [(packet, True) for packet, _ in made] + [
        (chunk, False) for _, chain in made for chunk in chain
    ]
    for _ in range(len(offered) + 1):
        rng.shuffle(offered)
        for packet, is_entry in offered:
            if not is_entry:
                store.add_chunk(packet)
                continue
            with suppress(InvalidEntry):
                store.append(key, packet)


@settings(max_examples=100)
@given(
    st.lists(st.sampled_from([POST, POST + b"x" * 200, FALSE]), max_size=4),
    st.sampled_from([LAST, GOES_ON]),
    st.lists(st.sampled_from([POST, LAST]), max_size=3),
    st.randoms(use_true_random=False),
)
def test_the_first_end_is_the_last_entry(
    before: list[bytes], last: bytes, behind: list[bytes], rng: random.Random
) -> None:
    """Whatever order packets come in. What is behind an entry that may be an end has to wait."""
    contents = [*before, last, *behind]
    with TinyStore() as store:
        offer_all(store, contents, rng)
        feed = store.feeds[OTHER.public_key]
        assert (feed.condition, feed.sequence, feed.whole) == (ENDED, len(before) + 1, len(before) + 1)
        assert [entry.content for entry in store.read(feed.key, 0, 99)] == contents[: len(before) + 1]


def test_an_end_stays_one_after_reopening_and_a_fork_is_still_found(tmp_path: Path) -> None:
    packets = feed_of(OTHER, [POST, GOES_ON])
    branch = feed_of(OTHER, [POST, POST])
    with TinyStore(tmp_path / "tiny.db") as store:
        store.add(OTHER.public_key)
        for packet, chunks in packets:
            store.append_whole(OTHER.public_key, packet, chunks)
    with TinyStore(tmp_path / "tiny.db") as store:
        assert store.feeds[OTHER.public_key].condition == ENDED
        store.check()
        with pytest.raises(ForkedFeed):
            store.add_fork(branch[1][0][:7], branch[1][0])
        assert store.feeds[OTHER.public_key].condition == FORKED


def test_nothing_is_published_behind_an_end() -> None:
    with TinyStore() as store:
        key = store.add_own(OTHER).key
        store.publish(key, FALSE)
        assert store.feeds[key].condition == FINE
        store.publish(key, GOES_ON)
        with pytest.raises(ValueError, match="the feed has ended with entry 2"):
            store.publish(key, POST)


@pytest.mark.parametrize("name", ["pair", "open"])
@pytest.mark.parametrize("loss", [0.0, 20.0])
def test_a_set_that_has_ended_is_asked_for_no_more(name: str, loss: float) -> None:
    """One more vector each, and then none; a node that comes later still gets all."""
    authors = [identity(number) for number in (1, 2)]
    nodes = {f"n{number}": node(number) for number in range(3)}
    keys = [author.public_key for author in authors]

    def join(each: str, now: int) -> None:
        if name == "open":
            nodes[each].join_open(keys, now)
        else:
            nodes[each].join("pair", keys, now)

    for author in authors:
        nodes["n0"].store.add_own(author)
    for each in ("n0", "n1"):
        join(each, 0)
    network = cell(nodes, loss_percent=loss)

    def until(seconds: float) -> None:
        network.run(int(seconds * SECOND))

    def settle() -> None:
        for each in nodes:
            network.settle(each)

    until(1)
    for key, author in zip(keys, authors, strict=True):
        for content in (POST, POST + bytes(300), encode(end_content(author.ref, ME))):
            nodes["n0"].publish(key, content, network.now)
    settle()
    until(200)
    asked = [each.sent["want"] for each in (nodes["n0"], nodes["n1"])]
    until(2000)
    assert asked == [each.sent["want"] for each in (nodes["n0"], nodes["n1"])]
    join("n2", network.now)
    settle()
    until(2300)
    for each in nodes.values():
        for key in keys:
            held = each.store.feeds[key]
            assert (held.condition, held.whole) == (ENDED, 3)
            assert decode(each.store.read(key, 2, 1)[0].content)["type"] == END
    asked = [each.sent["want"] for each in nodes.values()]
    until(4000)
    assert asked == [each.sent["want"] for each in nodes.values()]


def test_a_new_feed_of_the_set_is_asked_for_again() -> None:
    first, second = identity(1), identity(2)
    nodes = {f"n{number}": node(number) for number in range(2)}
    nodes["n0"].store.add_own(first)
    nodes["n0"].join_open([first.public_key], 0)
    nodes["n1"].join_open([first.public_key], 0)
    network = cell(nodes)
    nodes["n0"].publish(first.public_key, encode(end_content(first.ref, second)), 0)
    network.settle("n0")
    network.run(100 * SECOND)
    assert nodes["n1"].store.feeds[first.public_key].condition == ENDED
    nodes["n0"].store.add_own(second)
    nodes["n0"].join_open([first.public_key, second.public_key], network.now)
    nodes["n0"].publish(second.public_key, POST, network.now)
    network.settle("n0")
    network.run(200 * SECOND)
    assert nodes["n1"].store.feeds[second.public_key].whole == 1
