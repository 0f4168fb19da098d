"""Findings of a run: the answer to its question, what went wrong, and what the answer costs.

All are claims of analysis.metrics.claims in sentences of analysis.report.words.sentences.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from math import inf
from typing import NamedTuple

from markupsafe import Markup

from analysis.columns.values import ALL
from analysis.files import Rows
from analysis.metrics.catalogue import BY_KEY, METRICS, Metric
from analysis.metrics.claims import COSTS, FRONTS, Claim, Ranking, Samples, Verdict
from analysis.metrics.run.incidents import ErrorReports, ForkAt
from analysis.report.words.numbers import duration, pretty, two_digits
from analysis.report.words.sentences import amount, capital, count, figure, joined, name, say, share
from analysis.run.manifest import Manifest

MOST = 7
"""Maximum number of findings beside the answer; the rest is in the tables."""

_TAIL = 299
"""Fewest samples of a 99th percentile: analysis.columns.samples."""


class Finding(NamedTuple):
    """A finding: its lead, its text, and the address on the page of what it is about."""

    lead: Markup | str
    text: Markup | str
    address: str = ""


class Findings(NamedTuple):
    """The page's summary: the answer as a headline and by measure, the layerings `left` out of it, at most
    MOST findings, and caveats.
    """

    headline: Markup
    measures: list[Finding]
    left: Markup
    sentences: list[Finding]
    notes: list[Markup]


class Outcome(NamedTuple):
    """A run's outcome at its subscribers: rows of analysis.metrics.run.saturation.KEEPING_UP and of latency
    quantiles, the errors and the forks, and a function that gives the deliveries to a node (layering, feed,
    seq).
    """

    keeping_up: Rows
    latency: Rows
    errors: list[ErrorReports]
    forks: list[ForkAt]
    deliveries_to: Callable[[str], Rows]


def findings(samples: Samples, manifest: Manifest, outcome: Outcome) -> Findings:
    """Return the findings of a run."""
    rankings = samples.rankings
    winners = best_in_all(rankings)
    sentences = [*_wrong(samples, manifest, outcome)][: MOST - 2]
    sentences += costs(samples, winners or _leading(rankings))
    return Findings(
        headline(samples, rankings, winners),
        [measure(samples, ranking) for ranking in rankings],
        left_out(samples),
        sentences[:MOST],
        [*_notes(samples, manifest)],
    )


def short(metric: Metric) -> Markup:
    """Return the name of a metric within a sentence."""
    first, rest = metric.title[0], metric.title[1:]
    is_term = metric.title.startswith(("Interest", "Jain")) or metric.title[1:2].isupper()
    return name(metric.axis or (first if is_term else first.lower()) + rest)


def best_in_all(rankings: Sequence[Ranking]) -> list[str]:
    """Return the layerings that are best, or equal to the best, in all decided measures."""
    told = [ranking for ranking in rankings if ranking.values]
    if not told or any(ranking.unclear for ranking in told):
        return []
    return [x for x in told[0].leaders if all(x in ranking.leaders for ranking in told)]


def _leading(rankings: Sequence[Ranking]) -> list[str]:
    """Return the layering that is best, or equal to the best, in most measures; none if there is none."""
    leads = Counter(x for ranking in rankings if ranking.is_decided for x in ranking.leaders)
    return [x for x, _ in leads.most_common(1)]


def headline(samples: Samples, rankings: Sequence[Ranking], winners: list[str]) -> Markup:
    """Return the answer in a sentence."""
    told = [ranking for ranking in rankings if ranking.values]
    if len(samples.names) == 1:
        [who] = samples.names
        parts = [
            say("answer.alone.part", metric=short(metric), value=_value(metric, who, samples, unit=True))
            for metric in samples.measures
        ]
        return say("answer.alone", who=name(who), parts=joined(parts) if parts else name("–"))
    complete = samples.comparable
    if len(complete) == 1 and samples.whys:
        return say("answer.only", who=name(complete[0]))
    unequal = [ranking for ranking in told if len(ranking.leaders) < len(ranking.values)]
    if not complete and (not unequal or len(told) < len(rankings)):
        return say("answer.none")
    if not unequal:
        return say(
            "answer.equal.rest" if samples.whys else "answer.equal",
            metrics=joined([short(ranking.metric) for ranking in told]),
        )
    if winners:
        if len(told) == 1:
            return say("answer.one", who=joined(winners))
        return say("answer.all", who=joined(winners), n=count(len(told), "measures"))
    clear = [ranking for ranking in unequal if not ranking.unclear]
    best: dict[tuple[str, ...], list[Markup]] = {}
    for each in clear or unequal:
        best.setdefault((*each.leaders, *each.unclear), []).append(short(each.metric))
    parts = [
        say("answer.part", who=joined(who, last=" and " if clear else " or "), metric=joined(metrics))
        for who, metrics in best.items()
    ]
    return say("answer.split" if clear else "answer.unclear", parts=joined(parts, "; ", "; "))


def measure(samples: Samples, ranking: Ranking) -> Finding:
    """Return the layerings on a metric of the question."""
    metric, key = ranking.metric, ranking.metric.key
    lead = Markup("{}:").format(name(metric.title))
    words = ("lowest", "Highest") if ranking.better == "lower" else ("highest", "Lowest")
    text = Markup()
    if ranking.values:
        every = len(ranking.leaders) == len(samples.names) > 2
        who = Markup("all layerings") if every else joined(ranking.leaders)
        parts = {"who": who, "value": _range(ranking, samples)}
        if ranking.next is None:
            text = say("measure.only" if len(ranking.values) == 1 else "measure.equal", **parts)
        elif ranking.unclear:
            others = joined(ranking.unclear)
            other = _value(metric, ranking.unclear[0], samples)
            text = say("measure.unclear", lowest=words[0], next=others, other=other, **parts)
        else:
            level = [x for x, value in ranking.values.items() if value == ranking.next.base]
            told = {"next": joined(level), "other": _value(metric, level[0], samples)}
            how = effect(samples, ranking.next, ranking)
            text = say("measure.best", lowest=words[0], effect=how, **told, **parts)
        text += _others(samples, ranking, words[1])
        if missing := [x for x in samples.names if x not in {*ranking.values, *ranking.left, *samples.whys}]:
            text += say("measure.missing", who=joined(missing))
    return Finding(lead, capital(Markup(text.strip())), f"#answer-{key}".replace("_", "-"))


def left_out(samples: Samples) -> Markup:
    """Return the layerings that are compared on deliveries alone, by reason; "" if there are none."""
    by_why: dict[str, list[str]] = {}
    for x, why in samples.whys.items():
        by_why.setdefault(why, []).append(x)
    parts = [say("left.part", who=joined(those), why=name(why)) for why, those in by_why.items()]
    return say("left", parts=joined(parts, "; ", "; ")) if parts else Markup()


def _others(samples: Samples, ranking: Ranking, highest: str) -> Markup:
    """Return the baseline and the worst, if they are not named yet."""
    text, named = Markup(), {*ranking.leaders, *ranking.unclear}
    if ranking.next:
        named |= {x for x, value in ranking.values.items() if value == ranking.next.base}
    claim, worst = ranking.baseline, list(ranking.values)[-1]
    if claim and claim.other not in named:
        named.add(claim.other)
        value = _value(ranking.metric, claim.other, samples)
        text += say(
            "measure.baseline", who=name(claim.other), value=value, effect=effect(samples, claim, ranking)
        )
    if worst not in named:
        level = [x for x, value in ranking.values.items() if value == ranking.values[worst]]
        value = _value(ranking.metric, worst, samples)
        text += say("measure.worst", highest=highest, who=joined(level), value=value)
    return text


def _value(metric: Metric, layering: str, samples: Samples, *, unit: bool = False) -> Markup:
    value = samples.value(metric.key, layering)
    if value is None:
        return name("–")
    return amount(value, metric.unit if unit else "", "value", metric.key, layering, *samples.place)


def _range(ranking: Ranking, samples: Samples) -> Markup:
    """Return the values of the leaders: one with its unit, or the lowest and the highest."""
    first, last = sorted((ranking.leaders[0], ranking.leaders[-1]), key=ranking.values.__getitem__)
    if pretty(ranking.values[first]) == pretty(ranking.values[last]):
        return _value(ranking.metric, first, samples, unit=True)
    low, high = _value(ranking.metric, first, samples), _value(ranking.metric, last, samples, unit=True)
    return low + " to " + high


def effect(samples: Samples, claim: Claim, ranking: Ranking) -> Markup:
    """Return how much more, or less, the other one is: " (26 % more)", " (12 times as much)"; over seeds with
    its interval, or the seeds that agree; "" where the best has none.
    """
    of = ("effect", ranking.metric.key, claim.best, claim.other, *samples.place)
    is_lower = ranking.better == "lower"

    def shown(worse: float, *of: object) -> Markup:
        if is_lower and claim.worse >= 1:
            return figure(worse, f"{two_digits(1 + worse)} times", *of)
        return share(worse, *of)

    if claim.worse == inf:
        return Markup()
    how = "more" if is_lower else "less"
    text = shown(claim.worse, *of) + (" as much" if is_lower and claim.worse >= 1 else f" {how}")
    if claim.n < 2 or inf in (abs(claim.low), abs(claim.high)):
        return Markup(" ({})").format(text)
    low, high = (
        shown(end, f"effect-{which}", *of[1:]) for which, end in (("low", claim.low), ("high", claim.high))
    )
    n = count(claim.n, "n", *of[1:])
    if claim.is_by_sign_test:
        agree = count(claim.agree, "agree", *of[1:])
        return Markup(" ({})").format(say("interval.seeds", effect=text, agree=agree, n=n))
    return Markup(" ({})").format(say("interval", effect=text, low=low, high=high, n=n))


def costs(samples: Samples, winners: list[str]) -> Iterator[Finding]:
    """Yield what the answer costs: against the baseline, on the other axes, and the trade-offs."""
    if winners and samples.baseline not in winners and not {winners[0], samples.baseline} & {*samples.whys}:
        yield _against_baseline(samples, winners[0])
    asked = {metric.key for metric in samples.measures}
    if winners and len(samples.names) > 1:
        parts = [
            part
            for key in COSTS
            if key not in asked and (part := _cost(samples, samples.ranking(BY_KEY[key]), winners[0]))
        ]
        if parts:
            yield Finding(say("cost", who=name(winners[0])), capital(joined(parts, "; ", "; ") + Markup(".")))
    fronts = {pair: samples.front(pair) for pair in FRONTS}
    parts = [
        say(
            "front.part",
            x=short(BY_KEY[x]),
            y=short(BY_KEY[y]),
            who=_told(joined(front), "front", x, y, *front),
        )
        for (x, y), front in fronts.items()
        if front
    ]
    if parts and len(samples.comparable) > 1:
        yield Finding(say("front"), capital(joined(parts, "; ", "; ") + Markup(".")), "#trade")


def _told(names: Markup, *of: str) -> Markup:
    """Return names as a figure: which layerings they are can be computed again."""
    return Markup('<data data-of="{}">{}</data>').format(" ".join(of), names)


def _cost(samples: Samples, ranking: Ranking, who: str) -> Markup | None:
    metric = ranking.metric
    if who not in ranking.values or len(ranking.values) < 2:
        return None
    parts = {"metric": short(metric), "value": _value(metric, who, samples, unit=metric.unit in ("ms", "%"))}
    best = next(iter(ranking.values))
    if who not in ranking.leaders:
        return say("cost.best", best=name(best), other=_value(metric, best, samples), **parts)
    if ranking.next is None or len(ranking.leaders) > 1 or ranking.unclear:
        return say("cost.equal", **parts)
    return say(
        "cost.part", next=name(ranking.next.other), effect=effect(samples, ranking.next, ranking), **parts
    )


def _against_baseline(samples: Samples, who: str) -> Finding:
    """Return in how many measures a layering is better than the baseline, and where it is worse."""
    better: list[Metric] = []
    worse: list[Metric] = []
    equal: list[Metric] = []
    for metric in METRICS:
        ranking = samples.ranking(metric)
        if metric.axis and metric.better and who in ranking.values and samples.baseline in ranking.values:
            for one, other, found in ((who, samples.baseline, better), (samples.baseline, who, worse)):
                claim = samples.claim(metric, one, other, ranking.better)
                if claim.verdict is Verdict.BETTER:
                    found.append(metric)
            if metric not in better + worse:
                equal.append(metric)
    counts = {
        what: count(len(those), "against", what, who, samples.baseline)
        for what, those in (("better", better), ("equal", equal), ("worse", worse))
    }
    n = len(better) + len(equal) + len(worse)
    where = Markup(" ({})").format(joined([short(metric) for metric in worse])) if worse else ""
    told = say(
        "cost.baseline.text",
        n=count(n, "against", "all", who, samples.baseline),
        where=where,
        **counts,
    )
    return Finding(say("cost.baseline", who=name(who), first=name(samples.baseline)), told)


def _wrong(samples: Samples, manifest: Manifest, outcome: Outcome) -> Iterator[Finding]:
    """Yield what went wrong, the worst first; if nothing did, that."""
    found = [
        *_behind(samples, outcome),
        *_missing(samples, manifest, outcome),
        *_forked(samples, manifest, outcome),
        *_counts("twice", samples),
        *_counts("out_of_order", samples),
        *_errors(samples, outcome),
    ]
    if not found:
        n = manifest.expected_deliveries
        found = [Finding(say("wrong.nothing"), say("wrong.nothing.text", n=count(n, "expected")))]
    yield from found


def _behind(samples: Samples, outcome: Outcome) -> Iterator[Finding]:
    rows = {x: [row for row in outcome.keeping_up if row["layering"] == x] for x in samples.names}
    late = {x: [row for row in rows[x] if row["fell_behind"]] for x in rows}
    late = {x: those for x, those in late.items() if those}
    if late:
        who, worst = max(
            ((x, row) for x, those in late.items() for row in those),
            key=lambda pair: pair[1]["quarters_ms"][3],
        )
        first, *_, last = (
            figure(ms, duration(ms * 1e6), "quarter", who, worst["node"], k)
            for k, ms in enumerate(worst["quarters_ms"])
        )
        parts = {"node": name(worst["node"]), "who": name(who), "first": first, "last": last}
        yield Finding(say("wrong.behind", who=joined(list(late))), say("wrong.behind.text", **parts))
    at_last = {x: sum(row["at_last"] for row in rows[x] if row["cut_off"]) for x in rows}
    cut = [x for x in rows if any(row["cut_off"] for row in rows[x])]
    if cut:
        said = [say("part", value=count(at_last[x], "at-last", x), who=name(x)) for x in cut]
        yield Finding(say("wrong.cut", who=joined(cut)), say("wrong.cut.text", parts=joined(said)))


def _missing(samples: Samples, manifest: Manifest, outcome: Outcome) -> Iterator[Finding]:
    """Yield the number of missing deliveries, where most are missing, and the first missing item there."""
    got = {(row["layering"], row["node"]): row["deliveries"] for row in outcome.latency if row["node"] != ALL}
    lacking = {
        (x, node): lacks
        for x in samples.names
        for node, expected in manifest.workload.expected.items()
        if (lacks := expected - got.get((x, node), 0)) > 0
    }
    if not lacking:
        return
    sums = {x: sum(n for (y, _), n in lacking.items() if y == x) for x in samples.names}
    parts = [say("part", value=count(n, "missing", x), who=name(x)) for x, n in sums.items() if n]
    expected = count(manifest.expected_deliveries, "expected")
    text = say("wrong.missing.text", expected=expected, parts=joined(parts))
    who, node = max(lacking, key=lambda place: lacking[place])
    address = ""
    if len(manifest.workload.expected) > 1:
        text += say(
            "wrong.missing.most",
            node=name(node),
            who=name(who),
            n=count(lacking[who, node], "missing", who, node),
            expected=count(manifest.workload.expected[node], "expected", node),
        )
    if who in manifest.over_ndn and (place := _first_missing(manifest, outcome, who, node)):
        address = "#journey={}/{}/{}/{}".format(who, *place, node)
    yield Finding(say("wrong.missing"), text, address)


def _first_missing(manifest: Manifest, outcome: Outcome, layering: str, node: str) -> tuple[int, int] | None:
    """Return the index of a feed, and the first of its items that a subscriber lacks, from the earliest on
    that it got under any layering; None if unknown.
    """
    got: dict[str, set[int]] = {}
    since: dict[str, int] = {}
    for row in outcome.deliveries_to(node):
        since[row["feed"]] = min(row["seq"], since.get(row["feed"], row["seq"]))
        if row["layering"] == layering:
            got.setdefault(row["feed"], set()).add(row["seq"])
    for place, feed in enumerate(manifest.workload.feeds):
        last = manifest.fork.after if manifest.fork and manifest.fork.feed == feed.feed else feed.items
        due = range(since.get(feed.feed, 1 if len(manifest.workload.feeds) == 1 else last + 1), last + 1)
        if lacking := [seq for seq in due if seq not in got.get(feed.feed, ())]:
            return place, lacking[0]
    return None


def _forked(samples: Samples, manifest: Manifest, outcome: Outcome) -> Iterator[Finding]:
    if manifest.fork is None:
        return
    asked = {metric.key for metric in samples.measures}
    if "beyond_fork" not in asked:
        yield from _counts("beyond_fork", samples, "wrong.beyond", "wrong.beyond.text")
    without = {
        x: [fork.node for fork in outcome.forks if fork.layering == x and fork.proof is None]
        for x in samples.names
    }
    by_nodes: dict[tuple[str, ...], list[str]] = {}
    for x, nodes in without.items():
        if nodes:
            by_nodes.setdefault(tuple(nodes), []).append(x)
    parts = [say("part.who", node=joined(list(nodes)), who=joined(xs)) for nodes, xs in by_nodes.items()]
    if parts:
        yield Finding(
            say("wrong.unproved"), say("wrong.unproved.text", parts=joined(parts, "; ", "; ")), "#trouble"
        )


def _counts(key: str, samples: Samples, lead: str = "", text: str = "wrong.counts") -> Iterator[Finding]:
    """Yield the counts of a fault by layering, if there are any."""
    counts = {x: value for x in samples.names if (value := samples.value(key, x))}
    parts = [say("part", value=_value(BY_KEY[key], x, samples, unit=True), who=name(x)) for x in counts]
    if parts:
        yield Finding(say(lead or f"wrong.{key}"), capital(say(text, parts=joined(parts))), "#trouble")


def _errors(samples: Samples, outcome: Outcome) -> Iterator[Finding]:
    reported = [error for error in outcome.errors if error.layering in samples.names]
    for found in _counts("errors", samples):
        text = found.text
        if reported:
            error = min(reported, key=lambda error: error.first)
            text += say(
                "wrong.first",
                who=name(error.layering),
                node=name(error.node),
                detail=name(error.detail),
                time=figure(error.first, duration(error.first * 1e9), "first-error", error.layering),
            )
        yield found._replace(text=text)


def _notes(samples: Samples, manifest: Manifest) -> Iterator[Markup]:
    yield say("note.run", seed=figure(manifest.seed, str(manifest.seed), "seed"))
    for alias, those in samples.names.items():
        if len(those) > 1:
            yield say("note.names", who=joined(those), name=name(alias))
    counts = [samples.value("delivered", x) or 0 for x in manifest.layerings]
    if any(counts) and all(samples.value("latency_p99", x) is None for x in manifest.layerings):
        most = count(int(max(counts)), "most-delivered")
        yield say("note.tails", n=most, least=count(_TAIL, "tail"))
    for x in manifest.layerings:
        if dropped := samples.value("capture_drops", x):
            yield say("note.drops", who=name(x), n=amount(dropped, "frames", "value", "capture_drops", x))
