"""Findings: sentences computed from the comparison, honest whichever way the numbers fall.

One layering is the subject: where it is first on an axis, and where another is. Few layerings are also
compared pair by pair.
"""

from collections import Counter
from collections.abc import Iterator
from statistics import median
from typing import Any, NamedTuple

from analysis.manifest import Manifest
from analysis.report.numbers import compared, excess, pretty, with_unit
from analysis.report.ranks import Axis, Standing


class Finding(NamedTuple):
    """What is said about a metric: a lead, and a sentence that names both figures.

    `less` and `more` begin the lead ("24 times fewer Interests"); `text` holds {other}, {b}, {first}, {a}.
    """

    metric: str
    noun: str
    less: str
    more: str
    text: str


class Told(NamedTuple):
    """A finding of a run: its lead, empty for a plain remark, and its sentence."""

    lead: str
    text: str


SUBJECT = "lli"
"""The layering that this project is about; in a run without it, the last one is the subject."""

MOST_PAIRS = 3
"""Layerings that are compared pair by pair; of more there would be too many sentences."""

WHOLE = 99.5
"""A layering that delivered a smaller share of what was expected, in %, is said to be short of it."""

NEAR = 1.05
"""A ratio to a bound up to this one counts as reaching it."""

FINDINGS = (
    Finding(
        "interests_per_item",
        "Interests",
        "fewer",
        "more",
        "For each item delivered, a subscriber’s node sent {b} under {other} and {a} under {first}.",
    ),
    Finding(
        "latency_p50",
        "median latency",
        "lower",
        "higher",
        "Half of the deliveries took at most {b} under {other} (n = {n_b}) and {a} under {first} "
        "(n = {n_a}).",
    ),
    Finding(
        "latency_p99",
        "99th percentile of latency",
        "lower",
        "higher",
        "The slowest hundredth of the deliveries took {b} or longer under {other} and {a} under {first}.",
    ),
    Finding(
        "pit_entries_mean",
        "PIT entries",
        "fewer",
        "more",
        "A node’s PIT held {b} on average under {other} and {a} under {first}.",
    ),
    Finding(
        "pit_bytes_mean",
        "PIT bytes",
        "fewer",
        "more",
        "That state came to {b} a node on average under {other} and {a} under {first}.",
    ),
    Finding(
        "bytes_per_item",
        "bytes on the wire",
        "fewer",
        "more",
        "One delivery of an item cost {b} under {other} and {a} under {first}, all links together.",
    ),
)


def findings(
    comparison: list[dict[str, Any]], axes: list[Axis], manifest: Manifest, losses: list[dict[str, Any]]
) -> list[Told]:
    """Return the findings of a comparison: the rows of analysis.compare.compare, and their ranks.

    `losses` has the rows of analysis.crossings.losses.
    """
    values = {(row["metric"], row["layering"]): row["value"] for row in comparison}
    units = {row["metric"]: row["unit"] for row in comparison}
    first, *others = manifest.layerings
    told = [Told("", _delivery(values, manifest))]
    subject = SUBJECT if SUBJECT in manifest.layerings else manifest.layerings[-1]
    told += _bounds(subject, values)
    if others:
        told += _standing(subject, axes, values, is_brief=len(manifest.layerings) <= MOST_PAIRS)
    if len(manifest.layerings) > MOST_PAIRS:
        others = []
    for metric, noun, less, more, text in FINDINGS:
        for other in others:
            a, b = values[metric, first], values[metric, other]
            if a is not None and b is not None:
                figures = {"a": with_unit(a, units[metric]), "b": with_unit(b, units[metric])}
                figures |= {
                    "n_a": pretty(values["delivered", first]),
                    "n_b": pretty(values["delivered", other]),
                }
                told.append(
                    Told(
                        f"{other}: {compared(b, a, less, more)} {noun}.",
                        text.format(first=first, other=other, **figures),
                    )
                )
    told += _recoveries(losses, manifest)
    return told + [Told("", text) for text in _caveats(values, manifest)]


def _recoveries(losses: list[dict[str, Any]], manifest: Manifest) -> Iterator[Told]:
    """Say how soon an item that a link has lost was there all the same."""
    times: dict[str, list[float]] = {layering: [] for layering in manifest.layerings}
    never: Counter[str] = Counter()
    for row in losses:
        if row["recovery_ns"] is None:
            never[row["layering"]] += 1
        else:
            times[row["layering"]].append(row["recovery_ns"] / 1e6)
    medians = {layering: median(known) for layering, known in times.items() if known}
    if not medians:
        return
    order = sorted(medians, key=medians.__getitem__)
    said = [f"{with_unit(medians[x], 'ms')} under {x} (n = {len(times[x])})" for x in order]
    gone = [f"{count} under {layering}" for layering, count in never.items()]
    yield Told(
        f"{order[0]} mends a link’s loss soonest." if len(order) > 1 else "Recovery after a loss:",
        f"Half of the items that a link lost were there after {_and(said)}, counted from when they were due."
        + (f" Never there: {_and(gone)}." if gone else ""),
    )


def _bounds(subject: str, values: dict[tuple[str, str], float]) -> Iterator[Told]:
    """Say how far the subject is from what physics allows."""
    late = values["latency_ratio_p50", subject]
    if late is not None:
        reaches = f"{subject} delivers at one-way path delay." if late <= NEAR else ""
        yield Told(
            reaches or f"{subject}: {excess(late)} one-way path delay.",
            f"The median delivery took {late:.3g} times what the links of its path and the item’s own "
            "bytes take when nothing is in the way.",
        )
    wire = values["wire_ratio", subject]
    if wire is not None:
        yield Told(
            f"{subject}: {excess(wire)} the fewest bytes possible.",
            f"A delivered item cost {with_unit(values['bytes_per_item', subject], 'bytes')} on the wire; "
            f"each item once over each link that it has to cross takes "
            f"{with_unit(values['bound_bytes_per_item', subject], 'bytes')}.",
        )


def _standing(
    subject: str, axes: list[Axis], values: dict[tuple[str, str], float], is_brief: bool
) -> Iterator[Told]:
    """Say on which axes the subject is first, and on which it is not and who is."""
    ranked = [(axis, own) for axis in axes if axis.decides and (own := _of(axis, subject)).rank is not None]
    if not ranked:
        return
    first = [axis for axis, own in ranked if own.rank == 1]
    alone = [axis.metric.axis for axis in first if len(_best(axis)) == 1]
    shared = [axis.metric.axis for axis in first if len(_best(axis)) > 1]
    words = [f"{how} on {_and(names)}" for how, names in (("alone", alone), ("with others", shared)) if names]
    yield Told(
        f"{subject} is first on {len(first) or 'none'} of {len(ranked)} axes{':' if first else '.'}",
        f"{'; '.join(words)}." if first else "",
    )
    lost = [(axis, own) for axis, own in ranked if own.rank != 1]
    if is_brief and lost:
        yield Told(f"{subject} loses on", f"{_and([axis.metric.axis for axis, _ in lost])}.")
        return
    for axis, own in lost:
        winners = [standing.layering for standing in _best(axis)]
        short = {x: values["delivered_share", x] for x in winners if values["delivered_share", x] < WHOLE}
        but = "".join(f" (which delivered {pretty(share)} %)" for share in list(short.values())[:1])
        yield Told(
            f"{subject} loses on {axis.metric.axis}:",
            f"{with_unit(own.value, axis.metric.unit)}, against "
            f"{with_unit(_best(axis)[0].value, axis.metric.unit)} under {_and(winners)}{but}; "
            f"place {own.rank} of {sum(standing.rank is not None for standing in axis.standings)}.",
        )


def _best(axis: Axis) -> list[Standing]:
    return [standing for standing in axis.standings if standing.rank == 1]


def _of(axis: Axis, layering: str) -> Standing:
    return next(standing for standing in axis.standings if standing.layering == layering)


def _and(names: list[str]) -> str:
    return ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else names[0]


def _delivery(values: dict[tuple[str, str], float], manifest: Manifest) -> str:
    subscribers = len(manifest.nodes("subscriber"))
    expected = manifest.expected_deliveries
    shares = {x: values["delivered", x] for x in manifest.layerings}
    if all(delivered == expected for delivered in shares.values()):
        every = "Both layerings" if len(shares) == 2 else "Every layering"
        if expected == manifest.workload.items * subscribers:
            items = pretty(manifest.workload.items)
            whom = f"all {subscribers} subscribers" if subscribers != 1 else "the subscriber"
            return f"{every} delivered all {items} items to {whom}."
        return f"{every} made all {pretty(expected)} deliveries that were expected."
    whole = [layering for layering, delivered in shares.items() if delivered == expected]
    counts = [f"{pretty(n)} under {layering}" for layering, n in shares.items() if n != expected]
    if whole:
        counts.append(f"all under {_and(whole)}")
    return f"Of {pretty(expected)} deliveries expected, {_and(counts)} took place."


def _caveats(values: dict[tuple[str, str], float], manifest: Manifest) -> Iterator[str]:
    yield (
        f"All of this is one run with seed {manifest.seed}, so it has no confidence intervals; "
        f"feednet run {manifest.scenario} --repeat 10 repeats it with ten seeds and gives them."
    )
    if any(values["delivered_share", x] != 100 for x in manifest.layerings):
        yield "Latencies are those of items that arrived; what never arrived has none."
    for metric, what in (("twice", "twice"), ("out_of_order", "out of order")):
        faulty = {x: values[metric, x] for x in manifest.layerings if values[metric, x]}
        for layering, count in faulty.items():
            yield f"A defect: {layering} delivered {with_unit(count, 'items')} {what}."
    for layering in manifest.layerings:
        if dropped := values["capture_drops", layering]:
            yield (
                f"The capture of {layering} lost {with_unit(dropped, 'frames')}: what is told from packets "
                "is too low there."
            )
