"""The end of a feed: a last message, which may name the feed that goes on in its place.

SSB has no way to end a log (draft of Tarr et al. 2019, section 5.4): its author can only fall silent, and
others ask for more for ever. Here a message of type `end-of-feed` is the last one of its feed. Stores refuse
what its author signs later, and nobody asks for more. Bamboo's entries have such a mark in their format; here
it is content, so that stock peers take it as a message like any other.

    {"type": "end-of-feed"}
    {"type": "end-of-feed", "successor": "@...=.ed25519", "consent": "...==.sig.ed25519"}

The second form changes keys: the old key signs the message, and the *consent* is the new key's signature over
the names of both feeds. Without it, an author could send all of its followers to a stranger's feed.

A message whose successor or consent is malformed ends nothing.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from ssb.canonical import stringify
from ssb.keys import Identity, InvalidRef, parse_feed, parse_signature, signature_text, verify
from ssb.message import InvalidMessage, Message

END: Final = "end-of-feed"
"""The type of the last message."""

_MARK: Final = END.encode()


class End(NamedTuple):
    """The end of a feed.

    Attributes:
        sequence: number of the last message.
        successor: the feed that goes on in its place; None for none.
    """

    sequence: int
    successor: str | None


def end_content(feed: str, successor: Identity | None = None) -> dict[str, Any]:
    """Return the content of the last message of a feed; raise ValueError for a successor of itself."""
    if successor is None:
        return {"type": END}
    if successor.ref == feed:
        raise ValueError(f"{feed} cannot go on in place of itself")
    consent = signature_text(successor.sign(_agreed(feed, successor.ref)))
    return {"type": END, "successor": successor.ref, "consent": consent}


def end_of(author: str, sequence: int, content: Mapping[str, Any] | str) -> End | None:
    """Return the end in a message, given by its fields; None if it ends nothing.

    The caller checks the message's own signature.
    """
    if isinstance(content, str) or content.get("type") != END:
        return None
    successor, consent = content.get("successor"), content.get("consent")
    if successor is None:
        return End(sequence, None)
    if not isinstance(successor, str) or not isinstance(consent, str) or successor == author:
        return None
    try:
        key, signature = parse_feed(successor), parse_signature(consent)
    except InvalidRef:
        return None
    if not verify(key, signature, _agreed(author, successor)):
        return None
    return End(sequence, successor)


def end_in(text: bytes) -> End | None:
    """Return the end in a message's canonical text; None if it ends nothing, or is no message."""
    if _MARK not in text:
        return None
    try:
        message = Message.from_text(text)
    except InvalidMessage:
        return None
    return end_of(message.author, message.sequence, message.content)


def _agreed(feed: str, successor: str) -> bytes:
    """The text that a successor signs. No message has such a text, as all messages begin otherwise."""
    return stringify({"type": END, "feed": feed, "successor": successor}).encode()
