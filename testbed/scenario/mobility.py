"""Mobility by trace: positions of nodes, and the resulting links."""

import csv
import math
from bisect import bisect_right
from itertools import count, takewhile

from testbed.scenario.sections import DAY_MS, Change, Mobility
from topologies.model import Topology, TopologyError

_COLUMNS = ["time_s", "node", "x_m", "y_m"]
_MOST_CHANGES = 1_000_000

Track = list[tuple[float, float, float]]
"""Times in s and positions in m, in order of time."""


def read_trace(mobility: Mobility, network: Topology) -> dict[str, Track]:
    """Return the track of each node of a trace.

    Raises TopologyError, one line with the file's faulty line, if it cannot be read or does not fit.
    """
    tracks: dict[str, Track] = {}
    path = mobility.trace
    try:
        with open(path, newline="", encoding="utf-8") as file:
            rows = csv.reader(file)
            if next(rows, None) != _COLUMNS:
                raise TopologyError(f"{path}:1: the first line must be {','.join(_COLUMNS)}")
            for row in rows:
                if not row:
                    continue
                place = f"{path}:{rows.line_num}"
                if len(row) != len(_COLUMNS):
                    raise TopologyError(f"{place}: {len(row)} columns; there must be {len(_COLUMNS)}")
                time, node, x, y = row
                if node not in network.nodes:
                    raise TopologyError(f"{place}: {node!r} is not a node of the network")
                track = tracks.setdefault(node, [])
                track.append((_number(place, "time_s", time), *_place(place, x, y)))
                if not 0 <= track[-1][0] <= DAY_MS / 1000:
                    raise TopologyError(f"{place}: time_s must be from 0 to {DAY_MS // 1000}, not {time}")
                if len(track) > 1 and track[-1][0] <= track[-2][0]:
                    raise TopologyError(f"{place}: times of {node} must increase")
    except OSError as error:
        raise TopologyError(f"{path}: cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error):
        raise TopologyError(f"{path}: is not a text file of CSV in UTF-8") from None
    if not any(link.a in tracks and link.b in tracks for link in network.links):
        raise TopologyError(f"{path}: no link joins two of its nodes, so nothing follows from where they are")
    return tracks


def mobility_changes(mobility: Mobility, network: Topology) -> list[Change]:
    """Return the changes of links by mobility, in order of time. Raises TopologyError."""
    tracks = read_trace(mobility, network)
    last_ms = 1000 * max(track[-1][0] for track in tracks.values())
    links = [link for link in network.links if link.a in tracks and link.b in tracks]
    is_up = dict.fromkeys(links, True)
    changes: list[Change] = []
    # The step after the last time, too: by then all stand.
    for step in takewhile(lambda step: (step - 1) * mobility.every_ms < last_ms, count()):
        at = round(step * mobility.every_ms, 3)
        places = {node: _at(track, at / 1000) for node, track in tracks.items()}
        for link in links:
            is_near = math.dist(places[link.a], places[link.b]) <= mobility.range_m
            if is_near != is_up[link]:
                is_up[link] = is_near
                name = f"{link.a} {link.b}"
                up, down = (name, None) if is_near else (None, name)
                changes.append(Change(at_ms=at, link_up=up, link_down=down, signalled=mobility.signalled))
        if len(changes) > _MOST_CHANGES:
            raise TopologyError(f"{mobility.trace}: links change too often; raise every_ms")
    return changes


def _at(track: Track, time: float) -> tuple[float, float]:
    """Return the position at a time, s."""
    after = bisect_right(track, (time, math.inf, math.inf))
    if after == 0 or after == len(track):
        return track[max(after - 1, 0)][1:]
    (t, x, y), (u, v, w) = track[after - 1], track[after]
    share = (time - t) / (u - t)
    return x + share * (v - x), y + share * (w - y)


def _place(place: str, x: str, y: str) -> tuple[float, float]:
    return _number(place, "x_m", x), _number(place, "y_m", y)


def _number(place: str, name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise TopologyError(f"{place}: {name} must be a number, not {text!r}")
    return number
