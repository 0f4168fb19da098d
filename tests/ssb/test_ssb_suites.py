"""Suites: a second hash and signature, countersigned logs, and notaries, against an obvious model."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ssb.ending import END, End, end_content, end_of
from ssb.key_file import KeyFileError
from ssb.keys import Identity, InvalidRef, encode_base64
from ssb.message import InvalidMessage, Message
from ssb.store.feeds import StoreError, read_feed
from ssb.store.memory import MemoryFeeds
from ssb.store.sqlite import SqliteFeeds
from ssb.suites.countersignature import (
    EMPTY,
    MEMBER,
    NoProof,
    Reader,
    check,
    countersign,
    declaration,
    declared_by,
    log_hash,
    succession,
    successor_key,
)
from ssb.suites.notary import NOTARISED, notarise, statements, vouch
from ssb.suites.own_key import OwnKey, Written, log_file
from ssb.suites.suite import CLASSIC, SECOND, SUITES, PrivateKey, PublicKey, hash_text, parse_hash
from testbed.cli.main import feednet
from testbed.errors import UserError
from testbed.ladder.breaks import ATTACKS, attack, play

ANN, NOTARY = (Identity.from_seed(letter * 32) for letter in (b"a", b"n"))
KEYS = {suite.name: PrivateKey.from_seed(suite, b"k" * suite.seed_bytes) for suite in (CLASSIC, SECOND)}
OTHER = PrivateKey.from_seed(SECOND, b"o" * SECOND.seed_bytes)
KEY = KEYS["ed448"]
POST = {"type": "post", "text": "hello"}
CIPHERTEXT = "aGVsbG8=.box"
DETACHED_CONTENT = {"type": "detached", "of": "post", "size": 1, "hash": "&"}

contents = st.one_of(
    st.just(CIPHERTEXT),
    st.dictionaries(
        st.text(max_size=5).filter(lambda name: name not in (MEMBER, "type")),
        st.recursive(
            st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats() | st.text(max_size=8),
            lambda inner: (
                st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
            ),
            max_leaves=4,
        ),
        max_size=3,
    ).map(lambda content: {**content, "type": "post"}),
)


def written(identity, given_contents, key=None, since=1):
    """A log; with a key, each message with room is countersigned."""
    log, before = [], EMPTY
    for number, given_ in enumerate(given_contents, 1):
        content = given_
        if key is not None and isinstance(content, dict):
            content = countersign(key, identity.ref, number, since + number, content, before)
        log.append(Message.create(identity, log[-1] if log else None, content, since + number))
        before = log_hash(SECOND if key is None else key.public.suite, before, log[-1].encoded)
    return log


def forged(message, text="forged"):
    """Another message for the place of one, and with its id, as a second preimage of the hash would have."""
    before = (
        replace(message, id=message.previous, sequence=message.sequence - 1) if message.previous else None
    )
    return replace(
        Message.create(ANN, before, {"type": "post", "text": text}, message.timestamp), id=message.id
    )


# RFC 8032, section 7.4, "1 octet", and RFC 7693's function as b2sum has it.
def test_vectors():
    seed = bytes.fromhex(
        "c4eab05d357007c632f3dbb48489924d552b08fe0c353a0d4a1f00acda2c463a"
        "fbea67c5e8d2877c5e3bc397a659949ef8021e954e0a12274e"
    )
    public = (
        "43ba28f430cdff456ae531545f7ecd0ac834a55d9358c0372bfa0c6c6798c086"
        "6aea01eb00742802b8438ea4cb82169c235160627b4c3a9480"
    )
    signature = (
        "26b8f91727bd62897af15e41eb43c377efb9c610d48f2335cb0bd0087810f4352541b143c4b981b7e18f62de8ccdf633fc1bf037ab7cd77980"
        "5e0dbcc0aae1cbcee1afb2e027df36bc04dcecbf154336c19f0af7e0a6472905e799f1953d2a0ff3348ab21aa4adafd1d234441cf807c03a00"
    )
    assert SECOND.public(seed).hex() == public
    assert SECOND.sign(seed, b"\x03").hex() == signature
    assert SECOND.verify(bytes.fromhex(public), bytes.fromhex(signature), b"\x03")
    text = b"a log"
    b2sum = subprocess.run(["b2sum", "-l", "256"], input=text, capture_output=True, check=True).stdout
    assert SECOND.hash(text).hex() == b2sum.split()[0].decode()


@pytest.mark.parametrize("name", SUITES)
@given(st.data())
def test_no_other_text_key_or_signature_verifies(name, data):
    key, text = KEYS[name], data.draw(st.binary(max_size=40))
    signature = key.sign(text)
    assert key.public.verifies(signature, text)
    assert PublicKey.parse(key.public.text) == key.public
    assert PrivateKey.from_secret(key.secret()) == key
    assert not key.public.verifies(signature, text + b".")
    suite = key.public.suite
    raw = bytearray(suite.sign(b"k" * suite.seed_bytes, text))
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    assert not key.public.verifies(f"{encode_base64(bytes(raw))}.sig.{name}", text)
    assert not any(other.public.verifies(signature, text) for each, other in KEYS.items() if each != name)


def test_nobody_makes_another_signature_of_one():
    """Ed448's s is less than the group's order (RFC 8032, section 5.2.7)."""
    order = 2**446 - 13818066809895115352007386748515426880336692474882178609894547503885
    raw = SECOND.sign(b"k" * 57, b"text")
    s = int.from_bytes(raw[57:], "little")
    assert SECOND.verify(KEY.public.raw, raw, b"text")
    assert s < order
    assert not SECOND.verify(KEY.public.raw, raw[:57] + (s + order).to_bytes(57, "little"), b"text")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "a key ends with .ed448, not with ''"),
        (5, "a key is a text"),
        ("AAAA.rsa", "not with 'rsa'"),
        ("AAAA.ed448", "a key of ed448 has 57 bytes, not 3"),
        ("A.ed448", "not base64"),
        (ANN.ref[1:], "not with 'ed25519'"),
    ],
)
def test_a_bad_key_is_one_line(text, said):
    with pytest.raises(InvalidRef, match=said):
        PublicKey.parse(text)


@given(st.binary(min_size=32, max_size=32), st.text(max_size=60))
def test_hashes_have_one_form(digest, text):
    for suite in SUITES.values():
        assert parse_hash(suite, hash_text(suite, digest)) == digest
        with pytest.raises(InvalidRef):
            parse_hash(suite, text)
    with pytest.raises(InvalidRef, match=r"ends with \.blake2b"):
        parse_hash(SECOND, hash_text(CLASSIC, digest))


@pytest.mark.parametrize("name", SUITES)
@settings(max_examples=40, deadline=None)
@given(st.lists(contents, max_size=6), st.data())
def test_a_reader_proves_all_up_to_the_last_countersignature(name, given_contents, data):
    """The model: a message is proved once one in its place or behind it is countersigned."""
    key = KEYS[name]
    log = written(ANN, given_contents, key)
    begin = data.draw(st.integers(0, len(log)))
    signed = [m.sequence for m in log[begin:] if isinstance(m.content, dict)]
    reader, proved = Reader(key.public), []
    for message in log[begin:]:
        newly = reader.add(message)
        assert (not newly) == isinstance(message.content, str)
        proved += newly
    first = 1 if begin == 0 else (signed or [0])[0]
    assert proved == (list(range(first, signed[-1] + 1)) if signed else [])
    assert reader.proved == (signed[-1] if signed else 0)
    with MemoryFeeds() as store:  # they are messages as any others
        assert store.append(log, 1).stored == len(log)


@settings(max_examples=60, deadline=None)
@given(st.lists(contents, min_size=2, max_size=6), st.data())
def test_nothing_behind_a_changed_message_is_proved(given_contents, data):
    log = written(ANN, given_contents, KEY)
    at = data.draw(st.integers(0, len(log) - 1))
    changed = [*log[:at], forged(log[at]), *log[at + 1 :]]
    with MemoryFeeds() as store:  # the classic rules notice nothing
        assert store.append(changed, 1).stored == len(log)
    reader = Reader(KEY.public)
    for message in changed:
        reader.add(message)
    assert reader.proved <= at


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda proof: None, "has no countersignature"),
        (lambda proof: 5, "a countersignature has log and signature"),
        (lambda proof: {**proof, "more": 1}, "a countersignature has log and signature"),
        (lambda proof: {**proof, "log": "AAAA.blake2b"}, "a hash has 32 bytes, not 3"),
        (lambda proof: {**proof, "log": proof["log"].replace("blake2b", "sha256")}, "ends with .blake2b"),
        (lambda proof: {**proof, "signature": 5}, "is not countersigned by"),
        (lambda proof: {**proof, "signature": "AAAA.sig.ed448"}, "is not countersigned by"),
        (lambda proof: {**proof, "signature": OTHER.sign(b"")}, "is not countersigned by"),
    ],
)
def test_a_bad_countersignature_is_one_line(change, said):
    content = countersign(KEY, ANN.ref, 1, 1, POST, EMPTY)
    content[MEMBER] = change(content[MEMBER])
    message = Message.create(ANN, None, content, 1)
    with pytest.raises(NoProof, match=said) as caught:
        check(KEY.public, message)
    assert "\n" not in str(caught.value)
    assert not Reader(KEY.public).add(message)


def test_a_countersignature_holds_for_one_place_only():
    content = countersign(KEY, ANN.ref, 1, 1, POST, EMPTY)
    assert check(KEY.public, Message.create(ANN, None, content, 1)) == EMPTY
    first = Message.create(ANN, None, POST, 1)
    for moved in (
        Message.create(NOTARY, None, content, 1),
        Message.create(ANN, None, content, 2),
        Message.create(ANN, first, content, 1),
        Message.create(ANN, None, {**content, "text": "bye"}, 1),
    ):
        with pytest.raises(NoProof):
            check(KEY.public, moved)
    with pytest.raises(InvalidMessage, match="already"):
        countersign(KEY, ANN.ref, 1, 1, content, EMPTY)
    deep = POST
    for _ in range(3000):
        deep = {**POST, "deep": deep}
    with pytest.raises(InvalidMessage, match="nested too deeply"):
        countersign(KEY, ANN.ref, 1, 1, deep, EMPTY)


def test_an_end_names_the_suite_of_the_successor():
    heir = NOTARY
    content = end_content(ANN.ref, heir) | succession(ANN.ref, heir.ref, KEY)
    message = Message.create(ANN, None, content, 1)
    assert end_of(ANN.ref, 1, content) == End(1, heir.ref)
    assert successor_key(message) == KEY.public
    consent = content["suite"]["consent"]
    for suite in (
        None,
        5,
        {},
        {"key": KEY.public.text},
        {"key": OTHER.public.text, "consent": consent},
        {"key": KEY.public.text + "9", "consent": consent},
        succession(NOTARY.ref, heir.ref, KEY)["suite"],
    ):
        changed = Message.create(ANN, None, content | {"suite": suite}, 1)
        assert successor_key(changed) is None
        assert end_of(ANN.ref, 1, changed.content) == End(1, heir.ref)  # the feed ends all the same
    assert successor_key(Message.create(ANN, None, {"type": END, "suite": content["suite"]}, 1)) is None
    assert successor_key(Message.create(ANN, None, POST, 1)) is None


@st.composite
def notarised(draw):
    """A log, the notary's log about it, and the date of the break: one tick a message, in any order."""
    log, said, before, tick = [], [], EMPTY, 0
    for step in draw(st.lists(st.sampled_from(["write", "notarise", "post"]), max_size=14)):
        tick += 1
        if step == "write":
            log.append(Message.create(ANN, log[-1] if log else None, {**POST, "tick": tick}, tick))
            continue
        if step == "notarise" and log:
            content = notarise(ANN.ref, SECOND, [message.encoded for message in log])
        else:
            content = POST
        date = tick if draw(st.integers(0, 3)) else 1  # some are dated back
        content = countersign(KEY, NOTARY.ref, len(said) + 1, date, content, before)
        said.append(Message.create(NOTARY, said[-1] if said else None, content, date))
        before = log_hash(SECOND, before, said[-1].encoded)
    return log, said, draw(st.integers(0, 15))


@settings(max_examples=100, deadline=None)
@given(notarised(), st.data())
def test_vouched_is_what_was_notarised_before_the_break(made, data):
    """The model looks for each number whether a statement from before the break has the very same texts."""
    log, said, broken = made
    at = data.draw(st.integers(0, len(log)))
    held = [*log[:at], *(forged(message, f"forged {message.sequence}") for message in log[at : at + 1])]
    held += log[at + 1 :]
    best, latest = 0, 0
    for message in said:
        latest = max(latest, message.timestamp)
        number = message.content.get("sequence", 0) if message.content["type"] == NOTARISED else 0
        if latest < broken and number <= at:
            best = max(best, number)
    verdict = vouch(held, statements(said, KEY.public), broken)
    assert verdict.vouched == best
    assert list(statements(said, OTHER.public)) == []


def test_a_forger_with_the_notary_s_classic_key_states_nothing():
    log = written(ANN, [POST] * 3)
    false = notarise(ANN.ref, SECOND, [message.encoded for message in written(ANN, [CIPHERTEXT] * 3)])
    true = notarise(ANN.ref, SECOND, [message.encoded for message in log])
    said = written(NOTARY, [true, POST], KEY)
    said.append(Message.create(NOTARY, said[-1], false, 0))
    said.append(Message.create(NOTARY, said[-1], {**false, MEMBER: said[0].content[MEMBER]}, 0))
    assert [one.log for one in statements(said, KEY.public)] == [parse_hash(SECOND, true["log"])]


@pytest.mark.parametrize(
    "content",
    [
        {"sequence": 0},
        {"sequence": True},
        {"sequence": "3"},
        {"feed": 5},
        {"feed": "@x"},
        {"log": None},
        {"log": "AAAA.blake2b"},
        {"log": encode_base64(bytes(32)) + ".sha256"},
    ],
    ids=str,
)
def test_a_malformed_statement_states_nothing(content):
    whole = notarise(ANN.ref, SECOND, [b"text"])
    assert len(list(statements(written(NOTARY, [whole], KEY), KEY.public))) == 1
    assert list(statements(written(NOTARY, [whole | content], KEY), KEY.public)) == []
    with pytest.raises(ValueError, match="no message to notarise"):
        notarise(ANN.ref, SECOND, [])


def test_what_an_author_countersigns_needs_no_notary_once_the_key_is_vouched_for():
    log = written(ANN, [POST, declaration(KEY.public), POST, POST], KEY)
    assert [declared_by(message) for message in log] == [None, KEY.public, None, None]
    said = list(
        statements(
            written(NOTARY, [notarise(ANN.ref, SECOND, [m.encoded for m in log[:2]])], OTHER), OTHER.public
        )
    )
    assert vouch(log, said, 10).vouched == 4
    assert vouch(log, [], 10).vouched == 0
    assert vouch(log, [], 10, [KEY.public]).vouched == 4
    assert (
        vouch(log, said, 0).vouched == 0
    )  # the statement, and so the declaration, may be later than the break
    forger = written(ANN, [POST, declaration(OTHER.public), POST], OTHER)
    assert vouch(forger, said, 10).vouched == 0
    stolen = [*log[:2], Message.create(ANN, log[1], declaration(KEY.public), 9)]
    assert vouch(stolen, said, 10).vouched == 2


@pytest.mark.parametrize("name", ATTACKS)
@settings(max_examples=8, deadline=None)
@given(st.integers(2, 25), st.integers(1, 25))
def test_a_notary_stops_each_attack_and_costs_what_came_after_it(name, messages, interval):
    without = attack(name, play(messages, 0))
    assert without.forged == without.believed > 0
    outcome = attack(name, play(messages, interval))
    assert outcome.forged == without.forged
    assert outcome.believed == (outcome.forged if interval > messages else 0)
    if interval <= messages:
        untouched = {"append": messages, "rewrite": 0}.get(name, messages // 2)
        assert outcome.saved == untouched // interval * interval


# The second key of an account


def written_by(own, store, content, now=1):
    """Write a message as an account does."""
    return store.publish(ANN, own.countersigned(content, now), now, own.record)


class PowerCut(Exception):
    pass


class OwnLog(RuleBasedStateMachine):
    """An author whose program is killed, whose files are put back, and whose old key somebody has.

    The model: the texts that were written here. Whatever happens, the key proves no other, and a message is
    written only behind these.
    """

    def __init__(self):
        super().__init__()
        self.place = TemporaryDirectory()
        self.path = Path(self.place.name) / "secret.ed448"
        self.store = SqliteFeeds(self.path.with_name("feeds.sqlite"))
        self.mine = []  # in order
        self.backup = None
        self.is_whole = True  # the state is that of the last message
        for content in (POST, CIPHERTEXT):
            self.mine.append(self.store.publish(ANN, content, 1))
        self.own = OwnKey(self.path, self.store, ANN.ref)
        self.key = self.own.begin().public

    def teardown(self):
        self.store.close()
        self.place.cleanup()

    @property
    def held(self):
        return [stored.message for stored in read_feed(self.store, ANN.ref)]

    @property
    def is_mine(self):
        return [message.text for message in self.held] == [message.text for message in self.mine]

    def is_proved(self):
        return self.is_mine and check_or_none(self.key, self.mine[-1]) is not None

    @rule(content=st.sampled_from([POST, CIPHERTEXT, DETACHED_CONTENT]))
    def publish(self, content):
        if self.is_mine and (self.is_whole or self.is_proved()):
            self.mine.append(written_by(self.own, self.store, content))
            self.is_whole = True
        else:
            tip = self.store.tips()[ANN.ref]
            with pytest.raises(StoreError, match="nothing is published"):
                written_by(self.own, self.store, content)
            assert self.own.why()
            assert self.store.tips()[ANN.ref] == tip

    @rule(content=st.sampled_from([POST, CIPHERTEXT]), is_stored=st.booleans())
    def be_killed(self, content, is_stored):
        """While a message is written: before it is stored, or just behind that."""
        if not (self.is_mine and (self.is_whole or self.is_proved())):
            return

        def cut(message):
            self.own.record(message)
            raise PowerCut

        if is_stored:
            self.mine.append(written_by(self.own, self.store, content))
        else:
            with pytest.raises(PowerCut):
                self.store.publish(ANN, self.own.countersigned(content, 1), 1, cut)
        self.is_whole = True
        self.reopen()

    @rule()
    def reopen(self):
        self.store.close()
        self.store = SqliteFeeds(self.path.with_name("feeds.sqlite"))
        self.own = OwnKey(self.path, self.store, ANN.ref)

    @rule(text=st.sampled_from(["a", "b"]), is_signed=st.booleans())
    def be_sent_a_forged_message(self, text, is_signed):
        """By replication; its countersignature is another's, or none."""
        tip = self.held[-1]
        content = {**POST, "text": text}
        if is_signed:
            content = countersign(OTHER, ANN.ref, tip.sequence + 1, 2, content, EMPTY)
        assert self.store.append([Message.create(ANN, tip, content, 2)], 2).stored == 1

    @precondition(lambda self: len(self.held) >= len(self.mine))
    @rule()
    def lose_the_state(self):
        """Not beside a shorter log, which the mark of the feed guards (`ssb.store.own_feed`)."""
        log_file(self.path).unlink(missing_ok=True)
        self.is_whole = False
        self.reopen()

    @precondition(lambda self: self.is_mine and self.is_whole)
    @rule()
    def back_up(self):
        self.store.close()
        files = [self.path.with_name("feeds.sqlite"), log_file(self.path)]
        self.backup = {file: file.read_bytes() if file.exists() else None for file in files}
        self.reopen()

    @precondition(lambda self: self.backup is not None)
    @rule()
    def restore(self):
        """A backup, and then from others all messages that were written later."""
        self.store.close()
        for file, content in self.backup.items():
            file.unlink(missing_ok=True)
            if content is not None:
                file.write_bytes(content)
        self.reopen()
        before = self.store.tips()[ANN.ref]
        self.store.append(self.mine[before:], 3)
        self.is_whole = before == len(self.mine)

    @precondition(lambda self: self.backup is not None and self.is_whole)
    @rule(fetches=st.booleans())
    def restore_messages_alone(self, fetches):
        """The state still knows how far the log was written.

        That a single message is missing looks like a kill before it was stored: the mark of the feed guards
        that one (`ssb.store.own_feed`).
        """
        self.store.close()
        store = self.path.with_name("feeds.sqlite")
        store.write_bytes(self.backup[store])
        self.reopen()
        held = self.store.tips()[ANN.ref]
        if fetches or held == len(self.mine) - 1:
            self.store.append(self.mine[held:], 3)

    @invariant()
    def no_other_message_is_proved(self):
        reader = Reader(self.key)
        for message in self.held:
            reader.add(message)
        texts = [message.text for message in self.held[: reader.proved]]
        assert texts == [message.text for message in self.mine[: reader.proved]]


TestOwnLog = OwnLog.TestCase
TestOwnLog.settings = settings(max_examples=20, stateful_step_count=15, deadline=None)


def check_or_none(key, message):
    try:
        return check(key, message)
    except NoProof:
        return None


@pytest.mark.parametrize(
    ("kept", "fetched", "state", "said"),
    [
        (5, "", 5, ""),
        (4, "", 5, ""),  # killed before the message was stored
        (3, "", 5, "messages 4 to 5 of your feed, which were written here, are missing"),
        (3, "mm", 5, ""),
        (3, "mf", 5, "message 5 of your feed is not the one that was written here"),
        (3, "f", 5, "message 4 of your feed is not the one that was written here"),
        (3, "mm", 3, ""),  # a backup was restored
        (3, "mm", 0, ""),  # and the state is lost
        (3, "m", 3, ""),
        (3, "mf", 3, "message 5 of your feed was not written here"),
        (5, "f", 5, "message 6 of your feed was not written here"),
        (5, "f", 0, "message 6 of your feed was not written here"),
    ],
)
def test_a_message_is_written_behind_own_ones_only(tmp_path, kept, fetched, state, said):
    """Of five messages some are kept, and then come own ones (m) and forged ones (f) from others."""
    with SqliteFeeds(tmp_path / "whole.sqlite") as store:
        own = OwnKey(tmp_path / "key", store, ANN.ref)
        own.begin()
        states = []
        for _ in range(5):
            written_by(own, store, POST)
            states.append(log_file(tmp_path / "key").read_bytes())
        log = [stored.message for stored in read_feed(store, ANN.ref)]
    held = log[:kept]
    for kind in fetched:
        forgery = Message.create(ANN, held[-1], {**POST, "text": "forged"}, 9)
        held.append(log[len(held)] if kind == "m" else forgery)
    log_file(tmp_path / "key").unlink()
    if state:
        log_file(tmp_path / "key").write_bytes(states[state - 1])
    with SqliteFeeds(tmp_path / "feeds.sqlite") as store:
        store.append(held, 1)
        own = OwnKey(tmp_path / "key", store, ANN.ref)
        if not said:
            reader = Reader(own.key.public)
            for message in [*held, written_by(own, store, POST)]:
                reader.add(message)
            assert reader.proved == len(held) + 1
            return
        assert said in own.why()
        with pytest.raises(StoreError, match=said):
            written_by(own, store, POST)
        assert store.tips()[ANN.ref] == len(held)
        own.begin(is_anew=True)
        assert own.why() == ""


@given(st.integers(0, 10), st.binary(max_size=40), st.data())
def test_the_state_of_a_key_has_one_form(count, raw, data):
    state = Written()
    for number in range(count):
        state = state.then(b"%d" % number)
    assert Written.decode(state.encode()) == state
    changed = bytearray(state.encode())
    changed[data.draw(st.integers(0, len(changed) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    for each in (raw, bytes(changed)):
        try:
            found = Written.decode(each)
        except InvalidRef:
            pass
        else:
            assert found.encode() == each
            assert found.up_to(found.sequence, b"0") is None or found.sequence in (0, 1)
    text = b"%d" % (count - 1)
    assert state.up_to(count, text if count else b"") == state
    assert state.up_to(count, b"other") is None or count == 0
    assert state.up_to(count + 1, text) is None


def test_a_second_key_is_a_file_of_its_owner(tmp_path):
    path = tmp_path / "secret.ed448"
    with SqliteFeeds(tmp_path / "feeds.sqlite") as store:
        own = OwnKey(path, store, ANN.ref)
        assert own.countersigned(POST, 2) is POST
        key = own.begin()
        assert {file.stat().st_mode & 0o777 for file in (path, log_file(path))} == {0o600}
        assert OwnKey(path, store, ANN.ref).begin() == key
        for text, said in (
            ("AAAA.ed448", "57 bytes, not 3"),
            (KEYS["ed25519"].secret(), r"ends with \.ed448"),
        ):
            path.write_text(f"{text}\n")
            with pytest.raises(KeyFileError, match=rf"secret\.ed448: not a key of a suite: .*{said}"):
                OwnKey(path, store, ANN.ref)


def ssb(path: Path, *words: str, fails: bool = False) -> str:
    done = CliRunner().invoke(feednet, ["ssb", "--path", str(path), *words], standalone_mode=False)
    if not fails:
        assert done.exception is None, done.exception
        return done.output.strip()
    assert isinstance(done.exception, UserError), done.exception
    assert "\n" not in str(done.exception)
    return f"{done.output}{done.exception}"


def test_commands(tmp_path):
    ann, notary, new = (tmp_path / name for name in ("ann", "notary", "new"))
    ssb(ann, "publish", "hello")
    feed = json.loads(ssb(ann, "log", "--json"))["value"]["author"]
    key = ssb(notary, "suite")
    assert ssb(notary, "suite") == key
    assert len(ssb(notary, "log").splitlines()) == 1

    def bring() -> None:
        (tmp_path / "export").write_text(ssb(ann, "export") + "\n")
        ssb(notary, "import", str(tmp_path / "export"))

    bring()
    assert "messages 1 to 1 of" in ssb(notary, "notarise", feed)
    heir_key = ssb(new, "suite")
    _, heir = ssb(ann, "end", "--successor", str(new)).split()
    bring()
    told = ssb(notary, "vouched", feed, "--broken", "2999-01-01", "--notary", key, fails=True)
    assert "messages 1 to 1 of 3: notarised on" in told
    assert "messages 2 to 3 of" in told
    assert heir not in told  # the end is not vouched for
    ssb(notary, "notarise", feed)
    told = ssb(notary, "vouched", feed, "--broken", "2999-01-01", "--notary", key)
    assert "messages 1 to 3 of 3" in told
    assert f"goes on as   {heir}, with the key {heir_key}" in told
    told = ssb(notary, "vouched", feed, "--broken", "2001-01-01", "--notary", key, fails=True)
    assert told.startswith(f"messages 1 to 3 of {feed} may be forged")
    ssb(new, "publish", "I go on")
    assert "countersigned by the author" in ssb(
        new, "vouched", heir, "--broken", "2001-01-01", "--key", heir_key
    )


def test_mistakes_are_one_line(tmp_path):
    ssb(tmp_path, "publish", "hello")
    feed = json.loads(ssb(tmp_path, "log", "--json"))["value"]["author"]
    assert "`feednet ssb suite` makes the key" in ssb(tmp_path, "notarise", feed, fails=True)
    own = ssb(tmp_path, "suite")
    assert "no messages of this feed here" in ssb(tmp_path, "notarise", NOTARY.ref, fails=True)
    asked = ("vouched", feed, "--broken", "2001-01-01")
    assert "a key ends with" in ssb(tmp_path, *asked, "--notary", "x", fails=True)
    assert "no feed here declares the key" in ssb(tmp_path, *asked, "--notary", KEY.public.text, fails=True)
    assert "messages 1 to 2" in ssb(tmp_path, *asked, "--key", own)  # the declaration covers the first
    done = CliRunner().invoke(feednet, ["ssb", "--path", str(tmp_path), *asked])
    assert "give --notary KEY" in done.output
    (tmp_path / "secret.ed448").write_text("x")
    assert "secret.ed448: not a key of a suite" in str(
        CliRunner().invoke(feednet, ["ssb", "--path", str(tmp_path), "log"], standalone_mode=False).exception
    )
