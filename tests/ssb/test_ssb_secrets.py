"""Key files and private messages: read back as written, and by nobody else."""

import json
import stat
from base64 import b64decode
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ssb import key_file, private
from ssb.keys import Identity, InvalidRef
from ssb.store.clocks import ClockDirectory, MemoryClocks

PEOPLE = [Identity.from_seed(bytes([number]) * 32) for number in range(1, 10)]
STRANGER = PEOPLE[8]


# Key files


def test_a_new_identity_is_read_back_and_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    made = key_file.create(path)
    assert key_file.read(path) == made
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["secret"]


def test_an_identity_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    made = key_file.create(path)
    with pytest.raises(key_file.KeyFileError, match="not overwritten"):
        key_file.create(path)
    assert key_file.read(path) == made


def test_comments_may_be_anywhere_or_nowhere(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    made = key_file.create(path)
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    path.write_text("\n".join(lines))
    assert key_file.read(path) == made
    path.write_text("\n".join(f"{line}\n  # more" for line in lines))
    assert key_file.read(path) == made


def changed(**members: object) -> str:
    value = {"curve": "ed25519", "private": PEOPLE[0].secret(), "id": PEOPLE[0].ref} | members
    return json.dumps(value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not an identity"),
        ("{", "not an identity: not JSON"),
        ("[]", 'no member "private"'),
        (changed(private=3), 'no member "private"'),
        (changed(private="AAAA.ed25519"), "not an identity"),
        (changed(curve="k256"), "only ed25519 is known"),
        (changed(id=PEOPLE[1].ref), "does not belong"),
    ],
)
def test_what_is_no_identity_is_one_line(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "secret"
    path.write_text(text)
    with pytest.raises(key_file.KeyFileError, match=reason) as error:
        key_file.read(path)
    assert str(error.value).startswith(f"{path}: ")
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(key_file.KeyFileError, match="No such file"):
        key_file.read(tmp_path / "secret")
    with pytest.raises(key_file.KeyFileError, match="No such file"):
        key_file.create(tmp_path / "nowhere" / "secret")


# Private messages


@given(st.integers(1, 7), st.text(max_size=200))
def test_recipients_read_it_and_nobody_else(count: int, text: str) -> None:
    text = text.encode("utf-8", "replace").decode()
    content = {"type": "post", "text": text}
    boxed = private.box(content, [person.ref for person in PEOPLE[:count]])
    assert [private.unbox(boxed, person) for person in PEOPLE[:count]] == [content] * count
    assert private.unbox(boxed, STRANGER) is None


@given(st.integers(0, 1 << 20), st.integers(1, 63))
def test_a_message_that_was_changed_is_read_by_nobody(at: int, shift: int) -> None:
    boxed = private.box({"type": "post", "text": "x"}, [PEOPLE[0].ref])
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    at %= len(boxed) - len(".box") - 2
    letter = letters[(letters.index(boxed[at]) + shift) % 64]
    changed = boxed[:at] + letter + boxed[at + 1 :]
    assume(b64decode(changed.removesuffix(".box")) != b64decode(boxed.removesuffix(".box")))  # spare bits
    assert private.unbox(changed, PEOPLE[0]) is None


@pytest.mark.parametrize("content", [{"type": "post"}, "x", ".box", "AAAA.box", "AAAA.box2", None, "é.box"])
def test_what_is_no_private_message_says_nothing(content: object) -> None:
    assert private.unbox(content, PEOPLE[0]) is None


def test_recipients_are_bounded_and_are_feeds() -> None:
    for count in (0, 8):
        with pytest.raises(ValueError, match="1 to 7 recipients"):
            private.box({"type": "post"}, [person.ref for person in PEOPLE[:count]])
    with pytest.raises(InvalidRef):
        private.box({"type": "post"}, ["@nobody"])


# Remote clocks


@pytest.mark.parametrize("kind", ["memory", "directory"])
def test_clocks_are_kept_by_peer_and_forgotten_by_feed(kind: str, tmp_path: Path) -> None:
    clocks = MemoryClocks() if kind == "memory" else ClockDirectory(tmp_path / "ebt")
    one, other, feed, kept = (person.ref for person in PEOPLE[:4])
    assert clocks.remote_clock(one) == {}
    clocks.set_remote_clock(one, {feed: 3, kept: -1})
    clocks.set_remote_clock(other, {feed: 5})
    assert clocks.remote_clock(one) == {feed: 3, kept: -1}
    clocks.forget_feeds([feed])
    again = clocks if isinstance(clocks, MemoryClocks) else ClockDirectory(tmp_path / "ebt")
    for each in (clocks, again):
        assert each.remote_clock(one) == {kept: -1}
        assert each.remote_clock(other) == {}


def test_a_damaged_clock_counts_as_none(tmp_path: Path) -> None:
    peer = PEOPLE[0].ref
    ClockDirectory(tmp_path).set_remote_clock(peer, {peer: 3})
    [path] = tmp_path.iterdir()
    for text in ("{", "[]", '{"x": "y"}', "\udcff"):
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        assert ClockDirectory(tmp_path).remote_clock(peer) == {}
