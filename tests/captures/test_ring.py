import struct

from captures.formats.pcapng import Direction
from captures.network.ring import read_block

HOST, OUTGOING = 0, 4
VLAN_VALID = 1 << 4 | 1 << 6


def entry(
    stamp: tuple[int, int], frame: bytes, kind: int, original: int, status: int = 1, tag: int = 0
) -> bytes:
    """A frame as the kernel lays it out (linux/if_packet.h): tpacket3_hdr, sockaddr_ll, a gap, the frame."""
    offset = 82
    step = -(-(offset + len(frame)) // 16) * 16
    header = struct.pack("=6I2H", step, *stamp, len(frame), original, status, offset, offset + 14)
    variant = struct.pack("=IIHH8x", 0, tag, 0x8100 if tag else 0, 0)
    address = struct.pack("=HHiHBB8x", 17, 8, 3, 1, kind, 6)
    return ((header + variant + address).ljust(offset, b"\xee") + frame).ljust(step, b"\xee")


def test_a_block_is_read_frame_by_frame() -> None:
    tagged = bytes(12) + b"\x08\0" + b"tagged"
    entries = [
        entry((1_700_000_000, 999_999_999), b"sent", OUTGOING, 4),
        entry((1_700_000_001, 0), b"came", HOST, 1400),
        entry((1_700_000_001, 1), tagged, HOST, len(tagged), status=1 | VLAN_VALID, tag=0x6005),
    ]
    descriptor = struct.pack("=IIIIIIQIIII", 1, 0, 1, len(entries), 48, 0, 1, 0, 0, 0, 0)
    memory = bytes(4096) + descriptor + b"".join(entries)
    assert read_block(memory, 4096, 7) == [
        (7, 1_700_000_000_999_999_999, b"sent", Direction.OUT, 4),
        (7, 1_700_000_001_000_000_000, b"came", Direction.IN, 1400),
        (7, 1_700_000_001_000_000_001, bytes(12) + b"\x81\0\x60\x05\x08\0tagged", Direction.IN, 24),
    ]
