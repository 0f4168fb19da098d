import logging
import shutil

import pytest
from test_ssb_export import ALICE, BOB, HMAC_KEY, REAL, feed

from ssb.canonical import parse
from ssb.export import InvalidExport, entry_line, read_export
from ssb.keys import Identity
from ssb.log import Log
from ssb.message import ForkedFeed, InvalidMessage, Message

FEED = feed(ALICE, 4)
FORGED = Message.from_text(FEED[1].text.replace("hello 1", "hallo 1"))


def filled(messages=FEED, **arguments):
    log = Log(ALICE.ref, **arguments)
    for message in messages:
        log.append(message)
    return log


def test_empty_log():
    log = Log(ALICE.ref)
    assert log.tip is None
    assert len(log) == 0
    assert list(log) == []
    assert log.get(1) is None


def test_appending():
    log = filled()
    assert log.tip == FEED[-1]
    assert len(log) == 4
    assert list(log) == FEED
    assert [log.get(sequence) for sequence in range(1, 5)] == FEED
    assert log.get(0) is log.get(-1) is log.get(5) is None


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (FEED[0], "sequence 1 does not come after 2"),
        (FEED[1], "sequence 2 does not come after 2"),
        (FEED[3], "sequence 4 does not come after 2"),
        (feed(BOB, 3)[2], "does not write the feed"),
        (FORGED, "signature does not verify"),
        (feed(ALICE, 3, HMAC_KEY)[2], "signature does not verify"),
    ],
)
def test_what_does_not_come_next_is_refused(message, reason):
    log = filled(FEED[:2])
    with pytest.raises(InvalidMessage, match=reason):
        log.append(message)
    assert list(log) == FEED[:2]


def test_first_message_must_be_the_first():
    log = Log(ALICE.ref)
    with pytest.raises(InvalidMessage, match="sequence 2 cannot come first"):
        log.append(FEED[1])
    with pytest.raises(InvalidMessage, match="does not write the feed"):
        log.append(feed(BOB, 1)[0])


def test_fork_at_a_message_that_is_held():
    log = filled()
    other = feed(ALICE, 2, text="another")[1]
    with pytest.raises(ForkedFeed, match="message 2 is %") as fork:
        log.append(other)
    assert fork.value.proof == (FEED[1], other)
    assert list(log) == FEED


def test_fork_at_the_tip():
    log = filled(FEED[:2])
    other = feed(ALICE, 3, text="another")[2]
    with pytest.raises(ForkedFeed, match="message 3 continues") as fork:
        log.append(other)
    assert fork.value.proof == (FEED[1], other)
    assert list(log) == FEED[:2]


def test_file_is_an_export(tmp_path):
    path = tmp_path / "log.jsonl"
    with Log(ALICE.ref, path) as log:
        log.append(FEED[0], received=1234.5)
        log.append(FEED[1])
        assert path.read_bytes() == entry_line(FEED[0], 1234.5) + entry_line(FEED[1], FEED[1].timestamp)
    assert parse(path.read_text().splitlines()[0])["timestamp"] == 1234.5
    assert read_export(path) == FEED[:2]
    with filled(FEED[2:], path=path) as log:
        assert list(log) == FEED
    assert read_export(path) == FEED


def test_real_feed(tmp_path):
    path = tmp_path / "log.jsonl"
    shutil.copy(REAL, path)
    author = read_export(REAL)[0].author
    with Log(author, path) as log:
        assert len(log) == 235
    assert path.read_bytes() == REAL.read_bytes()


def test_last_line_cut_short_anywhere(tmp_path, caplog):
    path = tmp_path / "log.jsonl"
    filled(path=path).close()
    whole = path.read_bytes()
    start = whole.rindex(b"\n", 0, -1) + 1
    for end in range(start + 1, len(whole) - 1):
        path.write_bytes(whole[:end])
        caplog.clear()
        with Log(ALICE.ref, path) as log:
            assert list(log) == FEED[:3]
            (record,) = caplog.records
            assert record.levelno == logging.WARNING
            assert record.getMessage().startswith(f"{path}:4: dropped the last line, {end - start} bytes")
            assert path.read_bytes() == whole[:start]
            log.append(FEED[3])
        assert path.read_bytes() == whole


@pytest.mark.parametrize("cut", [0, 1])
def test_whole_last_line_is_kept(tmp_path, caplog, cut):
    path = tmp_path / "log.jsonl"
    filled(FEED[:3], path=path).close()
    path.write_bytes(path.read_bytes()[: -cut or None])
    with filled(FEED[3:], path=path) as log:
        assert list(log) == FEED
    assert not caplog.records
    assert read_export(path) == FEED


def test_only_line_cut_short(tmp_path, caplog):
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"key":\0\0\xff')
    with Log(ALICE.ref, path) as log:
        assert len(log) == 0
    assert "log.jsonl:1: dropped the last line, 10 bytes" in caplog.text
    assert path.read_bytes() == b""


def test_damage_elsewhere_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "log.jsonl"
    filled(path=path).close()
    for old, new, reason in [
        (b"hello 1", b"hallo 1", ":2: signature does not verify; "),
        (entry_line(FEED[1], FEED[1].timestamp), b"", ":2: sequence 3 does not come after 1; "),
        (b'\n{"key', b"\nkey", ":2: not JSON: "),
    ]:
        damaged = b"".join(entry_line(message, message.timestamp) for message in FEED).replace(old, new)[:-5]
        path.write_bytes(damaged)
        with pytest.raises(InvalidExport) as error:
            Log(ALICE.ref, path)
        assert str(error.value).startswith(f"{path}{reason}")
        assert path.read_bytes() == damaged


def test_file_of_another_feed(tmp_path):
    path = tmp_path / "log.jsonl"
    filled(path=path).close()
    nobody = Identity.from_seed(bytes(32)).ref
    with pytest.raises(InvalidExport, match=r"log.jsonl:1: a message of @.* in the log of @.*; give each"):
        Log(nobody, path)


def test_hmac_key(tmp_path):
    path = tmp_path / "log.jsonl"
    messages = feed(ALICE, 2, HMAC_KEY)
    filled(messages, path=path, hmac_key=HMAC_KEY).close()
    with Log(ALICE.ref, path, HMAC_KEY) as log:
        assert list(log) == messages
    with pytest.raises(InvalidExport, match="signature does not verify"):
        Log(ALICE.ref, path)
