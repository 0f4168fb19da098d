"""Frames to packets, one at a time, from the link layer to the application's bytes: the reference decoder.

It is plain, slow, and authoritative. analysis/decode/batch.py decodes whole windows, agrees with it, and
delegates all unusual frames to it. analysis/packet_schema.py defines the columns.

No frame can abort a job: NDN that cannot be parsed is kind "malformed", other traffic "other". Of NDNLPv2
fragments and truncated frames, the name and fields are decoded as far as present.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from analysis.decode.protocols.protocol import NDN
from analysis.decode.protocols.registry import PROTOCOLS, TCP_OTHER, protocol_of
from analysis.decode.reading import NDN_PORTS
from base.units import MS
from captures.layers.layers import CUT, ETHERNET, FRAGMENT, Ports, frame_payload
from captures.layers.old_format import OLD_FORMAT, is_old, to_current_format
from forwarder.wire.evidence import Evidence, encode_evidence
from forwarder.wire.feed import KEY_BYTES, PAYLOAD, SSB_MESSAGE, split_item
from forwarder.wire.hello import parse_hello
from forwarder.wire.lp import LP_PACKET, LpPacket, parse_lp
from forwarder.wire.name import NAME, prefix_ends, to_uri
from forwarder.wire.packet import DATA, INTEREST, Interest, parse_data, parse_interest
from forwarder.wire.persistent import is_persistent
from forwarder.wire.tlv import MalformedPacket, element, read_number

Value: TypeAlias = str | int | bool | bytes | None

LARGEST = (1 << 63) - 1
"""Maximum of Spark's signed integers; larger numbers on the wire are clamped."""
MALFORMED = "malformed NDN packet: "
"""Prefix of a problem; a short reason without offsets follows."""
_FRAGMENT = 0x50
_CONTENT = 21
_KEY_COMPONENT = 2 + KEY_BYTES


class Network(NamedTuple):
    """Columns of PACKETS from `kind` on (network layer)."""

    kind: str
    name: str | None = None
    name_length: int | None = None
    can_be_prefix: bool | None = None
    must_be_fresh: bool | None = None
    nonce: int | None = None
    lifetime_ns: int | None = None
    hop_limit: int | None = None
    send_credit: int | None = None
    is_persistent: bool | None = None
    evidence: bytes | None = None
    feed: str | None = None
    seq: int | None = None
    content_bytes: int | None = None
    payload_bytes: int | None = None
    content_type: int | None = None
    freshness_ns: int | None = None
    signature_type: int | None = None
    problem: str | None = None


class Link(NamedTuple):
    """Columns of PACKETS from `lp_bytes` to `hello` (NDNLPv2)."""

    lp_bytes: int = 0
    ndn_bytes: int = 0
    lp_sequence: int | None = None
    frag_index: int | None = None
    frag_count: int | None = None
    nack_reason: int | None = None
    pit_token: bytes | None = None
    congestion_mark: int | None = None
    feed_tip: int | None = None
    feed_limit: int | None = None
    feed_first: int | None = None
    hello: bytes | None = None


_OTHER = Network("other")
_IDLE = Network("idle")
_HELLO = Network("hello")
_SEGMENT = Network("segment")
_LATER_FRAGMENT = Network("fragment")


def decode_frame(
    frame: bytes, frame_bytes: int, link_type: int = ETHERNET, ports: Ports = NDN_PORTS
) -> tuple[Value, ...]:
    """Return the columns of PACKETS from `protocol` on for a frame of `frame_bytes` bytes on the wire."""
    found = frame_payload(frame, frame_bytes, link_type)
    if isinstance(found, str):
        network = _OTHER._replace(problem=found or None)
        return (*(None,) * 7, frame_bytes, *(0,) * 3, *(None,) * 3, *Link(), *network)
    protocol = protocol_of(found, ports)
    is_ndn = protocol == NDN
    headers = (
        protocol,
        found.transport,
        found.source or None,
        found.destination or None,
        found.source_port,
        found.destination_port,
        found.vlan,
        found.link,
        found.ip,
        found.header,
        found.length if found.tcp is not None or not is_ndn else 0,
        *(found.tcp or (None,) * 3),
    )
    if found.tcp is not None:
        return (*headers, *Link(), *(_OTHER if protocol == TCP_OTHER else _SEGMENT))
    if protocol in PROTOCOLS and (read := PROTOCOLS[protocol].datagram) is not None:
        if found.whole is not None or found.there < found.length:
            return (*headers, *Link(), *_OTHER._replace(problem=CUT))
        said = read(frame[found.at : found.at + found.there])
        network = Network(
            said.kind,
            said.name,
            feed=said.feed,
            seq=said.seq,
            payload_bytes=said.payload or None,
            problem=said.problem,
        )
        return (*headers, *Link(), *network)
    if not is_ndn:
        return (*headers, *Link(), *_OTHER)
    payload = frame[found.at : found.at + found.there]
    if found.whole is not None:
        return headers + _first_of_several(payload, found.length, found.whole)
    if found.there < found.length:
        return headers + decode_cut(payload, found.length)
    return headers + decode_payload(payload)


@lru_cache(maxsize=1 << 12)
def decode_payload(payload: bytes) -> tuple[Value, ...]:
    """Return the columns of Link and Network for a UDP payload.

    Cached, as each payload is captured at both ends of a link, and Data on every link alike.
    """
    try:
        packet = parse_lp(payload)
    except MalformedPacket as reason:
        return (*Link(ndn_bytes=len(payload)), *_malformed(reason))
    fragment = packet.fragment
    link = _link(packet, len(payload) - len(fragment), len(fragment))
    try:
        if packet.frag_count > 1 and packet.sequence is None:
            raise MalformedPacket("a fragment without Sequence")
        if packet.frag_index:
            network = _LATER_FRAGMENT
        elif not fragment:
            network = _IDLE
            if packet.hello is not None:
                parse_hello(packet.hello)
                network = _HELLO
            if packet.feed is not None:
                network = network._replace(feed=describe(packet.feed)[0])
        else:
            network = _nacked(packet, _network(fragment, packet.frag_count > 1))
        network = _with_evidence(network, packet.evidence)
    except MalformedPacket as reason:
        network = _malformed(reason)
    return link + network


def _malformed(reason: MalformedPacket) -> Network:
    return Network("malformed", problem=f"{MALFORMED}{reason}")


def decode_cut(payload: bytes, length: int) -> tuple[Value, ...]:
    """Return the same columns for a truncated payload of `length` bytes on the wire."""
    try:
        packet, size = _cut_lp(payload)
        fragment = packet.fragment
        link = _link(packet, length - size, size)
        if size > length or not fragment:
            raise MalformedPacket("more than the datagram holds, or nothing of it is there")
        network = _LATER_FRAGMENT if packet.frag_index else _nacked(packet, _network(fragment, True))
        network = _with_evidence(network, packet.evidence)
    except MalformedPacket:
        return (*Link(ndn_bytes=length), *Network("malformed", problem=CUT))
    return link + network._replace(problem=CUT)


def _first_of_several(payload: bytes, length: int, whole: int) -> tuple[Value, ...]:
    """Return the same columns for the first IP fragment, of `length` bytes, of a payload of `whole` bytes.

    Byte counts, payload_bytes included, are of this fragment.
    """
    said = decode_cut(payload, whole)
    link, network = Link._make(said[: len(Link._fields)]), Network._make(said[len(Link._fields) :])
    missing = whole - length
    link = link._replace(ndn_bytes=max(0, link.ndn_bytes - missing))
    link = link._replace(lp_bytes=length - link.ndn_bytes)
    if network.payload_bytes is not None:
        network = network._replace(payload_bytes=max(0, network.payload_bytes - missing))
    return link + network._replace(problem=FRAGMENT)


def _cut_lp(payload: bytes) -> tuple[LpPacket, int]:
    """Return the LpPacket of a truncated payload, and the length of its Fragment."""
    kind, at = read_number(payload, 0)
    length, at = read_number(payload, at)
    if kind in (INTEREST, DATA):
        return LpPacket(payload), at + length
    if kind != LP_PACKET:
        raise MalformedPacket("neither Interest, Data nor LpPacket")
    end = at + length
    fields = at
    for kind, start, value, stop in _elements_so_far(payload):
        if stop > end:
            raise MalformedPacket("an element runs past the packet")
        if kind == _FRAGMENT:
            header = parse_lp(element(LP_PACKET, payload[fields:start]))
            header.fragment = payload[value:stop]
            return header, stop - value
    raise MalformedPacket("cut short before the Fragment")


def _link(packet: LpPacket, lp_bytes: int, ndn_bytes: int) -> Link:
    sequence = packet.sequence
    return Link(
        lp_bytes,
        ndn_bytes,
        None if sequence is None else sequence - ((sequence & 1 << 63) << 1),
        min(packet.frag_index, LARGEST),
        min(packet.frag_count, LARGEST),
        _clamped(packet.nack_reason),
        packet.pit_token,
        _clamped(packet.congestion_mark or None),
        _clamped(packet.tip),
        _clamped(packet.limit),
        _clamped(packet.first),
        packet.hello,
    )


def _clamped(number: int | None) -> int | None:
    return None if number is None else min(number, LARGEST)


def _with_evidence(network: Network, evidence: Evidence | None) -> Network:
    return network if evidence is None else network._replace(evidence=encode_evidence(evidence))


def _nacked(packet: LpPacket, network: Network) -> Network:
    if packet.nack_reason is None:
        return network
    if network.kind not in ("interest", "lli"):
        raise MalformedPacket("a Nack without an Interest")
    return network._replace(kind="nack")


def _network(packet: bytes, is_first_fragment: bool) -> Network:
    if packet[0] == INTEREST:
        interest = _cut_interest(packet) if is_first_fragment else packet
        if is_old(interest):
            return _interest(parse_interest(to_current_format(interest)))._replace(problem=OLD_FORMAT)
        return _interest(parse_interest(interest))
    if packet[0] != DATA:
        raise MalformedPacket("neither Interest, Data nor LpPacket")
    about: tuple[int | None, ...] = (None, None, None)  # absent in a fragment
    if is_first_fragment:
        name, content, content_bytes = _cut_data(packet)
    else:
        data = parse_data(packet)
        name, content, content_bytes = data.name, data.content, len(data.content)
        freshness = min(data.freshness_ms * MS, LARGEST)
        about = (min(data.content_type, LARGEST), freshness, min(data.signature_type, LARGEST))
    uri, feed, seq = describe(name)
    return Network(
        "data",
        uri,
        len(name),
        feed=feed,
        seq=seq,
        content_bytes=content_bytes,
        payload_bytes=content_bytes if feed is None else payload_bytes(content, content_bytes),
        content_type=about[0],
        freshness_ns=about[1],
        signature_type=about[2],
    )


def _interest(interest: Interest) -> Network:
    uri, feed, seq = describe(interest.name)
    credit = interest.send_credit
    return Network(
        "interest" if credit is None else "lli",
        uri,
        len(interest.name),
        interest.can_be_prefix,
        interest.must_be_fresh,
        interest.nonce,
        min(interest.lifetime_ms * MS, LARGEST),
        interest.hop_limit,
        None if credit is None else min(credit, LARGEST),
        is_persistent(interest),
        None if interest.known is None else encode_evidence(interest.known),
        feed,
        seq,
    )


@lru_cache(maxsize=1 << 14)
def describe(name: bytes) -> tuple[str, str | None, int | None]:
    """Return (URI, feed's URI, sequence number) of a name; cached, as names repeat at every hop."""
    uri = to_uri(name)
    item = split_item(name)
    if item is None:
        return uri, None, None
    feed, seq = item
    # split_item() checks the end only: key and number must be components of this name.
    boundaries = {0, *prefix_ends(name)}
    if not {len(feed), len(feed) - _KEY_COMPONENT} <= boundaries:
        return uri, None, None
    return uri, uri[: uri.rindex("/")], min(seq, LARGEST)


def payload_bytes(content: bytes, length: int) -> int:
    """Return the size of the message in an item's possibly truncated Content of `length` bytes."""
    at = 0
    try:
        while at < len(content):
            kind, at = read_number(content, at)
            size, at = read_number(content, at)
            if kind in (PAYLOAD, SSB_MESSAGE):
                return min(size, length)
            at += size
    except MalformedPacket:
        pass
    return length


def _elements_so_far(packet: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Yield (type, start, value start, value end) of a packet's elements; the last one may be truncated."""
    _, at = read_number(packet, 0)
    length, at = read_number(packet, at)
    end = at + length
    while at < min(end, len(packet)):
        start = at
        try:
            kind, at = read_number(packet, at)
            size, at = read_number(packet, at)
        except MalformedPacket:
            return
        yield kind, start, at, at + size
        at += size


def _cut_interest(packet: bytes) -> bytes:
    """Return the Interest formed by the complete elements of a first fragment."""
    whole = [packet[start:end] for _, start, _, end in _elements_so_far(packet) if end <= len(packet)]
    return element(INTEREST, b"".join(whole))


def _cut_data(packet: bytes) -> tuple[bytes, bytes, int]:
    """Return (name, available Content, length of Content) from the first fragment of a Data packet."""
    name = None
    for kind, _, start, end in _elements_so_far(packet):
        if kind == NAME and name is None and end <= len(packet):
            name = packet[start:end]
        elif kind == _CONTENT and name is not None:
            return name, packet[start:end], end - start
    if name is None:
        raise MalformedPacket("the first fragment does not hold the name")
    return name, b"", 0
