"""Access control: peers that may connect, and guests, who may only use their invite.

npm's ssb-invite: a guest connects with the key pair of the invite and calls `invite.use` to request that the
peer follows a feed.
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from ssb.canonical import Value

USE_INVITE: Final = ("invite", "use")
"""The call of a guest."""


class InvalidInvite(ValueError):
    """An invite is used up or used wrongly; the message has the reason."""


class AccessPolicy(Protocol):
    """Decides about peers that connect; they are identified by their references."""

    def admits(self, peer: str) -> bool:
        """Whether a peer may connect."""
        ...

    def knows(self, peer: str) -> bool:
        """Whether a peer is known; unknown peers share half of the connections."""
        ...

    def meets(self, peer: str) -> bool:
        """Whether to connect with a peer through a room, whichever of both begins."""
        ...

    def is_guest(self, peer: str) -> bool:
        """Whether a peer is the key pair of an invite, even of one that is used up."""
        ...

    def use_invite(self, peer: str, arguments: Sequence[Value]) -> Value:
        """Use an invite and return the message that follows the guest; raise InvalidInvite."""
        ...


class OpenAccess:
    """The AccessPolicy that admits and knows every peer, and has no invites.

    Args:
        meets: whether to connect with a peer through a room.
    """

    def __init__(self, meets: Callable[[str], bool] = lambda _: True) -> None:
        self._meets = meets

    def admits(self, peer: str) -> bool:
        return True

    def knows(self, peer: str) -> bool:
        return True

    def meets(self, peer: str) -> bool:
        return self._meets(peer)

    def is_guest(self, peer: str) -> bool:
        return False

    def use_invite(self, peer: str, arguments: Sequence[Value]) -> Value:
        raise InvalidInvite("this peer gives no invites")


OPEN_ACCESS: Final[AccessPolicy] = OpenAccess()
