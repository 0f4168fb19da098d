"""A tinyISP provider under any packets, and any content signed by a client.

An input is a sequence of events (`events.py`). The provider has three clients. One is hostile: it signs any
content of the input. The others have requested a subscription to each other, and must not be affected. Also,
the node is in an open set, and lacks entries and chunks of a feed there whose packets are known, so that
inputs can deliver them, in any order, whole or changed.
"""

import zlib
from copy import deepcopy
from functools import cache
from random import Random

from base.units import SECOND
from ssb.bipf import MalformedBipf, decode, encode
from ssb.keys import Identity
from ssb.tiny import entry as entries
from ssb.tiny.entry import first_previous, sign
from ssb.tiny.goset import COMMON, MAX_KEYS
from ssb.tiny.isp.facts import OPEN, Facts, record_of
from ssb.tiny.isp.messages import HopPrev, write
from ssb.tiny.isp.provider.provider import Provider
from ssb.tiny.isp.provider.route import Route, Side
from ssb.tiny.isp.terms import Terms
from ssb.tiny.memory import MemoryTables
from ssb.tiny.node import Node
from ssb.tiny.outbox import MOST_QUEUED
from ssb.tiny.store import TinyStore
from ssb.tiny.vectors import chunk_demultiplexer, want_demultiplexer
from testbed.verify.fuzz.subjects.events import PAUSE, Event, Timed, read_events
from testbed.verify.fuzz.subjects.wire import expect

PACKET, PAYLOAD, WANT, CHUNKS, CLAIM, GENUINE, SIGNED = range(7)

TERMS = Terms(size=5, unread=2, largest=300, backlog=2, proofs=False)
ISP, HOSTILE, GOOD, OTHER, AUTHOR = (Identity.from_seed(bytes([60 + number]) * 32) for number in range(5))
REF = b"r" * 20
"""Reference of the request from one honest client to the other."""

_PAUSES = (SECOND // 100, SECOND, 6 * SECOND, 20 * SECOND)
MOST_EVENTS = 40
"""Maximum number of events of an input."""

_MOST_WAKES = 300
_HELD = 2


@cache
def genuine() -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    """Return the packets of the author's feed in order, entries and all with chunks."""
    packets, every, previous = [], [], first_previous(AUTHOR.public_key)
    for sequence, size in enumerate((10, 200, 28, 0, 500, 27), start=1):
        entry, chunks = sign(AUTHOR, sequence, previous, bytes((sequence,)) * size)
        previous = entry.id
        packets.append(entry.packet)
        every += [entry.packet, *chunks]
    return tuple(packets), tuple(every)


@cache
def _seeded(number: int) -> Identity:
    return Identity.from_seed(bytes([90 + number]) * 32)


@cache
def _template() -> MemoryTables:
    """Return the tables of a provider with onboarded clients."""
    tables = MemoryTables()
    store = TinyStore(tables)
    store.add_own(ISP)
    store.put("followed", [one.public_key for one in (HOSTILE, GOOD, OTHER)])
    for number, client in enumerate((HOSTILE, GOOD, OTHER)):
        own_control, other_control, own_data, other_data = (_seeded(4 * number + at) for at in range(4))
        store.add_own(own_control)
        store.add(other_control.public_key)
        store.add_own(own_data)
        store.add(other_data.public_key)
        store.publish(own_data.public_key, write(HopPrev(None)))
        facts = Facts(
            client.public_key,
            ISP.public_key,
            OPEN,
            own_control.public_key,
            other_control.public_key,
            [own_data.public_key],
            other_data.public_key,
        )
        store.put(record_of(client.public_key[:20]), vars(facts))
    asked = _seeded(30).public_key
    store.add(asked)
    sides = Side(GOOD.public_key[:20], asked), Side(OTHER.public_key[:20])
    route = Route(REF, *sides, GOOD.public_key, OTHER.public_key)
    store.put(f"route {REF.hex()}", vars(route) | {"a": vars(route.a), "b": vars(route.b)})
    store.add(AUTHOR.public_key)
    for packet in genuine()[0][:_HELD]:
        store.append(AUTHOR.public_key, packet)
    return tables


class _Writer:
    """The hostile client's writer: appends any content to one of its feeds."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity
        self._sequence, self._previous = 1, first_previous(identity.public_key)

    def write(self, content: bytes) -> list[bytes]:
        """Return the packets of the next entry."""
        entry, chunks = sign(self._identity, self._sequence, self._previous, content)
        self._sequence, self._previous = entry.sequence + 1, entry.id
        return [entry.packet, *chunks]


class _World(Timed):
    def __init__(self) -> None:
        self.tables = deepcopy(_template())
        self.store = TinyStore(self.tables)
        self.node = Node(self.store, Random(1))
        self.provider = Provider(self.node, ISP, Random(2), TERMS, 0)
        self.node.join_open([ISP.public_key, AUTHOR.public_key], 0)
        self._root, self._control, self._data = (_Writer(one) for one in (HOSTILE, _seeded(1), _seeded(3)))
        self._sets = sorted(self.node.sets)

    def play(self, event: Event) -> None:
        """Perform an event, and check the invariants."""
        kind, which, content = event
        known = self.node.sets.get(self._sets[which % len(self._sets)])
        keys = known.keys if known is not None else None
        if kind == PACKET:
            self._receive(content)
        elif kind == PAYLOAD:
            self.node.receive(1, content, None, self.now)
            _read(content)
        elif kind == WANT and keys is not None:
            self._receive(want_demultiplexer(keys.state) + content)
        elif kind == CHUNKS and keys is not None:
            self._receive(chunk_demultiplexer(keys.state) + content)
        elif kind == CLAIM and keys is not None:
            self._receive(keys.demultiplexer + content)
        elif kind == GENUINE:
            self._receive(_changed(genuine()[1][which % len(genuine()[1])], content))
        elif kind == SIGNED and len(content) <= entries.MAX_CONTENT:
            for packet in (self._control, self._data, self._root)[which % 3].write(content):
                self._receive(packet)
        elif kind == PAUSE:
            duration = _PAUSES[which % len(_PAUSES)]
            self.pass_time(self.node, duration, _MOST_WAKES, self.node.take_outputs)
        self._check()

    def _receive(self, packet: bytes) -> None:
        changes, dropped = self.tables.changes, self.node.dropped.copy()
        self.node.receive(1, packet + zlib.crc32(packet).to_bytes(4), None, self.now)
        reasons = self.node.dropped - dropped
        if reasons and not reasons["forked"] and not reasons["not sent"]:
            expect("what was dropped has changed something", holds=self.tables.changes == changes)
        self.node.take_outputs()

    def _check(self) -> None:
        expect("more waits to be sent than may", holds=len(self.node._outbox) <= MOST_QUEUED)
        expect("an open set is too large", holds=len(self.node.keys(COMMON)) <= MAX_KEYS)
        expect("a feed has no key", holds=all(len(key) == entries.KEY for key in self.store.feeds))
        authentic = self.store.feeds[AUTHOR.public_key]
        for sequence in range(1, authentic.sequence + 1):
            is_genuine = self.store.packet(AUTHOR.public_key, sequence) == genuine()[0][sequence - 1]
            expect("an entry is stored that its author has not signed", holds=is_genuine)
        for number, client in enumerate((GOOD, OTHER), start=1):
            contract = self.provider.contracts.get(client.public_key[:20])
            expect("an honest client's contract is gone", holds=contract is not None)
            if contract is not None:
                feeds = {_seeded(4 * number + at).public_key for at in range(4)}
                is_whole = contract.facts.state == OPEN and feeds <= set(self.store.feeds)
                expect("an honest client's contract is not as it was", holds=is_whole)
                for name in (contract.control_set, contract.data_set):
                    expect("a fixed set has changed", holds=set(self.node.keys(name)) <= feeds)
        route = self.provider.routes.get(REF)
        expect(
            "honest clients' request is answered by another", holds=route is not None and not route.is_open
        )
        data = self.store.feeds.get(_seeded(3).public_key)
        longest = TERMS.size if data is None else data.sequence
        expect("a data feed is longer than agreed", holds=longest <= TERMS.size)


def _changed(packet: bytes, change: bytes) -> bytes:
    """Return a packet with some bytes changed, at the offset given by the first byte of the change."""
    changed = bytearray(packet)
    for at, byte in enumerate(change[1:], start=change[0] if change else 0):
        if at < len(changed):
            changed[at] ^= byte
    return bytes(changed)


def _read(content: bytes) -> None:
    """Check that parsed content survives a round trip."""
    try:
        value = decode(content)
    except MalformedBipf:
        return
    if "nan" not in repr(value):
        expect("a value is another when it is written", holds=decode(encode(value)) == value)


def check(data: bytes) -> None:
    """Play the events of an input; raise Finding, or whatever should not be raised."""
    world = _World()
    with world.store:
        for event in read_events(data, MOST_EVENTS):
            world.play(event)
        if world.store.feeds[AUTHOR.public_key].sequence > _HELD:
            world.store.check()
