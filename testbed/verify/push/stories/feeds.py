"""Signed feeds for stories, made once per process: signing dominates the cost of a story."""

from collections.abc import Callable
from functools import cache
from random import Random

from forwarder.wire.feed import feed_name, item_name, native_content, ssb_content
from forwarder.wire.name import from_uri
from forwarder.wire.packet import ED25519, Data, make_data, parse_data
from ssb.keys import Identity
from ssb.message import Message
from testbed.verify.push.stories.story import MAX_ITEMS, Feed

PREFIXES = {"native": from_uri("/sim"), "ssb": from_uri("/ssb/logs")}
STRANGER = Identity.from_seed(b"a key that belongs to no feed   ")

_LARGE_EVERY = 9
"""Period of items that need two fragments."""


def name_of(feed: Feed) -> bytes:
    """Return a feed's name."""
    return feed_name(PREFIXES[feed.format], _identity(feed.format, feed.pool).public_key)


def signer_of(feed: Feed) -> Callable[[bytes], bytes] | None:
    """Return the signer of a feed; None for every other feed: a gateway does not have its key."""
    return _identity(feed.format, feed.pool).sign if feed.pool % 2 == 0 else None


def items_of(feed: Feed, device: int) -> tuple[Data, ...]:
    """Return the MAX_ITEMS items published by a device, from item 1."""
    fork = feed.fork if device else None
    return _branch(feed.format, feed.pool, fork)


@cache
def _identity(feed_format: str, pool: int) -> Identity:
    return Identity.from_seed(Random(f"{feed_format} {pool}").randbytes(32))


@cache
def _branch(feed_format: str, pool: int, fork: int | None) -> tuple[Data, ...]:
    common = _branch(feed_format, pool, None)[: fork - 1] if fork is not None else ()
    return (_native if feed_format == "native" else _ssb)(_identity(feed_format, pool), fork, common)


def _native(identity: Identity, fork: int | None, common: tuple[Data, ...]) -> tuple[Data, ...]:
    feed = feed_name(PREFIXES["native"], identity.public_key)
    items = list(common)
    for seq in range(len(items) + 1, MAX_ITEMS + 1):
        payload = f"item {seq} of fork {fork} ".encode() * (80 if seq % _LARGE_EVERY == 0 else 1)
        content = native_content(items[-1].digest() if items else b"", payload)
        items.append(sign_item(feed, seq, content, identity))
    return tuple(items)


def _ssb(identity: Identity, fork: int | None, common: tuple[Data, ...]) -> tuple[Data, ...]:
    feed = feed_name(PREFIXES["ssb"], identity.public_key)
    tip = Message.from_text(common[-1].content[4:]) if common else None  # after a header of 4 bytes
    items = list(common)
    for seq in range(len(items) + 1, MAX_ITEMS + 1):
        text = f"item {seq} of fork {fork} " * (80 if seq % _LARGE_EVERY == 0 else 1)
        tip = Message.create(identity, tip, {"type": "post", "text": text}, 1_500_000_000_000 + seq)
        items.append(parse_data(make_data(item_name(feed, seq), ssb_content(tip.encoded))))
    return tuple(items)


def sign_item(feed: bytes, seq: int, content: bytes, identity: Identity) -> Data:
    """Make a native item signed by any identity."""
    return parse_data(make_data(item_name(feed, seq), content, signature_type=ED25519, sign=identity.sign))
