"""The forwarding core: pipelines for Interest, Data and Nack (NFD developer guide, section 4).

Theory of operation. `receive(face, packet, now)` runs one packet through the pipelines and leaves what is
to be sent in `take_outputs()`; `next_deadline()` and `wake(now)` drive expiry. There is no socket, no
clock and no randomness but the generator that is passed in, so the same object runs in the emulator and
in real processes. A malformed packet is counted and dropped, and changes nothing else.

Interest -> HopLimit, feed cache, loop, content store -> PIT -> strategy -> faces.
Data     -> feeds (verified, pushed on) -> PIT -> content store, faces.
Nack     -> PIT -> downstream once every upstream has refused.
An Interest with SendCredit goes to the feeds (forwarder.lli) and makes no PIT entry here.
"""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final

from base.units import MS
from forwarder.feedcache.cache import FeedStore
from forwarder.lli.upstream import Recovery
from forwarder.pipelines.data import DataPipeline
from forwarder.pipelines.egress import Egress
from forwarder.pipelines.interests import InterestPipeline
from forwarder.pipelines.nacks import NackPipeline
from forwarder.pipelines.next_hops import NextHops
from forwarder.pipelines.pit_size import StateSize, held, pit_size
from forwarder.pipelines.sized_feeds import SizedFeeds
from forwarder.pipelines.tables import FEEDS_FACE, Tables
from forwarder.strategies.best_route import BestRoute
from forwarder.strategies.strategy import Strategy
from forwarder.strategies.strategy_choice import StrategyChoice
from forwarder.tables.face import Face, LinkType
from forwarder.tables.fib import NextHop
from forwarder.tables.pacing import Pacer
from forwarder.tables.pit import InRecord, OutRecord, PitEntry, compact
from forwarder.wire.feed import item_name
from forwarder.wire.lp import NO_CACHE, LpPacket, parse_lp
from forwarder.wire.name import prefix_ends
from forwarder.wire.packet import DATA, INTEREST, SENT_HOP_LIMIT, make_interest, parse_interest
from forwarder.wire.tlv import MalformedPacket

_FETCH_MS: Final = 4000


class Forwarder(Tables):
    """One NDN node.

    Args:
        rng: source of nonces and every other random choice.
        strategy: the default strategy, one of forwarder.strategies; best-route if None. choose_strategy()
            sets others by prefix.
        cs_capacity: capacity of the content store, Data packets.
        cs_policy: its eviction policy, one of forwarder.tables.eviction.POLICIES.
        pit_capacity: Interests pending at most; further ones are refused (Nack Congestion).
        controlled_push: whether LLIs are supported.
        feed_store: bounds of the verified feed cache.
        recovery: who repairs a gap in a feed, see forwarder.lli.upstream.Recovery.
        persistent: whether persistent Interests (forwarder.wire.persistent) are supported.
        observable: whether the state towards the network can be derived from packets: an application's
            Interest that is suppressed waits for the answer to the previous one, and no longer.

    Attributes, besides those of Tables:
        on_announcement: called with (face, announcement, now) when a strategy has learnt a route.
        on_withdrawal: called with (face, name, now) when such a route has failed.
        announcement_of: called with (name, now): the announcement of an application of this node, or None.
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
        super().__init__(rng, cs_capacity, cs_policy, pit_capacity)
        self.on_announcement: Callable[[int, bytes, int], None] | None = None
        self.on_withdrawal: Callable[[int, bytes, int], None] | None = None
        self.announcement_of: Callable[[bytes, int], bytes | None] | None = None
        self.pit_expired = 0
        self._now = 0
        self._fib_changes = 0
        self._egress = egress = Egress(self)
        if controlled_push:
            sends = egress.send, self._fetch
            asked, faces = self.pit.may_match, self.faces
            self.feeds = SizedFeeds(
                self.network, self._feed_hops, *sends, asked, faces, rng, feed_store, recovery
            )
        self._next_hops = NextHops(self)
        self._data = DataPipeline(self, egress)
        self._nacks = NackPipeline(self, egress, self._next_hops)
        self._interests = InterestPipeline(self, self._nacks, persistent=persistent, observable=observable)
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
        if not local:
            self.network.add(face)
        return added

    def remove_face(self, face: int, now: int) -> None:
        """Remove a face with its routes and its PIT records."""
        self.fib.remove_face(face)
        self._forget(face, now)
        self.network.discard(face)
        gone = self.faces.pop(face, None)
        if gone is not None:
            self.counters.keep(gone)

    def set_face(self, face: int, up: bool, now: int) -> None:
        """Set whether a face's link is up.

        When it goes down, the face's PIT records are removed, and its routes suspended.
        """
        self.faces[face].is_up = up
        if up:
            self.fib.resume(face)
        else:
            self.fib.suspend(face)
            self._forget(face, now)

    def _forget(self, face: int, now: int) -> None:
        touching = self.faces.get(face)
        for entry in () if touching is None else compact(touching):
            was_waiting = bool(entry.in_records)
            entry.drop_in_record(face)
            gone = was_waiting and not entry.in_records
            for record in entry.out_records:
                if gone or record.face == face:
                    self.dead_nonces.add(entry.key[0], record.nonce, now)  # it may be on its way round a loop
            entry.drop_out_record(face)
            if gone:
                self.pit.remove(entry)
            else:
                self.pit.weigh(entry)
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
        return self._next_hops.neighbours(entry, face)

    def find_announcement(self, name: bytes, now: int) -> bytes | None:
        """Return an application's announcement for a name; see strategy.Node."""
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
                self._interests.receive(origin, packet, None, now)
            elif kind == DATA:
                self._data.receive(origin, packet, None, now)
            else:
                self._on_lp(origin, parse_lp(packet) if header is None else header, now)
        except MalformedPacket:
            self.counters.malformed += 1

    def take_outputs(self) -> list[tuple[int, bytes]]:
        """Return the (face, packet) to be sent, in order."""
        if self.feeds is not None and self.feeds.is_deferring:
            self.feeds.flush(self._now)
        return self._egress.take()

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
        """Process deadlines up to `now` (ns)."""
        for entry in self.pit.expire(now):
            if entry.in_records:
                self.counters.expired += 1
                self.pit_expired += entry.weight > 0
                entry.strategy.after_expiry(entry, now)
                self.bury(entry, now)
        if self.feeds is not None:
            self.feeds.wake(now)

    def held(self) -> dict[str, StateSize]:
        """Return the size of all tables of state, by kind."""
        return held(self)

    def pit_entries(self) -> int:
        """Return the number of pending entries, see StateSize."""
        return pit_size(self).entries

    def pit_bytes(self) -> int:
        """Return their size in bytes, see StateSize."""
        return pit_size(self).bytes

    def _fetch(self, face: int, feed: bytes, seq: int, now: int) -> None:
        """Request an item from a face by a classic Interest, for the feeds of this node.

        An Interest to an application of this node makes no PIT entry: it answers at once or not at all.
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
            entry.set_in_record(InRecord(FEEDS_FACE, nonce, expiry, None, wire))
            entry.set_out_record(OutRecord(face, nonce, now, expiry))
            asked.touches.append(entry)
            if len(asked.touches) > asked.most_touches:
                compact(asked)
            self.pit.weigh(entry)
            self.pit.extend(entry, expiry)
        asked.out_interests += 1
        self._egress.send(face, wire)

    def _feed_hops(self, feed: bytes, past: bool) -> Sequence[NextHop] | None:
        """Return the next hops that a feed may come from; see Strategy.feed_hops."""
        ends = prefix_ends(feed)
        hops = self.fib.lookup(feed, ends)
        strategy = self.strategies.find(feed, ends)
        return strategy.feed_hops(feed, hops, past=past) if strategy.LEADS_FEEDS else hops

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
            self._nacks.receive(face, lp.fragment, lp.nack_reason, now)
        elif kind == INTEREST:
            self._interests.receive(face, lp.fragment, lp, now)
        elif kind == DATA:
            self._data.receive(face, lp.fragment, lp, now)
        elif kind:
            raise MalformedPacket("an LpPacket carries an Interest or a Data packet")
        elif self.feeds is not None:
            if lp.hello is not None:
                self.feeds.on_hello(face.number, lp.hello, now)
            elif lp.feed is not None:
                self.feeds.on_state(face.number, lp, now)
