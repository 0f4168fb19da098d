"""The role of a node with a Scuttlebutt peer in a run, and its events, independent of the peer's program."""

import hashlib
from collections import deque
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from base.key_log import Secret
from base.timers import earliest
from ssb.application import Event
from ssb.keys import Identity
from ssb.message import Message
from testbed.layerings.nodes.node import Context, EventRows
from testbed.layerings.nodes.workload import Feed


class Publication(NamedTuple):
    """A message to publish, and its time, ns."""

    time: int
    feed: int
    message: Message


class Role:
    """A peer's publications, subscriptions, and calls.

    Args:
        context: see Context; its parameters are those of `ssb`.
        home: the only node whose peer this one calls, for all feeds; None without such.

    Attributes:
        feeds: those that it publishes.
        reported_elsewhere: feed key -> how many of its first items another device reports as published.
        due: remaining publications, in order.
        follows: feed key -> feed, of its subscriptions; none if the time for that is over.
        own: the keys of all feeds that it publishes or subscribes to.
        later: the keys of feeds that it subscribes to when another one has ended in their favour.
        is_everywhere: peers run on all nodes, call their neighbours, and replicate all feeds.
        replicated: the keys of the feeds replicated from the start of its subscription to the stop.
        called: the nodes whose peers it calls.
        stays_connected: it calls at once, and stays when the subscription is over.
        calls_at, joins_at, stops_at: when it calls, subscribes and unsubscribes, ns; None for never, or once
            that is done. The node moves them on.
    """

    def __init__(self, context: Context, home: str | None = None) -> None:
        workload, parameters, network = context.workload, context.parameters, context.network
        since = context.since or 0
        plan = context.plan
        self.feeds = [feed for feed in workload.feeds if feed.publisher == context.name]
        self.reported_elsewhere = {feed.key: 0 for feed in self.feeds}
        branch = workload.branch
        if branch is not None and branch.publisher == context.name:
            self.feeds.append(branch)
            self.reported_elsewhere[branch.key] = workload.common
        followed: Sequence[Feed] = workload.follows.get(context.name, ()) if plan is not None else ()
        is_over = plan is None or (context.since is not None and context.since >= plan.stop)
        self.follows = {} if is_over else {feed.key: feed for feed in followed}
        self.later = set(workload.successors.values())
        self.own = {feed.key for feed in (*self.feeds, *followed)}
        to_come = (
            Publication(context.start + time, number, message)
            for number, feed in enumerate(self.feeds)
            for message, time in zip(feed.messages, feed.times, strict=True)
            if message.sequence > context.state.published[feed.key]
        )
        self.due = deque(sorted(to_come, key=lambda each: (each.time, each.feed, each.message.sequence)))
        self.is_everywhere = parameters.get("connect") == "neighbours"
        self.replicated: list[str] = []
        if self.follows and not self.is_everywhere:
            within = workload.within(context.name, parameters.get("hops", 1))
            self.replicated = [feed.key for feed in within if feed.key not in self.later]
        if home is not None:
            self.called = [home]
        elif self.is_everywhere:
            neighbours = network.neighbours(context.name)
            self.called = sorted(other for other in neighbours if context.name < other)
        else:
            sources = {node for feed in self.follows.values() for node in workload.sources(feed)}
            self.called = sorted(sources - {context.name})
        self.stays_connected = self.is_everywhere or home is not None
        start = max(plan.start, since) if plan is not None else 0
        self.joins_at = start if self.follows else None
        self.stops_at = plan.stop if plan is not None and self.follows else None
        self.calls_at: int | None = None
        if self.called:
            self.calls_at = since if self.stays_connected else start

    def next_deadline(self) -> int | None:
        """Return when the node is to call, subscribe, publish or unsubscribe next, ns."""
        return earliest(self.calls_at, self.joins_at, self.stops_at, self.due[0].time if self.due else None)

    def take_due(self, now: int) -> Iterator[Publication]:
        """Remove the publications whose time has come, one by one."""
        while self.due and self.due[0].time <= now:
            yield self.due.popleft()


class RoleNode:
    """The common part of nodes with a role: their events, and what they do when it is due.

    Attributes: see Node.
    """

    def __init__(self, context: Context, home: str | None = None) -> None:
        super().__init__()
        self.name = context.name
        self.state = context.state
        self._rows = EventRows(context.name, context.state)
        self._events: list[Event] = []
        self._role = Role(context, home)

    def wake(self, now: int) -> None:
        """Join, call, publish and stop when due."""
        role = self._role
        if role.joins_at is not None and now >= role.joins_at:
            role.joins_at = None
            self._note_all(now, "joined")
            self._join(now)
        if role.calls_at is not None and now >= role.calls_at:
            role.calls_at = self._call(now)
        due = [*role.take_due(now)]
        if due:
            self._publish_due(due, now)
        if role.stops_at is not None and now >= role.stops_at:
            role.stops_at = None
            self._note_all(now, "stopped")
            role.follows = {}
            self._leave(now)

    def _join(self, now: int) -> None:
        """Begin to deliver followed feeds."""

    def _call(self, now: int) -> int | None:
        """Call others; return the time of the next calls, ns; None for never."""

    def _publish_due(self, due: Sequence[Publication], now: int) -> None:
        """Publish messages."""

    def _leave(self, now: int) -> None:
        """End the subscriptions."""

    def _note(self, time: int, event: str, message: Message) -> None:
        """Add an event of a message."""
        self._events.append(Event(time, event, message.author, message.sequence, len(message.encoded)))

    def _note_all(self, now: int, event: str, detail: str = "") -> None:
        """Add an event of each followed feed."""
        keys = [key for key in self._role.follows if key not in self._role.later]
        self._events += [Event(now, event, key, detail=detail) for key in keys]

    def take_events(self) -> list[dict[str, Any]]:
        rows = self._rows.of(self._events)
        self._events.clear()
        return rows

    def take_secrets(self) -> list[Secret]:
        """See Node: there are none that are known here."""
        return []


def peer_identity(seed: int, node: str) -> Identity:
    """Return the identity of a node's peer, determined by seed and node."""
    return identity_of(f"peer {seed} {node}")


@lru_cache(1 << 12)
def identity_of(words: str) -> Identity:
    """Return the identity that words determine; cached, as the nodes of a run know each other's."""
    return Identity.from_seed(hashlib.sha256(words.encode()).digest())
