"""Routing between providers: reachable clients of others, and the paths to them.

Each provider announces to its neighbours, by `reach` in its control feeds for them, the clients that it
reaches, and through which providers: a *path* begins with the sender and ends with the client's own provider.
It receives the same from them, selects the shortest path for each client, and announces that in turn, with
itself prepended.

**Loops.** A path with the own provider in it is rejected, and none is sent to a neighbour on it. So after any
change, a path can loop no longer than announcements take; and a request for a feed that is known at a
provider is refused there (`ssb.tiny.isp.provider.switch`).

A neighbour can lie about its reach. Then requests go astray, but it cannot answer in a client's name: answers
are signed (`ssb.tiny.isp.evidence`).
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from ssb.bipf import Value
from ssb.tiny.isp.messages import Reach

Path = tuple[bytes, ...]
"""Providers, by their root feeds."""

LONGEST: Final = 16
"""Most providers in a path."""
MOST_TARGETS: Final = 4096
"""Most clients that one neighbour may announce."""
_A_MESSAGE: Final = 20
"""Clients in one command."""


class Reachability:
    """Announcements received from neighbours and sent to them.

    Args:
        own: the provider's root feed.
    """

    def __init__(self, own: bytes) -> None:
        self._own = own
        self._received: dict[bytes, dict[bytes, Path]] = {}  # contract -> client -> path
        self._sent: dict[bytes, dict[bytes, Path]] = {}

    def receive(self, contract: bytes, neighbour: bytes, message: Reach) -> str | None:
        """Process a neighbour's announcement; return the violation in it, or None."""
        known = self._received.setdefault(contract, {})
        path = message.path
        if path is None:
            for target in message.targets:
                known.pop(target, None)
            return None
        if not path or path[0] != neighbour or len(set(path)) != len(path):
            return "a path that leads nowhere"
        if len(path) > LONGEST or self._own in path:
            for target in message.targets:
                known.pop(target, None)  # the neighbour has no other path any more
            return None
        for target in message.targets:
            if target not in known and len(known) >= MOST_TARGETS:
                return "more clients than are noted"
            known[target] = path
        return None

    def forget(self, contract: bytes) -> None:
        """Forget the neighbour of a contract that ends."""
        self._received.pop(contract, None)
        self._sent.pop(contract, None)

    def next_hop(self, target: bytes, without: Collection[bytes] = ()) -> bytes | None:
        """Return the contract that leads to a client by the shortest path, or None.

        Contracts in `without` are excluded.
        """
        paths = (
            (len(known[target]), contract)
            for contract, known in self._received.items()
            if target in known and contract not in without
        )
        return min(paths, default=(0, None))[1]

    def updates(self, contract: bytes, neighbour: bytes, clients: Collection[bytes]) -> Iterator[Reach]:
        """Yield the changes since the last announcement to a neighbour, given the own clients."""
        before = self._sent.setdefault(contract, {})
        paths = self._paths(clients)
        now = {
            target: path
            for target, path in paths.items()
            if neighbour not in path and target != neighbour and len(path) <= LONGEST
        }
        changes: dict[Path | None, list[bytes]] = {}
        for target in sorted(before.keys() - now.keys()):
            changes.setdefault(None, []).append(target)
        for target, path in sorted(now.items()):
            if before.get(target) != path:
                changes.setdefault(path, []).append(target)
        self._sent[contract] = now
        for path_or_none, targets in changes.items():
            for at in range(0, len(targets), _A_MESSAGE):
                yield Reach(path_or_none, tuple(targets[at : at + _A_MESSAGE]))

    def _paths(self, clients: Collection[bytes]) -> dict[bytes, Path]:
        paths: dict[bytes, Path] = dict.fromkeys(clients, (self._own,))
        for target in {target for known in self._received.values() for target in known}:
            contract = self.next_hop(target)
            if contract is not None:
                paths.setdefault(target, (self._own, *self._received[contract][target]))
        return paths

    # Records

    def record(self, contract: bytes) -> Value:
        """Return the state of a neighbour as a record of the store."""
        return [
            [[list(path), target] for target, path in sorted(side.get(contract, {}).items())]
            for side in (self._received, self._sent)
        ]

    def load(self, contract: bytes, value: Value) -> None:
        """Load the state of a neighbour from its record."""
        assert isinstance(value, list)
        for side, rows in zip((self._received, self._sent), value, strict=True):
            side[contract] = {target: tuple(path) for path, target in rows}

    def paths(self) -> Mapping[bytes, Path]:
        """Return the path to each reachable client of another provider."""
        return {target: path[1:] for target, path in self._paths(()).items()}
