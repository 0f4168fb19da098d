"""Scenarios that name strategies: what is understood, what is refused, and whether every node has them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from feednet import Experiment
from forwarder.strategies import STRATEGIES
from forwarder.strategies.asf import Asf
from forwarder.wire.name import from_uri
from testbed.errors import UserError
from testbed.experiment import code
from testbed.experiment.emulated_run import Emulation
from testbed.scenario import reader as scenario
from testbed.scenario import workload

MINE = """
from forwarder.strategies.strategy import Strategy

class Mine(Strategy):
    NAME = "mine"
    PARAMETERS = {"size": 1}
"""
LINE = """
title = "test"
layerings = ["poll", "notify"]
topology = { generator = "line", length = 3 }
workload = { items = 3 }
"""


@pytest.fixture
def strategies() -> Iterator[dict[str, object]]:
    """The registry, which is as before afterwards."""
    before = dict(STRATEGIES)
    yield dict(STRATEGIES)
    STRATEGIES.clear()
    STRATEGIES.update(before)


def written(directory: Path, text: str) -> str:
    (directory / "mine.py").write_text(MINE)
    path = directory / "mine.toml"
    path.write_text(LINE + text)
    return str(path)


@pytest.mark.usefixtures("strategies")
def test_every_node_has_them(tmp_path: Path) -> None:
    """A file beside the scenario is found from anywhere; a layering's own multicast stays."""
    text = 'strategy_files = ["mine.py"]\n[strategies]\n"/" = "asf/max-timeouts~7"\n"/x" = "mine/size~4"\n'
    wanted = scenario.load(written(tmp_path, text))
    code.load(wanted)
    emulation = Emulation(wanted, "notify", workload.load(wanted))
    for node in emulation.nodes.values():
        chosen = dict(node.host.forwarder.strategies.items())
        assert isinstance(chosen[b""], Asf)
        assert chosen[b""].parameters["max-timeouts"] == 7
        assert chosen[from_uri("/x")].NAME == "mine"
        assert chosen[from_uri("/x")].parameters == {"size": 4}
        assert [strategy.NAME for strategy in chosen.values()] == ["asf", "mine", "multicast"]


@pytest.mark.usefixtures("strategies")
def test_the_command_line_chooses_for_all_names_that_have_none(tmp_path: Path) -> None:
    path = written(tmp_path, '[strategies]\n"/x" = "random"\n')
    wanted = scenario.load(path, strategy="mine", strategy_files=(str(tmp_path / "mine.py"),))
    assert wanted.strategies == {"/x": "random", "/": "mine"}


def test_none_named_none_chosen(tmp_path: Path) -> None:
    wanted = scenario.load(written(tmp_path, ""))
    assert (wanted.strategies, wanted.strategy_files) == ({}, ())


@pytest.mark.usefixtures("strategies")
@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('strategies = { "/" = "fastest" }', "strategies: there is no strategy 'fastest'; there are "),
        ('strategies = { "/" = "asf/size~1" }', "strategies: strategy asf has no parameter 'size'"),
        ('strategies = { "/" = "asf/v=1" }', "'v=1' is neither v=5"),
        ('strategies = { "/x=y=z" = "asf" }', "strategies: 'x=y=z': unknown component type 'x'"),
        ('strategies = { "/" = 5 }', "strategies./: "),
        ('strategies = "asf"', "strategies: must be a table"),
        ('strategy_files = ["none.py"]', "none.py: No such file or directory"),
        ('strategy_files = ["mine.toml"]', "mine.toml: not a Python file"),
        ('strategy_files = ["a.py"]', "a.py: not a file"),
        ('strategy_files = "mine.py"', "strategy_files: "),
        ("strategy_files = [5]", "[[strategy_files]] number 1: must be a text"),
    ],
)
def test_refused_in_one_line(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "a.py").mkdir()
    with pytest.raises(UserError) as error:
        scenario.load(written(tmp_path, text))
    assert complaint in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.usefixtures("strategies")
@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            'strategy_files = ["mine.py"]\nstrategies = { "/" = "fastest" }',
            "there is no strategy 'fastest'; ",
        ),
        ('strategy_files = ["mine.py"]\nstrategies = { "/" = "mine/x~1" }', "mine has no parameter 'x'"),
        ('strategy_files = ["bad.py"]', "bad.py: SystemExit: 3"),
        (
            'strategy_files = ["none.py"]',
            "none.py: no class derived from forwarder.strategies.strategy.Strategy",
        ),
    ],
)
def test_what_only_a_file_s_execution_tells_is_refused_before_a_run_is_there(
    tmp_path: Path, text: str, complaint: str
) -> None:
    (tmp_path / "bad.py").write_text("raise SystemExit(3)")
    (tmp_path / "none.py").write_text("")
    with pytest.raises(UserError) as error:
        Experiment(written(tmp_path, text)).run(tmp_path / "run", net="emulated")
    assert str(error.value).startswith("strategies: ")
    assert complaint in str(error.value)
    assert "\n" not in str(error.value)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("run")]
