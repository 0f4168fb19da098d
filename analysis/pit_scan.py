"""A node's PIT from its packets, a window at a time: what analysis/pit_model.py does packet by packet.

Theory of operation. Classic entries of different names are independent, and almost all of them are plain:
Interests, and then Data or nothing. These are cut out of a window by numpy (analysis/pit_vector.py). Whatever
is unusual goes to the careful model, name by name and in order of time: Nacks, CanBePrefix, digests,
persistent Interests, loops, names asked for with and without MustBeFresh; so do LLIs and the items of feeds
that have them. There is one opinion on what is odd; tests/analysis/test_pit_scan.py holds both against each
other.

Plain entries that are open when a window ends are carried to the next one as rows. If then something unusual
happens to such a name, the model is shown the rows again, and says nothing new about what was before. So
memory is bounded by a window and the entries that are open.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analysis.elements import Flags, Ints
from analysis.pit_entry import Interval, Message, Step
from analysis.pit_model import PitModel
from analysis.pit_vector import MOST_LIFETIME, MOST_ROWS, Episodes, Rows, cut
from analysis.stages import PIT_INTERVALS

COLUMNS = ("frame", *(name for name in Message._fields if name != "nack_reason"))
"""The columns of packets that are needed."""

INTERVALS = pa.schema([PIT_INTERVALS.arrow.field(name) for name in Interval._fields])
STEPS = pa.schema([(name, pa.int64()) for name in Step._fields])

_TEXTS = ("interface", "direction", "kind", "name", "feed")
_KINDS = ("interest", "lli", "data", "nack")
_INTEREST, _LLI, _DATA, _NACK = range(4)
_DIGEST, _FORK = "/sha256digest=", "/32=fork/seq="
_FEW = 32


class Ended(NamedTuple):
    """Entries that have ended, as INTERVALS, and changes of the table in order of time, as STEPS."""

    intervals: pa.Table
    steps: pa.Table


class PitScan:
    """The PIT of one node, told from windows of its packets.

    push() takes the next window, a table of COLUMNS in order of (time, frame) that begins where the one
    before has ended; finish() ends the table. Both return what has ended by then. `breaks` are restarts and
    links that go down: a table of time, interface and kind.
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
        """Take the next window."""
        window = _coded(window.select(COLUMNS))
        if self._held is not None:
            window = pa.concat_tables([self._held, window])
        if not len(window):
            return self._take()
        times = window["time"].to_numpy()
        self._last = int(times[-1])
        # What else happens at the last moment may come with the next window.
        whole = int(np.searchsorted(times, self._last))
        self._held = window.slice(whole)
        self._process(window.slice(0, whole), times[:whole], self._last - 1)
        return self._take()

    def finish(self, end: int | None = None) -> Ended:
        """End the table at `end` (ns), with the last packet if that is later or None."""
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
        """Take the next rows, up to and including the time `until`."""
        place = 0
        while self._breaks and self._breaks[-1]["time"] <= until:
            now = self._breaks[-1]["time"]
            stop = int(np.searchsorted(times, now))
            self._take_rows(rows.slice(place, stop - place), now)
            place = stop
            self._break_until(now)
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
        """Begin to count anew, as the model does for what it has counted."""
        anew = {name: np.array([-count]) for name, count in self._counted.items()}
        self._counted = dict.fromkeys(self._counted, 0)
        self._parts.append(Ended(INTERVALS.empty_table(), _merged([(np.array([now]), anew)])))

    def _to_model(self) -> None:
        """Give all entries that are open to the model."""
        if self._carried is not None:
            self._replay(self._carried)
            self._carried = None

    def _replay(self, rows: pa.Table) -> None:
        """Show the model what has been told of already."""
        if len(rows):
            for message in _messages(rows):
                self._model.receive(message)
            self._model.take_steps()

    def _note(self, ended: Sequence[Interval]) -> None:
        intervals, steps = _table(ended, INTERVALS), _table(self._model.take_steps(), STEPS)
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
        window = _Window(rows, carried, self._model)
        plain = window.plain_rows()
        episodes = cut(plain, until)
        if episodes.odd.any():
            window.mark(plain.name[episodes.starts[episodes.odd]])
            episodes.leave_out(window.is_careful(plain.name[episodes.starts]))
        careful = window.careful_rows()
        self._replay(window.table.take(careful[careful < carried]))
        ended: list[Interval] = []
        for message in _messages(window.table.take(careful[careful >= carried])):
            ended += self._model.receive(message)
        ended += self._model.advance(until)
        left = episodes.real & ~episodes.ended
        kept = np.sort(plain.place[left[episodes.of_row]])
        self._carried = _compact(window.table.take(kept)) if len(kept) else None
        changes = _steps(plain, episodes)
        for name in self._counted:
            self._counted[name] += int(changes[1][name].sum())
        found = Ended(
            pa.concat_tables([_table(ended, INTERVALS), _intervals(window, plain, episodes)]),
            _merged([_columns(self._model.take_steps()), changes]),
        )
        if len(found.intervals) or len(found.steps):
            self._parts.append(found)


class _Window:
    """Rows that are looked at together, the first of them carried, as numbers."""

    def __init__(self, table: pa.Table, carried: int, model: PitModel) -> None:
        self.carried = carried
        texts = {name: _encoded(table[name]) for name in _TEXTS}
        arrays = [texts[name] if name in texts else table[name] for name in COLUMNS]
        self.table = pa.Table.from_arrays(arrays, names=COLUMNS)
        self._codes = {name: _numbers(text) for name, text in texts.items()}
        kinds = texts["kind"].dictionary.to_pylist()
        self._kind = _looked_up(
            [_KINDS.index(kind) if kind in _KINDS else -1 for kind in kinds], self._codes["kind"]
        )
        ways = texts["direction"].dictionary.to_pylist()
        way = _looked_up([int(text == "in") for text in ways], self._codes["direction"])
        asks = (self._kind == _INTEREST) | (self._kind == _LLI)
        self._is_in = (way == 1) | ((way == -1) & asks)
        dropped = asks & self._is_in & (_values(table["hop_limit"], -1) == 0)
        # Of a packet that the capture has cut, what is needed may be missing.
        self._kind[dropped | (self._codes["name"] < 0)] = -1
        self.names = texts["name"].dictionary
        self._feeds = texts["feed"].dictionary
        self._length = _values(table["name_length"], 0)
        self._time = _values(table["time"], 0)
        self._lifetime = _values(table["lifetime_ns"], MOST_LIFETIME)
        self._nonce = _values(table["nonce"], -1)
        self._careful = np.zeros(len(self.names) + 1, bool)
        self._find_careful(table, model)
        self._shown = self._shown_to_model(table, model)

    def _find_careful(self, table: pa.Table, model: PitModel) -> None:
        """Mark the names that are not plain."""
        name, kind = self._codes["name"], self._kind
        interest = kind == _INTEREST
        fresh = _values(table["must_be_fresh"], 0) == 1
        prefix = _values(table["can_be_prefix"], 0) == 1
        odd = prefix | (_values(table["is_persistent"], 0) == 1)
        odd |= (self._lifetime >= MOST_LIFETIME) | (self._lifetime < 0) | (self._nonce >= 1 << 32)
        self.mark(name[interest & odd])
        self.mark(name[(kind == _NACK) & (_values(table["send_credit"], -1) < 0)])
        is_fresh, is_stale = np.zeros((2, len(self._careful)), bool)
        is_fresh[name[interest & fresh]] = True
        is_stale[name[interest & ~fresh]] = True
        self._careful |= is_fresh & is_stale
        digests = np.flatnonzero(pc.match_substring(self.names, _DIGEST).to_numpy(zero_copy_only=False))
        self.mark(digests)
        pending = pa.array(model.pending_names, pa.string())
        if len(pending):
            self.mark(_numbers(pc.index_in(pending, self.names).drop_null()))
        loose = set(model.loose_names)
        loose.update(self.names.take(pa.array(np.unique(name[interest & prefix]))).to_pylist())
        asked = digests[np.isin(digests, name[interest])] if len(digests) else digests
        loose.update(each.as_py().rpartition(_DIGEST)[0] for each in self.names.take(pa.array(asked)))
        loose.update(each.rpartition(_DIGEST)[0] for each in [*loose] if _DIGEST in each)
        self._loose = loose

    def _shown_to_model(self, table: pa.Table, model: PitModel) -> Flags:
        """Tell which rows the model is shown whatever their names are."""
        kind, name, feed = self._kind, self._codes["name"], self._codes["feed"]
        llis = kind == _LLI
        shown = llis | ((kind == _NACK) & (_values(table["send_credit"], -1) >= 0))
        followed = np.zeros(len(self._feeds) + 1, bool)
        followed[feed[llis & (feed >= 0)]] = True
        known = model.feed_names
        if known:
            followed[_numbers(pc.index_in(pa.array(known, pa.string()), self._feeds).drop_null())] = True
        is_data = kind == _DATA
        if followed.any():
            followed[-1] = False
            shown |= is_data & followed[feed]
            proofs = pc.match_substring(self.names, _FORK).to_numpy(zero_copy_only=False)
            shown |= is_data & np.append(proofs, False)[name]
        if self._loose:
            shown |= is_data & _under(self.names, self._loose)[name]
        told: Flags = shown
        return told

    def mark(self, names: Ints) -> None:
        """Leave names to the model."""
        self._careful[names] = True
        self._careful[-1] = False

    def is_careful(self, names: Ints) -> Flags:
        """Tell which names are left to the model."""
        found: Flags = self._careful[names]
        return found

    def careful_rows(self) -> Ints:
        """Return the places of rows that the model is to be shown, in order."""
        of_name = self._careful[self._codes["name"]] & (self._kind >= 0) & (self._kind != _LLI)
        return np.flatnonzero(of_name | self._shown)

    def plain_rows(self) -> Rows:
        """Return the Interests and Data of plain names, in the order of their names."""
        kind, name = self._kind, self._codes["name"]
        is_plain = ((kind == _INTEREST) | (kind == _DATA)) & (name >= 0)
        if self._careful.any():
            is_plain &= ~self._careful[name]
        places = np.flatnonzero(is_plain)
        place = np.sort((name[places] << 32) | places) & 0xFFFF_FFFF
        asks = kind[place] == _INTEREST
        return Rows(
            place,
            name[place],
            self._length[place],
            self._time[place],
            asks,
            self._is_in[place],
            self._codes["interface"][place] + 1,
            np.where(asks, self._lifetime[place], 0),
            self._nonce[place],
            place >= self.carried,
        )


def _intervals(window: _Window, rows: Rows, episodes: Episodes) -> pa.Table:
    """Return the plain entries that have ended."""
    ended = np.flatnonzero(episodes.ended)
    first = episodes.starts[ended]
    zeros = pa.array(np.zeros(len(ended), np.int64))
    outcomes = pa.DictionaryArray.from_arrays(
        episodes.by_data[ended].astype(np.int8), pa.array(["expired", "satisfied"])
    )
    columns: dict[str, Any] = {
        "kind": pa.repeat("classic", len(ended)),
        "name": window.names.take(pa.array(rows.name[first])),
        "opened": rows.time[first],
        "closed": episodes.closed[ended],
        "outcome": outcomes.dictionary_decode(),
        "interests_in": episodes.interests_in[ended],
        "interests_out": episodes.interests_out[ended],
        "downstreams": episodes.downstreams[ended],
        "upstreams": episodes.upstreams[ended],
        "items_in": episodes.came_in[ended].astype(np.int64),
        "items_out": episodes.items_out[ended],
        "renewals": zeros,
        "peak_bytes": episodes.peak[ended],
        "peak_credit": zeros,
    }
    return pa.Table.from_arrays([pa.array(columns[name]) for name in INTERVALS.names], schema=INTERVALS)


_Changes = tuple[Ints, dict[str, Ints]]
"""Times in order, and what is added then to some fields of a step."""


def _steps(rows: Rows, episodes: Episodes) -> _Changes:
    """Return the changes of the table that were not told before."""
    changes = np.zeros(len(rows.time), np.int64)
    changes[episodes.starts] = episodes.real
    size = np.where(episodes.real[episodes.of_row], episodes.row_bytes, 0)
    satisfied = np.zeros(len(rows.time), np.int64)
    by_data = np.flatnonzero(episodes.by_data)
    last = np.append(episodes.starts, len(rows.time))[1:][by_data] - 1
    changes[last] = -1
    satisfied[last] = episodes.came_in[by_data]
    # Back in the order of time; what was carried has been told of.
    told = np.flatnonzero(rows.is_new & (size != 0))
    told = told[np.argsort(rows.place[told])]
    expired = np.flatnonzero(episodes.ended & ~episodes.by_data)
    gone = np.ones(len(expired), np.int64)
    none = np.zeros(len(expired), np.int64)
    return (
        np.concatenate([rows.time[told], episodes.closed[expired]]),
        {
            "entries": np.concatenate([changes[told], -gone]),
            "bytes": np.concatenate([size[told], -episodes.bytes[expired]]),
            "satisfied": np.concatenate([satisfied[told], none]),
            "expired": np.concatenate([np.zeros(len(told), np.int64), gone]),
        },
    )


def _merged(parts: Sequence[_Changes]) -> pa.Table:
    """Return STEPS from changes: one a moment, those that come to nothing left out."""
    times = np.concatenate([part[0] for part in parts])
    if not len(times):
        return STEPS.empty_table()
    order = np.argsort(times, kind="stable")
    times = times[order]
    first = np.flatnonzero(np.append(True, times[1:] != times[:-1]))
    sums = []
    for name in STEPS.names[1:]:
        if not any(name in part[1] for part in parts):
            sums.append(np.zeros(len(first), np.int64))
            continue
        values = np.concatenate([part[1].get(name, np.zeros(len(part[0]), np.int64)) for part in parts])
        sums.append(np.add.reduceat(values[order], first))
    changed = np.logical_or.reduce([each != 0 for each in sums])
    arrays = [times[first][changed], *(each[changed] for each in sums)]
    return pa.Table.from_arrays([pa.array(each) for each in arrays], schema=STEPS)


def _columns(steps: Sequence[Step]) -> _Changes:
    if not steps:
        return np.zeros(0, np.int64), {}
    times, *fields = (np.array(values, np.int64) for values in zip(*steps, strict=True))
    return times, dict(zip(STEPS.names[1:], fields, strict=True))


def _messages(rows: pa.Table) -> list[Message]:
    columns = [rows[name].to_pylist() for name in COLUMNS[1:]]
    return [Message(*values) for values in zip(*columns, strict=True)]


def _table(rows: Sequence[Interval] | Sequence[Step], schema: pa.Schema) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    return pa.Table.from_arrays(
        [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)], schema=schema
    )


def _encoded(column: pa.ChunkedArray) -> pa.DictionaryArray:
    """Return texts as one dictionary array, each text in its dictionary once."""
    whole = column.unify_dictionaries().combine_chunks()
    if isinstance(whole, pa.ChunkedArray):  # no chunk at all
        return pa.DictionaryArray.from_arrays(pa.array([], pa.int32()), pa.array([], pa.string()))
    return whole


def _coded(table: pa.Table) -> pa.Table:
    """Return a table with its texts as dictionaries."""
    arrays = [
        pc.dictionary_encode(column) if pa.types.is_string(column.type) else column
        for column in table.columns
    ]
    return pa.Table.from_arrays(arrays, names=table.column_names)


def _compact(table: pa.Table) -> pa.Table:
    """Return a table whose dictionaries hold nothing else."""
    arrays = [
        pc.cast(column, pa.string()) if pa.types.is_dictionary(column.type) else column
        for column in table.columns
    ]
    return _coded(pa.Table.from_arrays(arrays, names=table.column_names))


def _numbers(column: pa.Array) -> Ints:
    """Return the indices of a dictionary array, or plain numbers; -1 where there is none."""
    if pa.types.is_dictionary(column.type):
        column = column.indices
    numbers: Ints = np.asarray(pc.fill_null(column, -1)).astype(np.int64)
    return numbers


def _values(column: pa.ChunkedArray, missing: int) -> Ints:
    """Return numbers or flags, with something for null."""
    if pa.types.is_boolean(column.type):
        column = pc.cast(column, pa.int8())
    if column.null_count:
        column = pc.fill_null(column, missing)
    values: Ints = column.to_numpy().astype(np.int64, copy=False)
    return values


def _looked_up(values: Sequence[int], codes: Ints) -> Ints:
    """Return the value of each code; -1 for code -1."""
    found: Ints = np.append(np.array(values, np.int64), -1)[codes]
    return found


def _under(names: pa.Array, prefixes: set[str]) -> Flags:
    """Tell which names are one of some prefixes or under it, and False once more for no name."""
    if len(prefixes) <= _FEW:
        found = np.zeros(len(names) + 1, bool)
        for prefix in prefixes:
            found[:-1] |= pc.equal(names, prefix).to_numpy(zero_copy_only=False)
            below = pc.starts_with(names, prefix if prefix.endswith("/") else prefix + "/")
            found[:-1] |= below.to_numpy(zero_copy_only=False)
        return found
    return np.array([_has_prefix(name, prefixes) for name in names.to_pylist()] + [False])


def _has_prefix(name: str, prefixes: set[str]) -> bool:
    end = len(name)
    while end > 0:
        if name[:end] in prefixes:
            return True
        end = name.rfind("/", 0, end)
    return False
