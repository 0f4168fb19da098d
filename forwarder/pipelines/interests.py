"""Interests: admission, caches, loops, PIT, strategy."""

from collections.abc import Sequence
from typing import Final

from base.units import MS
from forwarder.pipelines.nacks import NackPipeline
from forwarder.pipelines.tables import LOCALHOST, SCOPED, Tables
from forwarder.strategies.strategy import Strategy
from forwarder.tables.face import Face, LinkType
from forwarder.tables.fib import NextHop
from forwarder.tables.pit import InRecord, PitEntry, Tags, compact
from forwarder.wire.lp import CONGESTION, DUPLICATE, NO_ROUTE, LpPacket
from forwarder.wire.name import PARAMETERS_DIGEST, components, prefix_ends
from forwarder.wire.packet import MOST_LIFETIME_MS, Interest, parse_interest
from forwarder.wire.persistent import is_persistent
from forwarder.wire.tlv import MalformedPacket

_DIGEST_HEADER: Final = bytes((PARAMETERS_DIGEST, 32))


class InterestPipeline:
    """Interests in, and Interests out; `persistent` and `observable` are as in Forwarder."""

    def __init__(self, tables: Tables, nacks: NackPipeline, *, persistent: bool, observable: bool) -> None:
        self.tables = tables
        self._egress = nacks.egress
        self._next_hops = nacks.next_hops
        self._nacks = nacks
        self._feeds = tables.feeds
        self._persistent = persistent
        self._is_observable = observable

    def receive(self, face: Face, packet: bytes, header: LpPacket | None, now: int) -> None:
        """Process an Interest that came in on a face; raise MalformedPacket if it is none."""
        tables = self.tables
        interest = parse_interest(packet)
        ends = prefix_ends(interest.name)
        interest = self._complete(interest)
        face.in_interests += 1
        if not self._is_admitted(face, interest):
            return
        if (feeds := self._feeds) is not None and interest.send_credit is not None:
            feeds.on_lli(face.number, interest, now)
            return
        nonce, token = interest.nonce or 0, None if header is None else header.pit_token
        # An item may have been in the feeds' cache for long: it does not count as fresh.
        if feeds is not None and len(feeds.store) and not interest.must_be_fresh:
            item = feeds.find(interest.name)
            if item is not None:
                tables.counters.cs_hits += 1
                self._egress.send_data(face, item.wire, token, now)
                return
        entry = tables.pit.find(interest)
        # On a shared link, the same nonce again may come from another node.
        heard = face.number if face.link_type is LinkType.POINT_TO_POINT else -1
        is_loop = entry is not None and entry.is_loop(heard, nonce)
        persistent = self._persistent and is_persistent(interest)
        if not is_loop and not persistent:  # a persistent one asks for Data to come
            if data := tables.cs.find(interest, now):
                tables.counters.cs_hits += 1
                self._egress.send_data(face, data.wire, token, now)
                return
            tables.counters.cs_misses += 1
        if is_loop or (
            len(tables.dead_nonces)
            and tables.dead_nonces.has(interest.name, nonce, now)
            and (entry is None or not entry.waits_for(face.number, nonce))
        ):
            tables.counters.looped += 1
            if entry is None or not entry.waits_for(heard, nonce):  # else a copy: the first one is pending
                self._egress.send_nack(face, interest.wire, DUPLICATE, token)
            return
        expiry = now + min(interest.lifetime_ms, MOST_LIFETIME_MS) * MS
        record = InRecord(face.number, nonce, expiry, token, interest.wire, persistent)
        if entry is not None:
            tables.counters.aggregated += entry.set_in_record(record)
            entry.tags = None
        elif len(tables.pit) < tables.pit_capacity:
            entry = tables.pit.insert(interest)
            entry.strategy = tables.strategies.find(interest.name, ends)
            entry.in_records.append(record)
        else:
            tables.counters.pit_full += 1
            self._egress.send_nack(face, interest.wire, CONGESTION, token)
            return
        face.touches.append(entry)
        if len(face.touches) > face.most_touches:
            compact(face)
        if persistent:
            entry.begin_passing(now)
        self._forward(entry, face, interest, ends, header, expiry, now)
        tables.pit.weigh(entry)

    def _complete(self, interest: Interest) -> Interest:
        """Add a missing nonce, and remove a hint that has led here; raise MalformedPacket."""
        name = interest.name
        if name.count(_DIGEST_HEADER) > 1 and sum(k == PARAMETERS_DIGEST for k, _ in components(name)) > 1:
            raise MalformedPacket("a Name has one ParametersSha256DigestComponent at most")
        if interest.nonce is None:
            interest = parse_interest(interest.with_nonce(self.tables.rng.getrandbits(32)))
        if interest.forwarding_hint and self._has_arrived(interest):
            interest = parse_interest(interest.without_hint())
        return interest

    def _is_admitted(self, face: Face, interest: Interest) -> bool:
        """Return whether an Interest has hops left and keeps to its scope."""
        if interest.hop_limit == 0:
            self.tables.counters.hop_limit_reached += 1
            return False
        if not face.is_local and interest.name.startswith(LOCALHOST):
            self.tables.counters.out_of_scope += 1
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
        """Send a pending Interest to the faces that its strategy chooses, or refuse it."""
        name, nonce = interest.name, interest.nonce or 0
        mark = 0
        if header is not None:
            mark = header.congestion_mark
            if header.next_hop_face is not None:
                self.tables.pit.extend(entry, expiry)
                chosen = self.tables.faces.get(header.next_hop_face)
                if chosen is not None and chosen.is_up:
                    self._egress.send_interest(entry, interest, nonce, chosen.number, expiry, now, mark)
                return
            if header.non_discovery:
                entry.tags = Tags(non_discovery=True)
        hops: Sequence[NextHop] = self.tables.fib.lookup(name, ends)
        is_scoped = name.startswith(SCOPED)
        if is_scoped or len(hops) != 1 or hops[0].face == face.number or interest.forwarding_hint:
            hops = self._next_hops.allowed(entry, face, interest, hops, is_scoped)
        upstream = None
        if self._feeds is not None and len(self._feeds) and len(hops) > 1:
            upstream = self._feeds.leads_to(name)
            if upstream is not None:
                hops = sorted(hops, key=lambda hop: hop.face != upstream)
        strategy: Strategy = entry.strategy
        faces = strategy.after_interest(entry, face.number, hops, now)
        if upstream is not None and faces and hops[0].face == upstream and upstream not in faces:
            faces = (upstream, *faces)  # a repetition: the Interest may have been lost, and not the hop
        is_strict = strategy.IS_STRICT and len(entry.in_records) > 1
        if faces is None and (is_strict or entry.is_pending(now)):
            # Other downstreams wait, or another upstream may still answer.
            if is_strict or not entry.is_pending(now, but=face.number):
                self.tables.counters.no_route += 1
                entry.drop_in_record(face.number)
                token = None if header is None else header.pit_token
                self._egress.send_nack(face, interest.wire, NO_ROUTE, token)
            return
        if faces or not self._is_observable or not face.is_local or entry.deadline < 0:
            self.tables.pit.extend(entry, expiry)
        if faces is None:
            self.tables.counters.no_route += 1
            self._nacks.refuse(entry, NO_ROUTE, now)
            return
        for out in faces:
            self._egress.send_interest(entry, interest, nonce, out, expiry, now, mark)
        if faces and strategy.PROBES:
            for out in strategy.probe(entry, face.number, hops, now):
                other = self.tables.rng.getrandbits(32)
                self._egress.send_interest(
                    entry, parse_interest(interest.with_nonce(other)), other, out, expiry, now
                )

    def _has_arrived(self, interest: Interest) -> bool:
        """Return whether a hint names a region of this node; raise MalformedPacket for its names."""
        for hint in interest.forwarding_hint:
            prefix_ends(hint)
        # Of well-formed names, the beginning of one is a prefix of it.
        regions = tuple(self.tables.regions)
        return any(hint.startswith(regions) for hint in interest.forwarding_hint)
