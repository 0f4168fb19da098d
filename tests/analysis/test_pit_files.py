"""PIT reconstruction from files to files."""

from collections import Counter, defaultdict
from random import Random

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from analysis.columns.values import ALL
from analysis.packet_schema import ARROW_TYPES
from analysis.packet_schema import COLUMNS as PACKETS
from analysis.pit.entry import Interval, Message
from analysis.pit.model import PitModel
from analysis.pit.windows import files as pit_files
from analysis.pit.windows.files import OCCUPANCY_ARROW, scan
from analysis.pit.windows.scan import PitScan
from analysis.pit.windows.shares import Share
from analysis.pit.windows.window import COLUMNS
from analysis.spark import parquet_windows
from analysis.spark.parquet import NO_VALUE
from analysis.spark.parquet_windows import Group, in_windows

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


def write(directory, run, node, messages):
    """Write a file for each interface, row groups out of order."""
    files = defaultdict(list)
    for frame, message in messages:
        files[message.interface].append((frame, message))
    for interface, rows in files.items():
        columns = {name: [getattr(message, name) for _, message in rows] for name in COLUMNS[1:]}
        columns["frame"] = [frame for frame, _ in rows]
        stored = [name for name in COLUMNS if name != "interface"]
        table = pa.table({name: pa.array(columns[name], TYPES[name]) for name in stored})
        place = directory / f"layering={run}" / f"node={node}" / f"interface={interface or NO_VALUE}"
        place.mkdir(parents=True)
        parts = [table.slice(start, 40) for start in range(0, len(table), 40)]
        Random(1).shuffle(parts)
        with pq.ParquetWriter(place / "part-0.parquet", table.schema) as file:
            for part in parts:
                file.write_table(part)


@pytest.fixture(scope="module")
def packets(tmp_path_factory):
    directory = tmp_path_factory.mktemp("packets")
    for run in ("x", "y z"):
        for node in NODES:
            write(directory, run, node, traffic(node, f"{run} {node}"))
    return directory


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
        assert table.schema == OCCUPANCY_ARROW
        got = defaultdict(list)
        for row in table.to_pylist():
            got[row.pop("node")].append(tuple(row.values()))
        assert got == {
            **{node: states(each) for node, each in steps.items()},
            ALL: states(step for each in steps.values() for step in each),
        }


@pytest.mark.parametrize("window", [1, 100, 1 << 20])
def test_files_out_of_order_come_to_what_the_packets_do(packets, tmp_path, monkeypatch, window):
    monkeypatch.setattr(parquet_windows, "WINDOW", window)
    (tmp_path / "pit_occupancy" / "layering=gone").mkdir(parents=True)
    scan(packets, tmp_path)
    check(tmp_path)
    assert not (tmp_path / "pit_occupancy" / "layering=gone").exists()


def test_entries_of_a_node_are_shared_out_by_their_names(packets, tmp_path, monkeypatch):
    tasks = []

    def split(nodes, cores):
        # Three shares of the node that is asked with CanBePrefix, two of the other.
        for (run, node), groups in sorted(nodes.items()):
            has_prefixes = any(group.has_prefixes for group in groups)
            assert has_prefixes == (node == "a")
            of = 2 + has_prefixes
            tasks.extend(pit_files.Task(run, node, Share(number, of, has_prefixes)) for number in range(of))
        return tasks

    monkeypatch.setattr(pit_files, "tasks_of", split)
    followed = []
    push = PitScan.push
    monkeypatch.setattr(PitScan, "push", lambda self, rows: followed.append(push(self, rows)) or followed[-1])
    scan(packets, tmp_path)
    check(tmp_path)
    assert len(followed) == len(tasks)
    assert all(len(ended.intervals) > 10 for ended in followed), [len(ended.intervals) for ended in followed]


def test_a_node_is_split_where_cores_would_be_idle():
    def split(cores, **rows):
        nodes = {("x", node): [Group(0, "", 0, each, {})] for node, each in rows.items()}
        return Counter(task.node for task in pit_files.tasks_of(nodes, cores))

    million = 1 << 20
    assert split(4, a=million) == {"a": 4}
    assert split(4, a=million - 1) == {"a": 1}
    assert split(1, a=9 * million) == {"a": 1}
    assert split(4, a=9 * million, b=3 * million, c=10) == {"a": 3, "b": 1, "c": 1}
    assert split(2, a=9 * million, b=9 * million) == {"a": 1, "b": 1}


@pytest.mark.spark
def test_with_spark_as_without(jvm, packets, tmp_path):
    scan(packets, tmp_path, jvm)
    check(tmp_path)


def test_a_sweep_holds_no_more_than_it_must(packets, monkeypatch):
    monkeypatch.setattr(parquet_windows, "WINDOW", 80)
    groups = [
        group
        for path in packets.rglob("layering=x/node=a/**/*.parquet")
        for group, _ in parquet_windows.row_groups(path, {"interface": "i"})
    ]
    windows = list(in_windows(groups, COLUMNS))
    times = [time for window in windows for time in window["time"].to_pylist()]
    assert times == sorted(times)
    assert len(times) == sum(group.rows for group in groups)
    assert max(map(len, windows)) <= 80 + 3 * 40


def test_no_packets_no_tables(tmp_path):
    scan(tmp_path / "none", tmp_path / "out")
    assert not (tmp_path / "out").exists()
