"""Totals per layering for the comparison, aggregated from collected tables.

Inputs are a few rows per node, link or subscriber. Plain Python handles them: as Spark jobs each step would
cost more than all rows together.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import fsum
from statistics import median
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analysis.columns.rows import grouped, summed
from analysis.columns.samples import without_tails
from analysis.columns.values import ALL, HELD
from analysis.decode.protocols.registry import PROTOCOLS
from analysis.files import Rows
from analysis.metrics.catalogue import OTHER, STATE_KINDS
from analysis.packet_schema import schema_of

Totals: TypeAlias = Mapping[str, Mapping[str, Any]]
"""Metrics by layering and name; None, or absent, where undefined."""


def ratio(value: float | None, of: float | None, scale: int = 1) -> float | None:
    """Return value * scale / of; None if either is unknown or `of` is 0."""
    return None if value is None or not of else value * scale / of


def by_layering(table: pa.Table) -> dict[str, Rows]:
    """Return a table's rows by layering."""
    return grouped(table.to_pylist(), "layering")


def single(table: pa.Table) -> Totals:
    """Return a table of one row per layering as totals."""
    return {row["layering"]: row for row in table.to_pylist()}


def events_totals(events: pa.Table, feeds: pa.Table, faults: pa.Table) -> Totals:
    """Return published, twice, out_of_order, forked, errors.

    `events` has the applications' events: layering, event, feed, seq; `feeds` is analysis.run.context.FEEDS,
    without counting cross traffic; `faults` is analysis.metrics.run.delivery.faults.
    """
    own = {(row["layering"], row["feed"]) for row in feeds.to_pylist() if not row["cross"]}
    published = events.filter(pc.equal(events["event"], "published"))
    distinct = published.group_by(["layering", "feed", "seq"]).aggregate([])
    per_feed = distinct.group_by(["layering", "feed"]).aggregate([([], "count_all")]).to_pylist()
    totals: dict[str, dict[str, int]] = defaultdict(lambda: {"published": 0})
    for row in per_feed:
        if (row["layering"], row["feed"]) in own:
            totals[row["layering"]]["published"] += row["count_all"]
    for layering, rows in by_layering(faults).items():
        for name in ("twice", "out_of_order", "forked", "errors"):
            totals[layering][name] = sum(row[name] for row in rows)
    return totals


def latency_totals(quantiles: pa.Table, first_items: pa.Table, recovery: pa.Table) -> Totals:
    """Return deliveries and the metrics of latency, with tails only of enough samples, from
    analysis.tables.latency.quantiles, analysis.metrics.run.delivery.first_items and .recovery.
    """
    totals: dict[str, dict[str, Any]] = defaultdict(dict)
    for row in quantiles.to_pylist():
        if row["node"] == ALL:
            totals[row["layering"]] |= without_tails(row, row["deliveries"], "latency", "latency_ratio")
    for table, value, name in ((first_items, "wait_ns", "first_item"), (recovery, "gap_ns", "recovery")):
        for layering, rows in by_layering(table).items():
            waits = [row[value] for row in rows if row[value] is not None]
            if waits:
                totals[layering] |= {f"{name}_p50": median(waits) / 1e6, f"{name}_max": max(waits) / 1e6}
    return totals


def keeping_up_totals(subscribers: pa.Table) -> Totals:
    """Return fell_behind and cut_off: numbers of subscribers in saturation.KEEPING_UP."""
    return {
        layering: {name: sum(row[name] for row in rows) for name in ("fell_behind", "cut_off")}
        for layering, rows in by_layering(subscribers).items()
    }


def held_totals(name: str, summary: pa.Table) -> Totals:
    """Return the state of nodes and of the network as metrics `<name>_entries_mean` and so on, from
    analysis.pit.windows.levels.SUMMARY.
    """
    totals: dict[str, dict[str, Any]] = {}
    for layering, rows in by_layering(summary).items():
        nodes = [row for row in rows if row["node"] != ALL]
        network = next((row for row in rows if row["node"] == ALL), {})
        totals[layering] = {}
        for what in HELD:
            known = [mean for row in nodes if (mean := row[f"mean_{what}"]) is not None]
            totals[layering] |= {
                f"{name}_{what}_mean": _mean(known),
                f"{name}_{what}_peak": _most([row[f"peak_{what}"] for row in nodes]),
                f"{name}_{what}_network": network.get(f"mean_{what}"),
                f"{name}_{what}_network_peak": network.get(f"peak_{what}"),
            }
    return totals


def kind_totals(kinds: pa.Table) -> Totals:
    """Return bytes of state, mean of a node, by the catalogue's STATE_KINDS, from
    analysis.metrics.run.state.KINDS.
    """
    totals: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    held = pc.and_(pc.greater(kinds["peak_bytes"], 0), pc.is_valid(kinds["mean_bytes"]))
    for row in kinds.filter(held).to_pylist():
        kind = row["kind"] if row["kind"] in STATE_KINDS else OTHER
        totals[row["layering"]][f"state_bytes_{kind}"] += row["mean_bytes"]
    return totals


def pit_totals(pit_summary: pa.Table, feeds_there: pa.Table) -> Totals:
    """Return the other PIT metrics, from analysis.pit.windows.levels.SUMMARY and
    analysis.metrics.run.lower_bounds.feeds_at.
    """
    feeds = {(row["layering"], row["node"]): row["feeds"] for row in feeds_there.to_pylist()}
    totals: dict[str, dict[str, Any]] = {}
    for layering, rows in by_layering(pit_summary).items():
        nodes = [row for row in rows if row["node"] != ALL]
        per_feed = [ratio(row["peak_entries"], feeds.get((layering, row["node"]))) for row in nodes]
        totals[layering] = {
            "pit_entries_per_feed": _most(per_feed),
            "pit_credit_mean": _mean([row["mean_credit"] for row in nodes]),
        }
    return totals


def lives_totals(lives: pa.Table) -> Totals:
    """Return renewals and lifetime metrics of the ended entries of all nodes, from
    analysis.pit.outcomes.lives.
    """
    totals: dict[str, dict[str, Any]] = {}
    for row in lives.to_pylist():
        if row["node"] == ALL:
            ended = row["entries"] - row["open"]
            known = without_tails(row, row["lasted"], "lifetime")
            totals[row["layering"]] = {
                "renewals": row["renewals"],
                "pit_lifetime_p50": known["lifetime_p50"],
                "pit_lifetime_p95": known["lifetime_p95"],
                "pit_aggregation": ratio(row["aggregated_in"], row["aggregated_out"]),
                **{
                    f"pit_{how}_share": ratio(row[how], ended, 100)
                    for how in ("satisfied", "expired", "nacked")
                },
            }
    return totals


def wire_totals(sent: pa.Table, nodes: pa.Table) -> Totals:
    """Return wire_frames, wire_bytes, interests, asked (by subscribers' nodes).

    `sent` is analysis.tables.overhead.traffic, `nodes` analysis.run.context.NODES.
    """
    roles = {(row["layering"], row["node"]): row["role"] for row in nodes.to_pylist()}
    totals: dict[str, dict[str, int]] = {}
    for layering, rows in by_layering(sent).items():
        interests = [row for row in rows if row["kind"] in ("interest", "lli")]
        totals[layering] = {
            "wire_frames": sum(row["frames"] for row in rows),
            "wire_bytes": sum(row["frame_bytes"] for row in rows),
            "interests": sum(row["frames"] for row in interests),
            "asked": sum(
                row["frames"]
                for row in interests
                if roles.get((layering, row["node"])) in ("subscriber", "peer", "gateway")
            ),
        }
    return totals


def control_totals(sent: pa.Table, messages: pa.Table) -> Totals:
    """Return control: messages over links that concern items and carry none, as protocols declare.

    `sent` is analysis.tables.overhead.traffic (NDN's messages); `messages` is
    analysis.tables.protocol_messages.sent.
    """
    totals: dict[str, dict[str, int]] = defaultdict(lambda: {"control": 0})
    for table, amount in ((sent, "frames"), (messages, "messages")):
        for row in table.to_pylist():
            protocol = PROTOCOLS.get(row["protocol"])
            if protocol is not None and row["kind"] in protocol.control:
                totals[row["layering"]]["control"] += row[amount]
    return totals


def connection_totals(connections: pa.Table, runs: pa.Table) -> Totals:
    """Return connections: the number opened by nodes, if the layering's protocol has any.

    `connections` is analysis.tables.schema.CONNECTIONS, `runs` analysis.run.context.RUNS.
    """
    counted = by_layering(connections)
    return {
        run["layering"]: {
            "connections": sum(
                row["direction"] == "out" and row["handshake_ns"] is not None
                for row in counted.get(run["layering"], ())
            )
        }
        for run in runs.to_pylist()
        if run["protocol"] in PROTOCOLS and PROTOCOLS[run["protocol"]].tcp_ports
    }


LINK_USE = schema_of("layering string, interface string, link_use float64")
"""Utilisation of a link's rate in %, by sending interface. Frames beyond 100 % were dropped by the queue."""


def link_use(sent: pa.Table, links: pa.Table) -> pa.Table:
    """Return LINK_USE; `sent` is analysis.tables.overhead.traffic, `links` analysis.run.context.LINKS."""
    sizes = summed(sent.to_pylist(), "frame_bytes", "layering", "interface")
    rows = [
        {
            "layering": link["layering"],
            "interface": link["interface"],
            "link_use": ratio(link["ns_per_byte"] * size, link["end_ns"] - link["start_ns"], 100),
        }
        for link in links.to_pylist()
        if (size := sizes.get((link["layering"], link["interface"])))
    ]
    return pa.Table.from_pylist(rows, LINK_USE).sort_by(
        [("layering", "ascending"), ("interface", "ascending")]
    )


def busiest(uses: pa.Table) -> Totals:
    """Return link_use of the busiest link."""
    return {
        layering: {"link_use": _most([row["link_use"] for row in rows])}
        for layering, rows in by_layering(uses).items()
    }


def fairness(flows: pa.Table) -> Totals:
    """Return throughput (mean of the flows, kbit/s) and fairness (Jain's index).

    `flows` is analysis.metrics.run.bottleneck.flows. Both are undefined for fewer than two flows.
    """
    totals = {}
    for layering, rows in by_layering(flows).items():
        rates = [row["bytes_per_s"] for row in rows if row["bytes_per_s"] is not None]
        if len(rates) > 1:
            totals[layering] = {"throughput": fsum(rates) / len(rates) * 8 / 1000, "fairness": jain(rates)}
    return totals


def jain(values: Sequence[float]) -> float | None:
    """Return Jain's fairness index: 1 if all values are equal, 1/n if all but one are 0; None without a
    positive value. R. Jain, D. Chiu, W. Hawe, DEC-TR-301, 1984.
    """
    return ratio(fsum(values) ** 2, len(values) * fsum(value * value for value in values))


def queue_totals(samples: pa.Table) -> Totals:
    """Return queue_p50, queue_p99, queue_max (bytes) over time of the longest queue in
    analysis.metrics.run.bottleneck.QUEUE.
    """
    totals = {}
    for layering, rows in by_layering(samples).items():
        queues = grouped(rows, "interface").values()
        shares = [np.percentile([row["queue_bytes"] for row in queue], (50, 99)) for queue in queues]
        totals[layering] = {
            "queue_p50": float(max(half for half, _ in shares)),
            "queue_p99": float(max(most for _, most in shares)),
            "queue_max": max(row["peak_bytes"] for row in rows),
        }
    return totals


def _mean(values: list[float]) -> float | None:
    return fsum(values) / len(values) if values else None


def _most(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)
