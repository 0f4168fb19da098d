"""NDN certificates for runs: keys derived from a seed, so that all nodes know them.

Signatures are ECDSA over SHA-256 as in python-ndn's validators, with the nonces of RFC 6979: equal packets
have equal signatures in every run.
"""

import hashlib
from functools import cache
from typing import Final

from forwarder.wire.name import GENERIC, VERSION, component, from_uri
from forwarder.wire.packet import KEY_CONTENT, SHA256_WITH_ECDSA, make_data
from forwarder.wire.tlv import element, nni

_CURVE: Final = "P-256"
_ORDER: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_VALIDITY_PERIOD: Final = 253
_NOT_BEFORE: Final = 254
_NOT_AFTER: Final = 255
_FRESHNESS_MS: Final = 3_600_000


class Authority:
    """A key and its certificate (NDN certificate format 2.0); signs Data, and the certificates of others.

    Args:
        uri: the key's owner.
        issuer: signer of the certificate; None for the key itself, as of a trust anchor.
        until: the last day of the certificate, YYYYMMDD.
        seed: determines the key, with the URI.

    Attributes:
        name, certificate: the certificate's name, and its Data packet.
    """

    def __init__(
        self, uri: str, issuer: "Authority | None" = None, *, until: str = "21000101", seed: str = ""
    ) -> None:
        from Cryptodome.PublicKey import ECC  # slow to import, and needed by few layerings
        from Cryptodome.Signature import DSS

        drawn = int.from_bytes(hashlib.sha512(f"{seed} {uri}".encode()).digest())
        key = ECC.construct(curve=_CURVE, d=drawn % (_ORDER - 1) + 1)
        self._signer = DSS.new(key, "deterministic-rfc6979", encoding="der")
        public = key.public_key().export_key(format="DER")
        key_name = from_uri(uri) + component(GENERIC, b"KEY") + component(GENERIC, _short_hash(public))
        issued = component(GENERIC, b"self" if issuer is None else b"feednet") + component(VERSION, nni(1))
        self.name = key_name + issued
        signer = self if issuer is None else issuer
        validity = element(_NOT_BEFORE, b"19700101T000000") + element(_NOT_AFTER, f"{until}T000000".encode())
        self.certificate = make_data(
            self.name,
            public,
            freshness_ms=_FRESHNESS_MS,
            content_type=KEY_CONTENT,
            signature_type=SHA256_WITH_ECDSA,
            key_name=key_name if issuer is None else issuer.name,
            more_info=element(_VALIDITY_PERIOD, validity),
            sign=signer._sign,
        )

    def sign(
        self,
        name: bytes,
        content: bytes,
        *,
        freshness_ms: int = _FRESHNESS_MS,
        final_block: bytes | None = None,
    ) -> bytes:
        """Return a signed Data packet."""
        return make_data(
            name,
            content,
            freshness_ms=freshness_ms,
            final_block=final_block,
            signature_type=SHA256_WITH_ECDSA,
            key_name=self.name,
            sign=self._sign,
        )

    def _sign(self, signed: bytes) -> bytes:
        from Cryptodome.Hash import SHA256

        return bytes(self._signer.sign(SHA256.new(signed)))


ANCHOR_URI: Final = "/ssb"
PRODUCERS_URI: Final = "/ssb/producers"
SCHEMA: Final = """
#KEY: "KEY"/_/_/_
#anchor: "ssb"/#KEY
#producer: "ssb"/"producers"/node/#KEY <= #anchor
#segment: "ssb"/"logs"/_/_ <= #producer
"""
"""Signing rules of runs: producers sign segments, and the anchor signs producers' keys. LightVerSec."""


@cache
def anchor_of(seed: int) -> Authority:
    """Return the trust anchor of a run."""
    return Authority(ANCHOR_URI, seed=f"{seed}")


@cache
def producer_of(seed: int, node: str) -> Authority:
    """Return the signing key of the producer on a node of a run."""
    return Authority(f"{PRODUCERS_URI}/{node}", anchor_of(seed), seed=f"{seed}")


def _short_hash(public: bytes) -> bytes:
    return hashlib.sha256(public).digest()[:8]
