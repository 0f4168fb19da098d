"""A tinySSB node: replicates the feeds of some sets over a broadcast medium.

Sans-IO (`base.endpoint.Endpoint`): datagrams in and out, time as an argument, ns. For each set it sends now
and then vectors of the entries and chunks that it lacks (`ssb.tiny.vectors`), and answers each vector of
others with at most `CREDIT` packets. If the requested entry is not written yet, its author sends it as soon
as it is, from the same credit. A node that holds all of a set whose feeds have all ended (`ssb.ending`) sends
one more vector, and then none. An answer is delayed at random, and suppressed if another node sends it first.

A node may have several ports, to several media. Answers leave by the port of the request. Other packets of an
open set leave by all ports; those of a fixed set by the ports where other nodes have sent packets of it, and
by all until one has, unless `join` names another set of the same nodes.

Invalid packets are dropped, counted by reason, and change nothing else: of no replicated feed, not signed by
its author, of another branch, held already, too long or too short, or garbled.

All changes by a packet are one transaction of the store, including those by the program above. If the disk
fails, StoreError ends the call, and the node must be created again from its store.
"""

import zlib
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from itertools import takewhile
from random import Random
from typing import Final, Protocol

from base.endpoint import Address
from base.timers import earliest
from ssb.bipf import encode
from ssb.ending import END
from ssb.tiny import goset, vectors
from ssb.tiny.entry import DEMUX, PACKET, Entry, InvalidEntry, pointer_to, read
from ssb.tiny.feed import ENDED, FINE, FORKED, ForkedFeed
from ssb.tiny.goset import COMMON, GrowOnlySet, MalformedClaim
from ssb.tiny.outbox import Outbox
from ssb.tiny.replica import Limit, Repeats, Replica
from ssb.tiny.requests import Timing
from ssb.tiny.sets import CHUNK_VECTOR, CLAIM, WANT, Sets
from ssb.tiny.store import TinyStore
from ssb.tiny.vectors import CREDIT, MalformedVector, Missing

GROUP: Final = "239.5.5.8"
PORT: Final = 1558
"""UDP multicast group and port of tinySSB nodes."""
CHECKSUM: Final = 4
"""Bytes of the CRC-32 behind each packet over UDP, the most significant first."""


class Program(Protocol):
    """A program on a node; new whole entries are announced to it inside their transaction."""

    def on_entries(self, feed: bytes, now: int) -> None:
        """Process new whole entries of a feed."""

    def on_fork(self, feed: bytes, now: int) -> None:
        """Handle a fork of a feed by its author; the store has the proof."""

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""

    def wake(self, now: int) -> None:
        """Act on a deadline."""


class Node:
    """A node, the Endpoint of its links.

    Args:
        store: its feeds; the state of sets and requests is in memory.
        random: for the delays of answers.
        timing: intervals of requests.
        ports: numbers of its ports.
        checksum: whether a CRC-32 follows each packet, as over UDP and LoRa.
        is_server: whether it answers for the feeds of others, too.

    Attributes:
        taken: packets accepted, by kind.
        dropped: packets dropped, by reason.
        sent: packets sent, by kind.
        program: see Program.
        sets: the sets that it replicates.
        withheld: feeds of throttled authors: their entries are not accepted or requested until `release`.
    """

    def __init__(
        self,
        store: TinyStore,
        random: Random,
        timing: Timing = Timing(),  # noqa: B008 - immutable
        *,
        ports: Collection[int] = (1,),
        checksum: bool = True,
        is_server: bool = True,
    ) -> None:
        self.store = store
        self.taken: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()
        self.program: Program | None = None
        self._random = random
        self._timing = timing
        self._ports = tuple(ports)
        self._checksum = checksum
        self._is_server = is_server
        self.sets = Sets(store)
        self._handlers: dict[str, Callable[[Replica, bytes, int, int], None]] = {
            CLAIM: self._on_claim,
            WANT: self._on_want,
            CHUNK_VECTOR: self._on_chunk_vector,
        }
        self.withheld: set[bytes] = set()
        self._outbox = Outbox(random, timing.gap)
        self.sent = self._outbox.sent
        self._now = 0
        self._joined = 0

    # Sets

    def join(
        self,
        name: str,
        keys: Iterable[bytes],
        now: int,
        *,
        epoch: int = 0,
        priority: int = 0,
        pair: Limit | None = None,
        beside: str | None = None,
    ) -> None:
        """Replicate exactly the feeds with these keys; replaces a set of the same name.

        Sets of a lower `priority` are served first. Feeds that the store lacks are added to it. `pair` is
        for a set that only two nodes replicate: it limits the accepted entries, and retransmissions are
        rate-limited (`Repeats`). `beside` names a set of the same nodes: the new one is announced on the
        ports where that one was received.
        """
        before = self.sets.get(name)
        near = before or self.sets.get(beside)
        self.leave(name)
        new = self._join(GrowOnlySet(name, keys, epoch, is_fixed=True), priority, pair, now)
        if before is not None:
            new.requested = before.requested
        if near is not None:
            new.ports.update(near.ports)

    def join_open(self, keys: Iterable[bytes], now: int) -> None:
        """Replicate the common set, beginning with these keys and those that it had before."""
        self.leave(COMMON)
        before = self.store.get(_record(COMMON))
        known = [key for key in before if isinstance(key, bytes)] if isinstance(before, list) else []
        self._store_keys(self._join(GrowOnlySet(COMMON, [*known, *keys]), 0, None, now))

    def leave(self, name: str) -> None:
        """Stop replicating a set; its feeds stay in the store."""
        self.sets.remove(name)

    def keys(self, name: str) -> list[bytes]:
        """Return the keys of a set, sorted; none if there is no such set."""
        which = self.sets.get(name)
        return list(which.keys.keys) if which is not None else []

    def release(self, feed: bytes, now: int) -> None:
        """Accept entries of a feed again, and request them."""
        if feed in self.withheld:
            self.withheld.discard(feed)
            for each in self.sets.of(feed):
                each.wants.restart(now)

    def publish(self, feed: bytes, content: bytes, now: int, *, is_plain: bool = False) -> Entry:
        """Write an entry to a local feed, and send it if requested. Raises as the store does."""
        entry = self.store.publish(feed, content, is_plain=is_plain)
        self._now = max(self._now, now)
        self.sets.expect(feed)
        is_sent = False
        for each in self.sets.of(feed):
            if each.waiting.get(feed, 0) > 0 and not is_sent:
                each.waiting[feed] -= 1
                self._send(entry.packet, "entry", each, now)
                is_sent = True
            each.wants.announce(now)
        return entry

    def end(self, feed: bytes, now: int) -> None:
        """Write the last entry of a local feed. Raises as the store does."""
        self.publish(feed, encode({"type": END}), now)

    def broadcast(self, packet: bytes, kind: str, now: int) -> None:
        """Send a packet out of all ports, unrequested, and without storing it."""
        self._now = max(self._now, now)
        if not self._outbox.put(packet, kind, 0, now, self._ports):
            self.dropped["not sent"] += 1

    # Endpoint

    def receive(self, port: int, payload: bytes, sender: Address | None, now: int) -> None:
        """Process a packet."""
        self._now = now
        packet = payload
        if self._checksum:
            packet, told = payload[:-CHECKSUM], payload[-CHECKSUM:]
            if zlib.crc32(packet).to_bytes(CHECKSUM) != told:
                self.dropped["checksum"] += 1
                return
        if len(packet) > PACKET:
            self.dropped["oversized"] += 1
        elif len(packet) <= DEMUX:
            self.dropped["truncated"] += 1
        else:
            self._outbox.suppress(packet, port)
            try:
                self._process_packet(packet, port, now)
            except InvalidEntry as error:
                self.dropped[error.kind] += 1
            except ForkedFeed as error:
                self.dropped["forked"] += 1
                if self.program is not None:
                    with self.store.transaction():
                        self.program.on_fork(error.feed, now)
            except (MalformedClaim, MalformedVector):
                self.dropped["malformed"] += 1

    def set_link(self, port: int, up: bool, now: int) -> None:
        """See Endpoint: a node does not track its receivers."""

    def take_outputs(self) -> list[tuple[int, bytes, Address | None]]:
        outputs: list[tuple[int, bytes, Address | None]] = []
        for packet, ports in self._outbox.take(self._now):
            whole = packet + zlib.crc32(packet).to_bytes(CHECKSUM) if self._checksum else packet
            outputs += [(port, whole, None) for port in ports]
        return outputs

    def next_deadline(self) -> int | None:
        due = self.program.next_deadline() if self.program is not None else None
        return earliest(self._outbox.next_deadline(), self.sets.next_deadline(), due)

    def wake(self, now: int) -> None:
        """Send the vectors that are due, and wake the program."""
        self._now = now
        if self.program is not None:
            due = self.program.next_deadline()
            if due is not None and due <= now:
                with self.store.transaction():
                    self.program.wake(now)
        for each in self.sets.take_due(now):
            if each.beacon_at is not None and each.beacon_at <= now:
                wait = self._timing.claims * self._random.random() if self._timing.gap else 0
                each.beacon_at = now + self._timing.claims + round(wait)
                for packet in each.keys.beacon():
                    kind = "novelty" if len(packet) == goset.NOVELTY_LENGTH else "claim"
                    self._send(packet, kind, each, now)
            if each.chunks.is_due(now):
                self._request_chunks(each, now)
            if each.wants.is_due(now):
                self._request_entries(each, now)

    # Receiving

    def _process_packet(self, packet: bytes, port: int, now: int) -> None:
        demux = packet[:DEMUX]
        routed = self.sets.routed(demux)
        if len(packet) == PACKET and self.store.awaits(pointer_to(packet)):
            with self.store.transaction():
                for feed, sequence in self.store.add_chunk(packet):
                    for each in self.sets.of(feed):
                        each.requested.on_chunk(feed, sequence, now)
                        each.chunks.reset(now)
                    self._notify(feed, now)
            self.taken["chunk"] += 1
        elif routed is not None:
            kind, which = routed
            self._handlers[kind](which, packet, port, now)
            which.ports[port] = None
        elif (of_feed := self.sets.expected(demux)) is not None:
            self._on_entry(of_feed, packet, port, now)
        elif len(packet) == PACKET and (held := self.store.find(demux)) is not None:
            if held[2] == packet:
                self.dropped["duplicate"] += 1
            elif self.store.feeds[held[0]].condition == FORKED:
                self.dropped["frozen"] += 1
            else:
                self.store.add_fork(demux, packet)
        else:
            self.dropped["unknown"] += 1

    def _on_entry(self, feed: bytes, packet: bytes, port: int, now: int) -> None:
        if feed in self.withheld:
            self.dropped["withheld"] += 1
            return
        self._check_limit(feed, packet)
        with self.store.transaction():
            entry = self.store.append(feed, packet)
            self.sets.expect(feed)
            for each in self.sets.of(feed):
                each.ports[port] = None
                each.wants.reset(now)
                if entry.chain is not None:
                    each.chunks.reset(now)
            self._notify(feed, now)
        self.taken["entry"] += 1

    def _check_limit(self, feed: bytes, packet: bytes) -> None:
        limits = [each.limit for each in self.sets.of(feed) if each.limit is not None]
        if limits:
            sequence = self.store.feeds[feed].sequence + 1
            length = read(packet, feed, sequence, b"").length if len(packet) == PACKET else 0
            if any(sequence > limit.entries or length > limit.content for limit in limits):
                raise InvalidEntry("more than is taken of this feed", "beyond")

    def _notify(self, feed: bytes, now: int) -> None:
        held = self.store.feeds.get(feed)  # the program may have dropped it
        if self.program is not None and held is not None and held.whole > held.mark:
            self.program.on_entries(feed, now)

    def _on_claim(self, which: Replica, packet: bytes, port: int, now: int) -> None:
        before = which.keys.state
        with self.store.transaction():
            new = which.keys.receive(packet)
            for key in new:
                self.sets.add(key, which)
            if new:
                self._store_keys(which)
        if which.keys.state != before:
            self.sets.route(which)
            which.wants.reset(now)
        self.taken["novelty" if len(packet) == goset.NOVELTY_LENGTH else "claim"] += 1

    def _on_want(self, which: Replica, packet: bytes, port: int, now: int) -> None:
        keys, feeds = which.keys.keys, self.store.feeds
        credit, due = CREDIT, now + round(self._random.random() * self._timing.spread)  # all at once
        has_less = True
        for place, first in vectors.read_want(packet, len(keys)).items():
            key, sequence = keys[place], first
            held = feeds[key]
            if first == held.sequence + 1 and held.identity is None:  # equally far, as of most feeds
                which.heard.wanted[key] = first
                continue
            last = held.sequence if self._is_server or held.identity is not None else 0
            while credit and sequence <= last:
                found = self.store.packet(key, sequence)
                if found is None:
                    break  # pruned: only latecomers need it
                if not self._may_send(found, which, key, sequence, 0, now):
                    break
                credit -= 1
                sequence += 1
                self._send(found, "entry", which, due, (port,))
            if sequence == held.sequence + 1 and held.identity is not None:
                which.waiting[key] = credit
            has_more = sequence > held.sequence + 1 and held.condition != ENDED and key not in self.withheld
            if has_more and which.heard.wanted.get(key, 0) < sequence:
                which.wants.advance(now)  # others hold more than this node
            which.heard.wanted[key] = first
            has_less = has_less and first <= held.sequence + 1
        which.heard = which.heard._replace(time=now)
        if has_less:
            which.wants.yield_to(now)
        self.taken[WANT] += 1

    def _on_chunk_vector(self, which: Replica, packet: bytes, port: int, now: int) -> None:
        keys, feeds = which.keys.keys, self.store.feeds
        credit, due = CREDIT, now + round(self._random.random() * self._timing.spread)  # all at once
        for place, sequence, number in vectors.read_chunk_vector(packet, len(keys)):
            held = feeds[keys[place]]
            waiting = held.waiting.get(sequence)
            if waiting is not None and waiting.held == number:
                which.chunks.yield_to(now)
                if self._timing.gap:
                    which.requested.add(waiting, CREDIT, now)
            if not self._is_server and held.identity is None:
                continue
            at = number
            while credit and (chunk := self.store.chunk(keys[place], sequence, at)) is not None:
                if not self._may_send(chunk, which, keys[place], sequence, at + 1, now):
                    break
                credit -= 1
                at += 1
                self._send(chunk, "chunk", which, due, (port,))
        self.taken[CHUNK_VECTOR] += 1

    # Sending

    def _request_entries(self, which: Replica, now: int) -> None:
        keys = which.keys.keys
        if len(keys) < 2 and which.keys.is_fixed:
            which.wants.on_sent(now, is_lacking=False)
            return
        which.offset %= max(len(keys), 1)
        turned = keys[which.offset :] + keys[: which.offset]
        # A want vector covers consecutive feeds: it ends before a withheld one, and the next starts behind.
        passed = len(list(takewhile(self.withheld.__contains__, turned)))
        wanted = takewhile(lambda key: key not in self.withheld, turned[passed:])
        offset = (which.offset + passed) % max(len(keys), 1)
        feeds = self.store.feeds
        packet, count = vectors.make_want(
            which.keys.state, offset, (feeds[key].sequence + 1 for key in wanted)
        )
        if count:
            self._send(packet, WANT, which, now)
            which.offset = (offset + count) % len(keys)
        if keys and all(feeds[key].condition == ENDED for key in keys):
            which.wants.postpone(None)  # this was the last one: nothing will come
            return
        which.wants.on_sent(now, is_lacking=self._is_uneven(which))

    def _is_uneven(self, which: Replica) -> bool:
        """Whether others hold more of a feed or, for a local feed, have not confirmed all of it."""
        feeds, heard = self.store.feeds, which.heard.wanted
        for key in which.keys.keys:
            feed, wanted = feeds[key], heard.get(key, 1)
            if feed.identity is not None:
                if wanted <= feed.sequence:
                    return True
            elif wanted > feed.sequence + 1 and feed.condition == FINE and key not in self.withheld:
                return True
        return False

    def _request_chunks(self, which: Replica, now: int) -> None:
        keys, feeds = which.keys.keys, self.store.feeds
        lacking = {
            (bisect_left(keys, key), sequence): waiting
            for key in sorted(self.store.lacking.intersection(keys))
            if feeds[key].condition == FINE
            for sequence, waiting in sorted(feeds[key].waiting.items())
        }
        requested = which.requested
        requested.retain([(each.entry.feed, each.entry.sequence) for each in lacking.values()])
        deadlines = {
            each.pointer: until for each in lacking.values() if (until := requested.deadline(each)) > now
        }
        missing: dict[bytes, Missing] = {}  # by pointer, as entries with the same content share chunks
        for (place, sequence), each in lacking.items():
            if each.pointer not in deadlines:
                missing.setdefault(each.pointer, Missing(place, sequence, each.held))
        if not missing:
            which.chunks.postpone(min(deadlines.values(), default=None))
            return
        packet, count = vectors.make_chunk_vector(which.keys.state, missing.values())
        self._send(packet, CHUNK_VECTOR, which, now)
        which.chunks.on_sent(now, is_lacking=True)
        credit = CREDIT
        for place, sequence, _ in list(missing.values())[:count]:
            credit -= requested.add(lacking[place, sequence], credit, now)

    def _may_send(
        self, packet: bytes, which: Replica, feed: bytes, sequence: int, number: int, now: int
    ) -> bool:
        """Whether to answer with a packet: not if it was sent too often; see Repeats.take."""
        if which.repeats is None or packet in self._outbox or self._outbox.is_full:
            return True
        may = which.repeats.take(feed, sequence, number, now)
        if not may:
            self.dropped["asked again"] += 1
        return may

    def _send(
        self, packet: bytes, kind: str, which: Replica, due: int, ports: tuple[int, ...] | None = None
    ) -> None:
        if ports is None:
            ports = tuple(which.ports) if which.keys.is_fixed and which.ports else self._ports
        if not self._outbox.put(packet, kind, which.priority, due, ports):
            self.dropped["not sent"] += 1

    # Sets

    def _join(self, keys: GrowOnlySet, priority: int, pair: Limit | None, now: int) -> Replica:
        self._joined += 1
        repeats = Repeats(self._timing, now) if pair is not None else None
        new = Replica(
            self._joined,
            keys,
            priority,
            pair,
            repeats,
            self._timing,
            self._random,
            now,
            self.sets.mark_changed,
        )
        with self.store.transaction():
            self.sets.insert(new)
        if not self.store.lacking.isdisjoint(keys.keys):
            new.chunks.due = now
        return new

    def _store_keys(self, which: Replica) -> None:
        """Store the keys of an open set."""
        self.store.put(_record(which.keys.name), which.keys.keys)


def _record(name: str) -> str:
    return f"set {name}"
