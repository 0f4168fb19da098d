"""What must hold of the upstreams of each feed, asked after every event.

1. No cycle: whoever follows the upstreams of one feed from node to node never comes back. So no node believes
   that it has a source because another believes that of it.
2. No belief without a source: a node that counts as fed is joined to a node with a publishing device by
   fed nodes and links that live; or that has ceased to be so no longer than STALE_NS ago.

An upstream counts while the neighbour is the process that has offered the evidence: another at its place knows
nothing of it, and says so in its next Hello.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

from forwarder.lli.entry import FeedEntry
from forwarder.lli.estimates import MAX_TIMEOUT
from forwarder.lli.neighbours import HELLO
from forwarder.lli.upstream import MAX_TRIES
from testbed.verify.simulate.invariants import Violation
from testbed.verify.simulate.links import Cable
from testbed.verify.simulate.place import Place

STALE_NS = 2 * HELLO + (MAX_TRIES + 1) * MAX_TIMEOUT
"""How long a node may count as fed without a source: silence is noticed, all tries at a dead neighbour are in vain,
and those further down are told."""

_COUNTED = ("demands", "deaths", "waits")
"""Counters of a forwarder that show this part of the protocol at work."""

Key = tuple[str, bytes]
"""A node, and a feed."""


class Way(NamedTuple):
    """An upstream: the neighbour, None if that is an application, and which of its processes."""

    peer: str | None
    process: int


class Sources:
    """The upstreams of all feeds in a network; `count` is told what happens."""

    def __init__(
        self,
        places: Mapping[str, Place],
        cables: Mapping[frozenset[str], Cable],
        count: Callable[[str], None],
    ) -> None:
        self._places = places
        self._cables = cables
        self._count = count
        self._ways: dict[bytes, dict[str, Way]] = {}
        self._broken: dict[Key, int] = {}  # since when, ns, in that order
        self._heard: dict[tuple[str, str], int] = {}
        self._unfed: dict[Key, int] = {}  # entries that have lost their source, and when, ns

    def heard(self, node: str, peer: str, process: int) -> None:
        """Note whose frame a node is about to take in: that of the neighbour's process of that number."""
        self._heard[node, peer] = process

    def acted(self, node: str, now: int) -> None:
        """Look at a node to which something has happened. Raises Violation."""
        feeds = self._places[node].host.forwarder.feeds
        if feeds is None:
            return
        for entry in feeds:
            ways = self._ways.setdefault(entry.feed, {})
            self._look(node, entry, ways, now)
        if self._unfed or self._broken or len(feeds) != self._size(node):
            self._forget_ended(node, {entry.feed for entry in feeds}, now)
        self._check_age(now)

    def changed(self, now: int) -> None:
        """Note that links, processes or devices of the network are not what they were."""
        for feed in self._ways:
            self._trace(feed, now)
        self._check_age(now)

    def restarts(self, node: str, now: int) -> None:
        """Note that a node's process is about to end."""
        self.ended(node)
        self._forget_ended(node, set(), now)

    def ended(self, node: str) -> None:
        """Count what a node's process has done."""
        feeds = self._places[node].host.forwarder.feeds
        counters: Counter[str] = Counter() if feeds is None else feeds.counters
        for name in _COUNTED:
            for _ in range(counters[name]):
                self._count(name)

    def _size(self, node: str) -> int:
        return sum(node in ways for ways in self._ways.values())

    def _look(self, node: str, entry: FeedEntry, ways: dict[str, Way], now: int) -> None:
        """Compare a node's upstream of one feed with what is known."""
        before = ways.get(node)
        if not entry.is_fed or entry.face is None or entry.upstream.next > entry.upstream.limit:
            if before is not None:
                del ways[node]
                self._broken.pop((node, entry.feed), None)
                self._trace(entry.feed, now)
            if not entry.is_fed and entry.has_been_fed and (node, entry.feed) not in self._unfed:
                self._unfed[node, entry.feed] = now
                self._look_around(node, entry)
            return
        self._unfed.pop((node, entry.feed), None)
        peer = self._places[node].peers.get(entry.face)
        if before is not None and before.peer == peer:
            return
        ways[node] = Way(peer, self._heard.get((node, peer or ""), 1))
        if peer is not None:
            self._count("adoption")
        self._follow(node, entry.feed, ways)
        self._trace(entry.feed, now)

    def _look_around(self, node: str, entry: FeedEntry) -> None:
        """Count relays without a source that could ask each other."""
        for peer in self._hops(node, entry.feed):
            if (peer, entry.feed) in self._unfed and node in self._hops(peer, entry.feed):
                self._count("relays lost their only way together")
                return

    def _hops(self, node: str, feed: bytes) -> list[str]:
        place = self._places[node]
        hops = place.host.forwarder.fib.lookup(feed)
        return [place.peers[hop.face] for hop in hops if hop.face in place.peers]

    def _forget_ended(self, node: str, live: set[bytes], now: int) -> None:
        for feed, ways in self._ways.items():
            if feed in live:
                continue
            self._unfed.pop((node, feed), None)
            if ways.pop(node, None) is not None:
                self._broken.pop((node, feed), None)
                self._trace(feed, now)

    def _next(self, node: str, ways: Mapping[str, Way]) -> str | None:
        """Return the node that a node's upstream leads to, None if there is none or the process has ended."""
        way = ways.get(node)
        if way is None or way.peer is None or self._places[way.peer].starts != way.process:
            return None
        return way.peer

    def _follow(self, node: str, feed: bytes, ways: Mapping[str, Way]) -> None:
        """Check that the upstreams do not lead back to a node."""
        passed = [node]
        while (onward := self._next(passed[-1], ways)) is not None:
            if onward == node:
                raise Violation(
                    "loop", node, f"its upstreams lead back to it: {' -> '.join((*passed, node))}"
                )
            if onward in passed:
                return  # another's cycle, which was found there
            passed.append(onward)

    def _trace(self, feed: bytes, now: int) -> None:
        """Find out which nodes are joined to a source, and since when the others are not."""
        ways = self._ways[feed]
        joined: dict[str, bool] = {}
        for node in ways:
            self._is_joined(node, feed, ways, joined)
        for node in ways:
            if joined[node]:
                self._broken.pop((node, feed), None)
            else:
                self._broken.setdefault((node, feed), now)

    def _is_joined(self, node: str, feed: bytes, ways: Mapping[str, Way], joined: dict[str, bool]) -> bool:
        passed = []
        result = False
        while node not in joined:
            passed.append(node)
            joined[node] = False  # while it is looked at, so that a cycle is no way
            way = ways.get(node)
            if way is not None and way.peer is None:
                result = any(device.feed == feed for device in self._places[node].devices)
                break
            onward = self._next(node, ways)
            if onward is None or not self._cables[frozenset((node, onward))].up:
                break
            node = onward
        else:
            result = joined[node]
        joined.update(dict.fromkeys(passed, result))
        return result

    def _check_age(self, now: int) -> None:
        oldest = next(iter(self._broken.items()), None)
        if oldest is not None and now > oldest[1] + STALE_NS:
            (node, feed), since = oldest
            chain = [node]
            while (onward := self._next(chain[-1], self._ways[feed])) is not None and onward not in chain:
                chain.append(onward)
            seconds = (now - since) / 1e9
            raise Violation(
                "source", node, f"counts as fed, and has no source for {seconds:.1f} s: {' -> '.join(chain)}"
            )
