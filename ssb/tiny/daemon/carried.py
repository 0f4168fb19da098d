"""A file of packets that is carried from one cell to another, on a memory stick for example.

    a length (one byte) and that many bytes of a packet, repeated

First are novelties, one for each feed of the open set, then each feed's entries in order, each followed by
its side chain: as for a node without any. A node processes the packets as if received from the medium, so the
file needs no more trust.
"""

from collections.abc import Iterable
from pathlib import Path

from base.files import write_whole
from ssb.tiny.entry import DEMUX, PACKET
from ssb.tiny.goset import COMMON, make_novelty, set_demultiplexer
from ssb.tiny.store import TinyStore


class MalformedFile(ValueError):
    """Not a file of packets; the message has the reason."""


def packets_of(store: TinyStore, keys: Iterable[bytes]) -> list[bytes]:
    """Return all packets of feeds of the open set."""
    chosen = list(keys)
    demultiplexer = set_demultiplexer(COMMON)
    packets = [make_novelty(demultiplexer, key) for key in chosen]
    for key in chosen:
        feed = store.feeds[key]
        for sequence in range(feed.base + 1, feed.whole + 1):
            packet = store.packet(key, sequence)
            assert packet is not None
            packets += [packet, *store.chunks(key, sequence)]
    return packets


def save(packets: Iterable[bytes], path: Path) -> int:
    """Write a file of packets, atomically; return its size. Raises OSError."""
    content = b"".join(bytes((len(packet),)) + packet for packet in packets)
    write_whole(path, content, mode=0o600, is_durable=True)
    return len(content)


def load(path: Path) -> list[bytes]:
    """Return the packets of a file. Raises MalformedFile, OSError."""
    content = path.read_bytes()
    packets, at = [], 0
    while at < len(content):
        size = content[at]
        packet = content[at + 1 : at + 1 + size]
        if not DEMUX < size <= PACKET or len(packet) != size:
            raise MalformedFile(f"no packet at byte {at}")
        packets.append(packet)
        at += 1 + size
    return packets
