"""Findings of captures: conclusions from the numbers, in sentences, whichever way they fall."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from markupsafe import Markup, escape

from analysis.columns.rows import grouped, summed
from analysis.columns.values import ALL, layer_name
from analysis.decode.protocols.registry import in_datagrams
from analysis.files import Rows
from analysis.report.capture.endpoints import Way
from analysis.report.capture.plots import quantile
from analysis.report.words.findings import Finding
from analysis.report.words.numbers import about, duration, pretty
from analysis.report.words.sentences import joined, say

if TYPE_CHECKING:
    from analysis.report.capture.contents import Contents

MOST_RUNS = 4
"""Maximum number of captures listed one by one; beyond it, minimum and maximum."""

T = TypeVar("T", float, int, tuple[float, float, int])

UNEVEN = 1.5
"""A pair exchanges the most if it exceeds the average pair by this factor."""

NACKS = {50: "Congestion", 100: "Duplicate", 150: "NoRoute", 0: "no reason"}
"""Reasons of Nacks as NDNLPv2 names them."""


class RunFigures(NamedTuple):
    """Headline numbers of a run: Interests without retransmissions, each counted at one interface; those
    ended by Data, by a Nack, and unanswered; the median response time, ns, None without a response; and the
    peak of PIT entries of all nodes together.
    """

    run: str
    requests: int
    data: int
    nacked: int
    unanswered: int
    median_rtt_ns: float | None
    pit_peak: int

    def __str__(self) -> str:
        said = [about(self.requests, "Interest")]
        if self.requests:
            said.append(f"{_percent(100 * self.unanswered / self.requests)} without an answer")
        if self.median_rtt_ns is not None:
            said.append(f"half of all answers within {duration(self.median_rtt_ns)}")
        said.append(f"PIT of at most {about(self.pit_peak, 'entry')}" if self.pit_peak else "no PIT entry")
        return f"{self.run}: " + ", ".join(said)


def figures(given: "Contents") -> list[RunFigures]:
    """Return each run's figures."""
    asked = _sums(given.answers, "requests", "data", "nacked", "unanswered")
    halves = _round_trip(given, 0.5)
    peaks = {row["layering"]: row["peak_entries"] for row in given.pit_summary if row["node"] == ALL}
    return [
        RunFigures(
            run,
            requests=asked[run]["requests"],
            data=asked[run]["data"],
            nacked=asked[run]["nacked"],
            unanswered=asked[run]["unanswered"],
            median_rtt_ns=halves.get(run),
            pit_peak=peaks.get(run, 0),
        )
        for run in given.layerings
    ]


def capture_findings(given: "Contents", ways: list[Way]) -> list[Finding]:
    """Return the findings."""
    sentences = [
        *_largest_pair(ways, given.layerings),
        *_payload(given),
        *_round_trips(given),
        *_unanswered(given),
        *_nacks(given),
        *_retransmissions(given),
        *_pit(given),
        *_lifetimes(given),
        *_shared(given),
        *_long_lived(given),
        *_feeds(given),
    ]
    return sentences or [Finding("", say("capture.nothing"))]


def across(values: Mapping[str, T], given: "Contents", write: Callable[[T], str]) -> Markup:
    """Format a figure per capture: "3 in a and 4 in b", or minimum and maximum of many."""
    ordered = {run: values[run] for run in given.layerings if run in values}
    if len(given.layerings) == 1:
        return escape(write(next(iter(ordered.values()))))
    if len(values) > MOST_RUNS:
        order = sorted(ordered, key=lambda run: (ordered[run], given.layerings.index(run)))
        ordered = {run: values[run] for run in (order[0], order[-1])}
    said = [say("capture.in", value=write(value), run=run) for run, value in ordered.items()]
    return joined(said, last=" to " if len(values) > MOST_RUNS else " and ")


def _percent(value: float) -> str:
    return f"{pretty(value)}\N{NARROW NO-BREAK SPACE}%"


def _sums(rows: Rows, *names: str) -> dict[str, Counter[str]]:
    totals: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        for name in names:
            totals[row["layering"]][name] += row[name]
    return totals


def _largest_pair(ways: list[Way], layerings: list[str]) -> Iterator[Finding]:
    pairs: dict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    for way in ways:
        pairs[way.layering][min(way.sender, way.receiver), max(way.sender, way.receiver)] += way.bytes
    said = []
    for run in layerings[:MOST_RUNS]:
        found = pairs[run]
        if not found:
            continue
        (a, b), most = min(found.items(), key=lambda item: (-item[1], item[0]))
        if len(found) == 1 or most * len(found) < UNEVEN * found.total():
            continue
        where = f"in {run} " if len(layerings) > 1 else ""
        of = _percent(100 * most / (found.total() or 1))
        said.append(say("capture.pair.part", where=where, one=a, other=b, share=of, n=len(found)))
    if said:
        yield Finding(say("capture.pair"), joined(said, "; ", "; ") + ".")


def _payload(given: "Contents") -> Iterator[Finding]:
    shares = {}
    totals = summed(given.overhead, "bytes", "layering")
    # The payload of a tinySSB chunk is unknown, so its application share is, too.
    own = {layer_name(each.name, layer.key) for each in in_datagrams() for layer in each.layers}
    untold = {row["layering"] for row in given.overhead if row["layer"] in own and row["bytes"]}
    for row in given.overhead:
        if row["layer"] == "payload" and totals[row["layering"]] and row["layering"] not in untold:
            shares[row["layering"]] = 100 * row["bytes"] / totals[row["layering"]]
    if shares:
        yield _finding("capture.payload", shares=across(shares, given, _percent))


def _round_trip(given: "Contents", share: float) -> dict[str, float]:
    return {run: quantile(rows, share) or 0.0 for run, rows in grouped(given.rtt, "layering").items()}


def _round_trips(given: "Contents") -> Iterator[Finding]:
    halves, most = (_round_trip(given, share) for share in (0.5, 0.95))
    counts = _sums(given.rtt, "count")
    times = {run: (half, most.get(run, 0.0), counts[run]["count"]) for run, half in halves.items()}

    def write(figures: tuple[float, float, int]) -> str:
        half, most, count = figures
        tail = say("capture.trips.tail", share=_percent(95), time=duration(most)) if most else ""
        return say("capture.trips.part", half=duration(half), tail=tail, n=pretty(count))

    if times:
        yield _finding("capture.trips", times=across(times, given, write))


def _unanswered(given: "Contents") -> Iterator[Finding]:
    totals = _sums(given.answers, "requests", "unanswered")
    shares = {run: 100 * of["unanswered"] / of["requests"] for run, of in totals.items() if of["requests"]}
    if not shares:
        return
    asked = sum(of["requests"] for of in totals.values())
    if not any(shares.values()):
        yield _finding("capture.answered", n=pretty(asked))
        return
    worst = summed(given.prefixes, "unanswered", "prefix")
    where = Markup()
    if len(worst) > 1:
        prefix, count = min(worst.items(), key=lambda item: (-item[1], item[0]))
        of = sum(each["unanswered"] for each in totals.values())
        where = say("capture.unanswered.where", prefix=prefix, share=_percent(100 * count / of))
    yield _finding("capture.unanswered", shares=across(shares, given, _percent), where=where)


def _nacks(given: "Contents") -> Iterator[Finding]:
    reasons = summed(given.nacks, "requests", "nack_reason")
    if reasons:
        named = {NACKS.get(reason, f"reason {reason}"): count for reason, count in reasons.items()}
        said = ", ".join(f"{name} {pretty(count)}" for name, count in sorted(named.items()))
        runs = summed(given.nacks, "requests", "layering")
        count = across(runs, given, lambda each: about(each, "Interest"))
        yield _finding("capture.nacks", count=count, reasons=said)


def _retransmissions(given: "Contents") -> Iterator[Finding]:
    totals = _sums(given.answers, "interests", "retransmitted")
    shares = {
        run: 100 * of["retransmitted"] / of["interests"] for run, of in totals.items() if of["interests"]
    }
    if any(shares.values()):
        yield _finding("capture.again", shares=across(shares, given, _percent))


def _pit(given: "Contents") -> Iterator[Finding]:
    peaks: dict[str, tuple[int, str, int]] = {}
    for row in given.pit_summary:
        if row["node"] != ALL:
            before = peaks.get(row["layering"], (0, "", 0))
            if row["peak_entries"] > before[0]:
                peaks[row["layering"]] = (row["peak_entries"], row["node"], row["peak_ns"])
    runs = sorted(peaks, key=lambda run: (-peaks[run][0], given.layerings.index(run)))[:MOST_RUNS]
    said = []
    for run in runs:
        count, node, time = peaks[run]
        whole = run if len(given.layerings) > 1 else "the capture"
        when = f"{duration(time)} into {whole}" if time > 0 else f"at the start of {whole}"
        said.append(say("capture.pit.part", node=node, count=about(count, "entry"), when=when))
    if said:
        more = "" if len(peaks) <= MOST_RUNS else " (the highest)"
        yield _finding("capture.pit", parts=joined(said, "; ", "; "), more=more)


def _lifetimes(given: "Contents") -> Iterator[Finding]:
    half = {run: quantile(rows, 0.5) or 0.0 for run, rows in grouped(given.lifetimes, "layering").items()}
    if half:
        ends = summed(given.outcomes, "entries", "outcome")
        total = ends.total()
        order = sorted(ends.items(), key=lambda item: (-item[1], item[0]))
        parts = ", ".join(f"{_percent(100 * count / total)} {outcome}" for outcome, count in order)
        said = f"; {parts}" if len(given.layerings) == 1 else ""
        yield _finding("capture.lives", times=across(half, given, duration), ends=said)


def _shared(given: "Contents") -> Iterator[Finding]:
    classic = [row for row in given.outcomes if row["kind"] == "classic"]
    totals = _sums(classic, "entries", "aggregated")
    shares = {run: 100 * of["aggregated"] / of["entries"] for run, of in totals.items()}
    if any(shares.values()):
        yield _finding("capture.shared", shares=across(shares, given, _percent))


def _long_lived(given: "Contents") -> Iterator[Finding]:
    feeds = [row for row in given.outcomes if row["kind"] == "feed"]
    if not feeds:
        return
    subscriptions = sum(row["entries"] for row in feeds)
    items, asks = (sum(row[name] for row in feeds) for name in ("items_out", "interests_in"))
    if not asks:
        items, asks = (sum(row[name] for row in feeds) for name in ("items_in", "interests_out"))
    renewals = sum(row["renewals"] for row in feeds)
    peak = max(row["peak_credit"] or 0 for row in feeds)
    yield _finding(
        "capture.long",
        asks=pretty(asks),
        n=about(subscriptions, "subscription"),
        ratio=say("capture.long.ratio", items=about(items / asks, "item")) if asks else "",
        renewals=pretty(renewals),
        peak=about(peak, "item"),
    )


def _feeds(given: "Contents") -> Iterator[Finding]:
    if not given.feeds:
        return
    newest: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for row in given.progress:
        of = newest[row["layering"], row["feed"]]
        of[row["node"]] = max(of.get(row["node"], 0), row["newest"])
    behind = sorted(
        (max(nodes.values()) - last, node, run)
        for (run, _), nodes in newest.items()
        for node, last in nodes.items()
        if last < max(nodes.values())
    )
    names = {row["feed"] for row in given.feeds}
    end = say("capture.feeds.whole")
    if behind:
        lag, node, run = behind[-1]
        end = say("capture.feeds.behind", n=len(behind), node=node, lag=lag, run=run)
    yield _finding(
        "capture.feeds",
        feeds=about(len(names), "feed"),
        items=about(max(row["items"] for row in given.feeds), "item"),
        most="" if len(names) == 1 else " at most",
        end=end,
    )


def _finding(key: str, **parts: object) -> Finding:
    return Finding(say(key), say(f"{key}.text", **parts))
