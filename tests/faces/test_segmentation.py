"""Runs of datagrams over loopback: what goes in comes out, whatever the kernel makes of it on the way."""

import errno
import itertools
import socket
import struct
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forwarder.faces import segmentation
from forwarder.faces.segmentation import (
    MAX_BYTES,
    MAX_SEGMENTS,
    can_segment,
    receive_batch,
    receive_runs,
    runs,
    send_batch,
    split,
)

UDP_GRO = 104
needs_segmentation = pytest.mark.skipif(not can_segment(), reason="this kernel has no UDP_SEGMENT")

Pair = tuple[socket.socket, socket.socket]


def open_pair() -> Pair:
    near, far = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
    for sock in (near, far):
        sock.bind(("127.0.0.1", 0))
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            sock.setsockopt(socket.SOL_SOCKET, option, 4 << 20)
        sock.setblocking(False)
    near.connect(far.getsockname())
    far.connect(near.getsockname())
    return near, far


@pytest.fixture
def pair() -> Iterator[Pair]:
    near, far = open_pair()
    with near, far:
        yield near, far


def drain(sock: socket.socket) -> list[list[bytes]]:
    """What each call returns until there is no more."""
    batches = []
    try:
        while True:
            batches.append(receive_batch(sock))
    except BlockingIOError:
        return batches


def frames_of(sizes: Sequence[int]) -> list[bytes]:
    return [bytes([number % 251]) * size for number, size in enumerate(sizes)]


def flat(batches: list[list[bytes]]) -> list[bytes]:
    return [frame for batch in batches for frame in batch]


@given(
    st.lists(st.sampled_from([0, 1, 49, 100, 1155, 1472, 8972]), max_size=200)
    | st.lists(st.just(40), min_size=MAX_SEGMENTS - 1, max_size=2 * MAX_SEGMENTS + 1)
)
def test_runs_cover_all_frames_in_order_and_keep_the_kernels_limits(sizes: list[int]) -> None:
    frames = frames_of(sizes)
    found = list(runs(frames))
    assert [number for first, end in found for number in range(first, end)] == list(range(len(frames)))
    for first, end in found:
        run = sizes[first:end]
        assert len(run) <= MAX_SEGMENTS
        assert sum(run) <= MAX_BYTES
        assert len(run) == 1 or run[-1] > 0
        assert all(size == run[0] for size in run[:-1])
        assert run[-1] <= run[0]
    for (first, end), (_, after) in itertools.pairwise(found):
        longer = sizes[first : end + 1]  # no run could have been longer
        assert after > end
        assert (
            len(longer) > MAX_SEGMENTS
            or longer[0] * len(longer) > MAX_BYTES
            or longer[-1] in (0, *range(longer[0] + 1, 1 << 16))
            or longer[-2] < longer[0]
        )


SHAPES = {
    "one": [1155],
    "none": [],
    "equal": [1155] * 64,
    "equal and a shorter": [1155] * 9 + [200],
    "a longer one between": [100, 100, 101, 100, 100],
    "more than a run": [1155] * 200,
    "mixed": [49, 1155, 49, 49, 1155, 1155, 0, 49, 1, 1, 2],
    "all different": [*range(60, 100)],
}


@pytest.mark.parametrize("sizes", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("receiver", ["whole runs", "datagrams"])
def test_what_is_sent_comes_out(pair: Pair, sizes: list[int], receiver: str) -> None:
    near, far = pair
    if receiver == "whole runs" and not receive_runs(far):
        pytest.skip("this kernel has no UDP_GRO")
    frames = frames_of(sizes)
    assert send_batch(near, frames) == len(frames)
    assert flat(drain(far)) == frames


@needs_segmentation
def test_a_run_takes_one_call_each_way(pair: Pair) -> None:
    near, far = pair
    if not receive_runs(far):
        pytest.skip("this kernel has no UDP_GRO")
    frames = frames_of([1000] * 40)
    assert send_batch(near, frames) == 40
    assert [len(batch) for batch in drain(far)] == [40]


class Refusing:
    """A socket whose kernel, interface or history refuses runs."""

    def __init__(self, sock: socket.socket, error: int) -> None:
        self._sock = sock
        self._error = error
        self.send = sock.send

    def sendmsg(self, *_: object) -> int:
        raise OSError(self._error, "refused")


@pytest.mark.parametrize("error", [errno.EINVAL, errno.EIO, errno.EMSGSIZE, errno.ECONNREFUSED])
def test_a_refused_run_goes_one_by_one(pair: Pair, error: int) -> None:
    near, far = pair
    frames = frames_of([500] * 5 + [20])
    assert send_batch(Refusing(near, error), frames) == 6  # type: ignore[arg-type]
    assert flat(drain(far)) == frames


def test_an_old_kernel_gets_datagrams_and_no_runs(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    near, far = pair
    monkeypatch.setattr(segmentation, "can_segment", lambda: False)
    frames = frames_of([500] * 5)
    assert send_batch(near, frames) == 5
    assert drain(far) == [[frame] for frame in frames]


@needs_segmentation
def test_pieces_larger_than_the_mtu_arrive_all_the_same(pair: Pair) -> None:
    near, far = pair
    near.setsockopt(socket.IPPROTO_IP, 10, 0)  # IP_MTU_DISCOVER: fragments may be made
    frames = [bytes(65507), bytes(65507)]  # over loopback's MTU of 65536 with headers, or over any other
    assert send_batch(near, frames) == 2
    assert flat(drain(far)) == frames


def test_an_error_left_by_a_neighbour_that_was_away_costs_no_frame(pair: Pair) -> None:
    near, far = pair
    address = far.getsockname()
    far.close()
    send_batch(near, [b"lost"])  # comes back as an ICMP error, which the next call reports
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as again:
        again.bind(address)
        again.setblocking(False)
        frames = frames_of([100] * 8)
        assert send_batch(near, frames) in (7, 8)  # the report may strike a frame that goes alone
        assert flat(drain(again)) in (frames, frames[1:])


def test_a_full_buffer_loses_the_rest(pair: Pair) -> None:
    class Full(Refusing):
        def __init__(self, sock: socket.socket) -> None:
            super().__init__(sock, errno.EAGAIN)
            self.room = 3
            self.send = self._send

        def _send(self, frame: bytes) -> int:
            if not self.room:
                raise BlockingIOError
            self.room -= 1
            return self._sock.send(frame)

    near, far = pair
    frames = frames_of([100] * 8)
    assert send_batch(Full(near), frames) == 3  # type: ignore[arg-type]
    assert flat(drain(far)) == frames[:3]


def gro(size: int) -> tuple[int, int, bytes]:
    return (socket.IPPROTO_UDP, UDP_GRO, struct.pack("=i", size))


@pytest.mark.parametrize(
    ("ancillary", "pieces"),
    [
        ([], [b"abcdefgh"]),
        ([gro(3)], [b"abc", b"def", b"gh"]),
        ([gro(4)], [b"abcd", b"efgh"]),
        ([gro(8)], [b"abcdefgh"]),
        ([gro(9)], [b"abcdefgh"]),
        ([gro(0)], [b"abcdefgh"]),
        ([gro(-1)], [b"abcdefgh"]),
        ([(socket.IPPROTO_UDP, UDP_GRO, b"\x03")], [b"abcdefgh"]),
        ([(socket.SOL_SOCKET, UDP_GRO, struct.pack("=i", 3)), gro(4)], [b"abcd", b"efgh"]),
    ],
)
def test_split(ancillary: list[tuple[int, int, bytes]], pieces: list[bytes]) -> None:
    assert split(b"abcdefgh", ancillary) == pieces
