"""A participant: a Scuttlebutt peer whose contracts are faces of an NDN forwarder.

Customers, repositories and NDN forwarding providers (NFPs) are the same program. A customer sends all
Interests to its providers. A repository is a customer that answers for prefixes, with applications behind a
local face. A provider also accepts contracts, and forwards by longest prefix match over the name space; it
computes its neighbours' distances to repositories from logs. PIT, content store, Nacks, lifetimes
and loop detection are those of the forwarder (forwarder.forwarder), as in any NDN router.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from base.timers import earliest
from forwarder.forwarder import Forwarder
from forwarder.host import Application, Host
from ndn_over_ssb.contract import CONTRACT, Contract, Contracts, Terms, clause
from ndn_over_ssb.line import PACKETS, Line, LineError, Passage
from ndn_over_ssb.links import Link, Links
from ndn_over_ssb.name_space import NAME_SPACE, NameSpace
from ndn_over_ssb.negotiation import Negotiation, Policy
from ndn_over_ssb.packets import Packets
from ndn_over_ssb.routes import Change, Routes
from ndn_over_ssb.side import ScuttlebuttSide
from ssb.graph import CONTACT
from ssb.message import Message
from ssb.peer.program import PeerEvent, PeerWrapper
from ssb.replication.ebt import Ebt
from ssb.store.feeds import read_log

if TYPE_CHECKING:
    from ndn_over_ssb.trust import Trust

_LOGS: Final = 10_000  # read by a provider


class Participant(PeerWrapper):
    """A StreamEndpoint that wraps its peer's program.

    Args:
        side: the Scuttlebutt side.
        policy: its policy as a provider.
        forwarder: the node's, without faces.
        trust: validates Data from contracts; None to accept all.
        now: the time, ns.
        watch: called with the other side and each packet on a line.
        answer: name -> a Data packet from a log already replicated here; None if there is none. It is
            called before an Interest is sent to a provider.

    Attributes:
        host: the forwarder with its faces, for attaching applications.
        name_space, contracts: according to this participant's logs.
        packets: the filter between contracts and the forwarder.
        counters: refused packets and requests, by reason.
    """

    def __init__(
        self,
        side: ScuttlebuttSide,
        policy: Policy,
        forwarder: Forwarder,
        *,
        trust: "Trust | None" = None,
        now: int = 0,
        watch: Callable[[str, Passage], None] = lambda other, passage: None,
        answer: Callable[[bytes], bytes | None] = lambda name: None,
    ) -> None:
        super().__init__(side.program)
        self._side = side
        self._me = side.me
        self._policy = policy
        self.host = Host(forwarder)
        self.name_space = NameSpace(policy.root)
        self.contracts = Contracts()
        self.counters: Counter[str] = Counter()
        self._links = Links(side, self.host, watch)
        self._negotiation = Negotiation(
            side, policy, self.contracts, self._links, self._publish, self.counters
        )
        self._routes = Routes(self._me, self.host, is_provider=policy.offer is not None)
        self.packets = Packets(
            self._me, self.host, self._links, self.name_space, self.counters, trust, answer
        )
        self._read: dict[str, int] = {}
        self._is_stale = True
        if trust is not None:
            self.host.attach(trust)
        self._start(now)

    # Calls of the user

    def attach(self, application: Application, *, serves: bool = False, now: int) -> int:
        """Attach an application; return its face. One that `serves` gets the Interests under the prefixes of
        which this participant is a repository."""
        face = self.host.attach(application)
        if serves:
            self._routes.serving = face
            self._is_stale = True
        self._follow_up(now)
        return face

    def request(self, provider: str, terms: Terms, now: int) -> str:
        """Request a contract from a provider; return its id."""
        self._publish({"type": CONTACT, "contact": provider, "following": True}, now)
        message = self._publish(clause("request", provider=provider, terms=terms), now)
        self._follow_up(now)
        return message.id

    def end(self, contract: str, now: int) -> None:
        """End a contract."""
        self.publish(clause("end", contract=contract), now)

    def publish(self, content: Mapping[str, Any], now: int) -> Message:
        """Publish a message, for example about the name space."""
        message = self._publish(content, now)
        self._follow_up(now)
        return message

    def contract_of(self, face: int) -> Contract | None:
        """Return the contract of a face of the forwarder; None for other faces."""
        link = self._links.at_face(face)
        return None if link is None else link.contract

    def in_force(self) -> list[Contract]:
        """Return the contracts in force."""
        return [link.contract for link in self._links]

    def links(self) -> list[Line]:
        """Return the lines of all contracts in force."""
        return [link.line for link in self._links]

    @property
    def replication(self) -> Ebt:
        """The state of replication."""
        return self._side.peer.replication

    def take_changes(self) -> list[Change]:
        """Return the effective changes of the name space since the last call."""
        return self._routes.take_changes()

    # The endpoint

    def next_deadline(self) -> int | None:
        parts = (self._program, self.host, self._links, self._negotiation.ends)
        return earliest(*(part.next_deadline() for part in parts))

    def wake(self, now: int) -> None:
        self.host.wake(now)
        self._links.wake(now)
        if self._negotiation.ends.expire(now):
            self._is_stale = True
        super().wake(now)

    def settle(self, now: int) -> None:
        """Process the outputs of an application that was called from elsewhere."""
        self.host.settle(now)
        self._follow_up(now)

    # Logs

    def _start(self, now: int) -> None:
        """Read the stored logs, and begin new transient feeds for the contracts in force."""
        feeds = self._side.feeds
        old = set()
        for stored in read_log(feeds, 0, {NAME_SPACE, CONTRACT, PACKETS}):
            message = stored.message
            if _type_of(message) == PACKETS:
                old.add(message.author)
            else:
                self._read_message(message)
        for feed in sorted(old):
            self.replication.forget(feed)
            feeds.drop(feed)
        self._side.peer.want(self._me, now)
        self._negotiation.publish_pending(now)
        self._negotiation.resume(now)
        self._follow_up(now)

    def _publish(self, content: Mapping[str, Any], now: int) -> Message:
        message = self._side.publish(content, now)
        self._read_message(message)
        return message

    def _read_message(self, message: Message) -> None:
        """Apply a message of a permanent log."""
        if message.sequence <= self._read.get(message.author, 0):
            return
        self._read[message.author] = message.sequence
        if self.name_space.read(message):
            self._is_stale = True
        for contract in self.contracts.read(message):
            self._negotiation.track(contract)
            self._is_stale = True

    def _process(self, event: PeerEvent, now: int) -> None:
        message = event.message
        if message is None:
            is_provider = self._policy.offer is not None
            if event.event == "connected" and is_provider and self._policy.admits(event.remote):
                if len(self.replication.wanted) < _LOGS:
                    self._side.peer.want(event.remote, now)  # its log may have a request
                else:
                    self.counters["too many logs"] += 1
            return
        if _type_of(message) != PACKETS:
            self._read_message(message)
            return
        link = self._links.reading(message.author)
        if link is not None:
            try:
                packets = link.line.receive(message, now, self._side.ms(now))
            except LineError as error:
                self._abort(link, str(error), now)
                return
            finally:
                self._links.update(link)
            for packet in packets:
                self.packets.receive(link, packet, now)

    def _abort(self, link: Link, reason: str, now: int) -> None:
        """End a contract whose other side violates the protocol."""
        self.counters[f"line: {reason}"] += 1
        self._negotiation.abort(link, now)
        self._is_stale = True

    # Effects of logs

    def _update(self, now: int) -> None:
        self._is_stale = False
        self._negotiation.publish_pending(now)
        for feed in [*self._side.feeds.forks()]:
            first = self._side.feeds.fork_of(feed)
            if first is not None:
                self.name_space.forked(feed, first)
        self._negotiation.update(now)
        for feed in sorted(self._needed()):
            self._side.peer.want(feed, now)
        now_ms = self._side.ms(now)
        holding = [contract for contract in self.contracts if contract.holds(now_ms)]
        self._routes.update(self.name_space, holding, self._links, now)

    def _needed(self) -> set[str]:
        """Return the feeds to be read."""
        needed = {self._me, *self.name_space.holders()}
        needed.update(contract.other(self._me) for contract in self._negotiation.open.values())
        if self._policy.offer is None:
            return needed
        for holding in self.name_space.holdings().values():
            needed.update(holding.repositories)
        for contract in self.contracts:
            needed.add(contract.provider)
            if contract.terms is not None and contract.terms.transit:
                needed.add(contract.customer)
        return needed

    def _follow_up(self, now: int) -> None:
        """Process events and outputs until there are none left."""
        is_busy = True
        while is_busy:
            if self._is_stale or (self._negotiation.is_silent and self._side.may_publish()):
                self._update(now)
            events = self._program.take_events()
            self._events += [event for event in events if event.event != "stored"]
            for event in events:
                self._process(event, now)
            outputs = self.host.take_outputs()
            for face, packet, _ in outputs:
                self.packets.send(face, packet, now)
            self._links.flush(now)
            is_busy = bool(events or outputs or self._is_stale)


def _type_of(message: Message) -> object:
    """Return the type of a message; None if its content has none."""
    return message.content.get("type") if isinstance(message.content, dict) else None
