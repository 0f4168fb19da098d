"""Feeds in a forwarder: one entry a feed, fed by one upstream, feeding every downstream that has credit.

An entry lives as long as some downstream has unspent, unexpired credit. State grows with feeds x faces
and never with items: the items stand in the verified cache, which is bounded on its own.

What comes in goes through one of the `on_...` methods; each of them changes the entry, then serves what can
be served, asks for what is wanted, and settles the entry's alarm. docs/controlled-push.md tells the rules.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from functools import partial
from random import Random
from typing import Final

from base.timers import Timers
from base.units import MS
from forwarder.feedcache.cache import FeedStore
from forwarder.feedcache.items import Item, RejectedItem, open_item, parse_item, verify_item, verify_run
from forwarder.lli.downstreams import Downstreams
from forwarder.lli.entry import FeedEntry, Memory
from forwarder.lli.forks import Forks
from forwarder.lli.neighbours import Neighbours
from forwarder.lli.upstream import Recovery
from forwarder.lli.upstreams import Upstreams
from forwarder.tables.face import Face
from forwarder.tables.fib import NextHop
from forwarder.wire.feed import check_feed_name, split_fork, split_item
from forwarder.wire.hello import Standing, parse_hello
from forwarder.wire.lp import CONGESTION, DUPLICATE, NO_ROUTE, LpPacket
from forwarder.wire.packet import Data, Interest, parse_data
from forwarder.wire.tlv import MalformedPacket

RANGE_BYTES: Final = 28
"""State that a range stands for, whatever the implementation: face 4, next 8, limit 8, expiry 8 bytes."""

REMEMBERED: Final = 16_000 * MS
"""Time for which the findings of an ended entry are remembered."""

MOST_FEEDS_PER_FACE: Final = 512
"""Feeds that one neighbour can follow through this node: half of all, so that some are left for others."""


def _nothing(seq: int) -> Data | None:
    """Have no item at hand, for a face that may not be sent any."""
    return None


class Verdict(Enum):
    """Classification of a Data packet by the feeds of this node.

    FOREIGN: of no feed that is relayed here. ITEM: of one, and dealt with; a classic Interest may want it
    too. FORGED: it claims to be one and is not, and must go no further.
    """

    FOREIGN = 0
    ITEM = 1
    FORGED = 2


class FeedTable:
    """All feeds of a forwarder.

    Args:
        hops: called with (feed, whether for items of the past): the next hops it may come from, best first;
            None if it is refused here.
        send: called with (face, packet) for everything that goes out.
        fetch: called with (face, feed, seq, now) to send a classic Interest for an item.
        is_asked: tells whether a classic Interest waits for an item of this name.
        faces: all of the forwarder's.
        rng: source of nonces.
        store: the verified cache.
        recovery: IN_NETWORK repairs here what is missing here, and pushes in order; any other passes on
            what there is, and leaves it to the consumer.

    Attributes:
        counters: llis_in, llis_out, states_in, states_out, items_in, items_out, gaps, loops, nacks_in,
            nacks_out, failovers, forks, proofs_in, proofs_out, fetches, waits, demands, hellos_in,
            hellos_out, deaths, and rejected_<reason> for items.
    """

    def __init__(
        self,
        hops: Callable[[bytes, bool], Sequence[NextHop] | None],
        send: Callable[[int, bytes], None],
        fetch: Callable[[int, bytes, int, int], None],
        is_asked: Callable[[bytes], bool],
        faces: Mapping[int, Face],
        rng: Random,
        store: FeedStore | None = None,
        recovery: Recovery = Recovery.IN_NETWORK,
    ) -> None:
        self.store = FeedStore() if store is None else store
        self.counters: Counter[str] = Counter()
        self._hops = hops
        self._is_asked = is_asked
        self._faces = faces
        self._repairs = recovery is Recovery.IN_NETWORK
        self._entries: dict[bytes, FeedEntry] = {}
        self._unverified: dict[bytes, FeedEntry] = {}  # entries with a run
        self._neighbours = Neighbours(send, faces, partial(rng.getrandbits, 32), self.counters)
        self._downstreams = Downstreams(send, faces, self.counters, self._neighbours)
        self._upstreams = Upstreams(
            hops, send, fetch, faces, rng, self.counters, recovery, self._downstreams, self._neighbours
        )
        self._forks = Forks(self.store, self._downstreams, faces, self.counters)
        self._timers: Timers[FeedEntry] = Timers()
        self._left: OrderedDict[bytes, tuple[int, Memory]] = OrderedDict()  # of ended feeds, until when (ns)
        self._have_routes_changed = False

    # What comes in.

    def on_lli(self, face: int, lli: Interest, now: int) -> None:
        """Apply an LLI from a downstream. Raises MalformedPacket if it does not name an item."""
        parts = split_item(lli.name)
        if parts is None:
            raise MalformedPacket("SendCredit in an Interest that does not name a feed item")
        self.flush(now)
        feed, first = parts
        entry = self._entries.get(feed)
        if entry is None:
            check_feed_name(feed)
        self.counters["llis_in"] += 1
        self._heard(face, now)
        if lli.is_aware:
            self._neighbours.listens(face)
        if entry is None:
            entry = self._open(face, feed, first, lli, now)
            if entry is None:
                return
        elif face not in entry.ranges and not self._has_room(face):
            self._refuse(entry, face, lli, CONGESTION, now)
            return
        elif entry.has_sent(lli.nonce):
            self.counters["loops"] += 1  # forwarders that do not know LLIs have led it back
            self._refuse(entry, face, lli, DUPLICATE, now)
            return
        could_ask = entry.hop_limit > 0
        is_repeated = entry.ranges.is_repeated(face, lli.nonce)
        may_push = self._faces[face].is_proven
        again = entry.ranges.grant(face, first, lli, now, entry.item if may_push else _nothing)
        for data in again:
            self._downstreams.push(face, data.wire, now)
        if not could_ask and entry.hop_limit > 0:
            entry.has_scouted = False
        granted = entry.ranges.get(face)
        if not lli.send_credit:
            entry.takes_back(face)
        if granted is not None and is_repeated:
            granted.is_answered = False
        self._downstreams.serve(entry, face, now)
        if not may_push:
            self._neighbours.prove(face, now)
        self._upstreams.ask(entry, now)
        self._upstreams.demand_if_needed(entry, now)
        self._downstreams.answer(entry)
        self._settle(entry, now)

    def on_state(self, face: int, state: LpPacket, now: int) -> None:
        """Take in a FeedState that came without an item: the answer to an LLI."""
        self.flush(now)
        self._heard(face, now)
        entry = self._entries.get(state.feed or b"")
        holder = None if entry is None else entry.holder(face)
        if entry is None or holder is None or state.feed_state is None:
            return
        self._neighbours.speaks(face)
        self._neighbours.agrees(face, now)
        self.counters["states_in"] += 1
        holder.answered(*state.feed_state, now)
        self._upstreams.offered(entry, face, state.evidence, now)
        if state.first is not None:
            self._upstreams.begins_at(entry, face, state.first, now)
        self._upstreams.ask(entry, now)
        self._downstreams.answer(entry)
        self._settle(entry, now)

    def on_hello(self, face: int, value: bytes, now: int) -> None:
        """Take in a Hello. Raises MalformedPacket."""
        hello = parse_hello(value)
        if self._faces[face].is_local:
            return
        self.flush(now)
        self._heard(face, now)
        news = self._neighbours.on_hello(face, hello, now)
        touched: dict[bytes, FeedEntry] = {}
        if news.proven:
            for entry in self._neighbours.of(face).granted.values():
                self._downstreams.serve(entry, face, now)
                touched[entry.feed] = entry
        for entry in news.renewed:
            granted = entry.ranges.get(face)
            if granted is not None and granted.told is not None:
                granted.expiry = max(granted.expiry, now + granted.lifetime)
                self._upstreams.ask(entry, now)
                touched[entry.feed] = entry
        for entry in news.left_alone:
            holder = entry.holder(face)
            if holder is not None:
                holder.renew_alone()
                touched[entry.feed] = entry
        for entry in news.dropped:
            entry.ranges.drop(face)
            entry.takes_back(face)
            touched[entry.feed] = entry
        for entry, standing in news.states:
            self._on_standing(entry, face, standing, now)
            touched[entry.feed] = entry
        for entry in touched.values():
            self._settle(entry, now)

    def _on_standing(self, entry: FeedEntry, face: int, standing: Standing, now: int) -> None:
        """Take in how a feed stands at a next hop."""
        holder = entry.holder(face)
        if holder is None:
            return
        if standing.next is None or standing.limit is None:
            holder.forgotten(now)  # or used up by items that are lost, or under way
            self._upstreams.ask(entry, now)
            return
        holder.answered(standing.next - 1, standing.limit, now)
        self._upstreams.offered(entry, face, standing.evidence, now)
        self._upstreams.ask(entry, now)
        self._downstreams.answer(entry)

    def on_nack(self, face: int, lli: Interest, reason: int, now: int) -> None:
        """Take in the refusal of an LLI that was sent upstream."""
        self.flush(now)
        parts = split_item(lli.name)
        entry = self._entries.get(parts[0]) if parts else None
        if entry is None or entry.holder(face) is None or not entry.has_sent(lli.nonce):
            return
        self.counters["nacks_in"] += 1
        self._upstreams.refused(entry, face, now)
        self._settle(entry, now)

    def on_fetch_nack(self, name: bytes, now: int) -> None:
        """Take in the refusal of a classic Interest that fetch() has sent."""
        self.flush(now)
        parts = split_item(name)
        entry = self._entries.get(parts[0]) if parts else None
        if parts is not None and entry is not None and entry.backfill is not None:
            entry.backfill.refused(parts[1], now)
            self._settle(entry, now)

    def on_data(self, face: int, data: Data, header: LpPacket | None, now: int) -> Verdict:
        """Take in a Data packet, with the NDNLPv2 header that it came with."""
        parts = split_item(data.name)
        if parts is None:
            self.flush(now)
            return self._on_proof(face, data, now)
        entry = self._entries.get(parts[0])
        if entry is None:
            return self._check_unfollowed(*parts, data)
        seq = parts[1]
        if self._joins_run(entry, face, seq, data, header):
            return Verdict.ITEM
        self.flush(now)
        if entry.feed not in self._entries:
            return Verdict.FOREIGN
        return self._on_item(entry, face, seq, data, header, now)

    def _on_proof(self, face: int, data: Data, now: int) -> Verdict:
        parts = split_fork(data.name)
        entry = self._entries.get(parts[0]) if parts else None
        if entry is None:
            return Verdict.FOREIGN
        try:
            if self._forks.take(entry, face, data, now):
                self._settle(entry, now)
        except RejectedItem:
            self.counters["rejected_proof"] += 1
            return Verdict.FORGED
        return Verdict.ITEM

    def _check_unfollowed(self, feed: bytes, seq: int, data: Data) -> Verdict:
        """Judge an item of a feed without an entry: forgeries must not spoil the content store."""
        if self.store.find(feed) is not None:
            try:
                open_item(feed, seq, data)
            except RejectedItem as error:
                self.counters[f"rejected_{error.reason}"] += 1
                return Verdict.FORGED
        return Verdict.FOREIGN

    def _on_item(
        self,
        entry: FeedEntry,
        face: int,
        seq: int,
        data: Data,
        header: LpPacket | None,
        now: int,
        item: Item | None = None,
    ) -> Verdict:
        """Take in item `seq` of a feed; `item` is `data` as parse_item() reads it, if that has been done."""
        self.counters["items_in"] += 1
        if entry.ranges.expire(now) and not entry.ranges:
            self._settle(entry, now)
            return Verdict.FOREIGN
        up = entry.upstream
        is_upstream = face == entry.face
        known = entry.cache.get(seq)
        is_wanted = entry.is_wanted(seq)
        if not is_wanted and known is not None and known.wire == data.wire:
            self.counters["rejected_duplicate"] += 1
            up.came_again(seq)
            self._downstreams.has_it(entry, face, seq)
            self._tell_holder(entry, face, seq, header, now)
            self._settle(entry, now)
            return Verdict.ITEM
        try:
            if item is None:
                item = parse_item(entry.feed, seq, data)
            verify_item(entry.feed, item)
            if is_wanted or entry.cache.id_of(seq) is not None or entry.cache.fork is not None:
                self._forks.accept(entry, item, now)
        except RejectedItem as error:
            self.counters[f"rejected_{error.reason}"] += 1
            if error.reason == "fork":
                self._forks.repeat_proof(entry, face, now)
                self._settle(entry, now)
            return Verdict.FORGED
        self._tell_holder(entry, face, seq, header, now)
        if is_upstream and header is not None and header.congestion_mark:
            entry.upstream.congested(seq)
        if is_wanted:
            self._take(entry, face, item, header, now)
        else:
            self.counters["rejected_unasked"] += 1
        self._settle(entry, now)
        return Verdict.ITEM

    def _tell_holder(self, entry: FeedEntry, face: int, seq: int, header: LpPacket | None, now: int) -> None:
        """Tell the holder that a verified item has come, and with which FeedState."""
        holder = entry.holder(face)
        if holder is None:
            return
        holder.passes(seq, now)
        if header is None or header.feed_state is None:
            return
        self._neighbours.speaks(face)
        self._neighbours.agrees(face, now)
        holder.answered(*header.feed_state, now)
        if header.evidence is not None:
            self._upstreams.offered(entry, face, header.evidence, now)

    def _joins_run(self, entry: FeedEntry, face: int, seq: int, data: Data, header: LpPacket | None) -> bool:
        """Put an item that extends the feed off until flush(): one signature will do for all till then."""
        up, run = entry.upstream, entry.run
        due = run[-1][0].seq + 1 if run else up.head
        if seq != due or seq > up.limit or face != entry.face or up.next != up.head:
            return False
        before = run[-1][0].id if run else entry.cache.id_of(seq - 1)
        if before is None or entry.cache.fork is not None or self._is_asked(data.name):
            return False
        try:
            item = parse_item(entry.feed, seq, data)
        except RejectedItem:
            return False
        if item.previous != before:
            return False
        run.append((item, header))
        self._unverified[entry.feed] = entry
        return True

    @property
    def is_deferring(self) -> bool:
        """Whether items wait for flush()."""
        return bool(self._unverified)

    def flush(self, now: int) -> None:
        """Verify and push the items put off, one by one if one signature does not vouch for all."""
        while self._unverified:
            _, entry = self._unverified.popitem()
            run, entry.run = entry.run, []
            with suppress(RejectedItem):
                verify_run(entry.feed, [item for item, _ in run])
            for item, header in run:
                if entry.feed in self._entries and entry.face is not None:
                    self._on_item(entry, entry.face, item.seq, item.data, header, now, item)

    def find(self, name: bytes) -> Data | None:
        """Return a verified item, or the proof of a fork, by its name, for a classic Interest."""
        parts = split_item(name)
        if parts is not None:
            return self.store.get(*parts)
        forked = split_fork(name)
        cache = self.store.find(forked[0]) if forked else None
        if cache is None or cache.fork is None or forked != (cache.feed, cache.fork.seq):
            return None
        return parse_data(cache.fork.packet(cache.feed))

    def leads_to(self, name: bytes) -> int | None:
        """Return the upstream face for a classic Interest for an item; None if the next hops are all alike.

        A strategy knows nothing of feeds: it would send such an Interest to hops that have nothing. So the
        upstream comes first, and is among those that get a repetition: what was lost is there, too.
        """
        parts = split_item(name)
        entry = self._entries.get(parts[0]) if parts is not None else None
        if parts is None or entry is None or parts[1] < entry.upstream_first:
            return None
        return entry.face if entry.is_fed or entry.upstream.is_credible else None

    def remove_face(self, face: int, now: int) -> None:
        """Drop the ranges of a face that has gone, and the grants to it."""
        self.flush(now)
        for entry in list(self._entries.values()):
            is_touched = entry.holder(face) is not None or face in entry.ranges
            entry.forget(face)
            if is_touched:
                self._upstreams.leave(entry, face, now, is_gone=True)
                self._settle(entry, now)
        self._neighbours.forget(face)

    def forget(self, feed: bytes, now: int) -> None:
        """Let go of a feed: refuse those that follow it here, and keep none of its items."""
        self.flush(now)
        entry = self._entries.get(feed)
        if entry is not None:
            for face, granted in entry.ranges.items():
                self._downstreams.refuse(entry, face, granted, NO_ROUTE, now)
            self._settle(entry, now)
        self._left.pop(feed, None)
        self.store.forget(feed)

    def routes_changed(self) -> None:
        """Note that routes, or the links that they lead over, have changed: wake() looks for better ways."""
        self._have_routes_changed = True

    def reconsider(self, face: int) -> None:
        """Note that a neighbour may carry other feeds than before, so that it is asked again."""
        for entry in self._entries.values():
            entry.refused.pop(face, None)
        self.routes_changed()

    def _recheck(self, now: int) -> None:
        for entry in list(self._entries.values()):
            self._upstreams.recheck(entry, now)
            self._settle(entry, now)

    def _heard(self, face: int, now: int) -> None:
        """Note a packet from a face: a neighbour that was dead may be asked again."""
        if self._neighbours.heard(face, now):
            self._have_routes_changed = True

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        if self._have_routes_changed and self._entries:
            return 0
        feeds, links = self._timers.next_deadline(), self._neighbours.next_deadline()
        return links if feeds is None or (links is not None and links < feeds) else feeds

    def wake(self, now: int) -> None:
        """Expire ranges, push what was paced, probe and repair."""
        self.flush(now)
        if self._have_routes_changed:
            self._have_routes_changed = False
            self._recheck(now)
        for neighbour in self._neighbours.wake(now):
            for entry in list(neighbour.held.values()):
                self._upstreams.leave(entry, neighbour.face, now, is_gone=True)
                self._settle(entry, now)
        due = self._timers.expire(now)
        for entry in due:
            entry.ranges.expire(now)
            if entry.ranges:
                self._downstreams.serve_all(entry, now)
            if entry.ranges:
                self._upstreams.wake(entry, now)
            self._settle(entry, now)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[FeedEntry]:
        return iter(self._entries.values())

    def remembered(self) -> Iterator[tuple[bytes, int, Memory]]:
        """Iterate over feeds whose entries have ended, until when (ns) and what is still known of them."""
        return ((feed, until, memory) for feed, (until, memory) in self._left.items())

    # Entries.

    def _open(self, face: int, feed: bytes, first: int, lli: Interest, now: int) -> FeedEntry | None:
        """Make the entry for the first downstream of a feed, unless there is no room for it."""
        if not lli.send_credit:
            return None
        if self._hops(feed, False) is None:
            self._downstreams.send_nack(face, lli.wire, NO_ROUTE)
            return None
        cache = self.store.open(feed) if self._has_room(face) else None
        if cache is None:
            self._downstreams.send_nack(face, lli.wire, CONGESTION)
            return None
        entry = self._entries[feed] = FeedEntry(feed, cache, first, now)
        self._forget_left(now)
        if feed in self._left:
            entry.remember(self._left.pop(feed)[1])
        retained = next(iter(cache), None)
        if retained is not None and first < retained:
            # The cache begins later: what lies before is fetched, what comes after is asked for.
            entry.upstream.skip(cache.tip + 1)
        return entry

    def _has_room(self, face: int) -> bool:
        """Return whether a face may follow another feed."""
        return self._faces[face].is_local or self._neighbours.follows(face) < MOST_FEEDS_PER_FACE

    def _settle(self, entry: FeedEntry, now: int) -> None:
        """End an entry that nobody has credit in, telling the upstream; else set its alarm."""
        if not entry.ranges:
            self._upstreams.end(entry, now)
            self._neighbours.index(entry)
            self._timers.set(entry, None)
            del self._entries[entry.feed]
            if not self._entries:
                self._neighbours.rest()
            self.store.close(entry.feed)
            self._left[entry.feed] = now + REMEMBERED, entry.memory()
            self._forget_left(now)
            return
        if entry.ranges.is_changed or entry.has_moved:
            entry.ranges.is_changed = entry.has_moved = False
            self._neighbours.index(entry)
        deadline = min(
            entry.ranges.first_expiry(),
            self._downstreams.next_turn(entry, now),
            self._upstreams.deadline(entry, now),
        )
        self._timers.set(entry, deadline)

    def _forget_left(self, now: int) -> None:
        while self._left:
            until, _ = next(iter(self._left.values()))
            if until > now and len(self._left) <= self.store.max_feeds:
                break
            self._left.popitem(last=False)

    def _take(self, entry: FeedEntry, face: int, item: Item, header: LpPacket | None, now: int) -> None:
        """Deal with a verified item that somebody has waited for."""
        self._heard(face, now)
        seq = item.seq
        entry.latest = item
        self._upstreams.delivered(entry, face)
        if entry.upstream.is_missing(seq):
            if seq > entry.upstream.head:
                self.counters["gaps"] += 1
            is_bare = face == entry.face and (header is None or header.feed_state is None)
            entry.upstream.arrived(seq, now, size=len(item.data.wire), bare=is_bare)
        elif face == entry.face:
            entry.upstream.shows_life()
        if entry.backfill is not None and entry.backfill.wants(seq):
            entry.backfill.arrived(seq, item.data, face, now)
            entry.cache.past_hop = face
        else:  # what came by name may be from a content store, and show nothing of the feed there
            self._downstreams.has_it(entry, face, seq)
        if entry.gone is not None and entry.gone[0] <= seq <= entry.gone[1]:
            entry.gone = None  # somebody has it after all, but not yet those that have been told
            entry.look_again()
        if not self._repairs:
            self._downstreams.pass_on(entry, item, now)
        self._downstreams.serve_all(entry, now)
        self._upstreams.ask(entry, now)
        self._downstreams.answer(entry)

    def _refuse(self, entry: FeedEntry, face: int, lli: Interest, reason: int, now: int) -> None:
        entry.ranges.drop(face)
        self._downstreams.send_nack(face, lli.wire, reason)
        self._settle(entry, now)
