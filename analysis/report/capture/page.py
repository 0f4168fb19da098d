"""The page of `feednet analyze`: third-party captures, from the tables of all stages.

It shows small rows (analysis.report.capture.contents), so it stays small; its text is in static/capture.html.
Each run has a colour, as layerings have in the report of a run.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from analysis.columns.rows import summed
from analysis.columns.values import ALL, HELD
from analysis.files import Rows
from analysis.report.capture import plots
from analysis.report.capture.contents import MOST_FEEDS, Contents
from analysis.report.capture.endpoints import (
    Way,
    counted,
    draw_endpoints,
    drawn_as,
    half_width,
    named_load,
    natural_order,
)
from analysis.report.capture.findings import MOST_RUNS, capture_findings
from analysis.report.capture.names import names_data
from analysis.report.capture.tables import clocks, largest_senders, prefix_rows, problems, state_rows
from analysis.report.figures.plot import Figure, Spec
from analysis.report.figures.state import MOST_NODES, heat, outcomes, over_time
from analysis.report.figures.topology import loads
from analysis.report.page import page as rendered
from analysis.report.words.numbers import duration, volume

EPOCH_NS = 10**17
"""Earlier times (before 1973) are relative to a run's start."""


def render(given: Contents) -> str:
    """Return the page."""
    ways = counted(given.ways)
    drawing, left_out = draw_endpoints(ways, set(given.nodes))
    names = drawn_as(ways)
    prefixes = _most(given.prefixes, "prefix", "requests")
    sections, hidden = _sections(given, prefixes)
    shown = {name: [_renamed(item) for item in group if item] for name, group in sections.items()}
    sequences = _sequences(given, ways)
    data: dict[str, Any] = {}
    if drawing.links:
        hops = [row | {"quantiles_ns": [row["median_ns"]]} for row in given.hops]
        data["network"] = loads(drawing, named_load(given.load, names), hops, given)
    if sequences:
        data["names"] = sequences
    return rendered(
        "capture.html",
        [item for group in shown.values() for item in group],
        data,
        name="-".join(given.layerings[:MOST_RUNS]),
        title=given.layerings[0] if len(given.layerings) == 1 else f"{len(given.layerings)} captures",
        compared="Captures",
        layerings=given.layerings,
        engine=given.engine,
        captures=[_capture(given, run) for run in given.layerings],
        interfaces=given.interfaces,
        findings=capture_findings(given, ways),
        problems=list(problems(given)),
        drawing=drawing,
        left_out=left_out,
        endpoints=len(names),
        half_width=half_width,
        plots=shown,
        hidden=hidden,
        prefixes=prefix_rows(given, prefixes),
        clocks=clocks(given),
        talks=largest_senders(ways, given.layerings),
        states=state_rows(given),
        names=sequences,
        runs=given.runs,
    )


def _sections(given: Contents, prefixes: list[str]) -> tuple[dict[str, list[Figure | None]], int]:
    """Return the figures by section, and the number of nodes omitted from those of state."""
    of_state, hidden = _state(given)
    return {
        "traffic": [
            plots.traffic(given.load, given.by_node, given.nodes, given),
            plots.traffic_heat(given.by_node, given.nodes, given),
        ],
        "answers": [
            plots.cdf(
                "rtt",
                "Round-trip time",
                "Cumulative distribution of the time from Interest to answer, a line for each capture",
                given.rtt,
                "who",
                sorted(_most(given.answers, "who", "requests"), key=natural_order),
                "Interest to answer",
                given,
            ),
            plots.rtt_by_prefix(given.rtt_prefixes, prefixes, given),
            plots.unanswered_by_prefix(given.prefixes, prefixes, given),
            plots.troubles(given.troubles, given),
        ],
        "state": of_state,
        "feeds": [plots.progress(given.progress, _most(given.feeds, "feed", "arrivals")[:MOST_FEEDS], given)],
        "latency": _latency(given),
        "wire": [plots.layers(given.overhead, given)],
    }, hidden


def _state(given: Contents) -> tuple[list[Figure | None], int]:
    over, where, hidden = None, None, 0
    if given.pit_curves:
        what = [*HELD, *(name for name in ("ranges", "credit") if any(row[name] for row in given.pit_curves))]
        rows = _in_rows(given.pit_summary)
        over, hidden = over_time(given.pit_curves, given.pit_heat, given.pit_summary, rows, given, what)
    if given.pit_heat:
        where = heat(given.pit_heat, given.pit_summary, _in_rows(given.pit_heat), given)
    ended = summed(given.outcomes, "entries", "layering", "outcome")
    lives = plots.cdf(
        "lifetimes",
        "Life of PIT entries",
        "Cumulative distribution of how long PIT entries lived, a line for each capture",
        given.lifetimes,
        "node",
        sorted(_most(given.lifetimes, "node", "count"), key=natural_order),
        "life of an entry",
        given,
    )
    return [over, where, outcomes(ended, given), lives], hidden


def _latency(given: Contents) -> list[Figure | None]:
    return [
        plots.cdf(
            "latency",
            "Latency, from sender to node",
            "Cumulative distribution of the time from when Data was first sent to when a node had it",
            given.latency,
            "node",
            sorted(_most(given.latency, "node", "count"), key=natural_order),
            "first sent to first received",
            given,
        ),
        plots.cdf(
            "hop-times",
            "From one node to the next",
            "Cumulative distribution of a packet’s time between two nodes that captured it",
            given.hop_times,
            "pair",
            sorted(_most(given.hop_times, "pair", "count"), key=natural_order),
            "one node to the next",
            given,
        ),
    ]


def _sequences(given: Contents, ways: list[Way]) -> Spec | None:
    """Return the packets of names in order, as the page draws them."""
    late = {
        (row["layering"], row["sender"], row["receiver"]): -row["least_ns"]
        for row in given.hops
        if row["least_ns"] < 0
    }
    ends = {(way.layering, way.src, way.dst): way for way in ways}
    return names_data(given.sequences, given.subjects, ends, late, given)


def _in_rows(rows: Rows) -> list[str]:
    return sorted({row["node"] for row in rows} - {ALL}, key=natural_order)


def _renamed(item: Figure) -> Figure:
    """Replace "layering", the word of a run's report, by "capture"."""
    menus = tuple(menu._replace(label=menu.label.replace("layering", "capture")) for menu in item.menus)
    columns = [column.replace("layering", "capture") for column in item.spec["columns"]]
    text = item.text.replace("layering", "capture")
    return item._replace(text=text, menus=menus, spec=item.spec | {"columns": columns})


def _capture(given: Contents, run: str) -> dict[str, Any]:
    """Return a description of a capture: its time, frames, and nodes."""
    span = given.runs[run]
    mine = [row for row in given.interfaces if row["layering"] == run]
    return {
        "name": run,
        "file": Path(str(given.reports.get(run, {}).get("path", ""))).name,
        "lasted": duration(span.end_ns - span.start_ns) if mine else "–",
        "start": _utc(span.start_ns),
        "frames": sum(row["frames"] for row in mine),
        "nodes": len({row["node"] for row in mine}),
        "interfaces": len(mine),
        "bytes": volume(sum(way["bytes"] for way in given.ways if way["layering"] == run)),
    }


def _utc(time_ns: int) -> str:
    """Format a capture time; "" if before 1970."""
    if time_ns < EPOCH_NS:
        return ""
    return datetime.fromtimestamp(time_ns // 10**9, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _most(rows: Rows, key: str, count: str) -> list[str]:
    """Return the values of a column by their total, largest first."""
    totals = summed(rows, count, key)
    return sorted(totals, key=lambda value: (-totals[value], natural_order(value)))[:MOST_NODES]
