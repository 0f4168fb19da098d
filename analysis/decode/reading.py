"""Captures to read: which, and the columns that can be read of them.

Without the decoder: a process of Spark's that plans a job needs none, and it takes a second to import.
"""

import re
from hashlib import sha256
from pathlib import PurePath
from typing import Literal, NamedTuple

import pyarrow as pa

from analysis.packet_schema import PACKETS
from captures.formats.files import Piece
from captures.formats.pcapng import Interface
from captures.layers.layers import Ports

NDN_PORTS = Ports()
_LONGEST_NAME = 200  # bytes, escaped; the column's name and an interface number are added

NodeRule = Literal["auto", "interface", "file", "address"]
"""How to name the capturing node. "interface": the part before -eth in the interface's name; "file": the same
of the file's name; "address": the sender's address, or the receiver's for incoming frames; "auto": by
interface if its name is like r1-eth0, else by file.
"""


_SUFFIXES = re.compile(r"(\.(pcap|pcapng|cap|dump|ntar|gz|zst|zstd|bz2|xz|lz4)\d*)+$", re.IGNORECASE)

PAYLOAD, CAPTURE, FRAME_HASH = "payload", "capture", "frame_hash"
READABLE = pa.schema(
    [
        *PACKETS,
        pa.field(PAYLOAD, pa.binary()),
        pa.field(CAPTURE, pa.string()),
        pa.field(FRAME_HASH, pa.int64()),
    ]
)
"""The columns that can be read: those of packets; of a TCP frame its captured payload, empty for unknown
protocols, else null; the path of the capture; a hash of all captured bytes of the frame.
"""

SIGHTINGS = pa.schema(
    READABLE.field(name) for name in ("layering", "interface", "direction", "frame", "time", FRAME_HASH)
)
"""When and where a frame was seen: what a capture tells without a look into the frame."""

SEGMENTS = pa.schema(
    READABLE.field(name) for name in (
        "layering", "interface", "node", "direction", "frame", "time", "src", "dst", "src_port", "dst_port",
        "vlan", "protocol", "frame_bytes", "carried_bytes", "tcp_seq", "tcp_ack", "tcp_flags", PAYLOAD,
        CAPTURE,
    )
)  # fmt: skip
"""A row for each TCP frame."""


class Reading(NamedTuple):
    """A capture to read: name, source and options.

    `file` replaces the file name for naming nodes or interfaces; by default its stem. `local` maps IP or MAC
    addresses of the capturing nodes to their interface, node or file ("" for all): it gives the direction of
    frames that the capture lacks.
    """

    run: str
    piece: Piece
    rule: NodeRule = "auto"
    ports: Ports = NDN_PORTS
    file: str = ""
    local: tuple[tuple[str, str], ...] = ()

    @property
    def file_name(self) -> str:
        """Name of the file."""
        return self.file or stem(self.piece.path)

    def name_of(self, interface: Interface) -> str:
        """Return the name of an interface."""
        return directory_name(interface.name) if interface.name else self.file_name


def stem(path: str) -> str:
    """Return a capture's file name without the usual suffixes."""
    name = PurePath(path).name
    return directory_name(_SUFFIXES.sub("", name) or name)


def node_of(interface: str) -> str:
    """Return the node of an interface: `r1` for `r1-eth0`."""
    return interface.rpartition("-eth")[0] or interface


def directory_name(name: str) -> str:
    """Return a name that fits a directory name; long names are cut and end with a digest.

    Tables are stored in directories named after runs, nodes and interfaces. A file system allows 255 bytes,
    escaping up to triples the bytes, and interface names in captures have any length.
    """
    octets = name.encode(errors="surrogateescape")
    if len(octets) * 3 <= _LONGEST_NAME or _escaped(name) <= _LONGEST_NAME:
        return name
    digest = f"~{sha256(octets).hexdigest()[:8]}"
    head = name[:_LONGEST_NAME]
    while _escaped(head) + _escaped(digest) > _LONGEST_NAME:
        head = head[:-1]
    return head + digest


def _escaped(name: str) -> int:
    """Return the maximum size of a name after escaping, bytes."""
    plain = sum(letter.isascii() and letter.isalnum() for letter in name)
    special = sum(letter.isascii() for letter in name) - plain
    return len(name.encode(errors="surrogateescape")) + 2 * special
