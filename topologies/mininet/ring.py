"""A receive ring: frames at a namespace's interfaces, read without a system call per frame.

A packet socket with a ring (Linux, Documentation/networking/packet_mmap.rst) writes each frame, with its
timestamp and receiving interface, into the next slot of memory shared with this process. A slot belongs to
the kernel until its status changes, and is returned by clearing the status. TPACKET_V2, because it delivers
each frame at once; TPACKET_V3, made for recorders, does so by the block. One ring serves all interfaces:
creating and closing one takes the kernel tens of milliseconds.
"""

import mmap
import socket
import struct
from collections.abc import Iterator

_ETH_P_ALL = 3
_SOL_PACKET = 263
_PACKET_RX_RING = 5
_PACKET_STATISTICS = 6
_PACKET_VERSION = 10
_PACKET_IGNORE_OUTGOING = 23
_TPACKET_V2 = 1

_SLOT = 2048
_BLOCK = 32 * _SLOT

_HEADER = struct.Struct("@IIIHHII8xHHi")
"""struct tpacket2_hdr: status, length, length in the slot, offsets of frame and payload, s, ns, (8); then
the first fields of struct sockaddr_ll: family, protocol, index of the interface."""

_STATUS = struct.Struct("@I")
_KERNEL = 0


class Ring:
    """A packet socket on all interfaces of this thread's network namespace, with a receive ring.

    Args:
        memory: bytes for the ring, 2048 for each frame (of an MTU of 1500), rounded down to blocks of
            64 KiB, but at least one.

    Attributes:
        socket: readable when frames have arrived. Frames sent through it do not arrive.

    Raises OSError.
    """

    def __init__(self, memory: int) -> None:
        blocks = max(1, memory // _BLOCK)
        self._size = blocks * _BLOCK
        self._at = 0
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
        self.socket.setblocking(False)
        self.socket.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
        self.socket.setsockopt(_SOL_PACKET, _PACKET_VERSION, _TPACKET_V2)
        self.socket.setsockopt(
            _SOL_PACKET, _PACKET_RX_RING, struct.pack("@IIII", _BLOCK, blocks, _SLOT, self._size // _SLOT)
        )
        self._memory = mmap.mmap(self.socket.fileno(), self._size)

    def take(self, most: int) -> Iterator[tuple[int, int, bytes]]:
        """Up to `most` frames: each with its time (CLOCK_REALTIME, ns) and the index of its interface."""
        memory = self._memory
        for _ in range(most):
            at = self._at
            header = _HEADER.unpack_from(memory, at)
            status, _, length, offset, _, seconds, nanoseconds, _, _, interface = header
            if status == _KERNEL:
                return
            frame = memory[at + offset : at + offset + length]
            _STATUS.pack_into(memory, at, _KERNEL)
            self._at = (at + _SLOT) % self._size
            yield seconds * 1_000_000_000 + nanoseconds, interface, frame

    def overflow(self) -> int:
        """Number of frames dropped by a full ring since the last call."""
        statistics = self.socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8)
        _, dropped = struct.unpack("@II", statistics)
        return int(dropped)

    def close(self) -> None:
        """Release the socket and its memory."""
        self._memory.close()
        self.socket.close()
