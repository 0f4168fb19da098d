"""tinyISP: clients exchange feeds through providers.

A client has a contract with a neighbouring provider. Neighbouring providers are peers, and so reach the
clients of all others. A subscription is between two clients, and carries the publications of both: each item
once for each contact that follows it. The content of an entry between clients is BIPF: the number of the feed
among those of its publisher, and the item's own content.
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable
from functools import lru_cache, partial
from random import Random
from typing import Any, Final

from pydantic import Field

from base.timers import Timers, earliest
from base.units import MS, SECOND
from ssb.bipf import MalformedBipf, decode, encode
from ssb.keys import feed_ref
from ssb.tiny.isp.client import Client
from ssb.tiny.isp.facts import OPEN
from ssb.tiny.isp.party import BaseParty
from ssb.tiny.isp.provider.provider import Provider
from ssb.tiny.isp.subscription import INVITED, STANDS
from ssb.tiny.isp.terms import Terms
from testbed.layerings.nodes.node import Context, Node, NodeNames, SimpleLayering
from testbed.layerings.nodes.peer_role import peer_identity
from testbed.layerings.nodes.titles import title
from testbed.layerings.nodes.witness import Witness
from testbed.layerings.nodes.workload import Feed
from testbed.layerings.tiny.assignment import Assignment
from testbed.layerings.tiny.hostile_client import Attack, HostileClient
from testbed.layerings.tiny.node import TINY_FEATURES, BaseTinyNode, TinyParameters, content_of

_REFUSED_AGAIN = SECOND
"""Retry time of a refused subscription, ns: the other may have joined late."""


class TinyIspParameters(TinyParameters):
    """Parameters of tinyISP: those of its node, and the terms of all contracts."""

    providers: NodeNames = Field(default=[])
    """The providers. Left out: the node with the most interfaces; if several have equally many, the first in
    the topology."""
    hostile: NodeNames = Field(default=[])
    """Hostile clients, which neither publish nor follow. They subscribe only to each other and carry out the
    attack."""
    attack: Attack = "crowd"
    """The attack of the hostile clients. "none" does nothing; "crowd" writes to each other as fast as the
    provider allows; "flood" asks all clients for subscriptions without end; "false-fin" confirms the end of
    data feeds that go on, or of a farewell that nobody has begun; "malformed" writes content to a data
    feed that is neither a tunnelled entry nor a valid command; "ignore-pause" goes on sending when told to
    pause; "replay" sends entries again; "fork" signs a second entry for the same place of a feed; "beg" asks
    for all that the provider has, whether it has it already or not."""
    attack_ms: int = Field(default=20, ge=1, le=86_400_000)
    """Longest time between two rounds of the attack; the shortest is half as long."""
    size: int = Field(default=50, ge=3, le=1_000_000)
    """Entries of a data feed before it hops."""
    unread: int = Field(default=3, ge=2, le=1000)
    """Data feeds that may have been begun and not be read to their end."""
    backlog: int = Field(default=50, ge=1, le=1_000_000)
    """Entries that the provider holds for a slow client before it tells the sender to pause."""
    pace_ms: int = Field(default=100, ge=1, le=86_400_000)
    """Time from one command of a client to the next that a provider reads, in the long run. What it
    writes faster waits there."""
    burst: int = Field(default=128, ge=1, le=1_000_000)
    """Commands of a client that a provider reads at once."""
    line_pace_ms: int | None = Field(default=None, ge=1, le=86_400_000)
    """Time from one packet of a client's data feeds to the next that a provider reads, in the long run; as
    fast as they come if it is left out."""
    explain_ms: int = Field(default=120_000, ge=1, le=86_400_000)
    """How long an unexpected entry may wait for the control command that explains it. After that, the entry
    is evidence against its writer."""


def _random(context: Context) -> Random:
    """Return the random source of new key pairs."""
    seed = f"keys {context.seed} {context.layering} {context.name} {context.since}"
    return Random(hashlib.sha256(seed.encode()).digest())


def _terms(context: Context, most: int, clients: int = 1) -> Terms:
    """Return the terms of a contract.

    `most`: its subscriptions; `clients`: the other side's clients.
    """
    parameters = context.parameters
    line_pace_ms = parameters["line_pace_ms"]
    return Terms(
        size=parameters["size"],
        unread=parameters["unread"],
        backlog=parameters["backlog"],
        largest=13_000,
        patience=parameters["explain_ms"] * MS,
        subscriptions=max(most, 1),
        pace=parameters["pace_ms"] * MS // clients,
        burst=parameters["burst"] * clients,
        line_pace=None if line_pace_ms is None else line_pace_ms * MS // clients,
    )


class ProviderNode(BaseTinyNode):
    """A provider's node: its clients have signed up with it before, and its operator has agreed on peers."""

    def __init__(self, context: Context, assignment: Assignment) -> None:
        super().__init__(context)
        now = context.since or 0
        everybody = len(assignment.provider_of)
        peers = {
            name: peer_identity(context.seed, name).public_key for name in assignment.peers(context.name)
        }
        terms = _terms(context, everybody)
        among = dict.fromkeys(peers.values(), _terms(context, everybody * everybody, everybody))
        own = peer_identity(context.seed, context.name)
        self._provider = Provider(self._node, own, _random(context), terms, now, among)
        for client, provider in assignment.provider_of.items():
            if provider == context.name:
                self._provider.follow(peer_identity(context.seed, client).public_key, now)
        for peer in peers.values():
            self._provider.peer(peer, now)
        for name in assignment.asked_peers[context.name]:
            if self._provider.contracts.current(peers[name]) is None:
                self._provider.onboard(peers[name], now)
        self._provider.announce(now)
        self._witness = Witness(context)

    def counters(self) -> dict[str, Any]:
        """Return also standing contracts, subscriptions, and faults of clients."""
        contracts = self._provider.contracts.values()
        for route in self._provider.routes.values():
            self._witness.meets(feed_ref(route.source), feed_ref(route.target))
        return super().counters() | {
            "contracts": sum(contract.facts.state == OPEN for contract in contracts),
            "subscriptions": sum(route.is_open for route in self._provider.routes.values()),
            "faults": self._provider.faults.total(),
            "misbehaviour": _misbehaviour(self._provider, self._context),
            "subscriptions_seen": len(self._witness.seen),
        }


class ClientNode(BaseTinyNode):
    """A client's node: it requests a contract, and then a subscription to each followed client."""

    def __init__(self, context: Context, provider: str, kind: Callable[..., Client] = Client) -> None:
        super().__init__(context)
        now = context.since or 0
        self._isp = peer_identity(context.seed, provider).public_key
        self._root = peer_identity(context.seed, context.name)
        self._contacts = {
            peer_identity(context.seed, name).public_key: name for name in self._contact_names()
        }
        self._feeds_of = {
            contact: [feed for feed in context.workload.feeds if feed.publisher == name]
            for contact, name in self._contacts.items()
        }
        terms = _terms(context, len(self._contacts))
        self._client = kind(self._node, self._root, _random(context), terms, now)
        self._client.follow(self._isp, now)
        if self._client.contracts.current(self._isp) is None and not self._client.contracts:
            self._client.onboard(self._isp, now)
        self._again: Timers[bytes] = Timers()  # retry times of contacts
        self._serve_subscriptions(now)

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        return earliest(super().next_deadline(), self._again.next_deadline())

    def wake(self, now: int) -> None:
        """See BaseTinyNode; repeat refused subscriptions."""
        super().wake(now)
        if self._again.expire(now):
            self._serve_subscriptions(now)
        self._on_events(now)

    def receive(self, port: int, payload: bytes, sender: Any, now: int) -> None:
        super().receive(port, payload, sender, now)
        self._on_events(now)

    def counters(self) -> dict[str, Any]:
        """Return also standing contracts and subscriptions, and faults of the provider."""
        client = self._client
        return super().counters() | {
            "contracts": sum(contract.facts.state == OPEN for contract in client.contracts.values()),
            "subscriptions": sum(one.state == STANDS for one in client.subscriptions.values()),
            "faults": client.faults.total(),
            "misbehaviour": _misbehaviour(client, self._context),
        }

    def _contact_names(self) -> list[str]:
        """Return the names of followed clients and followers."""
        follows = self._context.workload.follows
        followed = {feed.publisher for feed in follows.get(self.name, ())}
        following = {
            other for other, feeds in follows.items() if any(feed.publisher == self.name for feed in feeds)
        }
        return sorted((followed | following) - {self.name})

    def _join(self, now: int) -> None:
        for ref in list(self._client.subscriptions):
            self._read(ref, now)

    def _publish(self, feed: Feed, sequence: int, content: bytes, now: int) -> None:
        for ref, one in list(self._client.subscriptions.items()):
            if one.state == STANDS:
                self._send_all(ref, now)

    def _on_events(self, now: int) -> None:
        """Handle events of the contract and the subscriptions."""
        events = self._client.take_events()
        if not events:
            return
        for event in events:
            if event.kind == "received":
                self._read(event.ref, now)
            elif event.kind == "refused":
                self._again.set(event.peer, now + _REFUSED_AGAIN)
        if any(event.kind in ("onboarded", "requested", "subscribed") for event in events):
            self._serve_subscriptions(now)

    def _serve_subscriptions(self, now: int) -> None:
        """Request subscriptions, answer, send and read as far as due."""
        for ref, one in list(self._client.subscriptions.items()):
            if one.state == INVITED:
                self._client.answer(ref, now, accept=one.contact in self._contacts)
            if ref in self._client.subscriptions and one.state == STANDS:
                self._send_all(ref, now)
                self._read(ref, now)
        contract = self._client.contracts.current(self._isp)
        if contract is not None and contract.facts.state == OPEN:
            known = {one.contact for one in self._client.subscriptions.values()}
            for contact in self._contacts:
                if contact not in known and contact not in self._again and self._asks(contact):
                    self._client.subscribe(self._isp, contact, now)

    def _asks(self, contact: bytes) -> bool:
        """Return whether this side requests the subscription: the follower; the first by name, if both
        follow.
        """
        follows, name = self._context.workload.follows, self._contacts[contact]
        is_mutual = any(feed.publisher == self.name for feed in follows.get(name, ()))
        is_follower = any(feed.publisher == name for feed in follows.get(self.name, ()))
        return is_follower and not (is_mutual and name < self.name)

    def _sent(self, ref: bytes, number: int) -> str:
        """Return the record of items sent per feed on a subscription."""
        return f"sent {ref.hex()} {number}"

    def _send_all(self, ref: bytes, now: int) -> None:
        """Send a contact the unsent items that it follows."""
        one = self._client.subscriptions[ref]
        followed = self._context.workload.follows.get(self._contacts[one.contact], ())
        for number, feed in enumerate(self._role.feeds):
            if feed not in followed:
                continue
            record = self._sent(ref, number)
            sent = self._store.get(record) or 0
            assert isinstance(sent, int)
            for message in feed.messages[sent : self._published[feed.key]]:
                with self._store.transaction():
                    self._client.send(ref, encode([number, content_of(message)]), now)
                    self._store.put(record, message.sequence)

    def _read(self, ref: bytes, now: int) -> None:
        """Deliver a contact's items, unless the application is absent."""
        if self._role.joins_at is not None:
            return
        feeds = self._feeds_of.get(self._client.subscriptions[ref].contact, [])
        while page := self._client.read(ref):
            for entry in page:
                try:
                    said = decode(entry.content)
                except MalformedBipf:
                    said = None
                match said:
                    case [int(number), bytes(content)] if 0 <= number < len(feeds):
                        feed = feeds[number]
                        self._deliver(feed, self._delivered[feed.key] + 1, content, now)
            self._client.confirm(ref, page[-1].sequence, now)


class HostileNode(ClientNode):
    """The node of a hostile client, which knows all clients."""

    def __init__(self, context: Context, assignment: Assignment) -> None:
        attack, longest = context.parameters["attack"], context.parameters["attack_ms"] * MS
        others = [name for name in assignment.provider_of if name != context.name]
        kind = partial(
            HostileClient,
            attack=attack,
            pace=(longest // 2, longest),
            talks=attack not in ("none", "crowd"),
            targets=[peer_identity(context.seed, name).public_key for name in others],
        )
        super().__init__(context, assignment.provider_of[context.name], kind)

    def counters(self) -> dict[str, Any]:
        """Return also the number of violations."""
        assert isinstance(self._client, HostileClient)
        return super().counters() | {"attacks": self._client.attacks}

    def _contact_names(self) -> list[str]:
        return [name for name in self._context.parameters["hostile"] if name != self.name]

    def _asks(self, contact: bytes) -> bool:
        return self.name < self._contacts[contact]

    def _read(self, ref: bytes, now: int) -> None:
        """Read and confirm. A client that provokes pauses leaves them unread."""
        takes = self._context.parameters["attack"] != "ignore-pause"
        while takes and (page := self._client.read(ref)):
            self._client.confirm(ref, page[-1].sequence, now)


@lru_cache(maxsize=1)
def _names(seed: int, nodes: tuple[str, ...]) -> dict[bytes, str]:
    """Return the nodes' names by their root feeds; cached, as all nodes use them at each sample."""
    return {peer_identity(seed, name).public_key: name for name in nodes}


def _misbehaviour(party: BaseParty, context: Context) -> list[dict[str, Any]]:
    """Return the violations by other nodes: kind, count, and the nodes accused by signed evidence."""
    names = _names(context.seed, context.network.nodes)
    accused: defaultdict[str, set[str]] = defaultdict(set)
    for evidence in party.accusations.evidence():
        accused[evidence.reason].add(names[evidence.accused])
    return [
        {"misbehaviour": kind, "times": count, "accused": sorted(accused[kind])}
        for kind, count in sorted(party.faults.items())
    ]


def _node(context: Context) -> Node:
    """Build a node of a run."""
    clients = sorted(context.workload.publishers | context.workload.follows.keys())
    assignment = Assignment.of(context.network, context.parameters, clients)
    if context.name in assignment.asked_peers:
        return ProviderNode(context, assignment)
    if context.name in context.parameters["hostile"]:
        return HostileNode(context, assignment)
    if context.name in assignment.provider_of:
        return ClientNode(context, assignment.provider_of[context.name])
    return BaseTinyNode(context)


TINY_ISP: Final = SimpleLayering(title("tiny-isp"), TinyIspParameters, _node, "tiny", TINY_FEATURES)
"""Feeds between clients of providers."""
