"""State of growing captures: frames over time, the PIT of every node, the progress of feeds.

Batches of a stream (analysis.spark.capture_source) are reduced by analysis.live.batch to counts and message
fields; a LiveCapture per capture accumulates them in the driver. It keeps at most MOST_SLICES time slices,
and doubles their width on overflow. Fragmented messages are followed once complete; TCP streams are not
reassembled.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from operator import add, itemgetter
from typing import Any, NamedTuple

from analysis.columns.values import ALL
from analysis.packet_schema import MESSAGES, NOTICES
from analysis.pit.entry import Message, State
from analysis.pit.model import PitModel
from captures.layers.reassembly import Reassembler

SLICE_NS = 50_000_000
MOST_SLICES = 240
MOST_PAIRS = 4000
"""Maximum number of (node, feed) pairs with progress."""

NOTHING = State(0, 0, 0, 0)

_SENDER = ("node", "interface", "direction", "src", "dst", "src_port", "dst_port")
_FRAGMENT = ("lp_sequence", "frag_index", "frag_count")
MESSAGE_FIELDS = tuple(dict.fromkeys(("layering", "frame", *Message._fields, *_SENDER, *_FRAGMENT)))
NEEDED = (*MESSAGE_FIELDS, "frame_bytes")
"""Columns of packets that analysis.live.batch needs."""

_MOST_JOINING = 4096

Row = Mapping[str, Any]


class Break(NamedTuple):
    """A row of analysis.run.context.BREAKS, without its layering."""

    time: int
    node: str
    interface: str
    event: str


class Progress:
    """Items of a feed seen at a node. `missing`: unseen items between the first seen and `newest`."""

    def __init__(self, first: int) -> None:
        self.first = self.newest = first
        self.missing = 0
        self._gaps: list[tuple[int, int]] = []

    def add(self, seq: int) -> None:
        """Add an item."""
        if seq > self.newest:
            if seq > self.newest + 1:
                self._gaps.append((self.newest + 1, seq - 1))
                self.missing += seq - self.newest - 1
            self.newest = seq
            return
        place = bisect_right(self._gaps, seq, key=itemgetter(0)) - 1
        if place >= 0 and seq <= self._gaps[place][1]:
            low, high = self._gaps[place]
            self._gaps[place : place + 1] = [
                gap for gap in ((low, seq - 1), (seq + 1, high)) if gap[0] <= gap[1]
            ]
            self.missing -= 1


class Slices:
    """Time slices of one width, at most MOST_SLICES, from the capture's first frame on."""

    def __init__(self) -> None:
        self.origin = 0
        self.width = SLICE_NS
        self.known = False

    def begin(self, time: int) -> None:
        """Set the origin, if unset."""
        if not self.known:
            self.origin, self.known = time // SLICE_NS * SLICE_NS, True

    def slice_of(self, time: int) -> int:
        """Return the slice of a time, possibly out of range; 0 before the origin."""
        return max(0, time - self.origin) // self.width

    def widen_to(self, time: int) -> bool:
        """Widen slices until a time fits; return whether the width changed."""
        before = self.width
        while self.slice_of(time) >= MOST_SLICES:
            self.width *= 2
        return self.width != before


class LiveCapture:
    """A growing capture.

    Args:
        name: its own.
        breaks: events of nodes and links, in order of time, on the capture's clock.

    Attributes:
        slices: time slices.
        frames, bytes: captured so far. first, last: times of frames, ns; None before the first.
        loads: frames and bytes by (interface, direction, kind, slice).
        pit: by node, ALL among them, for each slice with a change: the maximum of every field, and the state
            at its end.
        peaks: maximum of every field by node.
        progress: by (node, feed); `newest`: for these by slice.
        left_out: truncated messages that could not be followed.
    """

    def __init__(self, name: str, breaks: Iterable[Break] = ()) -> None:
        self.name = name
        self.slices = Slices()
        self.frames = self.bytes = 0
        self.first: int | None = None
        self.last: int | None = None
        self.loads: dict[tuple[str, str | None, str, int], tuple[int, int]] = {}
        self.pit: dict[str, dict[int, tuple[State, State]]] = {}
        self.peaks: dict[str, State] = {}
        self.progress: dict[tuple[str, str], Progress] = {}
        self.newest: dict[tuple[str, str], dict[int, int]] = {}
        self.left_out = 0
        self._breaks = list(breaks)
        self._models: dict[str, PitModel] = {}
        self._held: list[tuple[int, str, State]] = []  # changes of the latest moment, possibly incomplete
        self._state: dict[str, State] = {}
        self._joining: Reassembler[Row] = Reassembler(_MOST_JOINING, once=True)

    def count(self, rows: Iterable[Row]) -> None:
        """Add rows of counts()."""
        rows = list(rows)
        if not rows:
            return
        first, last = min(row["first"] for row in rows), max(row["last"] for row in rows)
        self.first = first if self.first is None else min(first, self.first)
        self.last = last if self.last is None else max(last, self.last)
        self._extend(first, last)
        for row in rows:
            self.frames += row["frames"]
            self.bytes += row["bytes"]
            place = self.slices.slice_of(row["slice"] * SLICE_NS)
            key = row["interface"], row["direction"], row["kind"], place
            frames, size = self.loads.get(key, (0, 0))
            self.loads[key] = frames + row["frames"], size + row["bytes"]

    def follow(self, rows: Sequence[Row]) -> None:
        """Follow rows of messages(), in the order of time and frame."""
        if not rows:
            return
        self._extend(rows[0]["time"], rows[-1]["time"])
        for part in rows:
            row = part if part["frag_count"] == 1 else self._join(part)
            if row is None:
                continue
            now = row["time"]
            while self._breaks and self._breaks[0].time <= now:
                self._break(self._breaks.pop(0))
            if _can_follow(row):
                message = Message._make(map(row.__getitem__, Message._fields))
                self._model(row["node"]).receive(message)
            else:
                self.left_out += 1
            if row["kind"] == "data" and row["feed"] is not None and row["seq"] is not None:
                self._add_item(row["node"], row["feed"], row["seq"], now)
        self._settle(rows[-1]["time"])

    def finish(self) -> None:
        """Record the changes of the latest moment, which is complete."""
        if self._held:
            self._settle(self._held[-1][0] + 1)

    def _model(self, node: str) -> PitModel:
        model = self._models.get(node)
        if model is None:
            model = self._models[node] = PitModel()
        return model

    def _break(self, happened: Break) -> None:
        if happened.event != "peer-restart":
            message = Message(happened.time, happened.interface, "", happened.event, "", 0)
            self._model(happened.node).receive(message)

    def _add_item(self, node: str, feed: str, seq: int, now: int) -> None:
        known = self.progress.get((node, feed))
        if known is None:
            if len(self.progress) >= MOST_PAIRS:
                return
            known = self.progress[node, feed] = Progress(seq)
            self.newest[node, feed] = {}
        known.add(seq)
        self.newest[node, feed][self.slices.slice_of(now)] = known.newest

    def _join(self, row: Row) -> Row | None:
        """Add a fragment; return its message if complete, as analysis.tables.reassembly builds it."""
        past = sum(each.interface == row["interface"] for each in self._breaks)
        link = *map(row.__getitem__, _SENDER), past
        sequence, index, count = map(row.__getitem__, _FRAGMENT)
        parts = self._joining.add(link, sequence, index, count, row)
        if parts is None:
            return None
        whole = {**parts[0], "time": row["time"], "frame": row["frame"]}
        return whole if whole["kind"] in MESSAGES else None

    def _settle(self, now: int) -> None:
        """Record the changes of all tables up to a time."""
        streams = []
        for node, model in self._models.items():
            model.advance(now)
            streams.append([(step.time, node, State(*step[1:5])) for step in model.take_steps()])
        changes = sorted(chain(self._held, *streams), key=itemgetter(0))
        done = bisect_right(changes, now - 1, key=itemgetter(0))
        self._held = changes[done:]
        at = 0
        changed: set[str] = set()
        for time, node, change in changes[:done]:
            if time != at:
                self._note(at, changed)
                at = time
            for name in (node, ALL):
                before = self._state.get(name, NOTHING)
                # A slice begins with the state before it.
                self.pit.setdefault(name, {}).setdefault(self.slices.slice_of(time), (before, before))
                self._state[name] = State(*map(add, before, change))
                changed.add(name)
        self._note(at, changed)

    def _note(self, time: int, changed: set[str]) -> None:
        """Record the state after all changes of one time."""
        for name in changed:
            place = self.slices.slice_of(time)
            state = self._state[name]
            most, _ = self.pit[name][place]
            self.pit[name][place] = _most(most, state), state
            self.peaks[name] = _most(self.peaks.get(name, NOTHING), state)
        changed.clear()

    def _extend(self, first: int, last: int) -> None:
        self.slices.begin(first)
        before = self.slices.width
        if not self.slices.widen_to(last):
            return
        wider = self.slices.width // before
        loads: dict[tuple[str, str | None, str, int], tuple[int, int]] = defaultdict(lambda: (0, 0))
        for (interface, direction, kind, place), (frames, size) in self.loads.items():
            key = interface, direction, kind, place // wider
            loads[key] = loads[key][0] + frames, loads[key][1] + size
        self.loads = dict(loads)
        for name, kept in self.pit.items():
            self.pit[name] = {}
            for place, (most, end) in sorted(kept.items()):
                earlier, _ = self.pit[name].get(place // wider, (NOTHING, NOTHING))
                self.pit[name][place // wider] = _most(earlier, most), end
        for pair, series in self.newest.items():
            self.newest[pair] = {place // wider: seq for place, seq in sorted(series.items())}


def _most(one: State, other: State) -> State:
    return State(*map(max, one, other))


def _can_follow(row: Row) -> bool:
    """Return whether a message has all fields that the model needs; truncated ones may not."""
    if row["kind"] in NOTICES:
        return True
    needed = ["name", "name_length"]
    if row["kind"] in ("interest", "lli"):
        needed.append("lifetime_ns")
    if row["kind"] == "lli":
        needed += ["feed", "seq", "send_credit"]
    return all(row[name] is not None for name in needed)
