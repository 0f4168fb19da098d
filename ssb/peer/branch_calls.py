"""The calls `branches` on the connections of a peer."""

from collections.abc import Collection, Iterator
from typing import Final

from ssb.branches.exchange import BRANCHES, BranchExchange
from ssb.message import Message
from ssb.peer.connection import Connection

BOTH: Final = "the other side has called, too"
"""Why one of two calls for the same purpose is ended."""
_NOBODY: Final = -1  # no connection


class BranchCalls:
    """One call on each connection with a peer that merges feeds, too, by whichever side.

    Args:
        exchange: the replication of merged feeds.

    Attributes:
        exchange: see above.
    """

    def __init__(self, exchange: BranchExchange) -> None:
        self.exchange = exchange

    def call(self, connection: Connection, now: int) -> None:
        """Make the call, if any feed is merged here and neither side has made it."""
        if self.exchange.wanted and connection.branches is None:
            self._open(connection, connection.calls.call(BRANCHES, [{}], "duplex"), now)

    def serve(self, connection: Connection, call: int, now: int) -> None:
        """Serve the other side's call, unless this side has made one, too, and its call stays.

        The call of the side that has opened the connection stays.
        """
        ours = connection.branches
        if ours is not None and (ours < 0 or connection.called is not None):
            connection.calls.end(call, BOTH)
            return
        if ours is not None:
            self.close(connection, now)
            connection.calls.end(ours, BOTH)
        self._open(connection, call, now)

    def close(self, connection: Connection, now: int) -> None:
        """End the exchange on a connection, if there is one."""
        if connection.branches is not None:
            connection.branches = None
            self.exchange.close(connection.number, now)

    def receive(self, connection: Connection, body: bytes, now: int, now_ms: float) -> None:
        """Process a part of the stream; raise ProtocolError."""
        self.exchange.receive(connection.number, [body], now, now_ms)

    def output_due(self, connection: Connection) -> int | None:
        """Return when there is output for a connection, ns; 0 for now, None for none."""
        return None if connection.branches is None else self.exchange.output_due(connection.number)

    def send_output(self, connection: Connection, room: int, now: int) -> None:
        """Send what is due on a connection: about `room` bytes at most."""
        if connection.branches is not None:
            for body in self.exchange.take_output(connection.number, room, now):
                connection.calls.send(connection.branches, body)

    def replace(self, feeds: Collection[str], now: int) -> bool:
        """Exchange the branches of these feeds from now on, and of no others; return whether that is new."""
        before = {*self.exchange.wanted}
        for feed in sorted(before.difference(feeds)):
            self.exchange.unwant(feed, now)
        self.exchange.want_all(feeds, now)
        return before != {*feeds}

    def came(self, messages: Collection[Message], now: int, by: int | None) -> list[Message]:
        """Tell of messages that another protocol has stored; return those that have come here.

        `by` is the connection of the messages; None if another source had them.
        """
        for message in messages:
            if message.author in self.exchange.wanted:
                self.exchange.pass_on(message, now, _NOBODY if by is None else by)
        return self.exchange.take_stored()

    def deadlines(self) -> Iterator[int | None]:
        """Yield when the exchange has to be woken, or has output on a connection, ns."""
        yield 0 if self.exchange.has_changed else None
        yield self.exchange.next_deadline()

    def _open(self, connection: Connection, call: int, now: int) -> None:
        connection.branches = call
        self.exchange.open(connection.number, connection.remote, is_caller=call > 0, now=now)
