"""The short runs' metrics, against a model and against what they were.

The model is pandas_model, which knows nothing of Spark nor of analysis/; metrics are the same to 1e-9. The
comparison of every shipped scenario is also kept as text, so that a change of a protocol shows as a diff:

    PYTHONPATH=tests:. python tests/analysis/test_short_runs.py

writes the files anew, for a reviewer to read. The scenarios are cut short, and measured in one go, so the
figures are not those of the documents: most have fewer items than a credit of 64, whose LLIs then count
for less than a window.
"""

import math
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas_model
import pytest
from short_runs import HARD, Measured, comparison_text, measured

from analysis.metrics.catalogue import METRICS
from analysis.run.manifest import Run
from testbed.layerings.registry import LAYERINGS
from testbed.library import scenarios
from testbed.scenario.reader import load

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.compiled]

RUNS = [
    name
    for name in (*scenarios(), *HARD)
    if (name not in scenarios() or {LAYERINGS[each].protocol for each in load(name).layerings} == {"ndn"})
    and name not in ("testbed-pubsub", "deployment")
]
"""Those over NDN alone: the model reads no TCP, whose metrics test_over_tcp.py has. Of forty sites it takes
ten minutes, and would say nothing that it does not say of the others; nor has it a rule for forwarders that
do not know what the layering is about."""


def differences(
    measures: Mapping[str, Any], model: Mapping[str, Any], names: list[str]
) -> dict[str, tuple[Any, Any]]:
    """Return the metrics that differ: what the analysis says, and the model."""
    return {
        name: (ours, theirs)
        for name in names
        for ours, theirs in [(measures[name], model[name])]
        if (ours is None) != (theirs is None)
        or (ours is not None and not math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-12))
    }


def assert_agrees(run: Run, rows: list[dict[str, Any]], step_ns: int) -> None:
    model = pandas_model.measures(run.directory, step_ns)
    unknown = [metric.key for metric in METRICS if metric.key not in next(iter(model.values()))]
    assert not unknown, f"no model of {', '.join(unknown)}: write it into {Path(pandas_model.__file__).name}"
    assert set(model) == {row["layering"] for row in rows}
    names = [metric.key for metric in METRICS]
    found = {row["layering"]: differences(row, model[row["layering"]], names) for row in rows}
    assert not any(found.values()), {layering: each for layering, each in found.items() if each}


def step_of(runs: Mapping[str, Run]) -> int:
    """Return how often analysis.pipelines.run looks at queues where it measures these runs together."""
    turns = [turn for run in runs.values() for turn in run.manifest.runs.values()]
    return max((turn.end_ns - turn.start_ns) // 400 for turn in turns)


@pytest.mark.parametrize("name", RUNS)
def test_a_run(short_runs, name):
    assert_agrees(short_runs.runs[name], short_runs.of(name), step_of(short_runs.runs))


def test_a_run_measures_the_same_at_any_time(short_runs):
    [line], [today] = short_runs.of("steady"), short_runs.of("today")
    told = {
        "twice",
        "out_of_order",
        "cpu_per_item",
        "capture_drops",
        "latency_p50",
        "latency_p95",
        "latency_p99",
    }
    assert set(differences(line, today, [metric.key for metric in METRICS])) - told == set()
    assert (today["twice"], today["out_of_order"], today["capture_drops"]) == (6, 1, 7)


def test_every_metric_is_put_to_the_test(short_runs):
    """What is nothing everywhere would agree with anything."""
    rows = [row for name in RUNS for row in short_runs.of(name)]
    nothing = [metric.key for metric in METRICS if not any(row[metric.key] for row in rows)]
    # The snapshots of social and deletion have these; test_tables.py has those of holders, too.
    of_people = ["statements", "asked_holders", "asked_holders_end", "split_share"]
    of_peers = [
        f"state_bytes_{kind}"
        for kind in (
            "connections",
            "exchanges",
            "statements",
            "trees",
            "repairs",
            "feeds",
            "packets",
            "contents",
            "other",
        )
    ]  # those of village, lora-village and deletion, and test_over_tcp.py
    of_tiny = ["asking_per_item", "want_bytes", "airtime_per_item"]  # and that of lora-village these
    of_meetings = ["witnesses", "witnessed_most"]  # and that of newcomers these
    # test_over_tcp.py has the last one.
    of_views = ["view_unequal_end", "view_orders"]  # test_views.py has these; the second is a bug
    between_peers = ["picture_from_others"]  # and that of photos this
    assert nothing == [
        "latency_fairness",
        *of_views,
        *between_peers,
        *of_peers,
        *of_people,
        *of_meetings,
        *of_tiny,
        "connections",
    ]


def test_a_difference_is_found(short_runs):
    [row] = short_runs.of("steady")
    names = [metric.key for metric in METRICS if row[metric.key]]
    off = {name: row[name] * (1 + 1e-8) for name in names}
    assert list(differences(row, off, names)) == names
    assert list(differences(row, dict.fromkeys(names), names)) == names


# Snapshots

SNAPSHOTS = Path(__file__).parent / "snapshots"


def text(short: Measured, name: str) -> str:
    manifest = short.runs[name].manifest
    what = f"{manifest.workload.items} items, {len(manifest.topology.nodes)} nodes, seed {manifest.seed}"
    return f"{manifest.title}\n{what}\n\n{comparison_text(short.of(name), manifest.layerings)}"


@pytest.mark.parametrize("name", scenarios())
def test_the_comparison_is_as_it_was(short_runs, name):
    path = SNAPSHOTS / f"{name}.txt"
    assert path.is_file(), f"no snapshot of {name}: run python {Path(__file__).name}"
    assert text(short_runs, name) == path.read_text(encoding="utf-8")


def test_every_snapshot_is_of_a_scenario():
    assert {path.stem for path in SNAPSHOTS.glob("*.txt")} <= set(scenarios())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        fresh = measured(Path(scratch))
        for scenario_name in scenarios():
            (SNAPSHOTS / f"{scenario_name}.txt").write_text(text(fresh, scenario_name), encoding="utf-8")
            print(SNAPSHOTS / f"{scenario_name}.txt", file=sys.stderr)
