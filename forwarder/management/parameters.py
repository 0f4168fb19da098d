"""ControlParameters and ControlResponse (NFD management protocol, ControlCommand).

Fields are written in the order of the protocol's grammar, which python-ndn insists on, and read in any, since
ndn-cxx writes them in another. python-ndn's own models cannot read that: they are not used here.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from forwarder.wire.name import NAME, prefix_ends
from forwarder.wire.tlv import (
    MalformedPacket,
    check_ignorable,
    element,
    elements,
    nni,
    read_header,
    read_nni,
)

CONTROL_PARAMETERS = 0x68
CONTROL_RESPONSE = 0x65
_STATUS_CODE = 0x66
_STATUS_TEXT = 0x67

FACE_ID = 0x69
COST = 0x6A
STRATEGY = 0x6B
FLAGS = 0x6C
EXPIRATION_PERIOD = 0x6D
ORIGIN = 0x6F
MASK = 0x70
URI = 0x72
LOCAL_URI = 0x81
CAPACITY = 0x83
COUNT = 0x84
FACE_PERSISTENCY = 0x85
MARKING_INTERVAL = 0x87
MARKING_THRESHOLD = 0x88
MTU = 0x89


@dataclass(slots=True)
class ControlParameters:
    """Parameters of a command or of its response; None if absent.

    Attributes:
        name: a prefix.
        face: FaceId.
        uri, local_uri: FaceUris.
        origin, cost: of a route.
        capacity, count: Data packets.
        marking_interval: BaseCongestionMarkingInterval, ns.
        marking_threshold: DefaultCongestionThreshold, bytes.
        mtu: bytes.
        flags, mask: bits, and which of them apply.
        strategy: the name of one.
        expiration: ExpirationPeriod, ms.
        persistency: FacePersistency.
    """

    name: bytes | None = None
    face: int | None = None
    uri: str | None = None
    local_uri: str | None = None
    origin: int | None = None
    cost: int | None = None
    capacity: int | None = None
    count: int | None = None
    marking_interval: int | None = None
    marking_threshold: int | None = None
    mtu: int | None = None
    flags: int | None = None
    mask: int | None = None
    strategy: bytes | None = None
    expiration: int | None = None
    persistency: int | None = None

    def present(self) -> set[str]:
        """Return the names of the fields that are there."""
        return {field.name for field in fields(self) if getattr(self, field.name) is not None}

    def encode(self) -> bytes:
        """Return the element."""
        value = b"".join(
            element(kind, form.write(held))
            for kind, field, form in _FIELDS
            if (held := getattr(self, field)) is not None
        )
        return element(CONTROL_PARAMETERS, value)


class _Form(NamedTuple):
    """Encoding of a field's value."""

    read: Callable[[bytes], Any]
    write: Callable[[Any], bytes]


def _read_name(value: bytes) -> bytes:
    prefix_ends(value)
    return value


def read_text(value: bytes) -> str:
    """Read a string; raise MalformedPacket if it is not UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise MalformedPacket("a string is UTF-8") from error


def _read_strategy(value: bytes) -> bytes:
    kind, start, end = read_header(value, 0, len(value))
    if kind != NAME:
        raise MalformedPacket("a Strategy holds a Name")
    return _read_name(value[start:end])


_A_NAME = _Form(_read_name, bytes)
_A_NUMBER = _Form(read_nni, nni)
_A_TEXT = _Form(read_text, str.encode)
_A_STRATEGY = _Form(_read_strategy, lambda name: element(NAME, name))

_FIELDS: tuple[tuple[int, str, _Form], ...] = (
    (NAME, "name", _A_NAME),
    (FACE_ID, "face", _A_NUMBER),
    (URI, "uri", _A_TEXT),
    (LOCAL_URI, "local_uri", _A_TEXT),
    (ORIGIN, "origin", _A_NUMBER),
    (COST, "cost", _A_NUMBER),
    (CAPACITY, "capacity", _A_NUMBER),
    (COUNT, "count", _A_NUMBER),
    (MARKING_INTERVAL, "marking_interval", _A_NUMBER),
    (MARKING_THRESHOLD, "marking_threshold", _A_NUMBER),
    (MTU, "mtu", _A_NUMBER),
    (FLAGS, "flags", _A_NUMBER),
    (MASK, "mask", _A_NUMBER),
    (STRATEGY, "strategy", _A_STRATEGY),
    (EXPIRATION_PERIOD, "expiration", _A_NUMBER),
    (FACE_PERSISTENCY, "persistency", _A_NUMBER),
)
_BY_KIND = {kind: (field, form) for kind, field, form in _FIELDS}


def parse_parameters(wire: bytes) -> ControlParameters:
    """Parse one ControlParameters element; raise MalformedPacket."""
    kind, at, end = read_header(wire, 0, len(wire))
    if kind != CONTROL_PARAMETERS or end != len(wire):
        raise MalformedPacket("not one ControlParameters element")
    parameters = ControlParameters()
    for kind, start, stop in elements(wire, at, end):
        if kind not in _BY_KIND:
            check_ignorable(kind)
            continue
        field, form = _BY_KIND[kind]
        if getattr(parameters, field) is not None:
            raise MalformedPacket(f"{field} is there twice")
        setattr(parameters, field, form.read(wire[start:stop]))
    return parameters


@dataclass(frozen=True)
class ControlResponse:
    """The response to a command.

    Attributes:
        code: StatusCode, 200 or an error's, as in HTTP.
        text: for people.
        body: the parameters as applied; None mostly if there are none.
    """

    code: int
    text: str
    body: ControlParameters | None = None

    def encode(self) -> bytes:
        """Return the element.

        Every answer has a body, be it empty: python-ndn crashes on an answer without.
        """
        body = ControlParameters() if self.body is None else self.body
        value = element(_STATUS_CODE, nni(self.code)) + element(_STATUS_TEXT, self.text.encode())
        return element(CONTROL_RESPONSE, value + body.encode())


def parse_response(wire: bytes) -> ControlResponse:
    """Parse one ControlResponse element; raise MalformedPacket."""
    kind, at, end = read_header(wire, 0, len(wire))
    if kind != CONTROL_RESPONSE or end != len(wire):
        raise MalformedPacket("not one ControlResponse element")
    code, text, body = 0, "", None
    for kind, start, stop in elements(wire, at, end):
        if kind == _STATUS_CODE:
            code = read_nni(wire[start:stop])
        elif kind == _STATUS_TEXT:
            text = read_text(wire[start:stop])
        elif kind == CONTROL_PARAMETERS:
            parameters = element(CONTROL_PARAMETERS, wire[start:stop])
            body = parse_parameters(parameters)
    return ControlResponse(code, text, body)
