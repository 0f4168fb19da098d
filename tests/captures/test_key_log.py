"""Key logs: lines, and blocks of a capture."""

import struct
from pathlib import Path

import pcapng_oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.key_log import Secret, from_lines, to_lines
from captures.formats.files import cut, read_piece
from captures.formats.key_log import SECRETS_TYPE, add_to_capture
from captures.formats.pcapng import Direction, Interface, Writer, secrets_block
from captures.formats.records import Damage

labels = st.from_regex(r"\A[A-Z][A-Z0-9_]{0,20}\Z")
secrets = st.frozensets(
    st.builds(Secret, labels, st.binary(max_size=40), st.binary(min_size=1, max_size=40)), max_size=5
)
KEY = Secret("SOME_KEY", b"\1\2", b"\3\4\5")


@given(secrets)
def test_lines_are_read_back(some):
    assert from_lines(to_lines(some)) == some
    assert from_lines(b"# a remark\n\n" + to_lines(some).replace(b"\n", b"\r\n")) == some


@given(st.binary(max_size=200))
def test_garbage_is_no_secret_or_one_that_can_be_written(lines):
    found = from_lines(lines)
    assert from_lines(to_lines(found)) == found


@pytest.mark.parametrize("label", ["", "lower", "TWO WORDS", "1ST"])
def test_a_label_that_could_not_be_read_back_is_refused(label):
    with pytest.raises(ValueError, match="no label"):
        to_lines([Secret(label, b"", b"x")])


def write(path: Path, frames: int = 3) -> None:
    with path.open("wb") as file:
        writer = Writer(file, [Interface("a-eth0"), Interface("b-eth0")], application="feednet")
        for number in range(frames):
            writer.write(number % 2, number, bytes(60), Direction.OUT)


def read(path: Path) -> tuple[int, list[bytes], list[Damage]]:
    damages: list[Damage] = []
    key_logs: list[bytes] = []
    pieces = list(cut(path, 200))
    frames = sum(
        len(window.records.at) for piece in pieces for window, _ in read_piece(piece, damages, key_logs)
    )
    return frames, key_logs, damages


@pytest.mark.parametrize("frames", [0, 1, 50])
def test_a_capture_has_the_keys_before_its_packets(tmp_path, frames):
    path = tmp_path / "x.pcapng"
    write(path, frames)
    bare = path.read_bytes()
    add_to_capture(path, to_lines([KEY]))
    block = secrets_block(SECRETS_TYPE, to_lines([KEY]))
    whole = path.read_bytes()
    at = whole.index(block)
    assert whole[:at] + whole[at + len(block) :] == bare
    assert whole.count(struct.pack("<I", 6) + struct.pack("<I", 104), 0, at) == 0
    assert read(path) == (frames, [to_lines([KEY])], [])
    assert len(list(pcapng_oracle.read(path))) == frames
    assert list(tmp_path.iterdir()) == [path]


def test_secrets_of_another_type_are_passed_over_and_damaged_ones_are_damage(tmp_path):
    path = tmp_path / "x.pcapng"
    write(path)
    bare = path.read_bytes()
    path.write_bytes(bare + secrets_block(0x544C534B, b"CLIENT_RANDOM 00 00\n"))
    assert read(path) == (3, [], [])
    block = bytearray(secrets_block(SECRETS_TYPE, to_lines([KEY])))
    block[12:16] = struct.pack("<I", 1000)
    path.write_bytes(bare + block)
    assert read(path) == (3, [], [Damage(len(bare), len(block), "secrets do not fit their block")])


def test_keys_of_a_big_endian_capture_are_read(tmp_path):
    lines = to_lines([KEY])
    header = struct.pack(">IIIHHqI", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, -1, 28)
    padded = lines + bytes(-len(lines) % 4)
    size = 20 + len(padded)
    block = struct.pack(">IIII", 10, size, SECRETS_TYPE, len(lines)) + padded + struct.pack(">I", size)
    path = tmp_path / "big.pcapng"
    path.write_bytes(header + block)
    assert read(path) == (0, [lines], [])
