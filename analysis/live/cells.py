"""The figures of a growing capture by slices of time: loads, states of PITs, newest items.

A capture has at most MOST_SLICES slices, which double their width on overflow. The cell of a slice is text
(JSON) in a query's state and in its output.
"""

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from analysis.pit.entry import State
from captures.formats.records import Ints

SLICE_NS = 50_000_000
MOST_SLICES = 240

NOTHING = State(0, 0, 0, 0)


class Slices:
    """Time slices of one width, at most MOST_SLICES, from the capture's first frame on."""

    def __init__(self, origin: int | None = None, width: int = SLICE_NS) -> None:
        self.origin = origin
        self.width = width

    def slice_of(self, time: int) -> int:
        """Return the slice of a time, possibly out of range; 0 before the origin."""
        return max(0, time - (self.origin or 0)) // self.width

    def slices_of(self, times: Ints) -> Ints:
        """Return slice_of() of each time."""
        return np.maximum(0, times - (self.origin or 0)) // self.width

    def extend(self, first: int, last: int) -> int:
        """Begin with the time `first`, if not begun, and widen slices until the time `last` fits; return the
        factor of widening."""
        if self.origin is None:
            self.origin = first // SLICE_NS * SLICE_NS
        before = self.width
        while self.slice_of(last) >= MOST_SLICES:
            self.width *= 2
        return self.width // before


class Cell:
    """The figures of a slice.

    Attributes:
        loads: frames and bytes by (interface, direction, kind).
        pit: by node with a change, ALL among them: the maximum of every field, and the state at the end.
        newest: by (node, feed) with items.
    """

    def __init__(self, text: str | None = None) -> None:
        said = json.loads(text) if text else {"loads": [], "pit": [], "newest": []}
        self.loads: dict[tuple[str, str | None, str], tuple[int, int]] = {
            (interface, direction, kind): (frames, size)
            for interface, direction, kind, frames, size in said["loads"]
        }
        self.pit = {node: (State(*most), State(*end)) for node, most, end in said["pit"]}
        self.newest: dict[tuple[str, str], int] = {(node, feed): seq for node, feed, seq in said["newest"]}

    def __str__(self) -> str:
        return as_text(
            loads=[[*key, *amount] for key, amount in self.loads.items()],
            pit=[[node, *states] for node, states in self.pit.items()],
            newest=[[*pair, seq] for pair, seq in self.newest.items()],
        )

    def count(self, key: tuple[str, str | None, str], frames: int, size: int) -> None:
        """Add to a load."""
        before = self.loads.get(key, (0, 0))
        self.loads[key] = before[0] + frames, before[1] + size

    def add(self, later: "Cell") -> None:
        """Add the next slice."""
        for key, amount in later.loads.items():
            self.count(key, *amount)
        for node, (most, end) in later.pit.items():
            self.pit[node] = most_of(self.pit.get(node, (NOTHING, NOTHING))[0], most), end
        self.newest |= later.newest


class Cells:
    """The cells that change; the others are read when needed, as text.

    Attributes:
        changed: those that were asked for.
        is_anew: whether these are all, as slices have become wider.
    """

    def __init__(self, read: Callable[[int], str | None]) -> None:
        self._read = read
        self.changed: dict[int, Cell] = {}
        self.is_anew = False

    def __getitem__(self, place: int) -> Cell:
        if place not in self.changed:
            self.changed[place] = Cell(None if self.is_anew else self._read(place))
        return self.changed[place]

    def widen(self, factor: int) -> None:
        """Join cells, as slices have become wider by this factor."""
        wider: dict[int, Cell] = {}
        for place in range(MOST_SLICES):
            wider.setdefault(place // factor, Cell()).add(self[place])
        self.changed = {place: cell for place, cell in wider.items() if cell.loads or cell.pit or cell.newest}
        self.is_anew = True

    def texts(self) -> dict[int, str]:
        """Return those that changed."""
        return {place: str(cell) for place, cell in self.changed.items()}


def most_of(one: State, other: State) -> State:
    """Return the maximum of every field."""
    return State(*map(max, one, other))


def as_text(**values: Any) -> str:
    """Return values as text."""
    return json.dumps(values, separators=(",", ":"))
