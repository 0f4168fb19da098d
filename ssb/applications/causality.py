"""Causal order: a message is older than each message that contains its hash.

Nobody can write a hash before the message is there. So the hash of the author's previous message, and those
in a content (`branch`, `root`, what a vote or a text names), say which messages are older, whatever time they
claim; and what is older than these is older, too (draft of Tarr et al., section 6.4). A private message shows
its previous one alone. Nothing is stored for all pairs: a query follows the hashes.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Any

from ssb.keys import named_messages
from ssb.message import Message


def causal_sort(older: Mapping[str, Sequence[str]], key: Callable[[str], Any]) -> list[str]:
    """Return ids, each behind those that are `older`; ids that nothing orders stand by their keys.

    An id in a circle is left out, and so is all that comes behind it.
    """
    newer: defaultdict[str, list[str]] = defaultdict(list)
    for id_, before in older.items():
        for each in before:
            newer[each].append(id_)
    waits = {id_: len(before) for id_, before in older.items()}
    ready = [(key(id_), id_) for id_, count in waits.items() if not count]
    heapify(ready)
    found: list[str] = []
    while ready:
        found.append(heappop(ready)[-1])
        for each in newer[found[-1]]:
            waits[each] -= 1
            if not waits[each]:
                heappush(ready, (key(each), each))
    return found


class CausalOrder:
    """The causal order of messages, in any order of arrival.

    Args:
        messages: the messages, each once.
    """

    def __init__(self, messages: Iterable[Message]) -> None:
        self._here = {message.id: message for message in messages}
        self._older = {
            id_: [each for each in named_messages(message.text) if each in self._here]
            for id_, message in self._here.items()
        }
        self._newer: defaultdict[str, list[str]] = defaultdict(list)
        for id_, older in self._older.items():
            for each in older:
                self._newer[each].append(id_)

    def __contains__(self, id_: object) -> bool:
        return id_ in self._here

    def order(self) -> list[str]:
        """Return all messages, each behind those that are older.

        What nothing orders stands by the time that it claims, then by author and number: so peers with the
        same messages have the same order.
        """
        return causal_sort(self._older, self._key)

    def before(self, id_: str) -> set[str]:
        """Return the messages that are surely older than one of those here: its causal past."""
        return self._reached(id_, self._older)

    def after(self, id_: str) -> set[str]:
        """Return the messages that are surely newer than one of those here."""
        return self._reached(id_, self._newer)

    def _reached(self, id_: str, steps: dict[str, list[str]]) -> set[str]:
        found: set[str] = set()
        ahead = [id_]
        while ahead:
            new = {*steps.get(ahead.pop(), ())} - found
            found |= new
            ahead += new
        return found

    def _key(self, id_: str) -> tuple[float, str, int]:
        message = self._here[id_]
        return message.timestamp, message.author, message.sequence
