"""A limit on the storage of blobs: what was wanted least recently goes first, and nothing of the user's."""

import json
import logging
import os
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from click.testing import CliRunner
from hypothesis import example, given, settings
from hypothesis import strategies as st
from local_peers import LocalPeers
from mutants.bounds import Bound, check
from mutants.bounds import line as reads
from stock_peer import OurPeer
from test_ssb_import import ssb

from ssb import key_file
from ssb.daemon import service
from ssb.daemon.account import Account
from ssb.export import entry_json
from ssb.keys import Identity, blob_ref
from ssb.message import Message
from ssb.peer.options import PeerOptions
from ssb.replication.storage import OwnBlobs, StorageLimit
from ssb.store.blobs import MAX_SIZE, DirectoryBlobs, MemoryBlobs
from testbed.cli.main import feednet

STEPS = st.lists(st.tuples(st.sampled_from(["come", "want"]), st.integers(0, 9)), max_size=30)


def data(number: int, size: int = 10) -> bytes:
    return bytes([number]) * size


def ref(content: bytes) -> str:
    return blob_ref(sha256(content).digest())


@settings(max_examples=40, deadline=None)
@example(steps=[("come", 0), ("come", 1), ("want", 0), ("come", 2)], kept=set(), limit=20, is_on_disk=False)
@given(STEPS, st.sets(st.integers(0, 9)), st.integers(0, 100), st.booleans())
def test_the_least_recently_wanted_go_first_as_in_the_model(steps, kept, limit, is_on_disk):
    with TemporaryDirectory() as directory:
        store = DirectoryBlobs(directory) if is_on_disk else MemoryBlobs()
        dropped: list[str] = []
        keeps = {ref(data(number)) for number in kept}
        storage = StorageLimit(store, limit, keeps.__contains__, lambda blob, size: dropped.append(blob))
        model: list[int] = []
        expected: list[str] = []
        for step, number in steps:
            if step == "come":
                store.add(data(number))
            if step == "come" or number in model:
                storage.on_want(ref(data(number)))
                model = [each for each in model if each != number] + [number]
            while len(model) * 10 > limit and not {*model} <= kept:
                gone = next(each for each in model if each not in kept)
                model.remove(gone)
                expected.append(ref(data(gone)))
            assert storage.make_room() == (len(model) * 10 <= limit)
            assert {*store.blobs()} == {ref(data(each)) for each in model}
            assert dropped == expected
        assert store.used == 10 * len(model)
        if isinstance(store, DirectoryBlobs):
            store.close()


def test_the_order_survives_a_restart(tmp_path: Path) -> None:
    store = DirectoryBlobs(tmp_path)
    blobs = [store.add(data(number)) for number in range(5)]
    for age, number in enumerate((3, 1, 4, 0, 2)):
        os.utime(store._path(blobs[number]), ns=(0, age))
    StorageLimit(store, 100, lambda blob: False, lambda *_: None).on_want(blobs[1])
    store.close()
    store = DirectoryBlobs(tmp_path)
    dropped: list[str] = []
    StorageLimit(store, 20, lambda blob: False, lambda blob, size: dropped.append(blob)).make_room()
    assert dropped == [blobs[3], blobs[4], blobs[0]]
    store.close()


def test_a_peer_with_a_limit_keeps_what_its_user_has_added_or_named(tmp_path: Path) -> None:
    """Ben publishes pictures, and Ann wants them one after another. She names one in a private message."""
    limit = 5_000
    options = {"ann": PeerOptions(blob_storage_limit=limit)}
    with LocalPeers(tmp_path, [("ann", "ben")], options=options) as world:
        ann = world.accounts["ann"]
        world.follow("ann", "ben")
        world.connect("ann", "ben")
        file = tmp_path / "own"
        file.write_bytes(data(99, 1_000))
        added = world.do("ann", "blobs", "add", arguments=[str(file)])
        world.do("ben", "detached", "publish", arguments=[{"type": "post", "text": "x" * 500}])
        pictures = [world.accounts["ben"].blobs.add(data(number, 1_000)) for number in range(8)]
        for number, picture in enumerate(pictures):
            world.say("ben", text=str(number), mentions=[{"link": picture}])
            world.do("ann", "blobs", "want", arguments=[picture])
            world.run(2)
            if number == 0:
                private = {"type": "post", "text": "look", "mentions": [{"link": picture}]}
                world.do("ann", "publish", arguments=[private, [world.id("ann")]])
            assert ann.blobs.used <= limit
            assert ann.blobs.size(picture) == 1_000
        here = [number for number, picture in enumerate(pictures) if ann.blobs.size(picture)]
        assert here == [0, 6, 7]
        assert ann.blobs.size(added) == 1_000
        (content,) = (ann.contents.content(each.id) for each in ann.log.messages(None, None, "detached"))
        assert content == {"type": "post", "text": "x" * 500}
        dropped = [each for each in world.peers["ann"].take_events() if each.event == "dropped"]
        assert [each.remote for each in dropped] == [pictures[number] for number in (1, 2, 3, 4, 5)]
        assert dropped[0].detail == "1,000 bytes, as all blobs may have 5,000"
        world.do("ann", "blobs", "want", arguments=[pictures[1]])  # it comes again
        world.run(3)
        assert ann.blobs.size(pictures[1]) == 1_000


def test_blobs_of_the_user_may_exceed_the_limit(tmp_path: Path) -> None:
    """Then no others are fetched."""
    options = {"ann": PeerOptions(blob_storage_limit=1_500)}
    with LocalPeers(tmp_path, [("ann", "ben")], options=options) as world:
        world.follow("ann", "ben")
        world.connect("ann", "ben")
        for number in range(3):
            (tmp_path / "file").write_bytes(data(number, 1_000))
            world.do("ann", "blobs", "add", arguments=[str(tmp_path / "file")])
        picture = world.accounts["ben"].blobs.add(data(9, 1_000))
        world.do("ann", "blobs", "want", arguments=[picture])
        world.run(3)
        assert world.accounts["ann"].blobs.used == 3_000
        assert world.accounts["ann"].blobs.size(picture) is None
        assert len(world.peers["ann"].peer.connections) == 1


def test_an_old_directory_is_brought_within_a_limit(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A stock peer's: others' pictures go, the user's stay, and so does what nobody's message names."""
    me, other = Identity.from_seed(b"m" * 32), Identity.from_seed(b"o" * 32)
    stock, ours = tmp_path / "stock", tmp_path / "ours"
    mine, unnamed = data(1, 3 << 20), data(2, 1 << 20)
    theirs = [data(number, 2 << 20) for number in range(10, 16)]
    blobs = DirectoryBlobs(stock / "blobs")
    for content in (mine, unnamed, *theirs):
        blobs.add(content)
    blobs.close()
    messages = [Message.create(me, None, {"type": "post", "text": f"![mine]({ref(mine)})"}, 1.0)]
    for content in theirs:
        before = messages[-1] if len(messages) > 1 else None
        named = {"type": "post", "text": "look", "mentions": [{"link": ref(content)}]}
        messages.append(Message.create(other, before, named, 1.0))
    key_file.create(stock / "secret", me)
    flume = stock / "flume"
    flume.mkdir()
    log, place = b"", 0
    for message in messages:
        entry = json.dumps(json.loads(entry_json(message.id, message.text, 1.0))).encode()
        size = len(entry).to_bytes(4)
        place += len(entry) + 12
        log += size + entry + size + place.to_bytes(4)
    (flume / "log.offset").write_bytes(log)
    ssb(ours, "import", str(stock))
    with closing(Account(ours)) as account:
        assert account.blobs.used == 16 << 20
        for age, content in enumerate(theirs):
            os.utime(account.blobs._path(ref(content)), ns=(0, age))
    with OurPeer(ours, "--blob-storage-limit", "9MB") as peer:
        status = peer.do("status")
        assert (status["blobs"], status["blob_storage_limit"]) == (8 << 20, 9_000_000)
        assert peer.do("blobs", "size", arguments=[ref(mine)]) == len(mine)
        assert peer.do("blobs", "size", arguments=[ref(unnamed)]) == len(unnamed)
        assert [peer.do("blobs", "size", arguments=[ref(each)]) for each in theirs[:4]] == [None] * 4
        assert "blobs of 8,388,608 bytes (limit 9,000,000)" in ssb(ours, "status")
    with LocalPeers(tmp_path, [("ann", "ben")], options={"ann": PeerOptions(blob_storage_limit=5)}) as world:
        blob = world.accounts["ann"].blobs.add(data(7))
        storage = world.peers["ann"].blobs._storage
        assert storage is not None
        storage.on_want(blob)
        storage.make_room()
        with caplog.at_level(logging.INFO, "feednet.ssb"):
            service._log(world.peers["ann"], world.accounts["ann"])
        assert caplog.messages == [f"dropped {blob} 10 bytes, as all blobs may have 5"]


def test_what_is_imported_later_counts_as_added_if_nobody_names_it(tmp_path: Path) -> None:
    named, unnamed = ref(data(1)), ref(data(2))
    for number in range(2):
        own = OwnBlobs(tmp_path / "added")
        own.on_imported([named, unnamed], named.__eq__)
        own.begin([], named.__eq__)
        assert (unnamed in own, named in own) == (number == 1, False)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("much", "much is not a number of bytes such as 20000000000 or 20GB."),
        ("-5GB", "-5GB is not a number of bytes such as 20000000000 or 20GB."),
        ("20GiB", "20GiB is not a number of bytes such as 20000000000 or 20GB."),
        ("1e9", "1e9 is not a number of bytes such as 20000000000 or 20GB."),
        ("5MB", f"5MB is less than {MAX_SIZE:,} bytes."),
    ],
)
def test_a_bad_limit_is_one_line_and_starts_nothing(tmp_path: Path, value: str, why: str) -> None:
    words = ["ssb", "--path", str(tmp_path), "peer", "--blob-storage-limit", value]
    done = CliRunner().invoke(feednet, words)
    assert done.exit_code == 2
    assert done.output.splitlines()[-1] == f"Error: Invalid value for '--blob-storage-limit': {why}"
    assert not [*tmp_path.iterdir()]


def test_each_rule_is_needed() -> None:
    model = test_the_least_recently_wanted_go_first_as_in_the_model
    for name, original, mutant in (
        ("the user's blobs are dropped", "or self._is_kept(blob)", ""),
        ("wants do not count", "self._order.pop(blob, None)", "pass"),
        ("more than needed is dropped", "if self._store.used + size <= self.limit:", "if False:"),
    ):
        method = "on_want" if "order" in original else "make_room"
        check(Bound(name, reads(StorageLimit, method, original, mutant), model))
