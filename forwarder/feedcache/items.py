"""What makes a Data packet an item of a feed, for each format that a feed can have.

An item proves by itself who wrote it and where it stands (signature, author, sequence); that it extends a
feed is the chain's business, see :mod:`forwarder.feedcache.cache`.
"""

from collections.abc import Callable
from typing import NamedTuple

from forwarder.wire.feed import BACKLINK, PAYLOAD, SSB_MESSAGE, feed_key
from forwarder.wire.packet import ED25519, Data
from forwarder.wire.tlv import MalformedPacket, read_header
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
    try:
        kind, start, end = read_header(data.content, 0, len(data.content))
        opener = _FORMATS.get(kind)
        if opener is None:
            raise RejectedItem("format", f"no item format begins with element {kind}")
        return opener(feed, seq, data, start, end)
    except MalformedPacket as error:
        raise RejectedItem("format", str(error)) from error


def _open_ssb(feed: bytes, seq: int, data: Data, start: int, end: int) -> Item:
    """Open a classic SSB message; its own signature and backlink count, not the Data packet's."""
    if end != len(data.content):
        raise RejectedItem("format", "bytes after the message")
    try:
        message = Message.from_text(data.content[start:end])
        if message.author != feed_ref(feed_key(feed)):
            raise RejectedItem("author", "the message's author is not the feed's key")
        if message.sequence != seq:
            raise RejectedItem("sequence", f"message {message.sequence} under the name of item {seq}")
        message.verify()
    except InvalidMessage as error:
        raise RejectedItem("message", str(error)) from error
    previous = parse_message(message.previous) if message.previous else None
    return Item(seq, parse_message(message.id), previous, message.encoded, data)


def _open_native(feed: bytes, seq: int, data: Data, start: int, end: int) -> Item:
    """Open a native item: signed by the feed's key, with the previous packet's digest as backlink."""
    content = data.content
    previous = None
    kind, start, end = read_header(content, 0, len(content))
    if kind == BACKLINK:
        previous = content[start:end]
        kind, start, end = read_header(content, end, len(content))
    if kind != PAYLOAD or end != len(content):
        raise RejectedItem("format", "a native item is a Backlink and a Payload")
    if (previous is None) != (seq == 1) or (previous is not None and len(previous) != 32):
        raise RejectedItem("backlink", "every item but the first has a Backlink of 32 bytes")
    if data.signature_type != ED25519:
        raise RejectedItem("signature", f"signature type {data.signature_type}, not Ed25519")
    if not verify(feed_key(feed), data.signature, data.signed):
        raise RejectedItem("signature", "does not verify")
    return Item(seq, data.digest(), previous, content[start:end], data)


_FORMATS: dict[int, Callable[[bytes, int, Data, int, int], Item]] = {
    SSB_MESSAGE: _open_ssb,
    BACKLINK: _open_native,
    PAYLOAD: _open_native,
}
