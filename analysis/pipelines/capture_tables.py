"""Third-party captures: every table of analysis.tables.schema, computed from the packets alone.

analysis.spark.to_parquet has written packets in directories by run, node and interface; the other tables are
written beside them, by run. Spark computes each once, without holding it in one place.
"""

import shutil
from collections.abc import Collection
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from analysis.decode.messages import STREAM_LAYERS
from analysis.packet_schema import MESSAGES
from analysis.pit.windows import files
from analysis.run.context import BREAKS
from analysis.spark.engine import frame
from analysis.spark.parallel import in_parallel
from analysis.spark.parquet import BY, at_least_empty, read_packets, read_parquet, settle, write_by_time
from analysis.spark.to_parquet import STREAM_LAYERS_TABLE
from analysis.tables.feed_progress import captured_latency
from analysis.tables.overhead import overhead, seen_once
from analysis.tables.packet_tables import write_packet_tables
from analysis.tables.reassembly import reassemble
from analysis.tables.schema import LATENCY, OVERHEAD, PACKETS, TABLES

FEW_BYTES = 4 << 20
"""Maximum Parquet bytes of packets for PIT reconstruction in this process."""

_MESSAGES = ".messages"


def write_tables(
    out: Path, runs: Collection[str], spark: SparkSession, *, fragments: bool, here: bool
) -> None:
    """Write every table that analysis.spark.to_parquet has not written, into directories `out`/NAME.

    `fragments`: whether NDNLPv2 fragments need reassembly; `here`: whether tables are small enough to be
    collected and written by this process.
    """
    out = out.resolve()  # tasks have working directories of their own
    packets = read_packets(spark, out / "packets", PACKETS.spark)
    size = sum(path.stat().st_size for path in (out / "packets").rglob("*.parquet"))
    messages = packets.where(F.col("kind").isin(*MESSAGES))
    whole = out / "packets"
    if fragments:
        whole = out / _MESSAGES
        breaks = frame(spark, BREAKS.empty_table())
        reassembled = reassemble(packets, breaks, here=here)
        write_by_time(reassembled, whole, here=here)
        messages = read_packets(spark, whole, reassembled.schema).where(F.col("kind").isin(*MESSAGES))

    layers = from_arrow_schema(STREAM_LAYERS)
    streams = read_parquet(spark, out / STREAM_LAYERS_TABLE, layers)

    def keep(name: str, table: DataFrame) -> DataFrame:
        return settle(table, out / name, here=here)

    in_parallel(
        # For few packets, starting Spark's Python processes takes longer than the work.
        lambda: files.scan(whole, out, None if here or size <= FEW_BYTES else spark),
        lambda: write_packet_tables(messages, whole, lambda name: out / name, keep, here=here),
        lambda: keep(LATENCY.name, captured_latency(messages)),
        lambda: keep(OVERHEAD.name, overhead(*seen_once(packets, streams))),
    )
    shutil.rmtree(out / _MESSAGES, ignore_errors=True)
    shutil.rmtree(out / STREAM_LAYERS_TABLE)
    for path in out.rglob(".*.crc"):  # Hadoop's checksum files break polars
        path.unlink()
    for table in TABLES:
        if table is not PACKETS:
            at_least_empty(out / table.name, table.arrow, runs, BY[:1])
