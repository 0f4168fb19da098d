"""Cost of finding feeds, and of finding them again after their authors move.

The nodes that hold routes and records count them (counters.jsonl). A route change counts as one message to
its node, the minimum for a routing protocol. Signalling messages cross links as packets: those of a name
service, and hellos between SSB-aware neighbours. Both count from the first publication on, without the
initial setup. Periodic refreshes count, too: unrefreshed records and attachments expire.
"""

from collections import defaultdict
from collections.abc import Iterator
from functools import reduce
from itertools import pairwise
from operator import or_
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from analysis.columns.rows import grouped
from analysis.files import Rows
from analysis.metrics.aggregates import by_layering
from analysis.packet_schema import schema_of
from analysis.run.context import Cases

SIGNALLING_PREFIXES = "/ssb/map/", "/localhop/ssb/hello/"
"""Name prefixes of packets of a name service (ssb_over_ndn/mapping) and of hellos (ssb_over_ndn/social)."""

_HELD = ("fib_entries", "map_records", "resolver_entries", "stored_bytes")

COUNTERS = pa.schema(
    [("time", pa.int64()), ("node", pa.string())] + [(name, pa.int64()) for name in (*_HELD, "route_changes")]
)
"""The columns of counters.jsonl used here; null where nodes do not count them."""

RECORD_CHANGES = schema_of("layering string, node string, feed string, mapped int64, stale_ns int64")
"""A row per change of a feed's record and reader of the feed: registration of the new record (ns), and how
long the reader kept using an older one; to the end of its subscriptions if it never learned the new one.
"""


def signalling_messages(packets: DataFrame, runs: DataFrame) -> DataFrame:
    """Count the messages of a name service, or hellos, over links: return layering and messages.

    `packets` have layering, time, direction and name, `runs` layering and from_ns.
    """
    return (
        packets.where(
            (F.col("direction") == "out") & reduce(or_, map(F.col("name").startswith, SIGNALLING_PREFIXES))
        )
        .join(F.broadcast(runs.select("layering", "from_ns")), "layering")
        .where(F.col("time") >= F.col("from_ns"))
        .groupBy("layering")
        .agg(F.count("*").alias("messages"))
    )


def record_changes(events: pa.Table, cases: Cases) -> pa.Table:
    """Return RECORD_CHANGES; `events` has layering, time, node, event, feed and seq.

    "mapped" (name service) and "resolved" (reader) identify the record by its sequence number.
    """
    mapped: defaultdict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    resolved: defaultdict[tuple[str, str], dict[str, list[tuple[int, int]]]] = defaultdict(dict)
    named = events.filter(pc.is_in(events["event"], pa.array(["mapped", "resolved"])))
    for row in named.select(["layering", "time", "node", "event", "feed", "seq"]).to_pylist():
        place = row["layering"], row["feed"]
        if row["event"] == "mapped":
            mapped[place].append((row["time"], row["seq"]))
        else:
            resolved[place].setdefault(row["node"], []).append((row["time"], row["seq"]))
    rows = []
    for (layering, feed), records in sorted(mapped.items()):
        case = cases[layering]
        stop = case.manifest.runs[case.layering].stop_ns
        for time, seq in sorted(records)[1:]:  # nobody was misled before the first
            for node, uses in sorted(resolved[layering, feed].items()):
                if min(uses)[0] > time:
                    continue  # it has not followed the feed before
                used = min((at for at, number in uses if number >= seq), default=stop)
                about = {"layering": layering, "node": node, "feed": feed}
                rows.append(about | {"mapped": time, "stale_ns": max(used - time, 0)})
    return pa.Table.from_pylist(rows, RECORD_CHANGES)


def totals(
    counters: pa.Table, told_rows: pa.Table, found_rows: pa.Table, timeline: pa.Table, runs: pa.Table
) -> dict[str, dict[str, Any]]:
    """Return by layering: fib_entries_mean, map_records, resolver_entries, stored_bytes, route_changes,
    signalling_messages, moves, stale_p50, stale_max.

    `counters` is COUNTERS with layering; `timeline` and `runs` are those of analysis.run.context. A move is a
    link-up event.
    """
    from numpy import median

    begun = {row["layering"]: row["from_ns"] for row in runs.to_pylist()}
    messages = {row["layering"]: row["messages"] for row in told_rows.to_pylist()}
    moves: defaultdict[str, int] = defaultdict(int)
    for row in timeline.to_pylist():
        moves[row["layering"]] += row["event"] == "link-up" and row["time"] >= begun[row["layering"]]
    late: defaultdict[str, list[int]] = defaultdict(list)
    for row in found_rows.to_pylist():
        late[row["layering"]].append(row["stale_ns"])
    known: dict[str, dict[str, Any]] = {}
    for layering, rows in by_layering(counters.select(["layering", *COUNTERS.names])).items():
        fib = [row["fib_entries"] for row in rows if row["fib_entries"] is not None]
        peaks = {
            name: max((row[name] for row in rows if row[name] is not None), default=None)
            for name in ("map_records", "resolver_entries", "stored_bytes")
        }
        has_names = peaks["map_records"] is not None
        stale = late[layering]
        known[layering] = {
            "fib_entries_mean": sum(fib) / len(fib) if fib else None,
            **peaks,
            "route_changes": _changes(rows, begun[layering]),
            "signalling_messages": messages.get(layering, 0 if has_names else None),
            "moves": moves[layering] or None,
            "stale_p50": float(median(stale)) / 1e6 if stale else None,
            "stale_max": max(stale) / 1e6 if stale else None,
        }
    return known


def _changes(rows: Rows, begun: int) -> int | None:
    """Return the number of route changes since a time (ns), across restarts."""
    nodes = grouped([row for row in rows if row["route_changes"] is not None], "node")
    return sum(sum(_grown(samples, begun)) for samples in nodes.values()) if nodes else None


def _grown(samples: Rows, begun: int) -> Iterator[int]:
    counts = sorted((row["time"], row["route_changes"]) for row in samples)
    for (_, before), (time, after) in pairwise(counts):
        if time > begun:
            yield after - before if after >= before else after
