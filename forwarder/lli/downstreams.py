"""Packets from a relay to its downstreams: items under their credit, answers to LLIs, refusals."""

from collections import Counter
from collections.abc import Callable, Mapping

from base.units import MS, NEVER
from forwarder.feedcache.fork import Fork
from forwarder.feedcache.items import Item
from forwarder.lli.entry import FeedEntry
from forwarder.lli.neighbours import Neighbours
from forwarder.lli.ranges import Range
from forwarder.lli.upstream import Lli
from forwarder.tables.face import Face
from forwarder.wire.lp import make_feed_state, make_lp


class Downstreams:
    """The downstream side of all feeds of a forwarder; the arguments are FeedTable's."""

    def __init__(
        self,
        send: Callable[[int, bytes], None],
        faces: Mapping[int, Face],
        counters: Counter[str],
        neighbours: Neighbours,
    ) -> None:
        self._send = send
        self._faces = faces
        self._counters = counters
        self._neighbours = neighbours

    def serve_all(self, entry: FeedEntry, now: int) -> None:
        """Send each downstream the items that are ready for it."""
        for face, _ in entry.ranges.items():
            self.serve(entry, face, now)

    def serve(self, entry: FeedEntry, face: int, now: int) -> None:
        """Send a downstream the items that are ready for it, as far as its link has room."""
        granted = entry.ranges.get(face)
        fork = entry.cache.fork
        while granted is not None and face in entry.ranges:
            if fork is not None and granted.wanted >= fork.seq and self._neighbours.may_send(face):
                entry.ranges.drop(face)
                self.send_proof(entry, face, fork, now)
                return
            ready = granted.ready(entry.item)
            if ready is None or not self.has_room(face, granted, now):
                return
            packet = entry.ranges.send(face, granted, *ready, entry.tip, entry.claim(granted))
            pacer = self._faces[face].pacer
            if pacer is not None:
                pacer.seen(entry.feed, now)
                granted.paced_until = pacer.next_turn(len(packet), max(now - MS, granted.paced_until))
            self.push(face, packet, now)

    def pass_on(self, entry: FeedEntry, item: Item, now: int) -> None:
        """Send an item before its turn to every downstream with credit for it: they repair for themselves.

        A downstream that waits for items that nobody had is sent them first.
        """
        for face, granted in entry.ranges.items():
            if not self._neighbours.may_send(face) or granted.next < entry.told_first.get(face, 0):
                continue
            if granted.next < item.seq <= granted.limit and entry.item(granted.next) is None:
                claim = entry.claim(granted)
                packet = entry.ranges.send(face, granted, item.seq, item.data, entry.cache.tip, claim)
                self.push(face, packet, now)

    def has_it(self, entry: FeedEntry, face: int, seq: int) -> None:
        """Note that a face has brought an item, which it need not be sent."""
        granted = entry.ranges.get(face)
        if granted is not None and granted.next == seq:
            granted.skip(seq + 1)
            entry.ranges.settle(face)

    def answer(self, entry: FeedEntry) -> None:
        """Answer the LLIs that nothing could be pushed for.

        While a source is looked for the answer waits, unless it has been asked for twice: it will then say
        more.
        """
        for face, granted in entry.ranges.items():
            if granted.is_answered:
                continue
            is_known = entry.is_fed or entry.is_waiting
            if is_known or granted.told is not None or granted.is_pressing:
                self.send_state(entry, face, granted)

    def announce(self, entry: FeedEntry) -> None:
        """Inform each downstream for which the presence of a source has changed."""
        for face, granted in entry.ranges.items():
            claim = entry.claim(granted)
            if granted.meaning(claim) == granted.meaning(granted.told):
                continue
            if granted.is_answered and self._neighbours.notify(face, entry):
                granted.told = claim
            else:
                self.send_state(entry, face, granted)

    def send_state(self, entry: FeedEntry, face: int, granted: Range, wanted: int | None = None) -> None:
        """Answer an LLI with FeedState, with First if the feed begins here beyond `wanted`."""
        granted.is_answered = True
        begins = 0 if face in entry.untold else entry.told_first.get(face, 0)
        first = begins if begins > (granted.wanted if wanted is None else wanted) else None
        granted.told = entry.claim(granted)
        tip = entry.tip
        if granted.wanted <= tip and entry.item(granted.wanted) is None:
            tip = granted.wanted - 1  # it is looked for
        self._counters["states_out"] += 1
        packet = make_feed_state(
            entry.feed, tip=tip, limit=granted.limit, first=first, evidence=granted.shown()
        )
        self._neighbours.answer(face, packet)

    def refuse(self, entry: FeedEntry, face: int, granted: Range, reason: int, now: int) -> None:
        """End a range with a Nack."""
        credit = granted.limit - granted.next + 1
        asked = Lli(granted.next, credit, max((granted.expiry - now) // MS, 0))
        entry.ranges.drop(face)
        self.send_nack(face, asked.packet(entry.feed, granted.nonce or 0), reason)

    def send_nack(self, face: int, lli: bytes, reason: int) -> None:
        """Refuse an LLI."""
        self._counters["nacks_out"] += 1
        self._neighbours.answer(face, make_lp(lli, nack_reason=reason))

    def send_proof(self, entry: FeedEntry, face: int, fork: Fork, now: int) -> None:
        """Send a face the proof of a fork."""
        self._counters["proofs_out"] += 1
        entry.proof_sent[face] = now
        self._neighbours.answer(face, fork.packet(entry.feed))

    def has_room(self, face: int, granted: Range, now: int) -> bool:
        """Return whether a downstream's link has room for an item."""
        return self._turn(face, granted, now) <= now

    def next_turn(self, entry: FeedEntry, now: int) -> int:
        """Return when an item that waits for its link may go, ns."""
        first = NEVER
        for face, granted in entry.ranges.items():
            record = self._faces[face]
            if record.pacer is not None and record.is_proven:
                turn = self._turn(face, granted, now)
                if turn < first and (turn > now or granted.ready(entry.item) is not None):
                    first = turn
        return first

    def _turn(self, face: int, granted: Range, now: int) -> int:
        """Return when a downstream's link has room for an item, ns."""
        if not self._neighbours.may_send(face):
            return NEVER
        pacer = self._faces[face].pacer
        return 0 if pacer is None else pacer.free_at(granted.paced_until, now)

    def push(self, face: int, packet: bytes, now: int) -> None:
        """Send an item."""
        self._counters["items_out"] += 1
        pacer = self._faces[face].pacer
        if pacer is not None:
            pacer.hand_over(len(packet))
        self._send(face, packet)
