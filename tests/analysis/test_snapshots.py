"""The whole comparison of every emulated scenario, kept as text: a change of the protocol shows as a diff.

    PYTHONPATH=tests:. python tests/analysis/test_snapshots.py

writes the files anew, for a reviewer to read. The scenarios are cut short, and measured in one go, so the
figures are not those of the documents: most have fewer items than a credit of 64, whose LLIs then count
for less than a window.
"""

import sys
import tempfile
from pathlib import Path

import pytest
from short_runs import Measured, measured

from analysis.export.text import comparison_text
from testbed.scenario.model import available

SNAPSHOTS = Path(__file__).parent / "snapshots"


def text(short: Measured, name: str) -> str:
    manifest = short.runs[name].manifest
    what = f"{manifest.workload.items} items, {len(manifest.topology.nodes)} nodes, seed {manifest.seed}"
    return f"{manifest.title}\n{what}\n\n{comparison_text(short.of(name), manifest.layerings)}"


@pytest.mark.spark
@pytest.mark.parametrize("name", available())
def test_the_comparison_is_as_it_was(short_runs, name):
    path = SNAPSHOTS / f"{name}.txt"
    assert path.is_file(), f"no snapshot of {name}: run python {Path(__file__).name}"
    assert text(short_runs, name) == path.read_text(encoding="utf-8")


def test_every_snapshot_is_of_a_scenario():
    assert {path.stem for path in SNAPSHOTS.glob("*.txt")} <= set(available())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        fresh = measured(Path(scratch))
        for scenario_name in available():
            (SNAPSHOTS / f"{scenario_name}.txt").write_text(text(fresh, scenario_name), encoding="utf-8")
            print(SNAPSHOTS / f"{scenario_name}.txt", file=sys.stderr)
