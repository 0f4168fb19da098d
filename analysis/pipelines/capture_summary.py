"""Summary of captures for programs: summary.json beside the tables."""

import json
import os
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from analysis.report.capture.findings import RunFigures
from analysis.spark.to_parquet import Report
from captures.formats.files import fingerprint

_SUMS = ("frames", "gaps", "skipped", "connections")


def copies_among(reports: Sequence[Report]) -> dict[str, str]:
    """Return for each near-identical capture the earlier capture that it copies."""
    found: dict[str, str] = {}
    alike = Counter(report.frames for report in reports)
    known: dict[tuple[int, bytes], str] = {}
    for report in reports:
        if report.frames and alike[report.frames] > 1:
            original = known.setdefault((report.frames, fingerprint(report.path)), report.path)
            if original != report.path:
                found[report.path] = original
    return found


def summarise(
    path: Path,
    reports: Sequence[Report],
    inferred: Mapping[str, Mapping[str, str]],
    copies: Mapping[str, str],
    figures: Sequence[RunFigures] = (),
) -> None:
    """Write the summary of each run: of all its captures together, and of each."""
    of = {each.run: each._asdict() for each in figures}
    summary = []
    for run in dict.fromkeys(report.run for report in reports):
        own = [report for report in reports if report.run == run]
        counted: dict[str, Counter[str]] = defaultdict(Counter)
        for report in own:
            for name in ("kinds", "problems", "directions", "protocols"):
                counted[name] += Counter(getattr(report, name))
        together = {
            "run": run,
            "path": own[0].path if len(own) == 1 else _common([each.path for each in own]),
            **{name: sum(getattr(each, name) for each in own) for name in _SUMS},
            **counted,
            "messages": {name: kinds for each in own for name, kinds in each.messages.items()},
            "damages": [damage for each in own for damage in each.damages],
        }
        captures = [
            each._asdict() | {"local": inferred.get(each.path, {}), "copy_of": copies.get(each.path)}
            for each in own
        ]
        summary.append(together | of.get(run, {}) | {"captures": captures})
    path.write_text(json.dumps(summary, indent=1, default=dict) + "\n", encoding="utf-8")


def _common(paths: Sequence[str]) -> str:
    """Return the common directory of absolute and relative paths."""
    if len(set(map(os.path.isabs, paths))) > 1:
        paths = [*map(os.path.abspath, paths)]
    return os.path.commonpath(paths)
