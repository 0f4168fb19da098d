"""Findings of a run: the answer to its question, what went wrong, and what the answer costs.

All are claims of analysis.metrics.claims in sentences of analysis.report.words.sentences.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from math import inf
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from markupsafe import Markup

from analysis.columns.values import ALL
from analysis.files import Rows
from analysis.metrics.catalogue import METRICS, Metric, shown
from analysis.metrics.claims import COSTS, FRONTS, Claim, Evidence, Standing, Verdict
from analysis.report.words.numbers import duration, pretty, two_digits
from analysis.report.words.sentences import amount, capital, figure, joined, name, say, share
from analysis.run.manifest import Manifest

MOST = 7
"""Maximum number of findings beside the answer; the rest is in the tables."""

_BY_KEY = {metric.key: metric for metric in METRICS}
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


class Witness(NamedTuple):
    """Tables of what happened, as rows: analysis.metrics.run.saturation.KEEPING_UP, latency quantiles by
    subscriber, errors and proofs of forks (layering, node, event, time, detail); and the deliveries
    (layering, node, feed, seq).
    """

    keeping_up: Rows
    latency: Rows
    incidents: Rows
    deliveries: pa.Table


def findings(evidence: Evidence, manifest: Manifest, witness: Witness) -> Findings:
    """Return the findings of a run."""
    standings = [evidence.standing(metric) for metric in evidence.measures]
    winners = best_in_all(standings)
    sentences = [*_wrong(evidence, manifest, witness)][: MOST - 2]
    sentences += costs(evidence, winners or _leading(standings))
    return Findings(
        headline(evidence, standings, winners),
        [measure(evidence, standing) for standing in standings],
        left_out(evidence),
        sentences[:MOST],
        [*_notes(evidence, manifest)],
    )


def short(metric: Metric) -> Markup:
    """Return the name of a metric within a sentence."""
    first, rest = metric.title[0], metric.title[1:]
    is_term = metric.title.startswith(("Interest", "Jain")) or metric.title[1:2].isupper()
    return name(metric.axis or (first if is_term else first.lower()) + rest)


def best_in_all(standings: Sequence[Standing]) -> list[str]:
    """Return the layerings that are best, or equal to the best, in all decided measures."""
    told = [standing for standing in standings if standing.values]
    if not told or any(standing.unclear for standing in told):
        return []
    return [x for x in told[0].leaders if all(x in standing.leaders for standing in told)]


def _leading(standings: Sequence[Standing]) -> list[str]:
    """Return the layering that is best, or equal to the best, in most measures; none if there is none."""
    leads = Counter(x for standing in standings if standing.is_decided for x in standing.leaders)
    return [x for x, _ in leads.most_common(1)]


def headline(evidence: Evidence, standings: Sequence[Standing], winners: list[str]) -> Markup:
    """Return the answer in a sentence."""
    told = [standing for standing in standings if standing.values]
    if len(evidence.names) == 1:
        [who] = evidence.names
        parts = [
            say("answer.alone.part", metric=short(metric), value=_value(metric, who, evidence, unit=True))
            for metric in evidence.measures
        ]
        return say("answer.alone", who=name(who), parts=joined(parts) if parts else name("–"))
    complete = evidence.comparable
    if len(complete) == 1 and evidence.whys:
        return say("answer.only", who=name(complete[0]))
    unequal = [standing for standing in told if len(standing.leaders) < len(standing.values)]
    if not complete and (not unequal or len(told) < len(standings)):
        return say("answer.none")
    if not unequal:
        return say(
            "answer.equal.rest" if evidence.whys else "answer.equal",
            metrics=joined([short(standing.metric) for standing in told]),
        )
    if winners:
        if len(told) == 1:
            return say("answer.one", who=joined(winners))
        return say("answer.all", who=joined(winners), n=figure(len(told), str(len(told)), "measures"))
    clear = [standing for standing in unequal if not standing.unclear]
    best: dict[tuple[str, ...], list[Markup]] = {}
    for each in clear or unequal:
        best.setdefault((*each.leaders, *each.unclear), []).append(short(each.metric))
    parts = [
        say("answer.part", who=joined(who, last=" and " if clear else " or "), metric=joined(metrics))
        for who, metrics in best.items()
    ]
    return say("answer.split" if clear else "answer.unclear", parts=joined(parts, "; ", "; "))


def measure(evidence: Evidence, standing: Standing) -> Finding:
    """Return the layerings on a metric of the question."""
    metric, key = standing.metric, standing.metric.key
    lead = Markup("{}:").format(name(metric.title))
    words = ("lowest", "Highest") if standing.better == "lower" else ("highest", "Lowest")
    text = Markup()
    if standing.values:
        every = len(standing.leaders) == len(evidence.names) > 2
        who = Markup("all layerings") if every else joined(standing.leaders)
        parts = {"who": who, "value": _range(standing, evidence)}
        if standing.next is None:
            text = say("measure.only" if len(standing.values) == 1 else "measure.equal", **parts)
        elif standing.unclear:
            others = joined(standing.unclear)
            other = _value(metric, standing.unclear[0], evidence)
            text = say("measure.unclear", lowest=words[0], next=others, other=other, **parts)
        else:
            level = [x for x, value in standing.values.items() if value == standing.next.base]
            told = {"next": joined(level), "other": _value(metric, level[0], evidence)}
            how = effect(evidence, standing.next, standing)
            text = say("measure.best", lowest=words[0], effect=how, **told, **parts)
        text += _others(evidence, standing, words[1])
    return Finding(lead, capital(Markup(text.strip())), f"#answer-{key}".replace("_", "-"))


def left_out(evidence: Evidence) -> Markup:
    """Return the layerings that are compared on deliveries alone, by reason; "" if there are none."""
    by_why: dict[str, list[str]] = {}
    for x, why in evidence.whys.items():
        by_why.setdefault(why, []).append(x)
    parts = [say("left.part", who=joined(those), why=name(why)) for why, those in by_why.items()]
    return say("left", parts=joined(parts, "; ", "; ")) if parts else Markup()


def _others(evidence: Evidence, standing: Standing, highest: str) -> Markup:
    """Return the baseline and the worst, if they are not named yet."""
    text, named = Markup(), {*standing.leaders, *standing.unclear}
    if standing.next:
        named |= {x for x, value in standing.values.items() if value == standing.next.base}
    claim, worst = standing.baseline, list(standing.values)[-1]
    if claim and claim.other not in named:
        named.add(claim.other)
        value = _value(standing.metric, claim.other, evidence)
        text += say(
            "measure.baseline", who=name(claim.other), value=value, effect=effect(evidence, claim, standing)
        )
    if worst not in named:
        level = [x for x, value in standing.values.items() if value == standing.values[worst]]
        value = _value(standing.metric, worst, evidence)
        text += say("measure.worst", highest=highest, who=joined(level), value=value)
    return text


def _value(metric: Metric, layering: str, evidence: Evidence, *, unit: bool = False) -> Markup:
    value = evidence.value(metric.key, layering)
    if value is None:
        return name("–")
    return amount(value, metric.unit if unit else "", "value", metric.key, layering, *evidence.place)


def _range(standing: Standing, evidence: Evidence) -> Markup:
    """Return the values of the leaders: one with its unit, or the first and the last."""
    first, last = standing.leaders[0], standing.leaders[-1]
    if pretty(standing.values[first]) == pretty(standing.values[last]):
        return _value(standing.metric, first, evidence, unit=True)
    low, high = _value(standing.metric, first, evidence), _value(standing.metric, last, evidence, unit=True)
    return low + " to " + high


def effect(evidence: Evidence, claim: Claim, standing: Standing) -> Markup:
    """Return how much more, or less, the other one is: " (26 % more)", " (12 times as much)"; over seeds with
    its interval; "" where the best has none.
    """
    of = ("effect", standing.metric.key, claim.best, claim.other, *evidence.place)
    is_lower = standing.better == "lower"

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
    n = figure(claim.n, str(claim.n), "n", *of[1:])
    return Markup(" ({})").format(say("interval", effect=text, low=low, high=high, n=n))


def costs(evidence: Evidence, winners: list[str]) -> Iterator[Finding]:
    """Yield what the answer costs: against the baseline, on the other axes, and the trade-offs."""
    if (
        winners
        and evidence.baseline not in winners
        and not {winners[0], evidence.baseline} & {*evidence.whys}
    ):
        yield _against_baseline(evidence, winners[0])
    asked = {metric.key for metric in evidence.measures}
    if winners and len(evidence.names) > 1:
        parts = [
            part
            for key in COSTS
            if key not in asked and (part := _cost(evidence, evidence.standing(_BY_KEY[key]), winners[0]))
        ]
        if parts:
            yield Finding(say("cost", who=name(winners[0])), capital(joined(parts, "; ", "; ") + Markup(".")))
    fronts = {pair: evidence.front(pair) for pair in FRONTS}
    parts = [
        say(
            "front.part",
            x=short(_BY_KEY[x]),
            y=short(_BY_KEY[y]),
            who=_told(joined(front), "front", x, y, *front),
        )
        for (x, y), front in fronts.items()
        if front
    ]
    if parts and len(evidence.comparable) > 1:
        yield Finding(say("front"), capital(joined(parts, "; ", "; ") + Markup(".")), "#trade")


def _told(names: Markup, *of: str) -> Markup:
    """Return names as a figure: which layerings they are can be computed again."""
    return Markup('<data data-of="{}">{}</data>').format(" ".join(of), names)


def _cost(evidence: Evidence, standing: Standing, who: str) -> Markup | None:
    metric = standing.metric
    if who not in standing.values or len(standing.values) < 2:
        return None
    parts = {"metric": short(metric), "value": _value(metric, who, evidence, unit=metric.unit in ("ms", "%"))}
    best = next(iter(standing.values))
    if who not in standing.leaders:
        return say("cost.best", best=name(best), other=_value(metric, best, evidence), **parts)
    if standing.next is None or len(standing.leaders) > 1 or standing.unclear:
        return say("cost.equal", **parts)
    return say(
        "cost.part", next=name(standing.next.other), effect=effect(evidence, standing.next, standing), **parts
    )


def _against_baseline(evidence: Evidence, who: str) -> Finding:
    """Return in how many measures a layering is better than the baseline, and where it is worse."""
    better: list[Metric] = []
    worse: list[Metric] = []
    equal: list[Metric] = []
    for metric in shown(METRICS, {*evidence.samples}, evidence.layerings):
        standing = evidence.standing(metric)
        if metric.axis and metric.better and who in standing.values and evidence.baseline in standing.values:
            for one, other, found in ((who, evidence.baseline, better), (evidence.baseline, who, worse)):
                claim = evidence.claim(metric, one, other, standing.better)
                if claim.verdict is Verdict.BETTER:
                    found.append(metric)
            if metric not in better + worse:
                equal.append(metric)
    counts = {
        what: figure(len(those), str(len(those)), "against", what, who, evidence.baseline)
        for what, those in (("better", better), ("equal", equal), ("worse", worse))
    }
    n = len(better) + len(equal) + len(worse)
    where = Markup(" ({})").format(joined([short(metric) for metric in worse])) if worse else ""
    told = say(
        "cost.baseline.text",
        n=figure(n, str(n), "against", "all", who, evidence.baseline),
        where=where,
        **counts,
    )
    return Finding(say("cost.baseline", who=name(who), first=name(evidence.baseline)), told)


def _wrong(evidence: Evidence, manifest: Manifest, witness: Witness) -> Iterator[Finding]:
    """Yield what went wrong, the worst first; if nothing did, that."""
    found = [
        *_behind(evidence, witness),
        *_missing(evidence, manifest, witness),
        *_forked(evidence, manifest, witness),
        *_counts("twice", evidence),
        *_counts("out_of_order", evidence),
        *_errors(evidence, manifest, witness),
    ]
    if not found:
        n = manifest.expected_deliveries
        found = [Finding(say("wrong.nothing"), say("wrong.nothing.text", n=amount(n, "", "expected")))]
    yield from found


def _behind(evidence: Evidence, witness: Witness) -> Iterator[Finding]:
    rows = {x: [row for row in witness.keeping_up if row["layering"] == x] for x in evidence.names}
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
        said = [say("part", value=amount(at_last[x], "", "at-last", x), who=name(x)) for x in cut]
        yield Finding(say("wrong.cut", who=joined(cut)), say("wrong.cut.text", parts=joined(said)))


def _missing(evidence: Evidence, manifest: Manifest, witness: Witness) -> Iterator[Finding]:
    """Yield the number of missing deliveries, where most are missing, and the first missing item there."""
    got = {(row["layering"], row["node"]): row["deliveries"] for row in witness.latency if row["node"] != ALL}
    lacking = {
        (x, node): lacks
        for x in evidence.names
        for node, expected in manifest.workload.expected.items()
        if (lacks := expected - got.get((x, node), 0)) > 0
    }
    if not lacking:
        return
    sums = {x: sum(n for (y, _), n in lacking.items() if y == x) for x in evidence.names}
    parts = [say("part", value=amount(n, "", "missing", x), who=name(x)) for x, n in sums.items() if n]
    expected = amount(manifest.expected_deliveries, "", "expected")
    text = say("wrong.missing.text", expected=expected, parts=joined(parts))
    who, node = max(lacking, key=lambda place: lacking[place])
    address = ""
    if len(manifest.workload.expected) > 1:
        text += say(
            "wrong.missing.most",
            node=name(node),
            who=name(who),
            n=amount(lacking[who, node], "", "missing", who, node),
            expected=amount(manifest.workload.expected[node], "", "expected", node),
        )
    if who in manifest.over_ndn and (place := _first_missing(manifest, witness, who, node)):
        address = "#journey={}/{}/{}/{}".format(who, *place, node)
    yield Finding(say("wrong.missing"), text, address)


def _first_missing(manifest: Manifest, witness: Witness, layering: str, node: str) -> tuple[int, int] | None:
    """Return the index of a feed, and the first of its items that a subscriber lacks; None if unknown."""
    table = witness.deliveries
    own = table.filter(pc.and_(pc.equal(table["layering"], layering), pc.equal(table["node"], node)))
    there: dict[str, set[int]] = {}
    for row in own.select(["feed", "seq"]).to_pylist():
        there.setdefault(row["feed"], set()).add(row["seq"])
    for place, feed in enumerate(manifest.workload.feeds):
        last = manifest.fork.after if manifest.fork and manifest.fork.feed == feed.feed else feed.items
        lacking = [seq for seq in range(1, last + 1) if seq not in there.get(feed.feed, {*()})]
        if lacking and (feed.feed in there or len(manifest.workload.feeds) == 1):
            return place, lacking[0]
    return None


def _forked(evidence: Evidence, manifest: Manifest, witness: Witness) -> Iterator[Finding]:
    if manifest.fork is None:
        return
    asked = {metric.key for metric in evidence.measures}
    if "beyond_fork" not in asked:
        yield from _counts("beyond_fork", evidence, "wrong.beyond", "wrong.beyond.text")
    proved = {(row["layering"], row["node"]) for row in witness.incidents if row["event"] == "forked"}
    without = {x: [n for n in manifest.workload.expected if (x, n) not in proved] for x in evidence.names}
    by_nodes: dict[tuple[str, ...], list[str]] = {}
    for x, nodes in without.items():
        if nodes:
            by_nodes.setdefault(tuple(nodes), []).append(x)
    parts = [say("part.who", node=joined(list(nodes)), who=joined(xs)) for nodes, xs in by_nodes.items()]
    if parts:
        yield Finding(
            say("wrong.unproved"), say("wrong.unproved.text", parts=joined(parts, "; ", "; ")), "#trouble"
        )


def _counts(key: str, evidence: Evidence, lead: str = "", text: str = "wrong.counts") -> Iterator[Finding]:
    """Yield the counts of a fault by layering, if there are any."""
    counts = {x: value for x in evidence.names if (value := evidence.value(key, x))}
    parts = [say("part", value=_value(_BY_KEY[key], x, evidence, unit=True), who=name(x)) for x in counts]
    if parts:
        yield Finding(say(lead or f"wrong.{key}"), capital(say(text, parts=joined(parts))), "#trouble")


def _errors(evidence: Evidence, manifest: Manifest, witness: Witness) -> Iterator[Finding]:
    errors = [
        row for row in witness.incidents if row["event"] == "error" and row["layering"] in evidence.names
    ]
    for found in _counts("errors", evidence):
        text = found.text
        if errors:
            row = min(errors, key=lambda row: row["time"] - manifest.runs[row["layering"]].start_ns)
            since = row["time"] - manifest.runs[row["layering"]].start_ns
            parts = {
                "who": name(row["layering"]),
                "node": name(row["node"]),
                "detail": name(row["detail"] or "error"),
            }
            text += say(
                "wrong.first", time=figure(since, duration(since), "first-error", row["layering"]), **parts
            )
        yield found._replace(text=text)


def _notes(evidence: Evidence, manifest: Manifest) -> Iterator[Markup]:
    yield say("note.run", seed=figure(manifest.seed, str(manifest.seed), "seed"))
    for alias, those in evidence.names.items():
        if len(those) > 1:
            yield say("note.names", who=joined(those), name=name(alias))
    counts = [evidence.value("delivered", x) or 0 for x in manifest.layerings]
    if any(counts) and all(evidence.value("latency_p99", x) is None for x in manifest.layerings):
        most = figure(max(counts), pretty(max(counts)), "most-delivered")
        yield say("note.tails", n=most, least=figure(_TAIL, str(_TAIL), "tail"))
    for x in manifest.layerings:
        if dropped := evidence.value("capture_drops", x):
            yield say("note.drops", who=name(x), n=amount(dropped, "frames", "value", "capture_drops", x))
