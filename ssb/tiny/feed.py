"""State of a feed in a store, and views of its entries."""

from dataclasses import dataclass, field
from typing import NamedTuple

from ssb.keys import Identity
from ssb.tiny.entry import Entry, entry_demultiplexer

FINE, FORKED, BROKEN, ENDED = range(4)
"""Conditions of a feed: it goes on; its author has signed two entries for one place; an entry's side chain
cannot be completed; its last entry says that it has ended (`ssb.ending`), and is whole. The latter three take
no more entries."""


class ForkedFeed(ValueError):
    """An author signed two entries with one sequence number; both packets prove it."""

    def __init__(self, feed: bytes, proof: tuple[bytes, bytes]) -> None:
        super().__init__("two entries for one place")
        self.feed = feed
        self.proof = proof


class Whole(NamedTuple):
    """An entry with its content.

    Attributes:
        sequence: its place in the feed, from 1.
        id: 20 bytes.
        content: of any length.
    """

    sequence: int
    id: bytes
    content: bytes


@dataclass
class Waiting:
    """An entry that lacks chunks: `held` are present, `pointer` is that of the next one."""

    entry: Entry
    held: int
    pointer: bytes


@dataclass
class Feed:
    """State of a feed in a store; read-only.

    Attributes:
        key: 32 bytes.
        sequence, tip: number and id of the last entry; 0 and a placeholder for the id, if there is none.
        whole: the last number up to which all entries are whole.
        base: the last number up to which all entries are pruned.
        mark: the last number that the program above has processed; the program sets it.
        identity: of the author, if the feed is local.
        condition: FINE, FORKED, BROKEN or ENDED.
        waiting: entries that lack chunks, by their numbers.
        expected: the demultiplexer of the next entry.
    """

    row: int
    key: bytes
    sequence: int
    tip: bytes
    whole: int
    base: int
    mark: int
    identity: Identity | None
    condition: int = FINE
    waiting: dict[int, Waiting] = field(default_factory=dict)
    expected: bytes = field(init=False)

    def __post_init__(self) -> None:
        self.extend(self.sequence, self.tip)

    def extend(self, sequence: int, tip: bytes) -> None:
        """Set number and id of the last entry."""
        self.sequence, self.tip = sequence, tip
        self.expected = entry_demultiplexer(self.key, sequence + 1, tip)
