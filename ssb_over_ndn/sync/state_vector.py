"""State Vector Sync, version 3 (named-data.github.io/StateVectorSync, 2025-01-14), and the layering `sync`.

Publisher and subscribers of a feed are a sync group, `<feed>/32=sync`; there is one group for all feeds in
ssb_over_ndn.sync.all_feeds. Sync Interests, which forwarders multicast in the group, carry the state
vector: the newest number of each publisher. A member sends one when it publishes, and every 30 s; one that
receives an outdated vector answers, after a random time, unless another member does first. Items are fetched
by classic Interests under their own names.

Where the whole vector is larger than a packet allows, a Sync Interest has a part of it: the specification
leaves that open, and named-data/ndnd's revision of it (pull request 190) marks such vectors, too. What a
part does not name counts as known. A publication sends one part, with what was updated last; each name is
told again when nobody has told it for PeriodicTimeout.

Two things are left to the application. The bootstrap time is when the feed began: a log is never lost, and
its numbers go on. And the state vector's Data packet has a digest for a signature: subscribers do not know
each other's keys, and a number only causes a fetch of the item, which its own signature proves.
"""

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from random import Random
from typing import Any

from base.units import MS, SECOND
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
PART = 216
"""Follows a state vector that is a part of one; not in the specification, whose decoders ignore it."""

LARGEST_VECTOR = 8000
"""Most bytes of a vector in a Sync Interest by default: the packet's limit is 8800."""

_VERSION_3 = component(VERSION, nni(3))
_SYNC_LIFETIME_MS = 1000
_DECAY = 10.0
_MOST_BOOTSTRAPS = 8
_ENTRY_BYTES = 4 * 8  # bootstrap time, number, when it was updated, when it was told
_LAST_TIMESTAMP = 1 << 53  # ms
_EARLIEST, _LATEST = 0.9, 1.1  # of PeriodicTimeout
_MOST_AHEAD_S = 86_400
_CALENDAR = 946_684_800 * SECOND
"""The year 2000. Before it, a clock counts from the start of a run, and says nothing of the date."""

Key = tuple[bytes, int]
"""A name, and a bootstrap time in s since 1970."""

Vector = dict[Key, int]
"""Key -> sequence number, by default 0."""


def encode_vector(vector: Mapping[Key, int]) -> bytes:
    """Encode a state vector, names in canonical order."""
    by_name: dict[bytes, bytes] = {}
    for (name, bootstrap), seq in sorted(vector.items()):
        number = element(BOOTSTRAP_TIME, nni(bootstrap)) + element(SEQ_NO, nni(seq))
        by_name[name] = by_name.get(name, b"") + element(SEQ_NO_ENTRY, number)
    entries = (element(ENTRY, element(NAME, name) + numbers) for name, numbers in by_name.items())
    return element(STATE_VECTOR, b"".join(entries))


def parts_of(vector: Vector, keys: Iterable[Key], limit: int) -> Iterator[Vector]:
    """Yield parts of a vector with some of its keys, in their order, as few as have `limit` bytes each.

    A part has one entry at least.
    """
    part: Vector = {}
    size = 0
    for key in keys:
        alone = {key: vector[key]}
        needed = len(encode_vector(alone))
        if part and size + needed > limit:
            yield part
            part, size = {}, 0
        part |= alone
        size += needed
    if part:
        yield part


def decode_vector(content: bytes) -> tuple[Vector, bool]:
    """Decode a state vector, and whether it is whole; raise MalformedPacket if there is none.

    Other elements are ignored.
    """
    kinds = {kind: (start, end) for kind, start, end in elements(content, 0, len(content))}
    if STATE_VECTOR not in kinds:
        raise MalformedPacket("no StateVector")
    return _decode_entries(content, *kinds[STATE_VECTOR]), PART not in kinds


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
    """A member of a sync group: the specification's state machine (section 4).

    Args:
        prefix: the group's.
        rng: source of nonces and of the timers' randomness.
        periodic_ms: PeriodicTimeout.
        suppression_ms: SuppressionPeriod.
        vector_bytes: a larger vector is sent in parts.

    Attributes:
        vector: this member's state.
    """

    def __init__(
        self,
        prefix: bytes,
        *,
        rng: Random,
        periodic_ms: int,
        suppression_ms: int,
        vector_bytes: int = LARGEST_VECTOR,
    ) -> None:
        super().__init__()
        self.vector: Vector = {}
        self._group = prefix + _VERSION_3
        self._rng = rng
        self._periodic = periodic_ms * MS
        self._suppression = suppression_ms * MS
        self._limit = vector_bytes
        self._updated: dict[Key, int] = {}
        self._told: dict[Key, int] = {}  # when its newest number was last sent or received
        self._merged: Vector | None = None  # the received state; None in Steady State
        self._due: int | None = None

    def accepts(self, vector: Vector) -> bool:
        """Return whether the group may have these names, and so many beside those that are known."""
        raise NotImplementedError

    def select(self, vector: Vector) -> Vector:
        """Return what this member keeps of a received vector."""
        return vector

    def send(self, now: int) -> None:
        """Send all that this member knows, and enter Steady State."""
        self._send(self.vector, now)
        self._steady(now)

    def on_content(self, content: bytes) -> None:
        """Receive the content of a Sync Interest's Data: the vector, and what follows it."""

    def update(self, name: bytes, bootstrap: int, seq: int, now: int, more: bytes = b"") -> None:
        """Announce an item to the group; `more` follows the vector."""
        key = name, bootstrap
        self.vector[key] = seq
        self._updated.pop(key, None)  # the order of this table is that of updates
        self._updated[key] = now
        self._send(reversed(self._updated), now, most=1, more=more)
        self._steady(now)

    def on_interest(self, interest: Interest, now: int) -> None:
        """Receive a Sync Interest; other packets are ignored."""
        if not interest.name.startswith(self._group):
            return
        try:
            received, is_whole = self._open(interest, now)
        except MalformedPacket:
            return
        named = self.vector if is_whole else received
        is_outdated = [key for key in named if received.get(key, 0) < self.vector.get(key, 0)]
        for key, seq in received.items():
            if seq > self.vector.get(key, 0):
                self.vector[key] = seq
                self._updated.pop(key, None)
                self._updated[key] = now
            if seq >= self.vector[key]:
                self._told[key] = now
        if self._merged is not None:
            for key, seq in received.items():
                self._merged[key] = max(seq, self._merged.get(key, 0))
        elif not is_outdated:
            if is_whole:
                self._steady(now)
        elif any(
            self._updated.get(key, -self._suppression) + self._suppression <= now for key in is_outdated
        ):
            self._merged = received if is_whole else {**self.vector, **received}
            self._due = now + suppression_timeout(self._suppression, self._rng)

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        return self._due

    def wake(self, now: int) -> None:
        """Process the timer."""
        if self._due is None or self._due > now:
            return
        merged = self._merged
        if merged is None:
            untold = now - round(self._periodic * _EARLIEST)
            self._send([key for key in self.vector if self._told.get(key, untold) <= untold], now)
        else:
            lacking = [key for key, seq in self.vector.items() if merged.get(key, 0) < seq]
            if lacking:
                self._send(lacking, now)
        self._steady(now)

    def size(self) -> int:
        """See Announcer: the vector and, while it waits to answer, the one that it compares with."""
        names = sum(len(name) for name, _ in self.vector) + _ENTRY_BYTES * len(self.vector)
        others = sum(len(name) + 2 * 8 for name, _ in self._merged or ())
        return names + others + 8 * (self._due is not None)

    def stop(self) -> None:
        """Leave the group."""
        self._due = self._merged = None

    def _send(self, keys: Iterable[Key], now: int, most: int | None = None, more: bytes = b"") -> None:
        """Send the vector; if it is too large, so many parts of it at most, with some keys first."""
        whole = encode_vector(self.vector)
        if len(whole) <= self._limit:
            self._emit(self.vector, whole + more, now)
            return
        for part in islice(parts_of(self.vector, keys, self._limit), most):
            self._emit(part, encode_vector(part) + element(PART) + more, now)

    def _emit(self, vector: Vector, content: bytes, now: int) -> None:
        self._told |= dict.fromkeys(vector, now)
        interest = make_interest_with_parameters(
            self._group,
            make_data(self._group, content),
            nonce=self._rng.getrandbits(32),
            lifetime_ms=_SYNC_LIFETIME_MS,
            hop_limit=SENT_HOP_LIMIT,
        )
        self.outputs.append(interest)

    def _open(self, interest: Interest, now: int) -> tuple[Vector, bool]:
        parameters = parameters_of(interest)
        if parameters is None:
            raise MalformedPacket("a Sync Interest has ApplicationParameters, and their digest in its name")
        data = parse_data(parameters)
        if data.signature_type != DIGEST_SHA256 or hashlib.sha256(data.signed).digest() != data.signature:
            raise MalformedPacket("the digest is wrong")
        if data.name != self._group:
            raise MalformedPacket("another group's vector")
        vector, is_whole = decode_vector(data.content)
        latest = now // SECOND + _MOST_AHEAD_S
        if now >= _CALENDAR and any(bootstrap > latest for _, bootstrap in vector):
            raise MalformedPacket("a bootstrap time is more than a day ahead")
        vector = self.select({key: seq for key, seq in vector.items() if seq})
        if not self.accepts(vector):
            raise MalformedPacket("names that the group cannot have, or too many")
        self.on_content(data.content)
        return vector, is_whole

    def _steady(self, now: int) -> None:
        """Enter Steady State. Parts say nothing of other names, so the name untold the longest is due."""
        self._merged = None
        since = now
        if len(encode_vector(self.vector)) > self._limit:
            since = min(self._told.get(key, now) for key in self.vector)
        self._due = since + round(self._periodic * self._rng.uniform(_EARLIEST, _LATEST))


class FeedMember(Member):
    """A member of the group of one feed: of publisher and subscribers.

    Args:
        feed: the feed's name; other names in a vector are ignored.
        more: see Member.
    """

    def __init__(self, feed: bytes, **more: Any) -> None:
        super().__init__(sync_prefix(feed), **more)
        self._feed = feed
        self._bootstrap = 0

    @property
    def newest(self) -> int:
        """The newest known item of the feed."""
        return max(self.vector.values(), default=0)

    def select(self, vector: Vector) -> Vector:
        return {key: seq for key, seq in vector.items() if key[0] == self._feed}

    def accepts(self, vector: Vector) -> bool:
        """See Member: a feed does not begin often."""
        return len(vector.keys() | self.vector.keys()) <= _MOST_BOOTSTRAPS

    def published(self, seq: int, item: Data, now: int) -> None:
        if seq == 1:
            self._bootstrap = bootstrap_of(self._feed, item)
        self.update(self._feed, self._bootstrap, seq, now)


def suppression_timeout(period: int, rng: Random) -> int:
    """Draw from the specification's exponential decay: most times are close to the period."""
    return round(period * (1 - math.exp((rng.uniform(0, period) - period) / (period / _DECAY))))


def bootstrap_of(feed: bytes, item: Data) -> int:
    """Return a feed's bootstrap time by its first item."""
    return bootstrap_time(Message.from_text(open_item(feed, 1, item).message))


def bootstrap_time(first: Message) -> int:
    """Return when a feed began, s since 1970, by its first message; 0 if out of range."""
    return int(first.timestamp / 1000) if 0 <= first.timestamp < _LAST_TIMESTAMP else 0


class SyncScout(Scout):
    """A subscriber's member of the group. It sends its vector at the start, to get the others' state."""

    def __init__(self, member: FeedMember) -> None:
        super().__init__()
        self._member = member

    def start(self, now: int) -> None:
        self._member.send(now)
        self._follow_up()

    def stop(self, now: int) -> None:
        self._member.stop()

    def on_interest(self, interest: Interest, now: int) -> None:
        self._member.on_interest(interest, now)
        self._follow_up()

    def next_deadline(self) -> int | None:
        return self._member.next_deadline()

    def wake(self, now: int) -> None:
        self._member.wake(now)
        self._follow_up()

    def size(self) -> int:
        return self._member.size()

    def _follow_up(self) -> None:
        self.tip = max(self.tip, self._member.newest)
        self.outputs += self._member.take_outputs()


def subscribe(
    feed: bytes, *, rng: Random, buffer: int, lifetime_ms: int, after: int = 0, **timing: int
) -> Follower:
    """Return a subscription; see Follower and, for `timing`, Member."""
    member = FeedMember(feed, rng=rng, **timing)
    return Follower(feed, SyncScout(member), rng=rng, buffer=buffer, lifetime_ms=lifetime_ms, after=after)
