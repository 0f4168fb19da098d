"""Authorisation that is as strict about the order of commands as NFD's: what CI has without NFD."""

from collections import defaultdict, deque

from forwarder.management.authorisation import Authorisation
from forwarder.management.commands import Signature
from forwarder.wire.packet import DIGEST_SHA256
from forwarder.wire.tlv import elements

_INTEREST_SIGNATURE_INFO, _SIGNATURE_NONCE = 44, 38


class AsNfd(Authorisation):
    """Asks of all commands what NFD 24.07 asks of those for routes, though it trusts anybody.

    That is (ndn-cxx, ValidationPolicySignedInterest and ValidationPolicyCommandInterest): a time within two
    minutes of its own, and later than the last of that key, where all digests are one key; and in a signed
    Interest of packet format 0.3 a nonce, which none of the key's last 1,000 had.
    """

    def __init__(self) -> None:
        super().__init__()
        self._nonces: dict[bytes, deque[bytes]] = defaultdict(lambda: deque(maxlen=1000))

    def check(self, module: str, signature: Signature, now: int) -> str | None:
        """See Authorisation."""
        return super().check(module, signature, now) or self._check_order(signature, now)

    def _check_order(self, signature: Signature, now: int) -> str | None:
        key = b"digest" if signature.kind == DIGEST_SHA256 else signature.key
        if key is None:
            return "no name of a key"
        nonces = self._nonces[key]
        nonce = _nonce(signature.signed)
        if nonce is not None and (not nonce or nonce in nonces):
            return "no nonce, or an old one"
        why = self._check_replay(key, signature, now)
        if why is None and nonce:
            nonces.append(nonce)
        return why


def _nonce(signed: bytes) -> bytes | None:
    """Return the SignatureNonce, empty without one; None if this is no signed Interest of format 0.3."""
    for kind, start, end in elements(signed, 0, len(signed)):
        if kind == _INTEREST_SIGNATURE_INFO:
            info = {field: signed[at:stop] for field, at, stop in elements(signed, start, end)}
            return info.get(_SIGNATURE_NONCE, b"")
    return None
