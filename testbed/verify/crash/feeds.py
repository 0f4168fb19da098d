"""Killed writers of classic feeds.

After a kill the store must contain exactly the acknowledged changes, with or without the one in progress:
whole transactions, equal texts, in order of receipt. The own feed must never be in doubt, as this would block
its user, and its mark must not be below the last acknowledged own message.
"""

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import NamedTuple

from ssb.keys import Identity
from ssb.message import Message
from ssb.store.mark import Mark
from ssb.store.mend import check_chains, check_structure
from ssb.store.own_feed import OwnFeed
from ssb.store.sqlite import SqliteFeeds
from testbed.verify.crash.drill import Drill, Fault

_FEEDS, _LENGTH, _FORKERS, _LOOSE = 5, 120, 12, 60
"""Feeds and their length, forked feeds, and the length of a feed of out-of-order messages."""
_CHECK_EVERY = 40

Opening = Callable[[Path], SqliteFeeds]


class Change(NamedTuple):
    """A change of the store: its kind, and its numbers (feed, and last message)."""

    what: str
    numbers: tuple[int, ...]

    def line(self, state: str) -> bytes:
        """Return it as a line for the pipe."""
        return " ".join([state, self.what, *map(str, self.numbers)]).encode() + b"\n"


@dataclass
class ExpectedStore:
    """Expected contents of a store.

    Attributes:
        log: in order of receipt, a feed and a sequence number each. The own feed is -1, forking ones are -2
            and below.
        forks, loose: numbers of forked feeds, and of messages out of order.
    """

    log: list[tuple[int, int]] = field(default_factory=list)
    forks: set[int] = field(default_factory=set)
    loose: set[int] = field(default_factory=set)

    def tips(self) -> Counter[int]:
        """Number of messages by feed."""
        return Counter(feed for feed, _ in self.log)

    def after(self, change: Change) -> "ExpectedStore":
        """Expected contents after a change."""
        log, forks, loose = list(self.log), set(self.forks), set(self.loose)
        tips = self.tips()
        match change:
            case Change("publish", (sequence,)):
                log.append((-1, sequence))
            case Change("append", ends):
                for feed, end in enumerate(ends):
                    log += [(feed, sequence) for sequence in range(tips[feed] + 1, end + 1)]
            case Change("drop", (feed,)):
                log = [entry for entry in log if entry[0] != feed]
            case Change("fork", (forker,)):
                log.append((-2 - forker, 1))
                forks.add(forker)
            case Change("loose", (number,)):
                loose.add(number)
        return ExpectedStore(log, forks, loose)


class Material:
    """All messages of a drill, from a seed."""

    def __init__(self, seed: int) -> None:
        rng = Random(seed)
        self.writer, *authors = (Identity.from_seed(rng.randbytes(32)) for _ in range(2 + _FEEDS + _FORKERS))
        self.feeds = [_feed(author, _LENGTH, rng) for author in authors[:_FEEDS]]
        self.branches = [(_feed(one, 1, rng)[0], _feed(one, 1, rng)[0]) for one in authors[_FEEDS:-1]]
        self.loose = _feed(authors[-1], _LOOSE, rng)[1::2]  # no two adjacent
        self._own: list[Message] = []

    def own(self, sequence: int) -> Message:
        """Return a message of the writer's own feed, which the store itself signs."""
        while len(self._own) < sequence:
            content, now_ms = own_content(len(self._own) + 1)
            tip = self._own[-1] if self._own else None
            self._own.append(Message.create(self.writer, tip, content, now_ms))
        return self._own[sequence - 1]

    def get(self, feed: int, sequence: int) -> Message:
        """Return a message by its feed, as in `ExpectedStore.log`, and its sequence number."""
        if feed == -1:
            return self.own(sequence)
        return self.branches[-2 - feed][0] if feed < -1 else self.feeds[feed][sequence - 1]


def own_content(sequence: int) -> tuple[dict[str, str], int]:
    """Return content and time, ms, of a message of the own feed."""
    return {"type": "post", "text": f"the {sequence}th of my own"}, 1_600_000_000_000 + sequence


def _feed(author: Identity, length: int, rng: Random) -> list[Message]:
    messages: list[Message] = []
    for number in range(length):
        tip = messages[-1] if messages else None
        text = rng.randbytes(rng.choice((20, 100, 900))).hex()
        messages.append(Message.create(author, tip, {"type": "post", "text": text}, number))
    return messages


class FeedsDrill(Drill):
    """Kills of writers of classic feeds; `opening` opens a store for writing. See Drill."""

    def __init__(self, directory: Path, seed: int, opening: Opening = SqliteFeeds) -> None:
        super().__init__(directory, seed)
        self._opening = opening
        self._material = Material(seed)

    def begin(self) -> None:
        self._held = ExpectedStore()

    def write(self, rng: Random, say: Callable[[bytes], object]) -> None:
        held, mark = self._held, self.path / "mark"
        store = self._opening(self.path / "feeds.db")
        own = OwnFeed(store, self._material.writer, mark, is_new=not mark.exists())
        while True:
            change = _next_change(held, rng)
            say(change.line("begin"))
            _apply(store, own, self._material, held, change)
            say(change.line("done"))
            held = held.after(change)

    def check(self, lines: list[str], *, is_thorough: bool) -> None:
        """See Drill; also determines whether the interrupted change is in the store."""
        begun: Change | None = None
        for line in lines:
            state, what, *numbers = line.split()
            change = Change(what, tuple(map(int, numbers)))
            if state == "done":
                after = self._held.after(change)
                self.counts["changes acknowledged"] += 1
                self.counts["messages acknowledged"] += max(0, len(after.log) - len(self._held.log))
                self._held = after
            begun = change if state == "begin" else None
        self._shown = self._held.tips()[-1]
        if not (self.path / "feeds.db").exists():
            _same("acknowledged changes without a file", self._held, ExpectedStore())
            return
        with SqliteFeeds(self.path / "feeds.db") as store:
            if begun is not None:
                self.counts["in the midst of a change"] += 1
                after = self._held.after(begun)
                if self._matches(store, after):
                    self.counts["of these, stored"] += 1
                    self._held = after
            self._compare(store)
            self._check_own(store)
            is_due = self.counts["kills"] % _CHECK_EVERY == 1
            (check_chains if is_thorough or is_due else check_structure)(store)

    def _check_own(self, store: SqliteFeeds) -> None:
        """Check the mark left by the kill, and its effect."""
        seen = Mark(self.path / "mark", store.lock_path).read()
        number = 0 if seen is None else seen.number
        if number < self._shown:
            raise Fault(f"the mark: {number} for {self._shown} messages that may have been shown")
        if seen is not None:
            own = OwnFeed(store, self._material.writer, self.path / "mark")
            _same("doubts of the own feed", own.doubt, "")

    def _matches(self, store: SqliteFeeds, held: ExpectedStore) -> bool:
        return (
            [stored.text for stored in store.log(0, sys.maxsize >> 1)]
            == [self._material.get(*entry).encoded for entry in held.log]
            and len(store.forks()) == len(held.forks)
            and self._loose(store) == held.loose
        )

    def _compare(self, store: SqliteFeeds) -> None:
        material, held = self._material, self._held
        texts = [material.get(*entry).encoded for entry in held.log]
        _same("the log", [stored.text for stored in store.log(0, sys.maxsize >> 1)], texts)
        tips = {material.get(feed, 1).author: count for feed, count in held.tips().items()}
        _same("the tips", dict(store.tips()), tips)
        for feed, count in held.tips().items():
            texts = [material.get(feed, sequence).encoded for sequence in range(1, count + 1)]
            found = store.after(material.get(feed, 1).author, 0, count + 1)
            _same("a feed", [stored.text for stored in found], texts)
        proofs = {material.branches[forker][0].author: material.branches[forker] for forker in held.forks}
        _same("the forks", dict(store.forks()), proofs)
        _same("messages out of order", self._loose(store), held.loose)

    def _loose(self, store: SqliteFeeds) -> set[int]:
        return {
            number for number, message in enumerate(self._material.loose) if store.get(message.id) == message
        }


def _same(what: str, found: object, expected: object) -> None:
    if found != expected:
        sizes = [len(one) if isinstance(one, list | dict | set) else one for one in (found, expected)]
        raise Fault(f"{what}: found {sizes[0]}, expected {sizes[1]}, or not the same ones")


def _next_change(held: ExpectedStore, rng: Random) -> Change:
    tips = held.tips()
    what = rng.choices(["publish", "append", "fork", "loose"], [6, 6, 0.4, 0.4])[0]
    if what == "publish":
        return Change("publish", (tips[-1] + 1,))
    forkers = sorted(set(range(_FORKERS)) - held.forks)
    if what == "fork" and forkers:
        return Change("fork", (rng.choice(forkers),))
    loose = sorted(set(range(_LOOSE // 2)) - held.loose)
    if what == "loose" and loose:
        return Change("loose", (rng.choice(loose),))
    full = [feed for feed in range(_FEEDS) if tips[feed] == _LENGTH]
    if full:
        return Change("drop", (full[0],))
    most = rng.choice((1, 5, 60))
    return Change("append", tuple(min(_LENGTH, tips[feed] + rng.randint(0, most)) for feed in range(_FEEDS)))


def _apply(store: SqliteFeeds, own: OwnFeed, material: Material, held: ExpectedStore, change: Change) -> None:
    tips = held.tips()
    match change:
        case Change("publish", (sequence,)):
            own.publish(*own_content(sequence))
        case Change("append", ends):
            ranges = [(feed, range(tips[feed] + 1, end + 1)) for feed, end in enumerate(ends)]
            messages = [material.get(feed, sequence) for feed, places in ranges for sequence in places]
            store.append(messages, 1.0)
        case Change("drop", (feed,)):
            store.drop(material.feeds[feed][0].author)
        case Change("fork", (forker,)):
            store.append(material.branches[forker], 1.0)
        case Change("loose", (number,)):
            store.add_out_of_order(material.loose[number], 1.0)
