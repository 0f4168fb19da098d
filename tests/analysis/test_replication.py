"""What peers send and receive, by cause, on a network small enough to count by hand."""

import pyarrow as pa
import pytest
from test_report import figures, made_manifest, made_tables

from analysis.metrics.run.ebt import ebt, notes
from analysis.metrics.run.replication import authors, reach, replication
from analysis.report.figures.replication import modes as modes_of
from analysis.report.run import render
from analysis.run.context import Span
from analysis.spark.engine import frame
from analysis.tables.protocol_messages import SEEN

ADDRESSES = {"a": "10.255.0.1", "b": "10.255.0.2", "c": "10.255.0.3"}
CONNECTIONS = "layering string, node string, direction string, src string, dst string"
PACKETS = (
    "layering string, node string, protocol string, direction string, src string, dst string, "
    "frame_bytes long"
)
PUBLISHED = "layering string, node string, feed string, seq long"


def crossing(sender, receiver, time, size, kind, feed=None, seq=None):
    """A message from one peer to another, seen where it was sent, at a router, and where it arrived."""
    for node, direction, at in ((sender, "out", 0), ("r", "in", 1), ("r", "out", 1), (receiver, "in", 2)):
        yield {
            "layering": "x",
            "node": node,
            "interface": f"{node}-eth0",
            "direction": direction,
            "protocol": "ssb",
            "kind": kind,
            "src": ADDRESSES[sender],
            "dst": ADDRESSES[receiver],
            "frame": time,
            "time": time + at,
            "feed": feed,
            "seq": seq,
            "stream_bytes": size - 10,
            "frame_bytes": size,
            "payload_bytes": 0,
        }


@pytest.fixture(scope="module")
def found(spark):
    # a publishes; it sends b both items and c the first. b and c send each other the first, and b sends a
    # its own back. c never gets the second from a, but from b.
    seen = [
        *crossing("a", "b", 0, 50, "handshake"),
        *crossing("a", "b", 10, 100, "data", "/f", 1),
        *crossing("a", "c", 11, 100, "data", "/f", 1),
        *crossing("a", "b", 20, 110, "data", "/f", 2),
        *crossing("b", "c", 21, 100, "data", "/f", 1),
        *crossing("c", "b", 22, 100, "data", "/f", 1),
        *crossing("b", "a", 23, 100, "data", "/f", 1),
        *crossing("b", "c", 30, 110, "data", "/f", 2),
        *crossing("b", "c", 40, 110, "data", "/f", 2),
    ]
    connections = [
        ("x", node, direction, ADDRESSES[opener], ADDRESSES[other])
        for opener, other in ("ab", "ac", "bc")
        for node, direction in ((opener, "out"), (other, "in"))
    ]
    packets = [
        ("x", row["node"], "ssb", row["direction"], row["src"], row["dst"], row["frame_bytes"] + 7)
        for row in seen
    ]
    packets.append(("x", "a", "udp", "out", ADDRESSES["a"], ADDRESSES["b"], 1000))
    return replication(
        frame(spark, pa.Table.from_pylist(seen, SEEN)),
        spark.createDataFrame(packets, PACKETS),
        spark.createDataFrame(connections, CONNECTIONS),
        spark.createDataFrame([("x", "a", "/f", 1), ("x", "a", "/f", 2)], PUBLISHED),
    )


@pytest.mark.spark
def test_bytes_have_a_cause_at_the_peers_that_they_were_sent_between(found):
    rows = {(row["node"], row["cause"]): tuple(row)[3:] for row in found.causes.collect()}
    assert rows == {
        ("a", "handshake"): (1, 50, 0, 0),
        ("a", "messages"): (3, 310, 0, 0),
        ("a", "repeated"): (0, 0, 1, 100),
        ("a", "rest"): (0, 7 * 4, 0, 7),
        ("b", "handshake"): (0, 0, 1, 50),
        ("b", "messages"): (1, 110, 2, 210),
        ("b", "repeated"): (3, 310, 1, 100),
        ("b", "rest"): (0, 7 * 4, 0, 7 * 4),
        ("c", "messages"): (0, 0, 2, 210),
        ("c", "repeated"): (1, 100, 2, 210),
        ("c", "rest"): (0, 7, 0, 7 * 4),
    }


@pytest.mark.spark
def test_a_message_has_crossed_as_many_peers_as_passed_it_on(found):
    assert reach(found.firsts).orderBy("hops").toArrow().to_pylist() == [
        {"layering": "x", "hops": 1, "copies": 3},
        {"layering": "x", "hops": 2, "copies": 1},
    ]


@pytest.mark.spark
def test_what_a_peer_brings_a_node_that_has_it_is_counted(found):
    rows = {(row["node"], row["peer"]): tuple(row)[3:] for row in found.brought.collect()}
    assert rows == {
        ("b", "a"): (2, 0),
        ("c", "a"): (1, 0),
        ("c", "b"): (3, 2),
        ("b", "c"): (1, 1),
        ("a", "b"): (1, 1),
    }


@pytest.mark.spark
def test_modes_of_feeds_by_connection_and_time(spark):
    def note(sender, receiver, time, number, eager, lazy, switched):
        for row in crossing(sender, receiver, time, 50, "note"):
            yield row | {"note": number, "eager": eager, "lazy": lazy, "switched": switched}

    seen = [
        *note("a", "b", 10, 1, 4, 0, 0),
        *note("a", "b", 40, 3, 1, 3, 1),  # two at a time
        *note("a", "b", 40, 2, 2, 2, 2),
        *note("b", "a", 20, 1, 0, 5, 0),
        *crossing("a", "b", 50, 50, "note"),  # a clock of another protocol
    ]
    ends = [
        {
            "layering": "x",
            "node": node,
            "direction": way,
            "src": ADDRESSES["a"],
            "dst": ADDRESSES["b"],
            "closed": 90,
            "opened": 5,
            "protocol": "ssb",
        }
        for node, way in (("a", "out"), ("b", "in"))
    ]
    ends += [row | {"opened": 1, "closed": 30} for row in ends]  # another one, which was there first
    ends += [row | {"opened": 1, "closed": 100, "protocol": "tcp"} for row in ends[:2]]
    peers = [(row["layering"], row["node"], row["direction"], row["src"], row["dst"]) for row in ends]
    made = replication(
        frame(spark, pa.Table.from_pylist(seen, SEEN)),
        spark.createDataFrame([("x", "a", "ssb", "out", ADDRESSES["a"], ADDRESSES["b"], 60)], PACKETS),
        spark.createDataFrame(peers, CONNECTIONS),
        spark.createDataFrame([("x", "a", "/f", 1)], PUBLISHED),
    )
    brought = [{"layering": "x", "node": "a", "peer": "b", "messages": 7, "again": 2}]
    tables = ebt(notes(made.ends), frame(spark, pa.Table.from_pylist(brought)), ends, {"x": Span(0, 120)})
    assert [tuple(row.values()) for row in tables["ebt_connections"].to_pylist()] == [
        ("x", "a", "b", 1, 3, 3, 7, 2),
        ("x", "b", "a", 0, 5, 0, 0, 0),
    ]
    modes = {
        (row["node"], row["slice"]): (row["eager"], row["lazy"]) for row in tables["ebt_modes"].to_pylist()
    }
    assert [modes.get(("a", at)) for at in (9, 10, 39, 40, 89, 90, 119)] == [
        None, (4, 0), (4, 0), (1, 3), (1, 3), (0, 0), (0, 0),
    ]  # fmt: skip
    assert [modes.get(("b", at)) for at in (19, 20, 89, 90)] == [None, (0, 5), (0, 5), (0, 0)]
    rows = {name: [row | {"layering": "lli"} for row in table.to_pylist()] for name, table in tables.items()}
    drawn = modes_of(rows["ebt_connections"], rows["ebt_modes"], made_manifest())
    assert drawn is not None
    assert drawn.spec["data"][0]["y"] == ["a from b", "b from a"]


def test_what_an_author_sends_stands_beside_its_followers():
    causes = [
        {"layering": "x", "node": "a", "cause": "messages", "sent_bytes": 300},
        {"layering": "x", "node": "a", "cause": "rest", "sent_bytes": 30},
        {"layering": "x", "node": "b", "cause": "rest", "sent_bytes": 5},
    ]
    published = [
        {"layering": "x", "node": "a", "feed": "/f", "items": 2},
        {"layering": "x", "node": "b", "feed": "/g", "items": 1},
        {"layering": "lli", "node": "a", "feed": "/f", "items": 1},
    ]
    deliveries = [{"layering": "x", "node": node, "feed": "/f"} for node in "bccd"]
    assert authors(causes, published, deliveries).to_pylist() == [
        {"layering": "x", "node": "a", "followers": 3, "published": 2, "sent_bytes": 330},
        {"layering": "x", "node": "b", "followers": 0, "published": 1, "sent_bytes": 5},
    ]


def test_the_page_shows_the_median_peer_the_busiest_and_the_author():
    sizes = {"p": 100, "q": 900, "r": 300, "s": 200}
    rows = [
        {"layering": "lli", "node": node, "cause": cause, "sent_bytes": size, "received_bytes": 0}
        for node, size in sizes.items()
        for cause in ("messages", "note")
    ]
    written = [
        {"layering": "lli", "node": node, "followers": followers, "published": 4, "sent_bytes": 800}
        for node, followers in (("p", 1), ("r", 2), ("s", 3))
    ]
    reached = [{"layering": "lli", "hops": hops, "copies": 2} for hops in (1, 2)]
    page = render(
        made_manifest(protocols={"lli": "ssb"}), made_tables(causes=rows, authors=written, reach=reached)
    )
    drawn = figures(page)
    shown = {
        who: {bar["name"]: bar["x"] for bar in variant["data"]}
        for who, variant in drawn["causes"]["variants"].items()
    }
    notes = "notes of EBT, or a clock"
    assert shown["median peer"] == {"messages": [0.2], notes: [0.2]}
    assert shown["busiest peer"] == {"messages": [0.9], notes: [0.9]}
    assert shown["author of most"] == {"messages": [0.1], notes: [0.1]}
    crossed = drawn["spread"]["variants"]["connections crossed"]["data"]
    assert [(line["name"], line["x"], line["y"]) for line in crossed] == [("lli", [0, 1, 2], [0, 50, 100])]
    [points] = drawn["popularity"]["data"]
    assert (points["x"], points["y"]) == ([1, 2, 3], [0.2, 0.2, 0.2])
    assert "Replication between peers" not in render(made_manifest(), made_tables())
