"""The report of a run: its numbers; the text is in static/run.html."""

from collections import Counter
from collections.abc import Iterator
from importlib.metadata import version
from statistics import median
from typing import Any

import pyarrow.compute as pc

from analysis.columns.rows import grouped, summed
from analysis.columns.samples import TAILS
from analysis.columns.values import ALL, HELD, OUTCOMES
from analysis.decode.protocols.registry import framed
from analysis.files import Rows
from analysis.metrics.aggregates import ratio
from analysis.metrics.catalogue import METRICS, Metric, is_time
from analysis.metrics.claims import Samples
from analysis.metrics.run.incidents import errors, forks
from analysis.report.figures import answer, delay, logs, replication, state, tiny, views, wire
from analysis.report.figures.journey import DELIVERED, journey_data
from analysis.report.figures.plot import Figure
from analysis.report.figures.topology import draw, loads
from analysis.report.page import page
from analysis.report.words.findings import Outcome, findings
from analysis.report.words.numbers import duration
from analysis.run.keys import value_words, words
from analysis.run.manifest import Manifest, Run
from analysis.tables.collected import Tables
from base.files import write_whole
from base.plugins import blamed, installed
from topologies.link import LINK_PARAMETERS

FAULTS = ("twice", "out_of_order", "forked", "errors")
"""Faults counted for each subscriber."""


_PACKETS = {"interest": "Interests", "data": "Data"}

MOST_RATIOS = 3
"""Maximum number of layerings with ratios in the table."""


_SAMPLED = {f"state_{what}_{mean}" for what in HELD for mean in ("mean", "network")}


def write_report(run: Run, tables: Tables) -> None:
    """Write a run's report; the old one stays until the new one is complete."""
    write_whole(run.report, render(run.manifest, tables))


class _ReportInputs:
    """Shared inputs of the page's parts: `with_pits` is the manifest with only the layerings whose nodes have
    PITs, and `ended` has rows of the ended PIT entries of all nodes of a layering.
    """

    def __init__(self, manifest: Manifest, tables: Tables) -> None:
        self.manifest, self.tables = manifest, tables
        self.samples = Samples.of_run(tables["comparison"], manifest.layerings, manifest.question)
        self.values = {(row["metric"], row["layering"]): row["value"] for row in tables["comparison"]}
        self.carried = _carried(tables["overhead"], self.values, manifest)
        self.with_pits = manifest.model_copy(update={"layerings": manifest.over_ndn})
        self.ended = [row for row in tables["pit_lives"] if row["node"] == ALL]


def render(manifest: Manifest, tables: Tables) -> str:
    """Return the page."""
    given = _ReportInputs(manifest, tables)
    outcome = _outcome(manifest, tables)
    drawing = draw(manifest)
    plots, hidden = _plots(given)
    data = {
        "network": loads(
            drawing, tables["link_load"], tables["hop_delays"], manifest, manifest.topology.links
        )
    }
    if given.with_pits.layerings:
        crossed = tables.table("journeys")
        # Of these items a packet has crossed a link.
        some = pc.field("seq") <= (pc.max(crossed["seq"]).as_py() or 0)
        made = tables.where("latency", some, *DELIVERED)
        data["journeys"] = journey_data(crossed, made, given.with_pits)
    return page(
        "run.html",
        [item for group in plots.values() for item in group],
        data,
        manifest=manifest,
        name=manifest.scenario,
        title=manifest.title or manifest.scenario,
        layerings=manifest.layerings,
        findings=findings(given.samples, manifest, outcome),
        rows=list(_compared_rows(tables["comparison"], given.samples, manifest)),
        has_ratios=len(manifest.layerings) <= MOST_RATIOS,
        times=_times(manifest),
        titles=manifest.titles,
        strategy=_strategy(manifest),
        replaced=_replaced(manifest),
        faults=[row for row in tables["faults"] if any(row[name] for name in FAULTS)],
        errors=outcome.errors,
        forks=outcome.forks,
        drawing=drawing,
        at_most=list(_at_most(manifest)),
        link_frames=[
            _link_row(row) for row in tables["link_frames"] if row["frames"] or row["sender"] == ALL
        ],
        first_items=_first_items(tables["first_items"], manifest),
        plots=plots,
        hidden=hidden,
        counts=_counts_of(given),
        unrecovered=Counter(row["layering"] for row in tables["losses"] if row["recovery_ns"] is None),
        truth=tables["pit_truth_summary"],
        messages=_messages(tables["sent_messages"], given.carried, manifest),
        connections=list(_connections(tables["connections"])),
        kinds=tables["state_kinds"],
        lookups=tables["lookups"],
        ebt=replication.most_switched(tables["ebt_connections"]),
        feed_hops=sorted(tables["feed_hops"], key=lambda row: -int(row["items"])),
        parties=tiny.by_party(tables["tiny_commands"]),
        misbehaviour=[row | {"accused": ", ".join(row["accused"])} for row in tables["tiny_misbehaviour"]],
        crossings=[row | {"kind": _PACKETS[row["kind"]]} for row in tables["crossings"]],
        sampled_every=duration(next(iter(manifest.runs.values())).sample_interval_ns),
        versions=_versions(manifest, tables.engine),
        engine=tables.engine,
    )


def _outcome(manifest: Manifest, tables: Tables) -> Outcome:
    return Outcome(
        tables["keeping_up"],
        tables["latency_quantiles"],
        [*errors(tables["incidents"], manifest)],
        [*forks(tables, manifest)],
        lambda node: tables.where("latency", pc.field("node") == node, "layering", "feed", "seq").to_pylist(),
    )


def _plots(given: _ReportInputs) -> tuple[dict[str, list[Figure]], int]:
    """Return the figures by section, and the number of nodes omitted from those of state."""
    manifest, tables = given.manifest, given.tables
    of_state, hidden = _state_plots(given)
    sections: dict[str, list[Figure | None]] = {
        "answer": [*answer.answers(given.samples)],
        "trade": [answer.trade(given.samples)],
        "state": of_state,
        "latency": [
            delay.latency_cdf(tables["latency_quantiles"], manifest),
            delay.latency_boxes(tables["latency_quantiles"], manifest),
            delay.first_item_cdf(tables["first_items"], manifest),
        ],
        "views": [views.unequal(tables["differences"], manifest), views.ages(tables["views"], manifest)],
        "trouble": [delay.loss_cdf(tables["losses"], manifest), delay.recovery(tables["recovery"], manifest)],
        "wire": _wire_plots(given),
        "logs": [logs.journey(tables["steps"])],
        "replication": [
            replication.causes(tables["causes"], tables["authors"], manifest),
            replication.spread(tables["latency_quantiles"], tables["reach"], manifest),
            replication.popularity(tables["authors"], manifest),
            replication.modes(tables["ebt_connections"], tables["ebt_modes"], manifest),
            replication.holders(tables["holders"], manifest),
        ]
        if tables["causes"]
        else [],
        "tiny": [tiny.causes(tables["tiny_sent"], manifest), tiny.storage(tables["tiny_stored"], manifest)]
        if tables["tiny_sent"]
        else [],
        "sharing": [wire.throughput(tables["flows"], manifest), wire.queue(tables["queue"], manifest)]
        if tables["queue"]
        else [],
        "own": [*_own_plots(given)],
    }
    return {name: list(filter(None, group)) for name, group in sections.items()}, hidden


def _own_plots(given: _ReportInputs) -> Iterator[Figure]:
    """Yield the figures of other distributions. Raises PluginError."""
    for name, point in installed("figure").items():
        with blamed("figure", point):
            made: Figure | None = point.load()(given.tables, given.manifest)
            if made is not None:
                yield made._replace(id=f"own-{name}")


def _state_plots(given: _ReportInputs) -> tuple[list[Figure | None], int]:
    manifest, tables, with_pits = given.manifest, given.tables, given.with_pits
    nodes = [node.name for node in manifest.topology.nodes]
    curves, summary = tables["state_curves"], tables["state_summary"]
    heat = tables["state_heat"]
    over_time, hidden = state.over_time(curves, heat, summary, nodes, manifest, word="State")
    plots: list[Figure | None] = [over_time, state.heat(heat, summary, nodes, manifest, "State")]
    if with_pits.layerings:
        outcomes = {(row["layering"], outcome): row[outcome] for row in given.ended for outcome in OUTCOMES}
        plots += [
            state.in_flight(tables["in_flight"], with_pits),
            state.lifetime_cdf(tables["pit_lives"], with_pits),
            state.outcomes(outcomes, with_pits),
        ]
    return plots, hidden


def _wire_plots(given: _ReportInputs) -> list[Figure | None]:
    manifest, tables, carried = given.manifest, given.tables, given.carried
    bound = {layering: given.values["bound_bytes_per_item", layering] for layering in manifest.layerings}
    return [
        wire.packets_over_time(tables["link_load"], manifest),
        wire.wire_bytes(tables["overhead"], carried, bound, manifest),
        wire.wire_frames(tables["traffic"], carried, manifest),
        wire.control(tables["traffic"], tables["sent_messages"], carried, manifest),
    ]


def _counts_of(given: _ReportInputs) -> dict[str, dict[str, int]]:
    """Return the number of samples of figures, by layering."""
    manifest, tables = given.manifest, given.tables
    return {
        "deliveries": {
            row["layering"]: row["deliveries"] for row in tables["latency_quantiles"] if row["node"] == ALL
        },
        "first_items": _counts(tables["first_items"], "wait_ns", manifest.layerings),
        "losses": _counts(tables["losses"], "recovery_ns", manifest.over_ndn),
        "entries": {row["layering"]: row["entries"] for row in given.ended},
    }


def _at_most(manifest: Manifest) -> Iterator[str]:
    """Yield in words the maxima of link impairments besides loss."""
    for name in ("loss_burst", "loss_good_percent", "reorder_percent", "duplicate_percent"):
        if values := [value for link in manifest.topology.links if (value := getattr(link, name))]:
            yield LINK_PARAMETERS[name].words.format(max(values))
    for name in sorted({link.jitter_distribution for link in manifest.topology.links if link.jitter_ms}):
        if name != "uniform":
            yield LINK_PARAMETERS["jitter_distribution"].words.format(name)


def _link_row(row: dict[str, Any]) -> dict[str, Any]:
    """Return layering, way, frames and measures of a row of analysis.tables.link_frames.LINK_FRAMES.

    `way` is empty for all links; each of the measures, shares in % and loss bursts, has its value and its
    setting, None where unknown.
    """
    lost, *others = (
        (ratio(row[what], row[of], 100), ratio(row[f"set_{what}"], row[of], 100))
        for what, of in (("lost", "frames"), ("overtook", "arrived"), ("twice", "arrived"))
    )
    in_a_row = ratio(row["lost"], row["loss_runs"]), ratio(row["set_lost"], row["set_loss_runs"])
    way = "" if row["sender"] == ALL else f"{row['sender']} to {row['receiver']}"
    measures = [lost, in_a_row, *others]
    return {"layering": row["layering"], "way": way, "frames": row["frames"], "measures": measures}


def _compared_rows(
    comparison: Rows, samples: Samples, manifest: Manifest
) -> Iterator[tuple[Metric, list[tuple[float | None, bool, str, float | None]]]]:
    """Yield each metric of the table, and for each layering its value, whether it is the best of the row, why
    it is unranked, if so, and its ratio to the first layering's.
    """
    cells = {(row["metric"], row["layering"]): row for row in comparison}
    values = {place: cell["value"] for place, cell in cells.items()}
    for metric in METRICS:
        row = [cells[metric.key, layering] for layering in manifest.layerings]
        whys = [_why(metric, cell["layering"], values, samples.whys) for cell in row]
        if all(cell["value"] is None for cell in row) and not any(whys):
            continue
        ranking = samples.ranking(metric)
        is_even = not metric.better or len(ranking.leaders) == len(ranking.values)
        best = [] if is_even else [x for name in ranking.leaders for x in samples.names[name]]
        yield (
            metric,
            [
                (cell["value"], cell["layering"] in best, why, cell["ratio"])
                for cell, why in zip(row, whys, strict=True)
            ],
        )


def _carried(
    overhead: Rows, values: dict[tuple[str, str], float | None], manifest: Manifest
) -> dict[str, float]:
    """Return the divisor of the wire's costs: deliveries, including cross traffic."""
    totals = summed(overhead, "bytes", "layering")
    return {
        layering: totals[layering] / each
        for layering in manifest.layerings
        if (each := values["bytes_per_item", layering])
    }


def _why(
    metric: Metric, layering: str, values: dict[tuple[str, str], float | None], left_out: dict[str, str]
) -> str:
    """Return why a value is missing or not comparable, "" if neither."""
    prefix, _, quantile = metric.key.rpartition("_")
    is_known = values[metric.key, layering] is not None
    if quantile in TAILS and not is_known and values.get((f"{prefix}_p50", layering)) is not None:
        return f"too few samples for a {quantile[1:]}th percentile"
    if metric.key in _SAMPLED and not is_known and values["state_bytes_peak", layering] is not None:
        return "no sample in the averaging interval: take a shorter sample_interval_ms"
    return left_out.get(layering, "") if is_time(metric) and is_known else ""


def _messages(rows: Rows, carried: dict[str, float], manifest: Manifest) -> Rows:
    """Return the messages that layerings over TCP sent over links, in the protocols' order of kinds."""
    sent = summed(rows, "messages", "layering", "protocol", "kind")
    return [
        {"layering": layering, "kind": title, "control": "yes" if kind in protocol.control else "no"}
        | {"sent": count, "per_item": ratio(count, carried.get(layering))}
        for layering in manifest.layerings
        for protocol in framed()
        for kind, title in protocol.kinds.items()
        if (count := sent[layering, protocol.name, kind])
    ]


def _connections(rows: Rows) -> Iterator[dict[str, Any]]:
    """Yield the TCP connections of each layering and node: opened and accepted, by ending, the median round
    trip of handshakes, ms, and what was sent.
    """
    nodes = grouped(rows, "layering", "node")
    for layering, node in sorted(nodes):
        own = nodes[layering, node]
        ways, ends = (Counter(row[name] for row in own) for name in ("direction", "ended"))
        trips = [row["handshake_ns"] / 1e6 for row in own if row["handshake_ns"] is not None]
        sums = ("sent_bytes", "sent_segments", "sent_again")
        yield {name: sum(row[name] for row in own) for name in sums} | {
            "layering": layering,
            "node": node,
            "opened": ways["out"],
            "accepted": ways["in"],
            "handshake": median(trips) if trips else None,
            **{end: ends[end] for end in ("fin", "rst", "open")},
        }


def _times(manifest: Manifest) -> str:
    """Return the duration and environment of layerings' runs, in words."""
    turn = next(iter(manifest.runs.values()))
    publishing, settling, draining = (
        duration(time)
        for time in (turn.last_ns - turn.first_ns, turn.stop_ns - turn.settle_ns, turn.end_ns - turn.stop_ns)
    )
    since = duration(turn.first_ns - turn.start_ns)
    rest = turn.settle_ns - turn.last_ns
    more = f", {duration(rest)} until all else had happened" if rest else ""
    whole = duration(turn.end_ns - turn.start_ns)
    return (
        f"{whole} a layering: {publishing} of publishing after {since}{more}, "
        f"{settling} to settle, {draining} to drain"
    )


def _replaced(manifest: Manifest) -> str:
    """Return the link parameters that differ from the network's file, in words; "" if none."""
    said = []
    for name, value in manifest.topology.replaced.items():
        what, unit = words(f"topology.link.{name}")
        said.append(f"{what} {value_words(f'topology.link.{name}', value)} {unit}".strip())
    return f"{', '.join(said)}, in place of what {manifest.topology.source} says" if said else ""


def _strategy(manifest: Manifest) -> str:
    """Return the forwarding strategies, in words."""
    chosen = [f"{name} for {prefix}" for prefix, name in manifest.strategies.items()]
    ndn = ", ".join(chosen) or "best-route, as NFD has it"
    by_ip = [layering for layering in manifest.layerings if layering not in manifest.over_ndn]
    if not by_ip:
        return ndn
    said = f"{', '.join(by_ip)}: IPv4 along static routes"
    return f"{said}; all others: {ndn}" if manifest.over_ndn else said


def _first_items(rows: Rows, manifest: Manifest) -> list[tuple[str, float, list[tuple[str, float | None]]]]:
    """Return (node, seconds into the run, (layering, ms waited)) for each late joining of a node.

    Of several feeds joined at once, the longest wait. Empty if nobody joined after the run began.
    """
    waits: dict[tuple[float, str], dict[str, float | None]] = {}
    for row in rows:
        seconds = round((row["joined"] - manifest.runs[row["layering"]].start_ns) / 1e9, 1)
        times = waits.setdefault((seconds, row["node"]), {})
        if row["wait_ns"] is not None:
            times[row["layering"]] = max(times.get(row["layering"]) or 0.0, row["wait_ns"] / 1e6)
    return [
        (node, seconds, [(layering, times.get(layering)) for layering in manifest.layerings])
        for (seconds, node), times in sorted(waits.items())
        if seconds > 0
    ]


def _counts(rows: Rows, value: str, layerings: list[str]) -> dict[str, int]:
    """Return the number of rows of each layering with a value."""
    found = Counter(row["layering"] for row in rows if row[value] is not None)
    return {layering: found[layering] for layering in layerings}


def _versions(manifest: Manifest, engine: str) -> dict[str, str]:
    """Return the versions of the software that ran and analysed the run."""
    known = {name: text for name, text in manifest.software.items() if isinstance(text, str)}
    own = f"{manifest.feednet} (commit {manifest.commit})" if manifest.commit else manifest.feednet
    name, _, number = engine.partition(" ")
    return {"feednet": own} | known | ({name: number} if name else {}) | {"pyarrow": version("pyarrow")}
