"""Progress of feeds, what packets tell that happened, and latency in captures, worked out by hand."""

import pyarrow as pa
import pytest
from table import data, interest, item, lli, messages, nack, rows

from analysis.decode.messages import STREAM_LAYERS
from analysis.spark.parquet import of_table
from analysis.tables.events import run_events
from analysis.tables.feed_progress import captured_latency
from analysis.tables.overhead import overhead, seen_once
from analysis.tables.packet_tables import FOLLOWERS
from analysis.tables.schema import EVENTS, FEED_PROGRESS, LATENCY, OVERHEAD
from analysis.tables.shares import followed, nodes_of

pytestmark = pytest.mark.spark


def same_columns(table, documented):
    return [(field.name, field.dataType) for field in table.schema] == [
        (field.name, field.dataType) for field in documented.spark
    ]


def told(packets, table):
    """Return a table that the packets tell."""
    return of_table(followed(packets, nodes_of(packets), *FOLLOWERS), table.name, table.arrow)


STORY = [
    lli(1, 4, 0),
    item(2, 10),  # the first that is seen
    item(5, 20),  # 3 and 4 are missing
    item(5, 21, interface="a-eth1"),
    item(3, 30),
    lli(6, 2, 30),
    item(1, 35),  # before the first: not counted as missing before
    item(3, 36, "out"),  # to somebody else: no duplicate
    item(3, 37),
    item(4, 40),
    item(6, 50),
    lli(20, 5, 60, "in"),  # somebody else asks
    lli(9, 0, 61),  # cancels
    item(7, 70, "out"),
]


def test_progress_of_a_feed(spark):
    packets = messages(spark, *STORY, item(4, 5, "out", node="p"))
    table = told(packets, FEED_PROGRESS)
    assert same_columns(table, FEED_PROGRESS)
    assert rows(table, "node", "time", "seq", "how", "newest", "missing", "asked") == [
        ("a", 10, 2, "arrived", 2, 0, 4),
        ("a", 20, 5, "arrived", 5, 2, 4),
        ("a", 30, 3, "arrived", 5, 1, 7),
        ("a", 35, 1, "arrived", 5, 1, 7),
        ("a", 40, 4, "arrived", 5, 0, 7),
        ("a", 50, 6, "arrived", 6, 0, 7),
        ("a", 70, 7, "sent", 7, 0, 7),
        ("p", 5, 4, "sent", 4, 0, None),
    ]


def test_progress_where_directions_are_unknown(spark):
    packets = messages(spark, lli(1, 3, 0, None), item(1, 5, None), item(1, 6, None))
    table = told(packets, FEED_PROGRESS)
    assert rows(table, "seq", "time", "how", "asked") == [(1, 5, None, 3)]


def test_what_packets_tell(spark):
    asked = interest("/i", 5, lifetime=50)
    refused = interest("/n", 6)
    packets = messages(
        spark,
        *STORY,
        asked,
        asked | {"time": 8, "lifetime_ns": 10},
        refused,
        nack(refused, 9),
        interest("/late", 69, lifetime=2),  # the capture ends before it does
    )
    table = told(packets, EVENTS)
    assert same_columns(table, EVENTS)
    assert set(rows(table, "layering", "node", "source")) == {("x", "a", "packets")}
    assert rows(table, "time", "event", "interface", "name", "feed", "seq", "bytes") == [
        (20, "gap", None, None, "/f", 5, None),
        (21, "duplicate", "a-eth1", "/f/seq=5", "/f", 5, 500),
        (30, "repair", None, None, "/f", 3, None),
        (37, "duplicate", "a-eth0", "/f/seq=3", "/f", 3, 500),
        (40, "repair", None, None, "/f", 4, None),
        (55, "expired", "a-eth0", "/i", None, None, None),
        (8, "retransmission", "a-eth0", "/i", None, None, 100),
        (9, "nack", "a-eth0", "/n", None, None, 100),
    ]


def test_what_came_in_a_stream_has_a_size_of_its_own(spark):
    in_stream = {"frame_bytes": 0}
    refused = interest("/n", 6) | in_stream
    packets = messages(
        spark, refused, nack(refused, 9), item(1, 10) | in_stream, item(1, 11) | in_stream, item(2, 12)
    )
    table = told(packets, EVENTS)
    assert rows(table, "event", "bytes") == [("duplicate", 60), ("nack", 60)]


def test_what_applications_and_the_scenario_note(spark):
    noted = spark.createDataFrame(
        [
            ("x", 1, "p", "published", "/f", 1, 7),
            ("x", 2, "s", "joined", "/f", 0, 0),
            ("x", 5, "a--b", "link-down", "", 0, 0),
            ("x", 9, "r", "restart", "", 0, 0),
        ],
        "layering string, time long, node string, event string, feed string, seq long, bytes long",
    )
    done = spark.createDataFrame(
        [("x", 5, "link-down", "a--b"), ("x", 9, "restart", "r")],
        "layering string, time long, event string, place string",
    )
    table = run_events(noted, done)
    assert same_columns(table, EVENTS)
    assert rows(table, "time", "node", "event", "source", "name", "feed", "seq", "bytes") == [
        (1, "p", "published", "application", None, "/f", 1, 7),
        (2, "s", "joined", "application", None, "/f", None, None),
        (5, None, "link-down", "scenario", "a--b", None, None, None),
        (9, "r", "restart", "scenario", "r", None, None, None),
    ]


def test_latency_from_the_first_node_that_sends_to_every_other(spark):
    packets = messages(
        spark,
        item(1, 10, "out", node="p", payload_bytes=9),
        item(1, 14, "in", node="r", payload_bytes=9),
        item(1, 15, "out", node="r", payload_bytes=9),
        item(1, 13, "in", node="s", payload_bytes=9),
        item(1, 30, "in", node="s", payload_bytes=9),  # once more
        item(1, 31, "in", node="p", payload_bytes=9),  # back to where it came from
        data("/d", 5, "in", node="s"),  # nobody is seen sending it
        data("/u", 5, None, node="p"),
        data("/u", 6, "in", node="s"),
    )
    table = captured_latency(packets, nodes_of(packets))
    assert same_columns(table, LATENCY)
    assert rows(
        table,
        "node",
        "name",
        "feed",
        "seq",
        "purpose",
        "payload_bytes",
        "published",
        "delivered",
        "latency_ns",
    ) == [
        ("r", "/f/seq=1", "/f", 1, "captured", 9, 10, 14, 4),
        ("s", "/f/seq=1", "/f", 1, "captured", 9, 10, 13, 3),
    ]


def test_data_without_a_name_have_no_latency(spark):
    """As of packets that a capture has cut."""
    named = [data("/a", 1, "out", node="p"), data("/a", 4, "in", node="s")]
    packets = messages(spark, *named, data(None, 1, "out", node="p"), data(None, 5, "in", node="s"))
    table = captured_latency(packets, nodes_of(packets))
    assert rows(table, "node", "name", "latency_ns") == [("s", "/a", 3)]


def test_frames_of_captures_count_once(spark):
    packets = messages(
        spark,
        interest("/a", 1, frame_bytes=1),
        interest("/a", 2, "in", frame_bytes=2, src="10.0.0.1", node="b"),  # the same, where it came in
        interest("/a", 3, "in", frame_bytes=4, src="10.0.0.9"),
        interest("/a", 4, None, frame_bytes=8, src="10.0.0.8"),
        interest("/a", 5, None, frame_bytes=16, src="10.0.0.1"),  # seen going out elsewhere
        interest("/a", 6, "in", frame_bytes=32, src=None),
        interest("/a", 7, "in", frame_bytes=64, layering="y"),
    )
    streams = pa.Table.from_pylist(
        [
            dict(zip(STREAM_LAYERS.names, ("x", "a", "a-eth0", way, src, "p", "payload", size), strict=True))
            for way, src, size in (
                ("out", "10.0.0.1", 1),
                ("in", "10.0.0.1", 2),
                ("in", "10.0.0.9", 4),
                (None, "10.0.0.1", 8),
            )
        ],
        STREAM_LAYERS,
    )
    frames, read = seen_once(packets, spark.createDataFrame(streams))
    assert sorted(row.bytes for row in read.collect()) == [1, 4]
    assert rows(frames, "layering", "node", "frames", "frame_bytes") == [("x", "a", 4, 45), ("y", "a", 1, 64)]
    assert same_columns(overhead(frames, read), OVERHEAD)
