"""Messages of TCP protocols: framed once per connection, then located in every view.

Theory of operation. A first pass counts segments per view and selects the most complete place of each
connection (analysis.decode.connections). A second pass feeds the connection's bytes from there to its
protocol's framer, which assigns each byte to a message. Each view is then laid over the messages: bytes seen
per layer, and the time when each message was complete there. So a router that sees one direction of an
encrypted connection yields as much as its ends, and every byte on a link belongs to one layer.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from analysis.decode.connections import CapturePlace, Connection, Row, Tracker, View
from analysis.decode.protocols.protocol import PAYLOAD, UNREAD, Declaration, Framer, Message
from analysis.decode.protocols.registry import PROTOCOLS
from analysis.packet_schema import ARROW_TYPES, Column, integer, schema_of
from base.key_log import Secrets
from captures.layers.streams import Stream, distance

RETRANSMITTED = "retransmitted"
"""The layer of retransmitted TCP bytes."""

STREAM_LAYERS = schema_of(
    "layering string, node string, interface string, direction string, src string, protocol string, layer"
    " string, bytes int64"
)
"""TCP bytes at an interface by layer of the protocol; of protocols without a framer, RETRANSMITTED only."""

_MESSAGE = (
    Column("layering", "the layering; of captures, their run"),
    Column("node", "the node at which it was seen"),
    Column("interface", "where it was captured"),
    Column("direction", "`in` or `out`, seen from the node; null if the capture does not tell"),
    integer("frame", "number of the frame with which all of the message had been seen"),
    integer("time", "when that frame was captured", "ns"),
    Column("src", "sender's address"),
    Column("dst", "receiver's address"),
    integer("src_port", "sender's TCP port"),
    integer("dst_port", "receiver's TCP port"),
)
_SIZES = (
    Column("feed", "name of the feed that it is about"),
    integer("seq", "number of the item that it brings, from 1"),
    integer("stream_bytes", "its bytes of the stream", "bytes"),
    integer(
        "frame_bytes", "these, and their share of the headers of the frames that brought them first", "bytes"
    ),
    integer("payload_bytes", "the message of a feed in it", "bytes"),
)


def columns(protocol: Declaration) -> tuple[Column, ...]:
    """Return the columns of a protocol's table: a row for each message and place that saw it."""
    kinds = ", ".join(f"`{kind}` ({title})" for kind, title in protocol.kinds.items())
    layers = (
        integer(f"{layer.key}_bytes", f"of its bytes of the stream: {layer.title}", "bytes")
        for layer in protocol.layers
    )
    return (*_MESSAGE, Column("kind", kinds), *_SIZES, *layers, *protocol.columns)


def schema(protocol: Declaration) -> pa.Schema:
    """Return the schema of a protocol's table."""
    return pa.schema([(column.name, ARROW_TYPES[column.type]) for column in columns(protocol)])


class StreamTotals:
    """Totals of a run's TCP.

    Attributes:
        connections: rows of CONNECTIONS.
        count: number of connections, each once.
        layers: rows of STREAM_LAYERS.
        kinds: messages by protocol and kind, each counted once.
    """

    def __init__(self) -> None:
        self.connections: list[dict[str, Any]] = []
        self.count = 0
        self.layers: list[dict[str, Any]] = []
        self.kinds: Counter[tuple[str, str]] = Counter()


class Streams:
    """TCP connections of a run, and the messages of framed protocols.

    Args:
        rows: a function that returns the segments in order of time, for each pass.
        secrets: of the run.

    Attributes:
        connections: all connections.
        framed: messages by id() of their connection; complete after read().
    """

    def __init__(self, rows: Callable[[], Iterable[Row]], secrets: Secrets) -> None:
        self._rows = rows
        self._by_key: dict[tuple[Any, ...], Connection] = {}
        tracker = Tracker(self._by_key)
        for row in rows():
            connection, way, place = tracker.find(row)
            connection.view(way, place).take(row)
        self.connections = list(self._by_key.values())
        for connection in self.connections:
            for view in connection.views.values():
                view.finish()
        self.framed = {id(each): _Framed(each, secrets) for each in self.connections if each.is_framed}

    def interfaces(self) -> list[str]:
        """Return the names of the interfaces at which streams are read, sorted."""
        return sorted({interface for each in self.framed.values() for interface in each.interfaces()})

    def read(self) -> Iterator[tuple[Row, Message]]:
        """Yield each message once, with the segment that completed it. Callable once."""
        if not self.framed:
            return
        tracker = Tracker(self._by_key)
        for row in self._rows():
            connection, way, place = tracker.find(row)
            if connection.is_framed:
                for message in self.framed[id(connection)].take(row, way, place):
                    yield row, message
        for framed in self.framed.values():
            yield from framed.finish()


def read(
    layering: str,
    rows: Callable[[], Iterable[Row]],
    secrets: Secrets,
    keep: Callable[[str, dict[str, Any]], None],
) -> StreamTotals:
    """Read the TCP segments of a run.

    `rows` returns them in order of time, for each pass; `keep` receives a protocol's name and each row of its
    table.
    """
    streams = Streams(rows, secrets)
    for _ in streams.read():
        pass
    found, layers = StreamTotals(), Counter[tuple[Any, ...]]()
    found.count = len(streams.connections)
    for connection in streams.connections:
        found.connections += connection.rows(layering)
        messages = streams.framed.get(id(connection))
        if messages is not None:
            found.kinds.update((connection.protocol, kind) for kind in messages.kinds())
        for (way, place), view in connection.views.items():
            source = connection.opener if way else connection.acceptor
            target = connection.acceptor if way else connection.opener
            said = (layering, *place, source[0], connection.protocol)
            layers[*said, RETRANSMITTED] += view.stream.repeated
            if messages is None:
                continue
            ends = {"src": source[0], "src_port": source[1], "dst": target[0], "dst_port": target[1]}
            about = dict(zip(("layering", "node", "interface", "direction"), (layering, *place), strict=True))
            sizes = Counter[str]()
            for each in messages.messages_in(way, view, sizes):
                keep(connection.protocol, about | ends | each)
            layers.update({(*said, layer): size for layer, size in sizes.items()})
    found.layers = [
        dict(zip(STREAM_LAYERS.names, (*key, size), strict=True)) for key, size in layers.items() if size
    ]
    return found


class _Direction:
    """One direction of a connection while it is read: messages and their offsets."""

    def __init__(self) -> None:
        self.stream = Stream()
        self.starts: list[int] = []
        self.messages: list[Message] = []
        self.at = 0  # offset of the next message
        self.end = 0  # offset of the end of the stream
        self.is_readable = True
        self.last: Row | None = None

    def add(self, message: Message) -> Message:
        """Store a message without its content, and return it."""
        if message.size <= 0 or self.at + message.size > self.end:
            raise ValueError(f"a message of {message.size} bytes of {self.end - self.at}")
        self.starts.append(self.at)
        self.messages.append(message._replace(plain=b"") if message.plain else message)
        self.at += message.size
        return message

    def mark_unread(self) -> Iterator[Message]:
        """Mark trailing bytes outside messages as unread."""
        if self.end > self.at:
            yield self.add(Message(UNREAD, ((UNREAD, self.end - self.at),)))


class _Framed:
    """The messages of one connection."""

    def __init__(self, connection: Connection, secrets: Secrets) -> None:
        self._protocol = PROTOCOLS[connection.protocol]
        assert self._protocol.framer is not None
        self._framer: Framer = self._protocol.framer(connection.ends, secrets)
        self._best: Mapping[bool, CapturePlace] = connection.best()
        self._ways = {True: _Direction(), False: _Direction()}

    def interfaces(self) -> Iterator[str]:
        """Yield the interfaces at which it is read."""
        yield from (interface for _, interface, _ in self._best.values())

    def take(self, row: Row, way: bool, place: CapturePlace) -> Iterator[Message]:
        """Yield messages completed by a segment, if seen at the place where its direction is read."""
        if self._best[way] == place:
            self._ways[way].last = row
            yield from self._read(way, row)

    def finish(self) -> Iterator[tuple[Row, Message]]:
        """Yield the remaining messages, with the last segment of their direction."""
        for way, read in self._ways.items():
            for message in (*self._read(way, None), *read.mark_unread()):
                assert read.last is not None  # there were bytes
                yield read.last, message

    def kinds(self) -> Iterator[str]:
        """Yield the kinds of the messages."""
        for direction in self._ways.values():
            yield from (message.kind for message in direction.messages if message.kind != UNREAD)

    def _read(self, way: bool, row: Row | None) -> Iterator[Message]:
        read = self._ways[way]
        chunks = read.stream.finish() if row is None else read.stream.receive(row.segment(row.payload))
        for chunk in chunks:
            if chunk.at > read.end:
                yield from read.mark_unread()
                read.at = chunk.at
                self._framer.on_gap(way)
            read.end = chunk.at + len(chunk.data)
            if read.is_readable and chunk.data:
                try:
                    for message in self._framer.receive(way, chunk.data):
                        yield read.add(message)
                except ValueError:
                    read.is_readable = False

    def messages_in(self, way: bool, view: View, sizes: Counter[str]) -> Iterator[dict[str, Any]]:
        """Yield row fields of the messages that a view has seen whole; add its bytes per layer (without
        RETRANSMITTED) to `sizes`.
        """
        read = self._ways[way]
        first, here = read.stream.first, view.stream.first
        shift = 0 if first is None or here is None else distance(first, here)
        number = from_frames = 0
        whole_from: int | None = None  # begin of the bytes seen without a gap
        end = 0
        for chunk in view.seen():
            begin = chunk.at + shift
            if whole_from is None or begin > end:
                whole_from, from_frames = begin, 0
                number = max(0, bisect_right(read.starts, begin) - 1)
            at, end = begin, begin + chunk.length
            while at < end:
                while number < len(read.starts) and at >= read.starts[number] + read.messages[number].size:
                    number, from_frames = number + 1, 0
                start = read.starts[number] if number < len(read.starts) else end
                if at < start:
                    sizes[UNREAD] += min(end, start) - at
                    at = min(end, start)
                    continue
                message = read.messages[number]
                stop = min(end, start + message.size)
                _add_parts(sizes, message, at - start, stop - start)
                shares = [chunk.headers * (place - begin) // chunk.length for place in (at, stop)]
                from_frames += stop - at + shares[1] - shares[0]
                at = stop
                if at == start + message.size and whole_from <= start and message.kind != UNREAD:
                    yield self._row(message, chunk.frame, chunk.time, from_frames)

    def _row(self, message: Message, frame: int, time: int, frame_bytes: int) -> dict[str, Any]:
        sizes: Counter[str] = Counter()
        for layer, size in message.parts:
            sizes[layer] += size
        return {
            "frame": frame,
            "time": time,
            "kind": message.kind,
            "feed": message.feed,
            "seq": message.seq,
            "stream_bytes": message.size,
            "frame_bytes": frame_bytes,
            "payload_bytes": sizes[PAYLOAD],
            **{f"{layer.key}_bytes": sizes[layer.key] for layer in self._protocol.layers},
            **message.fields,
        }


def _add_parts(sizes: Counter[str], message: Message, begin: int, end: int) -> None:
    """Add the bytes of each layer between offsets `begin` and `end` of a message."""
    at = 0
    for layer, size in message.parts:
        inside = min(end, at + size) - max(begin, at)
        if inside > 0:
            sizes[layer] += inside
        at += size
