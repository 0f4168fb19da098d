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

from forwarder.content_store import ContentStore
from forwarder.feedcache.cache import FeedStore
from forwarder.fib import Fib
from forwarder.lli.relay import RANGE_BYTES, FeedTable, Verdict
from forwarder.pit import RECORD_BYTES, InRecord, OutRecord, Pit
from forwarder.strategy import BestRoute, Strategy
from forwarder.wire.lp import DUPLICATE, NO_ROUTE, LpPacket, make_lp, parse_lp
from forwarder.wire.name import prefix_ends
from forwarder.wire.packet import DATA, INTEREST, parse_data, parse_interest
from forwarder.wire.tlv import MalformedPacket

MS = 1_000_000


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
        strategy: where Interests go; best-route if None.
        cs_capacity: Data packets that the content store holds at most.
        controlled_push: False makes this a forwarder that has never heard of LLIs.
        feed_store: bounds of the verified feed cache.

    Faces are small integers that the caller chooses; every face must be added before use.
    """

    def __init__(
        self,
        *,
        rng: Random,
        strategy: Strategy | None = None,
        cs_capacity: int = 65536,
        controlled_push: bool = True,
        feed_store: FeedStore | None = None,
    ) -> None:
        self.fib = Fib()
        self.pit = Pit()
        self.cs = ContentStore(cs_capacity)
        self.counters = Counters()
        self._outputs: list[tuple[int, bytes]] = []
        self.feeds = (
            FeedTable(self.fib, self._send, self._is_local, rng, feed_store) if controlled_push else None
        )
        self._strategy: Strategy = strategy or BestRoute()
        self._rng = rng
        self._network_faces: set[int] = set()

    def add_face(self, face: int, *, local: bool = False) -> None:
        """Add a face; `local` if an application of this node is behind it."""
        if not local:
            self._network_faces.add(face)

    def remove_face(self, face: int, now: int) -> None:
        """Remove a face with its routes, what it was waiting for and what was asked of it."""
        self._network_faces.discard(face)
        self.fib.remove_face(face)
        for entry in list(self.pit):
            entry.drop_in_record(face)
            entry.drop_out_record(face)
            if not entry.in_records:
                self.pit.remove(entry)
        if self.feeds is not None:
            self.feeds.remove_face(face, now)

    def receive(self, face: int, packet: bytes, now: int) -> None:
        """Process one packet, bare or in an unfragmented LpPacket, that came in on `face` at `now` (ns)."""
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
        outputs = self._outputs[:]
        self._outputs.clear()
        return outputs

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns; None if nothing is pending."""
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
        """Return the number of pending entries: one a classic Interest, one a subscribed feed."""
        return len(self.pit) + (len(self.feeds) if self.feeds is not None else 0)

    def pit_bytes(self) -> int:
        """Return the state that those entries stand for, in bytes.

        Name, plus RECORD_BYTES a record, plus RANGE_BYTES a range and for a feed's upstream. Only faces to
        the network count: state towards local applications shows on no wire, and what cannot be seen
        from packets could not be checked against them.
        """
        faces = self._network_faces
        total = 0
        for entry in self.pit:
            total += len(entry.key[0])
            total += RECORD_BYTES * sum(record.face in faces for record in entry.in_records)
            total += RECORD_BYTES * sum(record.face in faces for record in entry.out_records)
        for feed in self.feeds or ():
            total += len(feed.feed)
            total += RANGE_BYTES * sum(face in faces for face, _ in feed.ranges.items())
            total += RANGE_BYTES * (feed.face in faces)
        return total

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

    def _on_interest(self, face: int, packet: bytes, token: bytes | None, now: int) -> None:
        interest = parse_interest(packet)
        ends = prefix_ends(interest.name)
        nonce = interest.nonce
        if nonce is None:
            nonce = self._rng.getrandbits(32)
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
        if data := self.cs.find(interest, now):
            counters.cs_hits += 1
            self._send_data(face, data.wire, token)
            return
        counters.cs_misses += 1

        hops = self.fib.lookup(interest.name, ends)
        if entry is None:
            entry = self.pit.insert(interest)
        expiry = now + interest.lifetime_ms * MS
        entry.set_in_record(InRecord(face, nonce, expiry, token, interest.wire))
        self.pit.extend(entry, expiry)
        faces = self._strategy.after_interest(entry, face, hops, now)
        if faces is None:
            counters.no_route += 1
            self._send_nack(face, interest.wire, NO_ROUTE, token)
            self.pit.remove(entry)
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
        verdict = feeds.on_data(data, header, now) if feeds is not None and len(feeds) else Verdict.FOREIGN
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
            self.pit.remove(entry)
            for record in entry.in_records:
                if record.face != face and record.expiry > now:
                    waiting[record.face, record.token] = None
        for out, token in waiting:
            self._send_data(out, packet, token)

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
            self.pit.remove(entry)
            for waiting in entry.in_records:
                self._send_nack(waiting.face, waiting.wire, reason, waiting.token)

    def _send_data(self, face: int, packet: bytes, token: bytes | None) -> None:
        self.counters.out_data += 1
        self._outputs.append((face, packet if token is None else make_lp(packet, pit_token=token)))

    def _send_nack(self, face: int, packet: bytes, reason: int, token: bytes | None) -> None:
        self.counters.out_nacks += 1
        self._outputs.append((face, make_lp(packet, nack_reason=reason, pit_token=token)))
