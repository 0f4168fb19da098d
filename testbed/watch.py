"""`feednet watch`: a page of a run, or of any captures, while they are being written."""

import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from threading import Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import click
from pydantic import ValidationError
from rich.console import Console

from testbed import workload
from testbed.errors import UserError, shown
from testbed.files import CAPTURE, SCENARIO
from testbed.scenario import Scenario
from testbed.timeline import Timeline

if TYPE_CHECKING:
    from analysis.live import Break, Followed
    from analysis.live_query import LiveQuery
    from analysis.reading import NodeRule
    from analysis.report.live import Shown

console = Console(highlight=False, soft_wrap=True)

LOOK_S = 0.1
"""Between two looks at what there is; the page is told when there is news, and once a second."""

_RATE_S = 5.0
_STUCK_S = 5.0
_CAPTURES = {".pcap", ".pcapng", ".cap", ".dump", ".ntar"}
_COLUMNS = ("State", "Frames", "MB", "Seconds", "PIT peak, entries", "PIT peak, bytes", "Items missing")


@click.command()
@click.argument(
    "targets", nargs=-1, required=True, metavar="RUN | CAPTURE...", type=click.Path(path_type=Path)
)
@click.option("--master", help="Spark master; default local.")
@click.option(
    "--every", type=click.FloatRange(0.1), default=1.0, show_default=True, help="Seconds between batches."
)
@click.option("--page", "page", type=click.Path(path_type=Path), help="Page to write; default RUN.live.html.")
@click.option(
    "--port", type=click.IntRange(0, 65535), help="Serve the page on this port of 127.0.0.1; 0: any."
)
@click.option("--idle", type=click.FloatRange(0.1), help="End after so many seconds without growth.")
def watch(
    targets: tuple[Path, ...],
    master: str | None,
    every: float,
    page: Path | None,
    port: int | None,
    idle: float | None,
) -> None:
    """Show what is going on while captures are being written: a page that follows them.

    RUN is the --out of a `feednet run` that is going on, or is about to begin; the command ends when the run
    is complete and all of it has been read. CAPTURE is a pcap or pcapng file that any program is writing;
    end with Ctrl-C, or by --idle.
    """
    from analysis.errors import AnalysisError

    target = _target(targets)
    page = page or target.path.with_name(target.path.name + ".live.html")
    try:
        _watch(target, master, every, page, port, idle)
    except AnalysisError as error:
        raise UserError(str(error)) from error
    except OSError as error:
        raise UserError(f"{error.filename or page}: {error.strerror}") from error


@dataclass
class Target:
    """What is watched.

    run: the directory of a run, None if captures are. path: what the page is named after. The rest is known
    once the run has begun: since, s; captures and breaks as in analysis.live_query.LiveQuery.
    """

    path: Path
    run: Path | None
    title: str
    noun: str = "Captures"
    captures: dict[str, list[str]] = field(default_factory=dict)
    breaks: "dict[str, list[Break]]" = field(default_factory=dict)
    nodes: Sequence[str] = ()
    links: Mapping[str, str] = field(default_factory=dict)
    since: float = 0.0

    @property
    def is_complete(self) -> bool:
        """Whether a run has ended."""
        return self.run is not None and self.run.is_dir()

    @property
    def rule(self) -> "NodeRule":
        """What names the node of an interface."""
        return "interface" if self.run else "auto"

    def begin(self) -> bool:
        """Learn what is run, if the run has begun; return whether it has. Raises UserError."""
        if self.captures or self.run is None:
            self.since = self.since or time.time()
            return True
        for directory in (_partial(self.run), self.run):
            path = directory / SCENARIO
            try:
                text = path.read_text(encoding="utf-8")
                self.since = path.stat().st_mtime
                scenario = Scenario.model_validate_json(text)
            except FileNotFoundError:
                if directory == self.run and directory.is_dir():
                    raise UserError(f"{path}: missing: not the directory of a run") from None
                continue
            except ValidationError:
                if directory != self.run:
                    return False  # being written
                raise UserError(f"{path}: not a scenario of this feednet") from None
            self._set(scenario)
            return True
        return False

    def _set(self, scenario: Scenario) -> None:
        assert self.run is not None
        self.title, self.noun = scenario.title, "Layerings"
        directories = [_partial(self.run), self.run]
        for name in scenario.layerings:
            self.captures[name] = [str(directory / name / CAPTURE) for directory in directories]
        roles = scenario.roles
        order = ("publisher", "subscriber", "archive", "forwarder")
        self.nodes = sorted(roles, key=lambda node: order.index(roles[node]))
        self.links = {end.name: f"{end.node} to {end.peer}" for end in scenario.network.interfaces()}
        breaks = list(_breaks(scenario))
        self.breaks = dict.fromkeys(scenario.layerings, breaks)


def _partial(directory: Path) -> Path:
    """Return where a run is until it is complete (testbed.run)."""
    return directory.with_name(directory.name + ".partial")


def _target(paths: tuple[Path, ...]) -> Target:
    from analysis.reading import stem
    from captures.files import is_compressed

    first = paths[0]
    run = first.with_name(first.name.removesuffix(".partial"))
    if len(paths) == 1 and not first.is_file() and (first.is_dir() or first.suffix not in _CAPTURES):
        if not run.parent.is_dir():
            raise UserError(f"{shown(str(run.parent))}: no such directory")
        return Target(run, run, run.name)
    found: dict[str, list[str]] = {}
    for path in paths:
        name = stem(str(path))
        if path.is_dir():
            raise UserError(f"{shown(str(path))}: a directory; watch one run, or captures")
        if not path.parent.is_dir():
            raise UserError(f"{shown(str(path.parent))}: no such directory")
        if name in found:
            raise UserError(f"{shown(str(path))}: two captures would be {shown(name)}")
        if path.is_file() and is_compressed(path):
            raise UserError(f"{shown(str(path))}: compressed: it cannot be read while it grows")
        found[name] = [str(path)]
    return Target(first, None, ", ".join(map(str, paths)), captures=found)


def _breaks(scenario: Scenario) -> "Iterator[Break]":
    """Yield what the scenario does to nodes and links, on the emulator's clock, which begins at 0.

    Over Mininet the clock is another, and what is long past when the first packet comes changes nothing.
    """
    from analysis.live import Break

    if not scenario.events:
        return
    network = scenario.network
    for at, change in Timeline.of(scenario, workload.load(scenario), 0).changes:
        for end in network.interfaces():
            if change.restart is not None and change.restart in (end.node, end.peer):
                event = "restart" if change.restart == end.node else "peer-restart"
                yield Break(at, end.node, end.name, event)
            elif (
                change.restart is None
                and change.is_signalled
                and end.link == network.link_between(*change.ends)
            ):
                yield Break(at, end.node, end.name, change.event)


def _watch(
    target: Target, master: str | None, every: float, page: Path, port: int | None, idle: float | None
) -> None:
    from analysis.live_query import LiveQuery
    from analysis.session import spark_session

    live = console.status("starting Spark") if console.is_terminal else nullcontext()
    with live as status:

        def tell(text: str) -> None:
            if status is not None:
                status.update(text)

        spark = spark_session(master, small=True)
        spark.sparkContext.setLogLevel("OFF")  # what goes wrong is said here, in one line
        begun = time.monotonic()
        while not target.begin():
            tell(f"waiting for {target.run} to begin")
            if idle is not None and time.monotonic() - begun >= idle:
                raise UserError(f"{target.run}: no run has begun within {idle:g} s")
            time.sleep(LOOK_S)
        query = LiveQuery(spark, target.captures, target.breaks, target.rule, every)
        view = View(target, query, page)
        try:
            view.write_page()
            with _served(view, port) as url:
                console.print(f"page      {url or page.resolve().as_uri()}")
                _follow(view, query, target, idle, tell)
                view.end("complete" if target.is_complete else "no more has come")
                if url:
                    time.sleep(2)  # for the page to have the last news
        except KeyboardInterrupt:
            view.end("watching was interrupted")
            raise
        except Exception as error:
            view.end(f"failed: {error}")
            raise
        finally:
            query.stop()
    frames = sum(capture.frames for capture in query.followed.values())
    console.print(f"watched   {frames} frames{_lag_told(query.lags)}")


def _follow(
    view: "View", query: "LiveQuery", target: Target, idle: float | None, tell: Callable[[str], None]
) -> None:
    """Keep the page up to date until all has been read."""
    told, progressed = 0.0, time.monotonic()
    while True:
        now = time.monotonic()
        is_complete = target.is_complete  # before the sizes are looked at: they are final then
        query.look(now)
        if query.batches != view.batches or now - told >= 1:
            if query.batches != view.batches:
                progressed = now
            told = now
            view.write_news()
            query.shown(view.batches, time.monotonic())
            tell(view.headline)
        is_read = query.behind == 0 and query.batches == view.batches
        if is_complete and (is_read or now - max(progressed, query.changed or 0) >= _STUCK_S):
            return
        if idle is not None and now - max(progressed, query.changed or 0) >= idle:
            return
        time.sleep(LOOK_S)


class View:
    """The page, and the script of its news beside it.

    Attributes:
        headline: what is going on, in a line.
        batches: how many are in the page.
    """

    def __init__(self, target: Target, query: "LiveQuery", page: Path) -> None:
        self.page = page
        self.script = page.with_suffix(".js")
        self.headline = ""
        self.batches = 0
        self._target = target
        self._query = query
        self._rates: deque[tuple[float, int]] = deque()
        self._over = ""

    def write_page(self) -> None:
        """Write the page, with the state that there is."""
        from analysis.report.live import live_page, news

        state = self._state()
        name = self._target.path.name
        _replace(self.page, live_page(name, self._target.title, quote(self.script.name), state))
        _replace(self.script, news(state))

    def write_news(self) -> None:
        """Write the news."""
        from analysis.report.live import news

        _replace(self.script, news(self._state()))

    def end(self, why: str) -> None:
        """Write the last page: it tells why it is, and needs no news."""
        self._over = why
        if self._target.is_complete or self._target.run is None:
            for capture in self._query.followed.values():
                capture.finish()
        self.write_page()

    @property
    def report(self) -> Path | None:
        """The report of a run that is complete."""
        return self._target.run / "report.html" if self._target.run and self._target.is_complete else None

    def _state(self) -> dict[str, Any]:
        from analysis.report.live import Shown

        target, query = self._target, self._query
        settings = Shown(target.nodes, target.links, target.run is not None)
        with query.lock:
            self.batches = query.batches
            followed = query.followed
            frames = sum(capture.frames for capture in followed.values())
            current = max((place for place, each in enumerate(followed.values()) if each.frames), default=0)
            captures = [
                self._row(place, capture, current, settings)
                for place, capture in enumerate(followed.values())
            ]
            left_out = sum(capture.left_out for capture in followed.values())
        now = time.time()
        self._rates.append((now, frames))
        while self._rates[0][0] < now - _RATE_S:
            self._rates.popleft()
        passed = now - self._rates[0][0]
        rate = (frames - self._rates[0][1]) / passed if passed > 0 else 0.0
        self.headline = self._headline(frames, rate, current)
        lag = _lag_told(query.lags).removeprefix(", ")
        notes = []
        if left_out:
            notes.append(
                f"PIT states leave {left_out} packets out: the capture does not tell their direction,"
                " or has cut them."
            )
        links = []
        if self.report is not None:
            href = quote(os.path.relpath(self.report, self.page.parent))
            is_there = self.report.exists()
            links.append(
                {"text": "The report" if is_there else "The report, once it is written", "href": href}
            )
        return {
            "phase": "over" if self._over else "running" if frames else "waiting",
            "headline": self.headline,
            "facts": [
                ["What", target.title if target.run is None else f"{target.run.name}: {target.title}"],
                ["Since", f"{datetime.fromtimestamp(target.since):%Y-%m-%d %H:%M:%S}"],
                ["Frames captured", _number(frames)],
                ["Frames a second, now", _number(rate)],
                ["Written and not read yet", f"{_number(query.behind)} bytes"],
                ["Lag, from written to shown", lag or "not known yet"],
                ["As of", f"{datetime.fromtimestamp(now):%H:%M:%S}"],
            ],
            "links": links,
            "noun": target.noun,
            "columns": [target.noun.removesuffix("s"), *_COLUMNS],
            "captures": captures,
            "current": current,
            "notes": notes,
            "updated_ms": round(now * 1000),
        }

    def _row(self, place: int, capture: "Followed", current: int, settings: "Shown") -> dict[str, Any]:
        from analysis.pit import NETWORK
        from analysis.report.live import figures, node_rows

        if not capture.frames:
            state = "–" if self._over else "waiting"
        elif self._over or (place < current and self._target.run is not None):
            state = "complete" if self._target.is_complete or not self._over else "ended"
        else:
            state = "running"
        seconds = (capture.last or 0) - (capture.first or 0)
        entries, size = capture.peaks.get(NETWORK, (0, 0))
        missing = sum(each.missing for each in capture.progress.values())
        numbers = [capture.frames, capture.bytes / 1e6, seconds / 1e9, entries, size, missing]
        return {
            "name": capture.name,
            "version": capture.frames,
            "cells": [capture.name, state, *map(_number, numbers)],
            "nodes": node_rows(capture, settings),
            "figures": {item.id: item.spec for item in figures(capture, settings)} if capture.frames else {},
            "frames": capture.frames,
            "peaks": capture.peaks,
        }

    def _headline(self, frames: int, rate: float, current: int) -> str:
        target = self._target
        if self._over:
            what = "The run" if target.run else "The capture"
            if self._over == "complete":
                return f"{what} is complete: {_number(frames)} frames"
            return f"Ended, {self._over}: {_number(frames)} frames"
        if not frames:
            return "Waiting for the first frame"
        names = list(target.captures)
        which = f"{names[current]} ({current + 1} of {len(names)})" if target.run else target.title
        return f"{which} is running: {_number(frames)} frames, {_number(rate)} a second"


def _number(value: float) -> str:
    from analysis.report.numbers import pretty

    return pretty(value)


def _lag_told(lags: Sequence[float]) -> str:
    if not lags:
        return ""
    return f", {lags[-1]:.1f} s; median {median(lags):.1f}, most {max(lags):.1f} s over {len(lags)} batches"


def _replace(path: Path, text: str) -> None:
    """Write a file so that whoever reads it finds it whole."""
    new = path.with_name(path.name + ".new")
    new.write_text(text, encoding="utf-8")
    new.replace(path)


@contextmanager
def _served(view: View, port: int | None) -> Iterator[str]:
    """Serve the page, its news and the report on loopback; yields the address, "" without a port."""
    if port is None:
        yield ""
        return

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = unquote(self.path.partition("?")[0]).lstrip("/")
            files = {"": view.page, view.page.name: view.page, view.script.name: view.script}
            if view.report is not None:
                files[os.path.relpath(view.report, view.page.parent)] = view.report
            try:
                content = files[asked].read_bytes()
            except (KeyError, OSError):
                self.send_error(404)
                return
            kind = "text/javascript" if asked == view.script.name else "text/html"
            self.send_response(200)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (http.server's name)
            pass

    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except OSError as error:
        raise UserError(f"--port {port}: {error.strerror}") from error
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()
