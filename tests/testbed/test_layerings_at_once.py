"""Layerings of an emulated run side by side, and samples of nodes to which nothing has happened."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TypeAlias

import pytest
from slow import but_slow

from ssb import keys
from testbed.experiment import run as running
from testbed.experiment.emulated_run import run
from testbed.experiment.platform import EMULATED
from testbed.scenario import workload
from testbed.scenario.reader import load
from topologies.emulator.network import EmulatedNetwork

Verify: TypeAlias = Callable[..., bool]


CASES = [
    ("failover", ("lli", "persistent", "sync", "ssb")),
    ("village", ("tiny",)),
    ("social", ("ssb-aware",)),
]


def files_of(directory: Path) -> dict[str, bytes]:
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def test_layerings_side_by_side_leave_the_same_bytes(tmp_path: Path) -> None:
    scenario = load("line", items=5, layerings=("lli", "poll", "ssb"))
    published = workload.load(scenario)
    begun: list[str] = []
    shares: dict[str, list[float]] = {}
    for name, jobs in (("one", 1), ("three", 3)):
        running.run(
            scenario,
            published,
            EMULATED,
            tmp_path / name,
            jobs=jobs,
            progress=begun.append,
            advance=lambda layering, share: shares.setdefault(layering, []).append(share),
        )
    assert begun[:3] == ["lli", "poll", "ssb"]
    assert sorted(begun[3:]) == ["lli", "poll", "ssb"]
    assert all(told.count(1.0) == 2 and min(told) == 0.0 for told in shares.values())
    assert files_of(tmp_path / "one") == files_of(tmp_path / "three")


@pytest.mark.parametrize(
    ("name", "layerings"),
    but_slow(CASES, CASES[-1]),
)
def test_a_node_is_sampled_anew_when_something_has_happened_to_it(
    name: str, layerings: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = load(name, items=70 if name == "failover" else None, layerings=layerings)
    published = workload.load(scenario)
    running.run(scenario, published, EMULATED, tmp_path / "active")
    monkeypatch.setattr(EmulatedNetwork, "take_active", lambda network: {*network._nodes})
    running.run(scenario, published, EMULATED, tmp_path / "all")
    active, every = (files_of(tmp_path / place) for place in ("active", "all"))
    assert active == every


def test_signatures_verified_once_leave_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = load("line", items=5)
    found, opened = [], [0, 0]
    for each_verifies in (False, True):

        def counted(*arguments: bytes, each: bool = each_verifies, verify: Verify = keys._check) -> bool:
            opened[each] += 1
            return verify(*arguments)

        with monkeypatch.context() as patched:
            patched.setattr(keys, "_check", counted)
            if each_verifies:
                patched.setattr("testbed.experiment.emulated_run.cached_signatures", nullcontext)
            for layering in ("lli", "ssb", "tiny"):
                place = tmp_path / str(each_verifies) / layering
                place.mkdir(parents=True)
                run(scenario, layering, workload.load(scenario), place)
        found.append(files_of(tmp_path / str(each_verifies)))
    assert found[0] == found[1]
    assert 5 <= opened[False] < opened[True] / 1.5, opened
    assert not keys.verify(bytes(32), bytes(64), b"")
