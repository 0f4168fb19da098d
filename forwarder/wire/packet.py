"""Interest and Data (NDN packet format 0.3): views of received bytes, and builders.

A view holds the packet's own bytes as `wire` and only the fields that a forwarder acts on. The name
inside is not walked here: whoever needs its components calls :mod:`forwarder.wire.name`, which raises
MalformedPacket if it is not well formed.
"""

import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from struct import Struct
from typing import Final

from forwarder.wire.evidence import Evidence, decode_evidence, encode_evidence
from forwarder.wire.feed import is_item_name
from forwarder.wire.name import NAME
from forwarder.wire.tlv import (
    MalformedPacket,
    check_ignorable,
    element,
    elements,
    nni,
    read_header,
    read_nni,
)

INTEREST: Final = 5
DATA: Final = 6

_NONCE: Final = 10
_LIFETIME: Final = 12
_MUST_BE_FRESH: Final = 18
_FORWARDING_HINT: Final = 30
_CAN_BE_PREFIX: Final = 33
_HOP_LIMIT: Final = 34
_PARAMETERS: Final = 36
_INTEREST_SIGNATURE_INFO: Final = 44
_INTEREST_SIGNATURE_VALUE: Final = 46
SEND_CREDIT: Final = 240
"""Ours: an Interest with this element is a long-lived Interest. Even and in the application range, so a
forwarder that does not know it ignores it (docs/controlled-push.md)."""
KNOWN: Final = 252
"""Ours: the evidence of a source that an LLI's sender has; only better evidence is of use to it."""

_META_INFO: Final = 20
_CONTENT: Final = 21
_SIGNATURE_INFO: Final = 22
_SIGNATURE_VALUE: Final = 23
_CONTENT_TYPE: Final = 24
_FRESHNESS: Final = 25
_FINAL_BLOCK: Final = 26
_SIGNATURE_TYPE: Final = 27
_KEY_LOCATOR: Final = 28
_VALIDITY_PERIOD: Final = 253  # of a certificate; odd and yet meant to be ignored by who does not know it

DIGEST_SHA256: Final = 0
SHA256_WITH_RSA: Final = 1
SHA256_WITH_ECDSA: Final = 3
ED25519: Final = 5

KEY_CONTENT: Final = 2
"""ContentType of a certificate."""

DEFAULT_LIFETIME_MS: Final = 4000

LARGEST_PACKET: Final = 8800
"""Largest Interest or Data packet that every node passes on, bytes (ndn-cxx MAX_NDN_PACKET_SIZE)."""

MOST_LIFETIME_MS: Final = 3_600_000
"""Longest lifetime of an Interest, ms: state must end, whatever InterestLifetime is."""
SENT_HOP_LIMIT: Final = 128
"""HopLimit that our own consumers and relays put into their Interests: as far as evidence comes back."""


class Interest:
    """A received Interest.

    Attributes:
        wire: the packet.
        name: its name (see :mod:`forwarder.wire.name`).
        can_be_prefix, must_be_fresh: its selectors.
        nonce: 32-bit number; None if absent: the first forwarder adds it.
        lifetime_ms: InterestLifetime, milliseconds.
        hop_limit: 0 to 255, or None if absent.
        send_credit: SendCredit, items; None makes this a classic Interest. An element of that type that is no
            number, or in an Interest that does not name an item, is somebody else's.
        known: Known, the evidence of a source that the sender of an LLI holds; None if absent or empty.
        is_aware: Known is there: the sender of an LLI understands Hellos.
        forwarding_hint: names of delegations, in order of preference; empty if there is none.
    """

    __slots__ = (
        "_hint_at",
        "_hop_limit_at",
        "_nonce_at",
        "can_be_prefix",
        "forwarding_hint",
        "hop_limit",
        "is_aware",
        "known",
        "lifetime_ms",
        "must_be_fresh",
        "name",
        "nonce",
        "send_credit",
        "wire",
    )

    def __init__(self, wire: bytes, name: bytes) -> None:
        self.wire = wire
        self.name = name
        self.can_be_prefix = False
        self.must_be_fresh = False
        self.nonce: int | None = None
        self.lifetime_ms = DEFAULT_LIFETIME_MS
        self.hop_limit: int | None = None
        self.send_credit: int | None = None
        self.known: Evidence | None = None
        self.is_aware = False
        self.forwarding_hint: tuple[bytes, ...] = ()
        self._hop_limit_at = 0
        self._hint_at = (0, 0)
        self._nonce_at = 0

    def next_hop_wire(self) -> bytes:
        """Return the packet with its HopLimit, if it has one and that is not 0, lowered by one."""
        if self.hop_limit is None:
            return self.wire
        at = self._hop_limit_at
        return self.wire[:at] + (self.hop_limit - 1).to_bytes(1, "big") + self.wire[at + 1 :]

    def without_hint(self) -> bytes:
        """Return the packet without its ForwardingHint: it has reached the region where its name leads."""
        wire = self.wire
        _, start, size = read_header(wire, 0, len(wire))
        first, end = self._hint_at
        return element(INTEREST, wire[start:first] + wire[end:size]) if end else wire

    def with_hint(self, delegations: Sequence[bytes]) -> bytes:
        """Return the packet with this ForwardingHint, in place of the one that it may have."""
        wire = self.without_hint()
        _, start, size = read_header(wire, 0, len(wire))
        at = start
        for kind, _, end in elements(wire, start, size):
            if kind in _BEFORE_HINT:
                at = end
        hint = b"".join(element(NAME, delegation) for delegation in delegations)
        return element(INTEREST, wire[start:at] + element(_FORWARDING_HINT, hint) + wire[at:])

    def with_nonce(self, nonce: int) -> bytes:
        """Return the packet with this Nonce, in place of the one that it may have."""
        wire = self.wire
        if self._nonce_at:
            return wire[: self._nonce_at] + nonce.to_bytes(4, "big") + wire[self._nonce_at + 4 :]
        _, start, size = read_header(wire, 0, len(wire))
        at = start
        for kind, _, end in elements(wire, start, size):
            if kind in _BEFORE_NONCE:
                at = end
        return element(INTEREST, wire[start:at] + element(_NONCE, nonce.to_bytes(4, "big")) + wire[at:])


# Elements of an Interest in the order that the specification demands. SendCredit, being non-critical,
# is accepted anywhere after the name.
_INTEREST_ORDER: Final = {
    kind: rank
    for rank, kind in enumerate(
        (
            _CAN_BE_PREFIX,
            _MUST_BE_FRESH,
            _FORWARDING_HINT,
            _NONCE,
            _LIFETIME,
            _HOP_LIMIT,
            _PARAMETERS,
            _INTEREST_SIGNATURE_INFO,
            _INTEREST_SIGNATURE_VALUE,
        )
    )
}
_UINT32: Final = Struct(">I")
_BEFORE_HINT: Final = (NAME, _CAN_BE_PREFIX, _MUST_BE_FRESH)
_BEFORE_NONCE: Final = (NAME, _CAN_BE_PREFIX, _MUST_BE_FRESH, _FORWARDING_HINT)


def parse_interest(wire: bytes) -> Interest:
    """Parse a whole Interest; raise MalformedPacket."""
    kind, at, end = read_header(wire, 0, len(wire))
    if kind != INTEREST:
        raise MalformedPacket("not an Interest")
    if end != len(wire):
        raise MalformedPacket("bytes after the packet")
    kind, start, at = read_header(wire, at, end) if at < end else (0, at, at)
    if kind != NAME:
        raise MalformedPacket("without Name")
    if start == at:
        raise MalformedPacket("empty Name")
    interest = Interest(wire, wire[start:at])
    rank = -1
    has_credit = False
    while at < end:
        begin = at
        kind, start, at = read_header(wire, at, end)
        if kind == SEND_CREDIT and not has_credit:
            has_credit = True
            if at - start in (1, 2, 4, 8) and is_item_name(interest.name):
                interest.send_credit = read_nni(wire[start:at])
            continue
        if kind == KNOWN:
            if interest.send_credit is not None and not interest.is_aware:
                interest.is_aware = True
                with suppress(MalformedPacket):
                    interest.known = decode_evidence(wire[start:at])
            continue
        place = _INTEREST_ORDER.get(kind, -1)
        if place <= rank:
            # Unknown, or out of order, which counts as unknown.
            check_ignorable(kind, kind in _INTEREST_ORDER or kind == NAME)
            continue
        rank = place
        if kind == _NONCE:
            if at - start != 4:
                raise MalformedPacket(f"Nonce of {at - start} bytes")
            (interest.nonce,) = _UINT32.unpack_from(wire, start)
            interest._nonce_at = start
        elif kind == _LIFETIME:
            interest.lifetime_ms = read_nni(wire[start:at])
        elif kind == _HOP_LIMIT:
            if at - start != 1:
                raise MalformedPacket(f"HopLimit of {at - start} bytes")
            interest.hop_limit = wire[start]
            interest._hop_limit_at = start
        elif kind == _CAN_BE_PREFIX:
            interest.can_be_prefix = _flag("CanBePrefix", start, at)
        elif kind == _MUST_BE_FRESH:
            interest.must_be_fresh = _flag("MustBeFresh", start, at)
        elif kind == _FORWARDING_HINT:
            interest.forwarding_hint = _parse_hint(wire, start, at)
            interest._hint_at = (begin, at)
    return interest


def _parse_hint(wire: bytes, at: int, end: int) -> tuple[bytes, ...]:
    names = []
    while at < end:
        kind, start, at = read_header(wire, at, end)
        if kind != NAME:
            check_ignorable(kind)
        elif start < at:
            names.append(wire[start:at])
    return tuple(names)


def _flag(title: str, start: int, end: int) -> bool:
    if start != end:
        raise MalformedPacket(f"{title} of {end - start} bytes")
    return True


def make_interest(
    name: bytes,
    *,
    nonce: int,
    can_be_prefix: bool = False,
    must_be_fresh: bool = False,
    lifetime_ms: int | None = None,
    hop_limit: int | None = None,
    send_credit: int | None = None,
    known: Evidence | None = None,
    is_aware: bool = False,
    forwarding_hint: Sequence[bytes] = (),
) -> bytes:
    """Build an Interest; with `send_credit`, a long-lived one, of a sender that `is_aware` of Hellos."""
    fields = [element(NAME, name)]
    if can_be_prefix:
        fields.append(element(_CAN_BE_PREFIX))
    if must_be_fresh:
        fields.append(element(_MUST_BE_FRESH))
    if forwarding_hint:
        hint = b"".join(element(NAME, delegation) for delegation in forwarding_hint)
        fields.append(element(_FORWARDING_HINT, hint))
    fields.append(element(_NONCE, nonce.to_bytes(4, "big")))
    if lifetime_ms is not None:
        fields.append(element(_LIFETIME, nni(lifetime_ms)))
    if hop_limit is not None:
        fields.append(element(_HOP_LIMIT, bytes((hop_limit,))))
    if send_credit is not None:
        fields.append(element(SEND_CREDIT, nni(send_credit)))
    if known is not None or is_aware:
        fields.append(element(KNOWN, b"" if known is None else encode_evidence(known)))
    return element(INTEREST, b"".join(fields))


def read_name(wire: bytes) -> bytes:
    """Return the name of an Interest or Data packet without parsing the rest; raise MalformedPacket."""
    kind, at, end = read_header(wire, 0, len(wire))
    if kind not in (INTEREST, DATA):
        raise MalformedPacket("neither Interest nor Data")
    kind, start, at = read_header(wire, at, end) if at < end else (0, at, at)
    if kind != NAME:
        raise MalformedPacket("without Name")
    return wire[start:at]


class Data:
    """A received Data packet.

    Attributes:
        wire: the packet.
        name: its name.
        content_type: ContentType, 0 (BLOB) if absent.
        freshness_ms: FreshnessPeriod, milliseconds, 0 if absent.
        signature_type: SignatureType, e.g. DIGEST_SHA256 or ED25519.
    """

    __slots__ = (
        "_content_span",
        "_final_span",
        "_signature_span",
        "_signed_span",
        "content_type",
        "freshness_ms",
        "name",
        "signature_type",
        "wire",
    )

    def __init__(self, wire: bytes, name: bytes) -> None:
        self.wire = wire
        self.name = name
        self.content_type = 0
        self.freshness_ms = 0
        self.signature_type = DIGEST_SHA256
        # Offsets, cut out on demand: a forwarder needs neither content nor signature.
        self._content_span = self._final_span = self._signed_span = self._signature_span = (0, 0)

    @property
    def content(self) -> bytes:
        """Content's TLV-VALUE, empty if absent."""
        start, end = self._content_span
        return self.wire[start:end]

    @property
    def final_block(self) -> bytes:
        """FinalBlockId's TLV-VALUE, a name component; empty if absent."""
        start, end = self._final_span
        return self.wire[start:end]

    @property
    def signed(self) -> bytes:
        """The signed portion: Name and all that follows, short of SignatureValue."""
        start, end = self._signed_span
        return self.wire[start:end]

    @property
    def signature(self) -> bytes:
        """SignatureValue's TLV-VALUE."""
        start, end = self._signature_span
        return self.wire[start:end]

    def digest(self) -> bytes:
        """Return the implicit digest: SHA-256 of the whole packet, 32 bytes."""
        return hashlib.sha256(self.wire).digest()


# The elements of Data, MetaInfo and SignatureInfo stand in the order of their types. One whose type is not
# above that of the last known one, or is above that of all known ones, is unknown or out of order.


def parse_data(wire: bytes) -> Data:
    """Parse a whole Data packet; raise MalformedPacket."""
    kind, at, end = read_header(wire, 0, len(wire))
    if kind != DATA:
        raise MalformedPacket("not a Data packet")
    if end != len(wire):
        raise MalformedPacket("bytes after the packet")
    signed_from = at
    kind, start, at = read_header(wire, at, end) if at < end else (0, at, at)
    if kind != NAME:
        raise MalformedPacket("without Name")
    data = Data(wire, wire[start:at])
    signature_type = None
    rank = _META_INFO - 1
    while at < end:
        element_at = at
        kind, start, at = read_header(wire, at, end)
        if not rank < kind <= _SIGNATURE_VALUE:
            check_ignorable(kind, _META_INFO <= kind <= _SIGNATURE_VALUE or kind == NAME)
            continue
        rank = kind
        if kind == _CONTENT:
            data._content_span = (start, at)
        elif kind == _META_INFO:
            _parse_meta_info(data, start, at)
        elif kind == _SIGNATURE_INFO:
            data.signature_type = signature_type = _parse_signature_type(wire, start, at)
        else:
            data._signed_span = (signed_from, element_at)
            data._signature_span = (start, at)
    if signature_type is None or rank != _SIGNATURE_VALUE:
        raise MalformedPacket(f"without {'SignatureInfo' if signature_type is None else 'SignatureValue'}")
    return data


def _parse_meta_info(data: Data, at: int, end: int) -> None:
    wire, rank = data.wire, _CONTENT_TYPE - 1
    while at < end:
        kind, start, at = read_header(wire, at, end)
        if not rank < kind <= _FINAL_BLOCK:
            check_ignorable(kind, _CONTENT_TYPE <= kind <= _FINAL_BLOCK)
            continue
        rank = kind
        if kind == _FRESHNESS:
            data.freshness_ms = read_nni(wire[start:at])
        elif kind == _CONTENT_TYPE:
            data.content_type = read_nni(wire[start:at])
        elif kind == _FINAL_BLOCK:
            data._final_span = (start, at)


def _parse_signature_type(wire: bytes, at: int, end: int) -> int:
    signature_type = None
    rank = _SIGNATURE_TYPE - 1
    while at < end:
        kind, start, at = read_header(wire, at, end)
        if not rank < kind <= _KEY_LOCATOR:
            if kind != _VALIDITY_PERIOD:
                check_ignorable(kind, _SIGNATURE_TYPE <= kind <= _KEY_LOCATOR)
            continue
        rank = kind
        if kind == _SIGNATURE_TYPE:
            signature_type = read_nni(wire[start:at])
    if signature_type is None:
        raise MalformedPacket("without SignatureType")
    return signature_type


def make_data(
    name: bytes,
    content: bytes,
    *,
    freshness_ms: int | None = None,
    content_type: int | None = None,
    final_block: bytes | None = None,
    signature_type: int = DIGEST_SHA256,
    key_name: bytes | None = None,
    more_info: bytes = b"",
    sign: Callable[[bytes], bytes] | None = None,
) -> bytes:
    """Build a Data packet.

    `sign` maps the signed portion to the signature; without it the packet carries its SHA-256
    (DigestSha256), which guards integrity and nothing more. `key_name` goes into a KeyLocator,
    `final_block`, a name component, into FinalBlockId, `more_info` behind it into SignatureInfo.
    """
    meta = b""
    if content_type is not None:
        meta += element(_CONTENT_TYPE, nni(content_type))
    if freshness_ms is not None:
        meta += element(_FRESHNESS, nni(freshness_ms))
    if final_block is not None:
        meta += element(_FINAL_BLOCK, final_block)
    info = element(_SIGNATURE_TYPE, nni(signature_type))
    if key_name is not None:
        info += element(_KEY_LOCATOR, element(NAME, key_name))
    info += more_info
    signed = element(NAME, name)
    if meta:
        signed += element(_META_INFO, meta)
    signed += element(_CONTENT, content) + element(_SIGNATURE_INFO, info)
    signature = sign(signed) if sign else hashlib.sha256(signed).digest()
    return element(DATA, signed + element(_SIGNATURE_VALUE, signature))
