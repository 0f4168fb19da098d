"""Claims about layerings, each with a test, whichever way the numbers fall.

On a metric the best is compared with the next best and with the baseline, the first layering. A difference
counts from the share that matters on. Over seeds, "better" takes an interval of differences by seed that
excludes 0, or a significant sign test over the seeds; "equal" takes an interval that lies within the share
that matters; the rest is uncertain. Layerings that fell behind, were cut off or lack items are
compared by deliveries only: what is missing makes nothing faster, and less work costs less.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from math import comb, inf
from statistics import fmean
from typing import NamedTuple

from analysis.files import Rows
from analysis.metrics.catalogue import BY_KEY, DELIVERY, METRICS, UNFINISHED, Metric, matters, why_unranked
from analysis.metrics.study import CONFIDENCE, Sample, Study, estimate
from analysis.metrics.study import Point as StudyPoint
from analysis.run.manifest import Question

ALIKE = 0.01
"""Relative difference below which layerings of one protocol do the same, and marks of the best are shared."""


USUAL = Question(text="", metrics=["latency_p50", "bytes_per_item", "state_bytes_mean"])
"""What is asked where a scenario asks nothing."""

COSTS = (
    "delivered_share",
    "latency_p50",
    "latency_p95",
    "bytes_per_item",
    "state_bytes_mean",
    "interests_network",
    "cpu_per_item",
)
"""The axes on which an answer has its price."""

FRONTS = (("latency_p50", "bytes_per_item"), ("latency_p50", "state_bytes_mean"))
"""Pairs of axes of trade-offs."""


class Verdict(StrEnum):
    """What a comparison says."""

    BETTER = "better"
    EQUAL = "equal"
    UNKNOWN = "uncertain"


class Claim(NamedTuple):
    """Layering `best` against `other` on a metric: their means, how much worse the other is as a share of
    the best's value (inf of 0), that difference's interval over `n` seeds, the number of these in which the
    other is worse by more than matters, and the verdict.
    """

    best: str
    other: str
    value: float
    base: float
    worse: float
    low: float
    high: float
    n: int
    agree: int
    verdict: Verdict

    @property
    def is_by_sign_test(self) -> bool:
        """Whether the sign test decides; a few large differences make the interval wide."""
        return self.verdict is Verdict.BETTER and self.n > 1 and self.low <= 0


class Ranking(NamedTuple):
    """The layerings on a metric: names of layerings that do the same stand for all of them.

    `values`: means of the comparable ones, the best first. `leaders`: the best and those equal to it.
    `unclear`: those that may be as good. `next`: the best against the first of the others, if there is one.
    `baseline`: against the first layering, if it is not among the leaders. `left`: those that are not
    compared, and why.
    """

    metric: Metric
    better: str
    values: dict[str, float]
    leaders: list[str]
    unclear: list[str]
    next: Claim | None
    baseline: Claim | None
    left: dict[str, str]

    @property
    def is_decided(self) -> bool:
        """Whether some are better than others."""
        return bool(self.leaders) and self.next is not None and not self.unclear


class Samples:
    """The values of all layerings at one point: of a run, or of runs that differ only in their seeds.

    Args:
        layerings: the compared ones, the baseline first.
        by_run: {(metric's key, layering): {run: value}}; unknown values are absent.
        asked: the question.
        place: the number of the point in a study; empty of a run.
    """

    def __init__(
        self,
        layerings: Sequence[str],
        by_run: Mapping[tuple[str, str], Mapping[Sample, float]],
        asked: Question | None = None,
        place: Sequence[int] = (),
    ) -> None:
        self.layerings, self.by_run, self.asked = list(layerings), by_run, asked or USUAL
        self.place = tuple(place)

    @classmethod
    def of_run(cls, comparison: Rows, layerings: Sequence[str], asked: Question | None = None) -> "Samples":
        """Return the samples of one run: rows of analysis.metrics.comparison.compare."""
        known = [row for row in comparison if row["value"] is not None]
        return cls(
            layerings, {(row["metric"], row["layering"]): {(0, 0): row["value"]} for row in known}, asked
        )

    @classmethod
    def by_point(cls, study: Study) -> "dict[StudyPoint, Samples]":
        """Return the samples of a study at each of its points."""
        found: dict[StudyPoint, dict[tuple[str, str], Mapping[Sample, float]]] = {
            point: {} for point in study.points
        }
        for (key, x, point), values in study.samples.items():
            found[point][key, x] = values
        return {
            point: cls(study.layerings, values, study.question, (place,))
            for place, (point, values) in enumerate(found.items())
        }

    def value(self, key: str, layering: str) -> float | None:
        """Return the mean of a metric; None if it is unknown."""
        values = self.by_run.get((key, layering))
        return fmean(values.values()) if values else None

    @cached_property
    def whys(self) -> dict[str, str]:
        """Why layerings are compared on deliveries alone, by layering."""
        whys = {x: why_unranked({key: self.value(key, x) for key in UNFINISHED}) for x in self.layerings}
        return {x: why for x, why in whys.items() if why}

    @cached_property
    def names(self) -> dict[str, list[str]]:
        """The layerings by a name for each group that does the same: variants of one protocol."""
        names: dict[str, list[str]] = {}
        for x in self.layerings:
            alike = (name for name in names if _family(name) == _family(x) and self._do_the_same(name, x))
            names.setdefault(next(alike, x), []).append(x)
        return names

    @cached_property
    def comparable(self) -> list[str]:
        """The names of the layerings that are compared on all metrics."""
        return [x for x in self.names if x not in self.whys]

    def _do_the_same(self, a: str, b: str) -> bool:
        for metric in METRICS:
            if metric.better or metric.key in self.asked.metrics:
                one, other = self.value(metric.key, a), self.value(metric.key, b)
                if one != other and (metric.group == DELIVERY or not alike(one, other)):
                    return False
        return True

    @cached_property
    def measures(self) -> list[Metric]:
        """The metrics that answer the question, as far as a layering has a value."""
        return [
            BY_KEY[key]
            for key in self.asked.metrics
            if key in BY_KEY and any((key, x) in self.by_run for x in self.layerings)
        ]

    @cached_property
    def baseline(self) -> str:
        """The name of the first layering."""
        return next(iter(self.names))

    @cached_property
    def rankings(self) -> list[Ranking]:
        """The layerings on each of the measures."""
        return [self.ranking(metric) for metric in self.measures]

    def ranking(self, metric: Metric) -> Ranking:
        """Return the layerings on a metric."""
        better = metric.better or self.asked.direction.get(metric.key, "lower")
        known = {x: value for x in self.names if (value := self.value(metric.key, x)) is not None}
        left = {x: why for x, why in self.whys.items() if x in known and metric.group != DELIVERY}
        order = sorted((x for x in known if x not in left), key=known.__getitem__, reverse=better == "higher")
        claims = {x: self.claim(metric, order[0], x, better) for x in order[1:]}
        verdicts = {x: claim.verdict for x, claim in claims.items()}
        return Ranking(
            metric,
            better,
            {x: known[x] for x in order},
            [x for x in order if verdicts.get(x, Verdict.EQUAL) is Verdict.EQUAL],
            [x for x in order if verdicts.get(x) is Verdict.UNKNOWN],
            next((claim for claim in claims.values() if claim.verdict is not Verdict.EQUAL), None),
            claims.get(self.baseline) if verdicts.get(self.baseline) is not Verdict.EQUAL else None,
            left,
        )

    def claim(self, metric: Metric, best: str, other: str, better: str) -> Claim:
        """Return the comparison of two layerings with values of a metric."""
        mine, its = self.by_run[metric.key, best], self.by_run[metric.key, other]
        value, base = fmean(mine.values()), fmean(its.values())
        sign = -1 if better == "higher" else 1
        shared = [run for run in mine if run in its]
        both = [sign * (its[run] - mine[run]) for run in shared]
        of = fmean(mine[run] for run in shared) if shared else value
        worse = _share(fmean(both) if both else sign * (base - value), of)
        low = high = worse
        if len(both) > 1:
            found = estimate(both)
            low, high = (_share(end, of) for end in (found.low or 0.0, found.high or 0.0))
        least = self.asked.difference.get(metric.key, matters(metric))
        agree = sum(difference > least * abs(of) for difference in both)
        if len(both) < 2 and max(len(mine), len(its)) > 1:
            verdict = Verdict.UNKNOWN  # too few runs with the same seeds
        elif max(abs(low), abs(high)) <= least:
            verdict = Verdict.EQUAL
        else:
            is_sure = low > 0 or is_significant(agree, len(both))
            verdict = Verdict.BETTER if is_sure and worse > least else Verdict.UNKNOWN
        return Claim(best, other, value, base, worse, low, high, len(both), agree, verdict)

    def front(self, keys: tuple[str, str]) -> list[str]:
        """Return the Pareto front of two metrics, of which lower values are better: the layerings that no
        other beats in one without being worse in the other, by the first metric.
        """
        points = {
            x: (a, b)
            for x in self.comparable
            for a, b in [(self.value(keys[0], x), self.value(keys[1], x))]
            if a is not None and b is not None
        }
        front = [
            x
            for x, (a, b) in points.items()
            if not any(c <= a and d <= b and (c < a or d < b) for c, d in points.values())
        ]
        return sorted(front, key=points.__getitem__)


def alike(one: float | None, other: float | None) -> bool:
    """Return whether two known values differ by at most ALIKE."""
    return one is not None and other is not None and abs(one - other) <= ALIKE * max(abs(one), abs(other))


def _family(layering: str) -> str:
    """Return the protocol of which a layering is a variant: that of lli-selective is lli."""
    return layering.partition("-")[0]


def is_significant(agree: int, n: int, confidence: float = CONFIDENCE) -> bool:
    """Return whether `agree` of `n` differences of one sign are significant, by the two-sided sign test."""
    return bool(2 * sum(comb(n, k) for k in range(n - agree + 1)) / 2**n <= 1 - confidence)


def _share(difference: float, of: float) -> float:
    if not difference:
        return 0.0
    return difference / abs(of) if of else inf if difference > 0 else -inf
