"""A window of a node's packets as numbers: what is plain in it, and what the careful model is to be shown."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analysis.elements import Flags, Ints
from analysis.pit.entry import Message
from analysis.pit.model import PitModel
from analysis.pit.vector import MOST_LIFETIME, Rows
from analysis.schema import MESSAGES

COLUMNS = ("frame", *(name for name in Message._fields if name != "nack_reason"))
"""The columns of packets that are needed."""

_TEXTS = ("interface", "direction", "kind", "name", "feed")
_INTEREST, _LLI, _DATA, _NACK = range(len(MESSAGES))
_DIGEST, _FORK = "/sha256digest=", "/32=fork/seq="
_FEW = 32


class Window:
    """Rows that are looked at together, the first of them carried, as numbers."""

    def __init__(self, table: pa.Table, carried: int, model: PitModel) -> None:
        self.carried = carried
        texts = {name: _encoded(table[name]) for name in _TEXTS}
        arrays = [texts[name] if name in texts else table[name] for name in COLUMNS]
        self.table = pa.Table.from_arrays(arrays, names=COLUMNS)
        self._codes = {name: _numbers(text) for name, text in texts.items()}
        kinds = texts["kind"].dictionary.to_pylist()
        self._kind = _looked_up(
            [MESSAGES.index(kind) if kind in MESSAGES else -1 for kind in kinds], self._codes["kind"]
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
        self._seq = _values(table["seq"], -1)
        self._credit = _values(table["send_credit"], -1)
        self._feed_names = self._feeds.to_pylist()
        self._interfaces = [*texts["interface"].dictionary.to_pylist(), None]
        self._has_proofs = False
        self._is_loose = np.zeros(len(self.names) + 1, bool)
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
        self.mark(name[(kind == _NACK) & (self._credit < 0)])
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
        shown = llis | ((kind == _NACK) & (self._credit >= 0))
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
            self._has_proofs = bool(proofs.any())
            shown |= is_data & np.append(proofs, False)[name]
        if self._loose:
            self._is_loose = _under(self.names, self._loose)
            shown |= is_data & self._is_loose[name]
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

    def split(self, rows: Ints) -> tuple[Ints, Ints]:
        """Part rows for the model into those to be shown in order of time, and those that concern nothing but
        their feed, which are put in the order of feeds."""
        kind, feed = self._kind[rows], self._codes["feed"][rows]
        is_own = (kind != _INTEREST) & (feed >= 0) & (self._seq[rows] >= 0)
        alone = is_own & ((kind != _DATA) | ~self._careful[self._codes["name"][rows]])
        alone &= (kind != _DATA) | ~self._is_loose[self._codes["name"][rows]]
        alone &= (kind != _NACK) | (self._credit[rows] >= 0)
        # A feed of which something else is told, such as the proof of a fork, is followed in order.
        mixed = np.zeros(len(self._feeds) + 1, bool)
        mixed[feed[is_own & ~alone]] = True
        if self._has_proofs:
            mixed[:] = True
        alone &= ~mixed[feed]
        own = rows[alone]
        return rows[~alone], own[np.argsort(self._codes["feed"][own], kind="stable")]

    def feed(self, rows: Ints) -> Ints:
        """Return the numbers of rows' feeds."""
        return self._codes["feed"][rows]

    def is_item(self, rows: Ints) -> Flags:
        """Tell which rows are items."""
        found: Flags = self._kind[rows] == _DATA
        return found

    def items(self, rows: Ints) -> tuple[str, Ints, Flags, Ints, Ints, list[str | None]]:
        """Return what the model needs of some items of one feed."""
        name = self._feed_names[int(self._codes["feed"][rows[0]])]
        interfaces = self._codes["interface"][rows]
        return name, self._time[rows], self._is_in[rows], interfaces, self._seq[rows], self._interfaces

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


def messages(rows: pa.Table) -> list[Message]:
    """Return rows as the careful model wants them."""
    columns = [rows[name].to_pylist() for name in COLUMNS[1:]]
    return [Message(*values) for values in zip(*columns, strict=True)]


def _encoded(column: pa.ChunkedArray) -> pa.DictionaryArray:
    """Return texts as one dictionary array, each text in its dictionary once."""
    whole = column.unify_dictionaries().combine_chunks()
    if isinstance(whole, pa.ChunkedArray):  # no chunk at all
        return pa.DictionaryArray.from_arrays(pa.array([], pa.int32()), pa.array([], pa.string()))
    return whole


def coded(table: pa.Table) -> pa.Table:
    """Return a table with its texts as dictionaries."""
    arrays = [
        pc.dictionary_encode(column) if pa.types.is_string(column.type) else column
        for column in table.columns
    ]
    return pa.Table.from_arrays(arrays, names=table.column_names)


def compact(table: pa.Table) -> pa.Table:
    """Return a table whose dictionaries hold nothing else."""
    arrays = [
        pc.cast(column, pa.string()) if pa.types.is_dictionary(column.type) else column
        for column in table.columns
    ]
    return coded(pa.Table.from_arrays(arrays, names=table.column_names))


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
