"""Many datagrams by one system call: UDP generic segmentation and receive offload (Linux udp(7)).

A run of datagrams of one size, of which the last may be shorter, goes to the kernel as one buffer and is cut
up below the socket (UDP_SEGMENT, Linux 4.18). The other way round, what a neighbour has sent so comes up as
one buffer with the size of its pieces (UDP_GRO, Linux 5.0). Nothing of it shows on the wire.

Whoever captures or impairs packets on the way sees whole runs unless the interface's segmentation is switched
off (`ethtool -K <interface> tx-udp-segmentation off`), and a queueing discipline sees them even then.
"""

import socket
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Final

Ancillary = Sequence[tuple[int, int, bytes]]
"""Control messages as recvmsg() returns them: (level, type, data)."""

_SOL_UDP: Final = socket.IPPROTO_UDP
_UDP_SEGMENT: Final = 103  # linux/udp.h; the module socket does not have them
_UDP_GRO: Final = 104

MAX_SEGMENTS: Final = 64
"""UDP_MAX_SEGMENTS of kernels before 6.9; they refuse longer runs."""
MAX_BYTES: Final = 65507
"""The largest UDP payload over IPv4, whole runs included."""

_SIZE = struct.Struct("=H")
_RECEIVED = struct.Struct("=i")
_CONTROL_BYTES = socket.CMSG_SPACE(_RECEIVED.size)


@cache
def can_segment() -> bool:
    """Return whether the kernel supports UDP_SEGMENT; otherwise it would send a run as one datagram."""
    if not sys.platform.startswith("linux"):
        return False
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.getsockopt(_SOL_UDP, _UDP_SEGMENT)
        except OSError:
            return False
    return True


def runs(frames: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """Yield (first, end) of each run of frames that one call can send: equal sizes, the last may be less."""
    first, count = 0, len(frames)
    while first < count:
        size = len(frames[first])
        longest = first + (min(MAX_SEGMENTS, MAX_BYTES // size) if size else 1)
        end = first + 1
        while end < min(count, longest) and 0 < len(frames[end]) <= size:
            end += 1
            if len(frames[end - 1]) < size:
                break
        yield first, end
        first = end


def send_batch(
    sock: socket.socket, frames: Sequence[bytes], on_error: Callable[[OSError], None] | None = None
) -> int:
    """Send frames over a connected UDP socket that does not block, in order; return how many have gone.

    `on_error` is called with errors other than a full buffer, also those after which a run is sent again.
    What finds the socket's buffer full is lost, as on any link, and so is a frame that cannot be sent. Where
    a run is refused (a kernel or an interface that cannot, pieces larger than the MTU, or an error that an
    earlier datagram has left) its frames go one by one.
    """
    if len(frames) == 1 or not can_segment():
        return _send_each(sock, frames, on_error)
    sent = 0
    for first, end in runs(frames):
        run = frames[first:end]
        if len(run) > 1:
            try:
                sock.sendmsg(run, ((_SOL_UDP, _UDP_SEGMENT, _SIZE.pack(len(run[0]))),))
                sent += len(run)
                continue
            except OSError as error:
                if on_error is not None:
                    on_error(error)
        sent += _send_each(sock, run, on_error)
    return sent


def _send_each(
    sock: socket.socket, frames: Sequence[bytes], on_error: Callable[[OSError], None] | None
) -> int:
    sent = 0
    for frame in frames:
        try:
            sock.send(frame)
        except BlockingIOError:
            break  # the buffer is full, for those that follow too
        except OSError as error:
            if on_error is not None:
                on_error(error)
            continue
        sent += 1
    return sent


def receive_runs(sock: socket.socket) -> bool:
    """Let a socket receive whole runs, to be taken with receive_batch(); False if the kernel cannot."""
    try:
        sock.setsockopt(_SOL_UDP, _UDP_GRO, 1)
    except OSError:
        return False
    return True


def receive_batch(sock: socket.socket) -> list[bytes]:
    """Receive a datagram, or a run of them; raises OSError as recv() does."""
    data, ancillary, _, _ = sock.recvmsg(65535, _CONTROL_BYTES)
    return split(data, ancillary) if ancillary else [data]


def split(data: bytes, ancillary: Ancillary) -> list[bytes]:
    """Cut what recvmsg() has returned into datagrams."""
    for level, kind, value in ancillary:
        if level == _SOL_UDP and kind == _UDP_GRO and len(value) == _RECEIVED.size:
            (size,) = _RECEIVED.unpack(value)
            if 0 < size < len(data):
                return [data[at : at + size] for at in range(0, len(data), size)]
    return [data]
