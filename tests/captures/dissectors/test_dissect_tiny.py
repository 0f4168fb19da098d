"""tinySSB's packets in Scapy and in tshark, against what feednet's own nodes write."""

import json
import shutil
import subprocess
import zlib
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from scapy.utils import wrpcap

from captures.dissectors import (
    WIRESHARK_PLUGIN,
    TinyChunk,
    TinyChunkVector,
    TinyClaim,
    TinyEntry,
    TinyNovelty,
    TinySsb,
    TinyWant,
)
from captures.dissectors.reading import read_rows
from captures.dissectors.tiny import LAYERS, TINY_FIELDS
from ssb.keys import Identity
from ssb.tiny.entry import PLAIN, first_previous, sign
from ssb.tiny.goset import GrowOnlySet, make_novelty
from ssb.tiny.isp.messages import HopNext, SubRequest, write
from ssb.tiny.vectors import Missing, make_chunk_vector, make_want

AUTHOR = Identity.from_seed(bytes(32))
KEY, OTHER = bytes(range(32)), bytes(range(32, 64))
DEMUX = bytes(range(7))


def crc(packet: bytes) -> bytes:
    return packet + zlib.crc32(packet).to_bytes(4)


def entry(content: bytes, *, is_plain: bool = False) -> list[bytes]:
    made, chunks = sign(AUTHOR, 1, first_previous(AUTHOR.public_key), content, is_plain=is_plain)
    return [made.packet, *chunks]


def examples() -> list[tuple[bytes, type, str]]:
    """Return packets as nodes send them, what they are, and their lines."""
    tunnelled = b"".join(entry(b"x" * 50))
    claim = GrowOnlySet("s", [KEY, OTHER]).beacon()[-1]
    want, _ = make_want(KEY, 1, [5, 300, 1])
    chunks, _ = make_chunk_vector(KEY, [Missing(0, 2, 0), Missing(1, 200, 3)])
    first = entry(write(HopNext(KEY)))
    name = first[0][:7].hex()
    return [
        (first[0], TinyEntry, f"tinySSB entry {name} feedhopping_next, 1 chunks"),
        (entry(write(HopNext(None)))[0], TinyEntry, f"tinySSB entry {name} feedhopping_next"),
        (entry(write(SubRequest(KEY, OTHER)))[0], TinyEntry, f"tinySSB entry {name} sub_req, 1 chunks"),
        (entry(b"short")[0], TinyEntry, f"tinySSB entry {name} of 5 bytes"),
        (entry(b"p" * PLAIN, is_plain=True)[0], TinyEntry, f"tinySSB entry {name} of 48 bytes"),
        (entry(tunnelled)[0], TinyEntry, f"tinySSB entry {name} tunnel, 3 chunks"),
        (entry(tunnelled)[1], TinyChunk, "tinySSB chunk"),
        (first[1], TinyChunk, "tinySSB chunk, the last"),
        (want, TinyWant, "tinySSB want of 3 feeds from 1"),
        (chunks, TinyChunkVector, "tinySSB chunk vector of 2 chunks"),
        (make_novelty(DEMUX, KEY), TinyNovelty, "tinySSB novelty 00010203"),
        (claim, TinyClaim, "tinySSB claim of 2 keys, 00010203 to 20212223"),
    ]


@pytest.mark.parametrize("at", range(len(examples())))
def test_what_nodes_send(at: int) -> None:
    packet, layer, line = examples()[at]
    read = TinySsb(crc(packet))
    assert type(read) is layer
    assert read.mysummary() == line
    assert bytes(read) == crc(packet)
    fields = {name: read.getfieldval(name) for name in read.fields if name != "crc32"}
    assert bytes(layer(**fields)) == crc(packet), "the CRC is computed"
    frame = Ether(bytes(Ether() / IP(dst="239.5.5.8") / UDP() / layer(**fields)))
    assert frame[UDP].dport == 1558
    assert type(frame[UDP].payload) is layer


def test_fields() -> None:
    want, _ = make_want(KEY, 1, [5, 300, 1])
    assert TinySsb(crc(want)).numbers == [1, 5, 300, 1]
    chunks, _ = make_chunk_vector(KEY, [Missing(0, 2, 0), Missing(1, 200, 3)])
    assert TinySsb(crc(chunks)).missing == [[0, 2, 0], [1, 200, 3]]
    made = TinySsb(crc(entry(b"a" * 300)[0]))
    content = made.content
    assert (content.length, len(content.inline), content.chunks, made.isp_command) == (300, 26, 3, "")


@given(st.binary(max_size=140), st.booleans())
def test_any_bytes_are_dissected(data: bytes, is_whole: bool) -> None:
    wire = crc(data) if is_whole else data
    read = TinySsb(wire)
    if wire:
        assert bytes(read) == wire
    assert is_whole or isinstance(read, (*LAYERS, Raw, TinySsb))
    if not isinstance(read, Raw) and wire:
        assert read.mysummary()


@given(st.integers(0, 2000), st.randoms(use_true_random=False))
def test_entries_are_told_from_chunks(length: int, random: Random) -> None:
    """All entries and all last chunks; other chunks of text, too."""
    first, *chunks = entry(bytes(random.choices(range(32, 127), k=length)))
    assert isinstance(TinySsb(crc(first)), TinyEntry)
    assert all(isinstance(TinySsb(crc(chunk)), TinyChunk) for chunk in chunks)


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    random = Random(1)
    payloads = [crc(packet) for packet, _, _ in examples()]
    payloads += [payload[:-1] + b"?" for payload in payloads[:3]]
    payloads += [crc(random.randbytes(random.randint(1, 125))) for _ in range(100)]
    payloads += [crc(bytes(7) + bytes([tag, *random.randbytes(8)])) for tag in range(0, 250, 3)]
    path = tmp_path / "tiny.pcap"
    frames = [
        Ether(src="02:00:00:00:00:01", dst="01:00:5e:05:05:08")
        / IP(src="10.0.0.1", dst="239.5.5.8")
        / UDP(sport=1558, dport=1558)
        / Raw(payload)
        for payload in payloads
    ]
    wrpcap(str(path), frames)
    return path


def test_rows_of_a_capture(capture: Path) -> None:
    rows = list(read_rows(capture))
    for row, (_, _, line) in zip(rows, examples(), strict=False):
        assert row.line == line
    assert dict(rows[0].fields)["tinyssb.command"] == "feedhopping_next"
    assert all(name in TINY_FIELDS for row in rows for name, _ in row.fields if name.startswith("tinyssb."))


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
def test_the_plugin_says_the_same(capture: Path) -> None:
    names = sorted(TINY_FIELDS)
    wanted = [argument for name in names for argument in ("-e", name)]
    command = ["tshark", "-n", "-X", f"lua_script:{WIRESHARK_PLUGIN}", "-r", str(capture), "-T", "json"]
    done = subprocess.run(
        [*command, "--no-duplicate-keys", "-e", "_ws.col.Info", *wanted], capture_output=True, check=True
    )
    assert b"lua" not in done.stderr.lower(), done.stderr
    frames = [frame["_source"]["layers"] for frame in json.loads(done.stdout)]
    rows = list(read_rows(capture))
    assert len(frames) == len(rows)
    for frame, row in zip(frames, rows, strict=True):
        told = {name: [value.replace(":", "") for value in frame[name]] for name in names if name in frame}
        known: dict[str, list[str]] = {}
        for name, value in row.fields:
            if name in TINY_FIELDS:
                text = value.hex() if isinstance(value, bytes) else str(value)
                known.setdefault(name, []).append(text)
        assert told == known, row.number
        if known:
            info = frame.get("_ws.col.Info", frame.get("_ws.col.info"))
            assert info == [row.line]
