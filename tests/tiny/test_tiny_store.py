"""The store of tinySSB feeds: whole entries in order, all or nothing, and nothing left of what is dropped."""

import random
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssb.keys import Identity
from ssb.store.feeds import StoreError
from ssb.tiny.entry import END, InvalidEntry, first_previous, make_chain, pointer_to, sign
from ssb.tiny.feed import BROKEN, FORKED, ForkedFeed
from ssb.tiny.store import MOST_AHEAD, TinyStore

ME, OTHER, THIRD = (Identity.from_seed(bytes((number,)) * 32) for number in range(3))


def feed_of(identity: Identity, contents: list[bytes]) -> list[tuple[bytes, list[bytes]]]:
    """Return entries' packets with their side chains."""
    made, previous = [], first_previous(identity.public_key)
    for sequence, content in enumerate(contents, start=1):
        entry, chunks = sign(identity, sequence, previous, content)
        previous = entry.id
        made.append((entry.packet, chunks))
    return made


@pytest.fixture(params=["memory", "file"])
def opening(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], TinyStore]]:
    stores: list[TinyStore] = []

    def again() -> TinyStore:
        """Open the store as another process would; one in memory stays."""
        if request.param == "file":
            for store in stores:
                store.close()
            stores[:] = [TinyStore(tmp_path / "tiny.db")]
        elif not stores:
            stores.append(TinyStore())
        else:
            stores[0]._load()
        return stores[0]

    yield again
    for store in stores:
        store.close()


CONTENTS = st.lists(st.binary(max_size=330), min_size=1, max_size=8)


@settings(max_examples=60)
@given(CONTENTS, st.randoms(use_true_random=False))
def test_entries_are_whole_in_order_however_chunks_come(contents: list[bytes], rng: random.Random) -> None:
    """The model: the whole entries are the longest prefix whose chunks are all there, and the feed lacks
    chunks as long as an entry does."""
    packets = feed_of(OTHER, contents)
    with TinyStore() as store:
        key = store.add(OTHER.public_key).key
        held = [0] * len(packets)
        appended = 0
        while True:
            whole = 0
            while whole < appended and held[whole] == len(packets[whole][1]):
                whole += 1
            assert store.feeds[key].whole == whole
            assert [entry.content for entry in store.read(key, 0, 99)] == contents[:whole]
            lacking = [at for at in range(appended) if held[at] < len(packets[at][1])]
            assert store.lacking == ({key} if lacking else set())
            assert appended == len(packets) or store.feeds[key].expected == packets[appended][0][:7]
            choices: list[int] = ([-1] if appended < len(packets) else []) + lacking
            if not choices:
                break
            at = rng.choice(choices)
            if at < 0:
                store.append(key, packets[appended][0])
                appended += 1
            else:
                chunk = packets[at][1][held[at]]
                assert store.awaits(pointer_to(chunk))
                assert key in dict(store.add_chunk(chunk))
                for each in lacking:  # the same chunk may be missing elsewhere
                    held[each] += packets[each][1][held[each] : held[each] + 1] == [chunk]
            if rng.random() < 0.3:
                store._load()  # as after a restart
        store.check()
        assert store.size([key]) == 120 * sum(1 + len(chunks) for _, chunks in packets)


def test_what_is_published_is_read_by_another(opening: Callable[[], TinyStore]) -> None:
    store = opening()
    key = store.add_own(ME).key
    contents = [b"short", bytes(300), b"", b"x" * 128]
    for content in contents:
        store.publish(key, content)
    store.publish(key, b"p" * 48, is_plain=True)
    store = opening()
    store.publish(key, b"after a restart")
    with TinyStore() as reader:
        reader.add(key)
        for sequence in range(1, 7):
            packet = store.packet(key, sequence)
            assert packet is not None
            reader.append(key, packet)
            for chunk in store.chunks(key, sequence):
                reader.add_chunk(chunk)
        told = [(entry.sequence, entry.content) for entry in reader.read(key, 0, 99)]
        assert told == list(enumerate([*contents, b"p" * 48, b"after a restart"], start=1))
        assert reader.read(key, 2, 1) == store.read(key, 2, 1)
        reader.check()
    store.check()


def test_a_transaction_is_all_or_nothing(opening: Callable[[], TinyStore]) -> None:
    store = opening()
    key = store.add_own(ME).key
    store.publish(key, b"one")
    store.put("name", ["value", 1])

    class TooBad(Exception):
        pass

    def change() -> None:
        with store.transaction():
            store.publish(key, bytes(200))
            store.put("name", None)
            store.put("other", 1)
            store.add(OTHER.public_key)
            store.set_mark(key, 1)
            raise TooBad

    with pytest.raises(TooBad):
        change()
    for is_reopened in (False, True):
        store = opening() if is_reopened else store
        assert [entry.content for entry in store.read(key, 0, 9)] == [b"one"]
        assert store.records("") == {"name": ["value", 1]}
        assert [*store.feeds] == [key]
        assert store.feeds[key].mark == 0


def test_pruned_feeds_go_on(opening: Callable[[], TinyStore]) -> None:
    store = opening()
    packets = feed_of(OTHER, [bytes(200), b"two", bytes(150), b"four"])
    key = store.add(OTHER.public_key).key
    for packet, chunks in packets[:3]:
        store.append(key, packet)
        for chunk in chunks[: None if packet != packets[2][0] else 1]:
            store.add_chunk(chunk)
    store.prune(key, 99)
    assert store.feeds[key].base == 2, "what is not whole stays"
    assert store.size([key]) == 240
    store = opening()
    assert store.packet(key, 2) is None
    store.append(key, packets[3][0])
    store.add_chunk(packets[2][1][1])
    assert [entry.sequence for entry in store.read(key, 0, 9)] == [3, 4]
    store.prune(key, 4)
    store.check()
    assert store.feeds[key].sequence == 4
    assert store.size() == 0


def test_forks_are_proved_and_freeze_the_feed(opening: Callable[[], TinyStore]) -> None:
    store = opening()
    key = store.add(OTHER.public_key).key
    branches = [feed_of(OTHER, [b"one", text]) for text in (b"two", b"too")]
    for packet, _ in branches[0]:
        store.append(key, packet)
    forged = branches[0][1][0][:100] + bytes(20)
    with pytest.raises(InvalidEntry, match="signature"):
        store.add_fork(forged[:7], forged)
    other = branches[1][1][0]
    with pytest.raises(ForkedFeed) as caught:
        store.add_fork(other[:7], other)
    assert caught.value.proof == (branches[0][1][0], other)
    store = opening()
    assert store.feeds[key].condition == FORKED
    assert store.fork(key) == caught.value.proof
    with pytest.raises(InvalidEntry, match="no more"):
        store.append(key, feed_of(OTHER, [b"one", b"two", b"three"])[2][0])
    store.add_own(ME)
    mine, theirs = feed_of(ME, [b"mine"])[0][0], feed_of(ME, [b"stolen"])[0][0]
    store.publish(ME.public_key, b"mine")
    assert store.packet(ME.public_key, 1) == mine
    with pytest.raises(ForkedFeed):
        store.add_fork(theirs[:7], theirs)
    with pytest.raises(ForkedFeed):
        store.publish(ME.public_key, b"more")


def broken_entry(pointer: bytes) -> bytes:
    """Return the packet of an entry of 500 bytes whose side chain begins with a pointer."""
    from hashlib import sha256

    name = b"tinyssb-v0" + OTHER.public_key + (1).to_bytes(4) + first_previous(OTHER.public_key)
    head = sha256(name).digest()[:7] + b"\1" + b"\xf4\3" + bytes(26) + pointer
    return head + OTHER.sign(name + head)


def test_chains_that_end_too_early_break_the_feed(opening: Callable[[], TinyStore]) -> None:
    (chunk,) = make_chain(b"the end")
    store = opening()
    for packet, chunks in ((broken_entry(END), []), (broken_entry(pointer_to(chunk)), [chunk])):
        key = store.add(OTHER.public_key).key
        store.append(key, packet)
        for each in chunks:
            store.add_chunk(each)
        store = opening()
        assert store.feeds[key].condition == BROKEN
        assert store.read(key, 0, 9) == []
        assert not store.awaits(END)
        assert not store.lacking
        store.drop(key)


def test_entries_ahead_are_bounded() -> None:
    with TinyStore() as store:
        key = store.add(OTHER.public_key).key
        packets = feed_of(OTHER, [bytes((number,)) * 90 for number in range(MOST_AHEAD + 2)])
        for packet, _ in packets[:MOST_AHEAD]:
            store.append(key, packet)
        with pytest.raises(InvalidEntry, match="too many"):
            store.append(key, packets[MOST_AHEAD][0])
        store.add_chunk(packets[0][1][0])
        store.append(key, packets[MOST_AHEAD][0])


@pytest.mark.parametrize("number", [-3, 0, 500])
def test_entries_that_should_not_be_there_are_found(opening: Callable[[], TinyStore], number: int) -> None:
    store = opening()
    feed = store.add_own(ME)
    entry = store.publish(feed.key, b"one")
    store.check()
    with store.transaction():
        store._tables.insert(feed, entry._replace(sequence=number, packet=bytes(120)))
    with pytest.raises(StoreError, match="entries are missing, or too many"):
        store.check()


def test_nothing_is_left_of_what_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "tiny.db"
    rng = Random(1)
    secret = Identity.from_seed(rng.randbytes(32))
    with TinyStore(path) as store:
        store.add_own(ME)
        store.add_own(secret)
        store.add(OTHER.public_key)
        for packet, _ in feed_of(OTHER, [rng.randbytes(90)]):
            store.append(OTHER.public_key, packet)
        assert store.lacking == {OTHER.public_key}
        for _ in range(40):
            store.publish(secret.public_key, rng.randbytes(300))
            store.publish(ME.public_key, b"it stays")
        gone = [secret.public_key, secret.secret().encode(), store.packet(secret.public_key, 7) or b""]
        store.drop(secret.public_key)
        store.drop(OTHER.public_key)
        assert [*store.feeds] == [ME.public_key]
        assert not store._pointers
        assert not store.lacking
    files = b"".join(one.read_bytes() for one in tmp_path.iterdir())
    assert ME.public_key in files
    assert not [piece for piece in gone if piece in files]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_errors_are_one_line(tmp_path: Path) -> None:
    path = tmp_path / "tiny.db"
    with TinyStore(path), pytest.raises(StoreError, match="another program writes to it"):
        TinyStore(path)
    path.write_bytes(b"text" * 999)
    with pytest.raises(StoreError, match="not a store of tinySSB feeds"):
        TinyStore(path)
    with pytest.raises(StoreError, match="No such file"):
        TinyStore(tmp_path / "none" / "tiny.db")
    with TinyStore() as store:
        store.add(OTHER.public_key)
        with pytest.raises(ValueError, match="not written here"):
            store.publish(OTHER.public_key, b"")
