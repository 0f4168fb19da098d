"""The connections of a peer, from call or acceptance to their end.

A connection is whole or gone. If handling one fails, as with a store on a full disk, it is closed and the
others are unaffected. Closing cannot fail.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from random import Random
from typing import Final

from base.endpoint import Closed, Opened
from base.key_log import Secret
from base.timers import Timers, earliest
from ssb.keys import Identity, feed_ref, parse_feed
from ssb.peer.access import AccessPolicy
from ssb.peer.connection import Connection
from ssb.peer.inbound import InboundLimits
from ssb.peer.options import PeerOptions
from ssb.peer.program import PeerEvent
from ssb.peer.scheduler import Scheduler
from ssb.peer.services import ServiceError, Services
from ssb.peer.streams import Streams
from ssb.replication.replication import Replication
from ssb.store.feeds import StoreError
from ssb.transport.calls import Calls
from ssb.transport.handshake import ClientHandshake, ServerHandshake
from ssb.transport.secure_stream import Channel, PlainStream, SecureStream

_VARIABLE = re.compile(r"[@%&][A-Za-z0-9+/]{43}=\.\w+|\d+")  # reasons are counted without names and numbers
_OTHER_NETWORK: Final = "it closes the stream without a word: it is no peer of this network"
_OTHER_PEER: Final = (
    "it does not take this peer's proof: it has another key than the address says, or keeps this peer out"
)


class Connections(Mapping[int, Connection]):
    """The connections of a peer by number.

    Args:
        identity: the peer's.
        options: see PeerOptions.
        random: for keys and pauses.
        access: decides who may connect.
        replication: the protocol of replication.
        services: the calls on connections.
        events: list for the peer's events.
        streams: see Streams.

    Attributes:
        streams: see above.
        scheduler: selects the peers to call.
        refused: number of connections closed for a fault of the other peer or lack of room, by reason.
        troubles: number of connections closed for a fault of this peer, by reason.
    """

    def __init__(
        self,
        identity: Identity,
        options: PeerOptions,
        random: Random,
        access: AccessPolicy,
        replication: Replication,
        services: Services,
        events: list[PeerEvent],
        streams: Streams,
    ) -> None:
        self.streams = streams
        self._identity = identity
        self._options = options
        self._random = random
        self._access = access
        self._replication = replication
        self._services = services
        self._events = events
        self.scheduler = Scheduler(random, options.scheduler)
        self._limits = InboundLimits(access, options.connections, options.handshakes)
        self._connections: dict[int, Connection] = {}
        self._timers = Timers[int]()
        self._changed: dict[int, None] = {}  # connections that may have output or a new deadline
        self._calling: dict[int, tuple[str, str]] = {}  # the peer and the way of each call
        self._secrets: list[Secret] = []
        self.refused: Counter[str] = Counter()
        self.troubles: Counter[str] = Counter()

    def __getitem__(self, number: int) -> Connection:
        return self._connections[number]

    def __iter__(self) -> Iterator[int]:
        return iter(self._connections)

    def __len__(self) -> int:
        return len(self._connections)

    @property
    def called(self) -> set[str]:
        """The peers that this one has called or is calling."""
        calling = {remote for remote, _ in self._calling.values()}
        return {each.called for each in self.values() if each.called} | calling

    def take_secrets(self) -> list[Secret]:
        """Return the secrets of streams opened since the last call."""
        secrets, self._secrets = self._secrets, []
        return secrets

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        rooms = (room.next_deadline() for room in self._services.rooms)
        return earliest(self.scheduler.next_deadline(), self._timers.next_deadline(), *rooms)

    def wake(self, now: int) -> None:
        """Close connections after their timeouts, and stop waiting for EBT."""
        for room in self._services.rooms:
            for number, fault in room.wake(now):
                self.refuse(self._connections[number], fault, now)
        due = [self._connections[number] for number in self._timers.expire(now)]
        self._changed |= dict.fromkeys(connection.number for connection in due)  # to set their timers again
        for connection in due:
            with self.isolated(connection, now):
                for end in connection.overdue(now):
                    self._services.finish(connection, end, now)
                if not connection.remote:
                    if now >= connection.since + self._options.handshake:
                        self.refuse(connection, "the handshake takes too long", now)
                elif now >= connection.quiet_ends(self._options):
                    if not connection.room:
                        self.close(connection, now)
                    elif connection.asked > connection.heard:
                        self.refuse(connection, "nothing comes through the room any more", now)
                    else:
                        connection.ask(now)
                elif connection.is_apart is None and now >= connection.greeted + self._options.without_ebt:
                    self.reconsider([connection], now)
                elif connection.waits_for_ebt and now >= connection.greeted + self._options.without_ebt:
                    self._services.fetch_all(connection)

    def update(self, now: int) -> None:
        """Call peers, give up calls of little use, and send output."""
        for remote, address, useless in self.scheduler.take_calls(now):
            opened = self.streams.open(remote, address, useless)
            if opened is None:
                self._not_reached(remote, "it is in no room that this peer visits", now)
            else:
                number, way = opened
                self._calling[number] = remote, way
        leaving = self.scheduler.next_to_close(now)
        if leaving is not None:
            for connection in list(self._connections.values()):
                if connection.remote == leaving:
                    self.close(connection, now)
        over = []
        for connection in self._take_changed():
            with self.isolated(connection, now):
                if connection.remote and not connection.is_full:
                    self._services.send_output(connection, now)
                output = connection.take_output()
                if output:
                    self.streams.send(connection.number, output)
                if connection.replication is not None and self._replication.is_over(connection.number):
                    over.append(connection)
                self._timers.set(connection.number, self._deadline(connection))
        for connection in over:
            if connection.number in self._connections:
                self.close(connection, now)
        for room in self._services.rooms:
            for number, paused in room.take_pauses():
                self.streams.pause(number, paused=paused)

    def reconsider(self, connections: Iterable[Connection], now: int) -> None:
        """Begin the services that are not those of rooms: see Services.reconsider()."""
        for connection in connections:
            with self.isolated(connection, now):
                try:
                    self._services.reconsider(connection, now)
                except ServiceError as error:
                    self.refuse(connection, str(error), now)
            self.changed(connection)

    def changed(self, connection: Connection) -> None:
        """Mark a connection for update(): it may have output or a new deadline."""
        self._changed[connection.number] = None

    def _take_changed(self) -> Iterator[Connection]:
        """Yield the changed connections; with blobs or single messages, all: a want may concern any.

        A connection counts as changed until it is yielded, so an interrupted caller loses none.
        """
        self._changed |= {**dict.fromkeys(self._replication.take_changed()), **self._services.streaming}
        if self._services.branches is not None:
            self._changed |= dict.fromkeys(self._services.branches.exchange.take_changed())
        has_wants = self._services.blobs is not None or self._services.loose is not None
        numbers = list(self._connections if has_wants else self._changed)
        yield from self._take(self.streams.in_order(numbers))
        rooms = self._services.rooms
        while touched := {number: None for room in rooms for number in room.take_changed()}:
            yield from self._take(touched)

    def _take(self, numbers: Iterable[int]) -> Iterator[Connection]:
        for number in numbers:
            self._changed.pop(number, None)
            connection = self._connections.get(number)
            if connection is not None:
                yield connection

    def _deadline(self, connection: Connection) -> int | None:
        """Return the next deadline of a connection, ns."""
        if not connection.remote:
            return connection.since + self._options.handshake
        deadline = connection.quiet_ends(self._options)
        patience = connection.patience_ends
        if patience is not None:
            deadline = min(deadline, patience)
        if not connection.is_full:
            due = self._services.output_due(connection)
            deadline = deadline if due is None else min(deadline, due)
        if connection.waits_for_ebt or connection.is_apart is None:
            deadline = min(deadline, connection.greeted + self._options.without_ebt)
        return deadline

    # Beginning

    def open(self, event: Opened, now: int) -> None:
        """Begin the handshake on a new stream, unless it is a call to a peer that was removed meanwhile."""
        called, room = self._calling.pop(event.stream, (None, self.streams.room_of(event.stream)))
        if called is not None and called not in self.scheduler:
            self.streams.close(event.stream, abort=True)
            return
        if called is None:
            surplus = self._limits.surplus(event.peer[0], self._connections.values())
            if surplus is not None:
                self._turn_away(surplus, "too many handshakes at once")
        channel = self._channel(called, admits=self._access.meets if room else self._access.admits)
        self._connections[event.stream] = connection = Connection(
            event.stream, room or event.peer[0], called, now, channel, Calls(), heard=now, room=room
        )
        self.changed(connection)

    def _channel(self, called: str | None, admits: Callable[[str], bool]) -> Channel:
        identity, network = self._identity, self._options.network
        if not self._options.encrypts:
            return PlainStream(identity.public_key)
        seed = self._random.randbytes(32)
        if called is None:
            return SecureStream(ServerHandshake(identity, network, seed, lambda key: admits(feed_ref(key))))
        return SecureStream(ClientHandshake(identity, parse_feed(called), network, seed))

    def greet(self, connection: Connection, now: int) -> bool:
        """Begin the services after a handshake; return False if the connection is closed instead."""
        self._secrets += connection.channel.take_secrets()
        if connection.called is None and not self._is_let_in(connection, now):
            return False
        if self._is_ours(connection):
            for other in list(self._connections.values()):
                if other is not connection and other.remote == connection.remote and self._is_ours(other):
                    surplus = self._surplus(other, connection)
                    self.close(surplus, now)
                    if surplus is connection:
                        return False
            self.scheduler.on_connected(connection.remote, now)
            self._events.append(PeerEvent(now, "connected", connection.remote))
        self._services.open(connection, now)
        return True

    def _is_let_in(self, connection: Connection, now: int) -> bool:
        """Make room for a peer that has connected, or turn it away."""
        reason = self._limits.refuses(connection, now)
        if not reason:
            has_room, leaving = self._limits.has_room(connection.remote, self._connections.values())
            if leaving is not None:
                self.close(leaving, now)
            reason = "" if has_room else "too many connections"
        if reason:
            self._turn_away(connection, reason)
        return not reason

    def has(self, remote: str) -> bool:
        """Whether there is a connection with a peer that serves the purpose of a call."""
        return any(each.remote == remote and self._is_ours(each) for each in self.values())

    def _is_ours(self, connection: Connection) -> bool:
        """Whether a connection serves the purpose of a call by this peer."""
        return self._replication.is_mutual or connection.called is not None

    def _surplus(self, older: Connection, newer: Connection) -> Connection:
        """Return which of two connections with one peer to close.

        The newer one stays, as the older one may be dead. But if both peers have called each other at once,
        both must decide alike: the call that goes through no room stays, which only one of them may be able
        to make; else that of the peer with the lower key.
        """
        is_ours = older.called is not None
        if is_ours == (newer.called is not None) or newer.since > older.since + self._options.handshake:
            return older
        if bool(older.room) != bool(newer.room):
            return older if older.room else newer
        ours, theirs = (older, newer) if is_ours else (newer, older)
        return theirs if self._identity.ref < newer.remote else ours

    # Ending

    def remove_peer(self, remote: str, now: int, *, tunnels_only: bool = False) -> None:
        """Stop calling a peer, and close the connections that serve the purpose of a call.

        A call in its handshake ends, too: a peer is left, or blocked, at any time.
        """
        self.scheduler.remove(remote)
        for connection in list(self._connections.values()):
            is_meant = connection.room or not tunnels_only
            if not self._is_ours(connection) or not is_meant:
                continue
            if connection.remote == remote:
                self.close(connection, now)
            elif not connection.remote and connection.called == remote:
                self.streams.close(connection.number, abort=True)
                self._forget(connection)

    @contextmanager
    def isolated(self, connection: Connection, now: int) -> Iterator[None]:
        """Handle a connection; if this peer fails at it, close the connection.

        A StoreError ends there: this peer connects again soon, when the store may work. Any other exception
        is a bug in this program, and is raised.
        """
        try:
            yield
        except Exception as error:
            if connection.number in self._connections:
                reason = f"this peer has failed: {error}"
                self.troubles[_VARIABLE.sub("…", reason)] += 1
                self.streams.close(connection.number, abort=True)
                self.drop(connection, now, reason, is_own=True)
            if not isinstance(error, StoreError):
                raise

    def refuse(self, connection: Connection, reason: str, now: int) -> None:
        """Close a connection for a fault of the other peer."""
        self.refused[_VARIABLE.sub("…", reason)] += 1
        self._events.append(PeerEvent(now, "refused", connection.remote, reason))
        if connection.called is None and connection.remote:
            self._limits.blame(connection, now)
        self.streams.close(connection.number, abort=True)
        self.drop(connection, now, reason)

    def _turn_away(self, connection: Connection, reason: str) -> None:
        """Abort an inbound connection before any service has begun."""
        self.refused[reason] += 1
        self.streams.close(connection.number, abort=True)
        self._forget(connection)

    def close(self, connection: Connection, now: int) -> None:
        """Close a connection gracefully."""
        if connection.remote:
            connection.calls.goodbye()
        output = connection.take_output()
        connection.channel.end()
        self.streams.send(connection.number, output + connection.channel.take_output())
        self.streams.close(connection.number)
        self.drop(connection, now)

    def drop(self, connection: Connection, now: int, fault: str = "", *, is_own: bool = False) -> None:
        """Remove a connection that has ended; `fault` is the other peer's, unless it `is_own`."""
        self._forget(connection)
        remote = connection.remote
        if not remote:
            if connection.called is not None:
                fault = fault or (_OTHER_PEER if connection.is_answered else _OTHER_NETWORK)
                self._not_reached(connection.called, fault, now, connection.room)
            return
        others = (other for other in self._connections.values() if other.remote == remote)
        if self._is_ours(connection) and not any(map(self._is_ours, others)):
            if fault and not is_own:
                self.scheduler.on_failed(remote, now, fault, connection.room)
            else:
                self.scheduler.on_closed(remote, now, fault, connection.room)
            self._events.append(PeerEvent(now, "closed", remote, fault))
        self._services.close(connection, now)

    def end_call(self, event: Closed, now: int) -> None:
        """Handle the end of a stream without a connection: a call has failed."""
        if event.stream in self._calling:
            remote, way = self._calling.pop(event.stream)
            self._not_reached(remote, event.reason, now, way)

    def _not_reached(self, remote: str, reason: str, now: int, way: str = "") -> None:
        """Record a failed call; if the peer has called meanwhile, it is reached, and another call would only
        replace that connection."""
        if self.has(remote):
            return
        self.scheduler.on_failed(remote, now, reason, way)
        self._events.append(PeerEvent(now, "not reached", remote, reason))

    def _forget(self, connection: Connection) -> None:
        del self._connections[connection.number]
        self._changed.pop(connection.number, None)
        self._timers.set(connection.number, None)
