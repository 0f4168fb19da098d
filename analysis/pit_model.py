"""What a node's Pending Interest Table held, told from the packets on its interfaces.

Theory of operation. A PIT entry is opened, extended and closed by packets, and by time. All of them but
those of local applications cross a network interface, so a model that is shown a node's packets in the
order of (time, number in the capture) can follow the table. The rules are the forwarder's own; the
numbers are those of its network faces, here: interfaces.

Time. An entry ends exactly at its expiry, and what is due at time t is done before a packet of time t.

Classic Interests. An entry is keyed by (name, CanBePrefix, MustBeFresh).

* Interest in on i: dropped if its HopLimit is 0, or if it loops: its Nonce is that of an in-record of
  another interface, or of an out-record and not of in-record i. Otherwise in-record i, and
  expiry = max(expiry, t + lifetime).
* Interest out on j: out-record j, and expiry likewise. An Interest of a local application shows only here.
* Data in: closes every entry that it matches, by exact name, as a prefix of whole components
  (CanBePrefix), or by name and implicit digest.
* Data out on i: the answer of a local producer or of the cache. At the time of an Interest in on i that it
  matches, it leaves the entry as it was before that. Otherwise it takes in-record i, and closes an entry
  whose other in-records have all expired.
* Nack out on i, with the Nonce of in-record i: takes it, and closes an entry left without in-records. With
  another Nonce it answers an Interest that looped, and has no record.
* Nack in on j, with the Nonce of out-record j: marks it; when all are marked, an entry without in-records
  closes: it was a local application's. Others are told by Nacks out, and if they are not, the Interest has
  gone to a local application, too.

Persistent Interests (forwarder.wire.persistent), where forwarders know them. Each has an in-record with an
expiry of its own; one that goes out with a Nonce that has not come in is a local application's, whose
record does not count, but keeps the entry.

* Interest, in or out: the entry's persistent in-records that have expired go.
* Data in or out: so do all its other in-records. The entry closes when none is left, of a local application
  either.

Long-lived Interests (LLIs; docs/architecture.md, "The LLI packet"). An LLI makes no classic entry. There
is an entry a feed, with a range (next, limit, expiry) for each downstream interface and one for the
upstream. An LLI of credit c from item s, at time t:

* in on i: dropped if its HopLimit is 0, or if its Nonce is one of the node's own last four LLIs upstream and
  not of the last four on i (a loop; the Nack that answers it takes range i). c = 0 cancels range i. A Nonce
  among the last four on i is the link's duplicate. Otherwise range i begins as s .. s+c-1; if there is
  one, it is rewound (next = min(next, s)) and extended (limit = max(limit, s+c-1)), unless s+c-1 < next:
  that asks for items again, and leaves it as it is but for an expiry that is later. expiry = t + lifetime.
* Data out on i of item m, next <= m <= limit: next = m + 1; a range that is used up goes. If m > next, this
  node leaves it to the consumer to repair: it does not wait for what is missing.
* Nack out on i of an LLI: range i goes. Nack in on j, with the Nonce of one of the last LLIs upstream: the
  upstream range goes, if it is on j; what downstreams had left is refused with it.
* LLI out on j: c = 0 ends the upstream range, if it is on j. Otherwise it begins as s .. s+c-1 if there is
  none on j; else it is extended (limit = max(limit, s+c-1)), begins at s if s is beyond its old limit (what
  lies between is the cache's), and goes back to s if it asks for all from s on again. expiry = t + lifetime.
* Data in of item m >= head: items head .. m-1 are missing, and head = m + 1; of a missing item: it is not
  missing any more. The upstream range is spent when head > limit and nothing is missing.
* A fork's proof for number f, in or out: the upstream range ends with f - 1. Out on i: range i goes.

The feed's entry is there while there is a downstream range, or an upstream range neither spent nor expired:
the second is how the subscription of a local application shows. All its state goes with it.

Bytes. A classic entry: its Name's TLV-VALUE, and 16 a record (face 4, nonce 4, expiry 8); one without any
record is a local matter and does not count. A feed's entry:
the feed Name's TLV-VALUE, 28 a downstream range (face 4, next 8, limit 8, expiry 8), and 28 for the
upstream from the first LLI out until it is refused, cancelled or lost, or to the end of the entry.

What is not a packet. A node that restarts loses everything. A link that goes down, if the node notices, takes
the records and ranges of its interface, and the upstream range on it.

What packets do not show: the Data's digest (any Data of the name is taken to be the one meant), and Interests
that a forwarder suppressed towards every face.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

RECORD_BYTES = 16
RANGE_BYTES = 28
FOREVER = (1 << 63) - 1

_DIGEST = "/sha256digest="
_FORK = "/32=fork/seq="


class Message(NamedTuple):
    """A network-layer packet at one of the node's interfaces; see analysis.schema.PACKETS for the fields."""

    time: int
    interface: str
    direction: str
    kind: str
    name: str
    name_length: int
    can_be_prefix: bool | None = None
    must_be_fresh: bool | None = None
    nonce: int | None = None
    lifetime_ns: int | None = None
    hop_limit: int | None = None
    send_credit: int | None = None
    is_persistent: bool | None = None
    feed: str | None = None
    seq: int | None = None
    nack_reason: int | None = None


class Step(NamedTuple):
    """A change of the table at `time` (ns)."""

    time: int
    delta_entries: int
    delta_bytes: int


class Interval(NamedTuple):
    """An entry from `opened` to `closed` (ns), and the steps by which its bytes came and went.

    `kind` is "classic" or "feed"; `name` a URI.
    """

    kind: str
    name: str
    opened: int
    closed: int
    steps: tuple[Step, ...]


class _Entry:
    """An open entry and what it has cost so far."""

    kind = ""

    def __init__(self, name: str, name_length: int, opened: int) -> None:
        self.name = name
        self.name_length = name_length
        self.opened = opened
        self.is_open = True
        self.all_steps: list[Step] | None = None  # of the entry's table
        self._bytes = 0
        self._steps: list[Step] = []

    def state_bytes(self) -> int:
        """Return what the entry stands for now."""
        raise NotImplementedError

    def expire(self, now: int) -> bool:
        """Drop what has expired; return whether the entry has."""
        raise NotImplementedError

    def note(self, now: int) -> None:
        """Take note of the entry's size."""
        self._set_size(now, self.state_bytes())

    def close(self, now: int) -> Interval:
        self.is_open = False
        self._set_size(now, 0)
        steps = tuple(step for step in self._steps if step.delta_entries or step.delta_bytes)
        return Interval(self.kind, self.name, self.opened, now, steps)

    def _set_size(self, now: int, size: int) -> None:
        if size == self._bytes:
            return
        entries = (size > 0) - (self._bytes > 0)
        size, self._bytes = size - self._bytes, size
        if self.all_steps is not None:
            self.all_steps.append(Step(now, entries, size))
        if self._steps and self._steps[-1].time == now:
            last = self._steps.pop()
            entries += last.delta_entries
            size += last.delta_bytes
        self._steps.append(Step(now, entries, size))


class _InRecord(NamedTuple):
    nonce: int | None
    expiry: int
    is_persistent: bool


_NOBODY = _InRecord(None, 0, False)


@dataclass(slots=True)
class _OutRecord:
    nonce: int | None
    nacked: bool = False


_Key = tuple[str, bool, bool]


class _ClassicEntry(_Entry):
    kind = "classic"

    def __init__(self, message: Message) -> None:
        super().__init__(message.name, message.name_length, message.time)
        self.key = _key(message)
        self.expiry = 0
        self.in_records: dict[str, _InRecord] = {}
        self.out_records: dict[str, _OutRecord] = {}
        self.lets_pass = False  # there has been a persistent Interest
        self.own_expiry = 0  # of a local application's persistent Interest
        self._before = (-1, "", _NOBODY, 0)  # the last Interest in: time, interface; what stood there before

    def state_bytes(self) -> int:
        records = len(self.in_records) + len(self.out_records)
        return self.name_length + RECORD_BYTES * records if records else 0

    def expire(self, now: int) -> bool:
        return self.expiry <= now

    def come_in(self, message: Message) -> None:
        """Make the in-record for an Interest."""
        interface, expiry = message.interface, _expiry(message)
        self._before = message.time, interface, self.in_records.get(interface, _NOBODY), self.expiry
        self.in_records[interface] = _InRecord(message.nonce, expiry, bool(message.is_persistent))
        self.expiry = max(self.expiry, expiry)

    def go_out(self, message: Message) -> None:
        """Make the out-record for an Interest."""
        self.out_records[message.interface] = _OutRecord(message.nonce)
        self.expiry = max(self.expiry, _expiry(message))

    def answered(self, message: Message) -> bool:
        """Let Data out that have not come in; return whether nobody waits for more."""
        time, interface, record, expiry = self._before
        waiting = self.in_records.pop(message.interface, None)
        if waiting is None:
            return False
        if (time, interface) != message[:2] or not expiry:
            return all(waiting.expiry <= message.time for waiting in self.in_records.values())
        if record is not _NOBODY:
            self.in_records[interface] = record
        self.expiry = expiry
        return False

    def is_loop(self, message: Message) -> bool:
        if message.nonce is None:
            return False
        for interface, waiting in self.in_records.items():
            if waiting.nonce == message.nonce:
                return interface != message.interface
        return any(record.nonce == message.nonce for record in self.out_records.values())

    def persistent(self, message: Message, is_in: bool) -> None:
        """Expect a persistent Interest, before its record is made."""
        self.lets_pass = True
        self.in_records = {
            interface: waiting
            for interface, waiting in self.in_records.items()
            if not waiting.is_persistent or waiting.expiry > message.time
        }
        if not is_in and all(waiting.nonce != message.nonce for waiting in self.in_records.values()):
            self.own_expiry = _expiry(message)

    def satisfied(self, now: int) -> bool:
        """Let Data pass; return whether nobody waits for more."""
        self.in_records = {
            interface: waiting
            for interface, waiting in self.in_records.items()
            if waiting.is_persistent and waiting.expiry > now
        }
        return not self.in_records and self.own_expiry <= now


_REMEMBERED_NONCES = 4


@dataclass(slots=True)
class _Range:
    next: int
    limit: int
    expiry: int


@dataclass(slots=True)
class _Upstream:
    """The range asked for; `active` from an LLI until it is spent, expired or cancelled."""

    interface: str
    head: int
    limit: int
    expiry: int
    missing: set[int] = field(default_factory=set)
    repairs: bool = True
    active: bool = True

    def settle(self) -> None:
        if self.head > self.limit and not self.missing:
            self.active = False


class _FeedEntry(_Entry):
    kind = "feed"

    def __init__(self, feed: str, message: Message) -> None:
        assert message.seq is not None
        # The item's name is the feed's and a SequenceNumNameComponent: type, length, and 1, 2, 4 or 8 bytes.
        digits = next(size for size in (1, 2, 4, 8) if message.seq < 1 << 8 * size)
        super().__init__(feed, message.name_length - 2 - digits, message.time)
        self.ranges: dict[str, _Range] = {}
        self.upstream: _Upstream | None = None
        self.nonces: list[int | None] = []  # of the LLIs sent
        self.heard: dict[str, list[int | None]] = {}  # of the LLIs that came, by interface

    def state_bytes(self) -> int:
        return self.name_length + RANGE_BYTES * (len(self.ranges) + (self.upstream is not None))

    def expire(self, now: int) -> bool:
        for interface in [i for i, granted in self.ranges.items() if granted.expiry <= now]:
            del self.ranges[interface]
        if self.upstream and self.upstream.expiry <= now:
            self.upstream.active = False
        return self.is_idle()

    def is_idle(self) -> bool:
        return not self.ranges and not (self.upstream and self.upstream.active)

    def lli_in(self, message: Message) -> None:
        first, credit = _asked(message)
        last = first + credit - 1
        granted = self.ranges.get(message.interface)
        has_nonce = message.nonce is not None
        heard = self.heard.get(message.interface, [])
        is_repeated = has_nonce and message.nonce in heard
        if has_nonce and message.nonce in self.nonces and not is_repeated:
            return
        if credit == 0:
            self.ranges.pop(message.interface, None)
        elif is_repeated:
            return
        elif granted is None:
            self.ranges[message.interface] = _Range(first, last, _expiry(message))
        elif last >= granted.next:
            granted.next = min(granted.next, first)
            granted.limit = max(granted.limit, last)
            granted.expiry = _expiry(message)
        else:
            granted.expiry = max(granted.expiry, _expiry(message))
        if credit:
            self.heard[message.interface] = [*heard[1 - _REMEMBERED_NONCES :], message.nonce]

    def lli_out(self, message: Message) -> None:
        first, credit = _asked(message)
        last = first + credit - 1
        self.nonces = [*self.nonces[1 - _REMEMBERED_NONCES :], message.nonce]
        up = self.upstream
        if up is None or up.interface != message.interface:
            if credit:
                self.upstream = _Upstream(message.interface, first, last, _expiry(message))
        elif credit == 0:
            self.upstream = None
        else:
            if first > up.limit or (first < up.head and last >= up.limit):
                up.head = first
                up.missing = {seq for seq in up.missing if seq >= first}
            up.limit = max(up.limit, last)
            up.expiry = max(up.expiry, _expiry(message))
            up.active = True

    def refused(self, message: Message) -> None:
        if message.nonce in self.nonces:
            self.lost(message.interface)

    def lost(self, interface: str) -> None:
        if self.upstream and self.upstream.interface == interface:
            self.upstream = None

    def item_in(self, seq: int) -> None:
        up = self.upstream
        if up is None or seq > up.limit:
            return
        up.missing.discard(seq)
        if seq >= up.head:
            if up.repairs:
                up.missing.update(range(up.head, seq))
            up.head = seq + 1
        up.settle()

    def forked(self, seq: int) -> None:
        if self.upstream:
            self.upstream.limit = min(self.upstream.limit, seq - 1)
            self.upstream.missing = {lost for lost in self.upstream.missing if lost < seq}
            self.upstream.settle()

    def item_out(self, interface: str, seq: int) -> None:
        granted = self.ranges.get(interface)
        if granted is not None and granted.next <= seq <= granted.limit:
            if seq > granted.next and self.upstream:
                self.upstream.repairs = False
                self.upstream.missing.clear()
                self.upstream.settle()
            granted.next = seq + 1
            if granted.next > granted.limit:
                del self.ranges[interface]


class PitModel:
    """The PIT of one node; see the module's text.

    Feed it the node's packets in order; each call returns the intervals of the entries that have ended by
    then. finish() lets time run out, and returns the rest.
    """

    def __init__(self) -> None:
        self._classic: dict[_Key, _ClassicEntry] = {}
        self._by_digest: set[_Key] = set()
        self._feeds: dict[str, _FeedEntry] = {}
        self._timers: list[tuple[int, int, _Entry]] = []
        self._timers_set = 0
        self._closed: list[Interval] = []
        self._steps: list[Step] = []

    def receive(self, message: Message) -> list[Interval]:
        """Process one packet; return the entries that ended before it or by it."""
        self._run_timers(message.time)
        is_in = message.direction == "in"
        if message.kind == "restart":
            self._restart(message.time)
        elif message.kind == "link-down":
            self._drop_interface(message.interface, message.time)
        elif message.kind == "data":
            self._on_data(message, is_in)
        elif message.kind == "nack":
            self._on_nack(message, is_in)
        elif is_in and message.hop_limit == 0:
            pass
        elif message.kind == "lli":
            self._on_lli(message, is_in)
        elif message.kind == "interest":
            self._on_interest(message, is_in)
        return self._take_closed()

    def advance(self, now: int) -> list[Interval]:
        """Let time pass until `now` (ns); return the entries that ended by then."""
        self._run_timers(now)
        return self._take_closed()

    def take_steps(self) -> list[Step]:
        """Return the changes of the table since the last call, in order of time."""
        steps = self._steps[:]
        self._steps.clear()  # the entries know this list
        return steps

    def finish(self) -> list[Interval]:
        """Return the entries that are still open, closed as they would expire if nothing more came."""
        self._run_timers(FOREVER)
        return self._take_closed()

    def _on_interest(self, message: Message, is_in: bool) -> None:
        key = _key(message)
        entry = self._classic.get(key)
        if entry is None:
            entry = self._classic[key] = _ClassicEntry(message)
            entry.all_steps = self._steps
            if _DIGEST in message.name:
                self._by_digest.add(key)
        elif is_in and entry.is_loop(message):
            return
        if message.is_persistent:
            entry.persistent(message, is_in)
        if is_in:
            entry.come_in(message)
        else:
            entry.go_out(message)
        entry.note(message.time)
        self._set_timer(entry.expiry, entry)

    def _on_data(self, message: Message, is_in: bool) -> None:
        for entry in self._matching(message.name):
            is_over = entry.satisfied(message.time) if entry.lets_pass else is_in or entry.answered(message)
            self._close_or_note(entry, is_over, message.time)
        feed = self._feeds.get(message.feed) if message.feed else None
        if feed is not None and message.seq is not None:
            if is_in:
                feed.item_in(message.seq)
            else:
                feed.item_out(message.interface, message.seq)
            self._settle(feed, message.time)

        elif _FORK in message.name:
            self._on_proof(message, is_in)

    def _on_proof(self, message: Message, is_in: bool) -> None:
        name, _, number = message.name.rpartition(_FORK)
        feed = self._feeds.get(name)
        if feed is not None and number.isdecimal():
            feed.forked(int(number))
            if not is_in:
                feed.ranges.pop(message.interface, None)
            self._settle(feed, message.time)

    def _restart(self, now: int) -> None:
        for entry in [*self._classic.values(), *self._feeds.values()]:
            self._close(entry, now)

    def _drop_interface(self, interface: str, now: int) -> None:
        for classic in list(self._classic.values()):
            classic.out_records.pop(interface, None)
            was_waiting = classic.in_records.pop(interface, None) is not None
            is_over = was_waiting and not classic.in_records and classic.own_expiry <= now
            self._close_or_note(classic, is_over, now)
        for feed in list(self._feeds.values()):
            feed.ranges.pop(interface, None)
            feed.lost(interface)
            self._settle(feed, now)

    def _on_nack(self, message: Message, is_in: bool) -> None:
        if message.send_credit is not None:
            feed = self._feeds.get(message.feed or "")
            if feed is not None:
                if is_in:
                    feed.refused(message)
                else:
                    feed.ranges.pop(message.interface, None)
                self._settle(feed, message.time)
            return
        entry = self._classic.get(_key(message))
        if entry is None:
            return
        if not is_in:
            waiting = entry.in_records.get(message.interface)
            if waiting is not None and waiting.nonce in (message.nonce, None):
                del entry.in_records[message.interface]
                self._close_or_note(entry, not entry.in_records, message.time)
            return
        refused = entry.out_records.get(message.interface)
        if refused is not None and refused.nonce == message.nonce:
            refused.nacked = True
            is_over = all(record.nacked for record in entry.out_records.values())
            if is_over and not entry.in_records:
                self._close(entry, message.time)

    def _on_lli(self, message: Message, is_in: bool) -> None:
        assert message.feed is not None
        feed = self._feeds.get(message.feed)
        if feed is None:
            if not message.send_credit:
                return
            feed = self._feeds[message.feed] = _FeedEntry(message.feed, message)
            feed.all_steps = self._steps
        if is_in:
            feed.lli_in(message)
        else:
            feed.lli_out(message)
        self._set_timer(_expiry(message), feed)
        self._settle(feed, message.time)

    def _matching(self, name: str) -> list[_ClassicEntry]:
        """Return the entries that a Data packet of this name satisfies."""
        keys = [(name, False, False), (name, False, True)]
        end = len(name)
        while end > 0:
            keys += [(name[:end], True, False), (name[:end], True, True)]
            end = name.rfind("/", 0, end)
        keys += [key for key in self._by_digest if key[0].rpartition(_DIGEST)[0] == name]
        return [entry for key in keys if (entry := self._classic.get(key))]

    def _close_or_note(self, entry: _Entry, is_over: bool, now: int) -> None:
        if is_over:
            self._close(entry, now)
        else:
            entry.note(now)

    def _settle(self, feed: _FeedEntry, now: int) -> None:
        self._close_or_note(feed, feed.is_idle(), now)

    def _close(self, entry: _Entry, now: int) -> None:
        if isinstance(entry, _ClassicEntry):
            del self._classic[entry.key]
            self._by_digest.discard(entry.key)
        else:
            del self._feeds[entry.name]
        self._closed.append(entry.close(now))

    def _set_timer(self, expiry: int, entry: _Entry) -> None:
        """Look at an entry again at `expiry`. One that has been extended since is left alone then."""
        self._timers_set += 1
        heappush(self._timers, (expiry, self._timers_set, entry))

    def _run_timers(self, now: int) -> None:
        while self._timers and self._timers[0][0] <= now:
            due, _, entry = heappop(self._timers)
            if entry.is_open:
                self._close_or_note(entry, entry.expire(due), due)

    def _take_closed(self) -> list[Interval]:
        closed, self._closed = self._closed, []
        return closed


def follow(messages: Iterable[Message]) -> Iterator[Interval]:
    """Yield the intervals of a node's PIT from its packets, which are in order."""
    model = PitModel()
    for message in messages:
        yield from model.receive(message)
    yield from model.finish()


def _key(message: Message) -> _Key:
    return message.name, bool(message.can_be_prefix), bool(message.must_be_fresh)


def _asked(message: Message) -> tuple[int, int]:
    """Return the first item and the credit of an LLI."""
    assert message.seq is not None
    assert message.send_credit is not None
    return message.seq, message.send_credit


def _expiry(message: Message) -> int:
    assert message.lifetime_ns is not None
    return min(message.time + message.lifetime_ns, FOREVER)
