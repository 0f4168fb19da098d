"""Signed commands of the management, in an order that any forwarder takes."""

import hashlib
import hmac
import time
from collections.abc import Callable
from random import Random, SystemRandom
from typing import Final

from forwarder.wire.name import GENERIC, NAME, PARAMETERS_DIGEST, component, from_uri
from forwarder.wire.packet import INTEREST
from forwarder.wire.tlv import element, nni

_NONCE = 10
_LIFETIME = 12
_PARAMETERS = 36
_SIGNATURE_INFO = 44
_SIGNATURE_VALUE = 46
_SIGNATURE_TYPE = 27
_KEY_LOCATOR = 28
_SIGNATURE_NONCE = 38
_SIGNATURE_TIME = 40
HMAC_WITH_SHA256: Final = 4
CONTROL_PARAMETERS = 0x68
LOCALHOST = from_uri("/localhost/nfd")


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


class Signer:
    """Signs the commands of one connection: each is later than the one before, and nobody else has the key.

    A forwarder may refuse a command that is not later than the last of its key (NDN packet format 0.3,
    "Signed Interest"); NFD does so for routes, even if it trusts anybody. Hence a SignatureTime is what the
    clock shows, but at least a millisecond after the last. To NFD all digests are of one key: commands of
    other programs, or of other connections, would overtake each other. Hence each connection, on which
    commands stay in order, has a key of its own. It does not prove who signs: like a digest, it is for
    forwarders that trust anybody on their machine.

    Args:
        clock: milliseconds since 1970.
        rng: makes key and nonces.

    Attributes:
        key_name: the name of the key, as the bytes of its components.
    """

    def __init__(self, clock: Callable[[], int] = _wall_ms, rng: Random | None = None) -> None:
        self._clock = clock
        self._rng = rng or SystemRandom()
        self._key = self._rng.randbytes(32)
        self._last = 0
        self.key_name: Final = from_uri(f"/localhost/feednet/KEY/{self._rng.randbytes(8).hex()}")

    def stamp(self) -> tuple[int, bytes]:
        """Return the SignatureTime of the next command, ms, and its SignatureNonce."""
        self._last = max(self._clock(), self._last + 1)
        return self._last, self._rng.randbytes(8)

    def sign(self, signed: bytes) -> bytes:
        """Return the signature of a signed portion: SignatureHmacWithSha256."""
        return hmac.digest(self._key, signed, "sha256")

    def command(
        self,
        verb: bytes,
        parameters: bytes,
        *,
        prefix: bytes = LOCALHOST,
        payload: bytes = b"",
        lifetime_ms: int = 1000,
    ) -> bytes:
        """Build a command Interest, to be sent before the next one is built.

        `verb` is the name of module and verb, `parameters` a ControlParameters element, or empty.
        """
        signed_ms, nonce = self.stamp()
        name = prefix + verb + (component(GENERIC, parameters) if parameters else b"")
        info = element(_SIGNATURE_TYPE, nni(HMAC_WITH_SHA256))
        info += element(_KEY_LOCATOR, element(NAME, self.key_name))
        info += element(_SIGNATURE_NONCE, nonce) + element(_SIGNATURE_TIME, nni(signed_ms))
        tail = element(_PARAMETERS, payload) + element(_SIGNATURE_INFO, info)
        tail += element(_SIGNATURE_VALUE, self.sign(name + tail))
        name += component(PARAMETERS_DIGEST, hashlib.sha256(tail).digest())
        fields = element(NAME, name) + element(_NONCE, nonce[:4])
        return element(INTEREST, fields + element(_LIFETIME, nni(lifetime_ms)) + tail)

    def register(self, prefix: bytes) -> bytes:
        """Build the command that asks for the Interests under a prefix."""
        parameters = element(CONTROL_PARAMETERS, element(NAME, prefix))
        return self.command(from_uri("/rib/register"), parameters)
