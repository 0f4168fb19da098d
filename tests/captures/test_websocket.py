"""WebSocket: what the library `websockets` sends comes out whole; of what is damaged, what can be read."""

import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from network_box import box, why_not
from patience import PATIENCE_S
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.utils import PcapWriter
from websockets.client import ClientProtocol
from websockets.extensions.permessage_deflate import PerMessageDeflate
from websockets.server import ServerProtocol
from websockets.uri import parse_uri

from analysis.decode.reading import Reading
from analysis.spark.engine import EngineChoice, session
from analysis.spark.parquet import BY
from analysis.spark.to_parquet import Report, extract
from captures.dissectors import WIRESHARK_PLUGIN
from captures.dissectors.reading import read_rows
from captures.formats.files import cut
from captures.layers.packet_stream import PacketStream as Stream
from captures.layers.streams import Segment
from forwarder.wire.lp import make_lp
from forwarder.wire.name import from_uri
from forwarder.wire.packet import make_data, make_interest

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
SYN, FIN = 2, 1
FIRST = 0xFFFFFF00
PACKETS = [
    make_interest(from_uri("/a/b"), nonce=1),
    make_data(from_uri("/a/b"), b"\x82\x05\x06\x07" * 100),
    make_lp(make_data(from_uri("/a/c"), b"x" * 9), congestion_mark=1),
    make_data(from_uri("/a/d"), b"y" * 4000),
]


def handshake() -> tuple[ClientProtocol, ServerProtocol, bytes, bytes]:
    """Return both ends, connected, and what each has sent for that."""
    client, server = ClientProtocol(parse_uri("ws://10.0.0.2:9696/")), ServerProtocol()
    client.send_request(client.connect())
    asked = b"".join(client.data_to_send())
    server.receive_data(asked)
    server.send_response(server.accept(server.events_received()[0]))  # type: ignore[arg-type]
    answered = b"".join(server.data_to_send())
    client.receive_data(answered)
    return client, server, asked, answered


def sent(end: ClientProtocol | ServerProtocol, messages: Iterable[tuple[bytes, int]]) -> list[bytes]:
    """Return the bytes of messages, each in a number of frames, with a ping between any two of these."""
    parts = []
    for message, frames in messages:
        size = -(-len(message) // frames)
        pieces = [message[at : at + size] for at in range(0, len(message), size)]
        end.send_binary(pieces[0], fin=len(pieces) == 1)
        for piece in pieces[1:]:
            end.send_ping(b"NFD-WebSocket")
            end.send_continuation(piece, fin=piece is pieces[-1])
        parts.append(b"".join(end.data_to_send()))
    return parts


def segments(stream: bytes, cuts: Iterable[int], first: int = FIRST) -> list[Segment]:
    bounds = sorted({0, len(stream), *(at % len(stream) for at in cuts)})
    return [Segment(first + a & 0xFFFFFFFF, 0, stream[a:b], b - a) for a, b in pairwise(bounds)]


def run(stream: Stream, some: list[Segment], begun: bool = True) -> list[bytes]:
    if begun:
        assert not list(stream.receive(Segment(FIRST - 1, SYN, b"", 0)))
    return [packet for each in some for packet in stream.receive(each)] + list(stream.finish())


messages = st.lists(st.tuples(st.sampled_from(PACKETS), st.sampled_from([1, 1, 1, 2, 5])), min_size=1)
cuts = st.lists(st.integers(0, 1 << 20), max_size=12)


@given(messages, cuts, st.booleans(), st.randoms(use_true_random=False))
def test_messages_come_out_however_they_are_cut(drawn, where, from_client, rng) -> None:
    client, server, asked, answered = handshake()
    end, before = (client, asked) if from_client else (server, answered)
    parts = segments(before + b"".join(sent(end, drawn)), where)
    rng.shuffle(parts)
    stream = Stream()  # any port: it begins with HTTP
    assert run(stream, parts) == [message for message, _ in drawn]
    assert (stream.gaps, stream.skipped) == (0, 0)


@given(messages, cuts, st.booleans(), st.data())
def test_without_a_segment_the_other_messages_are_read(drawn, where, from_client, data) -> None:
    client, server, asked, answered = handshake()
    end, before = (client, asked) if from_client else (server, answered)
    encoded = sent(end, drawn)
    parts = segments(before + b"".join(encoded), where)
    lost = data.draw(st.integers(0, len(parts) - 1))
    start = parts[lost].sequence - FIRST & 0xFFFFFFFF
    stop = start + parts[lost].length
    stream = Stream(websocket=True)
    found = run(stream, parts[:lost] + parts[lost + 1 :])
    assert stream.gaps <= 1
    # What lies before and, but for messages in several frames, after what is lost is all there.
    at, wanted = len(before), []
    for (message, frames), octets in zip(drawn, encoded, strict=True):
        if at + len(octets) <= start or (frames == 1 and at >= stop):
            wanted.append(message)
        at += len(octets)
    assert Counter(wanted) <= Counter(found) <= Counter(message for message, _ in drawn)


def test_a_capture_that_begins_in_the_middle() -> None:
    client, server, _, _ = handshake()
    for end in (client, server):
        encoded = sent(end, [(packet, 1) for packet in PACKETS * 3])
        whole = b"".join(encoded)
        for begin in range(1, len(encoded[0]) + len(encoded[1])):
            stream = Stream(websocket=True)
            found = run(stream, segments(whole[begin:], [100, 700]), begun=False)
            rest = (PACKETS * 3)[1 if begin <= len(encoded[0]) else 2 :]
            assert found == rest
            left = sum(map(len, encoded[len(PACKETS) * 3 - len(rest) :]))
            assert stream.skipped == len(whole) - begin - left


def test_what_is_refused_or_no_packet_is_counted() -> None:
    client, _, asked, answered = handshake()
    (one,) = sent(client, [(PACKETS[0], 1)])
    refused = b"HTTP/1.1 426 Upgrade Required\r\nContent-Length: 3\r\n\r\nno."
    for octets, found, skipped in [
        (refused, [], 3),
        (asked[:-2], [], len(asked) - 2),  # a handshake that does not end
        (b"GET /" + bytes(70_000), [], 70_005),
        (asked + one[:-1], [], len(one) - 1),
        (asked + b"\x82\xff\x7f" + bytes(7) + one, [PACKETS[0]], 10),  # of 2^63 bytes
        (asked + b"\x83\x05hello" + one, [PACKETS[0]], 7),  # of an opcode that is reserved
        (asked + b"\x80\x05hello" + one, [PACKETS[0]], 5),  # goes on with nothing
        (asked + b"\x02\x05hello" + one, [PACKETS[0]], 5),  # never goes on
        (asked + b"\x89\x05hello\x82\x00" + one, [PACKETS[0]], 0),  # a ping, and nothing
        (answered + b"\x81\x05hello", [b"hello"], 0),  # text, of which the decoder says that it is none
    ]:
        stream = Stream()
        assert (run(stream, segments(octets, [])), stream.skipped) == (found, skipped), octets[:200]


def test_compressed_messages_are_counted_not_read() -> None:
    _, server, _, answered = handshake()
    server.extensions = [PerMessageDeflate(False, False, 15, 15)]
    squeezed = b"".join(sent(server, [(PACKETS[3], 1)] * 3))
    server.extensions = []
    plain = b"".join(sent(server, [(PACKETS[1], 1)]))
    stream = Stream()
    assert run(stream, segments(answered + squeezed + plain, [])) == [PACKETS[1]]
    assert stream.skipped == len(squeezed)


@given(st.binary(max_size=300), cuts)
def test_any_bytes_are_read(octets: bytes, where: list[int]) -> None:
    for before in (b"", b"GET / HTTP/1.1\r\n\r\n", b"HTTP/1.1 101 Switching Protocols\r\n\r\n"):
        stream = Stream(websocket=True)
        found = run(stream, segments(before + octets + b"\0", where), begun=bool(before))
        assert sum(map(len, found)) + stream.skipped <= len(octets) + 1


# --- captures ---


def write(path: Path, *, cut_at: int | None = None, without: int | None = None) -> Path:
    """Write a capture of a connection; all its segments may be cut at some length, one may be missing."""
    client, server, asked, answered = handshake()
    ends = {client: ("10.0.0.1", "10.0.0.2", 40000, 9696), server: ("10.0.0.2", "10.0.0.1", 9696, 40000)}
    turns = [(client, asked), (server, answered)]
    for number in range(4):
        interests = [(make_interest(from_uri(f"/ws/{number}/{at}"), nonce=at), 1 + at % 2) for at in range(3)]
        turns += [(client, octets) for octets in sent(client, interests)]
        turns += [
            (server, b"".join(sent(server, [(make_data(from_uri(f"/ws/{number}/{at}"), bytes(300)), 1)])))
            for at in range(3)
        ]
    sequence = dict.fromkeys(ends, 1)
    with PcapWriter(str(path), linktype=1) as writer:

        def segment(end: ClientProtocol | ServerProtocol, flags: str, octets: bytes = b"") -> None:
            src, dst, sport, dport = ends[end]
            number = sequence[end]
            header = TCP(sport=sport, dport=dport, seq=number, flags=flags)
            frame = bytes(Ether() / IP(src=src, dst=dst) / header / octets)
            writer.write_packet(frame[:cut_at], wirelen=len(frame))
            sequence[end] += len(octets) + ("S" in flags)

        writer.write_header(None)
        segment(client, "S")
        segment(server, "SA")
        for number, (end, octets) in enumerate(turns):
            if number != without:
                segment(end, "PA", octets)
            else:
                sequence[end] += len(octets)
    return path


def extracted(path: Path, out: Path) -> tuple[Report, list[dict[str, object]]]:
    spark = session(EngineChoice("sail"))
    (report,) = extract([Reading("x", piece) for piece in cut(path)], out, BY, spark)
    rows = pq.read_table(out, partitioning="hive").to_pylist()
    packets = (row for row in rows if row["kind"] not in ("segment", "other"))
    return report, sorted(packets, key=lambda row: row["frame"])


def in_words(rows: Iterable[dict[str, object]]) -> list[str]:
    return sorted(f"{str(row['kind']).capitalize()} {row['name']}" for row in rows)


def shown(path: Path) -> list[str]:
    """Return kind and name of the packets that the plugin for Wireshark shows."""
    command = ["tshark", "-n", "-X", f"lua_script:{WIRESHARK_PLUGIN}", "-r", str(path), "-T", "json"]
    done = subprocess.run(
        [*command, "-e", "ndn.type", "-e", "ndn.name"], capture_output=True, check=True, text=True
    )
    assert not re.search("lua", done.stderr, re.IGNORECASE), done.stderr
    layers = [frame["_source"]["layers"] for frame in json.loads(done.stdout)]
    return sorted(
        f"{kind} {name}"
        for each in layers
        for kind, name in zip(each.get("ndn.type", ()), each.get("ndn.name", ()), strict=True)
    )


def dissected(path: Path) -> list[str]:
    told = [(key, value) for row in read_rows(path) for key, value in row.fields]
    kinds, names = ([value for key, value in told if key == f"ndn.{what}"] for what in ("type", "name"))
    return sorted(f"{kind} {name}" for kind, name in zip(kinds, names, strict=True))


def test_a_capture_in_three_ways(tmp_path: Path) -> None:
    path = write(tmp_path / "x.pcap")
    report, rows = extracted(path, tmp_path / "packets")
    assert (report.gaps, report.skipped, report.problems) == (0, 0, {})
    assert {row["transport"] for row in rows} == {"websocket"}
    every = [f"{kind} /ws/{a}/{b}" for kind in ("Data", "Interest") for a in range(4) for b in range(3)]
    assert in_words(rows) == every
    # As over TCP, `dissect` shows what begins and ends in one segment; here all messages do.
    assert dissected(path) == every
    if shutil.which("tshark"):
        assert set(shown(path)) <= set(every)
        assert {each for each in every if not each.endswith("/1")} <= set(shown(path))  # the whole frames


def test_damaged_captures_give_what_can_be_read(tmp_path: Path) -> None:
    for number in range(4, 22):  # those that others follow
        path = write(tmp_path / "x.pcap", without=number)
        report, rows = extracted(path, tmp_path / f"{number}")
        assert {row["transport"] for row in rows} == {"websocket"}, number
        # A message in two frames is not found right after a gap.
        assert (report.gaps, report.problems, len(rows) in (22, 23)) == (1, {}, True), number
    for size in (60, 100, 200):
        path = write(tmp_path / "x.pcap", cut_at=size)
        report, rows = extracted(path, tmp_path / f"cut {size}")
        assert not report.problems
        assert report.frames == 28
        assert len(rows) == sum(1 for line in dissected(path)), size
    whole = write(tmp_path / "x.pcap").read_bytes()
    rng = random.Random(4)
    for number in range(60):
        octets = bytearray(whole)
        for _ in range(rng.choice((1, 5, 50))):
            octets[rng.randrange(24, len(octets))] = rng.randrange(256)
        path.write_bytes(octets[: rng.choice((len(octets), rng.randrange(24, len(octets))))])
        report, rows = extracted(path, tmp_path / f"damaged {number}")
        assert len(rows) == sum(
            times for kind, times in report.kinds.items() if kind not in ("segment", "other")
        )
        # After a handshake that is damaged, a stream counts as one of plain TCP.
        assert {row["transport"] for row in rows} <= {"websocket", "tcp"}
        if not report.damages:
            list(read_rows(path))


@pytest.mark.mininet
def test_what_a_library_sends_over_a_link_is_captured_and_read(tmp_path: Path) -> None:
    if reason := why_not():
        pytest.skip(reason)
    drill = [str(Path(__file__).with_name("websocket_drill.py")), str(tmp_path), "200"]
    done = subprocess.run(
        box(sys.executable, *drill),
        capture_output=True,
        check=False,
        text=True,
        env=ENVIRONMENT,
        timeout=PATIENCE_S,
    )
    assert (done.returncode, done.stderr) == (0, "")
    path = tmp_path / "capture.pcapng"
    report, rows = extracted(path, tmp_path / "packets")
    assert (report.gaps, report.skipped, report.problems) == (0, 0, {})
    names = [f"/ws/seg={n}" for n in range(200)] + [f"/cut/seg={n}" for n in range(5)]
    every = sorted(f"{kind} {name}" for kind in ("Interest", "Data") for name in names)
    for node, ways in (("a", ("out", "in")), ("b", ("in", "out"))):
        for kind, way in zip(("interest", "data"), ways, strict=True):
            found = [
                row["name"]
                for row in rows
                if (row["node"], row["kind"], row["direction"]) == (node, kind, way)
            ]
            assert found == names
    assert sum(row["congestion_mark"] == 1 for row in rows) == 2 * 67
    if shutil.which("tshark"):  # which takes the other end's frames for retransmissions
        assert [line for line in shown(path) if "Interest /cut" not in line] == [
            line for line in every if "Interest /cut" not in line
        ]
