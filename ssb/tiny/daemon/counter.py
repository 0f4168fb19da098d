"""A provider, and what its operator types: who may be a client, and whose contract ends."""

from collections.abc import Iterator
from random import SystemRandom
from typing import Final

from ssb.tiny.daemon.account import Account, short, shown, typed
from ssb.tiny.isp.provider.provider import Provider
from ssb.tiny.isp.terms import Terms
from ssb.tiny.node import Node

HELP: Final = "/allow KEY, /end KEY, /who, /quit"


class Counter:
    """A provider and its operator. Time is that of a clock on the wall, ns."""

    def __init__(self, account: Account, node: Node, terms: Terms, now: int) -> None:
        self.node = node
        self._account = account
        self._provider = Provider(node, account.root, SystemRandom(), terms, now)
        self._provider.announce(now)

    def greeting(self) -> list[str]:
        """Return what is shown first."""
        key = shown(self._account.root.public_key)
        return [f"the provider is {key}; {HELP}", f"clients run: feednet tiny --isp {key}"]

    def typed(self, line: str, now: int) -> list[str]:
        """Do what a line says; return what to show. Raises ValueError, with one line."""
        command, _, rest = line.partition(" ")
        match command:
            case "/allow":
                self.allow(typed(rest.strip()), now)
            case "/end":
                key = typed(rest.strip(), self._provider.followed)
                self._provider.farewell(key, now)
            case "/who":
                return [self._line_of(key) for key in self._provider.followed] or ["nobody is allowed yet"]
            case _ if line.strip():
                raise ValueError(f"{command}: unknown; there are {HELP}")
        return []

    def allow(self, client: bytes, now: int) -> None:
        """Let somebody be a client. Raises ValueError for one's own key."""
        if client == self._account.root.public_key:
            raise ValueError("that is the provider's own key")
        self._provider.follow(client, now)
        self._provider.allow(client)

    def news(self, now: int) -> Iterator[str]:
        """Yield what has happened."""
        for event in self._provider.take_events():
            yield f"{short(event.peer)} {event.kind} {event.detail}".rstrip()

    def confirm(self, now: int) -> None:
        """Nothing is to be noted."""

    def _line_of(self, key: bytes) -> str:
        contract = self._provider.contracts.current(key)
        return f"{shown(key)}  {'no contract' if contract is None else contract.facts.state}"
