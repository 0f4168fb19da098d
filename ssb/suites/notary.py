"""Notaries: logs that say which messages other logs had on a date.

After a break of the classic hash or signature, anybody can write messages that seem to be old. It is an open
problem how old messages can be saved then (Tarr et al., "Secure Scuttlebutt", ACM ICN 2019, section 6.2). A
notary publishes, in countersigned messages (`ssb.suites.countersignature`), the log hash of a log up to
message n:

    {"type": "notarised", "feed": "@...=.ed25519", "sequence": n, "log": "<base64>.blake2b"}

The message's time is the date. A reader who knows the date of the break, and a notary's key, takes the
messages that were notarised before that date and still have the same log hash, and no others. A date earlier
than one before it in the notary's log counts as that one. A statement without a countersignature dates from
the countersigned message behind it that proves it: until then, it may have been written by another. NDN
DeLorean (Yu et al., ACM ICN 2017) has such a log of hashes as a service of its own.
"""

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple

from ssb.keys import InvalidRef, is_feed
from ssb.message import Message
from ssb.suites.countersignature import EMPTY, Reader, declared_by, log_hash
from ssb.suites.suite import PublicKey, Suite, hash_text, parse_hash

NOTARISED: Final = "notarised"

MOST_KEYS: Final = 16
"""Keys that vouch() tries, besides those given: each takes a signature check a message."""


class Statement(NamedTuple):
    """A notary's statement about a log.

    Attributes:
        feed: the log's.
        sequence: number of the last message that it covers.
        suite: of the hash.
        log: the log hash up to there, 32 bytes.
        date: ms since 1970.
        notary: the notary's feed.
    """

    feed: str
    sequence: int
    suite: Suite
    log: bytes
    date: float
    notary: str


class Verdict(NamedTuple):
    """How far a log is vouched for.

    Attributes:
        vouched: number of the last vouched message; 0 for none.
        by: the statement that says so; None if no statement does, or the author's countersignature says more.
        disputed: of the statements that contradict the log, the one about the fewest messages; None for none.
        beyond: of the statements about more messages than the log has, the one about the most; None for none.
    """

    vouched: int
    by: Statement | None
    disputed: Statement | None
    beyond: Statement | None


def notarise(feed: str, suite: Suite, texts: Iterable[bytes]) -> dict[str, Any]:
    """Return the content of a statement about all messages of a log, by their canonical texts in UTF-8.

    Raises ValueError for an empty log.
    """
    log, number = EMPTY, 0
    for text in texts:
        log, number = log_hash(suite, log, text), number + 1
    if not number:
        raise ValueError(f"{feed}: there is no message to notarise")
    return {"type": NOTARISED, "feed": feed, "sequence": number, "log": hash_text(suite, log)}


def statements(log: Iterable[Message], key: PublicKey) -> Iterator[Statement]:
    """Yield the statements of a notary's log; all that its key does not prove is skipped."""
    reader, waiting, date = Reader(key), dict[int, Message](), 0.0
    for message in log:
        waiting[message.sequence] = message
        for number in reader.add(message):
            proved = waiting.pop(number)
            date = max(date, proved.timestamp, message.timestamp)
            if (found := _statement(proved, key.suite, date)) is not None:
                yield found


def _statement(message: Message, suite: Suite, date: float) -> Statement | None:
    content = message.content
    if not isinstance(content, dict) or content.get("type") != NOTARISED:
        return None
    feed, number = content.get("feed"), content.get("sequence")
    if not isinstance(feed, str) or not is_feed(feed) or type(number) is not int or number < 1:
        return None
    try:
        log = parse_hash(suite, content.get("log"))
    except InvalidRef:
        return None
    return Statement(feed, number, suite, log, date, message.author)


def vouch(
    log: Sequence[Message], said: Iterable[Statement], broken: float, keys: Iterable[PublicKey] = ()
) -> Verdict:
    """Return how far a log is vouched for, though the classic hash and signature broke at `broken`.

    Args:
        log: the messages of one feed, from the first one on.
        said: statements of trusted notaries, also about other feeds.
        broken: date of the break, ms since 1970.
        keys: the author's keys of another suite of which the caller is sure. The first MOST_KEYS that
            messages declare count, too, if these messages are vouched for. What the author has countersigned
            with one of them needs no notary, whatever its date.
    """
    feed = log[0].author if log else ""
    held, disputed = list[Statement](), list[Statement]()
    about = [one for one in said if one.feed == feed and one.date < broken]
    hashes = {suite: _hashes(suite, log) for suite in {one.suite for one in about}}
    for one in about:
        if one.sequence <= len(log):
            (held if hashes[one.suite][one.sequence] == one.log else disputed).append(one)
    by = max(held, key=lambda one: (one.sequence, -one.date), default=None)
    vouched, read = 0 if by is None else by.sequence, 0
    trusted = [*dict.fromkeys(keys)]
    most, tried = len(trusted) + MOST_KEYS, 0
    while tried < len(trusted) or read < vouched:
        declared = (key for message in log[read:vouched] if (key := declared_by(message)) is not None)
        trusted = [*dict.fromkeys((*trusted, *declared))][:most]
        read = vouched
        for key in trusted[tried:]:
            proved = _proved(key, log)
            if proved > vouched:
                vouched, by = proved, None
        tried = len(trusted)
    longest = max(about, key=attrgetter("sequence"), default=None)
    beyond = longest if longest is not None and longest.sequence > len(log) else None
    return Verdict(vouched, by, min(disputed, key=attrgetter("sequence"), default=None), beyond)


def _proved(key: PublicKey, log: Iterable[Message]) -> int:
    """Return the number of the last message that a key has countersigned; 0 for none."""
    reader = Reader(key)
    for message in log:
        reader.add(message)
    return reader.proved


def _hashes(suite: Suite, log: Sequence[Message]) -> list[bytes]:
    """Return the log hash before the first message, and after each."""
    found = [EMPTY]
    for message in log:
        found.append(log_hash(suite, found[-1], message.encoded))
    return found
