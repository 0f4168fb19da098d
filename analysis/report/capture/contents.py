"""Contents of the page of captures: small rows, and the decoder's report on each run."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from analysis.files import Rows
from analysis.report.capture.endpoints import natural_order
from analysis.run.context import Span
from analysis.run.manifest import ScenarioEvent

MOST_FEEDS = 12
"""The most feeds whose progress is drawn."""


class Contents(NamedTuple):
    """Rows of analysis.metrics.captures.aggregates, and the reports of the captures by run."""

    engine: str
    layerings: list[str]
    runs: dict[str, Span]
    reports: Mapping[str, Mapping[str, Any]]
    interfaces: Rows
    ways: Rows
    load: Rows
    by_node: Rows
    overhead: Rows
    pit_summary: Rows
    pit_curves: Rows
    pit_heat: Rows
    outcomes: Rows
    lifetimes: Rows
    answers: Rows
    nacks: Rows
    rtt: Rows
    prefixes: Rows
    rtt_prefixes: Rows
    troubles: Rows
    feeds: Rows
    progress: Rows
    latency: Rows
    hops: Rows
    hop_times: Rows
    subjects: Rows
    sequences: Rows

    @property
    def timeline(self) -> Sequence[ScenarioEvent]:
        """Always empty: packets do not show the scenario's events."""
        return ()

    @property
    def nodes(self) -> list[str]:
        """The nodes that were captured."""
        return sorted({row["node"] for row in self.interfaces}, key=natural_order)
