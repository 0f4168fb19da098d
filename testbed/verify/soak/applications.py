"""The ends of a soaked network: servers, clients, publishers, followers, visitors, an attacker.

Servers, clients and followers are those of simulated worlds, which are told here what to do at random.
"""

import hashlib
from collections import Counter, deque
from collections.abc import Hashable, Sequence
from random import Random
from typing import NamedTuple

from base.timers import earliest
from forwarder.forwarder import Forwarder
from forwarder.host import Host
from forwarder.lli.producer import Producer
from forwarder.wire.feed import feed_name, item_name, native_content, split_item
from forwarder.wire.lp import make_lp, open_data, open_interest
from forwarder.wire.name import from_uri
from forwarder.wire.packet import Data, make_data, make_interest
from ssb.keys import Identity
from testbed.verify.classic.clients import Consumer, Request, make_request
from testbed.verify.kit.outcome import Violation
from testbed.verify.mutations import mutate
from testbed.verify.push.stories.feeds import sign_item
from testbed.verify.push.stories.story import Prefix, Subscriber
from testbed.verify.push.world.actors import Device, Reader
from testbed.verify.push.world.invariants import Delivery

KEPT_ITEMS = 256
"""Items that a feed's publisher keeps."""
_LARGE = 3000
"""Content size that takes three frames, bytes."""
_FRESHNESS_MS = 1000
_LATE_US = 400_000
_LIFETIME_MS = 2000
_HOPS = 16
_POPULAR = 12
"""Names with many requesters."""
_LONGEST_MS = 60_000


def content_of(name: bytes) -> bytes:
    """Return the content of a name's Data; for every seventh name, larger than a frame."""
    seed = hashlib.sha256(name).digest()
    return seed * (_LARGE // 32) if seed[0] % 7 == 0 else seed


def prefixes_of(site: str) -> dict[str, Prefix]:
    """Return the prefixes that a site serves, by how: data, large, late, nack, silent."""

    def prefix(how: str, manner: str = "answers", delay: int = 0, size: int = 100) -> Prefix:
        return Prefix(f"{site}-{how}", (site,), manner, delay, _FRESHNESS_MS, size)

    return {
        "data": prefix("data"),
        "large": prefix("large", size=_LARGE),
        "late": prefix("late", delay=_LATE_US),
        "nack": prefix("nack", "nacks"),
        "silent": prefix("silent", "never"),
    }


_NOWHERE = Prefix("nowhere", ())


class _Kind(NamedTuple):
    """A kind of request: the prefix's, selectors as of make_request(), whether it must be answered."""

    prefix: str
    selectors: str = ""
    is_answered: bool = True


KINDS = {
    "data": _Kind("data"),
    "large": _Kind("large"),
    "popular": _Kind("data"),
    "fresh": _Kind("data", "f"),
    "prefix": _Kind("data", "pf"),
    "late": _Kind("late"),
    "digest": _Kind("data", "d"),
    "hint": _Kind("data", "h"),
    "nack": _Kind("nack", is_answered=False),
    "silent": _Kind("silent", is_answered=False),
    "nowhere": _Kind("nowhere", is_answered=False),
    "not-it": _Kind("data", "x", is_answered=False),
}


class Client(Consumer):
    """Makes random requests, and repeats each until its due answer.

    Attributes:
        counts: asked, and how Interests ended, by kind of request.
    """

    def __init__(self, where: str, sites: Sequence[str], rng: Random, pause: int) -> None:
        super().__init__(where, rng, self._count)
        self.counts: Counter[str] = Counter()
        self._served = [prefixes_of(site) for site in sites]
        self._pause = pause
        self._next: int | None = 0
        self._number = 0
        self._kinds: dict[tuple[bytes, bool, bool], str] = {}  # of pending requests

    def finish(self) -> None:
        """Make no more requests; pending ones continue."""
        self._next = None

    @property
    def missing(self) -> list[str]:
        """The kinds of requests without their due answer."""
        kinds = [self._kinds[request.key] for request in self.pending]
        return [kind for kind in kinds if KINDS[kind].is_answered]

    def next_deadline(self) -> int | None:
        return earliest(super().next_deadline(), self._next)

    def wake(self, now: int) -> None:
        """Request, and repeat requests."""
        super().wake(now)
        if self._next is not None and self._next <= now:
            self._next = now + round(self._rng.expovariate(1 / self._pause))
            self._draw(now)

    def _draw(self, now: int) -> None:
        """Make a request of any kind, unless the same one is pending."""
        name = self._rng.choice(list(KINDS))
        kind = KINDS[name]
        prefix = _NOWHERE if name == "nowhere" else self._rng.choice(self._served)[kind.prefix]
        self._number += 1
        is_popular = name in ("popular", "fresh")
        which = str(self._rng.randrange(_POPULAR)) if is_popular else f"{self.label}-{self._number}"
        tries = 0 if kind.is_answered else 1
        request = make_request(prefix, which, kind.selectors, _LIFETIME_MS, _HOPS, tries, 0)
        pending = {each.key for each in self.pending}
        if request.key not in pending:
            self.counts[f"{name} asked"] += 1
            self._kinds = {key: self._kinds[key] for key in pending} | {request.key: name}
            self.ask(request, now)

    def _count(self, now: int, request: Request, text: str) -> None:
        self.counts[f"{self._kinds[request.key]} {text}"] += 1


class Publisher(Device):
    """Appends to a feed at random times, and keeps its last items.

    Attributes:
        contents: those of all items.
    """

    def __init__(self, prefix: bytes, rng: Random, pause: int) -> None:
        self._identity = Identity.from_seed(rng.randbytes(32))
        self._kept: dict[int, Data] = {}
        self.contents: list[bytes] = []
        super().__init__(feed_name(prefix, self._identity.public_key), (), None)
        self._rng = rng
        self._pause = pause
        self._next: int | None = 0

    def restart(self) -> None:
        """Forget everything but the log."""
        kept, oldest = self._kept.get, lambda: self.oldest
        self._producer = Producer(self.feed, kept, lambda: self.published, oldest=oldest)

    def finish(self) -> None:
        """Append no more."""
        self._next = None

    @property
    def oldest(self) -> int:
        """The oldest item kept."""
        return max(1, self.published - KEPT_ITEMS + 1)

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        return earliest(super().next_deadline(), self._next)

    def wake(self, now: int) -> None:
        """Append."""
        super().wake(now)
        if self._next is not None and self._next <= now:
            self._next = now + round(self._rng.expovariate(1 / self._pause))
            last = self._kept.get(self.published)
            size = _LARGE if self._rng.random() < 0.1 else 100
            content = native_content(b"" if last is None else last.digest(), self._rng.randbytes(size))
            self.published += 1
            self.contents.append(content)
            self._kept[self.published] = sign_item(self.feed, self.published, content, self._identity)
            self._kept.pop(self.oldest - 1, None)
            self._producer.appended(self.published, now)


class _Whole(Delivery):
    """The deliveries of a feed without forks, of which all that is published arrives."""

    def failed(self, error: str) -> None:
        """Refuse an error."""
        raise Violation("delivered", self.where, f"is told {error}")


class Follower(Reader):
    """Follows a feed, every item once and in order.

    `errors` counts transient ones: while links are down, a feed's past, or all of it, is unavailable.
    """

    def __init__(self, where: str, publisher: Publisher, rng: Random, now: int, errors: Counter[str]) -> None:
        credit, lifetime_ms = rng.choice((1, 4, 16)), rng.choice((2_000, 10_000, 30_000))

        def report(now: int, text: str) -> None:
            if text.startswith("is told: "):
                errors[text.removeprefix("is told: ")] += 1

        super().__init__(
            Subscriber(where, where, 0, credit, lifetime_ms),
            publisher.feed,
            lambda after: _Whole(where, [publisher.contents], None, after),
            rng,
            report,
        )
        self.publisher = publisher
        self.held = max(publisher.oldest - 1, publisher.published - rng.choice((0, 0, 3, 30)))
        self.subscribe(now)

    @property
    def is_done(self) -> bool:
        """Whether it has everything."""
        return self.held >= self.publisher.published


class Node(Host):
    """A host with extra faces besides its links, whose other ends are here.

    Attributes:
        visitors: by face number.
        heard: the last frames sent, as an attacker's material.
    """

    def __init__(self, forwarder: Forwarder, heard: deque[bytes]) -> None:
        super().__init__(forwarder)
        self.visitors: dict[int, Visitor] = {}
        self.heard = heard

    def take_outputs(self) -> list[tuple[int, bytes, None]]:
        """Return the (face, frame, None) to send on links; visitors get theirs."""
        kept = []
        for face, frame, _ in super().take_outputs():
            visitor = self.visitors.get(face)
            if visitor is not None:
                visitor.got += 1
            elif face in self._links:
                kept.append((face, frame, None))
                self.heard.append(frame)
        return kept


class Visitor:
    """A node behind a face of its own, which sends some packets and leaves silently."""

    def __init__(self, node: Node, rng: Random, *, reliable: bool, local: bool) -> None:
        self.got = 0
        self.node = node
        self._rng = rng
        record = node.add_face(mtu=rng.choice((None, 1500, 300)), local=local)
        record.is_reliable = reliable
        node.configure(record.number)
        self.face = record.number
        node.visitors[self.face] = self

    def speak(self, names: list[bytes], feeds: list[bytes], now: int) -> None:
        """Send some requests, subscriptions and noise."""
        rng = self._rng
        for _ in range(rng.randint(1, 6)):
            name = rng.choice(names) + from_uri(f"/v{rng.getrandbits(20)}")
            lifetime_ms = rng.choice((500, 4000, _LONGEST_MS))
            packet = make_interest(name, nonce=rng.getrandbits(32), lifetime_ms=lifetime_ms, hop_limit=_HOPS)
            if feeds and rng.random() < 0.4:
                item = item_name(rng.choice(feeds), rng.randint(1, 500))
                lifetime_ms = rng.choice((1000, 60_000))
                packet = make_interest(
                    item,
                    nonce=rng.getrandbits(32),
                    lifetime_ms=lifetime_ms,
                    hop_limit=_HOPS,
                    send_credit=rng.choice((1, 8, 100)),
                )
            if rng.random() < 0.2:
                changed = mutate(packet, [packet], rng)
                packet = changed if changed and _is_fair(changed) else packet
            if rng.random() < 0.3:
                packet = make_lp(packet[:100], sequence=rng.getrandbits(60), frag_index=0, frag_count=2)
            elif rng.random() < 0.3:
                packet = make_lp(packet, pit_token=b"t", tx_sequence=rng.getrandbits(60))
            self.node.receive(self.face, packet, None, now)

    def leave(self, now: int) -> None:
        """Leave: the face is closed."""
        self.node.visitors.pop(self.face, None)
        self.node.remove_face(self.face, now)


class Attacker(Node):
    """A neighbour that replays others' frames, mutated, and forges items of feeds.

    It avoids two things that no forwarder can detect: Data that only their consumer can verify, and Interests
    with lifetimes beyond the soak.
    """

    def __init__(self, forwarder: Forwarder, heard: deque[bytes], rng: Random, pause: int) -> None:
        super().__init__(forwarder, heard)
        self.sent = 0
        self._rng = rng
        self._pause = pause
        self._due: int | None = 0

    def stop(self) -> None:
        """Be quiet."""
        self._due = None

    def receive(self, face: int, frame: bytes, sender: Hashable, now: int) -> None:
        """Ignore a frame: it overhears everything anyway."""

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        return self._due

    def wake(self, now: int) -> None:
        """Send noise."""
        if self._due is None or self._due > now or not self.heard:
            return
        self._due = now + round(self._rng.expovariate(1 / self._pause))
        frame = self._rng.choice(self.heard)
        opened = open_interest(frame)
        if opened is not None and opened.send_credit and self._rng.random() < 0.5:
            frame = make_data(opened.name, b"a forgery")
        else:
            frame = mutate(frame, self.heard, self._rng)
        if frame and _is_fair(frame):
            self._outputs.append((1, frame[:1400], None))
            self.sent += 1


def _is_fair(frame: bytes) -> bool:
    """Return whether a forwarder can detect a frame's forgery, or will soon forget it."""
    interest, opened = open_interest(frame), open_data(frame)
    if interest is not None:
        return interest.lifetime_ms <= _LONGEST_MS
    return opened is None or split_item(opened[0].name) is not None
