"""Cases of testbed.bench.growth of layerings over NDN and of Scuttlebutt peers; see cases.py."""

import hashlib
from base64 import b64encode
from collections import Counter
from random import Random
from typing import Any, Final

from base.units import MS, SECOND
from forwarder.forwarder import Forwarder
from forwarder.tables.face import Face
from forwarder.wire.feed import item_name
from forwarder.wire.lp import NO_ROUTE, make_lp, open_interest, parse_lp
from forwarder.wire.name import from_uri
from forwarder.wire.packet import SENT_HOP_LIMIT, make_interest
from ndn_over_ssb.contract import Terms, clause
from ndn_over_ssb.negotiation import Policy
from ndn_over_ssb.participant import Participant
from ndn_over_ssb.side import ScuttlebuttSide
from ssb.graph import Graph
from ssb.keys import Identity
from ssb.message import Message
from ssb.peer.options import PeerOptions
from ssb.peer.peer import Peer
from ssb.peer.scheduler import Scheduler, SchedulerOptions
from ssb.replication.ebt import Ebt
from ssb.replication.session import Note
from ssb.store.blobs import MemoryBlobs
from ssb.store.clocks import MemoryClocks
from ssb.store.memory import MemoryFeeds
from ssb_over_ndn.following.blobs import BlobFetches
from ssb_over_ndn.following.fetch import Fetcher
from ssb_over_ndn.following.inbox import Inbox
from ssb_over_ndn.following.subscriptions import Subscriptions
from ssb_over_ndn.gateway.gateway import Gateway
from ssb_over_ndn.gateway.interests import GatewayInterests
from ssb_over_ndn.layerings.lli import LliSubscription
from ssb_over_ndn.layerings.lookahead import Lookahead
from ssb_over_ndn.mapping.messages import make_put
from ssb_over_ndn.mapping.resolver import Resolver
from ssb_over_ndn.mapping.storage import Storage
from ssb_over_ndn.naming import log_name, message_packet
from ssb_over_ndn.social.keeper import Home, Keeper
from ssb_over_ndn.social.neighbours import Terms as KeeperTerms
from testbed.bench.growth.cases import Case, Work, World

_NEVER: Final = 1 << 60


def _ref(kind: str, number: int) -> str:
    return f"@{b64encode(hashlib.sha256(f'{kind} {number}'.encode()).digest()).decode()}.ed25519"


def _identity(number: int) -> Identity:
    return Identity.from_seed(hashlib.sha256(b"growth %d" % number).digest())


def _peer(feeds: MemoryFeeds) -> Peer:
    return Peer(_identity(0), feeds, MemoryClocks(), [], PeerOptions(), Random(0))


def _nack(interest: bytes) -> bytes:
    opened = open_interest(interest)
    assert opened is not None
    return make_lp(opened.wire, nack_reason=NO_ROUTE)


# Layerings over NDN


def _fetcher(count: int, world: World) -> Work:
    fetcher = Fetcher(Inbox(log_name(_ref("feed", 0)), count, 0), rng=Random(0), lifetime_ms=4_000)
    fetcher.tip, fetcher.window.size = count, float(count)

    def work() -> None:
        fetcher.request(world.zero)
        for seq in range(1, count + 1):
            fetcher.on_nack(seq)
            fetcher.next_deadline()
        fetcher.wake(world.zero + 100 * SECOND)
        fetcher.request(world.zero + 100 * SECOND)

    return work


def _lookahead(count: int, world: World) -> Work:
    feed = log_name(_ref("feed", 0))
    following = Lookahead(feed, rng=Random(0), window=count, lifetime_ms=4_000, is_patient=False)
    following.start(world.zero)
    nacks = [parse_lp(_nack(each)) for each in following.take_outputs()]

    def work() -> None:
        for nack in nacks:
            following.receive(nack, world.zero + MS)
            following.next_deadline()
        following.wake(world.zero + 100 * SECOND)

    return work


def _subscriptions(count: int, world: World) -> Work:
    followed = Subscriptions()
    feeds = [log_name(_ref("feed", number)) for number in range(count)]

    def work() -> None:
        for feed in feeds:
            one = Lookahead(feed, rng=Random(0), window=1, lifetime_ms=4_000, is_patient=False)
            followed.start(feed, one, world.zero)
            followed.next_deadline()
        for interest in followed.take_outputs():
            followed.receive(_nack(interest), world.zero + MS)
            followed.next_deadline()
        followed.wake(world.zero + 100 * SECOND)

    return work


def _resolver(count: int, world: World) -> Work:
    resolver = Resolver([from_uri("/map")], rng=Random(0))

    def work() -> None:
        for number in range(count):
            resolver.want(_ref("feed", number), world.zero + number)
            resolver.next_deadline()
        resolver.wake(world.zero + 100 * SECOND)

    return work


def _storage(count: int, world: World) -> Work:
    storage = Storage(count)
    puts = []
    for number in range(count):
        identity = _identity(number)
        message = Message.create(identity, None, {"type": "post"}, 1e12)
        puts.append(make_put(identity.ref, message_packet(message), from_uri("/store"), number))

    def work() -> None:
        for put in puts:
            storage.receive(put, world.zero)
            storage.next_deadline()
        storage.wake(world.zero + SECOND)

    return work


def _blobs(count: int, world: World) -> Work:
    fetches = BlobFetches(MemoryBlobs(), Random(0), lambda blob: None, Counter())
    blobs = [f"&{_ref('blob', number)[1:45]}.sha256" for number in range(count)]

    def work() -> None:
        for blob in blobs:
            fetches.want(blob, world.zero)
            fetches.start(world.zero)
            fetches.next_deadline()
        for blob in blobs:
            fetches.drop(blob)
            fetches.next_deadline()

    return work


def _subscribed(feed: bytes, after: int) -> LliSubscription:
    return LliSubscription(feed, rng=Random(0), credit=16, lifetime_ms=60_000, after=after)


def _gateway(count: int, world: World) -> Work:
    feeds = MemoryFeeds()
    peer = _peer(feeds)
    graph = Graph(_identity(0).ref)
    gateway = Gateway(peer, peer, feeds, None, graph, _subscribed, lambda feed: None, Random(0))
    homes = [_ref("home", number) for number in range(count)]
    for home in homes:
        gateway.application.add_home(home, world.zero)
    asked = [
        make_interest(item_name(log_name(home), 1), nonce=1, lifetime_ms=4_000, hop_limit=SENT_HOP_LIMIT)
        for home in homes
    ]

    def work() -> None:
        for interest in asked:
            gateway.application.receive(interest, world.zero + MS)
            gateway.application.take_outputs()
            gateway.application.next_deadline()
        gateway.application.wake(world.zero + 5 * SECOND)

    return work


def _departed(count: int, world: World) -> Work:
    """Return peers that each follow three feeds, and leave together."""
    interests = GatewayInterests(_peer(MemoryFeeds()), Graph(_identity(0).ref), Counter())
    peers = [_ref("peer", number) for number in range(count)]
    for number, peer in enumerate(peers):
        interests.on_connected(peer, world.zero)
        for other in range(3):
            interests.accepts(peer, _ref("other", (number * 3 + other) % 5_000))

    def work() -> None:
        for peer in peers:
            interests.on_disconnected(peer, world.zero)
            interests.next_deadline()
        interests.wake(world.zero + 10_000 * SECOND)

    return work


class _Nothing:
    """The Surroundings of a keeper without neighbours."""

    faces: Final[dict[int, Face]] = {}

    def reconsider(self, face: int) -> None:
        pass

    def drop(self, feed: bytes, now: int) -> None:
        """Drop nothing."""


def _keeper(count: int, world: World) -> Work:
    """Users who each publish once, one after the other."""
    homes = []
    for number in range(count):
        identity = _identity(number)
        message = Message.create(identity, None, {"type": "post"}, 1e12)
        homes.append(Home(identity, [message], [world.zero + number]))
    terms = KeeperTerms(hops=1, hello_ms=1_000, serves_neighbours=False)
    keeper = Keeper(
        terms, homes, lambda feed, after, whose: _subscribed(feed, after), _Nothing(), Random(0),
        start=_NEVER, stop=_NEVER + 1,
    )  # fmt: skip

    def work() -> None:
        for number in range(count):
            keeper.wake(world.zero + number)
            keeper.take_outputs()
            keeper.next_deadline()

    return work


# Scuttlebutt


def _scheduler(count: int, world: World) -> Work:
    scheduler = Scheduler(Random(0), SchedulerOptions(places=1, known=count + 1))
    scheduler.add("first", ("::1", 1), world.zero)
    scheduler.take_calls(world.zero)
    scheduler.on_connected("first", world.zero)

    def work() -> None:
        for number in range(count):
            scheduler.add(_ref("peer", number), ("::1", number), world.zero)
            scheduler.take_calls(world.zero)
            scheduler.next_to_close(world.zero)
            scheduler.next_deadline()

    return work


def _ebt(count: int, world: World) -> Work:
    """Connections that each owe messages of a feed of its own."""
    ebt = Ebt(MemoryFeeds(), MemoryClocks(), [])
    feeds = [_ref("feed", number) for number in range(count)]
    for number, feed in enumerate(feeds):
        ebt.want_all([feed], world.zero)
        ebt.open(number, _ref("remote", number), is_caller=True, now=world.zero)
    notes = [b'{"%s": %d}' % (feed.encode(), Note(9, True).number) for feed in feeds]
    for number in range(count):
        ebt.receive(number, notes[number : number + 1], world.zero + number, 0.0)
    assert ebt.next_deadline() is not None

    def work() -> None:
        for number, feed in enumerate(feeds):
            ebt.backlog(feed, _ref("remote", number))
            ebt.next_deadline()

    return work


def _participant(count: int, world: World) -> Work:
    """A provider with many contracts."""
    provider, feeds = _identity(0), MemoryFeeds()
    requests, accepted = [], []
    last = None
    for number in range(count):
        customer = _identity(number + 1)
        content = clause("request", provider=provider.ref, terms=Terms())
        requests.append(Message.create(customer, None, content, 1e12))
        content = clause("accept", contract=requests[-1].id, customer=customer.ref, terms=Terms())
        last = Message.create(provider, last, content, 1e12)
        accepted.append(last)
    feeds.append([*requests, *accepted], 0.0)
    peer = _peer(feeds)

    def publish(content: Any, now: int) -> Message:
        return feeds.publish(provider, content, 1e12)

    one = Participant(
        ScuttlebuttSide(
            identity=provider, program=peer, peer=peer, feeds=feeds, publish=publish, epoch_ms=1e12
        ),
        Policy(root=_ref("root", 0), offer=Terms()),
        Forwarder(rng=Random(0)),
        now=world.zero,
    )
    assert one.next_deadline() is not None

    def work() -> None:
        for number in range(count):
            one.wake(world.zero + number)
            one.next_deadline()

    return work


CASES: Final = (
    Case("Fetcher: items in flight", _fetcher),
    Case("Lookahead: Interests pending", _lookahead),
    Case("Subscriptions: feeds followed", _subscriptions),
    Case("Resolver: feeds wanted", _resolver),
    Case("Storage: logs kept", _storage),
    Case("Blobs wanted", _blobs),
    Case("Gateway: an Interest for each home", _gateway),
    Case("GatewayInterests: peers leave together", _departed),
    Case("Keeper: each user publishes", _keeper),
    Case("Scheduler: peers known, all places taken", _scheduler),
    Case("EBT: deadlines and backlogs of connections", _ebt, divided=8),
    Case("Participant: contracts in force", _participant),
)
