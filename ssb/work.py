"""Counts of operations that take a node's processor, for a cost model.

Protocols count where they verify, sign, hash and store. Whoever runs nodes one at a time in one process, as
the emulator does, may read the counts before and after a node's turn, and charge it for the difference.
"""

from typing import Final, NamedTuple

REMEMBERED: Final = 2048
"""Verified packets that a node remembers: its consumer verifies those that its forwarder has verified."""


class Operations(NamedTuple):
    """Numbers of operations.

    Attributes:
        verify: signatures that were verified.
        sign: signatures that were made.
        hash: messages that were hashed.
        store: messages that a peer has stored.
    """

    verify: int = 0
    sign: int = 0
    hash: int = 0
    store: int = 0


class Work:
    """The operations of this process so far.

    Attributes:
        verify, sign, hash, store: see Operations.
        known: packets that the node in turn has verified; None if nobody counts by node.
    """

    __slots__ = ("hash", "known", "sign", "store", "verify")

    def __init__(self) -> None:
        self.verify = self.sign = self.hash = self.store = 0
        self.known: dict[bytes, None] | None = None

    def done(self) -> Operations:
        """Return the operations so far."""
        return Operations(self.verify, self.sign, self.hash, self.store)

    def met(self, packet: bytes, *, verifies: bool) -> None:
        """Count an item as hashed, and as verified if it `verifies`, unless its node has done so before.

        Nodes of one process share the memory of verified items, which real ones do not.
        """
        known = self.known
        if known is None or packet in known:
            return
        self.hash += 1
        self.verify += verifies
        known[packet] = None
        if len(known) > REMEMBERED:
            del known[next(iter(known))]


WORK: Final = Work()
"""Of this process."""
