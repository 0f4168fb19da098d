"""Cutting packets out of a stream: against a slow model, in pieces, with nonsense."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forwarder.links.framing import LARGEST_FRAME, cut
from forwarder.wire.tlv import MalformedPacket, element, read_header

PACKETS = st.builds(
    element, st.integers(1, (1 << 32) - 1) | st.sampled_from([5, 6, 100]), st.binary(max_size=400)
)


@given(st.lists(PACKETS, max_size=12), st.lists(st.integers(1, 200), min_size=1))
def test_packets_in_any_pieces(packets: list[bytes], sizes: list[int]) -> None:
    stream = b"".join(packets)
    found: list[bytes] = []
    rest = b""
    turn = 0
    while stream:
        size = sizes[turn % len(sizes)]
        turn += 1
        rest, stream = rest + stream[:size], stream[size:]
        while True:
            frames, at = cut(rest, 3)
            found += frames
            rest = rest[at:]
            if len(frames) < 3:
                break
    assert found == packets
    assert rest == b""


@given(st.binary(max_size=60))
def test_any_bytes_are_packets_a_beginning_or_malformed(stream: bytes) -> None:
    try:
        frames, at = cut(stream, 1000)
    except MalformedPacket:
        return
    assert b"".join(frames) == stream[:at]
    for frame in frames:
        assert read_header(frame, 0, len(frame))[2] == len(frame) <= LARGEST_FRAME
    # What is left may yet become a packet.
    assert len(stream) - at < LARGEST_FRAME


@given(st.binary(max_size=30), st.binary(max_size=20))
def test_what_is_malformed_stays_so(stream: bytes, more: bytes) -> None:
    try:
        cut(stream, 1)
    except MalformedPacket:
        with pytest.raises(MalformedPacket):
            cut(stream + more, 1)


@pytest.mark.parametrize("size", [LARGEST_FRAME - 4, LARGEST_FRAME - 3])
def test_the_largest_packet(size: int) -> None:
    packet = element(6, bytes(size))
    if len(packet) <= LARGEST_FRAME:
        assert cut(packet, 1) == ([packet], len(packet))
    else:
        with pytest.raises(MalformedPacket):
            cut(packet[:5], 1)
