"""The ends of a soaked network: servers, clients, publishers, followers, visitors, an attacker."""

import hashlib
from collections import Counter, deque
from collections.abc import Hashable
from dataclasses import dataclass
from random import Random

from base.units import MS
from forwarder.forwarder import Forwarder
from forwarder.host import Host
from forwarder.lli.consumer import Consumer
from forwarder.lli.producer import Producer
from forwarder.wire.feed import feed_name, item_name, native_content, split_item
from forwarder.wire.lp import CONGESTION, make_lp, open_data, open_interest, parse_lp
from forwarder.wire.name import IMPLICIT_DIGEST, VERSION, component, components, from_uri
from forwarder.wire.packet import Data, make_data, make_interest
from forwarder.wire.tlv import nni
from ssb.keys import Identity
from testbed.verify.kit.outcome import Violation
from testbed.verify.mutations import mutate
from testbed.verify.push.stories.feeds import sign_item

FRESHNESS_MS = 1000
KEPT_ITEMS = 256
"""Items that a feed's publisher keeps."""
_LATE = 400 * MS
_LARGE = 3000
"""Content size that takes three frames, bytes."""
_LIFETIME_MS = 2000
_PATIENCE = 500 * MS
"""Pause before a refused request is repeated."""
_POPULAR = 12
"""Names with many requesters."""
_LONGEST_MS = 60_000


def content_of(name: bytes) -> bytes:
    """Return the content of a name's Data; for every seventh name, larger than a frame."""
    seed = hashlib.sha256(name).digest()
    return seed * (_LARGE // 32) if seed[0] % 7 == 0 else seed


class Server:
    """Answers `<prefix>/<kind>/...` as `kind` says: data, prefix, late, nack, silent."""

    def __init__(self, prefix: bytes) -> None:
        self.prefix = prefix
        self.answered = 0
        self._depth = len(components(prefix))
        self._outputs: list[bytes] = []
        self._late: deque[tuple[int, bytes]] = deque()

    def receive(self, packet: bytes, now: int) -> None:
        """Process an Interest: answer it, or not."""
        interest = open_interest(packet)
        if interest is None:
            return
        parts = components(interest.name)
        kind = parts[self._depth][1] if len(parts) > self._depth else b""
        if kind in (b"data", b"late"):
            self.answered += 1
            name = b"".join(component(kind, value) for kind, value in parts if kind != IMPLICIT_DIGEST)
            data = make_data(name, content_of(name), freshness_ms=FRESHNESS_MS)
            if kind == b"data":
                self._outputs.append(data)
            else:
                self._late.append((now + _LATE, data))
        elif kind == b"prefix":
            self.answered += 1
            name = interest.name + component(VERSION, nni(now // MS))
            self._outputs.append(make_data(name, content_of(name), freshness_ms=FRESHNESS_MS))
        elif kind == b"nack":
            self._outputs.append(make_lp(interest.wire, nack_reason=CONGESTION))

    def take_outputs(self) -> list[bytes]:
        """Return the packets for the forwarder."""
        outputs, self._outputs = self._outputs, []
        return outputs

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        return self._late[0][0] if self._late else None

    def wake(self, now: int) -> None:
        """Send late answers."""
        while self._late and self._late[0][0] <= now:
            self._outputs.append(self._late.popleft()[1])


@dataclass(slots=True)
class _Request:
    kind: str
    name: bytes
    hint: bytes | None
    tries: int
    due: int


KINDS = (
    "data",
    "popular",
    "fresh",
    "prefix",
    "late",
    "digest",
    "hint",
    "nack",
    "silent",
    "nowhere",
    "not-it",
)
"""Kinds of requests; the last four have no answer."""
_ANSWERED = KINDS[:-4]


class Client:
    """Makes random requests, and repeats each until its due answer.

    Attributes:
        counts: asked, got and refused, by kind of request.
    """

    def __init__(
        self, where: str, servers: list[bytes], hidden: list[tuple[bytes, bytes]], rng: Random, pause: int
    ) -> None:
        self.where = where
        self.counts: Counter[str] = Counter()
        self._servers = servers
        self._hidden = hidden  # (prefix, its forwarding hint)
        self._rng = rng
        self._pause = pause
        self._next: int | None = 0
        self._requests: dict[bytes, _Request] = {}
        self._outputs: list[bytes] = []
        self._asked = 0

    def stop(self) -> None:
        """Make no more requests; pending ones continue."""
        self._next = None

    @property
    def missing(self) -> list[str]:
        """Requests without their due answer."""
        return [request.kind for request in self._requests.values() if request.kind in _ANSWERED]

    def receive(self, packet: bytes, now: int) -> None:
        """Process an answer."""
        header = parse_lp(packet)
        if header.nack_reason is not None:
            interest = open_interest(header.fragment)
            request = None if interest is None else self._requests.get(interest.name)
            if request is not None:
                self.counts[f"{request.kind} refused"] += 1
                request.due = now + _PATIENCE
            return
        opened = open_data(packet)
        if opened is None:
            raise Violation("answer", self.where, "neither Data nor Nack")
        self._on_data(opened[0])

    def _on_data(self, data: Data) -> None:
        if data.content != content_of(data.name):
            raise Violation("answer", self.where, f"{data.name.hex()} has somebody else's content")
        candidates = [
            request for name in self._names(data) if (request := self._requests.pop(name, None)) is not None
        ]
        for request in candidates:
            if request.kind not in _ANSWERED:
                raise Violation("answer", self.where, f"Data for {request.kind}")
            self.counts[f"{request.kind} got"] += 1

    @staticmethod
    def _names(data: Data) -> list[bytes]:
        parts = components(data.name)
        shorter = data.name[: -len(component(*parts[-1]))]
        return [data.name, shorter, data.name + component(IMPLICIT_DIGEST, data.digest())]

    def take_outputs(self) -> list[bytes]:
        """Return the packets for the forwarder."""
        outputs, self._outputs = self._outputs, []
        return outputs

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        due = [request.due for request in self._requests.values()]
        return min([*due, *([] if self._next is None else [self._next])], default=None)

    def wake(self, now: int) -> None:
        """Request, and repeat requests."""
        for request in [request for request in self._requests.values() if request.due <= now]:
            self._retry_later(request, now)
        if self._next is not None and self._next <= now:
            self._next = now + round(self._rng.expovariate(1 / self._pause))
            self._ask(now)

    def _ask(self, now: int) -> None:
        kind = self._rng.choice(KINDS)
        server = self._rng.choice(self._servers)
        self._asked += 1
        word = {"popular": "data", "fresh": "data", "digest": "data", "hint": "data", "not-it": "data"}.get(
            kind, kind
        )
        which = (
            str(self._rng.randrange(_POPULAR))
            if kind in ("popular", "fresh")
            else f"{self.where}-{self._asked}"
        )
        hint = None
        if kind == "hint":
            server, hint = self._rng.choice(self._hidden)
        elif kind == "nowhere":
            server = from_uri("/nowhere")
        name = server + from_uri(f"/{word}/{which}")
        if kind in ("digest", "not-it"):
            wire = make_data(name, content_of(name), freshness_ms=FRESHNESS_MS)
            digest = hashlib.sha256(wire).digest() if kind == "digest" else bytes(32)
            name += component(IMPLICIT_DIGEST, digest)
        if name in self._requests:
            return
        self.counts[f"{kind} asked"] += 1
        request = self._requests[name] = _Request(kind, name, hint, 0, 0)
        self._send(request, now)

    def _retry_later(self, request: _Request, now: int) -> None:
        if request.kind in _ANSWERED:
            self._send(request, now)
        else:
            self.counts[f"{request.kind} given up"] += 1
            self._requests.pop(request.name, None)

    def _send(self, request: _Request, now: int) -> None:
        request.tries += 1
        request.due = now + min(_LIFETIME_MS * request.tries, 10_000) * MS
        self._outputs.append(
            make_interest(
                request.name,
                nonce=self._rng.getrandbits(32),
                can_be_prefix=request.kind == "prefix",
                must_be_fresh=request.kind in ("fresh", "prefix"),
                lifetime_ms=_LIFETIME_MS,
                hop_limit=16,
                forwarding_hint=() if request.hint is None else (request.hint,),
            )
        )


class Publisher:
    """Appends to a feed at random times; its log outlives its node."""

    def __init__(self, prefix: bytes, rng: Random, pause: int) -> None:
        self.tip = 0
        self._identity = Identity.from_seed(rng.randbytes(32))
        self.feed = feed_name(prefix, self._identity.public_key)
        self._rng = rng
        self._pause = pause
        self._next: int | None = 0
        self._items: dict[int, Data] = {}
        self.restart()

    def restart(self) -> None:
        """Forget everything but the log."""
        self._producer = Producer(self.feed, self._items.get, lambda: self.tip, oldest=lambda: self.oldest)

    def stop(self) -> None:
        """Append no more."""
        self._next = None

    @property
    def oldest(self) -> int:
        """The oldest item kept."""
        return max(1, self.tip - KEPT_ITEMS + 1)

    @property
    def waiting(self) -> int:
        """Grants and Interests that await items."""
        return self._producer.waiting

    def receive(self, packet: bytes, now: int) -> None:
        """Answer an Interest."""
        interest = open_interest(packet)
        if interest is not None:
            self._producer.receive(interest, now)

    def take_outputs(self) -> list[bytes]:
        """Return the packets for the forwarder."""
        return self._producer.take_outputs()

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        waiting = self._producer.next_deadline()
        return min((due for due in (waiting, self._next) if due is not None), default=None)

    def wake(self, now: int) -> None:
        """Append."""
        self._producer.wake(now)
        if self._next is not None and self._next <= now:
            self._next = now + round(self._rng.expovariate(1 / self._pause))
            self.tip += 1
            last = self._items.get(self.tip - 1)
            size = _LARGE if self._rng.random() < 0.1 else 100
            content = native_content(b"" if last is None else last.digest(), self._rng.randbytes(size))
            self._items[self.tip] = sign_item(self.feed, self.tip, content, self._identity)
            self._items.pop(self.oldest - 1, None)
            self._producer.appended(self.tip, now)


class Follower:
    """Follows a feed, every item once and in order.

    `errors` counts transient ones: while links are down, a feed's past, or all of it, is unavailable.
    """

    def __init__(self, where: str, publisher: Publisher, rng: Random, now: int, errors: Counter[str]) -> None:
        self.errors = errors
        self.where = where
        self.publisher = publisher
        self.held = max(publisher.oldest - 1, publisher.tip - rng.choice((0, 0, 3, 30)))
        self._rng = rng
        self.restart(now)

    def restart(self, now: int) -> None:
        """Subscribe from the item after the last one held."""
        self._consumer = Consumer(
            self.publisher.feed,
            rng=self._rng,
            after=self.held,
            credit=self._rng.choice((1, 4, 16)),
            lifetime_ms=self._rng.choice((2_000, 10_000, 30_000)),
        )
        self._consumer.start(now)

    def cancel(self, now: int) -> None:
        """End the subscription."""
        self._consumer.cancel(now)

    @property
    def is_done(self) -> bool:
        """Whether it has everything."""
        return self.held >= self.publisher.tip

    def receive(self, packet: bytes, now: int) -> None:
        """Process a packet."""
        self._consumer.receive(parse_lp(packet), now)
        self._take(now)

    def take_outputs(self) -> list[bytes]:
        """Return the packets for the forwarder."""
        return self._consumer.take_outputs()

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        return self._consumer.next_deadline()

    def wake(self, now: int) -> None:
        """Act on a deadline."""
        self._consumer.wake(now)
        self._take(now)

    def _take(self, now: int) -> None:
        for item in self._consumer.take_items():
            if item.seq != self.held + 1:
                raise Violation("delivered", self.where, f"item {item.seq} after item {self.held}")
            self.held = item.seq
        self._consumer.wake(now)
        self.errors.update(self._consumer.take_errors())
        if self._consumer.error is not None:
            raise Violation("delivered", self.where, f"is told {self._consumer.error}")


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
            name = rng.choice(names) + from_uri(
                f"/{rng.choice(('data', 'late', 'silent'))}/v{rng.getrandbits(20)}"
            )
            packet = make_interest(
                name, nonce=rng.getrandbits(32), lifetime_ms=rng.choice((500, 4000, 60_000)), hop_limit=16
            )
            if feeds and rng.random() < 0.4:
                item = item_name(rng.choice(feeds), rng.randint(1, 500))
                lifetime_ms = rng.choice((1000, 60_000))
                packet = make_interest(
                    item,
                    nonce=rng.getrandbits(32),
                    lifetime_ms=lifetime_ms,
                    hop_limit=16,
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
