"""Clients and providers that do not keep to the protocol, each in the way that it is told."""

from collections.abc import Iterator
from random import Random
from typing import Any

from ssb.keys import Identity
from ssb.tiny.entry import first_previous, sign
from ssb.tiny.isp.client import Client
from ssb.tiny.isp.evidence import sign_feed
from ssb.tiny.isp.facts import OPEN
from ssb.tiny.isp.lines import Lines
from ssb.tiny.isp.messages import (
    FarewellFin,
    HopFin,
    SubPause,
    SubRequest,
    SubResponseIsp,
    is_tunnelled,
    write,
)
from ssb.tiny.isp.provider import Provider
from ssb.tiny.isp.route import Route, Side
from ssb.tiny.isp.terms import Terms
from ssb.tiny.node import Node
from testbed.verify.tiny.story import MS, SECOND, Hostility


def fork(node: Node, feed: bytes, now: int) -> None:
    """Sign another entry for the place of the last one of an own feed, and send it."""
    held = node.store.feeds[feed]
    previous = node.store.previous(feed, held.sequence) if held.sequence else None
    if held.identity is not None and previous is not None:
        other, _ = sign(held.identity, held.sequence, previous, b"other %d" % now)
        node._outbox.put(other.packet, "entry", 0, now, node._ports)


class HostileClient(Client):
    """A client.

    Attributes:
        kind: what it does.
        pace: the shortest and the longest time between two misdeeds, ns.
    """

    kind: Hostility = "floods"
    pace = (200 * MS, 1500 * MS)

    def __init__(self, node: Node, root: Identity, random: Random, terms: Terms, now: int) -> None:
        self._bad_at = now + 5 * SECOND
        self._said: list[bytes] = []
        super().__init__(node, root, random, terms, now)

    def next_deadline(self) -> int | None:
        """See Program."""
        due = super().next_deadline()
        return self._bad_at if due is None else min(due, self._bad_at)

    def wake(self, now: int) -> None:
        """See Program."""
        super().wake(now)
        if now >= self._bad_at:
            self._bad_at = now + self._random.randint(*self.pace)
            for contract in list(self.contracts.values()):
                if contract.facts.state == OPEN:
                    self._misbehave(contract, now)

    def next_content(self, contract: Lines, now: int) -> bytes | None:
        """See Party."""
        content = super().next_content(contract, now)
        if content is not None and is_tunnelled(content):
            self._said.append(content)
        return content

    def _misbehave(self, contract: Any, now: int) -> None:
        line = contract.facts.own_line
        has_room = (
            line
            and not contract.facts.line_ended
            and self.node.store.feeds[line[-1]].sequence < self.terms.size - 1
        )
        match self.kind:
            case "floods":
                target = self._random.randbytes(32) if self._random.random() < 0.5 else self.root.public_key
                contract.say(SubRequest(target, self._random.randbytes(32), self._random.randbytes(64)), now)
            case "lies about fin":
                feed = self._random.choice([contract.facts.other_data, self._random.randbytes(32)])
                contract.say(self._random.choice([HopFin(feed), FarewellFin()]), now)
            case "sends what is no entry" if has_room:
                content = self._random.choice(
                    [self._random.randbytes(240), self._random.randbytes(9), write(SubPause(bytes(32)))]
                )
                self.node.publish(line[-1], content, now)
            case "repeats entries" if has_room and self._said:
                self.node.publish(line[-1], self._random.choice(self._said), now)
            case "forks":
                fork(self.node, self._random.choice([contract.facts.own_control, *line]), now)
            case "ignores pauses":
                for one in self.subscriptions.values():
                    one.is_paused = False
                contract.write_line(now)


class HostileProvider(Provider):
    """A provider.

    Attributes:
        kind: what it does.
        done: how often it has done so.
    """

    kind: Hostility = "forges"

    def __init__(
        self,
        node: Node,
        root: Identity,
        random: Random,
        terms: Terms,
        now: int,
        individual: dict[bytes, Terms] | None = None,
    ) -> None:
        self.done = 0
        self._passed: list[tuple[bytes, bytes]] = []  # contract, content
        self._forged: list[tuple[bytes, bytes]] = []
        super().__init__(node, root, random, terms, now, individual)

    def _on_answer(
        self, contract: Lines, ref: bytes, feed: bytes | None, proof: bytes | None, reason: str, now: int
    ) -> None:
        route = self.routes.get(ref)
        asker = self.contracts.get(route.a.contract or b"") if route is not None else None
        if self.kind == "forges" and feed is not None and route is not None and asker is not None:
            own = self.new_identity()
            signed = sign_feed(self.root, own.public_key, route.source, route.a.feed or b"")
            asker.say(SubResponseIsp(ref, True, own.public_key, signed), now)
            entry, chunks = sign(own, 1, first_previous(own.public_key), b"forged")
            self._forged.append((asker.id, b"".join([entry.packet, *chunks])))
            self._dirty[asker.id] = None
            self._delete(route)
            self.done += 1
            return
        super()._on_answer(contract, ref, feed, proof, reason, now)

    def next_content(self, contract: Lines, now: int) -> bytes | None:
        """See Party."""
        for at, (to, forged) in enumerate(self._forged):
            if to == contract.id:
                del self._forged[at]
                return forged
        strange = [content for to, content in self._passed if to != contract.id]
        if self.kind == "mixes up" and strange and self._random.random() < 0.3:
            self.done += 1
            return self._random.choice(strange)
        content = super().next_content(contract, now)
        if content is not None and is_tunnelled(content):
            self._passed.append((contract.id, content))
            if self.kind == "forks" and self._random.random() < 0.1:
                self.done += 1
                fork(self.node, contract.facts.own_control, now)
        return content

    def has_more(self, contract: Lines) -> bool:
        """See Party."""
        return super().has_more(contract) or any(to == contract.id for to, _ in self._forged)

    def _ready(self, contract: Lines) -> Iterator[tuple[Route, Side]]:
        for route, side in super()._ready(contract):
            if self.kind != "withholds" or side.mark < 3:
                yield route, side
            else:
                self.done += 1
