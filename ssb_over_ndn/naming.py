"""Names and packets of SSB messages and blobs over NDN.

A blob's segments are under /ssb/blobs/<hash>, named by NDN's conventions and numbered from 0. They are not
signed: the name has the hash of the whole blob, which is verified.
"""

from functools import lru_cache

from forwarder.wire.feed import SSB_MESSAGE, feed_key, feed_name, item_name, split_item, ssb_content
from forwarder.wire.name import (
    GENERIC,
    KEYWORD,
    NAME,
    SEGMENT,
    SEQUENCE,
    VERSION,
    component,
    components,
    from_uri,
    prefix_ends,
)
from forwarder.wire.packet import Data, make_data
from forwarder.wire.tlv import MalformedPacket, element, elements, nni, read_nni
from ssb.keys import blob_ref, feed_ref, message_ref, parse_blob, parse_feed, parse_message
from ssb.message import Message
from ssb.store.blobs import BlobStore

LOGS = from_uri("/ssb/logs")
SHA256 = from_uri("/ssb/sha256")
BLOBS = from_uri("/ssb/blobs")
BRANCHES = from_uri("/ssb/branches")

SEGMENT_BYTES = 4096
"""Content of each segment of a blob but the last, which may have less."""

_DIGEST_BYTES = 32
_MOST_AUTHORS = 1 << 12  # whose references are remembered
_FRESHNESS_MS = 3_600_000  # an item never changes, nor does a blob
_METADATA_FRESHNESS_MS = 10  # as in ndn-cxx
_METADATA = component(KEYWORD, b"metadata")
_NOTIFY = component(KEYWORD, b"notify")
_SYNC = component(KEYWORD, b"sync")
_EXTEND = component(KEYWORD, b"extend")

CONSUMERS = from_uri("/ssb/consumers")
"""The prefix of the routable prefixes of consumers that Interests notify one by one."""

SYNC_ALL = from_uri("/ssb") + _SYNC
"""The prefix of the sync group of all feeds: /ssb/32=sync."""

PSYNC_ALL = from_uri("/ssb/32=psync")
"""The prefix of the group of all feeds that PSync keeps: /ssb/32=psync."""

PUBSUB_ALL = from_uri("/ssb/32=sync-ps")
"""The prefix of the group of nodes that publish by SVS-PS: /ssb/32=sync-ps."""


def log_name(author: str) -> bytes:
    """Return the name of the feed of an author (`@...=.ed25519`): /ssb/logs/<id>."""
    return feed_name(LOGS, parse_feed(author))


def read_log_name(name: bytes) -> str | None:
    """Return the author of the feed whose name is a prefix of a name; None if there is none."""
    key = _digest(LOGS, name)
    return None if key is None else _author(key)


def is_log_name(name: bytes) -> bool:
    """Return whether a name is a feed's, and has nothing behind it."""
    author = read_log_name(name)
    return author is not None and log_name(author) == name


def log_key(name: bytes) -> str:
    """Return the author (`@...=.ed25519`) of the feed of a name."""
    return _author(feed_key(name))


@lru_cache(maxsize=_MOST_AUTHORS)
def _author(key: bytes) -> str:
    """Return the author of a key: strategies ask with each Interest."""
    return feed_ref(key)


def hash_name(message_id: str) -> bytes:
    """Return the name of a message by its id (`%...=.sha256`): /ssb/sha256/<hash>."""
    return SHA256 + component(GENERIC, parse_message(message_id))


def branch_name(author: str, device: str, first: int) -> bytes:
    """Return the name of a branch of a feed that is merged: /ssb/branches/<device>/seq=<first>/<id>.

    `device` is 32 bytes of the device's choice, written as a feed's reference; `first` is the number of the
    branch's first message. As each feed's name does, this one ends with the key.
    """
    prefix = BRANCHES + component(GENERIC, parse_feed(device)) + component(SEQUENCE, nni(first))
    return feed_name(prefix, parse_feed(author))


def message_packet(message: Message, feed: bytes = b"") -> bytes:
    """Return the Data packet of a message in its author's feed, or in the branch of that name."""
    name = item_name(feed or log_name(message.author), message.sequence)
    return make_data(name, ssb_content(message.encoded), freshness_ms=_FRESHNESS_MS)


def hash_packet(message: Message) -> bytes:
    """Return the Data packet of a message under its hash."""
    return make_data(hash_name(message.id), ssb_content(message.encoded), freshness_ms=_FRESHNESS_MS)


def read_hashed(data: Data) -> Message | None:
    """Return the message in a Data packet under its hash; None if there is none, or another one.

    Its signature is not verified.
    """
    content = data.content
    try:
        ((kind, start, end),) = elements(content, 0, len(content))
        message = Message.from_text(content[start:end])
    except ValueError:  # MalformedPacket, not one element, or InvalidMessage
        return None
    return message if kind == SSB_MESSAGE and message.id == message_id(data.name) else None


def message_id(name: bytes) -> str | None:
    """Return the message id (`%...=.sha256`) in a name; None for other names."""
    digest = _digest(SHA256, name)
    return message_ref(digest) if digest is not None and hash_name(message_ref(digest)) == name else None


def blob_name(blob: str) -> bytes:
    """Return the name of a blob (`&...=.sha256`): /ssb/blobs/<hash>."""
    return BLOBS + component(GENERIC, parse_blob(blob))


def segment_name(blob: str, number: int) -> bytes:
    """Return the name of a segment of a blob, numbered from 0: <blob>/seg=<number>."""
    return blob_name(blob) + component(SEGMENT, nni(number))


def last_segment(size: int) -> int:
    """Return the number of the last segment of a blob of `size` bytes; the empty blob has one segment."""
    return max(size - 1, 0) // SEGMENT_BYTES


def segment_packet(blobs: BlobStore, blob: str, number: int) -> bytes | None:
    """Return the Data packet of a segment; None if the blob is not held, or has no such segment."""
    size = blobs.size(blob)
    if size is None or number > last_segment(size):
        return None
    content = blobs.read(blob, number * SEGMENT_BYTES, SEGMENT_BYTES) if size else b""
    final = component(SEGMENT, nni(last_segment(size)))
    return make_data(segment_name(blob, number), content, freshness_ms=_FRESHNESS_MS, final_block=final)


def split_segment(name: bytes) -> tuple[str, int] | None:
    """Return the blob and the number in a segment's name; None for other names."""
    digest = _digest(BLOBS, name)
    if digest is None:
        return None
    try:
        number = read_segment(name[len(BLOBS) + 2 + len(digest) :])
    except MalformedPacket:
        return None
    blob = blob_ref(digest)
    return (blob, number) if segment_name(blob, number) == name else None


def read_segment(name: bytes) -> int:
    """Return a segment's number from its name component; raise MalformedPacket."""
    parts = components(name)
    if len(parts) != 1 or parts[0][0] != SEGMENT:
        raise MalformedPacket("no number of a segment")
    return read_nni(parts[0][1])


def metadata_name(feed: bytes) -> bytes:
    """Return the name of a feed's metadata, with its newest item: <feed>/32=metadata, as in RDR."""
    return feed + _METADATA


def metadata_packet(feed: bytes, tip: int, suffix: bytes = b"") -> bytes:
    """Return the Data packet of a feed's metadata; `tip` is its newest item, 0 if there is none.

    `suffix` is that of the question (ssb_over_ndn.layerings.pull.Question).

    As in NDN's Realtime Data Retrieval (NDN project wiki, "RDR"): the content is the Name to fetch, here
    that of the item, or the feed's while it has none; the version is the sequence number.
    """
    name = metadata_name(feed) + suffix + component(VERSION, nni(tip)) + component(SEGMENT, nni(0))
    newest = item_name(feed, tip) if tip else feed
    return make_data(name, element(NAME, newest), freshness_ms=_METADATA_FRESHNESS_MS)


def read_metadata(feed: bytes, data: Data) -> int | None:
    """Return the newest item's sequence number from a Data packet of metadata; None if it has none."""
    if not data.name.startswith(metadata_name(feed)):
        return None
    content = data.content
    try:
        prefix_ends(data.name)
        parts = list(elements(content, 0, len(content)))
    except MalformedPacket:
        return None
    if len(parts) != 1 or parts[0][0] != NAME:
        return None
    named = content[parts[0][1] :]
    if named == feed:
        return 0
    item = split_item(named)
    return item[1] if item is not None and item[0] == feed else None


def notify_prefix(feed: bytes) -> bytes:
    """Return the prefix of a feed's notifications: <feed>/32=notify."""
    return feed + _NOTIFY


def notify_name(feed: bytes, seq: int) -> bytes:
    """Return the name of the notification that item `seq` exists: <feed>/32=notify/seq=<seq>."""
    return notify_prefix(feed) + component(SEQUENCE, nni(seq))


def read_notify_name(feed: bytes, name: bytes) -> int | None:
    """Return the sequence number in a notification's name; None for other names."""
    prefix = notify_prefix(feed)
    if not name.startswith(prefix):
        return None
    try:
        ((kind, value),) = components(name[len(prefix) :])
        seq = read_nni(value)
    except ValueError:
        return None
    return seq if kind == SEQUENCE and seq and nni(seq) == value else None


def sync_prefix(feed: bytes) -> bytes:
    """Return the prefix of the sync group of a feed: <feed>/32=sync."""
    return feed + _SYNC


def extend_prefix(feed: bytes) -> bytes:
    """Return the prefix of the group for announcements of a feed's extensions: <feed>/32=extend."""
    return feed + _EXTEND


def _digest(prefix: bytes, name: bytes) -> bytes | None:
    """Return the digest that follows a prefix in a name; None if there is none."""
    header = prefix + bytes((GENERIC, _DIGEST_BYTES))
    end = len(header) + _DIGEST_BYTES
    return name[len(header) : end] if name.startswith(header) and len(name) >= end else None
