"""Suites: a hash and a signature scheme each, named at the end of each key, hash and signature.

Classic messages know one hash and one signature. "Best practice mandates that cryptographic agility is
supported" (Tarr et al., "Secure Scuttlebutt", ACM ICN 2019, section 6.2). Each text below ends with an
indicator of its scheme, so a reader knows what it reads, and a further suite is a line of SUITES:

    key          <base64>.ed448
    hash         <base64>.blake2b
    signature    <base64>.sig.ed448

Ed448 (RFC 8032) and BLAKE2b-256 (RFC 7693) share neither curve nor hash with Ed25519 and SHA-256: Ed25519
hashes with SHA-512, a relative of SHA-256, Ed448 with SHAKE256. So what breaks one suite leaves the other.
Ed448 comes from OpenSSL, by `cryptography`: pycryptodomex has it, too, but takes milliseconds each.
ECDSA over P-256 would be quicker there, but anybody can turn one of its signatures into another valid one.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b, sha256
from secrets import token_bytes
from typing import TYPE_CHECKING, Final, NamedTuple

from ssb.keys import (
    KEY_BYTES,
    SIGNATURE_BYTES,
    Identity,
    InvalidRef,
    decode_base64,
    encode_base64,
    verify,
)
from ssb.work import WORK

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PrivateKey

HASH_BYTES: Final = 32


class Suite(NamedTuple):
    """A hash and a signature scheme.

    Attributes:
        name: indicator of keys and signatures.
        hash_name: indicator of hashes.
        seed_bytes, key_bytes, signature_bytes: sizes.
        hash: of a text, 32 bytes.
        public: seed -> public key.
        sign: seed, text -> signature.
        verify: public key, signature, text -> whether it is one; sizes are right.
    """

    name: str
    hash_name: str
    seed_bytes: int
    key_bytes: int
    signature_bytes: int
    hash: Callable[[bytes], bytes]
    public: Callable[[bytes], bytes]
    sign: Callable[[bytes, bytes], bytes]
    verify: Callable[[bytes, bytes, bytes], bool]


def _ed448_public(seed: bytes) -> bytes:
    return _ed448(seed).public_key().public_bytes_raw()


def _ed448_sign(seed: bytes, text: bytes) -> bytes:
    WORK.sign += 1
    return _ed448(seed).sign(text)


def _ed448(seed: bytes) -> "Ed448PrivateKey":
    from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PrivateKey  # few nodes need it

    return Ed448PrivateKey.from_private_bytes(seed)


def _ed448_verify(key: bytes, signature: bytes, text: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PublicKey

    WORK.verify += 1
    try:
        Ed448PublicKey.from_public_bytes(key).verify(signature, text)
    except (InvalidSignature, ValueError):  # ValueError: the key is no point of the curve
        return False
    return True


CLASSIC: Final = Suite(
    "ed25519",
    "sha256",
    KEY_BYTES,
    KEY_BYTES,
    SIGNATURE_BYTES,
    lambda text: sha256(text).digest(),
    lambda seed: Identity.from_seed(seed).public_key,
    lambda seed, text: Identity.from_seed(seed).sign(text),
    verify,
)
"""The suite of classic messages."""

SECOND: Final = Suite(
    "ed448",
    "blake2b",
    57,
    57,
    114,
    lambda text: blake2b(text, digest_size=HASH_BYTES).digest(),
    _ed448_public,
    _ed448_sign,
    _ed448_verify,
)
"""The suite for the day when the classic one breaks."""

SUITES: Final = {SECOND.name: SECOND}
"""Suites for countersignatures, by name. The classic one is missing: these are for the day when it breaks."""


class PublicKey(NamedTuple):
    """A public key of a suite."""

    suite: Suite
    raw: bytes

    @classmethod
    def parse(cls, text: object) -> "PublicKey":
        """Return the key in a text; raise InvalidRef, with one line, for another suite or form."""
        if not isinstance(text, str):
            raise InvalidRef("a key is a text")
        coded, _, name = text.rpartition(".")
        suite = SUITES.get(name)
        if suite is None:
            raise InvalidRef(f"a key ends with .{' or .'.join(SUITES)}, not with {name[:20]!r}")
        raw = decode_base64(coded)
        if len(raw) != suite.key_bytes:
            raise InvalidRef(f"a key of {name} has {suite.key_bytes} bytes, not {len(raw)}")
        return cls(suite, raw)

    @property
    def text(self) -> str:
        """The key with its indicator."""
        return f"{encode_base64(self.raw)}.{self.suite.name}"

    def verifies(self, signature: object, text: bytes) -> bool:
        """Return whether a signature in its text form is this key's, of a text."""
        end = f".sig.{self.suite.name}"
        if not isinstance(signature, str) or not signature.endswith(end):
            return False
        try:
            raw = decode_base64(signature.removesuffix(end))
        except InvalidRef:
            return False
        if len(raw) != self.suite.signature_bytes:
            return False
        return self.suite.verify(self.raw, raw, text)


@dataclass(frozen=True, slots=True)
class PrivateKey:
    """A key pair of a suite; the same seed gives the same one."""

    public: PublicKey
    _seed: bytes = field(repr=False)

    @classmethod
    def from_seed(cls, suite: Suite, seed: bytes) -> "PrivateKey":
        """Return the key pair of a seed; raise InvalidRef for one of another size."""
        if len(seed) != suite.seed_bytes:
            raise InvalidRef(f"a secret key of {suite.name} has {suite.seed_bytes} bytes, not {len(seed)}")
        return cls(PublicKey(suite, suite.public(seed)), seed)

    @classmethod
    def new(cls, suite: Suite) -> "PrivateKey":
        """Return a random key pair."""
        return cls.from_seed(suite, token_bytes(suite.seed_bytes))

    @classmethod
    def from_secret(cls, text: str) -> "PrivateKey":
        """Return the key pair that secret() has written; raise InvalidRef."""
        coded, _, name = text.rpartition(".")
        if name not in SUITES:
            raise InvalidRef(f"a secret key ends with .{' or .'.join(SUITES)}")
        return cls.from_seed(SUITES[name], decode_base64(coded))

    def secret(self) -> str:
        """The seed with its indicator."""
        return f"{encode_base64(self._seed)}.{self.public.suite.name}"

    def sign(self, text: bytes) -> str:
        """Return a signature of a text, in its text form."""
        suite = self.public.suite
        return f"{encode_base64(suite.sign(self._seed, text))}.sig.{suite.name}"


def hash_text(suite: Suite, digest: bytes) -> str:
    """Return a hash with its indicator."""
    return f"{encode_base64(digest)}.{suite.hash_name}"


def parse_hash(suite: Suite, text: object) -> bytes:
    """Return the 32 bytes of a hash of this suite; raise InvalidRef, with one line."""
    end = f".{suite.hash_name}"
    if not isinstance(text, str) or not text.endswith(end):
        raise InvalidRef(f"a hash of this suite ends with {end}")
    raw = decode_base64(text.removesuffix(end))
    if len(raw) != HASH_BYTES:
        raise InvalidRef(f"a hash has {HASH_BYTES} bytes, not {len(raw)}")
    return raw
