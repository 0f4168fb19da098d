"""The registry of layerings: what a scenario can compare.

A layering says how a publisher and its subscribers reach each other over the forwarders. To add one,
write its two ends as applications (forwarder.host.Application with take_events()) and enter it in
LAYERINGS.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from pydantic import BaseModel, ConfigDict, Field

from forwarder.host import Application
from ssb.message import Message
from ssb_over_ndn.events import Event
from ssb_over_ndn.lli import LliSubscriber
from ssb_over_ndn.poll import PollSubscriber
from ssb_over_ndn.publisher import Publisher


class Endpoint(Application, Protocol):
    """An application that reports what happens to items."""

    def take_events(self) -> list[Event]:
        """Return what happened since the last call."""
        ...


class Parameters(BaseModel):
    """Parameters of a layering, as a scenario's table [parameters.<layering>] gives them."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class PollParameters(Parameters):
    """Parameters of `poll`: items polled for at a time, and how long each Interest waits."""

    window: int = Field(default=4, ge=1, le=4096)
    lifetime_ms: int = Field(default=1000, ge=1, le=3_600_000)


class LliParameters(Parameters):
    """Parameters of `lli`: items that may be under way to a subscriber, and how long an LLI lasts."""

    credit: int = Field(default=64, ge=1, le=1 << 32)
    lifetime_ms: int = Field(default=60_000, ge=100, le=86_400_000)


class Layering(NamedTuple):
    """One way to carry feeds.

    Attributes:
        title: for people, a few words.
        parameters: model of its parameters.
        publisher: (messages, times in ns) -> the publishing end.
        subscriber: (feed name, start=ns, stop=ns, rng=, and the parameters) -> a subscribing end.
    """

    title: str
    parameters: type[Parameters]
    publisher: Callable[[Sequence[Message], Sequence[int]], Endpoint]
    subscriber: Callable[..., Endpoint]


LAYERINGS: dict[str, Layering] = {
    "poll": Layering("SSB over plain NDN, per-item polling", PollParameters, Publisher, PollSubscriber),
    "lli": Layering("SSB over NDN with controlled push", LliParameters, Publisher, LliSubscriber),
}
