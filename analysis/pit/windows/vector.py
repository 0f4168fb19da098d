"""Plain classic PIT entries, for all rows of a window at once by numpy. The rules are in
analysis/pit/model.py.

Theory of operation. Entries of different keys are independent, and no state outlives an entry. Rows are
ordered by key, then by time, and cut into episodes: Interests, each before the expiry of those before it, and
the Data that end them, if any. An episode's totals are sums over its rows. Data are repeated for each key
that they satisfy. One numpy step processes all entries of a window; the model takes some fifty times as long.

Received Data always end an episode. Data sent one after the other end one if each requesting interface gets
them once while its record lasts, and not just from the cache. A key with any other episode, or with an
Interest that could loop, is not plain: its rows are left to the careful model.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from analysis.pit.classic import RECORD_BYTES
from captures.formats.records import Flags, Ints

MOST_LIFETIME = 1 << 38
"""Lifetimes from here on (4 minutes) are not plain, ns."""

_BITS = 40
_WITHIN = (1 << _BITS) - 1
MOST_ROWS = 1 << 21
"""Rows cut at a time; as many again may be carried."""


class Rows(NamedTuple):
    """Classic Interests and Data in the order of (key, time, frame): index in the window, the key's number
    (analysis.columns.answers), the name's length, time, whether it is an Interest, whether it was received,
    the interface's number, lifetime and nonce (0 of Data; -1 without a nonce), and whether the row is of this
    window, not carried."""

    place: Ints
    key: Ints
    length: Ints
    time: Ints
    asks: Flags
    is_in: Flags
    interface: Ints
    lifetime: Ints
    nonce: Ints
    is_new: Flags


@dataclass
class Episodes:
    """Episodes of rows and their totals; `starts` has the first row of each, `of_row` the episode of each
    row. Episodes with `real` false have no entry; `ended`: ended by the window's end; `by_data`: ended by
    Data, the last row."""

    starts: Ints
    of_row: Ints
    real: Flags
    ended: Flags
    by_data: Flags
    came_in: Flags
    closed: Ints
    interests_in: Ints
    interests_out: Ints
    downstreams: Ints
    upstreams: Ints
    items_out: Ints
    bytes: Ints
    peak: Ints
    row_bytes: Ints
    odd: Flags

    def leave_out(self, which: Flags) -> None:
        """Mark some episodes as unreal."""
        for flags in (self.real, self.ended, self.by_data, self.odd):
            flags[which] = False


def cut(rows: Rows, until: int) -> Episodes:
    """Cut rows into episodes; those that expire at `until` or before have ended. `odd` ones are not plain."""
    count = len(rows.time)
    time, asks = rows.time, rows.asks
    is_sent = ~asks & ~rows.is_in
    is_first, expiry, too_long = _begun(rows, is_sent)
    starts, of_row = _numbered(is_first)
    comes_in, goes_out = asks & rows.is_in, asks & ~rows.is_in
    interests_in = _sums(comes_in, starts)
    interests_out = _sums(goes_out, starts)
    is_record, is_newest, is_loop = _records(rows, of_row, interests_in, interests_out)
    follows = is_sent & ~is_first
    follows[1:] &= is_sent[:-1]
    if follows.any():
        # Once as many are answered as had requested, the entry is gone, and packets sent later are not its
        # own.
        begin = np.maximum.accumulate(np.where(follows, 0, np.arange(count)))
        asked_by = _sums(is_newest, starts)[of_row]
        is_first |= follows & (np.arange(count) - begin >= np.maximum(asked_by, 1))
        starts, of_row = _numbered(is_first)
        interests_in, interests_out = _sums(comes_in, starts), _sums(goes_out, starts)
    last = np.append(starts, count)[1:] - 1
    real = asks[starts]
    by_data = real & ~asks[last]
    closed = np.where(by_data, time[last], expiry[last])
    answer = rows.interface[last]
    is_other = rows.interface != answer[of_row]
    waits = is_newest & (time + rows.lifetime > closed[of_row]) & is_other
    came_in = by_data & rows.is_in[last]
    at_once = comes_in & ~is_first & (time == closed[of_row])
    answered = by_data & ~came_in
    answers = np.where(answered, _sums(is_sent, starts), 0)
    odd = answered & (_sums(at_once, starts) > 0)
    odd |= (answers == 1) & ((interests_in == 0) | (_sums(comes_in & is_other, starts) > 0))
    odd |= _is_uneven(rows, of_row, answers, is_newest)
    if count:
        odd |= np.logical_or.reduceat(too_long | is_loop, starts)
    size = _added_bytes(rows, starts, is_record)
    held = _sums(size, starts)
    peak = _sums(np.where(time < closed[of_row], size, 0), starts)
    size[is_sent & (answers > 0)[of_row]] = -RECORD_BYTES
    size[last[by_data]] = -held[by_data] + RECORD_BYTES * np.maximum(answers[by_data] - 1, 0)
    return Episodes(
        starts=starts,
        of_row=of_row,
        real=real,
        ended=real & (by_data | (closed <= until)),
        by_data=by_data,
        came_in=came_in,
        closed=closed,
        interests_in=interests_in,
        interests_out=interests_out,
        downstreams=_sums(is_record & rows.is_in, starts),
        upstreams=_sums(is_record & ~rows.is_in, starts),
        items_out=np.where(came_in, _sums(waits, starts), answers),
        bytes=held,
        peak=peak,
        row_bytes=size,
        odd=odd & real,
    )


def _begun(rows: Rows, is_sent: Flags) -> tuple[Flags, Ints, Flags]:
    """Return which rows begin an episode according to keys, Data and expiry, the expiry of the Interests up
    to each, and which lifetimes are too long."""
    time, asks = rows.time, rows.asks
    is_first = np.ones(len(time), bool)
    is_first[1:] = (rows.key[1:] != rows.key[:-1]) | (~asks[:-1] & ~(is_sent[1:] & is_sent[:-1]))
    is_first[1:] |= time[1:] - time[:-1] >= int(rows.lifetime.max(initial=0))
    # The greatest expiry so far within a segment: segments count up, so one running maximum serves all.
    segment = np.cumsum(is_first) - 1
    base = time[is_first][segment]
    left = np.where(asks, time + rows.lifetime - base, 0)
    expiry = np.maximum.accumulate((segment << _BITS) | np.minimum(left, _WITHIN)) & _WITHIN
    expiry += base
    is_first[1:] |= time[1:] >= expiry[:-1]
    return is_first, expiry, left > _WITHIN


def _added_bytes(rows: Rows, starts: Ints, is_record: Flags) -> Ints:
    """Return the bytes that each row adds to its entry: a record, and once the name."""
    size = np.where(is_record, RECORD_BYTES, 0)
    size[starts] += rows.length[starts]
    size[~rows.asks] = 0
    return size


def _numbered(is_first: Flags) -> tuple[Ints, Ints]:
    """Return the first row of each episode, and each row's episode."""
    return np.flatnonzero(is_first), np.cumsum(is_first) - 1


def _records(rows: Rows, of_row: Ints, asked_in: Ints, asked_out: Ints) -> tuple[Flags, Flags, Flags]:
    """Return which Interests make a new record, which are the newest in-record of their interface, and which
    are received with the nonce of an earlier one."""
    is_record = rows.asks.copy()
    is_newest = rows.asks & rows.is_in
    is_loop = np.zeros(len(of_row), bool)
    several = (asked_in > 1) | (asked_out > 1)
    some = np.flatnonzero(several[of_row] & rows.asks)
    if len(some):
        key = (of_row[some] << 21) | (rows.is_in[some].astype(np.int64) << 20) | rows.interface[some]
        order = np.argsort(key, kind="stable")
        differs = key[order][1:] != key[order][:-1]
        is_record[some] = False
        is_record[some[order[np.append(True, differs)]]] = True
        newest = some[order[np.append(differs, True)]]
        is_newest[some] = False
        is_newest[newest] = rows.is_in[newest]
    again = (asked_in > 1) | ((asked_in > 0) & (asked_out > 0))
    some = np.flatnonzero(again[of_row] & rows.asks & (rows.nonce >= 0))
    if len(some):
        key = (of_row[some] << 32) | rows.nonce[some]
        order = np.argsort(key, kind="stable")
        later = order[1:][key[order][1:] == key[order][:-1]]
        is_loop[some[later]] = rows.is_in[some[later]]
    return is_record, is_newest, is_loop


def _is_uneven(rows: Rows, of_row: Ints, answers: Ints, is_newest: Flags) -> Flags:
    """Return which episodes with several sent Data do not have one for each requesting interface, in time."""
    uneven = np.zeros(len(answers), bool)
    some = np.flatnonzero((answers > 1)[of_row])
    if not len(some):
        return uneven
    of_some, time, asks = of_row[some], rows.time[some], rows.asks[some]
    # Its Interests come first, then its sent Data.
    first = np.flatnonzero(np.diff(of_some, prepend=-1))
    begins = np.minimum.reduceat(np.where(asks, np.iinfo(np.int64).max, time), first)
    asked = np.maximum.reduceat(np.where(asks, time, np.iinfo(np.int64).min), first)
    uneven[of_some[first]] = asked >= begins
    ends = np.append(first[1:], len(some)) - 1
    lasts = np.repeat(time[ends], np.diff(np.append(first, len(some))))
    uneven[of_some[is_newest[some] & (time + rows.lifetime[some] <= lasts)]] = True
    is_side = is_newest[some] | ~asks
    key, count = np.unique((of_some[is_side] << 21) | rows.interface[some][is_side], return_counts=True)
    asked_of = np.unique((of_some[is_newest[some]] << 21) | rows.interface[some][is_newest[some]])
    # Each interface once as one that requested, and once as one that was answered.
    uneven[key[(count != 2) | ~np.isin(key, asked_of)] >> 21] = True
    return uneven


def _sums(values: Ints | Flags, starts: Ints) -> Ints:
    """Return the sums over episodes."""
    if not len(starts):
        return np.zeros(0, np.int64)
    sums: Ints = np.add.reduceat(values, starts, dtype=np.int64)
    return sums
