"""Counters of a forwarder."""

from forwarder.tables.face import PACKET_COUNTERS, Face


class Counters:
    """Packets by kind and by outcome.

    All incoming packets count. Outgoing LLIs, items pushed under them, and their Nacks count in
    FeedTable.counters instead. The sums include removed faces.

    Attributes:
        in_interests ... out_nacks: of all faces; each Face has its own.
        cs_hits, cs_misses: Interests looked up in the content store.
        aggregated: Interests for which another face waited already.
        satisfied, expired: PIT entries.
        unsolicited: Data without a pending Interest.
        looped: Interests dropped as loops.
        hop_limit_reached, no_route, out_of_scope, pit_full: Interests not sent on for that reason.
        malformed: packets that cannot be parsed.
    """

    def __init__(self, faces: dict[int, Face]) -> None:
        self._faces = faces
        self._gone = dict.fromkeys(PACKET_COUNTERS, 0)  # of removed faces
        self.cs_hits = self.cs_misses = self.aggregated = self.satisfied = self.expired = 0
        self.unsolicited = self.looped = self.malformed = 0
        self.hop_limit_reached = self.no_route = self.out_of_scope = self.pit_full = 0

    def keep(self, face: Face) -> None:
        """Add the counters of a face that is being removed to the sums."""
        for name in PACKET_COUNTERS:
            self._gone[name] += getattr(face, name)

    def _sum(self, name: str) -> int:
        counts: list[int] = [getattr(face, name) for face in self._faces.values()]
        return self._gone[name] + sum(counts)

    @property
    def in_interests(self) -> int:
        """Interests received."""
        return self._sum("in_interests")

    @property
    def out_interests(self) -> int:
        """Interests sent."""
        return self._sum("out_interests")

    @property
    def in_data(self) -> int:
        """Data packets received."""
        return self._sum("in_data")

    @property
    def out_data(self) -> int:
        """Data packets sent."""
        return self._sum("out_data")

    @property
    def in_nacks(self) -> int:
        """Nacks received."""
        return self._sum("in_nacks")

    @property
    def out_nacks(self) -> int:
        """Nacks sent."""
        return self._sum("out_nacks")

    def as_dict(self) -> dict[str, int]:
        """Return all counters by name."""
        in_interests = out_interests = in_data = out_data = in_nacks = out_nacks = 0
        for face in self._faces.values():  # by names that are compiled: nodes are sampled often
            in_interests += face.in_interests
            out_interests += face.out_interests
            in_data += face.in_data
            out_data += face.out_data
            in_nacks += face.in_nacks
            out_nacks += face.out_nacks
        gone = self._gone
        return {
            "in_interests": in_interests + gone["in_interests"],
            "out_interests": out_interests + gone["out_interests"],
            "in_data": in_data + gone["in_data"],
            "out_data": out_data + gone["out_data"],
            "in_nacks": in_nacks + gone["in_nacks"],
            "out_nacks": out_nacks + gone["out_nacks"],
            "cs_hits": self.cs_hits,
            "cs_misses": self.cs_misses,
            "aggregated": self.aggregated,
            "satisfied": self.satisfied,
            "expired": self.expired,
            "unsolicited": self.unsolicited,
            "looped": self.looped,
            "hop_limit_reached": self.hop_limit_reached,
            "no_route": self.no_route,
            "out_of_scope": self.out_of_scope,
            "pit_full": self.pit_full,
            "malformed": self.malformed,
        }
