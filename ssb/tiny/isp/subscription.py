"""A client's subscriptions and groups (`ssb.tiny.isp.client`), as records of the store."""

from dataclasses import dataclass, field
from typing import Final

WANTED: Final = "wanted"
INVITED: Final = "invited"
STANDS: Final = "stands"
ENDED: Final = "ended"
SPOILT: Final = "spoilt"
"""States of a subscription: requested here; requested by the other; feeds flow; the other has ended; the
other has named an unacceptable feed, so its entries are discarded until it ends.
"""

MOST_MEMBERS: Final = 16
"""Most members of a group."""


@dataclass
class Subscription:
    """A pair of feeds between two clients.

    Attributes:
        ref: the request's id.
        contract: the id of its contract.
        contact: the other client's root feed.
        state: see the constants.
        own, other: the feeds of both; None before and after their use.
        is_paused: whether the provider has paused the own feed.
        is_leaving: whether it ends after the entries already written.
        end_said: whether the end was sent.
        group: the id and the members of its group, if any.
        read: number of the last entry of the other's feed that the user has confirmed.
        receipted: number of the last entry in a receipt sent.
        receipt_at: time of the next receipt, ns; None if none is due.
        bundled: data feed, in hexadecimal -> the last own entry in it, until the provider has read that feed.
        taken: number of the last own entry acknowledged by the provider.
        arrived: number of the last own entry in a receipt received.
        overdue_at: when entries that are taken and have not arrived are overdue, ns; None without such.
        drop_at: when a leaving client drops the unsent entries, as their feed is paused, ns; or None.
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
    drop_at: int | None = None


@dataclass
class Group:
    """A group that this client is in.

    Attributes:
        id: the founder's feed in it.
        contract: the id of its contract.
        own: the feed that is written for all members.
        members: root feeds, the founder's first.
        pending: members without exchanged feeds; nothing is sent while there are any.
    """

    id: bytes
    contract: bytes
    own: bytes
    members: list[bytes]
    pending: list[bytes]

    @property
    def name(self) -> tuple[bytes, ...]:
        """Id and members, as in requests."""
        return (self.id, *self.members)
