"""Feeds by a broker: publishers and subscribers connect to one node, by MQTT over TCP."""

import os
import shutil
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Literal

from pydantic import Field

from base.endpoint import Program, StreamAction, StreamEvent, StreamPort
from base.passive import PassiveEndpoint
from base.timers import earliest
from ssb.message import ForkedFeed, InvalidMessage, Message
from ssb.mqtt.broker import PORT, Broker
from ssb.mqtt.client import Client
from ssb.mqtt.topics import split_topic, topic_of
from ssb.store.memory import MemoryFeeds
from ssb.work import WORK
from testbed.errors import UserError
from testbed.layerings.nodes.node import (
    MOSQUITTO,
    Context,
    Node,
    Parameters,
    Process,
    SimpleLayering,
    StateSize,
    middle_of,
)
from testbed.layerings.nodes.peer_role import Publication, RoleNode
from testbed.layerings.nodes.titles import title
from testbed.layerings.nodes.workload import Feature
from topologies.model import Topology

_MOST_EARLY: Final = 1 << 16
"""Messages that may wait for earlier ones: a broker sends retained ones in any order."""
STREAM_BYTES: Final = 40
"""State of an end of a stream: TCP's."""


class BrokerParameters(Parameters):
    """Parameters of `broker`."""

    at: str | None = None
    """The node where the broker is, which neither publishes nor follows. Default: the first with most
    links."""
    program: Literal["feednet", "mosquitto"] = "feednet"
    """The broker's program: feednet's, or Debian's mosquitto, in Mininet only."""
    inflight: int = Field(default=20, ge=0, le=65_535)
    """Messages that may be under way on a connection and not acknowledged, in either direction, as mosquitto
    and its clients have it. 0: any number."""


class ClientNode(RoleNode, PassiveEndpoint):
    """A node, a StreamEndpoint, whose client publishes and follows feeds.

    Args:
        context: see Context.
        broker: the node of the broker.

    Attributes: see Node.
    """

    def __init__(self, context: Context, broker: str) -> None:
        super().__init__(context, broker)
        role, state = self._role, context.state
        self._store = MemoryFeeds()
        for feed in (*role.feeds, *role.follows.values()):
            here = max(state.published[feed.key], state.delivered[feed.key])
            self._store.append(feed.messages[:here], 0.0)
        self._early: dict[str, dict[int, Message]] = {key: {} for key in role.follows}
        self._forked: set[str] = set()
        self._rejected = 0
        address = context.network.address(broker), PORT
        self._client = Client(context.name, address, context.parameters["inflight"])
        if not role.feeds and not role.follows:
            role.calls_at = None
        self.programs = [Program(self, {1: StreamPort(PORT)})]

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        return earliest(self._client.next_deadline(), self._role.next_deadline())

    def wake(self, now: int) -> None:
        super().wake(now)
        self._client.wake(now)

    def _call(self, now: int) -> int | None:
        self._client.open(now)
        return None

    def _join(self, now: int) -> None:
        self._client.subscribe([topic_of(key, "+") for key in self._role.follows], now)

    def _publish_due(self, due: Sequence[Publication], now: int) -> None:
        WORK.sign += len(due)  # they were signed before the run
        for each in due:
            message = each.message
            self._note(now, "published", message)
            self._client.publish(topic_of(message.author, message.sequence), message.encoded, now)

    def _leave(self, now: int) -> None:
        if not self._role.due and not self._client.waiting:
            self._client.close()

    def on_stream(self, event: StreamEvent, now: int) -> None:
        self._client.on_stream(event, now)
        received, self._client.received = self._client.received, []
        for topic, payload in received:
            found = split_topic(topic)
            if found is not None and found[0] in self._role.follows:
                self._take_in(*found, payload, now)

    def _take_in(self, feed: str, sequence: int, text: bytes, now: int) -> None:
        """Keep a message until those before it are there, and deliver what comes next.

        Any client can publish under a feed's topic: what is no valid message of that feed and number is
        dropped.
        """
        early = self._early[feed]
        tip = self._store.tips().get(feed, 0)
        if tip < sequence <= tip + _MOST_EARLY and feed not in self._forked:
            try:
                early[sequence] = Message.from_text(text)
            except InvalidMessage:
                self._rejected += 1
        while (message := early.pop(tip + 1, None)) is not None:
            is_next = (message.author, message.sequence) == (feed, tip + 1)
            error = self._store.append([message], 0.0).refused.get(feed) if is_next else None
            if isinstance(error, ForkedFeed):
                self._forked.add(feed)
                early.clear()
                self._note_all(now, "error", str(error))
                return
            if error is not None or not is_next:
                self._rejected += 1
                return
            tip += 1
            self._note(now, "delivered", message)

    def take_actions(self) -> list[StreamAction]:
        actions, self._client.actions = self._client.actions, []
        return actions

    def held(self) -> dict[str, StateSize]:
        """Return the node's state: its connection, and messages that wait for the broker."""
        streams = int(bool(self._role.feeds or self._role.follows))
        return {
            "connections": StateSize(streams, STREAM_BYTES * streams),
            "exchanges": StateSize(self._client.waiting, 2 * self._client.waiting),
            "messages": StateSize(0, 0),
        }

    def counters(self) -> dict[str, Any]:
        """Return what came under feeds' topics and is none of their messages."""
        return {"rejected": self._rejected}


class BrokerNode(RoleNode, PassiveEndpoint):
    """The node of the broker, a StreamEndpoint; another program may be it.

    Attributes: see Node.
    """

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._broker = Broker(context.parameters["inflight"])
        is_ours = context.parameters["program"] == "feednet"
        self.programs = [Program(self, {1: StreamPort(PORT)})] if is_ours else []

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        return self._broker.next_deadline()

    def wake(self, now: int) -> None:
        self._broker.wake(now)

    def on_stream(self, event: StreamEvent, now: int) -> None:
        self._broker.on_stream(event, now)

    def take_actions(self) -> list[StreamAction]:
        actions, self._broker.actions = self._broker.actions, []
        return actions

    def held(self) -> dict[str, StateSize]:
        """Return the broker's state: connections, subscriptions with what is not acknowledged, messages."""
        broker = self._broker
        return {
            "connections": StateSize(broker.streams, STREAM_BYTES * broker.streams),
            "exchanges": StateSize(*broker.state()),
            "messages": StateSize(len(broker.retained), broker.retained_bytes),
        }

    def counters(self) -> dict[str, Any]:
        """Return the clients that were turned away."""
        return {"refused": self._broker.counters.total()}


def processes(
    network: Topology, node: str, ends: Collection[str], parameters: Mapping[str, Any]
) -> list[Process]:
    """Return the programs of a node besides its own: mosquitto, if the broker there is that."""
    if parameters["program"] != MOSQUITTO or node != middle_of("broker", network, ends, parameters["at"]):
        return []
    address, inflight = network.address(node), parameters["inflight"]
    said = ("persistence false", "max_queued_messages 0", f"max_inflight_messages {inflight}")
    config = "\n".join((f"listener {PORT} {address}", "allow_anonymous true", *said, ""))
    return [Process((mosquitto(), "-c", "mosquitto.conf"), {"mosquitto.conf": config}, (address, PORT))]


def mosquitto() -> str:
    """Return the path of mosquitto; raise UserError if there is none on this machine."""
    found = shutil.which(MOSQUITTO, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if found is None:
        raise UserError("mosquitto is not here; on Debian and Ubuntu: apt install mosquitto")
    return found


def _node(context: Context) -> Node:
    ends = context.workload.publishers | context.workload.follows.keys()
    at = middle_of("broker", context.network, ends, context.parameters["at"])
    return BrokerNode(context) if context.name == at else ClientNode(context, at)


_FEATURES: Final = frozenset({Feature.MEDIUM, Feature.FOLLOWING, Feature.EXPORT})
BROKER: Final = SimpleLayering(title("broker"), BrokerParameters, _node, "mqtt", _FEATURES)
"""Layering `broker`."""
