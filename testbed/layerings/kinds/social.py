"""SSB-aware NDN: forwarders that replicate logs along the social graph of their users."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any, NamedTuple

from pydantic import Field

from forwarder.feedcache.items import parse_item
from forwarder.forwarder import Forwarder
from forwarder.tables.face import Face
from forwarder.wire.packet import parse_data
from ssb.generate import FIRST_TIMESTAMP
from ssb.graph import CONTACT
from ssb.keys import Identity
from ssb.message import Message
from ssb_over_ndn.following.subscriptions import Subscription
from ssb_over_ndn.layerings.lli import LliSubscription
from ssb_over_ndn.layerings.lookahead import Lookahead
from ssb_over_ndn.naming import LOGS, log_name, message_packet
from ssb_over_ndn.social.community import STATEMENT_BYTES
from ssb_over_ndn.social.flood import SocialFlood
from ssb_over_ndn.social.hello import HELLO
from ssb_over_ndn.social.keeper import Home, Keeper
from ssb_over_ndn.social.neighbours import Terms
from ssb_over_ndn.social.own_log import OwnLog
from ssb_over_ndn.social.receivers import SocialRouting, receiver_hint
from testbed.layerings.nodes.ndn_node import FollowParameters, NdnLayering, NdnNode
from testbed.layerings.nodes.node import Context, Node, StateSize
from testbed.layerings.nodes.peer_role import peer_identity
from testbed.layerings.nodes.titles import title
from testbed.layerings.nodes.workload import Feature, Feed
from topologies.model import Topology
from topologies.routing import Routing

_HOUR_MS = 3_600_000
_ALL = 1 << 40  # of a log; bounded by the forwarder's cache


class AwareParameters(FollowParameters):
    """Parameters of all SSB-aware layerings."""

    hops: int = Field(default=2, ge=1, le=10)
    """How many follows lead to the feeds that a forwarder carries for a user. 1: those that they follow."""
    hello_ms: int = Field(default=2000, ge=10, le=_HOUR_MS)
    """Time between two hellos, by which neighbours know each other and their users."""
    quota: int = Field(default=500, ge=1, le=1_000_000)
    """Interests a second from one neighbour that are flooded."""


class AwarePollParameters(AwareParameters):
    """Parameters of `ssb-aware-poll`: the next item is asked for again and again."""

    window: int = Field(default=4, ge=1, le=64)
    """Items polled for at a time."""
    lifetime_ms: int = Field(default=1000, ge=1, le=_HOUR_MS)
    """InterestLifetime: an Interest without an answer is repeated then."""


class AwareLliParameters(AwareParameters):
    """Parameters of `ssb-aware`."""

    neighbour_hops: int = Field(default=0, ge=0, le=10)
    """How many follows lead to the feeds that a forwarder carries for itself: those with two links or more
    then have a log, in which they follow all who are attached at their neighbours, other forwarders among
    them, as a pub follows its customers. They never end a follow. 3 covers the graphs of users nearby, whom
    they follow rather than serve. 0: forwarders follow nobody."""
    credit: int = Field(default=64, ge=1, le=1 << 32)
    """Items that may be under way to a forwarder."""
    lifetime_ms: int = Field(default=60_000, ge=100, le=86_400_000)
    """How long a long-lived Interest lasts."""


class SocialLayering(NamedTuple):
    """A Layering along the social graph.

    Attributes:
        ndn: the NDN layering of its nodes; its `subscription` also takes `after` and `receiver`.
        strategy: its forwarders' strategy for Interests.
        by_receiver: forwarders know every user of the network, and store only their own users' logs.
    """

    ndn: NdnLayering
    strategy: type[SocialFlood] = SocialFlood
    by_receiver: bool = False

    @property
    def title(self) -> str:
        return self.ndn.title

    @property
    def parameters(self) -> type[FollowParameters]:
        return self.ndn.parameters

    @property
    def protocol(self) -> str:
        return self.ndn.protocol

    @property
    def carries(self) -> frozenset[Feature]:
        """See Layering: users sign, so their keys must be known."""
        return frozenset({Feature.FOLLOWING})

    def build(self, context: Context) -> Node:
        """Build a node of a run."""
        return SocialNode(context, self)


class SocialNode(NdnNode):
    """A node: a forwarder with a keeper.

    A node that publishes or follows has a user; any other serves the users at its neighbours.

    Attributes: see Node. keeper: the program beside the forwarder.
    """

    keeper: Keeper

    def __init__(self, context: Context, layering: SocialLayering) -> None:
        self._social = layering
        super().__init__(context, layering.ndn)

    def reroute(self, network: Topology, routing: Routing) -> None:
        """See ReroutableNode: there are no routes."""

    def held(self) -> dict[str, StateSize]:
        """Return the state by kind: also logs that are carried for others, and the graph."""
        statements = self.keeper.community.statements
        state = super().held()
        state["messages"] = StateSize(*self.keeper.replicas.held(self._own))
        state["statements"] = StateSize(statements, STATEMENT_BYTES * statements)
        return state

    def counters(self) -> dict[str, Any]:
        """Return the forwarder's counters, and the keeper's, by name."""
        row = super().counters()
        for word, count in sorted(self._strategy.counters.items()):
            row[f"social_{word}"] = count
        return row

    def _add_feeds(self) -> None:
        """Attach the keeper, and forward Interests for logs by its strategy."""
        context, workload, forwarder = self._context, self._workload, self.host.forwarder
        self._homes = homes = homes_of(context)
        held: dict[str, list[Message]] = {
            feed.key: list(feed.messages[: self.state.delivered[feed.key]])
            for feed in workload.follows.get(self.name, ())
        }
        for home in homes:
            author = home.identity.ref
            held[author] = list(home.messages[: self.state.published[author]])
        parameters = dict(context.parameters)
        neighbour_hops = parameters.pop("neighbour_hops", 0)
        if len(context.network.ends_of(self.name)) < 2:
            neighbour_hops = 0  # nothing goes through here
        own_log = None
        if neighbour_hops:
            own = _home_of_forwarder(context)
            homes.append(own)
            held[own.identity.ref] = [*own.messages]
            own_log = OwnLog(own.identity, own.messages, lambda each: self.state.log.append(each.encoded))
        self._own = {log_name(author) for author in held}
        by_receiver = self._social.by_receiver
        terms = Terms(
            parameters.pop("hops"),
            parameters.pop("hello_ms"),
            serves_neighbours=not homes,
            spreads=by_receiver,
            keeps=bool(homes) or not by_receiver,
            neighbour_hops=neighbour_hops,
        )
        quota = parameters.pop("quota")
        plan = context.plan
        if plan is not None and context.since is not None:
            plan = None if context.since >= plan.stop else plan._replace(start=max(plan.start, context.since))
        self.keeper = Keeper(
            terms,
            homes,
            partial(_subscribe, self._social.ndn.subscription, self._rng, parameters),
            _Surroundings(forwarder),
            self._rng,
            plan=plan,
            follows=[feed.key for feed in workload.follows.get(self.name, ())],
            held=held,
            own_log=own_log,
            start=max(context.start, context.since or 0),
            stop=context.stop,
        )
        face = self._attach(self.keeper)
        forwarder.faces[face].local_fields = True
        self._strategy = self._social.strategy(
            forwarder, self.keeper, face, quota, pushes=forwarder.feeds is not None
        )
        for prefix in (LOGS, HELLO):
            forwarder.strategies.set(prefix, self._strategy)
        if forwarder.feeds is not None:
            _fill(forwarder, held)

    def _add_bulk(self) -> None:
        """See NdnNode: there is no cross traffic."""


class _Surroundings:
    """See ssb_over_ndn.social.neighbours.Surroundings."""

    def __init__(self, forwarder: Forwarder) -> None:
        self._forwarder = forwarder

    @property
    def faces(self) -> Mapping[int, Face]:
        return self._forwarder.faces

    def drop(self, feed: bytes, now: int) -> None:
        self._forwarder.cs.erase(feed, _ALL)
        if self._forwarder.feeds is not None:
            self._forwarder.feeds.forget(feed, now)

    def reconsider(self, face: int) -> None:
        if self._forwarder.feeds is not None:
            self._forwarder.feeds.reconsider(face)


def homes_of(context: Context) -> list[Home]:
    """Return the users of a node: the local authors, and one more if needed.

    A follower without a feed that states its follows has a log of its own, of messages of type contact.
    """
    workload = context.workload
    homes = []
    stated: set[str] = set()
    for feed in workload.feeds:
        if feed.publisher == context.name and feed.identity is not None:
            times = [context.start + time for time in feed.times]
            homes.append(Home(feed.identity, feed.messages, times))
            stated |= _contacts(feed)
    follows = [feed.key for feed in workload.follows.get(context.name, ())]
    if not stated.issuperset(follows):
        identity = peer_identity(context.seed, context.name)
        messages = _statements(identity, follows)
        homes.append(Home(identity, messages, [context.start] * len(messages)))
    return homes


def _home_of_forwarder(context: Context) -> Home:
    """Return the forwarder of a node as a user: its log is what it has written before a restart."""
    seed = hashlib.sha256(f"forwarder {context.seed} {context.name}".encode()).digest()
    messages = [Message.from_text(text) for text in context.state.log]
    times = [context.start] * len(messages)
    return Home(Identity.from_seed(seed), messages, times)


def _contacts(feed: Feed) -> set[str]:
    contents = (message.content for message in feed.messages)
    return {
        str(content.get("contact"))
        for content in contents
        if isinstance(content, dict) and content.get("type") == CONTACT and content.get("following") is True
    }


def _statements(identity: Identity, follows: list[str]) -> list[Message]:
    messages: list[Message] = []
    for number, author in enumerate(follows):
        content = {"type": CONTACT, "contact": author, "following": True}
        tip = messages[-1] if messages else None
        messages.append(Message.create(identity, tip, content, FIRST_TIMESTAMP + number))
    return messages


def _subscribe(
    subscribe: Callable[..., Subscription],
    rng: Random,
    parameters: Mapping[str, int],
    feed: bytes,
    after: int,
    receiver: str,
) -> Subscription:
    return subscribe(feed, rng=rng, after=after, receiver=receiver, **parameters)


def _fill(forwarder: Forwarder, held: Mapping[str, list[Message]]) -> None:
    """Fill the cache of verified items from the logs that outlive a restart."""
    assert forwarder.feeds is not None
    store = forwarder.feeds.store
    for author, messages in held.items():
        feed = log_name(author)
        cache = store.open(feed) if messages else None
        if cache is not None:
            for message in messages[-store.max_items :]:
                data = parse_data(message_packet(message))
                store.accept(cache, parse_item(feed, message.sequence, data))
            store.close(feed)


def _poll(
    feed: bytes,
    *,
    rng: Random,
    after: int,
    receiver: str,
    window: int,
    lifetime_ms: int,
    hint: Sequence[bytes] = (),
) -> Subscription:
    return Lookahead(
        feed, rng=rng, window=window, lifetime_ms=lifetime_ms, is_patient=False, after=after, hint=hint
    )


def _routed(feed: bytes, *, receiver: str, **more: Any) -> Subscription:
    return _poll(feed, receiver=receiver, hint=receiver_hint(receiver), **more)


def _lli(
    feed: bytes, *, rng: Random, after: int, receiver: str, credit: int, lifetime_ms: int
) -> Subscription:
    return LliSubscription(feed, rng=rng, after=after, credit=credit, lifetime_ms=lifetime_ms)


SOCIAL_LAYERINGS: dict[str, SocialLayering] = {
    "ssb-aware-poll": SocialLayering(NdnLayering(title("ssb-aware-poll"), AwarePollParameters, _poll)),
    "ssb-aware": SocialLayering(
        NdnLayering(title("ssb-aware"), AwareLliParameters, _lli, controlled_push=True),
    ),
    "social-routing": SocialLayering(
        NdnLayering(title("social-routing"), AwarePollParameters, _routed),
        SocialRouting,
        by_receiver=True,
    ),
}
"""The SSB-aware layerings by name."""
