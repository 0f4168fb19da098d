"""Saturation: whether a layering kept up with publication, or its run was cut off.

Latencies of a saturated layering measure a growing queue: twice the run, twice the latency. Without
saturation latency does not depend on the number of earlier items; so the test is for latency that grows from
the first item to the last.

A subscriber fell behind if, of at least FEWEST items published while it was present,

- later items took longer: Spearman's rank correlation of publication and latency is at least CORRELATED (C.
  Spearman, Am. J. Psychol. 15(1), 1904);
- the last quarter's median is at least twice the first one's, and grew by at least MATERIAL of the time in
  between;
- latency still grew in the second half: both quarter-to-quarter steps there are at least STEP of the whole
  growth. (A path change in mid-run makes one step.)

A subscriber was cut off if expected items were missing and deliveries continued in the last moments before
subscriptions ended. A stalled one receives nothing then: it is incomplete, but not cut off.

Nodes with paced or pausing applications are not judged: the scenario causes their queue.

Where operations cost nodes time ([cost] of a scenario), the busiest node's processor is what saturates.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from analysis.columns.grouped import in_groups
from analysis.files import Rows
from analysis.packet_schema import schema_of
from analysis.run.context import Cases

FEWEST = 40
CORRELATED = 0.8
MATERIAL = 0.01
STEP = 0.1

LAST_MOMENTS_NS = 1_000_000_000
"""Before subscriptions end; half of the settling time if that is less."""

KEEPING_UP = schema_of(
    "layering string, node string, expected int64, delivered int64, waiting int64, at_last int64,"
    " quarters_ms float64[], correlation float64, fell_behind bool, cut_off bool"
)
"""A row per layering and judged subscriber. delivered: of the expected items; waiting: undelivered at the
last publication; at_last: delivered in the last moments; quarters_ms: median latency of each quarter of the
items in publication order, null with their correlation for fewer than FEWEST.
"""


COUNTERS = schema_of("time int64, node string, work_busy_ns int64, work_verified int64")
"""The columns of counters.jsonl used here; null where operations take no time."""


_TIMES = ("published", "delivered", "latency_ns")


def judged(deliveries: DataFrame, cases: Cases) -> DataFrame:
    """Return KEEPING_UP of the subscribers who got an item; `deliveries` has layering, node, published,
    delivered and latency_ns (all ns) of subscribed items (analysis.tables.latency).
    """
    own = deliveries.select("layering", "node", *_TIMES)
    return in_groups(own, ("layering", "node"), judge(cases), from_arrow_schema(KEEPING_UP))


def keeping_up(rows_of_judged: Rows, cases: Cases) -> pa.Table:
    """Return KEEPING_UP of all subscribers, from the rows of judged()."""
    found = {(row["layering"], row["node"]): row for row in rows_of_judged}
    nothing = [np.array([], np.int64)] * len(_TIMES)
    rows = [
        found.get(who) or _row(*who, subscriber, *nothing) for who, subscriber in _subscribers(cases).items()
    ]
    return pa.Table.from_pylist(rows, KEEPING_UP)


def judge(cases: Cases) -> Callable[[pa.Table], Iterator[pa.Table]]:
    """Return a function that makes the row of KEEPING_UP, if any, of the deliveries to one node."""
    subscribers = _subscribers(cases)

    def row_of(deliveries: pa.Table) -> Iterator[pa.Table]:
        layering, node = (deliveries[name][0].as_py() for name in ("layering", "node"))
        if subscriber := subscribers.get((layering, node)):
            times = (deliveries[name].to_numpy() for name in _TIMES)
            yield pa.Table.from_pylist([_row(layering, node, subscriber, *times)], KEEPING_UP)

    return row_of


class _Subscriber(NamedTuple):
    """A judged subscriber: the items that it expects, and times of its run (ns)."""

    expected: int
    last_ns: int
    stop_ns: int
    settle_ns: int


def _subscribers(cases: Cases) -> dict[tuple[str, str], _Subscriber]:
    return {
        (name, node): _Subscriber(expected, turn.last_ns, turn.stop_ns, turn.settle_ns)
        for name, case in cases.items()
        for turn in [case.manifest.runs[case.layering]]
        for node, expected in case.manifest.workload.expected.items()
        if node not in case.manifest.workload.paced
    }


def processors(counters: pa.Table, runs: pa.Table) -> dict[str, dict[str, float]]:
    """Return by layering processor_most, processor_mean and verified, where operations cost time.

    `counters` is COUNTERS with layering, in the order of time; `runs` is that of analysis.run.context. Shares
    are of the time in which items were published, in %; `verified` counts the signatures that all nodes have
    verified in the run.
    """
    spans = {row["layering"]: (row["from_ns"], row["until_ns"]) for row in runs.to_pylist()}
    busy: defaultdict[str, Counter[str]] = defaultdict(Counter)
    verified: Counter[str] = Counter()
    before: dict[tuple[str, str], tuple[int, int]] = {}
    for row in counters.select(["layering", *COUNTERS.names]).drop_null().to_pylist():
        layering, node = row["layering"], row["node"]
        now = row["work_busy_ns"], row["work_verified"]
        known = before.get((layering, node), (0, 0))
        grown = [new - old if new >= old else new for new, old in zip(now, known, strict=True)]
        before[layering, node] = now
        verified[layering] += grown[1]
        begin, end = spans[layering]
        busy[layering][node] += grown[0] if begin < row["time"] <= end else 0
    found = {}
    for layering, nodes in busy.items():
        begin, end = spans[layering]
        shares = [100 * time / (end - begin) for time in nodes.values()] if end > begin else [0.0]
        found[layering] = {
            "processor_most": max(shares),
            "processor_mean": sum(shares) / len(shares),
            "verified": float(verified[layering]),
        }
    return found


def _row(
    layering: str,
    node: str,
    turn: _Subscriber,
    published: np.ndarray,
    delivered: np.ndarray,
    latency: np.ndarray,
) -> dict[str, Any]:
    expected = turn.expected
    last_moments = min(LAST_MOMENTS_NS, (turn.stop_ns - turn.settle_ns) // 2)
    at_last = int(np.count_nonzero(delivered > turn.stop_ns - last_moments))
    row = {
        "layering": layering,
        "node": node,
        "expected": expected,
        "delivered": len(delivered),
        "waiting": max(expected - int(np.count_nonzero(delivered <= turn.last_ns)), 0),
        "at_last": at_last,
        "fell_behind": False,
        "cut_off": len(delivered) < expected and at_last > 0,
    }
    # A late joiner's latency counts from joining: its backlog is no evidence of a queue.
    counts = latency == delivered - published
    order = np.lexsort((delivered[counts], published[counts]))
    published, latency = published[counts][order], latency[counts][order]
    if len(latency) < FEWEST:
        return row
    quarters = [float(np.median(quarter)) for quarter in np.array_split(latency, 4)]
    between = [float(np.median(quarter)) for quarter in np.array_split(published, 4)]
    growth = quarters[3] - quarters[0]
    correlation = _correlation(published, latency)
    fell_behind = (
        correlation >= CORRELATED
        and quarters[3] >= 2 * quarters[0]
        and growth >= MATERIAL * (between[3] - between[0])
        and min(quarters[2] - quarters[1], quarters[3] - quarters[2]) >= STEP * growth
    )
    trend = {"quarters_ms": [quarter / 1e6 for quarter in quarters], "correlation": correlation}
    return row | trend | {"fell_behind": bool(fell_behind)}


def _correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Return Spearman's rank correlation, 0 if one variable is constant."""
    ranks = [_ranks(a), _ranks(b)]
    if any(rank.min() == rank.max() for rank in ranks):
        return 0.0
    return float(np.corrcoef(ranks)[0, 1])


def _ranks(values: np.ndarray) -> np.ndarray:
    """Return ranks from 1; ties share their mean rank, as any order among them would be a trend."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: np.ndarray = (np.cumsum(counts) - (counts - 1) / 2)[place]
    return ranks
