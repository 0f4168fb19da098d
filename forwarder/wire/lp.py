"""NDNLPv2, the link adaptation layer (NFD wiki, "NDNLPv2", revision 63).

An LpPacket carries header fields and one Fragment of a network-layer packet. A bare Interest or Data is
equivalent to an LpPacket with nothing but a Fragment, and is how most packets travel.
"""

from collections.abc import Iterable
from typing import Final

from forwarder.wire.evidence import Evidence, decode_evidence, encode_evidence
from forwarder.wire.packet import DATA, INTEREST, Data, Interest, parse_data, parse_interest
from forwarder.wire.tlv import MalformedPacket, check_ignorable, element, nni, read_header, read_nni

LP_PACKET: Final = 100
FRAGMENT: Final = 0x50
SEQUENCE: Final = 0x51
FRAG_INDEX: Final = 0x52
FRAG_COUNT: Final = 0x53
_PIT_TOKEN: Final = 0x62
_NACK: Final = 0x0320
_NACK_REASON: Final = 0x0321
_INCOMING_FACE: Final = 0x032C
_NEXT_HOP_FACE: Final = 0x0330
_CACHE_POLICY: Final = 0x0334
_CACHE_POLICY_TYPE: Final = 0x0335
CONGESTION_MARK: Final = 0x0340
ACK: Final = 0x0344  # the one field that may be repeated
TX_SEQUENCE: Final = 0x0348
_NON_DISCOVERY: Final = 0x034C
_PREFIX_ANNOUNCEMENT: Final = 0x0350
FEED_STATE: Final = 0x0370
"""Ours: the sender's state of the feed of a pushed item. A non-critical header field."""
_FEED: Final = 7  # a Name
_TIP: Final = 0x0371
_LIMIT: Final = 0x0372
_FIRST: Final = 0x0373
_EVIDENCE: Final = 0x0374
HELLO: Final = 0x0378
"""Ours: a message about all feeds of the link (forwarder.wire.hello). Non-critical, too."""

CONGESTION: Final = 50
DUPLICATE: Final = 100
NO_ROUTE: Final = 150
_UNSPECIFIED: Final = 0

NO_CACHE: Final = 1
"""The one CachePolicyType that there is."""


class LpPacket:
    """A received LpPacket, or a bare packet seen as one.

    Attributes:
        fragment: the network-layer packet, or one fragment of it; empty for an idle packet.
        sequence: Sequence, a 64-bit number, or None.
        frag_index, frag_count: place of this fragment and number of fragments; 0 and 1 if whole.
        nack_reason: None unless a Nack; 0 if the Nack gives no reason.
        pit_token: opaque bytes to be returned with the answer, or None.
        congestion_mark: 0 if absent.
        incoming_face: IncomingFaceId, for applications; None if absent.
        next_hop_face: NextHopFaceId, by which an application chooses an Interest's next hop; None if absent.
        cache_policy: CachePolicyType: NO_CACHE, or 0 if the type is missing; None if the field is absent.
        tx_sequence: TxSequence of this frame, to be acknowledged; None if absent.
        acks: acknowledged TxSequences.
        non_discovery: the Interest is not to be flooded where no route is known.
        announcement: PrefixAnnouncement's content, a Data packet; None if absent.
        tip, limit: FeedState: newest item that the sender has verified, and last item that it will push under
            its credit; both None if absent.
        feed: FeedState's Name, in a packet without a fragment; None if absent.
        first: FeedState's First: the oldest item that the sender can push; None if absent.
        evidence: FeedState's Evidence of a source; None if absent.
        hello: Hello's value, in a packet without a fragment; None if absent.
    """

    __slots__ = (
        "acks",
        "announcement",
        "cache_policy",
        "congestion_mark",
        "evidence",
        "feed",
        "first",
        "frag_count",
        "frag_index",
        "fragment",
        "hello",
        "incoming_face",
        "limit",
        "nack_reason",
        "next_hop_face",
        "non_discovery",
        "pit_token",
        "sequence",
        "tip",
        "tx_sequence",
    )

    def __init__(self, fragment: bytes = b"") -> None:
        self.fragment = fragment
        self.sequence: int | None = None
        self.frag_index = 0
        self.frag_count = 1
        self.nack_reason: int | None = None
        self.pit_token: bytes | None = None
        self.congestion_mark = 0
        self.incoming_face: int | None = None
        self.next_hop_face: int | None = None
        self.cache_policy: int | None = None
        self.tx_sequence: int | None = None
        self.acks: list[int] = []
        self.non_discovery = False
        self.announcement: bytes | None = None
        self.tip: int | None = None
        self.limit: int | None = None
        self.feed: bytes | None = None
        self.first: int | None = None
        self.evidence: Evidence | None = None
        self.hello: bytes | None = None

    @property
    def feed_state(self) -> tuple[int, int] | None:
        """FeedState's Tip and Limit; None if it is absent."""
        return None if self.tip is None or self.limit is None else (self.tip, self.limit)


def parse_lp(frame: bytes) -> LpPacket:
    """Parse an LpPacket or a bare Interest or Data; raise MalformedPacket."""
    kind, at, end = read_header(frame, 0, len(frame))
    if end != len(frame):
        raise MalformedPacket("bytes after the packet")
    if kind in (INTEREST, DATA):
        return LpPacket(frame)
    if kind != LP_PACKET:
        raise MalformedPacket("neither Interest, Data nor LpPacket")
    packet = LpPacket()
    last = 0
    while at < end:
        kind, start, at = read_header(frame, at, end)
        if kind == FRAGMENT:
            if at != end:
                raise MalformedPacket("Fragment is an LpPacket's last field")
            packet.fragment = frame[start:at]
            break
        if kind < last or (kind == last and kind != ACK):
            raise MalformedPacket(f"LpPacket field of type {kind} out of order or repeated")
        last = kind
        if kind == SEQUENCE:
            packet.sequence = _read_sequence("Sequence", frame, start, at)
        elif kind == FRAG_INDEX:
            packet.frag_index = read_nni(frame[start:at])
        elif kind == FRAG_COUNT:
            packet.frag_count = read_nni(frame[start:at])
        elif kind == _PIT_TOKEN:
            if not 1 <= at - start <= 32:
                raise MalformedPacket(f"PitToken of {at - start} bytes")
            packet.pit_token = frame[start:at]
        elif kind == _NACK:
            packet.nack_reason = _numbers(frame, start, at, (_NACK_REASON,)).get(_NACK_REASON, _UNSPECIFIED)
        elif kind == CONGESTION_MARK:
            packet.congestion_mark = read_nni(frame[start:at])
        elif kind == FEED_STATE:
            _read_feed_state(packet, frame, start, at)
        elif kind == HELLO:
            packet.hello = frame[start:at]
        elif kind == ACK:
            packet.acks.append(_read_sequence("Ack", frame, start, at))
        elif kind == TX_SEQUENCE:
            packet.tx_sequence = _read_sequence("TxSequence", frame, start, at)
        elif kind == _NEXT_HOP_FACE:
            packet.next_hop_face = read_nni(frame[start:at])
        elif kind == _INCOMING_FACE:
            packet.incoming_face = read_nni(frame[start:at])
        elif kind == _CACHE_POLICY:
            packet.cache_policy = _numbers(frame, start, at, (_CACHE_POLICY_TYPE,)).get(_CACHE_POLICY_TYPE, 0)
        elif kind == _NON_DISCOVERY:
            packet.non_discovery = True
        elif kind == _PREFIX_ANNOUNCEMENT:
            packet.announcement = frame[start:at]
        elif not (800 <= kind <= 959 and kind & 3 == 0):
            raise MalformedPacket(f"unrecognised LpPacket field of type {kind}")
    if packet.frag_index >= packet.frag_count:
        raise MalformedPacket("FragIndex is not below FragCount")
    return packet


def _read_sequence(title: str, frame: bytes, start: int, end: int) -> int:
    if end - start != 8:
        raise MalformedPacket(f"{title} of {end - start} bytes")
    return int.from_bytes(frame[start:end], "big")


def _numbers(frame: bytes, at: int, end: int, kinds: tuple[int, ...]) -> dict[int, int]:
    """Read the numbers of the given types, at most one of each and in this order, that a field holds."""
    numbers: dict[int, int] = {}
    last = 0
    while at < end:
        kind, start, at = read_header(frame, at, end)
        if kind not in kinds or kind <= last:
            check_ignorable(kind, kind in kinds)
            continue
        last = kind
        numbers[kind] = read_nni(frame[start:at])
    return numbers


def _read_feed_state(packet: LpPacket, frame: bytes, at: int, end: int) -> None:
    if frame[at : at + 1] == bytes((_FEED,)) and at < end:
        _, start, at = read_header(frame, at, end)
        packet.feed = frame[start:at]
    state: dict[int, int] = {}
    last = 0
    while at < end:
        kind, start, at = read_header(frame, at, end)
        if kind not in _STATE_FIELDS or kind <= last:
            check_ignorable(kind, kind in _STATE_FIELDS)
            continue
        last = kind
        if kind == _EVIDENCE:
            packet.evidence = decode_evidence(frame[start:at])
        else:
            state[kind] = read_nni(frame[start:at])
    if _TIP not in state or _LIMIT not in state:
        raise MalformedPacket(f"without {'Limit' if _TIP in state else 'Tip'}")
    packet.tip, packet.limit, packet.first = state[_TIP], state[_LIMIT], state.get(_FIRST)


_STATE_FIELDS: Final = (_TIP, _LIMIT, _FIRST, _EVIDENCE)


def make_feed_state(
    feed: bytes, *, tip: int, limit: int, first: int | None = None, evidence: Evidence | None = None
) -> bytes:
    """Build the LpPacket without a Fragment that answers an LLI when there is nothing to push yet."""
    state = element(_FEED, feed) + _state(tip, limit, first, evidence)
    return element(LP_PACKET, element(FEED_STATE, state))


def _state(tip: int, limit: int, first: int | None, evidence: Evidence | None) -> bytes:
    fields = element(_TIP, nni(tip)) + element(_LIMIT, nni(limit))
    if first is not None:
        fields += element(_FIRST, nni(first))
    if evidence is not None:
        fields += element(_EVIDENCE, encode_evidence(evidence))
    return fields


def make_lp(
    fragment: bytes,
    *,
    sequence: int | None = None,
    frag_index: int = 0,
    frag_count: int = 1,
    nack_reason: int | None = None,
    pit_token: bytes | None = None,
    congestion_mark: int = 0,
    tip: int | None = None,
    limit: int | None = None,
    evidence: Evidence | None = None,
    incoming_face: int | None = None,
    next_hop_face: int | None = None,
    no_cache: bool = False,
    acks: Iterable[int] = (),
    tx_sequence: int | None = None,
    non_discovery: bool = False,
    announcement: bytes | None = None,
) -> bytes:
    """Build an LpPacket; see LpPacket for the fields. Without a fragment it is an idle packet."""
    fields = []
    if sequence is not None:
        fields.append(element(SEQUENCE, sequence.to_bytes(8, "big")))
    if frag_count > 1:
        fields.append(element(FRAG_INDEX, nni(frag_index)))
        fields.append(element(FRAG_COUNT, nni(frag_count)))
    if pit_token is not None:
        fields.append(element(_PIT_TOKEN, pit_token))
    if nack_reason is not None:
        reason = element(_NACK_REASON, nni(nack_reason)) if nack_reason else b""
        fields.append(element(_NACK, reason))
    if incoming_face is not None:
        fields.append(element(_INCOMING_FACE, nni(incoming_face)))
    if next_hop_face is not None:
        fields.append(element(_NEXT_HOP_FACE, nni(next_hop_face)))
    if no_cache:
        fields.append(element(_CACHE_POLICY, element(_CACHE_POLICY_TYPE, nni(NO_CACHE))))
    if congestion_mark:
        fields.append(element(CONGESTION_MARK, nni(congestion_mark)))
    fields += [element(ACK, ack.to_bytes(8, "big")) for ack in acks]
    if tx_sequence is not None:
        fields.append(element(TX_SEQUENCE, tx_sequence.to_bytes(8, "big")))
    if non_discovery:
        fields.append(element(_NON_DISCOVERY))
    if announcement is not None:
        fields.append(element(_PREFIX_ANNOUNCEMENT, announcement))
    if tip is not None and limit is not None:
        fields.append(element(FEED_STATE, _state(tip, limit, None, evidence)))
    if fragment:
        fields.append(element(FRAGMENT, fragment))
    return element(LP_PACKET, b"".join(fields))


def open_data(packet: bytes) -> tuple[Data, LpPacket] | None:
    """Return the Data packet in an LpPacket or bare packet, and the header; None if there is none."""
    try:
        header = parse_lp(packet)
        if header.nack_reason is None and header.fragment[:1] == bytes((DATA,)):
            return parse_data(header.fragment), header
    except MalformedPacket:
        pass
    return None


def open_interest(packet: bytes) -> Interest | None:
    """Return the Interest in an LpPacket or bare packet; None if there is none, or it is a Nack's."""
    try:
        header = parse_lp(packet)
        if header.nack_reason is None and header.fragment[:1] == bytes((INTEREST,)):
            return parse_interest(header.fragment)
    except MalformedPacket:
        pass
    return None
