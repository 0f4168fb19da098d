"""SSB in local networks: peers know no addresses, announce themselves, and call neighbours that do."""

from typing import Any, Final

from pydantic import Field

from base.endpoint import Address, GroupPort, Port, Program, StreamPort
from ssb.peer.options import BROADCAST, PORT
from ssb.transport.address import PeerAddress
from testbed.layerings.nodes.node import Context, SimpleLayering
from testbed.layerings.nodes.peer_role import peer_identity
from testbed.layerings.nodes.titles import title
from testbed.layerings.nodes.witness import Witness
from testbed.layerings.nodes.workload import Feature
from testbed.layerings.peers.ladder import RungParameters
from testbed.layerings.peers.ssb import EbtTimes, SsbNode


class LanParameters(EbtTimes, RungParameters):
    """Parameters of `lan`."""

    announce_ms: int = Field(default=1000, ge=10, le=86_400_000)
    """Time between two announcements of a peer."""


class LanNode(SsbNode):
    """A node whose peer meets those that it shares a link or a medium with.

    Nodes that neither publish nor follow have no peer.
    """

    def __init__(self, context: Context) -> None:
        own = context.network.interfaces_of(context.name)
        self._groups: dict[int, Port] = {
            number: GroupPort(each, BROADCAST, PORT) for number, each in enumerate(own, start=2)
        }
        self._witness = Witness(context)
        super().__init__(context)
        self._role.stays_connected, self._role.calls_at = True, None
        is_end = context.name in context.workload.publishers | context.workload.follows.keys()
        self.programs = [Program(self, {1: StreamPort(PORT), **self._groups})] if is_end else []

    def receive(self, port: int, payload: bytes, sender: Address | None, now: int) -> None:
        """See Endpoint: the announcement of a neighbour."""
        self._peer.receive(port, payload, sender, now)

    def take_outputs(self) -> list[tuple[int, bytes, Address | None]]:
        """See Endpoint: announcements."""
        return self._peer.take_outputs()

    def _meetings(self, context: Context) -> dict[str, Any]:
        reference = peer_identity(context.seed, context.name).ref
        address = PeerAddress(context.network.address(context.name), PORT, reference)
        return {"announcements": dict.fromkeys(self._groups, address)}


LAN: Final = SimpleLayering(
    title("lan"),
    LanParameters,
    LanNode,
    "ssb",
    frozenset({Feature.MEDIUM, Feature.FOLLOWING}),
)
"""Layering `lan`."""
