"""Reads the findings of a study's page, and computes every figure in them again from the runs' values.

    PYTHONPATH=tests:tests/analysis:. python tests/analysis/study_checker.py DIRECTORY-OF-A-SWEEP...

It has statistics of its own. As in page_checker, a figure says in `data-of` what it is; digits outside of
figures, and outside of names, are ones that nobody can check.
"""

import sys
from collections.abc import Iterator
from math import comb, inf, isclose, sqrt
from pathlib import Path
from statistics import fmean, stdev

from page_checker import HIGHER, Reader, Told, differing, shown_number, unchecked
from scipy.stats import t

from analysis.metrics.study import Study, study
from analysis.pipelines.compare import read_sweep

DELIVERIES = {"delivered_share", "delivered", "twice", "out_of_order", "errors", "beyond_fork", "forked"}
"""Metrics of which each difference matters, as written down by hand."""
USUAL = 0.05
"""The share that matters of others."""


class Values:
    """A study's values by metric, layering and point."""

    def __init__(self, of: Study) -> None:
        self.study = of
        self.asked = (
            of.question.metrics if of.question else ["latency_p50", "bytes_per_item", "state_bytes_mean"]
        )

    def samples(self, key: str, layering: str, place: int) -> dict[tuple[int, int], float]:
        """Return the values of runs at a point."""
        return self.study.samples.get((key, layering, self.study.points[place]), {})

    def mean(self, key: str, layering: str, place: int) -> float | None:
        """Return the mean of the runs at a point."""
        values = self.samples(key, layering, place).values()
        return fmean(values) if values else None

    def is_higher_better(self, key: str) -> bool:
        """Return the direction of a metric: by hand, or as the scenario asks."""
        asked = self.study.question
        return key in HIGHER or (asked is not None and asked.direction.get(key) == "higher")

    def least(self, key: str) -> float:
        """Return the share of a difference that matters."""
        if self.study.question and key in self.study.question.difference:
            return self.study.question.difference[key]
        return 0.005 if key == "delivered_share" else 0.0 if key in DELIVERIES else USUAL

    def differences(self, key: str, best: str, other: str, place: int) -> list[float]:
        """Return how much worse the other is in each common run, as shares of the best's mean in these."""
        mine, its = self.samples(key, best, place), self.samples(key, other, place)
        runs = [run for run in mine if run in its]
        of = abs(fmean(mine[run] for run in runs))
        sign = -1 if self.is_higher_better(key) else 1
        gaps = [round(sign * (its[run] - mine[run]), 9) for run in runs]
        return [gap / of if of else 0.0 if not gap else inf for gap in gaps]

    def effect(self, what: str, *of: str) -> float:
        """Return a figure of a comparison."""
        key, best, other, place = of
        gaps = self.differences(key, best, other, int(place))
        if what == "n":
            return len(gaps)
        if what == "agree":
            return sum(gap > self.least(key) for gap in gaps)
        half = half_width(gaps)
        return fmean(gaps) + {"effect": 0, "effect-low": -half, "effect-high": half}[what]

    def is_incomplete(self, layering: str, place: int) -> bool:
        """Return whether a layering fell behind, was cut off or lacks items at a point."""
        share = self.mean("delivered_share", layering, place)
        late = any(self.mean(key, layering, place) for key in ("fell_behind", "cut_off"))
        return late or (share is not None and share < 99.5)

    def leaders(self, key: str, place: int) -> set[str] | None:
        """Return the best at a point and those equal to it; None if others may be as good."""
        means = {
            x: mean
            for x in self.study.layerings
            if (mean := self.mean(key, x, place)) is not None
            and (key in DELIVERIES or not self.is_incomplete(x, place))
        }
        if not means:
            return None
        best = sorted(means, key=means.__getitem__, reverse=self.is_higher_better(key))[0]
        found = {best}
        for other in means:
            verdict = self._verdict(key, best, other, place) if other != best else "equal"
            if verdict == "uncertain":
                return None
            found |= {other} if verdict == "equal" else set()
        return found

    def _verdict(self, key: str, best: str, other: str, place: int) -> str:
        gaps, least = self.differences(key, best, other, place), self.least(key)
        half, middle = half_width(gaps), fmean(gaps)
        if max(abs(middle - half), abs(middle + half)) <= least:
            return "equal"
        agree, n = sum(gap > least for gap in gaps), len(gaps)
        chance = 2 * sum(comb(n, k) for k in range(agree, n + 1)) / 2**n
        return "better" if middle > least and (middle - half > 0 or chance <= 0.05) else "uncertain"

    def best_at(self, layering: str) -> int:
        """Return at how many points a layering is among the leaders of all measures."""
        asked = [key for key in self.asked if any(known[0] == key for known in self.study.samples)]
        found = 0
        for place in range(len(self.study.points)):
            leaders = [self.leaders(key, place) for key in asked]
            found += all(each is not None and layering in each for each in leaders)
        return found

    def lacking(self) -> int:
        """Return how many layerings lack items at a point."""
        places = range(len(self.study.points))
        return sum(
            any((self.mean("delivered_share", x, place) or 100) < 99.5 for place in places)
            for x in self.study.layerings
        )

    def shared(self, key: str, layering: str, place: int) -> float:
        """Return the mean at one of two points over the seeds of both."""
        both = [{seed for seed, _ in self.samples(key, layering, each)} for each in (0, 1)]
        values = self.samples(key, layering, place).items()
        return fmean(value for (seed, _), value in values if seed in both[0] & both[1])

    def wanted(self, of: list[str]) -> float | None:
        """Compute a figure anew; None if it cannot be."""
        kind, *rest = of
        last = len(self.study.points) - 1
        if kind in ("value", "half"):
            key, x, place = rest
            return (
                self.mean(key, x, int(place))
                if kind == "value"
                else half_width(list(self.samples(key, x, int(place)).values()))
            )
        if kind in ("effect", "effect-low", "effect-high", "n", "agree"):
            return self.effect(kind, *rest)
        if kind == "shared":
            return self.shared(rest[0], rest[1], int(rest[2]))
        if kind == "change":
            return self.shared(rest[0], rest[1], 1) / self.shared(rest[0], rest[1], 0) - 1
        if kind == "growth":
            return (self.mean(*rest, last) or 0) / (self.mean(*rest, 0) or inf)
        if kind == "best-at":
            return self.best_at(rest[0])
        counts = {
            "points": len(self.study.points),
            "measures": len(
                [key for key in self.asked if any(known[0] == key for known in self.study.samples)]
            ),
            "layerings": len(self.study.layerings),
            "lacking": self.lacking(),
            "lacking-more": self.lacking() - 3,
            "whole": 99.5,
        }
        return counts.get(kind)


def half_width(values: list[float]) -> float:
    """Return half the width of Student's interval for a mean, at 95 %; 0 of a single value."""
    if len(values) < 2:
        return 0.0
    return float(t.ppf(0.975, len(values) - 1)) * stdev(values) / sqrt(len(values))


def problems(of: Study, page: str) -> Iterator[str]:
    """Yield what is wrong with the figures of a study's findings."""
    reader, values = Reader(), Values(of)
    reader.feed(page)
    yield from unchecked(reader)
    for told in reader.figures:
        if told.of[0] != "some" or told.value not in range(2, len(of.points)):
            yield from differing(told, values.wanted(told.of), _is_rounded)


def _is_rounded(told: Told, wanted: float) -> bool:
    if told.text in ("about the same", "the same"):
        return abs(wanted) <= 0.01
    number = shown_number(told.text)
    if told.of[0] == "change":
        wanted = max(1 + wanted, 1 / (1 + wanted)) if "times" in told.text else 100 * abs(wanted)
    elif told.of[0].startswith("effect"):
        wanted = 1 + wanted if "times" in told.text else 100 * abs(wanted)
    return isclose(number, wanted, rel_tol=0.06 if told.of[0] != "value" else 0.006, abs_tol=1e-9)


if __name__ == "__main__":
    found = []
    for each in sys.argv[1:]:
        scenario, title, origin, records = read_sweep(Path(each))
        page = (Path(each) / "report.html").read_text(encoding="utf-8")
        found += [f"{each}: {line}" for line in problems(study(scenario, title, records, [origin]), page)]
    print("\n".join(found) or "all figures are right")
    sys.exit(bool(found))
