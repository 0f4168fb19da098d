"""The player's page: a run's packets and tables over time, in windows that are compressed one by one.

A window has the packets that were sent in it, the changes of tables, and all rows of tables at its begin, so
that any time can be shown from one window and those with packets still on their way.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from analysis.errors import AnalysisError
from analysis.player.inputs import Inputs
from analysis.player.packets import DETAILS, Packets, kinds, packets, reason_texts, spans
from analysis.player.states import NETWORK, SAMPLED, TABLES, Change, Value, changes
from analysis.report.figures.plot import Spec
from analysis.report.figures.topology import draw
from analysis.report.page import as_json, packed, page
from analysis.run.manifest import Run
from base.files import write_whole

MOST_PACKETS = 1_000_000
"""Maximum number of packets on a page."""

WINDOW = 3000
"""Packets and changes in a window."""

SLICES = 240
"""Parts of the run in the overview."""

SCRIPTS = ("plots.js", "sequence.js", "journey.js", "player-data.js", "player-panel.js", "player.js")
ERRORS = ("error", "forked", "waiting", "link-down", "restart", "stop", "partition")
"""Events of applications and scenarios that are faults."""


def write_player(directory: Path | str, layerings: Sequence[str] = ()) -> Path:
    """Write the player of an analysed run, of all its layerings or some; return its path.

    Raises AnalysisError, with one line.
    """
    path = Path(directory) / "player.html"
    write_whole(path, player(directory, layerings))
    return path


def player(directory: Path | str, layerings: Sequence[str] = (), *, is_inline: bool = False) -> str:
    """Return the page of an analysed run, of all its layerings or some.

    `is_inline`: in a page of others, from where links lead nowhere. Raises AnalysisError, with one line.
    """
    run = Run(Path(directory))
    chosen = [name for name in run.manifest.layerings if not layerings or name in layerings]
    for name in layerings:
        if name not in run.manifest.layerings:
            known = ", ".join(run.manifest.layerings)
            raise AnalysisError(f"{directory}: no layering {name!r}: it has {known}")
    frames = sum(run.manifest.runs[name].capture.frames for name in chosen) // 2
    if frames > MOST_PACKETS:
        raise AnalysisError(
            f"{directory}: about {frames} packets, and a page holds {MOST_PACKETS}: choose with --layering"
        )
    return _render(run, chosen, is_inline)


def _render(run: Run, layerings: Sequence[str], is_inline: bool) -> str:
    drawing = draw(run.manifest)
    windows: list[tuple[str, str]] = []
    specs = {}
    for place, layering in enumerate(layerings):
        spec, parts = layering_data(Inputs(run, layering))
        specs[layering] = spec
        windows += [
            (f"{kind}-{place}-{k}", packed(as_json(part)))
            for k, both in enumerate(parts)
            for kind, part in both
        ]
    given = Inputs(run, layerings[0])
    data = {
        "nodes": given.nodes,
        "lanes": [[*lane[:6]] for lane in drawing.links],
        "drawn": {name: drawing.groups.get(name, name) for name in given.nodes},
        "feeds": [given.labels[feed] for feed in given.feeds],
        "kinds": [{"title": title, "colour": colour} for title, colour in kinds().values()],
        "kindKeys": list(kinds()),
        "reasons": reason_texts(),
        "tables": {name: {"title": title, "columns": columns} for name, (title, columns) in TABLES.items()},
        "sampled": SAMPLED,
        "fields": DETAILS,
        "errors": ERRORS,
        "slices": SLICES,
        "layerings": specs,
    }
    return page(
        "player.html",
        [],
        data,
        scripts=SCRIPTS,
        package=__package__,
        has_plots=False,
        name=run.manifest.scenario,
        title=run.manifest.title or run.manifest.scenario,
        layerings=list(layerings),
        compared="Layerings",
        drawing=drawing,
        node_names=given.nodes[: len(run.manifest.topology.nodes)],
        feeds=data["feeds"],
        windows=windows,
        is_inline=is_inline,
    )


def layering_data(given: Inputs) -> tuple[Spec, list[list[tuple[str, Spec]]]]:
    """Return a layering's index, and its windows, each as parts for motion ("w") and dissection ("x")."""
    moving, states = packets(given), changes(given)
    events = _events(given)
    times = moving.columns["t"]
    begins = spans(sorted([*times, *(change.time for change in states)]), WINDOW)
    ends = [*begins[1:], given.end - given.start + 1]
    firsts = [bisect_left(times, begin) for begin in begins] + [len(times)]
    until = [sent + abs(took) * 2 for sent, took in zip(times, moving.columns["d"], strict=True)]
    back, flying = [], 0
    for k, (first, begin) in enumerate(zip(firsts, begins, strict=False)):
        while flying < first and until[flying] < begin:
            flying += 1
        back.append(min(k, bisect_right(firsts, flying) - 1))
    parts = []
    held: dict[tuple[str, str, str], Change] = {}
    place = 0
    for (begin, end), (low, high) in zip(zip(begins, ends, strict=True), pairwise(firsts), strict=True):
        after = bisect_left(states, end, lo=place, key=lambda change: change.time)
        own = events[bisect_left(events, (begin,)) : bisect_left(events, (end,))]
        motion = {"p": _columns(moving, low, high, begin), "e": own} | _states(
            held, states[place:after], begin
        )
        parts.append([("w", motion), ("x", _dissections(moving, low, high))])
        place = after
    index = {
        "end": given.end - given.start,
        "begins": begins,
        "firsts": firsts,
        "back": back,
        "kinds": sorted(set(moving.columns["k"])),
        "usual": round(median(map(abs, moving.columns["d"]))) if times else 1_000_000,
        "overview": _overview(moving, given.end - given.start),
    }
    return index, parts


def _columns(moving: Packets, low: int, high: int, begin: int) -> Spec:
    """Return the columns of a window's packets; times as differences."""
    columns = {name: values[low:high] for name, values in moving.columns.items()}
    columns["t"] = [after - before for before, after in pairwise([begin, *columns["t"]])]
    return columns


def _dissections(moving: Packets, low: int, high: int) -> Spec:
    fields = {name: values[low:high] for name, values in moving.details.items()}
    fields = {name: own for name, own in fields.items() if any(value is not None for value in own)}
    return {"fields": fields, "effects": moving.effects[low:high], "repairs": moving.repairs[low:high]}


def _states(held: dict[tuple[str, str, str], Change], own: Iterable[Change], begin: int) -> Spec:
    """Return rows of tables at a window's begin and their changes; update `held` to its end."""
    cells: dict[tuple[str, str, str], int] = {}
    start: list[Value] = []
    feeds = []
    for key, change in held.items():
        cells[key] = len(cells)
        start.append(change.value or ())
        feeds.append(change.feed)
    moments: dict[str, list[Any]] = {"t": [], "c": [], "v": []}
    last = begin
    for change in own:
        key = change.node, change.table, change.key
        if key not in cells:
            cells[key] = len(cells)
            feeds.append(change.feed)
        for column, value in zip(
            moments.values(), (change.time - last, cells[key], change.value), strict=True
        ):
            column.append(value)
        last = change.time
        if change.value is None:
            held.pop(key, None)
        else:
            held[key] = change
    return {"cells": list(cells), "feeds": feeds, "start": start, "changes": moments}


def _events(given: Inputs) -> list[tuple[int, str, str, int, int]]:
    """Return time, node, event, feed and item of what applications noted and the scenario did, in order."""
    numbers = {name: place for place, name in enumerate(given.feeds)}
    rows = [
        (
            max(0, row["time"] - given.start),
            row["node"],
            row["event"],
            numbers.get(row["feed"], -1),
            row["seq"],
        )
        for row in given.events
    ]
    known = {(row[0], row[1], row[2]) for row in rows}
    for event in given.case.manifest.happenings(given.case.layering):
        if (event.time_ns, event.place, event.event) not in known:
            rows.append((event.time_ns, event.place or NETWORK, event.event, -1, 0))
    return sorted(rows)


def _overview(moving: Packets, end: int) -> dict[str, list[int]]:
    """Return packets and losses in each of SLICES parts of the run."""
    counts = {"packets": [0] * SLICES, "lost": [0] * SLICES}
    for sent, took in zip(moving.columns["t"], moving.columns["d"], strict=True):
        place = min(max(0, sent) * SLICES // max(end, 1), SLICES - 1)
        counts["packets"][place] += 1
        counts["lost"][place] += took < 0
    return counts
