"""A layering of another distribution: publishers beacon by multicast how long their feeds are.

An item counts as delivered when a subscriber has heard its number; messages themselves are not sent. A beacon
is a list of tips: a feed's public key (32 bytes) and the number of its newest message (4 bytes, big-endian).
"""

import base64
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic import Field

from base.endpoint import Address, GroupPort, Program
from base.key_log import Secret
from base.units import MS
from ssb.application import Event
from testbed.layerings.nodes.node import Context, EventRows, Node, Parameters, StateSize
from testbed.layerings.nodes.workload import Feature, Feed

GROUP, PORT = "224.0.0.71", 7071
_TIP = struct.Struct("!32sI")


class BeaconParameters(Parameters):
    """Parameters of `beacon`."""

    beacon_ms: int = Field(default=100, ge=1, le=60_000)
    """From one beacon of a publisher to its next."""


class BeaconLayering(NamedTuple):
    """Tips of feeds by UDP multicast."""

    title: str = "tips of feeds by multicast"
    parameters: type[BeaconParameters] = BeaconParameters
    protocol: str = "beacon"
    carries: frozenset[Feature] = frozenset({Feature.FOLLOWING, Feature.MEDIUM})

    def build(self, context: Context) -> Node:
        """Build a node of a run."""
        return BeaconNode(context)


def key_of(feed: Feed) -> bytes:
    """Return a feed's public key."""
    return base64.b64decode(feed.messages[0].author[1:].removesuffix(".ed25519"))


class BeaconNode:
    """A member of a medium: it beacons its feeds, and hears of those that it follows."""

    def __init__(self, context: Context) -> None:
        self.name = context.name
        self.state = context.state
        self._rows = EventRows(context.name, context.state)
        self._events: list[Event] = []
        self._outputs: list[tuple[int, bytes, Address | None]] = []
        workload = context.workload
        self._own = {feed: 0 for feed in workload.feeds if feed.publisher == self.name}
        self._start = context.start
        self._interval = context.parameters["beacon_ms"] * MS
        self._next: int | None = context.start if self._own else None
        self._stop = context.stop
        self._followed: Mapping[bytes, Feed] = {
            key_of(feed): feed for feed in workload.follows.get(self.name, ())
        }
        self._joins: int | None = context.plan.start if context.plan is not None else None
        self._heard: dict[bytes, int] = {}
        self.programs = [
            Program(self, {number: GroupPort(attachment, GROUP, PORT)})
            for number, attachment in enumerate(context.network.attachments)
            if attachment.node == self.name
        ]

    def receive(self, port: int, payload: bytes, sender: Address | None, now: int) -> None:
        """Take in a beacon."""
        if self._joins is not None or len(payload) % _TIP.size:
            return
        for key, tip in _TIP.iter_unpack(payload):
            if key in self._followed:
                name = self._followed[key].key
                for seq in range(self._heard.get(key, 0) + 1, tip + 1):
                    self._events.append(Event(now, "delivered", name, seq))
                self._heard[key] = max(tip, self._heard.get(key, 0))

    def set_link(self, port: int, up: bool, now: int) -> None:
        """There are no links."""

    def take_outputs(self) -> list[tuple[int, bytes, Address | None]]:
        """Return beacons."""
        outputs, self._outputs = self._outputs, []
        return outputs

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        return min((due for due in (self._next, self._joins) if due is not None), default=None)

    def wake(self, now: int) -> None:
        """Join, or publish and beacon."""
        if self._joins is not None and now >= self._joins:
            self._joins = None
            self._events += [Event(now, "joined", feed.key) for feed in self._followed.values()]
        if self._next is not None and now >= self._next:
            self._next += self._interval
            if self._next > self._stop:
                self._next = None
            for feed, published in self._own.items():
                self._own[feed] = feed.published_by(now - self._start)
                for seq in range(published + 1, self._own[feed] + 1):
                    at = self._start + feed.times[seq - 1]
                    size = len(feed.messages[seq - 1].encoded)
                    self._events.append(Event(at, "published", feed.key, seq, size))
            beacon = b"".join(_TIP.pack(key_of(feed), tip) for feed, tip in self._own.items())
            self._outputs += [(number, beacon, None) for program in self.programs for number in program.ports]

    def take_events(self) -> list[dict[str, Any]]:
        """Return rows of events.jsonl."""
        rows = self._rows.of(self._events)
        self._events.clear()
        return rows

    def take_secrets(self) -> list[Secret]:
        """Nothing is secret."""
        return []

    def held(self) -> dict[str, StateSize]:
        """Return what the node holds: nothing for others."""
        return {}

    def counters(self) -> dict[str, Any]:
        """Return how many feeds it has heard of."""
        return {"tips": len(self._heard)}
