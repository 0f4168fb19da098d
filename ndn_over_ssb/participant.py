"""A participant: a Scuttlebutt peer whose contracts are faces of an NDN forwarder.

Customers, repositories and NDN forwarding providers (NFPs) are the same program. A customer sends all
Interests to its providers. A repository is a customer that answers for prefixes, with applications behind a
local face. A provider also accepts contracts, and forwards by longest prefix match over the name space; how
near each of its neighbours is to a repository, it computes from logs. PIT, content store, Nacks, lifetimes
and loop detection are those of the forwarder (forwarder.forwarder), as in any NDN router.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from base.timers import Timers
from base.units import SECOND
from forwarder.forwarder import Forwarder
from forwarder.host import Application, Host
from forwarder.wire.lp import CONGESTION, NO_ROUTE, make_lp, open_data, open_interest, parse_lp
from forwarder.wire.packet import Interest, parse_interest
from forwarder.wire.tlv import MalformedPacket
from ndn_over_ssb.allowance import Allowance
from ndn_over_ssb.contract import CONTRACT, Contract, Contracts, InvalidClause, Terms, clause
from ndn_over_ssb.line import PACKETS, Line, LineError, Passage
from ndn_over_ssb.name_space import NAME_SPACE, Holding, NameSpace
from ndn_over_ssb.routes import find_ways
from ndn_over_ssb.trust import Trust
from ssb.keys import Identity
from ssb.message import Message
from ssb.peer.peer import Peer, PeerEvent, PeerProgram
from ssb.peer.surrounding import Surrounding
from ssb.replication.ebt import Ebt
from ssb.store.feeds import FeedStore, read_log

_CONTRACTS: Final = 1_000  # that a provider has at once
_LOGS: Final = 10_000  # that a provider reads
_REPLIES: Final = 20  # requests and epochs of a customer that a provider answers, at once and in an hour
_MANY: Final = 1 << 30
_PATIENCE_S: Final = 1.0  # a customer that has sent by so much too much is not listened to for a while


class Change(NamedTuple):
    """A change of the name space that has taken effect at this participant.

    Attributes:
        time: ns.
        prefix: as a name.
        holder: who holds it now; "" for nobody any more.
        repositories: who answers for it now.
    """

    time: int
    prefix: bytes
    holder: str
    repositories: tuple[str, ...]


@dataclass(slots=True)
class _Link:
    """A contract in force.

    Attributes:
        contract: it, and
        epoch: that is under way.
        line: to the other side.
        face: of the forwarder.
        allowance: what the customer may send.
        reads: feeds by which the line is found.
    """

    contract: Contract
    epoch: int
    line: Line
    face: int
    allowance: Allowance
    reads: tuple[str, ...] = ()


class Participant(Surrounding):
    """A StreamEndpoint in the place of its peer's program.

    Args:
        identity: who it is; its transient feeds' keys follow from it.
        program: the Scuttlebutt side, and
        peer, feeds: the peer in it, and its store.
        publish: (content, time, ns) -> writes a message to the identity's feed and passes it on.
        may_say: whether the identity's feed may be written to now. What is to be said waits until it may.
        root: the identity that allocates the name space.
        forwarder: the node's, without faces.
        offer: what it grants customers as a provider; None if it is none.
        admits: whether an identity may be a customer.
        trust: checks Data that come by contracts; None if all may pass.
        epoch_ms: the time at 0 ns, in ms since 1970.
        now: the time, ns.
        watch: is told of each packet that passes a line, with the other side.
        answer: name -> the Data packet that is here without NDN, in a log that is replicated anyway; None if
            there is none. It is asked before an Interest leaves for a provider.

    Attributes:
        host: the forwarder with its faces: applications are attached there.
        name_space, contracts: as this participant's logs tell.
        counters: what did not pass, by a word each.
        answered: Interests that `answer` has kept here.
        checking_ns: how long Data have waited for the trust's verdict, all together.
    """

    def __init__(
        self,
        identity: Identity,
        program: PeerProgram,
        peer: Peer,
        feeds: FeedStore,
        publish: Callable[[Mapping[str, Any], int], Message],
        root: str,
        forwarder: Forwarder,
        *,
        offer: Terms | None = None,
        admits: Callable[[str], bool] = lambda customer: True,
        may_say: Callable[[], bool] = lambda: True,
        trust: Trust | None = None,
        epoch_ms: float = 0.0,
        now: int = 0,
        watch: Callable[[str, Passage], None] = lambda other, passage: None,
        answer: Callable[[bytes], bytes | None] = lambda name: None,
    ) -> None:
        super().__init__(program)
        self._watch = watch
        self._answer_here = answer
        self._me = identity.ref
        self._peer = peer
        self._feeds = feeds
        self._publish = publish
        self._offer = offer
        self._admits = admits
        self._may_say = may_say
        self._is_silent = False
        self._has_offered = False
        self._trust = trust
        self._epoch_ms = epoch_ms
        self.answered = 0
        self.checking_ns = 0
        self._secret = identity.sign(b"feednet: keys of transient feeds")
        self.host = Host(forwarder)
        self.name_space = NameSpace(root)
        self.contracts = Contracts()
        self.counters: Counter[str] = Counter()
        self._read: dict[str, int] = {}
        self._links: dict[str, _Link] = {}
        self._by_face: dict[int, _Link] = {}
        self._by_feed: dict[str, _Link] = {}
        self._unflushed: dict[str, _Link] = {}  # links whose lines may have something to write
        self._held: Timers[str] = Timers()  # of when customers that sent too much are received again
        # Contract -> the number of the message by which its epoch was begun here.
        self._labels: dict[str, int] = {}
        self._open: dict[str, Contract] = {}  # contracts of this participant that are not over
        self._broken: dict[str, None] = {}  # contracts that are to be ended
        self._ends: Timers[str] = Timers()  # of those of them that are accepted
        self._replies: dict[str, Allowance] = {}  # customer -> what is written to this log because of it
        self._serving: int | None = None
        self._routes: set[tuple[bytes, int, int]] = set()
        self._known: dict[bytes, Holding] = {}
        self._changes: list[Change] = []
        self._is_stale = True
        self._nowhere = self.host.attach(_Nowhere())
        if trust is not None:
            self.host.attach(trust)
        self._start(now)

    # What the user does

    def attach(self, application: Application, *, serves: bool = False, now: int) -> int:
        """Attach an application; return its face. One that `serves` gets the Interests under the prefixes of
        which this participant is a repository."""
        face = self.host.attach(application)
        if serves:
            self._serving = face
            self._is_stale = True
        self._follow_up(now)
        return face

    def request(self, provider: str, terms: Terms, now: int) -> str:
        """Ask a provider for a contract; return its id."""
        self._say({"type": "contact", "contact": provider, "following": True}, now)
        message = self._say(clause("request", provider=provider, terms=terms), now)
        self._follow_up(now)
        return message.id

    def end(self, contract: str, now: int) -> None:
        """End a contract."""
        self._say(clause("end", contract=contract), now)
        self._follow_up(now)

    def say(self, content: Mapping[str, Any], now: int) -> Message:
        """Publish a message, for example about the name space."""
        message = self._say(content, now)
        self._follow_up(now)
        return message

    def contract_of(self, face: int) -> Contract | None:
        """Return the contract whose packets cross a face of the forwarder; None for other faces."""
        link = self._by_face.get(face)
        return None if link is None else link.contract

    def in_force(self) -> list[Contract]:
        """Return the contracts under which packets are exchanged."""
        return [link.contract for link in self._links.values()]

    def links(self) -> list[Line]:
        """Return the lines of all contracts in force."""
        return [link.line for link in self._links.values()]

    @property
    def replication(self) -> Ebt:
        """The state of replication."""
        return self._peer.replication

    def take_changes(self) -> list[Change]:
        """Return the changes of the name space that have taken effect since the last call."""
        changes, self._changes = self._changes, []
        return changes

    # The endpoint

    def next_deadline(self) -> int | None:
        """See Endpoint."""
        due = [
            self._program.next_deadline(),
            self.host.next_deadline(),
            self._held.next_deadline(),
            self._ends.next_deadline(),
        ]
        return min((time for time in due if time is not None), default=None)

    def wake(self, now: int) -> None:
        """See Endpoint."""
        self.host.wake(now)
        for id_ in self._held.expire(now):
            self._links[id_].line.release(now)
        if self._ends.expire(now):
            self._is_stale = True
        super().wake(now)

    def settle(self, now: int) -> None:
        """Take what an application has put out because of something that it was told by other ways."""
        self.host.settle(now)
        self._follow_up(now)

    # Logs

    def _start(self, now: int) -> None:
        """Read the logs that are there, and begin new transient feeds for contracts that were in force."""
        old = set()
        for stored in read_log(self._feeds, 0, {NAME_SPACE, CONTRACT, PACKETS}):
            message = stored.message
            content = message.content
            if isinstance(content, dict) and content.get("type") == PACKETS:
                old.add(message.author)
            else:
                self._take_message(message)
        for feed in sorted(old):
            self._peer.replication.forget(feed)
            self._feeds.drop(feed)
        self._peer.want(self._me, now)
        self._say_what_waits(now)
        for contract in list(self._open.values()):
            if contract.holds(self._ms(now)) and not self._is_silent:
                self._begin(contract, contract.epoch + 1, now)
        self._follow_up(now)

    def _say(self, content: Mapping[str, Any], now: int) -> Message:
        message = self._publish(content, now)
        self._take_message(message)
        return message

    def _say_what_waits(self, now: int) -> None:
        """Make the offer and end broken contracts, as soon as that may be said."""
        self._is_silent = not self._may_say()
        if self._is_silent:
            return
        if self._offer is not None and not self._has_offered:
            if self.contracts.offers.get(self._me) != self._offer:
                self._say(clause("offer", terms=self._offer), now)
            self._has_offered = True
        while self._broken:
            contract = next(iter(self._broken))
            self._say(clause("end", contract=contract), now)
            del self._broken[contract]

    def _begin(self, contract: Contract, epoch: int, now: int) -> None:
        """Begin an epoch with a new transient feed, and let the other side have it."""
        label = self._feeds.tips().get(self._me, 0) + 1
        feed = self._transient(label)(0).ref
        self._peer.share(feed, contract.other(self._me), now, receives=False)
        self._say(clause("begin", contract=contract.id, epoch=epoch, feed=feed), now)
        self._labels[contract.id] = label

    def _transient(self, label: int) -> Callable[[int], Identity]:
        def identity(number: int) -> Identity:
            return Identity.from_seed(hashlib.sha256(self._secret + f"{label} {number}".encode()).digest())

        return identity

    def _take_message(self, message: Message) -> None:
        """Take a message of a log that lasts into account."""
        if message.sequence <= self._read.get(message.author, 0):
            return
        self._read[message.author] = message.sequence
        if self.name_space.read(message):
            self._is_stale = True
        for contract in self.contracts.read(message):
            if self._me in (contract.customer, contract.provider):
                self._open[contract.id] = contract
                self._ends.set(contract.id, self._ns(contract.until) if contract.is_accepted else None)
            self._is_stale = True

    def _take_event(self, event: PeerEvent, now: int) -> None:
        message = event.message
        if message is None:
            if event.event == "connected" and self._offer is not None and self._admits(event.remote):
                if len(self.replication.wanted) < _LOGS:
                    self._peer.want(event.remote, now)  # it may have a request there
                else:
                    self.counters["too many logs"] += 1
            return
        content = message.content
        if not isinstance(content, dict) or content.get("type") != PACKETS:
            self._take_message(message)
            return
        link = self._by_feed.get(message.author)
        if link is not None:
            try:
                packets = link.line.take(message, now, self._ms(now))
            except LineError as error:
                self._break(link, str(error), now)
                return
            finally:
                self._note(link)
            for packet in packets:
                self._receive(link, packet, now)

    def _note(self, link: _Link) -> None:
        """Find a link by the feeds that its line reads now, and see whether it has something to write."""
        for feed in link.reads:
            if self._by_feed.get(feed) is link:
                del self._by_feed[feed]
        link.reads = link.line.reads
        for feed in link.reads:
            self._by_feed.setdefault(feed, link)
        self._unflushed[link.contract.id] = link

    def _break(self, link: _Link, reason: str, now: int) -> None:
        """End a contract whose other side does not keep to the protocol."""
        self.counters[f"line: {reason}"] += 1
        self._broken[link.contract.id] = None
        self._drop(link, now)
        self._is_stale = True

    # What follows from logs

    def _update(self, now: int) -> None:
        self._is_stale = False
        self._say_what_waits(now)
        for feed, (first, _) in self._feeds.forks().items():
            self.name_space.forked(feed, first.sequence)
        for contract in list(self._open.values()):
            self._see_to(contract, now)
        for feed in sorted(self._needed()):
            self._peer.want(feed, now)
        self._note_changes(now)
        self._set_routes(now)

    def _needed(self) -> set[str]:
        """Return the feeds that this participant reads."""
        needed = {self._me, *self.name_space.holders()}
        needed.update(contract.other(self._me) for contract in self._open.values())
        if self._offer is None:
            return needed
        for holding in self.name_space.holdings().values():
            needed.update(holding.repositories)
        for contract in self.contracts:
            needed.add(contract.provider)
            if contract.terms is not None and contract.terms.transit:
                needed.add(contract.customer)
        return needed

    def _see_to(self, contract: Contract, now: int) -> None:
        """Answer a request, and have a line for a contract that holds."""
        link = self._links.get(contract.id)
        if not contract.holds(self._ms(now)):
            if link is not None:
                self._drop(link, now)
            if contract.has_ended or contract.is_accepted or contract.refusal is not None:
                self._close(contract)
                self._forget_first(contract)
            elif contract.is_requested and contract.provider == self._me and not self._is_silent:
                self._answer(contract, now)
            return
        if link is not None and link.epoch < contract.epoch:
            self._drop(link, now)
        if contract.id in self._broken:
            return
        mine = contract.begun.get(self._me, (-1, ""))[0]
        # Logs of others may come only after a start anew; what was begun before it is lost.
        is_old = mine >= 0 and contract.id not in self._labels
        if mine < max(contract.epoch, 0) or is_old:
            if self._is_silent:
                return
            self._forget_first(contract)
            if self._may_reply(contract, now):
                self._begin(contract, max(contract.epoch + is_old, 0), now)
            else:
                self._say(clause("end", contract=contract.id), now)
        elif mine == contract.begun.get(contract.other(self._me), (-1, ""))[0] and link is None:
            self._link(contract, now)

    def _close(self, contract: Contract) -> None:
        self._open.pop(contract.id, None)
        self._ends.set(contract.id, None)

    def _answer(self, contract: Contract, now: int) -> None:
        customer = contract.customer
        if not self._may_reply(contract, now):
            self._close(contract)
            return
        reason = ""
        if self._offer is None:
            reason = "not a provider"
        elif not self._admits(customer):
            reason = "not admitted"
        elif len(self._links) >= _CONTRACTS:
            reason = "too many customers"
        else:
            assert contract.asked is not None
            try:
                terms = contract.asked.within(self._offer)
            except InvalidClause as error:
                reason = str(error)
        if reason:
            self.counters["requests refused"] += 1
            self._say(clause("refuse", contract=contract.id, customer=customer, reason=reason), now)
            return
        self._say({"type": "contact", "contact": customer, "following": True}, now)
        self._say(clause("accept", contract=contract.id, customer=customer, terms=terms), now)

    def _may_reply(self, contract: Contract, now: int) -> bool:
        """Tell whether a customer may have this log grow once more: what is in a log stays there."""
        if contract.provider != self._me:
            return True
        rate = _REPLIES / 3600
        replies = self._replies.setdefault(contract.customer, Allowance(rate, _REPLIES, now))
        if replies.take(now):
            return True
        self.counters["too many requests of one customer"] += 1
        return False

    def _forget_first(self, contract: Contract) -> None:
        """Take back the transient feed of an epoch that the other side has not begun."""
        label = self._labels.pop(contract.id, None)
        if label is not None:
            self._peer.replication.forget(self._transient(label)(0).ref)

    def _link(self, contract: Contract, now: int) -> None:
        other = contract.other(self._me)
        terms = contract.terms
        assert terms is not None
        line = Line(
            self._peer,
            self._feeds,
            other,
            terms,
            self._transient(self._labels[contract.id]),
            contract.begun[other][1],
            now,
            partial(self._watch, other),
        )
        face = self.host.add_face()
        face.uri = f"ssb:{other}"
        # A customer keeps half of what it may send at once for the jitter of the way to its provider.
        burst = terms.rate if contract.provider == self._me else terms.rate / 2
        link = _Link(contract, contract.epoch, line, face.number, Allowance(terms.rate, burst, now))
        self._links[contract.id] = self._by_face[face.number] = link
        self._note(link)

    def _drop(self, link: _Link, now: int) -> None:
        link.line.close()
        self._note(link)
        self._unflushed.pop(link.contract.id, None)
        self._held.set(link.contract.id, None)
        self._routes = {route for route in self._routes if route[1] != link.face}
        self.host.remove_face(link.face, now)
        del self._links[link.contract.id], self._by_face[link.face]

    def _note_changes(self, now: int) -> None:
        """Note what is new in the name space, and keep no Data under prefixes that have changed hands."""
        holdings = dict(self.name_space.holdings())
        for prefix in {**self._known, **holdings}:
            before, after = self._known.get(prefix), holdings.get(prefix)
            if before == after:
                continue
            self._changes.append(
                Change(now, prefix, after.holder if after else "", after.repositories if after else ())
            )
            if before is not None and (after is None or after.title != before.title):
                self.host.forwarder.cs.erase(prefix, _MANY)
        self._known = holdings

    def _set_routes(self, now: int) -> None:
        routes: set[tuple[bytes, int, int]] = set()
        here = [p for p, holding in self._known.items() if self._me in holding.repositories]
        if self._serving is not None:
            routes |= {(prefix, self._serving, 0) for prefix in here}
        if self._offer is None:
            routes |= {
                (b"", link.face, 1) for link in self._links.values() if link.contract.customer == self._me
            }
        else:
            now_ms = self._ms(now)
            holding = [contract for contract in self.contracts if contract.holds(now_ms)]
            for prefix, ways in find_ways(self._me, self._known, holding).items():
                found = {
                    (prefix, self._links[way.contract].face, way.cost)
                    for way in ways
                    if way.contract in self._links
                }
                routes |= found or ({(prefix, self._nowhere, 0)} if prefix not in here else set())
        fib = self.host.forwarder.fib
        for prefix, face, _ in sorted(self._routes - routes):
            fib.remove(prefix, face)
        for prefix, face, cost in sorted(routes - self._routes):
            fib.add(prefix, face, cost)
        self._routes = routes

    # Packets

    def _follow_up(self, now: int) -> None:
        """Act on what has happened until nothing more follows from it."""
        is_busy = True
        while is_busy:
            if self._is_stale or (self._is_silent and self._may_say()):
                self._update(now)
            events = self._program.take_events()
            self._events += [event for event in events if event.event != "stored"]
            for event in events:
                self._take_event(event, now)
            outputs = self.host.take_outputs()
            for face, packet, _ in outputs:
                self._send(face, packet, now)
            for link in sorted(self._unflushed.values(), key=lambda link: link.face):
                link.line.flush(now, self._ms(now))
                if not link.line.is_waiting:
                    del self._unflushed[link.contract.id]
            is_busy = bool(events or outputs or self._is_stale)

    def _send(self, face: int, packet: bytes, now: int) -> None:
        """Put a packet on a line; an Interest that finds no room there, or is one too many, comes back."""
        link = self._by_face.get(face)
        if link is None:
            return
        interest = open_interest(packet)
        asks = interest is not None and link.contract.customer == self._me
        data = self._answer_here(interest.name) if interest is not None and asks else None
        if data is not None:
            self.answered += 1
            token = parse_lp(packet).pit_token
            self.host.receive(face, data if token is None else make_lp(data, pit_token=token), None, now)
            return
        if asks and not link.allowance.take(now):
            self.counters["Interests above the rate"] += 1
        elif self._put(link, packet, now):
            return
        else:
            self.counters["no room on the line"] += 1
        if interest is not None:
            nack = make_lp(interest.wire, nack_reason=CONGESTION)
            self.host.receive(face, nack, None, now)

    def _receive(self, link: _Link, packet: bytes, now: int) -> None:
        """Take a packet off a line: Interests by the contract's terms, Data by their certificates."""
        found = open_data(packet)
        if found is not None:
            data = found[0]
            if not self.host.forwarder.pit.match(data):
                self.counters["Data that nobody asked for"] += 1
                self._charge(link, now)
            elif self.name_space.find(data.name) is None:
                self.counters["Data under a prefix that nobody holds"] += 1
            elif self._trust is None:
                self.host.receive(link.face, packet, None, now)
            else:
                self._trust.check(data, partial(self._judge, link, packet, now), now)
                self.host.settle(now)
            return
        interest = open_interest(packet)
        if interest is None or link.contract.provider != self._me:
            self.host.receive(link.face, packet, None, now)
            return
        assert link.contract.terms is not None
        if not self._charge(link, now):
            self.counters["Interests above the rate"] += 1
            self._nack(link, packet, interest, CONGESTION, now)
        elif not link.contract.terms.allow(interest.name):
            self.counters["Interests outside the contract"] += 1
            self._nack(link, packet, interest, NO_ROUTE, now)
        else:
            self.host.receive(link.face, packet, None, now)

    def _judge(self, link: _Link, packet: bytes, since: int, may_pass: bool, now: int) -> None:
        self.checking_ns += now - since
        if not may_pass:
            self.counters["Data without a chain to the anchor"] += 1
            self._charge(link, now)
        elif self._by_face.get(link.face) is link:
            self.host.receive(link.face, packet, None, now)

    def _charge(self, link: _Link, now: int) -> bool:
        """Charge a customer for a packet; return whether it may still send that one."""
        if link.contract.provider != self._me:
            return True
        may_send = link.allowance.take(now, in_debt=True)
        if link.contract.id not in self._held and link.allowance.debt_s > _PATIENCE_S:
            self._held.set(link.contract.id, now + int(link.allowance.debt_s * SECOND))
            link.line.hold_back(now)
        return may_send

    def _nack(self, link: _Link, packet: bytes, interest: Interest, reason: int, now: int) -> None:
        """Answer a customer's Interest with a Nack, without the forwarder."""
        token = parse_lp(packet).pit_token
        self._put(link, make_lp(interest.wire, nack_reason=reason, pit_token=token), now)

    def _put(self, link: _Link, packet: bytes, now: int) -> bool:
        self._unflushed[link.contract.id] = link
        return link.line.put(packet, now)

    def _ms(self, now: int) -> float:
        return self._epoch_ms + now / 1e6

    def _ns(self, ms: float) -> int:
        return int((ms - self._epoch_ms) * 1e6) + 1


class _Nowhere:
    """Answers Interests for prefixes that nobody answers for."""

    def __init__(self) -> None:
        self._outputs: list[bytes] = []

    def receive(self, packet: bytes, now: int) -> None:
        """See Application."""
        try:
            header = parse_lp(packet)
            interest = parse_interest(header.fragment)
        except MalformedPacket:
            return
        self._outputs.append(make_lp(interest.wire, nack_reason=NO_ROUTE, pit_token=header.pit_token))

    def take_outputs(self) -> list[bytes]:
        """See Application."""
        outputs, self._outputs = self._outputs, []
        return outputs

    def next_deadline(self) -> int | None:
        """See Application."""
        return None

    def wake(self, now: int) -> None:
        """See Application."""
