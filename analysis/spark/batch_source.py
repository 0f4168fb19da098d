"""A Spark data source for captures of any format: one row per frame, decoded, read in parallel byte ranges.

    packets = read_captures(spark, {"poll": "run/poll/capture.pcapng", "lli": "run/lli/capture.pcapng"})

A capture is cut between records (captures.formats.files.cut), and each piece is decoded by one task into
Arrow record batches (analysis.decode.reader). Spark has signed integers only; nanoseconds are a bigint. All
captures are one source, as Spark plans each source in a Python process. Spark does not push column selections
down to Python sources: for several queries, write Parquet first (analysis.spark.to_parquet), which is also
faster.
"""

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from analysis.decode.reader import NodeRule, Reading, ReadStatistics, plain, read_packets, strictly
from analysis.packet_schema import PACKETS
from captures.formats.files import PIECE_BYTES, cut

SMALLEST_PIECE = 1 << 20


def read_captures(spark: SparkSession, captures: Mapping[str, str | os.PathLike[str]]) -> DataFrame:
    """Return the packets of captures, with the columns of PACKETS; `captures` maps names to paths.

    Damage ends the job with a CaptureError. TCP streams yield only frames, of kind "segment".
    """
    spark.dataSource.register(CaptureSource)
    paths = {name: os.fspath(path) for name, path in captures.items()}
    return (
        spark.read.format("ndn-capture")
        .option("parallelism", spark.sparkContext.defaultParallelism)
        .option("captures", json.dumps(paths))
        .load()
    )


def readings(paths: Mapping[str, str], parallelism: int, rule: NodeRule = "interface") -> list[Reading]:
    """Cut captures into pieces of similar size for `parallelism` tasks."""
    share = sum(map(os.path.getsize, paths.values())) // parallelism + 1
    size = max(SMALLEST_PIECE, min(share, PIECE_BYTES))
    return [Reading(name, piece, rule) for name, path in paths.items() for piece in cut(path, size)]


class CaptureSource(DataSource):
    """`spark.read.format("ndn-capture")`: option `captures`, a JSON object of paths by name; `parallelism`,
    the target number of tasks, default 1; `node`, an analysis.decode.reader.NodeRule, default by interface.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "ndn-capture"

    def schema(self) -> StructType:
        """Return PACKETS."""
        return from_arrow_schema(PACKETS)

    def reader(self, schema: StructType) -> "CaptureReader":
        """Return a reader of the captures."""
        paths = json.loads(self.options["captures"])
        return CaptureReader(
            paths, int(self.options.get("parallelism", "1")), self.options.get("node", "interface")
        )


class CapturePiece(InputPartition):
    """A piece of a capture."""

    def __init__(self, reading: Reading) -> None:
        super().__init__(tuple(reading))
        self.reading = reading


class CaptureReader(DataSourceReader):
    """Cuts captures, and decodes the pieces."""

    def __init__(self, paths: dict[str, str], parallelism: int, rule: Any) -> None:
        self._paths = paths
        self._parallelism = parallelism
        self._rule = rule

    def partitions(self) -> list[InputPartition]:
        """Return the pieces."""
        return [CapturePiece(each) for each in readings(self._paths, self._parallelism, self._rule)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the record batches of a piece."""
        assert isinstance(partition, CapturePiece)
        findings = ReadStatistics()
        for batch in read_packets(partition.reading, findings):
            yield plain(batch)
        strictly(partition.reading.piece.path, findings.damages)
