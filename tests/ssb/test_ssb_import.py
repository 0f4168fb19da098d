"""What other programs have kept is recognised, left alone, and taken in."""

import json
import struct
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ssb import bipf, key_file
from ssb.daemon.account import Account
from ssb.daemon.importing import Imported, import_directory, import_lines
from ssb.daemon.stock import addresses
from ssb.export import InvalidExport, entry_json, entry_line
from ssb.keys import Identity, encode_base64
from ssb.message import Message
from testbed.cli.main import feednet
from testbed.errors import UserError

ME, OTHER = Identity.from_seed(b"m" * 32), Identity.from_seed(b"o" * 32)


def feed_of(author: Identity, count: int) -> list[Message]:
    messages: list[Message] = []
    for number in range(count):
        content = {"type": "post", "text": f"{number} é 😀", "10": [1.5, None, {"b": True}], "2": 1e21}
        tip = messages[-1] if messages else None
        messages.append(Message.create(author, tip, content, 1.6e12 + number / 2))
    return messages


MINE, THEIRS = feed_of(ME, 5), feed_of(OTHER, 7)
ALL = [message for pair in zip(MINE, THEIRS[:5], strict=True) for message in pair] + THEIRS[5:]


def flume(entries: list[bytes]) -> bytes:
    """A log as flumelog-offset frames it; the tests with stock peers read one that it has written."""
    log = b""
    for entry in entries:
        size = struct.pack(">I", len(entry))
        log += size + entry + size + struct.pack(">I", len(log) + len(entry) + 12)
    return log


def db2(entries: list[bytes], block: int = 65536) -> bytes:
    """The same of async-append-only-log."""
    blocks = [b""]
    for entry in entries:
        record = struct.pack("<H", len(entry)) + entry
        if len(blocks[-1]) + len(record) + 2 > block:
            blocks.append(b"")
        blocks[-1] += record
    return b"".join(each.ljust(block, b"\0") for each in blocks)


def bipf_of(message: Message) -> bytes:
    entry = json.loads(entry_json(message.id, message.text, 1.0))
    return bipf.encode(entry)


def stock_directory(path: Path, kind: str, log: bytes) -> Path:
    place = path / {"flume": "flume/log.offset", "db2": "db2/log.bipf"}[kind]
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(log)
    if not (path / "secret").exists():
        key_file.create(path / "secret", ME)
    return path


def log_of(kind: str, messages: list[Message]) -> bytes:
    if kind == "flume":
        return flume([entry_json(message.id, message.text, 1.0) for message in messages])
    return db2([bipf_of(message) for message in messages], 65536)


def take_in(account: Path, directory: Path) -> Imported:
    opened = Account(account, identity=key_file.read(directory / "secret"))
    try:
        return import_directory(opened, directory, 1.0)
    finally:
        opened.close()


@pytest.mark.parametrize("kind", ["flume", "db2"])
def test_a_directory_is_taken_in_whole(tmp_path: Path, kind: str) -> None:
    stock = stock_directory(tmp_path / "stock", kind, log_of(kind, ALL))
    blob = stock / "blobs" / "sha256" / "00" / "1122"
    blob.parent.mkdir(parents=True)
    blob.write_bytes(b"a blob")
    key = encode_base64(OTHER.public_key)
    (stock / "conn.json").write_text(
        json.dumps({f"net:192.0.2.1:8008~shs:{key}": {"key": OTHER.ref}, "x": 1})
    )
    (stock / "gossip.json").write_text(json.dumps([{"address": f"net:192.0.2.1:8009~shs:{key}"}, 1, {}]))
    before = {file: file.stat().st_ctime_ns for file in stock.rglob("*")}
    assert take_in(tmp_path / "ours", stock) == (12, 5, 1, {}, {})
    assert {file: file.stat().st_ctime_ns for file in stock.rglob("*")} == before
    assert take_in(tmp_path / "ours", stock).messages == 0
    account = Account(tmp_path / "ours")
    assert [stored.message for stored in account.log.messages(None, None, None)] == ALL
    assert account.identity.ref == ME.ref
    assert account.own.doubt == "it was imported"
    assert [(known.port, known.peer) for known in account.known_peers()] == [(8009, OTHER.ref)]
    account.close()


def test_what_ends_early_keeps_the_feed_in_doubt(tmp_path: Path) -> None:
    """A message of one's own that is refused is there, for others."""
    value = json.loads(MINE[3].text)
    value["content"]["text"] = "changed"
    broken = json.dumps({"key": MINE[3].id, "value": value, "timestamp": 1}).encode()
    entries = [entry_json(message.id, message.text, 1.0) for message in ALL]
    entries[6] = broken
    stock = stock_directory(tmp_path / "stock", "flume", flume(entries))
    done = take_in(tmp_path / "ours", stock)
    assert (done.messages, done.own) == (10, 3)
    assert done.refused == {ME.ref: "signature does not verify"}
    account = Account(tmp_path / "ours")
    assert account.own.known == 5
    account.close()


def test_what_is_no_classic_message_is_counted(tmp_path: Path) -> None:
    odd = [
        {"key": "x", "value": {"author": "ssb:feed/bendybutt-v1/x", "sequence": 1}, "timestamp": 1},
        {"key": "x", "value": {"author": 7}, "timestamp": 1},
        {"key": "x", "value": json.loads(THEIRS[6].text), "ooo": True},
        {"key": "x"},
        [1],
    ]
    log = db2([bipf.encode(each) for each in odd] + [bytes(30), b"\xff\xff", bipf_of(MINE[0])])
    stock = stock_directory(tmp_path / "stock", "db2", log)
    done = take_in(tmp_path / "ours", stock)
    assert (done.messages, done.own, done.refused) == (1, 1, {})
    assert sorted(done.skipped.values()) == [1, 1, 1, 1, 2]


@pytest.mark.parametrize("kind", ["flume", "db2"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(data=st.data())
def test_damage_hurts_nothing_before_it(tmp_path: Path, kind: str, data: st.DataObject) -> None:
    """Any byte changed, and any end cut off: no error, no message that is none, and the feed is in doubt."""
    sizes = [len(log_of("flume", [one])) if kind == "flume" else len(bipf_of(one)) + 2 for one in MINE]
    log = bytearray(log_of(kind, MINE))
    place = data.draw(st.integers(0, sum(sizes) - 1))
    log[place] ^= data.draw(st.integers(1, 255))
    if data.draw(st.booleans()):
        del log[place:]
    stock = stock_directory(tmp_path / "stock", kind, bytes(log))
    with TemporaryDirectory() as place_of_ours:
        done = take_in(Path(place_of_ours), stock)
        account = Account(place_of_ours)
        assert [stored.message for stored in account.log.messages(None, None, None)] == MINE[: done.own]
        assert account.own.doubt
        account.close()
    assert done.own >= sum(sum(sizes[: number + 1]) <= place for number in range(5))
    assert done.own == 5 or done.refused or done.skipped or len(log) == sum(sizes[: done.own])


def test_undefined_is_what_stringify_makes_of_it() -> None:
    undefined = b"\x0e\x02"
    text = bipf.encode("a")
    raw = bipf.encode_list([undefined, text])
    assert bipf.decode(raw, undefined=True) == [None, "a"]
    member = text + undefined + bipf.encode("b") + text
    assert bipf.decode(bipf.varint(len(member) << 3 | bipf.DICT) + member, undefined=True) == {"b": "a"}
    with pytest.raises(bipf.MalformedBipf):
        bipf.decode(raw)


def test_addresses_that_cannot_be_read_are_none(tmp_path: Path) -> None:
    (tmp_path / "conn.json").write_bytes(b"\xff")
    (tmp_path / "gossip.json").write_text("{")
    assert addresses(tmp_path) == []


# Lines


def lines_of(path: Path, messages: list[Message]) -> Path:
    path.write_bytes(b"".join(entry_line(message, 1.0) for message in messages))
    return path


def test_lines_of_others_raise_no_doubt_and_own_ones_do(tmp_path: Path) -> None:
    (tmp_path / "ours").mkdir()
    key_file.create(tmp_path / "ours" / "secret", ME)
    account = Account(tmp_path / "ours")
    account.own.settle()
    assert import_lines(account, lines_of(tmp_path / "lines", THEIRS), 1.0).messages == 7
    assert account.own.doubt == ""
    assert import_lines(account, lines_of(tmp_path / "lines", MINE), 1.0).own == 5
    assert account.own.doubt
    account.close()


def test_a_bad_message_ends_its_own_feed_only(tmp_path: Path) -> None:
    account = Account(tmp_path / "ours")
    done = import_lines(account, lines_of(tmp_path / "lines", [THEIRS[0], THEIRS[2], *MINE]), 1.0)
    assert (done.messages, done.refused) == (6, {OTHER.ref: "sequence 3 does not come after 1"})
    (tmp_path / "lines").write_bytes(b"nonsense\n")
    with pytest.raises(InvalidExport, match=f"{tmp_path}/lines:1: "):
        import_lines(account, tmp_path / "lines", 1.0)
    account.close()


# The commands


def ssb(path: Path, *words: str) -> str:
    done = CliRunner().invoke(feednet, ["ssb", "--path", str(path), *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_messages_travel_on_a_stick(tmp_path: Path) -> None:
    ssb(tmp_path / "ann", "publish", "Hello é")
    ssb(tmp_path / "ann", "publish", "--content", '{"type": "x-y", "10": 1e21, "9": 1.0}')
    stick = tmp_path / "stick"
    stick.write_text(ssb(tmp_path / "ann", "export"))
    said = ssb(tmp_path / "ben", "import", str(stick))
    assert said.startswith("new          2 messages; 0 blobs\n")
    assert "in doubt" not in said
    exported = [json.loads(line)["key"] for line in ssb(tmp_path / "ben", "export").splitlines()]
    assert exported == [json.loads(line)["key"] for line in stick.read_text().splitlines()]
    assert ssb(tmp_path / "ben", "export", OTHER.ref) == ""


@pytest.mark.parametrize("kind", ["flume", "db2"])
def test_a_stock_directory_is_left_to_its_program(tmp_path: Path, kind: str) -> None:
    stock = stock_directory(tmp_path / "stock", kind, log_of(kind, ALL))
    (stock / "secret").chmod(0o644)
    before = [(file, file.stat().st_mode) for file in sorted(stock.rglob("*"))]
    for words in (["publish", "x"], ["status"], ["log"], ["peer"], ["--new-feed", "publish", "x"]):
        with pytest.raises(OSError, match=f"Copy it to a directory of its own: `feednet ssb import {stock}`"):
            ssb(stock, *words)
    assert [(file, file.stat().st_mode) for file in sorted(stock.rglob("*"))] == before
    said = ssb(tmp_path / "ours", "import", str(stock))
    assert f"identity     {ME.ref}, 5 messages of its own\n" in said
    with pytest.raises(OSError, match=r"nothing is published: later messages .* may be elsewhere"):
        ssb(tmp_path / "ours", "publish", "x")
    assert "in doubt     later messages" in ssb(tmp_path / "ours", "status")
    ssb(tmp_path / "ours", "--new-feed", "publish", "the sixth")
    assert json.loads(ssb(tmp_path / "ours", "status", "--json"))["own"] == 6


def test_what_cannot_be_imported_is_one_line(tmp_path: Path) -> None:
    ssb(tmp_path / "ours", "publish", "x")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="no stock peer has its messages here"):
        ssb(tmp_path / "ours", "import", str(tmp_path / "empty"))
    stock = stock_directory(tmp_path / "stock", "flume", log_of("flume", ALL))
    with pytest.raises(OSError, match=r"holds the identity .* give that one a directory of its own"):
        ssb(tmp_path / "ours", "import", str(stock))
    assert json.loads(ssb(tmp_path / "ours", "status", "--json"))["messages"] == 1
