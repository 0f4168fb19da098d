"""The page of growing captures: its state, its figures, and its files."""

import os
import time
from collections import deque
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from base.files import write_whole
from testbed.watch.target import Target

if TYPE_CHECKING:
    from analysis.live.capture import LiveCapture
    from analysis.live.query import LiveQuery
    from analysis.report.live import Presentation

_RATE_S = 5.0
_COLUMNS = ("State", "Frames", "MB", "Seconds", "PIT peak, entries", "PIT peak, bytes", "Items missing")


class LivePage:
    """The page, and its update script.

    Attributes:
        path, script: their files.
        headline: the current state, in a line.
        batches: number of batches in the page.
    """

    def __init__(self, target: Target, query: "LiveQuery", path: Path, *, is_served: bool = False) -> None:
        self.path = path
        self.script = path.with_suffix(".js")
        self.headline = ""
        self.batches = 0
        self._is_served = is_served
        self._target = target
        self._query = query
        self._rates: deque[tuple[float, int]] = deque()
        self._over = ""
        self._drawn: dict[str, tuple[tuple[int, bool], list[list[str]], dict[str, Any]]] = {}

    def write_page(self) -> None:
        """Write the page with the current state."""
        from analysis.report.live import live_page, update_script

        state = self._state()
        name = self._target.path.name
        text = live_page(name, self._target.title, quote(self.script.name), state, self._shown())
        self._write(self.path, text)
        self._write(self.script, update_script(state))

    def write_news(self) -> None:
        """Write the update script."""
        from analysis.report.live import update_script

        self._write(self.script, update_script(self._state()))

    def _write(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text)

    def end(self, why: str) -> None:
        """Write the last page, with the reason of its end; it needs no updates."""
        self._over = why
        self.write_page()

    @property
    def report(self) -> Path | None:
        """The report of a completed run."""
        return self._target.run / "report.html" if self._target.run and self._target.is_complete else None

    @property
    def is_pending(self) -> bool:
        """Whether a served page waits for the run's report."""
        return self._is_served and self.report is not None and not self.report.exists()

    def _shown(self) -> "Presentation":
        from analysis.report.live import Presentation

        return Presentation(self._target.nodes, self._target.links, self._target.run is not None)

    def _state(self) -> dict[str, Any]:
        target, query, settings = self._target, self._query, self._shown()
        with query.lock:
            self.batches = query.batches
            captures = list(query.captures.values())
            frames = sum(capture.frames for capture in captures)
            current = max((place for place, each in enumerate(captures) if each.frames), default=0)
            rows = [self._row(place, each, current, settings) for place, each in enumerate(captures)]
            left_out = sum(capture.left_out for capture in captures)
        now = time.time()
        self._rates.append((now, frames))
        while self._rates[0][0] < now - _RATE_S:
            self._rates.popleft()
        passed = now - self._rates[0][0]
        rate = (frames - self._rates[0][1]) / passed if passed > 0 else 0.0
        self.headline = self._headline(frames, rate, current)
        lag = lag_text(query.lags).removeprefix(", ")
        notes = []
        if left_out:
            notes.append(f"PIT states leave {left_out} packets out: the capture has cut them.")
        links = []
        if self.report is not None:
            href = quote(os.path.relpath(self.report, self.path.parent))
            is_there = self.report.exists()
            links.append(
                {"text": "The report" if is_there else "The report, once it is written", "href": href}
            )
        return {
            "phase": "over" if self._over else "running" if frames else "waiting",
            "headline": self.headline,
            "facts": [
                ["What", target.title if target.run is None else target.run.name],
                ["Time", f"{_clock(target.since, '%Y-%m-%d %H:%M:%S')} to {_clock(now, '%H:%M:%S')}"],
                ["Frames captured", _number(frames)],
                ["Frames a second, now", "–" if self._over else _number(rate)],
                ["Written and not read yet", f"{_number(query.behind)} bytes"],
                ["Lag, from written to shown", lag or "not known yet"],
            ],
            "links": links,
            "noun": target.noun,
            "columns": [target.noun.removesuffix("s"), *_COLUMNS],
            "captures": rows,
            "current": current,
            "notes": notes,
            "pending": self.is_pending,
            "updated_ms": round(now * 1000),
        }

    def _row(
        self, place: int, capture: "LiveCapture", current: int, settings: "Presentation"
    ) -> dict[str, Any]:
        from analysis.columns.values import ALL

        if not capture.frames:
            state = "–" if self._over else "waiting"
        elif self._over or (place < current and self._target.run is not None):
            state = "complete" if self._target.is_complete or not self._over else "ended"
        else:
            state = "running"
        nodes, drawn = self._drawing(capture, settings)
        seconds = (capture.last or 0) - (capture.first or 0)
        entries, size, *_ = capture.peaks.get(ALL, (0, 0))
        missing = sum(each.missing for each in capture.progress.values())
        numbers = [capture.frames, capture.bytes / 1e6, seconds / 1e9, entries, size, missing]
        return {
            "name": capture.name,
            "version": capture.frames,
            "cells": [capture.name, state, *map(_number, numbers)],
            "nodes": nodes,
            "figures": drawn,
            "frames": capture.frames,
            "peaks": capture.peaks,
        }

    def _drawing(
        self, capture: "LiveCapture", settings: "Presentation"
    ) -> tuple[list[list[str]], dict[str, Any]]:
        """Return the table of nodes and the figures of a capture, drawn again after changes."""
        from analysis.report.live import figures, node_rows

        if not capture.frames:
            return [], {}
        version = capture.frames, bool(self._over)
        known = self._drawn.get(capture.name)
        if known is None or known[0] != version:
            drawn = {item.id: item.spec for item in figures(capture, settings)}
            known = self._drawn[capture.name] = version, node_rows(capture, settings), drawn
        return known[1], known[2]

    def _headline(self, frames: int, rate: float, current: int) -> str:
        target = self._target
        counted = _some(frames, "frame")
        if self._over:
            what = "The run" if target.run else "The capture"
            if self._over == "complete":
                return f"{what} is complete: {counted}"
            return f"Ended, {self._over}: {counted}"
        if not frames:
            return "Waiting for the first frame"
        names = list(target.captures)
        which = f"{names[current]} ({current + 1} of {len(names)})" if target.run else target.title
        return f"{which} is running: {counted}, {_number(rate)} a second"


def _some(count: int, noun: str) -> str:
    from analysis.report.words.numbers import about

    return about(count, noun)


def _number(value: float) -> str:
    from analysis.report.words.numbers import pretty

    return pretty(value)


def lag_text(lags: Sequence[float]) -> str:
    """Return the lags of batches (s) in words: the last, the median and the longest; "" if there are none."""
    if not lags:
        return ""
    over = _some(len(lags), "batch")
    return f", {lags[-1]:.1f} s; median {median(lags):.1f}, most {max(lags):.1f} s over {over}"


def _clock(time_s: float, form: str) -> str:
    return datetime.fromtimestamp(time_s).strftime(form)
