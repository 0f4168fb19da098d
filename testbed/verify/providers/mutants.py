"""Deliberate bugs of participants: what stories of providers must find."""

from collections.abc import Callable
from typing import Any

from forwarder.tables.content_store import ContentStore
from ndn_over_ssb import routes
from ndn_over_ssb.contract import Contract
from ndn_over_ssb.line import Line
from ndn_over_ssb.links import Links
from ssb.message import Message
from testbed.verify.simulate.mutants import Patch, returns


def _again(original: Any) -> Callable[..., Any]:
    def take(self: Line, message: Message, now: int, now_ms: float) -> list[bytes]:
        if message.author in self.reads:
            self._position = 0
        packets: list[bytes] = original(self, message, now, now_ms)
        return packets

    return take


def _first_epoch(original: Any) -> Callable[..., Any]:
    def epoch(self: Contract) -> int:
        return min(int(original.fget(self)), 0)

    return property(epoch)  # type: ignore[return-value]


def _kept(original: Any) -> Callable[..., Any]:
    def remove(self: Line, feed: str) -> None:
        self._peer.replication.forget(feed)

    return remove


def _no_ways(original: Any) -> Callable[..., Any]:
    def find(node: str, *rest: Any) -> Any:
        return {prefix: ways[:0] for prefix, ways in original(node, *rest).items()}

    return find


def _silent_hop(original: Any) -> Callable[..., Any]:
    def hop(self: Line) -> None:
        original(self)
        self._owes_read = False

    return hop


class _Silent:
    """Answers nothing."""

    def receive(self, packet: bytes, now: int) -> None:
        """See Application."""

    def take_outputs(self) -> list[bytes]:
        """See Application."""
        return []

    def next_deadline(self) -> int | None:
        """See Application."""
        return None

    def wake(self, now: int) -> None:
        """See Application."""


MUTANTS: dict[str, tuple[Patch, ...]] = {
    "messages read twice": (Patch(Line, "take", _again),),
    "no new epoch": (Patch(Contract, "epoch", _first_epoch),),
    "feeds read are kept": (Patch(Line, "_remove", _kept),),
    "nothing is acknowledged": (Patch(Line, "_advance", _silent_hop),),
    "no routes": (Patch(routes, "find_ways", _no_ways),),
    "caches keep what was revoked": (Patch(ContentStore, "erase", returns(0)),),
    "lines stay when contracts end": (Patch(Links, "close", returns(None)),),
    "any rate": (Patch(Links, "charge", returns(True)),),
    "a delegated prefix is its giver's": (Patch(routes, "_Nowhere", lambda original: _Silent),),
}
