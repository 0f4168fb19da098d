"""PIT reconstruction from DataFrames to files."""

from collections import Counter, defaultdict
from random import Random

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

from analysis.columns.arrays import with_codes
from analysis.columns.values import ALL
from analysis.packet_schema import ARROW_TYPES
from analysis.packet_schema import COLUMNS as PACKETS
from analysis.pit.entry import Interval, Message, State
from analysis.pit.model import PitModel
from analysis.pit.windows import levels, slots, tables
from analysis.pit.windows.scan import PitScan
from analysis.pit.windows.tables import write_pits
from analysis.pit.windows.window import COLUMNS
from analysis.run.context import Span
from analysis.spark.engine import frame
from analysis.spark.parquet import of_table, read_parquet
from analysis.tables import shares
from analysis.tables.schema import PIT_INTERVALS, PIT_OCCUPANCY
from analysis.tables.shares import Ends, divided, followed, nodes_of

TYPES = {column.name: ARROW_TYPES[column.type] for column in PACKETS}
NODES = {"a": ("a-eth0", "a-eth1"), "b": ("b-eth0", None)}


def traffic(node, seed):
    """Return (frame, message) of a node: Interests, retransmissions, Data and LLIs, some at one time; at node
    a with CanBePrefix and digests, too."""
    rng, now, messages = Random(seed), 0, []
    for number in range(600):
        now += rng.choice((0, 1, 3))
        kind = rng.choice(("interest", "interest", "data", "data", "nack", "other"))
        name = f"/n/{rng.randrange(number // 20, number // 20 + 5)}"
        asks = {"nonce": rng.randrange(40), "lifetime_ns": 30} if kind != "data" else {}
        if kind == "data":
            name += rng.choice(("", "", "/v=1", "/v=1/seg=0"))
        elif node == "a":
            asks["can_be_prefix"] = rng.random() < 0.5
            name += rng.choice(("", "", "", "/sha256digest=00"))
        way, interface = rng.choice(("in", "out")), rng.choice(NODES[node])
        messages.append((number + 1, Message(now, interface, way, kind, name, 7, **asks)))
        if number % 150 == 20:
            asks = {"nonce": number, "lifetime_ns": 200, "send_credit": 5, "feed": "/f", "seq": 1}
            messages.append((number + 1, Message(now, interface, "in", "lli", "/f/seq=1", 9, **asks)))
        if number % 150 == 25:
            item = Message(now, interface, "out", "data", "/f/seq=1", 9, feed="/f", seq=1)
            messages.append((number + 1, item))
        if number == 180:
            messages.append((number + 1, Message(now, interface, "in", "data", "/f/32=fork/seq=3", 9)))
    return messages


def table_of(*runs):
    """Return the packets of all nodes of runs, in any order."""
    rows = [
        {name: getattr(message, name) for name in COLUMNS[1:]}
        | {"layering": run, "node": node, "frame": frame}
        for run in runs
        for node in NODES
        for frame, message in traffic(node, f"{run} {node}")
    ]
    Random(1).shuffle(rows)
    schema = pa.schema([(name, TYPES[name]) for name in dict.fromkeys(("layering", "node", *COLUMNS))])
    return pa.Table.from_pylist(rows, schema)


@pytest.fixture(scope="module")
def packets():
    return table_of("x", "y z")


def wanted(run):
    """Return intervals and the changes of every node, packet by packet."""
    intervals, steps, end = [], {}, max(m.time for node in NODES for _, m in traffic(node, f"{run} {node}"))
    for node in NODES:
        model = PitModel()
        ended = [
            each for _, m in traffic(node, f"{run} {node}") if m.kind != "other" for each in model.receive(m)
        ]
        intervals += [(node, *interval) for interval in ended + model.finish(end)]
        steps[node] = model.take_steps()
    return intervals, steps


def states(steps):
    """Return (time, entries, bytes, ranges, credit) after each moment that changed any."""
    sums, found = [0] * 4, []
    at = defaultdict(lambda: [0] * 4)
    for step in steps:
        at[step.time] = [a + b for a, b in zip(at[step.time], step[1:5], strict=True)]
    for time in sorted(at):
        if any(at[time]):
            sums = [a + b for a, b in zip(sums, at[time], strict=True)]
            found.append((time, *sums))
    return found


def check(out):
    for run in ("x", "y z"):
        intervals, steps = wanted(run)
        place = f"layering={run}"
        table = ds.dataset(out / "pit_intervals" / place).to_table()
        assert Counter(map(tuple, (row.values() for row in table.to_pylist()))) == Counter(intervals)
        assert table.column_names == ["node", *Interval._fields]
        table = ds.dataset(out / "pit_occupancy" / place).to_table()
        assert table.column_names == [name for name in PIT_OCCUPANCY.arrow.names if name != "layering"]
        got = defaultdict(list)
        for row in table.sort_by("time").to_pylist():
            got[row.pop("node")].append(tuple(row.values()))
        assert got == {
            **{node: states(each) for node, each in steps.items()},
            ALL: states(step for each in steps.values() for step in each),
        }


@pytest.mark.parametrize("window", [1, 100, 1 << 20])
def test_packets_in_any_order_come_to_what_they_do(spark, packets, tmp_path, monkeypatch, window):
    monkeypatch.setattr(tables, "WINDOW", window)
    (tmp_path / "pit_occupancy" / "layering=gone").mkdir(parents=True)
    write_pits(frame(spark, packets), tmp_path)
    check(tmp_path)


def test_a_window_of_a_long_share_has_names_of_its_own(monkeypatch):
    """Work in a window is over all of its names: with those of the whole share it would be quadratic."""
    of_node = table_of("x").filter(pc.field("node") == min(NODES))
    share = with_codes(of_node).sort_by([("time", "ascending"), ("frame", "ascending")])
    seen, push = [], PitScan.push

    def noted(scan, window):
        seen.append(window["name"].chunk(0).dictionary)
        return push(scan, window)

    monkeypatch.setattr(PitScan, "push", noted)
    for window, windows in ((len(share), 1), (100, -(-len(share) // 100))):
        seen.clear()
        monkeypatch.setattr(tables, "WINDOW", window)
        tables.pits().follow(share, Ends(1 << 60, 1 << 60))
        assert len(seen) == windows
        assert max(map(len, seen)) <= window
    assert len(pa.chunked_array(seen).unique()) > max(map(len, seen))


@pytest.mark.parametrize("node", NODES)
def test_entries_of_a_busy_node_are_shared_out_by_their_names(spark, tmp_path, monkeypatch, node):
    """Also where Interests with CanBePrefix, as at node a, want Data of other names."""
    monkeypatch.setattr(shares, "ROWS", 200)
    both = table_of("x")
    run = frame(spark, both.filter(pc.field("node") == node))
    shared, number = divided(run, nodes_of(run))
    assert number == 3
    parts = shared.groupBy("share").count().toArrow()
    assert len(parts) == 3
    assert min(parts["count"].to_pylist()) > 100
    rows = followed(run, nodes_of(run), tables.pits({"x": pc.max(both["time"]).as_py()}))
    intervals, steps = wanted("x")
    entries = of_table(rows, "pit_intervals", PIT_INTERVALS.arrow).select("node", *Interval._fields).toArrow()
    found = Counter(tuple(row.values()) for row in entries.to_pylist())
    assert found == Counter(interval for interval in intervals if interval[0] == node)
    held = (
        tables.occupancy(of_table(rows, "pit_steps", tables.STEPS), slots.slots_of(nodes_of(run)))
        .where(f"node = '{node}'")
        .orderBy("time")
    )
    moments = held.drop("layering", "node").toArrow().to_pylist()
    assert [tuple(row.values()) for row in moments] == states(steps[node])


@pytest.mark.parametrize("most", [10, 300, 1 << 20])
def test_states_of_a_long_run_are_followed_slot_by_slot(spark, packets, tmp_path, monkeypatch, most):
    """Tables, summaries, curves and heat are those of one slot, whatever the number of slots."""
    monkeypatch.setattr(slots, "PACKETS", most)
    found = write_pits(frame(spark, packets), tmp_path)
    assert found.are_several == (most < 1 << 20)
    check(tmp_path)
    monkeypatch.undo()
    whole = slots.slots_of(nodes_of(frame(spark, packets)))
    assert (whole.are_several, whole.number) == (False, 1)
    states = read_parquet(spark, tmp_path / "pit_occupancy", PIT_OCCUPANCY.spark)
    times = packets["time"].to_numpy()
    first, last = int(times.min()), int(times.max())
    spans = dict.fromkeys(("x", "y z"), Span(first + (last - first) // 5, last + 1000))
    over = dict.fromkeys(spans, Span(first + (last - first) // 4, last - (last - first) // 3))

    def scanned(divided):
        return levels.scan(states, spans, State._fields, 30, over, slots=divided)

    assert scanned(found) == scanned(whole)
    assert len(scanned(whole)["summary"]) == 2 * (len(NODES) + 1)


@pytest.mark.spark
def test_with_spark_as_with_sail(jvm, packets, tmp_path, monkeypatch):
    monkeypatch.setattr(shares, "ROWS", 250)
    write_pits(frame(jvm, packets), tmp_path)
    check(tmp_path)


@pytest.mark.spark
def test_without_packets_there_is_nothing_to_follow(jvm):
    """A run over TCP alone has none."""
    none = frame(jvm, table_of("x").slice(0, 0))
    assert followed(none, nodes_of(none), tables.pits({})).toArrow().num_rows == 0
