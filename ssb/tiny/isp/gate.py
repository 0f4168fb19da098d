"""What a provider reads of its clients now, and what later: each may write so many commands as agreed.

A client that writes faster is not asked for more until its time has come, so what it writes waits on its own
disk. What the provider has caused costs nothing: an answer, or a `fin` that is due. So nobody can use up what
another may write.
"""

from collections.abc import Callable

from ssb.tiny.isp.terms import SECOND, Terms
from ssb.tiny.meter import Meter
from ssb.tiny.node import Node


class Gate:
    """The root and control feeds of clients, which are read at the pace of their terms.

    Args:
        node: replicates them.
        terms_with: returns the terms of a client, by its root feed.
    """

    def __init__(self, node: Node, terms_with: Callable[[bytes], Terms]) -> None:
        self._node = node
        self._terms_with = terms_with
        self._commands: dict[bytes, Meter] = {}
        self._packets: dict[bytes, Meter] = {}
        self._due: dict[bytes, int] = {}

    def admits(self, client: bytes, feed: bytes, now: int) -> bool:
        """Whether a client's next command may be read now; if not, its feed is read a second later."""
        meter = self._meter(client, now)
        if meter.take(now):
            return True
        self.close(feed, meter.due(max(SECOND // self._terms_with(client).pace, 1)))
        return False

    def admits_line(self, client: bytes, feed: bytes, packets: int, now: int) -> bool:
        """Whether the next entry of a client's line may be read now; if not, it goes on a second later."""
        terms = self._terms_with(client)
        if terms.line_pace is None:
            return True
        if client not in self._packets:
            self._packets[client] = Meter(terms.line_pace, terms.size, now)
        meter = self._packets[client]
        if meter.take(now, packets):
            return True
        self.close(feed, meter.due(max(SECOND // terms.line_pace, 1)))
        return False

    def give_back(self, client: bytes, now: int) -> None:
        """Let a command that was read cost nothing."""
        self._meter(client, now).give_back()

    def close(self, feed: bytes, due: int | None = None) -> None:
        """Read a feed no further before a time, ns; None if `open` will say when."""
        self._node.withhold(feed)
        if due is not None:
            self._due[feed] = due

    def open(self, feed: bytes, now: int) -> None:
        """Read a feed now, if no other time is set."""
        self._due.setdefault(feed, now)

    def next_deadline(self) -> int | None:
        """Return when a feed is to be read further, ns."""
        return min(self._due.values(), default=None)

    def take_opened(self, now: int) -> list[bytes]:
        """Return the feeds whose time has come; the node asks for them again."""
        opened = [feed for feed, due in self._due.items() if due <= now]
        for feed in opened:
            del self._due[feed]
            self._node.release(feed, now)
        return opened

    def _meter(self, client: bytes, now: int) -> Meter:
        if client not in self._commands:
            terms = self._terms_with(client)
            self._commands[client] = Meter(terms.pace, terms.burst, now)
        return self._commands[client]
