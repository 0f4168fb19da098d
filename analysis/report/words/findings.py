"""Findings: sentences computed from the comparison, whichever way the numbers fall.

Every layering is treated alike: on each axis the first, and the position of all others. A difference below
the variation between seeds is no finding. Partial work costs less than complete work, so layerings that
delivered less than all, or too late, are compared with none.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from analysis.files import Rows
from analysis.metrics.catalogue import why_unranked
from analysis.report.words.numbers import compared, duration, excess, pretty, with_unit
from analysis.report.words.ranks import Axis, alike
from analysis.run.manifest import Manifest

MOST = 7
"""Maximum number of findings of a run; the rest is in the tables."""

NOTABLE = 1.05
"""Minimum ratio of the worst to the best for a finding."""

NEAR = 1.05
"""Maximum ratio to a bound that counts as reaching it."""

Values = Mapping[tuple[str, str], float | None]
"""Values of the comparison, by metric and layering."""


class Finding(NamedTuple):
    """A finding of a run: its lead, empty for a plain remark, and its sentence."""

    lead: str
    text: str


class Findings(NamedTuple):
    """The page's summary: a headline, at most MOST findings, and their caveats."""

    headline: str
    sentences: list[Finding]
    notes: list[str]


class Phrase(NamedTuple):
    """Wording of an axis: its subject, the word for the best, and those for less and more than another."""

    metric: str
    what: str
    best: str
    less: str
    more: str


PHRASES = (
    Phrase("latency_p50", "Median latency", "lowest", "lower", "higher"),
    Phrase("recovery_max", "Longest gap after a failure", "shortest", "shorter", "longer"),
    Phrase("fairness", "Fairness between flows", "highest", "lower", "higher"),
    Phrase("interests_network", "Interests for each item delivered", "fewest", "fewer", "more"),
    Phrase("pit_entries_mean", "PIT entries at a node", "fewest", "fewer", "more"),
    Phrase("state_entries_mean", "State entries at a node", "fewest", "fewer", "more"),
    Phrase("bytes_per_item", "Bytes on the wire for each item delivered", "fewest", "fewer", "more"),
    Phrase("signalling_per_move", "Signalling for each move", "least", "less", "more"),
    Phrase("fib_entries_mean", "Routes at a node", "fewest", "fewer", "more"),
    Phrase("airtime_per_item", "Time on air for each item delivered", "shortest", "shorter", "longer"),
    Phrase("asking_per_item", "Vectors and claims for each item delivered", "fewest", "fewer", "more"),
    Phrase("replicas", "Messages held for others at a node", "fewest", "fewer", "more"),
    Phrase("queue_p99", "Queue at the busiest link", "shortest", "shorter", "longer"),
    Phrase("latency_p99", "99th percentile of latency", "lowest", "lower", "higher"),
    Phrase("first_item_p50", "First item after joining", "soonest", "sooner", "later"),
)
"""The axes with findings, the most informative first; at most MOST are used."""


def findings(
    comparison: Rows,
    axes: list[Axis],
    manifest: Manifest,
    losses: Rows,
    subscribers: Rows,
) -> Findings:
    """Return the findings of a comparison: rows of analysis.metrics.comparison.compare, with their ranks.

    `losses` has the rows of analysis.tables.link_transits.losses, `subscribers` those of
    analysis.metrics.run.saturation.KEEPING_UP.
    """
    values = {(row["metric"], row["layering"]): row["value"] for row in comparison}
    by_key = {axis.metric.key: axis for axis in axes}
    sentences = [
        _delivery(values, manifest),
        *_behind(subscribers, manifest),
        *_defects(values, manifest),
        *_recoveries(losses, manifest),
    ]
    for phrase in PHRASES:
        axis = by_key.get(phrase.metric)
        if axis is not None:
            sentences += _axis(axis, phrase, values, manifest)
    return Findings(_headline(axes, values, manifest), sentences[:MOST], list(_notes(values, manifest)))


def unranked(values: Values, layerings: Sequence[str]) -> dict[str, str]:
    """Return the layerings with unranked times, and why."""
    keys = ("fell_behind", "cut_off", "delivered_share")
    whys = {x: why_unranked({key: values.get((key, x)) for key in keys}) for x in layerings}
    return {layering: why for layering, why in whys.items() if why}


def joined(names: Sequence[str]) -> str:
    """Join names: "a, b and c"."""
    return ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else names[0]


def _headline(axes: list[Axis], values: Values, manifest: Manifest) -> str:
    layerings = manifest.layerings
    unfair = unranked(values, layerings)
    left = [x for x in unfair if values.get(("fell_behind", x)) or values.get(("cut_off", x))]
    lacking = [x for x in unfair if x not in left]
    said = f"{joined(left)} did not keep up." if left else ""
    if lacking:
        said = f"{said} {joined(lacking)} {'lacks' if len(lacking) == 1 else 'lack'} items.".strip()
    if len(layerings) == 1:
        late = values["latency_p50", layerings[0]]
        if left or late is None:
            return said or "Nothing was delivered."
        return f"Half of what {layerings[0]} delivered took at most {with_unit(late, 'ms')}."
    rivals = [x for x in layerings if x not in unfair]
    if unfair and len(rivals) < 2:
        return f"{said} Only {rivals[0]} delivered what was expected." if rivals else said
    wins: Counter[str] = Counter()
    decided = 0
    for axis in axes:
        ranks = {one.layering: one.rank for one in axis.standings if one.rank and one.layering in rivals}
        if len(set(ranks.values())) > 1:
            decided += 1
            wins.update(x for x, place in ranks.items() if place == min(ranks.values()))
    if not wins:
        return f"{said} {'None of the others' if unfair else 'No layering'} is ahead of another.".strip()
    among = "Of the others, " if unfair else ""
    order = sorted(wins, key=lambda x: (-wins[x], layerings.index(x)))
    counts = [f"{x} on {wins[x]}" for x in order[1:4]]
    rest = f"; {joined(counts)}" if counts else ""
    on = "the one axis" if decided == 1 else f"{wins[order[0]]} of {decided} axes"
    return f"{said} {among}{order[0]} is first on {on}{rest}.".strip()


def _delivery(values: Values, manifest: Manifest) -> Finding:
    subscribers = manifest.workload.subscribers
    expected = manifest.expected_deliveries
    shares = {x: values["delivered", x] for x in manifest.layerings}
    if all(delivered == expected for delivered in shares.values()):
        every = {1: manifest.layerings[0], 2: "Both layerings"}.get(len(shares), "Every layering")
        if expected == manifest.workload.items * subscribers:
            items = pretty(manifest.workload.items)
            whom = f"all {subscribers} subscribers" if subscribers != 1 else "the subscriber"
            return Finding("Nothing is missing.", f"{every} delivered all {items} items to {whom}.")
        return Finding(
            "Nothing is missing.", f"{every} made all {pretty(expected)} deliveries that were expected."
        )
    whole = [layering for layering, delivered in shares.items() if delivered == expected]
    counts = [f"{pretty(n)} under {layering}" for layering, n in shares.items() if n != expected]
    if whole:
        counts.append(f"all under {joined(whole)}")
    return Finding(
        "Not all arrived.", f"Of {pretty(expected)} deliveries expected, {joined(counts)} took place."
    )


def _behind(subscribers: Rows, manifest: Manifest) -> Iterator[Finding]:
    """Return the layerings that did not keep up, or were cut off, with their worst subscriber."""
    behind, cut_off = [], []
    for layering in manifest.layerings:
        rows = [row for row in subscribers if row["layering"] == layering]
        late = [row for row in rows if row["fell_behind"]]
        if late:
            worst = max(late, key=lambda row: row["quarters_ms"][3])
            first, *_, last = (duration(quarter * 1e6) for quarter in worst["quarters_ms"])
            of = f"{pretty(worst['waiting'])} of {pretty(worst['expected'])}"
            behind.append((layering, f"{of} under {layering} (at {worst['node']}, from {first} to {last})"))
        at_last = [row["at_last"] for row in rows if row["cut_off"]]
        if at_last:
            cut_off.append((layering, f"{pretty(sum(at_last))} under {layering}"))
    if behind:
        yield Finding(
            f"{joined([layering for layering, _ in behind])} did not keep up, so no latency is ranked there.",
            "It tells how long the run was. So many items were still to come when the last was published, "
            "and so much the median latency grew from the first quarter of items to the last: "
            f"{joined([text for _, text in behind])}.",
        )
    if cut_off:
        were = "was" if len(cut_off) == 1 else "were"
        yield Finding(
            f"{joined([layering for layering, _ in cut_off])} {were} still delivering when the run ended.",
            "Deliveries in the last moments before subscriptions ended, to subscribers that lacked items: "
            f"{joined([text for _, text in cut_off])}.",
        )


def _defects(values: Values, manifest: Manifest) -> Iterator[Finding]:
    for metric, what in (("twice", "twice"), ("out_of_order", "out of order")):
        faulty = {x: count for x in manifest.layerings if (count := values[metric, x])}
        if faulty:
            counts = [f"{with_unit(count, 'items')} under {layering}" for layering, count in faulty.items()]
            yield Finding("A defect:", f"{joined(counts)} delivered {what}.")


def _recoveries(losses: Rows, manifest: Manifest) -> Iterator[Finding]:
    """Return the recovery times of items that a link lost."""
    times: dict[str, list[float]] = {layering: [] for layering in manifest.layerings}
    never: Counter[str] = Counter()
    for row in losses:
        if row["recovery_ns"] is None:
            never[row["layering"]] += 1
        else:
            times[row["layering"]].append(row["recovery_ns"] / 1e6)
    medians = {layering: median(known) for layering, known in times.items() if known}
    if not medians or (len(medians) > 1 and max(medians.values()) < NOTABLE * min(medians.values())):
        return
    order = sorted(medians, key=medians.__getitem__)
    said = [f"{with_unit(medians[x], 'ms')} under {x} (n = {len(times[x])})" for x in order]
    gone = [f"{count} under {layering}" for layering, count in never.items()]
    yield Finding(
        f"{order[0]} mends a link’s loss soonest." if len(order) > 1 else "Recovery after a loss:",
        f"Half of the items that a link lost were there after {joined(said)}, counted from when they were "
        "due." + (f" Never there: {joined(gone)}." if gone else ""),
    )


def _axis(axis: Axis, phrase: Phrase, values: Values, manifest: Manifest) -> Iterator[Finding]:
    """Return the first layering on an axis and the position of all others, if notable."""
    unfair = unranked(values, manifest.layerings)
    ranked = [(one.layering, one.value) for one in axis.standings if one.rank and one.layering not in unfair]
    ranked.sort(key=lambda pair: pair[1] or 0.0, reverse=axis.metric.better == "higher")
    if not ranked:
        return
    (first, best), (last, worst) = ranked[0], ranked[-1]
    assert best is not None  # a rank implies a value
    assert worst is not None
    low, high = sorted((best, worst))
    if len(manifest.layerings) > 1 and (len(ranked) < 2 or high < NOTABLE * low):
        return
    leaders = [layering for layering, value in ranked if layering == first or alike(value, best)]
    figures = [f"{pretty(value)} under {layering}" for layering, value in ranked]
    figures[0] = f"{with_unit(best, axis.metric.unit)} under {first}"
    lead = f"{phrase.what}:"
    if len(ranked) > 1:
        than = compared(best, worst, phrase.less, phrase.more)
        lead = f"{phrase.what}: {phrase.best} under {joined(leaders)}, {than} than under {last}."
    text = f"{joined(figures)}{_enough(phrase.metric, [x for x, _ in ranked], values)}."
    text = f"{text[0].upper()}{text[1:]}"
    yield Finding(lead, f"{text}{''.join(_bound(phrase.metric, first, values))}")


def _enough(metric: str, layerings: Sequence[str], values: Values) -> str:
    """Return the number of deliveries behind latencies."""
    if not metric.startswith("latency"):
        return ""
    counts = {x: pretty(values["delivered", x]) for x in layerings}
    if len({*counts.values()}) == 1:
        return f" (n = {next(iter(counts.values()))})"
    return f" (n = {', '.join(f'{count} under {x}' for x, count in counts.items())})"


def _bound(metric: str, layering: str, values: Values) -> Iterator[str]:
    """Return a layering's distance from its lower bound."""
    if metric == "latency_p50" and (late := values["latency_ratio_p50", layering]) is not None:
        how_far = "is that" if late <= NEAR else f"is {excess(late)} that"
        bound = with_unit(values["bound_p50", layering], "ms")
        yield f" With nothing in the way an item takes {bound}: the median of {layering} {how_far}."
    if metric == "bytes_per_item" and (wire := values["wire_ratio", layering]) is not None:
        bound = with_unit(values["bound_bytes_per_item", layering], "bytes")
        how_far = "are those" if wire <= NEAR else f"are {excess(wire)} that"
        yield f" Each item once over each link takes {bound}: those of {layering} {how_far}."


def _notes(values: Values, manifest: Manifest) -> Iterator[str]:
    yield f"All of this is one run with seed {manifest.seed}, so it has no confidence intervals."
    for layering, why in unranked(values, manifest.layerings).items():
        if why.startswith("delivered"):
            yield (
                f"{layering} {why} of what was expected: what never arrived has no latency, so its own is "
                "not ranked."
            )
    if manifest.layerings and all(values["latency_p99", x] is None for x in manifest.layerings):
        counts = [values["delivered", x] or 0 for x in manifest.layerings]
        if any(counts):
            yield (
                f"Of {pretty(max(counts))} deliveries the slowest hundredth are too few for a 99th "
                "percentile; it takes 299."
            )
    for layering in manifest.layerings:
        if dropped := values["capture_drops", layering]:
            yield (
                f"The capture of {layering} lost {with_unit(dropped, 'frames')}: what is told from packets "
                "is too low there."
            )
