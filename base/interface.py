"""Network interfaces of a node in a topology: an end of a link, or an attachment to a medium."""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Interface:
    """An attachment of a node to a link or a medium."""

    PREFIX_LENGTH: ClassVar[int]

    name: str
    node: str
    mac: bytes
    ipv4: str


@dataclass(frozen=True)
class LinkEnd(Interface):
    """One end of a link. `link` is the link's index in Topology.links; the peer is its other end."""

    PREFIX_LENGTH = 30

    link: int
    peer: str
    peer_name: str
    peer_mac: bytes
    peer_ipv4: str


@dataclass(frozen=True)
class Attachment(Interface):
    """A member's interface to a medium. `medium` is the medium's index in Topology.media."""

    PREFIX_LENGTH = 24

    medium: int
