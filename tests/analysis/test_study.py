"""Several runs beside each other: the study's numbers, its text and its page."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from handmade import FEED_URI, MS, TIMES, manifest
from test_report import figures

from analysis.compare import METRICS
from analysis.errors import AnalysisError
from analysis.manifest import Run
from analysis.report.numbers import NARROW_SPACE
from analysis.report.study import render_study, told
from analysis.study import (
    EXTRA,
    LOSS,
    Estimate,
    Record,
    compare_runs,
    estimate,
    flattened,
    loss_of,
    read_sweep,
    records_of,
    study,
    write_sweep,
)
from analysis.text import comparison_text, number, study_text


@pytest.fixture
def analyzed(tmp_path):
    """Make a run of some loss that has been analysed, with these frames per item under poll and lli."""

    def make(name: str, loss: float, frames: tuple[float | None, float | None], **changes: object) -> Run:
        turn = {**TIMES, "sample_interval_ns": MS}
        made = manifest({"poll": turn, "lli": turn}) | changes
        made["topology"]["links"][1]["loss_percent"] = loss
        directory: Path = tmp_path / name
        for layering in ("poll", "lli"):
            (directory / layering).mkdir(parents=True)
            for file in ("capture.pcapng", "events.jsonl", "counters.jsonl"):
                (directory / layering / file).touch()
        (directory / "manifest.json").write_text(json.dumps(made))
        run = Run(directory)
        run.tables.mkdir()
        rows = [
            {"metric": "frames_per_item", "layering": layering, "value": value}
            for layering, value in zip(("poll", "lli"), frames, strict=True)
        ]
        pq.write_table(pa.Table.from_pylist(rows), run.comparison)
        return run

    return make


def records(values, key="parameters.poll.window", layering="poll", metric="latency_p50"):
    """Return records from {point: values by seed}."""
    return [
        Record({key: point, "workload.items": 5}, seed, layering, {metric: value})
        for point, several in values.items()
        for seed, value in enumerate(several)
    ]


def test_an_estimate_is_a_mean_and_students_interval():
    # 1, 2, 3, 4: mean 2.5, deviation 1.2910, t(0.975, 3) = 3.1824: 2.5 +- 2.0543.
    got = estimate([1.0, 2.0, 3.0, 4.0])
    assert (got.mean, got.n) == (2.5, 4)
    assert got.half == pytest.approx(3.1824 * 1.2910 / 2, rel=1e-4)
    assert got.low == pytest.approx(2.5 - 2.0543, rel=1e-4)
    assert estimate([7.0]) == Estimate(7.0, None, None, 1)
    assert got.opposite == Estimate(-2.5, -got.high, -got.low, 4)
    assert got.opposite.half == pytest.approx(got.half)
    assert told(got) == "2.50 ± 2.1"
    assert (told(estimate([7.0])), told(None)) == ("7", "–")


def test_a_study_counts_what_repair_takes_from_the_least_loss_on(analyzed):
    runs = [
        analyzed("b", 20, (9.0, 5.0)),
        analyzed("a", 0, (4.0, 3.0)),
        analyzed("c", 20, (11.0, None), seed=2),
    ]
    assert [loss_of(run) for run in runs] == [20, 0, 20]
    got = study("handmade", "By hand", [record for run in runs for record in records_of(run)])
    assert (got.key, got.points, got.layerings) == (LOSS, [0, 20], ["poll", "lli"])
    assert (got.runs, got.seeds) == (3, 2)
    assert got.values["frames_per_item", "poll", 20].mean == 10  # of two runs
    assert got.values["frames_per_item", "poll", 20].n == 2
    assert got.values[EXTRA, "poll", 20].mean == 6
    assert got.values[EXTRA, "lli", 20].mean == 2
    assert got.values[EXTRA, "lli", 0].mean == 0


def test_what_differs_is_found_whatever_it_is():
    by_window = study("s", "S", records({4: (1.0, 2.0), 8: (3.0,)}))
    assert (by_window.what, by_window.points, by_window.is_numeric) == ("poll.window", [4, 8], True)
    assert by_window.values["latency_p50", "poll", 4].n == 2
    by_seed = study("s", "S", records({4: (1.0, 2.0, 3.0)}))
    assert (by_seed.key, by_seed.points) == ("", [""])
    words = study("s", "S", records({"line": (1.0,), None: (2.0,)}, key="topology.generator"))
    assert (words.points, words.is_numeric) == (["line", "none"], False)
    both = study(
        "s",
        "S",
        [
            Record({"a.depth": depth, "b.fanout": fanout}, 1, "poll", {"latency_p50": 1.0})
            for depth, fanout in ((1, 2), (1, 3), (2, 3))
        ],
    )
    assert both.points == ["depth 1, fanout 2", "depth 1, fanout 3", "depth 2, fanout 3"]
    assert flattened({"a": {"b": {"c": 1}, "d": [2]}, "e": None}) == {"a.b.c": 1, "a.d": [2], "e": None}


def test_layerings_are_compared_seed_by_seed():
    # The seeds differ far more than the layerings: two intervals overlap, and yet lli is always 1 sooner.
    poll = records({4: (10.0, 20.0, 31.0)})
    lli = records({4: (9.0, 19.0, 29.9)}, layering="lli")
    got = study("s", "S", poll + lli)
    a, b = got.values["latency_p50", "lli", ""], got.values["latency_p50", "poll", ""]
    assert a.high > b.low
    assert got.difference("latency_p50", "lli", "poll", "").high < 0
    page = render_study(got)
    assert "lli is first with 19.3 ± 26" in page
    # 1, 1 and 1.1: mean 1.0333, deviation 0.0577, t(0.975, 2) = 4.3027: 1.0333 +- 0.1434.
    assert f"seed by seed they differ by 1.03 ± 0.14{NARROW_SPACE}ms, which is more than chance" in page
    assert "which may be chance" in render_study(
        study("s", "S", poll + records({4: (9.0, 21.0, 29.9)}, layering="lli"))
    )


def test_runs_of_different_scenarios_and_a_run_alone_are_refused(analyzed, tmp_path):
    first = analyzed("a", 0, (4.0, 3.0))
    other = analyzed("b", 20, (9.0, 5.0), scenario="line")
    with pytest.raises(
        AnalysisError, match=r"/b: a run of line, not of handmade: compare runs of one scenario"
    ):
        compare_runs([first.directory, other.directory], tmp_path / "study.html")
    with pytest.raises(AnalysisError, match="there is nothing to compare it with: give several runs"):
        compare_runs([first.directory], tmp_path / "study.html")


def test_a_page_and_a_text_are_made_of_runs_that_have_been_analysed(analyzed, tmp_path):
    runs = [analyzed("a", 0, (4.0, 3.0)), analyzed("b", 5, (4.5, 3.25))]
    said = []
    got = compare_runs([run.directory for run in runs], tmp_path / "study.html", progress=said.append)
    assert said == []  # nothing was left to analyse
    page = (tmp_path / "study.html").read_text()
    assert page == render_study(got)
    plot = figures(page)[f"study-{EXTRA}"]
    assert [(trace["x"], trace["y"]) for trace in plot["data"]] == [([0, 5], [0, 0.5]), ([0, 5], [0, 0.25])]
    assert "no confidence intervals" in page
    assert study_text(got).endswith(
        "Packets spent on repair, per delivered item, frames  0 %   5 %\n"
        "  poll                                                 0   0.5\n"
        "  lli                                                  0  0.25\n"
    )


def test_repeated_runs_are_drawn_with_their_intervals():
    got = study("s", "S", records({0: (10.0, 12.0), 5: (20.0, 30.0)}, key=LOSS))
    page = render_study(got)
    band, mean = figures(page)["study-latency_p50"]["data"]
    assert (mean["x"], mean["y"]) == ([0, 5], [11, 25])
    assert [row[2] for row in mean["customdata"]] == [2, 2]
    assert (band["fill"], band["x"]) == ("toself", [0, 5, 5, 0])
    assert band["y"][1] == pytest.approx(mean["customdata"][1][1])
    assert band["meta"] == mean["meta"] == 0
    assert "95% confidence interval" in page
    assert "11.0 ± 12.7 " not in page  # half widths have two digits
    assert "±" in study_text(got)
    alone = figures(render_study(study("s", "S", records({4: (10.0, 12.0)}))))["study-latency_p50"]["data"]
    assert [trace["error_y"]["array"] for trace in alone] == [[pytest.approx(12.706, abs=0.01)]]


def test_what_did_not_arrive_is_told():
    whole = records({0: (100.0, 100.0), 5: (100.0, 90.0)}, key=LOSS, metric="delivered_share")
    page = render_study(study("s", "S", whole))
    assert "and not all did: poll delivered 95 ± 64 % at loss of each link 5." in page
    assert "not all did" not in render_study(study("s", "S", whole[:2]))


def test_a_sweep_is_read_as_it_was_written(tmp_path):
    written = records({0: (10.0, 12.0), 5: (20.0,)}, key=LOSS)
    write_sweep(tmp_path, "line", "Line", written)
    assert read_sweep(tmp_path) == ("line", "Line", written)
    got = compare_runs([tmp_path], tmp_path / "study.html")
    assert (got.scenario, got.points) == ("line", [0, 5])
    (tmp_path / "measures.parquet").unlink()
    with pytest.raises(AnalysisError, match="not the directory of a sweep that has ended"):
        compare_runs([tmp_path], tmp_path / "study.html")


def test_a_comparison_as_text_leaves_out_what_nobody_has():
    nothing = dict.fromkeys((metric.key for metric in METRICS), None)
    rows = [
        nothing | {"layering": "lli", "delivered": 3.0, "latency_p50": 12.34567},
        nothing | {"layering": "long-lived", "delivered": 123456.0},
    ]
    assert comparison_text(rows, ["long-lived", "lli"]) == (
        "                    long-lived    lli\n"
        "delivered    items      123456      3\n"
        "latency_p50  ms              -  12.35\n"
    )


@pytest.mark.parametrize(
    ("value", "text"), [(None, "-"), (0.0, "0"), (1234.56, "1235"), (0.04256, "0.04256"), (100.0, "100")]
)
def test_numbers_in_text(value, text):
    assert number(value) == text


def test_the_feed_of_a_manifest_is_the_one_that_the_packets_name():
    assert manifest({})["workload"]["feeds"][0]["feed"] == FEED_URI
