"""A stock Scuttlebutt peer as a node of a run: `ssb-server` of npm, unmodified, with its own sockets.

The node's own program controls it only by calls at its port, as its owner. Others see no difference between a
stock peer and one of feednet's.
"""

import json
import shutil
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final

from base.endpoint import (
    Address,
    Close,
    Closed,
    Connect,
    Ended,
    Opened,
    Program,
    Received,
    Send,
    StreamAction,
    StreamEvent,
)
from base.passive import PassiveEndpoint
from base.timers import earliest
from ssb import key_file
from ssb.application import Event
from ssb.canonical import InvalidJson, parse
from ssb.keys import Identity
from ssb.message import InvalidMessage, Message
from ssb.peer.options import PORT
from ssb.transport.address import PeerAddress
from ssb.transport.calls import Answered, Calls, Finished
from ssb.transport.handshake import MAIN_NETWORK, ClientHandshake
from ssb.transport.muxrpc import ProtocolError
from ssb.transport.secure_stream import ChannelError, SecureStream
from testbed.errors import UserError
from testbed.layerings.nodes.node import SSB_SERVER, Context, Process, StateSize
from testbed.layerings.nodes.peer_role import Publication, RoleNode, peer_identity
from topologies.model import Topology

INSTALL: Final = "npm install -g ssb-server@16.0.1 ssb-db2@8.1.0"
"""Version 16 needs the undeclared dependency ssb-db2."""

_AGAIN = 1_000_000_000


def check() -> None:
    """Raise UserError if there is no stock peer on this machine."""
    if shutil.which("node") is None or shutil.which(SSB_SERVER) is None:
        raise UserError(f"{SSB_SERVER} is not on PATH, or Node.js is not; install it with: {INSTALL}")


def process(network: Topology, seed: int, node: str) -> Process:
    """Return the program of a node: `ssb-server start`, with the identity known to others."""
    address = network.address(node)
    program = shutil.which(SSB_SERVER) or SSB_SERVER
    options = {"host": address, "port": PORT, "local": "false", "timers.inactivity": -1}
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    return Process(
        argv=(program, "start", "--", "--path", ".", *words),
        files={
            "secret": key_file.text_of(peer_identity(seed, node)),
            "config": json.dumps({"host": address, "port": PORT}),  # for clients, which read it in ~/.ssb
        },
        ready=(address, PORT),
    )


class StockNode(RoleNode, PassiveEndpoint):
    """A node with a stock peer, a StreamEndpoint: publishes and follows by calls to it.

    A message counts as published when the peer is asked to add it, and as delivered when it appears in the
    peer's log, which is read live.

    Attributes: see Node.
    """

    def __init__(self, context: Context, home: str | None = None) -> None:
        super().__init__(context, home)
        role = self._role
        self._identity = peer_identity(context.seed, context.name)
        self._random = Random(f"{context.seed} {context.layering} {context.name} {context.since} stock")
        self._address = (context.network.address(context.name), PORT)
        self._friends = [
            PeerAddress(context.network.address(other), PORT, peer_identity(context.seed, other).ref)
            for other in role.called
        ]
        self._peer = _Owner(self._identity, self._address, self._random, context.since or 0)
        self._log: list[Message] = []  # unreported messages
        self._seen: Counter[str] = Counter()
        for feed in role.feeds:
            self._request(feed.key)
        self.programs = [Program(self, {})]

    # The endpoint

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        return earliest(self._peer.next_deadline(), self._role.next_deadline())

    def wake(self, now: int) -> None:
        super().wake(now)
        self._peer.wake(now)

    def _join(self, now: int) -> None:
        self._deliver(now)
        for key in self._role.replicated:
            self._request(key)

    def _call(self, now: int) -> int:
        for friend in self._friends:
            self._peer.call(("gossip", "connect"), str(friend))
        return now + _AGAIN  # existing connections stay

    def _publish_due(self, due: Sequence[Publication], now: int) -> None:
        for _, _, message in due:
            self._peer.call(("add",), parse(message.text))
            self._note(now, "published", message)

    def _leave(self, now: int) -> None:
        for key in self._role.replicated:
            self._peer.call(("replicate", "request"), key, False)

    def on_stream(self, event: StreamEvent, now: int) -> None:
        for message in self._peer.on_stream(event, now):
            if message.sequence > self._seen[message.author]:  # a log that is read anew begins at its start
                self._seen[message.author] = message.sequence
                self._log.append(message)
        if self._role.joins_at is None:
            self._deliver(now)

    def take_actions(self) -> list[StreamAction]:
        return self._peer.take_actions()

    # The node

    def take_events(self) -> list[dict[str, Any]]:
        self._events += self._peer.take_troubles(self._role.follows)
        return super().take_events()

    def held(self) -> dict[str, StateSize]:
        """Return nothing: a stock peer's state is invisible."""
        return {}

    def counters(self) -> dict[str, Any]:
        """Return the number of calls refused by the peer."""
        return {"refused": self._peer.refused}

    def _deliver(self, now: int) -> None:
        """Report deliveries of followed feeds."""
        for message in self._log:
            if message.author in self._role.follows:
                self._note(now, "delivered", message)
        self._log.clear()

    def _request(self, feed: str) -> None:
        self._peer.call(("replicate", "request"), feed, True)


class _Owner:
    """The owner's connection to a stock peer: calls, and its growing log.

    Calls made before it is up wait. A lost connection is made anew, and unanswered calls are repeated.

    Attributes:
        refused: calls that were answered with an error; those to connect do not count.
    """

    def __init__(self, identity: Identity, address: Address, random: Random, now: int) -> None:
        self._identity = identity
        self._address = address
        self._random = random
        self._stream = 0
        self._channel: SecureStream | None = None
        self._calls = Calls()
        self._log: int | None = None
        self._waiting: deque[tuple[tuple[str, ...], tuple[Any, ...]]] = deque()
        self._unanswered: dict[int, tuple[tuple[str, ...], tuple[Any, ...]]] = {}
        self._connects_at: int | None = now
        self._actions: list[StreamAction] = []
        self._troubles: list[tuple[int, str]] = []
        self.refused = 0

    def call(self, name: tuple[str, ...], *arguments: Any) -> None:
        """Make a call."""
        self._waiting.append((name, arguments))
        self._send()

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        return self._connects_at

    def wake(self, now: int) -> None:
        """Connect."""
        if self._connects_at is not None and now >= self._connects_at:
            self._connects_at = None
            self._stream += 1
            self._actions.append(Connect(self._stream, self._address))

    def on_stream(self, event: StreamEvent, now: int) -> list[Message]:
        """Return new messages in the peer's log."""
        messages: list[Message] = []
        if isinstance(event, Opened):
            own, seed = self._identity, self._random.randbytes(32)
            handshake = ClientHandshake(own, own.public_key, MAIN_NETWORK, seed)
            self._channel = SecureStream(handshake)
            self._calls = Calls()
            self._log = None
        elif isinstance(event, Received) and self._channel is not None:
            try:
                plain = self._channel.receive(event.data)
                if self._channel.remote and self._log is None:
                    self._log = self._calls.call(("createLogStream",), [{"live": True}], "source")
                messages = self._read(plain, now)
            except (ChannelError, ProtocolError, InvalidJson, InvalidMessage) as error:
                self._troubles.append((now, str(error)))
                self._actions.append(Close(event.stream, abort=True))
                self._reconnect(now)
        elif isinstance(event, Closed | Ended):
            self._reconnect(now)
        self._send()
        return messages

    def take_actions(self) -> list[StreamAction]:
        """See StreamEndpoint."""
        actions, self._actions = self._actions, []
        return actions

    def take_troubles(self, feeds: Mapping[str, Any]) -> list[Event]:
        """Return the problems since the last call, as errors of feeds."""
        troubles, self._troubles = self._troubles, []
        return [Event(time, "error", feed, detail=detail) for time, detail in troubles for feed in feeds]

    def _read(self, plain: bytes, now: int) -> list[Message]:
        messages = []
        for event in self._calls.receive(plain):
            if isinstance(event, Answered) and event.call == self._log:
                entry = parse(event.body.decode())
                if isinstance(entry, dict) and "value" in entry:  # else {"sync": true}
                    messages.append(Message.from_value(entry["value"]))
            elif isinstance(event, Answered | Finished):
                made = self._unanswered.pop(event.call, None)
                if isinstance(event, Finished) and event.error and made and made[0][0] != "gossip":
                    self.refused += 1
                    self._troubles.append((now, f"{'.'.join(made[0])}: {event.error}"))
        return messages

    def _send(self) -> None:
        if self._channel is None:
            return
        if self._log is not None:
            while self._waiting:
                name, arguments = self._waiting.popleft()
                self._unanswered[self._calls.call(name, arguments, "async")] = name, arguments
            self._channel.send(self._calls.take_output())
        output = self._channel.take_output()
        if output:
            self._actions.append(Send(self._stream, output))

    def _reconnect(self, now: int) -> None:
        self._channel = self._log = None
        self._waiting.extendleft(reversed(self._unanswered.values()))
        self._unanswered.clear()
        self._connects_at = now + _AGAIN // 10
