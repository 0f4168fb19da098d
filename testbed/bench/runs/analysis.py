"""Speed of PIT reconstruction: `make bench-analysis`, or `python -m testbed.bench.runs.analysis`.

A tree of lossy links is emulated, with subscribers that hold windows of Interests: they are aggregated,
repeated, answered by the application, by the cache or by another node's Data, and some expire. The decoded
packets of all nodes are tiled to the requested number of rows: each copy is later, and has names of its own.
From the same Parquet the occupancy of every PIT, and of all together, is computed

- by feednet (analysis.pit.windows.tables.write_pits) with Spark on two cores, in a running session;
- by DuckDB, in the best SQL found for it, on all cores.

feednet also computes the table of entries. Of the rules of analysis/pit/model.py the SQL has those that this
traffic needs, without: Nacks, CanBePrefix, digests, persistent Interests, LLIs, HopLimit 0, loops, differing
lifetimes, MustBeFresh, restarts and links, packets without a direction, Data sent to some of the requesters.
Both results have to be equal, row by row.

Then feednet processes these packets again with CanBePrefix in every Interest, and Data with one component
more than requested: the PIT state is equal, and the time is compared with the plain case. And LLIs, in a
tenth as many rows. Only ratios within one repetition count; shown are the median, the minimum and the
maximum. Peak memory is that of a process with Sail, for a tenth of the rows and for all.
"""

import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import click
import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from analysis.pit.windows.tables import write_pits
from analysis.run.manifest import Run
from analysis.spark.batch_reader import readings
from analysis.spark.parquet import BY, read_packets
from analysis.spark.session import spark_session
from analysis.spark.to_parquet import extract
from analysis.tables.schema import PACKETS
from testbed.bench.figures import Measured, Row, Series, figure
from testbed.bench.program import command, report, run
from testbed.experiment import run as running
from testbed.experiment.platform import EMULATED
from testbed.scenario import workload
from testbed.scenario.reader import load

BAR = 1.5
"""Maximum ratio to DuckDB's time."""

PREFIX_BAR = 3
"""Maximum ratio of Interests with CanBePrefix to the plain case."""

ITEMS = 1200
_GAP = 10_000_000_000
_ROWS = 1 << 18

SQL = """
COPY (
WITH packets AS (
  SELECT node, hash(name) AS name, name_length, interface, direction = 'in' AS comes,
    kind = 'interest' AS asks, time, frame, CASE WHEN kind = 'interest' THEN time + lifetime_ns END AS expiry
  FROM read_parquet('{packets}/*/*/*/*.parquet', hive_partitioning = true) WHERE kind IN ('interest', 'data')
), marked AS (
  SELECT *, CASE
      WHEN time < max(expiry) OVER (earlier ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
        AND (lag(asks) OVER earlier OR NOT (asks OR comes OR lag(comes) OVER earlier))
      THEN 0 ELSE 1 END AS begins
  FROM packets WINDOW earlier AS (PARTITION BY node, name ORDER BY time, frame)
), numbered AS (
  SELECT *, sum(begins) OVER (
    PARTITION BY node, name ORDER BY time, frame ROWS UNBOUNDED PRECEDING) AS episode
  FROM marked
), records AS (
  SELECT node, name, episode, asks, comes, interface, min(time) AS time, max(expiry) AS expiry,
    min(name_length) AS name_length
  FROM numbered GROUP BY ALL
), entries AS (
  SELECT node, min(time) AS opened, min(name_length) AS name_length,
    coalesce(max(time) FILTER (NOT asks), max(expiry)) AS closed,
    count(*) FILTER (asks) - count(*) FILTER (NOT asks AND NOT comes) AS records
  FROM records GROUP BY records.node, records.name, episode HAVING count(*) FILTER (asks) > 0
), real AS (
  SELECT records.* FROM records SEMI JOIN (
    SELECT node, name, episode FROM records WHERE asks
  ) USING (node, name, episode)
), steps AS (
  SELECT node, time, 0 AS entries, CASE WHEN asks THEN 16 ELSE -16 END AS bytes
    FROM real WHERE asks OR NOT comes
  UNION ALL SELECT node, opened, 1, name_length FROM entries
  UNION ALL SELECT node, closed, -1, -name_length - 16 * records FROM entries
    WHERE closed <= (SELECT max(time) FROM packets)
), changes AS (
  SELECT node, time, sum(entries) AS entries, sum(bytes) AS bytes FROM steps GROUP BY ALL
  HAVING sum(entries) <> 0 OR sum(bytes) <> 0
), every AS (
  SELECT * FROM changes
  UNION ALL SELECT '*', time, sum(entries), sum(bytes) FROM changes GROUP BY time
  HAVING sum(entries) <> 0 OR sum(bytes) <> 0
)
SELECT node, time, (sum(entries) OVER so_far)::BIGINT AS entries, (sum(bytes) OVER so_far)::BIGINT AS bytes
FROM every WINDOW so_far AS (PARTITION BY node ORDER BY time ROWS UNBOUNDED PRECEDING)
) TO '{out}' (FORMAT parquet)
"""

_DIFFERENCE = """
WITH ours AS (SELECT node, time, entries, bytes FROM read_parquet('{ours}')),
theirs AS (SELECT * FROM read_parquet('{theirs}'))
SELECT count(*) FROM (
  (FROM ours EXCEPT ALL FROM theirs) UNION ALL (FROM theirs EXCEPT ALL FROM ours)
)
"""


def make_packets(layering: str, rows: int, scratch: Path, spark: SparkSession) -> tuple[Path, int]:
    """Write at least `rows` rows of packets, by run, node and interface; return path and number."""
    lossy = {"topology.link.loss_percent": 2.0, "topology.link.jitter_ms": 1.0}
    scenario = load("fanout", layerings=(layering,), items=ITEMS, changes=lossy)
    running.run(scenario, workload.load(scenario), EMULATED, scratch / layering)
    run = Run(scratch / layering)
    decoded = scratch / f"{layering}-decoded"
    extract(readings({layering: str(run.capture(layering))}, 1), decoded, BY, spark)
    tables = {}
    for path in sorted(decoded.rglob("*.parquet")):
        tables[path.parent.relative_to(decoded)] = pq.read_table(path, partitioning=None)
    span = max(pc.max(table["time"]).as_py() for table in tables.values()) + _GAP
    frames = max(pc.max(table["frame"]).as_py() for table in tables.values())
    size = sum(map(len, tables.values()))
    copies = -(-rows // size)
    out = scratch / f"{layering}-packets"
    for place, table in tables.items():
        (out / place).mkdir(parents=True)
        with pq.ParquetWriter(out / place / "part-0.parquet", table.schema, compression="snappy") as file:
            for batch in _batched(table, copies, span, frames):
                file.write_table(batch)
    return out, size * copies


def _batched(table: pa.Table, copies: int, span: int, frames: int) -> Iterator[pa.Table]:
    waiting: list[pa.Table] = []
    for number in range(copies):
        waiting.append(_copy(table, number, span, frames))
        if sum(map(len, waiting)) >= _ROWS or number + 1 == copies:
            yield pa.concat_tables(waiting).combine_chunks()
            waiting = []


def _copy(table: pa.Table, number: int, span: int, frames: int) -> pa.Table:
    """Return the rows at a later time, with an extra leading name component."""
    changed = {
        "time": pc.add(table["time"], number * span),
        "frame": pc.add(table["frame"], number * frames),
        "name_length": pc.add(table["name_length"], 8),
        "name": pc.binary_join_element_wise(f"/{number:06}", table["name"], ""),
        "feed": pc.binary_join_element_wise(f"/{number:06}", table["feed"], ""),
    }
    return pa.Table.from_arrays(
        [changed.get(name, table[name]) for name in table.column_names], schema=table.schema
    )


def ask_for_prefixes(packets: Path, out: Path) -> Path:
    """Write packets again, with CanBePrefix in all Interests, and Data of longer names; return the path."""
    for path in sorted(packets.rglob("*.parquet")):
        target = out / path.relative_to(packets)
        target.parent.mkdir(parents=True)
        with (
            pq.ParquetFile(path) as file,
            pq.ParquetWriter(target, file.schema_arrow, compression="snappy") as writer,
        ):
            for number in range(file.num_row_groups):
                table = file.read_row_group(number)
                kind, name = table["kind"], table["name"]
                longer = pc.binary_join_element_wise(name, "v=1", "/")
                changed = {
                    "name": pc.if_else(pc.equal(kind, "data"), longer, name),
                    "can_be_prefix": pc.or_(table["can_be_prefix"], pc.equal(kind, "interest")),
                }
                columns = [changed.get(each, table[each]) for each in table.column_names]
                writer.write_table(pa.Table.from_arrays(columns, schema=table.schema))
    return out


def by_duckdb(packets: Path, out: Path) -> float:
    """Return DuckDB's seconds, including its start."""
    before = time.perf_counter()
    duckdb.connect().execute(SQL.format(packets=packets, out=out))
    return time.perf_counter() - before


_MEASURED = """
import resource, sys
from pathlib import Path
from analysis.spark.engine import EngineChoice, session
from testbed.bench.runs.analysis import follow
follow(session(EngineChoice("sail")), Path(sys.argv[1]), Path(sys.argv[2]))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)
"""


def peak_memory(packets: Path, out: Path) -> int:
    """Return the peak memory, MB, of the work by Sail, in a process of its own."""
    words = [sys.executable, "-c", _MEASURED, str(packets), str(out)]
    return int(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def follow(spark: SparkSession, packets: Path, out: Path) -> None:
    """Write the tables of PITs."""
    write_pits(read_packets(spark, packets, PACKETS.spark), out)


def count_differences(ours: Path, theirs: Path) -> int:
    """Return the number of rows in only one of the two results."""
    query = _DIFFERENCE.format(ours=f"{ours}/pit_occupancy/*/*.parquet", theirs=theirs)
    row = duckdb.connect().execute(query).fetchone()
    return int(row[0]) if row else -1


@command
@click.option("--packets", type=click.IntRange(min=1000), default=10_000_000, show_default=True)
@click.option("--repetitions", type=click.IntRange(min=1), default=3, show_default=True)
def bench(packets: int, repetitions: int, as_json: bool) -> None:
    """Measure how fast PIT state is told from packets."""
    took: Measured = defaultdict(Series)
    with tempfile.TemporaryDirectory() as place:
        scratch = Path(place)
        before = time.perf_counter()
        spark = spark_session("local[2]")
        spark.range(2).mapInArrow(lambda batches: batches, "id long").count()
        start = time.perf_counter() - before
        classic, count = make_packets("poll", packets, scratch, spark)
        (scratch / "few").mkdir()
        few, _ = make_packets("poll", count // 10, scratch / "few", spark)
        prefixes = ask_for_prefixes(classic, scratch / "prefixes")
        llis, lli_rows = make_packets("lli", packets // 10, scratch, spark)
        memory = [peak_memory(source, scratch / "measured") for source in (few, classic)]
        ours, theirs = scratch / "ours", scratch / "theirs.parquet"
        for _ in range(repetitions):
            for name, source in (("spark", classic), ("prefixes", prefixes), ("lli", llis)):
                shutil.rmtree(ours, ignore_errors=True)
                before = time.perf_counter()
                follow(spark, source, ours)
                took[name].add(time.perf_counter() - before)
                if name == "spark":
                    took["duckdb"].add(by_duckdb(classic, theirs))
                if name in ("spark", "prefixes") and (differing := count_differences(ours, theirs)):
                    raise click.ClickException(f"{name}: {differing} rows of the two results differ")
        spark.stop()
    ratios, over_plain = took["spark"].over(took["duckdb"]), took["prefixes"].over(took["spark"])
    equal = "results are equal"
    rows = [
        Row("feednet with Spark, two cores", took["spark"], "s"),
        Row("DuckDB, all cores", took["duckdb"], "s"),
        Row("feednet over DuckDB", ratios, "", BAR, True, equal),
        Row("feednet with Spark, CanBePrefix", took["prefixes"], "s"),
        Row("CanBePrefix over plain", over_plain, "", PREFIX_BAR, True, equal),
        Row("LLIs, feednet with Spark, two cores", took["lli"], "s", note=f"{lli_rows:,} rows"),
        figure("peak memory", memory[1], "MB"),
        figure("peak memory, a tenth of the rows", memory[0], "MB"),
        figure("start of Spark", start, "s"),
    ]
    report(f"{count:,} rows of classic traffic", rows, as_json, rows_of_lli=lli_rows, rows_of_packets=count)


if __name__ == "__main__":
    run(bench, "testbed.bench.runs.analysis")
