"""Deliberate bugs of participants: what stories of providers must find."""

from collections.abc import Callable
from typing import Any

from base.passive import PassiveApplication
from forwarder.tables.content_store import ContentStore
from mutants.patches import Mutants, Patch, instead, returns
from ndn_over_ssb import routes
from ndn_over_ssb.contract import Contract
from ndn_over_ssb.line import Line
from ndn_over_ssb.links import Links
from ssb.message import Message


def _again(original: Any, self: Line, message: Message, now: int, now_ms: float) -> list[bytes]:
    if message.author in self.reads:
        self._position = 0
    packets: list[bytes] = original(self, message, now, now_ms)
    return packets


def _first_epoch(original: Any) -> Callable[..., Any]:
    def epoch(self: Contract) -> int:
        return min(int(original.fget(self)), 0)

    return property(epoch)  # type: ignore[return-value]


def _kept(original: Any, self: Line, feed: str) -> None:
    self._peer.replication.forget(feed)


def _no_ways(original: Any, node: str, *rest: Any) -> Any:
    return {prefix: ways[:0] for prefix, ways in original(node, *rest).items()}


def _silent_hop(original: Any, self: Line) -> None:
    original(self)
    self._owes_read = False


MUTANTS: Mutants = {
    "messages read twice": (instead(Line, "receive", _again),),
    "no new epoch": (Patch(Contract, "epoch", _first_epoch),),
    "feeds read are kept": (instead(Line, "_remove", _kept),),
    "nothing is acknowledged": (instead(Line, "_advance", _silent_hop),),
    "no routes": (instead(routes, "find_ways", _no_ways),),
    "caches keep what was revoked": (Patch(ContentStore, "erase", returns(0)),),
    "lines stay when contracts end": (Patch(Links, "close", returns(None)),),
    "any rate": (Patch(Links, "charge", returns(True)),),
    "a delegated prefix is its giver's": (Patch(routes, "_Nowhere", lambda _: PassiveApplication),),
}
