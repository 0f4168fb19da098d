"""Each transformation on tables small enough to work out by hand."""

import pytest
from pyspark.sql import functions as F  # noqa: N812

from analysis import pit
from analysis.compare import METRICS, compare, measure
from analysis.decode import PACKETS
from analysis.latency import latency, quantiles
from analysis.overhead import LAYERS, overhead, traffic
from analysis.reassemble import reassemble

pytestmark = pytest.mark.spark

STEPS = "layering string, node string, time long, delta_entries long, delta_bytes long"
RUNS = "layering string, position long, start_ns long, end_ns long, dropped long, items long, links long"


def rows(table, *columns):
    """Return a table's rows as sorted tuples."""
    chosen = table.select(*columns) if columns else table
    return sorted(map(tuple, chosen.collect()), key=repr)


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
            **dict.fromkeys(("eth_bytes", "ip_bytes", "udp_bytes", "lp_bytes", "ndn_bytes"), 0),
            "frame_bytes": 0,
        }
        table = [tuple((usual | row)[name] for name in PACKETS.names) for row in dicts]
        return spark.createDataFrame(table, PACKETS).withColumn("layering", F.lit("x"))

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


def test_whole_packets_pass_and_what_is_none_does_not(packets):
    table = packets(
        {"kind": "interest", "name": "/i", "frame": 1, "time": 5, "frame_bytes": 90, "ndn_bytes": 40},
        {"kind": "malformed", "frame": 2, "time": 6},
        {"kind": "other", "frame": 3, "time": 7, "frag_count": None},
    )
    assert rows(reassemble(table), *COLUMNS) == [("interest", "/i", 5, 1, 90, 40, 1)]


def test_fragments_join_in_any_order_at_the_time_of_the_last(packets):
    table = packets(fragment(2, 7), fragment(0, 9), fragment(1, 8))
    assert rows(reassemble(table), *COLUMNS) == [("data", "/n", 9, 9, 303, 150, 3)]


def test_a_packet_of_which_a_fragment_is_missing_has_not_arrived(packets):
    assert rows(reassemble(packets(fragment(0, 1), fragment(2, 2)))) == []
    twice = packets(fragment(0, 1), fragment(1, 2), fragment(1, 3))
    assert rows(reassemble(twice)) == []


def test_fragments_of_another_packet_interface_or_direction_are_not_mixed(packets):
    table = packets(
        fragment(0, 1, count=2),
        fragment(1, 2, count=2, sequence=20),
        fragment(1, 3, count=2, interface="a-eth1"),
        fragment(1, 4, count=2, direction="out"),
    )
    assert rows(reassemble(table)) == []
    assert rows(reassemble(table.union(packets(fragment(1, 5, count=2)))), "time") == [(5,)]


def test_a_sequence_at_the_end_of_the_numbers_raises_nothing(packets):
    table = packets(fragment(1, 1, lp_sequence=-(2**63)), fragment(0, 2, lp_sequence=2**63 - 1))
    assert rows(reassemble(table)) == []


# --- pit --------------------------------------------------------------------------------------------------


def test_reconstruct_orders_by_time_then_frame_and_keeps_nodes_apart(packets):
    asked = {"kind": "interest", "name": "/n", "name_length": 3, "nonce": 1, "lifetime_ns": 1000}
    table = packets(
        {"kind": "data", "name": "/n", "name_length": 3, "time": 10, "frame": 4, "direction": "out"},
        asked | {"time": 10, "frame": 3},
        asked | {"time": 10, "frame": 2, "node": "b", "interface": "b-eth0", "direction": "out"},
    )
    history = pit.reconstruct(reassemble(table)).cache()
    assert rows(pit.intervals(history)) == [
        ("x", "a", "classic", "/n", 10, 10),
        ("x", "b", "classic", "/n", 10, 1010),
    ]
    assert rows(pit.steps(history)) == [("x", "b", 10, 1, 19), ("x", "b", 1010, -1, -19)]


@pytest.fixture(scope="module")
def steps(spark):
    """Node a: one entry from 10 to 40, a second from 20 to 40; node b: one from 20 to 30."""
    return spark.createDataFrame(
        [
            ("x", "a", 10, 1, 22),
            ("x", "a", 20, 1, 30),
            ("x", "a", 40, -1, -22),
            ("x", "a", 40, -1, -30),
            ("x", "b", 20, 1, 50),
            ("x", "b", 30, -1, -50),
        ],
        STEPS,
    )


def test_changes_are_states_after_each_moment(spark, steps):
    at_once = spark.createDataFrame([("x", "a", 15, 1, 9), ("x", "a", 15, -1, -9)], STEPS)
    assert rows(pit.changes(steps.union(at_once)), "node", "time", "entries", "bytes") == [
        ("a", 10, 1, 22),
        ("a", 20, 2, 52),
        ("a", 40, 0, 0),
        ("b", 20, 1, 50),
        ("b", 30, 0, 0),
    ]


def test_the_network_is_all_nodes_together(steps):
    network = pit.changes(pit.with_network(steps)).where(F.col("node") == pit.NETWORK)
    assert rows(network, "time", "entries", "bytes") == [
        (10, 1, 22),
        (20, 3, 102),
        (30, 2, 52),
        (40, 0, 0),
    ]


def samples(spark, *times, node="a"):
    return spark.createDataFrame([("x", node, t) for t in times], "layering string, node string, time long")


def test_occupancy_is_the_state_after_all_up_to_the_time(spark, steps):
    got = pit.occupancy(steps, samples(spark, 0, 9, 10, 20, 39, 40, 99))
    assert rows(got, "time", "entries", "bytes", "entries_low", "entries_high") == [
        (0, 0, 0, 0, 0),
        (10, 1, 22, 1, 1),
        (20, 2, 52, 2, 2),
        (39, 2, 52, 2, 2),
        (40, 0, 0, 0, 0),
        (9, 0, 0, 0, 0),
        (99, 0, 0, 0, 0),
    ]


def test_occupancy_of_a_node_without_entries_is_zero(spark, steps):
    assert rows(pit.occupancy(steps, samples(spark, 20, node="c")), "entries", "bytes") == [(0, 0)]


def test_occupancy_bounds_what_may_be_in_flight(spark, steps):
    columns = ("time", "entries", "entries_low", "entries_high", "bytes_low", "bytes_high")
    assert rows(pit.occupancy(steps, samples(spark, 15, 22, 38, 60), 5), *columns) == [
        (15, 1, 1, 2, 22, 52),
        (22, 2, 1, 2, 22, 52),
        (38, 2, 0, 2, 0, 52),
        (60, 0, 0, 0, 0, 0),
    ]


def test_truth_sets_counters_beside_what_was_derived(spark, steps):
    counters = spark.createDataFrame(
        [("x", "a", 10, 1, 22), ("x", "a", 22, 1, 22), ("x", "a", 99, 1, 5)],
        "layering string, node string, time long, pit_entries long, pit_bytes long",
    )
    exact = pit.truth(pit.occupancy(steps, counters), counters)
    assert exact.columns == [
        "layering",
        "node",
        "time",
        "derived_entries",
        "counted_entries",
        "derived_bytes",
        "counted_bytes",
        "agrees",
    ]
    assert rows(exact) == [
        ("x", "a", 10, 1, 1, 22, 22, True),
        ("x", "a", 22, 2, 1, 52, 22, False),
        ("x", "a", 99, 0, 1, 0, 5, False),
    ]
    assert rows(pit.truth_summary(exact)) == [("x", 3, 1, 1, 1, 30)]
    lenient = pit.truth(pit.occupancy(steps, counters, 5), counters)
    assert rows(pit.truth_summary(lenient)) == [("x", 3, 1, 2, 1, 30)]


def test_summary_weighs_by_time(spark, steps):
    runs = spark.createDataFrame([("x", 0, 0, 100, 0, 1, 1)], RUNS)
    changes = pit.changes(pit.with_network(steps))
    got = {row.node: row for row in pit.summary(changes, runs, ["a", "b", "c", pit.NETWORK]).collect()}
    # a: one entry for 10, two for 20 of 100; bytes 22 for 10 and 52 for 20.
    assert got["a"].mean_entries == pytest.approx(0.5)
    assert got["a"].mean_bytes == pytest.approx((22 * 10 + 52 * 20) / 100)
    assert (got["a"].peak_entries, got["a"].peak_bytes) == (2, 52)
    assert got["b"].mean_entries == pytest.approx(0.1)
    assert tuple(got["c"])[2:] == (0, 0, 0, 0)
    assert got[pit.NETWORK].mean_entries == pytest.approx(0.6)
    assert (got[pit.NETWORK].peak_entries, got[pit.NETWORK].peak_bytes) == (3, 102)


def test_summary_leaves_out_what_is_after_the_run(spark, steps):
    runs = spark.createDataFrame([("x", 0, 0, 15, 0, 1, 1)], RUNS)
    (row,) = pit.summary(pit.changes(steps), runs, ["a"]).collect()
    assert row.mean_entries == pytest.approx(5 / 15)
    assert row.peak_entries == 1


def test_curves_keep_the_extremes_of_each_slice(spark):
    runs = spark.createDataFrame([("x", 0, 0, 1000, 0, 1, 1)], RUNS)
    shape = [1, 4, 2, 3, 0, 1, 0, 1]
    deltas = [b - a for a, b in zip([0, *shape], shape, strict=False)]
    table = spark.createDataFrame([("x", "a", k, d, d * 10) for k, d in enumerate(deltas)], STEPS)
    changes = pit.changes(table)
    assert rows(pit.curves(changes, runs, bins=1), "time", "entries", "bytes") == [
        (0, 1, 10),
        (1, 4, 40),
        (4, 0, 0),  # the first of the two least
        (7, 1, 10),
    ]
    assert len(rows(pit.curves(changes, runs, bins=1000))) == len(shape)


# --- latency ----------------------------------------------------------------------------------------------

EVENTS = "layering string, time long, node string, event string, seq long, bytes long"


@pytest.fixture(scope="module")
def events(spark):
    return spark.createDataFrame(
        [
            ("x", 0, "p", "published", 1, 100),
            ("x", 5, "p", "published", 2, 200),
            ("x", 10, "s1", "delivered", 1, 100),
            ("x", 12, "s1", "delivered", 1, 100),
            ("x", 25, "s1", "delivered", 2, 200),
            ("x", 40, "s2", "delivered", 1, 100),
            ("x", 41, "s2", "rejected", 2, 200),
        ],
        EVENTS,
    )


def test_latency_is_from_publication_to_the_first_delivery(events):
    assert rows(latency(events)) == [
        ("x", "s1", 1, 100, 0, 10, 10),
        ("x", "s1", 2, 200, 5, 25, 20),
        ("x", "s2", 1, 100, 0, 40, 40),
    ]


def test_quantiles_by_subscriber_and_of_all(events):
    got = {row.node: row for row in quantiles(latency(events), points=2).collect()}
    assert got["s1"].quantiles_ns == [10, 15, 20]
    assert got["*"].quantiles_ns == [10, 20, 40]
    every = got["*"]
    assert (every.deliveries, every.payload_bytes, every.p50_ns, every.max_ns) == (3, 400, 20, 40)
    assert every.p95_ns == pytest.approx(38)


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


def test_overhead_splits_every_byte_by_layer(wire):
    got = {row.layer: row.bytes for row in overhead(traffic(wire)).collect()}
    assert got == {
        "ethernet": 5 * 14,
        "ip": 5 * 20,
        "udp": 5 * 8,
        "ndnlp": 8 + 58 + 58,
        "interest": 30 + 20 + 30,
        "data header": 1300 + 900 - 2000,
        "payload": 2000,
        "other": 42 + 50,
    }
    assert tuple(got) == LAYERS
    assert sum(got.values()) == 72 + 62 + 80 + 1400 + 1000 + 42 + 50


# --- compare ----------------------------------------------------------------------------------------------


def test_measure_and_compare(spark):
    runs = spark.createDataFrame([("poll", 0, 0, 100, 0, 2, 2), ("lli", 1, 0, 100, 3, 2, 2)], RUNS)
    published = [(x, t, "p", "published", t, 50) for x in ("poll", "lli") for t in (1, 2)]
    delivered = [
        ("poll", 11, "s", "delivered", 1, 50),
        ("poll", 32, "s", "delivered", 2, 50),
        ("lli", 6, "s", "delivered", 1, 50),
    ]
    events = spark.createDataFrame(published + delivered, EVENTS)
    summary = spark.createDataFrame(
        [
            ("poll", "p", 1.0, 2, 10.0, 20),
            ("poll", "s", 3.0, 5, 30.0, 50),
            ("poll", "*", 4.0, 6, 40.0, 60),
            ("lli", "p", 1.0, 1, 10.0, 10),
            ("lli", "s", 1.0, 1, 10.0, 10),
            ("lli", "*", 2.0, 2, 20.0, 20),
        ],
        "layering string, node string, mean_entries double, peak_entries long, mean_bytes double, "
        "peak_bytes long",
    )
    sent = spark.createDataFrame(
        [
            ("poll", "s", "interest", 4, 300),
            ("poll", "r", "interest", 4, 300),
            ("poll", "p", "data", 2, 400),
            ("lli", "s", "lli", 1, 100),
            ("lli", "p", "data", 1, 150),
        ],
        "layering string, node string, kind string, frames long, frame_bytes long",
    )
    measures = measure(runs, events, quantiles(latency(events)), summary, sent, ["s"])
    table = compare(measures).orderBy("row", "position").collect()
    assert [row.metric for row in table if row.layering == "poll"] == [metric.key for metric in METRICS]
    poll, lli = (
        {row.metric: row.value for row in table if row.layering == layering} for layering in ("poll", "lli")
    )
    assert poll == {
        "published": 2,
        "delivered": 2,
        "delivered_share": 100,
        "latency_p50": pytest.approx(20e-6),
        "latency_p95": pytest.approx(29e-6),
        "latency_p99": pytest.approx(29.8e-6),
        "latency_max": pytest.approx(30e-6),
        "pit_entries_mean": 2,
        "pit_entries_peak": 5,
        "pit_entries_network": 4,
        "pit_entries_network_peak": 6,
        "pit_bytes_mean": 20,
        "pit_bytes_peak": 50,
        "pit_bytes_network": 40,
        "pit_bytes_network_peak": 60,
        "interests_per_item": 2,
        "interests_per_link": 2,
        "frames_per_item": 5,
        "bytes_per_item": 500,
        "overhead_ratio": 10,
        "capture_drops": 0,
    }
    assert (lli["delivered"], lli["delivered_share"], lli["latency_p50"]) == (1, 50, pytest.approx(5e-6))
    assert (lli["interests_per_item"], lli["interests_per_link"]) == (1, 0.25)
    assert (lli["overhead_ratio"], lli["capture_drops"]) == (5, 3)
    ratios = {row.metric: row.ratio for row in table if row.layering == "lli"}
    assert ratios["bytes_per_item"] == 0.5
    assert ratios["interests_per_link"] == 0.125
    assert ratios["capture_drops"] is None  # of nothing
    assert {row.ratio for row in table if row.layering == "poll"} == {None}


def test_a_layering_that_delivered_nothing_has_no_figures_per_item(spark):
    runs = spark.createDataFrame([("poll", 0, 0, 100, 0, 1, 1)], RUNS)
    events = spark.createDataFrame([("poll", 1, "p", "published", 1, 50)], EVENTS)
    summary = spark.createDataFrame(
        [],
        "layering string, node string, mean_entries double, peak_entries long, mean_bytes double, "
        "peak_bytes long",
    )
    sent = spark.createDataFrame(
        [("poll", "s", "interest", 4, 300)],
        "layering string, node string, kind string, frames long, frame_bytes long",
    )
    measures = measure(runs, events, quantiles(latency(events)), summary, sent, ["s"])
    values = {row.metric: row.value for row in compare(measures).collect()}
    assert (values["delivered"], values["delivered_share"]) == (0, 0)
    assert values["interests_per_link"] == 4
    for metric in ("latency_p50", "interests_per_item", "bytes_per_item", "overhead_ratio"):
        assert values[metric] is None
