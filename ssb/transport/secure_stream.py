"""A stream between two peers: handshake, then boxes; or the same interface without encryption.

A `Channel` converts between bytes of TCP and bytes of the protocol above. `SecureStream` is the one of
deployed peers. `PlainStream` is for experiments about the cost of encryption: each side sends a mark of four
bytes and its public key, without authentication.
"""

from typing import Final, NamedTuple, Protocol

from base.key_log import Secret
from ssb.keys import KEY_BYTES, feed_ref
from ssb.transport.box_stream import Boxer, BoxError, Unboxer
from ssb.transport.handshake import ClientHandshake, HandshakeError, ServerHandshake

CLIENT_SECRET: Final = "SSB_CLIENT_BOX_STREAM"
"""Label in key logs: the secret of the client's boxes.

The identifier is the client's ephemeral public key, bytes 32 to 63 of its output; the secret is the
stream's key, 32 bytes, and its first nonce, 24.
"""
SERVER_SECRET: Final = "SSB_SERVER_BOX_STREAM"
"""The same for the server's boxes; the identifier is the client's, too."""

PLAIN_MARK: Final = b"SSB0"
PLAIN_BYTES: Final = len(PLAIN_MARK) + KEY_BYTES
"""Bytes at the beginning of each side of a plain stream."""


class ChannelError(ValueError):
    """The other peer violates a rule of the handshake or of boxes; the message has the reason."""


class StreamSecrets(NamedTuple):
    """Key of one direction of a box stream: 32 bytes of key, 24 of the first nonce."""

    key: bytes
    nonce: bytes

    @classmethod
    def of(cls, secret: Secret) -> "StreamSecrets":
        """Parse a secret of a key log; raise ValueError if it is of another length."""
        if len(secret.secret) != 56:
            raise ValueError(f"a secret of {len(secret.secret)} bytes, not 56")
        return cls(secret.secret[:KEY_BYTES], secret.secret[KEY_BYTES:])


class Channel(Protocol):
    """One side of a stream.

    Attributes:
        remote: the other peer's reference; None until it is known, and then the channel is open.
        has_ended: whether the other peer has ended the stream.
    """

    remote: str | None

    @property
    def has_ended(self) -> bool: ...

    @property
    def queued(self) -> int:
        """Bytes queued for take_output()."""
        ...

    def receive(self, data: bytes) -> bytes:
        """Process bytes of TCP; return bytes of the protocol above. Raises ChannelError."""
        ...

    def send(self, data: bytes) -> None:
        """Send bytes of the protocol above; not before the channel is open, and not after end()."""
        ...

    def end(self) -> None:
        """End this side of the stream."""
        ...

    def take_output(self) -> bytes:
        """Return the bytes for TCP."""
        ...

    def take_secrets(self) -> list[Secret]:
        """Return, once, the secrets for decrypting a capture of the stream."""
        ...


class SecureStream:
    """See Channel: handshake and box stream. Data sent between two take_output() share boxes."""

    def __init__(self, handshake: ClientHandshake | ServerHandshake) -> None:
        self._handshake = handshake
        self._boxer: Boxer | None = None
        self._unboxer: Unboxer | None = None
        self._plain = bytearray()
        self._is_ending = False
        self._secrets: list[Secret] = []
        self.remote: str | None = None

    @property
    def has_ended(self) -> bool:
        return self._unboxer is not None and self._unboxer.has_ended

    @property
    def queued(self) -> int:
        return len(self._plain)

    def receive(self, data: bytes) -> bytes:
        try:
            if self._unboxer is None:
                self._handshake.receive(data)
                if self._handshake.keys is None:
                    return b""
                data = self._handshake.rest
                self._open()
            assert self._unboxer is not None
            return self._unboxer.receive(data)
        except (HandshakeError, BoxError) as error:
            raise ChannelError(str(error)) from None

    def send(self, data: bytes) -> None:
        self._plain += data

    def end(self) -> None:
        self._is_ending = True

    def take_output(self) -> bytes:
        output = self._handshake.take_output()
        if self._boxer is not None:
            output += self._boxer.box(bytes(self._plain))
            self._plain.clear()
            if self._is_ending:
                output += self._boxer.goodbye()
                self._boxer = None
        return output

    def take_secrets(self) -> list[Secret]:
        secrets, self._secrets = self._secrets, []
        return secrets

    def _open(self) -> None:
        keys = self._handshake.keys
        assert keys is not None
        self._boxer = Boxer(keys.send_key, keys.send_nonce)
        self._unboxer = Unboxer(keys.receive_key, keys.receive_nonce)
        labels = (CLIENT_SECRET, SERVER_SECRET)
        if isinstance(self._handshake, ServerHandshake):
            labels = (SERVER_SECRET, CLIENT_SECRET)
        self._secrets = [
            Secret(labels[0], keys.identifier, keys.send_key + keys.send_nonce),
            Secret(labels[1], keys.identifier, keys.receive_key + keys.receive_nonce),
        ]
        self.remote = feed_ref(keys.remote)


class PlainStream:
    """See Channel: only the peers' public keys, in the clear.

    Args:
        public_key: of this peer.
    """

    has_ended = False

    def __init__(self, public_key: bytes) -> None:
        self._output = bytearray(PLAIN_MARK + public_key)
        self._waiting = b""
        self.remote: str | None = None

    @property
    def queued(self) -> int:
        return len(self._output)

    def receive(self, data: bytes) -> bytes:
        if self.remote is not None:
            return data
        self._waiting += data
        if not PLAIN_MARK.startswith(self._waiting[: len(PLAIN_MARK)]):
            raise ChannelError("a stream that does not begin as a plain one")
        if len(self._waiting) < PLAIN_BYTES:
            return b""
        self.remote = feed_ref(self._waiting[len(PLAIN_MARK) : PLAIN_BYTES])
        return self._waiting[PLAIN_BYTES:]

    def send(self, data: bytes) -> None:
        self._output += data

    def end(self) -> None:
        """See Channel: signalled by the end of TCP's stream."""

    def take_output(self) -> bytes:
        output = bytes(self._output)
        self._output.clear()
        return output

    def take_secrets(self) -> list[Secret]:
        """See Channel: there are none."""
        return []
