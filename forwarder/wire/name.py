"""Names. A name is `bytes` here: the Name element's TLV-VALUE, its components' elements end to end.

That form hashes, compares and slices at the speed of bytes; prefixes are slices, and its byte order is
NDN's canonical order (type, then length, then value). The URI form is that of NDN packet format 0.3,
section "Name", with the marker components of the NDN naming conventions (revision 3).
"""

import re
from typing import Final
from urllib.parse import unquote_to_bytes

from forwarder.wire.tlv import CUT_SHORT, MalformedPacket, element, elements, nni, read_nni

NAME: Final = 7
IMPLICIT_DIGEST: Final = 1
PARAMETERS_DIGEST: Final = 2
GENERIC: Final = 8
KEYWORD: Final = 32
SEGMENT: Final = 50
BYTE_OFFSET: Final = 52
VERSION: Final = 54
TIMESTAMP: Final = 56
SEQUENCE: Final = 58

DIGEST_COMPONENT_BYTES: Final = 34
"""Size of an ImplicitSha256DigestComponent, header included."""

_DIGESTS: Final = {IMPLICIT_DIGEST: "sha256digest", PARAMETERS_DIGEST: "params-sha256"}
_NUMBERS: Final = {SEGMENT: "seg", BYTE_OFFSET: "off", VERSION: "v", TIMESTAMP: "t", SEQUENCE: "seq"}
_TYPES: Final = {text: kind for kind, text in (_DIGESTS | _NUMBERS).items()}
_UNRESERVED: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~")
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,19}")
_DIGEST: Final = re.compile(r"[0-9A-Fa-f]{64}")
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")


def component(kind: int, value: bytes) -> bytes:
    """Encode one component."""
    return element(kind, value)


def components(name: bytes) -> list[tuple[int, bytes]]:
    """Split a name into the (type, value) of its components; raise MalformedPacket if it is not one."""
    parts = []
    for kind, start, end in elements(name, 0, len(name)):
        _check_component(kind, end - start)
        parts.append((kind, name[start:end]))
    return parts


def prefix_ends(name: bytes) -> list[int]:
    """Return the offset after each component: name[:ends[k]] is the prefix of k + 1 components."""
    ends = []
    at, size = 0, len(name)
    try:
        while at < size:
            kind, length = name[at], name[at + 1]
            if PARAMETERS_DIGEST < kind < 253 and length < 253:
                at += 2 + length
                ends.append(at)
            else:
                break
    except IndexError:
        raise MalformedPacket(CUT_SHORT) from None
    if at < size:  # digests, and types or lengths of several bytes
        for kind, start, end in elements(name, at, size):
            _check_component(kind, end - start)
            ends.append(end)
        at = size
    if at != size:
        raise MalformedPacket(CUT_SHORT)
    return ends


def ends_with_digest(name: bytes) -> bool:
    """Return whether a name ends with an implicit digest.

    It reads the end only, so a component with the same bytes also counts; callers compare the digest itself.
    """
    return name[-DIGEST_COMPONENT_BYTES:-32] == b"\x01\x20"


def _check_component(kind: int, length: int) -> None:
    if not 1 <= kind <= 65535:
        raise MalformedPacket(f"name component of type {kind}")
    if kind <= PARAMETERS_DIGEST and length != 32:
        raise MalformedPacket(f"digest component of {length} bytes")


def to_uri(name: bytes) -> str:
    """Write a name as a URI."""
    return "".join("/" + _component_uri(kind, value) for kind, value in components(name)) or "/"


def _component_uri(kind: int, value: bytes) -> str:
    if kind in _DIGESTS:
        return f"{_DIGESTS[kind]}={value.hex()}"
    if kind in _NUMBERS and len(value) in (1, 2, 4, 8) and nni(read_nni(value)) == value:
        return f"{_NUMBERS[kind]}={read_nni(value)}"
    text = "".join(chr(b) if b in _UNRESERVED else f"%{b:02X}" for b in value)
    if not text.strip("."):
        text += "..."
    return text if kind == GENERIC else f"{kind}={text}"


def from_uri(uri: str) -> bytes:
    """Read a name from a URI (`ndn:` optional, authority ignored). Raises ValueError when it is not one."""
    path = uri.removeprefix("ndn:")
    if path.startswith("//"):
        _, _, path = path[2:].partition("/")
    path = path.removeprefix("/").removesuffix("/")
    return b"".join(_component_from_uri(part) for part in path.split("/")) if path else b""


def _component_from_uri(part: str) -> bytes:
    marker, equals, text = part.partition("=")
    if equals and marker in _TYPES:
        return _marked_component(part, _TYPES[marker], text)
    kind = GENERIC
    if not equals:
        text = part
    elif _NUMBER.fullmatch(marker):
        kind = int(marker)
    else:
        raise ValueError(f"{part!r}: unknown component type {marker!r}")
    if _BAD_ESCAPE.search(text):
        raise ValueError(f"{part!r}: a percent sign needs two hexadecimal digits after it")
    value = unquote_to_bytes(text)
    if not value.strip(b"."):
        if len(value) < 3:
            raise ValueError(f"{part!r}: a component of periods needs three more than it means")
        value = value[3:]
    _check_component(kind, len(value))
    return component(kind, value)


def _marked_component(part: str, kind: int, text: str) -> bytes:
    if kind in _DIGESTS:
        if not _DIGEST.fullmatch(text):
            raise ValueError(f"{part!r}: a digest has 64 hexadecimal digits")
        return component(kind, bytes.fromhex(text))
    if not _NUMBER.fullmatch(text) or int(text) >= 1 << 64:
        raise ValueError(f"{part!r}: not a number from 0 to 2**64 - 1")
    return component(kind, nni(int(text)))
