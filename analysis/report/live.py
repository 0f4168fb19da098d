"""The page of `feednet watch`: the current state of a run, or of growing captures.

The page is written once; a much smaller script beside it is rewritten for each update, and the page reloads
that script periodically. Unlike fetch, this works for pages opened as files, and keeps the reader's scroll
position. The final page contains its update.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from analysis.columns.values import ALL
from analysis.live.capture import LiveCapture
from analysis.live.cells import NOTHING
from analysis.pit.entry import State
from analysis.report.figures.plot import Figure, Menu, Spec, area, figure, heat_map, line, with_menus
from analysis.report.figures.wire import KINDS
from analysis.report.page import as_json, page
from analysis.report.words.numbers import pretty

MOST_ROWS = 40
"""Maximum number of interfaces in the map of loads, the busiest ones."""

MOST_COLUMNS = 80
SCRIPTS = ("plots.js", "live.js")
CALL = "feednetLive"
"""The page's function that the update script calls."""


class Presentation(NamedTuple):
    """Presentation of captures.

    nodes: in page order; others follow. links: an interface's link, by its name. sent: whether loads count
    sent frames only, as every frame is captured at both ends.
    """

    nodes: Sequence[str] = ()
    links: Mapping[str, str] = {}
    sent: bool = False

    def ordered(self, names: Sequence[str]) -> list[str]:
        """Return nodes in page order."""
        place = {name: at for at, name in enumerate(self.nodes)}
        return sorted(names, key=lambda name: (place.get(name, len(place)), name))


def figures(capture: LiveCapture, shown: Presentation) -> list[Figure]:
    """Return the plots of a capture."""
    return [_packets(capture, shown), _pit(capture, shown), _loads(capture, shown), _progress(capture, shown)]


def node_rows(capture: LiveCapture, shown: Presentation) -> list[list[str]]:
    """Return the table of nodes: node, feeds, newest, missing, and peak PIT entries and bytes."""
    newest, missing, feeds = _feeds_by_node(capture)
    rows = []
    for name in [*_nodes(capture, shown), *([ALL] if ALL in capture.peaks else [])]:
        peak = capture.peaks.get(name, NOTHING)
        amounts = [feeds.get(name), newest.get(name), missing.get(name), peak.entries, peak.bytes]
        rows.append(["whole network" if name == ALL else name, *map(pretty, amounts)])
    return rows


NODE_COLUMNS = ("Node", "Feeds", "Newest item", "Missing", "PIT peak, entries", "PIT peak, bytes")


def live_page(name: str, title: str, feed: str, state: Mapping[str, Any], shown: Presentation) -> str:
    """Return the page with its initial state; `feed` is the address of the update script."""
    empty = figures(LiveCapture(""), shown)
    return page(
        "live.html",
        empty,
        {"live": state},
        scripts=SCRIPTS,
        name=name,
        title=title,
        layerings=[row["name"] for row in state["captures"]],
        plots={item.id: item for item in empty},
        feed=feed,
        state=state,
        node_columns=NODE_COLUMNS,
    )


def update_script(state: Mapping[str, Any]) -> str:
    """Return the update script."""
    return f"{CALL}({as_json(state)});\n"


def _seconds(capture: LiveCapture, place: int) -> float:
    return round(place * capture.slices.width / 1e9, 4)


def _end(capture: LiveCapture) -> int:
    """Return the last non-empty slice."""
    return 0 if capture.last is None else capture.slices.slice_of(capture.last)


def _time_axis(capture: LiveCapture) -> Spec:
    end = _seconds(capture, _end(capture) + 1)
    return {"title": {"text": "time, s"}, "range": [0, end]}


def _packets(capture: LiveCapture, shown: Presentation) -> Figure:
    amounts: Counter[tuple[str, int]] = Counter()
    for (_, direction, kind, place), (frames, _) in capture.loads.items():
        if not shown.sent or direction == "out":
            amounts[kind, place] += frames
    present = {kind for kind, _ in amounts}
    places, width = range(_end(capture) + 1), capture.slices.width / 1e9
    times = [_seconds(capture, place) for place in places]
    data = []
    for kind in (*KINDS, *sorted(present - KINDS.keys())):
        if kind in present:
            rates = [round(amounts[kind, place] / width, 2) for place in places]
            data.append(area(*KINDS.get(kind, (kind, "--other")), times, rates))
    what = "packets a second, all links" if shown.sent else "frames a second"
    layout: Spec = {
        "showlegend": True,
        "xaxis": _time_axis(capture),
        "yaxis": {"title": {"text": what}, "rangemode": "tozero"},
        "uirevision": capture.name,
    }
    return figure(
        "packets",
        "Packets over time, by kind",
        "Stacked areas over time: packets a second of each kind",
        data,
        layout,
        ("kind", "from, s", "packets a second"),
    )


def _pit(capture: LiveCapture, shown: Presentation) -> Figure:
    places = range(_end(capture) + 1)

    def most(name: str, column: int) -> list[int]:
        """Return a node's maximum in each slice."""
        kept = capture.pit.get(name, {})
        amounts, state = [], 0
        for place in places:
            cell = kept.get(place)
            amounts.append(state if cell is None else cell[0][column])
            state = state if cell is None else cell[1][column]
        return amounts

    def draw(of: str, what: str) -> tuple[list[Spec], Spec]:
        column = State._fields.index(what)
        if of == "each node":
            names = _nodes(capture, shown)
            return _map(capture, {name: most(name, column) for name in names}, max, what)
        seconds = [_seconds(capture, place) for place in places]
        style = {"hovertemplate": f"%{{y}} {what} from %{{x:.2f}} s", "meta": None}
        layout = {
            "xaxis": _time_axis(capture),
            "yaxis": {"title": {"text": f"PIT {what}, most in a slice"}, "rangemode": "tozero"},
            "uirevision": capture.name,
        }
        return [line(1, of, seconds, most(ALL, column), "hv") | style], layout

    return with_menus(
        "pit",
        "PIT over time, by node",
        "A map: a row for each node, time to the right, darker where its PIT held more; or the whole network",
        [Menu("of", ["each node", "whole network"]), Menu("PIT", list(State._fields))],
        draw,
        ("node", "from, s", "most in the slice"),
    )


def _nodes(capture: LiveCapture, shown: Presentation) -> list[str]:
    """Return all nodes: those of the run, and others seen."""
    seen = {node for node, _ in capture.progress}
    return shown.ordered([*({*shown.nodes, *capture.peaks, *seen} - {ALL})])


def _map(
    capture: LiveCapture,
    rows: Mapping[str, Sequence[float]],
    merged: Callable[[Sequence[float]], float],
    what: str,
) -> tuple[list[Spec], Spec]:
    """Return the heat map of rows by slice; `merged` combines the values of a column."""
    slices = _end(capture) + 1
    each = -(-slices // MOST_COLUMNS)
    begins = range(0, slices, each)
    width = each * capture.slices.width / 1e9
    table = {
        name: [merged(values[begin : begin + each]) for begin in begins] for name, values in rows.items()
    }
    top = max((value for row in table.values() for value in row), default=0) or 1
    trace, layout = heat_map(table, len(begins), width, round(len(begins) * width, 4), what, top, what)
    return [trace], layout | {"uirevision": capture.name}


def _loads(capture: LiveCapture, shown: Presentation) -> Figure:
    amounts: dict[str, dict[int, list[int]]] = {}
    totals: Counter[str] = Counter()
    for (interface, direction, _, place), (frames, size) in capture.loads.items():
        if not shown.sent or direction == "out":
            cell = amounts.setdefault(interface, {}).setdefault(place, [0, 0])
            cell[0] += frames
            cell[1] += size
            totals[interface] += size
    order = {name: at for at, name in enumerate(shown.links)}
    chosen = sorted(
        (name for name, _ in totals.most_common(MOST_ROWS)), key=lambda name: (order.get(name, 0), name)
    )
    places, seconds = range(_end(capture) + 1), capture.slices.width / 1e9

    def draw(what: str) -> tuple[list[Spec], Spec]:
        place, unit = (1, 1000) if what == "kB/s" else (0, 1)
        rates = {
            shown.links.get(name, name): [
                amounts[name].get(at, (0, 0))[place] / unit / seconds for at in places
            ]
            for name in chosen
        }
        return _map(capture, rates, lambda values: round(fmean(values), 2), what)

    return with_menus(
        "load",
        "Load by link" if shown.sent else "Load by interface",
        "A map: a row for each sending interface, time to the right, darker where more was carried",
        [Menu("load", ["kB/s", "packets/s"])],
        draw,
        ("interface", "time, s", "load"),
    )


def _feeds_by_node(capture: LiveCapture) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Return for each node the sum of its feeds' newest items, of missing items, and the number of feeds."""
    newest: Counter[str] = Counter()
    missing: Counter[str] = Counter()
    feeds: Counter[str] = Counter()
    for (node, _), progress in capture.progress.items():
        newest[node] += progress.newest
        missing[node] += progress.missing
        feeds[node] += 1
    return newest, missing, feeds


def _progress(capture: LiveCapture, shown: Presentation) -> Figure:
    by_node: dict[str, list[dict[int, int]]] = {}
    for (node, _), series in capture.newest.items():
        by_node.setdefault(node, []).append(series)
    places = range(_end(capture) + 1)

    def newest(name: str) -> list[int]:
        amounts = [0] * len(places)
        for series in by_node.get(name, ()):
            state = 0
            for place in places:
                state = series.get(place, state)
                amounts[place] += state
        return amounts

    data, layout = _map(
        capture, {name: newest(name) for name in _nodes(capture, shown)}, lambda values: values[-1], "item"
    )
    return figure(
        "progress",
        "Newest item by node",
        "A map: a row for each node, time to the right, darker the newer the newest item that it has seen",
        data,
        layout,
        ("node", "time, s", "newest item, sum over feeds"),
    )
