"""Findings: sentences computed from the comparison, honest whichever way the numbers fall."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from analysis.manifest import Manifest
from analysis.report.numbers import compared, pretty, with_unit


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
        "Half of the deliveries took at most {b} under {other} and {a} under {first}.",
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


def findings(comparison: list[dict[str, Any]], manifest: Manifest) -> list[Told]:
    """Return the findings of a comparison (the rows of analysis.compare.compare)."""
    values = {(row["metric"], row["layering"]): row["value"] for row in comparison}
    units = {row["metric"]: row["unit"] for row in comparison}
    first, *others = manifest.layerings
    told = [Told("", _delivery(values, manifest))]
    for metric, noun, less, more, text in FINDINGS:
        for other in others:
            a, b = values[metric, first], values[metric, other]
            if a is not None and b is not None:
                figures = {"a": with_unit(a, units[metric]), "b": with_unit(b, units[metric])}
                told.append(
                    Told(
                        f"{other}: {compared(b, a, less, more)} {noun}.",
                        text.format(first=first, other=other, **figures),
                    )
                )
    return told + [Told("", text) for text in _caveats(values, manifest)]


def _delivery(values: dict[tuple[str, str], float], manifest: Manifest) -> str:
    subscribers = len(manifest.nodes("subscriber"))
    expected = manifest.workload.items * subscribers
    shares = {x: values["delivered", x] for x in manifest.layerings}
    if all(delivered == expected for delivered in shares.values()):
        every = "Both layerings" if len(shares) == 2 else "Every layering"
        items = pretty(manifest.workload.items)
        return f"{every} delivered all {items} items to all {subscribers} subscribers."
    counts = [f"{pretty(n)} under {layering}" for layering, n in shares.items()]
    return f"Of {pretty(expected)} deliveries expected, {' and '.join(counts)} took place."


def _caveats(values: dict[tuple[str, str], float], manifest: Manifest) -> Iterator[str]:
    if any(values["delivered_share", x] != 100 for x in manifest.layerings):
        yield "Latencies are those of items that arrived; what never arrived has none."
    for layering in manifest.layerings:
        if dropped := values["capture_drops", layering]:
            yield (
                f"The capture of {layering} lost {with_unit(dropped, 'frames')}: what is told from packets "
                "is too low there."
            )
