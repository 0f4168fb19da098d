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
from forwarder.feedcache.fork import Fork, open_fork
from forwarder.feedcache.items import Item, RejectedItem, open_item, parse_item, verify_run
from forwarder.fib import Fib, NextHop
from forwarder.lli.backfill import Backfill
from forwarder.lli.entry import FeedEntry, is_among
from forwarder.lli.estimates import Rtt
from forwarder.lli.ranges import MS, Range
from forwarder.lli.upstream import MAX_TRIES, NEVER, Lli, Recovery, State, Upstream
from forwarder.timers import TimerWheel
from forwarder.wire.feed import LAST_ITEM, check_feed_name, split_fork, split_item
from forwarder.wire.lp import CONGESTION, DUPLICATE, NO_ROUTE, LpPacket, make_feed_state, make_lp
from forwarder.wire.packet import Data, Interest, parse_data
from forwarder.wire.tlv import MalformedPacket

RANGE_BYTES: Final = 28
"""State that a range stands for, whatever the implementation: face 4, next 8, limit 8, expiry 8 bytes."""

MOST_FEEDS_PER_FACE: Final = 512
"""Feeds that one neighbour can follow through this node: half of all, so that some are left for others."""

_PROOF_INTERVAL: Final = 100 * MS
_SHUNNED: Final = 16_000 * MS
"""How long other next hops are preferred to one that has not answered, or has refused a feed."""
_BELIEVED: Final = 4_000 * MS
_FEW_TRIES: Final = 2
_REST: Final = 1_000 * MS
"""How long an entry, left without any way to go, waits with trying them all again."""


Cause = tuple[int, int] | None
"""The nonce of the LLI that makes a node ask upstream, and the face that it came from."""


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
        fib: where to find upstreams.
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
        fib: Fib,
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
        self._fib = fib
        self._send = send
        self._fetch = fetch
        self._is_asked = is_asked
        self._faces = faces
        self._rng = rng
        self._recovery = recovery
        self._repair = recovery if recovery is Recovery.IN_NETWORK else Recovery.NONE
        self._entries: dict[bytes, FeedEntry] = {}
        self._unverified: dict[bytes, FeedEntry] = {}  # entries with a run
        self._rtts: dict[int, Rtt] = {}
        self._fetch_rtts: dict[int, Rtt] = {}
        self._silent: dict[int, int] = {}  # face that has not answered -> until when others come first, ns
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
        self._silent.pop(face, None)
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
            self._push(face, data.wire)
        self._serve(entry, face, now)
        if cause is not None and lli.must_be_fresh and not is_repeated:
            entry.reissues.hear(face, cause[0])
        self._pass_on(entry, now, cause)
        granted = entry.ranges.get(face)
        if granted is not None and entry.face is None and not self._can_progress(entry, granted):
            entry.ranges.drop(face)
            self._send_nack(face, lli.wire, NO_ROUTE)
        elif granted is not None and is_repeated:
            granted.is_answered = False
        self._answer(entry)
        self._settle(entry, now)

    def on_state(self, face: int, state: LpPacket, now: int) -> None:
        """Take in a FeedState that came without an item: the answer to an LLI."""
        self.flush(now)
        self._silent.pop(face, None)
        cache = self.store.find(state.feed or b"")
        if cache is not None:
            cache.failures.pop(face, None)
        entry = self._entries.get(state.feed or b"")
        if entry is None or face != entry.face or state.feed_state is None:
            return
        self.counters["states_in"] += 1
        entry.upstream.answered(*state.feed_state, now)
        if state.first is not None:
            entry.upstream_first, entry.first_until = state.first, now + _BELIEVED
        if state.first is not None and state.first > entry.upstream.next:
            entry.upstream.skip(state.first)
        self._ask(entry, now, None)
        self._answer(entry)
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
        self._fail_over(entry, reason, now)
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
        self, entry: FeedEntry, face: int, seq: int, data: Data, header: LpPacket | None, now: int
    ) -> Verdict:
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
            item = open_item(entry.feed, seq, data)
            if is_wanted or entry.cache.id_of(seq) is not None or entry.cache.fork is not None:
                self._accept(entry, item, now)
        except RejectedItem as error:
            self.counters[f"rejected_{error.reason}"] += 1
            if error.reason == "fork":
                self._tell_proof(entry, face, now)
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
                    self._on_item(entry, entry.face, item.seq, item.data, header, now)

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
                self._fail_over(entry, NO_ROUTE, now, is_gone=True)
            self._settle(entry, now)
        for known in (self._rtts, self._fetch_rtts, self._silent):
            known.pop(face, None)  # last: failing over notes that it was silent

    def face_up(self, face: int) -> None:
        """Note that a face may be tried again."""
        self._silent.pop(face, None)
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
            self._expire(entry, now)
            if entry.ranges:
                self._serve_all(entry, now)
            if entry.ranges:
                llis = entry.upstream.wake(now)
                if entry.upstream.is_probing:
                    entry.reissues.probe(now)
                self._send_llis(entry, llis, None, now)
                if entry.upstream.state is State.SILENT:
                    self._fail_over(entry, NO_ROUTE, now)
                if entry.backfill is not None:
                    hops = self._past_hops(entry, entry.ranges.first_wanted())
                    self._fetch_all(entry, entry.backfill.wake(hops, now), now)
                self._pass_on(entry, now, None)
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
            self._send_nack(face, lli.wire, DUPLICATE)
            return None
        if not can_answer and all(hop.face == face for hop in self._fib.lookup(feed)):
            self._send_nack(face, lli.wire, NO_ROUTE)
            return None
        cache = self.store.open(feed) if self._has_room(face) else None
        if cache is None:
            self._send_nack(face, lli.wire, CONGESTION)
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
            if entry.face is not None:
                if entry.upstream.is_doubtful(now):
                    self._silent[entry.face] = now + _SHUNNED
                    self._note_failure(entry, entry.face, now)
                self._send_llis(entry, entry.upstream.cancel(now), None, now)
            entry.leave_nonces()
            self._timers.cancel(entry)
            del self._entries[entry.feed]
            self.store.close(entry.feed)
            return
        deadlines = [entry.ranges.first_expiry(), self._next_turn(entry, now)]
        if entry.face is None:
            deadlines.append(now + _REST)
        elif entry.ranges.last_expiry() - now >= MS:  # else there is no lifetime left to ask for
            deadlines.append(entry.upstream.deadline)
        if entry.face is not None:
            deadlines.append(entry.reissues.deadline)
        if entry.backfill is not None and entry.backfill.deadline is not None:
            deadlines.append(entry.backfill.deadline)
        deadline = min(deadlines)
        if deadline != entry.deadline:
            self._timers.cancel(entry)
            entry.deadline = deadline
            self._timers.add(entry)

    # Downstream.

    def _expire(self, entry: FeedEntry, now: int) -> None:
        """Drop the ranges whose lifetime is over.

        Some hops may have refused, and the last one kept silent for not quite long enough: who asks for short
        times would otherwise never hear of it.
        """
        if entry.refused and entry.upstream.is_doubtful(now):
            for face, granted in entry.ranges.items():
                if granted.expiry <= now and not self._can_progress(entry, granted):
                    self._refuse_range(entry, face, granted, NO_ROUTE, now)
        entry.ranges.expire(now)

    def _take(self, entry: FeedEntry, face: int, item: Item, header: LpPacket | None, now: int) -> None:
        """Deal with a verified item that somebody has waited for."""
        self._silent.pop(face, None)
        if face == entry.face:
            entry.cache.failures.pop(face, None)
        seq, up = item.seq, entry.upstream
        entry.latest = item
        entry.refused = False
        entry.tried.clear()
        if up.is_missing(seq):
            if seq > up.head:
                self.counters["gaps"] += 1
            up.arrived(seq, now, bare=face == entry.face and (header is None or header.feed_state is None))
        if entry.backfill is not None and entry.backfill.wants(seq):
            entry.backfill.arrived(seq, item.data, face, now)
            entry.cache.past_hop = face
        if self._recovery is not Recovery.IN_NETWORK:
            for downstream, granted in entry.ranges.items():
                if granted.next < seq <= granted.limit and entry.item(granted.next) is None:
                    packet = entry.ranges.send(downstream, granted, seq, item.data, entry.cache.tip)
                    self._push(downstream, packet)
        self._serve_all(entry, now)
        self._ask(entry, now, None)
        self._answer(entry)

    def _serve_all(self, entry: FeedEntry, now: int) -> None:
        for face, _ in entry.ranges.items():
            self._serve(entry, face, now)

    def _serve(self, entry: FeedEntry, face: int, now: int) -> None:
        """Send a downstream what there is for it and its link has room for."""
        granted = entry.ranges.get(face)
        fork = entry.cache.fork
        while granted is not None and face in entry.ranges:
            if fork is not None and granted.wanted >= fork.seq:
                entry.ranges.drop(face)
                self._send_proof(entry, face, fork, now)
                return
            ready = granted.ready(entry.item)
            if ready is None or self._turn(face, granted, now) > now:
                return
            packet = entry.ranges.send(face, granted, *ready, entry.tip)
            pacer = self._faces[face].pacer
            if pacer is not None:
                pacer.seen(entry.feed, now)
                granted.paced_until = pacer.next_turn(len(packet), max(now - MS, granted.paced_until))
            self._push(face, packet)

    def _turn(self, face: int, granted: Range, now: int) -> int:
        """Return when a downstream's link has room for an item, ns."""
        pacer = self._faces[face].pacer
        return 0 if pacer is None else pacer.free_at(granted.paced_until, now)

    def _next_turn(self, entry: FeedEntry, now: int) -> int:
        """Return when an item that waits for its link may go, ns."""
        turns = ((self._turn(face, r, now), r) for face, r in entry.ranges.items() if self._faces[face].pacer)
        return min((t for t, r in turns if t > now or r.ready(entry.item) is not None), default=NEVER)

    def _answer(self, entry: FeedEntry) -> None:
        """Answer the LLIs that nothing could be pushed for, if there is somebody up there who would push.

        Where the way further up is dead, silence says so, and the downstream may know a better one.
        """
        if not entry.upstream.is_credible and entry.backfill is None:
            return
        for face, granted in entry.ranges.items():
            if not granted.is_answered:
                self._send_state(entry, face, granted)

    def _send_state(self, entry: FeedEntry, face: int, granted: Range, first: int | None = None) -> None:
        granted.is_answered = True
        self.counters["states_out"] += 1
        self._send(face, make_feed_state(entry.feed, tip=entry.tip, limit=granted.limit, first=first))

    def _push(self, face: int, packet: bytes) -> None:
        self.counters["items_out"] += 1
        pacer = self._faces[face].pacer
        if pacer is not None:
            pacer.hand_over(len(packet))
        self._send(face, packet)

    def _can_progress(self, entry: FeedEntry, granted: Range) -> bool:
        """Tell whether a downstream can be served from the past, though no upstream is left."""
        is_lost = entry.backfill is not None and entry.backfill.is_lost
        is_past = granted.wanted < entry.upstream.next and self._is_past(entry, granted.wanted)
        return is_past and not is_lost

    def _refuse_all(self, entry: FeedEntry, reason: int, now: int) -> None:
        """Tell every downstream that cannot be served that it will get no more."""
        for face, granted in entry.ranges.items():
            if self._can_progress(entry, granted):
                continue
            self._refuse_range(entry, face, granted, reason, now)

    def _refuse_range(self, entry: FeedEntry, face: int, granted: Range, reason: int, now: int) -> None:
        """Tell a downstream that it will get no more."""
        credit = granted.limit - granted.next + 1
        asked = Lli(granted.next, credit, max((granted.expiry - now) // MS, 0))
        entry.ranges.drop(face)
        self._send_nack(face, asked.packet(entry.feed, granted.nonce or 0), reason)

    def _refuse(self, entry: FeedEntry, face: int, lli: Interest, reason: int, now: int) -> None:
        entry.ranges.drop(face)
        self._send_nack(face, lli.wire, reason)
        self._settle(entry, now)

    def _send_nack(self, face: int, lli: bytes, reason: int) -> None:
        self.counters["nacks_out"] += 1
        self._send(face, make_lp(lli, nack_reason=reason))

    # Upstream.

    def _pass_on(self, entry: FeedEntry, now: int, cause: Cause) -> None:
        """Ask; and pass on the reissued LLI whose turn it is, though there be nothing new to ask for."""
        reissues = entry.reissues
        is_turn = bool(entry.ranges) and reissues.has_turn(now, alone=cause is None)
        if is_turn and not self._find_way(entry, now):
            reissues.forget()
        passed_on = reissues.take(entry.ranges, now) if is_turn else None
        self._ask(entry, now, passed_on or cause)
        if passed_on is not None and reissues.is_due:
            self._send_llis(entry, entry.upstream.touch(now), passed_on, now)

    def _ask(self, entry: FeedEntry, now: int, cause: Cause) -> None:
        """Ask upstream for what downstreams may be sent and the cache does not have."""
        if not entry.ranges:
            return
        self._find_way(entry, now)
        up = entry.upstream
        first, last = entry.ranges.first_wanted(), entry.ranges.last_wanted()
        if entry.cache.fork is not None:
            last = min(last, entry.cache.fork.seq - 1)
        if first > up.next:
            up.skip(first)
        if first < up.next and self._is_past(entry, first):
            self._ask_for_the_past(entry, first, now, cause)
        elif first < up.next and self._find_way(entry, now):
            # Nobody has wanted what comes next, so far, but only what comes later.
            self._send_llis(entry, entry.upstream.rewind(first, entry.cache.max_items, now), cause, now)
        else:
            entry.backfill = None
        if entry.ranges and self._find_way(entry, now):
            # The cache is the buffer: never more under way than it can hold.
            up = entry.upstream
            limit = min(last, up.next - 1 + entry.cache.max_items, LAST_ITEM)
            self._send_llis(entry, up.want(limit, entry.ranges.last_expiry(), now), cause, now)

    def _ask_for_the_past(self, entry: FeedEntry, first: int, now: int, cause: Cause) -> None:
        """Fetch what a late joiner wants and the cache has let go."""
        if all(r.wanted > first or self._turn(face, r, now) > now for face, r in entry.ranges.items()):
            return  # nobody's link has room for it
        if now >= entry.first_until:
            entry.upstream_first = 0  # it may have found what it did not have
        if entry.item(first) is not None:
            return
        can_go_back = self._recovery is Recovery.GO_BACK_N and first >= entry.upstream_first
        if can_go_back and self._find_way(entry, now):
            self._send_llis(entry, entry.upstream.rewind(first, entry.cache.max_items, now), cause, now)
            return
        if entry.backfill is None:
            entry.backfill = Backfill(self._fetch_rtts, entry.cache.past_hop)
        if entry.upstream_first == 0 and self._find_way(entry, now):
            # An upstream that has no past says so at once, where a classic Interest gets no answer.
            entry.upstream_first, entry.first_until = 1, now + _BELIEVED
            self._send_llis(
                entry, [Lli(first, 1, max((entry.ranges.last_expiry() - now) // MS, 1))], None, now
            )
        last = next((seq for seq in entry.cache if seq > first), entry.upstream.next) - 1
        last = min(last, max(r.wanted_until for _, r in entry.ranges.items() if r.wanted <= last))
        self._fetch_all(entry, entry.backfill.want(first, last, self._past_hops(entry, first), now), now)
        if entry.backfill.is_lost:
            self._give_up_the_past(entry, last + 1)

    def _is_past(self, entry: FeedEntry, seq: int) -> bool:
        """Tell whether an item is known to exist, so that it makes sense to look for it."""
        return seq <= entry.cache.tip or seq < entry.upstream_first

    def _give_up_the_past(self, entry: FeedEntry, first: int) -> None:
        """Tell every downstream that waits for what nobody has where the feed begins here."""
        entry.backfill = None
        for face, granted in entry.ranges.items():
            if granted.wanted < first:
                granted.skip(first)
                self._send_state(entry, face, granted, first)
                entry.ranges.settle(face)

    def _past_hops(self, entry: FeedEntry, first: int) -> list[int]:
        """Return the next hops that may have an item of the past."""
        has_no_past = entry.face if first < entry.upstream_first else None
        return [face for face in self._hops(entry) if face != has_no_past]

    def _fetch_all(self, entry: FeedEntry, wanted: list[tuple[int, int]], now: int) -> None:
        for face, seq in wanted:
            self.counters["fetches"] += 1
            self._fetch(face, entry.feed, seq, now)

    def _shunned_until(self, face: int, now: int) -> int:
        """Return until when others come first, ns; 0 if they do not. Who has been silent last comes last."""
        until = self._silent.get(face, 0)
        return until if until > now else 0

    def _tries_for(self, entry: FeedEntry, face: int, now: int) -> int:
        """Return the tries after which a face counts as silent: few if it was so before, and others refuse.

        Who waits for this node gives it MAX_TRIES, and has to hear of the refusals before.
        """
        return _FEW_TRIES if entry.refused and self._shunned_until(face, now) else MAX_TRIES

    def _hops(self, entry: FeedEntry) -> list[int]:
        return [hop.face for hop in self._fib.lookup(entry.feed)]

    def _find_way(self, entry: FeedEntry, now: int) -> bool:
        """Settle on an upstream face; return whether an LLI may go there."""
        if entry.face is None and now >= entry.rest_until:
            hops = [face for face in self._hops(entry) if face not in entry.tried]
            hops.sort(key=lambda face: self._reluctance(entry, face, now))  # else by cost
            face = next(iter(hops), None)
            granted = entry.ranges.get(face) if face is not None else None
            if face is not None and (granted is None or len(entry.ranges) > 1):
                entry.displaced = granted is not None
                if granted is not None:
                    self._refuse_range(entry, face, granted, NO_ROUTE, now)
                entry.face = face
                entry.upstream = Upstream(
                    entry.upstream.next,
                    self._rtts.setdefault(face, Rtt()),
                    recovery=self._repair,
                    max_tries=self._tries_for(entry, face, now),
                )
                entry.upstream_first = 0
        return entry.face is not None and (entry.hop_limit > 0 or self._faces[entry.face].is_local)

    def _reluctance(self, entry: FeedEntry, face: int, now: int) -> tuple[bool, int]:
        """Return what puts a next hop behind others; see docs/controlled-push.md, "Failure"."""
        failed_until = max(self._shunned_until(face, now), entry.cache.failures.get(face, 0))
        return face in entry.ranges, failed_until if failed_until > now else 0

    def _note_failure(self, entry: FeedEntry, face: int, now: int) -> None:
        """Prefer others for this feed, though the face may show life for the sake of another."""
        others = {other: until for other, until in entry.cache.failures.items() if until > now}
        entry.cache.failures = others | {face: now + _SHUNNED}

    def _fail_over(self, entry: FeedEntry, reason: int, now: int, *, is_gone: bool = False) -> None:
        """Go on with the next hop that has not failed yet; with none left, refuse, or pull from the best."""
        failed = entry.face
        assert failed is not None
        if entry.upstream.state is State.SILENT:
            self._silent[failed] = now + _SHUNNED
        if not is_gone:
            self._note_failure(entry, failed, now)
        cancel = entry.upstream.cancel(now)
        if not is_gone:
            self._send_llis(entry, cancel, None, now)
        entry.leave_upstream()
        self.counters["failovers"] += 1
        entry.reissues.is_due = True
        self._ask(entry, now, None)
        if entry.face is not None:
            return
        silent = {face for face in entry.tried if self._shunned_until(face, now)}
        if is_gone:
            silent.discard(failed)
        if silent and not entry.refused and self._ask_nobody_else(entry, silent, now):
            return
        self._refuse_all(entry, reason, now)
        entry.tried.clear()
        entry.refused = False
        entry.rest_until = now + _REST

    def _ask_nobody_else(self, entry: FeedEntry, silent: set[int], now: int) -> bool:
        """Take the silence for that of a forwarder that cannot push, and pull through one, if any."""
        entry.tried -= silent
        has_way = self._find_way(entry, now)
        entry.tried.clear()
        if has_way:
            entry.upstream.assume_legacy()
            self._ask(entry, now, None)
        return entry.face is not None

    def _send_llis(self, entry: FeedEntry, llis: list[Lli], cause: Cause, now: int) -> None:
        """Send Interests upstream, the first with the nonce of the LLI that caused it, if one did."""
        if entry.face is None:
            return
        for lli in llis:
            if lli.credit is None:
                self._fetch_all(entry, [(entry.face, lli.first)], now)
                continue
            self.counters["llis_out"] += 1
            if cause is not None and entry.has_sent(cause[0]):
                cause = None
            if cause is None and lli.credit:
                cause = entry.reissues.take(entry.ranges, now)
            # The second of one nonce would be taken for a duplicate of the first.
            if cause is not None and not entry.has_sent(cause[0]):
                nonce, origin = cause
                entry.sends(nonce, origin)
            else:
                nonce = self._rng.getrandbits(32)
                entry.sends(nonce, None)
            cause = None
            packet = lli.packet(
                entry.feed, nonce, entry.hop_limit, reissued=entry.reissues.is_due and bool(lli.credit)
            )
            self._send(entry.face, packet)
        if llis:
            entry.reissues.is_due = False

    # Forks.

    def _accept(self, entry: FeedEntry, item: Item, now: int) -> None:
        """Take an item into the cache; raises RejectedItem. A fork that it proves ends the feed there."""
        before = entry.cache.fork
        try:
            self.store.accept(entry.cache, item)
        finally:
            fork = entry.cache.fork
            if fork is not None and fork is not before:
                self._stop(entry, fork, None, now)

    def _on_proof(self, face: int, data: Data, now: int) -> Verdict:
        """Take in a Data packet that may be a fork's proof."""
        parts = split_fork(data.name)
        entry = self._entries.get(parts[0]) if parts else None
        if parts is None or entry is None:
            return Verdict.FOREIGN
        try:
            fork = open_fork(entry.feed, data)
        except RejectedItem:
            self.counters["rejected_proof"] += 1
            return Verdict.FORGED
        if not self.store.stop(entry.cache, fork):
            return Verdict.ITEM
        self.counters["proofs_in"] += 1
        news = entry.cache.fork or fork
        self._stop(entry, news, face if news is fork else None, now)
        self._settle(entry, now)
        return Verdict.ITEM

    def _stop(self, entry: FeedEntry, fork: Fork, teller: int | None, now: int) -> None:
        """End a feed at its fork: everyone who follows it here is told, up and down."""
        self.counters["forks"] += 1
        if entry.face is not None and entry.face != teller:
            self._send_proof(entry, entry.face, fork, now)
        entry.upstream.stop_after(fork.seq - 1, is_known=entry.face == teller)
        entry.latest = None
        if entry.backfill is not None:
            entry.backfill.stop_at(fork.seq)
        self._serve_all(entry, now)

    def _tell_proof(self, entry: FeedEntry, face: int, now: int) -> None:
        """Tell a face again that goes on pushing what lies beyond the fork."""
        fork = entry.cache.fork
        if fork is not None and entry.proof_sent.get(face, -_PROOF_INTERVAL) + _PROOF_INTERVAL <= now:
            self._send_proof(entry, face, fork, now)

    def _send_proof(self, entry: FeedEntry, face: int, fork: Fork, now: int) -> None:
        self.counters["proofs_out"] += 1
        entry.proof_sent[face] = now
        self._send(face, fork.packet(entry.feed))
