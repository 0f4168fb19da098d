"""mine in the report of a run in the emulator."""

from pathlib import Path

from analysis.tables.collected import Tables
from feednet import Experiment
from feednet.topologies import star
from testbed.templates.figure import figure


def test_the_report_has_it_and_it_is_right(tmp_path: Path) -> None:
    """Two links of 5 ms lead to each subscriber, so nobody waits for less than 10 ms."""
    experiment = Experiment(
        topology=star(2, delay_ms=5.0, bw_mbit=10.0),
        layerings=["lli"],
        workload={"items": 5},
        settle_ms=2000,
    )
    results = experiment.run(tmp_path / "run", net="emulated")
    made = figure(Tables({"latency": results.arrow("latency")}), results.manifest)
    assert made is not None
    (bars,) = made.spec["data"]
    assert bars["y"] == ["s1", "s2"]
    assert all(10 < wait < 50 for wait in bars["x"])
    assert made.title in results.report.read_text(encoding="utf-8")
