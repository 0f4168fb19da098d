"""NDN over TCP: packets end to end, or in WebSocket."""

from collections.abc import Iterator

from captures.framing import Elements
from captures.websocket import WebSocket, begins_http


class NdnFraming:
    """Cuts NDN packets out of one direction of a connection; see captures.framing.Framing.

    `on_port`: the connection's port is one of WebSocket, which a capture that begins later does not show.
    """

    def __init__(self, on_port: bool = False) -> None:
        self._on_port = on_port
        self._begun = False
        self._skipped = 0
        self._inner: Elements | WebSocket | None = None  # not known before the first bytes

    @property
    def skipped(self) -> int:
        """Bytes that belong to no packet."""
        return self._skipped + (self._inner.skipped if self._inner else 0)

    @property
    def is_websocket(self) -> bool:
        """Whether packets are messages of WebSocket."""
        return isinstance(self._inner, WebSocket)

    def begin(self) -> None:
        """See Framing."""
        self._skipped, self._inner = self.skipped, None
        self._begun = True

    def lose(self) -> None:
        """See Framing."""
        self._begun = False
        if self._inner is not None:
            self._inner.lose()

    def read(self, data: bytearray) -> Iterator[bytes]:
        """See Framing."""
        if self._inner is None:
            is_http = begins_http(data)
            if is_http is None:
                return
            is_websocket = is_http or (self._on_port and not self._begun)
            self._inner = WebSocket(is_http) if is_websocket else Elements(self._begun)
        yield from self._inner.read(data)
