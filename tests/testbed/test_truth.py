"""The packets tell the truth: PIT state that Spark derives from captures is what the forwarders counted."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import nobody
import pandas as pd
import pytest
from simulation import load_of, scenario

from analysis.pipeline import analyze
from testbed import run as running
from topologies import box

pytestmark = pytest.mark.spark

NETWORKS: dict[str, dict[str, Any]] = {
    "clean tree": {"generator": "tree", "depth": 2, "fanout": 2, "link": {"delay_ms": 5.0, "bw_mbit": 10.0}},
    "lossy line with jitter": {
        "generator": "line",
        "length": 4,
        "link": {"delay_ms": 5.0, "jitter_ms": 4.0, "loss_percent": 10.0},
    },
}
CHANGES = [
    {"at_ms": 600.0, "link_down": "r1 s1"},
    {"at_ms": 650.0, "link_down": "pub r2", "signalled": False},
    {"at_ms": 700.0, "restart": "r1"},
    {"at_ms": 800.0, "restart": "s3"},
    {"at_ms": 900.0, "link_up": "r1 s1"},
    {"at_ms": 1100.0, "link_up": "pub r2", "signalled": False},
    {"at_ms": 1200.0, "restart": "pub"},
]
PARAMETERS = {"poll": {"window": 4, "lifetime_ms": 300}, "lli": {"credit": 8, "lifetime_ms": 2000}}


def truth(run: Path) -> "pd.DataFrame":
    analyze(run)
    return pd.read_parquet(run / "tables" / "pit_truth.parquet")


@pytest.mark.parametrize("network", NETWORKS)
def test_emulated_exactly_sample_by_sample(tmp_path: Path, network: str) -> None:
    shape = NETWORKS[network]
    subscribers = ("s1",) if shape["generator"] == "line" else ("s1", "s2", "s3", "s4")
    wanted = scenario(
        topology=shape,
        subscribers=subscribers,
        parameters=PARAMETERS,
        sample_interval_ms=1.7,
        settle_ms=5000,
        drain_ms=3000,
    )
    running.run(wanted, load_of(wanted), "emulated", "test", tmp_path / "run")
    samples = truth(tmp_path / "run")
    for layering in ("poll", "lli"):
        seen = samples[samples.layering == layering]
        counters = (tmp_path / "run" / layering / "counters.jsonl").read_text().splitlines()
        assert len(seen) == len(counters)
        assert (seen.derived_entries == seen.counted_entries).all()
        assert (seen.derived_bytes == seen.counted_bytes).all()
        assert seen.counted_entries.max() == (4 if layering == "poll" else 1)
        assert set(seen[seen.counted_entries > 0].node) == set(wanted.network.nodes)


def test_emulated_exactly_while_links_break_and_nodes_start_anew(tmp_path: Path) -> None:
    wanted = scenario(
        topology=NETWORKS["clean tree"],
        events=CHANGES,
        parameters=PARAMETERS,
        sample_interval_ms=1.7,
        workload={"items": 60, "schedule": {"speed": 1e6, "idle_limit_ms": 50.0}},
        settle_ms=5000,
        drain_ms=3000,
    )
    running.run(wanted, load_of(wanted), "emulated", "test", tmp_path / "run")
    samples = truth(tmp_path / "run")
    for layering in ("poll", "lli"):
        seen = samples[samples.layering == layering]
        assert (seen.derived_entries == seen.counted_entries).all()
        assert (seen.derived_bytes == seen.counted_bytes).all()


@pytest.mark.mininet
@pytest.mark.skipif(box.why_not() is not None, reason=f"Mininet cannot run here: {box.why_not()}")
def test_mininet_within_what_is_in_flight_in_a_millisecond(tmp_path: Path) -> None:
    arguments = ["run", "fanout", "--net", "mininet", "--items", "80", "--no-report", "--out", "run"]
    subprocess.run(
        [sys.executable, "-m", "testbed.cli", *arguments],
        cwd=tmp_path,
        env=nobody.environment(),
        timeout=180,
        check=True,
    )
    samples = truth(tmp_path / "run")
    for layering in ("poll", "lli"):
        seen = samples[samples.layering == layering]
        assert len(seen) > 1000
        # A busy machine may keep a process from its packets for longer than a millisecond, now and then.
        assert seen.agrees.mean() > 0.99
        assert (seen.derived_entries - seen.counted_entries).abs().max() <= 4
