"""`feednet analyze`: what it writes, what it says, and what it refuses."""

import json

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from scapy.utils import PcapWriter

from forwarder.wire.name import from_uri
from forwarder.wire.packet import make_data, make_interest
from testbed.cli import feednet
from testbed.errors import UserError

IP4 = Ether(src="02:00:00:00:00:0a", dst="02:00:00:00:00:0b") / IP(src="10.0.0.1", dst="10.0.0.2")


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


def test_it_writes_a_table_and_says_what_it_found(capture, tmp_path):
    out = tmp_path / "out"
    said = analyze(capture, f"again={capture}", "--out", out)
    assert said.exit_code == 0
    lines = said.output.splitlines()
    assert lines[0] == "a-eth0: 4 frames"
    assert lines[1] == "  packets  2 segment, 1 data, 1 interest, 1 malformed"
    assert lines[2] == "  unread   1 malformed NDN packet"
    assert lines[3].startswith("  damage   1 x cut off in a record, ")
    assert lines[4] == "again: 4 frames"
    rows = pq.read_table(out / "packets").to_pylist()
    assert {(row["run"], row["node"], row["interface"]) for row in rows} == {
        ("a-eth0", "a", "a-eth0"),
        ("again", "a", "a-eth0"),
    }
    assert sorted(row["kind"] for row in rows if row["run"] == "again") == sorted(
        ["data", "interest", "malformed", "segment", "segment"]
    )
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert [each["frames"] for each in summary] == [4, 4]


def test_ports_and_the_node_can_be_chosen(capture, tmp_path):
    whole = capture.read_bytes() + bytes(3)
    capture.write_bytes(whole)
    said = analyze(
        capture, "--udp-port", 7000, "--tcp-port", 1, "--node", "address", "--out", tmp_path / "out"
    )
    assert "4 other, 1 " in said.output
    rows = pq.read_table(tmp_path / "out" / "packets").to_pylist()
    assert {row["node"] for row in rows} == {"10.0.0.1", "unknown"}


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["{there}", "{there}"], "two captures would be a-eth0: name them, NAME="),
        (["nowhere.pcap"], "nowhere.pcap: no such file"),
        (["{text}"], "byte 0: no pcap or pcapng file"),
    ],
)
def test_what_cannot_be_analysed_is_one_line(capture, tmp_path, arguments, reason):
    text = tmp_path / "text"
    text.write_text("no capture at all, by far\n", encoding="utf-8")
    given = [each.format(there=capture, text=text) for each in arguments]
    with pytest.raises(UserError) as refused:
        analyze(*given, "--out", tmp_path / "out")
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_table_is_not_written_over(capture, tmp_path):
    analyze(capture, "--out", tmp_path)
    with pytest.raises(UserError, match="is there already"):
        analyze(capture, "--out", tmp_path)
