"""Subscriptions of others that a node learns of: privacy towards those who carry feeds, or are neighbours."""

from collections import defaultdict
from collections.abc import Iterable

from testbed.layerings.nodes.node import Context
from testbed.layerings.nodes.peer_role import peer_identity


class Witness:
    """A node as a witness of subscriptions to which it is neither the reader nor the author.

    Only true subscriptions count, each once, and for good: nobody can be made to forget them.

    Args:
        context: of the node.

    Attributes:
        seen: reader and feed's key of each, both as references.
    """

    def __init__(self, context: Context) -> None:
        self.seen: set[tuple[str, str]] = set()
        self._between: defaultdict[frozenset[str], set[tuple[str, str]]] = defaultdict(set)
        names = {feed.publisher for feed in context.workload.feeds} | context.workload.follows.keys()
        references = {name: peer_identity(context.seed, name).ref for name in names}
        for reader, feeds in context.workload.follows.items():
            for feed in feeds:
                if context.name not in (reader, feed.publisher):
                    ends = frozenset((references[reader], references[feed.publisher]))
                    self._between[ends].add((references[reader], feed.key))
        self._others = frozenset().union(*self._between.values())

    def hears(self, peer: str, feeds: Iterable[str]) -> None:
        """Take in that a peer asks for feeds."""
        self.seen |= self._others & {(peer, feed) for feed in feeds}

    def meets(self, peer: str, other: str) -> None:
        """Take in that two peers exchange feeds."""
        self.seen |= self._between.get(frozenset((peer, other)), set())
