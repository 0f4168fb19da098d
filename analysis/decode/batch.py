"""Frames to packets, a window at a time: analysis/decode/reference.py vectorised with numpy.

Theory of operation. Frames are parsed layer by layer; every step gathers the same few bytes of all frames
that reached it: Ethertype, IP and UDP header, then NDN (analysis/decode/ndn.py). Unusual frames (IP options,
fragments, TCP of known ports, truncated headers, inconsistent lengths) are handed one by one to the reference
decoder, so that only one decoder judges them.

tests/analysis/test_batch.py compares the two.
"""

from collections.abc import Callable, Iterable, Sequence
from socket import AF_INET, AF_INET6, inet_ntop
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from analysis.decode.columns import Columns
from analysis.decode.ndn import KINDS, OTHER, decode_packets
from analysis.decode.protocols.protocol import NDN as NDN_PROTOCOL
from analysis.decode.protocols.registry import TCP_OTHER, UDP_OTHER, tcp_ports, udp_ports
from analysis.decode.reading import NDN_PORTS
from analysis.decode.reference import decode_frame
from analysis.decode.tlv_batch import Octets, headers
from analysis.packet_schema import PACKETS
from captures.formats.records import Flags, Ints, Records
from captures.layers import layers
from captures.layers.layers import IPV4, IPV6, PPP, TCP, TCP_HEADER, UDP, UDP_HEADER, Ports, mac

DECODED = tuple(PACKETS.names[PACKETS.names.index("protocol") :])
"""The columns derived from a single frame: those of decode_frame()."""

TRANSPORTS = ("udp", "ethernet", "ppp")
_FRAMED = 0xFF03
_IPV4_HEADER, _IPV6_HEADER = 20, 40


def _layout(fields: str) -> np.dtype[np.void]:
    """Return the layout of a header from its fields, each with numpy's letters for its type."""
    return np.dtype([(name, kind) for name, kind in map(str.split, fields.split(","))])


_IPV4_LAYOUT = _layout(
    "version u1, tos u1, total >u2, ident >u2, fragment >u2, ttl u1, protocol u1, checksum >u2,"
    " src <u4, dst <u4, src_port >u2, dst_port >u2, length >u2, rest V2"
)
_IPV6_LAYOUT = _layout(
    "version u1, flow V3, total >u2, protocol u1, hops u1,"
    " src V16, dst V16, src_port >u2, dst_port >u2, length >u2, rest V2"
)
_TCP_LAYOUT = _layout(
    "src_port >u2, dst_port >u2, tcp_seq >u4, tcp_ack >u4, offset u1, tcp_flags u1, rest V6"
)
_STATION_LAYOUT = _layout("first V6, second V6, third V6, rest V2")


class _Reached(NamedTuple):
    """Frames at their network layer: Ethertype (-1 for the reference decoder) and offset of the network
    header.
    """

    protocol: Ints
    at: Ints
    vlan: Ints


class _Payloads(NamedTuple):
    """NDN payloads of frames: row, offset and length."""

    rows: Ints
    at: Ints
    length: Ints


def decode_records(
    data: np.ndarray[tuple[int], np.dtype[np.uint8]],
    records: Records,
    link_types: Sequence[int],
    ports: Ports = NDN_PORTS,
) -> Columns:
    """Return the columns of DECODED for the records of a window.

    `link_types` has the link type of each source.
    """
    octets = Octets(data)
    count = len(records.at)
    columns = Columns(count, DECODED)
    every = np.arange(count)
    slow = np.zeros(count, bool)
    columns.put_texts("kind", every, OTHER, [*KINDS[:1]])
    columns.put("eth_bytes", every, records.original)
    for name in ("ip_bytes", "udp_bytes", "carried_bytes", "lp_bytes", "ndn_bytes"):
        columns.put(name, every, 0)
    kinds = np.array(link_types or [0])[records.source]
    for link_type in sorted(set(link_types)) if count else ():
        rows = every if (kinds == link_type).all() else np.flatnonzero(kinds == link_type)
        reached = _reach(octets, records, rows, link_type)
        slow[rows[reached.protocol < 0]] = True
        over_ip = [
            _ipv4(octets, records, *_of(IPV4, rows, reached)),
            _ipv6(octets, records, *_of(IPV6, rows, reached)),
        ]
        found = [
            *(_transport(octets, records, packets, ports, columns, slow) for packets in over_ip),
            _ethernet(octets, records, *_of(layers.NDN, rows, reached), link_type, columns, slow),
        ]
        has_vlan = (reached.vlan >= 0) & columns.has_text("transport")[rows]
        columns.put_where("vlan", rows, has_vlan, reached.vlan)
        carrying = [payloads for payloads in found if len(payloads.rows)]
        if carrying:
            whole = carrying[0]
            if len(carrying) > 1:  # names must be in window order
                joined = _Payloads(*map(np.concatenate, zip(*carrying, strict=True)))
                order = np.argsort(joined.rows)
                whole = _Payloads(*(part[order] for part in joined))
            decode_packets(octets, *whole, columns, slow)
    odd = np.flatnonzero(slow)
    if len(odd):
        ends = records.at[odd] + records.captured[odd]
        frames = (
            data[at:end].tobytes() for at, end in zip(records.at[odd].tolist(), ends.tolist(), strict=True)
        )
        lengths, types = records.original[odd].tolist(), kinds[odd].tolist()
        columns.replace(
            odd,
            [
                decode_frame(frame, length, kind, ports)
                for frame, length, kind in zip(frames, lengths, types, strict=True)
            ],
        )
    return columns


def _of(protocol: int, rows: Ints, reached: _Reached) -> tuple[Ints, Ints]:
    some = np.flatnonzero(reached.protocol == protocol)
    return (rows, reached.at) if len(some) == len(rows) else (rows[some], reached.at[some])


def _reach(octets: Octets, records: Records, rows: Ints, link_type: int) -> _Reached:
    at = records.at[rows]
    vlan = np.full(len(rows), -1)
    word = octets.words
    if link_type in (layers.ETHERNET, layers.SLL):
        size = 14 if link_type == layers.ETHERNET else layers.SLL_HEADER
        protocol = (word(at + size - 8)).view(np.int64) & 0xFFFF
    elif link_type == layers.SLL2:
        size = layers.SLL2_HEADER
        protocol = (word(at) >> np.uint64(48)).view(np.int64)
    elif link_type in (layers.NULL, layers.LOOP):
        size = 4
        family = (word(at) >> np.uint64(32)).astype(np.uint32)
        family = np.minimum(family, family.byteswap())
        protocol = np.zeros(len(rows), np.int64)
        for number, ethertype in layers.FAMILIES.items():
            protocol[family == number] = ethertype
    elif link_type in layers.RAW:
        size = 0
        version = octets.data[at] >> 4
        protocol = np.where(version == 4, IPV4, np.where(version == 6, IPV6, 0))
    elif link_type in PPP:
        size = 2
        ppp = (word(at) >> np.uint64(48)).view(np.int64)
        protocol = np.where((ppp == _FRAMED) | (ppp & 0x100 != 0), -1, 0)
        for known, ethertype in layers.PPP_PROTOCOLS.items():
            protocol[ppp == known] = ethertype
    elif link_type in (layers.RAW_IPV4, layers.RAW_IPV6):
        return _Reached(np.full(len(rows), IPV4 if link_type == layers.RAW_IPV4 else IPV6), at, vlan)
    else:
        return _Reached(np.full(len(rows), -1), at, vlan)
    captured = records.captured[rows]
    protocol[captured < (size or 1)] = -1
    at = at + size
    if link_type in (layers.ETHERNET, layers.SLL, layers.SLL2):
        while len(tagged := np.flatnonzero(_among(protocol, layers.VLAN_TAGS))):
            tag = word(at[tagged])
            first = vlan[tagged] < 0
            vlan[tagged[first]] = (tag[first] >> np.uint64(48)).view(np.int64) & 0xFFF
            protocol[tagged] = (tag >> np.uint64(32)).view(np.int64) & 0xFFFF
            at[tagged] += 4
            protocol[tagged[at[tagged] > records.at[rows[tagged]] + captured[tagged]]] = -1
    return _Reached(protocol, at, vlan)


class _Packets(NamedTuple):
    """IP packets: rows, first and last offset, header length, header bytes (with the first bytes of UDP or
    TCP), and whether the reference decoder is not needed.
    """

    rows: Ints
    at: Ints
    end: Ints
    ip: int
    head: np.ndarray[tuple[int], np.dtype[np.void]]
    plain: Flags

    @property
    def ends(self) -> "_Ends":
        """Their addresses and ports."""
        ports = (self.head[name].astype(np.int64) for name in ("src_port", "dst_port"))
        return _Ends(self.head["src"], self.head["dst"], *ports)


class _Ends(NamedTuple):
    """Addresses and ports of packets."""

    src: np.ndarray[Any, Any]
    dst: np.ndarray[Any, Any]
    src_port: Ints
    dst_port: Ints

    def among(self, ports: Iterable[int]) -> Flags:
        """Return which packets use one of the ports."""
        return _among(self.src_port, ports) | _among(self.dst_port, ports)

    def of(self, some: Ints) -> "_Ends":
        """Return the ends of selected packets."""
        return _Ends(*(each[some] for each in self))


def _ipv4(octets: Octets, records: Records, rows: Ints, at: Ints) -> _Packets:
    """Parse IPv4 headers."""
    head = octets.rows(at, _IPV4_LAYOUT)
    total = head["total"].astype(np.int64)
    there = records.at[rows] + records.captured[rows]
    plain = (head["version"] == 0x45) & (at + _IPV4_HEADER <= there) & (total >= _IPV4_HEADER)
    carries = (head["protocol"] == UDP) | (head["protocol"] == TCP)
    plain &= ~carries | (head["fragment"] & 0x3FFF == 0)
    return _Packets(rows, at, at + total, _IPV4_HEADER, head, plain)


def _ipv6(octets: Octets, records: Records, rows: Ints, at: Ints) -> _Packets:
    """Parse IPv6 headers without extension headers."""
    head = octets.rows(at, _IPV6_LAYOUT)
    end = at + _IPV6_HEADER + head["total"].astype(np.int64)
    there = records.at[rows] + records.captured[rows]
    plain = (head["version"] >> 4 == 6) & (at + _IPV6_HEADER <= there)
    plain &= ~_among(head["protocol"], layers.EXTENSIONS)
    return _Packets(rows, at, end, _IPV6_HEADER, head, plain)


def _transport(
    octets: Octets, records: Records, packets: _Packets, ports: Ports, columns: Columns, slow: Flags
) -> _Payloads:
    """Find NDN's UDP datagrams among IP packets.

    Packets of unknown ports get their headers only; TCP and UDP of other known ports go to the reference
    decoder.
    """
    rows, at, end, ip, head, plain = packets
    ends, protocol = packets.ends, head["protocol"]
    first, length = records.at[rows], head["length"].astype(np.int64)
    is_udp, is_tcp = protocol == UDP, protocol == TCP
    size = np.where(is_tcp, TCP_HEADER, UDP_HEADER)
    in_reach = (end <= first + records.original[rows]) & (at + ip + size <= end)
    in_reach &= at + ip + size <= first + records.captured[rows]
    of_udp = is_udp & ends.among(ports.udp)
    start = at + ip + UDP_HEADER
    fits = (length >= UDP_HEADER) & (start - UDP_HEADER + length <= end)
    whole = fits & (start - UDP_HEADER + length <= first + records.captured[rows])
    good = plain & in_reach & of_udp & whole
    is_other = plain & in_reach & is_udp & ~of_udp & fits & ~ends.among(udp_ports())
    is_stream = np.zeros(len(rows), bool)
    if is_tcp.any():
        size[is_tcp] = (octets.data[np.where(is_tcp & in_reach, at + ip + 12, 0)][is_tcp] >> 4) * 4
        is_stream = is_tcp & plain & in_reach & (size >= TCP_HEADER) & (at + ip + size <= end)
        is_stream &= ~ends.among(ports.tcp | tcp_ports())
    # Other transports have no columns.
    is_foreign = plain & ~(is_udp | is_tcp)
    slow[rows[~(good | is_other | is_stream | is_foreign)]] = True
    length = length - UDP_HEADER
    if (some := np.flatnonzero(is_other)).size:
        _put_plain(columns, records, rows[some], UDP_OTHER, ip, UDP_HEADER, length[some], ends.of(some))
        columns.put("carried_bytes", rows[some], length[some])
    if (some := np.flatnonzero(is_stream)).size:
        carried = (end - at - ip - size)[some]
        _put_plain(columns, records, rows[some], TCP_OTHER, ip, size[some], carried, ends.of(some))
        columns.put("carried_bytes", rows[some], carried)
        numbers = octets.rows(at[some] + ip, _TCP_LAYOUT)
        for field in ("tcp_seq", "tcp_ack", "tcp_flags"):
            columns.put(field, rows[some], numbers[field].astype(np.int64))
    if not good.all():
        some = np.flatnonzero(good)
        rows, start, length, ends = rows[some], start[some], length[some], ends.of(some)
    if len(rows):
        _put_plain(columns, records, rows, NDN_PROTOCOL, ip, UDP_HEADER, length, ends)
    return _Payloads(rows, start, length)


def _put_plain(
    columns: Columns,
    records: Records,
    rows: Ints,
    protocol: str,
    ip: int,
    transport: Ints | int,
    length: Ints,
    ends: _Ends,
) -> None:
    """Set protocol, header sizes and ends of plain packets that carry `length` bytes."""
    columns.put_texts("protocol", rows, 0, [protocol])
    columns.put_texts("transport", rows, 0, TRANSPORTS[:1] if protocol == NDN_PROTOCOL else [protocol])
    columns.put("eth_bytes", rows, records.original[rows] - ip - transport - length)
    columns.put("ip_bytes", rows, ip)
    columns.put("udp_bytes", rows, transport)
    for name, values in (("src", ends.src), ("dst", ends.dst)):
        _put_addresses(columns, name, rows, values, _IP_WRITERS[ip])
    columns.put("src_port", rows, ends.src_port)
    columns.put("dst_port", rows, ends.dst_port)


_IP_WRITERS: dict[int, Callable[[bytes], str]] = {
    _IPV4_HEADER: lambda address: inet_ntop(AF_INET, address),
    _IPV6_HEADER: lambda address: inet_ntop(AF_INET6, address),
}


def _among(values: np.ndarray[Any, Any], numbers: Iterable[int]) -> Flags:
    found = np.zeros(len(values), bool)
    for number in numbers:
        found |= values == number
    return found


def _put_addresses(
    columns: Columns, name: str, rows: Ints, values: np.ndarray[Any, Any], write: Callable[[bytes], str]
) -> None:
    """Format each distinct address once."""
    size = values.dtype.itemsize
    plain = np.ascontiguousarray(values)
    kind = pa.uint32() if size == 4 else pa.binary(size)
    found = pa.Array.from_buffers(kind, len(plain), [None, pa.py_buffer(plain)]).dictionary_encode()
    distinct = found.dictionary.to_pylist()
    octets = [each.to_bytes(4, "little") if size == 4 else each for each in distinct]
    texts = [write(each) for each in octets]
    columns.put_texts(name, rows, found.indices.to_numpy().astype(np.int64), texts)


def _ethernet(
    octets: Octets, records: Records, rows: Ints, at: Ints, link_type: int, columns: Columns, slow: Flags
) -> _Payloads:
    """Decode NDN directly over Ethernet or PPP; bytes after the packet are padding."""
    _, start, size, good = headers(octets, at)
    length = start + size - at
    good &= start + size <= records.at[rows] + records.captured[rows]
    slow[rows[~good]] = True
    some = np.flatnonzero(good)
    rows, at, length = rows[some], at[some], length[some]
    if len(rows):
        stations = octets.rows(records.at[rows], _STATION_LAYOUT)
        columns.put_texts("protocol", rows, 0, [NDN_PROTOCOL])
        columns.put_texts("transport", rows, 0, TRANSPORTS[2:] if link_type in PPP else TRANSPORTS[1:2])
        for name, where in zip(("src", "dst"), layers.STATIONS.get(link_type, ()), strict=False):
            if where.start is not None:
                field = ("first", "second", "third")[where.start // 6]
                _put_addresses(columns, name, rows, stations[field], mac)
        columns.put("eth_bytes", rows, records.original[rows] - length)
    return _Payloads(rows, at, length)
