"""Detached messages: a log signs the hash and the size of a content, which travels beside the log.

A classic message signs its content, so a peer that deletes the content can neither verify the log nor pass it
on. A detached message is a classic message, too, but its content names another one:

    {"type": "detached", "of": TYPE, "size": BYTES, "hash": BLOB}

So a message has three layers: data of integrity (`previous`, `author`, `sequence`, `signature`), data about
the content (`timestamp`, `of`, `size`, `hash`), and the content, a blob (Tarr et al., "Secure Scuttlebutt",
ACM ICN 2019, longer draft, sections 5.2 and 5.5; Gabby Grove signs hash and size of a content, too). The blob
is the UTF-8 of a JSON object:

    {"author": FEED, "salt": SALT, "content": {"type": TYPE, ...}}

It names its author, so that nobody can claim, and have deleted, what another has written. Its salt,
16 random bytes in base64, keeps the hash from confirming a guess at a deleted content.

An author asks all to delete contents by a message in the same log, which names earlier ones by their ids:

    {"type": "detached-delete", "messages": [ID, ...]}
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple

from ssb.canonical import InvalidJson, Value, parse_bytes, stringify
from ssb.keys import (
    InvalidRef,
    blob_ref,
    decode_base64,
    encode_base64,
    is_message,
    parse_blob,
    parse_message,
)
from ssb.message import InvalidMessage, Message, check_content

DETACHED: Final = "detached"
DELETE: Final = "detached-delete"
SALT_BYTES: Final = 16

_FIELDS: Final = {"type", "of", "size", "hash"}
_BLOB_FIELDS: Final = {"author", "salt", "content"}


class Reference(NamedTuple):
    """A log's description of a content beside it.

    Attributes:
        kind: its type.
        size: its blob's size, bytes.
        blob: its blob, `&...=.sha256`.
    """

    kind: str
    size: int
    blob: str


class InvalidContent(ValueError):
    """A blob is not the content that a message names; the text has the reason."""


def detach(author: str, content: Mapping[str, Any], salt: bytes) -> tuple[dict[str, Value], bytes]:
    """Return the content of a detached message, and the blob that it names.

    `salt` has 16 random bytes. Raises InvalidMessage if no message has such a content.
    """
    if len(salt) != SALT_BYTES:
        raise ValueError(f"a salt has {SALT_BYTES} bytes, not {len(salt)}")
    check_content(dict(content))
    value: Value = {"author": author, "salt": encode_base64(salt), "content": dict(content)}
    try:
        data = stringify(value, indent=0).encode()
    except InvalidJson as error:
        raise InvalidMessage(str(error)) from None
    named = {"of": content["type"], "size": len(data), "hash": blob_ref(sha256(data).digest())}
    return {"type": DETACHED, **named}, data


def request(messages: Sequence[str]) -> dict[str, Value]:
    """Return the content of a request to delete the contents of the author's messages with these ids.

    Raises InvalidRef.
    """
    for each in messages:
        parse_message(each)
    return {"type": DELETE, "messages": list(messages)}


def reference_of(message: Message) -> Reference | None:
    """Return what a message says of its detached content; None if it is no detached message."""
    content = message.content
    if not isinstance(content, dict) or content.get("type") != DETACHED or content.keys() != _FIELDS:
        return None
    kind, size, blob = content["of"], content["size"], content["hash"]
    if not isinstance(blob, str) or type(size) is not int or size < 0:
        return None
    try:
        parse_blob(blob)
        check_content({"type": kind})
    except (InvalidRef, InvalidMessage):
        return None
    return Reference(kind, size, blob)


def requested_by(message: Message) -> list[str]:
    """Return the ids of messages whose contents a message asks to delete; other values are skipped."""
    content = message.content
    if not isinstance(content, dict) or content.get("type") != DELETE:
        return []
    named = content.get("messages")
    return [each for each in named if is_message(each)] if isinstance(named, list) else []


def attach(author: str, reference: Reference, data: bytes) -> dict[str, Any]:
    """Return the content in a blob that a message of this author names.

    Raises InvalidContent if the blob is not such a content: of another hash, size, author or type.
    """
    if len(data) != reference.size:
        raise InvalidContent(f"blob has {len(data)} bytes, not {reference.size}")
    if blob_ref(sha256(data).digest()) != reference.blob:
        raise InvalidContent(f"blob is not {reference.blob}")
    writer, content = opened(data)
    if writer != author:
        raise InvalidContent("blob is another author's")
    if not isinstance(content, dict) or content.get("type") != reference.kind:
        raise InvalidContent(f"content is not of type {reference.kind}")
    return content


def opened(data: bytes) -> tuple[Value, Value]:
    """Return the author and the content in a blob, neither of which is checked; raise InvalidContent."""
    try:
        value = parse_bytes(data)
    except InvalidJson as error:
        raise InvalidContent(f"blob cannot be read: {error}") from None
    if not isinstance(value, dict) or value.keys() != _BLOB_FIELDS:
        raise InvalidContent("blob does not have the fields author, salt, content")
    if not _is_salt(value["salt"]):
        raise InvalidContent(f"salt is not {SALT_BYTES} bytes in base64")
    return value["author"], value["content"]


def _is_salt(value: Value) -> bool:
    try:
        return isinstance(value, str) and len(decode_base64(value)) == SALT_BYTES
    except InvalidRef:
        return False
