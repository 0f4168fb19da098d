"""Deliberate bugs of peers: what stories of swarms must find."""

from collections.abc import Iterable
from typing import Any

from mutants.patches import Mutants, Patch, instead, returns
from ssb.canonical import Value
from ssb.detached import opened, requested_by
from ssb.message import Message
from ssb.peer.connections import Connections
from ssb.peer.scheduler import Scheduler
from ssb.peer.services import Services
from ssb.replication import blobs
from ssb.replication.blobs import Blobs
from ssb.replication.ebt import Ebt
from ssb.replication.loose import Loose
from ssb.replication.rungs import hub
from ssb.replication.rungs.flood import Flood
from ssb.replication.rungs.gossip import Gossip
from ssb.replication.rungs.hub import Hub
from ssb.replication.rungs.rung import Rung, Session
from ssb.replication.session import Selection
from ssb.replication.session import Session as EbtSession
from ssb.replication.sources import Sources
from ssb.store import admission, contents
from ssb.store.admission import Changes
from ssb.store.blobs import Incoming
from ssb.store.contents import Contents
from ssb.store.memory import MemoryFeeds


def _told_again(original: Any, self: Ebt) -> list[Message]:
    stored: list[Message] = original(self)
    return [*stored, *stored[-1:]]


def _eager_only(original: Any, self: EbtSession, feed: str, due: int) -> None:
    exchange = self.exchanges[feed]
    if exchange.noted is None or exchange.receives:
        original(self, feed, due)


def _as_sent(original: Any, self: Ebt, number: int, *rest: Any) -> list[bytes]:
    bodies: list[bytes] = original(self, number, *rest)
    session = self.sessions[number]
    for feed, exchange in session.exchanges.items():
        session.clock[feed] = max(exchange.sent, session.clock.get(feed, 0))
    return bodies


def _one_less(original: Any, self: MemoryFeeds, feed: str, sequence: int, limit: int) -> Any:
    return original(self, feed, sequence + (sequence > 2), limit)


def _late_wish(original: Any, self: Ebt, feeds: Iterable[str], now: int) -> None:
    if self.sessions:
        self._wanted |= dict.fromkeys(feeds)
    else:
        original(self, feeds, now)


def _no_proof(original: Any, self: MemoryFeeds, changes: Changes) -> None:
    changes.forks.clear()
    original(self, changes)


def _forever(original: Any, self: Scheduler, peer: str, *rest: Any) -> None:
    original(self, peer, *rest)
    self.remove(peer)


def _record_as_sent(original: Any, self: Gossip, session: Session, feed: str, number: int) -> None:
    session.clock[feed] = number


def _whatever(original: Any, self: Loose, id_: str, value: Value, received: float) -> None:
    if id_ in self._wanted:
        message = Message.from_value(value)
        self._feeds.add_out_of_order(message, received)
        self._end(id_, message)


def _told_for_ever(original: Any, self: Loose, id_: str) -> None:
    original(self, id_)
    for session in self._sessions.values():
        session.news |= {id_: self._wanted[id_]} if id_ in self._wanted else {}


def _told_to_those_here(original: Any, self: Loose, number: int, remote: str) -> None:
    original(self, number, remote)
    self._sessions[number].news.clear()


def _asked_by_anybody(original: Any, self: Contents, message: Message) -> None:
    original(self, message)
    for named in requested_by(message):
        if named in self._claims:
            self.drop(named)


def _dropped_for_all(original: Any, self: Contents, id_: str) -> None:
    self._live[self._claims[id_]] = 1
    original(self, id_)


def _blobs_told_to_those_here(original: Any, self: Blobs, number: int) -> None:
    original(self, number)
    self._sessions[number].news.clear()


def _any_hash(original: Any, self: Incoming, store: Any, digest: bytes | None, max_size: int) -> None:
    original(self, store, None, max_size)


def _still_counted(original: Any, self: Incoming) -> None:
    self._store.used += self.size if self._is_open else 0
    original(self)


RUNG_MUTANTS: Mutants = {
    "records of what was sent": (instead(Gossip, "_on_sent", _record_as_sent),),
    "ignored for ever": (Patch(Gossip, "want_all", returns(None)),),
    "the hub believes its record": (Patch(hub, "_holdings", returns([])), Patch(Hub, "_has", returns(True))),
    "the hub passes nothing on": (Patch(Hub, "_forward", returns(None)),),
    "floods stay at the author": (Patch(Flood, "_forward", returns(None)),),
    "closed and kept": (Patch(Rung, "close", returns(None)),),
    "calls of others closed": (Patch(Connections, "_is_ours", returns(True)),),
}
"""Bugs of the rungs below EBT: what `feednet simulate rungs` must find."""

MUTANTS: Mutants = {
    "messages not verified": (Patch(Message, "verify", returns(None)),),
    "messages told again": (instead(Ebt, "take_stored", _told_again),),
    "a message left out": (instead(MemoryFeeds, "after", _one_less),),
    "patience without end": (Patch(Sources, "next_ahead", returns(None)),),
    "progress not told": (instead(EbtSession, "note", _eager_only),),
    "remote clock as sent": (instead(Ebt, "take_output", _as_sent),),
    "a wish kept quiet": (instead(Ebt, "want_all", _late_wish),),
    "proofs of forks dropped": (instead(MemoryFeeds, "_commit", _no_proof),),
    "called once": (instead(Scheduler, "on_failed", _forever),),
    "blocks unheard": (Patch(Ebt, "hide", returns(None)),),
    "stored behind an end": (Patch(admission, "_check_open", returns(None)),),
    "ends unheard": (Patch(admission, "_note_end", returns(None)),),
    "asked for behind an end": (Patch(Selection, "is_complete", returns(False)),),
    "another message for an id": (instead(Loose, "_on_message", _whatever),),
    "a want told without end": (instead(Loose, "_weigh", _told_for_ever),),
    "wants not told to who comes later": (instead(Loose, "open", _told_to_those_here),),
    "wants end with nothing": (Patch(Loose, "came", returns(None)),),
    "closed and kept": (Patch(Services, "close", returns(None)),),
}

HOLE_MUTANTS: Mutants = {
    "contents stay": (Patch(Contents, "keeps", returns(True)),),
    "anybody asks to delete": (instead(Contents, "add", _asked_by_anybody),),
    "a false claim deletes": (
        Patch(Contents, "_owner", lambda _: lambda self, blob: next(iter(self._dead[blob]))),
    ),
    "deleted for all that name it": (instead(Contents, "drop", _dropped_for_all),),
    "fetched again for others": (Patch(Contents, "refuses", returns(False)),),
    "fetched again after a restart": (Patch(Contents, "_refuse", returns(None)),),
    "the user's deletions forgotten": (
        instead(
            Contents,
            "restore",
            lambda original, self, messages, dropped, *rest: original(self, messages, (), *rest),
        ),
    ),
    "any blob shown as content": (
        Patch(contents, "attach", lambda _: lambda author, reference, data: opened(data)[1]),
    ),
    "any blob stored": (instead(Incoming, "__init__", _any_hash),),
    "bytes of broken transfers counted": (instead(Incoming, "abort", _still_counted),),
    "blobs not told": (Patch(Blobs, "announce", returns(None)),),
    "wants of blobs not told to who comes later": (instead(Blobs, "open", _blobs_told_to_those_here),),
    "patience with blobs": (Patch(blobs, "PATIENCE", lambda _: 10**18),),
}
"""Bugs of logs with holes."""
