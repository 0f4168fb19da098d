import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from test_ssb_canonical import TEXTS, VALUES

from ssb import keys
from ssb.canonical import parse, stringify
from ssb.keys import Identity
from ssb.message import MAX_UNITS, ForkedFeed, InvalidMessage, Message

HERE = Path(__file__).parent
ENTRIES = [parse(line) for line in (HERE.parent / "data" / "ssb-feed-235.jsonl").read_text().splitlines()]
V8_MESSAGES = json.loads((HERE / "v8_pairs.json").read_text())["messages"]

ALICE = Identity.from_seed(b"a" * 32)
BOB = Identity.from_seed(b"b" * 32)
POST = {"type": "post", "text": "hello"}
HMAC_KEY = bytes(range(32))


def post(previous=None, text="hello", identity=ALICE, timestamp=1_500_000_000_000, hmac_key=None):
    return Message.create(identity, previous, {"type": "post", "text": text}, timestamp, hmac_key)


SECOND = post(post())


def test_real_feed():
    tip = None
    for entry in ENTRIES:
        message = Message.from_value(entry["value"])
        message.verify()
        message.follow(tip)
        assert message.id == entry["key"]
        assert message.sequence == (tip.sequence if tip else 0) + 1
        assert message.content == entry["value"]["content"]
        assert Message.from_text(message.text) == Message.from_text(message.encoded) == message
        tip = message
    assert tip.sequence == 235


@pytest.mark.parametrize("made", V8_MESSAGES)
def test_message_signed_by_node(made):
    hmac_key = made["hmac_key"] and bytes.fromhex(made["hmac_key"])
    message = Message.from_text(made["text"])
    message.verify(hmac_key)
    assert message.id == made["id"]
    assert message.author == Identity.from_seed(bytes.fromhex(made["seed"])).ref
    with pytest.raises(InvalidMessage, match="signature does not verify"):
        message.verify(None if hmac_key else HMAC_KEY)


def test_created_message():
    first = post(text="café 😀")
    assert first.text == (
        "{\n"
        '  "previous": null,\n'
        f'  "author": "{ALICE.ref}",\n'
        '  "sequence": 1,\n'
        '  "timestamp": 1500000000000,\n'
        '  "hash": "sha256",\n'
        '  "content": {\n'
        '    "type": "post",\n'
        '    "text": "café 😀"\n'
        "  },\n"
        f'  "signature": "{first.signature}"\n'
        "}"
    )
    assert first.encoded == first.text.encode()
    units = first.text.replace("😀", "\ud83d\ude00")
    low_bytes = bytes(ord(unit) & 0xFF for unit in units)
    assert first.id == keys.message_ref(hashlib.sha256(low_bytes).digest())
    second = post(first)
    assert (second.previous, second.sequence, second.author) == (first.id, 2, first.author)


@given(
    members=st.dictionaries(TEXTS, VALUES, max_size=4),
    kind=st.text(min_size=3, max_size=26),
    timestamp=st.integers(-(2**1000), 2**1000) | st.floats(allow_nan=False, allow_infinity=False),
    hmac_key=st.none() | st.binary(min_size=32, max_size=32),
    later=st.booleans(),
)
def test_what_we_create_verifies(members, kind, timestamp, hmac_key, later):
    previous = post() if later else None
    assume(len(stringify(members)) < 4000)
    message = Message.create(ALICE, previous, members | {"type": kind}, timestamp, hmac_key)
    message.verify(hmac_key)
    message.follow(previous)
    again = Message.from_text(message.encoded)
    assert (again.id, again.content, again.timestamp) == (message.id, message.content, message.timestamp)
    assert Message.from_value(parse(stringify(parse(message.text), indent=0))) == message


def test_both_orders_of_author_and_sequence_occur_and_are_two_messages():
    orders = {tuple(entry["value"])[1:3] for entry in ENTRIES}
    assert orders == {("author", "sequence"), ("sequence", "author")}
    value = parse(SECOND.text)
    swapped = {key: value[key] for key in ["previous", "sequence", "author", *list(value)[3:]]}
    other = Message.from_value(swapped)
    assert other.id != SECOND.id
    with pytest.raises(InvalidMessage, match="signature does not verify"):
        other.verify()


@pytest.mark.parametrize(
    "order", [[1, 0, 2, 3, 4, 5, 6], [0, 1, 2, 3, 4, 6, 5], [0, 3, 2, 1, 4, 5, 6], [0, 1, 2]]
)
def test_other_orders_of_fields_are_refused(order):
    value = parse(SECOND.text)
    names = list(value)
    with pytest.raises(InvalidMessage, match="fields are not previous, author"):
        Message.from_value({names[place]: value[names[place]] for place in order})


def test_further_field_is_refused():
    with pytest.raises(InvalidMessage, match="fields are not"):
        Message.from_value(parse(SECOND.text) | {"extra": 1})


REFUSED_FIELDS = [
    ("previous", None, "previous is not null in the first"),
    ("previous", 1, "previous is not a string"),
    ("previous", "%short.sha256", "previous: not base64"),
    ("previous", ALICE.ref, "previous: reference is not of the form %"),
    ("author", None, "author is not a string"),
    ("author", SECOND.id, "author: reference is not of the form @"),
    ("author", ALICE.ref.replace("ed25519", "sha256"), "author: reference is not of the form @"),
    ("sequence", 0, "sequence is not a positive integer"),
    ("sequence", -1, "sequence is not a positive integer"),
    ("sequence", 1, "previous is not null in the first"),
    ("sequence", 2.5, "sequence is not a positive integer"),
    ("sequence", 2**53, "sequence is not a positive integer"),
    ("sequence", 1e300, "sequence is not a positive integer"),
    ("sequence", True, "sequence is not a positive integer"),
    ("sequence", "2", "sequence is not a positive integer"),
    ("timestamp", "1500000000000", "timestamp is not a number"),
    ("timestamp", None, "timestamp is not a number"),
    ("timestamp", True, "timestamp is not a number"),
    ("timestamp", float("inf"), "timestamp is not a number"),
    ("hash", "sha512", "hash is not sha256"),
    ("hash", None, "hash is not sha256"),
    ("content", None, "content is neither"),
    ("content", False, "content is neither"),
    ("content", 100, "content is neither"),
    ("content", [], "content is neither"),
    ("content", [POST], "content is neither"),
    ("content", {}, "content has no type"),
    ("content", {"type": None}, "content has no type"),
    ("content", {"type": 1234}, "content has no type"),
    ("content", {"type": ""}, "content's type has 0"),
    ("content", {"type": "ab"}, "content's type has 2"),
    ("content", {"type": "😀"}, "content's type has 2"),
    ("content", {"type": "a" * 53}, "content's type has 53"),
    ("content", {"type": "😀" * 27}, "content's type has 54"),
    ("content", "hello", "content is a string, but not"),
    ("content", "", "content is a string, but not"),
    ("content", ".box", "content is a string, but not"),
    ("content", "aGVsbG8=.boxes", "content is a string, but not"),
    ("content", "aGVsbG8=.box0", "content is a string, but not"),
    ("content", "aGVsbG8=.box\n", "content is a string, but not"),
    ("content", " aGVsbG8=.box", "content is a string, but not"),
    ("content", "aGVsbG9=.box", "content: base64 is not canonical"),
    ("content", "aGVsbG8.box", "content: not base64"),
    ("content", "aab.box", "content: not base64"),
    ("signature", None, "signature is not a string"),
    ("signature", "A" * 86 + "==", "signature: does not end with"),
    ("signature", "A" * 85 + "B==.sig.ed25519", "signature: base64 is not canonical"),
    ("signature", "A" * 84 + ".sig.ed25519", "signature: has 63 bytes"),
    ("signature", "A" * 88 + ".sig.ed25519", "signature: has 66 bytes"),
]


@pytest.mark.parametrize(("name", "value", "reason"), REFUSED_FIELDS)
def test_refused_field(name, value, reason):
    fields = parse(SECOND.text) | {name: value}
    with pytest.raises(InvalidMessage, match=reason):
        Message.from_value(fields)
    with pytest.raises(InvalidMessage, match=reason):
        Message.from_text(stringify(fields))


def test_first_message_has_no_previous():
    with pytest.raises(InvalidMessage, match="previous is not null in the first"):
        Message.from_value(parse(post().text) | {"previous": SECOND.id})


@pytest.mark.parametrize(
    "content",
    [
        {"type": "abc"},
        {"type": "a" * 52},
        {"type": "😀" * 26},
        {"type": "\ud800\udc00\ud800"},
        {"type": "post", "__proto__": None},
        "aGVsbG8=.box",
        "aGVsbG8h.box2",
        "aA==.boxZ0",
    ],
)
def test_allowed_content(content):
    message = Message.create(ALICE, None, content, 0)
    message.verify()
    assert Message.from_text(message.encoded).content == message.content


@pytest.mark.parametrize("timestamp", [0, -1, 1439392020612.001, 1e-7, 1e21, -0.0])
def test_allowed_timestamp(timestamp):
    message = post(timestamp=timestamp)
    message.verify()
    assert Message.from_text(message.encoded).timestamp == timestamp


@pytest.mark.parametrize(("character", "units"), [("a", 1), ("é", 1), ("€", 1), ("😀", 2)])
def test_longest_message(character, units):
    room = MAX_UNITS - len(post(text="").text)
    longest = post(text=character * (room // units) + "." * (room % units))
    assert len(longest.text.encode("utf-16-le")) // 2 == 8192
    assert Message.from_text(longest.encoded).id == longest.id
    too_long = longest.text.replace('"text": "', '"text": ".')
    for refused in [too_long, too_long.encode()]:
        with pytest.raises(InvalidMessage, match="has 8193 UTF-16 units"):
            Message.from_text(refused)
    with pytest.raises(InvalidMessage, match="has 8193 UTF-16 units"):
        Message.from_value(parse(too_long))
    with pytest.raises(InvalidMessage, match="has 8193 UTF-16 units"):
        post(text=longest.content["text"] + ".")


def test_long_text_is_refused_before_it_is_parsed():
    with pytest.raises(InvalidMessage, match="has 1000000 UTF-16 units"):
        Message.from_text(b"[" * 1_000_000)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text + "\n",
        lambda text: " " + text,
        lambda text: "\ufeff" + text,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("  ", "\t"),
        lambda text: text.replace("1500000000000", "1.5e12"),
        lambda text: text.replace("1500000000000", "1500000000000.0"),
        lambda text: text.replace("hello", "hell\\u006f"),
        lambda text: text.replace("hello", "hello\\/"),
        lambda text: text.replace('"text"', '"text": 1,\n    "text"'),
        lambda text: text.replace('"text"', '"text": 1,\n    "1"'),
        lambda text: stringify(parse(text), indent=0),
        lambda text: text.replace("hello", "\ud800"),
        lambda text: text.replace("hello", "\x7f\\u007f"),
    ],
)
def test_text_that_is_not_canonical_is_refused(spoil):
    spoiled = spoil(SECOND.text)
    assert spoiled != SECOND.text
    with pytest.raises(InvalidMessage, match=r"not what JSON\.stringify|not JSON|not UTF-8"):
        Message.from_text(spoiled)


def accept(text):
    message = Message.from_text(text)
    message.verify()
    return message


@given(
    message=st.sampled_from([SECOND, *(Message.from_value(entry["value"]) for entry in ENTRIES[:12])]),
    data=st.data(),
)
def test_any_change_of_one_byte_is_refused(message, data):
    encoded = message.encoded
    assert accept(encoded) == message
    at = data.draw(st.integers(0, len(encoded) - 1), "at")
    byte = data.draw(st.integers(0, 255).filter(lambda byte: byte != encoded[at]), "byte")
    changed = encoded[:at] + bytes([byte]) + encoded[at + 1 :]
    removed = encoded[:at] + encoded[at + 1 :]
    inserted = encoded[:at] + bytes([byte]) + encoded[at:]
    for other in [changed, removed, inserted]:
        with pytest.raises(InvalidMessage):
            accept(other)


@given(text=st.binary() | st.text() | VALUES.map(stringify))
def test_any_text_is_refused_or_a_message(text):
    with pytest.raises(InvalidMessage) as refusal:
        accept(text)
    assert "\n" not in str(refusal.value)


@given(value=VALUES | st.fixed_dictionaries(dict.fromkeys(parse(SECOND.text), VALUES)))
def test_any_value_is_refused_or_a_message(value):
    with pytest.raises(InvalidMessage):
        Message.from_value(value)


@given(changes=st.dictionaries(st.sampled_from(list(parse(SECOND.text))), VALUES, min_size=1))
def test_any_field_is_refused_or_part_of_a_message(changes):
    fields = parse(SECOND.text) | changes
    try:
        message = Message.from_value(fields)
    except InvalidMessage:
        return
    assert Message.from_text(message.text) == message
    if message != SECOND:
        with pytest.raises(InvalidMessage, match="signature does not verify"):
            message.verify()


def test_deep_nesting_is_refused():
    with pytest.raises(InvalidMessage, match="nested too deeply"):
        Message.from_text("[" * 8_000)
    value: list = []
    for _ in range(5_000):
        value = [value]
    with pytest.raises(InvalidMessage, match="nested too deeply"):
        Message.from_value(value)


def test_hmac_key():
    message = post(hmac_key=HMAC_KEY)
    message.verify(HMAC_KEY)
    for other in [None, bytes(32)]:
        with pytest.raises(InvalidMessage, match="signature does not verify"):
            message.verify(other)
    for wrong in [b"", bytes(31), bytes(33)]:
        with pytest.raises(ValueError, match="HMAC key has 32 bytes"):
            message.verify(wrong)


def test_message_does_not_change():
    content = {"type": "post", "text": "hello"}
    message = Message.create(ALICE, None, content, 0)
    content["text"] = "changed"
    assert message.content == POST
    with pytest.raises(AttributeError):
        message.sequence = 7
    assert message == Message.from_text(message.text)
    assert len({message, Message.from_text(message.text), SECOND}) == 2


def test_follow():
    first = post()
    second = post(first)
    third = post(second)
    first.follow(None)
    second.follow(first)
    with pytest.raises(InvalidMessage, match="sequence 2 cannot come first"):
        second.follow(None)
    for late in [first, third]:
        with pytest.raises(InvalidMessage, match=r"does not come after 1$"):
            late.follow(first)
    with pytest.raises(InvalidMessage, match="does not write the feed"):
        post(post(identity=BOB), identity=BOB).follow(first)
    with pytest.raises(InvalidMessage, match="does not write the feed"):
        post(first, identity=BOB)


def test_fork_is_proved_by_two_messages():
    branch, other = post(text="one"), post(text="another")
    with pytest.raises(ForkedFeed, match="is forked: message 2 continues") as fork:
        post(other).follow(branch)
    assert fork.value.proof == (branch, post(other))
    for message in fork.value.proof:
        message.verify()
