"""The first difference between two supposedly identical runs."""

import json
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

from captures.formats.files import open_capture
from testbed.experiment.files import CAPTURE, FEED, INPUTS, MANIFEST, SCENARIO
from testbed.experiment.inputs import without_files

_LONGEST = 160
_SHARED = ("scenario", "seed", "net", "layerings", "parameters", "workload", "topology", "timeline", "runs")
"""Manifest entries about the run itself, independent of its machine."""


def first_difference(one: Path, other: Path) -> str | None:
    """Return the first difference between two runs of one scenario, in one line; None if they are equal.

    Compared are the manifests' accounts of the runs, and every measured file.
    """
    was, now = (json.loads((run / MANIFEST).read_bytes()) for run in (one, other))
    before, after = (without_files(json.loads((run / SCENARIO).read_bytes())) for run in (one, other))
    differs = _in_json(before, after, SCENARIO)
    if differs:
        return differs
    names = [name for name in was["files"] if not name.startswith(f"{INPUTS}/") and name != SCENARIO]
    # The feed first, then layering by layering: earlier differences explain later ones.
    for name in sorted(names, key=lambda name: name != FEED):
        if name not in now["files"]:
            return f"{name}: there is no such file now"
        if was["files"][name]["sha256"] != now["files"][name]["sha256"]:
            of = _in_captures if name.endswith(CAPTURE) else _in_lines
            return f"{name}: {of(one / name, other / name)}"
    for manifest in (was, now):
        manifest["workload"].pop("source")  # a file's name
    for key in _SHARED:
        if was.get(key) != now.get(key):
            return _in_json(was.get(key), now.get(key), f"{MANIFEST}: {key}")
    return None


def _in_lines(one: Path, other: Path) -> str:
    with one.open("rb") as was, other.open("rb") as now:
        for number, (before, after) in enumerate(zip_longest(was, now), start=1):
            if before != after:
                return f"line {number}: {_shown(before)} was {_shown(after)} now"
    return "the same lines"


def _shown(line: bytes | None) -> str:
    if line is None:
        return "nothing"
    text = line.decode("utf-8", "replace").strip()
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _in_captures(one: Path, other: Path) -> str:
    for number, (before, after) in enumerate(zip_longest(_frames(one), _frames(other)), start=1):
        if before is None or after is None:
            what = "there is no such frame " + ("then" if before is None else "now")
            time_ns, interface, _, _ = after or before or (0, "", 0, b"")
            return f"frame {number}, {time_ns / 1e9:.9f} s, {interface}: {what}"
        if before != after:
            time_ns, interface, _, frame = before
            differing = [
                name
                for name, was, now in zip(
                    ("time", "interface", "direction", "bytes"), before, after, strict=True
                )
                if was != now
            ]
            return (
                f"frame {number}, {time_ns / 1e9:.9f} s, {interface}, {len(frame)} bytes: another"
                f" {' and another '.join(differing)} now"
            )
    return "the same frames; what else is in the files differs"


def _frames(path: Path) -> Iterator[tuple[int, str, int, bytes]]:
    """Yield time (ns), interface, direction and bytes of each frame."""
    with open_capture(path) as capture:
        for window in capture.windows():
            data = window.data
            of = window.records
            columns = (of.at, of.captured, of.time, of.source, of.direction)
            for at, size, time, source, direction in zip(*(each.tolist() for each in columns), strict=True):
                name = capture.reader.interfaces[source].name
                yield time, name, direction, bytes(data[at : at + size])


def _in_json(was: Any, now: Any, place: str) -> str | None:
    """Return the first key with different values."""
    if isinstance(was, dict) and isinstance(now, dict):
        for key in {**was, **now}:
            found = _in_json(
                was.get(key), now.get(key), f"{place}: {key}" if ":" not in place else f"{place}.{key}"
            )
            if found:
                return found
        return None
    if was == now:
        return None
    return f"{place}: {_shown(json.dumps(was).encode())} was {_shown(json.dumps(now).encode())} now"
