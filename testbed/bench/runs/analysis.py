"""Speed of PIT reconstruction: `make bench-analysis`, or `python -m testbed.bench.runs.analysis`.

A tree of lossy links is emulated, with subscribers that hold windows of Interests: they are aggregated,
repeated, answered by the application, by the cache or by another node's Data, and some expire. The decoded
packets of all nodes are tiled to the requested number of rows: each copy is later, and has names of its own.
From the same Parquet the occupancy of every PIT, and of all together, is computed

- by feednet (analysis.pit.windows.tables.write_pits) with Spark and with Sail;
- by DuckDB, in the best SQL found for it;

and the latency of Data between nodes, by both. feednet also computes the table of entries. Of the rules of
analysis/pit/model.py the SQL has those that this traffic needs, without: Nacks, CanBePrefix, digests,
persistent Interests, LLIs, HopLimit 0, loops, differing lifetimes, MustBeFresh, restarts and links, packets
without a direction, Data sent to some of the requesters. Both results have to be equal, row by row.

Then feednet processes these packets again with CanBePrefix in every Interest, and Data with one component
more than requested: the PIT state is equal, and the time is compared with the plain case. And LLIs, in a
tenth as many rows. Last, all of it from a capture of the tree, with more items: by feednet, and by tshark
with feednet's dissector, whose fields DuckDB reads; tshark has no lengths of names, so entries alone are
compared.

And `feednet analyze`, from a capture as in `make bench-decode` to all tables and the page, on both engines.

Each is a process of its own, and the figure its processor time with that of its children, including the start
of an engine. Only ratios within one repetition count; shown are the median, the minimum and the maximum.
"""

import resource
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from analysis.packet_schema import MESSAGES
from analysis.pit.windows.tables import write_pits
from analysis.run.manifest import Run
from analysis.spark.batch_reader import readings
from analysis.spark.engine import EngineChoice, session
from analysis.spark.parquet import BY, read_packets, settle
from analysis.spark.to_parquet import extract
from analysis.tables.feed_progress import captured_latency
from analysis.tables.schema import PACKETS
from analysis.tables.shares import nodes_of
from captures.dissectors import WIRESHARK_PLUGIN
from testbed.bench.figures import Measured, Row, Series
from testbed.bench.program import command, fresh, processor_s_of, report, run
from testbed.bench.runs.decode import write_capture
from testbed.experiment import run as running
from testbed.experiment.platform import EMULATED
from testbed.scenario import workload
from testbed.scenario.reader import load

BAR = 3
"""Maximum ratio to DuckDB's time."""

RAW_BAR = 5
"""Minimum ratio of tshark and DuckDB to feednet, from a capture."""

PREFIX_BAR = 3
"""Maximum ratio of Interests with CanBePrefix to the plain case."""

COMMAND_PACKETS = 1_000_000
COMMAND_BARS = {"sail": 15, "spark": 60}
"""Maximum processor time of the command for so many packets, s."""

MEMORY_BAR = 1024
"""Maximum memory of the command's largest process, MiB."""

_PATIENCE_S = 1800
ITEMS = 1200
"""Items of the trees whose packets are tiled."""

RAW_ITEMS = 9600
"""Items of the tree whose capture is read, at most: enough that the start of an engine hardly counts."""

_GAP = 10_000_000_000
_ROWS = 1 << 18

SQL = """
COPY (
WITH packets AS (
  SELECT node, hash(name) AS name, name_length, interface, direction = 'in' AS comes,
    kind = 'interest' AS asks, time, frame, CASE WHEN kind = 'interest' THEN time + lifetime_ns END AS expiry
  FROM {packets} WHERE kind IN ('interest', 'data')
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

LATENCY_SQL = """
COPY (
WITH at_node AS (
  SELECT name, node, min(time) FILTER (direction = 'out') AS departed,
    min(time) FILTER (direction = 'in') AS delivered
  FROM {packets} WHERE kind = 'data' AND direction IS NOT NULL GROUP BY ALL
), first AS (
  SELECT *, min(CASE WHEN departed IS NOT NULL THEN {{time: departed, node: node}} END)
    OVER (PARTITION BY name) AS origin
  FROM at_node
)
SELECT node, name, delivered, delivered - origin.time AS latency_ns
FROM first WHERE delivered IS NOT NULL AND node <> origin.node
) TO '{out}' (FORMAT parquet)
"""

TABLE = "read_parquet('{path}/*/*/*/*.parquet', hive_partitioning = true)"
FIELDS = """(
  SELECT split_part(interface, '-eth', 1) AS node, interface, lower(kind) AS kind, name, number AS frame,
    length(name) AS name_length, CASE WHEN direction LIKE '%1' THEN 'in' ELSE 'out' END AS direction,
    1000000000 * split_part(time, '.', 1)::BIGINT + split_part(time, '.', 2)::BIGINT AS time,
    1000000 * coalesce(lifetime, 4000) AS lifetime_ns
  FROM read_csv('{path}', delim = '\t', header = false, columns = {{number: 'BIGINT', time: 'VARCHAR',
    interface: 'VARCHAR', direction: 'VARCHAR', kind: 'VARCHAR', name: 'VARCHAR', lifetime: 'BIGINT'}})
)"""
"""Packets in Parquet, and as fields of tshark's."""

_FIELDS = ("frame.number", "frame.time_epoch", "frame.interface_name", "frame.packet_flags_direction")
_NDN_FIELDS = ("ndn.type", "ndn.name", "ndn.lifetime")

_COLUMNS = {"pit_occupancy": "node, time, entries, bytes", "latency": "node, name, delivered, latency_ns"}
_DIFFERENCE = """
WITH ours AS (SELECT {columns} FROM read_parquet('{ours}')),
theirs AS (SELECT {columns} FROM read_parquet('{theirs}'))
SELECT count(*) FROM (
  (FROM ours EXCEPT ALL FROM theirs) UNION ALL (FROM theirs EXCEPT ALL FROM ours)
)
"""
_ENTRIES = """(
  SELECT node, time, entries FROM read_parquet('{}')
  QUALIFY entries IS DISTINCT FROM lag(entries) OVER (PARTITION BY node ORDER BY time)
)"""
_OF_ENTRIES = _DIFFERENCE.replace("{columns}", "node, time, entries")
for _side in ("ours", "theirs"):
    _OF_ENTRIES = _OF_ENTRIES.replace(f"read_parquet('{{{_side}}}')", _ENTRIES.format(f"{{{_side}}}"))


def capture_of(layering: str, items: int, out: Path) -> Path:
    """Emulate the tree in the new directory `out`; return its capture."""
    lossy = {"topology.link.loss_percent": 2.0, "topology.link.jitter_ms": 1.0}
    # No fragments: tshark takes a packet at its last one, our tables at its first.
    changes = {**lossy, "workload.item_bytes": 700}
    scenario = load("fanout", layerings=(layering,), items=items, changes=changes)
    running.run(scenario, workload.load(scenario), EMULATED, out)
    return Run(out).capture(layering)


def make_packets(layering: str, rows: int, scratch: Path, spark: SparkSession) -> tuple[Path, int]:
    """Write at least `rows` rows of packets, by run, node and interface; return path and number."""
    capture = capture_of(layering, ITEMS, scratch / layering)
    decoded = scratch / f"{layering}-decoded"
    extract(readings({layering: str(capture)}, 1), decoded, BY, spark)
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


def by_duckdb(packets: str, out: Path) -> None:
    """Write the tables of PITs and latency of packets, TABLE or FIELDS, by DuckDB."""
    connection = duckdb.connect()
    out.mkdir(exist_ok=True)
    connection.execute(SQL.format(packets=packets, out=out / "pit_occupancy"))
    connection.execute(LATENCY_SQL.format(packets=packets, out=out / "latency"))


def by_tshark(capture: Path, out: Path) -> None:
    """Write the same tables of a capture, by tshark and DuckDB."""
    fields = out.with_suffix(".tsv")
    words = ["tshark", "-n", "-X", f"lua_script:{WIRESHARK_PLUGIN}", "-r", str(capture), "-T", "fields"]
    words += ["-Y", "ndn", "-E", "occurrence=f", *(f"-e{name}" for name in (*_FIELDS, *_NDN_FIELDS))]
    with fields.open("wb") as file:
        subprocess.run(words, stdout=file, stderr=subprocess.DEVNULL, check=True)
    by_duckdb(FIELDS.format(path=fields), out)


def by_feednet(packets: Path, out: Path, engine: str) -> None:
    """Write the same tables of Parquet, and the table of entries."""
    spark = session(EngineChoice("sail" if engine == "sail" else "spark"))
    table = read_packets(spark, packets, PACKETS.spark)
    write_pits(table, out)
    settle(captured_latency(table.where(F.col("kind").isin(*MESSAGES)), nodes_of(table)), out / "latency")
    if engine == "spark":
        spark.stop()


def from_capture(capture: Path, out: Path, engine: str) -> None:
    """Write the same tables of a capture."""
    spark = session(EngineChoice("sail" if engine == "sail" else "spark"))
    extract(readings({"raw": str(capture)}, 2), out / "packets", BY, spark)
    by_feednet(out / "packets", out, engine)


def count_differences(ours: Path, theirs: Path, name: str) -> int:
    """Return the number of rows in only one of two results; of those from a capture, entries count."""
    count = 0
    for table, columns in _COLUMNS.items():
        query = _OF_ENTRIES if name == "raw" and table == "pit_occupancy" else _DIFFERENCE
        paths = {"ours": f"{ours}/{table}/*/*.parquet", "theirs": theirs / table}
        row = duckdb.connect().execute(query.format(columns=columns, **paths)).fetchone()
        count += int(row[0]) if row else 1
    return count


def measure(capture: str, out: str, engine: str) -> tuple[float, float]:
    """Return the processor time (s) of `feednet analyze`, and the memory (MiB) of its largest process: with
    Spark the JVM, with Sail the command itself. For a process without other children.
    """
    words = [sys.executable, "-m", "testbed.cli", "analyze", capture, "--out", out, "--engine", engine]
    took = processor_s_of(words)
    return took, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


def measured(function: Callable[..., None], *arguments: Path | str) -> float:
    """Return the processor time, s, of a function of this module in a process of its own."""
    given = ", ".join(f"Path({str(each)!r})" if isinstance(each, Path) else repr(each) for each in arguments)
    module = "testbed.bench.runs.analysis"
    program = f"from pathlib import Path; from {module} import {function.__name__} as do; do({given})"
    return processor_s_of([sys.executable, "-c", program])


def _analyse(capture: Path, out: Path, took: Measured) -> None:
    for engine in COMMAND_BARS:
        shutil.rmtree(out, ignore_errors=True)
        words = map(str, (capture, out, engine))
        spent, held = fresh("testbed.bench.runs.analysis", *words, patience_s=_PATIENCE_S)
        took[f"command {engine}"].add(spent)
        took[f"memory {engine}"].add(held)


def _rows_of_command(took: Measured, packets: int) -> list[Row]:
    rows = []
    for engine, most in COMMAND_BARS.items():
        what = f"feednet analyze --engine {engine}, {packets:,} packets"
        rows.append(Row(what, took[f"command {engine}"], "s", most, True))
        rows.append(Row("  its largest process", took[f"memory {engine}"], "MiB", MEMORY_BAR, True))
    return rows


@command
@click.option("--packets", type=click.IntRange(min=1000), default=10_000_000)
@click.option("--repetitions", type=click.IntRange(min=1), default=3)
def bench(packets: int, repetitions: int, as_json: bool) -> None:
    """Measure how fast PIT state is told from packets."""
    took: Measured = defaultdict(Series)
    with tempfile.TemporaryDirectory() as place:
        scratch = Path(place)
        spark = session(EngineChoice("sail"))
        classic, count = make_packets("poll", packets, scratch, spark)
        prefixes = ask_for_prefixes(classic, scratch / "prefixes")
        llis, lli_rows = make_packets("lli", packets // 10, scratch, spark)
        capture = capture_of("poll", min(RAW_ITEMS, packets // 100), scratch / "raw")
        ours, theirs = scratch / "ours", scratch / "theirs"
        large = scratch / "large.pcapng"
        write_capture(large, min(packets, COMMAND_PACKETS))
        table = TABLE.format(path=classic)
        for _ in range(repetitions):
            for name, function, *arguments in (
                ("duckdb", by_duckdb, table, theirs),
                ("spark", by_feednet, classic, ours, "spark"),
                ("sail", by_feednet, classic, ours, "sail"),
                ("prefixes", by_feednet, prefixes, ours, "spark"),
                ("lli", by_feednet, llis, ours, "spark"),
                ("tshark", by_tshark, capture, theirs),
                ("raw", from_capture, capture, ours, "sail"),
            ):
                shutil.rmtree(theirs if theirs in arguments else ours, ignore_errors=True)
                took[name].add(measured(function, *arguments))
                if name in ("spark", "sail", "raw") and (lacks := count_differences(ours, theirs, name)):
                    raise click.ClickException(f"{name}: {lacks} rows of the two results differ")
            _analyse(large, scratch / "analysed", took)
    equal = "results are equal"
    rows = [
        Row("feednet with Spark", took["spark"], "s"),
        Row("feednet with Sail", took["sail"], "s"),
        Row("DuckDB", took["duckdb"], "s"),
        Row("Spark over DuckDB", took["spark"].over(took["duckdb"]), "", BAR, True, equal),
        Row("Sail over DuckDB", took["sail"].over(took["duckdb"]), "", BAR, True, equal),
        Row("CanBePrefix over plain", took["prefixes"].over(took["spark"]), "", PREFIX_BAR, True),
        Row("LLIs, feednet with Spark", took["lli"], "s", note=f"{lli_rows:,} rows"),
        Row("from a capture: feednet with Sail", took["raw"], "s"),
        Row("from a capture: tshark and DuckDB", took["tshark"], "s"),
        Row("tshark and DuckDB over feednet", took["tshark"].over(took["raw"]), "", RAW_BAR, note=equal),
    ]
    rows += _rows_of_command(took, min(packets, COMMAND_PACKETS))
    title = f"{count:,} rows of classic traffic, processor time"
    report(title, rows, as_json, rows_of_lli=lli_rows, rows_of_packets=count)


if __name__ == "__main__":
    run(bench, "testbed.bench.runs.analysis")
