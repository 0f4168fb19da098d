"""Data: verified and pushed on as items of feeds, cached, and sent to downstreams."""

from typing import Final

from base.units import MS
from forwarder.lli.table import Verdict
from forwarder.pipelines.egress import Egress
from forwarder.pipelines.tables import FEEDS_FACE, LOCALHOST, Tables
from forwarder.strategies.strategy import Strategy
from forwarder.tables.dead_nonces import LIFETIME as NONCE_LIFETIME
from forwarder.tables.face import Face, LinkType
from forwarder.tables.pit import PitEntry, Tags
from forwarder.wire.lp import LpPacket
from forwarder.wire.name import prefix_ends
from forwarder.wire.packet import Data, parse_data

_FOREIGN, _FORGED = Verdict.FOREIGN, Verdict.FORGED  # an Enum's members cost a look-up each time
_ADMITTING: Final = (
    {"admit-network", "admit-all"},
    {"admit-local", "admit-all"},
)  # by whether the face is local


class DataPipeline:
    """Data in, and Data out."""

    def __init__(self, tables: Tables, egress: Egress) -> None:
        self.tables = tables
        self.egress = egress
        self._feeds = tables.feeds

    def receive(self, face: Face, packet: bytes, header: LpPacket | None, now: int) -> None:
        """Process Data that came in on a face; raise MalformedPacket if they are none."""
        tables = self.tables
        data = parse_data(packet)
        number = face.number
        if data.name.startswith(LOCALHOST) and not face.is_local:
            prefix_ends(data.name)
            face.in_data += 1
            tables.counters.out_of_scope += 1
            return
        feeds = self._feeds
        verdict = (
            feeds.on_data(number, data, header, now) if feeds is not None and len(feeds.store) else _FOREIGN
        )
        entries = tables.pit.match(data) if verdict is not _FORGED else []
        if entries and not self._is_accepted(entries, number, data, now):
            face.in_data += 1
            return
        may_keep = header is None or header.cache_policy is None
        if not entries:
            prefix_ends(data.name)  # any other is the name of an entry, or of data for one
            face.in_data += 1
            if verdict is _FOREIGN:
                tables.counters.unsolicited += 1
                if may_keep and tables.unsolicited in _ADMITTING[face.is_local]:
                    tables.cs.insert(data, now, is_unsolicited=True)
            return
        face.in_data += 1
        face.is_proven = face.is_proven or any(entry.out_record(number) for entry in entries)
        is_lasting = may_keep and tables.cs.is_lasting
        if may_keep:
            tables.cs.insert(data, now)
        if header is not None and header.announcement is not None:
            for entry in entries:
                entry.tags = Tags(announcement=header.announcement)
        waiting = self._satisfy(entries, face, data, is_lasting, now)
        mark = header.congestion_mark if header is not None else 0
        if len(waiting) > 1:  # a face gets it once, unless its Interests differ in their tokens
            waiting = [*dict.fromkeys(waiting)]
        for out, token, announcement in waiting:
            if out != FEEDS_FACE:  # they have seen it come in
                self.egress.send_data(tables.faces[out], packet, token, now, mark, number, announcement)

    def _is_accepted(self, entries: list[PitEntry], face: int, data: Data, now: int) -> bool:
        """Return whether no strategy refuses Data that would answer the Interests of some entries."""
        for entry in entries:
            strategy: Strategy = entry.strategy
            if strategy.JUDGES_DATA and not strategy.accepts(entry, face, data, now):
                return False
        return True

    def _satisfy(
        self, entries: list[PitEntry], face: Face, data: Data, is_lasting: bool, now: int
    ) -> list[tuple[int, bytes | None, bytes | None]]:
        """End entries that Data answer; return the face, PIT token and announcement of each downstream.

        `is_lasting`: the content store will have the Data as long as copies of the Interests may come back.
        """
        tables, number = self.tables, face.number
        from_network = not face.is_local
        waiting: list[tuple[int, bytes | None, bytes | None]] = []
        for entry in entries:
            is_waiting = bool(entry.in_records)
            if is_waiting:
                tables.counters.satisfied += 1
            strategy: Strategy = entry.strategy
            stay = strategy.after_data(entry, number, data, now) if strategy.HEARS_DATA else 0
            announcement = None if entry.tags is None else entry.tags.announcement
            is_new = entry.passed is None or entry.note_passing(data.name)
            for record in entry.in_records:
                is_back = record.face == number and face.link_type is not LinkType.AD_HOC
                if record.expiry > now and not is_back and (is_new or not record.persistent):
                    waiting.append((record.face, record.token, announcement))
            if entry.passed is not None and entry.keep_persistent(now):
                tables.pit.weigh(entry)
                continue
            tables.pit_satisfied += is_waiting and from_network
            if not is_lasting or (entry.key[2] and data.freshness_ms * MS < NONCE_LIFETIME):
                # Its Data may be gone or stale when a copy comes back, which nothing else would reveal.
                tables.bury(entry, now)
            if stay <= 0:
                tables.pit.remove(entry)
                continue
            entry.in_records = []
            entry.drop_out_record(number)
            tables.pit.weigh(entry)
            tables.pit.expire_at(entry, now + stay)
        return waiting
