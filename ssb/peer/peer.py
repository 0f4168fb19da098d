"""A Scuttlebutt peer as a program of a node: streams to other peers, and what is replicated over them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count
from random import Random
from typing import Final, NamedTuple

from captures.key_log import Secret
from ssb.canonical import InvalidJson, Value, parse
from ssb.keys import Identity, parse_feed
from ssb.message import InvalidMessage, Message
from ssb.peer.connection import ROOM, Connection
from ssb.peer.scheduler import Scheduler, SchedulerOptions
from ssb.replication import ebt, history
from ssb.replication.ebt import Ebt, RemoteClocks
from ssb.store.feeds import FeedStore
from ssb.transport.calls import Answered, Called, CallEvent, Calls, Finished
from ssb.transport.handshake import MAIN_NETWORK, ClientHandshake, ServerHandshake
from ssb.transport.muxrpc import BodyType, ProtocolError
from ssb.transport.secure_stream import Channel, ChannelError, PlainStream, SecureStream
from topologies.endpoint import (
    Address,
    Close,
    Closed,
    Connect,
    Ended,
    Full,
    Opened,
    Received,
    Send,
    StreamAction,
    StreamEvent,
    Writable,
)

PORT: Final = 8008
"""TCP port of peers, and UDP port of their announcements in a LAN."""

_S = 1_000_000_000
_REPLICATE = ("ebt", "replicate")


class PeerOptions(NamedTuple):
    """How a peer behaves.

    Attributes:
        network: key of the network, 32 bytes.
        encrypts: whether streams are encrypted, as all running peers' are.
        handshake: how long a handshake may take, ns.
        idle: how long a peer may say nothing before its connection is closed, ns.
        without_ebt: how long one that was called waits for `ebt.replicate` before it asks for feeds by
            `createHistoryStream`, ns.
        connections: most connections at once.
        scheduler: see SchedulerOptions.
        replication: see ebt.Limits.
    """

    network: bytes = MAIN_NETWORK
    encrypts: bool = True
    handshake: int = 5 * _S
    idle: int = 600 * _S
    without_ebt: int = 3 * _S
    connections: int = 200
    scheduler: SchedulerOptions = SchedulerOptions()
    replication: ebt.Limits = ebt.DEFAULT_LIMITS


class PeerEvent(NamedTuple):
    """Something that happened.

    Attributes:
        event: "connected", "closed", "refused" (`detail` says why; the connection is closed, too), or
            "stored", a message of another peer's.
        remote: the other peer's reference; "" if it is not known.
        message: that was stored.
    """

    time: int
    event: str
    remote: str = ""
    detail: str = ""
    message: Message | None = None


class Peer:
    """A peer. It is a StreamEndpoint with one StreamPort.

    Args:
        identity: who it is.
        feeds: where its feeds are.
        clocks: where it keeps how far others are.
        wanted: feeds that it replicates from the start.
        options: see PeerOptions.
        random: for keys and pauses; a `random.SystemRandom` where keys are to be secret.
        epoch_ms: the time at 0 ns, in ms since 1970.

    Attributes:
        refused: how often connections were closed for a fault, by reason.
    """

    def __init__(
        self,
        identity: Identity,
        feeds: FeedStore,
        clocks: RemoteClocks,
        wanted: Sequence[str],
        options: PeerOptions,
        random: Random,
        epoch_ms: float = 0.0,
    ) -> None:
        self._identity = identity
        self._feeds = feeds
        self._options = options
        self._random = random
        self._epoch_ms = epoch_ms
        self._ebt = Ebt(feeds, clocks, wanted, options.replication)
        self._scheduler = Scheduler(random, options.scheduler)
        self._numbers = count(1)
        self._connections: dict[int, Connection] = {}
        self._calling: dict[int, str] = {}
        self._replicating: set[int] = set()
        self._actions: list[StreamAction] = []
        self._events: list[PeerEvent] = []
        self._secrets: list[Secret] = []
        self.refused: Counter[str] = Counter()

    # What the application does

    @property
    def replication(self) -> Ebt:
        """The state of replication."""
        return self._ebt

    @property
    def connections(self) -> dict[int, Connection]:
        """All connections, by their numbers."""
        return self._connections

    def add(self, remote: str, address: Address, now: int, *, is_kept: bool = False) -> None:
        """Learn where a peer listens; it is called when its turn comes."""
        if remote != self._identity.ref:
            self._scheduler.add(remote, address, now, is_kept=is_kept)
            self._go_on(now)

    def remove(self, remote: str, now: int) -> None:
        """Forget a peer, and close the connection with it."""
        self._scheduler.remove(remote)
        for connection in list(self._connections.values()):
            if connection.remote == remote:
                self._end(connection, now)
        self._go_on(now)

    def want(self, feed: str, now: int) -> None:
        """Replicate a feed from now on."""
        self._ebt.want(feed, now)
        for connection in self._connections.values():
            if connection.fetches:
                self._fetch(connection, feed)
        self._go_on(now)

    def unwant(self, feed: str, now: int) -> None:
        """Replicate a feed no more."""
        self._ebt.unwant(feed, now)
        for connection in self._connections.values():
            for call in [call for call, fetched in connection.fetches.items() if fetched == feed]:
                connection.calls.end(call)
        self._go_on(now)

    def appended(self, feed: str, now: int) -> None:
        """Pass on what the store has got by other ways: this peer's own messages above all."""
        self._ebt.appended(feed, now)
        self._go_on(now)

    def take_events(self) -> list[PeerEvent]:
        """Return what has happened since the last call."""
        events, self._events = self._events, []
        return events

    def take_secrets(self) -> list[Secret]:
        """Return the secrets of streams that were opened since the last call."""
        secrets, self._secrets = self._secrets, []
        return secrets

    # The endpoint

    def receive(self, port: int, payload: bytes, sender: Address | None, now: int) -> None:
        """See Endpoint."""

    def set_link(self, port: int, up: bool, now: int) -> None:
        """See Endpoint: TCP notices by itself."""

    def take_outputs(self) -> list[tuple[int, bytes, Address | None]]:
        """See Endpoint."""
        return []

    def take_actions(self) -> list[StreamAction]:
        """See StreamEndpoint."""
        actions, self._actions = self._actions, []
        return actions

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        return min((time for time in self._deadlines() if time is not None), default=None)

    def wake(self, now: int) -> None:
        """Give up what takes too long, call whom it is time to call, and send what is due."""
        for connection in list(self._connections.values()):
            if connection.remote is None:
                if now >= connection.since + self._options.handshake:
                    self._refuse(connection, "the handshake takes too long", now)
            elif now >= connection.heard + self._options.idle:
                self._end(connection, now)
            elif self._waits_for_ebt(connection) and now >= connection.since + self._options.without_ebt:
                self._fetch_all(connection)
        self._ebt.wake(now)
        self._go_on(now)

    def on_stream(self, event: StreamEvent, now: int) -> None:
        """See StreamEndpoint."""
        if isinstance(event, Opened):
            self._open(event, now)
        else:
            connection = self._connections.get(event.stream)
            if connection is None:
                self._forget_call(event, now)
            elif isinstance(event, Received):
                self._receive(connection, event.data, now)
            elif isinstance(event, Full | Writable):
                connection.is_full = isinstance(event, Full)
            elif isinstance(event, Ended):
                self._end(connection, now)
            elif isinstance(event, Closed):
                self._drop(connection, now, event.reason)
        self._go_on(now)

    # Connections

    def _call(self, remote: str, address: Address) -> None:
        number = next(self._numbers)
        self._calling[number] = remote
        self._actions.append(Connect(number, address))

    def _forget_call(self, event: StreamEvent, now: int) -> None:
        if isinstance(event, Closed) and event.stream in self._calling:
            self._scheduler.failed(self._calling.pop(event.stream), now)

    def _open(self, event: Opened, now: int) -> None:
        remote = self._calling.pop(event.stream, None)
        if remote is None and len(self._connections) >= self._options.connections:
            self._actions.append(Close(event.stream, abort=True))
            self.refused["too many connections"] += 1
            return
        channel = self._channel(remote)
        connection = Connection(event.stream, remote, now, channel, Calls(), now)
        self._connections[event.stream] = connection

    def _channel(self, remote: str | None) -> Channel:
        identity, network = self._identity, self._options.network
        if not self._options.encrypts:
            return PlainStream(identity.public_key)
        seed = self._random.randbytes(32)
        if remote is None:
            return SecureStream(ServerHandshake(identity, network, seed))
        return SecureStream(ClientHandshake(identity, parse_feed(remote), network, seed))

    def _receive(self, connection: Connection, data: bytes, now: int) -> None:
        connection.heard = now
        was_open = connection.remote is not None
        try:
            plain = connection.channel.receive(data)
            if connection.remote is None:
                return
            if not was_open and not self._greet(connection, now):
                return
            self._handle(connection, connection.calls.receive(plain), now)
        except (ChannelError, ProtocolError, ebt.ProtocolError) as error:
            self._refuse(connection, str(error), now)
        else:
            if connection.channel.has_ended or connection.calls.has_ended:
                self._end(connection, now)

    def _greet(self, connection: Connection, now: int) -> bool:
        """Begin with a peer that has said who it is; return False if there is another connection with it."""
        self._secrets += connection.channel.take_secrets()
        for other in list(self._connections.values()):
            if other is not connection and other.remote == connection.remote:
                loser = self._surplus(other, connection)
                self._end(loser, now)
                if loser is connection:
                    return False
        assert connection.remote is not None
        self._scheduler.connected(connection.remote, now)
        self._events.append(PeerEvent(now, "connected", connection.remote))
        if connection.called is not None:
            connection.has_tried_ebt = True
            arguments: list[Value] = [dict(ebt.REQUEST)]
            self._replicate(connection, connection.calls.call(_REPLICATE, arguments, "duplex"), now)
        return True

    def _surplus(self, older: Connection, newer: Connection) -> Connection:
        """Return which of two connections with one peer is closed.

        The newer one stays, as the older one may be dead. But if both peers have called each other at once,
        both have to decide alike: the call of the peer with the lower key stays.
        """
        if (older.called is None) == (
            newer.called is None
        ) or newer.since > older.since + self._options.handshake:
            return older
        assert newer.remote is not None
        ours = newer if older.called is None else older
        theirs = newer if ours is older else older
        return theirs if self._identity.ref < newer.remote else ours

    def _refuse(self, connection: Connection, reason: str, now: int) -> None:
        """Close a connection for a fault of the other peer's."""
        self.refused[reason] += 1
        self._events.append(PeerEvent(now, "refused", connection.remote or "", reason))
        self._actions.append(Close(connection.number, abort=True))
        self._drop(connection, now, reason)

    def _end(self, connection: Connection, now: int) -> None:
        """Close a connection in good order."""
        if connection.remote is not None:
            connection.calls.goodbye()
        output = connection.take_output()
        connection.channel.end()
        self._actions.append(Send(connection.number, output + connection.channel.take_output()))
        self._actions.append(Close(connection.number))
        self._drop(connection, now)

    def _drop(self, connection: Connection, now: int, fault: str = "") -> None:
        del self._connections[connection.number]
        if connection.number in self._replicating:
            self._replicating.remove(connection.number)
            self._ebt.close(connection.number, now)
        remote = connection.remote
        if remote is None:
            if connection.called is not None:
                self._scheduler.failed(connection.called, now)
            return
        if any(other.remote == remote for other in self._connections.values()):
            return
        if fault:
            self._scheduler.failed(remote, now)
        else:
            self._scheduler.closed(remote, now)
        self._events.append(PeerEvent(now, "closed", remote, fault))

    # Calls

    def _handle(self, connection: Connection, events: Sequence[CallEvent], now: int) -> None:
        bodies: list[bytes] = []
        for event in events:
            if isinstance(event, Answered) and event.call == connection.replication:
                bodies.append(event.body)
                continue
            self._exchange(connection, bodies, now)
            if isinstance(event, Called):
                self._on_call(connection, event, now)
            elif isinstance(event, Answered):
                self._on_answer(connection, event, now)
            else:
                self._on_finish(connection, event, now)
        self._exchange(connection, bodies, now)

    def _exchange(self, connection: Connection, bodies: list[bytes], now: int) -> None:
        """Give the bodies of `ebt.replicate` that have come to it, and empty them."""
        if bodies:
            batch = bodies.copy()
            bodies.clear()
            try:
                self._ebt.receive(connection.number, batch, now, self._now_ms(now))
            finally:
                self._tell_stored(connection, self._ebt.take_stored(), now)

    def _tell_stored(self, connection: Connection, messages: Sequence[Message], now: int) -> None:
        remote = connection.remote
        assert remote is not None
        connection.useful += len(messages)
        self._scheduler.useful(remote, len(messages))
        self._events += [PeerEvent(now, "stored", remote, message=message) for message in messages]

    def _on_call(self, connection: Connection, event: Called, now: int) -> None:
        calls = connection.calls
        if event.name == _REPLICATE and event.form == "duplex":
            options = event.arguments[0] if event.arguments else None
            if connection.replication is not None:
                calls.end(event.call, "there is a call of ebt.replicate on this connection")
            elif not isinstance(options, dict) or options.get("version") != ebt.VERSION:
                calls.end(event.call, "only version 3 is known")
            else:
                self._replicate(connection, event.call, now)
        elif event.name == history.NAME and event.form == "source":
            try:
                connection.sources[event.call] = history.HistorySource(self._feeds, event.arguments)
            except history.InvalidRequest as error:
                calls.end(event.call, str(error))
        elif event.name == ("gossip", "ping") and event.form == "duplex":
            connection.pings.add(event.call)
        elif event.name == ("whoami",) and event.form == "async":
            calls.answer(event.call, {"id": self._identity.ref})
        else:
            calls.end(event.call, f"method:{','.join(event.name)} is not in list of allowed methods")

    def _on_answer(self, connection: Connection, event: Answered, now: int) -> None:
        if event.call in connection.fetches:
            self._store_fetched(connection, event.body, now)
        elif event.call in connection.pings:
            connection.calls.answer(event.call, int(self._now_ms(now)))

    def _on_finish(self, connection: Connection, event: Finished, now: int) -> None:
        connection.calls.end(event.call)
        connection.sources.pop(event.call, None)
        connection.fetches.pop(event.call, None)
        connection.pings.discard(event.call)
        if event.call == connection.replication:
            connection.replication = None
            self._replicating.remove(connection.number)
            self._ebt.close(connection.number, now)
            if event.error:
                self._fetch_all(connection)

    def _replicate(self, connection: Connection, call: int, now: int) -> None:
        remote = connection.remote
        assert remote is not None
        connection.replication = call
        self._replicating.add(connection.number)
        self._ebt.open(connection.number, remote, is_caller=call > 0, now=now)

    # Feeds by createHistoryStream

    def _waits_for_ebt(self, connection: Connection) -> bool:
        return connection.replication is None and not connection.has_tried_ebt

    def _fetch_all(self, connection: Connection) -> None:
        connection.has_tried_ebt = True
        for feed in self._ebt.wanted:
            self._fetch(connection, feed)

    def _fetch(self, connection: Connection, feed: str) -> None:
        if feed != self._identity.ref:
            arguments = history.request(feed, self._feeds.tips().get(feed, 0))
            connection.fetches[connection.calls.call(history.NAME, arguments, "source")] = feed

    def _store_fetched(self, connection: Connection, body: bytes, now: int) -> None:
        try:
            message = Message.from_value(parse(body.decode()))
        except (InvalidJson, InvalidMessage, UnicodeDecodeError) as error:
            raise ProtocolError(f"a message that is none: {error}") from None
        if message.author not in self._ebt.wanted:
            return
        appended = self._feeds.append([message], self._now_ms(now))
        for refusal in appended.refused.values():
            raise ProtocolError(f"a message that is refused: {refusal}")
        if appended.stored:
            self._ebt.appended(message.author, now)
            self._tell_stored(connection, [message], now)

    # Sending and waking

    def _go_on(self, now: int) -> None:
        """Call, leave and send."""
        for remote, address in self._scheduler.calls(now):
            self._call(remote, address)
        leaving = self._scheduler.leaves(now)
        if leaving is not None:
            for connection in list(self._connections.values()):
                if connection.remote == leaving:
                    self._end(connection, now)
        for connection in self._connections.values():
            self._fill(connection, now)
            output = connection.take_output()
            if output:
                self._actions.append(Send(connection.number, output))

    def _fill(self, connection: Connection, now: int) -> None:
        """Give a connection what is to be sent on it, as much as it takes for now."""
        if connection.is_full:
            return
        calls = connection.calls
        call = connection.replication
        if call is not None and self._ebt.has_output(connection.number, now):
            for body in self._ebt.take_output(connection.number, ROOM, now):
                calls.send(call, body)
        for call, source in list(connection.sources.items()):
            for body in source.take_output(ROOM // len(connection.sources)):
                calls.send(call, body, BodyType.JSON)
            if source.is_over:
                calls.end(call)
                del connection.sources[call]

    def _deadlines(self) -> Iterator[int | None]:
        yield self._ebt.next_deadline()
        for connection in self._connections.values():
            if connection.remote is None:
                yield connection.since + self._options.handshake
            else:
                yield connection.heard + self._options.idle
                if self._waits_for_ebt(connection):
                    yield connection.since + self._options.without_ebt
        yield self._scheduler.next_deadline()

    def _now_ms(self, now: int) -> float:
        return self._epoch_ms + now // 1_000_000
