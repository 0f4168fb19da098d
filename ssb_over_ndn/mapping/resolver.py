"""The resolver of a node: it queries the places of feeds, and renews records."""

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Final

from base.passive import Outputs
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

_SHORTEST_PAUSE: Final = 100 * MS
_LONGEST_PAUSE: Final = 2_000 * MS
_LEAST_TTL: Final = 100 * MS
_CAPACITY: Final = 65_536
_DIRECT: Final = 16
"""Valid answers until caches are trusted again."""


class _Query:
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
    """Resolves the places of its node's feeds by the newest known records.

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
        self._wanted: dict[str, _Query] = {}
        self._timers: Timers[str] = Timers()  # of the next queries
        self._timeout = Timeout()
        self._changed: list[Record] = []
        self.counters: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._ledger)

    @property
    def size(self) -> int:
        """Bytes of all records together."""
        return self._ledger.size

    @property
    def refused(self) -> Counter[str]:
        """Refused records in answers, by reason: see Ledger."""
        return self._ledger.refused

    @property
    def waiting(self) -> int:
        """Feeds being resolved."""
        return len(self._wanted)

    def want(self, author: str, now: int) -> None:
        """Resolve a feed, and keep its place up to date, until forget()."""
        if author not in self._wanted:
            self._wanted[author] = _Query()
            self._timers.set(author, now)
            self.wake(now)

    def forget(self, author: str) -> None:
        """Stop resolving a feed, and drop its place."""
        self._wanted.pop(author, None)
        self._timers.set(author, None)
        self._ledger.remove(author)

    def query_again(self, author: str, now: int) -> None:
        """Query a feed's place again soon, as the known one did not answer."""
        query = self._wanted.get(author)
        if query is not None and query.sent is None:
            due = self._timers.get(author)
            if due is not None and now + query.pause < due:
                self._timers.set(author, now + query.pause)
            query.pause = min(2 * query.pause, _LONGEST_PAUSE)

    def record(self, author: str) -> Record | None:
        """Return the newest known record of a feed being resolved."""
        return self._ledger.newest(author)

    def place(self, author: str) -> tuple[bytes, ...]:
        """Return the place of a feed as a forwarding hint; empty if unknown."""
        record = self.record(author)
        return () if record is None else record.storages

    def take_changed(self) -> list[Record]:
        """Return the records whose feed has a new place since the last call."""
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
        query = self._wanted.get(author)
        if query is None or query.sent is None:
            return True
        is_direct = is_direct_query(rest)
        if data.content_type == NACK or (is_direct and not data.content):
            self.counters["denials"] += 1
            self._pause(author, query, now)
            return True
        before = self._ledger.newest(author)
        record = self._ledger.add_packet(data.content if is_direct else data.wire, author, now)
        if record is None:
            query.direct = _DIRECT
            self._pause(author, query, now)
            return True
        query.direct = max(query.direct - 1, 0)
        self.counters["answers"] += 1
        self._timeout.answered(None if query.is_again else now - query.sent)
        query.sent, query.is_again, query.pause = None, False, _SHORTEST_PAUSE
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
            query = self._wanted[author]
            if query.sent is not None:
                self._timeout.missed(now)
                query.is_again = True
            self.counters["queries"] += 1
            query.sent = now
            self._timers.set(author, now + self._timeout.length)
            make = make_direct_query if query.direct else make_query
            server = server_of(author, self._servers)
            self.outputs.append(make(author, server, self._rng.getrandbits(32)))

    def _pause(self, author: str, query: _Query, now: int) -> None:
        """Pause the queries after a useless answer, which caches would return again."""
        query.sent, query.is_again = None, False
        self._timers.set(author, now + query.pause)
        query.pause = min(2 * query.pause, _LONGEST_PAUSE)
