"""NDN over SSB: the same requests for objects as `ndn`, with Interests and Data in Scuttlebutt logs.

Nodes that publish are repositories, those that follow are customers, and all others are NDN forwarding
providers; a node has a contract with each neighbouring provider. The first provider is the root of the name
space. Logs begin with the agreements before the run: the holder of each prefix.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final

from pydantic import Field

from base.endpoint import Program, StreamPort
from base.key_log import Secret
from base.passive import Outputs
from base.timers import Timers
from forwarder.forwarder import Forwarder
from forwarder.wire.feed import split_item
from forwarder.wire.lp import open_interest, parse_lp
from forwarder.wire.name import from_uri
from forwarder.wire.packet import INTEREST, make_data, read_name
from forwarder.wire.tlv import MalformedPacket
from ndn_over_ssb.contract import Terms
from ndn_over_ssb.line import Passage
from ndn_over_ssb.name_space import statement
from ndn_over_ssb.negotiation import Policy
from ndn_over_ssb.participant import Participant
from ndn_over_ssb.side import ScuttlebuttSide
from ssb.keys import Identity
from ssb.message import Message
from ssb.peer.options import PORT, PeerOptions
from ssb.peer.peer import Peer
from ssb.peer.scheduler import SchedulerOptions
from ssb.store.clocks import MemoryClocks
from ssb.store.memory import MemoryFeeds
from ssb_over_ndn.following.subscriber import Subscriber
from ssb_over_ndn.layerings import objects
from ssb_over_ndn.naming import LOGS, log_key, log_name
from ssb_over_ndn.serving.publisher import Publisher
from testbed.layerings.kinds.ndn import ObjectParameters
from testbed.layerings.nodes.authority import (
    PRODUCERS_URI,
    SCHEMA,
    Authority,
    anchor_of,
    producer_of,
)
from testbed.layerings.nodes.ndn_node import choose_strategies
from testbed.layerings.nodes.node import Context, EventRows, SimpleLayering, StateSize
from testbed.layerings.nodes.peer_role import peer_identity
from testbed.layerings.nodes.titles import title
from testbed.layerings.nodes.workload import Feature, Feed, Workload
from testbed.layerings.peers.ssb import held_by

if TYPE_CHECKING:
    from ndn_over_ssb.trust import Trust

EPOCH_MS: Final = 1_700_000_000_000.0
"""The time at 0 ns of all runs, ms since 1970: clocks of logs and certificates."""
_TERM_S: Final = 7 * 86_400


class NdnOverSsbParameters(ObjectParameters):
    """Parameters of `ndn-over-ssb`."""

    rate: int = Field(default=2_000, ge=1, le=1_000_000)
    """Interests a second that a contract grants a customer."""
    entries: int = Field(default=256, ge=4, le=10_000)
    """Messages of a transient feed, after which the next one is begun."""
    unread: int = Field(default=2, ge=1, le=100)
    """Transient feeds that may wait for the other side to have read them."""
    validate_data: bool = True
    """Providers check the certificates of Data before they pass them on."""
    hops: int = Field(default=0, ge=0, le=10)
    """A customer replicates the feeds within so many follows, as Scuttlebutt peers do, and answers Interests
    for their messages itself. Without a follow graph it replicates none."""
    encrypt: bool = True
    """Handshake and box stream between peers; without them, what encryption costs is seen."""


def providers(nodes: Iterable[str], workload: Workload) -> list[str]:
    """Return the provider nodes."""
    others = workload.publishers | workload.follows.keys()
    return [node for node in nodes if node not in others]


class NdnOverSsbNode:
    """A node, a StrategyNode: a participant, and the publishing and requesting applications.

    Attributes: see Node.
    """

    def __init__(self, context: Context) -> None:
        self.name = context.name
        self.state = context.state
        self._rows = EventRows(context.name, context.state)
        self._context = context
        self._providers = providers(context.network.nodes, context.workload)
        self._own = own = _identity(context, self.name)
        self._store = store = MemoryFeeds()
        store.append([Message.from_text(text) for text in self._founded()], EPOCH_MS)
        random = Random(f"{context.seed} {context.layering} {self.name} {context.since}")
        self._peer = _peer(context, own, store, random)
        self._is_provider = self.name in self._providers
        parameters = context.parameters
        self._terms = Terms(
            rate=parameters["rate"],
            entries=parameters["entries"],
            unread=parameters["unread"],
            term_s=_TERM_S,
        )
        self._trust: Trust | None = None
        if self._is_provider and parameters["validate_data"]:
            from ndn_over_ssb import trust  # python-ndn's validators are slow to import

            self._trust = trust.Trust(SCHEMA, anchor_of(context.seed).certificate, random, EPOCH_MS)
        self._journey = _Journey({_identity(context, node).ref: node for node in context.network.nodes})
        self._participant = self._make_participant(random)
        self._held = (
            context.workload.within(self.name, parameters["hops"]) if context.workload.replicated else []
        )
        self._applications: list[_Repository | Subscriber] = []
        now = context.since or 0
        self._attach(now)
        self._contract_providers(now)
        self.programs = [Program(self._participant, {1: StreamPort(PORT)})]

    def _make_participant(self, random: Random) -> Participant:
        context = self._context
        side = ScuttlebuttSide(
            identity=self._own,
            program=self._peer,
            peer=self._peer,
            feeds=self._store,
            publish=self._append,
            epoch_ms=EPOCH_MS,
        )
        policy = Policy(
            root=_identity(context, self._providers[0]).ref,
            offer=self._terms._replace(transit=True) if self._is_provider else None,
        )
        return Participant(
            side,
            policy,
            _forwarder(context, random),
            trust=self._trust,
            now=context.since or 0,
            watch=self._journey.passed,
            answer=self._answer,
        )

    def _append(self, content: Mapping[str, Any], time: int) -> Message:
        message = self._store.publish(self._own, content, EPOCH_MS + time / 1e6)
        self._context.state.log.append(message.encoded)
        self._peer.on_appended(self._own.ref, time)
        return message

    def _founded(self) -> list[bytes]:
        """Return this node's log as kept, or its beginning."""
        log = self.state.log
        if not log and self._providers[:1] == [self.name]:
            log += [message.encoded for message in founding(self._context)]
        elif not log and self.name in self._context.workload.publishers:
            titles = [
                message.id
                for message in founding(self._context)
                if isinstance(message.content, dict) and message.content["to"] == self._own.ref
            ]
            log += [
                message.encoded
                for message in _log(
                    self._own,
                    [statement("repository", title=title, repositories=[self._own.ref]) for title in titles],
                )
            ]
        return log

    def _attach(self, now: int) -> None:
        context, workload = self._context, self._context.workload
        published = [feed for feed in workload.feeds if feed.publisher == self.name]
        parameters = context.parameters
        if published:
            repository = _Repository(published, context.start, producer_of(context.seed, self.name))
            self._applications.append(repository)
            if parameters["hops"]:
                for feed in published:  # for friends; they have it before any request
                    self._peer.want(feed.key, now)
                    self._peer.append(feed.messages, now)
            self._participant.attach(repository, serves=True, now=now)
        plan = context.plan
        if plan is not None and now < plan.stop:
            subscriptions = {
                log_name(feed.key): objects.subscribe(
                    log_name(feed.key),
                    rng=Random(f"{context.seed} {self.name} {now} {feed.key}"),
                    buffer=context.parameters["buffer"],
                    lifetime_ms=context.parameters["lifetime_ms"],
                )
                for feed in workload.follows[self.name]
            }
            subscriber = Subscriber(subscriptions, plan._replace(start=max(plan.start, now)))
            self._applications.append(subscriber)
            self._participant.attach(subscriber, now=now)

    def _contract_providers(self, now: int) -> None:
        """Call the neighbouring providers, and sign contracts with them."""
        network = self._context.network
        neighbours = network.neighbours(self.name)
        for other in network.nodes:
            is_below = not self._is_provider or self.name > other
            if other not in neighbours or other not in self._providers or not is_below:
                continue
            ref = _identity(self._context, other).ref
            self._peer.add(ref, (network.address(other), PORT), now, is_kept=True)
            if self._context.since is None:
                self._participant.request(ref, self._terms._replace(transit=self._is_provider), now)

        for feed in self._held:
            self._peer.want(feed.key, now)
            friend = _identity(self._context, feed.publisher).ref
            self._peer.add(friend, (network.address(feed.publisher), PORT), now, is_kept=True)

    def _answer(self, name: bytes) -> bytes | None:
        """Return the Data packet of a segment in a log that is replicated here anyway."""
        item = split_item(name) if self._held else None
        if item is None:
            return None
        key = log_key(item[0])
        # The object's length is unknown in a partial log.
        whole = next((len(feed.messages) for feed in self._held if feed.key == key), None)
        if whole is None or self._store.tips().get(key, 0) < whole or not 1 <= item[1] <= whole:
            return None
        (found,) = self._store.after(key, item[1] - 1, 1)
        return objects.segment_packet(found.message, whole, make_data)

    # The node

    def choose_strategy(self, prefix: str, strategy: str) -> None:
        choose_strategies(self._participant.host.forwarder, {prefix: strategy})

    def take_events(self) -> list[dict[str, Any]]:
        """See Node: what applications report, and the journeys of first segments."""
        self._participant.take_events()  # dropped: applications report deliveries
        events = [event for application in self._applications for event in application.take_events()]
        return self._rows.of(events) + self._journey.take_rows(self.name)

    def take_secrets(self) -> list[Secret]:
        """See Node: the keys of box streams."""
        return self._peer.connections.take_secrets()

    def held(self) -> dict[str, StateSize]:
        """Return the node's state: its forwarder's, connections, feeds on them, and others' messages."""
        forwarder = self._participant.host.forwarder
        published = {feed.key for feed in self._context.workload.feeds if feed.publisher == self.name}
        own = {self._own.ref} | published
        return forwarder.held() | held_by(self._peer, self._store, own)

    def counters(self) -> dict[str, Any]:
        """Return the counters of forwarder and lines, and rejected packets."""
        participant = self._participant
        row = {
            "refused": self._peer.connections.refused.total(),
            "not_passed": participant.counters.total(),
            "cs_entries": len(participant.host.forwarder.cs),
            **participant.host.forwarder.counters.as_dict(),
            **self._journey.sums,
        }
        if self._held:
            row["answered_here"] = participant.packets.answered
        if self._trust is not None:
            row |= {
                "data_accepted": self._trust.accepted,
                "data_refused": self._trust.refused,
                "data_checking_ns": participant.packets.checking_ns,
            }
        return row


class _Repository(Outputs):
    """The Application that answers for all feeds of a node, and for the certificate of their producer."""

    def __init__(self, feeds: Iterable[Feed], start: int, producer: Authority) -> None:
        super().__init__()
        self._publishers = {
            log_name(feed.key): Publisher(
                feed.messages,
                [start + time for time in feed.times],
                packet=partial(objects.segment_packet, last=feed.messages[-1].sequence, sign=producer.sign),
            )
            for feed in feeds
        }
        self._producer = producer
        self._timers: Timers[bytes] = Timers()  # of publishers
        self._events: list[Any] = []
        for feed in self._publishers:
            self._follow_up(feed)

    def receive(self, packet: bytes, now: int) -> None:
        interest = open_interest(packet)
        if interest is None:
            return
        item = split_item(interest.name)
        if interest.name == self._producer.name:
            self.outputs.append(self._producer.certificate)
        elif item is not None and item[0] in self._publishers:
            self._publishers[item[0]].receive(packet, now)
            self._follow_up(item[0])

    def take_events(self) -> list[Any]:
        """Return what was published since the last call."""
        events, self._events = self._events, []
        return events

    def next_deadline(self) -> int | None:
        return self._timers.next_deadline()

    def wake(self, now: int) -> None:
        for feed in self._timers.expire(now):
            self._publishers[feed].wake(now)
            self._follow_up(feed)

    def _follow_up(self, feed: bytes) -> None:
        publisher = self._publishers[feed]
        self.outputs += publisher.take_outputs()
        self._events += publisher.take_events()
        self._timers.set(feed, publisher.next_deadline())


class _Journey:
    """Packets on the lines of a node, and each step of first segments. `names`: of the nodes of identities;
    `sums`: packets and times, ns, by kind of packet and stage.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        self._rows: list[dict[str, Any]] = []
        self.sums: Counter[str] = Counter(
            {
                f"{kind}_{what}": 0
                for kind in ("interest", "data")
                for what in ("written", "queued_ns", "read", "replicated_ns")
            }
        )

    def passed(self, other: str, passage: Passage) -> None:
        """Count a packet."""
        try:
            header = parse_lp(passage.packet)
            kind = "interest" if header.fragment[0] == INTEREST else "data"
            item = split_item(read_name(header.fragment))
        except (MalformedPacket, IndexError):
            return
        if kind == "interest" and header.nack_reason is not None:
            kind = "nack"
        else:
            did, took = ("read", "replicated_ns") if passage.is_read else ("written", "queued_ns")
            self.sums[f"{kind}_{did}"] += 1
            self.sums[f"{kind}_{took}"] += passage.duration
        message = passage.message
        if item is not None and item[1] == 1:
            self._rows.append(
                {
                    "time": passage.time,
                    "event": f"{kind} {'read' if passage.is_read else 'written'}",
                    "feed": log_key(item[0]),
                    "seq": 1,
                    "bytes": len(passage.packet),
                    "detail": f"{self._names.get(other, '')} {message.author} {message.sequence}",
                }
            )

    def take_rows(self, node: str) -> list[dict[str, Any]]:
        """Return the steps since the last call, as rows of events.jsonl."""
        rows, self._rows = self._rows, []
        return [row | {"node": node} for row in rows]


def _peer(context: Context, own: Identity, store: MemoryFeeds, random: Random) -> Peer:
    most = 2 * len(context.network.nodes)
    options = PeerOptions(
        encrypts=context.parameters["encrypt"],
        connections=most,
        handshakes=most,
        scheduler=SchedulerOptions(places=most, known=most),
    )
    return Peer(own, store, MemoryClocks(context.state.clocks), [], options, random, EPOCH_MS)


def _forwarder(context: Context, random: Random) -> Forwarder:
    limits = context.limits
    forwarder = Forwarder(
        rng=random,
        cs_capacity=limits.cs_packets,
        cs_policy=limits.cs_policy,
        pit_capacity=limits.pit_entries,
        controlled_push=False,
        observable=True,
    )
    choose_strategies(forwarder, context.strategies)
    return forwarder


def founding(context: Context) -> list[Message]:
    """Return the log by which the root allocates the name space: a prefix per feed, if there are several
    publishers, and one for each producer's certificate.
    """
    workload = context.workload
    root = _identity(context, providers(context.network.nodes, workload)[0])
    publishers = sorted(workload.publishers)
    prefixes = [(from_uri(f"{PRODUCERS_URI}/{node}"), node) for node in publishers]
    if len(publishers) == 1:
        prefixes.append((LOGS, publishers[0]))
    else:
        prefixes += [(log_name(feed.key), feed.publisher) for feed in workload.feeds]
    return _log(
        root,
        [statement("allocate", prefix=prefix, to=_identity(context, node).ref) for prefix, node in prefixes],
    )


def _log(author: Identity, contents: Iterable[Mapping[str, Any]]) -> list[Message]:
    messages: list[Message] = []
    for number, content in enumerate(contents):
        before = messages[-1] if messages else None
        messages.append(Message.create(author, before, content, EPOCH_MS - 1e6 + number))
    return messages


def _identity(context: Context, node: str) -> Identity:
    return peer_identity(context.seed, node)


NDN_OVER_SSB: Final = SimpleLayering(
    title("ndn-over-ssb"),
    NdnOverSsbParameters,
    NdnOverSsbNode,
    "ssb",
    frozenset({Feature.REQUESTS}),
)
"""Objects by Interests and Data in logs."""
