"""Terms of a contract: client and provider agree on them before it, by other ways (tinyISP, section 4.1)."""

from typing import Final, NamedTuple

from base.units import SECOND
from ssb.tiny.entry import CHUNK, PACKET


class Terms(NamedTuple):
    """Terms.

    Attributes:
        size: entries of a data feed, with the first and the last one, which lead to its neighbours.
        unread: data feeds that one side may have begun and the other has not read to the end; at least 2.
        term: ns for which the contract stands; None for as long as both want it.
        largest: bytes of content of a client-to-client entry.
        backlog: entries of a client-to-client feed that the provider holds for a slow client before it tells
            the sender to pause.
        subscriptions: that a client may have or have asked for at a time.
        patience: ns that an entry may lie in a line before what explains it comes; after that the other side
            has broken the contract. Also the time without a receipt after which entries are overdue.
        proofs: whether a client signs for the feed that he offers to another, and takes none that is not
            signed for. The prototypes do not.
        receipt: ns within which a client says how far he has read another's feed; None for never.
        linger: ns without a word of the other side after which the end of a contract is not repeated to it.
        pace: mean time between two commands that a provider reads from a client, ns. Answers and `fin`s that
            are due are free, as the provider has caused them.
        burst: commands that it reads at once. Others wait at the client, and are read later.
        line_pace: the same for packets of a client's line, of which the provider reads `size` at once. None
            for as fast as they come; then, on a shared medium, who sends most gets most.
    """

    size: int = 50
    unread: int = 3
    term: int | None = None
    largest: int = 1000
    backlog: int = 50
    subscriptions: int = 64
    linger: int = 600 * SECOND
    patience: int = 120 * SECOND
    proofs: bool = True
    receipt: int | None = None
    pace: int = SECOND // 10
    burst: int = 128
    line_pace: int | None = None

    def check(self) -> None:
        """Raise ValueError, naming the term, for terms under which no data would flow."""
        ones = dict.fromkeys(("largest", "backlog", "subscriptions", "pace", "burst"), 1)
        for name, least in ({"size": 3, "unread": 2} | ones).items():
            if getattr(self, name) < least:
                raise ValueError(f"{name}: {getattr(self, name)} is too small; at least {least}")
        if self.line_pace is not None and self.line_pace < 1:
            raise ValueError(f"line_pace: {self.line_pace} is too small; at least 1")
        if self.largest > MOST_TUNNELLED:
            raise ValueError(f"largest: {self.largest} is too large; at most {MOST_TUNNELLED}")

    @property
    def held(self) -> int:
        """Entries of a client-to-client feed that may wait at the provider: the backlog, and what was under
        way when the sender was told to pause."""
        return self.backlog + self.unread * self.size

    @property
    def inner_bytes(self) -> int:
        """Most bytes of a client-to-client entry with its side chain."""
        return PACKET * (1 + -(-self.largest // CHUNK))

    @property
    def outer_bytes(self) -> int:
        """Most bytes of the data feed's entry that has it, with its side chain."""
        return PACKET * (1 + -(-self.inner_bytes // CHUNK))

    def line_bytes(self) -> int:
        """Most bytes of the data feeds of one direction."""
        return self.unread * self.size * self.outer_bytes

    def bound(self, subscriptions: int) -> int:
        """Most bytes of packets that one side stores for a contract with so many subscriptions, beside its
        control feeds: both lines, and both feeds of each subscription."""
        return 2 * self.line_bytes() + 2 * subscriptions * self.held * self.inner_bytes


MOST_TUNNELLED: Final = 13_000
"""Largest content of an entry that fits into another with its side chain."""
