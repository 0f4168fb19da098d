"""Views of a thread: how often, how far and how late each reader's view changes its past, and how the views
of readers differ.

A reader's view has the posts of the thread that it has written or got, in causal order. The order is made by
the application's own code, ssb.applications.tangles, a post at a time, as posts come. A post changes the past
of a view if it comes before posts that the view has shown (Tarr et al., "Secure Scuttlebutt", ACM ICN 2019,
section 3.3, figure 4). Posts that come at one instant are shown together.
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
from ssb.applications.tangles import Tangle
from ssb.export import read_entries
from ssb.message import Message
from ssb_over_ndn.naming import log_name

VIEWS = schema_of(
    "layering string, node string, time int64, feed string, seq int64, own bool, moved int64, reordered"
    " int64, late_ns int64, posts string, order string"
)
"""A row per reader and post, in the order in which its view takes them in. own: the reader has written it;
moved: posts that were shown before, and now stand behind it; reordered: posts that change their order, too;
late_ns: time since the first of those moved was shown, null if there is none. posts, order: digests of the
view's posts, and of their order.
"""

DIFFERENCES = schema_of("layering string, time int64, pairs int64, unequal int64")
"""A row per change: pairs of readers, and how many of them have unequal views from `time` on, ns."""


def views(cases: Cases, events: pa.Table) -> pa.Table:
    """Return VIEWS of the cases with a thread; `events` are those of applications."""
    rows: Rows = []
    for layering, case in cases.items():
        if case.manifest.workload.thread:
            own = events.filter(pc.equal(events["layering"], layering))
            concerns = pc.is_in(own["event"], pa.array(["published", "delivered"]))
            told = own.filter(concerns).sort_by([("time", "ascending"), ("line", "ascending")]).to_pylist()
            rows += ({"layering": layering} | row for row in _taken_in(case, told))
    return pa.Table.from_pylist(rows, VIEWS)


def _posts(case: Case) -> dict[tuple[str, int], Message]:
    """Return the messages of a run by feed and number."""
    with case.run.feeds.open("rb") as lines:
        messages = [entry.parse() for entry in read_entries(lines, case.run.feeds.name)]
    return {(to_uri(log_name(message.author)), message.sequence): message for message in messages}


def _taken_in(case: Case, told: Rows) -> Iterator[dict[str, Any]]:
    posts = _posts(case)
    roots = (post.content.get("root") for post in posts.values() if isinstance(post.content, dict))
    root = next(filter(None, roots), "")  # of a thread that nobody has answered there is no view
    readers = {node: _View(root) for node in case.manifest.workload.expected}
    for row in told:
        place = row["feed"], row["seq"]
        if row["node"] in readers and place in posts:
            changed = readers[row["node"]].take(posts[place], row["time"])
            if changed is not None:
                known = {name: row[name] for name in ("node", "time", "feed", "seq")}
                yield known | {"own": row["event"] == "published"} | changed


class _View:
    """A reader's view, as far as posts have come.

    Args:
        root: reference of the thread's first post.
    """

    def __init__(self, root: str) -> None:
        self._tangle = Tangle(root)
        self._shown: dict[str, int] = {}  # when each post was shown first
        self._posts = 0

    def take(self, post: Message, time: int) -> dict[str, Any] | None:
        """Take in a post, and return what that changed; None if it is here, or not of the thread."""
        insertion = self._tangle.add(post)
        if insertion is None:
            return None
        order = [each.id for each in self._tangle.order]
        shown = [self._shown[id_] for id_ in order[insertion.place + 1 :]]
        before = [since for since in shown if since < time]
        self._shown[post.id] = time
        self._posts ^= int.from_bytes(sha256(post.id.encode()).digest())
        return {
            "moved": len(before),
            "reordered": insertion.reordered,
            "late_ns": time - min(before) if before else None,
            "posts": f"{self._posts:064x}",
            "order": sha256("\n".join(order).encode()).hexdigest(),
        }


def differences(taken: pa.Table, cases: Cases) -> pa.Table:
    """Return DIFFERENCES from VIEWS; all views are empty and equal at the start of a run."""
    rows: Rows = []
    for layering, own in by_layering(taken).items():
        case = cases[layering]
        orders = dict.fromkeys(case.manifest.workload.expected, "")
        pairs = comb(len(orders), 2)
        unequal = {case.manifest.runs[case.layering].start_ns: 0}
        for row in own:
            orders[row["node"]] = row["order"]
            equal = sum(comb(readers, 2) for readers in Counter(orders.values()).values())
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
    orders: defaultdict[str, set[str]] = defaultdict(set)
    for row in rows:
        orders[row["posts"]].add(row["order"])
    late = [row["late_ns"] / 1e6 for row in changed]
    return {
        "view_changed_share": ratio(len(changed), len(came), 100),
        "view_reordered_share": ratio(sum(row["reordered"] > 0 for row in came), len(came), 100),
        "view_moved_p50": median(row["moved"] for row in changed) if changed else None,
        "view_moved_max": max((row["moved"] for row in changed), default=None),
        "view_late_p50": median(late) if late else None,
        "view_late_max": max(late, default=None),
        "view_orders": sum(len(shown) > 1 for shown in orders.values()),
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
