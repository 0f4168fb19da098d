"""Captures to Parquet: the rows of the careful decoder, in directories by run, node and interface; and what
tshark and python-ndn say of the same packets."""

import bz2
import gzip
import random
import shutil
import struct
import subprocess
import tracemalloc

import duckdb
import pyarrow.parquet as pq
import pytest
from handmade import lli, poll, write_capture
from ndn import encoding
from pcapng_oracle import read
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import CookedLinuxV2, Ether
from scapy.packet import Raw
from scapy.utils import PcapNgWriter, PcapWriter

from analysis.decode.batch import DECODED
from analysis.decode.reader import ReadStatistics, read_packets
from analysis.decode.reading import Reading, node_of, stem
from analysis.decode.reference import decode_frame
from analysis.packet_schema import PACKETS
from analysis.spark.engine import EngineChoice, session
from analysis.spark.parquet import BY
from analysis.spark.to_parquet import extract
from analysis.tables.schema import document
from captures.formats.files import cut
from captures.formats.pcapng import Direction, Interface, Writer
from captures.formats.records import MOST_EMPTY
from forwarder.wire.name import from_uri
from forwarder.wire.packet import make_data, make_interest

IP4 = Ether(src="02:00:00:00:00:0a", dst="02:00:00:00:00:0b") / IP(src="10.0.0.1", dst="10.0.0.2")


def rows_of(directory):
    rows = pq.read_table(directory, partitioning="hive").to_pylist()
    names = set(PACKETS.names)
    assert all(set(row) == names for row in rows)
    return sorted(rows, key=lambda row: (row["layering"], row["frame"]))


def careful(path, name):
    for number, packet in enumerate(read(path), 1):
        yield {
            "layering": name,
            "interface": packet.interface.name,
            "node": node_of(packet.interface.name),
            "direction": packet.direction.name.lower(),
            "frame": number,
            "time": packet.time,
            "frame_bytes": packet.original_length,
        } | dict(zip(DECODED, decode_frame(packet.frame, packet.original_length), strict=True))


@pytest.fixture
def captures(tmp_path):
    paths = {"poll": tmp_path / "poll.pcapng", "lli": tmp_path / "lli.pcapng"}
    write_capture(paths["poll"], poll())
    write_capture(paths["lli"], lli())
    return paths


def pieces(paths, size=1 << 20):
    return [Reading(name, piece) for name, path in paths.items() for piece in cut(path, size)]


def expected(paths):
    return [row for name in sorted(paths) for row in careful(paths[name], name)]


@pytest.mark.parametrize("size", [500, 1 << 20])
def test_every_frame_is_a_row_in_its_directory(spark, captures, tmp_path, size):
    out = tmp_path / "packets"
    reports = extract(pieces(captures, size), out, BY, spark)
    assert rows_of(out) == expected(captures)
    assert {report.run: report.frames for report in reports} == {
        name: len(list(read(path))) for name, path in captures.items()
    }
    assert all(sum(report.kinds.values()) == report.frames for report in reports)
    assert (out / "layering=lli" / "node=r" / "interface=r-eth1").is_dir()


@pytest.mark.spark
def test_both_engines_write_the_same(jvm, captures, tmp_path):
    by_sail, by_spark = tmp_path / "sail", tmp_path / "spark"
    found = extract(pieces(captures, 500), by_sail, BY, session(EngineChoice("sail")))
    assert extract(pieces(captures, 500), by_spark, BY, session(EngineChoice("spark"))) == found
    assert rows_of(by_spark) == rows_of(by_sail)
    assert jvm.read.parquet(str(by_spark)).count() == sum(report.frames for report in found)


def test_duckdb_reads_it(spark, captures, tmp_path):
    extract(pieces(captures), tmp_path / "packets", BY, spark)
    files = str(tmp_path / "packets" / "**" / "*.parquet")
    count = duckdb.sql(
        f"select count(*) from read_parquet('{files}', hive_partitioning = true) where layering = 'lli'"
    )
    assert count.fetchall() == [(len(list(read(captures["lli"]))),)]


def test_memory_does_not_grow_with_the_capture(tmp_path, monkeypatch):
    monkeypatch.setattr("captures.formats.records.WINDOW", 1 << 16)
    monkeypatch.setattr("captures.formats.files.PIECE_BYTES", 1 << 18)
    peaks = []
    for count in (2000, 20000):
        path = tmp_path / f"{count}.pcap.gz"
        write_pcap(path, [bytes(frame())] * 1, gz=True)
        head, record = gzip.decompress(path.read_bytes())[:24], gzip.decompress(path.read_bytes())[24:]
        path.write_bytes(gzip.compress(head + record * count))
        list(read_packets(Reading("x", next(cut(path))), ReadStatistics()))  # so that caches are full
        tracemalloc.start()
        rows = sum(batch.num_rows for batch in read_packets(Reading("x", next(cut(path))), ReadStatistics()))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert rows == count
    assert peaks[1] < 1.5 * peaks[0]


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress])
@pytest.mark.parametrize("record", [bytes(16), struct.pack("<8I", 6, 32, 0, 0, 0, 0, 0, 32)])
def test_memory_is_bounded_however_many_records_are_without_a_byte(tmp_path, monkeypatch, record, pack):
    """A few kilobytes of a compressed file hold any number of them: neither rows are made of them, nor are
    they all inflated at once."""
    window = 1 << 18
    monkeypatch.setattr("captures.formats.records.WINDOW", window)
    path = tmp_path / "x.pcapng"
    with path.open("wb") as file:
        writer = Writer(file, [Interface("a-eth0")], application="test")
        writer.write(0, 0, bytes(frame()), Direction.OUT)
    if len(record) == 16:
        write_pcap(path, [bytes(frame())])
    list(read_packets(Reading("x", next(cut(path))), ReadStatistics()))  # so that caches are full
    count = 1_200_000
    assert len(record) * count > 70 * window
    packed = tmp_path / "packed"
    packed.write_bytes(pack(path.read_bytes() + record * count))
    findings = ReadStatistics()
    [piece] = cut(packed)
    tracemalloc.start()
    rows = sum(batch.num_rows for batch in read_packets(Reading("x", piece), findings))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 1 <= rows <= 1 + MOST_EMPTY
    assert len(findings.damages) == 1
    assert peak < 16 * window


# --- which node, which way ---


def one(path, rule="auto"):
    batches = [
        batch for piece in cut(path) for batch in read_packets(Reading("x", piece, rule), ReadStatistics())
    ]
    return [row for batch in batches for row in batch.to_pylist()]


def frame(sport=6363):
    return IP4 / UDP(sport=sport, dport=6363) / Raw(make_interest(from_uri("/a"), nonce=1))


def write_pcap(path, frames, **options):
    with PcapWriter(str(path), **options) as writer:
        for each in frames:
            writer.write(each)


@pytest.mark.parametrize(
    ("name", "node", "interface"), [("a-eth0.pcap", "a", "a-eth0"), ("dump.pcap.gz", "dump", "dump")]
)
def test_a_pcap_is_of_the_node_that_its_file_names(tmp_path, name, node, interface):
    path = tmp_path / name
    write_pcap(path, [frame()], gz=name.endswith("gz"))
    (row,) = one(path)
    assert (row["node"], row["interface"], row["direction"]) == (node, interface, None)
    assert one(path, "address")[0]["node"] == "10.0.0.1"
    assert one(path, "interface")[0]["node"] == node


def test_names_without_suffixes():
    assert stem("/x/y/a.b.pcapng.gz") == "a.b"
    assert stem("capture.pcap3") == "capture"
    assert stem(".pcap") == ".pcap"


def test_the_interface_s_address_tells_the_direction(tmp_path):
    path = tmp_path / "x.pcapng"
    with path.open("wb") as file:
        writer = Writer(
            file,
            [Interface("eth0", ipv4="10.0.0.1/24"), Interface("eth1", ipv4="10.0.0.2/24")],
            application="",
        )
        octets = bytes(frame())
        for index in (0, 1, 0):
            writer.write(index, 0, octets, Direction.UNKNOWN)
        writer.write(0, 0, octets, Direction.IN)
    rows = one(path)
    assert [row["direction"] for row in rows] == ["out", "in", "out", "in"]
    assert {row["node"] for row in rows} == {"x"}
    assert [row["node"] for row in one(path, "address")] == ["10.0.0.1", "10.0.0.2", "10.0.0.1", "10.0.0.2"]


def test_a_capture_of_all_interfaces(tmp_path):
    path = tmp_path / "host.pcap"
    frames = [
        CookedLinuxV2(pkttype=kind, ifindex=index) / frame()[IP]
        for index, kind in ((2, 4), (3, 0), (2, 0), (3, 3))
    ]
    write_pcap(path, frames, linktype=276)
    assert [(row["interface"], row["direction"], row["kind"]) for row in one(path)] == [
        ("host%2", "out", "interest"),
        ("host%3", "in", "interest"),
        ("host%2", "in", "interest"),
        ("host%3", None, "interest"),
    ]


# --- streams and damage ---


def test_packets_of_a_tcp_stream_have_rows_of_their_own(spark, tmp_path):
    packets = [make_data(from_uri(f"/t/seg={i}"), b"z" * 3000) for i in range(20)]
    stream, path = b"".join(packets), tmp_path / "t.pcap"
    parts = [(at, stream[at : at + 1448]) for at in range(0, len(stream), 1448)]
    frames = [IP4 / TCP(sport=6363, dport=9, flags="S", seq=99)]
    frames += [IP4 / TCP(sport=6363, dport=9, flags="A", seq=100 + at) / Raw(part) for at, part in parts]
    swapped = frames[:]
    swapped[5], swapped[6] = swapped[6], swapped[5]
    for sent, missing in ((frames, 0), (swapped + frames[3:5], 0), (frames[:10] + frames[11:], 1)):
        write_pcap(path, sent)
        out = tmp_path / "packets"
        shutil.rmtree(out, ignore_errors=True)
        (report,) = extract(pieces({"t": path}, 2000), out, BY, spark)
        rows = rows_of(out)
        segments = [row for row in rows if row["kind"] == "segment"]
        data = [row for row in rows if row["kind"] == "data"]
        assert sum(row["frame_bytes"] for row in rows) == sum(map(len, sent))
        assert len(segments) == len(sent) == report.frames
        assert len(data) == report.kinds["data"] == 20 - missing
        assert report.gaps == missing
        assert sum(row["ndn_bytes"] for row in data) + report.skipped == len(stream) - missing * 1448
        assert [row["name"] for row in data][:3] == ["/t/seg=0", "/t/seg=1", "/t/seg=2"]
        assert {row["transport"] for row in rows} == {"tcp"}


def test_one_file_may_be_in_two_runs_under_two_names(spark, tmp_path, monkeypatch):
    packet = make_data(from_uri("/t/seg=1"), b"z")
    path = tmp_path / "t.pcap"
    write_pcap(path, [IP4 / TCP(sport=6363, dport=9, flags="A", seq=1) / Raw(packet)])
    monkeypatch.chdir(tmp_path)
    reports = extract(pieces({"a": "t.pcap", "b": path}), tmp_path / "packets", BY, spark)
    assert [(report.run, report.kinds["data"]) for report in reports] == [("a", 1), ("b", 1)]


def test_damage_is_reported_and_the_rest_is_there(spark, captures, tmp_path):
    whole = captures["poll"].read_bytes()
    captures["poll"].write_bytes(whole[:-10])
    reports = {report.run: report for report in extract(pieces(captures), tmp_path / "packets", BY, spark)}
    (damage,) = reports["poll"].damages
    assert damage[2] == "cut off in a block"
    assert damage[0] + damage[1] == len(whole) - 10
    assert reports["poll"].frames == len(list(careful_all(whole, tmp_path))) - 1
    assert reports["lli"].damages == []


def careful_all(octets, directory):
    path = directory / "whole"
    path.write_bytes(octets)
    return read(path)


# --- what others say ---


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
def test_tshark_agrees_on_frames_and_headers(captures, tmp_path):
    mixed = tmp_path / "mixed.pcapng"
    rng = random.Random(1)
    with PcapNgWriter(str(mixed)) as writer:
        for number in range(60):
            each = (
                frame(sport=rng.choice([6363, 50000]))
                if number % 3
                else IP4 / UDP(sport=53, dport=53) / Raw(b"x")
            )
            each.time = 1_700_000_000 + number / 7
            writer.write(each)
    fields = [
        "frame.number",
        "frame.time_epoch",
        "frame.len",
        "ip.src",
        "ip.dst",
        "udp.srcport",
        "udp.dstport",
        "udp.length",
    ]
    command = ["tshark", "-n", "-T", "fields", *(part for field in fields for part in ("-e", field)), "-r"]
    for path in (*captures.values(), mixed):
        said = subprocess.run([*command, str(path)], capture_output=True, check=True, text=True).stdout
        lines = [line.split("\t") for line in said.splitlines()]
        rows = one(path)
        assert len(lines) == len(rows)
        for (number, epoch, length, src, dst, sport, dport, udp_length), row in zip(lines, rows, strict=True):
            assert (int(number), int(epoch.replace(".", "")), int(length)) == (
                row["frame"],
                row["time"],
                row["frame_bytes"],
            )
            if row["kind"] == "other":
                assert 6363 not in (int(sport), int(dport))
                continue
            assert (src, dst, int(sport), int(dport)) == (
                row["src"],
                row["dst"],
                row["src_port"],
                row["dst_port"],
            )
            assert int(udp_length) == row["udp_bytes"] + row["lp_bytes"] + row["ndn_bytes"]


def test_python_ndn_agrees_on_names_and_fields(captures, tmp_path):
    path = tmp_path / "ndn.pcap"
    rng = random.Random(2)
    made = []
    for number in range(100):
        name = encoding.Name.from_str(f"/py/{rng.randbytes(4).hex()}/{number}/seg={number}")
        if number % 2:
            meta = encoding.MetaInfo(content_type=rng.choice([0, 3]), freshness_period=rng.randrange(1 << 20))
            made.append(bytes(signed(name, meta, number)))
        else:
            parameters = encoding.InterestParam(
                can_be_prefix=rng.random() < 0.5,
                must_be_fresh=rng.random() < 0.5,
                nonce=number + 1,
                lifetime=number + 9,
                hop_limit=number,
            )
            made.append(bytes(encoding.make_interest(name, parameters)))
    write_pcap(path, [IP4 / UDP(sport=6363, dport=6363) / Raw(packet) for packet in made])
    for row, packet in zip(one(path), made, strict=True):
        if packet[0] == 5:
            name, parameters, _, _ = encoding.parse_interest(packet)
            theirs = (
                parameters.can_be_prefix,
                parameters.must_be_fresh,
                parameters.nonce,
                parameters.hop_limit,
            )
            assert (row["can_be_prefix"], row["must_be_fresh"], row["nonce"], row["hop_limit"]) == theirs
            assert row["lifetime_ns"] == parameters.lifetime * 1_000_000
        else:
            name, meta, content, _ = encoding.parse_data(packet)
            assert row["content_bytes"] == len(content)
            assert (row["content_type"], row["freshness_ns"]) == (
                meta.content_type or 0,
                meta.freshness_period * 1_000_000,
            )
        assert row["name"] == encoding.Name.to_str(name)


def signed(name, meta, size):
    from ndn.security import DigestSha256Signer

    return encoding.make_data(name, meta, bytes(size), DigestSha256Signer())


def test_the_document_is_made_of_the_schema(request):
    path = request.config.rootpath / "docs" / "tables.md"
    assert path.read_text(encoding="utf-8") == document()
