"""A run of mine in the emulator, over links that lose one frame in twenty."""

from pathlib import Path

from feednet import Experiment


def test_every_subscriber_gets_every_item_once_and_in_order(tmp_path: Path) -> None:
    """What is lost is repeated in time."""
    experiment = Experiment("line", layerings=["mine"], workload={"items": 20}, settle_ms=20_000)
    results = experiment.run(tmp_path / "run", net="emulated")
    events = results.events("mine")
    delivered = events[events["event"] == "delivered"]
    assert len(experiment.scenario.subscribers) > 0
    for node in experiment.scenario.subscribers:
        assert [*delivered[delivered["node"] == node]["seq"]] == [*range(1, 21)]
