"""A Spark data source for captures of any format: one row per frame, decoded, read in parallel byte ranges.

    spark.dataSource.register(CaptureSource)
    packets = spark.read.format("ndn-capture").load("capture.pcapng")

A capture is cut between records (captures.formats.files.cut), and each piece is decoded by one task into
Arrow record batches (analysis.decode.reader). Spark has signed integers only; nanoseconds are a bigint. All
captures are one source, as Spark plans each source in a Python process.

Filters are pushed down: what they exclude never leaves the Python process, and pieces of other runs are not
read. Spark does not push columns down to Python sources: `.schema("time bigint, name string")` selects some.

    packets = follow_captures(spark, {"trace": ["trace.pcapng"]})
    packets.writeStream.format("parquet").option("checkpointLocation", ...).start(...)

reads growing captures: each frame once, whenever the query is stopped and resumed.
"""

import json
import os
import pickle
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from analysis.decode.reading import NodeRule, Reading
from analysis.errors import AnalysisError
from analysis.packet_schema import PACKETS
from analysis.spark.batch_reader import CaptureReader, Mode, readings
from analysis.spark.stream_reader import GrowingReader


def read_captures(
    spark: SparkSession,
    pieces: Sequence[Reading],
    columns: pa.Schema = PACKETS,
    mode: Mode = "failfast",
    partitions: int | None = None,
) -> DataFrame:
    """Return the frames of pieces of captures, with some columns of analysis.decode.reading.READABLE.
    `partitions` is their maximum.

    TCP streams yield only frames, of kind "segment".
    """
    spark.dataSource.register(CaptureSource)
    places = [
        each._replace(piece=each.piece._replace(path=os.path.abspath(each.piece.path))) for each in pieces
    ]
    read = spark.read.format("ndn-capture").schema(from_arrow_schema(columns))
    options = {"pieces": b64encode(pickle.dumps(places)).decode(), "mode": mode}
    if partitions is not None:
        read = read.option("partitions", partitions)
    return read.options(**options).load()


def follow_captures(
    spark: SparkSession,
    captures: Mapping[str, Sequence[str]],
    rule: NodeRule = "auto",
    most_bytes: int | None = None,
    every: float = 0,
    columns: pa.Schema = PACKETS,
) -> DataFrame:
    """Return the stream of the packets of growing captures, with some columns of PACKETS.

    `captures` maps a name to the present and future paths of a capture, in order. A batch has about
    `most_bytes`, or all available; the next one is planned no sooner than `every` seconds later, unless more
    was waiting. (A trigger's own interval would ignore a backlog.) Damage, and a capture that shrinks or is
    replaced, ends the query with a CaptureError.
    """
    spark.dataSource.register(CaptureSource)
    reader = spark.readStream.format("ndn-capture").schema(from_arrow_schema(columns)).option("node", rule)
    if most_bytes is not None:
        reader = reader.option("most_bytes", most_bytes)
    if every:
        reader = reader.option("every", every)
    return reader.option("captures", json.dumps({name: [*paths] for name, paths in captures.items()})).load()


class CaptureSource(DataSource):
    """`spark.read.format("ndn-capture")` and `.load(path)` of one file, or option `captures`, a JSON object
    of paths by name; `parallelism`, the target number of tasks, default 1; `node`, an
    analysis.decode.reading.NodeRule, default by interface; `mode`, an analysis.spark.batch_reader.Mode;
    `partitions`, the maximum number of tasks.

    `spark.readStream`: the same, but `captures` has a list of paths by name; follow_captures() explains the
    other options, `node`, `most_bytes` and `every`.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "ndn-capture"

    def schema(self) -> StructType:
        """Return PACKETS."""
        return from_arrow_schema(PACKETS)

    def reader(self, schema: StructType) -> CaptureReader:
        """Return a reader of the captures."""
        if "pieces" in self.options:
            pieces = pickle.loads(b64decode(self.options["pieces"]))
        else:
            rule: Any = self.options.get("node", "interface")
            tasks = int(self.options.get("parallelism", "1"))
            paths = {name: os.path.abspath(path) for name, path in self._captures().items()}
            pieces = readings(paths, tasks, rule)
        mode: Any = self.options.get("mode", "failfast").lower()
        most = self.options.get("partitions")
        return CaptureReader(pieces, schema.names, mode, int(most) if most else None)

    def streamReader(self, schema: StructType) -> GrowingReader:  # noqa: N802 (Spark's name)
        """Return a reader of growing captures."""
        most = self.options.get("most_bytes")
        captures = {
            name: [paths] if isinstance(paths, str) else paths for name, paths in self._captures().items()
        }
        return GrowingReader(
            {name: [os.path.abspath(path) for path in paths] for name, paths in captures.items()},
            schema.names,
            self.options.get("node", "auto"),
            int(most) if most else None,
            float(self.options.get("every", "0")),
        )

    def _captures(self) -> dict[str, Any]:
        """Return the option of that name, or the path given to load() by its file's name without a suffix."""
        if "captures" in self.options:
            captures: dict[str, Any] = json.loads(self.options["captures"])
            return captures
        if "path" not in self.options:
            raise AnalysisError("ndn-capture: load() needs the path of a capture, or the option `captures`")
        path = self.options["path"]
        return {Path(path).stem: path}
