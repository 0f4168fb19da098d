"""Control messages and data streams of MOQT. Section numbers are those of draft-ietf-moq-transport-14."""

from enum import IntEnum
from typing import Final, NamedTuple

from ssb.moq.fields import MOST, Fields, Incomplete, ProtocolViolation, integer, text

VERSION: Final = 0xFF00000E
"""The draft's number (9.3.1)."""
LARGEST_OBJECT: Final = 1 << 16
"""Bytes of an object's payload, at most: ours, the draft has no limit."""
CONTROL: Final = 0
"""The stream of control messages, which the client opens."""

_LARGEST_NAME: Final = 4096  # of a full track name (2.4.1)
_MOST_FIELDS: Final = 32  # of a namespace
_LONGEST: Final = 0xFFFF  # a message, a value
_LONGEST_REASON: Final = 1024  # 1.4.3
_MAX_REQUEST_ID: Final = 0x02  # a setup parameter (9.3.2.3)
_PRIORITY: Final = b"\x80"
_ASCENDING: Final = 1
_STANDALONE: Final = 1
SUBGROUP: Final = 0x10
"""Type of a stream with a subgroup's objects: subgroup 0, without extensions (10.4.2)."""
FETCHED: Final = 0x05
"""Type of a stream with fetched objects (10.4.4)."""


class Type(IntEnum):
    """Types of control messages (9)."""

    SUBSCRIBE = 0x03
    SUBSCRIBE_OK = 0x04
    SUBSCRIBE_ERROR = 0x05
    UNSUBSCRIBE = 0x0A
    PUBLISH_DONE = 0x0B
    MAX_REQUEST_ID = 0x15
    FETCH = 0x16
    FETCH_CANCEL = 0x17
    FETCH_OK = 0x18
    FETCH_ERROR = 0x19
    CLIENT_SETUP = 0x20
    SERVER_SETUP = 0x21


class Filter(IntEnum):
    """Filters of subscriptions (9.7)."""

    NEXT_GROUP = 1
    LARGEST_OBJECT = 2
    ABSOLUTE_START = 3
    ABSOLUTE_RANGE = 4


class Code(IntEnum):
    """Why a request fails (9.9, 9.18), or a subscription ends (9.12: the first)."""

    INTERNAL_ERROR = 0x00
    TIMEOUT = 0x02
    NOT_SUPPORTED = 0x03
    TRACK_DOES_NOT_EXIST = 0x04
    INVALID_RANGE = 0x05


CANCELLED: Final = 0x01
"""Why a stream is reset (10.4.3)."""


class Track(NamedTuple):
    """A track's full name."""

    namespace: tuple[bytes, ...]
    name: bytes

    @property
    def size(self) -> int:
        """Its bytes, as the draft counts them."""
        return sum(map(len, self.namespace)) + len(self.name)


class Location(NamedTuple):
    """The place of an object in a track."""

    group: int
    object: int


class Setup(NamedTuple):
    """The first message of each side: versions that a client offers, or the one that a server chooses.

    `requests`: the least Request ID that the other side may not use yet.
    """

    is_client: bool
    versions: tuple[int, ...]
    requests: int


class MaxRequestId(NamedTuple):
    """A new limit of Request IDs."""

    requests: int


class Subscribe(NamedTuple):
    """A subscription to a track, with a filter; `is_forwarded`: objects are to be sent."""

    request: int
    track: Track
    filter: Filter = Filter.LARGEST_OBJECT
    start: Location | None = None
    end_group: int | None = None
    is_forwarded: bool = True


class SubscribeOk(NamedTuple):
    """The answer: the track's alias in data streams, and its largest object, None if there is none."""

    request: int
    alias: int
    largest: Location | None


class Unsubscribe(NamedTuple):
    """The end of a subscription."""

    request: int


class PublishDone(NamedTuple):
    """A subscription gets no more objects: why, and how many streams it had."""

    request: int
    code: int
    streams: int
    reason: bytes = b""


class Fetch(NamedTuple):
    """A request for objects from a location up to the one before another."""

    request: int
    track: Track
    start: Location
    end: Location


class FetchOk(NamedTuple):
    """The answer: the location after the last object that will come."""

    request: int
    end: Location


class FetchCancel(NamedTuple):
    """The end of a fetch."""

    request: int


class Failed(NamedTuple):
    """SUBSCRIBE_ERROR or FETCH_ERROR: a code and a reason."""

    request: int
    is_fetch: bool
    code: int
    reason: bytes = b""


Message = (
    Setup
    | MaxRequestId
    | Subscribe
    | SubscribeOk
    | Unsubscribe
    | PublishDone
    | Fetch
    | FetchOk
    | FetchCancel
    | Failed
)

NO_PARAMETERS: Final = b"\0"


def encode(message: Message) -> bytes:
    """Return a control message's bytes."""
    match message:
        case Setup(is_client, versions, requests):
            said = (integer(len(versions)) if is_client else b"") + b"".join(map(integer, versions))
            said += integer(1) + integer(_MAX_REQUEST_ID) + integer(requests)
            return _message(Type.CLIENT_SETUP if is_client else Type.SERVER_SETUP, said)
        case MaxRequestId(requests):
            return _message(Type.MAX_REQUEST_ID, integer(requests))
        case Subscribe(request, track, wanted, start, end_group, is_forwarded):
            said = integer(request) + _track(track) + _PRIORITY + bytes((_ASCENDING, is_forwarded))
            said += integer(wanted) + (b"" if start is None else _location(start))
            said += b"" if end_group is None else integer(end_group)
            return _message(Type.SUBSCRIBE, said + NO_PARAMETERS)
        case SubscribeOk(request, alias, largest):
            said = integer(request) + integer(alias) + integer(0) + bytes((_ASCENDING, largest is not None))
            said += b"" if largest is None else _location(largest)
            return _message(Type.SUBSCRIBE_OK, said + NO_PARAMETERS)
        case Unsubscribe(request):
            return _message(Type.UNSUBSCRIBE, integer(request))
        case PublishDone(request, code, streams, reason):
            said = integer(request) + integer(code) + integer(streams) + text(reason)
            return _message(Type.PUBLISH_DONE, said)
        case Fetch(request, track, start, end):
            said = integer(request) + _PRIORITY + bytes((_ASCENDING,)) + integer(_STANDALONE)
            said += _track(track) + _location(start) + _location(end)
            return _message(Type.FETCH, said + NO_PARAMETERS)
        case FetchOk(request, end):
            said = integer(request) + bytes((_ASCENDING, 0)) + _location(end)
            return _message(Type.FETCH_OK, said + NO_PARAMETERS)
        case FetchCancel(request):
            return _message(Type.FETCH_CANCEL, integer(request))
        case Failed(request, is_fetch, code, reason):
            said = integer(request) + integer(code) + text(reason)
            return _message(Type.FETCH_ERROR if is_fetch else Type.SUBSCRIBE_ERROR, said)


def read_message(fields: Fields) -> Message:
    """Return the next control message. Raises Incomplete, and ProtocolViolation for none."""
    kind = fields.integer()
    body = Fields(fields.take(int.from_bytes(fields.take(2))))
    try:
        message = _decoded(kind, body)
    except Incomplete:
        raise ProtocolViolation(f"a message of type {kind:#x} that ends early") from None
    if body:
        raise ProtocolViolation(f"bytes after a message of type {kind:#x}")
    return message


def _decoded(kind: int, fields: Fields) -> Message:
    match kind:
        case Type.CLIENT_SETUP | Type.SERVER_SETUP:
            return _read_setup(kind == Type.CLIENT_SETUP, fields)
        case Type.MAX_REQUEST_ID:
            return MaxRequestId(fields.integer())
        case Type.SUBSCRIBE:
            return _read_subscribe(fields)
        case Type.SUBSCRIBE_OK:
            request, alias, _ = fields.integer(), fields.integer(), fields.integer()
            _read_order(fields, least=1)
            largest = _read_location(fields) if _read_flag(fields) else None
            _read_parameters(fields)
            return SubscribeOk(request, alias, largest)
        case Type.UNSUBSCRIBE:
            return Unsubscribe(fields.integer())
        case Type.PUBLISH_DONE:
            numbers = fields.integer(), fields.integer(), fields.integer()
            return PublishDone(*numbers, fields.text(_LONGEST_REASON))
        case Type.FETCH:
            request, _ = fields.integer(), fields.byte()
            _read_order(fields)
            if fields.integer() != _STANDALONE:
                raise ProtocolViolation("a joining fetch, which is not supported")
            fetch = Fetch(request, _read_track(fields), _read_location(fields), _read_location(fields))
            _read_parameters(fields)
            return fetch
        case Type.FETCH_OK:
            request = fields.integer()
            _read_order(fields, least=1)
            _read_flag(fields)
            end = _read_location(fields)
            _read_parameters(fields)
            return FetchOk(request, end)
        case Type.FETCH_CANCEL:
            return FetchCancel(fields.integer())
        case Type.SUBSCRIBE_ERROR | Type.FETCH_ERROR:
            request, code = fields.integer(), fields.integer()
            return Failed(request, kind == Type.FETCH_ERROR, code, fields.text(_LONGEST_REASON))
    raise ProtocolViolation(f"a message of type {kind:#x}")


def _read_setup(is_client: bool, fields: Fields) -> Setup:
    count = fields.integer() if is_client else 1
    if count > _LONGEST:
        raise ProtocolViolation(f"{count} versions")
    versions = tuple(fields.integer() for _ in range(count))
    return Setup(is_client, versions, _read_parameters(fields).get(_MAX_REQUEST_ID, 0))


def _read_subscribe(fields: Fields) -> Subscribe:
    request, track, _ = fields.integer(), _read_track(fields), fields.byte()
    _read_order(fields)
    is_forwarded, number = _read_flag(fields), fields.integer()
    try:
        wanted = Filter(number)
    except ValueError:
        raise ProtocolViolation(f"a filter of type {number}") from None
    start = _read_location(fields) if wanted >= Filter.ABSOLUTE_START else None
    end_group = fields.integer() if wanted == Filter.ABSOLUTE_RANGE else None
    _read_parameters(fields)
    return Subscribe(request, track, wanted, start, end_group, is_forwarded)


def _read_track(fields: Fields) -> Track:
    count = fields.integer()
    if not 1 <= count <= _MOST_FIELDS:
        raise ProtocolViolation(f"a namespace of {count} fields")
    namespace = tuple(fields.text(_LARGEST_NAME) for _ in range(count))
    track = Track(namespace, fields.text(_LARGEST_NAME))
    if track.size > _LARGEST_NAME:
        raise ProtocolViolation(f"a track name of {track.size} bytes")
    return track


def _read_location(fields: Fields) -> Location:
    return Location(fields.integer(), fields.integer())


def _read_order(fields: Fields, least: int = 0) -> None:
    order = fields.byte()
    if not least <= order <= 2:
        raise ProtocolViolation(f"a group order of {order}")


def _read_flag(fields: Fields) -> bool:
    flag = fields.byte()
    if flag > 1:
        raise ProtocolViolation(f"a flag of {flag}")
    return bool(flag)


def _read_parameters(fields: Fields) -> dict[int, int]:
    """Read parameters (1.4.2): even ones are integers, which are returned, odd ones bytes."""
    found = {}
    for _ in range(min(fields.integer(), _LONGEST)):
        key = fields.integer()
        if key % 2:
            fields.text(_LONGEST)
        else:
            found[key] = fields.integer()
    return found


def _message(kind: Type, body: bytes) -> bytes:
    return integer(kind) + len(body).to_bytes(2) + body


def _track(track: Track) -> bytes:
    return integer(len(track.namespace)) + b"".join(map(text, track.namespace)) + text(track.name)


def _location(location: Location) -> bytes:
    return integer(location.group) + integer(location.object)


class Subgroup(NamedTuple):
    """The head of a stream with objects of a subscription."""

    alias: int
    group: int


class Fetched(NamedTuple):
    """The head of a stream with fetched objects."""

    request: int


Head = Subgroup | Fetched


class Object(NamedTuple):
    """An object, and the head of its stream."""

    head: Head
    location: Location
    payload: bytes


def encode_head(head: Head) -> bytes:
    """Return the head of a data stream."""
    if isinstance(head, Fetched):
        return integer(FETCHED) + integer(head.request)
    return integer(SUBGROUP) + integer(head.alias) + integer(head.group) + _PRIORITY


def encode_object(head: Head, last: int | None, location: Location, payload: bytes) -> bytes:
    """Return an object's bytes; `last` is the object before it in a subgroup's stream, None for none."""
    if isinstance(head, Fetched):
        said = integer(location.group) + integer(0) + integer(location.object) + _PRIORITY + integer(0)
    else:
        said = integer(location.object if last is None else location.object - last - 1)
    return said + text(payload) + (b"" if payload else integer(0))


def read_head(fields: Fields) -> Head:
    """Return the head of a data stream. Raises Incomplete, and ProtocolViolation for none."""
    kind = fields.integer()
    if kind == FETCHED:
        return Fetched(fields.integer())
    if kind != SUBGROUP:
        raise ProtocolViolation(f"a stream of type {kind:#x}")
    head = Subgroup(fields.integer(), fields.integer())
    fields.byte()
    return head


def read_object(fields: Fields, head: Head, last: int | None) -> Object:
    """Return the next object. Raises Incomplete, and ProtocolViolation for none."""
    if isinstance(head, Fetched):
        group, _, number, _ = fields.integer(), fields.integer(), fields.integer(), fields.byte()
        fields.text(_LONGEST)
    else:
        delta = fields.integer()
        group, number = head.group, delta if last is None else last + delta + 1
    if number > MOST:
        raise ProtocolViolation("an object beyond the last number")
    payload = fields.text(LARGEST_OBJECT)
    if not payload and fields.integer() != 0:
        raise ProtocolViolation("the status of an object that does not exist")
    return Object(head, Location(group, number), payload)
