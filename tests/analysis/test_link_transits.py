"""What crossed the links, and what is told from it, on tables small enough to work out by hand."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.metrics.run.feed_hops import feed_hops
from analysis.spark.engine import frame
from analysis.tables.link_transits import ENDS, TRANSITS, hop_delays, journeys, link_load, losses, transits
from analysis.tables.matching import match
from analysis.tables.schema import PACKETS
from base.units import MS

RUNS = "layering string, position long, start_ns long, end_ns long, dropped long, expected long, credit long"
LATENCIES = "layering string, node string, feed string, seq long, published long, delivered long"


def rows(table, *columns):
    chosen = table.select(*columns) if columns else table
    return sorted(map(tuple, chosen.collect()), key=repr)


def matched(sightings, least=10):
    """Match (is_out, time, key); return the times of arrival in the order of the sendings."""
    is_out, times, keys = zip(*sightings, strict=True) if sightings else ((), (), ())
    return [time for _, time in match(is_out, times, keys, least)]


def test_an_arrival_is_of_the_latest_sending_that_it_can_be_of():
    assert matched([(True, 0, "a"), (False, 10, "a")]) == [10]
    # Sent again after 50, the first was lost.
    assert matched([(True, 0, "a"), (True, 50, "a"), (False, 60, "a")]) == [None, 60]
    # Sent again while the first was still on its way: what arrives at 12 cannot have left at 5.
    assert matched([(True, 0, "a"), (True, 5, "a"), (False, 12, "a")]) == [12, None]
    # Both arrived: in the order in which they left.
    assert matched([(True, 0, "a"), (True, 5, "a"), (False, 16, "a"), (False, 20, "a")]) == [16, 20]
    # A copy that the link has made is no packet of its own.
    assert matched([(True, 0, "a"), (False, 10, "a"), (False, 11, "a")]) == [10]
    assert matched([(True, 0, "a"), (True, 0, "b"), (False, 15, "b")]) == [None, 15]
    assert matched([]) == []


@given(st.lists(st.tuples(st.integers(0, 100), st.sampled_from("ab"), st.booleans()), max_size=12))
def test_over_a_link_that_only_loses_every_arrival_finds_its_sending(sendings):
    """A link of one delay: what is not lost arrives 10 later, so the truth is known."""
    sendings.sort(key=lambda sending: sending[0])
    sightings = [(time, 1, True, key) for time, key, _ in sendings]
    sightings += [(time + 10, 0, False, key) for time, key, lost in sendings if not lost]
    sightings.sort(key=lambda sighting: sighting[:2])
    got = matched([(out, time, key) for time, _, out, key in sightings])
    arrivals = sorted(time for time in got if time is not None)
    assert arrivals == sorted(time + 10 for time, _, lost in sendings if not lost)
    sent = [(time, key) for time, key, _ in sendings]
    for key in "ab":
        # Of several sendings at one time any may be the one that was lost.
        truth = sorted((t, k, lost) for t, k, lost in sendings if k == key)
        told = sorted((t, k, a is None) for (t, k), a in zip(sent, got, strict=True) if k == key)
        assert [(t, lost) for t, _, lost in told] == [(t, lost) for t, _, lost in truth]


@pytest.fixture(scope="module")
def ends(spark):
    links = [("p-eth0", "r-eth0"), ("r-eth1", "s-eth0")]
    ways = [way for a, b in links for way in ((a, b), (b, a))]
    rows = [
        ("x", interface, is_out, out[0], into[0], "link", 10, 10, 1.0)
        for out, into in ways
        for interface, is_out in ((out, True), (into, False))
    ]
    return spark.createDataFrame(
        pa.Table.from_pylist([dict(zip(ENDS.names, row, strict=True)) for row in rows], ENDS)
    )


@pytest.fixture(scope="module")
def runs(spark):
    return spark.createDataFrame([("x", 0, 0, 100, 0, 0, None)], RUNS)


def crossed(spark, *said):
    """Make transits of items: (sender, receiver, seq, sent, received)."""
    usual = dict.fromkeys(TRANSITS.names) | {"layering": "x", "kind": "data", "feed": "f", "frame_bytes": 5}
    made = [
        usual | {"sender": a, "receiver": b, "seq": n, "sent": sent, "received": received}
        for a, b, n, sent, received in said
    ]
    return frame(spark, pa.Table.from_pylist(made, TRANSITS))


@pytest.mark.spark
def test_sightings_of_a_packet_become_one_row(spark, ends):
    def seen(interface, direction, frame, time, kind, **said):
        usual = dict.fromkeys(PACKETS.names) | {"layering": "x", "frag_count": 1, "frame_bytes": 9}
        made = usual | {"interface": interface, "node": interface[0], "direction": direction}
        made |= {"frame": frame, "time": time, "kind": kind} | said
        return tuple(made[name] for name in PACKETS.names)

    asked = {"name": "/f/seq=1", "feed": "/f", "seq": 1, "send_credit": 4, "must_be_fresh": True}
    packets = spark.createDataFrame(
        [
            seen("s-eth0", "out", 1, 0, "lli", **asked),
            seen("r-eth1", "in", 2, 10, "lli", **asked),
            seen("r-eth1", "out", 3, 11, "idle"),
            seen("s-eth0", "in", 4, 22, "idle"),
            seen("r-eth1", "out", 5, 30, "interest", name="/f/32=notify/seq=7", nonce=1),
            seen("r-eth1", "out", 6, 40, "interest", name="/f/32=metadata", nonce=2),
            seen("s-eth0", "in", 7, 50, "interest", name="/f/32=metadata", nonce=2),
            seen("r-eth1", "out", 8, 60, "interest", name="/f", nonce=3, is_persistent=True),
            seen("r-eth1", "out", 9, 70, "other"),
            seen("r-eth1", "out", 10, 71, "other", frame_bytes=12),
            seen("s-eth0", "in", 11, 84, "other", frame_bytes=12),
            seen("r-eth1", "out", 12, 90, "malformed"),
        ],
        PACKETS.spark,
    )
    messages = packets.where("kind in ('interest', 'lli')").selectExpr("*", "1L as frames")
    got = transits(packets, messages, ends)
    assert got.schema.names == TRANSITS.names
    assert {row.feed_tip for row in got.collect()} == {None}
    told = ("sender", "receiver", "sent", "received", "kind", "feed", "seq", "topic", "frames")
    assert rows(got, *told) == [
        ("r", "s", 11, 22, "idle", None, None, None, 1),
        ("r", "s", 30, None, "interest", "/f", 7, "notify", 1),
        ("r", "s", 40, 50, "interest", "/f", None, "metadata", 1),
        ("r", "s", 60, None, "interest", "/f", None, None, 1),
        ("r", "s", 70, None, "other", None, None, None, 1),
        ("r", "s", 71, 84, "other", None, None, None, 1),
        ("s", "r", 0, 10, "lli", "/f", 1, None, 1),
    ]


@pytest.mark.spark
def test_feed_state_is_told(spark, ends):
    usual = dict.fromkeys(PACKETS.names) | {"layering": "x", "frag_count": 1, "frame_bytes": 9}
    seen = [("r-eth1", "out", 3, 11), ("s-eth0", "in", 4, 22), ("r-eth1", "out", 5, 30)]
    made = [
        usual | {"interface": i, "node": i[0], "direction": way, "frame": n, "time": time, "kind": "idle"}
        for i, way, n, time in seen
    ]
    table = spark.createDataFrame([tuple(row[name] for name in PACKETS.names) for row in made], PACKETS.spark)
    packets = table.drop("feed_tip", "feed_limit").selectExpr(
        "*", "IF(frame < 5, 7L, NULL) AS feed_tip", "IF(frame < 5, 9L, NULL) AS feed_limit"
    )
    messages = packets.where("false").selectExpr("*", "1L as frames")
    got = transits(packets, messages, ends)
    assert rows(got, "sent", "received", "feed_tip", "feed_limit") == [(11, 22, 7, 9), (30, None, None, None)]


@pytest.mark.spark
def test_the_load_of_links_is_counted_where_it_is_sent(spark, runs):
    table = crossed(
        spark, ("p", "r", 1, 0, 10), ("p", "r", 2, 49, None), ("p", "r", 3, 50, 60), ("r", "s", 1, 100, None)
    )
    assert rows(link_load(table, runs, slices=2)) == [
        ("x", "p", "r", 0, "data", 2, 1, 10),
        ("x", "p", "r", 1, "data", 1, 0, 5),
        ("x", "r", "s", 1, "data", 1, 1, 5),  # the very end is of the last slice
    ]


@pytest.mark.spark
def test_a_hop_takes_from_when_one_node_has_an_item_to_when_the_next_does(spark):
    table = crossed(
        spark,
        ("p", "r", 1, 5, 15),
        ("r", "s", 1, 20, 35),
        ("p", "r", 1, 40, 50),  # again: the first arrival counts
        ("p", "r", 2, 60, None),
    )
    late = spark.createDataFrame([("x", "s", "f", 1, 0, 35)], LATENCIES)
    got = {row[1:3]: row[3:] for row in map(tuple, hop_delays(table, late, points=2).collect())}
    assert got == {
        ("p", "r"): (1, [15, 15, 15]),
        ("r", "s"): (1, [20, 20, 20]),
        ("*", "*"): (2, [15, 17.5, 20]),
    }


@pytest.mark.spark
def test_a_loss_lasts_from_when_the_packet_was_due_until_the_item_is_there(spark, ends):
    table = crossed(
        spark,
        ("p", "r", 1, 0, None),  # due at 0 + 10 + 5
        ("p", "r", 1, 30, None),
        ("p", "r", 1, 50, 65),
        ("p", "r", 2, 0, 15),
        ("p", "r", 2, 20, None),  # there already: no loss
        ("r", "s", 1, 70, None),  # never comes
    )
    assert rows(losses(table, ends)) == [
        ("x", "p", "r", "f", 1, 15, 50),
        ("x", "r", "s", "f", 1, 85, None),
    ]


@pytest.mark.spark
def test_of_too_many_transits_those_of_the_first_items_are_kept(spark):
    table = crossed(spark, *(("p", "r", n, n * MS, n * MS + 10) for n in range(1, 11)))
    assert journeys(table, 100).count() == 10
    assert rows(journeys(table, 5), "seq") == [(n,) for n in range(1, 6)]


@pytest.mark.spark
def test_feeds_by_hop(spark):
    usual = dict.fromkeys(TRANSITS.names) | {"layering": "x", "feed": "f", "received": 9, "frame_bytes": 5}
    up, down = {"sender": "s", "receiver": "r"}, {"sender": "r", "receiver": "s"}
    made = [
        up | {"kind": "lli", "seq": 1, "send_credit": 4},
        up | {"kind": "lli", "seq": 5, "send_credit": 8},
        up | {"kind": "lli", "seq": 9, "send_credit": 0},
        up | {"kind": "interest", "seq": 2},
        up | {"kind": "interest", "topic": "sync"},
        up | {"kind": "interest", "is_persistent": True},
        up | {"kind": "interest", "feed": None},
        *(down | {"kind": "data", "seq": n, "received": came} for n, came in ((1, 5), (2, None), (2, 7))),
        down | {"kind": "data", "topic": "metadata", "seq": 1},
        down | {"kind": "nack"},
        down | {"kind": "idle"},
        {"sender": "a", "receiver": "b", "kind": "data", "seq": 3},
    ]
    table = pa.Table.from_pylist([usual | row for row in made], TRANSITS)
    got = feed_hops(frame(spark, table)).toArrow().sort_by("node").to_pylist()
    counts = ("items", "again", "lost", "llis", "credit", "interests", "topics", "nacks")
    assert [[row[name] for name in ("upstream", "node", *counts)] for row in got] == [
        ["a", "b", 1, 0, 0, 0, None, 0, 0, 0],
        ["r", "s", 3, 1, 1, 3, 6.0, 1, 1, 1],
    ]
