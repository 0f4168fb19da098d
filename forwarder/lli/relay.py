"""Feeds in a forwarder: one entry a feed, fed by one upstream, feeding every downstream that has credit.

An entry lives as long as some downstream has unspent, unexpired credit. State grows with feeds x faces
and never with items: the items stand in the verified cache, which is bounded on its own.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from enum import Enum
from random import Random

from forwarder.feedcache.cache import FeedCache, FeedStore
from forwarder.feedcache.items import RejectedItem, open_item
from forwarder.fib import Fib
from forwarder.lli.ranges import LAST_ITEM, MS, Ranges
from forwarder.lli.upstream import NEVER, Lli, Upstream
from forwarder.timers import TimerWheel
from forwarder.wire.feed import check_feed_name, split_item
from forwarder.wire.lp import NO_ROUTE, LpPacket, make_lp
from forwarder.wire.packet import SENT_HOP_LIMIT, Data, Interest
from forwarder.wire.tlv import MalformedPacket

RANGE_BYTES = 28
"""State that a range stands for, whatever the implementation: face 4, next 8, limit 8, expiry 8 bytes."""


class Verdict(Enum):
    """What a Data packet is to the feeds of this node.

    FOREIGN: of no feed that is relayed here. ITEM: of one, and dealt with; a classic Interest may want it
    too. FORGED: it claims to be one and is not, and must go no further.
    """

    FOREIGN = 0
    ITEM = 1
    FORGED = 2


class FeedEntry:
    """A feed that downstreams of this node have credit for.

    Attributes:
        feed: its name.
        ranges: what each downstream may still be sent.
        cache: its verified items.
        face: the upstream face, None while there is no way to go.
        upstream: what was asked there.
        nonce: of the newest LLI sent there.
        hop_limit: for the LLIs sent there.
        deadline: when the entry wants to be woken, ns.
    """

    __slots__ = ("cache", "deadline", "face", "feed", "hop_limit", "nonce", "ranges", "upstream")

    def __init__(self, feed: bytes, cache: FeedCache, first: int) -> None:
        self.feed = feed
        self.ranges = Ranges()
        self.cache = cache
        self.face: int | None = None
        self.upstream = Upstream(first)
        self.nonce: int | None = None
        self.hop_limit = SENT_HOP_LIMIT
        self.deadline = NEVER


class FeedTable:
    """All feeds of a forwarder.

    Args:
        fib: where to find upstreams.
        send: called with (face, packet) for everything that goes out.
        is_local: tells whether a face leads to an application of this node.
        rng: source of nonces.
        store: the verified cache.

    Attributes:
        counters: llis_in, llis_out, items_in, items_out, gaps, loops, nacks_in, nacks_out, and
            rejected_<reason> for items.
    """

    def __init__(
        self,
        fib: Fib,
        send: Callable[[int, bytes], None],
        is_local: Callable[[int], bool],
        rng: Random,
        store: FeedStore | None = None,
    ) -> None:
        self.store = FeedStore() if store is None else store
        self.counters: Counter[str] = Counter()
        self._fib = fib
        self._send = send
        self._is_local = is_local
        self._rng = rng
        self._entries: dict[bytes, FeedEntry] = {}
        self._timers: TimerWheel[FeedEntry] = TimerWheel()

    def on_lli(self, face: int, lli: Interest, now: int) -> None:
        """Apply an LLI from a downstream. Raises MalformedPacket if it does not name an item."""
        parts = split_item(lli.name)
        if parts is None:
            raise MalformedPacket("SendCredit in an Interest that does not name a feed item")
        feed, first = parts
        entry = self._entries.get(feed)
        if entry is None:
            check_feed_name(feed)
        self.counters["llis_in"] += 1
        if entry is None:
            if not lli.send_credit:
                return
            entry = self._entries[feed] = FeedEntry(feed, self.store.open(feed), first)
            self._timers.add(entry)
        elif lli.nonce == entry.nonce and not entry.ranges.is_repeated(face, lli.nonce):
            self.counters["loops"] += 1
            return
        if lli.hop_limit is not None:
            left = lli.hop_limit - 1
            entry.hop_limit = max(left, entry.hop_limit) if entry.ranges else left
        entry.ranges.grant(face, first, lli, now)
        self._serve(entry, face, entry.cache.get)
        self._ask(entry, now, lli.nonce)
        if entry.face is None and entry.ranges.drop(face):
            self._send_nack(face, lli.wire, NO_ROUTE)
        self._settle(entry, now)

    def on_nack(self, face: int, lli: Interest, reason: int, now: int) -> None:
        """Take in the refusal of an LLI that was sent upstream: nobody downstream will get more."""
        parts = split_item(lli.name)
        entry = self._entries.get(parts[0]) if parts else None
        if entry is None or face != entry.face or lli.nonce != entry.nonce:
            return
        self.counters["nacks_in"] += 1
        entry.face = None
        self._refuse_all(entry, reason, now)
        self._settle(entry, now)

    def on_data(self, data: Data, header: LpPacket | None, now: int) -> Verdict:
        """Take in a Data packet, with the NDNLPv2 header that it came with."""
        parts = split_item(data.name)
        entry = self._entries.get(parts[0]) if parts else None
        if parts is None or entry is None:
            return Verdict.FOREIGN
        seq = parts[1]
        self.counters["items_in"] += 1
        entry.ranges.expire(now)
        if not entry.ranges:
            self._settle(entry, now)
            return Verdict.FOREIGN
        up = entry.upstream
        known = entry.cache.get(seq)
        if seq < up.next and known is not None and known.wire == data.wire:
            self.counters["rejected_duplicate"] += 1
            return Verdict.ITEM
        try:
            item = open_item(entry.feed, seq, data)
            if seq == up.next or seq <= entry.cache.tip:
                entry.cache.accept(item)
        except RejectedItem as error:
            self.counters[f"rejected_{error.reason}"] += 1
            return Verdict.FORGED
        if seq < up.next:
            self.counters["rejected_duplicate"] += 1
        elif seq > up.next:
            self.counters["gaps"] += 1
            self._send_lli(entry, up.missed(seq, now), None)
        else:
            self.store.touch(entry.feed)
            if header is not None and header.tip is not None:
                up.heard(header.tip)
            up.arrived(now)
            self._push(entry, seq, data)
            self._ask(entry, now, None)
        self._settle(entry, now)
        return Verdict.ITEM

    def find(self, name: bytes) -> Data | None:
        """Return a verified item by its name, for a classic Interest."""
        parts = split_item(name)
        return self.store.get(*parts) if parts else None

    def remove_face(self, face: int, now: int) -> None:
        """Forget a downstream that has gone; ask another upstream if that is what has gone."""
        for entry in list(self._entries.values()):
            entry.ranges.drop(face)
            if entry.face == face:
                entry.face = None
                entry.upstream = Upstream(entry.upstream.next)
                self._ask(entry, now, None)
                if entry.face is None:
                    self._refuse_all(entry, NO_ROUTE, now)
            self._settle(entry, now)

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        return self._timers.next_deadline()

    def wake(self, now: int) -> None:
        """Expire ranges, probe upstreams."""
        for entry in self._timers.expire(now):
            self._timers.add(entry)  # _settle() moves it, and needs it in its place
            entry.ranges.expire(now)
            if entry.ranges and entry.upstream.deadline <= now:
                self._send_lli(entry, entry.upstream.wake(now), None)
            self._settle(entry, now)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[FeedEntry]:
        return iter(self._entries.values())

    def _push(self, entry: FeedEntry, seq: int, data: Data) -> None:
        """Send the item that has just arrived to every downstream that waits for it, then what follows."""
        # The cache may have let go of an old item already, fetched again for a late joiner.
        arrived = {seq: data}
        for face, _ in entry.ranges.items():
            self._serve(entry, face, lambda number: arrived.get(number) or entry.cache.get(number))

    def _serve(self, entry: FeedEntry, face: int, get: Callable[[int], Data | None]) -> None:
        """Send a downstream what there is for it."""
        for packet in entry.ranges.serve(face, get, entry.cache.tip):
            self.counters["items_out"] += 1
            self._send(face, packet)

    def _ask(self, entry: FeedEntry, now: int, nonce: int | None) -> None:
        """Ask upstream for what downstreams may be sent and the cache does not have."""
        if not entry.ranges or not self._find_way(entry):
            return
        first = entry.ranges.first_wanted()
        up = entry.upstream
        if first < up.next or first > up.limit + 1:
            # A late joiner wants what the cache has let go, or the cache has served beyond what was asked.
            # The old range is cancelled, or the upstream would fill the gap between the two.
            self._send_lli(entry, up.cancel(now), None)
            up = entry.upstream = Upstream(first)
        # The cache is the buffer: never more under way than it can hold.
        limit = min(entry.ranges.last_wanted(), first - 1 + entry.cache.max_items, LAST_ITEM)
        self._send_lli(entry, up.want(limit, entry.ranges.last_expiry(), now), nonce)

    def _find_way(self, entry: FeedEntry) -> bool:
        """Settle on an upstream face; return whether an LLI may go there."""
        if entry.face is None:
            hops = self._fib.lookup(entry.feed)
            entry.face = next((hop.face for hop in hops if hop.face not in entry.ranges), None)
        return entry.face is not None and (entry.hop_limit > 0 or self._is_local(entry.face))

    def _send_lli(self, entry: FeedEntry, lli: Lli | None, nonce: int | None) -> None:
        """Send an LLI upstream, with the nonce of the downstream's LLI that caused it, if one did."""
        if lli is None or entry.face is None:
            return
        self.counters["llis_out"] += 1
        sent = entry.nonce = self._rng.getrandbits(32) if nonce is None else nonce
        self._send(entry.face, lli.packet(entry.feed, sent, entry.hop_limit))

    def _refuse_all(self, entry: FeedEntry, reason: int, now: int) -> None:
        """Tell every downstream that it will get no more."""
        for face, granted in entry.ranges.items():
            credit = granted.limit - granted.next + 1
            asked = Lli(granted.next, credit, max((granted.expiry - now) // MS, 0))
            entry.ranges.drop(face)
            self._send_nack(face, asked.packet(entry.feed, granted.nonce or 0), reason)

    def _send_nack(self, face: int, lli: bytes, reason: int) -> None:
        self.counters["nacks_out"] += 1
        self._send(face, make_lp(lli, nack_reason=reason))

    def _settle(self, entry: FeedEntry, now: int) -> None:
        """End an entry that nobody has credit in, telling the upstream; else set its alarm."""
        if not entry.ranges:
            self._timers.cancel(entry)
            del self._entries[entry.feed]
            if entry.face is not None:
                self._send_lli(entry, entry.upstream.cancel(now), None)
            return
        deadline = min(entry.ranges.first_expiry(), entry.upstream.deadline)
        if deadline != entry.deadline:
            self._timers.cancel(entry)
            entry.deadline = deadline
            self._timers.add(entry)
