"""The contracts of a party: their tables, their timers, and those with data to read or write."""

from collections.abc import Iterator, Mapping

from base.timers import Timers
from ssb.tiny.isp.contract import Contract


class Contracts(Mapping[bytes, Contract]):
    """The contracts of a party by id."""

    def __init__(self) -> None:
        self._contracts: dict[bytes, Contract] = {}
        self._with: dict[bytes, list[Contract]] = {}  # by the other side's root feed
        self._by_set: dict[str, Contract] = {}
        self._timers = Timers[bytes]()
        self._turns: dict[bytes, bytes] = {}  # contract -> reference last served
        self._changed: dict[bytes, None] = {}

    def __getitem__(self, id_: bytes) -> Contract:
        return self._contracts[id_]

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._contracts)

    def __len__(self) -> int:
        return len(self._contracts)

    def current(self, other: bytes) -> Contract | None:
        """Return the contract with another party that is not over."""
        return next((one for one in self._with.get(other, ()) if one.is_current), None)

    def of_set(self, name: str) -> Contract | None:
        """Return the contract that a set of feeds belongs to."""
        return self._by_set.get(name)

    def add(self, contract: Contract) -> None:
        """Add a contract."""
        self._contracts[contract.id] = contract
        self._with.setdefault(contract.other, []).append(contract)
        for name in (contract.control_set, contract.data_set):
            self._by_set[name] = contract
        self.set_timer(contract)

    def remove(self, contract: Contract) -> None:
        """Remove a contract, if it is there."""
        if self._contracts.pop(contract.id, None) is None:
            return
        self._with[contract.other].remove(contract)
        if not self._with[contract.other]:
            del self._with[contract.other]
        for name in (contract.control_set, contract.data_set):
            del self._by_set[name]
        self._timers.set(contract.id, None)
        self._turns.pop(contract.id, None)

    def in_turn(self, contract: bytes, refs: list[bytes]) -> bytes:
        """Return the reference to serve next on a line: round robin."""
        last = self._turns.get(contract, b"")
        turn = min((ref for ref in refs if ref > last), default=min(refs))
        self._turns[contract] = turn
        return turn

    def set_timer(self, contract: Contract) -> None:
        """Update the timer of a contract."""
        if contract.id in self._contracts:
            self._timers.set(contract.id, contract.next_deadline())

    def next_deadline(self) -> int | None:
        """Return the next deadline of a contract, ns."""
        return self._timers.next_deadline()

    def take_due(self, now: int) -> list[Contract]:
        """Return the contracts that are due."""
        return [self._contracts[id_] for id_ in self._timers.expire(now)]

    def changed(self, contract: bytes) -> None:
        """Mark a contract for update(): it may have data to read or write."""
        self._changed[contract] = None

    def update(self, now: int) -> None:
        """Read and write the lines of the marked contracts, and of those that this marks."""
        while self._changed:
            contract = self._contracts.get(self._changed.popitem()[0])
            if contract is not None:
                contract.process(now)
                self.set_timer(contract)
