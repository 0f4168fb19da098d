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
_JOINING: Final = (2, 3)
SUBGROUP: Final = 0x10
"""Type of a stream with a subgroup's objects: subgroup 0, without extensions (10.4.2)."""
_SUBGROUPS: Final = frozenset((*range(0x10, 0x16), *range(0x18, 0x1E)))
_EXTENSIONS, _SUBGROUP_ID = 1, 4  # what a subgroup's type says: objects have extensions, the head has an ID
_EXISTS: Final = 0
_MISSING: Final = frozenset((1, 3, 4))
"""Status of an object that does not exist, or of the end of a group or track (10.2.1.1)."""
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


_REFUSALS: Final = {0x02: None, 0x06: 0x08, 0x0D: 0x0F, 0x11: 0x13, 0x1D: 0x1F, Type.FETCH: Type.FETCH_ERROR}
"""Requests that are not supported, and the errors that answer them: SUBSCRIBE_UPDATE (none),
PUBLISH_NAMESPACE, TRACK_STATUS, SUBSCRIBE_NAMESPACE, PUBLISH, and a FETCH that joins a subscription."""
_NOTICES: Final = frozenset((0x09, 0x0C, 0x10, 0x14, 0x1A))
"""Other messages that are not: PUBLISH_NAMESPACE_DONE and _CANCEL, GOAWAY, UNSUBSCRIBE_NAMESPACE, and
REQUESTS_BLOCKED."""


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


class Unsupported(NamedTuple):
    """A message that is not supported; `request`: its Request ID, None if it is no request."""

    kind: int
    request: int | None


class Declined(NamedTuple):
    """The answer to an unsupported request; `kind`: its type."""

    kind: int
    request: int


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
    | Unsupported
    | Declined
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
        case Declined(kind, request):
            return _message(kind, integer(request) + integer(Code.NOT_SUPPORTED) + text(b""))
        case Unsupported():
            raise AssertionError("it is only read")


def refusal(unsupported: Unsupported) -> Declined | None:
    """Return the answer to an unsupported message, None if there is none (5)."""
    kind = _REFUSALS.get(unsupported.kind)
    return None if kind is None or unsupported.request is None else Declined(kind, unsupported.request)


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
            if (fetched := fields.integer()) in _JOINING:
                fields.rest()
                return Unsupported(kind, request)
            if fetched != _STANDALONE:
                raise ProtocolViolation(f"a fetch of type {fetched}")
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
    return _read_other(kind, fields)


def _read_other(kind: int, fields: Fields) -> Message:
    if kind in _REFUSALS.values():
        request = fields.integer()
        fields.integer()
        fields.text(_LONGEST_REASON)
        return Declined(kind, request)
    if kind not in _REFUSALS and kind not in _NOTICES:
        raise ProtocolViolation(f"a message of type {kind:#x}")
    request_or_none = fields.integer() if kind in _REFUSALS else None
    fields.rest()
    return Unsupported(kind, request_or_none)


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


def _message(kind: int, body: bytes) -> bytes:
    return integer(kind) + len(body).to_bytes(2) + body


def _track(track: Track) -> bytes:
    return integer(len(track.namespace)) + b"".join(map(text, track.namespace)) + text(track.name)


def _location(location: Location) -> bytes:
    return integer(location.group) + integer(location.object)


class Subgroup(NamedTuple):
    """The head of a stream with objects of a subscription; `is_extended`: they have extension headers."""

    alias: int
    group: int
    is_extended: bool = False


class Fetched(NamedTuple):
    """The head of a stream with fetched objects."""

    request: int


Head = Subgroup | Fetched


class Object(NamedTuple):
    """An object, and the head of its stream. If not `exists`, there is none at this location."""

    head: Head
    location: Location
    payload: bytes
    exists: bool = True


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
    if kind not in _SUBGROUPS:
        raise ProtocolViolation(f"a stream of type {kind:#x}")
    head = Subgroup(fields.integer(), fields.integer(), bool(kind & _EXTENSIONS))
    if kind & _SUBGROUP_ID:
        fields.integer()
    fields.byte()
    return head


def read_object(fields: Fields, head: Head, last: Location | None) -> Object:
    """Return the next object; `last` is where the one before it was. Raises as read_head()."""
    if isinstance(head, Fetched):
        group, _, number, _ = fields.integer(), fields.integer(), fields.integer(), fields.byte()
    else:
        delta = fields.integer()
        group, number = head.group, delta if last is None else last.object + delta + 1
    location = Location(group, number)
    if number > MOST or (last is not None and location <= last):
        raise ProtocolViolation("an object beyond the last number, or out of order")
    if isinstance(head, Fetched) or head.is_extended:
        fields.text(_LONGEST)
    payload = fields.text(LARGEST_OBJECT)
    status = _EXISTS if payload else fields.integer()
    if status != _EXISTS and status not in _MISSING:
        raise ProtocolViolation(f"an object with a status of {status}")
    return Object(head, location, payload, status == _EXISTS)
