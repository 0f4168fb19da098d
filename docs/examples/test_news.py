"""A property of a network as a test: `pytest docs/examples`."""

from feednet import Experiment, everything_delivered


def test_everybody_has_the_news_within_a_second_of_the_last_item(tmp_path):
    """Nobody waits for longer, over a line of links that lose frames."""
    experiment = Experiment("line", layerings=["lli"], workload={"items": 30}, publisher="pub")

    def script(run):
        run.wait(everything_delivered, within_s=1)

    results = experiment.run(tmp_path / "run", net="emulated", script=script)
    assert results.comparison().loc["delivered_share", "lli"] == 100
