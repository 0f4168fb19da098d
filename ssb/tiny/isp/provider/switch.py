"""Forwarding between lines of a provider: routes, and entries in transit.

A *route* is a subscription between two clients: the entries of one come out of its line and go into the line
of the other. An entry is held here in between, at most `Terms.held` of them per direction: a sender is paused
when its receiver is slow, and if it does not stop, its line is read no further.

A side of a route may be another provider, whose client it is. Nothing else changes: entries come out of that
provider's line and go into it. A client in a group writes one feed for all members: it has a route to each;
its entries arrive once, and go into the line of each member, or once into that of a provider with several
members behind it.

Lines are filled round robin, one entry per route, so that one client cannot crowd out others.

When one side of a route has sent its last entry, the other is notified in its line, behind that entry, by a
`sub_resp_isp` that is not ok. It answers in its own line with a `sub_resp` that is not ok, a provider with a
`sub_resp_isp`. So each side's end is exact, and a route that has ended on both leaves no state.
"""

from collections.abc import Iterator

from ssb.tiny.isp.contract import Contract
from ssb.tiny.isp.events import Event
from ssb.tiny.isp.evidence import is_receipt
from ssb.tiny.isp.facts import FAREWELL, OPEN
from ssb.tiny.isp.lines import Lines
from ssb.tiny.isp.messages import (
    NOT_FOUND,
    REJECTED,
    SubPause,
    SubReceipt,
    SubResponse,
    SubResponseIsp,
    SubResume,
    is_tunnelled,
    read,
    write,
)
from ssb.tiny.isp.party import BaseParty, Line
from ssb.tiny.isp.provider.route import Route, Routes, Side


class Switch(BaseParty):
    """A party with routes.

    Attributes:
        routes: of all subscriptions.
        peers: the neighbour providers.
    """

    routes: Routes
    peers: list[bytes]

    # Receiving

    def on_data(self, contract: Lines, content: bytes, now: int) -> bool:
        sides = {
            route.ref: (route, side)
            for route, side, _ in self.routes.of_contract(contract.id)
            if route.is_open and not side.has_ended
        }
        message = None if is_tunnelled(content) else read(content)
        if isinstance(message, SubResponse | SubResponseIsp) and not message.ok and message.ref in sides:
            route, side = sides[message.ref]
            side.is_gone = isinstance(message, SubResponseIsp) and message.feed == NOT_FOUND
            if side.is_gone:
                self._drop_waiting(route, side, now)
            self._end_side(route, side)
            return True
        lines = [Line(ref, side.feed) for ref, (_, side) in sides.items() if side.feed is not None]
        line = self._feed_of(lines, content) if is_tunnelled(content) else None
        if line is not None:
            return self._switch(contract, line, content, now)
        if not is_tunnelled(content) and not isinstance(message, SubResponse | SubResponseIsp):
            contract.accuse("what does not belong into a line", now)
            return True
        if contract.is_ending:  # so no command to explain it is under way
            self.faults["an entry of nobody's"] += 1
            return True
        contract.on_unexplained(now)
        return False

    def _switch(self, contract: Lines, line: Line, content: bytes, now: int) -> bool:
        """Forward an entry from one line to others; False if too many wait there."""
        found = [
            (route, side, other)
            for route, side, other in self.routes.of_feed(line.feed)
            if side.contract == contract.id and not side.has_ended
        ]
        wanted = [one for one in found if not one[0].is_open or self._is_wanted(one[2])]
        if any(self._waiting(side) >= contract.terms.held for _, side, _ in wanted):
            return False
        feed = self._store.feeds[line.feed]
        if feed.sequence - feed.base >= contract.terms.held and self._is_late(line.feed):
            return False
        if not self._store_inner(contract, line, content, now):
            return True
        for route, side, other in found:
            to = self._contract_of(other)
            if not self._is_wanted(other) and route.is_open:
                self._drop_waiting(route, other, now)
            elif to is not None:
                self.contracts.changed(to.id)
                if self._waiting(side) >= contract.terms.backlog:
                    self._pause(contract, side, now)
        return True

    def _is_wanted(self, receiver: Side) -> bool:
        """Whether a side still takes entries."""
        to = self._contract_of(receiver)
        return to is not None and to.is_passable and not receiver.is_gone

    def _drop_waiting(self, route: Route, receiver: Side, now: int) -> None:
        """Drop the undeliverable entries for a side.

        A sender that leaves must not wait any longer: its line ends when it has sent all its entries.
        """
        for side, other in route.sides():
            if other is receiver and side.feed is not None:
                side.mark = self._store.feeds[side.feed].sequence
                self._prune(side.feed)
                sender = self._contract_of(side)
                if sender is not None and sender.facts.state == FAREWELL:
                    self._resume(sender, side, now)
        self._save(route)

    def forward_receipt(self, contract: Lines, message: SubReceipt, now: int) -> bool:
        """Forward a client's receipt, if it is new; return whether it was."""
        route = self.routes.get(message.ref)
        for side, other in route.sides() if route is not None else ():
            if side.contract == contract.id and side.feed is not None and other.feed is not None:
                is_new = side.receipt < message.sequence <= other.mark
                if not is_new or not is_receipt(message.signature, side.feed, other.feed, message.sequence):
                    self.faults["a receipt that is none"] += 1
                    return False
                to = self._contract_of(other)
                side.receipt = message.sequence
                assert route is not None
                self._save(route)
                if to is not None and to.facts.state == OPEN:
                    to.send_command(message, now)
                return True
        return False

    # Flow control

    def _pause(self, contract: Lines, side: Side, now: int) -> None:
        """Pause a sender's feed, once for all its routes."""
        if not side.is_paused and side.feed is not None:
            contract.send_command(SubPause(side.feed), now)
            self._set_paused(side, True)

    def _resume(self, contract: Lines, side: Side, now: int) -> None:
        """Resume a sender's feed, unless another receiver that takes entries is slow."""
        most = contract.terms.backlog // 2
        slow = [
            one
            for _, one, other in self._siblings(side)
            if one is not side and self._waiting(one) > most and self._is_wanted(other)
        ]
        if side.is_paused and side.feed is not None and not slow:
            contract.send_command(SubResume(side.feed), now)
            self._set_paused(side, False)

    def _set_paused(self, side: Side, is_paused: bool) -> None:
        for route, one, _ in self._siblings(side):
            one.is_paused = is_paused
            self._save(route)

    def set_held(self, contract: Lines, feed: bytes, now: int, *, is_held: bool) -> None:
        """Another provider pauses or resumes a feed in its line."""
        for route, _, sender in self.routes.of_contract(contract.id):
            if sender.feed == feed:
                sender.is_held, sender.held_at = is_held, now
                self._save(route)
        self.contracts.changed(contract.id)

    # Sending

    def next_content(self, contract: Lines, now: int) -> bytes | None:
        ready = {route.ref: (route, side) for route, side in self._ready(contract)}
        if not ready:
            return None
        route, side = ready[self.contracts.in_turn(contract.id, list(ready))]
        if not self._waiting(side):
            side.is_told = True
            reason = NOT_FOUND if side.contract is None or side.is_gone else REJECTED
            self._save(route)
            self._clean(route)
            return write(SubResponseIsp(route.ref, False, reason))
        content = self._pass_on(side, contract)
        source = self._contract_of(side)
        if source is not None and source.facts.state in (OPEN, FAREWELL):
            left = self._waiting(side)
            if left <= source.terms.backlog // 2:
                self._resume(source, side, now)
            if left == source.terms.held - 1:
                self.contracts.changed(source.id)  # its line may have waited
        return content

    def _pass_on(self, side: Side, to: Lines) -> bytes:
        """Return the next entry of a side for a line, and advance all routes of its feed there."""
        feed = side.feed
        assert feed is not None
        sequence = side.mark + 1
        packets = self._store.packets(feed, sequence)
        for route, one, other in self._siblings(side):
            if other.contract == to.id and one.mark < sequence:
                one.mark = sequence
                self._save(route)
        self._prune(feed)
        return b"".join(packets)

    def has_more(self, contract: Lines) -> bool:
        return any(True for _ in self._ready(contract))

    def _ready(self, contract: Lines) -> Iterator[tuple[Route, Side]]:
        """Yield routes with an entry for a line, or an end to announce, each with the side it is of."""
        for route, _, side in self.routes.of_contract(contract.id):
            waiting = self._waiting(side)
            is_free = waiting and not side.is_held
            if route.is_open and (is_free or (not waiting and side.has_ended and not side.is_told)):
                yield route, side

    # Ends

    def _withdraw(self, contract: Lines, route: Route, side: Side, other: Side, now: int) -> None:
        """A client takes no new entries: pause the other side of a route, or withdraw a request.

        A leaving side must send all that it has: only a slow receiver that stays may pause it. A client of
        another provider may be leaving, too, so that one is never paused.
        """
        to = self._contract_of(other)
        if route.is_open:
            is_staying = self._is_wanted(other)
            is_alone = len(self._siblings(other)) == 1
            if to is not None and is_staying and is_alone and to.other not in self.peers:
                self._pause(to, other, now)
            elif to is not None:
                self._resume(to, other, now)
            if not is_staying:
                self._resume(contract, side, now)
        elif side is route.b:
            if to is not None:
                to.send_command(SubResponseIsp(route.ref, False, NOT_FOUND), now)
            self._delete(route)
        else:
            side.contract, side.has_ended, side.last = None, True, side.mark
            self._save(route)
            if side.feed is not None:
                self._prune(side.feed)

    def drop_held(self, contract: Lines, now: int) -> None:
        """Drop the entries that another provider has paused for `patience`, as the contract with it ends."""
        for route, receiver, sender in self.routes.of_contract(contract.id):
            if sender.is_held and now >= sender.held_at + contract.terms.patience:
                sender.is_held = False
                lost = self._waiting(sender)
                self._drop_waiting(route, receiver, now)
                self._events.append(Event("dropped", contract.other, route.ref, f"{lost} entries"))
        self.contracts.changed(contract.id)

    def _end_side(self, route: Route, side: Side) -> None:
        """A side has sent its last entry."""
        side.has_ended = True
        if side.feed is not None:
            side.last = self._store.feeds[side.feed].sequence
        self._save(route)
        for one, other in route.sides():
            if one is side and other.contract is not None:
                self.contracts.changed(other.contract)
        self._clean(route)

    def _leave_routes(self, contract: Lines, now: int) -> None:
        """A contract is over, or broken: all its entries have arrived, and it cannot be notified.

        Nobody may wait for one whose line is read no further: it confirms nothing any more.
        """
        for route, side, other in self.routes.of_contract(contract.id):
            side.contract = None
            self._drop_waiting(route, side, now)
            self._end_side(route, side)
            to = self._contract_of(other)
            if to is not None:
                self._resume(to, other, now)  # it was paused for this one

    def _clean(self, route: Route) -> None:
        """Delete the unneeded feeds of a route, and the route when none is left."""
        for side, other in route.sides():
            if side.has_ended and other.contract is None:
                side.is_told = True
            if side.is_told and side.feed is not None:
                feed, side.feed = side.feed, None
                self._release(feed)
                self._save(route)
        if route.a.is_told and route.b.is_told:
            self._delete(route)

    # Inside

    def _contract_of(self, side: Side) -> Contract | None:
        """Return the contract of a side; None after its end."""
        return None if side.contract is None else self.contracts.get(side.contract)

    def _waiting(self, side: Side) -> int:
        """Number of entries of one side's feed that the other's line lacks."""
        if side.feed is None:
            return 0
        sequence = self._store.feeds[side.feed].sequence
        return max((sequence if side.last is None else side.last) - side.mark, 0)

    def _siblings(self, side: Side) -> list[tuple[Route, Side, Side]]:
        """Return all routes of a side's feed, each with this side and the other one."""
        return self.routes.of_feed(side.feed) if side.feed is not None else []

    def _prune(self, feed: bytes) -> None:
        """Delete the entries of a feed that are in all lines."""
        marks = [
            side.mark
            for _, side, _ in self.routes.of_feed(feed)
            if side.last is None or side.mark < side.last
        ]
        if marks and not self._is_late(feed):
            self._store.prune(feed, min(marks))

    def _is_late(self, feed: bytes) -> bool:
        """Whether the author of a group's feed still owes an answer in the group, as far as is known here.

        A member writes after answering, but its line may overtake the command with the answer. Those whom it
        answers get all of its feed.
        """
        for route, side, _ in self.routes.of_feed(feed):
            if route.group is not None and side.contract is not None:
                writer = route.source if side is route.a else route.target
                return any(
                    not one.is_open and own is one.b and one.target == writer and one.group == route.group
                    for one, own, _ in self.routes.of_contract(side.contract)
                )
        return False

    def _release(self, feed: bytes) -> None:
        """Delete a feed that is on no route."""
        if self.routes.of_feed(feed):
            self._prune(feed)
        else:
            self._store.drop(feed)

    def _save(self, route: Route) -> None:
        self.routes.put(route)
        self._store.put(f"route {route.ref.hex()}", route.record())

    def _delete(self, route: Route) -> None:
        self.routes.remove(route.ref)
        self._store.put(f"route {route.ref.hex()}", None)
        if not route.is_open and route.b.contract is not None:
            self.contracts.changed(route.b.contract)  # its line may have waited for the answer
        for side in (route.a, route.b):
            if side.feed is not None:
                self._release(side.feed)
