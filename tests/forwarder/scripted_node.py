"""A forwarder, and short words for what goes in and comes out of it."""

import pickle
from random import Random
from typing import Any

from forwarder.forwarder import Forwarder
from forwarder.strategies.strategy import Strategy
from forwarder.wire.lp import make_lp, parse_lp
from forwarder.wire.name import from_uri, to_uri
from forwarder.wire.packet import INTEREST, make_data, make_interest, parse_data, parse_interest

REASONS = {0: "", 50: " congestion", 100: " duplicate", 150: " no-route"}


class Node:
    """Network faces 1 to 4, a local application behind face 9, and a time that only wait() moves on."""

    def __init__(self, *, strategy: type[Strategy] | None = None, **options: Any) -> None:
        self.core = Forwarder(rng=Random(1), strategy=strategy, **options)
        for face in (1, 2, 3, 4):
            self.core.add_face(face)
        self.core.add_face(9, local=True)
        self.now = 0

    def route(self, prefix: str, *faces: int) -> None:
        """Add routes through faces, in order of cost."""
        for cost, face in enumerate(faces):
            self.core.fib.add(from_uri(prefix), face, cost)

    def receive(self, face: int, packet: bytes) -> list[str]:
        """Hand in a packet; return what is sent."""
        self.core.receive(face, packet, self.now)
        return self.sent()

    def interest(
        self, face: int, uri: str, nonce: int, token: bytes | None = None, **fields: Any
    ) -> list[str]:
        packet = interest(uri, nonce, **fields)
        return self.receive(face, packet if token is None else make_lp(packet, pit_token=token))

    def data(self, face: int, uri: str, **fields: Any) -> list[str]:
        return self.receive(face, make_data(from_uri(uri), b"", **fields))

    def nack(self, face: int, uri: str, nonce: int, reason: int = 150, **fields: Any) -> list[str]:
        return self.receive(face, make_lp(interest(uri, nonce, **fields), nack_reason=reason))

    def wait(self, ns: int) -> list[str]:
        """Let time pass, waking up whenever that is due; return what is sent."""
        end = self.now + ns
        while (deadline := self.core.next_deadline()) is not None and deadline <= end:
            self.now = max(self.now, deadline)
            self.core.wake(self.now)
        self.now = end
        return self.sent()

    def sent(self) -> list[str]:
        """What is to be sent: "<face> interest|data|nack <name> ..." of each packet."""
        return [f"{face} {described(packet)}" for face, packet in self.core.take_outputs()]

    def state(self) -> bytes:
        """All there is to this node, as bytes to compare, but for its count of malformed packets."""
        malformed, self.core.counters.malformed = self.core.counters.malformed, 0
        self.core._now = 0
        try:
            return pickle.dumps(self.core)
        finally:
            self.core.counters.malformed = malformed


def interest(uri: str, nonce: int, **fields: Any) -> bytes:
    return make_interest(from_uri(uri), nonce=nonce, **fields)


def described(packet: bytes) -> str:
    lp = parse_lp(packet)
    token = "" if lp.pit_token is None else f" token={lp.pit_token.decode(errors='replace')}"
    if not lp.fragment:
        return f"state tip={lp.tip} limit={lp.limit}"
    if lp.fragment[0] != INTEREST:
        return f"data {to_uri(parse_data(lp.fragment).name)}{token}"
    sent = parse_interest(lp.fragment)
    hops = "" if sent.hop_limit is None else f" hops={sent.hop_limit}"
    if lp.nack_reason is None:
        return f"interest {to_uri(sent.name)} nonce={sent.nonce}{hops}{token}"
    return f"nack {to_uri(sent.name)} nonce={sent.nonce}{hops}{REASONS.get(lp.nack_reason)}{token}"
