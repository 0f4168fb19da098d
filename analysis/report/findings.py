"""Findings: sentences computed from the comparison, honest whichever way the numbers fall."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from analysis.manifest import Manifest
from analysis.report.numbers import compared, pretty, with_unit


class Finding(NamedTuple):
    """A sentence about one metric: `text` holds {first}, {a}, {other}, {b} and {compared}."""

    metric: str
    text: str
    less: str
    more: str


FINDINGS = (
    Finding(
        "interests_per_item",
        "For each item delivered, a subscriber’s node sent {b} Interests under {other} and "
        "{a} under {first}: {compared}.",
        "fewer",
        "more",
    ),
    Finding(
        "latency_p50",
        "Half of the deliveries took at most {b} under {other} and {a} under {first}: {compared}.",
        "less",
        "more",
    ),
    Finding(
        "latency_p99",
        "The slowest hundredth of them took {b} or longer under {other} and {a} under {first}: {compared}.",
        "less",
        "more",
    ),
    Finding(
        "pit_entries_mean",
        "A node’s PIT held {b} on average under {other} and {a} under {first}: {compared}.",
        "fewer",
        "more",
    ),
    Finding(
        "pit_bytes_mean",
        "That state came to {b} a node under {other} and {a} under {first}: {compared}.",
        "fewer",
        "more",
    ),
    Finding(
        "bytes_per_item",
        "An item brought to a subscriber put {b} on the wire under {other} and {a} under {first}: {compared}.",
        "fewer",
        "more",
    ),
)


def findings(comparison: list[dict[str, Any]], manifest: Manifest) -> list[str]:
    """Return the findings of a comparison (the rows of analysis.compare.compare); each names both figures."""
    values = {(row["metric"], row["layering"]): row["value"] for row in comparison}
    units = {row["metric"]: row["unit"] for row in comparison}
    first, *others = manifest.layerings
    told = [_delivery(values, manifest)]
    for finding in FINDINGS:
        for other in others:
            a, b = values[finding.metric, first], values[finding.metric, other]
            if a is None or b is None:
                continue
            told.append(
                finding.text.format(
                    first=first,
                    other=other,
                    a=with_unit(a, units[finding.metric]),
                    b=with_unit(b, units[finding.metric]),
                    compared=compared(b, a, finding.less, finding.more),
                )
            )
    return told + list(_caveats(values, manifest))


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
                f"The capture of {layering} lost {with_unit(dropped, 'frames')}: what is told from packets is "
                "too low there."
            )
