"""The resolver of a node: it queries the places of feeds, and renews records."""

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Final

from base.timers import Timers
from base.units import MS
from forwarder.wire.lp import parse_lp
from forwarder.wire.packet import DATA, parse_data
from forwarder.wire.tlv import MalformedPacket
from ssb_over_ndn.following.timeout import Timeout
from ssb_over_ndn.mapping.messages import (
    NACK,
    is_direct_query,
    make_direct_query,
    make_query,
    server_of,
)
from ssb_over_ndn.mapping.record import Ledger, Record, split_map_name
from ssb_over_ndn.outputs import Outputs

_SHORTEST_PAUSE: Final = 100 * MS
_LONGEST_PAUSE: Final = 2_000 * MS
_LEAST_TTL: Final = 100 * MS
_CAPACITY: Final = 65_536
_DIRECT: Final = 16
"""Answers until caches are trusted again."""


class _Question:
    """The query of an id.

    Attributes:
        sent: when the pending Interest was sent, ns; None without.
        direct: how often the server itself is to be queried, as caches may hold forged records.
    """

    __slots__ = ("direct", "is_again", "pause", "sent")

    def __init__(self) -> None:
        self.pause = _SHORTEST_PAUSE
        self.sent: int | None = None
        self.is_again = False
        self.direct = 0


class Resolver(Outputs):
    """Keeps the places of the feeds that its node wants, each by the newest known record.

    A record is queried again when its time to live is over. Until there is a newer one it is used, even
    beyond its validity: the name service may be out of reach.

    Args:
        servers: the names of the name service's servers.
        rng: source of nonces.

    Attributes:
        counters: "queries" sent, "answers" with a record, "denials".
    """

    def __init__(self, servers: Sequence[bytes], *, rng: Random) -> None:
        super().__init__()
        self._servers = servers
        self._rng = rng
        self._ledger = Ledger(_CAPACITY)
        self._wanted: dict[str, _Question] = {}
        self._timers: Timers[str] = Timers()  # of when to ask about an id again
        self._timeout = Timeout()
        self._changed: list[Record] = []
        self.counters: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._ledger)

    @property
    def refused(self) -> Counter[str]:
        """Answers that were no records that count, by reason: see Ledger."""
        return self._ledger.refused

    @property
    def waiting(self) -> int:
        """Feeds that are wanted."""
        return len(self._wanted)

    def want(self, author: str, now: int) -> None:
        """Keep the place of a feed up to date from now on."""
        if author not in self._wanted:
            self._wanted[author] = _Question()
            self._timers.set(author, now)
            self.wake(now)

    def forget(self, author: str) -> None:
        """Stop resolving a feed, and drop its place."""
        self._wanted.pop(author, None)
        self._timers.set(author, None)
        self._ledger.remove(author)

    def doubt(self, author: str, now: int) -> None:
        """Ask again soon: the place that is known did not answer."""
        question = self._wanted.get(author)
        if question is not None and question.sent is None:
            due = self._timers.get(author)
            if due is not None and now + question.pause < due:
                self._timers.set(author, now + question.pause)
            question.pause = min(2 * question.pause, _LONGEST_PAUSE)

    def record(self, author: str) -> Record | None:
        """Return the newest record that is known of a feed that is wanted."""
        return self._ledger.newest(author)

    def place(self, author: str) -> tuple[bytes, ...]:
        """Return where a feed is, as a forwarding hint; empty if that is not known."""
        record = self.record(author)
        return () if record is None else record.storages

    def take_changed(self) -> list[Record]:
        """Return the records with a new place of their feed since the last call."""
        changed, self._changed = self._changed, []
        return changed

    def receive(self, packet: bytes, now: int) -> bool:
        """Receive a packet; return whether it was for the resolver."""
        try:
            header = parse_lp(packet)
            is_data = header.fragment[:1] == bytes((DATA,))
            data = parse_data(header.fragment) if is_data and header.nack_reason is None else None
        except MalformedPacket:
            return False
        if data is None:
            return False
        named = split_map_name(data.name)
        if named is None:
            return False
        author, rest = named
        question = self._wanted.get(author)
        if question is None or question.sent is None:
            return True
        is_direct = is_direct_query(rest)
        if data.content_type == NACK or (is_direct and not data.content):
            self.counters["denials"] += 1
            self._pause(author, question, now)
            return True
        before = self._ledger.newest(author)
        record = self._ledger.take_packet(data.content if is_direct else data.wire, author, now)
        if record is None:
            question.direct = _DIRECT
            self._pause(author, question, now)
            return True
        question.direct = max(question.direct - 1, 0)
        self.counters["answers"] += 1
        self._timeout.answered(None if question.is_again else now - question.sent)
        question.sent, question.is_again, question.pause = None, False, _SHORTEST_PAUSE
        self._timers.set(author, now + max(min(record.ttl, record.expires - now), _LEAST_TTL))
        if before is None or before.storages != record.storages:
            self._changed.append(record)
        return True

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        return self._timers.next_deadline()

    def wake(self, now: int) -> None:
        """Send due queries."""
        for author in self._timers.expire(now):
            question = self._wanted[author]
            if question.sent is not None:
                self._timeout.missed(now)
                question.is_again = True
            self.counters["queries"] += 1
            question.sent = now
            self._timers.set(author, now + self._timeout.length)
            make = make_direct_query if question.direct else make_query
            server = server_of(author, self._servers)
            self.outputs.append(make(author, server, self._rng.getrandbits(32)))

    def _pause(self, author: str, question: _Question, now: int) -> None:
        """Wait before asking again: the answer was of no use, and caches would give it again."""
        question.sent, question.is_again = None, False
        self._timers.set(author, now + question.pause)
        question.pause = min(2 * question.pause, _LONGEST_PAUSE)
