"""tinySSB without contracts: all nodes replicate one set of feeds.

Under `tiny`, nodes agree on one open set by claims. Under `tiny-pub`, all feeds are signed up with the pub
before, and everybody has the list; the pub answers for all feeds, and the others for their own ones only.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from ssb.application import Event
from ssb.tiny.feed import ENDED
from ssb.tiny.goset import COMMON, MAX_KEYS
from testbed.errors import UserError
from testbed.layerings.nodes.node import Context, SimpleLayering
from testbed.layerings.nodes.titles import title
from testbed.layerings.nodes.workload import Feature, Feed
from testbed.layerings.peers.ladder import hub_of
from testbed.layerings.tiny.node import TINY_FEATURES, BaseTinyNode, TinyParameters, author_of


class PubParameters(TinyParameters):
    """Parameters of what has a node in the middle."""

    at: str | None = None
    """The node in the middle. Left out: the one with the most interfaces; if several have equally many,
    the first in the topology."""


class _Reader(NamedTuple):
    """A program (ssb.tiny.node.Program) that only reads."""

    on_entries: Callable[[bytes, int], None]

    def on_fork(self, feed: bytes, now: int) -> None:
        """See Program: the feed accepts nothing more."""

    def next_deadline(self) -> int | None:
        """See Program: never."""
        return None

    def wake(self, now: int) -> None:
        """See Program."""


class TinyNode(BaseTinyNode):
    """A node that replicates the common set; relaying nodes take part, too."""

    def __init__(self, context: Context) -> None:
        middle = hub_of(context.network, context.parameters) if context.layering == "tiny-pub" else None
        super().__init__(context, is_server=middle in (None, context.name))
        now = context.since or 0
        if len(self._authors) > MAX_KEYS:
            raise UserError(
                f"{context.layering}: a set has {MAX_KEYS} feeds at most, not {len(self._authors)}"
            )
        self._keys = {feed.key: key for key, feed in self._authors.items()}
        self._node.program = _Reader(self.on_entries)
        own = [self._store.add_own(author_of(context.seed, feed)).key for feed in self._role.feeds]
        if middle is None:
            self._node.join_open(own, now)
        else:
            self._node.join(COMMON, self._keys.values(), now)

    def on_entries(self, feed: bytes, now: int) -> None:
        """Deliver new whole entries of a feed."""
        known = self._authors.get(feed)
        if known is None:
            return
        held = self._store.feeds[feed]
        if held.mark < held.whole and not self._takes(known):
            return  # before all unread entries are read in vain
        for entry in self._store.read(feed, held.mark, held.whole):
            if not self._deliver(known, entry.sequence, entry.content, now):
                return
            self._store.set_mark(feed, entry.sequence)
        successor = self._context.workload.successors.get(known.key)
        if held.condition == ENDED and held.mark == held.sequence and successor in self._role.later:
            self._role.later.discard(successor)
            self._events.append(Event(now, "joined", successor))
            self._join(now)

    def _join(self, now: int) -> None:
        for key in self._role.follows:
            if self._keys[key] in self._store.feeds:
                self.on_entries(self._keys[key], now)

    def _publish(self, feed: Feed, sequence: int, content: bytes, now: int) -> None:
        self._node.publish(self._keys[feed.key], content, now)


_FEATURES: Final = TINY_FEATURES | {Feature.ENDING}

TINY_LAYERINGS = {
    "tiny": SimpleLayering(title("tiny"), TinyParameters, TinyNode, "tiny", _FEATURES),
    "tiny-pub": SimpleLayering(title("tiny-pub"), PubParameters, TinyNode, "tiny", _FEATURES),
}
"""The layerings without contracts, by name."""
