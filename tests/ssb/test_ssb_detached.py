"""Detached messages: what the log says, what of it holds of a blob, and which contents a peer holds."""

from hashlib import sha256
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from fresh_seeds import first_fresh_seed
from hypothesis import given
from hypothesis import strategies as st
from test_ssb_blob_wants import Peers

from ssb.canonical import stringify
from ssb.detached import (
    DELETE,
    DETACHED,
    InvalidContent,
    Reference,
    attach,
    detach,
    reference_of,
    request,
    requested_by,
)
from ssb.keys import Identity, InvalidRef, blob_ref, encode_base64
from ssb.message import InvalidMessage, Message
from ssb.replication.blobs import BlobLimits, Blobs, BlobSource
from ssb.store.blobs import MemoryBlobs
from ssb.store.contents import Contents, State
from ssb.store.memory import MemoryFeeds

ANN, EVE = (Identity.from_seed(bytes((number,)) * 32) for number in (1, 2))
SALT = bytes(16)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=40)
POST = {"type": "post", "text": "Hello"}


class Log:
    """A feed as it grows, and the blobs that it names."""

    def __init__(self, author: Identity) -> None:
        self.author = author
        self.messages: list[Message] = []

    def append(self, content: dict[str, Any]) -> Message:
        tip = self.messages[-1] if self.messages else None
        message = Message.create(self.author, tip, content, 1.0 + len(self.messages))
        self.messages.append(message)
        return message

    def detached(self, content: dict[str, Any] = POST, salt: bytes = SALT) -> tuple[Message, bytes]:
        named, data = detach(self.author.ref, content, salt)
        return self.append(named), data


@given(TEXTS, st.binary(min_size=16, max_size=16))
def test_a_content_comes_back_from_its_blob(text: str, salt: bytes) -> None:
    content = {"type": "post", "text": text}
    message, data = Log(ANN).detached(content, salt)
    reference = reference_of(message)
    assert reference == Reference("post", len(data), blob_ref(sha256(data).digest()))
    assert attach(ANN.ref, reference, data) == content
    assert requested_by(message) == []


def test_equal_contents_have_blobs_of_their_own() -> None:
    assert len({detach(who.ref, POST, salt)[1] for who in (ANN, EVE) for salt in (SALT, b"1" * 16)}) == 4


def named(data: bytes, kind: str = "post") -> Reference:
    return Reference(kind, len(data), blob_ref(sha256(data).digest()))


BLOB = detach(ANN.ref, POST, SALT)[1]


@given(st.integers(0, len(BLOB) - 1), st.integers(1, 255))
def test_a_changed_blob_is_refused(place: int, change: int) -> None:
    changed = BLOB[:place] + bytes((BLOB[place] ^ change,)) + BLOB[place + 1 :]
    with pytest.raises(InvalidContent, match="blob is not"):
        attach(ANN.ref, named(BLOB), changed)


def written(**changes: Any) -> bytes:
    fields = {"author": ANN.ref, "salt": encode_base64(SALT), "content": POST} | changes
    return stringify({k: v for k, v in fields.items() if v is not None}, indent=0).encode()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "cannot be read"),
        (b"\xff", "cannot be read"),
        (b"[" * 100_000, "cannot be read"),
        (b"[]", "does not have the fields"),
        (written(more=1), "does not have the fields"),
        (written(salt=None), "does not have the fields"),
        (written(author=EVE.ref), "another author's"),
        (written(author=1), "another author's"),
        (written(content="post"), "not of type post"),
        (written(content={"type": "about"}), "not of type post"),
        (written(content={"text": "post"}), "not of type post"),
        (written(salt=""), "salt"),
        (written(salt=1), "salt"),
        (written(salt="?" * 24), "salt"),
    ],
)
def test_a_blob_that_is_no_content_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(InvalidContent, match=reason):
        attach(ANN.ref, named(data), data)


def test_a_blob_of_another_size_is_refused_before_it_is_hashed() -> None:
    with pytest.raises(InvalidContent, match="bytes, not"):
        attach(ANN.ref, named(BLOB), BLOB + b" ")


GOOD = {"type": DETACHED, "of": "post", "size": len(BLOB), "hash": named(BLOB).blob}


@pytest.mark.parametrize(
    "changes",
    [
        *({"of": each} for each in (None, 1, "ab", "x" * 53, ["post"])),
        *({"size": each} for each in (-1, 1.5, "9", True, None)),
        *({"hash": each} for each in (None, "", "&x.sha256", ANN.ref, [GOOD["hash"]])),
        {"more": 1},
    ],
)
def test_a_message_that_is_malformed_is_no_detached_one(changes: dict[str, Any]) -> None:
    assert reference_of(Log(ANN).append(GOOD)) is not None
    assert reference_of(Log(ANN).append(GOOD | changes)) is None


def test_only_what_messages_may_contain_is_detached() -> None:
    with pytest.raises(InvalidMessage, match="type"):
        detach(ANN.ref, {"type": "ab"}, SALT)
    with pytest.raises(ValueError, match="16 bytes"):
        detach(ANN.ref, POST, b"")


def test_a_request_names_messages() -> None:
    id_ = Log(ANN).append(POST).id
    assert requested_by(Log(ANN).append(request([id_]))) == [id_]
    with pytest.raises(InvalidRef):
        request(["%1"])
    for messages, ids in ((None, []), (id_, []), ([id_, 1, "%x", [id_], ANN.ref], [id_])):
        assert requested_by(Log(ANN).append({"type": DELETE, "messages": messages})) == ids


def test_a_log_without_its_contents_is_verified_and_stored() -> None:
    log = Log(ANN)
    for number in range(5):
        log.detached({"type": "post", "text": str(number)})
    assert MemoryFeeds().append(log.messages, 0.0).stored == 5


# The contents that a peer holds, against an obvious model


class Model:
    """The rules, computed again from the whole history after each event."""

    def __init__(self) -> None:
        self.seen: list[Message] = []
        self.blobs: dict[str, bytes] = {}
        self.dropped: set[str] = set()

    def is_content(self, message: Message, blob: str) -> bool:
        reference = reference_of(message)
        if reference is None or reference.blob != blob or blob not in self.blobs:
            return False
        try:
            attach(message.author, reference, self.blobs[blob])
        except InvalidContent:
            return False
        return True

    def settle(self) -> None:
        for number, message in enumerate(self.seen):
            for earlier in self.seen[:number]:
                is_asked = earlier.id in requested_by(message) and earlier.author == message.author
                if is_asked and reference_of(earlier) is not None:
                    self.dropped.add(earlier.id)
        for blob in list(self.blobs):
            owners = {message.id for message in self.seen if self.is_content(message, blob)}
            if owners and owners <= self.dropped:
                del self.blobs[blob]

    def state(self, message: Message) -> State:
        if message.id in self.dropped:
            return State.DROPPED
        reference = reference_of(message)
        assert reference is not None
        return State.PRESENT if self.is_content(message, reference.blob) else State.LACKING


@pytest.mark.parametrize("seed", [*range(60), *range(first_fresh_seed(), first_fresh_seed() + 60)])
def test_a_peer_holds_the_contents_that_the_model_holds(seed: int) -> None:
    rng = Random(seed)
    logs = [Log(ANN), Log(EVE)]
    data: dict[str, bytes] = {blob_ref(sha256(b"picture").digest()): b"picture"}
    store, model = MemoryBlobs(), Model()
    contents = Contents(store)
    for _ in range(60):
        log = rng.choice(logs)
        match rng.randrange(6):
            case 0 | 1:  # few salts: some contents are written again
                post = {"type": "post", "text": rng.choice("ab")}
                message, blob = log.detached(post, bytes((rng.randrange(2),)) * 16)
                data[blob_ref(sha256(blob).digest())] = blob
            case 2:  # whoever names another's blob
                blob = rng.choice(list(data))
                size = len(data[blob]) + rng.choice((0, 0, 1))
                message = log.append({"type": DETACHED, "of": "post", "size": size, "hash": blob})
            case 3:
                known = [each.id for each in (*logs[0].messages, *logs[1].messages)]
                if not known:
                    continue
                message = log.append(request(rng.sample(known, min(2, len(known)))))
            case 4:
                blob = rng.choice(list(data))
                store.add(data[blob])
                assert contents.keeps(blob) == (store.size(blob) is not None)
                model.blobs[blob] = data[blob]
                model.settle()
                continue
            case _:
                detached = [each for each in model.seen if reference_of(each) is not None]
                if not detached:
                    continue
                chosen = rng.choice(detached).id
                contents.drop(chosen)
                model.dropped.add(chosen)
                model.settle()
                continue
        contents.add(message)
        model.seen.append(message)
        model.settle()
        assert {*store.blobs()} == model.blobs.keys()
        for each in model.seen:
            if reference_of(each) is not None:
                assert contents.state(each.id) is model.state(each)
                assert (contents.content(each.id) is not None) == (model.state(each) is State.PRESENT)
    assert {*store.blobs()} == model.blobs.keys()


def test_nobody_has_deleted_what_another_has_written() -> None:
    ann, eve = Log(ANN), Log(EVE)
    message, data = ann.detached()
    store = MemoryBlobs()
    picture = store.add(b"picture")
    store.add(data)
    contents = Contents(store)
    contents.add(message)
    for blob, size in ((picture, 7), (named(data).blob, len(data))):
        claim = eve.append({"type": DETACHED, "of": "post", "size": size, "hash": blob})
        for each in (claim, eve.append(request([claim.id, message.id]))):
            contents.add(each)
        assert not contents.refuses(blob)
    assert store.read(picture) == b"picture"
    assert contents.content(message.id) == POST


def test_who_does_not_obey_keeps_what_the_author_wants_deleted_and_may_drop_it_by_itself() -> None:
    log, store = Log(ANN), MemoryBlobs()
    message, data = log.detached()
    store.add(data)
    contents = Contents(store, obeys=False)
    contents.add(message)
    contents.add(log.append(request([message.id])))
    assert contents.state(message.id) is State.PRESENT
    contents.drop(message.id)
    assert contents.state(message.id) is State.DROPPED
    assert store.used == 0
    with pytest.raises(KeyError):
        contents.drop(log.messages[-1].id)


class Counting(MemoryBlobs):
    """A store that counts how often blobs are read."""

    reads = 0

    def read(self, blob: str, start: int = 0, size: int | None = None) -> bytes:
        self.reads += 1
        return super().read(blob, start, size)


def test_a_blob_is_read_once_however_many_messages_name_it() -> None:
    log, store = Log(ANN), Counting()
    messages = [log.detached()[0] for _ in range(40)]
    store.add(BLOB)
    contents = Contents(store)
    for message in messages:
        contents.add(message)
    for kind in range(40):  # false claims to it
        contents.add(log.append(GOOD | {"of": f"kind{kind}"}))
    for message in log.messages[1:]:
        contents.drop(message.id)
    assert store.used == len(BLOB)
    assert store.reads <= 1
    contents.drop(messages[0].id)
    assert store.used == 0
    assert store.reads == 1


def sized(log: Log, number: int, size: int) -> Message:
    """Append a message that names a blob which nobody has."""
    blob = blob_ref(sha256(f"{log.author.ref} {number}".encode()).digest())
    return log.append({"type": DETACHED, "of": "post", "size": size, "hash": blob})


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 12), st.integers(0, 39)), max_size=40))
def test_wanted_contents_of_an_author_stay_within_the_quota(steps: list[tuple[bool, int, int]]) -> None:
    logs, contents = {True: Log(ANN), False: Log(EVE)}, Contents(MemoryBlobs(), quota=20)
    live: list[tuple[Message, int]] = []
    for number, (is_ann, size, chosen) in enumerate(steps):
        if chosen < 10 and live:
            contents.drop(live.pop(chosen % len(live))[0].id)
        message = sized(logs[is_ann], number, size)
        contents.add(message)
        live.append((message, size))
    for log in logs.values():
        sizes = [(message, size) for message, size in live if message.author == log.author.ref]
        wanted = [size for message, size in sizes if contents.wants(str(message.content["hash"]))]  # type: ignore[index]
        assert sum(wanted) <= 20
        if sum(size for _, size in sizes) <= 20:
            assert len(wanted) == len(sizes)


def test_a_deletion_makes_room_for_the_next_content() -> None:
    log, contents = Log(ANN), Contents(MemoryBlobs(), quota=20)
    first, second, third = (sized(log, number, 10) for number in range(3))
    for message in (first, second, third):
        contents.add(message)
    blob = str(third.content["hash"])  # type: ignore[index]
    assert not contents.wants(blob)
    contents.add(log.append(request([first.id])))
    assert contents.wants(blob)
    assert (third.author, blob) in contents.take_changed()


def test_what_was_deleted_is_refused_also_after_a_restart() -> None:
    log, store, deleted = Log(ANN), MemoryBlobs(), list[str]()
    message, data = log.detached()
    store.add(data)
    contents = Contents(store, on_deletion=deleted.append)
    log.append(request([message.id]))
    for each in log.messages:
        contents.add(each)
    assert deleted == [message.id]
    again = Contents(store)
    for each in log.messages:
        again.add(each)
    for id_ in (*deleted, "%", log.messages[-1].id):
        again.restore([], [], [id_])
    blob = named(data).blob
    assert again.refuses(blob)
    false = Log(EVE).append(GOOD)
    again.add(false)  # a false claim does not bring it back
    assert (again.refuses(blob), again.wants(blob)) == (True, False)
    again.add(log.detached()[0])  # written once more
    assert (again.refuses(blob), again.wants(blob)) == (False, True)


# Between peers


class Holders(Peers):
    """Peers in a row, all of which have read one log."""

    def __init__(self, count: int, log: Log, *, rebels: set[int] | None = None, wants: int = 1_000) -> None:
        super().__init__(0)
        for number in range(count):
            store = MemoryBlobs()
            contents = Contents(store, obeys=number not in (rebels or set()))
            self.blobs.append(Blobs(store, BlobLimits(wants=wants), contents))
        self.log = log
        for one, other in pairwise(range(count)):
            self.connect(one, other)

    def write(self, author: int, content: dict[str, Any] = POST, salt: bytes = SALT) -> Message:
        message, data = self.log.detached(content, salt)
        self.blobs[author].store.add(data)
        return message

    def read(self, *messages: Message, by: set[int] | None = None) -> None:
        for number, each in enumerate(self.blobs):
            if by is None or number in by:
                each.came(messages)
        self.settle()

    def states(self, message: Message) -> list[str]:
        found = [each.contents.state(message.id) for each in self.blobs if each.contents is not None]
        return [state.value[0] for state in found]


def test_contents_cross_peers_and_go_when_their_author_asks() -> None:
    peers = Holders(5, Log(ANN))
    first, second = peers.write(0), peers.write(0, salt=b"2" * 16)
    peers.read(first, second)
    assert peers.states(first) == peers.states(second) == ["p"] * 5
    peers.read(peers.log.append(request([first.id])))
    assert peers.states(first) == ["d"] * 5
    assert peers.states(second) == ["p"] * 5
    assert all(each.store.used == len(BLOB) for each in peers.blobs)
    assert all(not each.wanted for each in peers.blobs)


def test_a_peer_that_obeys_does_not_get_it_back_from_one_that_does_not() -> None:
    peers = Holders(3, Log(ANN), rebels={0, 2})
    message = peers.write(0)
    peers.cut(1, 2)
    peers.read(message, by={0, 1})
    peers.read(peers.log.append(request([message.id])), by={0, 1})
    assert [each.store.used for each in peers.blobs] == [len(BLOB), 0, 0]
    peers.connect(1, 2)
    peers.read(*peers.log.messages, by={2})  # a rebel asks for it, and by way of the one that obeys
    assert peers.states(message) == ["p", "d", "l"]
    peers.connect(0, 2)
    peers.settle()
    assert peers.states(message) == ["p", "d", "p"]


def test_what_was_dropped_is_not_even_fetched_for_others_unless_it_is_written_again() -> None:
    peers = Holders(1, Log(ANN))
    message = peers.write(0)
    peers.read(message, peers.log.append(request([message.id])))
    (peer,) = peers.blobs
    peer.open(7)
    wants = b'{"%b":-1}' % named(BLOB).blob.encode()
    peer.receive(7, wants)
    assert (peer.wanted, peer.take_output(7)) == ({}, [])
    peers.read(peers.log.append(GOOD))
    assert peer.wanted == {named(BLOB).blob: -1}


def test_who_learns_of_a_request_later_drops_what_it_fetched_for_others() -> None:
    peers = Holders(3, Log(ANN))
    message = peers.write(0)
    peers.read(message, by={0, 2})
    assert [each.store.used for each in peers.blobs] == [len(BLOB)] * 3
    asked = peers.log.append(request([message.id]))
    peers.read(asked, by={0, 2})
    assert [each.store.used for each in peers.blobs] == [0, len(BLOB), 0]
    peers.read(message, asked, by={1})
    assert peers.blobs[1].store.used == 0


def test_who_has_read_the_request_first_drops_the_content_when_it_comes_by() -> None:
    peers = Holders(3, Log(ANN), rebels={0, 2})
    message = peers.write(0)
    asked = peers.log.append(request([message.id]))
    peers.read(message, asked, by={0, 1})
    assert peers.blobs[1].wanted == {}
    peers.read(message, by={2})  # it has dropped nothing yet, so it fetches it once for others
    assert peers.states(message) == ["p", "d", "l"]
    assert peers.blobs[1].store.used == 0
    assert peers.blobs[1].wanted == {}


def test_a_long_log_brings_all_its_contents_however_few_wants_a_remote_minds() -> None:
    peers = Holders(2, Log(ANN), wants=10)
    messages = [peers.write(0, salt=bytes((number,)) * 16) for number in range(100)]
    peers.read(*messages)
    assert {state for message in messages for state in peers.states(message)} == {"p"}


def test_contents_that_nobody_has_do_not_keep_others_from_coming() -> None:
    peers = Holders(2, Log(ANN), wants=10)
    peers.cut(0, 1)
    nobody_s = [peers.log.detached(salt=bytes((99 + number,)) * 16)[0] for number in range(20)]
    some = [peers.write(0, salt=bytes((number,)) * 16) for number in range(20)]
    peers.read(*nobody_s, *some)
    for _ in range(6):  # few wants at a time
        peers.connect(0, 1)
        peers.settle()
        peers.cut(0, 1)
    assert {peers.states(message)[1] for message in some} == {"p"}
    assert {peers.states(message)[1] for message in nobody_s} == {"l"}


def test_a_log_of_contents_that_nobody_has_does_not_delay_another() -> None:
    peers = Holders(2, Log(ANN))
    eve = Log(EVE)
    peers.blobs[1].came([sized(eve, number, 9) for number in range(20_000)])
    message = peers.write(0)
    peers.read(message)
    assert peers.states(message) == ["p", "p"]


def test_a_blob_larger_than_its_log_says_is_fetched_only_for_those_who_want_it() -> None:
    peers = Holders(2, Log(EVE))
    picture = peers.blobs[0].store.add(bytes(1_000))
    peers.read(peers.log.append({"type": DETACHED, "of": "post", "size": 9, "hash": picture}))
    assert peers.blobs[1].store.used == 0
    peers.blobs[1].want(picture)
    peers.settle()
    assert peers.blobs[1].store.used == 1_000


def test_a_user_s_want_outlasts_a_claim_to_it() -> None:
    peers = Holders(1, Log(EVE))
    picture = blob_ref(sha256(b"picture").digest())
    peers.blobs[0].want(picture)
    claim = peers.log.append({"type": DETACHED, "of": "post", "size": 7, "hash": picture})
    peers.read(claim)
    peers.read(peers.log.append(request([claim.id])))
    assert peers.blobs[0].wanted == {picture: -1}


def test_a_user_still_gets_a_blob_that_someone_else_asks_to_delete() -> None:
    peers = Holders(2, Log(EVE))
    picture = blob_ref(sha256(b"picture").digest())
    claim = peers.log.append({"type": DETACHED, "of": "post", "size": 7, "hash": picture})
    peers.blobs[1].want(picture)
    peers.read(claim, peers.log.append(request([claim.id])))
    peers.blobs[0].store.add(b"picture")
    peers.blobs[0].announce(picture)
    peers.settle()
    assert peers.blobs[1].store.read(picture) == b"picture"


def test_a_blob_deleted_while_it_is_sent_ends_the_stream() -> None:
    store = MemoryBlobs()
    blob = store.add(bytes(1 << 18))
    source = BlobSource(store, [blob])
    assert len(source.take_output(1)) == 1
    store.remove(blob)
    assert source.take_output(1) == []
    assert source.is_over


def test_a_content_beyond_the_whole_quota_keeps_no_other_one_out() -> None:
    log, contents = Log(ANN), Contents(MemoryBlobs(), quota=20)
    first, large, small = (sized(log, number, size) for number, size in enumerate((18, 21, 4), 1))
    for message in (first, large, small):
        contents.add(message)
    wanted = reference_of(small)
    assert wanted is not None
    assert not contents.wants(wanted.blob)
    contents.drop(first.id)
    assert contents.wants(wanted.blob)
    contents.drop(large.id)
    assert contents.wants(wanted.blob)
