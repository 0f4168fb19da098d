"""`feednet status`: the state of a running forwarder, once, live, or as JSON."""

import json
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import click
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from forwarder.daemon.datasets import Client, DatasetError, default_socket, snapshot, with_name
from testbed.cli.console import plain_console
from testbed.cli.options import Number
from testbed.cli.usage import require
from testbed.errors import as_user_error

console = plain_console(soft_wrap=False)

_MOST_ROWS = 24
_COUNTED = ("Interests", "Data", "Nacks", "bytes")
_LONGEST = 32
_UNITS = ("", "k", "M", "G", "T")


@click.command()
@click.option("--json", "as_json", is_flag=True, help="For programs; with --watch one line a time.")
@click.option("--watch", is_flag=True, help="Go on until interrupted, with rates.")
@click.option("--interval", type=Number(0.1, 86_400), default=1.0, help="Seconds between looks.")
@click.option(
    "--socket",
    "path",
    type=click.Path(path_type=Path),
    help="The forwarder's Unix socket; default as NDN_CLIENT_TRANSPORT or where NDN's programs look.",
)
def status(as_json: bool, watch: bool, interval: float, path: Path | None) -> None:
    """Show what a running forwarder is doing: faces, routes, feeds, stores. NFD will do, too."""
    require("interval", "watch")
    with as_user_error(DatasetError), closing(Client(path or default_socket())) as client:
        _show(client, as_json=as_json, watch=watch, interval=interval)


def _show(client: Client, *, as_json: bool, watch: bool, interval: float) -> None:
    first = snapshot(client)
    if as_json:
        click.echo(json.dumps(first))
    elif not watch:
        console.print(render(first))
    if not watch:
        return
    has_own = "feednet" in first
    while as_json:
        time.sleep(interval)
        click.echo(json.dumps(snapshot(client, with_own=has_own)))
    with Live(render(first), console=console, screen=console.is_terminal, auto_refresh=False) as live:
        before = first
        while True:
            time.sleep(interval)
            after = snapshot(client, with_own=has_own)
            live.update(render(after, before), refresh=True)
            before = after


def rates(after: Mapping[str, Any], before: Mapping[str, Any] | None) -> dict[int, dict[str, float]]:
    """Return the growth of the faces' counters per second, by face; empty without an earlier snapshot.

    A face created in between has no rate yet.
    """
    if before is None:
        return {}
    seconds = (after["general"]["now_ms"] - before["general"]["now_ms"]) / 1000
    earlier = {face["face"]: face for face in before["faces"]}
    return {
        face["face"]: {
            name: max(value - old.get(name, 0), 0) / seconds
            for name, value in face.items()
            if name.startswith(("in_", "out_"))
        }
        for face in after["faces"]
        if seconds > 0 and (old := earlier.get(face["face"])) is not None
    }


def render(now: Mapping[str, Any], before: Mapping[str, Any] | None = None) -> RenderableType:
    """Format a snapshot for a terminal, with rates since an earlier one."""
    general, store = now["general"], now["cs"]
    own: Mapping[str, Any] = now.get("feednet", {})
    seconds = (general["now_ms"] - general["started_ms"]) // 1000
    pending = f"{general['pit_entries']} pending"
    if own:
        pending += f" ({own['pit']['network_bytes']} bytes), {own['dead_nonces']} dead nonces"
    asked = store.get("hits", 0) + store.get("misses", 0)
    hits = f", {store['hits'] / asked:.0%} hits" if asked else ""
    parts: list[RenderableType] = [
        Text.assemble((general["version"], "bold"), f" up {_duration(seconds)}"),
        f"PIT  {pending}; {general['satisfied']} satisfied, {general['unsatisfied']} expired",
        f"CS   {store.get('entries', 0)} of {store.get('capacity', 0)} packets{hits}",
        _faces(now, before),
        _prefixes("FIB", now["fib"]),
        _strategies(now),
    ]
    if own.get("feeds", {}).get("list"):
        parts.append(_feeds(own["feeds"]))
    return Group(*parts)


def _table(title: str, *headings: str, rest: int = 0) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0))
    for heading in headings:
        is_text = heading in {
            "remote",
            "prefix",
            "next hops",
            "strategy",
            "feed",
            "upstream",
            "downstreams",
            "",
        }
        table.add_column(
            heading,
            justify="left" if is_text else "right",
            header_style="dim",
            overflow="fold" if is_text else "ellipsis",
        )
    if rest > 0:
        table.caption, table.caption_justify = f"and {rest} more", "left"
    return table


def _faces(now: Mapping[str, Any], before: Mapping[str, Any] | None) -> Table:
    growth = rates(now, before)
    per = "/s" if before is not None else ""
    headings = ["face", "remote", "", *(f"{what}{per}" for what in _COUNTED)]
    faces = now["faces"]
    table = _table("Faces, in/out", *headings, rest=len(faces) - _MOST_ROWS)
    for face in faces[:_MOST_ROWS]:
        numbers = growth.get(face["face"], {}) if before is not None else face
        cells = [
            "/".join(_short(numbers.get(f"{way}_{what.lower()}", 0)) for way in ("in", "out"))
            for what in _COUNTED
        ]
        kind = "local" if face.get("scope") == "local" else face.get("persistency", "")
        table.add_row(str(face["face"]), with_name(face["remote"]), Text(kind, "dim"), *cells)
    return table


def _prefixes(title: str, entries: list[Any]) -> Table:
    table = _table(title, "prefix", "next hops", rest=len(entries) - _MOST_ROWS)
    for entry in entries[:_MOST_ROWS]:
        hops = ", ".join(f"{hop['face']} (cost {hop['cost']})" for hop in entry["hops"])
        table.add_row(_cut(entry["prefix"]), hops)
    return table


def _strategies(now: Mapping[str, Any]) -> Table:
    table = _table("Strategies", "prefix", "strategy", rest=len(now["strategies"]) - _MOST_ROWS)
    for entry in now["strategies"][:_MOST_ROWS]:
        strategy = entry["strategy"].removeprefix("/localhost/nfd/strategy/")
        table.add_row(entry["prefix"], strategy)
    return table


def _feeds(feeds: Mapping[str, Any]) -> Table:
    listed = feeds["list"]
    table = _table(
        "Feeds",
        "feed",
        "tip",
        "upstream",
        "downstreams",
        rest=feeds["entries"] - min(len(listed), _MOST_ROWS),
    )
    for entry in listed[:_MOST_ROWS]:
        upstream = entry["upstream"]
        way = (
            "none"
            if upstream is None
            else f"face {upstream['face']}, {upstream['state']}, to {upstream['limit']}"
        )
        downstreams = "; ".join(
            f"face {down['face']}: {down['next']}..{down['limit']}, {down['left_ms'] // 1000} s"
            for down in entry["downstreams"]
        )
        table.add_row(_cut(entry["feed"]), str(entry["tip"]), way, downstreams)
    return table


def _cut(name: str) -> str:
    """Shorten a name in its middle: names of feeds differ at their end."""
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST // 2]}…{name[1 - _LONGEST // 2 :]}"


def _short(number: float) -> str:
    """Format a number in at most five characters."""
    unit = 0
    while number >= 9999.5 and unit < len(_UNITS) - 1:
        number /= 1000
        unit += 1
    digits = 1 if (unit or number % 1) and number < 100 else 0
    return f"{number:.{digits}f}{_UNITS[unit]}"


def _duration(seconds: int) -> str:
    days, rest = divmod(seconds, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, rest = divmod(rest, 60)
    return f"{days} d {hours:02}:{minutes:02}:{rest:02}" if days else f"{hours:02}:{minutes:02}:{rest:02}"
