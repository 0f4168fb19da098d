"""Ranks of layerings on each axis of the comparison."""

from typing import NamedTuple

from analysis.files import Rows
from analysis.metrics.catalogue import METRICS, Metric, is_time, shown, why_unranked

ALIKE = 1.01
"""Values within this factor of the best share its rank: a smaller difference is chance."""


class AxisRank(NamedTuple):
    """A layering on an axis: its value, its rank from 1, and `shade`, from 1 (first) to 0 (last).

    `why`: the reason for a value without a rank.
    """

    layering: str
    value: float | None
    rank: int | None
    shade: float
    why: str = ""


class Axis(NamedTuple):
    """A ranked metric; `decides`: layerings differ on it."""

    metric: Metric
    standings: list[AxisRank]
    decides: bool


def rank(comparison: Rows, layerings: list[str]) -> list[Axis]:
    """Rank layerings on every axis with values.

    Similar values (ALIKE) share the better rank; the next one's rank counts all before it. Layerings that did
    not finish have no ranks among times: see analysis.metrics.catalogue.why_unranked.
    """
    values = {(row["metric"], row["layering"]): row["value"] for row in comparison}
    keys = {metric for metric, _ in values}
    whys = {x: why_unranked({key: values[key, x] for key in keys}) for x in layerings}
    axes = []
    there = {place for place, value in values.items() if value is not None}
    for metric in shown(METRICS, there, layerings):
        known = {x: values[metric.key, x] for x in layerings if values[metric.key, x] is not None}
        if metric.axis and known:
            said = whys if is_time(metric) else {}
            fair = {x: value for x, value in known.items() if not said.get(x)}
            ranks = _ranks(fair, is_lower_better=metric.better == "lower")
            last = max(ranks.values(), default=1)
            standings = [
                AxisRank(
                    x,
                    known.get(x),
                    ranks.get(x),
                    (last - ranks[x]) / (last - 1 or 1) if x in ranks else 0,
                    said.get(x, "") if x in known else "",
                )
                for x in layerings
            ]
            axes.append(Axis(metric, standings, last > 1))
    return axes


def alike(a: float | None, b: float | None) -> bool:
    """Return whether two values are known and within ALIKE of each other."""
    return a is not None and b is not None and max(a, b) <= ALIKE * min(a, b)


def _ranks(values: dict[str, float], is_lower_better: bool) -> dict[str, int]:
    ranks: dict[str, int] = {}
    best = 0.0
    current = 0
    for place, layering in enumerate(sorted(values, key=values.__getitem__, reverse=not is_lower_better)):
        value = values[layering]
        if not place or not alike(value, best):
            best, current = value, place + 1
        ranks[layering] = current
    return ranks
