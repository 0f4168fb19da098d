"""The forwarding core: what an NDN node does with Interest, Data and Nack (NFD developer guide, section 4).

Theory of operation. `receive(face, packet, now)` runs one packet through the pipelines and leaves what is
to be sent in `take_outputs()`; `next_deadline()` and `wake(now)` drive expiry. There is no socket, no
clock and no randomness but the generator that is passed in, so the same object runs in the emulator and
in real processes. A malformed packet is counted and dropped, and has changed nothing else.

Interest -> HopLimit, feed cache, loop, content store -> PIT -> strategy -> faces.
Data     -> feeds (verified, pushed on) -> PIT -> content store, faces.
Nack     -> PIT -> downstream once every upstream has refused.
An Interest with SendCredit is the feeds' business (forwarder.lli) and makes no PIT entry here.
"""

from dataclasses import dataclass
from random import Random
from typing import Final

from forwarder.content_store import ContentStore
from forwarder.feedcache.cache import FeedStore
from forwarder.fib import Fib
from forwarder.lli.entry import FeedEntry
from forwarder.lli.table import RANGE_BYTES, FeedTable, Verdict
from forwarder.lli.upstream import Recovery
from forwarder.pacing import Pacer
from forwarder.pit import RECORD_BYTES, InRecord, OutRecord, Pit, PitEntry
from forwarder.strategy import BestRoute, Strategy, StrategyChoice
from forwarder.wire.feed import item_name
from forwarder.wire.lp import DUPLICATE, NO_ROUTE, LpPacket, make_lp, parse_lp
from forwarder.wire.name import prefix_ends
from forwarder.wire.packet import (
    DATA,
    INTEREST,
    SENT_HOP_LIMIT,
    make_interest,
    parse_data,
    parse_interest,
)
from forwarder.wire.persistent import is_persistent
from forwarder.wire.tlv import MalformedPacket

MS: Final = 1_000_000

_FEEDS: Final = 0
"""The face of the feeds of this node, which have no other way to wait for an answer; others count from 1."""
_FETCH_MS: Final = 4000
_CLASSIC: Final = b"classic"  # all answers to classic Interests share a link as one stream


@dataclass(slots=True)
class Counters:
    """Packets, counted where they happen.

    All packets that come in count here; of those that go out, LLIs, items pushed under them, and their
    Nacks count in FeedTable.counters instead.
    """

    in_interests: int = 0
    out_interests: int = 0
    in_data: int = 0
    out_data: int = 0
    in_nacks: int = 0
    out_nacks: int = 0
    cs_hits: int = 0
    cs_misses: int = 0
    satisfied: int = 0
    expired: int = 0
    unsolicited: int = 0
    looped: int = 0
    hop_limit_reached: int = 0
    no_route: int = 0
    malformed: int = 0


class Forwarder:
    """One NDN node.

    Args:
        rng: source of nonces and every other random choice.
        strategy: where Interests go; best-route if None. For names of one's choice another one can be set in
            the attribute `strategies`.
        cs_capacity: Data packets that the content store holds at most.
        controlled_push: False makes this a forwarder that has never heard of LLIs.
        feed_store: bounds of the verified feed cache.
        recovery: who repairs a gap in a feed, see forwarder.lli.upstream.Recovery.
        persistent: True makes this a forwarder that knows persistent Interests (forwarder.wire.persistent).

    Faces are small integers above 0 that the caller chooses; every face must be added before use.
    """

    def __init__(
        self,
        *,
        rng: Random,
        strategy: Strategy | None = None,
        cs_capacity: int = 65536,
        controlled_push: bool = True,
        feed_store: FeedStore | None = None,
        recovery: Recovery = Recovery.IN_NETWORK,
        persistent: bool = False,
    ) -> None:
        self.fib = Fib()
        self.pit = Pit()
        self.cs = ContentStore(cs_capacity)
        self.counters = Counters()
        self._outputs: list[tuple[int, bytes]] = []
        self._pacers: dict[int, Pacer] = {}
        self._now = 0
        self.feeds = (
            FeedTable(
                self.fib,
                self._send,
                self._fetch,
                self._is_asked,
                self._is_local,
                rng,
                self._pacers,
                feed_store,
                recovery,
            )
            if controlled_push
            else None
        )
        self.strategies = StrategyChoice(strategy or BestRoute())
        self._persistent = persistent
        self.rng = rng
        self._network_faces: set[int] = set()

    def add_face(self, face: int, *, local: bool = False, pacer: Pacer | None = None) -> None:
        """Add a face; `local` if an application of this node is behind it, `pacer` if its rate is known."""
        if not local:
            self._network_faces.add(face)
        if pacer is not None:
            self._pacers[face] = pacer

    def remove_face(self, face: int, now: int) -> None:
        """Remove a face with its routes, what it was waiting for and what was asked of it."""
        self._network_faces.discard(face)
        self.fib.remove_face(face)
        self._forget(face, now)
        self._pacers.pop(face, None)

    def set_face(self, face: int, up: bool, now: int) -> None:
        """Take note that a face's link is down, or up again.

        While it is down nothing is sent there, and what was waiting for it and asked of it is forgotten; its
        routes rest.
        """
        if up:
            self.fib.resume(face)
            if self.feeds is not None:
                self.feeds.face_up(face)
        else:
            self.fib.suspend(face)
            self._forget(face, now)

    def _forget(self, face: int, now: int) -> None:
        for entry in list(self.pit):
            entry.drop_in_record(face)
            entry.drop_out_record(face)
            if not entry.in_records:
                self.pit.remove(entry)
        if self.feeds is not None:
            self.feeds.remove_face(face, now)

    def receive(self, face: int, packet: bytes, now: int) -> None:
        """Process one packet, bare or in an unfragmented LpPacket, that came in on `face` at `now` (ns)."""
        self._now = now
        try:
            kind = packet[0] if packet else 0
            if kind == INTEREST:
                self._on_interest(face, packet, None, now)
            elif kind == DATA:
                self._on_data(face, packet, None, now)
            else:
                self._on_lp(face, packet, now)
        except MalformedPacket:
            self.counters.malformed += 1

    def take_outputs(self) -> list[tuple[int, bytes]]:
        """Return the (face, packet) to be sent, in order."""
        if self.feeds is not None and self.feeds.is_deferring:
            self.feeds.flush(self._now)
        outputs = self._outputs[:]
        self._outputs.clear()
        return outputs

    @property
    def is_deferring(self) -> bool:
        """Whether work has been put off until take_outputs(), in case that more of its kind comes."""
        return self.feeds is not None and self.feeds.is_deferring

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns; None if nothing is pending."""
        if self.feeds is not None and self.feeds.is_deferring:
            self.feeds.flush(self._now)
        deadline = self.pit.timers.next_deadline()
        if self.feeds is not None:
            feeds = self.feeds.next_deadline()
            if deadline is None or (feeds is not None and feeds < deadline):
                return feeds
        return deadline

    def wake(self, now: int) -> None:
        """Expire what is due at `now` (ns)."""
        self.counters.expired += len(self.pit.expire(now))
        if self.feeds is not None:
            self.feeds.wake(now)

    def pit_entries(self) -> int:
        """Return the number of pending entries: one a classic Interest, one a subscribed feed.

        An Interest that only applications of this node know of does not count, see pit_bytes().
        """
        classic = sum(self._records(entry) > 0 for entry in self.pit)
        return classic + sum(self._ranges(entry) > 0 for entry in self.feeds or ())

    def pit_bytes(self) -> int:
        """Return the state that those entries stand for, in bytes.

        Name, plus RECORD_BYTES a record, plus RANGE_BYTES a range and for a feed's upstream. Only faces to
        the network count: state towards local applications shows on no wire, and what cannot be seen
        from packets could not be checked against them.
        """
        total = 0
        for entry in self.pit:
            if records := self._records(entry):
                total += len(entry.key[0]) + RECORD_BYTES * records
        for feed in self.feeds or ():
            if ranges := self._ranges(feed):
                total += len(feed.feed) + RANGE_BYTES * ranges
        return total

    def _records(self, entry: PitEntry) -> int:
        faces = self._network_faces
        waiting = sum(record.face in faces for record in entry.in_records)
        return waiting + sum(record.face in faces for record in entry.out_records)

    def _ranges(self, feed: FeedEntry) -> int:
        faces = self._network_faces
        return sum(face in faces for face, _ in feed.ranges.items()) + (feed.face in faces)

    def _fetch(self, face: int, feed: bytes, seq: int, now: int) -> None:
        """Ask a face for an item by a classic Interest, for the feeds of this node.

        What is asked of an application of this node waits nowhere: it answers at once, or it has no answer.
        """
        nonce = self.rng.getrandbits(32)
        wire = make_interest(
            item_name(feed, seq), nonce=nonce, lifetime_ms=_FETCH_MS, hop_limit=SENT_HOP_LIMIT
        )
        if face in self._network_faces:
            interest = parse_interest(wire)
            entry = self.pit.find(interest) or self.pit.insert(interest)
            expiry = now + _FETCH_MS * MS
            entry.set_in_record(InRecord(_FEEDS, nonce, expiry, None, wire))
            entry.set_out_record(OutRecord(face, nonce, now))
            self.pit.extend(entry, expiry)
        self.counters.out_interests += 1
        self._send(face, wire)

    def _is_asked(self, name: bytes) -> bool:
        return self.pit.may_match(name)

    def _is_local(self, face: int) -> bool:
        return face not in self._network_faces

    def _send(self, face: int, packet: bytes) -> None:
        self._outputs.append((face, packet))

    def _on_lp(self, face: int, packet: bytes, now: int) -> None:
        lp = parse_lp(packet)
        if lp.frag_count > 1:
            raise MalformedPacket("the link service reassembles before the core")
        kind = lp.fragment[0] if lp.fragment else 0
        if lp.nack_reason is not None:
            self._on_nack(face, lp.fragment, lp.nack_reason, now)
        elif kind == INTEREST:
            self._on_interest(face, lp.fragment, lp.pit_token, now)
        elif kind == DATA:
            self._on_data(face, lp.fragment, lp, now)
        elif kind:
            raise MalformedPacket("an LpPacket carries an Interest or a Data packet")
        elif lp.feed is not None and self.feeds is not None:
            self.feeds.on_state(face, lp, now)

    def _on_interest(self, face: int, packet: bytes, token: bytes | None, now: int) -> None:
        interest = parse_interest(packet)
        ends = prefix_ends(interest.name)
        nonce = interest.nonce
        if nonce is None:
            nonce = self.rng.getrandbits(32)
            interest = parse_interest(interest.with_nonce(nonce))
        counters = self.counters
        if interest.hop_limit == 0:
            counters.in_interests += 1
            counters.hop_limit_reached += 1
            return
        feeds = self.feeds
        if feeds is not None and interest.send_credit is not None:
            feeds.on_lli(face, interest, now)
            counters.in_interests += 1
            return
        counters.in_interests += 1

        # An item may have been in the feeds' cache for long: it does not count as fresh.
        if feeds is not None and len(feeds.store) and not interest.must_be_fresh:
            item = feeds.find(interest.name)
            if item is not None:
                counters.cs_hits += 1
                self._send_data(face, item.wire, token)
                return
        entry = self.pit.find(interest)
        if entry is not None and entry.is_loop(face, nonce):
            counters.looped += 1
            self._send_nack(face, interest.wire, DUPLICATE, token)
            return
        persistent = self._persistent and is_persistent(interest)
        if not persistent:  # such a one asks for what is to come
            if data := self.cs.find(interest, now):
                counters.cs_hits += 1
                self._send_data(face, data.wire, token)
                return
            counters.cs_misses += 1

        hops = self.fib.lookup(interest.name, ends)
        if entry is None:
            entry = self.pit.insert(interest)
        if persistent:
            entry.begin_passing(now)
        expiry = now + interest.lifetime_ms * MS
        entry.set_in_record(InRecord(face, nonce, expiry, token, interest.wire, persistent))
        faces = self.strategies.find(interest.name, ends).after_interest(entry, face, hops, now)
        if faces is None or faces or face in self._network_faces or entry.deadline < 0:
            # An application's that is held back waits for the answer to the one before it, and no longer.
            self.pit.extend(entry, expiry)
        if faces is None:
            counters.no_route += 1
            self._refuse(entry, NO_ROUTE, now)
            return
        for out in faces:
            if interest.hop_limit == 1 and out in self._network_faces:
                counters.hop_limit_reached += 1
                continue
            entry.set_out_record(OutRecord(out, nonce, now))
            counters.out_interests += 1
            self._send(out, interest.next_hop_wire())

    def _on_data(self, face: int, packet: bytes, header: LpPacket | None, now: int) -> None:
        data = parse_data(packet)
        feeds = self.feeds
        verdict = (
            feeds.on_data(face, data, header, now) if feeds is not None and len(feeds) else Verdict.FOREIGN
        )
        entries = self.pit.match(data) if verdict is not Verdict.FORGED else []
        counters = self.counters
        if not entries:
            prefix_ends(data.name)  # any other is the name of an entry, or of data for one
            counters.in_data += 1
            counters.unsolicited += verdict is Verdict.FOREIGN
            return
        counters.in_data += 1
        self.cs.insert(data, now)
        # A face gets it once, unless it tells its Interests apart by their tokens.
        waiting: dict[tuple[int, bytes | None], None] = {}
        for entry in entries:
            counters.satisfied += 1
            is_new = entry.passed is None or entry.note_passing(data.name)
            for record in entry.in_records:
                if record.face != face and record.expiry > now and (is_new or not record.persistent):
                    waiting[record.face, record.token] = None
            if entry.passed is None or not entry.keep_persistent(now):
                self.pit.remove(entry)
        mark = header.congestion_mark if header is not None else 0
        for out, token in waiting:
            self._send_data(out, packet, token, mark)

    def _on_nack(self, face: int, packet: bytes, reason: int, now: int) -> None:
        interest = parse_interest(packet)
        prefix_ends(interest.name)
        self.counters.in_nacks += 1
        if self.feeds is not None and interest.send_credit is not None:
            self.feeds.on_nack(face, interest, reason, now)
            return
        entry = self.pit.find(interest)
        if entry is None:
            return
        for record in entry.out_records:
            if record.face == face and record.nonce == interest.nonce:
                record.nacked = True
                break
        else:
            return
        if all(record.nacked for record in entry.out_records):
            self._refuse(entry, reason, now)

    def _refuse(self, entry: PitEntry, reason: int, now: int) -> None:
        """Remove an entry, and tell everybody who waits for it."""
        self.pit.remove(entry)
        for waiting in entry.in_records:
            if waiting.face == _FEEDS and self.feeds is not None:
                self.feeds.on_fetch_nack(entry.key[0], now)
            else:
                self._send_nack(waiting.face, waiting.wire, reason, waiting.token)

    def _send_data(self, face: int, packet: bytes, token: bytes | None, mark: int = 0) -> None:
        if face == _FEEDS:
            return  # they have seen it come in
        self.counters.out_data += 1
        pacer = self._pacers.get(face)
        if pacer is not None:
            pacer.seen(_CLASSIC, self._now)
            if pacer.is_congested(self._now):
                mark = 1
        if mark or token is not None:
            packet = make_lp(packet, pit_token=token, congestion_mark=mark)
        self._outputs.append((face, packet))

    def _send_nack(self, face: int, packet: bytes, reason: int, token: bytes | None) -> None:
        self.counters.out_nacks += 1
        self._outputs.append((face, make_lp(packet, nack_reason=reason, pit_token=token)))
