"""Whether a stored text is unchanged. Disks and memory flip bits; texts are checked when they are read.

A row of a message has the first 8 bytes of the message's id, and every text is hashed when it is read. The id
is the hash of the low byte of each UTF-16 unit (`ssb.message`), so it covers all of an ASCII text; of any
other text the signature is verified, too. The text itself names its author and number: a row indexed under
another feed or number is not trusted either.
"""

import re
from math import isfinite
from typing import Any

from ssb.keys import InvalidRef
from ssb.message import InvalidMessage, Message, message_digest

_HEAD = re.compile(
    rb'\{\n  "previous": (?:null|"[^"]+"),\n'
    rb'  (?:"author": "([^"]+)",\n  "sequence": ([0-9]+)|"sequence": ([0-9]+),\n  "author": "([^"]+)"),\n'
)


def start_of(digest: bytes) -> int:
    """The first 8 bytes of a digest as SQLite's signed integer."""
    return int.from_bytes(digest[:8], signed=True)


def is_sound(text: Any, start: Any, author: str, sequence: int, hmac_key: bytes | None) -> bool:
    """Whether a text is a message with this author, number and start of its id.

    The text was verified when it was stored; `hmac_key` is the network's key. A damaged row may have any
    values.
    """
    if not isinstance(text, bytes) or named(text) != (author, sequence):
        return False
    try:
        if start_of(message_digest(text)) != start:
            return False
    except UnicodeDecodeError:
        return False
    return text.isascii() or read(text, hmac_key) is not None


def named(text: bytes) -> tuple[str, int] | None:
    """The author and the number at the beginning of a canonical text; None if malformed."""
    head = _HEAD.match(text)
    if head is None:
        return None
    author, sequence = head[1] or head[4], head[2] or head[3]
    return author.decode(errors="replace"), int(sequence[:20])


def read(text: Any, hmac_key: bytes | None, digest: bytes | None = None) -> Message | None:
    """The message with a text, if its signature verifies, and its id matches the digest, if given."""
    if not isinstance(text, bytes):
        return None
    try:
        message = Message.from_text(text)
        if digest is not None and message_digest(text) != digest:
            return None
        message.verify(hmac_key)
    except (InvalidMessage, InvalidRef):
        return None
    return message


def time_of(received: Any) -> float:
    """A time of receipt, ms since 1970; 0 if it is damaged; smaller changes are undetected."""
    return float(received) if isinstance(received, int | float) and isfinite(received) else 0.0
