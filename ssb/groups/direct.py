"""Keys of direct messages: one that two feeds share without having met, and one for oneself.

(private-group-spec 2.0.0, "Direct messages".)
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from nacl.bindings import crypto_sign_ed25519_pk_to_curve25519
from nacl.exceptions import CryptoError

from ssb.groups.envelope import DIRECT, SELF, Key, encoded_feed, expand, extract, shallow
from ssb.keys import Identity, InvalidRef, parse_feed

_SALT: Final = b"envelope-dm-v1-extract-salt"
_USE: Final = b"envelope-ssb-dm-v1/key"
_OWN_SALT: Final = b"feednet own key of box2"
_ENCRYPTION_KEY: Final = b"\x03\x00"  # type and format of a Curve25519 key for direct messages

_MOST_ENDS: Final = 16


def shared_keys(identity: Identity, feed: str) -> list[Key]:
    """Return the keys that an identity shares with another feed: the first to write with, all to read with.

    The key depends on the order of the two feeds. The specification sorts their bytes. npm's
    ssb-private-group-keys sorts them as texts, in which all bytes that are no UTF-8 are one character; that
    is another order for some pairs. Stock peers know no other key, so theirs comes first, and the
    specification's second where it differs. Raises InvalidRef if `feed` is no key.
    """
    mine = _ends(identity.ref)
    other = _ends(feed)
    secret = identity.agree(other[len(_ENCRYPTION_KEY) : -len(encoded_feed(feed))])
    orders = [sorted((mine, other), key=_as_text), sorted((mine, other))]
    found = [derived(secret, order) for order in orders]
    return found[:1] if found[0] == found[1] else found


def has_key(feed: str) -> bool:
    """Whether messages can be sealed for a feed: 32 bytes need not be a point on its curve."""
    try:
        _ends(feed)
    except InvalidRef:
        return False
    return True


def own_key(identity: Identity) -> Key:
    """Return the key for messages to oneself.

    Nobody else knows or needs it, so any would do. This one is computed from the identity, so a backup of the
    identity is enough to read all messages again.
    """
    secret = extract(_OWN_SALT, identity.secret().encode())
    return Key(expand(secret, b"1"), SELF)


@lru_cache(_MOST_ENDS)
def _ends(feed: str) -> bytes:
    """Return a feed's encryption key and its name, both in binary, as they enter the derivation.

    One of the two feeds is the user's each time.
    """
    try:
        public = crypto_sign_ed25519_pk_to_curve25519(parse_feed(feed))
    except CryptoError:
        raise InvalidRef("not an Ed25519 public key") from None
    return _ENCRYPTION_KEY + public + encoded_feed(feed)


def derived(secret: bytes, order: Sequence[bytes]) -> Key:
    """Return the key of two feeds, given their shared secret and both ends, sorted."""
    return Key(expand(extract(_SALT, secret), shallow([_USE, *order])), DIRECT)


def _as_text(raw: bytes) -> bytes:
    """Return what JavaScript compares when it sorts buffers: the UTF-16 units of the text that they are."""
    return raw.decode("utf-8", "replace").encode("utf-16-be")
