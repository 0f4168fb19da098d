"""pcapng, the capture file format of Wireshark: its writer, and the description of interfaces.

Theory of operation. A pcapng file is a chain of blocks; each has its type, and its length at both ends. A
Section Header Block opens a section and fixes its byte order; each Interface Description Block adds the next
interface to the section; packets and statistics refer to an interface by its number. So to start in the
middle of a section, a reader needs the section's header block and the interface blocks so far.

The writer always writes little-endian and takes every time stamp as an argument: same calls, same bytes.
captures/formats/blocks.py reads such files, and others.

Source: draft-ietf-opsawg-pcapng, "PCAP Now Generic (pcapng) Capture File Format"; section numbers are its
own.
"""

import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from ipaddress import AddressValueError, IPv4Address, IPv4Interface, NetmaskValueError
from typing import BinaryIO, NamedTuple, TypeAlias

from base.units import SECOND

LINKTYPE_ETHERNET = 1
SNAPLEN = 262144

SECTION_HEADER = 0x0A0D0D0A  # the same in both byte orders (section 4.1)
INTERFACE_DESCRIPTION = 1
_INTERFACE_STATISTICS = 5
ENHANCED_PACKET = 6
DECRYPTION_SECRETS = 10

BYTE_ORDER_MAGIC = 0x1A2B3C4D

END_OF_OPTIONS = 0
_SHB_USERAPPL = 4
_IF_NAME, _IF_DESCRIPTION, _IF_IPV4ADDR, _IF_TSRESOL, _IF_TSOFFSET = 2, 3, 4, 9, 14
PACKET_FLAGS = 2  # epb_flags, and pack_flags of the obsolete block
_ISB_IFRECV, _ISB_IFDROP = 4, 5


AnyPath: TypeAlias = str | os.PathLike[str]


class CaptureError(ValueError):
    """A capture is unreadable, from its beginning or from some byte on.

    Attributes: `path`; `offset` of the damage in bytes; `reason`.
    """

    def __init__(self, path: AnyPath, offset: int, reason: str) -> None:
        super().__init__(path, offset, reason)
        self.path = path
        self.offset = offset
        self.reason = reason

    def __str__(self) -> str:
        return f"{os.fspath(self.path)}: byte {self.offset}: {self.reason}"


class Direction(IntEnum):
    """Direction of a frame at its interface; values are those of epb_flags (section 4.3.1)."""

    UNKNOWN = 0
    IN = 1
    OUT = 2


@dataclass(frozen=True, slots=True)
class Interface:
    """A captured interface (section 4.2).

    `ipv4` is "10.0.0.1/30", or "10.0.0.1" if the mask is unknown; `snaplen` is in bytes, 0 for no limit.
    """

    name: str
    description: str = ""
    ipv4: str | None = None
    link_type: int = LINKTYPE_ETHERNET
    snaplen: int = SNAPLEN


# --- writing ---

_U32 = struct.Struct("<I")
_PACKET_HEAD = struct.Struct("<IIIIIII")
# Besides frame and padding: 28 bytes before; 8 of epb_flags, 4 of end of options, 4 of total length after.
_PACKET_OVERHEAD = 44


def _packet_tail(direction: Direction, padding: int) -> bytes:
    return bytes(padding) + struct.pack("<HHIHH", PACKET_FLAGS, 4, direction, END_OF_OPTIONS, 0)


_PACKET_TAILS = tuple(tuple(_packet_tail(way, padding) for padding in range(4)) for way in Direction)


def _option(code: int, value: bytes) -> bytes:
    if len(value) > 0xFFFF:
        raise ValueError(f"a pcapng option holds at most 65535 bytes, not {len(value)}: {value[:20]!r}...")
    return struct.pack("<HH", code, len(value)) + value + bytes(-len(value) & 3)


def _options(*options: tuple[int, bytes | None]) -> bytes:
    present = b"".join(_option(code, value) for code, value in options if value is not None)
    return present and present + _option(END_OF_OPTIONS, b"")


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
        INTERFACE_DESCRIPTION,
        struct.pack("<HHI", interface.link_type, 0, interface.snaplen)
        + _options(
            (_IF_NAME, _text(interface.name)),
            (_IF_DESCRIPTION, _text(interface.description)),
            (_IF_IPV4ADDR, address),
            (_IF_TSRESOL, b"\x09"),
        ),
    )


def secrets_block(kind: int, secrets: bytes) -> bytes:
    """Return a Decryption Secrets Block (section 4.7) with secrets of one type."""
    return _block(
        DECRYPTION_SECRETS, struct.pack("<II", kind, len(secrets)) + secrets + bytes(-len(secrets) & 3)
    )


class Writer:
    """Writes one section to `file`, which the caller flushes and closes; it should be buffered.

    The header and a block per interface are written at once, so a capture without frames is valid too. Raises
    ValueError for an interface that cannot be written.
    """

    def __init__(self, file: BinaryIO, interfaces: Sequence[Interface], *, application: str) -> None:
        self._write = file.write
        self._limits = tuple(interface.snaplen or 0xFFFFFFFF for interface in interfaces)
        about = _options((_SHB_USERAPPL, _text(application)))
        # Section length -1: not known in advance (section 4.1).
        section = _block(SECTION_HEADER, struct.pack("<IHHq", BYTE_ORDER_MAGIC, 1, 0, -1) + about)
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
        `original_length` is that of a truncated frame, in bytes. Raises ValueError for values outside the
        format or the interface's snaplen.
        """
        captured = len(frame)
        original = captured if original_length is None else original_length
        padding = -captured & 3
        total = captured + padding + _PACKET_OVERHEAD
        try:
            head = _PACKET_HEAD.pack(
                ENHANCED_PACKET,
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

        `received` includes the `dropped` ones. Raises ValueError if the interface does not exist.
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


class Source(NamedTuple):
    """An interface, and the unit and offset of its time stamps (if_tsresol, if_tsoffset).

    A stamp counts units, `per_second` each second, from `offset_ns` nanoseconds after 1970 on.
    """

    interface: Interface
    per_second: int
    offset_ns: int


def read_source(data: bytes, at: int, stop: int, order: str, path: AnyPath = "") -> Source:
    """Read the Interface Description Block from `at` to `stop`, of byte order "<" or ">".

    Raises CaptureError.
    """
    if stop - at < 20:
        raise CaptureError(path, at, "interface description too short")
    link_type, _, snaplen = struct.unpack_from(order + "HHI", data, at + 8)
    name = description = ""
    ipv4 = None
    per_second, offset_ns = 10**6, 0  # the draft's defaults
    lengths = {_IF_IPV4ADDR: 8, _IF_TSRESOL: 1, _IF_TSOFFSET: 8}
    for code, value in read_options(data, at + 16, stop - 4, order, lengths, path):
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
            offset_ns = struct.unpack(order + "q", value)[0] * SECOND
    return Source(Interface(name, description, ipv4, link_type, snaplen), per_second, offset_ns)


def read_options(
    data: bytes, at: int, end: int, order: str, lengths: dict[int, int], path: AnyPath = ""
) -> Iterator[tuple[int, bytes]]:
    """Yield (code, value) of each option (section 3.5); `lengths` has the prescribed lengths.

    Raises CaptureError.
    """
    while at < end:
        code, length = struct.unpack_from(order + "HH", data, at)
        if code == END_OF_OPTIONS:
            return
        if at + 4 + length > end or lengths.get(code, length) != length:
            raise CaptureError(path, at, f"option {code} with an impossible length {length}")
        yield code, data[at + 4 : at + 4 + length]
        at += 4 + length + (-length & 3)


def _string(value: bytes) -> str:
    """Return a string option's text; a zero byte ends it (section 3.5)."""
    return value.partition(b"\0")[0].decode(errors="replace")


def _address(value: bytes) -> str:
    """Return an if_IPv4addr option, an address and its mask, as Interface.ipv4."""
    address = str(IPv4Address(value[:4]))
    hosts = ~int.from_bytes(value[4:]) & 0xFFFFFFFF
    if hosts == 0 or hosts & (
        hosts + 1
    ):  # a single address; or a mask with holes, which has no prefix length
        return address
    return f"{address}/{32 - hosts.bit_length()}"
