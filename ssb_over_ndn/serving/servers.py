"""Several feeds served behind one face: a demultiplexer of packets and deadlines."""

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from base.passive import Outputs
from base.timers import Timers
from forwarder.wire.packet import Data, Interest
from ssb_over_ndn.serving.server import FeedServer

K = TypeVar("K", bound=Hashable)


class Servers(Outputs, Generic[K]):
    """FeedServers by key. All calls to servers pass here, which tracks their outputs and deadlines without
    polling all of them.
    """

    def __init__(self) -> None:
        super().__init__()
        self._servers: dict[K, FeedServer] = {}
        self._timers: Timers[K] = Timers()

    def __contains__(self, key: object) -> bool:
        return key in self._servers

    def __iter__(self) -> Iterator[K]:
        return iter(self._servers)

    def add(self, key: K, server: FeedServer) -> None:
        """Serve a feed."""
        self._servers[key] = server
        self._follow_up(key, server)

    def remove(self, key: K) -> None:
        """Stop serving a feed; no effect if it is not served."""
        self._servers.pop(key, None)
        self._timers.set(key, None)

    def appended(self, key: K, seq: int, item: Data, now: int) -> None:
        """Push or announce a new item, if the feed is served."""
        server = self._servers.get(key)
        if server is not None:
            server.appended(seq, item, now)
            self._follow_up(key, server)

    def on_interest(self, key: K, interest: Interest, now: int) -> None:
        """Answer an Interest under a feed's name, if the feed is served."""
        server = self._servers.get(key)
        if server is not None:
            server.on_interest(interest, now)
            self._follow_up(key, server)

    def on_data(self, key: K, data: Data, now: int) -> None:
        """Pass a Data packet to a feed's announcer, if the feed is served."""
        server = self._servers.get(key)
        if server is not None:
            server.on_data(data, now)
            self._follow_up(key, server)

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        return self._timers.next_deadline()

    def wake(self, now: int) -> None:
        """Wake the servers whose deadlines have passed."""
        for key in self._timers.expire(now):
            server = self._servers[key]
            server.wake(now)
            self._follow_up(key, server)

    def _follow_up(self, key: K, server: FeedServer) -> None:
        self.outputs += server.take_outputs()
        self._timers.set(key, server.next_deadline())
