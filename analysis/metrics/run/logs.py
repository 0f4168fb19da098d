"""NDN over Scuttlebutt logs: the waiting times of packets, and savings of forwarders.

From the nodes' counters and events, which record when a packet was written to and read from a log; a capture
shows only the log's replication.
"""

from collections import defaultdict
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from analysis.columns.rows import grouped
from analysis.errors import AnalysisError
from analysis.files import Rows
from analysis.metrics.aggregates import ratio
from analysis.packet_schema import schema_of
from analysis.run.context import Cases

LOOKUPS = schema_of(
    "layering string, interests int64, from_stores float64, aggregated float64, from_logs float64"
)
"""Totals of a layering's forwarders: Interests looked up, and shares (%) answered by content stores and
aggregated. And the share (%) of applications' Interests answered from logs that their nodes replicate anyway.
"""

CROSSINGS = schema_of(
    "layering string, kind string, packets int64, queued_ms float64, replicated_ms float64, checked_ms"
    " float64"
)
"""Packets of a kind across contracts: number read at the other ends; mean times from send request to log
entry, from log entry to receipt and, of Data, from receipt to certificate validation at a provider.
"""

STEPS = schema_of(
    "layering string, kind string, sender string, receiver string, written int64, read int64, log string,"
    " entry int64, feed string"
)
"""A packet about one segment, written to a log at one node and read at another; times in ns."""


def counters_at_end(cases: Cases) -> Rows:
    """Return the last row of counters.jsonl in each life of each node, with its layering.

    Raises AnalysisError.
    """
    found: Rows = []
    for name, case in cases.items():
        path = case.run.counters(case.layering)
        if not path.stat().st_size:
            continue
        try:
            table = pyarrow.json.read_json(path).sort_by([("node", "ascending"), ("time", "ascending")])
            last = table.take(_ends_of_lives(table)).to_pylist()
        except pa.ArrowInvalid as error:
            raise AnalysisError(f"{path}: {error}") from None
        found += [row | {"layering": name} for row in last]
    return found


def _ends_of_lives(samples: pa.Table) -> list[int]:
    """Return the rows before a node's end or restart.

    `samples` are sorted by node and time.
    """
    nodes = samples["node"].to_pylist()
    counted = [0] * len(nodes)
    for name in ("cs_hits", "cs_misses"):
        if name in samples.column_names:
            counts = samples[name].to_pylist()
            counted = [sum(pair) for pair in zip(counted, (count or 0 for count in counts), strict=True)]
    following = zip([*nodes[1:], None], [*counted[1:], 0], strict=True)
    return [row for row, (node, count) in enumerate(following) if node != nodes[row] or count < counted[row]]


def lookups(counters: Rows) -> pa.Table:
    """Return LOOKUPS."""
    rows = []
    for layering, own in grouped(counters, "layering").items():
        sums = _sums(own, "cs_hits", "cs_misses", "aggregated")
        looked_up = sums["cs_hits"] + sums["cs_misses"]
        if looked_up:
            customers = [row for row in own if row.get("answered_here") is not None]
            here = _sums(customers, "answered_here", "cs_hits", "cs_misses")
            shares = {
                "from_stores": ratio(sums["cs_hits"], looked_up, 100),
                "aggregated": ratio(sums["aggregated"], looked_up, 100),
                "from_logs": ratio(here["answered_here"], here["cs_hits"] + here["cs_misses"], 100),
            }
            rows.append({"layering": layering, "interests": looked_up} | shares)
    return pa.Table.from_pylist(rows, LOOKUPS)


def crossings(counters: Rows) -> pa.Table:
    """Return CROSSINGS."""
    rows = []
    for layering, own in grouped(counters, "layering").items():
        for kind in ("interest", "data"):
            names = ("written", "queued_ns", "read", "replicated_ns")
            sums = _sums(own, *(f"{kind}_{name}" for name in names))
            written, queued, read, replicated = sums.values()
            if not read:
                continue
            checks = _sums(own, "data_accepted", "data_refused", "data_checking_ns")
            checked = checks["data_accepted"] + checks["data_refused"] if kind == "data" else 0
            rows.append(
                {
                    "layering": layering,
                    "kind": kind,
                    "packets": read,
                    "queued_ms": ratio(queued / 1e6, written),
                    "replicated_ms": ratio(replicated / 1e6, read),
                    "checked_ms": ratio(checks["data_checking_ns"] / 1e6, checked),
                }
            )
    return pa.Table.from_pylist(rows, CROSSINGS)


def steps(events: pa.Table) -> pa.Table:
    """Return STEPS of the first segment with the most steps, for each layering with such events.

    `events` has layering, time, node, event ("interest written", "data read" and so on), feed and detail: the
    node at the other end, the log, and the number of the entry.
    """
    ends = pc.match_substring_regex(events["event"], "(written|read)$")
    steps_of: dict[str, dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    written: dict[tuple[Any, ...], int] = {}
    for row in sorted(events.filter(ends).to_pylist(), key=lambda row: (row["time"], "read" in row["event"])):
        kind, end = row["event"].split()
        other, log, entry = row["detail"].split()
        place = row["layering"], kind, row["feed"], log, entry
        if end == "written":
            written.setdefault(place, row["time"])
        elif place in written:
            times = {"written": written[place], "read": row["time"]}
            ends = {"sender": other, "receiver": row["node"], "log": log, "entry": int(entry)}
            about = {name: row[name] for name in ("layering", "feed")}
            steps_of[row["layering"]][row["feed"]].append(about | {"kind": kind} | ends | times)
    rows = [step for feeds in steps_of.values() for step in _longest(feeds)]
    return pa.Table.from_pylist(rows, STEPS)


def _longest(feeds: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return the steps of the longest journey of an Interest and its Data; the first of several."""
    journeys = [_journey(steps) for steps in feeds.values()]
    return max(journeys, key=lambda journey: (len(journey), -journey[0]["written"] if journey else 0))


def _journey(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the first Interest's path to the repository, and the path of the Data back to the consumer."""
    there: list[dict[str, Any]] = []
    for step in steps:
        if step["kind"] == "interest" and (not there or step["sender"] == there[-1]["receiver"]):
            there.append(step)
    back: list[dict[str, Any]] = []
    for step in steps:
        ahead = there[len(there) - 1 - len(back)] if len(back) < len(there) else None
        if step["kind"] == "data" and ahead is not None and step["receiver"] == ahead["sender"]:
            back.append(step)
    return there + back if len(back) == len(there) else []


def _sums(rows: Rows, *names: str) -> dict[str, int]:
    return {name: sum(row.get(name) or 0 for row in rows) for name in names}
