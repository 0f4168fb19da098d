"""Hostile neighbours of controlled push, who ask for what no honest node asks for."""

from collections.abc import Iterator
from itertools import cycle
from random import Random
from typing import Final, Literal

from pydantic import Field

from base.endpoint import Address
from base.passive import PassiveEndpoint
from base.units import MS
from forwarder.wire.feed import feed_name, item_name
from forwarder.wire.hello import Hello, make_hello, parse_hello
from forwarder.wire.lp import parse_lp
from forwarder.wire.packet import make_interest
from forwarder.wire.tlv import MalformedPacket
from ssb_over_ndn.naming import LOGS, log_name
from testbed.layerings.nodes.node import Context, NodeNames, Parameters

Attack = Literal["none", "unknown", "idle", "rewind", "spoof"]
"""How neighbours attack; `HostileParameters.attack` explains each value."""

_ENDLESS_MS: Final = 1 << 40
"""An InterestLifetime of 35 years."""
_MANY: Final = 1 << 32
"""A credit that no cache can fill."""


class HostileParameters(Parameters):
    """Parameters of hostile neighbours."""

    hostile: NodeNames = Field(default=[])
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
        return self._at

    def wake(self, now: int) -> None:
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
