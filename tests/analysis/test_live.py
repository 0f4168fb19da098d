"""What is told of a growing capture: the same as of a whole one, in whatever batches it comes."""

import random
from collections import Counter

import pytest
from handmade import lli, poll, write_capture
from hypothesis import given
from hypothesis import strategies as st

from analysis.columns.values import ALL
from analysis.decode.reader import Reading, ReadStatistics, plain, read_packets
from analysis.live import capture as live
from analysis.live.batch import counts, messages
from analysis.live.capture import MOST_SLICES, SLICE_NS, Break, LiveCapture, Progress
from base.units import MS
from captures.formats.files import cut


def rows_of(path):
    return [
        row
        for piece in cut(path)
        for batch in read_packets(Reading("x", piece, "interface"), ReadStatistics())
        for row in plain(batch).to_pylist()
    ]


def counted(rows):
    """What counts() gives, without Spark."""
    groups = {}
    for row in rows:
        key = row["layering"], row["interface"], row["direction"], row["kind"], row["time"] // SLICE_NS
        groups.setdefault(key, []).append(row)
    names = ("layering", "interface", "direction", "kind", "slice")
    return [
        dict(zip(names, key, strict=True))
        | {
            "frames": len(group),
            "bytes": sum(row["frame_bytes"] for row in group),
            "first": min(row["time"] for row in group),
            "last": max(row["time"] for row in group),
        }
        for key, group in groups.items()
    ]


def told(rows):
    """What messages() gives, without Spark."""
    kinds = ("fragment", "interest", "lli", "data", "nack")
    return sorted(
        (row for row in rows if row["kind"] in kinds and row["frag_count"]),
        key=lambda row: (row["time"], row["frame"]),
    )


def followed(batches, breaks=()):
    capture = LiveCapture("x", breaks)
    for batch in batches:
        capture.count(counted(batch))
        capture.follow(told(batch))
    capture.finish()
    return capture


def peaks_of(story):
    """The most entries and bytes of each node, from what the story says it held."""
    found = {}
    for node in {ALL, *(held.node for held in story.held)}:
        own = [held for held in story.held if node in (ALL, held.node)]
        states = [
            [held.size for held in own if held.opened <= time < held.closed]
            for time in {held.opened for held in own}
        ]
        found[node] = max(map(len, states)), max(map(sum, states))
    return found


@pytest.mark.parametrize("story", [poll, lli])
@pytest.mark.parametrize("seed", range(6))
def test_peaks_and_progress_are_those_of_the_story(tmp_path, story, seed):
    write_capture(tmp_path / "c", story())
    rows, chance = rows_of(tmp_path / "c"), random.Random(seed)
    batches, at = [], 0
    while at < len(rows):
        size = chance.choice([1, 2, 5, 100])
        batches.append(rows[at : at + size])
        at += size
    capture = followed(batches)
    assert {node: peak[:2] for node, peak in capture.peaks.items()} == peaks_of(story())
    assert capture.frames == len(rows)
    assert {pair[0]: (each.newest, each.missing) for pair, each in capture.progress.items()} == dict.fromkeys(
        ("p", "r", "s"), (3, 0)
    )
    assert sum(frames for frames, _ in capture.loads.values()) == len(rows)
    assert capture.left_out == 0


def row(time, **said):
    usual = {"layering": "x", "node": "a", "interface": "a-eth0", "direction": "in", "kind": "data"}
    usual |= {"name": "/f/1", "name_length": 4, "frag_count": 1, "time": time, "frame": time}
    return dict.fromkeys(live.MESSAGE_FIELDS) | usual | said


def test_fragments_join_across_batches_and_once():
    def part(time, index, sequence=10, kind="fragment"):
        kind = "data" if index == 0 else kind
        return row(
            time, kind=kind, lp_sequence=sequence + index, frag_index=index, frag_count=2, feed="/f", seq=4
        )

    capture = LiveCapture("x")
    capture.follow([part(1, 1)])
    assert not capture.progress
    capture.follow([part(2, 1), part(3, 0), part(4, 0), part(5, 1)])
    assert capture.progress["a", "/f"].newest == 4
    assert capture.left_out == 0
    assert not capture._joining


@pytest.mark.parametrize("told", ["src", "dst", "src_port", "dst_port"])
def test_fragments_of_two_senders_on_one_interface_do_not_join(told):
    def part(time, index, end):
        kind = "data" if index == 0 else "fragment"
        usual = {"src": "10.0.0.1", "dst": "10.0.0.9", "src_port": 6363, "dst_port": 6363, told: end}
        numbers = {"lp_sequence": 10 + index, "frag_index": index, "frag_count": 2}
        return row(time, kind=kind, feed="/f", seq=index + 4, **usual, **numbers)

    ends = ("10.0.0.1", "10.0.0.2") if told in ("src", "dst") else (6363, 6364)
    capture = LiveCapture("x")
    capture.follow([part(1, 0, ends[0]), part(2, 1, ends[1])])
    assert not capture.progress
    capture.follow([part(3, 1, ends[0]), part(4, 0, ends[1])])
    assert capture.progress["a", "/f"].newest == 4
    assert not capture._joining


def test_a_restart_empties_the_table():
    def peak(*breaks):
        capture = LiveCapture("x", breaks)
        for time, name in ((1, "/f/1"), (200, "/f/2")):
            capture.follow([row(time * MS, kind="interest", name=name, nonce=time, lifetime_ns=4000 * MS)])
        capture.finish()
        return capture.peaks["a"][:2]

    assert peak() == (2, 40)
    assert peak(Break(100 * MS, "a", "a-eth0", "restart")) == (1, 20)
    assert peak(Break(100 * MS, "a", "a-eth0", "peer-restart")) == (2, 40)
    assert peak(Break(100 * MS, "a", "a-eth0", "link-down")) == (1, 20)


def test_messages_that_a_model_cannot_follow_are_counted():
    capture = LiveCapture("x")
    capture.follow([row(2, name=None), row(3, kind="lli", lifetime_ns=5, feed=None)])
    assert capture.left_out == 2


@given(st.lists(st.integers(1, 40), min_size=1))
def test_progress_counts_what_lies_between(seqs):
    progress = Progress(seqs[0])
    for seq in seqs:
        progress.add(seq)
    seen = {seq for seq in seqs if seq >= seqs[0]}
    assert progress.newest == max(seen)
    assert progress.missing == max(seen) - seqs[0] + 1 - len(seen)


def test_a_number_out_of_all_proportion_costs_nothing():
    progress = Progress(1)
    progress.add(1 << 62)
    assert progress.missing == (1 << 62) - 2


@given(st.lists(st.integers(0, 10**13), min_size=1, max_size=40), st.integers(0, 10**12))
def test_slices_double_and_keep_their_sums(times, origin):
    capture = LiveCapture("x")
    for time in sorted(times):
        packet = {
            "layering": "x",
            "interface": "i",
            "direction": "out",
            "kind": "data",
            "time": origin + time,
        }
        capture.count(counted([packet | {"frame_bytes": 3}]))
    assert sum(frames for frames, _ in capture.loads.values()) == len(times)
    assert all(place < MOST_SLICES for *_, place in capture.loads)
    places = Counter()
    for time in times:
        places[capture.slices.slice_of((origin + time) // SLICE_NS * SLICE_NS)] += 1
    assert {key[-1]: frames for key, (frames, _) in capture.loads.items()} == dict(places)


@pytest.mark.spark
def test_spark_counts_and_chooses(jvm, tmp_path):
    from analysis.spark.batch_reader import readings
    from analysis.spark.capture_source import read_captures

    write_capture(tmp_path / "c", poll())
    packets = read_captures(jvm, readings({"x": str(tmp_path / "c")}, 1)).select(*live.NEEDED).cache()
    rows = rows_of(tmp_path / "c")

    def key(row):
        return tuple(map(str, row.values()))

    assert sorted(counts(packets).toArrow().to_pylist(), key=key) == sorted(counted(rows), key=key)
    chosen = messages(packets).orderBy("time", "frame").toArrow().to_pylist()
    assert chosen == [{name: row[name] for name in live.MESSAGE_FIELDS} for row in told(rows)]
    packets.unpersist()
