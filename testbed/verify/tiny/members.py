"""The nodes of a cell: honest ones, which are killed, and outsiders who overhear everything."""

from collections.abc import Callable
from random import Random
from typing import Any
from zlib import crc32

from base.endpoint import Address
from base.passive import PassiveEndpoint
from base.units import MS, SECOND
from ssb.tiny.isp.client import Client
from ssb.tiny.isp.provider.provider import Provider
from ssb.tiny.node import CHECKSUM, Node
from ssb.tiny.store import TinyStore
from testbed.verify.tiny.story import Hostility


class Killed(Exception):
    """The process dies here."""


class Member:
    """An Endpoint: a node with its program, on a store that outlives it.

    Args:
        store: its store.
        make: makes the program on a node, at a time.
        random: of the node.
        now: ns.
        died: called when it is killed.

    Attributes:
        party: the program.
    """

    def __init__(
        self,
        store: TinyStore,
        make: Callable[[Node, int], Provider | Client],
        random: Random,
        now: int,
        died: Callable[[], None],
    ) -> None:
        self.node = Node(store, random)
        self.party = make(self.node, now)
        self.is_dead = False
        self._died = died
        self._fatal: tuple[int, bool] | None = None

    def doom(self, packets: int, *, within: bool) -> None:
        """Kill it after `packets` more received packets, or within the last of them."""
        self._fatal = self.node.taken.total() + packets, within

    def receive(self, port: int, payload: bytes, sender: Address | None, now: int) -> None:
        if self.is_dead:
            return
        taken = self.node.taken.total()
        is_last = self._fatal is not None and taken + 1 >= self._fatal[0]
        tables = self.node.store._tables
        if is_last and self._fatal is not None and self._fatal[1]:
            tables.update = self._die  # type: ignore[method-assign, assignment]
        try:
            self.node.receive(port, payload, sender, now)
        except Killed:
            self._end()
        finally:
            vars(tables).pop("update", None)
        if is_last and self.node.taken.total() > taken:
            self._end()

    def _die(self, *_: Any) -> None:
        raise Killed

    def _end(self) -> None:
        if not self.is_dead:
            self.is_dead = True
            self._died()

    def set_link(self, port: int, up: bool, now: int) -> None:
        """See Endpoint."""

    def take_outputs(self) -> list[tuple[int, bytes, Address | None]]:
        return [] if self.is_dead else self.node.take_outputs()

    def next_deadline(self) -> int | None:
        return None if self.is_dead else self.node.next_deadline()

    def wake(self, now: int) -> None:
        if not self.is_dead:
            self.node.wake(now)


class Outsider(PassiveEndpoint):
    """An Endpoint that overhears everything, and replays it later, unchanged or mutated."""

    def __init__(self, random: Random, attack: Hostility) -> None:
        super().__init__()
        self._random = random
        self._attack = attack
        self._heard: list[bytes] = []
        self._due = SECOND

    def receive(self, port: int, payload: bytes, sender: Address | None, now: int) -> None:
        self._heard.append(payload[:-CHECKSUM])
        del self._heard[:-500]

    def next_deadline(self) -> int | None:
        return self._due

    def wake(self, now: int) -> None:
        """Send something."""
        if now < self._due:
            return
        self._due = now + self._random.randint(20, 400) * MS
        if self._heard:
            packet = self._random.choice(self._heard)
            if self._attack == "garble":
                packet = self._garbled(packet)
            self.outputs.append((1, packet + crc32(packet).to_bytes(CHECKSUM), None))

    def _garbled(self, packet: bytes) -> bytes:
        """Return a packet cut, lengthened, or with a flipped bit, mostly after its demultiplexer."""
        random = self._random
        kind = random.randrange(5)
        if kind == 0:
            return packet[: random.randrange(len(packet) + 1)]
        if kind == 1:
            return packet + random.randbytes(random.randint(1, 60))
        if kind == 2:
            return packet[:7] + random.randbytes(random.randint(1, 113))
        changed = bytearray(packet)
        changed[random.randrange(7 if len(changed) > 7 and kind == 3 else 0, len(changed))] ^= (
            1 << random.randrange(8)
        )
        return bytes(changed)
