"""SVS-PS, version 3 (StateVectorSync's PubSubSpec, 2026-07-24), and the layering `sync-ps`.

All nodes that publish or follow are the group `/ssb/32=sync-ps`. Its vector names nodes, not feeds: a node
numbers all that it publishes, of whatever feed, and its mapping has the name behind each number. A Sync
Interest that announces an item brings its entry of the mapping. Who misses entries asks the node:

    Interest  <node>/<group>/t=<bootstrap time>/MAPPING/seq=<low>/seq=<high>
    content   MappingData (205): Name of the node; MappingEntry (206): SeqNo (204), Name of the item

Items are fetched by their own names, as in other layerings. The specification puts each into a packet with a
name of the node's, since its names need no routes; ours have routes, and caches have each item once. And a
member asks for all names that it misses, where the specification has only those with subscriptions ask.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

from base.timers import earliest
from base.units import MS, SECOND
from forwarder.wire.feed import split_item
from forwarder.wire.name import (
    GENERIC,
    NAME,
    SEQUENCE,
    TIMESTAMP,
    component,
    components,
    from_uri,
    prefix_ends,
)
from forwarder.wire.packet import SENT_HOP_LIMIT, Data, Interest, make_data, make_interest
from forwarder.wire.tlv import MalformedPacket, element, elements, nni, read_nni
from ssb_over_ndn.naming import PUBSUB_ALL, is_log_name
from ssb_over_ndn.sync.state_vector import Key, Member, Vector

NODES: Final = from_uri("/ssb/nodes")
"""The prefix of the names of nodes."""

MAPPING_DATA: Final = 205
MAPPING_ENTRY: Final = 206
SEQ_NO: Final = 204

_MAPPING = component(GENERIC, b"MAPPING")
_FRESHNESS_MS = 1000
_LARGEST_ANSWER = 8000
_MOST_NODES = 4096
_MOST_FEEDS = 65_536
_MOST_QUESTIONS = 8  # under way
_MOST_BEYOND = 4096  # names of a node after the first that is missing
_LONGEST_PAUSE = 60 * SECOND


def node_name(node: str) -> bytes:
    """Return the name of a node: /ssb/nodes/<node>."""
    return NODES + component(GENERIC, node.encode())


def encode_mapping(node: bytes, entries: Iterable[tuple[int, bytes]]) -> bytes:
    """Encode numbers of a node and the names behind them."""
    inner = (
        element(MAPPING_ENTRY, element(SEQ_NO, nni(number)) + element(NAME, name)) for number, name in entries
    )
    return element(MAPPING_DATA, element(NAME, node) + b"".join(inner))


def decode_mapping(content: bytes) -> tuple[bytes, dict[int, bytes]] | None:
    """Decode the MappingData among the elements of a content: the node, and names by number; None without.

    Raises MalformedPacket.
    """
    for kind, start, end in elements(content, 0, len(content)):
        if kind == MAPPING_DATA:
            fields = [*elements(content, start, end)]
            if not fields or fields[0][0] != NAME:
                raise MalformedPacket("MappingData begins with a Name")
            _, first, last = fields[0]
            entries = (content[at:to] for kind, at, to in fields if kind == MAPPING_ENTRY)
            return content[first:last], dict(map(_decode_entry, entries))
    return None


def _decode_entry(entry: bytes) -> tuple[int, bytes]:
    fields = list(islice(elements(entry, 0, len(entry)), 2))  # more may follow
    if [kind for kind, _, _ in fields] != [SEQ_NO, NAME]:
        raise MalformedPacket("a MappingEntry begins with SeqNo and Name")
    (_, at, to), (_, first, last) = fields
    prefix_ends(entry[first:last])
    return read_nni(entry[at:to]), entry[first:last]


class _Source:
    """What is known of the numbers of a node.

    Attributes:
        done: the names of all numbers up to this one are known.
        beyond: later ones with known names.
        tries: questions in a row without an answer.
        rests_until: the node is not asked before, ns.
    """

    def __init__(self) -> None:
        self.done = 0
        self.beyond: set[int] = set()
        self.tries = 0
        self.rests_until = 0

    def missing(self, newest: int, most: int) -> Iterator[tuple[int, int]]:
        """Yield the first and last of numbers up to the newest whose names are not known, at most so many."""
        at, newest = self.done + 1, min(newest, self.done + _MOST_BEYOND)
        while at <= newest:
            high = at
            while high < min(newest, at + most - 1) and high + 1 not in self.beyond:
                high += 1
            if at not in self.beyond:
                yield at, high
            at = high + 1

    def knows(self, low: int, high: int) -> bool:
        """Return whether the names of all these numbers are known."""
        return all(number in self.beyond for number in range(max(low, self.done + 1), high + 1))


class _Question(NamedTuple):
    """A question that waits for an answer.

    Attributes:
        key: the node that is asked.
        low, high: the first and the last number.
        tries: how many before it had no answer.
        sent: when, ns.
    """

    key: Key
    low: int
    high: int
    tries: int
    sent: int


class PubSubMember(Member):
    """A member of the group; see Member.

    Args:
        node: the node's name.
        mapping_entries: most names that one question asks for.
        question_ms: lifetime of questions. A node that does not answer rests, up to a minute.
        more: see Member.

    Attributes:
        newest: feed's name -> its newest known item.
        changed: the feeds with newer items than at the last look.
    """

    def __init__(self, *, node: str, mapping_entries: int, question_ms: int, **more: Any) -> None:
        super().__init__(PUBSUB_ALL, **more)
        self.newest: dict[bytes, int] = {}
        self.changed: dict[bytes, None] = {}
        self._own = node_name(node)
        self._bootstrap = 0
        self._names: list[bytes] = []  # of the node's items, in the order of their numbers
        self._sources: dict[Key, _Source] = {}
        self._questions: dict[bytes, _Question] = {}  # by their names
        self._rest_ends: int | None = None  # the first of a node with missing names
        self._most_entries = mapping_entries
        self._question_ms = question_ms
        self._content = b""

    def accepts(self, vector: Vector) -> bool:
        """See Member: names are those of nodes."""
        new = vector.keys() - self.vector.keys()
        return len(self.vector) + len(new) <= _MOST_NODES and all(_is_node(name) for name, _ in new)

    def publish(self, feed: bytes, seq: int, item: Data, now: int) -> None:
        """See GroupMember."""
        if not self._names:
            self._bootstrap = now // SECOND
        self._names.append(item.name)
        number = len(self._names)
        entry = encode_mapping(self._own, [(number, item.name)])
        self.update(self._own, self._bootstrap, number, now, entry)

    def on_content(self, content: bytes) -> None:
        self._content = content

    def on_interest(self, interest: Interest, now: int) -> None:
        """See Member; also answer questions for the node's names."""
        if interest.name.startswith(self._own + PUBSUB_ALL):
            self._answer(interest.name)
            return
        self._content = b""
        super().on_interest(interest, now)
        try:
            mapping = decode_mapping(self._content)
        except MalformedPacket:
            mapping = None
        if mapping is not None:
            node, names = mapping
            starts = [bootstrap for name, bootstrap in self.vector if name == node]
            if starts and node != self._own:
                self._learn((node, max(starts)), names)
        self._ask(now)

    def on_data(self, data: Data, now: int) -> None:
        """Receive names; other packets are ignored."""
        question = self._questions.get(data.name)
        if question is None:
            return
        try:
            mapping = decode_mapping(data.content)
        except MalformedPacket:
            return
        if mapping is not None and mapping[0] == question.key[0] and self._learn(question.key, mapping[1]):
            del self._questions[data.name]
            source = self._sources[question.key]
            source.tries = source.rests_until = 0
            self._ask(now)

    def on_nack(self, interest: Interest, now: int) -> None:
        """See GroupMember: a question is repeated in time."""

    def next_deadline(self) -> int | None:
        due = super().next_deadline()
        ends = (each.sent + self._question_ms * MS for each in self._questions.values())
        return due if due is None else earliest(due, self._rest_ends, *ends)

    def wake(self, now: int) -> None:
        """See Member; also ask again."""
        super().wake(now)
        if super().next_deadline() is not None:
            self._ask(now)

    def stop(self) -> None:
        super().stop()
        self._questions.clear()
        self._rest_ends = None

    def ends(self) -> tuple[int, int]:
        """See GroupMember: the feeds, and the bytes of these, of the vector, and of names."""
        size = self.size() + sum(map(len, self._names)) + sum(len(feed) + 8 for feed in self.newest)
        size += sum(3 * 8 + 8 * len(source.beyond) for source in self._sources.values())
        return len(self.newest), size + sum(len(name) + 4 * 8 for name in self._questions)

    def _learn(self, key: Key, names: Mapping[int, bytes]) -> bool:
        """Take in names of numbers that the vector has; return whether one is new."""
        source = self._sources.setdefault(key, _Source())
        before = len(source.beyond)
        for number, name in names.items():
            if not source.done < number <= min(self.vector.get(key, 0), source.done + _MOST_BEYOND):
                continue
            source.beyond.add(number)
            feed, seq = split_item(name) or (b"", 0)
            has_room = feed in self.newest or len(self.newest) < _MOST_FEEDS
            if seq > self.newest.get(feed, 0) and has_room and is_log_name(feed):
                self.newest[feed] = seq
                self.changed[feed] = None
        is_new = len(source.beyond) > before
        while source.done + 1 in source.beyond:
            source.done += 1
            source.beyond.remove(source.done)
        return is_new

    def _ask(self, now: int) -> None:
        """Ask for names that are missing, a few questions at a time; nodes take turns."""
        self._end_questions(now)
        self._rest_ends = None
        if len(self._questions) == _MOST_QUESTIONS:
            return
        for key in self.vector:
            if key not in self._sources and key[0] != self._own:
                self._sources[key] = _Source()
        for key, source in [*self._sources.items()]:
            if source.done < self.vector[key]:
                self._ask_node(key, source, now)
                if len(self._questions) == _MOST_QUESTIONS:
                    return

    def _ask_node(self, key: Key, source: _Source, now: int) -> None:
        """Ask a node, which has the turn; only once if it has not answered before."""
        if source.rests_until > now:
            self._rest_ends = earliest(self._rest_ends, source.rests_until)
            return
        under_way = [each for each in self._questions.values() if each.key == key]
        for low, high in source.missing(self.vector[key], self._most_entries):
            if len(self._questions) == _MOST_QUESTIONS or (source.tries and under_way):
                return
            if not any(each.low <= low <= each.high for each in under_way):
                under_way.append(question := _Question(key, low, high, source.tries, now))
                self._send_question(question)
                self._sources[key] = self._sources.pop(key)  # its next turn comes after the others'

    def _end_questions(self, now: int) -> None:
        """End the questions that need no answer any more, and those without one in time."""
        for name, question in [*self._questions.items()]:
            source = self._sources[question.key]
            is_late = question.sent + self._question_ms * MS <= now
            if is_late:
                source.tries = question.tries + 1
                pause = self._question_ms * MS << min(question.tries, 20)
                source.rests_until = question.sent + min(pause, _LONGEST_PAUSE)
            if is_late or source.knows(question.low, question.high):
                del self._questions[name]

    def _send_question(self, question: _Question) -> None:
        name = _question_name(question.key, question.low, question.high)
        self._questions[name] = question
        nonce, lifetime = self._rng.getrandbits(32), self._question_ms
        self.outputs.append(make_interest(name, nonce=nonce, lifetime_ms=lifetime, hop_limit=SENT_HOP_LIMIT))

    def _answer(self, name: bytes) -> None:
        try:
            parts = components(name[len(self._own + PUBSUB_ALL) :])
            kinds = [kind for kind, _ in parts]
            if kinds != [TIMESTAMP, GENERIC, SEQUENCE, SEQUENCE] or component(*parts[1]) != _MAPPING:
                return
            bootstrap, low, high = (read_nni(parts[n][1]) for n in (0, 2, 3))
        except MalformedPacket:
            return
        if bootstrap != self._bootstrap or not 1 <= low <= min(high, len(self._names)):
            return
        entries: list[tuple[int, bytes]] = []
        size = 0
        for number, item in enumerate(self._names[low - 1 : high], start=low):
            size += len(item) + 16
            if size > _LARGEST_ANSWER:
                break
            entries.append((number, item))
        self.outputs.append(make_data(name, encode_mapping(self._own, entries), freshness_ms=_FRESHNESS_MS))


def _question_name(key: Key, low: int, high: int) -> bytes:
    node, bootstrap = key
    first, last = (component(SEQUENCE, nni(number)) for number in (low, high))
    return node + PUBSUB_ALL + component(TIMESTAMP, nni(bootstrap)) + _MAPPING + first + last


def _is_node(name: bytes) -> bool:
    return name.startswith(NODES) and len(components(name[len(NODES) :])) == 1
