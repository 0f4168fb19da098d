"""Analysis of runs: every table, then the report.

Tables are written as Parquet and read back, so each is computed once and is available to pandas, DuckDB or
polars. The engine writes large ones, a directory for each layering; small ones are collected, and written as
one file each. This process also holds what applications and nodes logged (events and samples), which the
machine of the run wrote alone. All layerings go through every step together: a Spark job costs more than its
rows.
"""

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from analysis.columns.values import ALL, HELD
from analysis.decode.messages import STREAM_LAYERS
from analysis.decode.protocols.multicast import DECLARATION as MULTICAST
from analysis.decode.protocols.protocol import NDN
from analysis.decode.protocols.tiny import DECLARATION as TINY
from analysis.decode.reader import strictly
from analysis.decode.reading import SIGHTINGS, Reading
from analysis.decode.streams import STREAM_LAYERS_TABLE, side_tables
from analysis.errors import AnalysisError, one_line_errors
from analysis.files import Rows, whole_directory
from analysis.metrics import aggregates, own, pictures, views
from analysis.metrics.catalogue import OWN
from analysis.metrics.comparison import compare, measure
from analysis.metrics.run import (
    bottleneck,
    delivery,
    ebt,
    held_state,
    logs,
    lower_bounds,
    moves,
    replication,
    saturation,
    state,
    tiny,
)
from analysis.metrics.run.feed_hops import feed_hops
from analysis.metrics.run.in_flight import in_flight
from analysis.packet_schema import MESSAGES, schema_of
from analysis.pit.entry import COUNTED
from analysis.pit.outcomes import lives
from analysis.pit.windows import levels
from analysis.pit.windows.tables import STEPS, write_pits
from analysis.pit.windows.validation import samples, truth, truth_summary
from analysis.report.run import write_report
from analysis.run.context import Case, Cases, Setting, Span, setting
from analysis.run.manifest import Run
from analysis.spark.batch_reader import readings
from analysis.spark.capture_source import read_captures
from analysis.spark.engine import ENGINE, SMALL_BYTES, EngineChoice, choose, frame, session
from analysis.spark.parallel import in_parallel
from analysis.spark.parquet import BY, at_least_empty, read_parquet, set_aside, settle
from analysis.spark.to_parquet import extract, side_path
from analysis.tables import link_transits, protocol_messages
from analysis.tables.collected import Tables
from analysis.tables.events import run_events
from analysis.tables.latency import SUBSCRIBED, carried, latency, quantiles
from analysis.tables.link_frames import link_frames
from analysis.tables.overhead import overhead, traffic
from analysis.tables.packet_tables import FOLLOWERS, write_packet_tables
from analysis.tables.reassembly import reassemble
from analysis.tables.schema import CONNECTIONS, PACKETS, PIT_INTERVALS, PIT_OCCUPANCY
from analysis.tables.shares import followed, nodes_of

IN_FLIGHT_NS = 1_000_000
"""Slack for real clocks: time between a packet on the wire and its effect on the table."""

_MESSAGES = "messages.parquet"

CURVE_BINS = 300
"""Parts of a run for which a curve keeps the extremes."""

QUEUE_SAMPLES = 400
"""Samples of a queue, over the longest run."""

MOST_JOURNEYS = 120_000
"""Maximum link transits in the report for drawing journeys of items."""

_EVENTS = schema_of(
    "time int64, node string, event string, feed string, seq int64, bytes int64, detail string"
)
_PITS = "pit", "llis"
"""The kinds of sampled state that PITs derived from packets have together."""
_COUNTERS = pa.schema(
    [("time", pa.int64()), ("node", pa.string())]
    + [("state", pa.struct([(kind, pa.struct([(what, pa.int64()) for what in HELD])) for kind in _PITS]))]
    + [(f"pit_{what}", pa.int64()) for what in COUNTED if what not in HELD]
)

Progress = Callable[[str], None]


def analyze(
    run_dir: Path | str,
    master: str | None = None,
    progress: Progress = lambda _: None,
    engine: str = "auto",
    *,
    all_tables: bool = False,
) -> Path:
    """Analyse a run directory: write its tables and its report; return the report's path.

    `master` is Spark's, all cores of this machine if None; `progress` receives the next step's description;
    `engine` is as in analysis.spark.engine.choose; `all_tables` adds tables of analysis.tables.schema that
    the report does not show. Raises AnalysisError, with one line.
    """
    run = Run(Path(run_dir))
    cases = {layering: Case(run, layering) for layering in run.manifest.layerings}
    with (
        one_line_errors(),
        whole_directory(run.tables, replace=True) as tables_dir,
        _prepare_inputs(cases, tables_dir, master, engine, progress) as prepared,
    ):
        progress("measuring")
        tables = _report_tables(prepared)
        progress("writing the report")
        write_report(run, tables)
        if all_tables:
            progress("writing the other tables")
            _write_packet_tables(prepared)
    return run.report


def read_comparison(run_dir: Path | str) -> Rows:
    """Return the comparison rows (analysis.metrics.comparison.COMPARISON) of an analysed run."""
    rows: Rows = pq.read_table(Run(Path(run_dir)).comparison).to_pylist()
    return rows


def measure_cases(cases: Cases, tables: Path, master: str | None = None, engine: str = "auto") -> pa.Table:
    """Measure layerings of one or several runs, with their tables under `tables`.

    Returns the rows of analysis.metrics.comparison.measure, signed by the engine. Raises AnalysisError.
    """
    with one_line_errors(), _prepare_inputs(cases, tables, master, engine, lambda _: None) as prepared:
        return _measure(prepared)


class RunInputs(NamedTuple):
    """Inputs of all metrics: the setting, application events, and packets.

    `pieces` are those of the captures, `frames` is the setting, and `events` are the application events as
    DataFrames. `collected` has the small tables computed so far, by name.
    """

    cases: Cases
    pieces: Sequence[Reading]
    tables: Path
    engine: str
    setting: Setting[pa.Table]
    frames: Setting[DataFrame]
    application_events: pa.Table
    events: DataFrame
    packets: DataFrame
    messages: DataFrame
    streams: DataFrame
    seen: DataFrame
    sizes: DataFrame
    latencies: DataFrame
    pit: Path
    pit_held: dict[str, Rows]
    sampled: dict[str, Rows]
    collected: dict[str, pa.Table]

    @property
    def cases_over_ndn(self) -> Cases:
        """The cases with PITs."""
        return {name: case for name, case in self.cases.items() if case.protocol == NDN}

    @property
    def runs_over_ndn(self) -> DataFrame:
        """Their rows of analysis.run.context.RUNS."""
        return self.frames.runs.where(F.col("protocol") == NDN)

    def keep(self, name: str, table: DataFrame, *order: str) -> pa.Table:
        """Collect a small table sorted by columns, and write it."""
        return self.sorted(name, table.toArrow(), *order)

    def sorted(self, name: str, rows: pa.Table, *order: str) -> pa.Table:
        """Sort a collected table by columns, write it, and return it."""
        return self.write(name, rows.sort_by([(column, "ascending") for column in order]))

    def write(self, name: str, rows: pa.Table) -> pa.Table:
        """Write a collected table; return it."""
        pq.write_table(rows, self.tables / f"{name}.parquet")
        self.collected[name] = rows
        return rows

    def signed(self, rows: pa.Table) -> pa.Table:
        """Return a table with its engine in the metadata: analysis.spark.engine.made_by()."""
        return rows.replace_schema_metadata({ENGINE: self.engine})

    def settle(self, name: str, table: DataFrame) -> DataFrame:
        """Write a possibly large table; return it as read back."""
        return settle(table, self.tables / f"{name}.parquet")

    def of_pits(self, name: str, schema: StructType) -> DataFrame:
        """Return a table that analysis.pit.windows.tables.write_pits has written."""
        return read_parquet(self.packets.sparkSession, self.pit / name, schema)

    def frame(self, table: pa.Table) -> DataFrame:
        """Return a collected table as a DataFrame."""
        return frame(self.packets.sparkSession, table)


def _decoded(
    pieces: Sequence[Reading],
    wire: Path,
    chosen: EngineChoice,
    progress: Progress,
    *,
    small: bool,
) -> SparkSession:
    """Write `wire`, the table of packets, and the tables beside it; return the engine's session."""
    for old in (wire, *(side_path(wire, name) for name in side_tables())):
        shutil.rmtree(old, ignore_errors=True)
    progress(f"starting {chosen}")
    spark = session(chosen, small=small)
    progress("decoding packets")
    for report in extract(pieces, wire, BY[:1], spark):
        strictly(report.path, report.damages)
    return spark


@contextmanager
def _prepare_inputs(
    cases: Cases, tables: Path, master: str | None, engine: str, progress: Progress
) -> Iterator[RunInputs]:
    for run in {case.run.directory: case.run for case in cases.values()}.values():
        run.verify()
    captures = {name: str(case.run.capture(case.layering)) for name, case in cases.items()}
    size = sum(os.path.getsize(path) for path in captures.values())
    chosen = choose(engine, master, captures.values())
    small = (size <= SMALL_BYTES and master is None) or chosen.name == "sail"
    pieces = readings(captures, 1 if small else os.cpu_count() or 1)
    events = _read_lines(cases, _EVENTS, Run.events)
    known = setting(cases)
    tables.mkdir(parents=True, exist_ok=True)
    wire = tables / "packets.parquet"
    spark = _decoded(pieces, wire, chosen, progress, small=small)
    packets = read_parquet(spark, wire, PACKETS.spark)
    streams = read_parquet(spark, side_path(wire, STREAM_LAYERS_TABLE), from_arrow_schema(STREAM_LAYERS))
    seen = protocol_messages.seen(spark, partial(side_path, wire))
    whole, frames = in_parallel(
        lambda: settle(reassemble(packets, frame(spark, known.breaks)), tables / _MESSAGES),
        lambda: Setting(*(frame(spark, table) for table in known)),
    )
    messages = whole.where(F.col("kind").isin(*MESSAGES))
    progress("following every PIT")

    def latencies(application_events: DataFrame) -> tuple[DataFrame, DataFrame]:
        sizes = settle(_item_sizes(packets, messages, seen, cases), tables / "items.parquet")
        late = latency(application_events, frames.feeds, frames.nodes)
        bounded = lower_bounds.with_bound(late, sizes, frames.hops)
        settled = settle(bounded, tables / "latency.parquet")
        at_least_empty(tables / "latency.parquet", to_arrow_schema(bounded.schema), [*cases], BY[:1])
        return sizes, settled

    with TemporaryDirectory(dir=tables, prefix=".pit-") as place:
        pit = Path(place)
        application_events = _in_file(spark, events, pit / "events.parquet")
        (sizes, late), held = in_parallel(
            lambda: latencies(application_events), lambda: _pits(whole, pit, known)
        )
        yield RunInputs(
            cases=cases,
            pieces=pieces,
            tables=tables,
            engine=str(chosen),
            setting=known,
            frames=frames,
            application_events=events,
            events=application_events,
            packets=packets,
            messages=messages,
            streams=streams,
            seen=seen,
            sizes=sizes,
            latencies=late,
            pit=pit,
            pit_held=held,
            sampled=state.held_levels(state.read_samples(cases), *_spans(known.runs.to_pylist()), CURVE_BINS),
            collected={},
        )


def _in_file(spark: SparkSession, table: pa.Table, path: Path) -> DataFrame:
    """Return a table by way of a file: Spark would hold one from memory in its driver, too."""
    pq.write_table(table, path)
    return read_parquet(spark, path, from_arrow_schema(table.schema))


def _item_sizes(packets: DataFrame, messages: DataFrame, seen: DataFrame, cases: Cases) -> DataFrame:
    over_streams = protocol_messages.item_sizes(protocol_messages.items(seen))
    found = lower_bounds.item_sizes(messages).unionByName(over_streams)
    if any(case.protocol == MULTICAST.name for case in cases.values()):  # else a job for nothing
        found = found.unionByName(lower_bounds.segmented_sizes(packets))
    is_mixed = any(case.run.manifest.nodes("gateway") for case in cases.values())
    return lower_bounds.least_sizes(found) if is_mixed else found


def _spans(runs: Iterable[dict[str, Any]]) -> tuple[dict[str, Span], dict[str, Span]]:
    """Return the spans of runs, and the averaging intervals, by layering."""
    every = list(runs)
    return (
        {row["layering"]: Span(row["start_ns"], row["end_ns"]) for row in every},
        {row["layering"]: Span(row["from_ns"], row["until_ns"]) for row in every},
    )


def _pits(packets: DataFrame, out: Path, known: Setting[pa.Table]) -> dict[str, Rows]:
    """Write the tables of PITs; return the state of every node, from levels.scan()."""
    turns = {row["layering"]: row for row in known.runs.to_pylist() if row["protocol"] == NDN}
    ends = {name: turn["end_ns"] for name, turn in turns.items()}
    slots = write_pits(packets, out, ends=ends, breaks=known.breaks, keep_steps=True)
    spans, over = _spans(turns.values())
    occupancy = read_parquet(packets.sparkSession, out / PIT_OCCUPANCY.name, PIT_OCCUPANCY.spark)
    held = levels.scan(occupancy, spans, HELD, CURVE_BINS, over, slots=slots)
    nodes = zip(*(known.nodes[name].to_pylist() for name in ("layering", "node")), strict=True)
    every = [*((name, node) for name, node in nodes if name in turns), *((name, ALL) for name in turns)]
    return held | {"summary": levels.with_idle(held["summary"], every)}


def _measure(given: RunInputs) -> pa.Table:
    """Compute all tables behind the metrics; return the measures of all cases."""
    in_parallel(
        *(
            partial(step, given)
            for step in (_state, _wire, _delay, _service, _needs, _streams, _moves, _pictures, _views)
        )
    )
    table = given.collected
    _tiny(given)
    queues = pc.unique(table["queue"]["layering"])
    contended = table["flows"].filter(pc.is_in(table["flows"]["layering"], queues))
    totals = [
        aggregates.events_totals(given.application_events, given.setting.feeds, table["faults"]),
        aggregates.latency_totals(table["latency_quantiles"], table["first_items"], table["recovery"]),
        aggregates.keeping_up_totals(table["keeping_up"]),
        aggregates.held_totals("state", table["state_summary"]),
        aggregates.kind_totals(table["state_kinds"]),
        aggregates.held_totals("pit", table["pit_summary"]),
        aggregates.pit_totals(table["pit_summary"], table["feeds_at"]),
        aggregates.lives_totals(table["pit_lives"]),
        aggregates.wire_totals(table["traffic"], given.setting.nodes),
        aggregates.single(table["carried"]),
        aggregates.single(table["insertions"]),
        aggregates.single(table["wire_bound"]),
        aggregates.single(table["copies"]),
        aggregates.busiest(table["link_use"]),
        aggregates.fairness(contended),
        aggregates.queue_totals(table["queue"]),
        aggregates.control_totals(table["traffic"], table["sent_messages"]),
        aggregates.connection_totals(table["connections"], given.setting.runs),
        moves.totals(
            table["counters"], table["told"], table["found"], given.setting.timeline, given.setting.runs
        ),
        held_state.totals(table["standing"]),
        pictures.totals(given.application_events, table["pictures"], given.setting.nodes),
        views.totals(table["views"], table["differences"], given.setting.runs),
        held_state.holder_totals(table["holders"], given.setting.runs),
        saturation.processors(table["counters"], given.setting.runs),
        tiny.totals(table["tiny_sent"].to_pylist(), table["latency_quantiles"].to_pylist(), given.cases),
        own.totals(OWN, Tables({name: _offered(given)[name] for name in own.OFFERED})),
    ]
    return given.write("measures", given.signed(measure(given.setting.runs, totals)))


def _state(given: RunInputs) -> None:
    by_node = ("layering", "node")
    for name, summary in (("state", given.sampled["summary"]), ("pit", given.pit_held["summary"])):
        given.sorted(f"{name}_summary", pa.Table.from_pylist(summary, levels.SUMMARY), *by_node)
    given.collected["state_kinds"] = pa.Table.from_pylist(given.sampled["kinds"], state.KINDS)
    given.keep("pit_lives", lives(given.of_pits(PIT_INTERVALS.name, PIT_INTERVALS.spark)), *by_node)


def _wire(given: RunInputs) -> None:
    sent = given.keep("traffic", traffic(given.packets), "layering", "interface", "kind")
    use = given.write("link_use", aggregates.link_use(sent, given.setting.links))
    busy = _busiest(given, use)
    if not len(busy):
        given.write("queue", bottleneck.QUEUE.empty_table())
        return
    turns = (case.manifest.runs[case.layering] for case in given.cases.values())
    step = max(1, *((turn.end_ns - turn.start_ns) // QUEUE_SAMPLES for turn in turns))
    samples = bottleneck.queue(given.packets, given.frame(busy), step)
    given.keep("queue", samples, "layering", "interface", "time")


def _delay(given: RunInputs) -> None:
    own = given.latencies.where(F.col("purpose") == SUBSCRIBED)
    judged = saturation.judged(own, given.cases).toArrow().to_pylist()
    given.write("keeping_up", saturation.keeping_up(judged, given.cases))
    given.keep("carried", carried(given.latencies), "layering")
    given.keep("insertions", delivery.insertions(given.latencies), "layering")
    given.keep("latency_quantiles", quantiles(given.latencies), "layering", "node")
    given.keep("flows", bottleneck.flows(given.latencies), "layering", "node", "feed")


def _service(given: RunInputs) -> None:
    waits = delivery.first_items(given.events, given.latencies)
    frames = given.frames
    gaps = delivery.recovery(given.events, given.latencies, frames.feeds, frames.timeline, frames.runs)
    given.keep("first_items", waits, "layering", "node", "feed", "joined")
    given.keep("recovery", gaps, "layering", "time", "place", "node")
    given.keep("faults", delivery.faults(given.events), "layering", "node")
    told = given.application_events
    is_one = pc.is_in(told["event"], pa.array(delivery.INCIDENTS))
    given.write("incidents", told.filter(is_one).drop_columns(["bytes", "line"]))


def _needs(given: RunInputs) -> None:
    hops, items = given.frames.hops, protocol_messages.unwrapped_items(given.seen)
    given.keep("wire_bound", lower_bounds.wire_bound(given.latencies, given.sizes, hops), "layering")
    given.keep("copies", delivery.copies(given.messages, items), "layering")
    given.keep("feeds_at", lower_bounds.feeds_at(given.latencies, hops), "layering", "node")


def _streams(given: RunInputs) -> None:
    opened = _connections(given).toArrow()
    by_time = [(name, "ascending") for name in ("layering", "opened", "node")]
    given.collected["connections"] = opened.sort_by(by_time)
    given.keep("sent_messages", protocol_messages.sent(given.seen), "layering", "interface", "kind")


def _moves(given: RunInputs) -> None:
    columns = pa.unify_schemas([moves.COUNTERS, held_state.COUNTERS, saturation.COUNTERS])
    counters = given.collected["counters"] = _read_lines(given.cases, columns, Run.counters)
    given.sorted("standing", held_state.peaks(counters), "layering", "node")
    given.write("holders", held_state.holders(counters))
    given.collected["told"] = moves.signalling_messages(given.packets, given.frames.runs).toArrow()
    given.write("found", moves.record_changes(given.application_events, given.cases))


def _pictures(given: RunInputs) -> None:
    if pc.any(pc.equal(given.application_events["event"], pictures.SHARED)).as_py():
        found = pictures.pictures(given.messages, given.seen, _connections(given))
        given.keep("pictures", found, "layering", "interface", "picture")
    else:  # save the jobs
        given.write("pictures", pictures.PICTURES.empty_table())


def _views(given: RunInputs) -> None:
    taken = given.write("views", views.views(given.cases, given.application_events))
    given.write("differences", views.differences(taken, given.cases))


def _tiny(given: RunInputs) -> None:
    runs = given.setting.runs.to_pylist()
    is_there = any(run["protocol"] == TINY.name for run in runs)  # else it would cost a job for nothing
    counted = tiny.sizes(given.packets).toArrow().to_pylist() if is_there else []
    given.write("tiny_sent", tiny.sent(counted, given.cases))
    asked = tiny.commands(given.packets).toArrow() if is_there else tiny.COMMANDS.empty_table()
    given.sorted("tiny_commands", asked, "layering", "node", "command")
    given.write("tiny_stored", tiny.stored(given.collected["counters"], given.cases))


def _connections(given: RunInputs) -> DataFrame:
    path = side_path(given.tables / f"{PACKETS.name}.parquet", CONNECTIONS.name)
    return read_parquet(given.packets.sparkSession, path, CONNECTIONS.spark)


def _busiest(given: RunInputs, use: pa.Table) -> pa.Table:
    """Return the rows of LINKS of each run's busiest interface, if it is busy under any layering."""
    most: dict[Path, tuple[float, str]] = {}
    for row in use.to_pylist():
        directory = given.cases[row["layering"]].run.directory
        most[directory] = max(most.get(directory, (0.0, "")), (row["link_use"], row["interface"]))
    chosen = {directory: name for directory, (share, name) in most.items() if share >= 100 * bottleneck.BUSY}
    rows = [
        row
        for row in given.setting.links.to_pylist()
        if row["interface"] == chosen.get(given.cases[row["layering"]].run.directory)
    ]
    return pa.Table.from_pylist(rows, given.setting.links.schema)


def _report_tables(given: RunInputs) -> Tables:
    """Measure the layerings of one run, and compute the other tables of its report."""
    for name, schema in (("curves", levels.curves(HELD)), ("heat", levels.HEAT)):
        given.write(f"pit_{name}", pa.Table.from_pylist(given.pit_held[name], schema))
        given.collected[f"state_{name}"] = pa.Table.from_pylist(given.sampled[name], schema)
    in_parallel(
        *(partial(step, given) for step in (_measure, _in_flight, _truth, _links, _logs, _replication))
    )
    sent_streams = given.streams.where(F.col("direction") == "out")
    layers = overhead(given.frame(given.collected["traffic"]), sent_streams)
    given.keep("overhead", layers, "layering", "layer")
    given.write("comparison", given.signed(compare(given.collected["measures"])))
    return Tables(_offered(given), given.engine)


def _offered(given: RunInputs) -> dict[str, pa.Table | Path]:
    """Return the tables so far, and those that only metrics and figures of other distributions read."""
    large = {name: given.tables / f"{name}.parquet" for name in ("latency", "packets")}
    return {**given.collected, "events": given.application_events, **large}


def _logs(given: RunInputs) -> None:
    counters = logs.counters_at_end(given.cases)
    crossed = given.write("crossings", logs.crossings(counters))
    given.write("lookups", logs.lookups(counters if len(crossed) else []))
    given.write("steps", logs.steps(given.application_events))
    given.write("tiny_misbehaviour", tiny.misbehaviour(counters))


def _replication(given: RunInputs) -> None:
    opened = _connections(given)
    if opened.isEmpty():  # no replication over streams: save the jobs
        for name, schema in (replication.TABLES | ebt.TABLES).items():
            given.write(name, schema.empty_table())
        return
    of_feeds = ("layering", "node", "feed")
    published = given.events.where(F.col("event") == "published").select(*of_feeds, "seq")
    found = replication.replication(given.seen, given.packets, opened, published)
    spent = given.keep("causes", found.causes, "layering", "node", "cause").to_pylist()
    given.keep("reach", replication.reach(found.firsts), "layering", "hops")
    spans, _ = _spans(given.setting.runs.to_pylist())
    known = opened.toArrow().to_pylist()
    for name, table in ebt.ebt(ebt.notes(found.ends), found.brought, known, spans).items():
        given.write(name, table)
    items = published.groupBy(*of_feeds).agg(F.count("*").alias("items")).toArrow().to_pylist()
    delivered = given.latencies.select(*of_feeds).distinct().toArrow().to_pylist()
    given.write("authors", replication.authors(spent, items, delivered))


def _in_flight(given: RunInputs) -> None:
    items = in_flight(given.latencies, _steps(given), given.runs_over_ndn)
    given.keep("in_flight", items, "layering", "items")


def _truth(given: RunInputs) -> None:
    counted = _read_lines(given.cases_over_ndn, _COUNTERS, Run.counters)
    for what in HELD:
        classic, llis = (pc.struct_field(counted["state"], [kind, what]) for kind in _PITS)
        counted = counted.append_column(f"pit_{what}", pc.add(classic, pc.fill_null(llis, 0)))
    counted = counted.drop(["state"])
    manifest = next(iter(given.cases.values())).manifest
    slack = 0 if manifest.net == "emulated" else IN_FLIGHT_NS
    found = samples(_steps(given), given.frame(counted), slack)
    sampled = given.keep("pit_samples", found, "layering", "node", "time")
    compared = given.write("pit_truth", truth(sampled, counted))
    given.write("pit_truth_summary", truth_summary(compared))


def _steps(given: RunInputs) -> DataFrame:
    return given.of_pits("pit_steps", from_arrow_schema(STEPS))


def _links(given: RunInputs) -> None:
    ends = given.frame(link_transits.link_ends(given.cases))
    crossed = link_transits.transits(given.packets, given.messages, ends)
    crossed = given.settle("transits", crossed)
    came = protocol_messages.arrivals(protocol_messages.items(given.seen), ends)
    every = crossed.unionByName(came, allowMissingColumns=True)
    link = ("layering", "sender", "receiver")
    given.keep("feed_hops", feed_hops(crossed), "layering", "node", "upstream")
    given.keep("link_load", link_transits.link_load(crossed, given.frames.runs), *link, "slice", "kind")
    given.keep("hop_delays", link_transits.hop_delays(every, given.latencies), *link)
    given.keep("losses", link_transits.losses(crossed, ends), *link, "feed", "seq")
    sightings = read_captures(given.packets.sparkSession, given.pieces, SIGHTINGS)
    given.write("link_frames", link_frames(sightings, ends, given.cases))
    journeys = link_transits.journeys(crossed, MOST_JOURNEYS).toArrow()
    by_time = [(name, "ascending") for name in ("layering", "sent", "frame")]
    given.collected["journeys"] = journeys.sort_by(by_time)


def _write_packet_tables(given: RunInputs) -> None:
    """Write the tables for other programs, which the report does not show."""
    reported = run_events(given.events, given.frames.timeline)
    told = followed(given.messages, nodes_of(given.messages), *FOLLOWERS)
    with set_aside(told, given.tables / ".followed") as rows:
        write_packet_tables(rows, given.settle, reported)
    for name in (PIT_INTERVALS.name, PIT_OCCUPANCY.name):
        (given.pit / name).rename(given.tables / f"{name}.parquet")


def _read_lines(cases: Cases, schema: pa.Schema, path_of: Callable[[Run, str], Path]) -> pa.Table:
    """Read a JSON lines file of every case, in order, with the columns of `schema` (null if missing),
    layering and line, the line number from 0.
    """
    options = pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    whole = schema.append(pa.field("layering", pa.string())).append(pa.field("line", pa.int64()))
    tables = [whole.empty_table()]
    for name, case in cases.items():
        path = path_of(case.run, case.layering)
        table = schema.empty_table()
        if path.stat().st_size:
            try:
                table = pyarrow.json.read_json(path, parse_options=options)
            except pa.ArrowInvalid as error:
                raise AnalysisError(f"{path}: {error}") from None
        table = table.append_column("layering", pa.repeat(name, len(table)))
        tables.append(table.append_column("line", pa.array(range(len(table)), pa.int64())))
    return pa.concat_tables(tables)
