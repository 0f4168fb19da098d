"""docs/strategies.md: its code runs, and its figures are what the commands print."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from forwarder.strategies import STRATEGIES
from testbed.experiment import run as running
from testbed.experiment.platform import EMULATED
from testbed.scenario import reader as scenario
from testbed.scenario import workload

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "strategies.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def run(where: Path, *command: str) -> str:
    done = subprocess.run(
        [sys.executable, *command],
        cwd=where,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A directory with the page's files: blocks whose first line is a comment that names one."""
    for _, text in BLOCKS:
        if named := re.match(r"# (\w+\.\w+)\n", text):
            (tmp_path / named[1]).write_text(text, encoding="utf-8")
    assert {path.name for path in tmp_path.iterdir()} == {
        "equal_cost.py",
        "split.toml",
        "waited.py",
    }
    return tmp_path


@pytest.mark.slow
def test_its_figures(files: Path) -> None:
    for kind, text in BLOCKS:
        for line in text.splitlines() if not kind else ():
            if "split.toml" in line:
                _, *arguments = shlex.split(line)
                run(files, "-m", "testbed.cli", *arguments)
    (command,) = re.findall(r"`python (waited\.py [^`]*)`", PAGE)
    (figures,) = (text for kind, text in BLOCKS if kind == "text")
    assert run(files, *command.split()) == figures


def test_what_it_says_of_failover(tmp_path: Path) -> None:
    poll, long_lived = r"`poll` delivers (\d+) items to each\nsubscriber", r"`long-lived` (\d+), "
    said = re.search(f"{poll} and {long_lived}with `asf` both deliver all (\\d+)", PAGE)
    assert said is not None
    expected = {"best-route": said.group(1, 2), "asf": said.group(3, 3)}
    for strategy, items in expected.items():
        wanted = scenario.load("failover", layerings=("poll", "long-lived"), strategy=strategy)
        running.run(wanted, workload.load(wanted), EMULATED, tmp_path / strategy)
        for layering, number in zip(wanted.layerings, items, strict=True):
            rows = (tmp_path / strategy / layering / "events.jsonl").read_text().splitlines()
            delivered = Counter(row["node"] for row in map(json.loads, rows) if row["event"] == "delivered")
            assert delivered == {"s1": int(number), "s2": int(number)}


def test_its_strategy_is_what_feednet_new_writes(files: Path) -> None:
    """Whose test runs in tests/testbed/test_new.py."""
    here = files / "new"  # in which no module has that name yet
    here.mkdir()
    run(here, "-m", "testbed.cli", "new", "strategy", "equal-cost")
    written = (here / "equal-cost" / "equal_cost.py").read_text(encoding="utf-8")
    assert (files / "equal_cost.py").read_text(encoding="utf-8") == f"# equal_cost.py\n{written}"


def test_its_strategy_is_short() -> None:
    (text,) = (text for _, text in BLOCKS if text.startswith("# equal_cost.py"))
    assert len([line for line in text.splitlines() if line.strip()]) <= 32


def test_its_table_has_them_all() -> None:
    rows = dict(re.findall(r"^\| `([\w-]+)` \| (.*) \|$", PAGE, re.MULTILINE))
    shipped = {name: found for name, found in STRATEGIES.items() if found.__module__.startswith("forwarder.")}
    assert rows.keys() == shipped.keys()
    common: dict[str, float] = {}
    for name, row in rows.items():
        version, _, parameters = (*row.split(" | "), "")[:3]
        assert int(version) == shipped[name].VERSION
        named = {key: float(value) for key, value in re.findall(r"`([\w-]+)` ([\d.]+)", parameters)}
        common = common or named
        assert (common if "the same" in parameters else {}) | named == shipped[name].PARAMETERS
