"""Items of both formats: what is accepted, what is refused and why."""

from hashlib import sha256

import pytest
from simulation import feed_of

from forwarder.feedcache.cache import Chain, FeedCache, FeedStore
from forwarder.feedcache.items import Item, RejectedItem, open_item
from forwarder.wire.feed import feed_name, item_name, native_content, ssb_content
from forwarder.wire.name import from_uri
from forwarder.wire.packet import ED25519, Data, make_data, parse_data
from ssb.keys import Identity
from ssb_over_ndn.naming import log_name, message_packet

WRITER = Identity.from_seed(b"w" * 32)
STRANGER = Identity.from_seed(b"s" * 32)
NATIVE = feed_name(from_uri("/unibas/camera"), WRITER.public_key)
CLASSIC = feed_of(6)


def native(seq: int, backlink: bytes, payload: bytes = b"frame", writer: Identity = WRITER) -> Data:
    content = native_content(backlink, payload)
    return parse_data(make_data(item_name(NATIVE, seq), content, signature_type=ED25519, sign=writer.sign))


def test_native_items_chain_by_implicit_digest() -> None:
    chain = Chain()
    link = b""
    for seq in range(1, 5):
        data = native(seq, link)
        item = open_item(NATIVE, seq, data)
        assert (item.seq, item.message, item.previous) == (seq, b"frame", link or None)
        chain.extend(item)
        link = sha256(data.wire).digest()
        assert item.id == link
    assert chain.tip == 4
    with pytest.raises(RejectedItem, match="backlink"):
        chain.extend(open_item(NATIVE, 5, native(5, b"\1" * 32)))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (native(1, b"", writer=STRANGER), "signature"),
        (parse_data(make_data(item_name(NATIVE, 1), native_content(b"", b"x"))), "signature"),
        (native(1, b"\1" * 32), "backlink"),
        (native(1, b"\1" * 31), "backlink"),
        (parse_data(make_data(item_name(NATIVE, 1), native_content(b"", b"x") + b"\xf8\0")), "format"),
        (parse_data(make_data(item_name(NATIVE, 1), b"\xf2\x01")), "format"),
    ],
)
def test_a_native_item_is_refused(data: Data, reason: str) -> None:
    with pytest.raises(RejectedItem) as refused:
        open_item(NATIVE, 1, data)
    assert refused.value.reason == reason


def test_every_item_but_the_first_has_a_backlink() -> None:
    with pytest.raises(RejectedItem, match="backlink"):
        open_item(NATIVE, 2, native(2, b""))


def classic_items() -> list[Item]:
    feed = log_name(CLASSIC[0].author)
    return [open_item(feed, m.sequence, parse_data(message_packet(m))) for m in CLASSIC]


def test_classic_items_chain_by_message_id() -> None:
    chain = Chain()
    for item, message in zip(classic_items(), CLASSIC, strict=True):
        assert item.message == message.encoded
        chain.extend(item)
    assert chain.tip == 6


def test_a_classic_item_under_another_feed_is_refused() -> None:
    data = parse_data(make_data(item_name(NATIVE, 1), ssb_content(CLASSIC[0].encoded)))
    with pytest.raises(RejectedItem) as refused:
        open_item(NATIVE, 1, data)
    assert refused.value.reason == "author"


def test_a_cache_keeps_the_newest_within_its_bounds_and_its_tip_for_good() -> None:
    cache = FeedCache(max_items=3, max_bytes=1 << 20)
    for item in classic_items():
        cache.accept(item)
    assert list(cache) == [4, 5, 6]
    assert cache.get(3) is None
    small = FeedCache(max_items=100, max_bytes=1)
    for item in classic_items():
        small.accept(item)
    assert list(small) == [6]
    assert small.tip == 6


def test_an_anchor_in_mid_feed_and_an_older_item() -> None:
    items = classic_items()
    cache = FeedCache(10, 1 << 20)
    cache.accept(items[2])
    cache.accept(items[3])
    cache.accept(items[0])
    assert list(cache) == [3, 4]
    cache.accept(items[5])
    assert list(cache) == [6]


def test_two_items_with_one_number_are_refused() -> None:
    cache = FeedCache(10, 1 << 20)
    first = classic_items()[0]
    cache.accept(first)
    cache.accept(first)
    with pytest.raises(RejectedItem, match="fork"):
        cache.accept(first._replace(id=b"\2" * 32))


def test_a_store_forgets_the_feed_used_least_recently() -> None:
    store = FeedStore(max_feeds=2)
    first = store.open(b"a")
    store.open(b"b")
    assert store.open(b"a") is first
    store.open(b"c")
    assert store.open(b"a") is first
    assert len(store) == 2
