"""The ends of a simulated network: publishing devices, readers, and an attacker."""

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from base.timers import earliest
from base.units import US
from forwarder.feedcache.items import Item
from forwarder.lli.consumer import STATES, Consumer
from forwarder.lli.producer import Producer
from forwarder.lli.upstream import Recovery
from forwarder.wire.feed import FORK_PROOF, fork_name, item_name, native_content, split_item
from forwarder.wire.lp import NO_ROUTE, make_lp, open_interest, parse_lp
from forwarder.wire.packet import ED25519, Data, make_data, make_interest
from forwarder.wire.tlv import element
from testbed.verify.kit.outcome import Violation
from testbed.verify.push.stories.feeds import STRANGER, sign_item
from testbed.verify.push.stories.story import MAX_ITEMS, Subscriber
from testbed.verify.push.world.invariants import Delivery

MAX_TURNS = 500
"""Maximum packets to an application at one instant; more is a loop."""


class LoopGuard:
    """Counts the packets to an application at one instant, to detect a loop inside its node."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._at = -1
        self._count = 0

    def count(self, now: int) -> None:
        """Count a packet."""
        self._count = self._count + 1 if self._at == now else 1
        self._at = now
        if self._count > MAX_TURNS:
            raise Violation("spin", self._where, f"node and application go round and round at {now} ns")


class Device:
    """Publishes a feed. Its log survives a restart of its node; requests do not.

    Attributes:
        signs: it signs its numbers.
    """

    def __init__(self, feed: bytes, items: tuple[Data, ...], sign: Callable[[bytes], bytes] | None) -> None:
        self.feed = feed
        self.signs = sign is not None
        self._sign = sign
        self.published = 0
        self._items = items
        self._loop_guard = LoopGuard("a publisher")
        self.restart()

    def restart(self) -> None:
        """Forget everything but the log."""
        self._producer = Producer(self.feed, self._get, lambda: self.published, sign=self._sign)

    def publish(self, items: int, now: int) -> None:
        """Append items to the log."""
        for _ in range(min(items, len(self._items) - self.published)):
            self.published += 1
            self._producer.appended(self.published, now)

    def receive(self, packet: bytes, now: int) -> None:
        """Answer an Interest."""
        self._loop_guard.count(now)
        interest = open_interest(packet)
        if interest is not None:
            self._producer.receive(interest, now)

    def take_outputs(self) -> list[bytes]:
        """Return the packets for the forwarder."""
        return self._producer.take_outputs()

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        return self._producer.next_deadline()

    def wake(self, now: int) -> None:
        """Act on a deadline."""
        self._producer.wake(now)

    @property
    def waiting(self) -> int:
        """Grants and Interests that await items."""
        return self._producer.waiting

    def _get(self, seq: int) -> Data | None:
        return self._items[seq - 1] if 1 <= seq <= self.published else None


class Reader:
    """An application that follows one feed, at its own pace; its items survive a restart of its node.

    Args:
        wanted: its part of the story.
        feed: the feed's name.
        delivery: makes the observer of a subscription that begins after an item.
        rng: source of nonces.
        report: called with (now, text) for each event.
    """

    def __init__(
        self,
        wanted: Subscriber,
        feed: bytes,
        delivery: Callable[[int], Delivery],
        rng: Random,
        report: Callable[[int, str], None],
    ) -> None:
        self.wanted = wanted
        self.subscribed = False
        self.held = 0
        self._last_error: str | None = None  # None after a later item
        self._is_waiting = False
        self.delivery = delivery(0)
        self._feed = feed
        self._make_delivery = delivery
        self._rng = rng
        self._report = report
        self._consumer: Consumer | None = None
        self._stalled = False
        self._next_take: int | None = None
        self._outputs: list[bytes] = []
        self._loop_guard = LoopGuard(wanted.name)

    def subscribe(self, now: int) -> None:
        """Subscribe from the item after the last one held."""
        if self.subscribed:
            return
        wanted = self.wanted
        self.subscribed = True
        self.delivery = self._make_delivery(self.held)
        self._consumer = Consumer(
            self._feed,
            rng=self._rng,
            after=self.held,
            credit=wanted.credit,
            lifetime_ms=wanted.lifetime_ms,
            recovery=Recovery(wanted.recovery),
        )
        self._consumer.start(now)
        self._read(now)

    def cancel(self, now: int) -> None:
        """End the subscription."""
        self._next_take = None
        if self._consumer is not None:
            self._consumer.cancel(now)
            self._outputs += self._checked(self._consumer.take_outputs())
            self._consumer = None
        self.subscribed = False

    def restart(self, now: int) -> None:
        """Lose everything but the items, and subscribe again."""
        again = self.subscribed and self.delivery.error is None
        self._consumer = self._next_take = None
        self._outputs = []
        if again:
            self.subscribed = False
            self.subscribe(now)

    def stall(self) -> None:
        """Stop taking items."""
        self._stalled = True

    def read(self, now: int) -> None:
        """Take items again."""
        self._stalled = False
        self._read(now)

    def receive(self, packet: bytes, now: int) -> None:
        """Process a packet."""
        self._loop_guard.count(now)
        if self._consumer is not None:
            self._consumer.receive(parse_lp(packet), now)
            self._read(now)

    def take_outputs(self) -> list[bytes]:
        """Return the packets for the forwarder."""
        if self._consumer is not None:
            self._outputs += self._checked(self._consumer.take_outputs())
        outputs, self._outputs = self._outputs, []
        return outputs

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        consumer = self._consumer.next_deadline() if self._consumer is not None else None
        take = None if self._stalled else self._next_take
        return earliest(take, consumer)

    def wake(self, now: int) -> None:
        """Act on a deadline."""
        if self._consumer is not None:
            self._consumer.wake(now)
            self._read(now)

    def _read(self, now: int) -> None:
        """Take the allowed items, and record an error."""
        consumer, wanted = self._consumer, self.wanted
        if consumer is None or self._stalled:
            return
        if not wanted.pause:
            self._take(consumer.take_items(), now)
        elif self._next_take is None or self._next_take <= now:
            items = consumer.take_items(wanted.batch)
            self._take(items, now)
            self._next_take = now + wanted.pause * US if items else None
        consumer.wake(now)
        for error in consumer.take_errors():
            if error in STATES:
                self._is_waiting = error == "waiting"
            else:
                self._last_error = error
            self._report(now, f"is told: {error}")
        if consumer.error is not None and self._next_take is None:
            self.delivery.failed(consumer.error)
            self.cancel(now)
            self.subscribed = True

    def _take(self, items: list[Item], now: int) -> None:
        for item in items:
            self.delivery.got(item)
            self.held = item.seq
            self._last_error = None
            self._report(now, f"gets item {item.seq}")

    @property
    def last_error(self) -> str | None:
        """The error known to the application, None if there is none."""
        return self._last_error or ("waiting" if self._is_waiting else None)

    def _checked(self, packets: list[bytes]) -> list[bytes]:
        """Check that requests do not exceed a step and a half beyond the items taken."""
        for packet in packets:
            interest = open_interest(packet)
            parts = split_item(interest.name) if interest is not None else None
            if interest is None or parts is None:
                continue
            credit = 1 if interest.send_credit is None else interest.send_credit
            room = self.wanted.credit + self.wanted.credit // 2
            if credit and parts[1] + credit - 1 > self.held + room:
                asked = f"items {parts[1]} .. {parts[1] + credit - 1}"
                holds = f"item {self.held} is the last taken, and there is room for {room}"
                raise Violation("credit", self.wanted.name, f"asks for {asked}; {holds}")
        return packets


class Target(NamedTuple):
    """An attacker's knowledge: a feed, its device's items and their number; the link's last frames."""

    feed: bytes
    items: tuple[Data, ...]
    published: int
    heard: list[bytes]


def inject(kind: str, salt: int, target: Target) -> bytes | None:
    """Make an attacker's frame (story.INJECTIONS); None without material."""
    rng = Random(salt)
    seq = rng.randint(1, min(target.published + 1, MAX_ITEMS))
    genuine = target.items[seq - 1]
    match kind:
        case "noise":
            # 0 is no packet's type; so this is never valid.
            return bytes((rng.choice((0, 5, 6, 100)), 255)) + rng.randbytes(rng.randint(1, 60))
        case "cut-short":
            whole = rng.choice(target.heard) if target.heard else genuine.wire
            return whole[: rng.randrange(1, len(whole))]
        case "flipped":
            return _flip(genuine, rng)
        case "stranger":
            content = native_content(b"" if seq == 1 else rng.randbytes(32), b"a forgery")
            return sign_item(target.feed, seq, content, STRANGER).wire
        case "misnumbered":
            other = item_name(target.feed, seq % MAX_ITEMS + 1)
            return make_data(other, genuine.content, signature_type=genuine.signature_type)
        case "no-item":
            # It ends like an item's name, with a first component that runs past the end.
            name = b"\x08\xfc" + item_name(target.feed, seq)
            return make_interest(name, nonce=rng.getrandbits(32), lifetime_ms=1000, send_credit=4)
        case "stray-nack":
            lli = make_interest(
                item_name(target.feed, seq), nonce=rng.getrandbits(32), lifetime_ms=1000, send_credit=4
            )
            return make_lp(lli, nack_reason=NO_ROUTE)
        case "bad-proof":
            return _bad_proof(seq, target, rng)
        case "replay":
            return rng.choice(target.heard) if target.heard else None
        case "early":
            return genuine.wire
        case "greedy" | "cancel":
            return make_interest(
                item_name(target.feed, seq),
                nonce=rng.getrandbits(32),
                lifetime_ms=1000,
                hop_limit=rng.randint(1, 8),
                send_credit=rng.choice((1, 30, 2**64 - 1)) if kind == "greedy" else 0,
            )
    raise ValueError(f"injection {kind!r}")


def _flip(data: Data, rng: Random) -> bytes:
    """Flip one bit of the signed part, or of the signature."""
    start = data.wire.index(data.content)
    # Of an SSB item only the message inside is signed.
    end = len(data.wire) if data.signature_type == ED25519 else start + len(data.content)
    wire = bytearray(data.wire)
    wire[rng.randrange(start + 8, end)] ^= 1 << rng.randrange(7)
    return bytes(wire)


def _bad_proof(seq: int, target: Target, rng: Random) -> bytes:
    """Make an invalid proof of a fork: an item twice, two that agree, or one signed by a stranger."""
    one = target.items[seq - 1]
    stranger = sign_item(target.feed, seq, native_content(b"" if seq == 1 else bytes(32), b"x"), STRANGER)
    other = rng.choice((one, target.items[seq % MAX_ITEMS], stranger))
    return make_data(fork_name(target.feed, seq), element(FORK_PROOF, one.wire + other.wire))
