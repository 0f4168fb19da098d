"""What is fuzzed, by name, and how its inputs are taken apart."""

from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

from testbed.verify.fuzz import captures, management, mapping, node, ssb, tiny, wire
from testbed.verify.mutations import mutate


class Target(NamedTuple):
    """Something to fuzz.

    Attributes:
        check: takes an input; raises if something is wrong.
        longest: bytes of an input.
        split: takes an input apart into units that mean something by themselves.
        frame: splits a unit into what stands before its packet, and the packet.
        unit: makes a unit of such a head and a packet.
        head: draws a new head.
    """

    check: Callable[[bytes], None]
    longest: int
    split: Callable[[bytes], list[bytes]]
    frame: Callable[[bytes], tuple[bytes, bytes]]
    unit: Callable[[bytes, bytes], bytes]
    head: Callable[[Random], bytes]


_MOST = 0xFFFF


def _events(data: bytes) -> list[bytes]:
    return [event.encode() for event in node.decode(data)]


def _event(head: bytes, packet: bytes) -> bytes:
    return node.Event(head[0] & 7, head[0] >> 3 & 15, packet[:_MOST]).encode()


def _commands(data: bytes) -> list[bytes]:
    return [event.encode() for event in management.decode(data)]


def _command(head: bytes, packet: bytes) -> bytes:
    return management.Event(head[0] & 3, head[0] >> 2, packet[:_MOST]).encode()


def _ssb_events(data: bytes) -> list[bytes]:
    return [event.encode() for event in ssb.decode(data)]


def _ssb_event(head: bytes, content: bytes) -> bytes:
    return ssb.Event(head[0] & 7, head[0] >> 3, content[:_MOST]).encode()


def _tiny_events(data: bytes) -> list[bytes]:
    return [event.encode() for event in tiny.decode_events(data)]


def _tiny_event(head: bytes, content: bytes) -> bytes:
    return tiny.Event(head[0] & 7, head[0] >> 3, content[:_MOST]).encode()


TARGETS = {
    "wire": Target(
        wire.check,
        2048,
        lambda data: [data],
        lambda unit: (b"", unit),
        lambda head, packet: packet,
        lambda rng: b"",
    ),
    "node": Target(
        node.check,
        4096,
        _events,
        lambda unit: (unit[:1], unit[3:]),
        _event,
        lambda rng: bytes((rng.randrange(128),)),
    ),
    "management": Target(
        management.check,
        4096,
        _commands,
        lambda unit: (unit[:1], unit[3:]),
        _command,
        lambda rng: bytes((rng.randrange(256),)),
    ),
    "ssb": Target(
        ssb.check,
        8192,
        _ssb_events,
        lambda unit: (unit[:1], unit[3:]),
        _ssb_event,
        lambda rng: bytes((rng.randrange(256),)),
    ),
    "tiny": Target(
        tiny.check,
        8192,
        _tiny_events,
        lambda unit: (unit[:1], unit[3:]),
        _tiny_event,
        lambda rng: bytes((rng.randrange(256),)),
    ),
    "mapping": Target(
        mapping.check,
        8192,
        _tiny_events,
        lambda unit: (unit[:1], unit[3:]),
        _tiny_event,
        lambda rng: bytes((rng.randrange(256),)),
    ),
    "captures": Target(
        captures.check,
        captures.LONGEST,
        captures.split,
        captures.frame,
        captures.unit,
        captures.head,
    ),
}
"""By name."""


def change(target: Target, data: bytes, pool: Sequence[bytes], rng: Random) -> bytes:
    """Return an input made from another: packets mutated as TLV, units added, taken, repeated, moved."""
    units = target.split(data) or [b"\0"]
    packets = [target.frame(unit)[1] for unit in pool]
    at = rng.randrange(len(units))
    head, packet = target.frame(units[at])
    kind = rng.randrange(10) if len(target.head(rng)) else 0
    match kind:
        case 6:
            units.insert(at, target.unit(target.head(rng), rng.choice(packets)))
        case 7:
            units.insert(rng.randrange(len(units) + 1), units[at])
        case 8:
            del units[at]
        case 9:
            units[at] = target.unit(target.head(rng), packet)
        case _:
            units[at] = target.unit(head, mutate(packet, packets, rng))
    return b"".join(units)[: target.longest]
