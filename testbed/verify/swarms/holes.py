"""Logs with holes in a swarm: the contents beside the logs, the peers' stores of them, and what must hold.

A model says from the messages that a peer has which contents it may hold. Some messages lie: they name the
content of another's message, or a wrong size; and some ask to delete what another has written.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from random import Random
from typing import Any, NamedTuple

from ssb.canonical import Value
from ssb.detached import Reference, detach, reference_of, request
from ssb.message import Message
from ssb.replication.blobs import Blobs
from ssb.store.blobs import MemoryBlobs
from ssb.store.contents import Contents
from ssb.store.feeds import FeedStore, read_log
from testbed.verify.kit.outcome import Violation
from testbed.verify.swarms.members import FalseBlobs
from testbed.verify.swarms.story import LONGEST, POOL, Swarm, author


class _Content(NamedTuple):
    """A content that an author has written, and the description of it that is true."""

    author: str
    reference: Reference
    value: dict[str, Value]
    blob: bytes


@cache
def _content(feed: int, number: int) -> _Content:
    """Return the content that a feed of the pool has beside the message of a number."""
    rng = Random(f"swarm {feed} content {number}")
    value: dict[str, Value] = {"type": "post", "text": "word " * rng.choice([1, 20, 400])}
    named, blob = detach(author(feed).ref, value, rng.randbytes(16))
    return _Content(author(feed).ref, Reference("post", len(blob), str(named["hash"])), value, blob)


def _names(feed: int, number: int) -> tuple[Reference, _Content | None]:
    """Return what a message says of its content; and that, unless it is another's."""
    own = _content(feed, number)
    match Random(f"swarm {feed} names {number}").randrange(10):
        case 0 if number > 1:
            own = _content(feed, number - 1)  # once more
        case 1:
            return _content((feed + 1) % POOL, number).reference, None
        case 2:
            return own.reference._replace(size=own.reference.size + 1), own
    return own.reference, own


def holed_logs(swarm: Swarm) -> dict[int, tuple[Message, ...]]:
    """Return the messages of the feeds whose contents stand beside them."""
    logs: dict[int, tuple[Message, ...]] = {}
    for feed in sorted(swarm.holes):
        requests = {each.number: each for each in swarm.holes[feed]}
        made: list[Message] = []
        for number in range(1, LONGEST + 1):
            content: Mapping[str, Any]
            if number in requests:
                _, of, named = requests[number]
                log = made if of == feed else logs.get(of, ())
                content = request([log[each - 1].id for each in named if each <= len(log)])
            else:
                kind, size, blob = _names(feed, number)[0]
                content = {"type": "detached", "of": kind, "size": size, "hash": blob}
            made.append(Message.create(author(feed), made[-1] if made else None, content, number))
        logs[feed] = tuple(made)
    return logs


class _WatchedBlobs(MemoryBlobs):
    """The blobs of an honest peer; `changes` counts those that have come or gone."""

    def __init__(self) -> None:
        super().__init__()
        self.changes = 0

    @property
    def counted(self) -> int:
        """Bytes of all blobs, incomplete ones included, counted anew."""
        return sum(map(len, (*self._blobs.values(), *self._places.values())))

    def remove(self, blob: str) -> bool:
        self.changes += 1
        return super().remove(blob)

    def _keep(self, place: int, digest: bytes) -> None:
        self.changes += 1
        super()._keep(place, digest)


class _Named(NamedTuple):
    """A content that a message names, maybe falsely."""

    message: Message
    blob: str
    is_dropped: bool
    is_true: bool


class _Place:
    """What of contents an honest peer keeps beyond a restart, and what was seen of it."""

    def __init__(self, feeds: FeedStore, *, obeys: bool) -> None:
        self.feeds = feeds
        self.obeys = obeys
        self.store = _WatchedBlobs()
        self.contents = Contents(self.store)
        self.dropped: list[str] = []
        self.deleted: list[str] = []
        self.held: set[str] = set()
        self.seen: object = None
        self.asked: Counter[str] = Counter()  # blobs that the user has asked for


class Holes:
    """The contents beside the logs of a story.

    Args:
        swarm: the story.
        feeds: the store of each peer.
    """

    def __init__(self, swarm: Swarm, feeds: Mapping[str, FeedStore]) -> None:
        self.logs = holed_logs(swarm)
        self._references = {
            feed: [(each, found) for each in messages if (found := reference_of(each)) is not None]
            for feed, messages in self.logs.items()
        }
        self._swarm = swarm
        self._places = {name: _Place(feeds[name], obeys=name not in swarm.keepers) for name in swarm.honest}
        written = (_content(feed, number) for feed in range(POOL) for number in range(1, LONGEST + 1))
        self._written = {each.reference.blob: each for each in written} if swarm.holes else {}

    def blobs(self, name: str) -> Blobs | None:
        """Return the blobs of a peer that starts, or starts anew; None if the story has no holes."""
        if not self._swarm.holes:
            return None
        if name in self._swarm.hostile:
            sizes = {blob: each.reference.size for blob, each in self._written.items()}
            return Blobs(FalseBlobs(sizes, self._swarm.hostile[name], Random(f"{self._swarm.seed} {name}")))
        place = self._places[name]
        before, place.store = place.store, _WatchedBlobs()
        for blob in before.blobs():
            place.store.add(before.read(blob))
        place.contents = Contents(place.store, obeys=place.obeys, on_deletion=place.deleted.append)
        messages = (stored.message for stored in read_log(place.feeds, 0))
        place.contents.restore(messages, place.dropped, place.deleted)
        blobs = Blobs(place.store, contents=place.contents)
        blobs.update_contents()
        return blobs

    def write(self, name: str, feed: int, number: int, blobs: Blobs) -> None:
        """Let an author store the content of the message that it is about to write."""
        _, content = _names(feed, number)
        if content is not None and reference_of(self.logs[feed][number - 1]) is not None:
            self._places[name].store.add(content.blob)
            blobs.announce(content.reference.blob)

    def drop(self, name: str, feed: int, number: int) -> bool:
        """Let a user delete the content of a message, if that is here; return whether it is."""
        place, message = self._places[name], self.logs[feed][number - 1]
        is_here = place.feeds.tips().get(message.author, 0) >= number and reference_of(message) is not None
        if is_here:
            place.dropped.append(message.id)
            place.contents.drop(message.id)
        return is_here

    def fetch(self, name: str, feed: int, number: int) -> str:
        """Return the blob of a content, which a user asks for."""
        blob = _content(feed, number).reference.blob
        self._places[name].asked[blob] += 1
        return blob

    # The model

    def _named(self, name: str) -> list[_Named]:
        """Return the contents that the messages at a peer name; their author asks to delete some of them, and
        the peer's user has deleted others."""
        place = self._places[name]
        tips, dropped, here = place.feeds.tips(), set(place.dropped), list[tuple[Message, Reference]]()
        for feed, messages in self.logs.items():
            tip = tips.get(messages[0].author, 0)
            here += [each for each in self._references[feed] if each[0].sequence <= tip]
            for asked in self._swarm.holes[feed]:
                if asked.of == feed and asked.number <= tip and place.obeys:
                    dropped |= {messages[each - 1].id for each in asked.named}
        return [
            _Named(message, reference.blob, message.id in dropped, self._is_true(message, reference))
            for message, reference in here
        ]

    def _is_true(self, message: Message, reference: Reference) -> bool:
        content = self._written[reference.blob]
        return (message.author, reference) == content[:2]

    # Invariants

    def check(self, name: str) -> None:
        """Check the contents of an honest peer, if they have changed."""
        place = self._places[name]
        if not self._swarm.holes or place.seen == (seen := self._state(place)):
            return
        place.seen = seen
        if place.store.used != place.store.counted:
            raise Violation("bytes", name, f"counts {place.store.used} of {place.store.counted} bytes")
        named, here = self._named(name), set(place.store.blobs())
        dead = _dead(named)
        if not here <= self._written.keys():
            raise Violation("authentic", name, "holds a blob that nobody has written")
        for blob in here & dead:
            raise Violation("deleted", name, f"holds {blob[:6]}, whose messages are all to have no content")
        for blob in place.held - here - dead:
            raise Violation("kept", name, f"has lost {blob[:6]}, which nobody may delete")
        place.held = here
        for each in named:
            is_shown = each.blob in here and each.is_true and not each.is_dropped
            if place.contents.content(each.message.id) != (
                self._written[each.blob].value if is_shown else None
            ):
                said = "lacks its content" if is_shown else "has a content that is not its own"
                raise Violation("shown", name, f"{each.message.author[:5]} {each.message.sequence} {said}")
        self._check_deleted(name, named)

    def _state(self, place: _Place) -> object:
        store = place.store
        return place.feeds.end, len(place.dropped), store, store.changes, store.used

    def _check_deleted(self, name: str, named: Sequence[_Named]) -> None:
        """Check that a peer fetches no content again that it has deleted, unless its user asks for that."""
        place = self._places[name]
        blobs = {each.message.id: each.blob for each in named if each.is_true}
        allowed = Counter(blobs.values()) + place.asked
        for blob, times in Counter(blobs[id_] for id_ in place.deleted).items():
            if times > allowed[blob]:
                raise Violation("fetched again", name, f"has deleted {blob[:6]} {times} times")

    def lacking(self, calls: Iterable[tuple[str, str]]) -> Violation | None:
        """Return a peer without a content that an honest peer three hops far has."""
        if not self._swarm.holes:
            return None
        pairs = [pair for pair in calls if self._places.keys() >= {*pair}]
        named = {name: self._named(name) for name in self._places}
        dead = {name: _dead(each) for name, each in named.items()}
        for name, place in self._places.items():
            for message, blob, is_dropped, is_true in named[name]:
                if is_dropped or not is_true or blob in place.held:
                    continue
                near = {name}
                for _ in range(3):
                    beside = {end for pair in pairs if not near.isdisjoint(pair) for end in pair}
                    near |= {each for each in beside if blob not in dead[each]}
                if any(blob in self._places[each].held for each in near):
                    which = f"{message.author[:5]} {message.sequence}"
                    return Violation("fetched", name, f"lacks the content of {which}, which others have")
        return None

    def count(self, coverage: Counter[str]) -> None:
        """Count what the peers have in the end."""
        for name, place in self._places.items() if self._swarm.holes else ():
            coverage["content"] += len(place.held)
            coverage["deleted"] += len(place.deleted)
            coverage["false content"] += sum(not each.is_true for each in self._named(name))


def _dead(named: Sequence[_Named]) -> set[str]:
    """Return the blobs that are the contents of messages all of which are dropped."""
    true = [each for each in named if each.is_true]
    return {each.blob for each in true if each.is_dropped} - {
        each.blob for each in true if not each.is_dropped
    }
