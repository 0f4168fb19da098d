"""Base of all TLV layers: elements are found by type, lengths are computed, damaged bytes become Raw.

NDN packet format 0.3, "Considerations for Evolvability": recognised elements have a fixed order; one that is
unknown or out of order is ignored if its type is even and above 31, otherwise the packet is malformed.
"""

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

from scapy.base_classes import Packet_metaclass
from scapy.compat import raw
from scapy.config import conf
from scapy.fields import ConditionalField
from scapy.layers.inet import TCP, UDP
from scapy.packet import Packet

from captures.dissectors.fields import FixedBytes, Name, Repeated, Tlv, Unrecognised
from forwarder.wire.name import NAME
from forwarder.wire.tlv import MalformedPacket, check_ignorable, element, elements, read_header

_Element = TypeVar("_Element", bound="Element")

LAYERS: dict[int, Any] = {}
"""Layers of whole packets, by TLV type; each registers itself, so one may contain another defined later."""

SHOWN: dict[str, Tlv] = {}
"""Fields of all layers, by their names in Wireshark."""


def shown_if_set(*fields: Tlv | Unrecognised | FixedBytes) -> list[Any]:
    """Return the fields for a `fields_desc`; `show()` omits unset ones."""
    return [ConditionalField(field, _has(field)) for field in fields]


def _has(field: Tlv | Unrecognised | FixedBytes) -> Any:
    return lambda packet: field.is_set(packet.getfieldval(field.name))


class _ElementClass(Packet_metaclass):
    """Metaclass that adds a table of fields, and a dispatch_hook, since Scapy ignores inherited ones."""

    def __new__(mcs, name: str, bases: Any, dct: dict[str, Any]) -> Any:
        if "guarded" in dct and "dispatch_hook" not in dct:
            dct["dispatch_hook"] = classmethod(_raw_if_damaged)
        made: Any = super().__new__(mcs, name, bases, dct)
        if "guarded" in dct:
            LAYERS[made.TYPE] = made
        unwrapped = [getattr(field, "fld", field) for field in made.fields_desc]
        made.by_type = {
            field.kind: (rank, field) for rank, field in enumerate(unwrapped) if isinstance(field, Tlv)
        }
        SHOWN.update({field.shown: getattr(field, "one", field) for _, field in made.by_type.values()})
        made.titles = {field.name: field.title for _, field in made.by_type.values()}
        return made


def _raw_if_damaged(cls: Any, _pkt: Any = b"", *_args: Any, **options: Any) -> Any:
    """Choose Raw for bytes that are not one packet of this class (Scapy's dispatch_hook)."""
    if not _pkt:
        return cls
    try:
        data = raw(_pkt)
        kind, start, end = read_header(data, 0, len(data))
        under = options.get("_underlayer")
        if kind != cls.TYPE or (end != len(data) and isinstance(under, UDP | TCP | Element)):
            return conf.raw_layer
        cls.decode(data[start:end])
    except MalformedPacket:
        return conf.raw_layer
    return cls


class Element(Packet, metaclass=_ElementClass):
    """A TLV element as a Scapy layer; a subclass lists its fields in their required order.

    Class attributes:
        TYPE: TLV-TYPE; None for a sequence of elements without a header around them.
        REQUIRED: names of required fields.
        EXACT: whether all other elements are malformed.
        guarded: if set in a class, damaged bytes become Raw and do not raise.
        describe: returns a packet's summary line; captures.dissectors.summary sets it.
    """

    TYPE: ClassVar[int | None] = None
    REQUIRED: ClassVar[tuple[str, ...]] = ()
    EXACT: ClassVar[bool] = False
    describe: ClassVar[Callable[[Packet], str]]
    by_type: ClassVar[dict[int, tuple[int, Tlv]]] = {}
    titles: ClassVar[dict[str, str]] = {}

    @classmethod
    def decode(cls, value: bytes) -> dict[str, Any]:
        """Return the fields in a TLV-VALUE; raise MalformedPacket."""
        fields: dict[str, Any] = {}
        ignored: list[tuple[int, bytes]] = []
        seen: set[int] = set()
        last, is_first = -1, True
        if cls.REQUIRED[:1] == ("name",) and value[:1] != bytes((NAME,)):
            raise MalformedPacket("without Name")
        for kind, start, end in elements(value, 0, len(value)):
            rank, field = cls.field_of(kind, value[start:end])
            if field is None or not cls._fits(field, rank, last, seen, is_first):
                check_ignorable(kind, field is not None)
                ignored.append((kind, value[start:end]))
            elif field.anywhere and not cls.recognises(field, value[start:end], fields):
                ignored.append((kind, value[start:end]))
            elif isinstance(field, Repeated):
                fields.setdefault(field.name, []).append(field.decode(value[start:end]))
                last = rank
            else:
                fields[field.name] = field.decode(value[start:end])
                last = last if field.anywhere else rank
            is_first = False
            seen.add(kind)
        for name in cls.REQUIRED:
            if name not in fields:
                raise MalformedPacket(f"without {cls.titles[name]}")
        if ignored and cls.EXACT:
            raise MalformedPacket("elements that do not belong there")
        if ignored:
            fields["ignored"] = ignored
        return fields

    @classmethod
    def _fits(cls, field: Tlv, rank: int, last: int, seen: set[int], is_first: bool) -> bool:
        if isinstance(field, Name):
            return is_first
        if field.anywhere:
            return field.kind not in seen
        return rank > last or (rank == last and isinstance(field, Repeated))

    @classmethod
    def field_of(cls, kind: int, value: bytes) -> tuple[int, Tlv | None]:
        """Return the field for an element, with its index in the order; (-1, None) without one."""
        return cls.by_type.get(kind, (-1, None))

    @classmethod
    def recognises(cls, field: Tlv, value: bytes, fields: dict[str, Any]) -> bool:
        """Return whether an element is NDN's: types from 240 are free for any application.

        `fields` are those before it.
        """
        return True

    @classmethod
    def of(cls: type[_Element], value: bytes, **options: Any) -> _Element:
        """Return the layer for a TLV-VALUE, without its header; raise MalformedPacket."""
        packet = cls()
        packet._fill(value if cls.TYPE is None else element(cls.TYPE, value), cls.decode(value, **options))
        return packet

    def _fill(self, wire: bytes, fields: dict[str, Any]) -> None:
        self.fields.update(fields)
        # Dissected bytes are rebuilt unchanged, also with non-minimal encodings, until a field changes. Lists
        # and packets can change in place and are compared.
        self.raw_packet_cache = wire
        self.raw_packet_cache_fields = {
            name: self._raw_packet_cache_field_value(self.get_field(name), value, copy=True)
            for name, value in fields.items()
            if isinstance(value, list | Packet)
        }
        self.explicit = 1

    def do_dissect(self, s: bytes) -> bytes:
        """Dissect the element at the beginning of `s`; return the rest."""
        start, end = 0, len(s)
        if self.TYPE is not None:
            kind, start, end = read_header(s, 0, len(s))
            if kind != self.TYPE:
                raise MalformedPacket(f"not of type {self.TYPE}")
        self._fill(s[:end], self.decode(s[start:end]))
        return s[end:]

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes | None]:
        """Return this layer's payload (none), and the rest."""
        return b"", s

    def self_build(self) -> bytes:
        """Return the element, its length computed."""
        if self.raw_packet_cache is not None:
            built = super().self_build()
            if self.raw_packet_cache is not None:
                return built
        parts = self._parts()
        self.complete(parts)
        body = b"".join(parts.values())
        return body if self.TYPE is None else element(self.TYPE, body)

    def _parts(self) -> dict[str, bytes]:
        return {
            field.name: field.addfield(self, b"", self.getfieldval(field.name)) for field in self.fields_desc
        }

    def complete(self, parts: dict[str, bytes]) -> None:
        """Compute derived fields that were not given, from the others (encoded, by name)."""


class Nested(Tlv):
    """A nested element with a layer class of its own."""

    __slots__ = ["layer", "options"]

    holds_packets = 1

    def __init__(self, name: str, layer: type[Element], kind: int | None = None, **options: Any) -> None:
        number = layer.TYPE if kind is None else kind
        assert number is not None
        super().__init__(name, number)
        self.layer = layer
        self.options = options

    def decode(self, value: bytes) -> Any:
        return self.layer.of(value, **self.options)

    def addfield(self, pkt: Packet | None, s: bytes, val: Any) -> bytes:
        if val is None:
            return s
        return s + (element(self.kind, bytes(val)) if self.layer.TYPE is None else bytes(val))

    def any2i(self, pkt: Packet | None, x: Any) -> Any:
        return x

    def i2repr(self, pkt: Packet | None, x: Any) -> str:
        return repr(x)
