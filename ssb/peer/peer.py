"""A Scuttlebutt peer as a program of a node: streams to other peers, and what is replicated over them.

A connection is whole or gone. What fails while something is done for it, such as a store on a full disk,
closes it, and does nothing to others; and closing cannot fail.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from random import Random
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from base.endpoint import (
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
    StreamEndpoint,
    StreamEvent,
    Writable,
)
from base.key_log import Secret
from base.timers import Timers
from base.units import SECOND
from ssb.keys import Identity, feed_ref, parse_feed
from ssb.message import ForkedFeed, InvalidMessage, Message
from ssb.peer.connection import Connection
from ssb.peer.door import OPEN_DOOR, Door
from ssb.peer.places import Places
from ssb.peer.scheduler import Scheduler, SchedulerOptions, Unreached
from ssb.peer.services import Answer, ServiceError, Services
from ssb.replication import ebt
from ssb.replication.blobs import Blobs
from ssb.replication.ebt import Ebt, RemoteClocks
from ssb.replication.replication import Replication
from ssb.store.feeds import FeedStore, StoreError
from ssb.transport.address import InvalidAddress, PeerAddress, parse_address
from ssb.transport.calls import Calls
from ssb.transport.handshake import MAIN_NETWORK, ClientHandshake, ServerHandshake
from ssb.transport.muxrpc import ProtocolError
from ssb.transport.secure_stream import Channel, ChannelError, PlainStream, SecureStream

PORT: Final = 8008
"""TCP port of peers, and UDP port of their announcements in a local network (npm's ssb-lan)."""
BROADCAST: Final = "255.255.255.255"
"""The group of announcements."""

_VARIABLE = re.compile(r"[@%&][A-Za-z0-9+/]{43}=\.\w+|\d+")  # reasons are counted without names and numbers


class PeerOptions(NamedTuple):
    """How a peer behaves.

    Attributes:
        network: key of the network, 32 bytes.
        encrypts: whether streams are encrypted, as all running peers' are.
        handshake: how long a handshake may take, ns.
        idle: how long a peer may say nothing before its connection is closed, ns.
        without_ebt: how long one that was called waits for `ebt.replicate` before it asks for feeds by
            `createHistoryStream`, ns.
        connections: most connections at once with peers that have proved who they are: see Places.
        handshakes: most handshakes at once with those who call.
        announce: between announcements to the media that it has ports for, ns.
        scheduler: see SchedulerOptions.
        replication: see ebt.Limits.
    """

    network: bytes = MAIN_NETWORK
    encrypts: bool = True
    handshake: int = 5 * SECOND
    idle: int = 600 * SECOND
    without_ebt: int = 3 * SECOND
    connections: int = 200
    handshakes: int = 200
    announce: int = 1 * SECOND
    scheduler: SchedulerOptions = SchedulerOptions()
    replication: ebt.Limits = ebt.DEFAULT_LIMITS


class PeerEvent(NamedTuple):
    """Something that happened.

    Attributes:
        event: "connected", "closed", "refused" (`detail` says why; the connection is closed, too),
            "not reached" (a call came to nothing, and `detail` says why), "stored", a message that another
            peer has brought or that was appended, or "answered": what a peer has said that was asked for a
            feed.
        remote: the other peer's reference; "" if it is not known, or there is none.
        message: that was stored.
        answer: that was given.
    """

    time: int
    event: str
    remote: str = ""
    detail: str = ""
    message: Message | None = None
    answer: Answer | None = None


class PeerProgram(StreamEndpoint, Protocol):
    """A peer, or a program around one that stands in its place."""

    def take_events(self) -> list[PeerEvent]:
        """Return what has happened since the last call."""
        ...


_OTHER_NETWORK = "it closes the stream without a word: it is no peer of this network"
_OTHER_PEER = (
    "it does not take this peer's proof: it has another key than the address says, or keeps this peer out"
)


class Peer:
    """A peer. It is a StreamEndpoint with one StreamPort, and a GroupPort for each medium to be announced on.

    Args:
        identity: who it is.
        feeds: where its feeds are.
        clocks: where it keeps how far others are.
        wanted: feeds that it replicates from the start.
        options: see PeerOptions.
        random: for keys and pauses; a `random.SystemRandom` where keys are to be secret.
        epoch_ms: the time at 0 ns, in ms since 1970.
        blobs: its blobs; without them, it handles none.
        door: whom it lets in.
        announcements: what it announces on each of its ports for media.
        replication: another protocol than EBT, by which it replicates; `clocks` and `wanted` are for EBT.

    Attributes:
        refused: how often connections were closed for a fault of the other's, or for want of room, by reason.
        troubles: how often they were closed for a fault of this peer's own, by reason.
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
        blobs: Blobs | None = None,
        door: Door = OPEN_DOOR,
        announcements: Mapping[int, PeerAddress] = MappingProxyType({}),
        replication: Replication | None = None,
    ) -> None:
        self._identity = identity
        self._feeds = feeds
        self._options = options
        self._random = random
        self._epoch_ms = epoch_ms
        self._replication: Replication = replication or Ebt(feeds, clocks, wanted, options.replication)
        self._door = door
        self._blobs = blobs
        self._services = Services(identity.ref, feeds, self._replication, blobs, door)
        self._scheduler = Scheduler(random, options.scheduler)
        self._announcements = {port: str(address).encode() for port, address in announcements.items()}
        self._announces_at: int | None = 0 if announcements else None
        self._outputs: list[tuple[int, bytes, Address | None]] = []
        self._numbers = count(1)
        self._connections: dict[int, Connection] = {}
        self._timers = Timers[int]()  # of connections
        self._stirred: dict[
            int, None
        ] = {}  # connections that may have something to be sent, or new deadlines
        self._calling: dict[int, str] = {}
        self._places = Places(door, options.connections, options.handshakes)
        self._actions: list[StreamAction] = []
        self._events: list[PeerEvent] = []
        self._secrets: list[Secret] = []
        self.refused: Counter[str] = Counter()
        self.troubles: Counter[str] = Counter()

    # What the application does

    @property
    def replication(self) -> Ebt:
        """The state of replication by EBT."""
        assert isinstance(self._replication, Ebt)
        return self._replication

    def exchanges(self) -> int:
        """Return the number of feeds of which there is state, over all connections."""
        return self._replication.exchanges()

    @property
    def connections(self) -> dict[int, Connection]:
        """All connections, by their numbers."""
        return self._connections

    @property
    def called(self) -> set[str]:
        """The peers that it has called, or is calling now."""
        under_way = {connection.called for connection in self._connections.values() if connection.called}
        return under_way.union(self._calling.values())

    @property
    def unreached(self) -> dict[str, Unreached]:
        """The peers that it calls in vain, and why."""
        return self._scheduler.unreached()

    def add(self, remote: str, address: Address, now: int, *, is_kept: bool = False) -> None:
        """Learn where a peer listens; it is called when its turn comes, unless the door does not admit it."""
        if remote != self._identity.ref and self._door.admits(remote):
            self._scheduler.add(remote, address, now, is_kept=is_kept)
            self._go_on(now)

    def remove(self, remote: str, now: int) -> None:
        """Forget a peer, and close the connection that does what it would be called for."""
        self._scheduler.remove(remote)
        for connection in list(self._connections.values()):
            if connection.remote == remote and self._is_ours(connection):
                self._end(connection, now)
        self._go_on(now)

    def want(self, feed: str, now: int) -> None:
        """Replicate a feed from now on."""
        self.want_all((feed,), now)

    def want_all(self, feeds: Collection[str], now: int) -> None:
        """Replicate feeds from now on."""
        self._replication.want_all(feeds, now)
        for connection in self._connections.values():
            if connection.asks_by_history:
                self._stir(connection)
                for feed in feeds:
                    self._services.fetch(connection, feed)
        self._go_on(now)

    def unwant(self, feed: str, now: int) -> None:
        """Replicate a feed no more: see Ebt.unwant()."""
        self._replication.unwant(feed, now)
        if feed in self._replication.wanted:
            return
        for connection in self._connections.values():
            for call in [call for call, fetch in connection.fetches.items() if fetch.feed == feed]:
                connection.calls.end(call)
                self._stir(connection)
        self._go_on(now)

    def lost(self, feed: str, now: int) -> None:
        """Fetch messages of a feed again that the store has found damaged."""
        self._replication.lost(feed, now)
        for connection in self._connections.values():
            if connection.asks_by_history:
                self._stir(connection)
                self._services.fetch(connection, feed)
        self._go_on(now)

    def share(self, feed: str, partner: str, now: int, *, receives: bool) -> None:
        """Exchange a feed with one peer only: see Ebt.share()."""
        self.replication.share(feed, partner, now, receives=receives)
        self._go_on(now)

    def returned(self, feed: str, remote: str, now: int) -> None:
        """Take note that a peer replicates a feed again: see Ebt.returned()."""
        self.replication.returned(feed, remote, now)
        self._go_on(now)

    def append(self, messages: Sequence[Message], now: int) -> Mapping[str, InvalidMessage | ForkedFeed]:
        """Store messages that came by other ways and pass them on.

        Returns for each feed with a bad one why it was refused; raises StoreError.
        """
        refused = self._replication.append(messages, now, self._now_ms(now))
        self._events += [
            PeerEvent(now, "stored", message=stored) for stored in self._replication.take_stored()
        ]
        self._go_on(now)
        return refused

    def appended(self, feed: str, now: int) -> None:
        """Pass on what the store has got by other ways: this peer's own messages above all."""
        self._replication.appended(feed, now)
        self._go_on(now)

    def ask(self, feed: str, now: int) -> None:
        """Ask all peers how far they have a feed, and for what is missing here, until stop_asking()."""
        known = [connection for connection in self._connections.values() if connection.remote]
        self._services.ask(known, feed, now)
        for connection in known:
            self._stir(connection)
        self._go_on(now)

    def stop_asking(self, feed: str) -> None:
        """Ask no further peers for a feed."""
        self._services.stop_asking(feed)

    def questions(self, feed: str) -> list[int]:
        """Return when the peers were asked for a feed that have not answered yet, ns."""
        open_calls = (fetch for each in self._connections.values() for fetch in each.fetches.values())
        return [fetch.asked for fetch in open_calls if fetch.feed == feed and fetch.asked is not None]

    def want_blob(self, blob: str, now: int) -> None:
        """Fetch a blob as soon as anybody has it; raise InvalidRef."""
        assert self._blobs is not None
        self._blobs.want(blob)
        self._go_on(now)

    def added_blob(self, blob: str, now: int) -> None:
        """Pass on that the store has a new blob."""
        assert self._blobs is not None
        self._blobs.added(blob)
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
        """See Endpoint: another peer on a medium says where it listens."""
        try:
            address = parse_address(payload.decode())
        except (InvalidAddress, UnicodeDecodeError):
            return
        self.add(address.peer, (address.host, address.port), now)

    def set_link(self, port: int, up: bool, now: int) -> None:
        """See Endpoint: TCP notices by itself."""

    def take_outputs(self) -> list[tuple[int, bytes, Address | None]]:
        """See Endpoint: announcements."""
        outputs, self._outputs = self._outputs, []
        return outputs

    def take_actions(self) -> list[StreamAction]:
        """See StreamEndpoint."""
        actions, self._actions = self._actions, []
        return actions

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        deadlines = (
            # The application may have told the replication something without this peer.
            0 if self._replication.is_stirred else None,
            self._announces_at,
            self._replication.next_deadline(),
            self._scheduler.next_deadline(),
            self._timers.next_deadline(),
        )
        return min((time for time in deadlines if time is not None), default=None)

    def wake(self, now: int) -> None:
        """Give up what takes too long, call whom it is time to call, and send what is due."""
        if self._announces_at is not None and now >= self._announces_at:
            self._announces_at = now + self._options.announce
            self._outputs += [(port, text, None) for port, text in self._announcements.items()]
        due = [
            connection for number in self._timers.expire(now) if (connection := self._connections.get(number))
        ]
        for connection in due:
            self._stir(connection)  # which sets its timer again
        for connection in due:
            with self._whole_or_gone(connection, now):
                self._do_what_is_due(connection, now)
        self._replication.wake(now)
        self._go_on(now)

    def _do_what_is_due(self, connection: Connection, now: int) -> None:
        if not connection.remote:
            if now >= connection.since + self._options.handshake:
                self._refuse(connection, "the handshake takes too long", now)
        elif now >= connection.heard + self._options.idle:
            self._end(connection, now)
        elif self._waits_for_ebt(connection) and now >= connection.since + self._options.without_ebt:
            self._services.fetch_all(connection)

    def on_stream(self, event: StreamEvent, now: int) -> None:
        """See StreamEndpoint."""
        if isinstance(event, Opened):
            self._open(event, now)
        else:
            connection = self._connections.get(event.stream)
            if connection is None:
                self._forget_call(event, now)
                self._go_on(now)
                return
            self._stir(connection)
            if isinstance(event, Received):
                with self._whole_or_gone(connection, now):
                    self._receive(connection, event.data, now)
            elif isinstance(event, Full | Writable):
                connection.is_full = isinstance(event, Full)
            elif isinstance(event, Ended):
                self._end(connection, now)
            elif isinstance(event, Closed):
                self._drop(connection, now, self._why_it_closes(connection) or event.reason)
        self._go_on(now)

    # Connections

    def _call(self, remote: str, address: Address) -> None:
        number = next(self._numbers)
        self._calling[number] = remote
        self._actions.append(Connect(number, address))

    def _forget_call(self, event: StreamEvent, now: int) -> None:
        if isinstance(event, Closed) and event.stream in self._calling:
            self._fail_to_reach(self._calling.pop(event.stream), event.reason, now)

    def _fail_to_reach(self, remote: str, reason: str, now: int) -> None:
        """Take note that a call has come to nothing."""
        self._scheduler.failed(remote, now, reason)
        self._events.append(PeerEvent(now, "not reached", remote, reason))

    def _open(self, event: Opened, now: int) -> None:
        called = self._calling.pop(event.stream, None)
        if called is None:
            surplus = self._places.surplus(event.peer[0], self._connections.values())
            if surplus is not None:
                self._turn_away(surplus, "too many handshakes at once")
        self._connections[event.stream] = connection = Connection(
            event.stream, event.peer[0], called, now, self._channel(called), Calls(), heard=now
        )
        self._stir(connection)

    def _channel(self, called: str | None) -> Channel:
        identity, network = self._identity, self._options.network
        if not self._options.encrypts:
            return PlainStream(identity.public_key)
        seed = self._random.randbytes(32)
        if called is None:
            return SecureStream(ServerHandshake(identity, network, seed, self._accepts))
        return SecureStream(ClientHandshake(identity, parse_feed(called), network, seed))

    def _accepts(self, public_key: bytes) -> bool:
        return self._door.admits(feed_ref(public_key))

    def _receive(self, connection: Connection, data: bytes, now: int) -> None:
        connection.heard, connection.is_answered = now, True
        was_open = bool(connection.remote)
        try:
            plain = connection.channel.receive(data)
            if not connection.remote or (not was_open and not self._greet(connection, now)):
                return
            events = connection.calls.receive(plain)
            self._services.handle(connection, events, now, self._now_ms(now))
        except (ChannelError, ProtocolError, ServiceError) as error:
            self._refuse(connection, str(error), now)
        else:
            if connection.channel.has_ended or connection.calls.has_ended:
                self._end(connection, now)
        finally:
            self._tell_stored(connection, now)

    def _greet(self, connection: Connection, now: int) -> bool:
        """Begin with a peer that has said who it is; return False if the connection is closed instead."""
        self._secrets += connection.channel.take_secrets()
        if connection.called is None and not self._takes_place(connection, now):
            return False
        if not self._is_ours(connection):
            self._services.open(connection, now)
            return True
        for other in list(self._connections.values()):
            if other is not connection and other.remote == connection.remote and self._is_ours(other):
                surplus = self._surplus(other, connection)
                self._end(surplus, now)
                if surplus is connection:
                    return False
        self._scheduler.connected(connection.remote, now)
        self._events.append(PeerEvent(now, "connected", connection.remote))
        self._services.open(connection, now)
        return True

    def _is_ours(self, connection: Connection) -> bool:
        """Tell whether a connection does what this peer would call the other for."""
        return self._replication.is_mutual or connection.called is not None

    def _surplus(self, older: Connection, newer: Connection) -> Connection:
        """Return which of two connections with one peer is closed.

        The newer one stays, as the older one may be dead. But if both peers have called each other at once,
        both have to decide alike: the call of the peer with the lower key stays.
        """
        is_ours = older.called is not None
        if is_ours == (newer.called is not None) or newer.since > older.since + self._options.handshake:
            return older
        ours, theirs = (older, newer) if is_ours else (newer, older)
        return theirs if self._identity.ref < newer.remote else ours

    def _refuse(self, connection: Connection, reason: str, now: int) -> None:
        """Close a connection for a fault of the other peer's."""
        self.refused[_VARIABLE.sub("…", reason)] += 1
        self._events.append(PeerEvent(now, "refused", connection.remote, reason))
        if connection.called is None and connection.remote:
            self._places.blame(connection.remote, now)
        self._actions.append(Close(connection.number, abort=True))
        self._drop(connection, now, reason)

    @contextmanager
    def _whole_or_gone(self, connection: Connection, now: int) -> Iterator[None]:
        """Do something for a connection; if this peer fails at it, close the connection.

        A StoreError ends there: the peer is met again soon, when the store may be well. Anything else is a
        mistake in this program, and is raised.
        """
        try:
            yield
        except Exception as error:
            if connection.number in self._connections:
                reason = f"this peer has failed: {error}"
                self.troubles[_VARIABLE.sub("…", reason)] += 1
                self._actions.append(Close(connection.number, abort=True))
                self._drop(connection, now, reason, is_own=True)
            if not isinstance(error, StoreError):
                raise

    def _takes_place(self, connection: Connection, now: int) -> bool:
        """Give a place to a peer that has called, or turn it away."""
        reason = self._places.refuses(connection.remote, now)
        if not reason:
            has_room, leaving = self._places.has_room(connection.remote, self._connections.values())
            if leaving is not None:
                self._end(leaving, now)
            reason = "" if has_room else "too many connections"
        if reason:
            self._turn_away(connection, reason)
        return not reason

    def _turn_away(self, connection: Connection, reason: str) -> None:
        """Close a connection with one that has called, before anything is done for it."""
        self.refused[reason] += 1
        self._actions.append(Close(connection.number, abort=True))
        self._forget(connection)

    def _end(self, connection: Connection, now: int) -> None:
        """Close a connection in good order."""
        if connection.remote:
            connection.calls.goodbye()
        output = connection.take_output()
        connection.channel.end()
        self._actions.append(Send(connection.number, output + connection.channel.take_output()))
        self._actions.append(Close(connection.number))
        self._drop(connection, now, self._why_it_closes(connection))

    def _why_it_closes(self, connection: Connection) -> str:
        """Return why the other end has closed a handshake that this peer began; "" if it was none."""
        if connection.remote or connection.called is None:
            return ""
        return _OTHER_PEER if connection.is_answered else _OTHER_NETWORK

    def _drop(self, connection: Connection, now: int, fault: str = "", *, is_own: bool = False) -> None:
        """Forget a connection that is over, or being closed; `fault` is the other's, unless it `is_own`."""
        self._forget(connection)
        remote = connection.remote
        if not remote:
            if connection.called is not None:
                self._fail_to_reach(connection.called, fault, now)
            return
        others = (other for other in self._connections.values() if other.remote == remote)
        if self._is_ours(connection) and not any(map(self._is_ours, others)):
            if fault and not is_own:
                self._scheduler.failed(remote, now, fault)
            else:
                self._scheduler.closed(remote, now, fault)
            self._events.append(PeerEvent(now, "closed", remote, fault))
        self._services.close(connection, now)

    def _forget(self, connection: Connection) -> None:
        del self._connections[connection.number]
        self._stirred.pop(connection.number, None)
        self._timers.set(connection.number, None)

    def _tell_stored(self, connection: Connection, now: int) -> None:
        """Make events of the messages that a remote has brought."""
        messages = self._replication.take_stored()
        connection.useful += len(messages)
        self._scheduler.useful(connection.remote, len(messages))
        self._events += [PeerEvent(now, "stored", connection.remote, message=message) for message in messages]
        for answer in self._services.take_answers():
            said = answer.error or (
                f"has it up to message {answer.last}" if answer.last else "does not have it"
            )
            self._events.append(
                PeerEvent(now, "answered", answer.remote, f"{answer.feed}: {said}", answer=answer)
            )

    def _waits_for_ebt(self, connection: Connection) -> bool:
        return connection.replication is None and not connection.has_tried_ebt

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
        over = []
        for connection in self._take_stirred():
            with self._whole_or_gone(connection, now):
                if connection.remote and not connection.is_full:
                    self._services.fill(connection, now)
                output = connection.take_output()
                if output:
                    self._actions.append(Send(connection.number, output))
                if connection.replication is not None and self._replication.is_over(connection.number):
                    over.append(connection)
                self._timers.set(connection.number, self._deadline(connection))
        for connection in over:
            if connection.number in self._connections:
                self._end(connection, now)

    def _stir(self, connection: Connection) -> None:
        """Take note that a connection may have something to be sent, or another deadline."""
        self._stirred[connection.number] = None

    def _take_stirred(self) -> Iterator[Connection]:
        """Yield the connections that were stirred; with blobs, all: each may be sent what others want.

        One is stirred until it is yielded: who stops early loses none.
        """
        self._stirred |= {**dict.fromkeys(self._replication.take_stirred()), **self._services.streaming}
        for number in list(self._stirred if self._blobs is None else self._connections):
            self._stirred.pop(number, None)
            connection = self._connections.get(number)
            if connection is not None:
                yield connection

    def _deadline(self, connection: Connection) -> int | None:
        """Return when something is to be done about a connection, ns."""
        if not connection.remote:
            return connection.since + self._options.handshake
        deadline = connection.heard + self._options.idle
        if not connection.is_full:
            due = self._services.output_due(connection)
            deadline = deadline if due is None else min(deadline, due)
        if self._waits_for_ebt(connection):
            deadline = min(deadline, connection.since + self._options.without_ebt)
        return deadline

    def _now_ms(self, now: int) -> float:
        return self._epoch_ms + now // 1_000_000
