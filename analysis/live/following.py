"""Follows a growing capture: counts frames, follows the PIT of every node and the progress of feeds.

A Following is the state of a stateful operator of Spark (analysis.live.stream), which gives it each batch
of a stream, and stores it. Event time is that of the packets. Packets of a capture of several interfaces may
be slightly out of order, and a batch may end between them; so the watermark of a capture is LATENESS_NS
before its last packet. Packets are followed in the order of time up to the watermark; later ones are kept,
and followed on trial: at all times the figures are those of a capture that has ended. A packet that
comes after the watermark has passed it counts as one of the watermark's time; none is dropped.

Spark's own watermark would be one of all captures of a query, but each has its own clock: those of emulated
runs all begin at 0. It would also drop packets, which the report counts.

Fragmented messages are followed once complete; TCP streams are not reassembled.
"""

import pickle
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

import numpy as np

from analysis.columns.values import ALL
from analysis.live.cells import NOTHING, Cell, Cells, Slices, as_text, most_of
from analysis.packet_schema import MESSAGES, NOTICES
from analysis.pit.entry import Message, State
from analysis.pit.model import PitModel
from captures.layers.reassembly import Reassembler

LATENESS_NS = 100_000_000
MOST_PAIRS = 4000
"""Maximum number of (node, feed) pairs with progress."""

_MOST_JOINING = 4096


class Break(NamedTuple):
    """A row of analysis.run.context.BREAKS, without its layering."""

    time: int
    node: str
    interface: str
    event: str


class Part(NamedTuple):
    """A fragment's place: its sender, and NDNLPv2's fields."""

    sender: tuple[Any, ...]
    sequence: int | None
    place: int
    parts: int


class Told(NamedTuple):
    """A whole message, or a fragment: its place in the capture, and what is in it."""

    time: int
    frame: int
    node: str
    message: Message
    part: Part | None = None


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


class Following:
    """A capture followed so far. `breaks`: events of nodes and links, in order of time, on its clock."""

    def __init__(self, breaks: Iterable[Break] = ()) -> None:
        self._slices = Slices()
        self._frames = self._bytes = self._left_out = 0
        self._first: int | None = None
        self._last = 0
        self._settled = 0  # the time up to which all is followed
        self._early: list[Told] = []  # later than the watermark
        self._breaks = list(breaks)
        self._models: dict[str, PitModel] = {}
        self._state: dict[str, State] = {}
        self._peaks: dict[str, State] = {}
        self._progress: dict[tuple[str, str], Progress] = {}
        self._joining: Reassembler[Told] = Reassembler(_MOST_JOINING, once=True)

    def count(self, rows: Sequence[Mapping[str, Any]], cells: Cells) -> None:
        """Add rows of analysis.live.stream.COUNTS."""
        if not rows:
            return
        first = min(row["first"] for row in rows)
        self._first = first if self._first is None else min(first, self._first)
        self._last = max(self._last, *(row["last"] for row in rows))
        wider = self._slices.extend(self._first, self._last)
        if wider > 1:
            cells.widen(wider)
        for row in rows:
            self._frames += row["frames"]
            self._bytes += row["bytes"]
            key = row["interface"], row["direction"], row["kind"]
            cells[self._slices.slice_of(row["first"])].count(key, row["frames"], row["bytes"])

    def follow(self, messages: Iterable[Told], cells: Cells) -> None:
        """Follow messages up to the watermark, and keep the others."""
        watermark = self._last - LATENESS_NS
        ordered = sorted([*self._early, *messages], key=attrgetter("time", "frame"))
        whole = bisect_right(ordered, watermark, key=attrgetter("time"))
        self._early = ordered[whole:]
        self._follow(ordered[:whole], watermark, cells)

    def on_trial(self, cells: Cells) -> str:
        """Follow the others, too, as if the capture had ended, and return what is told of it, with the cells
        that so differ. This Following must not be used any more."""
        self._follow(self._early, self._early[-1].time if self._early else self._settled, cells)
        return as_text(
            origin=self._slices.origin,
            width=self._slices.width,
            frames=self._frames,
            bytes=self._bytes,
            first=self._first,
            last=self._last,
            left_out=self._left_out,
            peaks=self._peaks,
            progress=[[*pair, each.newest, each.missing] for pair, each in self._progress.items()],
            cells=cells.texts(),
        )

    def _follow(self, messages: Iterable[Told], until: int, cells: Cells) -> None:
        """Follow messages in order, and note the changes of all tables up to a time."""
        for each in messages:
            whole = self._join(each) if each.part else each
            if whole is None:
                continue
            now = max(whole.time, self._settled)
            message = whole.message if whole.message.time == now else whole.message._replace(time=now)
            self._break_until(now)
            if _can_follow(message):
                self._model(whole.node).receive(message)
            else:
                self._left_out += 1
            if message.kind == "data" and message.feed is not None and message.seq is not None:
                self._add_item(whole.node, message.feed, message.seq, cells[self._slices.slice_of(now)])
        self._settle(until, cells)

    def _model(self, node: str) -> PitModel:
        model = self._models.get(node)
        if model is None:
            model = self._models[node] = PitModel()
        return model

    def _break_until(self, now: int) -> None:
        while self._breaks and self._breaks[0].time <= now:
            happened = self._breaks.pop(0)
            if happened.event != "peer-restart":
                message = Message(happened.time, happened.interface, "", happened.event, "", 0)
                self._model(happened.node).receive(message)

    def _add_item(self, node: str, feed: str, seq: int, cell: Cell) -> None:
        known = self._progress.get((node, feed))
        if known is None:
            if len(self._progress) >= MOST_PAIRS:
                return
            known = self._progress[node, feed] = Progress(seq)
        known.add(seq)
        cell.newest[node, feed] = known.newest

    def _join(self, one: Told) -> Told | None:
        """Add a fragment; return its message if complete, as analysis.tables.reassembly builds it."""
        assert one.part is not None
        sender, sequence, place, count = one.part
        past = sum(each.interface == one.message.interface for each in self._breaks)
        parts = self._joining.add((one.node, sender, past), sequence, place, count, one)
        if parts is None or parts[0].message.kind not in MESSAGES:
            return None
        return one._replace(message=parts[0].message)

    def _settle(self, until: int, cells: Cells) -> None:
        """Record the changes of all tables up to a time, by which all their packets have come."""
        self._settled = max(self._settled, until)
        every = []
        for node, model in self._models.items():
            model.advance(self._settled)
            if steps := model.take_steps():
                # Python's numbers: a capture may tell of any credit.
                changes = np.array([step[:5] for step in steps], object)
                self._record(node, changes, cells)
                every.append(changes)
        if every:
            merged = np.concatenate(every)
            self._record(ALL, merged[np.argsort(merged[:, 0].astype(np.int64), kind="stable")], cells)

    def _record(self, name: str, changes: np.ndarray[Any, Any], cells: Cells) -> None:
        """Record the states after changes, rows of time and State in order of time."""
        state = self._state.get(name, NOTHING)
        times = changes[:, 0].astype(np.int64)
        states = np.array(state, object) + np.cumsum(changes[:, 1:], axis=0)
        lasted = np.append(times[1:] != times[:-1], True)  # changes of one time are one change
        times, states = times[lasted], states[lasted]
        places = self._slices.slices_of(times)
        first = np.flatnonzero(np.diff(places, prepend=-1))
        most = map(State._make, np.maximum.reduceat(states, first).tolist())
        ends = map(State._make, states[np.append(first[1:], len(states)) - 1].tolist())
        for place, peak, end in zip(places[first].tolist(), most, ends, strict=True):
            # A slice begins with the state before it.
            known, _ = cells[place].pit.get(name, (state, state))
            cells[place].pit[name] = most_of(known, peak), end
            self._peaks[name] = most_of(self._peaks.get(name, NOTHING), peak)
            state = end
        self._state[name] = state


class Step(NamedTuple):
    """What a batch leads to.

    following: the state, to be kept. cells: those that changed, all of them if `is_anew`. overview: what else
    is told, as LiveCapture takes it.
    """

    following: bytes
    cells: dict[int, str]
    is_anew: bool
    overview: str


def step(
    following: bytes | None,
    breaks: Sequence[Break],
    counts: Sequence[Mapping[str, Any]],
    messages: Iterable[Told],
    read: Callable[[int], str | None],
) -> Step:
    """Follow a batch of a capture; `following` is the last one's, `read` returns the cell of a slice, if
    there is one."""
    capture: Following = Following(breaks) if following is None else pickle.loads(following)
    cells = Cells(read)
    capture.count(counts, cells)
    capture.follow(messages, cells)
    texts, kept = cells.texts(), pickle.dumps(capture, pickle.HIGHEST_PROTOCOL)
    on_trial = Cells(lambda place: texts[place] if place in texts else None if cells.is_anew else read(place))
    return Step(kept, texts, cells.is_anew, capture.on_trial(on_trial))


def _can_follow(message: Message) -> bool:
    """Return whether a message has all fields that the model needs; truncated ones may not."""
    if message.kind in NOTICES:
        return True
    needed = [message.name, message.name_length]
    if message.kind in ("interest", "lli"):
        needed.append(message.lifetime_ns)
    if message.kind == "lli":
        needed += [message.feed, message.seq, message.send_credit]
    return None not in needed
