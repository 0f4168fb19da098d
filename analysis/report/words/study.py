"""A study in words: formatted figures, and the answer to its question, point by point."""

from collections import Counter
from collections.abc import Iterator
from statistics import fmean

from markupsafe import Markup, escape

from analysis.metrics.catalogue import BY_KEY, WHOLE
from analysis.metrics.claims import ALIKE, Samples, alike
from analysis.metrics.study import Estimate, Point, Study, unranked
from analysis.report.words.findings import Finding, best_in_all, measure
from analysis.report.words.findings import headline as of_run
from analysis.report.words.numbers import NARROW_SPACE, compared, pretty, with_unit
from analysis.report.words.sentences import figure, joined, name, say
from analysis.run.keys import NET

MOST = 7
"""Maximum number of findings of a page."""

NO_BREAK_SPACE = "\N{NO-BREAK SPACE}"

_NAMED = 3
"""Maximum number of layerings, or settings, listed by name."""

_LATENCY = "latency_p50"


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
    return [*_delivery(study), *_networks(study), *_measures(study), *_growth(study)][:MOST]


def headline(study: Study) -> Markup:
    """Return at how many points each layering is best, or equal to the best, in all measures of the question;
    "" if none is anywhere.
    """
    best: Counter[str] = Counter()
    measures = 0
    for point in study.points:
        samples = Samples.of_study(study, point)
        rankings = samples.rankings
        measures = max(measures, len(rankings))
        winners = best_in_all(rankings)
        if len(study.points) == 1 and rankings:
            return of_run(samples, rankings, winners)
        if all(ranking.values for ranking in rankings):
            best.update(x for winner in winners for x in samples.names[winner])
    n = len(study.points)
    count = figure(measures, str(measures), "measures")
    parts = [
        say(
            "answer.settings.part",
            who=name(x),
            k=figure(k, str(k), "best-at", x),
            n=figure(n, str(n), "points"),
        )
        for x, k in best.most_common(_NAMED)
    ]
    if not parts or len(study.layerings) < 2:
        return Markup()
    if measures == 1:
        return say("answer.settings.one", parts=joined(parts))
    return say("answer.settings", n=count, parts=joined(parts))


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
        yield "One run of each setting: chance is not ruled out."


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
        metric = BY_KEY[key]
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


def _measures(study: Study) -> Iterator[Finding]:
    """Yield the answer by each measure of the question: at all points at which the same layerings are best,
    with the figures of the last of them.
    """
    if len(study.layerings) < 2:
        return
    samples = {point: Samples.of_study(study, point) for point in study.points}
    asked = {metric.key: metric for each in samples.values() for metric in each.measures}
    for metric in asked.values():
        places: dict[tuple[str, ...], list[Point]] = {}
        for point, each in samples.items():
            ranking = each.ranking(metric)
            if ranking.values:
                best, unclear = (
                    sorted(y for x in part for y in each.names[x])
                    for part in (ranking.leaders, ranking.unclear)
                )
                places.setdefault((*best, "", *unclear), []).append(point)
        texts: list[Markup] = []
        lead: Markup | str = ""
        for points in sorted(places.values(), key=len, reverse=True)[:_NAMED]:
            each = samples[points[-1]]
            lead, text, _ = measure(each, each.ranking(metric))
            where = escape(_upper(_at_points(study, points).strip()))
            if len(points) > 1:
                where += escape(f" (figures: {point_words(study, points[-1])})")
            texts.append(Markup("{}: {}").format(where, text) if study.key else Markup(text))
        if texts:
            yield Finding(lead, Markup(" ").join(texts))


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
    if ratios[most] > (1 + ALIKE) * ratios[least] or ratios[least] > (1 + ALIKE) * ratios[most]:
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
