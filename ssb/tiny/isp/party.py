"""What provider and client share: contracts on a node, root feeds, and client-to-client feeds in lines."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from random import Random
from typing import NamedTuple

from base.timers import Timers
from ssb.keys import Identity
from ssb.tiny.entry import DEMUX, PACKET, InvalidEntry
from ssb.tiny.feed import Whole
from ssb.tiny.isp.contract import Contract
from ssb.tiny.isp.evidence import FORKED, Evidence
from ssb.tiny.isp.facts import ASKED, Facts, root_set
from ssb.tiny.isp.lines import Lines, Party
from ssb.tiny.isp.messages import COMMANDS, Message, OnboardRequest, OnboardResponse, read, write
from ssb.tiny.isp.terms import Terms
from ssb.tiny.node import Node

_PAGE = 100


class Event(NamedTuple):
    """Something that the user may want to know.

    Attributes:
        kind: "announced", "onboarded", "rejected", "farewell" and "over", of a contract with `peer`;
            "requested", "subscribed", "refused" and "ended", of a subscription to `peer`; "unproven", a
            request of `peer` was refused, as no proof came with it; "received", something can be read there;
            "overdue", the provider has taken entries that are not known to have arrived; "accused", `peer`
            has signed what it must not have signed (`BaseParty.evidence`).
        peer: a root feed.
        ref: the subscription's reference; b"" if it is about none.
        detail: more, in a word.
    """

    kind: str
    peer: bytes
    ref: bytes = b""
    detail: str = ""


class Line(NamedTuple):
    """A client-to-client feed that may be written to a line: its reference, and the feed."""

    ref: bytes
    feed: bytes


class BaseParty(Party, ABC):
    """The program of a node (`ssb.tiny.node.Program`) that has contracts.

    Everything that it must not forget is in the node's store; made again with the same store, it goes on.
    Time must go on, too, over a restart: it is that of a clock on the wall.

    Args:
        node: what it runs on.
        root: who it is; its root feed is known to those whom it has a contract with.
        random: for new key pairs; `random.SystemRandom()` where they must be secret.
        terms: of its contracts.
        now: ns.

    Attributes:
        contracts: by id.
        faults: how often others have violated the protocol, by kind. It has each reason of `evidence()`: that
            which is held from before a restart counts once.
    """

    def __init__(self, node: Node, root: Identity, random: Random, terms: Terms, now: int) -> None:
        terms.check()
        self.node = node
        self.root = root
        self.terms = terms
        self.contracts: dict[bytes, Contract] = {}
        self._contracts_with: dict[bytes, list[Contract]] = {}  # by the other side's root feed
        self._by_set: dict[str, Contract] = {}
        self._timers = Timers[bytes]()  # of contracts, by their ids
        self._random = random
        self._events: list[Event] = []
        self._turns: dict[bytes, bytes] = {}  # contract -> the reference whose turn it was last
        self._dirty: dict[bytes, None] = {}  # contracts to go on with
        self._store = node.store
        self.faults = Counter(evidence.reason for evidence in self.evidence())
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
        """Return what has happened since the last call."""
        events, self._events = self._events, []
        return events

    def follow(self, other: bytes, now: int) -> None:
        """Exchange root feeds with another, whose key comes by other ways, as people meet."""
        if other not in self.followed and other != self.root.public_key:
            if other in self._store.feeds:
                raise ValueError("somebody has named that key as another feed")
            with self._store.transaction():
                self.followed.append(other)
                self._store.put("followed", self.followed)
                self._join_root(other, now)

    def onboard(self, isp: bytes, now: int) -> bytes:
        """Ask a provider for a contract; return its id.

        Raises ValueError if there is one, or if the provider's key was not exchanged before (`follow`).
        """
        if isp not in self.followed:
            raise ValueError("the provider is not followed")
        if self.contract_with(isp) is not None:
            raise ValueError("there is a contract with it")
        with self._store.transaction():
            control = self._store.add_own(self.new_identity()).key
            entry = self.node.publish(self.root.public_key, write(OnboardRequest(isp, control)), now)
            facts = Facts(self.root.public_key, isp, ASKED, control)
            contract = Contract(entry.id, facts, self, self._terms_with(isp))
            self._enter(contract)
            contract.save()
        return entry.id

    def contract_with(self, other: bytes) -> Contract | None:
        """Return the contract with another that is not over."""
        return next((one for one in self._contracts_with.get(other, ()) if one.is_current), None)

    def farewell(self, other: bytes, now: int) -> None:
        """Begin to end the contract with another. Raises ValueError if there is none."""
        contract = self.contract_with(other)
        if contract is None:
            raise ValueError("there is no contract with it")
        with self._store.transaction():
            contract.part(now)
            self._go_on(contract, now)

    def abandon(self, other: bytes, now: int) -> None:
        """Delete the contract with another at once, whatever is not read, and tell nobody.

        For one that breaks the protocol, or will never come back. Raises ValueError if there is none.
        """
        contract = self.contract_with(other)
        if contract is None:
            raise ValueError("there is no contract with it")
        with self._store.transaction():
            contract.delete()
            self.on_over(contract, now)
            self._sweep(now)

    def evidence(self) -> list[Evidence]:
        """Return what others have signed and must not have signed; it outlives their contracts."""
        return [Evidence.load(value) for value in self._store.records("evidence ").values()]

    def forget_evidence(self) -> None:
        """Delete all evidence."""
        for name in self._store.records("evidence "):
            self._store.put(name, None)

    # Program

    def on_fork(self, feed: bytes, now: int) -> None:
        """See Program: the line of a contract that somebody has forked is read no further."""
        accused = feed if feed in self.followed else None
        for contract in self.contracts.values():
            if feed in (contract.facts.other_control, contract.facts.other_data):
                accused = contract.other
                contract.facts.is_broken = True
                contract.save()
        proof = self._store.fork(feed)
        held = self._store.find(proof[0][:DEMUX]) if proof is not None else None
        if accused is None or proof is None or held is None:
            return
        sequence = held[1]
        previous = self._store.previous(feed, sequence) or b""
        self.fault(FORKED)
        self._hold(Evidence(accused, FORKED, now, feed, sequence, previous, list(proof)))

    def take(self, feed: bytes, now: int) -> None:
        """See Program."""
        if feed in self.followed:
            self._read_root(feed, now)
        for name in self.node.sets_of(feed):
            contract = self._by_set.get(name)
            if contract is not None and feed in (contract.facts.other_control, contract.facts.other_data):
                contract.take(feed, now)
                self._set_timer(contract)
        self._sweep(now)

    def next_deadline(self) -> int | None:
        """See Program."""
        return self._timers.next_deadline()

    def wake(self, now: int) -> None:
        """See Program."""
        for id_ in self._timers.expire(now):
            contract = self.contracts[id_]
            contract.wake(now)
            if contract.is_over:
                self.on_over(contract, now)
            else:
                self._set_timer(contract)
        self._sweep(now)

    # For contracts

    def new_identity(self) -> Identity:
        """See Party."""
        return Identity.from_seed(self._random.randbytes(32))

    def take_command(self, other: bytes, feed: bytes, now: int) -> bool:
        """See Party."""
        return True

    def take_packets(self, other: bytes, feed: bytes, packets: int, now: int) -> bool:
        """See Party."""
        return True

    def give_back_packets(self, other: bytes, packets: int) -> None:
        """See Party."""

    def give_back_command(self, other: bytes, now: int) -> None:
        """Take note that the command that was counted last cannot be taken yet, or costs nothing."""

    def fault(self, reason: str) -> None:
        """See Party."""
        self.faults[reason] += 1

    def accuse(self, contract: Lines, reason: str, feed: bytes, sequence: int, now: int) -> None:
        """See Party."""
        self.fault(reason)
        packets, previous = self._signed(feed, sequence)
        self._hold(Evidence(contract.other, reason, now, feed, sequence, previous, packets))

    def on_read(self, contract: Lines, feed: bytes, now: int) -> None:
        """See Party."""

    @abstractmethod
    def on_over(self, contract: Contract, now: int) -> None:
        """Forget what belonged to a contract of which nothing is left."""

    @abstractmethod
    def on_root(self, feed: bytes, entry: Whole, message: Message, now: int) -> bool:
        """Take in a command from the root feed of another; False if it cannot be taken yet."""

    @abstractmethod
    def _load(self, now: int) -> None:
        """Read what is kept in the store."""

    # Inside

    def _enter(self, contract: Contract) -> None:
        """Add a contract to all tables."""
        self.contracts[contract.id] = contract
        self._contracts_with.setdefault(contract.other, []).append(contract)
        for name in (contract.control_set, contract.data_set):
            self._by_set[name] = contract
        self._set_timer(contract)

    def _remove(self, contract: Contract) -> None:
        """Remove a contract from all tables, if it is there."""
        if self.contracts.pop(contract.id, None) is None:
            return
        self._contracts_with[contract.other].remove(contract)
        if not self._contracts_with[contract.other]:
            del self._contracts_with[contract.other]
        for name in (contract.control_set, contract.data_set):
            del self._by_set[name]
        self._timers.set(contract.id, None)
        self._turns.pop(contract.id, None)

    def _set_timer(self, contract: Contract) -> None:
        """A contract may have to be woken at another time than before."""
        if contract.id in self.contracts:
            self._timers.set(contract.id, contract.next_deadline())

    def _on_response(self, feed: bytes, message: OnboardResponse, now: int) -> None:
        """Take in a provider's answer in its root feed; most are for others."""
        contract = self.contracts.get(message.ref)
        if contract is None or contract.facts.isp != feed or contract.facts.state != ASKED:
            return
        if message.control is None or not self._is_new(message.control):
            contract.delete()
            self._remove(contract)
            self._events.append(Event("rejected", feed))
        else:
            contract.connect(message.control, now)
            contract.acknowledge(now)

    def _terms_with(self, other: bytes) -> Terms:
        """Return the terms of a contract with another."""
        return self.terms

    def _signed(self, feed: bytes, sequence: int) -> tuple[list[bytes], bytes]:
        """Return an entry with its side chain, and the id of the entry before it, as far as they are held."""
        packet = self._store.packet(feed, sequence)
        previous = self._store.previous(feed, sequence) or b""
        return ([packet] if packet else []) + self._store.chunks(feed, sequence), previous

    def _hold(self, evidence: Evidence) -> None:
        """Keep evidence, once for each reason, and tell the user."""
        if self._store.get(evidence.name) is None:
            self._store.put(evidence.name, evidence.record())
            self._events.append(Event("accused", evidence.accused, detail=evidence.reason))

    def _join_root(self, other: bytes, now: int) -> None:
        keys = [self.root.public_key, other]
        self.node.join(root_set(other), keys, now, pair=COMMANDS)

    def _read_root(self, feed: bytes, now: int) -> None:
        held = self._store.feeds[feed]
        while page := self._store.read(feed, held.mark, _PAGE):
            for entry in page:
                if not self.take_command(feed, feed, now):
                    break
                message = read(entry.content)
                if message is not None and not self.on_root(feed, entry, message, now):
                    self.give_back_command(feed, now)
                    break
                self._store.set_mark(feed, entry.sequence)
            self._store.prune(feed, held.mark)
            if held.mark < page[-1].sequence:
                return

    def _go_on(self, contract: Contract, now: int) -> None:
        """Go on with a contract, and with those that this concerns."""
        self._dirty[contract.id] = None
        self._sweep(now)

    def _sweep(self, now: int) -> None:
        while self._dirty:
            contract = self.contracts.get(self._dirty.popitem()[0])
            if contract is not None:
                contract.go_on(now)
                self._set_timer(contract)

    def _feed_of(self, lines: Iterable[Line], content: bytes) -> Line | None:
        """Return whose next entry a tunnelled one is."""
        for line in lines:
            if self._store.feeds[line.feed].expected == content[:DEMUX]:
                return line
        return None

    def _take_inner(self, contract: Lines, line: Line, content: bytes, now: int) -> bool:
        """Store a tunnelled entry; return whether it was valid. Who hands over another one is accused."""
        packets = [content[at : at + PACKET] for at in range(0, len(content), PACKET)]
        try:
            self._store.append_whole(line.feed, packets[0], packets[1:], contract.terms.largest)
        except InvalidEntry as error:
            contract.accuse(f"a tunnelled entry that is {error.kind}", now)
            return False
        return True

    def _in_turn(self, contract: Lines, refs: list[bytes]) -> bytes:
        """Return which of some references has its turn on a line: the one behind that which had it last."""
        last = self._turns.get(contract.id, b"")
        turn = min((ref for ref in refs if ref > last), default=min(refs))
        self._turns[contract.id] = turn
        return turn

    def _is_new(self, feed: bytes) -> bool:
        """Whether another may name a feed as one of his: nobody else's is it, as far as is known here."""
        if feed in self._store.feeds:
            self.fault("a feed that is known already")
            return False
        return True
