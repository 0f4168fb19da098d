"""mine: the longest wait of each subscriber, as bars. Change it into your own."""

from analysis.report.figures.plot import Figure, grouped_bars
from analysis.run.manifest import Manifest
from analysis.tables.collected import Tables


def figure(tables: Tables, manifest: Manifest) -> Figure | None:
    """Return the figure of a run's report, None if there is nothing to show."""
    longest: dict[tuple[str, str], float | None] = {}
    for row in tables["latency"]:  # docs/tables.md has its columns, and the other tables
        place = row["layering"], row["node"]
        longest[place] = max(longest.get(place) or 0.0, row["latency_ns"] / 1e6)
    if not longest:
        return None
    return grouped_bars(
        "mine",
        "The longest wait of each subscriber",
        "Bars: the greatest latency of an item at each subscriber, by layering.",  # for who cannot see it
        manifest.layerings,
        longest,
        sorted({node for _, node in longest}),
        "ms",
    )
