"""Nodes of the studies, which measure traffic, storage or processor time, or lack priorities."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import process_time_ns
from typing import Any

from analysis.decode.protocols.tiny import DECLARATION
from base.endpoint import Address
from ssb.tiny.node import Node
from testbed.bench.tiny.provider_network import ISP, TinyNetwork


class MeteredNode(Node):
    """A node that counts sent packets and bytes, with their CRC, by port and kind of packet."""

    def __init__(self, *rest: Any, **more: Any) -> None:
        super().__init__(*rest, **more)
        self.bytes: Counter[tuple[int, str]] = Counter()
        self.packets: Counter[tuple[int, str]] = Counter()

    def take_outputs(self) -> list[tuple[int, bytes, Address | None]]:
        outputs = super().take_outputs()
        for port, packet, _ in outputs:
            assert DECLARATION.datagram is not None
            kind = DECLARATION.datagram(packet).kind
            self.bytes[port, kind] += len(packet)
            self.packets[port, kind] += 1
        return outputs


def sent_on_link(
    network: TinyNetwork, number: int, kinds: Sequence[str] = tuple(DECLARATION.kinds)
) -> tuple[int, int]:
    """Return packets and bytes of metered nodes on the link to client c`number`, both ways."""
    packets = size = 0
    for name, port in ((ISP, number + 1), (f"c{number}", 1)):
        node = network.nodes[name]
        assert isinstance(node, MeteredNode)
        packets += sum(node.packets[port, kind] for kind in kinds)
        size += sum(node.bytes[port, kind] for kind in kinds)
    return packets, size


class WeighedNode(Node):
    """A node that measures its storage.

    Attributes:
        most: peak of stored packet bytes, after any packet or command.
    """

    def __init__(self, *rest: Any, **more: Any) -> None:
        super().__init__(*rest, **more)
        self.most = 0

    def take_outputs(self) -> list[tuple[int, bytes, Address | None]]:
        """See Endpoint: the network calls it last."""
        self.most = max(self.most, self.store.size())
        return super().take_outputs()


class TimedNode(Node):
    """A node that measures its processor time and counts received packets.

    Attributes:
        cpu_ns: processor time of the node and its program, ns.
        received: packets.
    """

    def __init__(self, *rest: Any, **more: Any) -> None:
        super().__init__(*rest, **more)
        self.cpu_ns = self.received = 0

    def receive(self, port: int, payload: bytes, sender: Address | None, now: int) -> None:
        self.received += 1
        with self._timed():
            super().receive(port, payload, sender, now)

    def take_outputs(self) -> list[tuple[int, bytes, Address | None]]:
        with self._timed():
            return super().take_outputs()

    def next_deadline(self) -> int | None:
        with self._timed():
            return super().next_deadline()

    def wake(self, now: int) -> None:
        with self._timed():
            super().wake(now)

    @contextmanager
    def _timed(self) -> Iterator[None]:
        begun = process_time_ns()
        yield
        self.cpu_ns += process_time_ns() - begun


class NodeWithoutPriority(Node):
    """A node without priorities of sets."""

    def join(self, name: str, keys: Any, now: int, *, priority: int = 0, **more: Any) -> None:
        """Join a set, whatever its priority."""
        super().join(name, keys, now, **more)
