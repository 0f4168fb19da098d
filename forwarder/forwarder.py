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

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Final

from base.units import MS
from forwarder.feedcache.cache import FeedStore
from forwarder.lli.entry import FeedEntry
from forwarder.lli.ranges import Range
from forwarder.lli.table import RANGE_BYTES, FeedTable, Verdict
from forwarder.lli.upstream import Recovery
from forwarder.strategies.best_route import BestRoute
from forwarder.strategies.strategy import Strategy
from forwarder.strategies.strategy_choice import StrategyChoice
from forwarder.tables.content_store import ContentStore
from forwarder.tables.counters import Counters
from forwarder.tables.dead_nonces import LIFETIME as NONCE_LIFETIME
from forwarder.tables.dead_nonces import DeadNonces
from forwarder.tables.face import CONTENT_STORE_FACE, Face, LinkType
from forwarder.tables.fib import Fib, NextHop
from forwarder.tables.pacing import Pacer
from forwarder.tables.pit import RECORD_BYTES, InRecord, OutRecord, Pit, PitEntry, Tags, tidy
from forwarder.wire.feed import item_name
from forwarder.wire.lp import CONGESTION, DUPLICATE, NO_CACHE, NO_ROUTE, LpPacket, make_lp, parse_lp
from forwarder.wire.name import GENERIC, PARAMETERS_DIGEST, component, components, prefix_ends
from forwarder.wire.packet import (
    DATA,
    INTEREST,
    MOST_LIFETIME_MS,
    SENT_HOP_LIMIT,
    Data,
    Interest,
    make_interest,
    parse_data,
    parse_interest,
)
from forwarder.wire.persistent import is_persistent
from forwarder.wire.tlv import MalformedPacket

_FEEDS: Final = 0
"""The face of the feeds of this node, which have no other way to wait for an answer; others count from 1."""
_FETCH_MS: Final = 4000
_CLASSIC: Final = b"classic"  # all answers to classic Interests share a link as one stream

_LOCALHOST: Final = component(GENERIC, b"localhost")
_LOCALHOP: Final = component(GENERIC, b"localhop")
_DIGEST_HEADER: Final = bytes((PARAMETERS_DIGEST, 32))
_SCOPED: Final = (_LOCALHOST, _LOCALHOP)
_FOREIGN, _FORGED = Verdict.FOREIGN, Verdict.FORGED  # an Enum's members cost a look-up each time
_ADMITTING: Final = (
    {"admit-network", "admit-all"},
    {"admit-local", "admit-all"},
)  # by whether the face is local


class Forwarder:
    """One NDN node.

    Args:
        rng: source of nonces and every other random choice.
        strategy: where Interests go, one of forwarder.strategies; best-route if None. choose_strategy() sets
            another one for names of one's choice.
        cs_capacity: Data packets that the content store holds at most.
        cs_policy: which of them goes first, one of forwarder.tables.eviction.POLICIES.
        pit_capacity: Interests pending at most; what would be more is refused (Nack Congestion).
        controlled_push: False makes this a forwarder that has never heard of LLIs.
        feed_store: bounds of the verified feed cache.
        recovery: who repairs a gap in a feed, see forwarder.lli.upstream.Recovery.
        persistent: True makes this a forwarder that knows persistent Interests (forwarder.wire.persistent).
        observable: True keeps the state towards the network such that packets on it tell all of it: an
            application's Interest that is held back waits for the answer to the one before it, and no longer.

    Attributes:
        faces: all faces by number. Numbers are the caller's choice, above 0; every face must be added before
            use.
        regions: prefixes of the producer regions that this node is in: an Interest whose forwarding hint
            leads here has arrived, and is forwarded by its name.
        unsolicited: whether Data that nobody has asked for are kept: "drop-all", "admit-local",
            "admit-network" or "admit-all".
        on_announcement: called with (face, announcement, now) when a strategy has learnt a route.
        on_withdrawal: called with (face, name, now) when such a route has led nowhere.
        announcement_of: called with (name, now): the announcement of an application of this node, or None.
        pit_satisfied: PIT entries that Data from the network have ended.
        pit_expired: PIT entries that have expired with a record of a face to the network.
    """

    def __init__(
        self,
        *,
        rng: Random,
        strategy: type[Strategy] | None = None,
        cs_capacity: int = 65536,
        pit_capacity: int = 1 << 20,
        cs_policy: str = "lru",
        controlled_push: bool = True,
        feed_store: FeedStore | None = None,
        recovery: Recovery = Recovery.IN_NETWORK,
        persistent: bool = False,
        observable: bool = False,
    ) -> None:
        self._is_observable = observable
        self.faces: dict[int, Face] = {}
        self.fib = Fib()
        self.pit = Pit()
        self.cs = ContentStore(cs_capacity, cs_policy)
        self.pit_capacity = pit_capacity
        self.dead_nonces = DeadNonces()
        self.counters = Counters(self.faces)
        self.regions: set[bytes] = set()
        self.unsolicited = "drop-all"
        self.on_announcement: Callable[[int, bytes, int], None] | None = None
        self.on_withdrawal: Callable[[int, bytes, int], None] | None = None
        self.announcement_of: Callable[[bytes, int], bytes | None] | None = None
        self.pit_satisfied = 0
        self.pit_expired = 0
        self._outputs: list[tuple[int, bytes]] = []
        self._now = 0
        self._fib_changes = 0
        self.feeds = (
            FeedTable(
                self._feed_hops,
                self._send,
                self._fetch,
                self._is_asked,
                self.faces,
                rng,
                feed_store,
                recovery,
            )
            if controlled_push
            else None
        )
        self._persistent = persistent
        self.rng = rng
        self.strategies = StrategyChoice((strategy or BestRoute)(self, {}))

    def choose_strategy(
        self, prefix: bytes, strategy: type[Strategy], parameters: Mapping[str, str] | None = None
    ) -> None:
        """Choose a strategy for all names under a prefix; raise ValueError if it refuses a parameter."""
        self.strategies.set(prefix, strategy(self, parameters or {}))

    def add_face(
        self,
        face: int,
        *,
        local: bool = False,
        pacer: Pacer | None = None,
        link_type: LinkType = LinkType.POINT_TO_POINT,
    ) -> Face:
        """Add a face; `local` if an application of this node is behind it, `pacer` if its rate is known."""
        added = self.faces[face] = Face(face, local=local, link_type=link_type, pacer=pacer)
        return added

    def remove_face(self, face: int, now: int) -> None:
        """Remove a face with its routes, what it was waiting for and what was asked of it."""
        self.fib.remove_face(face)
        self._forget(face, now)
        gone = self.faces.pop(face, None)
        if gone is not None:
            self.counters.keep(gone)

    def set_face(self, face: int, up: bool, now: int) -> None:
        """Take note that a face's link is down, or up again.

        While it is down nothing is sent there, and what was waiting for it and asked of it is forgotten; its
        routes rest.
        """
        self.faces[face].is_up = up
        if up:
            self.fib.resume(face)
        else:
            self.fib.suspend(face)
            self._forget(face, now)

    def _forget(self, face: int, now: int) -> None:
        touching = self.faces.get(face)
        for entry in () if touching is None else tidy(touching):
            was_waiting = bool(entry.in_records)
            entry.drop_in_record(face)
            gone = was_waiting and not entry.in_records
            for record in entry.out_records:
                if gone or record.face == face:
                    self.dead_nonces.add(entry.key[0], record.nonce, now)  # it may be on its way round a loop
            entry.drop_out_record(face)
            if gone:
                self.pit.remove(entry)
        if self.feeds is not None:
            self.feeds.remove_face(face, now)

    def announce(self, face: int, announcement: bytes, now: int) -> None:
        """Make a route from a prefix announcement that came in; see strategy.Node."""
        if self.on_announcement is not None:
            self.on_announcement(face, announcement, now)

    def withdraw(self, face: int, name: bytes, now: int) -> None:
        """Forget the learnt route of a name to a face; see strategy.Node."""
        if self.on_withdrawal is not None:
            self.on_withdrawal(face, name, now)

    def neighbours(self, entry: PitEntry, face: int) -> list[int]:
        """Return the faces to the network that an Interest may be flooded to; see strategy.Node."""
        origin = self.faces[face]
        others = [out for out in self.faces.values() if out.is_up and not out.is_local]
        return [out.number for out in others if self._may_go(entry, origin, out.number, entry.name)]

    def find_announcement(self, name: bytes, now: int) -> bytes | None:
        """Return what an application has announced for a name; see strategy.Node."""
        return None if self.announcement_of is None else self.announcement_of(name, now)

    def receive(self, face: int, packet: bytes, now: int, header: LpPacket | None = None) -> None:
        """Process one packet, bare or in an unfragmented LpPacket, that came in on `face` at `now` (ns).

        `header` is the LpPacket as parse_lp() reads it, if the caller has it.
        """
        self._now = now
        origin = self.faces[face]
        try:
            kind = packet[0] if packet else 0
            if kind == INTEREST:
                self._on_interest(origin, packet, None, now)
            elif kind == DATA:
                self._on_data(origin, packet, None, now)
            else:
                self._on_lp(origin, parse_lp(packet) if header is None else header, now)
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
            if self._fib_changes != self.fib.changes:
                self._fib_changes = self.fib.changes
                self.feeds.routes_changed()
            feeds = self.feeds.next_deadline()
            if deadline is None or (feeds is not None and feeds < deadline):
                return feeds
        return deadline

    def wake(self, now: int) -> None:
        """Expire what is due at `now` (ns)."""
        for entry in self.pit.expire(now):
            if entry.in_records:
                self.counters.expired += 1
                self.pit_expired += _records(entry, self.faces) > 0
                entry.strategy.after_expiry(entry, now)
                self._bury(entry, now)
        if self.feeds is not None:
            self.feeds.wake(now)

    def pit_held(self) -> tuple[int, int]:
        """Return the number of pending entries, and the state that they stand for, in bytes.

        An entry is a classic Interest or a subscribed feed; its bytes are its name, plus RECORD_BYTES a
        record, plus RANGE_BYTES a range and for a feed's upstream. Only faces to the network count: state
        towards local applications shows on no wire, and what cannot be seen from packets could not be
        checked against them.
        """
        entries = size = 0
        for entry in self.pit:
            if records := _records(entry, self.faces):
                entries += 1
                size += len(entry.key[0]) + RECORD_BYTES * records
        for feed in self.feeds or ():
            if ranges := _ranges(feed, self.faces):
                entries += 1
                size += len(feed.feed) + RANGE_BYTES * ranges
        return entries, size

    def pit_entries(self) -> int:
        """Return the number of pending entries, see pit_held()."""
        return self.pit_held()[0]

    def pit_bytes(self) -> int:
        """Return their state in bytes, see pit_held()."""
        return self.pit_held()[1]

    def pit_ranges(self) -> int:
        """Return the number of ranges that downstreams in the network have granted."""
        return len(self._granted())

    def pit_credit(self) -> int:
        """Return how many items may still be sent in those ranges, not counting what is asked for again."""
        return sum(granted.limit - granted.next + 1 for granted in self._granted())

    def _granted(self) -> list[Range]:
        ranges = (each for feed in self.feeds or () for each in feed.ranges.items())
        return [granted for face, granted in ranges if _is_network(face, self.faces)]

    def _fetch(self, face: int, feed: bytes, seq: int, now: int) -> None:
        """Ask a face for an item by a classic Interest, for the feeds of this node.

        What is asked of an application of this node waits nowhere: it answers at once, or it has no answer.
        """
        nonce = self.rng.getrandbits(32)
        wire = make_interest(
            item_name(feed, seq), nonce=nonce, lifetime_ms=_FETCH_MS, hop_limit=SENT_HOP_LIMIT
        )
        asked = self.faces[face]
        if not asked.is_local:
            interest = parse_interest(wire)
            entry = self.pit.find(interest) or self.pit.insert(interest)
            if entry.strategy is None:
                entry.strategy = self.strategies.find(interest.name, prefix_ends(interest.name))
            expiry = now + _FETCH_MS * MS
            entry.set_in_record(InRecord(_FEEDS, nonce, expiry, None, wire))
            entry.set_out_record(OutRecord(face, nonce, now, expiry))
            asked.touches.append(entry)
            if len(asked.touches) > asked.most_touches:
                tidy(asked)
            self.pit.extend(entry, expiry)
        asked.out_interests += 1
        self._send(face, wire)

    def _feed_hops(self, feed: bytes, past: bool) -> Sequence[NextHop] | None:
        """Return the next hops that a feed may come from; see Strategy.feed_hops."""
        hops = self.fib.lookup(feed)
        strategy = self.strategies.find(feed, prefix_ends(feed))
        return strategy.feed_hops(feed, hops, past=past) if strategy.LEADS_FEEDS else hops

    def _is_asked(self, name: bytes) -> bool:
        return self.pit.may_match(name)

    def _send(self, face: int, packet: bytes) -> None:
        self._outputs.append((face, packet))

    def _on_lp(self, face: Face, lp: LpPacket, now: int) -> None:
        if lp.frag_count > 1:
            raise MalformedPacket("the link service reassembles before the core")
        kind = lp.fragment[0] if lp.fragment else 0
        if lp.next_hop_face is not None and (
            kind != INTEREST or lp.nack_reason is not None or not face.local_fields
        ):
            raise MalformedPacket("NextHopFaceId is for the Interests of faces with local fields")
        if lp.cache_policy is not None and lp.cache_policy != NO_CACHE:
            raise MalformedPacket(f"CachePolicyType {lp.cache_policy}")
        if lp.nack_reason is not None:
            self._on_nack(face, lp.fragment, lp.nack_reason, now)
        elif kind == INTEREST:
            self._on_interest(face, lp.fragment, lp, now)
        elif kind == DATA:
            self._on_data(face, lp.fragment, lp, now)
        elif kind:
            raise MalformedPacket("an LpPacket carries an Interest or a Data packet")
        elif self.feeds is not None:
            if lp.hello is not None:
                self.feeds.on_hello(face.number, lp.hello, now)
            elif lp.feed is not None:
                self.feeds.on_state(face.number, lp, now)

    def _on_interest(self, face: Face, packet: bytes, header: LpPacket | None, now: int) -> None:
        """Take an Interest through its phases: admission, what is at hand, loops, PIT, forwarding."""
        interest = parse_interest(packet)
        ends = prefix_ends(interest.name)
        interest = self._complete(interest)
        face.in_interests += 1
        if not self._is_admitted(face, interest):
            return
        feeds = self.feeds
        if feeds is not None and interest.send_credit is not None:
            feeds.on_lli(face.number, interest, now)
            return
        nonce = interest.nonce or 0
        token = None if header is None else header.pit_token
        # An item may have been in the feeds' cache for long: it does not count as fresh.
        if feeds is not None and len(feeds.store) and not interest.must_be_fresh:
            item = feeds.find(interest.name)
            if item is not None:
                self.counters.cs_hits += 1
                self._send_data(face, item.wire, token)
                return
        entry = self.pit.find(interest)
        # What is heard again on a shared link has been somewhere else.
        heard = face.number if face.link_type is LinkType.POINT_TO_POINT else -1
        is_loop = entry is not None and entry.is_loop(heard, nonce)
        persistent = self._persistent and is_persistent(interest)
        if not is_loop and not persistent:  # such a one asks for what is to come
            if data := self.cs.find(interest, now):
                self.counters.cs_hits += 1
                self._send_data(face, data.wire, token)
                return
            self.counters.cs_misses += 1
        if is_loop or (
            len(self.dead_nonces)
            and self.dead_nonces.has(interest.name, nonce, now)
            and (entry is None or not entry.waits_for(face.number, nonce))
        ):
            self.counters.looped += 1
            if entry is None or not entry.waits_for(heard, nonce):  # else a copy: the first one is pending
                self._send_nack(face, interest.wire, DUPLICATE, token)
            return
        expiry = now + min(interest.lifetime_ms, MOST_LIFETIME_MS) * MS
        record = InRecord(face.number, nonce, expiry, token, interest.wire, persistent)
        if entry is not None:
            self.counters.aggregated += entry.set_in_record(record)
            entry.tags = None
        elif len(self.pit) < self.pit_capacity:
            entry = self.pit.insert(interest)
            entry.strategy = self.strategies.find(interest.name, ends)
            entry.in_records.append(record)
        else:
            self.counters.pit_full += 1
            self._send_nack(face, interest.wire, CONGESTION, token)
            return
        face.touches.append(entry)
        if len(face.touches) > face.most_touches:
            tidy(face)
        if persistent:
            entry.begin_passing(now)
        self._forward(entry, face, interest, ends, header, expiry, now)

    def _complete(self, interest: Interest) -> Interest:
        """Give an Interest a nonce if it has none, and take off a hint that has led it here.

        Raises MalformedPacket.
        """
        if interest.name.count(_DIGEST_HEADER) > 1 and len(_digests(interest.name)) > 1:
            raise MalformedPacket("a Name has one ParametersSha256DigestComponent at most")
        if interest.nonce is None:
            interest = parse_interest(interest.with_nonce(self.rng.getrandbits(32)))
        if interest.forwarding_hint and self._has_arrived(interest):
            interest = parse_interest(interest.without_hint())
        return interest

    def _is_admitted(self, face: Face, interest: Interest) -> bool:
        """Tell whether an Interest may be dealt with here: it has hops left, and keeps to its scope."""
        if interest.hop_limit == 0:
            self.counters.hop_limit_reached += 1
            return False
        if not face.is_local and interest.name.startswith(_LOCALHOST):
            self.counters.out_of_scope += 1
            return False
        return True

    def _forward(
        self,
        entry: PitEntry,
        face: Face,
        interest: Interest,
        ends: list[int],
        header: LpPacket | None,
        expiry: int,
        now: int,
    ) -> None:
        """Send a pending Interest where its strategy says, or refuse it."""
        name, nonce = interest.name, interest.nonce or 0
        mark = 0
        if header is not None:
            mark = header.congestion_mark
            if header.next_hop_face is not None:
                self.pit.extend(entry, expiry)
                chosen = self.faces.get(header.next_hop_face)
                if chosen is not None and chosen.is_up:
                    self._send_interest(entry, interest, nonce, chosen.number, expiry, now, mark)
                return
            if header.non_discovery:
                entry.tags = Tags(non_discovery=True)
        hops: Sequence[NextHop] = self.fib.lookup(name, ends)
        is_scoped = name.startswith(_SCOPED)
        if is_scoped or len(hops) != 1 or hops[0].face == face.number or interest.forwarding_hint:
            hops = self._next_hops(entry, face, interest, hops, is_scoped)
        if self.feeds is not None and len(self.feeds) and len(hops) > 1:
            hops = self.feeds.ordered(name, hops)
        strategy: Strategy = entry.strategy
        faces = strategy.after_interest(entry, face.number, hops, now)
        is_strict = strategy.IS_STRICT and len(entry.in_records) > 1
        if faces is None and (is_strict or entry.is_pending(now)):
            # Others wait for this face, which has no other way, or somebody else may still answer.
            if is_strict or not entry.is_pending(now, but=face.number):
                self.counters.no_route += 1
                entry.drop_in_record(face.number)
                token = None if header is None else header.pit_token
                self._send_nack(face, interest.wire, NO_ROUTE, token)
            return
        if faces or not self._is_observable or not face.is_local or entry.deadline < 0:
            self.pit.extend(entry, expiry)
        if faces is None:
            self.counters.no_route += 1
            self._refuse(entry, NO_ROUTE, now)
            return
        for out in faces:
            self._send_interest(entry, interest, nonce, out, expiry, now, mark)
        if faces and strategy.PROBES:
            for out in strategy.probe(entry, face.number, hops, now):
                other = self.rng.getrandbits(32)
                self._send_interest(
                    entry, parse_interest(interest.with_nonce(other)), other, out, expiry, now
                )

    def _has_arrived(self, interest: Interest) -> bool:
        """Tell whether a forwarding hint leads to a region that this node is in.

        Raises MalformedPacket if any of its names is not well formed.
        """
        for hint in interest.forwarding_hint:
            prefix_ends(hint)
        # Of well-formed names, the beginning of one is a prefix of it.
        regions = tuple(self.regions)
        return any(hint.startswith(regions) for hint in interest.forwarding_hint)

    def _next_hops(
        self, entry: PitEntry, face: Face, interest: Interest, hops: Sequence[NextHop], is_scoped: bool
    ) -> Sequence[NextHop]:
        """Return the next hops that an Interest may take: by its hint if that leads anywhere, else `hops`."""
        for delegation in interest.forwarding_hint:
            hops = self.fib.lookup(delegation)
            if hops:
                break
        for hop in hops:
            if hop.face == face.number or is_scoped:
                return [hop for hop in hops if self._may_go(entry, face, hop.face, interest.name)]
        return hops

    def _may_go(self, entry: PitEntry, face: Face, out: int, name: bytes) -> bool:
        """Tell whether an Interest from a face may go out of another: not back, and not out of its scope."""
        if out == face.number and face.link_type is not LinkType.AD_HOC:
            return False
        if self.faces[out].is_local or not name.startswith(_SCOPED):
            return True
        # /localhop: one hop from an application, and no further (NFD developer guide, section 4.2.2).
        return name.startswith(_LOCALHOP) and self._is_from_here(entry.in_records[-1].face)

    def _is_from_here(self, face: int) -> bool:
        return face == _FEEDS or self.faces[face].is_local

    def _send_interest(
        self, entry: PitEntry, interest: Interest, nonce: int, out: int, expiry: int, now: int, mark: int = 0
    ) -> None:
        face = self.faces[out]
        if interest.hop_limit == 1 and not face.is_local:
            self.counters.hop_limit_reached += 1
            return
        if entry.out_records:
            sent = entry.out_record(out)
            if sent is not None:
                if sent.nonce != nonce:
                    self.dead_nonces.add(entry.key[0], sent.nonce, now)  # it may still go round a loop
                entry.drop_out_record(out)
        entry.out_records.append(OutRecord(out, nonce, now, expiry))
        face.touches.append(entry)
        if len(face.touches) > face.most_touches:
            tidy(face)
        face.out_interests += 1
        packet = interest.next_hop_wire()
        if mark or face.local_fields or entry.tags is not None:
            packet = make_lp(
                packet,
                incoming_face=entry.in_records[-1].face if face.local_fields else None,
                non_discovery=entry.tags is not None and entry.tags.non_discovery,
                congestion_mark=mark,
            )
        self._outputs.append((out, packet))

    def _on_data(self, face: Face, packet: bytes, header: LpPacket | None, now: int) -> None:
        data = parse_data(packet)
        number = face.number
        if data.name.startswith(_LOCALHOST) and not face.is_local:
            prefix_ends(data.name)
            face.in_data += 1
            self.counters.out_of_scope += 1
            return
        feeds = self.feeds
        verdict = (
            feeds.on_data(number, data, header, now) if feeds is not None and len(feeds.store) else _FOREIGN
        )
        entries = self.pit.match(data) if verdict is not _FORGED else []
        if entries and not self._is_accepted(entries, number, data, now):
            face.in_data += 1
            return
        counters = self.counters
        may_keep = header is None or header.cache_policy is None
        if not entries:
            prefix_ends(data.name)  # any other is the name of an entry, or of data for one
            face.in_data += 1
            if verdict is _FOREIGN:
                counters.unsolicited += 1
                if may_keep and self.unsolicited in _ADMITTING[face.is_local]:
                    self.cs.insert(data, now, is_unsolicited=True)
            return
        face.in_data += 1
        face.is_proven = face.is_proven or any(entry.out_record(number) for entry in entries)
        is_lasting = may_keep and self.cs.is_lasting
        if may_keep:
            self.cs.insert(data, now)
        waiting: list[tuple[int, bytes | None, bytes | None]] = []  # face, token, announcement
        from_network = not face.is_local
        for entry in entries:
            is_waiting = bool(entry.in_records)
            if is_waiting:
                counters.satisfied += 1
            if header is not None and header.announcement is not None:
                entry.tags = Tags(announcement=header.announcement)
            strategy = entry.strategy
            stay = strategy.after_data(entry, number, data, now) if strategy.HEARS_DATA else 0
            announcement = None if entry.tags is None else entry.tags.announcement
            is_new = entry.passed is None or entry.note_passing(data.name)
            for record in entry.in_records:
                is_back = record.face == number and face.link_type is not LinkType.AD_HOC
                if record.expiry > now and not is_back and (is_new or not record.persistent):
                    waiting.append((record.face, record.token, announcement))
            if entry.passed is not None and entry.keep_persistent(now):
                continue
            self.pit_satisfied += is_waiting and from_network
            if stay > 0 or entry.key[2] or not is_lasting:
                self._satisfy(entry, number, data, stay, now, is_lasting)
            else:
                self.pit.remove(entry)
        mark = header.congestion_mark if header is not None else 0
        if len(waiting) > 1:  # a face gets it once, unless it tells its Interests apart by their tokens
            waiting = [*dict.fromkeys(waiting)]
        for out, token, announcement in waiting:
            if out != _FEEDS:  # they have seen it come in
                self._send_data(self.faces[out], packet, token, mark, number, announcement)

    def _is_accepted(self, entries: list[PitEntry], face: int, data: Data, now: int) -> bool:
        """Tell whether no strategy refuses Data that would answer the Interests of some entries."""
        for entry in entries:
            strategy: Strategy = entry.strategy
            if strategy.JUDGES_DATA and not strategy.accepts(entry, face, data, now):
                return False
        return True

    def _satisfy(self, entry: PitEntry, face: int, data: Data, stay: int, now: int, is_lasting: bool) -> None:
        """Remove an entry, or keep it without its in-records for `stay` ns."""
        if not is_lasting or (entry.key[2] and data.freshness_ms * MS < NONCE_LIFETIME):
            # Its Data may be gone or stale when a copy comes back: nothing else would tell that it is one.
            self._bury(entry, now)
        if stay <= 0:
            self.pit.remove(entry)
            return
        entry.in_records = []
        entry.drop_out_record(face)
        self.pit.expire_at(entry, now + stay)

    def _bury(self, entry: PitEntry, now: int) -> None:
        for record in entry.out_records:
            self.dead_nonces.add(entry.key[0], record.nonce, now)

    def _on_nack(self, face: Face, packet: bytes, reason: int, now: int) -> None:
        interest = parse_interest(packet)
        ends = prefix_ends(interest.name)
        face.in_nacks += 1
        if face.link_type is not LinkType.POINT_TO_POINT:
            return  # who else has heard the Interest may still answer it
        if self.feeds is not None and interest.send_credit is not None:
            self.feeds.on_nack(face.number, interest, reason, now)
            return
        entry = self.pit.find(interest)
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
        origin = self.faces.get(newest.face, face)
        routed = self.fib.lookup(asking.name, ends)
        hops = self._next_hops(entry, origin, asking, routed, asking.name.startswith(_SCOPED))
        expiry = now + min(asking.lifetime_ms, MOST_LIFETIME_MS) * MS
        others = strategy.after_nack(entry, face.number, reason, hops, now)
        if others is None:
            return
        for out in others:
            self._send_interest(entry, asking, newest.nonce, out, expiry, now)
        if all(record.nacked is not None for record in entry.out_records):
            self._refuse(entry, _least_severe(entry.out_records), now)

    def _refuse(self, entry: PitEntry, reason: int, now: int) -> None:
        """Remove an entry, and tell everybody who waits for it."""
        self.pit.remove(entry)
        self._bury(entry, now)
        for waiting in entry.in_records:
            if waiting.expiry <= now:
                continue  # it has ended; another's has kept the entry
            if waiting.face == _FEEDS and self.feeds is not None:
                self.feeds.on_fetch_nack(entry.key[0], now)
            else:
                self._send_nack(self.faces[waiting.face], waiting.wire, reason, waiting.token)

    def _send_data(
        self,
        face: Face,
        packet: bytes,
        token: bytes | None,
        mark: int = 0,
        origin: int = CONTENT_STORE_FACE,
        announcement: bytes | None = None,
    ) -> None:
        face.out_data += 1
        pacer = face.pacer
        if pacer is not None:
            pacer.seen(_CLASSIC, self._now)
            if pacer.is_congested(self._now):
                mark = 1
        if mark or token is not None or face.local_fields or announcement is not None:
            packet = make_lp(
                packet,
                pit_token=token,
                congestion_mark=mark,
                incoming_face=origin if face.local_fields else None,
                announcement=announcement,
            )
        self._outputs.append((face.number, packet))

    def _send_nack(self, face: Face, packet: bytes, reason: int, token: bytes | None) -> None:
        if face.link_type is not LinkType.POINT_TO_POINT:
            return  # others may hear the Interest too, and know better
        face.out_nacks += 1
        self._outputs.append((face.number, make_lp(packet, nack_reason=reason, pit_token=token)))


def _digests(name: bytes) -> list[bytes]:
    """Return the ParametersSha256DigestComponents of a well-formed name."""
    return [value for kind, value in components(name) if kind == PARAMETERS_DIGEST]


def _least_severe(records: Iterable[OutRecord]) -> int:
    """Return the reason that says least against trying again: Congestion, Duplicate, NoRoute, none at all."""
    return min((record.nacked or 0 for record in records), key=lambda reason: reason or sys.maxsize)


def _records(entry: PitEntry, faces: Mapping[int, Face]) -> int:
    """Return how many records of an entry are of faces to the network. Loops: nodes are sampled often."""
    count = 0
    for waiting in entry.in_records:
        count += _is_network(waiting.face, faces)
    for asked in entry.out_records:
        count += _is_network(asked.face, faces)
    return count


def _ranges(feed: FeedEntry, faces: Mapping[int, Face]) -> int:
    """Return how many ranges of a feed are of faces to the network.

    And how many next hops there were asked.
    """
    granted = sum(_is_network(face, faces) for face, _ in feed.ranges.items())
    return granted + sum(_is_network(face, faces) for face, _ in feed.holders())


def _is_network(number: int | None, faces: Mapping[int, Face]) -> bool:
    face = None if number is None else faces.get(number)
    return face is not None and not face.is_local
