"""Clients that violate the tinyISP protocol in one configured way."""

from collections.abc import Sequence
from random import Random
from typing import Any, Literal

from base.units import MS, SECOND
from ssb.keys import Identity
from ssb.tiny.entry import sign
from ssb.tiny.goset import GrowOnlySet
from ssb.tiny.isp.client import Client
from ssb.tiny.isp.evidence import sign_feed
from ssb.tiny.isp.facts import OPEN
from ssb.tiny.isp.lines import Lines
from ssb.tiny.isp.messages import FarewellFin, HopFin, SubPause, SubRequest, is_tunnelled, write
from ssb.tiny.isp.subscription import STANDS
from ssb.tiny.isp.terms import Terms
from ssb.tiny.node import Node
from ssb.tiny.vectors import make_want

Attack = Literal[
    "none",
    "crowd",
    "flood",
    "false-fin",
    "malformed",
    "ignore-pause",
    "replay",
    "fork",
    "beg",
]
"""How a client violates the protocol; `TinyIspParameters.attack` explains each value."""


def fork(node: Node, feed: bytes, now: int) -> None:
    """Sign and send another entry in place of the last one of an own feed."""
    held = node.store.feeds[feed]
    previous = node.store.previous(feed, held.sequence) if held.sequence else None
    if held.identity is not None and previous is not None:
        other, _ = sign(held.identity, held.sequence, previous, b"other %d" % now)
        node.broadcast(other.packet, "entry", now)


_CROWDING = 400
"""Bytes of an entry sent only to fill a data feed."""


class HostileClient(Client):
    """The Program of an attacking client.

    Args:
        node, root, random, terms, now: see BaseParty.
        attack: the violation of the protocol.
        pace: minimum and maximum time between two rounds of the attack, ns.
        talks: whether it also writes to its contacts, an entry in each round.
        targets: clients that receive flooded requests with valid proofs; if empty, requests name unknown
            clients or itself.

    Attributes:
        attack: see above.
        attacks: number of violations, or of entries only to fill a data feed.
    """

    def __init__(
        self,
        node: Node,
        root: Identity,
        random: Random,
        terms: Terms,
        now: int,
        *,
        attack: Attack = "flood",
        pace: tuple[int, int] = (200 * MS, 1500 * MS),
        talks: bool = False,
        targets: Sequence[bytes] = (),
    ) -> None:
        self.attack = attack
        self._pace = pace
        self._talks = talks
        self._targets = targets
        self._attack_at = now + 5 * SECOND
        self._sent_before: list[bytes] = []
        self.attacks = 0
        super().__init__(node, root, random, terms, now)

    def next_deadline(self) -> int | None:
        due = super().next_deadline()
        return self._attack_at if due is None else min(due, self._attack_at)

    def wake(self, now: int) -> None:
        super().wake(now)
        if now >= self._attack_at:
            self._attack_at = now + self._random.randint(*self._pace)
            for contract in list(self.contracts.values()):
                if contract.facts.state == OPEN:
                    self._carry_out(contract, now)

    def next_content(self, contract: Lines, now: int) -> bytes | None:
        content = super().next_content(contract, now)
        if content is not None and is_tunnelled(content) and self.attack == "replay":
            self._sent_before.append(content)
        return content

    def _carry_out(self, contract: Any, now: int) -> None:
        line = contract.facts.own_line
        has_room = (
            line
            and not contract.facts.line_ended
            and self.node.store.feeds[line[-1]].sequence < self.terms.size - 1
        )
        if self._talks:
            self._write(1, now)
        match self.attack:
            case "crowd":
                self.attacks += self._write(self.terms.size, now)
            case "flood" if self._targets:
                target, feed = self._random.choice(self._targets), self._random.randbytes(32)
                contract.send_command(SubRequest(target, feed, sign_feed(self.root, feed, target)), now)
                self.attacks += 1
            case "flood":
                target = self._random.randbytes(32) if self._random.random() < 0.5 else self.root.public_key
                contract.send_command(
                    SubRequest(target, self._random.randbytes(32), self._random.randbytes(64)), now
                )
                self.attacks += 1
            case "false-fin":
                feed = self._random.choice([contract.facts.other_data, self._random.randbytes(32)])
                contract.send_command(self._random.choice([HopFin(feed), FarewellFin()]), now)
                self.attacks += 1
            case "malformed" if has_room:
                content = self._random.choice(
                    [self._random.randbytes(240), self._random.randbytes(9), write(SubPause(bytes(32)))]
                )
                self.node.publish(line[-1], content, now)
                self.attacks += 1
            case "replay" if has_room and self._sent_before:
                self.node.publish(line[-1], self._random.choice(self._sent_before), now)
                self.attacks += 1
            case "fork":
                fork(self.node, self._random.choice([contract.facts.own_control, *line]), now)
                self.attacks += 1
            case "beg":
                for name in (contract.control_set, contract.data_set):
                    keys = GrowOnlySet(name, self.node.keys(name))
                    packet, _ = make_want(keys.state, 0, [1] * len(keys.keys))
                    self.node.broadcast(packet, "want", now)
                    self.attacks += 1
            case "ignore-pause":
                for one in self.subscriptions.values():
                    self.attacks += one.is_paused
                    one.is_paused = False
                contract.write_line(now)

    def _write(self, most: int, now: int) -> int:
        """Write to all contacts, until `most` entries wait in the line; return the number written."""
        written = 0
        size = min(self.terms.largest, _CROWDING)
        for ref, one in list(self.subscriptions.items()):
            while one.state == STANDS and not one.is_leaving and self._backlog(one.own) < most:
                self.send(ref, self._random.randbytes(size), now)
                written += 1
        return written
