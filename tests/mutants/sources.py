"""Deliberate bugs in the rules about sources: evidence, scouts, waiting, Hellos."""

from typing import Any

from forwarder.lli import neighbours
from forwarder.lli.downstreams import Downstreams
from forwarder.lli.entry import FeedEntry
from forwarder.lli.neighbours import Neighbour, Neighbours, News
from forwarder.lli.producer import Producer
from forwarder.lli.ranges import Ranges
from forwarder.lli.table import FeedTable
from forwarder.lli.upstream import Lli, Upstream
from forwarder.lli.upstreams import Upstreams
from forwarder.wire.evidence import Evidence
from forwarder.wire.hello import Hello, Standing
from forwarder.wire.packet import SENT_HOP_LIMIT
from mutants.patches import Mutants, Patch, instead, returns


def _not_strictly(original: Any, self: Any, other: Any) -> Any:
    return original(self, other) or self == other


def _no_hop_more(original: Any) -> Any:
    return property(lambda self: self)


def _evidence_lost(original: Any, self: Upstreams, entry: FeedEntry, now: int) -> None:
    entry.evidence = None
    original(self, entry, now)


def _said_once(original: Any, self: Neighbours, neighbour: Neighbour, now: int, **options: bool) -> None:
    original(self, neighbour, now, **options)
    if neighbour.pending_notices and not neighbour.pending_checks and not neighbour.renews:
        self._give_up(neighbour)


def _granting_end_unmoved(original: Any, self: Neighbours, *arguments: Any) -> News:
    news: News = original(self, *arguments)
    news.renewed = []
    return news


def _death_untold(original: Any, self: Neighbours, now: int) -> list[Neighbour]:
    original(self, now)
    return []


def _always_heard(original: Any, self: Neighbours, now: int) -> list[Neighbour]:
    for neighbour in self._neighbours.values():
        neighbour.agreed_at = now
    return original(self, now)  # type: ignore[no-any-return]


def _held_by_whoever_brings_it(
    original: Any, self: FeedTable, entry: FeedEntry, face: int, item: Any, *more: Any
) -> None:
    self._downstreams.has_it(entry, face, item.seq)
    original(self, entry, face, item, *more)


def _first_number(original: Any, self: Any, number: Any) -> Any:
    return original(self, 1)


def _all_forgotten(original: Any, self: FeedEntry, before: FeedEntry) -> None:
    original(self, before)
    self.evidence = None


def _silence_forgotten(original: Any, self: Upstreams, entry: FeedEntry, face: int) -> None:
    entry.muted.clear()
    original(self, entry, face)


def _answer_of_another(original: Any, self: Upstream, now: int) -> list[Lli]:
    llis: list[Lli] = original(self, now)
    self._rtt.owed_until = 0
    return llis


def _late_replies_unmeasured(original: Any, self: Neighbours, face: int, hello: Hello, now: int) -> News:
    neighbour = self.of(face)
    neighbour.pending = {n: at for n, at in neighbour.pending.items() if n == neighbour.number}
    news: News = original(self, face, hello, now)
    return news


def _any_lease_whole(original: Any, self: Upstream, limit: int, until: int, now: int) -> list[Lli]:
    llis: list[Lli] = original(self, limit, until, now)
    self._lease = 0
    self._schedule()
    return llis


def _missing_not_named(original: Any, self: Neighbour, reference: bytes) -> Standing:
    entry = self.held.get(reference)
    holder = None if entry is None else entry.holder(self.face)
    if holder is not None and holder.head > holder.limit:
        return Standing(reference)
    standing: Standing = original(self, reference)
    return standing


SOURCE_MUTANTS: Mutants = {
    "missing items not named": (instead(Neighbour, "have", _missing_not_named),),
    "evidence not compared": (Patch(Evidence, "beats", returns(result=True)),),
    "evidence as good taken": (instead(Evidence, "beats", _not_strictly),),
    "hops not counted": (Patch(Evidence, "onward", _no_hop_more),),
    "evidence lost with the source": (instead(Upstreams, "_lose", _evidence_lost),),
    "evidence lost with the entry": (instead(FeedEntry, "remember", _all_forgotten),),
    "scouts not sent": (Patch(Upstreams, "_send_scout", returns(None)),),
    "waiting not told": (Patch(Downstreams, "announce", returns(None)),),
    "digest not compared": (Patch(neighbours, "digest", returns(bytes(8))),),
    "haves not compared": (Patch(Neighbours, "_compare", returns([])),),
    "death not told": (instead(Neighbours, "wake", _death_untold),),
    "silence unnoticed": (instead(Neighbours, "wake", _always_heard),),
    "silent hops forgotten": (instead(Upstreams, "delivered", _silence_forgotten),),
    "round trip of another answer": (
        instead(Upstream, "cancel", _answer_of_another),
        instead(Neighbours, "on_hello", _late_replies_unmeasured),
    ),
    "what comes by name taken for pushed": (instead(FeedTable, "_take", _held_by_whoever_brings_it),),
    "hop limits not counted": (Patch(Ranges, "hop_limit", returns(SENT_HOP_LIMIT)),),
    "who alone asks is asked": (instead(Ranges, "hop_limit", lambda original, self, *_: original(self)),),
    "changes not followed": (Patch(Upstreams, "recheck", returns(None)),),
    "the next hop is not left": (Patch(Upstreams, "leave", returns(None)),),
    "what was forgotten not asked for": (Patch(Upstream, "forgotten", returns(None)),),
    "routes' changes unheard": (Patch(FeedTable, "routes_changed", returns(None)),),
}
"""Bugs by name."""


SOURCE_COSTLY: Mutants = {
    "rest of a lifetime renewed": (instead(Upstream, "want", _any_lease_whole),),
    "demand not passed on": (Patch(Upstreams, "demand_if_needed", returns(None)),),
    "demand not made": (Patch(Upstream, "demand", returns([])),),
    "demand not met": (instead(Producer, "_issued", _first_number),),
    "checks not made": (Patch(Neighbours, "check", returns(None)),),
    "notice not repeated": (instead(Neighbours, "_ask", _said_once),),
    "renewals that the holder alone believes": (instead(Neighbours, "on_hello", _granting_end_unmoved),),
    "silent hops not pulled from": (Patch(Upstream, "assume_legacy", returns(None)),),
    "who pushes not gone on with": (Patch(Upstreams, "delivered", returns(None)),),
}
"""As COSTLY."""
