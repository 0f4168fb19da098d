"""A study in words: formatted figures, and the answer to its question, point by point."""

from collections import Counter
from collections.abc import Iterator, Mapping
from math import inf
from statistics import fmean

from markupsafe import Markup

from analysis.metrics.catalogue import BY_KEY, WHOLE
from analysis.metrics.claims import ALIKE, Samples, alike
from analysis.metrics.study import Estimate, Point, Study, unranked
from analysis.report.words.findings import Finding, best_in_all, measure
from analysis.report.words.findings import headline as of_run
from analysis.report.words.numbers import NARROW_SPACE, compared, pretty, with_unit
from analysis.report.words.sentences import amount, count, figure, joined, name, say
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
    return _plus_minus(pretty(value.mean), _two(value.half))


def _plus_minus(mean: str, half: str) -> str:
    return mean + f"{NO_BREAK_SPACE}±{NO_BREAK_SPACE}" + half


def _two(half: float) -> str:
    return f"{half:.2g}" if 0 < half < 99.5 else pretty(round(half))


def point_words(study: Study, point: Point) -> str:
    """Format a point: "5 %", "asf", "5 %, Mininet, relay"."""
    x = with_unit(point.x, study.words.unit) if not isinstance(point.x, str) else point.x
    return ", ".join(filter(None, (x, point.group)))


class StudyWords:
    """The page's sentences: the answer, findings and caveats of a study."""

    def __init__(self, study: Study) -> None:
        self.study, self.samples = study, Samples.by_point(study)

    def findings(self) -> list[Finding]:
        """Return at most MOST findings, whichever way the figures fall."""
        study = self.study
        return [*_delivery(study), *_networks(study), *_measures(study, self.samples), *_growth(study)][:MOST]

    def headline(self) -> Markup:
        """Return at how many points each layering is best, or equal to the best, in all measures of the
        question; "" if none is anywhere.
        """
        best: Counter[str] = Counter()
        measures = 0
        for samples in self.samples.values():
            rankings = samples.rankings
            measures = max(measures, len(rankings))
            winners = best_in_all(rankings)
            if len(self.samples) == 1 and rankings:
                return of_run(samples, rankings, winners)
            if all(ranking.values for ranking in rankings):
                best.update(x for winner in winners for x in samples.names[winner])
        n = count(len(self.samples), "points")
        parts = [
            say("answer.settings.part", who=name(x), k=count(k, "best-at", x), n=n)
            for x, k in best.most_common(_NAMED)
        ]
        if not parts or len(self.study.layerings) < 2:
            return Markup()
        if measures == 1:
            return say("answer.settings.one", parts=joined(parts))
        return say("answer.settings", n=count(measures, "measures"), parts=joined(parts))


def caveats(study: Study) -> Iterator[Markup]:
    """Yield the caveats of the figures."""
    where: dict[tuple[str, str], list[Point]] = {}
    for x in study.layerings:
        for point in study.points:
            if why := unranked(study, x, point):
                where.setdefault((x, why), []).append(point)
    if where:
        parts = [
            say("study.starred.part", who=name(x), where=_at_points(study, points), why=why)
            for (x, why), points in where.items()
        ]
        more = f", and {len(parts) - MOST} more" if len(parts) > MOST else ""
        yield say("study.starred", parts=joined(parts[:MOST]), more=more)
    seeds: dict[Point, set[int]] = {point: set() for point in study.points}
    for (_, _, point), samples in study.samples.items():
        seeds[point] |= {seed for seed, _ in samples}
    if any(own != seeds[study.points[0]] for own in seeds.values()):
        yield say("study.seeds")
    if all(value.n == 1 for value in study.values.values()):
        yield say("study.once")


def _delivery(study: Study) -> Iterator[Finding]:
    shares = {
        (x, point): value for (metric, x, point), value in study.values.items() if metric == "delivered_share"
    }
    if not shares:
        return
    worst: dict[str, tuple[float, Point]] = {}
    for (layering, point), share in shares.items():
        if share.mean < worst.get(layering, (WHOLE, point))[0]:
            worst[layering] = share.mean, point
    if not worst:
        where = f", whatever the {study.words.what}" if study.key else ""
        least = figure(WHOLE, f"{WHOLE:g}", "whole")
        yield Finding(say("study.whole"), say("study.whole.text", least=least, where=where))
        return
    order = sorted(worst, key=lambda x: worst[x][0])
    parts = [
        say(
            "study.lacking.part",
            who=name(x),
            value=_interval(study, "delivered_share", x, worst[x][1]),
            where=_at_points(study, [worst[x][1]]),
        )
        for x in order[:_NAMED]
    ]
    left = count(len(order) - _NAMED, "lacking-more")
    more = Markup("; and {} more").format(left) if len(order) > _NAMED else ""
    whole = [x for x in study.layerings if x not in worst]
    lead = say("study.lacking", k=count(len(worst), "lacking"), n=count(len(study.layerings), "layerings"))
    if whole and len(whole) <= _NAMED:
        lead = say("study.only", who=joined(whole))
    yield Finding(lead, say("study.lacking.text", parts=joined(parts), more=more))


def _networks(study: Study) -> Iterator[Finding]:
    """Return the difference of networks with equal seeds, if they are the study's subject."""
    if study.key != NET or len(study.xs) != 2 or len(study.groups) > 1:
        return
    one, other = study.points
    for key in (_LATENCY, "bytes_per_item"):
        metric = BY_KEY[key]
        parts = []
        for layering in study.layerings:
            a, b = (study.samples.get((key, layering, point), {}) for point in (one, other))
            both = {seed for seed, _ in a} & {seed for seed, _ in b}
            if both:
                was, became = (fmean(v for (seed, _), v in x.items() if seed in both) for x in (a, b))
                values = {
                    what: amount(value, metric.unit, "shared", key, layering, place)
                    for place, (what, value) in enumerate((("was", was), ("became", became)))
                }
                ratio = figure(
                    became / was - 1 if was else inf, _change(became, was), "change", key, layering
                )
                parts.append(say("study.networks.part", who=name(layering), how=ratio, **values))
        if parts:
            lead = say("study.networks", metric=_upper(Markup(metric.axis)), other=other.x, one=one.x)
            yield Finding(lead, say("study.networks.text", parts=joined(parts, "; ", "; ")))


def _measures(study: Study, samples: Mapping[Point, Samples]) -> Iterator[Finding]:
    """Yield the answer by each measure of the question. Points with the same answer share a sentence, which
    has the figures of the last of them.
    """
    if len(study.layerings) < 2:
        return
    asked = {metric.key: metric for each in samples.values() for metric in each.measures}
    for metric in asked.values():
        places: dict[tuple[tuple[str, ...], tuple[str, ...], bool], list[Point]] = {}
        for point, each in samples.items():
            ranking = each.ranking(metric)
            if ranking.values:
                best, unclear = (
                    sorted(y for x in part for y in each.names[x])
                    for part in (ranking.leaders, ranking.unclear)
                )
                answer = tuple(best), tuple(unclear), ranking.next is None
                places.setdefault(answer, []).append(point)
        texts: list[Markup] = []
        lead: Markup | str = ""
        for points in sorted(places.values(), key=len, reverse=True)[:_NAMED]:
            each = samples[points[-1]]
            lead, text, _ = measure(each, each.ranking(metric))
            where, at = _upper(_at_points(study, points).strip()), name(point_words(study, points[-1]))
            if not study.key:
                texts.append(Markup(text))
            elif len(points) > 1:
                texts.append(say("study.measure.last", where=where, at=at, text=text))
            else:
                texts.append(say("study.measure", where=where, text=text))
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
    ends = {"low": name(point_words(study, low)), "high": name(point_words(study, high)), "who": name(least)}

    def grown(x: str) -> Markup:
        return figure(ratios[x], f"{ratios[x]:.2g}", "growth", _LATENCY, x)

    def text(other: str) -> Markup:
        return say("study.growth.text", ratio=grown(least), other=other, **ends)

    if ratios[most] > (1 + ALIKE) * ratios[least] or ratios[least] > (1 + ALIKE) * ratios[most]:
        other = say("study.growth.other", who=name(most), ratio=grown(most))
        yield Finding(say("study.growth", who=name(least), what=study.words.what), text(other))
    elif study.key.startswith("parameters."):
        yield Finding(say("study.effect", what=study.words.what), text(""))


def _interval(study: Study, key: str, layering: str, point: Point) -> str:
    """Return an estimate as figures: its mean, and half its interval."""
    value, of = study.values[key, layering, point], (key, layering, study.points.index(point))
    mean = figure(value.mean, pretty(value.mean), "value", *of)
    if value.half is None:
        return mean
    return _plus_minus(mean, figure(value.half, _two(value.half), "half", *of))


def _change(became: float, was: float) -> str:
    return "about the same" if alike(became, was) else compared(became, was, "less", "more")


def _at_points(study: Study, points: list[Point]) -> Markup:
    """Format points: " at 1, 2 and 5 %", " with asf"."""
    if not study.key:
        return Markup()
    if not study.is_numeric or len(study.groups) > 1:
        if len(points) > _NAMED and len(points) == len(study.points):
            return Markup(" with each setting")
        if len(points) > _NAMED:
            every = count(len(study.points), "points")
            return Markup(" with {} of {} settings").format(count(len(points), "some"), every)
        said = [name(point_words(study, point)) for point in points]
        return Markup(" with {}").format(joined(said) if len(study.groups) == 1 else joined(said, "; ", "; "))
    numbers = joined([pretty(float(point.x)) for point in points])
    if study.words.unit:
        return Markup(" at {}").format(numbers + NARROW_SPACE + study.words.unit)
    return Markup(" at {} {}").format(name(study.words.what), numbers)


def _upper(text: Markup) -> Markup:
    return text[:1].upper() + text[1:]
