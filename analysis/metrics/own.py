"""Metrics of other distributions, by entry points of the group "feednet.metrics" (base/plugins.py)."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, NamedTuple

from base.plugins import blamed, installed, lacking

if TYPE_CHECKING:
    # It imports pyarrow, and commands that only name metrics do without.
    from analysis.tables.collected import Tables

OFFERED = (
    *("carried", "connections", "copies", "events", "faults", "feeds_at", "first_items", "flows", "found"),
    *("insertions", "keeping_up", "latency", "latency_quantiles", "link_use", "packets", "pit_lives"),
    *("pit_summary", "queue", "recovery", "sent_messages", "standing", "state_kinds", "state_summary"),
    *("tiny_sent", "traffic", "wire_bound"),
)
"""The tables that values() can read: those of docs/tables.md, and what feednet's own metrics are made of."""


class OwnMetric(NamedTuple):
    """A metric of another distribution. Its entry point's name is its key.

    Attributes:
        title, unit, better, axis: see analysis.metrics.catalogue.Metric.
        values: OFFERED -> the value of each layering; None, or absent, where it is undefined.
    """

    title: str
    unit: str
    better: str
    axis: str
    values: "Callable[[Tables], Mapping[str, float | None]]"


def own_metrics(known: Mapping[str, object]) -> dict[str, tuple[EntryPoint, OwnMetric]]:
    """Return the metrics of other distributions by key, with their entry points.

    `known` are feednet's own. Raises PluginError.
    """
    found = {}
    for key, point in installed("metric", known).items():
        with blamed("metric", point):
            metric: OwnMetric = point.load()
        lacking("metric", point, metric, OwnMetric._fields)
        found[key] = point, metric
    return found


def totals(
    metrics: Mapping[str, tuple[EntryPoint, OwnMetric]], tables: "Tables"
) -> dict[str, dict[str, float]]:
    """Return the values of metrics by layering and key, as analysis.metrics.comparison.measure takes them.

    Raises PluginError.
    """
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for key, (point, metric) in metrics.items():
        with blamed("metric", point):
            for layering, value in metric.values(tables).items():
                if value is not None:
                    found[layering][key] = float(value)
    return found
