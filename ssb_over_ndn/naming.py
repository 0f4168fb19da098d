"""Names and packets of SSB messages over NDN."""

from forwarder.wire.feed import feed_name, item_name, ssb_content
from forwarder.wire.name import GENERIC, component, from_uri
from forwarder.wire.packet import make_data
from ssb.keys import parse_feed, parse_message
from ssb.message import Message

LOGS = from_uri("/ssb/logs")
SHA256 = from_uri("/ssb/sha256")

_FRESHNESS_MS = 3_600_000  # an item never changes; this long a cache may serve it to MustBeFresh


def log_name(author: str) -> bytes:
    """Return the name of the feed of an author (`@...=.ed25519`): /ssb/logs/<id>."""
    return feed_name(LOGS, parse_feed(author))


def hash_name(message_id: str) -> bytes:
    """Return the name of a message by its id (`%...=.sha256`): /ssb/sha256/<hash>."""
    return SHA256 + component(GENERIC, parse_message(message_id))


def message_packet(message: Message) -> bytes:
    """Return the Data packet of a message in its author's feed."""
    name = item_name(log_name(message.author), message.sequence)
    return make_data(name, ssb_content(message.encoded), freshness_ms=_FRESHNESS_MS)


def hash_packet(message: Message) -> bytes:
    """Return the Data packet of a message under its hash."""
    return make_data(hash_name(message.id), ssb_content(message.encoded), freshness_ms=_FRESHNESS_MS)
