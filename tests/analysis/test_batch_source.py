"""The Spark data source: its rows are those of the careful decoder."""

import json
import os

import pytest
from handmade import poll, write_capture
from pcapng_oracle import read
from pyspark.errors import PySparkException
from pyspark.sql.datasource import EqualTo, In, LessThanOrEqual

from analysis.decode import reader
from analysis.decode.reader import ReadStatistics, read_packets
from analysis.decode.reading import FRAME_HASH, SIGHTINGS, node_of
from analysis.decode.reference import decode_frame
from analysis.spark import batch_reader
from analysis.spark.batch_reader import readings
from analysis.spark.capture_source import CaptureSource, read_captures
from analysis.spark.engine import EngineChoice, session
from analysis.tables.schema import PACKETS

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def capture(tmp_path_factory):
    path = tmp_path_factory.mktemp("captures") / "capture.pcapng"
    write_capture(path, poll())
    return path


def expected(path, name):
    for number, packet in enumerate(read(path), 1):
        where = (name, packet.interface.name, node_of(packet.interface.name), packet.direction.name.lower())
        yield (
            *where,
            number,
            packet.time,
            packet.original_length,
            *decode_frame(packet.frame, packet.original_length),
        )


def test_one_row_a_frame(jvm, capture):
    packets = read_captures(jvm, readings({"x": str(capture)}, 1))
    assert packets.schema == PACKETS.spark
    assert [tuple(row) for row in packets.orderBy("frame").collect()] == list(expected(capture, "x"))


def test_captures_are_numbered_each_for_itself(jvm, capture):
    rows = read_captures(jvm, readings({"x": str(capture), "y": str(capture)}, 1)).collect()
    frames = list(range(1, len(list(read(capture))) + 1))
    for name in ("x", "y"):
        assert sorted(row.frame for row in rows if row.layering == name) == frames


def test_pieces_number_frames_through(capture, monkeypatch):
    monkeypatch.setattr(batch_reader, "SMALLEST_PIECE", 1000)
    pieces = readings({"x": str(capture)}, parallelism=99)
    assert len(pieces) > 2
    batches = [batch for piece in pieces for batch in read_packets(piece, ReadStatistics())]
    frames = [row["frame"] for batch in batches for row in batch.to_pylist()]
    assert frames == list(range(1, len(list(read(capture))) + 1))


def test_a_damaged_capture_names_file_and_byte(jvm, capture, tmp_path):
    cut = tmp_path / "cut.pcapng"
    cut.write_bytes(capture.read_bytes()[:-10])
    with pytest.raises(PySparkException, match=r"CaptureError: .*cut\.pcapng: byte \d+"):
        read_captures(jvm, readings({"x": str(cut)}, 1)).count()


def test_columns_and_filters_are_pushed_down(capture):
    """What a filter excludes is not decoded into rows, and what the source applies Spark does not repeat."""
    rows = list(expected(capture, "x"))
    names = PACKETS.arrow.names
    kind, time = names.index("kind"), names.index("time")
    some = sorted(row[time] for row in rows)[len(rows) // 2]
    pieces = readings({"x": str(capture), "y": str(capture)}, 1)
    reader = batch_reader.CaptureReader(pieces, ["frame", "name"])
    left = EqualTo(("name", "more"), 1)
    pushed = [EqualTo(("layering",), "x"), In(("kind",), ("data", "lli")), LessThanOrEqual(("time",), some)]
    assert list(reader.pushFilters([*pushed, left])) == [left]
    [piece] = reader.partitions()
    batches = list(reader.read(piece))
    assert {tuple(batch.schema.names) for batch in batches} == {("frame", "name")}
    wanted = [row[names.index("frame")] for row in rows if row[kind] in ("data", "lli") and row[time] <= some]
    assert 0 < len(wanted) < len(rows)
    assert [frame for batch in batches for frame in batch["frame"].to_pylist()] == wanted
    other = batch_reader.CaptureReader(pieces, ["frame"])
    assert not list(other.pushFilters([EqualTo(("layering",), "z")]))
    assert not [batch for piece in other.partitions() for batch in other.read(piece)]


def test_in_with_null_excludes_null(capture):
    """As in SQL, where null is in no list."""
    reader = batch_reader.CaptureReader(readings({"x": str(capture)}, 1), ["problem"])
    assert not list(reader.pushFilters([In(("problem",), ("no such", None))]))
    assert not [batch for piece in reader.partitions() for batch in reader.read(piece)]


def test_pieces_share_partitions(capture, monkeypatch):
    monkeypatch.setattr(batch_reader, "SMALLEST_PIECE", 1000)
    pieces = readings({"x": str(capture)}, parallelism=99)
    frames = []
    for most in (None, 2, 99):
        reader = batch_reader.CaptureReader(pieces, ["frame"], partitions=most)
        partitions = reader.partitions()
        assert len(partitions) == min(most or 99, len(pieces)) > 1
        read = (batch for part in partitions for batch in reader.read(part))
        frames.append([frame for batch in read for frame in batch["frame"].to_pylist()])
    assert frames[0] == list(range(1, len(frames[0]) + 1))
    assert frames[0] == frames[1] == frames[2]


@pytest.mark.parametrize("engine", ["sail", "spark"])
def test_engines_push_filters(jvm, capture, engine):
    here = session(EngineChoice(engine), small=True)
    here.dataSource.register(CaptureSource)
    read = here.read.schema("time bigint, kind string, name string").format("ndn-capture")
    place = os.path.relpath(capture) if engine == "spark" else str(capture)
    packets = read.option("captures", json.dumps({"x": place})).load()
    assert read.load(place).count() == packets.count()
    found = packets.where("kind = 'data' and time > 0 and name is not null").select("time", "name")
    names = PACKETS.arrow.names
    wanted = [
        (row[names.index("time")], row[names.index("name")])
        for row in expected(capture, "x")
        if row[names.index("kind")] == "data" and row[names.index("time")] > 0
    ]
    assert sorted(map(tuple, found.collect())) == sorted(wanted) != []


def test_what_frames_tell_without_a_look_into_them_needs_no_decoding(capture, monkeypatch):
    pieces = readings({"x": str(capture)}, 1)
    names = [name for name in SIGHTINGS.names if name != FRAME_HASH]
    (whole,) = read_packets(pieces[0], ReadStatistics())
    monkeypatch.setattr(reader, "decode_records", None)
    (seen,) = read_packets(pieces[0], ReadStatistics(), SIGHTINGS.names)
    assert seen.select(names).equals(whole.select(names))
    frames = [packet.frame for packet in read(capture)]
    assert len(set(frames)) == len(set(seen[FRAME_HASH].to_pylist()))
    known = dict(zip(frames, seen[FRAME_HASH].to_pylist(), strict=True))
    assert [known[frame] for frame in frames] == seen[FRAME_HASH].to_pylist()
