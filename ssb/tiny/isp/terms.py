"""Terms of a contract, agreed on in advance, outside the protocol (tinyISP, section 4.1)."""

from typing import Final, NamedTuple

from base.units import SECOND
from ssb.tiny.entry import CHUNK, PACKET


class Terms(NamedTuple):
    """Terms.

    Attributes:
        size: entries of a data feed, including the first and the last one, which link its neighbours.
        unread: data feeds begun by one side and not read to the end by the other; at least 2.
        term: duration of the contract, ns; None for no limit.
        largest: bytes of content of a client-to-client entry.
        backlog: entries of a client-to-client feed that the provider holds for a slow client before it
            pauses the sender.
        subscriptions: of a client at a time, requested ones included.
        patience: ns that an unexplained entry may stay in a line; after that the other side has broken
            the contract. Also the time without a receipt after which entries are overdue, and the time that a
            farewell waits for a receiver that takes nothing.
        proofs: whether a client signs for the feed that it offers to another, and accepts none without
            signature. The prototypes do not.
        receipt: longest delay of a receipt for another's feed, ns; None for no receipts.
        linger: ns of the other side's silence after which the end of a contract is not repeated to it.
        pace: mean time between two commands that a provider reads from a client, ns. Answers and `fin`s
            that are due are free, as the provider has caused them.
        burst: commands that it reads at once. Others wait at the client, and are read later.
        line_pace: the same for packets of a client's line, of which the provider reads `size` at once.
            None for no limit; then, on a shared medium, the busiest sender gets most.
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
        """Entries of a client-to-client feed that may wait at the provider: the backlog, and those in transit
        when the sender is paused."""
        return self.backlog + self.unread * self.size

    @property
    def under_way(self) -> int:
        """Most entries of a client-to-client feed at the provider, in a line and at the receiver."""
        return 2 * self.held + self.unread * self.size

    @property
    def inner_bytes(self) -> int:
        """Most bytes of a client-to-client entry with its side chain."""
        return PACKET * (1 + -(-self.largest // CHUNK))

    @property
    def outer_bytes(self) -> int:
        """Most bytes of the data feed's entry around it, with its side chain."""
        return PACKET * (1 + -(-self.inner_bytes // CHUNK))

    def line_bytes(self) -> int:
        """Most bytes of the data feeds of one direction."""
        return self.unread * self.size * self.outer_bytes

    def bound(self, subscriptions: int) -> int:
        """Most bytes of packets that one side stores for a standing contract with `subscriptions` of them,
        without its control feeds: both lines, and both feeds of each subscription.
        """
        return 2 * self.line_bytes() + 2 * subscriptions * self.held * self.inner_bytes


MOST_TUNNELLED: Final = 13_000
"""Largest content of an entry that fits into another with its side chain."""
