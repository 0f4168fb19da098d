"""Tables as Parquet in directories: naming, reading, writing, and atomic files.

A directory is named after a column and its value, as in layering=lli. Values are URL-escaped by Spark and by
partition(), though not for the same letters; readers unescape all. Non-ASCII letters stand for themselves:
Spark would decode each escaped byte to a letter of its own.
"""

import re
import shutil
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from analysis.spark.engine import is_sail
from base.files import whole_file

By = Sequence[str]
"""The partition columns."""

BY = ("layering", "node", "interface")
"""The partition columns of packets."""

_SPECIAL = re.compile(r"[\0-\x7f](?<![A-Za-z0-9_.~ -])")
_PATTERN = re.compile(r"[][{}*?\\]")
_ROW_GROUP = 16 << 20

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""Directory value for null."""


def partition(key: str, value: str) -> str:
    """Return the directory name for rows with a value."""
    escaped = _SPECIAL.sub(lambda found: f"%{ord(found[0]):02X}", value) or NO_VALUE
    # A value equal to the name for null.
    return f"{key}={'%5F' + escaped[1:] if value == NO_VALUE else escaped}"


def directories(path: Path) -> dict[str, str | None]:
    """Return the partition values of a file from its path in the table."""
    parts = (part.partition("=") for part in path.parts[:-1])
    return {key: None if value == NO_VALUE else unquote(value) for key, sign, value in parts if sign}


def read_packets(spark: SparkSession, path: Path, schema: StructType) -> DataFrame:
    """Read packets of this schema from directories of BY; node and interface are never null."""
    # The directory for null reads as null.
    return read_parquet(spark, path, schema).na.fill("", ["node", "interface"])


def settle(table: DataFrame, path: Path, *, here: bool) -> DataFrame:
    """Write a table anew, a directory for each layering; return it as read back.

    `here`: it is small enough to be collected, which is faster than writing by Spark.
    """
    if here:
        shutil.rmtree(path, ignore_errors=True)
        write_rows(table.toArrow(), path, BY[:1])
    else:
        table.write.mode("overwrite").partitionBy("layering").parquet(str(path.resolve()))
    return read_parquet(table.sparkSession, path, table.schema)


def write_rows(rows: pa.Table, path: Path, by: By) -> None:
    """Write rows in directories of `by`, a file each; without rows the directory is empty."""
    path.mkdir(parents=True, exist_ok=True)
    columns = list(by)
    places = pa.array(np.arange(len(rows)))
    groups = rows.select(columns).append_column("place", places).group_by(columns)
    for group in groups.aggregate([("place", "list")]).to_pylist():
        own = rows.take(group["place_list"]).drop_columns(columns)
        directory = path.joinpath(*(partition(name, group[name] or "") for name in by))
        with WholeFile(directory / "part-0.parquet", own.schema) as file:
            file.write(own)


def at_least_empty(path: Path, schema: pa.Schema, runs: Collection[str], by: By) -> None:
    """Write an empty file for each run without rows, so that readers find the columns."""
    there = {directories(file.relative_to(path))["layering"] for file in path.rglob("*.parquet")}
    kept = pa.schema([field for field in schema if field.name not in by])
    for run in runs:
        if (run or None) not in there:
            with WholeFile(path.joinpath(*(partition(key, run) for key in by), "part-empty.parquet"), kept):
                pass


def write_by_time(packets: DataFrame, path: Path, by: By = BY, *, here: bool) -> None:
    """Rewrite packets in directories of `by` so that few row groups of a node overlap in time.

    Readers in order of time (analysis.pit.windows.files) hold only these. `here` is settle()'s.
    """
    if here:
        shutil.rmtree(path, ignore_errors=True)
        in_order = packets.toArrow().sort_by([("time", "ascending"), ("frame", "ascending")])
        write_rows(in_order, path, by)
        return
    # Spark's own order of directories: any other order would make it sort again.
    ordered = packets.repartitionByRange("layering", "node", "time")
    ordered = ordered.sortWithinPartitions(*by, "time", "frame")
    writer = ordered.write.mode("overwrite").partitionBy(*by).option("parquet.block.size", _ROW_GROUP)
    writer.parquet(str(path.resolve()))


def read_parquet(spark: SparkSession, path: Path, schema: StructType) -> DataFrame:
    """Read Parquet of this schema; so it works without a file, and directory values such as node=01 stay
    texts.
    """
    # As text: Sail mistakes the metadata of a StructField for a difference, though there are none.
    fields = (f"`{field.name}` {field.dataType.simpleString()}" for field in schema)
    return spark.read.schema(", ".join(fields)).parquet(_place(spark, path)).select(*schema.names)


def _place(spark: SparkSession, path: Path) -> str:
    """Return a path for an engine: absolute, as text before a colon would be a scheme, with pattern
    characters escaped.
    """
    if is_sail(spark):
        return path.resolve().as_uri()
    return _PATTERN.sub(r"\\\g<0>", str(path.resolve()))


class WholeFile:
    """A Parquet file that appears complete or not at all.

    `options` are pyarrow.parquet.ParquetWriter's.
    """

    def __init__(self, path: Path, schema: pa.Schema, **options: Any) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            new = stack.enter_context(whole_file(path))
            options = {"compression": "snappy", "store_schema": False, **options}
            self._file = stack.enter_context(pq.ParquetWriter(new, schema, **options))
            self._closing = stack.pop_all()

    def write(self, table: pa.Table) -> None:
        """Append rows."""
        if len(table):
            self._file.write_table(table)

    def __enter__(self) -> "WholeFile":
        return self

    def __exit__(self, *failure: Any) -> None:
        self._closing.__exit__(*failure)
