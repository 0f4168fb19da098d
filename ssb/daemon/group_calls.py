"""Calls about private groups: create, add, remove, post and list; log yields a group's messages."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ssb.canonical import Value, parse
from ssb.groups.groups import Group, Groups
from ssb.groups.writing import Write, Writer
from ssb.keys import parse_feed
from ssb.transport.calls import not_allowed
from ssb.uri import plain

Namer = Callable[[str], str | None]


class GroupCalls:
    """The calls; they raise ValueError, with a line for the user, and StoreError.

    Args:
        groups: the user's.
        write: see ssb.groups.writing.
        namer: see ssb.daemon.views.
    """

    def __init__(self, groups: Groups, write: Write, namer: Callable[[], Namer]) -> None:
        self._groups = groups
        self._namer = namer
        self._writer = Writer(groups, write)

    def answer(self, name: str, arguments: Sequence[Value]) -> Value:
        """Answer a call of form async."""
        match name, list(arguments):
            case "create", _:
                return self._writer.create()
            case "add", [str() as group, list() as feeds, str() as text]:
                self._writer.add(plain(group), _checked(feeds), text)
                return True
            case "remove", [str() as group, list() as feeds]:
                return self._writer.remove(plain(group), _checked(feeds))
            case "post", [str() as group, dict() as content]:
                return self._writer.post(plain(group), content).id
            case "list", _:
                return self._list()
        raise ValueError(not_allowed(("groups", name)))

    def log(self, group: str, limit: int | None) -> Iterator[dict[str, Any]]:
        """Yield the messages of a group in order of receipt, the last `limit`, each with its plaintext."""
        namer = self._namer()
        messages = self._groups.messages(self._groups.get(plain(group)))
        for message, opened, _ in messages if limit is None else messages[-limit:]:
            value = parse(message.text)
            yield {"key": message.id, "value": value, "opened": opened, "name": namer(message.author)}

    def _list(self) -> Value:
        namer = self._namer()
        shown = [_shown(group, self._groups.identity.ref) for group in self._groups.every()]
        for each in shown:
            each["names"] = {feed: namer(feed) for feed in {*each["members"], *each["readers"]}}
        return shown


def _shown(group: Group, me: str) -> dict[str, Any]:
    current = group.current
    return {
        "id": group.id,
        "epochs": [*dict.fromkeys([group.id, *sorted(each.id for each in group.epochs)])],
        "members": sorted(group.members),
        "isMember": me in group.members,
        "readers": sorted(group.readers),
        "epoch": None if current is None else current.id,
        "messages": sum(len(each.messages) for each in group.epochs),
    }


def _checked(feeds: Sequence[Value]) -> list[str]:
    found = [plain(str(feed)) for feed in feeds]
    for feed in found:
        parse_feed(feed)
    return found
