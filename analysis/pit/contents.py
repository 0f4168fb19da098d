"""What a node's PIT holds at each time: the records of its entries, as analysis/pit/model.py derives them."""

from collections.abc import Iterable, Iterator
from operator import add
from typing import NamedTuple, TypeAlias

from analysis.pit.classic import ClassicEntry
from analysis.pit.entry import Entry, Message, State
from analysis.pit.feed import MOST_CREDIT, FeedEntry
from analysis.pit.model import PitModel


class Interest(NamedTuple):
    """A pending Interest: interfaces that asked, and that were asked; its expiry, ns."""

    asked_by: tuple[str, ...]
    asked_of: tuple[str, ...]
    expiry: int


class Granted(NamedTuple):
    """A downstream's range: next and last item, items left, items requested again, expiry in ns, and whether
    it was offered a source.
    """

    next: int
    limit: int
    credit: int
    again: int
    expiry: int
    has_source: bool


class Requested(NamedTuple):
    """An upstream range: next and last item, missing items before, expiry in ns, and whether it is neither
    spent nor expired.
    """

    head: int
    limit: int
    missing: int
    expiry: int
    is_active: bool


Row: TypeAlias = Interest | Granted | Requested
Key: TypeAlias = tuple[str, str, str]
"""Kind ("interest", "downstream", "upstream"), name of the Interest or the feed, and interface of a range. An
Interest's name is followed by its flags."""


class Change(NamedTuple):
    """A row of the table from `time` (ns) on; None: there is none any more."""

    time: int
    key: Key
    row: Row | None


class Contents:
    """The contents of a PIT over time.

    Pass the packets of a node, in order of time, with its restarts and broken links; each call returns the
    changes since the last one. Entries without any record are of local applications only, and left out.
    """

    def __init__(self) -> None:
        self._model = PitModel(self._note)
        self._rows: dict[Entry, dict[Key, Row]] = {}
        self._changes: list[Change] = []
        self._state = State(0, 0, 0, 0)

    def receive(self, messages: Iterable[Message], end: int) -> list[Change]:
        """Process packets, and the time until `end` (ns)."""
        for message in messages:
            self._model.receive(message)
        self._model.advance(end)
        changes, self._changes = self._changes, []
        return changes

    def states(self) -> Iterator[tuple[int, State]]:
        """Yield each time (ns) of a change since the last call, and the state of the table after it."""
        for step in self._model.take_steps():
            self._state = State(*map(add, self._state, step[1:5]))
            yield step.time, self._state

    def _note(self, time: int, entry: Entry) -> None:
        before = self._rows.pop(entry, {})
        rows = dict(_rows(entry)) if entry.is_open else {}
        self._changes += [Change(time, key, None) for key in before if key not in rows]
        for key, row in rows.items():
            if before.get(key) != row:
                self._changes.append(Change(time, key, row))
        if rows:
            self._rows[entry] = rows


def _rows(entry: Entry) -> Iterator[tuple[Key, Row]]:
    """Yield the rows of an open entry."""
    if isinstance(entry, ClassicEntry):
        if entry.in_records or entry.out_records:
            name, can_be_prefix, must_be_fresh = entry.key
            flags = " CanBePrefix" * can_be_prefix + " MustBeFresh" * must_be_fresh
            asked = Interest(tuple(entry.in_records), tuple(entry.out_records), entry.expiry)
            yield ("interest", f"{name}{flags}", ""), asked
    elif isinstance(entry, FeedEntry):
        for interface, own in entry.ranges.items():
            left = min(own.limit - own.next + 1, MOST_CREDIT)
            granted = Granted(own.next, own.limit, left, len(own.again), own.expiry, own.has_source)
            yield ("downstream", entry.name, interface), granted
        for interface, up in entry.requested.items():
            asked_up = Requested(up.head, up.limit, len(up.missing), up.expiry, up.active)
            yield ("upstream", entry.name, interface), asked_up
