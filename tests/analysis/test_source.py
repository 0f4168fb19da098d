"""The Spark data source, and decoding through it."""

import pytest
from handmade import poll, write_capture
from pyspark.errors import PySparkException

from analysis import source
from analysis.decode import PACKETS, decode
from captures.pcapng import read, scan

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def capture(tmp_path_factory):
    path = tmp_path_factory.mktemp("captures") / "capture.pcapng"
    write_capture(path, poll())
    return path


def test_one_row_a_frame(spark, capture):
    rows = source.read_captures(spark, {"x": capture}).orderBy("frame").collect()
    assert [(row.interface, row.direction, row.time, row.frame_bytes, bytes(row.raw)) for row in rows] == [
        (p.interface.name, p.direction.name.lower(), p.time, p.original_length, p.frame)
        for p in read(capture)
    ]
    assert [row.frame for row in rows] == list(range(1, len(rows) + 1))
    assert {row.layering for row in rows} == {"x"}


def test_captures_are_numbered_each_for_itself(spark, capture):
    rows = source.read_captures(spark, {"x": capture, "y": capture}).collect()
    frames = list(range(1, len(list(read(capture))) + 1))
    for name in ("x", "y"):
        assert sorted(row.frame for row in rows if row.layering == name) == frames


def test_ranges_number_frames_through(capture, monkeypatch):
    monkeypatch.setattr(source, "_SMALLEST_RANGE", 1000)
    reader = source.PcapngReader({"x": str(capture)}, parallelism=4)
    parts = reader.partitions()
    assert len(parts) > 2
    assert len(parts) <= len(list(scan(capture, 1000)))
    batches = [batch for part in parts for batch in reader.read(part)]
    frames = [row["frame"] for batch in batches for row in batch.to_pylist()]
    assert frames == list(range(1, len(list(read(capture))) + 1))


def test_decode_keeps_schema_and_rows(spark, capture):
    packets = decode(source.read_captures(spark, {"x": capture}))
    assert packets.schema == PACKETS
    rows = packets.orderBy("frame").collect()
    assert [row.frame for row in rows] == list(range(1, len(rows) + 1))
    assert {row.kind for row in rows} == {"interest", "data", "fragment"}
    assert {(row.node, row.interface) for row in rows} == {
        ("p", "p-eth0"),
        ("r", "r-eth0"),
        ("r", "r-eth1"),
        ("s", "s-eth0"),
    }


def test_a_damaged_capture_names_file_and_byte(spark, capture, tmp_path):
    cut = tmp_path / "cut.pcapng"
    cut.write_bytes(capture.read_bytes()[:-10])
    with pytest.raises(PySparkException, match=r"CaptureError: .*cut\.pcapng: byte \d+"):
        source.read_captures(spark, {"x": cut}).count()
