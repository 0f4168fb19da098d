"""`feednet dissect` as a user runs it."""

import gzip
import json
import os
import pty
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import pytest
from dissect_packets import FEED
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Packet
from scapy.utils import wrpcap, wrpcapng

from captures.dissectors import WIRESHARK_PLUGIN, Data, Interest, LpPacket, SsbItem
from captures.formats.pcapng import Direction, Interface, Writer
from forwarder.wire.feed import item_name
from testbed.cli.main import main

COMMAND = [sys.executable, "-m", "testbed.cli", "dissect"]


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def dissect(*arguments: str | Path, **environment: str) -> Done:
    """Run the command in this process, where Python and Scapy are awake already."""
    out, err, code = StringIO(), StringIO(), 0
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["feednet", "dissect", *map(str, arguments)])
        for name, value in environment.items():
            patch.setenv(name, value)
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
    return Done(code, out.getvalue(), err.getvalue())


def frames() -> list[Packet]:
    udp = (
        Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / IP(src="10.0.0.1", dst="10.0.0.22") / UDP()
    )
    packets = [
        udp / Interest(name="/a", nonce=1),
        udp / LpPacket(nack_reason="NoRoute") / Interest(name=item_name(FEED, 1), send_credit=64),
        udp / Data(name="/a", content=b"x"),
        Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / ARP(),
        Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / IP() / TCP(dport=6363, flags="S"),
        Ether(bytes(udp / Data(name="/a")))[UDP].underlayer / UDP(sport=6363, dport=6363) / b"\x05\x01",
    ]
    for at, packet in enumerate(packets):
        packet.time = 100 + at / 1000
    return packets


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("captures") / "c.pcap"
    wrpcap(str(path), frames()[:5])
    return path


def test_a_line_a_packet(capture: Path) -> None:
    done = dissect(capture)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "    1        0.000 ms           10.0.0.1 → 10.0.0.22          Interest /a"
    assert lines[1].endswith("Nack NoRoute LLI /ssb/logs/..%1D%1E%1F items 1..64")
    assert [line[:21] for line in lines[1:3]] == ["    2        1.000 ms", "    3        2.000 ms"]
    assert lines[2].endswith("Data /a 1 bytes")
    assert "ARP" in lines[3]
    assert "TCP" in lines[4]
    assert "\x1b" not in done.stdout


def test_pcapng_and_gzip_say_the_same(capture: Path, tmp_path: Path) -> None:
    (tmp_path / "c.pcap.gz").write_bytes(gzip.compress(capture.read_bytes()))
    wrpcapng(str(tmp_path / "c.pcapng"), frames()[:5])
    expected = dissect(capture).stdout
    assert dissect(tmp_path / "c.pcap.gz").stdout == expected
    assert dissect(tmp_path / "c.pcapng").stdout == expected


def test_interfaces_and_directions(tmp_path: Path) -> None:
    with (tmp_path / "c.pcapng").open("wb") as file:
        writer = Writer(file, [Interface("node1-eth0")], application="test")
        writer.write(0, 5_000_000_000, bytes(frames()[0]), direction=Direction.OUT)
        writer.write(0, 5_000_001_600, bytes(frames()[2]), direction=Direction.IN)
    lines = dissect(tmp_path / "c.pcapng").stdout.splitlines()
    assert lines[0].split() == [
        *("1", "0.000", "ms", "node1-eth0", "out", "10.0.0.1", "→", "10.0.0.22", "Interest", "/a")
    ]
    assert lines[1].split()[:5] == ["2", "0.002", "ms", "node1-eth0", "in"]
    assert dissect(tmp_path / "c.pcapng", "--filter", "frame.interface_name == x").stdout == ""


def test_filter_fields_and_json(capture: Path) -> None:
    lines = dissect(capture, "--filter", "ndn.type == Nack or ndn.content").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["2", "3"]
    assert lines[1].split()[1] == "2.000"  # time is that of the capture, filtered or not
    fields = dissect(capture, "--fields", "frame.number, ndn.type,ndn.nonce,ip.addr").stdout
    assert fields.splitlines()[0] == "1\tInterest\t0x00000001\t10.0.0.1,10.0.0.22"
    objects = [json.loads(line) for line in dissect(capture, "--json").stdout.splitlines()]
    assert len(objects) == 5
    assert objects[0]["fields"]["ndn.name"] == ["/a"]
    assert (objects[2]["fields"]["ndn.content"], objects[2]["summary"]) == (["78"], "Data /a 1 bytes")
    assert objects[1]["time_ns"] == 100_001_000_000


def test_one_packet_in_full(capture: Path) -> None:
    done = dissect(capture, "--packet", "2")
    assert done.returncode == 0
    assert done.stdout.startswith("frame 2, ")
    for text in ("###[ LpPacket ]###", "nack_reason= 150 (NoRoute)", "send_credit= 64"):
        assert text in done.stdout
    assert dissect(capture, "--packet", "6").stderr == f"feednet: {capture}: no frame 6 to show\n"


def test_a_capture_does_nothing_to_a_terminal(tmp_path: Path) -> None:
    item = Data(name=item_name(FEED, 1), content=SsbItem(message=b'{\n  "text": "\x1b[2J\xff"\n}'))
    with (tmp_path / "c.pcapng").open("wb") as file:
        writer = Writer(file, [Interface("eth\x1b[2J")], application="test")
        writer.write(0, 0, bytes(Ether() / IP() / UDP() / item), Direction.OUT)
    for arguments in ([], ["--packet", "1"], ["--json"], ["--fields", "frame.interface_name,ndn.feed.ssb"]):
        done = dissect(tmp_path / "c.pcapng", *arguments)
        assert done.returncode == 0
        assert "\x1b" not in done.stdout
    assert done.stdout == 'eth\\x1b[2J\t{\\n  "text": "\\x1b[2J\\xff"\\n}\n'


def test_errors_are_one_line(capture: Path, tmp_path: Path) -> None:
    text, cut, empty = tmp_path / "text", tmp_path / "cut.pcapng", tmp_path / "empty"
    text.write_text("this is no capture")
    empty.touch()
    wrpcapng(str(cut), frames()[:5])
    cut.write_bytes(cut.read_bytes()[:-30])
    for arguments, reason in (
        ((tmp_path / "none",), "No such file or directory"),
        ((tmp_path,), "Is a directory"),
        ((text,), "not a supported capture file"),
        ((empty,), "no data could be read"),
        ((capture, "--filter", "ndn.nme"), "did you mean ndn.name?"),
        ((capture, "--fields", "ndn.nme"), "did you mean ndn.name?"),
        ((cut,), "after frame 4: "),
        ((capture, "--filter", "ndn.type == Dta"), "no ndn.type is 'Dta'; there are Interest, LLI, Data, "),
        ((capture, "--filter", "frame.interface_name == r9-eth0"), "no interface is called r9-eth0; there "),
    ):
        done = dissect(*arguments)
        assert done.returncode == 1, arguments
        assert done.stderr.count("\n") == 1
        assert done.stderr.startswith("feednet: ")
        assert reason in done.stderr
    assert len(dissect(cut).stdout.splitlines()) == 4  # what could be read is shown all the same
    assert dissect().returncode == 2
    assert dissect(capture, "--json", "--packet", "1").returncode == 2


def test_who_has_read_enough_may_go(tmp_path: Path) -> None:
    path = tmp_path / "long.pcap"
    wrpcap(str(path), frames()[:3] * 400)
    assert len(dissect(path).stdout.splitlines()) == 1200  # to begin with: all of them
    with subprocess.Popen([*COMMAND, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as reader:
        assert reader.stdout
        assert reader.stderr
        reader.stdout.readline()
        reader.stdout.close()
        said = reader.stderr.read()
    assert said == b""


def test_colours_on_a_terminal(capture: Path) -> None:
    ours, theirs = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    with subprocess.Popen(
        [*COMMAND, str(capture)], stdout=theirs, env={**environment, "TERM": "xterm-256color"}
    ) as process:
        process.wait()
    os.close(theirs)
    said = os.read(ours, 65536).decode()
    os.close(ours)
    assert "\x1b[" in said
    assert "Interest" in said


def test_the_plugin(tmp_path: Path) -> None:
    assert Path(dissect("--wireshark-plugin").stdout.strip()) == WIRESHARK_PLUGIN
    installed = tmp_path / ".local" / "lib" / "wireshark" / "plugins" / "feednet.lua"
    assert dissect("--wireshark-plugin", "--install", HOME=str(tmp_path)).stdout.strip() == str(installed)
    assert installed.read_bytes() == WIRESHARK_PLUGIN.read_bytes()
    (tmp_path / "file").touch()
    done = dissect("--wireshark-plugin", "--install", HOME=str(tmp_path / "file"))
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
