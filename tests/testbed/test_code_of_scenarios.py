"""Code that comes with a scenario is executed by a run alone; what is foreign, only if it is trusted."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from feednet import Experiment, UserError
from forwarder.strategies import STRATEGIES
from testbed.cli.main import feednet

FILE = """
open("executed", "w").close()

from forwarder.strategies.best_route import BestRoute

class Mine(BestRoute):
    NAME = "mine"
"""
SCENARIO = """
title = "test"
layerings = ["poll"]
strategy_files = ["{file}"]
topology = {{ generator = "line", length = 1 }}
workload = {{ items = 2 }}
[strategies]
"/" = "mine"
"""
READING = (
    "describe mine.toml",
    "topology mine.toml",
    "run mine.toml --dry-run",
    "run mine.toml --dry-run --sweep loss=0,1",
    "run mine.toml --items 0",
    "run line --dry-run --strategy mine --strategy-file mine.py",
    "list",
)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory with strategies and a scenario that chooses them; the registry is as before afterwards."""
    before = dict(STRATEGIES)
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(FILE)
    Path("mine.toml").write_text(SCENARIO.format(file="mine.py"))
    yield tmp_path
    STRATEGIES.clear()
    STRATEGIES.update(before)


def called(*words: str) -> str:
    """Return how a command ends: "" if it went well."""
    error = CliRunner().invoke(feednet, [*words]).exception
    return "" if error is None else str(error)


def was_executed() -> bool:
    was = Path("executed").exists()
    Path("executed").unlink(missing_ok=True)
    return was


@pytest.mark.parametrize("line", READING)
def test_reading_executes_nothing(line: str) -> None:
    called(*line.split())
    assert not was_executed()


def test_reading_from_python_executes_nothing() -> None:
    experiment = Experiment("mine.toml")
    assert experiment.scenario.strategies == {"/": "mine"}
    assert experiment.duration_s > 0
    assert not was_executed()
    experiment.run("run", net="emulated")
    assert was_executed()


@pytest.mark.parametrize("way", [("--net", "emulated"), ("--sweep", "items=2,3", "--jobs", "1")])
@pytest.mark.parametrize("place", ["../mine.py", "{here}/mine.py", "link.py"])
def test_code_from_elsewhere_is_named_and_waits_for_trust(
    place: str, way: tuple[str, ...], here: Path
) -> None:
    Path("inner").mkdir()
    Path("inner/link.py").symlink_to(here / "mine.py")
    Path("inner/mine.toml").write_text(SCENARIO.format(file=place.format(here=here)))
    said = called("run", "inner/mine.toml", "--no-report", "--out", "out", *way)
    assert said.startswith("inner/mine.toml: it has code from outside its own directory, or from a bundle: ")
    assert said.endswith(f"{Path('inner', place.format(here=here))}; read it, then --trust it")
    assert not was_executed()
    assert not Path("out").exists()
    assert called("run", "inner/mine.toml", "--no-report", "--out", "out", "--trust", *way) == ""
    assert was_executed()


def test_the_author_s_own_is_run_without_a_question() -> None:
    assert called("run", "mine.toml", "--net", "emulated", "--no-report", "--out", "own") == ""
    assert was_executed()
    asked = ("--strategy", "mine", "--strategy-file", "mine.py")  # somebody has just typed it
    assert (
        called("run", "line", "--items", "2", "--net", "emulated", "--no-report", "--out", "typed", *asked)
        == ""
    )
    assert was_executed()


def test_code_from_a_bundle_is_named_and_waits_for_trust() -> None:
    Experiment("line", workload={"items": 2}, layerings=["poll"]).run("run", net="emulated")
    Path("run", "mine.py").write_text(FILE)
    program = "[[programs]]\nnode = 'pub'\nrun = 'sh -c \"echo 1\"'\n"
    Path("run", "mine.toml").write_text(SCENARIO.format(file="mine.py") + program)
    assert called("bundle", "run") == ""
    assert called("open", "run.feednet.zip", "--out", "opened") == ""
    assert not was_executed()
    said = called("run", "opened/mine.toml", "--net", "emulated", "--no-report")
    assert said.endswith('or from a bundle: opened/mine.py, sh -c "echo 1"; read it, then --trust it')
    Path("mine.toml").write_text(SCENARIO.format(file="opened/mine.py"))
    with pytest.raises(UserError, match=r"or from a bundle: opened/mine\.py; read it, then --trust it"):
        Experiment("mine.toml").run("again", net="emulated")
    assert not was_executed()
    Experiment("mine.toml").run("again", net="emulated", is_trusted=True)
    assert was_executed()
    assert json.loads(Path("again/scenario.json").read_text())["strategy_files"] == ["opened/mine.py"]


def test_a_repetition_names_what_it_would_execute() -> None:
    Experiment("mine.toml").run("run", net="emulated")
    assert was_executed()
    said = called("rerun", "run")
    assert said == f"run: it has code of its own: {Path.cwd()}/run/inputs/1-mine.py; read it, then --trust it"
    assert not was_executed()
    assert called("rerun", "run", "--trust") == ""
    assert was_executed()
