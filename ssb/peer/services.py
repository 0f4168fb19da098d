"""Remote procedures of a peer: replication, blobs, identity."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from base.timers import earliest
from ssb.branches.exchange import BRANCHES
from ssb.canonical import Value
from ssb.message import ForkedFeed, InvalidMessage
from ssb.peer.access import OPEN_ACCESS, USE_INVITE, AccessPolicy, InvalidInvite
from ssb.peer.branch_calls import BOTH, BranchCalls
from ssb.peer.connection import WHOAMI, Connection
from ssb.replication import blobs, history, loose
from ssb.replication.blobs import BlobFetch, Blobs, BlobSource
from ssb.replication.history import HistoryFetch, HistorySource
from ssb.replication.loose import Loose
from ssb.replication.replication import InvalidRequest, ProtocolError, Replication
from ssb.rooms.line import Line, LineService
from ssb.store.blobs import RefusedBlob
from ssb.store.feeds import FeedStore, StoreError
from ssb.transport.calls import Answered, Called, CallEvent, Finished, not_allowed

_ALWAYS = {("gossip", "ping"), WHOAMI}
_MOST_STREAMS = 2  # of single messages: one that each side has opened
_MOST_HELD = 1 << 20  # bytes from a remote that has not said whether it is a room
_ROOM = 1 << 16  # bytes sent at once: enough to keep TCP busy, and a short queue


class ServiceError(ValueError):
    """A remote violates a protocol; the message has the reason, in few words."""


class Answer(NamedTuple):
    """A peer's answer about one feed.

    Attributes:
        remote: the peer.
        feed: the feed.
        last: number of the last message that it has sent; 0 for none.
        error: why it did not answer; "" if it did.
    """

    remote: str
    feed: str
    last: int
    error: str


@contextmanager
def _faults() -> Iterator[None]:
    """Turn a remote's faults into ServiceError."""
    try:
        yield
    except (ProtocolError, InvalidRequest, history.InvalidAnswer) as error:
        raise ServiceError(str(error)) from None


def _held(connection: Connection) -> Iterator[CallEvent]:
    return (event for events in connection.held.values() for event, _ in events)


class Services:
    """The calls of all connections of a peer.

    Args:
        reference: of the peer.
        feeds: its feeds.
        replication: of its feeds.
        blobs: its blobs; None if it handles none.
        access: decides who may connect, and who is a guest.
        loose: single messages by their ids; None if it handles none.
        rooms: the protocols of rooms, of those who visit them and of rooms themselves.
        branches: the exchange of merged feeds; None if it merges none.

    Attributes:
        blobs, loose, rooms, branches: see above.
    """

    def __init__(
        self,
        reference: str,
        feeds: FeedStore,
        replication: Replication,
        blobs: Blobs | None,
        access: AccessPolicy = OPEN_ACCESS,
        loose: Loose | None = None,
        rooms: Sequence[LineService] = (),
        branches: BranchCalls | None = None,
    ) -> None:
        self.branches = branches
        self.rooms = rooms
        self._reference = reference
        self._feeds = feeds
        self._replication = replication
        self.blobs = blobs
        self.loose = loose
        if loose is not None:
            loose.hides = replication.hides
        self._access = access
        self._streaming: dict[int, None] = {}
        self._queried: set[str] = set()
        self._answers: list[Answer] = []

    @property
    def streaming(self) -> Mapping[int, None]:
        """The connections with answered streams, which may grow with the store."""
        return self._streaming

    def open(self, connection: Connection, now: int) -> None:
        """Add an authenticated connection: make the initial calls, of which a guest hears none."""
        connection.greeted = now
        connection.is_guest = self._access.is_guest(connection.remote)
        if connection.is_guest:
            return
        if not connection.room:
            line = Line(connection.number, connection.remote, connection.calls, connection.called is not None)
            for room in self.rooms:
                room.open(line, now)
                room.set_full(connection.number, connection.is_full, now)
        connection.is_apart = None
        self._begin(connection, now)

    def _is_apart(self, connection: Connection) -> bool | None:
        """Whether only the protocols of rooms are for a connection; None while that is not known."""
        said = [room.is_apart(connection.number) for room in self.rooms]
        return True if True in said else None if None in said else False

    def reconsider(self, connection: Connection, now: int) -> None:
        """Begin the other services with a remote whose feed is replicated from now on, or that does not say
        whether it is a room; raise ServiceError.
        """
        was_apart, connection.is_apart = connection.is_apart is True, None
        with _faults():
            self._begin(connection, now, waits=False, was_apart=was_apart)

    def _begin(
        self, connection: Connection, now: int, *, waits: bool = True, was_apart: bool = False
    ) -> None:
        """Begin the other services, once it is known whether they are for this connection."""
        if connection.is_apart is not None:
            return
        connection.is_apart = self._is_apart(connection)
        if connection.is_apart is None and not waits:
            connection.is_apart = False
        if connection.is_apart is None:
            return
        if not connection.is_apart:
            # While apart the remote may have refused a call, or been refused: either side may call now.
            self._begin_services(connection, now, calls=was_apart or connection.called is not None)
        if not was_apart:
            for feed in self._queried:  # a room may have the visitor's own feed
                self._query(connection, feed, now)
        held, connection.held, connection.held_bytes = connection.held, {}, 0
        for events in held.values():
            for event, came in events:
                self._process(connection, [event], now, came)

    def _begin_services(self, connection: Connection, now: int, *, calls: bool) -> None:
        """Make the calls of the other services; `calls`: that of EBT, too, unless the remote has made it."""
        name = self._replication.name
        is_called = any(isinstance(event, Called) and event.name == name for event in _held(connection))
        if calls and connection.replication is None and not is_called:
            connection.has_tried_ebt = True
            arguments: list[Value] = [dict(self._replication.request)]
            self._replicate(connection, connection.calls.call(name, arguments, "duplex"), now)
        if self.branches is not None:
            self.branches.call(connection, now)
        if self.blobs is not None:
            self.blobs.open(connection.number)
            connection.wants_heard = connection.calls.call(blobs.CREATE_WANTS, [], "source")
        if self.loose is not None:
            self.loose.open(connection.number, connection.remote)

    def close(self, connection: Connection, now: int) -> None:
        """Remove a connection."""
        if self.branches is not None:
            self.branches.close(connection, now)
        self._streaming.pop(connection.number, None)
        if self.blobs is not None:
            self.blobs.close(connection.number)
        if self.loose is not None:
            self.loose.close(connection.number)
        for room in self.rooms:
            room.close(connection.number)
        if connection.replication is not None:
            connection.replication = None
            self._replication.close(connection.number, now)

    def handle(self, connection: Connection, events: Sequence[CallEvent], now: int, now_ms: float) -> None:
        """Handle events of calls; raise ServiceError, after which the connection is to be closed.

        `now_ms` is the time in ms since 1970.
        """
        with _faults():
            self._process(connection, events, now, now_ms)
            self._begin(connection, now)

    def _process(self, connection: Connection, events: Sequence[CallEvent], now: int, now_ms: float) -> None:
        bodies: list[bytes] = []

        def flush() -> None:
            """Pass the collected bodies to replication, and empty the list."""
            if bodies:
                batch = bodies.copy()
                bodies.clear()
                self._replication.receive(connection.number, batch, now, now_ms)

        for event in events:
            if isinstance(event, Answered) and event.call == connection.replication:
                bodies.append(event.body)
                continue
            flush()
            if event.call in connection.held:
                connection.hold(event, now_ms)
            elif isinstance(event, Called):
                try:
                    self._serve(connection, event, now, now_ms)
                except InvalidRequest as error:
                    connection.calls.end(event.call, str(error))
            elif isinstance(event, Answered):
                self._on_answer(connection, event, now, now_ms)
            else:
                self.finish(connection, event, now)
            if connection.held_bytes > _MOST_HELD:
                self._begin(connection, now, waits=False)
        flush()

    def output_due(self, connection: Connection) -> int | None:
        """Return when there is output for a connection, ns; 0 for now, None for none."""
        if any(source.has_output for source in connection.sources.values()):
            return 0
        if self.loose is not None and connection.loose and self.loose.has_output(connection.number):
            return 0
        due = None if connection.replication is None else self._replication.output_due(connection.number)
        return due if self.branches is None else earliest(due, self.branches.output_due(connection))

    def send_output(self, connection: Connection, now: int) -> None:
        """Make the calls that are due, and send parts of streams, as much as TCP accepts for now."""
        calls = connection.calls
        call = connection.replication
        if call is not None:
            for body in self._replication.take_output(connection.number, _ROOM, now):
                calls.send(call, body)
        if self.branches is not None:
            self.branches.send_output(connection, _ROOM, now)
        for call, source in list(connection.sources.items()):
            for body in source.take_output(_ROOM // len(connection.sources)):
                calls.send(call, body, source.body_type)
            if source.is_over:
                calls.end(call)
                self._end_stream(connection, call)
        if self.blobs is not None and connection.is_served:
            if connection.wants_told is not None:
                for body in self.blobs.take_output(connection.number):
                    calls.send(connection.wants_told, body)
            for blob in self.blobs.take_fetches(connection.number):
                call = calls.call(blobs.GET, [blob], "source")
                connection.blob_fetches[call] = BlobFetch(blob, now)
        if self.loose is not None and self.loose.has_output(connection.number):
            self._say_loose(self.loose, connection)

    def fetch_all(self, connection: Connection) -> None:
        """Request all feeds from a peer without EBT, by `createHistoryStream`."""
        connection.has_tried_ebt = connection.asks_by_history = True
        for feed in self._replication.wanted:
            self.fetch(connection, feed)

    def fetch(self, connection: Connection, feed: str) -> None:
        """Request a feed from a peer without EBT."""
        if feed != self._reference and not self._feeds.is_complete(feed):
            arguments = history.request(feed, self._feeds.tips().get(feed, 0))
            call = connection.calls.call(history.NAME, arguments, "source")
            connection.fetches[call] = HistoryFetch(feed)

    def query(self, connections: Iterable[Connection], feed: str, now: int) -> None:
        """Query all peers for their position in a feed, and for missing messages: these, and later ones."""
        self._queried.add(feed)
        for connection in connections:
            self._query(connection, feed, now)

    def stop_querying(self, feed: str) -> None:
        """Query no further peers for a feed."""
        self._queried.discard(feed)

    def unanswered(self, connections: Iterable[Connection], feed: str) -> list[int]:
        """Return the times of the unanswered queries of a feed, ns."""
        open_calls = (fetch for each in connections for fetch in each.fetches.values())
        return [fetch.asked for fetch in open_calls if fetch.feed == feed and fetch.asked is not None]

    def take_answers(self) -> list[Answer]:
        """Return the answers since the last call."""
        answers, self._answers = self._answers, []
        return answers

    def _query(self, connection: Connection, feed: str, now: int) -> None:
        is_asked = connection.is_apart is not None and not connection.is_guest
        if is_asked and not self._replication.hides(feed, connection.remote):
            arguments = history.query(feed, self._feeds.tips().get(feed, 0))
            call = connection.calls.call(history.NAME, arguments, "source")
            connection.fetches[call] = HistoryFetch(feed, asked=now)

    def _serve(self, connection: Connection, event: Called, now: int, now_ms: float) -> None:
        calls, call, arguments = connection.calls, event.call, event.arguments
        if event.name == USE_INVITE or connection.is_guest:
            self._serve_guest(connection, event)
            return
        if any(room.serve(connection.number, event) for room in self.rooms):
            return
        if event.name not in _ALWAYS and connection.is_apart is not False:
            if connection.is_apart is None:
                connection.hold(event, now_ms)
            elif self.blobs is not None and event.name == blobs.CREATE_WANTS and event.form == "source":
                connection.wants_told = call  # told nothing before it is served
            else:
                calls.end(call, not_allowed(event.name))
            return
        match event.name, event.form:
            case self._replication.name, "duplex":
                why = self._replication.refuses(arguments[0] if arguments else None)
                ours = connection.replication
                if not why and ours is not None and ours > 0 and connection.called is None:
                    # Both have called at once: the call of the side that opened the connection stays.
                    calls.end(ours, BOTH)
                    self._replication.close(connection.number, now)
                elif ours is not None:
                    why = f"there is a call of {'.'.join(event.name)} on this connection"
                if why:
                    calls.end(call, why)
                else:
                    self._replicate(connection, call, now)
            case ("createHistoryStream",), "source":
                source = HistorySource(
                    self._feeds, arguments, lambda feed: self._replication.hides(feed, connection.remote)
                )
                self._stream(connection, call, source)
            case ("blobs", "createWants"), "source" if self.blobs is not None:
                connection.wants_told = call
            case ("blobs", "get"), "source" if self.blobs is not None:
                blob_source = BlobSource(self.blobs.store, arguments)
                self.blobs.on_wanted_here(blob_source.blob)
                self._stream(connection, call, blob_source)
            case ("blobs", "has" | "size"), "async" if self.blobs is not None:
                size = self.blobs.store.size(blobs.read_reference(arguments[0] if arguments else None))
                calls.answer(call, size is not None if event.name == blobs.HAS else size)
            case ("ooo", "stream"), "duplex" if (
                self.loose is not None and len(connection.loose) < _MOST_STREAMS
            ):
                connection.loose[call] = None
            case branches, "duplex" if self.branches is not None and branches == BRANCHES:
                self.branches.serve(connection, call, now)
            case ("gossip", "ping"), "duplex":
                connection.pings.add(call)
            case ("whoami",), "async":
                calls.answer(call, {"id": self._reference})
            case _:
                calls.end(call, not_allowed(event.name))

    def _stream(self, connection: Connection, call: int, source: HistorySource | BlobSource) -> None:
        connection.sources[call] = source
        self._streaming[connection.number] = None

    def _end_stream(self, connection: Connection, call: int) -> None:
        connection.sources.pop(call, None)
        if not connection.sources:
            self._streaming.pop(connection.number, None)

    def _serve_guest(self, connection: Connection, event: Called) -> None:
        if event.name != USE_INVITE or event.form != "async":
            connection.calls.end(event.call, "an invite is for invite.use only")
            return
        try:
            connection.calls.answer(event.call, self._access.use_invite(connection.remote, event.arguments))
        except (InvalidInvite, StoreError) as error:
            connection.calls.end(event.call, str(error))

    def _on_answer(self, connection: Connection, event: Answered, now: int, now_ms: float) -> None:
        call = event.call
        if call in connection.fetches:
            self._store_fetched(connection, call, event.body, now, now_ms)
        elif call in connection.blob_fetches:
            self._on_piece(connection, call, event.body, now)
        elif call == connection.wants_heard and self.blobs is not None:
            self.blobs.receive(connection.number, event.body)
        elif call == connection.branches and self.branches is not None:
            self.branches.receive(connection, event.body, now, now_ms)
        elif call in connection.loose and self.loose is not None:
            self.loose.receive(connection.number, event.body, now_ms)
        elif call in connection.pings:
            connection.calls.answer(call, int(now_ms))
        else:
            for room in self.rooms:
                room.receive(connection.number, event)

    def finish(self, connection: Connection, event: Finished, now: int) -> None:
        """Handle the end of a call, which the remote has ended or answers no more."""
        call = event.call
        connection.calls.end(call)
        self._end_stream(connection, call)
        fetch = connection.fetches.pop(call, None)
        if fetch is not None and fetch.asked is not None:
            self._answers.append(Answer(connection.remote, fetch.feed, fetch.last, event.error))
        connection.pings.discard(call)
        for room in self.rooms:
            room.finish(connection.number, event)
        if call in connection.loose:
            del connection.loose[call]
            connection.refuses_loose |= call > 0
        blob_fetch = connection.blob_fetches.pop(call, None)
        if blob_fetch is not None and self.blobs is not None:
            with suppress(RefusedBlob):  # its copy is invalid: another peer may have a valid one
                self.blobs.on_finished(connection.number, blob_fetch.blob, event.error)
        if call == connection.wants_told:
            connection.wants_told = None
        if call == connection.branches and self.branches is not None:
            self.branches.close(connection, now)
        if call == connection.replication:
            connection.replication = None
            self._replication.close(connection.number, now)
            if event.error:
                self.fetch_all(connection)

    def _say_loose(self, wants: Loose, connection: Connection) -> None:
        """Say what there is on a stream of single messages; open one if there is none."""
        bodies = wants.take_output(connection.number, _ROOM)
        if not connection.loose and not connection.refuses_loose:
            connection.loose[connection.calls.call(loose.STREAM, [], "duplex")] = None
        for call in list(connection.loose)[:1]:
            for body in bodies:
                connection.calls.send(call, body)

    def _on_piece(self, connection: Connection, call: int, data: bytes, now: int) -> None:
        """Process bytes of a blob; end the call if they are refused."""
        assert self.blobs is not None
        fetch = connection.blob_fetches[call]
        fetch.heard = now
        try:
            self.blobs.on_data(connection.number, fetch.blob, data)
        except RefusedBlob as error:
            del connection.blob_fetches[call]
            connection.calls.end(call, str(error))
            self.blobs.on_finished(connection.number, fetch.blob, str(error))

    def _replicate(self, connection: Connection, call: int, now: int) -> None:
        connection.replication, connection.asks_by_history = call, False
        self._replication.open(connection.number, connection.remote, is_caller=call > 0, now=now)

    def _store_fetched(self, connection: Connection, call: int, body: bytes, now: int, now_ms: float) -> None:
        """Store a message of a requested feed; if it is refused, set the feed aside."""
        fetch = connection.fetches[call]
        if fetch.feed not in self._replication.wanted:
            return
        try:
            messages = fetch.receive(body, self._feeds.tips().get(fetch.feed, 0))
            for refusal in self._replication.append(messages, now, now_ms).values():
                raise refusal
            if fetch.refusal is not None:
                raise fetch.refusal
            if fetch.asked is None and self._feeds.is_complete(fetch.feed):
                del connection.fetches[call]
                connection.calls.end(call)
        except (InvalidMessage, ForkedFeed) as error:
            self._replication.put_aside(fetch.feed, connection.remote, str(error))
            del connection.fetches[call]
            connection.calls.end(call, str(error))
