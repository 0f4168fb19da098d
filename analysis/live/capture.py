"""The figures of a growing capture, for its page: rows of analysis.live.stream, joined."""

import json
from collections.abc import Iterable
from typing import NamedTuple

from analysis.live.cells import Cell, Slices
from analysis.pit.entry import State

OVERVIEW = -1
"""The `slice` of a row that is not about a slice."""


class Seen(NamedTuple):
    """Items of a feed seen at a node. `missing`: unseen items between the first seen and `newest`."""

    newest: int
    missing: int


class LiveCapture:
    """A growing capture.

    Attributes:
        slices: time slices.
        frames, bytes: captured so far. first, last: times of frames, ns; None before the first.
        peaks: maximum of every field of PITs by node, ALL among them.
        progress: by (node, feed).
        left_out: truncated messages that could not be followed.
        cells: by slice.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.slices = Slices()
        self.frames = self.bytes = self.left_out = 0
        self.first: int | None = None
        self.last: int | None = None
        self.peaks: dict[str, State] = {}
        self.progress: dict[tuple[str, str], Seen] = {}
        self.cells: dict[int, Cell] = {}
        self._settled: dict[int, Cell] = {}

    def take(self, rows: Iterable[tuple[int, str]]) -> None:
        """Take over rows of a batch: slice and text."""
        texts = dict(rows)
        said = json.loads(texts.pop(OVERVIEW))
        if said["width"] != self.slices.width:
            self._settled = {}
        self.slices = Slices(said["origin"], said["width"])
        self._settled |= {place: Cell(text) for place, text in texts.items()}
        self.cells = self._settled | {int(place): Cell(text) for place, text in said["cells"].items()}
        for name in ("frames", "bytes", "first", "last", "left_out"):
            setattr(self, name, said[name])
        self.peaks = {node: State(*most) for node, most in said["peaks"].items()}
        self.progress = {(node, feed): Seen(*seen) for node, feed, *seen in said["progress"]}

    @property
    def loads(self) -> dict[tuple[str, str | None, str, int], tuple[int, int]]:
        """Frames and bytes by (interface, direction, kind, slice)."""
        return {
            (*key, place): amount for place, cell in self.cells.items() for key, amount in cell.loads.items()
        }

    @property
    def pit(self) -> dict[str, dict[int, tuple[State, State]]]:
        """By node, ALL among them, for each slice with a change: the maximum of every field, and the state at
        its end."""
        found: dict[str, dict[int, tuple[State, State]]] = {}
        for place, cell in self.cells.items():
            for node, states in cell.pit.items():
                found.setdefault(node, {})[place] = states
        return found

    @property
    def newest(self) -> dict[tuple[str, str], dict[int, int]]:
        """Newest items by (node, feed) and slice."""
        found: dict[tuple[str, str], dict[int, int]] = {}
        for place, cell in self.cells.items():
            for pair, seq in cell.newest.items():
                found.setdefault(pair, {})[place] = seq
        return found
