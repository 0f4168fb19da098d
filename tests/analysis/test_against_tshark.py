"""The table of packets against tshark with our plugin: every column that it can tell, of every frame.

tshark reads the file, Ethernet, IP, UDP and TCP with its own dissectors; NDN, NDNLPv2 and LLIs are read by
captures/dissectors/feednet.lua, which shares no code with the analysis.
"""

import json
import shutil
import subprocess
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from crafted import MALFORMED_PACKETS, WRAPS
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether
from scapy.utils import PcapNgWriter, PcapWriter
from short_runs import ROUGH, emulate

from analysis.decode.reader import ReadStatistics, read_packets
from analysis.decode.reading import Reading
from analysis.packet_schema import PACKETS
from captures.dissectors import WIRESHARK_PLUGIN, Data, Interest, LpPacket, Selectors
from captures.dissectors.reading import read_rows
from captures.formats.files import cut
from forwarder.wire.feed import is_item_name, item_name, native_content, split_item
from forwarder.wire.lp import make_lp
from forwarder.wire.name import component, from_uri, to_uri
from forwarder.wire.packet import Interest as ForwardersInterest
from forwarder.wire.packet import make_data, parse_interest
from forwarder.wire.persistent import is_persistent
from forwarder.wire.tlv import element

pytestmark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")

Row = dict[str, Any]

FRAME = {
    "frame": "frame.number",
    "time": "frame.time_epoch",
    "frame_bytes": "frame.len",
    "interface": "frame.interface_name",
    "direction": "frame.packet_flags_direction",
    "vlan": "vlan.id",
    "ip_bytes": "ip.hdr_len",
    "src_port": "udp.srcport",
    "dst_port": "udp.dstport",
}
LINK = {
    "lp_sequence": "ndn.lp.sequence",
    "frag_index": "ndn.lp.frag_index",
    "frag_count": "ndn.lp.frag_count",
    "nack_reason": "ndn.lp.nack_reason",
    "pit_token": "ndn.lp.pit_token",
    "congestion_mark": "ndn.lp.congestion_mark",
    "feed_tip": "ndn.feed.tip",
    "feed_limit": "ndn.feed.limit",
}
NETWORK = {
    "name": "ndn.name",
    "can_be_prefix": "ndn.can_be_prefix",
    "must_be_fresh": "ndn.must_be_fresh",
    "nonce": "ndn.nonce",
    "lifetime_ns": "ndn.lifetime",
    "hop_limit": "ndn.hop_limit",
    "send_credit": "ndn.lli.credit",
    "is_persistent": "ndn.persistent",
    "feed": "ndn.feed.name",
    "seq": "ndn.feed.item",
    "content_type": "ndn.content_type",
    "freshness_ns": "ndn.freshness",
    "signature_type": "ndn.signature.type",
}
BESIDES = [
    "ip.len",
    "ip.src",
    "ip.dst",
    "ipv6.src",
    "ipv6.dst",
    "udp.length",
    "ndn.type",
    "eth.src",
    "eth.dst",
]
SIZES = ["ndn.feed.payload", "ndn.feed.ssb", "ndn.content", "ndn.feed.fork"]
FLAGS = {"can_be_prefix", "must_be_fresh", "is_persistent"}
NUMBERS = {*FRAME, *LINK, *NETWORK} - FLAGS - {"interface", "direction", "pit_token", "name", "feed", "time"}
UNTOLD = {
    "layering": "ours",
    "node": "ours",
    "problem": "ours",
    "name_length": "a name is shown as a URI",
    "hello": "no element that tshark knows",
    "evidence": "no element that tshark knows",
    "feed_first": "no element that tshark knows",
}
"""Columns that tshark cannot tell. All others are compared, in `expected` or by name above."""


def tshark(path: Path) -> list[Row]:
    """Return the first value of each field of each frame."""
    fields = [*FRAME.values(), *LINK.values(), *NETWORK.values(), *BESIDES, *SIZES]
    wanted = [word for name in fields for word in ("-e", name)]
    command = ["tshark", "-n", "-X", f"lua_script:{WIRESHARK_PLUGIN}", "-r", str(path)]
    done = subprocess.run([*command, "-T", "json", *wanted], capture_output=True, check=True)
    frames = json.loads(done.stdout)
    return [{name: values[0] for name, values in frame["_source"]["layers"].items()} for frame in frames]


def value(column: str, text: str | None) -> Any:
    """Return what tshark shows as a column holds it."""
    if column in FLAGS:
        return text is not None
    if text is None:
        return None
    if column == "time":
        return int(text.replace(".", ""))
    if column == "pit_token":
        return bytes.fromhex(text.replace(":", ""))
    if column in NUMBERS:
        number = int(text, 0)
        if column == "lp_sequence":
            number -= (number >> 63) << 64
        return number * 1_000_000 if column in ("lifetime_ns", "freshness_ns") else number
    return {1: "in", 2: "out"}.get(int(text, 0)) if column == "direction" else text


def expected(said: Row, kind: str) -> Row:
    """Return a row of the table of packets, as far as a frame of tshark's tells it."""
    row = {column: value(column, said.get(field)) for column, field in FRAME.items()}
    if row["interface"] == "unknown":
        del row["interface"]
    row["src"] = said.get("ip.src") or said.get("ipv6.src") or said["eth.src"]
    row["dst"] = said.get("ip.dst") or said.get("ipv6.dst") or said["eth.dst"]
    row["transport"] = "udp" if "udp.length" in said else "ethernet"
    # Here is NDN only, and none over TCP: test_over_tcp.py compares that.
    row |= {"protocol": "ndn", "carried_bytes": 0, "tcp_seq": None, "tcp_ack": None, "tcp_flags": None}
    row["udp_bytes"] = 8 if "udp.length" in said else 0
    if "ip.len" in said:
        row["eth_bytes"] = row["frame_bytes"] - int(said["ip.len"])
        row["lp_bytes + ndn_bytes"] = int(said["udp.length"]) - 8
    row["ip_bytes"] = row["ip_bytes"] or (40 if "ipv6.src" in said else 0)
    row |= {column: value(column, said.get(field)) for column, field in LINK.items()}
    row["frag_index"], row["frag_count"] = row["frag_index"] or 0, row["frag_count"] or 1
    row["congestion_mark"] = row["congestion_mark"] or None
    if row["frag_count"] == 1:
        row["kind"] = {"FeedState": "idle", "Ack": "idle"}.get(said["ndn.type"], said["ndn.type"].lower())
        row |= network(said, kind)
    return row


def network(said: Row, kind: str) -> Row:
    """Return the columns of a whole packet; those that its kind does not have are null."""
    row = {column: value(column, said.get(field)) for column, field in NETWORK.items()}
    asks = kind in ("interest", "lli", "nack")
    if kind == "data":
        row |= {name: row[name] or 0 for name in ("content_type", "freshness_ns")}
        row["content_bytes"] = row["payload_bytes"] = size(said.get("ndn.content", ""))
        if "ndn.feed.fork" in said:  # what is shown besides is of the two items in the proof
            del row["content_bytes"], row["payload_bytes"]
            row["feed"] = row["seq"] = None
        elif row["feed"] is not None:
            del row["content_bytes"]  # an item's content is shown by its elements
            ssb = said.get("ndn.feed.ssb")
            payload = said.get("ndn.feed.payload", "")
            row["payload_bytes"] = len(ssb.encode()) if ssb is not None else size(payload)
    elif asks:
        row["lifetime_ns"] = 4_000_000_000 if row["lifetime_ns"] is None else row["lifetime_ns"]
        row["signature_type"] = None
    return row if asks else row | dict.fromkeys(FLAGS)


def size(text: str) -> int:
    return len(bytes.fromhex(text.replace(":", "").replace("<MISSING>", "")))


def compare(path: Path) -> list[Row]:
    """Compare every frame of a capture; return our rows."""
    [piece] = cut(path)
    batches = read_packets(Reading("x", piece), ReadStatistics())
    rows = [row for batch in batches for row in batch.to_pylist()]
    frames = tshark(path)
    assert len(rows) == len(frames)
    firsts: dict[Any, Row] = {}
    for row, said in zip(rows, frames, strict=True):
        assert set(row) == set(PACKETS.names)
        ours = row | {"lp_bytes + ndn_bytes": row["lp_bytes"] + row["ndn_bytes"]}
        differing = {
            column: (ours[column], wanted)
            for column, wanted in expected(said, row["kind"]).items()
            if ours[column] != wanted
        }
        assert not differing, (row["frame"], differing)
        if row["frag_count"] > 1:
            # The plugin shows a packet where its last fragment is, we where the first is.
            place = (row["interface"], row["direction"], row["lp_sequence"] - row["frag_index"])
            if row["frag_index"] == 0:
                firsts.setdefault(place, row)
            if "ndn.name" in said and place in firsts:
                first = firsts[place]
                whole = network(said, first["kind"])
                for late in ("content_type", "freshness_ns", "signature_type"):  # perhaps not in the first
                    if first[late] is None:
                        whole.pop(late, None)
                assert {column: first[column] for column in whole} == whole, row["frame"]
    return rows


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Row]]:
    """What is in the captures of two runs, by layering, compared."""
    directory = tmp_path_factory.mktemp("runs")
    (directory / "rough.toml").write_text(ROUGH)
    chosen = ("persistent", "notify", "lli", "lli-selective")
    rough = emulate(directory / "rough", str(directory / "rough.toml"), layerings=chosen)
    fork = emulate(directory / "fork", "fork", layerings=("poll", "lli"), items=95)
    return {
        f"{run.manifest.scenario} {layering}": compare(run.capture(layering))
        for run in (rough, fork)
        for layering in run.manifest.layerings
    }


def test_two_runs(runs):
    """They hold what there is to compare."""
    rows = [row for each in runs.values() for row in each]
    assert {row["kind"] for row in rows} == {"interest", "lli", "data", "nack", "idle", "hello", "fragment"}
    for column in {*FRAME, *LINK, *NETWORK} - {"vlan", "pit_token", "interface", "direction"}:
        told = {row[column] for row in rows}
        assert told - {None}, column
    assert all(len({row[column] for row in rows}) > 2 for column in ("interface", "nonce", "feed", "seq"))


def test_frames_of_every_make(tmp_path):
    feed = component(8, b"cam") + component(8, bytes(32))
    lli = Interest(name=item_name(feed, 7), nonce=5, send_credit=64, lifetime=60000, must_be_fresh=True)
    plain = Interest(name="/a/b", nonce=1, can_be_prefix=True)
    data = Data(name="/a/b/v=3", content=b"12345")
    ends = Ether(src="02:00:00:00:00:0a", dst="02:00:00:00:00:0b")
    ip, udp = IP(src="10.0.0.1", dst="10.0.0.2"), UDP(sport=6363, dport=6363)
    made = [
        ends / ip / udp / plain,
        ends / Dot1Q(vlan=17) / ip / UDP(sport=40000, dport=6363) / lli,
        ends / IPv6(src="fe80::1", dst="ff02::2") / UDP(dport=56363) / LpPacket(pit_token=b"\x01\x02") / data,
        ends / ip / udp / LpPacket(congestion_mark=1) / data,
        ends / ip / udp / LpPacket(nack_reason="Congestion") / lli,
        ends / ip / udp / LpPacket(sequence=(1 << 64) - 1) / plain,
        Ether(src="02:00:00:00:00:0a", dst="02:00:00:00:00:0b", type=0x8624) / bytes(plain),
    ]
    path = tmp_path / "made.pcapng"
    with PcapNgWriter(str(path)) as writer:
        for number, frame in enumerate(made):
            frame.time = 1_790_000_000 + number
            writer.write(frame)
    rows = compare(path)
    assert [row["vlan"] for row in rows] == [None, 17, *[None] * 5]
    assert [row["pit_token"] for row in rows] == [None, None, b"\x01\x02", *[None] * 4]
    assert [row["congestion_mark"] for row in rows] == [None, None, None, 1, *[None] * 3]


def three_ways(path: Path) -> list[tuple[str, str | None, str | None]]:
    """Return of each frame its kind, name and problem, on which analyze, dissect and the plugin agree."""
    [piece] = cut(path)
    batches = read_packets(Reading("x", piece), ReadStatistics())
    ours = [
        (row["kind"], row["name"], row["problem"] and row["problem"].removeprefix("malformed NDN packet: "))
        for batch in batches
        for row in batch.to_pylist()
    ]
    dissected = []
    for row in read_rows(path):
        told = dict(reversed(row.fields))
        dissected.append(
            (told.get("ndn.type", "other").lower(), told.get("ndn.name"), told.get("ndn.problem"))
        )
    fields = ["ndn.type", "ndn.name", "ndn.problem"]
    wanted = [word for name in fields for word in ("-e", name)]
    command = ["tshark", "-n", "-X", f"lua_script:{WIRESHARK_PLUGIN}", "-r", str(path), "-T", "json"]
    command += ["-o", "ip.defragment:FALSE", "-o", "ipv6.defragment:FALSE"]
    done = subprocess.run([*command, *wanted], capture_output=True, check=True)
    shown = []
    for frame in json.loads(done.stdout):
        told = {name: values[0] for name, values in frame["_source"]["layers"].items()}
        shown.append((told.get("ndn.type", "other").lower(), told.get("ndn.name"), told.get("ndn.problem")))
    # Of what is no NDN, only we say why.
    ours = [(kind, name, None if kind == "other" else problem) for kind, name, problem in ours]
    # What is shown of a malformed packet's name differs; each says that, and why, it is one.
    for said in (dissected, shown):
        for place, (kind, _, problem) in enumerate(said):
            if kind == "malformed":
                said[place] = (kind, None, problem)
    assert ours == dissected
    assert ours == shown
    return ours


def test_why_packets_are_malformed_in_three_ways(tmp_path):
    packets = list(MALFORMED_PACKETS.values())
    packets += [element(100, element(0x50, packet)) for packet in packets if packet[0] in (5, 6)]
    frames = [WRAPS["udp4"][1](packet) for packet in packets]
    assert [problem for _, _, problem in three_ways(write_pcap(tmp_path / "x.pcap", 1, frames))] == [
        *MALFORMED_PACKETS,
        *(reason for reason, packet in MALFORMED_PACKETS.items() if packet[0] in (5, 6)),
    ]


def test_what_strangers_captured_in_three_ways(tmp_path):
    interest, data = bytes(Interest(name="/a/b", nonce=9)), bytes(Data(name="/a/b", content=bytes(1200)))
    old = bytes(Interest(name="/a/b", selectors=Selectors(max_suffix_components=3), nonce=9))
    packets = [interest, data, old, bytes(LpPacket(congestion_mark=1) / Data(name="/a", content=bytes(900)))]
    frames = [WRAPS[how][1](packet) for how in ("udp4", "tso", "first fragment") for packet in packets[1:]]
    frames += [WRAPS["later fragment"][1](data)]
    told = three_ways(write_pcap(tmp_path / "ethernet.pcap", 1, frames))
    assert told[2:4] == [
        ("data", "/a", None),
        ("data", "/a/b", None),
    ]
    assert told[1] == ("interest", "/a/b", "old packet format (Selectors)")
    assert told[6] == ("data", "/a/b", "IP fragment")
    assert told[8] == ("data", "/a", "IP fragment")
    ppp = [WRAPS[how][1](packet) for how in ("ppp", "ppp4", "ppp6, framed") for packet in packets]
    assert [kind for kind, _, _ in three_ways(write_pcap(tmp_path / "ppp.pcap", 9, ppp))] == 3 * [
        "interest",
        "data",
        "interest",
        "data",
    ]


NAMES = {
    "plain": from_uri("/a/b"),
    "number": from_uri("/a/seq=7"),
    "key inside a component": from_uri("/a") + component(8, b"xx" + component(8, bytes(32))) + b"\x3a\1\7",
    "number inside a component": from_uri("/a") + component(8, bytes(32) + component(58, b"\7")),
    "key of another type": from_uri("/a") + component(9, bytes(32)) + component(58, b"\7"),
    "item": item_name(from_uri("/a") + component(8, bytes(32)), 7),
}
PRIVATE = {
    "none": b"",
    "a number": element(240, b"\7"),
    "of four bytes": element(240, bytes(3) + b"\7"),
    "no number": element(240, b"hello"),
    "of three bytes": element(240, b"abc"),
    "empty": element(240),
    "no number, then one": element(240, b"abc") + element(240, b"\7"),
    "two numbers": element(240, b"\6") + element(240, b"\7"),
    "persistent": element(250),
    "not empty": element(250, b"hello"),
    "not empty, then empty": element(250, b"hello") + element(250),
    "both": element(250) + element(240, b"\7"),
}


def heeded(interest: ForwardersInterest) -> Row:
    """Return what the forwarder makes of an Interest's name and private elements."""
    parts = split_item(interest.name) if is_item_name(interest.name) else None
    return {
        "ndn.type": "Interest" if interest.send_credit is None else "LLI",
        "ndn.name": to_uri(interest.name),
        "ndn.lli.credit": interest.send_credit,
        "ndn.persistent": is_persistent(interest),
        "ndn.feed.name": parts and to_uri(parts[0]),
        "ndn.feed.item": parts and parts[1],
    }


def test_what_is_private_to_others_in_four_ways(tmp_path):
    """Types from 240 are for applications: the forwarder, and all that show packets, heed the same ones."""
    interests = [
        element(5, element(7, name) + before + element(10, b"1234") + after)
        for name, private in product(NAMES.values(), PRIVATE.values())
        for before, after in {(private, b""): 0, (b"", private): 0}
    ]
    datas = [make_data(name, native_content(b"", b"x")) for name in NAMES.values()]
    packets = [*interests, *(make_lp(packet, congestion_mark=1) for packet in interests), *datas]
    path = tmp_path / "x.pcapng"
    with PcapNgWriter(str(path)) as writer:
        for packet in packets:
            writer.write(Ether(WRAPS["udp4"][1](packet)))
    rows = compare(path)
    by_forwarder = [heeded(parse_interest(packet)) for packet in interests] * 2
    keys = list(by_forwarder[0])
    ours = [
        {
            "ndn.type": {"interest": "Interest", "lli": "LLI"}.get(row["kind"]),
            "ndn.name": row["name"],
            "ndn.lli.credit": row["send_credit"],
            "ndn.persistent": row["is_persistent"],
            "ndn.feed.name": row["feed"],
            "ndn.feed.item": row["seq"],
        }
        for row in rows[: -len(datas)]
    ]
    dissected = [dict(row.fields) for row in read_rows(path)]
    lines = [row.line for row in read_rows(path)]
    by_layer = [{key: said.get(key) or None for key in keys} for said in dissected]
    for said in by_layer:
        said["ndn.persistent"] = bool(said["ndn.persistent"])
    assert by_forwarder == ours
    assert by_forwarder == by_layer[: -len(datas)]
    assert ["LLI" in line for line in lines[: len(interests)]] == [
        "ndn.lli.credit" in said for said in dissected[: len(interests)]
    ]
    assert [row["feed"] for row in rows[-len(datas) :]] == [
        said["ndn.feed.name"] for said in by_layer[-len(datas) :]
    ]


def write_pcap(path: Path, link_type: int, frames: list[bytes]) -> Path:
    with PcapWriter(str(path), linktype=link_type) as writer:
        for frame in frames:
            writer.write(frame)
    return path


def test_every_column_is_compared_or_untold():
    said = {
        "frame.len": "60",
        "ip.len": "46",
        "udp.length": "20",
        "ip.src": "a",
        "ip.dst": "b",
        "ndn.type": "Data",
    }
    compared = set(expected(said, "data")) | {"lp_bytes", "ndn_bytes", "content_bytes"}
    assert set(PACKETS.names) == (compared - {"lp_bytes + ndn_bytes"}) | set(UNTOLD)
    assert not compared & set(UNTOLD)
