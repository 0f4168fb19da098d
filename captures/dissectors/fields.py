"""Scapy fields for TLV elements: each is one element of an NDN packet with its header; an unset one is
absent.

A field decodes a TLV-VALUE into a readable value (a number, bytes, a name's URI), raising MalformedPacket,
and encodes it again. :class:`Element` in :mod:`captures.dissectors.element` finds its element by type.
"""

from collections.abc import Mapping
from typing import Any

from scapy.fields import Field
from scapy.packet import Packet
from scapy.volatile import VolatileValue

from forwarder.wire.evidence import Evidence, decode_evidence, encode_evidence
from forwarder.wire.name import NAME, component, components, from_uri, prefix_ends, to_uri
from forwarder.wire.tlv import MalformedPacket, check_ignorable, element, elements, nni, read_nni


class Tlv(Field[Any, Any]):
    """An element with a value of plain bytes; the base of the others.

    Args:
        name: the field's name.
        kind: TLV-TYPE.
        default: the default value; None omits the element.
        anywhere: whether the element is recognised at any position.
        sizes: allowed lengths of the value in bytes; None for all.
        shown: the field's name in Wireshark; empty for fields that are shown otherwise, or not.
    """

    __slots__ = ["anywhere", "kind", "shown", "sizes"]

    def __init__(
        self,
        name: str,
        kind: int,
        default: Any = None,
        *,
        anywhere: bool = False,
        sizes: range | None = None,
        shown: str = "",
    ) -> None:
        super().__init__(name, default, fmt="s")
        self.kind = kind
        self.anywhere = anywhere
        self.sizes = sizes
        self.shown = shown

    def decode(self, value: bytes) -> Any:
        """Return the field's value from a TLV-VALUE; raise MalformedPacket."""
        if self.sizes is not None and len(value) not in self.sizes:
            raise MalformedPacket(f"{self.title} of {len(value)} bytes")
        return value

    @property
    def title(self) -> str:
        """The element's name in the specifications: HopLimit for `hop_limit`."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    def encode(self, value: Any) -> bytes:
        """Return the TLV-VALUE for a field's value."""
        return value.encode() if isinstance(value, str) else bytes(value)

    def is_set(self, value: Any) -> bool:
        """Return whether a value makes an element."""
        return value is not None

    def addfield(self, pkt: Packet | None, s: bytes, val: Any) -> bytes:
        return s + element(self.kind, self.encode(val)) if self.is_set(val) else s

    def any2i(self, pkt: Packet | None, x: Any) -> Any:
        return x.encode() if isinstance(x, str) else x

    def i2repr(self, pkt: Packet | None, x: Any) -> str:
        is_text = not isinstance(x, bytes) or (x.isascii() and x.decode().isprintable())
        return repr(x) if is_text else x.hex()


class Number(Tlv):
    """A NonNegativeInteger; `names` maps numbers to names, which are accepted as values, too."""

    __slots__ = ["names"]

    def __init__(
        self,
        name: str,
        kind: int,
        default: Any = None,
        *,
        names: Mapping[int, str] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(name, kind, default, **options)
        self.names = names or {}

    def decode(self, value: bytes) -> Any:
        return read_nni(value)

    def encode(self, value: Any) -> bytes:
        return nni(value)

    def any2i(self, pkt: Packet | None, x: Any) -> Any:
        if isinstance(x, str):
            by_name = {name: number for number, name in self.names.items()}
            if x not in by_name:
                raise ValueError(f"{self.name} {x!r}: none of {', '.join(by_name)}")
            return by_name[x]
        return x

    def i2repr(self, pkt: Packet | None, x: Any) -> str:
        return f"{x} ({self.names[x]})" if x in self.names else repr(x)


class Fixed(Tlv):
    """A number of exactly `size` bytes, big-endian."""

    __slots__ = ["size"]

    def __init__(self, name: str, kind: int, size: int, **options: Any) -> None:
        super().__init__(name, kind, sizes=range(size, size + 1), **options)
        self.size = size

    def decode(self, value: bytes) -> Any:
        return int.from_bytes(super().decode(value), "big")

    def encode(self, value: Any) -> bytes:
        return int(value).to_bytes(self.size, "big")

    def i2repr(self, pkt: Packet | None, x: Any) -> str:
        return repr(x) if self.size == 1 or isinstance(x, VolatileValue) else f"0x{x:0{2 * self.size}x}"


class Source(Tlv):
    """Evidence of a source: number, hops, whether the number is signed, and the signature if it is there."""

    def decode(self, value: bytes) -> Any:
        return decode_evidence(value)

    def encode(self, value: Any) -> bytes:
        return encode_evidence(value)

    def any2i(self, pkt: Packet | None, x: Any) -> Any:
        return x if x is None or isinstance(x, VolatileValue) else Evidence(*x)

    def i2repr(self, pkt: Packet | None, x: Any) -> str:
        return source_text(x) + (" signed" if x.is_signed else "")


class OptionalSource(Source):
    """Evidence that the sender has; () if none."""

    def decode(self, value: bytes) -> Any:
        return super().decode(value) if value else ()

    def encode(self, value: Any) -> bytes:
        return super().encode(value) if value else b""

    def any2i(self, pkt: Packet | None, x: Any) -> Any:
        return super().any2i(pkt, x) if x else x

    def i2repr(self, pkt: Packet | None, x: Any) -> str:
        return source_text(x)


def source_text(evidence: Evidence | tuple[()]) -> str:
    """Return evidence, or its absence, in a few characters."""
    return f"({evidence.number}, {evidence.hops})" if isinstance(evidence, Evidence) else "nothing"


class FixedBytes(Field[Any, Any]):
    """A fixed number of bytes before the elements."""

    __slots__ = ["size"]

    def __init__(self, name: str, size: int) -> None:
        super().__init__(name, bytes(size), fmt="s")
        self.size = size

    def is_set(self, value: Any) -> bool:
        """Return whether the bytes are present: always."""
        return True

    def addfield(self, pkt: Packet | None, s: bytes, val: Any) -> bytes:
        return s + bytes(val)

    def i2repr(self, pkt: Packet | None, x: Any) -> str:
        return bytes(x).hex()


class Flag(Tlv):
    """An empty element as a bool."""

    def __init__(self, name: str, kind: int, **options: Any) -> None:
        super().__init__(name, kind, False, sizes=range(1), **options)

    def decode(self, value: bytes) -> Any:
        super().decode(value)
        return True

    def encode(self, value: Any) -> bytes:
        return b""

    def is_set(self, value: Any) -> bool:
        return bool(value)


class Text(Tlv):
    """UTF-8 text, kept as bytes, since packets may contain any, and shown as text."""

    def i2repr(self, pkt: Packet | None, x: Any) -> str:
        return "\n".join(map(printable, bytes(x).decode(errors="backslashreplace").split("\n")))


def printable(text: str) -> str:
    """Return text in one line, with control characters escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def name_uri(name: Any) -> str:
    """Return a name's canonical URI, from any URI or the bytes of its components.

    Raises ValueError if it is no name.
    """
    return to_uri(bytes(name) if isinstance(name, bytes | bytearray) else from_uri(name))


class Name(Tlv):
    """A Name, as a URI; `nonempty` refuses the empty name."""

    __slots__ = ["nonempty"]

    def __init__(self, name: str, default: Any = None, *, nonempty: bool = False, shown: str = "") -> None:
        super().__init__(name, NAME, default, shown=shown)
        self.nonempty = nonempty

    def decode(self, value: bytes) -> Any:
        if self.nonempty and not value:
            raise MalformedPacket("empty Name")
        return to_uri(value)

    def encode(self, value: Any) -> bytes:
        return from_uri(value)

    def any2i(self, pkt: Packet | None, x: Any) -> Any:
        return x if x is None or isinstance(x, VolatileValue) else name_uri(x)

    def i2repr(self, pkt: Packet | None, x: Any) -> str:
        return str(x)


class Names(Tlv):
    """Names in one element, as a list of URIs."""

    islist = 1

    def decode(self, value: bytes) -> Any:
        names = []
        for kind, start, end in elements(value, 0, len(value)):
            if kind == NAME:
                names.append(to_uri(value[start:end]))
            else:
                check_ignorable(kind)
        return names

    def encode(self, value: Any) -> bytes:
        return b"".join(element(NAME, from_uri(name)) for name in value)

    def any2i(self, pkt: Packet | None, x: Any) -> Any:
        names = [x] if isinstance(x, str | bytes) else x
        return names if names is None else [name_uri(name) for name in names]

    def i2repr(self, pkt: Packet | None, x: Any) -> str:
        return " ".join(x)


class Component(Tlv):
    """One name component in an element, as in a URI: `seg=5`."""

    def decode(self, value: bytes) -> Any:
        if prefix_ends(value) != [len(value)]:
            raise MalformedPacket("not one name component")
        return to_uri(value)[1:]

    def encode(self, value: Any) -> bytes:
        return from_uri(value)

    def any2i(self, pkt: Packet | None, x: Any) -> Any:
        if x is None or isinstance(x, VolatileValue):
            return x
        parts = components(from_uri(x) if isinstance(x, str) else bytes(x))
        if len(parts) != 1:
            raise ValueError(f"{self.name} {x!r}: not one name component")
        return to_uri(component(*parts[0]))[1:]

    def i2repr(self, pkt: Packet | None, x: Any) -> str:
        return str(x)


class NestedNumber(Number):
    """A number in a nested element, as NackReason in Nack; 0 without it."""

    __slots__ = ["inner"]

    def __init__(self, name: str, kind: int, inner: int, *, names: Mapping[int, str], shown: str) -> None:
        super().__init__(name, kind, names=names, shown=shown)
        self.inner = inner

    def decode(self, value: bytes) -> Any:
        number = None
        for kind, start, end in elements(value, 0, len(value)):
            if kind == self.inner and number is None:
                number = read_nni(value[start:end])
            else:
                check_ignorable(kind, kind == self.inner)
        return 0 if number is None else number

    def encode(self, value: Any) -> bytes:
        return b"" if value == 0 else element(self.inner, nni(value))


class Repeated(Tlv):
    """An element that may occur several times, as a list of the values of `one`."""

    __slots__ = ["one"]

    islist = 1

    def __init__(self, one: Tlv) -> None:
        super().__init__(one.name, one.kind, [], shown=one.shown)
        self.one = one

    def decode(self, value: bytes) -> Any:
        return self.one.decode(value)

    def is_set(self, value: Any) -> bool:
        return bool(value)

    def addfield(self, pkt: Packet | None, s: bytes, val: Any) -> bytes:
        return s + b"".join(self.one.addfield(pkt, b"", each) for each in val or ())

    def any2i(self, pkt: Packet | None, x: Any) -> Any:
        return [] if x is None else [x] if isinstance(x, int | bytes | Packet) else list(x)


class Unrecognised(Field[Any, Any]):
    """Unrecognised elements: (type, value) pairs, built last."""

    islist = 1

    def __init__(self) -> None:
        super().__init__("ignored", [], fmt="s")

    def is_set(self, value: Any) -> bool:
        """Return whether there are any."""
        return bool(value)

    def addfield(self, pkt: Packet | None, s: bytes, val: Any) -> bytes:
        return s + b"".join(element(kind, value) for kind, value in val or ())

    def i2repr(self, pkt: Packet | None, x: Any) -> str:
        return ", ".join(f"type {kind}: {value.hex() or 'empty'}" for kind, value in x)
