"""Nacks: an upstream refuses an Interest; once all have, its downstreams are refused."""

import sys
from collections.abc import Iterable

from base.units import MS
from forwarder.pipelines.egress import Egress
from forwarder.pipelines.next_hops import NextHops
from forwarder.pipelines.tables import FEEDS_FACE, SCOPED, Tables
from forwarder.strategies.strategy import Strategy
from forwarder.tables.face import Face, LinkType
from forwarder.tables.pit import OutRecord, PitEntry
from forwarder.wire.name import prefix_ends
from forwarder.wire.packet import MOST_LIFETIME_MS, parse_interest


class NackPipeline:
    """Nacks in, and Nacks out."""

    def __init__(self, tables: Tables, egress: Egress, next_hops: NextHops) -> None:
        self.tables = tables
        self.egress = egress
        self.next_hops = next_hops
        self._feeds = tables.feeds

    def receive(self, face: Face, packet: bytes, reason: int, now: int) -> None:
        """Process the Interest of a Nack that came in on a face; raise MalformedPacket if it is none."""
        interest = parse_interest(packet)
        ends = prefix_ends(interest.name)
        face.in_nacks += 1
        if face.link_type is not LinkType.POINT_TO_POINT:
            return  # who else has heard the Interest may still answer it
        if self._feeds is not None and interest.send_credit is not None:
            self._feeds.on_nack(face.number, interest, reason, now)
            return
        entry = self.tables.pit.find(interest)
        record = None if entry is None else entry.out_record(face.number)
        if entry is None or record is None or record.nonce != interest.nonce:
            return
        record.nacked = reason
        strategy: Strategy = entry.strategy
        if not entry.in_records:
            strategy.after_nack(entry, face.number, reason, (), now)
            return
        newest = entry.in_records[-1]
        asking = parse_interest(newest.wire)
        origin = self.tables.faces.get(newest.face, face)
        routed = self.tables.fib.lookup(asking.name, ends)
        hops = self.next_hops.allowed(entry, origin, asking, routed, asking.name.startswith(SCOPED))
        expiry = now + min(asking.lifetime_ms, MOST_LIFETIME_MS) * MS
        others = strategy.after_nack(entry, face.number, reason, hops, now)
        if others is None:
            return
        for out in others:
            self.egress.send_interest(entry, asking, newest.nonce, out, expiry, now)
        self.tables.pit.weigh(entry)
        if all(record.nacked is not None for record in entry.out_records):
            self.refuse(entry, _least_severe(entry.out_records), now)

    def refuse(self, entry: PitEntry, reason: int, now: int) -> None:
        """Remove an entry, and send a Nack to each face that waits for it."""
        self.tables.pit.remove(entry)
        self.tables.bury(entry, now)
        for waiting in entry.in_records:
            if waiting.expiry <= now:
                continue  # it has ended; another's has kept the entry
            if waiting.face == FEEDS_FACE and self._feeds is not None:
                self._feeds.on_fetch_nack(entry.key[0], now)
            else:
                face = self.tables.faces[waiting.face]
                self.egress.send_nack(face, waiting.wire, reason, waiting.token)


def _least_severe(records: Iterable[OutRecord]) -> int:
    """Return the least severe reason, in the order Congestion, Duplicate, NoRoute, none at all."""
    return min((record.nacked or 0 for record in records), key=lambda reason: reason or sys.maxsize)
