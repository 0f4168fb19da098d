"""State of nodes besides their PITs, and cache hits, from the nodes' counters.

Routes, replicas and graphs do not show in packets. Nodes hold them for longer than Interests wait, so their
peak counts.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa

from analysis.columns.rows import grouped
from analysis.files import Rows
from analysis.metrics.aggregates import by_layering, ratio
from analysis.packet_schema import schema_of

HELD: Final = ("replicas", "replica_bytes", "statements")
_SEEN: Final = "subscriptions_seen"
HOLDERS = schema_of("layering string, time int64, nodes int64, contents int64")
"""A row for each time at which one changes: the nodes that hold contents whose author asks to delete them, at
some time of the run; and these contents, all nodes together.
"""
COUNTED: Final = ("cs_hits", "cs_misses", "joined", "split")
HELD_STATE = pa.schema(
    [
        *(("layering", pa.string()), ("node", pa.string())),
        *((name, pa.int64()) for name in (*HELD, *COUNTED, _SEEN)),
    ]
)
"""A row per node: peak numbers of messages in others' logs, of their bytes, and of follow and block
statements, null where absent; content store hits and misses; Interests aggregated onto a pending one, and
those of them forwarded all the same; subscriptions of which the node has learned as a third one.
"""

_NAMES: Final = {
    "cs_hits": "cs_hits",
    "cs_misses": "cs_misses",
    "joined": "social_joined",
    "split": "social_split",
}
_SIZE = pa.struct([("entries", pa.int64()), ("bytes", pa.int64())])
COUNTERS = pa.schema(
    [
        ("node", pa.string()),
        ("state", pa.struct([("messages", _SIZE), ("statements", _SIZE)])),
        *((name, pa.int64()) for name in (*_NAMES.values(), "asked_contents", _SEEN)),
    ]
)
"""The columns of counters.jsonl used here; null where nodes do not count them."""


def peaks(counters: pa.Table) -> pa.Table:
    """Return HELD_STATE; `counters` is COUNTERS with layering, in the order of the files."""
    by_node = grouped(counters.select(["layering", *COUNTERS.names]).to_pylist(), "layering", "node")
    rows: Rows = []
    for layering, node in sorted(by_node):
        samples = [*map(_flat, by_node[layering, node])]
        row: dict[str, Any] = {"layering": layering, "node": node}
        for what in HELD:
            row[what] = max(_known_values(samples, what), default=None)
        row[_SEEN] = max(_known_values(samples, _SEEN), default=None)
        for what in COUNTED:
            row[what] = _sum_of_lives(_known_values(samples, what))
        rows.append(row)
    return pa.Table.from_pylist(rows, HELD_STATE)


def totals(table: pa.Table) -> dict[str, dict[str, Any]]:
    """Return the metrics of each layering from HELD_STATE."""
    totals = {}
    for layering, rows in by_layering(table).items():
        means = {what: [row[what] for row in rows if row[what] is not None] for what in HELD}
        sums = {what: sum(row[what] or 0 for row in rows) for what in COUNTED}
        seen = _known_values(rows, _SEEN)
        totals[layering] = {what: ratio(sum(held), len(held)) for what, held in means.items()} | {
            "cache_hits": ratio(sums["cs_hits"], sums["cs_hits"] + sums["cs_misses"], 100),
            "split_share": ratio(sums["split"], sums["joined"], 100),
            "witnesses": sum(map(bool, seen)) if seen else None,
            "witnessed_most": max(seen, default=None),
        }
    return totals


def holders(counters: pa.Table) -> pa.Table:
    """Return HOLDERS; `counters` is COUNTERS with layering and time."""
    order = [("layering", "ascending"), ("time", "ascending")]
    samples = counters.select(["layering", "time", "node", "asked_contents"]).sort_by(order)
    held: defaultdict[str, dict[str, int]] = defaultdict(dict)
    at: dict[tuple[str, int], tuple[int, int]] = {}
    for sample in samples.to_pylist():
        if sample["asked_contents"] is not None:
            nodes = held[sample["layering"]]
            nodes[sample["node"]] = sample["asked_contents"]
            at[sample["layering"], sample["time"]] = sum(map(bool, nodes.values())), sum(nodes.values())
    rows: Rows = []
    before: dict[str, tuple[int, int]] = {}
    for (layering, time), count in at.items():
        if before.get(layering) != count:
            rows.append({"layering": layering, "time": time, "nodes": count[0], "contents": count[1]})
            before[layering] = count
    return pa.Table.from_pylist(rows, HOLDERS)


def holder_totals(table: pa.Table, runs: pa.Table) -> dict[str, dict[str, Any]]:
    """Return asked_holders and asked_holders_end of each layering from HOLDERS and RUNS."""
    until = {row["layering"]: row["until_ns"] for row in runs.to_pylist()}
    found: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for row in table.to_pylist():
        totals = found[row["layering"]]
        totals["asked_holders"] = max(row["nodes"], totals.get("asked_holders", 0))
        if row["time"] <= until[row["layering"]]:
            totals["asked_holders_end"] = row["nodes"]
    return dict(found)


def _flat(sample: dict[str, Any]) -> dict[str, Any]:
    """Return a sample's counts, and its state of the kinds that stay."""
    messages, statements = ((sample["state"] or {}).get(kind) or {} for kind in ("messages", "statements"))
    return {what: sample[name] for what, name in _NAMES.items()} | {
        _SEEN: sample[_SEEN],
        "replicas": messages.get("entries"),
        "replica_bytes": messages.get("bytes"),
        "statements": statements.get("entries"),
    }


def _known_values(samples: Iterable[dict[str, Any]], what: str) -> list[int]:
    return [sample[what] for sample in samples if sample[what] is not None]


def _sum_of_lives(counts: list[int]) -> int | None:
    """Return the total of a counter across restarts."""
    if not counts:
        return None
    ends = [count for count, then in zip(counts, [*counts[1:], -1], strict=True) if then < count]
    return sum(ends)
