"""Growing captures in Spark: its query reduces packets, and follows each capture with state in the engine.

Each task reduces its packets to a row with two Arrow tables: COUNTS, and the fields of messages. A stateful
operator, keyed by capture, keeps a Following in Spark's state store (RocksDB), and the figures of each slice
of time. After a restart from the query's checkpoint the figures are as if there had been none. A capture is
followed in one task, as its nodes share figures; all captures are, as small shuffles have one partition.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from analysis.files import Rows
from analysis.live.capture import OVERVIEW
from analysis.live.cells import SLICE_NS
from analysis.live.following import Break, Part, Told, step
from analysis.packet_schema import MESSAGES, NOTICES, PACKETS, schema_of
from analysis.pit.entry import Message

_SENDER = ("direction", "src", "dst", "src_port", "dst_port")
_FRAGMENT = ("lp_sequence", "frag_index", "frag_count")
_OF_MESSAGES = tuple(dict.fromkeys(("frame", "node", *Message._fields, *_SENDER, *_FRAGMENT)))
_LOAD = ("interface", "direction", "kind")
COUNTS = (*_LOAD, "frames", "bytes", "first", "last")
"""Columns of counts: a row for each slice of SLICE_NS with frames; first and last time, ns."""

NEEDED = pa.schema(
    [PACKETS.field(name) for name in dict.fromkeys(("layering", "frame_bytes", *_OF_MESSAGES))]
)
"""Columns of packets."""

_REDUCED = "layering string, counts binary, messages binary"
_TOLD = "layering string, slice int, value string"

_FOLLOWING, _CELLS, _OVERVIEW = "following", "cells", "overview"
_CONF = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # RocksDB's snapshots need this class (FileSystem.getLocal), where tables are written without checksums.
    "fs.file.impl": "org.apache.hadoop.fs.LocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}


@contextmanager
def streaming(spark: SparkSession) -> Iterator[None]:
    """Give a session the settings that told_so_far() and the start of a query of told() need.

    A query keeps those that it was started with.
    """
    before = {name: spark.conf.get(name, None) for name in _CONF}
    for name, value in _CONF.items():
        spark.conf.set(name, value)
    _ = spark.streams  # starts what coordinates state stores, which told_so_far() needs
    try:
        yield
    finally:
        for name, known in before.items():
            if known is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, known)


def told(packets: DataFrame, breaks: Mapping[str, Sequence[Break]]) -> DataFrame:
    """Return what is told of captures from the stream of their packets (NEEDED): in each batch, for each
    capture with packets, a row of `layering`, `slice` and `value` for each slice that differs, and one for
    OVERVIEW.

    `breaks` are events of nodes and links by capture.
    """
    captures = packets.mapInArrow(reduced, _REDUCED).groupBy("layering")
    return captures.transformWithState(FollowCaptures(breaks), _TOLD, "Update", "None")


def told_so_far(spark: SparkSession, checkpoint: str) -> DataFrame:
    """Return the rows of told() of a checkpoint's last batch, those of all slices."""
    state = spark.read.format("statestore").option("path", checkpoint)
    cells = state.option("stateVarName", _CELLS).load()
    overview = state.option("stateVarName", _OVERVIEW).load()
    return cells.selectExpr("key.layering", "user_map_key.slice", "user_map_value.value").union(
        overview.selectExpr("key.layering", f"{OVERVIEW} AS slice", "value.value")
    )


def reduced(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Reduce the packets of a task to a row for each capture: its name, and COUNTS and messages as Arrow's
    streams."""
    whole = list(batches)
    if not whole:
        return
    packets = pa.Table.from_batches(whole)
    for name in pc.unique(packets["layering"]).to_pylist():
        own = packets.filter(pc.equal(packets["layering"], name))
        yield pa.RecordBatch.from_pydict(
            {"layering": [name], "counts": [_stream(_counts(own))], "messages": [_stream(_messages(own))]},
            schema_of("layering string, counts binary, messages binary"),
        )


def _counts(packets: pa.Table) -> pa.Table:
    sliced = packets.append_column("slice", pc.divide(packets["time"], SLICE_NS))
    what: Any = [([], "count_all"), ("frame_bytes", "sum"), ("time", "min"), ("time", "max")]
    found = sliced.group_by([*_LOAD, "slice"]).aggregate(what)
    names = ("count_all", "frame_bytes_sum", "time_min", "time_max")
    return found.select([*_LOAD, *names]).rename_columns(list(COUNTS))


def _messages(packets: pa.Table) -> pa.Table:
    kind = packets["kind"]
    concerns = pc.or_(pc.is_valid(packets["feed"]), pc.is_valid(packets["hello"]))
    is_notice = pc.and_(pc.is_in(kind, pa.array(NOTICES)), concerns)
    is_told = pc.or_(pc.is_in(kind, pa.array(("fragment", *MESSAGES))), is_notice)
    return packets.filter(pc.and_(is_told, pc.is_valid(packets["frag_count"]))).select(_OF_MESSAGES)


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    whole: bytes = sink.getvalue().to_pybytes()
    return whole


def _table(stream: bytes) -> pa.Table:
    return pa.ipc.open_stream(stream).read_all()


def messages_of(table: pa.Table) -> Iterator[Told]:
    """Yield the rows of a table of messages."""
    columns = {name: table[name].to_pylist() for name in _OF_MESSAGES}
    messages = map(Message, *(columns[name] for name in Message._fields))
    senders = zip(*(columns[name] for name in _SENDER), strict=True)
    parts = map(Part, senders, *(columns[name] for name in _FRAGMENT))
    for frame, node, message, part in zip(columns["frame"], columns["node"], messages, parts, strict=True):
        yield Told(message.time, frame, node, message, None if part.parts == 1 else part)


class FollowCaptures(StatefulProcessor):
    """Follows captures; their state is in the engine."""

    def __init__(self, breaks: Mapping[str, Sequence[Break]]) -> None:
        self._breaks = breaks

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the states of a capture."""
        self._following = handle.getValueState(_FOLLOWING, "value binary")
        self._overview = handle.getValueState(_OVERVIEW, "value string")
        self._cells = handle.getMapState(_CELLS, "slice int", "value string")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Follow a batch of a capture."""
        (name,) = key
        known = self._following.get()
        counts: Rows = []
        messages: list[Told] = []
        for row in rows:
            counts += _table(row.counts).to_pylist()
            messages += messages_of(_table(row.messages))
        done = step(known[0] if known else None, self._breaks.get(name, ()), counts, messages, self._text)
        self._following.update((done.following,))
        self._overview.update((done.overview,))
        if done.is_anew:
            self._cells.clear()
        for place, text in done.cells.items():
            self._cells.updateValue((place,), (text,))
        for place, text in [(OVERVIEW, done.overview), *done.cells.items()]:
            yield Row(layering=name, slice=place, value=text)

    def _text(self, place: int) -> str | None:
        found = self._cells.getValue((place,))
        return found[0] if found else None

    def close(self) -> None:
        """Nothing is open."""
