"""The provider's side: admission of clients, reachability, and requests for subscriptions.

Forwarding between lines is in `ssb.tiny.isp.provider.switch`.

A provider may be a client of another (`onboard`), by the same contract. Two providers that are *peers*
announce to each other which clients they reach (`ssb.tiny.isp.provider.reach`), relay requests for these, and
fill each other's lines with the entries of their clients. Operators agree on that, as they do on contracts:
announcements of others are ignored.
"""

from collections.abc import Collection
from random import Random
from typing import Final

from base.timers import Timers, earliest
from base.units import SECOND
from ssb.bipf import Value
from ssb.keys import Identity
from ssb.tiny.feed import Whole
from ssb.tiny.isp.contract import Contract
from ssb.tiny.isp.events import Event
from ssb.tiny.isp.evidence import is_signed
from ssb.tiny.isp.facts import ACCEPTED, ASKED, FAREWELL, OPEN, OVER, Facts
from ssb.tiny.isp.lines import Lines
from ssb.tiny.isp.messages import (
    NOT_FOUND,
    REJECTED,
    Announcement,
    Message,
    OnboardRequest,
    OnboardResponse,
    Reach,
    SubPause,
    SubReceipt,
    SubRelay,
    SubRequest,
    SubRequestIsp,
    SubResponse,
    SubResponseIsp,
    SubResume,
    write,
)
from ssb.tiny.isp.provider.gate import RateGate
from ssb.tiny.isp.provider.reach import Reachability
from ssb.tiny.isp.provider.route import Route, Routes, Side, load_route
from ssb.tiny.isp.provider.switch import Switch
from ssb.tiny.isp.terms import Terms
from ssb.tiny.node import Node

REQUEST_PAUSE: Final = 10 * SECOND
"""Between two answers to requests of one client, ns: an answer goes to all clients."""
UPDATE_PAUSE: Final = SECOND
"""Between two announcements of reachable clients to a neighbour, ns."""


class Provider(Switch):
    """The Program of a provider.

    Args:
        node, root, random, terms, now: see BaseParty.
        individual: terms of single clients and of other providers, by their root feeds. Both sides must
            have the same ones.

    Attributes:
        reachability: reachable clients of other providers.
    """

    def __init__(
        self,
        node: Node,
        root: Identity,
        random: Random,
        terms: Terms,
        now: int,
        individual: dict[bytes, Terms] | None = None,
    ) -> None:
        self._individual = individual or {}
        self.routes = Routes()
        self.peers = _keys_in(node.store.get("peers"))
        self._answered: dict[bytes, int] = {}
        self.gate: RateGate = RateGate(node, self._terms_with)
        self._update_at: int | None = None
        self._updated_at: int | None = None
        self._partings = Timers[bytes]()  # contracts with other providers that end
        self.reachability = Reachability(root.public_key)
        super().__init__(node, root, random, terms, now)

    @property
    def whitelist(self) -> list[bytes]:
        """The clients that may have a contract; all may if it is empty."""
        return _keys_in(self._store.get("whitelist"))

    def allow(self, client: bytes) -> None:
        """Add a client to the whitelist."""
        listed = self.whitelist
        if client not in listed:
            self._store.put("whitelist", [*listed, client])

    def peer(self, other: bytes, now: int) -> None:
        """Exchange root feeds and announcements with another provider; one of the two has to onboard."""
        if other not in self.peers:
            self.peers.append(other)
            self._store.put("peers", self.peers)
        self.follow(other, now)

    @property
    def clients(self) -> list[bytes]:
        """The clients with open contracts."""
        return [
            one.other for one in self.contracts.values() if one.is_passable and one.other not in self.peers
        ]

    def announce(self, now: int) -> None:
        """Announce in the root feed that this is a provider, once."""
        if self._store.get("announced") is None:
            with self._store.transaction():
                self._store.put("announced", True)
                self.node.publish(self.root.public_key, write(Announcement()), now)

    def next_deadline(self) -> int | None:
        gate, parting = self.gate.next_deadline(), self._partings.next_deadline()
        return earliest(super().next_deadline(), self._update_at, gate, parting)

    def wake(self, now: int) -> None:
        for feed in self.gate.take_opened(now):
            self.on_entries(feed, now)
        if self._update_at is not None and self._update_at <= now:
            self._send_updates(now)
        for id_ in self._partings.expire(now):
            if (contract := self.contracts.get(id_)) is not None:
                self.drop_held(contract, now)
                self._set_parting(contract, now)
        super().wake(now)

    def _set_parting(self, contract: Lines, now: int) -> None:
        if contract.facts.state == FAREWELL and contract.other in self.peers:
            self._partings.set(contract.id, now + contract.terms.patience)

    def on_read(self, contract: Lines, feed: bytes, now: int) -> None:
        """See Party: a `fin` that is due is free."""
        self.gate.give_back_command(contract.other, now)

    # Onboarding

    def on_root(self, feed: bytes, entry: Whole, message: Message, now: int) -> bool:
        if isinstance(message, OnboardResponse):
            self._on_response(feed, message, now)
        if not isinstance(message, OnboardRequest) or message.isp != self.root.public_key:
            return True
        before = self.contracts.current(feed)
        if before is not None and before.facts.state == FAREWELL:
            self.gate.close(feed)  # its last command is in flight, or the client would not request it
            return False
        due = self._answered.get(feed, now) + REQUEST_PAUSE
        if feed in self._answered and now < due:
            self.gate.close(feed, due)
            return False
        self._answered[feed] = now
        if before is not None and before.facts.state == ASKED and self.root.public_key > feed:
            before.delete()  # requests of both: the lower key's counts
            self.contracts.remove(before)
            before = None
        listed = self.whitelist
        is_allowed = not listed or feed in listed
        if before is not None or not is_allowed or not self._is_new(message.control):
            self._respond(OnboardResponse(entry.id, False, None), now)
            return True
        control = self._store.add_own(self.new_identity()).key
        facts = Facts(feed, self.root.public_key, ACCEPTED, control)
        contract = Contract(entry.id, facts, self, self._terms_with(feed))
        self.contracts.add(contract)
        self._respond(OnboardResponse(entry.id, True, control), now)
        contract.connect(message.control, now)
        return True

    def _terms_with(self, other: bytes) -> Terms:
        return self._individual.get(other, self.terms)

    def _respond(self, message: OnboardResponse, now: int) -> None:
        self.node.publish(self.root.public_key, write(message), now)

    # Reachability

    def _schedule_update(self, now: int) -> None:
        """Schedule an announcement of changes, rate-limited."""
        if self._update_at is None:
            self._update_at = now if self._updated_at is None else max(now, self._updated_at + UPDATE_PAUSE)

    def _send_updates(self, now: int) -> None:
        self._update_at, self._updated_at = None, now
        clients = self.clients
        for contract in self.contracts.values():
            if contract.other in self.peers and contract.facts.state == OPEN:
                if contract.is_behind:  # it gets all changes at once, later
                    self._update_at = now + UPDATE_PAUSE
                    continue
                for message in self.reachability.updates(contract.id, contract.other, clients):
                    contract.send_command(message, now)
                self._store_reach(contract)

    def _store_reach(self, contract: Lines) -> None:
        self._store.put(f"reach {contract.id.hex()}", self.reachability.record(contract.id))

    def _forget_reach(self, contract: Lines, now: int) -> None:
        self.reachability.forget(contract.id)
        self._store.put(f"reach {contract.id.hex()}", None)
        self._schedule_update(now)

    def _next_hop(self, target: bytes, without: Collection[bytes]) -> Contract | None:
        """Return the contract that leads to a client: its own or that of another provider."""
        own = self.contracts.current(target)
        if own is not None:
            return own if own.is_passable and target not in self.peers else None
        shut = [one.id for one in self.contracts.values() if not one.is_passable]
        through = self.reachability.next_hop(target, [*without, *shut])
        return self.contracts.get(through) if through is not None else None

    # Subscriptions

    def on_control(self, contract: Lines, entry: Whole, message: Message, now: int) -> None:
        is_peer = contract.other in self.peers
        match message:
            case SubRequest() if not is_peer:
                source = contract.other
                relayed = SubRelay(
                    entry.id, source, message.target, message.feed, message.proof, message.group
                )
                self._on_request(contract, relayed, now)
            case SubResponse(ref, _, feed, proof) if not is_peer:
                self._on_answer(contract, ref, feed, proof, REJECTED, now)
            case SubReceipt():
                if self.forward_receipt(contract, message, now):
                    self.gate.give_back_command(contract.other, now)
            case SubRelay() if is_peer:
                self._on_request(contract, message, now)
            case SubResponseIsp(ref, _, feed_or_reason, proof) if is_peer:
                feed = feed_or_reason if isinstance(feed_or_reason, bytes) else None
                self._on_answer(contract, ref, feed, proof, str(feed_or_reason), now)
            case Reach() if is_peer:
                self._on_reach(contract, message, now)
            case SubPause(feed) | SubResume(feed) if is_peer:
                self.set_held(contract, feed, now, is_held=isinstance(message, SubPause))
            case _:
                self.faults["a command that a client does not have"] += 1

    def _on_reach(self, contract: Lines, message: Reach, now: int) -> None:
        if contract.facts.state != OPEN:
            return
        wrong = self.reachability.receive(contract.id, contract.other, message)
        if wrong is not None:
            self.faults[wrong] += 1
        self._store_reach(contract)
        self._schedule_update(now)

    def _on_request(self, contract: Lines, request: SubRelay, now: int) -> None:
        if contract.is_overrun:
            return
        ref, source, feed, group = request.ref, request.source, request.feed, request.group
        to = self._next_hop(request.target, [contract.id])
        asked = len(self.routes.of_contract(contract.id))
        if to is None or to is contract or to.is_behind or not contract.is_passable:
            contract.send_command(SubResponseIsp(ref, False, NOT_FOUND), now)
        elif (
            asked >= contract.terms.subscriptions
            or ref in self.routes
            or not self._is_proven(contract, request.proof, source, feed, request.target, group=group)
            or not self._may_write(contract, feed, is_in_group=group is not None)
        ):
            contract.send_command(SubResponseIsp(ref, False, REJECTED), now)
        else:
            self._store.add(feed)
            members = list(group) if group is not None else None
            sides = Side(contract.id, feed), Side(to.id)
            self._save(Route(ref, *sides, source, request.target, members))
            if to.other in self.peers:
                to.send_command(request, now)
            else:
                to.send_command(SubRequestIsp(ref, source, feed, request.proof, group), now)

    def _on_answer(
        self, contract: Lines, ref: bytes, feed: bytes | None, proof: bytes | None, reason: str, now: int
    ) -> None:
        route = self.routes.get(ref)
        if route is None or route.b.contract != contract.id or route.is_open:
            self.faults["an answer to no request"] += 1
            return
        self.gate.give_back_command(contract.other, now)  # an answer is free
        asker = self._contract_of(route.a)
        answered = route.a.feed or b""
        if (
            feed is None
            or not self._is_proven(contract, proof, route.target, feed, route.source, answered)
            or not self._may_write(contract, feed, is_in_group=route.group is not None)
        ):
            if asker is not None:
                why = reason if feed is None else REJECTED
                asker.send_command(SubResponseIsp(route.ref, False, why), now)
            self._delete(route)
            return
        route.b.feed, route.is_open = feed, True
        self._store.add(feed)
        self._save(route)
        self._open(route)
        if asker is not None:
            asker.send_command(SubResponseIsp(route.ref, True, feed, proof), now)
            self.contracts.changed(asker.id)
        self.contracts.changed(contract.id)

    def _open(self, route: Route) -> None:
        """Start a route at the mark of others from the same feed into the same line."""
        for side, to in route.sides():
            marks = [one.mark for _, one, other in self._siblings(side) if other.contract == to.contract]
            side.mark = max(marks, default=0)
        self._save(route)

    def _is_proven(
        self,
        contract: Lines,
        proof: bytes | None,
        owner: bytes,
        feed: bytes,
        contact: bytes,
        answered: bytes = b"",
        group: tuple[bytes, ...] | None = None,
    ) -> bool:
        """Whether a proof, if any, is valid; whether one is required, the other client decides."""
        is_due = contract.terms.proofs and proof is not None
        if not is_due or is_signed(proof, owner, feed, contact, answered, group):
            return True
        self.faults["a feed that is not signed for"] += 1
        return False

    def _may_write(self, contract: Lines, feed: bytes, *, is_in_group: bool) -> bool:
        """Whether the other side of a contract may offer a feed: a new one, or one for others of a group.

        That also ends a request that loops: its feed is known. All entries of a group's feed must be held, as
        every member gets it from the first one on.
        """
        held = self._store.feeds.get(feed)
        if is_in_group and held is not None and held.base == 0:
            sides = self.routes.of_feed(feed)
            if sides and all(
                side.contract == contract.id and route.group is not None for route, side, _ in sides
            ):
                return True
        return self._is_new(feed)

    # Ends

    def on_state(self, contract: Lines, now: int) -> None:
        state = contract.facts.state
        client = contract.other
        if state == OPEN:
            self._schedule_update(now)
            self._events.append(Event("onboarded", client))
        elif state == FAREWELL:
            self._events.append(Event("farewell", client))
            self._forget_reach(contract, now)
            self._set_parting(contract, now)
            for route, side, other in self.routes.of_contract(contract.id):
                self._withdraw(contract, route, side, other, now)
        elif state == OVER:
            self._events.append(Event("over", client))
            self._leave_routes(contract, now)
            self.gate.open(client, now)  # it may have requested another contract

    def on_broken(self, contract: Lines, now: int) -> None:
        self._forget_reach(contract, now)
        self._leave_routes(contract, now)

    def on_over(self, contract: Contract, now: int) -> None:
        self._forget_reach(contract, now)
        self._leave_routes(contract, now)
        self.contracts.remove(contract)
        self.gate.open(contract.other, now)

    def _load(self, now: int) -> None:
        for name, value in self._store.records("contract ").items():
            contract_id = bytes.fromhex(name.split(" ")[1])
            parties = _key_in(value, "client"), _key_in(value, "isp")
            (other,) = (party for party in parties if party != self.root.public_key)
            self.contracts.add(Contract.load(contract_id, value, self, self._terms_with(other)))
        for name, value in self._store.records("reach ").items():
            self.reachability.load(bytes.fromhex(name.split(" ")[1]), value)
        for value in self._store.records("route ").values():
            self.routes.put(load_route(value))
        for contract in list(self.contracts.values()):
            contract.resume(now)
            self.contracts.set_timer(contract)
            self._set_parting(contract, now)
        controls = [contract.facts.other_control for contract in self.contracts.values()]
        for feed in (*self.followed, *controls):
            if feed is not None:
                self.gate.open(feed, now)
        self._schedule_update(now)
        self.contracts.update(now)


def _keys_in(value: Value) -> list[bytes]:
    """Return the keys in a record; none if there is no record."""
    return [key for key in value if isinstance(key, bytes)] if isinstance(value, list) else []


def _key_in(value: Value, name: str) -> bytes:
    assert isinstance(value, dict)
    key = value[name]
    assert isinstance(key, bytes)
    return key
