"""State of nodes besides their PITs, and cache hits, from the nodes' counters.

Routes, replicas and graphs do not show in packets. Nodes hold them for longer than Interests wait, so their
peak counts.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa

from analysis.files import Rows
from analysis.metrics.aggregates import ratio

HELD: Final = ("replicas", "replica_bytes", "statements")
COUNTED: Final = ("cs_hits", "cs_misses", "joined", "split")
HELD_STATE = pa.schema(
    [("layering", pa.string()), ("node", pa.string()), *((name, pa.int64()) for name in (*HELD, *COUNTED))]
)
"""A row per node: peak numbers of messages in others' logs, of their bytes, and of follow and block
statements, null where absent; content store hits and misses; Interests aggregated onto a pending one, and
those of them forwarded all the same.
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
        *((name, pa.int64()) for name in _NAMES.values()),
    ]
)
"""The columns of counters.jsonl used here; null where nodes do not count them."""


def peaks(counters: pa.Table) -> pa.Table:
    """Return HELD_STATE; `counters` is COUNTERS with layering, in the order of the files."""
    by_node: defaultdict[tuple[str, str], Rows] = defaultdict(list)
    for sample in counters.select(["layering", *COUNTERS.names]).to_pylist():
        by_node[sample["layering"], sample["node"]].append(_flat(sample))
    rows: Rows = []
    for (layering, node), samples in sorted(by_node.items()):
        row: dict[str, Any] = {"layering": layering, "node": node}
        for what in HELD:
            row[what] = max(_known_values(samples, what), default=None)
        for what in COUNTED:
            row[what] = _sum_of_lives(_known_values(samples, what))
        rows.append(row)
    return pa.Table.from_pylist(rows, HELD_STATE)


def totals(table: pa.Table) -> dict[str, dict[str, Any]]:
    """Return the metrics of each layering from HELD_STATE."""
    nodes: defaultdict[str, Rows] = defaultdict(list)
    for row in table.to_pylist():
        nodes[row["layering"]].append(row)
    totals = {}
    for layering, rows in nodes.items():
        means = {what: [row[what] for row in rows if row[what] is not None] for what in HELD}
        sums = {what: sum(row[what] or 0 for row in rows) for what in COUNTED}
        totals[layering] = {what: ratio(sum(held), len(held)) for what, held in means.items()} | {
            "cache_hits": ratio(sums["cs_hits"], sums["cs_hits"] + sums["cs_misses"], 100),
            "split_share": ratio(sums["split"], sums["joined"], 100),
        }
    return totals


def _flat(sample: dict[str, Any]) -> dict[str, Any]:
    """Return a sample's counts, and its state of the kinds that stay."""
    messages, statements = ((sample["state"] or {}).get(kind) or {} for kind in ("messages", "statements"))
    return {what: sample[name] for what, name in _NAMES.items()} | {
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
