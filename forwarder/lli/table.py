"""Feeds in a forwarder: one entry a feed, fed by one upstream, feeding every downstream that has credit.

An entry lives as long as some downstream has unspent, unexpired credit. State grows with feeds x faces
and never with items: the items stand in the verified cache, which is bounded on its own.

What comes in goes through one of the `on_...` methods; each of them changes the entry, then serves what can
be served, asks for what is wanted, and settles the entry's alarm. docs/controlled-push.md tells the rules.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from random import Random
from typing import Final

from forwarder.face import Face
from forwarder.feedcache.cache import FeedStore
from forwarder.feedcache.items import Item, RejectedItem, open_item, parse_item, verify_item, verify_run
from forwarder.fib import NextHop
from forwarder.lli.downstreams import Downstreams
from forwarder.lli.entry import FeedEntry, is_among
from forwarder.lli.forks import Forks
from forwarder.lli.upstream import Recovery
from forwarder.lli.upstreams import Upstreams
from forwarder.timers import TimerWheel
from forwarder.wire.feed import check_feed_name, split_fork, split_item
from forwarder.wire.lp import CONGESTION, DUPLICATE, NO_ROUTE, LpPacket
from forwarder.wire.packet import Data, Interest, parse_data
from forwarder.wire.tlv import MalformedPacket

RANGE_BYTES: Final = 28
"""State that a range stands for, whatever the implementation: face 4, next 8, limit 8, expiry 8 bytes."""

MOST_FEEDS_PER_FACE: Final = 512
"""Feeds that one neighbour can follow through this node: half of all, so that some are left for others."""


class Verdict(Enum):
    """What a Data packet is to the feeds of this node.

    FOREIGN: of no feed that is relayed here. ITEM: of one, and dealt with; a classic Interest may want it
    too. FORGED: it claims to be one and is not, and must go no further.
    """

    FOREIGN = 0
    ITEM = 1
    FORGED = 2


class FeedTable:
    """All feeds of a forwarder.

    Args:
        hops: called with (feed, whether for items of the past): the next hops it may come from, best first.
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
            nacks_out, failovers, forks, proofs_in, proofs_out, fetches, and rejected_<reason> for items.
    """

    def __init__(
        self,
        hops: Callable[[bytes, bool], Sequence[NextHop]],
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
        self._downstreams = Downstreams(send, faces, self.counters)
        self._upstreams = Upstreams(hops, send, fetch, faces, rng, self.counters, recovery, self._downstreams)
        self._forks = Forks(self.store, self._downstreams, faces, self.counters)
        self._timers: TimerWheel[FeedEntry] = TimerWheel()

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
        self._upstreams.heard(face)
        if entry is None:
            entry = self._open(face, feed, first, lli)
            if entry is None:
                return
        elif face not in entry.ranges and not self._has_room(face):
            self._refuse(entry, face, lli, CONGESTION, now)
            return
        elif entry.has_gone_round(lli.nonce, face):
            self.counters["loops"] += 1
            self._refuse(entry, face, lli, DUPLICATE, now)
            return
        elif face == entry.face and lli.send_credit:
            self._refuse(entry, face, lli, NO_ROUTE, now)  # it would wait for us, and we for it
            return
        if lli.hop_limit is not None:
            left = lli.hop_limit - 1
            entry.hop_limit = max(left, entry.hop_limit) if entry.ranges else left
        is_repeated = entry.ranges.is_repeated(face, lli.nonce)
        cause = (lli.nonce or 0, face) if lli.send_credit else None
        again = entry.ranges.grant(face, first, lli, now, entry.item)
        for data in again:
            self._downstreams.push(face, data.wire)
        self._downstreams.serve(entry, face, now)
        if cause is not None and lli.must_be_fresh and not is_repeated:
            entry.reissues.hear(face, cause[0])
        self._upstreams.pass_on(entry, now, cause)
        granted = entry.ranges.get(face)
        if granted is not None and entry.face is None and not entry.can_progress(granted):
            entry.ranges.drop(face)
            self._downstreams.send_nack(face, lli.wire, NO_ROUTE)
        elif granted is not None and is_repeated:
            granted.is_answered = False
        self._downstreams.answer(entry)
        self._settle(entry, now)

    def on_state(self, face: int, state: LpPacket, now: int) -> None:
        """Take in a FeedState that came without an item: the answer to an LLI."""
        self.flush(now)
        self._upstreams.heard(face)
        cache = self.store.find(state.feed or b"")
        if cache is not None:
            cache.failures.pop(face, None)
        entry = self._entries.get(state.feed or b"")
        if entry is None or face != entry.face or state.feed_state is None:
            return
        self.counters["states_in"] += 1
        entry.upstream.answered(*state.feed_state, now)
        if state.first is not None:
            self._upstreams.begins_at(entry, state.first, now)
        self._upstreams.ask(entry, now, None)
        self._downstreams.answer(entry)
        self._settle(entry, now)

    def on_nack(self, face: int, lli: Interest, reason: int, now: int) -> None:
        """Take in the refusal of an LLI that was sent upstream."""
        self.flush(now)
        parts = split_item(lli.name)
        entry = self._entries.get(parts[0]) if parts else None
        if entry is None or face != entry.face or not entry.has_sent(lli.nonce):
            return
        self.counters["nacks_in"] += 1
        entry.refused = entry.refused or not entry.displaced
        self._upstreams.fail_over(entry, reason, now)
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
        state = header.feed_state if is_upstream and header is not None else None
        known = entry.cache.get(seq)
        is_wanted = up.is_missing(seq) or (entry.backfill is not None and entry.backfill.wants(seq))
        if not is_wanted and known is not None and known.wire == data.wire:
            self.counters["rejected_duplicate"] += 1
            up.came_again(seq)
            if state is not None:
                up.answered(*state, now)
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
                self._forks.tell_again(entry, face, now)
                self._settle(entry, now)
            return Verdict.FORGED
        if state is not None:
            up.answered(*state, now)
        if is_upstream and header is not None and header.congestion_mark:
            up.congested(now)
        if is_wanted:
            self._take(entry, face, item, header, now)
        else:
            self.counters["rejected_unasked"] += 1
        self._settle(entry, now)
        return Verdict.ITEM

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
        """Verify and push what has been put off; item by item, if one signature does not do for all."""
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

    def ordered(self, name: bytes, hops: Sequence[NextHop]) -> Sequence[NextHop]:
        """Return the next hops for a classic Interest; the upstream of its feed, if it lives, comes first.

        A strategy begins anew with each Interest. One for an item that is missing would go to the cheapest
        hop again and again, though that has nothing.
        """
        parts = split_item(name)
        entry = self._entries.get(parts[0]) if parts is not None else None
        if (
            parts is None
            or entry is None
            or parts[1] < entry.upstream_first
            or not entry.upstream.is_credible
        ):
            return hops
        return sorted(hops, key=lambda hop: hop.face != entry.face)

    def remove_face(self, face: int, now: int) -> None:
        """Forget a face that has gone: what it may be sent, and what was asked of it."""
        self.flush(now)
        for entry in list(self._entries.values()):
            entry.ranges.drop(face)
            if entry.face == face:
                self._upstreams.fail_over(entry, NO_ROUTE, now, is_gone=True)
            self._settle(entry, now)
        self.store.forget_hop(face)
        self._upstreams.forget(face)  # last: failing over notes that it was silent

    def forget(self, feed: bytes, now: int) -> None:
        """Let go of a feed: refuse those that follow it here, and keep none of its items."""
        self.flush(now)
        entry = self._entries.get(feed)
        if entry is not None:
            for face, granted in entry.ranges.items():
                self._downstreams.refuse(entry, face, granted, NO_ROUTE, now)
            self._settle(entry, now)
        self.store.forget(feed)

    def face_up(self, face: int) -> None:
        """Note that a face may be tried again."""
        self._upstreams.heard(face)
        self.store.forgive(face)
        for entry in self._entries.values():
            entry.tried.discard(face)

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        return self._timers.next_deadline()

    def wake(self, now: int) -> None:
        """Expire ranges, push what was paced, probe and repair."""
        self.flush(now)
        due = self._timers.expire(now)
        for entry in due:
            self._timers.add(entry)  # _settle() moves it, and needs it in its place
        for entry in due:
            self._downstreams.expire(entry, now)
            if entry.ranges:
                self._downstreams.serve_all(entry, now)
            if entry.ranges:
                self._upstreams.wake(entry, now)
            self._settle(entry, now)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[FeedEntry]:
        return iter(self._entries.values())

    # Entries.

    def _open(self, face: int, feed: bytes, first: int, lli: Interest) -> FeedEntry | None:
        """Make the entry for the first downstream of a feed, unless there is no point in it."""
        if not lli.send_credit:
            return None
        cache = self.store.find(feed)
        can_answer = cache is not None and (cache.get(first) is not None or cache.fork is not None)
        is_at_hand = can_answer and cache is not None and first + lli.send_credit <= cache.tip + 1
        if cache is not None and not is_at_hand and is_among(cache.nonces, lli.nonce, face):
            self.counters["loops"] += 1
            self._downstreams.send_nack(face, lli.wire, DUPLICATE)
            return None
        if not can_answer and all(hop.face == face for hop in self._hops(feed, False)):
            self._downstreams.send_nack(face, lli.wire, NO_ROUTE)
            return None
        cache = self.store.open(feed) if self._has_room(face) else None
        if cache is None:
            self._downstreams.send_nack(face, lli.wire, CONGESTION)
            return None
        retained = next(iter(cache), None)
        entry = self._entries[feed] = FeedEntry(feed, cache, first)
        if retained is not None and first < retained:
            # The cache begins later: what lies before is fetched, what comes after is asked for.
            entry.upstream.skip(cache.tip + 1)
        self._timers.add(entry)
        return entry

    def _has_room(self, face: int) -> bool:
        """Tell whether a face may follow another feed."""
        if self._faces[face].is_local or len(self._entries) < MOST_FEEDS_PER_FACE:
            return True
        return sum(face in entry.ranges for entry in self._entries.values()) < MOST_FEEDS_PER_FACE

    def _settle(self, entry: FeedEntry, now: int) -> None:
        """End an entry that nobody has credit in, telling the upstream; else set its alarm."""
        if not entry.ranges:
            self._upstreams.leave(entry, now)
            entry.leave_nonces()
            self._timers.cancel(entry)
            del self._entries[entry.feed]
            self.store.close(entry.feed)
            return
        deadline = min(
            entry.ranges.first_expiry(),
            self._downstreams.next_turn(entry, now),
            self._upstreams.deadline(entry, now),
        )
        if deadline != entry.deadline:
            self._timers.cancel(entry)
            entry.deadline = deadline
            self._timers.add(entry)

    def _take(self, entry: FeedEntry, face: int, item: Item, header: LpPacket | None, now: int) -> None:
        """Deal with a verified item that somebody has waited for."""
        self._upstreams.heard(face)
        if face == entry.face:
            entry.cache.failures.pop(face, None)
        seq, up = item.seq, entry.upstream
        entry.latest = item
        entry.refused = entry.retried = False
        entry.tried.clear()
        if up.is_missing(seq):
            if seq > up.head:
                self.counters["gaps"] += 1
            up.arrived(seq, now, bare=face == entry.face and (header is None or header.feed_state is None))
            if face == entry.face:
                self._upstreams.remember(entry, now)
        elif face == entry.face:
            up.shows_life()
        if entry.backfill is not None and entry.backfill.wants(seq):
            entry.backfill.arrived(seq, item.data, face, now)
            entry.cache.past_hop = face
        if not self._repairs:
            self._downstreams.pass_on(entry, item)
        self._downstreams.serve_all(entry, now)
        self._upstreams.ask(entry, now, None)
        self._downstreams.answer(entry)

    def _refuse(self, entry: FeedEntry, face: int, lli: Interest, reason: int, now: int) -> None:
        entry.ranges.drop(face)
        self._downstreams.send_nack(face, lli.wire, reason)
        self._settle(entry, now)
