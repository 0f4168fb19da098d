"""A Spark data source for pcapng: one row a frame, read in parallel byte ranges.

    frames = read_capture(spark, "run/lli/capture.pcapng")

A capture is cut on block boundaries (captures.pcapng.scan), and each range is read by one task into Arrow
record batches. Spark takes signed integers only; nanoseconds are a bigint.
"""

import os
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from captures.pcapng import Direction, Packet, Range, read_range, scan

FRAMES = StructType(
    [
        StructField("interface", StringType()),
        StructField("direction", StringType()),
        StructField("frame", LongType()),
        StructField("time", LongType()),
        StructField("frame_bytes", LongType()),
        StructField("raw", BinaryType()),
    ]
)
"""One row a captured frame.

interface: name of the interface; direction: "in", "out", or null if the capture does not say;
frame: number of the frame in its file, from 1, as in Wireshark; time: ns; frame_bytes: its length on the
wire; raw: its bytes, fewer if the capture cut it.
"""

_ARROW = pa.schema(
    [
        ("interface", pa.string()),
        ("direction", pa.string()),
        ("frame", pa.int64()),
        ("time", pa.int64()),
        ("frame_bytes", pa.int64()),
        ("raw", pa.binary()),
    ]
)
_DIRECTIONS = {Direction.IN: "in", Direction.OUT: "out", Direction.UNKNOWN: None}
_BATCH = 8192
_LARGEST_RANGE = 64 << 20
_SMALLEST_RANGE = 1 << 20


def read_capture(spark: SparkSession, path: str | os.PathLike[str]) -> DataFrame:
    """Return the frames of a capture, with the columns of FRAMES."""
    spark.dataSource.register(PcapngSource)
    return (
        spark.read.format("pcapng")
        .option("parallelism", spark.sparkContext.defaultParallelism)
        .load(os.fspath(path))
    )


class PcapngSource(DataSource):
    """`spark.read.format("pcapng").load(path)`; option `parallelism`: tasks to aim for, 1 if not given."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "pcapng"

    def schema(self) -> StructType:
        """Return FRAMES."""
        return FRAMES

    def reader(self, schema: StructType) -> "PcapngReader":
        """Return a reader of the file that was given to load()."""
        return PcapngReader(self.options["path"], int(self.options.get("parallelism", "1")))


class CaptureRange(InputPartition):
    """A range of a capture; `first` is the number of its first frame."""

    def __init__(self, bounds: Range, first: int) -> None:
        super().__init__(tuple(bounds))
        self.first = first


class PcapngReader(DataSourceReader):
    """Cuts a capture, and reads the pieces."""

    def __init__(self, path: str, parallelism: int) -> None:
        self._path = path
        self._parallelism = parallelism

    def partitions(self) -> list[InputPartition]:
        """Return ranges of like size; only a capture that is cut is read here, to number its frames."""
        share = os.path.getsize(self._path) // self._parallelism + 1
        ranges = list(scan(self._path, max(_SMALLEST_RANGE, min(share, _LARGEST_RANGE))))
        parts: list[InputPartition] = []
        first = 1
        for bounds in ranges:
            parts.append(CaptureRange(bounds, first))
            if bounds is not ranges[-1]:
                first += sum(1 for _ in read_range(self._path, *bounds))
        return parts

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the record batches of a range."""
        assert isinstance(partition, CaptureRange)
        packets = read_range(self._path, *partition.value)
        number = partition.first
        while batch := list(islice(packets, _BATCH)):
            yield _record_batch(batch, number)
            number += len(batch)


def _record_batch(packets: list[Packet], first: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            pa.array([packet.interface.name for packet in packets], pa.string()),
            pa.array([_DIRECTIONS[packet.direction] for packet in packets], pa.string()),
            pa.array(range(first, first + len(packets)), pa.int64()),
            pa.array([packet.time for packet in packets], pa.int64()),
            pa.array([packet.original_length for packet in packets], pa.int64()),
            pa.array([packet.frame for packet in packets], pa.binary()),
        ],
        schema=_ARROW,
    )
