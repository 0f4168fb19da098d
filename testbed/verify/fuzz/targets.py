"""Fuzzing targets by name, with the structure of their inputs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from types import MappingProxyType
from typing import NamedTuple

from testbed.verify.fuzz.subjects.events import Event, read_events
from testbed.verify.mutations import mutate


class Target(NamedTuple):
    """A fuzzing target.

    Attributes:
        check: processes an input; raises on failure.
        longest: maximum size of an input, bytes.
        split: splits an input into meaningful units.
        frame: splits a unit into head and packet.
        unit: joins a head and a packet to a unit.
        head: draws a new head.
    """

    check: Callable[[bytes], None]
    longest: int
    split: Callable[[bytes], list[bytes]]
    frame: Callable[[bytes], tuple[bytes, bytes]]
    unit: Callable[[bytes, bytes], bytes]
    head: Callable[[Random], bytes]


_MOST = 0xFFFF


def _wire() -> Target:
    from testbed.verify.fuzz.subjects import wire

    return Target(
        wire.check,
        2048,
        lambda data: [data],
        lambda unit: (b"", unit),
        lambda head, packet: packet,
        lambda rng: b"",
    )


def _node() -> Target:
    from testbed.verify.fuzz.subjects import node

    return Target(
        node.check,
        4096,
        lambda data: [event.encode() for event in node.decode(data)],
        lambda unit: (unit[:1], unit[3:]),
        lambda head, packet: node.Event(head[0] & 7, head[0] >> 3 & 15, packet[:_MOST]).encode(),
        lambda rng: bytes((rng.randrange(128),)),
    )


def _management() -> Target:
    from testbed.verify.fuzz.subjects import management

    return Target(
        management.check,
        4096,
        lambda data: [event.encode() for event in management.decode(data)],
        lambda unit: (unit[:1], unit[3:]),
        lambda head, packet: management.Event(head[0] & 3, head[0] >> 2, packet[:_MOST]).encode(),
        lambda rng: bytes((rng.randrange(256),)),
    )


def _program(check: Callable[[bytes], None], most: int) -> Target:
    """Return a target whose inputs are at most `most` events."""
    return Target(
        check,
        8192,
        lambda data: [event.encode() for event in read_events(data, most)],
        lambda unit: (unit[:1], unit[3:]),
        lambda head, content: Event(head[0] & 7, head[0] >> 3, content[:_MOST]).encode(),
        lambda rng: bytes((rng.randrange(256),)),
    )


def _ssb() -> Target:
    from testbed.verify.fuzz.subjects import ssb

    return _program(ssb.check, ssb.MOST_EVENTS)


def _tiny() -> Target:
    from testbed.verify.fuzz.subjects import tiny

    return _program(tiny.check, tiny.MOST_EVENTS)


def _mapping() -> Target:
    from testbed.verify.fuzz.subjects import mapping

    return _program(mapping.check, mapping.MOST_EVENTS)


def _captures() -> Target:
    from testbed.verify.fuzz.subjects import captures

    return Target(
        captures.check, captures.LONGEST, captures.split, captures.frame, captures.unit, captures.head
    )


class _Targets(Mapping[str, Target]):
    """Imports targets on demand: Atheris takes seconds to instrument each."""

    _MAKERS = MappingProxyType(
        {
            "wire": _wire,
            "node": _node,
            "management": _management,
            "ssb": _ssb,
            "tiny": _tiny,
            "mapping": _mapping,
            "captures": _captures,
        }
    )

    def __getitem__(self, name: str) -> Target:
        return self._MAKERS[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._MAKERS)

    def __len__(self) -> int:
        return len(self._MAKERS)


TARGETS = _Targets()
"""By name."""


def change(target: Target, data: bytes, pool: Sequence[bytes], rng: Random) -> bytes:
    """Return a mutation of an input: packets mutated as TLV, units added, removed, repeated, moved."""
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
