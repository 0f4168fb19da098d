"""The plugin for Wireshark, in tshark, on the packets of Scuttlebutt's peers: what our own decoder reads."""

import json
import random
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import exported_packets
import pcapng_oracle
import pytest
from click.testing import CliRunner
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.packet import Packet as Frame
from scapy.utils import PcapWriter

from analysis.decode.protocols.protocol import Ends
from analysis.decode.protocols.ssb import DECLARATION
from captures.dissectors import WIRESHARK_PLUGIN
from captures.formats.exported_pdu import LINKTYPE, tcp_tags
from captures.formats.pcapng import Direction, Interface, Writer
from forwarder.wire.name import to_uri
from ssb.transport.muxrpc import GOODBYE, BodyType, Packet, encode
from ssb.transport.secure_stream import PLAIN_MARK
from ssb_over_ndn.naming import log_name
from testbed.cli.main import feednet
from testbed.experiment import run as running
from testbed.experiment.platform import EMULATED
from testbed.scenario import workload
from testbed.scenario.reader import load

pytestmark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")

ANN, BEN = ("10.0.0.1", 40000), ("10.0.0.2", 8008)
FIELDS = (
    "kind",
    "method",
    "request",
    "length",
    "author",
    "sequence",
    "content",
    "notes",
    "note",
    "malformed",
)
KINDS = {"data": "message", "note": "notes"}
"""What the plugin calls kinds of our decoder; all others it calls like these."""
HELLO = PLAIN_MARK + bytes(32)


def tshark(path: Path, *options: str) -> str:
    """Run tshark with the plugin on a capture; nothing that Lua complains of passes."""
    command = ["tshark", "-n", "-X", f"lua_script:{WIRESHARK_PLUGIN}", "-r", str(path), *options]
    done = subprocess.run(command, capture_output=True, check=False)
    said = done.stdout.decode(errors="replace") + done.stderr.decode(errors="replace")
    assert not re.search(r"lua[ :]*error|lua.*warning|traceback|\.lua:\d", said, re.IGNORECASE), said[-3000:]
    assert done.returncode == 0, said[-3000:]
    return done.stdout.decode(errors="replace")


def told(path: Path, *options: str) -> list[dict[str, Any]]:
    """Return what the plugin says of each frame: its fields, each a list, and its line as `info`."""
    wanted = [argument for name in FIELDS for argument in ("-e", f"muxrpc.{name}")]
    text = tshark(path, *options, "-T", "json", "--no-duplicate-keys", "-e", "_ws.col.Info", *wanted)
    frames = [frame["_source"]["layers"] for frame in json.loads(text)]
    return [{name.rpartition(".")[2].lower(): value for name, value in frame.items()} for frame in frames]


def export(path: Path, packets: Sequence[tuple[bool, bytes]]) -> Path:
    """Write packets as exported PDUs: whether they are from the opener, and their bytes."""
    with path.open("wb") as file:
        writer = Writer(file, [Interface("ann-eth0", link_type=LINKTYPE)], application="test")
        for at, (way, packet) in enumerate(packets):
            source, target = (ANN, BEN) if way else (BEN, ANN)
            writer.write(0, at, tcp_tags("muxrpc", source, target, at + 1) + packet, Direction.OUT)
    return path


def decoded(packets: Sequence[tuple[bool, bytes]]) -> list[Any]:
    """Return what our decoder makes of packets on one stream without encryption."""
    make = DECLARATION.framer
    assert make is not None
    framer = make(Ends(*ANN, *BEN), frozenset())
    for way in (True, False):
        list(framer.receive(way, HELLO))
    found = [message for way, packet in packets for message in framer.receive(way, packet)]
    assert len(found) == len(packets)
    return found


def assert_same(lines: list[dict[str, Any]], messages: list[Any], packets: Sequence[bytes]) -> None:
    """Compare the plugin with our decoder."""
    for line, message, packet in zip(lines, messages, packets, strict=True):
        assert line["kind"] == [KINDS.get(message.kind, message.kind)], line
        assert "malformed" not in line
        if packet == GOODBYE:
            continue
        assert line.get("method", [""]) == [message.fields["method"]], line
        assert line["length"] == [str(len(packet) - 9)]
        assert line["request"] == [str(int.from_bytes(packet[5:9], signed=True))]
        feed = to_uri(log_name(line["author"][0])) if "author" in line else None
        assert feed == message.feed
        assert line.get("sequence") == (None if message.seq is None else [str(message.seq)])
        if message.kind == "note":
            assert line["notes"] == [str(message.fields["notes"])]
            notes = [note.partition(" ") for note in line.get("note", [])]
            assert [(to_uri(log_name(ref)), words) for ref, _, words in notes] == list(message.said)


def as_json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def stream(number: int, value: Any, *, is_end: bool = False) -> bytes:
    return encode(Packet(number, as_json(value), is_stream=True, is_end=is_end))


REF = "@fCxFgAIDohm5oIb5Jo2eS8xzLMaJMS9XplewZc520Yg=.ed25519"
MESSAGE = {
    "previous": None,
    "author": REF,
    "sequence": 7,
    "timestamp": 1,
    "hash": "sha256",
    "content": {"type": "post", "text": 'the "signature": "\u00e9"'},
    "signature": "x.sig.ed25519",
}


def called(name: list[str], sort: str, *arguments: Any) -> dict[str, Any]:
    return {"name": name, "args": list(arguments), "type": sort}


NOTES = {REF: 14, REF.replace("f", "g"): 3, REF.replace("f", "h"): -1}
ERROR = {"name": "Error", "message": "no such method"}
EXAMPLES: list[tuple[bool, bytes, str]] = [
    (True, stream(1, called(["ebt", "replicate"], "duplex", {"version": 3})), "call ebt.replicate 1 duplex"),
    (False, stream(-1, {}), "notes, none"),
    (
        True,
        stream(1, NOTES),
        "notes [@fCxFgAID… at 7, receives] [@gCxFgAID… at 1, does not receive] [@hCxFgAID… not wanted]",
    ),
    (False, stream(-1, MESSAGE), "message @fCxFgAID… 7 post"),
    (False, stream(-1, MESSAGE | {"content": "abc.box", "sequence": 8}), "message @fCxFgAID… 8 private"),
    (
        False,
        stream(1, called(["createHistoryStream"], "source", {"id": REF})),
        "call createHistoryStream 1 source",
    ),
    (True, stream(-1, {"key": "%x.sha256", "value": MESSAGE}), "message @fCxFgAID… 7 post"),
    (True, stream(-1, True, is_end=True), "end of createHistoryStream 1"),
    (True, stream(2, called(["blobs", "get"], "source", "&x.sha256")), "call blobs.get 2 source"),
    (False, encode(Packet(-2, bytes(100), BodyType.BINARY, is_stream=True)), "blob, blobs.get 2, 100 bytes"),
    (True, encode(Packet(3, as_json(called(["whoami"], "async")))), "call whoami 3 async"),
    (False, encode(Packet(-3, as_json({"id": REF}))), "answer, whoami 3, 62 bytes"),
    (
        False,
        encode(Packet(-4, as_json(ERROR), is_end=True)),
        'end of call 4: {"name":"Error","message":"no such method"}',
    ),
    (False, GOODBYE, "goodbye"),
]


def test_one_packet_of_each_kind(tmp_path: Path) -> None:
    packets = [(way, packet) for way, packet, _ in EXAMPLES]
    path = export(tmp_path / "c.pcapng", packets)
    for passes in ((), ("-2",)):
        lines = told(path, *passes)
        assert [line["info"] for line in lines] == [[text] for _, _, text in EXAMPLES]
        assert_same(lines, decoded(packets), [packet for _, packet in packets])
    assert "JavaScript Object Notation" in tshark(path, "-V")
    assert tshark(path, "-Y", 'muxrpc.content == "post" && muxrpc.sequence == 7').count("\n") == 2


def capture_of(directory: Path, *, encrypt: bool) -> Path:
    chosen = load("fanout", layerings=("ssb",), items=6, parameters={"ssb": {"encrypt": encrypt}})
    running.run(chosen, workload.load(chosen), EMULATED, directory)
    return directory / "ssb" / "capture.pcapng"


def test_encrypted_streams_of_a_run(tmp_path: Path) -> None:
    path, out = capture_of(tmp_path / "run", encrypt=True), tmp_path / "plain.pcapng"
    assert CliRunner().invoke(feednet, ["decrypt", str(path), str(out)]).exit_code == 0
    lines = told(out)
    found = list(exported_packets.read(out))
    for stream in {frozenset((each.source, each.target)) for each in found}:
        chosen = [at for at, each in enumerate(found) if {each.source, each.target} == stream]
        packets = [(found[at].target[1] == 8008, found[at].packet) for at in chosen]
        assert_same([lines[at] for at in chosen], decoded(packets), [packet for _, packet in packets])
    assert sum(line["kind"] == ["message"] for line in lines) >= 6
    assert not any("kind" in line for line in told(path)), "what is encrypted is not guessed"


def test_streams_without_encryption_of_a_run(tmp_path: Path) -> None:
    path, out = capture_of(tmp_path / "run", encrypt=False), tmp_path / "plain.pcapng"
    assert CliRunner().invoke(feednet, ["decrypt", str(path), str(out)]).exit_code == 0
    exported: list[str] = []
    on_tcp: list[str] = []
    for each, line in zip(exported_packets.read(out), told(out), strict=True):
        if each.captured.interface.name == "s1-eth0":
            exported += line["kind"] + line.get("sequence", [])
    # At several places at once, Wireshark takes what it sees again for retransmissions.
    frames = [each.frame for each in pcapng_oracle.read(path) if each.interface.name == "s1-eth0"]
    for line in told(write(tmp_path / "s1.pcap", [Ether(frame) for frame in frames])):
        on_tcp += line.get("kind", []) + line.get("sequence", [])
    assert sorted(exported) == sorted(on_tcp)
    assert on_tcp.count("message") == 6


def on_tcp(packets: Sequence[tuple[bool, bytes]], rng: random.Random) -> list[Frame]:
    """Return packets on a plain stream, cut into segments at random."""
    ends = {True: IP(src=ANN[0], dst=BEN[0]), False: IP(src=BEN[0], dst=ANN[0])}
    ports = {True: {"sport": ANN[1], "dport": BEN[1]}, False: {"sport": BEN[1], "dport": ANN[1]}}
    sent = {True: 100, False: 500}
    frames = [
        Ether() / ends[True] / TCP(**ports[True], seq=99, flags="S"),
        Ether() / ends[False] / TCP(**ports[False], seq=499, ack=100, flags="SA"),
    ]
    for way, data in [(True, HELLO), (False, HELLO), *packets]:
        at = 0
        while at < len(data):
            piece = data[at : at + rng.randint(1 if at else len(PLAIN_MARK), 70)]
            header = TCP(**ports[way], seq=sent[way], ack=sent[not way], flags="PA")
            frames.append(Ether() / ends[way] / header / piece)
            at, sent[way] = at + len(piece), sent[way] + len(piece)
    return frames


def write(path: Path, frames: list[Frame]) -> Path:
    with PcapWriter(str(path), linktype=1) as writer:
        for frame in frames:
            writer.write(frame)
    return path


@pytest.mark.parametrize("seed", range(4))
def test_a_plain_stream_is_cut_into_its_packets(tmp_path: Path, seed: int) -> None:
    packets = [(way, packet) for way, packet, _ in EXAMPLES]
    path = write(tmp_path / "c.pcap", on_tcp(packets, random.Random(seed)))
    for passes in ((), ("-2",)):
        kinds = [kind for line in told(path, *passes) for kind in line.get("kind", [])]
        assert kinds == [KINDS.get(message.kind, message.kind) for message in decoded(packets)]


def test_noise(tmp_path: Path) -> None:
    rng = random.Random(1)
    packets = []
    for _ in range(300):
        _, packet, _ = rng.choice(EXAMPLES)
        mutant = bytearray(packet)
        for _ in range(rng.randint(1, 4)):
            mutant[rng.randrange(len(mutant))] = rng.randrange(256)
        packets += [(rng.random() < 0.5, bytes(mutant)), (True, packet[: rng.randrange(len(packet)) + 1])]
        packets.append((False, rng.randbytes(rng.randrange(40) + 1)))
    tshark(export(tmp_path / "c.pcapng", packets), "-V")
    tshark(export(tmp_path / "c.pcapng", packets), "-2", "-V")
    path = write(tmp_path / "c.pcap", on_tcp(packets[:200], rng))
    tshark(path, "-V")
    tshark(path, "-2", "-V")
