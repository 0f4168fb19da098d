"""Names and contents of feed items."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packet_makers import FEEDS, ITEMS, KEYS, NAMES, SEQUENCE_NUMBERS, mutations

from forwarder.wire.feed import (
    check_feed_name,
    feed_key,
    feed_name,
    item_name,
    native_content,
    split_item,
    ssb_content,
)
from forwarder.wire.name import GENERIC, SEQUENCE, component, from_uri, to_uri
from forwarder.wire.tlv import MalformedPacket, element

KEY = bytes(range(32))
FEED = feed_name(from_uri("/unibas/camera"), KEY)


def test_an_items_name() -> None:
    assert item_name(FEED, 7) == FEED + bytes.fromhex("3a0107")
    assert to_uri(item_name(b"", 300)) == "/seq=300"
    assert split_item(item_name(FEED, 7)) == (FEED, 7)
    assert feed_key(FEED) == KEY


@given(FEEDS, SEQUENCE_NUMBERS)
def test_split_item_undoes_item_name(feed: bytes, seq: int) -> None:
    assert split_item(item_name(feed, seq)) == (feed, seq)


@given(KEYS, NAMES)
def test_feed_key_undoes_feed_name(key: bytes, prefix: bytes) -> None:
    assert feed_key(feed_name(prefix, key)) == key


@pytest.mark.parametrize(
    "name",
    [
        FEED,
        item_name(FEED, 0),
        item_name(b"", 7),
        item_name(from_uri("/unibas"), 7),
        FEED + bytes.fromhex("3a020007"),
        FEED + bytes.fromhex("3a00"),
        FEED + bytes.fromhex("3a03000007"),
        FEED + bytes.fromhex("320107"),
        FEED[:-1] + bytes.fromhex("3a0107"),
        component(8, KEY[:31]) + bytes.fromhex("3a0107"),
        component(1, KEY) + bytes.fromhex("3a0107"),
        item_name(FEED, 7) + component(8, b"more"),
        b"",
        bytes.fromhex("3a0107"),
    ],
    ids=[
        "no sequence number",
        "items count from 1",
        "no key",
        "short key",
        "number in two bytes that fits one",
        "empty number",
        "number of three bytes",
        "another convention",
        "key cut",
        "key of 31 bytes",
        "key in a digest component",
        "longer",
        "empty",
        "only a number",
    ],
)
def test_not_an_items_name(name: bytes) -> None:
    assert split_item(name) is None


@given(st.binary(max_size=60) | mutations(ITEMS))
def test_any_bytes_split_or_do_not(name: bytes) -> None:
    parts = split_item(name)
    if parts is not None:
        assert item_name(*parts) == name
        assert parts[1] >= 1


def test_contents() -> None:
    link = bytes(range(32))
    assert native_content(link, b"pay") == b"\xf2\x20" + link + b"\xf4\x03pay"
    assert native_content(b"", b"pay") == b"\xf4\x03pay"
    assert ssb_content(b"{}") == element(0xF6, b"{}")


def test_a_key_that_is_the_end_of_a_longer_component_names_no_feed():
    disguised = component(GENERIC, b"x" + component(GENERIC, bytes(32)))
    assert split_item(item_name(disguised, 1)) is not None
    for feed in (disguised, b"\x08\x20" + bytes(31), component(SEQUENCE, bytes(32)), b""):
        with pytest.raises(MalformedPacket):
            check_feed_name(feed)
    check_feed_name(feed_name(b"", bytes(32)))
    check_feed_name(feed_name(component(GENERIC, b"a"), bytes(32)))
