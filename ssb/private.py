"""Private messages: content that only its recipients can read, seven at most; their identities are hidden.

The ciphertext is a nonce of 24 bytes, an ephemeral Curve25519 public key, a slot of 49 bytes for each
recipient and the sealed content. A slot is sealed with the shared secret of that key and the recipient's; it
contains the number of slots and the key of the content. Recipients are those who can open a slot.
(Scuttlebutt Protocol Guide, "Private messages"; npm's private-box and ssb-keys.)
"""

from collections.abc import Callable, Mapping, Sequence
from secrets import token_bytes
from typing import Any, Final

from nacl.bindings import crypto_box_seed_keypair, crypto_secretbox, crypto_secretbox_open
from nacl.exceptions import CryptoError

from ssb.canonical import Value, object_in, stringify
from ssb.keys import Identity, InvalidRef, agree_with, decode_base64, encode_base64, parse_feed

SUFFIX: Final = ".box"
MAX_RECIPIENTS: Final = 7

_NONCE = 24
_KEY = 32
_TAG = 16
_SLOT = 1 + _KEY + _TAG
_SLOTS = _NONCE + _KEY


def box(
    content: Mapping[str, Any],
    recipients: Sequence[str],
    random_bytes: Callable[[int], bytes] = token_bytes,
) -> str:
    """Return the content of a private message: base64 and `.box`.

    `recipients` are feeds; to read the message, its author must be one of them. Raises ValueError for
    none or too many of them, and InvalidRef for one that is not a feed.
    """
    if not 1 <= len(recipients) <= MAX_RECIPIENTS:
        raise ValueError(f"a private message has 1 to {MAX_RECIPIENTS} recipients, not {len(recipients)}")
    nonce, key = random_bytes(_NONCE), random_bytes(_KEY)
    public, secret = crypto_box_seed_keypair(random_bytes(_KEY))
    slot = bytes([len(recipients)]) + key
    slots = [
        crypto_secretbox(slot, nonce, agree_with(secret, parse_feed(recipient))) for recipient in recipients
    ]
    text = stringify(dict(content), indent=0).encode()
    sealed = crypto_secretbox(text, nonce, key)
    return encode_base64(nonce + public + b"".join(slots) + sealed) + SUFFIX


def unbox(content: object, identity: Identity) -> dict[str, Value] | None:
    """Decrypt the content of a private message; None if the identity is not a recipient."""
    if not isinstance(content, str) or not content.endswith(SUFFIX):
        return None
    try:
        raw = decode_base64(content.removesuffix(SUFFIX))
        nonce = raw[:_NONCE]
        agreed = identity.agree(raw[_NONCE:_SLOTS]) if len(raw) >= _SLOTS + _SLOT + _TAG else None
    except InvalidRef:
        return None
    for place in range(MAX_RECIPIENTS if agreed is not None else 0):
        start = _SLOTS + place * _SLOT
        slot = _open(raw[start : start + _SLOT], nonce, agreed)
        if slot is not None:
            text = _open(raw[_SLOTS + slot[0] * _SLOT :], nonce, slot[1:])
            return None if text is None else object_in(text)
    return None


def _open(sealed: bytes, nonce: bytes, key: bytes | None) -> bytes | None:
    if key is None or len(sealed) < _TAG:
        return None
    try:
        return crypto_secretbox_open(sealed, nonce, key)
    except CryptoError:
        return None
