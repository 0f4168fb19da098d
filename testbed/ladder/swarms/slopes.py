"""Growth of costs along an axis: the log-log slopes of formulas and of measurements."""

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from analysis.metrics import study
from testbed.ladder.swarms.costs import FORMULAS, Function, Key, Load, What, Who
from testbed.ladder.swarms.period import Period, play_period
from testbed.ladder.swarms.rungs import RUNGS

BASE: Final = Load(polls=16, feeds=8, peers=40, connections=5, history=3, news=1, edges=0)
"""Base values of all axes. The edges follow from chance."""


class Axis(NamedTuple):
    """A varied parameter.

    Attributes:
        title: meaning of a value.
        values: of the member of Load.
    """

    title: str
    values: Sequence[int]


AXES: Final[Mapping[str, Axis]] = {
    "polls": Axis("polls in the period", (8, 16, 32, 64)),
    "feeds": Axis("feeds", (4, 8, 16, 32)),
    "peers": Axis("peers", (20, 40, 80, 160)),
    "connections": Axis("connections that a peer opens", (2, 5, 10, 20)),
}

Task = tuple[str, Load, int]
"""A rung, its load without edges, and a seed."""


class Estimate(NamedTuple):
    """A mean over seeds, and half its 95 % confidence interval (Student's t)."""

    mean: float
    error: float


class Point(NamedTuple):
    """A cost at a value of an axis.

    Attributes:
        axis, value, rung, who, cost: its key.
        mean, error: as measured, see Estimate.
        paper, ours: by the formulas, with the actual edges.
        missing: maximum share of messages that subscribers lacked at the end of a period.
    """

    axis: str
    value: int
    rung: str
    who: Who
    cost: What
    mean: float
    error: float
    paper: float | None
    ours: float | None
    missing: float


class Slope(NamedTuple):
    """Growth of a cost along an axis: in proportion to its value to the power of the slope.

    Attributes:
        axis, rung, who, cost: its key.
        paper, ours: by least squares through the formula's values at the same points.
        mean, error: the same through the measurements, for each seed; see Estimate.
        factor: measurements over the best formula, geometric mean of the axis.
        paper_formula, our_formula: in words.
    """

    axis: str
    rung: str
    who: Who
    cost: What
    paper: float | None
    ours: float | None
    mean: float | None
    error: float | None
    factor: float | None
    paper_formula: str
    our_formula: str


def tasks(axes: Sequence[str], seeds: Sequence[int]) -> list[Task]:
    """Return the distinct periods to play, though the base is on every axis."""
    loads = dict.fromkeys(load for axis in axes for load in _loads(axis))
    return [(rung, load, seed) for seed in seeds for load in loads for rung in RUNGS]


def play(task: Task) -> Period:
    """Play a period."""
    return play_period(*task)


def along(
    axes: Sequence[str], seeds: Sequence[int], periods: Mapping[Task, Period]
) -> tuple[list[Point], list[Slope]]:
    """Return all costs at all values of the axes, and their slopes."""
    points, slopes = [], []
    for axis in axes:
        for key in FORMULAS:
            played = [[periods[key[0], load, seed] for seed in seeds] for load in _loads(axis)]
            values = AXES[axis].values
            points += [_point(axis, value, key, there) for value, there in zip(values, played, strict=True)]
            slopes.append(_slope(axis, key, values, played))
    return points, slopes


def estimate(values: Sequence[float]) -> Estimate:
    """Return the mean of at least two values, and its error."""
    found = study.estimate(values)
    assert found.high is not None
    return Estimate(found.mean, max(found.high - found.mean, 0.0))


def fit(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Return the least-squares slope of log y over log x; None if a cost is 0."""
    if min(y) <= 0:
        return None
    slope = float(np.polyfit(np.log(x), np.log(y), 1)[0])
    return 0.0 if abs(slope) < 1e-9 else slope


def _loads(axis: str) -> list[Load]:
    return [BASE._replace(**{axis: value}) for value in AXES[axis].values]


def _formula_mean(function: Function, periods: Sequence[Period]) -> float:
    """Return a formula's value, as the mean over the actual networks."""
    return float(np.mean([function.of(period.load) for period in periods]))


def _point(axis: str, value: int, key: Key, periods: Sequence[Period]) -> Point:
    paper, ours = (function and _formula_mean(function, periods) for function in FORMULAS[key])
    found = estimate([period.spent[key[1], key[2]] for period in periods])
    return Point(axis, value, *key, *found, paper, ours, max(period.missing for period in periods))


def _slope(axis: str, key: Key, values: Sequence[int], played: Sequence[Sequence[Period]]) -> Slope:
    formula = FORMULAS[key]
    paper, ours = (
        fit(values, [_formula_mean(each, periods) for periods in played]) if each else None
        for each in formula
    )
    measured = [[period.spent[key[1], key[2]] for period in periods] for periods in played]
    slopes = [fit(values, seed) for seed in zip(*measured, strict=True)]
    known = [slope for slope in slopes if slope is not None]
    mean = error = factor = None
    if len(known) == len(slopes):
        mean, error = estimate(known)
        best = [_formula_mean(formula.best, periods) for periods in played]
        factor = math.exp(float(np.mean(np.log(np.mean(measured, axis=1)) - np.log(best))))
    return Slope(
        axis, *key, paper, ours, mean, error, factor, *(each.words if each else "" for each in formula)
    )
