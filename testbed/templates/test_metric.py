"""mine of runs in the emulator, over short links and over long ones."""

from pathlib import Path

import pytest

from feednet import Experiment
from feednet.topologies import star


@pytest.mark.parametrize(("delay_ms", "share"), [(5.0, 100), (80.0, 0)])
def test_it_depends_on_the_delay(delay_ms: float, share: float, tmp_path: Path) -> None:
    """Two links lead to each subscriber."""
    experiment = Experiment(
        topology=star(2, delay_ms=delay_ms, bw_mbit=10.0),
        layerings=["lli"],
        workload={"items": 5},
        settle_ms=2000,
    )
    results = experiment.run(tmp_path / "run", net="emulated")
    assert results.comparison().loc["mine", "lli"] == share
