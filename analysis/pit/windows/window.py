"""A window of a node's packets as numbers: its plain rows, and the rows for the careful model."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analysis.columns.answers import CAN_BE_PREFIX, KEYS, copied, keys_of, satisfied
from analysis.columns.arrays import encoded, numbers, values
from analysis.packet_schema import FORK, MESSAGES, NOTICES
from analysis.pit.entry import Message
from analysis.pit.model import PitModel
from analysis.pit.windows.vector import MOST_LIFETIME, MOST_ROWS, Rows
from captures.formats.records import Flags, Ints

COLUMNS = ("frame", *Message._fields)
"""The required columns of packets."""

WINDOW = 1 << 19
"""Rows of a window."""

_TEXTS = ("interface", "direction", "kind", "name", "feed")
_KINDS = (*MESSAGES, *NOTICES)
_INTEREST, _LLI, _DATA, _NACK, _STATE, _HELLO = range(len(_KINDS))


class Window:
    """Rows processed together as numbers, the carried ones first."""

    def __init__(self, table: pa.Table, carried: int, model: PitModel) -> None:
        self.carried = carried
        texts = {name: encoded(table[name]) for name in _TEXTS}
        arrays = [texts[name] if name in texts else table[name] for name in COLUMNS]
        self.table = pa.Table.from_arrays(arrays, names=COLUMNS)
        self._codes = {name: numbers(text) for name, text in texts.items()}
        kinds = texts["kind"].dictionary.to_pylist()
        self._kind = _looked_up(
            [_KINDS.index(kind) if kind in _KINDS else -1 for kind in kinds], self._codes["kind"]
        )
        ways = texts["direction"].dictionary.to_pylist()
        way = _looked_up([int(text == "in") for text in ways], self._codes["direction"])
        asks = (self._kind == _INTEREST) | (self._kind == _LLI)
        self._is_in = (way == 1) | ((way == -1) & asks)
        dropped = asks & self._is_in & (values(table["hop_limit"], -1) == 0)
        # A packet cut by the capture may lack required fields.
        lacks = np.where(self._kind == _STATE, self._codes["feed"] < 0, self._codes["name"] < 0)
        self._kind[dropped | (lacks & (self._kind != _HELLO))] = -1
        self._length = values(table["name_length"], 0)
        self._time = values(table["time"], 0)
        self._lifetime = values(table["lifetime_ns"], MOST_LIFETIME)
        self._nonce = values(table["nonce"], -1)
        self._seq = values(table["seq"], -1)
        self._credit = values(table["send_credit"], -1)
        self._feeds = texts["feed"].dictionary
        self._feed_names = self._feeds.to_pylist()
        self._interfaces = [*texts["interface"].dictionary.to_pylist(), None]
        self._is_evident = table["evidence"].is_valid().to_numpy()
        self._has_hellos = bool((self._kind == _HELLO).any())
        self._has_proofs = False
        pending = model.pending_keys
        self.names, known = _extended(texts["name"].dictionary, [name for name, _, _ in pending])
        flags = (values(table[name], 0) == 1 for name in ("can_be_prefix", "must_be_fresh"))
        self._key = keys_of(self._codes["name"], *flags)
        self._careful = np.zeros(KEYS * len(self.names), bool)
        self.mark(keys_of(known, *np.array([key[1:] for key in pending], bool).reshape(-1, 2).T))
        self._mark_odd(values(table["is_persistent"], 0) == 1)
        followed = self._followed(model)
        self._match(followed)
        self._shown = self._shown_to_model(followed)

    def _mark_odd(self, is_persistent: Flags) -> None:
        """Mark the keys of Interests and Nacks that are not plain."""
        interest = self._kind == _INTEREST
        odd = is_persistent | (self._lifetime >= MOST_LIFETIME) | (self._lifetime < 0)
        odd |= self._nonce >= 1 << 32
        self.mark(self._key[(interest & odd) | ((self._kind == _NACK) & (self._credit < 0))])

    def _followed(self, model: PitModel) -> Flags:
        """Return which feeds have LLIs; the last flag is that of no feed."""
        feed = self._codes["feed"]
        followed = np.zeros(len(self._feeds) + 1, bool)
        followed[feed[(self._kind == _LLI) & (feed >= 0)]] = True
        known = model.feed_names
        if known:
            followed[numbers(pc.index_in(pa.array(known, pa.string()), self._feeds).drop_null())] = True
        followed[-1] = False
        return followed

    def _match(self, followed: Flags) -> None:
        """Find the entries that the Data may satisfy, as pairs of a name and a key."""
        pending = self._careful.copy()  # keys of the model's own entries
        asks, self._data = self._kind == _INTEREST, np.flatnonzero(self._kind == _DATA)
        pending[self._key[asks]] = True
        rows_of = np.bincount(self._codes["name"][self._data], minlength=len(self.names))
        self._pair_names, self._pair_keys = satisfied(self.names, np.flatnonzero(rows_of), pending)
        # Data are a row for each entry that they may satisfy. If these are too many, the model takes them.
        if int(asks.sum()) + int(rows_of[self._pair_names].sum()) > max(len(self._kind), MOST_ROWS):
            several = np.bincount(self._pair_names, minlength=len(self.names)) > 1
            self.mark(self._pair_keys[several[self._pair_names]])

        # An item that answers a classic Interest was not pushed.
        items = self._data[followed[self._codes["feed"][self._data]]]
        pushed = np.zeros(len(self.names), bool)
        pushed[self._codes["name"][items]] = True
        self.mark(self._pair_keys[pushed[self._pair_names]])

    def _shown_to_model(self, followed: Flags) -> Flags:
        """Return which rows the model takes whatever their keys are."""
        kind, name, feed = self._kind, self._codes["name"], self._codes["feed"]
        shown = (kind == _LLI) | (kind == _HELLO) | ((kind == _NACK) & (self._credit >= 0))
        is_data = kind == _DATA
        if followed.any():
            shown |= (is_data | (kind == _STATE)) & followed[feed]
            proofs = pc.match_substring(self.names, FORK).to_numpy(zero_copy_only=False)
            self._has_proofs = bool(proofs.any())
            shown |= is_data & np.append(proofs, False)[name]
        flags: Flags = shown
        return flags

    def mark(self, keys: Ints) -> None:
        """Leave keys to the model."""
        self._careful[keys] = True

    def is_careful(self, keys: Ints) -> Flags:
        """Return which keys are left to the model."""
        found: Flags = self._careful[keys]
        return found

    def careful_rows(self) -> Ints:
        """Return the indices of the model's rows, in order."""
        return np.flatnonzero(self._concerns_model() | self._shown)

    def _concerns_model(self) -> Flags:
        """Return which Interests, Nacks and Data concern keys left to the model."""
        kind = self._kind
        found = np.zeros(len(kind), bool)
        if self._careful.any():
            keyed = np.flatnonzero((kind == _INTEREST) | (kind == _NACK))
            found[keyed] = self._careful[self._key[keyed]]
            is_careful = np.zeros(len(self.names), bool)
            is_careful[self._pair_names[self._careful[self._pair_keys]]] = True
            found[self._data] = is_careful[self._codes["name"][self._data]]
        return found

    def split(self, rows: Ints) -> tuple[Ints, Ints]:
        """Split the model's rows into those in order of time, and those that concern only their feed, in the
        order of feeds."""
        kind, feed = self._kind[rows], self._codes["feed"][rows]
        is_own = (kind != _INTEREST) & (feed >= 0) & ((self._seq[rows] >= 0) | (kind == _STATE))
        alone = is_own & ((kind != _DATA) | ~self._concerns_model()[rows])
        alone &= (kind != _NACK) | (self._credit[rows] >= 0)
        # A feed with other packets, such as the proof of a fork, is followed in order.
        mixed = np.zeros(len(self._feeds) + 1, bool)
        mixed[feed[is_own & ~alone]] = True
        if self._has_proofs or self._has_hellos:
            mixed[:] = True
        alone &= ~mixed[feed]
        own = rows[alone]
        return rows[~alone], own[np.argsort(self._codes["feed"][own], kind="stable")]

    def feed(self, rows: Ints) -> Ints:
        """Return the numbers of rows' feeds."""
        return self._codes["feed"][rows]

    def is_item(self, rows: Ints) -> Flags:
        """Return which rows are items."""
        found: Flags = self._kind[rows] == _DATA
        return found

    def items(self, rows: Ints) -> tuple[str, Ints, Flags, Ints, Ints, Flags, list[str | None]]:
        """Return the model's fields of some items of one feed."""
        name = self._feed_names[int(self._codes["feed"][rows[0]])]
        interfaces = self._codes["interface"][rows]
        evident = self._is_evident[rows]
        return (
            name,
            self._time[rows],
            self._is_in[rows],
            interfaces,
            self._seq[rows],
            evident,
            self._interfaces,
        )

    def plain_rows(self) -> Rows:
        """Return the Interests and Data of plain keys, in the order of their keys."""
        asking = np.flatnonzero(self._kind == _INTEREST)
        asking = asking[~self._careful[self._key[asking]]]
        place, key = self._rows_of_data()
        is_plain = self._is_in[place] | self._is_requested(key, self._codes["interface"][place])
        key = np.concatenate([self._key[asking], key[is_plain]])
        order = np.sort((key << 32) | np.concatenate([asking, place[is_plain]]))
        key, place = order >> 32, order & 0xFFFF_FFFF
        asks = self._kind[place] == _INTEREST
        return Rows(
            place,
            key,
            self._length[place],
            self._time[place],
            asks,
            self._is_in[place],
            self._codes["interface"][place] + 1,
            np.where(asks, self._lifetime[place], 0),
            self._nonce[place],
            place >= self.carried,
        )

    def _rows_of_data(self) -> tuple[Ints, Ints]:
        """Return the rows of Data, once for each plain key that they satisfy, and these keys."""
        is_plain = ~self._careful[self._pair_keys]
        keys = self._pair_keys[is_plain]
        place, keys = copied(self._codes["name"][self._data], self._pair_names[is_plain], keys)
        return self._data[place], keys

    def _is_requested(self, keys: Ints, interfaces: Ints) -> Flags:
        """Return for keys with CanBePrefix whether an interface has requested them; for others, true.

        Data sent to another interface answer another name, and with CanBePrefix there are many.
        """
        count = len(self._interfaces)
        found = np.ones(len(keys), bool)
        some = np.flatnonzero(keys & CAN_BE_PREFIX)
        if len(some):
            asks = np.flatnonzero((self._kind == _INTEREST) & self._is_in & (self._key & CAN_BE_PREFIX > 0))
            asked = self._key[asks] * count + self._codes["interface"][asks]
            found[some] = np.isin(keys[some] * count + interfaces[some], asked)
        return found


def messages(rows: pa.Table) -> list[Message]:
    """Return rows as the careful model's messages."""
    columns = [rows[name].to_pylist() for name in COLUMNS[1:]]
    return [Message(*values) for values in zip(*columns, strict=True)]


def _looked_up(values: Sequence[int], codes: Ints) -> Ints:
    """Return the value of each code; -1 for code -1."""
    found: Ints = np.append(np.array(values, np.int64), -1)[codes]
    return found


def _extended(names: pa.Array, more: list[str]) -> tuple[pa.Array, Ints]:
    """Merge names; return the union and the index of each of `more`."""
    if not more:
        return names, np.zeros(0, np.int64)
    added = pa.array(more, pa.string())
    there = pc.is_in(added, names)
    names = pa.concat_arrays([names, added.filter(pc.invert(there)).unique()])
    return names, numbers(pc.index_in(added, names))
