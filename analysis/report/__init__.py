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
from analysis.report.findings import findings
from analysis.report.numbers import NARROW_SPACE, pretty
from analysis.report.topology import draw


class Tables(NamedTuple):
    """The rows that the report shows; each table is described where analysis.pipeline gets it from."""

    comparison: Rows
    overhead: Rows
    latency: Rows
    traffic: Rows
    pit_summary: Rows
    pit_curves: Rows
    pit_truth: Rows


class ComparedRow(NamedTuple):
    """A row of the table: a value a layering, whether it is the best, and ratios to the first layering."""

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
    delivered = {row["layering"]: row["value"] for row in tables.comparison if row["metric"] == "delivered"}
    pit_entries, node_entries = figures.pit_figures(
        tables.pit_curves, tables.pit_summary, manifest, "entries"
    )
    pit_bytes, node_bytes = figures.pit_figures(tables.pit_curves, tables.pit_summary, manifest, "bytes")
    environment = Environment(
        loader=PackageLoader("analysis.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["pretty"] = pretty
    environment.filters["figure_json"] = _figure_json
    return environment.get_template("page.html").render(
        manifest=manifest,
        findings=findings(tables.comparison, manifest),
        rows=rows,
        drawing=draw(manifest),
        roles={node.name: node.role for node in manifest.topology.nodes},
        pit=[(pit_entries, node_entries), (pit_bytes, node_bytes)],
        hidden_nodes=len(manifest.topology.nodes) - len(node_entries),
        latency=[
            figures.latency_cdf(tables.latency, manifest),
            figures.latency_boxes(tables.latency, manifest),
        ],
        colours=figures.COLOURS,
        wire=[
            figures.wire_bytes(tables.overhead, delivered, manifest),
            figures.wire_frames(tables.traffic, delivered, manifest),
            figures.interests(tables.comparison, manifest),
        ],
        truth=tables.pit_truth,
        versions=_versions(manifest),
        css=_resource("page.css"),
        js=_resource("page.js"),
        plotly=get_plotlyjs(),
    )


def _compared_rows(comparison: Rows, manifest: Manifest) -> Iterator[ComparedRow]:
    cells = {(row["metric"], row["layering"]): row for row in comparison}
    for metric in METRICS:
        row = [cells[metric.key, layering] for layering in manifest.layerings]
        known = {cell["value"] for cell in row} - {None}
        best = None
        if metric.better and len(known) > 1:
            best = min(known) if metric.better == "lower" else max(known)
        ratios = [cell["ratio"] for cell in row[1:]]
        yield ComparedRow(
            metric.title,
            metric.unit,
            [(pretty(cell["value"]), cell["value"] == best) for cell in row],
            [f"\N{MULTIPLICATION SIGN}{NARROW_SPACE}{pretty(ratio)}" if ratio else "" for ratio in ratios],
        )


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


def _resource(name: str) -> str:
    return files("analysis.report").joinpath(name).read_text(encoding="utf-8")
