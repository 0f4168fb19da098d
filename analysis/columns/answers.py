"""Names and selectors of Interests that Data may satisfy. The rules are in analysis/pit/model.py.

A key is a number here: its name's among all names at hand, and two bits for CanBePrefix and MustBeFresh.
numpy looks prefixes up, since each component of a Data's name ends one: in a Python loop over names this took
most of the time.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analysis.packet_schema import DIGEST
from captures.formats.records import Flags, Ints

CAN_BE_PREFIX, MUST_BE_FRESH = 2, 1
KEYS = 4
"""Keys per name."""

_SLASH = ord("/")


def keys_of(names: Ints, can_be_prefix: Flags, must_be_fresh: Flags) -> Ints:
    """Return the keys of Interests."""
    keys: Ints = names * KEYS + CAN_BE_PREFIX * can_be_prefix + MUST_BE_FRESH * must_be_fresh
    return keys


def satisfied(names: pa.Array, of_data: Ints, pending: Flags) -> tuple[Ints, Ints]:
    """Return pairs of a name and a key that Data of that name satisfy.

    `of_data` are the indices in `names` of Data, ascending and distinct; `pending` flags the keys with an
    Interest. Keys with CanBePrefix are satisfied by names that begin with their components, the others by
    their own name. A key with an implicit digest is satisfied by the name without it, since packets do not
    contain digests.
    """
    found = [(of_data, of_data * KEYS + flag) for flag in range(KEYS)]
    prefixes = np.flatnonzero(pending[CAN_BE_PREFIX::KEYS] | pending[CAN_BE_PREFIX | MUST_BE_FRESH :: KEYS])
    if len(prefixes) and len(of_data):
        longer, prefix = _below(names, of_data, prefixes)
        found += [(longer, prefix * KEYS + CAN_BE_PREFIX + flag) for flag in (0, MUST_BE_FRESH)]
    digests = np.flatnonzero(pc.match_substring(names, DIGEST).to_numpy(zero_copy_only=False))
    if len(digests):
        of_packet = pc.list_element(
            pc.split_pattern(names.take(pa.array(digests)), DIGEST, max_splits=1, reverse=True), 0
        )
        named = pc.fill_null(pc.index_in(of_packet, names), -1).to_numpy()
        is_there = np.isin(named, of_data)
        found += [(named[is_there], digests[is_there] * KEYS + flag) for flag in range(KEYS)]
    name, key = (np.concatenate(columns) for columns in zip(*found, strict=True))
    return name[pending[key]], key[pending[key]]


def copied(of: Ints, names: Ints, keys: Ints) -> tuple[Ints, Ints]:
    """Return the places of rows whose names are `of`, once for each of their pairs of a name and a key, and
    these keys.
    """
    order = np.argsort(names, kind="stable")
    matched = np.bincount(names, minlength=of.max(initial=0) + 1)
    times = matched[of]
    place = np.repeat(np.arange(len(of)), times)
    within = np.arange(len(place)) - np.repeat(np.cumsum(times) - times, times)
    first = np.cumsum(matched) - matched
    return place, keys[order][first[of][place] + within]


def _below(names: pa.Array, of_data: Ints, prefixes: Ints) -> tuple[Ints, Ints]:
    """Return pairs of a name of Data and one of `prefixes` that is a proper prefix of it."""
    texts = names.take(pa.array(of_data)).cast(pa.binary())
    offsets = np.frombuffer(texts.buffers()[1], np.int32, len(texts) + 1, 4 * texts.offset).astype(np.int64)
    octets = np.frombuffer(texts.buffers()[2] or b"", np.uint8)
    ends = np.flatnonzero(octets[: offsets[-1]] == _SLASH)
    data = np.searchsorted(offsets, ends, side="right") - 1
    length = ends - offsets[data]
    wanted = names.take(pa.array(prefixes)).cast(pa.binary())
    lengths = pc.binary_length(wanted).to_numpy().astype(np.int64)
    # Most prefixes have a length that no requested name has: these are not looked up.
    is_length = np.zeros(int(max(length.max(initial=0), lengths.max(initial=0))) + 1, bool)
    is_length[lengths] = True
    is_length[0] = False
    fitting = is_length[length]
    data, length = data[fitting], length[fitting]
    order = np.argsort(length, kind="stable")
    data, length = data[order], length[order]
    pairs = [(of_data[:0], prefixes[:0])]
    for each in np.unique(length).tolist():
        low, high = np.searchsorted(length, (each, each + 1))
        of_length = np.flatnonzero(lengths == each)
        cut = pc.binary_slice(texts.take(pa.array(data[low:high])), 0, each)
        place = pc.fill_null(pc.index_in(cut, wanted.take(pa.array(of_length))), -1).to_numpy()
        there = place >= 0
        pairs.append((of_data[data[low:high][there]], prefixes[of_length[place[there]]]))
    longer, prefix = (np.concatenate(columns) for columns in zip(*pairs, strict=True))
    return longer, prefix
