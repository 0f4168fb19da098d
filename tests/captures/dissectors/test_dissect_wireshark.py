"""The plugin for Wireshark, in tshark: the same lines and fields as ours, and never a Lua error."""

import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from dissect_packets import EXAMPLES, FEED, packets
from hypothesis import Phase, given, settings
from pcapng_oracle import read
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet
from scapy.utils import PcapWriter

from captures.dissectors import (
    WIRESHARK_PLUGIN,
    Data,
    Interest,
    LpPacket,
    SignatureInfo,
    SsbItem,
    ValidityPeriod,
)
from captures.dissectors.reading import Row, read_rows
from captures.dissectors.summary import FIELD_NAMES, value_text
from forwarder.wire.feed import item_name
from forwarder.wire.lp import parse_lp
from forwarder.wire.name import to_uri
from forwarder.wire.packet import parse_data, parse_interest

pytestmark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")

NAMES = [name for name in FIELD_NAMES if name.startswith("ndn.")]
INFO = "_ws.col.Info"
MALFORMED = "ndn.malformed"
TEXTS = {"ndn.feed.ssb", "ndn.signature.not_before", "ndn.signature.not_after"}
"""What may be any bytes and is shown as text: each program has a way of its own to show what is no UTF-8."""


def tshark(path: Path, *options: str) -> str:
    """Run tshark with the plugin on a capture; nothing that Lua complains of passes."""
    command = ["tshark", "-n", "-X", f"lua_script:{WIRESHARK_PLUGIN}", "-r", str(path), *options]
    done = subprocess.run(command, capture_output=True, check=False)
    said = done.stdout.decode(errors="replace") + done.stderr.decode(errors="replace")
    assert not re.search(r"lua[ :]*error|lua.*warning|traceback|\.lua:\d", said, re.IGNORECASE), said[-3000:]
    assert done.returncode == 0, said[-3000:]
    return done.stdout.decode(errors="replace")


def test_installed_and_named_on_the_command_line_it_is_loaded_once(tmp_path: Path) -> None:
    """README says how to install it, and then names it in a command for tshark."""
    installed = tmp_path / ".local" / "lib" / "wireshark" / "plugins" / "feednet.lua"
    installed.parent.mkdir(parents=True)
    installed.write_bytes(WIRESHARK_PLUGIN.read_bytes())
    path = write(tmp_path / "one.pcap", [udp(bytes(Interest(name="/a", nonce=1)))])
    command = ["tshark", "-n", "-X", f"lua_script:{WIRESHARK_PLUGIN}", "-r", str(path)]
    environment = {**os.environ, "HOME": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert "Lua" not in done.stderr
    assert "Interest /a" in done.stdout
    installed.write_text('Proto("ndn", "Named Data Networking")\n')  # as that of ndn-tools does
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    (said,) = [line for line in done.stderr.splitlines() if "plugin" in line]
    assert said.endswith(
        "another plugin has the name ndn, of ndn-tools or an older feednet: keep one of them"
    )
    assert "traceback" not in done.stderr


def fields_in_tshark(path: Path, *options: str) -> list[dict[str, list[str]]]:
    """Return each frame's fields and its line."""
    wanted = [
        argument for name in (INFO, MALFORMED, "_ws.expert.message", *NAMES) for argument in ("-e", name)
    ]
    frames = json.loads(tshark(path, *options, "-T", "json", "--no-duplicate-keys", *wanted))
    return [frame["_source"]["layers"] for frame in frames]


def in_our_words(row: Row) -> dict[str, list[str]]:
    fields: dict[str, list[str]] = {}
    for name, value in row.fields:
        if name.startswith("ndn."):
            fields.setdefault(name, []).append(value_text(name, value))
    return fields


def normal(fields: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return fields in one form: what is empty tshark calls <MISSING>, and what is true 1 or True."""
    words = {"<MISSING>": "", "True": "1"}
    return {
        name: ["..." if name in TEXTS else words.get(value, value) for value in values]
        for name, values in fields.items()
        if name in NAMES
    }


def assert_same(path: Path, *options: str) -> list[Row]:
    """Compare every frame of a capture; return our rows."""
    rows = list(read_rows(path))
    frames = fields_in_tshark(path, *options)
    assert len(frames) == len(rows)
    for row, frame in zip(rows, frames, strict=True):
        if not row.is_ndn:
            continue
        ours = in_our_words(row)
        assert frame[INFO] == [row.line], row.number
        assert frame["ndn.type"] == ours["ndn.type"], row.number
        # The plugin shows what it could read of a damaged packet; we have it as Raw.
        assert frame.get("ndn.problem") == ours.get("ndn.problem"), row.line
        is_damaged = "Malformed" in str(ours["ndn.type"]) or "Malformed" in row.line
        assert is_damaged == (MALFORMED in frame), row.line
        if not is_damaged:
            assert normal(frame) == normal(ours), row.line
    return rows


def write(path: Path, frames: list[Packet] | list[bytes]) -> Path:
    with PcapWriter(str(path), linktype=1) as writer:
        for frame in frames:
            writer.write(frame)
    return path


def udp(payload: Any, **ports: int) -> Packet:
    return (
        Ether()
        / IP(src="10.0.0.1", dst="10.0.0.2")
        / UDP(**(ports or {"sport": 6363, "dport": 6363}))
        / payload
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the emulator captures of a few layerings on a line of lossy links."""
    out = tmp_path_factory.mktemp("run") / "line"
    layerings = [word for name in LAYERINGS for word in ("--layering", name)]
    command = [sys.executable, "-m", "testbed.cli", "run", "line", "--net", "emulated", "--items", "20"]
    subprocess.run([*command, "--no-report", *layerings, "--out", str(out)], check=True, capture_output=True)
    return out


LAYERINGS = ("pull", "persistent", "notify", "sync", "lli")


@pytest.mark.parametrize("layering", LAYERINGS)
def test_a_capture_of_the_emulator(run: Path, layering: str) -> None:
    path = run / layering / "capture.pcapng"
    rows = assert_same(path)
    assert all(row.is_ndn for row in rows)
    assert any("reassembled from 2 fragments" in row.line for row in rows)
    # And against the forwarder's own parsers, which know nothing of layers.
    for frame, got in zip(read(path), fields_in_tshark(path), strict=True):
        header = parse_lp(frame.frame[42:])
        if header.frag_count > 1:
            assert got["ndn.lp.frag_count"] == [str(header.frag_count)]
        elif header.fragment[:1] == b"\x05":
            interest = parse_interest(header.fragment)
            assert got["ndn.name"] == [to_uri(interest.name)]
            assert got["ndn.nonce"] == [f"0x{interest.nonce:08x}"]
            credit = [] if interest.send_credit is None else [str(interest.send_credit)]
            assert got.get("ndn.lli.credit", []) == credit
        elif header.fragment:
            assert got["ndn.name"] == [to_uri(parse_data(header.fragment).name)]
        if header.tip is not None:
            assert got["ndn.feed.tip"] == [str(header.tip)]
            assert got["ndn.feed.limit"] == [str(header.limit)]


def test_one_packet_of_each_kind(tmp_path: Path) -> None:
    rows = assert_same(write(tmp_path / "c.pcap", [udp(bytes(packet)) for packet in EXAMPLES.values()]))
    assert [row.line for row in rows] == list(EXAMPLES)


def test_any_packet_and_what_becomes_of_it_when_damaged(tmp_path: Path) -> None:
    drawn: list[Packet] = []

    @given(packets)
    @settings(max_examples=300, deadline=None, phases=[Phase.generate], database=None)
    def draw(packet: Packet) -> None:
        drawn.append(packet)

    draw()
    wires = [bytes(packet) for packet in drawn]
    assert_same(write(tmp_path / "whole.pcap", [udp(wire, sport=6363, dport=6363) for wire in wires]))
    rng = random.Random(repr(wires))
    damaged = []
    for wire in wires:
        mutant = bytearray(wire)
        for _ in range(rng.randint(1, 3)):
            mutant[rng.randrange(len(mutant))] = rng.randrange(256)
        damaged += [udp(bytes(mutant)), udp(wire[: rng.randrange(1, len(wire) + 1)]), udp(wire + b"\0")]
    path = write(tmp_path / "damaged.pcap", damaged)
    assert_same(path)
    tshark(path, "-V")


def test_what_once_upset_the_plugin(tmp_path: Path) -> None:
    once = [
        "0606 9400 1502 0000",  # Data whose content comes before any name
        "050b 0703080161 0902 1200 1200",  # MustBeFresh once more after Selectors
    ]
    assert_same(write(tmp_path / "c.pcap", [udp(bytes.fromhex(wire)) for wire in once]))


def test_noise_on_every_way_in(tmp_path: Path) -> None:
    rng = random.Random(1)
    frames: list[Packet] = []
    for _ in range(400):
        size = rng.randrange(60)
        noise = bytes(rng.choice((0, 1, 5, 6, 7, 8, 32, 80, 100, 253, 254, 255, size, rng.randrange(256)))
                      for _ in range(size))  # fmt: skip
        noise = rng.choice((b"", b"\x05", b"\x06", b"\x64", b"\x64\xfd")) + noise
        frames += [
            udp(noise),
            udp(noise, sport=1, dport=56363),
            Ether(type=0x8624) / noise,
            Ether() / IP() / TCP(sport=rng.randrange(1024, 65536), dport=6363, flags="PA") / noise,
        ]
    path = write(tmp_path / "noise.pcap", frames)
    tshark(path, "-V")
    tshark(path, "-2", "-V")
    assert_same(write(tmp_path / "udp.pcap", [frame for frame in frames if UDP in frame]))


def test_texts(tmp_path: Path) -> None:
    validity = ValidityPeriod(not_before="20260101T000000", not_after="20270101T000000")
    certificate = Data(name="/k/KEY/1/self/v=1", signature_info=SignatureInfo(validity=validity))
    message = '{"text": "caf\u00e9"}'.encode()
    item = Data(name=item_name(FEED, 1), content=SsbItem(message=message))
    one, other = fields_in_tshark(write(tmp_path / "c.pcap", [udp(bytes(certificate)), udp(bytes(item))]))
    assert one["ndn.signature.not_before"] == ["20260101T000000"]
    assert one["ndn.signature.not_after"] == ["20270101T000000"]
    assert other["ndn.feed.ssb"] == [message.decode()]


def test_frames_cut_by_the_capture(tmp_path: Path, run: Path) -> None:
    path = tmp_path / "cut.pcap"
    capture = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1)
    for at, packet in enumerate(read(run / "lli" / "capture.pcapng")):
        frame = packet.frame[: 43 + at % 200]
        capture += struct.pack("<IIII", at, 0, len(frame), len(packet.frame)) + frame
    path.write_bytes(capture)
    assert "Cut off by the capture" in tshark(path, "-V")


def test_every_way_in_and_wiresharks_filters(tmp_path: Path) -> None:
    lli = Interest(name=item_name(FEED, 1), nonce=5, send_credit=64)
    frames = [
        udp(lli, sport=6363, dport=40000),
        udp(lli, sport=40000, dport=56363),
        Ether() / IPv6() / UDP(sport=6363, dport=6363) / lli,
        Ether(type=0x8624) / bytes(lli) / bytes(30),
        Ether() / IP() / TCP(sport=40000, dport=6363, flags="PA") / lli,
        udp(LpPacket(nack_reason="NoRoute") / lli),
        udp(b"\x05\x01"),
        udp(lli, sport=1, dport=2),
    ]
    path = write(tmp_path / "c.pcap", frames)
    rows = assert_same(path)
    assert [row.is_ndn for row in rows] == 7 * [True] + [False]

    def numbers(text: str) -> list[int]:
        return [int(word) for word in tshark(path, "-Y", text, "-T", "fields", "-e", "frame.number").split()]

    assert numbers('ndn.type == "LLI"') == [1, 2, 3, 4, 5]
    assert numbers("ndn.lli.last == 64 && udp") == [1, 2, 3, 6]
    assert numbers("ndn.lp.nack_reason == 150") == [6]
    assert numbers("ndn.malformed") == [7]
    assert numbers('ndn.feed.name contains "ssb" && ndn.nonce == 5') == [1, 2, 3, 4, 5, 6]


def test_a_stream_is_cut_into_its_packets(tmp_path: Path) -> None:
    rng = random.Random(2)
    sent = [Interest(name=f"/a/seq={at}", nonce=at) for at in range(40)]
    sent += [Data(name=f"/b/seg={at}", content=bytes(200 * at)) for at in range(20)]
    whole = b"".join(map(bytes, sent))
    at, frames = 0, []
    ends = IP(src="10.0.0.1", dst="10.0.0.2"), IP(src="10.0.0.2", dst="10.0.0.1")
    frames.append(Ether() / ends[0] / TCP(sport=40000, dport=6363, seq=99, flags="S"))
    frames.append(Ether() / ends[1] / TCP(sport=6363, dport=40000, seq=49, ack=100, flags="SA"))
    while at < len(whole):
        piece = whole[at : at + rng.randint(1, 900)]
        header = TCP(sport=40000, dport=6363, seq=100 + at, ack=50, flags="PA")
        frames.append(Ether() / ends[0] / header / piece)
        at += len(piece)
    path = write(tmp_path / "c.pcap", frames)
    for way in ([], ["-2"]):
        got = [name for frame in fields_in_tshark(path, *way) for name in frame.get("ndn.name", [])]
        assert got == [packet.name for packet in sent]


def test_fragments_in_any_order_and_lost(tmp_path: Path) -> None:
    wire = bytes(Data(name="/long/v=1", content=bytes(range(256)) * 8))
    pieces = [wire[at : at + 1000] for at in range(0, len(wire), 1000)]
    count = len(pieces)

    def fragment(packet: int, index: int) -> Packet:
        header = LpPacket(sequence=packet * 100 + index, frag_index=index, frag_count=count)
        return udp(header / pieces[index])

    frames = [fragment(1, index) for index in (2, 0, 1)]
    frames += [fragment(2, index) for index in (0, 0, 2)]
    frames += [fragment(3, index) for index in range(count)]
    rows = assert_same(path := write(tmp_path / "c.pcap", frames))
    complete = f"Data /long/v=1 2048 bytes [reassembled from {count} fragments]"
    assert [row.number for row in rows if row.line == complete] == [3, 9]
    assert_same(path, "-2")  # a second pass, as when a user clicks
    assert "Reassembled NDN packet" in tshark(path, "-x")
