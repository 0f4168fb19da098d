"""Transactions: each Interest on an interface, its retransmissions, and what came back for it there.

Theory of operation. An answer goes the other way between the same two ends as the Interest went. Ends are
told by the direction and the addresses; what went to a multicast group is answered to the group. Where a
capture shows neither, packets are told apart by kind alone.

Classic Interests. All Interests of one name, CanBePrefix and MustBeFresh between two ends, and what may
answer them, are put in the order of time; running sums then say which belong together. An answer that has
the Interest's own name needs no join: it is copied to each way in which that name was asked for. Names that
are longer than what was asked for (CanBePrefix), or shorter (an implicit digest), are looked up first, once
for each distinct name. A Nack is an answer whatever its Nonce: one that refuses a retransmission, too.

Long-lived Interests. The latest one between two ends for a feed is that to which its items answer, as far
as they lie in its range and it has not expired. One of the same name and credit as the one before, which
nothing has answered yet, repeats it.

Nothing is collected and no group is larger than the packets of one name (or feed) between two ends, which
Spark sorts on disk if it must.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from analysis.pit.entry import FOREVER
from analysis.stages import TRANSACTIONS
from captures.layers import GROUP

_SCOPE = ("layering", "node", "interface", "side", "ends")
_KEY = (*_SCOPE, "name")
_FEED = (*_SCOPE, "feed")
_DIGEST = "/sha256digest="


def transactions(messages: DataFrame, *, other_names: bool = True) -> DataFrame:
    """Return stages.TRANSACTIONS from network-layer packets (analysis.reassemble).

    `other_names`: whether there may be any of for_other_names(), which cost more than all else.

    There are two more columns, for analysis.events: `expires` (ns), when the last Interest would have, and
    `repeats`, time (ns) and bytes of every Interest of the transaction but the first. Interests whose name
    was cut off are left out.
    """
    known = _by_ends(messages.where(F.col("name").isNotNull()))
    return _classic(known, other_names).unionByName(_long_lived(known))


def for_other_names(messages: DataFrame) -> DataFrame:
    """Return the Interests that Data of another name may answer: by CanBePrefix, or an implicit digest."""
    return messages.where(
        (F.col("kind") == "interest") & (F.col("can_be_prefix") | F.col("name").contains(_DIGEST))
    )


def alive_until(time: str = "time", lifetime: str = "lifetime_ns") -> Column:
    """Return when an Interest of a lifetime expires; never, if that is beyond what a number holds."""
    return F.coalesce(F.try_add(F.col(time), F.col(lifetime)), F.lit(FOREVER))


def wire_size() -> Column:
    """Return the bytes of a packet's frames; in a TCP stream, where packets and frames differ, its own."""
    own = F.col("lp_bytes") + F.col("ndn_bytes")
    return F.when(F.col("frame_bytes") == 0, own).otherwise(F.col("frame_bytes"))


def _by_ends(messages: DataFrame) -> DataFrame:
    """Add to each packet the direction of the Interest it is or answers, as `side`, and the two ends."""
    asks = F.col("kind").isin("interest", "lli")
    back = F.when(F.col("direction") == "in", "out").when(F.col("direction") == "out", "in")
    own, peer = (F.concat_ws(" ", end, f"{end}_port") for end in ("src", "dst"))
    there_and_back = F.when(asks, F.concat_ws(" ", own, peer)).otherwise(F.concat_ws(" ", peer, own))
    ends = F.when(F.col("dst").rlike(GROUP), F.col("dst")).otherwise(there_and_back)
    # Columns that are null in a key would be equal to nothing in a join.
    return messages.select(
        *("layering", "node", "interface", "kind", "name", "feed", "seq", "time", "frame", "nack_reason"),
        F.coalesce(F.when(asks, F.col("direction")).otherwise(back), F.lit("")).alias("side"),
        ends.alias("ends"),
        F.coalesce("can_be_prefix", F.lit(False)).alias("can_be_prefix"),
        F.coalesce("must_be_fresh", F.lit(False)).alias("must_be_fresh"),
        "send_credit",
        asks.alias("asks"),
        F.when(asks, alive_until()).alias("expires"),
        wire_size().alias("size"),
    )


def _classic(known: DataFrame, other_names: bool) -> DataFrame:
    is_data = F.col("kind") == "data"
    # How a name was asked for: 0 .. 3, of CanBePrefix and MustBeFresh.
    selectors = F.col("can_be_prefix").cast("int") * 2 + F.col("must_be_fresh").cast("int")
    columns = (*_KEY, "kind", "asks", "time", "frame", "expires", "size", "feed", "seq", "nack_reason")
    asked = known.where(
        (F.col("kind") == "interest") | (F.col("kind") == "nack") & F.col("send_credit").isNull()
    )
    asked = asked.select(
        *columns, selectors.alias("selectors"), F.lit(None).cast("string").alias("data_name")
    )
    data = known.where(is_data).select(
        *columns, F.lit(None).cast("int").alias("selectors"), F.col("name").alias("data_name")
    )
    every = asked.union(data).withColumn("longer", F.lit(False))
    if other_names:
        every = every.union(_of_other_names(known, data))
    # Of Data, a row for each way in which Interests asked for the name; none if there were none.
    ways = F.collect_set(F.when(F.col("asks"), F.col("selectors"))).over(Window.partitionBy(*_KEY))
    fitting = F.filter("ways", lambda way: ~F.col("longer") | (way >= 2))
    every = (
        every.withColumn("ways", ways)
        .withColumn("way", F.explode(F.when(is_data, fitting).otherwise(F.array("selectors"))))
        .drop("ways", "selectors")
    )
    in_order = Window.partitionBy(*_KEY, "way").orderBy("time", "frame")
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    answers = F.coalesce(F.sum((~F.col("asks")).cast("long")).over(before), F.lit(0))
    # Since the last answer, as it only grows: when all Interests so far have expired.
    pending = F.max(F.when(F.col("asks"), F.struct("era", "expires"))).over(before)
    is_pending = F.coalesce(
        (F.col("pending.era") == F.col("era")) & (F.col("time") < F.col("pending.expires")), F.lit(False)
    )
    asks = F.col("asks")
    followed = (
        every.withColumn("era", answers)
        .withColumn("pending", pending)
        .withColumn("is_pending", is_pending)
        .where(asks | F.col("is_pending"))
        .withColumn("number", F.sum((asks & ~F.col("is_pending")).cast("long")).over(in_order))
    )
    own = [F.max(F.when(asks, F.col(name))).alias(name) for name in ("feed", "seq", "expires")]
    answered = F.max(F.when(~asks, F.col("time")))
    table = followed.groupBy(*_KEY, "way", "number").agg(
        *own,
        F.min(F.when(asks, F.col("time"))).alias("first"),
        F.max(F.when(asks, F.col("time"))).alias("last"),
        F.count_if(asks).alias("interests"),
        F.coalesce(F.max(F.when(~asks, F.col("kind"))), F.lit("none")).alias("outcome"),
        answered.alias("answered"),
        F.max(F.when(~asks, F.col("nack_reason"))).alias("nack_reason"),
        F.max(F.when(~asks, F.col("data_name"))).alias("data_name"),
        F.count_if(is_data).alias("items"),
        F.sum(F.when(asks, F.col("size"))).alias("interest_bytes"),
        F.coalesce(F.sum(F.when(~asks, F.col("size"))), F.lit(0)).alias("answer_bytes"),
        F.collect_list(F.when(asks & F.col("is_pending"), _moment())).alias("repeats"),
    )
    return _finished(
        table,
        kind=F.lit("interest"),
        can_be_prefix=F.col("way") >= 2,
        must_be_fresh=F.col("way") % 2 == 1,
        send_credit=F.lit(None).cast("long"),
    )


def _of_other_names(known: DataFrame, data: DataFrame) -> DataFrame:
    """Return Data once more under each name asked for that it answers without having it."""
    asked = known.where(F.col("kind") == "interest")
    prefixes = asked.where("can_be_prefix").select(*_KEY, F.col("name").alias("asked"))
    # All prefixes of whole components, the name itself not among them; "/" is that of all.
    parts = F.split("name", "/")
    shorter = F.transform(
        F.sequence(F.lit(1), F.size("parts") - 1),
        lambda count: F.when(count == 1, "/").otherwise(F.array_join(F.slice("parts", 1, count), "/")),
    )
    names = (
        data.where(F.col("name") != "/")
        .select(*_KEY)
        .distinct()
        .withColumn("parts", parts)
        .select(*_SCOPE, F.col("name").alias("data_name"), F.explode(shorter).alias("name"))
    )
    by_prefix = names.join(prefixes.distinct(), list(_KEY)).select(*_SCOPE, "data_name", "asked")
    digests = asked.where(F.col("name").contains(_DIGEST)).select(
        *_SCOPE, F.substring_index("name", _DIGEST, 1).alias("data_name"), F.col("name").alias("asked")
    )
    pairs = by_prefix.withColumn("longer", F.lit(True)).union(
        digests.distinct().withColumn("longer", F.lit(False))
    )
    rest = [name for name in data.columns if name not in (*_SCOPE, "name", "data_name")]
    return data.join(pairs, [*_SCOPE, "data_name"]).select(
        *_SCOPE, F.col("asked").alias("name"), *rest, "data_name", "longer"
    )


def _long_lived(known: DataFrame) -> DataFrame:
    credit = F.col("send_credit").isNotNull()
    told = known.where(F.col("feed").isNotNull() & ((F.col("kind") == "data") | credit))
    in_order = Window.partitionBy(*_FEED).orderBy("time", "frame")
    asks = F.col("asks")
    latest = F.last(F.when(asks, F.struct("name", "seq", "send_credit", "expires")), ignorenulls=True)
    # A sum of item and credit might not fit.
    in_range = (F.col("seq") >= F.col("lli.seq")) & (
        F.col("seq") - F.col("lli.seq") < F.col("lli.send_credit")
    )
    is_alive = F.col("time") < F.col("lli.expires")
    is_item = (F.col("kind") == "data") & in_range & is_alive
    is_nack = (F.col("kind") == "nack") & (F.col("name") == F.col("lli.name")) & is_alive
    each = (
        told.withColumn("turn", F.count_if(asks).over(in_order))
        .withColumn("lli", latest.over(in_order))
        .withColumn("is_item", is_item)
        .withColumn("is_nack", is_nack)
        .where(asks | F.col("is_item") | F.col("is_nack"))
        .groupBy(*_FEED, "turn")
        .agg(
            F.first("lli").alias("lli"),
            F.min(F.when(asks, F.col("time"))).alias("time"),
            F.sum(F.when(asks, F.col("size"))).alias("size"),
            F.min(F.when(F.col("is_item"), F.struct("time", "frame", "name"))).alias("item"),
            F.min(F.when(F.col("is_nack"), F.struct("time", "nack_reason"))).alias("nack"),
            F.size(F.collect_set(F.when(F.col("is_item"), F.col("seq")))).cast("long").alias("items"),
            F.coalesce(F.sum(F.when(~asks, F.col("size"))), F.lit(0)).alias("answer_bytes"),
        )
    )
    by_turn = Window.partitionBy(*_FEED).orderBy("turn")
    is_answered = F.col("item").isNotNull() | F.col("nack").isNotNull()
    before = F.lag(F.when(~is_answered, F.col("lli"))).over(by_turn)
    repeats = F.coalesce(
        (F.col("lli.name") == F.col("before.name"))
        & (F.col("lli.send_credit") == F.col("before.send_credit"))
        & (F.col("time") < F.col("before.expires")),
        F.lit(False),
    )
    table = (
        each.withColumn("before", before)
        .withColumn("is_repeat", repeats)
        .withColumn("number", F.sum((~F.col("is_repeat")).cast("long")).over(by_turn))
        .groupBy(*_FEED, "number")
        .agg(
            F.max("lli").alias("lli"),
            F.max("lli.expires").alias("expires"),
            F.min("time").alias("first"),
            F.max("time").alias("last"),
            F.count("*").alias("interests"),
            F.max("item").alias("item"),
            F.max("nack").alias("nack"),
            F.sum("items").alias("items"),
            F.sum("size").alias("interest_bytes"),
            F.sum("answer_bytes").alias("answer_bytes"),
            F.collect_list(F.when(F.col("is_repeat"), _moment())).alias("repeats"),
        )
    )
    has_item, has_nack = F.col("item").isNotNull(), F.col("nack").isNotNull()
    return _finished(
        table.select("*", "lli.name", "lli.seq", "lli.send_credit"),
        kind=F.lit("lli"),
        can_be_prefix=F.lit(False),
        must_be_fresh=F.lit(False),
        outcome=F.when(has_item, "data").when(has_nack, "nack").otherwise("none"),
        answered=F.coalesce(F.col("item.time"), F.col("nack.time")),
        nack_reason=F.when(~has_item, F.col("nack.nack_reason")),
        data_name=F.col("item.name"),
    )


def _moment() -> Column:
    return F.struct(F.col("time"), F.col("size").alias("bytes"))


def _finished(table: DataFrame, **columns: Column) -> DataFrame:
    known = table.withColumns(columns).withColumnRenamed("first", "time")
    known = known.withColumns(
        {
            "direction": F.when(F.col("side") != "", F.col("side")),
            "rtt_ns": F.col("answered") - F.col("time"),
        }
    )
    return known.select(*TRANSACTIONS.names, "expires", F.array_sort("repeats").alias("repeats"))
