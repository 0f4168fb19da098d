"""Eligible next hops of an Interest: by its forwarding hint, never back, never out of its scope."""

from collections.abc import Sequence

from forwarder.pipelines.tables import FEEDS_FACE, LOCALHOP, SCOPED, Tables
from forwarder.tables.face import Face, LinkType
from forwarder.tables.fib import NextHop
from forwarder.tables.pit import PitEntry
from forwarder.wire.packet import Interest


class NextHops:
    """The next hops of Interests."""

    def __init__(self, tables: Tables) -> None:
        self._faces = tables.faces
        self._fib = tables.fib

    def allowed(
        self, entry: PitEntry, face: Face, interest: Interest, hops: Sequence[NextHop], is_scoped: bool
    ) -> Sequence[NextHop]:
        """Return the allowed ones of the next hops of its hint or, if that has no routes, of `hops`."""
        for delegation in interest.forwarding_hint:
            hops = self._fib.lookup(delegation)
            if hops:
                break
        for hop in hops:
            if hop.face == face.number or is_scoped:
                return [hop for hop in hops if self._is_allowed_out(entry, face, hop.face, interest.name)]
        return hops

    def neighbours(self, entry: PitEntry, face: int) -> list[int]:
        """Return the faces to the network that an Interest may be flooded to; see strategy.Node."""
        origin = self._faces[face]
        others = [out for out in self._faces.values() if out.is_up and not out.is_local]
        return [out.number for out in others if self._is_allowed_out(entry, origin, out.number, entry.name)]

    def _is_allowed_out(self, entry: PitEntry, face: Face, out: int, name: bytes) -> bool:
        """Return whether an Interest from a face may leave by another: not back, and not out of its scope."""
        if out == face.number and face.link_type is not LinkType.AD_HOC:
            return False
        if self._faces[out].is_local or not name.startswith(SCOPED):
            return True
        # /localhop: one hop from an application, and no further (NFD developer guide, section 4.2.2).
        newest = entry.in_records[-1].face
        return name.startswith(LOCALHOP) and (newest == FEEDS_FACE or self._faces[newest].is_local)
