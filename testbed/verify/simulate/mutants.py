"""Deliberate bugs: what the simulation must find, or it proves nothing when it finds nothing.

Each is a patch of one or two methods of the real code, in force while `mutated(name)` is.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from copy import copy
from typing import Any, NamedTuple
from unittest.mock import patch

from base.units import NEVER
from forwarder.feedcache import cache, fork, items, resequencer
from forwarder.feedcache.cache import FeedCache
from forwarder.feedcache.items import Item
from forwarder.lli import consumer, forks
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

Make = Callable[[Any], Any]


class Patch(NamedTuple):
    """Replaces `owner.name` by what `make` makes of it."""

    owner: Any
    name: str
    make: Make


def _off_by_one(original: Any) -> Callable[..., Any]:
    def grant(self: Ranges, face: int, first: int, lli: Interest, *rest: Any) -> Any:
        wider = copy(lli)
        if wider.send_credit:
            wider.send_credit += 1
        return original(self, face, first, wider, *rest)

    return grant


def _never_rewound(original: Any) -> Callable[..., Any]:
    def grant(self: Ranges, face: int, *rest: Any) -> list[Data]:
        known = self.get(face)
        before = known.next if known is not None else 0
        original(self, face, *rest)
        granted = self.get(face)
        if granted is not None and granted is known:
            granted.next = max(granted.next, before)
        return []

    return grant


def _cancel_unheard(original: Any) -> Callable[..., Any]:
    def grant(self: Ranges, face: int, first: int, lli: Interest, *rest: Any) -> Any:
        return original(self, face, first, lli, *rest) if lli.send_credit else []

    return grant


def returns(result: Any) -> Make:
    """Do nothing, and return this."""
    return lambda original: lambda *_, **__: result


def _and_forget(result: Any) -> Make:
    """Do it, and return something else."""

    def make(original: Any) -> Callable[..., Any]:
        def method(*arguments: Any, **options: Any) -> Any:
            original(*arguments, **options)
            return result

        return method

    return make


def _own_id_only(original: Any) -> Callable[..., Any]:
    return lambda item: [(item.seq, item.id)]


def _gap_unnoticed(original: Any) -> Callable[..., Any]:
    def arrived(self: Upstream, seq: int, now: int, *, bare: bool = False) -> None:
        original(self, seq, now, bare=bare)
        self._missing.clear()

    return arrived


def _given_twice(original: Any) -> Callable[..., Any]:
    def take_items(self: Consumer, limit: int | None = None) -> list[Item]:
        taken: list[Item] = original(self, limit)
        return [*taken, *taken[-1:]] if taken and taken[-1].seq % 5 == 0 else taken

    return take_items


def _never_renewed(original: Any) -> Callable[..., Any]:
    def want(self: Upstream, limit: int, until: int, now: int) -> Any:
        asked_before = self.limit >= self.head or self._answered_once
        return original(self, min(limit, self.limit) if asked_before else limit, until, now)

    return want


def _ranges_stay(original: Any) -> Callable[..., Any]:
    def drop(self: Ranges, face: int) -> bool:
        return False

    def remove_face(self: FeedTable, face: int, now: int) -> None:
        with patch.object(Ranges, "drop", drop):
            original(self, face, now)

    return remove_face


def _tip_unheard(original: Any) -> Callable[..., Any]:
    return lambda self, tip, limit, now: original(self, 0, limit, now)


def _nonces_forgotten(original: Any) -> Callable[..., Any]:
    def send_llis(self: Upstreams, entry: Any, *rest: Any) -> None:
        original(self, entry, *rest)
        entry.nonces = ()

    return send_llis


def _untaken_granted(original: Any) -> Callable[..., Any]:
    def limit(self: FixedCredit, taken: int, arrived: int, asked: int, now: int) -> Any:
        return original(self, arrived, arrived, asked, now)

    return limit


def _proof_believed(original: Any) -> Callable[..., Any]:
    def open_fork(feed: bytes, data: Data) -> fork.Fork:
        try:
            return original(feed, data)  # type: ignore[no-any-return]
        except items.RejectedItem:
            nobody = Item(1, b"", None, b"", data, b"", b"", True)
            return fork.Fork(split_fork(data.name)[1], nobody, nobody)  # type: ignore[index]

    return open_fork


def _entry_kept(original: Any) -> Callable[..., Any]:
    def settle(self: FeedTable, entry: Any, now: int) -> None:
        if entry.ranges:
            original(self, entry, now)
        else:
            self._timers.set(entry, NEVER)

    return settle


def _met_twice(original: Any) -> Callable[..., Any]:
    def grant(self: Ranges, face: int, *rest: Any) -> Any:
        granted = self.get(face)
        waiting = granted.again if granted is not None else ()
        if granted is not None:
            granted.again = ()
        found = original(self, face, *rest)
        if granted is not None and granted is self.get(face):
            granted.again = (*waiting, *granted.again)
        return found

    return grant


def _never_again(original: Any) -> Callable[..., Any]:
    def ready(self: Range, get: Callable[[int], Data | None]) -> Any:
        data = get(self.next) if self.next <= self.limit else None
        return None if data is None else (self.next, data)

    return ready


def _one_further(original: Any) -> Callable[..., Any]:
    return lambda self, first: original(self, first + 1)


def _asked_once(original: Any) -> Callable[..., Any]:
    def repair(self: Upstream, now: int) -> Any:
        for seq in self._repaired.keys() & self._missing.keys():
            self._missing[seq] = NEVER
        return original(self, now)

    return repair


def _for_all(original: Any) -> Callable[..., Any]:
    def drop(self: Ranges, face: int) -> bool:
        faces = [other for other, _ in self.items()]
        return [original(self, other) for other in faces] != []

    return drop


def _nonce_made_up(original: Any) -> Callable[..., Any]:
    return lambda self, nonce: original(self, nonce ^ 1)


def _in_step(original: Any) -> Callable[..., Any]:
    def wait(self: Consumer, error: str, now: int) -> None:
        refusals = self._refusals
        original(self, error, now)
        self._retry_at = now + min(250_000_000 << min(refusals, 10), consumer.MAX_RETRY)

    return wait


def _backfilled_once(original: Any) -> Callable[..., Any]:
    def wake(self: Backfill, hops: Any, now: int) -> Any:
        for seq, asked in list(self._asked.items()):
            if asked.due <= now:
                self._asked[seq] = asked._replace(due=NEVER)
        return []

    return wake


MUTANTS: dict[str, tuple[Patch, ...]] = {
    "credit off by one": (Patch(Ranges, "grant", _off_by_one),),
    "missed rewind": (Patch(Ranges, "grant", _never_rewound),),
    "cancel unheard": (Patch(Ranges, "grant", _cancel_unheard),),
    "forgotten expiry": (Patch(Ranges, "expire", returns(result=False)),),
    "fork accepted": (
        Patch(FeedCache, "stop", returns(result=False)),
        Patch(resequencer, "dispute", returns(None)),
    ),
    "backlink unchecked": (
        Patch(cache, "assertions", _own_id_only),
        Patch(fork, "assertions", _own_id_only),
    ),
    "signature unchecked": (Patch(items, "check_signature", returns(None)),),
    "proof unchecked": (
        Patch(forks, "open_fork", _proof_believed),
        Patch(consumer, "open_fork", _proof_believed),
    ),
    "proof not propagated": (Patch(Downstreams, "send_proof", returns(None)),),
    "cancel not passed upstream": (Patch(Upstream, "cancel", _and_forget([])),),
    "gap ignored": (Patch(Upstream, "arrived", _gap_unnoticed),),
    "duplicate delivered": (Patch(Consumer, "take_items", _given_twice),),
    "renewal lost": (Patch(Upstream, "want", _never_renewed),),
    "range not dropped with its face": (Patch(FeedTable, "remove_face", _ranges_stay),),
    "tail-loss probe missing": (
        Patch(Upstream, "_patience", returns(NEVER // 2)),
        Patch(Upstream, "answered", _tip_unheard),
    ),
    "loop not detected": (Patch(Upstreams, "_send_llis", _nonces_forgotten),),
    "Nack ignored": (
        Patch(FeedTable, "on_nack", returns(None)),
        Patch(Consumer, "_on_nack", returns(None)),
    ),
    "untaken items granted again": (Patch(FixedCredit, "limit", _untaken_granted),),
    "entry kept without ranges": (Patch(FeedTable, "_settle", _entry_kept),),
    "producer's grants kept": (Patch(Producer, "wake", returns(None)),),
    "backfill not repeated": (Patch(Backfill, "wake", _backfilled_once),),
    "past not fetched": (Patch(Backfill, "want", returns([])),),
    "wish met twice": (Patch(Ranges, "grant", _met_twice),),
    "refused without a word": (Patch(Downstreams, "send_nack", returns(None)),),
    "duplicate LLI heeded": (Patch(Ranges, "is_repeated", returns(result=False)),),
    "nothing sent again": (Patch(Range, "ready", _never_again),),
    "stray Nack believed": (Patch(FeedEntry, "has_sent", returns(result=True)),),
    "no second try": (
        Patch(consumer, "MAX_RETRY", lambda _: NEVER // 2),
        Patch(consumer, "_FIRST_RETRY", lambda _: NEVER // 2),
    ),
    "pulled once": (Patch(Upstream, "_pull_again", returns([])),),
    "repaired once": (Patch(Upstream, "_repair", _asked_once),),
    "cancel for all": (Patch(Ranges, "drop", _for_all),),
    "nonce made up": (Patch(FeedEntry, "sends", _nonce_made_up),),
    "begun too late": (Patch(Consumer, "_new_upstream", _one_further),),
    "idle answer ignored": (Patch(FeedTable, "on_state", returns(None)),),
}
"""Bugs by name."""


COSTLY: dict[str, tuple[Patch, ...]] = {
    "probes never rarer": (Patch(Upstream, "_patience", returns(50_000_000)),),
    "refused in step": (Patch(Consumer, "_wait", _in_step),),
}
"""Bugs that break no invariant, since other retries make up for them. They cost time or packets."""


@contextmanager
def mutated(name: str, mutants: Mapping[str, tuple[Patch, ...]] = MUTANTS) -> Iterator[None]:
    """Put a bug into the code for as long as the context lasts."""
    with ExitStack() as stack:
        for owner, attribute, make in mutants[name]:
            stack.enter_context(patch.object(owner, attribute, make(getattr(owner, attribute))))
        stack.callback(items.forget_all)  # what was believed under a bug is not to be believed after it
        items.forget_all()
        yield
