"""The client's side: contracts with providers, subscriptions to other clients, and groups.

The exchange of entries is in `ssb.tiny.isp.exchange`.

**Groups.** The members of a group have a subscription each to each, but every member writes one feed for all
of them: it goes into the member's line once, and the provider copies its entries into the lines of all
others. The founder invites the members; the request names them all. A member who joins sends requests to
those with a higher key, and receives them from the others, so each pair has one request. Nothing is sent
before all pairs are settled, since all must have a feed from its first entry on. So members do not change:
for others, found another group.
"""

from random import Random

from base.timers import Timers
from ssb.keys import Identity
from ssb.tiny.feed import Whole
from ssb.tiny.isp.contract import Contract
from ssb.tiny.isp.events import Event
from ssb.tiny.isp.evidence import FORGED, UNPROVEN, is_signed, sign_feed
from ssb.tiny.isp.exchange import Exchange
from ssb.tiny.isp.facts import FAREWELL, OPEN, OVER
from ssb.tiny.isp.lines import Lines
from ssb.tiny.isp.messages import (
    NOT_FOUND,
    Announcement,
    Message,
    OnboardResponse,
    SubPause,
    SubReceipt,
    SubRequest,
    SubRequestIsp,
    SubResponse,
    SubResponseIsp,
    SubResume,
)
from ssb.tiny.isp.subscription import (
    ENDED,
    INVITED,
    MOST_MEMBERS,
    SPOILT,
    STANDS,
    WANTED,
    Group,
    Subscription,
)
from ssb.tiny.isp.terms import Terms
from ssb.tiny.node import Node


class Client(Exchange):
    """The program of a client."""

    def __init__(self, node: Node, root: Identity, random: Random, terms: Terms, now: int) -> None:
        self.subscriptions: dict[bytes, Subscription] = {}
        self.groups: dict[bytes, Group] = {}
        self._timers = Timers[bytes]()
        super().__init__(node, root, random, terms, now)

    # For the user

    def subscribe(self, isp: bytes, contact: bytes, now: int) -> bytes:
        """Request an exchange of feeds with another client of a provider; return the reference.

        Raises ValueError if there is no open contract, or too many subscriptions.
        """
        contract = self._open_contract(isp, 1)
        with self._store.transaction():
            own = self._store.add_own(self.new_identity()).key
            return self._request(contract, contact, own, None, now)

    def found(self, isp: bytes, contacts: list[bytes], now: int) -> bytes:
        """Found a group with other clients of a provider, or of others; return its id.

        Raises ValueError if there is no open contract, too many subscriptions, or no such group.
        """
        members = list(dict.fromkeys((self.root.public_key, *contacts)))
        if not 2 < len(members) <= MOST_MEMBERS:
            raise ValueError(f"a group has 3 to {MOST_MEMBERS} members, not {len(members)}")
        contract = self._open_contract(isp, len(members) - 1)
        with self._store.transaction():
            own = self._store.add_own(self.new_identity()).key
            group = Group(own, contract.id, own, members, members[1:])
            self._save_group(group)
            for contact in members[1:]:
                self._request(contract, contact, own, group, now)
        return own

    def post(self, group: bytes, content: bytes, now: int) -> int:
        """Send content to all members of a group; return its number. It is stored when this returns.

        Raises ValueError if there is no such group, if nobody is in it, or if the content is too long.
        """
        found = self.groups.get(group)
        if found is None:
            raise ValueError("there is no such group")
        if not found.pending and not any(
            one.own == found.own and one.state == STANDS for one in self.subscriptions.values()
        ):
            raise ValueError("nobody is in the group any more")
        contract = self.contracts[found.contract]
        if contract.facts.state != OPEN:
            raise ValueError("the contract ends")
        if len(content) > contract.terms.largest:
            raise ValueError(f"content of {len(content)} bytes; {contract.terms.largest} are agreed")
        with self._store.transaction():
            sequence = self._store.publish(found.own, content).sequence
            self.contracts.changed(contract.id)
            self.contracts.update(now)
        return sequence

    def give_up(self, group: bytes, member: bytes, now: int) -> None:
        """Stop waiting for a member of a group. Raises ValueError if none is pending by that key."""
        found = self.groups.get(group)
        if found is None or member not in found.pending:
            raise ValueError("nobody waits for this member")
        with self._store.transaction():
            found.pending.remove(member)
            self._save_group(found)
            self.contracts.changed(self.contracts[found.contract].id)
            self.contracts.update(now)

    def _open_contract(self, isp: bytes, more: int) -> Contract:
        contract = self.contracts.current(isp)
        if contract is None or contract.facts.state != OPEN:
            raise ValueError("there is no contract that stands")
        if len(self.subscriptions) + more > self.terms.subscriptions:
            raise ValueError("there are too many subscriptions")
        return contract

    def _request(self, contract: Lines, contact: bytes, own: bytes, group: Group | None, now: int) -> bytes:
        name = group.name if group is not None else None
        proof = sign_feed(self.root, own, contact, group=name) if contract.terms.proofs else None
        ref = contract.send_command(SubRequest(contact, own, proof, name), now)
        members = list(name) if name is not None else None
        self._save(Subscription(ref, contract.id, contact, WANTED, own, group=members))
        return ref

    def answer(self, ref: bytes, now: int, *, accept: bool) -> None:
        """Answer the request of another client. Raises ValueError if there is none."""
        subscription = self.subscriptions.get(ref)
        if subscription is None or subscription.state != INVITED or subscription.other is None:
            raise ValueError("there is no such request")
        contract = self.contracts[subscription.contract]
        with self._store.transaction():
            name = subscription.group
            if not name:
                own = self._store.add_own(self.new_identity()).key if accept else None
                self._reply(contract, subscription, own, now)
            elif accept:
                self._join(contract, name, now)
            else:
                for one in self._of(contract):
                    if one.group == name and one.state == INVITED:
                        self._reply(contract, one, None, now)
            self.contracts.changed(contract.id)
            self.contracts.update(now)

    def _reply(self, contract: Lines, subscription: Subscription, own: bytes | None, now: int) -> None:
        """Answer a request: with a feed, or with a refusal."""
        ref, other, contact = subscription.ref, subscription.other, subscription.contact
        assert other is not None
        if own is None:
            self._delete(subscription)
            contract.send_command(SubResponse(ref, False, None), now)
            return
        subscription.own, subscription.state = own, STANDS
        self._store.add(other)
        self._save(subscription)
        proof = sign_feed(self.root, own, contact, other) if contract.terms.proofs else None
        contract.send_command(SubResponse(ref, True, own, proof), now)
        self._end_pending(subscription)

    def _join(self, contract: Lines, name: list[bytes], now: int) -> None:
        """Join a group: answer pending requests, and send requests to members with higher keys."""
        id_, *members = name
        me = self.root.public_key
        own = self._store.add_own(self.new_identity()).key
        others = [member for member in members if member != me]
        group = Group(id_, contract.id, own, members, others)
        self._save_group(group)
        asking = [one for one in self._of(contract) if one.group == name and one.state == INVITED]
        for one in asking:
            self._reply(contract, one, own, now)
        known = {one.contact for one in asking} | {members[0]}
        for member in others:
            if member > me and member not in known:
                self._request(contract, member, own, group, now)

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
            self.contracts.changed(contract.id)
            self.contracts.update(now)
        return sequence

    def read(self, ref: bytes, limit: int = 100) -> list[Whole]:
        """Return the unconfirmed entries from a contact, in order, at most `limit`."""
        subscription = self.subscriptions.get(ref)
        if subscription is None or subscription.other is None or subscription.state == INVITED:
            return []
        return self._store.read(subscription.other, self._store.feeds[subscription.other].mark, limit)

    def confirm(self, ref: bytes, sequence: int, now: int) -> None:
        """Confirm entries up to a number: they are deleted here."""
        subscription = self.subscriptions[ref]
        if subscription.other is None:
            return
        with self._store.transaction():
            self._store.set_mark(subscription.other, sequence)
            self._store.prune(subscription.other, sequence)
            self._note_read(subscription, sequence, now)
            self._clean(subscription)
            contract = self.contracts.get(subscription.contract)
            if contract is not None:
                self.contracts.changed(contract.id)
                self.contracts.update(now)  # its line may have waited

    def unsubscribe(self, ref: bytes, now: int) -> None:
        """End a subscription: entries already written are still sent, then the other side is notified."""
        subscription = self.subscriptions.get(ref)
        if subscription is None or subscription.state not in (STANDS, ENDED):
            raise ValueError("the subscription does not stand")
        with self._store.transaction():
            subscription.is_leaving = True
            self._save(subscription)
            self.contracts.changed(self.contracts[subscription.contract].id)
            self.contracts.update(now)

    # Receiving

    def on_root(self, feed: bytes, entry: Whole, message: Message, now: int) -> bool:
        if isinstance(message, Announcement):
            self._events.append(Event("announced", feed))
        elif isinstance(message, OnboardResponse):
            self._on_response(feed, message, now)
        return True

    def on_control(self, contract: Lines, entry: Whole, message: Message, now: int) -> None:
        match message:
            case SubRequestIsp():
                self._on_request(contract, entry, message, now)
            case SubResponseIsp():
                self._on_answer(contract, entry, message, now)
            case SubPause(feed) | SubResume(feed):
                for subscription in self._of(contract):
                    if subscription.own == feed:
                        subscription.is_paused = isinstance(message, SubPause)
                        self._set_drop(contract, subscription, now)
            case SubReceipt():
                self._on_receipt(contract, message, now)
            case _:
                self.faults["a command that a provider does not have"] += 1

    def _on_request(self, contract: Lines, entry: Whole, message: SubRequestIsp, now: int) -> None:
        ref, source, feed, name = message.ref, message.source, message.feed, message.group
        me = self.root.public_key
        if contract.is_overrun:
            return
        if ref in self.subscriptions or contract.facts.state != OPEN:
            self.faults["a request twice, or too late"] += 1
            return
        is_proven = not contract.terms.proofs or is_signed(message.proof, source, feed, me, group=name)
        if not is_proven and message.proof is not None:
            self._accuse_of_forgery(contract, entry, source, b"", now)
        elif not is_proven:
            self._events.append(Event("unproven", source, ref, UNPROVEN))
        is_asked_too_much = len(self.subscriptions) >= self.terms.subscriptions
        if not is_proven or is_asked_too_much or not self._fits(source, feed, name) or not self._is_new(feed):
            contract.send_command(SubResponse(ref, False, None), now)
            return
        group = self.groups.get(name[0]) if name else None
        members = list(name) if name else None
        subscription = Subscription(ref, contract.id, source, INVITED, other=feed, group=members)
        self._save(subscription)
        if group is not None:
            self._reply(contract, subscription, group.own, now)
        else:
            self._events.append(Event("requested", source, ref, "group" if name else ""))

    def _fits(self, source: bytes, feed: bytes, name: tuple[bytes, ...] | None) -> bool:
        """Whether a request for a group is from one of its members, to one of its members."""
        if name is None:
            return True
        id_, *members = name or (b"",)
        group = self.groups.get(id_)
        return (
            2 < len(members) <= MOST_MEMBERS
            and source in members
            and self.root.public_key in members
            and (feed == id_) == (source == members[0])
            and (group is None or (group.name == name and source in group.pending))
        )

    def _on_answer(self, contract: Lines, entry: Whole, message: SubResponseIsp, now: int) -> None:
        ref, feed = message.ref, message.feed
        subscription = self.subscriptions.get(ref)
        if subscription is None or subscription.contract != contract.id or subscription.state != WANTED:
            self.faults["an answer to no request"] += 1
            return
        contact, own = subscription.contact, subscription.own or b""
        if (
            isinstance(feed, bytes)
            and contract.terms.proofs
            and not is_signed(message.proof, contact, feed, self.root.public_key, own)
        ):
            if message.proof is not None:
                self._accuse_of_forgery(contract, entry, contact, own, now)
            feed = UNPROVEN if message.proof is None else FORGED
        if isinstance(feed, bytes) and not self._is_new(feed):
            subscription.state, subscription.is_leaving = SPOILT, True
            self._save(subscription)
            self._end_pending(subscription)
            self.contracts.changed(contract.id)
        elif isinstance(feed, bytes):
            self._store.add(feed)
            subscription.other, subscription.state = feed, STANDS
            self._save(subscription)
            self._end_pending(subscription)
            self._events.append(Event("subscribed", contact, ref))
        else:
            self._delete(subscription)
            self._events.append(Event("refused", contact, ref, str(feed)))

    def _accuse_of_forgery(
        self, contract: Lines, entry: Whole, contact: bytes, answered: bytes, now: int
    ) -> None:
        control = contract.facts.other_control
        assert control is not None
        own = self.root.public_key, answered
        self.accusations.accuse(contract.other, FORGED, control, entry.sequence, now, contact, own)

    # Ends

    def on_state(self, contract: Lines, now: int) -> None:
        state, isp = contract.facts.state, contract.facts.isp
        if state == OPEN:
            self._events.append(Event("onboarded", isp))
        elif state == FAREWELL:
            self._events.append(Event("farewell", isp))
            for one in self._of(contract):
                if one.state in (WANTED, INVITED):
                    self._delete(one)
                    self._events.append(Event("refused", one.contact, one.ref, NOT_FOUND))
                else:
                    self._set_drop(contract, one, now)
        elif state == OVER:
            self._events.append(Event("over", isp))
            self._end_all(contract)

    def on_over(self, contract: Contract, now: int) -> None:
        self._end_all(contract)
        self.contracts.remove(contract)

    def _load(self, now: int) -> None:
        for name, value in self._store.records("contract ").items():
            contract_id = bytes.fromhex(name.split(" ")[1])
            self.contracts.add(Contract.load(contract_id, value, self, self.terms))
        for value in self._store.records("subscription ").values():
            assert isinstance(value, dict)
            one = Subscription(**value)
            self.subscriptions[one.ref] = one
            self._set_timer(one)
        for value in self._store.records("group ").values():
            assert isinstance(value, dict)
            group = Group(**value)
            self.groups[group.id] = group
        for contract in list(self.contracts.values()):
            contract.resume(now)
            self.contracts.set_timer(contract)
        for isp in self.followed:
            self._read_root(isp, now)
        self.contracts.update(now)
