"""Costs of runs compared with the estimates of `--dry-run`, on the scenarios of the library.

    python -m testbed.bench.runs.outlook [--rows FILE] [SCENARIO ...]

runs each scenario in the emulator and analyses it with Sail; some ten minutes. It then fits the figures of
testbed/experiment/outlook.toml, writes that file, and prints the estimation errors, each scenario with
figures fitted without it. --rows keeps the measurements, or takes them from the file if it exists. Times are
of the processor.
"""

import json
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from analysis.pipelines.run import analyze
from testbed.bench.program import processor_s
from testbed.experiment import run as running
from testbed.experiment.files import MANIFEST
from testbed.experiment.outlook import FIGURES, Outlook, Size, figures, of_layering, size, takes, total
from testbed.experiment.platform import EMULATED
from testbed.library import scenarios
from testbed.scenario import workload
from testbed.scenario.reader import load


def _bytes_in(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def measure(name: str) -> dict[str, Any]:
    """Run a scenario and its analysis; return its costs, and the predictors of each layering."""
    scenario = load(name)
    published = workload.load(scenario)
    begun: list[float] = []
    with tempfile.TemporaryDirectory() as scratch:
        whole = Path(scratch) / name
        progress = partial(_note, begun)
        running.run(scenario, published, EMULATED, whole, progress=progress)
        begun.append(time.process_time())
        counted = json.loads((whole / MANIFEST).read_text(encoding="utf-8"))["runs"]
        layerings = [
            {
                "layering": layering,
                **size(scenario, published, layering)._asdict(),
                "run_s": end - since,
                "frames": counted[layering]["capture"]["frames"],
                "bytes": _bytes_in(whole / layering),
            }
            for layering, (since, end) in zip(scenario.layerings, pairwise(begun), strict=True)
        ]
        before, since = _bytes_in(whole), processor_s()
        analyze(whole, engine="sail")
        return {
            "scenario": name,
            "layerings": layerings,
            "analysis_s": processor_s() - since,
            "analysis_bytes": _bytes_in(whole) - before,
        }


def _note(times: list[float], _: str) -> None:
    times.append(time.process_time())


def _fitted(columns: Sequence[Sequence[float]], wanted: Sequence[float]) -> list[float]:
    """Return non-negative factors whose weighted columns fit the measurements, by least relative errors."""
    from scipy.optimize import nnls

    weights = 1 / np.maximum(np.array(wanted, float), 1e-9)
    return [
        float(f"{each:.4g}")
        for each in nnls(np.array(columns, float).T * weights[:, None], np.ones(len(wanted)))[0]
    ]


def fit(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the figures with the best fit."""
    by_layering = defaultdict(list)
    for row in rows:
        for each in row["layerings"]:
            by_layering[each["layering"]].append(each)
    every = [each for row in rows for each in row["layerings"]]
    _, per_sample = _fitted(*_columns(every, ("frames", "samples"), "run_s"))
    _, bytes_per_sample = _fitted(*_columns(every, ("frames", "samples"), "bytes"))
    layerings = {}
    for name, own in sorted(by_layering.items()):
        per_crossing, per_waiting = _fitted(*_columns(own, ("crossings", "waiting"), "frames"))
        frames = sum(each["frames"] for each in own)
        of_frames = [each["run_s"] - per_sample * each["samples"] for each in own]
        on_disk = [each["bytes"] - bytes_per_sample * each["samples"] for each in own]
        layerings[name] = {
            "per_crossing": per_crossing,
            "per_waiting_s": per_waiting,
            "us_per_frame": round(1e6 * max(sum(of_frames), 0) / frames, 1),
            "bytes_per_frame": round(max(sum(on_disk), 0) / frames, 1),
        }
    analyses = [
        {
            "frames": sum(each["frames"] for each in row["layerings"]),
            "number": len(row["layerings"]),
            "one": 1,
            "s": row["analysis_s"],
            "bytes": row["analysis_bytes"],
        }
        for row in rows
    ]
    s_frame, s_layering, s_once = _fitted(*_columns(analyses, ("frames", "number", "one"), "s"))
    b_frame, b_once = _fitted(*_columns(analyses, ("frames", "one"), "bytes"))
    costs = {
        "us_per_sample": round(per_sample * 1e6, 2),
        "bytes_per_sample": bytes_per_sample,
        "analysis_us_per_frame": round(s_frame * 1e6, 2),
        "analysis_s_per_layering": s_layering,
        "analysis_s": s_once,
        "analysis_bytes_per_frame": b_frame,
        "analysis_bytes": b_once,
    }
    return {"costs": costs, "layerings": layerings}


def _columns(
    rows: Sequence[dict[str, Any]], names: Sequence[str], wanted: str
) -> tuple[list[list[float]], list[float]]:
    return [[row[name] for row in rows] for name in names], [row[wanted] for row in rows]


def _expected(row: dict[str, Any], figures: dict[str, Any]) -> Outlook:
    parts = [
        of_layering(each["layering"], Size(each["crossings"], each["waiting"], each["samples"]), figures)
        for each in row["layerings"]
    ]
    return total(parts, figures)


def _measured(row: dict[str, Any]) -> Outlook:
    frames, seconds, written = (
        sum(each[what] for each in row["layerings"]) for what in ("frames", "run_s", "bytes")
    )
    return Outlook(frames, seconds, row["analysis_s"], written, row["analysis_bytes"])


def as_toml(figures: dict[str, Any]) -> str:
    """Format the figures as in their file."""
    lines = ["# Written by python -m testbed.bench.runs.outlook, which explains it.", "", "[costs]"]
    lines += [f"{name} = {value}" for name, value in figures["costs"].items()]
    lines += ["", "[accuracy]", *(f"{name} = {value}" for name, value in figures["accuracy"].items())]
    for layering, own in figures["layerings"].items():
        lines += ["", f"[layerings.{layering}]", *(f"{name} = {value}" for name, value in own.items())]
    lines += ["", "[takes]"]
    for scenario, of in figures["takes"].items():
        lines.append(f"{scenario} = {{ emulated = {of['emulated']}, mininet = {of['mininet']} }}")
    return "\n".join(lines) + "\n"


def _write(found: dict[str, Any]) -> None:
    """Write the figures, and how long each scenario takes by them."""
    FIGURES.write_text(as_toml(found | {"takes": {}}), encoding="utf-8")
    figures.cache_clear()
    each = {name: load(name) for name in scenarios()}
    told = {name: takes(scenario, workload.load(scenario)) for name, scenario in each.items()}
    FIGURES.write_text(as_toml(found | {"takes": told}), encoding="utf-8")


def compare(rows: Sequence[dict[str, Any]]) -> tuple[list[str], dict[str, float]]:
    """Compare estimates with measurements: a line per scenario; and the error factor at the median, the 90th
    percentile, and the maximum.
    """
    lines = ["scenario          time expected  measured, s    size expected  measured, MB"]
    ratios: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        asked = _expected(row, fit([other for other in rows if other is not row]))
        found = _measured(row)
        times = asked.run_s + asked.analysis_s, found.run_s + found.analysis_s
        sizes = [(each.run_bytes + each.analysis_bytes) / 1e6 for each in (asked, found)]
        ratios["time"].append(times[0] / times[1])
        ratios["size"].append(sizes[0] / sizes[1])
        lines.append(
            f"{row['scenario']:16} {times[0]:14.1f} {times[1]:9.1f} {sizes[0]:18.1f} {sizes[1]:9.1f}"
        )
    accuracy: dict[str, float] = {}
    for what, found_ratios in ratios.items():
        off = [max(each, 1 / each) for each in found_ratios]
        shares = {"half": median(off), "nine_of_ten": float(np.quantile(off, 0.9)), "most": max(off)}
        accuracy |= {f"{what}_{share}": round(factor, 2) for share, factor in shares.items()}
    return lines, accuracy


def main(arguments: list[str]) -> None:
    """Measure, fit, write, compare."""
    if arguments == ["--takes"]:
        _write(dict(figures()))
        return
    kept = Path(arguments.pop(1)) if arguments[:1] == ["--rows"] else None
    names = arguments[1:] if kept else arguments
    if kept is not None and kept.exists():
        rows = json.loads(kept.read_text(encoding="utf-8"))
    else:
        rows = []
        for name in names or scenarios():
            rows.append(measure(name))
            print(f"{name}: {sum(each['frames'] for each in rows[-1]['layerings'])} frames", flush=True)
            if kept is not None:
                kept.with_suffix(".partial").write_text(json.dumps(rows), encoding="utf-8")
        if kept is not None:
            kept.with_suffix(".partial").rename(kept)
    lines, accuracy = compare(rows)
    _write(fit(rows) | {"accuracy": accuracy})
    print("\n".join(lines))
    print(", ".join(f"{name} {factor}" for name, factor in accuracy.items()))


if __name__ == "__main__":
    main(sys.argv[1:])
