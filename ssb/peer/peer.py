"""A Scuttlebutt peer as a program of a node: its connections, and the replication over them."""

from collections.abc import Collection, Mapping, Sequence
from random import Random
from types import MappingProxyType
from typing import Final

from base.endpoint import (
    Address,
    Closed,
    Ended,
    Full,
    Opened,
    Received,
    StreamAction,
    StreamEvent,
    Writable,
)
from base.passive import PassiveEndpoint
from base.timers import earliest
from ssb.branches.exchange import BranchExchange
from ssb.keys import Identity
from ssb.message import ForkedFeed, InvalidMessage, Message
from ssb.peer.access import OPEN_ACCESS, AccessPolicy
from ssb.peer.branch_calls import BranchCalls
from ssb.peer.connection import Connection
from ssb.peer.connections import Connections
from ssb.peer.options import PeerOptions
from ssb.peer.program import PeerEvent
from ssb.peer.services import ServiceError, Services
from ssb.peer.streams import Streams
from ssb.replication.blobs import Blobs
from ssb.replication.ebt import Ebt, RemoteClocks
from ssb.replication.loose import Loose
from ssb.replication.replication import Replication
from ssb.rooms.room import Room
from ssb.rooms.visits import Visits
from ssb.store.feeds import FeedStore
from ssb.transport.address import InvalidAddress, PeerAddress, parse_address
from ssb.transport.muxrpc import ProtocolError
from ssb.transport.secure_stream import ChannelError

_CUT_SHORT: Final = "the room has ended the tunnel, and the peer has not said goodbye"


class Peer(PassiveEndpoint):
    """A peer: a StreamEndpoint with one StreamPort, and a GroupPort for each medium to be announced on.

    Args:
        identity: the peer's.
        feeds: the store of feeds.
        clocks: the store of remote clocks, for EBT.
        wanted: feeds to replicate from the start, for EBT.
        options: see PeerOptions.
        random: for keys and pauses; a `random.SystemRandom` where keys are to be secret.
        epoch_ms: the time at 0 ns, in ms since 1970.
        blobs: its blobs; None if it handles none.
        access: decides who may connect.
        announcements: the address to announce on each GroupPort.
        replication: a protocol of replication in place of EBT.
        loose: single messages by their ids; None if it handles none.
        visits: rooms to visit, and streams through them; None if it visits none.
        room: the room that it is; None if it is none.
        branches: the replication of merged feeds beside that of all feeds; None if it merges none.

    Attributes:
        protocol: of replication.
        connections, services: see there. After a change to the protocol or the blobs, call
            `connections.update()`.
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
        access: AccessPolicy = OPEN_ACCESS,
        announcements: Mapping[int, PeerAddress] = MappingProxyType({}),
        replication: Replication | None = None,
        loose: Loose | None = None,
        visits: Visits | None = None,
        room: Room | None = None,
        branches: BranchExchange | None = None,
    ) -> None:
        super().__init__()
        self._identity = identity
        self._feeds = feeds
        self._access = access
        self._visits = visits
        self._epoch_ms = epoch_ms
        self.protocol: Replication = replication or Ebt(feeds, clocks, wanted, options.replication, random)
        self._announcements = {port: str(address).encode() for port, address in announcements.items()}
        self._announce_every = options.announce
        self._announces_at: int | None = 0 if announcements else None
        self._events: list[PeerEvent] = []
        rooms = [each for each in (visits, room) if each is not None]
        calls = None if branches is None else BranchCalls(branches)
        self.services = Services(identity.ref, feeds, self.protocol, blobs, access, loose, rooms, calls)
        self._streams = Streams(visits)
        self.connections = Connections(
            identity, options, random, access, self.protocol, self.services, self._events, self._streams
        )

    # Calls of the application

    @property
    def replication(self) -> Ebt:
        """The replication by EBT."""
        assert isinstance(self.protocol, Ebt)
        return self.protocol

    def add(
        self, remote: str, address: Address, now: int, *, is_kept: bool = False, is_hearsay: bool = False
    ) -> None:
        """Add the address of a peer: see Scheduler.add().

        It is called in its turn, unless the access policy refuses it.
        """
        if remote != self._identity.ref and self._access.admits(remote):
            self.connections.scheduler.add(remote, address, now, is_kept=is_kept, is_hearsay=is_hearsay)
            self.connections.update(now)

    def heed(self, remote: str, now: int, room: str = "") -> None:
        """Call a peer that is in a room if it is to be met there, unless there is a connection with it.

        `room` is the one that it has come into or left, if this is the news.

        If it has left, or is not to be met any more, end the calls and the tunnels to it; a peer with an
        address goes on being called there.
        """
        connections = self.connections
        if self._visits is not None and self._visits.rooms_with(remote) and self._access.meets(remote):
            connections.scheduler.meet(remote, room, now, is_connected=connections.has(remote))
        elif remote in connections.scheduler and connections.scheduler.address(remote) is None:
            connections.remove_peer(remote, now, tunnels_only=True)
        connections.update(now)

    def remove(self, remote: str, now: int) -> None:
        """Stop calling a peer, and close the connection to it."""
        self.connections.remove_peer(remote, now)
        self.connections.update(now)

    def want(self, feed: str, now: int) -> None:
        """Replicate a feed from now on."""
        self.want_all((feed,), now)

    def want_all(self, feeds: Collection[str], now: int) -> None:
        """Replicate feeds from now on."""
        self.protocol.want_all(feeds, now)
        apart = [each for each in self.connections.values() if each.is_apart and each.remote in feeds]
        self.connections.reconsider(apart, now)
        self._fetch(feeds, now)

    def unwant(self, feed: str, now: int) -> None:
        """Stop replicating a feed: see Ebt.unwant()."""
        self.protocol.unwant(feed, now)
        if feed in self.protocol.wanted:
            return
        for connection in self.connections.values():
            for call in [call for call, fetch in connection.fetches.items() if fetch.feed == feed]:
                connection.calls.end(call)
                self.connections.changed(connection)
        self.connections.update(now)

    def merge(self, feeds: Collection[str], now: int) -> None:
        """Replicate these feeds with all their branches from now on, and no others."""
        branches = self.services.branches
        if branches is not None and branches.replace(feeds, now):
            for connection in self.connections.values():
                if connection.remote and connection.is_served:
                    branches.call(connection, now)
            self.connections.update(now)

    def on_lost(self, feed: str, now: int) -> None:
        """Fetch again messages of a feed that are damaged in the store."""
        self.protocol.on_lost(feed, now)
        self._fetch((feed,), now)

    def _fetch(self, feeds: Collection[str], now: int) -> None:
        """Request feeds on the connections without EBT."""
        for connection in self.connections.values():
            if connection.asks_by_history:
                self.connections.changed(connection)
                for feed in feeds:
                    self.services.fetch(connection, feed)
        self.connections.update(now)

    def share(self, feed: str, partner: str, now: int, *, receives: bool) -> None:
        """Replicate a feed with one peer only: see Ebt.share()."""
        self.replication.share(feed, partner, now, receives=receives)
        self.connections.update(now)

    def append(self, messages: Sequence[Message], now: int) -> Mapping[str, InvalidMessage | ForkedFeed]:
        """Store messages from another source and pass them on.

        Returns for each feed with an invalid message the reason; raises StoreError.
        """
        refused = self.protocol.append(messages, now, self._now_ms(now))
        self._events += [PeerEvent(now, "stored", message=stored) for stored in self._take_stored(now)]
        self.connections.update(now)
        return refused

    def take_loose(self, message: Message, now: int) -> None:
        """Take a message out of order from another source, and pass it on: see Loose.take().

        Raises StoreError.
        """
        if self.services.loose is not None:
            self.services.loose.take(message, self._now_ms(now))
            self.connections.update(now)

    def on_appended(self, feed: str, now: int) -> None:
        """Pass on messages that another has stored, such as this peer's own."""
        if not self._feeds.is_frozen(feed):
            self.protocol.on_appended(feed, now)
        if self.services.branches is not None and feed in self.services.branches.exchange.wanted:
            self.services.branches.exchange.on_appended(feed, now)
        self.connections.update(now)

    def query(self, feed: str, now: int) -> None:
        """Query all peers for new messages of a feed, until services.stop_querying()."""
        known = [connection for connection in self.connections.values() if connection.remote]
        self.services.query(known, feed, now)
        for connection in known:
            self.connections.changed(connection)
        self.connections.update(now)

    def take_events(self) -> list[PeerEvent]:
        """Return the events since the last call."""
        events = self._events.copy()
        self._events.clear()
        return events

    # The endpoint

    def receive(self, port: int, payload: bytes, sender: Address | None, now: int) -> None:
        """See Endpoint: the announcement of a peer on a medium."""
        try:
            address = parse_address(payload.decode())
        except (InvalidAddress, UnicodeDecodeError):
            return
        self.add(address.peer, (address.host, address.port), now)

    def take_actions(self) -> list[StreamAction]:
        return self._streams.take_actions()

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        return earliest(
            # The application may have changed the replication without this peer.
            0 if self.protocol.has_changed else None,
            *(() if self.services.branches is None else self.services.branches.deadlines()),
            self._announces_at,
            self.protocol.next_deadline(),
            self.connections.next_deadline(),
        )

    def wake(self, now: int) -> None:
        """Handle deadlines, and send output that is due."""
        if self._announces_at is not None and now >= self._announces_at:
            self._announces_at = now + self._announce_every
            self.outputs += [(port, text, None) for port, text in self._announcements.items()]
        self.connections.wake(now)
        self.protocol.wake(now)
        if self.services.branches is not None:
            self.services.branches.exchange.wake(now)
        self.connections.update(now)

    def on_stream(self, event: StreamEvent, now: int) -> None:
        connections = self.connections
        connection = connections.get(event.stream)
        if isinstance(event, Opened):
            connections.open(event, now)
        elif connection is None:
            if isinstance(event, Closed):
                connections.end_call(event, now)
        else:
            connections.changed(connection)
            if isinstance(event, Received):
                with connections.isolated(connection, now):
                    self._receive(connection, event.data, now)
            elif isinstance(event, Full | Writable):
                connection.is_full = isinstance(event, Full)
                for room in self.services.rooms:
                    room.set_full(event.stream, connection.is_full, now)
            elif isinstance(event, Ended):
                connections.close(connection, now)
            elif isinstance(event, Closed):
                is_told = connection.remote or connection.room
                fault = event.reason if is_told else ""
                if connection.room and connection.remote:
                    fault = fault or _CUT_SHORT
                connections.drop(connection, now, fault)
        connections.update(now)

    def _receive(self, connection: Connection, data: bytes, now: int) -> None:
        connection.heard, connection.is_answered = now, True
        was_open = bool(connection.remote)
        try:
            plain = connection.channel.receive(data)
            if not connection.remote or (not was_open and not self.connections.greet(connection, now)):
                return
            events = connection.calls.receive(plain)
            self.services.handle(connection, events, now, self._now_ms(now))
        except (ChannelError, ProtocolError, ServiceError) as error:
            self.connections.refuse(connection, str(error), now)
        else:
            if connection.channel.has_ended or connection.calls.has_ended:
                self.connections.close(connection, now)
        finally:
            self._report_stored(connection, now)

    def _report_stored(self, connection: Connection, now: int) -> None:
        """Create the events for a peer's input: new messages, and answers."""
        messages = self._take_stored(now, connection.number)
        connection.useful += len(messages)
        self.connections.scheduler.on_useful(connection.remote, len(messages))
        self._events += [PeerEvent(now, "stored", connection.remote, message=message) for message in messages]
        for answer in self.services.take_answers():
            said = answer.error or (
                f"has it up to message {answer.last}" if answer.last else "does not have it"
            )
            self._events.append(
                PeerEvent(now, "answered", answer.remote, f"{answer.feed}: {said}", answer=answer)
            )

    def _take_stored(self, now: int, by: int | None = None) -> list[Message]:
        """Return the new messages, those of other branches among them; `by` is their connection."""
        stored = self.protocol.take_stored()
        if self.services.branches is not None:
            others = self.services.branches.came(stored, now, by)
            for feed in {message.author: None for message in others}:
                self.protocol.on_appended(feed, now, by)
            stored = [*stored, *others]
        if self.services.loose is not None:
            self.services.loose.came(stored)
        if self.services.blobs is not None:
            self.services.blobs.came(stored)
        return stored

    def _now_ms(self, now: int) -> float:
        return self._epoch_ms + now // 1_000_000
