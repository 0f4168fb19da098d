"""A node in multicast trees: a router, and the sources and readers of the node itself."""

from collections.abc import Iterator, Mapping

from base.timers import Timers, earliest
from ssb.multicast.ends import Gone, Reader, Source
from ssb.multicast.packets import Channel, Join, Packet, Prune, Restart, encode, parse
from ssb.multicast.router import LOCAL, Router


class Host:
    """See the module.

    Args:
        router: with all links of the node.

    Attributes:
        outputs: packets for neighbours, each with its link's port.
        items: what readers have got, each with its channel: an item, or that segments are gone.
        ends: the sources and readers.
    """

    def __init__(self, router: Router) -> None:
        self.outputs: list[tuple[int, bytes]] = []
        self.items: list[tuple[Channel, bytes | Gone]] = []
        self.router = router
        self.ends: dict[Channel, Source | Reader] = {}
        self._due: Timers[Channel] = Timers()

    def add(self, channel: Channel, end: Source | Reader, now: int) -> None:
        """Add a source, or a reader, which joins."""
        self.ends[channel] = end
        self._settle([channel], now)

    def remove(self, channel: Channel, now: int) -> None:
        """Remove a reader, which leaves."""
        del self.ends[channel]
        self._due.set(channel, None)
        self.router.receive(LOCAL, Prune((channel,)), now)
        self._settle([], now)

    def publish(self, channel: Channel, item: bytes, now: int) -> None:
        """Send an item of a source here."""
        source = self.ends[channel]
        assert isinstance(source, Source)
        source.publish(item, now)
        self._settle([channel], now)

    def receive(self, port: int, data: bytes, now: int) -> None:
        """Process a neighbour's packet. Raises InvalidPacket."""
        self.router.receive(port, parse(data), now)
        self._settle([], now)

    def reroute(self, routes: Mapping[bytes, int], now: int) -> None:
        """See Router."""
        self.router.reroute(routes, now)
        self._settle([], now)

    def set_link(self, port: int, up: bool, now: int) -> None:
        """See Router."""
        self.router.set_link(port, up, now)
        self._settle([], now)

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        return earliest(self.router.next_deadline(), self._due.next_deadline())

    def wake(self, now: int) -> None:
        """Do what is due."""
        self.router.wake(now)
        due = self._due.expire(now)
        for channel in due:
            self.ends[channel].wake(now)
        self._settle(due, now)

    def _settle(self, touched: list[Channel], now: int) -> None:
        """Pass packets between the router and the ends, beginning with those to which something happened."""
        while True:
            for channel in touched:
                self._take(channel, now)
            outputs, self.router.outputs = self.router.outputs, []
            if not outputs:
                return
            touched = []
            for port, packet in outputs:
                if port != LOCAL:
                    self.outputs.append((port, encode(packet)))
                    continue
                for channel in _channels(packet):
                    if channel in self.ends:
                        self.ends[channel].receive(packet, now)
                        touched.append(channel)

    def _take(self, channel: Channel, now: int) -> None:
        end = self.ends[channel]
        if isinstance(end, Reader):
            self.items += [(channel, each) for each in end.items]
            end.items.clear()
        said, end.outputs = end.outputs, []
        for packet in said:
            self.router.receive(LOCAL, packet, now)
        self._due.set(channel, end.next_deadline())


def _channels(packet: Packet) -> Iterator[Channel]:
    if isinstance(packet, Join | Prune):
        yield from packet.channels
    elif not isinstance(packet, Restart):
        yield packet.channel
