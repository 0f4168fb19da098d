"""Faces, as tables, strategies and management see them: settings and counters.

A face's link service (forwarder.links.link) and its socket (forwarder.faces) are elsewhere; a Face is the
record that they, the core and the management protocol share. Numbers are those of the NFD management
protocol.
"""

from enum import IntEnum
from typing import Any, Final

from forwarder.tables.pacing import Pacer

SPARE: Final = 16
"""Pending Interests that are over and that a face may still hold, beyond one for each that is not."""

INTERNAL_FACE = 1
"""The face of a node's own management."""

CONTENT_STORE_FACE = 254
"""IncomingFaceId of Data from the content store."""

NULL_FACE = 255
"""A face that never receives, and that drops all packets sent to it."""

FIRST_FACE = 256
"""First number of a face in a forwarder that others manage; lower ones are reserved."""


PACKET_COUNTERS = ("in_interests", "out_interests", "in_data", "out_data", "in_nacks", "out_nacks")
BYTE_COUNTERS = ("in_bytes", "out_bytes")
"""A Face's attributes that count."""


class Scope(IntEnum):
    """Whether a face leaves the machine."""

    NON_LOCAL = 0
    LOCAL = 1


class Persistency(IntEnum):
    """Persistency of a face (NFD FaceMgmt): closed by failure; by failure or idleness; by a command alone."""

    PERSISTENT = 0
    ON_DEMAND = 1
    PERMANENT = 2


class LinkType(IntEnum):
    """Receivers of a face: one; all of a group; some of a group, not always the same."""

    POINT_TO_POINT = 0
    MULTI_ACCESS = 1
    AD_HOC = 2


class Face:
    """One face.

    Attributes:
        number: its FaceId.
        uri, local_uri: FaceUri of the remote and of the local end.
        is_local: whether an application of this machine is behind it.
        link_type: see LinkType.
        persistency: see Persistency.
        mtu: largest frame that it takes, bytes; None if it takes any.
        expiry: when it will be closed unless something comes in, ns; None if never.
        is_up: whether its link works.
        is_proven: whether its neighbour is known to receive at its address, which may be spoofed.
        local_fields: whether NextHopFaceId and IncomingFaceId are enabled.
        is_reliable: whether lost frames are retransmitted (NDNLPv2 link reliability).
        is_marking: whether it marks congestion.
        marking_interval: NFD's BaseCongestionMarkingInterval, ns.
        marking_threshold: NFD's DefaultCongestionThreshold, bytes.
        pacer: of a link of known rate; else None.
        touches: PIT entries that have, or had, a record of it; forwarder.tables.pit.compact() bounds them by
            `most_touches`.
        in_interests ... out_nacks: network-layer packets.
        in_bytes, out_bytes: of the frames that carried them.
    """

    def __init__(
        self,
        number: int,
        *,
        local: bool = False,
        link_type: LinkType = LinkType.POINT_TO_POINT,
        pacer: Pacer | None = None,
    ) -> None:
        self.number = number
        self.is_local = local
        self.link_type = link_type
        self.pacer = pacer
        self.uri = "internal://"
        self.local_uri = "internal://"
        self.persistency = Persistency.PERMANENT
        self.mtu: int | None = None
        self.expiry: int | None = None
        self.is_up = True
        self.is_proven = True
        self.local_fields = False
        self.is_reliable = False
        self.is_marking = False
        self.touches: list[Any] = []
        self.most_touches = SPARE
        self.marking_interval = 100_000_000
        self.marking_threshold = 65_536
        self.in_interests = self.in_data = self.in_nacks = self.in_bytes = 0
        self.out_interests = self.out_data = self.out_nacks = self.out_bytes = 0

    @property
    def scope(self) -> Scope:
        """Whether it leaves the machine."""
        return Scope.LOCAL if self.is_local else Scope.NON_LOCAL
