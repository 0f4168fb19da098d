"""The registry of layerings: what a scenario can compare.

A layering says how a publisher and its subscribers reach each other over the forwarders, and what it
needs of these. To add one, write a Subscription (ssb_over_ndn.subscriber), where the publisher has to do
more than answer, an Announcer (ssb_over_ndn.publisher), and enter both in LAYERINGS.

What a node of a run is built from:

- its forwarder: Forwarder(controlled_push=, recovery=, persistent=) from the layering's options; and, if it
  has a `multicast`, for each feed forwarder.choose_strategy(multicast.prefix(feed), Multicast);
- routes: every feed's name, and SHA256, towards the publisher; multicast.prefix(feed), which is longer,
  towards the subscribers' applications, along the same tree, and if `multicast.among_all` also towards the
  publisher's application;
- where a feed is published, an application
  layering.publisher(messages, times, stop=, rng=, retain=, **parameters);
- where feeds are followed, one application
  Subscriber({feed: layering.subscription(feed, rng=, **parameters) for each}, plan).
"""

from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import NamedTuple, Protocol

from pydantic import BaseModel, ConfigDict, Field, model_validator

from forwarder.host import Application
from forwarder.lli.upstream import Recovery
from ssb.message import Message
from ssb_over_ndn import notify, persistent, pull, sync
from ssb_over_ndn.events import Event
from ssb_over_ndn.lli import LliSubscription
from ssb_over_ndn.lookahead import Lookahead
from ssb_over_ndn.naming import log_name, notify_prefix, sync_prefix
from ssb_over_ndn.publisher import Announcer, Publisher
from ssb_over_ndn.subscriber import Subscription


class Endpoint(Application, Protocol):
    """An application that reports what happens to items: a Publisher or a Subscriber."""

    def take_events(self) -> list[Event]:
        """Return what happened since the last call."""
        ...


class Parameters(BaseModel):
    """Parameters of a layering, as a scenario's table [parameters.<layering>] gives them.

    Each has a default and both bounds; `feednet describe` shows them, with what is said below each.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)

    lifetime_ms: int
    """InterestLifetime: the state that a subscription leaves in the network is gone after so much."""


_HOUR_MS = 3_600_000


class FetchParameters(Parameters):
    """Parameters of what fetches items that exist."""

    buffer: int = Field(default=64, ge=1, le=65536)
    """Items that may be under way, or wait for the application; the credit that `lli` grants."""
    lifetime_ms: int = Field(default=1000, ge=1, le=_HOUR_MS)
    """InterestLifetime. Longer than any round trip is enough: what is lost is asked for sooner."""


class PullParameters(FetchParameters):
    """Parameters of `pull`: bounds of the time between two questions for what is newest.

    An item waits for half of that on average. Answers stay fresh for 10 ms, so that less brings nothing new.
    """

    shortest_ms: int = Field(default=50, ge=1, le=_HOUR_MS)
    """Time between two questions for what is newest, while items come."""
    longest_ms: int = Field(default=1000, ge=1, le=_HOUR_MS)
    """The same, after a long silence."""

    @model_validator(mode="after")
    def _ascending(self) -> "PullParameters":
        if self.shortest_ms > self.longest_ms:
            raise ValueError(f"shortest_ms {self.shortest_ms} is above longest_ms {self.longest_ms}")
        return self


class PollParameters(Parameters):
    """Parameters of `poll`."""

    window: int = Field(default=4, ge=1, le=4096)
    """Items polled for at a time."""
    lifetime_ms: int = Field(default=1000, ge=1, le=_HOUR_MS)
    """InterestLifetime: an Interest without an answer is repeated then."""


class LongLivedParameters(Parameters):
    """Parameters of `long-lived`.

    A window of 16 takes what a burst brings within a round trip. 10 s is longer than most silences of an
    active feed; an idle one costs a window of Interests in that time.
    """

    window: int = Field(default=16, ge=1, le=4096)
    """Items asked for ahead."""
    lifetime_ms: int = Field(default=10_000, ge=1, le=86_400_000)
    """InterestLifetime: how long each Interest waits for its item."""


class PersistentParameters(Parameters):
    """Parameters of `persistent`.

    The persistent Interest is sent three times in its lifetime: 4 s, NDN's default, make less than an
    Interest a second.
    """

    buffer: int = Field(default=64, ge=1, le=65536)
    """Missing items that may be under way, or wait for the application."""
    lifetime_ms: int = Field(default=4000, ge=3, le=86_400_000)
    """InterestLifetime of the persistent Interest."""
    fetch_lifetime_ms: int = Field(default=1000, ge=1, le=_HOUR_MS)
    """InterestLifetime of those that fetch missing items by name."""


class NotifyParameters(FetchParameters):
    """Parameters of `notify`."""

    heartbeat_ms: int = Field(default=1000, ge=1, le=_HOUR_MS)
    """How long after an answer the newest item is told of again, at first."""


class SyncParameters(FetchParameters):
    """Parameters of `sync`, with the specification's defaults."""

    periodic_ms: int = Field(default=30_000, ge=1, le=_HOUR_MS)
    """The specification's PeriodicTimeout."""
    suppression_ms: int = Field(default=200, ge=1, le=60_000)
    """The specification's SuppressionPeriod."""


class LliParameters(Parameters):
    """Parameters of `lli`."""

    credit: int = Field(default=64, ge=1, le=1 << 32)
    """Items that may be under way to a subscriber, or wait for its application."""
    lifetime_ms: int = Field(default=60_000, ge=100, le=86_400_000)
    """How long a long-lived Interest lasts."""


class Multicast(NamedTuple):
    """Interests that go to subscribers.

    Attributes:
        prefix: feed name -> the prefix of their names.
        among_all: they also go from subscribers to the publisher and to each other.
    """

    prefix: Callable[[bytes], bytes]
    among_all: bool


class Layering(NamedTuple):
    """One way to carry feeds.

    Attributes:
        title: for people, a few words.
        parameters: model of its parameters.
        publisher: (messages, times in ns, stop=ns, rng=, retain=, and the parameters) -> the publishing end.
        subscription: (feed name, rng=, and the parameters) -> a Subscription.
        controlled_push: forwarders know LLIs.
        recovery: and repair gaps, or not.
        persistent: forwarders know persistent Interests.
        multicast: Interests that need routes of their own, None if there are none.
    """

    title: str
    parameters: type[Parameters]
    publisher: Callable[..., Endpoint]
    subscription: Callable[..., Subscription]
    controlled_push: bool = False
    recovery: Recovery = Recovery.IN_NETWORK
    persistent: bool = False
    multicast: Multicast | None = None


def _publisher(
    announcer: Callable[..., Announcer] | None,
    messages: Sequence[Message],
    times: Sequence[int],
    *,
    stop: int,
    rng: Random,
    retain: int | None = None,
    **parameters: int,
) -> Publisher:
    """Return a publisher with what announcer(messages, rng, parameters) makes."""
    announces = announcer(messages[0], rng, parameters) if announcer is not None else None
    return Publisher(messages, times, retain=retain, announcer=announces, stop=stop)


def _pusher(first: Message, rng: Random, parameters: dict[str, int]) -> Announcer:
    return persistent.Pusher(log_name(first.author))


def _notifier(first: Message, rng: Random, parameters: dict[str, int]) -> Announcer:
    return notify.Notifier(
        log_name(first.author),
        rng=rng,
        lifetime_ms=parameters["lifetime_ms"],
        heartbeat_ms=parameters["heartbeat_ms"],
    )


def _sync_announcer(first: Message, rng: Random, parameters: dict[str, int]) -> Announcer:
    member = sync.Member(
        log_name(first.author),
        rng=rng,
        periodic_ms=parameters["periodic_ms"],
        suppression_ms=parameters["suppression_ms"],
    )
    return sync.SyncAnnouncer(member, sync.bootstrap_time(first))


def _lli(title: str, recovery: Recovery) -> Layering:
    return Layering(
        title,
        LliParameters,
        partial(_publisher, None),
        partial(LliSubscription, recovery=recovery),
        controlled_push=True,
        recovery=recovery,
    )


LAYERINGS: dict[str, Layering] = {
    "pull": Layering(
        "SSB over plain NDN, asking what is newest (RDR)",
        PullParameters,
        partial(_publisher, None),
        pull.subscribe,
    ),
    "poll": Layering(
        "SSB over plain NDN, per-item polling",
        PollParameters,
        partial(_publisher, None),
        partial(Lookahead, is_patient=False),
    ),
    "long-lived": Layering(
        "SSB over plain NDN, Interests that wait for items",
        LongLivedParameters,
        partial(_publisher, None),
        partial(Lookahead, is_patient=True),
    ),
    "persistent": Layering(
        "SSB over NDN with persistent Interests",
        PersistentParameters,
        partial(_publisher, _pusher),
        persistent.subscribe,
        persistent=True,
    ),
    "notify": Layering(
        "SSB over plain NDN, Interests triggering Interests",
        NotifyParameters,
        partial(_publisher, _notifier),
        notify.subscribe,
        multicast=Multicast(notify_prefix, among_all=False),
    ),
    "sync": Layering(
        "SSB over plain NDN, State Vector Sync",
        SyncParameters,
        partial(_publisher, _sync_announcer),
        sync.subscribe,
        multicast=Multicast(sync_prefix, among_all=True),
    ),
    "lli": _lli("SSB over NDN with controlled push", Recovery.IN_NETWORK),
    "lli-go-back-n": _lli("Controlled push, repaired end to end by go-back-N", Recovery.GO_BACK_N),
    "lli-selective": _lli("Controlled push, repaired end to end item by item", Recovery.SELECTIVE),
}
