"""The page of captures: what Spark counts for it, by hand, and the page that comes of small tables."""

import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from analysis.errors import AnalysisError
from analysis.metrics.captures import aggregates as capture_aggregates
from analysis.metrics.captures import names as capture_names
from analysis.pipelines.capture_page import write_capture_report
from analysis.pit.entry import State
from analysis.pit.windows.levels import Levels
from analysis.report.capture.endpoints import (
    MOST_ENDPOINTS,
    OTHERS,
    Way,
    askers,
    counted,
    draw_endpoints,
    drawn_as,
    natural_order,
    owners,
)
from analysis.report.capture.plots import shortened
from analysis.report.figures.plot import quantiles_of
from analysis.report.page import unpacked
from analysis.run.context import Span
from analysis.spark.parquet import BY
from analysis.tables import schema as stages
from base.units import MS

pytestmark = pytest.mark.spark

C, R, P = "10.0.0.1", "10.0.0.2", "10.0.0.9"
FEED = "/feed/%01%02"
START = 1_700_000_000_000_000_000


def packet(node, direction, time, src, dst, kind, name, **said):
    """A frame of 100 bytes that a node captured, `time` in ms."""
    sizes = {
        "frame_bytes": 100,
        "eth_bytes": 14,
        "ip_bytes": 20,
        "udp_bytes": 8,
        "lp_bytes": 0,
        "ndn_bytes": 58,
    }
    about = {"layering": "lab", "node": node, "interface": f"{node}-eth0", "direction": direction}
    return (
        {"time": START + round(time * MS), "src": src, "dst": dst, "src_port": 6363, "dst_port": 6363}
        | {"kind": kind, "name": name, "protocol": "ndn", "transport": "udp", "frame": 1}
        | about
        | sizes
        | said
    )


PACKETS = [
    # c asks r, whose clock is 15 ms late, and r asks p, which was not captured.
    packet("c", "out", 0, C, R, "interest", "/a/1/seg=0", nonce=1, frame=1),
    packet("r", "in", -5, C, R, "interest", "/a/1/seg=0", nonce=1, frame=1),
    packet("r", "out", -4, R, P, "interest", "/a/1/seg=0", nonce=1, frame=2),
    packet("r", "in", 16, P, R, "data", "/a/1/seg=0", frame=3),
    packet("r", "out", 17, R, C, "data", "/a/1/seg=0", frame=4),
    packet("c", "in", 42, R, C, "data", "/a/1/seg=0", frame=2),
    # Twice for what nobody has; the second is lost on the way.
    packet("c", "out", 50, C, R, "interest", "/b/x", nonce=2, frame=3),
    packet("r", "in", 45, C, R, "interest", "/b/x", nonce=2, frame=5),
    packet("c", "out", 70, C, R, "interest", "/b/x", nonce=3, frame=4),
    # A feed that is pushed.
    packet("c", "out", 80, C, R, "lli", f"{FEED}/seq=1", feed=FEED, seq=1, send_credit=2, frame=5),
    packet("c", "in", 100, R, C, "data", f"{FEED}/seq=1", feed=FEED, seq=1, frame=6),
    packet("c", None, 120, None, None, "other", None, frame=7, problem="not NDN", protocol=None),
]


def transaction(node, direction, name, time, outcome, rtt=None, **said):
    answered = None if rtt is None else START + (time + rtt) * MS
    return {
        "layering": "lab",
        "node": node,
        "interface": f"{node}-eth0",
        "direction": direction,
        "kind": "interest",
        "name": name,
        "time": START + time * MS,
        "last": START + time * MS,
        "interests": 1,
        "outcome": outcome,
        "answered": answered,
        "rtt_ns": None if rtt is None else rtt * MS,
        "items": int(outcome == "data"),
    } | said


TRANSACTIONS = [
    transaction("c", "out", "/a/1/seg=0", 0, "data", 42, data_name="/a/1/seg=0"),
    transaction("r", "in", "/a/1/seg=0", -5, "data", 22, data_name="/a/1/seg=0"),
    transaction("r", "out", "/a/1/seg=0", -4, "data", 20, data_name="/a/1/seg=0"),
    transaction("c", "out", "/b/x", 50, "none", interests=2),
    transaction("r", "in", "/b/x", 45, "nack", 1, nack_reason=150),
]


def interval(node, name, opened, closed, outcome, **said):
    counts = (
        "interests_in",
        "interests_out",
        "items_in",
        "items_out",
        "renewals",
        "peak_bytes",
        "peak_credit",
    )
    return (
        {"layering": "lab", "node": node, "kind": "classic", "name": name, "outcome": outcome}
        | {"opened": START + opened * MS, "closed": START + closed * MS, "downstreams": 1, "upstreams": 1}
        | dict.fromkeys(counts, 1)
        | said
    )


INTERVALS = [
    interval("c", "/a/1/seg=0", 0, 42, "satisfied"),
    interval("r", "/a/1/seg=0", -5, 17, "satisfied", downstreams=2),
    interval("c", "/b/x", 50, 4070, "open"),
    interval("c", FEED, 80, 4080, "open", kind="feed", renewals=3, peak_credit=2),
]


def state(node, time, entries, **said):
    about = {"layering": "lab", "node": node, "time": START + time * MS, "entries": entries}
    return about | {"bytes": 40 * entries, "ranges": 0, "credit": 0} | said


OCCUPANCY = [
    state("r", -5, 1),
    state("*", -5, 1),
    state("c", 0, 1),
    state("*", 0, 2),
    state("r", 17, 0),
    state("*", 17, 1),
    state("c", 42, 0),
    state("*", 42, 0),
    state("c", 50, 1),
    state("*", 50, 1),
    state("c", 80, 2, ranges=1, credit=2),
    state("*", 80, 2, ranges=1, credit=2),
]
PROGRESS = [
    {"layering": "lab", "node": "c", "feed": FEED, "seq": 1, "time": START + 100 * MS, "how": "arrived",
     "newest": 1, "missing": 0, "asked": 2}
]  # fmt: skip
EVENTS = [
    {"layering": "lab", "node": "c", "time": START + 70 * MS, "event": "retransmission", "source": "packets",
     "name": "/b/x"}
]  # fmt: skip
OVERHEAD = [
    {"layering": "lab", "layer": layer, "bytes": size}
    for layer, size in (("ethernet", 100), ("ip", 100), ("udp", 50), ("ndnlp", 0), ("interest", 100),
                        ("data header", 150), ("payload", 500), ("other", 0))
]  # fmt: skip
LATENCY = [
    {"layering": "lab", "node": "c", "name": "/a/1/seg=0", "purpose": "captured", "latency_ns": 26 * MS}
]
SUMMARY = [
    {"run": "lab", "path": "/somewhere/lab.pcap", "frames": 12, "kinds": {}, "problems": {"not NDN": 1},
     "damages": [[400, 1500, "record is cut"]], "gaps": 0, "skipped": 0}
]  # fmt: skip

ROWS = {
    "packets": PACKETS,
    "transactions": TRANSACTIONS,
    "pit_intervals": INTERVALS,
    "pit_occupancy": OCCUPANCY,
    "feed_progress": PROGRESS,
    "events": EVENTS,
    "overhead": OVERHEAD,
    "latency": LATENCY,
}


def write_tables(directory, rows=ROWS, summary=SUMMARY):
    """Write tables as `feednet analyze` does."""
    for table in stages.TABLES:
        whole = pa.Table.from_pylist(rows.get(table.name, []), table.arrow)
        if len(whole):
            by = BY if table.name == "packets" else BY[:1]
            pq.write_to_dataset(whole, directory / table.name, partition_cols=list(by))
    (directory / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
    return directory


def made(spark, table, rows):
    return spark.createDataFrame(pa.Table.from_pylist(rows, table.arrow))


@pytest.fixture(scope="module")
def packets(spark):
    return made(spark, stages.PACKETS, PACKETS)


@pytest.fixture(scope="module")
def spans(spark):
    return spark.createDataFrame(
        pa.Table.from_pylist([{"layering": "lab", "start_ns": START - 5 * MS, "end_ns": START + 120 * MS}])
    )


def listed(table, *columns):
    return sorted((tuple(row) for row in table.select(*columns).collect()), key=repr)


@pytest.fixture(scope="module")
def ways(packets, spans):
    found = capture_aggregates.ways(capture_aggregates.sightings(packets, spans)).toArrow().to_pylist()
    return sorted(found, key=lambda row: (row["node"], row["direction"] or "", row["src"] or ""))


def test_addresses_belong_to_the_nodes_that_use_them(ways):
    assert owners(ways) == {("lab", C): "c", ("lab", R): "r"}


def test_a_packet_that_two_nodes_captured_counts_once(ways):
    told = {(way.node, way.direction, way.sender, way.receiver): way.packets for way in counted(ways)}
    assert told == {
        ("c", "out", "c", "r"): 4,
        ("r", "out", "r", P): 1,
        ("r", "in", P, "r"): 1,
        ("r", "out", "r", "c"): 1,  # of two: the feed's item was captured where it came in only
    }


def test_interests_count_where_they_are_asked(spark, ways):
    chosen = askers(ways)
    assert [(row["node"], row["direction"]) for row in chosen] == [("c", "out"), ("r", "out")]
    once = spark.createDataFrame(pa.Table.from_pylist(chosen))
    asked = capture_aggregates.counted_once(made(spark, stages.TRANSACTIONS, TRANSACTIONS), once)
    tallies = capture_aggregates.tallied(asked, "layering", "node", "nack_reason")
    assert listed(
        capture_aggregates.answers(tallies, "layering"),
        "requests",
        "interests",
        "data",
        "unanswered",
        "retransmitted",
    ) == [(3, 4, 2, 1, 1)]


def test_addresses_alike_are_told_apart_by_their_ports(spark, spans):
    local = packet("c", None, 1, "::1", "::1", "interest", "/x", src_port=4000)
    found = capture_aggregates.ways(capture_aggregates.sightings(made(spark, stages.PACKETS, [local]), spans))
    assert listed(found, "src", "dst", "packets", "bytes") == [("[::1]:4000", "[::1]:6363", 1, 100)]


def test_bytes_over_tcp_are_the_segments_and_packets_are_not(spark, spans):
    rows = [
        packet("c", "out", 1, C, R, "segment", None, frame_bytes=400),
        packet("c", "out", 1, C, R, "data", "/x", frame_bytes=0),
    ]
    found = capture_aggregates.ways(capture_aggregates.sightings(made(spark, stages.PACKETS, rows), spans))
    assert listed(found, "packets", "data", "bytes") == [(1, 1, 400)]


def test_what_is_sent_in_slices_of_the_run(spark, packets, spans, ways):
    named = spark.createDataFrame(pa.Table.from_pylist([way._asdict() for way in counted(ways)]))
    found = capture_aggregates.load(
        capture_aggregates.sightings(packets, spans), named.drop("packets", "bytes", "data", "asks")
    )
    # 125 ms in 120 slices: c's first Interest is 5 ms into the run.
    assert ("c", "r", 4, "interest", 1, 100) in listed(
        found, "sender", "receiver", "slice", "kind", "packets", "bytes"
    )
    assert (None, None, 119, "other", 1, 100) in listed(
        found, "sender", "receiver", "slice", "kind", "packets", "bytes"
    )


def test_hops_are_as_long_as_the_clocks_say(spark, packets):
    nodes = spark.createDataFrame(pa.table({"node": ["c", "r"], "number": [0, 1]}))
    found = capture_aggregates.hop_summary(capture_aggregates.hops(packets, nodes))
    assert listed(found, "sender", "receiver", "packets", "least_ns", "negative") == [
        ("c", "r", 2, -5 * MS, 2),
        ("r", "c", 1, 25 * MS, 0),
    ]


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (1, 0, 3, 2)])
def test_of_sightings_at_one_time_the_first_node_counts(spark, order):
    seen = [("r1", "out", 10), ("r2", "out", 10), ("r4", "in", 20), ("r3", "in", 20)]
    rows = [("x", *seen[place], "data", "/n", None, "a", "b") for place in order]
    columns = (
        "layering string, node string, direction string, time long, kind string, name string, nonce long"
    )
    packets = spark.createDataFrame(rows, columns + ", src string, dst string")
    nodes = spark.createDataFrame(
        [(f"r{number}", number) for number in range(1, 5)], "node string, number long"
    )
    assert listed(capture_aggregates.hops(packets, nodes), "sender", "receiver", "delay_ns") == [
        ("r1", "r3", 10)
    ]


def held(rows, start, end, slices=100, window=10**6):
    """Return the Levels of one node's PIT_OCCUPANCY, taken in windows."""
    levels = Levels(Span(start, end), ("entries", "bytes"), 2, slices)
    times = np.array([row["time"] for row in rows])
    states = np.array([[row.get(name, 0) for name in State._fields] for row in rows])
    for begin in range(0, len(times), window):
        levels.push(times[begin : begin + window], states[begin : begin + window])
    levels.finish()
    return levels


def of_node(node, window=10**6, slices=100):
    rows = [row for row in OCCUPANCY if row["node"] == node]
    return held(rows, START - 5 * MS, START + 120 * MS, slices, window)


@pytest.mark.parametrize("window", [1, 2, 100])
def test_pit_state_is_weighed_by_time(window):
    # c: 42 ms and 30 ms with one entry, 40 ms with two, of 125 ms.
    means = {"*": 5 + 2 * 17 + 25 + 30 + 80, "c": 42 + 30 + 80, "r": 22}
    peaks = {"*": (2, 5 * MS), "c": (2, 85 * MS), "r": (1, 0)}
    for node, mean in means.items():
        told = of_node(node, window).summary()
        assert told["mean_entries"] == pytest.approx(mean / 125)
        assert (told["peak_entries"], told["peak_ns"]) == peaks[node]


@pytest.mark.parametrize("window", [1, 2, 100])
def test_the_heat_map_shares_a_state_out_among_its_slices(window):
    # Slices of 25 ms from -5 ms on: r holds one entry for 22 ms, all in the first.
    heat = {node: {row["slice"]: row["entries"] for row in of_node(node, window, 5).heat()} for node in "cr"}
    assert heat["r"][0] == pytest.approx(22 / 25)
    assert [heat["c"][place] for place in range(5)] == pytest.approx([20 / 25, 22 / 25, 20 / 25, 40 / 25, 2])


@pytest.mark.parametrize("lasted", [1, 7, 99, 100])
def test_the_heat_map_of_a_moment(lasted):
    heat = held([{"time": START, "entries": 3, "bytes": 60}], START, START + lasted).heat()
    assert len(heat) == lasted
    assert {(row["entries"], row["bytes"]) for row in heat} == {(3, 60)}


def test_what_lies_outside_of_a_run_is_not_held_in_it():
    states = [{"time": time, "entries": time // 10, "bytes": 0} for time in (10, 40, 90)]
    levels = held(states, 20, 60, 4)
    assert [(row["slice"], row["entries"]) for row in levels.heat()] == [(0, 1), (1, 1), (2, 4), (3, 4)]
    assert (levels.summary()["mean_entries"], levels.summary()["peak_entries"]) == (2.5, 4)
    assert [row["time"] for row in levels.curve()] == [10, 40]
    after = held(states[2:], 20, 60)
    assert (after.heat(), after.summary(), after.curve()) == ([], None, [])


def test_a_frame_without_a_time_makes_a_run_of_decades(spark):
    rows = [packet("c", "out", 0, C, R, "data", "/x"), packet("c", "out", -START / MS, C, R, "data", "/y")]
    spans = spark.createDataFrame([("lab", 0, START)], "layering string, start_ns long, end_ns long")
    found = capture_aggregates.sightings(made(spark, stages.PACKETS, rows), spans)
    assert listed(found, "slice", "packets") == [(0, 1), (119, 1)]
    states = [{"time": 0, "entries": 2, "bytes": 40}, {"time": START // 2, "entries": 4, "bytes": 80}]
    found = held(states, 0, START, 4).heat()
    assert [(row["slice"], row["entries"]) for row in found] == [(0, 2), (1, 2), (2, 4), (3, 4)]


@pytest.mark.parametrize("window", [7, 100])
def test_a_curve_keeps_its_corners(window):
    states = [state("c", time, time % 7) | {"bytes": 0} for time in range(100)]
    levels = held(states, START - 5 * MS, START + 120 * MS, window=window)
    kept = [(row["time"], row["entries"]) for row in levels.curve()]
    assert len(kept) <= 10  # with the first and the last of bytes
    assert {(START + time * MS, time % 7) for time in (0, 55, 57, 58, 99)} <= set(kept)


def test_a_distribution_of_few_values_is_exact(spark):
    table = spark.createDataFrame(
        [("lab", value) for value in (-3, 0, 1, 20 * MS, 20 * MS, 40 * MS)], "layering string, ns long"
    )
    rows = capture_aggregates.distribution(table, "ns", "layering").toArrow().to_pylist()
    assert sorted(row["bucket"] for row in rows)[:3] == [-110, 0, 1]
    assert [row["count"] for row in sorted(rows, key=lambda row: row["bucket"])] == [1, 1, 1, 2, 1]
    assert quantiles_of(rows, 5) == pytest.approx([-3e-6, 0, 1e-6, 20, 20, 40])


def test_distributions_are_taken_together():
    half = [{"bucket": 5, "least": 10 * MS, "most": 12 * MS, "count": 3}]
    other = [{"bucket": 5, "least": 9 * MS, "most": 11 * MS, "count": 2}]
    assert quantiles_of(half + other, 4) == [9, 9.75, 10.5, 11.25, 12]
    assert quantiles_of([]) == []


@pytest.mark.parametrize(
    ("name", "prefix"),
    [
        ("/a/b/v=1/seg=3", "/a/b"),
        ("/feed/%01/seq=9", "/feed/%01"),
        ("/a/b/c", "/a/b"),
        ("/a", "/a"),
        ("/", "/"),
        ("/seg=1", "/seg=1"),
        ("/example/rpc/t=12/params-sha256=00ff", "/example/rpc"),
    ],
)
def test_a_prefix_ends_before_the_first_number(spark, name, prefix):
    assert capture_names.prefixed(spark.createDataFrame([(name,)], "name string")).first()["prefix"] == prefix


def test_prefixes_are_counted_by_depth(spark):
    table = spark.createDataFrame([("/a/b/c",), ("/a/b/d",), ("/a/e",), ("/f",)], "prefix string")
    assert listed(capture_names.depths(table, 3), "depth", "prefixes") == [(1, 2), (2, 3), (3, 4)]


def test_names_in_trouble_are_followed_and_items_that_are_pushed(spark):
    many = [transaction("c", "out", f"/n/{number:02}", number, "data", 1) for number in range(9)]
    late = transaction("c", "out", "/late", 90, "none", interests=3)
    asked = made(spark, stages.TRANSACTIONS, [*many, late])
    progress = made(spark, stages.FEED_PROGRESS, [row | {"time": START + 1} for row in PROGRESS])
    found = listed(capture_names.subjects(asked, progress, 3), "name", "trouble")
    assert found == [(f"{FEED}/seq=1", 0), ("/late", 3), ("/n/00", 0), ("/n/01", 0)]


def test_of_many_names_most_are_dropped_where_they_are(jvm, capsys):
    asked, progress = (
        made(jvm, stages.TRANSACTIONS, TRANSACTIONS),
        made(jvm, stages.FEED_PROGRESS, PROGRESS),
    )
    capture_names.subjects(asked, progress, 3).explain()
    plan = capsys.readouterr().out
    assert plan.count("Window [") == 2
    assert plan.count(", Partial") == 2


def test_an_item_is_followed_with_the_llis_that_ask_for_it(spark, packets):
    subject = [{"layering": "lab", "name": f"{FEED}/seq=2", "alias": None, "feed": FEED, "seq": 2}]
    schema = pa.schema([(name, pa.int64() if name == "seq" else pa.string()) for name in subject[0]])
    chosen = spark.createDataFrame(pa.Table.from_pylist(subject, schema))
    assert listed(capture_names.sequences(packets, chosen), "kind", "frame") == [("lli", 5)]


def test_an_lli_may_ask_for_all_that_numbers_can_count(spark):
    most = (1 << 63) - 1
    asks = packet("c", "out", 80, C, R, "lli", f"{FEED}/seq=2", feed=FEED, seq=2, send_credit=most)
    subjects = [
        {"layering": "lab", "name": f"{FEED}/seq={seq}", "alias": None, "feed": FEED, "seq": seq}
        for seq in (1, most)
    ]
    schema = pa.schema([(name, pa.int64() if name == "seq" else pa.string()) for name in subjects[0]])
    chosen = spark.createDataFrame(pa.Table.from_pylist(subjects, schema))
    found = capture_names.sequences(made(spark, stages.PACKETS, [asks]), chosen)
    assert listed(found, "subject") == [(f"{FEED}/seq={most}",)]


def way(sender, receiver, size, data=0):
    return Way("lab", "n", "n", "out", sender, receiver, sender, receiver, 1, size, data, 1)


def test_of_many_endpoints_the_smallest_are_drawn_as_one():
    ways = [way("hub", f"10.0.1.{number}", 1000 + number, 1) for number in range(60)]
    names = drawn_as(ways)
    assert len(set(names.values())) == MOST_ENDPOINTS
    assert names["10.0.1.59"] == "10.0.1.59"
    assert names["10.0.1.0"] == OTHERS
    drawing, left_out = draw_endpoints(ways, {"hub"})
    assert (len(drawing.nodes), len(drawing.links), left_out) == (MOST_ENDPOINTS, MOST_ENDPOINTS - 1, 0)
    assert drawing.nodes == draw_endpoints(list(reversed(ways)), {"hub"})[0].nodes
    places = {node.name: node.x for node in drawing.nodes}
    assert places["hub"] == min(places.values())


def test_two_endpoints_are_drawn_apart():
    drawing, _ = draw_endpoints([way("a", "b", 10), way("b", "a", 20, 1)], set())
    assert len({(node.x, node.y) for node in drawing.nodes}) == 2
    assert [(link.sender, link.receiver) for link in drawing.links] == [("a", "b"), ("b", "a")]


def test_labels_are_short_and_differ():
    names = ["/a", "/" + "x" * 50, "/" + "x" * 51]
    assert list(shortened(names, 20).values()) == ["/a", "/xxxxxxxx…xxxxxxxxxx", "/xxxxxxxx…xxxxxxxxxx (2)"]


def test_r2_comes_before_r10():
    assert sorted(["r10", "r2", "a", "10.0.0.9", "10.0.0.10"], key=natural_order) == [
        "10.0.0.9",
        "10.0.0.10",
        "a",
        "r2",
        "r10",
    ]


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    return write_tables(tmp_path_factory.mktemp("tables"))


@pytest.fixture(scope="module")
def page(tables, spark):
    target = tables / "report.html"
    write_capture_report(tables, target, spark)
    return target.read_text(encoding="utf-8")


def data_of(page):
    return json.loads(unpacked(re.search(r'id="data">(.*?)</script>', page)[1]))


def plain(page):
    """The text of a page without its scripts and tags."""
    text = re.sub(r"<(script|style)\b.*?</\1>", " ", page, flags=re.S)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text)).replace("\N{NARROW NO-BREAK SPACE}", " ")


def test_findings_are_told_in_words(page):
    text = plain(page)
    assert "50 % of the bytes are data of applications" in text
    assert "half of all answers came within 31 ms (n = 2)" in text
    assert "33.3 % of the Interests got no answer in their lifetime; /b has 100 % of them" in text
    assert "25 % of the Interests repeat one that had no answer yet" in text
    assert "c held at most 2 entries, 85 ms into the capture" in text
    assert "half of all PIT entries lived less than 32 ms; 50 % open, 50 % satisfied" in text
    assert "33.3 % of the PIT entries had Interests from several neighbours" in text
    assert "1 of them kept 1 subscription, 1 item for each. 3 extended an earlier range" in text
    assert "1 feed, 1 item; every subscriber has the newest item" in text


def test_what_is_wrong_with_captures_is_said(page):
    text = plain(page)
    assert "1 frame is not as usual: not NDN." in text
    assert "the file is damaged, record is cut: 1.50 kB were left out." in text
    assert "1 of 12 frames do not say whether they came in or went out, so" in text
    assert "Clocks disagree" in text


def test_clocks_are_compared_as_ntp_does(page):
    row = re.search(r'id="table-clocks">.*?<tbody>(.*?)</tbody>', page, re.S)[1]
    # 5 ms too early there and 25 ms back: 10 ms either way, and r's clock 15 ms behind.
    assert re.findall(r"<td[^>]*>(.*?)</td>", row) == ["c", "r", "3", "-5", "25", "-15", "2"]


def test_a_name_is_followed_from_node_to_node(page):
    names = data_of(page)["names"]
    run = names["runs"]["lab"]
    subjects = {subject["name"]: subject for subject in run["subjects"]}
    first = subjects["/a/1/seg=0"]
    packets = run["packets"]
    told = [
        (
            names["nodes"][packets["a"][at]],
            names["nodes"][packets["b"][at]],
            names["words"][packets["w"][at]],
            packets["d"][at],
        )
        for at in range(first["at"], first["end"])
    ]
    assert told == [
        ("r", P, "Interest", -1),
        ("c", "r", "Interest", 0),  # the least that the clocks allow
        (P, "r", "Data", -1),
        ("r", "c", "Data", 25_000),
    ]
    second = subjects["/b/x"]
    assert second["trouble"] > 0
    assert packets["d"][second["at"] : second["end"]] == [0, None]


def test_every_figure_has_numbers_and_none_is_empty(page):
    figures = data_of(page)["figures"]
    assert set(figures) == {
        "traffic", "traffic-heat", "layers", "rtt", "rtt-prefix", "unanswered", "troubles", "pit", "pit-heat",
        "outcomes", "lifetimes", "progress", "latency", "hop-times",
    }  # fmt: skip
    for name, spec in figures.items():
        assert any(trace.get("x") or trace.get("y") for trace in spec["data"]), name
        assert not any("layering" in column for column in spec["columns"]), name
    assert list(figures["pit"]["variants"])[-1] == "r|credit"


def test_the_same_tables_make_the_same_page(tables, spark, page):
    write_capture_report(tables, tables / "again.html", spark)
    assert (tables / "again.html").read_text(encoding="utf-8") == page


def test_a_capture_with_hardly_anything_in_it_has_a_page(tmp_path, spark):
    nothing = packet("c", None, 0, None, None, "other", None)
    directory = write_tables(tmp_path, {"packets": [nothing]}, [])
    write_capture_report(directory, directory / "report.html", spark)
    page = (directory / "report.html").read_text(encoding="utf-8")
    assert "Nothing in these captures is NDN" in page
    assert "Who talks to whom" not in page
    assert list(data_of(page)["figures"]) == ["traffic"]


def test_many_runs_and_names_that_look_like_numbers(tmp_path, spark):
    rows = {
        name: [row | {"layering": f"0{run}"} for run in range(12) for row in table]
        for name, table in ROWS.items()
    }
    directory = write_tables(tmp_path, rows, [])
    write_capture_report(directory, directory / "report.html", spark)
    page = (directory / "report.html").read_text(encoding="utf-8")
    assert "12 captures" in page
    assert len(data_of(page)["names"]["runs"]) == 12
    assert "</svg>011</td>" in page
    assert len(page) < 3_000_000


def test_without_tables_one_line_says_so(tmp_path, spark):
    with pytest.raises(AnalysisError, match="no tables of packets: feednet analyze writes them"):
        write_capture_report(tmp_path, tmp_path / "report.html", spark)
    assert not (tmp_path / "report.html").exists()
