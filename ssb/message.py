"""Classic messages: one signed entry of a feed, and its rules.

The rules are those of the Scuttlebutt Protocol Guide ("Message format", "Signature", "Message ID")
as running peers apply them:

- Seven fields in a fixed order, but `author` and `sequence` may be swapped: `previous`, `author`,
  `sequence`, `timestamp`, `hash`, `content`, `signature`.
- The *canonical text* is `JSON.stringify(message, null, 2)`, at most 8192 UTF-16 units long.
- The signature is Ed25519 over the UTF-8 of that text without `signature`. In a network with an HMAC
  key the signature covers HMAC-SHA-512-256 of those bytes instead (NaCl's `crypto_auth`).
- The id is the SHA-256 of the text in JavaScript's "latin1": the low byte of each UTF-16 unit.
- `content` is an object whose `type` has 3 to 52 UTF-16 units, or a ciphertext: canonical base64,
  `.box`, and the number of the box format, if any.

Stock peers differ here. ssb-server (npm's ssb-validate 4) has these rules. ssb-db2 8 (ssb-classic 1.1)
accepts any text before `.box` or `.box2`, and no later box format; of its own messages it measures the
content alone, so that others refuse the longest ones; and it stores half a surrogate pair as U+FFFD, which
invalidates the signature.

A :class:`Message` obeys all rules that apply to it alone, except for its signature, which is
expensive to verify and is checked by :meth:`Message.verify`. Its relation to the preceding
message is checked by :meth:`Message.follow`.
"""

import hmac
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from ssb import keys
from ssb.canonical import InvalidJson, Value, parse, stringify
from ssb.keys import Identity, InvalidRef

MAX_UNITS = 8192
"""Longest canonical text, in UTF-16 units."""

_MAX_SEQUENCE = 2**53 - 1
_HMAC_KEY_BYTES = 32

_FIELDS = ["previous", "author", "sequence", "timestamp", "hash", "content", "signature"]
_FIELDS_SWAPPED = ["previous", "sequence", "author", "timestamp", "hash", "content", "signature"]

# The text ends with this member, 64 bytes in base64 being 88 characters, and with the closing brace.
_SIGNATURE_MEMBER = len(',\n  "signature": ""') + 88 + len(keys.SIGNATURE_SUFFIX)
_CLOSING = b"\n}"

# The number of the box format, none for 0, is in Crockford's base32 without leading zeros.
_BOX = re.compile(r"([A-Za-z0-9+/]+={0,2})\.box([1-9A-HJKMNP-TV-Z][0-9A-HJKMNP-TV-Z]*)?")


class InvalidMessage(ValueError):
    """Violates a rule of the format, or is not the next message of its feed; the message has the reason."""


class ForkedFeed(ValueError):
    """One author signed two continuations of one feed. The two messages prove it to anyone.

    Either both have the same sequence number, or the second has the next one and names another
    message as its previous one.
    """

    def __init__(self, reason: str, first: "Message", second: "Message") -> None:
        super().__init__(reason)
        self.proof = (first, second)


def proves_fork(first: "Message", second: "Message", hmac_key: bytes | None = None) -> bool:
    """Whether two messages prove that their author has forked the feed, see `ForkedFeed`.

    It checks both signatures, so the proof may have any source. `hmac_key` is the network's key.
    """
    try:
        first.verify(hmac_key)
        second.verify(hmac_key)
    except InvalidMessage:
        return False
    return contradicts(first, second)


def contradicts(first: "Message", second: "Message") -> bool:
    """Whether no feed can hold both messages, the first not after the second. Checks no signature."""
    if first.author != second.author:
        return False
    if first.sequence == second.sequence:
        return first != second
    return second.sequence == first.sequence + 1 and second.previous != first.id


@dataclass(frozen=True, slots=True)
class Message:
    """One classic message, created by `create`, `from_text` or `from_value`.

    All other fields are parsed from the text, and messages are equal if their texts are. `content`
    is shared: read-only.
    """

    text: str = field(repr=False)
    """Canonical text, signature included."""
    encoded: bytes = field(repr=False, compare=False)
    """The text in UTF-8."""
    id: str = field(compare=False)
    """Reference of this message, `%...=.sha256`."""
    previous: str | None = field(compare=False)
    """Reference of the preceding message; None if this is the first."""
    author: str = field(compare=False)
    """Reference of the feed, `@...=.ed25519`."""
    sequence: int = field(compare=False)
    """Number in the feed, from 1."""
    timestamp: int | float = field(compare=False)
    """Time of writing by the author's clock, in ms since 1970."""
    content: dict[str, Any] | str = field(compare=False)
    """An object with a `type`, or a ciphertext."""
    signature: str = field(repr=False, compare=False)
    """Base64 with the suffix `.sig.ed25519`."""

    @classmethod
    def create(
        cls,
        identity: Identity,
        previous: "Message | None",
        content: Mapping[str, Any] | str,
        timestamp: float,
        hmac_key: bytes | None = None,
    ) -> "Message":
        """Sign `content` as the message after `previous` (None for the first) in the identity's feed.

        `timestamp` is in ms since 1970; `hmac_key` the network's 32-byte key, if it has one. Raises
        InvalidMessage if the format does not allow such a message.
        """
        fields: dict[str, Value] = {
            "previous": previous.id if previous else None,
            "author": identity.ref,
            "sequence": previous.sequence + 1 if previous else 1,
            "timestamp": timestamp,
            "hash": "sha256",
            "content": content if isinstance(content, str) else dict(content),
        }
        unsigned = _stringify(fields).encode()
        signature = keys.signature_text(identity.sign(_signed_bytes(unsigned, hmac_key)))
        message = cls.from_value(fields | {"signature": signature})
        message.follow(previous)
        return message

    @classmethod
    def from_value(cls, value: Value) -> "Message":
        """The message from a parsed JSON object, independent of its original layout.

        Raises InvalidMessage. Does not check the signature.
        """
        text = _stringify(value)
        # Parsed again, so that the fields are those of the text: null for Infinity, for example.
        encoded = text.encode()
        hashed = _hashed_bytes(text, encoded)
        return cls._build(_parse(text), text, encoded, hashed)

    @classmethod
    def from_text(cls, text: bytes | str) -> "Message":
        """The message with this canonical text, in UTF-8 if it is bytes.

        Raises InvalidMessage, also for a non-canonical text of a valid message. Does not check the
        signature.
        """
        try:
            if isinstance(text, bytes):
                encoded, text = text, text.decode()
            else:
                encoded = text.encode()
        except UnicodeError:
            raise InvalidMessage("text is not UTF-8") from None
        hashed = _hashed_bytes(text, encoded)
        value = _parse(text)
        if _stringify(value) != text:
            raise InvalidMessage("text is not what JSON.stringify(message, null, 2) gives")
        return cls._build(value, text, encoded, hashed)

    @classmethod
    def _build(cls, value: Value, text: str, encoded: bytes, hashed: bytes) -> "Message":
        if not isinstance(value, dict):
            raise InvalidMessage("message is not an object")
        _check_fields(value)
        return cls(
            text=text,
            encoded=encoded,
            id=keys.message_ref(sha256(hashed).digest()),
            previous=value["previous"],
            author=value["author"],
            sequence=value["sequence"],
            timestamp=value["timestamp"],
            content=value["content"],
            signature=value["signature"],
        )

    def verify(self, hmac_key: bytes | None = None) -> None:
        """Check the signature; `hmac_key` is the network's 32-byte key, if it has one.

        Raises InvalidMessage if the author did not sign this message for this network.
        """
        signed, signature = self.signed_parts(hmac_key)
        if not keys.verify(keys.parse_feed(self.author), signature, signed):
            raise InvalidMessage("signature does not verify")

    def signed_parts(self, hmac_key: bytes | None = None) -> tuple[bytes, bytes]:
        """Return the bytes that the author signed, and the signature over them (64 bytes)."""
        unsigned = self.encoded[: -_SIGNATURE_MEMBER - len(_CLOSING)] + _CLOSING
        return _signed_bytes(unsigned, hmac_key), keys.parse_signature(self.signature)

    def follow(self, tip: "Message | None") -> None:
        """Check that this message is the next one in the feed whose last message is `tip`, None if empty.

        Both signatures are assumed to be verified. Raises InvalidMessage if it belongs elsewhere, and
        ForkedFeed if it has the next number but continues another message than `tip`.
        """
        if tip is None:
            if self.sequence != 1:
                raise InvalidMessage(f"sequence {self.sequence} cannot come first in a feed")
            return
        if self.author != tip.author:
            raise InvalidMessage(f"author {self.author} does not write the feed {tip.author}")
        if self.sequence != tip.sequence + 1:
            raise InvalidMessage(f"sequence {self.sequence} does not come after {tip.sequence}")
        if self.previous != tip.id:
            raise ForkedFeed(
                f"feed {self.author} is forked: message {self.sequence} continues {self.previous}, "
                f"but message {tip.sequence} is {tip.id}",
                tip,
                self,
            )


def message_digest(encoded: bytes) -> bytes:
    """The digest in the id of the message with this canonical text, whose rules are not checked.

    Raises UnicodeDecodeError.
    """
    hashed = encoded if encoded.isascii() else encoded.decode().encode("utf-16-le")[::2]
    return sha256(hashed).digest()


def message_id(encoded: bytes) -> str:
    """The reference of the message with this canonical text, in UTF-8, whose rules are not checked."""
    return keys.message_ref(message_digest(encoded))


def _parse(text: str) -> Value:
    try:
        return parse(text)
    except InvalidJson as error:
        raise InvalidMessage(str(error)) from None


def _stringify(value: Value) -> str:
    try:
        return stringify(value)
    except InvalidJson as error:
        raise InvalidMessage(str(error)) from None


def _hashed_bytes(text: str, encoded: bytes) -> bytes:
    """Input of the id's hash: the low byte of each UTF-16 unit. Checks their number."""
    low_bytes = encoded if text.isascii() else text.encode("utf-16-le")[::2]
    if len(low_bytes) > MAX_UNITS:
        raise InvalidMessage(f"text has {len(low_bytes)} UTF-16 units; the limit is {MAX_UNITS}")
    return low_bytes


def _signed_bytes(unsigned: bytes, hmac_key: bytes | None) -> bytes:
    if hmac_key is None:
        return unsigned
    if len(hmac_key) != _HMAC_KEY_BYTES:
        raise ValueError(f"a network's HMAC key has {_HMAC_KEY_BYTES} bytes, not {len(hmac_key)}")
    return hmac.digest(hmac_key, unsigned, "sha512")[:32]


def _check_fields(value: dict[str, Any]) -> None:
    """Check all rules on the fields of one message, except for verifying the signature."""
    if list(value) not in (_FIELDS, _FIELDS_SWAPPED):
        raise InvalidMessage(f"fields are not {', '.join(_FIELDS)}, in that order")
    sequence, previous, timestamp = value["sequence"], value["previous"], value["timestamp"]
    if type(sequence) is not int or not 1 <= sequence <= _MAX_SEQUENCE:
        raise InvalidMessage("sequence is not a positive integer")
    if (previous is None) != (sequence == 1):
        raise InvalidMessage("previous is not null in the first message, or null in a later one")
    if previous is not None:
        _check_text("previous", previous, keys.parse_message)
    _check_text("author", value["author"], keys.parse_feed)
    if type(timestamp) not in (int, float):
        raise InvalidMessage("timestamp is not a number")
    if value["hash"] != "sha256":
        raise InvalidMessage("hash is not sha256")
    check_content(value["content"])
    _check_text("signature", value["signature"], keys.parse_signature)


def _check_text(name: str, text: Value, read: Callable[[str], bytes]) -> None:
    if not isinstance(text, str):
        raise InvalidMessage(f"{name} is not a string")
    try:
        read(text)
    except InvalidRef as error:
        raise InvalidMessage(f"{name}: {error}") from None


def check_content(content: Value) -> None:
    """Raise InvalidMessage unless a message may have this content."""
    if isinstance(content, str):
        box = _BOX.fullmatch(content)
        if box is None:
            raise InvalidMessage("content is a string, but not base64 and .box")
        _check_text("content", box[1], keys.decode_base64)
    elif isinstance(content, dict):
        kind = content.get("type")
        if not isinstance(kind, str):
            raise InvalidMessage("content has no type that is a string")
        units = len(kind.encode("utf-16-le", "surrogatepass")) // 2
        if not 3 <= units <= 52:
            raise InvalidMessage(f"content's type has {units} UTF-16 units, not 3 to 52")
    else:
        raise InvalidMessage("content is neither an object nor a ciphertext")
