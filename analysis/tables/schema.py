"""The tables of each stage of an analysis, column by column: their only definition.

`python -m analysis.tables.schema` prints docs/tables.md. The columns of packets are in
analysis/packet_schema.py, where the decoder finds them without Spark.
"""

from typing import NamedTuple

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from analysis.decode import messages
from analysis.decode.connections import CONNECTIONS as CONNECTION_COLUMNS
from analysis.decode.protocols.protocol import Declaration
from analysis.decode.protocols.registry import framed
from analysis.packet_schema import ARROW_TYPES, COLUMNS, Column, integer


class Table(NamedTuple):
    """A table: its name, its row's meaning, its columns, and notes."""

    name: str
    row: str
    columns: tuple[Column, ...]
    notes: str = ""

    @property
    def names(self) -> list[str]:
        """The names of its columns, in order."""
        return [column.name for column in self.columns]

    @property
    def spark(self) -> StructType:
        """Its schema for Spark."""
        return from_arrow_schema(self.arrow)

    @property
    def arrow(self) -> pa.Schema:
        """The same for Arrow."""
        return pa.schema([(column.name, ARROW_TYPES[column.type]) for column in self.columns])


_RUN = Column("layering", "the layering; of captures, their run")
_NODE = Column("node", "the node")
_FEED = Column("feed", "name of the feed; null if it is about none")
_SEQ = integer("seq", "number of the item, from 1")

PACKETS = Table(
    "packets",
    "a frame; over TCP, a packet or a segment",
    COLUMNS,
    "What a frame does not have is null. The bytes of a frame are split by layer without remainder:"
    " `eth_bytes` + `ip_bytes` + `udp_bytes` + `carried_bytes` + `lp_bytes` + `ndn_bytes` = `frame_bytes`. So"
    " this is the table of all frames, whatever they carry, and that of NDN’s packets, as an NDN packet is a"
    " frame or fragment of one. Over TCP, packets and frames do not coincide: there each frame is a row of"
    " kind `segment`, and each packet of an NDN stream is a row of its own, with the number and time of the"
    " frame that completed it, whose `frame_bytes` and headers are 0. So sums of frames are right. Messages"
    " of other protocols have tables of their own, called after the protocol. Of a packet that NDNLPv2 has"
    " fragmented, or that the capture has cut, name and fields are given as far as they are there. Numbers"
    " above 2^63 - 1 are given as that one.",
)

TRANSACTIONS = Table(
    "transactions",
    "an Interest on one interface, with its retransmissions, and what answered it there",
    (
        _RUN,
        _NODE,
        Column("interface", "where it was captured"),
        Column("direction", "of the Interest, seen from the node: `out`, it asked; `in`, it was asked"),
        Column("kind", "`interest` or `lli`"),
        Column("name", "name of the Interest, as a URI"),
        Column("can_be_prefix", "CanBePrefix", "bool"),
        Column("must_be_fresh", "MustBeFresh", "bool"),
        _FEED,
        _SEQ,
        integer("send_credit", "SendCredit of a long-lived Interest", "items"),
        integer("time", "of the first Interest", "ns"),
        integer("last", "of the last one before the answer", "ns"),
        integer("interests", "Interests until the answer: 1, and retransmissions", "packets"),
        Column("outcome", "`data`, `nack`, or `none`: nothing came back while it was alive"),
        integer("answered", "time of the answer; of a long-lived Interest, of its first item", "ns"),
        integer("rtt_ns", "from the first Interest to the answer", "ns"),
        integer("nack_reason", "NackReason, if the outcome is `nack`"),
        Column("data_name", "name of the Data that answered; null if nothing did"),
        integer("items", "Data that answered: 1 or 0; of an LLI, items of its range that came", "packets"),
        integer("interest_bytes", "frames of its Interests", "bytes"),
        integer("answer_bytes", "frames of what answered", "bytes"),
    ),
    "An Interest belongs to the transaction before it if that one is neither answered nor past its lifetime."
    " What answers it goes back between the same two ends, as addresses and ports tell: an interface may have"
    " several neighbours. What went to a multicast group is answered to the group. Over TCP, where packets"
    " and frames do not coincide, bytes are those of the packets.",
)

PIT_INTERVALS = Table(
    "pit_intervals",
    "a PIT entry: a name that a node waited for, or a feed that was subscribed to",
    (
        _RUN,
        _NODE,
        Column("kind", "`classic`, or `feed`: all long-lived Interests for a feed make one entry"),
        Column("name", "name of the Interest or of the feed, as a URI"),
        integer("opened", "when it began", "ns"),
        integer("closed", "when it ended; of an open one, when it would if nothing more came", "ns"),
        Column(
            "outcome",
            "`satisfied` (by Data; of a feed, every granted item was sent), `nacked`, `expired`, `cancelled`"
            " (by an LLI without credit), `forked` (by the proof of a fork), `lost` (the node restarted or"
            " its link went down), `open` when the capture ended",
        ),
        integer("interests_in", "Interests or LLIs that came in for it", "packets"),
        integer("interests_out", "Interests or LLIs that went out for it", "packets"),
        integer("downstreams", "interfaces that asked"),
        integer("upstreams", "interfaces that were asked"),
        integer("items_in", "Data that came in for it", "packets"),
        integer("items_out", "Data that went out for it", "packets"),
        integer("renewals", "LLIs that extended a range which was there, in or out", "packets"),
        integer("peak_bytes", "the most that its state took", "bytes"),
        integer("peak_credit", "the most items that it still owed its downstreams", "items"),
    ),
    "Told from the packets at the node's interfaces; `analysis/pit/model.py` has the rules. Interests between"
    " a node and its own applications are not on any interface. The outcome is what ended the entry. What the"
    " cache or an application answers in the moment of the Interest makes an entry that closes when it opens,"
    " with peaks of 0. Where packets have no direction, entries are those of the link: Interests come in,"
    " Data and Nacks go out.",
)

PIT_OCCUPANCY = Table(
    "pit_occupancy",
    "a change of a node's PIT, and the state after it",
    (
        _RUN,
        Column("node", "the node; `*` for all nodes together"),
        integer("time", "when it changed", "ns"),
        integer("entries", "entries, classic ones and feeds", "entries"),
        integer("bytes", "what they stand for: names, and 16 bytes a record or 28 a range", "bytes"),
        integer("ranges", "ranges granted by downstreams of feeds", "ranges"),
        integer("credit", "items that may still be sent down: what is left of the ranges", "items"),
    ),
    "The state holds until the node's next row. Changes at one time make one row.",
)

FEED_PROGRESS = Table(
    "feed_progress",
    "an item of a feed, at the first time that it is seen at a node",
    (
        _RUN,
        _NODE,
        _FEED,
        _SEQ,
        integer("time", "when", "ns"),
        Column(
            "how",
            "`arrived`, or `sent`: by its publisher, or from before the capture; null if the capture does not"
            " tell",
        ),
        integer("newest", "the newest item seen at the node so far"),
        integer("missing", "items between the first seen at the node and `newest` that are not", "items"),
        integer("asked", "the last item that the node had asked for by LLIs; null if for none"),
    ),
)

LATENCY = Table(
    "latency",
    "something published that reached a node",
    (
        _RUN,
        _NODE,
        Column("name", "name of the Data, where packets tell; null where applications do"),
        _FEED,
        _SEQ,
        Column(
            "purpose",
            "what it was delivered for: `subscribed`, `archived`, `cross` (cross traffic), `beyond a fork`;"
            " `captured` where packets tell",
        ),
        integer("payload_bytes", "the application's message", "bytes"),
        integer("published", "when it was published; in captures, when it was first seen being sent", "ns"),
        integer("delivered", "when the application had it; in captures, when it first came in", "ns"),
        integer("latency_ns", "between the two; to a subscriber that joined later, from then on", "ns"),
        integer("bound_ns", "the least that links and rates allow; null where they are unknown", "ns"),
    ),
    "In runs from what the applications noted, on one clock. In other captures from packets: then it takes"
    " several nodes in one capture, and is as right as their clocks agree.",
)

OVERHEAD = Table(
    "overhead",
    "a layer",
    (
        _RUN,
        Column(
            "layer",
            "`ethernet`, `ip`, `udp` and `tcp` headers, `retransmitted` (what TCP had sent before), `ndnlp`,"
            " `interest` (Interests, LLIs, Nacks), `data header` (Data less `payload`), a protocol and one of"
            " its own layers (`ssb note`), `encrypted` and `unread` (no key for it; not readable"
            " as the protocol that the port says), `payload` (the application's message), `other` (frames of"
            " no known protocol)",
        ),
        integer("bytes", "what was sent of it; the sum over layers is all bytes sent", "bytes"),
    ),
)

EVENTS = Table(
    "events",
    "something that happened",
    (
        _RUN,
        integer("time", "when", "ns"),
        _NODE,
        Column(
            "event",
            "noted by applications: `published`, `joined`, `delivered`, `forked`, `error`, `waiting` and"
            " `resumed` (the network knows no source of the feed, and knows one again), `mapped` and"
            " `resolved` (a name service and a reader have a record that leads elsewhere), `shared` and"
            " `shown` (an author has posted a picture, a reader has it and its message); done by the"
            " scenario: `link-down`, `link-up`, `restart` ...; told from packets: `retransmission`, `nack`,"
            " `duplicate` (an item arrived where it was), `gap` (an item arrived before one that it follows),"
            " `repair` (the missing item arrived), `expired` (an Interest or LLI that nothing answered)",
        ),
        Column("source", "who says so: `application`, `scenario` or `packets`"),
        Column("interface", "where it was seen, if packets tell"),
        Column("name", "of the packet, or the link or node that the scenario acted on"),
        _FEED,
        _SEQ,
        integer("bytes", "of the message or the frame", "bytes"),
    ),
)

CONNECTIONS = Table(
    "connections",
    "a TCP connection at one of its ends",
    CONNECTION_COLUMNS,
    "Of any protocol. A node that only passes a connection’s packets on has no row of it.",
)


def of_protocol(protocol: Declaration) -> Table:
    """Return the table of a protocol's messages."""
    return Table(
        protocol.name,
        "a message of this protocol, at a place where it was seen",
        messages.columns(protocol),
        "It is there if the protocol was met. A message is read once, where most of its connection was seen,"
        " and has a row for each interface and direction at which all its bytes were seen in order.",
    )


TABLES = (
    PACKETS,
    TRANSACTIONS,
    PIT_INTERVALS,
    PIT_OCCUPANCY,
    FEED_PROGRESS,
    LATENCY,
    OVERHEAD,
    EVENTS,
    CONNECTIONS,
)


def column_of(table: str, name: str) -> Column | None:
    """Return a table's column; None if it is not explained here."""
    return _EXPLAINED.get((table, name))


_EXPLAINED = {
    (table.name, column.name): column
    for table in (*TABLES, *map(of_protocol, framed()))
    for column in table.columns
}

_HEAD = """# Tables

`feednet analyze CAPTURE...` writes a directory of plain Parquet for each stage, `packets` by run, node and
interface, the others by run. `feednet run` and `feednet report` leave the same tables in `tables/` of a run's
directory, as a file or directory `NAME.parquet` each; those that the report does not show (transactions,
entries and occupancy of PITs, progress of feeds, events) with `--all-tables` only. What else is in that
directory is the report's own, and may be another with the next version.

Every table has a column `layering`. In what `feednet analyze` writes, it is RUN of `RUN=CAPTURE`, or else the
name, less its suffixes, of the file or directory that was given.

pandas, DuckDB, polars and Spark read the tables as they are:

```
pandas.read_parquet("tables/transactions").groupby(["node", "outcome"]).size()
polars.read_parquet("tables/packets", hive_partitioning=True)["kind"].value_counts()
SELECT kind, count(*) FROM read_parquet('tables/packets/**/*.parquet', hive_partitioning = true) GROUP BY kind
```

Times are whole nanoseconds since 1970-01-01 UTC or, in emulated runs, since the emulator's start.
"""

_TAIL = """
Made by `python -m analysis.tables.schema > docs/tables.md`.
"""


def document() -> str:
    """Return docs/tables.md."""
    return _HEAD + "".join(map(_section, (*TABLES, *map(of_protocol, framed())))) + _TAIL


def _section(table: Table) -> str:
    rows = [f"| `{each.name}` | {each.type} | {each.unit} | {each.meaning} |\n" for each in table.columns]
    about = f"A row is {table.row}." + (f" {table.notes}" if table.notes else "")
    head = f"\n## {table.name}\n\n{about}\n\n| column | type | unit | what |\n|---|---|---|---|\n"
    return head + "".join(rows)


if __name__ == "__main__":
    print(document(), end="")
