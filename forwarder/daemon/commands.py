"""Signed commands of the management, made in one piece: signing by digest takes no key."""

import hashlib

from forwarder.wire.name import GENERIC, NAME, PARAMETERS_DIGEST, component, from_uri
from forwarder.wire.packet import INTEREST
from forwarder.wire.tlv import element, nni

_NONCE = 10
_LIFETIME = 12
_PARAMETERS = 36
_SIGNATURE_INFO = 44
_SIGNATURE_VALUE = 46
_SIGNATURE_TYPE = 27
_SIGNATURE_NONCE = 38
_SIGNATURE_TIME = 40
CONTROL_PARAMETERS = 0x68
LOCALHOST = from_uri("/localhost/nfd")


def command(
    verb: bytes,
    parameters: bytes,
    *,
    nonce: int,
    time_ms: int,
    prefix: bytes = LOCALHOST,
    payload: bytes = b"",
    lifetime_ms: int = 1000,
) -> bytes:
    """Build a command Interest (NDN packet format 0.3, "Signed Interest"), signed by its SHA-256.

    `verb` is the name of module and verb, `parameters` a ControlParameters element, or empty; `time_ms` since
    1970.
    """
    name = prefix + verb + (component(GENERIC, parameters) if parameters else b"")
    info = element(_SIGNATURE_TYPE, nni(0)) + element(_SIGNATURE_NONCE, nonce.to_bytes(8, "big"))
    tail = element(_PARAMETERS, payload) + element(
        _SIGNATURE_INFO, info + element(_SIGNATURE_TIME, nni(time_ms))
    )
    tail += element(_SIGNATURE_VALUE, hashlib.sha256(name + tail).digest())
    name += component(PARAMETERS_DIGEST, hashlib.sha256(tail).digest())
    fields = element(NAME, name) + element(_NONCE, (nonce & 0xFFFFFFFF).to_bytes(4, "big"))
    return element(INTEREST, fields + element(_LIFETIME, nni(lifetime_ms)) + tail)


def register(prefix: bytes, *, nonce: int, time_ms: int) -> bytes:
    """Build the command that asks for the Interests under a prefix."""
    parameters = element(CONTROL_PARAMETERS, element(NAME, prefix))
    return command(from_uri("/rib/register"), parameters, nonce=nonce, time_ms=time_ms)
