"""A Spark data source for pcapng: one row a frame, read in parallel byte ranges.

    frames = read_captures(spark, {"poll": "run/poll/capture.pcapng", "lli": "run/lli/capture.pcapng"})

A capture is cut on block boundaries (captures.pcapng.scan), and each range is read by one task into Arrow
record batches. Spark takes signed integers only; nanoseconds are a bigint. All captures are one source, as
Spark starts a Python process to plan each.
"""

import json
import os
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from captures.pcapng import Direction, Packet, Range, read_range, scan

FRAMES = StructType(
    [
        StructField("layering", StringType()),
        StructField("interface", StringType()),
        StructField("direction", StringType()),
        StructField("frame", LongType()),
        StructField("time", LongType()),
        StructField("frame_bytes", LongType()),
        StructField("raw", BinaryType()),
    ]
)
"""One row a captured frame.

layering: the capture's name; interface: name of the interface; direction: "in", "out", or null if the
capture does not say; frame: number of the frame in its file, from 1, as in Wireshark; time: ns;
frame_bytes: its length on the wire; raw: its bytes, fewer if the capture cut it.
"""

_ARROW = pa.schema(
    [
        ("layering", pa.string()),
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


def read_captures(spark: SparkSession, captures: Mapping[str, str | os.PathLike[str]]) -> DataFrame:
    """Return the frames of some captures, with the columns of FRAMES; `captures` maps names to paths."""
    spark.dataSource.register(PcapngSource)
    paths = {name: os.fspath(path) for name, path in captures.items()}
    return (
        spark.read.format("pcapng")
        .option("parallelism", spark.sparkContext.defaultParallelism)
        .option("captures", json.dumps(paths))
        .load()
    )


class PcapngSource(DataSource):
    """`spark.read.format("pcapng")`: option `captures`, a JSON object of paths by name; `parallelism`, the
    tasks to aim for, 1 if not given."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "pcapng"

    def schema(self) -> StructType:
        """Return FRAMES."""
        return FRAMES

    def reader(self, schema: StructType) -> "PcapngReader":
        """Return a reader of the captures."""
        return PcapngReader(json.loads(self.options["captures"]), int(self.options.get("parallelism", "1")))


class CaptureRange(InputPartition):
    """A range of the capture `name` at `path`; `first` is the number of its first frame."""

    def __init__(self, name: str, path: str, bounds: Range, first: int) -> None:
        super().__init__(tuple(bounds))
        self.name = name
        self.path = path
        self.first = first


class PcapngReader(DataSourceReader):
    """Cuts captures, and reads the pieces."""

    def __init__(self, paths: dict[str, str], parallelism: int) -> None:
        self._paths = paths
        self._parallelism = parallelism

    def partitions(self) -> list[InputPartition]:
        """Return ranges of like size; only a capture that is cut is read here, to number its frames."""
        share = sum(map(os.path.getsize, self._paths.values())) // self._parallelism + 1
        parts: list[InputPartition] = []
        for name, path in self._paths.items():
            ranges = list(scan(path, max(_SMALLEST_RANGE, min(share, _LARGEST_RANGE))))
            first = 1
            for bounds in ranges:
                parts.append(CaptureRange(name, path, bounds, first))
                if bounds is not ranges[-1]:
                    first += sum(1 for _ in read_range(path, *bounds))
        return parts

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the record batches of a range."""
        assert isinstance(partition, CaptureRange)
        packets = read_range(partition.path, *partition.value)
        number = partition.first
        while batch := list(islice(packets, _BATCH)):
            yield _record_batch(partition.name, batch, number)
            number += len(batch)


def _record_batch(name: str, packets: list[Packet], first: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            pa.repeat(name, len(packets)),
            pa.array([packet.interface.name for packet in packets], pa.string()),
            pa.array([_DIRECTIONS[packet.direction] for packet in packets], pa.string()),
            pa.array(range(first, first + len(packets)), pa.int64()),
            pa.array([packet.time for packet in packets], pa.int64()),
            pa.array([packet.original_length for packet in packets], pa.int64()),
            pa.array([packet.frame for packet in packets], pa.binary()),
        ],
        schema=_ARROW,
    )
