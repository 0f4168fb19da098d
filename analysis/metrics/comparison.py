"""The comparison of layerings by the metrics of the catalogue."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from analysis.decode.protocols.protocol import NDN
from analysis.metrics.aggregates import Totals, ratio
from analysis.metrics.catalogue import METRICS, OVER_NDN, Metric, is_time, why_unranked
from analysis.packet_schema import schema_of

_COUNTS = (
    "published", "deliveries", "carried", "interests", "asked", "wire_frames", "wire_bytes", "renewals",
    "control",
)  # fmt: skip
"""Metrics that are 0, not unknown, without counts."""

MEASURES = pa.schema(
    [*schema_of("layering string, position int64"), *((metric.key, pa.float64()) for metric in METRICS)]
)
"""A row per layering: its position in the run, and each of METRICS; null where undefined."""

COMPARISON = schema_of(
    "row int64, metric string, group string, title string, unit string, better string, axis string,"
    " layering string, position int64, value float64, ratio float64"
)
"""A row per metric and layering. row: index in METRICS; position: the layering's; ratio: value / the first
layering's value, null for the first layering, for an unknown or zero base, and for times that why_unranked()
excludes.
"""


def measure(runs: pa.Table, totals: Sequence[Totals]) -> pa.Table:
    """Return MEASURES from each layering's row of analysis.run.context.RUNS and totals of
    analysis.metrics.aggregates, merged.
    """
    rows = []
    for run in runs.to_pylist():
        known: defaultdict[str, Any] = defaultdict(lambda: None, dict.fromkeys(_COUNTS, 0))
        for each in (run, *(total.get(run["layering"], {}) for total in totals)):
            known.update((name, value) for name, value in each.items() if value is not None)
        known |= _derived(known)
        if known["protocol"] != NDN:
            known |= dict.fromkeys((metric.key for metric in METRICS if metric.group in OVER_NDN), None)
        rows.append({name: known[name] for name in MEASURES.names})
    return pa.Table.from_pylist(rows, MEASURES).sort_by("position")


def _derived(known: defaultdict[str, Any]) -> dict[str, Any]:
    """Return the metrics that are ratios of counts."""
    per_link = ratio(known["interests"], known["crossings"])
    return {
        "delivered": known["deliveries"],
        "delivered_share": ratio(known["deliveries"], known["expected"], 100),
        "lacking": None
        if known["written"] is None
        else known["written"] - known["deliveries"] - (known["beyond_fork"] or 0),
        "interests_per_item": ratio(known["asked"], known["carried"]),
        "interests_network": ratio(known["interests"], known["carried"]),
        "interests_per_link": per_link,
        "interests_per_window": None
        if per_link is None or known["credit"] is None
        else per_link * known["credit"],
        "pit_renewals_per_item": ratio(known["renewals"], known["carried"]),
        "frames_per_item": ratio(known["wire_frames"], known["carried"]),
        "bytes_per_item": ratio(known["wire_bytes"], known["carried"]),
        "bound_bytes_per_item": ratio(known["bound_bytes"], known["carried"]),
        "wire_ratio": ratio(known["wire_bytes"], known["bound_bytes"]),
        # Usefulness is unknown where other packets carry the items.
        "useful_share": None
        if known["bound_bytes"] is None
        else ratio(known["useful_bytes"], known["wire_bytes"], 100),
        "repeated_share": ratio(known["repeated"], known["sent"], 100),
        "duplicate_share": ratio(known["duplicates"], known["arrived"], 100),
        "control_per_item": ratio(known["control"], known["carried"]),
        "overhead_ratio": ratio(known["wire_bytes"], known["carried_bytes"]),
        "asking_per_item": ratio(known["asking_bytes"], known["carried"]),
        "airtime_per_item": ratio(known["airtime_ns"], 1e6 * known["carried"]),
        "cpu_per_item": ratio(known["cpu_ns"], 1e6 * known["carried"]),
        "verified_per_item": ratio(known["verified"], known["carried"]),
        "capture_drops": known["dropped"],
        "signalling_per_move": ratio(
            _sum(known["route_changes"], known["signalling_messages"]), known["moves"]
        ),
    }


def _sum(*counts: int | None) -> int | None:
    """Sum the known values; None if there are none."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def compare(measures: pa.Table) -> pa.Table:
    """Return the COMPARISON of MEASURES."""
    layerings = measures.sort_by("position").to_pylist()
    unranked = {layering["layering"] for layering in layerings if why_unranked(layering)}

    def compared(metric: Metric, layering: dict[str, Any]) -> float | None:
        first = layerings[0]
        if not layering["position"] or (
            is_time(metric) and unranked & {first["layering"], layering["layering"]}
        ):
            return None
        return ratio(layering[metric.key], first[metric.key])

    rows = [
        metric._asdict()
        | {
            "row": row,
            "metric": metric.key,
            "layering": layering["layering"],
            "position": layering["position"],
            "value": layering[metric.key],
            "ratio": compared(metric, layering),
        }
        for row, metric in enumerate(METRICS)
        for layering in layerings
    ]
    return pa.Table.from_pylist(rows, COMPARISON)
