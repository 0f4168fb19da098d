"""Entries, side chains, vectors and BIPF: bytes made by a running implementation, and properties."""

import json
import math
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssb.bipf import MalformedBipf, decode, encode, read_varint, varint
from ssb.keys import Identity
from ssb.tiny import entry as entries
from ssb.tiny.entry import MAX_CONTENT, InvalidEntry, check_chain, first_previous, make_chain, parse, sign
from ssb.tiny.goset import GrowOnlySet, make_claim, make_novelty, read, set_demultiplexer
from ssb.tiny.vectors import (
    MalformedVector,
    Missing,
    chunk_demultiplexer,
    make_chunk_vector,
    make_want,
    read_chunk_vector,
    read_want,
    want_demultiplexer,
)

VECTORS = json.loads((Path(__file__).parent / "vectors.json").read_text(encoding="utf-8"))
"""Bytes made by a running implementation of tinySSB and tinyISP."""
AUTHOR = Identity.from_seed(bytes.fromhex(VECTORS["seed"]))
OTHER = Identity.from_seed(bytes(32))


def raw(key: str) -> bytes:
    return bytes.fromhex(VECTORS[key])


def test_keys_and_first_demultiplexer() -> None:
    assert AUTHOR.public_key == raw("fid")
    assert first_previous(AUTHOR.public_key) == raw("genesis_prev")
    first = entries.entry_demultiplexer(AUTHOR.public_key, 1, first_previous(AUTHOR.public_key))
    assert first == raw("dmx_seq1")


@pytest.mark.parametrize("case", VECTORS["entries"], ids=lambda case: f"{case['content_len']} bytes")
def test_entries_both_ways(case: dict[str, object]) -> None:
    content, previous, packet, identifier = (
        bytes.fromhex(str(case[key])) for key in ("content", "prev", "packet", "mid")
    )
    chunks = [bytes.fromhex(chunk) for chunk in case["chunks"]]  # type: ignore[attr-defined]
    sequence = int(str(case["seq"]))
    made, chain = sign(AUTHOR, sequence, previous, content)
    assert (made.packet, made.id, chain) == (packet, identifier, chunks)
    found = parse(packet, AUTHOR.public_key, sequence, previous)
    assert found == made
    assert found.chunks == len(chunks)
    check_chain(found, chunks)
    assert found.content(chunks) == content


def test_set_and_vectors_both_ways() -> None:
    told = VECTORS["goset"]
    keys = [bytes.fromhex(key) for key in told["keys"]]
    goset = GrowOnlySet(keys=keys)
    assert goset.demultiplexer == raw("goset_dmx")
    assert goset.state.hex() == told["state"]
    claim = goset.claim(0, 2)
    assert make_claim(goset.demultiplexer, claim).hex() == told["claim"]
    assert read(bytes.fromhex(told["claim"])) == claim
    assert make_novelty(goset.demultiplexer, keys[1]).hex() == told["novelty"]
    assert read(bytes.fromhex(told["novelty"])) == keys[1]
    assert want_demultiplexer(goset.state).hex() == told["want_dmx"]
    assert chunk_demultiplexer(goset.state).hex() == told["chnk_dmx"]
    want, count = make_want(goset.state, 1, [5, 1, 300])
    assert (want.hex(), count) == (told["want_pkt"], 3)
    assert read_want(want, 3) == {1: 5, 2: 1, 0: 300}
    missing = [Missing(0, 4, 0), Missing(2, 7, 1)]
    chunks, count = make_chunk_vector(goset.state, missing)
    assert (chunks.hex(), count) == (told["chnk_pkt"], 2)
    assert read_chunk_vector(chunks, 3) == missing


def test_epochs_of_sets() -> None:
    """The two implementations differ; a byte has no epoch 256, so ours are decimal digits."""
    name = "ctrl" + bytes(range(32)).hex() + bytes(range(20)).hex()
    for epoch in range(3):
        assert set_demultiplexer(name, epoch) == raw(f"ctrl_goset_dmx epoch {epoch} kotlin")
        python = raw(f"ctrl_goset_dmx epoch {epoch} python")
        assert entries.sha256(name.encode() + bytes((epoch,))).digest()[:7] == python
    assert set_demultiplexer(name, 256) != set_demultiplexer(name, 0)


@given(st.integers(1, 2**32 - 1), st.binary(max_size=2000), st.booleans())
def test_any_entry_is_read_as_it_was_signed(sequence: int, content: bytes, is_plain: bool) -> None:
    previous = content[:20].ljust(20, b"p")
    if is_plain:
        content = content[:48].ljust(48, b"\0")
    made, chunks = sign(AUTHOR, sequence, previous, content, is_plain=is_plain)
    assert len(made.packet) == 120
    assert all(len(chunk) == 120 for chunk in chunks)
    found = parse(made.packet, AUTHOR.public_key, sequence, previous)
    check_chain(found, chunks)
    assert found.content(chunks) == content


@given(st.integers(0, 119), st.integers(1, 255), st.binary(max_size=60))
def test_any_changed_byte_is_found(at: int, change: int, content: bytes) -> None:
    previous = bytes(20)
    made, _ = sign(AUTHOR, 3, previous, content)
    changed = bytearray(made.packet)
    changed[at] ^= change
    with pytest.raises(InvalidEntry):
        parse(bytes(changed), AUTHOR.public_key, 3, previous)


def test_entries_of_others_places_and_lengths() -> None:
    made, _ = sign(AUTHOR, 2, bytes(20), b"text")
    for feed, sequence, previous in [
        (OTHER.public_key, 2, bytes(20)),
        (AUTHOR.public_key, 3, bytes(20)),
        (AUTHOR.public_key, 2, b"\1" * 20),
    ]:
        with pytest.raises(InvalidEntry, match="not of this place"):
            parse(made.packet, feed, sequence, previous)
    for packet in (made.packet[:-1], made.packet + b"\0", b""):
        with pytest.raises(InvalidEntry, match="bytes"):
            parse(packet, AUTHOR.public_key, 2, bytes(20))


def test_content_too_long() -> None:
    sign(AUTHOR, 1, bytes(20), bytes(MAX_CONTENT))
    with pytest.raises(ValueError, match="are possible"):
        sign(AUTHOR, 1, bytes(20), bytes(MAX_CONTENT + 1))
    with pytest.raises(ValueError, match="48 bytes"):
        sign(AUTHOR, 1, bytes(20), b"short", is_plain=True)


@pytest.mark.parametrize(
    ("kind", "payload", "why"),
    [
        (2, bytes(48), "type 2"),
        (1, varint(MAX_CONTENT + 1), "content of"),
        (1, b"\xff" * 28, "without an end"),
        (1, b"\x80\x00", "more bytes than it needs"),
    ],
)
def test_signed_entries_that_say_nothing(kind: int, payload: bytes, why: str) -> None:
    name = b"tinyssb-v0" + AUTHOR.public_key + (1).to_bytes(4) + bytes(20)
    head = entries.sha256(name).digest()[:7] + bytes((kind,)) + payload.ljust(48, b"\0")
    with pytest.raises(InvalidEntry, match=why):
        parse(head + AUTHOR.sign(name + head), AUTHOR.public_key, 1, bytes(20))


def test_side_chains_of_others() -> None:
    made, chunks = sign(AUTHOR, 1, bytes(20), bytes(range(256)) * 2)
    check_chain(made, chunks)
    for wrong in (chunks[:-1], [*chunks, chunks[-1]], chunks[::-1], [chunks[0], *chunks[:-1]]):
        with pytest.raises(InvalidEntry, match="chunk"):
            check_chain(made, wrong)


@given(st.binary(max_size=700))
def test_chains_hold_their_content(content: bytes) -> None:
    chunks = make_chain(content)
    assert len(chunks) == math.ceil(len(content) / 100)
    assert b"".join(chunk[:100] for chunk in chunks)[: len(content)] == content
    for chunk, following in pairwise(chunks):
        assert chunk[100:] == entries.pointer_to(following)
    assert not chunks or chunks[-1][100:] == bytes(20)


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_any_value_is_read_as_it_was_written(value: object) -> None:
    assert decode(encode(value)) == value  # type: ignore[arg-type]


@given(st.binary(max_size=200))
def test_any_bytes_are_a_value_or_malformed(data: bytes) -> None:
    for unsigned in (False, True):
        try:
            value = decode(data, unsigned=unsigned)
        except MalformedBipf:
            continue
        if not unsigned and "nan" not in repr(value):
            assert decode(encode(value)) == value


@pytest.mark.parametrize("text", ["", "é", "日本", "\0"])
def test_strings_are_counted_in_bytes(text: str) -> None:
    """A published library counts characters."""
    assert decode(encode(text)) == text
    assert encode(text) == varint(len(text.encode()) << 3) + text.encode()


@pytest.mark.parametrize(
    ("value", "digits"),
    [
        (None, "06"),
        (True, "0e01"),
        (False, "0e00"),
        (0, "0a00"),
        (127, "0a7f"),
        (128, "128000"),
        (-1, "0aff"),
    ],
)
def test_values_byte_by_byte(value: object, digits: str) -> None:
    assert encode(value).hex() == digits  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [128, 200, 255, 32768, 65535])
def test_numbers_of_the_android_client_have_no_sign(number: int) -> None:
    written = number.to_bytes(1 if number < 256 else 2, "little")
    assert decode(varint(len(written) << 3 | 2) + written, unsigned=True) == number
    assert decode(encode(number), unsigned=True) == number


@pytest.mark.parametrize(
    "digits", ["", "80", "0f00", "02", "4a" + "00" * 9, "0e02", "0d00", "0600", "0e", "8000"]
)
def test_what_is_no_value(digits: str) -> None:
    with pytest.raises(MalformedBipf):
        decode(bytes.fromhex(digits))


def test_lists_in_lists_without_end() -> None:
    nested = b""
    for _ in range(60):
        nested = varint(len(nested) << 3 | 4) + nested
    with pytest.raises(MalformedBipf, match="without end"):
        decode(nested)


@pytest.mark.parametrize("inner", ["0a01", "128000", "06"])
def test_values_count_as_a_level(inner: str) -> None:
    """A number of one byte may be as deep as any other value, and no deeper."""
    nested = bytes.fromhex(inner)
    for _ in range(16):
        nested = varint(len(nested) << 3 | 4) + nested
    assert decode(nested) is not None
    with pytest.raises(MalformedBipf, match="without end"):
        decode(varint(len(nested) << 3 | 4) + nested)


@given(st.integers(0, (1 << 35) - 1))
def test_varints(number: int) -> None:
    written = varint(number)
    assert read_varint(written, 0, len(written)) == (number, len(written))


@given(
    st.lists(st.integers(1, 2**32 - 1), min_size=1, max_size=255),
    st.integers(0, 254),
    st.binary(min_size=32, max_size=32),
)
def test_want_vectors_fit_and_are_read(wanted: list[int], offset: int, state: bytes) -> None:
    offset %= len(wanted)
    turned = wanted[offset:] + wanted[:offset]
    packet, count = make_want(state, offset, turned)
    assert len(packet) <= 120
    assert count == len(wanted) or len(packet) > 110
    places = [(offset + at) % len(wanted) for at in range(count)]
    assert read_want(packet, len(wanted)) == {place: wanted[place] for place in places}


@given(st.lists(st.tuples(st.integers(0, 254), st.integers(1, 9999), st.integers(0, 170)), max_size=40))
def test_chunk_vectors_fit_and_are_read(chunks: list[tuple[int, int, int]]) -> None:
    missing = [Missing(*chunk) for chunk in chunks]
    packet, count = make_chunk_vector(bytes(32), missing)
    assert len(packet) <= 120
    assert count == len(missing) or len(packet) > 100
    assert read_chunk_vector(packet, 255) == missing[:count]


@pytest.mark.parametrize(
    "body", [0, [], [0], [3, 1], [0, 1, 1, 1, 1], ["0", 1], [0, True], [0, 1 << 32], [[0], 1]]
)
def test_what_is_no_want_vector(body: object) -> None:
    with pytest.raises(MalformedVector):
        read_want(bytes(7) + encode(body), 3)  # type: ignore[arg-type]


@pytest.mark.parametrize("body", [0, [0], [[0, 1]], [[3, 1, 0]], [[0, 1, None]], [[0, 1, 2, 3]]])
def test_what_is_no_chunk_vector(body: object) -> None:
    with pytest.raises(MalformedVector):
        read_chunk_vector(bytes(7) + encode(body), 3)  # type: ignore[arg-type]


def test_cut_vectors() -> None:
    for packet in (b"", bytes(7), make_want(bytes(32), 0, [1, 2])[0][:-1]):
        with pytest.raises(MalformedVector):
            read_want(packet, 2)
