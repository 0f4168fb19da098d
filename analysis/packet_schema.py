"""The table of packets, column by column. analysis/tables/schema.py has the tables of later stages."""

from typing import NamedTuple

import pyarrow as pa


class Column(NamedTuple):
    """A column: its name, its meaning, its type ("int64", "string", "bool", "binary"), and its unit."""

    name: str
    meaning: str
    type: str = "string"
    unit: str = ""


COLUMNS = (
    Column("layering", "the layering; of captures, their run"),
    Column("interface", "where it was captured"),
    Column("node", "the node that the interface belongs to"),
    Column("direction", "`in` or `out`, seen from the node; null if the capture does not tell"),
    Column("frame", "number of the frame in its file, from 1, as in Wireshark", "int64"),
    Column("time", "when it was captured, since 1970-01-01 UTC or since the emulator's start", "int64", "ns"),
    Column("frame_bytes", "length on the wire", "int64", "bytes"),
    Column(
        "protocol",
        "what the frame was taken for, by its ports or Ethertype: `ndn`, another protocol that is known here"
        " (`ssb`, `tiny`), `udp` or `tcp` of other ports; null if it is none of these",
    ),
    Column("transport", "what carries it: `udp`, `tcp`, `websocket`, `ethernet` or `ppp`"),
    Column("src", "sender's IPv4, IPv6 or, over Ethernet, MAC address"),
    Column("dst", "receiver's address"),
    Column("src_port", "sender's UDP or TCP port", "int64"),
    Column("dst_port", "receiver's UDP or TCP port", "int64"),
    Column("vlan", "the outermost VLAN tag's number", "int64"),
    Column(
        "eth_bytes",
        "link layer: header, VLAN tags and padding; of a frame without protocol, all",
        "int64",
        "bytes",
    ),
    Column("ip_bytes", "IP header with options or extension headers", "int64", "bytes"),
    Column("udp_bytes", "UDP or TCP header", "int64", "bytes"),
    Column("carried_bytes", "what TCP carries, and UDP of other ports; 0 of others", "int64", "bytes"),
    Column("tcp_seq", "TCP sequence number", "int64"),
    Column("tcp_ack", "TCP acknowledgement number", "int64"),
    Column("tcp_flags", "TCP flags: FIN 1, SYN 2, RST 4, PSH 8, ACK 16", "int64"),
    Column("lp_bytes", "what NDNLPv2 adds around its Fragment's value", "int64", "bytes"),
    Column("ndn_bytes", "the network-layer packet, or the fragment of it", "int64", "bytes"),
    Column("lp_sequence", "NDNLPv2 Sequence, as a signed number", "int64"),
    Column("frag_index", "which fragment this is; 0 if whole", "int64"),
    Column("frag_count", "fragments of the packet; 1 if whole", "int64"),
    Column("nack_reason", "NackReason of a Nack; 0 if it gives none", "int64"),
    Column("pit_token", "PitToken", "binary"),
    Column("congestion_mark", "CongestionMark; null if absent or 0", "int64"),
    Column("feed_tip", "Tip of a FeedState: the newest item that the sender has verified", "int64"),
    Column("feed_limit", "Limit of a FeedState: the last item that the sender will push", "int64"),
    Column("feed_first", "First of a FeedState: the oldest item that the sender can push", "int64"),
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
    Column("name_length", "length of the Name's TLV-VALUE", "int64", "bytes"),
    Column(
        "can_be_prefix", "CanBePrefix of an Interest, also of one inside a Nack; so are the next six", "bool"
    ),
    Column("must_be_fresh", "MustBeFresh", "bool"),
    Column("nonce", "Nonce", "int64"),
    Column("lifetime_ns", "InterestLifetime; 4 s if the Interest has none", "int64", "ns"),
    Column("hop_limit", "HopLimit", "int64"),
    Column("send_credit", "SendCredit of a long-lived Interest", "int64", "items"),
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
    Column("seq", "number of that item, from 1", "int64"),
    Column("content_bytes", "length of Content's TLV-VALUE", "int64", "bytes"),
    Column(
        "payload_bytes",
        "the application's message in it: the value of SsbMessage or Payload; all of Content if the Data is"
        " not a feed's item; of multicast a segment",
        "int64",
        "bytes",
    ),
    Column("content_type", "ContentType of Data; 0 (BLOB) if it has none", "int64"),
    Column("freshness_ns", "FreshnessPeriod of Data; 0 if it has none", "int64", "ns"),
    Column("signature_type", "SignatureType of Data", "int64"),
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
