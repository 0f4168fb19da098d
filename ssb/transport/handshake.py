"""The secret handshake: two peers authenticate each other, and agree on secret keys.

Four messages (Tarr, "Designing a Secret Handshake: Authenticated Key Exchange as a Capability System",
2015; Scuttlebutt Protocol Guide, "Handshake"). The client knows the server's public key beforehand, which
is its capability to call. The server learns the client's public key from the third message. Both must know
the key of the network; others get no answer.

Each side is an object: `receive` takes received bytes, and `take_output` returns the bytes to be sent. The
handshake is complete when `keys` is set; `rest` are the bytes received after it.
"""

import hmac
from collections.abc import Callable
from hashlib import sha256
from typing import Final, NamedTuple

from nacl.bindings import crypto_box_seed_keypair, crypto_scalarmult, crypto_secretbox, crypto_secretbox_open
from nacl.exceptions import CryptoError

from ssb.keys import KEY_BYTES, SIGNATURE_BYTES, Identity, InvalidRef, agree_with, verify

MAIN_NETWORK: Final = bytes.fromhex("d4a1cb88a66f02f8db635ce26441cc5dac1b08420ceaac230839b755845a9ffb")
"""Key of the main Scuttlebutt network."""

HELLO_BYTES: Final = 64
AUTHENTICATE_BYTES: Final = 112
ACCEPT_BYTES: Final = 80

_NONCE = bytes(24)
_NONCE_BYTES = 24


class HandshakeError(ValueError):
    """The other side fails to authenticate; the message has the reason, in few words."""


def is_hello(message: bytes, network: bytes) -> bool:
    """Whether 64 bytes are the first message of a side that knows the network's key."""
    authenticator, public = message[:KEY_BYTES], message[KEY_BYTES:]
    return hmac.compare_digest(authenticator, _authenticator(public, network))


def _authenticator(public: bytes, network: bytes) -> bytes:
    return hmac.digest(network, public, "sha512")[:KEY_BYTES]


class StreamKeys(NamedTuple):
    """The result of a handshake.

    Attributes:
        remote: the other peer's public key, 32 bytes.
        identifier: the client's ephemeral public key, which identifies the stream in a capture: its bytes 32
            to 63.
        send_key, send_nonce: of the box stream to the other peer, 32 and 24 bytes.
        receive_key, receive_nonce: of the one from it.
    """

    remote: bytes
    identifier: bytes
    send_key: bytes
    send_nonce: bytes
    receive_key: bytes
    receive_nonce: bytes


class _Side:
    """Common base of client and server.

    Args:
        identity: of this peer.
        network: the network's key, 32 bytes.
        seed: 32 random bytes, for this handshake alone.
    """

    def __init__(self, identity: Identity, network: bytes, seed: bytes) -> None:
        self._identity = identity
        self._network = network
        self._public, self._secret = crypto_box_seed_keypair(seed)
        self._waiting = bytearray()
        self._output = bytearray()
        self._step: Callable[[bytes], None]
        self._needed = HELLO_BYTES
        self._remote_public = b""
        self.keys: StreamKeys | None = None

    @property
    def rest(self) -> bytes:
        """Bytes received after the handshake: they belong to the box stream."""
        return bytes(self._waiting) if self.keys is not None else b""

    def take_output(self) -> bytes:
        """Return the bytes to be sent."""
        output = bytes(self._output)
        self._output.clear()
        return output

    def receive(self, data: bytes) -> None:
        """Process received bytes; raise HandshakeError, at which the stream is closed."""
        self._waiting += data
        while self.keys is None and len(self._waiting) >= self._needed:
            message = bytes(self._waiting[: self._needed])
            del self._waiting[: self._needed]
            self._step(message)

    def _hello(self) -> bytes:
        return _authenticator(self._public, self._network) + self._public

    def _read_hello(self, message: bytes) -> None:
        if not is_hello(message, self._network):
            raise HandshakeError("a hello of another network")
        public = message[KEY_BYTES:]
        if public == self._public:
            raise HandshakeError("a hello that is this peer's own")
        self._remote_public = public

    def _agree(self) -> bytes:
        """Return the shared secret of both ephemeral keys."""
        try:
            return crypto_scalarmult(self._secret, self._remote_public)
        except CryptoError:
            raise HandshakeError("an ephemeral key of low order") from None

    def _agree_by_identity(self) -> bytes:
        """Return the shared secret of this peer's identity and the other's ephemeral key."""
        try:
            return self._identity.agree(self._remote_public)
        except InvalidRef:
            raise HandshakeError("an ephemeral key of low order") from None

    def _agree_with(self, public_key: bytes) -> bytes:
        """Return the shared secret of this peer's ephemeral key and the other's identity."""
        try:
            return agree_with(self._secret, public_key)
        except InvalidRef:
            raise HandshakeError("a public key that is none") from None

    def _finish(self, secret: bytes, remote: bytes, *, is_client: bool) -> None:
        key = sha256(secret).digest()
        here, there = self._public, self._remote_public
        self.keys = StreamKeys(
            remote=remote,
            identifier=here if is_client else there,
            send_key=sha256(key + remote).digest(),
            send_nonce=_authenticator(there, self._network)[:_NONCE_BYTES],
            receive_key=sha256(key + self._identity.public_key).digest(),
            receive_nonce=_authenticator(here, self._network)[:_NONCE_BYTES],
        )


class ClientHandshake(_Side):
    """The calling side, which knows the server's key.

    Args:
        remote: the server's public key, 32 bytes.
    """

    def __init__(self, identity: Identity, remote: bytes, network: bytes, seed: bytes) -> None:
        super().__init__(identity, network, seed)
        self._remote = remote
        self._output += self._hello()
        self._step = self._on_hello
        self._signature = b""
        self._secrets = b""
        self._hash = b""

    def _on_hello(self, message: bytes) -> None:
        self._read_hello(message)
        ephemeral = self._agree()
        self._hash = sha256(ephemeral).digest()
        self._secrets = self._network + ephemeral + self._agree_with(self._remote)
        self._signature = self._identity.sign(self._network + self._remote + self._hash)
        proof = self._signature + self._identity.public_key
        self._output += crypto_secretbox(proof, _NONCE, sha256(self._secrets).digest())
        self._step, self._needed = self._on_accept, ACCEPT_BYTES

    def _on_accept(self, message: bytes) -> None:
        secret = sha256(self._secrets + self._agree_by_identity()).digest()
        try:
            signature = crypto_secretbox_open(message, _NONCE, secret)
        except CryptoError:
            raise HandshakeError("an acceptance that cannot be opened") from None
        signed = self._network + self._signature + self._identity.public_key + self._hash
        if not verify(self._remote, signature, signed):
            raise HandshakeError("an acceptance that the server has not signed")
        self._finish(secret, self._remote, is_client=True)


class ServerHandshake(_Side):
    """The called side.

    Args:
        accepts: whether the peer with this public key may connect; by default all may.
    """

    def __init__(
        self,
        identity: Identity,
        network: bytes,
        seed: bytes,
        accepts: Callable[[bytes], bool] = lambda _: True,
    ) -> None:
        super().__init__(identity, network, seed)
        self._accepts = accepts
        self._step = self._on_hello

    def _on_hello(self, message: bytes) -> None:
        self._read_hello(message)
        self._output += self._hello()
        self._step, self._needed = self._on_authenticate, AUTHENTICATE_BYTES

    def _on_authenticate(self, message: bytes) -> None:
        ephemeral = self._agree()
        secrets = self._network + ephemeral + self._agree_by_identity()
        try:
            proof = crypto_secretbox_open(message, _NONCE, sha256(secrets).digest())
        except CryptoError:
            raise HandshakeError("a proof that cannot be opened: the client calls another peer") from None
        signature, remote = proof[:SIGNATURE_BYTES], proof[SIGNATURE_BYTES:]
        hashed = sha256(ephemeral).digest()
        if not verify(remote, signature, self._network + self._identity.public_key + hashed):
            raise HandshakeError("a proof that the client has not signed")
        if not self._accepts(remote):
            raise HandshakeError("a client that may not connect")
        secret = sha256(secrets + self._agree_with(remote)).digest()
        answer = self._identity.sign(self._network + signature + remote + hashed)
        self._output += crypto_secretbox(answer, _NONCE, secret)
        self._finish(secret, remote, is_client=False)
