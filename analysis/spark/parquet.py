"""Tables as Parquet in directories: naming, reading and writing.

A directory is named after a column and its value, as in layering=lli. Values are URL-escaped by Spark and by
partition(), though not for the same letters; readers unescape all. Non-ASCII letters stand for themselves:
Spark would decode each escaped byte to a letter of its own.
"""

import re
import shutil
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from analysis.spark.engine import is_sail

By = Sequence[str]
"""The partition columns."""

BY = ("layering", "node", "interface")
"""The partition columns of packets."""

_SPECIAL = re.compile(r"[\0-\x7f](?<![A-Za-z0-9_.~ -])")
_PATTERN = re.compile(r"[][{}*?\\]")
_ROW_GROUP = 16 << 20

TABLE = "table"
"""The column that names a row's table, where the rows of several tables are together."""

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


def write(table: DataFrame, path: Path, by: By, mode: str = "overwrite") -> None:
    """Write a table in directories of `by`, by the engine's own writer; it is empty without rows."""
    writer = table.write.mode(mode).option("compression", "snappy")
    if by:
        writer = writer.partitionBy(*by)
    writer.option("parquet.block.size", _ROW_GROUP).parquet(_whole(table.sparkSession, path))
    path.mkdir(parents=True, exist_ok=True)  # by Sail only if there are rows


def settle(table: DataFrame, path: Path) -> DataFrame:
    """Write a table anew, a directory for each layering; return it as read back."""
    write(table, path, BY[:1])
    return read_parquet(table.sparkSession, path, table.schema)


def of_table(rows: DataFrame, name: str, schema: pa.Schema) -> DataFrame:
    """Return one table of several, whose rows are together."""
    return rows.where(F.col(TABLE) == name).select(*schema.names)


@contextmanager
def set_aside(table: DataFrame, path: Path) -> Iterator[DataFrame]:
    """Write a large table that is used several times; return it as read back, and remove it in the end.

    A cache of Spark's would take more time to fill, and the memory of the executors.
    """
    try:
        write(table, path, ())
        yield read_parquet(table.sparkSession, path, table.schema)
    finally:
        shutil.rmtree(path, ignore_errors=True)


def at_least_empty(path: Path, schema: pa.Schema, runs: Collection[str], by: By) -> None:
    """Write an empty file for each run without rows, so that readers find the columns."""
    there = {directories(file.relative_to(path))["layering"] for file in path.rglob("*.parquet")}
    kept = pa.schema([field for field in schema if field.name not in by])
    for run in runs:
        if (run or None) not in there:
            place = path.joinpath(*(partition(key, run) for key in by))
            place.mkdir(parents=True, exist_ok=True)
            pq.write_table(kept.empty_table(), place / "part-empty.parquet", store_schema=False)


def read_parquet(spark: SparkSession, path: Path, schema: StructType) -> DataFrame:
    """Read Parquet of this schema; so it works without a file, and directory values such as node=01 stay
    texts.
    """
    # As text: Sail mistakes the metadata of a StructField for a difference, though there are none.
    fields = (f"`{field.name}` {field.dataType.simpleString()}" for field in schema)
    return spark.read.schema(", ".join(fields)).parquet(_place(spark, path)).select(*schema.names)


def _place(spark: SparkSession, path: Path) -> str:
    """Return a path that an engine reads: pattern characters are escaped."""
    whole = _whole(spark, path)
    return whole if is_sail(spark) else _PATTERN.sub(r"\\\g<0>", whole)


def _whole(spark: SparkSession, path: Path) -> str:
    """Return an absolute path for an engine, as text before a colon would be a scheme."""
    return path.resolve().as_uri() if is_sail(spark) else str(path.resolve())
