"""Envelopes (box2): the published vectors, and who can open one."""

import json
import subprocess
from base64 import b64decode
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nacl.bindings import crypto_scalarmult
from stock_peer import node_modules

from ssb.canonical import object_in
from ssb.groups import direct, envelope
from ssb.groups.direct import own_key, shared_keys
from ssb.groups.envelope import DIRECT, GROUP, Context, Key, context_of
from ssb.keys import Identity, InvalidRef, message_ref
from ssb.message import Message
from ssb.uri import plain

PEOPLE = [Identity.from_seed(bytes([number]) * 32) for number in range(1, 60)]
CONTEXT = context_of(PEOPLE[0].ref, message_ref(b"m" * 32))


def vector(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return inputs and outputs of a vector, from the npm package of its specification."""
    read = json.loads((node_modules("ssb/tribes") / name).read_text())
    return read["input"], read["output"]


def context(given: dict[str, Any]) -> Context:
    return Context(b64decode(given["feed_id"]), b64decode(given["prev_msg_id"]))


def key(given: dict[str, Any]) -> Key:
    return Key(b64decode(given["key"]), given["scheme"])


def test_vector_of_derived_keys() -> None:
    given, wanted = vector("envelope-spec/vectors/derive_secret1.json")
    read_key = envelope.derive(b64decode(given["msg_key"]), context(given), "read_key")
    assert read_key == b64decode(wanted["read_key"])
    for label in ("header_key", "body_key"):
        assert envelope.derive(read_key, context(given), label) == b64decode(wanted[label])


def test_vectors_of_slots() -> None:
    given, wanted = vector("envelope-spec/vectors/slot1.json")
    slot = envelope.slot_of(b64decode(given["msg_key"]), context(given), key(given["recipient"]))
    assert slot == b64decode(wanted["key_slot"])
    given, wanted = vector("envelope-spec/vectors/unslot1.json")
    found = envelope.slot_of(b64decode(given["key_slot"]), context(given), key(given["recipient"]))
    assert found == b64decode(wanted["msg_key"])


def test_vectors_of_envelopes() -> None:
    given, wanted = vector("envelope-spec/vectors/box1.json")
    keys = [key(each) for each in given["recp_keys"]]
    body, message_key = b64decode(given["plain_text"]), b64decode(given["msg_key"])
    assert envelope.seal(body, context(given), keys, message_key) == b64decode(wanted["ciphertext"])
    given, wanted = vector("envelope-spec/vectors/unbox1.json")
    opened = envelope.open_sealed(b64decode(given["ciphertext"]), context(given), [key(given["recipient"])])
    assert opened is not None
    assert opened.body == b64decode(wanted["plain_text"])


def test_vector_of_a_cloaked_id() -> None:
    given, wanted = vector("envelope-spec/vectors/cloaked_id1.json")
    message = message_ref(b64decode(given["public_msg_id"])[2:])
    assert envelope.cloaked(message, b64decode(given["read_key"])) == f"%{wanted['cloaked_msg_id']}.cloaked"


@pytest.mark.parametrize("number", [1, 2])
def test_vectors_of_messages(number: int) -> None:
    given, wanted = vector(f"private-group-spec/vectors/unbox{number}.classic.json")
    for message, content in zip(given["msgs"], wanted["msgsContent"], strict=True):
        value = message["value"]
        sealed = envelope.sealed_bytes(value["content"])
        assert sealed is not None
        place = context_of(value["author"], value["previous"])
        opened = envelope.open_sealed(sealed, place, [key(each) for each in given["trial_keys"]], 1)
        assert opened is not None
        assert object_in(opened.body) == content


def test_vector_of_a_groups_id() -> None:
    given, wanted = vector("private-group-spec/vectors/group-id1.json")
    message = given["group_init_msg"]
    value = message["value"]
    sealed = envelope.sealed_bytes(value["content"])
    assert sealed is not None
    place = context_of(plain(value["author"]), plain(value["previous"]))
    opened = envelope.open_sealed(sealed, place, [Key(b64decode(given["group_key"]), GROUP)], 1)
    assert opened is not None
    assert envelope.cloaked(plain(message["key"]), opened.read_key) == plain(wanted["group_id"])


def test_vector_of_a_shared_key() -> None:
    """The vector has a secret key of Curve25519, of which no identity is known: the derivation alone."""
    given, wanted = vector("private-group-spec/vectors/direct-message-key1.json")
    raw = {name: b64decode(text) for name, text in given.items()}
    secret = crypto_scalarmult(raw["my_dh_secret"][2:], raw["your_dh_public"][2:])
    ends = [raw["my_dh_public"] + raw["my_feed_id"], raw["your_dh_public"] + raw["your_feed_id"]]
    assert direct.derived(secret, sorted(ends)) == Key(b64decode(wanted["shared_key"]), DIRECT)


def test_shared_keys_are_those_of_the_stock_package() -> None:
    """For pairs whose order as texts differs from that of their bytes, too."""
    script = """
      const { directMessageKey } = require('ssb-private-group-keys')
      const ssbKeys = require('ssb-keys')
      const people = JSON.parse(process.argv[1]).map((seed) =>
        ssbKeys.generate('ed25519', Buffer.from(seed, 'hex')))
      const pairs = people.slice(1).map((other, n) => directMessageKey.easy(people[n])(other.id))
      console.log(JSON.stringify(pairs.map((made) => made.key.toString('hex'))))
    """
    seeds = [(bytes([number]) * 32).hex() for number in range(1, 60)]
    place = node_modules("ssb/tribes")
    ran = subprocess.run(
        ["node", "-e", script, json.dumps(seeds)],
        cwd=place.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    found = [shared_keys(one, other.ref) for one, other in pairwise(PEOPLE)]
    assert [keys[0].secret.hex() for keys in found] == json.loads(ran.stdout)
    assert sum(len(keys) == 2 for keys in found) > 3


def test_both_ends_share_the_same_keys() -> None:
    for one, other in pairwise(PEOPLE):
        assert shared_keys(one, other.ref) == shared_keys(other, one.ref)
    assert own_key(PEOPLE[0]) != own_key(PEOPLE[1])


@given(st.binary(min_size=1, max_size=300), st.integers(1, 16), st.data())
def test_every_recipient_opens_it_and_nobody_else(body: bytes, count: int, data: st.DataObject) -> None:
    keys = [Key(bytes([number]) * 32, GROUP if number == 0 else DIRECT) for number in range(count)]
    sealed = envelope.seal(body, CONTEXT, keys, data.draw(st.binary(min_size=32, max_size=32)))
    for place, each in enumerate(keys):
        opened = envelope.open_sealed(sealed, CONTEXT, [each])
        assert opened is not None
        assert (opened.body, opened.key) == (body, each)
        assert envelope.open_sealed(sealed, CONTEXT, [each], most_slots=place) is None
    stranger = [Key(bytes([99]) * 32, DIRECT), Key(keys[0].secret, "another scheme")]
    assert envelope.open_sealed(sealed, CONTEXT, stranger) is None


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_one_that_was_changed_or_moved_opens_for_nobody(at: int, change: int) -> None:
    key = Key(bytes(32), GROUP)
    sealed = envelope.seal(b"a text", CONTEXT, [key], b"k" * 32)
    at %= len(sealed)
    changed = sealed[:at] + bytes([sealed[at] ^ change]) + sealed[at + 1 :]
    assert envelope.open_sealed(changed, CONTEXT, [key]) is None
    for other in (context_of(PEOPLE[1].ref, message_ref(b"m" * 32)), context_of(PEOPLE[0].ref, None)):
        assert envelope.open_sealed(sealed, other, [key]) is None


@given(st.binary(max_size=120))
def test_what_is_no_envelope_opens_for_nobody(raw: bytes) -> None:
    assert envelope.open_sealed(raw, CONTEXT, [Key(bytes(32), GROUP)]) is None


@pytest.mark.parametrize("content", [{"type": "post"}, "AAAA.box", "A.box2", "AAAB=.box2", "é.box2", None])
def test_what_is_no_ciphertext_has_no_envelope(content: object) -> None:
    assert envelope.sealed_bytes(content) is None


def test_recipients_are_bounded() -> None:
    key = Key(bytes(32), GROUP)
    for keys in ([], [key] * 17):
        with pytest.raises(ValueError, match="1 to 16 recipients"):
            envelope.seal(b"x", CONTEXT, keys, bytes(32))
    with pytest.raises(ValueError, match="has a body"):
        envelope.seal(b"", CONTEXT, [key], bytes(32))


def test_a_feed_that_is_no_key_shares_none() -> None:
    with pytest.raises(InvalidRef):
        shared_keys(PEOPLE[0], "@" + "A" * 42 + "I=.ed25519")


def test_a_message_carries_it() -> None:
    key = Key(bytes(32), GROUP)
    author = PEOPLE[0]
    text = envelope.box({"type": "post", "text": "é"}, context_of(author.ref, None), [key])
    message = Message.create(author, None, text, 1)
    sealed = envelope.sealed_bytes(message.content)
    assert sealed is not None
    opened = envelope.open_sealed(sealed, context_of(message.author, message.previous), [key])
    assert opened is not None
    assert object_in(opened.body) == {"type": "post", "text": "é"}
    assert object_in(b"[]") is object_in(b"\xff") is object_in(b"{") is None
