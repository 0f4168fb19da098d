"""Each transformation on tables small enough to work out by hand."""

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyspark.sql import functions as F  # noqa: N812

from analysis.columns.values import ALL
from analysis.columns.values import layers as all_layers
from analysis.decode.messages import STREAM_LAYERS
from analysis.decode.protocols.protocol import NDN
from analysis.metrics import aggregates
from analysis.metrics.captures import aggregates as capture_aggregates
from analysis.metrics.catalogue import METRICS
from analysis.metrics.comparison import compare, measure
from analysis.metrics.run import bottleneck, delivery, held_state, moves
from analysis.metrics.run.delivery import copies
from analysis.metrics.run.in_flight import in_flight
from analysis.metrics.run.lower_bounds import feeds_at, item_sizes, wire_bound, with_bound
from analysis.pit.outcomes import lives
from analysis.pit.windows import levels
from analysis.pit.windows.slots import SIZES, slots_of
from analysis.pit.windows.tables import occupancy as occupancy_of
from analysis.pit.windows.tables import write_pits
from analysis.pit.windows.validation import samples, truth, truth_summary
from analysis.run import context
from analysis.run.context import Span
from analysis.spark.engine import frame
from analysis.tables.latency import carried, latency, quantiles
from analysis.tables.overhead import overhead, traffic
from analysis.tables.protocol_messages import SEEN
from analysis.tables.reassembly import reassemble
from analysis.tables.schema import PACKETS, PIT_INTERVALS

pytestmark = pytest.mark.spark

STEPS = (
    "layering string, node string, time long, delta_entries long, delta_bytes long, delta_ranges long, "
    "delta_credit long, delta_satisfied long, delta_expired long"
)
RUNS = (
    "layering string, position long, start_ns long, end_ns long, dropped long, expected long, credit long, "
    "from_ns long, until_ns long"
)
NODES = "layering string, node string, role string"
FEEDS = "layering string, feed string, cross boolean, last long"
BREAKS = "layering string, interface string, node string, time long, event string"
HOPS = (
    "layering string, feed string, subscriber string, sender string, receiver string, delay_ns long, "
    "ns_per_byte double"
)


def rows(table, *columns):
    """Return a table's rows as sorted tuples."""
    chosen = table.select(*columns) if columns else table
    return sorted(map(tuple, chosen.collect()), key=repr)


def nodes(spark, *names):
    return spark.createDataFrame([("x", name, "forwarder") for name in names], NODES)


@pytest.fixture(scope="module")
def no_breaks(spark):
    return spark.createDataFrame([], BREAKS)


@pytest.fixture(scope="module")
def whole(no_breaks):
    """Reassembles packets where nothing breaks."""
    return lambda table: reassemble(table, no_breaks)


@pytest.fixture(scope="module")
def late(spark):
    """Takes events for latencies: of feeds f, g (forked) and other, cross traffic c; node a is an archive."""
    feeds = spark.createDataFrame(
        [("x", "f", False, None), ("x", "g", False, 3), ("x", "other", False, None), ("x", "c", True, None)],
        FEEDS,
    )
    roles = spark.createDataFrame([("x", "a", "archive")], NODES)
    return lambda table: latency(table, feeds, roles)


# --- reassemble -------------------------------------------------------------------------------------------


@pytest.fixture
def packets(spark):
    def make(*dicts):
        usual = dict.fromkeys(PACKETS.names) | {
            "interface": "a-eth0",
            "node": "a",
            "direction": "in",
            "frag_index": 0,
            "frag_count": 1,
            **dict.fromkeys(
                ("eth_bytes", "ip_bytes", "udp_bytes", "carried_bytes", "lp_bytes", "ndn_bytes"), 0
            ),
            "frame_bytes": 0,
        }
        table = [tuple((usual | row)[name] for name in PACKETS.names) for row in dicts]
        return spark.createDataFrame(table, PACKETS.spark).withColumn("layering", F.lit("x"))

    return make


def fragment(index, time, *, sequence=10, count=3, **fields):
    kind = "data" if index == 0 else "fragment"
    return {
        "kind": kind,
        "name": "/n" if index == 0 else None,
        "frame": time,
        "time": time,
        "frame_bytes": 100 + index,
        "ndn_bytes": 50,
        "lp_sequence": sequence + index,
        "frag_index": index,
        "frag_count": count,
    } | fields


COLUMNS = ("kind", "name", "time", "frame", "frame_bytes", "ndn_bytes", "frames")


def test_whole_packets_pass_and_what_is_none_does_not(packets, whole):
    table = packets(
        {"kind": "interest", "name": "/i", "frame": 1, "time": 5, "frame_bytes": 90, "ndn_bytes": 40},
        {"kind": "malformed", "frame": 2, "time": 6},
        {"kind": "other", "frame": 3, "time": 7, "frag_count": None},
    )
    assert rows(whole(table), *COLUMNS) == [("interest", "/i", 5, 1, 90, 40, 1)]


def test_fragments_join_in_any_order_at_the_time_of_the_last(packets, whole):
    table = packets(fragment(2, 7), fragment(0, 9), fragment(1, 8))
    assert rows(whole(table), *COLUMNS) == [("data", "/n", 9, 9, 303, 150, 3)]


def test_a_packet_of_which_a_fragment_is_missing_has_not_arrived(packets, whole):
    assert rows(whole(packets(fragment(0, 1), fragment(2, 2)))) == []
    twice = packets(fragment(0, 1), fragment(1, 2), fragment(1, 3))
    assert rows(whole(twice)) == []


def test_a_fragment_that_came_twice_counts_once(packets, whole):
    doubled = fragment(0, 1), fragment(1, 2), fragment(0, 3), fragment(2, 4), fragment(2, 5), fragment(1, 6)
    assert rows(whole(packets(*doubled)), *COLUMNS) == [("data", "/n", 4, 4, 303, 150, 3)]


def test_fragments_of_another_packet_interface_or_direction_are_not_mixed(packets, whole):
    table = packets(
        fragment(0, 1, count=2),
        fragment(1, 2, count=2, sequence=20),
        fragment(1, 3, count=2, interface="a-eth1"),
        fragment(1, 4, count=2, direction="out"),
    )
    assert rows(whole(table)) == []
    assert rows(whole(table.union(packets(fragment(1, 5, count=2)))), "time") == [(5,)]


def test_a_sequence_at_the_end_of_the_numbers_raises_nothing(packets, whole):
    table = packets(fragment(1, 1, lp_sequence=-(2**63)), fragment(0, 2, lp_sequence=2**63 - 1))
    assert rows(whole(table)) == []


def test_a_break_parts_fragments_of_one_number(spark, packets):
    table = packets(fragment(0, 1, count=2), fragment(1, 9, count=2))
    for place, time, count in (("a-eth0", 5, 0), ("a-eth0", 1, 1), ("a-eth1", 5, 1)):
        breaks = spark.createDataFrame([("x", place, "a", time, "restart")], BREAKS)
        assert reassemble(table, breaks).count() == count


# --- pit --------------------------------------------------------------------------------------------------


def test_packets_are_followed_by_time_then_frame_and_node_by_node(spark, packets, whole, tmp_path):
    asked = {"kind": "interest", "name": "/n", "name_length": 3, "nonce": 1, "lifetime_ns": 1000}
    table = packets(
        {"kind": "data", "name": "/n", "name_length": 3, "time": 10, "frame": 4, "direction": "out"},
        asked | {"time": 10, "frame": 3},
        asked | {"time": 10, "frame": 2, "node": "b", "interface": "b-eth0", "direction": "out"},
    )
    write_pits(whole(table), tmp_path, ends={"x": 2000}, keep_steps=True)
    assert of(tmp_path / "pit_intervals") == [
        ("a", "classic", "/n", 10, 10, "satisfied", 1, 0, 1, 0, 0, 1, 0, 0, 0),
        ("b", "classic", "/n", 10, 1010, "expired", 0, 1, 0, 1, 0, 0, 0, 19, 0),
    ]
    assert of(tmp_path / "pit_steps") == [
        ("b", 10, 1, 19, 0, 0, 0, 0),
        ("b", 1010, -1, -19, 0, 0, 0, 1),
    ]
    write_pits(whole(table), tmp_path / "open")
    assert not (tmp_path / "open" / "pit_steps").exists()
    ended = [(row[0], row[4], row[5]) for row in of(tmp_path / "open" / "pit_intervals")]
    assert ended == [("a", 10, "satisfied"), ("b", 1010, "open")]


def of(table):
    """Return the rows of a table of run x that the analysis has written, sorted."""
    (place,) = table.iterdir()
    assert place.name == "layering=x"
    return sorted(tuple(row.values()) for row in ds.dataset(place).to_table().to_pylist())


ONE_SLOT = slots_of(pa.Table.from_pylist([{"layering": "x", "rows": 1, "begin": 0, "end": 1000}], SIZES))


def summaries(steps, span, over=None):
    """Return each node's summary over a run."""
    runs = {"x": Span(*span)}, ("entries", "bytes"), 40, over and {"x": Span(*over)}
    return {
        row["node"]: row
        for row in levels.scan(occupancy_of(steps, ONE_SLOT), *runs, slots=ONE_SLOT)["summary"]
    }


@pytest.fixture(scope="module")
def steps(spark):
    """Node a: one entry from 10 to 40, a second from 20 to 40; node b: one from 20 to 30."""
    return spark.createDataFrame(
        [
            ("x", "a", 10, 1, 22, 0, 0, 0, 0),
            ("x", "a", 20, 1, 30, 1, 8, 0, 0),
            ("x", "a", 40, -1, -22, 0, 0, 1, 0),
            ("x", "a", 40, -1, -30, -1, -8, 0, 0),
            ("x", "b", 20, 1, 50, 0, 0, 0, 0),
            ("x", "b", 30, -1, -50, 0, 0, 0, 1),
        ],
        STEPS,
    )


def test_states_are_added_up_of_steps_of_nodes_and_of_all_together(spark, steps):
    at_once = spark.createDataFrame(
        [("x", "a", 15, 1, 9, 0, 0, 0, 0), ("x", "a", 15, -1, -9, 0, 0, 1, 0)], STEPS
    )
    states = occupancy_of(steps.union(at_once), ONE_SLOT).drop("layering").toArrow().to_pylist()
    assert sorted(tuple(row.values()) for row in states) == [
        (ALL, 10, 1, 22, 0, 0),
        (ALL, 20, 3, 102, 1, 8),
        (ALL, 30, 2, 52, 1, 8),
        (ALL, 40, 0, 0, 0, 0),
        ("a", 10, 1, 22, 0, 0),
        ("a", 20, 2, 52, 1, 8),
        ("a", 40, 0, 0, 0, 0),
        ("b", 20, 1, 50, 0, 0),
        ("b", 30, 0, 0, 0, 0),
    ]


def moments(spark, *times, node="a"):
    return spark.createDataFrame([("x", node, t) for t in times], "layering string, node string, time long")


def test_samples_are_the_state_after_all_up_to_the_time(spark, steps):
    got = samples(steps, moments(spark, 0, 9, 10, 20, 39, 40, 99))
    assert rows(got, "time", "entries", "bytes", "entries_low", "entries_high") == [
        (0, 0, 0, 0, 0),
        (10, 1, 22, 1, 1),
        (20, 2, 52, 2, 2),
        (39, 2, 52, 2, 2),
        (40, 0, 0, 0, 0),
        (9, 0, 0, 0, 0),
        (99, 0, 0, 0, 0),
    ]


def test_samples_of_a_node_without_entries_is_zero(spark, steps):
    assert rows(samples(steps, moments(spark, 20, node="c")), "entries", "bytes") == [(0, 0)]


def test_samples_bound_what_may_be_in_flight(spark, steps):
    columns = ("time", "entries", "entries_low", "entries_high", "bytes_low", "bytes_high")
    assert rows(samples(steps, moments(spark, 15, 22, 38, 60), 5), *columns) == [
        (15, 1, 1, 2, 22, 52),
        (22, 2, 1, 2, 22, 52),
        (38, 2, 0, 2, 0, 52),
        (60, 0, 0, 0, 0, 0),
    ]


def test_truth_sets_counters_beside_what_was_derived(spark, steps):
    counters = spark.createDataFrame(
        [
            ("x", "a", 10, 1, 22, 0, 0, 0, 0),
            ("x", "a", 22, 1, 22, 1, 5, 0, None),
            ("x", "a", 99, 1, 5, 0, 0, 0, None),
            ("x", "nfd", 99, None, None, None, None, None, None),
        ],
        "layering string, node string, time long, pit_entries long, pit_bytes long, pit_ranges long, "
        "pit_credit long, pit_satisfied long, pit_expired long",
    )
    exact = truth(samples(steps, counters).toArrow(), counters.toArrow())
    whats = ("entries", "bytes", "ranges", "credit", "satisfied", "expired")
    pairs = [f"{side}_{what}" for what in whats for side in ("derived", "counted")]
    assert exact.column_names == ["layering", "node", "time", *pairs, "agrees"]
    assert [tuple(row.values()) for row in exact.to_pylist()] == [
        ("x", "a", 10, 1, 1, 22, 22, 0, 0, 0, 0, 0, 0, 0, 0, True),
        ("x", "a", 22, 2, 1, 52, 22, 1, 1, 8, 5, 0, 0, 0, None, False),
        ("x", "a", 99, 0, 1, 0, 5, 0, 0, 0, 0, 1, 0, 0, None, False),
    ]
    (summary,) = truth_summary(exact).to_pylist()
    assert tuple(summary.values()) == ("x", 3, 1, 1, 1, 30, 0, 3, 1, 0)
    lenient = truth(samples(steps, counters, 5).toArrow(), counters.toArrow())
    (summary,) = truth_summary(lenient).to_pylist()
    assert tuple(summary.values()) == ("x", 3, 1, 2, 1, 30, 0, 3, 1, 0)


def test_summary_weighs_by_time(steps):
    got = summaries(steps, (0, 100))
    # a: one entry for 10, two for 20 of 100; bytes 22 for 10 and 52 for 20.
    assert got["a"]["mean_entries"] == pytest.approx(0.5)
    assert got["a"]["mean_bytes"] == pytest.approx((22 * 10 + 52 * 20) / 100)
    assert (got["a"]["peak_entries"], got["a"]["peak_bytes"]) == (2, 52)
    assert (got["a"]["mean_credit"], got["a"]["peak_credit"]) == (pytest.approx(8 * 20 / 100), 8)
    assert got["b"]["mean_entries"] == pytest.approx(0.1)
    assert got[ALL]["mean_entries"] == pytest.approx(0.6)
    assert (got[ALL]["peak_entries"], got[ALL]["peak_bytes"]) == (3, 102)
    everywhere = levels.with_idle([*got.values()], [("x", "a"), ("x", "c")])
    assert everywhere[:-1] == [*got.values()]
    assert everywhere[-1] == {"layering": "x", "node": "c"} | dict.fromkeys(levels.SUMMARY.names[2:], 0)


def test_summary_leaves_out_what_is_after_the_run(steps):
    row = summaries(steps, (0, 15))["a"]
    assert row["mean_entries"] == pytest.approx(5 / 15)
    assert row["peak_entries"] == 1


def test_means_are_over_the_time_of_publishing_and_peaks_over_the_run(steps):
    row = summaries(steps, (0, 100), (15, 25))["a"]
    assert row["mean_entries"] == pytest.approx(1.5)
    assert row["peak_entries"] == 2


def test_lives_are_what_entries_came_to(spark):
    ended = [
        # node, opened, closed, outcome, interests in and out, renewals, peak_bytes
        ("a", 0, 10_000_000, "satisfied", 3, 1, 0, 30),
        ("a", 5, 5, "satisfied", 1, 0, 0, 0),  # from the cache: it has not lasted
        ("a", 0, 30_000_000, "expired", 1, 1, 0, 30),
        ("b", 0, 20_000_000, "nacked", 1, 0, 2, 30),
        ("b", 0, 90_000_000, "open", 2, 1, 5, 30),
    ]
    table = spark.createDataFrame(
        [
            ("x", node, "classic", "/n", opened, closed, how, come, went, 1, 1, 0, 0, renewed, size, 0)
            for node, opened, closed, how, come, went, renewed, size in ended
        ],
        PIT_INTERVALS.spark,
    )
    # Those that are told of are the same in the page of captures.
    lived = [(row.node, row.life_ns) for row in capture_aggregates.lifetimes(table).collect()]
    assert sorted(lived) == [("a", 10_000_000), ("a", 30_000_000), ("b", 20_000_000)]
    got = {row.node: row for row in lives(table, points=2).collect()}
    assert (got["a"].entries, got["a"].satisfied, got["a"].expired, got["a"].nacked) == (3, 2, 1, 0)
    assert (got["a"].lifetime_p50, got["a"].lifetime_max) == (20, 30)
    assert got["a"].lifetimes_ns == [10_000_000, 20_000_000, 30_000_000]
    assert (got["b"].lifetime_p50, got["b"].open, got["b"].renewals) == (20, 1, 7)
    assert (got["*"].entries, got["*"].aggregated_in, got["*"].aggregated_out) == (5, 6, 3)
    assert aggregates.lives_totals(lives(table).toArrow()) == {
        "x": {
            "renewals": 7,
            "pit_lifetime_p50": 20,
            "pit_lifetime_p95": None,  # of three
            "pit_satisfied_share": 50,
            "pit_expired_share": 25,
            "pit_nacked_share": 25,
            "pit_aggregation": 2,
        }
    }


def test_curves_keep_the_extremes_of_each_slice(spark):
    shape = [1, 4, 2, 3, 0, 1, 0, 1]
    deltas = [b - a for a, b in zip([0, *shape], shape, strict=False)]
    table = spark.createDataFrame([("x", "a", k, d, d * 10, 0, 0, 0, 0) for k, d in enumerate(deltas)], STEPS)
    occupancy = occupancy_of(table, ONE_SLOT)

    def curve(bins):
        rows = levels.scan(occupancy, {"x": Span(0, 1000)}, ("entries", "bytes"), bins, slots=ONE_SLOT)[
            "curves"
        ]
        return [tuple(row.values())[2:] for row in rows if row["node"] == "a"]

    assert curve(1) == [
        (0, 1, 10),
        (1, 4, 40),
        (4, 0, 0),  # the first of the two least
        (7, 1, 10),
    ]
    assert len(curve(1000)) == len(shape)


# --- latency ----------------------------------------------------------------------------------------------

EVENTS = "layering string, time long, node string, event string, feed string, seq long, bytes long, line long"


def noted(spark, *rows):
    """Make events of (time, node, event, feed, seq, bytes), noted in this order."""
    return spark.createDataFrame([("x", *row, line) for line, row in enumerate(rows)], EVENTS)


@pytest.fixture(scope="module")
def events(spark):
    return noted(
        spark,
        (0, "p", "published", "f", 1, 100),
        (5, "p", "published", "f", 2, 200),
        (10, "s1", "delivered", "f", 1, 100),
        (12, "s1", "delivered", "f", 1, 100),
        (25, "s1", "delivered", "f", 2, 200),
        (40, "s2", "delivered", "f", 1, 100),
        (41, "s2", "rejected", "f", 2, 200),
    )


@pytest.fixture(scope="module")
def latencies(late, events):
    return late(events)


def test_latency_is_from_publication_to_the_first_delivery(latencies):
    assert rows(latencies) == [
        ("x", "s1", None, "f", 1, "subscribed", 100, 0, 10, 10),
        ("x", "s1", None, "f", 2, "subscribed", 200, 5, 25, 20),
        ("x", "s2", None, "f", 1, "subscribed", 100, 0, 40, 40),
    ]


def test_a_subscriber_that_joins_late_waits_only_from_then(spark, late):
    table = noted(
        spark,
        (0, "p", "published", "f", 1, 9),
        (0, "s", "joined", "other", 0, 0),
        (30, "s", "joined", "f", 0, 0),
        (50, "p", "published", "f", 2, 9),
        (70, "s", "delivered", "f", 1, 9),
        (75, "s", "delivered", "f", 2, 9),
        (80, "s", "joined", "f", 0, 0),
    )
    assert rows(late(table), "seq", "latency_ns") == [(1, 40), (2, 25)]


def test_items_of_different_feeds_are_different_items(spark, late):
    table = noted(
        spark,
        (0, "p", "published", "f", 1, 9),
        (7, "q", "published", "g", 1, 9),
        (10, "s", "delivered", "f", 1, 9),
        (10, "s", "delivered", "g", 1, 9),
    )
    assert rows(late(table), "feed", "latency_ns") == [("f", 10), ("g", 3)]


def test_deliveries_that_a_layering_is_not_judged_by(spark, late):
    table = noted(
        spark,
        *((0, "p", "published", feed, seq, 10) for feed in "fgc" for seq in (1, 4)),
        *((5, "s", "delivered", feed, seq, 10) for feed in "fgc" for seq in (1, 4)),
        (5, "a", "delivered", "f", 1, 10),
    )
    got = late(table)
    assert rows(got, "node", "feed", "seq", "purpose") == [
        ("a", "f", 1, "archived"),
        ("s", "c", 1, "cross"),
        ("s", "c", 4, "cross"),
        ("s", "f", 1, "subscribed"),
        ("s", "f", 4, "subscribed"),
        ("s", "g", 1, "subscribed"),
        ("s", "g", 4, "beyond a fork"),
    ]
    assert rows(carried(got)) == [("x", 6, 60, 1)]
    bounded = got.withColumn("bound_ns", F.lit(None).cast("long"))
    assert rows(quantiles(bounded), "node", "deliveries") == [("*", 3), ("s", 3)]
    assert rows(delivery.first_items(table, got)) == []


def test_quantiles_by_subscriber_and_of_all(latencies):
    bounded = latencies.withColumn("bound_ns", F.lit(10).cast("long"))
    got = {row.node: row for row in quantiles(bounded, points=2).collect()}
    assert got["s1"].quantiles_ns == [10, 15, 20]
    assert got["*"].quantiles_ns == [10, 20, 40]
    every = got["*"]
    assert (every.deliveries, every.payload_bytes) == (3, 400)
    assert (every.latency_p50, every.latency_max) == (pytest.approx(20e-6), pytest.approx(40e-6))
    assert every.latency_p95 == pytest.approx(38e-6)
    assert every.bound_p50 == pytest.approx(10e-6)
    assert (every.latency_ratio_p50, every.latency_ratio_p95) == (2, pytest.approx(3.8))


# --- bound ------------------------------------------------------------------------------------------------


@pytest.fixture
def hops(spark):
    """p -- r -- s1 and s2: the first link 4 ns and 1 ns a byte, the others 10 ns and 0.5 ns a byte."""
    return spark.createDataFrame(
        [
            ("x", "f", "s1", "p", "r", 4, 1.0),
            ("x", "f", "s1", "r", "s1", 10, 0.5),
            ("x", "f", "s2", "p", "r", 4, 1.0),
            ("x", "f", "s2", "r", "s2", 10, 0.5),
        ],
        HOPS,
    )


def item(seq, node, direction, time, **fields):
    return {
        "kind": "data",
        "name": f"/f/{seq}",
        "feed": "f",
        "seq": seq,
        "node": node,
        "interface": f"{node}-eth0",
        "direction": direction,
        "time": time,
        "frame": time,
        "frame_bytes": 150,
        "ndn_bytes": 100,
        **fields,
    }


def test_the_least_that_carries_an_item_is_its_bare_packet(packets, whole):
    table = packets(
        item(1, "p", "out", 1),
        item(1, "p", "out", 2, frame_bytes=142),
        item(2, "p", "out", 3, frame_bytes=1600, ndn_bytes=1472),
        item(3, "p", "out", 4, frame_bytes=1700, ndn_bytes=1473),
        item(3, "p", "out", 5, frame_bytes=1650, ndn_bytes=1473),
        item(4, "p", "out", 6, kind="interest"),
    )
    assert rows(item_sizes(whole(table)), "seq", "wire_bytes") == [(1, 142), (2, 1514), (3, 1650)]


SIZES = "layering string, feed string, seq long, wire_bytes long, alone_bytes long, hop_bytes long"


def test_the_bound_of_a_delivery_is_delay_and_sending_at_each_hop(spark, latencies, hops):
    sizes = spark.createDataFrame([("x", "f", 1, 100, 100, 100)], SIZES)
    got = with_bound(latencies, sizes, hops.where("subscriber = 's1'"))
    assert rows(got, "node", "seq", "bound_ns") == [
        ("s1", 1, 4 + 10 + 150),
        ("s1", 2, None),  # of which no packet was seen
        ("s2", 1, None),  # to which there is no path
    ]
    # Over IP the frames before the last one, 60 bytes, are slow on the slowest link only.
    sizes = spark.createDataFrame([("x", "f", 1, 90, 100, 40)], SIZES)
    got = with_bound(latencies, sizes, hops.where("subscriber = 's1'"))
    assert rows(got, "node", "seq", "bound_ns")[0] == ("s1", 1, 4 + 10 + 40 * 3 // 2 + 60)


def test_the_bound_on_bytes_is_each_item_once_over_the_tree_of_those_who_got_it(spark, latencies, hops):
    sizes = spark.createDataFrame([("x", "f", 1, 100, 100, 100), ("x", "f", 2, 200, 200, 200)], SIZES)
    # Item 1 went to s1 and s2, over three links; item 2 to s1, over two.
    assert rows(wire_bound(latencies, sizes, hops)) == [("x", 5, 3 * 100 + 2 * 200)]


def test_feeds_at_a_node_are_those_on_the_way_to_somebody_who_got_of_them(spark, latencies, hops):
    other = spark.createDataFrame(
        [("x", "g", "s1", "q", "r", 1, 1.0), ("x", "f", "s9", "r", "s9", 1, 1.0)], HOPS
    )
    assert rows(feeds_at(latencies, hops.union(other))) == [
        ("x", "p", 1),
        ("x", "r", 1),
        ("x", "s1", 1),
        ("x", "s2", 1),
    ]


# --- copies -----------------------------------------------------------------------------------------------


def test_copies_are_told_by_link_when_sent_and_by_node_when_they_arrive(packets, whole, spark):
    table = packets(
        item(1, "p", "out", 1),
        item(1, "p", "out", 2, interface="p-eth1"),
        item(1, "p", "out", 9),
        item(1, "r", "in", 5, frame_bytes=160),
        item(1, "r", "in", 12),
        item(1, "r", "in", 13, interface="r-eth1"),
        item(2, "p", "out", 20),
        {"kind": "data", "name": "/other", "direction": "out", "frame": 30, "time": 30},
    )
    counts = ("sent", "repeated", "arrived", "duplicates", "useful_bytes")
    streamed = frame(spark, SEEN.empty_table())
    assert rows(copies(whole(table), streamed), *counts) == [(4, 1, 3, 2, 160)]
    streamed = packets(item(1, "p", "out", 30), item(9, "r", "in", 31, frame_bytes=90))
    assert rows(copies(whole(table), streamed), *counts) == [(5, 2, 4, 2, 250)]


# --- service ----------------------------------------------------------------------------------------------


def test_the_first_item_after_joining(spark, late):
    table = noted(
        spark,
        (0, "p", "published", "f", 1, 9),
        (20, "s", "joined", "f", 0, 0),
        (35, "s", "delivered", "f", 1, 9),
        (40, "s", "stopped", "f", 0, 0),
        (60, "s", "joined", "f", 0, 0),
        (100, "p", "published", "f", 2, 9),
        (107, "s", "delivered", "f", 2, 9),
        (200, "s", "joined", "f", 0, 0),
        (0, "t", "joined", "f", 0, 0),
        (3, "t", "delivered", "f", 1, 9),
    )
    got = delivery.first_items(table, late(table))
    assert rows(got, "node", "joined", "wait_ns") == [
        ("s", 20, 15),
        ("s", 200, None),
        ("s", 60, 7),  # item 2 did not exist when it joined
        ("t", 0, 3),
    ]


def test_items_that_change_what_a_reader_has_seen(spark, late):
    table = noted(
        spark,
        (10_000_000, "p", "published", "f", 1, 9),
        (20_000_000, "p", "published", "g", 1, 9),
        (30_000_000, "p", "published", "f", 2, 9),
        (31_000_000, "s", "delivered", "g", 1, 9),
        (40_000_000, "s", "delivered", "f", 1, 9),  # g's was newer by 10 ms
        (50_000_000, "s", "delivered", "f", 2, 9),
        (60_000_000, "t", "delivered", "f", 2, 9),
        (60_000_000, "t", "delivered", "f", 1, 9),  # at one instant: shown together
    )
    (row,) = delivery.insertions(late(table)).toArrow().to_pylist()
    assert (row["late_share"], row["late_by_max"]) == (20.0, 10.0)
    (row,) = delivery.insertions(late(table).where("node = 't'")).toArrow().to_pylist()
    assert (row["late_share"], row["late_by_max"]) == (0.0, None)


TIMELINE = "layering string, time long, event string, place string"


def test_recovery_is_the_longest_gap_that_begins_after_a_break(spark, late):
    published = [(n * 10, "p", "published", "f", n, 9) for n in range(1, 9)]
    table = noted(
        spark,
        *published,
        *((n * 10 + 5, "s", "delivered", "f", n, 9) for n in (1, 2)),
        *((80 + n, "s", "delivered", "f", n, 9) for n in (3, 4, 5)),
        (105, "s", "delivered", "f", 6, 9),
        (106, "s", "delivered", "f", 7, 9),
        *((n * 10 + 5, "t", "delivered", "f", n, 9) for n in range(1, 9)),
    )
    timeline = spark.createDataFrame(
        [
            ("x", 27, "link-down", "b--c"),
            ("x", 27, "link-down", "a--b"),
            ("x", 60, "link-up", "a--b"),
            ("x", 95, "restart", "r"),
        ],
        TIMELINE,
    )
    runs = spark.createDataFrame([("x", 0, 0, 200, 0, 8, None, 0, 200)], RUNS)
    feeds = spark.createDataFrame([("x", "f", False, None)], FEEDS)
    got = delivery.recovery(table, late(table), feeds, timeline, runs)
    assert rows(got, "time", "event", "place", "node", "gap_ns") == [
        # Item 3 exists from 30 on and comes at 83. Between 85 and 105 lies another break.
        (27, "link-down", "a--b, b--c", "s", 53),
        (27, "link-down", "a--b, b--c", "t", 5),
        # Item 6 comes 10 after the break, and after item 7 nothing to the end at 200.
        (95, "restart", "r", "s", 94),
    ]
    forked = feeds.withColumn("last", F.lit(7).cast("long"))  # item 8 is not due, so nothing is missing
    ends = delivery.recovery(table, late(table), forked, timeline, runs).where("time = 95")
    assert rows(ends, "node", "gap_ns") == [("s", 10)]


def test_faults_are_what_must_not_happen(spark):
    table = noted(
        spark,
        (1, "s", "joined", "f", 0, 0),
        (5, "s", "delivered", "f", 1, 9),
        (5, "s", "delivered", "f", 3, 9),
        (5, "s", "delivered", "f", 2, 9),
        (6, "s", "delivered", "f", 3, 9),
        (6, "s", "delivered", "g", 1, 9),
        (7, "s", "forked", "f", 4, 0),
        (7, "s", "error", "g", 0, 0),
        (8, "s", "error", "g", 0, 0),
        (1, "t", "joined", "f", 0, 0),
        (5, "t", "delivered", "f", 1, 9),
        (1, "p", "published", "f", 1, 9),
    )
    assert rows(delivery.faults(table)) == [("x", "s", 1, 1, 1, 2), ("x", "t", 0, 0, 0, 0)]


# --- sharing ----------------------------------------------------------------------------------------------


def test_flows_are_compared_while_all_are_active(spark, late):
    table = noted(
        spark,
        *((0, "p", "published", "f", n, 10) for n in (1, 2, 3, 4)),
        *((n * 100, "s", "delivered", "f", n, 10) for n in (1, 2, 3, 4)),
        *((150 + n * 50, "t", "delivered", "f", n, 10) for n in (1, 2, 3, 4)),
    )
    got = bottleneck.flows(late(table))
    # From t's first delivery at 200 to t's last at 350: item 3 to s, items 2, 3 and 4 to t.
    assert rows(got, "node", "from_ns", "to_ns", "bytes_per_s") == [
        ("s", 200, 350, pytest.approx(10 / 150e-9)),
        ("t", 200, 350, pytest.approx(30 / 150e-9)),
    ]
    fair = aggregates.fairness(got.toArrow())["x"]
    assert fair["fairness"] == pytest.approx(40**2 / (2 * (10**2 + 30**2)))
    assert fair["throughput"] == pytest.approx(20 / 150e-9 * 8 / 1000)


def test_flows_that_never_meet_and_a_single_flow_have_no_fairness(spark, late):
    apart = noted(
        spark,
        (0, "p", "published", "f", 1, 10),
        (5, "s", "delivered", "f", 1, 10),
        (9, "t", "delivered", "f", 1, 10),
    )
    assert rows(bottleneck.flows(late(apart)), "node", "bytes_per_s") == [("s", None), ("t", None)]
    for table in (apart, apart.where("node != 't'")):
        assert aggregates.fairness(bottleneck.flows(late(table)).toArrow()) == {}


LINKS = (
    "layering string, interface string, ns_per_byte double, max_queue_size long, start_ns long, end_ns long"
)


def test_the_queue_is_what_was_handed_over_less_what_the_rate_let_through(spark, packets):
    sent = [
        {
            "kind": "data",
            "direction": "out",
            "interface": "a-eth0",
            "time": t,
            "frame": k,
            "frame_bytes": size,
        }
        for k, (t, size) in enumerate([(100, 10), (100, 20), (115, 5), (400, 7)])
    ]
    other = [row | {"interface": "a-eth1"} for row in sent] + [row | {"direction": "in"} for row in sent]
    table = packets(*sent, *other)

    def samples(limit):
        links = spark.createDataFrame([("x", "a-eth0", 2.0, limit, 0, 420)], LINKS)
        return bottleneck.queue(table, links, 20)

    # 30 bytes at 100 take until 160; 5 more at 115 until 170.
    assert rows(samples(None).where("time < 200"), "time", "queue_bytes", "peak_bytes") == [
        (100, 30.0, 30.0),
        (120, 25.0, 30.0),
        (140, 15.0, 25.0),
        (160, 5.0, 15.0),
        (180, 0.0, 5.0),
    ]
    assert rows(samples(None).where("time >= 380"), "time", "queue_bytes") == [
        (380, 0.0),
        (400, 7.0),
        (420, 0.0),
    ]
    # With room for two, the third is dropped.
    assert rows(samples(2).where("time = 120"), "queue_bytes") == [(20.0,)]
    # 17 samples: 30, 20 (or 25), ..., and zeros for the most part.
    assert aggregates.queue_totals(samples(None).toArrow()) == {
        "x": {"queue_p50": 0.0, "queue_p99": pytest.approx(29.2), "queue_max": 30.0}
    }


# --- flight -----------------------------------------------------------------------------------------------


def test_items_in_flight_beside_the_state_that_the_network_holds(spark, latencies, steps):
    # Item 1 is in flight from 0 to 40, item 2 from 5 to 25. All nodes together have one entry from 10, three
    # from 20 to 30 and two from then to 40; they change, and would be sampled, at different moments.
    runs = spark.createDataFrame([("x", 0, 0, 100, 0, 1, None, 0, 100)], RUNS)
    assert rows(in_flight(latencies, steps, runs)) == [
        ("x", 0, 60, 0.0, 0.0),
        ("x", 1, 20, (5 * 3 + 10 * 2) / 20, (5 * 102 + 10 * 52) / 20),
        ("x", 2, 20, (10 * 1 + 5 * 3) / 20, (10 * 22 + 5 * 102) / 20),
    ]


def test_state_before_and_after_the_run_is_not_beside_items_in_flight(spark, latencies, steps):
    runs = spark.createDataFrame([("x", 0, 15, 35, 0, 1, None, 0, 100)], RUNS)
    assert rows(in_flight(latencies, steps, runs)) == [
        ("x", 1, 10, (5 * 3 + 5 * 2) / 10, (5 * 102 + 5 * 52) / 10),
        ("x", 2, 10, (5 * 1 + 5 * 3) / 10, (5 * 22 + 5 * 102) / 10),
    ]


def test_many_items_in_flight_are_counted_in_steps(spark, late):
    # Item n is in flight from n on; at last 81 of them are, so steps are of three.
    table = noted(
        spark,
        *((n, "p", "published", "f", n, 1) for n in range(1, 82)),
        *((100, "s", "delivered", "f", n, 1) for n in range(1, 82)),
    )
    network = spark.createDataFrame(
        [("x", ALL, time, step, 0) for time, step in ((3, 3), (4, 1), (5, 1), (81, 76))],
        "layering string, node string, time long, delta_entries long, delta_bytes long",
    )
    runs = spark.createDataFrame([("x", 0, 0, 100, 0, 1, None, 0, 100)], RUNS)
    found = in_flight(late(table), network, runs).where("items in (0, 1, 3, 6, 81)")
    assert rows(found, "items", "lasted_ns", "entries") == [
        (0, 3, 0.0),
        (3, 3, 4.0),
        (6, 3, 5.0),
        (81, 19, 81.0),
    ]


# --- overhead ---------------------------------------------------------------------------------------------


@pytest.fixture
def wire(packets):
    layers = {"eth_bytes": 14, "ip_bytes": 20, "udp_bytes": 8}
    return packets(
        layers | {"kind": "interest", "direction": "out", "frame_bytes": 72, "ndn_bytes": 30},
        layers | {"kind": "interest", "direction": "in", "frame_bytes": 72, "ndn_bytes": 30, "node": "b"},
        layers | {"kind": "lli", "direction": "out", "frame_bytes": 62, "ndn_bytes": 20},
        layers | {"kind": "nack", "direction": "out", "frame_bytes": 80, "lp_bytes": 8, "ndn_bytes": 30},
        layers
        | {
            "kind": "data",
            "direction": "out",
            "frame_bytes": 1400,
            "lp_bytes": 58,
            "ndn_bytes": 1300,
            "payload_bytes": 2000,
        },
        layers
        | {"kind": "fragment", "direction": "out", "frame_bytes": 1000, "lp_bytes": 58, "ndn_bytes": 900},
        {"kind": "other", "direction": "out", "frame_bytes": 42, "eth_bytes": 42},
        layers | {"kind": "malformed", "direction": "out", "frame_bytes": 50, "ndn_bytes": 8},
    )


def test_traffic_counts_each_frame_at_its_sender(wire):
    assert rows(traffic(wire), "node", "kind", "frames", "frame_bytes") == [
        ("a", "data", 1, 1400),
        ("a", "fragment", 1, 1000),
        ("a", "interest", 1, 72),
        ("a", "lli", 1, 62),
        ("a", "malformed", 1, 50),
        ("a", "nack", 1, 80),
        ("a", "other", 1, 42),
    ]


def test_overhead_splits_every_byte_by_layer(wire, spark):
    streams = frame(spark, STREAM_LAYERS.empty_table())
    got = {row.layer: row.bytes for row in overhead(traffic(wire), streams).collect()}
    assert got == dict.fromkeys(all_layers(), 0) | {
        "ethernet": 5 * 14,
        "ip": 5 * 20,
        "udp": 5 * 8,
        "ndnlp": 8 + 58 + 58,
        "interest": 30 + 20 + 30,
        "data header": 1300 + 900 - 2000,
        "payload": 2000,
        "other": 42 + 50,
    }
    assert sum(got.values()) == 72 + 62 + 80 + 1400 + 1000 + 42 + 50


def test_link_use_is_the_share_of_the_rate_over_the_run(spark, wire):
    links = collected(
        context.LINKS, ("x", "a-eth0", 0.5, None, 1000, 3000), ("x", "b-eth9", 0.5, None, 1000, 3000)
    )
    sent = traffic(wire).toArrow()
    total = sum(sent["frame_bytes"].to_pylist())
    (row,) = aggregates.link_use(sent, links).to_pylist()
    assert row == {
        "layering": "x",
        "interface": "a-eth0",
        "link_use": pytest.approx(total * 0.5 / 2000 * 100),
    }
    assert aggregates.busiest(aggregates.link_use(sent, links)) == {"x": {"link_use": row["link_use"]}}


# --- compare ----------------------------------------------------------------------------------------------


def collected(schema, *rows):
    """Return a collected table; a schema may also be the names of its columns."""
    names = schema.split() if isinstance(schema, str) else schema.names
    columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in names]
    return pa.table(
        dict(zip(names, columns, strict=True)), schema=None if isinstance(schema, str) else schema
    )


def test_totals_of_events(spark, events):
    feeds = collected(context.FEEDS, ("x", "f", False, None), ("x", "c", True, None))
    cross = noted(spark, (0, "p", "published", "c", 1, 100))
    faults = delivery.faults(events).toArrow()
    got = aggregates.events_totals(events.union(cross).toArrow(), feeds, faults)
    assert got == {"x": {"published": 2, "twice": 1, "out_of_order": 0, "forked": 0, "errors": 0}}


def test_totals_of_latency(spark, latencies):
    late = quantiles(latencies.withColumn("bound_ns", F.lit(10).cast("long"))).toArrow()
    waits = collected("layering wait_ns", ("x", 10_000_000), ("x", 20_000_000), ("x", None))
    gaps = collected("layering gap_ns")
    row = aggregates.latency_totals(late, waits, gaps)["x"]
    assert (row["deliveries"], row["latency_ratio_p50"]) == (3, 2)
    assert (row["first_item_p50"], row["first_item_max"]) == (15, 20)
    assert "recovery_p50" not in row


def test_totals_of_state():
    summary = collected(
        "layering node mean_entries peak_entries mean_bytes peak_bytes mean_credit",
        ("x", "p", 1.0, 2, 10.0, 20, 5.0),
        ("x", "r", 3.0, 6, 30.0, 50, 1.0),
        ("x", "*", 4.0, 8, 40.0, 60, 6.0),
    )
    feeds = collected("layering node feeds", ("x", "p", 1), ("x", "r", 2))
    row = {**aggregates.held_totals("pit", summary)["x"], **aggregates.pit_totals(summary, feeds)["x"]}
    assert row == {
        "pit_entries_mean": 2,
        "pit_entries_peak": 6,
        "pit_entries_network": 4,
        "pit_entries_network_peak": 8,
        "pit_bytes_mean": 20,
        "pit_bytes_peak": 50,
        "pit_bytes_network": 40,
        "pit_bytes_network_peak": 60,
        "pit_entries_per_feed": 3,
        "pit_credit_mean": 3,
    }


def test_totals_of_the_wire():
    sent = collected(
        "layering node kind frames frame_bytes",
        ("x", "s", "interest", 4, 300),
        ("x", "r", "lli", 3, 200),
        ("x", "p", "data", 2, 400),
    )
    nodes = collected(context.NODES, ("x", "s", "subscriber"), ("x", "r", "forwarder"))
    assert aggregates.wire_totals(sent, nodes) == {
        "x": {"wire_frames": 9, "wire_bytes": 900, "interests": 7, "asked": 4}
    }


def test_who_has_contents_that_are_to_be_deleted():
    """Samples of two nodes, at other times; what comes after the last item, at 100, is not its end."""
    runs = collected(
        context.RUNS,
        ("holes", 0, "ssb", 0, 200, 0, 2, None, None, 10, 100, None),
        ("ebt", 1, "ssb", 0, 200, 0, 2, None, None, 10, 100, None),
    )
    counters = collected(
        "layering time node asked_contents",
        ("holes", 0, "a", 0),
        ("holes", 0, "b", 0),
        ("holes", 40, "a", 2),
        ("holes", 20, "b", 1),
        ("holes", 30, "b", 1),
        ("holes", 90, "a", 0),
        ("holes", 110, "b", 0),
        ("ebt", 50, "a", None),
    )
    found = held_state.holders(counters)
    assert found.schema == held_state.HOLDERS
    assert [tuple(row.values()) for row in found.to_pylist()] == [
        ("holes", 0, 0, 0),
        ("holes", 20, 1, 1),
        ("holes", 40, 2, 3),
        ("holes", 90, 1, 1),
        ("holes", 110, 0, 0),
    ]
    assert held_state.holder_totals(found, runs) == {"holes": {"asked_holders": 2, "asked_holders_end": 1}}


def test_who_learns_of_subscriptions():
    """Peaks count, across restarts; nodes that do not count them are no witnesses."""
    samples = [
        ("room", "a", 2),
        ("room", "a", 5),
        ("room", "b", 0),
        ("room", "c", None),
        ("room", "a", 1),  # started anew
        ("room", "d", 3),
        ("poll", "a", None),
    ]
    others = {name: None for name in held_state.COUNTERS.names if name not in ("node", "subscriptions_seen")}
    rows = [
        {"layering": layering, "node": node, "subscriptions_seen": seen} | others
        for layering, node, seen in samples
    ]
    schema = held_state.COUNTERS.append(pa.field("layering", pa.string()))
    found = held_state.peaks(pa.Table.from_pylist(rows, schema))
    assert found.schema == held_state.HELD_STATE
    assert [tuple(row.values())[-1] for row in found.to_pylist()] == [None, 5, 0, None, 3]
    totals = held_state.totals(found)
    learned = {layering: (each["witnesses"], each["witnessed_most"]) for layering, each in totals.items()}
    assert learned == {"poll": (None, None), "room": (2, 5)}


def test_what_it_takes_that_feeds_are_found():
    """Two moves after the first publication, at 10; a node starts anew."""
    runs = collected(
        context.RUNS,
        ("poll", 0, NDN, 0, 100, 0, 2, None, None, 10, 100, None),
        ("link", 1, NDN, 0, 100, 0, 2, None, None, 10, 100, None),
    )
    timeline = collected(
        context.TIMELINE,
        *(
            (name, time, event, "a--b")
            for name in ("poll", "link")
            for time, event in (
                (5, "link-up"),
                (20, "link-down"),
                (30, "link-up"),
                (60, "link-up"),
            )
        ),
    )
    counters = collected(
        "layering time node fib_entries map_records resolver_entries stored_bytes route_changes",
        ("poll", 0, "r", 4, None, None, None, 0),
        ("poll", 10, "r", 4, None, None, None, 7),
        ("poll", 40, "r", 6, None, None, None, 9),
        ("poll", 50, "r", 6, None, None, None, 3),  # anew
        ("link", 0, "r", 2, 1, None, 100, 0),
        ("link", 50, "r", 2, 3, 2, 300, 1),
    )
    told = collected("layering messages", ("link", 8), ("other", 9))
    found = collected(
        moves.RECORD_CHANGES,
        ("link", "s", "f", 30, 4_000_000),
        ("link", "t", "f", 30, 2_000_000),
        ("link", "t", "f", 60, 40_000_000),
    )
    known = moves.totals(counters, told, found, timeline, runs)
    nothing = dict.fromkeys(("map_records", "resolver_entries", "stored_bytes", "stale_p50", "stale_max"))
    assert known["poll"] == nothing | {
        "fib_entries_mean": 5,
        "route_changes": 5,
        "signalling_messages": None,
        "moves": 2,
    }
    assert known["link"] == {
        "fib_entries_mean": 2,
        "map_records": 3,
        "resolver_entries": 2,
        "stored_bytes": 300,
        "route_changes": 1,
        "signalling_messages": 8,
        "moves": 2,
        "stale_p50": 4,
        "stale_max": 40,
    }
    both = measure(runs, [known]).to_pylist()
    assert [row["signalling_per_move"] for row in both] == [2.5, 4.5]


def test_measure_and_compare():
    runs = collected(
        context.RUNS,
        ("poll", 0, NDN, 0, 100, 0, 2, None, None, 0, 100, None),
        ("lli", 1, NDN, 0, 100, 3, 2, None, 4, 0, 100, 30_000_000),
    )
    first = collected(
        "layering deliveries carried carried_bytes wire_frames wire_bytes interests asked renewals",
        ("poll", 2, 2, 100, 8, 1000, 8, 4, 0),
        ("lli", 1, 1, 50, 1, 250, 1, 1, 3),
    )
    second = collected(
        "layering crossings bound_bytes sent repeated arrived duplicates useful_bytes published",
        ("poll", 4, 800, 10, 1, 5, 2, 500, 2),
        ("lli", 2, 200, 2, 0, 2, 0, 240, 2),
    )
    third = {"lli": {"recovery_max": 5.0}, "poll": {"control": 3}}
    compared = compare(
        measure(runs, [aggregates.single(first), aggregates.single(second), third])
    ).to_pylist()
    assert [row["metric"] for row in compared if row["layering"] == "poll"] == [m.key for m in METRICS]
    assert [row["position"] for row in compared] == [0, 1] * len(METRICS)
    poll, lli = (
        {row["metric"]: row["value"] for row in compared if row["layering"] == x and row["value"] is not None}
        for x in ("poll", "lli")
    )
    assert poll == {
        "published": 2,
        "delivered": 2,
        "delivered_share": 100,
        "pit_renewals_per_item": 0,
        "interests_per_item": 2,
        "interests_network": 4,
        "interests_per_link": 2,
        "frames_per_item": 4,
        "bytes_per_item": 500,
        "bound_bytes_per_item": 400,
        "wire_ratio": 1.25,
        "useful_share": 50,
        "repeated_share": 10,
        "duplicate_share": 40,
        "control_per_item": 1.5,
        "overhead_ratio": 10,
        "capture_drops": 0,
    }
    assert (lli["delivered"], lli["delivered_share"], lli["recovery_max"]) == (1, 50, 5)
    assert lli["pit_renewals_per_item"] == 3
    assert (lli["interests_per_item"], lli["interests_per_link"], lli["interests_per_window"]) == (1, 0.5, 2)
    assert (lli["overhead_ratio"], lli["cpu_per_item"], lli["capture_drops"]) == (5, 30, 3)
    ratios = {row["metric"]: row["ratio"] for row in compared if row["layering"] == "lli"}
    assert ratios["bytes_per_item"] == 0.5
    assert ratios["interests_per_link"] == 0.25
    assert ratios["capture_drops"] is None  # of nothing
    assert {row["ratio"] for row in compared if row["layering"] == "poll"} == {None}


def test_a_layering_that_delivered_nothing_has_no_figures_per_item():
    runs = collected(context.RUNS, ("poll", 0, NDN, 0, 100, 0, 1, None, None, 0, 100, None))
    sent = {"poll": {"wire_frames": 4, "wire_bytes": 300, "interests": 4, "asked": 4}}
    values = {row["metric"]: row["value"] for row in compare(measure(runs, [sent])).to_pylist()}
    assert (values["published"], values["delivered"], values["delivered_share"]) == (0, 0, 0)
    for metric in ("latency_p50", "interests_per_item", "bytes_per_item", "overhead_ratio", "wire_ratio"):
        assert values[metric] is None
