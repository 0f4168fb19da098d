"""Feed progress at nodes, derived from packets: first sightings of items, and gaps; and the delay of Data
between nodes of a capture.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from analysis.columns.arrays import coded, highest_so_far, places_in_order, starts, values
from analysis.columns.grouped import in_groups
from analysis.packet_schema import FOREVER
from analysis.tables.events import packet_events
from analysis.tables.schema import EVENTS, FEED_PROGRESS, LATENCY
from analysis.tables.shares import OF_FEED, ROWS, Ends, Follower
from analysis.tables.transactions import SIZES, wire_size
from captures.formats.records import Flags, Ints

CAPTURED = "captured"
"""The purpose of Data without a known subscriber."""

_ITEM = ("layering", "node", "feed", "seq")
COLUMNS = (*_ITEM, "interface", "direction", "kind", "name", "frame", "time", "send_credit", *SIZES, OF_FEED)
"""The required columns of packets."""

_WAYS, _HOW = pa.array(["out", "in"]), pa.array(["sent", "arrived"])


class _Arrivals(NamedTuple):
    """Data of feeds as rows and as numbers, -1 for null; `begins`: the first sighting of each item."""

    rows: pa.Table
    seq: Ints
    size: Ints
    begins: Flags


def _sightings(share: pa.Table) -> _Arrivals:
    """Return the Data of feeds in the order of feed and item, and then of arrival."""
    rows = share.filter((pc.field("kind") == "data") & pc.is_valid(pc.field("feed")))
    feed, seq = coded(rows["feed"])[0], values(rows["seq"], -1)
    time, frame, size = values(rows["time"], 0), values(rows["frame"], 0), wire_size(rows)
    order = np.lexsort((seq, feed))  # arrivals are in the order of the share
    if not starts(*(each[order] for each in (feed, seq, time, frame))).all():
        texts = (coded(rows[name]) for name in ("name", "direction", "interface"))
        places = [places_in_order(known)[code] for code, known in texts]
        order = np.lexsort((size, *places, frame, time, seq, feed))
    begins = starts(feed[order], seq[order])
    return _Arrivals(rows.take(pa.array(order)), seq[order], size[order], begins)


def _duplicates(items: _Arrivals) -> pa.Table:
    """Return the arrivals after the first sighting, which may be equal to it in a TCP stream."""
    first = np.flatnonzero(items.begins)[np.cumsum(items.begins) - 1]
    comes = pc.fill_null(pc.equal(items.rows["direction"], "in"), False).to_numpy()
    again = np.flatnonzero(comes & ~items.begins)
    every = [coded(items.rows[name])[0] for name in ("interface", "direction", "name")]
    every += [items.size, *(values(items.rows[name], 0) for name in ("time", "frame"))]
    again = again[np.logical_or.reduce([each[again] != each[first[again]] for each in every])]
    about = ["layering", "node", "interface", "name", "feed", "seq", "time"]
    found = items.rows.select(about).take(pa.array(again))
    found = found.append_column("bytes", pa.array(items.size[again]))
    return packet_events(found.append_column("event", pa.repeat("duplicate", len(again))))


def _asked(share: pa.Table) -> tuple[pa.Table, Ints]:
    """Return the LLIs that ask for items of feeds, and the last item that each asks for.

    They count as requests where they go out; with unknown directions, at every sighting.
    """
    asks = (pc.field("kind") == "lli") & (pc.field("send_credit") > 0) & pc.is_valid(pc.field("feed"))
    rows = share.filter(asks & pc.coalesce(pc.field("direction") == "out", True))
    seq, credit = values(rows["seq"], FOREVER), values(rows["send_credit"], 0)
    beyond = seq - 1 > FOREVER - credit  # a sum of item and credit might overflow
    return rows, np.where(beyond, FOREVER, seq - 1 + np.where(beyond, 0, credit))


def follow(share: pa.Table, _: Ends) -> dict[str, pa.Table]:
    """Return schema.FEED_PROGRESS and the schema.EVENTS of feeds: `duplicate`, `gap` and `repair`.

    Simultaneous rows are ordered: LLIs, then items by number.
    """
    share = share.select(COLUMNS).filter(share[OF_FEED])
    items = _sightings(share)
    seen = np.flatnonzero(items.begins & (items.seq >= 0))
    requests, last = _asked(share)
    rows = pa.concat_tables([items.rows.take(pa.array(seen)), requests])
    feed, time = coded(rows["feed"])[0], values(rows["time"], 0)
    seq = np.append(items.seq[seen], np.full(len(requests), -1))
    asked = np.append(np.full(len(seen), -1), last)
    order = np.lexsort((seq, time, feed))
    feed, seq, asked = feed[order], seq[order], asked[order]
    asked = highest_so_far(starts(feed), asked)
    is_item = seq >= 0
    feed, seq, asked = feed[is_item], seq[is_item], asked[is_item]
    begins = starts(feed)
    which, places = np.cumsum(begins) - 1, np.arange(len(feed))
    first = seq[begins][which]
    so_far = np.append(0, np.cumsum(seq >= first))
    beyond = so_far[1:] - so_far[places[begins]][which]
    newest = highest_so_far(begins, seq)
    found = rows.take(pa.array(order[is_item]))
    ways = pc.index_in(found["direction"].cast(pa.string()), value_set=_WAYS).combine_chunks()
    columns = {name: found[name] for name in (*_ITEM, "time")} | {
        "how": pa.DictionaryArray.from_arrays(ways, _HOW).cast(pa.string()),
        "newest": pa.array(newest),
        "missing": pa.array(newest - first + 1 - beyond),
        "asked": pa.array(asked, mask=asked < 0),
    }
    progress = pa.table({name: columns[name] for name in FEED_PROGRESS.names}).cast(FEED_PROGRESS.arrow)
    told = [_duplicates(items), _gaps(progress, begins)]
    return {FEED_PROGRESS.name: progress, EVENTS.name: pa.concat_tables(told)}


def _gaps(progress: pa.Table, begins: Flags) -> pa.Table:
    """Return items ahead of a missing predecessor, and the late arrivals of missing items."""
    missing = values(progress["missing"], 0)
    more = missing - np.where(begins, 0, np.roll(missing, 1))
    told = pc.fill_null(pc.not_equal(progress["how"], "sent"), True).to_numpy() & (more != 0)
    found = progress.select([*_ITEM, "time"]).filter(pa.array(told))
    return packet_events(found.append_column("event", pa.array(np.where(more[told] > 0, "gap", "repair"))))


FOLLOWER = Follower(COLUMNS, {FEED_PROGRESS.name: FEED_PROGRESS.arrow, EVENTS.name: EVENTS.arrow}, follow)
"""What tells schema.FEED_PROGRESS, and events of feeds."""


def captured_latency(messages: DataFrame, nodes: pa.Table) -> DataFrame:
    """Return schema.LATENCY of CAPTURED Data: from their first departure at any node to their first arrival
    at each other node. `nodes` is analysis.tables.shares.nodes_of().

    Unknown directions yield no rows. Disagreeing clocks are not corrected: latencies may be negative.
    """
    parts = (pc.sum(nodes["rows"]).as_py() or 0) // ROWS + 1
    columns = (*_ITEM, "name", "direction", "time", "payload_bytes")
    is_told = (F.col("kind") == "data") & F.col("direction").isNotNull() & F.col("name").isNotNull()
    told = messages.where(is_told).select(*columns)
    of_names = told.withColumn("part", F.pmod(F.crc32("name"), F.lit(parts)))
    return in_groups(of_names, ("part",), _delays, LATENCY.spark, parts)


def _delays(told: pa.Table) -> Iterator[pa.Table]:
    """Yield schema.LATENCY of Data of some names, with their directions."""
    texts = {name: coded(told[name]) for name in ("layering", "name", "feed", "node")}
    is_out = pc.equal(told["direction"], "out")
    columns = {name: pa.array(codes) for name, (codes, _) in texts.items()} | {
        "seq": told["seq"],
        "left": pc.if_else(is_out, told["time"], None),
        "delivered": pc.if_else(is_out, None, told["time"]),
        "payload_bytes": told["payload_bytes"],
    }
    of_node = pa.TableGroupBy(pa.table(columns), [*texts, "seq"], use_threads=False).aggregate(
        [("left", "min"), ("delivered", "min"), ("payload_bytes", "max")]
    )
    run, name, node = (values(of_node[column], -1) for column in ("layering", "name", "node"))
    left = values(of_node["left_min"], FOREVER)
    order = np.lexsort((places_in_order(texts["node"][1])[node], left, name, run))
    begins = starts(run[order], name[order])
    first = np.empty_like(order)
    first[order] = order[begins][np.cumsum(begins) - 1]
    arrives = of_node["delivered_min"].is_valid().to_numpy()
    kept = np.flatnonzero(arrives & (left[first] < FOREVER) & (node != node[first]))
    found, published = of_node.take(pa.array(kept)), pa.array(left[first][kept])
    arrays = {column: known.take(found[column]) for column, (_, known) in texts.items() if column != "feed"}
    feed = found["feed"].to_numpy()
    arrays |= {
        "feed": texts["feed"][1].take(pa.array(feed, mask=feed < 0)),
        "seq": found["seq"],
        "purpose": pa.repeat(CAPTURED, len(kept)),
        "payload_bytes": found["payload_bytes_max"],
        "published": published,
        "delivered": found["delivered_min"],
        "latency_ns": pc.subtract(found["delivered_min"], published),
        "bound_ns": pa.nulls(len(kept), pa.int64()),
    }
    yield pa.table(arrays)
