"""The module faces (NFD FaceMgmt): create, update, destroy; list, query, channels; face events."""

from collections.abc import Mapping, Sequence

from base.units import MS
from forwarder.management.module import Call, Command, Module, Refusal
from forwarder.management.parameters import (
    EXPIRATION_PERIOD,
    FACE_ID,
    FACE_PERSISTENCY,
    FLAGS,
    LOCAL_URI,
    MARKING_INTERVAL,
    MARKING_THRESHOLD,
    MTU,
    URI,
    ControlParameters,
    ControlResponse,
    read_text,
)
from forwarder.tables.face import CONTENT_STORE_FACE, INTERNAL_FACE, NULL_FACE, Face, Persistency
from forwarder.tables.face_system import (
    CONGESTION_MARKING,
    LOCAL_FIELDS,
    RELIABILITY,
    FaceEvent,
    FaceParameters,
    FaceSystem,
    Outcome,
)
from forwarder.wire.packet import LARGEST_PACKET
from forwarder.wire.tlv import MalformedPacket, check_ignorable, element, elements, nni, read_header, read_nni

_FACE_STATUS = 0x80
_CHANNEL_STATUS = 0x82
_URI_SCHEME = 0x83
_FACE_SCOPE = 0x84
_LINK_TYPE = 0x86
_QUERY_FILTER = 0x96
_EVENT = 0xC0
_EVENT_KIND = 0xC1

"""The reported MTU of a face without a limit, as in NFD."""

_WITHOUT_LINK = (CONTENT_STORE_FACE, NULL_FACE)
_PROPERTIES = frozenset({"persistency", "mtu", "marking_interval", "marking_threshold", "flags", "mask"})


class FacesModule(Module):
    """faces/create, faces/update, faces/destroy, faces/list, faces/query, faces/channels.

    Args:
        faces: all of the forwarder's.
        system: who makes and closes them.
    """

    name = "faces"

    def __init__(self, faces: Mapping[int, Face], system: FaceSystem) -> None:
        self._faces = faces
        self._system = system
        self.commands = {
            "create": Command(self._create, frozenset({"uri"}), _PROPERTIES | {"local_uri"}),
            "update": Command(self._update, frozenset(), _PROPERTIES | {"face"}),
            "destroy": Command(self._destroy, frozenset({"face"})),
        }
        self.datasets = {
            "list": self._list,
            "query": self._query,
            "channels": self._channels,
        }

    def _create(self, call: Call) -> None:
        def reply(outcome: Outcome) -> None:
            face = outcome.face
            body = None if face is None or outcome.code not in (200, 409) else _body(face, with_uris=True)
            call.reply(ControlResponse(outcome.code, outcome.text, body))

        self._system.create(_wanted(call.parameters), call.now, reply)

    def _update(self, call: Call) -> ControlResponse:
        number = call.own_face()
        if number not in self._faces:
            raise Refusal(404, f"there is no face {number}")
        outcome = self._system.update(number, _wanted(call.parameters), call.now)
        body = None
        if outcome.code == 200:
            body = _body(outcome.face or self._faces[number])
        elif outcome.rejected is not None:
            body = _rejected(outcome.rejected)
        return ControlResponse(outcome.code, outcome.text, body)

    def _destroy(self, call: Call) -> ControlResponse:
        number = call.parameters.face
        if not number:
            raise Refusal(400, "FaceId 0 is no face")
        if number == INTERNAL_FACE or number in _WITHOUT_LINK:
            raise Refusal(403, "the forwarder's own faces are not closed")
        self._system.destroy(number, call.now)
        return ControlResponse(200, "OK", ControlParameters(face=number))

    def _list(self, _rest: Sequence[tuple[int, bytes]], now: int) -> bytes:
        return b"".join(face_status(face, now) for face in list(self._faces.values()))

    def _query(self, rest: Sequence[tuple[int, bytes]], now: int) -> bytes:
        try:
            # By its place, not from the end: some queries have a digest after it.
            wanted = _parse_filter(rest[0][1] if rest else b"")
        except MalformedPacket as error:
            raise Refusal(400, f"malformed filter: {error}") from error
        return b"".join(
            face_status(face, now) for face in list(self._faces.values()) if _matches(face, wanted)
        )

    def _channels(self, _rest: Sequence[tuple[int, bytes]], _now: int) -> bytes:
        return b"".join(
            element(_CHANNEL_STATUS, element(LOCAL_URI, uri.encode())) for uri in self._system.channels()
        )


def _wanted(asked: ControlParameters) -> FaceParameters:
    """Raises Refusal if FacePersistency is none that there is."""
    try:
        persistency = None if asked.persistency is None else Persistency(asked.persistency)
    except ValueError as error:
        raise Refusal(400, f"there is no FacePersistency {asked.persistency}") from error
    return FaceParameters(
        uri=asked.uri,
        local_uri=asked.local_uri,
        persistency=persistency,
        mtu=asked.mtu,
        marking_interval=asked.marking_interval,
        marking_threshold=asked.marking_threshold,
        flags=asked.flags,
        mask=asked.mask,
    )


def flags_of(face: Face) -> int:
    """Return a face's Flags."""
    return (
        LOCAL_FIELDS * face.local_fields
        | RELIABILITY * face.is_reliable
        | CONGESTION_MARKING * face.is_marking
    )


def _body(face: Face, *, with_uris: bool = False) -> ControlParameters:
    return ControlParameters(
        face=face.number,
        uri=face.uri if with_uris else None,
        local_uri=face.local_uri if with_uris else None,
        persistency=int(face.persistency),
        mtu=_mtu(face),
        marking_interval=face.marking_interval,
        marking_threshold=face.marking_threshold,
        flags=flags_of(face),
    )


def _rejected(rejected: FaceParameters) -> ControlParameters:
    return ControlParameters(
        persistency=None if rejected.persistency is None else int(rejected.persistency),
        mtu=rejected.mtu,
        marking_interval=rejected.marking_interval,
        marking_threshold=rejected.marking_threshold,
        flags=rejected.flags,
        mask=rejected.mask,
    )


def _mtu(face: Face) -> int:
    return LARGEST_PACKET if face.mtu is None else min(face.mtu, LARGEST_PACKET)


def _properties(face: Face, expiration: bytes = b"") -> bytes:
    return b"".join(
        (
            element(FACE_ID, nni(face.number)),
            element(URI, face.uri.encode()),
            element(LOCAL_URI, face.local_uri.encode()),
            expiration,
            element(_FACE_SCOPE, nni(face.scope)),
            element(FACE_PERSISTENCY, nni(face.persistency)),
            element(_LINK_TYPE, nni(face.link_type)),
        )
    )


def face_status(face: Face, now: int) -> bytes:
    """Return a FaceStatus element."""
    expiration = b""
    if face.expiry is not None:
        expiration = element(EXPIRATION_PERIOD, nni(max(face.expiry - now, 0) // MS))
    marking = ((MARKING_INTERVAL, face.marking_interval), (MARKING_THRESHOLD, face.marking_threshold))
    numbers = (
        *(() if face.number in _WITHOUT_LINK else marking),
        (MTU, _mtu(face)),
        (0x90, face.in_interests),
        (0x91, face.in_data),
        (0x97, face.in_nacks),
        (0x92, face.out_interests),
        (0x93, face.out_data),
        (0x98, face.out_nacks),
        (0x94, face.in_bytes),
        (0x95, face.out_bytes),
        (FLAGS, flags_of(face)),
    )
    fields = b"".join(element(kind, nni(value)) for kind, value in numbers)
    return element(_FACE_STATUS, _properties(face, expiration) + fields)


def face_event(event: FaceEvent, face: Face) -> bytes:
    """Return a FaceEventNotification element."""
    kind = element(_EVENT_KIND, nni(event))
    return element(_EVENT, kind + _properties(face) + element(FLAGS, nni(flags_of(face))))


def _parse_filter(wire: bytes) -> dict[int, bytes]:
    """Return a FaceQueryFilter's fields by type; raise MalformedPacket."""
    kind, at, end = read_header(wire, 0, len(wire))
    if kind != _QUERY_FILTER or end != len(wire):
        raise MalformedPacket("not one FaceQueryFilter")
    wanted = {}
    for field, start, stop in elements(wire, at, end):
        value = wire[start:stop]
        if field in (URI, LOCAL_URI, _URI_SCHEME):
            read_text(value)
        elif field in (FACE_ID, _FACE_SCOPE, FACE_PERSISTENCY, _LINK_TYPE):
            read_nni(value)
        else:
            check_ignorable(field)
            continue
        wanted[field] = value
    return wanted


def _matches(face: Face, wanted: Mapping[int, bytes]) -> bool:
    numbers = {
        FACE_ID: face.number,
        _FACE_SCOPE: face.scope,
        FACE_PERSISTENCY: face.persistency,
        _LINK_TYPE: face.link_type,
    }
    texts = {
        URI: {face.uri},
        LOCAL_URI: {face.local_uri},
        _URI_SCHEME: {_scheme(face.uri), _scheme(face.local_uri)},
    }
    return all(
        read_nni(value) == numbers[field] if field in numbers else value.decode() in texts[field]
        for field, value in wanted.items()
    )


def _scheme(uri: str) -> str:
    return uri.partition("://")[0]
