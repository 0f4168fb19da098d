"""Controlled push beside hostile neighbours, who ask for what no honest node asks for."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import cycle
from random import Random
from typing import Any, Final, Literal

from pydantic import Field, field_validator

from base.endpoint import Address, Program
from base.passive import PassiveEndpoint
from base.units import MS
from forwarder.wire.feed import feed_name, item_name
from forwarder.wire.hello import Hello, make_hello, parse_hello
from forwarder.wire.lp import parse_lp
from forwarder.wire.packet import make_interest
from forwarder.wire.tlv import MalformedPacket
from ssb_over_ndn.naming import LOGS, log_name
from testbed.layerings.nodes.ndn_node import FollowParameters, NdnLayering, NdnNode
from testbed.layerings.nodes.node import Context, Parameters
from topologies.ranges import expand_ranges

Attack = Literal["none", "unknown", "idle", "rewind", "spoof"]
"""How neighbours attack; `LliParameters.attack` explains each value."""

_ENDLESS_MS: Final = 1 << 40
"""An InterestLifetime of 35 years."""
_MANY: Final = 1 << 32
"""A credit that no cache can fill."""


class LliParameters(FollowParameters):
    """Parameters of controlled push."""

    credit: int = Field(default=0, ge=0, le=1 << 32)
    """Items that may be under way to a subscriber, or wait for its application; 0: it adapts."""
    lifetime_ms: int = Field(default=60_000, ge=100, le=86_400_000)
    """How long a long-lived Interest lasts."""


class HostileParameters(Parameters):
    """Parameters of hostile neighbours."""

    hostile: list[str] = Field(default=[])
    """Nodes that neither publish nor follow, and attack whoever is at the other end of their links. Their
    neighbours take their addresses for ones that may be made up, as those of strangers by UDP are."""
    attack: Attack = "none"
    """What they send, for lifetimes without end and with all credit that there is. "none": nothing;
    "unknown": long-lived Interests for a new feed each time, which nobody has and no route leads to; "idle":
    for each of the idle feeds in turn, to which routes lead, and which say nothing; "rewind": for a feed of
    the workload from its first item on, again and again; "spoof": the same, from an address that is not
    theirs, so they see nothing of what is sent back, and cannot answer."""
    attack_ms: int = Field(default=10, ge=1, le=86_400_000)
    """Time between two long-lived Interests of one hostile node."""
    checks_addresses: bool = True
    """Whether neighbours check that a stranger's address is not made up before they push anything there."""

    @field_validator("hostile")
    @classmethod
    def _expanded(cls, names: list[str]) -> list[str]:
        return list(expand_ranges(names))


class StormParameters(LliParameters, HostileParameters):
    """Parameters of `lli`, with those of hostile neighbours."""


class StormNode(NdnNode):
    """A node that may have hostile neighbours.

    Args:
        context: see Context.
        layering: see NdnNode.
    """

    def __init__(self, context: Context, layering: NdnLayering) -> None:
        self.threat = HostileParameters(**_part(context, HostileParameters))
        super().__init__(replace(context, parameters=_part(context, LliParameters)), layering)
        faces = self.host.forwarder.faces
        for peer, face in self._face_toward.items():
            faces[face].is_proven = not (self.threat.checks_addresses and peer in self.threat.hostile)


class HostileNode(StormNode):
    """A hostile node: its forwarder has no links, as the attacker has them."""

    def __init__(self, context: Context, layering: NdnLayering) -> None:
        super().__init__(context, layering)
        ports = {port: each for program in self.programs for port, each in program.ports.items()}
        self.attacker = Attacker(self.threat, context, list(ports))
        self.programs = [Program(self.attacker, ports)]

    def counters(self) -> dict[str, Any]:
        """Return the forwarder's counters, and the attacker's."""
        attacker = self.attacker
        return super().counters() | {
            "attacks": attacker.attacks,
            "attack_bytes": attacker.sent,
            "attack_brought": attacker.brought,
        }


class Attacker(PassiveEndpoint):
    """Sends long-lived Interests on all links; an Endpoint.

    Args:
        threat: see HostileParameters.
        context: of its node.
        ports: those of its links.

    Attributes:
        attacks: long-lived Interests sent.
        sent, brought: bytes sent, and brought by the links, payloads of UDP.
    """

    def __init__(self, threat: HostileParameters, context: Context, ports: list[int]) -> None:
        super().__init__()
        self.attacks = self.sent = self.brought = 0
        self._attack = threat.attack
        self._pace = threat.attack_ms * MS
        self._ports = ports
        self._rng = Random(f"{context.seed} hostile {context.name}")
        self._names = self._wanted(context)
        self._at = context.start if threat.attack != "none" else None
        self._stop = context.stop

    def _wanted(self, context: Context) -> Iterator[bytes]:
        """Return the names of feeds to ask for, without end."""
        workload = context.workload
        if self._attack == "unknown":
            return iter(lambda: feed_name(LOGS, self._rng.randbytes(32)), b"")
        if self._attack == "idle":
            names = [name for names in workload.idle.values() for name in names]
            self._rng.shuffle(names)
            return cycle(names)
        return cycle([log_name(feed.key) for feed in workload.feeds])

    def receive(self, port: int, payload: bytes, sender: Address | None, now: int) -> None:
        """Count what comes, and answer the question whether the address is its own, if it is."""
        self.brought += len(payload)
        if self._attack == "spoof":
            return
        try:
            hello = parse_lp(payload).hello
            number = None if hello is None else parse_hello(hello).number
        except MalformedPacket:
            return
        if number is not None:
            self._send(port, make_hello(Hello(reply=number)))

    def next_deadline(self) -> int | None:
        """See Endpoint."""
        return self._at

    def wake(self, now: int) -> None:
        """See Endpoint."""
        if self._at is None or now < self._at:
            return
        self._at = self._at + self._pace if now < self._stop else None
        name = next(self._names)
        for port in self._ports:
            self.attacks += 1
            self._send(
                port,
                make_interest(
                    item_name(name, 1),
                    nonce=self._rng.getrandbits(32),
                    lifetime_ms=_ENDLESS_MS,
                    send_credit=_MANY,
                    is_aware=True,
                ),
            )

    def _send(self, port: int, frame: bytes) -> None:
        self.sent += len(frame)
        self.outputs.append((port, frame, None))


def storm_node(context: Context, layering: NdnLayering) -> NdnNode:
    """Return a node of `lli`, hostile or not."""
    kind = HostileNode if context.name in context.parameters["hostile"] else StormNode
    return kind(context, layering)


def _part(context: Context, table: type[Parameters]) -> Mapping[str, Any]:
    return {name: context.parameters[name] for name in table.model_fields}
