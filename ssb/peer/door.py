"""Whom a peer lets in, and whom only as a guest: one that holds an invite and may do nothing but use it.

Stock peers call it pub onboarding (npm's ssb-invite): a guest calls with the key pair of the invite and
asks the peer to follow the feed that it names, by `invite.use`.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from ssb.canonical import Value


class InvalidInvite(ValueError):
    """An invite is not used as it should be, or is used up; the message says why."""


class Door(Protocol):
    """Decides about those who call; peers are named by their references."""

    def admits(self, peer: str) -> bool:
        """Whether a peer may connect."""
        ...

    def knows(self, peer: str) -> bool:
        """Whether a peer is none of the strangers, who have but half of the places."""
        ...

    def is_guest(self, peer: str) -> bool:
        """Whether a peer is the key pair of an invite."""
        ...

    def use_invite(self, peer: str, arguments: Sequence[Value]) -> Value:
        """Use an invite and return the message that follows the guest; raise InvalidInvite."""
        ...


class _OpenDoor:
    """Lets everybody in, knows all, and has given no invites."""

    def admits(self, peer: str) -> bool:
        return True

    def knows(self, peer: str) -> bool:
        return True

    def is_guest(self, peer: str) -> bool:
        return False

    def use_invite(self, peer: str, arguments: Sequence[Value]) -> Value:
        raise InvalidInvite("this peer gives no invites")


OPEN_DOOR: Final[Door] = _OpenDoor()
