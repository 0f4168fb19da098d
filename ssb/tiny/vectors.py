"""Want and chunk vectors: the entries and chunks that a node lacks of the feeds in a set.

Both name feeds by their positions in the sorted set, and are understood only where the set is the same: their
demultiplexer is made of the set's *state*, the XOR of all keys.

    want        demultiplexer of "want" and state | BIPF [offset, sequence, sequence, ...]
    chunks      demultiplexer of "blob" and state | BIPF [[place, sequence, chunk], ...]

A want vector has the next missing entry of each feed from the position `offset` on. In a chunk vector,
sequence numbers count from 1 and chunks from 0. Neither is padded.
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final, NamedTuple

from ssb.bipf import MalformedBipf, Value, decode, encode, encode_list
from ssb.tiny.entry import DEMUX, PACKET, demultiplexer

CREDIT: Final = 3
"""Most packets that a node sends for one vector."""
_ROOM: Final = PACKET - DEMUX - 2  # the list's own tag has two bytes at most
_MOST_SEQUENCE: Final = (1 << 32) - 1


class MalformedVector(ValueError):
    """Not a vector; the message has the reason."""


class Missing(NamedTuple):
    """A chunk: the feed's position in its set, the entry's sequence number, the chunk's number from 0."""

    place: int
    sequence: int
    number: int


def want_demultiplexer(state: bytes) -> bytes:
    """The demultiplexer of want vectors for a set."""
    return demultiplexer(b"want" + state)


def chunk_demultiplexer(state: bytes) -> bytes:
    """The demultiplexer of chunk vectors for a set."""
    return demultiplexer(b"blob" + state)


def make_want(state: bytes, offset: int, wanted: Iterable[int]) -> tuple[bytes, int]:
    """Return a want vector for feeds from a position on, and how many of them fit."""
    parts = _as_many_as_fit(chain((offset,), wanted))
    return want_demultiplexer(state) + encode_list(parts), len(parts) - 1


def make_chunk_vector(state: bytes, missing: Iterable[Missing]) -> tuple[bytes, int]:
    """Return a chunk vector, and how many chunks fit."""
    parts = _as_many_as_fit(missing)
    return chunk_demultiplexer(state) + encode_list(parts), len(parts)


def read_want(packet: bytes, size: int) -> dict[int, int]:
    """Parse a want vector for a set of `size` keys: the next entry number by the feed's position.

    Raises MalformedVector.
    """
    body = _list(packet)
    numbers = _numbers(body, _MOST_SEQUENCE)
    if len(numbers) < 2 or len(numbers) - 1 > size or numbers[0] >= size:
        raise MalformedVector("a want vector has an offset, and at most a number for each feed")
    offset, *wanted = numbers
    return {(offset + at) % size: max(sequence, 1) for at, sequence in enumerate(wanted)}


def read_chunk_vector(packet: bytes, size: int) -> list[Missing]:
    """Parse a chunk vector for a set of `size` keys. Raises MalformedVector."""
    found = []
    for part in _list(packet):
        if not isinstance(part, list) or len(part) != 3:
            raise MalformedVector("a chunk has a place, a sequence number and a number")
        place, sequence, number = _numbers(part, _MOST_SEQUENCE)
        if place >= size:
            raise MalformedVector(f"there is no feed {place}")
        found.append(Missing(place, sequence, number))
    return found


def _as_many_as_fit(values: Iterable[Value]) -> list[bytes]:
    """Return the encodings of the first values, as many as fit into a vector."""
    parts: list[bytes] = []
    room = _ROOM
    for value in values:
        part = encode(value)
        room -= len(part)
        if room < 0:
            break
        parts.append(part)
    return parts


def _list(packet: bytes) -> Sequence[Value]:
    try:
        body = decode(packet[DEMUX:], unsigned=True)
    except MalformedBipf as error:
        raise MalformedVector(str(error)) from None
    if not isinstance(body, list):
        raise MalformedVector("not a list")
    return body


def _numbers(parts: Sequence[Value], most: int) -> list[int]:
    numbers = [part for part in parts if isinstance(part, int) and not isinstance(part, bool)]
    if len(numbers) != len(parts) or any(number > most for number in numbers):
        raise MalformedVector("not a list of numbers")
    return numbers
