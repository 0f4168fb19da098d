"""A subscription and a group as a client keeps them (`ssb.tiny.isp.client`), as records of the store."""

from dataclasses import dataclass, field
from typing import Final

WANTED: Final = "wanted"
INVITED: Final = "invited"
STANDS: Final = "stands"
ENDED: Final = "ended"
SPOILT: Final = "spoilt"
"""States of a subscription: asked for here; asked for by the other; feeds flow; the other sends no more; the
other has named a feed that cannot be taken, so what comes is thrown away until it ends."""

MOST_MEMBERS: Final = 16
"""Of a group."""


@dataclass
class Subscription:
    """A pair of feeds between two clients.

    Attributes:
        ref: the request's id.
        contract: the id of the contract that it belongs to.
        contact: the other client's root feed.
        state: see the constants.
        own, other: the feeds of both; None if there is none yet, or no more.
        is_paused: whether the provider holds enough.
        is_leaving: whether nothing more is to be sent here, but what is waiting.
        end_said: whether the end was sent.
        group: the id and the members of the group that it belongs to; None if it belongs to none.
        read: of how many entries of the other's feed the user has said that he has read them.
        receipted: of how many of these the other was told.
        receipt_at: when the other is told next, ns; None if there is nothing to tell.
        bundled: data feed, in hexadecimal -> the last own entry in it, until the provider has read that feed.
        taken: how many own entries the provider is known to have.
        arrived: of how many the other has said that he has read them.
        overdue_at: when entries that are taken and have not arrived are overdue, ns; None if there are none.
    """

    ref: bytes
    contract: bytes
    contact: bytes
    state: str
    own: bytes | None = None
    other: bytes | None = None
    is_paused: bool = False
    is_leaving: bool = False
    end_said: bool = False
    group: list[bytes] | None = None
    read: int = 0
    receipted: int = 0
    receipt_at: int | None = None
    bundled: dict[str, int] = field(default_factory=dict)
    taken: int = 0
    arrived: int = 0
    overdue_at: int | None = None


@dataclass
class Group:
    """A group that this client is in.

    Attributes:
        id: the founder's feed in it.
        contract: the id of the contract that it belongs to.
        own: the feed that is written for all members.
        members: root feeds, the founder's first.
        pending: members with whom feeds were not exchanged yet; nothing is sent before there are none.
    """

    id: bytes
    contract: bytes
    own: bytes
    members: list[bytes]
    pending: list[bytes]

    @property
    def name(self) -> tuple[bytes, ...]:
        """Its id and members, as requests carry them."""
        return (self.id, *self.members)
