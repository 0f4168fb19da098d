"""mine: the share of deliveries within a tenth of a second. Change it into your own."""

from collections import defaultdict

from analysis.metrics.own import OwnMetric
from analysis.tables.collected import Tables

SOON_NS = 100_000_000


def values(tables: Tables) -> dict[str, float | None]:
    """Return the metric of each layering, from any of analysis.metrics.own.OFFERED."""
    waited = defaultdict(list)
    for row in tables["latency"]:
        waited[row["layering"]].append(row["latency_ns"])
    return {
        layering: 100 * sum(time <= SOON_NS for time in times) / len(times)
        for layering, times in waited.items()
    }


metric = OwnMetric(
    title="Deliveries within 100 ms",
    unit="%",
    better="higher",  # or "lower", or "" for neither
    axis="deliveries within 100 ms",  # a short name; layerings are ranked by metrics that have one
    values=values,
)
