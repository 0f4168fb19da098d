"""Scapy layers for tinySSB's packets over UDP 1558, each with its CRC-32.

    Ether() / IP(dst="239.5.5.8") / UDP() / TinyWant(demultiplexer=bytes(7), offset=0, wanted=[1, 4])

A packet's type follows from its form (`captures.layers.tiny`).
"""

import zlib
from collections.abc import Iterator
from typing import Any, Final

from scapy.config import conf
from scapy.fields import (
    ByteEnumField,
    ByteField,
    Field,
    StrFixedLenField,
    XIntField,
)
from scapy.layers.inet import UDP
from scapy.packet import Packet, bind_bottom_up, bind_top_down

from captures.layers.tiny import (
    CRC,
    DEMUX,
    POINTER,
    PORT,
    Content,
    command_of,
    content_of,
    kind_of,
    read_numbers,
    without_crc,
)
from ssb.bipf import encode


class _Numbers(Field[Any, Any]):
    """A list of numbers that takes all bytes before the CRC."""

    islist = 1  # or Scapy takes the list for alternatives

    def __init__(self, name: str, default: Any) -> None:
        super().__init__(name, default, fmt="s")

    def getfield(self, pkt: Packet, s: bytes) -> tuple[bytes, Any]:
        return s[-CRC:], read_numbers(s[:-CRC])

    def addfield(self, pkt: Packet, s: bytes, val: Any) -> bytes:
        return s + encode(val)

    def i2repr(self, pkt: Packet | None, x: Any) -> str:
        return repr(x)


class TinyPacket(Packet):
    """Base of tinySSB's packets: a CRC-32 at the end, computed if unset."""

    kind = ""

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        """Compute the CRC (Scapy's hook)."""
        if self.crc32 is None:
            pkt = pkt[:-CRC] + zlib.crc32(pkt[:-CRC]).to_bytes(CRC)
        return pkt + pay

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        """Take nothing for a payload (Scapy's hook)."""
        return b"", s

    @property
    def details(self) -> str:
        """The packet's summary."""
        return ""

    def mysummary(self) -> str:
        """Return the line for this packet."""
        return f"tinySSB {self.kind}{self.details}"


def _demultiplexer() -> StrFixedLenField:
    return StrFixedLenField("demultiplexer", bytes(DEMUX), DEMUX)


class TinyEntry(TinyPacket):
    """An entry: content of 48 bytes (type 0), or its length, its beginning and a pointer to the rest (1)."""

    name = "tinySSB entry"
    kind = "entry"
    fields_desc = [  # noqa: RUF012
        _demultiplexer(),
        ByteEnumField("type", 1, {0: "plain", 1: "with a side chain"}),
        StrFixedLenField("payload_bytes", bytes(48), 48),
        StrFixedLenField("signature", bytes(64), 64),
        XIntField("crc32", None),
    ]

    @property
    def content(self) -> Content:
        """Content of the entry, as far as this packet has it."""
        packet = bytes(self)[:-CRC]
        return content_of(packet) or Content(0, b"")

    @property
    def isp_command(self) -> str:
        """The tinyISP command in the entry, by its beginning; `tunnel` for an entry in an entry."""
        return command_of(bytes(self)[:-CRC])

    @property
    def details(self) -> str:
        length, chunks = self.content.length, self.content.chunks
        chain = f", {chunks} chunks" if chunks else ""
        return f" {self.demultiplexer.hex()} {self.isp_command or f'of {length} bytes'}{chain}"


class TinyChunk(TinyPacket):
    """A chunk of a side chain: content, and a pointer to the next chunk, zero in the last."""

    name = "tinySSB chunk"
    kind = "chunk"
    fields_desc = [  # noqa: RUF012
        StrFixedLenField("content", bytes(100), 100),
        StrFixedLenField("next_pointer", bytes(POINTER), POINTER),
        XIntField("crc32", None),
    ]

    @property
    def details(self) -> str:
        return ", the last" if not any(self.next_pointer) else ""


class TinyWant(TinyPacket):
    """A want vector: the next wanted entry of each feed of a set, from an offset on."""

    name = "tinySSB want vector"
    kind = "want"
    fields_desc = [_demultiplexer(), _Numbers("numbers", [0, 1]), XIntField("crc32", None)]  # noqa: RUF012

    @property
    def details(self) -> str:
        offset, *wanted = self.numbers
        return f" of {len(wanted)} feeds from {offset}"


class TinyChunkVector(TinyPacket):
    """A chunk vector: missing chunks, each as feed, entry and number."""

    name = "tinySSB chunk vector"
    kind = "chunk vector"
    fields_desc = [_demultiplexer(), _Numbers("missing", [[0, 1, 0]]), XIntField("crc32", None)]  # noqa: RUF012

    @property
    def details(self) -> str:
        return f" of {len(self.missing)} chunks"


class TinyNovelty(TinyPacket):
    """A key that is new to a set."""

    name = "tinySSB novelty"
    kind = "novelty"
    fields_desc = [  # noqa: RUF012
        _demultiplexer(),
        StrFixedLenField("letter", b"n", 1),
        StrFixedLenField("key", bytes(32), 32),
        XIntField("crc32", None),
    ]

    @property
    def details(self) -> str:
        return f" {self.key[:4].hex()}"


class TinyClaim(TinyPacket):
    """A claim about an interval of a set: its lowest and highest key, the XOR and the number of its keys."""

    name = "tinySSB claim"
    kind = "claim"
    fields_desc = [  # noqa: RUF012
        _demultiplexer(),
        StrFixedLenField("letter", b"c", 1),
        StrFixedLenField("lowest", bytes(32), 32),
        StrFixedLenField("highest", bytes(32), 32),
        StrFixedLenField("xor", bytes(32), 32),
        ByteField("count", 1),
        XIntField("crc32", None),
    ]

    @property
    def details(self) -> str:
        return f" of {self.count} keys, {self.lowest[:4].hex()} to {self.highest[:4].hex()}"


LAYERS: Final[tuple[type[TinyPacket], ...]] = (
    TinyEntry,
    TinyChunk,
    TinyWant,
    TinyChunkVector,
    TinyNovelty,
    TinyClaim,
)


_BY_KIND = {layer.kind: layer for layer in LAYERS}


class TinySsb(Packet):
    """Any of tinySSB's packets: bytes become one of its layers, or Raw."""

    @classmethod
    def dispatch_hook(cls, _pkt: bytes | None = None, *args: Any, **options: Any) -> Any:
        """Choose the layer for these bytes (Scapy's hook)."""
        if not _pkt:
            return cls
        packet = without_crc(_pkt)
        kind = kind_of(packet) if packet is not None else None
        return _BY_KIND[kind] if kind is not None else conf.raw_layer


TINY_FIELDS: Final = {
    f"tinyssb.{name}"
    for name in ("kind", "length", "chunks", "command", "offset", "wanted", "missing", "count", "key")
}
"""Names of all fields."""


def tiny_fields(frame: Packet) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a frame's packet under Wireshark's names."""
    packet = next((frame[layer] for layer in LAYERS if layer in frame), None)
    if packet is None:
        return
    yield "tinyssb.kind", packet.kind
    if isinstance(packet, TinyEntry):
        yield "tinyssb.length", packet.content.length
        yield "tinyssb.chunks", packet.content.chunks
        if packet.isp_command:
            yield "tinyssb.command", packet.isp_command
    elif isinstance(packet, TinyWant):
        yield "tinyssb.offset", packet.numbers[0]
        for number in packet.numbers[1:]:
            yield "tinyssb.wanted", number
    elif isinstance(packet, TinyChunkVector):
        for each in packet.missing:
            yield "tinyssb.missing", "{}.{}.{}".format(*each)
    elif isinstance(packet, TinyClaim):
        yield "tinyssb.count", packet.count
    elif isinstance(packet, TinyNovelty):
        yield "tinyssb.key", packet.key


bind_bottom_up(UDP, TinySsb, dport=PORT)
bind_bottom_up(UDP, TinySsb, sport=PORT)
for _layer in LAYERS:
    bind_top_down(UDP, _layer, sport=PORT, dport=PORT)
