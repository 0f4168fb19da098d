"""Killed writers of tinySSB feeds.

Changes follow from the seed: change n is known without reading the store. Each is one transaction that also
records its number. So after a kill that number must be the last acknowledged one, or the next, and everything
else must match: entries, chunks, feeds, secrets.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from ssb.keys import Identity
from ssb.tiny.entry import first_previous, sign
from ssb.tiny.store import TinyStore
from testbed.verify.crash.drill import Drill, Fault

_OTHER = Identity.from_seed(b"o" * 32)


@dataclass
class _State:
    """Expected contents of a store after `count` changes."""

    count: int = 0
    writer: int = 0  # number of the own feed; earlier ones were dropped
    own: int = 0  # its entries
    pruned: int = 0  # of which these are pruned
    entries: int = 0  # of the other feed
    chunks: int = 0  # of its last entry
    other: list[tuple[bytes, list[bytes]]] = field(default_factory=list)


def _content(number: int) -> bytes:
    return Random(number).randbytes((0, 20, 100, 350, 900)[number % 5])


def _writer(number: int) -> Identity:
    return Identity.from_seed(Random(number).randbytes(32))


def _packets(state: _State, sequence: int) -> tuple[bytes, list[bytes]]:
    """Return an entry of the other feed with its side chain."""
    while len(state.other) < sequence:
        previous = first_previous(_OTHER.public_key)
        for at in range(1, len(state.other) + 2):
            entry, chunks = sign(_OTHER, at, previous, _content(at))
            previous = entry.id
        state.other.append((entry.packet, chunks))
    return state.other[sequence - 1]


def _change(state: _State, seed: int, store: TinyStore | None) -> None:
    """Apply the next change to the model and, if given, to a store."""
    state.count += 1
    rng = Random(f"{seed} {state.count}")
    whole = state.entries == 0 or state.chunks == len(_packets(state, state.entries)[1])
    kind = rng.choice(["publish", "publish", "receive", "receive", "receive", "prune", "hop"])
    key = _writer(state.writer).public_key
    if state.count == 1 and store is not None:
        store.add_own(_writer(0))
        store.add(_OTHER.public_key)
    if kind == "publish":
        for _ in range(rng.randint(1, 4)):
            state.own += 1
            if store is not None:
                store.publish(key, _content(state.own))
    elif kind == "receive" and whole:
        state.entries, state.chunks = state.entries + 1, 0
        if store is not None:
            store.append(_OTHER.public_key, _packets(state, state.entries)[0])
    elif kind == "receive":
        chunk = _packets(state, state.entries)[1][state.chunks]
        state.chunks += 1
        if store is not None:
            store.add_chunk(chunk)
    elif kind == "prune":
        state.pruned = rng.randint(state.pruned, state.own)
        if store is not None:
            store.prune(key, state.pruned)
    else:
        state.writer, state.own, state.pruned = state.writer + 1, 0, 0
        if store is not None:
            store.add_own(_writer(state.writer))
            store.drop(key)
    if store is not None:
        store.put("count", state.count)


class TinyDrill(Drill):
    """Kills of writers of tinySSB feeds. See Drill."""

    def __init__(self, directory: Path, seed: int) -> None:
        super().__init__(directory, seed)
        self._seed = seed

    def begin(self) -> None:
        self._state = _State()

    def write(self, rng: Random, say: Callable[[bytes], object]) -> None:
        store = TinyStore(self.path / "tiny.db")
        while True:
            say(b"begin\n")
            with store.transaction():
                _change(self._state, self._seed, store)
            say(b"done\n")

    def check(self, lines: list[str], *, is_thorough: bool) -> None:
        done, is_midst = lines.count("done"), lines[-1:] == ["begin"]
        self.counts["changes acknowledged"] += done
        if not (self.path / "tiny.db").exists():
            return
        acknowledged = self._state.count + done
        with TinyStore(self.path / "tiny.db") as store:
            count = store.get("count") or 0
            self.counts["in the midst of a change"] += is_midst
            if count not in (acknowledged, acknowledged + is_midst):
                raise Fault(f"has {count} changes; {acknowledged} were acknowledged")
            while self._state.count < acknowledged + (count != acknowledged):
                _change(self._state, self._seed, None)
            self._compare(store)
            store.check()

    def _compare(self, store: TinyStore) -> None:
        state = self._state
        if not state.count:
            if store.feeds:
                raise Fault("feeds that nobody has added")
            return
        own, other = store.feeds.get(_writer(state.writer).public_key), store.feeds.get(_OTHER.public_key)
        if own is None or other is None or len(store.feeds) != 2 or own.identity is None:
            raise Fault("not the feeds that were there")
        whole = state.entries - (state.entries > 0 and state.chunks < len(_packets(state, state.entries)[1]))
        found = (own.sequence, own.base, other.sequence, other.whole)
        if found != (state.own, state.pruned, state.entries, whole):
            raise Fault(f"feeds are at {found}, not {(state.own, state.pruned, state.entries, whole)}")
        for feed, first, last in ((own, state.pruned, state.own), (other, 0, whole)):
            contents = [entry.content for entry in store.read(feed.key, 0, last + 1)]
            if contents != [_content(sequence) for sequence in range(first + 1, last + 1)]:
                raise Fault("not the entries that were there")
        if len(store.chunks(other.key, state.entries)) != state.chunks:
            raise Fault("not the chunks that were there")
