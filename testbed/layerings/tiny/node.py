"""A node that carries feeds by tinySSB, in packets of 120 bytes, by multicast on each of its links and media.

A message of the workload is an entry whose content is the message's own, in BIPF: a classic message's author,
sequence, time and signature are replaced by tinySSB's, or dropped. So items are smaller than in other
layerings, and events have their size here.

The store survives a restart: it is the node's disk.
"""

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from random import Random
from typing import Any, Final

from pydantic import Field

from base.endpoint import Address, GroupPort, Port, Program
from base.timers import earliest
from base.units import MS
from ssb.application import Event
from ssb.bipf import encode
from ssb.ending import end_content, end_of
from ssb.keys import Identity
from ssb.message import Message
from ssb.tiny.entry import PACKET
from ssb.tiny.node import GROUP, PORT
from ssb.tiny.node import Node as TinySsb
from ssb.tiny.requests import Timing
from ssb.tiny.store import TinyStore
from testbed.errors import UserError
from testbed.layerings.nodes.node import Context, Parameters, StateSize
from testbed.layerings.nodes.peer_role import Publication, RoleNode, identity_of
from testbed.layerings.nodes.workload import Feature, Feed

TINY_FEATURES: Final = frozenset({Feature.MEDIUM, Feature.RADIO, Feature.FOLLOWING})
"""What layerings of tinySSB carry besides feeds."""
FEED_BYTES = 32 + 4 + 20
"""State of a feed: its key, the number and the id of its last entry."""


class TinyParameters(Parameters):
    """Parameters of tinySSB. The defaults are for links and wired media; radio cells need longer times."""

    round_ms: int = Field(default=5000, ge=10, le=86_400_000)
    """Time between two vectors of a set, while nothing is known to be missing."""
    claims_ms: int = Field(default=10_000, ge=10, le=86_400_000)
    """Time between two claims of an open set."""
    retry_ms: int = Field(default=500, ge=1, le=86_400_000)
    """Time until something that is known to be missing is asked for again; it doubles up to `round_ms`."""
    pause_ms: int = Field(default=20, ge=1, le=86_400_000)
    """Silence after which an answer counts as over."""
    spread_ms: int = Field(default=5, ge=0, le=86_400_000)
    """Longest random wait before an answer, so that one of those who know it gives it."""
    gap_ms: int = Field(default=0, ge=0, le=86_400_000)
    """Least time between two packets of a node."""


def timing_of(parameters: Mapping[str, Any]) -> Timing:
    """Return the timing of the parameters."""
    names = ("round", "claims", "retry", "pause", "spread", "gap")
    return Timing(**{name: parameters[f"{name}_ms"] * MS for name in names})


def ports_of(context: Context) -> dict[int, Port]:
    """Return a node's ports: tinySSB's group on each of its interfaces."""
    own = context.network.interfaces_of(context.name)
    return {number: GroupPort(each, GROUP, PORT) for number, each in enumerate(own, start=1)}


def author_of(seed: int, feed: Feed) -> Identity:
    """Return the author of a workload's feed in tinySSB, determined by the seed."""
    return identity_of(f"tiny {seed} {feed.key}")


def content_of(message: Message) -> bytes:
    """Return the content of the entry that carries a message. Raises UserError if BIPF cannot hold it."""
    content = message.content
    try:
        return encode(content if isinstance(content, dict) else str(content))
    except ValueError as error:
        raise UserError(f"{message.author} {message.sequence}: {error}") from None


class BaseTinyNode(RoleNode):
    """Common parts of nodes that carry feeds by tinySSB: the role in the run, the store, the events.

    Attributes: see Node.
    """

    def __init__(self, context: Context, *, is_server: bool = True) -> None:
        super().__init__(context)
        self._context = context
        self._role.calls_at = None  # there are no calls
        self._authors = {author_of(context.seed, feed).public_key: feed for feed in context.workload.feeds}
        self._published = Counter(context.state.published)
        self._delivered = Counter(context.state.delivered)
        self._store = TinyStore(context.state.store)
        ports = ports_of(context)
        seed = f"{context.seed} {context.layering} {context.name} {context.since}"
        self._node = TinySsb(
            self._store,
            Random(hashlib.sha256(seed.encode()).digest()),
            timing_of(context.parameters),
            ports=ports,
            is_server=is_server,
        )
        self.programs = [Program(self, ports)]

    # Endpoint

    def receive(self, port: int, payload: bytes, sender: Address | None, now: int) -> None:
        self._node.receive(port, payload, sender, now)

    def set_link(self, port: int, up: bool, now: int) -> None:
        """See Endpoint: a node does not know its receivers."""

    def take_outputs(self) -> list[tuple[int, bytes, Address | None]]:
        return self._node.take_outputs()

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        return earliest(self._node.next_deadline(), self._role.next_deadline())

    def wake(self, now: int) -> None:
        super().wake(now)
        self._node.wake(now)

    def _content_of(self, message: Message) -> bytes:
        """Return the content of the entry that carries a message; an end names feeds of tinySSB."""
        end = end_of(message.author, message.sequence, message.content)
        if end is None:
            return content_of(message)
        feeds = {feed.key: author_of(self._context.seed, feed) for feed in self._context.workload.feeds}
        heir = None if end.successor is None else feeds[end.successor]
        return encode(end_content(feeds[message.author].ref, heir))

    def _publish_due(self, due: Sequence[Publication], now: int) -> None:
        for _, number, message in due:
            feed = self._role.feeds[number]
            content = self._content_of(message)
            self._published[feed.key] = message.sequence
            self._events.append(Event(now, "published", feed.key, message.sequence, len(content)))
            self._publish(feed, message.sequence, content, now)

    def _publish(self, feed: Feed, sequence: int, content: bytes, now: int) -> None:
        """Send an item of a feed."""

    def _takes(self, feed: Feed) -> bool:
        """Whether a feed's items are delivered now."""
        role = self._role
        return role.joins_at is None and feed.key in role.follows and feed.key not in role.later

    def _deliver(self, feed: Feed, sequence: int, content: bytes, now: int) -> bool:
        """Deliver an item; return whether it is the next one of a followed feed."""
        if not self._takes(feed) or sequence != self._delivered[feed.key] + 1:
            return False
        self._delivered[feed.key] = sequence
        if sequence > len(feed.messages) or content != self._content_of(feed.messages[sequence - 1]):
            self._events.append(Event(now, "error", feed.key, sequence, detail="another content"))
        else:
            self._events.append(Event(now, "delivered", feed.key, sequence, len(content)))
        return True

    # Node

    def held(self) -> dict[str, StateSize]:
        """Return the node's state: feeds, and packets of feeds not its applications' own."""
        own = self._own_feeds
        packets = (self._store.size() - self._store.size(own)) // PACKET
        feeds = len(self._store.feeds)
        return {
            "feeds": StateSize(feeds, FEED_BYTES * feeds),
            "packets": StateSize(packets, PACKET * packets),
        }

    @cached_property
    def _own_feeds(self) -> Collection[bytes]:
        """Return the stored feeds that the node's applications publish or follow."""
        return [key for key, feed in self._authors.items() if feed.key in self._role.own]

    def counters(self) -> dict[str, Any]:
        """Return sent packets by kind, dropped ones, and the bytes of all stored packets."""
        node = self._node
        kinds = ("entry", "chunk", "want", "chunk vector", "novelty", "claim")
        return {
            **{f"sent_{kind.replace(' ', '_')}": node.sent[kind] for kind in kinds},
            "taken": node.taken.total(),
            "dropped": node.dropped.total(),
            "stored_bytes": self._store.size(),
        }
