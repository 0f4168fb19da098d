"""The report: one page that holds all it shows, opens without a network, and is the same for the same run.

The page's text is in page.html; here it gets its numbers. Plots are drawn by Plotly, which is in the page.
"""

import json
import os
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from typing import Any, NamedTuple

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from plotly.offline import get_plotlyjs

from analysis.compare import METRICS
from analysis.manifest import Manifest, Run
from analysis.report import figures
from analysis.report.findings import findings
from analysis.report.numbers import NARROW_SPACE, pretty
from analysis.report.topology import draw


class Tables(NamedTuple):
    """What the report is made of: collected tables of analysis.pipeline, under their names there."""

    comparison: pd.DataFrame
    overhead: pd.DataFrame
    latency: pd.DataFrame
    traffic: pd.DataFrame
    pit_summary: pd.DataFrame
    pit_curves: pd.DataFrame
    pit_truth: pd.DataFrame


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
    delivered = {
        row.layering: row.value
        for row in tables.comparison[tables.comparison["metric"] == "delivered"].itertuples()
    }
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
        truth=list(tables.pit_truth.itertuples()),
        versions=_versions(manifest),
        css=_resource("page.css"),
        js=_resource("page.js"),
        plotly=get_plotlyjs(),
    )


def _compared_rows(comparison: pd.DataFrame, manifest: Manifest) -> Iterator[ComparedRow]:
    cells = {(row.metric, row.layering): row for row in comparison.itertuples()}
    for metric in METRICS:
        row = [cells[metric.key, layering] for layering in manifest.layerings]
        known = [cell.value for cell in row if not pd.isna(cell.value)]
        best = {"lower": min, "higher": max}.get(metric.better)
        winner = best(known) if best and len(set(known)) > 1 else None
        yield ComparedRow(
            metric.title,
            metric.unit,
            [(pretty(cell.value), cell.value == winner) for cell in row],
            [
                "" if pd.isna(cell.ratio) else f"\N{MULTIPLICATION SIGN}{NARROW_SPACE}{pretty(cell.ratio)}"
                for cell in row[1:]
            ],
        )


def _figure_json(spec: dict[str, Any]) -> str:
    """Return a figure as JSON that is safe inside a script element."""
    return json.dumps(spec, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _versions(manifest: Manifest) -> dict[str, str]:
    """Return what ran and what analysed it."""
    versions = {"feednet": manifest.feednet} | {key: str(value) for key, value in manifest.software.items()}
    for package in ("pyspark", "pyarrow"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


def _resource(name: str) -> str:
    return files("analysis.report").joinpath(name).read_text(encoding="utf-8")
