"""NDN in Scuttlebutt logs: what its tables say of hand-made counters and events."""

import pyarrow as pa
from test_report import made_manifest, made_tables

from analysis.metrics.run.logs import _ends_of_lives, crossings, lookups, steps
from analysis.report.figures.logs import journey
from analysis.report.run import render
from base.units import MS


def node(layering="in logs", **counters):
    return {"layering": layering, "time": 9 * MS, "node": "n"} | counters


def event(time_ms, at, said, other, log, entry, feed="/a/seg=0", layering="in logs"):
    detail = f"{other} {log} {entry}"
    return {
        "layering": layering,
        "time": time_ms * MS,
        "node": at,
        "event": said,
        "feed": feed,
        "detail": detail,
    }


def hop(kind, sender, receiver, written, read, log, entry, feed="/a/seg=0"):
    return [
        event(written, sender, f"{kind} written", receiver, log, entry, feed),
        event(read, receiver, f"{kind} read", sender, log, entry, feed),
    ]


WAY = [
    *hop("interest", "c", "n1", 0, 10, "up1", 5),
    *hop("interest", "n1", "n2", 10, 20, "up2", 7),
    *hop("data", "n2", "n1", 21, 35, "down2", 3),
    *hop("data", "n1", "c", 35, 50, "down1", 4),
]
SHORT = [
    *hop("interest", "d", "n1", 12, 14, "up3", 1, "/b/seg=0"),
    *hop("data", "n1", "d", 15, 16, "down3", 1, "/b/seg=0"),
]


def test_what_forwarders_save_is_summed_over_nodes():
    rows = lookups(
        [
            node("plain", cs_hits=10, cs_misses=30, aggregated=4),
            node("plain", cs_hits=0, cs_misses=10, aggregated=1),
            node(cs_hits=5, cs_misses=5, aggregated=0, answered_here=7),
            node(cs_hits=5, cs_misses=5, aggregated=0),
            node("nothing", cs_hits=0, cs_misses=0, aggregated=0),
        ]
    ).to_pylist()
    assert rows == [
        {"layering": "plain", "interests": 50, "from_stores": 20.0, "aggregated": 10.0, "from_logs": None},
        {"layering": "in logs", "interests": 20, "from_stores": 50.0, "aggregated": 0.0, "from_logs": 70.0},
    ]


def test_what_packets_wait_for_is_a_mean_of_all_packets():
    interests = {
        "interest_written": 2,
        "interest_queued_ns": 6 * MS,
        "interest_read": 2,
        "interest_replicated_ns": 40 * MS,
    }
    data = {"data_written": 1, "data_queued_ns": 0, "data_read": 4, "data_replicated_ns": 40 * MS}
    checks = {"data_accepted": 3, "data_refused": 1, "data_checking_ns": 2 * MS}
    rows = crossings([node(**interests), node(**data, **checks), node("plain", cs_hits=1)]).to_pylist()
    assert rows == [
        {
            "layering": "in logs",
            "kind": "interest",
            "packets": 2,
            "queued_ms": 3.0,
            "replicated_ms": 20.0,
            "checked_ms": None,
        },
        {
            "layering": "in logs",
            "kind": "data",
            "packets": 4,
            "queued_ms": 0.0,
            "replicated_ms": 10.0,
            "checked_ms": 0.5,
        },
    ]


def told(events):
    return steps(pa.Table.from_pylist([*events, event(1, "c", "delivered", "x", "y", "1")])).to_pylist()


def test_the_longest_journey_is_told_step_by_step():
    rows = told([*SHORT, *reversed(WAY)])
    assert [(row["kind"], row["sender"], row["receiver"], row["log"], row["entry"]) for row in rows] == [
        ("interest", "c", "n1", "up1", 5),
        ("interest", "n1", "n2", "up2", 7),
        ("data", "n2", "n1", "down2", 3),
        ("data", "n1", "c", "down1", 4),
    ]
    assert [(row["written"] // MS, row["read"] // MS) for row in rows] == [
        (0, 10),
        (10, 20),
        (21, 35),
        (35, 50),
    ]


def test_a_journey_without_an_answer_is_none():
    assert told(WAY[:4]) == []
    assert told([*WAY[:6], *SHORT])[0]["sender"] == "d"
    assert told(WAY[1:2]) == []


def test_the_page_has_a_section_and_a_chart_of_it():
    chart = journey(told(WAY))
    assert chart is not None
    assert journey([]) is None
    tables = made_tables(
        crossings=crossings(
            [
                node(
                    "lli",
                    interest_written=1,
                    interest_queued_ns=0,
                    interest_read=1,
                    interest_replicated_ns=17 * MS,
                )
            ]
        ).to_pylist(),
        lookups=lookups([node("lli", cs_hits=1, cs_misses=3, aggregated=1)]).to_pylist(),
        steps=told(WAY),
    )
    page = render(made_manifest(), tables)
    assert "NDN in logs" in page
    assert "One Interest’s journey through logs" in page
    assert "from c to n2 and back" in page
    assert "NDN in logs" not in render(made_manifest(), made_tables())


def test_every_life_of_every_node_counts():
    samples = [
        {"time": 100, "node": "a", "cs_hits": 1, "cs_misses": 1},
        {"time": 103, "node": "b", "cs_hits": 5, "cs_misses": 5},
        {"time": 200, "node": "a", "cs_hits": 2, "cs_misses": 2},
        {"time": 203, "node": "b", "cs_hits": 0, "cs_misses": 1},
        {"time": 303, "node": "b", "cs_hits": 3, "cs_misses": 4},
    ]
    table = pa.Table.from_pylist(samples).sort_by([("node", "ascending"), ("time", "ascending")])
    rows = table.take(_ends_of_lives(table)).to_pylist()
    assert [(row["node"], row["time"]) for row in rows] == [("a", 200), ("b", 103), ("b", 303)]
