"""The question of a scenario: what is accepted, and one clear line for everything that is not."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from analysis.metrics.catalogue import MATTERS, METRICS
from testbed.cli.main import feednet
from testbed.errors import UserError
from testbed.library import scenarios
from testbed.scenario.reader import STARTING_FILE, load

HEAD = """
title = "A line"
layerings = ["lli"]
[question]
text = "Who is told?"
"""
TAIL = """
[topology]
generator = "line"
length = 2
"""


def write(directory: Path, question: str) -> str:
    path = directory / "mine.toml"
    path.write_text(HEAD + question + TAIL, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("name", [*scenarios(), str(STARTING_FILE)])
def test_every_scenario_asks_a_question(name: str) -> None:
    question = load(name).question
    assert question is not None
    assert question.text.endswith("?")


def test_the_manifest_has_the_question_whole(tmp_path: Path) -> None:
    path = write(tmp_path, 'metrics = ["forked", "latency_p50"]\ndirection = { forked = "higher" }')
    question = load(path).question
    assert question is not None
    assert json.loads(json.dumps(question.written())) == {
        "text": "Who is told?",
        "metrics": ["forked", "latency_p50"],
        "direction": {"forked": "higher"},
        "difference": {"forked": 0, "latency_p50": MATTERS},
    }
    one = write(tmp_path, 'metrics = ["twice"]\ndifference = { twice = 0 }')
    assert (asked := load(one).question) is not None
    assert asked.written()["difference"] == {"twice": 0}


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ("", "question.metrics: is missing: add it"),
        ("metrics = []", "question.metrics: Tuple should have at least 1 item"),
        (
            'metrics = ["latency_50"]',
            "'latency_50' is no metric of the comparison; did you mean latency_p50?",
        ),
        ('metrics = ["twice", "twice"]', "'twice' is named twice"),
        ('metrics = ["twice", "errors", "forked", "cut_off", "moves"]', "at most 4 items"),
        ('metrics = ["forked"]', "direction: 'forked' has none of its own"),
        ('metrics = ["forked"]\ndirection = { forked = "up" }', "must be 'lower' or 'higher' (got up)"),
        ('metrics = ["twice"]\ndirection = { twice = "lower" }', "are better anyway; leave it out"),
        ('metrics = ["twice"]\ndirection = { forked = "lower" }', "direction: 'forked' is not among metrics"),
        ('metrics = ["twice"]\ndifference = 5', "5 must be at least 0 and less than 1"),
        ('metrics = ["twice"]\ndifference = { moves = 0.1 }', "difference: 'moves' is not among metrics"),
        ('metrics = ["twice"]\nmetric = "twice"', "did you mean metrics?"),
    ],
)
def test_a_bad_question_is_one_line(tmp_path: Path, question: str, message: str) -> None:
    with pytest.raises(UserError) as error:
        load(write(tmp_path, question))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_describe_lists_the_metrics_and_shows_the_question() -> None:
    said = CliRunner().invoke(feednet, ["describe", "metrics"]).output
    assert all(f"  {metric.key} " in said for metric in METRICS)
    said = CliRunner().invoke(feednet, ["describe", "beyond_fork"]).output
    assert said.strip() == "beyond_fork  Items accepted after a feed’s fork, items; lower is better"
    said = CliRunner().invoke(feednet, ["describe", "fork"]).output
    assert "the question    How many items of a forked feed are accepted" in " ".join(said.split("\n"))
