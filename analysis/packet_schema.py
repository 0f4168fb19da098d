"""The table of packets, column by column. analysis/tables/schema.py has the tables of later stages."""

from typing import NamedTuple

import pyarrow as pa


class Column(NamedTuple):
    """A column: its name, its meaning, its type ("int64", "string", "bool", "binary"), and its unit."""

    name: str
    meaning: str
    type: str = "string"
    unit: str = ""


def integer(name: str, meaning: str, unit: str = "") -> Column:
    """Return a column of whole numbers."""
    return Column(name, meaning, "int64", unit)


COLUMNS = (
    Column("layering", "the layering; of captures, their run"),
    Column("interface", "where it was captured"),
    Column("node", "the node that the interface belongs to"),
    Column("direction", "`in` or `out`, seen from the node; null if the capture does not tell"),
    integer("frame", "number of the frame in its file, from 1, as in Wireshark"),
    integer("time", "when it was captured, since 1970-01-01 UTC or since the emulator's start", "ns"),
    integer("frame_bytes", "length on the wire", "bytes"),
    Column(
        "protocol",
        "what the frame was taken for, by its ports or Ethertype: `ndn`, another protocol that is known here"
        " (`ssb`, `tiny`), `udp` or `tcp` of other ports; null if it is none of these",
    ),
    Column("transport", "what carries it: `udp`, `tcp`, `websocket`, `ethernet` or `ppp`"),
    Column("src", "sender's IPv4, IPv6 or, over Ethernet, MAC address"),
    Column("dst", "receiver's address"),
    integer("src_port", "sender's UDP or TCP port"),
    integer("dst_port", "receiver's UDP or TCP port"),
    integer("vlan", "the outermost VLAN tag's number"),
    integer(
        "eth_bytes", "link layer: header, VLAN tags and padding; of a frame without protocol, all", "bytes"
    ),
    integer("ip_bytes", "IP header with options or extension headers", "bytes"),
    integer("udp_bytes", "UDP or TCP header", "bytes"),
    integer("carried_bytes", "what TCP carries, and UDP of other ports; 0 of others", "bytes"),
    integer("tcp_seq", "TCP sequence number"),
    integer("tcp_ack", "TCP acknowledgement number"),
    integer("tcp_flags", "TCP flags: FIN 1, SYN 2, RST 4, PSH 8, ACK 16"),
    integer("lp_bytes", "what NDNLPv2 adds around its Fragment's value", "bytes"),
    integer("ndn_bytes", "the network-layer packet, or the fragment of it", "bytes"),
    integer("lp_sequence", "NDNLPv2 Sequence, as a signed number"),
    integer("frag_index", "which fragment this is; 0 if whole"),
    integer("frag_count", "fragments of the packet; 1 if whole"),
    integer("nack_reason", "NackReason of a Nack; 0 if it gives none"),
    Column("pit_token", "PitToken", "binary"),
    integer("congestion_mark", "CongestionMark; null if absent or 0"),
    integer("feed_tip", "Tip of a FeedState: the newest item that the sender has verified"),
    integer("feed_limit", "Limit of a FeedState: the last item that the sender will push"),
    integer("feed_first", "First of a FeedState: the oldest item that the sender can push"),
    Column("hello", "the TLV-VALUE of a Hello (docs/controlled-push.md)", "binary"),
    Column(
        "kind",
        "`interest`, `lli` (an Interest with SendCredit), `data`, `nack`, `hello` (an LpPacket with a Hello"
        " and no Fragment), `idle` (any other without a Fragment), `fragment` (any but the first), `segment`"
        " (a frame of a TCP stream whose protocol is known), `malformed` (bytes where NDN, tinySSB or"
        " an announcement should be), `other` (none of these); of tinySSB `entry`, `tunnel` (an entry with"
        " another in it), `control` (a command of tinyISP), `chunk`, `want`, `chunk_vector`, `novelty` and"
        " `claim`; `announcement` of a Scuttlebutt peer in a local network; of multicast `pushed`, `resent`,"
        " `heartbeat`, `request`, `join`, `prune` and `restart`",
    ),
    Column(
        "name",
        "name, as a URI; of a command of tinyISP `/DEMUX/COMMAND`; of multicast `/SOURCE/GROUP/NUMBER`",
    ),
    integer("name_length", "length of the Name's TLV-VALUE", "bytes"),
    Column(
        "can_be_prefix", "CanBePrefix of an Interest, also of one inside a Nack; so are the next six", "bool"
    ),
    Column("must_be_fresh", "MustBeFresh", "bool"),
    integer("nonce", "Nonce"),
    integer("lifetime_ns", "InterestLifetime; 4 s if the Interest has none", "ns"),
    integer("hop_limit", "HopLimit"),
    integer("send_credit", "SendCredit of a long-lived Interest", "items"),
    Column("is_persistent", "whether it is a persistent Interest", "bool"),
    Column(
        "evidence",
        "Evidence of a FeedState, Known of an LLI: a byte of hops (0x80 more if the number is signed), the"
        " number, perhaps a signature",
        "binary",
    ),
    Column(
        "feed",
        "name of the feed, if the name is a feed item's, or a FeedState or the first segment of a multicast"
        " item says it",
    ),
    integer("seq", "number of that item, from 1"),
    integer("content_bytes", "length of Content's TLV-VALUE", "bytes"),
    integer(
        "payload_bytes",
        "the application's message in it: the value of SsbMessage or Payload; all of Content if the Data is"
        " not a feed's item; of multicast a segment",
        "bytes",
    ),
    integer("content_type", "ContentType of Data; 0 (BLOB) if it has none"),
    integer("freshness_ns", "FreshnessPeriod of Data; 0 if it has none", "ns"),
    integer("signature_type", "SignatureType of Data"),
    Column(
        "problem",
        "why a frame could not be read, or not to its end, in words that can be counted; what is unusual in"
        " one that could (`old packet format`, `time stamp out of range`); null if nothing is",
    ),
)

ARROW_TYPES = {
    "int64": pa.int64(),
    "float64": pa.float64(),
    "string": pa.string(),
    "bool": pa.bool_(),
    "binary": pa.binary(),
    "float64[]": pa.list_(pa.float64()),
    "string[]": pa.list_(pa.string()),
}


def schema_of(columns: str) -> pa.Schema:
    """Return a schema from its columns as in SQL: "layering string, time int64"."""
    pairs = (column.split() for column in columns.split(","))
    return pa.schema([(name, ARROW_TYPES[kind]) for name, kind in pairs])


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
