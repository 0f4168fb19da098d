"""Invariants of the upstreams of each feed, checked after every event.

1. No cycle: following the upstreams of one feed from node to node never leads back. So no two nodes believe
in a source because of each other.
2. No belief without a source: fed nodes and live links join every fed node to one with a publishing device,
or have done so within the last STALE_NS.
3. While an entry lives, its evidence never gets worse. It is signed if the feed's sources sign.
4. No next hop is forgotten: a node without a source, once it has asked all next hops, has each of them asked,
or knows it for one that refuses or keeps silent.

An upstream counts until the neighbour restarts, or forgets an unfollowed feed. Its offers are then void, as
its next answer shows; or that, or a Hello, shows that the neighbour offers the same again.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from functools import lru_cache

from forwarder.lli.entry import FeedEntry, Memory
from forwarder.lli.estimates import MAX_TIMEOUT
from forwarder.lli.neighbours import HELLO
from forwarder.lli.table import REMEMBERED, FeedTable
from forwarder.lli.upstream import MAX_TRIES
from forwarder.wire.evidence import Evidence
from forwarder.wire.hello import reference as _reference
from testbed.verify.kit.outcome import Violation
from testbed.verify.push.world.frames import Frame
from testbed.verify.push.world.links import Cable
from testbed.verify.push.world.network import NodePlace

STALE_NS = 2 * HELLO + (MAX_TRIES + 1) * MAX_TIMEOUT
"""Maximum time that a node counts as fed without a source: detection of silence, all tries at a dead
neighbour, and notification downstream.
"""

_COUNTED = ("demands", "deaths", "waits")
"""Forwarder counters of this part of the protocol."""

reference = lru_cache(256)(_reference)  # asked for at each event

Key = tuple[str, bytes]
"""A node, and a feed."""


Ways = dict[str, str | None]
"""The upstream of each node, for one feed: a neighbour, None for an application."""


class Sources:
    """The upstreams of all feeds in a network.

    Attributes:
        beginnings: number of restarts of nodes or feeds; it dates offers.
    """

    def __init__(
        self,
        places: Mapping[str, NodePlace],
        cables: Mapping[frozenset[str], Cable],
        count: Callable[[str], None],
    ) -> None:
        self._places = places
        devices = [each for place in places.values() for each in place.devices]
        self._signing_feeds = {each.feed for each in devices} - {
            each.feed for each in devices if not each.signs
        }
        self._cables = cables
        self._count = count
        self._ways: dict[bytes, Ways] = {}
        self._seen: defaultdict[str, dict[bytes, tuple[int | None, bool]]] = defaultdict(dict)
        self._broken: dict[Key, int] = {}  # since when, ns, in that order
        self.beginnings = 0
        self._begun: dict[tuple[str, bytes | None], int] = {}  # by node, and by feed's reference
        self._held: dict[Key, tuple[FeedEntry | Memory | None, Evidence | None]] = {}
        # The newest offer of evidence, and the one heard last, by node, neighbour and reference.
        self._offers: dict[tuple[str, str, bytes], int] = {}
        self._latest: dict[tuple[str, str, bytes], int] = {}
        self._renewed: set[tuple[str, bytes]] = set()  # nodes with offers of a restarted neighbour
        self._ended: dict[Key, int] = {}  # entries that are remembered, with their ends, ns
        self._unfed: dict[Key, int] = {}  # entries without a source, with times, ns

    def heard(self, node: str, peer: str, frame: Frame, sent: int) -> None:
        """Record a packet about to be received by a node, first sent after `sent` beginnings."""
        offered = [reference(frame.feed)] if frame.evidence is not None and frame.kind != "lli" else []
        if frame.hello is not None:
            offered += [state.reference for state in frame.hello.states if state.evidence is not None]
            offered += self._agreed(node, peer)
        for feed in offered:
            key = node, peer, feed
            before = self._offers.get(key, -1)
            if before < self._begun_at(peer, feed) <= sent:
                self._renewed.add((node, feed))
            self._offers[key] = max(before, sent)
            self._latest[key] = sent

    def _agreed(self, node: str, peer: str) -> list[bytes]:
        """Return the feeds whose void offers a neighbour repeats, by a Hello that need not name them.

        It has started anew, and has on record for the node the evidence that the node had before: a digest
        or a reply then names no difference.
        """
        here, there = (self._places[name].host.forwarder.feeds for name in (node, peer))
        if here is None or there is None or not self._begun:
            return []
        to, back = self._places[node].faces[peer], self._places[peer].faces[node]
        agreed = []
        for entry in here:
            key, holder = (node, peer, entry.reference), entry.holder(to)
            if self._offers.get(key, -1) >= self._begun_at(peer, entry.reference):
                continue
            granted = next((each.ranges.get(back) for each in there if each.feed == entry.feed), None)
            if holder is None or holder.offered is None or granted is None or granted.told is None:
                continue
            if granted.told.bare == holder.offered.bare:
                agreed.append(entry.reference)
        return agreed

    def acted(self, node: str, now: int) -> None:
        """Check a node after an event. Raises Violation."""
        feeds = self._places[node].host.forwarder.feeds
        if feeds is None:
            return
        self.saw(node, now)
        seen = self._seen[node]
        live = set()
        deadline = self._places[node].host.forwarder.next_deadline()
        is_due = deadline is not None and deadline <= now  # such as after a change of routes
        for entry in feeds:
            live.add(entry.feed)
            if not is_due:
                self._check_hops(node, entry, feeds)
            wants = entry.upstream.next <= entry.upstream.limit
            state = entry.face if entry.is_fed and wants else None, entry.is_fed
            if seen.get(entry.feed) != state or (node, entry.reference) in self._renewed:
                seen[entry.feed] = state
                self._update_upstream(node, entry, self._ways.setdefault(entry.feed, {}), now)
        for feed in seen.keys() - live:
            del seen[feed]
            self._end(node, feed, now)
        self._check_age(now)

    def saw(self, node: str, now: int) -> None:
        """Check a node's evidence, also of entries that have ended: some end in the frame that fed them.

        Raises Violation.
        """
        feeds = self._places[node].host.forwarder.feeds
        if feeds is None:
            return
        for entry in feeds:
            self._check_evidence(node, entry.feed, entry, now)
        for feed, until, memory in feeds.remembered():
            self._check_evidence(node, feed, memory, now)
            self._ended[node, feed] = until - REMEMBERED

    def changed(self, now: int) -> None:
        """Handle a change of links, processes or devices of the network."""
        for feed in self._ways:
            self._trace(feed, now)
        self._check_age(now)

    def restarts(self, node: str, now: int) -> None:
        """Handle the imminent end of a node's process."""
        self.ended(node)
        self._begin(node, None)
        for key in [key for key in self._held if key[0] == node]:
            del self._held[key]
        for feed in self._seen.pop(node, {}):
            self._end(node, feed, now)

    def _begin(self, node: str, feed: bytes | None) -> None:
        self.beginnings += 1
        self._begun[node, feed] = self.beginnings

    def _begun_at(self, node: str, feed: bytes) -> int:
        return max(self._begun.get((node, None), 0), self._begun.get((node, feed), 0))

    def _check_evidence(self, node: str, feed: bytes, life: FeedEntry | Memory, now: int) -> None:
        """Check that evidence gets no worse within an entry's life, and while its findings are remembered."""
        if life.evidence is not None and not life.evidence.is_signed and feed in self._signing_feeds:
            raise Violation("evidence", node, f"takes {life.evidence} for a number that is not signed")
        before, best = self._held.get((node, feed), (None, None))
        if best is not None and best.beats(life.evidence):
            if before is life or not self._may_forget(node, feed, now):
                raise Violation("evidence", node, f"{life.evidence} in place of {best}")
            self._begin(node, reference(feed))
            if feed in self._ways:
                self._trace(feed, now)
        if before is not life:
            self._ended.pop((node, feed), None)
        self._held[node, feed] = life, life.evidence

    def _check_hops(self, node: str, entry: FeedEntry, feeds: FeedTable) -> None:
        """Check that a node without a source has forgotten no next hop."""
        if entry.is_fed or not entry.has_scouted or entry.hop_limit == 0:
            return
        place = self._places[node]
        known = {face for face, _ in entry.holders()} | entry.muted | entry.refused.keys()
        for hop in place.host.forwarder.fib.lookup(entry.feed):
            lives = place.host.forwarder.faces[hop.face].is_up and not feeds._neighbours.is_dead(hop.face)
            if lives and hop.face not in known:
                peer = place.peers.get(hop.face, "its application")
                raise Violation("hops", node, f"has no source, and asks {peer} no more")

    def _may_forget(self, node: str, feed: bytes, now: int) -> bool:
        """Return whether a node may have forgotten a feed: after some time, or for lack of room."""
        feeds = self._places[node].host.forwarder.feeds
        all_feeds = {device.feed for place in self._places.values() for device in place.devices}
        has_room = feeds is None or feeds.store.max_feeds >= len(all_feeds)
        ended = self._ended.get((node, feed))
        return not has_room or (ended is not None and now - ended >= REMEMBERED)

    def ended(self, node: str) -> None:
        """Count the activity of a node's process."""
        feeds = self._places[node].host.forwarder.feeds
        counters: Counter[str] = Counter() if feeds is None else feeds.counters
        for name in _COUNTED:
            for _ in range(counters[name]):
                self._count(name)

    def _update_upstream(self, node: str, entry: FeedEntry, ways: Ways, now: int) -> None:
        """Compare a node's upstream of one feed with the record."""
        if not entry.is_fed or entry.face is None or entry.upstream.next > entry.upstream.limit:
            if node in ways:
                del ways[node]
                self._broken.pop((node, entry.feed), None)
                self._trace(entry.feed, now)
            if not entry.is_fed and entry.has_been_fed and (node, entry.feed) not in self._unfed:
                self._unfed[node, entry.feed] = now
                self._count_unfed_relays(node, entry)
            return
        self._unfed.pop((node, entry.feed), None)
        peer = self._places[node].peers.get(entry.face)
        if node in ways and ways[node] == peer and (node, entry.reference) not in self._renewed:
            return
        if peer is not None and not (node in ways and ways[node] == peer):
            self._count("adoption")
        self._renewed.discard((node, entry.reference))
        ways[node] = peer
        self._follow(node, entry.feed, ways)
        self._trace(entry.feed, now)

    def _count_unfed_relays(self, node: str, entry: FeedEntry) -> None:
        """Count relays without a source that could ask each other."""
        for peer in self._hops(node, entry.feed):
            if (peer, entry.feed) in self._unfed and node in self._hops(peer, entry.feed):
                self._count("relays lost their only way together")
                return

    def _hops(self, node: str, feed: bytes) -> list[str]:
        place = self._places[node]
        hops = place.host.forwarder.fib.lookup(feed)
        return [place.peers[hop.face] for hop in hops if hop.face in place.peers]

    def _end(self, node: str, feed: bytes, now: int) -> None:
        """Drop a node's record of a feed."""
        self._unfed.pop((node, feed), None)
        ways = self._ways[feed]
        if node in ways:
            del ways[node]
            self._broken.pop((node, feed), None)
            self._trace(feed, now)

    def _next(self, node: str, feed: bytes, ways: Ways) -> str | None:
        """Return the next node along a node's upstream, None without one or after its restart."""
        peer = ways.get(node)
        if peer is None:
            return None
        feed = reference(feed)
        return peer if self._offers.get((node, peer, feed), -1) >= self._begun_at(peer, feed) else None

    def _follow(self, node: str, feed: bytes, ways: Ways) -> None:
        """Check that the upstreams do not lead back to a node."""
        passed = [node]
        while (onward := self._next(passed[-1], feed, ways)) is not None:
            if self._latest[passed[-1], onward, reference(feed)] < self._begun_at(onward, reference(feed)):
                return  # a late offer from before a restart: void as well, though a newer one was of no use
            if onward == node:
                raise Violation(
                    "loop", node, f"its upstreams lead back to it: {' -> '.join((*passed, node))}"
                )
            if onward in passed:
                return  # another's cycle, which was found there
            passed.append(onward)

    def _trace(self, feed: bytes, now: int) -> None:
        """Compute the nodes joined to a source, and since when the others are not."""
        ways = self._ways[feed]
        joined: dict[str, bool] = {}
        for node in ways:
            self._is_joined(node, feed, ways, joined)
        for node in ways:
            if joined[node]:
                self._broken.pop((node, feed), None)
            else:
                self._broken.setdefault((node, feed), now)

    def _is_joined(self, node: str, feed: bytes, ways: Ways, joined: dict[str, bool]) -> bool:
        passed = []
        result = False
        while node not in joined:
            passed.append(node)
            joined[node] = False  # during the visit, so that a cycle is no path
            if node in ways and ways[node] is None:
                result = any(device.feed == feed for device in self._places[node].devices)
                break
            onward = self._next(node, feed, ways)
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
            while (
                onward := self._next(chain[-1], feed, self._ways[feed])
            ) is not None and onward not in chain:
                chain.append(onward)
            seconds = (now - since) / 1e9
            raise Violation(
                "source", node, f"counts as fed, and has no source for {seconds:.1f} s: {' -> '.join(chain)}"
            )
