"""The users of a forwarder, their social graphs, and the feeds on these.

A feed is *carried* if it is on the graph of at least one user: it is the user's own, or within the user's
hops, and not excluded by a nearer block or unfollow (ssb.graph has the rules). A feed blocked by one user
may be carried for another.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Final

from ssb.graph import CONTACT, Changes, Graph
from ssb.message import Message

STATEMENT_BYTES: Final = 32 + 32 + 8 + 1
"""Bytes of a statement: its author's key, the other's, the sequence number, and the relation."""

MOST_STATEMENTS: Final = 5_000
"""Most statements of one author in memory; further ones are not read."""


class Community:
    """Users and their graphs. The caller has verified all messages.

    Args:
        most_feeds: most feeds carried; further ones wait until others are dropped.

    Attributes:
        counters: refusals, by reason.
        statements: statements in memory.
    """

    def __init__(self, most_feeds: int) -> None:
        self.counters: Counter[str] = Counter()
        self.statements = 0
        self._most_feeds = most_feeds
        self._graphs: dict[str, Graph] = {}
        self._readers: defaultdict[str, set[str]] = defaultdict(set)  # feed -> users with it on their graph
        self._users_of: Counter[str] = Counter()  # feed -> their number at each one's last _update()
        self._carried: dict[str, None] = {}
        self._waiting: dict[str, None] = {}
        self._contacts: defaultdict[str, list[Message]] = defaultdict(
            list
        )  # author -> messages of type contact
        self._pending: dict[str, set[str]] = {}  # user -> feeds added or removed since the last _update()
        self._changed: set[str] = set()  # feeds carried now and not at the last take_changes(), or vice versa

    def __contains__(self, user: str) -> bool:
        return user in self._graphs

    def __iter__(self) -> Iterator[str]:
        return iter(self._graphs)

    def attach(self, user: str, hops: int) -> None:
        """Attach a user with a graph of `hops` hops; no effect if attached already."""
        if user in self._graphs:
            return
        graph = self._graphs[user] = Graph(user, hops)
        self._pending[user] = set()
        self._load(user, graph)
        self._update(user, graph)

    def detach(self, user: str) -> None:
        """Detach a user."""
        graph = self._graphs.pop(user, None)
        if graph is not None:
            for feed in graph.replicated():
                self._readers[feed].discard(user)
            for feed in sorted(graph.replicated() ^ self._pending.pop(user)):
                self._leave(feed)

    def add(self, message: Message) -> None:
        """Read a verified message, if it is of type contact and its author's feed is carried.

        It is added to the graphs with its author; to others once the author is on them.
        """
        content = message.content
        if not isinstance(content, dict) or content.get("type") != CONTACT:
            return
        said = self._contacts[message.author]
        if said and said[-1].sequence >= message.sequence:
            return  # it is read again, from a replica
        if message.author not in self._carried or len(said) >= MOST_STATEMENTS:
            self.counters["statements"] += 1
            return
        said.append(message)
        self.statements += 1
        for user in tuple(self._readers[message.author]):
            self._graphs[user].add(message)
            self._load(user, self._graphs[user])

    def carries(self, feed: str) -> bool:
        """Whether a feed is carried."""
        return feed in self._carried

    def reaches(self, user: str, feed: str) -> bool:
        """Whether a feed is on the graph of an attached user."""
        graph = self._graphs.get(user)
        return graph is not None and feed in graph.replicated()

    def holders(self, user: str, feed: str) -> list[str]:
        """Return a feed's author, and the author's followers on the graph of an attached user."""
        graph = self._graphs.get(user)
        if graph is None:
            return [feed]
        return [feed, *(other for other in graph.replicated() if graph.is_following(other, feed))]

    def take_changes(self) -> Changes:
        """Return the changes of the set of carried feeds since the last call; at first, the whole set."""
        for user, graph in self._graphs.items():
            if self._pending[user]:
                self._update(user, graph)
        changed, self._changed = self._changed, set()
        carried = self._carried.keys()
        changes = Changes(frozenset(changed & carried), frozenset(changed - carried))
        for feed in changes.removed:
            self.statements -= len(
                self._contacts.pop(feed, ())
            )  # it is read again, if the feed is carried again
        return changes

    def _load(self, user: str, graph: Graph) -> None:
        """Add the statements of authors new on a graph, and remove those of others."""
        pending = self._pending[user]
        while (changes := graph.take_changes()).added or changes.removed:
            pending ^= changes.added | changes.removed
            for feed in changes.removed:
                self._readers[feed].discard(user)
                graph.forget(feed)
            for feed in changes.added:
                self._readers[feed].add(user)
                for message in self._contacts.get(feed, ()):
                    graph.add(message)

    def _update(self, user: str, graph: Graph) -> None:
        """Carry the feeds new on a graph, and leave those no longer on it."""
        pending, self._pending[user] = self._pending[user], set()
        reached = graph.replicated()
        for feed in sorted(pending & reached):
            self._users_of[feed] += 1
            if feed not in self._carried:
                self._enter(feed)
        for feed in sorted(pending - reached):
            self._leave(feed)

    def _enter(self, feed: str) -> None:
        if len(self._carried) < self._most_feeds:
            self._carried[feed] = None
            self._changed ^= {feed}
        else:
            self.counters["feeds"] += 1
            self._waiting[feed] = None

    def _leave(self, feed: str) -> None:
        self._users_of[feed] -= 1
        if self._users_of[feed] > 0:
            return
        del self._users_of[feed]
        self._waiting.pop(feed, None)
        if feed in self._carried:
            del self._carried[feed]
            self._changed ^= {feed}
            if self._waiting:
                waiting = next(iter(self._waiting))
                del self._waiting[waiting]
                self._enter(waiting)
