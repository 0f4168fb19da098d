"""Deliberate bugs of the name service and its clients: what stories of them must find."""

from typing import Any

from forwarder.feedcache.items import RejectedItem, parse_item
from forwarder.wire.packet import Data
from mutants.patches import Mutants, Patch, instead, returns
from ssb_over_ndn.following.inbox import Inbox
from ssb_over_ndn.mapping import record, resolver
from ssb_over_ndn.mapping.device import Device
from ssb_over_ndn.mapping.messages import make_query
from ssb_over_ndn.mapping.reader import Directed
from ssb_over_ndn.mapping.record import Ledger, Record, open_record
from ssb_over_ndn.mapping.resolver import Resolver
from ssb_over_ndn.mapping.server import NameServer


def _replayed(original: Any, self: Ledger, data: Data, author: str, now: int) -> Record | None:
    self._records.pop(author, None)
    taken: Record | None = original(self, data, author, now)
    return taken


def _hijacked(original: Any, self: Ledger, data: Data, author: str, now: int) -> Record | None:
    try:
        found = open_record(data, now)
    except record.RefusedRecord:
        return None
    self._records[author] = found
    return found


def _trusting(original: Any, self: Inbox, seq: int, data: Data) -> Any:
    try:
        return parse_item(self.feed, seq, data)
    except RejectedItem:
        return None


def _never_renewed(original: Any, self: Device, *rest: Any) -> None:
    original(self, *rest)
    self._renew_at = None


def _sent_once(original: Any, self: Device, seq: int, now: int, *, is_again: bool = False) -> None:
    if is_again:
        self._flying[seq].due = 1 << 62
    else:
        original(self, seq, now)


def _kept_for_ever(original: Any, self: Resolver, packet: bytes, now: int) -> bool:
    taken: bool = original(self, packet, now)
    for author, question in self._wanted.items():
        if question.sent is None and self._ledger.newest(next(iter(self._wanted))) is not None:
            self._timers.set(author, 1 << 62)
    return taken


def _stays(original: Any, self: Directed, now: int) -> None:
    if not self._place:
        original(self, now)


MUTANTS: Mutants = {
    "signatures unchecked": (Patch(record, "verify", returns(True)),),
    "replays believed": (instead(Ledger, "add", _replayed),),
    "another id's record believed": (instead(Ledger, "add", _hijacked),),
    "records that expire are kept": (Patch(NameServer, "wake", returns(None)),),
    "items stored unverified": (instead(Inbox, "open", _trusting),),
    "records not renewed": (instead(Device, "_on_answer", _never_renewed),),
    "uploads sent once": (instead(Device, "_upload", _sent_once),),
    "places never asked for again": (instead(Resolver, "receive", _kept_for_ever),),
    "caches always asked": (Patch(resolver, "make_direct_query", lambda _: make_query),),
    "readers stay at the first place": (instead(Directed, "_update_place", _stays),),
    "places kept that nobody wants": (Patch(Resolver, "forget", returns(None)),),
}
"""By name."""
