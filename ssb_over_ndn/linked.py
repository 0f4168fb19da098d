"""Linked items: native items that also name an item far back, so that a part of a log can be verified.

Each item of a log names the one before it, so a proof that item m stands before item n in one log has n - m
entries. A linked item n names item link_target(n), too. These skip links are those of Bamboo (Meyer, "Links
and Entry Verification"), an anti-monotone binary graph of Buldas and Laud ("New linking schemes for digital
time-stamping", 1998): between any two items there is a path of links whose length is logarithmic in n.

The format is one of native items' payloads, so that forwarders carry linked items as any other:

    Payload = [SkipLink 0xFA: the id of item link_target(n), 32 bytes]  Content 0xFC: the application's bytes

The skip link is absent where the Backlink names the same item.
"""

from collections.abc import Callable, MutableMapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from forwarder.feedcache.items import Item, RejectedItem
from forwarder.wire.feed import item_name, native_content
from forwarder.wire.packet import ED25519, make_data, parse_data
from forwarder.wire.tlv import MalformedPacket, element, elements

SKIP_LINK: Final = 0xFA
CONTENT: Final = 0xFC

_ID_BYTES: Final = 32
_FRESHNESS_MS: Final = 3_600_000  # an item never changes


class Linked(NamedTuple):
    """A linked item.

    Attributes:
        item: the native item, verified by whoever opened it.
        skip: the id of item link_target(item.seq), 32 bytes; None where the backlink names the same item.
        content: the application's bytes.
    """

    item: Item
    skip: bytes | None
    content: bytes

    def names(self, older: Item) -> bool:
        """Return whether one of the links is to this very item."""
        if older.seq == self.item.seq - 1:
            return self.item.previous == older.id
        return older.seq == link_target(self.item.seq) and self.skip == older.id


def link_target(seq: int) -> int:
    """Return the number of the item that item `seq` (from 1) has a skip link to; 0 for the first."""
    rest = seq
    while True:
        power = 3  # 3^k; (3^k - 1) / 2 is k ones in base 3
        while (power * 3 - 1) // 2 <= rest:
            power *= 3
        ones = (power - 1) // 2
        if ones == rest:
            return seq - (power // 3 if rest == seq else ones)
        rest -= ones


def path(newer: int, older: int) -> list[int]:
    """Return the numbers on the shortest way by links from an item to an older one, both included.

    Raises ValueError unless 1 <= older <= newer.
    """
    if not 1 <= older <= newer:
        raise ValueError(f"no links lead from item {newer} to item {older}")
    found = [newer]
    while (seq := found[-1]) > older:
        target = link_target(seq)
        found.append(target if target >= older else seq - 1)
    return found


def open_linked(item: Item) -> Linked:
    """Read a verified native item as a linked one; raise RejectedItem ("format") if it is none."""
    try:
        parts = [
            (kind, item.message[at:end]) for kind, at, end in elements(item.message, 0, len(item.message))
        ]
    except MalformedPacket as error:
        raise RejectedItem("format", str(error)) from error
    skip = parts[0][1] if len(parts) == 2 and parts[0][0] == SKIP_LINK else None
    has_skip = link_target(item.seq) < item.seq - 1
    if len(parts) != 1 + has_skip or parts[-1][0] != CONTENT or has_skip != (skip is not None):
        raise RejectedItem("format", f"item {item.seq} has not the elements of a linked item")
    if skip is not None and len(skip) != _ID_BYTES:
        raise RejectedItem("format", f"item {item.seq} has a skip link of {len(skip)} bytes")
    return Linked(item, skip, parts[-1][1])


def broken_at(chain: Sequence[Linked]) -> int | None:
    """Return the highest number that a chain, newest item first, disputes; None if it proves one log.

    Each item must name the next one by a link. All are signed by the author, so that a link to something else
    shows a fork.
    """
    for newer, older in pairwise(chain):
        if not newer.names(older.item):
            return older.item.seq
    return None


class LinkedWriter:
    """Signs the items of one feed.

    Args:
        feed: its name.
        sign: the author's signature of bytes.
        ids: the ids of items so far by number, which each new item joins.
    """

    def __init__(
        self, feed: bytes, sign: Callable[[bytes], bytes], ids: MutableMapping[int, bytes] | None = None
    ) -> None:
        self._feed = feed
        self._sign = sign
        self._ids: MutableMapping[int, bytes] = {} if ids is None else ids

    def packet(self, seq: int, content: bytes) -> bytes:
        """Return the Data packet of item `seq`; those that it links to must have been made."""
        target = link_target(seq)
        skip = element(SKIP_LINK, self._ids[target]) if target < seq - 1 else b""
        payload = skip + element(CONTENT, content)
        wire = make_data(
            item_name(self._feed, seq),
            native_content(self._ids[seq - 1] if seq > 1 else b"", payload),
            freshness_ms=_FRESHNESS_MS,
            signature_type=ED25519,
            sign=self._sign,
        )
        self._ids[seq] = parse_data(wire).digest()
        return wire
