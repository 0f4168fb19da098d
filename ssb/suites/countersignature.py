"""Countersignatures: a second suite signs a message, and with it the log before it.

A countersigned message is a classic message, so forwarders, stores and stock peers carry it as any other. Its
content has one more member:

    "countersignature": {"log": "<base64>.blake2b", "signature": "<base64>.sig.ed448"}

The *log hash* of a log up to message n is h(n) = H(h(n-1) || text of message n in UTF-8), with h(0) = 32
bytes of zeros. `log` is that of all messages before this one. The signature covers author, number, time, log
hash, and the content without this member. So it holds without the classic hash and signature, and it vouches
for each message before it: also for those that have none themselves, such as ciphertexts, whose content has
no members, and detached messages, whose content has fixed ones.

The key is in a message of its author, {"type": "suite", "key": "<base64>.ed448"}, countersigned by that very
key. Or it is in the end of an earlier feed, which names this one as its successor (`ssb.ending`). Such an end
has one more member:

    "suite": {"key": "<base64>.ed448", "consent": "<base64>.sig.ed448"}

The consent is the key's signature over the names of both feeds and itself. Readers that know no suites
ignore this member, and so does this reader if it does not know the suite, or the key has not consented.
"""

from collections.abc import Mapping
from typing import Any, Final

from ssb.canonical import InvalidJson, Value, stringify
from ssb.ending import END, end_of
from ssb.keys import Identity, InvalidRef
from ssb.message import InvalidMessage, Message
from ssb.suites.suite import HASH_BYTES, PrivateKey, PublicKey, Suite, hash_text, parse_hash

MEMBER: Final = "countersignature"
DECLARATION: Final = "suite"
"""The type of a message that declares a key."""

EMPTY: Final = bytes(HASH_BYTES)
"""The log hash before the first message."""


class NoProof(ValueError):
    """A message has no valid countersignature; the text has the reason."""


def log_hash(suite: Suite, before: bytes, text: bytes) -> bytes:
    """Return the log hash with one more message, by the one before it and the canonical text in UTF-8."""
    return suite.hash(before + text)


def declaration(key: PublicKey) -> dict[str, Value]:
    """Return the content that declares a key."""
    return {"type": DECLARATION, "key": key.text}


def countersign(
    key: PrivateKey, author: str, sequence: int, timestamp: float, content: Mapping[str, Any], before: bytes
) -> dict[str, Any]:
    """Return a content with a countersignature.

    The message will have this author, number and time; `before` is the log hash of those before it.
    Raises InvalidMessage if no message has such a content, or it has such a member already.
    """
    if MEMBER in content:
        raise InvalidMessage(f'content has a member "{MEMBER}" already')
    log = hash_text(key.public.suite, before)
    try:
        signature = key.sign(_signed(author, sequence, timestamp, content, log))
    except InvalidJson as error:
        raise InvalidMessage(str(error)) from None
    return {**content, MEMBER: {"log": log, "signature": signature}}


class CountersignedLog:
    """A log whose messages are countersigned as they are written.

    Attributes:
        messages: those written so far.
        hash: the log hash after them.
    """

    def __init__(self, author: Identity) -> None:
        self.messages: list[Message] = []
        self.hash = EMPTY
        self._author = author

    def write(self, key: PrivateKey, content: Mapping[str, Any], timestamp: float) -> Message:
        """Countersign and sign the content of the next message; raise as countersign() does."""
        last = self.messages[-1] if self.messages else None
        number = len(self.messages) + 1
        signed = countersign(key, self._author.ref, number, timestamp, content, self.hash)
        message = Message.create(self._author, last, signed, timestamp)
        self.hash = log_hash(key.public.suite, self.hash, message.encoded)
        self.messages.append(message)
        return message


def check(key: PublicKey, message: Message) -> bytes:
    """Return the log hash before a message that this key has countersigned; raise NoProof."""
    content = message.content
    proof = content.get(MEMBER) if isinstance(content, dict) else None
    if not isinstance(content, dict) or proof is None:
        raise NoProof(f"message {message.sequence} has no countersignature")
    if not isinstance(proof, dict) or proof.keys() != {"log", "signature"}:
        raise NoProof(f"message {message.sequence}: a countersignature has log and signature, no more")
    try:
        before = parse_hash(key.suite, proof["log"])
    except InvalidRef as error:
        raise NoProof(f"message {message.sequence}: log: {error}") from None
    plain = {name: value for name, value in content.items() if name != MEMBER}
    signed = _signed(message.author, message.sequence, message.timestamp, plain, proof["log"])
    if not key.verifies(proof["signature"], signed):
        raise NoProof(f"message {message.sequence} is not countersigned by {key.text}")
    return before


def _signed(author: str, sequence: int, timestamp: float, content: Mapping[str, Any], log: str) -> bytes:
    fields = {"author": author, "sequence": sequence, "timestamp": timestamp, "log": log}
    return stringify({**fields, "content": dict(content)}, indent=0).encode()


class Reader:
    """Reads a log by its countersignatures alone: no classic hash or signature counts.

    Args:
        key: the author's, of which the caller is sure.

    Attributes:
        proved: number of the last message that is proved; 0 for none.
    """

    def __init__(self, key: PublicKey) -> None:
        self._key = key
        self._last = 0
        self._hash: bytes | None = EMPTY
        self._since = 1  # the first message that `_hash` covers
        self.proved = 0

    def add(self, message: Message) -> range:
        """Add the next message; return the numbers of those that are proved now, this one among them.

        It is empty while a message waits for a later countersignature. A log may be read from any place:
        behind a gap, the first countersigned message says what was before.
        """
        if message.sequence != self._last + 1:
            self._hash, self._since = None, message.sequence
        self._last = message.sequence
        newly = range(0)
        try:
            before = check(self._key, message)
            if self._hash is None:
                self._hash, self._since = before, message.sequence
            if before != self._hash:
                raise NoProof(f"message {message.sequence}: the log before it is not the one that was signed")
            newly = range(max(self._since, self.proved + 1), message.sequence + 1)
            self.proved = message.sequence
        except NoProof:
            pass  # it waits for a later one
        if self._hash is not None:
            self._hash = log_hash(self._key.suite, self._hash, message.encoded)
        return newly


def declared_by(message: Message, sought: PublicKey | None = None) -> PublicKey | None:
    """Return the key that a message declares, and has countersigned it; None if it declares none.

    With `sought`, None also for any other key, whose signature is not verified.
    """
    content = message.content
    if not isinstance(content, dict) or content.get("type") != DECLARATION:
        return None
    try:
        key = PublicKey.parse(content.get("key"))
        if sought not in (None, key):
            return None
        check(key, message)
    except (InvalidRef, NoProof):
        return None
    return key


def succession(feed: str, successor: str, key: PrivateKey) -> dict[str, Any]:
    """Return the member that the content of an end has for a successor with a key: {"suite": ...}."""
    text = key.public.text
    return {DECLARATION: {"key": text, "consent": key.sign(_agreed(feed, successor, text))}}


def successor_key(message: Message) -> PublicKey | None:
    """Return the key of the successor that an end names; None if it names none that has consented."""
    content = message.content
    if not isinstance(content, dict):
        return None
    end, suite = end_of(message.author, message.sequence, content), content.get(DECLARATION)
    if end is None or end.successor is None or not isinstance(suite, dict):
        return None
    try:
        key = PublicKey.parse(suite.get("key"))
    except InvalidRef:
        return None
    agreed = _agreed(message.author, end.successor, key.text)
    return key if key.verifies(suite.get("consent"), agreed) else None


def _agreed(feed: str, successor: str, key: str) -> bytes:
    return stringify({"type": END, "feed": feed, "successor": successor, "key": key}, indent=0).encode()
