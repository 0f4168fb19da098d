"""A router of multicast trees, which repairs its links' losses."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from random import Random
from typing import Final, NamedTuple

from base.timers import Timers, earliest
from base.units import SECOND
from ssb.multicast.ends import asked
from ssb.multicast.gaps import MOST_AHEAD, MOST_ASKED, UNMEASURED, Gaps, Patience
from ssb.multicast.packets import (
    MOST_CHANNELS,
    Channel,
    Heartbeat,
    Item,
    Join,
    Packet,
    Prune,
    Request,
    Restart,
    Segment,
    requests,
)

LOCAL: Final = 0
"""The port of a node's own sources and readers; those of links have other numbers."""
REFRESH: Final = 60 * SECOND
"""A join is repeated after so much, ns (t_periodic of PIM, RFC 7761, section 4.11), more or less."""
HOLD: Final = 7 * REFRESH // 2
"""A join holds for so long, ns (J/P_HoldTime of PIM)."""
_JITTER: Final = REFRESH // 10
_SECOND_RESTART: Final = SECOND
_MOST_DOUBLINGS: Final = 8
"""A join without an answer is repeated after UNMEASURED, then after twice the time each, up to REFRESH."""
MOST_TREES: Final = 1 << 16


class Numbers(NamedTuple):
    """Sizes of a router's state: entries and bytes."""

    entries: int
    bytes: int


class _Tree:
    """The entry of a channel: the interfaces towards the source and the readers, and what it repairs with."""

    __slots__ = (
        "downstream",
        "gaps",
        "has_moved",
        "is_answered",
        "joined_at",
        "kept",
        "oldest",
        "tries",
        "trip",
        "upstream",
        "wanted",
    )

    def __init__(self, upstream: int | None) -> None:
        self.upstream = upstream
        self.downstream: set[int] = set()
        self.is_answered = self.has_moved = False
        self.tries = 0
        self.joined_at = 0
        self.trip: int | None = None  # from the join to its answer, ns
        self.gaps: Gaps | None = None  # none before the source is heard of
        self.oldest = 1
        self.kept: dict[int, Segment] = {}
        self.wanted: dict[int, set[int]] = {}  # segments that went by here -> who asks for them


class Router:
    """The trees through a node.

    Args:
        links: the ports of its links.
        routes: source -> port towards it; LOCAL for one of its own.
        kept: newest segments of each channel that it keeps for repairs.
        patience: see Patience.
        rng: of the times of joins.
        since: when it was restarted, ns; None at the start of the network.

    Attributes:
        outputs: packets, each with its port.
        strays: packets that came from elsewhere than a tree leads, or for no tree.
    """

    def __init__(
        self,
        links: Iterable[int],
        routes: Mapping[bytes, int],
        kept: int,
        patience: Patience,
        rng: Random,
        since: int | None = None,
    ) -> None:
        self.outputs: list[tuple[int, Packet]] = []
        self.strays = 0
        self._links = list(links)
        self._up = {LOCAL, *self._links}
        self._routes = dict(routes)
        self._kept = kept
        self._patience = patience
        self._rng = rng
        self._trees: dict[Channel, _Tree] = {}
        self._joins: Timers[Channel] = Timers()
        self._holds: Timers[tuple[Channel, int]] = Timers()
        self._due: Timers[Channel] = Timers()  # requests
        self._restart_at: int | None = None
        if since is not None:
            self._restart()
            self._restart_at = since + _SECOND_RESTART

    def receive(self, port: int, packet: Packet, now: int) -> None:
        """Process a packet of a neighbour, or of an end at this node."""
        if isinstance(packet, Item):
            self._receive_item(port, packet, now)
        elif isinstance(packet, Heartbeat):
            self._receive_heartbeat(port, packet, now)
        elif isinstance(packet, Request):
            self._receive_request(port, packet, now)
        elif isinstance(packet, Join):
            for channel in packet.channels:
                self._add(port, channel, now)
        elif isinstance(packet, Prune):
            for channel in packet.channels:
                self._remove(port, channel)
        else:
            self._rejoin(port, now)

    def reroute(self, routes: Mapping[bytes, int], now: int) -> None:
        """Move the trees to the best routes now."""
        self._routes = dict(routes)
        moved = []
        for channel, tree in [*self._trees.items()]:
            upstream = self._routes.get(channel.source)
            if upstream == tree.upstream:
                continue
            before, tree.upstream = tree.upstream, upstream
            tree.has_moved = True
            tree.tries = 0
            if tree.gaps is not None:
                tree.gaps.forget_trips()
            self._send(before, Prune((channel,)))
            if upstream is not None:
                self._remove(upstream, channel)
            if channel in self._trees:
                moved.append(channel)
        self._join_all(moved, now)

    def set_link(self, port: int, up: bool, now: int) -> None:
        """Handle a link that is down, or up again: readers behind it have to join again."""
        if up:
            self._up.add(port)
            self._rejoin(port, now)
            return
        for channel in [each for each, tree in self._trees.items() if port in tree.downstream]:
            self._remove(port, channel)
        self._up.discard(port)

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        return earliest(
            self._restart_at,
            self._joins.next_deadline(),
            self._holds.next_deadline(),
            self._due.next_deadline(),
        )

    def wake(self, now: int) -> None:
        """Join, ask and forget what is due."""
        if self._restart_at is not None and now >= self._restart_at:
            self._restart_at = None
            self._restart()
        for channel, port in self._holds.expire(now):
            self._remove(port, channel)
        due = self._joins.expire(now)
        if due:
            # Refreshes that are due a little later share the packets of this one.
            soon = [each for each in self._joins if self._trees[each].is_answered]
            soon = [each for each in soon if (self._joins.get(each) or 0) <= now + _JITTER]
            self._join_all([*due, *soon], now)
        for channel in self._due.expire(now):
            self._ask(channel, now)

    def trees(self) -> Numbers:
        """Return the entries of channels: 16 bytes for the channel and its newest segments, 8 for each
        interface of a link, with its deadline.
        """
        links = sum(
            len(tree.downstream - {LOCAL}) + (tree.upstream not in (None, LOCAL))
            for tree in self._trees.values()
        )
        return Numbers(len(self._trees), 16 * len(self._trees) + 8 * links)

    def repairs(self) -> Numbers:
        """Return the segments that are asked for or here beyond one that lacks: 12 bytes for a number and its
        deadline, 4 for a number alone and for each interface that asks.
        """
        found = [(tree.gaps, tree.wanted) for tree in self._trees.values() if tree.gaps is not None]
        entries = sum(gaps.asked for gaps, _ in found)
        ahead = sum(gaps.ahead for gaps, _ in found)
        asking = sum(len(ports) for _, wanted in found for ports in wanted.values())
        return Numbers(entries, 12 * entries + 4 * (ahead + asking))

    @property
    def kept_bytes(self) -> int:
        """Bytes of the segments that are kept."""
        return sum(len(each.content) for tree in self._trees.values() for each in tree.kept.values())

    def _restart(self) -> None:
        for port in self._links:
            self._send(port, Restart())

    def _send(self, port: int | None, packet: Packet) -> None:
        if port in self._up:
            self.outputs.append((port, packet))

    def _add(self, port: int, channel: Channel, now: int) -> None:
        """Add an interface to a tree, and answer with what is known of the source."""
        tree = self._trees.get(channel)
        is_new = tree is None
        if tree is None:
            if len(self._trees) >= MOST_TREES:
                return
            tree = self._trees[channel] = _Tree(self._routes.get(channel.source))
        if port == tree.upstream:
            if is_new:
                del self._trees[channel]
            self.strays += 1
            return
        tree.downstream.add(port)
        if port != LOCAL:
            self._holds.set((channel, port), now + HOLD)
        if is_new:
            self._join_all([channel], now)
        elif tree.gaps is not None:
            before = tree.gaps.before(tree.gaps.newest + 1)
            self._send(port, Heartbeat(channel, tree.oldest, tree.gaps.newest, before))

    def _remove(self, port: int, channel: Channel) -> None:
        """Remove an interface from a tree, and leave the tree if it was the last."""
        tree = self._trees.get(channel)
        if tree is None or port not in tree.downstream:
            return
        tree.downstream.remove(port)
        self._holds.set((channel, port), None)
        for number, ports in [*tree.wanted.items()]:
            ports.discard(port)
            if not ports:
                del tree.wanted[number]
                if tree.gaps is not None and not tree.gaps.lacks(number):
                    tree.gaps.abandon(number)
        if not tree.downstream:
            del self._trees[channel]
            self._joins.set(channel, None)
            self._due.set(channel, None)
            self._send(tree.upstream, Prune((channel,)))

    def _rejoin(self, port: int, now: int) -> None:
        """Join all trees again whose source is behind a port."""
        found = [each for each, tree in self._trees.items() if tree.upstream == port]
        for channel in found:
            self._trees[channel].has_moved = True
            self._trees[channel].tries = 0
        self._join_all(found, now)

    def _join_all(self, channels: Iterable[Channel], now: int) -> None:
        """Join the trees of channels, many in a packet; repeat it until something comes."""
        towards: dict[int, list[Channel]] = defaultdict(list)
        for channel in channels:
            tree = self._trees[channel]
            if tree.upstream is None:
                self._joins.set(channel, None)
                continue
            towards[tree.upstream].append(channel)
            tree.is_answered = False
            tree.joined_at = now
            if tree.upstream != LOCAL:
                self._joins.set(channel, now + min(UNMEASURED << tree.tries, REFRESH))
                tree.tries = min(tree.tries + 1, _MOST_DOUBLINGS)
        for port, wanted in towards.items():
            for at in range(0, len(wanted), MOST_CHANNELS):
                self._send(port, Join(tuple(wanted[at : at + MOST_CHANNELS])))

    def _heard(self, port: int, channel: Channel, now: int) -> _Tree | None:
        """Return the tree in which a packet comes from the source; None for a stray one."""
        tree = self._trees.get(channel)
        if tree is None or port != tree.upstream:
            self.strays += 1
            if port != LOCAL and (tree is None or port not in tree.downstream):
                self._send(port, Prune((channel,)))
            return None
        if not tree.is_answered:
            tree.is_answered = True
            # Right after a restart the neighbour sends already: that is no answer.
            is_answer = tree.tries == 1 and self._restart_at is None
            tree.trip = now - tree.joined_at if is_answer else None
            tree.tries = 0
            if port != LOCAL:
                self._joins.set(channel, now + REFRESH + self._rng.randrange(-_JITTER, _JITTER))
            if tree.has_moved and tree.gaps is not None:
                tree.gaps.renew(now)
            tree.has_moved = False
        return tree

    def _receive_item(self, port: int, item: Item, now: int) -> None:
        channel, number, before, segment, is_repair = item
        tree = self._heard(port, channel, now)
        if tree is None:
            return
        gaps = tree.gaps
        if gaps is None:
            gaps = tree.gaps = Gaps(number - 1, self._patience, tree.trip)
        elif number > gaps.floor + MOST_AHEAD:
            _forget(tree, gaps, number)
        wanted = tree.wanted.pop(number, set())
        ports = wanted & tree.downstream
        if gaps.take(number, before, now):
            self._keep(tree, number, segment)
            ports = tree.downstream
        own = gaps.before(number)
        for each in sorted(ports):
            self._send(each, Item(channel, number, own, segment, is_repair))
        self._due.set(channel, gaps.next_deadline())

    def _keep(self, tree: _Tree, number: int, segment: Segment) -> None:
        if self._kept and tree.upstream != LOCAL:
            tree.kept[number] = segment
            if len(tree.kept) > self._kept:
                del tree.kept[min(tree.kept)]

    def _receive_heartbeat(self, port: int, said: Heartbeat, now: int) -> None:
        channel, oldest, newest, before = said
        tree = self._heard(port, channel, now)
        if tree is None:
            return
        tree.oldest = max(tree.oldest, oldest)
        gaps = tree.gaps
        if gaps is None:
            gaps = tree.gaps = Gaps(newest, self._patience, tree.trip)
        elif newest > gaps.floor + MOST_AHEAD:
            _forget(tree, gaps, newest + 1)
        _forget(tree, gaps, tree.oldest)
        gaps.learn(newest, before, now)
        own = gaps.before(gaps.newest + 1)
        for each in sorted(tree.downstream):
            self._send(each, Heartbeat(channel, tree.oldest, gaps.newest, own))
        self._due.set(channel, gaps.next_deadline())

    def _receive_request(self, port: int, request: Request, now: int) -> None:
        """Repair from what is kept, and ask for the rest in the neighbour's place."""
        channel = request.channel
        tree = self._trees.get(channel)
        if tree is None or port not in tree.downstream or tree.gaps is None:
            self.strays += 1
            return
        gaps = tree.gaps
        is_told = False
        for number in asked(request, gaps.newest):
            segment = tree.kept.get(number)
            if segment is not None:
                self._send(port, Item(channel, number, gaps.before(number), segment, is_repair=True))
            elif number < tree.oldest:
                if not is_told:
                    self._send(
                        port, Heartbeat(channel, tree.oldest, gaps.newest, gaps.before(gaps.newest + 1))
                    )
                is_told = True
            elif gaps.lacks(number):
                gaps.want(number, now)
            elif number in tree.wanted or len(tree.wanted) < MOST_ASKED:
                tree.wanted.setdefault(number, set()).add(port)
                gaps.want(number, now)
        self._due.set(channel, gaps.next_deadline())
        if (due := gaps.next_deadline()) is not None and due <= now:
            self._ask(channel, now)

    def _ask(self, channel: Channel, now: int) -> None:
        tree = self._trees[channel]
        gaps = tree.gaps
        if gaps is None:
            return
        for request in requests(channel, gaps.ask(now)):
            self._send(tree.upstream, request)
        self._due.set(channel, gaps.next_deadline())


def _forget(tree: _Tree, gaps: Gaps, oldest: int) -> None:
    """Ask no longer for the segments before one. A neighbour that still wants some of them asks again."""
    gaps.forget(oldest)
    for number in [each for each in tree.wanted if each < oldest]:
        del tree.wanted[number]
