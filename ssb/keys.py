"""Identities, and references of feeds, messages and blobs.

A reference is a sigil for its kind (`@` feed, `%` message, `&` blob), 32 bytes in base64, and a
suffix for the algorithm (Scuttlebutt Protocol Guide, "Keys and identities", "Message ID",
"Blobs"). Base64 must be canonical (RFC 4648, section 3.5): if two spellings of one key were
accepted, one feed would have two names.
"""

import re
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, TypeGuard

from nacl.bindings import (
    crypto_scalarmult,
    crypto_sign,
    crypto_sign_ed25519_pk_to_curve25519,
    crypto_sign_ed25519_sk_to_curve25519,
    crypto_sign_open,
    crypto_sign_seed_keypair,
)
from nacl.exceptions import BadSignatureError, CryptoError

from ssb.work import WORK

KEY_BYTES = 32
SIGNATURE_BYTES = 64
SIGNATURE_SUFFIX: Final = ".sig.ed25519"
"""End of a signature as text, after its base64."""

_BLOB = re.compile(r"&[A-Za-z0-9+/]{43}=\.sha256")
_MESSAGE = re.compile(r"%[A-Za-z0-9+/]{43}=\.sha256")


class InvalidRef(ValueError):
    """Not a canonical reference, key or signature; the message has the reason."""


def encode_base64(raw: bytes) -> str:
    """Base64 with padding and without line ends (RFC 4648, section 4)."""
    return b2a_base64(raw, newline=False).decode()


def decode_base64(text: str) -> bytes:
    """Decode canonical base64; raise InvalidRef for other encodings of the same bytes."""
    try:
        raw = a2b_base64(text)
    except ValueError:
        raise InvalidRef("not base64") from None
    if encode_base64(raw) != text:
        raise InvalidRef("base64 is not canonical")
    return raw


def feed_ref(public_key: bytes) -> str:
    """`@<key>.ed25519`, the name of a feed and of the identity that writes it."""
    return _ref("@", public_key, ".ed25519")


def message_ref(digest: bytes) -> str:
    """`%<digest>.sha256`, the name of a message."""
    return _ref("%", digest, ".sha256")


def blob_ref(digest: bytes) -> str:
    """`&<digest>.sha256`, the name of a blob."""
    return _ref("&", digest, ".sha256")


def parse_feed(ref: str) -> bytes:
    """The 32-byte Ed25519 public key in a feed's reference; raise InvalidRef if malformed."""
    return _parse(ref, "@", ".ed25519")


def parse_message(ref: str) -> bytes:
    """The 32-byte SHA-256 digest in a message's reference; raise InvalidRef if malformed."""
    return _parse(ref, "%", ".sha256")


def parse_blob(ref: str) -> bytes:
    """The 32-byte SHA-256 digest in a blob's reference; raise InvalidRef if malformed."""
    return _parse(ref, "&", ".sha256")


def is_feed(value: object) -> TypeGuard[str]:
    """Whether a value is a feed's reference."""
    return _is_parsed(parse_feed, value)


def is_message(value: object) -> TypeGuard[str]:
    """Whether a value is a message's reference."""
    return _is_parsed(parse_message, value)


def is_blob(value: object) -> TypeGuard[str]:
    """Whether a value is a blob's reference."""
    return _is_parsed(parse_blob, value)


def _is_parsed(parse: Callable[[str], bytes], value: object) -> bool:
    try:
        parse(value if isinstance(value, str) else "")
    except InvalidRef:
        return False
    return True


def signature_text(signature: bytes) -> str:
    """A signature as text: base64 and `.sig.ed25519`."""
    return encode_base64(signature) + SIGNATURE_SUFFIX


def parse_signature(text: str) -> bytes:
    """The 64 bytes of a signature as text; raise InvalidRef if malformed."""
    if not text.endswith(SIGNATURE_SUFFIX):
        raise InvalidRef(f"does not end with {SIGNATURE_SUFFIX}")
    raw = decode_base64(text.removesuffix(SIGNATURE_SUFFIX))
    if len(raw) != SIGNATURE_BYTES:
        raise InvalidRef(f"has {len(raw)} bytes, not {SIGNATURE_BYTES}")
    return raw


def verify(public_key: bytes, signature: bytes, data: bytes) -> bool:
    """Whether `signature` (64 bytes) is the Ed25519 signature of `data` by `public_key` (32 bytes)."""
    if len(public_key) != KEY_BYTES:
        raise ValueError(f"an Ed25519 public key has {KEY_BYTES} bytes, not {len(public_key)}")
    if len(signature) != SIGNATURE_BYTES:
        return False
    WORK.verify += 1
    return (_cached.get() or _check)(bytes(public_key), bytes(signature), bytes(data))


def _check(public_key: bytes, signature: bytes, data: bytes) -> bool:
    try:
        crypto_sign_open(signature + data, public_key)
    except BadSignatureError:
        return False
    return True


_CACHED: Final = 1 << 13
_cached: ContextVar[Callable[[bytes, bytes, bytes], bool] | None] = ContextVar("cached", default=None)


@contextmanager
def cached_signatures() -> Iterator[None]:
    """Within this context verify() caches its last answers, as many nodes in one process verify the
    same bytes. forwarder.feedcache.items remembers verified items, too.
    """
    token = _cached.set(lru_cache(_CACHED)(_check))
    try:
        yield
    finally:
        _cached.reset(token)


def agree_with(secret: bytes, public_key: bytes) -> bytes:
    """Shared secret of a Curve25519 secret key and an identity (X25519), 32 bytes.

    Raises InvalidRef if the identity's public key is not a point, or one of low order.
    """
    try:
        return crypto_scalarmult(secret, crypto_sign_ed25519_pk_to_curve25519(public_key))
    except CryptoError:
        raise InvalidRef("not an Ed25519 public key") from None


@dataclass(frozen=True, slots=True)
class Identity:
    """An Ed25519 key pair: the author of one feed. Created by `from_seed` or `from_secret`."""

    public_key: bytes
    """32 bytes."""
    ref: str
    """The feed's reference, `@...=.ed25519`."""
    _secret_key: bytes = field(repr=False)

    @classmethod
    def from_seed(cls, seed: bytes) -> "Identity":
        """The identity of a 32-byte seed; the same seed gives the same identity."""
        if len(seed) != KEY_BYTES:
            raise ValueError(f"a seed has {KEY_BYTES} bytes, not {len(seed)}")
        public_key, secret_key = crypto_sign_seed_keypair(seed)
        return cls(public_key, feed_ref(public_key), secret_key)

    @classmethod
    def from_secret(cls, text: str) -> "Identity":
        """The identity from the `private` entry of SSB's secret file.

        That entry is the base64 of seed and public key, 64 bytes, with the suffix `.ed25519`.
        Raises InvalidRef if it is malformed or its two halves do not match.
        """
        if not text.endswith(".ed25519"):
            raise InvalidRef("secret key does not end with .ed25519")
        raw = decode_base64(text.removesuffix(".ed25519"))
        if len(raw) != 2 * KEY_BYTES:
            raise InvalidRef(f"secret key has {len(raw)} bytes, not {2 * KEY_BYTES}")
        identity = cls.from_seed(raw[:KEY_BYTES])
        if identity.public_key != raw[KEY_BYTES:]:
            raise InvalidRef("secret key's public half does not belong to its seed")
        return identity

    def secret(self) -> str:
        """The `private` entry of SSB's secret file: see from_secret()."""
        return f"{encode_base64(self._secret_key)}.ed25519"

    def sign(self, data: bytes) -> bytes:
        """The 64-byte signature of `data`."""
        WORK.sign += 1
        return crypto_sign(data, self._secret_key)[:SIGNATURE_BYTES]

    def agree(self, public: bytes) -> bytes:
        """Shared secret of this identity and a Curve25519 public key (X25519), 32 bytes.

        Raises InvalidRef if the key is a point of low order.
        """
        try:
            return crypto_scalarmult(crypto_sign_ed25519_sk_to_curve25519(self._secret_key), public)
        except CryptoError:
            raise InvalidRef("a Curve25519 public key of low order") from None


def _ref(sigil: str, raw: bytes, suffix: str) -> str:
    if len(raw) != KEY_BYTES:
        raise ValueError(f"a reference names {KEY_BYTES} bytes, not {len(raw)}")
    return sigil + encode_base64(raw) + suffix


def named_blobs(text: str) -> list[str]:
    """Return the references of blobs in a message's text, each once, in the order of their first places."""
    return list(dict.fromkeys(_BLOB.findall(text)))


def named_messages(text: str) -> list[str]:
    """Return the references of messages in a message's text, likewise."""
    return list(dict.fromkeys(_MESSAGE.findall(text)))


def _parse(ref: str, sigil: str, suffix: str) -> bytes:
    if not (ref.startswith(sigil) and ref.endswith(suffix)):
        raise InvalidRef(f"reference is not of the form {sigil}<base64>{suffix}")
    raw = decode_base64(ref[1 : -len(suffix)])
    if len(raw) != KEY_BYTES:
        raise InvalidRef(f"reference names {len(raw)} bytes, not {KEY_BYTES}")
    return raw
