"""Third-party captures: every table of analysis.tables.schema, computed from the packets alone.

analysis.spark.to_parquet has written packets in directories by run, node and interface; the other tables are
written beside them, by run. The engine computes each once: docs/cluster.md says what it holds in one place.
"""

import shutil
from collections.abc import Collection
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from analysis.decode.messages import STREAM_LAYERS
from analysis.decode.streams import STREAM_LAYERS_TABLE
from analysis.packet_schema import MESSAGES
from analysis.pit.windows.slots import slots_of
from analysis.pit.windows.tables import pits, write_told
from analysis.run.context import BREAKS
from analysis.spark.engine import frame
from analysis.spark.parallel import in_parallel
from analysis.spark.parquet import BY, at_least_empty, read_packets, read_parquet, set_aside, settle
from analysis.tables.feed_progress import captured_latency
from analysis.tables.overhead import overhead, seen_once
from analysis.tables.packet_tables import FOLLOWERS, write_packet_tables
from analysis.tables.reassembly import joined, unfragmented
from analysis.tables.schema import LATENCY, OVERHEAD, PACKETS, TABLES
from analysis.tables.shares import followed, nodes_of

_REJOINED = ".rejoined"


def write_tables(
    out: Path, runs: Collection[str], spark: SparkSession, *, fragments: bool, small: bool
) -> None:
    """Write every table that analysis.spark.to_parquet has not written, into directories `out`/NAME.

    `fragments`: whether NDNLPv2 fragments need reassembly. `small`: whether jobs leave cores and memory idle.
    """
    packets = whole = read_packets(spark, out / "packets", PACKETS.spark)
    if fragments:
        rejoined = settle(joined(packets, frame(spark, BREAKS.empty_table())), out / _REJOINED)
        whole = unfragmented(packets).union(rejoined)
    messages = whole.where(F.col("kind").isin(*MESSAGES))

    layers = from_arrow_schema(STREAM_LAYERS)
    streams = read_parquet(spark, out / STREAM_LAYERS_TABLE, layers)

    def keep(name: str, table: DataFrame) -> DataFrame:
        return settle(table, out / name)

    nodes = nodes_of(whole)
    with set_aside(followed(whole, nodes, pits(), *FOLLOWERS), out / ".followed") as told:
        in_parallel(
            lambda: write_told(told, out, slots_of(nodes)),
            lambda: write_packet_tables(told, keep),
            lambda: keep(LATENCY.name, captured_latency(messages, nodes)),
            lambda: keep(OVERHEAD.name, overhead(*seen_once(packets, streams))),
            most=None if small else 1,
        )
    shutil.rmtree(out / _REJOINED, ignore_errors=True)
    shutil.rmtree(out / STREAM_LAYERS_TABLE)
    for table in TABLES:
        if table is not PACKETS:
            at_least_empty(out / table.name, table.arrow, runs, BY[:1])
