"""Two relays and the link between them in virtual time: publishers at b, subscribers at a."""

import hashlib
from collections import Counter
from heapq import heappop, heappush
from itertools import count
from random import Random

from forwarder.forwarder import Forwarder
from forwarder.lli.consumer import Consumer
from forwarder.lli.producer import Producer
from forwarder.wire.feed import feed_name, item_name, native_content
from forwarder.wire.lp import open_interest, parse_lp
from forwarder.wire.packet import ED25519, Data, make_data, parse_data
from ssb.keys import Identity

LINK, FIRST_APPLICATION = 1, 10


def native_items(n: int, size: int) -> tuple[bytes, list[Data]]:
    """Name and items of the n-th feed."""
    writer = Identity.from_seed(n.to_bytes(32, "big"))
    feed, backlink, items = feed_name(b"\x08\x01f", writer.public_key), b"", []
    for seq in range(1, size + 1):
        content = native_content(backlink, b"x")
        wire = make_data(item_name(feed, seq), content, signature_type=ED25519, sign=writer.sign)
        backlink = hashlib.sha256(wire).digest()
        items.append(parse_data(wire))
    return feed, items


class TwoRelays:
    """Feed n is published at face 10 + n of b, and followed at face 10 + n of a."""

    def __init__(self, sizes: list[int], delay: int, lifetime_ms: int, credit: int = 64) -> None:
        self.delay = delay
        self.now = 0
        self.a, self.b = Forwarder(rng=Random(1)), Forwarder(rng=Random(2))
        for node in (self.a, self.b):
            node.add_face(LINK)
        self.feeds = [native_items(n, size) for n, size in enumerate(sizes)]
        self.tips = [0] * len(sizes)
        self.producers, self.consumers = [], []
        self.frames: Counter[str] = Counter()
        self.sizes: Counter[str] = Counter()
        self.late: list[int] = []
        self.errors: list[str] = []
        self.published: dict[tuple[int, int], int] = {}
        self._queue: list[tuple[int, int, Forwarder, bytes]] = []
        self._order = count()
        for n, (feed, _) in enumerate(self.feeds):
            face = FIRST_APPLICATION + n
            for node in (self.a, self.b):
                node.add_face(face, local=True)
            self.b.fib.add(feed, face)
            self.a.fib.add(feed, LINK)
            self.producers.append(
                Producer(feed, lambda seq, n=n: self._get(n, seq), lambda n=n: self.tips[n])  # type: ignore[misc]
            )
            self.consumers.append(
                Consumer(feed, rng=Random(1000 + n), credit=credit, lifetime_ms=lifetime_ms)
            )
        for consumer in self.consumers:
            consumer.start(0)
        self.wait(0)

    def _get(self, n: int, seq: int) -> Data | None:
        return self.feeds[n][1][seq - 1] if 1 <= seq <= self.tips[n] else None

    def publish(self, n: int) -> None:
        self.tips[n] += 1
        self.published[n, self.tips[n]] = self.now
        self.producers[n].appended(self.tips[n], self.now)
        self._settle()

    def _settle(self) -> None:
        is_busy = True
        while is_busy:
            is_busy = False
            for node, other in ((self.a, self.b), (self.b, self.a)):
                for face, packet in node.take_outputs():
                    is_busy = True
                    if face == LINK:
                        self._carry(node, other, packet)
                    elif node is self.a:
                        self._deliver(face - FIRST_APPLICATION, packet)
                    elif (interest := open_interest(packet)) is not None:
                        self.producers[face - FIRST_APPLICATION].receive(interest, self.now)
            for n, (producer, consumer) in enumerate(zip(self.producers, self.consumers, strict=True)):
                for packet in producer.take_outputs():
                    is_busy = True
                    self.b.receive(FIRST_APPLICATION + n, packet, self.now)
                for packet in consumer.take_outputs():
                    is_busy = True
                    self.a.receive(FIRST_APPLICATION + n, packet, self.now)

    def _carry(self, node: Forwarder, other: Forwarder, packet: bytes) -> None:
        side = "a" if node is self.a else "b"
        self.frames[side] += 1
        if parse_lp(packet).hello is not None:
            self.frames[f"hello {side}"] += 1
        heappush(self._queue, (self.now + self.delay, next(self._order), other, packet))

    def _deliver(self, n: int, packet: bytes) -> None:
        consumer = self.consumers[n]
        consumer.receive(parse_lp(packet), self.now)
        for item in consumer.take_items():
            self.late.append(self.now - self.published[n, item.seq])
        self.errors += consumer.take_errors()

    def wait(self, ns: int) -> None:
        end = self.now + ns
        self._settle()
        while True:
            cores = (self.a, self.b, *self.producers, *self.consumers)
            dues = [due for core in cores if (due := core.next_deadline()) is not None]
            dues += [self._queue[0][0]] if self._queue else []
            if not dues or min(dues) > end:
                break
            self.now = max(self.now, min(dues))
            while self._queue and self._queue[0][0] <= self.now:
                _, _, node, packet = heappop(self._queue)
                node.receive(LINK, packet, self.now)
                self._settle()
            for core in cores:
                due = core.next_deadline()
                if due is not None and due <= self.now:
                    core.wake(self.now)
            self._settle()
        self.now = end
