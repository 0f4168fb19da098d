"""Deliberate bugs of controlled push: what its stories must find."""

from collections.abc import Callable
from copy import copy
from typing import Any
from unittest.mock import patch

from base.units import NEVER
from forwarder.feedcache import cache, fork, items, resequencer
from forwarder.feedcache.cache import FeedCache
from forwarder.feedcache.items import Item
from forwarder.lli import consumer, forks, ranges
from forwarder.lli.backfill import Backfill
from forwarder.lli.consumer import Consumer
from forwarder.lli.credit import FixedCredit
from forwarder.lli.downstreams import Downstreams
from forwarder.lli.entry import FeedEntry
from forwarder.lli.producer import Producer
from forwarder.lli.ranges import Range, Ranges
from forwarder.lli.table import FeedTable
from forwarder.lli.upstream import Upstream
from forwarder.lli.upstreams import Upstreams
from forwarder.wire.feed import split_fork
from forwarder.wire.packet import Data, Interest
from mutants.patches import Mutants, Patch, instead, returns


def _off_by_one(original: Any, self: Ranges, face: int, first: int, lli: Interest, *rest: Any) -> Any:
    wider = copy(lli)
    if wider.send_credit:
        wider.send_credit += 1
    return original(self, face, first, wider, *rest)


def _never_rewound(original: Any, self: Ranges, face: int, *rest: Any) -> list[Data]:
    known = self.get(face)
    before = known.next if known is not None else 0
    original(self, face, *rest)
    granted = self.get(face)
    if granted is not None and granted is known:
        granted.next = max(granted.next, before)
    return []


def _shortened(
    original: Any, self: Ranges, face: int, first: int, lli: Interest, now: int, get: Any
) -> list[Data]:
    again: list[Data] = original(self, face, first, lli, now, get)
    granted = self.get(face)
    if granted is not None:
        granted.expiry = now + granted.lifetime
    return again


def _cancel_unheard(original: Any, self: Ranges, face: int, first: int, lli: Interest, *rest: Any) -> Any:
    return original(self, face, first, lli, *rest) if lli.send_credit else []


def _and_forget(original: Any, *arguments: Any, **options: Any) -> list[Any]:
    """Do it, and return something else."""
    original(*arguments, **options)
    return []


def _own_id_only(original: Any, item: Any) -> Any:
    return [(item.seq, item.id)]


def _gap_unnoticed(original: Any, self: Upstream, seq: int, now: int, *, bare: bool = False) -> None:
    original(self, seq, now, bare=bare)
    self._missing.clear()


def _given_twice(original: Any, self: Consumer, limit: int | None = None) -> list[Item]:
    taken: list[Item] = original(self, limit)
    return [*taken, *taken[-1:]] if taken and taken[-1].seq % 5 == 0 else taken


def _never_renewed(original: Any, self: Upstream, limit: int, until: int, now: int) -> Any:
    asked_before = self.limit >= self.head or self._answered_once
    return original(self, min(limit, self.limit) if asked_before else limit, until, now)


def _ranges_stay(original: Any, self: FeedTable, face: int, now: int) -> None:
    with patch.object(Ranges, "drop", lambda self, face: False):
        original(self, face, now)


def _tip_unheard(original: Any, self: Any, tip: Any, limit: Any, now: Any) -> Any:
    return original(self, 0, limit, now)


def _nonces_forgotten(original: Any, self: Upstreams, entry: Any, *rest: Any) -> None:
    original(self, entry, *rest)
    entry.nonces = ()


def _untaken_granted(original: Any, self: FixedCredit, taken: int, arrived: int, asked: int, now: int) -> Any:
    return original(self, arrived, arrived, asked, now)


def _proof_believed(original: Any, feed: bytes, data: Data) -> fork.Fork:
    try:
        return original(feed, data)  # type: ignore[no-any-return]
    except items.RejectedItem:
        nobody = Item(1, b"", None, b"", data, b"", b"", True)
        return fork.Fork(split_fork(data.name)[1], nobody, nobody)  # type: ignore[index]


def _entry_kept(original: Any, self: FeedTable, entry: Any, now: int) -> None:
    if entry.ranges:
        original(self, entry, now)
    else:
        self._timers.set(entry, NEVER)


def _met_twice(original: Any, self: Ranges, face: int, *rest: Any) -> Any:
    granted = self.get(face)
    waiting = granted.again if granted is not None else ()
    if granted is not None:
        granted.again = ()
    found = original(self, face, *rest)
    if granted is not None and granted is self.get(face):
        granted.again = (*waiting, *granted.again)
    return found


def _never_again(original: Any, self: Range, get: Callable[[int], Data | None]) -> Any:
    data = get(self.next) if self.next <= self.limit else None
    return None if data is None else (self.next, data)


def _one_further(original: Any, self: Any, first: Any) -> Any:
    return original(self, first + 1)


def _asked_once(original: Any, self: Upstream, now: int) -> Any:
    for seq in self._repaired.keys() & self._missing.keys():
        self._missing[seq] = NEVER
    return original(self, now)


def _for_all(original: Any, self: Ranges, face: int) -> bool:
    faces = [other for other, _ in self.items()]
    return [original(self, other) for other in faces] != []


def _proof_not_missed(original: Any, self: Any, entry: Any, face: int, evidence: Any, now: int) -> None:
    if evidence is not None and not evidence.proven_by(entry.evidence).is_whole:
        evidence = evidence._replace(is_signed=False)
    original(self, entry, face, evidence, now)


def _nonce_made_up(original: Any, self: Any, nonce: Any) -> Any:
    return original(self, nonce ^ 1)


def _in_step(original: Any, self: Consumer, error: str, now: int) -> None:
    refusals = self._refusals
    original(self, error, now)
    self._retry_at = now + min(250_000_000 << min(refusals, 10), consumer.MAX_RETRY)


def _backfilled_once(original: Any, self: Backfill, hops: Any, now: int) -> Any:
    for seq, asked in list(self._asked.items()):
        if asked.due <= now:
            self._asked[seq] = asked._replace(due=NEVER)
    return []


MUTANTS: Mutants = {
    "credit off by one": (instead(Ranges, "grant", _off_by_one),),
    "missed rewind": (instead(Ranges, "grant", _never_rewound),),
    "cancel unheard": (instead(Ranges, "grant", _cancel_unheard),),
    "grant shortened": (instead(Ranges, "grant", _shortened),),
    "few nonces known": (Patch(ranges, "REMEMBERED_NONCES", lambda _: 4),),
    "forgotten expiry": (Patch(Ranges, "expire", returns(result=False)),),
    "fork accepted": (
        Patch(FeedCache, "stop", returns(result=False)),
        Patch(resequencer, "dispute", returns(None)),
    ),
    "backlink unchecked": (
        instead(cache, "assertions", _own_id_only),
        instead(fork, "assertions", _own_id_only),
    ),
    "signature unchecked": (Patch(items, "check_signature", returns(None)),),
    "proof unchecked": (
        instead(forks, "open_fork", _proof_believed),
        instead(consumer, "open_fork", _proof_believed),
    ),
    "proof not missed": (instead(Upstreams, "offered", _proof_not_missed),),
    "proof not propagated": (Patch(Downstreams, "send_proof", returns(None)),),
    "cancel not passed upstream": (instead(Upstream, "cancel", _and_forget),),
    "gap ignored": (instead(Upstream, "arrived", _gap_unnoticed),),
    "duplicate delivered": (instead(Consumer, "take_items", _given_twice),),
    "renewal lost": (instead(Upstream, "want", _never_renewed),),
    "range not dropped with its face": (instead(FeedTable, "remove_face", _ranges_stay),),
    "tail-loss probe missing": (
        Patch(Upstream, "_patience", returns(NEVER // 2)),
        instead(Upstream, "answered", _tip_unheard),
    ),
    "loop not detected": (instead(Upstreams, "_send_llis", _nonces_forgotten),),
    "Nack ignored": (Patch(FeedTable, "on_nack", returns(None)), Patch(Consumer, "_on_nack", returns(None))),
    "untaken items granted again": (instead(FixedCredit, "limit", _untaken_granted),),
    "entry kept without ranges": (instead(FeedTable, "_settle", _entry_kept),),
    "producer's grants kept": (Patch(Producer, "wake", returns(None)),),
    "backfill not repeated": (instead(Backfill, "wake", _backfilled_once),),
    "past not fetched": (Patch(Backfill, "want", returns([])),),
    "wish met twice": (instead(Ranges, "grant", _met_twice),),
    "refused without a word": (Patch(Downstreams, "send_nack", returns(None)),),
    "duplicate LLI heeded": (Patch(Ranges, "is_repeated", returns(result=False)),),
    "nothing sent again": (instead(Range, "ready", _never_again),),
    "stray Nack believed": (Patch(FeedEntry, "has_sent", returns(result=True)),),
    "no second try": (
        Patch(consumer, "MAX_RETRY", lambda _: NEVER // 2),
        Patch(consumer, "_FIRST_RETRY", lambda _: NEVER // 2),
    ),
    "pulled once": (Patch(Upstream, "_pull_again", returns([])),),
    "way to the source not shown": (Patch(FeedTable, "leads_to", returns(None)),),
    "repaired once": (instead(Upstream, "_repair", _asked_once),),
    "cancel for all": (instead(Ranges, "drop", _for_all),),
    "nonce made up": (instead(FeedEntry, "sends", _nonce_made_up),),
    "begun too late": (instead(Consumer, "_new_upstream", _one_further),),
    "idle answer ignored": (Patch(FeedTable, "on_state", returns(None)),),
}
"""Bugs by name."""


COSTLY: Mutants = {
    "probes never rarer": (Patch(Upstream, "_patience", returns(50_000_000)),),
    "refused in step": (instead(Consumer, "_wait", _in_step),),
}
"""Bugs that break no invariant, since other retries make up for them. They cost time or packets."""
