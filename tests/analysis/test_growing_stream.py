"""Streaming growing captures: every row once, whatever moment the stream looks at; what is refused."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep

import pytest
from handmade import lli, poll, write_capture
from hypothesis import given, settings
from hypothesis import strategies as st
from patience import PATIENCE_S
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes

from analysis.decode.reader import ReadStatistics, plain, read_packets
from analysis.decode.reading import Reading
from analysis.spark.capture_source import follow_captures
from analysis.spark.stream_reader import GrowingReader
from captures.formats.files import cut
from captures.formats.growing import START, GrowingCapture, Position
from captures.formats.pcapng import CaptureError, Direction, Interface, Writer

pytestmark = pytest.mark.long


def pcapng(frames, application="test"):
    """Return a capture with two interfaces, of so many frames of many sizes."""
    import io

    file = io.BytesIO()
    writer = Writer(file, [Interface("a-eth0"), Interface("b-eth0")], application=application)
    for number in range(frames):
        payload = b"\x02" * 12 + b"\x86\x24" + bytes([5, number % 7]) + bytes(number % 131)
        writer.write(number % 2, 10**9 + number, payload, Direction.OUT)
        if number % 50 == 49:
            writer.statistics(0, 10**9 + number, number, 0)
    return file.getvalue()


def pcap(frames):
    """Return the same as pcap of nanoseconds."""
    head = bytes.fromhex("4d3cb2a1020004000000000000000000000004000100") + b"\0\0"
    parts = [head]
    for number in range(frames):
        payload = b"\x02" * 12 + b"\x86\x24" + bytes([5, number % 7]) + bytes(number % 131)
        parts.append(
            b"".join(value.to_bytes(4, "little") for value in (1, number, len(payload), len(payload)))
        )
        parts.append(payload)
    return b"".join(parts)


def rows(path, name, rule="auto"):
    """Return what the batch decoder gives of a capture."""
    return [
        row
        for piece in cut(path)
        for batch in read_packets(Reading(name, piece, rule), ReadStatistics())
        for row in plain(batch).to_pylist()
    ]


def taken(reader, start, end):
    """Return the rows between two offsets."""
    return [
        row
        for partition in reader.partitions(start, end)
        for batch in reader.read(partition)
        for row in batch.to_pylist()
    ]


@settings(max_examples=30, deadline=None)
@given(
    form=st.sampled_from([pcapng, pcap]),
    frames=st.integers(0, 120),
    seed=st.integers(0, 1 << 32),
    limit=st.sampled_from([None, 1, 300, 5000]),
    growth=st.sampled_from([10, 200, 5000]),
)
def test_every_row_comes_once_in_whatever_steps_a_capture_grows(
    tmp_path_factory, form, frames, seed, limit, growth
):
    chance = random.Random(seed)
    directory = tmp_path_factory.mktemp("growing")
    contents = {"x": form(frames), "y": form(frames // 2)}
    captures = {name: [str(directory / name)] for name in contents}
    written = dict.fromkeys(contents, 0)
    reader = GrowingReader(captures, most_bytes=limit)
    offset, found, idle = reader.initialOffset(), [], 0
    while idle < 2:
        for name, content in contents.items():
            if chance.random() < 0.7:
                more = content[written[name] : written[name] + chance.randrange(growth)]
                with (directory / name).open("ab") as file:
                    file.write(more)
                written[name] += len(more)
        end = json.loads(json.dumps(reader.latestOffset(offset, reader.getDefaultReadLimit())))
        if chance.random() < 0.3:  # another process goes on
            reader = GrowingReader(captures, most_bytes=limit)
        if chance.random() < 0.5:  # and the file grows between the plan and the work
            with (directory / "x").open("ab") as file:
                more = contents["x"][written["x"] : written["x"] + chance.randrange(growth)]
                file.write(more)
            written["x"] += len(more)
        found += taken(reader, offset, end)
        whole = all(written[name] == len(content) for name, content in contents.items())
        idle = idle + 1 if whole and end == offset else 0
        offset = end
    expected = [row for name in contents for row in rows(directory / name, name)]

    def order(row):
        return row["layering"], row["frame"]

    assert sorted(found, key=order) == expected
    assert [offset[name]["at"] for name in contents] == [len(content) for content in contents.values()]


def test_pieces_are_those_of_the_batch(tmp_path):
    path = tmp_path / "a.pcapng"
    path.write_bytes(pcapng(2000))
    pieces, place = GrowingCapture([str(path)]).pieces(START, size=10_000)
    assert pieces == list(cut(path, 10_000))
    assert (place.at, place.frames) == (path.stat().st_size, 2000)


def test_a_limit_bounds_what_comes_at_once_and_all_available_does_not(tmp_path):
    path = tmp_path / "a.pcapng"
    path.write_bytes(pcapng(2000))
    reader = GrowingReader({"a": [str(path)]}, most_bytes=1000)
    start = reader.initialOffset()
    assert reader.getDefaultReadLimit() == ReadMaxBytes(1000)
    assert 1000 <= reader.latestOffset(start, ReadMaxBytes(1000))["a"]["at"] < 10_000
    assert reader.latestOffset(start, ReadAllAvailable())["a"]["at"] == path.stat().st_size


def test_a_backlog_in_one_capture_starves_no_other(tmp_path):
    sizes = {}
    for name, frames in {"large": 3000, "empty": 0, "small": 20, "last": 3000}.items():
        (tmp_path / name).write_bytes(pcapng(frames))
        sizes[name] = len(pcapng(frames))
    reader = GrowingReader({name: [str(tmp_path / name)] for name in sizes}, most_bytes=100_000)
    first = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    assert (first["empty"]["at"], first["small"]["at"]) == (sizes["empty"], sizes["small"])
    # Both have what the small ones left, halved.
    half = (100_000 - sizes["empty"] - sizes["small"]) // 2
    assert min(sizes["large"], sizes["last"]) > 2 * half
    assert all(0.7 * half <= first[name]["at"] <= 1.3 * half for name in ("large", "last"))


def test_batches_keep_their_distance_unless_more_is_waiting(tmp_path):
    path, now = tmp_path / "a.pcapng", 0.0
    content = pcapng(3000)
    reader = GrowingReader({"a": [str(path)]}, most_bytes=50_000, every=10, clock=lambda: now)
    limit = reader.getDefaultReadLimit()
    offset = reader.latestOffset(reader.initialOffset(), limit)
    path.write_bytes(content[:10_000])  # what comes after nothing came is read at once
    offset = reader.latestOffset(offset, limit)
    assert 0 < offset["a"]["at"] <= 10_000
    path.write_bytes(content)
    for now in (1.0, 9.9):  # noqa: B007 (the clock)
        assert reader.latestOffset(offset, limit) == offset
    now, sizes = 10.0, []
    while (end := reader.latestOffset(offset, limit)) != offset:
        sizes.append(end["a"]["at"] - offset["a"]["at"])
        offset = end
    assert offset["a"]["at"] == len(content)
    assert len(sizes) > 5
    assert all(50_000 <= size <= 1.3 * 50_000 for size in sizes[:-1])

    path.write_bytes(content[:10_000])
    reader = GrowingReader({"a": [str(path)]}, every=10, clock=lambda: now)
    reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    path.write_bytes(content)
    reader.prepareForTriggerAvailableNow()
    offset = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    assert offset["a"]["at"] == len(content)


def test_what_is_not_there_yet_is_waited_for(tmp_path):
    path = tmp_path / "a.pcapng"
    growing = GrowingCapture([str(path)])
    assert growing.pieces(START) == ([], START)
    content = pcapng(1)
    for size in (0, 4, 23, 27):
        path.write_bytes(content[:size])
        assert growing.pieces(START) == ([], START)
    path.write_bytes(content)
    assert growing.pieces(START)[1][:2] == (len(content), 1)


def test_a_capture_that_is_renamed_goes_on(tmp_path):
    before, after = tmp_path / "run.partial", tmp_path / "run"
    before.mkdir()
    content = pcapng(40)
    (before / "c").write_bytes(content[:1000])
    reader = GrowingReader({"x": [str(before / "c"), str(after / "c")]})
    first = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    found = taken(reader, reader.initialOffset(), first)
    with (before / "c").open("ab") as file:
        file.write(content[1000:])
    second = reader.latestOffset(first, ReadAllAvailable())
    planned = reader.partitions(first, second)
    before.rename(after)
    found += [row for piece in planned for batch in reader.read(piece) for row in batch.to_pylist()]
    assert found == rows(after / "c", "x")
    assert reader.latestOffset(second, ReadAllAvailable()) == second


def test_stopping_at_what_there_is_now(tmp_path):
    path = tmp_path / "c"
    content = pcapng(40)
    path.write_bytes(content[:1000])
    reader = GrowingReader({"x": [str(path)], "absent": [str(tmp_path / "absent")]})
    reader.prepareForTriggerAvailableNow()
    path.write_bytes(content)
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    assert 900 < end["x"]["at"] <= 1000
    assert end["absent"]["at"] == 0


def refused(path, start):
    with pytest.raises(CaptureError) as error:
        GrowingCapture([str(path)]).pieces(start)
    assert str(error.value).startswith(f"{path}: byte ")
    return error.value.reason


def test_what_is_not_what_it_was_is_refused(tmp_path):
    import gzip

    path = tmp_path / "c"
    path.write_bytes(pcapng(40))
    _, place = GrowingCapture([str(path)]).pieces(START)
    path.write_bytes(pcapng(20))
    assert refused(path, place) == "has become shorter than what was read of it"
    path.write_bytes(pcapng(60, "test2"))
    assert refused(path, place) == "has been replaced by another capture"
    assert refused(path, place._replace(at=place.at - 4, mark=0)) == "has been replaced by another capture"
    path.write_bytes(gzip.compress(pcapng(60)))
    assert refused(path, START) == "compressed, so what is added cannot be read before it is complete"
    path.write_bytes(b"no capture at all, but long enough")
    assert refused(path, START) == "no pcap or pcapng file"
    content = bytearray(pcapng(40))
    content[-4] ^= 255
    path.write_bytes(content)
    assert refused(path, START) == "no record begins here"
    path.unlink()
    assert refused(path, place) == "is not there any more"


def test_a_place_in_the_middle_of_a_record_is_none(tmp_path):
    path = tmp_path / "c"
    content = pcapng(40)
    path.write_bytes(content)
    growing = GrowingCapture([str(path)])
    middle = Position(1002, 10, growing._mark(path.open("rb"), 1002))
    with pytest.raises(CaptureError, match="has been replaced"):
        growing.pieces(middle)


WRITER = """
import os, random, sys, time
half = sum(os.path.getsize(path + ".whole") for path in sys.argv[3:]) // 2
chance = random.Random(int(sys.argv[1]))
contents = {path: open(path + ".whole", "rb").read() for path in sys.argv[3:]}
files = {path: open(path, "ab", 0) for path in contents}
places = dict.fromkeys(contents, 0)
while places:
    while sum(map(os.path.getsize, sys.argv[3:])) > half and not os.path.exists(sys.argv[2]):
        time.sleep(0.02)
    for path in list(places):
        size = chance.choice([1, 50, 700, 40_000, 200_000])
        files[path].write(contents[path][places[path]:places[path] + size])
        places[path] += size
        if places[path] >= len(contents[path]):
            del places[path]
    time.sleep(0.02)
"""


def patiently(start, wait):
    """Start a query and wait for it; again, if Spark has given up a process of its own: it waits 10 s."""
    give_up = monotonic() + PATIENCE_S
    while True:
        query = start()
        try:
            wait(query)
            return query
        except StreamingQueryException as error:
            if "worker failed to connect back" not in str(error) or monotonic() > give_up:
                raise


def until_rows_are_in(query):
    give_up = monotonic() + PATIENCE_S
    while not sum(progress.numInputRows for progress in query.recentProgress):
        if (error := query.exception()) is not None:
            raise error
        assert monotonic() < give_up
        sleep(0.05)


def until_it_ends(query):
    query.awaitTermination()


@pytest.mark.spark
@pytest.mark.slow
def test_through_spark_with_a_restart_from_the_checkpoint(jvm, tmp_path):
    """Another process appends to two captures; the query writes Parquet, is stopped half-way and started
    again."""
    captures = {}
    for name, content in {"ng": pcapng(30_000), "classic": pcap(20_000)}.items():
        path = tmp_path / f"{name}-eth0.cap"
        Path(f"{path}.whole").write_bytes(content)
        captures[name] = [str(path)]
    out, checkpoint = tmp_path / "rows", tmp_path / "checkpoint"

    def start(**trigger):
        packets = follow_captures(jvm, captures, most_bytes=1 << 19)
        stream = packets.writeStream.format("parquet").option("checkpointLocation", str(checkpoint))
        return stream.trigger(**trigger).start(str(out))

    paths = [path for (path,) in captures.values()]
    go_on = tmp_path / "go-on"  # the writer waits for it half-way
    writer = subprocess.Popen([sys.executable, "-c", WRITER, "7", str(go_on), *paths])
    try:
        patiently(lambda: start(processingTime="100 milliseconds"), until_rows_are_in).stop()
        stopped_at = sum(os.path.getsize(path) for path in paths)
        seen = jvm.read.parquet(str(out)).count()
        assert 0 < seen < 50_000, f"stopped when {stopped_at} bytes were written"
        go_on.touch()
        query = patiently(lambda: start(processingTime="100 milliseconds"), until_rows_are_in)
        assert writer.wait(PATIENCE_S) == 0
        query.stop()
        patiently(lambda: start(availableNow=True), until_it_ends)
        patiently(lambda: start(availableNow=True), until_it_ends)  # nothing is left
    finally:
        writer.kill()
        writer.wait()
    found = jvm.read.parquet(str(out)).orderBy("layering", "frame").toArrow().to_pylist()
    expected = [row for name in sorted(captures) for row in rows(captures[name][0], name)]
    assert len(found) == 50_000
    assert found == expected


@pytest.mark.spark
def test_a_real_capture_at_once(jvm, tmp_path):
    for name, story in {"poll": poll(), "lli": lli()}.items():
        write_capture(tmp_path / name, story)
    packets = follow_captures(jvm, {name: [str(tmp_path / name)] for name in ("lli", "poll")}, "interface")
    stream = packets.writeStream.format("memory").queryName("real").trigger(availableNow=True)
    patiently(stream.start, until_it_ends)
    found = jvm.table("real").orderBy("layering", "frame").toArrow().to_pylist()
    assert found == [row for name in ("lli", "poll") for row in rows(tmp_path / name, name, "interface")]


@pytest.mark.spark
def test_what_ends_a_query_says_so_in_one_line(jvm, tmp_path):
    path = tmp_path / "c"
    path.write_bytes(b"no capture at all, but long enough")
    packets = follow_captures(jvm, {"x": [str(path)]})
    stream = packets.writeStream.format("memory").queryName("refused").trigger(availableNow=True)
    with pytest.raises(PySparkException, match=r"CaptureError: .*c: byte 0: no pcap or pcapng file"):
        patiently(stream.start, until_it_ends)
