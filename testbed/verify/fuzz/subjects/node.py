"""A node with state, under any frames at any of its faces and at any time.

An input is a sequence of events (`events.py`). The index of each is that of the pause before it in PAUSES_MS.
"""

import io
import pickle
from collections import Counter
from collections.abc import Callable
from functools import cache
from random import Random

from base.passive import PassiveApplication
from base.units import MS
from forwarder.feedcache.cache import FeedStore
from forwarder.forwarder import Forwarder
from forwarder.host import Host
from forwarder.strategies.multicast import Multicast
from forwarder.tables.counters import Counters
from forwarder.tables.face import LinkType
from forwarder.wire.feed import item_name
from forwarder.wire.lp import parse_lp
from forwarder.wire.name import from_uri, prefix_ends
from forwarder.wire.packet import make_data, make_interest, parse_data, parse_interest
from forwarder.wire.persistent import make_persistent
from testbed.verify.fuzz.subjects.events import Event, read_events
from testbed.verify.fuzz.subjects.wire import Finding, expect
from testbed.verify.push.stories.feeds import items_of, name_of, signer_of
from testbed.verify.push.stories.story import Feed
from testbed.verify.push.world.actors import Device
from testbed.verify.push.world.invariants import digest

LINKS = 4
"""The kinds 0 to 3 are frames on links: plain, plain, of known rate, ad hoc with local fields."""
APPLICATION, CUT, WAKE = range(LINKS, LINKS + 3)
"""A packet of an application; a link goes down, or up again; the next alarm rings."""

PAUSES_MS = (0, 0, 1, 5, 20, 100, 250, 500, 1000, 2000, 4000, 6000, 10_000, 60_000, 600_000, 3_600_000)

UNTOUCHED = "a malformed packet changes nothing"

MOST_EVENTS = 64
"""Maximum number of events of an input."""

_MOST_WAKES = 32
_MOST_OUTPUTS = 200
_MTU = 1500
_STATE = 2048
"""Maximum growth of the PIT per frame, bytes, besides a few times the frame's size."""

OWN = Feed("native", 0, ("us",))
RELAYED = Feed("native", 1, ("them",))
OWN_NAME, RELAYED_NAME = name_of(OWN), name_of(RELAYED)
PENDING, CACHED, PERSISTENT = from_uri("/net/a"), from_uri("/net/b"), from_uri("/net/c")
NONCE = 0x01020304


@cache
def _prelude() -> list[tuple[int, bytes]]:
    """Return frames, by link number, that bring a node into a state worth attacking."""
    lli = make_interest(item_name(RELAYED_NAME, 1), nonce=NONCE, lifetime_ms=9000, send_credit=8)
    return [
        (0, lli),
        *((1, item.wire) for item in items_of(RELAYED, 0)[:2]),
        (0, make_interest(PENDING, nonce=NONCE, can_be_prefix=True)),
        (0, make_interest(CACHED, nonce=NONCE)),
        (1, make_data(CACHED, b"b", freshness_ms=1000)),
        (0, make_persistent(make_interest(PERSISTENT, nonce=NONCE, lifetime_ms=9000))),
    ]


class _Application(PassiveApplication):
    """Accepts all packets, and sends those of the input."""

    def receive(self, packet: bytes, now: int) -> None:
        """Check that it is a packet."""
        _check_packet(packet)


class _Pickler(pickle.Pickler):
    """Omits state that a malformed packet may change: counters, and the nonce generator."""

    def persistent_id(self, thing: object) -> str | None:
        return "" if type(thing) in (Random, Counter, Counters) else None


def _pickled(forwarder: Forwarder) -> bytes:
    """Return all of a forwarder's tables as bytes, in a tenth of the time of a digest.

    Equal bytes imply equal tables; different bytes may only differ in sharing.
    """
    buffer = io.BytesIO()
    _Pickler(buffer).dump(forwarder)
    return buffer.getvalue()


class _Node:
    """The node, and the time; `photograph` records the contents of all tables."""

    def __init__(self, photograph: Callable[[Forwarder], bytes]) -> None:
        self._photograph = photograph
        forwarder = Forwarder(
            rng=Random(1), cs_capacity=4, persistent=True, feed_store=FeedStore(max_feeds=4, max_items=8)
        )
        self.forwarder = forwarder
        self.host = host = Host(forwarder)
        self.now = MS
        self.links = [host.add_link(_MTU, rate) for rate in (None, None, 10, None)]
        self.is_up = dict.fromkeys(self.links, True)
        ad_hoc = forwarder.faces[self.links[3]]
        ad_hoc.link_type, ad_hoc.local_fields = LinkType.AD_HOC, True
        device = Device(OWN_NAME, items_of(OWN, 0), signer_of(OWN))
        device.publish(4, 0)
        self.application = _Application()
        forwarder.regions.add(from_uri("/here"))
        forwarder.choose_strategy(from_uri("/net/all"), Multicast)
        forwarder.fib.add(OWN_NAME, host.attach(device))
        forwarder.fib.add(from_uri("/app"), host.attach(self.application))
        forwarder.fib.add(b"", self.links[1])
        for cost, link in enumerate(self.links[1:]):
            forwarder.fib.add(from_uri("/net"), link, cost)
        forwarder.fib.add(RELAYED_NAME, self.links[1])
        for link, frame in _prelude():
            host.receive(self.links[link], frame, None, self.now)
            host.take_outputs()

    def play(self, event: Event) -> None:
        """Let time pass, perform the event, and check its effects."""
        self._wait(PAUSES_MS[event.which % len(PAUSES_MS)] * MS)
        if event.kind < LINKS and self.is_up[self.links[event.kind]]:
            self._receive(self.links[event.kind], event.content)
        elif event.kind == APPLICATION:
            self.application.outputs.append(event.content)
            self.host.wake(self.now)
        elif event.kind == CUT:
            link = self.links[event.which % LINKS]
            self.is_up[link] = not self.is_up[link]
            self.host.set_link(link, self.is_up[link], self.now)
        elif event.kind == WAKE:
            deadline = self.host.next_deadline()
            if deadline is not None:
                self._wait(max(0, min(deadline - self.now, PAUSES_MS[-1] * MS)))
        self._take_outputs()

    def _receive(self, link: int, frame: bytes) -> None:
        self.host.next_deadline()  # performs deferred work
        forwarder, face = self.forwarder, self.forwarder.faces[link]
        malformed, in_bytes = forwarder.counters.malformed, face.in_bytes
        held = forwarder.pit_bytes()  # counts what has changed, once
        before = self._photograph(forwarder)
        self.host.receive(link, frame, None, self.now)
        if forwarder.counters.malformed != malformed:
            expect("a malformed packet is counted once", holds=forwarder.counters.malformed == malformed + 1)
            face.in_bytes = in_bytes
            expect(UNTOUCHED, holds=self._photograph(forwarder) == before)
            expect("a malformed packet is not answered", holds=not self.host.take_outputs())
        grown = forwarder.pit_bytes() - held
        expect(f"the PIT grows by {grown} bytes", holds=grown <= 4 * len(frame) + _STATE)

    def _wait(self, duration: int) -> None:
        until, wakes, last = self.now + duration, 0, -1
        while (deadline := self.host.next_deadline()) is not None and deadline <= until:
            wakes = wakes + 1 if deadline <= last else 0
            expect(f"time stands still at {self.now}", holds=wakes < _MOST_WAKES)
            last = self.now = max(deadline, self.now)
            self.host.wake(self.now)
            self._take_outputs()
        self.now = until

    def _take_outputs(self) -> None:
        outputs = self.host.take_outputs()
        expect(f"{len(outputs)} frames are sent at once", holds=len(outputs) <= _MOST_OUTPUTS)
        for face, frame, _ in outputs:
            expect("only links that are up are sent to", holds=self.is_up[face])
            _check_packet(frame)


def _check_packet(packet: bytes) -> None:
    """Check that a sent frame is a packet."""
    lp = parse_lp(packet)
    if lp.fragment and lp.frag_count == 1:
        network = (parse_interest if lp.fragment[0] == 5 else parse_data)(lp.fragment)
        prefix_ends(network.name)


def check(data: bytes) -> None:
    """Play the events of an input; raise Finding, or whatever should not be raised."""
    try:
        _play(data, _pickled)
    except Finding as finding:
        if str(finding) != UNTOUCHED:
            raise
        _play(data, digest)


def _play(data: bytes, photograph: Callable[[Forwarder], bytes]) -> None:
    node = _Node(photograph)
    for event in read_events(data, MOST_EVENTS):
        node.play(event)
