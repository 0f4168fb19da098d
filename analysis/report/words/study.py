"""A study in words: formatted figures, and findings about the first layering by metric and point, with
statistical significance.
"""

from collections.abc import Iterator
from statistics import fmean

from analysis.metrics.catalogue import METRICS, WHOLE, Metric
from analysis.metrics.study import Estimate, Point, Study, studied, unranked
from analysis.report.words.findings import Finding
from analysis.report.words.numbers import NARROW_SPACE, compared, pretty, with_unit
from analysis.report.words.ranks import alike
from analysis.run.keys import NET

MOST = 7
"""Maximum number of findings of a page."""

_ADVANTAGES = {
    "latency_p50": "the lowest median latency",
    "latency_p99": "the lowest 99th percentile of latency",
    "bytes_per_item": "the fewest bytes on the wire",
    "interests_network": "the fewest Interests",
    "pit_bytes_mean": "the fewest PIT bytes",
    "state_bytes_mean": "the fewest bytes of state",
    "recovery_max": "the shortest recovery",
    "first_item_p50": "the shortest wait for a first item",
    "fairness": "the highest fairness",
}
"""Metrics of findings, the most informative first, and the advantage of the first layering."""

NO_BREAK_SPACE = "\N{NO-BREAK SPACE}"

_NAMED = 3
"""Maximum number of layerings, or settings, listed by name."""

_LATENCY = "latency_p50"
_METRICS = {metric.key: metric for metric in METRICS}


def estimate_text(value: Estimate | None) -> str:
    """Format an estimate: "33.9 ± 1.2", without an interval "33.9"."""
    if value is None:
        return pretty(None)
    if value.half is None:
        return pretty(value.mean)
    return f"{pretty(value.mean)}{NO_BREAK_SPACE}±{NO_BREAK_SPACE}{_two(value.half)}"


def _two(half: float) -> str:
    return f"{half:.2g}" if 0 < half < 99.5 else pretty(round(half))


def point_words(study: Study, point: Point) -> str:
    """Format a point: "5 %", "asf", "5 %, Mininet, relay"."""
    x = with_unit(point.x, study.words.unit) if not isinstance(point.x, str) else point.x
    return ", ".join(filter(None, (x, point.group)))


def findings(study: Study) -> list[Finding]:
    """Return at most MOST findings, whichever way the figures fall."""
    keys = {metric.key for metric in studied(study, METRICS)}
    metrics = [_METRICS[key] for key in _ADVANTAGES if key in keys]
    firsts = [finding for metric in metrics if (finding := _first(study, metric)) is not None]
    every = [*_delivery(study), *_networks(study), *firsts[:2], *_growth(study), *firsts[2:]]
    return every[:MOST]


def caveats(study: Study) -> Iterator[str]:
    """Yield the caveats of the figures."""
    where: dict[tuple[str, str], list[Point]] = {}
    for x in study.layerings:
        for point in study.points:
            if why := unranked(study, x, point):
                where.setdefault((x, why), []).append(point)
    if where:
        said = [f"{x}{_at_points(study, points)} ({why})" for (x, why), points in where.items()]
        more = f", and {len(said) - MOST} more" if len(said) > MOST else ""
        yield (
            "Latencies are those of items that arrived. Those with a star are not ranked: "
            f"{', '.join(said[:MOST])}{more}."
        )
    seeds: dict[Point, set[int]] = {point: set() for point in study.points}
    for (_, _, point), samples in study.samples.items():
        seeds[point] |= {seed for seed, _ in samples}
    if any(own != seeds[study.points[0]] for own in seeds.values()):
        yield "Not all settings ran with the same seeds: their workloads differ, too."
    if all(value.n == 1 for value in study.values.values()):
        yield "There is one run of each, so nothing is known of chance."


def _delivery(study: Study) -> Iterator[Finding]:
    shares = {
        (x, point): value for (metric, x, point), value in study.values.items() if metric == "delivered_share"
    }
    if not shares:
        return
    worst: dict[str, tuple[float, Point]] = {}
    for (layering, point), share in shares.items():
        if share.mean < WHOLE:
            worst[layering] = min(worst.get(layering, (share.mean, point)), (share.mean, point), key=_mean)
    if not worst:
        yield Finding(
            "Everything arrived.",
            f"Each layering delivered at least {WHOLE:g} % of what was expected"
            + (f", whatever the {study.words.what}." if study.key else "."),
        )
        return
    order = sorted(worst, key=lambda x: worst[x][0])
    said = [
        f"{x} {estimate_text(shares[x, worst[x][1]])} %{_at_points(study, [worst[x][1]])}"
        for x in order[:_NAMED]
    ]
    more = f", and {len(order) - _NAMED} more less by little" if len(order) > _NAMED else ""
    whole = [x for x in study.layerings if x not in worst]
    lead = f"Only {_and(whole)} delivered everything." if len(whole) <= _NAMED and whole else ""
    yield Finding(
        lead or f"{len(worst)} of {len(study.layerings)} layerings did not deliver everything.",
        f"At their worst: {_and(said)}{more}." if not more else f"Worst: {', '.join(said)}.",
    )


def _mean(worst: tuple[float, Point]) -> float:
    return worst[0]


def _networks(study: Study) -> Iterator[Finding]:
    """Return the difference of networks with equal seeds, if they are the study's subject."""
    if study.key != NET or len(study.xs) != 2 or len(study.groups) > 1:
        return
    one, other = study.points
    for key in (_LATENCY, "bytes_per_item"):
        metric = _METRICS[key]
        said = []
        for layering in study.layerings:
            a, b = (study.samples.get((key, layering, point), {}) for point in (one, other))
            both = {seed for seed, _ in a} & {seed for seed, _ in b}
            if both:
                was, became = (fmean(v for (seed, _), v in x.items() if seed in both) for x in (a, b))
                how = "about the same" if alike(became, was) else compared(became, was, "less", "more")
                figures = f"{with_unit(became, metric.unit)}, not {with_unit(was, metric.unit)}"
                said.append(f"{layering} {how} ({figures})")
        if said:
            yield Finding(f"{_upper(metric.axis)}, {other.x} against {one.x}:", f"{'; '.join(said)}.")


def _first(study: Study, metric: Metric) -> Finding | None:
    """Return the first layering on a metric, and where."""
    first = {point: leaders for point in study.points if (leaders := _leaders(study, metric, point))}
    if not first:
        return None
    # The layering that is first at most points, with others first exactly there.
    places = {x: [point for point, leaders in first.items() if x in leaders] for x in study.layerings}
    best = max(places, key=lambda x: len(places[x]))
    at = places[best]
    together = [x for x in study.layerings if places[x] == at]
    where = " throughout" if len(at) == len(study.points) > 1 else _at_points(study, at)
    lead = f"{_and(together)} {'has' if len(together) == 1 else 'have'}"
    if len(together) > _NAMED:
        lead = f"{len(together)} of {len(study.layerings)} layerings share"
    lead = f"{lead} {_ADVANTAGES[metric.key]}{where}."
    return Finding(
        lead, _leader_values(study, metric, at[-1], together) + _other_leaders(study, first, together)
    )


def _ranked(study: Study, metric: Metric, point: Point) -> dict[str, Estimate]:
    """Return the values of the layerings ranked at a point, the best first."""
    values = {
        x: value
        for x in study.layerings
        if (value := study.values.get((metric.key, x, point))) is not None and not unranked(study, x, point)
    }
    order = sorted(values, key=lambda x: values[x].mean, reverse=metric.better == "higher")
    return {x: values[x] for x in order}


def _leaders(study: Study, metric: Metric, point: Point) -> list[str]:
    """Return the layerings that share the best value at a point; none if all do."""
    values = _ranked(study, metric, point)
    best = next(iter(values), "")
    leaders = [x for x in values if x == best or alike(values[x].mean, values[best].mean)]
    return leaders if len(leaders) < len(values) else []


def _leader_values(study: Study, metric: Metric, point: Point, leaders: list[str]) -> str:
    """Format the values of the first layerings at a point, and of the next."""
    values = _ranked(study, metric, point)
    every = _leaders(study, metric, point)
    said = f"{estimate_text(values[leaders[0]])}{NARROW_SPACE}{metric.unit} under {leaders[0]}"
    said += f", and alike under {_and(leaders[1:])}" if leaders[1:] else ""
    text = f"{_upper(_at_points(study, [point]).strip())}: {said}" if study.key else said
    following = next(x for x in values if x not in every)
    text += f", then {estimate_text(values[following])} under {following}"
    difference = study.difference(metric.key, following, leaders[0], point)
    if difference is None or difference.low is None or difference.high is None:
        return f"{text}."
    size = difference if difference.mean >= 0 else difference.opposite
    chance = "may be" if difference.low <= 0 <= difference.high else "is more than"
    return f"{text}; run by run {estimate_text(size)} apart, which {chance} chance."


def _other_leaders(study: Study, first: dict[Point, list[str]], named: list[str]) -> str:
    """Return the first layerings elsewhere, and where."""
    said: dict[tuple[str, str], list[Point]] = {}
    for point, leaders in first.items():
        others = [x for x in leaders if x not in named]
        is_shared = len(others) < len(leaders)
        if others:
            whom = _and(others) if len(others) <= _NAMED else f"{len(others)} others"
            how = ("Shared", f" with {whom}") if is_shared else ("First", f": {whom}")
            said.setdefault(how, []).append(point)
    return "".join(f" {how}{_at_points(study, points)}{whom}." for (how, whom), points in said.items())


def _growth(study: Study) -> Iterator[Finding]:
    """Return the effect of a numeric subject on median latency."""
    if not study.is_numeric or len(study.xs) < 2 or len(study.groups) > 1:
        return
    low, high = study.points[0], study.points[-1]
    ratios = {}
    for x in study.layerings:
        a, b = (study.values.get((_LATENCY, x, point)) for point in (low, high))
        short = unranked(study, x, low) or unranked(study, x, high)
        if a and b and a.mean > 0 and b.mean > 0 and not short:
            ratios[x] = b.mean / a.mean
    if study.key.startswith("parameters."):
        ratios = {x: ratio for x, ratio in ratios.items() if study.key.split(".")[1] == x}
    order = sorted(ratios, key=lambda x: max(ratios[x], 1 / ratios[x]))
    if not order:
        return
    least, most = order[0], order[-1]
    text = (
        f"From {point_words(study, low)} to {point_words(study, high)}, the median latency of {least} "
        f"becomes {ratios[least]:.2g} times what it was"
    )
    if not alike(ratios[least], ratios[most]):
        greatest = f"{text}, that of {most} {ratios[most]:.2g} times."
        yield Finding(f"{least} depends least on the {study.words.what}.", greatest)
    elif study.key.startswith("parameters."):
        yield Finding(f"What the {study.words.what} does:", f"{text}.")


def _at_points(study: Study, points: list[Point]) -> str:
    """Format points: " at 1, 2 and 5 %", " with asf"."""
    if not study.key:
        return ""
    if not study.is_numeric or len(study.groups) > 1:
        if len(points) > _NAMED:
            return f" with {len(points)} of {len(study.points)} settings"
        said = [point_words(study, point) for point in points]
        return f" with {_and(said) if len(study.groups) == 1 else '; '.join(said)}"
    numbers = _and([pretty(float(point.x)) for point in points])
    if study.words.unit:
        return f" at {numbers}{NARROW_SPACE}{study.words.unit}"
    return f" at {study.words.what} {numbers}"


def _and(names: list[str]) -> str:
    return ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else "".join(names)


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]
