"""Clocks of other peers on disk: whatever fails there, nothing is raised, and no old clock comes back."""

import errno
import os
from pathlib import Path
from random import Random

import pytest
from fresh_seeds import first_fresh_seed

from ssb.keys import Identity
from ssb.store.clocks import ClockDirectory, MemoryClocks

PEERS = [Identity.from_seed(bytes([number]) * 32).ref for number in range(4)]
FEEDS = [f"@{number}" for number in range(5)]


@pytest.mark.parametrize("seed", [*range(20), *range(first_fresh_seed(), first_fresh_seed() + 10)])
def test_a_directory_is_as_good_as_memory_while_it_lasts_and_forgets_rather_than_errs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    random = Random(seed)
    is_full = False
    write_bytes = Path.write_bytes

    def write(path: Path, data: bytes) -> int:
        if is_full:
            write_bytes(path, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write_bytes(path, data)

    monkeypatch.setattr(Path, "write_bytes", write)
    disk, memory = ClockDirectory(tmp_path), MemoryClocks()
    for _ in range(100):
        match random.randrange(6):
            case 0 | 1:
                peer = random.choice(PEERS)
                clock = {feed: random.randint(-1, 9) for feed in random.sample(FEEDS, random.randint(1, 5))}
                disk.set_remote_clock(peer, clock)
                memory.set_remote_clock(peer, clock)
            case 2:
                feeds = random.sample(FEEDS, 2)
                disk.doubt_feeds(feeds)
                memory.doubt_feeds(feeds)
            case 3:
                feeds = random.sample(FEEDS, 1)
                disk.forget_feeds(feeds)
                memory.forget_feeds(feeds)
            case 4:
                is_full = random.random() < 0.5
            case 5:  # it is killed and starts anew: what it has then, it had last
                disk = ClockDirectory(tmp_path)
                for peer in PEERS:
                    kept = dict(disk.remote_clock(peer))
                    assert kept in ({}, dict(memory.remote_clock(peer)))
                    memory.set_remote_clock(peer, kept)
        for peer in PEERS:
            assert dict(disk.remote_clock(peer)) == dict(memory.remote_clock(peer))
    is_full = False
    disk.set_remote_clock(PEERS[0], {"@last": 1})
    memory.set_remote_clock(PEERS[0], {"@last": 1})
    again = ClockDirectory(tmp_path)
    assert {peer: dict(again.remote_clock(peer)) for peer in PEERS} == {
        peer: dict(memory.remote_clock(peer)) for peer in PEERS
    }, "what could not be written is written with the next that can"
    assert not list(tmp_path.glob(".*"))


def test_what_cannot_be_read_counts_as_none(tmp_path: Path) -> None:
    clocks = ClockDirectory(tmp_path)
    clocks.set_remote_clock(PEERS[0], {"@a": 1})
    [path] = tmp_path.iterdir()
    path.unlink()
    path.mkdir()
    assert ClockDirectory(tmp_path).remote_clock(PEERS[0]) == {}
