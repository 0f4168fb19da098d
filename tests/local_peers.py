"""Users' peers on an emulated network, in virtual time, with real accounts on disk."""

from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from random import Random
from types import MappingProxyType, TracebackType
from typing import Any, Self

from base.endpoint import Program, StreamPort
from base.units import SECOND
from ssb.daemon.account import Account
from ssb.daemon.commands import Commands
from ssb.daemon.local_peer import LocalPeer
from ssb.keys import Identity
from ssb.peer.options import PORT, PeerOptions
from ssb.rooms.room import RoomOptions
from ssb.transport.address import PeerAddress
from testbed.scenario.sections import TopologySpec
from topologies.emulator.network import EmulatedNetwork

EPOCH_MS = 1.6e12


class LocalPeers:
    """Peers on links of 5 ms.

    Args:
        directory: has an account in a directory for each.
        links: pairs of names.
        rooms: those that are rooms, and whether these are open.
        keys: those that have the key of another one.
        options: of those that have others than the default ones.
    """

    def __init__(
        self,
        directory: Path,
        links: Iterable[tuple[str, str]],
        rooms: Mapping[str, bool] = MappingProxyType({}),
        keys: Mapping[str, str] = MappingProxyType({}),
        options: Mapping[str, PeerOptions] = MappingProxyType({}),
    ) -> None:
        pairs = list(links)
        spec = TopologySpec(links=tuple({"a": a, "b": b, "delay_ms": 5.0} for a, b in pairs))
        self.topology = spec.build()
        self.accounts: dict[str, Account] = {}
        self.peers: dict[str, LocalPeer] = {}
        for name in dict.fromkeys(name for pair in pairs for name in pair):
            place = directory / name
            place.mkdir(exist_ok=True)
            is_new = not (place / "secret").exists()
            identity = Identity.from_seed(sha256(keys.get(name, name).encode()).digest())
            self.accounts[name] = account = Account(place, identity=identity)
            if is_new:
                account.own.settle()  # nobody has used it elsewhere
            room = RoomOptions(name, rooms[name], self.address(name)) if name in rooms else None
            how = options.get(name, PeerOptions())
            self.peers[name] = LocalPeer(account, how, Random(name), EPOCH_MS, 0, room=room)
        programs = {name: [Program(peer, {1: StreamPort(PORT)})] for name, peer in self.peers.items()}
        self.network = EmulatedNetwork(self.topology, programs, seed=1, capture=None)

    def id(self, name: str) -> str:
        return self.accounts[name].identity.ref

    def address(self, name: str, of: str | None = None) -> PeerAddress:
        """Return where a peer listens, or an address there of somebody else."""
        return PeerAddress(self.topology.address(name), PORT, self.id(of or name))

    def do(self, name: str, *call: str, arguments: list[Any] | None = None) -> Any:
        """Make a call at a peer, as its user's commands do."""
        running = (self.peers[name], lambda: self.network.now)
        commands = Commands(self.accounts[name], lambda: EPOCH_MS, running, self.address(name))
        try:
            return commands.answer(call, arguments or [])
        finally:
            self.network.settle(name)

    def say(self, name: str, **content: Any) -> Any:
        return self.do(name, "publish", arguments=[{"type": "post", **content}])

    def follow(self, name: str, other: str, **how: bool) -> None:
        content = {"type": "contact", "contact": self.id(other), "following": True, **how}
        self.do(name, "publish", arguments=[content])

    def connect(self, name: str, other: str) -> None:
        self.do(name, "connect", arguments=[str(self.address(other))])

    def tip(self, name: str, other: str) -> int:
        return self.accounts[name].feeds.tips().get(self.id(other), 0)

    def run(self, seconds: float) -> None:
        self.network.run(self.network.now + int(seconds * SECOND))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for account in self.accounts.values():
            account.close()
