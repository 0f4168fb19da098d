"""A node's Pending Interest Table, derived from the packets at its interfaces.

Theory of operation. A PIT entry is opened, extended and closed by packets and by time. All packets but those
of local applications cross a network interface, so a model can follow the table from a node's packets in the
order of (time, number in the capture). The rules are the forwarder's; interfaces are its network faces.

Time. An entry ends exactly at its expiry. Expiries at time t precede a packet of time t.

Classic Interests. An entry is keyed by (name, CanBePrefix, MustBeFresh).

* Interest in on i: dropped if its HopLimit is 0, or if it loops: its Nonce is that of an in-record of another
  interface, or of an out-record and not of in-record i. Otherwise in-record i, and expiry = max(expiry, t +
  lifetime).
* Interest out on j: out-record j, and expiry likewise. An Interest of a local application shows only here:
  its Nonce was not received. (If an in-record was made within the last 0.1 ms, it is a strategy's probe.)
* Data in: closes every entry that it matches, by exact name, as a prefix of whole components (CanBePrefix),
  or by name and implicit digest.
* Data out on i: the answer of a local producer or of the cache. At the time of an Interest in on i that it
  matches, it restores the entry's state before that. Otherwise it removes in-record i, and closes an entry
  whose other in-records have all expired.
* Nack out on i, with the Nonce of in-record i: removes it, and closes an entry without in-records, unless an
  Interest of a local application is pending, neither expired nor refused. Sent at the time of the Interest
  that it answers, it also restores the entry's expiry before that. With another Nonce it answers an Interest
  that looped, which has no record.
* Nack in on j, with the Nonce of out-record j: marks it; when all are marked, an entry without in-records
  closes: it was a local application's. Otherwise the downstreams get Nacks; if none is sent, the Interest
  also went to a local application.

Persistent Interests (forwarder.wire.persistent), where forwarders know them. Each has an in-record with an
expiry of its own. One sent with a Nonce that was not received is a local application's; its record does not
count, but keeps the entry.

* Interest, in or out: removes the entry's expired persistent in-records.
* Data in or out: also removes all its other in-records. The entry closes without any record, a local
  application's included.

Long-lived Interests (LLIs; docs/controlled-push.md). An LLI makes no classic entry. Each feed has one entry,
with a range (next, limit, expiry) for each downstream interface, and an upstream range (head, limit, expiry)
for each interface with an LLI out. Each range keeps the lifetime of its newest LLI, duplicates excluded. An
LLI of credit c from item s, at time t:

* in on i: dropped if its HopLimit is 0, or if its Nonce is one of the node's own last 16 LLIs (a loop; the
  Nack that answers it removes range i). c = 0 cancels range i. A Nonce among the last four on i that granted
  something is the link's duplicate. Otherwise range i begins as s .. s+c-1; if there is one, it is rewound
  (next = min(next, s)) and extended (limit = max(limit, s+c-1)), unless s+c-1 < next: that requests the last
  64 of these items again, at most 64 at a time, the highest, and changes nothing else but to a later expiry.
  expiry = t + lifetime. Items requested again are always below next.
* Data out on i of item m: if they remove in-record i of a classic Interest for just this name, or if m is the
  newest item received, which has ended such an entry with in-record i, and this is the first time, range i
  does not change: its copy, if any, is another packet. Otherwise an item requested again is so no more; else
  if next <= m <= limit: next = m + 1, and if m > next was, this node leaves repairs to the consumer: from
  then on it does not wait for missing items. A range that is used up (next > limit, and nothing requested
  again) is removed.
* Data in on i of item m = next of range i: as if range i began at m + 1. The sender has the item.
* Nack out on i of an LLI: range i is removed. Nack in on j, with the Nonce of one of the last 16 LLIs out:
  upstream range j is removed.
* LLI out on j: c = 0 ends upstream range j. Otherwise it begins as s .. s+c-1 if there is none on j; else it
  is extended (limit = max(limit, s+c-1)), begins at s if s is beyond its old limit (the cache has the items
  between), and goes back to s if the LLI requests all from s on again. expiry = max(expiry, t + lifetime).
* Data in of item m, on any interface, for each upstream range with m <= limit: if m >= head, items head ..
  m-1 are missing, and head = m + 1; a missing m is missing no more. An upstream range is spent when head >
  limit and nothing is missing.
* A fork's proof for number f, in or out: all upstream ranges end with f - 1. Out on i: range i is removed.
* FeedState without Data: out on i, range i has a source if there is Evidence, else not; in on j, likewise
  upstream range j is offered a source, or not. Data out or in with Evidence do the same. Out on i, with a
  First f above any before on i: as if range i began at f (next = max(next, f), nothing below f is requested
  again, and it may be used up): no node has the items before.

Hellos (forwarder.wire.hello) cover all feeds of a link. The state of a feed with a Next: out on i, range i
has a source if there is Evidence, else not; in on j, upstream range j is offered one, or not. Then, if the
Hello replies to the last one with Held in the other direction on this interface, and its own Held is the
same: out on i, it renews each range i with a source (expiry = max(expiry, t + its lifetime)); in on j, each
upstream range j that is offered one. A Held is granted once. A have without Next, in on i, removes range i of
that feed. Forgotten: in on i removes all ranges i; out on j all upstream ranges j, for the neighbour has
died.

A feed's entry lasts while it has a downstream range, or an upstream range neither spent nor expired: the
second is the only trace of a local application's subscription. All its state ends with it.

Bytes. A classic entry: its Name's TLV-VALUE, and 16 a record (face 4, nonce 4, expiry 8); one without any
record is local and does not count. A feed's entry: the feed Name's TLV-VALUE, 28 a downstream range (face 4,
next 8, limit 8, expiry 8), and 28 an upstream range, from the first LLI out until it is refused, cancelled or
lost, or to the end of the entry.

Outcome. An entry has the outcome of what ended it: Data ("satisfied"; "forked" if they prove a fork), a Nack
("nacked"), an LLI of credit 0 ("cancelled"), time ("expired"), a restart, a link, a FeedState or a Hello
("lost"), or none until the packets end ("open").

Totals. Dropped Interests do not count. Received Data count for every entry that they match. A classic entry
ended by received Data has sent one to each other interface with an unexpired in-record; otherwise Data out
count when they are sent. A renewal is an LLI for an existing range that reaches at least as far. A range's
credit is limit - next + 1. Peaks are those of states that lasted: changes of one time are one change.

Without directions (a capture of a link, not of a node), the entry is the link's, as if it were a node that
answers: Interests and LLIs are received, Data, FeedStates and Nacks sent, which ends an entry of one
interface at once; a Hello is both. Interests from both ends for one name make one entry.

Other events. A node that restarts loses everything. A link that goes down, if the node notices, removes the
records and ranges of its interface.

Not in packets: the Data's digest (any Data of the name count as the requested ones), and Interests that a
forwarder suppressed towards every face.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, cast

import numpy as np

from analysis.packet_schema import DIGEST, FOREVER, FORK
from analysis.pit.classic import ClassicEntry, Key, key_of
from analysis.pit.entry import Entry, Interval, Ledger, Message, State, Step
from analysis.pit.feed import FeedEntry
from analysis.pit.hellos import Hellos
from captures.formats.records import Flags, Ints

_ASKS = ("interest", "lli")
_MANY = 12
"""Fewest items that are processed at once."""


class PitModel:
    """The PIT of one node; see the module's text.

    Pass the node's packets in order; each call returns the intervals of the entries ended by then. finish()
    returns the rest. take_steps() returns the changes of the table. `watch` sees each change of an entry
    (analysis.pit.entry.Ledger).
    """

    def __init__(self, watch: Callable[[int, Entry], None] | None = None) -> None:
        self._classic: dict[Key, ClassicEntry] = {}
        self._by_digest: dict[str, dict[Key, None]] = {}  # Data's name -> keys that end with a digest of it
        self._prefixes = 0  # entries with CanBePrefix
        self._feeds: dict[str, FeedEntry] = {}
        self._hellos = Hellos()
        self._timers: list[tuple[int, int, Entry]] = []
        self._timers_set = 0
        self._closed: list[Interval] = []
        self._ledger = Ledger(watch)
        self._now = -FOREVER
        self._late = "expired"  # outcome of entries that expire

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: closed entries still have timers, which do nothing."""
        open_ones = sorted(timer for timer in self._timers if timer[2].is_open)
        return self.__dict__ | {"_timers": open_ones}

    @property
    def state(self) -> State:
        """State after the last packet: entries, bytes, ranges, credit."""
        return self._ledger.state

    def receive(self, message: Message) -> list[Interval]:
        """Process one packet; return the entries that ended before it or by it."""
        now = self._now = message.time
        if self._timers and self._timers[0][0] <= now:
            self._run_timers(now)
        self._dispatch(message)
        return self._take_closed() if self._closed else []

    def receive_alone(self, message: Message) -> list[Interval]:
        """Process an LLI, its Nack or a FeedState like receive(), but advance the time of that feed only.

        Feeds are independent: their packets may be processed feed by feed up to some time, before time
        advances for the others. The steps are then in the order of feeds.
        """
        self._pass_time(message.feed or "", message.time)
        self._dispatch(message)
        return self._take_closed()

    def receive_items(
        self,
        feed: str,
        times: Ints,
        is_in: Flags,
        interfaces: Ints,
        seqs: Ints,
        evident: Flags,
        names: list[str | None],
    ) -> tuple[list[Interval], Ints]:
        """Process items of one feed like receive_alone().

        `interfaces` are indices into `names`; `evident` items carry evidence. Returns the ended entries, and
        the times of changes that are one credit less each, which are not among the steps.
        """
        if len(times) >= _MANY:
            self._pass_time(feed, int(times[0]))
            entry = self._feeds.get(feed)
            spent = (
                None if entry is None else entry.process_items(times, is_in, interfaces, seqs, evident, names)
            )
            if spent is not None:
                self._ledger.spend(len(spent))
                return self._take_closed(), spent
            if entry is not None and len(times) >= 2 * _MANY:  # most may still be in order
                half = len(times) // 2
                parts = [
                    self.receive_items(
                        feed, times[part], is_in[part], interfaces[part], seqs[part], evident[part], names
                    )
                    for part in (slice(half), slice(half, None))
                ]
                return parts[0][0] + parts[1][0], np.concatenate([parts[0][1], parts[1][1]])
        rows = zip(*(column.tolist() for column in (times, is_in, interfaces, seqs, evident)), strict=True)
        for now, comes, interface, seq, has_evidence in rows:
            self._pass_time(feed, now)
            entry = self._feeds.get(feed)
            if entry is None:
                continue
            passes = entry.receive_item if comes else entry.send_item
            passes(cast(str, names[interface]), seq, has_evidence=has_evidence)
            self._settle(entry, now, "satisfied")
        return self._take_closed(), times[:0]

    def advance(self, now: int) -> list[Interval]:
        """Advance the time to `now` (ns); return the entries ended by then."""
        self._now = max(self._now, now)
        self._run_timers(now)
        return self._take_closed()

    def finish(self, end: int | None = None) -> list[Interval]:
        """End the table at `end` (ns), the last packet's time if None; return the remaining entries.

        Entries still open are returned with the expiry they would have without further packets; the table
        does not change.
        """
        self._run_timers(self._now if end is None else end)
        self._late = "open"
        self._ledger.is_shut = True
        self._run_timers(FOREVER)
        return self._take_closed()

    def take_steps(self) -> list[Step]:
        """Return the changes of the table since the last call, in order of time."""
        return self._ledger.take()

    @property
    def pending_keys(self) -> list[Key]:
        """Keys of classic entries."""
        return list(self._classic)

    @property
    def feed_names(self) -> list[str]:
        """Feeds with an entry."""
        return list(self._feeds)

    def _dispatch(self, message: Message) -> None:
        kind = message.kind
        is_in = message.direction == "in" or (message.direction is None and kind in _ASKS)
        if kind == "data":
            self._on_data(message, is_in)
        elif kind == "restart":
            self._restart(message.time)
        elif kind == "link-down":
            self._drop_interface(message.interface, message.time)
        elif kind == "nack":
            self._on_nack(message, is_in)
        elif kind == "idle":
            self._on_state(message, is_in)
        elif kind == "hello":
            self._on_hello(message)
        elif (is_in and message.hop_limit == 0) or message.lifetime_ns is None:
            pass
        elif kind == "lli":
            self._on_lli(message, is_in)
        elif kind == "interest":
            self._on_interest(message, is_in)

    def _pass_time(self, feed: str, now: int) -> None:
        """Advance the time of a feed."""
        entry = self._feeds.get(feed)
        while entry is not None and entry.is_open and (due := entry.next_expiry) <= now:
            self._close_or_record(entry, entry.expire(due), due, "expired")

    def _on_interest(self, message: Message, is_in: bool) -> None:
        key = key_of(message)
        entry = self._classic.get(key)
        if entry is None:
            entry = self._classic[key] = ClassicEntry(message, self._ledger)
            self._prefixes += key[1]
            if DIGEST in message.name:
                self._by_digest.setdefault(key[0].rpartition(DIGEST)[0], {})[key] = None
        elif is_in and entry.is_loop(message):
            return
        if message.is_persistent:
            entry.persistent(message, is_in)
        if is_in:
            entry.receive_interest(message)
        else:
            entry.send_interest(message)
        entry.record(message.time)
        self._set_timer(entry.expiry, entry)

    def _on_data(self, message: Message, is_in: bool) -> None:
        now = message.time
        asked: set[str] = set()  # interfaces with classic Interests that it answers
        if self._classic:
            for entry in self._matching(message.name):
                if entry.name == message.name:
                    asked |= entry.in_records.keys()
                is_over = entry.receive_data(message) if is_in else entry.send_data(message)
                self._close_or_record(entry, is_over, now, "satisfied")
        if not self._feeds:
            return
        feed = self._feeds.get(message.feed) if message.feed else None
        if feed is not None and message.seq is not None:
            passes = feed.receive_item if is_in else feed.send_item
            if is_in:
                feed.owed = message.seq, asked
            elif message.interface in asked or feed.owes(message.interface, message.seq):
                passes = feed.send_answer
            passes(message.interface, message.seq, has_evidence=message.evidence is not None)
            self._settle(feed, now, "satisfied")
        elif FORK in message.name:
            self._on_proof(message, is_in)

    def _on_proof(self, message: Message, is_in: bool) -> None:
        name, _, number = message.name.rpartition(FORK)
        feed = self._feeds.get(name)
        if feed is not None and number.isdecimal():
            feed.process_proof(int(number))
            if not is_in:
                feed.ranges.pop(message.interface, None)
            self._settle(feed, message.time, "forked")

    def _restart(self, now: int) -> None:
        for entry in [*self._classic.values(), *self._feeds.values()]:
            self._close(entry, now, "lost")
        self._ledger.restart(now)

    def _drop_interface(self, interface: str, now: int) -> None:
        for classic in list(self._classic.values()):
            self._close_or_record(classic, classic.remove_interface(interface, now), now, "lost")
        for feed in list(self._feeds.values()):
            feed.ranges.pop(interface, None)
            feed.remove_interface(interface)
            self._settle(feed, now, "lost")

    def _on_nack(self, message: Message, is_in: bool) -> None:
        if message.send_credit is not None:
            feed = self._feeds.get(message.feed or "")
            if feed is not None:
                if is_in:
                    feed.receive_nack(message)
                else:
                    feed.ranges.pop(message.interface, None)
                self._settle(feed, message.time, "nacked")
            return
        entry = self._classic.get(key_of(message))
        if entry is not None:
            is_over = entry.receive_nack(message) if is_in else entry.send_nack(message)
            self._close_or_record(entry, is_over, message.time, "nacked")

    def _on_state(self, message: Message, is_in: bool) -> None:
        feed = self._feeds.get(message.feed or "")
        if feed is not None:
            (feed.receive_state if is_in else feed.send_state)(message)
            self._settle(feed, message.time, "lost")

    def _on_hello(self, message: Message) -> None:
        # Without directions it is one of the node and of its neighbour.
        for is_in in (True, False) if message.direction is None else (message.direction == "in",):
            change = self._hellos.take(message, is_in)
            if change is None or not any(change):
                continue
            for feed in list(self._feeds.values()):
                feed.process_hello(message.interface, change, message.time)
                self._settle(feed, message.time, "lost")
                if feed.is_open:
                    self._set_timer(feed.next_expiry, feed)

    def _on_lli(self, message: Message, is_in: bool) -> None:
        if message.feed is None or message.seq is None or message.send_credit is None:
            return
        feed = self._feeds.get(message.feed)
        if feed is None:
            if not message.send_credit:
                return
            feed = self._feeds[message.feed] = FeedEntry(message.feed, message, self._ledger)
        if is_in:
            feed.receive_lli(message)
        else:
            feed.send_lli(message)
        self._set_timer(message.expiry, feed)
        self._settle(feed, message.time, "cancelled")

    def _matching(self, name: str) -> list[ClassicEntry]:
        """Return the entries that a Data packet of this name satisfies."""
        keys = [(name, False, False), (name, False, True)]
        if self._prefixes:
            end = len(name)
            while end > 0:
                keys += [(name[:end], True, False), (name[:end], True, True)]
                end = name.rfind("/", 0, end)
        if self._by_digest:
            keys += self._by_digest.get(name, ())
        return [entry for key in keys if (entry := self._classic.get(key))]

    def _close_or_record(self, entry: Entry, is_over: bool, now: int, outcome: str) -> None:
        if is_over:
            self._close(entry, now, outcome)
        else:
            entry.record(now)

    def _settle(self, feed: FeedEntry, now: int, outcome: str) -> None:
        self._close_or_record(feed, feed.is_idle(), now, outcome)

    def _close(self, entry: Entry, now: int, outcome: str) -> None:
        if isinstance(entry, ClassicEntry):
            del self._classic[entry.key]
            self._prefixes -= entry.key[1]
            if DIGEST in entry.key[0]:
                self._forget_digest(entry.key)
        else:
            del self._feeds[entry.name]
        self._closed.append(entry.close(now, outcome))

    def _forget_digest(self, key: Key) -> None:
        name = key[0].rpartition(DIGEST)[0]
        of_name = self._by_digest[name]
        del of_name[key]
        if not of_name:
            del self._by_digest[name]

    def _set_timer(self, expiry: int, entry: Entry) -> None:
        """Check an entry at `expiry`; one extended since is kept then."""
        self._timers_set += 1
        heappush(self._timers, (expiry, self._timers_set, entry))

    def _run_timers(self, now: int) -> None:
        while self._timers and self._timers[0][0] <= now:
            due, _, entry = heappop(self._timers)
            if entry.is_open:
                self._close_or_record(entry, entry.expire(due), due, self._late)

    def _take_closed(self) -> list[Interval]:
        closed, self._closed = self._closed, []
        return closed
