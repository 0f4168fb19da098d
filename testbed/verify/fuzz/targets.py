"""Fuzzing targets by name, with the structure of their inputs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from random import Random
from types import MappingProxyType
from typing import ClassVar, NamedTuple

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


def _program(name: str, longest: int = 8192) -> Target:
    """Return a target whose inputs are events."""
    program = import_module(f"testbed.verify.fuzz.subjects.{name}")
    return Target(
        program.check,
        longest,
        lambda data: [event.encode() for event in read_events(data, program.MOST_EVENTS)],
        lambda unit: (unit[:1], unit[3:]),
        lambda head, content: Event(head[0] & 7, head[0] >> 3, content[:_MOST]).encode(),
        lambda rng: bytes((rng.randrange(256),)),
    )


def _captures() -> Target:
    from testbed.verify.fuzz.subjects import captures

    return Target(
        captures.check, captures.LONGEST, captures.split, captures.frame, captures.unit, captures.head
    )


class _Targets(Mapping[str, Target]):
    """Imports targets on demand: Atheris takes seconds to instrument each."""

    _MAKERS: ClassVar[Mapping[str, Callable[[], Target]]] = MappingProxyType(
        {
            "wire": _wire,
            "node": partial(_program, "node", 4096),
            "management": partial(_program, "management", 4096),
            "ssb": partial(_program, "ssb"),
            "tiny": partial(_program, "tiny"),
            "mapping": partial(_program, "mapping"),
            "mqtt": partial(_program, "mqtt"),
            "multicast": partial(_program, "multicast"),
            "moq": partial(_program, "moq"),
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
