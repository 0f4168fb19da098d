"""Several providers and their clients in one radio cell."""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from tiny_cell import SECOND, cell, identity, node

from ssb.tiny.isp.client import Client
from ssb.tiny.isp.party import BaseParty, Event
from ssb.tiny.isp.provider import Provider
from ssb.tiny.isp.terms import Terms


class Region:
    """Providers, clients of each, and pairs of providers: the first asks the second for a contract."""

    def __init__(
        self,
        clients: Mapping[str, str],
        peers: Sequence[tuple[str, str]] = (),
        terms: Terms = Terms(size=8, linger=30 * SECOND),  # noqa: B008 - immutable
        kinds: Mapping[str, Any] | None = None,
        seed: int = 1,
        **medium: float,
    ) -> None:
        isps = sorted({*clients.values(), *(isp for pair in peers for isp in pair)})
        self.home = dict(clients)
        names = [*isps, *clients]
        kinds = kinds or {}
        self.nodes = {name: node(number + 100 * seed) for number, name in enumerate(names)}
        roots = {name: identity(1000 * seed + number) for number, name in enumerate(names)}
        self.parties: dict[str, BaseParty] = {}
        for name in names:
            kind = kinds.get(name, Provider if name in isps else Client)
            self.parties[name] = kind(self.nodes[name], roots[name], Random(f"{seed} {name}"), terms, 0)
        self.events: dict[str, list[Event]] = {name: [] for name in names}
        self.network = cell(self.nodes, seed, **{"delay_ms": 1.0} | medium)
        for name, isp in clients.items():
            self.parties[isp].follow(self.key(name), 0)
            self.parties[name].follow(self.key(isp), 0)
        for one, other in peers:
            self.isp(one).peer(self.key(other), 0)
            self.isp(other).peer(self.key(one), 0)
        for name, isp in [*peers, *clients.items()]:
            self.parties[name].onboard(self.key(isp), 0)
        wanted = len(clients) + len(peers)
        assert self.run(60, lambda: sum(self.open(isp) for isp in isps) == wanted + len(peers))
        self.run(3)

    def key(self, name: str) -> bytes:
        return self.parties[name].root.public_key

    def isp(self, name: str) -> Provider:
        party = self.parties[name]
        assert isinstance(party, Provider)
        return party

    def client(self, name: str) -> Client:
        party = self.parties[name]
        assert isinstance(party, Client)
        return party

    def open(self, name: str) -> int:
        return sum(one.facts.state == "open" for one in self.parties[name].contracts.values())

    def run(self, seconds: float, until: Callable[[], bool] = lambda: False) -> bool:
        for name in self.nodes:
            self.network.settle(name)
        end = self.network.now + round(seconds * SECOND)
        while self.network.now < end and not until():
            self.network.run(min(end, self.network.now + SECOND // 5))
            for name, party in self.parties.items():
                self.events[name] += party.take_events()
        return until()

    def ask(self, asker: str, asked: str) -> bytes:
        now = self.network.now
        return self.client(asker).subscribe(self.key(self.home[asker]), self.key(asked), now)

    def subscribe(self, asker: str, asked: str) -> bytes:
        ref = self.ask(asker, asked)
        assert self.run(60, lambda: ref in self.client(asked).subscriptions)
        self.client(asked).answer(ref, self.network.now, accept=True)
        assert self.run(60, lambda: self.client(asker).subscriptions[ref].state == "stands")
        return ref

    def send(self, name: str, ref: bytes, contents: list[bytes]) -> None:
        for content in contents:
            self.client(name).send(ref, content, self.network.now)

    def receive(self, name: str, ref: bytes, count: int, seconds: float = 120) -> list[bytes]:
        """Read what comes from a contact, until there are so many entries or the time is over."""
        client, found = self.client(name), []
        for _ in range(round(seconds * 5)):
            self.run(0.2)
            for entry in client.read(ref):
                found.append(entry.content)
                client.confirm(ref, entry.sequence, self.network.now)
            if len(found) >= count:
                break
        return found

    def detail(self, name: str, kind: str) -> list[str]:
        return [event.detail for event in self.events[name] if event.kind == kind]


def texts(name: str, count: int, size: int = 30) -> list[bytes]:
    return [f"{name} {number}".encode().ljust(size, b".") for number in range(count)]
