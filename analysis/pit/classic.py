"""The PIT entry of a classic Interest, derived from packets. The rules are in analysis/pit/model.py."""

from dataclasses import dataclass
from typing import NamedTuple

from analysis.pit.entry import Entry, Ledger, Message

RECORD_BYTES = 16
"""State of a record: face 4, nonce 4, expiry 8 bytes."""
PROMPT_NS = 100_000
"""An Interest sent within this time after one was received counts as a strategy's probe for it, ns."""


class _InRecord(NamedTuple):
    nonce: int | None
    expiry: int
    is_persistent: bool


_NOBODY = _InRecord(None, 0, False)


@dataclass(slots=True)
class _OutRecord:
    nonce: int | None
    nacked: bool = False


Key = tuple[str, bool, bool]


def key_of(message: Message) -> Key:
    """Return the key of a classic Interest's entry."""
    return message.name, bool(message.can_be_prefix), bool(message.must_be_fresh)


class ClassicEntry(Entry):
    """The PIT entry of a classic Interest."""

    kind = "classic"

    def __init__(self, message: Message, ledger: Ledger) -> None:
        super().__init__(message.name, message.name_length, message.time, ledger)
        self.key = key_of(message)
        self.expiry = 0
        self.in_records: dict[str, _InRecord] = {}
        self.out_records: dict[str, _OutRecord] = {}
        self.lets_pass = False  # a persistent Interest was seen
        self.own_persistent_expiry = 0  # expiry of a local application's persistent Interest
        self.own_expiry = 0  # expiry of a local application's other Interest
        self._before = (
            -1,
            "",
            _NOBODY,
            0,
        )  # the last Interest received: time, interface, previous record and expiry

    def state_size(self) -> tuple[int, int, int]:
        """Return the entry's bytes, ranges and credit."""
        records = len(self.in_records) + len(self.out_records)
        return (self.name_length + RECORD_BYTES * records if records else 0), 0, 0

    def expire(self, now: int) -> bool:
        """Return whether the entry has expired."""
        return self.expiry <= now

    def receive_interest(self, message: Message) -> None:
        """Make the in-record of an Interest."""
        interface, expiry = message.interface, message.expiry
        self.interests_in += 1
        self.downstreams.add(interface)
        self._before = message.time, interface, self.in_records.get(interface, _NOBODY), self.expiry
        self.in_records[interface] = _InRecord(message.nonce, expiry, bool(message.is_persistent))
        self.expiry = max(self.expiry, expiry)

    def send_interest(self, message: Message) -> None:
        """Make the out-record of an Interest."""
        self.interests_out += 1
        self.upstreams.add(message.interface)
        if self._is_own(message) and not self._is_probe(message):
            self.own_expiry = message.expiry
        self.out_records[message.interface] = _OutRecord(message.nonce)
        self.expiry = max(self.expiry, message.expiry)

    def receive_data(self, message: Message) -> bool:
        """Process received Data; return whether the entry is done."""
        self.items_in += 1
        is_over = not self.lets_pass or self.satisfied(message.time)
        if is_over:
            self.items_out += sum(
                waiting.expiry > message.time and interface != message.interface
                for interface, waiting in self.in_records.items()
            )
            self._ledger.change(message.time, 0, 0, 0, 0, 1)
        return is_over

    def send_data(self, message: Message) -> bool:
        """Process sent Data that were not received; return whether the entry is done."""
        if self.lets_pass:
            self.items_out += 1
            return self.satisfied(message.time)
        _, _, record, expiry = self._before
        waiting = self.in_records.pop(message.interface, None)
        if waiting is None:
            return False
        self.items_out += 1
        if not self._is_at_once(message) or message.direction is None:
            return all(waiting.expiry <= message.time for waiting in self.in_records.values())
        if record is not _NOBODY:
            self.in_records[message.interface] = record
        self.expiry = expiry
        return False

    def is_loop(self, message: Message) -> bool:
        """Return whether a received Interest loops."""
        if message.nonce is None:
            return False
        for interface, waiting in self.in_records.items():
            if waiting.nonce == message.nonce:
                return interface != message.interface
        return any(record.nonce == message.nonce for record in self.out_records.values())

    def persistent(self, message: Message, is_in: bool) -> None:
        """Prepare for a persistent Interest, before its record is made."""
        self.lets_pass = True
        self.in_records = {
            interface: waiting
            for interface, waiting in self.in_records.items()
            if not waiting.is_persistent or waiting.expiry > message.time
        }
        if not is_in and self._is_own(message):
            self.own_persistent_expiry = message.expiry

    def _is_own(self, message: Message) -> bool:
        """Return whether a sent Interest is a local application's: no downstream has requested it."""
        return all(waiting.nonce != message.nonce for waiting in self.in_records.values())

    def satisfied(self, now: int) -> bool:
        """Apply Data to the records; return whether the entry is done."""
        self.own_expiry = 0
        self.in_records = {
            interface: waiting
            for interface, waiting in self.in_records.items()
            if waiting.is_persistent and waiting.expiry > now
        }
        return not self.in_records and self.own_persistent_expiry <= now

    def send_nack(self, message: Message) -> bool:
        """Process a sent Nack; return whether no downstream is left."""
        waiting = self.in_records.get(message.interface)
        if waiting is None or waiting.nonce not in (message.nonce, None):
            return False
        del self.in_records[message.interface]
        if self._is_at_once(message):
            self.expiry = self._before[3]
        return not self.in_records and not self._is_asking(message.time)

    def receive_nack(self, message: Message) -> bool:
        """Process a received Nack; return whether it ends a local application's Interest."""
        refused = self.out_records.get(message.interface)
        if refused is None or refused.nonce != message.nonce:
            return False
        refused.nacked = True
        return not self.in_records and self._is_refused()

    def _is_probe(self, message: Message) -> bool:
        """Return whether an Interest is a strategy's probe, sent because of one just received."""
        time, interface = self._before[:2]
        return interface in self.in_records and message.time - time <= PROMPT_NS

    def _is_at_once(self, message: Message) -> bool:
        """Return whether a packet answers an Interest that joined the entry at the same time."""
        time, interface, _, expiry = self._before
        return (time, interface) == message[:2] and expiry > 0

    def _is_asking(self, now: int) -> bool:
        """Return whether a local application's Interest is pending, neither expired nor refused."""
        return self.own_expiry > now and not (self.out_records and self._is_refused())

    def _is_refused(self) -> bool:
        """Return whether all Interests sent were refused."""
        return all(record.nacked for record in self.out_records.values())

    def remove_interface(self, interface: str, now: int) -> bool:
        """Remove an interface; return whether no downstream is left."""
        self.out_records.pop(interface, None)
        was_waiting = self.in_records.pop(interface, None) is not None
        return (
            was_waiting
            and not self.in_records
            and self.own_persistent_expiry <= now
            and not self._is_asking(now)
        )
