"""PSync's full sync (Zhang, Lehman and Wang, INFOCOM 2017), and the layering `psync`.

All nodes that publish or follow are the group `/ssb/32=psync`. A member knows the newest number of each feed,
and sums these up in a Table of fixed size. Its Sync Interest carries the table in its name: members that know
the same send the same Interest, which forwarders aggregate, and which waits for news. A member that knows
more takes one table from the other, sees in which feeds they differ, and answers with these. If they differ
in too many, it answers with all that it knows.

    Interest  <group>/<table, by zlib>/<sum of all numbers>
    Data      <name of the Interest>/v=<version>/seg=<number>
    content   by zlib: PsyncContent (128), of Names <feed>/<number>

Formats, times and rules are those of the authors' library (named-data/PSync, FullProducer, May 2025), but for
four: `ahead`; tables that are no sum of keys, from which it subtracts for ever; answers of all that a member
knows, which it drops after 10 ms, so further segments never come from afar: here they are held until the
other asks again; and lost segments, for which it asks again: here the next Sync Interest begins anew. A
publisher joins with its first item. Answers have a digest for a signature, as in
ssb_over_ndn.sync.state_vector.
"""

import zlib
from collections.abc import Iterable, Iterator
from itertools import islice
from random import Random
from typing import Final

from mmh3 import hash as murmur3

from base.timers import earliest
from base.units import MS
from forwarder.wire.feed import LAST_ITEM
from forwarder.wire.name import GENERIC, NAME, SEGMENT, VERSION, component, components
from forwarder.wire.packet import (
    LARGEST_PACKET,
    MOST_LIFETIME_MS,
    Data,
    Interest,
    make_data,
    make_interest,
)
from forwarder.wire.tlv import MalformedPacket, element, elements, nni, read_header, read_nni
from ssb_over_ndn.naming import PSYNC_ALL, is_log_name, read_segment
from ssb_over_ndn.serving.server import Announcer
from ssb_over_ndn.sync.lookup_table import CHECK_SEED, Table, decompress

PSYNC_CONTENT: Final = 128

_JITTER_MS = 100, 500
_TRIES = 2
_FULL_FRESHNESS_MS = 10
_SEGMENT_BYTES = LARGEST_PACKET // 2
_LEAST_SEGMENT_BYTES = 1000  # the largest table leaves more
_AROUND_BYTES = 100  # of a segment, beside its content and the name of its answer
_MOST_SEGMENTS = 1024
_MOST_ENTRIES = 65_536
_MOST_INTERESTS = 1024  # that wait at a member
_MOST_SEGMENTS_HELD = 2 * _MOST_SEGMENTS  # of answers
_LARGEST_SUM = (1 << 64) - 1  # as far as the library counts; then it begins at 0


def encode_state(names: Iterable[tuple[bytes, int]]) -> bytes:
    """Encode feeds and numbers as the content of an answer."""
    inner = b"".join(element(NAME, _numbered(feed, seq)) for feed, seq in names)
    return zlib.compress(element(PSYNC_CONTENT, inner), 9)


def decode_state(content: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield the feeds and numbers of an answer; raise MalformedPacket. Names of no item are left out."""
    wire = decompress(content, _MOST_SEGMENTS * _SEGMENT_BYTES)
    kind, start, end = read_header(wire, 0, len(wire))
    if kind != PSYNC_CONTENT or end != len(wire):
        raise MalformedPacket("no PSyncContent")
    for kind, first, last in elements(wire, start, end):
        if kind != NAME:
            raise MalformedPacket("PSyncContent has Names only")
        name = wire[first:last]
        *_, number = components(name) or [(0, b"")]
        feed = name[: -len(component(*number))]
        if number[0] == GENERIC and is_log_name(feed) and (seq := read_nni(number[1])) <= LAST_ITEM:
            yield feed, seq


class _Behind:
    """A Sync Interest of a member that knows more; it is looked at again when this one has learnt more."""

    def __init__(self, interest: Interest, table: Table, total: int) -> None:
        self.interest = interest
        self.table = table
        self.total = total
        self.tries = 0


class _Fetch:
    """The answer to this member's Sync Interest, in segments, as far as it has come."""

    def __init__(self, name: bytes) -> None:
        self.name = name  # with the version
        self.parts: dict[int, bytes] = {}
        self.last: int | None = None
        self.asked = -1  # the highest that was asked for


class PsyncMember(Announcer):
    """A member of the group.

    Args:
        rng: source of nonces and of the timers' randomness.
        table_feeds: see Table; the same for all members.
        interest_ms: lifetime of Sync Interests, which are sent again a while after half of it.
        freshness_ms: how long an answer is fresh.
        ahead: so many numbers after its own a member tries, to see whether the other knows a later one. The
            library tries one. With more between them it tells what is old, and the other rests.

    Attributes:
        newest: feed's name -> its newest known item.
        changed: the feeds with newer items than at the last look.
    """

    def __init__(
        self, *, rng: Random, table_feeds: int, interest_ms: int, freshness_ms: int, ahead: int
    ) -> None:
        super().__init__()
        self.newest: dict[bytes, int] = {}
        self.changed: dict[bytes, None] = {}
        self._rng = rng
        self._lifetime_ms = interest_ms
        self._freshness_ms = freshness_ms
        self._ahead = ahead
        self._table = Table(table_feeds)
        self._feeds: dict[int, bytes] = {}  # by the keys in the table
        self._total = 0
        self._asked = b""  # the name of the Sync Interest that waits for an answer
        self._asked_at = 0
        self._is_answered = False
        self._fetch: _Fetch | None = None
        self._rests = False  # an answer said nothing new, and is fresh: caches would give it again
        self._due: int | None = None
        # Interests of those that know as much, and segments by the Interest's name, with their ends.
        self._pending: dict[bytes, tuple[Table, int]] = {}
        self._answers: dict[bytes, tuple[list[bytes], int]] = {}
        self._behind: dict[bytes, _Behind] = {}
        self._behind_due: int | None = None

    def send(self, now: int) -> None:
        """Send a Sync Interest."""
        name = PSYNC_ALL + component(GENERIC, self._table.encode()) + component(GENERIC, nni(self._total))
        self._fetch = None
        if self._asked == name and now - self._asked_at < _JITTER_MS[0] * MS:
            self._due = self._due or now + self._jitter()
            return
        self._asked, self._asked_at, self._is_answered = name, now, False
        self._due = now + self._lifetime_ms * MS // 2 + self._jitter()
        self._ask(name, is_prefix=True)

    def publish(self, feed: bytes, seq: int, item: Data, now: int) -> None:
        """Announce an item: answer the Interests that wait for news. The first one joins the group."""
        if seq > self.newest.get(feed, 0):
            self._note(feed, seq)
        self._rests = False
        self._expire(now)
        for name, (table, _) in [*self._pending.items()]:
            named = self._named(self._table.difference(table).ours)
            named[feed] = seq
            self._answer(name, named, self._freshness_ms, now)
        if self._due is None:
            self.send(now)

    def on_interest(self, interest: Interest, now: int) -> None:
        """Receive a Sync Interest, or one for a segment of an answer; other packets are ignored."""
        if not interest.name.startswith(PSYNC_ALL):
            return
        self._expire(now)
        try:
            parts = components(interest.name[len(PSYNC_ALL) :])
            if len(parts) == 2:
                self._on_sync(interest, parts[0][1], read_nni(parts[1][1]), now)
            elif len(parts) == 4:
                self._on_segment_interest(interest.name, parts)
        except MalformedPacket:
            return

    def on_data(self, data: Data, now: int) -> None:
        """Receive a segment of an answer to this member's Sync Interest; only the first answer counts."""
        if not self._asked or self._is_answered or not data.name.startswith(self._asked):
            return
        try:
            content = self._add_segment(data)
            if content is not None:
                self._is_answered = True  # until the next is sent, which may be at once
                self._on_state([*decode_state(content)], now)
        except MalformedPacket:
            return

    def on_nack(self, interest: Interest, now: int) -> None:
        """Receive a Nack: try again soon."""
        if interest.name == self._asked and self._due is not None:
            self._due = now + self._jitter()

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        return earliest(self._due, self._behind_due)

    def wake(self, now: int) -> None:
        """Process the timers."""
        self._expire(now)
        if self._due is not None and self._due <= now:
            self._rests = False
            self._due = None
            self.send(now)
        if self._behind_due is not None and self._behind_due <= now:
            self._retry(now)

    def stop(self) -> None:
        """Leave the group."""
        self._due = self._behind_due = self._fetch = None
        self._asked = b""
        self._rests = False
        self._pending.clear()
        self._behind.clear()
        self._answers.clear()

    def ends(self) -> tuple[int, int]:
        """Return the names that it knows, and the bytes of these, of all tables and answers."""
        size = sum(len(feed) + 3 * 8 for feed in self.newest)
        size += self._table.size() if self._due is not None else 0
        size += sum(len(name) + table.size() + 8 for name, (table, _) in self._pending.items())
        size += sum(len(name) + behind.table.size() for name, behind in self._behind.items())
        size += sum(sum(map(len, wires)) for wires, _ in self._answers.values())
        return len(self.newest), size

    def _on_sync(self, interest: Interest, encoded: bytes, total: int, now: int) -> None:
        name = interest.name
        if name in self._answers:
            self.outputs.append(self._answers[name][0][0])
            return
        behind = _Behind(interest, self._table.decode(encoded), total)
        is_kept = name in self._behind or len(self._behind) < _MOST_INTERESTS
        if self._is_behind(behind, now) and is_kept:
            self._behind.setdefault(name, behind)
            if self._behind_due is None:
                self._behind_due = now + self._jitter()

    def _is_behind(self, other: _Behind, now: int) -> bool:
        """Answer a Sync Interest, or have it wait for news; return whether this member has to learn first."""
        name = other.interest.name
        is_whole, ours, theirs = self._table.difference(other.table)
        if not is_whole:
            if other.total > self._total:
                if other.tries >= _TRIES:
                    self._renew(now)
                return other.tries < _TRIES
            if other.total < self._total or ours or not theirs:
                self._answer(name, self.newest, _FULL_FRESHNESS_MS, now)
        elif not ours and not theirs:
            if len(self._pending) < _MOST_INTERESTS:
                lifetime_ms = min(other.interest.lifetime_ms, MOST_LIFETIME_MS)
                self._pending[name] = other.table, now + lifetime_ms * MS
        elif not ours:
            return other.tries < _TRIES
        else:
            named = self._named(ours)
            known = {feed: seq for feed, seq in named.items() if not self._is_old(feed, seq, theirs)}
            self._answer(name, known, self._freshness_ms, now)
        return False

    def _is_old(self, feed: bytes, seq: int, theirs: set[int]) -> bool:
        """Return whether another member knows a later number of a feed, by the keys that only it has."""
        last = min(seq + self._ahead, LAST_ITEM)
        return any(_key(feed, later) in theirs for later in range(seq + 1, last + 1))

    def _retry(self, now: int) -> None:
        """Look again at the Interests of those that know more."""
        for name, behind in [*self._behind.items()]:
            behind.tries += 1
            if not self._is_behind(behind, now):
                self._behind.pop(name, None)
        self._behind_due = now + self._jitter() if self._behind else None

    def _answer(self, name: bytes, known: dict[bytes, int], freshness_ms: int, now: int) -> None:
        self._pending.pop(name, None)
        version = name + component(VERSION, nni(now // 1000))
        size = min(_SEGMENT_BYTES, LARGEST_PACKET - len(version) - _AROUND_BYTES)
        if not known or size < _LEAST_SEGMENT_BYTES:
            return
        content = encode_state(known.items())
        last = component(SEGMENT, nni((len(content) - 1) // size))
        segments = [
            make_data(
                version + component(SEGMENT, nni(n)),
                content[at : at + size],
                freshness_ms=freshness_ms,
                final_block=last,
            )
            for n, at in enumerate(range(0, len(content), size))
        ]
        held_ms = max(freshness_ms, self._lifetime_ms // 2 + _JITTER_MS[1])  # until it asks again
        self._answers[name] = segments, now + held_ms * MS
        held = sum(len(each) for each, _ in self._answers.values())
        while held > _MOST_SEGMENTS_HELD and len(self._answers) > 1:
            oldest, _ = self._answers.pop(next(iter(self._answers)))
            held -= len(oldest)
        self.outputs.append(segments[0])
        if name == self._asked:  # this answers the member's own Interest, too
            self._asked = b""
            self._renew(now)

    def _on_segment_interest(self, name: bytes, parts: list[tuple[int, bytes]]) -> None:
        base = name[: len(PSYNC_ALL)] + b"".join(component(*part) for part in parts[:2])
        segments, _ = self._answers.get(base, ([], 0))
        number = read_nni(parts[3][1])
        if number < len(segments) and element(NAME, name) in segments[number]:
            self.outputs.append(segments[number])

    def _add_segment(self, data: Data) -> bytes | None:
        """Take a segment in, and ask for more; return the content if it is whole."""
        rest = components(data.name[len(self._asked) :])
        if len(rest) != 2 or rest[0][0] != VERSION:
            raise MalformedPacket("no segment of an answer")
        last_part = component(*rest[1])
        number = read_segment(last_part)
        version = data.name[: -len(last_part)]
        fetch = self._fetch
        if fetch is None or fetch.name != version:
            fetch = self._fetch = _Fetch(version)
        if fetch.last is None and data.final_block:
            fetch.last = read_segment(data.final_block)
        if fetch.last is None or not number <= fetch.last < _MOST_SEGMENTS:
            raise MalformedPacket("an answer without an end")
        fetch.parts[number] = data.content
        if len(fetch.parts) == fetch.last + 1:
            self._fetch = None
            return b"".join(fetch.parts[n] for n in range(fetch.last + 1))
        missing = (n for n in range(fetch.asked + 1, fetch.last + 1) if n not in fetch.parts)
        for n in islice(missing, 2):  # a slow start
            self._ask(version + component(SEGMENT, nni(n)), is_prefix=False)
            fetch.asked = n
        return None

    def _on_state(self, state: list[tuple[bytes, int]], now: int) -> None:
        """Learn from an answer, and send the next Sync Interest when the neighbours have learnt, too."""
        self._pending.pop(self._asked, None)
        is_new = False
        for feed, seq in state:
            if seq > self.newest.get(feed, 0) and (feed in self.newest or len(self.newest) < _MOST_ENTRIES):
                self._note(feed, seq)
                self.changed[feed] = None
                is_new = True
        self._rests = not is_new
        self._due = now + self._jitter() + (0 if is_new else self._freshness_ms * MS)
        if is_new:
            self._retry(now)

    def _note(self, feed: bytes, seq: int) -> None:
        """Have a feed's newest number in the table."""
        before = self.newest.get(feed, 0)
        if before:
            key = _key(feed, before)
            self._feeds.pop(key, None)
            self._table.add(key, -1)
        key = _key(feed, seq)
        self._feeds[key] = feed
        self._table.add(key)
        self.newest[feed] = seq
        self._total = self._total + seq - before & _LARGEST_SUM

    def _named(self, keys: set[int]) -> dict[bytes, int]:
        feeds = (self._feeds[key] for key in sorted(keys) if key in self._feeds)
        return {feed: self.newest[feed] for feed in feeds}

    def _renew(self, now: int) -> None:
        """Send a Sync Interest now, unless a cache would answer it with nothing new."""
        if not self._rests and self._due is not None:
            self.send(now)

    def _ask(self, name: bytes, *, is_prefix: bool) -> None:
        interest = make_interest(
            name,
            nonce=self._rng.getrandbits(32),
            can_be_prefix=is_prefix,
            must_be_fresh=is_prefix,
            lifetime_ms=self._lifetime_ms,
        )
        self.outputs.append(interest)

    def _jitter(self) -> int:
        return self._rng.randint(*_JITTER_MS) * MS

    def _expire(self, now: int) -> None:
        for table in (self._pending, self._answers):
            for name in [name for name, (_, end) in table.items() if end <= now]:
                del table[name]


def _numbered(feed: bytes, seq: int) -> bytes:
    return feed + component(GENERIC, nni(seq))


def _key(feed: bytes, seq: int) -> int:
    """Return the key of a feed's number: a hash of its name."""
    key: int = murmur3(_numbered(feed, seq), CHECK_SEED, signed=False)
    return key
