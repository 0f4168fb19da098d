"""Box stream: bytes in boxes, secure against reading, modification, reordering and replay by others.

A box is a header of 34 bytes and a body of up to 4096. Both are sealed with the stream's key; nonces count
up by two a box, one for the header and one for the body. A header holds the body's length and its
authenticator; one of zeros is the goodbye, after which the stream may end. An end without it is a cut.
(Scuttlebutt Protocol Guide, "Box stream"; npm's pull-box-stream.)
"""

from collections.abc import Iterator
from typing import Final

from nacl.bindings import crypto_secretbox, crypto_secretbox_open
from nacl.exceptions import CryptoError

HEADER_BYTES: Final = 34
MAX_BODY: Final = 4096

_TAG_BYTES = 16
_NONCES = 1 << 192
_GOODBYE = bytes(18)


class BoxError(ValueError):
    """A box that cannot be opened; the message names the part."""


class Boxer:
    """The sending side."""

    def __init__(self, key: bytes, nonce: bytes) -> None:
        self._key = key
        self._nonce = int.from_bytes(nonce)

    def box(self, data: bytes) -> bytes:
        """Return data in boxes, as few as possible."""
        boxes = []
        for start in range(0, len(data), MAX_BODY):
            body = data[start : start + MAX_BODY]
            sealed = crypto_secretbox(body, ((self._nonce + 1) % _NONCES).to_bytes(24), self._key)
            boxes.append(self._header(len(body).to_bytes(2) + sealed[:_TAG_BYTES]))
            boxes.append(sealed[_TAG_BYTES:])
        return b"".join(boxes)

    def goodbye(self) -> bytes:
        """Return the last box."""
        return self._header(_GOODBYE)

    def _header(self, header: bytes) -> bytes:
        sealed = crypto_secretbox(header, self._nonce.to_bytes(24), self._key)
        self._nonce = (self._nonce + 2) % _NONCES
        return sealed


class Unboxer:
    """The receiving side.

    Attributes:
        has_ended: whether the goodbye was received.
    """

    def __init__(self, key: bytes, nonce: bytes) -> None:
        self._key = key
        self._nonce = int.from_bytes(nonce)
        self._waiting = bytearray()
        self._header: bytes | None = None
        self.has_ended = False

    def receive(self, data: bytes) -> bytes:
        """Process received bytes and return the contents of completed boxes; raise BoxError."""
        return b"".join(self.boxes(data))

    def boxes(self, data: bytes) -> Iterator[bytes]:
        """Process received bytes and yield the content of each completed box; the goodbye is empty."""
        self._waiting += data
        waiting = bytes(self._waiting)
        start = 0
        try:
            while True:
                if self._header is None:
                    if len(waiting) - start < HEADER_BYTES:
                        return
                    self._header = self._open_header(waiting[start : start + HEADER_BYTES])
                    start += HEADER_BYTES
                size = int.from_bytes(self._header[:2])
                if len(waiting) - start < size:
                    return
                content = b""
                if not self.has_ended:
                    sealed = self._header[2:] + waiting[start : start + size]
                    content = self._open(sealed, self._nonce + 1, "body")
                start += size
                self._header = None
                self._nonce = (self._nonce + 2) % _NONCES
                yield content
        finally:
            del self._waiting[:start]

    def _open_header(self, sealed: bytes) -> bytes:
        if self.has_ended:
            raise BoxError("a box after the goodbye")
        header = self._open(sealed, self._nonce, "header")
        self.has_ended = header == _GOODBYE
        size = int.from_bytes(header[:2])
        if size > MAX_BODY or (not size and not self.has_ended):
            raise BoxError(f"a body of {size} bytes")
        return header

    def _open(self, sealed: bytes, nonce: int, part: str) -> bytes:
        try:
            return crypto_secretbox_open(sealed, (nonce % _NONCES).to_bytes(24), self._key)
        except CryptoError:
            raise BoxError(f"a {part} that cannot be opened") from None
