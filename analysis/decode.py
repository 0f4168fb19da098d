"""Frames to packets: what each captured frame says, from Ethernet to the application's bytes.

A frame of NDN over UDP becomes a row with every size and field; other traffic is kind "other", and NDN
that cannot be parsed is kind "malformed". Nothing in a frame can end a job.

The bytes of a frame are split by layer without remainder: eth_bytes (header, and padding if any),
ip_bytes, udp_bytes, lp_bytes (what NDNLPv2 adds around its Fragment's value) and ndn_bytes. Of a packet
that NDNLPv2 has fragmented, the first fragment carries the name and fields, as far as it holds them; later
ones are kind "fragment".
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import BooleanType, DataType, LongType, StringType, StructField, StructType

from captures.frames import UDP_HEADER, parse_udp
from forwarder.wire.feed import KEY_BYTES, PAYLOAD, SSB_MESSAGE, split_item
from forwarder.wire.lp import parse_lp
from forwarder.wire.name import NAME, prefix_ends, to_uri
from forwarder.wire.packet import DATA, INTEREST, Interest, parse_data, parse_interest
from forwarder.wire.persistent import is_persistent
from forwarder.wire.tlv import MalformedPacket, element, read_number

NDN_PORT = 6363
LARGEST = (1 << 63) - 1
"""Spark's integers are signed: a larger number on the wire is given as this one."""
_MS = 1_000_000
_CONTENT = 21
_KEY_COMPONENT = 2 + KEY_BYTES

_LONG, _TEXT, _FLAG = LongType(), StringType(), BooleanType()

PACKETS = StructType(
    [
        StructField("layering", _TEXT),
        StructField("interface", _TEXT),
        StructField("node", _TEXT),
        StructField("direction", _TEXT),
        StructField("frame", _LONG),
        StructField("time", _LONG),
        StructField("frame_bytes", _LONG),
        StructField("src", _TEXT),
        StructField("dst", _TEXT),
        StructField("eth_bytes", _LONG),
        StructField("ip_bytes", _LONG),
        StructField("udp_bytes", _LONG),
        StructField("lp_bytes", _LONG),
        StructField("ndn_bytes", _LONG),
        StructField("lp_sequence", _LONG),
        StructField("frag_index", _LONG),
        StructField("frag_count", _LONG),
        StructField("nack_reason", _LONG),
        StructField("kind", _TEXT),
        StructField("name", _TEXT),
        StructField("name_length", _LONG),
        StructField("can_be_prefix", _FLAG),
        StructField("must_be_fresh", _FLAG),
        StructField("nonce", _LONG),
        StructField("lifetime_ns", _LONG),
        StructField("hop_limit", _LONG),
        StructField("send_credit", _LONG),
        StructField("is_persistent", _FLAG),
        StructField("feed", _TEXT),
        StructField("seq", _LONG),
        StructField("content_bytes", _LONG),
        StructField("payload_bytes", _LONG),
    ]
)
"""One row a frame. Fields that a frame does not have are null; sizes are in bytes.

layering: the capture's; interface, node: where it was captured; direction: "in" or "out" there;
frame: number in the file, from 1; time: ns;
frame_bytes: length of the frame; src, dst: IPv4 addresses; eth_bytes, ip_bytes, udp_bytes,
lp_bytes, ndn_bytes: its layers, 0 if absent; lp_sequence: NDNLPv2 Sequence, as a signed number;
frag_index, frag_count: 0 and 1 if whole; nack_reason: of a Nack.

kind: "interest", "lli" (an Interest with SendCredit), "data", "nack", "idle" (an LpPacket without a
fragment), "fragment" (any but the first), "other" (not NDN), "malformed".

name: URI; name_length: of the Name's TLV-VALUE; can_be_prefix, must_be_fresh, nonce, lifetime_ns,
hop_limit, send_credit, is_persistent: of an Interest, also one inside a Nack; feed, seq: if the name is a
feed item's; content_bytes: length of Content's TLV-VALUE; payload_bytes: the application's message in it
(the value of SsbMessage or Payload, or all of Content if the Data is not a feed's item).
"""

_ARROW_TYPES: dict[DataType, pa.DataType] = {_LONG: pa.int64(), _TEXT: pa.string(), _FLAG: pa.bool_()}
_COPIED = ("layering", "interface", "direction", "frame", "time", "frame_bytes")
_DECODED = tuple(
    (field.name, _ARROW_TYPES[field.dataType])
    for field in PACKETS.fields
    if field.name not in (*_COPIED, "node")
)


class Network(NamedTuple):
    """What the network layer says; the columns of PACKETS from `kind` on."""

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
    feed: str | None = None
    seq: int | None = None
    content_bytes: int | None = None
    payload_bytes: int | None = None


class Link(NamedTuple):
    """What NDNLPv2 says; the columns of PACKETS from `lp_bytes` to `nack_reason`."""

    lp_bytes: int = 0
    ndn_bytes: int = 0
    lp_sequence: int | None = None
    frag_index: int | None = None
    frag_count: int | None = None
    nack_reason: int | None = None


_OTHER = Network("other")
_IDLE = Network("idle")
_MALFORMED = Network("malformed")
_LATER_FRAGMENT = Network("fragment")


def decode(frames: DataFrame) -> DataFrame:
    """Return a row of PACKETS for each frame of analysis.source.FRAMES."""
    return frames.mapInArrow(_decode_batches, PACKETS)


def node_of(interface: str) -> str:
    """Return the node that an interface belongs to: `r1` for `r1-eth0`."""
    return interface.rpartition("-eth")[0] or interface


def decode_frame(frame: bytes, frame_bytes: int) -> tuple[str | int | bool | None, ...]:
    """Return the columns of PACKETS from `src` on for one frame, of `frame_bytes` bytes on the wire."""
    datagram = parse_udp(frame)
    if datagram is None or NDN_PORT not in (datagram.src_port, datagram.dst_port):
        return (None, None, frame_bytes, 0, 0, *Link(), *_OTHER)
    headers = (
        datagram.src_ip,
        datagram.dst_ip,
        frame_bytes - datagram.ip_header - UDP_HEADER - datagram.payload_length,
        datagram.ip_header,
        UDP_HEADER,
    )
    start = datagram.payload_offset
    return headers + decode_payload(frame[start : start + datagram.payload_length])


@lru_cache(maxsize=1 << 12)
def decode_payload(payload: bytes) -> tuple[str | int | bool | None, ...]:
    """Return the columns of Link and Network for what a UDP datagram carries.

    Kept, as each is captured at both ends of a link, and Data on every link alike.
    """
    try:
        packet = parse_lp(payload)
    except MalformedPacket:
        return (*Link(ndn_bytes=len(payload)), *_MALFORMED)
    fragment = packet.fragment
    sequence = packet.sequence
    link = Link(
        len(payload) - len(fragment),
        len(fragment),
        None if sequence is None else sequence - ((sequence & 1 << 63) << 1),
        min(packet.frag_index, LARGEST),
        min(packet.frag_count, LARGEST),
        None if packet.nack_reason is None else min(packet.nack_reason, LARGEST),
    )
    try:
        if packet.frag_count > 1 and sequence is None:
            raise MalformedPacket("a fragment without Sequence")
        if packet.frag_index:
            network = _LATER_FRAGMENT
        elif not fragment:
            network = _IDLE
        else:
            network = _network(fragment, packet.frag_count > 1)
            if packet.nack_reason is not None:
                if network.kind not in ("interest", "lli"):
                    raise MalformedPacket("a Nack without an Interest")
                network = network._replace(kind="nack")
    except MalformedPacket:
        network = _MALFORMED
    return link + network


def _network(packet: bytes, is_first_fragment: bool) -> Network:
    if packet[0] == INTEREST:
        return _interest(parse_interest(_cut_interest(packet) if is_first_fragment else packet))
    if packet[0] != DATA:
        raise MalformedPacket("neither Interest nor Data")
    if is_first_fragment:
        name, content, content_bytes = _cut_data(packet)
    else:
        data = parse_data(packet)
        name, content, content_bytes = data.name, data.content, len(data.content)
    uri, feed, seq = _describe(name)
    return Network(
        "data",
        uri,
        len(name),
        feed=feed,
        seq=seq,
        content_bytes=content_bytes,
        payload_bytes=content_bytes if feed is None else _payload_bytes(content, content_bytes),
    )


def _interest(interest: Interest) -> Network:
    uri, feed, seq = _describe(interest.name)
    credit = interest.send_credit
    if credit is not None and feed is None:
        raise MalformedPacket("SendCredit in an Interest that does not name a feed item")
    return Network(
        "interest" if credit is None else "lli",
        uri,
        len(interest.name),
        interest.can_be_prefix,
        interest.must_be_fresh,
        interest.nonce,
        min(interest.lifetime_ms * _MS, LARGEST),
        interest.hop_limit,
        None if credit is None else min(credit, LARGEST),
        is_persistent(interest),
        feed,
        seq,
    )


@lru_cache(maxsize=1 << 14)
def _describe(name: bytes) -> tuple[str, str | None, int | None]:
    """Return (URI, feed's URI, sequence number) of a name. The same few names come by at every hop."""
    uri = to_uri(name)
    item = split_item(name)
    if item is None:
        return uri, None, None
    feed, seq = item
    # split_item() looks at the end only: the key and the number must be components of this name.
    boundaries = {0, *prefix_ends(name)}
    if not {len(feed), len(feed) - _KEY_COMPONENT} <= boundaries:
        return uri, None, None
    return uri, uri[: uri.rindex("/")], min(seq, LARGEST)


def _payload_bytes(content: bytes, length: int) -> int:
    """Return the size of the message in an item's Content of `length` bytes, of which some may be missing."""
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
    """Yield (type, start, value start, value end) of a packet's elements, the last one perhaps cut short."""
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
    """Return the Interest that the complete elements of a first fragment make."""
    whole = [packet[start:end] for _, start, _, end in _elements_so_far(packet) if end <= len(packet)]
    return element(INTEREST, b"".join(whole))


def _cut_data(packet: bytes) -> tuple[bytes, bytes, int]:
    """Return (name, what there is of Content, length of Content) of a Data packet's first fragment."""
    name = None
    for kind, _, start, end in _elements_so_far(packet):
        if kind == NAME and name is None and end <= len(packet):
            name = packet[start:end]
        elif kind == _CONTENT and name is not None:
            return name, packet[start:end], end - start
    if name is None:
        raise MalformedPacket("the first fragment does not hold the name")
    return name, b"", 0


def _decode_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        interfaces = batch["interface"].to_pylist()
        nodes = {interface: node_of(interface) for interface in set(interfaces)}
        rows = map(decode_frame, batch["raw"].to_pylist(), batch["frame_bytes"].to_pylist())
        decoded = zip(*rows, strict=True)
        columns = {name: batch[name] for name in _COPIED}
        columns["node"] = pa.array([nodes[interface] for interface in interfaces], pa.string())
        for (name, kind), values in zip(_DECODED, decoded, strict=True):
            columns[name] = pa.array(values, kind)
        yield pa.RecordBatch.from_pydict({name: columns[name] for name in PACKETS.names})
