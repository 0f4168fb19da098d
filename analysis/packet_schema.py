"""The table of packets, column by column. analysis/tables/schema.py has the tables of later stages."""

from typing import NamedTuple

import pyarrow as pa


class Column(NamedTuple):
    """A column: its name, its type ("int64", "string", "bool", "binary"), its unit, and its meaning."""

    name: str
    type: str
    unit: str
    meaning: str


COLUMNS = (
    Column("layering", "string", "", "the layering; of captures, their run"),
    Column("interface", "string", "", "where it was captured"),
    Column("node", "string", "", "the node that the interface belongs to"),
    Column("direction", "string", "", "`in` or `out`, seen from the node; null if the capture does not tell"),
    Column("frame", "int64", "", "number of the frame in its file, from 1, as in Wireshark"),
    Column("time", "int64", "ns", "when it was captured, since 1970-01-01 UTC or since the emulator's start"),
    Column("frame_bytes", "int64", "bytes", "length on the wire"),
    Column(
        "protocol",
        "string",
        "",
        "what the frame was taken for, by its ports or Ethertype: `ndn`, another protocol that is known here"
        " (`ssb`, `tiny`), `udp` or `tcp` of other ports; null if it is none of these",
    ),
    Column("transport", "string", "", "what carries it: `udp`, `tcp`, `websocket`, `ethernet` or `ppp`"),
    Column("src", "string", "", "sender's IPv4, IPv6 or, over Ethernet, MAC address"),
    Column("dst", "string", "", "receiver's address"),
    Column("src_port", "int64", "", "sender's UDP or TCP port"),
    Column("dst_port", "int64", "", "receiver's UDP or TCP port"),
    Column("vlan", "int64", "", "the outermost VLAN tag's number"),
    Column(
        "eth_bytes",
        "int64",
        "bytes",
        "link layer: header, VLAN tags and padding; of a frame without protocol, all",
    ),
    Column("ip_bytes", "int64", "bytes", "IP header with options or extension headers"),
    Column("udp_bytes", "int64", "bytes", "UDP or TCP header"),
    Column("carried_bytes", "int64", "bytes", "what TCP carries, and UDP of other ports; 0 of others"),
    Column("tcp_seq", "int64", "", "TCP sequence number"),
    Column("tcp_ack", "int64", "", "TCP acknowledgement number"),
    Column("tcp_flags", "int64", "", "TCP flags: FIN 1, SYN 2, RST 4, PSH 8, ACK 16"),
    Column("lp_bytes", "int64", "bytes", "what NDNLPv2 adds around its Fragment's value"),
    Column("ndn_bytes", "int64", "bytes", "the network-layer packet, or the fragment of it"),
    Column("lp_sequence", "int64", "", "NDNLPv2 Sequence, as a signed number"),
    Column("frag_index", "int64", "", "which fragment this is; 0 if whole"),
    Column("frag_count", "int64", "", "fragments of the packet; 1 if whole"),
    Column("nack_reason", "int64", "", "NackReason of a Nack; 0 if it gives none"),
    Column("pit_token", "binary", "", "PitToken"),
    Column("congestion_mark", "int64", "", "CongestionMark; null if absent or 0"),
    Column("feed_tip", "int64", "", "Tip of a FeedState: the newest item that the sender has verified"),
    Column("feed_limit", "int64", "", "Limit of a FeedState: the last item that the sender will push"),
    Column("feed_first", "int64", "", "First of a FeedState: the oldest item that the sender can push"),
    Column("hello", "binary", "", "the TLV-VALUE of a Hello (docs/controlled-push.md)"),
    Column(
        "kind",
        "string",
        "",
        "`interest`, `lli` (an Interest with SendCredit), `data`, `nack`, `hello` (an LpPacket with a Hello"
        " and no Fragment), `idle` (any other without a Fragment), `fragment` (any but the first), `segment`"
        " (a frame of a TCP stream whose protocol is known), `malformed` (bytes where NDN, tinySSB or"
        " an announcement should be), `other` (none of these); of tinySSB `entry`, `tunnel` (an entry with"
        " another in it), `control` (a command of tinyISP), `chunk`, `want`, `chunk_vector`, `novelty` and"
        " `claim`; `announcement` of a Scuttlebutt peer in a local network",
    ),
    Column("name", "string", "", "name, as a URI; of a command of tinyISP `/DEMUX/COMMAND`"),
    Column("name_length", "int64", "bytes", "length of the Name's TLV-VALUE"),
    Column(
        "can_be_prefix",
        "bool",
        "",
        "CanBePrefix of an Interest, also of one inside a Nack; so are the next six",
    ),
    Column("must_be_fresh", "bool", "", "MustBeFresh"),
    Column("nonce", "int64", "", "Nonce"),
    Column("lifetime_ns", "int64", "ns", "InterestLifetime; 4 s if the Interest has none"),
    Column("hop_limit", "int64", "", "HopLimit"),
    Column("send_credit", "int64", "items", "SendCredit of a long-lived Interest"),
    Column("is_persistent", "bool", "", "whether it is a persistent Interest"),
    Column(
        "evidence",
        "binary",
        "",
        "Evidence of a FeedState, Known of an LLI: a byte of hops, the number, perhaps a signature",
    ),
    Column("feed", "string", "", "name of the feed, if the name is a feed item's, or a FeedState says it"),
    Column("seq", "int64", "", "number of that item, from 1"),
    Column("content_bytes", "int64", "bytes", "length of Content's TLV-VALUE"),
    Column(
        "payload_bytes",
        "int64",
        "bytes",
        "the application's message in it: the value of SsbMessage or Payload; all of Content if the Data is"
        " not a feed's item",
    ),
    Column("content_type", "int64", "", "ContentType of Data; 0 (BLOB) if it has none"),
    Column("freshness_ns", "int64", "ns", "FreshnessPeriod of Data; 0 if it has none"),
    Column("signature_type", "int64", "", "SignatureType of Data"),
    Column(
        "problem",
        "string",
        "",
        "why a frame could not be read, or not to its end, in words that can be counted; what is unusual in"
        " one that could (`old packet format`, `time stamp out of range`); null if nothing is",
    ),
)

ARROW_TYPES = {"int64": pa.int64(), "string": pa.string(), "bool": pa.bool_(), "binary": pa.binary()}
PACKETS = pa.schema([(column.name, ARROW_TYPES[column.type]) for column in COLUMNS])
"""The schema of the table."""

FOREVER = (1 << 63) - 1
"""The maximum time, ns; later ends are clamped to it."""

MESSAGES = ("interest", "lli", "data", "nack")
"""Kinds of network-layer packets; other kinds are frames or parts of packets."""

NOTICES = ("idle", "hello")
"""Kinds of feed notices between neighbours, besides network-layer packets: FeedStates, Hellos."""

DIGEST = "/sha256digest="
"""Begins an implicit digest in the URI of a name."""

FORK = "/32=fork/seq="
"""In the name of the proof that a feed has forked."""
