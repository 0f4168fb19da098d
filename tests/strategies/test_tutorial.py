"""docs/strategies.md: its code runs, and its figures are what the commands print."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from forwarder.strategies import STRATEGIES

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
        "test_equal_cost.py",
        "waited.py",
    }
    return tmp_path


def test_its_figures(files: Path) -> None:
    for kind, text in BLOCKS:
        for line in text.splitlines() if not kind else ():
            if "split.toml" in line:
                _, *arguments = shlex.split(line)
                run(files, "-m", "testbed.cli", *arguments)
    (command,) = re.findall(r"`python (waited\.py [^`]*)`", PAGE)
    (figures,) = (text for kind, text in BLOCKS if kind == "text")
    assert run(files, *command.split()) == figures


def test_its_test(files: Path) -> None:
    assert "3 passed" in run(files, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_equal_cost.py")


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
