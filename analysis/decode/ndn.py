"""NDN packets of a whole window: NDNLPv2, Interest and Data, decoded in parallel into columns.

Results equal those of the reference decoder (analysis/decode/reference.py). Unusual packets (Nacks, first
fragments, unknown or reordered fields, no Fragment, proven evidence, anything malformed) are only detected
here and left to that decoder.

Sources: NDN packet format 0.3; NDNLPv2 (NFD wiki), revision 63.
"""

from typing import NamedTuple

import numpy as np

from analysis.decode.columns import Columns
from analysis.decode.names import distinct, read_names
from analysis.decode.reference import payload_bytes
from analysis.decode.tlv_batch import NNI, Grammar, Octets, headers, is_nni, numbers
from base.units import MS
from captures.formats.records import Flags, Ints
from forwarder.wire.feed import BACKLINK, PAYLOAD, SSB_MESSAGE
from forwarder.wire.lp import FEED_STATE, LP_PACKET
from forwarder.wire.name import NAME
from forwarder.wire.packet import DATA, DEFAULT_LIFETIME_MS, INTEREST, KNOWN, SEND_CREDIT
from forwarder.wire.persistent import PERSISTENT

KINDS = ("other", "interest", "lli", "data", "fragment")
OTHER, PLAIN, LLI, ITEM, FRAGMENT = range(5)

_CAN_BE_PREFIX, _MUST_BE_FRESH, _HINT, _NONCE, _LIFETIME, _HOP_LIMIT = 33, 18, 30, 10, 12, 34
_PARAMETERS, _SIGNATURE_INFO_I, _SIGNATURE_VALUE_I = 36, 44, 46
_META, _CONTENT, _SIGNATURE_INFO, _SIGNATURE_VALUE = 20, 21, 22, 23
_CONTENT_TYPE, _FRESHNESS, _FINAL_BLOCK, _SIGNATURE_TYPE, _KEY_LOCATOR = 24, 25, 26, 27, 28

_INTEREST = Grammar(
    NAME,
    _CAN_BE_PREFIX,
    _MUST_BE_FRESH,
    _HINT,
    _NONCE,
    _LIFETIME,
    _HOP_LIMIT,
    _PARAMETERS,
    _SIGNATURE_INFO_I,
    _SIGNATURE_VALUE_I,
    SEND_CREDIT,
    PERSISTENT,
    KNOWN,
)
_DATA = Grammar(NAME, _META, _CONTENT, _SIGNATURE_INFO, _SIGNATURE_VALUE)
_META_INFO = Grammar(_CONTENT_TYPE, _FRESHNESS, _FINAL_BLOCK)
_SIGNATURE = Grammar(_SIGNATURE_TYPE, _KEY_LOCATOR)

_LP_FRAGMENT, _SEQUENCE, _FRAG_INDEX, _FRAG_COUNT, _PIT_TOKEN, _CONGESTION = (
    0x50,
    0x51,
    0x52,
    0x53,
    0x62,
    0x0340,
)
_NACK, _ACK, _TX_SEQUENCE = 0x0320, 0x0344, 0x0348
_LOCAL = (0x032C, 0x0330, 0x0334)
"""IncomingFaceId, NextHopFaceId, CachePolicy: between a forwarder and its applications, rarely captured."""
_TIP, _LIMIT, _FIRST, _EVIDENCE = 0x0371, 0x0372, 0x0373, 0x0374


class _LpGrammar:
    """The fields of an LpPacket, including three-byte types and ignorable fields."""

    fields = (_SEQUENCE, _FRAG_INDEX, _FRAG_COUNT, _PIT_TOKEN, _CONGESTION, FEED_STATE, _LP_FRAGMENT)

    def __init__(self) -> None:
        self.slots = {kind: slot for slot, kind in enumerate(self.fields, 1)}
        self.of_kind = np.full(1024, -1)
        self.of_kind[800:960:4] = 0
        self.of_kind[[_NACK, *_LOCAL]] = -1
        for kind, slot in self.slots.items():
            self.of_kind[kind] = slot


_LP = _LpGrammar()


class _Lp(NamedTuple):
    """Fields of LpPackets: offset of each value (0 if absent), length, and validity."""

    starts: np.ndarray[tuple[int, int], np.dtype[np.int64]]
    lengths: np.ndarray[tuple[int, int], np.dtype[np.int64]]
    good: Flags

    def field(self, kind: int) -> tuple[Ints, Ints, Flags]:
        """Return offsets, lengths and presence of the values."""
        slot = _LP.slots[kind]
        return self.starts[slot], self.lengths[slot], self.starts[slot] > 0

    def numbers(self, octets: Octets, kind: int) -> Ints:
        """Return a field's numbers; clears the validity of malformed or oversized ones."""
        start, length, there = self.field(kind)
        value = numbers(octets, start, length).view(np.int64)
        fits = is_nni(length) & (value >= 0)
        self.good[there & ~fits] = False
        return value


class _Bodies(NamedTuple):
    """Offsets and lengths of the Names of Interests and Data, and offsets of Content, by row; 0 if absent."""

    names: Ints
    lengths: Ints
    contents: Ints


def decode_packets(
    octets: Octets, rows: Ints, start: Ints, length: Ints, columns: Columns, slow: Flags
) -> None:
    """Decode `length` bytes from `start` for each of `rows`.

    Sets `slow` for rows that need the reference decoder.
    """
    kind, value, size, good = headers(octets, start)
    good &= value + size == start + length
    is_lp = good & (kind == LP_PACKET)
    good &= is_lp | (kind == INTEREST) | (kind == DATA)
    slow[rows[~good]] = True
    columns.put("lp_bytes", rows, 0)
    columns.put("ndn_bytes", rows, length)
    columns.put("frag_index", rows, 0)
    columns.put("frag_count", rows, 1)
    begin, end = value.copy(), value + size
    framed = np.flatnonzero(is_lp)
    if len(framed):
        at, stop = value[framed], end[framed]
        fragment, inside = _decode_lp(octets, rows[framed], length[framed], at, stop, columns, slow)
        inner, first, extent, fine = headers(octets, fragment)
        whole = fine & (fragment > 0) & (first + extent == stop) & ((inner == INTEREST) | (inner == DATA))
        slow[rows[framed[inside & ~whole]]] = True
        kind[framed] = np.where(inside & whole, inner, 0)
        begin[framed] = first
    found = _Bodies(*(np.zeros(columns.count, np.int64) for _ in _Bodies._fields))
    for of_kind, decode in ((INTEREST, _decode_interests), (DATA, _decode_data)):
        some = np.flatnonzero(good & (kind == of_kind))
        if len(some):
            decode(octets, rows[some], begin[some], end[some], columns, slow, found)
    _decode_names(octets, columns, slow, found)


def _walk_lp(octets: Octets, at: Ints, end: Ints) -> _Lp:
    count, slots = len(at), len(_LP.slots) + 1
    starts, lengths = np.zeros(slots * count, np.int64), np.zeros(slots * count, np.int64)
    good = at < end
    rows = np.flatnonzero(good)
    at, end, last = at[rows], end[rows], np.zeros(len(rows), np.int64)
    while len(rows):
        word = octets.words(at)
        wide = word >> np.uint64(56) == 253
        word[wide] <<= np.uint64(16)  # aligns a three-byte type with a one-byte type
        kind = (word >> np.uint64(56)).view(np.int64)
        some = np.flatnonzero(wide)
        if len(some):
            kind[some] |= octets.data[at[some] + 1].astype(np.int64) << 8
        length = (word >> np.uint64(48)).view(np.int64) & 0xFF
        start = at + 2 + 2 * wide
        fine = np.where(wide, kind >= 253, kind < 253) & (length < 254)
        long = np.flatnonzero(length == 253)
        if len(long):
            length[long] = (word[long] >> np.uint64(32)).view(np.int64) & 0xFFFF
            start[long] += 2
            fine[long] &= length[long] >= 253
        at = start + length
        slot = _LP.of_kind[np.minimum(kind, 1023)]
        is_last = kind == _LP_FRAGMENT
        in_order = (kind > last) | (kind == _ACK) & (last == _ACK)
        fine &= (length == 8) | (kind != _ACK) & (kind != _TX_SEQUENCE)
        fine &= (slot >= 0) & np.where(is_last, at == end, in_order & (at <= end))
        cell = np.maximum(slot, 0) * count + rows
        starts[cell], lengths[cell] = start, length
        good[rows[~fine]] = False
        keep = np.flatnonzero(fine & (at < end) & ~is_last)
        rows, at, end, last = rows[keep], at[keep], end[keep], kind[keep]
    return _Lp(starts.reshape(slots, count), lengths.reshape(slots, count), good)


def _decode_lp(
    octets: Octets, rows: Ints, length: Ints, at: Ints, end: Ints, columns: Columns, slow: Flags
) -> tuple[Ints, Flags]:
    """Decode LpPacket header fields; return the offsets of the Fragments, and which packets are whole."""
    lp = _walk_lp(octets, at, end)
    fragment, size, there = lp.field(_LP_FRAGMENT)
    good = lp.good
    good &= there & (size > 0)
    for kind, name in ((_FRAG_INDEX, "frag_index"), (_FRAG_COUNT, "frag_count")):
        _, _, has = lp.field(kind)
        if has.any():
            columns.put_where(name, rows, has, lp.numbers(octets, kind))
    sequence, octet_count, has_sequence = lp.field(_SEQUENCE)
    if has_sequence.any():
        good &= ~has_sequence | (octet_count == 8)
        columns.put_where("lp_sequence", rows, has_sequence, octets.words(sequence).view(np.int64))
    _, _, marked = lp.field(_CONGESTION)
    if marked.any():
        value = lp.numbers(octets, _CONGESTION)
        columns.put_where("congestion_mark", rows, marked & (value > 0), value)
    token, token_bytes, has_token = lp.field(_PIT_TOKEN)
    if has_token.any():
        good &= ~has_token | (token_bytes >= 1) & (token_bytes <= 32)
        some = np.flatnonzero(has_token & good)
        which, tokens = distinct(octets, token[some], token_bytes[some])
        columns.put_texts("pit_token", rows[some], which, tokens)
    state, state_bytes, has_state = lp.field(FEED_STATE)
    if has_state.any():
        some = np.flatnonzero(has_state)
        good[some] &= _decode_feed_state(octets, rows[some], state[some], state_bytes[some], columns)
    index, counted = columns.of("frag_index")[0][rows], columns.of("frag_count")[0][rows]
    good &= (index < counted) & ((counted == 1) | has_sequence) & ((counted == 1) | (index > 0))
    slow[rows[~good]] = True
    columns.put("lp_bytes", rows, length - size)
    columns.put("ndn_bytes", rows, size)
    later = good & (index > 0)
    if later.any():
        columns.put_texts("kind", rows[later], 0, [KINDS[FRAGMENT]])
    return fragment, good & (index == 0)


def _decode_feed_state(octets: Octets, rows: Ints, at: Ints, length: Ints, columns: Columns) -> Flags:
    """Decode FeedStates of Tip and Limit, with optional First and Evidence; return a mask of the rows
    decoded.
    """
    good = np.ones(len(rows), bool)
    end = at + length
    for kind, name in ((_TIP, "feed_tip"), (_LIMIT, "feed_limit"), (_FIRST, "feed_first"), (_EVIDENCE, "")):
        word = octets.words(at)
        size = (word >> np.uint64(32)).view(np.int64) & 0xFF
        here = good & ((word >> np.uint64(40)).view(np.int64) == (253 << 16 | kind)) & (at + 4 + size <= end)
        if name:
            value = numbers(octets, at + 4, size).view(np.int64)
            fine = is_nni(size) & (value >= 0)
            columns.put_where(name, rows, here & fine, value)
        else:
            fine = _decode_evidence(octets, rows, here, at + 4, size, columns)
        good &= fine & here if kind in (_TIP, _LIMIT) else fine | ~here
        at = np.where(here, at + 4 + size, at)
    good &= at == end
    return good


def _decode_evidence(
    octets: Octets, rows: Ints, here: Flags, at: Ints, length: Ints, columns: Columns
) -> Flags:
    """Decode evidence without a proof; return a mask of the rows decoded."""
    size = length - 1
    value = numbers(octets, at + 1, size)
    small = (size > 1) & (
        value >> (np.clip(4 * size, 4, 32)).astype(np.uint64) == 0
    )  # not in the shortest form
    fine: Flags = here & is_nni(size) & ~small & (value.view(np.int64) >= 0)
    if fine.any():
        which, values = distinct(octets, at[fine], length[fine])
        columns.put_texts("evidence", rows[fine], which, values)
    return fine


def _decode_interests(
    octets: Octets, rows: Ints, at: Ints, end: Ints, columns: Columns, slow: Flags, found: _Bodies
) -> None:
    seen = _INTEREST.walk(octets, at, end)
    good = seen.good
    good &= seen.length(NAME) > 0
    for kind, sizes in (
        (_CAN_BE_PREFIX, (0,)),
        (_MUST_BE_FRESH, (0,)),
        (_NONCE, (4,)),
        (_LIFETIME, NNI),
        (_HOP_LIMIT, (1,)),
        (SEND_CREDIT, NNI),
    ):
        seen.require(good, kind, *sizes)
    is_lli = seen.is_present(SEND_CREDIT)
    is_known = seen.is_present(KNOWN) & (seen.length(KNOWN) > 0)
    if is_known.any():
        start, length = seen.start(KNOWN), seen.length(KNOWN)
        good &= ~is_known | _decode_evidence(octets, rows, good & is_known & is_lli, start, length, columns)
    hinted = np.flatnonzero(good & seen.is_present(_HINT))
    if len(hinted):  # a single Name is plain
        start = seen.start(_HINT)[hinted]
        inside = headers(octets, start)
        whole = inside.start + inside.length == start + seen.length(_HINT)[hinted]
        good[hinted] = inside.good & (inside.kind == NAME) & whole
    slow[rows[~good]] = True
    columns.put("can_be_prefix", rows, seen.is_present(_CAN_BE_PREFIX))
    columns.put("must_be_fresh", rows, seen.is_present(_MUST_BE_FRESH))
    columns.put("is_persistent", rows, seen.is_present(PERSISTENT) & (seen.length(PERSISTENT) == 0))
    columns.put_where("nonce", rows, seen.is_present(_NONCE), seen.number(octets, _NONCE))
    columns.put("lifetime_ns", rows, seen.number(octets, _LIFETIME, DEFAULT_LIFETIME_MS * MS, MS))
    columns.put_where("hop_limit", rows, seen.is_present(_HOP_LIMIT), seen.number(octets, _HOP_LIMIT))
    columns.put_where("send_credit", rows, is_lli, seen.number(octets, SEND_CREDIT))
    columns.put_texts("kind", rows, is_lli.astype(np.int64), [KINDS[PLAIN], KINDS[LLI]])
    found.names[rows[good]], found.lengths[rows[good]] = seen.start(NAME)[good], seen.length(NAME)[good]


def _decode_data(
    octets: Octets, rows: Ints, at: Ints, end: Ints, columns: Columns, slow: Flags, found: _Bodies
) -> None:
    seen = _DATA.walk(octets, at, end)
    good = seen.good
    good &= (seen.length(NAME) > 0) & seen.is_present(_SIGNATURE_INFO) & seen.is_present(_SIGNATURE_VALUE)
    # Offsets of malformed packets may point anywhere.
    info = _SIGNATURE.walk(octets, *_bounds(seen.start(_SIGNATURE_INFO), seen.length(_SIGNATURE_INFO), good))
    good &= info.good & info.is_present(_SIGNATURE_TYPE)
    info.require(good, _SIGNATURE_TYPE, *NNI)
    columns.put("signature_type", rows, info.number(octets, _SIGNATURE_TYPE))
    if seen.is_present(_META).any():
        meta = _META_INFO.walk(octets, *_bounds(seen.start(_META), seen.length(_META), good))
        good &= meta.good
        meta.require(good, _CONTENT_TYPE, *NNI)
        meta.require(good, _FRESHNESS, *NNI)
        columns.put("content_type", rows, meta.number(octets, _CONTENT_TYPE))
        columns.put("freshness_ns", rows, meta.number(octets, _FRESHNESS, 0, MS))
    else:
        columns.put("content_type", rows, 0)
        columns.put("freshness_ns", rows, 0)
    slow[rows[~good]] = True
    columns.put_texts("kind", rows, 0, [KINDS[ITEM]])
    columns.put("content_bytes", rows, seen.length(_CONTENT))
    columns.put("payload_bytes", rows, seen.length(_CONTENT))
    found.names[rows[good]], found.lengths[rows[good]] = seen.start(NAME)[good], seen.length(NAME)[good]
    found.contents[rows] = seen.start(_CONTENT)


def _bounds(start: Ints, length: Ints, good: Flags) -> tuple[Ints, Ints]:
    start = np.where(good, start, 0)
    return start, np.where(good, start + length, start)


def _decode_names(octets: Octets, columns: Columns, slow: Flags, found: _Bodies) -> None:
    rows = np.flatnonzero((found.names > 0) & ~slow)
    if not len(rows):
        return
    names = read_names(octets, found.names[rows], found.lengths[rows])
    good, feed, seq = names.good[names.of], names.feed[names.of], names.seq[names.of]
    is_item = feed >= 0
    # SendCredit is for feed items.
    _, is_lli = columns.of("send_credit")
    slow[rows[~good | is_lli[rows] & ~is_item]] = True
    columns.put_texts("name", rows, names.of, names.uri)
    columns.put("name_length", rows, found.lengths[rows])
    if is_item.any():
        items = rows[is_item]
        columns.put_texts("feed", items, feed[is_item], names.feeds)
        columns.put("seq", items, seq[is_item])
        _decode_payloads(octets, items, found.contents, columns)


def _decode_payloads(octets: Octets, rows: Ints, contents: Ints, columns: Columns) -> None:
    """Locate the application's message in the Content of items."""
    total, _ = columns.of("content_bytes")
    rows = rows[(contents[rows] > 0) & (total[rows] > 0)]
    at, size = contents[rows], total[rows]
    kind, start, length, good = headers(octets, at)
    chained = np.flatnonzero(good & (kind == BACKLINK) & (start + length < at + size))
    if len(chained):
        after = headers(octets, start[chained] + length[chained])
        kind[chained], length[chained], good[chained] = after.kind, after.length, after.good
        start[chained] = after.start
    is_message = good & ((kind == PAYLOAD) | (kind == SSB_MESSAGE)) & (start <= at + size)
    columns.put("payload_bytes", rows[is_message], np.minimum(length, size)[is_message])
    for place in np.flatnonzero(~is_message).tolist():
        content = octets.data[at[place] : at[place] + size[place]].tobytes()
        columns.put("payload_bytes", rows[place : place + 1], payload_bytes(content, int(size[place])))
