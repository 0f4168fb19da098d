"""Roles in a network: providers, and the provider of each client."""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from testbed.errors import UserError
from testbed.layerings.peers.ladder import hub_of
from topologies.model import Topology


class Assignment(NamedTuple):
    """The providers, and their clients and peers.

    Attributes:
        provider_of: client -> its provider.
        asked_peers: provider -> the peers from which it requests a contract; each pair of peers is there
            once.
    """

    provider_of: dict[str, str]
    asked_peers: dict[str, list[str]]

    @classmethod
    def of(cls, network: Topology, parameters: Mapping[str, Any], honest: Collection[str]) -> "Assignment":
        """Assign providers to the honest clients on a network, and to the hostile ones that parameters name.

        A client gets the first neighbouring provider. Neighbouring providers are peers. Raises UserError with
        the name of a node without a role, with two, or unreachable.
        """
        hostile = parameters.get("hostile") or []
        for each in hostile:
            if each in honest:
                raise UserError(f"tiny-isp: {each!r} is hostile, and can neither publish nor follow")
        clients = [*honest, *hostile]
        providers = parameters.get("providers") or [hub_of(network, {"at": None})]
        beside: dict[str, set[str]] = {node: set() for node in network.nodes}
        for hop in network.hops:
            beside[hop.out.node].add(hop.into.node)
        for each in providers:
            if each in clients:
                raise UserError(f"tiny-isp: {each!r} is a provider, and can neither publish nor follow")
        provider_of = {}
        for client in clients:
            near = [each for each in providers if each in beside[client]]
            if not near:
                raise UserError(f"tiny-isp: {client!r} is next to no provider")
            provider_of[client] = near[0]
        asked_peers = {
            each: [other for other in providers[number + 1 :] if other in beside[each]]
            for number, each in enumerate(providers)
        }
        assignment = cls(provider_of, asked_peers)
        first, *_ = provider_of.values()
        reached = {first}
        ahead = [first]
        while ahead:
            found = {*assignment.peers(ahead.pop())} - reached
            reached |= found
            ahead += found
        for client, provider in provider_of.items():
            if provider not in reached:
                raise UserError(
                    f"tiny-isp: no links between providers lead from {first!r} to {provider!r},"
                    f" the provider of {client!r}"
                )
        return assignment

    def peers(self, provider: str) -> list[str]:
        """Return a provider's neighbouring providers."""
        asking = [each for each, asked in self.asked_peers.items() if provider in asked]
        return asking + self.asked_peers[provider]
