"""The feeds that a gateway serves, and its subscriptions on behalf of its peers.

A peer that connects is *at home*: its feed is served. The other feeds that it replicates are its *wishes*,
from EBT's notes and from its `contact` messages, as stock peers do not announce that they left a feed. A feed
is subscribed to while a peer wishes for it and it is not at home.

Peers reconnect. So a disconnected peer stays at home, and keeps its wishes, for a while. Then its wishes
end, and so does its home if others wish for its feed: it may be at home elsewhere.
"""

from collections import Counter
from collections.abc import Iterable, Set

from base.timers import Timers
from ssb.graph import CONTACT, Graph
from ssb.message import Message
from ssb.peer.peer import Peer

_HOMES = 1_000  # feeds served
_FOLLOWS = 10_000  # feeds wished for
_WISHES = 5_000  # feeds wished for by one peer
_HOPS = 3  # distance in follows up to which a peer at home replicates
_ABSENCE = 600_000_000_000  # ns after which a peer may have moved elsewhere


class GatewayInterests:
    """DelegatedWants (ssb.replication.ebt) of a gateway's peer.

    Args:
        peer: the peer.
        graph: the social graph of the messages in its store; its origin is the peer's own feed.
        counters: refusals, by reason.
    """

    def __init__(self, peer: Peer, graph: Graph, counters: Counter[str]) -> None:
        self._peer = peer
        self._graph = graph
        self._counters = counters
        self._homes: dict[str, Set[str]] = {}  # feed -> feeds in its author's reach
        self._kept: set[str] = set()
        self._wishes: dict[str, set[str]] = {}  # feed -> peers that wish for it
        self._wishes_of: dict[str, dict[str, None]] = {}  # peer -> feeds that it wishes for
        self._absent: Timers[str] = Timers()  # of disconnected peers: end of the grace period
        self._away: dict[str, None] = {}  # removable ones, the longest disconnected first
        self._changed: dict[str, None] = {}

    def is_home(self, feed: str) -> bool:
        """Whether a feed is at home."""
        return feed in self._homes

    def is_followed(self, feed: str) -> bool:
        """Whether a feed is to be subscribed to."""
        return feed in self._wishes and feed not in self._homes

    def take_changes(self) -> list[str]:
        """Return the feeds whose state may have changed since the last call."""
        changed, self._changed = self._changed, {}
        return list(changed)

    def keep(self, feed: str, now: int) -> None:
        """Keep a feed at home permanently."""
        self._kept.add(feed)
        self._away.pop(feed, None)
        self._add_home(feed)
        if feed == self._graph.origin:
            self._want(feed, self._homes[feed] - {feed}, now)

    # DelegatedWants

    def accepts(self, remote: str, feed: str) -> bool:
        if feed == remote:
            return feed in self._homes or self._reserve_home(feed)
        wishes = self._wishes.get(feed, set())
        if remote not in wishes:
            own = self._wishes_of.get(remote, {})
            if len(own) >= _WISHES:
                self._counters["too many follows of one peer"] += 1
                return feed in self._homes
            if not wishes and len(self._wishes) >= _FOLLOWS:
                self._counters["too many follows"] += 1
                return feed in self._homes
            self._wishes.setdefault(feed, wishes).add(remote)
            self._wishes_of.setdefault(remote, own)[feed] = None
            self._changed[feed] = None
        return True

    def on_leave(self, remote: str, feed: str) -> None:
        wishes = self._wishes.get(feed, set())
        if remote in wishes:
            wishes.discard(remote)
            own = self._wishes_of[remote]
            del own[feed]
            if not own:
                del self._wishes_of[remote]
            if not wishes:
                del self._wishes[feed]
                self._changed[feed] = None

    def is_wanted(self, feed: str) -> bool:
        return feed in self._homes or feed in self._wishes

    # Connections of peers

    def on_connected(self, remote: str, now: int) -> None:
        """Process a peer's connection."""
        self._forget_absence(remote)
        if self.accepts(remote, remote):
            self._peer.want(remote, now)

    def on_disconnected(self, remote: str, now: int) -> None:
        """Process a peer's disconnection."""
        if (remote in self._homes and remote not in self._kept) or remote in self._wishes_of:
            self._absent.set(remote, now + _ABSENCE)
            self._note_absence(remote)

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        return self._absent.next_deadline()

    def wake(self, now: int) -> None:
        """End the wishes of peers after a long absence, and their homes if others wish for their feeds."""
        for remote in self._absent.expire(now):
            for feed in list(self._wishes_of.get(remote, ())):
                self.on_leave(remote, feed)
            if remote in self._kept or remote not in self._homes:
                self._forget_absence(remote)
            elif remote in self._wishes:
                self._remove_home(remote)
            else:  # no harm in keeping it; check again later
                self._absent.set(remote, now + _ABSENCE)

    def _reserve_home(self, feed: str) -> bool:
        if len(self._homes) >= _HOMES:
            longest = next(iter(self._away), None)
            if longest is None:
                self._counters["too many homes"] += 1
                return False
            self._remove_home(longest)
        self._add_home(feed)
        return True

    def _add_home(self, feed: str) -> None:
        if feed not in self._homes:
            self._homes[feed] = self._reach(feed)
            self._changed[feed] = None
            self._note_absence(feed)

    def _note_absence(self, feed: str) -> None:
        if feed in self._absent and feed in self._homes and feed not in self._kept:
            self._away.setdefault(feed)

    def _forget_absence(self, remote: str) -> None:
        self._absent.set(remote, None)
        self._away.pop(remote, None)

    def _remove_home(self, feed: str) -> None:
        del self._homes[feed]
        self._away.pop(feed, None)
        if feed not in self._wishes_of:
            self._absent.set(feed, None)
        self._changed[feed] = None

    # Follows

    def process(self, messages: Iterable[Message], now: int) -> None:
        """Add `contact` messages to the graph, then update the peers' wishes."""
        stated: dict[str, set[str]] = {}
        for message in messages:
            content = message.content
            if isinstance(content, dict) and content.get("type") == CONTACT:
                self._graph.add(message)
                contact = content.get("contact")
                if isinstance(contact, str) and self._graph.relation(message.author, contact) is not None:
                    stated.setdefault(message.author, set()).add(contact)
        if stated:
            for home, before in list(self._homes.items()):
                if home in stated or not before.isdisjoint(stated):
                    self._review(home, stated.get(home, set()), now)

    def _review(self, home: str, stated: Set[str], now: int) -> None:
        """Update a peer's wishes after changes of its graph."""
        before, reach = self._homes[home], self._reach(home)
        self._homes[home] = reach
        for feed in sorted((before | stated) - reach):
            self._peer.replication.on_left(feed, home)
            self.on_leave(home, feed)
        if home == self._graph.origin:
            self._want(home, reach - before, now)
        else:
            self._want(home, {feed for feed in stated if self._graph.is_following(home, feed)}, now)

    def _want(self, home: str, feeds: Set[str], now: int) -> None:
        granted = sorted(feed for feed in feeds if self.accepts(home, feed))
        self._peer.want_all(granted, now)
        for feed in granted:
            self._peer.replication.on_returned(feed, home, now)
            self._peer.connections.update(now)

    def _reach(self, feed: str) -> Set[str]:
        """Return the feeds in a peer's reach by the graph."""
        if feed == self._graph.origin:
            return frozenset(self._graph.replicated())
        return self._graph.hops(feed, _HOPS).keys()
