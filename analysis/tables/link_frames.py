"""Link frames: the impairments of each link, measured and configured.

A frame has the same bytes where it leaves and where it arrives, so it is matched by a hash of all of them.
One that a link has changed counts as lost, and its arrival as a copy. Packets that are put together of
several frames are matched by analysis.tables.link_transits.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from analysis.columns.grouped import in_groups
from analysis.columns.values import ALL
from analysis.decode.reading import FRAME_HASH
from analysis.files import Rows
from analysis.run.context import Case, Cases
from analysis.run.manifest import Link
from analysis.tables.matching import match

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


_WAY = ("layering", "sender", "receiver")
_COUNTED = pa.schema([*(LINK_FRAMES.field(name) for name in (*_WAY, *_COUNTS))])


def link_frames(sightings: DataFrame, ends: DataFrame, cases: Cases) -> pa.Table:
    """Return LINK_FRAMES of cases, from analysis.decode.reading.SIGHTINGS and
    analysis.tables.link_transits.ENDS.
    """
    known = ends.where(F.col("way") == "link").select(
        "layering", "interface", "is_out", "least_ns", *_WAY[1:]
    )
    seen = sightings.withColumn("is_out", F.col("direction") == "out").join(
        F.broadcast(known), ["layering", "interface", "is_out"]
    )
    seen = seen.select(*_WAY, "is_out", "time", "frame", FRAME_HASH, "least_ns")
    counted = in_groups(seen, _WAY, _counted, from_arrow_schema(_COUNTED)).toArrow().to_pylist()
    counts = {tuple(row.pop(name) for name in _WAY): row for row in counted}
    rows: Rows = []
    for name, case in cases.items():
        ways = list(_ways(name, case, counts))
        together = {column: sum(way[column] for way in ways) for column in (*_COUNTS, *_SET)}
        rows += [{"layering": name} | row for row in (*ways, {"sender": ALL, "receiver": ALL} | together)]
    return pa.Table.from_pylist(rows, LINK_FRAMES)


def _ways(name: str, case: Case, counts: dict[tuple[str, ...], dict[str, int]]) -> Iterator[dict[str, Any]]:
    for link in case.manifest.topology.links:
        for way in ((link.a, link.b), (link.b, link.a)):
            counted = counts.get((name, *way), dict.fromkeys(_COUNTS, 0))
            yield dict(zip(_WAY[1:], way, strict=True)) | counted | _expected(link, counted)


def _counted(seen: pa.Table) -> Iterator[pa.Table]:
    """Yield the row of _COUNTED of one direction of a link."""
    way = [seen[name][0].as_py() for name in (*_WAY, "least_ns")]
    seen = seen.sort_by([("time", "ascending"), ("frame", "ascending")])
    is_out, times, keys = (seen[name].to_pylist() for name in ("is_out", "time", FRAME_HASH))
    arrivals = [time for _, time in match(is_out, times, keys, way.pop())]
    lost = [time is None for time in arrivals]
    came = np.array([time for time in arrivals if time is not None], np.int64)
    arrived = len(arrivals) - sum(lost)
    counts = {
        "frames": len(arrivals),
        "lost": sum(lost),
        "loss_runs": sum(now and not before for before, now in zip([False, *lost], lost, strict=False)),
        "arrived": arrived,
        # In sending order: arrivals earlier than the latest so far.
        "overtook": int((came < np.maximum.accumulate(came)).sum()) if arrived else 0,
        "twice": len(times) - len(arrivals) - arrived,
    }
    yield pa.Table.from_pylist([dict(zip(_WAY, way, strict=True)) | counts], _COUNTED)


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
