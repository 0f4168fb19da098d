"""NDN's name space, allocated in logs (seed papers 000, section 9.5, and 002, section 4.4).

A well-known identity, the *root*, allocates prefixes in its log. The holder of a prefix delegates longer ones
in its own log. Readers of the same logs have the same name space, in whatever order they received them: no
rule depends on the time of a message, or compares positions in different logs.

A message gives a prefix to an identity; its id is the *title* under which the holder acts. The content of
such a message, of type `ndn-name-space`:

| do | by | fields | effect |
|---|---|---|---|
| allocate | the root | prefix, to | gives a prefix to a holder |
| delegate | a holder | title, prefix, to | gives a longer prefix to another holder |
| transfer | a holder | title, to | transfers the title; the message's id is the new holder's title |
| revoke | the giver, or his heir | title, allocation | takes back a prefix and all under it |
| repository | a holder | title, repositories | names the identities that answer for the prefix |

The root has no title at first, and names none.

The history of a prefix is in the logs of its holders, one after the other, each from the holder's title to
its transfer. That order decides: of two overlapping prefixes, the one given first stands, and the
other message is void until the first is revoked and the second repeated. A holder whose log is forked holds
nothing new from the fork on.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

from forwarder.wire.name import from_uri, prefix_ends, to_uri
from ssb.keys import InvalidRef, parse_feed, parse_message
from ssb.message import Message

NAME_SPACE: Final = "ndn-name-space"
"""The type of messages."""

_LONGEST = 400  # bytes of a prefix
_MOST_REPOSITORIES = 16


class InvalidStatement(ValueError):
    """The content is no valid statement about the name space; the message has the reason."""


class Statement(NamedTuple):
    """A message about the name space.

    Attributes:
        id, feed, sequence, timestamp: of the message; ms since 1970 by its author's clock.
        do: its effect (see the module).
        title: of its author; "" for the root's first one.
        prefix: given by it, as a name; empty if none.
        to: the receiver; "" if none.
        allocation: id of the revoked message; "" if none.
        repositories: see the module.
    """

    id: str
    feed: str
    sequence: int
    timestamp: float
    do: str
    title: str = ""
    prefix: bytes = b""
    to: str = ""
    allocation: str = ""
    repositories: tuple[str, ...] = ()

    @classmethod
    def read(cls, message: Message) -> "Statement | None":
        """Read a message; return None if it is about something else. Raises InvalidStatement."""
        content = message.content
        if not isinstance(content, dict) or content.get("type") != NAME_SPACE:
            return None
        do = content.get("do")
        if not isinstance(do, str) or do not in _PARTS:
            raise InvalidStatement(f"do is not one of {', '.join(_PARTS)}")
        parts: dict[str, Any] = {
            part: _READERS[part](content[part]) for part in _PARTS[do] if part in content
        }
        missing = [part for part in _PARTS[do] if part not in parts and part != "title"]
        if missing or (do in ("delegate", "repository") and "title" not in parts):
            raise InvalidStatement(f"{do} without {', '.join(missing or ['title'])}")
        return cls(message.id, message.author, message.sequence, message.timestamp, do, **parts)


def statement(
    do: str,
    *,
    title: str = "",
    prefix: bytes = b"",
    to: str = "",
    allocation: str = "",
    repositories: Iterable[str] = (),
) -> dict[str, Any]:
    """Return the content of a message; the module describes the fields."""
    values = {
        "title": title,
        "prefix": to_uri(prefix),
        "to": to,
        "allocation": allocation,
        "repositories": list(repositories),
    }
    parts = {part: values[part] for part in _PARTS[do] if part != "title" or title}
    return {"type": NAME_SPACE, "do": do} | parts


class Verdict(NamedTuple):
    """The validity of a statement: `void` is the reason why it is void, or empty."""

    statement: Statement
    void: str


@dataclass(slots=True)
class Holding:
    """A prefix and its holder.

    Attributes:
        allocation: id of the message that allocated it; "" for the root's.
        prefix: as a name.
        holder: a feed.
        title: id of the message under which the holder acts.
        since: timestamp of that message, ms since 1970 by its author's clock.
        repositories: identities that answer for it.
    """

    allocation: str
    prefix: bytes
    holder: str
    title: str
    since: float
    repositories: tuple[str, ...] = ()
    _given: dict[str, "Holding"] = field(default_factory=dict)


class NameSpace:
    """The name space according to the logs read.

    Args:
        root: the allocating identity.
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self._statements: defaultdict[str, list[Statement]] = defaultdict(list)
        self._forks: dict[str, int] = {}
        self._office = Holding("", b"", root, "", 0.0)
        self._holdings: dict[bytes, Holding] = {}
        self._lengths: list[int] = []
        self._verdicts: dict[str, Verdict] = {}
        self._holders = {root}
        self._is_stale = False

    def read(self, message: Message) -> bool:
        """Apply the next message of a log; return whether it was about the name space."""
        try:
            statement = Statement.read(message)
        except InvalidStatement:
            return False
        if statement is None:
            return False
        self._statements[statement.feed].append(statement)
        self._is_stale = True
        return True

    def forked(self, feed: str, sequence: int) -> None:
        """Apply a fork of a log at a sequence number: later messages are void."""
        if sequence < self._forks.get(feed, sequence + 1):
            self._forks[feed] = sequence
            self._is_stale = True

    def holders(self) -> frozenset[str]:
        """Return the feeds that determine the name space: the holders, and the root."""
        self._refresh()
        return frozenset(self._holders)

    def holdings(self) -> Mapping[bytes, Holding]:
        """Return the holdings by prefix."""
        self._refresh()
        return self._holdings

    def find(self, name: bytes) -> Holding | None:
        """Return the holding of the longest prefix of a name; None if there is none."""
        self._refresh()
        ends = prefix_ends(name)
        for length in self._lengths:
            if length <= len(ends):
                holding = self._holdings.get(name[: ends[length - 1]])
                if holding is not None:
                    return holding
        return None

    @property
    def office(self) -> Holding:
        """The allocating identity and its title: the root, or its heir."""
        self._refresh()
        return self._office

    def giver(self, holding: Holding) -> Holding:
        """Return the holding from which another one was delegated."""
        above = self.office
        while holding.allocation not in above._given:
            above = next(each for each in above._given.values() if _is_under(holding.prefix, each.prefix))
        return above

    def verdicts(self) -> Iterator[Verdict]:
        """Yield the validity of each statement, log by log."""
        self._refresh()
        for feed in sorted(self._statements):
            for statement in self._statements[feed]:
                yield self._verdicts.get(statement.id) or Verdict(statement, self._objection(statement))

    def _objection(self, statement: Statement) -> str:
        if statement.sequence >= self._forks.get(statement.feed, statement.sequence + 1):
            return "its log is forked"
        if not statement.title:
            return "only the root acts without a title"
        return "its author does not have that title"

    def _refresh(self) -> None:
        if not self._is_stale:
            return
        self._is_stale = False
        self._holdings = {}
        self._verdicts = {}
        self._holders = {self.root}
        acts: defaultdict[tuple[str, str], list[Statement]] = defaultdict(list)
        for feed, statements in self._statements.items():
            end = self._forks.get(feed)
            for statement in statements:
                if end is None or statement.sequence < end:
                    acts[feed, statement.title].append(statement)
        self._office = Holding("", b"", self.root, "", 0.0)
        ahead = [self._office]
        while ahead:
            holding = ahead.pop()
            self._follow(holding, acts)
            self._holders.add(holding.holder)
            if holding.prefix:
                self._holdings[holding.prefix] = holding
            ahead += holding._given.values()
        self._lengths = sorted({len(prefix_ends(prefix)) for prefix in self._holdings}, reverse=True)

    def _follow(self, holding: Holding, acts: Mapping[tuple[str, str], list[Statement]]) -> None:
        """Apply the statements of a prefix's holders, one holder after the other."""
        is_handed_on = True
        while is_handed_on:
            is_handed_on = False
            for statement in acts.get((holding.holder, holding.title), ()):
                void = "its author has handed on the title" if is_handed_on else _apply(holding, statement)
                self._verdicts[statement.id] = Verdict(statement, void)
                if statement.do == "transfer" and not void:
                    is_handed_on = True
                    heir = statement
            if is_handed_on:
                self._holders.add(holding.holder)
                holding.holder, holding.title, holding.since = heir.to, heir.id, heir.timestamp


def _apply(holding: Holding, statement: Statement) -> str:
    """Apply a holder's statement; return why it is void, or ""."""
    given = holding._given
    if statement.do in ("allocate", "delegate"):
        if (statement.do == "allocate") != (not holding.prefix):
            return "the root allocates, and holders delegate"
        prefix = statement.prefix
        if not _is_under(prefix, holding.prefix):
            return f"{to_uri(prefix)} is not under {to_uri(holding.prefix)}"
        for other in given.values():
            if _is_under(prefix, other.prefix) or _is_under(other.prefix, prefix) or prefix == other.prefix:
                return f"{to_uri(other.prefix)} was given away before"
        given[statement.id] = Holding(statement.id, prefix, statement.to, statement.id, statement.timestamp)
    elif statement.do == "revoke":
        if given.pop(statement.allocation, None) is None:
            return "nothing of that name is given away, or not any more"
    elif statement.do == "repository":
        holding.repositories = statement.repositories
    return ""


def _is_under(name: bytes, prefix: bytes) -> bool:
    """Whether a name is longer than a prefix and begins with it."""
    return len(name) > len(prefix) and name.startswith(prefix)


def _reference(value: object, parse: Callable[[str], bytes]) -> str:
    try:
        parse(value if isinstance(value, str) else "")
    except InvalidRef as error:
        raise InvalidStatement(str(error)) from None
    assert isinstance(value, str)
    return value


def _read_prefix(value: object) -> bytes:
    try:
        prefix = from_uri(value) if isinstance(value, str) else b""
    except ValueError as error:
        raise InvalidStatement(f"prefix: {error}") from None
    if not prefix or len(prefix) > _LONGEST or to_uri(prefix) != value:
        raise InvalidStatement("prefix is no name with one component at least, as a URI")
    return prefix


def _read_repositories(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > _MOST_REPOSITORIES:
        raise InvalidStatement(f"repositories is no list of at most {_MOST_REPOSITORIES}")
    return tuple(dict.fromkeys(_reference(each, parse_feed) for each in value))


_READERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "title": partial(_reference, parse=parse_message),
    "prefix": _read_prefix,
    "to": partial(_reference, parse=parse_feed),
    "allocation": partial(_reference, parse=parse_message),
    "repositories": _read_repositories,
}
_PARTS: Final = {
    "allocate": ("title", "prefix", "to"),
    "delegate": ("title", "prefix", "to"),
    "transfer": ("title", "to"),
    "revoke": ("title", "allocation"),
    "repository": ("title", "repositories"),
}
