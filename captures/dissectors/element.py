"""What all TLV layers share: elements are found by type, lengths are computed, damage is Raw.

NDN packet format 0.3, "Considerations for Evolvability": elements that are recognised stand in a given
order; one that is unknown or out of order is ignored if its type is even and above 31, and makes the packet
malformed otherwise.
"""

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

from scapy.base_classes import Packet_metaclass
from scapy.compat import raw
from scapy.config import conf
from scapy.fields import ConditionalField
from scapy.layers.inet import TCP, UDP
from scapy.packet import Packet

from captures.dissectors.fields import Ignored, Leading, Name, Repeated, Tlv
from forwarder.wire.name import NAME
from forwarder.wire.tlv import MalformedPacket, check_ignorable, element, elements, read_header

_Element = TypeVar("_Element", bound="Element")

LAYERS: dict[int, Any] = {}
"""Layers of whole packets, by TLV type: each enters itself, so one may hold another that is defined later."""


def shown_if_set(*fields: Tlv | Ignored | Leading) -> list[Any]:
    """Return the fields for a `fields_desc`; `show()` leaves out those that are not set."""
    return [ConditionalField(field, _has(field)) for field in fields]


def _has(field: Tlv | Ignored | Leading) -> Any:
    return lambda packet: field.is_set(packet.getfieldval(field.name))


class _ElementClass(Packet_metaclass):
    """Gives each class its table of fields, and a dispatch_hook of its own: Scapy asks no inherited one."""

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
    """A TLV element as a Scapy layer; a subclass gives its fields in the order that they must stand in.

    Class attributes:
        TYPE: TLV-TYPE; None for a sequence of elements without a header around them.
        REQUIRED: names of the fields that must be there.
        EXACT: whether it holds no other elements than these.
        guarded: if set in a class, its bytes become Raw when they are damaged, and do not raise.
        describe: returns the line for a packet in a list; captures.dissectors.summary sets it.
    """

    TYPE: ClassVar[int | None] = None
    REQUIRED: ClassVar[tuple[str, ...]] = ()
    EXACT: ClassVar[bool] = False
    describe: ClassVar[Callable[[Packet], str]]
    by_type: ClassVar[dict[int, tuple[int, Tlv]]] = {}
    titles: ClassVar[dict[str, str]] = {}

    @classmethod
    def decode(cls, value: bytes) -> dict[str, Any]:
        """Return the fields that a TLV-VALUE holds; raise MalformedPacket."""
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
            elif field.anywhere and not cls.heeds(field, value[start:end], fields):
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
        """Return the field for an element, with its place in the order; (-1, None) if there is none."""
        return cls.by_type.get(kind, (-1, None))

    @classmethod
    def heeds(cls, field: Tlv, value: bytes, fields: dict[str, Any]) -> bool:
        """Tell whether this element is ours: types from 240 are free for any application.

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
        # What was read is built again byte for byte, also where the sender chose another form, until a
        # field changes; those that hold lists and packets can change unseen and are compared.
        self.raw_packet_cache = wire
        self.raw_packet_cache_fields = {
            name: self._raw_packet_cache_field_value(self.get_field(name), value, copy=True)
            for name, value in fields.items()
            if isinstance(value, list | Packet)
        }
        self.explicit = 1

    def do_dissect(self, s: bytes) -> bytes:
        """Read the element that `s` begins with; return what follows it."""
        start, end = 0, len(s)
        if self.TYPE is not None:
            kind, start, end = read_header(s, 0, len(s))
            if kind != self.TYPE:
                raise MalformedPacket(f"not of type {self.TYPE}")
        self._fill(s[:end], self.decode(s[start:end]))
        return s[end:]

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes | None]:
        """Return what belongs to this layer (nothing), and what follows it."""
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
        """Compute what is derived from the other fields (encoded, by name) and was not given."""


class Nested(Tlv):
    """An element that is a layer of its own class."""

    __slots__ = ["layer", "options"]

    holds_packets = 1

    def __init__(self, name: str, layer: type[Element], kind: int | None = None, **options: Any) -> None:
        number = layer.TYPE if kind is None else kind
        assert number is not None
        super().__init__(name, number)
        self.layer = layer
        self.options = options

    def decode(self, value: bytes) -> Any:  # noqa: D102
        return self.layer.of(value, **self.options)

    def addfield(self, pkt: Packet | None, s: bytes, val: Any) -> bytes:  # noqa: D102
        if val is None:
            return s
        return s + (element(self.kind, bytes(val)) if self.layer.TYPE is None else bytes(val))

    def any2i(self, pkt: Packet | None, x: Any) -> Any:  # noqa: D102
        return x

    def i2repr(self, pkt: Packet | None, x: Any) -> str:  # noqa: D102
        return repr(x)
