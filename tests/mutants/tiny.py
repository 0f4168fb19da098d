"""Deliberate bugs of tinySSB and tinyISP: what stories must find."""

from collections.abc import Callable
from typing import Any

from mutants.patches import Mutants, Patch, instead, returns
from ssb.tiny import entry
from ssb.tiny.feed import Feed
from ssb.tiny.isp import client
from ssb.tiny.isp.contract import Contract
from ssb.tiny.isp.exchange import Exchange
from ssb.tiny.isp.lines import Lines
from ssb.tiny.isp.messages import HopFin, HopNext, write
from ssb.tiny.isp.provider import provider
from ssb.tiny.isp.provider.gate import RateGate
from ssb.tiny.isp.provider.reach import Reachability
from ssb.tiny.isp.provider.switch import Switch
from ssb.tiny.isp.terms import Terms
from ssb.tiny.memory import MemoryTables
from ssb.tiny.node import Node
from ssb.tiny.requests import OutstandingChunks
from ssb.tiny.store import TinyStore


def _never_stalls(original: Any, self: Any, *rest: Any) -> bool:
    original(self, *rest)
    return True


def _no_resume(original: Any, self: Lines, feed: bytes, entry: Any, now: int) -> None:
    before, self.write_line = self.write_line, returns(None)(None)  # type: ignore[method-assign]
    original(self, feed, entry, now)
    self.write_line = before  # type: ignore[method-assign]
    self.facts.is_broken |= len(self.facts.own_line) + 1 >= self.terms.unread


def _end_before_ack(original: Any) -> Callable[..., Any]:
    return property(lambda self: True)  # type: ignore[return-value]


def _no_bound(original: Any) -> Any:
    return property(lambda self: 1 << 60)


def _early_fin(original: Any, self: Lines, feed: bytes, entry: Any, now: int) -> Any:
    go_on = original(self, feed, entry, now)
    if entry.sequence == self.terms.size - 1 and self.facts.other_data == feed:
        self.send_command(HopFin(feed), now)
    return go_on


def _ends_early(original: Any, self: Lines, now: int) -> None:
    """End the line as soon as a farewell is heard, whatever is still to be sent."""
    facts = self.facts
    if facts.state == "farewell" and facts.own_line and not facts.line_ended and self.is_ending:
        self._node.publish(facts.own_line[-1], write(HopNext(None)), now)
        facts.line_ended = True
        self.save()
        return
    original(self, now)


def _keeps_secrets(original: Any, self: TinyStore, key: bytes) -> None:
    if self._feeds[key].identity is None if key in self._feeds else True:
        original(self, key)


def _forgets_mark(original: Any, self: MemoryTables, feed: Feed) -> None:
    mark, feed.mark = feed.mark, max(feed.mark - 1, 0) if feed.identity is None else feed.mark
    original(self, feed)
    feed.mark = mark


def _not_atomic(original: Any) -> Callable[..., Any]:
    from contextlib import contextmanager

    @contextmanager
    def transaction(self: TinyStore) -> Any:
        yield

    return transaction


def _delete_at_once(original: Any, self: Contract, now: int) -> None:
    original(self, now)
    self._words = 99
    self.terms = self.terms._replace(linger=0)


def _no_fin(original: Any, self: Contract, message: Any, now: int) -> bytes:
    return b"" if isinstance(message, HopFin) else bytes(original(self, message, now))


def _silent(original: Any, self: Node, which: Any, now: int) -> None:
    which.chunks.due = None


def _unbounded(original: Any, self: Lines, now: int) -> bool:
    terms, self.terms = self.terms, self.terms._replace(unread=99)
    try:
        return bool(original(self, now))
    finally:
        self.terms = terms


def _prunes_too_much(original: Any, self: Contract, message: Any, now: int) -> bytes:
    found: bytes = original(self, message, now)
    self._store.prune(self.facts.own_control, self._store.feeds[self.facts.own_control].sequence - 1)
    return found


def _forgets_told(original: Any, self: Reachability, contract: bytes, neighbour: bytes, clients: Any) -> Any:
    """Tell neighbours of clients, and never that they are gone."""
    return (each for each in original(self, contract, neighbour, clients) if each.path is not None)


def _no_others(original: Any, self: Switch, side: Any) -> Any:
    """Count an entry of a group's feed for one member only."""
    return [one for one in original(self, side) if one[1] is side]


MUTANTS: Mutants = {
    "proofs are not verified": (
        Patch(provider, "is_signed", returns(True)),
        Patch(client, "is_signed", returns(True)),
    ),
    "members of a group are forgotten": (instead(Switch, "_siblings", _no_others),),
    "what is lost is still told": (instead(Reachability, "updates", _forgets_told),),
    "other providers are told to pause for ever": (Patch(Switch, "_resume", returns(None)),),
    "what cannot be assigned is passed over": (
        instead(Switch, "on_data", _never_stalls),
        instead(Exchange, "on_data", _never_stalls),
    ),
    "a line ends before the farewell is agreed": (Patch(Contract, "is_ending", _end_before_ack),),
    "a line ends before all is sent": (instead(Lines, "write_line", _ends_early),),
    "a fin before the end": (instead(Lines, "_on_entry", _early_fin),),
    "no resumption": (instead(Lines, "_on_fin", _no_resume),),
    "no flow control": (instead(Lines, "_begin_feed", _unbounded),),
    "hops are not confirmed": (instead(Contract, "send_command", _no_fin),),
    "secrets are kept": (instead(TinyStore, "drop", _keeps_secrets),),
    "marks lag behind": (instead(MemoryTables, "update", _forgets_mark),),
    "no transactions": (Patch(TinyStore, "transaction", _not_atomic),),
    "no last words": (instead(Contract, "_begin_last_words", _delete_at_once),),
    "the limit of commands is unheeded": (Patch(RateGate, "take_command", returns(True)),),
    "a farewell waits for receivers": (Patch(Exchange, "_set_drop", returns(None)),),
    "routes stay": (Patch(Switch, "_clean", returns(None)),),
    "pauses unheard": (Patch(Switch, "_pause", returns(None)), Patch(Terms, "held", _no_bound)),
    "control feeds are pruned unread": (instead(Contract, "send_command", _prunes_too_much),),
    "chunks are not asked for": (instead(Node, "_request_chunks", _silent),),
    "what was asked for is never asked for again": (Patch(OutstandingChunks, "time", _no_bound),),
    "signatures are not verified": (Patch(entry, "verify", returns(True)),),
    "requests are forgotten": (Patch(Switch, "_save", returns(None)),),
}
