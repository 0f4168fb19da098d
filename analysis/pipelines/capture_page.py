"""The page of `feednet analyze`: rows computed by Spark from the tables of all stages.

write_capture_report(Path("tables"), Path("tables/report.html"), spark)
"""

import json
from collections import ChainMap
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from analysis.errors import AnalysisError, reason
from analysis.files import Rows
from analysis.metrics.captures import aggregates, names
from analysis.pit.entry import State
from analysis.pit.windows import levels
from analysis.pit.windows.slots import SIZES, slots_of
from analysis.report.capture.contents import MOST_FEEDS, Contents
from analysis.report.capture.endpoints import askers, counted, natural_order
from analysis.report.capture.findings import RunFigures, figures
from analysis.report.capture.page import render
from analysis.run.context import Span
from analysis.spark.engine import frame, named
from analysis.spark.parallel import in_parallel
from analysis.spark.parquet import read_packets, read_parquet, set_aside
from analysis.tables import schema
from analysis.tables.schema import Table
from base.files import write_whole

MOST_PREFIXES = 20
DEEPEST = 8
"""Maximum components of prefixes that group names."""

MOST_NAMES = 200
"""Names with a sequence chart, of all runs together, and as many troubled names."""

POINTS = 60_000
"""Approximate number of points in the page's PIT curves."""


def write_capture_report(tables: Path, page: Path, spark: SparkSession) -> list[RunFigures]:
    """Write the page of the tables of `feednet analyze` in a directory; return its figures.

    The old page stays until the new one is complete. Raises AnalysisError, with one line.
    """
    try:
        given = gather(tables, spark)
        write_whole(page, render(given))
    except PySparkException as error:
        raise AnalysisError(f"{tables}: {reason(error)}") from error
    except OSError as error:
        raise AnalysisError(f"{error.filename or tables}: {error.strerror}") from error
    return figures(given)


def gather(tables: Path, spark: SparkSession) -> Contents:
    """Compute the contents of the page. Raises AnalysisError if there are no tables of packets.

    A reported run without packets has a duration of 0.
    """
    reports = _reports(tables / "summary.json")
    packets = _read(spark, tables, schema.PACKETS)
    if packets is None:
        raise AnalysisError(f"{tables / 'packets'}: no tables of packets: feednet analyze writes them")
    interfaces = _rows(aggregates.interfaces(packets), "layering", "node", "interface")
    with_frames = _spans(interfaces)
    runs = dict.fromkeys(reports, Span(0, 1)) | with_frames
    layerings = [*reports, *sorted(runs.keys() - reports.keys(), key=natural_order)]
    if not layerings:
        raise AnalysisError(f"{tables}: neither packets nor a summary.json that tells of captures without")
    spans = _frame(spark, [{"layering": run} | runs[run]._asdict() for run in layerings])
    with set_aside(aggregates.sightings(packets, spans), tables / ".sightings") as seen:
        given = _Inputs(spark, packets, runs, spans, seen, tables)
        nodes = {(row["layering"], row["node"]) for row in interfaces}
        parts = in_parallel(
            lambda: _wire(given, {node for _, node in nodes} if len(nodes) > len(with_frames) else ()),
            lambda: _state(given, len(nodes) + len(layerings), interfaces),
            lambda: _service(given),
            lambda: _followed(given, MOST_NAMES // len(layerings) + 1),
        )
    return Contents(
        engine=named(spark),
        layerings=layerings,
        runs=runs,
        reports=reports,
        interfaces=interfaces,
        **ChainMap(*parts),
    )


class _Inputs(NamedTuple):
    """The inputs of all figures."""

    spark: SparkSession
    packets: DataFrame
    runs: Mapping[str, Span]
    spans: DataFrame
    seen: DataFrame
    tables: Path

    def read(self, table: Table) -> DataFrame:
        """Return a table, empty if it is not there."""
        found = _read(self.spark, self.tables, table)
        return frame(self.spark, table.arrow.empty_table(), table.spark) if found is None else found


def _wire(given: _Inputs, nodes: Collection[str]) -> dict[str, Rows]:
    """Return wire traffic, the delays between `nodes`, and response times of Interests."""
    ways = _rows(aggregates.ways(given.seen), "layering", "node", "interface", "direction", "src", "dst")
    fields = ("layering", "node", "interface", "direction", "src", "dst", "sender", "receiver")
    whose = [{name: getattr(way, name) for name in fields} for way in counted(ways)]
    named = _frame(given.spark, whose, *fields)
    found = {
        "ways": ways,
        "load": _rows(aggregates.load(given.seen, named), "layering", "sender", "receiver", "slice", "kind"),
        "by_node": _rows(aggregates.by_node(given.seen), "layering", "node", "slice", "kind"),
        "overhead": _rows(given.read(schema.OVERHEAD), "layering", "layer"),
        "hops": [],
        "hop_times": [],
    }
    if nodes:
        numbered = _frame(given.spark, [{"node": node, "number": place} for place, node in enumerate(nodes)])
        with set_aside(aggregates.hops(given.packets, numbered), given.tables / ".hops") as hopped:
            ends = ("layering", "sender", "receiver")
            found["hops"] = _rows(aggregates.hop_summary(hopped), *ends)
            pair = hopped.withColumn("pair", F.concat_ws(" to ", "sender", "receiver"))
            found["hop_times"] = _rows(
                aggregates.distribution(pair, "delay_ns", "layering", "pair"),
                "layering",
                "pair",
                "bucket",
            )
    once = _frame(given.spark, askers(ways), "layering", "node", "interface", "direction")
    requests = aggregates.counted_once(given.read(schema.TRANSACTIONS), once)
    plain = names.prefixed(requests.where(F.col("kind") == "interest"))
    where = F.when(F.col("direction") == "out", F.concat("node", F.lit(" asks")))
    where = where.when(F.col("direction") == "in", F.concat(F.lit("others ask "), "node"))
    located = plain.withColumn("who", where.otherwise(F.col("node")))
    counts = aggregates.tallied(located, "layering", "who", "prefix", "nack_reason")
    with set_aside(counts, given.tables / ".tallies") as tallies:
        found["answers"] = _rows(aggregates.answers(tallies, "layering", "who"), "layering", "who")
        if found["answers"]:
            found["nacks"] = _rows(aggregates.nacks(tallies), "layering", "nack_reason")
            times = aggregates.round_trips(tallies, "layering", "who")
            found["rtt"] = _rows(times, "layering", "who", "bucket")
            found |= _by_prefix(tallies)
    return {"nacks": [], "rtt": [], "prefixes": [], "rtt_prefixes": []} | found


def _by_prefix(tallies: DataFrame) -> dict[str, Rows]:
    """Return answers and round trips by prefix, at the deepest level with few enough prefixes."""
    depths = _rows(names.depths(tallies, DEEPEST), "depth")
    fitting = [row["depth"] for row in depths if row["prefixes"] <= MOST_PREFIXES]
    depth = max(fitting, default=1)
    if depths[depth - 1]["prefixes"] == 1 and depth < DEEPEST:
        depth += 1
    shorter = tallies.withColumn("prefix", names.cut("prefix", depth))
    totals = shorter.groupBy("prefix").agg(F.sum("requests").alias("requests"))
    top = _rows(totals.orderBy(F.desc("requests"), "prefix").limit(MOST_PREFIXES), "prefix")
    of_top = shorter.where(F.col("prefix").isin([row["prefix"] for row in top]))
    by_prefix = ("layering", "prefix")
    return {
        "prefixes": _rows(aggregates.answers(of_top, *by_prefix), *by_prefix),
        "rtt_prefixes": _rows(aggregates.round_trips(of_top, *by_prefix), *by_prefix, "bucket"),
    }


def _state(given: _Inputs, lines: int, interfaces: Rows) -> dict[str, Rows]:
    """Return the state of the nodes' PITs."""
    by_node = ("layering", "node")
    bins = max(40, min(300, POINTS // (6 * lines)))
    names = ("layering", "frames", "start_ns", "end_ns")
    slots = slots_of(pa.table([[row[name] for row in interfaces] for name in names], SIZES))
    states = given.read(schema.PIT_OCCUPANCY)
    found = levels.scan(states, given.runs, State._fields, bins, slots=slots)
    intervals = given.read(schema.PIT_INTERVALS)
    lives = aggregates.distribution(aggregates.lifetimes(intervals), "life_ns", *by_node)
    return {
        "pit_summary": found["summary"],
        "pit_curves": found["curves"] if found["summary"] else [],
        "pit_heat": found["heat"],
        "outcomes": _rows(aggregates.outcomes(intervals), *by_node, "kind", "outcome"),
        "lifetimes": _rows(lives, *by_node, "bucket"),
    }


def _service(given: _Inputs) -> dict[str, Rows]:
    """Return feeds, latencies, and faults."""
    feed_progress = given.read(schema.FEED_PROGRESS)
    feeds = _rows(aggregates.feeds(feed_progress, MOST_FEEDS), "layering", "feed")
    progress: Rows = []
    if feeds:
        chosen = _frame(given.spark, [{name: row[name] for name in ("layering", "feed")} for row in feeds])
        steps = aggregates.progress(feed_progress, given.spans, chosen)
        progress = _rows(steps, "layering", "node", "feed", "slice")
    late = aggregates.distribution(given.read(schema.LATENCY), "latency_ns", "layering", "node")
    wrong = aggregates.troubles(given.read(schema.EVENTS), given.spans)
    return {
        "feeds": feeds,
        "progress": progress,
        "latency": _rows(late, "layering", "node", "bucket"),
        "troubles": _rows(wrong, "layering", "node", "event", "slice"),
    }


def _followed(given: _Inputs, most: int) -> dict[str, Rows]:
    """Return the frames of selected names, for their sequence charts."""
    counted_once, feed_progress = given.read(schema.TRANSACTIONS), given.read(schema.FEED_PROGRESS)
    subjects = names.subjects(counted_once, feed_progress, most).toArrow()
    if not len(subjects):
        return {"subjects": [], "sequences": []}
    frames = names.sequences(given.packets, frame(given.spark, subjects))
    return {
        "subjects": subjects.to_pylist(),
        "sequences": _rows(frames, "layering", "subject", "time", "node", "frame", "kind"),
    }


def _spans(interfaces: Rows) -> dict[str, Span]:
    found: dict[str, Span] = {}
    for row in interfaces:
        before = found.get(row["layering"], Span(row["start_ns"], row["end_ns"]))
        start, end = min(before.start_ns, row["start_ns"]), max(before.end_ns, row["end_ns"])
        found[row["layering"]] = Span(start, max(end, start + 1))
    return found


def _reports(path: Path) -> dict[str, Any]:
    try:
        reports = json.loads(path.read_bytes())
        return {report["run"]: report for report in reports}
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, KeyError) as error:
        raise AnalysisError(f"{path}: not what feednet analyze writes: {error}") from error


def _read(spark: SparkSession, tables: Path, table: Table) -> DataFrame | None:
    """Read a table; None if it does not exist."""
    path = tables / table.name
    if next(path.rglob("*.parquet"), None) is None:
        return None
    return (read_packets if table is schema.PACKETS else read_parquet)(spark, path, table.spark)


def _frame(spark: SparkSession, rows: Rows, *columns: str) -> DataFrame:
    """Return rows as a DataFrame; an empty one has text `columns`."""
    if rows:
        return frame(spark, pa.Table.from_pylist(rows))
    return frame(spark, pa.schema([(name, pa.string()) for name in columns]).empty_table())


def _rows(table: DataFrame, *order: str) -> Rows:
    """Collect a small table in the order of some columns."""
    rows: Rows = table.toArrow().sort_by([(name, "ascending") for name in order]).to_pylist()
    return rows
