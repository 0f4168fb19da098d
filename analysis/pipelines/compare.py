"""Comparison of runs and sweeps: reads results, analyses unanalysed runs, and writes the page."""

import json
from collections.abc import Callable, Sequence
from math import isclose
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from analysis.errors import AnalysisError
from analysis.files import read_rows
from analysis.metrics.catalogue import METRICS
from analysis.metrics.study import Origin, Record, Study, study
from analysis.pipelines.run import analyze
from analysis.report.study import render_study
from analysis.run.keys import SOURCE
from analysis.run.manifest import Run
from analysis.run.settings import settings_of, version_of
from analysis.spark.engine import made_by
from base.files import whole_file, write_whole

SWEEP = "sweep.json"
MEASURES = "measures.parquet"
"""Files in a sweep's directory: its description, and a row of measures for each run and layering."""


def origin_of(run: Run, measured: pa.Table, command: str = "", created: str = "") -> Origin:
    """Return the provenance of a run and of its `measured` table; `command` and `created` fill gaps of the
    manifest.
    """
    manifest = run.manifest
    software = {name: text for name, text in manifest.software.items() if isinstance(text, str)}
    said = (
        {"feednet": version_of(manifest)}
        | software
        | made_by(measured)
        | ({"processor": manifest.processor} if manifest.processor else {})
    )
    asked = manifest.question.model_dump() if manifest.question else None
    return Origin(command or manifest.command or "", manifest.created or created, said, asked)


def record_of(run: Run, layering: str, settings: dict[str, Any], values: dict[str, float]) -> Record:
    """Return the record of one layering."""
    manifest = run.manifest
    return Record(
        settings, manifest.seed, layering, values, manifest.runs[layering].start_ns, str(run.directory)
    )


def records_of(run: Run) -> list[Record]:
    """Return a record for each layering of an analysed run."""
    settings = settings_of(run)
    values: dict[str, dict[str, float]] = {layering: {} for layering in run.manifest.layerings}
    for row in read_rows(run.comparison).to_pylist():
        if row["value"] is not None:
            values[row["layering"]][row["metric"]] = row["value"]
    return [record_of(run, x, settings, known) for x, known in values.items()]


def write_sweep(
    directory: Path, scenario: str, title: str, origin: Origin, records: Sequence[Record]
) -> None:
    """Write the records of a sweep, so that its runs need not be analysed again."""
    settings = [record.settings for record in records]
    written = {"scenario": scenario, "title": title, "origin": origin._asdict(), "settings": settings}
    columns: dict[str, Any] = {
        "run": pa.array(range(len(records)), pa.int64()),
        "seed": pa.array([record.seed for record in records], pa.int64()),
        "layering": pa.array([record.layering for record in records], pa.string()),
        "began_ns": pa.array([record.began_ns for record in records], pa.int64()),
    }
    for metric in METRICS:
        columns[metric.key] = pa.array([record.values.get(metric.key) for record in records], pa.float64())
    with whole_file(directory / MEASURES) as new:
        pq.write_table(pa.table(columns), new)
    write_whole(directory / SWEEP, json.dumps(written, indent=1) + "\n")


def read_sweep(directory: Path) -> tuple[str, str, Origin, list[Record]]:
    """Return scenario, title, origin and records of a sweep's directory; raise AnalysisError."""
    try:
        document = json.loads((directory / SWEEP).read_bytes())
        rows = read_rows(directory / MEASURES).to_pylist()
        records = [
            Record(
                settings,
                row["seed"],
                row["layering"],
                {metric.key: row[metric.key] for metric in METRICS if row.get(metric.key) is not None},
                row["began_ns"],
                str(directory),
            )
            for settings, row in zip(document["settings"], rows, strict=True)
        ]
        return document["scenario"], document["title"], Origin(**document["origin"]), records
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise AnalysisError(
            f"{directory}: not the directory of a sweep that has ended, or one of another version: {error}"
        ) from None


def compare_runs(
    directories: Sequence[Path],
    page: Path,
    master: str | None = None,
    progress: Callable[[str], None] = lambda _: None,
    engine: str = "auto",
) -> Study:
    """Analyse unanalysed runs, and write the page that compares all; raise AnalysisError.

    A directory is that of a run, or of a sweep. `progress` receives the name of each run before its analysis.
    """
    records: list[Record] = []
    origins: list[Origin] = []
    known: tuple[str, str] | None = None
    for directory in directories:
        if (directory / SWEEP).is_file():
            scenario, title, origin, found = read_sweep(directory)
        else:
            run = Run(directory)
            scenario, title = run.manifest.scenario, run.manifest.title
            if known is None or known[0] == scenario:
                if not run.comparison.is_file():
                    progress(directory.name)
                    analyze(directory, master, engine=engine)
                found = records_of(run)
                origin = origin_of(run, read_rows(run.comparison))
        if known is not None and known[0] != scenario:
            raise AnalysisError(
                f"{directory}: a run of {scenario}, not of {known[0]}: compare runs of one scenario"
            )
        known = known or (scenario, title)
        records += found
        origins.append(origin)
    if known is None:
        raise AnalysisError("there is nothing to compare: give several runs")
    if _disagree(records):
        records = [record._replace(settings=record.settings | {SOURCE: record.source}) for record in records]
    compared = study(*known, records, origins)
    if compared.runs < 2:
        raise AnalysisError(f"{directories[0]}: there is nothing to compare it with: give several runs")
    write_whole(page, render_study(compared))
    return compared


def _disagree(records: list[Record]) -> bool:
    """Return whether equal runs have different values: an unrecorded setting, such as the code, differs."""
    first: dict[tuple[str, int, str, int], dict[str, float]] = {}
    for record in records:
        same = (json.dumps(record.settings, sort_keys=True), record.seed, record.layering, record.began_ns)
        known = first.setdefault(same, record.values)
        if known.keys() != record.values.keys() or not all(
            isclose(known[metric], value, rel_tol=1e-6, abs_tol=1e-9)
            for metric, value in record.values.items()
        ):
            return True
    return False
