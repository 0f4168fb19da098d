"""The name of a fork's proof."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forwarder.wire.feed import feed_name, fork_name, item_name, split_fork, split_item
from forwarder.wire.name import component, from_uri, to_uri

FEED = feed_name(from_uri("/unibas/camera"), bytes(range(32)))

FEEDS = st.builds(
    feed_name,
    st.lists(st.binary(max_size=8).map(lambda value: component(8, value)), max_size=3).map(b"".join),
    st.binary(min_size=32, max_size=32),
)
NUMBERS = st.integers(1, (1 << 64) - 1) | st.sampled_from([1, 255, 256, 65536, 1 << 32, (1 << 64) - 1])


def test_a_proofs_name() -> None:
    assert to_uri(fork_name(FEED, 300)) == to_uri(FEED) + "/32=fork/seq=300"


@given(FEEDS, NUMBERS)
def test_split_fork_undoes_fork_name(feed: bytes, seq: int) -> None:
    assert split_fork(fork_name(feed, seq)) == (feed, seq)
    assert split_fork(item_name(feed, seq)) is None


@given(FEEDS, NUMBERS)
def test_a_proof_is_no_item(feed: bytes, seq: int) -> None:
    assert split_item(fork_name(feed, seq)) is None


def test_a_proof_is_no_item_even_of_a_key_that_was_sought_for_it() -> None:
    """Whoever forks a feed chooses its key, and would like its forks to be overlooked."""
    proof = fork_name(b"", 1)
    for at in range(31):
        key = bytearray(b"k" * 32)
        key[at : at + 2] = b"\x08\x20"
        assert split_item(feed_name(b"", bytes(key)) + proof) is None, at


@pytest.mark.parametrize(
    "name",
    [
        b"",
        fork_name(b"", 1),
        fork_name(from_uri("/a"), 1),
        fork_name(FEED, 0),
        FEED + component(32, b"fork"),
        FEED + component(8, b"fork") + component(58, b"\1"),
        FEED + component(32, b"fork") + component(58, b"\0\1"),
        FEED + component(32, b"fork") + component(58, b"\0\0\1"),
        FEED + component(32, b"fork") + component(56, b"\1"),
        FEED + component(32, b"Fork") + component(58, b"\1"),
        FEED + component(32, b"fork") + component(58, b"\1") + component(8, b"more"),
        FEED[:-1] + component(32, b"fork") + component(58, b"\1"),
    ],
    ids=[
        "empty",
        "no feed",
        "no key",
        "items count from 1",
        "no number",
        "not a keyword",
        "number in two bytes that fits one",
        "number of three bytes",
        "another convention",
        "another keyword",
        "longer",
        "key cut",
    ],
)
def test_not_a_proofs_name(name: bytes) -> None:
    assert split_fork(name) is None


@given(st.binary(max_size=60))
def test_any_bytes_split_or_do_not(end: bytes) -> None:
    for name in (end, FEED + end):
        parts = split_fork(name)
        assert parts is None or fork_name(*parts) == name
