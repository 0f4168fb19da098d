"""Deliberate bugs in the rules about sources: evidence, scouts, waiting, Hellos."""

from collections.abc import Callable
from typing import Any

from forwarder.lli import neighbours
from forwarder.lli.downstreams import Downstreams
from forwarder.lli.entry import FeedEntry
from forwarder.lli.neighbours import Neighbour, Neighbours, News
from forwarder.lli.producer import Producer
from forwarder.lli.table import FeedTable
from forwarder.lli.upstream import Upstream
from forwarder.lli.upstreams import Upstreams
from forwarder.wire.evidence import Evidence
from testbed.verify.simulate.mutants import Patch, returns


def _not_strictly(original: Any) -> Callable[..., Any]:
    return lambda self, other: original(self, other) or self == other


def _no_hop_more(original: Any) -> Any:
    return property(lambda self: self)


def _evidence_lost(original: Any) -> Callable[..., Any]:
    def lose(self: Upstreams, entry: FeedEntry, now: int) -> None:
        entry.evidence = None
        original(self, entry, now)

    return lose


def _said_once(original: Any) -> Callable[..., Any]:
    def ask(self: Neighbours, neighbour: Neighbour, now: int, **options: bool) -> None:
        original(self, neighbour, now, **options)
        if neighbour.pending_notices and not neighbour.pending_checks and not neighbour.renews:
            self._give_up(neighbour)

    return ask


def _granting_end_unmoved(original: Any) -> Callable[..., Any]:
    def on_hello(self: Neighbours, *arguments: Any) -> News:
        news: News = original(self, *arguments)
        news.renewed = []
        return news

    return on_hello


def _death_untold(original: Any) -> Callable[..., Any]:
    def wake(self: Neighbours, now: int) -> list[Neighbour]:
        original(self, now)
        return []

    return wake


def _always_heard(original: Any) -> Callable[..., Any]:
    def wake(self: Neighbours, now: int) -> list[Neighbour]:
        for neighbour in self._neighbours.values():
            neighbour.agreed_at = now
        return original(self, now)  # type: ignore[no-any-return]

    return wake


def _first_number(original: Any) -> Callable[..., Any]:
    return lambda self, number: original(self, 1)


def _all_forgotten(original: Any) -> Callable[..., Any]:
    def remember(self: FeedEntry, before: FeedEntry) -> None:
        original(self, before)
        self.evidence = None

    return remember


SOURCE_MUTANTS: dict[str, tuple[Patch, ...]] = {
    "evidence not compared": (Patch(Evidence, "beats", returns(result=True)),),
    "evidence as good taken": (Patch(Evidence, "beats", _not_strictly),),
    "hops not counted": (Patch(Evidence, "onward", _no_hop_more),),
    "evidence lost with the source": (Patch(Upstreams, "_lose", _evidence_lost),),
    "evidence lost with the entry": (Patch(FeedEntry, "remember", _all_forgotten),),
    "scouts not sent": (Patch(Upstreams, "_send_scout", returns(None)),),
    "waiting not told": (Patch(Downstreams, "tell", returns(None)),),
    "digest not compared": (Patch(neighbours, "digest", returns(bytes(8))),),
    "haves not compared": (Patch(Neighbours, "_compare", returns([])),),
    "death not told": (Patch(Neighbours, "wake", _death_untold),),
    "silence unnoticed": (Patch(Neighbours, "wake", _always_heard),),
    "changes not followed": (Patch(Upstreams, "recheck", returns(None)),),
    "the next hop is not left": (Patch(Upstreams, "leave", returns(None)),),
    "what was forgotten not asked for": (Patch(Upstream, "forgotten", returns(None)),),
    "routes' changes unheard": (Patch(FeedTable, "routes_changed", returns(None)),),
}
"""Bugs by name."""


SOURCE_COSTLY: dict[str, tuple[Patch, ...]] = {
    "demand not passed on": (Patch(Upstreams, "demand_if_needed", returns(None)),),
    "demand not made": (Patch(Upstream, "demand", returns([])),),
    "demand not met": (Patch(Producer, "_issued", _first_number),),
    "checks not made": (Patch(Neighbours, "check", returns(None)),),
    "notice not repeated": (Patch(Neighbours, "_ask", _said_once),),
    "renewals that the holder alone believes": (Patch(Neighbours, "on_hello", _granting_end_unmoved),),
    "has_it missing": (Patch(Downstreams, "has_it", returns(None)),),
    "silent hops not pulled from": (Patch(Upstream, "assume_legacy", returns(None)),),
    "who pushes not gone on with": (Patch(Upstreams, "delivered", returns(None)),),
}
"""As COSTLY."""
