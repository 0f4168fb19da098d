"""Captures as arrays: the same frames as the careful readers', from every format, whole or damaged."""

import bz2
import gzip
import io
import lzma
import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pcapng_oracle import Packet
from scapy.utils import RawPcapReader
from test_pcapng import (
    T0,
    TWO,
    block,
    boundaries,
    captures,
    datagrams,
    file_of,
    interface,
    late_interfaces,
    on_disk,
    option,
    packet,
    read_bytes,
    sample,
    section,
    times,
    written,
)

from captures.formats import records
from captures.formats.blocks import BlockReader
from captures.formats.files import Piece, cut, open_capture, read_piece
from captures.formats.pcapng import CaptureError, Direction
from captures.formats.records import LARGEST_TIME, Damage, windows


def frames_of(path: Path, size: int = 1 << 30, frames: int = 1 << 30) -> tuple[list[Packet], list[Damage]]:
    """Read a capture piece by piece."""
    found: list[Packet] = []
    damages: list[Damage] = []
    for piece in cut(path, size, frames):
        if piece.first != len(found) + 1:
            assert damages
        for window, interfaces in read_piece(piece, damages):
            for at, captured, original, time, source, direction in zip(*window.records, strict=True):
                frame = window.data[at : at + captured].tobytes()
                found.append(
                    Packet(interfaces[source], int(time), Direction(direction), frame, int(original))
                )
    return found, damages


def as_read(data: bytes, size: int = 1 << 30) -> tuple[list[Packet], list[Damage]]:
    with on_disk(data) as path:
        return frames_of(path, size)


def clipped(packets: list[Packet]) -> list[Packet]:
    """What arrays cannot hold: times above 63 bits; and a frame is at least as long as what there is of
    it."""
    return [
        each._replace(
            time=max(-LARGEST_TIME, min(each.time, LARGEST_TIME)),
            original_length=max(each.original_length, len(each.frame)),
        )
        for each in packets
    ]


# --- pcapng, against the careful reader ---


@settings(deadline=None)
@given(st.lists(captures(), min_size=1, max_size=3), st.integers(1, 400))
def test_pcapng_in_pieces_is_what_is_read_whole(files, size: int) -> None:
    data = b"".join(file_of(*capture) for capture in files)
    assert as_read(data, size) == (clipped(read_bytes(data)[0]), [])


@settings(deadline=None)
@given(st.sampled_from("<>"), st.integers(0, 255), times, st.sampled_from([0, 1, -5, 2**31]))
def test_stamps_of_any_resolution(order: str, resolution: int, units: int, offset: int) -> None:
    options = option(order, 9, bytes([resolution])) + option(order, 14, struct.pack(order + "q", offset))
    data = section(order) + interface(order, options) + packet(order, 0, units, b"x")
    assert as_read(data) == (clipped(read_bytes(data)[0]), [])


def test_every_kind_of_block() -> None:
    for data in (sample(), late_interfaces()):
        for size in (1, 40, 100, 200, 1 << 30):
            assert as_read(data, size) == (read_bytes(data)[0], [])


@pytest.mark.parametrize("order", "<>")
def test_simple_packets_and_a_section_of_another_version(order: str) -> None:
    simple = block(order, 3, struct.pack(order + "I", 3) + b"spb\0")
    data = (
        section(order, 9)
        + simple
        + section(order)
        + interface(order)
        + simple
        + block(order, 99, b"what")
        + simple
    )
    packets, damages = as_read(data)
    assert packets == read_bytes(data)[0]
    assert [each.frame for each in packets] == [b"spb"] * 2
    assert [damage.reason for damage in damages] == ["section of version 9.0"]


def test_a_file_cut_at_any_byte_gives_all_before_the_cut() -> None:
    data = sample()
    ends = boundaries(data)
    for size in range(28, len(data)):
        packets, damages = as_read(data[:size])
        assert packets == read_bytes(data[:size])[0]
        assert (damages == []) == (size in ends)


@settings(deadline=None)
@given(st.data())
def test_a_file_with_any_byte_changed_gives_what_the_careful_reader_gives_and_more(
    data: st.DataObject,
) -> None:
    octets = bytearray(sample())
    for _ in range(data.draw(st.integers(1, 3))):
        octets[data.draw(st.integers(4, len(octets) - 1))] = data.draw(st.integers(0, 255))
    careful, damage = read_bytes(bytes(octets))
    packets, damages = as_read(bytes(octets))
    assert packets[: len(careful)] == clipped(careful)
    if damage is None:
        assert len(packets) == len(careful)
    elif "option" not in damage.reason:  # of a packet's options only the direction is looked for
        assert damages


def test_after_damage_it_goes_on_with_the_next_packet() -> None:
    head, one, two = section("<") + interface("<"), packet("<", 0, 1, b"one!"), packet("<", 0, 2, b"two!")
    broken = bytearray(one)
    broken[4:8] = b"\xff\xff\xff\x7f"
    data = head + one + bytes(broken) + two * 2
    packets, damages = as_read(data)
    assert [each.frame for each in packets] == [b"one!", b"two!", b"two!"]
    assert damages == [Damage(len(head + one), len(one), "impossible block length")]


def test_a_packet_of_an_interface_that_is_not_described_is_left_out() -> None:
    data = section("<") + interface("<") + packet("<", 1, 0, b"lost") + packet("<", 0, 0, b"kept")
    packets, (damage,) = as_read(data)
    assert ([each.frame for each in packets], damage.reason) == (
        [b"kept"],
        "a packet of an interface that is not described",
    )


def test_a_block_that_a_window_cuts_is_waited_for_however_the_file_is_cut() -> None:
    """A search that ends in the middle of a block goes on with that block in the next window."""
    head, one = section("<") + interface("<"), packet("<", 0, 1, bytes(100))
    broken = bytearray(one)
    broken[4:8] = b"\xff\xff\xff\x7f"
    data = head + bytes(broken) + one + bytes(broken) + one * 2
    whole = as_read(data)
    assert (len(whole[0]), len(whole[1])) == (3, 2)
    for step in range(1, len(data)):
        reader = BlockReader()
        found = [
            bytes(window.data[at : at + captured])
            for window in windows(io.BytesIO(data), reader, step=step)
            for at, captured in zip(window.records.at, window.records.captured, strict=True)
        ]
        assert (found, reader.damages) == ([each.frame for each in whole[0]], whole[1])


def test_damage_is_told_in_the_order_of_the_file() -> None:
    head, one = section("<") + interface("<"), packet("<", 0, 1, b"one!")
    misfit = bytearray(one)
    misfit[20:24] = struct.pack("<I", 999)
    broken = bytearray(one)
    broken[-4:] = bytes(4)
    data = head + packet("<", 7, 1, b"lost") + bytes(broken) + bytes(misfit) + bytes(broken) + one
    packets, damages = as_read(data)
    assert len(packets) == 1
    assert [damage.offset for damage in damages] == [len(head) + number * len(one) for number in range(4)]


# --- pcap ---


def pcap(
    order: str, magic: int, *packets: tuple[int, int, bytes], extra: bytes = b"", link: int = 1
) -> bytes:
    head = struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 65535, link)
    return head + b"".join(
        struct.pack(order + "IIII", seconds, fraction, len(frame), len(frame) + 5) + extra + frame
        for seconds, fraction, frame in packets
    )


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize(
    ("magic", "unit", "extra"),
    [(0xA1B2C3D4, 1000, b""), (0xA1B23C4D, 1, b""), (0xA1B2CD34, 1000, bytes(8))],
    ids=["microseconds", "nanoseconds", "patched"],
)
def test_pcap_of_either_byte_order(order: str, magic: int, unit: int, extra: bytes) -> None:
    sent = [(7 + i, 999 * i, bytes([i]) * (20 + 7 * i)) for i in range(20)]
    for size in (1 << 20, 100):
        packets, damages = as_read(pcap(order, magic, *sent, extra=extra, link=113), size)
        assert damages == []
        assert [(each.time, each.frame, each.original_length) for each in packets] == [
            (seconds * 10**9 + fraction * unit, frame, len(frame) + 5) for seconds, fraction, frame in sent
        ]
        assert {each.interface.link_type for each in packets} == {113}


def test_a_pcap_cut_at_any_byte() -> None:
    data = pcap("<", 0xA1B2C3D4, *[(i, 0, bytes(20)) for i in range(4)])
    for size in range(24, len(data)):
        packets, damages = as_read(data[:size])
        assert len(packets) == (size - 24) // 36
        assert bool(damages) == bool((size - 24) % 36)


def test_pcap_goes_on_after_damage() -> None:
    sent = [(1000 + i, i, bytes([i]) * 60) for i in range(9)]
    octets = bytearray(pcap("<", 0xA1B2C3D4, *sent))
    at = 24 + 3 * 76
    octets[at + 8 : at + 12] = b"\xff\xff\xff\xff"
    packets, damages = as_read(bytes(octets))
    assert [each.frame[0] for each in packets] == [0, 1, 2, 4, 5, 6, 7, 8]
    assert damages == [Damage(at, 76, "impossible record header")]


@settings(deadline=None)
@given(st.data())
def test_a_damaged_pcap_never_ends_the_reader(data: st.DataObject) -> None:
    octets = bytearray(
        pcap(data.draw(st.sampled_from("<>")), 0xA1B2C3D4, *[(i, 0, bytes(20)) for i in range(6)])
    )
    for _ in range(data.draw(st.integers(1, 5))):
        octets[data.draw(st.integers(24, len(octets) - 1))] = data.draw(st.integers(0, 255))
    packets, _ = as_read(bytes(octets))
    with on_disk(bytes(octets)) as path:
        assert frames_of(path, 30)[0][:1] == packets[:1]


@pytest.mark.parametrize("count", [30, 300])
def test_a_search_for_a_record_costs_as_much_as_it_passes(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many records are damaged: each third one has an impossible length."""
    looked_at = 0
    plausible = records.PcapReader._plausible

    def watched(self, data, places):
        nonlocal looked_at
        looked_at += len(places)
        return plausible(self, data, places)

    monkeypatch.setattr(records.PcapReader, "_plausible", watched)
    data = bytearray(pcap("<", 0xA1B2C3D4, *[(1, i, b"\xff" * 160) for i in range(count)]))
    for at in range(24, len(data), 3 * 176):
        data[at + 8 : at + 12] = b"\xff" * 4
    _, damages = as_read(bytes(data))
    assert len(damages) > count // 4
    assert looked_at < 2 * len(data)


def test_scapy_reads_the_same(tmp_path: Path) -> None:
    path = tmp_path / "x.pcap"
    path.write_bytes(pcap("<", 0xA1B23C4D, *[(i, i, bytes([i]) * i) for i in range(20)]))
    with RawPcapReader(str(path)) as reader:
        theirs = [(meta.sec * 10**9 + meta.usec, frame, meta.wirelen) for frame, meta in reader]
    assert [(each.time, each.frame, each.original_length) for each in frames_of(path)[0]] == theirs


# --- files ---


def _arrow(name: str):
    def compress(data: bytes) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, name) as stream:
            stream.write(data)
        return sink.getvalue().to_pybytes()

    return compress


COMPRESSORS = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": _arrow("zstd"),
    "lz4": _arrow("lz4"),
}


def many() -> bytes:
    return written(*datagrams(3000), interfaces=TWO)


@pytest.mark.parametrize("how", COMPRESSORS)
def test_compressed_captures(how: str, tmp_path: Path) -> None:
    data = many()
    path = tmp_path / "capture"
    path.write_bytes(COMPRESSORS[how](data))
    assert frames_of(path) == (read_bytes(data)[0], [])
    path.write_bytes(COMPRESSORS[how](pcap("<", 0xA1B2C3D4, (1, 0, bytes(60)))))
    assert len(frames_of(path)[0]) == 1


@pytest.mark.parametrize("how", COMPRESSORS)
def test_a_compressed_capture_cut_off_gives_what_there_is(how: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    data = pcap("<", 0xA1B2C3D4, *[(i, 0, rng.bytes(1000)) for i in range(3000)])
    packed = COMPRESSORS[how](data)
    path = tmp_path / "capture"
    path.write_bytes(packed[: len(packed) // 2])
    packets, damages = frames_of(path)
    assert 0 < len(packets) < 3000
    assert any("compressed data" in damage.reason for damage in damages)


def test_gzip_members_one_after_the_other(tmp_path: Path) -> None:
    data = many()
    path = tmp_path / "capture.gz"
    path.write_bytes(gzip.compress(data[:1000]) + gzip.compress(data[1000:]) + bytes(20))
    assert frames_of(path) == (read_bytes(data)[0], [])


MEMBERS = {how: COMPRESSORS[how] for how in ("gzip", "bzip2", "xz", "zstd")}
BETWEEN = {"gzip": bytes(20), "zstd": b"\x53\x2a\x4d\x18\x05\0\0\0-----"}


@pytest.mark.parametrize("how", MEMBERS)
def test_a_compressed_capture_is_cut_at_members(how: str, tmp_path: Path) -> None:
    """Records cross members, and a piece needs nothing of the members before its own."""
    data, path = many(), tmp_path / "capture"
    parts = [MEMBERS[how](data[at : at + 5000]) for at in range(0, len(data), 5000)]
    path.write_bytes(BETWEEN.get(how, b"").join(parts))
    expected = read_bytes(data)[0]
    for size in (1, 7000, 1 << 30):
        assert frames_of(path, size) == (expected, [])
        pieces = list(cut(path, size))
        members = [piece.member for piece in pieces]
        assert len(members) == len(set(members)) == (1 if size == 1 << 30 else len(pieces))
    pieces = list(cut(path, 7000))
    assert len(pieces) > len(data) // 20_000
    last, whole = pieces[-1], path.read_bytes()
    path.write_bytes(whole[:6] + bytes(last.member.packed - 6) + whole[last.member.packed :])
    frames = [len(window.records.at) for window, _ in read_piece(last, [])]
    assert last.first - 1 + sum(frames) == len(expected)


@pytest.mark.parametrize(
    "content", [b"", b"not a capture, by any means at all", b"\x1f\x8b\x08", gzip.compress(b"x", mtime=0)]
)
def test_what_is_no_capture_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "capture"
    path.write_bytes(content)
    with pytest.raises(CaptureError) as refused:
        frames_of(path)
    assert "\n" not in str(refused.value)


def test_pieces_are_bounded_by_frames_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "capture"
    path.write_bytes(many())
    monkeypatch.setattr(records, "WINDOW", 1000)
    pieces = list(cut(path, 20_000, 50))
    firsts = [piece.first for piece in pieces]
    assert len(pieces) > 10
    assert firsts == sorted(firsts)
    assert frames_of(path, 20_000, 50)[0] == read_bytes(path.read_bytes())[0]


def test_a_piece_is_read_alone(tmp_path: Path) -> None:
    path = tmp_path / "capture"
    path.write_bytes(many())
    pieces = list(cut(path, 50_000))
    last = [window for window, _ in read_piece(pieces[-1], [])]
    assert 3000 - pieces[-1].first + 1 == sum(len(window.records.at) for window in last)


def test_a_file_that_has_become_shorter_than_its_pieces_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "capture"
    path.write_bytes(many())
    pieces = list(cut(path, 50_000))
    assert pieces[0].end is not None
    with path.open("r+b") as file:
        file.truncate(pieces[0].end)
    assert [window for window, _ in read_piece(pieces[0], [])]
    with pytest.raises(CaptureError, match=f"byte {pieces[1].start}: has become shorter"):
        list(read_piece(pieces[1], []))


@pytest.mark.skipif(shutil.which("editcap") is None, reason="editcap is not installed")
@pytest.mark.parametrize("form", ["pcap", "nsecpcap", "modpcap", "pcapng", "pcapng.gz"])
def test_what_wireshark_writes(form: str, tmp_path: Path) -> None:
    path, theirs = tmp_path / "a.pcapng", tmp_path / "b"
    path.write_bytes(written(*[(0, *rest) for _, *rest in datagrams(20)], interfaces=TWO[:1]))
    subprocess.run(["editcap", "-F", form.removesuffix(".gz"), path, theirs], check=True, capture_output=True)
    if form.endswith("gz"):
        theirs.write_bytes(gzip.compress(theirs.read_bytes()))
    packets, damages = frames_of(theirs)
    rounded = 1000 if form in ("pcap", "modpcap") else 1
    sent = [(time // rounded * rounded, frame) for _, time, frame, _ in datagrams(20)]
    assert (damages, [(each.time, each.frame) for each in packets]) == ([], sent)
    assert sent[-1][0] >= T0


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nowhere"), open_capture(tmp_path / "nowhere"):
        pass
    assert Piece("x", 0, None, b"", 1).first == 1
