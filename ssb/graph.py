"""The graph of follows and blocks, hops from oneself, and the set of feeds to replicate.

The rules are those of ssb-friends (npm), tested against its code:

- A message of type `contact` states its author's relation to `contact`: *blocks* if `blocking` or `flagged`
  is true, else *follows* if `following` is true, else both are revoked (*unfollows*). An author's last
  statement about a feed, by sequence number, is the valid one.
- The origin has hops 0. A feed followed from hops h has h + 1; a block by an author at hops h counts as h + 1
  as well, an unfollow as h + 2. The least of these decides, and a follow wins a tie: my block outweighs all
  follows, a friend's block outweighs follows by friends of friends, but not another friend's follow; my
  unfollow outweighs follows by friends of friends.
- A feed decided by a block or an unfollow is *excluded*, and its own statements are ignored.
- Statements of authors at the greatest hops are ignored, too.

Three differences. Of a private and a public statement the later is valid, not always the private one. A feed
that has ended may name a successor (`ssb.ending`): then each author's statement about the ended feed holds
for the successor, too, until that author has made one about the successor itself. A forked feed may have
several ends; if they are *disputed*, no follow holds for their successors. And several feeds may be devices
of one identity (`ssb.applications.fusion`). They follow each other. An author's statement about one holds for
the others, and a statement by one is a statement by the others, until an author has made its own one about
just that feed. Of several statements that hold so, a block outweighs a follow.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from enum import IntEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from ssb.keys import InvalidRef, parse_feed
from ssb.message import Message

CONTACT: Final = "contact"
"""The type of statements."""
DEFAULT_MAX_HOPS = 2
"""Friends of friends: the default of stock peers."""


class Relation(IntEnum):
    """The latest statement of one feed about another; numbers as in ssb-friends."""

    FOLLOWS = 1
    BLOCKS = -1
    UNFOLLOWED = -2


_FIRMEST: Final = (Relation.BLOCKS, Relation.FOLLOWS, Relation.UNFOLLOWED)


class Changes(NamedTuple):
    """Change of the set of replicated feeds: feeds added and removed."""

    added: frozenset[str]
    removed: frozenset[str]


class Graph:
    """The known follows and blocks, as seen from one feed.

    Statements are added one at a time and in any order; hops are updated lazily, and only where they may have
    changed.

    Args:
        origin: the feed's reference.
        max_hops: how far feeds are replicated; 0 for the origin's feed only.
    """

    def __init__(self, origin: str, max_hops: int = DEFAULT_MAX_HOPS) -> None:
        self.origin = origin
        self.max_hops = max_hops
        # Author -> feed -> its last statement about the feed, with sequence number; and the reverse. The
        # number is 0 for a statement about another feed, or by another one, that holds here, too.
        self._stated: defaultdict[str, dict[str, tuple[Relation, int]]] = defaultdict(dict)
        self._about: defaultdict[str, dict[str, Relation]] = defaultdict(dict)
        self._successors: defaultdict[str, list[str]] = defaultdict(list)
        self._disputed: Set[str] = frozenset()  # ended feeds
        self._ended: defaultdict[str, list[str]] = defaultdict(list)  # by their successor
        self._devices: dict[str, frozenset[str]] = {}  # of each feed that is not its identity's only one
        self._restated: set[tuple[str, str]] = set()  # since take_restated()
        self._distances: dict[str, int] = {origin: 0}
        self._dirty: set[str] = set()
        self._replicated = {origin}
        self._changed = {origin}  # feeds added or removed since take_changes()

    def add(self, message: Message) -> None:
        """Add a message; no effect if it is not of type `contact`, or is encrypted."""
        if isinstance(message.content, dict):
            self.add_content(message.author, message.sequence, message.content)

    def add_content(self, author: str, sequence: int, content: Mapping[str, Any]) -> None:
        """Add the content of an author's message, for example a decrypted one."""
        about = content.get("contact")
        if content.get("type") != CONTACT or not isinstance(about, str):
            return
        try:
            parse_feed(about)
        except InvalidRef:
            return
        before = self._stated[author].get(about)
        if before is not None and before[1] >= sequence:
            return
        self._state(author, about, _relation(content), sequence)
        self._pass_on(author, about)

    def retract(self, author: str, before: int) -> None:
        """Let the statements of an author with numbers below `before` hold no more."""
        stated = self._stated.get(author, {})
        gone = [about for about, (_, sequence) in stated.items() if 0 < sequence < before]
        for about in gone:
            self._state(author, about, None, 0)
        for about in gone:
            self._inherit(author, about)
            self._pass_on(author, about)

    def succeed(self, feed: str, successor: str) -> None:
        """Add the end of a feed that names a successor; each branch of a forked feed may have an end."""
        if successor not in self._successors[feed]:
            self._successors[feed].append(successor)
            self._ended[successor].append(feed)
            for author in list(self._about.get(feed, ())):
                self._pass_on(author, feed)

    def dispute(self, feeds: Set[str]) -> bool:
        """Say which ended feeds' ends other messages contradict; return whether these are others than before.

        A block of such a feed holds for its successors, as ever, and a follow for none of them.
        """
        changed = self._disputed ^ feeds
        self._disputed = frozenset(feeds)
        for feed in changed:
            for author in list(self._about.get(feed, ())):
                self._pass_on(author, feed)
        return bool(changed)

    def unite(self, identities: Mapping[str, frozenset[str]]) -> None:
        """Change identities: for each feed concerned, all devices of its identity, the feed among them."""
        feeds = {each for feed in identities for each in self._onward(feed)}
        for feed, devices in identities.items():
            self._devices[feed] = devices
            if len(devices) < 2:
                del self._devices[feed]
        feeds |= {each for feed in identities for each in self._onward(feed)}
        authors = {author for feed in feeds for author in self._about.get(feed, ())}
        pairs = {(author, feed) for author in {*authors, *identities} for feed in feeds}
        stated = {feed for author in identities for feed in self._stated.get(author, ())}
        pairs |= {(author, each) for feed in stated for each in self._onward(feed) for author in identities}
        for author, feed in pairs:
            self._inherit(author, feed)

    def ends(self) -> Iterator[tuple[str, str]]:
        """Yield the ended feeds that name a successor, with it; some with several."""
        for feed, successors in self._successors.items():
            for successor in successors:
                yield feed, successor

    def disputed(self) -> dict[str, list[str]]:
        """Return the feeds whose ends are disputed, with the successors that these name."""
        return {feed: sorted(self._successors.get(feed, ())) for feed in sorted(self._disputed)}

    def take_restated(self) -> set[tuple[str, str]]:
        """Return author and feed of each block that has changed since the last call; for the origin, of each
        statement.
        """
        restated, self._restated = self._restated, set()
        return restated

    def statements(self) -> Iterator[tuple[str, str, Relation, int]]:
        """Yield each author's last statement about each feed: author, feed, relation, sequence number."""
        for author, stated in self._stated.items():
            for about, (relation, sequence) in stated.items():
                if sequence:
                    yield author, about, relation, sequence

    def restore(
        self,
        statements: Iterable[tuple[str, str, Relation, int]],
        ends: Iterable[tuple[str, str]] = (),
        identities: Mapping[str, frozenset[str]] = MappingProxyType({}),
    ) -> None:
        """Add what another graph knows to an empty one; much faster than from messages."""
        for author, about, relation, sequence in statements:
            self._stated[author][about] = relation, sequence
            self._about[about][author] = relation
        for feed, successor in ends:
            self.succeed(feed, successor)
        self.unite(identities)
        self._distances = self._search(self.origin, self.max_hops)
        replicated = {feed for feed, distance in self._distances.items() if distance >= 0}
        self._changed ^= self._replicated ^ replicated
        self._replicated = replicated

    def blocks(self) -> Iterator[tuple[str, str]]:
        """Yield all blocks: author and blocked feed."""
        for about, stated in self._about.items():
            for author, relation in stated.items():
                if relation is Relation.BLOCKS:
                    yield author, about

    def forget(self, author: str) -> None:
        """Forget the statements of an author if they are ignored; no effect otherwise."""
        if not self._counts(self._distances.get(author)):
            for about in self._stated.pop(author, {}):
                del self._about[about][author]
                if not self._about[about]:
                    del self._about[about]

    def relation(self, source: str, feed: str) -> Relation | None:
        """The statement of `source` that holds for a feed; None if there is none."""
        stated = self._stated.get(source, {}).get(feed)
        return None if stated is None else stated[0]

    def number(self, source: str, feed: str) -> int:
        """The number of the message by which `source` has stated what holds for a feed; 0 if it has not, or
        if another statement holds here, too.
        """
        stated = self._stated.get(source, {}).get(feed)
        return 0 if stated is None else stated[1]

    def is_following(self, source: str, feed: str) -> bool:
        """Whether `source` follows a feed."""
        return self.relation(source, feed) is Relation.FOLLOWS

    def is_blocked(self, feed: str, by: str | None = None) -> bool:
        """Whether a feed is blocked by another one, by default the origin."""
        return self.relation(self.origin if by is None else by, feed) is Relation.BLOCKS

    def replicated(self) -> Set[str]:
        """The feeds within the greatest hops, the origin included: a current live view."""
        self._update_distances()
        return self._replicated

    def take_changes(self) -> Changes:
        """Feeds added to and removed from the replicated set since the last call; at first, since empty."""
        self._update_distances()
        changed, self._changed = self._changed, set()
        return Changes(frozenset(changed & self._replicated), frozenset(changed - self._replicated))

    def hops(self, origin: str | None = None, max_hops: int | None = None) -> dict[str, int]:
        """The distance of each feed within `max_hops` (by default the graph's own).

        From the origin, or from another feed in the same graph; recomputed if either is given.
        """
        if origin is None and max_hops is None:
            self._update_distances()
            distances = self._distances
        else:
            start = self.origin if origin is None else origin
            distances = self._search(start, self.max_hops if max_hops is None else max_hops)
        return {feed: distance for feed, distance in distances.items() if distance >= 0}

    def _state(self, author: str, about: str, relation: Relation | None, sequence: int) -> None:
        """Let a statement hold, or none."""
        before = self.relation(author, about)
        if relation is not None:
            self._stated[author][about] = relation, sequence
            self._about[about][author] = relation
        elif before is not None:
            del self._stated[author][about], self._about[about][author]
        if before != relation:
            if Relation.BLOCKS in (before, relation) or author == self.origin:
                self._restated.add((author, about))
            if self._counts(self._distances.get(author)):
                self._dirty.add(about)

    def _pass_on(self, author: str, feed: str) -> None:
        """Let an author's statement about a feed hold for and by others, up to one of their own."""
        if feed in self._successors or feed in self._devices or author in self._devices:
            for each in self._onward(feed):
                for device in self._devices.get(author, (author,)):
                    self._inherit(device, each)

    def _onward(self, feed: str) -> list[str]:
        """A feed, and all for which a statement about it may hold: devices and successors, and theirs."""
        found = {feed: None}
        ahead = [feed]
        while ahead:
            each = ahead.pop()
            new = {*self._devices.get(each, ()), *self._successors.get(each, ())} - found.keys()
            found |= dict.fromkeys(new)
            ahead += new
        return [*found]

    def _inherit(self, author: str, feed: str) -> None:
        """Update the statement that holds of an author about a feed, unless it is its own one."""
        if self._stated.get(author, {}).get(feed, (None, 0))[1]:
            return
        relation: Relation | None = None
        devices = self._devices.get(author, frozenset())
        if feed in devices:
            relation = Relation.FOLLOWS if feed != author else None
        else:
            found = self._inherited(author, feed)
            if not found:
                found = [each for device in devices for each in self._inherited(device, feed)]
            relation = min(found, key=_FIRMEST.index, default=None)
        self._state(author, feed, relation, 0)

    def _inherited(self, author: str, feed: str) -> list[Relation]:
        """An author's own statements about a feed, or else about those whose statements hold for it."""
        found: list[Relation] = []
        ahead = [(feed, False)]  # and whether a disputed end lies on the way
        seen = {*ahead}
        while ahead:
            each, is_disputed = ahead.pop()
            relation, sequence = self._stated.get(author, {}).get(each, (None, 0))
            if relation is not None and sequence:
                if relation is not Relation.FOLLOWS or not is_disputed:
                    found.append(relation)
                continue
            before = {(old, is_disputed or old in self._disputed) for old in self._ended.get(each, ())}
            before |= {(device, is_disputed) for device in self._devices.get(each, ())}
            ahead += before - seen
            seen |= before
        return found

    # A distance is that of ssb-friends: the hops, negative if a block or an unfollow has decided.

    def _search(self, start: str, max_hops: int) -> dict[str, int]:
        """All distances, by breadth-first search."""
        distances = {start: 0}
        level = [start]
        for hops in range(max_hops):
            for source in level:
                for feed, (relation, _) in self._stated.get(source, {}).items():
                    found = _distance(hops, relation)
                    if _outweighs(found, distances.get(feed)):
                        distances[feed] = found
            level = [feed for source in level for feed in self._stated.get(source, {})]
            level = [feed for feed in dict.fromkeys(level) if distances[feed] == hops + 1]
        return distances

    def _update_distances(self) -> None:
        """Update the distances of all feeds affected by changed statements.

        Distances follow from those of the sources, which are nearer. So each round over all affected feeds,
        however stale they are, makes those at the next distance right, as in distance-vector routing; and the
        greatest hops bound the rounds.
        """
        while self._dirty:
            dirty, self._dirty = self._dirty, set()
            for feed in dirty:
                before = self._distances.get(feed)
                found = self._of(feed)
                if found == before:
                    continue
                if found is None:
                    del self._distances[feed]
                else:
                    self._distances[feed] = found
                if (found is not None and found >= 0) != (feed in self._replicated):
                    self._replicated ^= {feed}
                    self._changed ^= {feed}
                if self._counts(before) or self._counts(found):
                    self._dirty.update(self._stated.get(feed, ()))

    def _of(self, feed: str) -> int | None:
        """The distance that follows from those of the sources of statements about a feed."""
        if feed == self.origin:
            return 0
        least: int | None = None
        for source, relation in self._about[feed].items():
            hops = self._distances.get(source)
            if hops is not None and self._counts(hops):
                found = _distance(hops, relation)
                if _outweighs(found, least):
                    least = found
        return least

    def _counts(self, distance: int | None) -> bool:
        """Whether statements of a feed at a distance count."""
        return distance is not None and 0 <= distance < self.max_hops


def _relation(content: Mapping[str, Any]) -> Relation:
    if _is_true(content.get("blocking")) or _is_true(content.get("flagged")):
        return Relation.BLOCKS
    return Relation.FOLLOWS if content.get("following") is True else Relation.UNFOLLOWED


def _is_true(value: Any) -> bool:
    """Whether a JSON value is truthy in JavaScript: all objects and arrays are, also empty ones."""
    return isinstance(value, dict | list) or bool(value)


def _distance(hops: int, relation: Relation) -> int:
    """Effect of a statement on a feed, by an author at `hops`."""
    return hops + 1 if relation is Relation.FOLLOWS else relation - hops


def _outweighs(distance: int, other: int | None) -> bool:
    return other is None or (abs(distance), -distance) < (abs(other), -other)
