"""Every metric against pandas_model, which knows nothing of Spark nor of analysis/: to 1e-9 of it."""

import json
import math
import shutil
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas_model
import pytest
from short_runs import emulate, measured

from analysis.compare import METRICS
from analysis.manifest import Run
from testbed.scenario import available

pytestmark = pytest.mark.spark

ROUGH = """
title = "Rough: all goes wrong that can"
layerings = [
    "pull", "poll", "long-lived", "persistent", "notify", "sync", "lli", "lli-go-back-n", "lli-selective",
]
seed = 1
settle_ms = 4000
publishers = ["p1", "p2"]
subscribers = ["s1", "s2"]

[topology]
links = [
    { a = "p1", b = "r1" },
    { a = "p2", b = "r1" },
    { a = "r1", b = "r2", bw_mbit = 0.4, max_queue_size = 6 },
    { a = "r1", b = "r3", delay_ms = 15.0 },
    { a = "r3", b = "r2", delay_ms = 15.0 },
    { a = "r2", b = "s1" },
    { a = "r2", b = "s2" },
]

[topology.link]
bw_mbit = 10.0
delay_ms = 5.0
jitter_ms = 3.0
loss_percent = 3.0
duplicate_percent = 3.0

[workload]
items = 160
feeds = 2
activity_exponent = 0.0

[workload.schedule]
speed = 1500000.0
idle_limit_ms = 25.0

[parameters.lli]
credit = 8

[[events]]
at_item = 25
link_down = "r1 r2"
signalled = true

[[events]]
at_item = 55
link_up = "r1 r2"
signalled = true

[[events]]
at_item = 75
restart = "r2"

[plans.s2]
start_ms = 300.0
"""
"""Signalled breaks, a restart, frames lost, doubled and queued: what shipped scenarios have too little of."""

EPOCH = 1_793_000_000_123_456_789
"""ns; a double would hold it to 256 ns."""


def differences(
    measures: Mapping[str, Any], model: Mapping[str, Any], names: list[str]
) -> dict[str, tuple[Any, Any]]:
    """Return the metrics that differ: what the analysis says, and the model."""
    return {
        name: (ours, theirs)
        for name in names
        for ours, theirs in [(measures[name], model[name])]
        if (ours is None) != (theirs is None)
        or (ours is not None and not math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-12))
    }


def assert_agrees(run: Run, rows: list[dict[str, Any]], step_ns: int) -> None:
    model = pandas_model.measures(run.directory, step_ns)
    unknown = [metric.key for metric in METRICS if metric.key not in next(iter(model.values()))]
    assert not unknown, f"no model of {', '.join(unknown)}: write it into {Path(pandas_model.__file__).name}"
    assert set(model) == {row["layering"] for row in rows}
    names = [metric.key for metric in METRICS]
    found = {row["layering"]: differences(row, model[row["layering"]], names) for row in rows}
    assert not any(found.values()), {layering: each for layering, each in found.items() if each}


def step_of(runs: Mapping[str, Run]) -> int:
    """Return how often analysis.pipeline looks at queues where it measures these runs together."""
    turns = [turn for run in runs.values() for turn in run.manifest.runs.values()]
    return max((turn.end_ns - turn.start_ns) // 400 for turn in turns)


@pytest.mark.parametrize("name", available())
def test_a_shipped_scenario(short_runs, name):
    assert_agrees(short_runs.runs[name], short_runs.of(name), step_of(short_runs.runs))


def as_if_measured_today(run: Run, directory: Path) -> Run:
    """Copy a run of one layering with all times moved to EPOCH, as Mininet's are.

    Some items come twice or out of order, and the capture drops frames: nothing of ours does that by itself.
    """
    [layering] = run.manifest.layerings
    shutil.copytree(run.directory, directory)
    manifest = json.loads((directory / "manifest.json").read_text())
    turn = manifest["runs"][layering]
    turn |= {"start_ns": turn["start_ns"] + EPOCH, "end_ns": turn["end_ns"] + EPOCH}
    turn["capture"]["dropped"] = 7
    (directory / "manifest.json").write_text(json.dumps(manifest))
    for name in ("events.jsonl", "counters.jsonl"):
        path = directory / layering / name
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        if name == "events.jsonl":
            came = [at for at, line in enumerate(lines) if line["event"] == "delivered"]
            lines[came[20]], lines[came[21]] = lines[came[21]], lines[came[20]]
            lines += [lines[at] for at in came[3:9]]
        path.write_text("".join(json.dumps(line | {"time": line["time"] + EPOCH}) + "\n" for line in lines))
    path = directory / layering / "capture.pcapng"
    capture, at = bytearray(path.read_bytes()), 0
    while at < len(capture):
        kind, size = struct.unpack_from("<II", capture, at)
        if kind == 6:  # Enhanced Packet Block
            high, low = struct.unpack_from("<II", capture, at + 12)
            time = (high << 32 | low) + EPOCH
            struct.pack_into("<II", capture, at + 12, time >> 32, time & 0xFFFFFFFF)
        at += size
    path.write_bytes(capture)
    return Run(directory)


@pytest.fixture(scope="module")
def hard_runs(spark, tmp_path_factory):
    directory = tmp_path_factory.mktemp("hard")
    (directory / "rough.toml").write_text(ROUGH)
    runs = {
        "rough": emulate(directory / "rough", str(directory / "rough.toml")),
        "bottleneck": emulate(directory / "bottleneck", "bottleneck", layerings=("pull", "lli"), items=300),
        "line": emulate(directory / "line", "line", layerings=("lli-selective",), items=40),
    }
    runs["today"] = as_if_measured_today(runs["line"], directory / "today")
    return measured(runs, directory / "tables")


@pytest.mark.parametrize("name", ["rough", "bottleneck", "today"])
def test_a_hard_run(hard_runs, name):
    assert_agrees(hard_runs.runs[name], hard_runs.of(name), step_of(hard_runs.runs))


def test_a_run_measures_the_same_at_any_time(hard_runs):
    [line], [today] = hard_runs.of("line"), hard_runs.of("today")
    told = {"twice", "out_of_order", "capture_drops", "latency_p50", "latency_p95", "latency_p99"}
    assert set(differences(line, today, [metric.key for metric in METRICS])) - told == set()
    assert (today["twice"], today["out_of_order"], today["capture_drops"]) == (6, 1, 7)


def test_every_metric_is_put_to_the_test(short_runs, hard_runs):
    """What is nothing everywhere would agree with anything."""
    rows = [*short_runs.rows, *hard_runs.rows]
    assert [metric.key for metric in METRICS if not any(row[metric.key] for row in rows)] == []


def test_a_difference_is_found(hard_runs):
    [row] = hard_runs.of("line")
    names = [metric.key for metric in METRICS if row[metric.key]]
    off = {name: row[name] * (1 + 1e-8) for name in names}
    assert list(differences(row, off, names)) == names
    assert list(differences(row, dict.fromkeys(names), names)) == names
