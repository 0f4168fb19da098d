"""All code of the documents runs: programs in Python, scenarios and parts of them, configurations, commands.

A block of code is known by its first two lines that are no comments. Each is run here, or by the test that is
named here.
"""

import asyncio
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from test_documents import DOCUMENTS, FROM_EMPTY, ROOT
from test_documents import blocks as lines_of

from feednet import Experiment
from forwarder.daemon.config import load as load_config
from forwarder.daemon.daemon import Daemon
from forwarder.daemon.plan import prepare
from testbed.cli.main import feednet
from testbed.layerings.registry import LAYERINGS
from testbed.library import scenarios
from testbed.templates.layering import layering

Block = tuple[str, str]
"""A document's name, and the first lines of a block in it."""

PLANNED = dict.fromkeys(
    line
    for path in DOCUMENTS
    for line in lines_of(path)
    if path not in FROM_EMPTY and re.match(r"feednet (run|describe|topology) ", line)
)


def blocks() -> dict[Block, str]:
    """Return the blocks of Python and TOML."""
    found: dict[Block, str] = {}
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8")
        for language, block in re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            lines = [re.sub(r" +# .*", "", line) for line in block.splitlines()]
            first = " | ".join([line for line in lines if line and not line.startswith("#")][:2])
            if language in ("python", "toml"):
                assert (path.name, first) not in found, first
                found[path.name, first] = block
    return found


BLOCKS = blocks()

PROGRAM = ("experiments.md", "from feednet import Experiment, delivered, everything_delivered")
FIRST = ("README.md", "from feednet import Experiment")
DISSECTORS = ("captures.md", "from scapy.all import *")
ENDING = ("ssb-over-ndn.md", "from feednet import Experiment")
CONFIGURATION = ("strategies.md", '[[strategies]] | prefix = "/unibas"')
METRICS = ("operating.md", "[metrics]")

ELSEWHERE = {
    ("applications.md", "import asyncio"): "tests/feednet/test_application_page.py",
    ("captures.md", "from feednet.streams"): "tests/analysis/test_captures_page.py",
    ("strategies.md", '"""equal-cost'): "tests/strategies/test_tutorial.py",
    ("strategies.md", "import json"): "tests/strategies/test_tutorial.py",
    ("strategies.md", 'title = "Two ways of 1 Mbit/s'): "tests/strategies/test_tutorial.py",
    ("scenarios.md", 'title = "A gateway'): "tests/testbed/test_scenario.py",
    ("experiments.md", 'title = "Does controlled push'): "tests/testbed/test_studies.py",
    ("management.md", "[[authorize]]"): "tests/management/test_authorisation.py",
}
"""Blocks that other tests run, by how they begin."""

FEW = {"layerings": ["poll"], "workload": {"items": 3}, "settle_ms": 100}
PEOPLE = {"links": [{"a": "hub", "b": name} for name in ("ann", "ben", "cleo")]}
ISLANDS = {
    "links": [{"a": "r1", "b": name} for name in ("pub", "s1", "s2")],
    "media": [{"name": "north", "members": ["s1", "courier"]}],
}
PARTS: dict[Block, tuple[str, Mapping[str, Any]]] = {
    ("scenarios.md", "[question]"): ("fork", FEW | {"layerings": ["lli"], "workload": {"items": 100}}),
    ("scenarios.md", "[topology.radio]"): (
        "lora-village",
        {"layerings": ["tiny"], "workload": {"items": 19}, "warmup_ms": 0, "settle_ms": 0},
    ),
    ("scenarios.md", "[[events]]"): (
        "fanout",
        {"topology": ISLANDS, "subscribers": ["s1", "s2"], "layerings": ["append-poll"]}
        | {"workload": {"items": 3}},
    ),
    ("scenarios.md", "[mobility]"): ("mobile", {"layerings": ["poll"], "workload": {"items": 9}}),
    ("scenarios.md", "publishers ="): (
        "line",
        {"topology": PEOPLE, "layerings": ["poll"]}
        | {"workload": {"schedule": {"speed": 1e9, "idle_limit_ms": 20.0}}},
    ),
    ("scenarios.md", "[workload]"): ("fetch", {"layerings": ["ndn"]}),
    ("scenarios.md", "[workload.pictures]"): ("photos", {"layerings": ["pull"], "workload": {"items": 12}}),
    ("scenarios.md", "[workload.application]"): ("chat", {"layerings": ["poll"]}),
    ("strategies.md", "[strategies]"): ("fanout", FEW),
    ("topologies.md", '[topology] | generator = "random"'): ("line", FEW),
    ("topologies.md", '[topology] | library = "abilene"'): ("line", FEW),
    ("topologies.md", '[topology] | library = "geant"'): ("line", FEW),
    ("topologies.md", "[routing]"): ("mobile", {"layerings": ["poll"], "workload": {"items": 9}}),
    ("experiments.md", "[[programs]]"): ("fanout", {}),
    ("experiments.md", "[cost]"): ("line", FEW),
    ("experiments.md", "[nodes.r2]"): (
        "failover",
        {"topology": PEOPLE | {"links": [{"a": "pub", "b": "r2"}, {"a": "r2", "b": "s1"}]}, "events": []},
    ),
}
"""Parts of scenarios, by how they begin: the scenario that they change, and other keys that they need."""

IN_MININET = "experiments.md"
"""Has the parts that run in Mininet alone: tests/testbed/test_enter.py and test_mixed_network.py run such."""


def block(begins: Block) -> str:
    """Return the one block of a document that begins so."""
    found = [
        text for (name, first), text in BLOCKS.items() if name == begins[0] and first.startswith(begins[1])
    ]
    assert len(found) == 1, (begins, len(found))
    return found[0]


def test_every_block_is_run() -> None:
    claimed = [*ELSEWHERE, *PARTS, PROGRAM, FIRST, DISSECTORS, ENDING, CONFIGURATION, METRICS]
    texts = [block(each) for each in claimed]
    assert sorted(texts) == sorted(BLOCKS.values())
    for place in ELSEWHERE.values():
        assert (ROOT / place).is_file(), place


@pytest.mark.parametrize("part", PARTS, ids=" ".join)
def test_a_part_of_a_scenario_runs(part: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copyfile(scenarios()["mobile"].with_suffix(".csv"), "walk.csv")
    name, more = PARTS[part]
    keys = tomllib.loads(block(part))
    whole = merged(more, keys)
    there = tomllib.loads(scenarios()[name].read_text(encoding="utf-8"))["topology"]
    network = whole.pop("topology", there)
    if not {"generator", "library", "links"} & network.keys():
        network = merged(there, network)
    experiment = Experiment(name, topology=network, **whole)
    if part[0] == IN_MININET:
        assert experiment.duration_s > 0
    else:
        experiment.run("run", net="emulated")


def merged(more: Mapping[str, Any], keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return keys that are needed with those of a part, which count where both have one."""
    found = {**more}
    for key, value in keys.items():
        both = isinstance(value, dict) and isinstance(found.get(key), dict)
        found[key] = merged(found[key], value) if both else value
    return found


@pytest.mark.parametrize(
    ("program", "items"), [(PROGRAM, 3 * 60), (FIRST, 8 * 40)], ids=["experiments.md", "README.md"]
)
def test_an_experiment_runs(program: Block, items: int, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", block(program)],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(rf"(?m)^delivered .* {items}\.0+ +{items}\.0+$", done.stdout)


def test_a_feed_that_has_ended_is_asked_for_no_more(capsys: pytest.CaptureFixture[str]) -> None:
    exec(block(ENDING), {})
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    frames = {(told, name): int(count) for told, name, count, _ in rows}
    for name in ("pull", "poll", "long-lived", "persistent", "lli"):
        assert frames["True", name] == 0 < frames["False", name]
    assert 0 < frames["True", "tiny"] < frames["False", "tiny"]


def test_packets_are_made_and_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Experiment("line", layerings=["lli"], workload={"items": 3}).run("runs/mine", net="emulated")
    found: dict[str, Any] = {}
    exec(block(DISSECTORS), found)
    assert found["llis"]


def test_the_configuration_of_a_forwarder_is_taken(tmp_path: Path) -> None:
    (tmp_path / "forward.toml").write_text(block(CONFIGURATION))
    loop = asyncio.new_event_loop()
    daemon = Daemon(prepare(load_config(tmp_path / "forward.toml")), loop)
    assert {each.NAME for each in dict(daemon.forwarder.strategies.items()).values()} == {"asf", "best-route"}
    daemon.close()
    loop.close()


def test_the_metrics_of_a_forwarder_are_configured(tmp_path: Path) -> None:
    (tmp_path / "forward.toml").write_text(block(METRICS))
    assert load_config(tmp_path / "forward.toml").metrics.listen


@pytest.mark.parametrize("line", PLANNED)
def test_a_command_finds_all_that_it_names(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs are planned, in the emulator: a machine may have no Mininet. Those of FROM_EMPTY are run
    by tests/test_commands_of_documents.py."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(LAYERINGS, "quick", layering())  # as `feednet new layering quick` writes it
    (tmp_path / "split.toml").write_text(block(("strategies.md", 'title = "Two ways')))
    (tmp_path / "equal_cost.py").write_text(block(("strategies.md", '"""equal-cost')))
    words = shlex.split(line)[1:]
    if words[0] == "run":
        line = re.sub(r" --hold\b| --(net|dilation) \w+", "", line)
        words = [*shlex.split(line)[1:], "--net", "emulated", "--dry-run"]
    done = CliRunner().invoke(feednet, words)
    assert done.exit_code == 0, (done.output, done.exception)
