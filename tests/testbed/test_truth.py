"""The packets tell the truth: PIT state that Spark derives from captures is what the forwarders counted."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import nobody
import pandas as pd
import pytest
from simulation import feed_of, scenario

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
    running.run(wanted, feed_of(30), "emulated", "test", tmp_path / "run")
    samples = truth(tmp_path / "run")
    for layering in ("poll", "lli"):
        seen = samples[samples.layering == layering]
        counters = (tmp_path / "run" / layering / "counters.jsonl").read_text().splitlines()
        assert len(seen) == len(counters)
        assert (seen.derived_entries == seen.counted_entries).all()
        assert (seen.derived_bytes == seen.counted_bytes).all()
        assert seen.counted_entries.max() == (4 if layering == "poll" else 1)
        assert set(seen[seen.counted_entries > 0].node) == set(wanted.network.nodes)


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
