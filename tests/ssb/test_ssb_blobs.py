"""Blobs: two stores and a model, the layout on disk, bounds, and what a crash leaves."""

from contextlib import suppress
from hashlib import sha256
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssb.keys import InvalidRef, blob_ref
from ssb.store.blobs import EMPTY, MAX_SIZE, DirectoryBlobs, MemoryBlobs, RefusedBlob
from ssb.store.feeds import StoreError

DATA = bytes(range(256)) * 5
BLOB = blob_ref(sha256(DATA).digest())


@pytest.fixture(params=["memory", "directory"])
def make(request, tmp_path):
    made = []

    def make(**arguments):
        store = (
            MemoryBlobs(**arguments)
            if request.param == "memory"
            else DirectoryBlobs(tmp_path / "blobs", **arguments)
        )
        made.append(store)
        return store

    yield make
    for store in made:
        store.close()


def test_adding_and_reading(make):
    store = make()
    assert store.size(BLOB) is None
    with pytest.raises(KeyError):
        store.read(BLOB)
    assert store.add(DATA) == store.add(DATA) == BLOB
    assert store.size(BLOB) == store.used == len(DATA)
    assert store.read(BLOB) == DATA
    assert store.read(BLOB, 250, 10) == DATA[250:260]
    assert store.read(BLOB, 1270) == DATA[1270:]
    assert store.read(BLOB, 5000) == b""
    assert list(store.blobs()) == [BLOB]
    assert store.remove(BLOB)
    assert not store.remove(BLOB)
    assert (store.size(BLOB), store.used, list(store.blobs())) == (None, 0, [])


def test_empty_blob_is_always_held(make):
    store = make()
    assert store.size(EMPTY) == 0
    assert store.read(EMPTY) == b""
    assert store.add(b"") == store.receive(EMPTY).finish() == EMPTY
    assert list(store.blobs()) == []
    assert not store.remove(EMPTY)


def test_names_that_are_none(make):
    store = make()
    for name in ("", "&", "../../etc/passwd", BLOB.replace("&", "%"), f"&{'A' * 43}=.sha1"):
        assert store.size(name) is None
        assert not store.remove(name)
        with pytest.raises(KeyError):
            store.read(name)
        with pytest.raises(InvalidRef):
            store.receive(name)


def test_receiving(make):
    store = make()
    incoming = store.receive(BLOB)
    incoming.write(DATA[:1000])
    assert store.size(BLOB) is None
    assert store.used == 1000
    incoming.write(DATA[1000:])
    assert incoming.finish() == BLOB
    incoming.abort()  # does nothing
    assert store.read(BLOB) == DATA
    # Twice the same at once.
    again = [store.receive(BLOB), store.receive(BLOB)]
    for one in again:
        one.write(DATA)
        assert one.finish() == BLOB
    assert store.used == len(DATA)
    with pytest.raises(ValueError, match="finished"):
        again[0].write(b"x")


def test_wrong_hash(make):
    store = make()
    incoming = store.receive(BLOB)
    incoming.write(DATA[:-1])
    with pytest.raises(RefusedBlob, match=f"not {BLOB}".replace("+", r"\+")):
        incoming.finish()
    assert (store.size(BLOB), store.used) == (None, 0)


def test_too_large(make):
    store = make(max_size=2000)
    with pytest.raises(RefusedBlob, match="larger than 2000 bytes"):
        store.add(bytes(2001))
    assert store.size(store.add(bytes(2000))) == 2000
    incoming = store.receive(BLOB, 1000)
    incoming.write(DATA[:1000])
    with pytest.raises(RefusedBlob, match="larger than 1000 bytes"):
        incoming.write(DATA[1000:])
    with pytest.raises(RefusedBlob, match="larger than 2000 bytes"):
        store.receive(BLOB, 1 << 30).write(bytes(2001))
    assert store.used == 2000
    assert MAX_SIZE == 5 * 1024 * 1024


@settings(max_examples=12)
@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "remove", "abort", "reopen"]), st.binary(max_size=40)),
        max_size=12,
    )
)
def test_both_are_a_dictionary(steps):
    model = {}
    with TemporaryDirectory() as directory:
        stores = [MemoryBlobs(), DirectoryBlobs(directory)]
        for step, data in steps:
            blob = blob_ref(sha256(data).digest())
            if step == "add" and data:
                model[blob] = data
            if step == "remove":
                model.pop(blob, None)
            if step == "reopen":
                stores[1].close()
                stores[1] = DirectoryBlobs(directory)
            for store in stores:
                if step == "add":
                    with suppress(RefusedBlob):
                        store.add(data)
                elif step == "remove":
                    store.remove(blob)
                elif step == "abort":
                    with suppress(RefusedBlob):
                        incoming = store.receive(blob)
                        incoming.write(data)
                        incoming.abort()
                assert {name: store.read(name) for name in store.blobs()} == model
                assert store.used == sum(map(len, model.values()))
        stores[1].close()


# The directory


def test_layout(tmp_path):
    digits = sha256(DATA).hexdigest()
    with_file = tmp_path / "sha256" / digits[:2] / digits[2:]
    store = DirectoryBlobs(tmp_path)
    store.add(DATA)
    assert with_file.read_bytes() == DATA
    assert list((tmp_path / "tmp").iterdir()) == []
    # What others have put there is found.
    other = sha256(b"other").hexdigest()
    (tmp_path / "sha256" / other[:2]).mkdir(exist_ok=True)
    (tmp_path / "sha256" / other[:2] / other[2:]).write_bytes(b"other")
    (tmp_path / "sha256" / "README").write_text("not a blob")
    assert store.read(blob_ref(bytes.fromhex(other))) == b"other"
    assert len(list(store.blobs())) == 2
    store.close()


def test_what_a_crash_leaves_is_deleted(tmp_path):
    store = DirectoryBlobs(tmp_path)
    store.receive(BLOB).write(DATA[:700])
    assert len(list((tmp_path / "tmp").iterdir())) == 1
    with pytest.raises(StoreError, match="another program writes to it"):
        DirectoryBlobs(tmp_path)
    store._lock.close()  # as if it had died
    again = DirectoryBlobs(tmp_path)
    assert (list((tmp_path / "tmp").iterdir()), again.used) == ([], 0)
    again.add(DATA)
    again.close()
    with_blob = DirectoryBlobs(tmp_path)
    assert with_blob.used == len(DATA)
    with_blob.close()


def test_dropping_a_blob_cannot_fail(tmp_path):
    with DirectoryBlobs(tmp_path) as store:
        incoming = store.receive(BLOB)
        incoming.write(DATA[:10])
        [file] = (tmp_path / "tmp").iterdir()
        file.unlink()
        file.mkdir()  # which is not deleted like a file
        incoming.abort()
        assert store.used == 0


def test_where_no_directory_can_be(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreError) as error:
        DirectoryBlobs(tmp_path / "file" / "blobs")
    assert str(error.value) == f"{tmp_path}/file/blobs: Not a directory"
