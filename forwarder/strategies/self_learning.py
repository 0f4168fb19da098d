"""self-learning: find a producer by flooding, and remember the way (NFD's strategy of that name).

Theory of operation. An Interest for which there are no next hops is a *discovery* Interest: it goes to all
neighbours. Whoever has next hops sends it to all of these, marked NonDiscovery: it is not flooded any more,
and where the way ends it is refused. The node of a producer that has announced its prefix attaches the
announcement, a signed Data packet, to the Data that answer a discovery Interest. Each node on the way
back makes a route of it, to where the Data came from, and passes it on. The next Interest has next hops.

A route is forgotten by its announcement's own lifetime, or when its next hop refuses with NoRoute; the
consumer's repetition is then flooded again. Repetitions are held back as multicast's are; NFD floods each.
A discovery Interest that reaches a node without other neighbours is refused there, so that a search in vain
ends before the Interest's lifetime does.

The routing table manages announcements: see forwarder.strategies.strategy.Node.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from forwarder.strategies.strategy import Node, Strategy
from forwarder.strategies.suppression import PARAMETERS, Suppression
from forwarder.tables.fib import NextHop
from forwarder.tables.pit import PitEntry, Tags
from forwarder.wire.lp import NO_ROUTE
from forwarder.wire.packet import Data


@dataclass(slots=True)
class _Notes:
    """Of a pending Interest: whether a neighbour wants to learn the way, and where it was flooded to."""

    is_wanted: bool = False
    flooded: set[int] = field(default_factory=set)
    intervals: dict[int, int] = field(default_factory=dict)  # of suppression


class SelfLearning(Strategy):
    """Floods where no route is known, and makes routes of the announcements that come back."""

    NAME = "self-learning"
    VERSION = 1

    def __init__(self, node: Node, parameters: Mapping[str, str]) -> None:
        super().__init__(node, parameters)
        self._suppression = Suppression(PARAMETERS)

    def after_interest(
        self, entry: PitEntry, face: int, hops: Sequence[NextHop], now: int
    ) -> Sequence[int] | None:
        if entry.notes is None:
            entry.notes = _Notes()
        notes: _Notes = entry.notes
        is_discovery = entry.tags is None or not entry.tags.non_discovery
        if is_discovery and not self.node.faces[face].is_local:
            notes.is_wanted = True
        faces = [hop.face for hop in hops]
        if hops:
            entry.tags = Tags(non_discovery=True)
        elif is_discovery:
            faces = self.node.neighbours(entry, face)
        if not faces:
            return () if entry.is_pending(now) else None
        faces = [out for out in faces if self._suppression.allows(entry, out, notes.intervals, now)]
        if hops:
            notes.flooded.difference_update(faces)
        else:
            notes.flooded.update(faces)
        return faces

    def after_data(self, entry: PitEntry, face: int, data: Data, now: int) -> int:
        notes: _Notes | None = entry.notes
        if notes is None or entry.out_record(face) is None:
            return 0
        if face in notes.flooded:
            if entry.tags is not None and entry.tags.announcement is not None:
                self.node.announce(face, entry.tags.announcement, now)
        elif notes.is_wanted:
            entry.tags = Tags(announcement=self.node.find_announcement(data.name, now))
        return 0

    def after_nack(
        self, entry: PitEntry, face: int, reason: int, hops: Sequence[NextHop], now: int
    ) -> Sequence[int]:
        notes: _Notes | None = entry.notes
        if reason == NO_ROUTE and notes is not None and face not in notes.flooded:
            self.node.withdraw(face, entry.name, now)
        return ()
