"""pcapng, the capture file format of Wireshark: written, read whole, and read in parallel.

Theory of operation. A pcapng file is a chain of blocks; each carries its type, and its length at both ends.
A Section Header Block opens a section and fixes its byte order; each Interface Description Block adds the
next interface to the section; packets and statistics name an interface by its number. So what a reader needs,
to start in the middle of a section, is the section's header block and the interface blocks so far. `scan`
hands out byte ranges together with those blocks as they stand in the file (the *context*), and `read_range`
reads one range alone, in another process or on another machine if wanted.

The writer always writes little-endian and takes every stamp as an argument: same calls, same bytes.

`read`, `read_range`, `scan` and `statistics` share one rule for damage: they give all that can be read up to
it, and then raise CaptureError with the file and the byte. Files are mapped, not loaded.

Source: draft-ietf-opsawg-pcapng, "PCAP Now Generic (pcapng) Capture File Format"; sections below are its own.
"""

import mmap
import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from ipaddress import AddressValueError, IPv4Address, IPv4Interface, NetmaskValueError
from typing import BinaryIO, NamedTuple, TypeAlias

LINKTYPE_ETHERNET = 1
SNAPLEN = 262144

_SECTION_HEADER = 0x0A0D0D0A  # reads the same in both byte orders (section 4.1)
_INTERFACE_DESCRIPTION = 1
_OBSOLETE_PACKET = 2
_SIMPLE_PACKET = 3
_INTERFACE_STATISTICS = 5
_ENHANCED_PACKET = 6
_UNREADABLE = 0  # reserved by the draft; stands here for any block of a section whose version we do not know

_BYTE_ORDER_MAGIC = 0x1A2B3C4D
_READABLE_VERSIONS = ((1, 0), (1, 2))  # a minor version of 2 MUST be read as 0 (section 4.1)

_END_OF_OPTIONS = 0
_SHB_HARDWARE, _SHB_OS, _SHB_USERAPPL = 2, 3, 4
_IF_NAME, _IF_DESCRIPTION, _IF_IPV4ADDR, _IF_TSRESOL, _IF_TSOFFSET = 2, 3, 4, 9, 14
_PACKET_FLAGS = 2  # epb_flags, and pack_flags of the obsolete block
_ISB_IFRECV, _ISB_IFDROP = 4, 5

_SECOND = 1_000_000_000

_Path: TypeAlias = str | os.PathLike[str]
_Buffer: TypeAlias = bytes | mmap.mmap


class CaptureError(ValueError):
    """A capture that cannot be read, or cannot be read further.

    Attributes: `path`; `offset`, the byte where the damage shows; `reason`.
    """

    def __init__(self, path: _Path, offset: int, reason: str) -> None:
        super().__init__(path, offset, reason)
        self.path = path
        self.offset = offset
        self.reason = reason

    def __str__(self) -> str:
        return f"{os.fspath(self.path)}: byte {self.offset}: {self.reason}"


class Direction(IntEnum):
    """Which way a frame went at its interface; the numbers are those of epb_flags (section 4.3.1)."""

    UNKNOWN = 0
    IN = 1
    OUT = 2


@dataclass(frozen=True, slots=True)
class Interface:
    """An interface that frames were captured on (section 4.2).

    `ipv4` is "10.0.0.1/30", or "10.0.0.1" where the mask is not known; `snaplen` is in bytes, 0 for no limit.
    """

    name: str
    description: str = ""
    ipv4: str | None = None
    link_type: int = LINKTYPE_ETHERNET
    snaplen: int = SNAPLEN


class Packet(NamedTuple):
    """One captured frame.

    `time` is in nanoseconds, since 1970-01-01 UTC or since the emulator's start; a Simple Packet Block has no
    time, and gets 0. `original_length`, in bytes, is more than len(frame) if the capture cut the frame.
    """

    interface: Interface
    time: int
    direction: Direction
    frame: bytes
    original_length: int


class Statistics(NamedTuple):
    """What an Interface Statistics Block says (section 4.6): counts of frames since the capture began.

    `time` is in nanoseconds. A count is None if the block does not give it. `received` includes `dropped`.
    """

    interface: Interface
    time: int
    received: int | None
    dropped: int | None


class Range(NamedTuple):
    """A run of whole blocks, bytes `start` to `end` (exclusive), and the context to read it alone."""

    start: int
    end: int
    context: bytes


# --- writing ---

_U32 = struct.Struct("<I")
_PACKET_HEAD = struct.Struct("<IIIIIII")
# Beside frame and padding: 28 bytes before; 8 of epb_flags, 4 of end of options, 4 of total length after.
_PACKET_OVERHEAD = 44


def _packet_tail(direction: Direction, padding: int) -> bytes:
    return bytes(padding) + struct.pack("<HHIHH", _PACKET_FLAGS, 4, direction, _END_OF_OPTIONS, 0)


_PACKET_TAILS = tuple(tuple(_packet_tail(way, padding) for padding in range(4)) for way in Direction)


def _option(code: int, value: bytes) -> bytes:
    if len(value) > 0xFFFF:
        raise ValueError(f"a pcapng option holds at most 65535 bytes, not {len(value)}: {value[:20]!r}...")
    return struct.pack("<HH", code, len(value)) + value + bytes(-len(value) & 3)


def _options(*options: tuple[int, bytes | None]) -> bytes:
    present = b"".join(_option(code, value) for code, value in options if value is not None)
    return present and present + _option(_END_OF_OPTIONS, b"")


def _text(text: str | None) -> bytes | None:
    return text.encode() if text else None


def _block(kind: int, body: bytes) -> bytes:
    total = len(body) + 12
    return struct.pack("<II", kind, total) + body + _U32.pack(total)


def _interface_block(interface: Interface) -> bytes:
    address = None
    if interface.ipv4 is not None:
        try:
            subnet = IPv4Interface(interface.ipv4)
        except (AddressValueError, NetmaskValueError) as error:
            raise ValueError(f"interface {interface.name}: no IPv4 address: {interface.ipv4!r}") from error
        address = subnet.packed + subnet.netmask.packed
    return _block(
        _INTERFACE_DESCRIPTION,
        struct.pack("<HHI", interface.link_type, 0, interface.snaplen)
        + _options(
            (_IF_NAME, _text(interface.name)),
            (_IF_DESCRIPTION, _text(interface.description)),
            (_IF_IPV4ADDR, address),
            (_IF_TSRESOL, b"\x09"),
        ),
    )


class Writer:
    """Writes one section into `file`, which stays the caller's to flush and close; give a buffered file.

    The header and a block per interface are written at once, so that a capture without frames is valid too.
    Raises ValueError for an interface that cannot be written.
    """

    def __init__(
        self,
        file: BinaryIO,
        interfaces: Sequence[Interface],
        *,
        application: str,
        hardware: str | None = None,
        operating_system: str | None = None,
    ) -> None:
        self._write = file.write
        self._limits = tuple(interface.snaplen or 0xFFFFFFFF for interface in interfaces)
        about = _options(
            (_SHB_HARDWARE, _text(hardware)),
            (_SHB_OS, _text(operating_system)),
            (_SHB_USERAPPL, _text(application)),
        )
        # Section length -1: not known in advance (section 4.1).
        section = _block(_SECTION_HEADER, struct.pack("<IHHq", _BYTE_ORDER_MAGIC, 1, 0, -1) + about)
        file.write(section + b"".join(_interface_block(interface) for interface in interfaces))

    def write(
        self,
        interface_index: int,
        time_ns: int,
        frame: bytes | bytearray | memoryview,
        direction: Direction,
        original_length: int | None = None,
    ) -> None:
        """Write a frame as an Enhanced Packet Block (section 4.3).

        `interface_index` counts the constructor's interfaces from 0; `time_ns` is in nanoseconds, from 0 on;
        `original_length`, in bytes, is for a frame that was cut. Raises ValueError for what the format or the
        interface's snaplen does not admit.
        """
        captured = len(frame)
        original = captured if original_length is None else original_length
        padding = -captured & 3
        total = captured + padding + _PACKET_OVERHEAD
        try:
            head = _PACKET_HEAD.pack(
                _ENHANCED_PACKET,
                total,
                interface_index,
                time_ns >> 32,
                time_ns & 0xFFFFFFFF,
                captured,
                original,
            )
            fits = captured <= self._limits[interface_index] and captured <= original
        except (struct.error, IndexError):
            fits = False
        if not fits:
            raise ValueError(
                f"cannot be written: frame of {captured} bytes (original {original}) at {time_ns} ns "
                f"on interface {interface_index} of {len(self._limits)}"
            )
        self._write(b"".join((head, frame, _PACKET_TAILS[direction][padding], _U32.pack(total))))

    def statistics(self, interface_index: int, time_ns: int, received: int, dropped: int) -> None:
        """Write an Interface Statistics Block (section 4.6): frames since the capture began.

        `received` counts the `dropped` too. Raises ValueError if the interface does not exist.
        """
        if not 0 <= interface_index < len(self._limits):
            raise ValueError(f"no interface {interface_index}: the capture has {len(self._limits)}")
        if not 0 <= time_ns < 1 << 64:
            raise ValueError(f"not a time that pcapng can hold: {time_ns} ns")
        body = struct.pack("<III", interface_index, time_ns >> 32, time_ns & 0xFFFFFFFF) + _options(
            (_ISB_IFRECV, struct.pack("<Q", received)), (_ISB_IFDROP, struct.pack("<Q", dropped))
        )
        self._write(_block(_INTERFACE_STATISTICS, body))


# --- reading ---


class _Layout:
    """The shapes of the fixed fields in one byte order."""

    def __init__(self, order: str) -> None:
        self.block = struct.Struct(order + "II")  # type, total length
        self.u32 = struct.Struct(order + "I")
        self.u64 = struct.Struct(order + "Q")
        self.i64 = struct.Struct(order + "q")
        self.version = struct.Struct(order + "HH")  # major, minor
        self.interface = struct.Struct(order + "HHI")  # link type, reserved, snaplen
        self.packet = struct.Struct(order + "IIIII")  # interface, time high, time low, captured, original
        self.obsolete_packet = struct.Struct(
            order + "HHIIII"
        )  # the same with a drop count after the interface
        self.statistics = struct.Struct(order + "III")  # interface, time high, time low
        self.option = struct.Struct(order + "HH")  # code, length
        self.flags = struct.Struct(order + "HHI")  # code, length, epb_flags


_LITTLE = _Layout("<")
_BIG = _Layout(">")
_DIRECTIONS = (
    Direction.UNKNOWN,
    Direction.IN,
    Direction.OUT,
    Direction.UNKNOWN,
)  # by the low bits of epb_flags


class Source:
    """An interface together with the meaning of its time stamps (if_tsresol, if_tsoffset).

    A stamp counts units of which there are `per_second`, from `offset_ns` nanoseconds after 1970 on.
    """

    __slots__ = ("interface", "offset_ns", "per_second")

    def __init__(self, interface: Interface, per_second: int, offset_ns: int) -> None:
        self.interface = interface
        self.per_second = per_second
        self.offset_ns = offset_ns

    def time(self, high: int, low: int) -> int:
        """Return a stamp in nanoseconds."""
        units = high << 32 | low
        if self.per_second != _SECOND:
            units = units * _SECOND // self.per_second
        return units + self.offset_ns


class _Section:
    """A section as far as it has been read; `header` is its context, the blocks that describe it."""

    __slots__ = ("header", "layout", "readable", "sources")

    def __init__(self, layout: _Layout, readable: bool, header: bytes) -> None:
        self.layout = layout
        self.readable = readable
        self.header = bytearray(header)
        self.sources: list[Source] = []


class _Reader:
    """Walks the blocks of one file, and decodes those it is asked to."""

    def __init__(self, path: _Path, buffer: _Buffer) -> None:
        self.path = path
        self.buffer = buffer

    def blocks(
        self, start: int, end: int, section: _Section | None
    ) -> Iterator[tuple[_Section, int, int, int]]:
        """Yield (section, type, start, end) of each block; what describes the section is taken in."""
        buffer = self.buffer
        if section is None and buffer[start : start + 4] != b"\n\r\r\n":
            raise CaptureError(
                self.path,
                start,
                "no section header: not a pcapng file (`editcap -F pcapng` converts other captures)",
            )
        layout = section.layout if section else _LITTLE
        at = start
        while at < end:
            if end - at < 12:
                raise CaptureError(
                    self.path, at, f"cut off: {end - at} bytes left where a block should begin"
                )
            kind, total = layout.block.unpack_from(buffer, at)
            if kind == _SECTION_HEADER:
                layout = self._byte_order(at)
                total = layout.u32.unpack_from(buffer, at + 4)[0]
            stop = at + total
            if total < 12 or total & 3:
                raise CaptureError(self.path, at, f"impossible block length {total}")
            if stop > end:
                raise CaptureError(self.path, at, f"cut off: {end - at} bytes left of a block of {total}")
            if layout.u32.unpack_from(buffer, stop - 4)[0] != total:
                raise CaptureError(
                    self.path, at, f"the two lengths of the block disagree (the first is {total})"
                )
            if kind == _SECTION_HEADER:
                section = self._section(at, stop, layout)
            assert section is not None  # the first block is a section header, or a section was given
            if not section.readable:
                kind = _UNREADABLE
            elif kind == _INTERFACE_DESCRIPTION:
                section.sources.append(self.source(at, stop, layout))
                section.header += buffer[at:stop]
            yield section, kind, at, stop
            at = stop

    def _byte_order(self, at: int) -> _Layout:
        for layout in (_LITTLE, _BIG):
            if layout.u32.unpack_from(self.buffer, at + 8)[0] == _BYTE_ORDER_MAGIC:
                return layout
        raise CaptureError(self.path, at, "section header without a byte-order magic")

    def _section(self, at: int, stop: int, layout: _Layout) -> _Section:
        if stop - at < 28:
            raise CaptureError(self.path, at, "section header too short")
        readable = layout.version.unpack_from(self.buffer, at + 12) in _READABLE_VERSIONS
        return _Section(layout, readable, self.buffer[at:stop])

    def source(self, at: int, stop: int, layout: _Layout) -> Source:
        """Read the Interface Description Block from `at` to `stop`."""
        if stop - at < 20:
            raise CaptureError(self.path, at, "interface description too short")
        link_type, _, snaplen = layout.interface.unpack_from(self.buffer, at + 8)
        name = description = ""
        ipv4 = None
        per_second, offset_ns = 10**6, 0  # what the draft assumes where the options are missing
        for code, value in self._options(
            at + 16, stop - 4, layout, {_IF_IPV4ADDR: 8, _IF_TSRESOL: 1, _IF_TSOFFSET: 8}
        ):
            if code == _IF_NAME:
                name = _string(value)
            elif code == _IF_DESCRIPTION:
                description = _string(value)
            elif code == _IF_IPV4ADDR and ipv4 is None:
                ipv4 = _address(value)
            elif code == _IF_TSRESOL:
                base, exponent = (2 if value[0] & 0x80 else 10), value[0] & 0x7F
                per_second = base**exponent
            elif code == _IF_TSOFFSET:
                offset_ns = layout.i64.unpack(value)[0] * _SECOND
        return Source(Interface(name, description, ipv4, link_type, snaplen), per_second, offset_ns)

    def _options(
        self, at: int, end: int, layout: _Layout, lengths: dict[int, int]
    ) -> Iterator[tuple[int, bytes]]:
        """Yield (code, value) of each option (section 3.5); `lengths` holds the prescribed lengths."""
        while at < end:
            code, length = layout.option.unpack_from(self.buffer, at)
            if code == _END_OF_OPTIONS:
                return
            if at + 4 + length > end or lengths.get(code, length) != length:
                raise CaptureError(self.path, at, f"option {code} with an impossible length {length}")
            yield code, self.buffer[at + 4 : at + 4 + length]
            at += 4 + length + (-length & 3)

    def packets(self, start: int, end: int, section: _Section | None) -> Iterator[Packet]:
        buffer = self.buffer
        for current, kind, at, stop in self.blocks(start, end, section):
            layout = current.layout
            if kind in (_ENHANCED_PACKET, _OBSOLETE_PACKET):
                if stop - at < 32:
                    raise CaptureError(self.path, at, "packet block too short")
                if kind == _ENHANCED_PACKET:
                    index, high, low, captured, original = layout.packet.unpack_from(buffer, at + 8)
                else:
                    index, _, high, low, captured, original = layout.obsolete_packet.unpack_from(
                        buffer, at + 8
                    )
                first = at + 28
                options = first + captured + (-captured & 3)
                if options > stop - 4:
                    raise CaptureError(self.path, at, f"a packet of {captured} bytes does not fit its block")
                source = self._referred(current, index, at)
                time = source.time(high, low)
                direction = self._direction(options, stop - 4, layout)
            elif kind == _SIMPLE_PACKET:
                if stop - at < 16:
                    raise CaptureError(self.path, at, "packet block too short")
                source = self._referred(current, 0, at)
                original = layout.u32.unpack_from(buffer, at + 8)[0]
                captured = min(original, source.interface.snaplen or original)
                first = at + 12
                if first + captured > stop - 4:
                    raise CaptureError(self.path, at, f"a packet of {captured} bytes does not fit its block")
                time, direction = 0, Direction.UNKNOWN
            else:
                continue
            yield Packet(source.interface, time, direction, buffer[first : first + captured], original)

    def _direction(self, at: int, end: int, layout: _Layout) -> Direction:
        if end - at >= 8:
            code, length, flags = layout.flags.unpack_from(self.buffer, at)
            if code == _PACKET_FLAGS and length == 4:  # nearly always the first option
                return _DIRECTIONS[flags & 3]
        for code, value in self._options(at, end, layout, {_PACKET_FLAGS: 4}):
            if code == _PACKET_FLAGS:
                return _DIRECTIONS[layout.u32.unpack(value)[0] & 3]
        return Direction.UNKNOWN

    def _referred(self, section: _Section, index: int, at: int) -> Source:
        if index >= len(section.sources):
            raise CaptureError(
                self.path,
                at,
                f"interface {index} is not described ({len(section.sources)} are in this section)",
            )
        return section.sources[index]

    def statistics(self, start: int, end: int) -> Iterator[Statistics]:
        for section, kind, at, stop in self.blocks(start, end, None):
            if kind != _INTERFACE_STATISTICS:
                continue
            layout = section.layout
            if stop - at < 24:
                raise CaptureError(self.path, at, "statistics block too short")
            index, high, low = layout.statistics.unpack_from(self.buffer, at + 8)
            source = self._referred(section, index, at)
            counts = {
                code: layout.u64.unpack(value)[0]
                for code, value in self._options(at + 20, stop - 4, layout, {_ISB_IFRECV: 8, _ISB_IFDROP: 8})
                if code in (_ISB_IFRECV, _ISB_IFDROP)
            }
            yield Statistics(
                source.interface, source.time(high, low), counts.get(_ISB_IFRECV), counts.get(_ISB_IFDROP)
            )


def _string(value: bytes) -> str:
    """Return a string option's text; a zero byte ends it (section 3.5)."""
    return value.partition(b"\0")[0].decode(errors="replace")


def _address(value: bytes) -> str:
    """Return an if_IPv4addr option, an address and its mask, as Interface.ipv4 has it."""
    address = str(IPv4Address(value[:4]))
    hosts = ~int.from_bytes(value[4:]) & 0xFFFFFFFF
    if hosts == 0 or hosts & (
        hosts + 1
    ):  # a single address; or a mask with holes, which has no prefix length
        return address
    return f"{address}/{32 - hosts.bit_length()}"


@contextmanager
def _opened(path: _Path) -> Iterator[_Reader]:
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:  # cannot be mapped
            yield _Reader(path, b"")
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as buffer:
            yield _Reader(path, buffer)


def read(path: _Path) -> Iterator[Packet]:
    """Yield every packet of a capture, in file order.

    Raises OSError if the file cannot be opened, CaptureError where it is damaged.
    """
    with _opened(path) as reader:
        yield from reader.packets(0, len(reader.buffer), None)


def scan(path: _Path, size: int = 1 << 25) -> Iterator[Range]:
    """Cut a capture into ranges of whole blocks, each of at least `size` bytes save the last.

    Only block headers and the blocks that describe interfaces are read. Reading the ranges one after another
    with `read_range` gives what `read` gives. Raises as `read` does, after the last range that can be read.
    """
    start, context, stop = 0, b"", 0
    damage = None
    with _opened(path) as reader:
        try:
            for section, _, _, stop in reader.blocks(0, len(reader.buffer), None):
                if stop - start >= size:
                    yield Range(start, stop, context)
                    start, context = stop, bytes(section.header)
        except CaptureError as error:
            damage = error
    if stop > start:
        yield Range(start, stop, context)
    if damage:
        raise damage


def read_range(path: _Path, start: int, end: int, context: bytes) -> Iterator[Packet]:
    """Yield the packets of one range that `scan` gave: `read_range(path, *range)`.

    Raises as `read` does, and ValueError if the range is not within the file.
    """
    section = None
    if context:
        *_, (section, *_) = _Reader(path, context).blocks(0, len(context), None)
    with _opened(path) as reader:
        if not 0 <= start <= end <= len(reader.buffer):
            raise ValueError(f"{os.fspath(path)}: bytes {start} to {end} are not in the file: scan it again")
        yield from reader.packets(start, end, section)


def read_source(block: bytes, order: str) -> Source:
    """Read an Interface Description Block, whole, of byte order "<" or ">"; raises CaptureError."""
    return _Reader("", block).source(0, len(block), _LITTLE if order == "<" else _BIG)


def statistics(path: _Path) -> Iterator[Statistics]:
    """Yield the interface statistics of a capture, in file order; the last of an interface counts.

    Raises as `read` does.
    """
    with _opened(path) as reader:
        yield from reader.statistics(0, len(reader.buffer))
