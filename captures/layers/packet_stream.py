"""NDN packets from the bytes of a TCP stream, framed by captures.layers.framing or captures.layers.websocket.

After missing bytes, the next plausible packet is searched for.
"""

from collections.abc import Iterable, Iterator

from captures.layers.framing import Elements, Framing
from captures.layers.streams import SYN, Chunk, Segment, Stream
from captures.layers.websocket import WebSocket, begins_http


class PacketStream:
    """One direction of a connection that carries NDN; `websocket`: its port is one of WebSocket.

    A new connection between the same ports begins anew. Counts: `gaps`, runs of missing bytes; `skipped`,
    captured bytes outside readable packets.
    """

    def __init__(self, websocket: bool = False) -> None:
        self._websocket = websocket
        self._stream = Stream()
        self._gaps = self._skipped = 0  # of connections before
        self._end = 0
        self._bytes = bytearray()  # bytes after the last packet
        self._begun = False  # whether the stream begins there
        self._framing: Framing | None = None  # unknown before the first bytes

    @property
    def gaps(self) -> int:
        """Number of runs of missing bytes."""
        return self._gaps + self._stream.gaps

    @property
    def skipped(self) -> int:
        """Bytes outside packets."""
        return self._skipped + (self._framing.skipped if self._framing else 0)

    @property
    def is_websocket(self) -> bool:
        """Whether its packets are messages of WebSocket."""
        return isinstance(self._framing, WebSocket)

    def receive(self, segment: Segment) -> Iterator[bytes]:
        """Process a segment; yield the packets that it completes."""
        if segment.flags & SYN and self._stream.first != segment.sequence + 1 & 0xFFFFFFFF:
            yield from self.finish()
            self._begun = True
        yield from self._read(self._stream.receive(segment))

    def finish(self) -> Iterator[bytes]:
        """Yield the remaining readable packets at the connection's end."""
        yield from self._read(self._stream.finish())
        self._drop()
        self._skipped, self._framing = self.skipped, None
        self._gaps = self.gaps
        self._stream, self._end = Stream(), 0

    def _read(self, chunks: Iterable[Chunk]) -> Iterator[bytes]:
        for chunk in chunks:
            if chunk.at != self._end:
                self._drop()
            self._end = chunk.at + len(chunk.data)
            self._bytes += chunk.data
            if self._framing is None:
                self._framing = self._detect_framing()
            if self._framing is not None:
                yield from self._framing.read(self._bytes)

    def _drop(self) -> None:
        self._skipped += len(self._bytes)
        self._bytes.clear()
        self._begun = False
        if self._framing is not None:
            self._framing.resynchronise()

    def _detect_framing(self) -> Framing | None:
        """Return the framing of the first packets; None if more bytes are needed."""
        is_http = begins_http(self._bytes)
        if is_http is None:
            return None
        # WebSocket begins with HTTP; in a capture that begins later only the port identifies it.
        is_websocket = is_http or (self._websocket and not self._begun)
        return WebSocket(is_http) if is_websocket else Elements(self._begun)
