"""Transactions: each Interest on an interface, with its retransmissions and its answer.

Theory of operation. An answer travels between the same two ends as the Interest, in reverse. Ends are
identified by direction and addresses; multicast is answered to the group. Without either in a capture,
packets are distinguished by kind alone.

Classic Interests. All Interests of one name, CanBePrefix and MustBeFresh between two ends, and their possible
answers, are sorted by time; running sums then group them. Data of an Interest's own name are copied to each
way in which it was requested; Data of longer names (CanBePrefix), or shorter ones (an implicit digest), to
the requested names, looked up once per distinct name. A Nack is an answer whatever its Nonce: also for a
retransmission.

Long-lived Interests. Items answer the latest LLI between two ends for their feed, if in its range and before
its expiry. An LLI with the name and credit of its unanswered predecessor repeats it.

numpy processes all packets of a node that have related names (analysis.tables.shares) at once; each
such share is a task.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from analysis.packet_schema import DIGEST, FOREVER, MESSAGES
from analysis.tables.schema import TRANSACTIONS
from analysis.tables.shares import Follower
from captures.formats.records import Flags, Ints
from captures.layers.layers import GROUP

COLUMNS = (
    *(
        "layering",
        "frame",
        "time",
        "node",
        "interface",
        "direction",
        "src",
        "dst",
        "src_port",
        "dst_port",
        "kind",
    ),
    *("name", "can_be_prefix", "must_be_fresh", "lifetime_ns", "feed", "seq", "send_credit", "nack_reason"),
    *("frame_bytes", "lp_bytes", "ndn_bytes"),
)
"""The required columns of packets."""

_INTEREST, _LLI, _DATA, _NACK = range(len(MESSAGES))
_MOMENT = pa.struct([("time", pa.int64()), ("bytes", pa.int64())])


FOLLOWED = pa.schema([*TRANSACTIONS.arrow, ("expires", pa.int64()), ("repeats", pa.list_(_MOMENT))])
"""Transactions; `expires` (ns) of the last Interest, and `repeats`, time (ns) and bytes of every Interest
after the first.
"""


def moments(transactions: DataFrame) -> DataFrame:
    """Return columns of schema.EVENTS that FOLLOWED tell: `retransmission`, and `expired` without an answer,
    at the time of expiry, possibly after the capture's end.
    """
    about = ("layering", "node", "interface", "name", "feed", "seq")
    again = transactions.select(*about, F.explode("repeats").alias("again")).select(
        *about, "again.time", "again.bytes", F.lit("retransmission").alias("event")
    )
    # An LLI without credit cancels one, and expects no answer.
    waits = (F.col("outcome") == "none") & (F.coalesce("send_credit", F.lit(1)) > 0)
    late = transactions.where(waits).select(
        *about,
        F.col("expires").alias("time"),
        F.lit(None).cast("long").alias("bytes"),
        F.lit("expired").alias("event"),
    )
    return again.union(late)


def wire_size() -> Column:
    """Return the bytes of a packet's frames; in a TCP stream, where packets and frames differ, its own."""
    own = F.col("lp_bytes") + F.col("ndn_bytes")
    return F.when(F.col("frame_bytes") == 0, own).otherwise(F.col("frame_bytes"))


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


FOLLOWER = Follower(COLUMNS, {TRANSACTIONS.name: FOLLOWED}, lambda share: {TRANSACTIONS.name: follow(share)})
"""What tells FOLLOWED, as a table named after TRANSACTIONS."""


def _numbered(window: pa.Table) -> _Rows:
    window = window.filter(pc.is_valid(window["name"]))
    kinds, labels = _coded(window["kind"])
    known = np.array([*(MESSAGES.index(kind) if kind in MESSAGES else -1 for kind in labels.to_pylist()), -1])
    kind = known[kinds]
    window, kind = window.filter(pa.array(kind >= 0)), kind[kind >= 0]
    asks = (kind == _INTEREST) | (kind == _LLI)
    ways, labels = _coded(window["direction"])
    way = np.array([*({"out": 0, "in": 1}.get(text, -1) for text in labels.to_pylist()), -1])[ways]
    side = np.where(asks | (way < 0), way, 1 - way)
    ends, addresses = _coded(pa.chunked_array([*window["src"].chunks, *window["dst"].chunks], pa.string()))
    src, dst = np.split(ends, 2)
    to_group = np.append(pc.match_substring_regex(addresses, GROUP).to_numpy(zero_copy_only=False), False)[
        dst
    ]
    own, peer = (
        end << 17 | _values(window[port], -1) + 1 for end, port in ((src, "src_port"), (dst, "dst_port"))
    )
    there, back = np.where(asks, own, peer), np.where(asks, peer, own)
    group = dst << 17  # multicast: port and sender do not matter
    there, back = np.where(to_group, group, there), np.where(to_group, -1, back)
    nodes, interfaces = _coded(window["node"])[0], _coded(window["interface"])[0]
    name, names = _coded(window["name"])
    time, life = _values(window["time"], 0), _values(window["lifetime_ns"], FOREVER)
    beyond = life > FOREVER - np.maximum(time, 0)
    whole = _values(window["frame_bytes"], 0)
    return _Rows(
        table=window,
        scope=_joint(nodes, interfaces, side, there, back),
        kind=kind,
        name=name,
        names=names,
        feed=_coded(window["feed"])[0],
        seq=_values(window["seq"], -1),
        credit=_values(window["send_credit"], -1),
        time=time,
        frame=_values(window["frame"], 0),
        expires=np.where(beyond, FOREVER, time + np.where(beyond, 0, life)),
        size=np.where(whole == 0, _values(window["lp_bytes"], 0) + _values(window["ndn_bytes"], 0), whole),
        selectors=2 * _flags(window["can_be_prefix"]) + _flags(window["must_be_fresh"]),
    )


def _classic(rows: _Rows) -> pa.Table:
    asks = np.flatnonzero(rows.kind == _INTEREST)
    refuses = np.flatnonzero((rows.kind == _NACK) & (rows.credit < 0))
    named = rows.scope * (len(rows.names) + 1) + rows.name
    data = np.flatnonzero(rows.kind == _DATA)
    wanted = np.unique(4 * named[asks] + rows.selectors[asks])
    copies = [(data, 4 * named[data] + way) for way in range(4)]
    copies += _of_other_names(rows, named, asks, data)
    fitting = [np.isin(key, wanted) for _, key in copies]
    # At one time and frame, requests precede answers.
    own = np.append(asks, refuses)
    row = np.concatenate([own, *(who[fits] for (who, _), fits in zip(copies, fitting, strict=True))])
    key = np.concatenate(
        [
            4 * named[own] + rows.selectors[own],
            *(key[fits] for (_, key), fits in zip(copies, fitting, strict=True)),
        ]
    )
    order = np.lexsort((rows.frame[row], rows.time[row], key))
    row, key = row[order], key[order]
    is_ask = rows.kind[row] == _INTEREST
    # Chains break after an answer, and at the next key.
    begins = np.append(True, (key[1:] != key[:-1]) | ~is_ask[:-1])[: len(row)]
    alive = np.append(0, _highest_so_far(begins, np.where(is_ask, rows.expires[row], 0))[:-1])[: len(row)]
    is_pending = ~begins & (rows.time[row] < alive)
    kept = is_ask | is_pending
    row, key, is_ask, is_pending = row[kept], key[kept], is_ask[kept], is_pending[kept]
    chains = _chained(rows, row, is_ask & ~is_pending, is_ask)
    way = key[is_ask & ~is_pending] % 4
    return _table(rows, chains, "interest", way >= 2, way % 2 == 1)


def _of_other_names(rows: _Rows, named: Ints, asks: Ints, data: Ints) -> list[tuple[Ints, Ints]]:
    """Return Data again under each requested name that they answer besides their own: rows, and keys."""
    found = []
    loose = asks[rows.selectors[asks] >= 2]
    distinct, which = np.unique(rows.name[data], return_inverse=True)
    texts = rows.names.take(pa.array(distinct))
    for depth in _depths(rows.names.take(pa.array(np.unique(rows.name[loose])))):
        if depth:
            cut = pc.replace_substring_regex(texts, rf"^((?:/[^/]*){{{depth}}})/.*$", r"\1")
        else:
            cut = pa.array(np.full(len(texts), "/"), pa.string())
        cut = pc.if_else(pc.not_equal(cut, texts), cut, None)
        found.append((cut, (2, 3)))
    digests = pc.match_substring(rows.names, DIGEST).to_numpy(zero_copy_only=False)
    copies = []
    for cut, ways in found:
        places = pc.index_in(cut, value_set=rows.names).fill_null(-1).to_numpy()[which]
        there = places >= 0
        key = named[data[there]] - rows.name[data[there]] + places[there]
        copies += [(data[there], 4 * key + way) for way in ways]
    codes = np.flatnonzero(digests)
    short = [name.partition(DIGEST)[0] for name in rows.names.take(pa.array(codes)).to_pylist()]
    places = pc.index_in(pa.array(short, pa.string()), value_set=rows.names).fill_null(-1).to_numpy()
    by_name = data[np.argsort(rows.name[data], kind="stable")]
    begins = np.searchsorted(rows.name[by_name], places)
    ends = np.searchsorted(rows.name[by_name], places, "right")
    for code, place, begin, end in zip(codes.tolist(), places.tolist(), begins, ends, strict=True):
        if place >= 0:
            who = by_name[begin:end]
            copies += [(who, 4 * (named[who] - place + code) + way) for way in range(4)]
    return copies


def _depths(names: pa.Array) -> list[int]:
    """Return the number of components of names."""
    slashes = pc.count_substring(names, "/").to_numpy()
    is_root = pc.equal(names, "/").to_numpy(zero_copy_only=False)
    return [*map(int, np.unique(np.where(is_root, 0, slashes)))]


def _long_lived(rows: _Rows) -> pa.Table:
    is_told = (rows.feed >= 0) & ((rows.kind == _LLI) | (rows.kind == _DATA) | (rows.kind == _NACK))
    row = np.flatnonzero(is_told & ((rows.kind == _DATA) | (rows.credit >= 0)))
    key = rows.scope[row] * (rows.feed.max(initial=0) + 1) + rows.feed[row]
    order = np.lexsort((rows.frame[row], rows.time[row], key))
    row, key = row[order], key[order]
    is_ask = rows.kind[row] == _LLI
    begins = np.append(True, key[1:] != key[:-1])[: len(row)]
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
    starts = is_ask & ~repeats
    chains = _chained(rows, row, starts, is_ask, is_item)
    nothing = np.zeros(len(chains.first), bool)
    return _table(rows, chains, "lli", nothing, nothing)


def _chained(rows: _Rows, row: Ints, starts: Flags, is_ask: Flags, is_item: Flags | None = None) -> _Chains:
    """Sum up rows in order, in chains that begin where `starts` is set.

    Without `is_item`, at most one answer ends a chain; with it, any number of items and Nacks, of which the
    first item counts, or else the first Nack.
    """
    at = np.flatnonzero(starts)
    if not len(at):
        of = np.zeros(0, np.int64)
        return _Chains(of, of, of, of, of, of, of, of, pa.array([], pa.list_(_MOMENT)))
    which = np.cumsum(starts) - 1
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
    again = row[is_ask & ~starts]
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


def _highest_so_far(begins: Flags, values: Ints) -> Ints:
    """Return the running maximum of each stretch that begins where `begins` is set."""
    if not len(values):
        return values
    by_value = np.argsort(values, kind="stable")
    rank = np.empty_like(by_value)
    rank[by_value] = np.arange(len(values))
    base = (np.cumsum(begins) - 1) * len(values)
    highest: Ints = values[by_value][np.maximum.accumulate(base + rank) - base]
    return highest


def _coded(column: pa.ChunkedArray) -> tuple[Ints, pa.Array]:
    """Return a number for each text, -1 for null, and the texts."""
    encoded = pc.dictionary_encode(column).unify_dictionaries().combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.chunk(0) if encoded.num_chunks else pa.array([], column.type).dictionary_encode()
    return encoded.indices.fill_null(-1).to_numpy().astype(np.int64), encoded.dictionary


def _values(column: pa.ChunkedArray, nothing: int) -> Ints:
    values: Ints = column.fill_null(nothing).to_numpy()
    return values


def _flags(column: pa.ChunkedArray) -> Ints:
    flags: Ints = column.fill_null(False).to_numpy().astype(np.int64)
    return flags


def _joint(*parts: Ints) -> Ints:
    """Return dense numbers from 0, equal where all parts are equal."""
    codes = np.zeros(len(parts[0]), np.int64)
    for part in parts:
        of_part = np.unique(part, return_inverse=True)[1]
        codes = np.unique(codes * (of_part.max(initial=0) + 1) + of_part, return_inverse=True)[1]
    return codes
