"""A session of two relays over one connection: set-up, requests of either side, and streams of objects.

It is the same at both ends, but for the numbers of streams and requests. Section numbers are those of
draft-ietf-moq-transport-14.
"""

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from base.units import MS
from ssb.moq import frames
from ssb.moq.fields import ProtocolViolation
from ssb.moq.frames import Other, Parameters, Ping, Pong, Reset
from ssb.moq.incoming import End, Incoming
from ssb.moq.messages import (
    CANCELLED,
    CONTROL,
    VERSION,
    Declined,
    Failed,
    Fetch,
    FetchCancel,
    Fetched,
    FetchOk,
    Head,
    Location,
    MaxRequestId,
    Message,
    Object,
    PublishDone,
    Setup,
    Subgroup,
    Subscribe,
    SubscribeOk,
    Track,
    Unsubscribe,
    Unsupported,
    encode,
    encode_head,
    encode_object,
    refusal,
)


class Request:
    """A subscription or a fetch of this side.

    Attributes:
        track: its track.
        part: what a fetch asks for: the first object, and the one after the last; None for a subscription.
        number: its Request ID, None until it is sent.
        alias: the track's, of a subscription that is granted.
    """

    def __init__(self, track: Track, part: tuple[Location, Location] | None = None) -> None:
        self.track = track
        self.part = part
        self.number: int | None = None
        self.alias: int | None = None


class Granted(NamedTuple):
    """A subscription is granted, or a fetch: the largest object of the track, or of the fetch's answer."""

    request: Request
    largest: Location | None


class Given(NamedTuple):
    """An object of a request."""

    request: Request
    location: Location
    payload: bytes


class Over(NamedTuple):
    """A request has failed, has had all it asked for, or gets nothing more."""

    request: Request


class Outgoing:
    """A data stream of this side.

    Attributes:
        head: its head.
        number: the stream's, None until an object is sent.
    """

    def __init__(self, head: Head) -> None:
        self.head = head
        self.number: int | None = None
        self.offset = 0
        self.last: int | None = None  # object


Asked = Subscribe | Unsubscribe | Fetch | FetchCancel
Answer = Granted | Given | Over

_LEAST_IDLE: Final = 10 * MS
_SILENT_PARTS: Final = 5  # of the idle time; after two of them a side that waits says that it is there


class Session:
    """A session.

    Args:
        is_client: this side has opened the connection.
        idle: ns without a frame after which the session is given up, unless the other side says fewer.
        most: requests of the other side that may be open at a time.

    Attributes:
        out: bytes to be sent.
        is_ready: requests may be sent.
        is_full: the connection has as much as it takes for now.
        asked: requests of the other side that are open, by number; the values are the owner's.
    """

    def __init__(self, *, is_client: bool, idle: int, most: int) -> None:
        self.out = bytearray()
        self.is_ready = self.is_full = False
        self.asked: dict[int, object] = {}
        self._is_client = is_client
        self._idle = idle
        self._most = most
        self._incoming = Incoming(from_client=not is_client, streams=2 * most)
        self._offset = 0  # of the control stream
        self._stream = 2 if is_client else 3
        self._waiting: deque[Request] = deque()
        self._requests: dict[int, Request] = {}
        self._aliases: dict[int, Request] = {}
        self._next, self._limit = 0 if is_client else 1, 0
        self._asks, self._allowed = 1 if is_client else 0, 2 * most
        self._finished = self._pings = 0
        self._said_at = self._heard_at = 0

    # --- Time ---

    def expect(self, now: int) -> None:
        """The connection is being opened, which may not take longer than silence."""
        self._heard_at = self._said_at = now

    def begin(self, now: int) -> None:
        """The connection is open: send the parameters."""
        self._heard_at = now
        self._put(frames.encode(Parameters(self._idle // MS)), now)

    def next_deadline(self) -> int:
        """Return when wake() is due, ns."""
        due = self._heard_at + self._idle
        return min(due, self._ping_at()) if self._requests else due

    def wake(self, now: int) -> bool:
        """Tell the other side that this one is there; return False if the session is to be given up."""
        if now >= self._heard_at + self._idle:
            return False
        if now >= self._ping_at():
            self._pings += 1
            self._put(frames.encode(Ping(self._pings)), now)
        return True

    def _ping_at(self) -> int:
        return self._said_at + 2 * self._idle // _SILENT_PARTS

    # --- Requests of this side ---

    def ask(self, request: Request, now: int) -> None:
        """Send a request as soon as the other side allows."""
        self._waiting.append(request)
        self._send_waiting(now)

    def cancel(self, request: Request, now: int) -> None:
        """Take a request back."""
        if request.number is None:
            self._waiting.remove(request)
        elif request.number in self._requests:
            self._say((Unsubscribe if request.part is None else FetchCancel)(request.number), now)
            self._forget(request)

    def open_requests(self) -> list[Request]:
        """Return the requests that are not over."""
        return [*self._requests.values(), *self._waiting]

    def _send_waiting(self, now: int) -> None:
        while self.is_ready and self._waiting and self._next < self._limit:
            request = self._waiting.popleft()
            request.number, self._next = self._next, self._next + 2
            self._requests[request.number] = request
            if request.part is None:
                self._say(Subscribe(request.number, request.track), now)
            else:
                self._say(Fetch(request.number, request.track, *request.part), now)

    def _forget(self, request: Request) -> None:
        self._requests.pop(request.number, None)  # type: ignore[arg-type]
        if request.alias is not None:
            self._aliases.pop(request.alias, None)

    # --- Answers to the other side ---

    def grant(self, number: int, largest: Location | None, now: int) -> Outgoing:
        """Grant a subscription; return its stream of objects. The track's alias is the request's number."""
        self._say(SubscribeOk(number, number, largest), now)
        return Outgoing(Subgroup(number, 0))

    def grant_fetch(self, number: int, end: Location, now: int) -> Outgoing:
        """Grant a fetch; return its stream of objects."""
        self._say(FetchOk(number, end), now)
        return Outgoing(Fetched(number))

    def refuse(self, number: int, code: int, now: int, *, is_fetch: bool = False) -> None:
        """Refuse a request."""
        self._say(Failed(number, is_fetch, code), now)
        self.finish(number, now)

    def end(self, number: int, stream: Outgoing, code: int, now: int) -> None:
        """End a subscription of the other side."""
        self.reset(stream, now)
        self._say(PublishDone(number, code, int(stream.number is not None)), now)
        self.finish(number, now)

    def break_off(self, number: int, stream: Outgoing, now: int) -> None:
        """End a fetch of the other side that was granted, and cannot go on."""
        if stream.number is None:
            self._write(stream, b"", now)
        self.reset(stream, now)
        self.finish(number, now)

    def give(self, stream: Outgoing, location: Location, payload: bytes, now: int, *, is_last: bool) -> None:
        """Send an object."""
        said = encode_object(stream.head, stream.last, location, payload)
        self._write(stream, said, now, is_last=is_last)
        stream.last = location.object

    def _write(self, stream: Outgoing, said: bytes, now: int, *, is_last: bool = False) -> None:
        if stream.number is None:
            stream.number, self._stream = self._stream, self._stream + 4
            said = encode_head(stream.head) + said
        for record in frames.stream_frames(stream.number, stream.offset, said, is_last=is_last):
            self._put(record, now)
        stream.offset += len(said)

    def reset(self, stream: Outgoing, now: int) -> None:
        """End a stream early."""
        if stream.number is not None:
            self._put(frames.encode(Reset(stream.number, CANCELLED, stream.offset)), now)

    def finish(self, number: int, now: int) -> None:
        """Note that a request of the other side is over, and allow it more of them (9.5)."""
        if self.asked.pop(number, None) is None:
            return
        self._finished += 1
        allowed = 2 * (self._most + self._finished)
        if allowed - self._allowed >= self._most:
            self._allowed = allowed
            self._say(MaxRequestId(allowed), now)

    # --- The other side ---

    def receive(self, data: bytes, now: int) -> Iterator[Asked | Answer]:
        """Yield what the other side asks and answers. Raises ProtocolViolation."""
        self._heard_at = now
        for content, _ in self._incoming.receive(data):
            match content:
                case Parameters(idle_ms):
                    if idle_ms:
                        self._idle = max(min(self._idle, idle_ms * MS), _LEAST_IDLE)
                    if self._is_client:
                        self._say(Setup(True, (VERSION,), self._allowed), now)
                case Ping(number):
                    if not self.is_full:
                        self._put(frames.encode(Pong(number)), now)
                case Pong(number):
                    if number > self._pings:
                        raise ProtocolViolation("an answer to no ping")
                case Other():
                    pass
                case Setup():
                    self._set_up(content, now)
                case _ if not self.is_ready:
                    raise ProtocolViolation("SETUP is the first message")
                case MaxRequestId(requests):
                    if requests <= self._limit:
                        raise ProtocolViolation("a limit that does not rise")
                    self._limit = requests
                    self._send_waiting(now)
                case Subscribe() | Fetch():
                    yield self._accept(content)
                case Unsubscribe() | FetchCancel():
                    yield content
                case Unsupported():
                    self._decline(content, now)
                case _:
                    yield from self._answers(content)

    def _set_up(self, setup: Setup, now: int) -> None:
        if self.is_ready or setup.is_client == self._is_client:
            raise ProtocolViolation("SETUP comes once from each side")
        if VERSION not in setup.versions:
            raise ProtocolViolation("no version that both know")
        self.is_ready, self._limit = True, setup.requests
        if not self._is_client:
            self._say(Setup(False, (VERSION,), self._allowed), now)
        self._send_waiting(now)

    def _accept(self, asked: Subscribe | Fetch) -> Subscribe | Fetch:
        self._count(asked.request)
        self.asked[asked.request] = asked
        return asked

    def _decline(self, asked: Unsupported, now: int) -> None:
        if asked.request is None:
            return
        self._count(asked.request)
        self.asked[asked.request] = asked
        answer = refusal(asked)
        if answer is not None:
            self._say(answer, now)
        self.finish(asked.request, now)

    def _count(self, request: int) -> None:
        """Check the number of a request (9.1)."""
        if request != self._asks or request >= self._allowed:
            raise ProtocolViolation(f"Request ID {request}")
        self._asks += 2

    def _answers(self, content: object) -> Iterator[Answer]:
        match content:
            case Object(exists=False):
                pass  # feeds have no gaps, and do not end
            case Object(Subgroup(alias), location, payload) if alias in self._aliases:
                yield Given(self._aliases[alias], location, payload)
            case Object(Fetched(number), location, payload):
                request = self._request(number, is_fetch=True)
                if request is not None:
                    if request.part is None or not request.part[0] <= location < request.part[1]:
                        raise ProtocolViolation("an object that was not asked for")
                    yield Given(request, location, payload)
            case End(Fetched(number)):
                request = self._request(number, is_fetch=True)
                if request is not None:
                    yield self._over(request)
            case SubscribeOk(number, alias, largest):
                request = self._request(number, is_fetch=False)
                if request is not None:
                    if request.alias is not None or alias in self._aliases:
                        raise ProtocolViolation("an alias that is in use, or a second answer")
                    request.alias = alias
                    self._aliases[alias] = request
                    yield Granted(request, largest)
            case FetchOk(number, end):
                request = self._request(number, is_fetch=True)
                if request is not None:
                    if request.part is not None and end < request.part[0]:
                        raise ProtocolViolation("the answer to a fetch ends before it begins")
                    yield Granted(request, end)
            case Failed(number, is_fetch):
                request = self._request(number, is_fetch=is_fetch)
                if request is not None:
                    yield self._over(request)
            case Declined():
                raise ProtocolViolation("an answer to no request")
            case PublishDone(number):
                request = self._request(number, is_fetch=False)
                if request is not None:
                    yield self._over(request)

    def _over(self, request: Request) -> Over:
        self._forget(request)
        return Over(request)

    def _request(self, number: int, *, is_fetch: bool) -> Request | None:
        """Return a request of this side; None if it was taken back. Raises ProtocolViolation for none."""
        if number >= self._next or number % 2 != self._next % 2:
            raise ProtocolViolation(f"an answer to request {number}, which is none")
        found = self._requests.get(number)
        if found is not None and (found.part is not None) != is_fetch:
            raise ProtocolViolation(f"an answer of another kind to request {number}")
        return found

    def _say(self, message: Message, now: int) -> None:
        said = encode(message)
        for record in frames.stream_frames(CONTROL, self._offset, said, is_last=False):
            self._put(record, now)
        self._offset += len(said)

    def _put(self, record: bytes, now: int) -> None:
        self.out += record
        self._said_at = now
