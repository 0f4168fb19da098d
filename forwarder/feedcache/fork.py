"""Forked feeds, and proofs of forks that any node can verify.

Theory of operation. Every valid item n *asserts two ids*: its own, for number n, and by its backlink that
of item n - 1. Its author signed both. A feed is forked at f if its author has asserted two different ids
for number f. So:

- two items that assert different ids for f are a proof, whoever shows them and in whatever order they came;
- the verdict on a set of items is the lowest such f: it depends on the set and not on the order of
  arrival, and a node that learns more can only move it down;
- items 1 .. f - 1 are undisputed, and nothing from f on counts, on any branch.

A proof travels as a Data packet <feed>/32=fork/seq=<f>, whose content holds the two items' packets. It proves
itself, so that its own signature is a plain digest. This answers footnote 4 of Tarr et al. (2019).
"""

from typing import Final, NamedTuple

from forwarder.feedcache.items import Item, RejectedItem, check_signature, parse_item
from forwarder.wire.feed import FORK_PROOF, fork_name, split_fork, split_item
from forwarder.wire.packet import Data, make_data, parse_data
from forwarder.wire.tlv import MalformedPacket, element, elements, read_header

_FRESHNESS_MS: Final = 3_600_000


class Fork(NamedTuple):
    """A feed's fork: the lowest number in dispute, and two items that assert different ids for it."""

    seq: int
    first: Item
    second: Item

    def packet(self, feed: bytes) -> bytes:
        """Return the proof as a Data packet, the same bytes whichever item was seen first."""
        packets = sorted((self.first.data.wire, self.second.data.wire))
        content = element(FORK_PROOF, b"".join(packets))
        return make_data(fork_name(feed, self.seq), content, freshness_ms=_FRESHNESS_MS)


def assertions(item: Item) -> list[tuple[int, bytes]]:
    """Return the (number, id) that an item asserts, lowest number first."""
    own = (item.seq, item.id)
    return [own] if item.previous is None else [(item.seq - 1, item.previous), own]


def dispute(first: Item, second: Item) -> int | None:
    """Return the lowest number for which two items assert different ids; None if they agree."""
    known = dict(assertions(first))
    return next((seq for seq, id_ in assertions(second) if known.get(seq, id_) != id_), None)


def open_fork(feed: bytes, data: Data) -> Fork:
    """Check a proof; raise RejectedItem if it proves nothing about the feed of that name.

    What counts is the number in dispute; the packet's name has to say the same.
    """
    named = split_fork(data.name)
    try:
        content = data.content
        kind, start, end = read_header(content, 0, len(content))
        inner = content[start:end]
        packets = [parse_data(inner[at:stop]) for at, stop in _elements_whole(inner)]
        if kind != FORK_PROOF or end != len(content) or len(packets) != 2:
            raise MalformedPacket("a fork's proof is two packets in an element, and nothing else")
        if named is None or named[0] != feed:
            raise MalformedPacket("the proof is named after something else")
        first, second = _open(feed, packets[0]), _open(feed, packets[1])
    except RejectedItem as error:
        raise RejectedItem("proof", f"an item in it is not valid: {error}") from error
    except MalformedPacket as cause:
        raise RejectedItem("proof", "not two items of the feed") from cause
    seq = dispute(first, second)
    if seq is None or seq != named[1]:
        raise RejectedItem("proof", f"the two items do not dispute number {named[1]}")
    return Fork(seq, first, second)


def _elements_whole(inner: bytes) -> list[tuple[int, int]]:
    """Return where each element of a sequence begins, header and all, and where it ends."""
    ends = [end for _, _, end in elements(inner, 0, len(inner))]
    return list(zip([0, *ends], ends, strict=False))


def _open(feed: bytes, data: Data) -> Item:
    parts = split_item(data.name)
    if parts is None or parts[0] != feed:
        raise RejectedItem("name", "not an item of the feed")
    item = parse_item(feed, parts[1], data)
    check_signature(feed, item)
    return item
