"""Who kept up: on made-up deliveries, on a network that is too slow for polling, and on shipped scenarios."""

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from handmade import STORIES, TIMES, manifest
from short_runs import emulate

from analysis.columns.arrays import groups_of
from analysis.decode.protocols.protocol import NDN
from analysis.metrics.aggregates import keeping_up_totals
from analysis.metrics.catalogue import METRICS, why_unranked
from analysis.metrics.claims import Samples
from analysis.metrics.comparison import compare, measure
from analysis.metrics.run.saturation import COUNTERS, judge, keeping_up, processors
from analysis.run.context import RUNS, Case, setting
from analysis.run.manifest import Manifest, Run
from base.units import MS

DELIVERIES = pa.schema(
    [
        ("layering", pa.string()),
        ("node", pa.string()),
        ("published", pa.int64()),
        ("delivered", pa.int64()),
        ("latency_ns", pa.int64()),
    ]
)


class Made(Run):
    """A run that is in no directory."""

    def __init__(self, told: Manifest) -> None:
        self.manifest = told


def kept_up(cases, deliveries):
    groups = groups_of(deliveries, ("layering", "node")) if len(deliveries) else ()
    return keeping_up(
        [row for group in groups for made in judge(cases)(group) for row in made.to_pylist()], cases
    )


def judged(latencies_ms: Sequence[float], expected: int | None = None, **workload: object):
    """Judge one subscriber; an item was published each 10 ms from the start on, None was not delivered."""
    items = len(latencies_ms)
    turn = {"first_ns": 0, "last_ns": items * 10 * MS, "settle_ns": items * 10 * MS, "sample_interval_ns": MS}
    turn = TIMES | turn | {"stop_ns": items * 10 * MS + 2000 * MS, "end_ns": items * 10 * MS + 3000 * MS}
    made = manifest(dict.fromkeys(STORIES, turn))
    made["workload"] |= {"expected": {"s": expected or items}} | workload
    rows = [
        {
            "published": at * 10 * MS,
            "delivered": at * 10 * MS + round(late * MS),
            "latency_ns": round(late * MS),
        }
        for at, late in enumerate(latencies_ms)
        if late is not None
    ]
    table = pa.Table.from_pylist([{"layering": "poll", "node": "s"} | row for row in rows], DELIVERIES)
    rows = kept_up({"poll": Case(Made(Manifest.model_validate(made)), "poll")}, table).to_pylist()
    return rows[0] if rows else None


def test_a_queue_that_grows_with_the_run_is_told():
    row = judged([50 + 5 * at for at in range(200)])  # 15 ms an item, and one is published each 10 ms
    assert (row["fell_behind"], row["cut_off"], row["correlation"]) == (True, False, pytest.approx(1))
    assert row["quarters_ms"] == [pytest.approx(50 + 5 * at) for at in (24.5, 74.5, 124.5, 174.5)]
    # What is delivered by 2,000 ms: 10 n + 50 + 5 n <= 2,000.
    assert (row["delivered"], row["waiting"]) == (200, 200 - 131)


@pytest.mark.parametrize(
    "latencies",
    [
        [50.0] * 200,
        [40.0] * 100 + [120.0] * 100,  # a longer path since the middle
        [40.0] * 120 + [120.0] * 80,
        [40.0] * 140 + [120.0] * 60,
        [40.0] * 80 + [2000.0 - 10 * at for at in range(60)] + [40.0] * 60,  # a break, and all is well again
        [50 + 5 * at for at in range(39)],  # too few to tell
        [50 + at / 100 for at in range(200)],  # a drift, of 2 ms
        [2000 - 9 * at for at in range(200)],  # one that catches up
        [40.0, 40.0, 400.0, 40.0] * 50,
    ],
)
def test_what_does_not_grow_with_the_run_is_not(latencies):
    assert not judged(latencies)["fell_behind"]


def test_chance_does_not_make_a_queue():
    """Losses and their repair make latencies long, and alike for items that were under way together."""
    told = 0
    for seed in range(500):
        rng = Random(seed)
        latencies: list[float] = []
        while len(latencies) < 40:
            late = 40 + rng.expovariate(1 / 100) * (rng.random() < 0.5)
            latencies += [late] * rng.randint(1, 4)
        told += judged(latencies[:40])["fell_behind"]
    assert told <= 1


def test_one_that_is_delivering_at_the_end_is_cut_off_and_one_that_is_stuck_is_not():
    # Subscriptions end 2 s after the last publication, so the last moments are 1 s.
    late = [*([50.0] * 100), *([None] * 98), 1500.0, None]
    row = judged(late)
    assert (row["cut_off"], row["at_last"], row["delivered"]) == (True, 1, 101)
    assert not judged([*([50.0] * 100), *([None] * 98), 500.0, None])["cut_off"]
    assert not judged([*([50.0] * 199), 1500.0])["cut_off"]  # all is there
    assert judged([50.0] * 100, paced=["s"]) is None


def test_what_is_caught_up_with_after_joining_does_not_count():
    made = manifest(dict.fromkeys(STORIES, TIMES | {"sample_interval_ns": MS}))
    case = Case(Made(Manifest.model_validate(made)), "poll")
    rows = [  # joined at 1,000 ms, and gets one of 100 old items each 20 ms
        {"published": at * MS, "delivered": (1000 + 20 * at) * MS, "latency_ns": 20 * at * MS}
        for at in range(100)
    ]
    table = pa.Table.from_pylist([{"layering": "poll", "node": "s"} | row for row in rows], DELIVERIES)
    (row,) = kept_up({"poll": case}, table).to_pylist()
    assert (row["fell_behind"], row["quarters_ms"], row["delivered"]) == (False, None, 100)


def test_a_layering_that_did_not_finish_is_not_ranked_by_its_times():
    names, each = ("a", "b", "c", "d"), {"deliveries": 100, "latency_p50": 5.0, "pit_entries_mean": 9.0}
    runs = pa.Table.from_pylist(
        [
            {"layering": x, "position": k, "protocol": NDN, "expected": 100, "dropped": 0}
            for k, x in enumerate(names)
        ],
        RUNS,
    )
    totals = {
        "a": each | {"fell_behind": 2, "cut_off": 0, "latency_p50": 1.0},
        "b": each,
        "c": each | {"latency_p50": 6.0, "cut_off": 1, "deliveries": 60},
        "d": each | {"deliveries": 60, "latency_p50": 2.0, "pit_entries_mean": 1.0},
    }
    measures = measure(runs, [totals])
    whys = {row["layering"]: why_unranked(row) for row in measures.to_pylist()}
    assert whys == {
        "a": "fell behind",
        "b": "",
        "c": "cut off by the end of the run",
        "d": "delivered 60 %",
    }
    comparison = compare(measures).to_pylist()
    samples = Samples.of_run(comparison, names)
    of = {metric.key: samples.ranking(metric) for metric in METRICS}
    late, held = of["latency_p50"], of["pit_entries_mean"]
    assert (late.values, late.left) == ({"b": 5.0}, {x: why for x, why in whys.items() if why})
    assert (held.leaders, list(held.left)) == (["b"], ["a", "c", "d"])
    assert of["delivered_share"].leaders == ["a", "b"]
    ratios = {(row["metric"], row["layering"]): row["ratio"] for row in comparison}
    assert {ratios["latency_p50", x] for x in names} == {None}
    assert ratios["pit_entries_mean", "d"] == pytest.approx(1 / 9)
    assert {metric.key for metric in METRICS} >= {"fell_behind", "cut_off"}


def of_run(run: Run) -> dict[str, tuple[int, int]]:
    """Return (how many subscribers fell behind, how many were cut off) by layering, from what was noted."""
    rows = []
    cases = {layering: Case(run, layering) for layering in run.manifest.layerings}
    own = {feed.feed for feed in run.manifest.workload.feeds}
    for layering in cases:
        published: dict[tuple[str, int], int] = {}
        joined: dict[tuple[str, str], int] = {}
        came: dict[tuple[str, str, int], int] = {}
        for event in map(json.loads, run.events(layering).read_text().splitlines()):
            feed, seq, node, time = (event[name] for name in ("feed", "seq", "node", "time"))
            if event["event"] == "published" and feed in own:
                published.setdefault((feed, seq), time)
            elif event["event"] == "joined":
                joined.setdefault((node, feed), time)
            elif event["event"] == "delivered":
                came.setdefault((node, feed, seq), time)
        for (node, feed, seq), time in came.items():
            if (begun := published.get((feed, seq))) is not None:
                late = time - max(begun, joined.get((node, feed), begun))
                own_row = {"layering": layering, "node": node, "published": begun, "delivered": time}
                rows.append(own_row | {"latency_ns": late})
    totals = keeping_up_totals(kept_up(cases, pa.Table.from_pylist(rows, DELIVERIES)))
    return {layering: (known["fell_behind"], known["cut_off"]) for layering, known in totals.items()}


WAN = """
[nodes]
pub: _
r1: _
r2: _
s1: _
s2: _
[links]
pub:r1 delay=90ms bw=100
r1:r2 delay=80ms bw=100
r2:s1 delay=30ms bw=100
r2:s2 delay=60ms bw=100
"""


def test_polling_over_long_links_is_told_and_push_is_not(tmp_path: Path):
    (tmp_path / "wan.conf").write_text(WAN)
    wan = {"topology_file": str(tmp_path / "wan.conf"), "layerings": ("poll", "lli")}
    assert of_run(emulate(tmp_path / "wan", "fanout", **wan)) == {"poll": (2, 2), "lli": (0, 0)}
    # A window of 32 is enough.
    wide = wan | {"parameters": {"poll": {"window": 32}}}
    assert of_run(emulate(tmp_path / "wide", "fanout", **wide))["poll"] == (0, 0)


@pytest.mark.parametrize(
    ("scenario", "expected"),
    [
        # 5 % of loss on six links: about every second Interest comes back with its Data.
        ("line", {"poll": (1, 1), "persistent": (0, 0), "lli": (0, 0), "lli-selective": (0, 0)}),
        ("fanout", {"poll": (0, 0), "lli": (0, 0), "pull": (0, 0)}),
        ("slow-consumer", {"poll": (0, 0), "lli": (0, 0), "pull": (0, 0)}),
        ("late-join", {"poll": (0, 0), "lli": (0, 0), "pull": (0, 0)}),
        # After the failure each Interest of pull goes the dead way first; long-lived is still at it at the
        # end; poll is stuck, and so not cut off.
        (
            "failover",
            {"pull": (2, 0), "poll": (0, 0), "long-lived": (0, 2), "lli": (0, 0), "persistent": (0, 0)},
        ),
        ("archive", {"poll": (0, 0), "lli": (0, 0), "pull": (0, 0)}),
    ],
)
def test_shipped_scenarios(tmp_path: Path, scenario: str, expected: dict[str, tuple[int, int]]):
    assert of_run(emulate(tmp_path / "run", scenario, layerings=tuple(expected))) == expected


def test_means_are_over_the_time_of_publishing():
    made = manifest(dict.fromkeys(STORIES, TIMES | {"sample_interval_ns": MS}))
    case = Case(Made(Manifest.model_validate(made)), "lli")
    (row,) = setting({"lli": case}).runs.to_pylist()
    assert (row["from_ns"], row["until_ns"], row["end_ns"]) == (100 * MS, 300 * MS, 500 * MS)
    case.manifest.runs["lli"].last_ns = 100 * MS  # there is but one item
    (row,) = setting({"lli": case}).runs.to_pylist()
    assert (row["from_ns"], row["until_ns"]) == (100 * MS, 500 * MS)


def test_processors_are_busy_while_items_are_published() -> None:
    """Node a is busy for 60 of 100 ns, starts anew in between, and verifies 3 and 2; b is idle."""
    told = [(10, "a", 5, 0), (60, "a", 45, 3), (80, "a", 20, 1), (120, "a", 120, 2), (60, "b", 0, 0)]
    names = ["layering", *COUNTERS.names]
    rows = [dict(zip(names, ("x", *row), strict=True)) for row in told]
    rows.append(dict.fromkeys(names) | {"layering": "y", "time": 1, "node": "a"})
    counters = pa.Table.from_pylist(rows, pa.schema([("layering", pa.string()), *COUNTERS]))
    spans = [{"layering": x, "from_ns": 10, "until_ns": 110} for x in "xy"]
    assert processors(counters, pa.Table.from_pylist(spans)) == {
        "x": {"processor_most": 60.0, "processor_mean": 30.0, "verified": 5.0}
    }
