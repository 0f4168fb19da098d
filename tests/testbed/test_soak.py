"""An hour of traffic in virtual time, some seconds against a daemon, and leaks that both must notice."""

import time
from collections import Counter
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from patience import PATIENCE_S

from forwarder.host import Host
from forwarder.lli.neighbours import Neighbours
from forwarder.pipelines.data import DataPipeline
from forwarder.tables.content_store import ContentStore
from forwarder.tables.dead_nonces import LIFETIME, DeadNonces
from forwarder.wire.packet import make_data
from testbed.verify.kit.outcome import Violation
from testbed.verify.soak import real
from testbed.verify.soak.applications import KINDS, Client
from testbed.verify.soak.measure import objects_of
from testbed.verify.soak.real import DaemonState, Report
from testbed.verify.soak.virtual import Soak

pytestmark = pytest.mark.long

SEED = 1


@pytest.mark.compiled
def test_an_hour() -> None:
    soak = Soak(SEED, 1, 6)
    soak.run()
    assert len(soak.rows) == 6
    assert all(row.frames > 3000 and row.answered > 500 for row in soak.rows)
    happened = {
        "link cut",
        "link cut, signalled",
        "node restarted",
        "strategy changed",
        "feed begun",
        "follower came",
        "follower cancelled",
        "follower vanished",
        "visitor came",
    }
    assert happened <= set(soak.events)
    counts = soak.counts()
    for how, kind in KINDS.items():
        if kind.is_answered:
            assert counts[f"{how} is answered"] == counts[f"{how} asked"] > 100
        else:
            ends = {what: count for what, count in counts.items() if what.startswith(f"{how} ")}
            assert sum(ends.values()) == 2 * counts[f"{how} asked"] > 200
            assert f"{how} is answered" not in counts


@pytest.mark.compiled
def test_a_seed_is_a_soak() -> None:
    first, second = (Soak(SEED, 0.05, 2) for _ in range(2))
    for soak in (first, second):
        soak.run()
    assert [row[:3] for row in first.rows] == [row[:3] for row in second.rows]
    assert first.events == second.events


def nonces_kept(self: DeadNonces, now: int) -> None:
    """A generation of dead nonces is not forgotten when there is another."""
    self._turn = now + LIFETIME // 2


def face_kept(self: Host, face: int, now: int) -> None:
    """A face that is closed stays in the forwarder."""
    for gone in (self._links, self._applications, self._pacers):
        gone.pop(face, None)
    self._clear_timer(face)


def neighbours_kept(self: Neighbours, face: int) -> None:
    """What is known of a neighbour outlives its face."""


def never_evicted(self: ContentStore, data: Any, now: int, *, is_unsolicited: bool = False) -> None:
    self._packets[data.name] = (data, now)
    self._unindexed.add(data.name)


LEAKS: dict[str, tuple[Any, str, Any, float]] = {
    "dead nonces stay": (DeadNonces, "_rotate", nonces_kept, 0.05),
    "faces stay": (Host, "remove_face", face_kept, 0.3),
    "neighbours stay": (Neighbours, "forget", neighbours_kept, 0.3),
    "the content store is not bounded": (ContentStore, "insert", never_evicted, 0.05),
}
"""What is replaced by what, and how many hours it takes to show."""


@pytest.mark.parametrize("leak", LEAKS)
def test_a_leak_is_noticed(leak: str) -> None:
    owner, name, wrong, hours = LEAKS[leak]
    with patch.object(owner, name, wrong), pytest.raises(Violation):
        Soak(SEED, hours, 4).run()


def test_who_is_not_answered_is_noticed() -> None:
    original = DataPipeline.receive
    count = Counter[str]()

    def lossy(self: DataPipeline, *arguments: Any) -> None:
        count["data"] += 1
        if count["data"] < 100:
            original(self, *arguments)

    with patch.object(DataPipeline, "receive", lossy), pytest.raises(Violation, match="still waits"):
        Soak(SEED, 0.01, 2).run()


def test_wrong_content_is_noticed() -> None:
    client = Client("here", ["a"], Random(SEED), 10**9)
    client.wake(0)
    (request,) = client.pending
    with pytest.raises(Violation, match="not the producer's"):
        client.receive(make_data(request.name, b"wrong"), 0)


def test_objects_are_counted_once_and_however_they_are_held() -> None:
    class Slotted:
        __slots__ = ("held",)

        def __init__(self, held: object) -> None:
            self.held = held

    shared = b"a shared value"
    inside = Slotted(shared)
    few = objects_of({"a": inside, "b": [inside, shared]})
    more = objects_of({"a": inside, "b": [inside, shared], "c": Slotted(bytes(1000))})
    assert more[0] == few[0] + 3
    assert more[1] > few[1] + 1000


def test_some_seconds_against_a_daemon() -> None:
    seen: list[DaemonState] = []
    lives: set[str] = set()
    schemes: set[str] = set()
    end = time.monotonic() + PATIENCE_S
    while lives != {*real.LIVES} or schemes != {*real.SCHEMES}:  # a busy machine needs several turns
        assert time.monotonic() < end, (lives, schemes)
        began = time.monotonic()
        report = real.soak(5 / 60, SEED, lambda held, counts: seen.append(held))
        assert time.monotonic() - began >= 5
        assert max(held.faces for held in seen) > report.before.faces + 3
        assert report.after[:-1] == report.before[:-1]
        told = [what.partition(" over ") for what in report.counts if " over " in what]
        lives |= {life for life, _, _ in told}
        schemes |= {scheme for _, _, scheme in told}


BEFORE = DaemonState(faces=2, routes=1, pit=1, feeds=0, files=10, memory=50_000)


@pytest.mark.parametrize("what", ["faces", "routes", "pit", "feeds", "files"])
def test_what_is_left_by_a_client_is_noticed(what: str) -> None:
    after = BEFORE._replace(**{what: getattr(BEFORE, what) + 1})
    with pytest.raises(Violation, match=what):
        real._check(Report(BEFORE, BEFORE, after, Counter()))


@pytest.mark.parametrize(
    ("memory", "growth", "is_noticed"),
    [
        (60_000, (1.0, 1.0, 1.0), False),  # little
        (65_000, (0.0, 15.0, 0.0), False),  # one jump
        (65_000, (1.0, 1.0, 1.0), True),
        (101_000, (0.0, 50.0, 0.0), True),
    ],
)
def test_memory_that_grows_is_noticed(memory: int, growth: tuple[float, ...], is_noticed: bool) -> None:
    report = Report(BEFORE, BEFORE, BEFORE._replace(memory=memory), Counter(), growth)
    if is_noticed:
        with pytest.raises(Violation, match="growth"):
            real._check(report)
    else:
        real._check(report)
