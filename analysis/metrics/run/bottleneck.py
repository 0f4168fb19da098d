"""The bottleneck: each flow's share of the busiest link, and the length of its queue.

A flow is one feed to one subscriber. Its throughput is measured while all flows are active: from the latest
first delivery to the earliest last one.
"""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from analysis.packet_schema import schema_of
from analysis.tables.latency import ARCHIVED

BUSY = 0.5
"""Minimum utilisation of a bottleneck link over the run."""

QUEUE = schema_of("layering string, interface string, time int64, queue_bytes float64, peak_bytes float64")
"""A queue sample: bytes waiting at `time` (ns), including the frame in transmission, and the maximum since
the previous sample.
"""


def flows(latencies: DataFrame) -> DataFrame:
    """Return layering, node, feed, from_ns, to_ns, bytes_per_s of each flow while all were active.

    bytes_per_s counts the applications' messages; null if the flows were never active together.
    """
    counted = latencies.where(F.col("purpose") != ARCHIVED)
    ends = counted.groupBy("layering", "node", "feed").agg(
        F.min("delivered").alias("first"), F.max("delivered").alias("last")
    )
    together = ends.groupBy("layering").agg(F.max("first").alias("from_ns"), F.min("last").alias("to_ns"))
    inside = (F.col("delivered") > F.col("from_ns")) & (F.col("delivered") <= F.col("to_ns"))
    seconds = (F.first("to_ns") - F.first("from_ns")) / 1e9
    return (
        counted.join(F.broadcast(together), "layering")
        .groupBy("layering", "node", "feed", "from_ns", "to_ns")
        .agg(
            F.when(
                seconds > 0, F.coalesce(F.sum(F.when(inside, F.col("payload_bytes"))), F.lit(0)) / seconds
            ).alias("bytes_per_s")
        )
    )


def queue(packets: DataFrame, links: DataFrame, step_ns: int) -> DataFrame:
    """Return the QUEUE of links, a sample each `step_ns` from the first frame to the end of the run.

    `packets` has the rows of analysis.packet_schema.PACKETS with layering; `links` has layering, interface
    (the sender's), ns_per_byte, max_queue_size (frames, null for no limit) and end_ns. A frame waits from its
    handover until its last bit is sent; frames that find the queue full are dropped.
    """
    frames = packets.where(F.col("direction") == "out").join(F.broadcast(links), ["layering", "interface"])
    needed = frames.select(
        "layering", "interface", "time", "frame", "frame_bytes", "ns_per_byte", "max_queue_size", "end_ns"
    )

    def follow(key: tuple[pa.Scalar, ...], table: pa.Table) -> pa.Table:
        layering, interface = (scalar.as_py() for scalar in key)
        table = table.sort_by([("time", "ascending"), ("frame", "ascending")])
        rate, limit, end = (table[name][0].as_py() for name in ("ns_per_byte", "max_queue_size", "end_ns"))
        handed = zip(table["time"].to_pylist(), table["frame_bytes"].to_pylist(), strict=True)
        samples = _samples(handed, rate, limit, end, step_ns)
        rows = [dict(zip(QUEUE.names, (layering, interface, *each), strict=True)) for each in samples]
        return pa.Table.from_pylist(rows, QUEUE)

    return needed.groupBy("layering", "interface").applyInArrow(follow, from_arrow_schema(QUEUE))


def _samples(
    handed: Iterator[tuple[int, int]], ns_per_byte: float, limit: int | None, end: int, step_ns: int
) -> Iterator[tuple[int, float, float]]:
    """Yield (time, bytes waiting, maximum since the previous sample) for frames (time, length) in order."""
    departures: list[int] = []
    begun = 0
    free = 0
    peak = 0.0
    due: int | None = None

    def waiting(now: int) -> float:
        return max(free - now, 0) / ns_per_byte

    for time, length in handed:
        if due is None:
            due = time
        while due < time and due <= end:
            yield due, waiting(due), max(peak, waiting(due))
            peak = waiting(due)
            due += step_ns
        while begun < len(departures) and departures[begun] <= time:
            begun += 1
        if limit is not None and len(departures) - begun >= limit:
            continue
        free = max(free, time) + round(length * ns_per_byte)
        departures.append(free)
        peak = max(peak, waiting(time))
    while due is not None and due <= end:
        yield due, waiting(due), max(peak, waiting(due))
        peak = waiting(due)
        due += step_ns
