"""A packet ring: every frame of one interface, in memory shared with the kernel (AF_PACKET, TPACKET_V3).

Theory of operation. The ring is an array of blocks. The kernel writes frames into one block after another and
retires a block, that is, hands it to us, when it is full or has held frames for one or two periods of
RETIRE_MS; we read it and give it back. While no block is free the kernel drops frames and counts them.

A frame is stamped, in nanoseconds of CLOCK_REALTIME, when it passes the tap: coming in, before the node sees
it; going out, when the driver takes it, after any queueing discipline (tc) of that interface. Two processors
may put frames into one ring out of the order of their stamps, microseconds apart.

A socket stays in the network namespace in which it was opened, and a thread can enter a namespace
temporarily: so one process holds rings in any number of namespaces.

To stop without losing a frame, the ring first closes its gate (a filter that accepts nothing). Then it is
read until the frames taken equal the kernel's count of frames put into blocks.

Source: linux/if_packet.h; Documentation/networking/packet_mmap.rst of the Linux kernel; packet(7).
"""

import ctypes
import mmap
import os
import socket
import struct
from collections.abc import Callable
from typing import TypeAlias

from captures.formats.pcapng import Direction
from captures.network.netns import inside

BLOCK_BYTES = 1 << 17  # fits the largest frame, a 64 KiB segment before segmentation
MIN_BLOCKS = 4
RETIRE_MS = 100

# Interface index, time in ns, bytes, direction, original length: the arguments of pcapng.Writer.write.
Frame: TypeAlias = tuple[int, int, bytes, Direction, int]

_LIBC = ctypes.CDLL(None, use_errno=True)

_ETH_P_ALL = 3
_SOL_PACKET = 263
_PACKET_RX_RING = 5
_PACKET_STATISTICS = 6
_PACKET_VERSION = 10
_TPACKET_V3 = 2
_PACKET_OUTGOING = 4
_SO_ATTACH_FILTER = 26
_BPF_RETURN = 6

_STATUS_KERNEL = 0
_STATUS_USER = 1
_STATUS_VLAN_VALID = 1 << 4

_REQUEST = struct.Struct("=7I")  # tpacket_req3
_STATISTICS = struct.Struct("=3I")  # tpacket_stats_v3: frames (dropped ones too), dropped, freezes
# struct tpacket_block_desc: (8), status, number of frames, offset of the first frame
_BLOCK = struct.Struct("=8xIII")
_BLOCK_STATUS = 8
# struct tpacket3_hdr: next offset, seconds, nanoseconds, captured length, original length, status, offset of
# the frame, (6), VLAN tag, VLAN ethertype, (10); then in struct sockaddr_ll: (10), packet type
_FRAME = struct.Struct("=6IH6xIH20xB")


class RingError(OSError):
    """A ring cannot be set up; the message is the reason in one line."""


class Ring:
    """The ring of one interface; `index` is the interface's number in the capture.

    Counts: `taken`, frames returned; `received` and `dropped`, the kernel's at the last `count()`.
    """

    def __init__(self, index: int, name: str, netns: str, ring_bytes: int) -> None:
        """Open the ring on interface `name` of the namespace at the path `netns` (/proc/PID/ns/net).

        `ring_bytes` is rounded down to whole blocks, and up to MIN_BLOCKS of them. Raises RingError.
        """
        self.index = index
        self.name = name
        self.taken = 0
        self.received = 0
        self.dropped = 0
        self._blocks = max(MIN_BLOCKS, ring_bytes // BLOCK_BYTES)
        self._next = 0
        self._socket = _packet_socket(name, netns)
        try:
            self._memory = self._map()
            self._words = memoryview(self._memory).cast("I")
            # Last: frames arrive from here on, and would be lost without a ring.
            self._socket.bind((name, _ETH_P_ALL))
        except OSError as error:
            self._socket.close()
            raise RingError(f"{name} in {netns}: {_explain(error)}") from error

    def _map(self) -> mmap.mmap:
        size = self._blocks * BLOCK_BYTES
        self._socket.setsockopt(_SOL_PACKET, _PACKET_VERSION, _TPACKET_V3)
        frame_bytes = 2048  # TPACKET_V3 has no slots of a size; the kernel only checks that the numbers agree
        request = _REQUEST.pack(BLOCK_BYTES, self._blocks, frame_bytes, size // frame_bytes, RETIRE_MS, 0, 0)
        # The kernel waits here for all processors, some 15 ms. A call through ctypes, unlike
        # socket.setsockopt, lets other threads run meanwhile, so that many rings are set up in parallel.
        _call(_LIBC.setsockopt, self._socket.fileno(), _SOL_PACKET, _PACKET_RX_RING, request, len(request))
        return mmap.mmap(self._socket.fileno(), size)

    def take(self) -> list[Frame]:
        """Return the frames of every retired block, in the kernel's order, and give the blocks back."""
        frames: list[Frame] = []
        for _ in range(self._blocks):  # once around, so that a busy ring does not delay the others
            start = self._next * BLOCK_BYTES
            status = (start + _BLOCK_STATUS) // 4
            if not self._words[status] & _STATUS_USER:
                break
            frames += read_block(self._memory, start, self.index)
            self._words[status] = _STATUS_KERNEL
            self._next = (self._next + 1) % self._blocks
        self.taken += len(frames)
        return frames

    def close_gate(self) -> None:
        """Accept no more frames; those in the ring stay."""
        instruction = ctypes.create_string_buffer(struct.pack("=HBBI", _BPF_RETURN, 0, 0, 0))
        program = struct.pack("HP", 1, ctypes.addressof(instruction))  # struct sock_fprog
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)

    def count(self) -> None:
        """Update `received` and `dropped`."""
        counts = self._socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, _STATISTICS.size)
        received, dropped, _ = _STATISTICS.unpack(counts)
        self.received += received  # reading resets the kernel's counters
        self.dropped += dropped

    def drained(self) -> bool:
        """Return whether all frames in the ring at the last `count()` were taken."""
        return self.taken == self.received - self.dropped

    def close(self) -> None:
        """Release the memory and the socket."""
        self._words.release()
        self._memory.close()
        self._socket.close()


def read_block(memory: mmap.mmap | bytes, start: int, index: int) -> list[Frame]:
    """Return the frames of the retired block at `start`, whole as on the wire, VLAN tag included."""
    _, count, first = _BLOCK.unpack_from(memory, start)
    at = start + first
    frames: list[Frame] = []
    for _ in range(count):
        step, seconds, nanoseconds, captured, original, status, mac, tag, tag_type, kind = _FRAME.unpack_from(
            memory, at
        )
        frame = memory[at + mac : at + mac + captured]
        if status & _STATUS_VLAN_VALID:  # the kernel has moved the tag out of the frame
            frame = frame[:12] + struct.pack("!HH", tag_type, tag) + frame[12:]
            original += 4
        direction = Direction.OUT if kind == _PACKET_OUTGOING else Direction.IN
        frames.append((index, seconds * 1_000_000_000 + nanoseconds, frame, direction, original))
        at += step
    return frames


def _packet_socket(name: str, netns: str) -> socket.socket:
    try:
        with inside(netns):
            return socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    except OSError as error:
        raise RingError(f"{name} in {netns}: {_explain(error)}") from error


def _call(function: Callable[..., int], *arguments: int | bytes) -> None:
    if function(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _explain(error: OSError) -> str:
    if isinstance(error, PermissionError):
        return "no permission to capture: run as root, or inside `unshare --user --map-root-user --net`"
    if isinstance(error, FileNotFoundError):
        return "no such network namespace: has its process ended?"
    return (error.strerror or str(error)).lower()
