"""Names and contents of feed items (docs/controlled-push.md, section 2).

A feed's name ends with its writer's Ed25519 public key, so it certifies itself; item n is the Data packet
`<feed>/seq=<n>`. Its content says which format it is: a native item is a Backlink and a Payload, an item
of a classic SSB feed is the SSB message, whole.
"""

from typing import Final

from forwarder.wire.name import GENERIC, KEYWORD, SEQUENCE, component, prefix_ends
from forwarder.wire.tlv import MalformedPacket, element, nni

BACKLINK: Final = 0xF2
PAYLOAD: Final = 0xF4
SSB_MESSAGE: Final = 0xF6
FORK_PROOF: Final = 0xF8

LAST_ITEM: Final = (1 << 64) - 2
"""The highest number of an item: one more can still be counted in 64 bits."""

KEY_BYTES: Final = 32
_KEY_HEADER: Final = bytes((GENERIC, KEY_BYTES))
_FORK: Final = component(KEYWORD, b"fork")
_SEQUENCE_HEADERS: Final = [(size, bytes((SEQUENCE, size))) for size in (1, 2, 4, 8)]


def feed_name(prefix: bytes, key: bytes) -> bytes:
    """Return the name of the feed of `key` (32 bytes) under a prefix."""
    return prefix + component(GENERIC, key)


def item_name(feed: bytes, seq: int) -> bytes:
    """Return the name of item `seq` (from 1) of a feed."""
    return feed + component(SEQUENCE, nni(seq))


def split_item(name: bytes) -> tuple[bytes, int] | None:
    """Split an item's name into (feed, seq); None if it does not have an item's form.

    Reads from the end and does not parse the feed's name: for a new feed, call check_feed_name().
    """
    for size, header in _SEQUENCE_HEADERS:
        at = len(name) - size - 2
        if name.startswith(header, at) and name.startswith(_KEY_HEADER, at - KEY_BYTES - 2):
            number = name[at + 2 :]
            seq = int.from_bytes(number, "big")
            if (
                at >= KEY_BYTES + 2
                and 0 < seq <= LAST_ITEM
                and nni(seq) == number
                and not name.endswith(_FORK, 0, at)
            ):
                return name[:at], seq
    return None


def is_item_name(name: bytes) -> bool:
    """Return whether a name is an item's and well formed, with key and number as components."""
    parts = split_item(name)
    if parts is None:
        return False
    try:
        ends = [0, *prefix_ends(name)]
    except MalformedPacket:
        return False
    return len(parts[0]) in ends and len(parts[0]) - KEY_BYTES - 2 in ends


def fork_name(feed: bytes, seq: int) -> bytes:
    """Return the name of the proof that a feed is forked at `seq`: <feed>/32=fork/seq=<seq>."""
    return feed + _FORK + component(SEQUENCE, nni(seq))


def split_fork(name: bytes) -> tuple[bytes, int] | None:
    """Split the name of a fork's proof into (feed, seq); None if it does not have that form."""
    for size, header in _SEQUENCE_HEADERS:
        at = len(name) - size - 2
        if name.startswith(header, at) and name.endswith(_FORK, 0, at):
            feed, number = name[: at - len(_FORK)], name[at + 2 :]
            seq = int.from_bytes(number, "big")
            if seq and nni(seq) == number and feed.startswith(_KEY_HEADER, len(feed) - KEY_BYTES - 2):
                return feed, seq
    return None


def check_feed_name(feed: bytes) -> None:
    """Raise MalformedPacket unless the key that a feed's name ends with is a component of its own."""
    at = len(feed) - KEY_BYTES - 2
    if at < 0 or not feed.startswith(_KEY_HEADER, at) or (at and at not in prefix_ends(feed)):
        raise MalformedPacket("a feed's name ends with a component of 32 bytes, its key")


def feed_key(feed: bytes) -> bytes:
    """Return the writer's public key from a feed's name."""
    return feed[-KEY_BYTES:]


def native_content(backlink: bytes, payload: bytes) -> bytes:
    """Build a native item's content; `backlink` is empty for item 1, else 32 bytes."""
    return (element(BACKLINK, backlink) if backlink else b"") + element(PAYLOAD, payload)


def ssb_content(message: bytes) -> bytes:
    """Build the content of an item that carries a classic SSB message (canonical JSON, UTF-8)."""
    return element(SSB_MESSAGE, message)
