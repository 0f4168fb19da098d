"""tinySSB's traffic by kind of packet, time on air, and storage.

Time on air follows LoRa's formula (`topologies.radio`) for the payload of each datagram from a member of a
radio cell, including packets dropped in its queue. The manifest has each member's actual time on air
(`cells`).
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from analysis.columns.values import ALL
from analysis.decode.protocols.tiny import CONTROL, DECLARATION
from analysis.files import Rows
from analysis.metrics.aggregates import Totals, jain
from analysis.packet_schema import schema_of
from analysis.run.context import Cases
from topologies.radio import Radio

SENT = schema_of("layering string, node string, kind string, packets int64, bytes int64, airtime_ns int64")
"""A row per node and kind of packet sent: packets, bytes with CRC, and time on air; null without a radio."""

STORED = schema_of("layering string, time_ns int64, most float64, mean float64")
"""Stored packet bytes since the run's start: at the node with the maximum over the run, and the mean of all
nodes.
"""

MISBEHAVIOUR = schema_of("layering string, node string, misbehaviour string, times int64, accused string[]")
"""Violations of tinyISP by others that a node has detected, and the number of nodes against which it holds
signed evidence.
"""

COMMANDS = schema_of("layering string, node string, command string, entries int64, packets int64")
"""A row per node and command of tinyISP that it wrote: entries with it, and packets that carried these, also
those that others sent again.
"""

ASKING = frozenset(("want", "chunk_vector", "novelty", "claim"))
"""Kinds of control packets: announcements and requests without content."""

_SIZES = ("layering", "node", "kind", "carried_bytes")
_MOST_TIMES = 300


def sizes(packets: DataFrame) -> DataFrame:
    """Return the number of packets by node, kind and size; `packets` is analysis.tables.schema.PACKETS."""
    of_tiny = packets.where((F.col("protocol") == DECLARATION.name) & (F.col("direction") == "out"))
    return of_tiny.groupBy(*_SIZES).agg(F.count("*").alias("packets"))


def sent(counted: Rows, cases: Cases) -> pa.Table:
    """Return SENT from the rows of sizes()."""
    radios = {name: _radios(case.manifest.topology.media) for name, case in cases.items()}
    sums: dict[tuple[str, ...], list[int]] = {}
    for row in counted:
        own = sums.setdefault((row["layering"], row["node"], row["kind"]), [0, 0, 0])
        own[0] += row["packets"]
        own[1] += row["packets"] * row["carried_bytes"]
        radio = radios[row["layering"]].get(row["node"])
        if radio is not None:
            own[2] += row["packets"] * radio.airtime_ns(row["carried_bytes"])
    rows = [
        (*key, *numbers[:2], numbers[2] if radios[key[0]].get(key[1]) else None)
        for key, numbers in sorted(sums.items())
    ]
    return pa.Table.from_pylist([dict(zip(SENT.names, row, strict=True)) for row in rows], SENT)


def _radios(media: Iterable[Any]) -> dict[str, Radio]:
    """Return the radio of each node in a cell."""
    return {member: medium.radio for medium in media if medium.radio for member in medium.members}


def commands(packets: DataFrame) -> DataFrame:
    """Return COMMANDS; `packets` is analysis.tables.schema.PACKETS. An entry is its first sender's."""
    sent = packets.where(
        (F.col("protocol") == DECLARATION.name) & (F.col("kind") == CONTROL) & (F.col("direction") == "out")
    )
    entries = sent.groupBy("layering", "name").agg(
        F.min(F.struct("time", "node"))["node"].alias("node"), F.count("*").alias("packets")
    )
    return entries.groupBy("layering", "node", F.split("name", "/")[2].alias("command")).agg(
        F.count("*").alias("entries"), F.sum("packets").alias("packets")
    )


def stored(counters: pa.Table, cases: Cases) -> pa.Table:
    """Return STORED; `counters` are those of analysis.metrics.run.moves.COUNTERS, with layering."""
    starts = {
        name: case.manifest.runs[case.layering].start_ns
        for name, case in cases.items()
        if case.protocol == DECLARATION.name
    }
    levels: defaultdict[str, defaultdict[int, dict[str, int]]] = defaultdict(lambda: defaultdict(dict))
    for row in counters.select(["layering", "time", "node", "stored_bytes"]).to_pylist():
        if (start := starts.get(row["layering"])) is not None:
            levels[row["layering"]][row["time"] - start][row["node"]] = row["stored_bytes"] or 0
    rows = []
    for layering, times in sorted(levels.items()):
        peaks: defaultdict[str, int] = defaultdict(int)
        for nodes in times.values():
            for node, size in nodes.items():
                peaks[node] = max(peaks[node], size)
        first = max(sorted(peaks), key=peaks.__getitem__)
        rows += [
            {
                "layering": layering,
                "time_ns": time,
                "most": float(times[time].get(first, 0)),
                "mean": sum(times[time].values()) / len(times[time]),
            }
            for time in sorted(times)[:: max(1, len(times) // _MOST_TIMES)]
        ]
    return pa.Table.from_pylist(rows, STORED)


def misbehaviour(counters: Rows) -> pa.Table:
    """Return MISBEHAVIOUR; `counters` are the rows of analysis.metrics.run.logs.counters_at_end(). A
    restarted node counts anew, from the evidence that it holds.
    """
    rows = [
        {"layering": row["layering"], "node": row["node"]} | each
        for row in counters
        for each in row.get("misbehaviour") or ()
    ]
    return pa.Table.from_pylist(rows, MISBEHAVIOUR)


def totals(rows: Rows, latencies: Rows, cases: Cases) -> Totals:
    """Return the measures of tinySSB for each layering over it.

    `rows` is SENT, `latencies` analysis.columns.quantiles.QUANTILES. asking_bytes, airtime_ns: of all nodes;
    want_bytes: mean of a want vector; latency_fairness: Jain's index of subscribers' median latencies.
    """
    known: dict[str, dict[str, Any]] = {}
    for name, case in cases.items():
        if case.protocol != DECLARATION.name:
            continue
        own = [row for row in rows if row["layering"] == name]
        wants = [row for row in own if row["kind"] == "want"]
        vectors = sum(row["packets"] for row in wants)
        cells = case.manifest.runs[case.layering].cells
        medians = [
            row["quantiles_ns"][len(row["quantiles_ns"]) // 2]
            for row in latencies
            if row["layering"] == name and row["node"] != ALL and row["quantiles_ns"]
        ]
        known[name] = {
            "asking_bytes": sum(row["bytes"] for row in own if row["kind"] in ASKING),
            "want_bytes": sum(row["bytes"] for row in wants) / vectors if vectors else None,
            "airtime_ns": sum(each["airtime_ns"] for cell in cells.values() for each in cell.values())
            if cells
            else None,
            "latency_fairness": jain(medians),
        }
    return known
