"""Command Interests in both formats: their parameters, and their signed portion.

- NDN packet format 0.3, "Signed Interest": /<prefix>/<module>/<verb>/<ControlParameters>/<digest>, where the
  ParametersSha256DigestComponent covers the ApplicationParameters, InterestSignatureInfo and
  InterestSignatureValue after the name.
- The older command Interests of ndn-cxx: .../<ControlParameters>/<timestamp>/<nonce>/<SignatureInfo>/
  <SignatureValue>, everything in generic components.
"""

import hashlib
from dataclasses import dataclass

from forwarder.wire.name import GENERIC, NAME, PARAMETERS_DIGEST, component, components
from forwarder.wire.packet import Interest
from forwarder.wire.tlv import MalformedPacket, check_ignorable, elements, read_header, read_nni

_PARAMETERS = 36
_INTEREST_SIGNATURE_INFO = 44
_INTEREST_SIGNATURE_VALUE = 46
_TAIL = {_PARAMETERS, _INTEREST_SIGNATURE_INFO, _INTEREST_SIGNATURE_VALUE}
_SIGNATURE_INFO = 22
_SIGNATURE_VALUE = 23
_SIGNATURE_TYPE = 27
_KEY_LOCATOR = 28
_SIGNATURE_TIME = 40
_SIGNATURE_SEQUENCE = 42

_OLD_COMPONENTS = 4  # timestamp, nonce, SignatureInfo, SignatureValue


@dataclass(frozen=True)
class Signature:
    """The signature of a command.

    Attributes:
        kind: SignatureType.
        key: the name in the KeyLocator; None if there is none.
        time: when, ms since 1970; None if it does not say.
        sequence: SignatureSeqNum, or None.
        signed: the signed portion.
        value: the signature.
    """

    kind: int
    key: bytes | None
    time: int | None
    sequence: int | None
    signed: bytes
    value: bytes


@dataclass(frozen=True)
class Request:
    """An Interest for the management, taken apart.

    Attributes:
        interest: itself.
        parts: its name's components, (type, value) each.
        parameters: ApplicationParameters; None if there are none.
        signature: None if it is not signed.
    """

    interest: Interest
    parts: list[tuple[int, bytes]]
    parameters: bytes | None
    signature: Signature | None


def parse_request(interest: Interest) -> Request:
    """Parse a command Interest; raise MalformedPacket, also if its name lacks its parameters' digest."""
    parts = components(interest.name)
    wire = interest.wire
    _, at, size = read_header(wire, 0, len(wire))
    parameters = info = value = None
    signed_from = signed_to = 0
    for kind, start, end in elements(wire, at, size):
        # One before the parameters would be covered by neither digest nor signature.
        if kind in _TAIL and (parameters is None) != (kind == _PARAMETERS):
            raise MalformedPacket(f"element of type {kind} out of order")
        if kind == _PARAMETERS:
            parameters, signed_from = wire[start:end], at
        elif kind == _INTEREST_SIGNATURE_INFO:
            if info is not None or value is not None:
                raise MalformedPacket("InterestSignatureInfo repeated or out of order")
            info = wire[start:end]
        elif kind == _INTEREST_SIGNATURE_VALUE:
            if info is None or value is not None:
                raise MalformedPacket("InterestSignatureValue repeated or out of order")
            value, signed_to = wire[start:end], at
        at = end
    digests = [part for part in parts if part[0] == PARAMETERS_DIGEST]
    if parameters is None:
        if digests:
            raise MalformedPacket("a digest of ApplicationParameters that are not there")
        return Request(interest, parts, None, _old_signature(interest.name, parts))
    if digests != [(PARAMETERS_DIGEST, hashlib.sha256(wire[signed_from:size]).digest())]:
        raise MalformedPacket("ParametersSha256DigestComponent missing or wrong")
    if info is None:
        return Request(interest, parts, parameters, _old_signature(interest.name, parts))
    if value is None:
        raise MalformedPacket("half an Interest signature")
    name = b"".join(component(kind, part) for kind, part in parts if kind != PARAMETERS_DIGEST)
    kind, key, time, sequence = _parse_info(info)
    signature = Signature(kind, key, time, sequence, name + wire[signed_from:signed_to], value)
    return Request(interest, parts, parameters, signature)


def _old_signature(name: bytes, parts: list[tuple[int, bytes]]) -> Signature | None:
    """Read the four last components of an older command Interest; None if it is none."""
    last = parts[-_OLD_COMPONENTS:]
    if len(last) < _OLD_COMPONENTS or any(kind != GENERIC for kind, _ in last):
        return None
    time, _, info, value = (part for _, part in last)
    inside = _content(_SIGNATURE_INFO, info), _content(_SIGNATURE_VALUE, value)
    if inside[0] is None or inside[1] is None:
        return None
    kind, key, _, _ = _parse_info(inside[0])
    signed = name[: -len(component(GENERIC, value))]
    return Signature(kind, key, read_nni(time), None, signed, inside[1])


def _content(kind: int, wire: bytes) -> bytes | None:
    """Return the value of an element that is of a type and fills `wire`; None if it does not."""
    try:
        found, start, end = read_header(wire, 0, len(wire))
    except MalformedPacket:
        return None
    return wire[start:end] if found == kind and end == len(wire) else None


def parse_signature_info(info: bytes) -> tuple[int, bytes | None]:
    """Return SignatureType and KeyLocator's name of a SignatureInfo's value; raise MalformedPacket."""
    kind, key, _, _ = _parse_info(info)
    return kind, key


def _parse_info(info: bytes) -> tuple[int, bytes | None, int | None, int | None]:
    kind = key = time = sequence = None
    for field, start, end in elements(info, 0, len(info)):
        value = info[start:end]
        if field == _SIGNATURE_TYPE:
            kind = read_nni(value)
        elif field == _KEY_LOCATOR:
            key = _locator(value)
        elif field == _SIGNATURE_TIME:
            time = read_nni(value)
        elif field == _SIGNATURE_SEQUENCE:
            sequence = read_nni(value)
        elif field != _VALIDITY_PERIOD:
            check_ignorable(field)
    if kind is None:
        raise MalformedPacket("a SignatureInfo has a SignatureType")
    return kind, key, time, sequence


_VALIDITY_PERIOD = 253  # of a certificate


def _locator(value: bytes) -> bytes | None:
    """Return the name in a KeyLocator; None if it holds a digest."""
    if not value:
        return None
    kind, start, end = read_header(value, 0, len(value))
    if kind != NAME:
        return None
    components(value[start:end])
    return value[start:end]
