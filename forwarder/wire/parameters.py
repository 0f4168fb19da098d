"""Interests with ApplicationParameters (NDN packet format 0.3, section "Interest").

Their names end with a ParametersSha256DigestComponent, the digest of all from ApplicationParameters on.
"""

import hashlib
from collections.abc import Sequence
from typing import Final

from forwarder.wire.name import NAME, PARAMETERS_DIGEST, component
from forwarder.wire.packet import INTEREST, Interest
from forwarder.wire.tlv import element, elements, nni, read_header

_MUST_BE_FRESH: Final = 18
_FORWARDING_HINT: Final = 30
_NONCE: Final = 10
_LIFETIME: Final = 12
_HOP_LIMIT: Final = 34
_PARAMETERS: Final = 36


def make_interest_with_parameters(
    name: bytes,
    parameters: bytes,
    *,
    nonce: int,
    lifetime_ms: int,
    hop_limit: int,
    must_be_fresh: bool = False,
    forwarding_hint: Sequence[bytes] = (),
) -> bytes:
    """Build an Interest; the digest is appended to `name`."""
    tail = element(_PARAMETERS, parameters)
    full = name + component(PARAMETERS_DIGEST, hashlib.sha256(tail).digest())
    hint = b"".join(element(NAME, delegation) for delegation in forwarding_hint)
    fields = (
        element(NAME, full),
        element(_MUST_BE_FRESH) if must_be_fresh else b"",
        element(_FORWARDING_HINT, hint) if hint else b"",
        element(_NONCE, nonce.to_bytes(4, "big")),
        element(_LIFETIME, nni(lifetime_ms)),
        element(_HOP_LIMIT, bytes((hop_limit,))),
        tail,
    )
    return element(INTEREST, b"".join(fields))


def parameters_of(interest: Interest) -> bytes | None:
    """Return an Interest's ApplicationParameters; None if there are none, or its name has another digest."""
    wire = interest.wire
    _, at, size = read_header(wire, 0, len(wire))
    for kind, start, end in elements(wire, at, size):
        if kind == _PARAMETERS:
            digest = component(PARAMETERS_DIGEST, hashlib.sha256(wire[at:size]).digest())
            return wire[start:end] if interest.name.endswith(digest) else None
        at = end
    return None
