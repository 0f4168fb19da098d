"""The cases of testbed.bench.growth: operations on many entries, each a deadline or a lookup.

A case prepares its entries and returns the measured work: some operations per entry. Objects are the real
ones, through their public methods.
"""

import struct
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final, NamedTuple

import numpy as np

from analysis.packet_schema import DIGEST
from analysis.pit.entry import Message as Seen
from analysis.pit.model import PitModel
from base.timers import Timers
from base.units import SECOND
from captures.formats.blocks import BlockReader
from captures.formats.pcapng import ENHANCED_PACKET, INTERFACE_DESCRIPTION, SECTION_HEADER
from captures.formats.records import PCAP_HEADER, SLACK, Octets, PcapReader
from forwarder.forwarder import Forwarder
from forwarder.host import Host
from forwarder.tables.rib import Rib, Route
from forwarder.wire.name import from_uri
from forwarder.wire.packet import SENT_HOP_LIMIT, make_interest

Work = Callable[[], object]


class World(NamedTuple):
    """Factories of numbers and bytes, so that a test can count operations on them.

    Attributes:
        zero: the first moment, ns.
        octets: makes an array of bytes.
    """

    zero: int = 0
    octets: Callable[[bytes], Octets] = lambda data: np.frombuffer(data, np.uint8)


class Case(NamedTuple):
    """A case: its name, its preparation for a number of entries, and a divisor of that number for costly
    preparations.
    """

    name: str
    prepare: Callable[[int, World], Work]
    divided: int = 1


# The forwarder


def _timers(count: int, world: World) -> Work:
    timers: Timers[int] = Timers()

    def work() -> None:
        for key in range(count):
            timers.set(key, world.zero + SECOND)
            timers.next_deadline()
        for key in range(0, count, 2):
            timers.set(key, None)
            timers.next_deadline()
        timers.expire(world.zero + SECOND)

    return work


def _node(faces: int) -> Forwarder:
    node = Forwarder(rng=Random(0))
    for face in range(faces + 1):
        node.add_face(face + 1)
    node.fib.add(b"", faces + 1, 1)
    return node


def _interest(number: int) -> bytes:
    return make_interest(
        from_uri(f"/growth/{number}"), nonce=number, lifetime_ms=4_000, hop_limit=SENT_HOP_LIMIT
    )


def _pit(count: int, world: World) -> Work:
    node, interests = _node(1), [_interest(number) for number in range(count)]

    def work() -> None:
        for interest in interests:
            node.receive(1, interest, world.zero)
            node.take_outputs()
            node.next_deadline()
        node.wake(world.zero + 4 * SECOND)

    return work


def _faces(count: int, world: World, leave: Callable[[Forwarder, int, int], None]) -> Work:
    node = _node(count)
    for face in range(count):
        node.fib.add(from_uri(f"/of/{face}"), face + 1)
        node.receive(face + 1, _interest(face), world.zero)

    def work() -> None:
        for face in range(count):
            leave(node, face + 1, world.zero)
            node.next_deadline()

    return work


def _reliable_links(count: int, world: World) -> Work:
    host = Host(Forwarder(rng=Random(0)))
    faces = [host.add_face(mtu=1_500) for _ in range(count)]
    for face in faces:
        face.is_reliable = True
        host.configure(face.number)
    host.forwarder.fib.add(b"", faces[0].number, 1)

    def work() -> None:
        for number, face in enumerate(faces):
            host.receive(face.number, _interest(number), None, world.zero + number)
            host.take_outputs()
            host.next_deadline()

    return work


def _routes(count: int, world: World) -> Work:
    rib = Rib(_node(1).fib)

    def work() -> None:
        for number in range(count):
            rib.register(Route(from_uri(f"/growth/{number}"), 1, 0, deadline=world.zero + SECOND))
            rib.next_deadline()
        rib.wake(world.zero + SECOND)

    return work


def _digests(count: int, world: World) -> Work:
    model = PitModel()
    names = [f"/growth/{number}" for number in range(count)]
    asked = [
        Seen(
            world.zero,
            "a",
            "in",
            "interest",
            f"{name}{DIGEST}00",
            6,
            nonce=1,
            lifetime_ns=SECOND,
            hop_limit=9,
        )
        for name in names
    ]

    def work() -> None:
        for each in asked:
            model.receive(each)
        for name in names:
            model.receive(Seen(world.zero + 1, "b", "in", "data", name, 6))

    return work


# Captures


def _block(kind: int, body: bytes, *, is_whole: bool = True) -> bytes:
    size = 12 + len(body)
    return struct.pack("<II", kind, size) + body + struct.pack("<I", size if is_whole else 77)


def _pcapng(count: int, world: World) -> Work:
    """Every second block has a wrong length at its end."""
    parts = [
        _block(SECTION_HEADER, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)),
        _block(INTERFACE_DESCRIPTION, struct.pack("<HHI", 1, 0, 0)),
    ]
    packet = struct.pack("<IIIII", 0, 0, 0, 60, 60) + bytes(60)
    parts += [_block(ENHANCED_PACKET, packet, is_whole=number % 2 == 0) for number in range(count)]
    data = b"".join(parts)
    return lambda: BlockReader().parse(world.octets(data + bytes(SLACK)), len(data), 0, True)


def _pcap(count: int, world: World) -> Work:
    """Every third record has an impossible length."""
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, 1)
    assert len(head) == PCAP_HEADER
    sizes = [60 if number % 3 else 0xFFFFFFFF for number in range(count)]
    data = head + b"".join(struct.pack("<IIII", 1, 0, size, 60) + b"\xff" * 60 for size in sizes)
    return lambda: PcapReader(head).parse(world.octets(data + bytes(SLACK)), len(data), 0, True)


CASES: Final = (
    Case("Timers: set, next and cancelled at one moment", _timers),
    Case("PIT: Interests of one moment", _pit),
    Case(
        "Forwarder.remove_face, each with an Interest and a route",
        partial(_faces, leave=Forwarder.remove_face),
    ),
    Case(
        "Forwarder.set_face down, each with an Interest and a route",
        partial(_faces, leave=lambda node, face, now: node.set_face(face, False, now)),
    ),
    Case("Host: a packet on each reliable link", _reliable_links),
    Case("RIB: routes that end together", _routes),
    Case("PitModel: Data for Interests with digests", _digests),
    Case("pcapng: every second block broken", _pcapng),
    Case("pcap: every third record broken", _pcap),
)
