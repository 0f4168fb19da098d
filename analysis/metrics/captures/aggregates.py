"""Aggregates for the page of captures, from the tables of analysis.tables.schema: small, whatever their size,
but for hops(), which has a row for each packet.

Every function takes and returns DataFrames. Time series are counted per slice of a run (`slice`, from 0),
distributions in buckets of 1 %, so the result grows with nodes and runs and not with packets. Sums are of
integers: equal tables give equal rows in any order of summation. `spans` has layering, start_ns, end_ns: the
first and last packet of each run.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from analysis.columns.quantiles import summarised
from analysis.columns.slices import sliced
from analysis.columns.values import SLICES
from analysis.decode.protocols.protocol import NDN
from analysis.pit.outcomes import lasted

BUCKETS = 100
"""Buckets of a distribution per factor of e: about 1 % wide."""

ANSWERS = ("requests", "interests", "data", "nacked", "unanswered", "retransmitted", "items")
"""Counts of transactions."""

_NODE = ("layering", "node")


def interfaces(packets: DataFrame) -> DataFrame:
    """Return layering, node, interface, frames, start_ns, end_ns, sent, received, undirected, unreadable.

    The last four count frames: by direction, and those with a problem.
    """
    is_frame = F.col("frame_bytes") > 0
    return packets.groupBy(*_NODE, "interface").agg(
        F.count_if(is_frame).alias("frames"),
        F.min("time").alias("start_ns"),
        F.max("time").alias("end_ns"),
        F.count_if(is_frame & (F.col("direction") == "out")).alias("sent"),
        F.count_if(is_frame & (F.col("direction") == "in")).alias("received"),
        F.count_if(is_frame & F.col("direction").isNull()).alias("undirected"),
        F.count_if(F.col("problem").isNotNull()).alias("unreadable"),
    )


def sightings(packets: DataFrame, spans: DataFrame) -> DataFrame:
    """Return layering, node, interface, direction, kind, src, dst, slice, packets, bytes: frames as captured.

    src and dst are addresses, with the port if both are equal, as on a loopback interface. An NDN packet over
    TCP counts as one packet; its segments add only bytes. Of other protocols src and dst are null: IP
    forwards frames between ends that may be far from the capture point.
    """
    is_ndn = F.col("protocol").eqNullSafe(NDN)
    is_local = F.col("src") == F.col("dst")

    def end(side: str) -> Column:
        address = F.when(F.col(side).contains(":"), F.concat(F.lit("["), side, F.lit("]"))).otherwise(
            F.col(side)
        )
        with_port = F.concat_ws(":", address, f"{side}_port")
        return F.when(is_ndn, F.when(is_local, with_port).otherwise(F.col(side))).alias(side)

    return (
        sliced(packets, spans, SLICES)
        .groupBy(*_NODE, "interface", "direction", "kind", end("src"), end("dst"), "slice")
        .agg(
            F.count_if((F.col("kind") != "segment") | ~is_ndn).alias("packets"),
            F.sum("frame_bytes").alias("bytes"),
        )
    )


def ways(seen: DataFrame) -> DataFrame:
    """Return layering, node, interface, direction, src, dst, packets, bytes, data, asks: sightings() over all
    time.

    data and asks count Data packets, and Interests and LLIs.
    """
    return seen.groupBy(*_NODE, "interface", "direction", "src", "dst").agg(
        F.sum("packets").alias("packets"),
        F.sum("bytes").alias("bytes"),
        F.sum(F.when(F.col("kind") == "data", F.col("packets")).otherwise(0)).alias("data"),
        F.sum(F.when(F.col("kind").isin("interest", "lli"), F.col("packets")).otherwise(0)).alias("asks"),
    )


def load(seen: DataFrame, named: DataFrame) -> DataFrame:
    """Return layering, sender, receiver, slice, kind, packets, bytes sent, each packet once.

    `named` selects the ways() to count: layering, node, interface, direction (empty for none), src, dst,
    sender, receiver. Packets without addresses have null ends.
    """
    way = ("layering", "node", "interface", "direction", "src", "dst")
    filled = seen.na.fill("", ["direction", "src", "dst"])
    nobody = filled.where((F.col("src") == "") | (F.col("dst") == ""))
    counted = filled.join(F.broadcast(named), [*way]).unionByName(nobody, allowMissingColumns=True)
    return _summed(counted, "layering", "sender", "receiver", "slice", "kind")


def by_node(seen: DataFrame) -> DataFrame:
    """Return layering, node, slice, kind, packets, bytes captured at each node, in and out."""
    return _summed(seen, *_NODE, "slice", "kind")


def hops(packets: DataFrame, nodes: DataFrame) -> DataFrame:
    """Return layering, sender, receiver, delay_ns of packets captured both at their sender and at their
    receiver. `nodes` has node and number, of each node.

    The delay is the difference of two nodes' clocks, so it can be negative.
    """
    is_out = F.col("direction") == "out"
    sent, came = (F.when(way, F.col("time")) for way in (is_out, ~is_out))
    found = (
        packets.where(F.col("kind").isin("interest", "lli", "data") & F.col("name").isNotNull())
        # Spark would sort all rows by their names to keep texts of groups.
        .join(F.broadcast(nodes), "node")
        .groupBy("layering", "src", "dst", "kind", "name", "nonce")
        .agg(
            F.min_by("number", F.when(is_out, F.struct("time", "number"))).alias("from"),
            F.min(sent).alias("sent"),
            F.min_by("number", F.when(~is_out, F.struct("time", "number"))).alias("to"),
            F.min(came).alias("came"),
        )
        .where((F.col("from") != F.col("to")) & F.col("sent").isNotNull() & F.col("came").isNotNull())
    )
    for number, end in (("from", "sender"), ("to", "receiver")):
        ends = nodes.select(F.col("number").alias(number), F.col("node").alias(end))
        found = found.join(F.broadcast(ends), number)
    return found.select("layering", "sender", "receiver", (F.col("came") - F.col("sent")).alias("delay_ns"))


def hop_summary(hopped: DataFrame) -> DataFrame:
    """Return layering, sender, receiver, packets, least_ns, median_ns, negative of hops()."""
    sums = (
        F.count("*").alias("packets"),
        F.min("delay_ns").alias("least_ns"),
        F.count_if(F.col("delay_ns") < 0).alias("negative"),
    )
    values = {"median": (F.col("delay_ns"), [0.5])}
    found = summarised(hopped, ("layering", "sender", "receiver"), sums, values)
    return found.select(*found.columns[:-1], F.col("median")[0].alias("median_ns"))


def distribution(table: DataFrame, value: str, *keys: str) -> DataFrame:
    """Return keys, bucket, least, most, count: a histogram of the values, with the range in each bucket.

    Buckets are 1 % wide, so any number of values gives a few hundred rows. Bucket numbers ascend with values;
    the bucket of 0 is 0.
    """
    return (
        table.where(F.col(value).isNotNull())
        .groupBy(*keys, _bucket(value))
        .agg(F.min(value).alias("least"), F.max(value).alias("most"), F.count("*").alias("count"))
    )


def _bucket(value: str) -> Column:
    place = F.floor(F.log(F.abs(F.col(value)).cast("double")) * BUCKETS) + 1
    return (F.signum(value) * F.when(F.col(value) == 0, 0).otherwise(place)).cast("long").alias("bucket")


def outcomes(intervals: DataFrame) -> DataFrame:
    """Return layering, node, kind, outcome, entries, aggregated, and sums of the counts in PIT_INTERVALS.

    aggregated: entries with requests from several interfaces.
    """
    sums = ("interests_in", "interests_out", "items_in", "items_out", "renewals")
    return intervals.groupBy(*_NODE, "kind", "outcome").agg(
        F.count("*").alias("entries"),
        F.count_if(F.col("downstreams") > 1).alias("aggregated"),
        *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in sums),
        F.max("peak_credit").alias("peak_credit"),
    )


def lifetimes(intervals: DataFrame) -> DataFrame:
    """Return layering, node, life_ns of entries with a lifetime (lasted()), as in the report of a run."""
    return intervals.where(lasted()).select(*_NODE, (F.col("closed") - F.col("opened")).alias("life_ns"))


def counted_once(transactions: DataFrame, once: DataFrame) -> DataFrame:
    """Return the transactions at the interfaces in `once`: layering, node, interface, direction.

    An Interest between two captured nodes is two transactions; the requester's counts.
    """
    filled = transactions.withColumn("direction", F.coalesce("direction", F.lit("")))
    return filled.join(F.broadcast(once), ["layering", "node", "interface", "direction"], "left_semi")


def tallied(requests: DataFrame, *keys: str) -> DataFrame:
    """Return keys, bucket, least, most, count: the distribution of rtt_ns of transactions (null bucket
    without an answer); and requests, interests, data, nacked, unanswered, retransmitted, items.

    requests are transactions, interests packets; retransmitted are Interests after the first. All statistics
    of answers are sums of these rows, so transactions are read once.
    """
    return requests.groupBy(*keys, _bucket("rtt_ns")).agg(
        F.min("rtt_ns").alias("least"),
        F.max("rtt_ns").alias("most"),
        F.count("rtt_ns").alias("count"),
        F.count("*").alias("requests"),
        F.sum("interests").alias("interests"),
        *(
            F.count_if(F.col("outcome") == outcome).alias(name)
            for outcome, name in (("data", "data"), ("nack", "nacked"), ("none", "unanswered"))
        ),
        F.sum(F.col("interests") - 1).alias("retransmitted"),
        F.coalesce(F.sum("items"), F.lit(0)).alias("items"),
    )


def answers(tallies: DataFrame, *keys: str) -> DataFrame:
    """Return keys and the sums of tallied()."""
    return tallies.groupBy(*keys).agg(*(F.sum(name).alias(name) for name in ANSWERS))


def round_trips(tallies: DataFrame, *keys: str) -> DataFrame:
    """Return the distribution() of round trips of tallied()."""
    return (
        tallies.where(F.col("bucket").isNotNull())
        .groupBy(*keys, "bucket")
        .agg(F.min("least").alias("least"), F.max("most").alias("most"), F.sum("count").alias("count"))
    )


def nacks(tallies: DataFrame) -> DataFrame:
    """Return layering, nack_reason, requests of nacked transactions, from tallied()."""
    refused = tallies.where(F.col("nacked") > 0)
    return refused.groupBy("layering", "nack_reason").agg(F.sum("nacked").alias("requests"))


def progress(feed_progress: DataFrame, spans: DataFrame, feeds: DataFrame) -> DataFrame:
    """Return layering, node, feed, slice, time, newest, missing: each node's progress at a slice's end."""
    chosen = feed_progress.join(F.broadcast(feeds.select("layering", "feed")), ["layering", "feed"])
    return (
        sliced(chosen, spans, SLICES)
        .groupBy(*_NODE, "feed", "slice")
        .agg(
            F.max("time").alias("time"),
            F.max("newest").alias("newest"),
            F.max_by("missing", F.struct("time", "seq")).alias("missing"),
        )
    )


def feeds(feed_progress: DataFrame, most: int) -> DataFrame:
    """Return layering, feed, items, nodes, arrivals of each run's `most` feeds with the most arrivals."""
    totals = feed_progress.groupBy("layering", "feed").agg(
        F.max("newest").alias("items"),
        F.count_distinct("node").alias("nodes"),
        F.count("*").alias("arrivals"),
    )
    return first(totals, most, ("layering",), F.desc("arrivals"), "feed")


def troubles(events: DataFrame, spans: DataFrame) -> DataFrame:
    """Return layering, node, event, slice, count of the events derived from packets."""
    problems = events.where(F.col("source") == "packets")
    return sliced(problems, spans, SLICES).groupBy(*_NODE, "event", "slice").agg(F.count("*").alias("count"))


def first(table: DataFrame, most: int, keys: Sequence[str], *order: Column | str) -> DataFrame:
    """Return the first rows in an order, at most so many, for each of some keys.

    With this bound on the row number alone, Spark drops the rest in every task before the shuffle.
    """
    place = F.row_number().over(Window.partitionBy(*keys).orderBy(*order))
    return table.withColumn("place", place).where(F.col("place") <= most).drop("place")


def _summed(table: DataFrame, *keys: str) -> DataFrame:
    return table.groupBy(*keys).agg(F.sum("packets").alias("packets"), F.sum("bytes").alias("bytes"))
