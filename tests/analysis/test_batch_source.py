"""The Spark data source: its rows are those of the careful decoder."""

import pytest
from handmade import poll, write_capture
from pcapng_oracle import read
from pyspark.errors import PySparkException

from analysis.decode.reader import ReadStatistics, read_packets
from analysis.decode.reference import decode_frame, node_of
from analysis.spark import batch_source as source
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
    packets = source.read_captures(jvm, {"x": capture})
    assert packets.schema == PACKETS.spark
    assert [tuple(row) for row in packets.orderBy("frame").collect()] == list(expected(capture, "x"))


def test_captures_are_numbered_each_for_itself(jvm, capture):
    rows = source.read_captures(jvm, {"x": capture, "y": capture}).collect()
    frames = list(range(1, len(list(read(capture))) + 1))
    for name in ("x", "y"):
        assert sorted(row.frame for row in rows if row.layering == name) == frames


def test_pieces_number_frames_through(capture, monkeypatch):
    monkeypatch.setattr(source, "SMALLEST_PIECE", 1000)
    pieces = source.readings({"x": str(capture)}, parallelism=99)
    assert len(pieces) > 2
    batches = [batch for piece in pieces for batch in read_packets(piece, ReadStatistics())]
    frames = [row["frame"] for batch in batches for row in batch.to_pylist()]
    assert frames == list(range(1, len(list(read(capture))) + 1))


def test_a_damaged_capture_names_file_and_byte(jvm, capture, tmp_path):
    cut = tmp_path / "cut.pcapng"
    cut.write_bytes(capture.read_bytes()[:-10])
    with pytest.raises(PySparkException, match=r"CaptureError: .*cut\.pcapng: byte \d+"):
        source.read_captures(jvm, {"x": cut}).count()
