"""Validation of the PIT state derived from packets against the forwarders' counters."""

from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from analysis.pit.entry import COUNTED, State
from analysis.pit.windows.tables import DELTAS

_KEY = ["layering", "node", "time"]
_NODE = ("layering", "node")


def samples(pit_steps: DataFrame, times: DataFrame, slack_ns: int = 0) -> DataFrame:
    """Return the state of each node at given times, from analysis.pit.windows.tables.STEPS.

    `times` has layering, node, time (ns). Added are entries, bytes, ranges, credit, satisfied and expired,
    and each with _low and _high: the least and the greatest within `slack_ns` of the time, for clocks and
    packets in flight.
    """
    asked = times.select(*_NODE, "time").distinct()
    nothing = [F.lit(0).cast("long").alias(name) for name in DELTAS]
    rows = pit_steps.select(*_NODE, "time", *DELTAS, F.lit(False).alias("asked")).union(
        asked.select("*", *nothing, F.lit(True))
    )
    if slack_ns:
        # A second mark, `slack_ns` earlier, has the state at the beginning of the interval around a sample.
        earlier = asked.withColumn("time", F.col("time") - slack_ns)
        rows = rows.union(earlier.select("*", *nothing, F.lit(False)))
    by_time = Window.partitionBy(*_NODE).orderBy("time")
    around = by_time.rangeBetween(-slack_ns, slack_ns)
    extremes = [
        (extreme(what).over(around) if slack_ns else F.col(what)).alias(f"{what}_{which}")
        for what in COUNTED
        for which, extreme in (("low", F.min), ("high", F.max))
    ]
    return (
        # The default frame of an ordered window is by range: rows of the same time count, too.
        rows.select("*", *(F.sum(f"delta_{what}").over(by_time).alias(what) for what in COUNTED))
        .select(*_NODE, "time", "asked", *COUNTED, *extremes)
        .where("asked")
        .drop("asked")
    )


def truth(pit_samples: pa.Table, counters: pa.Table) -> pa.Table:
    """Set the derived state beside the forwarders' own counters, sample by sample.

    `pit_samples` is samples(); `counters` has layering, node, time (ns), pit_entries, pit_bytes, pit_ranges,
    pit_credit, pit_satisfied and pit_expired, null where not counted. Samples without any counter, such as a
    foreign forwarder's, are left out. Returns layering, node, time, each of these as derived_ and counted_,
    and `agrees`: whether entries, bytes, ranges and credit lie within the bounds of samples(). Satisfied and
    expired are sums: with real clocks, a packet received at an entry's expiry makes them differ for the rest
    of the run, so they do not count for `agrees`.

    Both sides count network faces only. Satisfied and expired are counted from the node's start. They are not
    the forwarder's counters of the same name, which include Interests between applications of a node and
    exclude answers of the cache. Compared are entries ended by Data from the network, and expired entries
    with a record of a network face; none of feeds.
    """
    counted = counters.select([*_KEY, *(f"pit_{what}" for what in COUNTED)])
    both = pit_samples.join(counted, _KEY, join_type="inner").sort_by([(key, "ascending") for key in _KEY])
    both = both.filter(reduce(pc.or_, (pc.is_valid(both[f"pit_{what}"]) for what in COUNTED)))
    columns = {key: both[key] for key in _KEY}
    agrees = []
    for what in COUNTED:
        theirs = both[f"pit_{what}"]
        columns |= {f"derived_{what}": both[what], f"counted_{what}": theirs}
        if what in State._fields:
            agrees += [
                pc.greater_equal(theirs, both[f"{what}_low"]),
                pc.less_equal(theirs, both[f"{what}_high"]),
            ]
    return pa.table(columns | {"agrees": _all(agrees)})


def truth_summary(pit_truth: pa.Table) -> pa.Table:
    """Return for each layering: samples, exact (all equal), agreeing, and the largest differences,
    max_entries_difference and so on (null where not counted)."""
    apart = {
        f"max_{what}_difference": pc.abs(
            pc.subtract(pit_truth[f"derived_{what}"], pit_truth[f"counted_{what}"])
        )
        for what in COUNTED
    }
    exact = _all([pc.equal(difference, 0) for difference in apart.values()])
    table = pa.table(
        {"layering": pit_truth["layering"], "exact": exact, "agreeing": pit_truth["agrees"]} | apart
    )
    wanted = [([], "count_all"), ("exact", "sum"), ("agreeing", "sum"), *((name, "max") for name in apart)]
    found = table.group_by("layering").aggregate(wanted).sort_by("layering")
    names = ["samples", "exact", "agreeing", *apart]
    made = ["count_all", "exact_sum", "agreeing_sum", *(f"{name}_max" for name in apart)]
    return pa.table(
        {"layering": found["layering"]}
        | {name: pc.cast(found[column], pa.int64()) for name, column in zip(names, made, strict=True)}
    )


def _all(facts: list[pa.ChunkedArray]) -> pa.ChunkedArray:
    """Return whether all known facts are true."""
    return reduce(pc.and_, (pc.fill_null(fact, True) for fact in facts))
