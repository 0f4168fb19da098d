"""Which clients of other providers a provider reaches, and through whom.

Each provider tells its neighbours, by `reach` in its control feeds for them, to which clients it has a way,
and through which providers: a *path* begins with who tells and ends with the client's own provider. It hears
the same from them, takes the shortest way for each client, and tells of that in turn, with itself in front.

**Loops.** A path with the own provider in it is not taken, and none is told to who is in it. So whatever
changes, no way can lead in a circle for longer than news take; and a request that meets a feed that is known
at a provider is refused there (`ssb.tiny.isp.provider.switch`).

A neighbour can lie about whom it reaches. Then requests go astray, but it cannot answer in a client's name:
answers are signed (`ssb.tiny.isp.evidence`).
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from ssb.bipf import Value
from ssb.tiny.isp.messages import Reach

Path = tuple[bytes, ...]
"""Providers, by their root feeds."""

LONGEST: Final = 16
"""Providers in a path."""
MOST_TARGETS: Final = 4096
"""Clients that one neighbour may tell of."""
_A_MESSAGE: Final = 20
"""Clients in one command."""


class Reachability:
    """Announcements received from neighbours and sent to them.

    Args:
        own: the provider's root feed.
    """

    def __init__(self, own: bytes) -> None:
        self._own = own
        self._heard: dict[bytes, dict[bytes, Path]] = {}  # contract -> client -> path
        self._told: dict[bytes, dict[bytes, Path]] = {}

    def hear(self, contract: bytes, neighbour: bytes, message: Reach) -> str | None:
        """Take in what a neighbour tells; return what is wrong with it, or None."""
        known = self._heard.setdefault(contract, {})
        path = message.path
        if path is None:
            for target in message.targets:
                known.pop(target, None)
            return None
        if not path or path[0] != neighbour or len(set(path)) != len(path):
            return "a path that leads nowhere"
        if len(path) > LONGEST or self._own in path:
            for target in message.targets:
                known.pop(target, None)  # it has no other way any more
            return None
        for target in message.targets:
            if target not in known and len(known) >= MOST_TARGETS:
                return "more clients than are noted"
            known[target] = path
        return None

    def forget(self, contract: bytes) -> None:
        """A neighbour's contract ends."""
        self._heard.pop(contract, None)
        self._told.pop(contract, None)

    def way(self, target: bytes, without: Collection[bytes] = ()) -> bytes | None:
        """Return the contract that leads to a client by the shortest path, or None.

        `without` are contracts that are of no use.
        """
        ways = (
            (len(known[target]), contract)
            for contract, known in self._heard.items()
            if target in known and contract not in without
        )
        return min(ways, default=(0, None))[1]

    def news(self, contract: bytes, neighbour: bytes, clients: Collection[bytes]) -> Iterator[Reach]:
        """Yield what a neighbour must be told since it was told last, given the own clients."""
        told = self._told.setdefault(contract, {})
        ways = self._ways(clients)
        now = {
            target: path
            for target, path in ways.items()
            if neighbour not in path and target != neighbour and len(path) <= LONGEST
        }
        changes: dict[Path | None, list[bytes]] = {}
        for target in sorted(told.keys() - now.keys()):
            changes.setdefault(None, []).append(target)
        for target, path in sorted(now.items()):
            if told.get(target) != path:
                changes.setdefault(path, []).append(target)
        self._told[contract] = now
        for path_or_none, targets in changes.items():
            for at in range(0, len(targets), _A_MESSAGE):
                yield Reach(path_or_none, tuple(targets[at : at + _A_MESSAGE]))

    def _ways(self, clients: Collection[bytes]) -> dict[bytes, Path]:
        ways: dict[bytes, Path] = dict.fromkeys(clients, (self._own,))
        for target in {target for known in self._heard.values() for target in known}:
            contract = self.way(target)
            if contract is not None:
                ways.setdefault(target, (self._own, *self._heard[contract][target]))
        return ways

    # Records

    def record(self, contract: bytes) -> Value:
        """Return what is kept of a neighbour, as a record of the store."""
        return [
            [[list(path), target] for target, path in sorted(side.get(contract, {}).items())]
            for side in (self._heard, self._told)
        ]

    def load(self, contract: bytes, value: Value) -> None:
        """Read what is kept of a neighbour."""
        assert isinstance(value, list)
        for side, rows in zip((self._heard, self._told), value, strict=True):
            side[contract] = {target: tuple(path) for path, target in rows}

    def paths(self) -> Mapping[bytes, Path]:
        """Return the path to each client of another provider that is reached."""
        return {target: path[1:] for target, path in self._ways(()).items()}
