"""Every shipped scenario in the emulator, cut short, and some that are hard; all measured in one go.

Shared by what asks whether the figures are as they were, and whether they are right.
"""

import json
import shutil
import struct
from pathlib import Path
from typing import Any, NamedTuple

from handmade import seal

from analysis.export.text import aligned, number
from analysis.metrics.catalogue import METRICS
from analysis.pipelines.run import measure_cases
from analysis.run.context import Case
from analysis.run.manifest import Run
from testbed.experiment import run as running
from testbed.experiment.platform import EMULATED
from testbed.library import scenarios
from testbed.scenario import workload
from testbed.scenario.reader import load

ITEMS = 12
LONGER = {
    "archive": 100,
    "bottleneck": 300,
    "chat": 40,
    "churn": 30,
    "cut-tree": 34,
    "deletion": 20,
    "failover": 70,
    "fetch": 60,
    "flat-ids": 120,
    "fork": 100,
    "ladder": 16,
    "late-join": 60,
    "lora-village": 6,
    "many-feeds": 40,
    "mobile": 120,
    "ndn-over-ssb": 120,
    "offline-author": 40,
    "outage": 60,
    "photos": 24,
    "slow-consumer": 60,
    "social-fetch": 48,
}
"""Items: few, and more where something happens at a later one, or where there are more feeds."""

ONLY = {
    "archive": ("poll", "notify", "lli"),
    "bottleneck": ("pull", "lli"),
    "chat": ("ssb", "poll", "lli"),
    "churn": ("persistent", "lli"),
    "commuter": ("poll", "lli"),
    "crowd": ("lli", "ebt"),
    "cut-tree": ("ebt",),
    "ending": ("poll", "lli", "ssb", "tiny"),
    "flash-crowd": ("poll",),
    "geant-news": ("lli",),
    "fork": ("poll", "sync", "lli"),
    "hot-author": ("append-poll", "gossip-skip"),
    "intermittent": ("gossip-skip",),
    "ladder": ("gossip", "flood", "ebt", "hub"),
    "late-join": ("pull", "persistent", "lli"),
    "many-feeds": ("poll", "persistent", "sync", "sync-log", "lli"),
    "mobile": ("poll", "link", "ssb"),
    "offline-author": ("gossip",),
    "quiet": ("lli", "sync-log"),
    "slow-consumer": ("pull", "long-lived", "lli"),
    "social": ("ssb", "ssb-aware", "social-routing"),
    "social-fetch": ("ndn-over-ssb",),
    "testbed-pubsub": ("lli",),
    "uplink": ("lli", "broker", "multicast"),
    "village": ("ssb", "ssb-aware-poll", "ssb-aware"),
}
"""Layerings: all, but these where one costs as much as another scenario: the streams have to last until the
bulk fetch has begun, thirty feeds are asked for however few items there are, and `ladder` has most rungs.
Polls make a thousand connections there, and few in `hot-author`. `line`, `fanout-all`, `failover` and ROUGH
have all layerings over NDN."""

_CITIZENS = [f"c{number}" for number in range(1, 7)]
_PATIENCE = {"round": 3000, "claims": 1500, "retry": 1000, "pause": 150, "spread": 400, "gap": 150}
SMALLER = {
    "churn": {
        "topology.users.number": 12,
        "publishers": ["u1..u3"],
        "subscribers": ["u4..u12"],
        "workload.feeds": 3,
        "workload.follows": 2,
        "settle_ms": 6000,
        "sessions.online_ms": 2000.0,
        "sessions.offline_ms": 600.0,
    },
    "crowd": {"topology.users.number": 7, "subscribers": ["u2..u7"], "settle_ms": 4000},
    "deletion": {
        "subscribers": ["p1..p8"],
        "workload.schedule.idle_limit_ms": 2000.0,
        "sessions.online_ms": 10_000.0,
        "sessions.offline_ms": 10_000.0,
        "sample_interval_ms": 500.0,
        "deletion.ignored_percent": 25,
        "settle_ms": 8000,
        "warmup_ms": 1000,
    },
    "ending": {"ending.after": 6, "settle_ms": 4000},
    "devices": {"fork.after": 6, "settle_ms": 2000},
    "deployment": {"topology.users.number": 5, "subscribers": ["u2..u5"]},
    "lli-storm": {"workload.idle_feeds": 200},
    "quiet": {"settle_ms": 8000, "workload.feeds": 10, "workload.follows": 2},
    "uplink": {"topology.users.number": 9, "subscribers": ["u2..u9"], "settle_ms": 8000},
    "isp-city": {"publishers": _CITIZENS, "subscribers": _CITIZENS, "workload.follows": 2},
    "isp-storm": {"settle_ms": 3000},
    "lora-village": {
        "publishers": ["v1", "v2", "v3"],
        "subscribers": ["v1", "v2", "v3", "v4", "pub"],
        "warmup_ms": 8000,
        "settle_ms": 13000,
        "workload.schedule.idle_limit_ms": 500.0,
        "topology.radio.bandwidth_khz": 500.0,
        "topology.radio.backoff_ms": 100.0,
        **{
            f"parameters.{layering}.{name}_ms": value
            for layering in ("tiny", "tiny-pub")
            for name, value in _PATIENCE.items()
        },
    },
}
"""Settings of those that have more publishers than items, or take minutes."""

LOSSY, REPAIRS = "line", ("lli-go-back-n", "lli-selective")
"""Other ways to repair are measured only where there is loss; elsewhere they do as lli does."""


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

HARD = ("rough", "steady", "today", "pictures", "talk")
"""Runs that are of no shipped scenario: ROUGH, one as it is and as if it had been measured today, and the
pictures and the thread of two over NDN alone."""


class Measured(NamedTuple):
    """Runs by name, and the rows of analysis.metrics.comparison.measure; a case is called "<name>
    <layering>"."""

    runs: dict[str, Run]
    rows: list[dict[str, Any]]

    def of(self, name: str) -> list[dict[str, Any]]:
        """Return a run's rows, called by layering alone."""
        return [
            row | {"layering": row["layering"].removeprefix(f"{name} ")}
            for row in self.rows
            if row["layering"].startswith(f"{name} ")
        ]


def emulate(directory: Path, scenario: str, **options: Any) -> Run:
    """Run a scenario (a name or a file) in the emulator, with options of testbed.scenario.reader.load."""
    chosen = load(scenario, **options)
    running.run(chosen, workload.load(chosen), EMULATED, directory)
    return Run(directory)


def as_if_measured_today(run: Run, directory: Path) -> Run:
    """Copy a run of one layering with all times moved to EPOCH, as Mininet's are.

    Some items come twice or out of order, and the capture drops frames: nothing of ours does that by itself.
    """
    [layering] = run.manifest.layerings
    shutil.copytree(run.directory, directory)
    manifest = json.loads((directory / "manifest.json").read_text())
    turn = manifest["runs"][layering]
    names = ("start_ns", "first_ns", "last_ns", "settle_ns", "stop_ns", "end_ns")
    turn |= {name: turn[name] + EPOCH for name in names}
    turn["capture"]["dropped"] = 7
    turn["cpu_ns"] = {node["name"]: 3_000_000 for node in manifest["topology"]["nodes"]}
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
    seal(directory)
    return Run(directory)


def shipped(directory: Path) -> dict[str, Run]:
    """Run every shipped scenario."""
    runs = {}
    for name in scenarios():
        wanted = tuple(x for x in load(name).layerings if name == LOSSY or x not in REPAIRS)
        wanted = ONLY.get(name, wanted)
        items, changes = LONGER.get(name, ITEMS), SMALLER.get(name)
        runs[name] = emulate(directory / name, name, layerings=wanted, items=items, changes=changes)
    return runs


def hard(directory: Path) -> dict[str, Run]:
    """Run what is HARD."""
    (directory / "rough.toml").write_text(ROUGH)
    rough = emulate(directory / "rough", str(directory / "rough.toml"))
    costs = {"cost.machine": "xeon-vm"}
    steady = emulate(directory / "steady", "line", layerings=("lli-selective",), items=40, changes=costs)
    today = as_if_measured_today(steady, directory / "today")
    many = {"workload.pictures.every": 2, "workload.pictures.size_bytes": 9000}
    pictures = emulate(directory / "pictures", "photos", layerings=("pull", "lli"), items=60, changes=many)
    few = {"workload.schedule.idle_limit_ms": 1000.0, "workload.application.clock_error_ms": 3000.0}
    talk = emulate(directory / "talk", "chat", layerings=("pull", "lli"), items=40, changes=few)
    return {"rough": rough, "steady": steady, "today": today, "pictures": pictures, "talk": talk}


def measured(directory: Path) -> Measured:
    """Run all, and measure them together: a job of Spark's costs the same for few rows as for many."""
    runs = shipped(directory) | hard(directory)
    cases = {f"{name} {x}": Case(run, x) for name, run in runs.items() for x in run.manifest.layerings}
    return Measured(runs, measure_cases(cases, directory / "tables", engine="sail").to_pylist())


def comparison_text(measures: list[dict[str, Any]], layerings: list[str]) -> str:
    """Write the rows of analysis.metrics.comparison.measure: a line a metric that some layering has a value
    of."""
    by_layering = {row["layering"]: row for row in measures}
    lines = [["", "", *layerings]]
    for metric in METRICS:
        values = [by_layering[layering][metric.key] for layering in layerings]
        if any(value is not None for value in values):
            lines.append([metric.key, metric.unit, *map(number, values)])
    return aligned(lines, left=2)
