"""State that is sampled: nodes at moments of their own, against an obvious model; and files that lack it."""

import json
from types import SimpleNamespace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.errors import AnalysisError
from analysis.metrics.aggregates import held_totals, kind_totals
from analysis.metrics.run.state import SAMPLES, held_levels, read_samples
from analysis.run.context import Span
from testbed.layerings.nodes.node import StateSize, sample

SPAN = Span(0, 100)
OVER = Span(20, 80)


def case(path, *rows):
    path.write_text("".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows))
    return {"x": SimpleNamespace(layering="x", run=SimpleNamespace(counters=lambda _: path))}


def told(time, node, **kinds):
    """What a node of a run writes."""
    state = {kind: StateSize(*amount) for kind, amount in kinds.items()}
    made = SimpleNamespace(name=node, held=lambda: state, counters=lambda: {"more": 3})
    return sample(made, time)


def at(samples, node, time, place):
    """What a node has said last."""
    said = [row for row in samples if row[1] == node and row[0] <= time]
    return sum(amount[place] for amount in max(said)[2].values()) if said else 0


@given(
    st.lists(
        st.tuples(
            st.integers(0, 99),
            st.sampled_from("ab"),
            st.fixed_dictionaries({kind: st.tuples(st.integers(0, 5), st.integers(0, 500)) for kind in "kl"}),
        ),
        min_size=1,
        unique_by=lambda row: row[:2],
    )
)
def test_against_a_model_that_looks_at_every_moment(tmp_path_factory, samples):
    path = tmp_path_factory.mktemp("samples") / "counters.jsonl"
    cases = case(path, *(told(time, node, **kinds) for time, node, kinds in samples))
    found = held_levels(read_samples(cases), {"x": SPAN}, {"x": OVER}, 10)
    nodes = sorted({node for _, node, _ in samples})
    summary = {row["node"]: row for row in found["summary"]}
    is_sampled = any(20 <= time < 80 for time, _, _ in samples)
    assert [*summary] == [*nodes, "*"]
    for place, what in enumerate(("entries", "bytes")):
        every = {node: [at(samples, node, time, place) for time in range(100)] for node in nodes}
        every["*"] = [sum(values) for values in zip(*every.values(), strict=True)]
        for node, values in every.items():
            mean = pytest.approx(sum(values[20:80]) / 60) if is_sampled else None
            assert summary[node][f"mean_{what}"] == mean
            assert summary[node][f"peak_{what}"] == max(values)
        if is_sampled:
            means = sum(summary[node][f"mean_{what}"] for node in nodes) / len(nodes)
            assert sum(row[f"mean_{what}"] for row in found["kinds"]) == pytest.approx(means)
        else:
            assert {row[f"mean_{what}"] for row in found["kinds"]} == {None}


def test_a_mean_is_unknown_where_no_sample_falls_into_its_interval(tmp_path):
    early, late = told(0, "a", k=(0, 0)), told(90, "a", k=(2, 40))
    for rows, mean in (((early, late), None), ((early, told(50, "a", k=(1, 10)), late), 5)):
        found = held_levels(read_samples(case(tmp_path / "c", *rows)), {"x": SPAN}, {"x": OVER}, 10)
        totals = held_totals("state", pa.Table.from_pylist(found["summary"]))["x"]
        assert totals["state_bytes_mean"] == totals["state_bytes_network"] == mean
        assert totals["state_bytes_peak"] == 40
        assert bool(kind_totals(pa.Table.from_pylist(found["kinds"]))) == (mean is not None)


def test_kinds_are_read_one_by_one(tmp_path):
    cases = case(
        tmp_path / "c", told(5, "b", streams=(1, 40)), told(3, "a", streams=(2, 80), requests=(1, 40))
    )
    assert [tuple(row.values()) for row in read_samples(cases).to_pylist()] == [
        ("x", "a", 3, "requests", 1, 40),
        ("x", "a", 3, "streams", 2, 80),
        ("x", "b", 5, "streams", 1, 40),
    ]


@pytest.mark.parametrize("rows", [(), ({"time": 1, "node": "a"},), ({"time": 1, "node": "a", "state": {}},)])
def test_where_nothing_is_said_of_state_nothing_is_known(tmp_path, rows):
    samples = read_samples(case(tmp_path / "c", *rows))
    assert samples.schema == SAMPLES
    assert len(samples) == 0
    assert not any(held_levels(samples, {"x": SPAN}, {"x": OVER}, 10).values())


@pytest.mark.parametrize(
    "row",
    [
        "{nonsense\n",
        {"time": 1, "node": "a", "state": 3},
        {"time": 1, "node": "a", "state": {"pit": 3}},
        {"time": 1, "node": "a", "state": {"pit": {"entries": 1}}},
        {"time": 1, "node": "a", "state": {"pit": {"entries": "many", "bytes": 1}}},
    ],
)
def test_what_is_no_state_gives_one_line(tmp_path, row):
    path = tmp_path / "counters.jsonl"
    with pytest.raises(AnalysisError) as error:
        read_samples(case(path, row))
    assert str(error.value).startswith(f"{path}: ")
    assert "\n" not in str(error.value)
