"""tinySSB over UDP: each datagram is a packet, classified by its form (`captures.layers.tiny`).

An entry that contains another entry is a `tunnel`, a command of tinyISP is `control`, with the name
`/DEMUX/COMMAND`: the bytes by which receivers find an entry's log, in hexadecimal, and the command. The log
of a chunk is unknown.
"""

from analysis.decode.protocols.protocol import Datagram, Declaration, Layer
from captures.layers.tiny import (
    CHUNKS,
    CLAIM,
    DEMUX,
    ENTRY,
    NOVELTY,
    PORT,
    TUNNEL,
    VECTOR,
    WANT,
    command_of,
    kind_of,
    without_crc,
)

CONTROL = "control"
_VECTORS = {WANT: "want", VECTOR: "chunk_vector"}

_KINDS = {
    ENTRY: "entries",
    TUNNEL: "entries with another in them",
    CONTROL: "commands of tinyISP",
    CHUNKS: "chunks of side chains",
    _VECTORS[WANT]: "want vectors",
    _VECTORS[VECTOR]: "chunk vectors",
    NOVELTY: "novelties",
    CLAIM: "claims",
}
"""Kinds of packets, each of which is also a layer."""


def _read(payload: bytes) -> Datagram:
    packet = without_crc(payload)
    if packet is None:
        return Datagram("malformed", "another CRC than tinySSB's")
    kind = kind_of(packet)
    if kind is None:
        return Datagram("malformed", "no packet of tinySSB")
    if kind == ENTRY and (command := command_of(packet)):
        if command == TUNNEL:
            return Datagram(TUNNEL)
        word = command if command.isidentifier() else "unknown"
        return Datagram(CONTROL, name=f"/{packet[:DEMUX].hex()}/{word}")
    return Datagram(_VECTORS.get(kind, kind))


DECLARATION = Declaration(
    "tiny",
    udp_ports=frozenset((PORT,)),
    kinds=_KINDS,
    layers=tuple(Layer(kind, title) for kind, title in _KINDS.items()),
    control=frozenset((CONTROL, NOVELTY, CLAIM, *_VECTORS.values())),
    datagram=_read,
)
