from pathlib import Path

import pytest

from ssb.canonical import parse, stringify
from ssb.export import InvalidExport, entry_line, read_export
from ssb.keys import Identity
from ssb.message import Message

REAL = Path(__file__).parent.parent / "data" / "ssb-feed-235.jsonl"
ALICE = Identity.from_seed(b"a" * 32)
BOB = Identity.from_seed(b"b" * 32)
HMAC_KEY = bytes(range(32))


def feed(identity, items, hmac_key=None, text="hello"):
    messages = []
    for number in range(items):
        content = {"type": "post", "text": f"{text} {number}"}
        tip = messages[-1] if messages else None
        messages.append(Message.create(identity, tip, content, 1_500_000_000_000 + number, hmac_key))
    return messages


def line(message, received=1.5):
    return entry_line(message, received)


def pretty(message):
    return stringify(parse(line(message).decode())).encode() + b"\n\n"


@pytest.fixture
def write(tmp_path):
    def write(*pieces):
        path = tmp_path / "feed.jsonl"
        path.write_bytes(b"".join(pieces))
        return path

    return write


def refusal(path, **arguments):
    with pytest.raises(InvalidExport) as error:
        read_export(path, **arguments)
    reason = str(error.value)
    assert "\n" not in reason
    assert reason.startswith(str(path))
    return reason.removeprefix(str(path))


def test_real_feed():
    messages = read_export(REAL)
    assert [message.sequence for message in messages] == list(range(1, 236))
    entries = [parse(text) for text in REAL.read_text().splitlines()]
    assert [message.id for message in messages] == [entry["key"] for entry in entries]
    # Writing the entries again gives the file, to the byte.
    lines = [
        entry_line(message, entry["timestamp"]) for message, entry in zip(messages, entries, strict=True)
    ]
    assert b"".join(lines) == REAL.read_bytes()


def test_layouts(write):
    messages = feed(ALICE, 3)
    lines = [line(message) for message in messages]
    assert read_export(write(*lines)) == messages
    assert read_export(str(write(*lines))) == messages
    assert read_export(write(*map(pretty, messages))) == messages
    assert read_export(write(b"\n", lines[0], b"\n\n", pretty(messages[1]), lines[2])) == messages
    assert read_export(write(*(text.replace(b"\n", b"\r\n") for text in map(pretty, messages)))) == messages
    assert read_export(write(b"".join(lines).rstrip())) == messages


def test_several_feeds(write):
    alice, bob = feed(ALICE, 3), feed(BOB, 2)
    strange = b'{"key":"%x.sha256","value":{"author":"ssb:feed/other"},"timestamp":1}\n'
    path = write(line(alice[0]), line(bob[0]), line(alice[1]), strange, line(bob[1]), line(alice[2]))
    assert read_export(path, author=ALICE.ref) == alice
    assert read_export(path, author=BOB.ref) == bob
    assert refusal(path) == (
        f": holds 3 feeds, choose one as author: {ALICE.ref} (messages: 3), {BOB.ref} (messages: 2), "
        "ssb:feed/other (messages: 1)"
    )
    nobody = Identity.from_seed(bytes(32)).ref
    assert refusal(path, author=nobody).startswith(f": holds no message of {nobody}, only of {ALICE.ref}")
    many = write(*(line(feed(Identity.from_seed(bytes([n]) * 32), 1)[0]) for n in range(8)))
    assert refusal(many).endswith(", and 3 more")


def test_changed_message(write):
    lines = [line(message) for message in feed(ALICE, 3)]
    lines[1] = lines[1].replace(b"hello", b"hallo")
    assert refusal(write(*lines)).startswith(":2: signature does not verify; export the feed again")


def test_invalid_message(write):
    lines = [line(message) for message in feed(ALICE, 3)]
    lines[2] = lines[2].replace(b'"sha256",', b'"sha1",')
    assert refusal(write(*lines)) == ":3: hash is not sha256; export the feed again"


def test_key_that_is_not_the_id(write):
    one, two = feed(ALICE, 2)
    path = write(pretty(one), pretty(two).replace(two.id.encode(), one.id.encode(), 1))
    at = 2 + pretty(one).count(b"\n") - 1
    assert refusal(path) == f":{at}: key is {one.id}, but the message is {two.id}; export the feed again"


def test_feed_must_be_whole_and_in_order(write):
    lines = [line(message) for message in feed(ALICE, 4)]
    mend = "; export the whole feed, from its first message on and in order"
    assert refusal(write(*lines[1:])) == f":1: sequence 2 cannot come first in a feed{mend}"
    assert refusal(write(lines[0], *lines[2:])) == f":2: sequence 3 does not come after 1{mend}"
    assert refusal(write(*lines, lines[0])) == f":5: sequence 1 does not come after 4{mend}"
    assert refusal(write(*reversed(lines))).startswith(":1: sequence 4 cannot come first")


def test_fork(write):
    path = write(line(feed(ALICE, 1)[0]), line(feed(ALICE, 2, text="another")[1]))
    assert refusal(path).startswith(f":2: feed {ALICE.ref} is forked: message 2 continues")


def test_hmac_key(write):
    messages = feed(ALICE, 2, HMAC_KEY)
    path = write(*map(line, messages))
    assert read_export(path, hmac_key=HMAC_KEY) == messages
    assert refusal(path).endswith(", or give its network's HMAC key if it has one")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"hello", "not JSON: "),
        (b'{"key":', "not JSON: "),
        (b"\xff", "not UTF-8; save"),
        (b"[]", "no key and value; expected an entry as `ssb-server log` prints it"),
        (b'{"sync":true}', "no key and value; "),
        (b'{"key":1,"value":{}}', "no key and value; "),
        (b'{"key":"%","value":1}', "no key and value; "),
        (b'{\n  "key": "%",\n', "entry has no end; the file was cut short"),
        (b"}", "not JSON: "),
    ],
)
def test_what_is_no_entry(write, text, reason):
    (message,) = feed(ALICE, 1)
    path = write(line(message), b"\n", text)
    assert refusal(path).startswith(f":3: {reason}")


def test_value_that_is_no_message(write):
    path = write(b'{"key":"%","value":{"author":7}}')
    assert refusal(path).startswith(":1: fields are not previous, author")
    (message,) = feed(ALICE, 1)
    path = write(line(message), b'{"key":"%","value":{"author":7}}')
    assert refusal(path).endswith(f"{ALICE.ref} (messages: 1), no author (messages: 1)")
    assert read_export(path, author=ALICE.ref) == [message]


def test_empty_file(write):
    assert refusal(write(b"\n\n")) == ": holds no messages; export a feed that has some"


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_export(tmp_path / "none.jsonl")
