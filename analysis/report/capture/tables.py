"""Tables of the page of captures, and descriptions of the captures."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from analysis.columns.rows import grouped
from analysis.files import Rows
from analysis.report.capture.contents import Contents
from analysis.report.capture.endpoints import Way, natural_order
from analysis.report.capture.plots import quantile
from analysis.report.words.numbers import volume
from captures.layers.link_types import remedy

MOST_ROWS = 24
"""Rows of a table in the page."""

MOST_TALKS = 12

MOST_REASONS = 12
"""Maximum number of frame problems listed per capture."""


def problems(given: Contents) -> Iterator[str]:
    """Return problems of reading, unknowns, and inferred facts."""
    several = len(given.layerings) > 1
    for run in given.layerings:
        of = f"{run}: " if several else ""
        report = given.reports.get(run, {})
        counted = sorted(report.get("problems", {}).items(), key=lambda item: (-item[1], item[0]))
        for reason, count in counted[:MOST_REASONS]:
            yield f"{of}{count} {'frame is' if count == 1 else 'frames are'} not as usual: {reason}."
        if rest := counted[MOST_REASONS:]:
            others = sum(count for _, count in rest)
            yield f"{of}{others} more frames are not, for {len(rest)} other reasons (summary.json)."
        if advice := remedy(list(report.get("problems", {}))):
            yield f"{of}{advice[0].upper()}{advice[1:]}."
        captures = report.get("captures", [])
        for each in captures:
            if each.get("copy_of"):
                yield (
                    f"{of}{each['path']} has as many frames as {each['copy_of']}, and begins with the same"
                    " at the same times: a copy? What is in both is counted twice."
                )
            if not each["frames"]:
                reasons = ", ".join(dict.fromkeys(damage[2] for damage in each["damages"]))
                what = "it" if len(captures) == 1 else each["path"]
                yield f"{of}there is no frame in {what}" + (f": {reasons}." if reasons else ".")
        unread = [damage for each in captures if not each["frames"] for damage in each["damages"]]
        damages = [damage for damage in report.get("damages", []) if damage not in unread]
        for reason in dict.fromkeys(each[2] for each in damages):
            size = sum(each[1] for each in damages if each[2] == reason)
            yield f"{of}the file is damaged, {reason}: {volume(size)} were left out."
        if report.get("gaps") or report.get("skipped"):
            skipped = volume(report.get("skipped", 0))
            yield f"{of}TCP streams have {report.get('gaps', 0)} gaps; {skipped} in them belong to no packet."
        addresses = {address for each in captures for address in each.get("local", {}).values()}
        if addresses:
            who = ", ".join(sorted(addresses))
            yield (
                f"{of}what was sent and what received is inferred: {who} takes part in nearly all frames, so"
                " it captured them (else: --local)."
            )
        mine = [row for row in given.interfaces if row["layering"] == run]
        if not mine and not captures:
            yield f"{of}there is no frame in it."
        unknown = sum(row["undirected"] for row in mine)
        if unknown:
            frames = sum(row["frames"] for row in mine)
            yield (
                f"{of}{unknown} of {frames} frames do not say whether they came in or went out, so what a PIT"
                " held is told from Interests and answers alone, wherever they were seen."
            )
    if any(row["least_ns"] < 0 for row in given.hops):
        yield (
            "Clocks disagree: packets arrive before they are sent (the table of clocks says by how much)."
            " Latencies between such nodes are wrong by that; round trips, which one clock measures, are not."
        )
    elif given.hops or given.latency:
        yield ("Latencies between nodes are as right as their clocks agree; round trips take one clock only.")


def clocks(given: Contents) -> Rows:
    """Return for each pair of nodes, both ways: packets, minimum and median time, and the clock offset.

    With equal delays both ways, the offset is half the difference of the minimum times (NTP, RFC 5905 section
    8).
    """
    least = {(row["layering"], row["sender"], row["receiver"]): row for row in given.hops}
    rows = []
    for (run, a, b), there in sorted(least.items(), key=lambda item: (item[0][0], natural_order(item[0][1]))):
        back = least.get((run, b, a))
        if back is None or natural_order(a) < natural_order(b):
            apart = None if back is None else (there["least_ns"] - back["least_ns"]) / 2
            rows.append(
                {
                    "layering": run,
                    "a": a,
                    "b": b,
                    "packets": there["packets"] + (back["packets"] if back else 0),
                    "there": there["least_ns"] / 1e6,
                    "back": back["least_ns"] / 1e6 if back else None,
                    "apart": None if apart is None else apart / 1e6,
                    "negative": there["negative"] + (back["negative"] if back else 0),
                }
            )
    rows.sort(
        key=lambda row: (given.layerings.index(row["layering"]), -row["negative"], natural_order(row["a"]))
    )
    return rows[:MOST_ROWS]


def largest_senders(ways: list[Way], layerings: list[str]) -> Rows:
    """Return layering, sender, receiver, packets, data, bytes of the largest senders."""
    sums: dict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
    for way in ways:
        of = sums[way.layering, way.sender, way.receiver]
        of.update(packets=way.packets, data=way.data, bytes=way.bytes)
    rows: Rows = [{"layering": run, "sender": a, "receiver": b, **of} for (run, a, b), of in sums.items()]
    rows.sort(
        key=lambda row: (-row["bytes"], layerings.index(row["layering"]), row["sender"], row["receiver"])
    )
    return rows[:MOST_TALKS]


def state_rows(given: Contents) -> Rows:
    """Return for each run and node: PIT entries (mean and peak), outcomes of entries, and aggregation."""
    ends: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for row in given.outcomes:
        of = ends[row["layering"], row["node"]]
        of["entries"] += row["entries"]
        of[row["outcome"]] += row["entries"]
        for name in ("aggregated", "interests_in", "interests_out", "renewals"):
            of[name] += row[name]
    half = grouped(given.lifetimes, "layering", "node")
    levels = {(row["layering"], row["node"]): row for row in given.pit_summary}
    columns = ("entries", "satisfied", "nacked", "expired", "open", "aggregated")
    rows: Rows = []
    for (run, node), of in ends.items():
        level = levels.get((run, node))
        middle = quantile(half[run, node], 0.5)
        rows.append(
            {
                "layering": run,
                "node": node,
                "mean": level and level["mean_entries"],
                "peak": level and level["peak_entries"],
                "peak_bytes": level and level["peak_bytes"],
                "life": None if middle is None else middle / 1e6,
                **{name: of[name] for name in columns},
            }
        )
    rows.sort(
        key=lambda row: (-row["entries"], given.layerings.index(row["layering"]), natural_order(row["node"]))
    )
    return rows[:MOST_ROWS]


def prefix_rows(given: Contents, prefixes: Sequence[str]) -> Rows:
    """Return the rows of the table of prefixes: captured.answers, with round-trip times in ms."""
    times = grouped(given.rtt_prefixes, "layering", "prefix")
    rows = []
    for prefix in prefixes:
        for row in given.prefixes:
            if row["prefix"] == prefix:
                found = times[row["layering"], prefix]
                half, most = (quantile(found, share) for share in (0.5, 0.95))
                rows.append(
                    row
                    | {"median": half and half / 1e6, "most": most and most / 1e6}
                    | {"lost": 100 * row["unanswered"] / row["requests"]}
                )
    return rows
