"""Views of an application: how often, how far and how late each reader's view changes its past, and how the
views of readers differ.

A reader's view is made of the messages that the reader has written or got, by the application's own code, a
message at a time, as messages come (ssb.applications.histories). A message changes the past of a view if it
gets a place before messages that came earlier, and changes what the view shows after these (Tarr et al.,
"Secure Scuttlebutt", ACM ICN 2019, section 3.3, figure 4). Messages that come at one instant are shown
together.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from hashlib import sha256
from itertools import pairwise
from math import comb
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from analysis.files import Rows
from analysis.metrics.aggregates import Totals, by_layering, ratio
from analysis.packet_schema import schema_of
from analysis.run.context import Case, Cases
from forwarder.wire.name import to_uri
from ssb.applications.histories import View, view
from ssb.export import read_entries
from ssb.message import Message
from ssb_over_ndn.naming import log_name

VIEWS = schema_of(
    "layering string, node string, time int64, feed string, seq int64, own bool, moved int64, reordered"
    " int64, late_ns int64, messages string, view string"
)
"""A row per reader and message of the application, in the order in which its view takes them in. own: the
reader has written it; moved: messages that were there before, and now stand behind it or have another state
behind them; reordered: messages that change their order, too, null outside threads; late_ns: time since the
first of those moved came, null if there is none. messages, view: digests of the view's messages, and of what
it shows.
"""

DIFFERENCES = schema_of("layering string, time int64, pairs int64, unequal int64")
"""A row per change: pairs of readers, and how many of them have unequal views from `time` on, ns."""


def views(cases: Cases, events: pa.Table) -> pa.Table:
    """Return VIEWS of the cases with an application; `events` are those of nodes' programs."""
    rows: Rows = []
    for layering, case in cases.items():
        if case.manifest.workload.application:
            own = events.filter(pc.equal(events["layering"], layering))
            concerns = pc.is_in(own["event"], pa.array(["published", "delivered"]))
            told = own.filter(concerns).sort_by([("time", "ascending"), ("line", "ascending")]).to_pylist()
            rows += ({"layering": layering} | row for row in _taken_in(case, told))
    return pa.Table.from_pylist(rows, VIEWS)


def _messages(case: Case) -> dict[tuple[str, int], Message]:
    """Return the messages of a run by feed and number."""
    with case.run.feeds.open("rb") as lines:
        messages = [entry.parse() for entry in read_entries(lines, case.run.feeds.name)]
    return {(to_uri(log_name(message.author)), message.sequence): message for message in messages}


def _taken_in(case: Case, told: Rows) -> Iterator[dict[str, Any]]:
    messages, load = _messages(case), case.manifest.workload
    readers = {node: _Reader(view(load.application, messages.values())) for node in load.expected}
    for row in told:
        place = row["feed"], row["seq"]
        if row["node"] in readers and place in messages:
            changed = readers[row["node"]].take(messages[place], row["time"])
            if changed is not None:
                known = {name: row[name] for name in ("node", "time", "feed", "seq")}
                yield known | {"own": row["event"] == "published"} | changed


class _Reader:
    """A reader, whose view changes as messages come."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._came: dict[str, int] = {}
        self._messages = 0

    def take(self, message: Message, time: int) -> dict[str, Any] | None:
        """Take in a message, and return what that changed; None if the view does not take it in."""
        change = self._view.add(message)
        if change is None:
            return None
        before = [since for id_ in change.corrected if (since := self._came[id_]) < time]
        self._came[message.id] = time
        self._messages ^= int.from_bytes(sha256(message.id.encode()).digest())
        return {
            "moved": len(before),
            "reordered": change.reordered,
            "late_ns": time - min(before) if before else None,
            "messages": f"{self._messages:064x}",
            "view": self._view.digest(),
        }


def differences(taken: pa.Table, cases: Cases) -> pa.Table:
    """Return DIFFERENCES from VIEWS; all views are empty and equal at the start of a run."""
    rows: Rows = []
    for layering, own in by_layering(taken).items():
        case = cases[layering]
        shown = dict.fromkeys(case.manifest.workload.expected, "")
        pairs = comb(len(shown), 2)
        unequal = {case.manifest.runs[case.layering].start_ns: 0}
        for row in own:
            shown[row["node"]] = row["view"]
            equal = sum(comb(readers, 2) for readers in Counter(shown.values()).values())
            unequal[row["time"]] = pairs - equal
        rows += (
            {"layering": layering, "time": time, "pairs": pairs, "unequal": number}
            for time, number in unequal.items()
        )
    return pa.Table.from_pylist(rows, DIFFERENCES)


def totals(taken: pa.Table, differing: pa.Table, runs: pa.Table) -> Totals:
    """Return the metrics of views of each layering that has any, from VIEWS, DIFFERENCES and
    analysis.run.context.RUNS.
    """
    by_case = by_layering(differing)
    spans = {row["layering"]: (row["from_ns"], row["until_ns"]) for row in runs.to_pylist()}
    return {
        layering: _changes(rows) | _unequal(by_case[layering], *spans[layering])
        for layering, rows in by_layering(taken).items()
    }


def _changes(rows: Rows) -> dict[str, float | None]:
    came = [row for row in rows if not row["own"]]
    changed = [row for row in came if row["moved"]]
    reordered = [row["reordered"] for row in came if row["reordered"] is not None]
    shown: defaultdict[str, set[str]] = defaultdict(set)
    for row in rows:
        shown[row["messages"]].add(row["view"])
    late = [row["late_ns"] / 1e6 for row in changed]
    return {
        "view_changed_share": ratio(len(changed), len(came), 100),
        "view_reordered_share": ratio(sum(number > 0 for number in reordered), len(reordered), 100),
        "view_moved_p50": median(row["moved"] for row in changed) if changed else None,
        "view_moved_max": max((row["moved"] for row in changed), default=None),
        "view_late_p50": median(late) if late else None,
        "view_late_max": max(late, default=None),
        "view_orders": sum(len(views) > 1 for views in shown.values()),
    }


def _unequal(rows: Rows, begin: int, until: int) -> dict[str, float | None]:
    """Return the metrics of DIFFERENCES of one layering; the mean is from `begin` to `until`, ns."""
    pairs, at_end = rows[-1]["pairs"], rows[-1]["unequal"]
    times = [*(min(max(row["time"], begin), until) for row in rows), until]
    areas = [row["unequal"] * (end - start) for row, (start, end) in zip(rows, pairwise(times), strict=True)]
    settled = [after["time"] for before, after in pairwise(rows) if before["unequal"]]
    return {
        "view_unequal_mean": ratio(sum(areas), pairs * (until - begin), 100),
        "view_unequal_end": ratio(at_end, pairs, 100),
        "view_settled": None if at_end or not pairs else (max([*settled[-1:], until]) - until) / 1e6,
    }
