"""A provider and the commands of its operator: admission of clients, and ends of contracts."""

from collections.abc import Iterator
from random import SystemRandom
from typing import Final

from ssb.tiny.daemon.account import Account, parse_key, short, shown
from ssb.tiny.isp.provider.provider import Provider
from ssb.tiny.isp.terms import Terms
from ssb.tiny.node import Node

HELP: Final = "/allow KEY, /end KEY, /who, /help, /quit"


class Counter:
    """The Desk of a provider and its operator. Times are wall-clock, ns."""

    def __init__(self, account: Account, node: Node, terms: Terms, now: int) -> None:
        self.node = node
        self._account = account
        self._provider = Provider(node, account.root, SystemRandom(), terms, now)
        self._provider.announce(now)

    def greeting(self) -> list[str]:
        key = shown(self._account.root.public_key)
        return [f"the provider is {key}; {HELP}", f"clients run: feednet tiny --isp {key}"]

    def execute(self, line: str, now: int) -> list[str]:
        command, _, rest = line.partition(" ")
        match command:
            case "/allow":
                self.allow(parse_key(rest.strip()), now)
            case "/end":
                key = parse_key(rest.strip(), self._provider.followed)
                self._provider.farewell(key, now)
            case "/who":
                return [self._line_of(key) for key in self._provider.followed] or ["nobody is allowed yet"]
            case "/help":
                return [HELP]
            case _ if line.strip():
                raise ValueError(f"{command}: unknown; there are {HELP}")
        return []

    def allow(self, client: bytes, now: int) -> None:
        """Admit a client. Raises ValueError for the provider's own key."""
        if client == self._account.root.public_key:
            raise ValueError("that is the provider's own key")
        self._provider.follow(client, now)
        self._provider.allow(client)

    def news(self, now: int) -> Iterator[str]:
        for event in self._provider.take_events():
            yield f"{short(event.peer)} {event.kind} {event.detail}".rstrip()

    def confirm(self, now: int) -> None:
        """See Desk: nothing is recorded."""

    def _line_of(self, key: bytes) -> str:
        contract = self._provider.contracts.current(key)
        return f"{shown(key)}  {'no contract' if contract is None else contract.facts.state}"
