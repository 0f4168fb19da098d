"""Layering `sparse`: a part of a log, verified by skip links (:mod:`ssb_over_ndn.linked`).

A reader asks for the newest item's number, as `pull` does. It fetches the newest items, newest first; if it
wants, one item by its number; and those on the path of links to the last item that it trusts, or to the
first. When the chain holds, the application gets the parts that it wants, oldest first, and follows the feed
from there on as under `pull`. What lies between is not fetched.
"""

from collections.abc import Sequence
from itertools import pairwise
from random import Random

from base.passive import Outputs
from base.timers import earliest
from forwarder.feedcache.items import Item, RejectedItem, open_item, read_data
from forwarder.wire.feed import item_name, split_item
from forwarder.wire.lp import LpPacket
from forwarder.wire.packet import DATA, Data, parse_interest
from forwarder.wire.tlv import MalformedPacket
from ssb_over_ndn.following.fetch import Fetcher
from ssb_over_ndn.following.follower import Follower
from ssb_over_ndn.layerings.pull import PullScout, Question
from ssb_over_ndn.linked import Linked, broken_at, open_linked, path


class _Chain:
    """The items of a chain as a fetcher's Box, which numbers them from 1: the newest comes first."""

    def __init__(self, feed: bytes, numbers: Sequence[int]) -> None:
        self._feed = feed
        self._numbers = numbers
        self._items: dict[int, Linked] = {}
        self.place = {seq: at for at, seq in enumerate(numbers, 1)}
        self.arrived = 0

    @property
    def limit(self) -> int:
        return len(self._numbers)

    @property
    def items(self) -> list[Linked]:
        """The items up to the first that is lacking."""
        return [self._items[at] for at in range(1, self.arrived + 1)]

    def name(self, at: int) -> bytes:
        return item_name(self._feed, self._numbers[at - 1])

    def lacks(self, at: int) -> bool:
        return at not in self._items

    def open(self, at: int, data: Data) -> Linked | None:
        try:
            return open_linked(open_item(self._feed, self._numbers[at - 1], data))
        except RejectedItem:
            return None

    def put(self, item: Linked) -> None:
        self._items[self.place[item.item.seq]] = item
        while self.arrived + 1 in self._items:
            self.arrived += 1


class Sparse(Outputs):
    """A Subscription that begins with a part of the log.

    Args:
        feed: the feed's name.
        rng: source of nonces.
        newest: how many of the newest items it reads, at most `buffer`.
        item: one earlier item that is read, too, by its number; 0 for none.
        buffer: most items in flight, or waiting for the application.
        lifetime_ms: InterestLifetime.
        shortest_ms, longest_ms: bounds of the time between questions for what is newest.
        after: the last item that the application has, and trusts.

    Attributes:
        forked_at: see Subscription.
    """

    def __init__(
        self,
        feed: bytes,
        *,
        rng: Random,
        newest: int,
        item: int,
        buffer: int,
        lifetime_ms: int,
        shortest_ms: int,
        longest_ms: int,
        after: int = 0,
    ) -> None:
        super().__init__()
        self._feed = feed
        self._rng = rng
        self._newest = min(newest, buffer)
        self._item = item
        self._buffer = buffer
        self._lifetime_ms = lifetime_ms
        self._bounds = {"shortest_ms": shortest_ms, "longest_ms": longest_ms}
        self._after = after
        self._question = Question(feed, rng=rng, lifetime_ms=lifetime_ms)
        self._chain: _Chain | None = None
        self._fetcher: Fetcher | None = None
        self._follower: Follower | None = None
        self._ready: list[Item] = []
        self._errors: list[str] = []
        self._is_refused = False
        self._is_open = False
        self._forked_at: int | None = None

    @property
    def forked_at(self) -> int | None:
        return self._follower.forked_at if self._follower is not None else self._forked_at

    def start(self, now: int) -> None:
        self._is_open = True
        if self._follower is not None:
            self._follower.start(now)
        elif self._fetcher is not None:
            self._fetcher.request(now)
        else:
            self.outputs += self._question.request(now)
        self._collect()

    def stop(self, now: int) -> None:
        self._is_open = False
        self._question.is_open = False
        if self._fetcher is not None:
            self._fetcher.stop()
        if self._follower is not None:
            self._follower.stop(now)
        self._collect()

    def receive(self, header: LpPacket, now: int) -> None:
        if not self._is_open:
            return
        if self._follower is not None:
            self._follower.receive(header, now)
        else:
            try:
                self._receive(header, now)
            except MalformedPacket:
                return
        self._collect()

    def take_items(self, limit: int | None = None) -> list[Item]:
        """See Subscription; an item that is not a linked one is an error "format"."""
        taken, self._ready = self._ready[:limit], self._ready[len(self._ready[:limit]) :]
        room = None if limit is None else limit - len(taken)
        if self._follower is not None and room != 0:
            for item in self._follower.take_items(room):
                try:
                    taken.append(_read(open_linked(item)))
                except RejectedItem as error:
                    self._errors.append(error.reason)
        return taken

    def take_errors(self) -> list[str]:
        errors, self._errors = self._errors, []
        return errors + (self._follower.take_errors() if self._follower is not None else [])

    def next_deadline(self) -> int | None:
        if not self._is_open:
            return None
        if self._follower is not None:
            return self._follower.next_deadline()
        fetching = None if self._fetcher is None else self._fetcher.next_deadline()
        return earliest(self._question.next_deadline(), fetching)

    def wake(self, now: int) -> None:
        if not self._is_open:
            return
        if self._follower is not None:
            self._follower.wake(now)
        elif self._fetcher is not None:
            self._fetcher.wake(now)
            self._fetcher.request(now)
        else:
            self.outputs += self._question.wake(now)
        self._collect()

    def size(self) -> int:
        return 0 if self._follower is None else self._follower.size()

    def _receive(self, header: LpPacket, now: int) -> None:
        """Receive a packet before the chain is complete."""
        if header.nack_reason is not None:
            name = parse_interest(header.fragment).name
            if not self._is_refused:
                self._is_refused = True
                self._errors.append("no-route")
            parts = split_item(name)
            if parts is not None and self._chain is not None and self._fetcher is not None:
                self._fetcher.on_nack(self._chain.place.get(parts[1], 0))
        elif header.fragment[:1] == bytes((DATA,)):
            data = read_data(header.fragment)
            self._is_refused = False
            parts = split_item(data.name)
            if parts is None:
                tip = self._question.answered(data, now)
                if tip is not None and self._chain is None:
                    self._begin(tip, now)
            elif parts[0] == self._feed:
                self._on_item(parts[1], data, header.congestion_mark, now)

    def _begin(self, tip: int, now: int) -> None:
        """Ask for the chain to what is trusted; without a gap there is none."""
        first = max(tip - self._newest, self._after) + 1
        if first == self._after + 1:
            self._follow(self._after, (), now)
            return
        if not self._after < self._item < first:
            self._item = 0  # it is among the newest, or the application has it
        numbers = list(range(tip, first - 1, -1))
        stops = [first, *([self._item] if self._item else []), max(self._after, 1)]
        for newer, older in pairwise(stops):
            numbers += path(newer, older)[1:]
        self._chain = _Chain(self._feed, numbers)
        self._fetcher = Fetcher(self._chain, rng=self._rng, lifetime_ms=self._lifetime_ms)
        self._fetcher.tip = len(numbers)
        self._fetcher.request(now)

    def _on_item(self, seq: int, data: Data, mark: int, now: int) -> None:
        chain, fetcher = self._chain, self._fetcher
        if chain is None or fetcher is None or (at := chain.place.get(seq)) is None:
            return
        fetcher.on_item(at, data, mark, now)
        if chain.arrived < chain.limit:
            fetcher.request(now)
            return
        held = chain.items
        self._forked_at = broken_at(held)
        if self._forked_at is not None:
            self._errors.append("fork")
            self.stop(now)
            return
        first = max(held[0].item.seq - self._newest, self._after) + 1
        self._ready = [_read(each) for each in held if each.item.seq == self._item]
        self._follow(first - 1, [each.item for each in reversed(held) if each.item.seq >= first], now)

    def _follow(self, after: int, held: Sequence[Item], now: int) -> None:
        """Follow the feed from an item on, some of the next ones of which are here."""
        scout = PullScout(self._feed, rng=self._rng, lifetime_ms=self._lifetime_ms, **self._bounds)
        self._follower = Follower(
            self._feed,
            scout,
            rng=self._rng,
            buffer=self._buffer,
            lifetime_ms=self._lifetime_ms,
            after=after,
        )
        self._follower.hold(held)
        self._collect()
        self._fetcher = self._chain = None
        self._follower.start(now)

    def _collect(self) -> None:
        for each in (self._fetcher, self._follower):
            if each is not None:
                self.outputs += each.take_outputs()


def _read(linked: Linked) -> Item:
    """Return an item with what the application gets of it."""
    return linked.item._replace(message=linked.content)
