"""Feeds of both formats with branches, as an author could have signed them, and an obvious model of forks."""

from collections.abc import Callable, Iterable
from random import Random

from forwarder.feedcache.items import Item, open_item
from forwarder.wire.feed import feed_name, item_name, native_content, ssb_content
from forwarder.wire.name import from_uri
from forwarder.wire.packet import ED25519, Data, make_data, parse_data
from ssb.generate import generate_feed
from ssb.keys import Identity
from ssb.message import Message

WRITER = Identity.from_seed(b"w" * 32)
STRANGER = Identity.from_seed(b"s" * 32)
NATIVE = feed_name(from_uri("/unibas/camera"), WRITER.public_key)
CLASSIC = feed_name(from_uri("/ssb/logs"), WRITER.public_key)


def native_packet(seq: int, backlink: bytes, payload: bytes = b"frame", writer: Identity = WRITER) -> Data:
    content = native_content(backlink, payload)
    return parse_data(make_data(item_name(NATIVE, seq), content, signature_type=ED25519, sign=writer.sign))


def native(seq: int, backlink: bytes, payload: bytes = b"frame") -> Item:
    return open_item(NATIVE, seq, native_packet(seq, backlink, payload))


def classic(message: Message) -> Item:
    packet = make_data(item_name(CLASSIC, message.sequence), ssb_content(message.encoded))
    return open_item(CLASSIC, message.sequence, parse_data(packet))


def native_branch(stem: Iterable[Item], items: int, mark: bytes) -> list[Item]:
    """`items` more items after those of a stem, their payloads told apart by `mark`."""
    branch = list(stem)
    for _ in range(items):
        link = branch[-1].id if branch else b""
        branch.append(native(len(branch) + 1, link, mark + bytes((len(branch),))))
    return branch


class Tree:
    """A feed and its branches: a trunk of `trunk` items, and more that leave it after some item.

    Args:
        make: makes the items after a stem: make(stem, items, branch's number).
        leaves: of each branch, (number of the branch that it leaves, after which item, how many items).
    """

    def __init__(
        self,
        make: Callable[[list[Item], int, int], list[Item]],
        trunk: int,
        leaves: Iterable[tuple[int, int, int]] = (),
    ) -> None:
        self.branches = [make([], trunk, 0)]
        for number, (parent, after, items) in enumerate(leaves, 1):
            stem = self.branches[parent % len(self.branches)]
            self.branches.append(make(stem[: after % (len(stem) + 1)], items, number))

    def items(self) -> list[Item]:
        """All items of all branches, each once."""
        return list({item.id: item for branch in self.branches for item in branch}.values())


def make_native(stem: list[Item], items: int, branch: int) -> list[Item]:
    return native_branch(stem, items, b"%d" % branch)


_MESSAGES: dict[bytes, Message] = {}


def make_classic(stem: list[Item], items: int, branch: int) -> list[Item]:
    tip = _MESSAGES[stem[-1].id] if stem else None
    made = list(stem)
    for message in generate_feed(Random(branch), items, WRITER, tip):
        item = classic(message)
        _MESSAGES[item.id] = message
        made.append(item)
    return made


def forked_at(items: Iterable[Item]) -> int | None:
    """The model: the lowest number for which the author has asserted two ids."""
    asserted: dict[int, set[bytes]] = {}
    for item in items:
        asserted.setdefault(item.seq, set()).add(item.id)
        if item.previous is not None:
            asserted.setdefault(item.seq - 1, set()).add(item.previous)
    return min((seq for seq, ids in asserted.items() if len(ids) > 1), default=None)
