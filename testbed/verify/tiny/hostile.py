"""Providers that violate the tinyISP protocol in one configured way.

`testbed.layerings.tiny.hostile_client` has hostile clients.
"""

from collections.abc import Iterator
from random import Random

from ssb.keys import Identity
from ssb.tiny.entry import first_previous, sign
from ssb.tiny.isp.evidence import sign_feed
from ssb.tiny.isp.lines import Lines
from ssb.tiny.isp.messages import SubResponseIsp, is_tunnelled
from ssb.tiny.isp.provider.provider import Provider
from ssb.tiny.isp.provider.route import Route, Side
from ssb.tiny.isp.terms import Terms
from ssb.tiny.node import Node
from testbed.layerings.tiny.hostile_client import fork
from testbed.verify.tiny.story import Hostility


class HostileProvider(Provider):
    """An attacking provider.

    Args:
        node, root, random, terms, now, individual: see Provider.
        attack: the violation of the protocol.

    Attributes:
        attack: the same.
        done: number of its violations.
    """

    def __init__(
        self,
        node: Node,
        root: Identity,
        random: Random,
        terms: Terms,
        now: int,
        individual: dict[bytes, Terms] | None = None,
        *,
        attack: Hostility = "forge",
    ) -> None:
        self.attack = attack
        self.done = 0
        self._passed: list[tuple[bytes, bytes]] = []  # contract, content
        self._forged: list[tuple[bytes, bytes]] = []
        super().__init__(node, root, random, terms, now, individual)

    def _on_answer(
        self, contract: Lines, ref: bytes, feed: bytes | None, proof: bytes | None, reason: str, now: int
    ) -> None:
        route = self.routes.get(ref)
        asker = self.contracts.get(route.a.contract or b"") if route is not None else None
        if self.attack == "forge" and feed is not None and route is not None and asker is not None:
            own = self.new_identity()
            signed = sign_feed(self.root, own.public_key, route.source, route.a.feed or b"")
            asker.send_command(SubResponseIsp(ref, True, own.public_key, signed), now)
            entry, chunks = sign(own, 1, first_previous(own.public_key), b"forged")
            self._forged.append((asker.id, b"".join([entry.packet, *chunks])))
            self.contracts.changed(asker.id)
            # From now on it accepts the other client's entries without forwarding them.
            route.b.feed, route.is_open = feed, True
            route.a.contract, route.a.has_ended = None, True
            self._store.add(feed)
            self._save(route)
            self.done += 1
            return
        super()._on_answer(contract, ref, feed, proof, reason, now)

    def next_content(self, contract: Lines, now: int) -> bytes | None:
        for at, (to, forged) in enumerate(self._forged):
            if to == contract.id:
                del self._forged[at]
                return forged
        strange = [content for to, content in self._passed if to != contract.id]
        if self.attack == "mix" and strange and self._random.random() < 0.3:
            self.done += 1
            return self._random.choice(strange)
        content = super().next_content(contract, now)
        if content is not None and is_tunnelled(content):
            self._passed.append((contract.id, content))
            if self.attack == "fork" and self._random.random() < 0.1:
                self.done += 1
                fork(self.node, contract.facts.own_control, now)
        return content

    def has_more(self, contract: Lines) -> bool:
        return super().has_more(contract) or any(to == contract.id for to, _ in self._forged)

    def _ready(self, contract: Lines) -> Iterator[tuple[Route, Side]]:
        for route, side in super()._ready(contract):
            if self.attack != "withhold" or side.mark < 3:
                yield route, side
            else:
                self.done += 1
