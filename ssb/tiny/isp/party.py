"""Common base of provider and client: contracts, root feeds, and client-to-client feeds in lines."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from random import Random
from typing import NamedTuple

from ssb.keys import Identity
from ssb.tiny.entry import DEMUX, PACKET, InvalidEntry
from ssb.tiny.feed import Whole
from ssb.tiny.isp.accusations import Accusations
from ssb.tiny.isp.contract import Contract
from ssb.tiny.isp.contracts import Contracts
from ssb.tiny.isp.events import Event
from ssb.tiny.isp.facts import ASKED, Facts, root_set
from ssb.tiny.isp.lines import Gate, Lines, Party
from ssb.tiny.isp.messages import COMMANDS, Message, OnboardRequest, OnboardResponse, read, write
from ssb.tiny.isp.terms import Terms
from ssb.tiny.node import Node

_PAGE = 100


class Line(NamedTuple):
    """A client-to-client feed on a line: its reference, and the feed."""

    ref: bytes
    feed: bytes


class BaseParty(Party, ABC):
    """The program of a node (`ssb.tiny.node.Program`) that has contracts.

    Its durable state is in the node's store; created again with the same store, it resumes. Time must be
    monotonic across restarts: wall-clock.

    Args:
        node: its node.
        root: its identity; the holders of contracts know its root feed.
        random: for new key pairs; `random.SystemRandom()` where they must be secret.
        terms: of its contracts.
        now: ns.

    Attributes:
        contracts, accusations: see there.
        faults: see Accusations.
        gate: limits the rate of reading.
    """

    gate: Gate = Gate()

    def __init__(self, node: Node, root: Identity, random: Random, terms: Terms, now: int) -> None:
        terms.check()
        self.node = node
        self.root = root
        self.terms = terms
        self.contracts = Contracts()
        self._random = random
        self._events: list[Event] = []
        self._store = node.store
        self.accusations = Accusations(node.store, self._events)
        self.faults = self.accusations.faults
        node.program = self
        with self._store.transaction():
            self._store.add_own(root)
            followed = self._store.get("followed")
            self.followed: list[bytes] = (
                [key for key in followed if isinstance(key, bytes)] if isinstance(followed, list) else []
            )
            for other in self.followed:
                self._join_root(other, now)
            self._load(now)

    def take_events(self) -> list[Event]:
        """Return the events since the last call."""
        events = self._events.copy()
        self._events.clear()
        return events

    def follow(self, other: bytes, now: int) -> None:
        """Exchange root feeds with another, whose key is known by other means."""
        if other not in self.followed and other != self.root.public_key:
            if other in self._store.feeds:
                raise ValueError("somebody has named that key as another feed")
            with self._store.transaction():
                self.followed.append(other)
                self._store.put("followed", self.followed)
                self._join_root(other, now)

    def onboard(self, isp: bytes, now: int) -> bytes:
        """Request a contract from a provider; return its id.

        Raises ValueError if there is one, or if the provider's key was not exchanged before (`follow`).
        """
        if isp not in self.followed:
            raise ValueError("the provider is not followed")
        if self.contracts.current(isp) is not None:
            raise ValueError("there is a contract with it")
        with self._store.transaction():
            control = self._store.add_own(self.new_identity()).key
            entry = self.node.publish(self.root.public_key, write(OnboardRequest(isp, control)), now)
            facts = Facts(self.root.public_key, isp, ASKED, control)
            contract = Contract(entry.id, facts, self, self._terms_with(isp))
            self.contracts.add(contract)
            contract.save()
        return entry.id

    def farewell(self, other: bytes, now: int) -> None:
        """Begin the farewell with another. Raises ValueError without a contract."""
        contract = self.contracts.current(other)
        if contract is None:
            raise ValueError("there is no contract with it")
        with self._store.transaction():
            contract.begin_farewell(now)
            self.contracts.changed(contract.id)
            self.contracts.update(now)

    def abandon(self, other: bytes, now: int) -> None:
        """Delete the contract with another at once, unread data included, without notifying it.

        For one that violates the protocol, or is lost. Raises ValueError without a contract.
        """
        contract = self.contracts.current(other)
        if contract is None:
            raise ValueError("there is no contract with it")
        with self._store.transaction():
            contract.delete()
            self.on_over(contract, now)
            self.contracts.update(now)

    # Program

    def on_fork(self, feed: bytes, now: int) -> None:
        """See Program: the line of a contract whose feed is forked is read no further."""
        accused = feed if feed in self.followed else None
        for contract in self.contracts.values():
            if feed in (contract.facts.other_control, contract.facts.other_data):
                accused = contract.other
                contract.break_off(now)
        if accused is not None:
            self.accusations.accuse_of_fork(accused, feed, now)

    def on_entries(self, feed: bytes, now: int) -> None:
        if feed in self.followed:
            self._read_root(feed, now)
        for name in [each.keys.name for each in self.node.sets.of(feed)]:  # the contract may change them
            contract = self.contracts.of_set(name)
            if contract is not None and feed in (contract.facts.other_control, contract.facts.other_data):
                contract.on_entries(feed, now)
                self.contracts.set_timer(contract)
        self.contracts.update(now)

    def next_deadline(self) -> int | None:
        return self.contracts.next_deadline()

    def wake(self, now: int) -> None:
        for contract in self.contracts.take_due(now):
            contract.wake(now)
            if contract.is_over:
                self.on_over(contract, now)
            else:
                self.contracts.set_timer(contract)
        self.contracts.update(now)

    # For contracts

    def new_identity(self) -> Identity:
        return Identity.from_seed(self._random.randbytes(32))

    def on_read(self, contract: Lines, feed: bytes, now: int) -> None:
        """See Party."""

    def on_broken(self, contract: Lines, now: int) -> None:
        """See Party."""

    @abstractmethod
    def on_over(self, contract: Contract, now: int) -> None:
        """Forget all state of a contract that is deleted."""

    @abstractmethod
    def on_root(self, feed: bytes, entry: Whole, message: Message, now: int) -> bool:
        """Process a command from the root feed of another; False if it has to wait."""

    @abstractmethod
    def _load(self, now: int) -> None:
        """Load the state in the store."""

    # Inside

    def _on_response(self, feed: bytes, message: OnboardResponse, now: int) -> None:
        """Process a provider's answer in its root feed; most are for others."""
        contract = self.contracts.get(message.ref)
        if contract is None or contract.facts.isp != feed or contract.facts.state != ASKED:
            return
        if message.control is None or not self._is_new(message.control):
            contract.delete()
            self.contracts.remove(contract)
            self._events.append(Event("rejected", feed))
        else:
            contract.connect(message.control, now)
            contract.acknowledge(now)

    def _terms_with(self, other: bytes) -> Terms:
        """Return the terms of a contract with another."""
        return self.terms

    def _join_root(self, other: bytes, now: int) -> None:
        keys = [self.root.public_key, other]
        self.node.join(root_set(other), keys, now, pair=COMMANDS)

    def _read_root(self, feed: bytes, now: int) -> None:
        held = self._store.feeds[feed]
        while page := self._store.read(feed, held.mark, _PAGE):
            for entry in page:
                if not self.gate.take_command(feed, feed, now):
                    break
                message = read(entry.content)
                if message is not None and not self.on_root(feed, entry, message, now):
                    self.gate.give_back_command(feed, now)
                    break
                self._store.set_mark(feed, entry.sequence)
            self._store.prune(feed, held.mark)
            if held.mark < page[-1].sequence:
                return

    def _feed_of(self, lines: Iterable[Line], content: bytes) -> Line | None:
        """Return the line whose next entry is this tunnelled one."""
        for line in lines:
            if self._store.feeds[line.feed].expected == content[:DEMUX]:
                return line
        return None

    def _store_inner(self, contract: Lines, line: Line, content: bytes, now: int) -> bool:
        """Store a tunnelled entry; return whether it was valid. The sender of an invalid one is accused."""
        packets = [content[at : at + PACKET] for at in range(0, len(content), PACKET)]
        try:
            self._store.append_whole(line.feed, packets[0], packets[1:], contract.terms.largest)
        except InvalidEntry as error:
            contract.accuse(f"a tunnelled entry that is {error.kind}", now)
            return False
        return True

    def _is_new(self, feed: bytes) -> bool:
        """Whether another may claim a feed as its own: it must be unknown here."""
        if feed in self._store.feeds:
            self.faults["a feed that is known already"] += 1
            return False
        return True
