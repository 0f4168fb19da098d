"""A node's PIT from its packets, a window at a time: a vectorised analysis/pit/model.py.

Theory of operation. Classic entries of different keys are independent, and almost all are plain: Interests,
then Data or nothing. numpy cuts these out of a window (analysis/pit/windows/vector.py), after finding the
Data that may satisfy them (analysis/columns/answers.py). The rest goes to the careful model, key by key and
in order of time: Nacks, persistent Interests, loops, LLIs, and the items of feeds with LLIs.
tests/analysis/test_pit_scan.py checks both against each other.

Plain entries open at a window's end are carried to the next one as rows. If something unusual then happens to
such a key, the rows are replayed to the model, whose results for them are dropped. Memory is bounded by a
window and the open entries.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from analysis.columns.arrays import compact, with_codes
from analysis.pit.entry import Interval, Message
from analysis.pit.hellos import may_change
from analysis.pit.model import PitModel
from analysis.pit.windows.results import (
    INTERVALS,
    STEPS,
    columns_of,
    intervals_of,
    merged,
    steps_of,
    table_of,
)
from analysis.pit.windows.vector import MOST_ROWS, cut
from analysis.pit.windows.window import COLUMNS, Window, messages
from captures.formats.records import Ints


class Ended(NamedTuple):
    """Ended entries, as INTERVALS, and changes of the table in order of time, as STEPS."""

    intervals: pa.Table
    steps: pa.Table


class PitScan:
    """The PIT of one node, derived from windows of its packets.

    push() takes the next window, a table of COLUMNS in order of (time, frame) that begins at the end of the
    one before; finish() ends the table. Both return what has ended by then. `breaks` are restarts and links
    that go down: a table of time, interface and kind.
    """

    def __init__(self, breaks: pa.Table | None = None) -> None:
        self._model = PitModel()
        self._breaks = [] if breaks is None else breaks.sort_by("time").to_pylist()[::-1]
        self._carried: pa.Table | None = None
        self._held: pa.Table | None = None
        self._last: int | None = None
        self._parts: list[Ended] = []
        self._counted = {"satisfied": 0, "expired": 0}  # plain entries, since the node's start

    def push(self, window: pa.Table) -> Ended:
        """Process the next window."""
        if not len(window):
            return self._take()
        self._last = window["time"][-1].as_py()
        window = _without_greetings(with_codes(window.select(COLUMNS)))
        if self._held is not None:
            window = pa.concat_tables([self._held, window])
        times = window["time"].to_numpy()
        # Packets of the last time may continue in the next window.
        whole = int(np.searchsorted(times, self._last))
        self._held = compact(window.slice(whole))
        self._process(window.slice(0, whole), times[:whole], self._last - 1)
        return self._take()

    def finish(self, end: int | None = None) -> Ended:
        """End the table at `end` (ns), with the last packet if that is later or `end` is None."""
        if self._held is not None and self._last is not None:
            end = max(self._last, self._last if end is None else end)
            self._process(self._held, self._held["time"].to_numpy(), end)
        self._to_model()
        if end is not None:
            self._break_until(end)
        self._note(self._model.finish(end))
        self._carried = self._held = None
        return self._take()

    def _process(self, rows: pa.Table, times: Ints, until: int) -> None:
        """Process the next rows, up to and including the time `until`."""
        # A Hello concerns all feeds of its link: packets of its time are processed in order.
        greeted = np.unique(times[rows["hello"].is_valid().to_numpy()])
        broken = [row["time"] for row in self._breaks if row["time"] <= until]
        place = 0
        for now in sorted({*greeted.tolist(), *broken}):
            stop, after = np.searchsorted(times, (now, now + 1)).tolist()
            self._take_many(rows.slice(place, stop - place), times[place:stop], now)
            self._break_until(now)
            if now in greeted:
                self._take_rows(rows.slice(stop, after - stop), now)
                stop = after
            place = stop
        self._take_many(rows.slice(place), times[place:], until)

    def _take_many(self, rows: pa.Table, times: Ints, until: int) -> None:
        """Process rows, at most MOST_ROWS at a time."""
        place = 0
        while len(rows) - place > MOST_ROWS:
            stop = int(np.searchsorted(times, times[place + MOST_ROWS - 1]))
            if stop <= place:
                break
            self._take_rows(rows.slice(place, stop - place), int(times[stop]) - 1)
            place = stop
        self._take_rows(rows.slice(place), until)

    def _break_until(self, now: int) -> None:
        if self._breaks and self._breaks[-1]["time"] <= now:
            self._to_model()
            while self._breaks and self._breaks[-1]["time"] <= now:
                row = self._breaks.pop()
                if row["kind"] == "restart":
                    self._restart(now)
                self._note(
                    self._model.receive(Message(row["time"], row["interface"], "", row["kind"], "", 0))
                )

    def _restart(self, now: int) -> None:
        """Reset the counters, as the model does with its own."""
        anew = {name: np.array([-count]) for name, count in self._counted.items()}
        self._counted = dict.fromkeys(self._counted, 0)
        self._parts.append(Ended(INTERVALS.empty_table(), merged([(np.array([now]), anew)])))

    def _to_model(self) -> None:
        """Pass all open entries to the model."""
        if self._carried is not None:
            self._replay(self._carried)
            self._carried = None

    def _replay(self, rows: pa.Table) -> None:
        """Replay reported rows to the model."""
        if len(rows):
            for message in messages(rows):
                self._model.receive(message)
            self._model.take_steps()

    def _note(self, ended: Sequence[Interval]) -> None:
        intervals, steps = table_of(ended, INTERVALS), table_of(self._model.take_steps(), STEPS)
        if len(intervals) or len(steps):
            self._parts.append(Ended(intervals, steps))

    def _take(self) -> Ended:
        parts, self._parts = self._parts, []
        if len(parts) == 1:
            return parts[0]
        return Ended(
            pa.concat_tables([INTERVALS.empty_table(), *(part.intervals for part in parts)]),
            pa.concat_tables([STEPS.empty_table(), *(part.steps for part in parts)]),
        )

    def _take_rows(self, rows: pa.Table, until: int) -> None:
        carried = 0 if self._carried is None else len(self._carried)
        if carried + len(rows) > 2 * MOST_ROWS:
            self._to_model()
            carried = 0
        if self._carried is not None:
            rows = pa.concat_tables([self._carried, rows])
        if not len(rows):
            self._note(self._model.advance(until))
            return
        window = Window(rows, carried, self._model)
        plain = window.plain_rows()
        episodes = cut(plain, until)
        if episodes.odd.any():
            window.mark(plain.key[episodes.starts[episodes.odd]])
            episodes.leave_out(window.is_careful(plain.key[episodes.starts]))
        careful = window.careful_rows()
        self._replay(window.table.take(careful[careful < carried]))
        ended: list[Interval] = []
        in_order, by_feed = window.split(careful[careful >= carried])
        spent = self._follow_feeds(window, by_feed, ended)
        for message in messages(window.table.take(in_order)):
            ended += self._model.receive(message)
        ended += self._model.advance(until)
        left = episodes.real & ~episodes.ended
        kept = np.sort(plain.place[left[episodes.of_row]])
        self._carried = compact(window.table.take(kept)) if len(kept) else None
        changes = steps_of(plain, episodes)
        for name in self._counted:
            self._counted[name] += int(changes[1][name].sum())
        found = Ended(
            pa.concat_tables([table_of(ended, INTERVALS), intervals_of(window.names, plain, episodes)]),
            merged(
                [columns_of(self._model.take_steps()), (spent, {"credit": -np.ones_like(spent)}), changes]
            ),
        )
        if len(found.intervals) or len(found.steps):
            self._parts.append(found)

    def _follow_feeds(self, window: Window, rows: Ints, ended: list[Interval]) -> Ints:
        """Pass rows that concern feeds only to the model, in order of feed; return the times at which the
        items processed together used credit."""
        spent = [rows[:0]]
        feed, is_item = window.feed(rows), window.is_item(rows)
        differs = (feed[1:] != feed[:-1]) | ~is_item[1:] | ~is_item[:-1]
        cuts = np.flatnonzero(np.concatenate([[True], differs, [True]])) if len(rows) else rows
        others = iter(messages(window.table.take(rows[~is_item])))
        for low, high in pairwise(cuts.tolist()):
            if is_item[low]:
                found, times = self._model.receive_items(*window.items(rows[low:high]))
                ended += found
                spent.append(times)
            else:
                ended += self._model.receive_alone(next(others))
        return np.concatenate(spent)


def _without_greetings(rows: pa.Table) -> pa.Table:
    """Drop the Hellos that change nothing."""
    places = np.flatnonzero(rows["hello"].is_valid().to_numpy())
    if not len(places):
        return rows
    values = rows["hello"].take(pa.array(places)).to_pylist()
    keeps = np.ones(len(rows), bool)
    keeps[places] = [may_change(value) for value in values]
    return rows.filter(pa.array(keeps))
