"""A server of the name service: it stores and serves the newest record of each id."""

from collections import Counter
from typing import Final

from base.passive import Outputs
from forwarder.wire.lp import open_interest
from forwarder.wire.packet import Interest
from forwarder.wire.parameters import parameters_of
from ssb.application import Event
from ssb_over_ndn.mapping.messages import is_direct_query, is_update, make_answer, make_denial
from ssb_over_ndn.mapping.record import Ledger, split_map_name

MOST_IDS: Final = 10_000_000
_SWEEP: Final = 10_000_000_000
"""Time between two removals of expired records, ns."""


class NameServer(Outputs):
    """An application that serves a part of the name service.

    Queries are open to all; only an id's key can change its record. Records are soft state: after a restart
    they return as devices renew them.

    Args:
        capacity: most ids.

    Attributes:
        ledger: the records, and how many were refused.
        counters: "updates", "queries", and "unknown" for queries of ids without a record.
    """

    def __init__(self, capacity: int = MOST_IDS) -> None:
        super().__init__()
        self.ledger = Ledger(capacity)
        self.counters: Counter[str] = Counter()
        self._sweep: int | None = None
        self._events: list[Event] = []

    def receive(self, packet: bytes, now: int) -> None:
        """Receive an update or a query."""
        interest = open_interest(packet)
        if interest is None:
            return
        named = split_map_name(interest.name)
        if named is None:
            return
        author, rest = named
        if not rest:
            self._answer(author, now)
        elif is_direct_query(rest):
            self.counters["queries"] += 1
            self.outputs.append(self._record_answer(author, interest, now))
        elif is_update(rest):
            self._update(author, interest, now)

    def take_events(self) -> list[Event]:
        """Return a "mapped" event for each feed that has moved since the last call; seq is the record's."""
        events, self._events = self._events, []
        return events

    def ends(self) -> tuple[int, int]:
        """Return the number of records, and their bytes."""
        return len(self.ledger), self.ledger.size

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        return self._sweep

    def wake(self, now: int) -> None:
        """Remove expired records."""
        if self._sweep is not None and self._sweep <= now:
            self.ledger.drop_expired(now)
            self._sweep = now + _SWEEP if len(self.ledger) else None

    def _answer(self, author: str, now: int) -> None:
        self.counters["queries"] += 1
        record = self.ledger.get(author, now)
        if record is None:
            self.counters["unknown"] += 1
            self.outputs.append(make_denial(author))
        else:
            self.outputs.append(record.wire)

    def _update(self, author: str, interest: Interest, now: int) -> None:
        self.counters["updates"] += 1
        before = self.ledger.newest(author)
        taken = self.ledger.add_packet(parameters_of(interest) or b"", author, now)
        if taken is not None and (before is None or before.storages != taken.storages):
            self._events.append(Event(now, "mapped", author, taken.seq))
        if self._sweep is None and len(self.ledger):
            self._sweep = now + _SWEEP
        self.outputs.append(self._record_answer(author, interest, now))

    def _record_answer(self, author: str, interest: Interest, now: int) -> bytes:
        """Return the answer with the id's record, or without content."""
        record = self.ledger.get(author, now)
        return make_answer(interest, b"" if record is None else record.wire)
