"""A name service, a storage, a resolver and a device under any packets, and any content signed by an id.

An input is a sequence of events (`events.py`). Two ids are registered. One is hostile: it signs any content
of the input. The other's record, log and location must not change.
"""

from functools import cache
from random import Random

from base.units import MS
from forwarder.wire.name import VERSION, component, prefix_ends
from forwarder.wire.packet import ED25519, make_data, parse_data, parse_interest
from forwarder.wire.tlv import MalformedPacket, nni
from ssb.generate import generate_feed
from ssb.keys import Identity
from ssb_over_ndn.mapping.device import Device
from ssb_over_ndn.mapping.messages import make_put, make_update, server_name, store_name
from ssb_over_ndn.mapping.record import (
    LINK,
    RefusedRecord,
    make_record,
    map_name,
    open_record,
)
from ssb_over_ndn.mapping.resolver import Resolver
from ssb_over_ndn.mapping.server import NameServer
from ssb_over_ndn.mapping.storage import Storage
from ssb_over_ndn.naming import message_packet
from testbed.verify.fuzz.subjects.events import Event, playing
from testbed.verify.fuzz.subjects.wire import expect

UPDATE, SERVER, STORAGE, PUT, ANSWER, SIGNED, DEVICE = range(7)
"""Kinds: a record sent to the server as an id's; any packet to the server, the storage, the resolver; an item
uploaded as an id's; Content signed by the hostile id as its record; an answer to the device.
"""

HONEST, HOSTILE = (Identity.from_seed(bytes([90 + number]) * 32) for number in range(2))
IDS = (HONEST, HOSTILE)
PLACE, NAME_SERVER = store_name("place"), server_name(0)
NOW = 1_700_000_000_000 * MS

LIFETIME = 3_600_000 * MS
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
    return make_record(identity.ref, identity.sign, seq, (PLACE,), now=NOW, lifetime=LIFETIME, ttl=2_000 * MS)


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
            HONEST.ref, HONEST.sign, [NAME_SERVER], rng=Random(1), lifetime=LIFETIME, ttl=2_000 * MS
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
