"""Link frames: the impairments of each link, measured and configured.

A frame has the same bytes where it leaves and where it arrives, so it is matched by all of them. One that a
link has changed counts as lost, and its arrival as a copy. Packets that are put together of several frames
are matched by analysis.tables.link_transits.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from analysis.columns.values import ALL
from analysis.files import Rows
from analysis.run.context import Case, Cases
from analysis.run.manifest import Link
from analysis.tables.matching import match
from captures.formats.files import cut, read_piece
from captures.formats.pcapng import Direction
from captures.formats.records import Damage

_COUNTS = ("frames", "lost", "loss_runs", "arrived", "overtook", "twice")
_SET = ("set_lost", "set_loss_runs", "set_overtook", "set_twice")

LINK_FRAMES = pa.schema(
    [
        *((name, pa.string()) for name in ("layering", "sender", "receiver")),
        *((name, pa.int64()) for name in _COUNTS),
        *((name, pa.float64()) for name in _SET),
    ]
)
"""A row for each direction of a link, and one with sender and receiver ALL for all links together. frames:
sent; lost: not arrived, including queue overflow and broken links; loss_runs: number of loss bursts, single
losses included; overtook: arrived before an earlier frame; twice: duplicated by the link. set_*: the expected
number of each by the link's parameters; set_overtook is an upper bound, as a frame alone on its link
overtakes none.
"""


class _Seen(NamedTuple):
    """The sightings of one direction of a link, in capture order."""

    is_out: list[bool]
    times: list[int]
    keys: list[int]


def link_frames(cases: Cases) -> pa.Table:
    """Return LINK_FRAMES of cases. Raises OSError and captures.formats.pcapng.CaptureError."""
    rows: Rows = []
    for name, case in cases.items():
        ways = list(_ways(case))
        together = {column: sum(way[column] for way in ways) for column in (*_COUNTS, *_SET)}
        rows += [{"layering": name} | row for row in (*ways, {"sender": ALL, "receiver": ALL} | together)]
    return pa.Table.from_pylist(rows, LINK_FRAMES)


def _ways(case: Case) -> Iterator[dict[str, Any]]:
    seen = _sightings(case)
    for link in case.manifest.topology.links:
        for sender, receiver in ((link.a, link.b), (link.b, link.a)):
            counts = _counted(seen[sender, receiver], link.least_delay_ns)
            yield {"sender": sender, "receiver": receiver} | counts | _expected(link, counts)


def _sightings(case: Case) -> dict[tuple[str, str], _Seen]:
    ends: dict[str, tuple[str, str]] = {}
    links = case.manifest.topology.links
    for link in links:
        ends |= {link.interface_a: (link.a, link.b), link.interface_b: (link.b, link.a)}
    seen: defaultdict[tuple[str, str], _Seen] = defaultdict(lambda: _Seen([], [], []))
    damages: list[Damage] = []  # reported by the decoder
    for piece in cut(case.run.capture(case.layering)):
        for window, interfaces in read_piece(piece, damages):
            data, records = window.data.data, window.records
            names = [interface.name for interface in interfaces]
            columns = (records.at, records.captured, records.time, records.source, records.direction)
            for at, size, time, source, direction in zip(*(each.tolist() for each in columns), strict=True):
                here, peer = ends.get(names[source], ("", ""))
                is_out = direction == Direction.OUT
                way = seen[(here, peer) if is_out else (peer, here)]
                way.is_out.append(is_out)
                way.times.append(time)
                way.keys.append(hash(bytes(data[at : at + size])))
    return seen


def _counted(seen: _Seen, least_ns: int) -> dict[str, int]:
    order = np.argsort(np.array(seen.times, np.int64), kind="stable").tolist()
    is_out, times, keys = ([column[place] for place in order] for column in seen)
    arrivals = [time for _, time in match(is_out, times, keys, least_ns)]
    lost = [time is None for time in arrivals]
    came = np.array([time for time in arrivals if time is not None], np.int64)
    arrived = len(arrivals) - sum(lost)
    return {
        "frames": len(arrivals),
        "lost": sum(lost),
        "loss_runs": sum(now and not before for before, now in zip([False, *lost], lost, strict=False)),
        "arrived": arrived,
        # In sending order: arrivals earlier than the latest so far.
        "overtook": int((came < np.maximum.accumulate(came)).sum()) if arrived else 0,
        "twice": len(times) - len(arrivals) - arrived,
    }


def _expected(link: Link, counts: dict[str, int]) -> dict[str, float]:
    loss = link.loss_percent / 100
    lost = counts["frames"] * loss
    again = link.loss_again
    in_a_row = 1 / (1 - again) if again < 1 else float(counts["frames"])
    return {
        "set_lost": lost,
        "set_loss_runs": lost / max(1.0, in_a_row),
        "set_overtook": counts["arrived"] * link.reorder_percent / 100,
        "set_twice": counts["arrived"] * link.duplicate_percent / 100,
    }
