"""Calls about suites: a key that countersigns, notarised logs, and how far a log is vouched for.

suites.begin        {"anew": whether all messages of the own feed here count as written here, and a lost key
                    is replaced} -> {"key", "message"}: the key, and the message that declares it, if new
suites.notarise     FEED -> {"key", "sequence"}: the statement's id, and the last message that it covers
suites.vouched      {"id", "broken", "notaries", "keys"} -> how far a log is vouched for after a break;
                    "broken" is in ms since 1970, the others are keys of notaries and of the author
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from ssb.canonical import Value
from ssb.daemon.account import Account
from ssb.message import Message
from ssb.store.feeds import read_feed, read_log
from ssb.suites.countersignature import DECLARATION, declaration, declared_by, successor_key
from ssb.suites.notary import Statement, notarise, statements, vouch
from ssb.suites.suite import PublicKey
from ssb.transport.calls import not_allowed
from ssb.uri import plain

_NO_KEY: Final = "a notary countersigns its statements: `feednet ssb suite` makes the key for that"


class SuiteCalls:
    """Answers the calls about suites.

    Args:
        account: the user's.
        write: publishes a content.
    """

    def __init__(self, account: Account, write: Callable[[Mapping[str, Any]], Message]) -> None:
        self._account = account
        self._write = write

    def answer(self, call: str, arguments: Sequence[Value]) -> Value:
        """Answer a call; raise ValueError, with a line for the user, and StoreError."""
        match call, list(arguments):
            case "begin", [] | [dict()]:
                options = arguments[0] if arguments else {}
                return self._begin(is_anew=isinstance(options, dict) and options.get("anew") is True)
            case "notarise", [str() as feed]:
                return self._notarise(plain(feed))
            case "vouched", [{"id": str() as feed, "broken": int() | float() as broken, **more}]:
                return self._vouched(plain(feed), broken, {str(name): value for name, value in more.items()})
        raise ValueError(not_allowed(("suites", call)))

    def _begin(self, *, is_anew: bool) -> Value:
        self._account.own.check()
        if self._account.identity.ref in self._account.feeds.ends():
            raise ValueError("your feed has ended, so there is nothing to countersign")
        if self._account.identity.ref in self._account.merged:
            raise ValueError("the branches of your feed are merged, and a second key vouches for one only")
        own = self._account.own_key
        key = own.begin(is_anew=is_anew).public
        if why := own.why():
            raise ValueError(why)
        return {
            "key": key.text,
            "message": None if own.is_declared(key) else self._write(declaration(key)).id,
        }

    def _notarise(self, feed: str) -> Value:
        key = self._account.own_key.key
        if key is None:
            raise ValueError(self._account.own_key.why() or _NO_KEY)
        self._check_held(feed)
        texts = (stored.text for stored in read_feed(self._account.feeds, feed))
        content = notarise(feed, key.public.suite, texts)
        return {"key": self._write(content).id, "sequence": content["sequence"]}

    def _vouched(self, feed: str, broken: float, options: Mapping[str, Any]) -> Value:
        notaries, keys = _keys(options.get("notaries")), _keys(options.get("keys"))
        self._check_held(feed)
        total = self._account.feeds.last(feed)
        log = [stored.message for stored in read_feed(self._account.feeds, feed)]
        said = [one for notary in notaries for one in self._statements(notary)]
        verdict = vouch(log, said, broken, keys)
        beyond = verdict.beyond
        if beyond is not None and beyond.sequence <= total:  # damaged, not missing
            beyond = None
        end = self._account.feeds.ends().get(feed)
        heir = None if end is None or end.sequence > verdict.vouched else end.successor
        heir_key = None if heir is None or end is None else successor_key(log[end.sequence - 1])
        return {
            "vouched": verdict.vouched,
            "messages": total,
            "read": len(log),
            "notarised": _shown(verdict.by),
            "disputed": _shown(verdict.disputed),
            "beyond": _shown(beyond),
            "successor": heir,
            "key": None if heir_key is None else heir_key.text,
        }

    def _statements(self, notary: PublicKey) -> Iterator[Statement]:
        """Yield the statements of all feeds that have declared a key; raise ValueError if none has."""
        found = (stored.message for stored in read_log(self._account.feeds, 0, {DECLARATION}))
        feeds = {message.author for message in found if declared_by(message, notary) is not None}
        if not feeds:
            raise ValueError(f"no feed here declares the key {notary.text}; follow its feed first")
        for feed in sorted(feeds):
            log = (stored.message for stored in read_feed(self._account.feeds, feed))
            yield from statements(log, notary)

    def _check_held(self, feed: str) -> None:
        if feed not in self._account.feeds.tips():
            raise ValueError(f"{feed}: there are no messages of this feed here")


def _keys(texts: object) -> list[PublicKey]:
    return [PublicKey.parse(text) for text in texts] if isinstance(texts, list) else []


def _shown(statement: Statement | None) -> dict[str, Any] | None:
    if statement is None:
        return None
    return {"sequence": statement.sequence, "date": statement.date, "notary": statement.notary}
