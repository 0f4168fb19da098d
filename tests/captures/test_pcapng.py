import io
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pcapng_oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pcapng_oracle import Packet, Statistics, read, statistics
from scapy.utils import RawPcapNgReader

from captures.formats.pcapng import SNAPLEN, CaptureError, Direction, Interface, Writer
from captures.layers.frames import udp_frame

Thing = TypeVar("Thing")

# --- a second, independent spelling of the format, in either byte order ---


def block(order: str, kind: int, body: bytes) -> bytes:
    total = len(body) + 12
    return struct.pack(order + "II", kind, total) + body + struct.pack(order + "I", total)


def option(order: str, code: int, value: bytes) -> bytes:
    return struct.pack(order + "HH", code, len(value)) + value + bytes(-len(value) % 4)


def section(order: str, major: int = 1, minor: int = 0) -> bytes:
    return block(order, 0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, major, minor, -1))


def interface(order: str, *options: bytes, snaplen: int = 0, link_type: int = 1) -> bytes:
    return block(order, 1, struct.pack(order + "HHI", link_type, 0, snaplen) + b"".join(options))


def packet(order: str, index: int, units: int, frame: bytes, *options: bytes) -> bytes:
    head = struct.pack(order + "IIIII", index, units >> 32, units & 0xFFFFFFFF, len(frame), len(frame))
    return block(order, 6, head + frame + bytes(-len(frame) % 4) + b"".join(options))


@contextmanager
def on_disk(data: bytes) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "capture.pcapng"
        path.write_bytes(data)
        yield path


def until_damage(things: Iterable[Thing]) -> tuple[list[Thing], CaptureError | None]:
    """Return what comes, and the damage after it."""
    found: list[Thing] = []
    try:
        found.extend(things)
    except CaptureError as damage:
        return found, damage
    return found, None


def read_bytes(data: bytes) -> tuple[list[Packet], CaptureError | None]:
    with on_disk(data) as path:
        return until_damage(read(path))


def written(*writes: tuple[int, int, bytes, Direction], interfaces: list[Interface]) -> bytes:
    file = io.BytesIO()
    writer = Writer(file, interfaces, application="feednet")
    for each in writes:
        writer.write(*each)
    return file.getvalue()


TWO = [
    Interface("r1-eth0", "node r1 to s1", "10.0.0.1/30"),
    Interface("s1-eth0", "node s1 to r1", "10.0.0.2/30"),
]
T0 = 1_700_000_000_123_456_789

# --- writing ---


def test_a_tiny_file_byte_by_byte() -> None:
    file = io.BytesIO()
    writer = Writer(file, [Interface("r1-eth0", "node r1 to s1", "10.0.0.1/30")], application="feednet 0")
    writer.write(0, 0x0000000100000002, b"\xaa\xbb\xcc\xdd\xee", Direction.OUT)
    writer.write(0, 0x0000000100000003, b"\x11\x22\x33\x44", Direction.IN, original_length=9)
    writer.statistics(0, 0x0000000200000004, received=3, dropped=1)
    expected = """
        # Section Header Block (4.1)
        0a0d0d0a  30000000      # type; total length 48
        4d3c2b1a  0100 0000     # byte-order magic; version 1.0
        ffffffff ffffffff       # section length: not given
        0400 0900 666565646e65742030 000000     # shb_userappl, 9 bytes: "feednet 0", padding
        0000 0000               # end of options
        30000000
        # Interface Description Block (4.2)
        01000000  4c000000      # type; total length 76
        0100 0000 00000400      # link type Ethernet; reserved; snaplen 262144
        0200 0700 72312d65746830 00                     # if_name "r1-eth0"
        0300 0d00 6e6f646520723120746f207331 000000     # if_description "node r1 to s1"
        0400 0800 0a000001 fffffffc                     # if_IPv4addr 10.0.0.1, mask 255.255.255.252
        0900 0100 09 000000                             # if_tsresol: 10^-9
        0000 0000
        4c000000
        # Enhanced Packet Block (4.3)
        06000000  34000000      # type; total length 52
        00000000                # interface 0
        01000000 02000000       # time, high word first
        05000000 05000000       # captured, original length
        aabbccddee 000000       # frame, padding
        0200 0400 02000000      # epb_flags: outbound
        0000 0000
        34000000
        # Enhanced Packet Block, of a frame that was cut
        06000000  30000000
        00000000
        01000000 03000000
        04000000 09000000
        11223344
        0200 0400 01000000      # epb_flags: inbound
        0000 0000
        30000000
        # Interface Statistics Block (4.6)
        05000000  34000000      # type; total length 52
        00000000                # interface 0
        02000000 04000000       # time
        0400 0800 0300000000000000      # isb_ifrecv 3
        0500 0800 0100000000000000      # isb_ifdrop 1
        0000 0000
        34000000
    """
    octets = bytes.fromhex("".join(line.partition("#")[0] for line in expected.splitlines()))
    assert file.getvalue() == octets


def test_the_application_is_written_only_when_given() -> None:
    file = io.BytesIO()
    Writer(file, [], application="")
    assert file.getvalue() == section("<")


@pytest.mark.parametrize(
    ("index", "time", "frame", "original"),
    [
        (2, 0, b"", None),
        (-1, 0, b"", None),
        (0, -1, b"", None),
        (0, 1 << 64, b"", None),
        (0, 0, bytes(SNAPLEN + 1), None),
        (0, 0, b"abc", 2),
    ],
)
def test_what_pcapng_cannot_hold_is_refused(
    index: int, time: int, frame: bytes, original: int | None
) -> None:
    file = io.BytesIO()
    writer = Writer(file, TWO, application="")
    before = file.getvalue()
    with pytest.raises(ValueError, match="cannot be written"):
        writer.write(index, time, frame, Direction.IN, original)
    assert file.getvalue() == before


def test_statistics_of_no_interface_are_refused() -> None:
    writer = Writer(io.BytesIO(), TWO, application="")
    with pytest.raises(ValueError, match="no interface 2"):
        writer.statistics(2, 0, 0, 0)
    with pytest.raises(ValueError, match="not a time"):
        writer.statistics(0, -1, 0, 0)


@pytest.mark.parametrize("ipv4", ["10.0.0.256", "10.0.0.1/33", "fe80::1", "r1"])
def test_an_address_that_is_none_is_refused(ipv4: str) -> None:
    with pytest.raises(ValueError, match="interface r1-eth0: no IPv4 address"):
        Writer(io.BytesIO(), [Interface("r1-eth0", ipv4=ipv4)], application="")


def test_a_name_beyond_an_option_is_refused() -> None:
    with pytest.raises(ValueError, match="65535"):
        Writer(io.BytesIO(), [Interface("x" * 65536)], application="")


# --- there and back ---

texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
addresses = st.ip_addresses(v=4).map(str)
interfaces = st.builds(
    Interface,
    name=texts,
    description=texts,
    ipv4=st.none() | addresses | st.builds("{}/{}".format, addresses, st.integers(0, 31)),
    link_type=st.integers(0, 0xFFFF),
    snaplen=st.sampled_from([0, 64, SNAPLEN]),
)
times = st.integers(0, (1 << 64) - 1)


@st.composite
def captures(draw: st.DrawFn) -> tuple[list[Interface], list[Packet]]:
    described = draw(st.lists(interfaces, min_size=1, max_size=4))
    packets = []
    for frame in draw(st.lists(st.binary(max_size=64), max_size=12)):
        original = len(frame) + draw(st.sampled_from([0, 1, 1400]))
        way = draw(st.sampled_from(Direction))
        packets.append(Packet(draw(st.sampled_from(described)), draw(times), way, frame, original))
    return described, packets


def file_of(described: list[Interface], packets: list[Packet]) -> bytes:
    file = io.BytesIO()
    writer = Writer(file, described, application="feednet")
    for each in packets:
        writer.write(
            described.index(each.interface), each.time, each.frame, each.direction, each.original_length
        )
    return file.getvalue()


@given(captures())
def test_what_is_written_is_read(capture: tuple[list[Interface], list[Packet]]) -> None:
    data = file_of(*capture)
    assert read_bytes(data) == (capture[1], None)
    assert file_of(*capture) == data


# --- reading what others write ---

# (if_tsresol, units, seconds they are)
RESOLUTIONS = [
    (None, 1_500_000, 1.5),  # not given: microseconds
    (0, 3, 3),
    (3, 1500, 1.5),
    (9, 1_500_000_000, 1.5),
    (12, 1_500_000_000_000, 1.5),
    (0x80 | 10, 1536, 1.5),
    (0x80, 2, 2),
    (0x80 | 63, 3 << 62, 1.5),
]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("resolution", "units", "seconds"), RESOLUTIONS)
@pytest.mark.parametrize("offset", [None, 0, 1_700_000_000, -1])
def test_stamps(order: str, resolution: int | None, units: int, seconds: float, offset: int | None) -> None:
    options = [] if resolution is None else [option(order, 9, bytes([resolution]))]
    options += [] if offset is None else [option(order, 14, struct.pack(order + "q", offset))]
    data = section(order) + interface(order, *options) + packet(order, 0, units, b"frame")
    ((_, time, direction, frame, original),), damage = read_bytes(data)
    assert time == int(seconds * 1_000_000_000) + (offset or 0) * 1_000_000_000
    assert (direction, frame, original, damage) == (Direction.UNKNOWN, b"frame", 5, None)


@pytest.mark.parametrize("order", ["<", ">"])
def test_every_kind_of_packet_block(order: str) -> None:
    flags = option(order, 2, struct.pack(order + "I", 0xFFFF0002))
    comment = option(order, 1, b"a comment")
    obsolete = struct.pack(order + "HHIIII", 0, 7, 0, 2, 3, 8) + b"old\0" + flags
    simple = struct.pack(order + "I", 6) + b"simp\0\0\0\0"
    data = (
        section(order)
        + interface(order, snaplen=4)
        + packet(order, 0, 1, b"new", comment, flags)
        + block(order, 2, obsolete)
        + block(order, 3, struct.pack(order + "I", 3) + b"spb\0")
        + block(order, 3, simple[:8])  # cut to snaplen: its captured length is nowhere written
    )
    packets, damage = read_bytes(data)
    assert damage is None
    assert [each[1:] for each in packets] == [
        (1000, Direction.OUT, b"new", 3),
        (2000, Direction.OUT, b"old", 8),
        (0, Direction.UNKNOWN, b"spb", 3),
        (0, Direction.UNKNOWN, b"simp", 6),
    ]


def test_both_directions_set_is_no_direction() -> None:
    data = section("<") + interface("<") + packet("<", 0, 0, b"", option("<", 2, b"\x03\0\0\0"))
    assert read_bytes(data)[0][0].direction is Direction.UNKNOWN


def late_interfaces() -> bytes:
    """A file in which each interface is described right before its packet."""

    def name(order: str, text: str) -> bytes:
        return option(order, 2, text.encode())

    return (
        section("<", minor=2)
        + interface("<", name("<", "a"))
        + packet("<", 0, 0, b"1")
        + interface("<", name("<", "b"))
        + packet("<", 1, 0, b"2")
        + section(">")
        + interface(">", name(">", "c"))
        + packet(">", 0, 0, b"3")
    )


def test_interfaces_are_numbered_anew_in_each_section_and_may_come_late() -> None:
    found, damage = read_bytes(late_interfaces())
    assert damage is None
    assert [(each.interface.name, each.frame) for each in found] == [("a", b"1"), ("b", b"2"), ("c", b"3")]


def test_unknown_blocks_and_options_are_skipped() -> None:
    data = (
        section("<")
        + block("<", 0x0BAD, b"enterprisecustom")
        + block("<", 0x80000001, b"")
        + block("<", 4, b"name resolution!")
        + interface("<", option("<", 999, b"x"), option("<", 2, b"eth0\0rest"), option("<", 0, b""), b"junk")
        + packet("<", 0, 0, b"1", option("<", 4, bytes(8)), option("<", 2, b"\x01\0\0\0"))
        + block("<", 10, b"secret..")
    )
    packets, damage = read_bytes(data)
    assert damage is None
    assert packets == [Packet(Interface("eth0", snaplen=0), 0, Direction.IN, b"1", 1)]


def test_a_section_of_another_version_is_skipped_to_the_next() -> None:
    data = (
        section("<", major=2)
        + interface("<")
        + packet("<", 5, 0, b"not ours to read")
        + section(">")
        + interface(">")
        + packet(">", 0, 0, b"ours")
    )
    assert [each.frame for each in read_bytes(data)[0]] == [b"ours"]


@pytest.mark.parametrize(
    ("value", "ipv4"),
    [
        (b"\x0a\0\0\x01\xff\xff\xff\xff", "10.0.0.1"),
        (b"\x0a\0\0\x01\xff\xff\xff\xfc", "10.0.0.1/30"),
        (b"\x0a\0\0\x01\0\0\0\0", "10.0.0.1/0"),
        (b"\x0a\0\0\x01\0\0\0\xff", "10.0.0.1"),  # a mask with holes
    ],
)
def test_the_first_address_counts(value: bytes, ipv4: str) -> None:
    data = (
        section("<")
        + interface("<", option("<", 4, value), option("<", 4, bytes(8)))
        + packet("<", 0, 0, b"")
    )
    assert read_bytes(data)[0][0].interface.ipv4 == ipv4


def test_statistics() -> None:
    file = io.BytesIO()
    writer = Writer(file, TWO, application="")
    writer.statistics(1, T0, received=1 << 40, dropped=7)
    writer.write(0, T0, b"frame", Direction.IN)
    data = (
        file.getvalue()
        + section(">")
        + interface(">")
        + block(">", 5, struct.pack(">III", 0, 0, 5) + option(">", 6, bytes(8)))
    )
    with on_disk(data) as path:
        assert list(statistics(path)) == [
            Statistics(TWO[1], T0, 1 << 40, 7),
            Statistics(Interface("", snaplen=0), 5000, None, None),
        ]


# --- damage ---


def sample() -> bytes:
    """A file with a block of every kind, in two sections of either byte order."""
    file = io.BytesIO()
    writer = Writer(file, TWO, application="feednet")
    writer.write(0, T0, b"one", Direction.OUT)
    writer.write(1, T0 + 5, b"three", Direction.IN, 1400)
    writer.statistics(0, T0 + 9, 2, 0)
    flags = option(">", 2, b"\0\0\0\1")
    return (
        file.getvalue()
        + section(">")
        + interface(">", option(">", 9, b"\x06"), option(">", 14, bytes(8)), snaplen=100)
        + packet(">", 0, 7, b"seven", option(">", 1, b"comment"), flags)
        + block(">", 2, struct.pack(">HHIIII", 0, 0, 0, 2, 3, 8) + b"old\0" + flags)
        + block(">", 3, struct.pack(">I", 3) + b"spb\0")
    )


def boundaries(data: bytes) -> list[int]:
    with on_disk(data) as path:
        return pcapng_oracle.boundaries(path)


def test_a_file_cut_at_any_byte_gives_all_before_the_cut() -> None:
    data = sample()
    whole, damage = read_bytes(data)
    assert damage is None
    assert len(whole) == 5
    ends = boundaries(data)
    for size in range(len(data)):
        packets, damage = read_bytes(data[:size])
        assert packets == whole[: len(packets)]
        if size in ends:
            assert damage is None
        else:
            assert damage is not None
            assert damage.offset == max([0, *(end for end in ends if end <= size)])
            assert str(damage).startswith(f"{damage.path}: byte {damage.offset}: ")


@given(st.data())
def test_a_file_with_any_byte_changed_is_read_or_refused(data: st.DataObject) -> None:
    octets = bytearray(sample())
    for _ in range(data.draw(st.integers(1, 3))):
        octets[data.draw(st.integers(0, len(octets) - 1))] = data.draw(st.integers(0, 255))
    with on_disk(bytes(octets)) as path:  # until_damage lets no other exception pass than CaptureError
        until_damage(read(path))
        until_damage(statistics(path))


@given(st.binary(max_size=200), st.booleans())
def test_garbage_is_read_or_refused(data: bytes, after_a_header: bool) -> None:
    packets, damage = read_bytes((section("<") + interface("<") if after_a_header else b"") + data)
    if not after_a_header:
        assert packets == []
        assert damage is not None


def test_another_file_is_refused_with_the_mend() -> None:
    for data in (b"", b"\xd4\xc3\xb2\xa1\x02\0\x04\0" + bytes(16), interface("<")):
        packets, damage = read_bytes(data)
        assert packets == []
        assert damage is not None
        assert damage.offset == 0
        assert "editcap -F pcapng" in str(damage)


BODY = struct.pack("<IIIII", 0, 0, 0, 3, 3) + b"abc\0"


@pytest.mark.parametrize(
    ("damaged", "reason"),
    [
        (struct.pack("<III", 6, 8, 8), "impossible block length 8"),
        (struct.pack("<II", 6, 14) + bytes(10), "impossible block length 14"),
        (struct.pack("<III", 6, 12, 16), "two lengths"),
        (block("<", 6, BODY[:16]), "packet block too short"),
        (block("<", 2, BODY[:16]), "packet block too short"),
        (block("<", 3, b""), "packet block too short"),
        (block("<", 6, struct.pack("<IIIII", 0, 0, 0, 5, 5) + b"abc\0"), "5 bytes does not fit"),
        (block("<", 6, struct.pack("<IIIII", 0, 0, 0, 0xFFFFFFFF, 5) + b"abc\0"), "does not fit"),
        (block("<", 3, struct.pack("<I", 9) + b"abc\0"), "9 bytes does not fit"),
        (packet("<", 1, 0, b""), "interface 1 is not described"),
        (packet("<", 0, 0, b"", option("<", 2, b"12345678")), "option 2 with an impossible length 8"),
        (packet("<", 0, 0, b"", struct.pack("<HH", 1, 5) + bytes(4)), "option 1 with an impossible length 5"),
        (interface("<", option("<", 9, b"\x09\0")), "option 9 with an impossible length 2"),
        (interface("<", option("<", 4, bytes(4))), "option 4 with an impossible length 4"),
        (block("<", 1, bytes(4)), "interface description too short"),
        (block("<", 0x0A0D0D0A, bytes(16)), "without a byte-order magic"),
        (block("<", 0x0A0D0D0A, struct.pack("<IHHI", 0x1A2B3C4D, 1, 0, 0)), "section header too short"),
    ],
)
def test_damage_is_named(damaged: bytes, reason: str) -> None:
    sound = section("<") + interface("<") + packet("<", 0, 0, b"sound")
    packets, damage = read_bytes(sound + damaged + packet("<", 0, 0, b"after"))
    assert [each.frame for each in packets] == [b"sound"]
    assert damage is not None
    assert reason in damage.reason
    assert len(sound) <= damage.offset < len(sound) + len(damaged)


@pytest.mark.parametrize(
    ("damaged", "reason"),
    [
        (block("<", 5, bytes(8)), "statistics block too short"),
        (block("<", 5, struct.pack("<III", 3, 0, 0)), "interface 3 is not described"),
        (block("<", 5, bytes(12) + option("<", 4, bytes(4))), "option 4 with an impossible length 4"),
    ],
)
def test_damaged_statistics_are_named(damaged: bytes, reason: str) -> None:
    with on_disk(section("<") + interface("<") + damaged) as path, pytest.raises(CaptureError, match=reason):
        list(statistics(path))


# --- others reading what we write ---


def datagrams(count: int) -> list[tuple[int, int, bytes, Direction]]:
    macs = bytes.fromhex("020000000001"), bytes.fromhex("020000000002")
    frames = [udp_frame(*macs, "10.0.0.1", "10.0.0.2", 6363, 6363, bytes(i), i) for i in range(count)]
    return [(i % 2, T0 + 1001 * i, frame, Direction(1 + i % 2)) for i, frame in enumerate(frames)]


def test_scapy_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "capture.pcapng"
    path.write_bytes(written(*datagrams(20), interfaces=TWO))
    with RawPcapNgReader(str(path)) as reader:
        seen = list(reader)
    for (frame, meta), (index, time_ns, sent, direction) in zip(seen, datagrams(20), strict=True):
        assert (frame, meta.ifname.decode()) == (sent, TWO[index].name)
        assert (meta.tsresol, meta.tshigh << 32 | meta.tslow) == (1_000_000_000, time_ns)
        assert (meta.linktype, meta.direction, meta.wirelen) == (1, direction, len(sent))


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
def test_tshark_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "capture.pcapng"
    path.write_bytes(written(*datagrams(20), interfaces=TWO))
    fields = ["interface_name", "interface_description", "time_epoch", "len", "packet_flags_direction"]
    columns = [part for field in fields for part in ("-e", f"frame.{field}")]
    checks = ["-o", "udp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"]
    checked = ["-e", "ip.checksum.status", "-e", "udp.checksum.status"]
    command = ["tshark", "-n", "-r", str(path), *checks, "-T", "fields", *columns, *checked]
    lines = subprocess.run(command, capture_output=True, check=True, text=True).stdout.splitlines()
    for line, (index, time_ns, frame, direction) in zip(lines, datagrams(20), strict=True):
        name, description, epoch, length, way, ip_checksum, udp_checksum = line.split("\t")
        assert (name, description) == (TWO[index].name, TWO[index].description)
        assert int(epoch.replace(".", "")) == time_ns
        assert (int(length), int(way, 0)) == (len(frame), direction)
        assert (ip_checksum, udp_checksum) == ("1", "1")  # good


@pytest.mark.skipif(shutil.which("tcpdump") is None, reason="tcpdump is not installed")
def test_tcpdump_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "capture.pcapng"
    path.write_bytes(written(*datagrams(20), interfaces=TWO))
    command = ["tcpdump", "-n", "-tt", "--time-stamp-precision=nano", "-r", str(path)]
    lines = subprocess.run(command, capture_output=True, check=True, text=True).stdout.splitlines()
    assert [int(line.split()[0].replace(".", "")) for line in lines] == [each[1] for each in datagrams(20)]
    assert all("10.0.0.1.6363 > 10.0.0.2.6363: UDP" in line for line in lines)
