"""`feednet decrypt`, and --keys of the commands that read captures: what encrypted streams carry."""

import json
import re
from collections import Counter, defaultdict
from pathlib import Path

import exported_packets
import pcapng_oracle
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.utils import PcapNgReader, wrpcapng

from ssb.transport.muxrpc import BodyType, Packet, PacketReader, encode
from ssb.transport.secure_stream import PLAIN_BYTES, PLAIN_MARK
from testbed.cli.main import complaint, feednet
from testbed.experiment import run as running
from testbed.experiment.platform import EMULATED
from testbed.scenario import workload
from testbed.scenario.reader import load

ITEMS, FOLLOWED_BY_TWO = 12, 8
FRIENDS = f"""
title = "Two publishers and their friends"
layerings = ["ssb"]
publishers = ["s1", "s2"]
subscribers = ["s2", "s3"]
settle_ms = 3000
[topology]
generator = "star"
leaves = 3
[workload]
items = {ITEMS}
feeds = 2
[workload.schedule]
speed = 1e6
idle_limit_ms = 50.0
[parameters.ssb]
encrypt = ENCRYPT
"""


def called(*arguments: object) -> Result:
    return CliRunner().invoke(feednet, [*map(str, arguments)])


def said(*arguments: object) -> list[str]:
    result = called(*arguments)
    assert result.exit_code == 0, result.exception or result.output
    return result.output.splitlines()


def error(*arguments: object) -> str:
    return complaint(called(*arguments).exception)


def ran(directory: Path, *, encrypted: bool) -> Path:
    """Run the scenario; return the capture."""
    file = directory / "friends.toml"
    file.write_text(FRIENDS.replace("ENCRYPT", str(encrypted).lower()), encoding="utf-8")
    chosen = load(str(file))
    running.run(chosen, workload.load(chosen), EMULATED, directory / "run")
    return directory / "run" / "ssb" / "capture.pcapng"


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ran(tmp_path_factory.mktemp("encrypted"), encrypted=True)


@pytest.fixture(scope="module")
def bare(capture: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The capture without the keys in it."""
    path = tmp_path_factory.mktemp("bare") / "capture.pcapng"
    path.write_bytes(pcapng_oracle.without_secrets(capture.read_bytes()))
    return path


def published(capture: Path) -> set[tuple[str, int]]:
    lines = (capture.parent.parent / "feed.jsonl").read_text(encoding="utf-8").splitlines()
    values = [json.loads(line) for line in lines]
    return {(value.get("value", value)["author"], value.get("value", value)["sequence"]) for value in values}


def test_every_packet_is_written_once_with_its_time_and_place(capture: Path, tmp_path: Path) -> None:
    out = tmp_path / "plain.pcapng"
    lines = said("decrypt", capture, out)
    found = list(exported_packets.read(out))
    assert lines == [f"packets  {len(found)} of muxrpc, in 3 connections", f"written  {out}"]
    frames = list(pcapng_oracle.read(capture))
    streams = defaultdict(bytes)
    messages = Counter()
    for each in found:
        assert each.dissector == "muxrpc"
        streams[each.source, each.target] += each.packet
        original = frames[each.frame - 1]
        assert original.time == each.captured.time
        assert original.interface.name == each.captured.interface.name
        assert original.direction == each.captured.direction
        ip, tcp = (Ether(original.frame)[layer] for layer in (IP, TCP))
        assert ((ip.src, tcp.sport), (ip.dst, tcp.dport)) == (each.source, each.target)
        (packet,) = PacketReader().receive(each.packet) or [None]
        if packet is not None and b'"signature"' in packet.body:
            value = json.loads(packet.body)
            messages[value["author"], value["sequence"], each.target] += 1
    assert len(streams) == 6
    assert [each.captured.time for each in found] == sorted(each.captured.time for each in found)
    assert set(messages.values()) == {1}
    got = defaultdict(set)
    for author, seq, (host, _) in messages:
        got[host].add((author, seq))
    assert published(capture) in got.values(), "one follows both"
    assert len(published(capture)) == ITEMS
    assert FOLLOWED_BY_TWO in map(len, got.values())


def test_streams_without_encryption_are_what_tcp_carried(tmp_path: Path) -> None:
    capture, out = ran(tmp_path, encrypted=False), tmp_path / "plain.pcapng"
    said("decrypt", capture, out)
    written: defaultdict[object, bytes] = defaultdict(bytes)
    for each in exported_packets.read(out):
        written[each.source, each.target] += each.packet
    carried: defaultdict[object, bytes] = defaultdict(bytes)
    for captured in pcapng_oracle.read(capture):
        if captured.interface.name.startswith("s3") or captured.interface.name == "s2-eth0":
            ip, tcp = (Ether(captured.frame)[layer] for layer in (IP, TCP))
            size = ip.len - 4 * ip.ihl - 4 * tcp.dataofs
            carried[captured.interface.name, (ip.src, tcp.sport), (ip.dst, tcp.dport)] += bytes(tcp.payload)[
                :size
            ]
    streams = {(key[1], key[2]): octets for key, octets in carried.items() if octets}
    assert all(octets.startswith(PLAIN_MARK) for octets in streams.values())
    assert written == {key: octets[PLAIN_BYTES:] for key, octets in streams.items()}


def test_other_programs_read_the_file(capture: Path, tmp_path: Path) -> None:
    said("decrypt", capture, tmp_path / "plain.pcapng")
    with PcapNgReader(str(tmp_path / "plain.pcapng")) as reader:
        frames = list(reader)
    assert [bytes(frame) for frame in frames] == [
        each.captured.frame for each in exported_packets.read(tmp_path / "plain.pcapng")
    ]


def test_a_key_log_does_as_well_as_keys_in_the_capture(capture: Path, bare: Path, tmp_path: Path) -> None:
    keys = capture.with_name("keys.log")
    said("decrypt", capture, tmp_path / "with.pcapng")
    said("decrypt", bare, "--keys", keys, tmp_path / "without.pcapng")
    assert (tmp_path / "with.pcapng").read_bytes() == (tmp_path / "without.pcapng").read_bytes()


def test_with_a_part_of_the_keys_it_says_what_is_missing(capture: Path, bare: Path, tmp_path: Path) -> None:
    lines = capture.with_name("keys.log").read_text().splitlines()
    keys = tmp_path / "some.log"
    keys.write_text(
        "# of one stream\n" + "\n".join(line for line in lines if line.split()[1] == lines[0].split()[1])
    )
    first, second, _ = said("decrypt", bare, tmp_path / "out.pcapng", "--keys", keys)
    assert re.fullmatch(r"packets  \d+ of muxrpc, in 3 connections", first)
    assert re.fullmatch(r"no key   \d+ bytes of streams", second)


def test_what_cannot_be_done_is_one_line_and_leaves_no_file(bare: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.pcapng"
    assert re.search(
        r"nothing to write: no key for its \d+ encrypted bytes: --keys", error("decrypt", bare, out)
    )
    none = tmp_path / "none.log"
    none.write_text("no key\n")
    assert error("decrypt", bare, out, "--keys", none).endswith("no line in it has a label and a secret")
    assert "No such file" in error("decrypt", bare, out, "--keys", tmp_path / "missing")
    assert "No such file" in error("decrypt", tmp_path / "missing", out)
    assert "no pcap or pcapng file" in error("decrypt", none, out)
    other = tmp_path / "other.pcapng"
    wrpcapng(str(other), [Ether() / IP() / TCP(sport=80) / b"GET"])
    assert error("decrypt", other, out).endswith("no stream in it is of a protocol that is decrypted here")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["none.log", "other.pcapng"]
    assert error("decrypt", bare, none).endswith("is there already: remove it, or choose another name")


def test_a_packet_that_wireshark_would_refuse_is_cut(tmp_path: Path) -> None:
    body = bytes(300_000)
    stream = PLAIN_MARK + bytes(32) + encode(Packet(1, body, BodyType.BINARY, is_stream=True))
    ends = IP(src="10.0.0.1", dst="10.0.0.2") / TCP(sport=40000, dport=8008, seq=100, flags="S")
    frames = [Ether() / ends]
    for at in range(0, len(stream), 1400):
        header = TCP(sport=40000, dport=8008, seq=101 + at, flags="A")
        frames.append(Ether() / IP(src="10.0.0.1", dst="10.0.0.2") / header / stream[at : at + 1400])
    wrpcapng(str(tmp_path / "in.pcapng"), frames)
    said("decrypt", tmp_path / "in.pcapng", tmp_path / "out.pcapng")
    (each,) = exported_packets.read(tmp_path / "out.pcapng")
    assert len(each.captured.frame) == 262_144
    assert each.captured.original_length == len(each.captured.frame) - len(each.packet) + 9 + len(body)


@pytest.mark.spark
def test_dissect_and_analyze_take_a_key_log(capture: Path, bare: Path, tmp_path: Path) -> None:
    keys = capture.with_name("keys.log")
    assert said("dissect", bare, "--keys", keys) == said("dissect", capture)
    assert any("ssb message of a feed" in line for line in said("dissect", capture))
    assert not any("ssb message of a feed" in line for line in said("dissect", bare))
    with_keys, without = (
        said("analyze", "--packets-only", bare, "--out", tmp_path / name, *options)
        for name, options in (("with", ("--keys", keys)), ("without", ()))
    )
    (line,) = [line for line in with_keys if line.startswith("  messages of ssb: ")]
    assert int(line.split()[3]) >= ITEMS + FOLLOWED_BY_TWO
    assert any(re.match(r"  messages of ssb: \d+ handshake, \d+ sealed", line) for line in without), without
    tables = said("analyze", bare, "--keys", keys, "--engine", "sail", "--out", tmp_path / "tables")
    assert not any("Interest" in line for line in tables)
    items = pq.read_table(tmp_path / "with" / "ssb").to_pylist()
    assert {row["method"] for row in items if row["kind"] == "data"} == {"ebt.replicate"}
