"""A name service, a storage, a resolver and a device under any packets, and any content signed by an id.

An input is a sequence of events (`events.py`). Two ids are registered. One is hostile: it signs any content
of the input. The other's record, log and location must not change.
"""

from functools import cache
from random import Random

from base.units import MS
from forwarder.wire.name import VERSION, component, prefix_ends
from forwarder.wire.packet import ED25519, make_data, parse_data, parse_interest
from forwarder.wire.parameters import make_interest_with_parameters
from forwarder.wire.tlv import MalformedPacket, nni
from ssb.generate import generate_feed
from ssb.keys import Identity
from ssb_over_ndn.mapping.device import Device
from ssb_over_ndn.mapping.messages import make_put, make_query, make_update, server_name, store_name
from ssb_over_ndn.mapping.record import (
    LINK,
    RefusedRecord,
    make_record,
    map_name,
    open_record,
    split_map_name,
)
from ssb_over_ndn.mapping.resolver import Resolver
from ssb_over_ndn.mapping.server import NameServer
from ssb_over_ndn.mapping.storage import Storage
from ssb_over_ndn.naming import log_name, message_packet
from testbed.verify.fuzz.subjects.events import PAUSE, Event, playing
from testbed.verify.fuzz.subjects.wire import expect

UPDATE, SERVER, STORAGE, PUT, ANSWER, SIGNED, DEVICE = range(7)
"""Kinds: a record sent to the server as an id's; any packet to the server, the storage, the resolver; an item
uploaded as an id's; Content signed by the hostile id as its record; an answer to the device.
"""

HONEST, HOSTILE = (Identity.from_seed(bytes([90 + number]) * 32) for number in range(2))
IDS = (HONEST, HOSTILE)
PLACE, NAME_SERVER = store_name("place"), server_name(0)
NOW = 1_700_000_000_000 * MS

_LIFETIME = 3_600_000 * MS
MOST_EVENTS = 40
"""Maximum number of events of an input."""

_PAUSES = (1 * MS, 200 * MS, 2_000 * MS, 40_000 * MS)
_MOST_OUTPUTS = 64


@cache
def items() -> tuple[bytes, ...]:
    """Return the packets of the honest id's log."""
    return tuple(message_packet(message) for message in generate_feed(Random(90), 6, HONEST))


def record_of(identity: Identity, seq: int = 1) -> bytes:
    """Return a genuine record."""
    return make_record(
        identity.ref, identity.sign, seq, (PLACE,), now=NOW, lifetime=_LIFETIME, ttl=2_000 * MS
    )


def signed(content: bytes, seq: int) -> bytes:
    """Return a record of the hostile id with any content."""
    whole = parse_data(record_of(HOSTILE, seq))
    period = whole.signed[whole.signed.index(b"\xfd\x00\xfd") :]
    return make_data(
        map_name(HOSTILE.ref) + component(VERSION, nni(seq)),
        content,
        content_type=LINK,
        freshness_ms=2000,
        signature_type=ED25519,
        more_info=period,
        sign=HOSTILE.sign,
    )


class _World:
    def __init__(self) -> None:
        self.now = NOW
        self.server, self.storage = NameServer(capacity=4), Storage(capacity=2)
        self.resolver = Resolver([NAME_SERVER], rng=Random(0))
        self.device = Device(
            HONEST.ref, HONEST.sign, [NAME_SERVER], rng=Random(1), lifetime=_LIFETIME, ttl=2_000 * MS
        )
        for identity in IDS:
            self.server.receive(make_update(identity.ref, record_of(identity), NAME_SERVER, 1), NOW)
            self.resolver.want(identity.ref, NOW)
            self.resolver.receive(record_of(identity), NOW)
        for item in items()[:3]:
            self.storage.receive(make_put(HONEST.ref, item, PLACE, 1), NOW)
        self.device.move(PLACE)
        self.device.wake(NOW)
        for seq, item in enumerate(items()[:3], start=1):
            self.device.published(seq, parse_data(item), NOW)
        self._sent = [parse_interest(packet).name for packet in self.device.take_outputs()]

    def play(self, event: Event) -> None:
        """Perform an event."""
        identity, content = IDS[event.which & 1], event.content
        match event.kind:
            case 0:
                self.server.receive(make_update(identity.ref, content, NAME_SERVER, 1), self.now)
            case 1:
                self.server.receive(content, self.now)
            case 2:
                self.storage.receive(content, self.now)
            case 3:
                self.storage.receive(make_put(identity.ref, content, PLACE, 1), self.now)
            case 4:
                self.resolver.receive(content, self.now)
            case 5:
                wire = signed(content, 2 + event.which)
                self.server.receive(make_update(HOSTILE.ref, wire, NAME_SERVER, 1), self.now)
                self.resolver.receive(wire, self.now)
            case 6:
                if self._sent:
                    name = self._sent[event.which % len(self._sent)]
                    self.device.on_data(parse_data(make_data(name, content)), self.now)
            case 7:
                self._pause(_PAUSES[event.which % len(_PAUSES)])
        self._check()

    def _pause(self, time: int) -> None:
        self.now += time
        for one in (self.server, self.storage, self.resolver, self.device):
            due = one.next_deadline()
            if due is not None and due <= self.now:
                one.wake(self.now)

    def _check(self) -> None:
        outputs = [one.take_outputs() for one in (self.server, self.storage, self.resolver)]
        uploads = self.device.take_outputs()
        expect("too many packets at a time", holds=max(map(len, (*outputs, uploads))) <= _MOST_OUTPUTS)
        self._sent += [parse_interest(packet).name for packet in uploads]
        self._sent = self._sent[-32:]
        for packet in (packet for some in outputs for packet in some):
            expect("what is sent is a packet", holds=packet[:1] in (b"\x05", b"\x06"))
        known = {identity.ref: self.server.ledger.newest(identity.ref) for identity in IDS}
        known[HONEST.ref + " resolved"] = self.resolver.record(HONEST.ref)
        known[HOSTILE.ref + " resolved"] = self.resolver.record(HOSTILE.ref)
        for whose, record in known.items():
            if record is None:
                continue
            expect("a record is another id's", holds=whose.startswith(record.author))
            try:
                open_record(parse_data(record.wire), record.begins)
            except RefusedRecord as error:
                expect(f"a record is believed that is none: {error}", holds=False)
            for storage in record.storages:
                try:
                    prefix_ends(storage)
                except MalformedPacket:
                    expect("a delegation is no name", holds=False)
            if whose.startswith(HONEST.ref):
                expect("the honest id's record has changed", holds=record.storages == (PLACE,))
        stored = self.storage.messages_of(HONEST.ref)
        genuine = [parse_data(item).content for item in items()]
        expect("the honest id's log has changed", holds=stored == genuine[: len(stored)] and len(stored) >= 3)
        expect("more ids than there may be", holds=len(self.server.ledger) <= 4)


check = playing(_World, MOST_EVENTS)
"""Play the events of an input; raise Finding, or whatever should not be raised."""


def inputs() -> dict[str, bytes]:
    """Return initial inputs: the intended use of each kind, and some forgeries."""
    forged = make_record(HONEST.ref, HOSTILE.sign, 9, (store_name("x"),), now=NOW, lifetime=_LIFETIME, ttl=MS)
    names = record_of(HOSTILE)
    content = parse_data(names).content
    named = split_map_name(parse_data(names).name)
    assert named is not None
    metadata = make_interest_with_parameters(log_name(HONEST.ref), b"", nonce=1, lifetime_ms=1, hop_limit=1)
    events = {
        "update": [Event(UPDATE, 0, record_of(HONEST, 2)), Event(UPDATE, 1, record_of(HOSTILE, 2))],
        "forged": [
            Event(UPDATE, 0, forged),
            Event(UPDATE, 1, record_of(HONEST, 3)),
            Event(ANSWER, 0, forged),
        ],
        "query": [Event(SERVER, 0, make_query(HONEST.ref, NAME_SERVER, 1)), Event(SERVER, 0, metadata)],
        "items": [Event(PUT, 0, item) for item in items()],
        "items-of-others": [Event(PUT, 1, item) for item in items()],
        "storage": [
            Event(STORAGE, 0, make_put(HONEST.ref, items()[4], PLACE, 1)),
            Event(STORAGE, 0, metadata),
        ],
        "signed": [Event(SIGNED, 0, content), Event(SIGNED, 1, content * 2), Event(SIGNED, 2, content[:-1])],
        "device": [Event(DEVICE, which, bytes((which,))) for which in range(8)]
        + [Event(DEVICE, 3, record_of(HONEST, 5))],
        "pauses": [Event(PAUSE, which) for which in range(4)]
        + [Event(ANSWER, 0, record_of(HONEST, 2)), Event(PAUSE, 2), Event(ANSWER, 1, names)],
    }
    return {name: b"".join(event.encode() for event in of) for name, of in events.items()}
