"""Routes of a forwarding provider, derived from logs alone: from the name space and the contracts.

A provider knows all contracts among providers, and between providers and repositories. The next hops for a
prefix are the neighbours nearer to one of its repositories than the provider itself, so routes are
loop-free once all have the same logs.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from base.passive import PassiveApplication
from forwarder.host import Host
from forwarder.wire.lp import NO_ROUTE, make_lp, parse_lp
from forwarder.wire.packet import parse_interest
from forwarder.wire.tlv import MalformedPacket
from ndn_over_ssb.contract import Contract
from ndn_over_ssb.links import Links
from ndn_over_ssb.name_space import Holding, NameSpace

_MANY: Final = 1 << 30


class Way(NamedTuple):
    """A next hop: its contract, and the number of contracts on the path to the repository."""

    contract: str
    cost: int


def find_ways(
    node: str, holdings: Mapping[bytes, Holding], contracts: Iterable[Contract]
) -> dict[bytes, list[Way]]:
    """Return the next hops of a node for each prefix; none for a prefix without repositories.

    `contracts` are those in force. A prefix of which the node itself is a repository has no next hops
    either.
    """
    neighbours: defaultdict[str, dict[str, str]] = defaultdict(dict)
    transit = set()
    for contract in sorted(contracts, key=lambda each: each.id):
        neighbours[contract.customer][contract.provider] = contract.id
        neighbours[contract.provider][contract.customer] = contract.id
        transit.add(contract.provider)
        if contract.terms is not None and contract.terms.transit:
            transit.add(contract.customer)
    ways: dict[bytes, list[Way]] = {}
    distances: dict[str, dict[str, int]] = {}
    for prefix, holding in holdings.items():
        found: dict[str, int] = {}
        for repository in holding.repositories:
            if repository not in distances:
                distances[repository] = _distances(repository, neighbours, transit)
            near = {n: distances[repository][n] for n in neighbours[node] if n in distances[repository]}
            for neighbour, distance in near.items():
                if distance == min(near.values()):
                    found[neighbour] = min(distance + 1, found.get(neighbour, distance + 1))
        is_here = node in holding.repositories
        ways[prefix] = [] if is_here else [Way(neighbours[node][each], found[each]) for each in sorted(found)]
    return ways


def _distances(start: str, neighbours: Mapping[str, Mapping[str, str]], transit: set[str]) -> dict[str, int]:
    """Return the distance, in contracts, from an identity to each provider."""
    distances = {start: 0}
    ahead = deque([start])
    while ahead:
        here = ahead.popleft()
        for other in neighbours.get(here, ()):
            if other in transit and other not in distances:
                distances[other] = distances[here] + 1
                ahead.append(other)
    return distances


class Change(NamedTuple):
    """An effective change of the name space at this participant.

    Attributes:
        time: ns.
        prefix: as a name.
        holder: its current holder; "" for none.
        repositories: its current repositories.
    """

    time: int
    prefix: bytes
    holder: str
    repositories: tuple[str, ...]


class Routes:
    """The routes of a participant in its forwarder.

    Attributes:
        serving: face of the application that answers for this participant's prefixes; None for none.
    """

    def __init__(self, me: str, host: Host, *, is_provider: bool) -> None:
        self._me = me
        self._host = host
        self._is_provider = is_provider
        self._nowhere = host.attach(_Nowhere())
        self._routes: set[tuple[bytes, int, int]] = set()
        self._known: dict[bytes, Holding] = {}
        self._changes: list[Change] = []
        self.serving: int | None = None

    def take_changes(self) -> list[Change]:
        """Return the effective changes of the name space since the last call."""
        changes, self._changes = self._changes, []
        return changes

    def update(self, name_space: NameSpace, contracts: list[Contract], links: Links, now: int) -> None:
        """Set the routes by the name space and the contracts in force."""
        self._note_changes(dict(name_space.holdings()), now)
        forwarder = self._host.forwarder
        before = {route for route in self._routes if route[1] in forwarder.faces}
        self._routes = self._derive(contracts, links)
        for prefix, face, _ in sorted(before - self._routes):
            forwarder.fib.remove(prefix, face)
        for prefix, face, cost in sorted(self._routes - before):
            forwarder.fib.add(prefix, face, cost)

    def _note_changes(self, holdings: dict[bytes, Holding], now: int) -> None:
        """Record changes of the name space, and erase cached Data under prefixes with a new holder."""
        for prefix in {**self._known, **holdings}:
            before, after = self._known.get(prefix), holdings.get(prefix)
            if before == after:
                continue
            self._changes.append(
                Change(now, prefix, after.holder if after else "", after.repositories if after else ())
            )
            if before is not None and (after is None or after.title != before.title):
                self._host.forwarder.cs.erase(prefix, _MANY)
        self._known = holdings

    def _derive(self, contracts: list[Contract], links: Links) -> set[tuple[bytes, int, int]]:
        """Return (prefix, face, cost) of each route."""
        here = [p for p, holding in self._known.items() if self._me in holding.repositories]
        routes = set() if self.serving is None else {(prefix, self.serving, 0) for prefix in here}
        if not self._is_provider:
            return routes | {(b"", link.face, 1) for link in links if link.contract.customer == self._me}
        for prefix, ways in find_ways(self._me, self._known, contracts).items():
            found = {(prefix, link.face, way.cost) for way in ways if (link := links.get(way.contract))}
            routes |= found or ({(prefix, self._nowhere, 0)} if prefix not in here else set())
        return routes


class _Nowhere(PassiveApplication):
    """Refuses Interests for prefixes without a reachable repository."""

    def receive(self, packet: bytes, now: int) -> None:
        try:
            header = parse_lp(packet)
            interest = parse_interest(header.fragment)
        except MalformedPacket:
            return
        self.outputs.append(make_lp(interest.wire, nack_reason=NO_ROUTE, pit_token=header.pit_token))
