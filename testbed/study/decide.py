"""Decides claims: an interval over seeds that lies in the expected region, outside it, or across its end."""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from math import exp, log
from typing import NamedTuple

from analysis.metrics.catalogue import BY_KEY, DELIVERY, UNFINISHED, why_unranked
from analysis.metrics.claims import is_significant
from analysis.metrics.study import Estimate, estimate
from testbed.study.results import Results
from testbed.study.spec import ClaimSpec, Expectation, Side, StudySpec

BySeed = Mapping[int, float]


class Verdict(StrEnum):
    """What figures say of a claim."""

    HOLDS = "holds"
    IN_PART = "in part"
    FAILS = "fails"
    UNKNOWN = "cannot be told"
    OPEN = "open"


class Found(NamedTuple):
    """An expectation decided.

    Attributes:
        expected: the expectation.
        sides: means of both layerings, or of one.
        effect: the tested figure with its interval: of a sign test, the share of seeds.
        verdict: HOLDS, FAILS, UNKNOWN or OPEN.
        why: why it cannot be told, "" if the interval is across an end, or if it can.
    """

    expected: Expectation
    sides: list[Estimate]
    effect: Estimate | None
    verdict: Verdict
    why: str = ""


class Decided(NamedTuple):
    """A claim decided, with its expectations."""

    key: str
    claim: ClaimSpec
    verdict: Verdict
    found: list[Found]


def decide(study: StudySpec, results: Results, key: str) -> Decided:
    """Return a claim of a study, decided by its results."""
    claim = study.claims[key]
    found = [_found(study, results, each) for each in claim.expects]
    return Decided(key, claim, _together([each.verdict for each in found]), found)


def _together(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the verdict of a claim: of what holds and what fails, in part; else unknown, if one is."""
    those = set(verdicts)
    if {Verdict.HOLDS, Verdict.FAILS} <= those:
        return Verdict.IN_PART
    if Verdict.UNKNOWN in those:
        return Verdict.UNKNOWN
    (verdict,) = those
    return verdict


def _found(study: StudySpec, results: Results, expected: Expectation) -> Found:
    of = study.sides(expected)
    values = [results.by_seed(*side, expected.metric) for side in of]
    if not all(values):
        return Found(expected, [], None, Verdict.UNKNOWN, "no run has this figure")
    confidence = study.confidence
    sides = [estimate([*known.values()], confidence) for known in values]
    effect, why = _effect(expected, values, confidence)
    why = why or _unfair(results, expected, of)
    if effect is None or why:
        return Found(expected, sides, effect, Verdict.UNKNOWN, why)
    return Found(expected, sides, effect, _verdict(expected, effect, confidence))


def _unfair(results: Results, expected: Expectation, sides: Sequence[Side]) -> str:
    """Return why the sides of an expectation cannot be compared, "" if they can."""
    metric = BY_KEY.get(expected.metric)
    if expected.despite or metric is None or metric.group == DELIVERY:
        return ""
    return incomplete(results, sides)


def incomplete(results: Results, sides: Iterable[Side]) -> str:
    """Return which runs lack items, so that only their deliveries can be compared; "" if none does."""
    said = []
    for runs, layering, setting in sides:
        known = {
            key: estimate([*values.values()]).mean
            for key in UNFINISHED
            if (values := results.by_seed(runs, layering, setting, key))
        }
        if why := why_unranked(known):
            said.append(f"`{layering}` {why}")
    return "; ".join(dict.fromkeys(said))


def _effect(
    expected: Expectation, values: Sequence[BySeed], confidence: float
) -> tuple[Estimate | None, str]:
    """Return the tested figure, and why there is none."""
    mine = values[0]
    if len(values) == 1:
        figures = [*mine.values()]
    else:
        shared = [seed for seed in mine if seed in values[1]]
        pairs = [(mine[seed], values[1][seed]) for seed in shared]
        if expected.test == "difference":
            figures = [a - b for a, b in pairs]
        elif any(a <= 0 or b <= 0 for a, b in pairs):
            return None, "a value is 0, and has no ratio"
        else:
            figures = [a / b for a, b in pairs]
    if len(figures) < 2:
        return None, "fewer than two seeds"
    if expected.test == "sign":
        return _share(sum(_is_in(expected, each) for each in figures), len(figures), confidence), ""
    if expected.test != "ratio":
        return estimate(figures, confidence), ""
    of_logs = estimate([log(each) for each in figures], confidence)
    assert of_logs.low is not None
    assert of_logs.high is not None
    return Estimate(exp(of_logs.mean), exp(of_logs.low), exp(of_logs.high), of_logs.n), ""


def _share(agree: int, n: int, confidence: float) -> Estimate:
    from scipy.stats import binomtest  # slow to import

    interval = binomtest(agree, n).proportion_ci(confidence)
    return Estimate(agree / n, float(interval.low), float(interval.high), n)


def _is_in(expected: Expectation, value: float) -> bool:
    above, below = expected.above, expected.below
    return (above is None or value > above) and (below is None or value < below)


def _verdict(expected: Expectation, effect: Estimate, confidence: float) -> Verdict:
    if not expected.has_region:
        return Verdict.OPEN
    if expected.test == "sign":
        agree = round(effect.mean * effect.n)
        if is_significant(agree, effect.n, confidence):
            return Verdict.HOLDS
        return Verdict.FAILS if is_significant(effect.n - agree, effect.n, confidence) else Verdict.UNKNOWN
    low, high = effect.low, effect.high
    assert low is not None
    assert high is not None
    if _is_in(expected, low) and _is_in(expected, high):
        return Verdict.HOLDS
    is_beneath = expected.above is not None and high <= expected.above
    is_beyond = expected.below is not None and low >= expected.below
    return Verdict.FAILS if is_beneath or is_beyond else Verdict.UNKNOWN
