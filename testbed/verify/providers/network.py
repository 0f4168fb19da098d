"""Customers, providers and repositories in the emulator, with requesting and answering applications."""

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from base.endpoint import Program, StreamPort
from base.passive import PassiveApplication
from base.units import MS, SECOND
from forwarder.forwarder import Forwarder
from forwarder.host import Application
from forwarder.wire.lp import make_lp, open_interest, parse_lp
from forwarder.wire.name import from_uri, to_uri
from forwarder.wire.packet import make_interest, read_name
from ndn_over_ssb.contract import Terms
from ndn_over_ssb.name_space import statement
from ndn_over_ssb.negotiation import Policy
from ndn_over_ssb.participant import Participant
from ndn_over_ssb.side import ScuttlebuttSide
from ndn_over_ssb.trust import Trust
from ssb.keys import Identity
from ssb.message import Message
from ssb.peer.options import PORT, PeerOptions
from ssb.peer.peer import Peer
from ssb.peer.scheduler import SchedulerOptions
from ssb.store.clocks import MemoryClocks
from ssb.store.memory import MemoryFeeds
from ssb.store.own_feed import UnsureFeed
from testbed.scenario.sections import TopologySpec
from topologies.emulator.network import EmulatedNetwork

EPOCH_MS = 1_700_000_000_000.0
_OPTIONS = PeerOptions(scheduler=SchedulerOptions(first_pause=SECOND // 2, last_pause=4 * SECOND))

End = bytes | str
"""The end of an Interest: a Data packet, "nack <reason>", or "timeout"."""


def identity(name: str) -> Identity:
    """Return the identity of a node's participant."""
    return Identity.from_seed(hashlib.sha256(name.encode()).digest())


class Consumer(PassiveApplication):
    """An Application that requests names, one Interest each at a time.

    Attributes:
        ends: URI -> ends of its Interests, and
        times: URI -> time of the last end, ns.
        unasked: Data and Nacks without an Interest.
    """

    def __init__(self, seed: str = "") -> None:
        super().__init__()
        self.ends: dict[str, list[End]] = {}
        self.times: dict[str, int] = {}
        self.unasked = 0
        self._pending: dict[bytes, int] = {}
        self._random = Random(f"consumer {seed}")

    @property
    def pending(self) -> int:
        """The pending Interests."""
        return len(self._pending)

    def ask(self, uri: str, now: int, lifetime_ms: int = 4000) -> None:
        """Request a name."""
        name = from_uri(uri)
        self._pending[name] = now + lifetime_ms * MS
        nonce = self._random.getrandbits(32)
        self.outputs.append(make_interest(name, nonce=nonce, lifetime_ms=lifetime_ms))

    def ended(self, uri: str, end: End, now: int) -> None:
        """Record the end of an Interest."""
        self.ends.setdefault(uri, []).append(end)
        self.times[uri] = now

    def receive(self, packet: bytes, now: int) -> None:
        header = parse_lp(packet)
        name = read_name(header.fragment)
        if self._pending.pop(name, None) is None:
            self.unasked += 1
            return
        refused = header.nack_reason is not None
        self.ended(to_uri(name), f"nack {header.nack_reason}" if refused else header.fragment, now)

    def next_deadline(self) -> int | None:
        return min(self._pending.values(), default=None)

    def wake(self, now: int) -> None:
        """See Application: expire Interests."""
        for name, due in list(self._pending.items()):
            if now >= due:
                del self._pending[name]
                self.ended(to_uri(name), "timeout", now)


class Producer(PassiveApplication):
    """An Application that answers Interests.

    Args:
        answer: name -> the Data packet; None for no answer.

    Attributes:
        asked: the URIs of all Interests.
    """

    def __init__(self, answer: Callable[[bytes], bytes | None]) -> None:
        super().__init__()
        self._answer = answer
        self.asked: list[str] = []

    def receive(self, packet: bytes, now: int) -> None:
        interest = open_interest(packet)
        if interest is None:
            return
        self.asked.append(to_uri(interest.name))
        data = self._answer(interest.name)
        if data is not None:
            token = parse_lp(packet).pit_token
            self.outputs.append(data if token is None else make_lp(data, pit_token=token))


class ProviderNetwork:
    """Participants on the nodes of an emulated network. The identity "root" allocates the name space.

    Args:
        links: of the network.
        calls: who calls whom.
        seed: of links, nonces and pauses.

    Attributes:
        nodes, stores, consumers: by node.
        unsure: nodes whose own feed may have later messages elsewhere, and must not be written to.
        network: the emulated one.
        events: occurrences by event, of all nodes.
        sent: bytes sent, by node.
    """

    def __init__(
        self, links: Sequence[Mapping[str, Any]], calls: Sequence[tuple[str, str]], seed: int = 1
    ) -> None:
        self.topology = TopologySpec(links=tuple(dict(link) for link in links)).build()
        self._calls = calls
        self._seed = seed
        self._built: dict[str, dict[str, Any]] = {}
        self._clocks: dict[str, dict[str, dict[str, int]]] = {}
        self.stores: dict[str, MemoryFeeds] = {}
        self.nodes: dict[str, Participant] = {}
        self.consumers: dict[str, Consumer] = {}
        self.unsure: set[str] = set()
        self.events: Counter[str] = Counter()
        self.network = EmulatedNetwork(self.topology, {}, seed=seed, capture=None)

    @property
    def now(self) -> int:
        """The time, ns."""
        return self.network.now

    def add(
        self,
        name: str,
        *,
        offer: Terms | None = None,
        trust: Callable[[], Trust] | None = None,
        admits: Callable[[str], bool] = lambda customer: True,
        producer: Application | None = None,
        kind: type[Participant] = Participant,
    ) -> Participant:
        """Create a participant on a node, on the existing store if there is one."""
        self._built[name] = {
            "offer": offer,
            "trust": trust,
            "admits": admits,
            "producer": producer,
            "kind": kind,
        }
        store = self.stores.setdefault(name, MemoryFeeds())
        own, now = identity(name), self.now
        random = Random(f"{self._seed} {name} {now}")
        clocks = MemoryClocks(self._clocks.setdefault(name, {}))
        peer = Peer(own, store, clocks, [], _OPTIONS, random, EPOCH_MS)

        def publish(content: Mapping[str, Any], time: int) -> Message:
            if name in self.unsure:
                raise UnsureFeed(f"{name} writes to its feed, which may be longer elsewhere")
            message = store.publish(own, content, EPOCH_MS + time / MS)
            peer.on_appended(own.ref, time)
            return message

        node = kind(
            ScuttlebuttSide(
                identity=own,
                program=peer,
                peer=peer,
                feeds=store,
                publish=publish,
                may_publish=lambda: name not in self.unsure,
                epoch_ms=EPOCH_MS,
            ),
            Policy(root=identity("root").ref, offer=offer, admits=admits),
            Forwarder(rng=Random(f"{self._seed} {name} {now} forwarder"), controlled_push=False),
            trust=None if trust is None else trust(),
            now=now,
        )
        self.nodes[name] = node
        self.consumers[name] = Consumer(f"{self._seed} {name} {now}")
        node.attach(self.consumers[name], now=now)
        if producer is not None:
            node.attach(producer, serves=True, now=now)
        for caller, called in self._calls:
            if caller == name:
                address = (self.topology.address(called), PORT)
                peer.add(identity(called).ref, address, now, is_kept=True)
        self.network.replace(name, [Program(node, {1: StreamPort(PORT)})])
        return node

    def restart(self, name: str) -> Participant:
        """Restart a node's participant as after `kill -9`: only its log survives."""
        self.events.update(event.event for event in self.nodes[name].take_events())
        return self.add(name, **self._built[name])

    def run(self, seconds: float) -> None:
        """Let time pass."""
        self.network.run(self.now + int(seconds * SECOND))

    def do(self, name: str, action: Callable[[Participant], Any]) -> Any:
        """Perform an action on a participant now."""
        result = action(self.nodes[name])
        self.nodes[name].settle(self.now)
        self.network.settle(name)
        return result

    def ask(self, name: str, *uris: str, lifetime_ms: int = 4000) -> None:
        """Request names from the consumer on a node."""
        for uri in uris:
            self.consumers[name].ask(uri, self.now, lifetime_ms)
        self.do(name, lambda node: None)

    def ends(self, name: str, uri: str) -> list[End]:
        """Return the ends of the Interests for a name."""
        return self.consumers[name].ends.get(uri, [])

    def publish_statement(self, name: str, do: str, **parts: Any) -> str:
        """Publish a participant's statement about the name space; return its id."""
        message: Message = self.do(name, lambda node: node.publish(statement(do, **parts), self.now))
        return message.id

    def allocate(self, prefix: str, holder: str, repositories: Sequence[str] = ()) -> str:
        """Allocate a prefix by the root, with repositories named by its holder; return the allocation."""
        given = self.publish_statement("root", "allocate", prefix=from_uri(prefix), to=identity(holder).ref)
        if repositories:
            refs = [identity(each).ref for each in repositories]
            self.publish_statement(holder, "repository", title=given, repositories=refs)
        return given

    def request(self, customer: str, provider: str, terms: Terms | None = None) -> str:
        """Request a contract from another participant; return its id."""
        ref = identity(provider).ref
        made: str = self.do(customer, lambda node: node.request(ref, terms or Terms(), self.now))
        return made

    def clocked(self, name: str) -> set[str]:
        """Return the feeds with known positions of others at a node."""
        replication = self.nodes[name].replication
        clocks: list[Mapping[str, int]] = [*self._clocks[name].values()]
        clocks += [session.clock for session in replication.sessions.values()]
        return {feed for clock in clocks for feed in clock}

    def transient(self, name: str) -> int:
        """Return the number of transient feeds in a node's store."""
        main = {identity(each).ref for each in self.nodes}
        return len(set(self.stores[name].tips()) - main)
