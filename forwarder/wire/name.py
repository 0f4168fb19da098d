"""Names. A name is `bytes` here: the Name element's TLV-VALUE, its components' elements end to end.

That form hashes, compares and slices at the speed of bytes; prefixes are slices, and its byte order is
NDN's canonical order (type, then length, then value). The URI form is that of NDN packet format 0.3,
section "Name", with the marker components of the NDN naming conventions (revision 3).
"""

import re
from urllib.parse import unquote_to_bytes

from forwarder.wire.tlv import MalformedPacket, element, elements, nni, read_nni

NAME = 7
IMPLICIT_DIGEST = 1
PARAMETERS_DIGEST = 2
GENERIC = 8
KEYWORD = 32
SEGMENT = 50
BYTE_OFFSET = 52
VERSION = 54
TIMESTAMP = 56
SEQUENCE = 58

DIGEST_COMPONENT_BYTES = 34
"""Size of an ImplicitSha256DigestComponent, header included."""

_DIGESTS = {IMPLICIT_DIGEST: "sha256digest", PARAMETERS_DIGEST: "params-sha256"}
_NUMBERS = {SEGMENT: "seg", BYTE_OFFSET: "off", VERSION: "v", TIMESTAMP: "t", SEQUENCE: "seq"}
_TYPES = {text: kind for kind, text in (_DIGESTS | _NUMBERS).items()}
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~")
_TYPED = re.compile(r"([A-Za-z0-9-]+)=(.*)", re.DOTALL)


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
            if kind in (GENERIC, SEQUENCE) and length < 253:
                at += 2 + length
                ends.append(at)
            else:
                break
    except IndexError:
        raise MalformedPacket(f"name cut short at byte {at}") from None
    if at < size:  # the rare component types and sizes
        for kind, start, end in elements(name, at, size):
            _check_component(kind, end - start)
            ends.append(end)
        at = size
    if at != size:
        raise MalformedPacket(f"component runs past the name's {size} bytes")
    return ends


def ends_with_digest(name: bytes) -> bool:
    """Tell whether a name ends with an implicit digest.

    Looks at the end only, so a component that happens to hold the same bytes also counts; whoever acts
    on the answer compares the digest itself.
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
    """Read a name from a URI (`ndn:` optional). Raises ValueError when it is not one."""
    path = uri.removeprefix("ndn:").strip("/")
    return b"".join(_component_from_uri(part) for part in path.split("/")) if path else b""


def _component_from_uri(part: str) -> bytes:
    kind, text = GENERIC, part
    if typed := _TYPED.fullmatch(part):
        marker, text = typed.groups()
        kind = _TYPES.get(marker) or (int(marker) if marker.isdecimal() else 0)
        if not 1 <= kind <= 65535:
            raise ValueError(f"{part!r}: unknown component type {marker!r}")
        if marker in _TYPES:
            value = bytes.fromhex(text) if kind in _DIGESTS else nni(int(text))
            _check_component(kind, len(value))
            return component(kind, value)
    if text and not text.strip("."):
        if len(text) < 3:
            raise ValueError(f"{part!r}: a component of periods needs three more than it means")
        text = text[3:]
    value = unquote_to_bytes(text)
    _check_component(kind, len(value))
    return component(kind, value)
