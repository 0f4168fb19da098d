"""Items of feeds in Data packets, for each format of feeds.

An item proves by itself who wrote it and where it stands (author, sequence, signature); what it says about
its feed is in :mod:`forwarder.feedcache.fork`, and whether that fits, in :mod:`forwarder.feedcache.cache`.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from forwarder.wire.feed import BACKLINK, PAYLOAD, SSB_MESSAGE, feed_key
from forwarder.wire.packet import ED25519, Data, parse_data
from forwarder.wire.tlv import MalformedPacket, element, elements
from ssb.keys import feed_ref, parse_message, verify
from ssb.message import InvalidMessage, Message
from ssb.work import REMEMBERED, WORK

_SIGNATURE_BYTES: Final = 64
_LARGEST_REMEMBERED: Final = 8800


class RejectedItem(ValueError):
    """A Data packet is not a valid item; `reason` is a short word to count it by."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason


class Item(NamedTuple):
    """An item.

    Attributes:
        seq: its sequence number, from 1.
        id: what the next item's backlink names: an SSB message id or a Data packet's implicit digest, 32
            bytes.
        previous: its own backlink, 32 bytes; None in item 1.
        message: the application's bytes: an SSB message as canonical JSON, or a native payload.
        data: the packet.
        signed, signature: the bytes that its author signed, and the Ed25519 signature over them.
        is_bound: whether the id is a hash of all that the application gets. An SSB id is not, where there is
            more than ASCII: it is the hash of the low bytes of UTF-16 units.
    """

    seq: int
    id: bytes
    previous: bytes | None
    message: bytes
    data: Data
    signed: bytes
    signature: bytes
    is_bound: bool


def read_data(packet: bytes) -> Data:
    """Return the Data packet as parse_data() reads it: without parsing it again if it is a verified item."""
    known = _verified.get(packet)
    return parse_data(packet) if known is None else known[1].data


def parse_item(feed: bytes, seq: int, data: Data) -> Item:
    """Read `data` as item `seq` of the feed of that name, all but the signature; raise RejectedItem."""
    author, known = _verified.get(data.wire, _UNKNOWN)
    return known if known is not None and known.seq == seq and author == feed else _parse(feed, seq, data)


def verify_item(feed: bytes, item: Item) -> None:
    """Raise RejectedItem unless the feed's author signed the item, or vouched for it."""
    is_new = _verified.get(item.data.wire, _UNKNOWN)[0] != feed
    if is_new:
        check_signature(feed, item)
        _remember(feed, item)
    WORK.met(item.data.wire, verifies=not is_new)


def verify_run(feed: bytes, run: Sequence[Item]) -> None:
    """Verify items, each of which names the one before it, by one signature.

    The author of the last has signed its id, and by its backlink that of the one before, and so on. Where an
    id is a hash of all of its item, that vouches for the item. Raises RejectedItem if the last does not
    verify, or an id binds too little: that says nothing about any of the others.
    """
    for item in run[:-1]:
        if not item.is_bound:
            raise RejectedItem("signature", f"item {item.seq} must be verified by itself")
    verify_item(feed, run[-1])
    for item in run[:-1]:
        _remember(feed, item)
        WORK.met(item.data.wire, verifies=False)


def is_signed(feed: bytes, signature: bytes, text: bytes) -> bool:
    """Return whether a signature of a text is by a feed's key."""
    return verify(feed_key(feed), signature, text)


def check_signature(feed: bytes, item: Item) -> None:
    """Raise RejectedItem unless the item's own signature verifies, as a proof for third parties needs."""
    if not is_signed(feed, item.signature, item.signed):
        raise RejectedItem("signature", f"item {item.seq} is not signed by the feed's key")


def open_item(feed: bytes, seq: int, data: Data) -> Item:
    """Read and verify `data` as item `seq` of the feed of that name; raise RejectedItem."""
    item = parse_item(feed, seq, data)
    verify_item(feed, item)
    return item


def forget_all() -> None:
    """Clear this process's cache of verified items, so that measurements begin cold."""
    _verified.clear()


_verified: Final[dict[bytes, tuple[bytes, Item]]] = {}  # packet -> feed and genuine item, oldest first
_UNKNOWN: Final[tuple[bytes, Item | None]] = (b"", None)


def _remember(feed: bytes, item: Item) -> None:
    if len(item.data.wire) <= _LARGEST_REMEMBERED:
        _verified[item.data.wire] = feed, item
        if len(_verified) > REMEMBERED:
            del _verified[next(iter(_verified))]


def _parse(feed: bytes, seq: int, data: Data) -> Item:
    content = data.content
    try:
        parts = [(kind, content[start:end]) for kind, start, end in elements(content, 0, len(content))]
    except MalformedPacket as error:
        raise RejectedItem("format", str(error)) from error
    match parts:
        case [(kind, text)] if kind == SSB_MESSAGE:
            return _parse_ssb(feed, seq, data, text)
        case [(kind, payload)] if kind == PAYLOAD:
            return _parse_native(seq, data, None, payload)
        case [(first, backlink), (kind, payload)] if (first, kind) == (BACKLINK, PAYLOAD):
            return _parse_native(seq, data, backlink, payload)
    raise RejectedItem("format", "the content is no item: neither an SSB message nor Backlink and Payload")


def _parse_ssb(feed: bytes, seq: int, data: Data, text: bytes) -> Item:
    """Read a classic SSB message; its own signature and backlink count, not the Data packet's."""
    try:
        message = Message.from_text(text)
    except InvalidMessage as error:
        raise RejectedItem("message", str(error)) from error
    if message.author != feed_ref(feed_key(feed)):
        raise RejectedItem("author", "the message's author is not the feed's key")
    if message.sequence != seq:
        raise RejectedItem("sequence", f"message {message.sequence} under the name of item {seq}")
    previous = parse_message(message.previous) if message.previous else None
    signed, signature = message.signed_parts()
    id_, text = parse_message(message.id), message.encoded
    return Item(seq, id_, previous, text, data, signed, signature, is_bound=text.isascii())


def _parse_native(seq: int, data: Data, previous: bytes | None, payload: bytes) -> Item:
    """Read a native item: signed as a Data packet, with the previous packet's digest as backlink."""
    if (previous is None) != (seq == 1) or (previous is not None and len(previous) != 32):
        raise RejectedItem("backlink", "every item but the first has a Backlink of 32 bytes")
    if data.signature_type != ED25519 or len(data.signature) != _SIGNATURE_BYTES:
        raise RejectedItem("signature", f"signature type {data.signature_type}, not Ed25519")
    if data.wire != _exactly(data):
        # The digest covers all of the packet, the signature does not: anyone could make another item of this
        # one, and the author would seem to have forked the feed.
        raise RejectedItem("format", "something beside what the author signed")
    return Item(seq, data.digest(), previous, payload, data, data.signed, data.signature, is_bound=True)


def _exactly(data: Data) -> bytes:
    """The packet with only its signed portion and the signature."""
    return element(_DATA, data.signed + element(_SIGNATURE_VALUE, data.signature))


_DATA: Final = 6
_SIGNATURE_VALUE: Final = 23
