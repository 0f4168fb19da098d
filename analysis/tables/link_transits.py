"""Link transits: each packet sent over a link, and its arrival, if any.

A packet is captured where it leaves and where it arrives. The two sightings are matched by content and by the
link's delay; a departure without an arrival is a loss. The report's plots of links use it: load, losses and
recovery times, hop delays, and journeys of items.

A broadcast medium is modelled as a node between its members: a packet goes up to it at once, and down to each
member in range. A multicast packet that a member does not receive is lost on the way down. The tables lack
the destination member of unicast packets, so their loss is not detected.
"""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from analysis.columns.quantiles import evenly, summarised
from analysis.columns.slices import slice_of, with_span
from analysis.decode.protocols.multicast import SEGMENTS
from analysis.decode.protocols.registry import in_datagrams
from analysis.packet_schema import NOTICES, schema_of
from analysis.run.context import Cases
from analysis.run.manifest import Link, Medium
from analysis.tables.matching import match
from captures.layers.layers import GROUP
from topologies.link import LinkParameters

ENDS = schema_of(
    "layering string, interface string, is_out bool, sender string, receiver string, way string, least_ns"
    " int64, delay_ns int64, ns_per_byte float64"
)
"""Sender and receiver of each interface's traffic. way: over a "link", "up" to a medium or "down" from it,
where the medium is one of the two; least_ns: the delay less the jitter; ns_per_byte: 0 for no limit.
"""

TRANSITS = schema_of(
    "layering string, sender string, receiver string, frame int64, sent int64, received int64, kind string,"
    " feed string, seq int64, topic string, send_credit int64, is_persistent bool, nack_reason int64,"
    " feed_tip int64, feed_limit int64, frames int64, frame_bytes int64"
)
"""One row per packet sent. sent, received: ns, received null if lost; frame: the sender's capture frame.
kind: as in analysis.decode.reference.PACKETS, without "fragment" and "malformed". feed, seq: of an item's
name, or of `<feed>/32=<topic>[/seq=<seq>]`, with its topic ("metadata", "notify", "sync", "fork"). A
persistent Interest's feed is its name. feed_tip, feed_limit: of FeedState.
"""

_TOPIC = r"^(.*)/32=([a-z]+)(?:/seq=(\d+))?"
_KEY = ("kind", "name", "flow", "nonce", "send_credit", "nack_reason", "frame_bytes")


def link_ends(cases: Cases) -> pa.Table:
    """Return ENDS of all cases."""
    rows = []
    for name, case in cases.items():
        topology = case.manifest.topology
        ways: list[tuple[_Way, str, LinkParameters]]
        ways = [(way, "link", link) for link in topology.links for way in _link_ways(link)]
        ways += [(way, kind, medium) for medium in topology.media for way, kind in _medium_ways(medium)]
        rows += [
            (name, *way, kind, link.least_delay_ns, link.delay_ns, link.ns_per_byte)
            for way, kind, link in ways
        ]
    return pa.Table.from_pylist([dict(zip(ENDS.names, row, strict=True)) for row in rows], ENDS)


_Way = tuple[str, bool, str, str]
"""interface, is_out, sender, receiver of ENDS."""


def _link_ways(link: Link) -> Iterator[_Way]:
    for sender, receiver, out, into in (
        (link.a, link.b, link.interface_a, link.interface_b),
        (link.b, link.a, link.interface_b, link.interface_a),
    ):
        yield out, True, sender, receiver
        yield into, False, sender, receiver


def _medium_ways(medium: Medium) -> Iterator[tuple[_Way, str]]:
    members = list(zip(medium.members, medium.interfaces, strict=True))
    for member, interface in members:
        yield (interface, True, member, medium.name), "up"
        yield (interface, False, medium.name, member), "down"
        for other, _ in members:
            if other != member:
                yield (interface, True, medium.name, other), "down"


def transits(packets: DataFrame, messages: DataFrame, ends: DataFrame) -> DataFrame:
    """Return TRANSITS from the rows of analysis.packet_schema.PACKETS, those of analysis.tables.reassembly,
    and ENDS.
    """
    is_idle = F.col("kind").isin(*NOTICES) & (F.col("frag_count") == 1)
    of_datagrams = (kind for protocol in in_datagrams() for kind in protocol.kinds)
    is_frame = F.col("kind").isin("other", "segment", *of_datagrams)
    said = ("src", "src_port", "dst", "dst_port", "tcp_seq", "tcp_ack", "tcp_flags")
    # All other packets are in messages, reassembled.
    single = packets.where(is_idle | is_frame).withColumn("flow", F.when(is_frame, F.concat_ws(" ", *said)))
    packets_whole = messages.withColumn("flow", F.lit(None).cast("string"))
    every = packets_whole.unionByName(
        single.withColumn("frames", F.lit(1).cast("long")), allowMissingColumns=True
    ).drop("feed_tip", "feed_limit")
    states = packets.where(F.col("feed_tip").isNotNull())
    every = every.join(
        states.select("layering", "frame", "feed_tip", "feed_limit"), ["layering", "frame"], "left"
    )
    is_out = F.col("direction") == "out"
    about = every.withColumn("is_out", is_out).join(F.broadcast(ends), ["layering", "interface", "is_out"])
    about = about.select(
        "layering", "sender", "receiver", "is_out", "way", "least_ns", "src",
        F.coalesce(F.col("dst").rlike(GROUP), F.lit(False)).alias("to_group"),
        "frame", "time", "name", "nonce", "flow", "kind",
        F.coalesce("feed", _part(1), F.when(F.col("is_persistent"), F.col("name"))).alias("feed"),
        F.coalesce("seq", _part(3).cast("long")).alias("seq"),
        _part(2).alias("topic"),
        "send_credit", "is_persistent", "nack_reason", "feed_tip", "feed_limit", "frames", "frame_bytes",
    )  # fmt: skip
    links = about.groupBy("layering", "sender", "receiver")
    return links.applyInArrow(_match_link, from_arrow_schema(TRANSITS))


def _part(group: int) -> Column:
    """Return a component of a feed-related name that is no item's; null for other names."""
    found = F.when(F.col("seq").isNull(), F.regexp_extract("name", _TOPIC, group))
    return F.when(found != "", found)


def _match_link(table: pa.Table) -> pa.Table:
    table = table.sort_by([("time", "ascending"), ("frame", "ascending")])
    way = table["way"][0].as_py()
    said = (*_KEY, "src") if way == "down" else _KEY
    columns = {name: table[name].to_pylist() for name in ("is_out", "time", "to_group", *said)}
    if way == "up":
        pairs = list(enumerate(columns["time"]))
    else:
        keys = list(zip(*(columns[name] for name in said), strict=True))
        least = table["least_ns"][0].as_py()
        pairs = list(match(columns["is_out"], columns["time"], keys, least))
    if way == "down":  # the receiver is known for multicast only
        to_group = columns["to_group"]
        pairs = [(place, time) for place, time in pairs if time is not None or to_group[place]]
    outs = table.take(pa.array([place for place, _ in pairs], pa.int64()))
    outs = outs.append_column("sent", outs["time"])
    outs = outs.append_column("received", pa.array([time for _, time in pairs], pa.int64()))
    return outs.select(TRANSITS.names).cast(TRANSITS)


def link_load(crossed: DataFrame, runs: DataFrame, slices: int = 60) -> DataFrame:
    """Return layering, sender, receiver, slice, kind, packets, lost, bytes: traffic sent over each link.

    `slice` is one of `slices` equal parts of the run, from 0; lost counts those of `packets` that did not
    arrive; bytes are of Ethernet frames. `runs` is analysis.run.context.RUNS.
    """
    return (
        with_span(crossed, runs)
        .withColumn("slice", slice_of("sent", slices))
        .groupBy("layering", "sender", "receiver", "slice", "kind")
        .agg(
            F.count("*").alias("packets"),
            F.count_if(F.col("received").isNull()).alias("lost"),
            F.sum("frame_bytes").alias("bytes"),
        )
    )


def hop_delays(crossed: DataFrame, latencies: DataFrame, points: int = 200) -> DataFrame:
    """Return the node-to-node delays of items: layering, sender, receiver, hops, quantiles_ns.

    A hop is the first arrival of an item at a node; its delay is the time since its arrival or publication at
    the previous node. So it includes that node's waiting, not only the link. `latencies` is
    analysis.tables.latency.latency. A row per link and direction, and one with sender and receiver "*" for
    all together; quantiles at `points` + 1 even steps from 0 to 1.
    """
    item = ("layering", "feed", "seq")
    arrived = _items(crossed).where(F.col("received").isNotNull())
    first = arrived.groupBy(*item, "receiver").agg(
        F.min_by("sender", F.struct("received", "sender")).alias("sender"),
        F.min("received").alias("received"),
    )
    published = latencies.groupBy(*item).agg(F.min("published").alias("published"))
    had = first.select(*item, F.col("receiver").alias("sender"), F.col("received").alias("had"))
    since = F.coalesce("had", "published")
    hops = (
        first.join(had, [*item, "sender"], "left")
        .join(published, [*item], "left")
        .select("layering", "sender", "receiver", (F.col("received") - since).alias("delay_ns"))
        .where(F.col("delay_ns") >= 0)
    )
    together = hops.withColumns({"sender": F.lit("*"), "receiver": F.lit("*")})
    values = {"quantiles_ns": (F.col("delay_ns"), evenly(points))}
    way = ("layering", "sender", "receiver")
    return summarised(hops.union(together), way, [F.count("*").alias("hops")], values)


def losses(crossed: DataFrame, ends: DataFrame) -> DataFrame:
    """Return layering, sender, receiver, feed, seq, lost (ns), recovery_ns: items lost by a link, and the
    time until the receiver had them.

    `lost` is the expected arrival of the item's first lost packet, recovery_ns the time from then to the
    item's first arrival from anywhere, null if never. Items already present do not count as lost.
    """
    item = ("layering", "receiver", "feed", "seq")
    sent = _items(crossed)
    links = ends.select("layering", "sender", "receiver", "delay_ns", "ns_per_byte").distinct()
    due = (
        F.col("sent") + F.col("delay_ns") + F.round(F.col("frame_bytes") * F.col("ns_per_byte")).cast("long")
    )
    missed = (
        sent.where(F.col("received").isNull())
        .join(F.broadcast(links), ["layering", "sender", "receiver"])
        .groupBy(*item)
        .agg(F.min_by("sender", F.struct("sent", "sender")).alias("sender"), F.min(due).alias("lost"))
    )
    came = sent.groupBy(*item).agg(F.min("received").alias("came"))
    return (
        missed.join(came, [*item], "left")
        .where(F.col("came").isNull() | (F.col("came") > F.col("lost")))
        .withColumn("recovery_ns", F.col("came") - F.col("lost"))
        .select("layering", "sender", "receiver", "feed", "seq", "lost", "recovery_ns")
    )


def _items(crossed: DataFrame) -> DataFrame:
    return crossed.where((F.col("kind") == "data") & F.col("topic").isNull() & F.col("feed").isNotNull())


def journeys(crossed: DataFrame, most: int) -> DataFrame:
    """Return the transits for drawing journeys: if they are more than `most`, of the lowest-numbered items
    only, and of what has no number.

    Segments of multicast are left out: only the first of an item says which item it is.
    """
    about = crossed.where(F.col("feed").isNotNull() & ~F.col("kind").isin(*SEGMENTS))
    total = about.count()
    if total <= most:
        return about
    last = crossed.agg(F.max("seq")).first()
    highest = int((last[0] if last else None) or 1)
    return about.where(F.coalesce("seq", F.lit(0)) <= max(1, highest * most // total))
