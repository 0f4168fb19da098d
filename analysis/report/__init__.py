"""The report: one page that holds all it shows, opens without a network, and is the same for the same run.

The page's text is in page.html; here it gets its numbers. Plots are drawn by Plotly, which is in the page.
"""

import json
import os
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from plotly.offline import get_plotlyjs

from analysis.compare import METRICS
from analysis.manifest import Manifest, Run
from analysis.report import figures
from analysis.report.figures import Rows
from analysis.report.findings import WHOLE, findings
from analysis.report.numbers import NARROW_SPACE, pretty
from analysis.report.ranks import alike, rank
from analysis.report.topology import draw

STROKES = {
    "solid": "",
    "dash": "5 3",
    "dot": "1.6 2.4",
    "dashdot": "5 2 1.6 2",
    "longdash": "8 3",
    "longdashdot": "8 2 1.6 2",
}
"""Plotly's dashes as SVG draws them in the legend, 24 wide."""

FAULTS = ("twice", "out_of_order", "forked", "errors")
"""What the page tells of each subscriber, where there is any."""


class Tables(NamedTuple):
    """The rows that the report shows; each table is described where analysis.pipeline gets it from."""

    comparison: Rows
    overhead: Rows
    latency: Rows
    traffic: Rows
    pit_summary: Rows
    pit_curves: Rows
    pit_truth: Rows
    in_flight: Rows
    recovery: Rows
    first_items: Rows
    faults: Rows
    flows: Rows
    queue: Rows


MOST_RATIOS = 3
"""Layerings up to which the table has room for ratios."""


class ComparedRow(NamedTuple):
    """A row of the table: a value a layering, whether it is the best, and ratios to the first layering."""

    group: str
    title: str
    unit: str
    values: list[tuple[str, bool]]
    ratios: list[str]


def write_report(run: Run, tables: Tables) -> None:
    """Write a run's report; the old one stays until the new one is whole."""
    partial = run.report.with_name(run.report.name + ".partial")
    partial.write_text(render(run.manifest, tables), encoding="utf-8")
    os.replace(partial, run.report)


def render(manifest: Manifest, tables: Tables) -> str:
    """Return the page."""
    rows = list(_compared_rows(tables.comparison, manifest))
    axes = rank(tables.comparison, manifest.layerings)
    values = {(row["metric"], row["layering"]): row["value"] for row in tables.comparison}
    carried = _carried(tables.overhead, values, manifest)
    bound = {layering: values["bound_bytes_per_item", layering] for layering in manifest.layerings}
    return (
        environment()
        .get_template("page.html")
        .render(
            manifest=manifest,
            findings=findings(tables.comparison, axes, manifest),
            axes=axes,
            rows=rows,
            has_ratios=len(manifest.layerings) <= MOST_RATIOS,
            short={x: values["delivered_share", x] for x in manifest.layerings if _is_short(values, x)},
            faults=[row for row in tables.faults if any(row[name] for name in FAULTS)],
            drawing=draw(manifest),
            roles={node.name: node.role for node in manifest.topology.nodes},
            pit=[_pit(tables, manifest, what) for what in ("entries", "bytes")],
            latency=[
                figures.latency_cdf(tables.latency, manifest),
                figures.latency_boxes(tables.latency, manifest),
            ],
            in_flight=figures.in_flight(tables.in_flight, manifest),
            recovery=figures.recovery(tables.recovery, manifest),
            first_items=_first_items(tables.first_items, manifest),
            sharing=[figures.throughput(tables.flows, manifest), figures.queue(tables.queue, manifest)]
            if tables.queue
            else [],
            colours=figures.COLOURS,
            dashes=[STROKES[dash] for dash in figures.DASHES],
            wire=[
                figures.wire_bytes(tables.overhead, carried, bound, manifest),
                figures.wire_frames(tables.traffic, carried, manifest),
                figures.interests(tables.comparison, manifest),
            ],
            truth=tables.pit_truth,
            versions=_versions(manifest),
            css=resource("page.css"),
            js=resource("page.js"),
            plotly=get_plotlyjs(),
        )
    )


def environment() -> Environment:
    """Return what renders the templates of this directory."""
    made = Environment(
        loader=PackageLoader("analysis.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["pretty"] = pretty
    made.filters["figure_json"] = _figure_json
    return made


def resource(name: str) -> str:
    """Return the text of a file of this directory."""
    return files("analysis.report").joinpath(name).read_text(encoding="utf-8")


def _compared_rows(comparison: Rows, manifest: Manifest) -> Iterator[ComparedRow]:
    cells = {(row["metric"], row["layering"]): row for row in comparison}
    for metric in METRICS:
        row = [cells[metric.key, layering] for layering in manifest.layerings]
        known = [cell["value"] for cell in row if cell["value"] is not None]
        if not known:
            continue
        best = None
        if metric.better and not alike(min(known), max(known)):
            best = min(known) if metric.better == "lower" else max(known)
        ratios = [cell["ratio"] for cell in row[1:]]
        yield ComparedRow(
            metric.group,
            metric.title,
            metric.unit,
            [(pretty(cell["value"]), alike(cell["value"], best)) for cell in row],
            [f"\N{MULTIPLICATION SIGN}{NARROW_SPACE}{pretty(ratio)}" if ratio else "" for ratio in ratios],
        )


class PitSection(NamedTuple):
    """What is shown of PIT entries or bytes: the network; each node if there are few layerings, else each
    layering, and each node's means by layering; how many nodes are left out."""

    network: figures.Figure
    nodes: list[figures.Figure]
    layerings: list[figures.Figure]
    means: list[tuple[str, list[float]]]
    hidden: int


def _pit(tables: Tables, manifest: Manifest, what: str) -> PitSection:
    network, nodes = figures.pit_figures(tables.pit_curves, tables.pit_summary, manifest, what)
    hidden = len(manifest.topology.nodes) - len(nodes)
    if len(manifest.layerings) <= figures.MOST_BY_NODE:
        return PitSection(network, nodes, [], [], hidden)
    means = {(row["node"], row["layering"]): row[f"mean_{what}"] for row in tables.pit_summary}
    rows = [(node.title, [means[node.title, x] for x in manifest.layerings]) for node in nodes]
    return PitSection(network, [], figures.pit_by_layering(tables.pit_curves, manifest, what), rows, hidden)


def _carried(
    overhead: Rows, values: dict[tuple[str, str], float | None], manifest: Manifest
) -> dict[str, float]:
    """Return what the comparison divides the wire's costs by: deliveries, those of cross traffic too."""
    totals = dict.fromkeys(manifest.layerings, 0)
    for row in overhead:
        totals[row["layering"]] += row["bytes"]
    return {
        layering: total / each
        for layering, total in totals.items()
        if (each := values["bytes_per_item", layering])
    }


def _is_short(values: dict[tuple[str, str], float | None], layering: str) -> bool:
    """Tell whether a layering delivered visibly less than it should have."""
    share = values["delivered_share", layering]
    return share is not None and share < WHOLE


def _first_items(rows: Rows, manifest: Manifest) -> list[tuple[str, float, list[tuple[str, float | None]]]]:
    """Return (node, seconds into the run, (layering, ms waited)) for each time that a node joined feeds late.

    Of the feeds that it joined at once, the longest wait. Empty if nobody joined after the run began.
    """
    waits: dict[tuple[float, str], dict[str, float | None]] = {}
    for row in rows:
        seconds = round((row["joined"] - manifest.runs[row["layering"]].start_ns) / 1e9, 1)
        told = waits.setdefault((seconds, row["node"]), {})
        if row["wait_ns"] is not None:
            told[row["layering"]] = max(told.get(row["layering"]) or 0.0, row["wait_ns"] / 1e6)
    return [
        (node, seconds, [(layering, told.get(layering)) for layering in manifest.layerings])
        for (seconds, node), told in sorted(waits.items())
        if seconds > 0
    ]


def _figure_json(spec: dict[str, Any]) -> str:
    """Return a figure as JSON that is safe inside a script element."""
    return json.dumps(spec, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _versions(manifest: Manifest) -> dict[str, str]:
    """Return what ran and what analysed it."""
    told = {name: text for name, text in manifest.software.items() if isinstance(text, str)}
    versions = {"feednet": manifest.feednet} | told
    for package in ("pyspark", "pyarrow"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions
