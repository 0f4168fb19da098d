"""What is told of a growing capture: the same as of a whole one, in whatever batches it comes."""

import random
from collections import Counter

import pyarrow as pa
import pytest
from handmade import lli, poll, write_capture
from hypothesis import given
from hypothesis import strategies as st

from analysis.columns.values import ALL
from analysis.decode.reader import ReadStatistics, plain, read_packets
from analysis.decode.reading import Reading
from analysis.live.capture import OVERVIEW, LiveCapture
from analysis.live.cells import MOST_SLICES, SLICE_NS
from analysis.live.following import LATENESS_NS, Break, Progress, step
from analysis.live.stream import NEEDED, messages_of, reduced
from base.units import MS
from captures.formats.files import cut


def rows_of(path):
    return [
        row
        for piece in cut(path)
        for batch in read_packets(Reading("x", piece, "interface"), ReadStatistics())
        for row in plain(batch).to_pylist()
    ]


def reductions(rows):
    """Return counts and messages of packets, as an operator gets them."""
    counts, messages = [], []
    batches = [pa.RecordBatch.from_pylist(rows, NEEDED)] if rows else []
    for row in (row for batch in reduced(batches) for row in batch.to_pylist()):
        counts += pa.ipc.open_stream(row["counts"]).read_all().to_pylist()
        messages += messages_of(pa.ipc.open_stream(row["messages"]).read_all())
    return counts, messages


class Operator:
    """The operator of one capture, with its states in this process."""

    def __init__(self, breaks=()):
        self.breaks = breaks
        self.following, self.cells = None, {}
        self.capture = LiveCapture("x")

    def take(self, rows):
        done = step(self.following, self.breaks, *reductions(rows), self.cells.get)
        self.following = done.following
        self.cells = ({} if done.is_anew else self.cells) | done.cells
        self.capture.take([(OVERVIEW, done.overview), *done.cells.items()])
        resumed = LiveCapture("x")
        resumed.take([(OVERVIEW, done.overview), *self.cells.items()])
        for name in ("frames", "bytes", "first", "last", "loads", "pit", "newest", "peaks", "progress"):
            assert getattr(resumed, name) == getattr(self.capture, name)
        assert vars(resumed.slices) == vars(self.capture.slices)


def followed(batches, breaks=()):
    operator = Operator(breaks)
    for batch in batches:
        operator.take(batch)
    return operator.capture


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
    usual |= {
        "name": "/f/1",
        "name_length": 4,
        "frag_count": 1,
        "frame_bytes": 3,
        "time": time,
        "frame": time,
    }
    return dict.fromkeys(NEEDED.names) | usual | said


def test_fragments_join_across_batches_and_once():
    def part(time, index, sequence=10, kind="fragment"):
        kind = "data" if index == 0 else kind
        return row(
            time, kind=kind, lp_sequence=sequence + index, frag_index=index, frag_count=2, feed="/f", seq=4
        )

    assert not followed([[part(1, 1)]]).progress
    capture = followed([[part(1, 1)], [part(2, 1), part(3, 0), part(4, 0), part(5, 1)]])
    assert capture.progress["a", "/f"].newest == 4
    assert capture.left_out == 0
    # Joined once: one Data packet was received in all.
    asked = row(0, kind="interest", name="/f/1", nonce=1, lifetime_ns=4000 * MS)
    again = row(6, kind="interest", name="/f/1", nonce=2, lifetime_ns=4000 * MS)
    parts = [part(2, 1), part(3, 0), again, part(7, 0), part(8, 1), row(9, kind="idle", name=None)]
    assert followed([[asked], parts]).pit["a"][0][1].entries == 1


@pytest.mark.parametrize("told", ["src", "dst", "src_port", "dst_port"])
def test_fragments_of_two_senders_on_one_interface_do_not_join(told):
    def part(time, index, end):
        kind = "data" if index == 0 else "fragment"
        usual = {"src": "10.0.0.1", "dst": "10.0.0.9", "src_port": 6363, "dst_port": 6363, told: end}
        numbers = {"lp_sequence": 10 + index, "frag_index": index, "frag_count": 2}
        return row(time, kind=kind, feed="/f", seq=index + 4, **usual, **numbers)

    ends = ("10.0.0.1", "10.0.0.2") if told in ("src", "dst") else (6363, 6364)
    first = [part(1, 0, ends[0]), part(2, 1, ends[1])]
    assert not followed([first]).progress
    capture = followed([first, [part(3, 1, ends[0]), part(4, 0, ends[1])]])
    assert capture.progress["a", "/f"].newest == 4


def test_a_restart_empties_the_table():
    def peak(*breaks):
        rows = [
            row(time * MS, kind="interest", name=name, nonce=time, lifetime_ns=4000 * MS)
            for time, name in ((1, "/f/1"), (200, "/f/2"))
        ]
        return followed([[each] for each in rows], breaks).peaks["a"][:2]

    assert peak() == (2, 40)
    assert peak(Break(100 * MS, "a", "a-eth0", "restart")) == (1, 20)
    assert peak(Break(100 * MS, "a", "a-eth0", "peer-restart")) == (2, 40)
    assert peak(Break(100 * MS, "a", "a-eth0", "link-down")) == (1, 20)


def test_messages_that_a_model_cannot_follow_are_counted():
    assert followed([[row(2, name=None), row(3, kind="lli", lifetime_ns=5, feed=None)]]).left_out == 2


@given(st.permutations(range(12)), st.integers(1, 12))
def test_packets_may_be_out_of_order_within_the_lateness(order, size):
    """As those of a capture of several interfaces, whatever batches end between them."""
    rows = [
        row(at * LATENESS_NS // 12, kind="interest", name=f"/f/{at}", nonce=at, lifetime_ns=LATENESS_NS // 4)
        if at % 2
        else row(at * LATENESS_NS // 12, name=f"/f/{at - 3}", feed="/f", seq=at)
        for at in range(12)
    ]
    mixed = [rows[at] for at in order]
    begin = [row(0, kind="segment")]  # slices begin with it
    batches = [mixed[at : at + size] for at in range(0, 12, size)]
    expected, found = followed([begin, rows]), followed([begin, *batches])
    assert found.pit == expected.pit
    assert found.peaks == expected.peaks
    assert found.newest == expected.newest


def test_a_packet_that_is_too_late_is_followed_all_the_same():
    """It counts as one of the watermark's time."""
    late = row(1, kind="interest", name="/f/2", nonce=1, lifetime_ns=4000 * MS)
    capture = followed([[row(0), row(10 * LATENESS_NS, feed="/f", seq=1)], [late]])
    assert capture.peaks["a"][:2] == (1, 20)
    assert list(capture.pit["a"]) == [9 * LATENESS_NS // SLICE_NS]
    assert capture.frames == 3


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
    capture = followed([row(origin + time, kind="segment")] for time in sorted(times))
    assert sum(frames for frames, _ in capture.loads.values()) == len(times)
    assert all(place < MOST_SLICES for *_, place in capture.loads)
    places = Counter()
    for time in times:
        places[capture.slices.slice_of((origin + time) // SLICE_NS * SLICE_NS)] += 1
    assert {key[-1]: frames for key, (frames, _) in capture.loads.items()} == dict(places)
