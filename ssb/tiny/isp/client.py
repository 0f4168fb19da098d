"""The client's side: contracts with providers, subscriptions to other clients, and what is exchanged there.

What a user sends is signed as an entry of the subscription's own feed at once, and stored. It waits there
until the line to the provider has room. What comes is stored until the user confirms that he has it; a user
who takes nothing makes the provider pause the sender, in the end.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from random import Random
from typing import Final

from ssb.keys import Identity
from ssb.tiny.feed import Whole
from ssb.tiny.isp.contract import Contract
from ssb.tiny.isp.facts import ASKED, FAREWELL, OPEN, OVER, Facts
from ssb.tiny.isp.messages import (
    NOT_FOUND,
    Announcement,
    Message,
    OnboardRequest,
    OnboardResponse,
    SubPause,
    SubRequest,
    SubRequestIsp,
    SubResponse,
    SubResponseIsp,
    SubResume,
    is_tunnelled,
    read,
    write,
)
from ssb.tiny.isp.party import BaseParty, Event, Line
from ssb.tiny.isp.terms import Terms
from ssb.tiny.node import Node

WANTED: Final = "wanted"
INVITED: Final = "invited"
STANDS: Final = "stands"
ENDED: Final = "ended"
"""States of a subscription: asked for here; asked for by the other; feeds flow; the other sends no more."""


@dataclass
class Subscription:
    """What is exchanged with another client.

    Attributes:
        ref: the request's id.
        contract: the id of the contract that it belongs to.
        contact: the other client's root feed.
        state: see the constants.
        own, other: the feeds of both; None if there is none yet, or no more.
        is_paused: whether the provider holds enough.
        is_leaving: whether nothing more is to be sent here, but what is waiting.
        end_said: whether the end was sent.
    """

    ref: bytes
    contract: bytes
    contact: bytes
    state: str
    own: bytes | None = None
    other: bytes | None = None
    is_paused: bool = False
    is_leaving: bool = False
    end_said: bool = False


class Client(BaseParty):
    """The program of a client.

    Attributes:
        subscriptions: by reference.
    """

    def __init__(self, node: Node, root: Identity, random: Random, terms: Terms, now: int) -> None:
        self.subscriptions: dict[bytes, Subscription] = {}
        super().__init__(node, root, random, terms, now)

    # What the user does

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
            contract = Contract(entry.id, Facts(self.root.public_key, isp, ASKED, control), self, self.terms)
            self.contracts[entry.id] = contract
            contract.save()
        return entry.id

    def subscribe(self, isp: bytes, contact: bytes, now: int) -> bytes:
        """Ask another client of a provider to exchange feeds; return the reference.

        Raises ValueError if there is no contract that stands, or too many subscriptions.
        """
        contract = self.contract_with(isp)
        if contract is None or contract.facts.state != OPEN:
            raise ValueError("there is no contract that stands")
        if len(self.subscriptions) >= self.terms.subscriptions:
            raise ValueError("there are too many subscriptions")
        with self._store.transaction():
            own = self._store.add_own(self.new_identity()).key
            ref = contract.say(SubRequest(contact, own), now)
            self._save(Subscription(ref, contract.id, contact, WANTED, own))
        return ref

    def answer(self, ref: bytes, now: int, *, accept: bool) -> None:
        """Answer to a request of another client. Raises ValueError if there is none."""
        subscription = self.subscriptions.get(ref)
        if subscription is None or subscription.state != INVITED or subscription.other is None:
            raise ValueError("there is no such request")
        contract = self.contracts[subscription.contract]
        with self._store.transaction():
            if accept:
                subscription.own = self._store.add_own(self.new_identity()).key
                self._store.add(subscription.other)
                subscription.state = STANDS
                self._save(subscription)
            else:
                self._delete(subscription)
            contract.say(SubResponse(ref, accept, subscription.own), now)
            self._go_on(contract, now)

    def send(self, ref: bytes, content: bytes, now: int) -> int:
        """Send content to a contact; return its number. It is stored when this returns.

        Raises ValueError if there is no such subscription, if it ends, or if the content is too long.
        """
        subscription = self.subscriptions.get(ref)
        if subscription is None or subscription.own is None or subscription.state != STANDS:
            raise ValueError("the subscription does not stand")
        contract = self.contracts[subscription.contract]
        if subscription.is_leaving or contract.facts.state != OPEN:
            raise ValueError("the subscription or its contract ends")
        if len(content) > contract.terms.largest:
            raise ValueError(f"content of {len(content)} bytes; {contract.terms.largest} are agreed")
        with self._store.transaction():
            sequence = self._store.publish(subscription.own, content).sequence
            self._go_on(contract, now)
        return sequence

    def read(self, ref: bytes, limit: int = 100) -> list[Whole]:
        """Return what has come from a contact and is not confirmed, in order, at most `limit`."""
        subscription = self.subscriptions.get(ref)
        if subscription is None or subscription.other is None or subscription.state == INVITED:
            return []
        return self._store.read(subscription.other, self._store.feeds[subscription.other].mark, limit)

    def confirm(self, ref: bytes, sequence: int, now: int) -> None:
        """Have everything up to a number: it is deleted here."""
        subscription = self.subscriptions[ref]
        if subscription.other is None:
            return
        with self._store.transaction():
            self._store.set_mark(subscription.other, sequence)
            self._store.prune(subscription.other, sequence)
            self._clean(subscription)
            contract = self.contracts.get(subscription.contract)
            if contract is not None:
                self._go_on(contract, now)  # its line may have had to wait

    def unsubscribe(self, ref: bytes, now: int) -> None:
        """Send no more than what is waiting; the other side is told, and ends, too."""
        subscription = self.subscriptions.get(ref)
        if subscription is None or subscription.state not in (STANDS, ENDED):
            raise ValueError("the subscription does not stand")
        with self._store.transaction():
            subscription.is_leaving = True
            self._save(subscription)
            self._go_on(self.contracts[subscription.contract], now)

    # What comes

    def on_root(self, feed: bytes, entry: Whole, message: Message, now: int) -> bool:
        """See BaseParty."""
        if isinstance(message, Announcement):
            self._events.append(Event("announced", feed))
        if not isinstance(message, OnboardResponse):
            return True
        contract = self.contracts.get(message.ref)
        if contract is None or contract.facts.isp != feed or contract.facts.state != ASKED:
            return True  # it is for another client
        if message.control is None or not self._is_new(message.control):
            contract.delete()
            del self.contracts[message.ref]
            self._events.append(Event("rejected", feed))
        else:
            contract.connect(message.control, now)
            contract.acknowledge(now)
        return True

    def on_control(self, contract: Contract, entry: Whole, message: Message, now: int) -> None:
        """See Party."""
        match message:
            case SubRequestIsp(ref, source, feed):
                self._on_request(contract, ref, source, feed, now)
            case SubResponseIsp(ref, _, feed):
                self._on_response(contract, ref, feed)
            case SubPause(feed) | SubResume(feed):
                for subscription in self._of(contract):
                    if subscription.own == feed:
                        subscription.is_paused = isinstance(message, SubPause)
                        self._save(subscription)
            case _:
                self.fault("a command that a provider does not have")

    def _on_request(self, contract: Contract, ref: bytes, source: bytes, feed: bytes, now: int) -> None:
        if contract.is_overrun:
            return
        if ref in self.subscriptions or contract.facts.state != OPEN:
            self.fault("a request twice, or too late")
        elif len(self.subscriptions) >= self.terms.subscriptions or not self._is_new(feed):
            contract.say(SubResponse(ref, False, None), now)
        else:
            self._save(Subscription(ref, contract.id, source, INVITED, other=feed))
            self._events.append(Event("requested", source, ref))

    def _on_response(self, contract: Contract, ref: bytes, feed: bytes | str) -> None:
        subscription = self.subscriptions.get(ref)
        if subscription is None or subscription.contract != contract.id or subscription.state != WANTED:
            self.fault("an answer to no request")
        elif isinstance(feed, bytes) and self._is_new(feed):
            self._store.add(feed)
            subscription.other, subscription.state = feed, STANDS
            self._save(subscription)
            self._events.append(Event("subscribed", subscription.contact, ref))
        else:
            self._delete(subscription)
            self._events.append(Event("refused", subscription.contact, ref, str(feed)))

    def on_data(self, contract: Contract, content: bytes, now: int) -> bool:
        """See Party."""
        flowing = {one.ref: one for one in self._of(contract) if one.state == STANDS}
        message = None if is_tunnelled(content) else read(content)
        if isinstance(message, SubResponseIsp) and not message.ok and message.ref in flowing:
            self._on_end(flowing[message.ref], message)
            return True
        lines = [Line(one.ref, one.other) for one in flowing.values() if one.other is not None]
        line = self._feed_of(lines, content) if is_tunnelled(content) else None
        if line is not None:
            if self._backlog(line.feed) >= contract.terms.held:
                return False
            if self._take_inner(line, content, contract.terms):
                self._events.append(Event("received", flowing[line.ref].contact, line.ref))
            return True
        if not is_tunnelled(content) and not isinstance(message, SubResponseIsp):
            self.fault("what does not belong into a line")
            return True
        if contract.is_ending:
            self.fault("an entry of nobody's")
        return contract.is_ending

    def _on_end(self, subscription: Subscription, message: SubResponseIsp) -> None:
        """The other side sends no more; if its contract is over, nor can it get anything."""
        subscription.state, subscription.is_leaving = ENDED, True
        if message.feed == NOT_FOUND and subscription.own is not None:
            own = subscription.own
            self._store.set_mark(own, self._store.feeds[own].sequence)
            self._store.prune(own, self._store.feeds[own].sequence)
        self._save(subscription)
        self._events.append(Event("ended", subscription.contact, subscription.ref))
        self._clean(subscription)
        self._dirty[subscription.contract] = None

    # What goes

    def next_content(self, contract: Contract, now: int) -> bytes | None:
        """See Party."""
        ready = [
            one.ref
            for one in self._unsent(contract)
            if not (one.is_paused and one.own is not None and self._backlog(one.own))
        ]
        if not ready:
            return None
        subscription = self.subscriptions[self._in_turn(contract, ready)]
        own = subscription.own
        if own is not None and self._backlog(own):
            return self._bundle(own)
        subscription.end_said = True
        self._save(subscription)
        self._clean(subscription)
        return write(SubResponse(subscription.ref, False, None))

    def has_more(self, contract: Contract) -> bool:
        """See Party."""
        return any(True for _ in self._unsent(contract))

    def _unsent(self, contract: Contract) -> Iterator[Subscription]:
        """Yield the subscriptions that have an entry or their end to send."""
        for one in self._of(contract):
            flows = one.state in (STANDS, ENDED) and not one.end_said
            if flows and (one.is_leaving or self._backlog(one.own)):
                yield one

    # Ends

    def on_state(self, contract: Contract, now: int) -> None:
        """See Party."""
        state, isp = contract.facts.state, contract.facts.isp
        if state == OPEN:
            self._events.append(Event("onboarded", isp))
        elif state == FAREWELL:
            self._events.append(Event("farewell", isp))
            for one in self._of(contract):
                if one.state in (WANTED, INVITED):
                    self._delete(one)
                    self._events.append(Event("refused", one.contact, one.ref, NOT_FOUND))
        elif state == OVER:
            self._events.append(Event("over", isp))
            self._end_all(contract)

    def on_over(self, contract: Contract, now: int) -> None:
        """See BaseParty."""
        self._end_all(contract)
        self.contracts.pop(contract.id, None)
        self._turns.pop(contract.id, None)

    def _end_all(self, contract: Contract) -> None:
        for one in self._of(contract):
            one.end_said = True
            if one.state in (WANTED, INVITED):
                self._delete(one)
                continue
            if one.state == STANDS:
                self._events.append(Event("ended", one.contact, one.ref))
            one.state = ENDED
            self._save(one)
            self._clean(one)

    def _clean(self, subscription: Subscription) -> None:
        """Delete what is no longer needed of a subscription."""
        if subscription.end_said and subscription.own is not None:
            self._store.drop(subscription.own)
            subscription.own = None
            self._save(subscription)
        other, has_ended = subscription.other, subscription.state == ENDED
        if has_ended and other is not None and not self._backlog(other):  # the user has everything
            self._store.drop(other)
            subscription.other = None
            self._save(subscription)
        if has_ended and subscription.own is None and subscription.other is None:
            self._delete(subscription)

    # Inside

    def _of(self, contract: Contract) -> list[Subscription]:
        return [one for one in self.subscriptions.values() if one.contract == contract.id]

    def _save(self, subscription: Subscription) -> None:
        self.subscriptions[subscription.ref] = subscription
        self._store.put(f"subscription {subscription.ref.hex()}", asdict(subscription))

    def _delete(self, subscription: Subscription) -> None:
        for feed in (subscription.own, subscription.other if subscription.state != INVITED else None):
            if feed is not None:
                self._store.drop(feed)
        self.subscriptions.pop(subscription.ref, None)
        self._store.put(f"subscription {subscription.ref.hex()}", None)

    def _load(self, now: int) -> None:
        for name, value in self._store.records("contract ").items():
            contract_id = bytes.fromhex(name.split(" ")[1])
            self.contracts[contract_id] = Contract.load(contract_id, value, self, self.terms)
        for value in self._store.records("subscription ").values():
            assert isinstance(value, dict)
            one = Subscription(**value)
            self.subscriptions[one.ref] = one
        for contract in list(self.contracts.values()):
            contract.resume(now)
        for isp in self.followed:
            self._read_root(isp, now)
        self._sweep(now)
