"""Creating and closing faces: the interface between the management protocol and the owner of sockets.

The protocol (forwarder.management) is sans-IO and knows faces only as records; forwarder.faces implements
FaceSystem over sockets, and the tests implement it over nothing. Codes and numbers are those of the NFD
management protocol, FaceMgmt.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, Protocol

from forwarder.tables.face import Face, Persistency


class FaceEvent(IntEnum):
    """Events of faces (FaceEventKind)."""

    CREATED = 1
    DESTROYED = 2
    UP = 3
    DOWN = 4


LOCAL_FIELDS = 1
RELIABILITY = 2
CONGESTION_MARKING = 4
"""Bits of Flags and Mask: NextHopFaceId, IncomingFaceId and CachePolicy; link reliability; marking."""


@dataclass(frozen=True)
class FaceParameters:
    """Parameters of a face in a command; None if absent.

    Attributes:
        uri, local_uri: FaceUris, not necessarily canonical.
        persistency: see forwarder.tables.face.Persistency.
        mtu: bytes.
        marking_interval: ns.
        marking_threshold: bytes.
        flags, mask: bits to set, and which of them apply; both or neither.
    """

    uri: str | None = None
    local_uri: str | None = None
    persistency: Persistency | None = None
    mtu: int | None = None
    marking_interval: int | None = None
    marking_threshold: int | None = None
    flags: int | None = None
    mask: int | None = None


class Outcome(NamedTuple):
    """Result of a command.

    Attributes:
        code: 200, or an error's StatusCode: 400 not a canonical URI, 404 no such face, 406 unsupported
            scheme or combination, 409 a face to there exists or parameters conflict, 504.
        text: for people.
        face: the face, also of a 409 if it exists; None if there is none.
        rejected: of a 409 from update: the parameters that could not be had, as they were asked for.
    """

    code: int
    text: str
    face: Face | None = None
    rejected: FaceParameters | None = None


class FaceSystem(Protocol):
    """The faces of a node to applications and neighbours."""

    def create(self, wanted: FaceParameters, now: int, reply: Callable[[Outcome], None]) -> None:
        """Make a face, at `now` (ns), and call `reply`, at once or when a connection stands or has failed."""
        ...

    def update(self, face: int, wanted: FaceParameters, now: int) -> Outcome:
        """Change a face; nothing is changed unless everything can be."""
        ...

    def destroy(self, face: int, now: int) -> None:
        """Close a face; no effect if there is none of that number."""
        ...

    def channels(self) -> list[str]:
        """Return the local FaceUris at which faces come about by themselves."""
        ...

    def listen(self, listener: Callable[[FaceEvent, Face, int], None]) -> None:
        """Call `listener` with (event, face, now) for everything that happens to any face from now on."""
        ...
