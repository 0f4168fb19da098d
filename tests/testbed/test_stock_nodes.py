"""npm's ssb-server as a node of runs over Mininet, and what a scenario may say of it."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import ssb_server_program
from real_time import until_delivered

from feednet import Experiment
from testbed.errors import UserError
from testbed.experiment.platform import EMULATED, Platform
from testbed.experiment.run import run
from testbed.scenario import workload
from testbed.scenario.reader import load
from topologies.mininet import sandbox

MININET = [
    pytest.mark.mininet,
    pytest.mark.skipif(sandbox.why_not() is not None, reason=f"Mininet cannot run here: {sandbox.why_not()}"),
]

PEOPLE = """
title = "people"
layerings = ["ssb"]
publishers = ["ann", "ben"]
subscribers = ["ann", "ben"]
settle_ms = 600000
[topology]
links = [{ a = "ann", b = "g1" }, { a = "g1", b = "g2" }, { a = "g2", b = "ben" }]
[topology.link]
delay_ms = 2.0
[workload]
items = 40
activity_exponent = 0.0
schedule = { speed = 1000000.0, idle_limit_ms = 100.0 }
[nodes.ann]
peer = "ssb-server"
"""
GATEWAYS = """
gateway = "g1"
[nodes.ben]
gateway = "g2"
"""
RESTART = """
[[events]]
at_ms = 900
restart = "ann"
"""


def delivered(run: Path, layering: str) -> dict[tuple[str, str], list[int]]:
    """What each node got of each feed, in order."""
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    for line in (run / layering / "events.jsonl").read_text(encoding="utf-8").splitlines():
        row: dict[str, Any] = json.loads(line)
        if row["event"] == "delivered":
            found[row["node"], row["feed"]].append(row["seq"])
        assert row["event"] != "error", row
    return found


@pytest.mark.parametrize(
    ("scenario", "layering"),
    [
        pytest.param(PEOPLE, "ssb", marks=MININET, id="a peer of ours"),
        pytest.param(PEOPLE + GATEWAYS, "lli", marks=MININET, id="a gateway"),
        pytest.param(PEOPLE + RESTART, "ssb", marks=[*MININET, pytest.mark.slow], id="it starts anew"),
    ],
)
def test_it_publishes_and_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scenario: str, layering: str
) -> None:
    monkeypatch.setenv("PATH", ssb_server_program.path())
    (tmp_path / "s.toml").write_text(scenario, encoding="utf-8")
    experiment = Experiment.load(str(tmp_path / "s.toml"), layerings=(layering,))
    results = experiment.run(tmp_path / "run", net="mininet", script=until_delivered)
    found = delivered(results.directory, layering)
    assert sorted(node for node, _ in found) == ["ann", "ben"]
    assert all(seqs == list(range(1, 21)) for seqs in found.values())
    assert results.report.exists()


def test_it_is_for_mininet_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", ssb_server_program.path())
    (tmp_path / "s.toml").write_text(PEOPLE, encoding="utf-8")
    wanted = load(str(tmp_path / "s.toml"))
    with pytest.raises(UserError, match=r"nodes\.ann\.peer: ssb-server runs in real time, in Mininet only"):
        run(wanted, workload.load(wanted), EMULATED, tmp_path / "run")
    with pytest.raises(
        UserError, match=r"--dilation 8: ssb-server \(nodes\.ann\.peer\) would not follow the sl"
    ):
        run(wanted, workload.load(wanted), Platform("mininet", "asked for", dilation=8), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_without_it_the_user_learns_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "s.toml").write_text(PEOPLE, encoding="utf-8")
    wanted = load(str(tmp_path / "s.toml"))
    with pytest.raises(UserError, match="npm install -g ssb-server"):
        run(wanted, workload.load(wanted), Platform("mininet", "asked for"), tmp_path / "run")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"nodes.ann.peer": "manyverse"}, "'feednet' or 'ssb-server'"),
        ({"layerings": ["lli"]}, "under lli, a Scuttlebutt peer needs a gateway"),
        ({"parameters.ssb.encrypt": False}, "speaks with those who encrypt only"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    (tmp_path / "s.toml").write_text(PEOPLE, encoding="utf-8")
    with pytest.raises(UserError, match=said):
        load(str(tmp_path / "s.toml"), changes=changes)
