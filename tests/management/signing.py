"""Commands made by hand, byte by byte as the specifications have them, and keys to sign them with."""

import hashlib
from collections.abc import Callable
from typing import NamedTuple

from Cryptodome.Hash import SHA256
from Cryptodome.PublicKey import ECC, RSA
from Cryptodome.Signature import DSS, pkcs1_15
from memory_faces import START
from nacl.signing import SigningKey

from base.units import MS
from forwarder.wire.name import from_uri
from forwarder.wire.packet import make_data
from forwarder.wire.tlv import element, nni

Sign = Callable[[bytes], bytes]


def digest(signed: bytes) -> bytes:
    return hashlib.sha256(signed).digest()


class Key(NamedTuple):
    """A key of somebody, with the certificate that it is known by."""

    name: bytes
    kind: int
    sign: Sign
    public: bytes

    def certificate(self, begin: bytes = b"20200101T000000", end: bytes = b"20991231T235959") -> bytes:
        name = self.name + from_uri("/self/v=1")
        period = element(253, element(254, begin) + element(255, end))
        info = element(22, element(27, nni(self.kind)) + element(28, element(7, self.name)) + period)
        signed = element(7, name) + element(20, element(24, nni(2))) + element(21, self.public) + info
        return element(6, signed + element(23, self.sign(signed)))


def ecdsa_key(name: str = "/alice/KEY/1") -> Key:
    key = ECC.generate(curve="P-256")
    signer = DSS.new(key, "fips-186-3", encoding="der")
    public = key.public_key().export_key(format="DER")
    return Key(from_uri(name), 3, lambda signed: signer.sign(SHA256.new(signed)), public)


def rsa_key(name: str = "/bob/KEY/1") -> Key:
    key = RSA.generate(1024)
    public = key.public_key().export_key(format="DER")
    return Key(from_uri(name), 1, lambda signed: pkcs1_15.new(key).sign(SHA256.new(signed)), public)


def ed25519_key(name: str = "/carol/KEY/1") -> Key:
    key = SigningKey.generate()
    # RFC 8410: SEQUENCE { SEQUENCE { OID 1.3.101.112 }, BIT STRING }.
    public = bytes.fromhex("302a300506032b6570032100") + bytes(key.verify_key)
    return Key(from_uri(name), 5, lambda signed: key.sign(signed).signature, public)


def parameters(*fields: tuple[int, bytes]) -> bytes:
    """A ControlParameters element."""
    return element(0x68, b"".join(element(kind, value) for kind, value in fields))


def named(uri: str) -> tuple[int, bytes]:
    return 7, from_uri(uri)


def number(kind: int, value: int) -> tuple[int, bytes]:
    return kind, nni(value)


def signed_command(
    verb: str,
    wire: bytes,
    key: Key | None = None,
    *,
    time: int | None = START // MS,
    sequence: int | None = None,
    nonce: bytes = bytes(range(1, 9)),
    prefix: str = "/localhost/nfd",
    payload: bytes = b"",
    spoil: bool = False,
) -> bytes:
    """A command in the form of NDN packet format 0.3; `wire` empty leaves the component out."""
    name = from_uri(f"{prefix}/{verb}") + (element(8, wire) if wire else b"")
    info = element(27, nni(0 if key is None else key.kind))
    if key is not None:
        info += element(28, element(7, key.name))
    if nonce:
        info += element(38, nonce)
    if time is not None:
        info += element(40, nni(time))
    if sequence is not None:
        info += element(42, nni(sequence))
    tail = element(36, payload) + element(44, info)
    signature = (digest if key is None else key.sign)(name + tail)
    if spoil:
        signature = signature[:-1] + bytes((signature[-1] ^ 1,))
    tail += element(46, signature)
    full = element(7, name + element(2, hashlib.sha256(tail).digest()))
    return element(5, full + element(0x0A, b"\0\0\0\1") + element(0x0C, nni(1000)) + tail)


def old_command(
    verb: str, wire: bytes, key: Key | None = None, *, time: int = START // MS, spoil: bool = False
) -> bytes:
    """A command in the older form: four more components."""
    info = element(27, nni(0 if key is None else key.kind))
    if key is not None:
        info += element(28, element(7, key.name))
    name = from_uri(f"/localhost/nfd/{verb}") + element(8, wire)
    name += element(8, time.to_bytes(8, "big")) + element(8, bytes(8)) + element(8, element(22, info))
    signature = (digest if key is None else key.sign)(name)
    if spoil:
        signature = signature[:-1] + bytes((signature[-1] ^ 1,))
    name += element(8, element(23, signature))
    return element(5, element(7, name) + element(0x0A, b"\0\0\0\1") + element(0x0C, nni(1000)))


def announcement(
    prefix: str, key: Key | None = None, *, period: int = 60_000, validity: bytes = b""
) -> bytes:
    """A prefix announcement."""
    content = element(0x6D, nni(period)) + validity
    name = from_uri(prefix) + from_uri("/32=PA/v=1/seg=0")
    if key is None:
        return make_data(name, content, content_type=5)
    return make_data(name, content, content_type=5, signature_type=key.kind, key_name=key.name, sign=key.sign)
