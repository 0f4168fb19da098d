"""TCP connections of a run: endpoints, lifecycle, and the places that captured each segment.

A connection is captured at several places: at each interface on its path, in either direction. One direction
at one place is a *view*. Addresses, ports and, as ports are reused, the initial sequence number identify the
connection of a segment.

Source: RFC 9293.
"""

from array import array
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

from analysis.decode.protocols.protocol import Ends
from analysis.decode.protocols.registry import PROTOCOLS
from analysis.packet_schema import Column, integer
from base.timers import earliest
from captures.layers.streams import ACK, FIN, RST, SYN, Chunk, Segment, Stream

CONNECTIONS = (
    Column("layering", "the layering; of captures, their run"),
    Column("node", "the node at which it was seen, one of its ends"),
    Column("protocol", "what it was taken for, as in `packets`"),
    Column(
        "direction",
        "`out`, the node opened it; `in`, it was opened from elsewhere; null if the capture does not tell",
    ),
    Column("src", "address of the end that opened it"),
    Column("dst", "address of the other end"),
    integer("src_port", "port of the end that opened it"),
    integer("dst_port", "port of the other end"),
    integer("opened", "time of the first SYN; null if it was open when the capture began", "ns"),
    integer("closed", "time of the second end’s FIN, or of the first RST; null if it stays open", "ns"),
    Column("ended", "`fin`, `rst`, or `open` when the capture ended"),
    integer(
        "handshake_ns",
        "round trip of the handshake: from the first SYN to its answer or, at the end that accepts, from its"
        " answer to what acknowledges that; null if it was not completed",
        "ns",
    ),
    integer("sent_bytes", "bytes of the stream that the node sent, each once", "bytes"),
    integer("received_bytes", "bytes of the stream that it received, each once", "bytes"),
    integer("sent_segments", "segments that it sent", "segments"),
    integer("received_segments", "segments that it received", "segments"),
    integer(
        "sent_again",
        "of those sent, the ones that brought nothing new: all their bytes, SYN or FIN had been sent before",
        "segments",
    ),
    integer("received_again", "of those received, the same", "segments"),
)
"""The table of connections: a row for each connection and captured end. Without directions in the capture,
the node counts as the opener's end.
"""

End: TypeAlias = tuple[str, int]
"""Address and port."""

CapturePlace: TypeAlias = tuple[str, str, str | None]
"""Node, interface, and direction there."""


class Row(NamedTuple):
    """A segment: a row of analysis.decode.reading.SEGMENTS."""

    layering: str
    interface: str
    node: str
    direction: str | None
    frame: int
    time: int
    src: str
    dst: str
    src_port: int
    dst_port: int
    vlan: int | None
    protocol: str
    frame_bytes: int
    carried_bytes: int
    tcp_seq: int
    tcp_ack: int
    tcp_flags: int
    payload: bytes
    capture: str

    def segment(self, payload: bytes) -> Segment:
        """Return a segment with the given payload bytes."""
        headers = self.frame_bytes - self.carried_bytes
        return Segment(self.tcp_seq, self.tcp_flags, payload, self.carried_bytes, headers)


class SeenBytes(NamedTuple):
    """The next bytes of a stream at one place: `at`, `length` as in captures.layers.streams.Chunk; frame and
    time of the segment that completed them; header bytes of that segment.
    """

    at: int
    length: int
    frame: int
    time: int
    headers: int


class View:
    """One direction of a connection at one place. Times are ns of the first segment of each type; None if
    there was none.
    """

    def __init__(self, *, keeps_chunks: bool) -> None:
        self.stream = Stream()
        self.bytes = self.segments = self.again = 0
        self.first_time: int | None = None
        self.syn: int | None = None
        self.acked: int | None = None
        self.fin: int | None = None
        self.rst: int | None = None
        self._chunks = array("q")
        self._keeps_chunks = keeps_chunks
        self._last = (0, 0)

    def take(self, row: Row) -> None:
        """Count a segment."""
        flags, before = row.tcp_flags, self.stream.repeated
        self._last = row.frame, row.time
        if self.first_time is None:
            self.first_time = row.time
        self.segments += 1
        self._keep(self.stream.receive(row.segment(b"")))
        if row.carried_bytes:
            self.again += self.stream.repeated - before >= row.carried_bytes
        elif (flags & SYN and self.syn is not None) or (flags & FIN and self.fin is not None):
            self.again += 1
        if flags & SYN:
            self.syn = row.time if self.syn is None else self.syn
        elif flags & ACK and self.acked is None:
            self.acked = row.time
        if flags & FIN and self.fin is None:
            self.fin = row.time
        if flags & RST and self.rst is None:
            self.rst = row.time

    def finish(self) -> None:
        """End the stream: flush buffered bytes."""
        self._keep(self.stream.finish())

    def seen(self) -> Iterator[SeenBytes]:
        """Yield the stream's bytes in order."""
        values = iter(self._chunks)
        for each in zip(*[values] * len(SeenBytes._fields), strict=True):
            yield SeenBytes(*each)

    def _keep(self, chunks: Iterable[Chunk]) -> None:
        for chunk in chunks:
            self.bytes += chunk.length
            if self._keeps_chunks:
                self._chunks.extend((chunk.at, chunk.length, *self._last, chunk.segment.headers))


class Connection:
    """A connection, and its views by direction (True: from the opener) and place."""

    def __init__(self, opener: End, acceptor: End, protocol: str) -> None:
        self.opener = opener
        self.acceptor = acceptor
        self.protocol = protocol
        declaration = PROTOCOLS.get(protocol)
        self.is_framed = declaration is not None and declaration.framer is not None
        self.views: dict[tuple[bool, CapturePlace], View] = {}

    @property
    def ends(self) -> Ends:
        """Its two ends."""
        return Ends(*self.opener, *self.acceptor)

    def view(self, from_opener: bool, place: CapturePlace) -> View:
        """Return the view, created on first use."""
        key = from_opener, place
        if key not in self.views:
            self.views[key] = View(keeps_chunks=self.is_framed)
        return self.views[key]

    def best(self) -> dict[bool, CapturePlace]:
        """Return the best place to read each direction.

        Preferred is the first node with complete views of both directions, as its clock is one. Otherwise
        each direction uses the place with the most bytes.
        """
        most = {
            way: max((v.bytes for (w, _), v in self.views.items() if w == way), default=0) for way in _WAYS
        }
        whole: dict[str, dict[bool, tuple[int, CapturePlace]]] = {}
        for (way, place), view in self.views.items():
            if view.bytes == most[way]:
                seen = whole.setdefault(place[0], {})
                seen[way] = min(
                    seen.get(way, _NEVER), (view.first_time or 0, place), key=lambda each: each[0]
                )
        ways = {way for way, _ in self.views}
        intact = [seen for seen in whole.values() if seen.keys() == ways]
        if intact:
            first = min(intact, key=lambda seen: min(time for time, _ in seen.values()))
            return {way: place for way, (_, place) in first.items()}
        return {
            way: min((seen[way] for seen in whole.values() if way in seen), key=lambda each: each[0])[1]
            for way in ways
        }

    def rows(self, layering: str) -> Iterator[dict[str, Any]]:
        """Yield the rows of CONNECTIONS."""
        nodes = dict.fromkeys(place[0] for _, place in self.views)
        for node in nodes:
            here = {key: view for key, view in self.views.items() if key[1][0] == node}
            directions = {way: {place[2] for w, place in here if w == way} for way in _WAYS}
            if any({"in", "out"} <= seen for seen in directions.values()):
                continue  # a router on the path
            is_opener = "out" in directions[True] or "in" in directions[False]
            is_acceptor = "in" in directions[True] or "out" in directions[False]
            yield {
                "layering": layering,
                "node": node,
                "protocol": self.protocol,
                "direction": "out" if is_opener else "in" if is_acceptor else None,
                "src": self.opener[0],
                "dst": self.acceptor[0],
                "src_port": self.opener[1],
                "dst_port": self.acceptor[1],
                **_lifecycle(here, is_acceptor and not is_opener),
            }


_WAYS = (True, False)
_NEVER: tuple[int, CapturePlace] = (1 << 63, ("", "", None))


def _lifecycle(here: dict[tuple[bool, CapturePlace], View], is_acceptor: bool) -> dict[str, Any]:
    """Return the connection's lifecycle as seen by a node."""
    ways = {way: [view for (w, _), view in here.items() if w == way] for way in _WAYS}
    forth, back = ways[True], ways[False]
    syn, answer = _first(forth, "syn"), _first(back, "syn")
    ends = [_first(views, "fin") for views in (forth, back)]
    reset = _first([*forth, *back], "rst")
    finished = max(ends) if None not in ends else None  # type: ignore[type-var]
    begin, end = (answer, _first(forth, "acked")) if is_acceptor else (syn, answer)
    sent, received = (back, forth) if is_acceptor else (forth, back)
    return {
        "opened": syn,
        "closed": reset if finished is None else finished,
        "ended": "fin" if finished is not None else "open" if reset is None else "rst",
        "handshake_ns": None if begin is None or end is None else end - begin,
        "sent_bytes": max((view.bytes for view in sent), default=0),
        "received_bytes": max((view.bytes for view in received), default=0),
        "sent_segments": sum(view.segments for view in sent),
        "received_segments": sum(view.segments for view in received),
        "sent_again": sum(view.again for view in sent),
        "received_again": sum(view.again for view in received),
    }


def _first(views: Iterable[View], name: str) -> int | None:
    return earliest(*(getattr(view, name) for view in views))


class Tracker:
    """Assigns segments, in capture order, to connections.

    Args:
        connections: known connections by ends and initial sequence number; new ones are added.
    """

    def __init__(self, connections: dict[tuple[Any, ...], Connection]) -> None:
        self._connections = connections
        self._current: dict[tuple[Any, ...], Connection] = {}
        self._known: dict[tuple[Any, ...], set[int]] = {}

    def find(self, row: Row) -> tuple[Connection, bool, CapturePlace]:
        """Return the segment's connection, whether its opener sent it, and the place."""
        source, target = (row.src, row.src_port), (row.dst, row.dst_port)
        pair = (source, target) if source < target else (target, source)
        at = (row.node, row.interface, pair)
        connection = self._current.get(at)
        if row.tcp_flags & SYN:
            is_answer = bool(row.tcp_flags & ACK)
            number = row.tcp_ack - 1 & 0xFFFFFFFF if is_answer else row.tcp_seq
            known = self._known.setdefault(at, set())
            opener, acceptor = (target, source) if is_answer else (source, target)
            connection = self._connection((pair, number), opener, acceptor, row.protocol)
            if number not in known:  # else possibly a late duplicate
                known.add(number)
                self._current[at] = connection
        elif connection is None:
            ports = PROTOCOLS[row.protocol].tcp_ports if row.protocol in PROTOCOLS else frozenset[int]()
            opener, acceptor = (target, source) if row.src_port in ports else (source, target)
            connection = self._connection((pair, None), opener, acceptor, row.protocol)
            self._current[at] = connection
        return connection, source == connection.opener, (row.node, row.interface, row.direction)

    def _connection(self, key: tuple[Any, ...], opener: End, acceptor: End, protocol: str) -> Connection:
        found = self._connections.get(key)
        if found is None:
            found = self._connections[key] = Connection(opener, acceptor, protocol)
        return found
