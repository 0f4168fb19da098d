"""What the page of any captures shows, out of the tables of analysis.stages: small however large those are.

Every function takes and returns DataFrames. What is drawn over time is counted in equal parts of a run
(`slice`, from 0), distributions in buckets of 1 %, so the result grows with nodes and runs and not with
packets. Sums are of whole numbers: the same tables give the same rows, in whatever order Spark adds.

`spans` has layering, start_ns, end_ns: when each run began and ended, by its packets.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

SLICES = 120
"""Parts of a run in what is drawn over time."""

BUCKETS = 100
"""Buckets of a distribution for each factor of e: about 1 % wide."""

MOST_FRAMES = 80
"""Frames of a name that its sequence chart is made from."""

_NODE = ("layering", "node")
_NUMBERS = r"^(.*?)/(?:v|t|seg|off|seq|params-sha256|sha256digest)=.*$"
"""Where a name goes on with what the naming conventions number things by (NDN Technical Report 22)."""


def interfaces(packets: DataFrame) -> DataFrame:
    """Return layering, node, interface, frames, start_ns, end_ns, sent, received, undirected, unreadable.

    The last four are frames: by direction, and those with a problem.
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

    src and dst are addresses, with the port where both are the same, as they are on a loopback interface.
    A packet over TCP counts as one, and its segments for their bytes only.
    """
    is_local = F.col("src") == F.col("dst")

    def end(side: str) -> Column:
        address = F.when(F.col(side).contains(":"), F.concat(F.lit("["), side, F.lit("]"))).otherwise(
            F.col(side)
        )
        with_port = F.concat_ws(":", address, f"{side}_port")
        return F.when(is_local, with_port).otherwise(F.col(side)).alias(side)

    return (
        _sliced(packets, spans, "time", SLICES)
        .groupBy(*_NODE, "interface", "direction", "kind", end("src"), end("dst"), "slice")
        .agg(
            F.count_if(F.col("kind") != "segment").alias("packets"),
            F.sum("frame_bytes").alias("bytes"),
        )
    )


def ways(seen: DataFrame) -> DataFrame:
    """Return layering, node, interface, direction, src, dst, packets, bytes, data, asks: sightings() of all
    time.

    data and asks are the packets that were Data, and Interests and LLIs.
    """
    return seen.groupBy(*_NODE, "interface", "direction", "src", "dst").agg(
        F.sum("packets").alias("packets"),
        F.sum("bytes").alias("bytes"),
        F.sum(F.when(F.col("kind") == "data", F.col("packets")).otherwise(0)).alias("data"),
        F.sum(F.when(F.col("kind").isin("interest", "lli"), F.col("packets")).otherwise(0)).alias("asks"),
    )


def load(seen: DataFrame, named: DataFrame) -> DataFrame:
    """Return layering, sender, receiver, slice, kind, packets, bytes: what was sent, each packet once.

    `named` gives the ways() that count: layering, node, interface, direction (empty for none), src, dst,
    sender, receiver. What has no addresses counts as from and to nobody (null).
    """
    way = ("layering", "node", "interface", "direction", "src", "dst")
    told = seen.na.fill("", ["direction", "src", "dst"])
    nobody = told.where((F.col("src") == "") | (F.col("dst") == ""))
    counted = told.join(F.broadcast(named), [*way]).unionByName(nobody, allowMissingColumns=True)
    return _summed(counted, "layering", "sender", "receiver", "slice", "kind")


def by_node(seen: DataFrame) -> DataFrame:
    """Return layering, node, slice, kind, packets, bytes: what was captured at each node, in and out."""
    return _summed(seen, *_NODE, "slice", "kind")


def hops(packets: DataFrame) -> DataFrame:
    """Return layering, sender, receiver, delay_ns: a packet seen leaving one node and coming in at another.

    Only what both nodes captured. The delay is the difference of two nodes' clocks, so it can be negative.
    """
    is_out = F.col("direction") == "out"
    return (
        packets.where(F.col("kind").isin("interest", "lli", "data") & F.col("name").isNotNull())
        .groupBy("layering", "src", "dst", "kind", "name", "nonce")
        .agg(
            F.min_by(F.when(is_out, F.col("node")), F.when(is_out, F.col("time"))).alias("sender"),
            F.min(F.when(is_out, F.col("time"))).alias("sent"),
            F.min_by(F.when(~is_out, F.col("node")), F.when(~is_out, F.col("time"))).alias("receiver"),
            F.min(F.when(~is_out, F.col("time"))).alias("came"),
        )
        .where((F.col("sender") != F.col("receiver")) & F.col("sent").isNotNull() & F.col("came").isNotNull())
        .select("layering", "sender", "receiver", (F.col("came") - F.col("sent")).alias("delay_ns"))
    )


def hop_summary(hopped: DataFrame) -> DataFrame:
    """Return layering, sender, receiver, packets, least_ns, median_ns, negative of hops()."""
    return hopped.groupBy("layering", "sender", "receiver").agg(
        F.count("*").alias("packets"),
        F.min("delay_ns").alias("least_ns"),
        F.percentile("delay_ns", 0.5).alias("median_ns"),
        F.count_if(F.col("delay_ns") < 0).alias("negative"),
    )


def distribution(table: DataFrame, value: str, *keys: str) -> DataFrame:
    """Return keys, bucket, least, most, count: how many values lie in each bucket, and between which.

    Buckets are 1 % wide, so that a distribution of any number of values is a few hundred rows. The values of
    a bucket are less than those of any bucket with a higher number; that of 0 is 0.
    """
    place = F.floor(F.log(F.abs(F.col(value)).cast("double")) * BUCKETS) + 1
    bucket = (F.signum(value) * F.when(F.col(value) == 0, 0).otherwise(place)).cast("long").alias("bucket")
    return (
        table.where(F.col(value).isNotNull())
        .groupBy(*keys, bucket)
        .agg(F.min(value).alias("least"), F.max(value).alias("most"), F.count("*").alias("count"))
    )


def held(occupancy: DataFrame, spans: DataFrame) -> DataFrame:
    """Return analysis.stages.PIT_OCCUPANCY with start_ns, end_ns, and `until`, to when each state held.

    Only what lies in the run: of a state that outlives it, the part that does not.
    """
    then = F.lead("time").over(Window.partitionBy(*_NODE).orderBy("time"))
    return (
        occupancy.join(F.broadcast(spans.select("layering", "start_ns", "end_ns")), "layering")
        .withColumn("until", F.least(F.coalesce(then, F.col("end_ns")), F.col("end_ns")))
        .where(F.col("time") <= F.col("end_ns"))
    )


def pit_summary(levels: DataFrame) -> DataFrame:
    """Return layering, node, mean and peak entries and bytes of held(), and peak_ns, when most were held."""
    lasts = (F.col("until") - F.col("time")).cast("decimal(20, 0)")
    duration = F.first(F.col("end_ns") - F.col("start_ns"))
    measures = []
    for what in ("entries", "bytes"):
        mean = F.sum(F.col(what).cast("decimal(18, 0)") * lasts).cast("double") / duration
        measures += [mean.alias(f"mean_{what}"), F.max(what).alias(f"peak_{what}")]
    first = F.max_by(F.col("time") - F.col("start_ns"), F.struct("entries", -F.col("time")))
    return levels.groupBy(*_NODE).agg(*measures, first.alias("peak_ns"))


def pit_heat(levels: DataFrame, slices: int = 100) -> DataFrame:
    """Return layering, node, slice, entries, bytes: means over time of held() in equal parts of the run."""
    ran = F.col("end_ns") - F.col("start_ns")
    low, high = (
        F.least(F.lit(slices - 1), F.floor((F.col(end) - F.col("start_ns")) * slices / ran))
        for end in ("time", "until")
    )
    # Rounded to whole ns, the parts of a run are alike within 1 ns.
    begins, ends = (
        F.col("start_ns") + F.floor((F.col("slice") + more) * ran / slices).cast("long") for more in (0, 1)
    )
    share = F.least("until", ends) - F.greatest("time", begins)
    parts = (
        levels.where(F.col("until") > F.col("time"))
        .withColumn("slice", F.explode(F.sequence(low.cast("long"), high.cast("long"))))
        .withColumn("share", F.greatest(F.lit(0), share).cast("decimal(20, 0)"))
        .withColumn("width", ends - begins)
    )
    means = (
        (F.sum(F.col(what).cast("decimal(18, 0)") * F.col("share")).cast("double") / F.first("width")).alias(
            what
        )
        for what in ("entries", "bytes")
    )
    return parts.groupBy(*_NODE, "slice").agg(*means)


def thinned(
    table: DataFrame, spans: DataFrame, keys: Sequence[str], of: Sequence[str], bins: int
) -> DataFrame:
    """Thin steps over time for drawing: keys, time, and the values `of`.

    Of each of `bins` equal parts of a run the first, last, least and most of each value are kept, so a line
    drawn through them looks the same.
    """
    point = F.struct("time", *of)
    kept = (
        _sliced(table, spans, "time", bins)
        .groupBy(*keys, "slice")
        .agg(
            F.array(
                F.min_by(point, F.struct("time", *of)),
                F.max_by(point, F.struct("time", *of)),
                *(extreme(point, F.struct(what, "time")) for what in of for extreme in (F.min_by, F.max_by)),
            ).alias("points")
        )
    )
    return kept.select(*keys, F.explode(F.array_distinct("points")).alias("point")).select(*keys, "point.*")


def outcomes(intervals: DataFrame) -> DataFrame:
    """Return layering, node, kind, outcome, entries, aggregated, and sums of what PIT_INTERVALS counts.

    aggregated: entries that several interfaces asked for.
    """
    sums = ("interests_in", "interests_out", "items_in", "items_out", "renewals")
    return intervals.groupBy(*_NODE, "kind", "outcome").agg(
        F.count("*").alias("entries"),
        F.count_if(F.col("downstreams") > 1).alias("aggregated"),
        *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in sums),
        F.max("peak_credit").alias("peak_credit"),
    )


def lifetimes(intervals: DataFrame) -> DataFrame:
    """Return layering, node, life_ns of the entries that ended while they were captured."""
    ended = intervals.where(F.col("outcome") != "open")
    return ended.select(*_NODE, (F.col("closed") - F.col("opened")).alias("life_ns"))


def asked(transactions: DataFrame, once: DataFrame) -> DataFrame:
    """Return the transactions that count once: those of `once`, layering, node, interface, direction.

    An Interest between two nodes that were both captured is two transactions; the asker's counts.
    """
    told = transactions.withColumn("direction", F.coalesce("direction", F.lit("")))
    return told.join(F.broadcast(once), ["layering", "node", "interface", "direction"], "left_semi")


def answers(requests: DataFrame, *keys: str) -> DataFrame:
    """Return keys, requests, interests, data, nacked, unanswered, retransmitted, items of transactions.

    requests are transactions, interests the packets; retransmitted are Interests after the first.
    """
    return requests.groupBy(*keys).agg(
        F.count("*").alias("requests"),
        F.sum("interests").alias("interests"),
        *(
            F.count_if(F.col("outcome") == outcome).alias(name)
            for outcome, name in (("data", "data"), ("nack", "nacked"), ("none", "unanswered"))
        ),
        F.sum(F.col("interests") - 1).alias("retransmitted"),
        F.coalesce(F.sum("items"), F.lit(0)).alias("items"),
    )


def nacks(requests: DataFrame) -> DataFrame:
    """Return layering, nack_reason, requests of the transactions that a Nack ended."""
    refused = requests.where(F.col("outcome") == "nack")
    return refused.groupBy("layering", "nack_reason").agg(F.count("*").alias("requests"))


def prefixed(requests: DataFrame) -> DataFrame:
    """Return transactions with `prefix`: the name up to its first number, as versions and segments are.

    A name without any loses its last component, if it has several.
    """
    named = F.regexp_extract("name", _NUMBERS, 1)
    shorter = F.regexp_extract("name", r"^(/.+)/[^/]*$", 1)
    prefix = F.when(named != "", named).when(shorter != "", shorter).otherwise(F.col("name"))
    return requests.withColumn("prefix", prefix)


def cut(prefix: str, depth: int | Column) -> Column:
    """Return the first components of a prefix, a column."""
    parts = F.split(prefix, "/")
    return F.array_join(F.slice(parts, 1, depth + 1), "/")


def depths(counted: DataFrame, deepest: int) -> DataFrame:
    """Return depth, prefixes: how many prefixes of `counted` there are with so many components at most."""
    every = F.explode(F.sequence(F.lit(1), F.lit(deepest)))
    return (
        counted.select("prefix", every.alias("depth"))
        .groupBy("depth")
        .agg(F.count_distinct(cut("prefix", F.col("depth"))).alias("prefixes"))
    )


def progress(feed_progress: DataFrame, spans: DataFrame, feeds: DataFrame) -> DataFrame:
    """Return layering, node, feed, slice, time, newest, missing: how far each node was at a slice's end."""
    chosen = feed_progress.join(F.broadcast(feeds.select("layering", "feed")), ["layering", "feed"])
    return (
        _sliced(chosen, spans, "time", SLICES)
        .groupBy(*_NODE, "feed", "slice")
        .agg(
            F.max("time").alias("time"),
            F.max("newest").alias("newest"),
            F.max_by("missing", F.struct("time", "seq")).alias("missing"),
        )
    )


def feeds(feed_progress: DataFrame, most: int) -> DataFrame:
    """Return layering, feed, items, nodes, arrivals of each run's `most` feeds with the most arrivals."""
    told = feed_progress.groupBy("layering", "feed").agg(
        F.max("newest").alias("items"),
        F.count_distinct("node").alias("nodes"),
        F.count("*").alias("arrivals"),
    )
    place = F.row_number().over(Window.partitionBy("layering").orderBy(F.desc("arrivals"), "feed"))
    return told.withColumn("place", place).where(F.col("place") <= most).drop("place")


def troubles(events: DataFrame, spans: DataFrame) -> DataFrame:
    """Return layering, node, event, slice, count of the events that packets tell."""
    told = events.where(F.col("source") == "packets")
    return (
        _sliced(told, spans, "time", SLICES)
        .groupBy(*_NODE, "event", "slice")
        .agg(F.count("*").alias("count"))
    )


def subjects(transactions: DataFrame, feed_progress: DataFrame, most: int) -> DataFrame:
    """Return layering, name, first (ns), trouble, alias, feed, seq: names whose sequence is worth a chart.

    Of each run the first `most` names to be asked for and as many in trouble: asked for again, refused or
    not answered. alias: the name of the Data, where it is another. Items of feeds that were pushed are
    among them, though nobody asks for them one by one.
    """
    trouble = F.col("interests") - 1 + F.when(F.col("outcome") == "data", 0).otherwise(1)
    pulled = transactions.where(F.col("kind") == "interest").select(
        "layering", "name", "time", trouble.alias("trouble"), "data_name", "feed", "seq"
    )
    pushed = feed_progress.select(
        "layering",
        F.concat("feed", F.lit("/seq="), F.col("seq").cast("string")).alias("name"),
        "time",
        F.lit(0).cast("long").alias("trouble"),
        F.lit(None).cast("string").alias("data_name"),
        "feed",
        "seq",
    )
    by_name = (
        pulled.unionByName(pushed)
        .groupBy("layering", "name")
        .agg(
            F.min("time").alias("first"),
            F.sum("trouble").alias("trouble"),
            F.min(F.when(F.col("data_name") != F.col("name"), F.col("data_name"))).alias("alias"),
            F.min("feed").alias("feed"),
            F.min("seq").alias("seq"),
        )
    )
    run = Window.partitionBy("layering")
    soonest = F.row_number().over(run.orderBy("first", "name"))
    worst = F.row_number().over(run.orderBy(F.desc("trouble"), "first", "name"))
    placed = by_name.withColumns({"soonest": soonest, "worst": worst})
    is_bad = (F.col("worst") <= most) & (F.col("trouble") > 0)
    return placed.where((F.col("soonest") <= most) | is_bad).drop("soonest", "worst")


def sequences(packets: DataFrame, chosen: DataFrame) -> DataFrame:
    """Return the frames that have to do with each of subjects(): layering, subject, and what they say.

    Those with the name or the alias, and the LLIs that ask for it in a range; the first MOST_FRAMES of each.
    """
    said = packets.select(
        *_NODE, "direction", "frame", "time", "src", "dst", "src_port", "dst_port", "kind", "name", "feed",
        "seq", "nonce", "send_credit", "nack_reason", "frame_bytes",
    )  # fmt: skip
    about = chosen.select(
        "layering", F.col("name").alias("subject"), "alias", F.col("feed").alias("of"), "seq"
    )
    names = about.select(
        "layering", "subject", F.explode(F.array_compact(F.array("subject", "alias"))).alias("name")
    )
    plain = said.where(F.col("kind").isin("interest", "data", "nack"))
    direct = plain.join(F.broadcast(names), ["layering", "name"])
    ranges = about.where(F.col("of").isNotNull()).select(
        "layering", "subject", F.col("of").alias("feed"), F.col("seq").alias("item")
    )
    last = F.col("seq") + F.col("send_credit") - 1
    granted = (
        said.where(F.col("kind") == "lli")
        .join(F.broadcast(ranges), ["layering", "feed"])
        .where(F.col("item").between(F.col("seq"), last))
        .drop("item")
    )
    place = F.row_number().over(Window.partitionBy("layering", "subject").orderBy("time", "node", "frame"))
    every = direct.unionByName(granted).withColumn("place", place)
    return every.where(F.col("place") <= MOST_FRAMES).drop("place")


def _summed(table: DataFrame, *keys: str) -> DataFrame:
    return table.groupBy(*keys).agg(F.sum("packets").alias("packets"), F.sum("bytes").alias("bytes"))


def _sliced(table: DataFrame, spans: DataFrame, time: str, slices: int) -> DataFrame:
    """Add `slice`: which of so many equal parts of its run a row's time is in."""
    place = F.floor((F.col(time) - F.col("start_ns")) * slices / (F.col("end_ns") - F.col("start_ns")))
    return (
        table.join(F.broadcast(spans.select("layering", "start_ns", "end_ns")), "layering")
        .where(F.col(time) <= F.col("end_ns"))
        .withColumn("slice", F.greatest(F.lit(0), F.least(F.lit(slices - 1), place)).cast("long"))
        .drop("start_ns", "end_ns")
    )
