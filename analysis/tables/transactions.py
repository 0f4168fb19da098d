"""Transactions: each Interest on an interface, with its retransmissions and its answer.

Theory of operation. An answer travels between the same two ends as the Interest, in reverse. Ends are
identified by direction and addresses; multicast is answered to the group. Without either in a capture,
packets are distinguished by kind alone.

Classic Interests. All Interests of one name, CanBePrefix and MustBeFresh between two ends, and their possible
answers, are sorted by time; running sums then group them. Data are copied to each name and selectors that
they answer (analysis/columns/answers.py). A Nack is an answer whatever its Nonce: also for a retransmission.

Long-lived Interests. Items answer the latest LLI between two ends for their feed, if in its range and before
its expiry. An LLI with the name and credit of its unanswered predecessor repeats it.

numpy processes all packets of a node that have related names (analysis.tables.shares) at once; each
such share is a task.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analysis.columns.answers import CAN_BE_PREFIX, KEYS, MUST_BE_FRESH, copied, satisfied
from analysis.columns.arrays import coded, highest_so_far, joint, starts, values
from analysis.packet_schema import FOREVER, MESSAGES
from analysis.tables.events import packet_events
from analysis.tables.schema import EVENTS, TRANSACTIONS
from analysis.tables.shares import Ends, Follower
from captures.formats.records import Flags, Ints
from captures.layers.layers import GROUP

SIZES = ("frame_bytes", "lp_bytes", "ndn_bytes")

COLUMNS = (
    "layering", "frame", "time", "node", "interface", "direction", "src", "dst", "src_port", "dst_port",
    "kind", "name", "can_be_prefix", "must_be_fresh", "lifetime_ns", "feed", "seq", "send_credit",
    "nack_reason", *SIZES,
)  # fmt: skip
"""The required columns of packets."""

_INTEREST, _LLI, _DATA, _NACK = range(len(MESSAGES))
_MOMENT = pa.struct([("time", pa.int64()), ("bytes", pa.int64())])


FOLLOWED = pa.schema([*TRANSACTIONS.arrow, ("expires", pa.int64()), ("repeats", pa.list_(_MOMENT))])
"""Transactions; `expires` (ns) of the last Interest, and `repeats`, time (ns) and bytes of every Interest
after the first.
"""


class _Rows(NamedTuple):
    """Packets as numbers; -1 for null."""

    table: pa.Table
    scope: Ints
    """A number for each node, interface, direction of the Interest and two ends."""
    kind: Ints
    name: Ints
    names: pa.Array
    feed: Ints
    seq: Ints
    credit: Ints
    time: Ints
    frame: Ints
    expires: Ints
    size: Ints
    selectors: Ints
    """Selectors of a name: 0 .. 3, of CanBePrefix and MustBeFresh."""


class _Chains(NamedTuple):
    """Interests with their repetitions: rows of the first, of the last, and of the answer (-1: none)."""

    first: Ints
    last: Ints
    answer: Ints
    interests: Ints
    expires: Ints
    interest_bytes: Ints
    answer_bytes: Ints
    items: Ints
    repeats: pa.Array


def follow(packets: pa.Table) -> pa.Table:
    """Return FOLLOWED of packets of one run, with COLUMNS; Interests with truncated names are dropped."""
    rows = _numbered(packets)
    return pa.concat_tables([_classic(rows), _long_lived(rows)])


def _told(share: pa.Table, ends: Ends) -> dict[str, pa.Table]:
    found = follow(share)
    told = pa.concat_tables([_repeated(found), _expired(found, ends.messages), _refused(share)])
    return {TRANSACTIONS.name: found.select(TRANSACTIONS.names), EVENTS.name: told}


FOLLOWER = Follower(COLUMNS, {TRANSACTIONS.name: TRANSACTIONS.arrow, EVENTS.name: EVENTS.arrow}, _told)
"""What tells transactions, and events: `retransmission`, `nack`, and `expired` without an answer, at the time
of expiry, if that is before the run's last packet.
"""

_ABOUT = ["layering", "node", "interface", "name", "feed", "seq"]


def _repeated(found: pa.Table) -> pa.Table:
    repeats = found["repeats"].combine_chunks()
    moments = pc.list_flatten(repeats)
    about = found.select(_ABOUT).take(pc.list_parent_indices(repeats))
    again = about.append_column("time", pc.struct_field(moments, "time"))
    again = again.append_column("bytes", pc.struct_field(moments, "bytes"))
    return packet_events(again.append_column("event", pa.repeat("retransmission", len(again))))


def _expired(found: pa.Table, end: int) -> pa.Table:
    waits = (pc.field("outcome") == "none") & (pc.field("expires") <= end)
    # An LLI without credit cancels one, and expects no answer.
    waits &= pc.coalesce(pc.field("send_credit"), 1) > 0
    late = found.select([*_ABOUT, "expires", "outcome", "send_credit"]).filter(waits)
    late = late.select([*_ABOUT, "expires"]).rename_columns([*_ABOUT, "time"])
    return packet_events(late.append_column("event", pa.repeat("expired", len(late))))


def _refused(share: pa.Table) -> pa.Table:
    nacks = share.filter(pc.equal(share["kind"], "nack"))
    nacks = nacks.select([*_ABOUT, "time"]).append_column("bytes", pa.array(wire_size(nacks)))
    return packet_events(nacks.append_column("event", pa.repeat("nack", len(nacks))))


def wire_size(packets: pa.Table) -> Ints:
    """Return the bytes of packets' frames; in a TCP stream, where packets and frames differ, their own."""
    whole, lp, ndn = (values(packets[name], 0) for name in ("frame_bytes", "lp_bytes", "ndn_bytes"))
    return np.where(whole == 0, lp + ndn, whole)


def _numbered(window: pa.Table) -> _Rows:
    if window["name"].null_count:
        window = window.filter(pc.is_valid(window["name"]))
    kinds, labels = coded(window["kind"])
    known = np.array([*(MESSAGES.index(kind) if kind in MESSAGES else -1 for kind in labels.to_pylist()), -1])
    kind = known[kinds]
    if not (kind >= 0).all():
        window, kind = window.filter(pa.array(kind >= 0)), kind[kind >= 0]
    asks = (kind == _INTEREST) | (kind == _LLI)
    ways, labels = coded(window["direction"])
    way = np.array([*({"out": 0, "in": 1}.get(text, -1) for text in labels.to_pylist()), -1])[ways]
    side = np.where(asks | (way < 0), way, 1 - way)
    src, dst, addresses = _ends(window)
    to_group = np.append(pc.match_substring_regex(addresses, GROUP).to_numpy(zero_copy_only=False), False)[
        dst
    ]
    own, peer = (
        end << 17 | values(window[port], -1) + 1 for end, port in ((src, "src_port"), (dst, "dst_port"))
    )
    there, back = np.where(asks, own, peer), np.where(asks, peer, own)
    group = dst << 17  # multicast: port and sender do not matter
    there, back = np.where(to_group, group, there), np.where(to_group, -1, back)
    nodes, interfaces = coded(window["node"])[0], coded(window["interface"])[0]
    name, names = coded(window["name"])
    time, life = values(window["time"], 0), values(window["lifetime_ns"], FOREVER)
    beyond = life > FOREVER - np.maximum(time, 0)
    return _Rows(
        table=window,
        scope=joint(nodes, interfaces, side, there, back),
        kind=kind,
        name=name,
        names=names,
        feed=coded(window["feed"])[0],
        seq=values(window["seq"], -1),
        credit=values(window["send_credit"], -1),
        time=time,
        frame=values(window["frame"], 0),
        expires=np.where(beyond, FOREVER, time + np.where(beyond, 0, life)),
        size=wire_size(window),
        selectors=2 * values(window["can_be_prefix"], 0) + values(window["must_be_fresh"], 0),
    )


def _ends(window: pa.Table) -> tuple[Ints, Ints, pa.Array]:
    """Return the numbers of senders and receivers among all addresses, -1 for null, and the addresses."""
    (src, senders), (dst, receivers) = coded(window["src"]), coded(window["dst"])
    every = pa.concat_arrays([senders, receivers]).dictionary_encode()
    places = np.append(every.indices.to_numpy(), -1)
    return places[src], places[np.where(dst < 0, -1, dst + len(senders))], every.dictionary


def _classic(rows: _Rows) -> pa.Table:
    asks = np.flatnonzero(rows.kind == _INTEREST)
    refuses = np.flatnonzero((rows.kind == _NACK) & (rows.credit < 0))
    # At one time and frame, requests precede answers.
    answers, of_answers = _answers(rows, asks)
    row = np.concatenate([asks, refuses, answers])
    own = row[: len(asks) + len(refuses)]
    key = np.append(KEYS * rows.name[own] + rows.selectors[own], of_answers)
    key += rows.scope[row] * KEYS * len(rows.names)
    fits = np.isin(key, key[: len(asks)])
    row, key = row[fits], key[fits]
    order = np.lexsort((rows.frame[row], rows.time[row], key))
    row, key = row[order], key[order]
    is_ask = rows.kind[row] == _INTEREST
    # Chains break after an answer, and at the next key.
    begins = np.append(True, (key[1:] != key[:-1]) | ~is_ask[:-1])[: len(row)]
    alive = np.append(0, highest_so_far(begins, np.where(is_ask, rows.expires[row], 0))[:-1])[: len(row)]
    is_pending = ~begins & (rows.time[row] < alive)
    kept = is_ask | is_pending
    row, key, is_ask, is_pending = row[kept], key[kept], is_ask[kept], is_pending[kept]
    chains = _chained(rows, row, is_ask & ~is_pending, is_ask)
    way = key[is_ask & ~is_pending] % KEYS
    return _table(rows, chains, "interest", way >= 2, way % 2 == 1)


def _answers(rows: _Rows, asks: Ints) -> tuple[Ints, Ints]:
    """Return Data, once for each name and selectors that they answer, and these as keys of names."""
    data = np.flatnonzero(rows.kind == _DATA)
    asked = np.zeros(KEYS * len(rows.names), bool)
    asked[KEYS * rows.name[asks] + rows.selectors[asks]] = True
    distinct = np.flatnonzero(np.bincount(rows.name[data], minlength=len(rows.names)))
    names, keys = satisfied(rows.names, distinct, asked)
    root = pc.index(rows.names, "/").as_py()
    for way in (CAN_BE_PREFIX, CAN_BE_PREFIX | MUST_BE_FRESH) if root >= 0 else ():
        if asked[KEYS * root + way]:
            names = np.append(names, distinct[distinct != root])
            keys = np.append(keys, np.full(len(names) - len(keys), KEYS * root + way))
    place, keys = copied(rows.name[data], names, keys)
    return data[place], keys


def _long_lived(rows: _Rows) -> pa.Table:
    is_told = (rows.feed >= 0) & ((rows.kind == _LLI) | (rows.kind == _DATA) | (rows.kind == _NACK))
    row = np.flatnonzero(is_told & ((rows.kind == _DATA) | (rows.credit >= 0)))
    key = rows.scope[row] * (rows.feed.max(initial=0) + 1) + rows.feed[row]
    order = np.lexsort((rows.frame[row], rows.time[row], key))
    row, key = row[order], key[order]
    is_ask = rows.kind[row] == _LLI
    begins = starts(key)
    places = np.arange(len(row))
    asked = np.maximum.accumulate(np.where(is_ask, places, -1)) if len(row) else places
    has_asked = asked >= np.maximum.accumulate(np.where(begins, places, 0)) if len(row) else is_ask
    lli = row[np.maximum(asked, 0)]
    is_alive = has_asked & (rows.time[row] < rows.expires[lli])
    ahead = rows.seq[row] - rows.seq[lli]
    is_item = (rows.kind[row] == _DATA) & (ahead >= 0) & (ahead < rows.credit[lli]) & is_alive
    is_item &= rows.seq[row] >= 0
    is_nack = (rows.kind[row] == _NACK) & (rows.name[row] == rows.name[lli]) & is_alive
    kept = is_ask | is_item | is_nack
    row, key, is_ask, is_item = row[kept], key[kept], is_ask[kept], is_item[kept]
    # Whether each repeats the one before: that is the row before it, unless answered.
    before = np.append(row[:1], row[:-1])
    repeats = is_ask & np.append(False, is_ask[:-1] & (key[1:] == key[:-1]))[: len(row)]
    repeats &= (rows.name[row] == rows.name[before]) & (rows.credit[row] == rows.credit[before])
    repeats &= rows.time[row] < rows.expires[before]
    chains = _chained(rows, row, is_ask & ~repeats, is_ask, is_item)
    nothing = np.zeros(len(chains.first), bool)
    return _table(rows, chains, "lli", nothing, nothing)


def _chained(rows: _Rows, row: Ints, begins: Flags, is_ask: Flags, is_item: Flags | None = None) -> _Chains:
    """Sum up rows in order, in chains that begin where `begins` is set.

    Without `is_item`, at most one answer ends a chain; with it, any number of items and Nacks, of which the
    first item counts, or else the first Nack.
    """
    at = np.flatnonzero(begins)
    if not len(at):
        of = np.zeros(0, np.int64)
        return _Chains(of, of, of, of, of, of, of, of, pa.array([], pa.list_(_MOMENT)))
    which = np.cumsum(begins) - 1
    count = np.add.reduceat(is_ask.astype(np.int64), at)
    last = row[at + count - 1]  # requests precede answers
    size = rows.size[row]
    answer = np.full(len(at), -1)
    if is_item is None:
        items = np.add.reduceat((rows.kind[row] == _DATA).astype(np.int64), at)
        answer[which[~is_ask]] = row[~is_ask]
    else:
        for wanted in (~is_ask & ~is_item, is_item):
            place = np.flatnonzero(wanted)[::-1]  # so that the first one stays
            answer[which[place]] = row[place]
        seen = np.unique(np.stack([which[is_item], rows.seq[row[is_item]]], axis=1), axis=0)[:, 0]
        items = np.bincount(seen, minlength=len(at)).astype(np.int64)
    again = row[is_ask & ~begins]
    moments = pa.StructArray.from_arrays(
        [pa.array(rows.time[again]), pa.array(rows.size[again])], fields=list(_MOMENT)
    )
    offsets = np.append(0, np.cumsum(count - 1)).astype(np.int32)
    return _Chains(
        first=row[at],
        last=last,
        answer=answer,
        interests=count,
        expires=np.maximum.reduceat(np.where(is_ask, rows.expires[row], np.iinfo(np.int64).min), at),
        interest_bytes=np.add.reduceat(np.where(is_ask, size, 0), at),
        answer_bytes=np.add.reduceat(np.where(is_ask, 0, size), at),
        items=items,
        repeats=pa.ListArray.from_arrays(pa.array(offsets), moments),
    )


def _table(rows: _Rows, chains: _Chains, kind: str, can_be_prefix: Flags, must_be_fresh: Flags) -> pa.Table:
    first, answer = pa.array(chains.first), pa.array(chains.answer, mask=chains.answer < 0)
    asked = rows.table.select(
        ["layering", "node", "interface", "direction", "name", "feed", "seq", "send_credit"]
    ).take(first)
    answered = rows.table.select(["kind", "time", "name", "nack_reason"]).take(answer)
    is_data = pc.equal(answered["kind"], "data")
    refused = pc.equal(answered["kind"], "nack")
    time = pa.array(rows.time[chains.first])
    columns = {name: asked[name] for name in asked.column_names} | {
        "kind": pa.repeat(kind, len(first)),
        "can_be_prefix": pa.array(can_be_prefix),
        "must_be_fresh": pa.array(must_be_fresh),
        "time": time,
        "last": pa.array(rows.time[chains.last]),
        "interests": pa.array(chains.interests),
        "outcome": pc.fill_null(answered["kind"], "none"),
        "answered": answered["time"],
        "rtt_ns": pc.subtract(answered["time"], time),
        "nack_reason": pc.if_else(refused, answered["nack_reason"], None),
        "data_name": pc.if_else(is_data, answered["name"], None),
        "items": pa.array(chains.items),
        "interest_bytes": pa.array(chains.interest_bytes),
        "answer_bytes": pa.array(chains.answer_bytes),
        "expires": pa.array(chains.expires),
        "repeats": chains.repeats,
    }
    return pa.Table.from_arrays([columns[field.name] for field in FOLLOWED], names=FOLLOWED.names).cast(
        FOLLOWED
    )
