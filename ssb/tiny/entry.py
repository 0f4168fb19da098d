"""Entries of a feed and their side chains, in packets of 120 bytes (tinySSB's packet specification).

    entry       demultiplexer 7 | type 1 | payload 48 | signature 64
    chunk       content 100 | first 20 bytes of SHA-256 of the next chunk, zero in the last

Known to both sides, and not sent, is an entry's *name*, `"tinyssb-v0" | feed 32 | sequence 4 | previous 20`.
The demultiplexer is the first 7 bytes of the name's SHA-256: receivers match packets by it. The signature is
Ed25519 over the name and the first 56 bytes; the id is the first 20 bytes of SHA-256 over name and packet.
`previous` is the id of the preceding entry, for the first the first 20 bytes of the feed's key.

Content of type 0 is 48 bytes. Content of type 1 is of any length: the payload has this length as a varint,
as much content as fits into 28 bytes with it, and a pointer to the *side chain* with the rest.
"""

from hashlib import sha256
from typing import Final, NamedTuple

from ssb.bipf import MalformedBipf, read_varint, varint
from ssb.keys import Identity, verify

PACKET: Final = 120
"""Bytes of an entry and of a chunk, and most bytes of any packet."""
DEMUX: Final = 7
"""Bytes of a demultiplexer."""
POINTER: Final = 20
"""Bytes of an entry's id, and of a pointer to a chunk."""
KEY: Final = 32
"""Bytes of a feed's key."""
CHUNK: Final = PACKET - POINTER
"""Content of a chunk, bytes."""
PLAIN: Final = 48
"""Bytes of content of type 0."""
MAX_CONTENT: Final = 16_384
"""Most bytes of content that are accepted; bounds side chains."""
END: Final = bytes(POINTER)
"""The pointer of the last chunk."""

TYPE_PLAIN, TYPE_CHAIN = 0, 1

_PREFIX = b"tinyssb-v0"
_INLINE = 28
_SIGNED = DEMUX + 1 + PLAIN


class InvalidEntry(ValueError):
    """Not a valid entry of this feed at this position, or not its side chain; the message has the reason.

    `kind` is the reason in a word, for counters.
    """

    def __init__(self, reason: str, kind: str = "malformed") -> None:
        super().__init__(reason)
        self.kind = kind


class Entry(NamedTuple):
    """An entry from `sign` or `parse`; its side chain is not verified yet.

    Attributes:
        feed: key, 32 bytes.
        sequence: number in the feed, from 1.
        packet: 120 bytes.
        id: 20 bytes.
        length: of the content, bytes.
        inline: the content's first bytes.
        chain: pointer to the first chunk; None if there is no side chain.
    """

    feed: bytes
    sequence: int
    packet: bytes
    id: bytes
    length: int
    inline: bytes
    chain: bytes | None

    @property
    def chunks(self) -> int:
        """Number of chunks in the side chain."""
        return -(-(self.length - len(self.inline)) // CHUNK)

    def content(self, chunks: list[bytes]) -> bytes:
        """The content, from all chunks in order."""
        return (self.inline + b"".join(chunk[:CHUNK] for chunk in chunks))[: self.length]


def demultiplexer(material: bytes) -> bytes:
    """Return the 7 bytes by which receivers match a packet."""
    return sha256(_PREFIX + material).digest()[:DEMUX]


def entry_demultiplexer(feed: bytes, sequence: int, previous: bytes) -> bytes:
    """The demultiplexer of an entry, by feed, number, and id of the preceding entry."""
    return demultiplexer(feed + sequence.to_bytes(4) + previous)


def first_previous(feed: bytes) -> bytes:
    """Stands for the id of the entry before the first."""
    return feed[:POINTER]


def pointer_to(chunk: bytes) -> bytes:
    """The pointer to a chunk."""
    return sha256(chunk).digest()[:POINTER]


def sign(
    identity: Identity, sequence: int, previous: bytes, content: bytes, *, is_plain: bool = False
) -> tuple[Entry, list[bytes]]:
    """Sign content as the entry at a position; return it and its side chain.

    `is_plain` makes an entry of type 0, whose content has 48 bytes. Raises ValueError for content that is
    too long.
    """
    feed = identity.public_key
    if is_plain:
        if len(content) != PLAIN:
            raise ValueError(f"plain content has {PLAIN} bytes, not {len(content)}")
        kind, payload, chunks = TYPE_PLAIN, content, []
    else:
        if len(content) > MAX_CONTENT:
            raise ValueError(f"content of {len(content)} bytes; {MAX_CONTENT} are possible")
        length = varint(len(content))
        room = _INLINE - len(length)
        chunks = make_chain(content[room:])
        pointer = pointer_to(chunks[0]) if chunks else END
        kind, payload = TYPE_CHAIN, length + content[:room].ljust(room, b"\0") + pointer
    name = _PREFIX + feed + sequence.to_bytes(4) + previous
    head = sha256(name).digest()[:DEMUX] + bytes((kind,)) + payload
    packet = head + identity.sign(name + head)
    return read(packet, feed, sequence, _id(name, packet)), chunks


def packets_of(length: int) -> int:
    """Return the number of packets of an entry with `length` bytes of content, its side chain included."""
    return 1 + max(-(-(length - _INLINE + len(varint(length))) // CHUNK), 0)


def make_chain(content: bytes) -> list[bytes]:
    """Return the side chain of this content, in order; it is built from its end."""
    chunks: list[bytes] = []
    pointer = END
    for at in range((len(content) - 1) // CHUNK * CHUNK, -1, -CHUNK):
        chunk = content[at : at + CHUNK].ljust(CHUNK, b"\0") + pointer
        pointer = pointer_to(chunk)
        chunks.append(chunk)
    return chunks[::-1]


def parse(packet: bytes, feed: bytes, sequence: int, previous: bytes) -> Entry:
    """Parse an entry whose demultiplexer is that of this position. Raises InvalidEntry."""
    if len(packet) != PACKET:
        raise InvalidEntry(f"a packet of {len(packet)} bytes")
    name = _PREFIX + feed + sequence.to_bytes(4) + previous
    if packet[:DEMUX] != sha256(name).digest()[:DEMUX]:
        raise InvalidEntry("the packet is not of this place")
    if not verify(feed, packet[_SIGNED:], name + packet[:_SIGNED]):
        raise InvalidEntry("the signature does not verify", "forged")
    return read(packet, feed, sequence, _id(name, packet))


def _id(name: bytes, packet: bytes) -> bytes:
    return sha256(name + packet).digest()[:POINTER]


def read(packet: bytes, feed: bytes, sequence: int, id: bytes) -> Entry:  # noqa: A002 - the field's own name
    """Parse an entry whose signature was verified. Raises InvalidEntry if its payload is malformed."""
    kind, payload = packet[DEMUX], packet[DEMUX + 1 : _SIGNED]
    if kind == TYPE_PLAIN:
        return Entry(feed, sequence, packet, id, PLAIN, payload, None)
    if kind != TYPE_CHAIN:
        raise InvalidEntry(f"type {kind}")
    try:
        length, at = read_varint(payload, 0, _INLINE)
    except MalformedBipf as error:
        raise InvalidEntry(f"length: {error}") from None
    if length > MAX_CONTENT:
        raise InvalidEntry(f"content of {length} bytes")
    inline = payload[at:_INLINE][:length]
    chain = payload[_INLINE:] if len(inline) < length else None
    return Entry(feed, sequence, packet, id, length, inline, chain)


def check_chain(entry: Entry, chunks: list[bytes]) -> None:
    """Check that chunks are an entry's complete side chain. Raises InvalidEntry."""
    if len(chunks) != entry.chunks:
        raise InvalidEntry(f"{len(chunks)} of {entry.chunks} chunks")
    pointer = entry.chain
    for chunk in chunks:
        if pointer_to(chunk) != pointer:
            raise InvalidEntry("a chunk that nothing points to")
        pointer = chunk[CHUNK:]
