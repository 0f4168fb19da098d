"""Several runs beside each other: the study's numbers, its text and its page."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from handmade import FEED_URI, MS, manifest
from test_report import figures

from analysis.compare import METRICS
from analysis.errors import AnalysisError
from analysis.manifest import Run
from analysis.report.study import render_study
from analysis.study import EXTRA, compare_runs, loss_of, study
from analysis.text import comparison_text, number, study_text


@pytest.fixture
def analyzed(tmp_path):
    """Make a run of some loss that has been analysed, with these frames per item under poll and lli."""

    def make(name: str, loss: float, frames: tuple[float | None, float | None], **changes: object) -> Run:
        turn = {"start_ns": 0, "end_ns": 500 * MS, "sample_interval_ns": MS}
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


def test_a_study_counts_what_repair_takes_from_the_least_loss_on(analyzed):
    runs = [analyzed("b", 20, (9.0, 5.0)), analyzed("a", 0, (4.0, 3.0)), analyzed("c", 20, (11.0, None))]
    assert [loss_of(run) for run in runs] == [20, 0, 20]
    got = study(runs)
    assert (got.losses, got.layerings) == ([0, 20], ["poll", "lli"])
    assert got.values["frames_per_item", "poll", 20] == 10  # the mean of two runs
    assert got.values[EXTRA, "poll", 20] == 6
    assert got.values[EXTRA, "lli", 20] == 2
    assert got.values[EXTRA, "lli", 0] == 0


def test_runs_of_different_scenarios_and_of_one_loss_are_refused(analyzed):
    first = analyzed("a", 0, (4.0, 3.0))
    other = analyzed("b", 20, (9.0, 5.0), scenario="line")
    with pytest.raises(
        AnalysisError, match=r"/b: a run of line, not of handmade: compare runs of one scenario"
    ):
        study([first, other])
    with pytest.raises(AnalysisError, match="all runs have 0 % loss: give runs that differ"):
        study([first])


def test_a_page_and_a_text_are_made_of_runs_that_have_been_analysed(analyzed, tmp_path):
    runs = [analyzed("a", 0, (4.0, 3.0)), analyzed("b", 5, (4.5, 3.25))]
    told = []
    got = compare_runs([run.directory for run in runs], tmp_path / "study.html", progress=told.append)
    assert told == []  # nothing was left to analyse
    page = (tmp_path / "study.html").read_text()
    assert page == render_study(got)
    plot = figures(page)[f"study-{EXTRA}"]
    assert [(trace["x"], trace["y"]) for trace in plot["data"]] == [([0, 5], [0, 0.5]), ([0, 5], [0, 0.25])]
    assert study_text(got).endswith(
        "Packets spent on repair, per delivered item, frames  0 %   5 %\n"
        "  poll                                                 0   0.5\n"
        "  lli                                                  0  0.25\n"
    )


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
