"""A relay by hand: a forwarder with an upstream (face 1), downstreams (2, 3), and one more neighbour (4)."""

from random import Random
from typing import Any

from lli_maker import NAME, idle, pushed, told

from base.units import MS
from forwarder.feedcache.cache import FeedStore
from forwarder.forwarder import Forwarder
from forwarder.lli.entry import FeedEntry
from forwarder.lli.upstream import Recovery
from forwarder.wire.evidence import Evidence
from forwarder.wire.feed import item_name
from forwarder.wire.hello import Hello, make_hello, parse_hello
from forwarder.wire.lp import CONGESTION, make_lp, parse_lp
from forwarder.wire.packet import DATA, make_interest, parse_interest
from ssb_over_ndn.naming import LOGS

UP, A, B, C, PRODUCER = 1, 2, 3, 4, 5

SOURCE = Evidence(1, 0)
"""What a source says first."""
FIRST_HOP = Evidence(1, 1)
"""What its neighbours hold then."""


class Relay:
    """A forwarder with short words for what goes in and comes out.

    Its neighbours reply to Hellos at once, unless they are in `mute`, and agree with whatever it holds.
    """

    def __init__(
        self,
        *,
        route: bool = True,
        max_items: int = 256,
        max_feeds: int = 1024,
        recovery: Recovery = Recovery.IN_NETWORK,
    ) -> None:
        store = FeedStore(max_items=max_items, max_feeds=max_feeds)
        self.core = Forwarder(rng=Random(1), feed_store=store, recovery=recovery)
        for face in (UP, A, B, C):
            self.core.add_face(face)
        if route:
            self.core.fib.add(LOGS, UP)
        self.now = 0
        self.nonce = 0
        self.last: dict[int, bytes] = {}
        self.idle: list[str] = []
        self.hellos: list[tuple[int, Hello]] = []
        self.offers: list[tuple[int, Evidence | None]] = []
        self.known: list[tuple[int, Evidence | None]] = []
        self.mute: set[int] = set()

    def lli(
        self,
        face: int,
        first: int,
        credit: int | None,
        lifetime_ms: int = 10_000,
        nonce: int | None = None,
        hop_limit: int = 10,
        fresh: bool = False,
        known: Evidence | None = None,
    ) -> list[str]:
        self.nonce += 1
        interest = make_interest(
            item_name(NAME, first),
            nonce=self.nonce if nonce is None else nonce,
            lifetime_ms=lifetime_ms,
            hop_limit=hop_limit,
            send_credit=credit,
            must_be_fresh=fresh,
            known=known,
        )
        return self.give(face, interest)

    def classic(self, face: int, seq: int) -> list[str]:
        return self.lli(face, seq, None)

    def item(self, seq: int, face: int = UP, tip: int = 0, mark: int = 0) -> list[str]:
        """An item that comes with FeedState, from an upstream that pushes."""
        return self.give(face, pushed(seq, max(seq, tip), 1000, mark))

    def items(self, first: int, last: int, face: int = UP) -> list[str]:
        return [line for seq in range(first, last + 1) for line in self.item(seq, face)]

    def source(
        self, face: int, evidence: Evidence | None = SOURCE, tip: int = 0, limit: int = 0
    ) -> list[str]:
        """A next hop answers that it has nothing yet, but a source."""
        return self.give(face, idle(tip, limit, evidence=evidence))

    def give(self, face: int, received: bytes) -> list[str]:
        self.core.receive(face, received, self.now)
        return self.out()

    def refuse(self, face: int, reason: int = CONGESTION) -> list[str]:
        """Answer the last Interest that went to a face with a Nack."""
        return self.give(face, make_lp(self.last[face], nack_reason=reason))

    def wait(self, ns: int) -> list[str]:
        """Let time pass, waking up whenever that is due."""
        lines: list[str] = []
        end = self.now + ns
        while (deadline := self.core.next_deadline()) is not None and deadline <= end:
            self.now = max(self.now, deadline)
            self.core.wake(self.now)
            lines += self.out()
        self.now = end
        return lines

    def out(self) -> list[str]:
        """What is sent, but for idle answers and Hellos, which go to `idle`, `offers` and `hellos`."""
        lines: list[str] = []
        self.idle, self.hellos, self.offers, self.known = [], [], [], []
        while sent := self.core.take_outputs():
            for face, frame in sent:
                self._sort(face, frame, lines)
        return lines

    def _sort(self, face: int, frame: bytes, lines: list[str]) -> None:
        header = parse_lp(frame)
        if header.hello is not None:
            hello = parse_hello(header.hello)
            self.hellos.append((face, hello))
            if hello.number is not None and face not in self.mute:
                reply = Hello(None, hello.number, held=hello.held)
                self.core.receive(face, make_hello(reply), self.now)
            return
        if header.tip is not None:
            self.offers.append((face, header.evidence))
        if not header.fragment:
            self.idle.append(f"{face} {told(frame)}")
            return
        if header.fragment[0] != DATA and header.nack_reason is None:
            self.last[face] = header.fragment
            lli = parse_interest(header.fragment)
            if lli.send_credit:
                self.known.append((face, lli.known))
        lines.append(f"{face} {told(frame)}")

    def entry(self) -> FeedEntry:
        assert self.core.feeds is not None
        (entry,) = self.core.feeds
        return entry

    @property
    def counters(self) -> dict[str, int]:
        assert self.core.feeds is not None
        return self.core.feeds.counters

    @property
    def store(self) -> FeedStore:
        assert self.core.feeds is not None
        return self.core.feeds.store


def subscribed(credit: int = 8, *faces: int, **options: Any) -> Relay:
    """A relay whose downstreams have asked from the first item on, and whose upstream has a source."""
    relay = Relay(**options)
    for face in faces or (A,):
        relay.lli(face, 1, credit)
    relay.now = 10 * MS
    assert relay.source(UP, limit=credit) == []
    return relay


def two_ways(**options: Any) -> Relay:
    """Another next hop behind face 4, at a higher cost."""
    relay = Relay(**options)
    relay.core.fib.add(LOGS, C, cost=10)
    relay.lli(A, 1, 8)
    return relay
