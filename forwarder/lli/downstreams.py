"""What a relay sends its downstreams: items under their credit, answers to their LLIs, and refusals."""

from collections import Counter
from collections.abc import Callable, Mapping

from forwarder.face import Face
from forwarder.feedcache.fork import Fork
from forwarder.feedcache.items import Item
from forwarder.lli.entry import FeedEntry
from forwarder.lli.ranges import MS, Range
from forwarder.lli.upstream import NEVER, Lli
from forwarder.wire.lp import NO_ROUTE, make_feed_state, make_lp


class Downstreams:
    """The downstream side of all feeds of a forwarder; the arguments are FeedTable's."""

    def __init__(
        self, send: Callable[[int, bytes], None], faces: Mapping[int, Face], counters: Counter[str]
    ) -> None:
        self._send = send
        self._faces = faces
        self._counters = counters

    def serve_all(self, entry: FeedEntry, now: int) -> None:
        """Send all downstreams what there is for them."""
        for face, _ in entry.ranges.items():
            self.serve(entry, face, now)

    def serve(self, entry: FeedEntry, face: int, now: int) -> None:
        """Send a downstream what there is for it and its link has room for."""
        granted = entry.ranges.get(face)
        fork = entry.cache.fork
        while granted is not None and face in entry.ranges:
            if fork is not None and granted.wanted >= fork.seq:
                entry.ranges.drop(face)
                self.send_proof(entry, face, fork, now)
                return
            ready = granted.ready(entry.item)
            if ready is None or not self.has_room(face, granted, now):
                return
            packet = entry.ranges.send(face, granted, *ready, entry.tip)
            pacer = self._faces[face].pacer
            if pacer is not None:
                pacer.seen(entry.feed, now)
                granted.paced_until = pacer.next_turn(len(packet), max(now - MS, granted.paced_until))
            self.push(face, packet)

    def pass_on(self, entry: FeedEntry, item: Item) -> None:
        """Send an item that comes before its turn to all who may have it: they repair for themselves."""
        for face, granted in entry.ranges.items():
            if granted.next < item.seq <= granted.limit and entry.item(granted.next) is None:
                self.push(face, entry.ranges.send(face, granted, item.seq, item.data, entry.cache.tip))

    def answer(self, entry: FeedEntry) -> None:
        """Answer the LLIs that nothing could be pushed for, if there is somebody up there who would push.

        Where the way further up is dead, silence says so, and the downstream may know a better one.
        """
        if not entry.upstream.is_credible and entry.backfill is None:
            return
        for face, granted in entry.ranges.items():
            if not granted.is_answered:
                self.send_state(entry, face, granted)

    def send_state(self, entry: FeedEntry, face: int, granted: Range, first: int | None = None) -> None:
        """Answer an LLI by the feed's state; `first` says where the feed begins here."""
        granted.is_answered = True
        self._counters["states_out"] += 1
        self._send(face, make_feed_state(entry.feed, tip=entry.tip, limit=granted.limit, first=first))

    def refuse_all(self, entry: FeedEntry, reason: int, now: int) -> None:
        """Tell every downstream that cannot be served that it will get no more."""
        for face, granted in entry.ranges.items():
            if entry.can_progress(granted):
                continue
            self.refuse(entry, face, granted, reason, now)

    def refuse(self, entry: FeedEntry, face: int, granted: Range, reason: int, now: int) -> None:
        """Tell a downstream that it will get no more."""
        credit = granted.limit - granted.next + 1
        asked = Lli(granted.next, credit, max((granted.expiry - now) // MS, 0))
        entry.ranges.drop(face)
        self.send_nack(face, asked.packet(entry.feed, granted.nonce or 0), reason)

    def expire(self, entry: FeedEntry, now: int) -> None:
        """Drop the ranges whose lifetime is over.

        Some hops may have refused, and the last one kept silent for not quite long enough: who asks for short
        times would otherwise never hear of it.
        """
        if entry.refused and entry.upstream.is_doubtful(now):
            for face, granted in entry.ranges.items():
                if granted.expiry <= now and not entry.can_progress(granted):
                    self.refuse(entry, face, granted, NO_ROUTE, now)
        entry.ranges.expire(now)

    def send_nack(self, face: int, lli: bytes, reason: int) -> None:
        """Refuse an LLI."""
        self._counters["nacks_out"] += 1
        self._send(face, make_lp(lli, nack_reason=reason))

    def send_proof(self, entry: FeedEntry, face: int, fork: Fork, now: int) -> None:
        """Send a face the proof of a fork."""
        self._counters["proofs_out"] += 1
        entry.proof_sent[face] = now
        self._send(face, fork.packet(entry.feed))

    def has_room(self, face: int, granted: Range, now: int) -> bool:
        """Tell whether a downstream's link has room for an item."""
        return self._turn(face, granted, now) <= now

    def next_turn(self, entry: FeedEntry, now: int) -> int:
        """Return when an item that waits for its link may go, ns."""
        turns = ((self._turn(face, r, now), r) for face, r in entry.ranges.items() if self._faces[face].pacer)
        return min((t for t, r in turns if t > now or r.ready(entry.item) is not None), default=NEVER)

    def _turn(self, face: int, granted: Range, now: int) -> int:
        """Return when a downstream's link has room for an item, ns."""
        pacer = self._faces[face].pacer
        return 0 if pacer is None else pacer.free_at(granted.paced_until, now)

    def push(self, face: int, packet: bytes) -> None:
        """Send an item."""
        self._counters["items_out"] += 1
        pacer = self._faces[face].pacer
        if pacer is not None:
            pacer.hand_over(len(packet))
        self._send(face, packet)
