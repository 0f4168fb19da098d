"""The provider's side: who may be a client, and which client-to-client feeds go where.

A *route* is a subscription between two clients: what one writes comes out of his line and goes into the line
of the other. An entry is held here from one to the other, and at most `Terms.held` of them a direction: a
sender is told to pause when its receiver is slow, and if it does not, its line is read no further.

Lines are filled in turns, an entry of each route that has one, so that one client cannot crowd out others.

When one side of a route has sent its last entry, the other is told so in its line, behind that entry, by a
`sub_resp_isp` that is not ok. It answers in its own line with a `sub_resp` that is not ok. So each side's end
is exact, and nothing is kept of a route that has ended on both.
"""

from collections.abc import Iterator
from dataclasses import asdict
from random import Random
from typing import Final

from ssb.keys import Identity
from ssb.tiny.bipf import Value
from ssb.tiny.feed import Whole
from ssb.tiny.isp.contract import Contract
from ssb.tiny.isp.facts import ACCEPTED, FAREWELL, OPEN, OVER, Facts
from ssb.tiny.isp.messages import (
    NOT_FOUND,
    REJECTED,
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
from ssb.tiny.isp.route import Route, Side, load_route
from ssb.tiny.isp.terms import SECOND, Terms
from ssb.tiny.node import Node

REQUEST_PAUSE: Final = 10 * SECOND
"""Between two answers to requests of one client, ns: an answer goes to all clients."""


class Provider(BaseParty):
    """The program of a provider.

    Args:
        node, root, random, terms, now: see BaseParty.
        individual: terms of single clients, by their root feeds.
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
        self.routes: dict[bytes, Route] = {}
        self._answered: dict[bytes, int] = {}
        self._waiting: dict[bytes, int] = {}  # client -> when its root feed is read further
        super().__init__(node, root, random, terms, now)

    @property
    def whitelist(self) -> list[bytes]:
        """The clients that may have a contract; all may if it is empty."""
        listed = self._store.get("whitelist")
        return [key for key in listed if isinstance(key, bytes)] if isinstance(listed, list) else []

    def allow(self, client: bytes) -> None:
        """Add a client to the whitelist."""
        listed = self.whitelist
        if client not in listed:
            self._store.put("whitelist", [*listed, client])

    def announce(self, now: int) -> None:
        """Say in the root feed that this is a provider, once."""
        if self._store.get("announced") is None:
            with self._store.transaction():
                self._store.put("announced", True)
                self.node.publish(self.root.public_key, write(Announcement()), now)

    def next_deadline(self) -> int | None:
        """See Program."""
        due = [super().next_deadline(), *self._waiting.values()]
        return min((time for time in due if time is not None), default=None)

    def wake(self, now: int) -> None:
        """See Program."""
        for client in [client for client, due in self._waiting.items() if due <= now]:
            del self._waiting[client]
            self._read_root(client, now)
        super().wake(now)

    # Onboarding

    def on_root(self, feed: bytes, entry: Whole, message: Message, now: int) -> bool:
        """See BaseParty."""
        if not isinstance(message, OnboardRequest) or message.isp != self.root.public_key:
            return True
        before = self.contract_with(feed)
        if before is not None and before.facts.state == FAREWELL:
            return False  # its last word is on its way, or the client would not ask
        due = self._answered.get(feed, now) + REQUEST_PAUSE
        if feed in self._answered and now < due:
            self._waiting[feed] = due
            return False
        self._answered[feed] = now
        listed = self.whitelist
        is_allowed = not listed or feed in listed
        if before is not None or not is_allowed or not self._is_new(message.control):
            self._respond(OnboardResponse(entry.id, False, None), now)
            return True
        control = self._store.add_own(self.new_identity()).key
        facts = Facts(feed, self.root.public_key, ACCEPTED, control)
        contract = Contract(entry.id, facts, self, self._individual.get(feed, self.terms))
        self.contracts[entry.id] = contract
        self._respond(OnboardResponse(entry.id, True, control), now)
        contract.connect(message.control, now)
        return True

    def _respond(self, message: OnboardResponse, now: int) -> None:
        self.node.publish(self.root.public_key, write(message), now)

    # Subscriptions

    def on_control(self, contract: Contract, entry: Whole, message: Message, now: int) -> None:
        """See Party."""
        if isinstance(message, SubRequest):
            self._on_request(contract, entry.id, message, now)
        elif isinstance(message, SubResponse):
            self._on_response(contract, message, now)
        else:
            self.fault("a command that a client does not have")

    def _on_request(self, contract: Contract, ref: bytes, message: SubRequest, now: int) -> None:
        if contract.is_overrun:
            return
        target = self.contract_with(message.target)
        asked = sum(contract.id in (route.a.contract, route.b.contract) for route in self.routes.values())
        is_open = contract.facts.state == OPEN
        if target is None or target is contract or target.facts.state != OPEN or not is_open:
            contract.say(SubResponseIsp(ref, False, NOT_FOUND), now)
        elif asked >= contract.terms.subscriptions or not self._is_new(message.feed):
            contract.say(SubResponseIsp(ref, False, REJECTED), now)
        else:
            self._store.add(message.feed)
            self._save(Route(ref, Side(contract.id, message.feed), Side(target.id)))
            target.say(SubRequestIsp(ref, contract.facts.client, message.feed), now)

    def _on_response(self, contract: Contract, message: SubResponse, now: int) -> None:
        route = self.routes.get(message.ref)
        if route is None or route.b.contract != contract.id or route.is_open:
            self.fault("an answer to no request")
            return
        asker = self.contracts.get(route.a.contract) if route.a.contract is not None else None
        if message.feed is None or not self._is_new(message.feed):
            if asker is not None:
                asker.say(SubResponseIsp(route.ref, False, REJECTED), now)
            self._delete(route)
            return
        route.b.feed, route.is_open = message.feed, True
        self._store.add(message.feed)
        self._save(route)
        if asker is not None:
            asker.say(SubResponseIsp(route.ref, True, message.feed), now)
        self._dirty[contract.id] = None

    # Data

    def on_data(self, contract: Contract, content: bytes, now: int) -> bool:
        """See Party."""
        sides = {
            route.ref: (route, side, other)
            for route, side, other in self._sides(contract.id)
            if route.is_open and not side.has_ended
        }
        message = None if is_tunnelled(content) else read(content)
        if isinstance(message, SubResponse) and not message.ok and message.ref in sides:
            route, side, _ = sides[message.ref]
            self._end_side(route, side)
            return True
        lines = [Line(ref, side.feed) for ref, (_, side, _) in sides.items() if side.feed is not None]
        line = self._feed_of(lines, content) if is_tunnelled(content) else None
        if line is not None:
            return self._switch(contract, *sides[line.ref], line, content, now)
        if not is_tunnelled(content) and not isinstance(message, SubResponse):
            self.fault("what does not belong into a line")
            return True
        if contract.is_ending:  # so nothing that would explain it is under way
            self.fault("an entry of nobody's")
        return contract.is_ending

    def _switch(
        self, contract: Contract, route: Route, side: Side, other: Side, line: Line, content: bytes, now: int
    ) -> bool:
        """Take an entry from one line, for the other; False if too many wait there."""
        to = self.contracts.get(other.contract) if other.contract is not None else None
        is_wanted = to is not None and to.facts.state == OPEN
        if is_wanted and self._backlog(line.feed) >= contract.terms.held:
            return False
        if not self._take_inner(line, content, contract.terms):
            return True
        if not is_wanted:
            self._bundle(line.feed)
        elif to is not None:
            self._dirty[to.id] = None
            if self._backlog(line.feed) >= contract.terms.backlog:
                self._pause(contract, route, side, now)
        return True

    def _pause(self, contract: Contract, route: Route, side: Side, now: int) -> None:
        if not side.is_paused and side.feed is not None:
            contract.say(SubPause(side.feed), now)
            side.is_paused = True
            self._save(route)

    def _resume(self, contract: Contract, route: Route, side: Side, now: int) -> None:
        if side.is_paused and side.feed is not None:
            contract.say(SubResume(side.feed), now)
            side.is_paused = False
            self._save(route)

    def next_content(self, contract: Contract, now: int) -> bytes | None:
        """See Party."""
        ready = {route.ref: (route, side) for route, side in self._ready(contract)}
        if not ready:
            return None
        route, side = ready[self._in_turn(contract, list(ready))]
        if side.feed is None or not self._backlog(side.feed):
            side.is_told = True
            reason = NOT_FOUND if side.contract is None else REJECTED
            self._save(route)
            self._clean(route)
            return write(SubResponseIsp(route.ref, False, reason))
        content = self._bundle(side.feed)
        source = self.contracts.get(side.contract) if side.contract is not None else None
        if source is not None and source.facts.state in (OPEN, FAREWELL):
            left = self._backlog(side.feed)
            if left <= source.terms.backlog // 2:
                self._resume(source, route, side, now)
            if left == source.terms.held - 1:
                self._dirty[source.id] = None  # its line may have had to wait
        return content

    def has_more(self, contract: Contract) -> bool:
        """See Party."""
        return any(True for _ in self._ready(contract))

    def _ready(self, contract: Contract) -> Iterator[tuple[Route, Side]]:
        """Yield routes that have an entry for a client's line, or an end to tell of."""
        for route, _, side in self._sides(contract.id):
            if route.is_open and (self._backlog(side.feed) or (side.has_ended and not side.is_told)):
                yield route, side

    # Ends

    def on_state(self, contract: Contract, now: int) -> None:
        """See Party."""
        state = contract.facts.state
        client = contract.facts.client
        if state == OPEN:
            self._events.append(Event("onboarded", client))
        elif state == FAREWELL:
            self._events.append(Event("farewell", client))
            for route, side, other in list(self._sides(contract.id)):
                self._part(contract, route, side, other, now)
        elif state == OVER:
            self._events.append(Event("over", client))
            self._leave_routes(contract, now)
            if client in self.followed:
                self._waiting[client] = now  # it may have asked for another contract

    def on_over(self, contract: Contract, now: int) -> None:
        """See BaseParty."""
        self._leave_routes(contract, now)
        self.contracts.pop(contract.id, None)
        self._turns.pop(contract.id, None)

    def _part(self, contract: Contract, route: Route, side: Side, other: Side, now: int) -> None:
        """A client takes no new entries: let the other side of a route pause, or take back a request.

        Who leaves itself must get rid of what it has: nobody lets it pause but a slow receiver that stays.
        """
        to = self.contracts.get(other.contract) if other.contract is not None else None
        if route.is_open:
            is_staying = to is not None and to.facts.state == OPEN
            if to is not None and is_staying:
                self._pause(to, route, other, now)
            elif to is not None and to.facts.state == FAREWELL:
                self._resume(to, route, other, now)
            if not is_staying:
                self._resume(contract, route, side, now)
        elif side is route.b:
            if to is not None:
                to.say(SubResponseIsp(route.ref, False, NOT_FOUND), now)
            self._delete(route)
        else:
            side.contract, side.has_ended = None, True
            self._save(route)

    def _end_side(self, route: Route, side: Side) -> None:
        """A side has sent its last entry."""
        side.has_ended = True
        self._save(route)
        for one, other in route.sides():
            if one is side and other.contract is not None:
                self._dirty[other.contract] = None
        self._clean(route)

    def _leave_routes(self, contract: Contract, now: int) -> None:
        """A contract is over: everything that it has sent has come, and nothing can be told it."""
        for route, side, other in list(self._sides(contract.id)):
            to = self.contracts.get(other.contract) if other.contract is not None else None
            if to is not None and to.facts.state == FAREWELL:
                self._resume(to, route, other, now)
            side.contract = None
            self._end_side(route, side)

    def _clean(self, route: Route) -> None:
        """Delete what is no longer needed of a route, and the route when that is all of it."""
        for side, other in route.sides():
            if side.has_ended and other.contract is None:
                side.is_told = True
            if side.is_told and side.feed is not None:
                self._store.drop(side.feed)
                side.feed = None
                self._save(route)
        if route.a.is_told and route.b.is_told:
            self._delete(route)

    # Inside

    def _sides(self, contract: bytes) -> Iterator[tuple[Route, Side, Side]]:
        """Yield a contract's routes, its side of each, and the other one."""
        for route in self.routes.values():
            for side, other in route.sides():
                if side.contract == contract:
                    yield route, side, other

    def _save(self, route: Route) -> None:
        self.routes[route.ref] = route
        self._store.put(f"route {route.ref.hex()}", asdict(route))

    def _delete(self, route: Route) -> None:
        for side in (route.a, route.b):
            if side.feed is not None:
                self._store.drop(side.feed)
        self.routes.pop(route.ref, None)
        self._store.put(f"route {route.ref.hex()}", None)

    def _load(self, now: int) -> None:
        for name, value in self._store.records("contract ").items():
            contract_id = bytes.fromhex(name.split(" ")[1])
            client = _client(value)
            terms = self._individual.get(client, self.terms)
            self.contracts[contract_id] = Contract.load(contract_id, value, self, terms)
        for value in self._store.records("route ").values():
            route = load_route(value)
            self.routes[route.ref] = route
        for contract in list(self.contracts.values()):
            contract.resume(now)
        for client in self.followed:
            self._waiting[client] = now
        self._sweep(now)


def _client(value: Value) -> bytes:
    assert isinstance(value, dict)
    client = value["client"]
    assert isinstance(client, bytes)
    return client
