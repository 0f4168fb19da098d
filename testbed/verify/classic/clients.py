"""Classic applications of a simulated network: consumers, producers, and followers of a layering's log.

They outlive a restart of their node; the new forwarder has none of their Interests.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import NamedTuple

from base.passive import Outputs
from base.timers import earliest
from base.units import MS, US
from forwarder.host import Application
from forwarder.wire.lp import CONGESTION, NO_ROUTE, make_lp, open_interest, parse_lp
from forwarder.wire.name import DIGEST_COMPONENT_BYTES, GENERIC, IMPLICIT_DIGEST, component, ends_with_digest
from forwarder.wire.packet import Interest, make_data, make_interest
from ssb_over_ndn.following.subscriptions import Subscription
from testbed.verify.classic.exchanges import Exchanges
from testbed.verify.kit.outcome import Violation
from testbed.verify.push.stories.story import Follow, Prefix
from testbed.verify.push.world.actors import LoopGuard
from testbed.verify.push.world.frames import read_packet
from testbed.verify.push.world.invariants import Delivery
from topologies.emulator.virtual_time import VirtualTime

_HINTED = component(GENERIC, b"hinted")
"""Prefix of names that are unroutable without a forwarding hint."""
_CHILD = component(GENERIC, b"v")
_FIRST_PAUSE = 50 * MS
LONGEST_PAUSE = 1000 * MS
"""Maximum pause after a Nack, or between an impatient application's retries."""
_PATIENT = 4

Report = Callable[[int, str], None]
ReportEnd = Callable[[int, "Request", str], None]


def name_of(prefix: str) -> bytes:
    """Return a prefix's name."""
    return component(GENERIC, prefix.encode())


def hinted(prefix: str) -> bytes:
    """Return a prefix's name that is reachable only by a forwarding hint."""
    return _HINTED + name_of(prefix)


def answer(prefix: Prefix, name: bytes) -> bytes:
    """Return the Data packet of a name, the same at all producers."""
    return _answer(name, prefix.size, prefix.freshness_ms)


@cache
def _answer(name: bytes, size: int, freshness_ms: int) -> bytes:
    content = hashlib.sha256(name).digest() * (size // 32 + 1)
    return make_data(name, content[:size], freshness_ms=freshness_ms or None)


class Request(NamedTuple):
    """A consumer's request for one name.

    Attributes:
        name, can_be_prefix, must_be_fresh, hint, hop_limit: of its Interests.
        lifetime: of each, ns.
        tries: number of Interests; 0: until answered.
        again: time until the next Interest, ns, even if the previous one is pending; 0: when it has ended.
            Doubled every _PATIENT tries, up to LONGEST_PAUSE: an impatient application can fill a link with
            fragments, so that no answer arrives whole.
        prefix: its names' prefix.
    """

    name: bytes
    can_be_prefix: bool
    must_be_fresh: bool
    hint: tuple[bytes, ...]
    hop_limit: int | None
    lifetime: int
    tries: int
    again: int
    prefix: Prefix

    @property
    def key(self) -> tuple[bytes, bool, bool]:
        """Its identity."""
        return self.name, self.can_be_prefix, self.must_be_fresh


def make_request(
    prefix: Prefix,
    number: int | str,
    selectors: str,
    lifetime_ms: int,
    hop_limit: int,
    tries: int,
    again_ms: int,
) -> Request:
    """Make the request of a story's step.

    `selectors`: p and P: CanBePrefix, at the name or above it; f: MustBeFresh; d and x: the implicit digest,
    or one that no Data have; h: a name that needs a forwarding hint. hop_limit 0: none.
    """
    above = hinted(prefix.name) if "h" in selectors else name_of(prefix.name)
    name = above if "P" in selectors else above + component(GENERIC, str(number).encode())
    if "d" in selectors:
        name += component(IMPLICIT_DIGEST, hashlib.sha256(answer(prefix, name)).digest())
    elif "x" in selectors:
        name += component(IMPLICIT_DIGEST, bytes(32))
    return Request(
        name,
        "p" in selectors.lower(),
        "f" in selectors,
        (name_of(prefix.name),) if "h" in selectors else (),
        hop_limit or None,
        lifetime_ms * MS,
        tries,
        again_ms * MS,
        prefix,
    )


@dataclass(eq=False, slots=True)
class _Pending:
    """A pending request: the nonce of its last Interest, its expiry, and the number of tries."""

    request: Request
    nonce: int = 0
    expiry: int = 0  # 0: refused, waiting for the next try
    tries: int = 0
    next: int | None = None  # when the next Interest is due, ns
    pause: int = _FIRST_PAUSE


class Consumer(Outputs):
    """Expresses Interests; each ends by Data, by a Nack or by its lifetime, and may be tried again.

    Args:
        label: its name for reports.
        rng: source of nonces.
        report: called with (now, request, text) for each ending of an Interest.
    """

    def __init__(self, label: str, rng: Random, report: ReportEnd) -> None:
        super().__init__()
        self.label = label
        self._is_open = True
        self._rng = rng
        self._report = report
        self._pending: dict[tuple[bytes, bool, bool], _Pending] = {}
        self._answered: set[int | None] = set()  # nonces
        self._loop_guard = LoopGuard(label)

    @property
    def pending(self) -> list[Request]:
        """The pending requests."""
        return [pending.request for pending in self._pending.values()]

    def ask(self, request: Request, now: int) -> None:
        """Start a request, unless the same one is pending."""
        if request.key not in self._pending:
            self._pending[request.key] = pending = _Pending(request)
            self._express(pending, now)

    def stop(self) -> None:
        """End retries; pending Interests end by themselves."""
        self._is_open = False
        self._pending = {key: pending for key, pending in self._pending.items() if pending.expiry}
        for pending in self._pending.values():
            pending.next = None

    def receive(self, packet: bytes, now: int) -> None:
        """Process Data or a Nack."""
        self._loop_guard.count(now)
        frame = read_packet(packet)
        if frame.kind == "data":
            for key in [key for key in self._pending if frame.satisfies(key)]:
                if self._pending[key].expiry <= now:
                    continue  # refused, and not retried
                answered = self._pending.pop(key)
                self._answered.add(answered.nonce)
                if frame.wire != answer(answered.request.prefix, frame.name):
                    raise Violation("outcome", self.label, "is given Data that are not the producer's")
                self._report(now, answered.request, "is answered")
        elif frame.kind == "nack":
            pending = self._pending.get(frame.key)
            if frame.nonce in self._answered:
                return  # by Data of another Interest, whose staleness it cannot know
            if pending is None or pending.expiry <= now:
                raise Violation("outcome", self.label, "is given a Nack for no Interest that is pending")
            if pending.nonce == frame.nonce:
                self._refused(pending, frame.reason, now)

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        due = [pending.next for pending in self._pending.values() if pending.next is not None]
        due += [pending.expiry for pending in self._pending.values() if pending.expiry]
        return min(due, default=None)

    def wake(self, now: int) -> None:
        """Retry, or give up."""
        for pending in list(self._pending.values()):
            if pending.next is not None and pending.next <= now:
                self._express(pending, now)
            elif pending.expiry and pending.expiry <= now:
                self._report(now, pending.request, "times out")
                if self._may_try(pending):
                    self._express(pending, now)
                else:
                    del self._pending[pending.request.key]

    def _refused(self, pending: _Pending, reason: int, now: int) -> None:
        self._report(now, pending.request, f"is refused, reason {reason}")
        pending.expiry = 0
        if not self._may_try(pending):
            del self._pending[pending.request.key]
            return
        pending.next = now + pending.pause
        pending.pause = min(2 * pending.pause, LONGEST_PAUSE)

    def _may_try(self, pending: _Pending) -> bool:
        return self._is_open and (not pending.request.tries or pending.tries < pending.request.tries)

    def _express(self, pending: _Pending, now: int) -> None:
        request = pending.request
        pending.tries += 1
        pending.nonce = self._rng.getrandbits(32)
        pending.expiry = max(pending.expiry, now + request.lifetime)
        if request.again and self._may_try(pending):
            pending.next = now + min(request.again << pending.tries // _PATIENT, LONGEST_PAUSE)
        else:
            pending.next = None
        self.outputs.append(
            make_interest(
                request.name,
                nonce=pending.nonce,
                can_be_prefix=request.can_be_prefix,
                must_be_fresh=request.must_be_fresh,
                lifetime_ms=request.lifetime // MS,
                hop_limit=request.hop_limit,
                forwarding_hint=request.hint,
            )
        )


class Producer(Outputs):
    """A producer of a prefix: answers at once or late, refuses, or is silent."""

    def __init__(self, prefix: Prefix) -> None:
        super().__init__()
        self._prefix = prefix
        self._due: dict[bytes, int] = {}  # Data packets by their due time
        self._refused: set[bytes] = set()
        self._loop_guard = LoopGuard(f"the producer of {prefix.name}")

    def receive(self, packet: bytes, now: int) -> None:
        """Answer an Interest."""
        self._loop_guard.count(now)
        interest = open_interest(packet)
        prefix = self._prefix
        if interest is None or prefix.manner == "never":
            return
        if prefix.manner == "nacks" or (
            prefix.manner == "nacks-first" and interest.name not in self._refused
        ):
            self._refused.add(interest.name)
            reason = NO_ROUTE if len(interest.name) % 2 else CONGESTION
            self.outputs.append(make_lp(interest.wire, nack_reason=reason))
            return
        data = self._find(interest)
        if data is not None:
            self._due.setdefault(data, now + prefix.delay * US)
            self.wake(now)

    def _find(self, interest: Interest) -> bytes | None:
        """Return Data that satisfy an Interest, None without any."""
        name = interest.name
        if not ends_with_digest(name):
            return answer(self._prefix, name + _CHILD if interest.can_be_prefix else name)
        data = answer(self._prefix, name[:-DIGEST_COMPONENT_BYTES])
        return data if hashlib.sha256(data).digest() == name[-32:] else None

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        return min(self._due.values(), default=None)

    def wake(self, now: int) -> None:
        """Send due packets."""
        for data in [data for data, due in self._due.items() if due <= now]:
            del self._due[data]
            self.outputs.append(data)


class LogFollower:
    """An application that follows a log by a layering's Subscription, and checks the items.

    Args:
        wanted: its part of the story.
        subscription: the layering's.
        delivery: the observer of its items.
        report: called with (now, text) for each event.
    """

    def __init__(
        self, wanted: Follow, subscription: Subscription, delivery: Delivery, report: Report
    ) -> None:
        self.wanted = wanted
        self.delivery = delivery
        self._subscription = subscription
        self._report = report
        self._start: int | None = wanted.start * US
        self._next_take: int | None = None
        self._is_open = False
        self._loop_guard = LoopGuard(wanted.name)

    def receive(self, packet: bytes, now: int) -> None:
        """Process a packet."""
        self._loop_guard.count(now)
        if self._is_open:
            self._subscription.receive(parse_lp(packet), now)
            self._take(now)

    def take_outputs(self) -> list[bytes]:
        """Return the packets for the forwarder."""
        return self._subscription.take_outputs()

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        if self._start is not None:
            return self._start
        if not self._is_open:
            return None
        return earliest(self._next_take, self._subscription.next_deadline())

    def wake(self, now: int) -> None:
        """Begin, or act on a deadline."""
        if self._start is not None and self._start <= now:
            self._start = None
            self._is_open = True
            self._report(now, "follows")
            self._subscription.start(now)
        if self._is_open:
            self._subscription.wake(now)
            self._take(now)

    def stop(self, now: int) -> None:
        """Unsubscribe."""
        self._start = None
        if self._is_open:
            self._is_open = False
            self._subscription.stop(now)

    def _take(self, now: int) -> None:
        pause = self.wanted.pause * US
        if not pause or self._next_take is None or self._next_take <= now:
            items = self._subscription.take_items(1 if pause else None)
            for item in items:
                self.delivery.got(item)
                self._report(now, f"gets item {item.seq}")
            if items:
                self._next_take = now + pause if pause else None
                self._subscription.wake(now)
            else:
                self._next_take = None
        for error in self._subscription.take_errors():
            if error == "fork":
                self.delivery.failed(error)
            self._report(now, f"is told: {error}")


class Tap:
    """An observed application face.

    Args:
        node, label: its node, and its label.
        application: the application.
        exchanges: the observer.
        time: virtual time.
    """

    def __init__(
        self, node: str, label: str, application: Application, exchanges: Exchanges, time: VirtualTime
    ) -> None:
        self.application = application
        self._node = node
        self._label = label
        self._exchanges = exchanges
        self._time = time

    def receive(self, packet: bytes, now: int) -> None:
        """Process a packet from the forwarder."""
        self._exchanges.sent(self._node, self._label, read_packet(packet), now)
        self.application.receive(packet, now)

    def take_outputs(self) -> list[bytes]:
        """Return the packets for the forwarder."""
        packets = self.application.take_outputs()
        for packet in packets:
            self._exchanges.arrived(self._node, self._label, read_packet(packet), self._time.now)
        return packets

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        return self.application.next_deadline()

    def wake(self, now: int) -> None:
        """Act on a deadline."""
        self.application.wake(now)
