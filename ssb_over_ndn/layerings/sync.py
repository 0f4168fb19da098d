"""Layering `sync`: State Vector Sync, version 3 (named-data.github.io/StateVectorSync, 2025-01-04).

Publisher and subscribers of a feed are a sync group, `<feed>/32=sync`. Sync Interests, which forwarders
multicast in the group, carry the state vector: the newest number of each publisher. A member sends one when
it publishes, and every 30 s; one that receives an outdated vector answers, after a random time, unless
another member does first. Items are fetched by classic Interests under their own names.

Two things are left to the application. The bootstrap time is when the feed began: a log is never lost, and
its numbers go on. And the state vector's Data packet has a digest for a signature: subscribers do not know
each other's keys, and a number only causes a fetch of the item, which its own signature proves.
"""

import hashlib
import math
from collections.abc import Mapping
from random import Random

from base.units import MS
from forwarder.feedcache.items import open_item
from forwarder.wire.name import NAME, VERSION, component, prefix_ends
from forwarder.wire.packet import DIGEST_SHA256, SENT_HOP_LIMIT, Data, Interest, make_data, parse_data
from forwarder.wire.parameters import make_interest_with_parameters, parameters_of
from forwarder.wire.tlv import MalformedPacket, element, elements, nni, read_nni
from ssb.message import Message
from ssb_over_ndn.following.follower import Follower, Scout
from ssb_over_ndn.naming import sync_prefix
from ssb_over_ndn.serving.server import Announcer

STATE_VECTOR = 201
ENTRY = 202
SEQ_NO_ENTRY = 210
BOOTSTRAP_TIME = 212
SEQ_NO = 214

_VERSION_3 = component(VERSION, nni(3))
_SYNC_LIFETIME_MS = 1000
_DECAY = 10.0
_MOST_BOOTSTRAPS = 8
_LAST_TIMESTAMP = 1 << 53  # ms

Vector = dict[tuple[bytes, int], int]
"""(name, bootstrap time in s) -> sequence number, by default 0."""


def encode_vector(vector: Mapping[tuple[bytes, int], int]) -> bytes:
    """Encode a state vector, names in canonical order."""
    by_name: dict[bytes, bytes] = {}
    for (name, bootstrap), seq in sorted(vector.items()):
        number = element(BOOTSTRAP_TIME, nni(bootstrap)) + element(SEQ_NO, nni(seq))
        by_name[name] = by_name.get(name, b"") + element(SEQ_NO_ENTRY, number)
    entries = (element(ENTRY, element(NAME, name) + numbers) for name, numbers in by_name.items())
    return element(STATE_VECTOR, b"".join(entries))


def decode_vector(content: bytes) -> Vector:
    """Decode a state vector, and ignore later elements; raise MalformedPacket if there is none."""
    for kind, start, end in elements(content, 0, len(content)):
        if kind == STATE_VECTOR:
            return _decode_entries(content, start, end)
    raise MalformedPacket("no StateVector")


def _decode_entries(content: bytes, at: int, end: int) -> Vector:
    vector: Vector = {}
    for kind, start, stop in elements(content, at, end):
        if kind != ENTRY:
            continue
        fields = list(elements(content, start, stop))
        if not fields or fields[0][0] != NAME:
            raise MalformedPacket("a StateVectorEntry begins with a Name")
        name = content[fields[0][1] : fields[0][2]]
        prefix_ends(name)
        for field, first, last in fields[1:]:
            if field == SEQ_NO_ENTRY:
                numbers = {k: content[s:e] for k, s, e in elements(content, first, last)}
                if BOOTSTRAP_TIME not in numbers or SEQ_NO not in numbers:
                    raise MalformedPacket("a SeqNoEntry has a BootstrapTime and a SeqNo")
                vector[name, read_nni(numbers[BOOTSTRAP_TIME])] = read_nni(numbers[SEQ_NO])
    return vector


class Member(Announcer):
    """A member of a feed's sync group: the specification's state machine (section 4).

    Args:
        feed: the feed's name; other names in a vector are ignored.
        rng: source of nonces and of the timers' randomness.
        periodic_ms: PeriodicTimeout.
        suppression_ms: SuppressionPeriod.

    Attributes:
        vector: this member's state.
    """

    def __init__(self, feed: bytes, *, rng: Random, periodic_ms: int, suppression_ms: int) -> None:
        super().__init__()
        self.vector: Vector = {}
        self._bootstrap = 0
        self._feed = feed
        self._group = sync_prefix(feed) + _VERSION_3
        self._rng = rng
        self._periodic = periodic_ms * MS
        self._suppression = suppression_ms * MS
        self._updated: dict[tuple[bytes, int], int] = {}
        self._merged: Vector | None = None  # the received state; None in Steady State
        self._due: int | None = None

    @property
    def newest(self) -> int:
        """The newest known item of the feed."""
        return max(self.vector.values(), default=0)

    def send(self, now: int) -> None:
        """Send a Sync Interest, and enter Steady State."""
        content = encode_vector(self.vector)
        interest = make_interest_with_parameters(
            self._group,
            make_data(self._group, content),
            nonce=self._rng.getrandbits(32),
            lifetime_ms=_SYNC_LIFETIME_MS,
            hop_limit=SENT_HOP_LIMIT,
        )
        self.outputs.append(interest)
        self._steady(now)

    def published(self, seq: int, item: Data, now: int) -> None:
        """See Announcer."""
        if seq == 1:
            self._bootstrap = bootstrap_time(Message.from_text(open_item(self._feed, seq, item).message))
        self.update(self._bootstrap, seq, now)

    def update(self, bootstrap: int, seq: int, now: int) -> None:
        """Announce an item to the group."""
        self.vector[self._feed, bootstrap] = seq
        self._updated[self._feed, bootstrap] = now
        self.send(now)

    def on_interest(self, interest: Interest, now: int) -> None:
        """Receive a Sync Interest; other packets are ignored."""
        if not interest.name.startswith(self._group):
            return
        try:
            received = self._open(interest)
        except MalformedPacket:
            return
        is_outdated = [key for key, seq in self.vector.items() if received.get(key, 0) < seq]
        for key, seq in received.items():
            if seq > self.vector.get(key, 0):
                self.vector[key] = seq
                self._updated[key] = now
        if self._merged is not None:
            self._merge(received)
        elif not is_outdated:
            self._steady(now)
        elif any(
            self._updated.get(key, -self._suppression) + self._suppression <= now for key in is_outdated
        ):
            self._merged = received
            self._due = now + suppression_timeout(self._suppression, self._rng)

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        return self._due

    def wake(self, now: int) -> None:
        """Process the timer."""
        if self._due is None or self._due > now:
            return
        merged = self._merged
        if merged is None or any(merged.get(key, 0) < seq for key, seq in self.vector.items()):
            self.send(now)
        else:
            self._steady(now)

    def stop(self) -> None:
        """Leave the group."""
        self._due = self._merged = None

    def _open(self, interest: Interest) -> Vector:
        parameters = parameters_of(interest)
        if parameters is None:
            raise MalformedPacket("a Sync Interest has ApplicationParameters, and their digest in its name")
        data = parse_data(parameters)
        if data.signature_type != DIGEST_SHA256 or hashlib.sha256(data.signed).digest() != data.signature:
            raise MalformedPacket("the digest is wrong")
        if data.name != self._group:
            raise MalformedPacket("another group's vector")
        vector = {key: seq for key, seq in decode_vector(data.content).items() if key[0] == self._feed}
        if len(vector.keys() | self.vector.keys()) > _MOST_BOOTSTRAPS:
            raise MalformedPacket("a feed does not begin so often")
        return vector

    def _merge(self, received: Vector) -> None:
        if self._merged is not None:
            for key, seq in received.items():
                self._merged[key] = max(seq, self._merged.get(key, 0))

    def _steady(self, now: int) -> None:
        self._merged = None
        self._due = now + round(self._periodic * self._rng.uniform(0.9, 1.1))


def suppression_timeout(period: int, rng: Random) -> int:
    """Draw from the specification's exponential decay: most times are close to the period."""
    return round(period * (1 - math.exp((rng.uniform(0, period) - period) / (period / _DECAY))))


def bootstrap_time(first: Message) -> int:
    """Return when a feed began, s since 1970, by its first message; 0 if out of range."""
    return int(first.timestamp / 1000) if 0 <= first.timestamp < _LAST_TIMESTAMP else 0


class SyncScout(Scout):
    """A subscriber's member of the group. It sends its vector at the start, to get the others' state."""

    def __init__(self, member: Member) -> None:
        super().__init__()
        self._member = member

    def start(self, now: int) -> None:
        """See Scout."""
        self._member.send(now)
        self._follow_up()

    def stop(self, now: int) -> None:
        """See Scout."""
        self._member.stop()

    def on_interest(self, interest: Interest, now: int) -> None:
        """See Scout."""
        self._member.on_interest(interest, now)
        self._follow_up()

    def next_deadline(self) -> int | None:
        """See Scout."""
        return self._member.next_deadline()

    def wake(self, now: int) -> None:
        """See Scout."""
        self._member.wake(now)
        self._follow_up()

    def _follow_up(self) -> None:
        self.tip = max(self.tip, self._member.newest)
        self.outputs += self._member.take_outputs()


def subscribe(
    feed: bytes,
    *,
    rng: Random,
    buffer: int,
    lifetime_ms: int,
    periodic_ms: int,
    suppression_ms: int,
    after: int = 0,
) -> Follower:
    """Return a subscription; see Follower and Member."""
    member = Member(feed, rng=rng, periodic_ms=periodic_ms, suppression_ms=suppression_ms)
    return Follower(feed, SyncScout(member), rng=rng, buffer=buffer, lifetime_ms=lifetime_ms, after=after)
