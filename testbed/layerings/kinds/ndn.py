"""Layerings over NDN: SSB feeds by Interests and Data.

A layering defines how a publisher and its subscribers reach each other over the forwarders, and its
requirements for these. To add one, write a Subscription (ssb_over_ndn.following.subscriptions), for active
publishers an Announcer (ssb_over_ndn.serving.server), and enter both in NDN_LAYERINGS.
"""

from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import Any

from pydantic import Field, model_validator

from forwarder.lli.upstream import Recovery
from ssb_over_ndn.layerings import notify, objects, persistent, pull
from ssb_over_ndn.layerings.lookahead import Lookahead
from ssb_over_ndn.naming import extend_prefix, notify_prefix, sync_prefix
from ssb_over_ndn.serving.server import Announcer
from ssb_over_ndn.sync import log_sync, state_vector
from testbed.layerings.kinds.lli import LliParameters, PushParameters, lli_node, subscription
from testbed.layerings.nodes.ndn_node import FollowParameters, Multicast, NdnLayering
from testbed.layerings.nodes.titles import title

_HOUR_MS = 3_600_000


class FetchParameters(FollowParameters):
    """Parameters of what fetches items that exist."""

    buffer: int = Field(default=64, ge=1, le=65536)
    """Items that may be under way, or wait for the application; the credit that `lli` grants."""
    lifetime_ms: int = Field(default=1000, ge=1, le=_HOUR_MS)
    """InterestLifetime. Longer than any round trip is enough: what is lost is asked for sooner."""


class ObjectParameters(FetchParameters):
    """Parameters of `ndn`. Its lifetime is NDN's default."""

    lifetime_ms: int = Field(default=4000, ge=1, le=_HOUR_MS)
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


class PollParameters(FollowParameters):
    """Parameters of `poll`."""

    window: int = Field(default=4, ge=1, le=4096)
    """Items polled for at a time."""
    lifetime_ms: int = Field(default=1000, ge=1, le=_HOUR_MS)
    """InterestLifetime: an Interest without an answer is repeated then."""


class LongLivedParameters(FollowParameters):
    """Parameters of `long-lived`.

    A window of 16 takes what a burst brings within a round trip. 10 s is longer than most silences of an
    active feed; an idle one costs a window of Interests in that time.
    """

    window: int = Field(default=16, ge=1, le=4096)
    """Items asked for ahead."""
    lifetime_ms: int = Field(default=10_000, ge=1, le=86_400_000)
    """InterestLifetime: how long each Interest waits for its item."""


class PersistentParameters(FollowParameters):
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


class SyncLogParameters(FetchParameters):
    """Parameters of `sync-log`."""

    first_ms: int = Field(default=1000, ge=1, le=_HOUR_MS)
    """How long after an item its writer announces it again; four times as long each time."""
    longest_ms: int = Field(default=30_000, ge=1, le=_HOUR_MS)
    """The longest time between two announcements of a feed that does not change; as `sync` has it."""
    suppression_ms: int = Field(default=200, ge=1, le=60_000)
    """State Vector Sync's SuppressionPeriod."""

    @model_validator(mode="after")
    def _ascending(self) -> "SyncLogParameters":
        if self.first_ms > self.longest_ms:
            raise ValueError(f"first_ms {self.first_ms} is above longest_ms {self.longest_ms}")
        return self


def announcers(
    make: Callable[..., Announcer], *names: str
) -> Callable[[bytes, Random, Mapping[str, int]], Announcer]:
    """Return the `announcer` of an NdnLayering: `make` gets the parameters with these names."""
    return lambda feed, rng, parameters: make(feed, rng=rng, **{name: parameters[name] for name in names})


def _lli(
    name: str, recovery: Recovery, parameters: type[LliParameters] = LliParameters, **more: Any
) -> NdnLayering:
    return NdnLayering(
        title(name),
        parameters,
        partial(subscription, recovery=recovery),
        controlled_push=True,
        recovery=recovery,
        branches=True,
        **more,
    )


NDN_LAYERINGS: dict[str, NdnLayering] = {
    "pull": NdnLayering(title("pull"), PullParameters, pull.subscribe, branches=True),
    "poll": NdnLayering(title("poll"), PollParameters, partial(Lookahead, is_patient=False), branches=True),
    "long-lived": NdnLayering(
        title("long-lived"), LongLivedParameters, partial(Lookahead, is_patient=True), branches=True
    ),
    "persistent": NdnLayering(
        title("persistent"),
        PersistentParameters,
        persistent.subscribe,
        lambda feed, rng, parameters: persistent.Pusher(feed),
        persistent=True,
        branches=True,
    ),
    "notify": NdnLayering(
        title("notify"),
        NotifyParameters,
        notify.subscribe,
        announcers(notify.Notifier, "lifetime_ms", "heartbeat_ms"),
        multicast=Multicast(notify_prefix, among_all=False),
    ),
    "sync": NdnLayering(
        title("sync"),
        SyncParameters,
        state_vector.subscribe,
        announcers(state_vector.FeedMember, "periodic_ms", "suppression_ms"),
        multicast=Multicast(sync_prefix, among_all=True),
    ),
    "sync-log": NdnLayering(
        title("sync-log"),
        SyncLogParameters,
        log_sync.subscribe,
        announcers(partial(log_sync.LogMember, is_writer=True), "first_ms", "longest_ms", "suppression_ms"),
        multicast=Multicast(extend_prefix, among_all=True),
    ),
    "lli": _lli("lli", Recovery.IN_NETWORK, PushParameters, node=lli_node),
    "lli-go-back-n": _lli("lli-go-back-n", Recovery.GO_BACK_N),
    "lli-selective": _lli("lli-selective", Recovery.SELECTIVE),
}
"""Layerings that follow a feed as it grows, by name."""

PLAIN_NDN = NdnLayering(title("ndn"), ObjectParameters, objects.subscribe, whole=True)
