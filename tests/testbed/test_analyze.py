"""`feednet analyze`: what it writes, what it says, and what it refuses."""

import gzip
import json
import os
import re
import struct
from collections import Counter

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from exchange import IP4, A, B, C, answer, question, table, udp, write, write_pcapng
from scapy.layers.inet import TCP, UDP
from scapy.packet import Raw
from scapy.utils import PcapWriter

from analysis.decode.capture_point import infer_local_addresses
from analysis.decode.reading import Reading
from captures.formats.files import cut, read_piece
from forwarder.wire.lp import make_lp
from forwarder.wire.name import component, from_uri
from forwarder.wire.packet import make_data, make_interest
from forwarder.wire.tlv import element
from testbed.cli.main import MENDABLE, feednet
from testbed.errors import UserError, shown


@pytest.fixture
def capture(tmp_path):
    path = tmp_path / "a-eth0.pcap"
    data = make_data(from_uri("/a"), b"x" * 100)
    frames = [
        IP4 / UDP(sport=6363, dport=6363) / Raw(make_interest(from_uri("/a"), nonce=1)),
        IP4 / UDP(sport=6363, dport=6363) / Raw(b"\x05\x01"),
        IP4 / TCP(sport=6363, dport=9, flags="S", seq=0),
        IP4 / TCP(sport=6363, dport=9, flags="A", seq=1) / Raw(data),
        IP4 / UDP(sport=7000, dport=7000) / Raw(data),
    ]
    with PcapWriter(str(path)) as writer:
        for frame in frames:
            writer.write(frame)
    path.write_bytes(path.read_bytes()[:-3])
    return path


def analyze(*arguments):
    return CliRunner().invoke(feednet, ["analyze", *map(str, arguments)], catch_exceptions=False)


def decode(*arguments):
    return analyze("--packets-only", *arguments)


def test_it_writes_a_table_and_says_what_it_found(capture, tmp_path):
    out = tmp_path / "out"
    said = decode(capture, f"again={capture}", "--out", out)
    assert said.exit_code == 0
    lines = said.output.splitlines()
    assert lines[0] == "a-eth0: 4 frames"
    assert lines[1] == "  packets  2 segment, 1 data, 1 interest, 1 malformed"
    assert lines[2] == "  problems 1 malformed NDN packet: an element runs past the end"
    assert lines[3] == "  direction unknown of 4 frames (--local may tell)"
    assert lines[4].startswith("  damage   1 x cut off in a record, ")
    assert lines[5] == "  TCP connections: 1"
    assert lines[6] == "again: 4 frames"
    rows = pq.read_table(out / "packets").to_pylist()
    assert {(row["layering"], row["node"], row["interface"]) for row in rows} == {
        ("a-eth0", "a", "a-eth0"),
        ("again", "a", "a-eth0"),
    }
    assert sorted(row["kind"] for row in rows if row["layering"] == "again") == sorted(
        ["data", "interest", "malformed", "segment", "segment"]
    )
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert [each["frames"] for each in summary] == [4, 4]


def test_an_address_of_what_is_not_there_is_refused(capture, tmp_path):
    place = [capture, "--packets-only", "--out", tmp_path / "out"]
    with pytest.raises(UserError) as error:
        analyze(*place, "--local", "b=10.0.0.1")
    assert str(error.value) == (
        "--local b=10.0.0.1: no interface, node or file is called b; there are a-eth0"
    )
    assert [*tmp_path.iterdir()] == [capture]
    assert analyze(*place, "--local", "a=10.0.0.1", "--local", "a-eth0=10.0.0.2").exit_code == 0


INVALID_NAMES = {
    "component of type 0": b"\0\1x",
    "component of type above 65535": element(70000, b"x"),
    "digest of 31 bytes": element(1, bytes(31)),
    "component that runs past the name": b"\x08\x09x",
    "cut": b"\x08",
}


@pytest.mark.parametrize("wrap", [bytes, make_lp], ids=["bare", "LpPacket"])
@pytest.mark.parametrize("what", INVALID_NAMES)
def test_a_packet_with_an_invalid_name_is_one_malformed_packet(tmp_path, what, wrap):
    good = component(8, b"a") + component(8, b"b")
    name = element(7, good + INVALID_NAMES[what])
    bad = [element(5, name + element(10, b"1234")), element(6, name + element(22, b"\x1b\1\0") + element(23))]
    frames = [question(A, B, "/a"), *(udp(A, B, wrap(packet)) for packet in bad), answer(B, A, "/a")]
    said = decode(write(tmp_path / "a-eth0.pcap", *frames), "--out", tmp_path / "out")
    assert said.exit_code == 0
    assert [row["kind"] for row in table(tmp_path / "out")] == ["interest", "malformed", "malformed", "data"]
    assert [row["name"] for row in table(tmp_path / "out")] == ["/a", None, None, "/a"]


def test_ports_and_the_node_can_be_chosen(capture, tmp_path):
    whole = capture.read_bytes() + bytes(3)
    capture.write_bytes(whole)
    said = decode(
        capture, "--udp-port", 7000, "--tcp-port", 1, "--node", "address", "--out", tmp_path / "out"
    )
    assert "4 other, 1 " in said.output
    rows = pq.read_table(tmp_path / "out" / "packets").to_pylist()
    assert {row["node"] for row in rows} == {"10.0.0.1", "unknown"}


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["{there}", "{there}"], "two captures would be a-eth0: name them, RUN="),
        (["nowhere.pcap"], "nowhere.pcap: no such file"),
        (["{text}"], "byte 0: no pcap or pcapng file"),
        (["x={there}", "x={there}"], "x: a capture is given twice"),
        (["{empty}"], "no captures in it"),
        (["{there}", "--local", "a-eth0"], "--local a-eth0: no IP or MAC address"),
    ],
)
def test_what_cannot_be_analysed_is_one_line(capture, tmp_path, arguments, reason):
    text = tmp_path / "text"
    text.write_text("no capture at all, by far\n", encoding="utf-8")
    empty = tmp_path / "empty"
    empty.mkdir()
    given = [each.format(there=capture, text=text, empty=empty) for each in arguments]
    with pytest.raises(MENDABLE) as refused:
        decode(*given, "--out", tmp_path / "out")
    assert list(tmp_path.glob("out*")) == []
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)


def test_tables_are_not_written_over(capture, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    decode(capture, "--out", out)
    before = sorted(out.rglob("*"))
    with pytest.raises(UserError, match="is there already"):
        decode(capture, "--out", out)
    assert sorted(out.rglob("*")) == before


# --- several captures of one experiment -------------------------------------------------------------------


@pytest.fixture
def hub(tmp_path):
    """A capture at A, which has two neighbours; nothing in it tells directions."""
    frames = [
        question(A, B, "/b"),
        answer(B, A, "/b"),
        question(C, A, "/a"),
        answer(A, C, "/a"),
        question(A, "224.0.23.170", "/all"),
    ]
    return write(tmp_path / "hub" / "a-eth0.pcap", *frames)


def directions(out):
    return [row["direction"] for row in sorted(table(out), key=lambda row: (row["node"], row["frame"]))]


def test_the_address_that_takes_part_in_all_tells_directions(hub, tmp_path):
    out = tmp_path / "out"
    said = decode(hub, "--out", out)
    assert f"captured by {A}, as far as addresses tell" in said.output
    assert directions(out) == ["out", "in", "in", "out", "out"]
    [run] = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert run["captures"][0]["local"] == {"a-eth0": A}
    assert run["directions"] == {"in": 2, "out": 3}


def test_between_two_ends_addresses_do_not_tell_but_the_user_can(tmp_path):
    path = write(tmp_path / "a-eth0.pcap", question(A, B, "/b"), answer(B, A, "/b"))
    said = decode(path, "--out", tmp_path / "unknown")
    assert "direction unknown of 2 frames (--local may tell)" in said.output
    assert directions(tmp_path / "unknown") == [None, None]
    for number, local in enumerate((B, f"a={B}", f"a-eth0={B}", "02-00-00-00-00-FF")):
        out = tmp_path / str(number)
        said = decode(path, "--local", local, "--out", out)
        assert "unknown" not in said.output
        assert directions(out) == (["in", "in"] if "-" in local[2:3] else ["in", "out"])


def test_captures_of_one_run(tmp_path):
    frames = [question(A, B, "/b"), answer(B, A, "/b")]
    one = write(tmp_path / "exp" / "a-eth0.pcap", *frames)
    write(tmp_path / "exp" / "b-eth0.pcap", *frames)
    (tmp_path / "exp" / "notes.txt").write_text("no capture", encoding="utf-8")
    local = ("--local", f"a={A}", "--local", f"b={B}")
    for number, given in enumerate((["exp"], ["x=exp"], [f"x={one}", "x=exp/b-eth0.pcap"])):
        out = tmp_path / str(number)
        named = [each.replace("exp", str(tmp_path / "exp")) if "/tmp" not in each else each for each in given]
        said = decode(*named, *local, "--out", out)
        run = "exp" if number == 0 else "x"
        assert said.output.count(f"{run}: 2 frames in ") == 2
        assert {(row["layering"], row["node"], row["frame"]) for row in table(out)} == {
            (run, node, frame) for node in "ab" for frame in (1, 2)
        }
        assert directions(out) == ["out", "in", "in", "out"]
        [summary] = json.loads((out / "summary.json").read_text(encoding="utf-8"))
        assert (summary["run"], summary["frames"], len(summary["captures"])) == (run, 4, 2)


def test_hosts_that_called_their_files_alike_are_told_apart_by_directory(tmp_path):
    for host in ("h1", "h2"):
        write(tmp_path / "exp" / host / "eth0.pcap", question(A, B, "/b"))
    decode(tmp_path / "exp", "--out", tmp_path / "out")
    assert {(row["node"], row["interface"]) for row in table(tmp_path / "out")} == {
        ("h1", "h1-eth0"),
        ("h2", "h2-eth0"),
    }


def test_as_many_directories_tell_hosts_apart_as_it_takes(tmp_path):
    for host in ("h1", "h2"):
        write(tmp_path / host / "caps" / "eth0.pcap", question(A, B, "/b"))
    here, there = tmp_path / "h1" / "caps", tmp_path / "h2" / "caps"
    decode(f"x={here}", f"x={there}", "--out", tmp_path / "out")
    assert {row["node"] for row in table(tmp_path / "out")} == {"h1-caps", "h2-caps"}
    with pytest.raises(UserError, match="two captures would be caps: name them, RUN="):
        decode(here, there, "--out", tmp_path / "two")
    capture = write(tmp_path / "caps.pcap", question(A, B, "/b"))
    with pytest.raises(UserError, match="two captures would be caps: name them, RUN="):
        decode(capture, here, "--out", tmp_path / "two")
    for place in ("y/a/b-c", "y/a-b/c"):
        write(tmp_path / place / "e.pcap", question(A, B, "/b"))
    write(tmp_path / "y" / "c-e.pcap", question(A, B, "/b"))
    decode(tmp_path / "y", "--out", tmp_path / "y-out")
    assert len({row["node"] for row in table(tmp_path / "y-out")}) == 3


def test_captures_by_absolute_and_relative_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a-eth0", "b-eth0"):
        write(tmp_path / f"{name}.pcap", question(A, B, "/b"))
    decode(f"x={tmp_path}/a-eth0.pcap", "x=b-eth0.pcap", "--out", "out")
    [summary] = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))
    assert summary["path"] == str(tmp_path)


def test_an_empty_directory_that_the_user_is_in(capture, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    decode(capture, "--out", ".")
    assert len(table(tmp_path / "here")) == 5
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a-eth0.pcap", "here"]


def test_names_that_are_no_text_are_refused(capture, tmp_path):
    odd = tmp_path / os.fsdecode(b"caf\xe9.pcap")
    capture.rename(odd)
    for given in (odd, tmp_path):
        with pytest.raises(UserError, match=r"this name is not in UTF-8: rename it"):
            decode(given, "--out", tmp_path / "out")


def test_of_a_large_capture_a_few_windows_tell_whose_it_is(tmp_path, monkeypatch):
    frames = [question(A, B, "/b"), answer(B, A, "/b"), question(C, A, "/a"), answer(A, C, "/a")] * 50
    path = write(tmp_path / "a-eth0.pcap", *frames)
    seen = []

    def noting(piece, damages):
        for window in read_piece(piece, damages):
            seen.append(piece.first)
            yield window

    monkeypatch.setattr("analysis.decode.capture_point.read_piece", noting)
    pieces = list(cut(path, size=1000))
    assert len(pieces) > 8
    assert infer_local_addresses([Reading("x", piece) for piece in pieces]) == {str(path): {"a-eth0": A}}
    assert len(seen) == 4
    assert seen[-1] > 100


def test_a_stream_goes_on_in_the_next_file_and_not_in_another_nodes(tmp_path):
    data = make_data(from_uri("/a"), b"x" * 100)

    def part(at, end):
        return IP4 / TCP(sport=6363, dport=9, flags="A", seq=1 + at) / Raw(data[at:end])

    first = IP4 / TCP(sport=6363, dport=9, flags="S", seq=0)
    write(tmp_path / "exp" / "a-eth0.pcap0", first, part(0, 40))
    write(tmp_path / "exp" / "a-eth0.pcap1", part(40, None))
    write(tmp_path / "exp" / "b-eth0.pcap", first, part(0, 40))
    said = decode(tmp_path / "exp", "--out", tmp_path / "out")
    assert [row["node"] for row in table(tmp_path / "out") if row["kind"] == "data"] == ["a"]
    assert "1 data" in said.output


# --- captures that hold nothing, or the same ---------------------------------------------------------------


def test_an_empty_file_beside_others_is_told_and_does_no_harm(tmp_path):
    write(tmp_path / "exp" / "a-eth0.pcap", question(A, B, "/b"))
    (tmp_path / "exp" / "b-eth0.pcap").touch()
    (tmp_path / "exp" / "c-eth0.pcap.gz").write_bytes(gzip.compress(b""))
    (tmp_path / "exp" / "notes.cap").write_text("not a capture, in spite of its name\n", encoding="utf-8")
    said = decode(tmp_path / "exp", "--out", tmp_path / "out")
    assert said.exit_code == 0
    assert len(table(tmp_path / "out")) == 1
    lines = said.output.splitlines()
    assert [line.rpartition(" from")[0] for line in lines if line.startswith("  damage")] == [
        "  damage   1 x empty, 0 bytes",
        "  damage   1 x empty, 20 bytes",
        "  damage   1 x no pcap or pcapng file, 36 bytes",
    ]
    [summary] = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))
    assert [each["frames"] for each in summary["captures"]] == [1, 0, 0, 0]
    # One that the user has named is a mistake, unless it only is empty.
    given = [tmp_path / "exp" / "a-eth0.pcap", tmp_path / "exp" / "notes.cap"]
    with pytest.raises(MENDABLE, match=r"notes.cap: byte 0: no pcap or pcapng file"):
        decode(*given, "--out", tmp_path / "2")
    assert decode(given[0], tmp_path / "exp" / "b-eth0.pcap", "--out", tmp_path / "3").exit_code == 0
    (tmp_path / "none").mkdir()
    for name in ("a.pcap", "b.pcap"):
        (tmp_path / "none" / name).touch()
    with pytest.raises(MENDABLE, match=r"2 captures, and none of them can be read: empty"):
        decode(tmp_path / "none", "--out", tmp_path / "4")


def test_two_copies_of_a_capture_are_noticed(tmp_path):
    frames = [question(A, B, "/b"), answer(B, A, "/b")]
    path = write(tmp_path / "exp" / "a-eth0.pcap", *frames)
    packed = tmp_path / "exp" / "copy.pcap.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    write(tmp_path / "exp" / "other.pcap", *frames[::-1])
    said = decode(tmp_path / "exp", "--out", tmp_path / "out")
    copies = [line for line in said.output.splitlines() if line.startswith("copies")]
    assert copies == [
        f"copies   {shown(str(packed))} is like {shown(str(path))}: the same frames at the same times"
    ]
    [summary] = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))
    assert [each["copy_of"] for each in summary["captures"]] == [None, str(path), None]


@pytest.mark.parametrize("record", [bytes(16), struct.pack("<7I", 6, 32, 0, 0, 0, 0, 0) + b"\x20\0\0\0"])
def test_any_number_of_empty_records_is_one_damage(tmp_path, record):
    frame = bytes(question(A, B, "/b"))
    if len(record) == 16:
        head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1)
        one = struct.pack("<IIII", 1, 0, len(frame), len(frame)) + frame
    else:
        whole = write_pcapng(tmp_path / "x.pcapng", {"a-eth0": [question(A, B, "/b")]}).read_bytes()
        size = struct.unpack_from("<I", whole, len(whole) - 4)[0]
        head, one = whole[:-size], whole[-size:]
    count = 3_000_000
    path = tmp_path / "bomb.pcap.gz"
    few = 10 * record
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(head + one + few + one)
        for _ in range(100):
            file.write(record * (count // 100))
        file.write(one)
    said = decode(path, "--out", tmp_path / "out")
    kinds = Counter(row["kind"] for row in table(tmp_path / "out"))
    assert kinds["interest"] == 3
    assert 10 <= kinds["other"] < 10 + 4096
    [damage] = [line for line in said.output.splitlines() if line.startswith("  damage")]
    size = int(re.search(r"1 x records without a byte, (\d+) bytes", damage)[1])
    assert (kinds["other"] - 10) * len(record) + size == count * len(record)
