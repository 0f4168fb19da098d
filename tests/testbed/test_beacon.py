"""A broadcast protocol of another distribution, in a cell: from its entry point to the report."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pcapng_oracle
import pyarrow.parquet as pq
import pytest

from captures.formats.pcapng import Direction
from topologies.mininet import sandbox

BEACON = Path(__file__).parent / "beacon"
ROOT = Path(__file__).parents[2]


def feednet(*arguments, plugins=BEACON):
    return subprocess.run(
        [sys.executable, "-m", "testbed.cli", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(plugins)},
    )


def check(run, net):
    manifest = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["net"] == net
    (medium,) = manifest["topology"]["media"]
    assert medium["interfaces"] == ["p0-eth0", "p1-eth0", "s0-eth0", "s1-eth0", "s2-eth0"]
    rows = pq.read_table(run / "tables" / "comparison.parquet").to_pylist()
    values = {row["metric"]: row["value"] for row in rows}
    assert values["delivered"] == 120
    assert values["delivered_share"] == 100
    assert values["latency_p50"] > 2
    assert values["bytes_per_item"] > 0
    assert values["pit_entries_mean"] is None
    frames = Counter()
    for packet in pcapng_oracle.read(run / "beacon" / "capture.pcapng"):
        frames[packet.interface.name, packet.direction is Direction.OUT] += 1
        assert packet.frame[:6] == bytes.fromhex("01005e000047")
    beacons = frames["p0-eth0", True] + frames["p1-eth0", True]
    assert frames["s0-eth0", False] == beacons
    assert 0.6 * beacons < frames["s1-eth0", False] < 0.95 * beacons
    assert 0.2 * beacons < frames["s2-eth0", False] < 0.6 * beacons
    load = Counter()
    for row in pq.read_table(run / "tables" / "link_load.parquet").to_pylist():
        load[row["sender"], row["receiver"]] += row["packets"]
        load[row["sender"], row["receiver"], "lost"] += row["lost"]
    for node in ("p0", "p1"):
        assert load[node, "cell"] == frames[f"{node}-eth0", True]
        assert load[node, "cell", "lost"] == 0
    for node in ("p0", "p1", "s0", "s1", "s2"):
        sent_by_others = beacons - frames[f"{node}-eth0", True]
        assert load["cell", node] == sent_by_others
        assert load["cell", node, "lost"] == sent_by_others - frames[f"{node}-eth0", False]
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "Medium cell" in page
    assert 'class="node medium"' in page


def test_in_the_emulator(tmp_path):
    done = feednet("run", str(BEACON / "cell.toml"), "--net", "emulated", "--out", str(tmp_path / "run"))
    assert (done.returncode, done.stderr) == (0, "")
    check(tmp_path / "run", "emulated")


@pytest.mark.mininet
@pytest.mark.skipif(sandbox.why_not() is not None, reason=f"Mininet cannot run here: {sandbox.why_not()}")
def test_in_mininet(tmp_path):
    done = feednet("run", str(BEACON / "cell.toml"), "--net", "mininet", "--out", str(tmp_path / "run"))
    assert (done.returncode, done.stderr) == (0, "")
    check(tmp_path / "run", "mininet")


def test_ndn_s_layerings_do_not_run_over_a_medium():
    done = feednet("run", str(BEACON / "cell.toml"), "--layering", "lli")
    assert done.returncode == 1
    assert done.stderr.endswith(
        "--layering lli: lli cannot carry a broadcast medium, which the scenario has; leave one of both out\n"
    )


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("lli = beacon:BeaconLayering", "layering lli of feednet-test: feednet has a layering of that name"),
        ("other = beacon:Nothing", "layering other of feednet-test: AttributeError: .*Nothing.*"),
        ("other = beacon:BeaconParameters", "layering other of feednet-test: it has no title, .*"),
    ],
)
def test_a_bad_layering_of_another_distribution_is_one_line(tmp_path, entry, message):
    about = tmp_path / "feednet_test-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: feednet-test\nVersion: 1\n", encoding="utf-8"
    )
    (about / "entry_points.txt").write_text(f"[feednet.layerings]\n{entry}\n", encoding="utf-8")
    (tmp_path / "beacon.py").write_text((BEACON / "beacon.py").read_text(encoding="utf-8"), encoding="utf-8")
    done = feednet("list", plugins=tmp_path)
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert len(lines) == 1
    assert re.fullmatch(f"feednet: {message}", lines[0])
