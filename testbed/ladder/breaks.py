"""A break of the classic hash and signature, played: what a new reader takes for genuine.

An author writes a message an hour, and a notary notarises the log after every so many messages
(`ssb.suites.notary`). Then Ed25519 and SHA-256 break: a forger signs with the author's key, and finds a
second message for the id of any message. The forger is the first peer that a new reader meets. The reader's
store has the rules of all stores, and checks true Ed25519 signatures. The forger plays one of ATTACKS.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, NamedTuple

from ssb.keys import Identity
from ssb.message import Message
from ssb.store.feeds import read_feed
from ssb.store.memory import MemoryFeeds
from ssb.suites.countersignature import CountersignedLog
from ssb.suites.notary import Statement, notarise, statements, vouch
from ssb.suites.suite import SECOND, PrivateKey

INTERVALS: Final = (0, 100, 10, 1)
"""Messages between two statements of the notary; 0 for no notary."""

_HOUR_MS: Final = 3_600_000
_BEGINS: Final = 1_700_000_000_000
_AUTHOR: Final = Identity.from_seed(b"a" * 32)
_NOTARY: Final = Identity.from_seed(b"n" * 32)


class Outcome(NamedTuple):
    """What a new reader of a log takes for genuine.

    Attributes:
        forged: messages of the forger in the reader's store.
        believed: those of them that the reader takes for genuine.
        genuine: messages of the author in the reader's store.
        saved: those of them that the reader takes for genuine.
    """

    forged: int
    believed: int
    genuine: int
    saved: int


def _append(log: list[Message]) -> list[Message]:
    """Messages behind the log's last one, dated before the break."""
    return _forge(log, log[-1].timestamp, len(log) // 2)


def _rewrite(log: list[Message]) -> list[Message]:
    """Another log from the first message on."""
    return _forge([], _BEGINS, len(log))


def _rewrite_half(log: list[Message]) -> list[Message]:
    """Other messages in place of the newer half."""
    half = log[: len(log) // 2]
    return _forge(half, half[-1].timestamp, len(log) - len(half))


def _replace(log: list[Message]) -> list[Message]:
    """One message in the middle becomes another one with the same id: all others stay as they are."""
    at = len(log) // 2
    forged = _sign(log[at - 1], "forged", log[at].timestamp)
    return [*log[:at], replace(forged, id=log[at].id), *log[at + 1 :]]


ATTACKS: Final[dict[str, Callable[[list[Message]], list[Message]]]] = {
    "append": _append,
    "rewrite half": _rewrite_half,
    "rewrite": _rewrite,
    "replace": _replace,
}
"""Attacks by name: each returns the log that the forger serves, given the genuine one."""


class Played(NamedTuple):
    """A genuine log at the time of the break, and the notary's.

    Attributes:
        log: the author's messages.
        said: the notary's statements.
        notary_bytes: of the notary's messages.
        broken: date of the break, ms since 1970.
    """

    log: list[Message]
    said: list[Statement]
    notary_bytes: int
    broken: float


def play(messages: int, interval: int) -> Played:
    """Return the logs at the break, half an hour after the last message."""
    key = PrivateKey.from_seed(SECOND, b"n" * SECOND.seed_bytes)
    log: list[Message] = []
    notary = CountersignedLog(_NOTARY)
    for number in range(1, messages + 1):
        log.append(_sign(log[-1] if log else None, f"message {number}", _BEGINS + number * _HOUR_MS))
        if interval and number % interval == 0:
            statement = notarise(_AUTHOR.ref, SECOND, (message.encoded for message in log))
            notary.write(key, statement, log[-1].timestamp + 1)
    size = sum(len(message.encoded) for message in notary.messages)
    return Played(log, [*statements(notary.messages, key.public)], size, log[-1].timestamp + _HOUR_MS / 2)


def attack(name: str, played: Played) -> Outcome:
    """Return what a new reader believes whom the forger of an attack serves.

    A reader without a notary believes all that its store has accepted.
    """
    with MemoryFeeds() as store:
        store.append(ATTACKS[name](played.log), played.broken)
        held = [stored.message for stored in read_feed(store, _AUTHOR.ref)]
    last = vouch(held, played.said, played.broken).vouched if played.said else len(held)
    genuine = {message.encoded for message in played.log}
    is_genuine = [message.encoded in genuine for message in held]
    forged, saved = is_genuine.count(False), is_genuine[:last].count(True)
    return Outcome(forged, last - saved, len(held) - forged, saved)


def _sign(before: Message | None, text: str, timestamp: float) -> Message:
    content: dict[str, Any] = {"type": "post", "text": text}
    return Message.create(_AUTHOR, before, content, timestamp)


def _forge(log: list[Message], since: float, count: int) -> list[Message]:
    found = [*log]
    for number in range(count):
        found.append(_sign(found[-1] if found else None, f"forged {number}", since + number + 1))
    return found
