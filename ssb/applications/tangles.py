"""Tangles: messages of several logs in causal order.

A message of a tangle names its `root`, and in `branch` the newest messages of the tangle that its author knew
(Tarr et al., "Secure Scuttlebutt", ACM ICN 2019, section 3.3, footnote 3). It comes after these, and after
what its author has written in the tangle before; among messages that nothing orders, by the time that they
claim, then by author. So a false time misleads only about what the author did not answer, and peers with the
same messages show the same order, however they came. A message whose `branch` has not come yet stands as if
it named only what is here, and moves when the rest arrives.
"""

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple

from ssb.applications.causality import causal_sort
from ssb.keys import is_message
from ssb.message import Message

MOST_FETCHED: Final = 100
"""Most messages that a reader requests to complete tangles: an answer can name any number of others."""

_NUMBER: Final = attrgetter("sequence")
_Key = tuple[bool, float, str, int, str]


class Insertion(NamedTuple):
    """What a new message changed: its place, and how many messages changed theirs besides moving on."""

    place: int
    reordered: int


def branches(content: dict[str, Any]) -> list[str]:
    """Return the references in a content's `branch`, which is one or a list."""
    named = content.get("branch")
    return [each for each in (named if isinstance(named, list) else [named]) if is_message(each)]


class Tangle:
    """The messages of one root in causal order, kept up to date incrementally.

    Args:
        root: reference of the message that begins it.

    Attributes:
        order: the messages here.
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self.order: list[Message] = []
        self._here: dict[str, Message] = {}
        self._by_author: defaultdict[str, list[Message]] = defaultdict(list)
        self._named: set[str] = set()  # by those that are here
        self._is_circular = False  # only fork and claim of an author can make it so

    def add(self, message: Message) -> Insertion | None:
        """Add a message; None if it is here, or not of this tangle."""
        if message.id in self._here or not self._belongs(message):
            return None
        own = self._by_author[message.author]
        is_awaited = message.id in self._named or (own and own[-1].sequence > message.sequence)
        self._here[message.id] = message
        insort(own, message, key=_NUMBER)
        self._named.update(self._branches(message))
        if is_awaited or self._is_circular:
            return self._sort_again(message)
        place = self._place(message)
        self.order.insert(place, message)
        return Insertion(place, 0)

    def heads(self) -> list[str]:
        """Return the messages that no other comes after: what an answer written now names as its `branch`."""
        found: list[str] = []
        for own in self._by_author.values():
            later = [*(each.sequence for each in own[1:]), None]
            found += [
                each.id for each, next_ in zip(own, later, strict=True) if next_ in (None, each.sequence)
            ]
        return sorted(set(found) - self._named)

    def missing(self) -> list[str]:
        """Return the messages that the tangle names and that are not in it: its root, and branches."""
        return sorted({self.root, *self._named} - self._here.keys())

    def computed(self) -> list[Message]:
        """Return the messages in order, computed anew: add() keeps `order` equal to it."""
        found = self._ordered()
        return [*found.values(), *self._circle(found)]

    def _ordered(self) -> dict[str, Message]:
        """Return the messages in order, but for those in a circle and what comes after it."""
        parents = {id_: [each.id for each in self._parents(message)] for id_, message in self._here.items()}
        return {id_: self._here[id_] for id_ in causal_sort(parents, lambda id_: self._key(self._here[id_]))}

    def _circle(self, ordered: dict[str, Message]) -> list[Message]:
        return sorted((each for id_, each in self._here.items() if id_ not in ordered), key=self._key)

    def _belongs(self, message: Message) -> bool:
        content = message.content
        return message.id == self.root or (isinstance(content, dict) and content.get("root") == self.root)

    def _key(self, message: Message) -> _Key:
        is_later = message.id != self.root
        return is_later, message.timestamp, message.author, message.sequence, message.id

    def _branches(self, message: Message) -> list[str]:
        if message.id == self.root or not isinstance(message.content, dict):
            return []  # the root may be an answer in another tangle
        return [each for each in branches(message.content) if each != message.id]

    def _parents(self, message: Message) -> list[Message]:
        """Return the messages here that a message comes after, each once."""
        found = {id_: self._here[id_] for id_ in self._branches(message) if id_ in self._here}
        own = self._by_author[message.author]
        place = bisect_left(own, message.sequence, key=_NUMBER)
        if place:
            found[own[place - 1].id] = own[place - 1]
        return [*found.values()]

    def _place(self, message: Message) -> int:
        """Return the place of a message that none here comes after: the first one behind its parents, and
        before a message with a greater key."""
        parents = {each.id for each in self._parents(message)}
        places = range(len(self.order))
        last = next((place for place in reversed(places) if self.order[place].id in parents), -1)
        key = self._key(message)
        return next((at for at in places[last + 1 :] if key < self._key(self.order[at])), len(self.order))

    def _sort_again(self, message: Message) -> Insertion:
        before = self.order
        found = self._ordered()
        circle = self._circle(found)
        self._is_circular = bool(circle)
        self.order = [*found.values(), *circle]
        place = self.order.index(message)
        others = [each for each in self.order if each is not message]
        return Insertion(place, sum(one is not other for one, other in zip(before, others, strict=True)))


class Threads:
    """The tangles of posts that have answers here, computed from messages in any order of arrival.

    Attributes:
        tangles: by their roots, which need not be here.
    """

    def __init__(self) -> None:
        self.tangles: dict[str, Tangle] = {}
        self._unanswered: dict[str, Message] = {}

    def add(self, message: Message) -> None:
        """Add a message; no effect if it is here."""
        root = message.content.get("root") if isinstance(message.content, dict) else None
        if is_message(root):
            if root not in self.tangles:
                self.tangles[root] = Tangle(root)
                if root in self._unanswered:
                    self.tangles[root].add(self._unanswered.pop(root))
            self.tangles[root].add(message)
        elif message.id in self.tangles:
            self.tangles[message.id].add(message)
        else:
            self._unanswered[message.id] = message


class Completion:
    """Fetches the messages that tangles name and lack, and those that these name in turn.

    A message of another tangle is not added, and the messages that it names are not fetched.

    Args:
        tangles: those to complete, the most important first.
        get: returns a message by its id; None if it is not here (yet).
        most: messages to ask for.
    """

    def __init__(
        self, tangles: Sequence[Tangle], get: Callable[[str], Message | None], most: int = MOST_FETCHED
    ) -> None:
        self._tangles = tangles
        self._get = get
        self._left = most
        self._asked: set[str] = set()
        self._missing: dict[str, None] = {}

    def proceed(self) -> list[str]:
        """Ask once for each message that is missing; return the ids of those that are not here."""
        due = [*self._missing, *self._new()]
        while due:
            for id_ in due:
                self._ask(id_)
            due = self._new()
        return [*self._missing]

    def _ask(self, id_: str) -> None:
        if id_ not in self._asked:
            self._asked.add(id_)
            self._left -= 1
        self._missing[id_] = None
        if (message := self._get(id_)) is not None:
            del self._missing[id_]
            for tangle in self._tangles:
                tangle.add(message)

    def _new(self) -> list[str]:
        """Return ids that nobody was asked for, within the bound."""
        named = dict.fromkeys(id_ for tangle in self._tangles for id_ in tangle.missing())
        return [id_ for id_ in named if id_ not in self._asked][: self._left]
