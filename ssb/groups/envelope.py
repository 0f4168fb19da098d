"""Envelopes: box2 ciphertexts, for up to 16 holders of keys.

A header of 32 bytes, a slot of 32 bytes for each recipient, and the sealed body. Each slot is the key of the
message, XORed with a key derived from the recipient's. A slot has no code of its own: the header opens only
with the right key, so recipients stay hidden. All derived keys are bound to the *context*, the author and the
message before: nonces are zero, and a ciphertext copied into another feed opens for nobody.
(envelope-spec 1.0.0; private-group-spec 2.0.0, "envelope encryption in scuttlebutt".)
"""

import hmac
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from secrets import token_bytes
from typing import Any, Final, NamedTuple

from nacl.bindings import crypto_secretbox, crypto_secretbox_open
from nacl.exceptions import CryptoError

from ssb.canonical import stringify
from ssb.keys import InvalidRef, decode_base64, encode_base64, parse_feed, parse_message

SUFFIX: Final = ".box2"
MAX_SLOTS: Final = 16

GROUP: Final = "envelope-large-symmetric-group"
DIRECT: Final = "envelope-id-based-dm-converted-ed25519"
SELF: Final = "envelope-symmetric-key-for-self"

KEY_BYTES: Final = 32
_TAG: Final = 16
_HEADER: Final = 32
_OFFSET: Final = 2
_NONCE: Final = bytes(24)

# Types and formats of SSB's Binary Field Encodings: a feed, a message.
_FEED: Final = b"\x00\x00"
_MESSAGE: Final = b"\x01\x00"


class Key(NamedTuple):
    """A key that opens slots.

    Attributes:
        secret: 32 bytes.
        scheme: how its holders got it: GROUP, DIRECT or SELF.
    """

    secret: bytes
    scheme: str


class Context(NamedTuple):
    """Where a message stands; binary, as keys are bound to it.

    Attributes:
        feed: of its author, 34 bytes.
        previous: the message before, 34 bytes.
    """

    feed: bytes
    previous: bytes


class Opened(NamedTuple):
    """An opened envelope.

    Attributes:
        body: the plaintext.
        read_key: opens this message alone, 32 bytes.
        key: the one that fitted.
    """

    body: bytes
    read_key: bytes
    key: Key


def context_of(author: str, previous: str | None) -> Context:
    """Return the context of a message by its author's reference and that of the message before.

    Raises InvalidRef.
    """
    digest = bytes(KEY_BYTES) if previous is None else parse_message(previous)
    return Context(encoded_feed(author), _MESSAGE + digest)


def encoded_feed(feed: str) -> bytes:
    """Return a feed's reference in binary, 34 bytes; raise InvalidRef."""
    return _FEED + parse_feed(feed)


def shallow(parts: Iterable[bytes]) -> bytes:
    """Return parts one after the other, each behind its length (shallow length-prefixed encoding)."""
    return b"".join(len(part).to_bytes(2, "little") + part for part in parts)


def expand(key: bytes, info: bytes) -> bytes:
    """Return 32 bytes of HKDF-Expand with SHA-256 (RFC 5869), which is one block."""
    return hmac.digest(key, info + b"\x01", "sha256")


def extract(salt: bytes, secret: bytes) -> bytes:
    """Return the key that HKDF-Extract with SHA-256 makes of a secret (RFC 5869)."""
    return hmac.digest(sha256(salt).digest(), secret, "sha256")


def derive(key: bytes, context: Context, *labels: str) -> bytes:
    """Return a key derived from another one for one use in one message."""
    return expand(key, _use(context, *labels))


def slot_of(message_key: bytes, context: Context, key: Key) -> bytes:
    """Return the slot of a holder; applied to a slot, it returns the key of the message."""
    return _xor(message_key, derive(key.secret, context, "slot_key", key.scheme))


def seal(body: bytes, context: Context, keys: Sequence[Key], message_key: bytes) -> bytes:
    """Return an envelope that the holders of any of the keys can open.

    `message_key` is 32 random bytes. Raises ValueError without a body, and for none or more than 16 keys.
    """
    if not body:
        raise ValueError("an envelope has a body")
    if not 1 <= len(keys) <= MAX_SLOTS:
        raise ValueError(f"an envelope has 1 to {MAX_SLOTS} recipients, not {len(keys)}")
    slots = b"".join(slot_of(message_key, context, key) for key in keys)
    header = (_HEADER + len(slots)).to_bytes(_OFFSET, "little").ljust(_HEADER - _TAG, b"\0")
    read_key = derive(message_key, context, "read_key")
    return (
        crypto_secretbox(header, _NONCE, derive(read_key, context, "header_key"))
        + slots
        + crypto_secretbox(body, _NONCE, derive(read_key, context, "body_key"))
    )


def open_sealed(
    sealed: bytes, context: Context, keys: Iterable[Key], most_slots: int = MAX_SLOTS
) -> Opened | None:
    """Open an envelope with the first key that fits one of its first slots; None if none does."""
    header, end = sealed[:_HEADER], min(_HEADER + most_slots * KEY_BYTES, len(sealed) - _TAG)
    slots = [sealed[start : start + KEY_BYTES] for start in range(_HEADER, end - KEY_BYTES + 1, KEY_BYTES)]
    # Almost all attempts fail, and a peer makes them for all that is private to others.
    to_read, to_header = _use(context, "read_key"), _use(context, "header_key")
    to_slot: dict[str, bytes] = {}
    for key in keys:
        if key.scheme not in to_slot:
            to_slot[key.scheme] = _use(context, "slot_key", key.scheme)
        pad = expand(key.secret, to_slot[key.scheme])
        for slot in slots:
            read_key = expand(_xor(slot, pad), to_read)
            opened = _decrypt(header, expand(read_key, to_header))
            if opened is not None:
                body = sealed[int.from_bytes(opened[:_OFFSET], "little") :]
                plain = _decrypt(body, derive(read_key, context, "body_key"))
                return None if plain is None else Opened(plain, read_key, key)
    return None


def cloaked(message: str, read_key: bytes) -> str:
    """Return the cloaked id of a message, `%...=.cloaked`: it tells strangers nothing (envelope-spec)."""
    digest = expand(read_key, shallow([b"cloaked_msg_id", _MESSAGE + parse_message(message)]))
    return f"%{encode_base64(digest)}.cloaked"


def box(
    content: Mapping[str, Any],
    context: Context,
    keys: Sequence[Key],
    random_bytes: Callable[[int], bytes] = token_bytes,
) -> str:
    """Return the content of a private message: base64 and `.box2`; raise ValueError as seal() does."""
    text = stringify(dict(content), indent=0).encode()
    return encode_base64(seal(text, context, keys, random_bytes(KEY_BYTES))) + SUFFIX


def sealed_bytes(content: object) -> bytes | None:
    """Return the envelope in a message's content; None if it has none."""
    if not isinstance(content, str) or not content.endswith(SUFFIX):
        return None
    try:
        return decode_base64(content.removesuffix(SUFFIX))
    except InvalidRef:
        return None


def _use(context: Context, *labels: str) -> bytes:
    """Return what a key is derived for, in binary."""
    return shallow([b"envelope", *context, *(label.encode() for label in labels)])


def _xor(one: bytes, other: bytes) -> bytes:
    return (int.from_bytes(one, "big") ^ int.from_bytes(other, "big")).to_bytes(KEY_BYTES, "big")


def _decrypt(sealed: bytes, key: bytes) -> bytes | None:
    if len(sealed) <= _TAG:
        return None
    try:
        return crypto_secretbox_open(sealed, _NONCE, key)
    except CryptoError:
        return None
