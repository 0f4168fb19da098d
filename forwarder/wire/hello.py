"""Hello: a message between two neighbours about all feeds of their link (docs/controlled-push.md, section 7).

A field of an LpPacket without a fragment; forwarders that do not know it ignore it. A feed is named by a
reference of 8 bytes.
"""

import hashlib
from collections.abc import Iterable
from typing import Final, NamedTuple

from forwarder.wire.evidence import Evidence, decode_evidence, encode_evidence
from forwarder.wire.lp import HELLO, LP_PACKET
from forwarder.wire.tlv import MalformedPacket, check_ignorable, element, nni, read_header, read_nni

NUMBER: Final = 0xA2
REPLY: Final = 0xA4
GRANTED: Final = 0xA6
HELD: Final = 0xA8
HAVE: Final = 0xAA
STATE: Final = 0xAC
FORGOTTEN: Final = 0xAE
NEXT: Final = 0xB0
LIMIT: Final = 0xB2
EVIDENCE: Final = 0xB4

REFERENCE_BYTES: Final = 8
MOST_STANDINGS: Final = 40
"""In one Hello: some 1000 bytes, which fit into a frame."""
MOST_PROOFS: Final = 6
"""In one Hello: more would not fit beside so many standings. What is left out is asked for."""


class Standing(NamedTuple):
    """The state of a grant at one of its two ends.

    Attributes:
        reference: of the feed.
        next: the next item to send, or the first that has not arrived; None if there is no such grant.
        limit: the last item granted; None likewise.
        evidence: of the upstream; None if it knows no source.
    """

    reference: bytes
    next: int | None = None
    limit: int | None = None
    evidence: Evidence | None = None


class Hello(NamedTuple):
    """A Hello.

    Attributes:
        number: to be echoed in a reply; None if no reply is requested.
        reply: the number of the Hello that it replies to; None if it is no reply.
        granted: digest of the receiver's grants to the sender, see digest(); None if absent.
        held: membership() of the sender's grants to the receiver, which replies with its own; None if absent.
        haves: grants of the sender, for comparison.
        states: grants of the receiver, as the sender has them.
        is_forgotten: the sender has no grants to the receiver, or has withdrawn them.
    """

    number: int | None = None
    reply: int | None = None
    granted: bytes | None = None
    held: bytes | None = None
    haves: tuple[Standing, ...] = ()
    states: tuple[Standing, ...] = ()
    is_forgotten: bool = False


def reference(feed: bytes) -> bytes:
    """Return the reference of a feed: the first bytes of the SHA-256 of its name."""
    return hashlib.sha256(feed).digest()[:REFERENCE_BYTES]


def digest(standings: Iterable[Standing]) -> bytes:
    """Return a hash that is equal at both ends of a link if they agree on all grants in one direction."""
    return hashlib.sha256(b"".join(sorted(map(encode, standings)))).digest()[:REFERENCE_BYTES]


def membership(standings: Iterable[Standing]) -> bytes:
    """Return a digest of the existing grants and their evidence, whatever their progress.

    Items in flight make no difference.
    """
    return digest(standing._replace(next=None, limit=None) for standing in standings)


def encode(standing: Standing) -> bytes:
    """Encode a standing; the bytes are alike at both ends if they agree, and there are no proofs in them."""
    value = standing.reference
    if standing.next is not None:
        value += element(NEXT, nni(standing.next))
    if standing.limit is not None:
        value += element(LIMIT, nni(standing.limit))
    if standing.evidence is not None:
        value += element(EVIDENCE, encode_evidence(standing.evidence))
    return value


def make_hello(hello: Hello) -> bytes:
    """Build the LpPacket."""
    fields = []
    if hello.number is not None:
        fields.append(element(NUMBER, nni(hello.number)))
    if hello.reply is not None:
        fields.append(element(REPLY, nni(hello.reply)))
    if hello.granted is not None:
        fields.append(element(GRANTED, hello.granted))
    if hello.held is not None:
        fields.append(element(HELD, hello.held))
    fields += [element(HAVE, encode(have)) for have in hello.haves]
    fields += [element(STATE, encode(state)) for state in hello.states]
    if hello.is_forgotten:
        fields.append(element(FORGOTTEN))
    return element(LP_PACKET, element(HELLO, b"".join(fields)))


def parse_hello(value: bytes) -> Hello:
    """Parse the field; raise MalformedPacket. Elements stand in the order of their types."""
    number = reply = granted = held = None
    is_forgotten = False
    haves: list[Standing] = []
    states: list[Standing] = []
    at, end, last = 0, len(value), 0
    while at < end:
        kind, start, at = read_header(value, at, end)
        if kind not in _KINDS or kind < last or (kind == last and kind not in (HAVE, STATE)):
            check_ignorable(kind, kind in _KINDS)
            continue
        last = kind
        inner = value[start:at]
        if kind == NUMBER:
            number = read_nni(inner)
        elif kind == REPLY:
            reply = read_nni(inner)
        elif kind == GRANTED:
            granted = _digest(inner)
        elif kind == HELD:
            held = _digest(inner)
        elif kind in (HAVE, STATE):
            (haves if kind == HAVE else states).append(_parse_standing(inner))
            if len(haves) + len(states) > MOST_STANDINGS:
                raise MalformedPacket(f"a Hello with more than {MOST_STANDINGS} standings")
        else:
            is_forgotten = True
    return Hello(number, reply, granted, held, tuple(haves), tuple(states), is_forgotten)


_KINDS: Final = (NUMBER, REPLY, GRANTED, HELD, HAVE, STATE, FORGOTTEN)


def _digest(inner: bytes) -> bytes:
    if len(inner) != REFERENCE_BYTES:
        raise MalformedPacket(f"a digest of {len(inner)} bytes")
    return inner


def _parse_standing(inner: bytes) -> Standing:
    if len(inner) < REFERENCE_BYTES:
        raise MalformedPacket("a standing without a feed")
    next_ = limit = evidence = None
    at, end, last = REFERENCE_BYTES, len(inner), 0
    while at < end:
        kind, start, at = read_header(inner, at, end)
        if kind not in (NEXT, LIMIT, EVIDENCE) or kind <= last:
            check_ignorable(kind, kind in (NEXT, LIMIT, EVIDENCE))
            continue
        last = kind
        if kind == NEXT:
            next_ = read_nni(inner[start:at])
        elif kind == LIMIT:
            limit = read_nni(inner[start:at])
        else:
            evidence = decode_evidence(inner[start:at])
    if (next_ is None) != (limit is None):
        raise MalformedPacket("a standing with one of Next and Limit")
    return Standing(inner[:REFERENCE_BYTES], next_, limit, evidence)
