"""What makes a Data packet an item of a feed, for each format that a feed can have.

An item proves by itself who wrote it and where it stands (signature, author, sequence); that it extends a
feed is the chain's business, see :mod:`forwarder.feedcache.cache`.
"""

from typing import NamedTuple

from forwarder.wire.feed import BACKLINK, PAYLOAD, SSB_MESSAGE, feed_key
from forwarder.wire.packet import ED25519, Data
from forwarder.wire.tlv import MalformedPacket, elements
from ssb.keys import feed_ref, parse_message, verify
from ssb.message import InvalidMessage, Message


class RejectedItem(ValueError):
    """A Data packet is not a valid item; `reason` is a short word to count it by."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason


class Item(NamedTuple):
    """A verified item.

    Attributes:
        seq: its sequence number, from 1.
        id: what the next item's backlink names: an SSB message id or a Data packet's implicit digest, 32
            bytes.
        previous: its own backlink, 32 bytes; None in item 1.
        message: the application's bytes: an SSB message as canonical JSON, or a native payload.
        data: the packet.
    """

    seq: int
    id: bytes
    previous: bytes | None
    message: bytes
    data: Data


def open_item(feed: bytes, seq: int, data: Data) -> Item:
    """Verify `data` as item `seq` of the feed of that name; raise RejectedItem."""
    content = data.content
    try:
        parts = [(kind, content[start:end]) for kind, start, end in elements(content, 0, len(content))]
    except MalformedPacket as error:
        raise RejectedItem("format", str(error)) from error
    match parts:
        case [(kind, text)] if kind == SSB_MESSAGE:
            return _open_ssb(feed, seq, data, text)
        case [(kind, payload)] if kind == PAYLOAD:
            return _open_native(feed, seq, data, None, payload)
        case [(first, backlink), (kind, payload)] if (first, kind) == (BACKLINK, PAYLOAD):
            return _open_native(feed, seq, data, backlink, payload)
    raise RejectedItem("format", "the content is no item: neither an SSB message nor Backlink and Payload")


def _open_ssb(feed: bytes, seq: int, data: Data, text: bytes) -> Item:
    """Open a classic SSB message; its own signature and backlink count, not the Data packet's."""
    try:
        message = Message.from_text(text)
        if message.author != feed_ref(feed_key(feed)):
            raise RejectedItem("author", "the message's author is not the feed's key")
        if message.sequence != seq:
            raise RejectedItem("sequence", f"message {message.sequence} under the name of item {seq}")
        message.verify()
    except InvalidMessage as error:
        raise RejectedItem("message", str(error)) from error
    previous = parse_message(message.previous) if message.previous else None
    return Item(seq, parse_message(message.id), previous, message.encoded, data)


def _open_native(feed: bytes, seq: int, data: Data, previous: bytes | None, payload: bytes) -> Item:
    """Open a native item: signed by the feed's key, with the previous packet's digest as backlink."""
    if (previous is None) != (seq == 1) or (previous is not None and len(previous) != 32):
        raise RejectedItem("backlink", "every item but the first has a Backlink of 32 bytes")
    if data.signature_type != ED25519:
        raise RejectedItem("signature", f"signature type {data.signature_type}, not Ed25519")
    if not verify(feed_key(feed), data.signature, data.signed):
        raise RejectedItem("signature", "does not verify")
    return Item(seq, data.digest(), previous, payload, data)
